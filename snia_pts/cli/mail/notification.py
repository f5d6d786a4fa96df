"""The mail on a run: what it will say."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import Interrupted, LimitsMissed, ReportError, SniaPtsError, stop_cause
from ...results.result import TestResult
from ...runner.events import FolderMade

#: What is wrong with a run that was measured to its end.
_SHORT_OF: dict[type[BaseException], str] = {LimitsMissed: "LIMITS NOT MET", ReportError: "NO REPORT"}


@dataclass(slots=True, kw_only=True)
class Notification:
    """The mail on a run: ``about`` names test and drive, ``verdict`` is its result, once that is known.

    ``about`` is empty, and ``report`` None, until the run has a folder.
    """

    about: str = ""
    report: Path | None = None
    verdict: str = ""
    said: io.StringIO = field(default_factory=io.StringIO)

    def describe(self, event: FolderMade) -> None:
        """Note which run it is."""
        self.about = f"{event.title} of {event.dut.summary}"
        self.report = event.folder.path / f"{event.report}.pdf"

    def finish(self, result: TestResult) -> None:
        """Note the verdict of a test."""
        from ...report.sections.summary import verdict  # what makes a report is not held while a test runs

        self.verdict = verdict(result)

    def ended(self, error: BaseException) -> None:
        """Take down why a run ended before its time, or what is wrong with its numbers, as the terminal tells it."""
        if isinstance(error, KeyboardInterrupt):
            error = Interrupted(cause=stop_cause(error), step="the preparation", what="no test had begun", hint="")
        outcome = "INTERRUPTED" if isinstance(error, Interrupted) else _SHORT_OF.get(type(error), "FAILED")
        self.verdict = f"{self.verdict}, {outcome}" if self.verdict else outcome
        self.said.write(f"snia-pts: {error}\n")
        if isinstance(error, SniaPtsError) and error.full_hint:
            self.said.write(f"  {error.full_hint}\n")
