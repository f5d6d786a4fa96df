"""Follows a run of another process: reads its events from its journal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice

from ..errors import RecordError
from ..model.steps import Step
from ..record.entries import EndEntry, Entry, OutcomeEntry, ResumeEntry, StartEntry, StepEntry
from ..record.folder import RunFolder, unreadable
from ..record.follower import follow_entries
from ..record.journal_reader import JournalReader
from ..record.replay import assess
from ..spec import Spec
from .events import Event, RunResumed, TestFinished
from .observer import ProgressObserver

#: How often a folder without a journal is checked.
_PAUSE_SECONDS = 0.1


def follow(folder: RunFolder, is_running: Callable[[], bool]) -> Iterator[Event]:
    """Yield the events of a run from its first step on, as they are journaled; end when the run has ended.

    These are StepStarted, OutcomeRecorded, RoundEvaluated, RunResumed and, if the test finished, TestFinished.  After
    RunResumed the run continues after the last valid step, so some steps before RunResumed may be discarded ones.
    ``is_running`` returns whether the process of the run is running.  Waits until that process has written the first
    entry of the journal.  Raises RecordError.
    """
    while not _has_started(folder):
        if not is_running():
            return
        time.sleep(_PAUSE_SECONDS)
    entries = follow_entries(folder.journal, is_running)
    start = next(entries)
    if not isinstance(start, StartEntry):
        raise RecordError(path=folder.journal, reason="the first entry is not a start entry")
    reader = EventReader(folder, start.facts.spec)
    for entry in entries:
        yield from reader.events(entry)


def _has_started(folder: RunFolder) -> bool:
    try:
        return folder.has_started
    except OSError as error:
        raise unreadable(folder.journal, error) from None


class EventReader:
    """Turns the entries of a journal, after the first one, into events.

    It keeps the valid steps up to an entry, each with the number of its outcomes.
    """

    def __init__(self, folder: RunFolder, spec: Spec) -> None:
        self._folder, self._spec = folder, spec
        self._steps: list[tuple[Step, int]] = []
        self._events: list[Event] = []
        self._observer = self._new_observer()

    def events(self, entry: Entry) -> Iterator[Event]:
        """Yield the events of an entry."""
        self._events.clear()
        match entry:
            case StepEntry():
                self._steps.append((entry.step, 0))
                self._observer.start_step(entry.step)
            case OutcomeEntry() if self._steps:
                step, count = self._steps[-1]
                self._observer.record_outcome(step, count, entry.outcome)
                self._steps[-1] = step, count + 1
            case ResumeEntry():
                del self._steps[entry.kept_steps :]
                self._observer = self._replayed_observer()
                self._events.append(RunResumed())
            case EndEntry(ending="finished"):
                self._events.append(TestFinished(result=assess(self._folder)))
            case EndEntry():
                pass
            case _:
                raise RecordError(path=self._folder.journal, reason=f"unexpected entry of kind {entry.kind}")
        yield from tuple(self._events)

    def _new_observer(self) -> ProgressObserver:
        observer = ProgressObserver(self._spec, self._events.append)
        observer.replaying = True
        return observer

    def _replayed_observer(self) -> ProgressObserver:
        """Return an observer that has only observed the valid steps: they alone count for rounds and windows."""
        observer, valid_steps = self._new_observer(), JournalReader(self._folder.journal).steps()
        for (step, count), (_, outcomes) in zip(self._steps, valid_steps, strict=False):
            observer.start_step(step)
            for position, outcome in enumerate(islice(outcomes, count)):
                observer.record_outcome(step, position, outcome)
        self._events.clear()
        return observer
