"""The result as a workbook that a reviewer can follow: from the counts of I/Os to the verdict, every step a formula.

Each formula carries the suite's own number too, so that a reader sees it without recalculating, and whoever
recalculates sees both agree.  Texts are cells of text: nothing that a device says is a formula, a number or a link.
"""

from __future__ import annotations

import datetime
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...analysis.steady_state import SteadyState
from ...analysis.window import Judged, Window
from ...model.measurement import METRICS, SHORTEST_RATED_MS, MeasuredRound, Measurement
from ...results.result import TestResult
from ...spec import MetricName, SteadyStateRule, Tracked, loop_rule, settling_rule
from ...text import one_line
from ..data import RATES, Data, Value, evaluated_series, tables, unit
from ..figures.style import COLOURS

if TYPE_CHECKING:
    from xlsxwriter.format import Format
    from xlsxwriter.workbook import Workbook
    from xlsxwriter.worksheet import Worksheet

#: Of longer time lines a sheet has every n-th sample: workbooks are held in memory, and a sheet ends at 1 048 576 rows.
_MOST_SAMPLES = 10_000
#: The longest text of a cell, and of a sheet's name.
_LONGEST_TEXT, _LONGEST_NAME = 32_767, 31
#: Rows that a determination block takes, its chart beside it.
_BLOCK_ROWS = 20
#: The paper size A4, as workbooks number them.
_A4 = 9
_FORMS = {"iops": "#,##0.0", "mb_per_second": "#,##0.000"}


def make(result: TestResult) -> bytes:
    """Return ``result`` as XLSX; the same result gives the same bytes."""
    from xlsxwriter.workbook import Workbook

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
            "created": _dated(result),
        }
    )
    _Book(book, result).fill()
    book.close()
    return output.getvalue()


def _dated(result: TestResult) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(result.finished).replace(tzinfo=None)
    except ValueError:
        return datetime.datetime(1980, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    """What steady state was judged on, and where its values stand in the sheet Rounds."""

    name: str
    rounds: tuple[Judged, ...]
    labels: tuple[tuple[Tracked, str], ...]
    window: Window | None
    rule: SteadyStateRule
    first_row: int

    def determination(self, tracked: Tracked) -> SteadyState:
        """Return a tracked variable's determination; raises KeyError where there is no window."""
        return dict(self.window.determinations if self.window else ())[tracked]

    def row(self, number: int) -> int:
        """Return the row of a round."""
        return self.first_row + next(place for place, each in enumerate(self.rounds) if each.number == number)


class _Book:
    """A workbook as it is filled, sheet by sheet."""

    def __init__(self, book: Workbook, result: TestResult) -> None:
        self._book = book
        self._result = result
        self._data = {data.name: data for data in tables(result, max_samples=_MOST_SAMPLES)}
        self._bold = book.add_format({"bold": True})
        self._head = book.add_format({"bold": True, "text_wrap": True, "valign": "top", "bottom": 1})
        self._wrapped = book.add_format({"text_wrap": True, "valign": "top", "align": "left"})
        self._forms = {name: book.add_format({"num_format": form}) for name, form in _FORMS.items()}
        self._plain = book.add_format({"num_format": "#,##0.###"})
        #: Where each measurement stands in the sheet Measurements, by its identity.
        self._rows = {id(each): row for row, each in enumerate(result.measurements, start=1)}

    def fill(self) -> None:
        """Make all sheets; a reader meets the verdict first."""
        summary = self._book.add_worksheet("Summary")
        series = list(self._series())
        steady = self._book.add_worksheet("Steady state") if any(each.window for each in series) else None
        rounds = self._book.add_worksheet("Rounds") if series else None
        points = self._book.add_worksheet("Points") if "points" in self._data else None
        measurements = self._book.add_worksheet("Measurements") if "measurements" in self._data else None
        if measurements:
            self._measurements(measurements)
        if points:
            self._points(points)
        if rounds:
            self._rounds(rounds, series)
        if steady:
            self._steady(steady, [each for each in series if each.window])
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

    def _write(self, sheet: Worksheet, row: int, column: int, value: Value, form: Format | None = None) -> None:
        if isinstance(value, bool):
            sheet.write_boolean(row, column, value, form)
        elif isinstance(value, str):
            sheet.write_string(row, column, one_line(value)[:_LONGEST_TEXT], form)
        elif value is not None and math.isfinite(value):
            sheet.write_number(row, column, value, form)

    def _heads(self, sheet: Worksheet, row: int, fields: Sequence[str]) -> None:
        for column, field in enumerate(fields):
            told = field if not unit(field) or field in RATES else f"{field}\n({unit(field)})"
            self._write(sheet, row, column, told, self._head)

    def _table(self, sheet: Worksheet, data: Data) -> None:
        """A whole sheet of data, its heads frozen."""
        self._heads(sheet, 0, data.fields)
        for row, values in enumerate(data.rows, start=1):
            for column, value in enumerate(values):
                self._write(sheet, row, column, value, self._forms.get(data.fields[column]))
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
        told = "PTS conformant" if result.conformant else "NOT PTS conformant: see the deviations below"
        self._write(sheet, 2, 0, "SIMULATED: no drive was tested" if facts.dut.simulated else told, self._bold)
        row = 4
        for name in ("limits", "deviations", "settings", "warnings", "features", "run"):
            data = self._data.get(name)
            if data is None:
                continue
            self._write(sheet, row, 0, data.title, self._bold)
            self._heads(sheet, row + 1, data.fields)
            for line, values in enumerate(data.rows, start=row + 2):
                for column, value in enumerate(values):
                    self._write(sheet, line, column, value, self._wrapped)
            row += len(data.rows) + 3

    def _measurements(self, sheet: Worksheet) -> None:
        """All measurements; IOPS and MB/s are calculated from counts and times, where there are such."""
        data = self._data["measurements"]
        self._table(sheet, data)
        if "write_ios" not in data.fields:
            return
        for row, values in enumerate(data.rows, start=1):
            for name, counts, scale in (("iops", "ios", "1000"), ("mb_per_second", "bytes", "0.001")):
                sides = (self._rate(data, row, side, counts, scale) for side in ("read", "write"))
                place = data.column(name)
                sheet.write_formula(row, place, "=" + "+".join(sides), self._forms[name], _cached(values[place]))

    def _rate(self, data: Data, row: int, side: str, counts: str, scale: str) -> str:
        """Return what a side of a measurement did in a second, as a formula; see ``rate_per_second``."""
        count, time = self._at(data, row, f"{side}_{counts}"), self._at(data, row, f"{side}_runtime_ms")
        return f"IF({time}>={SHORTEST_RATED_MS},{scale}*{count}/{time},IF({count}>0,NA(),0))"

    @staticmethod
    def _at(data: Data, row: int, field: str) -> str:
        from xlsxwriter.utility import xl_rowcol_to_cell

        return str(xl_rowcol_to_cell(row, data.column(field), row_abs=True, col_abs=True))

    def _measured(self, measurement: Measurement, field: str) -> str:
        """Name the cell of a measurement's figure."""
        return f"Measurements!{self._at(self._data['measurements'], self._rows[id(measurement)], field)}"

    def _points(self, sheet: Worksheet) -> None:
        """Means over each loop's window, or a profile's repeats; IOPS, MB/s are calculated from the measurements."""
        data = self._data["points"]
        self._table(sheet, data)
        rounds = map(self._result.evaluated_rounds, self._result.loops)
        same = (each for window in rounds for each in zip(*(found.measurements for found in window), strict=True))
        for row, measurements in enumerate(same, start=1):
            for name in (each for each in RATES if each in data.fields):
                column = data.column(name)
                formula = f"=AVERAGE({','.join(self._measured(each, name) for each in measurements)})"
                sheet.write_formula(row, column, formula, self._forms[name], _cached(data.rows[row - 1][column]))

    def _series(self) -> Iterator[_Series]:
        """Give what was judged, each series below the one before in the sheet Rounds, three rows between them."""
        row = 2
        for name, rounds, labels, window in evaluated_series(self._result):
            looped, spec = isinstance(rounds[0], MeasuredRound), self._result.facts.spec
            rule = loop_rule(spec) if looped else settling_rule(spec)
            if rule is not None:
                yield _Series(name=name, rounds=rounds, labels=labels, window=window, rule=rule, first_row=row)
            row += len(rounds) + 4

    def _rounds(self, sheet: Worksheet, series: Sequence[_Series]) -> None:
        """The tracked variables by round, each a reference to its measurement."""
        sheet.set_column(0, 0, 9)
        sheet.set_column(1, 12, 24)
        for each in series:
            self._write(sheet, each.first_row - 2, 0, each.name, self._bold)
            self._write(sheet, each.first_row - 1, 0, "round", self._head)
            for column, (tracked, label) in enumerate(each.labels, start=1):
                heading = f"{label}\n{METRICS[tracked.metric].heading}"
                self._write(sheet, each.first_row - 1, column, heading, self._head)
                for row, measured in enumerate(each.rounds, start=each.first_row):
                    sheet.write_number(row, 0, measured.number)
                    self._value(sheet, row, column, measured, tracked)

    def _value(self, sheet: Worksheet, row: int, column: int, measured: Judged, tracked: Tracked) -> None:
        """A tracked variable of a round: a reference to the measurement, or the sample's own number."""
        value = measured.value(tracked)
        if not isinstance(measured, MeasuredRound):
            if math.isfinite(value):
                sheet.write_number(row, column, value, self._plain)
            else:
                sheet.write_formula(row, column, "=NA()", self._plain, _cached(value))
            return
        field, scale = _SOURCES[tracked.metric]
        formula = f"={self._measured(measured.point(tracked), field)}{scale}"
        sheet.write_formula(row, column, formula, self._plain, _cached(value))

    def _steady(self, sheet: Worksheet, series: Sequence[_Series]) -> None:
        """Each tracked variable's determination, calculated from the window's rounds."""
        sheet.set_column(0, 0, 40)
        sheet.set_column(1, 6, 14)
        blocks = [(each, column) for each in series for column in range(1, len(each.labels) + 1)]
        for number, (each, column) in enumerate(blocks):
            self._determination(sheet, number * _BLOCK_ROWS, each, column)
        sheet.set_h_pagebreaks([at * _BLOCK_ROWS for at in range(2, len(blocks), 2)])

    def _determination(self, sheet: Worksheet, top: int, series: _Series, column: int) -> None:
        from xlsxwriter.utility import xl_range_abs, xl_rowcol_to_cell

        tracked, label = series.labels[column - 1]
        found = series.determination(tracked)
        first, last = series.row(found.rounds[0]), series.row(found.rounds[-1])
        x, y = (f"Rounds!{xl_range_abs(first, place, last, place)}" for place in (0, column))
        places = {name: xl_rowcol_to_cell(top + at, 1) for at, name in enumerate(_STEPS, start=1)}
        name = f"{series.name}: " if series.name else ""
        heading = f"{name}{label}, {METRICS[tracked.metric].heading}, rounds {found.rounds[0]} - {found.rounds[-1]}"
        self._write(sheet, top, 0, heading, self._bold)
        for row, (told, formula, value) in enumerate(_steps(series.rule, found, x, y, places), start=top + 1):
            self._write(sheet, row, 0, told)
            if found.evaluable:
                sheet.write_formula(row, 1, formula, None if told == "steady" else self._plain, value)
            else:
                self._write(sheet, row, 1, "not evaluable")
        sheet.insert_chart(top, 3, self._chart(series, column, heading), {"object_position": 2})

    def _chart(self, series: _Series, column: int, title: str) -> Any:
        """All rounds of a tracked variable, from zero, as the spreadsheet draws it."""
        chart = self._book.add_chart({"type": "scatter", "subtype": "straight_with_markers"})
        first, last = series.first_row, series.first_row + len(series.rounds) - 1
        marker = {"type": "circle", "size": 5, "fill": {"color": COLOURS[0]}, "border": {"color": COLOURS[0]}}
        x, y = (["Rounds", first, place, last, place] for place in (0, column))
        chart.add_series(
            {"name": title, "categories": x, "values": y, "line": {"color": COLOURS[0], "width": 1.5}, "marker": marker}
        )
        chart.set_legend({"none": True})
        chart.set_title({"name": title, "name_font": {"size": 10, "bold": False}})
        chart.set_x_axis({"name": "Round", "min": 0, "major_gridlines": {"visible": False}})
        chart.set_y_axis(
            {"name": METRICS[series.labels[column - 1][0].metric].heading, "min": 0, "num_format": "#,##0.##"}
        )
        chart.set_size({"width": 560, "height": _BLOCK_ROWS * 19})
        return chart

    def _samples(self, data: Data) -> None:
        """A time line with its chart."""
        name = re.sub(r"[\[\]:*?/\\]", "-", one_line(data.title.removeprefix("Samples: ")))
        used = {sheet.get_name().lower() for sheet in self._book.worksheets()}
        name = f"Samples {name}"[:_LONGEST_NAME].rstrip("'")
        sheet = self._book.add_worksheet(name if name.lower() not in used else None)
        self._table(sheet, data)
        chart = self._book.add_chart({"type": "scatter", "subtype": "straight"})
        places = (data.column("ended_seconds"), data.column("iops"))
        x, y = ([sheet.get_name(), 1, place, len(data.rows), place] for place in places)
        chart.add_series({"categories": x, "values": y, "line": {"color": COLOURS[0], "width": 1}})
        chart.set_legend({"none": True})
        chart.set_title(
            {"name": f"IOPS: {data.title.removeprefix('Samples: ')}", "name_font": {"size": 10, "bold": False}}
        )
        chart.set_x_axis({"name": "Seconds", "min": 0, "num_format": "#,##0", "major_gridlines": {"visible": False}})
        chart.set_y_axis({"name": "IOPS", "min": 0, "num_format": "#,##0"})
        chart.set_size({"width": 900, "height": 380})
        sheet.insert_chart(2, len(data.fields) + 1, chart, {"object_position": 2})


#: The rows of a determination block, by what formulas call them.
_STEPS = ("average", "data", "data allowed", "slope", "intercept", "slope excursion", "slope allowed", "steady")
#: Where a metric stands in the sheet Measurements, and how it is made of that.
_SOURCES: Mapping[MetricName, tuple[str, str]] = {
    "iops": ("iops", ""),
    "mb_per_second": ("mb_per_second", ""),
    "average_response_ms": ("average_response_us", "/1000"),
}


def _steps(
    rule: SteadyStateRule, found: SteadyState, x: str, y: str, at: Mapping[str, str]
) -> Iterator[tuple[str, str, float | bool]]:
    """Give the rows of a determination: in words, as a formula of rounds ``x`` and values ``y``, and our own figure."""
    data, slope = f"{rule.data_excursion_percent:g}", f"{rule.slope_excursion_percent:g}"
    yield "average", f"=AVERAGE({y})", found.average
    yield "measured data excursion (max - min)", f"=MAX({y})-MIN({y})", found.data_excursion
    allowed = found.allowed_data_excursion
    yield f"allowed data excursion ({data} % of the average)", f"={at['average']}*{data}/100", allowed
    yield "slope of the best fit, a round", f"=SLOPE({y},{x})", found.slope
    yield "intercept of the best fit", f"=INTERCEPT({y},{x})", found.intercept
    formula = f"=ABS({at['slope']})*{len(found.rounds) - 1}"
    yield "measured slope excursion", formula, found.slope_excursion
    allowed = found.allowed_slope_excursion
    yield f"allowed slope excursion ({slope} % of the average)", f"={at['average']}*{slope}/100", allowed
    formula = f"=AND({at['data']}<={at['data allowed']},{at['slope excursion']}<={at['slope allowed']})"
    yield "steady", formula, found.steady


def _cached(value: Value) -> float | str:
    """Return what a cell shows until its formula is calculated."""
    return value if isinstance(value, int | float) and math.isfinite(value) else "#N/A"
