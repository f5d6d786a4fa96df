"""The results of several tests, as lines of text and as JSON.  Nothing here prints."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...report.suite import NOT_RUN, Overview, TestLine
from ...report.tables import UNKNOWN
from ...results.points import whole_bytes_or_none
from ...units import capacity, number
from .formatting import table


def overview_lines(told: Overview) -> Iterator[str]:
    """What became of all tests, as lines of text."""
    yield told.verdict
    yield ""
    yield from table(
        ("test", "PTS conformant", "duration", "written", "drive fills"),
        ((line.title, line.conformance, line.duration, *_written(told, line)) for line in told.lines),
    )
    for line in told.lines:
        yield ""
        yield f"{line.title}: {line.verdict}"
        yield from (f"  {figure}" for figure in line.key_figures)


def _written(told: Overview, line: TestLine) -> tuple[str, str]:
    """How much a test wrote, and how often that fills the drive, as far as it was run, and tells."""
    if line.ending == NOT_RUN:
        return UNKNOWN, UNKNOWN
    if not math.isfinite(line.written_bytes):
        return "not told", UNKNOWN
    fills = told.fills(line.written_bytes)
    return line.least + capacity(line.written_bytes), number(fills) if math.isfinite(fills) else UNKNOWN


def overview_json(told: Overview) -> list[dict[str, object]]:
    """What became of all tests, for programs."""
    return [
        {
            "test": line.test,
            "verdict": line.verdict,
            "ending": line.ending,
            "achieved": line.achieved,
            "conformance": line.conformance,
            "key_figures": list(line.key_figures),
            "started": line.started,
            "finished": line.finished,
            "written_bytes": whole_bytes_or_none(line.written_bytes),
            "report": line.report,
        }
        for line in told.lines
    ]
