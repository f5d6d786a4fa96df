"""The journal of a run: its steps and outcomes in order, each entry on stable storage before the run continues.

One JSON object a line: ``{"crc32": "xxxxxxxx", "entry": {...}}``.  The checksum covers the bytes of the entry and
continues that of the previous line, so that a changed, missing or moved line is detected.  A crash leaves an incomplete
last line; the reader ignores it and reports it.

The resume entry of a stopped run states how many of its steps stay valid; the steps after them are run again.
Their first outcomes stay in the journal, but are not part of the result.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import threading
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import HostFailed, NotResumable, RecordError
from ..files import create, directory, open_regular, open_to_append, sync_folder
from ..units import counted
from .entries import Entry, adapter, line
from .folder import unreadable
from .locks import WAIT, lock

if TYPE_CHECKING:
    from typing import Self

_ENTRIES_SAFE = "All earlier entries are safe."
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Hints for a failed write, by error number.
_REMEDIES = {
    errno.EBUSY: f"Find out what wrote to the journal. {_ENTRIES_SAFE}",
    errno.EPERM: f"Remove the attribute append-only of the journal (chattr -a). {_ENTRIES_SAFE}",
    errno.ENOENT: "Put the journal back; without it, no further entry can be stored.",
    errno.ESTALE: "Put the original journal back; this run writes to it, not to the file that has its name now.",
    errno.ENODATA: "Restore the journal from a backup; fio's answers are still in evidence/.",
    errno.ENOSPC: f"Make room on the disk of the run folder. {_ENTRIES_SAFE}",
    errno.EDQUOT: f"Raise the disk quota. {_ENTRIES_SAFE}",
    errno.EFBIG: f"Raise the limit of file sizes (ulimit -f). {_ENTRIES_SAFE}",
}


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Keep the handlers of SIGINT, SIGTERM and SIGHUP from interrupting the block.

    If the block is in the main thread, they run after it; if it is in another thread, at once, in the main thread.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    try:
        with _deferred() if threading.current_thread() is threading.main_thread() else nullcontext():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _deferred() -> Iterator[None]:
    """Defer the signals that other threads of this process receive inside the block."""
    received = list[int]()
    with ExitStack() as stack:
        stack.callback(lambda: list(map(signal.raise_signal, received)))
        for number in _STOP_SIGNALS:
            handler = signal.getsignal(number)
            if handler not in (None, signal.SIG_IGN):
                stack.callback(signal.signal, number, handler)  # even if a deferred handler raises an exception
                signal.signal(number, lambda number, _frame: received.append(number))
        yield


class Journal:
    """Appends entries; if ``durable``, each is on stable storage when ``append`` returns."""

    def __init__(self, path: Path, *, durable: bool = True, existing: bool = False) -> None:
        """Create a journal, or lock an ``existing`` one, which accepts entries only after ``continue_after``.

        Raises NotResumable if another process has locked it.
        """
        self._durable, self._path = durable, path
        self._file = open_to_append(path) if existing else create(path)
        self._descriptor = self._file.fileno()
        try:
            lock(self._descriptor)  # shows readers that the run is in progress
        except BlockingIOError:
            self.close()
            reason = "the run is still in progress, or its report is being made"
            raise NotResumable(path=path.parent, reason=reason, hint=WAIT) from None
        self._checksum = self._length = 0
        self._writable, self._has_appended = not existing, False
        sync_folder(path.parent)

    @property
    def is_empty(self) -> bool:
        """Whether the file is empty: its run has not started."""
        return not os.fstat(self._descriptor).st_size

    @property
    def has_appended(self) -> bool:
        """Whether this process has appended an entry."""
        return self._has_appended

    def continue_after(self, length: int, checksum: int) -> None:
        """Continue after ``length`` bytes of complete lines with that checksum; truncate an incomplete line.

        Raises HostFailed if it cannot be truncated: an append-only file.
        """
        self._length, self._checksum, self._writable = length, checksum, True
        if os.fstat(self._descriptor).st_size == length:
            return
        try:
            os.ftruncate(self._descriptor, length)
        except OSError as error:
            raise _failed("its incomplete last line", error) from None

    def append(self, entry: Entry) -> None:
        """Write an entry and wait until it is on stable storage.

        Raises HostFailed if it cannot be written, or if another process removed, replaced, cut or lengthened the file.
        """
        if not self._writable:
            raise RuntimeError("an existing journal needs continue_after first")
        payload = adapter().dump_json(entry)
        checksum = zlib.crc32(payload, self._checksum)
        with uninterrupted():
            self._write(entry.kind, line(checksum, payload))
            self._checksum = checksum

    def _write(self, kind: str, text: bytes) -> None:
        try:
            self._require_unchanged()
            self._file.write(text)
            if self._durable:
                os.fdatasync(self._descriptor)
        except OSError as error:
            with suppress(OSError):  # a reader ignores an incomplete last line
                if os.fstat(self._descriptor).st_size > self._length:
                    os.ftruncate(self._descriptor, self._length)
            raise _failed(kind, error) from None
        self._length += len(text)
        self._has_appended = True

    def _require_unchanged(self) -> None:
        """Raise OSError if another process removed or replaced the journal, or changed its length.

        The rest of the run would be lost: written to a file that nobody reads, or after a damaged line.
        """
        status = os.fstat(self._descriptor)
        try:
            with directory(self._path.parent) as folder:
                named = os.stat(self._path.name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            raise OSError(errno.ENOENT, "the journal was renamed or removed during the run") from None
        if not os.path.samestat(status, named):
            raise OSError(errno.ESTALE, "another process replaced the journal during the run")
        added = status.st_size - self._length
        if added < 0:
            raise OSError(errno.ENODATA, f"another process cut {counted(-added, 'byte')} from the journal")
        if added:
            reason = f"another process added {counted(added, 'byte')} to the journal; the suite removes them"
            raise OSError(errno.EBUSY, reason)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _failed(what: str, error: OSError) -> HostFailed:
    hint = _REMEDIES.get(error.errno or 0, f"Check the disk of the run folder. {_ENTRIES_SAFE}")
    return HostFailed(step="journal", what=what, reason=error.strerror or str(error), hint=hint)


@contextmanager
def prevent_resume(folder: Path, journal: Path) -> Iterator[None]:
    """Lock the journal of a stored run against a resume inside the block; raises RecordError if it is in progress."""
    try:
        file = open_regular(journal)
    except OSError as error:
        raise unreadable(journal, error) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RecordError(path=folder, reason="the run is still in progress", hint=WAIT) from None
        except OSError as error:
            raise unreadable(journal, error) from None
        yield
