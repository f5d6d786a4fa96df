"""Every printed number once more, from the engine's answers alone: a second implementation, in numpy.

Nothing of the suite's arithmetic is used.  The tables of data are held against the evidence to the last bit that
floating point leaves; what a report prints is held against the tables, within half of its last digit.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from snia_pts.cli.main import main
from snia_pts.spec import SPEC_TYPES
from tests.test_end_to_end_of_all import shortened

pytestmark = pytest.mark.long

_SHORT = {
    **dict.fromkeys(("iops", "throughput", "latency"), ("rounds.point_seconds=5", "rounds.maximum=7")),
    "wsat": ("saturation.seconds=21600",),
}
_SPACES = re.compile("[\N{NARROW NO-BREAK SPACE}\N{NO-BREAK SPACE}]")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")

Row = dict[str, str]


_TESTS = sorted(set(SPEC_TYPES) - {"profile"})


@pytest.fixture(
    scope="module", params=[(kind, test) for kind in ("simulated", "real") for test in _TESTS], ids="-".join
)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each test, simulated and, shortened, with fio on a file, with its tables and its report as text."""
    kind, test = request.param
    folder: Path = tmp_path_factory.mktemp("recomputation") / kind / test
    folder.parent.mkdir()
    settings = [part for setting in _SHORT.get(test, ()) for part in ("--set", setting)]
    target = ["sim:enterprise-nvme"]
    if kind == "real":
        settings, target = shortened(test), [str(folder.parent / "drive.img"), "--size", "64M"]
    options = ("--run-dir", str(folder), "--seed", "20261123", "--to", "csv,rst", "--progress", "none")
    assert main([test, *target, *options, *settings]) == 0
    return folder


def is_real(run: Path) -> bool:
    return run.parent.name == "real"


#: Tests that have no rounds of points, and so no such table.
_WITHOUT = {
    "points": ("hir", "wsat", "xsr"),
    "rounds": ("xsr",),
    "windows": ("xsr",),
    "samples-stimulus": ("iops", "throughput", "latency", "hir", "xsr", "composite", "dirth"),
}


def rows(run: Path, table: str) -> list[Row]:
    """Return a table of data; nothing for a test of the standard that has none."""
    path = run / "tables" / f"{table}.csv"
    if run.name in _WITHOUT.get(table, ()):
        assert not path.exists()
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def values(row: Row, *names: str) -> list[float]:
    return [float(row[name]) if row.get(name) else math.nan for name in names]  # a column may have no value


@cache
def answer(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the engine's reads and writes of one point; sequential threads, which are jobs of their own, are added."""
    text = path.read_text(encoding="utf-8")
    jobs = json.loads(text[text.index("{") :])["jobs"]
    return combined([job["read"] for job in jobs]), combined([job["write"] for job in jobs])


def combined(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the sum of jobs that ran side by side."""
    bins: dict[str, int] = {}
    for part in parts:
        for edge, count in part["lat_ns"].get("bins", {}).items():
            bins[edge] = bins.get(edge, 0) + count
    ios = sum(part["total_ios"] for part in parts)
    weighted = math.fsum(part["total_ios"] * part["lat_ns"]["mean"] for part in parts)
    return {
        "total_ios": ios,
        "io_bytes": sum(part["io_bytes"] for part in parts),
        "runtime": max(part["runtime"] for part in parts),
        "lat_ns": {
            "mean": weighted / ios if ios else 0.0,
            "max": max(part["lat_ns"]["max"] for part in parts),
            "bins": bins,
        },
    }


def answers(run: Path, measured: Sequence[Row]) -> list[dict[str, Any]]:
    return [part for each in measured for part in answer(run / "evidence" / f"{each['evidence']}.json")]


def recomputed(parts: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return ART, MRT and percentiles in microseconds of reads and writes together, weighted by I/O."""
    ios = np.array([part["total_ios"] for part in parts], dtype=object)
    means = np.array([part["lat_ns"]["mean"] for part in parts], dtype=float)
    bins: dict[int, int] = {}
    for part in parts:
        for edge, count in part["lat_ns"].get("bins", {}).items():
            bins[int(edge)] = bins.get(int(edge), 0) + count
    edges = sorted(bins)
    up_to, total = np.cumsum([bins[edge] for edge in edges]), sum(bins.values())
    greatest: int = max(part["lat_ns"]["max"] for part in parts)

    def percentile(nines: int) -> float:
        tail = 10**nines  # 99.9 % leaves one in 10^3
        if total < tail:
            return math.nan
        rank = -(-total * (tail - 1) // tail)
        return min(edges[int(np.searchsorted(up_to, rank))], greatest) / 1000

    return {
        "average_response_us": float(np.dot(ios.astype(float), means) / float(ios.sum())) / 1000,
        "maximum_response_us": greatest / 1000,
        "three_nines_response_us": percentile(3),
        "four_nines_response_us": percentile(4),
        "five_nines_response_us": percentile(5),
    }


def rate(parts: Sequence[dict[str, Any]], key: str) -> float:
    """Return I/Os or bytes per second: each direction by its own time; nan below the clock's resolution."""
    if any(part["total_ios"] and part["runtime"] < 100 for part in parts):
        return math.nan
    return math.fsum(1000 * part[key] / part["runtime"] for part in parts if part["runtime"])


def same(found: Sequence[float], expected: Sequence[float]) -> None:
    assert found == pytest.approx(expected, rel=1e-12, nan_ok=True)


# -- tables against evidence ------------------------------------------------------------------------------------------


def test_measurements_are_those_of_the_answers(run: Path) -> None:
    """Counts, bytes, rates, response times and percentiles of each measurement come out of its answer again."""
    measured = rows(run, "measurements")
    assert measured
    for row in measured:
        read, write = parts = answers(run, [row])
        assert [
            int(row[f"{side}_{what}"]) for side in ("read", "write") for what in ("ios", "bytes", "runtime_ms")
        ] == [part[key] for part in (read, write) for key in ("total_ios", "io_bytes", "runtime")]
        same(values(row, "iops", "mb_per_second"), [rate(parts, "total_ios"), rate(parts, "io_bytes") / 1e6])
        again = recomputed(parts)
        same(values(row, *again), list(again.values()))


def window_of(run: Path, point: Row) -> list[Row]:
    """Return the measurements of a point's window."""
    first, last = int(point["first_round"]), int(point["last_round"])
    keys = ("part", "point", "thread_count", "queue_depth")
    return [
        row
        for row in rows(run, "measurements")
        if row["round"] and first <= int(row["round"]) <= last and all(row[key] == point[key] for key in keys)
    ]


def test_points_are_those_of_their_rounds(run: Path) -> None:
    """A point's rates are means of the window's rounds; its response times are those of all I/Os of the window."""
    for point in rows(run, "points"):
        window = window_of(run, point)
        assert len(window) == int(point["last_round"]) - int(point["first_round"]) + 1
        each = [answers(run, [row]) for row in window]
        same(
            values(point, "iops", "mb_per_second", "mean_maximum_response_us"),
            [
                float(np.mean([rate(parts, "total_ios") for parts in each])),
                float(np.mean([rate(parts, "io_bytes") for parts in each])) / 1e6,
                float(np.mean([max(part["lat_ns"]["max"] for part in parts) for parts in each])) / 1000,
            ],
        )
        again = recomputed([part for parts in each for part in parts])
        same(values(point, *again), list(again.values()))


def test_determinations_are_those_of_their_rounds(run: Path) -> None:
    """Average, excursions and verdict of each window follow from its rounds by the rule: 20 % and 10 %."""
    by_series: dict[tuple[str, str, str], dict[int, float]] = {}
    for row in rows(run, "rounds"):
        by_series.setdefault((row["series"], row["variable"], row["metric"]), {})[int(row["round"])] = float(
            row["value"]
        )
    for window in rows(run, "windows"):
        series = by_series[window["series"], window["variable"], window["metric"]]
        first, last = int(window["first_round"]), int(window["last_round"])
        numbers = [number for number in sorted(series) if first <= number <= last]
        assert len(numbers) == (2 if is_real(run) else 5)
        y = np.array([series[number] for number in numbers])
        slope, intercept = np.polyfit(np.array(numbers, dtype=float), y, 1)
        data, fit, average = float(np.ptp(y)), abs(float(slope)) * (numbers[-1] - numbers[0]), float(y.mean())
        found = values(window, "average", "data_excursion", "slope_excursion", "slope", "intercept")
        scale = float(np.abs(y).max())
        assert found == pytest.approx([average, data, fit, float(slope), float(intercept)], abs=1e-9 * scale)
        steady = data <= 0.2 * average and fit <= 0.1 * average
        assert window["steady"] == str(steady).lower()


def test_samples_add_up_to_the_answers(run: Path) -> None:
    """The samples of each continuous stimulus have the I/Os and bytes of its answers; their rates follow from both."""
    tables = sorted((run / "tables").glob("samples-*.csv"))
    assert tables or run.name in ("iops", "throughput", "latency")
    for path in tables:
        samples = rows(run, path.stem)
        for row in samples:
            seconds, read_ios, write_ios, read_bytes, write_bytes = values(
                row, "seconds", "read_ios", "write_ios", "read_bytes", "write_bytes"
            )
            moved = (read_bytes + write_bytes) / 1e6
            rated = [(read_ios + write_ios) / seconds, moved / seconds] if round(seconds, 9) >= 0.1 else [math.nan] * 2
            same(values(row, "iops", "mb_per_second"), rated)
        totals = {
            key: sum(values(row, f"read_{key}")[0] + values(row, f"write_{key}")[0] for row in samples)
            for key in ("ios", "bytes")
        }
        parts = answers(run, [row for row in rows(run, "measurements") if slug(row) == path.stem])
        assert totals == {
            "ios": sum(part["total_ios"] for part in parts),
            "bytes": sum(part["io_bytes"] for part in parts),
        }


def slug(row: Row) -> str:
    words = f"samples {row['part']} {row['phase']}".lower()
    return re.sub("[^a-z0-9]+", "-", words)


def test_rounds_of_write_saturation_are_its_samples(run: Path) -> None:
    """Round n is the IOPS of minute 1 + 30 x (n - 1); of the shortened run, that of sample n."""
    samples, stride = rows(run, "samples-stimulus"), 1 if is_real(run) else 30
    for row in rows(run, "rounds") if samples else ():
        minute = 1 + stride * (int(row["round"]) - 1)
        same(values(row, "value"), values(samples[minute - 1], "iops"))


# -- what is printed against the tables -------------------------------------------------------------------------------


def printed_tables(run: Path) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield title and cells of each table of the report."""
    text = (run / "report.rst").read_text(encoding="utf-8")
    for block in re.split(r"(?m)^\.\. csv-table::", text)[1:]:
        title, *lines = block.splitlines()
        body = list(table_lines(lines))
        yield title.strip(), [[cell.strip() for cell in cells] for cells in csv.reader(body, skipinitialspace=True)]


def table_lines(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if line.strip() and not line.startswith("   "):
            return
        if line.strip() and not line.strip().startswith(":"):
            yield line.strip()


def assert_printed(cell: str, value: float) -> None:
    """A printed number differs from its value by at most half of its last digit; n/a stands for none."""
    text = _SPACES.sub("", cell).replace("\\", "").replace(" ", "").lstrip("†")
    if math.isnan(value):
        assert text in ("n/a", "")
        return
    assert _NUMBER.fullmatch(text), cell
    last = 10.0 ** -len(text.partition(".")[2])
    assert abs(float(text) - value) <= last / 2 * (1 + 1e-9), (cell, value)


_COLUMNS = {
    "IOPS": ("iops", 1.0),
    "MB/s": ("mb_per_second", 1.0),
    "ART, weighted by I/O (ms)": ("average_response_us", 1000.0),
    "99.999 % (ms)": ("five_nines_response_us", 1000.0),
    "MRT (ms)": ("maximum_response_us", 1000.0),
}


def test_key_figures_are_those_of_the_points(run: Path) -> None:
    """The key figures of page 1 are the points' numbers, rounded to the digit they print."""
    points = {row["point"]: row for row in rows(run, "points")}
    for title, (heading, *body) in printed_tables(run):
        if title != "Key figures of the measurement window":
            continue
        for cells in body:
            point = points[cells[0].lstrip("† ").rpartition(", ")[2]]
            for name, cell in zip(heading, cells, strict=True):
                if name.replace("\\", "") in _COLUMNS:
                    key, divisor = _COLUMNS[name.replace("\\", "")]
                    assert_printed(cell, values(point, key)[0] / divisor)


_MATRICES = {
    "IOPS": ("iops", 1.0),
    "Throughput (MB/s, decimal)": ("mb_per_second", 1.0),
    "Maximum response time (ms), maximum of the window": ("maximum_response_us", 1000.0),
    "Maximum response time (ms), mean of the rounds' maxima": ("mean_maximum_response_us", 1000.0),
    "99.999 % response time (ms)": ("five_nines_response_us", 1000.0),
}


def test_matrices_are_those_of_the_points(run: Path) -> None:
    """Every cell of the block size by R/W mix matrices is the point's number, rounded to the digit it prints."""
    if run.name not in ("iops", "latency"):  # the others have no matrix of block sizes and R/W mixes
        return
    points = {(row["block_size_bytes"], row["read_percent"]): row for row in rows(run, "points")}
    checked = 0
    for title, (heading, *body) in printed_tables(run):
        name = title.rpartition(", rounds")[0].replace("\\", "")
        weighted = name.startswith("Average response time")
        key, divisor = ("average_response_us", 1000.0) if weighted else _MATRICES.get(name, ("", 1.0))
        if not key or not heading[0].startswith("Block size"):
            continue
        for size, *cells in body:
            for mix, cell in zip(heading[1:], cells, strict=True):
                place = str(round(1024 * float(size))), mix.removeprefix("R/W ").partition("/")[0]
                assert_printed(cell, values(points[place], key)[0] / divisor)
                checked += 1
    assert checked >= 3 * len(points)
