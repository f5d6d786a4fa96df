"""3D columns, drawn by parallel projection: the position of every label is known, so that nothing overlaps.

The view is from the right and above; of the two ends of the depth axis, the one with the lower columns is in front.
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
from .style import GRID, INK, QUIET, series_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DEPTH_RISE = 2.3
_DEPTH_SHIFT = 2.9
_HEIGHT = 3.4
_WIDTH = 8.0
_FILL = 0.62


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """The projection: ``columns`` to the right, ``rows`` along the depth axis, values up to ``top``."""

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
    """Draw a matrix as columns on a linear scale from zero: ``across`` to the right, ``deep`` along the depth axis.

    The columns of ``marked`` places get the host-limited mark.  Scale and view also fit all matrices of ``alike``.
    """
    styles = series_styles(list(deep.keys))
    deep = low_in_front((values, *alike), deep)
    top = highest((values, *alike))
    figure, axes, projection = stage(top, across, deep, heading=heading, height=height)
    for row in reversed(range(projection.rows)):
        for column, key in enumerate(across.keys):
            value = values.get((key, deep.keys[row]), math.nan)
            if math.isfinite(value):
                _column(axes, projection, column, row, value, styles[deep.keys[row]].colour)
                if (key, deep.keys[row]) in marked:
                    mark(axes, projection, (column + 0.5, row + 0.5, value), _order(projection, column, row))
    return figure


def highest(grids: Collection[Grid]) -> float:
    """Return the maximum of all matrices; 1 if no value is above zero."""
    return max(ax.finite(value for values in grids for value in values.values()), default=0.0) or 1.0


def stage(
    top: float, across: Side, deep: Side, *, heading: str, height: float = FIGURE_HEIGHT
) -> tuple[Figure, Axes, Projection]:
    """Return a figure with walls, scale and labels for values up to ``top``, its axes and its projection."""
    figure = canvas(height=height)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    ticks = ax.linear_ticks(0.0, top)
    projection = Projection(columns=len(across.keys), rows=len(deep.keys), top=ticks[-1])
    axes.set_xlim(-1.4, _WIDTH + _DEPTH_SHIFT + 2.0)
    axes.set_ylim(-0.85, _DEPTH_RISE + _HEIGHT + 0.3)
    _walls(axes, projection, ticks, heading)
    _labels(axes, projection, across, deep)
    return figure, axes, projection


def mark(axes: Axes, projection: Projection, at: tuple[float, float, float], order: float) -> None:
    """Draw the host-limited mark at a place of the projection, on a white plate to keep it readable."""
    x, y = projection.place(*at)
    plate = {"boxstyle": "circle,pad=0.12", "facecolor": "white", "edgecolor": INK, "linewidth": 0.4}
    axes.text(x, y, MARK, ha="center", va="center", fontsize=5.5, color=INK, zorder=order + 0.01, bbox=plate)


def low_in_front(grids: Collection[Grid], deep: Side) -> Side:
    """Return ``deep``, reversed if the columns of its first key are higher in total than those of its last."""
    front, back = (
        sum(ax.finite(value for values in grids for (_, key), value in values.items() if key == deep.keys[end]))
        for end in (0, -1)
    )
    return deep if front <= back else replace(deep, keys=deep.keys[::-1], labels=deep.labels[::-1])


def _walls(axes: Axes, projection: Projection, ticks: Sequence[float], heading: str) -> None:
    far, wide = projection.rows, projection.columns
    floor = projection.strip((0, 0, 0), (wide, 0, 0), (wide, far, 0), (0, far, 0))
    axes.fill(*zip(*floor, strict=True), color="#f4f4f4", linewidth=0, zorder=0)
    for tick, label in zip(ticks, ax.tick_labels(ticks), strict=True):
        line = projection.strip((0, 0, tick), (0, far, tick), (wide, far, tick))
        axes.plot(*zip(*line, strict=True), color=GRID, linewidth=0.7, zorder=0.5)
        x, y = projection.place(0, 0, tick)
        axes.text(x - 0.12, y, label, ha="right", va="center", fontsize=7.5)
    for corner in ((0, 0), (0, far), (wide, far)):
        line = projection.strip((*corner, 0), (*corner, projection.top))
        axes.plot(*zip(*line, strict=True), color=QUIET, linewidth=0.7, zorder=0.5)
    axes.text(-1.2, _HEIGHT / 2, heading, rotation=90, ha="center", va="center", fontsize=8.5)


def _labels(axes: Axes, projection: Projection, across: Side, deep: Side) -> None:
    fronts = [projection.place(column + 0.5, 0) for column in range(projection.columns)]
    keep = ax.spread([x for x, _ in fronts], 0.62)
    for (x, y), label, kept in zip(fronts, across.labels, keep, strict=True):
        if kept:
            axes.text(x, y - 0.1, label, ha="center", va="top", fontsize=7.5)
    axes.text(_WIDTH / 2, -0.72, across.title, ha="center", va="bottom", fontsize=8.5)
    sides = [projection.place(projection.columns, row + 0.5) for row in range(projection.rows)]
    keep = ax.spread([y for _, y in sides], 0.26)
    for (x, y), label, kept in zip(sides, deep.labels, keep, strict=True):
        if kept:
            axes.text(x + 0.12, y, label, ha="left", va="center", fontsize=7.5)
    x, y = projection.place(projection.columns, projection.rows)
    axes.text(x + 0.12, y + 0.14, deep.title, ha="left", va="bottom", fontsize=8.5)


def _column(axes: Axes, projection: Projection, column: int, row: int, value: float, colour: str) -> None:
    """Draw the three visible faces of a column; columns are painted from back to front."""
    left, right = column + (1 - _FILL) / 2, column + (1 + _FILL) / 2
    front, back = row + (1 - _FILL) / 2, row + (1 + _FILL) / 2
    faces = (
        (((right, front, 0), (right, back, 0), (right, back, value), (right, front, value)), 0.62),
        (((left, front, value), (right, front, value), (right, back, value), (left, back, value)), 1.25),
        (((left, front, 0), (right, front, 0), (right, front, value), (left, front, value)), 1.0),
    )
    order = _order(projection, column, row)
    for corners, light in faces:
        axes.fill(
            *zip(*projection.strip(*corners), strict=True),
            facecolor=_lit(colour, light),
            edgecolor="white",
            linewidth=0.25,
            zorder=order,
            joinstyle="round",
        )


def _order(projection: Projection, column: int, row: int) -> float:
    """Return a column's z-order: above the columns behind it and to its left."""
    return 1 + projection.rows - row + column / (projection.columns + 1)


def _lit(colour: str, light: float) -> tuple[float, float, float]:
    """Return ``colour`` darker (below 1) or lighter (above 1)."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    if light <= 1:
        return red * light, green * light, blue * light
    return tuple(1 - (1 - part) * (2 - light) for part in (red, green, blue))  # type: ignore[return-value]
