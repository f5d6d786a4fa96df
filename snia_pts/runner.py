"""Drives a procedure through a laboratory, journals each answer, emits events."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from .errors import DeviceFailed, Interrupted, PurgeFailed, RecordError, SniaPtsError
from .folding import Folding, judged_phase
from .measurement import MeasuredRound, Measurement, Outcome, Sample, SampledRound
from .procedures import Answer, Conclusion, drive, procedure
from .record.folder import RunFolder, replace_file
from .record.journal import (
    Asked,
    Begun,
    Came,
    Ended,
    Journal,
    Recorded,
    is_answered,
    is_written,
    passing,
    uninterrupted,
)
from .record.resultxml import result_xml
from .result import Ending, RunFacts, TestResult
from .spec import Spec, SteadyStateRule, loop_rule, settling_rule
from .steps import Round, Step, Stretch
from .window import Window, sampled_round, sampled_window, window_ending


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBegun:
    """A step is about to be performed."""

    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeCame:
    """The ``position``-th outcome (from 0) of a step is safe in the journal."""

    step: Step
    position: int
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundJudged:
    """A round of a part is done, or a sample that stands for one, and ``window`` ends with it; None while too few."""

    step: Step
    rule: SteadyStateRule
    judged: MeasuredRound | SampledRound
    window: Window | None


Event = StepBegun | OutcomeCame | RoundJudged
Emit = Callable[[Event], None]


def run(
    facts: RunFacts,
    perform: Answer,
    folder: RunFolder,
    emit: Emit,
    *,
    now: Callable[[], datetime] = lambda: datetime.now().astimezone(),
    durable: bool = True,
) -> TestResult:
    """Run a test to its end and leave journal and result.xml in ``folder``.

    ``now`` is the run's clock; a journal that is not ``durable`` may lose its last entries when the host dies.

    When it is stopped or something fails, what was measured is in the journal, the end is recorded with its reason, and
    result.xml is written; then the reason goes on upwards: Interrupted, PurgeFailed, DeviceFailed, HostFailed.
    A mistake of the suite itself leaves a journal without an end, which reads as unfinished.
    """
    with Journal(folder.journal, durable=durable) as journal:
        journal.append(Begun(facts=facts))
        current: list[Step] = []
        watch = _Watch(facts.spec, emit)

        def answer(step: Step) -> Iterator[Outcome]:
            current[:] = [step]
            return _journaled(step, perform, journal, watch)

        try:
            drive(procedure(facts.spec, facts.dut), answer)
        except KeyboardInterrupt:
            stopped = Interrupted(step=current[0].label if current else "the beginning", what=facts.dut.path)
            _close(journal, folder, "interrupted", stopped, now())
            raise stopped from None
        except SniaPtsError as error:
            device = isinstance(error, DeviceFailed | PurgeFailed)
            _close(journal, folder, "device failed" if device else "host failed", error, now())
            raise
        with uninterrupted():
            _end(journal, "finished", "", now())
            return store(folder)


def assess(folder: RunFolder) -> TestResult:
    """Return the result of a stored run from its journal alone.

    The journal is replayed through the procedure: it must have asked for just these steps.  Raises RecordError.
    """
    recorded = Recorded(folder.journal)
    folding = Folding(recorded.facts)
    complete, conclusion = _replay(folder, recorded, folding)
    ended = recorded.ended
    if ended is not None and (ended.ending == "finished") > complete:
        raise RecordError(path=folder.journal, reason="it says that the run finished, but the procedure asks for more")
    running = ended is None and is_written(folder.journal)
    died = "the journal has no end: the suite or the host died" + (" while it wrote a line" if recorded.torn else "")
    return folding.result(
        ending=ended.ending if ended else "unfinished",
        ending_detail=ended.detail if ended else "it still goes on" if running else died,
        finished=ended.at if ended else "",
        conclusion=conclusion,
        running=running,
    )


class _JournalEnds(Exception):
    """The replay reached the end of what was recorded."""


def _replay(folder: RunFolder, recorded: Recorded, folding: Folding) -> tuple[bool, Conclusion]:
    """Let the journal answer the procedure, step by step; return whether it answered all, and the conclusion."""
    left = recorded.steps()

    def answer(step: Step) -> Iterator[Outcome]:
        asked, outcomes = next(left, (None, iter(())))
        if asked is None:
            raise _JournalEnds
        if asked != step:
            raise RecordError(
                path=folder.journal,
                reason=f"it records {asked.label}, where the procedure asks for {step.label} (another suite version?)",
            )
        passed: list[Outcome] = []
        for outcome in folding.passing(asked, outcomes):
            passed = passing(passed, outcome)
            yield outcome
        if not is_answered(asked, passed):
            raise _JournalEnds

    complete, conclusion = False, None
    with suppress(_JournalEnds):
        conclusion = drive(procedure(recorded.facts.spec, recorded.facts.dut), answer)
        complete = True
    if next(left, None) is not None:
        raise RecordError(path=folder.journal, reason="it records steps after those the procedure asks for")
    return complete, conclusion


def _journaled(step: Step, perform: Answer, journal: Journal, watch: _Watch) -> Iterator[Outcome]:
    journal.append(Asked(step=step))
    watch.begin(step)
    outcomes = perform(step)
    try:
        for position, outcome in enumerate(outcomes):
            journal.append(Came(outcome=outcome))
            watch.came(step, position, outcome)
            yield outcome
    finally:
        if isinstance(outcomes, Generator):  # ends the program that a stretch still runs
            outcomes.close()


class _Watch:
    """Tells whoever watches what happens, and judges each round as it comes; the procedure judges for itself."""

    def __init__(self, spec: Spec, emit: Emit) -> None:
        self._emit = emit
        self._rule, self._settling, self._phase = loop_rule(spec), settling_rule(spec), judged_phase(spec)
        self._samples_before = 0
        self._sampled: list[SampledRound] = []
        self._points: list[Measurement] = []
        self._rounds: dict[str, list[MeasuredRound]] = {}

    def begin(self, step: Step) -> None:
        self._points = []
        self._emit(StepBegun(step=step))

    def came(self, step: Step, position: int, outcome: Outcome) -> None:
        self._emit(OutcomeCame(step=step, position=position, outcome=outcome))
        if isinstance(step, Round) and isinstance(outcome, Measurement) and self._rule:
            self._points.append(outcome)
            if len(self._points) == len(step.stimuli):
                done = MeasuredRound(number=step.number, measurements=tuple(self._points), complete=True)
                self._judge(step, done, self._rule)
        elif isinstance(step, Stretch) and step.phase == self._phase and self._settling:
            if isinstance(outcome, Measurement):
                self._samples_before += step.samples
            elif isinstance(outcome, Sample):
                sampled = sampled_round(self._samples_before, outcome, self._settling)
                if sampled is not None:
                    self._sampled.append(sampled)
                    window = sampled_window(self._sampled, self._settling)
                    self._emit(RoundJudged(step=step, rule=self._settling, judged=sampled, window=window))

    def _judge(self, step: Step, done: MeasuredRound, rule: SteadyStateRule) -> None:
        name = f"{step.kind} {step.part}"
        last = self._rounds[name] = [*self._rounds.get(name, ()), done][-rule.window_rounds :]
        self._emit(RoundJudged(step=step, rule=rule, judged=done, window=window_ending(last, rule)))


def _close(journal: Journal, folder: RunFolder, ending: Ending, reason: SniaPtsError, at: datetime) -> None:
    """Record why a run ends early; what goes wrong meanwhile is told beside the reason, not in its place."""
    try:
        with uninterrupted():
            _end(journal, ending, str(reason), at)
            store(folder)
    except (SniaPtsError, OSError) as second:
        reason.hint += f" Besides: {second}"


def _end(journal: Journal, ending: Ending, detail: str, at: datetime) -> None:
    journal.append(Ended(ending=ending, detail=detail, at=at.isoformat(timespec="milliseconds")))


def store(folder: RunFolder) -> TestResult:
    """Make result.xml from the journal, so that the first report and every later one come from the same source."""
    result = assess(folder)
    replace_file(folder.result, result_xml(result))
    return result
