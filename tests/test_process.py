"""The package that starts programs: how they end, their time limits, and their evidence."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from snia_pts.errors import ToolMissing
from snia_pts.lab.process import program as process
from snia_pts.lab.process import staged

ROOT = Path(__file__).parent.parent


def run(evidence: Path, *argv: str, **how: Any) -> process.Finished:
    """Run a program with a timeout of ten seconds."""
    return process.run(argv, evidence=evidence, **{"timeout_seconds": 10, **how})


def script(evidence: Path, text: str, **how: Any) -> process.Finished:
    """Run a small shell script."""
    return run(evidence, "sh", "-c", text, **how)


def record(evidence: Path) -> dict[str, Any]:
    """Return the evidence of a program."""
    document = json.loads(evidence.with_suffix(".process.json").read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


def lives(pid: int) -> bool:
    """Return whether a process runs and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def gone(pid: int, seconds: float = 5) -> bool:
    """Return whether a process ends within some seconds."""
    until = time.monotonic() + seconds
    while lives(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not lives(pid)


def pid_in(file: Path) -> int:
    """Return the process number that a program writes into a file."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if file.exists() and file.read_text().endswith("\n"):
            return int(file.read_text())
        time.sleep(0.01)
    raise AssertionError(f"{file} was never written")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the time between SIGTERM and SIGKILL to a third of a second."""
    monkeypatch.setattr(process, "_GRACE_SECONDS", 0.3)


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_exit_code(tmp_path: Path, code: int) -> None:
    """The exit code is the program's, and it did not time out."""
    finished = script(tmp_path / "e", f"exit {code}")

    assert (finished.exit_code, finished.timed_out) == (code, False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_a_signal_is_a_negative_code(tmp_path: Path, number: signal.Signals) -> None:
    """If a signal ends a program, its code is the negative number of the signal."""
    assert script(tmp_path / "e", f"ulimit -c 0; kill -{number.value} $$").exit_code == -number


def test_evidence(tmp_path: Path) -> None:
    """Command, code, times and both outputs are kept separately, including bytes that are not text."""
    finished = script(tmp_path / "00001-x.fio", r"printf 'out \377'; echo err >&2; exit 3")

    assert (finished.stdout, finished.stderr) == ("out �", "err\n")
    assert record(tmp_path / "00001-x.fio") == {
        "argv": ["sh", "-c", r"printf 'out \377'; echo err >&2; exit 3"],
        "exit_code": 3,
        "timed_out": False,
        "stopped_seconds": None,
        "unkillable_pid": None,
        "started": finished.started,
        "started_monotonic_ns": finished.started_monotonic_ns,
        "ended_monotonic_ns": finished.ended_monotonic_ns,
        "stdout": "out �",
        "stderr": "err\n",
        "read_bytes": finished.read_bytes,
        "written_bytes": finished.written_bytes,
        "descriptors": {},
        "environment": {},
    }
    assert [path.name for path in tmp_path.iterdir()] == ["00001-x.process.json"]


def test_a_flood_of_output_does_not_block(tmp_path: Path) -> None:
    """A program with more output than a pipe holds ends, and the first part of its output is kept."""
    finished = script(tmp_path / "e", "head -c 3000000 /dev/zero | tr '\\0' x")

    assert finished.exit_code == 0
    assert finished.stdout == "x" * len(finished.stdout)
    assert 65536 <= len(finished.stdout) <= 3_000_000


def test_binary_output_is_a_file(tmp_path: Path) -> None:
    """Every byte of it is there after the program's end; the evidence of the program does not repeat it."""
    content = bytes(range(256)) * 2
    (tmp_path / "input").write_bytes(content)
    finished = process.run(
        ("cat", str(tmp_path / "input")),
        evidence=tmp_path / "e",
        timeout_seconds=30,
        stdout_file=tmp_path / "e.bin",
    )

    assert (tmp_path / "e.bin").read_bytes() == content
    assert (finished.exit_code, finished.stdout) == (0, "")
    assert json.loads((tmp_path / "e.process.json").read_text())["stdout"] == ""


def test_the_last_line_is_the_error_summary(tmp_path: Path) -> None:
    """It is the last line of stderr, else of stdout, else the exit code."""
    assert script(tmp_path / "a", "echo out; echo first >&2; echo ' last ' >&2").error_summary == "last"
    assert script(tmp_path / "b", "echo first; echo last").error_summary == "last"
    assert script(tmp_path / "c", "exit 7").error_summary == "exit code 7, no message"


def test_no_shell(tmp_path: Path) -> None:
    """Arguments reach the program unchanged, even those that a shell would interpret."""
    words = ("$HOME", "a b", "; touch x", "*", "`id`", "-n", "--", "", "new\nline", "'\"\\")
    finished = run(tmp_path / "e", sys.executable, "-c", "import sys; print(sys.argv[1:])", *words)

    assert finished.stdout == f"{list(words)}\n"
    assert not (tmp_path / "x").exists()


def test_programs_speak_english(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs run with LC_ALL=C, whatever the operator's language, and with the rest of the environment."""
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("SNIA_PTS_PROBE", "kept")

    assert script(tmp_path / "e", "echo $LC_ALL $SNIA_PTS_PROBE").stdout == "C kept\n"


def test_programs_have_no_input_and_their_own_group(tmp_path: Path) -> None:
    """A program cannot wait for the keyboard, and Ctrl-C at the terminal does not reach it."""
    keyboard, keys = os.pipe()
    before = os.dup(0)
    try:
        os.dup2(keyboard, 0)
        finished = script(tmp_path / "e", "cat; cut -d' ' -f5 /proc/$$/stat; echo $$", timeout_seconds=3)
    finally:
        os.dup2(before, 0)
        for descriptor in (keyboard, keys, before):
            os.close(descriptor)
    assert not finished.timed_out
    group, number = finished.stdout.split()

    assert group == number
    assert int(group) != os.getpgrp()


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    """ToolMissing names the program before any evidence is written; no package is named if none is known."""
    process.find.cache_clear()
    with pytest.raises(ToolMissing) as missing:
        run(tmp_path / "e", "no-such-program-here", "x")

    assert "no-such-program-here is needed" in str(missing.value)
    assert missing.value.hint == "Put it on the PATH."
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("program", "package"), [("blkdiscard", "util-linux"), ("fio", "fio")])
def test_a_missing_program_has_its_package(program: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedy says what to install: blkdiscard comes in util-linux."""
    process.find.cache_clear()
    monkeypatch.setattr(shutil, "which", lambda program, path: None)
    with pytest.raises(ToolMissing) as missing:
        process.find(program)

    assert f"apt install {package})" in missing.value.hint


@pytest.mark.device
def test_the_end_is_noticed_at_once(tmp_path: Path) -> None:
    """The end of a program is noticed within milliseconds: polling every 50 ms would make the median ten times that."""
    late = []
    for number in range(9):
        finished = run(
            tmp_path / f"{number}",
            sys.executable,
            "-c",
            "import time; time.sleep(0.06); print(time.monotonic_ns())",
        )
        late.append((finished.ended_monotonic_ns - int(finished.stdout)) / 1e6)

    assert 0 < sorted(late)[4] < 25  # most of it is the end of Python itself


def test_times_are_those_of_the_program(tmp_path: Path) -> None:
    """Start and end are the program's: the time that it slept is its duration."""
    before = time.monotonic_ns()
    finished = run(tmp_path / "e", "sleep", "0.2")

    assert before <= finished.started_monotonic_ns < finished.ended_monotonic_ns <= time.monotonic_ns()
    assert 0.2 <= finished.seconds < 1


# -- listening ------------------------------------------------------------------------------------------------------


def test_output_is_returned_while_the_program_runs(tmp_path: Path) -> None:
    """Each piece is returned before the program's end, as is what it writes just before its end."""
    pid, output = tmp_path / "pid", []
    text = f"echo $$ > {pid}; echo one; sleep 0.3; echo two; sleep 0.3; printf three"
    with process.Program(["sh", "-c", text], evidence=tmp_path / "e", listen=True) as program:
        for chunk in program.iter_stdout(10):
            output.append((chunk, lives(pid_in(pid))))

    assert output[:2] == [(b"one\n", True), (b"two\n", True)]
    assert output[2][0] == b"three"
    assert (program.finished.exit_code, program.finished.stdout) == (0, "")
    assert 0.6 <= program.finished.seconds < 5


def test_all_output_is_returned(tmp_path: Path) -> None:
    """The output of a program that writes more than a pipe holds and ends is read to its last byte."""
    with process.Program(["head", "-c", "9000000", "/dev/zero"], evidence=tmp_path / "e", listen=True) as program:
        output = sum(map(len, program.iter_stdout(10)))

    assert output == 9_000_000


def test_leaving_the_block_ends_the_program(tmp_path: Path) -> None:
    """A block that is left early leaves no program behind, and keeps the evidence."""
    pid = tmp_path / "pid"
    with process.Program(
        ["sh", "-c", f"echo $$ > {pid}; while :; do echo x; sleep 0.05; done"], evidence=tmp_path / "e", listen=True
    ) as program:
        next(program.iter_stdout(10))

    assert gone(pid_in(pid), 0.1)
    assert record(tmp_path / "e")["exit_code"] == -signal.SIGTERM


def test_reading_output_has_a_timeout_and_a_tick(tmp_path: Path) -> None:
    """A program that keeps writing is ended at its timeout; the tick continues about once a second."""
    ticks: list[float] = []
    with process.Program(
        ["sh", "-c", "while :; do echo x; sleep 0.01; done"], evidence=tmp_path / "e", listen=True
    ) as program:
        words = list(program.iter_stdout(2.5, lambda seconds, written: ticks.append(seconds)))

    assert len(words) > 20
    assert (program.finished.timed_out, program.finished.exit_code) == (True, -signal.SIGTERM)
    assert len(ticks) == 2
    assert 2.5 <= program.finished.seconds < 5


def test_a_hung_program_is_ended_at_its_timeout(tmp_path: Path) -> None:
    """It gets SIGTERM first, and is reported as timed out."""
    text = "trap 'echo asked; kill $!; exit 9' TERM; sleep 60 & wait"
    finished = script(tmp_path / "e", text, timeout_seconds=0.3)

    assert (finished.timed_out, finished.exit_code, finished.stdout) == (True, 9, "asked\n")
    assert 0.3 <= finished.seconds < 5
    assert record(tmp_path / "e")["timed_out"] is True


def test_a_program_that_ignores_sigterm_is_killed(tmp_path: Path, impatient: None) -> None:
    """SIGKILL follows after the grace period."""
    finished = script(tmp_path / "e", "trap '' TERM; echo $$; while :; do sleep 0.1; done", timeout_seconds=0.2)

    assert (finished.timed_out, finished.exit_code) == (True, -signal.SIGKILL)
    assert not Path(f"/proc/{int(finished.stdout)}").exists()


@pytest.mark.parametrize("trap", ["", "trap '' TERM; "], ids=["plain", "deaf"])
def test_the_whole_group_is_ended(tmp_path: Path, impatient: None, trap: str) -> None:
    """Children of a hung program are ended with it, including those that ignore SIGTERM."""
    child = tmp_path / "child"
    text = f"({trap}echo $(exec sh -c 'echo $PPID') > {child}; while :; do sleep 0.1; done) & wait"
    finished = script(tmp_path / "e", text, timeout_seconds=0.4)

    assert finished.timed_out
    assert gone(pid_in(child))


def test_an_exception_while_waiting_ends_the_program(tmp_path: Path) -> None:
    """On Ctrl-C while a program runs, it is ended, its evidence kept, and the exception passed on."""
    ticks: list[float] = []

    def tick(seconds: float, written: int) -> None:
        ticks.append(seconds)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        script(tmp_path / "e", f"echo begun; echo $$ > {tmp_path / 'pid'}; exec sleep 60", tick=tick)

    assert 0.9 < ticks[0] < 5
    assert gone(pid_in(tmp_path / "pid"))
    kept = record(tmp_path / "e")
    assert (kept["stdout"], kept["exit_code"], kept["timed_out"]) == ("begun\n", -signal.SIGTERM, False)


def begun(tmp_path: Path, text: str, then: Callable[[], None]) -> process.Finished:
    """Start a small shell script that first prints its number, and do something while it runs."""
    argv = ["sh", "-c", f"echo $$ > {tmp_path / 'pid'}; {text}"]
    with process.Program(argv, evidence=tmp_path / "e") as program:
        pid_in(tmp_path / "pid")
        then()
    return program.finished


def test_an_exception_at_the_start_ends_the_program(tmp_path: Path) -> None:
    """If preparing the next job fails, the running program is ended."""

    def fail() -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        begun(tmp_path, "exec sleep 60", fail)

    assert gone(pid_in(tmp_path / "pid"), 0.1)
    assert record(tmp_path / "e")["exit_code"] == -signal.SIGTERM


def test_a_second_ctrl_c_ends_the_grace_period(tmp_path: Path) -> None:
    """A program that ignores SIGTERM is then killed at once, and its evidence kept."""

    def press_twice() -> None:
        signal.signal(signal.SIGALRM, lambda number, frame: signal.raise_signal(signal.SIGINT))
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        raise KeyboardInterrupt

    before, began = signal.getsignal(signal.SIGALRM), time.monotonic()
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a job in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            begun(tmp_path, "trap '' TERM; while :; do sleep 0.1; done", press_twice)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.signal(signal.SIGINT, interrupt)

    assert time.monotonic() - began < 5
    assert gone(pid_in(tmp_path / "pid"), 0.1)
    assert record(tmp_path / "e")["exit_code"] == -signal.SIGKILL


def test_evidence_that_cannot_be_written_leaves_no_program(tmp_path: Path) -> None:
    """The program is ended before the exception is passed on."""
    marker = f"60.{os.getpid()}"
    with pytest.raises(OSError, match="No such file"):
        run(tmp_path / "no" / "e", "sleep", marker)

    assert not [
        owner
        for owner in Path("/proc").iterdir()
        if owner.name.isdigit() and lives(int(owner.name)) and marker in _command_line(owner)
    ]


def _command_line(owner: Path) -> str:
    try:
        return (owner / "cmdline").read_text()
    except OSError:
        return ""


def test_the_tick_has_time_and_bytes(tmp_path: Path) -> None:
    """It is called about once a second with the seconds since the start and the bytes written."""
    ticks: list[tuple[float, int]] = []
    target = tmp_path / "written"
    text = f"dd if=/dev/zero of={target} bs=1M count=3 conv=fsync 2>&1; exec sleep 1.3"
    script(tmp_path / "e", text, tick=lambda seconds, written: ticks.append((seconds, written)))

    assert len(ticks) == 1
    assert 0.9 < ticks[0][0] < 1.3
    assert ticks[0][1] >= 0


# -- the suite dies --------------------------------------------------------------------------------------------------

DEAF = "trap '' TERM HUP INT; echo $$ > {}; while :; do sleep 0.05; done"
STOPPED = "echo $$ > {}; kill -STOP $$; while :; do sleep 0.05; done"


def suite(tmp_path: Path, code: str) -> subprocess.Popen[bytes]:
    """Start a suite that uses programs."""
    head = (
        f"import os, sys, time\nfrom pathlib import Path\nfrom snia_pts.lab.process import program as process, staged\n"
        f"place = Path({str(tmp_path)!r})\n"
    )
    return subprocess.Popen([sys.executable, "-c", head + code], env={**os.environ, "PYTHONPATH": str(ROOT)})


@pytest.mark.parametrize("text", ["echo $$ > {}; exec sleep 60", DEAF, STOPPED], ids=["plain", "deaf", "stopped"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_dies_with_the_suite(tmp_path: Path, number: signal.Signals, text: str) -> None:
    """Even after SIGKILL of the suite no program goes on writing, whether it ignores signals or is stopped."""
    pid = tmp_path / "pid"
    argv = ["sh", "-c", text.format(pid)]
    code = f"with process.Program({argv!r}, evidence=place / 'e'):\n    sys.stdin.read() or os.read(os.pipe()[0], 1)\n"
    running = suite(tmp_path, code)
    program = pid_in(pid)
    assert lives(program)
    running.send_signal(number)
    running.wait()

    assert gone(program)


def test_a_prepared_program_does_nothing_until_it_starts(tmp_path: Path) -> None:
    """A prepared program that is dismissed never ran; it leaves neither a process nor evidence."""
    program = process.Program(["touch", str(tmp_path / "x")], evidence=tmp_path / "e")
    waiting = children()
    time.sleep(0.2)
    program.end()

    assert len(waiting) == 1
    assert all(map(gone, waiting))
    assert list(tmp_path.iterdir()) == []


#: Children that the worker has before a test: the servers of multiprocessing live until its end.
_EARLIER: set[int] = set()


@pytest.fixture(autouse=True)
def earlier_children() -> None:
    """Leave the children of earlier tests out of ``children``."""
    _EARLIER.clear()
    _EARLIER.update(children())


def children() -> list[int]:
    """Return the child processes of this one that the test started."""
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [pid for pid in map(int, text) if lives(pid) and pid not in _EARLIER]


@pytest.mark.long_but_first
@pytest.mark.parametrize("entered", [False, True], ids=["waiting", "just begun"])
def test_a_suite_that_dies_at_any_moment_of_the_start_leaves_nothing(tmp_path: Path, entered: bool) -> None:
    """A suite that ends before its program starts, or at that moment, leaves no program behind."""
    begin = "program.__enter__()" if entered else ""
    code = (
        f"program = process.Program(['sh', '-c', 'echo $$ > {tmp_path / 'pid'}; exec sleep 61.25'], "
        f"evidence=place / 'e')\n{begin}\nos.kill(os.getpid(), 9)\n"
    )
    for _ in range(10):
        suite(tmp_path, code).wait()

    until = time.monotonic() + 5
    while (left := [owner for owner in processes() if "sleep 61.25" in _command_line(owner)]) and (
        time.monotonic() < until
    ):
        time.sleep(0.01)
    assert left == []


def processes() -> list[Path]:
    """Return the folders of all processes."""
    return [owner for owner in Path("/proc").iterdir() if owner.name.isdigit() and lives(int(owner.name))]


# -- threads that wait -------------------------------------------------------------------------------------------------

#: A thread of a program, which creates a file when it is released.
THREAD = f"({staged.THREAD_READY} && sleep 0.3 && touch {{}}; {staged.THREAD_DONE})"


def awaiting(folder: Path, *names: str) -> str:
    """Wait for these files, and a little longer (SIGCHLD is blocked, so that ``wait`` would not end)."""
    there = " && ".join(f"[ -e {folder / name} ]" for name in names)
    return f"until {there}; do sleep 0.1; done; sleep 0.3"


def lined_up(folder: Path, *threads: str) -> staged.StagedProgram:
    """Start a program whose threads wait."""
    text = " & ".join(THREAD.format(folder / name) for name in threads) + f" & {awaiting(folder, *threads)}"
    return staged.StagedProgram(
        ["sh", "-c", text], threads=len(threads), evidence=folder / "e", child_signals=process.ChildSignalListener()
    )


def test_threads_work_when_they_are_released(tmp_path: Path) -> None:
    """They wait before; the start and end of their work are reported, not those of the program."""
    program = lined_up(tmp_path, "a", "b")
    time.sleep(0.5)
    before = list(tmp_path.iterdir())
    let_go = time.monotonic_ns()
    program.start()
    done_ns = program.wait_for_io_end(10)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "e.process.json"}
    assert not program.reap()
    list(program.iter_stdout(10))
    program.end()

    assert before == []
    assert done_ns == program.finished.ended_monotonic_ns == record(tmp_path / "e")["ended_monotonic_ns"]
    assert program.finished.exit_code == 0
    assert let_go <= program.finished.started_monotonic_ns <= done_ns - 0.3e9


def test_threads_are_released_at_the_requested_time(tmp_path: Path) -> None:
    """However early the program starts, no thread works before that time, and all do just after it."""
    program = lined_up(tmp_path, "a", "b")
    program.release_at_ns = time.monotonic_ns() + 1_200_000_000
    program.start()
    started_ns = program.started_ns
    done_ns = program.wait_for_io_end(10) or 0
    program.end()

    assert program.release_at_ns <= started_ns < program.release_at_ns + 20_000_000
    assert done_ns >= started_ns + 300_000_000


@pytest.mark.long_but_first
@pytest.mark.parametrize("listen", [False, True])
def test_the_spread_of_threads_is_that_of_their_ends(tmp_path: Path, *, listen: bool) -> None:
    """It is from the first report to the last, even while output is read; one thread has none."""
    threads = [f"({staged.THREAD_READY} && sleep {seconds}; {staged.THREAD_DONE})" for seconds in (0.2, 0.3, 0.6)]
    spreads = []
    for working in (threads, threads[:1]):
        program = staged.StagedProgram(
            ["sh", "-c", " & ".join([*working, "sleep 1.2; echo done"])],
            threads=len(working),
            evidence=tmp_path / f"{len(working)}",
            child_signals=process.ChildSignalListener(),
            listen=listen,
        )
        program.start()
        if not listen:
            program.wait_for_io_end(10)
        text = b"".join(program.iter_stdout(10))
        program.end()
        spreads.append(program.thread_spread_ns)
        assert text == (b"done\n" if listen else b"")
        assert program.finished.seconds < 1.1

    assert spreads[0] is not None
    assert spreads[0] / 1e9 == pytest.approx(0.4, abs=0.1)
    assert spreads[1] is None


def test_a_program_is_not_signalled_while_a_thread_ends(tmp_path: Path) -> None:
    """No signal is sent within 0.1 s after a thread's report, or after the last report; other signals are sent late."""
    threads = [f"({staged.THREAD_READY} && sleep {seconds}; {staged.THREAD_DONE})" for seconds in (0.48, 0.8)]
    text = 'trap "echo x" USR1; n=0; while [ $n -lt 30 ]; do sleep 0.05; n=$((n + 1)); done'
    program, times = (
        staged.StagedProgram(
            ["sh", "-c", " & ".join([*threads, text])],
            threads=2,
            evidence=tmp_path / "e",
            child_signals=process.ChildSignalListener(),
            listen=True,
        ),
        [],
    )
    program.start()
    for chunk in program.iter_stdout(10, reports=process.ReportSchedule(seconds=0.5, count=1)):
        times += [(time.monotonic_ns() - program.started_ns) / 1e9] * len(chunk.split())
    program.end()

    assert len(times) == 1
    assert 0.57 <= times[0] < 0.8


def test_a_program_is_signalled_at_the_requested_interval(tmp_path: Path) -> None:
    """SIGUSR1 is sent at the multiples of the interval from the start, but not in the first second."""
    text = 'trap "echo x" USR1; n=0; while [ $n -lt 24 ]; do sleep 0.1; n=$((n + 1)); done'
    program, began, times = process.Program(["sh", "-c", text], evidence=tmp_path / "e", listen=True), 0.0, []
    with program:
        began = time.monotonic()
        for chunk in program.iter_stdout(10, reports=process.ReportSchedule(seconds=0.4, count=5)):
            times += [time.monotonic() - began] * len(chunk.split())

    assert times == pytest.approx([1.0, 1.2, 1.6, 2.0], abs=0.2)
    assert times[0] >= 0.95


def test_threads_that_are_never_released_do_nothing(tmp_path: Path) -> None:
    """Ending a program whose threads wait leaves no work, no evidence and no process."""
    program = lined_up(tmp_path, "a", "b")
    found = children()
    time.sleep(0.4)
    program.end()
    time.sleep(0.5)

    assert len(found) == 1
    assert all(map(gone, found))
    assert list(tmp_path.iterdir()) == []


def test_threads_do_nothing_when_the_suite_dies(tmp_path: Path) -> None:
    """The end of the suite closes the socket; no thread takes that for the go-ahead."""
    text = THREAD.format(tmp_path / "a")
    code = (
        f"program = staged.StagedProgram(['setsid', 'sh', '-c', {text!r}], threads=1, evidence=place / 'e', "
        "child_signals=process.ChildSignalListener())\ntime.sleep(0.4)\nos.kill(os.getpid(), 9)\n"
    )
    assert suite(tmp_path, code).wait() == -signal.SIGKILL
    time.sleep(0.7)

    assert list(tmp_path.iterdir()) == []


def test_the_end_of_a_shell_interrupts_no_thread(tmp_path: Path) -> None:
    """Threads block SIGCHLD: fio 3.33 loses count of I/Os in flight if it interrupts their system call."""
    program = lined_up(tmp_path, "a")
    status = Path(f"/proc/{children()[0]}/status").read_text(encoding="ascii")
    program.end()

    blocked = int(re.search(r"SigBlk:\s*([0-9a-f]+)", status)[1], 16)  # type: ignore[index]
    assert blocked >> signal.SIGCHLD - 1 & 1


def test_a_missing_thread_releases_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a thread is not ready in time, none is released, and the program is ended without a report of a slow host."""
    monkeypatch.setattr(staged, "_READY_SECONDS", 0.7)
    program = staged.StagedProgram(
        ["sh", "-c", THREAD.format(tmp_path / "a") + " & sleep 30"],
        threads=2,
        evidence=tmp_path / "e",
        child_signals=process.ChildSignalListener(),
    )
    program.start()
    exited_by_then, late = program.reap(), program.timed_out
    program.end()

    assert (exited_by_then, late, program.threads_missing) == (True, False, False)
    assert (program.ready_threads, program.may_restart) == (1, False)
    assert not (tmp_path / "a").exists()


def test_a_thread_that_is_lost_while_it_waits_is_noticed(tmp_path: Path) -> None:
    """Fewer working threads than released ones are reported, whatever the exit code."""
    text = f"{THREAD.format(tmp_path / 'a')} & (echo >&3; exec sleep 0.1) & {awaiting(tmp_path, 'a')}"
    program = staged.StagedProgram(
        ["sh", "-c", text], threads=2, evidence=tmp_path / "e", child_signals=process.ChildSignalListener()
    )
    time.sleep(0.5)
    program.start()
    done = program.wait_for_io_end(10)
    list(program.iter_stdout(10))
    program.end()

    assert (done, program.threads_missing, program.finished.exit_code) == (None, True, 0)
    assert (tmp_path / "a").exists()


def test_a_stop_that_ended_before_the_work_does_not_count(tmp_path: Path) -> None:
    """Stopping and continuing a program while its threads wait does no harm."""
    program = lined_up(tmp_path, "a")
    (pid,) = children()
    time.sleep(0.3)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.2)
    os.kill(pid, signal.SIGCONT)
    with program:
        assert program.wait_for_io_end(10)
        list(program.iter_stdout(10))

    assert (program.finished.stopped_seconds, program.finished.exit_code) == (None, 0)


def test_a_program_that_ends_before_its_release_is_reported(tmp_path: Path) -> None:
    """It closes its socket before it ends: the suite waits for that, and reports the program's own end."""
    program = staged.StagedProgram(
        ["sh", "-c", "exec 3<&-; sleep 0.4; exit 3"],
        threads=1,
        evidence=tmp_path / "e",
        child_signals=process.ChildSignalListener(),
    )
    program.start()
    exited_by_then = program.reap()
    program.end()

    assert (exited_by_then, program.finished.exit_code) == (True, 3)


@pytest.mark.parametrize("text", ["exit 3", f"{staged.THREAD_READY}; exit 3"], ids=["before", "at work"])
def test_a_program_that_fails_early_is_not_waited_for(tmp_path: Path, text: str) -> None:
    """Its end is noticed at once if its threads are not ready, or not done."""
    began = time.monotonic()
    program = staged.StagedProgram(
        ["sh", "-c", text], threads=1, evidence=tmp_path / "e", child_signals=process.ChildSignalListener()
    )
    program.start()
    done = program.wait_for_io_end(30)
    list(program.iter_stdout(30))
    program.end()

    assert (done, program.finished.exit_code, program.finished.timed_out) == (None, 3, False)
    assert time.monotonic() - began < 10


def test_two_programs_are_observed_at_once(tmp_path: Path) -> None:
    """A stop of either is noticed, in any order of start and end; afterwards the old SIGCHLD handler is restored."""
    before, child_signals = signal.getsignal(signal.SIGCHLD), process.ChildSignalListener()
    first, second = (
        process.Program(["sleep", seconds], evidence=tmp_path / seconds, child_signals=child_signals)
        for seconds in ("0.5", "0.9")
    )
    with first:
        second.start()
        first.wait_for_io_end(10)
    os.kill(children()[0], signal.SIGSTOP)
    second.wait_for_io_end(10)
    second.end()

    assert first.finished.stopped_seconds is None
    assert second.finished.stopped_seconds is not None
    assert signal.getsignal(signal.SIGCHLD) == before


# -- stopped by another process ---------------------------------------------------------------------------------------


def test_a_program_that_was_not_stopped_has_no_stop_time(tmp_path: Path) -> None:
    """The value is None for a program that ran without a stop."""
    assert script(tmp_path / "e", "sleep 0.1").stopped_seconds is None


@pytest.mark.parametrize("pause", [0.01, 0.3])
def test_a_short_stop_is_noticed(tmp_path: Path, pause: float) -> None:
    """SIGSTOP and SIGCONT from outside are reported with the time between, although the program then ends normally."""
    text = f"(sleep 0.1; kill -STOP $$; sleep {pause}; kill -CONT $$) & exec sleep 0.7"
    finished = script(tmp_path / "e", text)

    assert finished.exit_code == 0
    assert finished.stopped_seconds is not None
    assert pause - 0.2 < finished.stopped_seconds < pause + 1
    assert record(tmp_path / "e")["stopped_seconds"] == finished.stopped_seconds
    assert "another process stopped it for about" in finished.error_summary


def test_a_stopped_program_is_ended_early(tmp_path: Path) -> None:
    """If it stays stopped, it is ended in about a second, long before its timeout, and not called timed out."""
    finished = script(tmp_path / "e", "kill -STOP $$; sleep 60", timeout_seconds=30)

    assert finished.seconds < 10
    assert finished.stopped_seconds == pytest.approx(finished.seconds, abs=1)
    assert (finished.timed_out, finished.exit_code) == (False, -signal.SIGTERM)


def test_a_stop_is_noticed_in_another_thread(tmp_path: Path) -> None:
    """Without signals, the kernel is polled about once a second, and still has the stop."""
    found: list[process.Finished] = []
    text = "(sleep 0.1; kill -STOP $$; sleep 0.1; kill -CONT $$) & sleep 60"
    thread = threading.Thread(target=lambda: found.append(script(tmp_path / "e", text)))
    thread.start()
    thread.join()

    assert found[0].stopped_seconds is not None
    assert found[0].seconds < 9


def test_the_sigchld_handler_is_restored(tmp_path: Path) -> None:
    """The handler of SIGCHLD before a program is the handler after it."""

    def hear(_number: int, _frame: object) -> None:
        pass

    before = signal.signal(signal.SIGCHLD, hear)
    try:
        script(tmp_path / "e", "exit 0")
        assert signal.getsignal(signal.SIGCHLD) is hear
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_the_exit_code_is_known_if_children_are_ignored(tmp_path: Path) -> None:
    """A suite that was started with SIGCHLD ignored still gets the exit codes of its programs."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert script(tmp_path / "e", "exit 7").exit_code == 7
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_stopped_suite_does_not_take_a_program_for_hung(tmp_path: Path) -> None:
    """A program that ended in time has not timed out, although the suite checks after the timeout."""
    with process.Program(["sh", "-c", "echo done"], evidence=tmp_path / "e", listen=True) as program:
        time.sleep(0.5)  # as if stopped with Ctrl-Z
        output = b"".join(program.iter_stdout(0.3))

    assert (program.finished.timed_out, program.finished.exit_code, output) == (False, 0, b"done\n")


def test_a_program_that_blocks_sigterm_is_killed_at_once(tmp_path: Path) -> None:
    """A program inherits a blocked SIGTERM: waiting for its effect would only take time."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
    try:
        began = time.monotonic()
        finished = process.run(["sleep", "60"], evidence=tmp_path / "sleep", timeout_seconds=0.2)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert finished.timed_out
    assert finished.exit_code == -signal.SIGKILL
    assert time.monotonic() - began < 10  # the grace period is longer


def test_a_claim_lasts_until_the_program_has_ended(tmp_path: Path) -> None:
    """After SIGKILL of the suite, its program completes its work and keeps the lock of the claim until then."""
    locked, ready, done = (tmp_path / name for name in ("locked", "ready", "done"))
    locked.touch()
    work = f"trap 'sleep 0.5; touch {done}; exit' TERM; touch {ready}; while :; do sleep 0.01; done"
    suite = (
        "import fcntl, os, sys, time\n"
        "from pathlib import Path\n"
        "from snia_pts.lab.process.inherited import InheritedFiles\n"
        "from snia_pts.lab.process.program import run\n"
        "claim = os.open(sys.argv[1], os.O_RDWR)\n"
        "fcntl.flock(claim, fcntl.LOCK_EX)\n"
        "run(('sh', '-c', sys.argv[2]), evidence=Path(sys.argv[3]), timeout_seconds=60,\n"
        "    inherited=InheritedFiles(claims=(claim,)))\n"
    )
    with subprocess.Popen([sys.executable, "-c", suite, locked, work, tmp_path / "e"], cwd=ROOT) as child:
        while not ready.exists():
            assert child.poll() is None
            time.sleep(0.01)
        child.kill()
    with locked.open("rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

    assert done.exists()
