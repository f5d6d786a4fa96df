"""Does a part of the work in a second process, where there is a processor for it: bytes come back, and nothing else.

The second process is a copy of this one, and ends with it, however that ends.  Where it cannot be had, or brings
nothing, the work is done here: so a failure is told as if there were but one process.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from types import FrameType
from typing import NoReturn

Work = Callable[[], Sequence[bytes]]

#: What tells a process to stop is for the first one: the second ends with it.
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: What a library holds while it works, as a lock on its files, it lets go in this time when it is told to end.
_GRACE_SECONDS = 2.0


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
    """The second process, by its number and a handle that is never another's, and what it is heard by."""

    def __init__(self, number: int, handle: int, channel: socket.socket) -> None:
        self._number, self._handle, self._channel = number, handle, channel

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
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)
            if select.select([self._handle], [], [], _GRACE_SECONDS)[0]:
                break
        os.close(self._handle)
        with suppress(ChildProcessError):  # where the system clears them away by itself
            os.waitpid(self._number, 0)


def _begun(work: Work) -> _Second | None:
    """Copy this process, and let the copy do ``work``; None where the system has no room for it."""
    try:
        ours, theirs = socket.socketpair()
    except OSError:
        return None
    try:
        with warnings.catch_warnings():  # of threads that libraries keep idle, which know how to be copied
            warnings.simplefilter("ignore", DeprecationWarning)
            number = os.fork()
        if number == 0:
            ours.close()
            _bring(work, theirs)
        handle = os.pidfd_open(number)
    except OSError:  # a copy that was made ends as its channel is closed
        ours.close()
        theirs.close()
        return None
    theirs.close()
    return _Second(number, handle, ours)


def _bring(work: Work, channel: socket.socket) -> NoReturn:
    """Do ``work`` as the second process, send what it makes, and end without a word: what fails is done again there.

    What its libraries leave to the end of a process is done before it sends: then it may be ended at any moment.
    """
    atexit._clear()  # that of the first process
    try:
        try:
            for each in _STOPS:
                signal.signal(each, _leave if each == signal.SIGTERM else signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
            threading.Thread(target=_end_with, args=(channel,), daemon=True).start()
            made = work()
        finally:
            atexit._run_exitfuncs()
        with channel.makefile("wb") as told:
            told.write(b"%b\n" % json.dumps([len(each) for each in made]).encode())
            told.writelines(made)
    finally:
        os._exit(0)


def _end_with(channel: socket.socket) -> None:
    """End this process as soon as nobody is left at the other end, whatever it does."""
    with suppress(OSError):
        channel.recv(1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE_SECONDS)
    os._exit(0)


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit
