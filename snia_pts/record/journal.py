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
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from ..errors import HostFailed, RecordError
from ..files import open_regular
from ..measurement import Idled, Measurement, Outcome, Purged, Sample
from ..result import Ending, RunFacts
from ..steps import Idle, Purge, Round, Step, Stretch

if TYPE_CHECKING:
    from typing import Self

#: Bytes of a line before and after its entry.
_BEFORE, _AFTER = len(b'{"crc32":"01234567","entry":'), len(b"}\n")
_DAMAGED = "Take a copy from a backup; fio's own answers are still in evidence/."
_LONGEST_LINE = 64 * 1024 * 1024
_KEPT = "What was journaled before is safe."
#: What can be done about a journal that cannot be written.
_REMEDIES = {
    errno.ENOENT: "The journal is gone, and nothing of this run is kept from here on.",
    errno.ENOSPC: f"Make room on the disk of the run folder. {_KEPT}",
}


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
    step: Annotated[Purge | Stretch | Round | Idle, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """An outcome of the step asked last."""

    kind: Literal["came"] = "came"
    outcome: Annotated[Purged | Sample | Measurement | Idled, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Last entry: how the run ended."""

    kind: Literal["ended"] = "ended"
    ending: Ending
    detail: str
    at: str


Entry = Begun | Asked | Came | Ended


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back Ctrl-C, SIGTERM and SIGHUP until something is whole; they come after it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Journal:
    """Appends entries; each is on stable storage when ``append`` returns, unless the journal is not ``durable``."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self._durable = durable
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
            if self._durable:
                os.fdatasync(self._descriptor)
        except OSError as error:
            os.ftruncate(self._descriptor, self._length)
            raise HostFailed(
                step="journal", what=kind, reason=error.strerror or str(error),
                hint=_REMEDIES.get(error.errno or 0, f"Check the disk of the run folder. {_KEPT}"),
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


class Recorded:
    """A journal read again, an entry at a time: the facts first, then each step with the outcomes that came.

    ``ended`` and ``torn`` (the last line is half) are known when ``answered`` is exhausted.
    """

    def __init__(self, path: Path) -> None:
        """Read what the run was; raises RecordError where that is not to be had."""
        self._path = path
        self._entries = self._read()
        self._held: list[tuple[int, Entry]] = []
        self.ended: Ended | None = None
        self.torn = False
        first = next(self._entries, (0, None))[1]
        if not isinstance(first, Begun):
            raise RecordError(path=path, reason="it does not begin with what the run was", hint="The run never began.")
        self.facts: RunFacts = first.facts

    def answered(self) -> Iterator[tuple[Step, tuple[Outcome, ...]]]:
        """Give each step with its outcomes, in order; raises RecordError with the line that is wrong."""
        return ((step, tuple(outcomes)) for step, outcomes in self.steps())

    def steps(self) -> Iterator[tuple[Step, Iterator[Outcome]]]:
        """Give each step with its outcomes as they are read: what is left of them is read before the next step."""
        for number, entry in self._left():
            if self.ended is not None or not isinstance(entry, Asked | Ended):
                reason = (
                    "an outcome that nothing asked for"
                    if isinstance(entry, Came) and self.ended is None
                    else ("nothing may follow the end, or begin twice")
                )
                raise self._wrong(number, reason)
            if isinstance(entry, Ended):
                self.ended = entry
                continue
            outcomes = self._outcomes(entry.step)
            yield entry.step, outcomes
            deque(outcomes, maxlen=0)

    def _outcomes(self, step: Step) -> Iterator[Outcome]:
        passed: list[Outcome] = []
        for number, entry in self._left():
            if not isinstance(entry, Came):
                self._held.append((number, entry))
                return
            if not _answers(step, passed, entry.outcome):
                raise self._wrong(number, "an outcome that nothing asked for")
            passed = passing(passed, entry.outcome)
            yield entry.outcome

    def _left(self) -> Iterator[tuple[int, Entry]]:
        """Give what is left to be read, what was held back first."""
        while entry := self._held.pop() if self._held else next(self._entries, None):
            yield entry

    def _read(self) -> Iterator[tuple[int, Entry]]:
        checksum = 0
        for number, line in enumerate(_lines(self._path), start=1):
            if not line.endswith(b"\n"):
                self.torn = True
                return
            payload = line[_BEFORE:-_AFTER]
            checksum = zlib.crc32(payload, checksum)
            if line != _line(checksum, payload):
                raise self._wrong(number, "it is damaged, or a line before it is missing")
            try:
                yield number, _adapter().validate_json(payload, strict=True)
            except ValidationError as error:
                raise self._wrong(number, _first(error)) from None

    def _wrong(self, number: int, reason: str) -> RecordError:
        return RecordError(path=self._path, reason=f"line {number}: {reason}", hint=_DAMAGED)


def _answers(step: Step, before: Sequence[Outcome], outcome: Outcome) -> bool:
    """Whether ``outcome`` is the next answer to a step that has had the outcomes ``before``."""
    match step:
        case Purge():
            return isinstance(outcome, Purged) and not before
        case Idle():
            return isinstance(outcome, Idled) and not before
        case Round():
            asked = step.stimuli[len(before) : len(before) + 1]
            return isinstance(outcome, Measurement) and asked == (outcome.stimulus,)
        case Stretch():
            if before and isinstance(before[-1], Measurement):
                return False
            if isinstance(outcome, Sample):
                number = before[-1].number if before and isinstance(before[-1], Sample) else 0
                return outcome.number == number + 1 <= step.samples
            return isinstance(outcome, Measurement) and outcome.stimulus == step.stimulus


def passing(before: list[Outcome], outcome: Outcome) -> list[Outcome]:
    """Return the outcomes of a step that tell whether it is answered: of samples the last."""
    return [outcome] if before and isinstance(before[-1], Sample) else [*before, outcome]


def is_answered(step: Step, outcomes: Sequence[Outcome]) -> bool:
    """Whether ``outcomes``, each an answer to ``step``, are all that it asked for."""
    if isinstance(step, Round):
        return len(outcomes) == len(step.stimuli)
    return bool(outcomes) and not isinstance(outcomes[-1], Sample)


def _line(checksum: int, payload: bytes) -> bytes:
    return b'{"crc32":"%08x","entry":%b}\n' % (checksum, payload)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with open_regular(path) as file:
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
