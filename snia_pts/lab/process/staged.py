"""Staged programs: started ahead of time, released when wanted, and observed until their threads' work is done.

So the threads of the next program can be released while the previous one still writes its answer.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from .inherited import InheritedFiles
from .program import CHUNK_BYTES, ChildSignalListener, Program, ReportSchedule, Tick

#: The start gate of the program.  Unlike that of Program, it passes on the control socket, as descriptor 3, for the
#: start gates of the threads.
_THREADED_START_GATE = 'echo >&0 && read -r word && exec "$@" 3<&0 </dev/null'
#: Shell command that each thread runs before its work: its start gate.  It fails on EOF; then the thread must not work.
THREAD_READY = "echo >&3 && read -r word <&3"
#: Shell command that each thread runs after its work.
THREAD_DONE = "echo >&3"
#: How long threads may take to become ready.
_READY_SECONDS = 60.0
#: The time from a thread's report to its exit.  A status request in this time makes fio 3.33 add to the thread's
#: runtime.
_GONE_NS = 100_000_000
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
    _signal_delay_seconds = 0.0

    def __init__(
        self,
        argv: Sequence[str],
        *,
        threads: int,
        evidence: Path,
        child_signals: ChildSignalListener,
        inherited: InheritedFiles | None = None,
        listen: bool = False,
    ) -> None:
        """Start a program of ``threads`` threads."""
        super().__init__(argv, evidence=evidence, child_signals=child_signals, inherited=inherited, listen=listen)
        self._threads = self._working = threads
        self._released = self._hung = False
        #: How many threads have reported that they are ready.
        self.ready_threads = 0
        self._first_done_ns = self._last_done_ns = 0
        #: Release the threads no earlier than at this time (monotonic ns).
        self.release_at_ns = 0
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
            self._was_stopped, self._stopped_ns = False, 0
        ready = self._wait_until_ready()
        if not ready and not self._was_stopped:  # it failed, and may still be exiting; or it hangs
            if not self.timed_out:
                list(self._wait(set(), self._elapsed() + _EXIT_SECONDS, None))
            self._hung, self.timed_out = self.timed_out, False
            self._terminate()
        if ready:
            time.sleep(max(0, self.release_at_ns - time.monotonic_ns()) / 1e9)
        self._released = ready
        self._send_go_ahead(self._threads if ready else 0)

    @property
    def may_restart(self) -> bool:
        """Whether the program ended by itself, with all of its threads ready, or none.

        If only some threads are ready, or if none reports before the timeout, its jobs are not those requested.
        """
        return self.ready_threads == self._threads or not (self.ready_threads or self._hung)

    @property
    def threads_missing(self) -> bool:
        """Whether the threads were released, and not all of them reported the end of their work."""
        return self._released and self._working > 0

    @property
    def thread_spread_ns(self) -> int | None:
        """The time from the first thread's report of its end to the last one's.

        None for a single thread, or if a report is missing.  Threads that work for the same time end as far apart as
        they started, plus or minus the time of their outstanding I/Os.
        """
        if self._threads == 1 or not self._released or self._working:
            return None
        return self._ended_ns - self._first_done_ns

    def iter_stdout(
        self, timeout_seconds: float, tick: Tick | None = None, *, reports: ReportSchedule | None = None
    ) -> Iterator[bytes]:
        control = self._control_socket.fileno()
        readable = {control} if self._released and self._working else set()
        if self._stdout_pipe is not None:
            readable.add(self._stdout_pipe)
        for descriptor in self._wait(readable, timeout_seconds, tick, reports):
            if descriptor != control:
                yield os.read(descriptor, CHUNK_BYTES)
            elif not self._note_ends() or not self._working:
                readable.remove(control)

    def wait_for_io_end(self, timeout_seconds: float, tick: Tick | None = None) -> int | None:
        if self._released and self._working:
            for _ in self._wait({self._control_socket.fileno()}, timeout_seconds, tick):
                if not self._note_ends() or not self._working:
                    break
        return self._ended_ns or None

    def _note_ends(self) -> int:
        """Read the reports of threads that have done their work; return their number, 0 if the socket is closed."""
        reports, now = self._read_reports(self._working), time.monotonic_ns()
        if reports:
            self._first_done_ns, self._last_done_ns = self._first_done_ns or now, now
            self._working -= reports
            self._ended_ns = 0 if self._working else now
        return reports

    def _may_report(self) -> bool:
        return self._working > 0 and time.monotonic_ns() - self._last_done_ns >= _GONE_NS

    def _wait_until_ready(self) -> bool:
        """Wait for a report from each thread; return whether all arrived."""
        for _ in self._wait({self._control_socket.fileno()}, self._elapsed() + _READY_SECONDS, None):
            reports = self._read_reports(self._threads - self.ready_threads)
            self.ready_threads += reports
            if self.ready_threads == self._threads or not reports:
                break
        return self.ready_threads == self._threads

    def _read_reports(self, expected: int) -> int:
        """Return how many reports of threads arrived, at most ``expected``; 0 if the threads have closed the socket."""
        try:
            return len(os.read(self._control_socket.fileno(), expected))
        except ConnectionResetError:
            return 0
