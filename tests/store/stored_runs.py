"""Rows of many comparable runs, made from those of one run: other starts, other keys, and figures times a factor."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from snia_pts.record.folder import RunFolder
from snia_pts.store import ingestion
from snia_pts.store.ingestion import Rows
from snia_pts.store.store import Store

_START = datetime(2026, 1, 1, tzinfo=UTC)


def rows_of(path: Path) -> Rows:
    """Return the rows of the run in a folder."""
    _, rows = ingestion.read(RunFolder.existing(path).path, lambda _identity: False)
    assert rows is not None
    return rows


def like(rows: Rows, day: int, factor: float = 1.0, **changes: Any) -> Rows:
    """Return the rows of a run like another one, which started on this day; every figure is times ``factor``."""
    started = (_START + timedelta(days=day)).isoformat(timespec="milliseconds")
    key = sha256(f"{day} {changes}".encode()).hexdigest()
    figures = tuple(
        (replace(figure, value=figure.value * factor), {**row, "value": figure.value * factor})
        for figure, row in rows.figures
    )
    return replace(rows, run={**rows.run, "key": key, "started": started, **changes}, figures=figures)


def put(store: Store, *runs: Rows) -> list[int]:
    """Add runs in one transaction; return their numbers."""
    with store._transaction() as connection:
        return [ingestion.write(connection, rows, None) for rows in runs]
