"""A 3D surface over a matrix, in the projection of ``columns``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection
from typing import TYPE_CHECKING

from ..pages import FIGURE_HEIGHT
from .columns_3d import best_view, highest, mark, stage
from .figure import Grid, Side
from .style import BAND, INK, QUIET

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Readable for colour-blind readers and in grey print: lightness increases with the value.
_COLOURS = "cividis"


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
    marked: Collection[tuple[int, int]] = (),
    alike: Collection[Grid] = (),
) -> Figure:
    """Draw a matrix as a surface on a linear scale from zero: ``across`` to the right, ``deep`` along the depth axis.

    Every four neighbours span a patch in the colour of their mean; walls close the front and right edges.  Corners at
    ``marked`` places get the host-limited mark.  Scale, colours and view also fit all matrices of ``alike``.
    """
    from matplotlib import colormaps

    across, deep = best_view((values, *alike), across, deep)
    figure, axes, projection = stage(highest((values, *alike)), across, deep, heading=heading, height=height)
    colours = colormaps[_COLOURS]
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
    for row, column in itertools.product(reversed(range(projection.rows - 1)), range(projection.columns - 1)):
        places = ((column, row), (column + 1, row), (column + 1, row + 1), (column, row + 1))
        heights = [values[across.keys[at], deep.keys[depth]] for at, depth in places]
        corners = [(at + 0.5, depth + 0.5, value) for (at, depth), value in zip(places, heights, strict=True)]
        axes.fill(
            *zip(*projection.strip(*corners), strict=True),
            facecolor=colours(sum(heights) / len(heights) / projection.top),
            edgecolor=INK,
            linewidth=0.5,
            joinstyle="round",
            zorder=1 + projection.rows - row + column / projection.columns,
        )
    for row, column in itertools.product(range(projection.rows), range(projection.columns)):
        place = (across.keys[column], deep.keys[row])
        if place in marked:
            mark(axes, projection, (column + 0.5, row + 0.5, values[place]), 2 + projection.rows)
    return figure
