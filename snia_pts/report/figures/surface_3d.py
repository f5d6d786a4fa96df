"""A 3D surface over a matrix, in the projection of ``columns``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection
from typing import TYPE_CHECKING

from ..pages import FIGURE_HEIGHT
from ..tables import decimals_for, thousands
from .columns_3d import best_view, draw_mark, highest, stage
from .figure import Grid, Side
from .matrices import NO_MARKS, Marks
from .style import BAND, INK, QUIET

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Readable for colour-blind readers and in grey print: lightness increases with the value.
_COLOURS = "cividis"
#: The edges of the colour bar in the units of the projection, and its number of colours.
_BAR, _BAR_STEPS = (9.9, 12.6, -0.42, -0.28), 64


def has_surface(values: Grid, across: Side, deep: Side) -> bool:
    """Return whether a surface can be drawn: at least two keys on each side, and a value at every place."""
    places = itertools.product(across.keys, deep.keys)
    return min(len(across.keys), len(deep.keys)) > 1 and all(
        math.isfinite(values.get(place, math.nan)) for place in places
    )


def surface(
    values: Grid,
    across: Side,
    deep: Side,
    *,
    heading: str,
    height: float = FIGURE_HEIGHT,
    marks: Marks = NO_MARKS,
    alike: Collection[Grid] = (),
    colours: Collection[Grid] = (),
) -> Figure:
    """Draw a matrix as a surface on a linear scale from zero: ``across`` to the right, ``deep`` along the depth axis.

    Every four neighbours span a patch in the colour of their mean; walls close the front and right edges.  Corners have
    their marks.  Scale and view also fit all matrices of ``alike``; the colours span
    this matrix and those of ``colours`` from zero, as the colour bar shows, so that a low surface has a shape too.
    """
    from matplotlib import colormaps
    from matplotlib.collections import PolyCollection

    across, deep = best_view((values, *alike), across, deep)
    figure, axes, projection = stage(highest((values, *alike)), across, deep, heading=heading, height=height)
    colour_of, brightest = colormaps[_COLOURS], highest((values, *colours))
    _colour_bar(axes, brightest, heading)
    front = [(at + 0.5, 0.5, values[key, deep.keys[0]]) for at, key in enumerate(across.keys)]
    right = [(projection.columns - 0.5, at + 0.5, values[across.keys[-1], key]) for at, key in enumerate(deep.keys)]
    for edge in (front, right):
        foot = [(at, depth, 0.0) for at, depth, _ in (edge[-1], edge[0])]
        axes.fill(
            *zip(*projection.strip(*edge, *foot), strict=True),
            facecolor=BAND,
            edgecolor=QUIET,
            linewidth=0.5,
            zorder=0.8,
        )
    patches, means = [], []
    for row, column in itertools.product(reversed(range(projection.rows - 1)), range(projection.columns - 1)):
        places = ((column, row), (column + 1, row), (column + 1, row + 1), (column, row + 1))
        heights = [values[across.keys[at], deep.keys[depth]] for at, depth in places]
        corners = [(at + 0.5, depth + 0.5, value) for (at, depth), value in zip(places, heights, strict=True)]
        patches.append(projection.strip(*corners))
        means.append(sum(heights) / len(heights) / brightest)
    drawn = PolyCollection(
        patches, facecolors=colour_of(means), edgecolors=INK, linewidths=0.5, joinstyle="round", zorder=1
    )
    axes.add_collection(drawn, autolim=False)
    for row, column in itertools.product(range(projection.rows), range(projection.columns)):
        place = (across.keys[column], deep.keys[row])
        if mark := marks.get(place):
            draw_mark(axes, projection, mark, (column + 0.5, row + 0.5, values[place]), 2 + projection.rows)
    return figure


def _colour_bar(axes: Axes, top: float, heading: str) -> None:
    """Draw the bar of the colours from zero to ``top`` in the free corner at the lower right."""
    left, right, lower, upper = _BAR
    edges = [left + (right - left) * step / _BAR_STEPS for step in range(_BAR_STEPS + 1)]
    limits = axes.axis()
    axes.pcolormesh(
        edges, (lower, upper), [range(_BAR_STEPS)], cmap=_COLOURS, edgecolors="face", linewidth=0.2, zorder=0.5
    )
    axes.axis(limits)
    digits = decimals_for([top], digits=3, most=3)
    for place, value, align in ((left, 0.0, "left"), (right, top, "right")):
        text = thousands(value, digits if value else 0)
        axes.text(place, lower - 0.06, text, ha=align, va="top", fontsize=7)
    axes.text(
        (left + right) / 2, upper + 0.06, f"Colours: {heading}", ha="center", va="bottom", fontsize=7, color=QUIET
    )
