"""Starts programs that cannot outlive the suite.

Programs are started from argument lists, never through shell strings, each in its own process group.  They have a
wall-clock limit and get SIGTERM before SIGKILL.  Command, output, exit code and times are kept as evidence.  When the
suite dies, the kernel ends its programs.

Starting has two steps.  A prepared program waits in its own process, at the start gate, for the go-ahead of the suite;
if the suite dies, it exits.  So there is no moment at which the suite could die and leave a program behind, and the
next program can be prepared while one runs, so that it starts without delay.
"""

from __future__ import annotations

import fcntl
import json
import logging
import math
import os
import select
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from ...errors import ToolMissing
from ...files import UnbufferedFile, create
from .inherited import DESCRIPTORS, InheritedFiles, duplicate, duplicate_claims, substitute

if TYPE_CHECKING:
    from typing import Self

#: Called about once a second while a program runs, with the seconds since its start and the bytes that it has written.
Tick = Callable[[float, int], None]

_LOGGER = logging.getLogger(__name__)
#: Time limit for a program to report that it is ready, or to end after SIGTERM.
_GRACE_SECONDS = 15.0
#: Delay until the next attempt if the program cannot report yet.
_POSTPONED_SECONDS = 0.05
#: Maximum bytes of stdout, and of stderr, in the evidence.
_MAX_TEXT_BYTES = 1 << 20
_PIPE_BYTES = 1 << 20
CHUNK_BYTES = 1 << 16
#: The Debian packages of the programs that the suite starts.
_PACKAGES = {
    **{name: name for name in ("fio", "hdparm", "mdadm")},
    **dict.fromkeys(("blkdiscard", "fallocate", "setpriv", "wipefs"), "util-linux"),
    **dict.fromkeys(("sg_format", "sg_opcodes", "sg_sanitize", "sg_turs"), "sg3-utils"),
    "dd": "coreutils",
    "nvme": "nvme-cli",
    "smartctl": "smartmontools",
}
#: Start gate: reports readiness, waits for the go-ahead, then execs the program; exits on EOF.
_START_GATE = 'echo >&0 && read -r word && exec "$@" </dev/null'


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A program that has ended: its command, times, exit code and output.

    The times of a StagedProgram are the start and end of its threads' work.  ``exit_code`` is negative for a signal.
    ``timed_out`` is true if the suite ended the program at its limit.  ``stopped_seconds`` is the time for which
    another process stopped the program (SIGSTOP); None if no process did.  ``unkillable_pid`` is the process ID of a
    program that hangs in the kernel and could not be killed.  ``read_bytes`` and ``written_bytes`` are the bytes that
    it transferred from and to storage, as the kernel counts them (/proc/PID/io); None if unknown.  ``descriptors`` maps
    each /proc/self/fd path that was passed to the program to the file name that it replaced; ``environment`` has the
    variables that were set for the program.
    """

    argv: tuple[str, ...]
    exit_code: int
    timed_out: bool
    stopped_seconds: float | None
    unkillable_pid: int | None
    started: str
    started_monotonic_ns: int
    ended_monotonic_ns: int
    stdout: str
    stderr: str
    read_bytes: int | None = None
    written_bytes: int | None = None
    descriptors: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return (self.ended_monotonic_ns - self.started_monotonic_ns) / 1e9

    @property
    def error_summary(self) -> str:
        """Why the program failed: another process stopped it, or else the last line of its output."""
        if self.stopped_seconds is not None:
            return f"another process stopped it for about {self.stopped_seconds:.2g} s"
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        return lines[-1].strip() if lines else f"exit code {self.exit_code}, no message"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSchedule:
    """The times at which a program must report: the first ``count`` multiples of ``seconds`` after its start."""

    seconds: float
    count: int

    def due_after(self, elapsed: float) -> float:
        """Return the time of the next report, in seconds from the start; infinity after the last."""
        number = 1 + int(elapsed / self.seconds)
        return number * self.seconds if number <= self.count else math.inf


@cache
def find(program: str, hint: str = "") -> str:
    """Return the path of a program; raises ToolMissing, with ``hint`` or the package that provides it if known.

    An empty or relative entry of PATH is ignored: in it, the owner of the current folder could place a program.
    """
    entries = [*os.environ.get("PATH", os.defpath).split(os.pathsep), "/usr/sbin", "/sbin"]
    path = shutil.which(program, path=os.pathsep.join(filter(os.path.isabs, entries)))
    if path is None:
        package = _PACKAGES.get(program, "")
        hint = hint or (ToolMissing.hint if package else "Put it on the PATH.")
        raise ToolMissing(program=program, package=package, hint=hint)
    return path


class ChildSignalListener:
    """Calls back immediately when a child process stops, continues or exits (SIGCHLD).

    Only the main thread receives signals.  Programs of other threads are checked about once a second instead.
    """

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], None]] = []
        self._previous_handler: Any = None

    @contextmanager
    def listening(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call ``callback`` at every SIGCHLD."""
        main = threading.current_thread() is threading.main_thread()
        if main and not self._callbacks:
            self._previous_handler = signal.signal(signal.SIGCHLD, self._on_sigchld)
        self._callbacks.append(callback)
        try:
            yield
        finally:
            self._callbacks.remove(callback)
            if main and not self._callbacks:
                signal.signal(signal.SIGCHLD, self._previous_handler or signal.SIG_DFL)

    def _on_sigchld(self, _number: int, _frame: FrameType | None) -> None:
        for callback in tuple(self._callbacks):
            callback()


class Program:
    """A prepared program, which runs inside its ``with`` block; ``finished`` is set on exit.

    On exit ``evidence``.process.json is written: command, exit code, times and output.  With ``listen`` the standard
    output is available through ``iter_stdout`` only, and not kept; ``stdout_file`` creates a file of it instead, for
    binary output.  An exception in the block (such as Ctrl-C) ends the program, keeps the evidence, and propagates.
    Without ``evidence`` no file is written.
    """

    finished: Finished

    _start_gate = _START_GATE
    #: Signals that are blocked in the program.
    _blocked_signals: tuple[signal.Signals, ...] = ()
    #: A program may need this long after its start before it can handle SIGUSR1; none is sent earlier.
    _signal_delay_seconds = 1.0

    def __init__(
        self,
        argv: Sequence[str],
        *,
        evidence: Path | None,
        listen: bool = False,
        stdout_file: Path | None = None,
        child_signals: ChildSignalListener | None = None,
        inherited: InheritedFiles | None = None,
    ) -> None:
        """Prepare a program.  It is killed when the calling thread ends.  Raises ToolMissing if it is not installed.

        Programs that run at the same time must share ``child_signals``.
        """
        path, inherited = find(argv[0]), inherited or InheritedFiles()
        self._argv, self._evidence, self._child_signals = tuple(argv), evidence, child_signals or ChildSignalListener()
        self._record: UnbufferedFile | None = None
        self.started_ns = self._ended_ns = self._stopped_ns = 0
        self._stopped_since: int | None = None
        self._unkillable_pid: int | None = None
        self._read_bytes: int | None = None
        self._written_bytes: int | None = None
        self._ready = self._was_stopped = self._has_started = self.timed_out = False
        with ExitStack() as cleanup:
            self._stdout_pipe, self._stdout = _create_stdout(listen, stdout_file)
            self._keep_stdout = not listen and stdout_file is None
            self._stderr = os.memfd_create("stderr")
            for descriptor in (self._stdout_pipe, self._stdout, self._stderr):
                if descriptor is not None:
                    cleanup.callback(os.close, descriptor)
            self._control_socket, remote_socket = socket.socketpair()
            cleanup.enter_context(self._control_socket)
            with (
                remote_socket,
                duplicate(inherited.files) as self._descriptors,
                duplicate_claims(inherited.claims) as claims,
                _blocked(self._blocked_signals),
            ):
                arguments = (substitute(argument, self._descriptors) for argument in argv[1:])
                self._environment = {
                    key: substitute(value, self._descriptors) for key, value in inherited.environment.items()
                }
                death_signal = "TERM" if inherited.claims else "KILL"
                launcher = (find("setpriv"), "--pdeathsig", death_signal, "--", "/bin/sh", "-c", self._start_gate, "sh")
                self._process = subprocess.Popen(
                    (*launcher, path, *arguments),
                    start_new_session=True,
                    stdin=remote_socket.fileno(),
                    stdout=self._stdout,
                    stderr=self._stderr,
                    env={**os.environ, "LC_ALL": "C", **self._environment},
                    pass_fds=(*self._descriptors.values(), *claims),
                )
            cleanup.callback(self._terminate)
            self._cleanup = cleanup.pop_all()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def reap(self) -> bool:
        """Reap the process if it has exited; return whether it has exited."""
        return self._process.poll() is not None

    @property
    def threads_missing(self) -> bool:
        """Whether a thread of the program did not finish its work, whatever the exit code is."""
        return False

    def start(self) -> None:
        """Start the program, and detect when another process stops it; ends the program on an error."""
        try:
            self._cleanup.enter_context(self._child_signals.listening(self._check_stopped))
            self._start()
            if self._evidence is not None:
                # Create the file now, while the program runs: any time spent after its end leaves the device idle.
                record = create(self._evidence.with_suffix(".process.json"), replace=True)
                self._record = self._cleanup.enter_context(record)
            self._has_started = True
        except BaseException:
            self._cleanup.close()
            raise

    def _start(self) -> None:
        with suppress(OSError):  # the program was killed while it waited; _wait detects that
            self._control_socket.settimeout(_GRACE_SECONDS)
            self._ready = bool(self._control_socket.recv(1))
        self._send_go_ahead(1)
        _LOGGER.debug("%s started, evidence %s", self._argv[0], self._evidence_name)

    @property
    def _evidence_name(self) -> str:
        return self._evidence.name if self._evidence is not None else "none"

    def _send_go_ahead(self, count: int) -> None:
        """Record the start time, then release ``count`` start gates (for a StagedProgram, one for each thread)."""
        self._started_at = datetime.now().astimezone().isoformat(timespec="milliseconds")
        self.started_ns = time.monotonic_ns()
        with suppress(OSError):  # the program has ended
            self._control_socket.send(b"\n" * count)

    def end(self) -> None:
        """End the program if it still runs; sets ``finished`` if the program was started."""
        with self._cleanup:
            self._terminate()
            if not self._has_started:
                return
            self._has_started = False
            ended = time.monotonic_ns()
            if self._stopped_since is not None:
                self._stopped_ns += ended - self._stopped_since
            self._ended_ns = self._ended_ns or ended
            self.finished = Finished(
                argv=self._argv,
                exit_code=self._process.returncode,
                timed_out=self.timed_out,
                stopped_seconds=self._stopped_ns / 1e9 if self._was_stopped else None,
                unkillable_pid=self._unkillable_pid,
                started=self._started_at,
                started_monotonic_ns=self.started_ns,
                ended_monotonic_ns=self._ended_ns,
                stdout=_text(self._stdout) if self._keep_stdout else "",
                stderr=_text(self._stderr),
                read_bytes=self._read_bytes,
                written_bytes=self._written_bytes,
                descriptors={f"{DESCRIPTORS}{number}": name for name, number in self._descriptors.items()},
                environment=self._environment,
            )
            if self._record is not None:
                content = {field.name: getattr(self.finished, field.name) for field in fields(Finished)}
                self._record.write(json.dumps(content).encode())
            _log_end(self.finished, self._evidence_name)

    def iter_stdout(
        self, timeout_seconds: float, tick: Tick | None = None, *, reports: ReportSchedule | None = None
    ) -> Iterator[bytes]:
        """Wait until the program ends; yield its standard output meanwhile if ``listen`` was set.

        The end is detected immediately, through a pidfd.  At the limit ``timed_out`` is set.  Waiting also ends if
        another process stops the program (SIGSTOP), even if the program is continued immediately.  When ``reports`` are
        due, the program gets one SIGUSR1 for all due reports, as soon as it can handle the signal.
        """
        readable = {descriptor for descriptor in (self._stdout_pipe,) if descriptor is not None}
        for descriptor in self._wait(readable, timeout_seconds, tick, reports):
            yield os.read(descriptor, CHUNK_BYTES)

    def read_stdout(self) -> bytes:
        """Return the standard output that can be read without waiting, at most a chunk, if ``listen`` was set."""
        poll = select.poll()
        if self._stdout_pipe is not None:
            poll.register(self._stdout_pipe, select.POLLIN)
        return b"".join(os.read(descriptor, CHUNK_BYTES) for descriptor, _ in poll.poll(0))

    @property
    def has_exited(self) -> bool:
        """Whether the process has exited; it is not reaped.  Child processes may still run until ``end`` is called."""
        if self._process.returncode is not None:
            return True
        with suppress(ChildProcessError):
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        return True

    def wait_for_io_end(self, timeout_seconds: float, tick: Tick | None = None) -> int | None:
        """Wait until the program's I/O has ended, as ``iter_stdout`` does; return the time (monotonic ns).

        Returns None if the program does not report the end of its I/O.  The process has then exited, except after a
        timeout or a stop by another process.
        """
        for _ in self.iter_stdout(timeout_seconds, tick):
            pass
        return None

    def _wait(
        self,
        readable: Set[int],
        timeout_seconds: float,
        tick: Tick | None,
        reports: ReportSchedule | None = None,
    ) -> Iterator[int]:
        """Wait until the program ends; yield each of the descriptors ``readable`` whenever it can be read.

        The caller may remove descriptors from ``readable`` while this waits.
        """
        if self._process.returncode is not None or self.timed_out or self._was_stopped:
            return
        pidfd, due = os.pidfd_open(self._process.pid), self._elapsed() + 1.0
        report_due = max(reports.due_after(0.0), self._signal_delay_seconds) if reports else math.inf
        try:
            while True:
                poll = select.poll()
                for descriptor in (pidfd, *readable):
                    poll.register(descriptor, select.POLLIN)
                elapsed = self._elapsed()
                wait_seconds = max(0.0, min(due, report_due, timeout_seconds) - elapsed)
                ready = [descriptor for descriptor, _ in poll.poll(1000 * wait_seconds)]
                if self._was_stopped:
                    return
                if reports and self._elapsed() >= report_due:
                    report_due = self._elapsed() + _POSTPONED_SECONDS
                    if self._may_report():
                        self._process.send_signal(signal.SIGUSR1)
                        report_due = reports.due_after(self._elapsed())
                yield from (descriptor for descriptor in ready if descriptor in readable)
                if ready == [pidfd]:
                    # The kernel keeps the counters of an ended process until it is waited for.
                    self._read_bytes, self._written_bytes = _storage_bytes(self._process.pid)
                    self._process.wait()
                    return
                # A program that ended in time has not timed out, even if the suite was stopped until after the limit.
                if pidfd not in ready and elapsed >= timeout_seconds:
                    self.timed_out = True
                    return
                if self._elapsed() >= due:
                    due = self._elapsed() + 1.0
                    self._check_stopped()
                    if tick is not None:
                        tick(self._elapsed(), _storage_bytes(self._process.pid)[1] or 0)
        finally:
            os.close(pidfd)

    def _may_report(self) -> bool:
        """Return whether the program can report its progress now."""
        return True

    def _elapsed(self) -> float:
        return (time.monotonic_ns() - self.started_ns) / 1e9

    def _check_stopped(self) -> None:
        """Record whether the program was stopped or continued; the kernel keeps both events until they are read."""
        with suppress(ChildProcessError):
            while status := os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WCONTINUED | os.WNOHANG):
                now, self._was_stopped = time.monotonic_ns(), True
                if self._stopped_since is not None:
                    self._stopped_ns += now - self._stopped_since
                self._stopped_since = None if status.si_code == os.CLD_CONTINUED else now

    def _terminate(self) -> None:
        """End a running program: SIGTERM to its group, a grace period (Ctrl-C ends it), then SIGKILL.

        A program that hangs in the kernel is left behind.
        """
        if self._process.returncode is not None:
            return
        with suppress(OSError):
            self._control_socket.shutdown(socket.SHUT_WR)  # a start gate that reads only now gets EOF and exits
        # The program inherited this thread's signal mask.
        sigterm_blocked = signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        for end_signal in (signal.SIGKILL,) if sigterm_blocked else (signal.SIGTERM, signal.SIGKILL):
            for number in (end_signal, signal.SIGCONT):  # a stopped process handles SIGTERM only after SIGCONT
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
            with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                self._process.wait(timeout=_GRACE_SECONDS)
                break
        if self._process.returncode is None:  # unkillable (D state): stop waiting
            self._unkillable_pid, self._process.returncode = self._process.pid, -signal.SIGKILL
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


def run(
    argv: Sequence[str],
    *,
    evidence: Path,
    timeout_seconds: float,
    tick: Tick | None = None,
    inherited: InheritedFiles | None = None,
    stdout_file: Path | None = None,
) -> Finished:
    """Run a program until it ends or reaches the limit; see Program."""
    with Program(argv, evidence=evidence, inherited=inherited, stdout_file=stdout_file) as program:
        program.wait_for_io_end(timeout_seconds, tick)
    return program.finished


def _log_end(finished: Finished, evidence: str) -> None:
    """Log how a program ended.  Its arguments, which may contain a password of a drive, are only in the evidence."""
    failed = finished.exit_code != 0 or finished.timed_out
    level = logging.WARNING if failed or finished.unkillable_pid is not None else logging.INFO
    remarks = (
        ": timeout" if finished.timed_out else "",
        f"; process {finished.unkillable_pid} hangs in the kernel" if finished.unkillable_pid is not None else "",
    )
    _LOGGER.log(
        level,
        "%s ended with exit code %d after %.3f s, evidence %s%s",
        finished.argv[0],
        finished.exit_code,
        finished.seconds,
        evidence,
        "".join(remarks),
    )


@contextmanager
def _blocked(signals: Sequence[signal.Signals]) -> Iterator[None]:
    """Block signals in this thread; processes started meanwhile inherit the mask."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _create_stdout(listen: bool, file: Path | None) -> tuple[int | None, int]:
    """Create the file for a program's standard output; return a descriptor to read from, if any, and one to write to.

    With ``listen`` it is a pipe, large enough that the program does not block on the suite; otherwise ``file``, or a
    file in memory.
    """
    if file is not None:
        with create(file, replace=True) as created:
            return None, os.dup(created.fileno())
    if not listen:
        return None, os.memfd_create("stdout")
    reader, writer = os.pipe()
    with suppress(OSError):
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return reader, writer


def _storage_bytes(pid: int) -> tuple[int | None, int | None]:
    """Return the bytes that a process and its ended children have read from storage, and written to it.

    Each is None if the kernel does not report it.
    """
    try:
        text = Path(f"/proc/{pid}/io").read_text(encoding="ascii")
    except OSError:
        return None, None
    counts = {name: int(value) for name, value in (line.split(": ", 1) for line in text.splitlines())}
    return counts.get("read_bytes"), counts.get("write_bytes")


def _text(descriptor: int) -> str:
    """Return what a program wrote to a descriptor, at most the first mebibyte."""
    return os.pread(descriptor, _MAX_TEXT_BYTES, 0).decode("utf-8", "replace")
