"""Drives a procedure through a laboratory, journals each answer, emits events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from .errors import DeviceFailed, Interrupted, PurgeFailed, RecordError, SniaPtsError
from .measurement import Outcome
from .procedures import TESTS, Answer, drive
from .record.folder import RunFolder, replace_file
from .record.journal import Asked, Begun, Came, Ended, Journal, Recorded, is_written, read_journal, uninterrupted
from .record.resultxml import result_xml
from .result import Ending, RunFacts, TestResult, fold
from .steps import Step


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


Event = StepBegun | OutcomeCame
Emit = Callable[[Event], None]


def run(facts: RunFacts, perform: Answer, folder: RunFolder, emit: Emit) -> TestResult:
    """Run a test to its end and leave journal and result.xml in ``folder``.

    When it is stopped or something fails, what was measured is in the journal, the end is recorded with its reason, and
    result.xml is written; then the reason goes on upwards: Interrupted, PurgeFailed, DeviceFailed, HostFailed.
    A mistake of the suite itself leaves a journal without an end, which reads as unfinished.
    """
    with Journal(folder.journal) as journal:
        journal.append(Begun(facts=facts))
        current: list[Step] = []

        def answer(step: Step) -> Iterator[Outcome]:
            current[:] = [step]
            return _journaled(step, perform, journal, emit)

        try:
            drive(TESTS[facts.spec.test](facts.spec, facts.dut), answer)
        except KeyboardInterrupt:
            stopped = Interrupted(step=current[0].label if current else "the beginning", what=facts.dut.path)
            _close(journal, folder, "interrupted", stopped)
            raise stopped from None
        except SniaPtsError as error:
            device = isinstance(error, DeviceFailed | PurgeFailed)
            _close(journal, folder, "device failed" if device else "host failed", error)
            raise
        with uninterrupted():
            _end(journal, "finished", "")
            return store(folder)


def assess(folder: RunFolder) -> TestResult:
    """Return the result of a stored run from its journal alone.

    The journal is replayed through the procedure: it must have asked for just these steps.  Raises RecordError.
    """
    recorded = read_journal(folder.journal)
    _replay(folder, recorded)
    ended = recorded.ended
    running = ended is None and is_written(folder.journal)
    died = "the journal has no end: the suite or the host died" + (" while it wrote a line" if recorded.torn else "")
    return fold(
        recorded.facts,
        recorded.answered,
        ending=ended.ending if ended else "unfinished",
        ending_detail=ended.detail if ended else "it still goes on" if running else died,
        finished=ended.at if ended else "",
        running=running,
    )


class _JournalEnds(Exception):
    """The replay reached the end of what was recorded."""


def _replay(folder: RunFolder, recorded: Recorded) -> None:
    left = list(recorded.answered)
    complete = False

    def answer(step: Step) -> Iterable[Outcome]:
        if not left:
            raise _JournalEnds
        asked, outcomes = left.pop(0)
        if asked != step:
            raise RecordError(
                path=folder.journal,
                reason=f"it records {asked.label}, where the procedure asks for {step.label} (another suite version?)",
            )
        if len(outcomes) < max(1, len(step.stimuli)):
            raise _JournalEnds
        return outcomes

    with suppress(_JournalEnds):
        drive(TESTS[recorded.facts.spec.test](recorded.facts.spec, recorded.facts.dut), answer)
        complete = True
    if left:
        raise RecordError(path=folder.journal, reason="it records steps after those the procedure asks for")
    if recorded.ended is not None and (recorded.ended.ending == "finished") > complete:
        raise RecordError(path=folder.journal, reason="it says that the run finished, but the procedure asks for more")


def _journaled(step: Step, perform: Answer, journal: Journal, emit: Emit) -> Iterator[Outcome]:
    journal.append(Asked(step=step))
    emit(StepBegun(step=step))
    for position, outcome in enumerate(perform(step)):
        journal.append(Came(outcome=outcome))
        emit(OutcomeCame(step=step, position=position, outcome=outcome))
        yield outcome


def _close(journal: Journal, folder: RunFolder, ending: Ending, reason: SniaPtsError) -> None:
    """Record why a run ends early; what goes wrong meanwhile is told beside the reason, not in its place."""
    try:
        with uninterrupted():
            _end(journal, ending, str(reason))
            store(folder)
    except (SniaPtsError, OSError) as second:
        reason.hint += f" Besides: {second}"


def _end(journal: Journal, ending: Ending, detail: str) -> None:
    at = datetime.now().astimezone().isoformat(timespec="milliseconds")
    journal.append(Ended(ending=ending, detail=detail, at=at))


def store(folder: RunFolder) -> TestResult:
    """Make result.xml from the journal, so that the first report and every later one come from the same source."""
    result = assess(folder)
    replace_file(folder.result, result_xml(result))
    return result
