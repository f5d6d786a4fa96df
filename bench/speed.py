"""What a drive does by the suite, beside what it does by fio commands: the drive's number, not the tool's.

``python bench/speed.py [--seconds 2] [--turns 6]`` (root) measures random reads and writes of 4 KiB on a loop device in
memory, in turns: with the suite, alone and while the next point is made ready; with fio tuned by hand; and with the
settings of TKperf and of CloudHarmony's block-storage.  Prints the least, middle and greatest IOPS; the ratio of the
suite to each in the same turn, the median with the interval that holds it with 95 %; and that of the best of all turns.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from snia_pts.lab.fio.engine import FioEngine
from snia_pts.model.steps import Stimulus
from tests.drives import MIB, loop_device

SIZE = 512 * MIB
MEMORY = Path("/dev/shm")  # noqa: S108  # a file in memory, as fast as a target can be
#: What others tell fio beside range, size, mix, threads and queue depth.
OTHERS: Mapping[str, tuple[str, ...]] = {
    "tuned by hand": (
        "--ioengine=io_uring",
        "--thread",
        "--clocksource=clock_gettime",
        "--registerfiles",
        "--fixedbufs",
        "--norandommap",
        "--random_generator=lfsr",
        "--cpus_allowed_policy=split",
        "--disable_slat=1",
    ),
    "TKperf's settings": ("--ioengine=libaio", "--norandommap", "--randrepeat=0", "--refill_buffers=0"),
    "CloudHarmony's settings": ("--ioengine=libaio", "--randrepeat=0", "--refill_buffers", "--scramble_buffers=1"),
}


def by_suite(device: Path, asked: Stimulus, points: int) -> float:
    """Return the IOPS of the first of so many points; the next one is made ready while it runs."""
    with tempfile.TemporaryDirectory() as name:
        engine = FioEngine(str(device), Path(name), seed=1, io_engine="io_uring")
        return next(iter(engine.measure([asked] * points))).iops


def by_fio(device: Path, asked: Stimulus, options: tuple[str, ...]) -> float:
    """Return the IOPS of a fio command."""
    argv = [
        "fio",
        "--name=x",
        f"--filename={device}",
        "--direct=1",
        "--bs=4k",
        "--group_reporting",
        "--time_based",
        f"--rw={'randread' if asked.read_percent else 'randwrite'}",
        f"--numjobs={asked.thread_count}",
        f"--iodepth={asked.queue_depth}",
        f"--runtime={asked.seconds}",
        "--output-format=json",
        *options,
    ]
    job = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)["jobs"][0]
    return float(job["read"]["iops"] + job["write"]["iops"])


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return what the median of all there could be lies between with 95 %: the rule of signs, no law of errors."""
    ordered, beyond, rank = sorted(values), 0.0, 0
    while (beyond := beyond + math.comb(len(ordered), rank) / 2 ** len(ordered)) <= 0.025:
        rank += 1
    least = max(0, rank - 1)
    return ordered[least], ordered[-1 - least]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--turns", type=int, default=6)
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as name,
        loop_device(Path(name) / "drive.img", SIZE) as device,
    ):
        subprocess.run(
            ["dd", "if=/dev/urandom", f"of={device}", "bs=1M", "oflag=direct"], check=False, capture_output=True
        )
        for read_percent, threads, depth in ((100, 1, 1), (100, 2, 32), (0, 1, 1), (0, 2, 32)):
            asked = Stimulus(
                access="RND",
                read_percent=read_percent,
                block_size_bytes=4096,
                thread_count=threads,
                queue_depth=depth,
                range_offset_bytes=0,
                range_bytes=SIZE,
                seconds=arguments.seconds,
            )
            ways: dict[str, Callable[[], float]] = {
                "the suite": partial(by_suite, device, asked, 1),
                "the suite, the next made ready": partial(by_suite, device, asked, 2),
                **{other: partial(by_fio, device, asked, options) for other, options in OTHERS.items()},
            }
            turns = [{way: measure() for way, measure in ways.items()} for _ in range(arguments.turns)]
            print(f"{asked.label}, T{threads} Q{depth}")
            for way in ways:
                iops = [turn[way] for turn in turns]
                ratios = [turn["the suite"] / turn[way] for turn in turns]
                low, high = interval(ratios)
                best = max(turn["the suite"] for turn in turns) / max(iops)
                print(
                    f"  {way:32} {min(iops):9.0f} {statistics.median(iops):9.0f} {max(iops):9.0f} IOPS   "
                    f"suite : this {statistics.median(ratios):5.2f} ({low:.2f} to {high:.2f}), of the best {best:5.2f}"
                )


if __name__ == "__main__":
    main()
