"""The result as a workbook that a reviewer can check: formulas for every step from I/O counts to the verdict.

Each formula cell also stores the value computed by this program, so that it is shown without recalculation, and
recalculation can be compared with it.  Texts are text cells: no text of a device becomes a formula, a number or a link.
"""

from __future__ import annotations

import datetime
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xlsxwriter.format import Format
from xlsxwriter.utility import xl_range_abs, xl_rowcol_to_cell
from xlsxwriter.workbook import Workbook
from xlsxwriter.worksheet import Worksheet

from ...analysis.steady_state import SteadyState
from ...analysis.window import Judged
from ...model.measurement import METRICS, SHORTEST_RATED_MS, MeasuredRound, Measurement
from ...results.attributes import METRIC_COLUMNS, PERCENTS, Value
from ...results.result import TestResult
from ...results.tables import RATES, DataTable, data_tables, placed_measurements, unit
from ...results.tracked_series import TrackedSeries, evaluated_series
from ...spec import SteadyStateRule, Tracked
from ...text import one_line
from ..figures.figure import PointMatrix
from ..figures.style import COLOURS
from ..registry import further_pages
from ..sections.percentiles import TOO_FEW_IOS, TailMatrix, tail_matrices
from ..tables import NOT_APPLICABLE

#: Longer time lines are reduced to every n-th sample: workbooks are built in memory, with up to 1 048 576 rows a sheet.
_MAX_SAMPLES = 10_000
#: The maximum length of a cell's text, and of a sheet's name.
_MAX_TEXT_LENGTH, _MAX_NAME_LENGTH = 32_767, 31
#: Height in rows of a steady state determination, with its chart beside it.
_BLOCK_ROWS = 20
#: The number of the paper size A4 in workbooks.
_A4 = 9
_NUMBER_FORMATS = {"iops": "#,##0.0", "mb_per_second": "#,##0.000"}


def make(result: TestResult) -> bytes:
    """Return ``result`` as XLSX; the same result gives the same bytes."""
    output = io.BytesIO()
    book = Workbook(
        output,
        {
            "in_memory": True,
            "strings_to_numbers": False,
            "strings_to_formulas": False,
            "strings_to_urls": False,
            "nan_inf_to_errors": False,
        },
    )
    facts = result.facts
    book.set_properties(
        {
            "title": one_line(f"{facts.spec.title} Test: {facts.dut.model or facts.dut.name}")[:255],
            "author": one_line(facts.about.operator)[:255],
            "comments": "made by snia-pts",
            "created": _creation_time(result),
        }
    )
    _WorkbookWriter(book, result).fill()
    book.close()
    return output.getvalue()


def _creation_time(result: TestResult) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(result.finished).replace(tzinfo=None)
    except ValueError:
        return datetime.datetime(1980, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Rounds on which steady state was evaluated, and the position of their values in the sheet Rounds."""

    series: TrackedSeries
    first_row: int

    def row(self, number: int) -> int:
        """Return the row of a round."""
        return self.first_row + [judged.number for judged in self.series.rounds].index(number)


class _WorkbookWriter:
    """Writes a result to a workbook, sheet by sheet."""

    def __init__(self, book: Workbook, result: TestResult) -> None:
        self._book = book
        self._result = result
        self._data = {data.name: data for data in data_tables(result, max_samples=_MAX_SAMPLES)}
        self._bold = book.add_format({"bold": True})
        self._head = book.add_format({"bold": True, "text_wrap": True, "valign": "top", "bottom": 1})
        self._wrapped = book.add_format({"text_wrap": True, "valign": "top", "align": "left"})
        self._formats = {name: book.add_format({"num_format": text}) for name, text in _NUMBER_FORMATS.items()}
        self._number = book.add_format({"num_format": "#,##0.###"})
        #: The row of each measurement in the sheet Measurements, by its identity.
        self._rows = {id(measurement): row for row, (_, measurement) in enumerate(placed_measurements(result), start=1)}

    def fill(self) -> None:
        """Write all sheets; the first has the verdict."""
        summary = self._book.add_worksheet("Summary")
        blocks = list(self._blocks())
        with_window = [block for block in blocks if block.series.window]
        steady = self._book.add_worksheet("Steady state") if with_window else None
        rounds = self._book.add_worksheet("Rounds") if blocks else None
        points = self._book.add_worksheet("Points") if "points" in self._data else None
        matrices = tuple(self._point_matrices()) if points else ()
        matrix_sheet = self._book.add_worksheet("Matrices") if matrices else None
        percentiles = self._book.add_worksheet("Percentiles") if "percentiles" in self._data else None
        tails = tuple(tail_matrices(self._result)) if percentiles else ()
        tail_sheet = self._book.add_worksheet("Percentile matrices") if tails else None
        measurements = self._book.add_worksheet("Measurements") if "measurements" in self._data else None
        if measurements:
            self._measurements(measurements)
        if points:
            self._points(points)
        if matrix_sheet:
            self._matrices(matrix_sheet, matrices)
        if percentiles:
            self._table(percentiles, self._data["percentiles"])
        if tail_sheet:
            self._tail_matrices(tail_sheet, tails)
        if rounds:
            self._rounds(rounds, blocks)
        if steady:
            self._steady(steady, with_window)
        for data in self._data.values():
            if data.name.startswith("samples-"):
                self._samples(data)
        self._table(self._book.add_worksheet("Specification"), self._data["specification"])
        self._summary(summary)
        for sheet in self._book.worksheets():
            sheet.set_landscape()
            sheet.set_paper(_A4)
            sheet.fit_to_pages(1, 0)

    # -- cells --------------------------------------------------------------------------------------------------------

    def _write(self, sheet: Worksheet, row: int, column: int, value: Value, cell_format: Format | None = None) -> None:
        if isinstance(value, bool):
            sheet.write_boolean(row, column, value, cell_format)
        elif isinstance(value, str):
            sheet.write_string(row, column, one_line(value)[:_MAX_TEXT_LENGTH], cell_format)
        elif value is not None and math.isfinite(value):
            sheet.write_number(row, column, value, cell_format)

    def _header_row(self, sheet: Worksheet, row: int, fields: Sequence[str]) -> None:
        for column, field in enumerate(fields):
            heading = field if not unit(field) or field in RATES else f"{field}\n({unit(field)})"
            self._write(sheet, row, column, heading, self._head)

    def _table(self, sheet: Worksheet, data: DataTable) -> None:
        """Write data to a sheet with a frozen header row."""
        self._header_row(sheet, 0, data.fields)
        for row, values in enumerate(data.rows, start=1):
            for column, value in enumerate(values):
                self._write(sheet, row, column, value, self._formats.get(data.fields[column]))
        sheet.freeze_panes(1, 0)
        sheet.autofilter(0, 0, len(data.rows), len(data.fields) - 1)
        for column, field in enumerate(data.fields):
            longest = max((len(str(row[column])) for row in data.rows[:200]), default=0)
            sheet.set_column(column, column, min(60, max(11, len(field) + 1, longest + 1 if field == "value" else 0)))

    # -- sheets -------------------------------------------------------------------------------------------------------

    def _summary(self, sheet: Worksheet) -> None:
        facts, result = self._result.facts, self._result
        sheet.set_column(0, 0, 34, self._wrapped)
        sheet.set_column(1, 3, 48, self._wrapped)
        self._write(sheet, 0, 0, f"{facts.spec.title} Test, {facts.spec.revision}", self._bold)
        self._write(sheet, 1, 0, result.verdict, self._bold)
        conformance = "PTS conformant" if result.conformant else "NOT PTS conformant: see the deviations below"
        self._write(sheet, 2, 0, "SIMULATED: no drive was tested" if facts.dut.simulated else conformance, self._bold)
        row = 4
        for name in ("limits", "deviations", "settings", "warnings", "features", "run"):
            data = self._data.get(name)
            if data is None:
                continue
            self._write(sheet, row, 0, data.title, self._bold)
            self._header_row(sheet, row + 1, data.fields)
            for line, values in enumerate(data.rows, start=row + 2):
                for column, value in enumerate(values):
                    self._write(sheet, line, column, value, self._wrapped)
            row += len(data.rows) + 3

    def _measurements(self, sheet: Worksheet) -> None:
        """Write all measurements; IOPS and MB/s are calculated from counts and times, if the data has them."""
        data = self._data["measurements"]
        self._table(sheet, data)
        if "write_ios" not in data.fields:
            return
        for row, values in enumerate(data.rows, start=1):
            for name, counts, scale in (("iops", "ios", "1000"), ("mb_per_second", "bytes", "0.001")):
                rates = (self._rate(data, row, direction, counts, scale) for direction in ("read", "write"))
                column = data.column(name)
                sheet.write_formula(row, column, "=" + "+".join(rates), self._formats[name], _cached(values[column]))

    def _rate(self, data: DataTable, row: int, direction: str, counts: str, scale: str) -> str:
        """Return the formula of a measurement's read or write rate per second; see ``rate_per_second``."""
        count, time = self._cell(data, row, f"{direction}_{counts}"), self._cell(data, row, f"{direction}_runtime_ms")
        return f"IF({time}>={SHORTEST_RATED_MS},{scale}*{count}/{time},IF({count}>0,NA(),0))"

    @staticmethod
    def _cell(data: DataTable, row: int, field: str) -> str:
        return str(xl_rowcol_to_cell(row, data.column(field), row_abs=True, col_abs=True))

    def _measurement_cell(self, measurement: Measurement, field: str) -> str:
        """Return the reference of a measurement's cell in the sheet Measurements."""
        return f"Measurements!{self._cell(self._data['measurements'], self._rows[id(measurement)], field)}"

    def _points(self, sheet: Worksheet) -> None:
        """Write the means over each loop's window or a profile's repeats, with IOPS and MB/s as formulas."""
        data = self._data["points"]
        self._table(sheet, data)
        windows = map(self._result.evaluated_rounds, self._result.loops)
        points = (point for window in windows for point in zip(*(one.measurements for one in window), strict=True))
        for row, measurements in enumerate(points, start=1):
            for name in (rate for rate in RATES if rate in data.fields):
                column = data.column(name)
                cells = (self._measurement_cell(measurement, name) for measurement in measurements)
                formula = f"=AVERAGE({','.join(cells)})"
                sheet.write_formula(row, column, formula, self._formats[name], _cached(data.rows[row - 1][column]))

    def _point_matrices(self) -> Iterator[PointMatrix]:
        """Yield the matrices of a test beside the standard."""
        further = further_pages(self._result.facts.spec.test)
        return further.point_matrices(self._result) if further else iter(())

    def _matrices(self, sheet: Worksheet, matrices: Sequence[PointMatrix]) -> None:
        """Write each matrix as references to the sheet Points, with its chart; all charts have the same scale."""
        data, top = self._data["points"], 0
        rows = {row[data.column("point")]: number for number, row in enumerate(data.rows, start=1)}
        maxima: dict[str, float] = {}
        for matrix in matrices:
            values = (data.rows[rows[name] - 1][data.column(matrix.metric)] for name in matrix.points.values())
            numbers = (value for value in values if isinstance(value, int | float) and math.isfinite(value))
            maxima[matrix.metric] = max((maxima.get(matrix.metric, 0.0), *numbers))
        sheet.set_column(0, 0, 20)
        for matrix in matrices:
            self._matrix(sheet, top, matrix, rows)
            chart = self._matrix_chart(sheet.get_name(), top, matrix, maxima[matrix.metric])
            sheet.insert_chart(top, len(matrix.across.keys) + 2, chart, {"object_position": 2})
            top += max(_BLOCK_ROWS, len(matrix.down.keys) + 4)

    def _matrix(self, sheet: Worksheet, top: int, matrix: PointMatrix, rows: Mapping[Value, int]) -> None:
        """Write a matrix; ``rows`` are those of its points in the sheet Points."""
        data, metric = self._data["points"], matrix.metric
        self._write(sheet, top, 0, f"{matrix.title}: {unit(metric)}", self._bold)
        for column, label in enumerate((f"{matrix.down.title} / {matrix.across.title}", *matrix.across.labels)):
            self._write(sheet, top + 1, column, label, self._head)
        for row, (down, label) in enumerate(zip(matrix.down.keys, matrix.down.labels, strict=True), start=top + 2):
            self._write(sheet, row, 0, label)
            for column, across in enumerate(matrix.across.keys, start=1):
                if name := matrix.points.get((across, down)):
                    value = data.rows[rows[name] - 1][data.column(metric)]
                    formula = f"=Points!{self._cell(data, rows[name], metric)}"
                    sheet.write_formula(row, column, formula, self._formats[metric], _cached(value))

    def _matrix_chart(self, sheet: str, top: int, matrix: PointMatrix, maximum: float) -> Any:
        """Return a chart of a matrix: a line for each of its rows."""
        chart, last = self._book.add_chart({"type": "line"}), len(matrix.across.keys)
        for number, row in enumerate(range(top + 2, top + 2 + len(matrix.down.keys))):
            colour = COLOURS[number % len(COLOURS)]
            marker = {"type": "circle", "size": 5, "fill": {"color": colour}, "border": {"color": colour}}
            x, y = [sheet, top + 1, 1, top + 1, last], [sheet, row, 1, row, last]
            line = {"color": colour, "width": 1.5}
            chart.add_series({"name": [sheet, row, 0], "categories": x, "values": y, "line": line, "marker": marker})
        chart.set_title({"name": matrix.title, "name_font": {"size": 10, "bold": False}})
        chart.set_x_axis({"name": matrix.across.title})
        chart.set_y_axis({"name": unit(matrix.metric), "min": 0, "max": _rounded_up(maximum), "num_format": "#,##0.##"})
        chart.set_size({"width": 560, "height": (_BLOCK_ROWS - 1) * 20})
        return chart

    def _tail_matrices(self, sheet: Worksheet, matrices: Sequence[TailMatrix]) -> None:
        """Write the counts of I/Os and each percentile as matrices of references to the sheet Percentiles."""
        sheet.set_column(0, 0, 20)
        sheet.set_column(1, 32, 12)
        top = 0
        for matrix in matrices:
            titles = {
                "ios": "I/Os",
                **{name: f"{percent:g} % response time (ms)" for name, percent in PERCENTS.items()},
            }
            for column, title in titles.items():
                self._write(sheet, top, 0, f"{matrix.title}: {title}", self._bold)
                self._tail_matrix(sheet, top + 1, matrix, column)
                top += len(matrix.down.keys) + 3
        self._write(sheet, top, 0, TOO_FEW_IOS)

    def _tail_matrix(self, sheet: Worksheet, top: int, matrix: TailMatrix, column: str) -> None:
        """Write the head and the rows of a matrix of a column of the sheet Percentiles."""
        data, across = self._data["percentiles"], matrix.across
        values, scale = (matrix.ios, "") if column == "ios" else (matrix.times_ms(column), "/1000")
        heads = (f"{matrix.down.title} / {across.title}", *(f"{across.prefix}{label}" for label in across.labels))
        for place, head in enumerate(heads):
            self._write(sheet, top, place, head, self._head)
        for row, (down, label) in enumerate(zip(matrix.down.keys, matrix.down.labels, strict=True), start=top + 1):
            self._write(sheet, row, 0, label)
            for place, key in enumerate(across.keys, start=1):
                value = values.get((down, key))
                if value is None:
                    continue
                if math.isfinite(value):
                    cell = self._cell(data, matrix.points[down, key][0] + 1, column)
                    sheet.write_formula(row, place, f"=Percentiles!{cell}{scale}", self._number, value)
                else:
                    self._write(sheet, row, place, NOT_APPLICABLE)

    def _blocks(self) -> Iterator[_Block]:
        """Yield the evaluated series; in the sheet Rounds they are stacked with three rows between them."""
        row = 2
        for series in evaluated_series(self._result):
            yield _Block(series=series, first_row=row)
            row += len(series.rounds) + 4

    def _rounds(self, sheet: Worksheet, blocks: Sequence[_Block]) -> None:
        """Write the tracked variables by round, as references to measurements."""
        sheet.set_column(0, 0, 9)
        sheet.set_column(1, 12, 24)
        for block in blocks:
            series = block.series
            self._write(sheet, block.first_row - 2, 0, series.part or series.name, self._bold)
            self._write(sheet, block.first_row - 1, 0, "round", self._head)
            for column, tracked in enumerate(series.rule.tracked, start=1):
                heading = f"{series.label(tracked)}\n{METRICS[tracked.metric].heading}"
                self._write(sheet, block.first_row - 1, column, heading, self._head)
                for row, measured in enumerate(series.rounds, start=block.first_row):
                    sheet.write_number(row, 0, measured.number)
                    self._value(sheet, row, column, measured, tracked)

    def _value(self, sheet: Worksheet, row: int, column: int, measured: Judged, tracked: Tracked) -> None:
        """Write a round's tracked variable: a reference to its measurement, or the sample's value."""
        value = measured.value(tracked)
        if not isinstance(measured, MeasuredRound):
            if math.isfinite(value):
                sheet.write_number(row, column, value, self._number)
            else:
                sheet.write_formula(row, column, "=NA()", self._number, _cached(value))
            return
        field, divisor = METRIC_COLUMNS[tracked.metric]
        scale = f"/{divisor}" if divisor != 1 else ""
        formula = f"={self._measurement_cell(measured.point(tracked), field)}{scale}"
        sheet.write_formula(row, column, formula, self._number, _cached(value))

    def _steady(self, sheet: Worksheet, blocks: Sequence[_Block]) -> None:
        """Write each tracked variable's determination, calculated from the window's rounds."""
        sheet.set_column(0, 0, 40)
        sheet.set_column(1, 6, 14)
        columns = [(block, column) for block in blocks for column in range(1, len(block.series.rule.tracked) + 1)]
        for number, (block, column) in enumerate(columns):
            self._determination(sheet, number * _BLOCK_ROWS, block, column)
        sheet.set_h_pagebreaks([number * _BLOCK_ROWS for number in range(2, len(columns), 2)])

    def _determination(self, sheet: Worksheet, top: int, block: _Block, column: int) -> None:
        series, tracked = block.series, block.series.rule.tracked[column - 1]
        steady_state = dict(series.window.determinations if series.window else ())[tracked]
        first, last = steady_state.rounds[0], steady_state.rounds[-1]
        x, y = (f"Rounds!{xl_range_abs(block.row(first), values, block.row(last), values)}" for values in (0, column))
        cells = {name: xl_rowcol_to_cell(top + row, 1) for row, name in enumerate(_CELL_NAMES, start=1)}
        name, metric = series.part or series.name, METRICS[tracked.metric].heading
        heading = f"{name}: {series.label(tracked)}, {metric}, rounds {first} - {last}"
        self._write(sheet, top, 0, heading, self._bold)
        rows = _determination_rows(series.rule, steady_state, x, y, cells)
        for row, (row_label, formula, value) in enumerate(rows, start=top + 1):
            self._write(sheet, row, 0, row_label)
            if steady_state.evaluable:
                sheet.write_formula(row, 1, formula, None if row_label == "steady" else self._number, value)
            else:
                self._write(sheet, row, 1, "not evaluable")
        sheet.insert_chart(top, 3, self._chart(block, column, heading), {"object_position": 2})

    def _chart(self, block: _Block, column: int, title: str) -> Any:
        """Return a chart of all rounds of a tracked variable, with a y axis from zero."""
        chart = self._book.add_chart({"type": "scatter", "subtype": "straight_with_markers"})
        first, last = block.first_row, block.first_row + len(block.series.rounds) - 1
        marker = {"type": "circle", "size": 5, "fill": {"color": COLOURS[0]}, "border": {"color": COLOURS[0]}}
        x, y = (["Rounds", first, values, last, values] for values in (0, column))
        chart.add_series(
            {"name": title, "categories": x, "values": y, "line": {"color": COLOURS[0], "width": 1.5}, "marker": marker}
        )
        chart.set_legend({"none": True})
        chart.set_title({"name": title, "name_font": {"size": 10, "bold": False}})
        chart.set_x_axis({"name": "Round", "min": 0, "major_gridlines": {"visible": False}})
        chart.set_y_axis(
            {"name": METRICS[block.series.rule.tracked[column - 1].metric].heading, "min": 0, "num_format": "#,##0.##"}
        )
        chart.set_size({"width": 560, "height": _BLOCK_ROWS * 19})
        return chart

    def _samples(self, data: DataTable) -> None:
        """Write a time line and its chart to a sheet of their own."""
        name = re.sub(r"[\[\]:*?/\\]", "-", one_line(data.title.removeprefix("Samples: ")))
        used_names = {sheet.get_name().lower() for sheet in self._book.worksheets()}
        name = f"Samples {name}"[:_MAX_NAME_LENGTH].rstrip("'")
        sheet = self._book.add_worksheet(name if name.lower() not in used_names else None)
        self._table(sheet, data)
        chart = self._book.add_chart({"type": "scatter", "subtype": "straight"})
        columns = (data.column("ended_seconds"), data.column("iops"))
        x, y = ([sheet.get_name(), 1, column, len(data.rows), column] for column in columns)
        chart.add_series({"categories": x, "values": y, "line": {"color": COLOURS[0], "width": 1}})
        chart.set_legend({"none": True})
        chart.set_title(
            {"name": f"IOPS: {data.title.removeprefix('Samples: ')}", "name_font": {"size": 10, "bold": False}}
        )
        chart.set_x_axis({"name": "Seconds", "min": 0, "num_format": "#,##0", "major_gridlines": {"visible": False}})
        chart.set_y_axis({"name": "IOPS", "min": 0, "num_format": "#,##0"})
        chart.set_size({"width": 900, "height": 380})
        sheet.insert_chart(2, len(data.fields) + 1, chart, {"object_position": 2})


#: The values of a determination, one per row, by their names in ``_determination_rows``.
_CELL_NAMES = ("average", "data", "data allowed", "slope", "intercept", "slope excursion", "slope allowed", "steady")


def _determination_rows(
    rule: SteadyStateRule, steady_state: SteadyState, x: str, y: str, cells: Mapping[str, str]
) -> Iterator[tuple[str, str, float | bool]]:
    """Yield label, formula and value of each row of a determination.

    ``x`` and ``y`` are the ranges of the rounds and their values; ``cells`` has the cell of each value by its name.
    """
    data, slope = f"{rule.data_excursion_percent:g}", f"{rule.slope_excursion_percent:g}"
    yield "average", f"=AVERAGE({y})", steady_state.average
    yield "measured data excursion (max - min)", f"=MAX({y})-MIN({y})", steady_state.data_excursion
    allowed = steady_state.allowed_data_excursion
    yield f"allowed data excursion ({data} % of the average)", f"={cells['average']}*{data}/100", allowed
    yield "slope of the best fit, per round", f"=SLOPE({y},{x})", steady_state.slope
    yield "intercept of the best fit", f"=INTERCEPT({y},{x})", steady_state.intercept
    formula = f"=ABS({cells['slope']})*{len(steady_state.rounds) - 1}"
    yield "measured slope excursion", formula, steady_state.slope_excursion
    allowed = steady_state.allowed_slope_excursion
    yield f"allowed slope excursion ({slope} % of the average)", f"={cells['average']}*{slope}/100", allowed
    formula = f"=AND({cells['data']}<={cells['data allowed']},{cells['slope excursion']}<={cells['slope allowed']})"
    yield "steady", formula, steady_state.steady


def _rounded_up(value: float) -> float:
    """Return the next number above ``value`` that has one digit; 1 for 0."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return math.ceil(max(value, power) / power) * power


def _cached(value: Value) -> float | str:
    """Return the value stored with a formula, which programs show until they recalculate."""
    return value if isinstance(value, int | float) and math.isfinite(value) else "#N/A"
