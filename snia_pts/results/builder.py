"""Build a result from steps and outcomes, one step at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from ..analysis.disturbances import was_disturbed
from ..analysis.window import last_window, sampled_round, sampled_window
from ..analysis.written_ranges import WrittenRanges
from ..model.health import Health
from ..model.measurement import MeasuredRound, Measurement, Outcome, PrepareOutcome, PurgeOutcome, Sample, SampledRound
from ..model.steps import ContinuousStimulus, Idle, Phase, Purge, Round, Step
from ..model.time_series import TimeLine
from ..procedures import Conclusion
from ..spec import SampledSteadyStateRule, Spec, WriteSaturationSpec, loop_rule, settling_rule
from .interruption import Interruption
from .result import Ending, Gap, Loop, RunFacts, RunWarning, Sampling, TestResult

#: A sample that takes at least this many times its requested time is reported as long.
_LONG_SAMPLE_FACTOR = 1.5


class ResultBuilder:
    """Collects steps and their outcomes, in the order in which they happened, into a result.

    A stopped run can end with a step that lacks outcomes.  Its round is kept and marked incomplete, and no window
    includes it.
    """

    def __init__(self, facts: RunFacts) -> None:
        self._facts = facts
        self._purges: list[tuple[str, PurgeOutcome]] = []
        self._prepared: list[tuple[str, PrepareOutcome]] = []
        self._rounds: dict[str, list[MeasuredRound]] = {}
        self._too_short: dict[str, list[Measurement]] = {}
        self._lines: dict[tuple[Phase, str], TimeLine] = {}
        self._sampled: list[SampledRound] = []
        self._sampled_phase: Phase | None = None
        self._samples_before = self._sampled_bytes = 0
        self._long_samples: list[tuple[str, float]] = []
        self._gaps: list[Gap] = []
        self._written = WrittenRanges()
        self._previous_step: Step | None = None

    def add(self, step: Step, outcomes: Iterable[Outcome]) -> None:
        """Add a step with its outcomes."""
        for _ in self.tee(step, outcomes):
            pass

    def tee(self, step: Step, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """Add a step, and yield its outcomes on the way; samples are not kept."""
        line = self._line(step) if isinstance(step, ContinuousStimulus) else None
        measured: list[Measurement] = []
        for outcome in outcomes:
            self._written.observe(outcome)
            match outcome:
                case Sample() if line is not None:
                    self._add_sample(step, line, outcome)
                case Measurement():
                    measured.append(outcome)
                case PurgeOutcome():
                    self._purges.append((step.part, outcome))
                case PrepareOutcome():
                    self._prepared.append((step.part, outcome))
            yield outcome
        measurements = tuple(measured)
        self._add_gaps(step, measurements)
        match step:
            case Round():
                self._add_round(step, measurements)
            case ContinuousStimulus() if line is not None:
                line.end(measurements[0] if measurements else None)
                self._add_repeat(step, measurements)
                self._samples_before += step.samples if step.phase == self._sampled_phase else 0
        self._previous_step = step

    def _add_round(self, step: Round, measurements: tuple[Measurement, ...]) -> None:
        """Add a round.  A repetition of the last round, with more passes, replaces it."""
        rounds = self._rounds.setdefault(step.part, [])
        if rounds and rounds[-1].number == step.number:
            self._too_short.setdefault(step.part, []).extend(rounds.pop().measurements)
        complete = len(measurements) == len(step.stimuli)
        rounds.append(MeasuredRound(number=step.number, measurements=measurements, complete=complete))

    def _line(self, step: ContinuousStimulus) -> TimeLine:
        if step.phase == sampled_phase(self._facts.spec):
            self._sampled_phase = step.phase
        key = (step.phase, step.part)
        return self._lines.setdefault(key, TimeLine(phase=step.phase, part=step.part, stimulus=step.stimulus))

    def _add_sample(self, step: Step, line: TimeLine, sample: Sample) -> None:
        line.add_sample(sample)
        requested = step.sample_seconds if isinstance(step, ContinuousStimulus) else None
        if requested and sample.seconds >= _LONG_SAMPLE_FACTOR * requested:
            self._long_samples.append((line.label, sample.seconds))
        rule = settling_rule(self._facts.spec)
        if rule is not None and line.phase == self._sampled_phase:
            self._sampled_bytes += sample.write_bytes
            fills = line.stimulus.fills(self._sampled_bytes)
            measured = sampled_round(self._samples_before, sample, rule, fills)
            self._sampled += [replace(measured, row=len(line) - 1)] if measured else []

    def _add_repeat(self, step: ContinuousStimulus, measurements: tuple[Measurement, ...]) -> None:
        """Add a sampled stimulus to the repeats of its point as well."""
        if self._facts.spec.rounds_are_repeats and step.phase == "stimulus" and measurements:
            rounds = self._rounds.setdefault(step.part, [])
            rounds.append(MeasuredRound(number=len(rounds) + 1, measurements=measurements, complete=True))

    def _add_gaps(self, step: Step, measurements: Sequence[Measurement]) -> None:
        """Record the time without host I/O before each stimulus, except after a purge."""
        for index, timing in enumerate(measurement.timing for measurement in measurements):
            previous = self._previous_step if index == 0 else step
            if timing.idle_gap_ms is None or timing.suite_gap_us is None or isinstance(previous, Purge):
                continue
            requested = previous.seconds if isinstance(previous, Idle) else None
            part = previous.part if previous else ""
            self._gaps.append(
                Gap(
                    part=part,
                    requested_seconds=requested,
                    idle_ms=timing.idle_gap_ms,
                    suite_us=timing.suite_gap_us,
                    disturbed=was_disturbed(timing),
                )
            )

    def _loop(self, part: str, rounds: Sequence[MeasuredRound]) -> Loop:
        rule, complete = loop_rule(self._facts.spec), [measured for measured in rounds if measured.complete]
        window = last_window(complete, rule) if rule else None
        too_short = tuple(self._too_short.get(part, ()))
        return Loop(part=part, rounds=tuple(rounds), window=window, too_short=too_short)

    def _judged_reads(self) -> tuple[str, ...]:
        """Return the reads of unwritten addresses; empty for the standard's tests, hard disks and imported runs."""
        facts = self._facts
        exempt = facts.spec.is_standard or facts.dut.rotational or facts.imported is not None
        return () if exempt else self._written.unwritten_reads

    def result(
        self,
        *,
        ending: Ending,
        ending_detail: str,
        finished: str,
        conclusion: Conclusion = None,
        running: bool = False,
        interruptions: Sequence[Interruption] = (),
        health_after: Health | None = None,
        end_warnings: Sequence[RunWarning] = (),
        evidence: Mapping[str, str] = MappingProxyType({}),
        journal_sha256: str = "",
    ) -> TestResult:
        """Return the result of the steps so far."""
        spec = self._facts.spec
        settling = settling_rule(spec)
        return TestResult(
            facts=self._facts,
            purges=tuple(self._purges),
            prepared=tuple(self._prepared),
            loops=tuple(self._loop(part, rounds) for part, rounds in self._rounds.items()),
            sampling=_sampling(self._sampled_phase, self._sampled, settling) if settling else None,
            time_lines=tuple(self._lines.values()),
            gaps=tuple(self._gaps),
            long_samples=tuple(self._long_samples),
            unwritten_reads=self._judged_reads(),
            conclusion=conclusion,
            ending=ending,
            ending_detail=ending_detail,
            finished=finished,
            running=running,
            interruptions=tuple(interruptions),
            health_after=health_after,
            end_warnings=tuple(end_warnings),
            evidence=evidence,
            journal_sha256=journal_sha256,
        )


def sampled_phase(spec: Spec) -> Phase:
    """Return the phase with samples that count as rounds, if the test has one."""
    return "stimulus" if isinstance(spec, WriteSaturationSpec) else "PC"


def _sampling(phase: Phase | None, rounds: Sequence[SampledRound], rule: SampledSteadyStateRule) -> Sampling | None:
    if phase is None:
        return None
    return Sampling(phase=phase, rounds=tuple(rounds), window=sampled_window(rounds, rule))


def fold(
    facts: RunFacts,
    steps: Iterable[tuple[Step, Sequence[Outcome]]],
    *,
    ending: Ending,
    ending_detail: str,
    finished: str,
    conclusion: Conclusion = None,
    running: bool = False,
) -> TestResult:
    """Return the result of a complete sequence of steps with their outcomes."""
    builder = ResultBuilder(facts)
    for step, outcomes in steps:
        builder.add(step, outcomes)
    return builder.result(
        ending=ending, ending_detail=ending_detail, finished=finished, conclusion=conclusion, running=running
    )
