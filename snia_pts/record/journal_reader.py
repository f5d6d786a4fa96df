"""Reads a journal line by line, and checks every entry."""

from __future__ import annotations

import re
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from pydantic import ValidationError

from .. import __version__
from ..errors import RecordError
from ..files import open_regular
from ..model.content_state import ContentState
from ..model.measurement import IdleOutcome, Measurement, Outcome, PrepareOutcome, PurgeOutcome, Sample
from ..model.steps import ContinuousStimulus, Idle, Prepare, Purge, Round, Step, progress_label
from ..results.interruption import Interruption
from ..results.result import RunFacts, RunWarning
from ..units import MIB, counted
from .entries import (
    AFTER,
    BEFORE,
    RESUME,
    STEP,
    EndEntry,
    Entry,
    OutcomeEntry,
    ResumeEntry,
    StartEntry,
    StepEntry,
    adapter,
    is_start_of_resume,
    line,
)
from .folder import MAX_LINE_BYTES, unreadable, without_start_entry

_DAMAGED = "Restore the journal from a backup; fio's answers are still in evidence/."
#: Hint for an intact line that this version cannot have written.
_ANOTHER_VERSION = f"Another version of snia-pts wrote this intact line; use that version. This is {__version__}."


class JournalReader:
    """Reads the entries of a journal in order: the facts at once, then each valid step with its outcomes.

    A step that a resume discarded is skipped.  These are set once ``steps`` is exhausted: ``end`` (None in a run
    that was killed), ``torn_bytes`` (the length of an incomplete last line, else 0), ``interruptions``, ``evidence``
    (the digest of each file by its name), ``warnings`` (of all end entries), ``discarded`` (the measurements of steps
    that were discarded), ``last_content`` (the state of the target's content after the last outcome), ``length``
    (bytes) and ``checksum`` of all complete lines, and ``sha256``, the digest of the whole file.
    """

    def __init__(self, path: Path) -> None:
        """Read the start entry; raises RecordError if the first entry is another one."""
        self._path = path
        self._discarded = _discarded_steps(path)
        self._entries = _without_early_ends(self._read())
        self._pushed_back: list[tuple[int, Entry]] = []
        self._step_count = 0
        self._valid_steps: list[int] = []
        self._discarded_counts: dict[int, tuple[int, int]] = {}
        self._digest = sha256()
        self.end: EndEntry | None = None
        self.interruptions: list[Interruption] = []
        self.warnings: list[RunWarning] = []
        self.evidence: dict[str, str] = {}
        self.discarded: list[Measurement] = []
        self.last_content: ContentState | None = None
        self.torn_bytes = self.length = self.checksum = 0
        first = next(self._entries, (0, None))[1]
        if not isinstance(first, StartEntry):
            raise without_start_entry(path)
        self.facts: RunFacts = first.facts

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def steps(self) -> Iterator[tuple[Step, Iterator[Outcome]]]:
        """Yield each valid step with an iterator of its outcomes, which is exhausted before the next step.

        Raises RecordError with the number of the invalid line.
        """
        for number, entry in self._remaining():
            match entry:
                case StepEntry() if self.end is None:
                    yield from self._step(entry.step)
                case ResumeEntry() if self.end is None:
                    self._add_interruption(number, entry)
                case EndEntry() if self.end is None:
                    self.end = entry
                case OutcomeEntry() if self.end is None:
                    raise self._invalid(number, "this outcome has no step")
                case _:
                    raise self._invalid(number, "unexpected entry: a second start entry, or an entry after the end")
        if self._discarded != self._discarded_counts.keys():
            raise RecordError(path=self._path, reason="its resume entries contradict its steps", hint=_DAMAGED)

    def _step(self, step: Step) -> Iterator[tuple[Step, Iterator[Outcome]]]:
        """Yield a valid step; count the outcomes of a discarded one."""
        ordinal, self._step_count = self._step_count, self._step_count + 1
        self._valid_steps.append(ordinal)
        outcomes = self._outcomes(step)
        if ordinal not in self._discarded:
            yield step, outcomes
            deque(outcomes, maxlen=0)
            return
        count = written_bytes = 0
        for outcome in outcomes:
            complete = isinstance(step, ContinuousStimulus) and isinstance(outcome, Measurement)
            if isinstance(outcome, Measurement):
                self.discarded.append(outcome)
            count += 1
            written_bytes = _written_bytes(outcome) + (0 if complete else written_bytes)
        self._discarded_counts[ordinal] = count, written_bytes

    def _add_interruption(self, number: int, resume: ResumeEntry, position: str = "") -> None:
        """Store an interruption; ``position`` is the point at which an incomplete round continues."""
        discarded = self._valid_steps[resume.kept_steps :]
        if not 0 <= resume.kept_steps <= len(self._valid_steps) or not self._discarded_counts.keys() >= set(discarded):
            raise self._invalid(number, "it keeps more steps than the journal has")
        del self._valid_steps[resume.kept_steps :]
        following = self._peek()
        self.interruptions.append(
            Interruption(
                stopped=resume.stopped,
                resumed=resume.at,
                idle_seconds=resume.idle_seconds,
                reason=resume.reason,
                policy=resume.policy,
                next_step=position or (following.step.label if isinstance(following, StepEntry) else "nothing"),
                discarded_outcomes=sum(self._discarded_counts[ordinal][0] for ordinal in discarded),
                discarded_bytes=sum(self._discarded_counts[ordinal][1] for ordinal in discarded),
                changes=resume.changes,
            )
        )

    def _outcomes(self, step: Step) -> Iterator[Outcome]:
        outcomes: list[Outcome] = []
        for number, entry in self._remaining():
            if isinstance(entry, OutcomeEntry):
                if not _is_next_outcome(step, outcomes, entry.outcome):
                    raise self._invalid(number, f"this outcome does not belong to {step.label}")
                outcomes = append_outcome(outcomes, entry.outcome)
                yield entry.outcome
            elif (
                isinstance(entry, ResumeEntry)
                and entry.kept_steps == len(self._valid_steps)
                and _is_partial(step, outcomes)
            ):
                self._add_interruption(number, entry, progress_label(step, len(outcomes)))
            else:
                self._pushed_back.append((number, entry))
                return

    def _remaining(self) -> Iterator[tuple[int, Entry]]:
        while entry := self._pushed_back.pop() if self._pushed_back else next(self._entries, None):
            yield entry

    def _peek(self) -> Entry | None:
        following = next(self._remaining(), None)
        if following is None:
            return None
        self._pushed_back.append(following)
        return following[1]

    def _read(self) -> Iterator[tuple[int, Entry]]:
        entry: Entry | None = None
        for number, text in enumerate(_lines(self._path), start=1):
            self._digest.update(text)
            if not text.endswith(b"\n"):
                self.torn_bytes = len(text)
                require_torn_by_crash(self._path, entry, text)
                return
            entry, checksum = read_entry(self._path, number, text, self.checksum)
            self.checksum, self.length = checksum, self.length + len(text)
            if not isinstance(entry, StepEntry):
                self.evidence.update(entry.evidence)
            if isinstance(entry, EndEntry):
                self.warnings += entry.warnings
            if isinstance(entry, OutcomeEntry):
                self.last_content = entry.content
            yield number, entry

    def _invalid(self, number: int, reason: str) -> RecordError:
        return _invalid_line(self._path, number, reason)


def read_entry(path: Path, number: int, text: bytes, checksum: int) -> tuple[Entry, int]:
    """Return the entry of a journal's complete line ``number``, and the checksum up to this line.

    ``checksum`` is that up to the line before.  Raises RecordError.
    """
    payload = text[BEFORE:-AFTER]
    checksum = zlib.crc32(payload, checksum)
    if text != line(checksum, payload):
        raise _invalid_line(path, number, "it is damaged, or a line before it is missing")
    try:
        return adapter().validate_json(payload, strict=True), checksum
    except ValidationError as error:
        raise _invalid_line(path, number, _first_error(error), _ANOTHER_VERSION) from None


def _invalid_line(path: Path, number: int, reason: str, hint: str = _DAMAGED) -> RecordError:
    return RecordError(path=path, reason=f"line {number}: {reason}", hint=hint)


def _without_early_ends(entries: Iterator[tuple[int, Entry]]) -> Iterator[tuple[int, Entry]]:
    """Omit each end entry, other than that of a finished run, that a resume entry follows."""
    end: tuple[int, EndEntry] | None = None
    for number, entry in entries:
        if end is not None and not (isinstance(entry, ResumeEntry) and end[1].ending != "finished"):
            yield end
        end = None
        if isinstance(entry, EndEntry):
            end = number, entry
        else:
            yield number, entry
    if end is not None:
        yield end


def require_torn_by_crash(path: Path, last: Entry | None, text: bytes) -> None:
    """Raise RecordError unless a crash can leave ``text``, a line without its newline, after the entry ``last``.

    After the end entry of a stopped run, that is the first entry of a resume; after that of a finished run, nothing.
    """
    if isinstance(last, EndEntry) and (last.ending == "finished" or not is_start_of_resume(text)):
        reason = f"{counted(len(text), 'byte')} after its end entry: the file was altered after the run"
        raise RecordError(path=path, reason=reason, hint=_DAMAGED)


def end_detail(end: EndEntry | None, torn_bytes: int) -> str:
    """Return why a run ended, and how many bytes of an incomplete last line are ignored."""
    ignored = f"({counted(torn_bytes, 'byte')} ignored)"
    if end is None:
        torn = f" while it wrote a line {ignored}" if torn_bytes else ""
        return f"the journal has no end entry: the suite or the host died{torn}"
    torn = f"; a resume of the run died while it wrote its first entry {ignored}" if torn_bytes else ""
    return f"{end.detail.rstrip('.')}{torn}" if torn else end.detail


def _discarded_steps(path: Path) -> set[int]:
    """Return the ordinals of the steps that a resume discarded.

    This pass does not validate entries; ``steps`` checks that they agree with it.
    """
    valid: list[int] = []
    discarded: set[int] = set()
    count = 0
    for text in _lines(path):
        if text.startswith(STEP, BEFORE):
            valid.append(count)
            count += 1
        elif text.startswith(RESUME, BEFORE) and text.endswith(b"\n"):
            kept_steps = re.match(rb"\d{1,9}", text[BEFORE + len(RESUME) :])
            lost = valid[int(kept_steps[0]) if kept_steps else 0 :]
            discarded.update(lost)
            del valid[len(valid) - len(lost) :]
    return discarded


def _is_partial(step: Step, outcomes: Sequence[Outcome]) -> bool:
    return isinstance(step, Round) and len(outcomes) < len(step.stimuli)


def _written_bytes(outcome: Outcome) -> int:
    """Return how many bytes an outcome reports as written."""
    if isinstance(outcome, Sample):
        return outcome.write_bytes
    return outcome.write.transferred_bytes if isinstance(outcome, Measurement) else 0


def _is_next_outcome(step: Step, before: Sequence[Outcome], outcome: Outcome) -> bool:
    """Return whether ``outcome`` can follow the outcomes ``before`` of a step."""
    match step:
        case Purge():
            return isinstance(outcome, PurgeOutcome) and not before
        case Idle():
            return isinstance(outcome, IdleOutcome) and not before
        case Prepare():
            return isinstance(outcome, PrepareOutcome) and not before
        case Round():
            expected = step.stimuli[len(before) : len(before) + 1]
            return isinstance(outcome, Measurement) and expected == (outcome.stimulus,)
        case ContinuousStimulus():
            if before and isinstance(before[-1], Measurement):
                return False
            if isinstance(outcome, Sample):
                number = before[-1].number if before and isinstance(before[-1], Sample) else 0
                return outcome.number == number + 1 <= step.samples
            complete = isinstance(outcome, Measurement) and outcome.stimulus == step.stimulus
            return complete and bool(before or not step.samples)


def append_outcome(before: list[Outcome], outcome: Outcome) -> list[Outcome]:
    """Return the outcomes of a step that ``is_complete`` needs; of samples, only the last."""
    return [outcome] if before and isinstance(before[-1], Sample) else [*before, outcome]


def is_complete(step: Step, outcomes: Sequence[Outcome]) -> bool:
    """Return whether ``outcomes`` are all outcomes of ``step``."""
    if isinstance(step, Round):
        return len(outcomes) == len(step.stimuli)
    return bool(outcomes) and not isinstance(outcomes[-1], Sample)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with open_regular(path) as file:
            while text := file.readline(MAX_LINE_BYTES):
                if len(text) == MAX_LINE_BYTES:
                    raise RecordError(path=path, reason=f"a line is longer than {MAX_LINE_BYTES // MIB} MiB")
                yield text
    except OSError as error:
        raise unreadable(path, error) from None


def _first_error(error: ValidationError) -> str:
    detail = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(str(part) for part in detail['loc'])}: {detail['msg']}"
