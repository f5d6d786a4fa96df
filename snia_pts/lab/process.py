"""The one place that starts programs.

Argument lists, never shell strings; an own process group; SIGTERM before SIGKILL; a wall-clock limit; command, output,
exit code and times kept as evidence.  A program dies with the suite: the kernel sends it SIGTERM if the suite is
killed.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from io import FileIO
from pathlib import Path

from ..errors import ToolMissing

#: Called about once a second while a program runs, with the seconds since its start and the bytes it has written.
Tick = Callable[[float, int], None]

_GRACE_SECONDS = 15.0
_LONGEST_TEXT = 1 << 20
_PIECE_BYTES = 1 << 16
_PACKAGES = {"blkdiscard": "util-linux", "fallocate": "util-linux", "wipefs": "util-linux"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A program that ran: what was started, how and when it ended.

    ``exit_code`` is negative for a signal.  ``timed_out`` says that the suite ended it at its limit.
    ``host_cpu_percent`` is how busy all CPUs of the host were together meanwhile, by whatever; None where the kernel
    does not say.
    """

    argv: tuple[str, ...]
    exit_code: int
    timed_out: bool
    started: str
    started_monotonic_ns: int
    ended_monotonic_ns: int
    host_cpu_percent: float | None
    stdout: str
    stderr: str

    @property
    def seconds(self) -> float:
        return (self.ended_monotonic_ns - self.started_monotonic_ns) / 1e9

    @property
    def complaint(self) -> str:
        """The last line the program said, for a sentence about its failure."""
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        return lines[-1].strip() if lines else f"exit code {self.exit_code}, no message"


@cache
def find(program: str) -> str:
    """Return the path of a program; raises ToolMissing with the package that brings it."""
    found = shutil.which(program, path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin:/sbin")
    if found is None:
        raise ToolMissing(program=program, package=_PACKAGES.get(program, program))
    return found


class Running:
    """A program that runs; ``finished`` is known when the block of ``running`` is left."""

    finished: Finished

    def __init__(self, process: subprocess.Popen[bytes], began_ns: int, heard: int | None) -> None:
        self._process = process
        self._began_ns = began_ns
        self._heard = heard
        self.timed_out = False

    def said(self, timeout_seconds: float, tick: Tick | None = None) -> Iterator[bytes]:
        """Wait for the end, giving what the program says on its standard output meanwhile, if that is listened to.

        The end is seen at once, on the process's own descriptor.  At the limit ``timed_out`` is set.
        """
        end, due = os.pidfd_open(self._process.pid), 1.0
        try:
            poll = select.poll()
            poll.register(end, select.POLLIN)
            if self._heard is not None:
                poll.register(self._heard, select.POLLIN)
            while (elapsed := self._elapsed()) < timeout_seconds:
                ready = [each for each, _ in poll.poll(1000 * max(0.0, min(due, timeout_seconds) - elapsed))]
                if self._heard is not None and self._heard in ready:
                    yield os.read(self._heard, _PIECE_BYTES)
                elif end in ready:
                    self._process.wait()
                    return
                if tick is not None and self._elapsed() >= due:
                    due = self._elapsed() + 1.0
                    tick(self._elapsed(), _written_bytes(self._process.pid))
            self.timed_out = True
        finally:
            os.close(end)

    def _elapsed(self) -> float:
        return (time.monotonic_ns() - self._began_ns) / 1e9


def run(
    argv: Sequence[str],
    *,
    evidence: Path,
    timeout_seconds: float,
    started: Callable[[], object] | None = None,
    tick: Tick | None = None,
) -> Finished:
    """Run a program to its end, or to the limit; see ``running``.

    ``started`` is called once the program runs: what it does costs the program's time, not the time after it.
    """
    with running(argv, evidence=evidence) as program:
        if started is not None:
            started()
        for _ in program.said(timeout_seconds, tick):
            pass
    return program.finished


@contextmanager
def running(argv: Sequence[str], *, evidence: Path, listen: bool = False) -> Iterator[Running]:
    """Start a program, end it when the block is left, and keep ``evidence``.process.json.

    That holds command, exit code, times and output; with ``listen`` the standard output is for ``Running.said`` alone.
    Raises ToolMissing when there is no such program.  An exception in the block (Ctrl-C) ends the program, keeps the
    evidence and goes on upwards.
    """
    command = (*_dying_with_us(), find(argv[0]), *argv[1:])
    heard, out = _pipe() if listen else (None, os.memfd_create("stdout"))
    err = os.memfd_create("stderr")
    try:
        wall = datetime.now().astimezone().isoformat(timespec="milliseconds")
        began = time.monotonic_ns()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True, env=_environment()
        )
        # The file is made now, while the program runs: after its end every microsecond is a pause of the device.
        with _ended(process), FileIO(str(evidence.with_suffix(".process.json")), "w") as record:
            program, before = Running(process, began, heard), _processor_times()
            try:
                yield program
            finally:
                _end(process)
                program.finished = Finished(
                    argv=tuple(argv), exit_code=_exit_code(process), timed_out=program.timed_out, started=wall,
                    started_monotonic_ns=began, ended_monotonic_ns=time.monotonic_ns(),
                    host_cpu_percent=_busy_percent(before, _processor_times()),
                    stdout="" if listen else _text(out), stderr=_text(err),
                )  # fmt: skip
                content = {field.name: getattr(program.finished, field.name) for field in fields(Finished)}
                record.write(json.dumps(content).encode())
    finally:
        for descriptor in (heard, out, err):
            if descriptor is not None:
                os.close(descriptor)


def _pipe() -> tuple[int, int]:
    """A pipe that holds much, so that no program waits for its listener."""
    heard, out = os.pipe()
    with suppress(OSError):
        fcntl.fcntl(out, fcntl.F_SETPIPE_SZ, 1 << 20)
    return heard, out


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Leave no program behind, whatever happens."""
    try:
        yield
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program that still runs: SIGTERM to its group, patience (Ctrl-C ends it), SIGKILL to what is left.

    One that hangs in the kernel is left behind.
    """
    if process.returncode is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(timeout=_GRACE_SECONDS)
            break
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _exit_code(process: subprocess.Popen[bytes]) -> int:
    return -signal.SIGKILL if process.returncode is None else process.returncode


@cache
def _dying_with_us() -> tuple[str, ...]:
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "TERM", "--") if setpriv else ()


def _environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C"}


def _written_bytes(pid: int) -> int:
    """What the kernel has accounted to a process as written to storage; 0 where it does not say."""
    try:
        text = Path(f"/proc/{pid}/io").read_text(encoding="ascii")
    except OSError:
        return 0
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    return int(fields.get("write_bytes", 0))


def _processor_times() -> tuple[int, int]:
    """The busy and the whole time of all CPUs so far, in the kernel's units; waiting for I/O is not busy."""
    with suppress(OSError, ValueError), FileIO("/proc/stat") as file:
        user, nice, system, idle, waiting, *rest = map(int, file.read(256).split(b"\n")[0].split()[1:9])
        busy = user + nice + system + sum(rest)
        return busy, busy + idle + waiting
    return 0, 0


def _busy_percent(before: tuple[int, int], after: tuple[int, int]) -> float | None:
    busy, whole = after[0] - before[0], after[1] - before[1]
    return min(100.0, 100 * max(0, busy) / whole) if whole > 0 else None


def _text(descriptor: int) -> str:
    """What a program wrote to a descriptor; of more than a mebibyte, the beginning."""
    return os.pread(descriptor, _LONGEST_TEXT, 0).decode("utf-8", "replace")
