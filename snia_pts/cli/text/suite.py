"""Formats the results of several tests as lines of text and as JSON.  Nothing here prints."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...report.suite import NOT_RUN, Overview, TestLine
from ...report.tables import UNKNOWN
from ...results.attributes import whole_bytes_or_none
from ...units import capacity, number
from .formatting import table


def overview_lines(overview: Overview) -> Iterator[str]:
    """Yield the results of all tests as lines of text."""
    yield overview.verdict
    yield ""
    yield from table(
        ("test", "PTS conformant", "duration", "written", "drive fills"),
        ((line.title, line.conformance, line.duration, *_written_cells(overview, line)) for line in overview.lines),
    )
    for line in overview.lines:
        yield ""
        yield f"{line.title}: {line.verdict}"
        yield from (f"  {figure}" for figure in line.key_figures)


def _written_cells(overview: Overview, line: TestLine) -> tuple[str, str]:
    """Return the data that a test wrote, in bytes and in drive fills; unknown if it was not run."""
    if line.ending == NOT_RUN:
        return UNKNOWN, UNKNOWN
    if not math.isfinite(line.written_bytes):
        return "not reported", UNKNOWN
    fills = overview.fills(line.written_bytes)
    return line.lower_bound_prefix + capacity(line.written_bytes), number(fills) if math.isfinite(fills) else UNKNOWN


def overview_json(overview: Overview) -> list[dict[str, object]]:
    """Return the results of all tests in the JSON form of docs/formats.rst."""
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
        for line in overview.lines
    ]
