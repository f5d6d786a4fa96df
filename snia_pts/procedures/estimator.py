"""Estimates the time and the written bytes of a test: drives its procedure with assumed answers instead of a device.

The shortest course assumes a device that is steady from the first round on.  The longest assumes one that is never
steady, and too slow to reach a limit that would end a stimulus early.  The bytes of both are those of the fastest
assumed device.  A stimulus that ends after passes over its range, not after a time, runs at the maximum speed in the
shortest course, and at the minimum speed in the longest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from ..analysis.written_ranges import WrittenRanges
from ..model.dut import AssumedSpeed, Dut
from ..model.histogram import Histogram, SyncTimes
from ..model.measurement import (
    NO_TRANSFERS,
    IdleOutcome,
    Measurement,
    Outcome,
    PrepareOutcome,
    PurgeOutcome,
    Sample,
    Timing,
    Transfers,
)
from ..model.steps import ContinuousStimulus, Idle, Prepare, Purge, Round, Step, Stimulus
from ..spec import IopsSpec, LatencySpec, SampledSteadyStateRule, Spec, ThroughputSpec, settling_rule
from ..units import MB
from . import drive, procedure

#: Observes a course: receives each step with its assumed outcomes, and returns these outcomes.
Observer = Callable[[Step, Iterator[Outcome]], Iterable[Outcome]]

#: How the target is purged: by a command of the device (duration unknown), by an overwrite, or not at all.
PurgeKind = Literal["device", "overwrite", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """The speed of the device, and the overhead of the engine, that a plan assumes.

    ``overhead_seconds`` is the overhead of a round or a continuous stimulus, ``between_seconds`` the overhead between
    two points of a round.  With ``optimistic``, a stimulus with a limit ends when the fastest device reaches it;
    otherwise it takes all of its time.  A stimulus that ends after passes over its range runs at the maximum speed with
    ``optimistic``, otherwise at the minimum speed.
    """

    speed: AssumedSpeed
    overhead_seconds: float
    between_seconds: float = 0.0
    optimistic: bool = True
    purge: PurgeKind = "device"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """A step with its time and its maximum of written bytes; ``part`` is the part of the test, if there are several.

    An ``open_ended`` step is a round with a stimulus that ends after passes over its range.  It may take longer: its
    pattern may be slower than the sequential stream whose speed is assumed.
    """

    kind: Literal["purge", "continuous", "round", "idle", "prepare"]
    part: str
    label: str
    stimuli: int
    seconds: float
    written_bytes: int
    open_ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """All steps of one possible course of a test.

    The durations of a purge by the device and of the preparation of the host are unknown, and counted as 0.
    """

    steps: tuple[PlannedStep, ...]
    rounds: int

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)

    @property
    def written_bytes(self) -> int:
        return sum(step.written_bytes for step in self.steps)

    @property
    def open_ended(self) -> int:
        """The number of steps that may take longer than assumed."""
        return sum(step.open_ended for step in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The shortest and the longest course of a test.

    ``preconditioning`` are the distinct stimuli that fill the range, ``stimuli`` all other distinct stimuli.
    ``syncs`` is True if an array synchronizes its redundancy after each purge, which takes an unknown time.
    ``unwritten_reads`` are the labels of stimuli that read addresses which no step before them writes.
    """

    assumptions: Assumptions
    syncs: bool = False
    stimuli: tuple[Stimulus, ...]
    preconditioning: tuple[Stimulus, ...] = ()
    shortest: Estimate
    longest: Estimate
    unwritten_reads: tuple[str, ...] = ()


def plan(spec: Spec, dut: Dut, assumptions: Assumptions) -> Plan:
    """Return the estimated courses of the test on ``dut``."""

    stimuli: dict[Stimulus, None] = {}
    preconditioning: dict[Stimulus, None] = {}
    written = WrittenRanges()

    def estimate(*, steady: bool) -> Estimate:
        steps: list[Step] = []

        def observe(step: Step, outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
            steps.append(step)
            for outcome in outcomes:
                if steady:  # the amounts of the longest course are reduced so that it is never steady
                    written.observe(outcome)
                yield outcome

        simulate(spec, dut, assumptions, observe, steady=steady)
        for step in steps:
            is_fill = isinstance(step, ContinuousStimulus) and step.is_fill
            (preconditioning if is_fill else stimuli).update(dict.fromkeys(step.stimuli))
        return Estimate(
            steps=tuple(_planned_step(step, spec, dut, replace(assumptions, optimistic=steady)) for step in steps),
            rounds=sum(isinstance(step, Round) for step in steps),
        )

    shortest, longest = estimate(steady=True), estimate(steady=False)
    layout = dut.array.layout if dut.array else None
    syncs = layout is not None and layout.software and layout.redundant and layout.sync != "skip"
    return Plan(
        assumptions=assumptions,
        stimuli=tuple(stimuli),
        preconditioning=tuple(preconditioning),
        shortest=shortest,
        longest=longest,
        syncs=syncs,
        unwritten_reads=() if spec.is_standard or dut.rotational else written.unwritten_reads,
    )


def simulate(spec: Spec, dut: Dut, assumptions: Assumptions, observe: Observer, *, steady: bool) -> None:
    """Pass a test's shortest course (a device that is ``steady`` at once) or its longest course to ``observe``."""
    unsteady_factor = 1000

    def variation(number: int) -> int:
        return 1 if steady or number % 2 else unsteady_factor

    device = _AssumedDevice(replace(assumptions, optimistic=steady), settling_rule(spec), variation)
    drive(procedure(spec, dut), lambda step: observe(step, device.answer(step)))


def _planned_step(step: Step, spec: Spec, dut: Dut, assumptions: Assumptions) -> PlannedStep:
    seconds = [_seconds(stimulus, assumptions) + stimulus.ramp_seconds for stimulus in step.stimuli]
    moved = (_moved(stimulus, time, assumptions) for time, stimulus in zip(seconds, step.stimuli, strict=True))
    written = sum(_written(stimulus, amount) for amount, stimulus in zip(moved, step.stimuli, strict=True))
    other_seconds = assumptions.overhead_seconds + (len(seconds) - 1) * assumptions.between_seconds if seconds else 0.0
    if isinstance(step, Idle):
        other_seconds = step.seconds
    if isinstance(step, Purge) and (passes := _purge_passes(spec, dut, assumptions)):
        written = passes * _overwrite_bytes(dut)
        speed = assumptions.speed
        other_seconds = written / MB / (speed.write if assumptions.optimistic else speed.minimum_write)
    return PlannedStep(
        kind=step.kind,
        part=step.part,
        label=step.label,
        stimuli=len(seconds),
        seconds=sum(seconds) + other_seconds,
        written_bytes=round(written),
        open_ended=isinstance(step, Round) and any(stimulus.seconds is None for stimulus in step.stimuli),
    )


def _purge_passes(spec: Spec, dut: Dut, assumptions: Assumptions) -> int:
    """Return how often a purge overwrites the whole device.

    The members of a software array are also overwritten, as often as the WIPC of the test overwrites its target.
    """
    passes = 1 if assumptions.purge == "overwrite" else 0
    if dut.array and dut.array.layout.software and isinstance(spec, IopsSpec | LatencySpec | ThroughputSpec):
        passes += spec.preconditioning.capacities
    return passes


def _overwrite_bytes(dut: Dut) -> int:
    """Return the bytes of one overwrite of the whole device, or of all members of an array."""
    return sum(member.capacity_bytes for member in dut.array.members) if dut.array else dut.capacity_bytes


def _seconds(stimulus: Stimulus, assumptions: Assumptions) -> float:
    """Return how long a stimulus takes: its time, or less if it reaches its limit; or the time of its passes."""
    fastest = _max_mb_per_second(stimulus, assumptions)
    if stimulus.seconds is None:
        return (
            (stimulus.amount_bytes or 0) / MB / (fastest if assumptions.optimistic else assumptions.speed.minimum_write)
        )
    if stimulus.limit_bytes is None or not assumptions.optimistic:
        return stimulus.seconds
    return min(stimulus.seconds, stimulus.limit_bytes / MB / fastest)


def _max_mb_per_second(stimulus: Stimulus, assumptions: Assumptions) -> float:
    """Return the maximum MB/s of a stimulus: the link is full duplex, and the busier direction is the limit."""
    read, speed = stimulus.read_percent / 100, assumptions.speed
    return min(limit / share for limit, share in ((speed.read, read), (speed.write, 1 - read)) if share)


def _moved(stimulus: Stimulus, seconds: float, assumptions: Assumptions) -> int:
    """Return the maximum of bytes that a stimulus transfers."""
    if stimulus.amount_bytes is not None:
        return stimulus.amount_bytes
    moved = round(seconds * _max_mb_per_second(stimulus, assumptions) * MB)
    return moved if stimulus.limit_bytes is None else min(moved, stimulus.limit_bytes)


def _written(stimulus: Stimulus, moved: int) -> float:
    return moved * (100 - stimulus.read_percent) / 100


class _AssumedDevice:
    """Answers steps like a device with the assumed speed.

    ``variation`` returns a factor for the I/Os and response times of a round.  If the rule evaluates some samples as
    rounds, a sample has the factor of the latest such round.
    """

    def __init__(
        self, assumptions: Assumptions, rule: SampledSteadyStateRule | None, variation: Callable[[int], int]
    ) -> None:
        self._assumptions = assumptions
        self._rule = rule
        self._variation = variation
        self._sample_count = 0

    def answer(self, step: Step) -> Iterator[Outcome]:
        match step:
            case Purge():
                method = "none" if self._assumptions.purge == "none" else "assumed"
                yield PurgeOutcome(method=method, samples=0, survivors=0, started="", seconds=0, evidence="")
            case Round():
                yield from (self._measurement(stimulus, self._variation(step.number)) for stimulus in step.stimuli)
            case Idle():
                yield IdleOutcome(started="", seconds=step.seconds)
            case Prepare():
                yield PrepareOutcome(started="", seconds=0, settings=step.settings)
            case ContinuousStimulus():
                # If no rule evaluates samples, one is enough: a stimulus may have a million.
                yield from islice(self._samples(step), None if self._rule else 1)
                yield self._measurement(step.stimulus, 1)

    def _samples(self, step: ContinuousStimulus) -> Iterator[Sample]:
        seconds = _seconds(step.stimulus, self._assumptions)
        for number in range(1, step.samples + 1):
            ended = min(number * (step.sample_seconds or 0), seconds)
            started = (number - 1) * (step.sample_seconds or 0)
            if started >= seconds:
                return
            self._sample_count += 1
            factor = self._variation(self._sampled_round_number())
            moved = _moved(step.stimulus, seconds, self._assumptions) * (ended - started) / seconds
            yield Sample(
                number=number,
                ended_seconds=ended,
                seconds=ended - started,
                read_ios=0,
                write_ios=factor,
                read_bytes=0,
                write_bytes=round(_written(step.stimulus, round(moved)) / factor),
                average_response_us=float(factor),
                maximum_response_us=float(factor),
                three_nines_us=None,
                four_nines_us=None,
                five_nines_us=None,
            )

    def _sampled_round_number(self) -> int:
        """Return the number of the latest sample evaluated as a round, up to the current one; 0 without a rule."""
        return (
            0 if self._rule is None else 1 + (self._sample_count - self._rule.first_sample) // self._rule.stride_samples
        )

    def _measurement(self, stimulus: Stimulus, factor: int) -> Measurement:
        seconds = _seconds(stimulus, self._assumptions)
        moved = _moved(stimulus, seconds, self._assumptions)
        if stimulus.limit_bytes is not None and not self._assumptions.optimistic:
            moved = min(moved, stimulus.limit_bytes - stimulus.largest_block_bytes)
        written = round(_written(stimulus, moved))
        ms_per_second = 1000

        def side(transferred_bytes: int) -> Transfers:
            return Transfers(
                ios=factor,
                transferred_bytes=transferred_bytes // factor,
                runtime_ms=round(seconds * ms_per_second),
                response_min_ns=1,
                response_mean_ns=float(factor),
                response_max_ns=factor,
                histogram=Histogram(),
            )

        timing = Timing(started="", started_monotonic_ns=0, ended_monotonic_ns=0, suite_gap_us=None, idle_gap_ms=None)
        return Measurement(
            stimulus=stimulus,
            seed=0,
            read=side(moved - written) if moved > written else NO_TRANSFERS,
            write=side(written) if written or not moved else NO_TRANSFERS,
            timing=timing,
            evidence="",
            evidence_sha256="",
            sync=_sync_times(stimulus),
            stream_bytes=stimulus.even_streams(moved),
        )


def _sync_times(stimulus: Stimulus) -> SyncTimes | None:
    """Return assumed times of the sync calls of a stimulus; None if its options have no sync."""
    has_sync = any("sync" in option for option, _ in stimulus.options)
    return SyncTimes(calls=1, mean_ns=1, max_ns=1, histogram=Histogram()) if has_sync else None
