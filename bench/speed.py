"""A drive's IOPS as measured by the suite and by plain fio commands, which must agree.

``python bench/speed.py [--seconds 2] [--turns 6]`` (root) measures random reads and writes of 4 KiB on a loop device in
memory, in turns: with the suite, alone and while it prepares the next point; with hand-tuned fio; and with the settings
of TKperf and of CloudHarmony's block-storage. Prints minimum, median and maximum IOPS; the ratio of the suite to each
other one in the same turn, as median with 95 % confidence interval; and the ratio of the best values of all turns.

``python bench/speed.py --cpu [--seconds 0.5] [--turns 30]`` measures the CPU time of an I/O instead, which other
programs on the host disturb less: with the suite's own job file without fixed buffers, unchanged and with options that
do not change the stimulus, in turns. Prints the medians of the time of fio's threads, as fio reports it, and of the
whole process with fio's start, as the kernel reports it; the ratio of the medians to that of the unchanged job file;
and the median ratio of a turn with its interval.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from snia_pts.lab.fio.engine import FioEngine
from snia_pts.lab.fio.job import TARGET, job_file
from snia_pts.model.steps import Stimulus
from tests.drives import MIB, loop_device

SIZE = 512 * MIB
MEMORY = Path("/dev/shm")  # noqa: S108  # a file in memory, as fast as a target can be
#: The options of the other tools beside range, size, mix, threads and queue depth.
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

#: Options of fio that do not change the stimulus, added to the suite's job file.
NEUTRAL: Mapping[str, Mapping[str, str]] = {
    "none of them": {},
    "fixedbufs": {"fixedbufs": "1"},
    "registerfiles": {"registerfiles": "1"},
    "fixedbufs, registerfiles": {"fixedbufs": "1", "registerfiles": "1"},
    "nonvectored": {"nonvectored": "1"},
    "disable_slat": {"disable_slat": "1"},
    "disable_slat, disable_clat": {"disable_slat": "1", "disable_clat": "1"},
    "iomem=mmap": {"iomem": "mmap"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTime:
    """The CPU time per I/O in microseconds: of fio's threads as reported by fio, and of the process by the kernel."""

    threads: float
    process: float


def by_suite(device: Path, request: Stimulus, points: int) -> float:
    """Return the IOPS of the first of these points; the next one is prepared while it runs."""
    with tempfile.TemporaryDirectory() as name:
        engine = FioEngine(str(device), Path(name), seed=1, io_engine="io_uring", fixed_buffers=True)
        return next(iter(engine.measure([request] * points))).iops


def by_fio(device: Path, request: Stimulus, options: tuple[str, ...]) -> float:
    """Return the IOPS of a fio command."""
    argv = [
        "fio",
        "--name=x",
        f"--filename={device}",
        "--direct=1",
        "--bs=4k",
        "--group_reporting",
        "--time_based",
        f"--rw={'randread' if request.read_percent else 'randwrite'}",
        f"--numjobs={request.thread_count}",
        f"--iodepth={request.queue_depth}",
        f"--runtime={request.seconds}",
        "--output-format=json",
        *options,
    ]
    job = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)["jobs"][0]
    return float(job["read"]["iops"] + job["write"]["iops"])


def cpu_time(device: Path, stimulus: Stimulus, options: Mapping[str, str], seed: int) -> CpuTime:
    """Return the CPU time of an I/O of the suite's job file with ``options``."""
    text = job_file(replace(stimulus, options=tuple(options.items())), str(device), "io_uring", seed)
    with tempfile.TemporaryDirectory() as name:
        path, answer = Path(name) / "job.fio", Path(name) / "answer.json"
        path.write_text(text, encoding="ascii")
        argv = ["fio", "--output-format=json", f"--output={answer}", str(path)]
        pid = os.posix_spawnp("fio", argv, {**os.environ, TARGET: str(device)})
        _, status, usage = os.wait4(pid, 0)
        if status:
            raise SystemExit(f"fio failed with {dict(options)}")
        job = json.loads(answer.read_text(encoding="utf-8"))["jobs"][0]
    ios = job["read"]["total_ios"] + job["write"]["total_ios"]
    threads_us = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] * 1000
    return CpuTime(threads=threads_us / ios, process=(usage.ru_utime + usage.ru_stime) * 1e6 / ios)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the median, by the sign test, without assuming a distribution."""
    ordered, beyond, rank = sorted(values), 0.0, 0
    while (beyond := beyond + math.comb(len(ordered), rank) / 2 ** len(ordered)) <= 0.025:
        rank += 1
    least = max(0, rank - 1)
    return ordered[least], ordered[-1 - least]


def compare_iops(device: Path, seconds: float, turns: int) -> None:
    """Measure and print the IOPS of the suite and of others."""
    for read_percent, threads, depth in ((100, 1, 1), (100, 2, 32), (0, 1, 1), (0, 2, 32)):
        stimulus = stimulus_of(read_percent, threads, depth, seconds)
        ways: dict[str, Callable[[], float]] = {
            "the suite": partial(by_suite, device, stimulus, 1),
            "the suite, the next made ready": partial(by_suite, device, stimulus, 2),
            **{other: partial(by_fio, device, stimulus, options) for other, options in OTHERS.items()},
        }
        rows = [{engine: measure() for engine, measure in ways.items()} for _ in range(turns)]
        print(f"{stimulus.label}, T{threads} Q{depth}")
        for engine in ways:
            iops = [row[engine] for row in rows]
            ratios = [row["the suite"] / row[engine] for row in rows]
            low, high = interval(ratios)
            best = max(row["the suite"] for row in rows) / max(iops)
            print(
                f"  {engine:32} {min(iops):9.0f} {statistics.median(iops):9.0f} {max(iops):9.0f} IOPS   "
                f"suite : this {statistics.median(ratios):5.2f} ({low:.2f} to {high:.2f}), of the best {best:5.2f}"
            )


def compare_cpu_time(device: Path, seconds: float, turns: int) -> None:
    """Measure and print the CPU time of an I/O with each set of neutral options, in a different order in each turn."""
    dice, base = random.Random(1), "none of them"
    for read_percent, threads, depth in ((100, 1, 32), (100, 4, 32), (0, 1, 32), (0, 4, 32)):
        stimulus = stimulus_of(read_percent, threads, depth, seconds)
        rows = []
        for turn in range(turns):
            order = dice.sample(list(NEUTRAL), len(NEUTRAL))
            rows.append({name: cpu_time(device, stimulus, NEUTRAL[name], (turn + 1) << 40) for name in order})
        print(f"{stimulus.label}, T{threads} Q{depth}: CPU time of an I/O, {turns} turns")
        medians = {name: statistics.median(row[name].threads for row in rows) for name in NEUTRAL}
        for name in NEUTRAL:
            ratios = [row[name].threads / row[base].threads for row in rows]
            low, high = interval(ratios)
            process = statistics.median(row[name].process for row in rows)
            print(
                f"  {name:28} {medians[name]:6.3f} us (process {process:6.3f} us)   "
                f"of the medians {medians[name] / medians[base]:5.3f}, "
                f"in a turn {statistics.median(ratios):5.3f} ({low:.3f} to {high:.3f})",
                flush=True,
            )


def stimulus_of(read_percent: int, threads: int, depth: int, seconds: float) -> Stimulus:
    """Return a stimulus of random 4 KiB I/Os over the whole device."""
    return Stimulus(
        access="RND",
        read_percent=read_percent,
        block_size_bytes=4096,
        thread_count=threads,
        queue_depth=depth,
        range_offset_bytes=0,
        range_bytes=SIZE,
        seconds=seconds,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", action="store_true", help="measure the CPU time of an I/O instead of IOPS")
    parser.add_argument("--seconds", type=float, help="of a measurement (default: 2; 0.5 of CPU time)")
    parser.add_argument("--turns", type=int, help="measurements of each (default: 6; 30 of CPU time)")
    arguments = parser.parse_args()
    compare, seconds, turns = (compare_cpu_time, 0.5, 30) if arguments.cpu else (compare_iops, 2.0, 6)
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as name,
        loop_device(Path(name) / "drive.img", SIZE) as device,
    ):
        subprocess.run(
            ["dd", "if=/dev/urandom", f"of={device}", "bs=1M", "oflag=direct"], check=False, capture_output=True
        )
        compare(device, arguments.seconds or seconds, arguments.turns or turns)


if __name__ == "__main__":
    main()
