"""Tables of a report as values: headings with units, cells as text, numbers aligned on their decimals."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from ..units import NARROW_NBSP

Align = Literal["left", "center", "right"]

#: What a table is for; the style sheets in ``reports/`` know these names.
Kind = Literal["facts", "texts", "numbers", "banner", "test", "standard", "names", "blocks"]

NOT_APPLICABLE = "n/a"
UNKNOWN = "\N{EN DASH}"
_PLACE = re.compile(r"[a-z0-9-]+(/[a-z0-9-]+)*\.[a-z]+")


class Link(str):
    """A cell that names a PDF by its place, seen from the report, and leads there.

    Raises ValueError for what is no plain relative path: nobody but the suite itself can make a link.
    """

    __slots__ = ()

    def __new__(cls, place: str) -> Link:
        if not _PLACE.fullmatch(place):
            raise ValueError(f"no plain relative path: {place!r}")
        return super().__new__(cls, place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its heading (with the unit), which way its cells lean, its share of the table's width."""

    heading: str = ""
    align: Align = "left"
    width: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of text cells; ``headed`` says whether the columns' headings are shown."""

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
        """The table's style and the lean of its columns, as RST class names: ``numbers align-lrr``."""
        return f"{self.kind} align-{''.join(column.align[0] for column in self.columns)}"


def facts(rows: Iterable[tuple[str, str]], *, title: str = "", label_width: int = 28) -> Table:
    """Return a table of names and values without headings."""
    columns = (Column(width=label_width), Column(width=100 - label_width))
    filled = tuple((name, value.strip() or UNKNOWN) for name, value in rows)
    return Table(kind="facts", columns=columns, rows=filled, title=title, headed=False)


def thousands(value: float, decimals: int) -> str:
    """Return ``value`` with ``decimals`` places and its thousands separated; ``n/a`` for what is no number."""
    if not math.isfinite(value):
        return NOT_APPLICABLE
    return f"{value:,.{decimals}f}".replace(",", NARROW_NBSP)


def extremes(values: Iterable[float]) -> tuple[float, float, float]:
    """Return the least, the median and the greatest of the finite ``values``; nan of none."""
    finite = [value for value in values if math.isfinite(value)] or [math.nan]
    return min(finite), statistics.median(finite), max(finite)


def decimals_for(values: Iterable[float], *, digits: int = 3, most: int = 4) -> int:
    """Return how many decimals show the smallest of ``values`` with ``digits`` digits, ``most`` at most."""
    sizes = [abs(value) for value in values if math.isfinite(value) and value]
    if not sizes:
        return 0
    return min(most, max(0, digits - 1 - math.floor(math.log10(min(sizes)))))


def aligned(values: Sequence[float | None], *, digits: int = 3, most: int = 4) -> tuple[str, ...]:
    """Return ``values`` with the same number of decimals each, so that right-aligned they stand on their decimals.

    None and what is no number is ``n/a``.
    """
    numbers = [math.nan if value is None else value for value in values]
    decimals = decimals_for(numbers, digits=digits, most=most)
    return tuple(thousands(value, decimals) for value in numbers)
