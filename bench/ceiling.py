"""The ceiling of this host, and which points are host-limited on a fast and on a slow drive.

``python bench/ceiling.py [--seconds 2] [--memory DIR]`` (root) calibrates the host three times, and compares the
ceiling of a mix with a measurement of that mix. Then it makes a loop device on a file in DIR (/dev/shm by default),
runs the same points on it unthrottled, where only the host limits them, and throttled by a control group to some
thousand I/Os per second, like a slow drive, and prints the figures and the verdict of each point. Other processes on
the CPUs change the first figures, but must not make points of the second drive host-limited.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from snia_pts.analysis.host_limit import HostShare, host_share
from snia_pts.lab import fio
from snia_pts.lab.device.identity import read_dut
from snia_pts.lab.fio.engine import FioEngine
from snia_pts.lab.fio.probe import fio_version
from snia_pts.lab.host.calibration import Calibration, calibration_seconds
from snia_pts.lab.process.program import run
from snia_pts.model.host_ceiling import Ceiling, all_shapes
from snia_pts.model.measurement import Measurement
from snia_pts.model.steps import Stimulus

SIZE_BYTES = 256 << 20
#: IOPS of the throttled drive: reads, writes.
SLOW_IOPS = (3000, 1500)
DEMANDS = ((1, 1), (2, 16), (4, 32))
CGROUPS = Path("/sys/fs/cgroup")


def points(seconds: float) -> Iterator[Stimulus]:
    """Yield the stimuli: three demands, three mixes, three block sizes."""
    for threads, depth in DEMANDS:
        for percent in (100, 65, 0):
            for size in (4096, 65536, 1048576):
                yield Stimulus(
                    access="RND",
                    read_percent=percent,
                    block_size_bytes=size,
                    thread_count=threads,
                    queue_depth=depth,
                    range_offset_bytes=0,
                    range_bytes=SIZE_BYTES,
                    seconds=seconds,
                )


@contextmanager
def memory_drive(folder: Path) -> Iterator[Path]:
    """A loop device on a file in memory, written once."""
    with tempfile.NamedTemporaryFile(dir=folder) as image:
        os.posix_fallocate(image.fileno(), 0, SIZE_BYTES)
        command = ["losetup", "--find", "--show", image.name]
        process = subprocess.run(command, check=True, capture_output=True, text=True)
        device = process.stdout.strip()
        try:
            yield Path(device)
        finally:
            subprocess.run(["losetup", "--detach", device], check=True)


@contextmanager
def throttled(device: Path) -> Iterator[None]:
    """Throttle the I/O of this process and its children on ``device`` to that of a slow drive."""
    number = f"{os.major(device.stat().st_rdev)}:{os.minor(device.stat().st_rdev)}"
    reads, writes = SLOW_IOPS
    old = CGROUPS / "blkio"
    home = old if old.is_dir() else CGROUPS
    group = home / f"snia-pts-bench-{os.getpid()}"
    group.mkdir()
    try:
        if home == old:
            (group / "blkio.throttle.read_iops_device").write_text(f"{number} {reads}")
            (group / "blkio.throttle.write_iops_device").write_text(f"{number} {writes}")
        else:
            (home / "cgroup.subtree_control").write_text("+io")
            (group / "io.max").write_text(f"{number} riops={reads} wiops={writes}")
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        (home / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


def calibrated(evidence: Path, request: Sequence[Stimulus]) -> tuple[Ceiling, ...]:
    """Calibrate three times, print the costs, and return the ceilings of the last time."""
    turns = []
    for turn in range(3):
        folder = evidence / f"turn-{turn}"
        folder.mkdir()
        calibration = Calibration(
            version=fio_version(folder), io_engine="io_uring", refill=False, seed=turn, evidence=folder
        )
        turns.append(calibration.ceilings(request, 1e9))
    shapes = all_shapes(request)
    print(f"{len(shapes)} shapes in about {calibration_seconds(shapes):g} s; CPU time of the engine for an I/O, us")
    for ceilings in zip(*turns, strict=True):
        shape, costs = ceilings[0].shape, sorted(ceiling.cost_us for ceiling in ceilings)
        name = f"{shape.side} {shape.block_size_bytes or 'any size'} T{shape.thread_count}Q{shape.queue_depth}"
        cpus = os.cpu_count() or 1
        print(f"  {name:24} {'  '.join(f'{cost:8.2f}' for cost in costs)}   {ceilings[-1].max_iops(cpus):12.0f} IOPS")
    return turns[-1]


def check_of_a_mix(evidence: Path) -> None:
    """Print the cost of 50/50 on /dev/zero, and the mean of the costs of its reads and writes."""
    costs: dict[int, list[float]] = {100: [], 0: [], 50: []}
    for turn in range(5):
        for percent, cost in costs.items():
            stimulus = replace(
                next(points(0.5)), read_percent=percent, block_size_bytes=512, thread_count=1, queue_depth=16
            )
            text = fio.null_job_file(stimulus, "io_uring", 1 << 60 | turn, fill=False)
            job = evidence / f"mix-{turn}-{percent}.fio"
            job.write_text(text.replace("/dev/null", "/dev/zero"))
            output = job.with_suffix(".json")
            finished = run(fio.command(job), evidence=job, timeout_seconds=60)
            read, write = fio.accept(stimulus, finished.exit_code, finished.timed_out, output.read_text())
            cost.append(1e4 * (fio.engine_cpu_percent(output.read_text()) or 0.0) / (read.iops + write.iops))
    reads, writes, both = (statistics.median(costs[percent]) for percent in (100, 0, 50))
    print(f"50/50: {both:.2f} us by a run of its own, {(reads + writes) / 2:.2f} us by reads and writes (medians of 5)")


def shown(name: str, measured: Sequence[Measurement], shares: Sequence[HostShare | None]) -> None:
    """Print the figures behind each verdict."""
    head = ("IOPS", "engine", "ceiling", "CPUs", "verdict")
    print(f"{name:38} {head[0]:>9} {head[1]:>8} {head[2]:>8} {head[3]:>8}   {head[4]}")
    for measurement, share in zip(measured, shares, strict=True):
        if share is None:
            continue
        figures = (share.engine_percent, share.ceiling_percent, share.host_percent)
        texts = " ".join("     n/a" if one is None else f"{one:6.1f} %" for one in figures)
        verdict = {True: "HOST", False: "not the host", None: "undetermined"}[share.limited]
        label = f"{measurement.stimulus.label} {measurement.stimulus.demand.label}"
        print(f"  {label:36} {measurement.iops:9.0f} {texts}   {verdict}")
    limited = [share.limited for share in shares if share]
    print(
        f"  of {len(limited)}: {limited.count(True)} host-limited, {limited.count(False)} not,"
        f" {limited.count(None)} undetermined"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--memory", type=Path, default=Path("/dev/shm"))  # noqa: S108 - memory is what is wanted
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, memory_drive(arguments.memory) as device:
        evidence, stimuli = Path(name), list(points(arguments.seconds))
        ceilings = calibrated(evidence, stimuli)
        check_of_a_mix(evidence)
        dut, cpus = read_dut(device), os.cpu_count() or 1

        def measure(what: str) -> None:
            folder = evidence / what.partition(" ")[0]
            folder.mkdir()
            measurements = list(FioEngine(str(device), folder, seed=1, io_engine="io_uring").measure(stimuli))
            shown(what, measurements, [host_share(item, dut, cpus, ceilings) for item in measurements])

        measure("fast (memory)")
        with throttled(device):
            measure(f"slow ({SLOW_IOPS[0]} reads, {SLOW_IOPS[1]} writes/s)")


if __name__ == "__main__":
    main()
