"""The sheets of steady state: the tracked variables by round, and the determination of each, with its chart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from xlsxwriter.utility import xl_range_formula, xl_rowcol_to_cell
from xlsxwriter.workbook import Workbook

from ....analysis.steady_state import SteadyState
from ....model.measurement import METRICS, MeasuredRound
from ....results.attributes import METRIC_COLUMNS
from ....results.result import TestResult
from ....results.tracked_series import TrackedSeries, evaluated_series
from ....spec import Tracked
from ....units import distinct_digits
from ...figures.style import COLOURS, INK, QUIET
from ...sections.steady_state import TRACKED_DIGITS
from .charts import AXIS_FORMAT, CHART_PLACE, CHART_ROWS, add_chart, dotted_line, line, zoomed
from .data_sheets import ResultData
from .sheet import Sheet

#: The sheets.
_ROUNDS, _STEADY = "Rounds", "Steady state"
#: The values of a determination, one per row, by their names in ``_determination_rows``.
_CELL_NAMES = ("average", "data", "data allowed", "slope", "intercept", "slope excursion", "slope allowed", "steady")
#: The most labels of the axis of rounds.
_MAX_TICKS = 20
#: The scale in percent at which two determinations fill a page.
_PRINT_SCALE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundBlock:
    """Rounds on which steady state was evaluated, and the position of their values in the sheet Rounds."""

    series: TrackedSeries
    first_row: int

    @property
    def name(self) -> str:
        return self.series.part or self.series.name

    def range(self, column: int, rounds: Sequence[int] = ()) -> tuple[str, int, int, int, int]:
        """Return the cells of a column from the first to the last of ``rounds``, or of all rounds."""
        numbers = [judged.number for judged in self.series.rounds]
        first, last = (self.first_row + numbers.index((rounds or numbers)[at]) for at in (0, -1))
        return _ROUNDS, first, column, last, column


@dataclass(frozen=True, slots=True, kw_only=True)
class Determination:
    """A determination of steady state: its column in the sheet Rounds, and its first row in the sheet Steady state."""

    block: RoundBlock
    column: int
    top: int
    tracked: Tracked
    variable: str
    metric: str
    state: SteadyState

    @property
    def label(self) -> str:
        """The tracked variable, with the name of its rounds."""
        return self.variable if self.block.name in self.variable else f"{self.block.name}: {self.variable}"

    @property
    def rounds(self) -> str:
        return f"{self.state.rounds[0]} - {self.state.rounds[-1]}"

    def cell(self, name: str) -> str:
        """Return the reference of a value by its name, for formulas of the same sheet."""
        return str(xl_rowcol_to_cell(self.top + 1 + _CELL_NAMES.index(name), 1))


def round_blocks(result: TestResult) -> Iterator[RoundBlock]:
    """Yield the evaluated series; in the sheet Rounds they are stacked with three rows between them."""
    row = 2
    for series in evaluated_series(result):
        yield RoundBlock(series=series, first_row=row)
        row += len(series.rounds) + 4


def determinations(blocks: Iterable[RoundBlock]) -> Iterator[Determination]:
    """Yield the determinations of all windows, in the order of the sheet Steady state."""
    top = 0
    for block in blocks:
        window = block.series.window
        for column, (tracked, state) in enumerate(window.determinations if window else (), start=1):
            variable, metric = block.series.label(tracked), METRICS[tracked.metric].heading
            yield Determination(
                block=block,
                column=column,
                top=top,
                tracked=tracked,
                variable=variable,
                metric=metric,
                state=state,
            )
            top += CHART_ROWS


def write_rounds(workbook: Workbook, data: ResultData, blocks: Sequence[RoundBlock]) -> None:
    """Write the tracked variables by round: references to measurements, or the values of samples."""
    sheet, widths = Sheet(workbook, _ROUNDS), (9, *[24] * 12)
    for column, width in enumerate(widths):
        sheet.worksheet.set_column(column, column, width)
    for block in blocks:
        series = block.series
        sheet.write(block.first_row - 2, 0, block.name, "bold")
        heads = (f"{series.label(tracked)} {METRICS[tracked.metric].heading}" for tracked in series.rule.tracked)
        sheet.write_row(block.first_row - 1, ("round", *heads), repeat("right head"), widths)
        for row, measured in enumerate(series.rounds, start=block.first_row):
            sheet.write(row, 0, measured.number, "number")
            for column, tracked in enumerate(series.rule.tracked, start=1):
                value = measured.value(tracked)
                if isinstance(measured, MeasuredRound):
                    formula = data.measurement(measured.point(tracked), *METRIC_COLUMNS[tracked.metric])
                    sheet.write_formula(row, column, formula, value, "number", digits=TRACKED_DIGITS)
                elif math.isfinite(value):
                    sheet.write(row, column, value, "number", digits=TRACKED_DIGITS)
                else:
                    sheet.write_formula(row, column, "NA()", value, "number")


def write_determinations(workbook: Workbook, determined: Sequence[Determination]) -> None:
    """Write each tracked variable's determination, calculated from the window's rounds, and its chart."""
    sheet = Sheet(workbook, _STEADY)
    sheet.worksheet.set_column(0, 0, 40)
    sheet.worksheet.set_column(1, 6, 18)
    for item in determined:
        _write_determination(sheet, item)
    sheet.worksheet.set_print_scale(_PRINT_SCALE)
    sheet.worksheet.set_h_pagebreaks([item.top for item in determined[2::2]])


def _write_determination(sheet: Sheet, item: Determination) -> None:
    block, state, top = item.block, item.state, item.top
    title = f"{block.name}: {item.variable}, {item.metric}"
    sheet.write(top, 0, f"{title}, rounds {item.rounds}", "bold")
    compared = (
        state.data_excursion,
        state.allowed_data_excursion,
        state.slope_excursion,
        state.allowed_slope_excursion,
    )
    digits = distinct_digits(compared, least=TRACKED_DIGITS)
    for row, (label, formula, value) in enumerate(_determination_rows(item), start=top + 1):
        sheet.write(row, 0, label)
        if state.evaluable:
            style = "right boolean" if isinstance(value, bool) else "number"
            sheet.write_formula(row, 1, formula, value, style, digits=digits)
        else:
            sheet.write(row, 1, "not evaluable")
    if len(block.series.rounds) < 2:
        return
    title += ", all rounds" + f"; lines: window, rounds {item.rounds}" * state.evaluable
    rule, numbers = block.series.rule, [measured.number for measured in block.series.rounds]
    shown = [measured.value(item.tracked) for measured in block.series.rounds]
    if state.evaluable:
        half = rule.data_excursion_percent / 200
        shown += [
            state.average * (1 + half),
            state.average * (1 - half),
            *map(state.fit, (state.rounds[0], state.rounds[-1])),
        ]
    scale = zoomed(shown)
    x = {
        "name": "Round",
        "min": numbers[0],
        "max": numbers[-1],
        "major_unit": 1 + len(numbers) // _MAX_TICKS,
        "major_gridlines": {"visible": False},
    }
    y = {"name": item.metric + " (axis not from zero)" * (scale["min"] > 0), "num_format": AXIS_FORMAT, **scale}
    chart = add_chart(sheet.workbook, {"type": "scatter", "subtype": "straight_with_markers"}, title, x, y, "bottom")
    rounds, values = (list(block.range(column)) for column in (0, item.column))
    chart.add_series({"name": "rounds", "categories": rounds, "values": values, **dotted_line(COLOURS[0])})
    if state.evaluable:
        _add_lines(sheet, top + len(_CELL_NAMES) + 2, item, chart)
    sheet.worksheet.insert_chart(top, 3, chart, CHART_PLACE)


def _determination_rows(item: Determination) -> Iterator[tuple[str, str, float | bool]]:
    """Yield label, formula and value of each row of a determination."""
    rule, state, cell = item.block.series.rule, item.state, item.cell
    x, y = (xl_range_formula(*item.block.range(column, state.rounds)) for column in (0, item.column))
    data, slope = f"{rule.data_excursion_percent:g}", f"{rule.slope_excursion_percent:g}"
    yield "average", f"AVERAGE({y})", state.average
    yield "measured data excursion (max - min)", f"MAX({y})-MIN({y})", state.data_excursion
    formula = f"{cell('average')}*{data}/100"
    yield f"allowed data excursion ({data} % of the average)", formula, state.allowed_data_excursion
    yield "slope of the best fit, per round", f"SLOPE({y},{x})", state.slope
    yield "intercept of the best fit", f"INTERCEPT({y},{x})", state.intercept
    formula = f"ABS({cell('slope')})*{len(state.rounds) - 1}"
    yield "measured slope excursion", formula, state.slope_excursion
    formula = f"{cell('average')}*{slope}/100"
    yield f"allowed slope excursion ({slope} % of the average)", formula, state.allowed_slope_excursion
    formula = f"AND({cell('data')}<={cell('data allowed')},{cell('slope excursion')}<={cell('slope allowed')})"
    yield "steady", formula, state.steady


def _add_lines(sheet: Sheet, top: int, item: Determination, chart: Any) -> None:
    """Write the lines of a window with their values in its first and last round, and add them to its chart."""
    state, (average, slope, intercept) = item.state, map(item.cell, ("average", "slope", "intercept"))
    rounds, half = (state.rounds[0], state.rounds[-1]), item.block.series.rule.data_excursion_percent / 2
    bounds = ((percent, state.average * percent / 100) for percent in (100 + half, 100 - half))
    fit = f"{slope}*{{round}}+{intercept}", (state.fit(rounds[0]), state.fit(rounds[1]))
    lines = (
        ("average", average, (state.average, state.average), INK, "solid"),
        *(
            (f"{percent:g} % of the average", f"{average}*{percent:g}/100", (bound, bound), QUIET, "dash")
            for percent, bound in bounds
        ),
        ("best fit", *fit, COLOURS[5], "long_dash_dot"),
    )
    sheet.write(top, 0, "lines in the chart: round")
    for column, number in enumerate(rounds, start=1):
        sheet.write(top, column, number, "number")
    for row, (label, formula, values, colour, dash) in enumerate(lines, start=top + 1):
        sheet.write(row, 0, label)
        for column, value in enumerate(values, start=1):
            formula_there = formula.format(round=xl_rowcol_to_cell(top, column))
            sheet.write_formula(row, column, formula_there, value, "number", digits=TRACKED_DIGITS)
        x, y = ([_STEADY, at, 1, at, len(rounds)] for at in (top, row))
        style = line(colour, 1.25, dash)
        chart.add_series({"name": [_STEADY, row, 0], "categories": x, "values": y, **style})
