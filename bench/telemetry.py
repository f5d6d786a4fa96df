"""What telemetry costs: the CPU time of a reading, and IOPS with and without it, in turns.

``python bench/telemetry.py [--folder DIR] [--seconds 3] [--turns 5]`` (root) makes a loop device on a file in DIR, and
runs the same stimulus on it with one-second samples, once with readings at every sample and tick, once without any.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from snia_pts.lab.engine import FioEngine
from snia_pts.lab.telemetry import Observer, observe
from snia_pts.measurement import Measurement
from snia_pts.steps import Stimulus, Stretch

MIB = 1 << 20
READINGS = 2000


class Blind(Observer):
    """Reads nothing after its first look."""

    def _read(self) -> Any:
        found = getattr(self, "_first", None)
        return found if found is not None else super()._read()

    def tick(self) -> None:
        """Ask for nothing."""


@contextmanager
def loop_device(folder: Path) -> Iterator[str]:
    """A loop device on a file of its own."""
    image = folder / "drive.img"
    image.touch()
    with image.open("r+b") as file:
        file.truncate(256 * MIB)
    argv = ["losetup", "--find", "--show", str(image)]
    device = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


def microseconds(act: Callable[[], object]) -> tuple[float, float]:
    """Return the median time, and the CPU time, that something takes."""
    times, began = [], time.process_time_ns()
    for _ in range(READINGS):
        since = time.monotonic_ns()
        act()
        times.append((time.monotonic_ns() - since) / 1000)
    return statistics.median(times), (time.process_time_ns() - began) / READINGS / 1000


def iops(device: str, evidence: Path, seconds: float, observer: Observer) -> float:
    """Return the IOPS of a stretch of one-second samples."""
    evidence.mkdir()
    engine = FioEngine(device, evidence, seed=1, io_engine="libaio", observer=observer)
    stimulus = Stimulus(
        access="RND", read_percent=0, block_size_bytes=4096, thread_count=1, queue_depth=16, range_offset_bytes=0,
        range_bytes=256 * MIB, seconds=seconds,
    )  # fmt: skip
    outcomes = list(engine.stretch(Stretch(phase="stimulus", stimulus=stimulus, sample_seconds=1.0)))
    whole = outcomes[-1]
    if not isinstance(whole, Measurement):
        raise TypeError("a stretch ends with its measurement")
    return whole.iops


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name, loop_device(Path(name)) as device:
        watching, blind = observe(device), Blind(Path("/sys/block") / Path(device).name)
        for what, act in (("lap (at each outcome)", watching.lap), ("tick (about once a second)", watching.tick)):
            took, used = microseconds(act)
            print(f"{what:28} {took:8.1f} us median   {used:8.1f} us CPU")
        found: dict[str, list[float]] = {"with": [], "without": []}
        for turn in range(2 * arguments.turns):
            how = ("with", "without")[(turn + turn // 2) % 2]  # with without without with ...
            observer = watching if how == "with" else blind
            found[how].append(iops(device, Path(name) / f"{turn}", arguments.seconds, observer))
    for how, values in found.items():
        print(f"IOPS {how:23} {statistics.median(values):8.0f} median   {min(values):8.0f} - {max(values):.0f}")
    ratio = statistics.median(map(lambda one, other: one / other, found["with"], found["without"]))
    print(f"ratio of the IOPS, with to without, median of pairs: {ratio:.3f}")


if __name__ == "__main__":
    main()
