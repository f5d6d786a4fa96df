"""Figures that overlay several series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...units import SHORT_SECONDS
from ..pages import FIGURE_HEIGHT
from . import axes as ax
from .figure import LEGEND_WIDTH, Styles, canvas, legend_beside, plot
from .style import series_styles

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def over_time(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    heading: str,
    legend: str,
    longest: float,
    styles: Styles | None = None,
    height: float = FIGURE_HEIGHT,
) -> Figure:
    """Plot values over seconds, one line for each of ``series`` by label; both scales start at zero.

    ``longest`` is the greatest time of all such figures of the report, in seconds, so that all have the same unit.
    """
    figure = canvas(height=height)
    axes = plot(figure, left=0.85, right=LEGEND_WIDTH, bottom=0.55, top=0.2)
    ax.dress(axes)
    end = max(max(seconds) for seconds, _ in series.values())
    unit, size = ("seconds", 1.0) if longest <= SHORT_SECONDS else ("minutes", 60.0)
    styles = styles or series_styles(list(series))
    for label, (seconds, values) in series.items():
        axes.plot([second / size for second in seconds], values, label=label, **{**styles[label].line(), "marker": ""})
    ax.set_linear_x(axes, (0.0, end / size))
    axes.set_xlabel(f"Time since the start of the stimulus ({unit})")
    ax.set_y(axes, [value for _, values in series.values() for value in values], heading, log=False)
    legend_beside(axes, legend)
    return figure
