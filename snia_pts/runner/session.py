"""Drives a procedure through a laboratory, journals each answer, emits events."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from threading import Event
from typing import Protocol

from ..analysis.window import sampled_round, sampled_window, window_ending
from ..errors import DeviceFailed, Interrupted, PurgeFailed, RecordError, SniaPtsError, stop_cause
from ..model.health import Health
from ..model.measurement import MeasuredRound, Measurement, Outcome, Sample, SampledRound
from ..model.steps import ContinuousStimulus, Round, Step
from ..procedures import Answer, drive, procedure
from ..record.entries import EndEntry, OutcomeEntry, ResumeEntry, StartEntry, StepEntry
from ..record.evidence import EvidenceLedger, unjournaled_words
from ..record.folder import RunFolder
from ..record.journal import Journal, uninterrupted
from ..record.journal_reader import JournalReader
from ..record.replay import ResumePlan, file_state, require_same, store
from ..results.builder import judged_phase
from ..results.result import Ending, RunFacts, TestResult
from ..spec import Spec, SteadyStateRule, loop_rule, settling_rule
from .events import OnEvent, OutcomeRecorded, RoundEvaluated, RunResumed, StepStarted

#: Asks the drive for what it tells of its life; raises nothing.
ReadHealth = Callable[[], Health | None]


class Performer(Protocol):
    """What performs steps, and can be told what was performed before."""

    def perform(self, step: Step) -> Iterable[Outcome]:
        """Perform a step, giving each outcome as it comes."""
        ...

    def recall(self, step: Step, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """Take note of what came of a step before the run was interrupted, giving each outcome on."""
        ...


def _wall_clock() -> datetime:
    return datetime.now().astimezone()


def _no_health() -> None:
    """The answer of a drive that is not asked."""


def run(
    facts: RunFacts,
    perform: Answer,
    folder: RunFolder,
    emit: OnEvent,
    *,
    now: Callable[[], datetime] = _wall_clock,
    examine: ReadHealth = _no_health,
    durable: bool = True,
    stop: Event | None = None,
) -> TestResult:
    """Run a test to its end and leave journal and result.xml in ``folder``.

    ``now`` is the run's clock; a journal that is not ``durable`` may lose its last entries when the host dies.
    ``examine`` reads the health of the drive after the last step.  Another thread may set ``stop`` to end the run
    after its current point or sample.

    When it is stopped or something fails, what was measured is in the journal, the end is recorded with its reason, and
    result.xml is written; then the reason goes on upwards: Interrupted, PurgeFailed, DeviceFailed, HostFailed.
    A mistake of the suite itself leaves a journal without an end, which reads as unfinished.
    """
    ledger = EvidenceLedger(folder.evidence, durable=durable)
    begun = StartEntry(facts=facts, evidence=ledger.rest())
    with Journal(folder.journal, durable=durable) as journal:
        journal.append(begun)
        course = _RunSession(facts, perform, folder, journal, emit, examine, ledger, stop)
        with _closing(course, now):
            drive(procedure(facts.spec, facts.dut), course.performed)
        return _finish(course, now)


def resume(
    outlook: ResumePlan,
    laboratory: Performer,
    folder: RunFolder,
    emit: OnEvent,
    *,
    command_line: tuple[str, ...],
    changes: tuple[str, ...] = (),
    now: Callable[[], datetime] = _wall_clock,
    examine: ReadHealth = _no_health,
    durable: bool = True,
    stop: Event | None = None,
) -> TestResult:
    """Go on with a stopped run as ``outlook`` tells; ends as ``run`` does.

    The procedure is answered from the journal as far as it stands, and then by the laboratory.  Nothing is added to the
    journal before the first step is performed.  Raises RecordError when the journal is no longer as it was looked at.
    """
    with Journal(folder.journal, durable=durable, existing=True) as journal:
        ledger = EvidenceLedger(folder.evidence, outlook.evidence, durable=durable)
        course = _RunSession(outlook.facts, laboratory.perform, folder, journal, emit, examine, ledger, stop)
        found = (unjournaled_words(outlook.leftovers),) if outlook.leftovers else ()

        def entry() -> ResumeEntry:
            at = now()
            stopped = at if outlook.facts.dut.simulated else outlook.stopped
            return ResumeEntry(
                kept=outlook.kept,
                policy=outlook.policy,
                stopped=_stamp(stopped),
                at=_stamp(at),
                idle_seconds=max(0.0, (at - stopped).total_seconds()),
                reason=outlook.reason,
                command_line=command_line,
                changes=(*changes, *found),
                evidence=ledger.rest(),
            )

        again = _ResumedSession(outlook, laboratory, course, entry)
        with _closing(course, now, begun=lambda: again.gone_on):
            drive(procedure(outlook.facts.spec, outlook.facts.dut), again.answer)
            again.end()
        measured = not again.gone_on and not outlook.facts.dut.simulated
        return _finish(course, (lambda: outlook.stopped) if measured else now)


@contextmanager
def _closing(
    course: _RunSession, now: Callable[[], datetime], begun: Callable[[], bool] = lambda: True
) -> Iterator[None]:
    """Record why a run that has begun ends early, and let the reason go on upwards."""
    try:
        yield
    except (KeyboardInterrupt, Interrupted) as stop:
        stopped = stop if isinstance(stop, Interrupted) else course.interrupted(stop)
        if begun():
            course.close("interrupted", stopped, now())
        raise stopped from None
    except SniaPtsError as error:
        device = isinstance(error, DeviceFailed | PurgeFailed)
        if begun():
            course.close("device failed" if device else "host failed", error, now())
        raise


def _finish(course: _RunSession, now: Callable[[], datetime]) -> TestResult:
    with uninterrupted():
        course.end("finished", "", now())
        return store(course.folder)


class _RunSession:
    """A run as it goes: each step is asked for and answered in the journal, and told to whoever watches."""

    def __init__(
        self,
        facts: RunFacts,
        perform: Answer,
        folder: RunFolder,
        journal: Journal,
        emit: OnEvent,
        examine: ReadHealth,
        ledger: EvidenceLedger,
        stop: Event | None,
    ) -> None:
        self._stop = stop
        self._examine = examine
        self._ledger = ledger
        self.folder = folder
        self.emit = emit
        self.interruptions = 0
        self._dut = facts.dut
        self._perform = perform
        self.journal = journal
        self._watch = _ProgressObserver(facts.spec, emit)
        self._step: Step | None = None

    def performed(self, step: Step) -> Iterator[Outcome]:
        """Ask for a step, and give what comes of it, each outcome once it is safe."""
        self._step = step
        self.check_stop_requested(step)
        self.journal.append(StepEntry(step=step))
        self._watch.begin(step)
        yield from self._outcomes(step, step, 0)

    def recalled(self, step: Step, outcomes: Iterable[Outcome], go_on: Callable[[], None]) -> Iterator[Outcome]:
        """Give what came of a step before; the rest of a round that was broken off is performed."""
        self._step = step
        self._watch.begin(step)
        came = 0
        for outcome in outcomes:
            self._watch.came(step, came, outcome)
            came += 1
            yield outcome
        if isinstance(step, Round) and came < len(step.stimuli):
            self.check_stop_requested(step)
            go_on()
            yield from self._outcomes(step, replace(step, stimuli=step.stimuli[came:]), came)

    def _outcomes(self, step: Step, rest: Step, came: int) -> Iterator[Outcome]:
        """Perform the ``rest`` of a step."""
        outcomes = self._perform(rest)
        try:
            for position, found in enumerate(outcomes, start=came):
                outcome = self._counted(found)
                self.journal.append(OutcomeEntry(outcome=outcome, evidence=self._ledger.of(outcome)))
                self._watch.came(step, position, outcome)
                yield outcome
                if isinstance(outcome, Sample) or position + 1 < len(step.stimuli):
                    self.check_stop_requested(step)
        finally:
            if isinstance(outcomes, Generator):  # ends the program that a stretch still runs
                outcomes.close()

    def _counted(self, outcome: Outcome) -> Outcome:
        """Tell in an outcome how often the run was interrupted before."""
        if not self.interruptions:
            return outcome
        if isinstance(outcome, Measurement):
            return replace(outcome, timing=replace(outcome.timing, interruptions=self.interruptions))
        return replace(outcome, interruptions=self.interruptions) if isinstance(outcome, Sample) else outcome

    def check_stop_requested(self, step: Step) -> None:
        """Raise Interrupted if a stop was requested, HostFailed if the disk of the run folder is nearly full."""
        if self._stop is not None and self._stop.is_set():
            raise self.interrupted()
        if self.folder.stop_requested:
            self.folder.withdraw_stop()
            raise self.interrupted()
        self.folder.require_room(step.label)

    def interrupted(self, stop: KeyboardInterrupt | None = None) -> Interrupted:
        """Return the reason of a run that a signal stops, or the operator."""
        step = self._step.label if self._step else "the beginning"
        return Interrupted(cause=stop_cause(stop), step=step, what=self._dut.path)

    def close(self, ending: Ending, reason: SniaPtsError, at: datetime) -> None:
        """Record why a run ends early; what goes wrong meanwhile is told beside the reason, not in its place."""
        try:
            with uninterrupted():
                self.end(ending, str(reason), at)
                store(self.folder)
        except (SniaPtsError, OSError) as second:
            reason.add_note(f"Besides: {second}")

    def end(self, ending: Ending, detail: str, at: datetime) -> None:
        """Record the end."""
        health = self._examine()  # leaves evidence
        self.journal.append(
            EndEntry(ending=ending, detail=detail, at=_stamp(at), health=health, evidence=self._ledger.rest())
        )


class _ResumedSession:
    """Gives again what stands of a stopped run; and lets it go on, with an entry, where nothing is left to be given."""

    def __init__(
        self, outlook: ResumePlan, laboratory: Performer, course: _RunSession, entry: Callable[[], ResumeEntry]
    ) -> None:
        self._outlook = outlook
        self._laboratory = laboratory
        self._course = course
        self._entry = entry
        self._steps = JournalReader(course.folder.journal).steps()
        self._left = outlook.kept
        self.gone_on = False

    def answer(self, step: Step) -> Iterable[Outcome]:
        """Answer a step from the journal, as far as it stands, and then by performing it."""
        if self._left:
            self._left -= 1
            asked, outcomes = next(self._steps)
            require_same(self._course.folder, asked, step)
            return self._course.recalled(step, self._laboratory.recall(step, outcomes), self._go_on)
        if not self.gone_on:
            self._course.check_stop_requested(step)  # a stop that changes nothing sets nothing aside
            self._go_on()
        return self._course.performed(step)

    def end(self) -> None:
        """Let a run end of which all was measured before, but for something that failed after it."""
        if not self.gone_on and self._outlook.ended:
            self._go_on()
        elif not self.gone_on:
            self._open()

    def _go_on(self) -> None:
        self._course.interruptions = self._outlook.interruptions + 1
        self._open()
        self._course.journal.append(self._entry())
        self.gone_on = True
        self._course.emit(RunResumed())

    def _open(self) -> None:
        folder = self._course.folder
        if file_state(folder) != self._outlook.file:
            raise RecordError(path=folder.path, reason="it was changed meanwhile", hint="Try again.")
        self._course.journal.continue_after(self._outlook.length, self._outlook.checksum)


class _ProgressObserver:
    """Tells whoever watches what happens, and judges each round as it comes; the procedure judges for itself."""

    def __init__(self, spec: Spec, emit: OnEvent) -> None:
        self._emit = emit
        self._rule, self._settling, self._phase = loop_rule(spec), settling_rule(spec), judged_phase(spec)
        self._samples_before = self._sampled_bytes = 0
        self._sampled: list[SampledRound] = []
        self._points: list[Measurement] = []
        self._rounds: dict[str, list[MeasuredRound]] = {}

    def begin(self, step: Step) -> None:
        self._points = []
        self._emit(StepStarted(step=step))

    def came(self, step: Step, position: int, outcome: Outcome) -> None:
        self._emit(OutcomeRecorded(step=step, position=position, outcome=outcome))
        if isinstance(step, Round) and isinstance(outcome, Measurement) and self._rule:
            self._points.append(outcome)
            if len(self._points) == len(step.stimuli):
                done = MeasuredRound(number=step.number, measurements=tuple(self._points), complete=True)
                self._judge(step, done, self._rule)
        elif isinstance(step, ContinuousStimulus) and step.phase == self._phase and self._settling:
            if isinstance(outcome, Measurement):
                self._samples_before += step.samples
            elif isinstance(outcome, Sample):
                self._sampled_bytes += outcome.write_bytes
                fills = step.stimulus.fills(self._sampled_bytes)
                sampled = sampled_round(self._samples_before, outcome, self._settling, fills)
                if sampled is not None:
                    self._sampled.append(sampled)
                    window = sampled_window(self._sampled, self._settling)
                    self._emit(RoundEvaluated(step=step, rule=self._settling, judged=sampled, window=window))

    def _judge(self, step: Step, done: MeasuredRound, rule: SteadyStateRule) -> None:
        name = f"{step.kind} {step.part}"
        last = self._rounds[name] = [*self._rounds.get(name, ()), done][-rule.window_rounds :]
        self._emit(RoundEvaluated(step=step, rule=rule, judged=done, window=window_ending(last, rule)))


def _stamp(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")
