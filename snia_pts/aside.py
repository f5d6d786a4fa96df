"""Does a part of the work in a second process, where there is a processor for it: bytes come back, and nothing else.

The second process is a copy of this one.  It starts no program and ends with this one, however that ends.  Where it
cannot be had, or brings nothing, the work is done here: so a failure is told as if there were but one process.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import NoReturn

Work = Callable[[], Sequence[bytes]]

#: What tells a process to stop is for the first one: the second ends with it.
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def aside(work: Work) -> Iterator[Work]:
    """Begin ``work``; give what waits for its end and returns what it made, the same each time it is asked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    second: _Second | None = None
    try:
        second = _begun(work) if _has_room() else None
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield cache(lambda: (second.brought() if second else ()) or work())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if second:
            second.end()


def _has_room() -> bool:
    """Tell whether a second process would have a processor, and this one can be copied: other threads would be lost."""
    return len(os.sched_getaffinity(0)) > 1 and threading.active_count() == 1


class _Second:
    """The second process, by its number, and what it is heard by."""

    def __init__(self, number: int, channel: socket.socket) -> None:
        self._number, self._channel = number, channel

    def brought(self) -> Sequence[bytes]:
        """Wait for all that it has to bring, and return it; nothing where it ended before its time."""
        with self._channel.makefile("rb") as heard:
            told = heard.readline()
            sizes = json.loads(told) if told.endswith(b"\n") else []
            made = [heard.read(size) for size in sizes]
        return made if [len(each) for each in made] == sizes else ()

    def end(self) -> None:
        """End it, and leave nothing of it behind."""
        self._channel.close()
        with suppress(ProcessLookupError, ChildProcessError):  # where the system clears them away by itself
            os.kill(self._number, signal.SIGKILL)
            os.waitpid(self._number, 0)


def _begun(work: Work) -> _Second | None:
    """Copy this process, and let the copy do ``work``; None where the system has no room for it."""
    ours, theirs = socket.socketpair()
    try:
        with warnings.catch_warnings():  # of threads that libraries keep idle, which know how to be copied
            warnings.simplefilter("ignore", DeprecationWarning)
            number = os.fork()
    except OSError:
        ours.close()
        theirs.close()
        return None
    if number == 0:
        ours.close()
        _bring(work, theirs)
    theirs.close()
    return _Second(number, ours)


def _bring(work: Work, channel: socket.socket) -> NoReturn:
    """Do ``work`` as the second process, send what it makes, and end without a word: what fails is done again there."""
    try:
        for each in _STOPS:
            signal.signal(each, signal.SIG_IGN)
        threading.Thread(target=_end_with, args=(channel,), daemon=True).start()
        made = work()
        with channel.makefile("wb") as told:
            told.write(b"%b\n" % json.dumps([len(each) for each in made]).encode())
            told.writelines(made)
    finally:
        os._exit(0)


def _end_with(channel: socket.socket) -> None:
    """End this process as soon as nobody is left at the other end, whatever it does."""
    with suppress(OSError):
        channel.recv(1)
    os._exit(0)
