"""The matrices of a workbook: rates and response times of the points with charts, and percentiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from xlsxwriter.workbook import Workbook

from ....model.measurement import METRICS
from ....model.steps import Stimulus
from ....results.attributes import METRIC_COLUMNS, PERCENTS, window_points
from ....results.tables import RATES
from ....results.unsteady_points import unsteady_points
from ....spec import MetricName
from ...figures.axes import is_wide, logarithmic
from ...figures.figure import Side
from ...figures.matrices import Parameter, varying_parameters
from ...figures.style import COLOURS
from ...registry import further_pages
from ...sections.percentiles import TOO_FEW_IOS, tail_matrices
from ...tables import NOT_APPLICABLE
from .charts import AXIS_FORMAT, CHART_HEIGHT, CHART_PLACE, CHART_ROWS, add_chart, dotted_line
from .data_sheets import ResultData
from .sheet import LINE_HEIGHT, Sheet, SheetTable, as_number, pixels

#: The sheet of each metric.
_SHEETS: Mapping[MetricName, str] = {
    "iops": "Matrix IOPS",
    "mb_per_second": "Matrix MB per s",
    "average_response_ms": "Matrix ART",
}
#: The width in pixels, and the height in points, of a page that needs no reduction, also with a wide font.
_PAGE_WIDTH, _PAGE_HEIGHT = 740, 480
#: The least scale at which two blocks are printed on a page rather than one.
_LEAST_SCALE = 0.6
#: The width of the first column, and of the columns of numbers.
_FIRST_WIDTH, _WIDTH = 20, 13
#: The least width of a chart in pixels.
_LEAST_CHART_WIDTH = 560


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matrix:
    """Rows of a table whose points differ along two sides, by the keys across and down."""

    title: str
    across: Side
    down: Side
    table: SheetTable
    rows: Mapping[tuple[int, int], int]

    @property
    def height(self) -> float:
        """The height in points of its title, its heads of two lines, its rows and an empty row."""
        return LINE_HEIGHT * (len(self.down.keys) + 4)

    def numbers(self, field: str, divisor: int) -> list[float]:
        """Return the numbers that there are."""
        numbers = (self.table.number(row, field, divisor) for row in self.rows.values())
        return [number for number in numbers if number is not None]

    def write(self, sheet: Sheet, top: int, title: str, field: str, divisor: int, missing: str | None = None) -> None:
        """Write a column of the table as a matrix of references; a rate that is missing is #N/A."""
        widths = (_FIRST_WIDTH, *[_WIDTH] * len(self.across.keys))
        heads = (f"{self.down.title} / {self.across.title}", *map(as_number, self.across.labels))
        sheet.write(top, 0, f"{self.title}: {title}", "bold")
        sheet.write_row(top + 1, heads, ("head", *repeat("right head", len(self.across.keys))), widths)
        for row, label in enumerate(self.down.labels, top + 2):
            sheet.write(row, 0, as_number(label), "left")
        for (x, y), row in self.rows.items():
            cell = top + 2 + self.down.keys.index(y), 1 + self.across.keys.index(x)
            number = self.table.number(row, field, divisor)
            if number is not None or field in RATES:
                sheet.write_formula(*cell, self.table.reference(row, field, divisor), number, "number")
            else:
                sheet.write(*cell, missing, "right")


def write_point_matrices(workbook: Workbook, data: ResultData) -> None:
    """Write a sheet for each metric, with each matrix as references to the sheet Points, and its chart."""
    matrices = tuple(_point_matrices(data))
    for metric, name in _SHEETS.items():
        if matrices and METRIC_COLUMNS[metric][0] in data.tables["points"].data.fields:
            _write_metric(Sheet(workbook, name), matrices, metric)


def _point_matrices(data: ResultData) -> Iterator[_Matrix]:
    """Yield the matrices of the points: one of a test of the standard, one for each series of a profile."""
    result, table = data.result, data.tables["points"]
    if further := further_pages(result.facts.spec.test):
        by_name = {row[table.data.column("point")]: index for index, row in enumerate(table.data.rows)}
        for matrix in further.point_matrices(result):
            rows = {keys: by_name[name] for keys, name in matrix.points.items()}
            yield _Matrix(title=matrix.title, across=matrix.across, down=matrix.down, table=table, rows=rows)
        return
    stimuli = [stimulus for loop in result.loops for stimulus, _ in window_points(result, loop)]
    if parameters := varying_parameters(stimuli):
        rows = {(parameters[1].value(one), parameters[0].value(one)): row for row, one in enumerate(stimuli)}
        down, across = (_side(parameter, stimuli) for parameter in parameters)
        if len(rows) == len(stimuli):
            unsteady = sum(len(unsteady_points(result, loop)) for loop in result.loops)
            note = f", {unsteady} of {len(rows)} points not steady in it (sheet Points)" if unsteady else ""
            title = f"Mean over the measurement window{note}"
            yield _Matrix(title=title, across=across, down=down, table=table, rows=rows)


def _side(parameter: Parameter, stimuli: Iterable[Stimulus]) -> Side:
    """Return the values of a parameter, ascending, with their labels."""
    labels = dict(sorted({parameter.value(stimulus): parameter.label(stimulus) for stimulus in stimuli}.items()))
    return Side(title=parameter.title, keys=tuple(labels), labels=tuple(labels.values()))


def _write_metric(sheet: Sheet, matrices: Sequence[_Matrix], metric: MetricName) -> None:
    (field, divisor), title = METRIC_COLUMNS[metric], METRICS[metric].heading
    mean = f"{title}, weighted by I/O count" if metric == "average_response_ms" else title
    width = _set_widths(sheet, matrices)
    scale = _scale([number for matrix in matrices for number in matrix.numbers(field, divisor)])
    blocks, top = [], 0
    for matrix in matrices:
        matrix.write(sheet, top, mean, field, divisor)
        below, height = top + len(matrix.down.keys) + 3, matrix.height
        if len(matrix.across.keys) > 1 and matrix.numbers(field, divisor):
            chart = _chart(sheet, top, matrix, f"{matrix.title}: {mean}; lines: {matrix.down.title}", title, scale)
            chart.set_size({"width": max(_LEAST_CHART_WIDTH, width), "height": CHART_HEIGHT})
            sheet.worksheet.insert_chart(below, 0, chart, CHART_PLACE)
            below, height = below + CHART_ROWS, height + LINE_HEIGHT * CHART_ROWS
        blocks.append((top, height))
        top = below
    _print_whole(sheet, width, blocks)


def _set_widths(sheet: Sheet, matrices: Sequence[_Matrix]) -> int:
    """Set the widths of the columns of matrices; return the width of the widest matrix in pixels."""
    count = max(len(matrix.across.keys) for matrix in matrices)
    sheet.worksheet.set_column(0, 0, _FIRST_WIDTH)
    sheet.worksheet.set_column(1, count, _WIDTH)
    return pixels(_FIRST_WIDTH) + count * pixels(_WIDTH)


def _print_whole(sheet: Sheet, width: int, blocks: Sequence[tuple[int, float]]) -> None:
    """Print a sheet of this width in pixels with whole blocks on each page: their first rows, and heights in points."""
    highest = max(height for _, height in blocks)
    on_a_page = 2 if len(blocks) > 1 and 2 * highest * _LEAST_SCALE <= _PAGE_HEIGHT else 1
    scale = min(1.0, _PAGE_WIDTH / width, _PAGE_HEIGHT / (on_a_page * highest))
    sheet.worksheet.set_print_scale(max(10, int(100 * scale)))
    breaks, free = [], 0.0
    for top, height in blocks:
        if height > free:
            breaks.append(top)
            free = _PAGE_HEIGHT / scale
        free -= height
    sheet.worksheet.set_h_pagebreaks(breaks[1:])


def _chart(sheet: Sheet, top: int, matrix: _Matrix, title: str, quantity: str, scale: Mapping[str, Any]) -> Any:
    """Return a chart of a matrix: a line for each of its rows."""
    x = {"name": matrix.across.title, "label_position": "low"}
    y = {"name": logarithmic(quantity) if "log_base" in scale else quantity, "num_format": AXIS_FORMAT, **scale}
    chart, last = add_chart(sheet.workbook, {"type": "line"}, title, x, y, "right"), len(matrix.across.keys)
    for number, row in enumerate(range(top + 2, top + 2 + len(matrix.down.keys))):
        categories, values = ([sheet.name, at, 1, at, last] for at in (top + 1, row))
        style = dotted_line(COLOURS[number % len(COLOURS)])
        chart.add_series({"name": [sheet.name, row, 0], "categories": categories, "values": values, **style})
    return chart


def _scale(numbers: Sequence[float]) -> Mapping[str, Any]:
    """Return the scale of all charts of a metric: from zero, or logarithmic if it is wide."""
    positive = [number for number in numbers if number > 0] or [1.0]
    if is_wide(positive):
        first, last = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
        return {"log_base": 10, "min": 10.0**first, "max": 10.0**last}
    power = 10.0 ** math.floor(math.log10(max(positive)))
    return {"min": 0, "max": math.ceil(max(positive) / power) * power}


def write_percentile_matrices(workbook: Workbook, data: ResultData) -> None:
    """Write the counts of I/Os and each percentile as matrices of references to the sheet Percentiles, if there are."""
    matrices = tuple(_percentile_matrices(data))
    if not matrices:
        return
    sheet = Sheet(workbook, "Percentile matrices")
    width = _set_widths(sheet, matrices)
    columns = {"ios": ("I/Os", 1)}
    columns |= {name: (f"{percent:g} % response time (ms)", 1000) for name, percent in PERCENTS.items()}
    blocks, top = [], 0
    for matrix in matrices:
        for field, (title, divisor) in columns.items():
            matrix.write(sheet, top, title, field, divisor, NOT_APPLICABLE)
            blocks.append((top, matrix.height))
            top += len(matrix.down.keys) + 3
    _print_whole(sheet, width, blocks)
    sheet.write(top, 0, TOO_FEW_IOS)


def _percentile_matrices(data: ResultData) -> Iterator[_Matrix]:
    for matrix in tail_matrices(data.result):
        rows = {(x, y): row for (y, x), (row, _) in matrix.points.items()}
        table = data.tables["percentiles"]
        yield _Matrix(title=matrix.title, across=matrix.across, down=matrix.down, table=table, rows=rows)
