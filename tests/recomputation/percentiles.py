"""The matrices of response time percentiles of a test's points, reads and writes apart, and their table of data."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np

from tests.recomputation.matrices import mark_of
from tests.recomputation.printed import Expected, PrintedTable
from tests.recomputation.record import Row, added, answers, measurements, percentile, rows, window_of

NAMES = r"(Reads|Writes|Reads and writes): (I/Os|[0-9.]+ % response time \(ms\)(?:, n/a: fewer than \d+ I/Os)?)"
#: A percentile is the time that all but one in so many I/Os do not exceed.
_ONE_IN = {"50": 2, "99": 100, "99.9": 1000, "99.99": 10_000, "99.999": 100_000}
_COLUMNS = {
    "median_response_us": 2,
    "two_nines_response_us": 100,
    "three_nines_response_us": 1000,
    "four_nines_response_us": 10_000,
    "five_nines_response_us": 100_000,
}


def of_one_side(run: Path, measured: list[Row], side: str) -> tuple[int, dict[int, int], int]:
    """Return the number of reads or writes of measurements, their bins, and the longest response time in ns."""
    parts = answers(run, measured)[("read", "write").index(side) :: 2]
    ios = sum(part["total_ios"] for part in parts)
    bins = added(part["lat_ns"].get("bins", {}) for part in parts)
    return ios, bins, max(part["lat_ns"]["max"] for part in parts)


def matrix(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return the counts of I/Os, or a percentile, of the points of a matrix; nan without enough I/Os."""
    name, _, what = table.title.partition(": ")
    demand = table.heading[0] == "Thread Count"
    keys = ("thread_count", "queue_depth") if demand else ("block_size_bytes", "read_percent")
    points = {tuple(row[key] for key in keys): row for row in rows(run, "points")}
    cells: list[list[Expected]] = []
    marks: dict[tuple[int, int], str] = {}
    seen: set[tuple[str, str, str]] = set()
    for number, (label, *_) in enumerate(table.body):
        down = label if demand else str(round(1024 * float(label)))
        line: list[Expected] = [label]
        for at, heading in enumerate(table.heading[1:], start=1):
            side = (heading.partition(" ")[0] if name == "Reads and writes" else name).lower().removesuffix("s")
            across = re.sub(r"^((Reads|Writes) )?(R/W |QD )", "", heading).partition("/")[0]
            point = points[down, across]
            seen.add((side, down, across))
            ios, bins, greatest = of_one_side(run, window_of(run, point), side)
            assert sum(bins.values()) == ios
            if what == "I/Os":
                line.append(ios)
                continue
            time_ms = percentile(bins, _ONE_IN[what.partition(" ")[0]], greatest) / 1000
            line.append(time_ms)
            if not np.isnan(time_ms) and (mark := mark_of(run, point)):
                marks[number, at] = mark
        cells.append(line)
    sides = ("read", "write") if name == "Reads and writes" else (name.lower().removesuffix("s"),)
    nothing = {"read": "0", "write": "100"}
    assert seen == {
        (side, *key) for key, row in points.items() for side in sides if row["read_percent"] != nothing[side]
    }
    assert table.marks == marks
    if what != "I/Os":
        least = _ONE_IN[what.partition(" ")[0]]
        is_missing = any(isinstance(value, float) and math.isnan(value) for line in cells for value in line)
        assert what.endswith(f"(ms), n/a: fewer than {least} I/Os" if is_missing else "(ms)")
    return cells


def data_rows(run: Path) -> list[tuple[dict[str, str], list[float]]]:
    """Return the key of each row that the table of percentiles must have, with its numbers, in any order."""
    found: list[tuple[dict[str, str], list[float]]] = []
    groups = [
        ("round", point["part"] if "part" in point else point["point"], point, window_of(run, point))
        for point in rows(run, "points")
    ]
    for part in dict.fromkeys(row["part"] for row in measurements(run, "histogram")):
        measured = measurements(run, "histogram", part)
        groups.append(("histogram", part, measured[0], measured))
    for phase, part, named, measured in groups:
        for side in ("read", "write"):
            ios, bins, greatest = of_one_side(run, measured, side)
            if ios:
                key = {"phase": phase, "part": part, "point": named["point"], "direction": side}
                key |= {name: named[name] for name in ("thread_count", "queue_depth")}
                times = [percentile(bins, one_in, greatest) for one_in in _COLUMNS.values()]
                found.append((key, [float(ios), *times, greatest / 1000]))
    return found


COLUMNS = ("ios", *_COLUMNS, "maximum_response_us")
