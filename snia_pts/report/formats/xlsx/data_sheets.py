"""The sheets of data tables: key figures, points, measurements and samples, with formulas for calculated values."""

from __future__ import annotations

import re
from dataclasses import replace

from xlsxwriter.workbook import Workbook

from ....model.health import changes
from ....model.measurement import SHORTEST_RATED_MS, Measurement
from ....results.attributes import METRIC_COLUMNS, Value
from ....results.key_figures import key_figures, loop_points, steady_by_name
from ....results.result import TestResult
from ....results.tables import RATES, DataTable, data_tables, heading, label, placed_measurements
from ....spec import loop_rule, settling_rule
from ....text import one_line
from ...figures.style import COLOURS
from ...header import VIRTUAL
from ...sections.power import rates_and_watts
from .charts import AXIS_FORMAT, CHART_PLACE, FROM_ZERO, add_chart, line
from .sheet import FIRST_ROW, SheetTable

#: Longer time lines are reduced to every n-th sample: workbooks are built in memory, with up to 1 048 576 rows a sheet.
_MAX_SAMPLES = 10_000
#: The maximum length of a sheet's name, and the characters that it must not have.
_MAX_NAME_LENGTH, _FORBIDDEN = 31, r"[\[\]:*?/\\]"


class ResultData:
    """A result with its points, its key figures, and its tables of data by their names.

    The order of ``points`` is that of the table of points, the order of ``figures`` that of the table of key figures.
    """

    def __init__(self, result: TestResult) -> None:
        self.result = result
        self.points = [item for loop in result.loops for item in loop_points(result, loop)]
        self.figures = key_figures(result)
        fields, steady = ("label", "at", "value", "unit", "steady", "metric"), steady_by_name(result)
        rules = filter(None, (loop_rule(result.facts.spec), settling_rule(result.facts.spec)))
        judged = {tracked.metric for rule in rules for tracked in rule.tracked}
        rows = tuple(
            (
                label(one.metric),
                one.at,
                one.value,
                one.unit,
                steady.get(one.at) if one.metric in judged else None,
                one.metric,
            )
            for one in self.figures
        )
        figures = DataTable(name="key figures", title="Key figures", fields=fields, rows=rows)
        tables = (figures, *data_tables(result, max_samples=_MAX_SAMPLES), _power(result), _drive_health(result))
        #: The headings that say more than the names of result.xml.
        self.headings = {
            "seconds": "Requested duration (s)",
            "label": "Metric",
            "metric": "Name",
            "steady": "Within the limits of steady state",
            "journal_sha256": "SHA-256 of journal.jsonl (begins with the report id)",
        }
        if result.facts.dut.simulated:
            self.headings |= {name: f"{heading(name)}{VIRTUAL}" for name in ("started", "finished")}
        self.tables = {
            data.name: SheetTable(sheet=data.name.capitalize(), data=data, headings=self.headings)
            for data in tables
            if data.rows
        }
        self._rows = {id(measurement): row for row, (_, measurement) in enumerate(placed_measurements(result))}

    def measurement(self, measurement: Measurement, field: str, divisor: int = 1) -> str:
        """Return the reference of a measurement's cell, divided by ``divisor``."""
        return self.tables["measurements"].reference(self._rows[id(measurement)], field, divisor)


def _power(result: TestResult) -> DataTable:
    """Return the rates per watt of each point over its window, and of each whole continuous stimulus."""
    points = [
        (at, figures) for at, figures in rates_and_watts(result) if any(map(figures.get, ("watts", "host_watts")))
    ]
    names = [
        name for name in (points[0][1] if points else ()) if any(figures[name] is not None for _, figures in points)
    ]
    rows = tuple((at, *(figures[name] for name in names)) for at, figures in points)
    return DataTable(name="power", title="Rates per watt", fields=("point", *names), rows=rows)


def _drive_health(result: TestResult) -> DataTable:
    """Return the values of the drive's logs before and after the test, and the write amplification between them."""
    rows: list[tuple[Value, ...]] = [
        (change.name, change.unit, change.before, change.after, change.difference, change.source)
        for change in changes(result.facts.health, result.health_after)
    ]
    if amplification := result.write_amplification:
        rows.append(("Write amplification", "", None, None, amplification.factor, "differences: media / host writes"))
    fields = ("counter", "unit", "before", "after", "difference", "source")
    return DataTable(name="drive health", title="Drive health", fields=fields, rows=tuple(rows))


def write_key_figures(workbook: Workbook, data: ResultData) -> None:
    """Write all key figures; those of points are references to the sheet Points."""
    table, points = data.tables["key figures"], data.tables.get("points")
    sheet = table.write(workbook)
    sheet.worksheet.set_column(0, 1, 34)
    rows = {at: row for row, (at, _) in reversed(list(enumerate(data.points)))}
    for index, figure in enumerate(data.figures):
        field, divisor = METRIC_COLUMNS.get(figure.metric, ("", 1))  # type: ignore[call-overload]
        if points and figure.at in rows and field in points.data.fields:
            formula = points.reference(rows[figure.at], field, divisor)
            table.write_formula(sheet, index, "value", formula, "number")
        else:
            sheet.write(FIRST_ROW + index, table.data.column("value"), figure.value, "number")


def write_points(workbook: Workbook, data: ResultData) -> None:
    """Write the means over each loop's window or a profile's repeats, with IOPS and MB/s as formulas."""
    table = data.tables["points"]
    sheet = table.write(workbook)
    for index, (_, measurements) in enumerate(data.points):
        for rate in RATES:
            cells = ",".join(data.measurement(measurement, rate) for measurement in measurements)
            table.write_formula(sheet, index, rate, f"AVERAGE({cells})", "number")


def write_measurements(workbook: Workbook, data: ResultData) -> None:
    """Write all measurements; IOPS and MB/s are calculated from counts and times, if the data has them."""
    table = data.tables["measurements"]
    sheet = table.write(workbook)
    for index in range(len(table.data.rows) if "write_ios" in table.data.fields else 0):
        for name, counts, scale in (("iops", "ios", "1000"), ("mb_per_second", "bytes", "0.001")):
            rates = (_rate(table, index, direction, counts, scale) for direction in ("read", "write"))
            table.write_formula(sheet, index, name, "+".join(rates), "number")


def _rate(table: SheetTable, index: int, direction: str, counts: str, scale: str) -> str:
    """Return the formula of a measurement's read or write rate per second; see ``rate_per_second``."""
    count, time = table.cell(index, f"{direction}_{counts}"), table.cell(index, f"{direction}_runtime_ms")
    return f"IF({time}>={SHORTEST_RATED_MS},{scale}*{count}/{time},IF({count}>0,NA(),0))"


def write_samples(workbook: Workbook, data: DataTable) -> None:
    """Write a time line, and its chart."""
    title = data.title.removeprefix("Samples: ")
    name = f"Samples {re.sub(_FORBIDDEN, '-', one_line(title))}"[:_MAX_NAME_LENGTH].rstrip("'")
    used = name.lower() in {sheet.get_name().lower() for sheet in workbook.worksheets()}
    table = SheetTable(sheet=None if used else name, data=_with_minutes(data), headings={})
    sheet = table.write(workbook)
    for index in range(len(data.rows)):
        table.write_formula(sheet, index, "ended_minutes", f"{table.cell(index, 'ended_seconds')}/60", "number")
    if len(data.rows) < 2:
        return
    x = {"name": "Time (minutes)", "num_format": AXIS_FORMAT, **FROM_ZERO}
    y = {"name": "IOPS", "num_format": "#,##0", "min": 0}
    chart = add_chart(workbook, {"type": "scatter", "subtype": "straight"}, f"IOPS: {title}", x, y, "none")
    times, rates = (
        [sheet.name, FIRST_ROW, column, FIRST_ROW + len(data.rows) - 1, column]
        for column in map(table.data.column, ("ended_minutes", "iops"))
    )
    chart.add_series({"categories": times, "values": rates, **line(COLOURS[0], width=1)})
    sheet.worksheet.insert_chart(FIRST_ROW, len(table.data.fields) + 1, chart, CHART_PLACE)
    sheet.worksheet.fit_to_pages(1, 0)


def _with_minutes(data: DataTable) -> DataTable:
    """Return a time line with the ends of its samples in minutes, too, for its chart."""
    table = SheetTable(sheet=None, data=data, headings={})
    rows = tuple((*row, table.number(index, "ended_seconds", 60)) for index, row in enumerate(data.rows))
    return replace(data, fields=(*data.fields, "ended_minutes"), rows=rows)
