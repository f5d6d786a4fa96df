"""The one place that starts programs.

Argument lists, never shell strings; an own process group; SIGTERM before SIGKILL; a wall-clock limit; command, output,
exit code and times kept as evidence.  A program dies with the suite: the kernel sends it SIGTERM if the suite is
killed.
"""

from __future__ import annotations

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
_PACKAGES = {"blkdiscard": "util-linux", "fallocate": "util-linux", "wipefs": "util-linux"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A program that ran: what was started, how and when it ended.

    ``exit_code`` is negative for a signal.  ``timed_out`` says that the suite ended it at its limit.
    """

    argv: tuple[str, ...]
    exit_code: int
    timed_out: bool
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


def run(
    argv: Sequence[str],
    *,
    evidence: Path,
    timeout_seconds: float,
    started: Callable[[], object] | None = None,
    tick: Tick | None = None,
) -> Finished:
    """Run a program to its end and keep ``evidence``.process.json: command, exit code, times, output.

    ``started`` is called once the program runs: what it does costs the program's time, not the time after it.
    Raises ToolMissing when there is no such program.  An exception while waiting (Ctrl-C) ends the program, keeps the
    evidence and goes on upwards.
    """
    command = (*_dying_with_us(), find(argv[0]), *argv[1:])
    out, err = os.memfd_create("stdout"), os.memfd_create("stderr")
    try:
        wall = datetime.now().astimezone().isoformat(timespec="milliseconds")
        began = time.monotonic_ns()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True, env=_environment()
        )
        # The file is made now, while the program runs: after its end every microsecond is a pause of the device.
        with _ended(process), FileIO(str(evidence.with_suffix(".process.json")), "w") as record:
            timed_out = False
            try:
                if started is not None:
                    started()
                timed_out = not _wait(process, began, timeout_seconds, tick)
            finally:
                _end(process)
                finished = Finished(
                    argv=tuple(argv), exit_code=_exit_code(process), timed_out=timed_out, started=wall,
                    started_monotonic_ns=began, ended_monotonic_ns=time.monotonic_ns(),
                    stdout=_text(out), stderr=_text(err),
                )  # fmt: skip
                content = {field.name: getattr(finished, field.name) for field in fields(finished)}
                record.write(json.dumps(content).encode())
    finally:
        os.close(out)
        os.close(err)
    return finished


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Leave no program behind, whatever happens."""
    try:
        yield
    finally:
        _end(process)


def _wait(process: subprocess.Popen[bytes], began: int, timeout_seconds: float, tick: Tick | None) -> bool:
    """Wait on the process's own descriptor, so that its end is seen at once; False at the limit."""
    descriptor = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while True:
            elapsed = (time.monotonic_ns() - began) / 1e9
            if elapsed >= timeout_seconds:
                return False
            if poll.poll(1000 * min(1.0, timeout_seconds - elapsed)):
                process.wait()
                return True
            if tick is not None:
                tick((time.monotonic_ns() - began) / 1e9, _written_bytes(process.pid))
    finally:
        os.close(descriptor)


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


def _text(descriptor: int) -> str:
    """What a program wrote to a descriptor; of more than a mebibyte, the beginning."""
    return os.pread(descriptor, _LONGEST_TEXT, 0).decode("utf-8", "replace")
