"""The figures of a TC x QD loop: response time against IOPS, and both against Total OIO (PTS 2.0.2 chapters 13, 14)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ...analysis.operating_points import DemandMean, OperatingPoint
from ...model.steps import Demand
from ..pages import FIGURE_WIDTH
from ..tables import thousands
from . import axes as ax
from .figure import LEGEND_WIDTH, canvas, legend_beside, plot
from .matrices import HOST_LIMITED
from .style import BAD, INK, series_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The height of the figure of percentiles in inches.
TAIL_HEIGHT = 5.6
#: The most Thread Counts beside each other in a legend below a figure.
_LEGEND_COLUMNS = 8
#: The least ratio of the end of an ART axis to the limit, or of the limit to the end.
_LIMIT_SPACE = 1.25
_ART = "Average response time (ms)"
_RINGS = {"Max IOPS": "o", "Mid IOPS": "s", "Min IOPS": "D"}


def intensity(
    means: Sequence[DemandMean],
    points: Sequence[OperatingPoint],
    maximum_art_ms: float,
    limited: Collection[str] = (),
) -> Figure:
    """Plot ART (ms, log) against IOPS, one line per Thread Count over its Queue Depths.

    A horizontal line shows the ART limit of the Max and Mid IOPS points, large open marks the operating points;
    those of ``limited`` get the host-limited mark.
    """
    figure = canvas()
    axes = plot(figure, left=0.85, right=LEGEND_WIDTH, bottom=0.55, top=0.2)
    ax.dress(axes)
    _lines(axes, means, x=lambda mean: mean.iops, y=lambda mean: mean.art_ms)
    _draw_art_limit(axes, maximum_art_ms)
    for point in points:
        axes.plot(
            [point.iops],
            [point.art_ms],
            label=f"{f'{HOST_LIMITED} ' if point.name in limited else ''}{point.name}\n{point.demand.label}",
            linestyle="none",
            markersize=10,
            marker=_RINGS[point.name],
            markerfacecolor="none",
            markeredgecolor=INK,
            markeredgewidth=1.2,
            zorder=6,
            clip_on=False,
        )
    ax.set_linear_x(axes, [0.0, *(mean.iops for mean in means)])
    axes.set_xlabel("IOPS")
    ax.set_y(axes, _arts_and_limit(means, maximum_art_ms), _ART, log=True)
    legend_beside(axes, "Thread Count")
    return figure


def by_total_oio(means: Sequence[DemandMean], maximum_art_ms: float) -> Figure:
    """Plot IOPS, and below it ART (ms, log), against Total OIO (log), one line per Thread Count."""
    figure = canvas()
    above = plot(figure, left=0.85, right=LEGEND_WIDTH, bottom=2.45, top=0.2)
    below = plot(figure, left=0.85, right=LEGEND_WIDTH, bottom=0.55, top=2.15)
    for axes in (above, below):
        ax.dress(axes)
        _oio_axis(axes, means)
    _lines(above, means, x=_oio, y=lambda mean: mean.iops)
    _lines(below, means, x=_oio, y=lambda mean: mean.art_ms)
    _draw_art_limit(below, maximum_art_ms)
    ax.set_y(above, [mean.iops for mean in means], "IOPS", log=False)
    ax.set_y(below, _arts_and_limit(means, maximum_art_ms), "ART (ms)", log=True)
    above.tick_params(labelbottom=False)
    below.set_xlabel("Total OIO (TC x QD, log)")
    legend_beside(above, "Thread Count", *below.get_legend_handles_labels())
    return figure


def percentiles_over_iops(
    means: Sequence[DemandMean], panels: Mapping[str, Mapping[Demand, float]], columns: int
) -> Figure:
    """Plot percentiles (ms, log) against IOPS on one scale, a panel each, one line per Thread Count.

    ``panels`` are the times by title and demand, row by row.
    """
    figure = canvas(height=TAIL_HEIGHT)
    threads = {mean.demand.thread_count for mean in means}
    left, right, gap = 0.85, 0.3, 0.4
    bottom = 0.8 + 0.17 * math.ceil(len(threads) / _LEGEND_COLUMNS)
    wide = (FIGURE_WIDTH - left - right - gap * (columns - 1)) / columns
    rows = len(panels) // columns
    high = (TAIL_HEIGHT - bottom - (0.3 + gap) * rows + gap) / rows
    every = [time_ms for times in panels.values() for time_ms in times.values()]
    for place, (title, times) in enumerate(panels.items()):
        down, across = divmod(place, columns)
        start, top = left + across * (wide + gap), 0.3 + down * (high + 0.3 + gap)
        axes = plot(figure, left=start, right=FIGURE_WIDTH - start - wide, bottom=TAIL_HEIGHT - top - high, top=top)
        ax.dress(axes)
        _lines(axes, means, x=lambda mean: mean.iops, y=lambda mean, times=times: times.get(mean.demand, math.nan))  # type: ignore[misc]
        axes.set_title(title, fontsize=8.5, loc="left")
        ax.set_few_x(axes, [mean.iops for mean in means], "IOPS" if down == rows - 1 else "")
        ax.set_log_y(axes, every)
        axes.set_ylabel("Response time (ms, log)" if across == 0 else "")
        axes.tick_params(labelbottom=down == rows - 1, labelleft=across == 0)
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(),
        title="Thread Count",
        loc="lower center",
        ncols=min(len(threads), _LEGEND_COLUMNS),
        fontsize=8,
        title_fontsize=8.5,
    )
    return figure


def _oio(mean: DemandMean) -> float:
    return mean.demand.total_oio


def _lines(
    axes: Axes,
    means: Sequence[DemandMean],
    *,
    x: Callable[[DemandMean], float],
    y: Callable[[DemandMean], float],
) -> None:
    """Draw one line per Thread Count, ascending, in its style in all figures."""
    threads = sorted({mean.demand.thread_count for mean in means})
    styles = series_styles(threads)
    for count in threads:
        line = sorted((mean for mean in means if mean.demand.thread_count == count), key=lambda mean: mean.demand)
        axes.plot([x(mean) for mean in line], [y(mean) for mean in line], label=str(count), **styles[count].line())


def _draw_art_limit(axes: Axes, maximum_art_ms: float) -> None:
    axes.axhline(maximum_art_ms, color=BAD, linewidth=1.1, label=f"ART limit, {maximum_art_ms:g} ms", zorder=1.5)


def _arts_and_limit(means: Sequence[DemandMean], maximum_art_ms: float) -> list[float]:
    """Return the values that an axis of ART includes: those of ``means``, and space on both sides of the limit."""
    return [maximum_art_ms / _LIMIT_SPACE, maximum_art_ms * _LIMIT_SPACE, *(mean.art_ms for mean in means)]


def _oio_axis(axes: Axes, means: Sequence[DemandMean]) -> None:
    """Show Total OIO on a log 2 axis, with ticks far enough apart for their labels."""
    totals = [mean.demand.total_oio for mean in means]
    first, last = math.floor(math.log2(min(totals))), math.ceil(math.log2(max(totals)))
    ticks = [2**power for power in range(first, max(last, first + 1) + 1, 1 + (last - first) // 11)]
    axes.set_xscale("log", base=2)
    axes.set_xlim(2**first / 1.15, 2 ** max(last, first + 1) * 1.15)
    axes.set_xticks(ticks, [thousands(tick, 0) for tick in ticks])
    axes.minorticks_off()
