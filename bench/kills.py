"""Real fio on a loop device, killed and broken: processes left behind, lost data, and the result of ``resume``.

``python bench/kills.py [--kills 20] [--seed 1] [--folder DIR]`` (root) kills the suite and fio this often at random
moments, and causes every other fault of ``tests/breaking.py`` once; each run is resumed. It requires that no program
outlives the suite, that the target is free for the next run, that nothing journaled is lost, that every answer of fio
except the last is journaled, and that the run reports the fault. Prints a table.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests import breaking
from tests.breaking import BrokenRun, Fault, RequirementFailed, Run
from tests.simulated_device.drive import SimulatedDrive, loop_drive


@dataclass(slots=True, kw_only=True)
class Row:
    """The outcomes of one kind of failure."""

    name: str
    runs: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    resumed: Counter[str] = field(default_factory=Counter)
    gone_seconds: list[float] = field(default_factory=list)
    free_seconds: list[float] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def show(self) -> None:
        """Print the row."""
        codes = ", ".join(f"{code} x {count}" for code, count in sorted(self.codes.items()))
        after = ", ".join(f"{what} x {count}" for what, count in sorted(self.resumed.items()))
        last_program, free = max(self.gone_seconds, default=0), max(self.free_seconds, default=0)
        print(f"{self.name:28} {codes:20} {last_program:6.2f} {free:6.2f}  {len(self.lost):4}  {after}", flush=True)
        for reason in self.lost:
            print(f"    LOST: {reason}", flush=True)


def note(row: Row, run: Run, fault: Fault, mend: Callable[[Run], object]) -> None:
    """Break a run, repair the damage, resume the run, and record the outcome."""
    row.runs += 1
    try:
        broken = breaking.broken(run, fault.do)
        row.codes[broken.code] += 1
        row.gone_seconds.append(broken.gone_seconds)
        row.free_seconds.append(broken.free_seconds)
        fault.require(broken)
        mend(run)
        row.resumed[resumed(run, broken)] += 1
    except RequirementFailed as lost:
        row.lost.append(str(lost))
    finally:
        run.process.kill()
        run.process.wait()


def resumed(run: Run, broken: BrokenRun) -> str:
    """Resume a run, and return the outcome in one word."""
    done = breaking.resumed(run, broken)
    if done.returncode == 0:
        return "finished"
    if done.returncode == 14 and not broken.journal:
        return "had not begun"
    if done.returncode == 16 and "it is finished" in done.stderr:
        return "was finished"
    if done.returncode in (6, 8, 10, 11, 12):  # the drive no longer exists, or does not answer
        return f"refused ({done.returncode})"
    raise RequirementFailed(f"resume: {done.stderr}")


def kills(what: str, fault: Fault, places: Iterator[Path], count: int) -> int:
    """Kill runs this often; return the number of wrong outcomes."""
    row = Row(name=what)
    while row.runs < count:
        with breaking.place(next(places)) as (device, folder):
            note(row, Run(folder=folder, device=device), fault, breaking.mend)
        if row.codes.pop(0, None):  # the run had already ended, so this is no kill
            row.lost.pop()
            row.runs -= 1
    row.show()
    return len(row.lost)


def drives(places: Iterator[Path]) -> int:
    """Let simulated drives fail, vanish and hang; return the number of wrong outcomes."""
    failed = 0
    for what, do, message in (
        ("EIO", fail, "Input/output error"),
        ("the drive is gone", vanish, "Input/output error"),
        ("the drive hangs", hang, "no answer within"),
    ):
        row, folder = Row(name=what), next(places)
        folder.mkdir()
        with loop_drive(folder) as drive:
            run = Run(folder=folder / "run", device=drive.path, how=breaking.LONG)
            note(row, run, Fault(do=partial(do, drive), code=12, message=message).waited(), partial(heal, drive))
        row.show()
        failed += len(row.lost)
    return failed


def fail(drive: SimulatedDrive, _run: Run) -> None:
    """Let every I/O fail, after a few more."""
    drive.fail_after(20)


def vanish(drive: SimulatedDrive, _run: Run) -> None:
    """Remove a drive permanently."""
    drive.vanish()


def hang(drive: SimulatedDrive, run: Run) -> None:
    """Let a drive hang until the run has ended; blocked processes end only when the drive answers."""
    drive.hang_after(20)
    run.process.wait()
    drive.heal()


def heal(drive: SimulatedDrive, _run: Run) -> None:
    """Repair a present drive."""
    with suppress(ValueError):
        drive.heal()


def whole_run(place: Path) -> float:
    """Return the duration of an undisturbed run, without its report."""
    began = time.monotonic()
    with breaking.place(place) as (device, folder):
        run = Run(folder=folder, device=device)
        while not (folder / "result.xml").exists() and run.process.poll() is None:
            time.sleep(0.01)
        seconds, error = time.monotonic() - began, run.end()
    if run.process.returncode:
        raise SystemExit(error)
    return seconds


def main() -> None:
    """Break runs, and print the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=None)
    arguments = parser.parse_args()
    chance, failed, began = random.Random(arguments.seed), 0, time.monotonic()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        places = (Path(name) / str(number) for number in range(1 << 30))
        seconds = whole_run(next(places))
        print(f"a run of {seconds:.1f} s, killed at random moments of it; worst times in s")
        print(f"{'':28} {'exit code':20} {'gone':>6} {'free':>6}  lost  resumed")
        for what, fault in (
            ("SIGKILL of the suite", Fault(do=breaking.kill_suite(chance, seconds), code=-9, message="")),
            (
                "SIGKILL of fio",
                Fault(do=breaking.kill_fio(chance, 0.6 * seconds), code=13, message="killed by signal 9"),
            ),
        ):
            failed += kills(what, fault, places, arguments.kills)
        for what, fault in breaking.FAULTS.items():
            row = Row(name=what)
            with breaking.place(next(places), small_disk=fault.small_disk) as (device, folder):
                note(row, Run(folder=folder, device=device, how=breaking.LONG), fault.waited(), breaking.mend)
            row.show()
            failed += len(row.lost)
        failed += drives(places)
    print(f"{time.monotonic() - began:.0f} s")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
