"""What a test would cost: drives its procedure with supposed answers instead of a device.

Shortest is a device that is steady from the first round on, longest one that never is, and so slow besides that it does
not reach what would end a stimulus before its time.  The bytes of either are those of the fastest device that is
supposed, and so are the shortest times of what an amount ends; the longest are those of the slowest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from ..model.dut import Dut, SupposedSpeed
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

#: What sees a course: each step with what is supposed to come of it, which it gives on.
Watch = Callable[[Step, Iterator[Outcome]], Iterable[Outcome]]

#: What a purge is: the drive's own, which takes the time that it takes; an overwrite of all of it; or left out.
PurgeKind = Literal["own", "overwrite", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """What a plan supposes of device and engine: how fast it is, and the time that is lost.

    ``overhead_seconds`` are lost around a round or stretch, ``between_seconds`` between two points of a round.
    A device that is not ``eager`` takes its whole time for a stimulus that ends with an amount or a time, and is as
    slow as supposed where nothing but an amount ends it.
    """

    speed: SupposedSpeed
    overhead_seconds: float
    between_seconds: float = 0.0
    eager: bool = True
    purging: PurgeKind = "own"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """A step with its time and the bytes it writes at most; of a ``part`` of the test, if it has several.

    One that is ``open_ended`` ends with an amount of I/Os of any kind, and takes as long as these do, however fast a
    stream is.
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
    """All steps of one course a test may take.

    The time of a purge that is the device's own, and of what prepares the host, is not known, and counted as 0.
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
        """How many steps may take longer than they are supposed to."""
        return sum(step.open_ended for step in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The shortest and the longest course of a test, and its ``stimuli``: all but those of WIPC, each once.

    ``syncs`` tells that an array fills its redundancy after each purge, which takes the time that it takes.
    """

    assumptions: Assumptions
    syncs: bool = False
    stimuli: tuple[Stimulus, ...]
    shortest: Estimate
    longest: Estimate


def plan(spec: Spec, dut: Dut, assumptions: Assumptions) -> Plan:
    """Return what the test would cost on ``dut``."""

    stimuli: dict[Stimulus, None] = {}

    def estimate(*, steady: bool) -> Estimate:
        asked: list[Step] = []

        def watch(step: Step, outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
            asked.append(step)
            return outcomes

        simulate(spec, dut, assumptions, watch, steady=steady)
        measured = (step for step in asked if not (isinstance(step, ContinuousStimulus) and step.phase == "WIPC"))
        stimuli.update(dict.fromkeys(stimulus for step in measured for stimulus in step.stimuli))
        return Estimate(
            steps=tuple(_cost(step, spec, dut, replace(assumptions, eager=steady)) for step in asked),
            rounds=sum(isinstance(step, Round) for step in asked),
        )

    shortest, longest = estimate(steady=True), estimate(steady=False)
    layout = dut.array.layout if dut.array else None
    syncs = layout is not None and layout.software and layout.redundant and layout.sync != "skip"
    return Plan(assumptions=assumptions, stimuli=tuple(stimuli), shortest=shortest, longest=longest, syncs=syncs)


def simulate(spec: Spec, dut: Dut, assumptions: Assumptions, watch: Watch, *, steady: bool) -> None:
    """Let ``watch`` see the shortest course of a test, that of a device which is ``steady`` at once, or the longest."""
    never_steady = 1000

    def level(number: int) -> int:
        return 1 if steady or number % 2 else never_steady

    supposing = _AssumedDevice(replace(assumptions, eager=steady), settling_rule(spec), level)
    drive(procedure(spec, dut), lambda step: watch(step, supposing.answer(step)))


def _cost(step: Step, spec: Spec, dut: Dut, assumptions: Assumptions) -> PlannedStep:
    seconds = [_seconds(stimulus, assumptions) + stimulus.ramp_seconds for stimulus in step.stimuli]
    moved = (_moved(stimulus, time, assumptions) for time, stimulus in zip(seconds, step.stimuli, strict=True))
    written = sum(_written(stimulus, amount) for amount, stimulus in zip(moved, step.stimuli, strict=True))
    rest = assumptions.overhead_seconds + (len(seconds) - 1) * assumptions.between_seconds if seconds else 0.0
    if isinstance(step, Idle):
        rest = step.seconds
    if isinstance(step, Purge) and (passes := _purge_passes(spec, dut, assumptions)):
        written = passes * _overwritten(dut)
        rest = written / MB / (assumptions.speed.write if assumptions.eager else assumptions.speed.least)
    return PlannedStep(
        kind=step.kind,
        part=step.part,
        label=step.label,
        stimuli=len(seconds),
        seconds=sum(seconds) + rest,
        written_bytes=round(written),
        open_ended=isinstance(step, Round) and any(stimulus.seconds is None for stimulus in step.stimuli),
    )


def _purge_passes(spec: Spec, dut: Dut, assumptions: Assumptions) -> int:
    """Return how often a purge writes over all of the device.

    It does so with each member of an array that the host makes, as often as the test's WIPC does with its target.
    """
    passes = 1 if assumptions.purging == "overwrite" else 0
    if dut.array and dut.array.layout.software and isinstance(spec, IopsSpec | LatencySpec | ThroughputSpec):
        passes += spec.preconditioning.capacities
    return passes


def _overwritten(dut: Dut) -> int:
    """Return what is written where a purge writes over all of the device; over each member of an array."""
    return sum(each.capacity_bytes for each in dut.array.members) if dut.array else dut.capacity_bytes


def _seconds(stimulus: Stimulus, assumptions: Assumptions) -> float:
    """Return how long a stimulus takes: its time, or less where a limit or its passes end it."""
    fastest = _fastest(stimulus, assumptions)
    if stimulus.seconds is None:
        return (stimulus.amount_bytes or 0) / MB / (fastest if assumptions.eager else assumptions.speed.least)
    if stimulus.limit_bytes is None or not assumptions.eager:
        return stimulus.seconds
    return min(stimulus.seconds, stimulus.limit_bytes / MB / fastest)


def _fastest(stimulus: Stimulus, assumptions: Assumptions) -> float:
    """Return the MB/s that a stimulus moves at most: a link carries both ways at once, and the fuller one bounds it."""
    read, speed = stimulus.read_percent / 100, assumptions.speed
    return min(most / share for most, share in ((speed.read, read), (speed.write, 1 - read)) if share)


def _moved(stimulus: Stimulus, seconds: float, assumptions: Assumptions) -> int:
    """Return the bytes a stimulus moves at most."""
    if stimulus.amount_bytes is not None:
        return stimulus.amount_bytes
    moved = round(seconds * _fastest(stimulus, assumptions) * MB)
    return moved if stimulus.limit_bytes is None else min(moved, stimulus.limit_bytes)


def _written(stimulus: Stimulus, moved: int) -> float:
    return moved * (100 - stimulus.read_percent) / 100


class _AssumedDevice:
    """Answers steps as a device would that moves as much as is supposed.

    ``level_of`` tells how I/Os and response times of a round, and of each sample from one that stands for a round to
    the next, compare with others.
    """

    def __init__(
        self, assumptions: Assumptions, rule: SampledSteadyStateRule | None, level_of: Callable[[int], int]
    ) -> None:
        self._assumptions = assumptions
        self._rule = rule
        self._level_of = level_of
        self._sampled = 0

    def answer(self, step: Step) -> Iterator[Outcome]:
        match step:
            case Purge():
                yield PurgeOutcome(method="supposed", samples=0, survivors=0, started="", seconds=0, evidence="")
            case Round():
                yield from (self._whole(stimulus, self._level_of(step.number)) for stimulus in step.stimuli)
            case Idle():
                yield IdleOutcome(started="", seconds=step.seconds)
            case Prepare():
                yield PrepareOutcome(started="", seconds=0, settings=step.settings)
            case ContinuousStimulus():
                # Where nothing is judged by samples, one is as good as many, and they may be a million.
                yield from islice(self._samples(step), None if self._rule else 1)
                yield self._whole(step.stimulus, 1)

    def _samples(self, step: ContinuousStimulus) -> Iterator[Sample]:
        seconds = _seconds(step.stimulus, self._assumptions)
        for number in range(1, step.samples + 1):
            ended = min(number * (step.sample_seconds or 0), seconds)
            began = (number - 1) * (step.sample_seconds or 0)
            if began >= seconds:
                return
            self._sampled += 1
            level = self._level_of(self._round())
            moved = _moved(step.stimulus, seconds, self._assumptions) * (ended - began) / seconds
            yield Sample(
                number=number,
                ended_seconds=ended,
                seconds=ended - began,
                read_ios=0,
                write_ios=level,
                read_bytes=0,
                write_bytes=round(_written(step.stimulus, round(moved)) / level),
                average_response_us=float(level),
                maximum_response_us=float(level),
                three_nines_us=None,
                four_nines_us=None,
                five_nines_us=None,
            )

    def _round(self) -> int:
        """Return the round that the present sample stands for, or follows."""
        return 0 if self._rule is None else 1 + (self._sampled - self._rule.first_sample) // self._rule.stride_samples

    def _whole(self, stimulus: Stimulus, level: int) -> Measurement:
        seconds = _seconds(stimulus, self._assumptions)
        moved = _moved(stimulus, seconds, self._assumptions)
        if stimulus.limit_bytes is not None and not self._assumptions.eager:
            moved = min(moved, stimulus.limit_bytes - stimulus.largest_block_bytes)
        written = round(_written(stimulus, moved))
        second_ms = 1000

        def side(transferred_bytes: int) -> Transfers:
            return Transfers(
                ios=level,
                transferred_bytes=transferred_bytes // level,
                runtime_ms=round(seconds * second_ms),
                response_min_ns=1,
                response_mean_ns=float(level),
                response_max_ns=level,
                histogram=Histogram(),
            )

        clocking = Timing(started="", started_monotonic_ns=0, ended_monotonic_ns=0, own_gap_us=None, idle_gap_ms=None)
        return Measurement(
            stimulus=stimulus,
            seed=0,
            read=side(moved - written) if moved > written else NO_TRANSFERS,
            write=side(written) if written or not moved else NO_TRANSFERS,
            timing=clocking,
            evidence="",
            evidence_sha256="",
            sync=_synchronized(stimulus),
            stream_bytes=stimulus.even_streams(moved),
        )


def _synchronized(stimulus: Stimulus) -> SyncTimes | None:
    """Return what is supposed of the calls of a stimulus that may synchronize."""
    asked = any("sync" in option for option, _ in stimulus.options)
    return SyncTimes(calls=1, mean_ns=1, max_ns=1, histogram=Histogram()) if asked else None
