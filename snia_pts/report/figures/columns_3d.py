"""3D columns, drawn by parallel projection: the position of every label is known, so that nothing overlaps.

The view is from the right and above; both axes are in the direction that hides the fewest columns.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..pages import FIGURE_HEIGHT
from ..tables import significant
from . import axes as ax
from .figure import Grid, Side, canvas
from .matrices import NO_MARKS, Marks, marked
from .style import GRID, INK, QUIET, series_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DEPTH_RISE = 2.3
_DEPTH_SHIFT = 2.9
_HEIGHT = 3.4
_WIDTH = 8.0
_FILL = 0.62
#: The size of labels with values: the width of a letter, and the height; and their z-order.
_LETTER_WIDTH, _LABEL_HEIGHT, _ABOVE_ALL = 0.12, 0.3, 1000


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
    marks: Marks = NO_MARKS,
    alike: Collection[Grid] = (),
    view: Collection[Grid] = (),
) -> Figure:
    """Draw a matrix as columns on a linear scale from zero: ``across`` to the right, ``deep`` along the depth axis.

    If there is room, each column has its value on top, after its mark; else the mark alone.
    Scale and view also fit all matrices of ``alike``; the view is that of the matrices ``view``, if there are any.
    """
    styles = series_styles(list(deep.keys))
    across, deep = best_view(view or (values, *alike), across, deep)
    top = highest((values, *alike))
    figure, axes, projection = stage(top, across, deep, heading=heading, height=height)
    places = {
        (column, row): value
        for row, depth in enumerate(deep.keys)
        for column, key in enumerate(across.keys)
        if math.isfinite(value := values.get((key, depth), math.nan))
    }
    tops = {at: _visible_top(projection, places, at) for at in places}
    shown = [marks.get((across.keys[column], deep.keys[row]), "") for column, row in places]
    texts = list(map(marked, shown, significant(places.values())))
    width = _LETTER_WIDTH * max(map(len, texts), default=0)
    readable = all(
        abs(x - other_x) > width or abs(y - other_y) > _LABEL_HEIGHT
        for (x, y), (other_x, other_y) in itertools.combinations(tops.values(), 2)
    )
    for row in reversed(range(projection.rows)):
        heights = {column: places[column, row] for column in range(projection.columns) if (column, row) in places}
        _row(axes, projection, row, heights, styles[deep.keys[row]].colour)
    for (column, row), text, mark in zip(places, texts, shown, strict=True):
        if readable:
            _label(axes, tops[column, row], text, styles[deep.keys[row]].colour)
        elif mark:
            draw_mark(axes, projection, mark, (column + 0.5, row + 0.5, places[column, row]), _order(projection, row))
    return figure


def _visible_top(
    projection: Projection, places: Mapping[tuple[int, int], float], at: tuple[int, int]
) -> tuple[float, float]:
    """Return the middle of the widest part of a column's top that no column in front covers; of all if none is free."""
    (column, row), low, high = at, (1 - _FILL) / 2, (1 + _FILL) / 2
    start, y = projection.place(column + low, row + 0.5, places[at])
    end, _ = projection.place(column + high, row + 0.5)
    covers = sorted(_cover(projection, front, height) for front, height in places.items() if front[1] < row)
    free, latest = [(0.0, (start + end) / 2)], start
    for left, right, upper in (*covers, (end, end, math.inf)):
        if y <= upper:
            free.append((min(left, end) - latest, (min(left, end) + latest) / 2))
            latest = max(latest, right)
    return max(free)[1], y


def _label(axes: Axes, at: tuple[float, float], text: str, colour: str) -> None:
    """Write a column's value, on a plate with its colour, above all columns: also behind others it can be read."""
    plate = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": colour, "alpha": 0.9}
    axes.text(*at, text, ha="center", va="center", fontsize=7, color=INK, zorder=_ABOVE_ALL, bbox=plate)


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
    axes.set_xlim(-1.7, _WIDTH + _DEPTH_SHIFT + 2.0)
    axes.set_ylim(-0.85, _DEPTH_RISE + _HEIGHT + 0.3)
    _walls(axes, projection, ticks, heading)
    _labels(axes, projection, across, deep)
    return figure, axes, projection


def draw_mark(axes: Axes, projection: Projection, mark: str, at: tuple[float, float, float], order: float) -> None:
    """Draw a mark at a place of the projection, on a white plate to keep it readable."""
    x, y = projection.place(*at)
    plate = {"boxstyle": "circle,pad=0.12", "facecolor": "white", "edgecolor": INK, "linewidth": 0.4}
    axes.text(x, y, mark, ha="center", va="center", fontsize=5.5, color=INK, zorder=order + 0.01, bbox=plate)


def best_view(grids: Collection[Grid], across: Side, deep: Side) -> tuple[Side, Side]:
    """Return both sides, each reversed if that hides fewer of the columns of all matrices.

    Of equal views, the order of ``across`` is kept, and the end of ``deep`` with the lower columns is in front.
    """
    front, back = (
        sum(ax.finite(value for values in grids for (_, key), value in values.items() if key == deep.keys[end]))
        for end in (0, -1)
    )
    low_in_front, low_behind = (deep, _reversed(deep)) if front <= back else (_reversed(deep), deep)
    views = [(side, depth) for side in (across, _reversed(across)) for depth in (low_in_front, low_behind)]
    top = highest(grids)
    return min(views, key=lambda sides: sum(hidden(values, *sides, top=top) for values in grids))


def hidden(values: Grid, across: Side, deep: Side, *, top: float) -> int:
    """Return the number of columns whose top is behind a column in front of it; ``top`` is the end of the scale."""
    projection = Projection(columns=len(across.keys), rows=len(deep.keys), top=top)
    heights = {
        (column, row): value
        for column, key in enumerate(across.keys)
        for row, depth in enumerate(deep.keys)
        if math.isfinite(value := values.get((key, depth), math.nan))
    }
    return sum(
        any(_covers(projection, front, heights[front], (column, row, value)) for front in heights if front[1] < row)
        for (column, row), value in heights.items()
    )


def _covers(projection: Projection, front: tuple[int, int], height: float, behind: tuple[int, int, float]) -> bool:
    """Return whether a column in front covers the middle of another's top."""
    column, row, value = behind
    x, y = projection.place(column + 0.5, row + 0.5, value)
    left, right, upper = _cover(projection, front, height)
    return left <= x <= right and y <= upper


def _cover(projection: Projection, at: tuple[int, int], height: float) -> tuple[float, float, float]:
    """Return the left, right and upper end of what a column covers."""
    low, high = (1 - _FILL) / 2, (1 + _FILL) / 2
    left, _ = projection.place(at[0] + low, at[1] + low)
    return left, *projection.place(at[0] + high, at[1] + high, height)


def _reversed(side: Side) -> Side:
    return replace(side, keys=side.keys[::-1], labels=side.labels[::-1])


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
    axes.text(-1.5, _HEIGHT / 2, heading, rotation=90, ha="center", va="center", fontsize=8.5)


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


def _row(axes: Axes, projection: Projection, row: int, heights: Mapping[int, float], colour: str) -> None:
    """Draw the columns of a row, of these heights by column, from left to right."""
    from matplotlib.collections import PolyCollection

    faces = [face for column, height in heights.items() for face in _faces(projection, column, row, height)]
    drawn = PolyCollection(
        [corners for corners, _ in faces],
        facecolors=[_lit(colour, light) for _, light in faces],
        edgecolors="white",
        linewidths=0.25,
        joinstyle="round",
        zorder=_order(projection, row),
    )
    axes.add_collection(drawn, autolim=False)


def _faces(
    projection: Projection, column: int, row: int, value: float
) -> Iterator[tuple[list[tuple[float, float]], float]]:
    """Yield the corners of the three visible faces of a column, and their light."""
    left, right = column + (1 - _FILL) / 2, column + (1 + _FILL) / 2
    front, back = row + (1 - _FILL) / 2, row + (1 + _FILL) / 2
    yield projection.strip((right, front, 0), (right, back, 0), (right, back, value), (right, front, value)), 0.62
    yield projection.strip((left, front, value), (right, front, value), (right, back, value), (left, back, value)), 1.25
    yield projection.strip((left, front, 0), (right, front, 0), (right, front, value), (left, front, value)), 1.0


def _order(projection: Projection, row: int) -> float:
    """Return a row's z-order: above the rows behind it."""
    return 1.0 + projection.rows - row


def _lit(colour: str, light: float) -> tuple[float, float, float]:
    """Return ``colour`` darker (below 1) or lighter (above 1)."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    if light <= 1:
        return red * light, green * light, blue * light
    return tuple(1 - (1 - part) * (2 - light) for part in (red, green, blue))  # type: ignore[return-value]
