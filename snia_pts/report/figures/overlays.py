"""Figures that overlay several series."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from . import axes as ax
from .figure import canvas, legend_beside, plot
from .style import series_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: An axis is in minutes between these durations in seconds; shorter ones are in seconds, longer ones in hours.
_SHORT_SECONDS, _LONG_SECONDS = 600.0, 60_000.0


def over_time(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    heading: str,
    legend: str,
    labelled: Callable[[Axes, str], None] | None = None,
) -> Figure:
    """Plot values over seconds, one line for each of ``series`` by label; both scales start at zero.

    ``labelled`` puts a legend of long names beside the axes.
    """
    figure = canvas()
    axes = plot(figure, left=0.85, right=1.75 if labelled else 1.1, bottom=0.55, top=0.2)
    ax.dress(axes)
    longest = max(max(seconds) for seconds, _ in series.values())
    unit, size = ("s", 1.0) if longest < _SHORT_SECONDS else ("min", 60.0) if longest < _LONG_SECONDS else ("h", 3600.0)
    for label, style in series_styles(list(series)).items():
        seconds, values = series[label]
        line = {**style.line(), "marker": "", "linewidth": 1.0}
        axes.plot([second / size for second in seconds], values, label=label, **line)
    ax.set_linear_x(axes, (0.0, longest / size))
    axes.set_xlabel(f"Time ({unit})")
    ax.set_y(axes, [value for _, values in series.values() for value in values], heading, log=False)
    if labelled:
        labelled(axes, legend)
    else:
        legend_beside(axes, *axes.get_legend_handles_labels(), legend)
    return figure
