"""The result as tables of data: workbook, CSV and JSON."""

from __future__ import annotations

import csv
import dataclasses
import errno
import io
import itertools
import json
import math
import os
import re
import statistics
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from string import ascii_uppercase

import numpy
import pytest
from lxml import etree

from snia_pts.cli.main import main
from snia_pts.errors import ReportError, UsageError
from snia_pts.files import UnbufferedFile, replace_file
from snia_pts.model.health import Health, HealthValue
from snia_pts.model.measurement import METRICS, Transfers
from snia_pts.profiles.spec import Axis, ProfileSpec
from snia_pts.record.result_xml import result_xml
from snia_pts.report import DATA_OUTPUTS, OUTPUTS, write, writing
from snia_pts.report.formats import xlsx
from snia_pts.report.formats.csv_json import as_csv, as_json
from snia_pts.report.pages import Prose
from snia_pts.report.registry import build
from snia_pts.report.tables import Table
from snia_pts.report.writing import remove_report, replace_files
from snia_pts.results.key_figures import key_figures
from snia_pts.results.limit_checks import judgements
from snia_pts.results.result import TestResult
from snia_pts.results.tables import data_tables
from snia_pts.spec.limits import Limit
from snia_pts.text import one_line, printable
from tests import profiles, samples
from tests.drives import need_program
from tests.strategies import block_statistics, vitals

NS = {
    "m": "http://schemas.openxmlformats.org/spreadsheetml/2006/main",
    "c": "http://schemas.openxmlformats.org/drawingml/2006/chart",
}
HOSTILE = '=HYPERLINK("http://x","y")\x07<b>|`&'
FUNCTIONS: dict[str, Callable[..., float]] = {
    "AVERAGE": lambda *values: statistics.fmean(_flat(values)),
    "MAX": lambda *values: max(_flat(values)),
    "MIN": lambda *values: min(_flat(values)),
    "SLOPE": lambda y, x: statistics.linear_regression(x, y).slope,
    "INTERCEPT": lambda y, x: statistics.linear_regression(x, y).intercept,
    "ABS": abs,
    "AND": lambda *values: all(values),
    "IF": lambda condition, then, otherwise: then if condition else otherwise,
    "NA": lambda: math.nan,
    "COUNTIF": lambda values, _: sum(map(bool, values)),
    "TRUE": lambda: True,
    "FALSE": lambda: False,
}


def _flat(values: tuple[object, ...]) -> list[float]:
    found: list[float] = []
    for value in values:
        found += value if isinstance(value, list) else [value]  # type: ignore[list-item]
    return found


class Book:
    """A workbook whose formulas are calculated from its numbers, by an implementation of these tests."""

    def __init__(self, content: bytes) -> None:
        self._zip = zipfile.ZipFile(io.BytesIO(content))
        workbook = self.part("xl/workbook.xml")
        self.names = [sheet.get("name", "") for sheet in workbook.iterfind(".//m:sheet", NS)]
        self._cells = {
            (name, cell.get("r", "")): cell
            for number, name in enumerate(self.names, start=1)
            for cell in self.part(f"xl/worksheets/sheet{number}.xml").iter(f"{{{NS['m']}}}c")
        }
        self._known: dict[tuple[str, str], float] = {}

    def part(self, name: str) -> etree._Element:
        return etree.fromstring(self._zip.read(name))

    @property
    def parts(self) -> list[str]:
        return self._zip.namelist()

    def formulas(self) -> Iterator[tuple[tuple[str, str], float]]:
        """Yield each cell with a formula, and the number that is stored beside it."""
        for place, cell in self._cells.items():
            if cell.find("m:f", NS) is not None:
                text = cell.findtext("m:v", "", NS)
                expected = {"TRUE": 1.0, "FALSE": 0.0, "#N/A": math.nan}
                yield place, expected[text] if text in expected else float(text)

    def texts(self, sheet: str) -> dict[str, str]:
        """Return the texts of a sheet by their places."""
        shared = ["".join(text.itertext()) for text in self.part("xl/sharedStrings.xml").iter(f"{{{NS['m']}}}si")]
        return {
            place: shared[int(cell.findtext("m:v", "", NS))]
            for (name, place), cell in self._cells.items()
            if name == sheet and cell.get("t") == "s"
        }

    def numbers(self, sheet: str) -> dict[str, tuple[float, str]]:
        """Return the numbers of a sheet by their places, as stored and as shown by their formats."""
        styles = self.part("xl/styles.xml")
        codes = {"3": "#,##0"}  # a format of Excel's own
        codes |= {one.get("numFmtId", ""): one.get("formatCode", "") for one in styles.iter(f"{{{NS['m']}}}numFmt")}
        formats = [codes.get(one.get("numFmtId", "")) for one in styles.iterfind("m:cellXfs/m:xf", NS)]
        found: dict[str, tuple[float, str]] = {}
        for (name, place), cell in self._cells.items():
            if name == sheet and cell.get("t", "n") == "n" and cell.find("m:v", NS) is not None:
                value = float(cell.findtext("m:v", "", NS))
                code = formats[int(cell.get("s", "0"))]
                match = re.fullmatch(r"#,##0(\.0+)?(_m)?", code or "")
                found[place] = value, f"{value:,.{max(0, len(match[1] or '') - 1)}f}" if match else f"{code}: {value}"
        return found

    def last_row(self, sheet: str) -> int:
        """Return the number of the last row of a sheet that has a value."""
        filled = (place for place, cell in self._cells.items() if cell.find("m:v", NS) is not None)
        return max(int(place.strip(ascii_uppercase)) for name, place in filled if name == sheet)

    def is_filled(self, sheet: str, place: str) -> bool:
        """Return whether a cell has a value."""
        cell = self._cells.get((sheet, place))
        return cell is not None and cell.find("m:v", NS) is not None

    def value(self, sheet: str, place: str) -> float:
        """Return the calculated value of a cell."""
        place = place.replace("$", "")
        if (sheet, place) not in self._known:
            cell = self._cells.get((sheet, place))
            formula = None if cell is None else cell.findtext("m:f", None, NS)
            text = "0" if cell is None else cell.findtext("m:v", "0", NS)
            self._known[sheet, place] = float(text) if formula is None else self._calculated(sheet, formula)
        return self._known[sheet, place]

    def _calculated(self, sheet: str, formula: str) -> float:
        reference = r"(?:(?:'([^']+)'|(\w+))!)?(\$?[A-Z]{1,3}\$?[0-9]+)(?::(\$?[A-Z]{1,3}\$?[0-9]+))?"

        def find_one(match: re.Match[str]) -> str:
            return f"_at({match[1] or match[2] or sheet!r}, {match[3]!r}, {match[4]!r})"

        with numpy.errstate(all="ignore"):  # both branches of an IF are calculated
            return float(eval(re.sub(reference, find_one, formula), {**FUNCTIONS, "_at": self._at}))  # noqa: S307

    def _at(self, sheet: str, first: str, last: str | None) -> float | list[float]:
        if last is None:
            return numpy.float64(self.value(sheet, first))
        column = re.sub("[^A-Z]", "", first)
        rows = range(int(re.sub("[^0-9]", "", first)), int(re.sub("[^0-9]", "", last)) + 1)
        return [self.value(sheet, f"{column}{row}") for row in rows]


def with_a_repeated_pass() -> TestResult:
    """Return a result with a measurement that was too short and is in no round."""
    result = samples.iops_result()
    (loop,) = result.loops
    short = loop.rounds[0].measurements[:1]
    return dataclasses.replace(result, loops=(dataclasses.replace(loop, too_short=short),))


def with_limits() -> TestResult:
    """Return a result with limits that are met, missed, and on a number that was not measured."""
    result = samples.iops_result()
    met = Limit(test="iops", metric="iops", at="RND 4 KiB 0/100", unit="IOPS", minimum=1.0, maximum=1e9)
    missed = dataclasses.replace(met, minimum=1e9, maximum=None, tolerance_percent=5.0)
    limits = (met, missed, dataclasses.replace(met, at="RND 5 KiB 0/100"))
    return dataclasses.replace(result, facts=dataclasses.replace(result.facts, limits=limits))


RESULTS: dict[str, Callable[[], TestResult]] = {
    **{test: (lambda test=test: samples.result_of(test)) for test in ("iops", "throughput", "wsat", "dirth")},  # type: ignore[misc]
    "stopped at once": lambda: samples.result_of("iops", stop_after=1, ending="interrupted"),
    "dead": lambda: samples.result_of("latency", scale=0.0),
    "limits": with_limits,
    "repeated pass": with_a_repeated_pass,
    "file matrix": lambda: profiles.result(profiles.shipped("file-matrix", range="4M")),
}


@pytest.mark.long_but_first
@pytest.mark.parametrize("name", RESULTS)
def test_every_formula_gives_the_suites_number(name: str) -> None:
    """A recalculated workbook gives the stored values, from counts and times to the verdict."""
    book = Book(xlsx.make(RESULTS[name]()))
    formulas = list(book.formulas())
    for (sheet, place), stored in formulas:
        assert book.value(sheet, place) == pytest.approx(stored, rel=1e-9, abs=1e-9, nan_ok=True), (sheet, place)
    assert formulas or name == "stopped at once"


@pytest.mark.long
def test_the_verdict_is_calculated_from_the_counts() -> None:
    """A changed count in the sheet of measurements changes the determination: all steps between are formulas."""
    content = xlsx.make(samples.iops_result())
    before, after = Book(content), Book(content)
    place = next(cell for cell, _ in before.formulas() if cell[0] == "Steady state")
    source = [cell for cell, _ in after.formulas() if cell[0] == "Measurements"]
    for cell in source:
        after._known[cell] = 2 * before.value(*cell)

    assert after.value(*place) == pytest.approx(2 * before.value(*place))


@pytest.mark.long
@pytest.mark.parametrize("test", ["iops", "throughput", "wsat", "hir"])
def test_a_run_without_a_rate_has_all_reports(test: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If every point was too short for a rate, each report says n/a; tables keep the columns of the rates."""
    monkeypatch.setattr("snia_pts.model.measurement.SHORTEST_RATED_MS", 10**12)
    result = samples.result_of(test)
    written = write(result, tmp_path, (*OUTPUTS, *DATA_OUTPUTS))
    tables = [table for table in data_tables(result) if table.name.startswith(("measurements", "samples-"))]

    assert set(written) >= {*OUTPUTS, "xlsx", "json"}
    assert tables
    for table in tables:
        assert {row[table.column("iops")] for row in table.rows} == {None}, table.name


def test_the_same_result_gives_the_same_workbook() -> None:
    """The bytes are equal."""
    assert xlsx.make(samples.result_of("wsat")) == xlsx.make(samples.result_of("wsat"))


def test_a_matrix_of_each_operation_has_a_chart_on_one_scale() -> None:
    """Its rows and columns are file and record sizes, its cells the points' MB/s; all charts end at the same value."""
    result = RESULTS["file matrix"]()
    spec = result.facts.spec
    assert isinstance(spec, ProfileSpec)
    book, columns = Book(xlsx.make(result)), "BCDEF"
    names = [workload.name for workload in spec.workload]
    rates = {loop.part: loop.complete[0].measurements[0].mb_per_second for loop in result.loops}
    top = {
        cell: value
        for cell, value in book.formulas()
        if cell[0] == "Matrix MB per s" and int(re.sub("[A-Z]", "", cell[1])) < 21
    }
    charts = [book.part(name) for name in book.parts if name.startswith("xl/charts/chart")]
    charts = [chart for chart in charts if any("Matrix MB per s" in text for text in chart.itertext())]
    main_ns, chart_ns = NS["m"], "http://schemas.openxmlformats.org/drawingml/2006/chart"

    labels = ("4 KiB", "16 KiB", "64 KiB", "256 KiB", "1024 KiB")
    assert {cell: value for (_, cell), value in top.items()} == {
        f"{column}{row}": pytest.approx(rates[f"write, over {size} MiB, {label}"])
        for row, size in ((3, 1), (4, 4))
        for column, label in zip(columns, labels, strict=True)
    }
    texts = [text.text for text in book.part("xl/sharedStrings.xml").iter(f"{{{main_ns}}}t")]
    assert [name for name in names if f"{name}: Throughput (MB/s)" not in texts] == []
    assert len(charts) == len(names) == 10
    (maximum,) = {float(element.get("val", "")) for chart in charts for element in chart.iter(f"{{{chart_ns}}}max")}
    assert max(rates.values()) <= maximum <= 2 * max(rates.values())


@pytest.mark.long_but_first
@pytest.mark.parametrize(
    ("test", "down", "across"), [("iops", "block_size_bytes", "read_percent"), ("dirth", "thread_count", "queue_depth")]
)
def test_a_test_of_the_standard_has_a_matrix_for_each_metric(test: str, down: str, across: str) -> None:
    """Block sizes by R/W mixes, or threads by queue depths, both ascending, with a chart on a sheet for each metric."""
    result = RESULTS[test]()
    points = next(table for table in data_tables(result) if table.name == "points")
    book = Book(xlsx.make(result))
    rows, columns = (sorted({row[points.column(field)] for row in points.rows}) for field in (down, across))  # type: ignore[type-var]
    for sheet, field, divisor in (("Matrix IOPS", "iops", 1), ("Matrix ART", "average_response_us", 1000)):
        cells = {place: book.value(sheet, place) for (name, place), _ in book.formulas() if name == sheet}
        assert cells == {
            f"{chr(ord('B') + columns.index(row[points.column(across)]))}{3 + rows.index(row[points.column(down)])}": (
                pytest.approx(row[points.column(field)] / divisor)  # type: ignore[operator]
            )
            for row in points.rows
        }
        assert len(cells) == len(rows) * len(columns)
        charts = ["".join(book.part(name).itertext()) for name in book.parts if name.startswith("xl/charts/chart")]
        assert sum(f"'{sheet}'!" in chart for chart in charts) == 1


@pytest.mark.long
def test_the_summary_calculates_the_limits() -> None:
    """A changed count in the sheet of measurements changes the measured value and the verdict on the limit."""
    content = xlsx.make(with_limits())
    before, after = Book(content), Book(content)
    assert before.value("Summary", "B5") == 1
    assert [before.value("Summary", f"K{row}") for row in (9, 10, 11)] == [1, 0, 0]
    margins = [check.margin_percent for check in judgements(with_limits())]
    assert [before.value("Summary", f"J{row}") for row in (9, 10)] == pytest.approx(margins[:2])
    assert before.texts("Summary")["J11"] == "n/a"
    for cell, value in before.formulas():
        if cell[0] == "Measurements":
            after._known[cell] = 1e6 * value
    assert [after.value("Summary", f"K{row}") for row in (9, 10, 11)] == [0, 1, 0]
    assert after.value("Summary", "B5") == 1


def test_a_figure_without_steady_state_has_no_steady_and_may_meet_a_limit() -> None:
    """The verdict on the end of a write saturation without steady state does not refer to an empty cell."""
    result = samples.result_of("wsat", overrides=[("saturation.seconds", 121 * 60)])
    end = Limit(test="wsat", metric="iops", at="end of the stimulus", unit="IOPS", minimum=1.0)
    result = dataclasses.replace(result, facts=dataclasses.replace(result.facts, limits=(end,)))
    book = Book(xlsx.make(result))
    assert not any(book.value("Key figures", f"E{row}") for row in range(3, book.last_row("Key figures") + 1))
    row = next(place[1:] for place, text in book.texts("Summary").items() if text == end.at)
    assert book.value("Summary", f"K{row}") == 1


def steady_cells(result: TestResult) -> dict[str, bool]:
    """Return the column Steady of the workbook's key figures by their points and phases, without empty cells."""
    book = Book(xlsx.make(result))
    texts = book.texts("Key figures")
    places = {text: place[0] for place, text in texts.items() if place[1:] == "2"}
    rows = range(3, book.last_row("Key figures") + 1)
    filled = [row for row in rows if book.is_filled("Key figures", f"{places['steady']}{row}")]
    assert {texts[f"{places['metric']}{row}"] for row in filled} <= METRICS.keys()  # no percentile is judged
    return {
        texts[f"{places['at']}{row}"]: bool(book.value("Key figures", f"{places['steady']}{row}")) for row in filled
    }


def test_each_point_has_its_own_verdict_on_steady_state() -> None:
    """A point that exceeds the limits is not steady in a steady window, in the workbook and in CSV."""
    result = samples.iops_result()
    (loop,) = result.loops
    number = loop.window_rounds[0].number
    (slow,) = (one for one in loop.window_rounds[0].measurements if one.stimulus.label == "RND 16 KiB 50/50")
    halved = dataclasses.replace(slow, read=twice_as_long(slow.read), write=twice_as_long(slow.write))
    rounds = tuple(
        dataclasses.replace(one, measurements=tuple(halved if item is slow else item for item in one.measurements))
        if one.number == number
        else one
        for one in loop.rounds
    )
    changed = dataclasses.replace(result, loops=(dataclasses.replace(loop, rounds=rounds),))
    (points,) = (table for table in data_tables(changed) if table.name == "points")
    verdicts = {row[points.column("point")]: row[points.column("steady")] for row in points.rows}

    assert loop.steady
    assert {at for at, steady in verdicts.items() if steady is not True} == {"RND 16 KiB 50/50"}
    assert verdicts["RND 16 KiB 50/50"] is False
    assert steady_cells(changed) == verdicts
    assert set(steady_cells(result).values()) == {True}


def twice_as_long(side: Transfers) -> Transfers:
    """Return the same I/Os in twice the time."""
    return dataclasses.replace(side, runtime_ms=2 * side.runtime_ms)


@pytest.mark.long_but_first
@pytest.mark.parametrize(("test", "steady"), [("hir", True), ("latency", True), ("latency", False), ("dirth", True)])
def test_only_what_was_judged_is_steady_or_not(test: str, steady: bool) -> None:
    """Histograms and accesses have no verdict; no point of a window that is not steady is steady."""
    result = samples.result_of(test, steady=steady)
    cells = steady_cells(result)
    assert set(cells.values()) == {steady}
    assert not [at for at in cells if "histogram" in at or "access" in at]
    assert len(cells) == {"hir": 1, "latency": 9, "dirth": 53}[test]


@pytest.mark.long
def test_the_summary_has_verdict_conformance_and_key_figures() -> None:
    """It states the verdict with its rounds, the conformance, the limits, and the key figures of the tracked points."""
    result = with_limits()
    book = Book(xlsx.make(result))
    texts = book.texts("Summary")
    (loop,) = result.loops
    assert loop.window is not None
    tracked = [loop.window_rounds[-1].point(variable).stimulus.label for variable, _ in loop.window.determinations]
    listed = list(texts.values())
    assert texts["A2"] == "STEADY STATE in rounds 3 - 7"
    assert texts["A3"].startswith(("PTS conformant", "NOT PTS conformant"))
    assert [texts[cell] for cell in ("A4", "A5")] == ["Limits: 2 of 3 NOT MET", "Limits met, of 3:"]
    title = "Key figures of the measurement window"
    assert [at for at in listed[listed.index(title) :] if at in tracked] == tracked
    values = {(figure.at, figure.metric): figure.value for figure in key_figures(result)}
    first = next(int(cell[1:]) for cell, text in texts.items() if text == title) + 2
    assert texts[f"C{first - 1}"] == "IOPS"
    for row in range(first, first + len(tracked)):
        assert book.value("Summary", f"C{row}") == pytest.approx(values[texts[f"A{row}"], "iops"], rel=1e-3)


@pytest.mark.long_but_first
@pytest.mark.parametrize("test", ["xsr", "hir", "wsat", "latency", "composite"])
def test_the_summary_has_the_figures_of_the_first_page(test: str) -> None:
    """Each cell of its tables of numbers and facts is in the workbook, a number as a number, and so are the notes."""
    result = samples.result_of(test)
    book = Book(xlsx.make(result))
    texts, numbers = set(book.texts("Summary").values()), book.numbers("Summary").values()
    blocks = build(result).pages[0].blocks
    tables = [block for block in blocks if isinstance(block, Table) and block.kind in ("numbers", "facts")]
    shown = {text for _, text in numbers}
    assert len(tables) > 1
    for cell in (cell for table in tables for row in table.rows for cell in row):
        number, _, rest = cell.partition(" ")
        plain = re.sub(r"(\.\d*?)0+$", r"\1", number.replace("\u202f", ",")).removesuffix(".")
        assert one_line(cell) in texts or (plain in shown and (not rest or rest in texts)), cell
    for table in (table for table in tables if table.kind == "numbers"):
        right = [place for place, column in enumerate(table.columns) if column.align == "right"]
        figures = [row[place] for row in table.rows for place in right]
        assert any(re.fullmatch("[0-9.]+", figure) for figure in figures)
        assert not [figure for figure in figures if figure in texts and re.fullmatch("[0-9.\u202f]+", figure)]
    notes = [block.text for block in blocks[blocks.index(tables[0]) :] if isinstance(block, Prose)]
    assert {one_line(note) for note in notes} <= texts


@pytest.mark.long
def test_headings_precede_the_names_of_result_xml() -> None:
    """The first row of a table has a heading for readers with the unit, the second the name of the column."""
    texts = Book(xlsx.make(samples.iops_result())).texts("Points")
    names = {text: texts[f"{place[:-1]}1"] for place, text in texts.items() if place.strip(ascii_uppercase) == "2"}
    assert names["average_response_us"] == "Average response time (\N{MICRO SIGN}s)"
    assert names["five_nines_response_us"] == "99.999 % response time (\N{MICRO SIGN}s)"
    assert names["mb_per_second"] == "Throughput (MB/s)"


@pytest.mark.parametrize("model", ["A & B", "&" * 200])
def test_every_printed_page_says_what_it_is_on(model: str) -> None:
    """The head of each page names test and drive, and that it is simulated; its end names the sheet and the run.

    No letter of a drive is a code, such as that of the page number.
    """
    result = samples.result_of("wsat", device=samples.dut(kind="simulated", model=model, serial="S1"))
    result = dataclasses.replace(result, facts=dataclasses.replace(result.facts, run_id="run"), journal_sha256=64 * "a")
    book = Book(xlsx.make(result))
    for number in range(1, len(book.names) + 1):
        sheet = book.part(f"xl/worksheets/sheet{number}.xml")
        header, footer = (sheet.findtext(f".//m:odd{place}", "", NS) for place in ("Header", "Footer"))
        assert header.startswith(f"&L&8 Write Saturation Test, {model.replace('&', '+')[:20]}")
        assert header.endswith(", S1&R&8 SIMULATED, NO DRIVE WAS TESTED")
        assert footer.startswith(f"&L&8 &A&C&8 run, {16 * 'a'}")
        assert footer.endswith("&R&8 Page &P of &N")


def test_headings_tell_virtual_times_and_requested_durations() -> None:
    """The clock of a simulated drive may be in the future; a limit of capacity ends a stimulus before its time."""
    book = Book(xlsx.make(samples.result_of("wsat", device=samples.dut(kind="simulated"))))
    assert {"Started (virtual)", "Finished (virtual)"} < set(book.texts("Summary").values())
    assert {"Started (virtual)", "Requested duration (s)"} < set(book.texts("Measurements").values())
    texts = Book(xlsx.make(samples.result_of("wsat"))).texts("Summary")
    (row,) = (place[1:] for place, text in texts.items() if text == "Started")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", texts[f"B{row}"])


@pytest.mark.long_but_first
@pytest.mark.parametrize("test", ["wsat", "dirth"])
def test_percentiles_are_in_one_order_before_the_maximum(test: str) -> None:
    """In the key figures of each point or histogram, and in the columns of all tables."""
    result = samples.result_of(test)
    by_point: dict[str, list[str]] = {}
    for figure in key_figures(result):
        by_point.setdefault(figure.at, []).append(figure.metric)
    percentiles = [f"response_{percent}_percent_ms" for percent in ("99.9", "99.99", "99.999")]
    orders = {tuple(metrics[-4:]) for metrics in by_point.values() if percentiles[0] in metrics}
    tables = [table.fields for table in data_tables(result) if any("five_nines" in field for field in table.fields)]

    assert orders == {(*percentiles, "maximum_response_ms")}
    for fields in tables:
        first = next(place for place, field in enumerate(fields) if field.startswith("three_nines"))
        columns = [field.removesuffix("_us").removesuffix("_response") for field in fields[first : first + 4]]
        assert columns == ["three_nines", "four_nines", "five_nines", "maximum"]


def test_measurements_are_in_the_order_of_time() -> None:
    """The histogram of a latency test is after its rounds."""
    (table,) = (one for one in data_tables(samples.result_of("latency")) if one.name == "measurements")
    starts = [str(row[table.column("started")]) for row in table.rows]
    assert table.rows[-1][table.column("phase")] == "histogram"
    assert starts == sorted(starts)


def test_a_falling_line_has_a_minus_sign() -> None:
    """No format of the slope has conditions: it would show the absolute value of a negative number."""
    book = Book(xlsx.make(samples.result_of("wsat")))
    (slope,) = (place for place, text in book.texts("Steady state").items() if text.startswith("slope of"))
    value, shown = book.numbers("Steady state")[slope.replace("A", "B")]
    assert value < 0
    assert float(shown.replace(",", "")) == pytest.approx(value, rel=1e-3)


@pytest.mark.long_but_first
@pytest.mark.parametrize("name", [*RESULTS, "sensors"])
def test_a_number_is_shown_with_the_digits_of_the_other_formats(name: str) -> None:
    """A whole number has no decimals, others at most four digits, a tracked variable five."""
    result = with_sensors() if name == "sensors" else RESULTS[name]()
    book = Book(xlsx.make(result))
    for sheet in book.names:
        digits = 5 if sheet in ("Rounds", "Steady state", "Summary") else 4
        for place, (value, shown) in book.numbers(sheet).items():
            if "0.0_m" in shown and sheet == "Summary":
                continue  # a margin in percent
            at = f"{sheet}!{place}: {value} shown as {shown}"
            assert re.fullmatch(r"-?[0-9,]+(\.[0-9]+)?", shown), at
            whole, _, decimals = shown.lstrip("-").partition(".")
            assert float(shown.replace(",", "")) == pytest.approx(value, rel=6e-3, abs=5e-7), at
            if value == int(value):
                assert not decimals, at
            elif decimals:
                assert len(f"{whole}{decimals}".replace(",", "").lstrip("0")) <= digits, at


def with_sensors() -> TestResult:
    """Return a result of a drive with counters, a temperature of which is 27 degrees higher after the test."""
    figures = (
        HealthValue(name="Temperature", value=38.0, unit="\N{DEGREE SIGN}C", source="log"),
        HealthValue(name="Host writes", value=1e12, unit="bytes", source="log", role="host written"),
        HealthValue(name="Media writes", value=2e12, unit="bytes", source="log", role="media written"),
    )
    before = Health(read_at="", figures=figures, unread=(), evidence=())
    increases = (27.0, 3e12, 8e12)
    after = [
        dataclasses.replace(figure, value=figure.value + more) for figure, more in zip(figures, increases, strict=True)
    ]
    result = samples.result_of("wsat")
    facts = dataclasses.replace(result.facts, health=before)
    return dataclasses.replace(result, facts=facts, health_after=dataclasses.replace(before, figures=tuple(after)))


def test_a_whole_number_beside_a_fraction_has_no_decimals() -> None:
    """A temperature of 27 degrees is not shown as 27.000, although the write amplification below it has decimals."""
    shown = [
        text for place, (_, text) in Book(xlsx.make(with_sensors())).numbers("Drive health").items() if "E" in place
    ]
    assert shown == ["27", "3,000,000,000,000", "8,000,000,000,000", "2.667"]


def test_the_chart_of_a_window_has_its_lines_and_says_what_it_draws() -> None:
    """All rounds are drawn, and over the window the average, the ends of the allowed band and the best fit."""
    result = samples.result_of("latency", steady=False)
    book = Book(xlsx.make(result))
    (loop,) = result.loops
    assert loop.window is not None
    first, last = loop.window.numbers[0], loop.window.numbers[-1]
    determinations = dict(loop.window.determinations)
    charts = [book.part(name) for name in book.parts if name.startswith("xl/charts/chart")]
    windows = [chart for chart in charts if "'Steady state'!" in "".join(chart.itertext())]
    assert len(windows) == len(determinations)
    for number, (chart, state) in enumerate(zip(windows, determinations.values(), strict=True)):
        top = 20 * number + 11
        assert f"all rounds; lines: window, rounds {first} - {last}" in "".join(chart.itertext())
        drawn = ["".join(series.itertext()) for series in chart.iter(f"{{{NS['c']}}}ser")]
        assert [f"$A${row}" in text for row, text in enumerate(drawn[1:], top + 1)] == [True] * 4
        assert [book.value("Steady state", f"{column}{top}") for column in "BC"] == [first, last]
        ends = [[book.value("Steady state", f"{column}{top + row}") for column in "BC"] for row in range(1, 5)]
        for pair, factor in zip(ends[:3], (1, 1.1, 0.9), strict=True):
            assert pair == pytest.approx([factor * state.average] * 2)
        slope = (ends[3][1] - ends[3][0]) / (last - first)
        assert slope == pytest.approx(numpy.polyfit(state.rounds, state.values, 1)[0])
        assert sum(ends[3]) / 2 == pytest.approx(state.average)


def axis_ends(chart: etree._Element, identifier: int) -> tuple[float, float]:
    """Return the ends of the first or second axis of a scatter chart."""
    axis = chart.findall(".//c:valAx", NS)[identifier]
    low, high = (axis.find(f"c:scaling/c:{end}", NS) for end in ("min", "max"))
    assert low is not None
    assert high is not None
    return float(low.get("val", "")), float(high.get("val", ""))


@pytest.mark.parametrize("test", ["latency", "wsat"])
def test_the_chart_of_a_window_shows_the_rounds_alone_and_no_empty_half(test: str) -> None:
    """Its axes end at the first and last round, and near the values of rounds and lines; its heading says so."""
    result = samples.result_of(test)
    book = Book(xlsx.make(result))
    charts = [book.part(name) for name in book.parts if name.startswith("xl/charts/chart")]
    (chart,) = (one for one in charts if "'Steady state'!" in "".join(one.itertext()))
    rounds, values = (
        {cell: value for cell, (value, _) in book.numbers("Rounds").items() if cell[0] == column} for column in "AB"
    )
    values |= {cell: value for (sheet, cell), value in book.formulas() if sheet == "Rounds"}
    lines = [book.value("Steady state", f"{column}{row}") for column in "BC" for row in range(12, 16)]
    low, high = axis_ends(chart, 1)
    drawn = [*values.values(), *lines]

    assert axis_ends(chart, 0) == (min(rounds.values()), max(rounds.values()))
    assert low <= min(drawn) < max(drawn) <= high
    assert max(drawn) - min(drawn) > 0.6 * (high - low)
    assert (low > 0) == (test == "latency") == ("(axis not from zero)" in "".join(chart.itertext()))


def test_the_chart_of_samples_is_in_minutes() -> None:
    """Its x values are those of the column in minutes, which is calculated from the ends in seconds."""
    result = samples.result_of("wsat")
    book = Book(xlsx.make(result))
    columns = {text: place[0] for place, text in book.texts("Samples stimulus").items() if place[1:] == "2"}
    charts = ["".join(book.part(name).itertext()) for name in book.parts if name.startswith("xl/charts/chart")]
    (chart,) = (one for one in charts if "'Samples stimulus'!" in one)
    minutes = columns["ended_minutes"]
    line = result.time_line("stimulus")
    assert line is not None
    ends = [book.value("Samples stimulus", f"{minutes}{row}") for row in range(3, len(line) + 3)]
    assert ends == pytest.approx([seconds / 60 for seconds in line.ended_seconds])
    assert f"'Samples stimulus'!${minutes}$3:${minutes}${len(line) + 2}" in chart
    assert "Time (minutes)" in chart


def print_setup(book: Book, sheet: str) -> dict[str, int]:
    """Return the scale of a printed sheet in percent, or the number of pages beside one another."""
    setup = book.part(f"xl/worksheets/sheet{book.names.index(sheet) + 1}.xml").find(".//m:pageSetup", NS)
    assert setup is not None
    return {name: int(value) for name, value in setup.items() if name in ("scale", "fitToWidth")}


@pytest.mark.long_but_first
@pytest.mark.parametrize(("test", "sides"), [("dirth", "both"), ("iops", "down")])
def test_a_matrix_has_numbers_at_its_sides_and_fills_a_page(test: str, sides: str) -> None:
    """Threads, queue depths and block sizes can be sorted; the chart is below the matrix, which is hardly reduced."""
    book = Book(xlsx.make(RESULTS[test]()))
    numbers = book.numbers("Matrix IOPS")
    across = [numbers[f"{column}2"][0] for column in "BCDEF" if f"{column}2" in numbers]
    down = [numbers[f"A{row}"][0] for row in range(3, 40) if f"A{row}" in numbers]
    assert down == sorted(down)
    assert len(down) > 4
    assert (across == sorted(across) and len(across) == 5) if sides == "both" else not across
    drawings = [book.part(name) for name in book.parts if name.startswith("xl/drawings/drawing")]
    rows = {int(row.text or "") for one in drawings for row in one.iter() if etree.QName(row).localname == "row"}
    assert len(down) + 3 in rows
    assert print_setup(book, "Matrix IOPS")["scale"] >= 75


def test_a_table_of_few_rows_is_not_printed_on_many_pages() -> None:
    """One row of percentiles, and of the samples of a histogram, is on one page."""
    book = Book(xlsx.make(samples.result_of("wsat")))
    for sheet in ("Percentiles", "Samples histogram"):
        assert book.last_row(sheet) == 3
        assert print_setup(book, sheet).get("fitToWidth", 1) == 1


@pytest.mark.long
def test_a_wrapped_row_is_as_high_as_its_text() -> None:
    """Programs that do not adapt heights when they open a file overprint no row."""
    command = ["snia-pts", *["--word"] * 40]
    book = Book(xlsx.make(samples.iops_result(command_line=command)))
    rows = {row.get("r"): row.get("ht") for row in book.part("xl/worksheets/sheet1.xml").iter(f"{{{NS['m']}}}row")}
    (place,) = (place for place, text in book.texts("Summary").items() if text.startswith("snia-pts --word"))
    assert float(rows[place[1:]] or 0) >= 15 * len(" ".join(command)) / 28


@pytest.mark.long
def test_the_heads_of_percentile_matrices_overprint_no_row() -> None:
    """Each of the rows with the titles of both sides, which are wrapped, is two lines high."""
    book = Book(xlsx.make(samples.iops_result()))
    sheet = book.part(f"xl/worksheets/sheet{book.names.index('Percentile matrices') + 1}.xml")
    heights = {row.get("r"): float(row.get("ht") or 0) for row in sheet.iter(f"{{{NS['m']}}}row")}
    heads = [
        place for place, text in book.texts("Percentile matrices").items() if text == "Block size (KiB) / R/W mix (%)"
    ]
    assert len(heads) == 12
    assert all(heights[place[1:]] >= 30 for place in heads)


def test_the_heads_of_rounds_overprint_no_row() -> None:
    """A head that is longer than its column is two lines high."""
    book = Book(xlsx.make(samples.result_of("dirth")))
    sheet = book.part(f"xl/worksheets/sheet{book.names.index('Rounds') + 1}.xml")
    heights = {row.get("r"): float(row.get("ht") or 0) for row in sheet.iter(f"{{{NS['m']}}}row")}
    places = [place for place, text in book.texts("Rounds").items() if text == "RND 8 KiB 65/35 T32Q32 IOPS"]
    assert [heights[place[1:]] for place in places] == [30]


def test_bytes_are_shown_with_all_their_digits() -> None:
    """Whole numbers have separators and a column that is wide enough; the other columns have a number of decimals."""
    book = Book(xlsx.make(samples.result_of("wsat")))
    (at,) = (place[0] for place, text in book.texts("Measurements").items() if text == "range_bytes")
    sheet = book.part(f"xl/worksheets/sheet{book.names.index('Measurements') + 1}.xml")
    widths = {int(one.get("min", "")): float(one.get("width", "")) for one in sheet.iter(f"{{{NS['m']}}}col")}
    value, shown = book.numbers("Measurements")[f"{at}3"]
    assert shown == f"{value:,.0f}"
    rows = sheet.findall(".//m:row", NS)[2:]
    texts = [cell for row in rows for cell in row if cell.get("t") == "s"]
    assert texts
    assert {cell.get("s") for cell in texts} == {None}  # only numbers are aligned right
    assert widths[ascii_uppercase.index(at) + 1] > len(shown)


def test_a_page_of_percentile_matrices_has_whole_tables() -> None:
    """A page break is before a title, and no page has more rows than fit on it."""
    book = Book(xlsx.make(samples.iops_result()))
    sheet = book.part(f"xl/worksheets/sheet{book.names.index('Percentile matrices') + 1}.xml")
    breaks = [int(item.get("id", "")) for item in sheet.iterfind(".//m:rowBreaks/m:brk", NS)]
    assert breaks
    texts = book.texts("Percentile matrices")
    assert all(texts[f"A{row + 1}"].startswith(("Reads: ", "Writes: ")) for row in breaks)
    assert max(last - first for first, last in itertools.pairwise([0, *breaks])) * 15 <= 480


def test_a_wide_table_is_printed_on_several_pages_beside_one_another() -> None:
    """The columns up to the name of the point are on each of them."""
    book = Book(xlsx.make(samples.iops_result()))
    number = book.names.index("Measurements") + 1
    setup = book.part(f"xl/worksheets/sheet{number}.xml").find(".//m:pageSetup", NS)
    titles = [one.text for one in book.part("xl/workbook.xml").iter(f"{{{NS['m']}}}definedName")]
    assert setup is not None
    assert int(setup.get("fitToWidth", "1")) > 1
    assert "Measurements!$A:$E,Measurements!$1:$2" in titles


def test_the_workbook_of_a_file_matrix_is_readable() -> None:
    """No key of its specification is cut, no chart by a page, and a time below 1 ms is not shown as 0."""
    book = Book(xlsx.make(RESULTS["file matrix"]()))
    sheet = book.part(f"xl/worksheets/sheet{book.names.index('Specification') + 1}.xml")
    widths = [float(column.get("width", "")) for column in sheet.iter(f"{{{NS['m']}}}col")]
    keys = [text for place, text in book.texts("Specification").items() if place.startswith("A")]
    matrices = book.part(f"xl/worksheets/sheet{book.names.index('Matrix MB per s') + 1}.xml")
    breaks = [int(item.get("id", "")) for item in matrices.iterfind(".//m:rowBreaks/m:brk", NS)]
    formats = {item.get("formatCode") for item in book.part("xl/styles.xml").iter(f"{{{NS['m']}}}numFmt")}

    assert len(max(keys, key=len)) > 20
    assert widths[0] > len(max(keys, key=len))
    assert breaks == [50, 100, 150, 200]  # two matrices of 25 rows with their charts on each page
    assert "#,##0.###" not in formats


def test_a_matrix_without_a_rate_has_no_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    """If all points of an operation were too short for a rate, its cells are #N/A; the response times have a chart."""
    monkeypatch.setattr("snia_pts.model.measurement.SHORTEST_RATED_MS", 10**12)
    book = Book(xlsx.make(RESULTS["file matrix"]()))
    charts = ["".join(book.part(part).itertext()) for part in book.parts if part.startswith("xl/charts/chart")]
    rates = [value for (sheet, _), value in book.formulas() if sheet == "Matrix MB per s"]
    assert len(rates) > 50
    assert all(map(math.isnan, rates))
    assert len(charts) == 10
    assert all("Matrix ART" in chart for chart in charts)


def test_no_chart_has_a_single_point() -> None:
    """A time line of one sample, such as a stimulus without samples, has no chart; one of several has."""
    book = Book(xlsx.make(samples.result_of("wsat")))
    charts = ["".join(book.part(part).itertext()) for part in book.parts if part.startswith("xl/charts/chart")]
    rows = {name: book.last_row(name) for name in book.names if name.startswith("Samples")}
    assert min(rows.values()) == 3
    assert {name for name in rows if any(f"'{name}'!" in chart for chart in charts)} == {
        name for name, last in rows.items() if last > 3
    }


@pytest.mark.long
def test_texts_of_devices_stay_texts() -> None:
    """A model that would be a formula or a link in a spreadsheet is a text cell, in CSV with an apostrophe."""
    result = samples.result_of("iops", device=samples.dut(model=HOSTILE), operator=HOSTILE, command_line=["=1+1"])
    book = Book(xlsx.make(result))
    texts = "".join(book.part("xl/sharedStrings.xml").itertext())
    run = next(table for table in data_tables(result) if table.name == "run")
    rows = dict(csv.reader(io.StringIO(as_csv(run).decode(), newline="")))

    assert '=HYPERLINK("http://x","y")' in texts
    assert "\x07" not in texts
    assert {sheet for (sheet, _), _ in book.formulas()} == {
        "Summary",
        "Steady state",
        "Key figures",
        "Matrix IOPS",
        "Matrix MB per s",
        "Matrix ART",
        "Rounds",
        "Points",
        "Percentile matrices",
        "Measurements",
        "Samples WIPC",
    }
    assert not [part for part in book.parts if "hyperlink" in part or "externalLink" in part]
    assert rows["dut.model"] == f"'{printable(HOSTILE)}"
    for text in (" =1+1", "\uff1d1+1", "\u3000\uff0b1"):
        assert as_csv(dataclasses.replace(run, rows=(("x", text),))).decode().splitlines()[-1] == f"x,'{text}"
    assert rows["command_line"] == "'=1+1"


def test_tables_have_the_exact_measured_values() -> None:
    """Numbers in CSV and JSON read back as exactly those of the result; missing ones are empty or null."""
    result = samples.iops_result()
    tables = {table.name: table for table in data_tables(result)}
    rows = list(csv.DictReader(io.StringIO(as_csv(tables["measurements"]).decode(), newline="")))
    by_name = {table["name"]: table for table in json.loads(as_json(tuple(tables.values())))["tables"]}
    measured = list(result.measurements)

    assert [float(row["iops"]) for row in rows] == [measurement.iops for measurement in measured]
    assert [int(row["write_ios"]) for row in rows] == [measurement.write.ios for measurement in measured]
    assert rows[0]["round"] == ""
    column = [field["name"] for field in by_name["measurements"]["fields"]].index("average_response_us")
    assert by_name["measurements"]["fields"][column]["unit"] == "us"
    assert [row[column] for row in by_name["measurements"]["rows"]] == [
        measurement.average_response_us for measurement in measured
    ]
    assert len(rows) == len(measured)


def test_the_table_iostat_has_a_row_for_each_measurement_with_readings() -> None:
    """Of the target, or of the device below the file system of a file; n/a is empty, and columns have their units."""
    result = samples.result_of("wsat")
    line = result.time_lines[0]
    assert "iostat" not in {table.name for table in data_tables(result)}
    below = block_statistics(read_ios=300, read_bytes=300 * 8192, read_ms=9, device="dm-3")
    changed = dataclasses.replace(line.measurements[0], telemetry=vitals(seconds=2.0, underlying=below))
    shown = dataclasses.replace(result, time_lines=(dataclasses.replace(line, measurements=[changed]),))
    (table,) = (table for table in data_tables(shown) if table.name == "iostat")
    (row,) = csv.DictReader(io.StringIO(as_csv(table).decode(), newline=""))
    units = {field["name"]: field["unit"] for field in json.loads(as_json((table,)))["tables"][0]["fields"]}

    expected = {"device": "dm-3", "seconds": "2.0", "r/s": "150.0", "w/s": "500.0", "rkB/s": "1200.0"}
    expected |= {
        "wkB/s": "2000.0",
        "rrqm/s": "0.0",
        "wrqm/s": "3.5",
        "w_await": "0.9",
        "aqu-sz": "30.0",
        "%util": "99.0",
    }
    assert "r_await" not in row  # 9 ms are too few for the kernel's clock
    assert {name: row[name] for name in expected} == expected
    assert (units["r/s"], units["wkB/s"], units["w_await"], units["%util"]) == ("1/s", "KiB/s", "ms", "%")


@pytest.mark.parametrize("name", ["iops", "wsat", "dead"])
def test_result_xml_has_the_measurements_of_the_tables(name: str) -> None:
    """Each attribute is the cell of the column with its name; a response time of no I/O is in neither."""
    result = RESULTS[name]()
    (table,) = (table for table in data_tables(result) if table.name == "measurements")
    elements = {
        element.get("evidence"): element for element in etree.fromstring(result_xml(result)).iter("measurement")
    }
    positions = ("part", "phase", "round", "in_window", "point", "interruptions")

    assert len(elements) == len(table.rows) > 1
    for row in csv.DictReader(io.StringIO(as_csv(table).decode(), newline="")):
        cells = {field: text for field, text in row.items() if text and field not in positions}
        attributes = {field: str(text) for field, text in elements[row["evidence"]].attrib.items()}
        assert {field: text.removesuffix(".0") for field, text in cells.items()} == attributes
        assert ("average_response_us" in cells) == (int(cells["read_ios"]) + int(cells["write_ios"]) > 0)


def test_rounds_are_those_that_steady_state_was_judged_on() -> None:
    """The table of rounds has each tracked variable of each complete round, and marks its window."""
    result = samples.iops_result()
    (loop,) = result.loops
    table = next(table for table in data_tables(result) if table.name == "rounds")
    assert loop.window is not None
    tracked = [variable for variable, _ in loop.window.determinations]

    assert [row[table.column("value")] for row in table.rows] == [
        METRICS[variable.metric].read(measured_round.point(variable))
        for measured_round in loop.complete
        for variable in tracked
    ]
    inside = {row[table.column("round")] for row in table.rows if row[table.column("in_window")]}
    assert inside == set(loop.window.numbers)


@pytest.mark.long
def test_a_report_is_written_in_the_requested_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """report --to writes only these formats and prints the paths; an unknown format is an error, and writes nothing."""
    place = tmp_path / "run"
    brief = ("--set", "rounds.point_seconds=1", "--set", "rounds.maximum=5", "--progress", "none")
    assert main(["latency", "sim:enterprise-nvme", "--run-dir", str(place), *brief]) == 0
    for name in ("report.pdf", "report.html", "report.rst", "report.xlsx"):
        (place / name).unlink()
    capsys.readouterr()

    assert main(["report", str(place), "--to", "xlsx,csv,json"]) == 0
    assert capsys.readouterr().out.split() == [str(place / name) for name in ("report.xlsx", "tables", "report.json")]
    assert not (place / "report.pdf").exists()
    names = {path.stem for path in (place / "tables").glob("*.csv")}
    assert {"run", "measurements", "points", "rounds", "windows", "samples-histogram"} <= names
    assert json.loads((place / "report.json").read_text())["format"] == 1

    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=place / "tables", check=True)
    assert main(["report", str(place), "--to", "csv"]) == 0
    assert {path.stem for path in (place / "tables").glob("*.csv")} == names

    assert main(["report", str(place), "--to", "docx"]) == UsageError.exit_code
    assert "unknown format 'docx'" in capsys.readouterr().err


@pytest.mark.long
def test_libreoffice_calculates_the_same(tmp_path: Path) -> None:
    """LibreOffice recalculates the workbook without the suite's numbers."""
    need_program("soffice", "libreoffice-calc-nogui")
    path = write(with_limits(), tmp_path, ("xlsx",))["xlsx"]
    bare = tmp_path / "bare.xlsx"
    with zipfile.ZipFile(path) as given, zipfile.ZipFile(bare, "w") as stripped:
        for name in given.namelist():
            stripped.writestr(name, re.sub(rb"(</f>)<v>[^<]*</v>", rb"\1", given.read(name)))
    home = f"-env:UserInstallation=file://{tmp_path}/home"
    command = ["soffice", home, "--headless", "--convert-to", "xlsx", "--outdir", str(tmp_path / "made"), str(bare)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    calculated = dict(Book((tmp_path / "made" / "bare.xlsx").read_bytes()).formulas())

    for place, stored in Book(path.read_bytes()).formulas():
        assert calculated[place] == pytest.approx(stored, rel=1e-12), place


def test_parts_with_unusual_names_have_their_own_sheets_and_files() -> None:
    """Invalid names, and names that differ in case only, lose no table."""
    sequence = [
        {
            "name": name,
            "access": "RND",
            "read_percent": 0,
            "block_size_kib": 8,
            "seconds": 600,
            "thread_count": 1,
            "queue_depth": 32,
        }
        for name in ("AG [1]", "ag [1]", "'AG: 1'")
    ]
    result = samples.result_of("xsr", overrides=[("groups.sequence", sequence)])
    names = [table.name for table in data_tables(result) if table.name.startswith("samples")]
    book = Book(xlsx.make(result))

    assert len(names) == len(set(names)) == 3
    assert sum(name.startswith(("Samples", "Sheet")) for name in book.names) == 3


@pytest.mark.parametrize(("depths", "log"), [((1, 4), False), ((1, 256), True)])
def test_a_matrix_that_differs_by_more_than_a_factor_of_ten_is_logarithmic(depths: tuple[int, ...], log: bool) -> None:
    """It is the rule of the figures; the heading of the axis says so."""
    axes = (Axis(key="block_size", values=("4 KiB", "8 KiB")), Axis(key="queue_depth", values=depths))
    book = Book(xlsx.make(profiles.result(profiles.spec(profiles.workload(), axes=axes))))
    (iops,) = (
        part for part in book.parts if "'Matrix IOPS'!" in "".join(book.part(part).itertext()) and "chart" in part
    )
    rates = [value for (sheet, _), value in book.formulas() if sheet == "Matrix IOPS"]
    assert (10 < max(rates) / min(rates) < 30) == log
    assert (book.part(iops).find(".//c:logBase", NS) is not None) == log
    assert ("IOPS (log)" in "".join(book.part(iops).itertext())) == log


def test_a_name_like_a_cell_stays_the_title_of_its_chart() -> None:
    """Operations of a profile are named by users; xlsxwriter takes a title like ``a!B1`` for the name of a cell."""
    names = ("a!B1", "a!$B$1, b", "=a!B1")
    axes = (Axis(key="block_size", values=("4 KiB", "8 KiB")), Axis(key="queue_depth", values=(1, 4)))
    profile = profiles.spec(*map(profiles.workload, names), axes=axes)
    book = Book(xlsx.make(profiles.result(profile)))
    charts = [book.part(part) for part in book.parts if part.startswith("xl/charts/chart")]
    titles = [chart.find("c:chart/c:title", NS) for chart in charts]
    texts = ["".join(title.itertext()).replace("\N{WORD JOINER}", "") for title in titles if title is not None]
    for name in names:
        assert [text.partition(": ")[0] for text in texts].count(name) == 3, texts  # IOPS, MB/s and response times
    assert not any(title.findall(".//c:f", NS) for title in titles if title is not None)


@pytest.mark.long_but_first
@pytest.mark.parametrize(("inside", "formats"), [("tables", ("csv",)), ("figures", ("rst",))])
def test_nothing_is_written_through_a_symlink(inside: str, formats: tuple[str, ...], tmp_path: Path) -> None:
    """A symlinked folder in the run folder is refused, and its target is unchanged."""
    elsewhere, place = tmp_path / "elsewhere", tmp_path / "run"
    for folder in (elsewhere, place):
        folder.mkdir()
    (elsewhere / "mine.csv").write_text("mine")
    (elsewhere / "mine.svg").write_text("mine")
    (place / inside).symlink_to(elsewhere)
    with pytest.raises(ReportError, match=f"{inside} is a symlink"):
        write(samples.iops_result(stop_after=60), place, formats)
    remove_report(place)
    assert {path.name: path.read_text() for path in elsewhere.iterdir()} == {"mine.csv": "mine", "mine.svg": "mine"}


#: Files of the user in a run folder; some are named like a figure, or like a table that this report lacks.
KEPT = {
    "result.xml",
    "journal.jsonl",
    "report.of.mine",
    "figures/notes.pdf",
    "figures/mine.svg",
    "figures/mine.pdf",
    "tables/limits.csv",
}


def files_in(folder: Path) -> dict[str, bytes]:
    """Return the content of every file, by path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.long
def test_an_earlier_report_is_removed_completely(tmp_path: Path) -> None:
    """All its files, and nothing else; of figures and tables those that the next report does not have."""
    result = samples.iops_result(stop_after=120)
    for name in KEPT:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    replace_files(tmp_path, {f"figures/logo.{form}": b"of another report" for form in ("svg", "pdf")})
    write(result, tmp_path, ("rst", "csv", "json", "junit", "ocp"))
    assert not list((tmp_path / "figures").glob("logo.*"))
    write(result, tmp_path, ("rst",))
    assert (tmp_path / "report.ocp.jsonl").exists()
    assert (tmp_path / "tables/run.csv").exists()
    remove_report(tmp_path)
    assert files_in(tmp_path) == dict.fromkeys(KEPT, b"mine")


@pytest.mark.long_but_first
@pytest.mark.parametrize(
    ("name", "formats"),
    [
        ("figures/matrix-3d.svg", ("rst",)),
        ("tables/run.csv", ("rst", "csv")),
        ("report.json", ("rst", "json")),
        ("SHA256SUMS", ("rst",)),
    ],
)
def test_a_file_of_the_user_is_not_replaced(name: str, formats: tuple[str, ...], tmp_path: Path) -> None:
    """This holds for a file from before the first report, and for an edited report: nothing is written or removed."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(ReportError, match=rf"{Path(name).name} was not written by snia-pts, or was changed"):
        write(samples.iops_result(), tmp_path, formats)
    assert files_in(tmp_path) == {name: b"mine"}


@pytest.mark.long_but_first
@pytest.mark.parametrize(
    "again", [remove_report, lambda folder: write(samples.iops_result(), folder, ("rst", "csv", "json"))]
)
@pytest.mark.parametrize("name", ["tables/run.csv", "report.rst", "report.json", "SHA256SUMS"])
def test_a_report_file_that_was_edited_is_kept(name: str, again: Callable[[Path], object], tmp_path: Path) -> None:
    """The next report, or a resume, names the conflicting file before it writes or removes anything."""
    write(samples.iops_result(stop_after=120), tmp_path, ("rst", "csv", "json"))
    (tmp_path / name).write_text("annotated")
    before = files_in(tmp_path)
    with pytest.raises(ReportError, match=rf"{Path(name).name} was not written by snia-pts, or was changed"):
        again(tmp_path)
    assert files_in(tmp_path) == before


def test_a_conflicting_file_is_reported_before_a_resume(tmp_path: Path) -> None:
    """A file with a report's name that no report wrote is refused now, not at the end of the resumed run."""
    write(samples.iops_result(stop_after=120), tmp_path, ("json",))
    (tmp_path / "report.pdf").write_text("mine")
    before = files_in(tmp_path)
    with pytest.raises(ReportError, match=r"report\.pdf was not written by snia-pts"):
        remove_report(tmp_path)
    assert files_in(tmp_path) == before


def test_other_formats_keep_an_edited_report_and_the_list_of_files(tmp_path: Path) -> None:
    """Only the formats of --to are written; the next report still knows which other files it wrote."""
    result = samples.iops_result(stop_after=120)
    write(result, tmp_path, ("json", "junit"))
    (tmp_path / "report.json").write_text("annotated")
    write(result, tmp_path, ("junit",))
    assert (tmp_path / "report.json").read_text() == "annotated"
    write(samples.iops_result(stop_after=60), tmp_path, ("junit",))
    with pytest.raises(ReportError, match=r"report\.json was not written by snia-pts, or was changed"):
        write(result, tmp_path, ("json",))
    (tmp_path / "report.json").rename(tmp_path / "annotated.json")
    write(result, tmp_path, ("json",))
    subprocess.run(["sha256sum", "--check", "--quiet", "report.sha256"], cwd=tmp_path, check=True)


@pytest.mark.parametrize(
    "again", [remove_report, lambda folder: write(samples.iops_result(stop_after=120), folder, ("csv",))]
)
@pytest.mark.parametrize("command", ["sha256sum *.csv >SHA256SUMS", "sha256sum notes.csv >>SHA256SUMS"])
def test_checksums_of_the_user_do_not_mark_files_as_the_reports(
    command: str, again: Callable[[Path], object], tmp_path: Path
) -> None:
    """A user may create such a list for an archive; the next report removes nothing because of it."""
    write(samples.iops_result(stop_after=60), tmp_path, ("csv",))
    (tmp_path / "tables/notes.csv").write_text("mine")
    subprocess.run(["sh", "-c", command], cwd=tmp_path / "tables", check=True)
    before = files_in(tmp_path)
    with pytest.raises(ReportError, match="SHA256SUMS was not written by snia-pts, or was changed"):
        again(tmp_path)
    assert files_in(tmp_path) == before


def test_new_files_that_do_not_all_fit_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No incomplete report remains that could be mistaken for a complete one, or hinder the next one."""
    write_whole, disk = UnbufferedFile.write, [5]

    def write_until_full(file: UnbufferedFile, content: bytes) -> int:
        disk[0] -= len(content)
        if disk[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write_whole(file, content)

    files = {"comparison.rst": b"1234", "figures/a.svg": b"56"}
    (tmp_path / "mine.txt").write_text("mine")
    with monkeypatch.context() as patch:
        patch.setattr(UnbufferedFile, "write", write_until_full)
        with pytest.raises(ReportError, match=r"figures/a\.svg: No space left on device") as refused:
            replace_files(tmp_path, files, new=True)
    assert "make room" in refused.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]

    replace_files(tmp_path, files, new=True)
    assert files_in(tmp_path) == {**files, "mine.txt": b"mine"}


def test_a_report_after_an_interrupted_one_replaces_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report killed after any file leaves old and new ones: the next report recognises both as its own."""
    write(samples.iops_result(stop_after=60), tmp_path, ("csv",))
    written = list[Path]()

    def killed(path: Path, content: bytes, *, durable: bool) -> None:
        if len(written) == 3:
            raise KeyboardInterrupt
        written.append(path)
        replace_file(path, content, durable=durable)

    with monkeypatch.context() as patch:
        patch.setattr(writing, "replace_file", killed)
        with pytest.raises(KeyboardInterrupt):
            write(samples.iops_result(stop_after=120), tmp_path, ("csv",))
    assert len(written) == 3
    write(samples.iops_result(stop_after=200), tmp_path, ("csv",))
    remove_report(tmp_path)
    assert files_in(tmp_path) == {}


@pytest.mark.long
def test_a_workbook_has_a_part_of_a_long_line_and_says_so() -> None:
    """A day of seconds is thinned in the workbook, which every report includes; CSV and JSON have all samples."""
    seconds = [("settling.sample_seconds", 1.0), ("settling.stride_samples", 900), ("saturation.capacities", 100)]
    result = samples.result_of("wsat", pts="1.1", steady=False, overrides=seconds)
    (thinned,) = (table for table in data_tables(result, max_samples=10_000) if table.name.startswith("samples-"))
    (whole,) = (table for table in data_tables(result) if table.name.startswith("samples-"))

    assert whole.title == "Samples: stimulus"
    assert len(whole.rows) == 86_400
    assert thinned.title == "Samples: stimulus, 1 of every 9 of 86400 samples"
    assert thinned.rows == whole.rows[::9]
