"""The positions of figures and titles in a PDF: recorded while it is laid out, checked afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

#: The header of a page that begins with a title, as planned for it, or of one that continues a section.
HeaderKind = Literal["full", "short", "continued"]

#: Points per inch.
POINTS = 72.0


def title_anchor(number: int) -> str:
    """Return the name of the destination of the title with this number, from 1."""
    return f"title-{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The position of a figure: page (from 1), lower left corner and size in points."""

    page: int
    x: float
    y: float
    width: float
    height: float


@dataclass(slots=True)
class Sheet:
    """The positions recorded by a build, in points.

    ``frame`` is that of the last figure's page, ``tops`` are the upper ends of all frames by page.
    ``number_at`` and ``number_width`` are the position and width of the page number in the header.
    ``next_header`` is the kind of header of the next page.
    """

    figures: list[tuple[str, Placement]] = field(default_factory=list)
    titles: list[tuple[str, int]] = field(default_factory=list)
    tops: dict[int, float] = field(default_factory=dict)
    frame: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    number_at: tuple[float, float] = (0.0, 0.0)
    number_width: float = 0.0
    next_header: HeaderKind = "full"
