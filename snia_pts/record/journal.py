"""The journal of a run: what was asked and what came of it, in order, each entry durable before the run goes on.

One JSON object a line: ``{"crc32": "xxxxxxxx", "entry": {...}}``.  The checksum runs over the entry's own bytes and
continues the line before, so that a changed, lost or reordered line is noticed.  A last line without its end is what a
crash leaves; it is dropped, and said.  Entries are checked against the types of the suite when they are read.

A run that was stopped and resumed has an entry that tells how many of its steps still stand; those after them were
asked for once more, and what they brought the first time is kept here, but is no part of the result.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import HostFailed, NotResumable
from .entries import Entry, adapter, line
from .folder import unreadable

if TYPE_CHECKING:
    from typing import Self

_KEPT = "What was journaled before is safe."
WAIT = "Wait for its end, or stop it."
_TRIES, _PATIENCE_SECONDS = 5, 0.1
#: What can be done about a journal that cannot be written.
_REMEDIES = {
    errno.ENOENT: "The journal is gone, and nothing of this run is kept from here on.",
    errno.ENOSPC: f"Make room on the disk of the run folder. {_KEPT}",
}


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back Ctrl-C, SIGTERM and SIGHUP until something is whole; they come after it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Journal:
    """Appends entries; each is on stable storage when ``append`` returns, unless the journal is not ``durable``."""

    def __init__(self, path: Path, *, durable: bool = True, existing: bool = False) -> None:
        """Begin a journal; or hold an ``existing`` one, to which nothing is added before ``go_on``.

        Raises NotResumable when another process holds it.
        """
        self._durable = durable
        flags = os.O_RDWR if existing else os.O_WRONLY | os.O_CREAT | os.O_EXCL
        self._descriptor = os.open(path, flags | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            lock(self._descriptor)  # tells readers that the run goes on
        except BlockingIOError:
            os.close(self._descriptor)
            raise NotResumable(path=path.parent, reason="it still goes on", hint=WAIT) from None
        self._checksum = self._length = 0
        self._goes_on = not existing
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(folder)
        os.close(folder)

    def go_on(self, length: int, checksum: int) -> None:
        """Go on after so many bytes of whole lines; what a crash left of a line after them is cut off."""
        self._length, self._checksum, self._goes_on = length, checksum, True
        os.ftruncate(self._descriptor, self._length)

    def append(self, entry: Entry) -> None:
        """Write an entry and wait until it is durable; raises HostFailed when the disk does not take it."""
        if not self._goes_on:
            raise RuntimeError("it is not known after what an existing journal goes on")
        payload = adapter().dump_json(entry)
        checksum = zlib.crc32(payload, self._checksum)
        with uninterrupted():
            self._write(entry.kind, line(checksum, payload))
            self._checksum = checksum

    def _write(self, kind: str, text: bytes) -> None:
        try:
            if os.fstat(self._descriptor).st_nlink == 0:
                raise OSError(errno.ENOENT, "the journal was removed while the run wrote it")
            written = os.write(self._descriptor, text)
            if written != len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self._durable:
                os.fdatasync(self._descriptor)
        except OSError as error:
            os.ftruncate(self._descriptor, self._length)
            raise HostFailed(
                step="journal", what=kind, reason=error.strerror or str(error),
                hint=_REMEDIES.get(error.errno or 0, f"Check the disk of the run folder. {_KEPT}"),
            ) from None  # fmt: skip
        self._length += len(text)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def lock(descriptor: int) -> None:
    """Lock a file by which others see that a run goes on; one who only looks whether it is locked holds it shortly."""
    for tries_left in reversed(range(_TRIES)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not tries_left:
                raise
            time.sleep(_PATIENCE_SECONDS / _TRIES)
        else:
            return


def is_written(path: Path) -> bool:
    """Whether a run still writes this journal, or has another file locked that tells so; raises RecordError."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        raise unreadable(path, error) from None
    return False
