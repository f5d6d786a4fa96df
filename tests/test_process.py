"""The one place that starts programs: ends, limits, evidence."""

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
    """Run a program with ten seconds of patience."""
    return process.run(argv, evidence=evidence, **{"timeout_seconds": 10, **how})


def script(evidence: Path, text: str, **how: Any) -> process.Finished:
    """Run a small shell script."""
    return run(evidence, "sh", "-c", text, **how)


def record(evidence: Path) -> dict[str, Any]:
    """Return what was kept of a program."""
    document = json.loads(evidence.with_suffix(".process.json").read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


def lives(pid: int) -> bool:
    """Does a process run (and is it no zombie)?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def gone(pid: int, seconds: float = 5) -> bool:
    """Is a process gone within some seconds?"""
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
    """Let SIGTERM have a third of a second."""
    monkeypatch.setattr(process, "_GRACE_SECONDS", 0.3)


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_exit_code(tmp_path: Path, code: int) -> None:
    """The exit code is the program's, and it did not time out."""
    finished = script(tmp_path / "e", f"exit {code}")

    assert (finished.exit_code, finished.timed_out) == (code, False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_a_signal_is_a_negative_code(tmp_path: Path, number: signal.Signals) -> None:
    """A program that dies of a signal has that signal, negative, as its code."""
    assert script(tmp_path / "e", f"ulimit -c 0; kill -{number.value} $$").exit_code == -number


def test_evidence(tmp_path: Path) -> None:
    """Command, code, times and both outputs are kept, each output in its own place, bytes that are no text too."""
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
        "descriptors": {},
        "environment": {},
    }
    assert [path.name for path in tmp_path.iterdir()] == ["00001-x.process.json"]


def test_a_flood_of_output_neither_blocks_nor_breaks(tmp_path: Path) -> None:
    """A program that says more than a pipe holds ends, and its beginning is kept."""
    finished = script(tmp_path / "e", "head -c 3000000 /dev/zero | tr '\\0' x")

    assert finished.exit_code == 0
    assert finished.stdout == "x" * len(finished.stdout)
    assert 65536 <= len(finished.stdout) <= 3_000_000


def test_binary_output_is_a_file(tmp_path: Path) -> None:
    """Every byte of it is there, once the program has ended; the evidence of the program has no text of it."""
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


def test_the_last_line_is_the_complaint(tmp_path: Path) -> None:
    """A sentence about a failure takes the last line of stderr, else of stdout, else the code."""
    assert script(tmp_path / "a", "echo out; echo first >&2; echo ' last ' >&2").error_summary == "last"
    assert script(tmp_path / "b", "echo first; echo last").error_summary == "last"
    assert script(tmp_path / "c", "exit 7").error_summary == "exit code 7, no message"


def test_no_shell(tmp_path: Path) -> None:
    """Arguments reach the program as they are, whatever a shell would do with them."""
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
    """ToolMissing tells the program before anything is kept; no package is named that nobody knows of."""
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


def test_the_end_is_seen_at_once(tmp_path: Path) -> None:
    """The end of a program is seen within milliseconds: with a poll of 50 ms the median would be ten times that."""
    late = []
    for number in range(9):
        finished = run(
            tmp_path / f"{number}",
            sys.executable,
            "-c",
            "import time; time.sleep(0.06); print(time.monotonic_ns())",
        )
        late.append((finished.ended_monotonic_ns - int(finished.stdout)) / 1e6)

    assert 0 < sorted(late)[4] < 25  # most of it is Python's own end


def test_times_embrace_the_program(tmp_path: Path) -> None:
    """Start and end are the program's: what it slept is its seconds."""
    before = time.monotonic_ns()
    finished = run(tmp_path / "e", "sleep", "0.2")

    assert before <= finished.started_monotonic_ns < finished.ended_monotonic_ns <= time.monotonic_ns()
    assert 0.2 <= finished.seconds < 1


# -- listening ------------------------------------------------------------------------------------------------------


def test_what_a_program_says_is_heard_while_it_runs(tmp_path: Path) -> None:
    """Each word is given as it is said, before the program's end; what it leaves unsaid until its end is heard too."""
    pid, heard = tmp_path / "pid", []
    text = f"echo $$ > {pid}; echo one; sleep 0.3; echo two; sleep 0.3; printf three"
    with process.Program(["sh", "-c", text], evidence=tmp_path / "e", listen=True) as program:
        for said in program.iter_stdout(10):
            heard.append((said, lives(pid_in(pid))))

    assert heard[:2] == [(b"one\n", True), (b"two\n", True)]
    assert heard[2][0] == b"three"
    assert (program.finished.exit_code, program.finished.stdout) == (0, "")
    assert 0.6 <= program.finished.seconds < 5


def test_all_that_is_said_is_heard(tmp_path: Path) -> None:
    """A program that says more than any pipe holds, and ends at once, is heard to its last byte."""
    with process.Program(["head", "-c", "9000000", "/dev/zero"], evidence=tmp_path / "e", listen=True) as program:
        heard = sum(map(len, program.iter_stdout(10)))

    assert heard == 9_000_000


def test_a_listener_who_stops_ends_the_program(tmp_path: Path) -> None:
    """A block that is left early leaves no program behind, and keeps the evidence."""
    pid = tmp_path / "pid"
    with process.Program(
        ["sh", "-c", f"echo $$ > {pid}; while :; do echo x; sleep 0.05; done"], evidence=tmp_path / "e", listen=True
    ) as program:
        next(program.iter_stdout(10))

    assert gone(pid_in(pid), 0.1)
    assert record(tmp_path / "e")["exit_code"] == -signal.SIGTERM


def test_listening_has_its_limit_and_its_tick(tmp_path: Path) -> None:
    """A program that talks and talks is ended at its limit; the tick goes on about once a second meanwhile."""
    told: list[float] = []
    with process.Program(
        ["sh", "-c", "while :; do echo x; sleep 0.01; done"], evidence=tmp_path / "e", listen=True
    ) as program:
        words = list(program.iter_stdout(2.5, lambda seconds, written: told.append(seconds)))

    assert len(words) > 20
    assert (program.finished.timed_out, program.finished.exit_code) == (True, -signal.SIGTERM)
    assert len(told) == 2
    assert 2.5 <= program.finished.seconds < 5


def test_a_hung_program_is_ended_at_the_limit(tmp_path: Path) -> None:
    """A program that goes on beyond the limit gets SIGTERM first, and counts as timed out."""
    text = "trap 'echo asked; kill $!; exit 9' TERM; sleep 60 & wait"
    finished = script(tmp_path / "e", text, timeout_seconds=0.3)

    assert (finished.timed_out, finished.exit_code, finished.stdout) == (True, 9, "asked\n")
    assert 0.3 <= finished.seconds < 5
    assert record(tmp_path / "e")["timed_out"] is True


def test_a_program_deaf_to_sigterm_is_killed(tmp_path: Path, impatient: None) -> None:
    """After the patience comes SIGKILL."""
    finished = script(tmp_path / "e", "trap '' TERM; echo $$; while :; do sleep 0.1; done", timeout_seconds=0.2)

    assert (finished.timed_out, finished.exit_code) == (True, -signal.SIGKILL)
    assert not Path(f"/proc/{int(finished.stdout)}").exists()


@pytest.mark.parametrize("trap", ["", "trap '' TERM; "], ids=["plain", "deaf"])
def test_the_whole_group_is_ended(tmp_path: Path, impatient: None, trap: str) -> None:
    """Children of a program that hangs are ended with it, those deaf to SIGTERM too."""
    child = tmp_path / "child"
    text = f"({trap}echo $(exec sh -c 'echo $PPID') > {child}; while :; do sleep 0.1; done) & wait"
    finished = script(tmp_path / "e", text, timeout_seconds=0.4)

    assert finished.timed_out
    assert gone(pid_in(child))


def test_an_exception_while_waiting_ends_the_program(tmp_path: Path) -> None:
    """Ctrl-C while a program runs: the program is ended, its evidence kept, and the exception goes on upwards."""
    seen: list[float] = []

    def tick(seconds: float, written: int) -> None:
        seen.append(seconds)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        script(tmp_path / "e", f"echo begun; echo $$ > {tmp_path / 'pid'}; exec sleep 60", tick=tick)

    assert 0.9 < seen[0] < 5
    assert gone(pid_in(tmp_path / "pid"))
    kept = record(tmp_path / "e")
    assert (kept["stdout"], kept["exit_code"], kept["timed_out"]) == ("begun\n", -signal.SIGTERM, False)


def begun(tmp_path: Path, text: str, then: Callable[[], None]) -> process.Finished:
    """Run a small shell script that first tells its number, and do something while it runs."""
    argv = ["sh", "-c", f"echo $$ > {tmp_path / 'pid'}; {text}"]
    with process.Program(argv, evidence=tmp_path / "e") as program:
        pid_in(tmp_path / "pid")
        then()
    return program.finished


def test_an_exception_at_the_start_ends_the_program(tmp_path: Path) -> None:
    """What fails while the next job is made ready does not leave the running program behind."""

    def fail() -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        begun(tmp_path, "exec sleep 60", fail)

    assert gone(pid_in(tmp_path / "pid"), 0.1)
    assert record(tmp_path / "e")["exit_code"] == -signal.SIGTERM


def test_a_second_ctrl_c_ends_the_patience(tmp_path: Path) -> None:
    """Ctrl-C pressed again while a deaf program is being ended: it is killed at once, and its evidence kept."""

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


def test_evidence_that_cannot_be_kept_leaves_no_program(tmp_path: Path) -> None:
    """Where the evidence cannot be written, the program is ended before the exception goes on."""
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


def test_tick_tells_time_and_bytes(tmp_path: Path) -> None:
    """About once a second the seconds since the start and the bytes written are told."""
    told: list[tuple[float, int]] = []
    target = tmp_path / "written"
    text = f"dd if=/dev/zero of={target} bs=1M count=3 conv=fsync 2>&1; exec sleep 1.3"
    script(tmp_path / "e", text, tick=lambda seconds, written: told.append((seconds, written)))

    assert len(told) == 1
    assert 0.9 < told[0][0] < 1.3
    assert told[0][1] >= 0


# -- the suite dies --------------------------------------------------------------------------------------------------

DEAF = "trap '' TERM HUP INT; echo $$ > {}; while :; do sleep 0.05; done"
STOPPED = "echo $$ > {}; kill -STOP $$; while :; do sleep 0.05; done"


def suite(tmp_path: Path, code: str) -> subprocess.Popen[bytes]:
    """Start a suite that does something with programs."""
    head = (
        f"import os, sys, time\nfrom pathlib import Path\nfrom snia_pts.lab.process import program as process, staged\n"
        f"place = Path({str(tmp_path)!r})\n"
    )
    return subprocess.Popen([sys.executable, "-c", head + code], env={**os.environ, "PYTHONPATH": str(ROOT)})


@pytest.mark.parametrize("text", ["echo $$ > {}; exec sleep 60", DEAF, STOPPED], ids=["plain", "deaf", "stopped"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_dies_with_the_suite(tmp_path: Path, number: signal.Signals, text: str) -> None:
    """Even SIGKILL of the suite leaves no program behind that goes on writing, be it deaf to signals or stopped."""
    pid = tmp_path / "pid"
    argv = ["sh", "-c", text.format(pid)]
    code = f"with process.Program({argv!r}, evidence=place / 'e'):\n    sys.stdin.read() or os.read(os.pipe()[0], 1)\n"
    running = suite(tmp_path, code)
    program = pid_in(pid)
    assert lives(program)
    running.send_signal(number)
    running.wait()

    assert gone(program)


def test_a_prepared_program_does_nothing_until_it_begins(tmp_path: Path) -> None:
    """What is prepared and dismissed never ran; it leaves neither a process nor evidence."""
    program = process.Program(["touch", str(tmp_path / "x")], evidence=tmp_path / "e")
    waiting = children()
    time.sleep(0.2)
    program.end()

    assert len(waiting) == 1
    assert all(map(gone, waiting))
    assert list(tmp_path.iterdir()) == []


def children() -> list[int]:
    """Return the processes that this one has started."""
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(word) for word in text if lives(int(word))]


@pytest.mark.parametrize("entered", [False, True], ids=["waiting", "just begun"])
def test_a_suite_that_dies_at_any_moment_of_the_start_leaves_nothing(tmp_path: Path, entered: bool) -> None:
    """A suite that is gone before its program is, or at the moment it lets it begin, leaves none behind."""
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

#: A thread of a program, which leaves a file when it was let go.
THREAD = f"({staged.THREAD_READY} && sleep 0.3 && touch {{}}; {staged.THREAD_DONE})"


def awaiting(folder: Path, *names: str) -> str:
    """Wait for these files, and a little longer (SIGCHLD is blocked, so that ``wait`` would not end)."""
    there = " && ".join(f"[ -e {folder / name} ]" for name in names)
    return f"until {there}; do sleep 0.1; done; sleep 0.3"


def lined_up(folder: Path, *threads: str) -> staged.StagedProgram:
    """Begin a program whose threads wait."""
    text = " & ".join(THREAD.format(folder / name) for name in threads) + f" & {awaiting(folder, *threads)}"
    return staged.StagedProgram(
        ["sh", "-c", text], threads=len(threads), evidence=folder / "e", child_signals=process.ChildSignalListener()
    )


def test_threads_work_when_they_are_let_go(tmp_path: Path) -> None:
    """They are ready ahead and do nothing; let go, their work's beginning and end are told, not the program's."""
    program = lined_up(tmp_path, "a", "b")
    time.sleep(0.5)
    before = list(tmp_path.iterdir())
    let_go = time.monotonic_ns()
    program.start()
    done_ns = program.wait_for_io_end(10)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "e.process.json"}
    assert not program.exited
    list(program.iter_stdout(10))
    program.end()

    assert before == []
    assert done_ns == program.finished.ended_monotonic_ns == record(tmp_path / "e")["ended_monotonic_ns"]
    assert program.finished.exit_code == 0
    assert let_go <= program.finished.started_monotonic_ns <= done_ns - 0.3e9


def test_threads_are_released_at_the_time_asked(tmp_path: Path) -> None:
    """However early the program is told to begin, no thread works before that time, and all do just after it."""
    program = lined_up(tmp_path, "a", "b")
    program.release_at_ns = time.monotonic_ns() + 1_200_000_000
    program.start()
    started_ns = program.started_ns
    done_ns = program.wait_for_io_end(10) or 0
    program.end()

    assert program.release_at_ns <= started_ns < program.release_at_ns + 20_000_000
    assert done_ns >= started_ns + 300_000_000


@pytest.mark.parametrize("listen", [False, True])
def test_the_spread_of_threads_is_that_of_their_ends(tmp_path: Path, *, listen: bool) -> None:
    """From the first report to the last, also where the program's output is read meanwhile; none of one thread."""
    threads = [f"({staged.THREAD_READY} && sleep {seconds}; {staged.THREAD_DONE})" for seconds in (0.2, 0.3, 0.6)]
    spreads = []
    for working in (threads, threads[:1]):
        program = staged.StagedProgram(
            ["sh", "-c", " & ".join([*working, "sleep 1.2; echo said"])],
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
        assert text == (b"said\n" if listen else b"")
        assert program.finished.seconds < 1.1

    assert spreads[0] is not None
    assert spreads[0] / 1e9 == pytest.approx(0.4, abs=0.1)
    assert spreads[1] is None


def test_a_program_is_not_signalled_while_a_thread_ends(tmp_path: Path) -> None:
    """No signal comes within a tenth of a second of a thread's report, nor after the last one; others come late."""
    threads = [f"({staged.THREAD_READY} && sleep {seconds}; {staged.THREAD_DONE})" for seconds in (0.48, 0.8)]
    text = 'trap "echo x" USR1; n=0; while [ $n -lt 30 ]; do sleep 0.05; n=$((n + 1)); done'
    program, came = (
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
    for said in program.iter_stdout(10, reports=process.Reports(seconds=0.5, count=1)):
        came += [(time.monotonic_ns() - program.started_ns) / 1e9] * len(said.split())
    program.end()

    assert len(came) == 1
    assert 0.57 <= came[0] < 0.8


def test_a_program_is_signalled_as_often_as_asked(tmp_path: Path) -> None:
    """SIGUSR1 comes at the first multiples of a time from the start, but not within the first second."""
    text = 'trap "echo x" USR1; n=0; while [ $n -lt 24 ]; do sleep 0.1; n=$((n + 1)); done'
    program, began, came = process.Program(["sh", "-c", text], evidence=tmp_path / "e", listen=True), 0.0, []
    with program:
        began = time.monotonic()
        for said in program.iter_stdout(10, reports=process.Reports(seconds=0.4, count=5)):
            came += [time.monotonic() - began] * len(said.split())

    assert came == pytest.approx([1.0, 1.2, 1.6, 2.0], abs=0.2)
    assert came[0] >= 0.95


def test_threads_that_are_never_let_go_do_nothing(tmp_path: Path) -> None:
    """A program that is ended while its threads wait leaves no work, no evidence and no process."""
    program = lined_up(tmp_path, "a", "b")
    found = children()
    time.sleep(0.4)
    program.end()
    time.sleep(0.5)

    assert len(found) == 1
    assert all(map(gone, found))
    assert list(tmp_path.iterdir()) == []


def test_threads_do_nothing_when_the_suite_dies(tmp_path: Path) -> None:
    """Without the suite there is no word, and no thread takes that for one."""
    text = THREAD.format(tmp_path / "a")
    code = (
        f"program = staged.StagedProgram(['setsid', 'sh', '-c', {text!r}], threads=1, evidence=place / 'e', "
        "child_signals=process.ChildSignalListener())\ntime.sleep(0.4)\nos.kill(os.getpid(), 9)\n"
    )
    assert suite(tmp_path, code).wait() == -signal.SIGKILL
    time.sleep(0.7)

    assert list(tmp_path.iterdir()) == []


def test_the_end_of_a_shell_interrupts_no_thread(tmp_path: Path) -> None:
    """The threads have SIGCHLD blocked: fio 3.33 loses count of I/Os in flight where one interrupts its system call."""
    program = lined_up(tmp_path, "a")
    status = Path(f"/proc/{children()[0]}/status").read_text(encoding="ascii")
    program.end()

    blocked = int(re.search(r"SigBlk:\s*([0-9a-f]+)", status)[1], 16)  # type: ignore[index]
    assert blocked >> signal.SIGCHLD - 1 & 1


def test_threads_that_do_not_all_get_ready_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one is missing after a time, none is let go, and the program is gone: nobody says that it was too slow."""
    monkeypatch.setattr(staged, "_READY_SECONDS", 0.7)
    program = staged.StagedProgram(
        ["sh", "-c", THREAD.format(tmp_path / "a") + " & sleep 30"],
        threads=2,
        evidence=tmp_path / "e",
        child_signals=process.ChildSignalListener(),
    )
    program.start()
    exited_by_then, late = program.exited, program.timed_out
    program.end()

    assert (exited_by_then, late, program.threads_missing) == (True, False, False)
    assert (program.ready_threads, program.may_restart) == (1, False)
    assert not (tmp_path / "a").exists()


def test_a_thread_that_is_lost_while_it_waits_is_missed(tmp_path: Path) -> None:
    """Where fewer work than were let go, that is told, whatever the program's end says."""
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


def test_a_stop_that_is_over_before_the_work_is_none(tmp_path: Path) -> None:
    """Whoever holds a program while its threads wait, and lets it go on, has done no harm."""
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


def test_a_program_that_is_about_to_fall_is_gone_when_it_should_begin(tmp_path: Path) -> None:
    """It closes what it hears us by before it ends: that is awaited, and its own end is told, not ours."""
    program = staged.StagedProgram(
        ["sh", "-c", "exec 3<&-; sleep 0.4; exit 3"],
        threads=1,
        evidence=tmp_path / "e",
        child_signals=process.ChildSignalListener(),
    )
    program.start()
    exited_by_then = program.exited
    program.end()

    assert (exited_by_then, program.finished.exit_code) == (True, 3)


@pytest.mark.parametrize("text", ["exit 3", f"{staged.THREAD_READY}; exit 3"], ids=["before", "at work"])
def test_a_program_that_falls_is_not_waited_for(tmp_path: Path, text: str) -> None:
    """One that ends before its threads are ready, or done, has that seen at once."""
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


def test_two_programs_are_heard_at_once(tmp_path: Path) -> None:
    """A stop of either is noticed, whichever began or ended first; then whoever heard of children hears again."""
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


def test_a_program_nobody_stops_was_not_stopped(tmp_path: Path) -> None:
    """None is what is told of a program that ran through."""
    assert script(tmp_path / "e", "sleep 0.1").stopped_seconds is None


@pytest.mark.parametrize("pause", [0.01, 0.3])
def test_a_stop_is_noticed_however_short(tmp_path: Path, pause: float) -> None:
    """SIGSTOP and SIGCONT from outside are told, with the time between, though the program goes on to its end."""
    text = f"(sleep 0.1; kill -STOP $$; sleep {pause}; kill -CONT $$) & exec sleep 0.7"
    finished = script(tmp_path / "e", text)

    assert finished.exit_code == 0
    assert finished.stopped_seconds is not None
    assert pause - 0.2 < finished.stopped_seconds < pause + 1
    assert record(tmp_path / "e")["stopped_seconds"] == finished.stopped_seconds
    assert "another process stopped it for about" in finished.error_summary


def test_a_stopped_program_is_not_waited_for(tmp_path: Path) -> None:
    """One that stays stopped is ended within a second or so, long before its limit, and did not time out."""
    finished = script(tmp_path / "e", "kill -STOP $$; sleep 60", timeout_seconds=30)

    assert finished.seconds < 10
    assert finished.stopped_seconds == pytest.approx(finished.seconds, abs=1)
    assert (finished.timed_out, finished.exit_code) == (False, -signal.SIGTERM)


def test_a_stop_is_noticed_in_another_thread(tmp_path: Path) -> None:
    """Where signals are not heard the kernel is asked about once a second, and remembers."""
    found: list[process.Finished] = []
    text = "(sleep 0.1; kill -STOP $$; sleep 0.1; kill -CONT $$) & sleep 60"
    thread = threading.Thread(target=lambda: found.append(script(tmp_path / "e", text)))
    thread.start()
    thread.join()

    assert found[0].stopped_seconds is not None
    assert found[0].seconds < 9


def test_whoever_hears_of_children_hears_again(tmp_path: Path) -> None:
    """What listened to SIGCHLD before a program listens after it."""

    def hear(_number: int, _frame: object) -> None:
        pass

    before = signal.signal(signal.SIGCHLD, hear)
    try:
        script(tmp_path / "e", "exit 0")
        assert signal.getsignal(signal.SIGCHLD) is hear
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_an_exit_code_is_known_though_children_are_ignored(tmp_path: Path) -> None:
    """A suite that was started with SIGCHLD ignored still learns how its programs ended."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert script(tmp_path / "e", "exit 7").exit_code == 7
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_suite_that_stood_still_does_not_take_a_program_for_hung(tmp_path: Path) -> None:
    """A program that ended in time did not time out, though the suite looks only after the limit."""
    with process.Program(["sh", "-c", "echo done"], evidence=tmp_path / "e", listen=True) as program:
        time.sleep(0.5)  # as if stopped with Ctrl-Z
        heard = b"".join(program.iter_stdout(0.3))

    assert (program.finished.timed_out, program.finished.exit_code, heard) == (False, 0, b"done\n")


def test_a_program_that_cannot_hear_sigterm_is_killed_at_once(tmp_path: Path) -> None:
    """What is started while SIGTERM is held back inherits that: it would only cost patience."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
    try:
        began = time.monotonic()
        finished = process.run(["sleep", "60"], evidence=tmp_path / "sleep", timeout_seconds=0.2)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert finished.timed_out
    assert finished.exit_code == -signal.SIGKILL
    assert time.monotonic() - began < 10  # the patience is longer


def test_a_claim_lasts_until_the_program_has_ended(tmp_path: Path) -> None:
    """After SIGKILL of the suite its program completes its work, and holds the lock of the claim until then."""
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
