"""Where a run keeps its files."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import HostFailed, RecordError, RunFolderError
from ..files import open_regular, pasted
from ..units import MIB, capacity

#: As long as an entry may be.
_LONGEST_LINE = 64 * 1024 * 1024
#: What the files of one outcome may take, and those of the end.
_ROOM_BYTES = 16 * MIB


def require_empty(path: Path) -> None:
    """Raise RunFolderError for a folder that holds anything, and for what is none; one to be made is empty."""
    try:
        full = path.exists() and any(path.iterdir())
        if not path.exists():
            _require_place(next(each for each in path.absolute().parents if each.exists()))
    except OSError as error:
        raise RunFolderError(path=path, reason=error.strerror or str(error)) from None
    if full:
        raise RunFolderError(path=path, reason="it is not empty, and no run overwrites another")


def _require_place(folder: Path) -> None:
    """Raise OSError where no folder can be made."""
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """The places in a run folder; ``made`` tells that it was not there before."""

    path: Path
    made: bool = False

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
    def stop_asked(self) -> bool:
        """Whether somebody wants the run to stop after its current point; by a link as well, which nobody follows."""
        try:
            return not stat.S_ISDIR(self._stop.lstat().st_mode)
        except OSError:
            return False

    @property
    def _stop(self) -> Path:
        return self.path / "stop"

    def ask_to_stop(self) -> None:
        """Leave word that the run is to stop after its current point."""
        with suppress(FileExistsError):
            os.close(os.open(self._stop, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))

    def forget_stop(self) -> None:
        """Take back the word of ``ask_to_stop``."""
        if self.stop_asked:
            self._stop.unlink(missing_ok=True)

    def require_room(self, step: str) -> None:
        """Raise HostFailed, in ``step``, when the disk has no room for what the next outcome leaves."""
        free = shutil.disk_usage(self.path).free
        if free < _ROOM_BYTES:
            raise HostFailed(
                step=step, what=self.path, reason=f"the disk of the run folder is full ({capacity(free)} are left)",
                hint=f"Make room for {capacity(_ROOM_BYTES)} or more. All that was measured is safe.",
            )  # fmt: skip

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """Make a new run folder; an existing one is taken only if it is empty.  Raises RunFolderError."""
        made = not path.exists()
        try:
            require_empty(path)
            path.mkdir(parents=True, exist_ok=True)
            folder = cls(path=path.resolve(), made=made)
            folder.evidence.mkdir()
        except RunFolderError:
            raise
        except OSError as error:
            raise RunFolderError(path=path, reason=error.strerror or str(error)) from None
        return folder

    @property
    def begun(self) -> bool:
        """Whether the journal has a whole entry: a crash in the instant of the beginning leaves none.

        Raises OSError where there is one that cannot be read: it may hold all that a run measured.
        """
        try:
            with open_regular(self.journal) as file:
                return file.readline(_LONGEST_LINE).endswith(b"\n")
        except (FileNotFoundError, NotADirectoryError):
            return False

    def discard(self) -> None:
        """Remove the folder of a run that never began: what was looked up beforehand, and nothing else."""
        with suppress(OSError):  # what holds anything else stays
            if not self.begun:
                self.journal.unlink(missing_ok=True)
            for looked_up in self.evidence.glob("00000-*"):
                looked_up.unlink()
            self.evidence.rmdir()
            if self.made:
                self.path.rmdir()

    @classmethod
    def existing(cls, path: Path) -> RunFolder:
        """Return the run folder at ``path``; raises RecordError when there is none."""
        folder = cls(path=path.resolve())
        try:
            if folder.journal.is_file():
                return folder
            inside = path.is_dir()
        except OSError as error:
            raise unreadable(path, error) from None
        if inside:
            hint = f"{RecordError.hint} snia-pts status {pasted(path)} tells of those in a folder of runs."
            raise RecordError(path=path, reason="there is no journal.jsonl in it", hint=hint)
        raise RecordError(path=path, reason="it is no folder" if path.exists() else "there is no such folder")


def unreadable(path: Path, error: OSError) -> RecordError:
    """Return what tells why a stored run may not, or cannot, be read, and what helps."""
    hint = "Ask as the user whose run it is, or as root." if isinstance(error, PermissionError) else None
    return RecordError(path=path, reason=error.strerror or str(error), hint=hint)


def default_name(test: str, subject: str, started: str) -> str:
    """Return a run folder's name: the test, the drive's model or the file, the time of the start."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", subject).strip("-.") or "target"
    stamp = re.sub(r"[^0-9T]", "", started[:19])
    return f"{test}-{safe[:60]}-{stamp}"
