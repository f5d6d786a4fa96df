"""Reads a journal again, line by line, and believes nothing that is not checked."""

from __future__ import annotations

import re
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from .. import __version__
from ..errors import RecordError
from ..files import open_regular
from ..interruption import Interruption
from ..measurement import Idled, Measurement, Outcome, Prepared, Purged, Sample
from ..result import RunFacts
from ..steps import Idle, Prepare, Purge, Round, Step, Stretch, place
from .entries import AFTER, ASKED, BEFORE, RESUMED, Asked, Begun, Came, Ended, Entry, Resumed, adapter, line
from .folder import unreadable

_DAMAGED = "Take a copy from a backup; fio's own answers are still in evidence/."
#: What an intact line needs that this suite would not have written.
_ANOTHER_VERSION = (
    f"The line is whole, so another version of the suite wrote it: read the run with that one; this is {__version__}."
)
_LONGEST_LINE = 64 * 1024 * 1024


class Recorded:
    """A journal read again, an entry at a time: the facts first, then each step that stands, with its outcomes.

    ``ended``, ``torn`` (the last line is half), ``interruptions``, and ``length`` and ``checksum`` of all whole lines
    are known when ``answered`` is exhausted.
    """

    def __init__(self, path: Path) -> None:
        """Read what the run was; raises RecordError where that is not to be had."""
        self._path = path
        self._dropped = _dropped(path)
        self._entries = _joined(self._read())
        self._held: list[tuple[int, Entry | _Stop]] = []
        self._asked = 0
        self._standing: list[int] = []
        self._lost: dict[int, tuple[int, int]] = {}
        self.ended: Ended | None = None
        self.interruptions: list[Interruption] = []
        self.torn = False
        self.length = self.checksum = 0
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
            match entry:
                case Asked() if self.ended is None:
                    yield from self._step(entry.step)
                case _Stop() if self.ended is None:
                    self._interrupted(number, entry)
                case Ended() if self.ended is None:
                    self.ended = entry
                case Came() if self.ended is None:
                    raise self._wrong(number, "an outcome that nothing asked for")
                case _:
                    raise self._wrong(number, "nothing may follow the end, or begin twice")
        if self._dropped != self._lost.keys():
            raise RecordError(path=self._path, reason="it does not tell which of its steps stand", hint=_DAMAGED)

    def _step(self, step: Step) -> Iterator[tuple[Step, Iterator[Outcome]]]:
        """Give a step, unless it was asked for once more: then count what was lost with it."""
        ordinal, self._asked = self._asked, self._asked + 1
        self._standing.append(ordinal)
        outcomes = self._outcomes(step)
        if ordinal not in self._dropped:
            yield step, outcomes
            deque(outcomes, maxlen=0)
            return
        count = written = 0
        for outcome in outcomes:
            whole = isinstance(step, Stretch) and isinstance(outcome, Measurement)
            count += 1
            written = _written_bytes(outcome) + (0 if whole else written)
        self._lost[ordinal] = count, written

    def _interrupted(self, number: int, stop: _Stop, within: str = "") -> None:
        """Note an interruption; ``within`` names the point that a round goes on with."""
        resumed, lost = stop.resumed, self._standing[stop.resumed.kept :]
        if not 0 <= resumed.kept <= len(self._standing) or not self._lost.keys() >= set(lost):
            raise self._wrong(number, "more steps are to stand than there were")
        del self._standing[resumed.kept :]
        following = self._peek()
        went_on = following.step.label if isinstance(following, Asked) else "nothing"
        self.interruptions.append(
            Interruption(
                stopped=resumed.stopped, resumed=resumed.at, idle_seconds=resumed.idle_seconds, reason=resumed.reason,
                way=resumed.way, went_on=within or went_on, lost_outcomes=sum(self._lost[each][0] for each in lost),
                lost_bytes=sum(self._lost[each][1] for each in lost), changes=resumed.changes,
            )
        )  # fmt: skip

    def _outcomes(self, step: Step) -> Iterator[Outcome]:
        passed: list[Outcome] = []
        for number, entry in self._left():
            if isinstance(entry, Came):
                if not _answers(step, passed, entry.outcome):
                    raise self._wrong(number, "an outcome that nothing asked for")
                passed = passing(passed, entry.outcome)
                yield entry.outcome
            elif isinstance(entry, _Stop) and entry.resumed.kept == len(self._standing) and _in_midst(step, passed):
                self._interrupted(number, entry, place(step, len(passed)))
            else:
                self._held.append((number, entry))
                return

    def _left(self) -> Iterator[tuple[int, Entry | _Stop]]:
        """Give what is left to be read, what was held back first."""
        while entry := self._held.pop() if self._held else next(self._entries, None):
            yield entry

    def _peek(self) -> Entry | _Stop | None:
        following = next(self._left(), None)
        if following is None:
            return None
        self._held.append(following)
        return following[1]

    def _read(self) -> Iterator[tuple[int, Entry]]:
        for number, text in enumerate(_lines(self._path), start=1):
            if not text.endswith(b"\n"):
                self.torn = True
                return
            payload = text[BEFORE:-AFTER]
            checksum = zlib.crc32(payload, self.checksum)
            if text != line(checksum, payload):
                raise self._wrong(number, "it is damaged, or a line before it is missing")
            try:
                entry = adapter().validate_json(payload, strict=True)
            except ValidationError as error:
                raise self._wrong(number, _first(error), _ANOTHER_VERSION) from None
            self.checksum, self.length = checksum, self.length + len(text)
            yield number, entry

    def _wrong(self, number: int, reason: str, hint: str = _DAMAGED) -> RecordError:
        return RecordError(path=self._path, reason=f"line {number}: {reason}", hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stop:
    """Where a run was stopped, with an end of its own or without, and resumed."""

    resumed: Resumed


def _joined(entries: Iterator[tuple[int, Entry]]) -> Iterator[tuple[int, Entry | _Stop]]:
    """Take an early end and the entry that resumes the run for one: the run went on."""
    held: tuple[int, Ended] | None = None
    for number, entry in entries:
        if held is not None and not (isinstance(entry, Resumed) and held[1].ending != "finished"):
            yield held
        held = None
        if isinstance(entry, Ended):
            held = number, entry
        else:
            yield number, _Stop(resumed=entry) if isinstance(entry, Resumed) else entry
    if held is not None:
        yield held


def _dropped(path: Path) -> set[int]:
    """Return which of the steps that a journal asks for, by their order, no longer stand.

    A quick look, before any entry is checked; that the entries tell the same is checked when they are read.
    """
    standing: list[int] = []
    dropped: set[int] = set()
    asked = 0
    for text in _lines(path):
        if text.startswith(ASKED, BEFORE):
            standing.append(asked)
            asked += 1
        elif text.startswith(RESUMED, BEFORE) and text.endswith(b"\n"):
            kept = re.match(rb"\d{1,9}", text[BEFORE + len(RESUMED) :])
            lost = standing[int(kept[0]) if kept else 0 :]
            dropped.update(lost)
            del standing[len(standing) - len(lost) :]
    return dropped


def _in_midst(step: Step, outcomes: Sequence[Outcome]) -> bool:
    return isinstance(step, Round) and len(outcomes) < len(step.stimuli)


def _written_bytes(outcome: Outcome) -> int:
    """Return what an outcome says was written."""
    if isinstance(outcome, Sample):
        return outcome.write_bytes
    return outcome.write.transferred_bytes if isinstance(outcome, Measurement) else 0


def _answers(step: Step, before: Sequence[Outcome], outcome: Outcome) -> bool:
    """Whether ``outcome`` is the next answer to a step that has had the outcomes ``before``."""
    match step:
        case Purge():
            return isinstance(outcome, Purged) and not before
        case Idle():
            return isinstance(outcome, Idled) and not before
        case Prepare():
            return isinstance(outcome, Prepared) and not before
        case Round():
            asked = step.stimuli[len(before) : len(before) + 1]
            return isinstance(outcome, Measurement) and asked == (outcome.stimulus,)
        case Stretch():
            if before and isinstance(before[-1], Measurement):
                return False
            if isinstance(outcome, Sample):
                number = before[-1].number if before and isinstance(before[-1], Sample) else 0
                return outcome.number == number + 1 <= step.samples
            whole = isinstance(outcome, Measurement) and outcome.stimulus == step.stimulus
            return whole and bool(before or not step.samples)


def passing(before: list[Outcome], outcome: Outcome) -> list[Outcome]:
    """Return the outcomes of a step that tell whether it is answered: of samples the last."""
    return [outcome] if before and isinstance(before[-1], Sample) else [*before, outcome]


def is_answered(step: Step, outcomes: Sequence[Outcome]) -> bool:
    """Whether ``outcomes``, each an answer to ``step``, are all that it asked for."""
    if isinstance(step, Round):
        return len(outcomes) == len(step.stimuli)
    return bool(outcomes) and not isinstance(outcomes[-1], Sample)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with open_regular(path) as file:
            while text := file.readline(_LONGEST_LINE):
                if len(text) == _LONGEST_LINE:
                    raise RecordError(path=path, reason="a line is longer than any this suite writes")
                yield text
    except OSError as error:
        raise unreadable(path, error) from None


def _first(error: ValidationError) -> str:
    detail = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(str(part) for part in detail['loc'])}: {detail['msg']}"
