"""What was drawn where on paper: written while a PDF is laid out, read when it is checked."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Points an inch.
POINTS = 72.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where something was drawn: page (from 1), lower left corner and size in points."""

    page: int
    x: float
    y: float
    width: float
    height: float


@dataclass(slots=True)
class Sheet:
    """What a build drew where, in points; ``number_at`` is where in its header a page's number begins."""

    figures: list[tuple[str, Placement]] = field(default_factory=list)
    titles: list[tuple[str, int]] = field(default_factory=list)
    frame: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    number_at: tuple[float, float] = (0.0, 0.0)
    number_width: float = 0.0
