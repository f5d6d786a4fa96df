"""Run a procedure on a laboratory; append each outcome to the journal and emit events."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from ..errors import NOTHING_TESTED, DeviceFailed, Interrupted, PurgeFailed, RecordError, SniaPtsError, stop_cause
from ..model.content_state import ContentState
from ..model.health import Health
from ..model.measurement import Measurement, Outcome, Sample
from ..model.steps import Round, Step
from ..procedures import Answer, drive, procedure
from ..record.entries import EndEntry, OutcomeEntry, ResumeEntry, StartEntry, StepEntry
from ..record.evidence import EvidenceLedger, describe_unjournaled
from ..record.folder import RunFolder
from ..record.journal import Journal, uninterrupted
from ..record.journal_reader import JournalReader
from ..record.replay import ResumePlan, read_journal_state, require_same, store
from ..results.result import Ending, RunFacts, RunWarning, TestResult
from .events import OnEvent, RunResumed
from .observer import ProgressObserver

_LOGGER = logging.getLogger(__name__)
#: Reads the drive's health data; raises nothing.
ReadHealth = Callable[[], Health | None]
#: Reads the state of the target's content.
ReadContent = Callable[[], ContentState | None]


class Performer(Protocol):
    """Performs steps; steps that were performed before an interruption are passed to ``recall``."""

    def perform(self, step: Step) -> Iterable[Outcome]:
        """Perform a step; yield each outcome as soon as it is complete."""
        ...

    def recall(self, step: Step, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """Restore the state after a step that was performed before an interruption; pass on its outcomes."""
        ...


def _wall_clock() -> datetime:
    return datetime.now().astimezone()


def _read_nothing() -> None:
    """Default for ``read_health`` and ``read_content``: read nothing."""


def run(
    facts: RunFacts,
    perform: Answer,
    folder: RunFolder,
    emit: OnEvent,
    *,
    now: Callable[[], datetime] = _wall_clock,
    read_health: ReadHealth = _read_nothing,
    read_content: ReadContent = _read_nothing,
    end_warnings: Callable[[], tuple[RunWarning, ...]] = tuple,
    durable: bool = True,
    requested_stop: Callable[[], str] = str,
) -> TestResult:
    """Run a test to its end; write the journal and result.xml to ``folder``.

    ``now`` is the run's clock; a journal that is not ``durable`` may lose its last entries when the host crashes.
    ``read_health`` reads the drive's health data after the last step; ``end_warnings`` then returns the warnings that
    arose during the run; those already recorded at the start are skipped.  ``read_content`` reads the state of the
    target's content after each outcome and at the end.  ``requested_stop`` returns why the run is to stop after its
    current point or sample, or an empty text.

    If the run is stopped or fails, the measurements are in the journal, the end is recorded with its reason, and
    result.xml is written; then the error is raised: Interrupted, PurgeFailed, DeviceFailed, HostFailed.
    A bug of the suite leaves a journal without an end entry; such a run counts as unfinished.
    """
    ledger = EvidenceLedger(folder.evidence, durable=durable)
    start_entry = StartEntry(facts=facts, evidence=ledger.digest_remaining())
    with Journal(folder.journal, durable=durable) as journal:
        session = _RunSession(
            facts, perform, folder, journal, emit, read_health, read_content, end_warnings, ledger, requested_stop
        )
        with _recording_failure(session, now):
            journal.append(start_entry)
            drive(procedure(facts.spec, facts.dut), session.answer_by_performing)
        return _finish(session, now)


def resume(
    resume_plan: ResumePlan,
    laboratory: Performer,
    folder: RunFolder,
    emit: OnEvent,
    *,
    command_line: tuple[str, ...],
    changes: tuple[str, ...] = (),
    now: Callable[[], datetime] = _wall_clock,
    read_health: ReadHealth = _read_nothing,
    read_content: ReadContent = _read_nothing,
    end_warnings: Callable[[], tuple[RunWarning, ...]] = tuple,
    durable: bool = True,
    requested_stop: Callable[[], str] = str,
    before_first_entry: Callable[[], None] = lambda: None,
) -> TestResult:
    """Resume a stopped run as ``resume_plan`` says.  It ends in the same ways as ``run``.

    The valid steps are answered from the journal, the others by the laboratory.  The journal is unchanged until the
    first step is about to be performed; ``before_first_entry`` is called before the first new entry.  Raises
    RecordError if the journal was changed since it was inspected.
    """
    with Journal(folder.journal, durable=durable, existing=True) as journal:
        ledger = EvidenceLedger(folder.evidence, resume_plan.evidence, durable=durable)
        session = _RunSession(
            resume_plan.facts,
            laboratory.perform,
            folder,
            journal,
            emit,
            read_health,
            read_content,
            end_warnings,
            ledger,
            requested_stop,
        )
        leftovers = (describe_unjournaled(resume_plan.unjournaled_files),) if resume_plan.unjournaled_files else ()

        def make_resume_entry() -> ResumeEntry:
            at = now()
            stopped = at if resume_plan.facts.dut.simulated else resume_plan.stopped
            return ResumeEntry(
                kept_steps=resume_plan.kept_steps,
                policy=resume_plan.policy,
                stopped=_stamp(stopped),
                at=_stamp(at),
                idle_seconds=max(0.0, (at - stopped).total_seconds()),
                reason=resume_plan.reason,
                command_line=command_line,
                changes=(*changes, *leftovers),
                evidence=ledger.digest_remaining(),
            )

        resumed = _ResumedSession(resume_plan, laboratory, session, make_resume_entry, before_first_entry)
        with _recording_failure(session, now):
            drive(procedure(resume_plan.facts.spec, resume_plan.facts.dut), resumed.answer)
            resumed.prepare_end()
        only_end_missing = not resumed.has_resumed and not resume_plan.facts.dut.simulated
        return _finish(session, (lambda: resume_plan.stopped) if only_end_missing else now)


@contextmanager
def _recording_failure(session: _RunSession, now: Callable[[], datetime]) -> Iterator[None]:
    """Record why a run ends early, and raise the reason again; a run without any journal entry records nothing.

    ``journal.has_appended`` can be trusted here, because signals are deferred while the first entry is written.
    """
    try:
        yield
    except (KeyboardInterrupt, Interrupted) as stop:
        stopped = stop if isinstance(stop, Interrupted) else session.interrupted(stop_cause(stop))
        if session.journal.has_appended:
            session.record_failure("interrupted", stopped, now())
        raise stopped from None
    except SniaPtsError as error:
        device = isinstance(error, DeviceFailed | PurgeFailed)
        if session.journal.has_appended:
            session.record_failure("device failed" if device else "host failed", error, now())
        raise


def _finish(session: _RunSession, now: Callable[[], datetime]) -> TestResult:
    with uninterrupted():
        session.end("finished", "", now())
        return store(session.folder)


class _RunSession:
    """A run in progress: journals each step and its outcomes, and emits events."""

    def __init__(
        self,
        facts: RunFacts,
        perform: Answer,
        folder: RunFolder,
        journal: Journal,
        emit: OnEvent,
        read_health: ReadHealth,
        read_content: ReadContent,
        end_warnings: Callable[[], tuple[RunWarning, ...]],
        ledger: EvidenceLedger,
        requested_stop: Callable[[], str],
    ) -> None:
        self._requested_stop = requested_stop
        self._read_health = read_health
        self._read_content = read_content
        self._end_warnings = end_warnings
        self._ledger = ledger
        self.folder = folder
        self.emit = emit
        self.interruptions = 0
        self._dut, self._start_warnings = facts.dut, facts.warnings
        self._perform = perform
        self.journal = journal
        self._observer = ProgressObserver(facts.spec, emit)
        self._step: Step | None = None

    def answer_by_performing(self, step: Step) -> Iterator[Outcome]:
        """Journal a step and perform it; yield each outcome once it is in the journal."""
        self._step = step
        self.check_stop_requested(step)
        self.journal.append(StepEntry(step=step))
        _LOGGER.debug("step: %s", step.label)
        self._observer.replaying = False
        self._observer.start_step(step)
        yield from self._outcomes(step, step, 0)

    def answer_from_journal(
        self, step: Step, outcomes: Iterable[Outcome], on_resume: Callable[[], None]
    ) -> Iterator[Outcome]:
        """Replay recorded outcomes; measure the remaining points of an interrupted round."""
        self._step = step
        self._observer.replaying = True
        self._observer.start_step(step)
        outcome_count = 0
        for outcome in outcomes:
            self._observer.record_outcome(step, outcome_count, outcome)
            outcome_count += 1
            yield outcome
        if isinstance(step, Round) and outcome_count < len(step.stimuli):
            self.check_stop_requested(step)
            on_resume()
            self._observer.replaying = False
            yield from self._outcomes(step, replace(step, stimuli=step.stimuli[outcome_count:]), outcome_count)

    def _outcomes(self, step: Step, remaining: Step, outcome_count: int) -> Iterator[Outcome]:
        """Perform the ``remaining`` part of a step, after ``outcome_count`` outcomes."""
        outcomes = self._perform(remaining)
        try:
            for position, new_outcome in enumerate(outcomes, start=outcome_count):
                outcome = self._with_interruptions(new_outcome)
                digests = self._ledger.digest_outcome(outcome)
                self.journal.append(OutcomeEntry(outcome=outcome, content=self._read_content(), evidence=digests))
                self._observer.record_outcome(step, position, outcome)
                yield outcome
                if isinstance(outcome, Sample) or position + 1 < len(step.stimuli):
                    self.check_stop_requested(step)
        finally:
            if isinstance(outcomes, Generator):  # stops the program of a continuous stimulus
                outcomes.close()

    def _with_interruptions(self, outcome: Outcome) -> Outcome:
        """Return an outcome with the number of interruptions before it."""
        if not self.interruptions:
            return outcome
        if isinstance(outcome, Measurement):
            return replace(outcome, timing=replace(outcome.timing, interruptions=self.interruptions))
        return replace(outcome, interruptions=self.interruptions) if isinstance(outcome, Sample) else outcome

    def check_stop_requested(self, step: Step) -> None:
        """Raise Interrupted if a stop was requested, HostFailed if the disk of the run folder is nearly full."""
        if cause := self._requested_stop():
            raise self.interrupted(cause)
        if self.folder.stop_requested:
            person = self.folder.stop_requester or "a request (snia-pts stop)"
            self.folder.withdraw_stop()
            _LOGGER.info("stop requested: the run folder contains a file named 'stop'")
            raise self.interrupted(f"Stopped by {person}")
        self.folder.require_room(step.label)

    def interrupted(self, cause: str) -> Interrupted:
        """Return the error for a run that a signal, a request or the caller stops."""
        step = self._step.label if self._step else "start"
        hint = NOTHING_TESTED if self.journal.is_empty else Interrupted.hint
        return Interrupted(cause=cause, step=step, what=self._dut.path, hint=hint)

    def record_failure(self, ending: Ending, reason: SniaPtsError, at: datetime) -> None:
        """Record why a run ends early; a further error is added to the reason as a note.

        If the run folder was moved (``reason`` then says so), nothing is recorded: the run counts as unfinished.
        A further Ctrl-C does not replace the reason: the run ends anyway.
        """
        if self.folder.present != self.folder:
            return
        try:
            with suppress(KeyboardInterrupt), uninterrupted():
                self.end(ending, str(reason), at)
                store(self.folder)
        except (SniaPtsError, OSError) as secondary:
            reason.add_note(f"Also: {secondary}")

    def end(self, ending: Ending, detail: str, at: datetime) -> None:
        """Append the end entry."""
        _LOGGER.log(logging.INFO if ending == "finished" else logging.WARNING, "the run ends: %s", detail or ending)
        # Both write evidence files, so call them before digest_remaining().
        health, warnings = self._read_health(), self._end_warnings()
        self.journal.append(
            EndEntry(
                ending=ending,
                detail=detail,
                at=_stamp(at),
                health=health,
                warnings=tuple(warning for warning in warnings if warning not in self._start_warnings),
                content=self._read_content(),
                evidence=self._ledger.digest_remaining(),
            )
        )


class _ResumedSession:
    """Replays the valid steps of a stopped run, then appends a resume entry and continues the run."""

    def __init__(
        self,
        resume_plan: ResumePlan,
        laboratory: Performer,
        session: _RunSession,
        make_resume_entry: Callable[[], ResumeEntry],
        before_first_entry: Callable[[], None],
    ) -> None:
        self._plan = resume_plan
        self._laboratory = laboratory
        self._session = session
        self._make_resume_entry = make_resume_entry
        self._before_first_entry = before_first_entry
        self._steps = JournalReader(session.folder.journal).steps()
        self._steps_to_replay = resume_plan.kept_steps
        self.has_resumed = False

    def answer(self, step: Step) -> Iterable[Outcome]:
        """Answer a step from the journal if it is valid there, otherwise by performing it."""
        if self._steps_to_replay:
            self._steps_to_replay -= 1
            stored_step, outcomes = next(self._steps)
            require_same(self._session.folder, stored_step, step)
            return self._session.answer_from_journal(step, self._laboratory.recall(step, outcomes), self._resume)
        if not self.has_resumed:
            # Check first: the resume entry would discard outcomes.
            self._session.check_stop_requested(step)
            self._resume()
        return self._session.answer_by_performing(step)

    def prepare_end(self) -> None:
        """Prepare the journal for the end entry if no step had to be performed.

        Append a resume entry first if an end entry already exists.
        """
        if not self.has_resumed and self._plan.has_end_entry:
            self._resume()
        elif not self.has_resumed:
            self._continue_journal()

    def _resume(self) -> None:
        self._session.interruptions = self._plan.interruptions + 1
        self._continue_journal()
        self._session.journal.append(self._make_resume_entry())
        self.has_resumed = True
        _LOGGER.info("resumed after the recorded steps")
        self._session.emit(RunResumed())

    def _continue_journal(self) -> None:
        folder = self._session.folder
        if read_journal_state(folder) != self._plan.journal_state:
            raise RecordError(
                path=folder.path, reason="its journal was changed after it was inspected", hint="Try again."
            )
        self._session.journal.continue_after(self._plan.length, self._plan.checksum)
        self._before_first_entry()


def _stamp(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")
