"""Memory and time of long continuous stimuli: an hour, a day and a week of one-second samples, side by side.

``python bench/days.py [--test wsat|xsr] [--hours 1 24 168]`` lets a scripted device answer a test of that length. Each
phase has its own process: ``run`` journals the test and makes its result, ``assess`` makes the result again from the
journal, ``draw`` also makes all figures and tables of its report. ``xsr`` has all samples in one continuous stimulus,
``wsat`` in continuous stimuli of half an hour. ``--ios 1e3 1e6 1e9`` varies the number of I/Os of a test of the first
length instead.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from snia_pts.model.dut import Dut
from snia_pts.model.histogram import Histogram
from snia_pts.model.measurement import NO_TRANSFERS, Measurement, Outcome, PurgeOutcome, Sample, Timing, Transfers
from snia_pts.model.steps import ContinuousStimulus, Purge, Step
from snia_pts.model.telemetry import BlockStatistics, TelemetrySample
from snia_pts.model.test_platform import UNKNOWN_PLATFORM
from snia_pts.record.folder import RunFolder
from snia_pts.record.replay import assess
from snia_pts.report.figures import render as drawing
from snia_pts.report.registry import build
from snia_pts.results.result import RunFacts
from snia_pts.runner.session import run
from snia_pts.spec.reader import read_specification

PHASES = ("run", "assess", "draw")
_IOPS = 200_000
_STARTED = "2026-01-01T00:00:00+00:00"


def overrides(test: str, hours: float) -> dict[str, Any]:
    """Return the overrides for a test of so many hours in one-second samples."""
    seconds = 3600 * hours
    if test == "wsat":
        return {
            "saturation.seconds": seconds,
            "saturation.capacities": 1024,
            "settling.sample_seconds": 1,
            "settling.stride_samples": 1024,
            "histogram.seconds": 1,
        }
    group = {
        "name": "AG 1",
        "access": "SEQ",
        "read_percent": 0,
        "block_size_kib": 1024,
        "seconds": seconds,
        "thread_count": 1,
        "queue_depth": 32,
    }
    return {"groups.sample_seconds": 1, "groups.sequence": [group]}


def facts(test: str, hours: float) -> RunFacts:
    """Return the facts of the run."""
    specification = read_specification(test, "2.0.2", "enterprise", overrides=overrides(test, hours).items())
    device = Dut(
        path="/dev/null",
        kind="drive",
        model="SCRIPTED",
        serial="0",
        firmware="",
        bus="",
        capacity_bytes=10**14,
        logical_sector_bytes=512,
        physical_sector_bytes=4096,
        rotational=False,
        write_cache="disabled",
        discard=True,
    )
    return RunFacts(
        run_id="days",
        started=_STARTED,
        command_line=(),
        seed=0,
        test_class="enterprise",
        spec=specification.spec,
        dut=device,
        platform=replace(UNKNOWN_PLATFORM, cpus=1),
        deviations=specification.deviations,
    )


class Scripted:
    """Answers steps at once, with noise that is never steady; its clock advances by the requested times."""

    def __init__(self, iops: float = _IOPS) -> None:
        self.iops = iops
        self.noise = random.Random(0)
        self.now_ns = 10**9
        self.sampled = 0

    def perform(self, step: Step) -> Iterator[Outcome]:
        """Yield the outcomes of a step."""
        if isinstance(step, Purge):
            yield PurgeOutcome(method="none", samples=0, survivors=0, started="", seconds=0, evidence="")
        elif isinstance(step, ContinuousStimulus):
            for number in range(1, step.samples + 1):
                yield self.sample(number)
            yield self.whole(step)

    def sample(self, number: int) -> Sample:
        """Return one second of writes."""
        self.sampled += 1
        level = 2 if self.sampled // 1024 % 2 else 1
        ios = max(1, round(self.iops * level * self.noise.uniform(0.9, 1.1)))
        mean_us = 1e6 * 32 / ios
        return Sample(
            number=number,
            ended_seconds=float(number),
            seconds=1.0,
            read_ios=0,
            write_ios=ios,
            read_bytes=0,
            write_bytes=4096 * ios,
            average_response_us=mean_us,
            maximum_response_us=20 * mean_us,
            three_nines_us=3 * mean_us,
            four_nines_us=5 * mean_us,
            five_nines_us=10 * mean_us,
            telemetry=self.vitals(ios),
        )

    def vitals(self, ios: int) -> TelemetrySample:
        """Return the telemetry of one second."""
        block = BlockStatistics(
            read_ios=0,
            write_ios=ios,
            read_bytes=0,
            write_bytes=4096 * ios,
            queue=31.5 * self.noise.random(),
            busy_percent=99.5,
        )
        return TelemetrySample(
            seconds=1.0,
            cpu_percent=100 * self.noise.random(),
            busiest_cpu_percent=98.7,
            block=block,
            celsius=61.85,
            throttlings=0,
            link_errors=0,
        )

    def whole(self, step: ContinuousStimulus) -> Measurement:
        """Return the measurement of a complete stimulus."""
        seconds = step.stimulus.seconds or 0.0
        began_ns, self.now_ns = self.now_ns, self.now_ns + round(1e9 * seconds)
        ios = max(1, round(self.iops * seconds))
        bins = min(1000, ios)
        write = Transfers(
            ios=ios,
            transferred_bytes=4096 * ios,
            runtime_ms=round(1000 * seconds),
            response_min_ns=10_000,
            response_mean_ns=160_000.0,
            response_max_ns=3_000_000,
            histogram=Histogram.from_bins((100_000 + 1000 * edge, (ios + edge) // bins) for edge in range(bins)),
        )
        clocking = Timing(
            started=_STARTED,
            started_monotonic_ns=began_ns,
            ended_monotonic_ns=self.now_ns,
            suite_gap_us=1000.0,
            idle_gap_ms=60.0,
        )
        return Measurement(
            stimulus=step.stimulus,
            seed=0,
            read=NO_TRANSFERS,
            write=write,
            timing=clocking,
            evidence="",
            evidence_sha256="0" * 64,
        )


def perform_phase(phase: str, test: str, hours: float, ios: float, folder: RunFolder) -> None:
    """Run one phase in this process, and print its duration without imports."""
    began = time.monotonic()
    if phase == "run":
        run(facts(test, hours), Scripted(ios / hours / 3600).perform, folder, lambda _: None)
    else:
        result = assess(folder)
        if phase == "draw":
            drawing.draw(build(result), ("svg", "pdf"))
    print(time.monotonic() - began)


def cost(phase: str, test: str, hours: float, folder: RunFolder, ios: float | None = None) -> tuple[float, float]:
    """Return seconds (nan if it failed) and peak resident memory (MiB) of a phase in a separate process."""
    many = 3600 * hours * _IOPS if ios is None else ios
    command = [sys.executable, __file__, "--test", test, "--phase", phase, "--folder", str(folder.path)]
    with subprocess.Popen(
        [*command, "--hours", str(hours), "--ios", str(many)], stdout=subprocess.PIPE, text=True
    ) as process:
        output = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return float(output) if process.returncode == 0 else math.nan, usage.ru_maxrss / 1024


def compare(test: str, cases: Iterable[tuple[float, float | None]], memory: Path | None) -> None:
    """Measure and print a line per case of hours and I/Os and per phase, with the ratio to the first case."""
    first: dict[str, tuple[float, float]] = {}
    print(f"{test:8} {'hours':>6} {'I/Os':>8}   {'seconds':>8} {'ratio':>6}   {'peak MiB':>8} {'ratio':>6}")
    for hours, ios in cases:
        with tempfile.TemporaryDirectory(dir=memory) as parent:
            folder = RunFolder.create(Path(parent) / "run")
            for phase in PHASES:
                seconds, peak = cost(phase, test, hours, folder, ios)
                base = first.setdefault(phase, (seconds, peak))
                ratios = f"{seconds:8.2f} {seconds / base[0]:6.1f}   {peak:8.0f} {peak / base[1]:6.2f}"
                print(f"{phase:8} {hours:6g} {ios or 3600 * hours * _IOPS:8.0e}   {ratios}", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--test", choices=("wsat", "xsr"), action="append")
    parser.add_argument("--hours", type=float, nargs="+", default=[1, 24, 168])
    parser.add_argument("--ios", type=float, nargs="+")
    parser.add_argument("--phase", choices=PHASES, help="do this in this process, in --folder")
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    if arguments.phase:
        folder = RunFolder(path=arguments.folder)
        perform_phase(arguments.phase, arguments.test[0], arguments.hours[0], arguments.ios[0], folder)
        return
    memory = Path("/dev/shm")  # noqa: S108  # durable writes cost nothing there
    cases = [(hours, None) for hours in arguments.hours]
    if arguments.ios:
        cases = [(arguments.hours[0], ios) for ios in arguments.ios]
    for test in arguments.test or ("wsat", "xsr"):
        compare(test, cases, memory if memory.is_dir() else None)


if __name__ == "__main__":
    main()
