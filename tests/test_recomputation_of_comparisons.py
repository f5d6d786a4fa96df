"""The figures of ``compare`` once more, by the second implementation: values, differences, intervals and spreads."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from snia_pts.cli.main import main
from tests.recomputation.key_figures import Figure, difference, key_figures
from tests.recomputation.printed import Expected, PrintedTable, check, check_number, plain, printed_tables, text
from tests.recomputation.warnings import warnings
from tests.test_recomputation import same

#: Each test with its settings, and the drives to compare; with three there is a spread.
_RUNS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "iops": (
        (
            "rounds.point_seconds=1",
            "rounds.maximum=7",
            "rounds.block_sizes_kib=[1024, 64, 4]",
            "rounds.read_percents=[100, 65, 0]",
        ),
        ("enterprise-nvme", "enterprise-nvme", "enterprise-sas"),
    ),
    "latency": (("rounds.point_seconds=1", "rounds.maximum=5"), ("enterprise-nvme", "optane")),
    "queue-depth": ((), ("enterprise-sata", "enterprise-sata")),
    "wsat": (("saturation.seconds=21600",), ("enterprise-sata", "client-qlc")),
    "dirth": (("demand.thread_counts=[32, 1]", "demand.queue_depths=[32, 1]"), ("enterprise-sata", "enterprise-nvme")),
}
_METRICS = {
    "IOPS": "iops",
    "Throughput (MB/s)": "mb_per_second",
    "Average response time (ms)": "average_response_ms",
    "99 % response time (ms)": "response_99_percent_ms",
    "99.999 % response time (ms)": "response_99.999_percent_ms",
    "Maximum response time (ms)": "maximum_response_ms",
}


@pytest.fixture(
    scope="module",
    params=["iops", "latency", "queue-depth", "wsat", pytest.param("dirth", marks=pytest.mark.long)],
)
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Runs of one test on simulated drives, with their tables."""
    settings, drives = _RUNS[request.param]
    folder = tmp_path_factory.mktemp("compared")
    changed = [word for setting in settings for word in ("--set", setting)]
    for number, drive in enumerate(drives):
        options = ("--run-dir", str(folder / str(number)), "--seed", str(number), "--to", "csv", "--progress", "none")
        words = [request.param, f"sim:{drive}", *changed]
        if request.param == "queue-depth":
            words = ["profile", "run", *words, "--seconds", "0.5", "--repeats", "3"]
        assert main([*words, *options]) == 0
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def figures(runs: list[Path]) -> list[dict[tuple[str, str], Figure]]:
    return [key_figures(run) for run in runs]


@pytest.mark.long
def test_compared_figures_are_those_of_the_records(
    runs: list[Path], figures: list[dict[tuple[str, str], Figure]], capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON has each key figure of each run, its difference from the first one, its interval, and the spread."""
    assert main(["compare", *map(str, runs), "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)["figures"]

    assert {(row["metric"], row["at"]) for row in compared} == {place for found in figures for place in found}
    for row in compared:
        again = [found.get((row["metric"], row["at"])) for found in figures]
        same([math.nan if value is None else value for value in row["values"]], _values(again))
        for shown, figure in zip(row["differences"][1:], again[1:], strict=True):
            assert (shown is None) == (again[0] is None or figure is None)
            if shown and again[0] and figure:
                expected = difference(again[0], figure)
                numbers = [shown[key] for key in ("percent", "low", "high")]
                assert [math.nan if number is None else number for number in numbers] == pytest.approx(
                    expected, rel=1e-9, abs=1e-9, nan_ok=True
                )
                assert shown["significant"] == (
                    None if math.isnan(expected[1]) else not expected[1] <= 0 <= expected[2]
                )
        spread = row["spread_percent"]
        assert (math.nan if spread is None else spread) == pytest.approx(_spread(_values(again)), nan_ok=True)


def _values(again: list[Figure | None]) -> list[float]:
    return [figure.value if figure else math.nan for figure in again]


def _spread(numbers: list[float]) -> float:
    """Return maximum minus minimum in percent of the median, of at least three values."""
    known = [number for number in numbers if not math.isnan(number)]
    return 100 * float(np.ptp(known) / np.median(known)) if len(known) > 2 else math.nan


@pytest.mark.long
def test_printed_differences_are_those_of_the_records(
    runs: list[Path], figures: list[dict[tuple[str, str], Figure]], tmp_path: Path
) -> None:
    """Each table has a row for each place, with values, differences and intervals within half of the last digit."""
    assert main(["compare", *map(str, runs), "--out", str(tmp_path)]) == 0
    check_overall(tmp_path, figures)
    check_warnings(tmp_path, runs)
    tables = [table for table in printed_tables(tmp_path, "comparison.rst") if table.page.endswith(" by Run")]
    check_main_figures(tables.pop(0), figures)
    assert tables
    for table in tables:
        metric = _METRICS[table.page.removesuffix(" by Run")]
        places = dict.fromkeys(place for found in figures for place in found if place[0] == metric)
        places = dict.fromkeys(sorted(places, key=lambda place: _axis_place(place[1])))
        assert [row[0] for row in table.body] == [at for _, at in places]
        has_intervals = any(all(place in found and len(found[place].rounds) for found in figures) for place in places)
        assert ("Interval (%)" in table.heading) == (has_intervals and len(figures) == 2)
        for place, row in zip(places, table.body, strict=True):
            expected = _cells([found.get(place) for found in figures], has_intervals)
            assert len(row) == len(expected) + 1
            for cell, figure in zip(row[1:], expected, strict=True):
                check(cell, figure)


_MATRIX = ("--set", "rounds.block_sizes_kib=[1024, 64, 4]", "--set", "rounds.read_percents=[100, 65, 0]")
#: Units of a lot by the time that their flash takes to program a page, in microseconds; one is far from the others.
_UNITS_US = (2800, 2830, 2770, 2810, 3300)


@pytest.mark.long
def test_units_of_a_lot_are_those_of_the_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each figure of a lot has mean, deviation, minimum, maximum and outliers of the units, in JSON and on the page."""
    preset = Path("specs/drives/enterprise-nvme.toml").read_text(encoding="utf-8")
    folders = []
    for number, program_us in enumerate(_UNITS_US):
        drive, folder = tmp_path / f"unit-{number}.toml", tmp_path / str(number)
        drive.write_text(preset.replace("program_us = 2800", f"program_us = {program_us}"), encoding="utf-8")
        options = ("--run-dir", str(folder), "--seed", str(number), "--to", "csv", "--progress", "none")
        assert main(["iops", f"sim:{drive}", "--set", "rounds.point_seconds=1", *_MATRIX, *options]) == 0
        folders.append(folder)
    capsys.readouterr()
    assert main(["compare", *map(str, folders), "--json", "--out", str(tmp_path / "out")]) == 0
    found = [key_figures(folder) for folder in folders]
    lots = {place: _lot([run[place] for run in found if place in run]) for place in found[0]}
    outliers = {place: lot.pop("outliers") for place, lot in lots.items()}
    shown = {(row.pop("metric"), row.pop("at")): row for row in json.loads(capsys.readouterr().out)["lot"]}

    assert shown.keys() == {place for place, lot in lots.items() if lot["units"] > 2}
    for place, row in shown.items():
        assert row.pop("outliers") == outliers[place]
        assert row == pytest.approx(lots[place])
    assert ["E"] in outliers.values()
    tables = [
        table for table in printed_tables(tmp_path / "out", "comparison.rst") if table.page.endswith("Unit to Unit")
    ]
    for table in tables:
        metric = _METRICS.get(table.page.removesuffix(", Unit to Unit"))
        for point, *cells in table.body:
            place = (metric, point) if metric else ("iops", point.removesuffix(", IOPS"))
            lot = lots[place]
            numbers = [
                lot["mean"],
                lot["deviation"],
                100 * lot["deviation"] / lot["mean"],
                lot["minimum"],
                lot["maximum"],
            ]
            for cell, number in zip(cells, [float(lot["units"]), *numbers], strict=False):
                check(cell, number)
            assert cells[-1] == (", ".join(outliers[place]) or "none")
    assert len(tables) == 5


def _lot(units: list[Figure]) -> dict[str, Any]:
    """Return the statistics of the units with a steady value, and the letters of outliers."""
    numbers = np.array([figure.value for figure in units if figure.steady])
    distances = np.abs(numbers - np.median(numbers))
    limit = max(0.05 * np.median(numbers), 4 * np.median(distances))
    return {
        "units": len(numbers),
        "mean": float(numbers.mean()),
        "deviation": float(numbers.std(ddof=1)),
        "minimum": float(numbers.min()),
        "maximum": float(numbers.max()),
        "outliers": ["ABCDE"[place] for place in np.flatnonzero(distances > limit)] if len(numbers) > 4 else None,
    }


def _axis_place(at: str) -> tuple[float, ...]:
    """Return R/W mix, block size, TC and QD of a point of the standard's tests, from its name."""
    point = re.fullmatch(r"RND ([\d.]+) KiB (\d+)/\d+(?: T(\d+)Q(\d+))?", at)
    if point is None:
        return (math.inf,)
    size, read_percent, threads, depth = point.groups("0")
    return float(read_percent), float(size), int(threads), int(depth)


def check_main_figures(table: PrintedTable, figures: list[dict[tuple[str, str], Figure]]) -> None:
    """Compare the table below the bars: a row for each run, a column for each main figure, in its unit."""
    assert table.page == "Key Figures by Run"
    metrics = {"IOPS": "iops", "ART (ms)": "average_response_ms", "99.9 % (ms)": "response_99.9_percent_ms"}
    for letter, (label, *cells), found in zip("ABC", table.body, figures, strict=False):
        assert label == letter
        for name, cell in zip(table.heading[1:], cells, strict=True):
            at, _, metric = name.rpartition(", ")
            check_number(cell, found[metrics[metric], at].value)
    assert len(table.body) == len(figures)


def check_overall(folder: Path, figures: list[dict[tuple[str, str], Figure]]) -> None:
    """Compare the sentence on all points of two runs of a profile; comparisons of the standard's tests have none."""
    report = plain((folder / "comparison.rst").read_text(encoding="utf-8"))
    shown = re.findall(r"B against A: median IOPS difference .*", report)
    assert len(shown) == ("Workloads" in report)
    for sentence in shown:
        first, other = figures
        changes = [difference(figure, other[place]) for place, figure in first.items() if place[0] == "iops"]
        percents = [percent for percent, _, _ in changes]
        marked = sum(not low <= 0 <= high for _, low, high in changes)
        template = "B against A: median IOPS difference {} % over {} points ({} to {} %, {} of {} significant at {} %)"
        numbers = (float(np.median(percents)), len(changes), min(percents), max(percents), marked, len(changes), 95)
        check(sentence, text(template, *map(float, numbers)))


def check_warnings(folder: Path, runs: list[Path]) -> None:
    """Compare the warnings of each run with those of its records; a run without any has a row that says so."""
    (table,) = [table for table in printed_tables(folder, "comparison.rst") if table.name == "Warnings"]
    assert {row[0] for row in table.body} == set("ABC"[: len(runs)])
    for letter, run in zip("ABC", runs, strict=False):
        body = [row[1:] for row in table.body if row[0] == letter]
        body = [] if body == [["none", ""]] else body
        for row, expected in zip(body, warnings(run, replace(table, body=body)), strict=True):
            for cell, content in zip(row, expected, strict=True):
                check(cell, content)


def _cells(again: list[Figure | None], has_intervals: bool) -> list[Expected]:
    """Return the cells of a row after its place: the first run, and the others with their differences from it."""
    first, *others = again
    cells: list[Expected] = [*_values([first])]
    for other in others:
        percent, low, high = difference(first, other) if first and other else (math.nan,) * 3
        is_marked = not math.isnan(low) and not low <= 0 <= high
        cells += [*_values([other]), _marked(percent) if is_marked else percent]
        if len(again) == 2 and has_intervals:
            cells.append(_without_interval(first, other) if math.isnan(low) else text("{} to {}", low, high))
    known = [number for number in _values(again) if not math.isnan(number)]
    return cells if len(again) == 2 else [*cells, float(np.median(known)), _spread(known)]


def _without_interval(first: Figure | None, other: Figure | None) -> Any:
    """Return the check of the cell of two figures between which there is no interval."""
    if first is None or other is None:
        return "n/a"
    count = min(len(first.rounds), len(other.rounds))
    reasons = {"no interval"}
    if 0 < count < 3:
        reasons = {f"{count} {noun}{'s' if count > 1 else ''}: no interval" for noun in ("round", "repeat")}

    def check_reason(cell: str) -> None:
        assert cell in reasons

    return check_reason


def _marked(percent: float) -> Any:
    def check_marked(cell: str) -> None:
        assert cell.startswith("* ")
        check_number(cell.removeprefix("* "), percent)

    return check_marked
