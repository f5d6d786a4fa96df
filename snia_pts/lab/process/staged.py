"""Staged programs: started ahead of time, released when wanted, and observed until their threads' work is done.

So the threads of the next program can be released while the previous one still writes its answer.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from .inherited import InheritedFiles
from .program import ChildSignalListener, Program, Tick

#: Like Program's start gate; passes the control socket on as descriptor 3, for the start gates of the threads.
_THREADED_START_GATE = 'echo >&0 && read -r word && exec "$@" 3<&0 </dev/null'
#: Shell command that each thread runs before its work: its start gate.  It fails on EOF; then the thread must not work.
THREAD_READY = "echo >&3 && read -r word <&3"
#: Shell command that each thread runs after its work.
THREAD_DONE = "echo >&3"
#: How long threads may take to become ready.
_READY_SECONDS = 60.0
#: A process whose threads have closed the control socket exits within this time.
_EXIT_SECONDS = 2.0


class StagedProgram(Program):
    """A program of several threads that is started ahead; entering its block releases the threads, once they are ready.

    Each thread must run THREAD_READY before its work, and THREAD_DONE after it.
    """

    _start_gate = _THREADED_START_GATE
    #: SIGCHLD from the shell of one thread must not interrupt another thread's wait for I/O: fio 3.33 with io_uring
    #: then reads its system call's error from a stale errno, and does not count the I/Os in flight at a job's end.
    _blocked_signals = (signal.SIGCHLD,)

    def __init__(
        self,
        argv: Sequence[str],
        *,
        threads: int,
        evidence: Path,
        child_signals: ChildSignalListener,
        inherited: InheritedFiles | None = None,
    ) -> None:
        """Start a program of ``threads`` threads."""
        super().__init__(argv, evidence=evidence, child_signals=child_signals, inherited=inherited)
        self._threads = threads
        self._released = self._done = False
        try:
            super()._start()
            if not self._ready:  # a late report of the program would be taken for that of a thread
                self._terminate()
        except BaseException:
            self.end()
            raise

    def _start(self) -> None:
        """Wait until the threads are ready, and release them; a program whose threads do not become ready is ended."""
        self._check_stopped()
        if self._stopped_since is None:  # a stop that ended before the work is harmless
            self._stopped, self._stopped_ns = False, 0
        ready = self._wait_for_threads(self._elapsed() + _READY_SECONDS)
        if not ready and not self._stopped:  # it failed, and may still be exiting; or it hangs
            if not self.timed_out:
                list(self._wait(None, self._elapsed() + _EXIT_SECONDS, None))
            self.timed_out = False
            self._terminate()
        self._started_at = datetime.now().astimezone().isoformat(timespec="milliseconds")
        self.started_ns = time.monotonic_ns()
        if ready:
            self._released = True
            with suppress(OSError):
                self._control_socket.send(b"\n" * self._threads)

    @property
    def threads_missing(self) -> bool:
        """Whether the threads were released, and not all of them reported the end of their work."""
        return self._released and not self._done

    def wait_for_io_end(self, timeout_seconds: float, tick: Tick | None = None) -> int | None:
        if self._released and self._wait_for_threads(timeout_seconds, tick):
            self._done, self._ended_ns = True, time.monotonic_ns()
        return self._ended_ns or None

    def _wait_for_threads(self, timeout_seconds: float, tick: Tick | None = None) -> bool:
        """Wait for a report from each thread; return whether all arrived."""
        remaining = self._threads
        for descriptor in self._wait(self._control_socket.fileno(), timeout_seconds, tick):
            try:
                reports = len(os.read(descriptor, remaining))
            except ConnectionResetError:
                reports = 0
            remaining -= reports
            if not remaining or not reports:  # no reports: the socket is closed
                break
        return not remaining
