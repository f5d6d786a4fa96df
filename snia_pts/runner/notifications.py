"""Calls the notifications of plugins when a run has ended."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from .. import registries
from ..results.result import TestResult
from .caller import Caller
from .events import Event, FolderCreated, TestFinished
from .plugins import describe_failure, load_plugins


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """A run in the folder ``path`` that has ended, for any reason.

    ``title`` names its test, ``drive`` its target.  ``results`` are those of its finished tests.  ``error`` is why it
    ended early, or why its report is missing; None for a finished run.
    """

    path: Path
    title: str
    drive: str
    results: tuple[TestResult, ...] = ()
    error: BaseException | None = None


@contextmanager
def notified(plugins: Sequence[str], caller: Caller) -> Iterator[Caller]:
    """Call the notifications of ``plugins`` when the block ends; yield the caller for the run in the block.

    Nothing is called for a run without a folder.  A notification that fails is a notice: it does not affect the run.
    """
    load_plugins(plugins)
    functions = registries.added_by(plugins, registries.NOTIFICATIONS)
    observer = _Observer(caller)
    try:
        yield replace(caller, on_event=observer.on_event) if functions else caller
    except BaseException as error:
        observer.notify(functions, error)
        raise
    observer.notify(functions, None)


class _Observer:
    """Passes the events of a run on, and remembers those that notifications need."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._end: RunEnd | None = None

    def on_event(self, event: Event) -> None:
        """Receive an event of the run."""
        if isinstance(event, FolderCreated):
            self._end = RunEnd(path=event.folder.path, title=event.title, drive=event.dut.summary)
        elif isinstance(event, TestFinished) and self._end:
            self._end = replace(self._end, results=(*self._end.results, event.result))
        self._caller.on_event(event)

    def notify(self, functions: Mapping[str, str], error: BaseException | None) -> None:
        """Call the functions, unless the run has no folder."""
        if self._end is None:
            return
        for name in functions:
            try:
                registries.load(registries.NOTIFICATIONS, name)(replace(self._end, error=error))
            except Exception as failure:  # noqa: BLE001  # no failure of a notification may hide the result
                module = sys.modules[functions[name].partition(":")[0]]
                reason = describe_failure(failure, str(module.__file__))
                self._caller.tell(f"The notification {name} failed ({reason}).")
