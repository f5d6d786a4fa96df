"""Root's service for the agent of a host: it performs the calls of ``HostRuns``.

The agent talks to the network, so it runs as a system user without rights on drives.  Each of its calls is a line of
JSON on a Unix socket.  The service has no network.  It decides by root's configuration, as ``HostRuns`` always does.
"""

from __future__ import annotations

import logging
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from typing import Any, Literal
from uuid import UUID

from pydantic import TypeAdapter, ValidationError

from .. import errors
from ..analysis.side_by_side import SideBySide
from ..errors import HostFailed, SniaPtsError, UsageError
from .request import RunRequest
from .run_state import Ended, HostRuns, Lost, Outcome, Running

_MAX_BYTES = 4 * 1024 * 1024
#: Longer than the start of a unit may take.
_ANSWER_SECONDS = 120.0
#: The run of a call that concerns none.
_NO_RUN = UUID(int=0)
_REPEATS, _REPEAT_SECONDS = 10, 1.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of a method of ``HostRuns``, with its arguments; ``side_by_side`` concerns no run."""

    __pydantic_config__ = {"extra": "forbid"}
    method: Literal["side_by_side", "ensure", "state", "stop", "resume"]
    run_id: UUID = _NO_RUN
    request: RunRequest | None = None
    submitted: datetime | None = None
    at_once: bool = False
    from_purge: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The error that a method raised: its class in ``snia_pts.errors``, its fields, and the notes of its callers."""

    error: str
    fields: dict[str, str]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a method returned or raised; at most one is not None."""

    ended: Ended | None = None
    running: Running | None = None
    lost: Lost | None = None
    side_by_side: SideBySide | None = None
    failure: Failure | None = None

    def outcome(self) -> Outcome | None:
        """Return what the method returned; raises what it raised."""
        if self.failure is not None:
            raise _error(self.failure)
        return self.ended or self.running or self.lost


class RemoteRuns:
    """The runs of a host for its agent: has the methods of ``HostRuns``, and calls the service at a socket.

    Raises OSError, too, if the service does not answer.  A call that may be repeated is repeated first, because the
    service starts again with each upgrade.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def side_by_side(self) -> SideBySide:
        """See HostRuns."""
        answer = self._repeated(Call(method="side_by_side"))
        answer.outcome()  # raises what the method raised
        if answer.side_by_side is None:
            raise ConnectionError(f"{self._path} has no outcome of side_by_side")
        return answer.side_by_side

    def ensure(self, request: RunRequest, submitted: datetime | None = None) -> Outcome:
        """See HostRuns."""
        call = Call(method="ensure", run_id=request.run_id, request=request, submitted=submitted)
        return self._started(call, self._repeated(call).outcome())

    def state(self, run_id: UUID) -> Outcome | None:
        """See HostRuns."""
        return self._repeated(Call(method="state", run_id=run_id)).outcome()

    def stop(self, run_id: UUID, *, at_once: bool = False) -> None:
        """See HostRuns."""
        self._repeated(Call(method="stop", run_id=run_id, at_once=at_once)).outcome()

    def resume(self, run_id: UUID, *, from_purge: bool = False) -> Outcome:
        """See HostRuns."""
        call = Call(method="resume", run_id=run_id, from_purge=from_purge)
        return self._started(call, self._call(call).outcome())

    def _started(self, call: Call, outcome: Outcome | None) -> Outcome:
        if outcome is None:
            raise ConnectionError(f"{self._path} has no outcome of {call.method}")
        return outcome

    def _repeated(self, call: Call) -> Answer:
        for _ in range(_REPEATS):
            with suppress(OSError):
                return self._call(call)
            time.sleep(_REPEAT_SECONDS)
        return self._call(call)

    def _call(self, call: Call) -> Answer:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWER_SECONDS)
            connection.connect(str(self._path))
            connection.sendall(_adapter(Call).dump_json(call) + b"\n")
            with connection.makefile("rb") as file:
                line = file.readline(_MAX_BYTES)
        if not line.endswith(b"\n"):
            raise ConnectionError(f"{self._path} closed the connection without an answer")
        answer: Answer = _adapter(Answer).validate_json(line)
        return answer


class HostService(ThreadingUnixStreamServer):
    """Answers the calls that arrive at a listening socket."""

    daemon_threads = True

    def __init__(self, listening: socket.socket, runs: HostRuns) -> None:
        super().__init__("", _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.runs = runs

    def answer(self, line: bytes) -> Answer:
        """Perform the call in a line of JSON."""
        try:
            call: Call = _adapter(Call).validate_json(line, strict=True)
        except ValidationError as error:
            return Answer(failure=_failure(UsageError(detail=f"The call is invalid: {error.errors()[0]['msg']}.")))
        try:
            outcome = self._perform(call)
        except SniaPtsError as error:
            return Answer(failure=_failure(error))
        match outcome:
            case SideBySide():
                return Answer(side_by_side=outcome)
            case Ended():
                return Answer(ended=outcome)
            case Running():
                return Answer(running=outcome)
            case Lost():
                return Answer(lost=outcome)
        return Answer()

    def _perform(self, call: Call) -> Outcome | SideBySide | None:
        match call.method:
            case "side_by_side":
                return self.runs.side_by_side()
            case "ensure":
                if call.request is None or call.request.run_id != call.run_id:
                    raise UsageError(detail="The call ensure has no request, or that of another run.")
                return self.runs.ensure(call.request, call.submitted)
            case "state":
                return self.runs.state(call.run_id)
            case "stop":
                self.runs.stop(call.run_id, at_once=call.at_once)
                return None
            case "resume":
                return self.runs.resume(call.run_id, from_purge=call.from_purge)


class _Handler(StreamRequestHandler):
    """Answers the call of a connection."""

    server: HostService
    timeout = _ANSWER_SECONDS

    def handle(self) -> None:
        try:
            line = self.rfile.readline(_MAX_BYTES)
            if line.endswith(b"\n"):
                self.wfile.write(_adapter(Answer).dump_json(self.server.answer(line)) + b"\n")
        except (ConnectionError, TimeoutError) as error:
            _log.info("an agent ended its call: %s", error)  # a killed agent asks again when it is back


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _failure(error: SniaPtsError) -> Failure:
    fields = {name: str(value) for name, value in vars(error).items() if name != "__notes__"}
    notes = [note for note in getattr(error, "__notes__", ()) if note != error.hint]
    return Failure(error=type(error).__name__, fields=fields, notes=tuple(notes))


def _error(failure: Failure) -> SniaPtsError:
    """Return the error of a failure; HostFailed if this version has no such error, because it is another one."""
    kind = getattr(errors, failure.error, None)
    if not (isinstance(kind, type) and issubclass(kind, SniaPtsError)):
        reason = failure.fields.get("reason", failure.error)
        return HostFailed(step="call of the service of the host", what=failure.error, reason=reason)
    error = kind(**failure.fields)
    for note in failure.notes:
        error.add_note(note)
    return error
