"""Locks of files that show other processes that a run is in progress; the kernel removes them when its process ends."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..files import open_regular

#: The hint for a locked file.
WAIT = "Wait until it ends, or stop it."
_ATTEMPTS, _SECONDS = 5, 0.1


def lock(descriptor: int) -> None:
    """Lock a file; raises BlockingIOError if another process has locked it.

    Retries a few times, because ``is_locked`` of another process locks the file for an instant.
    """
    for attempts_left in reversed(range(_ATTEMPTS)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not attempts_left:
                raise
            time.sleep(_SECONDS / _ATTEMPTS)
        else:
            return


def is_locked(path: Path) -> bool:
    """Return whether a process has locked a file; raises OSError if it cannot be read."""
    with unlocked(path) as is_free:
        return not is_free


@contextmanager
def unlocked(path: Path) -> Iterator[bool]:
    """Yield whether no process has locked a file; then none can lock it inside the block.  Raises OSError.

    The block must be short, because ``lock`` waits only for an instant.
    """
    with open_regular(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
