"""The run folder and its files."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import HostFailed, RecordError, RunFolderError
from ..files import (
    NOT_EMPTY,
    create,
    is_unmoved,
    keep_folder_open,
    make_empty_folder,
    make_folder,
    open_regular,
    open_to_append,
    present_path,
    remove,
    remove_folder,
    shell_quoted,
)
from ..text import one_line
from ..trusted_paths import private_path, require_private
from ..units import MIB, capacity
from .locks import WAIT, is_locked

#: The longest line of a journal, in bytes.
MAX_LINE_BYTES = 64 * 1024 * 1024
#: Upper bound of the space for the files of one outcome and of the end.
_RESERVE_BYTES = 16 * MIB
#: The longest name of a person, in bytes.
_MAX_NAME_BYTES = 400
#: Names of the evidence files that exist before the start entry; a purge follows it.
_PREPARATION = re.compile("00000-(?!purge)")


def require_empty(path: Path) -> None:
    """Raise RunFolderError unless ``path`` is an empty folder or can be created."""
    try:
        is_full = path.exists() and any(path.iterdir())
        parent = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
        if parent != path.absolute():
            _require_writable(parent)
    except OSError as error:
        raise RunFolderError(path=path, reason=error.strerror or str(error)) from None
    if is_full:
        raise RunFolderError(path=path, reason=NOT_EMPTY)
    require_private(path)


def create_folder(path: Path) -> tuple[Path, bool]:
    """Create a folder, or use an empty one; return its path and whether it is new.  Raises RunFolderError."""
    try:
        require_empty(path)
        if path.is_symlink() and not path.exists():
            raise FileExistsError(errno.EEXIST, "it is a dangling symlink")
        return make_empty_folder(path)
    except OSError as error:
        raise RunFolderError(path=path, reason=error.strerror or str(error)) from None


def require_alone(path: Path, name: str) -> None:
    """Raise RunFolderError if a folder has other files than ``name``, which this run just created in it.

    Another run, or ``all``, that started at the same time has found the folder empty, too.
    """
    if any(child.name != name for child in path.iterdir()):
        raise RunFolderError(path=path, reason=NOT_EMPTY)


def writable_path(path: Path) -> Path:
    """Return the real path of a stored run, to which this process will write.

    Raises RecordError if there is none, and RunFolderError if other users may change or redirect it.
    """
    try:
        real = private_path(path)
        require_private(real)
    except (FileNotFoundError, NotADirectoryError):
        raise RecordError(path=path, reason=_missing(path)) from None
    except OSError as error:
        raise unreadable(path, error) from None
    return real


def _require_writable(folder: Path) -> None:
    """Raise OSError if no folder can be created in ``folder``."""
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """The paths of a run folder; ``created``: this run created the folder."""

    path: Path
    created: bool = False

    @property
    def present(self) -> RunFolder:
        """The run folder at its current path, which is another one if it was moved while it is kept open."""
        return replace(self, path=present_path(self.path))

    @property
    def journal(self) -> Path:
        return self.path / "journal.jsonl"

    @property
    def evidence(self) -> Path:
        return self.path / "evidence"

    @property
    def result(self) -> Path:
        return self.path / "result.xml"

    @property
    def log(self) -> Path:
        return self.path / "log.txt"

    @property
    def stop_requested(self) -> bool:
        """Whether a stop after the current point was requested: the file or symlink ``stop`` exists."""
        try:
            return not stat.S_ISDIR(self._stop.lstat().st_mode)
        except OSError:
            return False

    @property
    def _stop(self) -> Path:
        return self.path / "stop"

    @property
    def stop_requester(self) -> str:
        """The person who requested the stop; empty if the request has no name, or cannot be read."""
        try:
            with open_to_append(self._stop) as file:  # follows no symlink
                return one_line(file.read(_MAX_NAME_BYTES).decode("utf-8", "replace"))
        except (OSError, RunFolderError):
            return ""

    def request_stop(self, by: str = "") -> None:
        """Request a stop after the current point, as the person ``by``.

        Raises RunFolderError if ``stop`` is a folder.
        """
        try:
            with create(self._stop) as file, suppress(OSError):  # on a full disk the request has no name
                file.write(by.encode())
        except RunFolderError:
            if not self.stop_requested:
                raise
        except OSError as error:
            reason = f"the stop cannot be requested: {error.strerror or error}"
            raise RunFolderError(path=self.path, reason=reason, hint="Run this as the owner of the run.") from None

    def withdraw_stop(self) -> None:
        """Withdraw the request to stop."""
        if self.stop_requested:
            remove(self._stop)

    def require_room(self, step: str) -> None:
        """Raise HostFailed, naming ``step``, if the disk has no room for the files of the next outcome."""
        free = shutil.disk_usage(self.present.path).free
        if free < _RESERVE_BYTES:
            raise HostFailed(
                step=step,
                what=self.path,
                reason=f"the disk of the run folder is full ({capacity(free)} left)",
                hint=f"Free {capacity(_RESERVE_BYTES)} or more. All measurements are safe.",
            )

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """Create a run folder, or use an empty one.  Raises RunFolderError."""
        resolved, created = create_folder(path)
        folder = cls(path=resolved, created=created)
        try:
            with keep_folder_open(resolved), ExitStack() as undo:
                make_folder(folder.evidence, new=True)
                undo.callback(remove_folder, folder.evidence)
                require_alone(resolved, folder.evidence.name)
                undo.pop_all()
        except FileExistsError:  # another run that started at the same time was faster
            raise RunFolderError(path=path, reason=NOT_EMPTY) from None
        except OSError as error:
            raise RunFolderError(path=path, reason=error.strerror or str(error)) from None
        return folder

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Keep the folder and its evidence folder open, so that all files go there even if their paths change.

        Raises RunFolderError if one is a symlink, or if users other than root and the user of sudo can change it.
        """
        with (
            keep_folder_open(self.path),
            keep_folder_open(self.evidence) if os.path.lexists(self.evidence) else nullcontext(),
        ):
            yield

    @property
    def has_started(self) -> bool:
        """Whether the journal has a complete entry; inside ``opened``, even if the folder was moved.

        A crash or a stop at the very start leaves none.  Raises OSError if the journal cannot be read: it may contain
        a run.
        """
        try:
            with open_regular(self.present.journal) as file:
                return file.readline(MAX_LINE_BYTES).endswith(b"\n")
        except (FileNotFoundError, NotADirectoryError):
            return False

    @property
    def has_evidence(self) -> bool:
        """Whether evidence/ has any file."""
        return self.evidence.is_dir() and any(self.evidence.iterdir())

    @property
    def has_results(self) -> bool:
        """Whether the folder has a result.xml, or evidence of more than the preparation of a run.

        Raises OSError if a folder cannot be listed.
        """
        if os.path.lexists(self.result):
            return True
        return self.evidence.is_dir() and not all(_PREPARATION.match(path.name) for path in self.evidence.iterdir())

    @property
    def is_unstarted(self) -> bool:
        """Whether its run has not reached its first step: it has a log, but neither a journal nor results."""
        return self.log.is_file() and not self.journal.exists() and not self.has_results

    @property
    def is_running(self) -> bool:
        """Whether a run is in progress: its process has locked the journal; before the first entry, the log.

        Raises RecordError if the locked file cannot be read.
        """
        try:
            lock_file = self.journal if self.has_started else self.log
            return os.path.lexists(lock_file) and is_locked(lock_file)
        except OSError as error:
            raise unreadable(self.path, error) from None

    @property
    def is_starting(self) -> bool:
        """Whether the process of a run prepares its first step, or waits for a confirmation.  Raises RecordError."""
        return self.is_unstarted and self.is_running

    def discard(self) -> None:
        """Remove the folder of a run that never started, if it has nothing but a log and evidence of the preparation.

        If there are results, all files stay: a journal without its first line may have been damaged.  They also stay if
        the folder was moved, because its path may now lead to another one.
        """
        removable = {self.journal, self.log, self._stop, self.evidence}
        with suppress(OSError, RunFolderError):  # a folder with other files remains
            with keep_folder_open(self.path):
                if not is_unmoved(self.path):
                    return
                if self.has_started or self.has_results or not removable.issuperset(self.path.iterdir()):
                    return
                remove(self.journal)
                remove(self.log)
                self.withdraw_stop()
                with keep_folder_open(self.evidence):
                    for path in self.evidence.iterdir():
                        remove(path)
                remove_folder(self.evidence)
            if self.created:
                remove_folder(self.path)

    @classmethod
    def existing(cls, path: Path) -> RunFolder:
        """Return the run folder at ``path``; raises RecordError if there is none."""
        folder = cls(path=path.resolve())
        try:
            is_unstarted = folder.is_unstarted  # before the journal, which may be created meanwhile
            if folder.journal.is_file():
                return folder
            is_folder = path.is_dir()
        except OSError as error:
            raise unreadable(path, error) from None
        if is_unstarted and folder.is_running:
            raise RecordError(path=path, reason="the first step of its run has not started", hint=WAIT)
        if is_unstarted:
            reason = "its run was killed before the first step, and has no journal.jsonl"
            raise RecordError(path=path, reason=reason, hint="Remove the folder, and start the run again.")
        if is_folder:
            hint = f"{RecordError.hint} snia-pts status {shell_quoted(path)} lists the runs in a folder."
            raise RecordError(path=path, reason="it has no journal.jsonl", hint=hint)
        raise RecordError(path=path, reason=_missing(path))


def _missing(path: Path) -> str:
    return "it is not a folder" if path.exists() else "no such folder"


def unreadable(path: Path, error: OSError) -> RecordError:
    """Return a RecordError for a stored run that cannot be read."""
    denied = isinstance(error, PermissionError)
    hint = "Run this as the owner of the run, or as root." if denied else RecordError.hint
    return RecordError(path=path, reason=error.strerror or str(error), hint=hint)


def without_start_entry(journal: Path) -> RecordError:
    """Return the RecordError for a journal whose first entry is not a start entry."""
    hint = "If the file is empty, the run never started: remove its folder, and start the run again."
    return RecordError(path=journal, reason="the first entry is not a start entry", hint=hint)


def default_name(test: str, subject: str, started: str) -> str:
    """Return a run folder's name: the test, the drive's model or the file name, the start time."""
    stamp = re.sub(r"[^0-9T]", "", started[:19])
    return f"{test}-{name_part(subject) or 'target'}-{stamp}"


def name_part(subject: str) -> str:
    """Return a text as it is written in the name of a run folder; empty if it has no letter or digit."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", subject).strip("-.")[:60]
