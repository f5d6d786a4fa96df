"""The one place that starts programs.

Argument lists, never shell strings; an own process group; SIGTERM before SIGKILL; a wall-clock limit; command, output,
exit code and times kept as evidence.  A program dies with the suite: the kernel kills it when the suite is gone.

A program is prepared and then begun.  What is prepared stands in a process of its own that waits for a word from the
suite; when the suite is gone instead, it ends.  So there is no moment at which the suite could die and leave a program
behind, and whoever prepares the next program while one runs begins it without the time that takes.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from io import FileIO
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..errors import ToolMissing

if TYPE_CHECKING:
    from typing import Self

#: Called about once a second while a program runs, with the seconds since its start and the bytes it has written.
Tick = Callable[[float, int], None]

_GRACE_SECONDS = 15.0
_LONGEST_TEXT = 1 << 20
_PIECE_BYTES = 1 << 16
#: Debian's packages of the programs that the suite itself starts.
_PACKAGES = {
    **{name: name for name in ("fio", "hdparm", "mdadm")},
    **dict.fromkeys(("blkdiscard", "fallocate", "setpriv", "wipefs"), "util-linux"),
    **dict.fromkeys(("sg_format", "sg_opcodes", "sg_sanitize", "sg_turs"), "sg3-utils"),
    "dd": "coreutils",
    "nvme": "nvme-cli",
    "smartctl": "smartmontools",
}
#: Says that it stands, waits for the word, and becomes the program that its arguments name; without the word it ends.
_GATE = 'echo >&0 && read -r word && exec "$@" </dev/null'


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A program that ran: what was started, how and when it ended; of a HeldProgram, when its threads worked.

    ``exit_code`` is negative for a signal.  ``timed_out`` says that the suite ended it at its limit.
    ``stopped_seconds`` is how long somebody held it stopped (SIGSTOP); None where nobody did.  ``left_behind`` is the
    process number of one that hangs in the kernel and could not be ended.
    """

    argv: tuple[str, ...]
    exit_code: int
    timed_out: bool
    stopped_seconds: float | None
    left_behind: int | None
    started: str
    started_monotonic_ns: int
    ended_monotonic_ns: int
    stdout: str
    stderr: str

    @property
    def seconds(self) -> float:
        return (self.ended_monotonic_ns - self.started_monotonic_ns) / 1e9

    @property
    def complaint(self) -> str:
        """The last line the program said, for a sentence about its failure; first of all what was done to it."""
        if self.stopped_seconds is not None:
            return f"it was stopped from outside for about {self.stopped_seconds:.2g} s"
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        return lines[-1].strip() if lines else f"exit code {self.exit_code}, no message"


@cache
def find(program: str) -> str:
    """Return the path of a program; raises ToolMissing, with the package that brings it where that is known."""
    found = shutil.which(program, path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin:/sbin")
    if found is None:
        package = _PACKAGES.get(program)
        raise ToolMissing(program=program, package=package, hint=None if package else "Put it on the PATH.")
    return found


class Ears:
    """Hear at once of children that are stopped or go on; only the main thread can, others look now and then."""

    def __init__(self) -> None:
        self._looks: list[Callable[[], None]] = []
        self._before: Any = None

    @contextmanager
    def hearing(self, look: Callable[[], None]) -> Iterator[None]:
        """Call ``look`` whenever something was heard."""
        main = threading.current_thread() is threading.main_thread()
        if main and not self._looks:
            self._before = signal.signal(signal.SIGCHLD, self._heard)
        self._looks.append(look)
        try:
            yield
        finally:
            self._looks.remove(look)
            if main and not self._looks:
                signal.signal(signal.SIGCHLD, self._before or signal.SIG_DFL)

    def _heard(self, _number: int, _frame: FrameType | None) -> None:
        for look in tuple(self._looks):
            look()


class Program:
    """A program that waits to begin; it runs while its block is entered, and ``finished`` is known when that is left.

    Then ``evidence``.process.json is there: command, exit code, times and output; with ``listen`` the standard output
    is for ``said`` alone.  An exception in the block (Ctrl-C) ends the program, keeps the evidence and goes on upwards.
    """

    finished: Finished

    _gate = _GATE
    #: The signals that do not reach it.
    _deaf_to: tuple[signal.Signals, ...] = ()

    def __init__(self, argv: Sequence[str], *, evidence: Path, listen: bool = False, ears: Ears | None = None) -> None:
        """Prepare a program; it lives no longer than this thread.  Raises ToolMissing when there is no such program.

        Programs that run at once have their ``ears`` in common.
        """
        command = ("/bin/sh", "-c", self._gate, "sh", find(argv[0]), *argv[1:])
        self._argv, self._evidence, self._ears = tuple(argv), evidence, ears or Ears()
        self._record: FileIO | None = None
        self.began_ns = self._ended_ns = self._stopped_ns = 0
        self._stopped_since: int | None = None
        self._left_behind: int | None = None
        self._stood = self._stopped = self.timed_out = False
        with ExitStack() as opened:
            self._heard, self._out = _output(listen=listen)
            self._err = os.memfd_create("stderr")
            for descriptor in (self._heard, self._out, self._err):
                if descriptor is not None:
                    opened.callback(os.close, descriptor)
            self._word, its = socket.socketpair()
            opened.enter_context(self._word)
            with its, _blocked(self._deaf_to):
                self._process = subprocess.Popen(
                    (find("setpriv"), "--pdeathsig", "KILL", "--", *command), start_new_session=True,
                    stdin=its.fileno(), stdout=self._out, stderr=self._err, env={**os.environ, "LC_ALL": "C"},
                )  # fmt: skip
            opened.callback(self._end)
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def gone(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    @property
    def fell_short(self) -> bool:
        """Whether a part of it did nothing, whatever its end says."""
        return False

    def begin(self) -> None:
        """Let the program begin, and hear of it; on an error it is ended."""
        try:
            self._opened.enter_context(self._ears.hearing(self._look))
            self._begin()
            # The file is made now, while the program runs: after its end every microsecond is a pause of the device.
            self._record = self._opened.enter_context(FileIO(str(self._evidence.with_suffix(".process.json")), "w"))
        except BaseException:
            self._opened.close()
            raise

    def _begin(self) -> None:
        with suppress(OSError):  # one that was ended while it waited has no ear; its end is seen
            self._word.settimeout(_GRACE_SECONDS)
            self._stood = bool(self._word.recv(1))
        self._wall = datetime.now().astimezone().isoformat(timespec="milliseconds")
        self.began_ns = time.monotonic_ns()
        with suppress(OSError):
            self._word.send(b"\n")

    def end(self) -> None:
        """End the program where it still runs; ``finished`` is known then, if it ever began."""
        with self._opened:
            self._end()
            if self._record is None or self._record.closed:
                return
            ended = time.monotonic_ns()
            if self._stopped_since is not None:
                self._stopped_ns += ended - self._stopped_since
            self._ended_ns = self._ended_ns or ended
            self.finished = Finished(
                argv=self._argv, exit_code=self._process.returncode, timed_out=self.timed_out,
                stopped_seconds=self._stopped_ns / 1e9 if self._stopped else None,
                left_behind=self._left_behind, started=self._wall,
                started_monotonic_ns=self.began_ns, ended_monotonic_ns=self._ended_ns,
                stdout=_text(self._out) if self._heard is None else "", stderr=_text(self._err),
            )  # fmt: skip
            content = {field.name: getattr(self.finished, field.name) for field in fields(Finished)}
            self._record.write(json.dumps(content).encode())

    def said(self, timeout_seconds: float, tick: Tick | None = None) -> Iterator[bytes]:
        """Wait for the end, giving what the program says on its standard output meanwhile, if that is listened to.

        The end is seen at once, on the process's own descriptor.  At the limit ``timed_out`` is set.  A program that
        somebody stopped (SIGSTOP) is not waited for, whether or not it was let go on since.
        """
        for heard in self._wait(self._heard, timeout_seconds, tick):
            yield os.read(heard, _PIECE_BYTES)

    def work(self, timeout_seconds: float, tick: Tick | None = None) -> int | None:
        """Wait until the program's work is done, as ``said`` does; return when that was (monotonic ns).

        None where it is known only by the program's end, which has then come.
        """
        for _ in self.said(timeout_seconds, tick):
            pass
        return None

    def _wait(self, also: int | None, timeout_seconds: float, tick: Tick | None) -> Iterator[int]:
        """Wait for the end; give ``also`` whenever there is something to read from it."""
        if self._process.returncode is not None or self.timed_out or self._stopped:
            return
        end, due = os.pidfd_open(self._process.pid), self._elapsed() + 1.0
        try:
            poll = select.poll()
            poll.register(end, select.POLLIN)
            if also is not None:
                poll.register(also, select.POLLIN)
            while True:
                elapsed = self._elapsed()
                ready = [each for each, _ in poll.poll(1000 * max(0.0, min(due, timeout_seconds) - elapsed))]
                if self._stopped:
                    return
                if also is not None and also in ready:
                    yield also
                elif end in ready:
                    self._process.wait()
                    return
                if end not in ready and elapsed >= timeout_seconds:  # one that ended while we stood still is not late
                    self.timed_out = True
                    return
                if self._elapsed() >= due:
                    due = self._elapsed() + 1.0
                    self._look()
                    if tick is not None:
                        tick(self._elapsed(), _written_bytes(self._process.pid))
        finally:
            os.close(end)

    def _elapsed(self) -> float:
        return (time.monotonic_ns() - self.began_ns) / 1e9

    def _look(self) -> None:
        """Notice whether somebody stopped the program, or let it go on; the kernel remembers both until asked."""
        with suppress(ChildProcessError):
            while found := os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WCONTINUED | os.WNOHANG):
                now, self._stopped = time.monotonic_ns(), True
                if self._stopped_since is not None:
                    self._stopped_ns += now - self._stopped_since
                self._stopped_since = None if found.si_code == os.CLD_CONTINUED else now

    def _end(self) -> None:
        """End a program that still runs: SIGTERM to its group, patience (Ctrl-C ends it), SIGKILL to what is left.

        One that hangs in the kernel is left behind.
        """
        if self._process.returncode is not None:
            return
        with suppress(OSError):
            self._word.shutdown(socket.SHUT_WR)  # whoever asks only now is told that no word comes
        hears = signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())  # what is started has our mask
        for number in (signal.SIGTERM, signal.SIGKILL) if hears else (signal.SIGKILL,):
            for each in (number, signal.SIGCONT):  # what is stopped does not hear SIGTERM
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, each)
            with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                self._process.wait(timeout=_GRACE_SECONDS)
                break
        if self._process.returncode is None:  # nobody waits for it any more
            self._left_behind, self._process.returncode = self._process.pid, -signal.SIGKILL
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


def run(argv: Sequence[str], *, evidence: Path, timeout_seconds: float, tick: Tick | None = None) -> Finished:
    """Run a program to its end, or to the limit; see Program."""
    with Program(argv, evidence=evidence) as program:
        program.work(timeout_seconds, tick)
    return program.finished


@contextmanager
def _blocked(signals: Sequence[signal.Signals]) -> Iterator[None]:
    """Block signals in this thread; what it starts meanwhile has them blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _output(*, listen: bool) -> tuple[int | None, int]:
    """What a program writes to, and what is heard of it: a pipe that holds much, so that no program waits for us."""
    if not listen:
        return None, os.memfd_create("stdout")
    heard, out = os.pipe()
    with suppress(OSError):
        fcntl.fcntl(out, fcntl.F_SETPIPE_SZ, 1 << 20)
    return heard, out


def _written_bytes(pid: int) -> int:
    """What the kernel has accounted to a process as written to storage; 0 where it does not say."""
    try:
        text = Path(f"/proc/{pid}/io").read_text(encoding="ascii")
    except OSError:
        return 0
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    return int(fields.get("write_bytes", 0))


def _text(descriptor: int) -> str:
    """What a program wrote to a descriptor; of more than a mebibyte, the beginning."""
    return os.pread(descriptor, _LONGEST_TEXT, 0).decode("utf-8", "replace")
