"""Reads the first and last entries of a journal, for lists of many runs; ``JournalReader`` checks every entry."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from datetime import datetime
from io import BufferedReader
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from ..errors import RecordError
from ..files import open_regular
from ..model.measurement import Sample
from ..model.steps import Round, Step, progress_label
from ..results.result import RunFacts
from .entries import AFTER, BEFORE, STEP, EndEntry, Entry, OutcomeEntry, StartEntry, StepEntry, adapter, line
from .folder import MAX_LINE_BYTES, unreadable, without_start_entry
from .journal_reader import require_torn_by_crash

_CHUNK_BYTES = 64 * 1024
_FINISHED = b'{"kind":"end","ending":"finished"'
_OUTCOME, _SAMPLE = b'{"kind":"outcome"', b'{"kind":"outcome","outcome":{"kind":"sample"'


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEnds:
    """The facts of a run, its last step with the number of its outcomes, and its end entry, if it has one.

    A finished run has no ``step``.  ``step_complete``: the last step has all its outcomes.  ``torn_bytes``: the
    length of an incomplete last line, else 0.  ``written``: time of the last change.
    """

    facts: RunFacts
    step: Step | None
    outcome_count: int
    step_complete: bool
    end: EndEntry | None
    torn_bytes: int
    written: datetime

    @property
    def position(self) -> str:
        """The step and point that the run has reached."""
        if self.step is None:
            finished = self.end is not None and self.end.ending == "finished"
            return "the end of the test" if finished else "the start"
        return f"the end of {self.step.label}" if self.step_complete else progress_label(self.step, self.outcome_count)


def read_start(file: IO[bytes], path: Path) -> tuple[StartEntry, bytes]:
    """Read the first entry of the journal at ``path``; return it and its line.  Raises RecordError."""
    first = file.readline(MAX_LINE_BYTES)
    payload = first[BEFORE:-AFTER]
    start = _parse_entry(path, payload) if first == line(zlib.crc32(payload), payload) else None
    if not isinstance(start, StartEntry):
        raise without_start_entry(path)
    return start, first


def read_ends(path: Path) -> JournalEnds:
    """Read the ends of a journal; raises RecordError if they are damaged."""
    try:
        with open_regular(path) as file:
            start, first = read_start(file, path)
            tail = _read_from_last_step(file, len(first))
            written = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime).astimezone()
    except OSError as error:
        raise unreadable(path, error) from None
    lines, _, torn = tail.rpartition(b"\n")
    payloads = [text[BEFORE : 1 - AFTER] for text in lines.splitlines()]
    first_entry = _parse_entry(path, payloads[0]) if payloads and payloads[0].startswith(STEP) else None
    outcomes = [payload for payload in payloads if payload.startswith(_OUTCOME)]
    last_outcome = _parse_entry(path, outcomes[-1]) if outcomes and outcomes[-1].startswith(_SAMPLE) else None
    last_entry = _parse_entry(path, payloads[-1]) if payloads else None
    if torn:
        require_torn_by_crash(path, last_entry, torn)
    sample = (
        last_outcome.outcome
        if isinstance(last_outcome, OutcomeEntry) and isinstance(last_outcome.outcome, Sample)
        else None
    )
    step, outcome_count = (
        first_entry.step if isinstance(first_entry, StepEntry) else None,
        sample.number if sample else len(outcomes),
    )
    return JournalEnds(
        facts=start.facts,
        step=step,
        outcome_count=outcome_count,
        torn_bytes=len(torn),
        written=written,
        step_complete=outcome_count == len(step.stimuli)
        if isinstance(step, Round)
        else bool(outcome_count) and sample is None,
        end=last_entry if isinstance(last_entry, EndEntry) else None,
    )


def _read_from_last_step(file: BufferedReader, start: int) -> bytes:
    """Return the bytes of a journal from its last complete step line on, or all from ``start`` if it has none.

    For a finished run, return the last line only.
    """
    end, chunk, tail = file.seek(0, os.SEEK_END), _CHUNK_BYTES, b""
    while start < end:
        chunk_start = max(start, end - chunk)
        file.seek(chunk_start)
        tail = file.read(end - chunk_start) + tail
        for marker in (_FINISHED, STEP):
            offset = tail.rfind(b'"entry":' + marker, 0, tail.rfind(b"\n") + 1) + len(b'"entry":') - BEFORE
            if offset >= 0:  # else the marker, or the start of its line, is in an earlier chunk
                return tail[offset:]
        end, chunk = chunk_start, 4 * chunk
    return tail


def _parse_entry(path: Path, payload: bytes) -> Entry:
    try:
        return adapter().validate_json(payload, strict=True)
    except ValidationError as error:
        reason = f"its first or last entries are invalid ({error.error_count()} errors)"
        raise RecordError(path=path, reason=reason, hint="snia-pts assess reports the line.") from None
