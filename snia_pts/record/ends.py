"""Reads the first and last entries of a journal, for lists of many runs; ``JournalReader`` checks the whole."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from datetime import datetime
from io import BufferedReader
from pathlib import Path

from pydantic import ValidationError

from ..errors import RecordError
from ..files import open_regular
from ..model.measurement import Sample
from ..model.steps import Round, Step, place
from ..results.result import RunFacts
from .entries import AFTER, BEFORE, STEP, EndEntry, Entry, OutcomeEntry, StartEntry, StepEntry, adapter, line
from .folder import LONGEST_LINE, unreadable

_CHUNK_BYTES = 64 * 1024
_FINISHED = b'{"kind":"end","ending":"finished"'
_CAME, _SAMPLE = b'{"kind":"outcome"', b'{"kind":"outcome","outcome":{"kind":"sample"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The facts of a run, its last step with the number of its outcomes, and its end entry, if it has one.

    A finished run has no ``step``.  ``torn``: the last line is incomplete.  ``written``: time of the last change.
    """

    facts: RunFacts
    step: Step | None
    came: int
    answered: bool
    ended: EndEntry | None
    torn: bool
    written: datetime

    @property
    def where(self) -> str:
        """The step and point that the run has reached."""
        if self.step is None:
            finished = self.ended is not None and self.ended.ending == "finished"
            return "the end of the test" if finished else "the beginning"
        return f"the end of {self.step.label}" if self.answered else place(self.step, self.came)


def read_ends(path: Path) -> Ends:
    """Read the ends of a journal; raises RecordError if they are damaged."""
    try:
        with open_regular(path) as file:
            first = file.readline(LONGEST_LINE)
            tail = _from_last_step(file, len(first))
            written = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime).astimezone()
    except OSError as error:
        raise unreadable(path, error) from None
    payload = first[BEFORE:-AFTER]
    start = _entry(path, payload) if first == line(zlib.crc32(payload), payload) else None
    if not isinstance(start, StartEntry):
        raise RecordError(path=path, reason="the first entry is not a start entry", hint="The run never began.")
    whole = [text[BEFORE:-AFTER] for text in tail.splitlines(keepends=True) if text.endswith(b"\n")]
    asked = _entry(path, whole[0]) if whole and whole[0].startswith(STEP) else None
    outcomes = [payload for payload in whole if payload.startswith(_CAME)]
    latest = _entry(path, outcomes[-1]) if outcomes and outcomes[-1].startswith(_SAMPLE) else None
    last = _entry(path, whole[-1]) if whole else None
    sample = latest.outcome if isinstance(latest, OutcomeEntry) and isinstance(latest.outcome, Sample) else None
    step, came = asked.step if isinstance(asked, StepEntry) else None, sample.number if sample else len(outcomes)
    return Ends(
        facts=start.facts,
        step=step,
        came=came,
        torn=not (tail or first).endswith(b"\n"),
        written=written,
        answered=came == len(step.stimuli) if isinstance(step, Round) else bool(came) and sample is None,
        ended=last if isinstance(last, EndEntry) else None,
    )


def _from_last_step(file: BufferedReader, start: int) -> bytes:
    """Return the bytes of a journal from the line of its last step on, or all from ``start`` if it has no step.

    Of a finished run that is the last line alone.
    """
    end, chunk, tail = file.seek(0, os.SEEK_END), _CHUNK_BYTES, b""
    while start < end:
        begin = max(start, end - chunk)
        file.seek(begin)
        tail = file.read(end - begin) + tail
        for mark in (_FINISHED, STEP):
            if (found := tail.rfind(b'"entry":' + mark)) >= 0:
                return tail[max(0, found + len(b'"entry":') - BEFORE) :]
        end, chunk = begin, 4 * chunk
    return tail


def _entry(path: Path, payload: bytes) -> Entry:
    try:
        return adapter().validate_json(payload, strict=True)
    except ValidationError as error:
        reason = f"an entry at its beginning or end is invalid ({error.error_count()} errors)"
        raise RecordError(path=path, reason=reason, hint="snia-pts assess names the line.") from None
