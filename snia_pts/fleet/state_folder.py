"""The state of a run on its host: files that are on stable storage before the run does anything.

The folder of a run has these files::

    request.json    the request
    claimed         the permission for the first start; claimed-1, claimed-2 ... are those to resume the run
    lock            locked by the process of the run as long as it lives; contains its number
    starts          a line for each permission that a process has used, and one when the first step was about to begin
    stop            a stop after the current point was requested
    exit            how the process that used the last permission ended
    output          what the processes printed

A permission is used at most once, and only the last one can be used.  A process writes its line to ``starts`` before
it touches the drive.  So a run without ``starts`` was never started, whatever was killed, and when the power failed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar
from uuid import UUID

from pydantic import TypeAdapter, ValidationError

from ..errors import HostFailed, RecordError, RunFolderError
from ..files import create, open_regular, open_to_append, read_regular, remove, replace_file, sync_folder
from ..record.folder import unreadable
from ..record.locks import lock, unlocked
from ..trusted_paths import private_path
from .request import RunRequest, parse_request, request_json

_MAX_BYTES = 4 * 1024 * 1024
_CLAIM = re.compile("claimed(-[1-9][0-9]{0,5})?")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_DIGEST_LETTERS = 16

#: How a process starts a run: for the first time, by the rule of ``resume``, or at its last purge.
StartKind = Literal["fresh", "resume", "from-purge"]
Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The permission to start the run once."""

    kind: StartKind
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A process has used the permission ``claim``; ``began``: its first step was about to begin."""

    claim: int
    kind: StartKind
    began: bool
    pid: int
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How the process that used the permission ``claim`` ended: its exit code and its last message."""

    claim: int
    code: int
    message: str
    at: datetime


@cache
def _adapter(kind: type[Kind]) -> TypeAdapter[Kind]:
    return TypeAdapter(kind)


def now() -> datetime:
    """Return the time of this host with its time zone."""
    return datetime.now().astimezone()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The state of a run in the folder ``path``."""

    path: Path

    @classmethod
    def of(cls, state_folder: Path, run_id: UUID) -> RunState:
        """Return the state of a run, which may not exist yet."""
        return cls(path=state_folder / "runs" / str(run_id))

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def output(self) -> Path:
        return self.path / "output"

    @property
    def exists(self) -> bool:
        """Whether a request for the run was accepted on this host."""
        return (self.path / "request.json").exists()

    def make_folder(self) -> None:
        """Create the folder, on stable storage.  Raises RunFolderError."""
        with _failures_named(self.path):
            make_private_folder(self.path)

    def accept(self, request: RunRequest) -> None:
        """Write the request to the folder, on stable storage.  Raises RunFolderError."""
        with _failures_named(self.path):
            replace_file(self.path / "request.json", request_json(request))

    def record_submission(self, at: datetime) -> None:
        """Write when the run was requested.  Raises RunFolderError."""
        with _failures_named(self.path):
            replace_file(self.path / "submitted", at.isoformat().encode())

    @property
    def submitted(self) -> datetime | None:
        """When the run was requested, by the clock of the database; None if it is not known."""
        with suppress(OSError, ValueError):
            return datetime.fromisoformat(read_regular(self.path / "submitted", _MAX_BYTES).decode())
        return None

    def request(self) -> RunRequest:
        """Return the request; raises RecordError."""
        try:
            return parse_request(read_regular(self.path / "request.json", _MAX_BYTES))
        except OSError as error:
            raise unreadable(self.path, error) from None

    # -- permissions ---------------------------------------------------------------------------------------------------

    @property
    def claims(self) -> int:
        """The number of permissions to start the run.  Raises RecordError."""
        try:
            return sum(_CLAIM.fullmatch(entry.name) is not None for entry in self.path.iterdir())
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise unreadable(self.path, error) from None

    def claim(self, kind: StartKind) -> None:
        """Create a permission to start the run, on stable storage.

        Raises RunFolderError if another process creates the same one.
        """
        number = self.claims
        path = self.path / (f"claimed-{number}" if number else "claimed")
        with _failures_named(self.path):
            remove(self.path / "stop")
            with create(path) as file:
                file.write(_adapter(Claim).dump_json(Claim(kind=kind, at=now())) + b"\n")
                os.fsync(file.fileno())
            sync_folder(self.path)

    def claimed_kind(self, number: int) -> StartKind:
        """Return what the permission with this number allows; raises RecordError."""
        path = self.path / (f"claimed-{number}" if number else "claimed")
        try:
            claim: Claim = _adapter(Claim).validate_json(read_regular(path, _MAX_BYTES))
        except OSError as error:
            raise unreadable(self.path, error) from None
        except ValidationError:
            raise RecordError(path=path, reason="it is not a valid permission", hint="") from None
        return claim.kind

    # -- starts --------------------------------------------------------------------------------------------------------

    def starts(self) -> tuple[Start, ...]:
        """Return the starts, and a second entry for each that was about to begin its first step.  Raises RecordError.

        A line without end was written when the power failed: its process had not started the run.
        """
        try:
            text = read_regular(self.path / "starts", _MAX_BYTES)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise unreadable(self.path, error) from None
        try:
            return tuple(map(_adapter(Start).validate_json, filter(None, text.split(b"\n")[:-1])))
        except ValidationError:
            raise RecordError(path=self.path / "starts", reason="it has an invalid line", hint="") from None

    def record_start(self, start: Start) -> None:
        """Append a line to ``starts``, on stable storage.  Raises HostFailed."""
        path = self.path / "starts"
        try:
            with open_to_append(path, new=True) as file:
                file.truncate(file.readall().rfind(b"\n") + 1)
                file.write(_adapter(Start).dump_json(start) + b"\n")
                os.fsync(file.fileno())
            sync_folder(self.path)
        except OSError as error:
            reason = error.strerror or str(error)
            raise HostFailed(step="start of the run", what=path, reason=reason) from None

    # -- the process ---------------------------------------------------------------------------------------------------

    @contextmanager
    def unlocked(self) -> Iterator[bool]:
        """Yield whether no process of the run lives; then none can start inside the block.  Raises RecordError."""
        with ExitStack() as opened:
            try:
                is_free = opened.enter_context(unlocked(self.lock))
            except FileNotFoundError:
                is_free = True
            except OSError as error:
                raise unreadable(self.path, error) from None
            yield is_free

    @property
    def is_locked(self) -> bool:
        """Whether the process of the run lives.  Raises RecordError."""
        with self.unlocked() as is_free:
            return not is_free

    def locked(self) -> int | None:
        """Lock the run and return the descriptor, which keeps the lock in every process that inherits it.

        Returns None if a process has locked it.  Raises RunFolderError.
        """
        return lock_file(self.lock)

    @property
    def pid(self) -> int | None:
        """The number of the last process of the run; None before it has started, or if it is unknown."""
        with suppress(OSError, ValueError):
            return int(read_regular(self.lock, _MAX_BYTES))
        return None

    @property
    def stop_requested(self) -> bool:
        return (self.path / "stop").exists()

    def request_stop(self) -> None:
        """Ask the process to stop after its current point.  Raises RunFolderError."""
        with _failures_named(self.path):
            open_to_append(self.path / "stop", new=True).close()

    # -- the end -------------------------------------------------------------------------------------------------------

    def exit(self) -> Exit | None:
        """Return the end of the process that used the last permission; None if it left none.  Raises RecordError."""
        path = self.path / "exit"
        try:
            end = _adapter(Exit).validate_json(read_regular(path, _MAX_BYTES))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unreadable(self.path, error) from None
        except ValidationError:
            raise RecordError(path=path, reason="it is not a valid end", hint="") from None
        return end if end.claim == self.claims - 1 else None

    def record_exit(self, end: Exit) -> None:
        """Write the end of the process, on stable storage.  Raises HostFailed."""
        path = self.path / "exit"
        try:
            replace_file(path, _adapter(Exit).dump_json(end) + b"\n")
        except OSError as error:
            reason = error.strerror or str(error)
            raise HostFailed(step="end of the run", what=path, reason=reason) from None


@contextmanager
def _failures_named(path: Path) -> Iterator[None]:
    """Convert an OSError to a RunFolderError that names the state folder."""
    try:
        yield
    except OSError as error:
        hint = "The state of the runs is in the state_folder of the agent; make it writable."
        raise RunFolderError(path=path, reason=error.strerror or str(error), hint=hint) from None


def make_private_folder(path: Path) -> None:
    """Create a folder and its parents, each on stable storage.  Raises OSError, and RunFolderError."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    private_path(path, make=True)
    for folder in missing:
        sync_folder(folder.parent)


def drive_lock(state_folder: Path, serial: str) -> int | None:
    """Lock a drive, and return the descriptor; None if another run, or another decision about one, has locked it."""
    name = f"{_UNSAFE.sub('-', serial)}-{hashlib.sha256(serial.encode()).hexdigest()[:_DIGEST_LETTERS]}"
    with _failures_named(state_folder):
        make_private_folder(state_folder / "drives")
    return lock_file(state_folder / "drives" / name)


def lock_file(path: Path) -> int | None:
    """Create a file unless it exists, and lock it; return its descriptor, None if a process has locked it."""
    with _failures_named(path.parent), open_to_append(path, new=True) as file:
        return _locked(file.fileno())


def lock_present_file(path: Path) -> int | None:
    """Lock a file that this process may only read; return its descriptor, None if a process has locked it."""
    with _failures_named(path), open_regular(path) as file:
        return _locked(file.fileno())


def _locked(descriptor: int) -> int | None:
    try:
        lock(descriptor)
    except BlockingIOError:
        return None
    return os.dup(descriptor)
