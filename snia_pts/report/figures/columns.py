"""Columns in three dimensions, drawn by parallel projection: every label's place is known, nothing overlaps.

The view is from the right and above; of the side that runs into the depth, the end with the lower columns is in front.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..pages import FIGURE_HEIGHT
from . import axes as ax
from .figure import Grid, Side, canvas
from .matrices import MARK
from .style import GRID, INK, QUIET, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DEPTH_RISE = 2.3
_DEPTH_SHIFT = 2.9
_HEIGHT = 3.4
_WIDTH = 8.0
_FILL = 0.62


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The projection: ``columns`` to the right, ``rows`` into the depth, values up to ``top``."""

    columns: int
    rows: int
    top: float

    def place(self, column: float, row: float, value: float = 0.0) -> tuple[float, float]:
        depth = row / self.rows
        x = _WIDTH * column / self.columns + _DEPTH_SHIFT * depth
        return x, _DEPTH_RISE * depth + _HEIGHT * value / self.top

    def strip(self, *corners: tuple[float, float, float]) -> list[tuple[float, float]]:
        return [self.place(*corner) for corner in corners]


def columns(
    values: Grid,
    across: Side,
    deep: Side,
    *,
    heading: str,
    height: float = FIGURE_HEIGHT,
    marked: Collection[tuple[int, int]] = (),
    alike: Collection[Grid] = (),
) -> Figure:
    """Draw a matrix as columns on a linear scale from zero: ``across`` to the right, ``deep`` into the depth.

    The columns of ``marked`` places bear the mark of what the host set.  Scale and view are those that fit all
    matrices of ``alike`` too.
    """
    shown = looks(list(deep.keys))
    deep = low_in_front((values, *alike), deep)
    top = highest((values, *alike))
    figure, axes, room = stage(top, across, deep, heading=heading, height=height)
    for row in reversed(range(room.rows)):
        for column, key in enumerate(across.keys):
            value = values.get((key, deep.keys[row]), math.nan)
            if math.isfinite(value):
                _column(axes, room, column, row, value, shown[deep.keys[row]].colour)
                if (key, deep.keys[row]) in marked:
                    mark(axes, room, (column + 0.5, row + 0.5, value), _order(room, column, row))
    return figure


def highest(grids: Collection[Grid]) -> float:
    """Return the greatest value of all matrices; 1 where there is none above zero."""
    return max(ax.finite(value for values in grids for value in values.values()), default=0.0) or 1.0


def stage(
    top: float, across: Side, deep: Side, *, heading: str, height: float = FIGURE_HEIGHT
) -> tuple[Figure, Axes, Room]:
    """Return a figure with the walls, scale and labels that values up to ``top`` stand between, and its projection."""
    figure = canvas(height=height)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    ticks = ax.linear_ticks(0.0, top)
    room = Room(columns=len(across.keys), rows=len(deep.keys), top=ticks[-1])
    axes.set_xlim(-1.4, _WIDTH + _DEPTH_SHIFT + 2.0)
    axes.set_ylim(-0.85, _DEPTH_RISE + _HEIGHT + 0.3)
    _walls(axes, room, ticks, heading)
    _labels(axes, room, across, deep)
    return figure, axes, room


def mark(axes: Axes, room: Room, at: tuple[float, float, float], order: float) -> None:
    """Draw the mark of what the host set at a place of the projection, on a plate that keeps it readable."""
    x, y = room.place(*at)
    plate = {"boxstyle": "circle,pad=0.12", "facecolor": "white", "edgecolor": INK, "linewidth": 0.4}
    axes.text(x, y, MARK, ha="center", va="center", fontsize=5.5, color=INK, zorder=order + 0.01, bbox=plate)


def low_in_front(grids: Collection[Grid], deep: Side) -> Side:
    """Return ``deep`` so that its first key's columns are no higher, together, than its last one's."""
    front, back = (
        sum(ax.finite(value for values in grids for (_, key), value in values.items() if key == deep.keys[end]))
        for end in (0, -1)
    )
    return deep if front <= back else replace(deep, keys=deep.keys[::-1], labels=deep.labels[::-1])


def _walls(axes: Axes, room: Room, ticks: Sequence[float], heading: str) -> None:
    far, wide = room.rows, room.columns
    floor = room.strip((0, 0, 0), (wide, 0, 0), (wide, far, 0), (0, far, 0))
    axes.fill(*zip(*floor, strict=True), color="#f4f4f4", linewidth=0, zorder=0)
    for tick, label in zip(ticks, ax.tick_labels(ticks), strict=True):
        line = room.strip((0, 0, tick), (0, far, tick), (wide, far, tick))
        axes.plot(*zip(*line, strict=True), color=GRID, linewidth=0.7, zorder=0.5)
        x, y = room.place(0, 0, tick)
        axes.text(x - 0.12, y, label, ha="right", va="center", fontsize=7.5)
    for corner in ((0, 0), (0, far), (wide, far)):
        line = room.strip((*corner, 0), (*corner, room.top))
        axes.plot(*zip(*line, strict=True), color=QUIET, linewidth=0.7, zorder=0.5)
    axes.text(-1.2, _HEIGHT / 2, heading, rotation=90, ha="center", va="center", fontsize=8.5)


def _labels(axes: Axes, room: Room, across: Side, deep: Side) -> None:
    fronts = [room.place(column + 0.5, 0) for column in range(room.columns)]
    keep = ax.spread([x for x, _ in fronts], 0.62)
    for (x, y), label, kept in zip(fronts, across.labels, keep, strict=True):
        if kept:
            axes.text(x, y - 0.1, label, ha="center", va="top", fontsize=7.5)
    axes.text(_WIDTH / 2, -0.72, across.title, ha="center", va="bottom", fontsize=8.5)
    sides = [room.place(room.columns, row + 0.5) for row in range(room.rows)]
    keep = ax.spread([y for _, y in sides], 0.26)
    for (x, y), label, kept in zip(sides, deep.labels, keep, strict=True):
        if kept:
            axes.text(x + 0.12, y, label, ha="left", va="center", fontsize=7.5)
    x, y = room.place(room.columns, room.rows)
    axes.text(x + 0.12, y + 0.14, deep.title, ha="left", va="bottom", fontsize=8.5)


def _column(axes: Axes, room: Room, column: int, row: int, value: float, colour: str) -> None:
    """Draw one column's three visible faces; the painter goes from the back to the front."""
    left, right = column + (1 - _FILL) / 2, column + (1 + _FILL) / 2
    front, back = row + (1 - _FILL) / 2, row + (1 + _FILL) / 2
    faces = (
        (((right, front, 0), (right, back, 0), (right, back, value), (right, front, value)), 0.62),
        (((left, front, value), (right, front, value), (right, back, value), (left, back, value)), 1.25),
        (((left, front, 0), (right, front, 0), (right, front, value), (left, front, value)), 1.0),
    )
    order = _order(room, column, row)
    for corners, light in faces:
        axes.fill(
            *zip(*room.strip(*corners), strict=True),
            facecolor=_lit(colour, light),
            edgecolor="white",
            linewidth=0.25,
            zorder=order,
            joinstyle="round",
        )


def _order(room: Room, column: int, row: int) -> float:
    """Return when a column is painted: after those behind it and to its left."""
    return 1 + room.rows - row + column / (room.columns + 1)


def _lit(colour: str, light: float) -> tuple[float, float, float]:
    """Return ``colour`` darker (below 1) or lighter (above 1)."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    if light <= 1:
        return red * light, green * light, blue * light
    return tuple(1 - (1 - part) * (2 - light) for part in (red, green, blue))  # type: ignore[return-value]
