"""The content of the mail about a run."""

from __future__ import annotations

import io
import socket
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import Interrupted, LimitsMissed, ReportError, SniaPtsError, stop_error
from ...report.sections.summary import verdict
from ...results.result import TestResult
from ...runner.events import FolderCreated

#: The outcome in the mail for errors that come after all measurements of a run.
_OUTCOMES: dict[type[BaseException], str] = {LimitsMissed: "LIMITS NOT MET", ReportError: "NO REPORT"}


@dataclass(slots=True, kw_only=True)
class Notification:
    """The mail about a run: ``about`` names test and drive, ``verdict`` is the run's result, once that is known.

    ``host`` is where it ran.

    ``about`` is empty, and ``report`` None, until the run has a folder.
    """

    about: str = ""
    report: Path | None = None
    verdict: str = ""
    host: str = field(default_factory=socket.gethostname)
    output: io.StringIO = field(default_factory=io.StringIO)

    def describe(self, event: FolderCreated) -> None:
        """Record the run that the mail is about."""
        self.about = f"{event.title} of {event.dut.summary}"
        self.report = event.folder.path / f"{event.report}.pdf"

    def finish(self, result: TestResult) -> None:
        """Record the verdict of a test."""
        self.verdict = verdict(result)

    def record_error(self, error: BaseException) -> None:
        """Record why a run ended early, or what is wrong with its result, with the message that the terminal shows."""
        if isinstance(error, KeyboardInterrupt):
            error = stop_error(error)
        outcome = "INTERRUPTED" if isinstance(error, Interrupted) else _OUTCOMES.get(type(error), "FAILED")
        self.verdict = f"{self.verdict}, {outcome}" if self.verdict else outcome
        self.output.write(f"snia-pts: {error}\n")
        if isinstance(error, SniaPtsError) and error.full_hint:
            self.output.write(f"  {error.full_hint}\n")
