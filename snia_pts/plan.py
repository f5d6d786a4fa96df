"""What a test would cost: drives its procedure with supposed answers instead of a device.

Shortest is a device that is steady from the first round on, longest one that never is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from .dut import Dut
from .measurement import NOTHING, Clocking, Histogram, Measurement, Outcome, Purged, Transfers
from .procedures import TESTS, drive
from .spec import IopsSpec
from .steps import Precondition, Purge, Round, Step, Stimulus
from .units import MB


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """What a plan supposes of device and engine: ``mb_per_second`` it moves at most, time lost around a stimulus."""

    mb_per_second: float
    overhead_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """A step with its time and the bytes it writes at most."""

    label: str
    stimuli: int
    seconds: float
    written_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """All steps of one course a test may take.  A purge's time is the device's own and counted as 0."""

    steps: tuple[PlannedStep, ...]
    rounds: int

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)

    @property
    def written_bytes(self) -> int:
        return sum(step.written_bytes for step in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The shortest and the longest course of a test."""

    assumptions: Assumptions
    shortest: Estimate
    longest: Estimate


def plan(spec: IopsSpec, dut: Dut, assumptions: Assumptions) -> Plan:
    """Return what the test would cost on ``dut``."""

    def estimate(ios_of_round: Callable[[int], int]) -> Estimate:
        asked: list[Step] = []

        def suppose(step: Step) -> Iterable[Outcome]:
            asked.append(step)
            return _answer(step, ios_of_round)

        drive(TESTS[spec.test](spec, dut), suppose)
        return Estimate(
            steps=tuple(_cost(step, assumptions) for step in asked),
            rounds=sum(isinstance(step, Round) for step in asked),
        )

    never_steady = 1000
    return Plan(
        assumptions=assumptions,
        shortest=estimate(lambda _: 1),
        longest=estimate(lambda number: 1 if number % 2 else never_steady),
    )


def _cost(step: Step, assumptions: Assumptions) -> PlannedStep:
    seconds = [_seconds(stimulus, assumptions) for stimulus in step.stimuli]
    written = sum(
        time * assumptions.mb_per_second * MB * (100 - stimulus.read_percent) / 100
        if stimulus.amount_bytes is None
        else stimulus.amount_bytes
        for time, stimulus in zip(seconds, step.stimuli, strict=True)
    )
    overhead = len(seconds) * assumptions.overhead_seconds
    return PlannedStep(
        label=step.label, stimuli=len(seconds), seconds=sum(seconds) + overhead, written_bytes=round(written)
    )


def _seconds(stimulus: Stimulus, assumptions: Assumptions) -> float:
    if stimulus.seconds is not None:
        return stimulus.seconds
    return (stimulus.amount_bytes or 0) / (assumptions.mb_per_second * MB)


def _answer(step: Step, ios_of_round: Callable[[int], int]) -> Iterator[Outcome]:
    if isinstance(step, Purge):
        yield Purged(method="supposed", samples=0, survivors=0, started="", seconds=0, evidence="")
    elif isinstance(step, Precondition):
        yield _supposed(step.stimulus, 1)
    elif isinstance(step, Round):
        yield from (_supposed(stimulus, ios_of_round(step.number)) for stimulus in step.stimuli)


def _supposed(stimulus: Stimulus, ios: int) -> Measurement:
    second = 1000
    reads = Transfers(
        ios=ios, transferred_bytes=ios * stimulus.block_size_bytes, runtime_ms=second, response_min_ns=1,
        response_mean_ns=1.0, response_max_ns=1, histogram=Histogram(),
    )  # fmt: skip
    clocking = Clocking(
        started="", started_monotonic_ns=0, ended_monotonic_ns=0, own_gap_us=None, idle_gap_ms=None
    )  # fmt: skip
    return Measurement(
        stimulus=stimulus, seed=0, read=reads, write=NOTHING, clocking=clocking, evidence="", evidence_sha256=""
    )
