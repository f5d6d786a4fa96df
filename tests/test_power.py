"""Power meters: the protocol of their program, its readings in telemetry, and its end with the run."""

from __future__ import annotations

import csv
import os
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from snia_pts.cli.main import main
from snia_pts.errors import ToolMissing, UsageError
from snia_pts.lab.observation.interval_files import IntervalFiles
from snia_pts.lab.observation.power import PowerMeter, PowerObserver, parse_watts, power_command, power_meter
from snia_pts.lab.observation.telemetry import Observer
from snia_pts.lab.process.program import Program
from snia_pts.model.run_options import RunOptions
from snia_pts.model.telemetry import PowerReadings
from snia_pts.record.folder import RunFolder
from snia_pts.record.replay import assess
from snia_pts.runner.options import ResumeOptions
from snia_pts.runner.resume import resumed_options
from tests.purge.test_cli import SHORT
from tests.test_process import gone, lives
from tests.test_telemetry import Clock, clock

ROOT = Path(__file__).parent.parent
__all__ = ["clock"]
#: A recorded file of a meter.
RECORDING = "# Bench meter 3\n\n7.25\n  8.5 \n+9\n1.1e1\r\n# range changed\n.5\n"


@contextmanager
def printing(tmp_path: Path) -> Iterator[tuple[PowerMeter, Program, int]]:
    """Start a meter's program; yield the meter, the program, and a descriptor: the program prints what is written."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with Program(("cat", str(fifo)), evidence=None, listen=True) as program:
        descriptor = os.open(fifo, os.O_WRONLY)
        try:
            yield PowerMeter(program, "cat"), program, descriptor
        finally:
            os.close(descriptor)


def print_text(program: Program, descriptor: int, text: str) -> None:
    """Let the program print a text, and wait until it can be read."""
    os.write(descriptor, text.encode())
    assert program._stdout_pipe is not None
    assert select.select((program._stdout_pipe,), (), (), 30)[0]


def read_all(meter: PowerMeter, count: int) -> list[float]:
    """Return the first readings of a meter."""
    watts, until = list[float](), time.monotonic() + 30
    while len(watts) < count and time.monotonic() < until:
        watts += meter.read()
        time.sleep(0.01)
    return watts


# -- the protocol -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "watts"),
    [
        ("0", 0.0),
        ("12", 12.0),
        ("12.", 12.0),
        ("+12.75", 12.75),
        ("1e2", 100.0),
        ("100000", 100_000.0),
        ("100000.1", None),
        ("-1", None),
        ("-0.0", None),
        ("nan", None),
        ("inf", None),
        ("1e999", None),
        ("1_0", None),
        ("\N{ARABIC-INDIC DIGIT THREE}", None),
        ("12 W", None),
        ("12,5", None),
        ("12 13", None),
        ("", None),
    ],
)
def test_a_reading_is_one_number_of_watts(line: str, watts: float | None) -> None:
    """No negative, infinite, undefined or absurd number is a reading, and no text with more than a number."""
    assert parse_watts(line) == watts


def test_the_replay_of_a_recording(tmp_path: Path) -> None:
    """Empty lines and comments are no readings; the first comment names the meter."""
    recording = tmp_path / "recording"
    recording.write_text(RECORDING, newline="")
    with power_meter(f"cat {shlex.quote(str(recording))}") as meter:
        assert meter is not None
        assert meter.name == "cat"
        assert read_all(meter, 5) == [7.25, 8.5, 9.0, 11.0, 0.5]
        assert meter.name == "Bench meter 3"


def test_a_line_counts_when_it_is_complete(tmp_path: Path) -> None:
    """A reading that is printed in two parts is one reading; a line without end is no reading."""
    with printing(tmp_path) as (meter, program, descriptor):
        print_text(program, descriptor, "1")
        assert meter.read() == ()
        print_text(program, descriptor, "2\n")
        assert meter.read() == (12.0,)
        print_text(program, descriptor, "5" * 2000)
        assert meter.read() == ()
        print_text(program, descriptor, "7\n")
        assert meter.read() == (7.0,)
        meter.end()

    assert [line for line in meter.problems() if "not readings" in line or "is not" in line] == [
        f"1 line of cat is not a reading in watts: '{'5' * 40}'"
    ]


def test_readings_belong_to_the_sample_and_the_point_in_which_they_are_read(tmp_path: Path) -> None:
    """Readings before the start and in the ramp do not count; a sample without a reading has no watts."""
    with printing(tmp_path) as (meter, program, descriptor):
        observer = PowerObserver(meter)
        print_text(program, descriptor, "# M\n100\n200\n")
        observer.start()
        print_text(program, descriptor, "50\n")
        assert observer.tick(ramp=True) == (50.0,)
        print_text(program, descriptor, "1\n2\n")
        observer.tick()
        print_text(program, descriptor, "3\n")
        observer.tick()
        assert observer.lap() == PowerReadings(source="M", watts=2.0, readings=3)
        assert observer.lap() == PowerReadings(source="M", watts=None, readings=0)
        print_text(program, descriptor, "10\n")
        observer.tick()
        assert observer.lap() == PowerReadings(source="M", watts=10.0, readings=1)
        assert observer.finish() == PowerReadings(source="M", watts=4.0, readings=4)


def test_the_readings_of_a_point_are_telemetry_and_evidence(tmp_path: Path) -> None:
    """A line of .power.csv for each reading, marked in the ramp; their mean is in the telemetry."""
    with printing(tmp_path) as (meter, program, descriptor):
        observer = Observer(None, tmp_path, meter=meter)
        intervals = IntervalFiles(tmp_path / "00001-x.fio", 3600.0)
        observer.start(intervals)
        print_text(program, descriptor, "5\n")
        observer.tick()
        intervals._ramp_end = 0.0
        print_text(program, descriptor, "6\n")
        observer.tick()
        print_text(program, descriptor, "8\n")
        telemetry = observer.finish()
        intervals.close()

    assert telemetry.power == PowerReadings(source="cat", watts=7.0, readings=2)
    lines = csv.DictReader((tmp_path / "00001-x.power.csv").read_text().splitlines())
    assert [(line["part"], line["watts"]) for line in lines] == [("ramp", "5"), ("measured", "6"), ("measured", "8")]


def test_without_a_power_command_there_is_no_power(tmp_path: Path) -> None:
    """Nothing is started, and the telemetry has no readings."""
    with power_meter(None) as meter:
        assert meter is None
    assert Observer(None, tmp_path).finish().power is None


# -- RAPL -------------------------------------------------------------------------------------------------------------


def write_zones(root: Path, *counters: int) -> None:
    """Write the counters of a host with two packages, as a recorded host has them: also their parts, and psys."""
    names = ("package-0", "package-1")
    parts = (("intel-rapl:0:0", "core"), ("intel-rapl:0:1", "dram"), ("intel-rapl:2", "psys"))
    zones = [(f"intel-rapl:{number}", name, uj) for number, (name, uj) in enumerate(zip(names, counters, strict=False))]
    for folder, name, uj in (*zones, *((folder, name, sum(counters)) for folder, name in parts)):
        zone = root / "sys/class/powercap" / folder
        zone.mkdir(parents=True, exist_ok=True)
        (zone / "name").write_text(f"{name}\n")
        (zone / "max_energy_range_uj").write_text("262143328850\n")
        (zone / "energy_uj").write_text(f"{uj}\n")


def test_the_power_of_the_host_is_that_of_all_packages(tmp_path: Path, clock: Clock) -> None:
    """The parts of a package, and psys, count the same energy again."""
    write_zones(tmp_path, 1_000_000, 500_000_000)
    observer = Observer(None, tmp_path)
    observer.start()
    clock.now_ns += 2 * 10**9
    write_zones(tmp_path, 61_000_000, 540_000_000)
    assert observer.lap().host_watts == 50.0
    clock.now_ns += 2 * 10**9
    assert observer.lap().host_watts == 0.0
    assert observer.finish().host_watts == 25.0


def test_an_energy_counter_continues_after_its_wrap(tmp_path: Path, clock: Clock) -> None:
    """At 200 W it wraps after 22 minutes; the tick of each second sees every wrap."""
    write_zones(tmp_path, 262_143_000_000)
    observer = Observer(None, tmp_path)
    observer.start()
    for counter in (99_671_150, 262_143_000_000, 99_671_150):  # two wraps
        clock.now_ns += 1000 * 10**9
        write_zones(tmp_path, counter)
        observer.tick()

    assert observer.finish().host_watts == pytest.approx((262_143_328_850 + 100_000_000) / 1e6 / 3000)


@pytest.mark.parametrize("change", ["nothing", "no counter", "no range", "garbage"])
def test_an_unreadable_counter_has_no_power(tmp_path: Path, clock: Clock, change: str) -> None:
    """Only root may read it; the power of one package is not that of the host."""
    if change != "nothing":
        write_zones(tmp_path, 1, 2)
    zone = tmp_path / "sys/class/powercap/intel-rapl:1"
    if change == "no counter":
        (zone / "energy_uj").unlink()
    if change == "no range":
        (zone / "max_energy_range_uj").unlink()
    if change == "garbage":
        (zone / "energy_uj").write_text("x\n")
    observer = Observer(None, tmp_path)
    observer.start()
    clock.now_ns += 10**9

    assert observer.finish().host_watts is None


# -- a program that fails ---------------------------------------------------------------------------------------------


def test_a_program_that_ends_is_a_problem(tmp_path: Path) -> None:
    """The sentence has its last message; readings until then count."""
    with power_meter("sh -c 'echo 5; echo no answer from bmc7 >&2; exit 3'") as meter:
        assert meter is not None
        assert read_all(meter, 1) == [5.0]
        until = time.monotonic() + 30
        while not meter._program.has_exited and time.monotonic() < until:
            time.sleep(0.01)
        meter.read()
        meter.end()
        (problem,) = meter.problems()

    assert problem.startswith("the program of sh exited during the run, after ")
    assert problem.endswith(": no answer from bmc7")


def test_a_program_that_the_suite_ends_is_no_problem() -> None:
    """The end of the run ends it."""
    with power_meter("sh -c 'while :; do echo 5; sleep 0.05; done'") as meter:
        assert meter is not None
        assert read_all(meter, 1)[:1] == [5.0]
        meter.end()
        assert list(meter.problems()) == []


def test_few_readings_are_a_problem(tmp_path: Path) -> None:
    """At least one reading in five seconds is expected."""
    with printing(tmp_path) as (meter, _, _):
        meter.count(19, 100.0)
        assert list(meter.problems()) == []
        meter.count(0, 5.0)
        assert list(meter.problems()) == [
            "cat gave 19 readings in 1 min 45 s of measurements; expected one every 5 s or more often"
        ]


def test_a_program_that_prints_other_things_is_ignored_after_a_thousand_lines() -> None:
    """Its lines are counted, the first one is shown; parsing an endless stream would disturb the test."""
    with power_meter("yes nonsense") as meter:
        assert meter is not None
        until = time.monotonic() + 30
        while len(meter._invalid) < 1000 and time.monotonic() < until:
            assert meter.read() == ()
        count = len(meter._invalid)
        assert meter.read() == ()
        assert len(meter._invalid) == count
        meter.end()
        assert any(line.endswith("are not readings in watts; the first is 'nonsense'") for line in meter.problems())


# -- the end of the program -------------------------------------------------------------------------------------------


def test_all_processes_of_the_program_end_with_the_run(tmp_path: Path) -> None:
    """Also a process that it started, even if the program itself has ended before."""
    for name, last in (("running", "wait"), ("ended", "exit 0")):
        pid_file = tmp_path / name
        script = f"sleep 1000 & echo $! >{shlex.quote(str(pid_file))}; echo 5; {last}"
        with power_meter(f"sh -c {shlex.quote(script)}") as meter:
            assert meter is not None
            assert read_all(meter, 1) == [5.0]
            child = int(pid_file.read_text())
            assert lives(child)
        assert gone(child)


def test_a_killed_suite_leaves_no_program(tmp_path: Path) -> None:
    """The kernel ends the program when the suite is killed."""
    pid_file = tmp_path / "pid"
    script = f"echo $$ >{shlex.quote(str(pid_file))}; echo 5; exec sleep 1000"
    code = (
        "import os, signal\n"
        "from snia_pts.lab.observation.power import power_meter\n"
        f"with power_meter({f'sh -c {shlex.quote(script)}'!r}) as meter:\n"
        "    while not meter.read():\n"
        "        pass\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run((sys.executable, "-c", code), cwd=ROOT, check=False, timeout=60)
    assert gone(int(pid_file.read_text()))


# -- the option -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "error", "words"),
    [
        ("", UsageError, "--power-command: the command is empty"),
        ("meter 'x", UsageError, "--power-command: No closing quotation"),
        ("no-such-meter --fast", ToolMissing, "no-such-meter"),
    ],
)
def test_an_unusable_command_is_refused_before_the_run(command: str, error: type[Exception], words: str) -> None:
    """A usage error, or a missing tool."""
    with pytest.raises(error, match=words):
        power_command(command)


def test_a_simulated_drive_has_no_meter() -> None:
    """A meter of this host knows nothing of a drive that does not exist."""
    with pytest.raises(UsageError, match="--power-command is for real targets"):
        RunOptions(test="iops", target="sim:optane", power_command="meter")


@pytest.mark.long
def test_a_power_command_is_recorded_and_never_run_again_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The readings and the end of its program are in the result; resume needs the option again."""
    monkeypatch.chdir(tmp_path)
    meter = tmp_path / "meter"
    meter.write_text("#!/bin/sh\necho '# Replay'\nfor n in $(seq 6000); do echo 12.5; echo x; sleep 0.01; done\n")
    meter.chmod(0o755)
    (tmp_path / "x.img").write_bytes(bytes(1 << 20))
    argv = ("iops", "x.img", *SHORT, "--power-command", "./meter", "--to", "none", "--run-dir", "run")
    main(argv)
    result = assess(RunFolder.existing(Path("run")))
    sources = {point.telemetry.power for point in result.measurements if point.telemetry}

    assert {power.source for power in sources if power} == {"Replay"}
    assert {power.watts for power in sources if power and power.readings} == {12.5}
    warnings = [warning.detail for warning in result.end_warnings if warning.what == "power meter"]
    assert [line for line in warnings if "lines of Replay are not readings in watts; the first is 'x'" in line]
    assert 'watts="12.5"' in Path("run/result.xml").read_text()
    main(("assess", "run"))
    assert "result.xml and all evidence agree with the journal." in capsys.readouterr().out
    options = result.facts.options
    assert options is not None
    assert options.power_command is None
    assert resumed_options(result.facts, tmp_path, ResumeOptions()).power_command is None
    again = resumed_options(result.facts, tmp_path, ResumeOptions(power_command="./meter"))
    assert again.power_command == "./meter"
