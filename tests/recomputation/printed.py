"""The tables that a report prints, read from report.rst, and the comparison of their cells with recomputed figures."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_MARKS = re.compile("([\N{DAGGER}\N{DOUBLE DAGGER}]+) ")
_THIN_SPACES = re.compile("[\N{NARROW NO-BREAK SPACE}\N{NO-BREAK SPACE}]")
_NUMBER = r"[-+]?[0-9]+(?:\.[0-9]+)?"
_DURATION = r"[0-9]+ d [0-9]+ h|[0-9]+ h [0-9]+ min|[0-9]+ min [0-9]+ s|[0-9.e-]+ m?s"
_SECONDS = {"d": 86400.0, "h": 3600.0, "min": 60.0, "s": 1.0, "ms": 0.001}
_FIELDS = {"{}": rf"({_NUMBER}|n/a)", "{time}": f"({_DURATION})", "{any}": ".*"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedTable:
    """A table with the title of its page; ``heading`` is empty for a table of facts, whose cells have a label each.

    ``marks`` are those of host-limited and of unsteady points, by row and column of the cell.
    """

    page: str
    title: str
    heading: list[str]
    body: list[list[str]]
    marks: dict[tuple[int, int], str]

    @property
    def name(self) -> str:
        return self.title or self.page


@dataclass(frozen=True, slots=True)
class Text:
    """A cell with figures between words: each ``{}`` is a number, each ``{time}`` a duration in seconds."""

    template: str
    figures: tuple[float, ...]


def text(template: str, *figures: float) -> Text:
    return Text(template, figures)


#: What a cell must show: a number, a text, figures between words, any other check, or None for no measured figure.
Expected = float | str | Text | Callable[[str], None] | None


def plain(cell: str) -> str:
    """Return a cell without markup, thousands separators and marks."""
    unescaped = re.sub(r"\\(.)", r"\1", _THIN_SPACES.sub("", cell))
    mark = _MARKS.match(unescaped)
    return unescaped[mark.end() if mark else 0 :].strip()


def printed_tables(folder: Path, name: str = "report.rst") -> Iterator[PrintedTable]:
    """Yield every table of the report's pages, without those of the header."""
    page, lines = "", (folder / name).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if re.fullmatch("={4,}", line):
            page = plain(lines[number - 1])
        if line.startswith(".. csv-table::"):
            options, cells = _block(lines[number + 1 :])
            raw = list(csv.reader(cells, skipinitialspace=True))
            heading = [plain(cell) for cell in raw.pop(0)] if ":header-rows: 1" in options else []
            yield PrintedTable(
                page=page,
                title=plain(line.partition("::")[2]),
                heading=heading,
                body=[[plain(cell) for cell in row] for row in raw],
                marks={
                    (down, across): mark[1]
                    for down, row in enumerate(raw)
                    for across, cell in enumerate(row)
                    if (mark := _MARKS.match(cell))
                },
            )


def _block(lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the options and the rows of the directive whose lines begin here."""
    options: list[str] = []
    cells: list[str] = []
    for line in lines:
        if line and not line.startswith("   "):
            break
        if line.strip():
            (options if line.strip().startswith(":") else cells).append(line.strip())
    return options, cells


def labelled(table: PrintedTable, expected: dict[str, Expected]) -> list[list[Expected]]:
    """Return the cells of a table of facts; it has every label with figures, and none that is not expected."""
    shown = [label for label, _ in table.body]
    missing = [label for label, figures in expected.items() if figures is not None and label not in shown]
    assert not missing, f"table {table.name!r} has no {missing}"
    return [[label, expected[label]] for label in shown]


# -- comparison -------------------------------------------------------------------------------------------------------


def check(cell: str, expected: Expected) -> None:
    """Compare a printed cell with what was recomputed; numbers within half of their last printed digit."""
    match expected:
        case None:
            return
        case str():
            assert cell == expected
        case Text():
            check_text(cell, expected)
        case float() | int():
            check_number(cell, expected)
        case _:
            expected(cell)


def check_number(cell: str, value: float) -> None:
    if math.isnan(value):
        assert cell in ("n/a", "")
        return
    assert re.fullmatch(_NUMBER, cell), f"{cell!r} is not a number; expected {value}"
    last_digit = 10.0 ** -len(cell.partition(".")[2])
    assert abs(float(cell) - value) <= last_digit / 2 * (1 + 1e-9), f"printed {cell}, recomputed {value}"


def check_text(cell: str, expected: Text) -> None:
    parts = re.split(r"(\{\w*\})", expected.template)
    match = re.fullmatch("".join(_FIELDS.get(part) or re.escape(part) for part in parts), cell)
    assert match, f"printed {cell!r}, expected {expected.template!r} with {expected.figures}"
    kinds = [part for part in parts if part in ("{}", "{time}")]
    for kind, shown, value in zip(kinds, match.groups(), expected.figures, strict=True):
        (check_number if kind == "{}" else check_duration)(shown, value)


def check_duration(cell: str, seconds: float) -> None:
    """A duration shows its two largest units, or seconds with three digits."""
    pairs = re.findall(r"([0-9.e-]+) (d|h|min|ms|s)", cell)
    shown = sum(float(amount) * _SECONDS[unit] for amount, unit in pairs)
    smallest = _SECONDS[pairs[-1][1]]
    if len(pairs) == 1:
        smallest = 10.0 ** (math.floor(math.log10(shown)) - 2) if shown else 0.001
    assert abs(shown - seconds) <= smallest / 2 * (1 + 1e-9), f"printed {cell}, recomputed {seconds} s"


def in_decimal_unit(amount_bytes: float) -> tuple[float, str]:
    """Return an amount of data in its largest decimal unit of which it has at least one, and the unit."""
    power = int(math.log10(amount_bytes) // 3) if amount_bytes >= 1 else 0
    return amount_bytes / 1000**power, ("B", "kB", "MB", "GB", "TB", "PB")[power]
