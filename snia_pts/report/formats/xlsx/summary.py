"""The first sheet of a workbook: verdict, limits, steady state, key figures, and the tables that need no sheet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import partial

from xlsxwriter.utility import xl_range_abs, xl_rowcol_to_cell

from ....results.attributes import Value
from ....results.limit_checks import Judgement, judgements
from ....results.tables import heading
from ...sections.steady_state import TRACKED_DIGITS
from ...sections.summary import SIMULATED, limit_digits, limits_verdict, shortcomings, verdict
from ...tables import NOT_APPLICABLE
from .data_sheets import ResultData
from .sheet import Sheet
from .steady_state import Determination

#: The most points of a profile whose key figures are shown.
_MAX_POINTS = 24
#: The widths of the columns, and those headings of the limits that are above numbers.
_WIDTHS = (34, 28, 24, 16, 13, 13, 13, 13, 13, 13, 13, 22)
_BOUNDS = (
    "Minimum",
    "Maximum",
    "Tolerance (%)",
    "Minimum with tolerance",
    "Maximum with tolerance",
    "Measured",
    "Margin (%)",
)
#: The columns of the limits, from the minimum to the verdict.
_MINIMUM, _MET = 3, 10


def write_summary(sheet: Sheet, data: ResultData, determined: Sequence[Determination]) -> None:
    """Write the summary; ``determined`` are the determinations of the sheet Steady state."""
    facts, result = data.result.facts, data.result
    for column, width in enumerate(_WIDTHS):
        sheet.worksheet.set_column(column, column, width, sheet.styles["wrapped"])
    conformance = "PTS conformant" if result.conformant else f"NOT PTS conformant: {shortcomings(result)}"
    lines = [f"{facts.spec.title} Test, {facts.spec.revision}", verdict(result), conformance]
    lines += [limits_verdict(checks).text] if (checks := judgements(result)) else []
    lines += [SIMULATED.text] if facts.dut.simulated else []
    for row, text in enumerate(lines):
        sheet.write(row, 0, text, "bold")
    row = _write_limits(sheet, len(lines), data)
    row = _write_steady_state(sheet, row, determined)
    row = _write_figures(sheet, row, data)
    for name in ("deviations", "settings", "warnings", "features", "run"):
        if name in data.tables:
            table = data.tables[name].data
            headings: Sequence[str] = tuple(map(heading, table.fields))
            rows: Iterable[Sequence[Value]] = table.rows
            if table.fields == ("key", "value"):
                headings = ("Property", "Value", "Name")
                rows = [(data.headings.get(str(key), heading(str(key))), value, key) for key, value in rows]
            row = _write_section(sheet, row, table.title, headings, rows)


def _write_section(
    sheet: Sheet,
    row: int,
    title: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[Value]],
    numbers: Collection[str] = (),
) -> int:
    """Write a table below the one that ends at ``row``; return the row after it.

    ``numbers`` are the headings of the columns of numbers.
    """
    sheet.write(row + 1, 0, title, "bold")
    heads = ["right head" if heading in numbers else "head" for heading in headings]
    styles = ["top number" if heading in numbers else "wrapped" for heading in headings]
    sheet.write_row(row + 2, headings, heads, _WIDTHS)
    last = row + 2
    for last, values in enumerate(rows, row + 3):
        sheet.write_row(last, values, styles, _WIDTHS)
    return last + 1


def _write_limits(sheet: Sheet, row: int, data: ResultData) -> int:
    """Write the limits: bounds with their tolerance, references to the measured values, and verdicts."""
    checks = judgements(data.result)
    if not checks:
        return row
    first, last = row + 4, row + 3 + len(checks)
    sheet.write(row, 0, f"Limits met, of {len(checks)}:", "bold")
    met = sum(check.met for check in checks)
    sheet.write_formula(row, 1, f"COUNTIF({xl_range_abs(first, _MET, last, _MET)},TRUE)", met, "wrapped")
    limits = [check.limit for check in checks]
    rows = [(one.at, heading(one.metric), one.unit, one.minimum, one.maximum, one.tolerance_percent) for one in limits]
    headings = ("Point or phase", "Metric", "Unit", *_BOUNDS, "Met", "Reason")
    end = _write_section(sheet, row + 1, "Limits", headings, rows, _BOUNDS)
    for line, check in enumerate(checks, first):
        _write_limit(sheet, line, check, data)
    return end


def _write_limit(sheet: Sheet, row: int, check: Judgement, data: ResultData) -> None:
    cells = (xl_rowcol_to_cell(row, column) for column in range(_MINIMUM, _MET - 1))
    minimum, maximum, tolerance, lower, upper, measured = cells
    limit, conditions, margins = check.limit, [], []
    digits = limit_digits(limit, check.value)
    write = partial(sheet.write_formula, row, style="top number", digits=digits)
    for column, bound in enumerate((limit.minimum, limit.maximum), _MINIMUM):
        sheet.write(row, column, bound, "top number", digits=digits)
    if limit.minimum is not None:
        write(6, f"{minimum}-ABS({minimum})*{tolerance}/100", limit.lower_bound)
        conditions.append(f"{measured}>={lower}")
        margins.append(f"100*({measured}-{lower})/ABS({lower})")
    if limit.maximum is not None:
        write(7, f"{maximum}+ABS({maximum})*{tolerance}/100", limit.upper_bound)
        conditions.append(f"{measured}<={upper}")
        margins.append(f"100*({upper}-{measured})/ABS({upper})")
    if check.value is None:
        sheet.write(row, _MET, False)
    else:
        index, figure = next(item for item in enumerate(data.figures) if item[1].name == limit.name)
        figures = data.tables["key figures"]
        write(8, figures.reference(index, "value"), check.value)
        counts = data.result.ending == "finished" and not figure.unsteady
        conditions.append("TRUE()" if counts else "FALSE()")
        sheet.write_formula(row, _MET, f"AND({','.join(conditions)})", check.met, "boolean")
    if check.margin_percent is None:
        sheet.write(row, _MET - 1, NOT_APPLICABLE, "top right")
    else:
        sheet.write_formula(row, _MET - 1, f"MIN({','.join(margins)})", check.margin_percent, "top percent")
    sheet.write(row, _MET + 1, check.reason, "wrapped")


def _write_steady_state(sheet: Sheet, row: int, determined: Sequence[Determination]) -> int:
    """Write each tracked variable's average and verdict, as references to the sheet Steady state."""
    if not determined:
        return row
    rows = [(item.label, item.metric, item.rounds) for item in determined]
    headings = ("Tracked variable", "Metric", "Rounds of the window", "Average", "Steady")
    end = _write_section(sheet, row, "Steady state", headings, rows, ["Average"])
    for line, item in enumerate(determined, row + 3):
        if item.state.evaluable:
            average = f"'Steady state'!{item.cell('average')}"
            sheet.write_formula(line, 3, average, item.state.average, "top number", digits=TRACKED_DIGITS)
            sheet.write_formula(line, 4, f"'Steady state'!{item.cell('steady')}", item.state.steady, "boolean")
    return end


def _write_figures(sheet: Sheet, row: int, data: ResultData) -> int:
    """Write a row of key figures for each tracked point, or a profile's first points, and for each phase."""
    shown = _shown_points(data)
    count = Counter(figure.at for figure in data.figures)
    fullest = [one.metric for one in sorted(data.figures, key=lambda one: -count[one.at]) if one.at in shown]
    common = dict(Counter(fullest).most_common(len(_WIDTHS) - 1))
    metrics = [metric for metric in dict.fromkeys(fullest) if metric in common]
    if not metrics:
        return row
    headings = ("Point or phase", *map(heading, metrics))
    end = _write_section(sheet, row, "Key figures", headings, [(at,) for at in shown], headings[1:])
    for index, figure in enumerate(data.figures):
        if figure.at in shown and figure.metric in common:
            cell = row + 3 + shown.index(figure.at), 1 + metrics.index(figure.metric)
            formula = data.tables["key figures"].reference(index, "value")
            sheet.write_formula(*cell, formula, figure.value, "top number")
    return end


def _shown_points(data: ResultData) -> list[str]:
    """Return the names of the points and phases whose key figures the summary shows, in the order of the report."""
    names = {id(measured[-1]): at for at, measured in data.points}
    tracked = [
        loop.window_rounds[-1].point(variable)
        for loop in data.result.loops
        for variable, _ in (loop.window.determinations if loop.window else ())
    ]
    shown = [names[id(point)] for point in tracked] or list(names.values())[:_MAX_POINTS]
    phases = [one.at for one in data.figures if one.at not in names.values() and one.metric != "written_gb"]
    return list(dict.fromkeys((*shown, *phases)))
