"""The matrices of all points of a test's loop, and the figures of a point over its measurement window."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.recomputation import host
from tests.recomputation.printed import Expected, PrintedTable
from tests.recomputation.record import (
    Row,
    achieved,
    answers,
    column,
    determination,
    facts,
    is_imported,
    is_profile,
    is_sampled,
    rate,
    reported,
    response_times,
    rows,
    series,
    window_of,
)
from tests.recomputation.tkperf import Figures


def is_limited(run: Path, point: Row) -> bool:
    """Return whether the host limited a point, which its number must say."""
    return host.limited(run, window_of(run, point)) is True


def excursions(run: Path, point: Row) -> tuple[float, float] | None:
    """Return data and slope excursion of a point of a steady loop in percent; None of a loop that is not steady."""
    loops = [name for name in series(run) if not is_sampled(run, name) and point["part"] in ("", name)]
    if is_profile(run) or not loops or not achieved(run, loops[0]):
        return None
    metric = "average_ms" if facts(run)["test"] == "latency" else "iops"
    window = {number: figures[metric] for number, figures in enumerate(by_round(run, point), start=1)}
    found = determination(window, len(window), len(window))
    data, slope = (100 * found[f"{kind}_excursion"] / found["average"] for kind in ("data", "slope"))
    return data, slope


def is_unsteady(run: Path, point: Row) -> bool:
    """Return whether a point exceeds 20 % or 10 % in the window of a loop that is steady."""
    found = excursions(run, point)
    return found is not None and (found[0] > 20 or found[1] > 10)


def mark_of(run: Path, point: Row) -> str:
    """Return the mark that a number of a point must have; empty if it needs none."""
    return "\N{DAGGER}" * is_limited(run, point) + "\N{DOUBLE DAGGER}" * is_unsteady(run, point)


def over_window(run: Path, point: Row) -> dict[str, float]:
    """Return the figures of a point over its window: means of the rounds' rates, response times of all I/Os."""
    window = window_of(run, point)
    if is_imported(run):
        return _over_reported([reported(run, row) for row in window])
    rounds = [answers(run, [row]) for row in window]
    times = response_times([part for parts in rounds for part in parts])
    cpu = column(window, "host_cpu_percent")
    return {
        "iops": float(np.mean([rate(parts, "total_ios") for parts in rounds])),
        "mb_per_second": float(np.mean([rate(parts, "io_bytes") for parts in rounds])) / 1e6,
        "average_ms": times["average_response_us"] / 1000,
        "five_nines_ms": times["five_nines_response_us"] / 1000,
        "maximum_ms": times["maximum_response_us"] / 1000,
        "mean_maximum_ms": float(np.mean([max(part["lat_ns"]["max"] for part in parts) for parts in rounds])) / 1e6,
        "host_cpu_percent": float(cpu.mean()) if len(cpu) else np.nan,
    }


def by_round(run: Path, point: Row) -> list[dict[str, float]]:
    """Return the IOPS and the ART of a point in each round of its window."""
    window = window_of(run, point)
    if is_imported(run):
        return [reported(run, row) for row in window]
    each = [answers(run, [row]) for row in window]
    return [
        {"iops": rate(parts, "total_ios"), "average_ms": response_times(parts)["average_response_us"] / 1000}
        for parts in each
    ]


def _over_reported(window: Sequence[Figures]) -> dict[str, float]:
    """Return the figures of a point in another tool's file: means of the rounds, which have no counts, and MRT."""
    means = {key: float(np.mean([figures[key] for figures in window])) for key in window[0]}
    greatest = max(figures["maximum_ms"] for figures in window)
    missing = dict.fromkeys(("five_nines_ms", "host_cpu_percent"), np.nan)
    return {**means, **missing, "maximum_ms": greatest, "mean_maximum_ms": means["maximum_ms"]}


#: The figure that each matrix shows, by the beginning of its title.
_MATRICES = {
    "IOPS": "iops",
    "Throughput (MB/s, decimal)": "mb_per_second",
    "Average response time (ms), weighted by I/O count": "average_ms",
    "Average response time (ms), mean of the rounds' averages": "average_ms",
    "Maximum response time (ms), mean of the rounds' maxima": "mean_maximum_ms",
    "Maximum response time (ms)": "maximum_ms",
    "99.999 % response time (ms)": "five_nines_ms",
    "Host CPU utilisation by all processes (%)": "host_cpu_percent",
}
NAMES = "|".join(f"{re.escape(title)}(, .*)?" for title in _MATRICES)


def matrix(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return a matrix: block sizes by R/W mixes, or Thread Counts by Queue Depths; nan without a point.

    A number that the host limited, or of a point that is not steady, has a mark; a cell without a number, and the use
    of the host's CPUs, have none.
    """
    figure = next(key for title, key in _MATRICES.items() if table.title.startswith(title))
    keys = ("block_size_bytes", "read_percent")
    if table.heading[0] == "Thread Count":
        keys = ("thread_count", "queue_depth")
    points = {tuple(row[key] for key in keys): row for row in rows(run, "points")}
    cells: list[list[Expected]] = []
    marks: dict[tuple[int, int], str] = {}
    for number, (label, *_) in enumerate(table.body):
        down = label if keys[0] == "thread_count" else str(round(1024 * float(label)))
        across = [re.sub(r"^(R/W |QD )", "", heading).partition("/")[0] for heading in table.heading[1:]]
        row = [points.pop((down, place), None) for place in across]
        figures = [over_window(run, point)[figure] if point else np.nan for point in row]
        for at, (point, value) in enumerate(zip(row, figures, strict=True), start=1):
            if point and not np.isnan(value) and figure != "host_cpu_percent" and (mark := mark_of(run, point)):
                marks[number, at] = mark
        cells.append([label, *figures])
    assert not points, "a point is in no cell"
    assert table.marks == marks
    if figure == "five_nines_ms" and keys[0] == "thread_count":
        is_missing = any(isinstance(value, float) and math.isnan(value) for line in cells for value in line)
        assert table.title.endswith(", n/a: fewer than 100000 I/Os") == is_missing
    return cells
