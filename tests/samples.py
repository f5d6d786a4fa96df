"""Believable results, made without a device: the same arguments give the same values.

The IOPS are those of golden case G2 (a 1 TB SATA drive, PTS-E 2.0), with a transition from FOB in the first rounds
and a little seeded noise.
"""

from __future__ import annotations

import datetime
import itertools
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from snia_pts.dut import Dut
from snia_pts.measurement import NOTHING, Clocking, Histogram, Measurement, Outcome, Purged, Transfers
from snia_pts.procedures import TESTS, drive
from snia_pts.result import Ending, RunFacts, RunWarning, TestResult, fold
from snia_pts.spec import Deviation, IopsSpec, TestClass
from snia_pts.specfile import read_specification
from snia_pts.steps import Purge, Round, Step, Stimulus
from snia_pts.testplatform import TestPlatform
from snia_pts.units import KIB, MB

STARTED = datetime.datetime(2026, 11, 3, 1, 46, tzinfo=datetime.UTC)

#: Read shares of the columns below.
MIXES = (0, 5, 35, 50, 65, 95, 100)
#: IOPS by block size (KiB) and mix: golden case G2.
GOLDEN = {
    0.5: (7361.2, 7570.6, 10273.8, 13092.9, 17114.8, 52889.6, 82507.1),
    4: (7943.3, 7913.1, 11005.6, 14015.3, 18429.4, 54875.8, 82095.5),
    8: (4113.1, 4043.9, 5771.2, 7252.7, 9948.3, 33859.3, 58272.7),
    16: (2094.5, 2042.5, 2970.5, 3652, 4991.9, 17609.8, 31458.3),
    32: (1029.5, 1076, 1490.1, 1866.5, 2535.5, 9224.6, 16023.4),
    64: (526.3, 533, 747.1, 942.4, 1259.6, 4398.8, 7729.2),
    128: (262.8, 272.3, 374.7, 466.6, 647, 2152.2, 3536.9),
    1024: (32.7, 34.8, 48.6, 61, 82.3, 270.6, 436.3),
}
_BINS_US = (0.3, 0.6, 0.8, 0.9, 1.0, 1.1, 1.3, 1.8, 4.0, 12.0)
_BIN_SHARES = (0.02, 0.1, 0.2, 0.22, 0.2, 0.15, 0.07, 0.0345, 0.005, 0.0005)


def golden_iops(read_percent: int, block_size_bytes: int) -> float:
    """Return G2's IOPS of a cell; cells it does not name lie on straight lines between those it does."""
    kib = block_size_bytes / KIB
    nearest = min(GOLDEN, key=lambda size: abs(math.log(size / kib)))
    for (low, lower), (high, upper) in itertools.pairwise(zip(MIXES, GOLDEN[nearest], strict=True)):
        if low <= read_percent <= high:
            return nearest / kib * (lower + (upper - lower) * (read_percent - low) / (high - low))
    raise ValueError(f"no share of reads: {read_percent}")


def dut(*, sector_bytes: int = 512, **changes: Any) -> Dut:
    """Return a 960 GB SATA drive."""
    known: dict[str, Any] = {
        "path": "/dev/sdb", "kind": "drive", "model": "EXAMPLE MZ7L3960HCJR-00A07", "serial": "S6KMNE0T500123",
        "firmware": "JXTC304Q", "bus": "SATA 6.0 Gb/s", "capacity_bytes": 960_197_124_096,
        "logical_sector_bytes": sector_bytes, "physical_sector_bytes": 4096, "rotational": False,
        "write_cache": "disabled", "discard": True,
    }  # fmt: skip
    return Dut(**{**known, **changes})


def platform(**changes: str | int) -> TestPlatform:
    """Return a server."""
    known: dict[str, Any] = {
        "hostname": "ptslab-07", "motherboard": "Supermicro X12SPi-TF", "cpu": "Intel(R) Xeon(R) Gold 6330 @ 2.00GHz",
        "cpus": 56, "memory_bytes": 137_438_953_472, "operating_system": "Debian GNU/Linux 12 (bookworm)",
        "kernel": "6.1.0-28-amd64", "python": "3.11.2", "suite_version": "0.1.0", "engine": "fio",
        "engine_version": "3.33", "io_engine": "io_uring",
    }  # fmt: skip
    return TestPlatform(**{**known, **changes})


def deviations(count: int) -> tuple[Deviation, ...]:
    """Return ``count`` deviations, some with long texts."""
    known = (
        Deviation(what="rounds.point_seconds", standard="60", actual="1", clause="2.0.2 chapter 7, p. 26 (1 minute)"),
        Deviation(
            what="idle gap", actual="1.3 s without host I/O between RND 128 KiB 50/50 and RND 64 KiB 50/50 of round 4",
            standard="stimuli follow one another without interruption", clause="2.0.2 section 3.3",
        ),
        Deviation(
            what="purge", standard="the device is purged, and returns to a state as if no host write had occurred",
            actual="TRIM of all blocks; of 64 sampled blocks 0 survived; the device does not offer SANITIZE",
            clause="2.0.2 section 3.2",
        ),
        Deviation(what="setup.queue_depth", standard="32 (recommended)", actual="16", clause="2.0.2 chapter 7, p. 27"),
    )  # fmt: skip
    return tuple(known[number % len(known)] for number in range(count))


def run_facts(
    spec: IopsSpec,
    *,
    test_class: TestClass = "enterprise",
    device: Dut | None = None,
    host: TestPlatform | None = None,
    found: Sequence[Deviation] = (),
    warnings: Sequence[RunWarning] = (),
    operator: str = "J. Doe",
    command_line: Sequence[str] = ("snia-pts", "run", "iops", "/dev/sdb", "--serial", "S6KMNE0T500123"),
) -> RunFacts:
    """Return what is fixed before the first step."""
    return RunFacts(
        run_id="20261103-014600-iops-S6KMNE0T500123", started=STARTED.isoformat(), command_line=tuple(command_line),
        operator=operator, seed=4_711_202_611, test_class=test_class, spec=spec, dut=device or dut(),
        platform=host or platform(), deviations=tuple(found), warnings=tuple(warnings),
    )  # fmt: skip


def answers(
    spec: IopsSpec,
    device: Dut,
    *,
    rounds: int | None = None,
    steady: bool = True,
    stop_after: int | None = None,
    scale: float = 1.0,
) -> tuple[tuple[Step, tuple[Outcome, ...]], ...]:
    """Return the steps of a run of ``device`` with their outcomes.

    The device leaves FOB in the first rounds and is steady so that the test ends after ``rounds`` (default: as
    soon as it may), or, unless ``steady``, keeps wandering until the maximum.  ``stop_after`` cuts the run after so
    many outcomes, as an interruption does; ``scale`` makes the device faster, slower, or (0) dead.
    """
    source = _Device(device, spec, rounds or spec.steady_state.window_rounds, steady, scale)
    told: list[tuple[Step, tuple[Outcome, ...]]] = []

    def answer(step: Step) -> Iterable[Outcome]:
        told.append((step, tuple(source.answer(step))))
        return told[-1][1]

    drive(TESTS[spec.test](spec, device), answer)
    return tuple(_cut(told, stop_after))


def _cut(
    told: Sequence[tuple[Step, tuple[Outcome, ...]]], stop_after: int | None
) -> Iterator[tuple[Step, tuple[Outcome, ...]]]:
    left = sum(len(outcomes) for _, outcomes in told) if stop_after is None else stop_after
    for step, outcomes in told:
        if left <= 0:
            return
        yield step, outcomes[:left]
        left -= len(outcomes)


class _Device:
    """Answers steps like a drive: a clock that only goes forward, and noise from one seed."""

    def __init__(self, device: Dut, spec: IopsSpec, rounds: int, steady: bool, scale: float) -> None:
        self.device, self.spec, self.rounds, self.steady, self.scale = device, spec, rounds, steady, scale
        self.noise = random.Random(20261103)
        self.now_ns = 1_000_000_000_000
        self.count = 0
        self.fresh = True

    def answer(self, step: Step) -> Iterator[Outcome]:
        if isinstance(step, Purge):
            yield self._purged()
        for stimulus in step.stimuli:
            factor = self._factor(step.number) if isinstance(step, Round) else 1.0
            yield self._measured(stimulus, factor)

    def _purged(self) -> Purged:
        self.now_ns += 42_500_000_000
        return Purged(
            method="ATA SANITIZE BLOCK ERASE", samples=64, survivors=0, started=STARTED.isoformat(), seconds=42.5,
            evidence="00000-purge",
        )  # fmt: skip

    def _factor(self, number: int) -> float:
        noise = 1 + self.noise.uniform(-0.02, 0.02)
        window = self.spec.steady_state.window_rounds
        if not self.steady:
            return noise * (1.35 if number % 2 else 0.8)
        transition = self.rounds - window
        return noise * (1 + 0.6 * (transition + 1 - number) / max(1, transition) if number <= transition else 1.0)

    def _measured(self, stimulus: Stimulus, factor: float) -> Measurement:
        self.count += 1
        own_gap_us = None if self.fresh else 900 + self.noise.uniform(0, 400)
        idle_gap_ms = None if self.fresh else 61 + self.noise.uniform(0, 30)
        self.fresh = stimulus.access == "SEQ"
        seconds, ios = self._amount(stimulus, factor * (1 + self.noise.uniform(-0.004, 0.004)))
        started_ns = self.now_ns + round(1e6 * (idle_gap_ms or 0))
        self.now_ns = started_ns + round(1e9 * seconds)
        reads = round(ios * stimulus.read_percent / 100)
        mean_ns = 1e9 * stimulus.total_oio * seconds / max(1, ios)
        name = f"{self.count + 1:05}-point"
        return Measurement(
            stimulus=stimulus, seed=self.noise.getrandbits(32),
            read=_transfers(stimulus, reads, seconds, 0.8 * mean_ns),
            write=_transfers(stimulus, ios - reads, seconds, mean_ns),
            clocking=Clocking(
                started=(STARTED + datetime.timedelta(microseconds=started_ns // 1000 - 10**9)).isoformat(),
                started_monotonic_ns=started_ns, ended_monotonic_ns=self.now_ns,
                own_gap_us=own_gap_us, idle_gap_ms=idle_gap_ms,
            ),
            evidence=name, evidence_sha256=f"{self.count:064x}",
        )  # fmt: skip

    def _amount(self, stimulus: Stimulus, factor: float) -> tuple[float, int]:
        if stimulus.amount_bytes is not None:
            return stimulus.amount_bytes / (480 * MB), stimulus.amount_bytes // stimulus.block_size_bytes
        seconds = stimulus.seconds or 0.0
        iops = factor * golden_iops(stimulus.read_percent, stimulus.block_size_bytes)
        return seconds, round(self.scale * iops * seconds)


def _transfers(stimulus: Stimulus, ios: int, seconds: float, mean_ns: float) -> Transfers:
    if not ios:
        return NOTHING
    bins = {round(mean_ns * place): int(ios * share) for place, share in zip(_BINS_US, _BIN_SHARES, strict=True)}
    return Transfers(
        ios=ios, transferred_bytes=ios * stimulus.block_size_bytes, runtime_ms=round(1000 * seconds),
        response_min_ns=round(0.25 * mean_ns), response_mean_ns=mean_ns, response_max_ns=round(14 * mean_ns),
        histogram=Histogram.of(tuple(sorted(bins.items()))),
    )  # fmt: skip


def iops_result(
    *,
    rounds: int | None = 7,
    steady: bool = True,
    pts: str = "2.0.2",
    test_class: TestClass = "enterprise",
    sector_bytes: int = 512,
    ending: Ending = "finished",
    ending_detail: str = "",
    stop_after: int | None = None,
    scale: float = 1.0,
    found: Sequence[Deviation] = (),
    warnings: Sequence[RunWarning] = (),
    device: Dut | None = None,
    host: TestPlatform | None = None,
    operator: str = "J. Doe",
    command_line: Sequence[str] = ("snia-pts", "run", "iops", "/dev/sdb", "--serial", "S6KMNE0T500123"),
    overrides: Iterable[tuple[str, Any]] = (),
) -> TestResult:
    """Return the result of an IOPS test.

    ``rounds`` is where a steady device ends it; one that is not steady runs to the maximum.  ``stop_after`` outcomes,
    with an ``ending`` other than finished, make a stopped run: 1 is the purge, 2 the preconditioning too.
    ``overrides`` change the specification as ``--set`` does.
    """
    specification = read_specification("iops", pts, test_class, overrides=overrides)
    device = device or dut(sector_bytes=sector_bytes)
    answered = answers(specification.spec, device, rounds=rounds, steady=steady, stop_after=stop_after, scale=scale)
    last = [outcome for _, outcomes in answered for outcome in outcomes if isinstance(outcome, Measurement)]
    ended_ns = last[-1].clocking.ended_monotonic_ns if last else 10**12
    return fold(
        run_facts(
            specification.spec, test_class=test_class, device=device, host=host, warnings=warnings, operator=operator,
            found=(*specification.deviations, *found), command_line=command_line,
        ),
        answered, ending=ending, ending_detail=ending_detail,
        finished=(STARTED + datetime.timedelta(microseconds=(ended_ns - 10**12) // 1000)).isoformat(),
    )  # fmt: skip
