"""The first sheet of a workbook: verdict, limits, steady state, and tables that need no sheet."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Sequence
from functools import partial

from xlsxwriter.utility import xl_range_abs, xl_rowcol_to_cell

from ....results.attributes import Value
from ....results.limit_checks import Judgement, judgements, limit_digits
from ....results.tables import heading
from ...header import when
from ...pages import Prose
from ...registry import pages_of
from ...sections.steady_state import TRACKED_DIGITS
from ...sections.summary import MARGIN, limits_verdict, no_drive, shortcomings, verdict
from ...tables import NOT_APPLICABLE, Table
from .data_sheets import ResultData
from .sheet import LINE_HEIGHT, NUMBER, Sheet, as_number
from .steady_state import Determination

#: The widths of the columns, and those headings of the limits that are above numbers.
_WIDTHS = (34, 28, 24, 16, 13, 13, 13, 13, 13, 13, 13, 22)
_BOUNDS = (
    "Minimum",
    "Maximum",
    "Tolerance (%)",
    "Minimum with tolerance",
    "Maximum with tolerance",
    "Measured",
    MARGIN,
)
#: The columns of the limits, from the minimum to the verdict.
_MINIMUM, _MET = 3, 10
#: A number at the beginning of a text, with the unit of a rate or share.
_MEASURED = re.compile(rf"({NUMBER.pattern}) ((?:IOPS|MB/s|%)(?:[ ,].*)?)$")


def write_summary(sheet: Sheet, data: ResultData, determined: Sequence[Determination]) -> None:
    """Write the summary; ``determined`` are the determinations of the sheet Steady state."""
    facts, result = data.result.facts, data.result
    for column, width in enumerate(_WIDTHS):
        sheet.worksheet.set_column(column, column, width, sheet.styles["wrapped"])
    conformance = "PTS conformant" if result.conformant else f"NOT PTS conformant: {shortcomings(result)}"
    lines = [statement.text for statement in no_drive([facts.dut])]
    lines += [f"{facts.spec.title} Test, {facts.spec.revision}", verdict(result), conformance]
    lines += [limits_verdict(checks).text] if (checks := judgements(result)) else []
    for row, text in enumerate(lines):
        sheet.write(row, 0, text, "bold")
    row = _write_limits(sheet, len(lines), data)
    row = _write_steady_state(sheet, row, determined)
    row = _write_first_page(sheet, row, data)
    for name in ("deviations", "settings", "warnings", "features", "run"):
        if name in data.tables:
            table = data.tables[name].data
            headings: Sequence[str] = tuple(map(heading, table.fields))
            rows: Iterable[Sequence[Value]] = table.rows
            if table.fields == ("key", "value"):
                headings = ("Property", "Value", "Name")
                rows = [_property(data, str(key), value) for key, value in rows]
            row = _write_section(sheet, row, table.title, headings, rows)


def _property(data: ResultData, name: str, value: Value) -> tuple[Value, ...]:
    """Return heading, value and name of a property of the run; times are readable."""
    shown = when(str(value)) if name in ("started", "finished") else value
    return data.headings.get(name, heading(name)), shown, name


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
    if any(headings):
        sheet.write_row(row + 2, headings, heads, _WIDTHS)
    first, lines = row + 2 + any(headings), list(rows)
    for line, values in enumerate(lines, first):
        right = ["top right" if isinstance(value, str) else "top number" for value in values]
        styles = [style if heading in numbers else "wrapped" for heading, style in zip(headings, right, strict=False)]
        sheet.write_row(line, values, styles, _WIDTHS)
    return first + len(lines)


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
    sheet.write(row, _MET + 1, check.shown_reason, "wrapped")


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


def _write_first_page(sheet: Sheet, row: int, data: ResultData) -> int:
    """Write the tables of numbers and facts of the report's first page, with the notes that follow each."""
    follows = False
    for block in pages_of(data.result.facts.spec.test).pages(data.result)[0].blocks:
        if isinstance(block, Table):
            follows = block.kind in ("numbers", "facts")
            if follows:
                row = _write_table(sheet, row, block)
        elif isinstance(block, Prose) and follows:
            sheet.worksheet.merge_range(row, 0, row, len(_WIDTHS) - 1, "")
            sheet.write(row, 0, block.text, "wrapped")
            sheet.worksheet.set_row(row, LINE_HEIGHT * len(textwrap.wrap(block.text, sum(_WIDTHS))))
            row += 1
    return row


def _write_table(sheet: Sheet, row: int, table: Table) -> int:
    """Write a table of the report; a fact that is a number with a unit is in two cells."""
    if not table.headed:
        facts = [(name, *_split(value)) for name, value in table.rows]
        return _write_section(sheet, row, table.title, ("", "", ""), facts)
    numbers = [column.heading for column in table.columns if column.align == "right"]
    headings = [column.heading for column in table.columns]
    rows = [
        [
            as_number(cell) if column.align == "right" else cell
            for cell, column in zip(cells, table.columns, strict=True)
        ]
        for cells in table.rows
    ]
    return _write_section(sheet, row, table.title, headings, rows, numbers)


def _split(text: str) -> tuple[Value, ...]:
    """Return the number and the rest of ``23.7 % of the baseline``, or the text if it does not begin so."""
    match = _MEASURED.match(text)
    return (as_number(match[1]), match[2]) if match else (text,)
