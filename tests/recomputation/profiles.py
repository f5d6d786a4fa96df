"""The tables of a workload profile: its points over all repeats, matrices, zones, and effects of settings."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.recomputation.key_figures import Figure, difference, finish_seconds
from tests.recomputation.matrices import is_limited, over_window
from tests.recomputation.printed import Expected, PrintedTable, Text, check_number, printed_tables, text
from tests.recomputation.record import (
    Array,
    Row,
    answer_document,
    answers,
    column,
    is_imported,
    percentile_ms,
    rate,
    reported,
    response_times,
    rows,
    synchronizing_calls,
    window_of,
)

#: The column of measurements that each axis of a matrix varies, and the factor from its labels.
_AXES = {
    "queue depth": ("queue_depth", 1),
    "thread count": ("thread_count", 1),
    "block size (kib)": ("block_size_bytes", 1024),
    "range (mib)": ("range_bytes", 1024**2),
    "range (gib)": ("range_bytes", 1024**3),
    "duration (s)": ("seconds", 1),
}


def points(run: Path) -> list[Row]:
    """Return the points in the order of their workloads, and within a workload in that of their measurements."""
    found = rows(run, "points")
    workloads = list(dict.fromkeys(_workload(row) for row in _in_order_of_the_file(run, found)))
    return sorted(found, key=lambda row: workloads.index(_workload(row)))


def _in_order_of_the_file(run: Path, found: Sequence[Row]) -> list[Row]:
    """Return the points as they were measured: all workloads of the file follow each other at each place."""
    order = list(dict.fromkeys(row["point"] for row in rows(run, "measurements")))
    return sorted(found, key=lambda row: order.index(row["point"]))


def _workload(row: Row) -> str:
    """Return the name of a point's workload, with which the point's name starts; it may contain a comma."""
    axes = len([value for key, value in row.items() if key.startswith("axis.") and value])
    parts = row["point"].split(", ")
    zones = re.fullmatch(r"zone \d+", parts[-1]) is not None
    return ", ".join(parts[: len(parts) - axes - zones])


def rates(run: Path, point: Row) -> Array:
    """Return the IOPS of each repeat."""
    window = window_of(run, point)
    if is_imported(run):
        return np.array([reported(run, row)["iops"] for row in window])
    return np.array([rate(answers(run, [row]), "total_ios") for row in window])


def spread(run: Path, point: Row) -> float:
    """Return maximum minus minimum IOPS in percent of their mean; nan below the resolution of the clock, 1 ms."""
    values = rates(run, point)
    if len(values) < 2 or np.isnan(values).any():
        return math.nan
    percent = 100 * float(np.ptp(values) / values.mean())
    window = window_of(run, point)
    shortest = float(np.min(np.fmax(column(window, "read_runtime_ms"), column(window, "write_runtime_ms"))))
    return percent if percent / 100 * shortest >= 1 else math.nan


def figures(run: Path, point: Row) -> dict[str, float]:
    """Return the figures of a point over all repeats, by the headings of tables."""
    whole = over_window(run, point)
    parts = [] if is_imported(run) else answers(run, window_of(run, point))
    seconds = finish_seconds(window_of(run, point))
    return {
        "Passes": float(np.nansum(column(window_of(run, point), "passes"))),
        "Time per pass (ms)": 1000 * float(np.mean(seconds)) if seconds else math.nan,
        "IOPS": whole["iops"],
        "MB/s": whole["mb_per_second"],
        "Average response (ms)": whole["average_ms"],
        "99 % response (ms)": percentile_ms(parts, 100) if parts else math.nan,
        "Max. response (ms)": whole["maximum_ms"],
        "Spread (%)": spread(run, point),
        "Spread of IOPS (%)": spread(run, point),
    }


def _listed(run: Path, *, zones: bool) -> dict[str, Row]:
    return {row["point"]: row for row in points(run) if zones or ", zone " not in row["point"]}


# -- tables of points -------------------------------------------------------------------------------------------------


def results(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return each point with its figures over all repeats."""
    found = _listed(run, zones=True)
    assert [row[0] for row in table.body] == list(found)
    limited = [number for number, row in enumerate(found.values()) if is_limited(run, row)]
    assert table.marks == {(number, 0): "\N{DAGGER}" for number in limited}
    return [
        [name, *(_in_unit(figures(run, row), heading) for heading in table.heading[1:])] for name, row in found.items()
    ]


#: The units of times by their number in a ms.
_PER_MS = {"(\N{MICRO SIGN}s)": 1000.0, "(s)": 0.001, "(ms)": 1.0}


def _unit_factor(heading: str) -> float:
    return next((factor for unit, factor in _PER_MS.items() if unit in heading), 1.0)


def _in_unit(own: dict[str, float], heading: str) -> float:
    """Return the figure of a heading, with which it has the unit of a time in common."""
    return own[re.sub(r"\((\N{MICRO SIGN}s|s)\)", "(ms)", heading)] * _unit_factor(heading)


def sides(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return reads and writes of each mixed point outside of zones."""
    cells: list[list[Expected]] = []
    for name, row in _listed(run, zones=False).items():
        if not 0 < float(row["read_percent"]) < 100:
            continue
        answer_list = [answers(run, [measured]) for measured in window_of(run, row)]
        means = [
            float(np.mean([rate(parts[side : side + 1], key) for parts in answer_list])) / factor
            for key, factor in (("total_ios", 1), ("io_bytes", 1e6))
            for side in (0, 1)
        ]
        times = [
            response_times([parts[side] for parts in answer_list])["average_response_us"] / 1000 for side in (0, 1)
        ]
        factor = _unit_factor(table.heading[-1])
        cells.append([name, *means, *(factor * time for time in times)])
    return cells


def repeats(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return the IOPS of each repeat of the points that have no matrix, their mean and their standard deviation."""
    shown = [row[0] for row in table.body]
    found = {name: row for name, row in _listed(run, zones=False).items() if name in shown}
    cells: list[list[Expected]] = []
    for name, row in found.items():
        values, percent = rates(run, row), spread(run, row)
        deviation = float(values.std(ddof=1)) if math.isfinite(percent) else math.nan
        cells.append([name, *map(float, values), float(values.mean()), deviation, percent])
    return cells


def workloads(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return the range of the figures of each workload's points."""
    cells: list[list[Expected]] = []
    for name in dict.fromkeys(map(_workload, points(run))):
        own = [figures(run, row) for row in points(run) if _workload(row) == name]
        keys = ("IOPS", "MB/s", "Average response (ms)")
        iops, moved, average = (np.array([entry[key] for entry in own]) for key in keys)
        rated = np.isfinite(iops)
        extremes = [values[rated].min() if rated.any() else math.nan for values in (iops, moved)]
        ends = [values[rated].max() if rated.any() else math.nan for values in (iops, moved)]
        count = text("{} ({} with a rate)", len(own), rated.sum()) if not rated.all() else float(len(own))
        times = [end * _unit_factor(table.heading[-1]) for end in (average.min(), average.max())]
        ranges = [extremes[0], ends[0], extremes[1], ends[1], *times]
        cells.append([name, count, *map(float, ranges)])
    return cells


def slowed_by_few(run: Path) -> tuple[int, int]:
    """Return how many points of the table of points have an average above their 99 % response time, and of how many."""
    names = {row[0] for table in printed_tables(run) if re.fullmatch(_POINTS, table.title) for row in table.body}
    own = [figures(run, row) for row in points(run) if row["point"] in names]
    return sum(entry["Average response (ms)"] > entry["99 % response (ms)"] for entry in own), len(own)


def calls(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return the times of fsync and fdatasync of each point that calls them."""
    cells: list[list[Expected]] = []
    for row in points(run):
        if found := synchronizing_calls(run, window_of(run, row)):
            count = sum(part["total_ios"] for part in found)
            nines = [percentile_ms(found, one_in) for one_in in (2, 100, 1000)]
            times = [*nines, response_times(found)["maximum_response_us"] / 1000]
            cells.append([row["point"], count, *(_unit_factor(table.heading[-1]) * time for time in times)])
    return cells


# -- matrices and zones -----------------------------------------------------------------------------------------------


def matrix(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return a matrix of the points of the workload that the page names."""
    match = re.fullmatch(r"(.*) \(columns: (.*)\)", table.title)
    assert match
    down, across = _AXES[table.heading[0].lower()], _AXES[match[2].lower()]
    name = table.page.removeprefix("Matrix: ")
    own = [row for row in points(run) if _workload(row) == name] or points(run)
    by_place = {tuple(float(row[key]) / factor for key, factor in (down, across)): row for row in own}
    cells: list[list[Expected]] = []
    limited: set[tuple[int, int]] = set()
    for number, (label, *_) in enumerate(table.body):
        places = [(float(label), float(heading)) for heading in table.heading[1:]]
        row = [by_place.pop(place, None) for place in places]
        limited |= {(number, at) for at, point in enumerate(row, start=1) if point and is_limited(run, point)}
        cells.append([label, *(figures(run, point)[match[1]] if point else math.nan for point in row)])
    assert not by_place, "a point is in no cell"
    assert table.marks == dict.fromkeys(limited, "\N{DAGGER}")
    return cells


def zones(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return the first, the median and the last zone of each series, their ratio, and the range of all zones."""
    cells: list[list[Expected]] = []
    for label, values in _curves(run, "MB/s" if table.title.startswith("Throughput") else "IOPS").items():
        ratio = 100 * float(values[-1] / values[0])
        reach = [float(np.median(values)), float(values[-1]), ratio, float(values.min()), float(values.max())]
        cells.append([label, float(len(values)), float(values[0]), *reach])
    return cells


def _curves(run: Path, key: str) -> dict[str, Array]:
    """Return the figure of each zone, by the label of its series."""
    series: dict[str, list[float]] = {}
    for row in points(run):
        if match := re.fullmatch(r"(.*), zone \d+", row["point"]):
            name = match[1]
            label = name.removeprefix(_workload(row)).removeprefix(", ") or name
            series.setdefault(label, []).append(figures(run, row)[key])
    return {label: np.array(values) for label, values in series.items()}


def phrases(run: Path) -> list[Text]:
    """Return the key figures of a profile of one workload: the median zone of each series, or the range of points."""
    found = points(run)
    (name,) = {_workload(row) for row in found}
    unit = "MB/s" if found[0]["access"] == "SEQ" else "IOPS"
    if curves := _curves(run, unit):
        medians = {label: float(np.median(values)) for label, values in curves.items()}
        return [text(f"{label}: {{}} {unit}, median of the zones", median) for label, median in medians.items()]
    values = [figures(run, row)[unit] for row in found]
    return [text(f"{name}: {{}} to {{}} {unit}, {len(values)} points", min(values), max(values))]


# -- options of fio ---------------------------------------------------------------------------------------------------


def options(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return the engine and the options of each workload: each is in the job of a point, and all values are listed.

    A row has all workloads with the same ones.
    """
    grouped: dict[tuple[str, ...], list[str]] = {}
    for name in dict.fromkeys(map(_workload, points(run))):
        own = [
            row["options"]
            for row in rows(run, "measurements")
            if row["phase"] not in ("WIPC", "fill") and _of(row, name)
        ]
        given = sorted({option for text in own for option in text.split()})
        (cell,) = (text for names, text in table.body if f", {name}, " in f", {names}, ")
        engines = cell.partition("; options: ")[0]
        grouped.setdefault((engines, *given), []).append(name)
        for row in rows(run, "measurements"):
            if row["phase"] not in ("WIPC", "fill") and _of(row, name):
                job = answer_document(run / "evidence" / f"{row['evidence']}.json")["global options"]
                assert all(
                    job[key] == value for key, _, value in (option.partition("=") for option in row["options"].split())
                )
                assert job["ioengine"] in engines.split(", ")[0].split(" or ")
    return [[", ".join(names), partial(_check_options, list(given))] for (_, *given), names in grouped.items()]


def _of(row: Row, workload: str) -> bool:
    return row["point"] == workload or row["point"].startswith(f"{workload}, ")


def _check_options(given: Sequence[str], cell: str) -> None:
    options = cell.partition("; options: ")[2]
    alternatives = re.findall(r"(\w+)=(\S+(?: or \S+)*)", options)
    assert sorted(f"{key}={value}" for key, text in alternatives for value in text.split(" or ")) == given


# -- effects ----------------------------------------------------------------------------------------------------------


def effects(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return each point with a further value of an axis, compared with the first value, all else equal."""
    base = table.title.rpartition("compared with ")[2]
    cells: list[list[Expected]] = []
    for row in points(run):
        name = row["point"]
        with_value = [entry[1] for entry in table.body if name.endswith(f", {entry[1]}")]
        if not with_value:
            continue
        first = next(one for one in points(run) if one["point"] == name.removesuffix(with_value[0]) + base)
        before, after = (figures(run, one) for one in (first, row))
        change = difference(
            *(Figure(one["IOPS"], list(rates(run, point))) for one, point in ((before, first), (after, row)))
        )
        cells.append(
            [
                name.removesuffix(f", {with_value[0]}"),
                with_value[0],
                before["IOPS"],
                after["IOPS"],
                after["IOPS"] / before["IOPS"],
                partial(_check_change, change),
                "n/a" if math.isnan(change[1]) else text("{} to {}", *change[1:]),
                before["Average response (ms)"],
                after["Average response (ms)"],
            ]
        )
    return cells


def _check_change(change: tuple[float, float, float], cell: str) -> None:
    percent, low, high = change
    assert cell.startswith("* ") == (low > 0 or high < 0)
    check_number(cell.removeprefix("* "), percent)


#: The titles of the table of points.
_POINTS = r"Points|Means of \d+ repeats"

RECOMPUTED: dict[str, Callable[[Path, PrintedTable], list[list[Any]]]] = {
    _POINTS: results,
    "Reads and writes of mixed points": sides,
    "IOPS of each repeat": repeats,
    "Workloads: minimum and maximum of all points": workloads,
    "Time of fsync and fdatasync, all repeats combined": calls,
    r".* \(columns: .*\)": matrix,
    ".* by zone": zones,
    ".*: each point, compared with .*": effects,
    "I/O engine and options of fio": options,
}
