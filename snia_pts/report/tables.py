"""Tables of a report as values: headings with units, cells as text, numbers aligned at the decimal point."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from ..units import NARROW_NBSP, number

Align = Literal["left", "center", "right"]

#: The kinds of tables; the style sheets in ``reports/`` use these names.
Kind = Literal["facts", "texts", "numbers", "matrix", "sign-off", "banner", "test", "standard", "names", "blocks"]

NOT_APPLICABLE = "n/a"
UNKNOWN = "\N{EN DASH}"
_PLACE = re.compile(r"[a-z0-9-]+(/[a-z0-9-]+)*\.[a-z]+")


class Link(str):
    """A cell with a link to a PDF, by its path relative to the report.

    Raises ValueError if it is not a simple relative path, so that no text from outside of the suite becomes a link.
    """

    __slots__ = ()

    def __new__(cls, place: str) -> Link:
        if not _PLACE.fullmatch(place):
            raise ValueError(f"not a simple relative path: {place!r}")
        return super().__new__(cls, place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its heading (with the unit), the alignment of its cells, its percentage of the table's width."""

    heading: str = ""
    align: Align = "left"
    width: int = 10


def number_columns(widths: Mapping[str, int]) -> tuple[Column, ...]:
    """Return columns of numbers with these headings and widths."""
    return tuple(Column(heading=heading, align="right", width=width) for heading, width in widths.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of text cells; ``headed``: it shows the columns' headings."""

    form: ClassVar[str] = "table"
    kind: Kind
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    headed: bool = True

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"table {self.title!r}: every row has {len(self.columns)} cells")

    @property
    def classes(self) -> str:
        """The table's kind and the alignment of its columns, as RST class names: ``numbers align-lrr``."""
        return f"{self.kind} align-{''.join(column.align[0] for column in self.columns)}"


def facts(rows: Iterable[tuple[str, str]], *, title: str = "", label_width: int = 28) -> Table:
    """Return a table of names and values without headings."""
    columns = (Column(width=label_width), Column(width=100 - label_width))
    filled = tuple((name, value.strip() or UNKNOWN) for name, value in rows)
    return Table(kind="facts", columns=columns, rows=filled, title=title, headed=False)


def thousands(value: float, decimals: int) -> str:
    """Return ``value`` with ``decimals`` places and thousands separators; ``n/a`` for nan and infinity."""
    if not math.isfinite(value):
        return NOT_APPLICABLE
    return f"{value:,.{decimals}f}".replace(",", NARROW_NBSP)


def time_span(begin: float, end: float, sample_seconds: float) -> str:
    """Return the time of a sample, in minutes if samples take whole minutes: ``5 - 10 s``, ``48 - 49 min``."""
    unit, length = ("s", 1.0) if sample_seconds % 60 else ("min", 60.0)
    decimals = len(f"{sample_seconds / length:g}".partition(".")[2])
    return f"{thousands(begin / length, decimals)} - {thousands(end / length, decimals)} {unit}"


def extremes(values: Iterable[float]) -> tuple[float, float, float]:
    """Return the minimum, the median and the maximum of the finite ``values``; nan if there are none."""
    finite = [value for value in values if math.isfinite(value)] or [math.nan]
    return min(finite), statistics.median(finite), max(finite)


def decimals_for(values: Iterable[float], *, digits: int = 3, most: int = 4) -> int:
    """Return the number of decimals, at most ``most``, that shows the smallest of ``values`` with ``digits`` digits."""
    sizes = [abs(value) for value in values if math.isfinite(value) and value]
    if not sizes:
        return 0
    return min(most, max(0, digits - 1 - math.floor(math.log10(min(sizes)))))


def aligned(values: Sequence[float | None], *, digits: int = 3, most: int = 4) -> tuple[str, ...]:
    """Return ``values`` with the same number of decimals, so that they align at the decimal point.

    None, nan and infinity are ``n/a``.
    """
    numbers = [math.nan if value is None else value for value in values]
    decimals = decimals_for(numbers, digits=digits, most=most)
    return tuple(thousands(value, decimals) for value in numbers)


def significant(values: Iterable[float | None]) -> tuple[str, ...]:
    """Return rates or response times with four significant digits each; None, nan and infinity are ``n/a``.

    They differ by orders of magnitude, so that equal decimals would show digits that were not measured.
    """
    return tuple(NOT_APPLICABLE if value is None else number(value) for value in values)
