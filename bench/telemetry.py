"""The cost of telemetry: CPU time of a reading and of the suite without fio, and IOPS with and without it, in turns.

``python bench/telemetry.py [--folder DIR] [--seconds 4] [--turns 20]`` (root) makes a loop device on a file in DIR, and
runs the same stimulus on it with one-second samples: with readings at every sample and tick, without readings, and
without readings again, which shows the random difference between equal series. A ratio is a median with its 95 %
confidence interval.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.speed import interval
from snia_pts.lab.fio.engine import FioEngine
from snia_pts.lab.observation.telemetry import Observer, observe
from snia_pts.model.measurement import Measurement
from snia_pts.model.steps import ContinuousStimulus, Stimulus
from tests.drives import MIB, loop_device

READINGS = 2000
WAYS = ("with", "without", "without again")


class Blind(Observer):
    """Reads nothing after the first reading."""

    def _read(self) -> Any:
        first = getattr(self, "_first", None)
        return first if first is not None else super()._read()

    def tick(self) -> None:
        """Read nothing."""


def microseconds(act: Callable[[], object]) -> tuple[float, float]:
    """Return the median time and the CPU time of a function."""
    times, began = [], time.process_time_ns()
    for _ in range(READINGS):
        since = time.monotonic_ns()
        act()
        times.append((time.monotonic_ns() - since) / 1000)
    return statistics.median(times), (time.process_time_ns() - began) / READINGS / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The result of a stimulus: IOPS, and the CPU use of the suite and of a thread of its fio, in percent of a core."""

    iops: float
    suite_percent: float
    fio_percent: float


def stretch(device: str, evidence: Path, seconds: float, observer: Observer) -> Seen:
    """Run a stimulus of one-second samples; CPU time counts from the first sample to the last."""
    evidence.mkdir()
    engine = FioEngine(device, evidence, seed=1, io_engine="libaio", observer=observer)
    stimulus = Stimulus(
        access="RND",
        read_percent=0,
        block_size_bytes=4096,
        thread_count=1,
        queue_depth=16,
        range_offset_bytes=0,
        range_bytes=256 * MIB,
        seconds=seconds,
    )
    marks: list[tuple[float, float]] = []
    for outcome in engine.measure_continuous(
        ContinuousStimulus(phase="stimulus", stimulus=stimulus, sample_seconds=1.0)
    ):
        if isinstance(outcome, Measurement):
            (began, used), (ended, used_at_last) = marks[0], marks[-1]
            percent = 100 * (used_at_last - used) / (ended - began)
            return Seen(iops=outcome.iops, suite_percent=percent, fio_percent=outcome.engine_cpu_percent or 0.0)
        marks.append((time.monotonic(), time.process_time()))
    raise ValueError("a stretch ends with its measurement")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--turns", type=int, default=20)
    arguments = parser.parse_args()
    if arguments.seconds < 2:
        parser.error("--seconds: at least 2, for CPU time counts from the first sample to the last")
    with (
        tempfile.TemporaryDirectory(dir=arguments.folder) as name,
        loop_device(Path(name) / "drive.img", 256 * MIB) as made,
    ):
        device = str(made)
        watching, blind = observe(device), Blind(Path("/sys/block") / Path(device).name)
        for what, act in (("lap (at each outcome)", watching.lap), ("tick (about once a second)", watching.tick)):
            took, used = microseconds(act)
            print(f"{what:28} {took:8.1f} us median   {used:8.1f} us CPU")
        found: dict[str, list[Seen]] = {variant: [] for variant in WAYS}
        for turn in range(arguments.turns):
            for place in range(len(WAYS)):
                variant = WAYS[(turn + place) % len(WAYS)]  # each variant is first in its turn
                observer = watching if variant == "with" else blind
                found[variant].append(stretch(device, Path(name) / f"{turn}{place}", arguments.seconds, observer))
    for variant, result in found.items():
        iops = [item.iops for item in result]
        suite, fio = (
            statistics.median(getattr(item, who) for item in result) for who in ("suite_percent", "fio_percent")
        )
        print(f"{variant:14} {statistics.median(iops):8.0f} IOPS, median   {min(iops):8.0f} - {max(iops):.0f}", end="")
        print(f"   suite {suite:5.2f} % of a core, fio {fio:6.2f} %")
    for variant in ("with", "without again"):
        ratios = [one.iops / other.iops for one, other in zip(found[variant], found["without"], strict=True)]
        low, high = interval(ratios)
        print(
            f"IOPS {variant} to without, of each turn: median {statistics.median(ratios):.3f}   {low:.3f} to {high:.3f}"
        )


if __name__ == "__main__":
    main()
