"""The caller of a run: the command line, or a program."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event as StopEvent

from ..model.test_platform import HostSetting
from ..results.result import RunWarning
from .confirmation import Confirm, refuse
from .events import Notice, OnEvent, ignore_event

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller of a run: its callbacks for events and confirmation, a token to stop the run, and its command line.

    ``stop_cause`` is the ``cause`` of Interrupted if the token is set.  ``host_settings`` returns what the caller knows
    about the host at the start of a test, ``end_warnings`` what a reader must know at its end; both become part of the
    result.
    """

    on_event: OnEvent = ignore_event
    confirm: Confirm = refuse
    stop: StopEvent | None = None
    stop_cause: str = "Stopped by the calling program"
    command_line: tuple[str, ...] = ()
    host_settings: Callable[[], tuple[HostSetting, ...]] = tuple
    end_warnings: Callable[[], tuple[RunWarning, ...]] = tuple

    def requested_stop(self) -> str:
        """Return why the caller wants the run to stop; empty if it does not."""
        return self.stop_cause if self.stop is not None and self.stop.is_set() else ""

    def tell(self, text: str) -> None:
        """Send a notice."""
        _LOGGER.info("%s", text)
        self.on_event(Notice(text=text))
