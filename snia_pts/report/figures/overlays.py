"""Figures that overlay several series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from . import axes as ax
from .figure import LEGEND_WIDTH, Styles, canvas, legend_beside, plot
from .style import series_styles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: An axis is in minutes between these durations in seconds; shorter ones are in seconds, longer ones in hours.
_SHORT_SECONDS, _LONG_SECONDS = 600.0, 60_000.0


def over_time(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    heading: str,
    legend: str,
    styles: Styles | None = None,
) -> Figure:
    """Plot values over seconds, one line for each of ``series`` by label; both scales start at zero."""
    figure = canvas()
    axes = plot(figure, left=0.85, right=LEGEND_WIDTH, bottom=0.55, top=0.2)
    ax.dress(axes)
    longest = max(max(seconds) for seconds, _ in series.values())
    unit, size = ("s", 1.0) if longest < _SHORT_SECONDS else ("min", 60.0) if longest < _LONG_SECONDS else ("h", 3600.0)
    styles = styles or series_styles(list(series))
    for label, (seconds, values) in series.items():
        axes.plot([second / size for second in seconds], values, label=label, **{**styles[label].line(), "marker": ""})
    ax.set_linear_x(axes, (0.0, longest / size))
    axes.set_xlabel(f"Time ({unit})")
    ax.set_y(axes, [value for _, values in series.values() for value in values], heading, log=False)
    legend_beside(axes, legend)
    return figure
