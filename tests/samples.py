"""Plausible results, made without a device: the same arguments give the same values.

The IOPS are those of golden case G2 (a 1 TB SATA drive, PTS-E 2.0), with a transition from FOB in the first rounds and
a little seeded noise.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import itertools
import json
import math
import random
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from snia_pts.lab.evidence import number_of
from snia_pts.lab.fio.seeds import stimulus_seed
from snia_pts.model.annotations import Annotations
from snia_pts.model.dut import Dut
from snia_pts.model.histogram import Histogram
from snia_pts.model.measurement import (
    NO_TRANSFERS,
    IdleOutcome,
    Measurement,
    Outcome,
    PurgeOutcome,
    Sample,
    Timing,
    Transfers,
)
from snia_pts.model.run_options import RunOptions
from snia_pts.model.steps import ContinuousStimulus, Idle, Purge, Round, Step, Stimulus
from snia_pts.model.test_platform import HostSetting, TestPlatform
from snia_pts.procedures import Conclusion, drive, procedure
from snia_pts.profiles.spec import ProfileSpec
from snia_pts.record.folder import RunFolder
from snia_pts.results.builder import fold
from snia_pts.results.result import Ending, RunFacts, RunWarning, TestResult
from snia_pts.results.target_deviations import target_deviations
from snia_pts.runner.session import run
from snia_pts.spec import Deviation, SampledSteadyStateRule, Spec, SteadyStateRule, TestClass, loop_rule, settling_rule
from snia_pts.spec.reader import read_specification
from snia_pts.units import KIB, MB
from tests.strategies import vitals

STARTED = datetime.datetime(2026, 11, 3, 1, 46, tzinfo=datetime.UTC)
#: The seed of the runs.
SEED = 4_711_202_611

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
    """Return G2's IOPS of a cell; the other cells are interpolated linearly."""
    kib = block_size_bytes / KIB
    nearest = min(GOLDEN, key=lambda size: abs(math.log(size / kib)))
    for (low, lower), (high, upper) in itertools.pairwise(zip(MIXES, GOLDEN[nearest], strict=True)):
        if low <= read_percent <= high:
            return nearest / kib * (lower + (upper - lower) * (read_percent - low) / (high - low))
    raise ValueError(f"no share of reads: {read_percent}")


def dut(*, sector_bytes: int = 512, **changes: Any) -> Dut:
    """Return a 960 GB SATA drive."""
    known: dict[str, Any] = {
        "path": "/dev/sdb",
        "kind": "drive",
        "model": "EXAMPLE MZ7L3960HCJR-00A07",
        "serial": "S6KMNE0T500123",
        "firmware": "JXTC304Q",
        "bus": "SATA 6.0 Gb/s",
        "capacity_bytes": 960_197_124_096,
        "logical_sector_bytes": sector_bytes,
        "physical_sector_bytes": 4096,
        "rotational": False,
        "write_cache": "disabled",
        "discard": True,
        "write_cache_source": "ATA IDENTIFY; set for the run, was enabled",
    }
    return Dut(**{**known, **changes})


SETTINGS = (
    HostSetting(
        name="governor",
        value="performance",
        judgement="good",
        recommended="performance",
        before="schedutil",
        reason="a processor that slows down between I/Os costs up to four fifths of the IOPS",
    ),
    HostSetting(
        name="scheduler",
        value="mq-deadline",
        judgement="affects results",
        recommended="none",
        reason="a scheduler sorts, delays and locks; it could not be set: Device or resource busy",
    ),
    HostSetting(name="turbo", value="unknown", judgement="unknown", reason="the kernel does not tell"),
)


def platform(**changes: Any) -> TestPlatform:
    """Return a server."""
    known: dict[str, Any] = {
        "hostname": "ptslab-07",
        "motherboard": "Supermicro X12SPi-TF",
        "cpu": "Intel(R) Xeon(R) Gold 6330 @ 2.00GHz",
        "cpus": 56,
        "memory_bytes": 137_438_953_472,
        "operating_system": "Debian GNU/Linux 12 (bookworm)",
        "kernel": "6.1.0-28-amd64",
        "python": "3.11.2",
        "suite_version": "0.1.0",
        "engine": "fio",
        "engine_version": "3.33",
        "io_engine": "io_uring",
        "settings": SETTINGS,
    }
    return TestPlatform(**{**known, **changes})


def deviations(count: int) -> tuple[Deviation, ...]:
    """Return ``count`` different deviations, some with long texts."""
    known = (
        Deviation(what="rounds.point_seconds", standard="60", actual="1", clause="2.0.2 chapter 7, p. 26 (1 minute)"),
        Deviation(
            what="idle gap",
            actual="1.3 s without host I/O between RND 128 KiB 50/50 and RND 64 KiB 50/50 of round 4",
            standard="stimuli follow one another without interruption",
            clause="2.0.2 section 3.3",
        ),
        Deviation(
            what="purge",
            standard="the device is purged, and returns to a state as if no host write had occurred",
            actual="TRIM of all blocks; of 64 sampled blocks 0 survived; the device does not offer SANITIZE",
            clause="2.0.2 section 3.2",
        ),
        Deviation(what="setup.queue_depth", standard="32 (recommended)", actual="16", clause="2.0.2 chapter 7, p. 27"),
    )
    return tuple(
        dataclasses.replace(known[number % len(known)], clause=f"{known[number % len(known)].clause}, no. {number + 1}")
        for number in range(count)
    )


def run_facts(
    spec: Spec,
    *,
    test_class: TestClass = "enterprise",
    device: Dut | None = None,
    host: TestPlatform | None = None,
    found: Sequence[Deviation] = (),
    warnings: Sequence[RunWarning] = (),
    operator: str = "J. Doe",
    command_line: Sequence[str] = (),
) -> RunFacts:
    """Return the facts of a run, which are fixed before the first step."""
    device = device or dut()
    return RunFacts(
        options=RunOptions(
            test=spec.test,
            target=device.path,
            test_class=test_class,
            specification=spec.name if isinstance(spec, ProfileSpec) else None,
        ),
        run_id=f"{spec.test}-EXAMPLE-MZ7L3960HCJR-00A07-20261103T014600",
        started=STARTED.isoformat(),
        command_line=tuple(command_line) or ("snia-pts", spec.test, "/dev/sdb", "--serial", "S6KMNE0T500123"),
        about=Annotations(operator=operator),
        seed=SEED,
        test_class=test_class,
        spec=spec,
        dut=device,
        platform=host or platform(),
        deviations=tuple(found),
        warnings=tuple(warnings),
    )


def store_run(path: Path, test: str = "iops", **how: Any) -> RunFolder:
    """Make a stored run from a scripted drive's answers, with an evidence file for each, like a simulated drive's.

    Equal runs are performed once.
    """
    folder = RunFolder.create(path)
    for name, content in _files_of_run(test, **how).items():
        (folder.path / name).write_bytes(content)
    return folder


@cache
def _files_of_run(test: str, **how: Any) -> Mapping[str, bytes]:
    with tempfile.TemporaryDirectory() as place:
        folder = perform_run(Path(place) / "run", test, durable=False, **how)
        files = [file for file in folder.path.rglob("*") if file.is_file()]
        return {str(file.relative_to(folder.path)): file.read_bytes() for file in files}


def perform_run(
    path: Path,
    test: str = "iops",
    *,
    durable: bool = True,
    overrides: Iterable[tuple[str, Any]] = (),
    **how: Any,
) -> RunFolder:
    """Perform the run of ``store_run``."""
    device, specification = dut(kind="simulated"), read_specification(test, "2.0.2", "enterprise", overrides=overrides)
    found = (*specification.deviations, *target_deviations(device, specification.spec))
    facts = run_facts(specification.spec, device=device, found=found)
    recorded = iter(answers(facts.spec, facts.dut, **how)[0])
    folder = RunFolder.create(path)

    def perform(step: Step) -> Iterator[Outcome]:
        stimulus, outcomes = next(recorded)
        assert stimulus == step
        for outcome in outcomes:
            if isinstance(outcome, PurgeOutcome):
                (folder.evidence / f"{outcome.evidence}.json").write_text("{}")
            if isinstance(outcome, Measurement):
                answer = json.dumps(
                    {"jobs": [{"read": _as_answered(outcome.read), "write": _as_answered(outcome.write)}]}
                )
                (folder.evidence / f"{outcome.evidence}.json").write_text(answer)
                yield dataclasses.replace(
                    outcome,
                    seed=stimulus_seed(facts.seed or 0, number_of(outcome.evidence) or 0),
                    evidence_sha256=hashlib.sha256(answer.encode()).hexdigest(),
                )
            else:
                yield outcome

    run(facts, perform, folder, lambda event: None, durable=durable)
    return folder


def cut_journal(folder: RunFolder, lines: int) -> None:
    """Truncate a journal to ``lines`` entries, as a crash would, without a result."""
    data = folder.journal.read_bytes().splitlines(keepends=True)[:lines]
    folder.journal.write_bytes(b"".join(data))
    folder.result.unlink(missing_ok=True)
    remove_later_evidence(folder)


def remove_later_evidence(folder: RunFolder) -> None:
    """Remove the evidence that has no entry in the journal, except that of one point."""
    whole = [line for line in folder.journal.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    known = {name for line in whole for name in json.loads(line)["entry"].get("evidence", {})}
    for path in sorted(path for path in folder.evidence.iterdir() if path.name not in known)[1:]:
        path.unlink()


def _as_answered(side: Transfers) -> dict[str, Any]:
    return {
        "total_ios": side.ios,
        "io_bytes": side.transferred_bytes,
        "runtime": side.runtime_ms,
        "lat_ns": {
            "min": side.response_min_ns,
            "mean": side.response_mean_ns,
            "max": side.response_max_ns,
            "bins": dict(side.histogram.bins),
        },
    }


def answers(
    spec: Spec,
    device: Dut,
    *,
    rounds: int | None = None,
    steady: bool = True,
    stop_after: int | None = None,
    scale: float = 1.0,
) -> tuple[tuple[tuple[Step, tuple[Outcome, ...]], ...], Conclusion]:
    """Return the steps of a run of ``device`` with their outcomes, and the procedure's conclusion.

    The device leaves FOB in the first rounds and is steady so that a loop of rounds ends after ``rounds`` (default: as
    soon as possible), or, unless ``steady``, varies until the maximum. ``stop_after`` ends the run after so many
    outcomes, as an interruption does; ``scale`` makes the device faster, slower, or (0) dead.
    """
    rule = loop_rule(spec)
    source = _Device(device, rounds or (rule.window_rounds if rule else 0), rule, settling_rule(spec), steady, scale)
    steps: list[tuple[Step, tuple[Outcome, ...]]] = []

    def answer(step: Step) -> Iterable[Outcome]:
        steps.append((step, tuple(source.answer(step))))
        return steps[-1][1]

    conclusion = drive(procedure(spec, device), answer)
    return tuple(_cut(steps, stop_after)), conclusion if stop_after is None else None


def _cut(
    steps: Sequence[tuple[Step, tuple[Outcome, ...]]], stop_after: int | None
) -> Iterator[tuple[Step, tuple[Outcome, ...]]]:
    left = sum(len(outcomes) for _, outcomes in steps) if stop_after is None else stop_after
    for step, outcomes in steps:
        if left <= 0:
            return
        yield step, outcomes[:left]
        left -= len(outcomes)


class _Device:
    """Answers steps like a drive: a monotonic clock, noise from one seed, and a memory of its writes.

    ``fills`` is the amount written since the purge, in capacities: random writes are fast until the drive is full.
    ``scattered`` (0 to 1) is the fragmented share of it: sequential writes are slow until it is overwritten. ``rested``
    is the idle time in seconds that the drive has not yet used up for its own work.
    """

    def __init__(
        self,
        device: Dut,
        rounds: int,
        rule: SteadyStateRule | None,
        settling: SampledSteadyStateRule | None,
        steady: bool,
        scale: float,
    ) -> None:
        self.device, self.rounds, self.rule, self.settling = device, rounds, rule, settling
        self.steady, self.scale = steady, scale
        self.noise = random.Random(20261103)
        self.now_ns = 1_000_000_000_000
        self.count = self.sampled = 0
        self.fresh = True
        self.idle_ms = 0.0
        self.fills = self.scattered = self.rested = 0.0

    def answer(self, step: Step) -> Iterator[Outcome]:
        match step:
            case Purge():
                yield self._purged()
            case Round():
                for stimulus in step.stimuli:
                    yield self._measured(stimulus, self._factor(step.number), step)
            case Idle():
                yield self._idled(step.seconds)
            case ContinuousStimulus():
                yield from self._continuous(step)

    def _purged(self) -> PurgeOutcome:
        self.now_ns += 42_500_000_000
        self.fills = self.scattered = self.rested = 0.0
        self.fresh = True
        return PurgeOutcome(
            method="ATA SANITIZE BLOCK ERASE",
            samples=64,
            survivors=0,
            started=STARTED.isoformat(),
            seconds=42.5,
            evidence=f"{self.count + 1:05}-purge",
        )

    def _idled(self, seconds: float) -> IdleOutcome:
        self.rested = min(60.0, self.rested + seconds)
        self.idle_ms += 1000 * seconds - 61
        return IdleOutcome(started=self._clock(self.now_ns), seconds=seconds)

    def _factor(self, number: int) -> float:
        noise = 1 + self.noise.uniform(-0.02, 0.02)
        window = self.rule.window_rounds if self.rule else 0
        if not self.steady:
            return noise * (1.35 if number % 2 else 0.8)
        transition = self.rounds - window
        return noise * (1 + 0.6 * (transition + 1 - number) / max(1, transition) if number <= transition else 1.0)

    def _continuous(self, step: ContinuousStimulus) -> Iterator[Outcome]:
        """Yield the samples of a continuous stimulus, and their sum as its total."""
        if not step.samples:
            yield self._measured(step.stimulus, self._behaviour(step.stimulus), step)
            return
        samples: list[Sample] = []
        left = step.stimulus.limit_bytes
        for number in range(1, step.samples + 1):
            seconds = min(
                step.sample_seconds or 0, (step.stimulus.seconds or 0) - (step.sample_seconds or 0) * (number - 1)
            )
            samples.append(self._sample(step.stimulus, number, seconds, samples[-1].ended_seconds if samples else 0.0))
            moved = samples[-1].read_bytes + samples[-1].write_bytes
            yield samples[-1]
            if left is not None and moved >= left:
                break
            left = None if left is None else left - moved
        yield self._whole(step.stimulus, samples)

    def _sample(self, stimulus: Stimulus, number: int, seconds: float, before: float) -> Sample:
        self.sampled += 1
        factor = self._behaviour(stimulus) * (1 + self.noise.uniform(-0.015, 0.015))
        if not self.steady and self.settling:
            factor *= 1.3 if (self.sampled // self.settling.stride_samples) % 2 else 0.8
        ios = max(1, round(self.scale * factor * self._iops(stimulus) * seconds))
        reads = round(ios * stimulus.read_percent / 100)
        size = _mean_bytes(stimulus)
        mean_us = 1e6 * stimulus.total_oio * seconds / ios
        self._wear(stimulus, (ios - reads) * size, seconds)
        tail = 1 + self.noise.uniform(0, 0.6)
        return Sample(
            number=number,
            ended_seconds=before + seconds,
            seconds=seconds,
            read_ios=reads,
            write_ios=ios - reads,
            read_bytes=reads * size,
            write_bytes=(ios - reads) * size,
            average_response_us=mean_us,
            maximum_response_us=16 * mean_us * tail,
            three_nines_us=4 * mean_us * tail if ios >= 1000 else None,
            four_nines_us=8 * mean_us * tail if ios >= 10_000 else None,
            five_nines_us=13 * mean_us * tail if ios >= 100_000 else None,
        )

    def _whole(self, stimulus: Stimulus, samples: Sequence[Sample]) -> Measurement:
        seconds = samples[-1].ended_seconds
        reads, writes = sum(sample.read_ios for sample in samples), sum(item.write_ios for item in samples)
        mean_ns = 1e9 * stimulus.total_oio * seconds / max(1, reads + writes)
        return self._measurement(stimulus, reads, writes, seconds, mean_ns)

    def _behaviour(self, stimulus: Stimulus) -> float:
        """Return the factor by which the drive is now faster than in steady state."""
        writes = (100 - stimulus.read_percent) / 100
        if stimulus.access == "SEQ":
            return 1 - 0.45 * self.scattered * writes
        fresh = 6.0 if self.fills < 0.9 else 6.0 * math.exp(-5 * (self.fills - 0.9))
        return 1 + writes * (fresh + 0.02 * self.rested)

    def _wear(self, stimulus: Stimulus, written_bytes: float, seconds: float) -> None:
        share = written_bytes / self.device.capacity_bytes
        self.fills += share
        self.rested = max(0.0, self.rested - 1.2 * seconds)
        scattering = 3 * share if stimulus.access == "RND" else -2 * share
        self.scattered = min(1.0, max(0.0, self.scattered + scattering))

    def _iops(self, stimulus: Stimulus) -> float:
        if stimulus.access == "SEQ":
            speed = (480 + 0.6 * stimulus.read_percent) * MB * stimulus.total_oio / (stimulus.total_oio + 0.5)
            return speed / stimulus.largest_block_bytes
        busy = stimulus.total_oio / (stimulus.total_oio + 8) * 136 / 128
        return busy * golden_iops(stimulus.read_percent, _mean_bytes(stimulus))

    def _measured(self, stimulus: Stimulus, factor: float, step: Step) -> Measurement:
        factor *= 1 + self.noise.uniform(-0.004, 0.004)
        if stimulus.amount_bytes is not None:
            seconds, ios = stimulus.amount_bytes / (480 * MB), stimulus.amount_bytes // stimulus.largest_block_bytes
        else:
            seconds = stimulus.seconds or 0.0
            ios = round(self.scale * factor * self._iops(stimulus) * seconds)
        reads = round(ios * stimulus.read_percent / 100)
        self._wear(stimulus, (ios - reads) * _mean_bytes(stimulus), seconds)
        mean_ns = 1e9 * stimulus.total_oio * seconds / max(1, ios)
        fine = isinstance(step, ContinuousStimulus) and step.phase == "histogram"
        return self._measurement(stimulus, reads, ios - reads, seconds, mean_ns, fine=fine)

    def _measurement(
        self, stimulus: Stimulus, reads: int, writes: int, seconds: float, mean_ns: float, *, fine: bool = False
    ) -> Measurement:
        self.count += 1
        suite_gap_us = None if self.fresh else 900 + self.noise.uniform(0, 400)
        idle_gap_ms = None if self.fresh else 61 + self.idle_ms + self.noise.uniform(0, 30)
        self.fresh = stimulus.passes is not None
        self.idle_ms = 0.0
        started_ns = self.now_ns + round(1e6 * (idle_gap_ms or 0))
        self.now_ns = started_ns + round(1e9 * seconds)
        return Measurement(
            stimulus=stimulus,
            seed=self.noise.getrandbits(32),
            read=_transfers(stimulus, reads, seconds, 0.8 * mean_ns, fine),
            write=_transfers(stimulus, writes, seconds, mean_ns, fine),
            timing=Timing(
                started=self._clock(started_ns),
                started_monotonic_ns=started_ns,
                ended_monotonic_ns=self.now_ns,
                suite_gap_us=suite_gap_us,
                idle_gap_ms=idle_gap_ms,
            ),
            evidence=f"{self.count + 1:05}-point",
            evidence_sha256=f"{self.count:064x}",
            telemetry=vitals(
                cpu_percent=min(96.0, 2.5 + 0.5 * stimulus.thread_count + (reads + writes) / seconds / 2500)
            ),
        )

    def _clock(self, at_ns: int) -> str:
        return (STARTED + datetime.timedelta(microseconds=at_ns // 1000 - 10**9)).isoformat()


def _mean_bytes(stimulus: Stimulus) -> int:
    """Return the mean transfer size of a stimulus, in whole sectors."""
    if isinstance(stimulus.block_size_bytes, int):
        return stimulus.block_size_bytes
    mean = sum(share.size_bytes * share.percent for share in stimulus.block_size_bytes) / 100
    return round(mean / 512) * 512


def _transfers(stimulus: Stimulus, ios: int, seconds: float, mean_ns: float, fine: bool) -> Transfers:
    if not ios:
        return NO_TRANSFERS
    shares = _fine_shares() if fine else dict(zip(_BINS_US, _BIN_SHARES, strict=True))
    bins = {round(mean_ns * place): round(ios * share) for place, share in shares.items()}
    return Transfers(
        ios=ios,
        transferred_bytes=ios * _mean_bytes(stimulus),
        runtime_ms=round(1000 * seconds),
        response_min_ns=round(0.25 * mean_ns),
        response_mean_ns=mean_ns,
        response_max_ns=round(14 * mean_ns),
        histogram=Histogram.from_bins((edge, count) for edge, count in sorted(bins.items()) if count),
    )


def _fine_shares() -> dict[float, float]:
    """Return the shares of bins as fine as an engine's: a bell on a log axis, and a long tail with a second peak."""
    places = [0.45 * 1.03**step for step in range(115)]
    weights = [
        math.exp(-((math.log(x / 0.93)) ** 2) / 0.02) + 4e-4 * math.exp(-((math.log(x / 5)) ** 2) / 0.1) for x in places
    ]
    total = sum(weights)
    return {place: weight / total for place, weight in zip(places, weights, strict=True)}


def iops_result(**changes: Any) -> TestResult:
    """Return the result of an IOPS test; see ``result_of``."""
    return result_of("iops", **{"rounds": 7, **changes})


def result_of(
    test: str,
    *,
    rounds: int | None = None,
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
    command_line: Sequence[str] = (),
    overrides: Iterable[tuple[str, Any]] = (),
) -> TestResult:
    """Return the result of a test at full length.

    ``rounds`` is the round at which a steady device ends the loop; an unsteady one runs to the maximum. ``stop_after``
    outcomes, with an ``ending`` other than finished, make a stopped run: 1 is the purge, 2 includes the
    preconditioning. ``overrides`` change the specification as ``--set`` does.
    """
    specification = read_specification(test, pts, test_class, overrides=overrides)
    device = device or dut(sector_bytes=sector_bytes, write_cache="enabled" if test_class == "client" else "disabled")
    answered, conclusion = answers(
        specification.spec, device, rounds=rounds, steady=steady, stop_after=stop_after, scale=scale
    )
    last = [outcome for _, outcomes in answered for outcome in outcomes if isinstance(outcome, Measurement)]
    ended_ns = last[-1].timing.ended_monotonic_ns if last else 10**12
    return fold(
        run_facts(
            specification.spec,
            test_class=test_class,
            device=device,
            host=host,
            warnings=warnings,
            operator=operator,
            found=(*specification.deviations, *found),
            command_line=command_line,
        ),
        answered,
        ending=ending,
        ending_detail=ending_detail,
        conclusion=conclusion,
        finished=(STARTED + datetime.timedelta(microseconds=(ended_ns - 10**12) // 1000)).isoformat(),
    )
