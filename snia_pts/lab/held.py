"""Programs whose threads stand ready: begun ahead, let go at a word, heard when their work is done.

So the next one's threads are let go while the one before still puts its answer together.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from .process import Ears, Program, Tick

#: What Program does before it begins, and the program's threads can do so too.
_GATE_OF_THREADS = 'echo >&0 && read -r word && exec "$@" 3<&0 </dev/null'
#: What a thread has a shell do before its work, where it goes on only if that succeeds: without the word it does not.
THREAD_READY = "echo >&3 && read -r word <&3"
#: And after its work.
THREAD_DONE = "echo >&3"
_READY_SECONDS = 60.0
#: Whose threads have closed their way to us is gone in less.
_FALLING_SECONDS = 2.0


class HeldProgram(Program):
    """A program of several threads that is begun ahead; its block is entered when they are ready, and lets them go.

    Each of them has THREAD_READY run before its work, and THREAD_DONE after it.
    """

    _gate = _GATE_OF_THREADS
    #: The end of a thread's shell must not interrupt another thread's wait for I/O: fio 3.33 with io_uring, its system
    #: call's error read from a stale errno, would leave what is in flight at the end of a job uncounted.
    _deaf_to = (signal.SIGCHLD,)

    def __init__(self, argv: Sequence[str], *, threads: int, evidence: Path, ears: Ears) -> None:
        """Begin a program of so many ``threads``."""
        super().__init__(argv, evidence=evidence, ears=ears)
        self._threads = threads
        self._let_go = self._done = False
        try:
            super()._begin()
            if not self._stood:  # its word, coming late, would be taken for a thread's
                self._end()
        except BaseException:
            self.end()
            raise

    def _begin(self) -> None:
        """Wait until the threads are ready, and let them go; a program where they do not get so far is gone then."""
        self._look()
        if self._stopped_since is None:  # a stop that is over has done no harm yet
            self._stopped, self._stopped_ns = False, 0
        ready = self._all_said(self._elapsed() + _READY_SECONDS)
        if not ready and not self._stopped:  # it fell, and may not be quite gone; or it stands still
            if not self.timed_out:
                list(self._wait(None, self._elapsed() + _FALLING_SECONDS, None))
            self.timed_out = False
            self._end()
        self._wall = datetime.now().astimezone().isoformat(timespec="milliseconds")
        self.began_ns = time.monotonic_ns()
        if ready:
            self._let_go = True
            with suppress(OSError):
                self._word.send(b"\n" * self._threads)

    @property
    def fell_short(self) -> bool:
        """Whether threads were let go, and not all of them said that their work is done."""
        return self._let_go and not self._done

    def work(self, timeout_seconds: float, tick: Tick | None = None) -> int | None:
        if self._let_go and self._all_said(timeout_seconds, tick):
            self._done, self._ended_ns = True, time.monotonic_ns()
        return self._ended_ns or None

    def _all_said(self, timeout_seconds: float, tick: Tick | None = None) -> bool:
        """Wait for a word from each thread; tell whether all came."""
        left = self._threads
        for word in self._wait(self._word.fileno(), timeout_seconds, tick):
            try:
                said = len(os.read(word, left))
            except ConnectionResetError:
                said = 0
            left -= said
            if not left or not said:  # nothing: the way is closed
                break
        return not left
