"""The files that record what a run changes outside the suite, so that it can be restored even if the run is killed.

A run writes the same file twice: to the state directory (``state_dir.py``), and as ``settings.json`` to the run folder.
Both are locked while the run lasts, so an unlocked one was left by a killed run.
Anybody may have written the file in a run folder, so root follows it only if the state directory has an identical one.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from ...errors import HostFailed, RunFolderError
from ...files import keep_folder_open, remove, replace_file
from .state_dir import restore_file_name

RESTORE_FILE = "settings.json"
MANUAL_HINT = "Restore the settings by hand (see docs/host.rst), then remove that file."
_MAX_BYTES = 1 << 20
_NOT_A_RESTORE_FILE = "it is not a restore file of this suite"
_NO_COPY = "/var/lib/snia-pts has no copy of it, so root cannot know that a run on this host wrote it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRecord:
    """A change as stored in a restore file."""

    kind: str
    place: str
    drive: str
    before: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFile:
    """The contents of a restore file: run folder and process, the host's boot ID, and the changes in order."""

    format: Literal[1] = 1
    run: str
    pid: int = 0
    boot: str
    changes: tuple[ChangeRecord, ...]


#: The restore files of active runs, and their records, by kind, place and drive of the setting that the run owns.
Owners = dict[tuple[str, str, str], tuple[RestoreFile, ChangeRecord]]


@cache
def _type_adapter() -> TypeAdapter[RestoreFile]:
    return TypeAdapter(RestoreFile)


def restore_files(state_dir: Path | None) -> list[Path]:
    """Return the paths of the restore files in the state directory."""
    return sorted(state_dir.glob("*.json")) if state_dir else []


@contextmanager
def open_restore_file(path: Path) -> Iterator[int]:
    """Open a restore file; raises OSError, also for a symlink."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_active(descriptor: int) -> bool:
    """Return whether the run of a restore file is active; if not, lock the file until it is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def content(descriptor: int) -> bytes:
    """Return the content of a restore file; raises ValueError if another user may have written it."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
        raise ValueError(_NOT_A_RESTORE_FILE)
    if status.st_uid not in (0, os.geteuid()):
        raise ValueError("another user wrote it")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError("other users may change it")
    return os.pread(descriptor, _MAX_BYTES, 0)


def _content_of(path: Path) -> bytes:
    with open_restore_file(path) as descriptor:
        return content(descriptor)


def trusted_contents(state_dir: Path | None) -> Collection[bytes] | None:
    """Return the contents of the restore files in the state directory; None for other users than root.

    Root follows a restore file in a run folder only if it has one of these contents.
    """
    if os.geteuid() != 0:
        return None
    contents = set()
    for path in restore_files(state_dir):
        with suppress(OSError, ValueError):
            contents.add(_content_of(path))
    return contents


def read_restore_file(descriptor: int, trusted: Collection[bytes] | None = None) -> RestoreFile:
    """Return the contents of a restore file; raises ValueError, with the reason, if it must not be followed.

    Unless ``trusted`` is None, the file must have one of these contents.
    """
    data = content(descriptor)
    if trusted is not None and data not in trusted:
        raise ValueError(_NO_COPY)
    try:
        return _type_adapter().validate_json(data, strict=True)
    except ValidationError:
        raise ValueError(_NOT_A_RESTORE_FILE) from None


def find_owners(state_dir: Path | None) -> Owners:
    """Return the owners of the settings that active runs have changed."""
    records: Owners = {}
    for path in restore_files(state_dir):
        with suppress(OSError, ValueError), open_restore_file(path) as descriptor:
            if is_active(descriptor):
                contents = read_restore_file(descriptor)
                records |= {(item.kind, item.place, item.drive): (contents, item) for item in contents.changes}
    return records


def write_restore_files(folder: Path, state_dir: Path | None, contents: RestoreFile, stack: ExitStack) -> None:
    """Write a run's restore files and lock them until ``stack`` closes.

    Raises HostFailed if one exists already, or cannot be written; then it leaves no new one.
    """
    copies = [state_dir / restore_file_name(folder)] if state_dir else []
    paths = [*copies, folder / RESTORE_FILE]
    existed = any(map(os.path.lexists, paths))
    try:
        for path in paths:
            _write(path, contents, stack)
    except HostFailed:
        if not existed:
            remove_restore_files(folder, state_dir)
        raise


def _write(path: Path, contents: RestoreFile, stack: ExitStack) -> None:
    """Write a restore file and lock it until ``stack`` closes; raises HostFailed if one exists already."""
    if os.path.lexists(path):
        reason = "it has the changes of another run, which are not restored yet"
        raise HostFailed(step="settings", what=path, reason=reason, hint=MANUAL_HINT)
    try:
        replace_file(path, _type_adapter().dump_json(contents, indent=1))
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)  # NFS locks only files open for writing
        stack.callback(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except (OSError, RunFolderError) as error:
        detail = getattr(error, "strerror", None) or error
        reason = f"cannot record the original settings ({detail}); nothing was changed"
        hint = "Free some disk space, or choose another folder."
        raise HostFailed(step="settings", what=path, reason=reason, hint=hint) from None


def remove_restore_files(folder: Path, state_dir: Path | None, only: bytes | None = None) -> None:
    """Remove a run's two restore files; unless ``only`` is None, the run folder's must have this content.

    The run folder's is removed first: if this process is killed in between, the other one remains, which root trusts.
    """
    with suppress(OSError, ValueError, RunFolderError), keep_folder_open(folder):
        path = folder / RESTORE_FILE
        if only is None or _content_of(path) == only:
            remove(path)
    if state_dir is not None:
        (state_dir / restore_file_name(folder)).unlink(missing_ok=True)
