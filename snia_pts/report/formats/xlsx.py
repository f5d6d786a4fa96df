"""The result as a workbook that a reviewer can check: formulas for every step from I/O counts to the verdict.

Each formula cell also stores the value computed by this program, so that it is shown without recalculation, and
recalculation can be compared with it.  Texts are text cells: no text of a device becomes a formula, a number or a link.
"""

from __future__ import annotations

import datetime
import io
import math
import re
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from xlsxwriter.format import Format
from xlsxwriter.utility import xl_range_abs, xl_rowcol_to_cell
from xlsxwriter.workbook import Workbook
from xlsxwriter.worksheet import Worksheet

from ...analysis.steady_state import SteadyState
from ...analysis.window import Judged
from ...model.measurement import METRICS, SHORTEST_RATED_MS, MeasuredRound, Measurement
from ...model.steps import Stimulus
from ...results.attributes import METRIC_COLUMNS, PERCENTS, Value, window_points
from ...results.key_figures import key_figures, loop_points
from ...results.limit_checks import Judgement, judgements
from ...results.result import Loop, TestResult
from ...results.tables import RATES, DataTable, data_tables, heading, placed_measurements
from ...results.tracked_series import TrackedSeries, evaluated_series
from ...spec import SteadyStateRule, Tracked
from ...text import one_line
from ..figures.matrices import Parameter, varying_parameters
from ..figures.style import COLOURS, INK, QUIET
from ..registry import further_pages
from ..sections.percentiles import TOO_FEW_IOS, TailMatrix, tail_matrices
from ..sections.summary import SIMULATED, shortcomings, verdict
from ..tables import NOT_APPLICABLE

#: Longer time lines are reduced to every n-th sample: workbooks are built in memory, with up to 1 048 576 rows a sheet.
_MAX_SAMPLES = 10_000
#: The maximum length of a cell's text, and of a sheet's name.
_MAX_TEXT_LENGTH, _MAX_NAME_LENGTH = 32_767, 31
#: Height in rows of a steady state determination, with its chart beside it.
_BLOCK_ROWS = 20
#: A chart moves with its cells, and its upper border is not on that of the page.
_CHART_PLACE = {"object_position": 2, "y_offset": 5}
#: The number of the paper size A4 in workbooks.
_A4 = 9
#: The first row of data of a table: below the headings, and the names of the columns in result.xml.
_FIRST = 2
#: The height of a line of text in points.
_LINE_HEIGHT = 15
#: The metrics of the matrices: sheet, field, divisor, heading, number format.
_MATRIX_METRICS = (
    ("Matrix IOPS", "iops", 1, "IOPS", "#,##0.0"),
    ("Matrix MB per s", "mb_per_second", 1, "Throughput (MB/s)", "#,##0.000"),
    ("Matrix ART", "average_response_us", 1000, "Average response time (ms)", "#,##0.0000"),
)
#: From this ratio of maximum to minimum, the axis of a matrix is logarithmic.
_LOG_RATIO = 30.0
#: The most points of a profile whose key figures the summary shows.
_MAX_POINTS = 24
#: The widths of the columns of the summary, and the headings of its limits.
_SUMMARY_WIDTHS = (34, 28, 24, 16, 13, 13, 13, 13, 13, 13, 22)
_LIMIT_HEADINGS = (
    "Point or phase",
    "Metric",
    "Unit",
    "Minimum",
    "Maximum",
    "Tolerance (%)",
    "Minimum with tolerance",
    "Maximum with tolerance",
    "Measured",
    "Met",
    "Reason",
)
_FIGURE_FIELDS = ("metric", "at", "unit", "value", "steady")
_NUMBER_FORMATS = {"iops": "#,##0.0", "mb_per_second": "#,##0.000"}
#: The format of other numbers; below 1 with more digits, so that a short time is not shown as 0.
_GENERAL_FORMAT = "[=0]0;[<1]0.000000;#,##0.000"
#: The styles of headings, of numbers beside texts, and of the names of columns in result.xml.
_HEAD_STYLE = {"bold": True, "text_wrap": True, "valign": "top", "bottom": 1}
_RIGHT = {"align": "right", "indent": 1}
_NAME_STYLE = {"font_size": 8, "font_color": "#666666", "text_wrap": True, "valign": "top"}
#: The widest table that is readable on a page in landscape, and the width that needs no reduction, in letters; the
#: height of a page in points.
_MAX_PRINTED_WIDTH, _PAGE_WIDTH, _PAGE_HEIGHT = 160, 100, 480


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matrix:
    """The points that differ in two parameters: labels of both sides, and the row of each point in the sheet Points."""

    title: str
    across_title: str
    across: tuple[str, ...]
    down_title: str
    down: tuple[str, ...]
    rows: Mapping[tuple[int, int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Determined:
    """A determination of steady state, and the cells of its average and its verdict."""

    label: str
    metric: str
    steady_state: SteadyState
    average_cell: str
    steady_cell: str


class _WorkbookWriter:
    """Writes a result to a workbook, sheet by sheet."""

    def __init__(self, book: Workbook, result: TestResult) -> None:
        self._book = book
        self._result = result
        self._data = {data.name: data for data in data_tables(result, max_samples=_MAX_SAMPLES)}
        self._bold = book.add_format({"bold": True})
        self._head, self._name = book.add_format(_HEAD_STYLE), book.add_format(_NAME_STYLE)
        self._boolean = book.add_format(
            {"num_format": '"TRUE";"TRUE";"FALSE"', "valign": "top", "align": "left", "indent": 1}
        )
        self._right_head, self._right_name = (
            book.add_format({**text, **_RIGHT}) for text in (_HEAD_STYLE, _NAME_STYLE)
        )
        self._right = book.add_format(_RIGHT)
        self._value_format = book.add_format({"num_format": _GENERAL_FORMAT, "valign": "top", **_RIGHT})
        self._wrapped = book.add_format({"text_wrap": True, "valign": "top", "align": "left"})
        self._formats = {
            name: book.add_format({"num_format": text, "valign": "top", **_RIGHT})
            for name, text in _NUMBER_FORMATS.items()
        }
        self._whole = book.add_format({"num_format": "#,##0", **_RIGHT})
        self._number = book.add_format({"num_format": _GENERAL_FORMAT, **_RIGHT})
        #: The row of each measurement in the sheet Measurements, by its identity.
        self._rows = {id(measurement): row for row, (_, measurement) in enumerate(placed_measurements(result), _FIRST)}
        self._figures = key_figures(result)
        self._determined: list[_Determined] = []

    def fill(self) -> None:
        """Write all sheets; the first has the verdict."""
        summary = self._add_sheet("Summary")
        blocks = list(self._blocks())
        with_window = [block for block in blocks if block.series.window]
        steady = self._add_sheet("Steady state") if with_window else None
        self._key_figures(self._add_sheet("Key figures"))
        if "points" in self._data:
            self._matrices(tuple(self._point_matrices()))
        rounds = self._add_sheet("Rounds") if blocks else None
        points = self._add_sheet("Points") if "points" in self._data else None
        percentiles = self._add_sheet("Percentiles") if "percentiles" in self._data else None
        tails = tuple(tail_matrices(self._result)) if percentiles else ()
        tail_sheet = self._add_sheet("Percentile matrices") if tails else None
        measurements = self._add_sheet("Measurements") if "measurements" in self._data else None
        if measurements:
            self._measurements(measurements)
        if points:
            self._points(points)
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
        self._table(self._add_sheet("Specification"), self._data["specification"])
        self._summary(summary)

    def _add_sheet(self, name: str | None) -> Worksheet:
        """Add a sheet, which is printed in landscape as wide as the page."""
        sheet = self._book.add_worksheet(name)
        sheet.set_landscape()
        sheet.set_paper(_A4)
        sheet.fit_to_pages(1, 0)
        return sheet

    # -- cells --------------------------------------------------------------------------------------------------------

    def _write(self, sheet: Worksheet, row: int, column: int, value: Value, cell_format: Format | None = None) -> None:
        if isinstance(value, bool):
            sheet.write_boolean(row, column, value, self._boolean)
        elif isinstance(value, str):
            sheet.write_string(row, column, one_line(value)[:_MAX_TEXT_LENGTH], cell_format)
        elif value is not None and math.isfinite(value):
            sheet.write_number(row, column, value, cell_format)

    def _row(
        self, sheet: Worksheet, row: int, values: Iterable[Value], formats: Iterable[Format], widths: Iterable[int]
    ) -> None:
        """Write wrapped cells into columns of these widths; the row is as high as the longest text needs."""
        lines = 1
        for column, (value, cell_format, width) in enumerate(zip(values, formats, widths, strict=False)):
            self._write(sheet, row, column, value, cell_format)
            text = one_line(value) if isinstance(value, str) else ""
            lines = max(lines, len(textwrap.wrap(text, width - 2)))
        sheet.set_row(row, _LINE_HEIGHT * lines)

    def _table(self, sheet: Worksheet, data: DataTable) -> None:
        """Write data to a sheet with two frozen rows: headings, and the names of the columns.

        A wide table is printed on several pages beside one another, with the columns up to the point on each.
        """
        widths, heads, names = [], [], []
        for column, field in enumerate(data.fields):
            values = [row[column] for row in data.rows]
            texts = any(isinstance(value, str) for value in values)
            longest = max((len(_shown(value)) for value in values), default=0)
            widths.append(min(60, max(11, len(field) + 2, longest + 3)))
            sheet.set_column(column, column, widths[-1])
            left = texts or any(isinstance(value, bool) for value in values)
            heads.append(self._head if left else self._right_head)
            names.append(self._name if left else self._right_name)
            whole = None if texts else _are_whole(values)
            for row, value in enumerate(values, _FIRST):
                number = self._whole if (_are_whole([value]) if whole is None else whole) else self._number
                cell_format = None if isinstance(value, str) else self._formats.get(field, number)
                self._write(sheet, row, column, value, cell_format)
        self._row(sheet, 0, map(heading, data.fields), heads, widths)
        self._row(sheet, 1, data.fields, names, widths)
        sheet.freeze_panes(_FIRST, 0)
        sheet.repeat_rows(0, 1)
        if "point" in data.fields:
            sheet.repeat_columns(0, data.column("point"))
        sheet.fit_to_pages(math.ceil(sum(widths) / _MAX_PRINTED_WIDTH), 0)
        sheet.autofilter(1, 0, len(data.rows) + 1, len(data.fields) - 1)

    # -- summary ------------------------------------------------------------------------------------------------------

    def _summary(self, sheet: Worksheet) -> None:
        facts, result = self._result.facts, self._result
        for column, width in enumerate(_SUMMARY_WIDTHS):
            sheet.set_column(column, column, width, self._wrapped)
        conformance = f"NOT PTS conformant: {shortcomings(result)}" if not result.conformant else "PTS conformant"
        lines = [f"{facts.spec.title} Test, {facts.spec.revision}", verdict(result), conformance]
        lines += [SIMULATED.text] if facts.dut.simulated else []
        for row, text in enumerate(lines):
            self._write(sheet, row, 0, text, self._bold)
        row = self._limits(sheet, len(lines))
        row = self._summary_steady(sheet, row)
        row = self._summary_figures(sheet, row)
        for name in ("deviations", "settings", "warnings", "features", "run"):
            if data := self._data.get(name):
                keyed = data.fields == ("key", "value")
                headings = ("Property", "Value", "Name") if keyed else tuple(map(heading, data.fields))
                rows = [(heading(str(key)), value, key) for key, value in data.rows] if keyed else data.rows
                row = self._section(sheet, row, data.title, headings, rows)

    def _section(
        self,
        sheet: Worksheet,
        row: int,
        title: str,
        headings: Sequence[str],
        rows: Iterable[Sequence[Value]],
        numbers: Collection[str] = (),
    ) -> int:
        """Write a table below the one that ends at ``row``; return the row after it.

        ``numbers`` are the headings of the columns of numbers.
        """
        self._write(sheet, row + 1, 0, title, self._bold)
        heads = [self._right_head if heading in numbers else self._head for heading in headings]
        self._row(sheet, row + 2, headings, heads, _SUMMARY_WIDTHS)
        last = row + 2
        for last, values in enumerate(rows, row + 3):
            formats = (self._value_format if heading in numbers else self._wrapped for heading in headings)
            self._row(sheet, last, values, formats, _SUMMARY_WIDTHS)
        return last + 1

    def _limits(self, sheet: Worksheet, row: int) -> int:
        """Write the limits: bounds with their tolerance, references to the measured values, and verdicts."""
        checks = judgements(self._result)
        if not checks:
            return row
        first, last = row + 4, row + 3 + len(checks)
        self._write(sheet, row, 0, f"Limits met, of {len(checks)}:", self._bold)
        formula = f"=COUNTIF({xl_range_abs(first, 9, last, 9)},TRUE)"
        sheet.write_formula(row, 1, formula, self._wrapped, sum(check.met for check in checks))
        rows = [
            (check.limit.at, heading(check.limit.metric), check.limit.unit, check.limit.minimum, check.limit.maximum)
            for check in checks
        ]
        end = self._section(sheet, row + 1, "Limits", _LIMIT_HEADINGS, rows, _LIMIT_HEADINGS[3:9])
        for line, check in enumerate(checks, first):
            self._limit(sheet, line, check)
        return end

    def _limit(self, sheet: Worksheet, row: int, check: Judgement) -> None:
        minimum, maximum, tolerance, lower, upper, value = (xl_rowcol_to_cell(row, column) for column in range(3, 9))
        limit, conditions = check.limit, []
        self._write(sheet, row, 5, limit.tolerance_percent, self._value_format)
        if limit.minimum is not None:
            formula = f"={minimum}-ABS({minimum})*{tolerance}/100"
            sheet.write_formula(row, 6, formula, self._value_format, limit.lower_bound)
            conditions.append(f"{value}>={lower}")
        if limit.maximum is not None:
            formula = f"={maximum}+ABS({maximum})*{tolerance}/100"
            sheet.write_formula(row, 7, formula, self._value_format, limit.upper_bound)
            conditions.append(f"{value}<={upper}")
        if check.value is None:
            self._write(sheet, row, 9, False, self._wrapped)
        else:
            number, figure = next(item for item in enumerate(self._figures, _FIRST) if item[1].name == limit.name)
            sheet.write_formula(row, 8, f"={self._figure_cell(number, 'value')}", self._value_format, check.value)
            finished = "TRUE" if self._result.ending == "finished" else "FALSE"
            conditions += [] if figure.steady is None else [self._figure_cell(number, "steady")]
            conditions.append(f"{finished}()")
            sheet.write_formula(row, 9, f"=AND({','.join(conditions)})", self._boolean, check.met)
        self._write(sheet, row, 10, check.reason, self._wrapped)

    def _summary_steady(self, sheet: Worksheet, row: int) -> int:
        """Write each tracked variable's average and verdict, as references to the sheet Steady state."""
        if not self._determined:
            return row
        rows = [
            (item.label, item.metric, f"{item.steady_state.rounds[0]} - {item.steady_state.rounds[-1]}")
            for item in self._determined
        ]
        headings = ("Tracked variable", "Metric", "Rounds of the window", "Average", "Steady")
        end = self._section(sheet, row, "Steady state", headings, rows, headings[3:4])
        for line, item in enumerate(self._determined, row + 3):
            state = item.steady_state
            if state.evaluable:
                average, steady = f"='Steady state'!{item.average_cell}", f"='Steady state'!{item.steady_cell}"
                sheet.write_formula(line, 3, average, self._value_format, state.average)
                sheet.write_formula(line, 4, steady, self._boolean, state.steady)
        return end

    def _summary_figures(self, sheet: Worksheet, row: int) -> int:
        """Write the key figures of the tracked points, of a profile's first points and of phases: a row for each."""
        points = [item for loop in self._result.loops for item in loop_points(self._result, loop)]
        last = {id(point) for loop in self._result.loops for point in _tracked_points(loop)}
        shown = [at for at, measured in points if id(measured[-1]) in last] or [at for at, _ in points][:_MAX_POINTS]
        names = [at for at, _ in points]
        shown += [figure.at for figure in self._figures if figure.at not in names and figure.metric != "written_gb"]
        shown = list(dict.fromkeys(shown))
        cells = {(figure.at, figure.metric): (number, figure) for number, figure in enumerate(self._figures, _FIRST)}
        count = Counter(figure.at for figure in self._figures)
        fullest = [one for one in sorted(self._figures, key=lambda one: -count[one.at]) if one.at in shown]
        common = dict(Counter(one.metric for one in fullest).most_common(len(_SUMMARY_WIDTHS) - 1))
        metrics = [metric for metric in dict.fromkeys(one.metric for one in fullest) if metric in common]
        if not metrics:
            return row
        headings = ("Point or phase", *map(heading, metrics))
        end = self._section(sheet, row, "Key figures", headings, [(at,) for at in shown], headings[1:])
        for line, at in enumerate(shown, row + 3):
            for column, metric in enumerate(metrics, 1):
                if (at, metric) in cells:
                    number, figure = cells[at, metric]
                    formula = f"={self._figure_cell(number, 'value')}"
                    cell_format = self._formats.get(metric, self._value_format)
                    sheet.write_formula(line, column, formula, cell_format, figure.value)
        return end

    # -- sheets -------------------------------------------------------------------------------------------------------

    def _key_figures(self, sheet: Worksheet) -> None:
        """Write all key figures; those of points are references to the sheet Points."""
        rows = tuple((one.metric, one.at, one.unit, one.value, one.steady) for one in self._figures)
        data = DataTable(name="key-figures", title="Key figures", fields=_FIGURE_FIELDS, rows=rows)
        self._table(sheet, data)
        sheet.set_column(0, 1, 34)
        for row, figure in enumerate(self._figures, _FIRST):
            self._write(sheet, row, data.column("value"), figure.value, self._number)
        points = self._data.get("points")
        if points is None:
            return
        names = [at for loop in self._result.loops for at, _ in loop_points(self._result, loop)]
        point_rows = {at: row for row, at in reversed(list(enumerate(names, _FIRST)))}
        for row, figure in enumerate(self._figures, _FIRST):
            field, divisor = METRIC_COLUMNS.get(figure.metric, ("", 1))  # type: ignore[call-overload]
            if figure.at in point_rows and field in points.fields:
                formula = f"=Points!{self._cell(points, point_rows[figure.at], field)}{f'/{divisor}' * (divisor != 1)}"
                sheet.write_formula(row, data.column("value"), formula, self._number, _cached(figure.value))

    @staticmethod
    def _figure_cell(row: int, field: str) -> str:
        return f"'Key figures'!{xl_rowcol_to_cell(row, _FIGURE_FIELDS.index(field), row_abs=True, col_abs=True)}"

    def _measurements(self, sheet: Worksheet) -> None:
        """Write all measurements; IOPS and MB/s are calculated from counts and times, if the data has them."""
        data = self._data["measurements"]
        self._table(sheet, data)
        if "write_ios" not in data.fields:
            return
        for row, values in enumerate(data.rows, _FIRST):
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
        for row, measurements in enumerate(points, _FIRST):
            for name in (rate for rate in RATES if rate in data.fields):
                column = data.column(name)
                cells = (self._measurement_cell(measurement, name) for measurement in measurements)
                formula = f"=AVERAGE({','.join(cells)})"
                sheet.write_formula(row, column, formula, self._formats[name], _cached(data.rows[row - _FIRST][column]))

    def _point_matrices(self) -> Iterator[_Matrix]:
        """Yield the matrices of the points: one of a test of the standard, one for each series of a profile."""
        result, data = self._result, self._data["points"]
        if further := further_pages(result.facts.spec.test):
            by_name = {row[data.column("point")]: number for number, row in enumerate(data.rows, _FIRST)}
            for matrix in further.point_matrices(result):
                across, down = matrix.across, matrix.down
                yield _Matrix(
                    title=matrix.title,
                    across_title=across.title,
                    across=across.labels,
                    down_title=down.title,
                    down=down.labels,
                    rows={
                        (across.keys.index(x), down.keys.index(y)): by_name[name]
                        for (x, y), name in matrix.points.items()
                    },
                )
            return
        stimuli = [stimulus for loop in result.loops for stimulus, _ in window_points(result, loop)]
        if parameters := varying_parameters(stimuli):
            rows, columns = (_values(parameter, stimuli) for parameter in parameters)
            keys = [tuple(parameter.value(stimulus) for parameter in parameters) for stimulus in stimuli]
            places = {(list(columns).index(x), list(rows).index(y)): row for row, (y, x) in enumerate(keys, _FIRST)}
            if len(places) == len(stimuli):
                yield _Matrix(
                    title="Mean over the measurement window",
                    across_title=parameters[1].title,
                    across=tuple(columns.values()),
                    down_title=parameters[0].title,
                    down=tuple(rows.values()),
                    rows=places,
                )

    def _matrices(self, matrices: Sequence[_Matrix]) -> None:
        """Write a sheet for each metric, with each matrix as references to the sheet Points, and its chart."""
        data = self._data["points"]
        for name, field, divisor, title, number_format in _MATRIX_METRICS:
            if not matrices or field not in data.fields:
                continue
            sheet, top = self._add_sheet(name), 0
            cell_format = self._book.add_format({"num_format": number_format, **_RIGHT})
            numbers = {matrix.title: self._finite(matrix, field) for matrix in matrices}
            scale = _scale([value / divisor for values in numbers.values() for value in values])
            sheet.set_column(0, 0, 22)
            sheet.set_column(1, 40, 13)
            tops = []
            for matrix in matrices:
                tops.append(top)
                self._matrix(sheet, top, matrix, field, divisor, title, cell_format)
                if len(matrix.across) > 1 and numbers[matrix.title]:
                    chart = self._matrix_chart(sheet.get_name(), top, matrix, title, scale)
                    sheet.insert_chart(top, len(matrix.across) + 2, chart, _CHART_PLACE)
                top += max(_BLOCK_ROWS, len(matrix.down) + 4)
            sheet.set_h_pagebreaks(tops[2::2])

    def _finite(self, matrix: _Matrix, field: str) -> list[float]:
        """Return the numbers of a matrix's points; a point that was too short for a rate has none."""
        data = self._data["points"]
        values = (data.rows[row - _FIRST][data.column(field)] for row in matrix.rows.values())
        return [value for value in values if isinstance(value, int | float) and math.isfinite(value)]

    def _matrix(
        self, sheet: Worksheet, top: int, matrix: _Matrix, field: str, divisor: int, title: str, cell_format: Format
    ) -> None:
        data = self._data["points"]
        self._write(sheet, top, 0, f"{matrix.title}: {title}", self._bold)
        headings = (f"{matrix.down_title} / {matrix.across_title}", *matrix.across)
        heads = (self._head, *[self._right_head] * len(matrix.across))
        self._row(sheet, top + 1, headings, heads, (22, *[13] * len(matrix.across)))
        for row, label in enumerate(matrix.down, top + 2):
            self._write(sheet, row, 0, label)
        for (across, down), row in matrix.rows.items():
            value = data.rows[row - _FIRST][data.column(field)]
            formula = f"=Points!{self._cell(data, row, field)}{f'/{divisor}' * (divisor != 1)}"
            if value is not None or field in RATES:  # without a rate: #N/A
                shown = value / divisor if isinstance(value, int | float) else value
                sheet.write_formula(top + 2 + down, across + 1, formula, cell_format, _cached(shown))

    def _matrix_chart(self, sheet: str, top: int, matrix: _Matrix, title: str, scale: Mapping[str, Any]) -> Any:
        """Return a chart of a matrix: a line for each of its rows."""
        chart, last = self._book.add_chart({"type": "line"}), len(matrix.across)
        for number, row in enumerate(range(top + 2, top + 2 + len(matrix.down))):
            colour = COLOURS[number % len(COLOURS)]
            marker = {"type": "circle", "size": 5, "fill": {"color": colour}, "border": {"color": colour}}
            x, y = [sheet, top + 1, 1, top + 1, last], [sheet, row, 1, row, last]
            line = {"color": colour, "width": 1.5}
            chart.add_series({"name": [sheet, row, 0], "categories": x, "values": y, "line": line, "marker": marker})
        chart.set_title({"name": f"{matrix.title}: {title}", "name_font": {"size": 10, "bold": False}})
        chart.set_x_axis({"name": matrix.across_title, "label_position": "low"})
        chart.set_y_axis({"name": title, "num_format": "#,##0.##", **scale})
        chart.set_legend({"position": "right"})
        chart.set_size({"width": 560, "height": (_BLOCK_ROWS - 1) * 20})
        return chart

    def _tail_matrices(self, sheet: Worksheet, matrices: Sequence[TailMatrix]) -> None:
        """Write the counts of I/Os and each percentile as matrices of references to the sheet Percentiles."""
        sheet.set_column(0, 0, 20)
        sheet.set_column(1, 32, 13)
        top, breaks, free = 0, [], 0.0
        width = 20 + 13 * max(len(matrix.across.keys) for matrix in matrices)
        scale = min(100, 100 * _PAGE_WIDTH // width)
        sheet.set_print_scale(scale)
        for matrix in matrices:
            titles = {
                "ios": "I/Os",
                **{name: f"{percent:g} % response time (ms)" for name, percent in PERCENTS.items()},
            }
            height = _LINE_HEIGHT * (len(matrix.down.keys) + 4)
            for column, title in titles.items():
                if height > free:
                    breaks.append(top)
                    free = 100 * _PAGE_HEIGHT / scale
                free -= height
                self._write(sheet, top, 0, f"{matrix.title}: {title}", self._bold)
                self._tail_matrix(sheet, top + 1, matrix, column)
                top += len(matrix.down.keys) + 3
        sheet.set_h_pagebreaks(breaks[1:])
        self._write(sheet, top, 0, TOO_FEW_IOS)

    def _tail_matrix(self, sheet: Worksheet, top: int, matrix: TailMatrix, column: str) -> None:
        """Write the head and the rows of a matrix of a column of the sheet Percentiles."""
        data, across = self._data["percentiles"], matrix.across
        values, scale = (matrix.ios, "") if column == "ios" else (matrix.times_ms(column), "/1000")
        cell_format = self._whole if column == "ios" else self._number
        heads = (f"{matrix.down.title} / {across.title}", *(f"{across.prefix}{label}" for label in across.labels))
        formats = (self._head, *[self._right_head] * len(across.labels))
        self._row(sheet, top, heads, formats, (20, *[13] * len(across.labels)))
        for row, (down, label) in enumerate(zip(matrix.down.keys, matrix.down.labels, strict=True), start=top + 1):
            self._write(sheet, row, 0, label)
            for place, key in enumerate(across.keys, start=1):
                value = values.get((down, key))
                if value is None:
                    continue
                if math.isfinite(value):
                    cell = self._cell(data, matrix.points[down, key][0] + _FIRST, column)
                    sheet.write_formula(row, place, f"=Percentiles!{cell}{scale}", cell_format, value)
                else:
                    self._write(sheet, row, place, NOT_APPLICABLE, self._right)

    def _blocks(self) -> Iterator[_Block]:
        """Yield the evaluated series; in the sheet Rounds they are stacked with three rows between them."""
        row = 2
        for series in evaluated_series(self._result):
            yield _Block(series=series, first_row=row)
            row += len(series.rounds) + 4

    def _rounds(self, sheet: Worksheet, blocks: Sequence[_Block]) -> None:
        """Write the tracked variables by round, as references to measurements."""
        widths = (9, *[24] * 12)
        for column, width in enumerate(widths):
            sheet.set_column(column, column, width)
        for block in blocks:
            series = block.series
            self._write(sheet, block.first_row - 2, 0, series.part or series.name, self._bold)
            heads = (f"{series.label(tracked)} {METRICS[tracked.metric].heading}" for tracked in series.rule.tracked)
            self._row(sheet, block.first_row - 1, ("round", *heads), repeat(self._right_head), widths)
            for column, tracked in enumerate(series.rule.tracked, start=1):
                for row, measured in enumerate(series.rounds, start=block.first_row):
                    sheet.write_number(row, 0, measured.number, self._whole)
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
        heading = f"{name}: {series.label(tracked)}, {metric}"
        self._write(sheet, top, 0, f"{heading}, rounds {first} - {last}", self._bold)
        rows = _determination_rows(series.rule, steady_state, x, y, cells)
        self._determined.append(
            _Determined(
                label=series.label(tracked) if name in series.label(tracked) else f"{name}: {series.label(tracked)}",
                metric=metric,
                steady_state=steady_state,
                average_cell=cells["average"],
                steady_cell=cells["steady"],
            )
        )
        for row, (row_label, formula, value) in enumerate(rows, start=top + 1):
            self._write(sheet, row, 0, row_label)
            if steady_state.evaluable:
                sheet.write_formula(row, 1, formula, None if row_label == "steady" else self._number, value)
            else:
                self._write(sheet, row, 1, "not evaluable")
        if len(series.rounds) > 1:
            window = f"; lines: window, rounds {first} - {last}" * steady_state.evaluable
            chart = self._chart(block, column, f"{heading}, all rounds{window}")
            if steady_state.evaluable:
                lines = _window_lines(series.rule, steady_state, cells)
                self._add_lines(sheet, top + len(_CELL_NAMES) + 2, (first, last), lines, chart)
            sheet.insert_chart(top, 3, chart, _CHART_PLACE)

    def _add_lines(
        self, sheet: Worksheet, top: int, rounds: tuple[int, int], lines: Iterable[_WindowLine], chart: Any
    ) -> None:
        """Write the lines of a window with their values in its first and last round, and add them to its chart."""
        self._write(sheet, top, 0, "lines in the chart: round")
        for column, number in enumerate(rounds, start=1):
            self._write(sheet, top, column, number, self._whole)
        for row, line in enumerate(lines, start=top + 1):
            self._write(sheet, row, 0, line.label)
            for column, value in enumerate(line.values, start=1):
                formula = line.formula.format(round=xl_rowcol_to_cell(top, column))
                sheet.write_formula(row, column, formula, self._number, value)
            x, y = ([sheet.get_name(), at, 1, at, len(rounds)] for at in (top, row))
            style = {"color": line.colour, "width": 1.25, "dash_type": line.dash}
            name = [sheet.get_name(), row, 0]
            chart.add_series({"name": name, "categories": x, "values": y, "line": style, "marker": {"type": "none"}})

    def _chart(self, block: _Block, column: int, title: str) -> Any:
        """Return a chart of all rounds of a tracked variable, with a y axis from zero."""
        chart = self._book.add_chart({"type": "scatter", "subtype": "straight_with_markers"})
        first, last = block.first_row, block.first_row + len(block.series.rounds) - 1
        marker = {"type": "circle", "size": 5, "fill": {"color": COLOURS[0]}, "border": {"color": COLOURS[0]}}
        x, y = (["Rounds", first, values, last, values] for values in (0, column))
        line = {"color": COLOURS[0], "width": 1.5}
        chart.add_series({"name": "rounds", "categories": x, "values": y, "line": line, "marker": marker})
        chart.set_legend({"position": "bottom"})
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
        sheet = self._add_sheet(name if name.lower() not in used_names else None)
        self._table(sheet, data)
        if len(data.rows) < 2:
            return
        chart = self._book.add_chart({"type": "scatter", "subtype": "straight"})
        columns = (data.column("ended_seconds"), data.column("iops"))
        x, y = ([sheet.get_name(), _FIRST, column, len(data.rows) + 1, column] for column in columns)
        chart.add_series({"categories": x, "values": y, "line": {"color": COLOURS[0], "width": 1}})
        chart.set_legend({"none": True})
        chart.set_title(
            {"name": f"IOPS: {data.title.removeprefix('Samples: ')}", "name_font": {"size": 10, "bold": False}}
        )
        chart.set_x_axis({"name": "Seconds", "min": 0, "num_format": "#,##0", "major_gridlines": {"visible": False}})
        chart.set_y_axis({"name": "IOPS", "min": 0, "num_format": "#,##0"})
        chart.set_size({"width": 900, "height": 380})
        sheet.insert_chart(2, len(data.fields) + 1, chart, {"object_position": 2})
        sheet.fit_to_pages(1, 0)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _WindowLine:
    """A line in the chart of a window: its style, its values in the first and last round, and the formula of both.

    ``{round}`` in the formula is the cell of the round.
    """

    label: str
    formula: str
    values: tuple[float, float]
    colour: str
    dash: str


def _window_lines(rule: SteadyStateRule, steady_state: SteadyState, cells: Mapping[str, str]) -> Iterator[_WindowLine]:
    """Yield the average of a window, the ends of the allowed band, and the best fit; ``cells`` are its values."""
    average, half = steady_state.average, rule.data_excursion_percent / 2
    yield _WindowLine(
        label="average", formula=f"={cells['average']}", values=(average, average), colour=INK, dash="solid"
    )
    for percent in (100 + half, 100 - half):
        bound = average * percent / 100
        yield _WindowLine(
            label=f"{percent:g} % of the average",
            formula=f"={cells['average']}*{percent:g}/100",
            values=(bound, bound),
            colour=QUIET,
            dash="dash",
        )
    first, last = steady_state.rounds[0], steady_state.rounds[-1]
    yield _WindowLine(
        label="best fit",
        formula=f"={cells['slope']}*{{round}}+{cells['intercept']}",
        values=(steady_state.fit(first), steady_state.fit(last)),
        colour=COLOURS[5],
        dash="long_dash_dot",
    )


def _tracked_points(loop: Loop) -> Iterator[Measurement]:
    """Yield the tracked points of the last round of a loop's window."""
    for tracked, _ in loop.window.determinations if loop.window else ():
        yield loop.window_rounds[-1].point(tracked)


def _shown(value: Value) -> str:
    """Return a text that is as long as the value in a cell with a number format."""
    return one_line(value) if isinstance(value, str) else "" if value is None else f"{value:,.3f}"


def _are_whole(values: Iterable[Value]) -> bool:
    """Return whether all numbers of ``values`` are whole."""
    return all(float(value).is_integer() for value in values if isinstance(value, int | float))


def _values(parameter: Parameter, stimuli: Iterable[Stimulus]) -> dict[int, str]:
    """Return the values of a parameter, ascending, with their labels."""
    return dict(sorted({parameter.value(stimulus): parameter.label(stimulus) for stimulus in stimuli}.items()))


def _scale(numbers: Sequence[float]) -> Mapping[str, Any]:
    """Return the scale of all charts of a metric: from zero, or logarithmic if it is wide."""
    positive = [number for number in numbers if number > 0] or [1.0]
    if max(positive) > _LOG_RATIO * min(positive):
        return {"log_base": 10, "min": 10.0 ** math.floor(math.log10(min(positive))), "max": _decade(max(positive))}
    return {"min": 0, "max": _rounded_up(max(positive))}


def _decade(value: float) -> float:
    """Return the next power of ten that is not less than ``value``."""
    return 10.0 ** math.ceil(math.log10(value))


def _rounded_up(value: float) -> float:
    """Return the next number above ``value`` that has one digit; 1 for 0."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return math.ceil(max(value, power) / power) * power


def _cached(value: Value) -> float | str:
    """Return the value stored with a formula, which programs show until they recalculate."""
    return value if isinstance(value, int | float) and math.isfinite(value) else "#N/A"
