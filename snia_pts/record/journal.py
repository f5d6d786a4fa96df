"""The journal of a run: what was asked and what came of it, in order, each entry durable before the run goes on.

One JSON object a line: ``{"crc32": "xxxxxxxx", "entry": {...}}``.  The checksum runs over the entry's own bytes and
continues the line before, so that a changed, lost or reordered line is noticed.  A last line without its end is what a
crash leaves; it is dropped, and said.  Entries are checked against the types of the suite when they are read.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from ..errors import HostFailed, RecordError
from ..measurement import Measurement, Outcome, Purged
from ..result import Ending, RunFacts
from ..steps import Precondition, Purge, Round, Step

if TYPE_CHECKING:
    from typing import Self

#: Bytes of a line before and after its entry.
_BEFORE, _AFTER = len(b'{"crc32":"01234567","entry":'), len(b"}\n")
_DAMAGED = "Take a copy from a backup; fio's own answers are still in evidence/."
_LONGEST_LINE = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """First entry: everything that is fixed before the first step."""

    kind: Literal["begun"] = "begun"
    format: Literal[1] = 1
    facts: RunFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A step that the procedure asked for; its outcomes follow, one entry each."""

    kind: Literal["asked"] = "asked"
    step: Annotated[Purge | Precondition | Round, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """An outcome of the step asked last."""

    kind: Literal["came"] = "came"
    outcome: Annotated[Purged | Measurement, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Last entry: how the run ended."""

    kind: Literal["ended"] = "ended"
    ending: Ending
    detail: str
    at: str


Entry = Begun | Asked | Came | Ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A journal read again: the facts, each step with the outcomes that came, and the end if there was one."""

    facts: RunFacts
    answered: tuple[tuple[Step, tuple[Outcome, ...]], ...]
    ended: Ended | None
    torn: bool


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back Ctrl-C, SIGTERM and SIGHUP until something is whole; they come after it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Journal:
    """Appends entries; each is on stable storage when ``append`` returns."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)  # tells readers that the run goes on
        self._checksum = 0
        self._length = 0
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(folder)
        os.close(folder)

    def append(self, entry: Entry) -> None:
        """Write an entry and wait until it is durable; raises HostFailed when the disk does not take it."""
        payload = _adapter().dump_json(entry)
        checksum = zlib.crc32(payload, self._checksum)
        with uninterrupted():
            self._write(entry.kind, _line(checksum, payload))
            self._checksum = checksum

    def _write(self, kind: str, line: bytes) -> None:
        try:
            if os.fstat(self._descriptor).st_nlink == 0:
                raise OSError(errno.ENOENT, "the journal was removed while the run wrote it")
            written = os.write(self._descriptor, line)
            if written != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fdatasync(self._descriptor)
        except OSError as error:
            os.ftruncate(self._descriptor, self._length)
            raise HostFailed(
                step="journal", what=kind, reason=error.strerror or str(error),
                hint="Make room on the disk of the run folder; what was journaled before is safe.",
            ) from None  # fmt: skip
        self._length += len(line)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_written(path: Path) -> bool:
    """Whether a run still writes this journal."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def read_journal(path: Path) -> Recorded:
    """Read a journal again; raises RecordError with the line that is wrong."""
    entries, torn = _entries(path)
    if not entries or not isinstance(entries[0], Begun):
        raise RecordError(path=path, reason="it does not begin with what the run was", hint="The run never began.")
    answered: list[tuple[Step, list[Outcome]]] = []
    ended = None
    for number, entry in enumerate(entries[1:], start=2):
        if ended is not None or isinstance(entry, Begun):
            raise RecordError(path=path, reason=f"line {number}: nothing may follow the end, or begin twice")
        if isinstance(entry, Asked):
            answered.append((entry.step, []))
        elif isinstance(entry, Ended):
            ended = entry
        elif not answered or not _answers(*answered[-1], entry.outcome):
            raise RecordError(path=path, reason=f"line {number}: an outcome that nothing asked for")
        else:
            answered[-1][1].append(entry.outcome)
    steps = tuple((step, tuple(outcomes)) for step, outcomes in answered)
    return Recorded(facts=entries[0].facts, answered=steps, ended=ended, torn=torn)


def _answers(step: Step, before: Sequence[Outcome], outcome: Outcome) -> bool:
    """Whether ``outcome`` is the next answer to a step that has had the outcomes ``before``."""
    if isinstance(step, Purge):
        return isinstance(outcome, Purged) and not before
    asked = step.stimuli[len(before) : len(before) + 1]
    return isinstance(outcome, Measurement) and asked == (outcome.stimulus,)


def _entries(path: Path) -> tuple[list[Entry], bool]:
    entries: list[Entry] = []
    checksum = 0
    for number, line in enumerate(_lines(path), start=1):
        if not line.endswith(b"\n"):
            return entries, True
        payload = line[_BEFORE:-_AFTER]
        checksum = zlib.crc32(payload, checksum)
        if line != _line(checksum, payload):
            raise RecordError(
                path=path, reason=f"line {number} is damaged, or a line before it is missing", hint=_DAMAGED
            )
        try:
            entries.append(_adapter().validate_json(payload, strict=True))
        except ValidationError as error:
            raise RecordError(path=path, reason=f"line {number}: {_first(error)}", hint=_DAMAGED) from None
    return entries, False


def _line(checksum: int, payload: bytes) -> bytes:
    return b'{"crc32":"%08x","entry":%b}\n' % (checksum, payload)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while line := file.readline(_LONGEST_LINE):
                if len(line) == _LONGEST_LINE:
                    raise RecordError(path=path, reason="a line is longer than any this suite writes")
                yield line
    except OSError as error:
        raise RecordError(path=path, reason=error.strerror or str(error)) from None


def _first(error: ValidationError) -> str:
    detail = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(str(part) for part in detail['loc'])}: {detail['msg']}"


@cache
def _adapter() -> TypeAdapter[Entry]:
    return TypeAdapter(Annotated[Entry, Field(discriminator="kind")])
