"""The folder of a batch: a subfolder for the run or suite of each drive, and ``batch.json``: the drives and tests."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from io import BufferedReader
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, MinLen
from pydantic import StringConstraints, TypeAdapter, ValidationError

from ..analysis.side_by_side import SideBySide
from ..errors import HostFailed, NotResumable, RecordError, RunFolderError
from ..files import create, keep_folder_open, open_regular, open_to_append, read_regular, remove
from ..model.run_options import RunOptions
from ..record.folder import RunFolder, create_folder, require_alone, unreadable
from ..record.locks import WAIT, is_locked, lock
from ..record.suite import has_begun, running_folders
from ..units import counted

#: The file that makes a folder a batch.
NAME = "batch.json"
_MAX_BYTES = 16 * 1024 * 1024
#: How the program begins its messages.
_MESSAGE = "snia-pts: "
#: Characters that are not in the name of a subfolder.
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDrive:
    """A drive of a batch, and the options of its tests: one, or several for a ``suite``.

    ``name`` is that of its subfolder.  ``longest_seconds`` are the estimates of the tests, in the same order.
    """

    name: Annotated[str, StringConstraints(pattern=r"^[0-9]{2,}-[A-Za-z0-9._-]{1,60}$")]
    model: str
    serial: str
    suite: bool
    options: Annotated[tuple[RunOptions, ...], MinLen(1)]
    longest_seconds: tuple[float, ...]

    @property
    def target(self) -> str:
        """The target when the batch was started."""
        return self.options[0].target


@dataclass(frozen=True, slots=True, kw_only=True)
class DriveProcess:
    """The process of a drive's run: its number, and when it started."""

    pid: int
    started: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    """The content of batch.json."""

    format: Annotated[int, Ge(1)]
    side_by_side: Annotated[int, Ge(1)]
    side_by_side_reason: str = ""
    drives: Annotated[tuple[BatchDrive, ...], MinLen(1)]


@cache
def _adapter() -> TypeAdapter[_Document]:
    return TypeAdapter(_Document)


@cache
def _process_adapter() -> TypeAdapter[DriveProcess]:
    return TypeAdapter(DriveProcess)


def drive_name(number: int, identity: str) -> str:
    """Return the name of a drive's subfolder: its number in the batch, and its serial number or name."""
    return f"{number:02}-{_UNSAFE.sub('-', identity).strip('-.')[:60] or 'drive'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFolder:
    """A batch folder; at most ``side_by_side.count`` of its drives are tested at a time.

    ``NAME.process`` is locked by the process that tests the drive NAME as long as it lives; ``NAME.out`` is its output.
    ``batch.json`` is locked by the process that starts drives.
    """

    path: Path
    side_by_side: SideBySide
    drives: tuple[BatchDrive, ...]

    @classmethod
    def create(cls, path: Path, drives: Sequence[BatchDrive], side_by_side: SideBySide) -> BatchFolder:
        """Create a folder, or use an empty one.  Raises RunFolderError.

        Options that let a run destroy data or start a program are not stored.
        """
        stored = tuple(replace(drive, options=tuple(map(_stored, drive.options))) for drive in drives)
        count, reason = side_by_side.count, side_by_side.reason
        document = _Document(format=1, side_by_side=count, side_by_side_reason=reason, drives=stored)
        folder, _ = create_folder(path)
        try:
            with keep_folder_open(folder), create(folder / NAME) as file:
                try:
                    require_alone(folder, NAME)
                    file.write(_adapter().dump_json(document, indent=1) + b"\n")
                    os.fsync(file.fileno())
                except BaseException:
                    remove(folder / NAME)
                    raise
        except OSError as error:
            raise RunFolderError(path=path, reason=error.strerror or str(error)) from None
        return cls(path=folder, side_by_side=side_by_side, drives=stored)

    @classmethod
    def existing(cls, path: Path) -> BatchFolder | None:
        """Return the batch folder at ``path``; None if it is none.  Raises RecordError if it is invalid."""
        try:
            text = read_regular(path / NAME, _MAX_BYTES)
            document = _adapter().validate_python(json.loads(text), strict=False)
            if document.format != 1:
                raise ValueError(f"unknown format {document.format}")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise unreadable(path, error) from None
        except ValidationError as error:
            raise RecordError(
                path=path, reason=f"{NAME} has {counted(error.error_count(), 'invalid value')}", hint=""
            ) from None
        except (ValueError, RecursionError) as error:
            raise RecordError(path=path, reason=f"{NAME}: {error}", hint="") from None
        if len({drive.name for drive in document.drives}) != len(document.drives):
            raise RecordError(path=path, reason=f"{NAME} lists a drive twice", hint="")
        side_by_side = SideBySide(document.side_by_side, document.side_by_side_reason)
        return cls(path=path.resolve(), side_by_side=side_by_side, drives=document.drives)

    def drive(self, name: str) -> BatchDrive:
        """Return the drive of this name."""
        return next(drive for drive in self.drives if drive.name == name)

    def run_path(self, drive: BatchDrive) -> Path:
        """Return the path of a drive's run or suite, which may not exist yet."""
        return self.path / drive.name

    def output(self, drive: BatchDrive) -> Path:
        """Return the path of the output of a drive's process."""
        return self.path / f"{drive.name}.out"

    def last_message(self, drive: BatchDrive) -> str:
        """Return the last message of the program in the output of a drive's process; empty if there is none."""
        try:
            lines = read_regular(self.output(drive), _MAX_BYTES).decode("utf-8", "replace").splitlines()
        except OSError:
            return ""
        messages = [line.removeprefix(_MESSAGE) for line in lines if line.startswith(_MESSAGE)]
        return messages[-1] if messages else ""

    def _process(self, drive: BatchDrive) -> Path:
        return self.path / f"{drive.name}.process"

    @property
    def as_run_folder(self) -> RunFolder:
        """The batch folder as a run folder, for the file that requests that no further drive is started."""
        return RunFolder(path=self.path)

    def locked(self) -> BufferedReader:
        """Lock batch.json; raises NotResumable if another process starts the drives of this batch."""
        file = open_regular(self.path / NAME)
        try:
            lock(file.fileno())
        except BlockingIOError:
            file.close()
            reason = "another process starts its remaining drives"
            hint = f"{WAIT} To resume one drive, name its folder in {self.path}."
            raise NotResumable(path=self.path, reason=reason, hint=hint) from None
        return file

    @property
    def is_starting(self) -> bool:
        """Whether a process starts the remaining drives of this batch.  Raises RecordError."""
        return _is_locked(self.path / NAME)

    def process_locked(self, drive: BatchDrive) -> int | None:
        """Lock the process file of a drive and return its descriptor; None if a process tests the drive.

        The lock belongs to the descriptor, so a process that inherits it keeps the lock.
        """
        try:
            file = open_to_append(self._process(drive), new=True)
        except OSError as error:
            raise RunFolderError(path=self.path, reason=error.strerror or str(error)) from None
        with file:
            try:
                lock(file.fileno())
            except BlockingIOError:
                return None
            if self.is_alive_elsewhere(drive):
                return None
            return os.dup(file.fileno())

    def is_alive_elsewhere(self, drive: BatchDrive) -> bool:
        """Whether its run is in progress, also one that the operator resumed by itself.  Raises RecordError."""
        return bool(running_folders(self.run_path(drive)))

    def is_alive(self, drive: BatchDrive) -> bool:
        """Whether a process tests the drive.  Raises RecordError."""
        return _is_locked(self._process(drive)) or self.is_alive_elsewhere(drive)

    def process(self, drive: BatchDrive) -> DriveProcess | None:
        """Return the last process of a drive; None if none has started."""
        try:
            return _process_adapter().validate_json(read_regular(self._process(drive), _MAX_BYTES))
        except (OSError, ValidationError):
            return None

    def has_begun(self, drive: BatchDrive) -> bool:
        """Whether a test of the drive has begun: a journal has its start entry.  Raises RecordError."""
        return has_begun(self.run_path(drive))

    def journal_bytes(self, drive: BatchDrive) -> int:
        """Return the size of the journals of a drive's tests; it changes when a test begins or resumes."""
        path = self.run_path(drive)
        journals = [RunFolder(path=folder).journal for folder in (path, *path.glob("*"))]
        return sum(journal.stat().st_size for journal in journals if journal.is_file())


def record_process(descriptor: int) -> None:
    """Write this process to a process file, whose lock it has inherited."""
    process = DriveProcess(pid=os.getpid(), started=datetime.now().astimezone())
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, _process_adapter().dump_json(process) + b"\n")
    except OSError as error:
        reason = error.strerror or str(error)
        raise HostFailed(step="start of the process", what="the batch folder", reason=reason) from None


def _stored(options: RunOptions) -> RunOptions:
    """Return the options that the batch stores; the journal has the others once a test has begun."""
    kept = {name: getattr(options, name) for name in ("seed", "limits", "limits_source", "about", "member_run")}
    return replace(options.stored(), **kept)


def _is_locked(path: Path) -> bool:
    try:
        return is_locked(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unreadable(path, error) from None
