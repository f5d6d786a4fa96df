"""Whole runs of procedures: a scripted drive, the run with its steps and outcomes, and an oracle to check it."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import settings

from snia_pts.errors import TargetUnfit
from snia_pts.model.dut import Dut
from snia_pts.model.measurement import NO_TRANSFERS, IdleOutcome, Measurement, Outcome, Transfers
from snia_pts.model.steps import ContinuousStimulus, Idle, Phase, Purge, Round, Step, Stimulus
from snia_pts.procedures import Conclusion, drive, procedure
from snia_pts.record.journal_reader import JournalReader
from snia_pts.results.builder import fold
from snia_pts.results.result import Ending, TestResult
from snia_pts.spec import DemandSpec, HostIdleSpec, Spec
from tests import samples
from tests.strategies import CLOCKING, PURGED, altered, dut, measurement, sample, transfers

#: For properties of whole runs: a third of the examples of the profile.
whole_runs = settings(max_examples=settings().max_examples // 3)

#: The IOPS or response time of a drive in a step with a stimulus. The number, from 1, is that of the round, or of the
#: sample over all continuous stimuli of its phase and part.
Behaviour = Callable[[Step, Stimulus, int], float]


def constant(step: Step, stimulus: Stimulus, number: int) -> float:
    """Return a thousand I/Os per second for every stimulus."""
    return 1000.0


class ScriptedDrive:
    """Answers every step by a script, exact to the byte, with its own clock.

    ``iops`` and ``response_us`` give its behaviour; by default the response time follows from the outstanding I/Os.
    Mixed stimuli deviate from their mix by less than one I/O. All I/Os of mixed sizes have the largest size.
    """

    def __init__(self, iops: Behaviour = constant, response_us: Behaviour | None = None) -> None:
        self._iops = iops
        self._response_us = response_us or self._by_demand
        self._sampled: Counter[tuple[Phase, str]] = Counter()
        self._now_ns = 0
        self.performed: list[tuple[Step, tuple[Outcome, ...]]] = []

    def __call__(self, step: Step) -> tuple[Outcome, ...]:
        self.performed.append((step, tuple(self._answer(step))))
        return self.performed[-1][1]

    def _by_demand(self, step: Step, stimulus: Stimulus, number: int) -> float:
        return 1e6 * stimulus.total_oio / self._iops(step, stimulus, number)

    def _answer(self, step: Step) -> Iterator[Outcome]:
        match step:
            case Purge():
                yield PURGED
            case Idle():
                self._now_ns += round(1e9 * step.seconds)
                yield IdleOutcome(started="", seconds=step.seconds)
            case Round():
                for item in step.stimuli:
                    yield self._whole(step, item, step.number)
            case ContinuousStimulus():
                yield from self._stretch(step)

    def _whole(self, step: Step, request: Stimulus, number: int) -> Measurement:
        iops = self._iops(step, request, number)
        if request.amount_bytes is not None:
            seconds = request.amount_bytes / (iops * request.largest_block_bytes)
            return self._measured(request, 0, request.amount_bytes // request.largest_block_bytes, seconds, 1.0)
        ios = int(iops * (request.seconds or 0))
        reads = math.ceil(ios * request.read_percent / 100)
        return self._measured(
            request, reads, ios - reads, request.seconds or 0, self._response_us(step, request, number)
        )

    def _stretch(self, step: ContinuousStimulus) -> Iterator[Outcome]:
        stimulus, key = step.stimulus, (step.phase, step.part)
        if not step.samples:
            self._sampled[key] += 1
            yield self._whole(step, stimulus, self._sampled[key])
            return
        maximum_ios = math.inf if stimulus.limit_bytes is None else stimulus.limit_bytes // stimulus.largest_block_bytes
        done = reads = 0
        ended = waited_us = 0.0
        for number in range(1, step.samples + 1):
            self._sampled[key] += 1
            seconds = min(step.sample_seconds or 0, (stimulus.seconds or 0) - ended)
            whole = int(self._iops(step, stimulus, self._sampled[key]) * seconds)
            ios = int(min(whole, maximum_ios - done))
            seconds = seconds * ios / whole if ios < whole else seconds
            done, ended = done + ios, ended + seconds
            now_read = math.ceil(done * stimulus.read_percent / 100) - reads
            reads += now_read
            response_us = self._response_us(step, stimulus, self._sampled[key])
            waited_us += ios * response_us
            yield sample(
                number,
                ios - now_read,
                seconds=seconds,
                ended_seconds=ended,
                read_ios=now_read,
                read_bytes=now_read * stimulus.largest_block_bytes,
                write_bytes=(ios - now_read) * stimulus.largest_block_bytes,
                average_response_us=response_us,
            )
            if done >= maximum_ios:
                break
        yield self._measured(stimulus, reads, done - reads, ended, waited_us / done if done else 0.0)

    def _measured(self, point: Stimulus, reads: int, writes: int, seconds: float, response_us: float) -> Measurement:
        runtime_ms = round(1000 * seconds)
        began_ns, self._now_ns = self._now_ns, self._now_ns + 1_000_000 * runtime_ms

        def side(ios: int) -> Transfers:
            moved = ios * point.largest_block_bytes
            if point.amount_bytes is not None and ios:
                moved = point.amount_bytes  # the last block may be partial
            return transfers(
                ios,
                transferred_bytes=moved,
                runtime_ms=runtime_ms,
                response_mean_ns=1000 * response_us,
                response_max_ns=round(2000 * response_us),
            )

        return replace(
            measurement(
                point, read=side(reads) if reads else NO_TRANSFERS, write=side(writes) if writes else NO_TRANSFERS
            ),
            stream_bytes=point.even_streams((reads + writes) * point.largest_block_bytes),
            timing=replace(CLOCKING, started_monotonic_ns=began_ns, ended_monotonic_ns=self._now_ns),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcedureRun:
    """A whole run of a procedure: its steps with their outcomes, and the conclusion."""

    spec: Spec
    device: Dut
    performed: tuple[tuple[Step, tuple[Outcome, ...]], ...]
    conclusion: Conclusion

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(step for step, _ in self.performed)

    @property
    def rounds(self) -> tuple[Round, ...]:
        return tuple(step for step in self.steps if isinstance(step, Round))

    def continuous_stimuli(self, *phases: Phase) -> tuple[ContinuousStimulus, ...]:
        """Return the continuous stimuli of some phases, or of all, in order."""
        found = (step for step in self.steps if isinstance(step, ContinuousStimulus))
        return tuple(step for step in found if not phases or step.phase in phases)

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return tuple(
            outcome for _, outcomes in self.performed for outcome in outcomes if isinstance(outcome, Measurement)
        )

    def result(self, ending: Ending = "finished", outcomes: int | None = None, **changes: Any) -> TestResult:
        """Return the result of the run, or of its first ``outcomes`` only."""
        performed, remaining = [], sum(len(entry) for _, entry in self.performed) if outcomes is None else outcomes
        for step, item in self.performed:
            if remaining > 0:
                performed.append((step, item[:remaining]))
                remaining -= len(item)
        facts = replace(samples.run_facts(self.spec, device=self.device), **changes)
        conclusion = self.conclusion if ending == "finished" else None
        return fold(facts, performed, ending=ending, ending_detail="", finished="", conclusion=conclusion)


def run_procedure(
    spec: Spec, device: Dut | None = None, iops: Behaviour = constant, response_us: Behaviour | None = None
) -> ProcedureRun:
    """Run the procedure of ``spec`` on a scripted drive."""
    device, answer = device or dut(), ScriptedDrive(iops, response_us)
    conclusion = drive(procedure(spec, device), answer)
    return ProcedureRun(spec=spec, device=device, performed=tuple(answer.performed), conclusion=conclusion)


def outline(steps: Sequence[Step]) -> list[tuple[str, float]]:
    """Return each step as its kind or phase, with the seconds of its stimuli or its idle time."""
    return [
        (
            step.phase if isinstance(step, ContinuousStimulus) else step.kind,
            step.seconds if isinstance(step, Idle) else sum(stimulus.seconds or 0 for stimulus in step.stimuli),
        )
        for step in steps
    ]


def noisy(seed: int, spread: float) -> Behaviour:
    """Return a behaviour around a thousand I/Os per second that depends on the seed only."""

    def iops(step: Step, stimulus: Stimulus, number: int) -> float:
        noise = random.Random(f"{seed} {step.part} {number} {stimulus.label} {stimulus.demand.label}")
        return 1000 * (1 + spread * noise.uniform(-1, 1))

    return iops


def unsteady(step: Step, stimulus: Stimulus, number: int) -> float:
    """Return ten times the IOPS in every second round, or half hour of a continuous stimulus: never steady."""
    return [100, 1000][(number if isinstance(step, Round) else (number - 1) // 30) % 2]


def brief(spec: Any) -> Any:
    """Return a specification whose loops without a stop rule are short."""
    match spec:
        case HostIdleSpec():
            return altered(spec, wait_states__cycles=2)
        case DemandSpec():
            return altered(spec, demand__thread_counts=(32, 4, 1), demand__queue_depths=(32, 4, 1))
        case _:
            return spec


def is_steady(values: Sequence[int]) -> bool:
    """Evaluate the rule in integers: range <= 20 % and |slope| * (n - 1) <= 10 % of the average."""
    count, total = len(values), sum(values)
    weights = [2 * index - (count - 1) for index in range(count)]
    rise = abs(sum(weight * value for weight, value in zip(weights, values, strict=True)))
    spread = sum(weight * weight for weight in weights)
    return 5 * count * (max(values) - min(values)) <= total and 20 * count * (count - 1) * rise <= total * spread


def stops_at(series: Sequence[Sequence[int]], window: int = 5, maximum: int = 25) -> int | None:
    """Return the first round at which all series are steady in one window, in integers: the oracle of the tests."""
    for last in range(window, maximum + 1):
        if all(is_steady(values[last - window : last]) for values in series):
            return last
    return None


def refusal(spec: Spec, device: Dut) -> str:
    """Return the message with which a test refuses a device before its first step."""
    answer = ScriptedDrive()
    with pytest.raises(TargetUnfit) as caught:
        drive(procedure(spec, device), answer)
    assert answer.performed == []
    return str(caught.value)


def answered(journal: JournalReader) -> Iterator[tuple[Step, tuple[Outcome, ...]]]:
    """Return each valid step of a journal with its outcomes."""
    return ((step, tuple(outcomes)) for step, outcomes in journal.steps())
