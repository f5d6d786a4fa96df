"""The tables of a drive's own log: from the readings in the journal, and the bytes that the test wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.recomputation.printed import Expected, PrintedTable, Text, in_decimal_unit, labelled, text
from tests.recomputation.record import column, journal, performed

#: NVMe's unit of a log's bytes.
_DATA_UNIT = 512_000


def _log(run: Path, *, after: bool) -> dict[str, Any]:
    """Return the figures of the log before or after the test, by their names."""
    entries = journal(run)
    (found,) = (entry for entry in entries if entry["kind"] == ("end" if after else "start"))
    health = found["health"] if after else found["facts"]["health"]
    return {figure["name"]: figure for figure in health["figures"]}


def _amount(amount_bytes: float) -> Text:
    value, unit = in_decimal_unit(amount_bytes)
    return text(f"{{}} {unit}", value)


def counters(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return each figure before and after the test, and its increase."""
    before, after = _log(run, after=False), _log(run, after=True)
    cells: list[list[Expected]] = []
    for name, figure in before.items():
        start, end, unit = float(figure["value"]), float(after[name]["value"]), figure["unit"]
        values = (start, end, end - start)
        shown = [_amount(value) if unit == "bytes" else text(f"{{}} {unit}", value) for value in values]
        cells.append([name, *shown, figure["source"]])
    return cells


def readings(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return the write amplification; the host wrote what the test counted, but for a part of a unit of the log."""
    before, after = _log(run, after=False), _log(run, after=True)
    written = float(column(performed(run), "write_bytes").sum())
    names = ("Physical Media Units Written", "Data Units Written")
    media, host = (float(after[name]["value"]) - float(before[name]["value"]) for name in names)
    assert 0 <= written - host <= _DATA_UNIT
    sides = [
        f"{_amount(value).template} {where} ({name}, simulated log)"
        for value, where, name in zip((media, host), ("on the media", "by the host"), names, strict=True)
    ]
    figures = [*_amount(media).figures, *_amount(host).figures]
    total = _amount(written)
    expected: dict[str, Expected] = {
        "Before the test": None,
        "After the test": None,
        "Write amplification": text(f"{{}}: {' for '.join(sides)}", media / host, *figures),
        "Written by the test": text(f"{total.template}, as counted by the test", *total.figures),
    }
    return labelled(table, expected)
