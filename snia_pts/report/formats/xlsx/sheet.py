"""The sheets of a workbook: styled cells and wrapped rows, and tables of data with references to their cells."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from xlsxwriter.utility import quote_sheetname, xl_rowcol_to_cell
from xlsxwriter.workbook import Workbook

from ....results.attributes import Value
from ....results.tables import DataTable, heading, unit
from ....text import one_line
from ....units import NARROW_NBSP, decimals

#: The height of a line of text in points.
LINE_HEIGHT = 15
#: The first row of data of a table: below the headings, and the names of the columns in result.xml.
FIRST_ROW = 2
#: The number of the paper size A4 in workbooks.
_A4 = 9
#: About the width of a table that is readable on a page in landscape, in letters.
_PRINTED_WIDTH = 160
#: A table of so few rows is printed smaller rather than on several pages that are nearly empty.
_FEW_ROWS = 3

#: A number as the report shows it.
NUMBER = re.compile(rf"[+-]?\d+(?:{NARROW_NBSP}\d{{3}})*(?:\.\d+)?")

#: The width of a letter of the names of columns, which are smaller, in those of the other letters.
_NAME_WIDTH = 0.8

_TOP = {"valign": "top"}
_RIGHT = {"align": "right"}
#: A number ends before the right border of its cell, by the width of a letter: an indent of numbers is not printed.
_SPACE = "_m"
_INDENTED = {"indent": 1, **_RIGHT}
_HEAD = {"bold": True, "text_wrap": True, "bottom": 1, **_TOP}
_NAME = {"font_size": 8, "font_color": "#666666", "text_wrap": True, **_TOP}
#: The properties of each style: ``name`` is for names in result.xml, ``top`` for numbers beside texts of several lines.
#: Numbers of a style without a format have one that follows their values, as in the other formats of the report.
_STYLES: Mapping[str, Mapping[str, Any]] = {
    "": {},
    "bold": {"bold": True},
    "head": _HEAD,
    "right head": _HEAD | _INDENTED,
    "name": _NAME,
    "right name": _NAME | _INDENTED,
    "right": _INDENTED,
    "top right": _INDENTED | _TOP,
    "left": {"align": "left"},
    "wrapped": {"text_wrap": True, "align": "left", **_TOP},
    "boolean": {"num_format": '"TRUE";"TRUE";"FALSE"', "align": "left", **_TOP},
    "right boolean": {"num_format": f'"TRUE"{_SPACE};"TRUE"{_SPACE};"FALSE"{_SPACE}', **_RIGHT},
    "number": _RIGHT,
    "top number": _RIGHT | _TOP,
    "top percent": {"num_format": f"+0.0{_SPACE};-0.0{_SPACE};0.0{_SPACE}", **_RIGHT, **_TOP},
}


def as_number(text: str) -> Value:
    """Return the number that a cell of the report shows, or its text."""
    return float(text.replace(NARROW_NBSP, "")) if NUMBER.fullmatch(text) else text


def pixels(width: int) -> int:
    """Return the width in pixels of a column with a width in letters."""
    return 7 * width + 5


class Sheet:
    """A new sheet of a workbook, which is printed in landscape as wide as the page."""

    def __init__(self, workbook: Workbook, name: str | None) -> None:
        self.workbook, self.worksheet = workbook, workbook.add_worksheet(name)
        self.worksheet.set_landscape()
        self.worksheet.set_paper(_A4)
        self.worksheet.fit_to_pages(1, 0)
        self.name: str = self.worksheet.get_name()
        self.styles = {
            style: workbook.add_format(properties) if properties else None for style, properties in _STYLES.items()
        }
        self._number_styles: dict[tuple[str, int], Any] = {}

    def write(self, row: int, column: int, value: Value, style: str = "", *, digits: int = 4) -> None:
        """Write a value into a cell, a number with about ``digits`` digits; nothing if it is missing or not finite."""
        if isinstance(value, bool):
            self.worksheet.write_boolean(row, column, value, self.styles["boolean"])
        elif isinstance(value, str):
            self.worksheet.write_string(row, column, one_line(value), self.styles[style])
        elif value is not None and math.isfinite(value):
            self.worksheet.write_number(row, column, value, self._number_style(style, value, digits))

    def write_formula(
        self, row: int, column: int, formula: str, value: float | None, style: str = "", *, digits: int = 4
    ) -> None:
        """Write a formula without its ``=``, and the value that programs show until they recalculate it."""
        if value is None or not math.isfinite(value):
            self.worksheet.write_formula(row, column, f"={formula}", self.styles[style], "#N/A")
        else:
            self.worksheet.write_formula(row, column, f"={formula}", self._number_style(style, value, digits), value)

    def _number_style(self, style: str, value: float, digits: int) -> Any:
        """Return a style with a format for a number, unless it has its own."""
        if "num_format" in _STYLES[style]:
            return self.styles[style]
        decimals = _decimals(value, digits)
        if (style, decimals) not in self._number_styles:
            space = _SPACE if _STYLES[style].get("align") == "right" else ""
            code = f"#,##0{'.' * (decimals > 0)}{'0' * decimals}{space}"
            self._number_styles[style, decimals] = self.workbook.add_format({**_STYLES[style], "num_format": code})
        return self._number_styles[style, decimals]

    def write_row(self, row: int, values: Iterable[Value], styles: Iterable[str], widths: Iterable[int]) -> None:
        """Write wrapped cells into columns of these widths; the row is as high as the longest text needs."""
        lines = 1
        for column, (value, style, width) in enumerate(zip(values, styles, widths, strict=False)):
            self.write(row, column, value, style)
            text = one_line(value) if isinstance(value, str) else ""
            lines = max(lines, len(textwrap.wrap(text, width - 2)))
        self.worksheet.set_row(row, LINE_HEIGHT * lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetTable:
    """A table of data, and the name of its sheet; ``headings`` are those that differ from the usual."""

    sheet: str | None
    data: DataTable
    headings: Mapping[str, str]

    def cell(self, index: int, field: str) -> str:
        """Return the reference of the cell of a row of the data, for formulas of the same sheet."""
        return str(xl_rowcol_to_cell(FIRST_ROW + index, self.data.column(field), row_abs=True, col_abs=True))

    def reference(self, index: int, field: str, divisor: int = 1) -> str:
        """Return the cell's reference for formulas of other sheets, divided by ``divisor``."""
        return f"{quote_sheetname(self.sheet)}!{self.cell(index, field)}" + f"/{divisor}" * (divisor != 1)

    def number(self, index: int, field: str, divisor: int = 1) -> float | None:
        """Return the number in the cell, divided by ``divisor``; None without a number or without such a column."""
        value = self.data.rows[index][self.data.column(field)] if field in self.data.fields else None
        if not isinstance(value, int | float) or not math.isfinite(value):
            return None
        return value if divisor == 1 else value / divisor

    def write(self, workbook: Workbook) -> Sheet:
        """Write the sheet with two frozen rows: headings, and the names of the columns.

        A wide table is printed on several pages beside one another, with the columns up to the point on each.
        """
        data, sheet = self.data, Sheet(workbook, self.sheet)
        headings = [self.headings.get(name, heading(name)) for name in data.fields]
        columns = [_write_column(sheet, data, *names) for names in zip(data.fields, headings, strict=True)]
        widths, sides = [width for width, _ in columns], [side for _, side in columns]
        sheet.write_row(0, headings, [f"{side}head" for side in sides], widths)
        sheet.write_row(1, data.fields, [f"{side}name" for side in sides], widths)
        sheet.worksheet.freeze_panes(FIRST_ROW, 0)
        sheet.worksheet.repeat_rows(0, 1)
        if "point" in data.fields:
            sheet.worksheet.repeat_columns(0, data.column("point"))
        printed = _PRINTED_WIDTH * (2 if len(data.rows) <= _FEW_ROWS else 1)
        sheet.worksheet.fit_to_pages(max(1, round(sum(widths) / printed)), 0)
        sheet.worksheet.autofilter(1, 0, len(data.rows) + 1, len(data.fields) - 1)
        return sheet

    def write_formula(self, sheet: Sheet, index: int, field: str, formula: str, style: str) -> None:
        """Replace a number of the table on its sheet by a formula."""
        sheet.write_formula(FIRST_ROW + index, self.data.column(field), formula, self.number(index, field), style)


def _write_column(sheet: Sheet, data: DataTable, field: str, heading: str) -> tuple[int, str]:
    """Write the values of a column; return its width, and ``right `` if its head is aligned right, or nothing.

    The width is enough for each word of the bold ``heading`` and for the small name, so that none is broken.
    """
    column = data.column(field)
    values = [row[column] for row in data.rows]
    texts = any(isinstance(value, str) for value in values)
    digits = 3 if unit(field) == "%" else 4
    longest = max((len(_shown(value, digits)) for value in values), default=0)
    width = min(60, max(9, math.ceil(_NAME_WIDTH * len(field)) + 2, longest + 3, max(map(len, heading.split())) + 4))
    sheet.worksheet.set_column(column, column, width)
    for row, value in enumerate(values, FIRST_ROW):
        sheet.write(row, column, value, "" if isinstance(value, str) else "number", digits=digits)
    return width, "" if texts or any(isinstance(value, bool) for value in values) else "right "


def _shown(value: Value, digits: int) -> str:
    """Return a text that is as long as the value in a cell with a number format."""
    if isinstance(value, str):
        return one_line(value)
    return f"{value:,.{_decimals(value, digits)}f}" if value is not None and math.isfinite(value) else ""


def _decimals(value: float, digits: int) -> int:
    """Return the decimals of a number with about ``digits`` digits; one with fewer decimals has only these."""
    most = decimals(value, digits=digits)
    return next((places for places in range(most) if round(value, places) == value), most)
