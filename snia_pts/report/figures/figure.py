"""The figures of a report: matplotlib Figures built from plain series, without pyplot or global state."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...analysis.steady_state import SteadyState
from ...model.measurement import Metric
from ..pages import FIGURE_HEIGHT, FIGURE_WIDTH
from . import axes as ax
from .style import BAD, BAND, INK, QUIET, series_styles

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Lower than other figures, because the determination data follow below it.
WINDOW_HEIGHT = 3.4

#: Values by round number.
Series = Mapping[int, float]
#: Values by the keys of a matrix' two sides.
Grid = Mapping[tuple[int, int], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a matrix: its title, its keys in order, and their labels.

    ``prefix`` precedes a label that is shown without the title (``R/W 0/100``).  If ``log`` is set, an axis of the keys
    is logarithmic; otherwise they are evenly spaced.
    """

    title: str
    keys: tuple[int, ...]
    labels: tuple[str, ...]
    prefix: str = ""
    log: bool = False

    @property
    def places(self) -> tuple[float, ...]:
        """Return the positions of the keys on an axis."""
        return tuple(math.log2(key) if self.log else place for place, key in enumerate(self.keys))


def canvas(width: float = FIGURE_WIDTH, height: float = FIGURE_HEIGHT) -> Figure:
    """Return an empty figure of ``width`` x ``height`` inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), facecolor="white")


def plot(figure: Figure, *, left: float, right: float, bottom: float, top: float) -> Axes:
    """Return axes with fixed margins, given in inches from the figure's edges."""
    width, height = figure.get_size_inches()
    box = (left / width, bottom / height, (width - left - right) / width, (height - bottom - top) / height)
    return figure.add_axes(box)


def convergence(
    series: Mapping[str, Series],
    window: tuple[int, ...],
    *,
    metric: Metric,
    legend: str,
    log: bool = True,
    steady: bool = True,
    height: float = FIGURE_HEIGHT,
    interruptions: Sequence[float] = (),
) -> Figure:
    """Plot ``metric`` against rounds, one line for each of ``series`` by label, the rounds of ``window`` shaded.

    A vertical line marks each of ``interruptions``, the positions among the rounds where the run was interrupted.
    """
    figure = canvas(height=height)
    axes = plot(figure, left=0.85, right=1.45, bottom=0.55, top=0.2)
    rounds = sorted({number for line in series.values() for number in line})
    ax.dress(axes)
    if window:
        label = "measurement\nwindow" if steady else "last window,\nNOT ACHIEVED"
        axes.axvspan(window[0] - 0.3, window[-1] + 0.3, color=BAND, linewidth=0, label=label)
    for place in interruptions:
        axes.axvline(place, color=BAD, linewidth=1.0, linestyle=(0, (2, 2)), zorder=1.5, label="interruption")
    styles = series_styles(list(series))
    for name in _sorted_by_last_value(series):
        numbers = sorted(series[name])
        values = [series[name][number] or math.nan for number in numbers] if log else _values(series[name])
        axes.plot(numbers, values, label=name, **styles[name].line())
    ax.set_rounds(axes, rounds[0], rounds[-1])
    ax.set_y(axes, [value for line in series.values() for value in line.values()], metric.heading, log=log)
    handles, labels = axes.get_legend_handles_labels()
    by_label = dict(zip(labels, handles, strict=True))  # one entry for several interruptions
    order = sorted(by_label, key=lambda label: label not in series)
    legend_beside(axes, [by_label[label] for label in order], order, legend)
    return figure


def _values(line: Series) -> list[float]:
    return [line[number] for number in sorted(line)]


def _sorted_by_last_value(series: Mapping[str, Series]) -> list[str]:
    """Return the labels of the lines by their values in the last round, highest first."""
    return sorted(series, key=lambda name: -series[name][max(series[name])])


def legend_beside(axes: Axes, handles: Sequence[Artist], labels: Sequence[str], title: str) -> None:
    """Put a legend to the right of ``axes``, in a smaller font if it is long."""
    size = 8 if len(labels) <= 16 else max(3.5, 8 * 16 / len(labels))
    axes.legend(
        handles,
        labels,
        title=title,
        loc="upper left",
        bbox_to_anchor=(1.02, 1.0),
        borderaxespad=0,
        alignment="left",
        fontsize=size,
        title_fontsize=8.5,
        labelspacing=0.55,
    )


def measurement_window(
    determination: SteadyState, data_excursion_percent: float, *, metric: Metric, minutes: Sequence[float] = ()
) -> Figure:
    """Plot one tracked variable over its window: points, average, the allowed band around it, and the best fit.

    The band is as wide as the allowed data excursion (20 %: 90 % to 110 % of the average).  If ``minutes``, the ends of
    the rounds' samples, are given, the axis shows them instead of round numbers.
    """
    figure = canvas(height=WINDOW_HEIGHT)
    axes = plot(figure, left=0.85, right=0.75, bottom=0.95, top=0.3)
    ax.dress(axes)
    rounds, values = determination.rounds, determination.values
    drawn = [value if math.isfinite(value) else math.nan for value in values]
    shown = [*values]
    if determination.evaluable:
        shown += _reference_lines(axes, determination, data_excursion_percent)
    axes.plot(rounds, drawn, color="#0072b2", marker="o", markersize=6, linewidth=1.2, label=metric.label, zorder=4)
    ax.set_rounds(axes, rounds[0], rounds[-1], minutes)
    ax.set_linear_y(axes, _padded(shown))
    axes.set_ylabel(metric.heading)
    if determination.evaluable:
        _percent_axis(axes, determination.average)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=3, columnspacing=2.2)
    if not determination.steady:
        word = "NOT ACHIEVED" if determination.evaluable else "NOT EVALUABLE"
        span = f"minutes {minutes[0]:g} - {minutes[-1]:g}" if minutes else f"rounds {rounds[0]} - {rounds[-1]}"
        axes.set_title(f"STEADY STATE {word} in {span}", color=BAD, fontsize=9, weight="bold")
    return figure


def _reference_lines(axes: Axes, determination: SteadyState, data_excursion_percent: float) -> list[float]:
    ends = (determination.first_round - 0.4, determination.rounds[-1] + 0.4)
    average, half = determination.average, data_excursion_percent / 2
    above, below = average * (1 + half / 100), average * (1 - half / 100)
    first, last = determination.rounds[0], determination.rounds[-1]
    fit = [determination.fit(first), determination.fit(last)]
    axes.plot(ends, [average] * 2, color=INK, linewidth=1.1, label="Average")
    axes.plot(ends, [above] * 2, color=QUIET, linestyle=(0, (6, 2)), label=f"{100 + half:g} % of average")
    axes.plot(ends, [below] * 2, color=QUIET, linestyle=(0, (2, 2)), label=f"{100 - half:g} % of average")
    axes.plot(
        (first, last),
        fit,
        color="#d55e00",
        linewidth=1.8,
        linestyle=(0, (8, 2, 2, 2)),
        label="Best fit (least squares)",
        zorder=3,
    )
    return [above, below, *fit]


def _padded(values: Sequence[float]) -> list[float]:
    shown = ax.finite(values) or [0.0]
    room = 0.06 * (max(shown) - min(shown)) or 0.05 * abs(shown[0]) or 0.5
    return [max(0.0, min(shown) - room) if min(shown) >= 0 else min(shown) - room, max(shown) + room]


def _percent_axis(axes: Axes, average: float) -> None:
    """Add an axis on the right in percent of the average."""
    beside = axes.twinx()
    low, high = (100 * limit / average for limit in axes.get_ylim())
    ticks = [tick for tick in ax.linear_ticks(low, high) if low - 1e-9 <= tick <= high + 1e-9]
    beside.set_ylim(low, high)
    beside.set_yticks(ticks, [ax.tick_label(tick) for tick in ticks])
    beside.set_ylabel("% of average")
    beside.spines[["top", "left", "bottom", "right"]].set_visible(False)
    beside.tick_params(length=0)


def matrix_lines(
    values: Grid, across: Side, lines: Side, *, heading: str, log: bool = True, scale: Sequence[float] = ()
) -> Figure:
    """Plot a matrix: ``across`` horizontally, one line for each key of ``lines``; ``heading`` names the values.

    The axis includes the values of ``scale``, so that several figures share one scale.
    """
    figure = canvas()
    axes = plot(figure, left=0.85, right=1.3, bottom=0.55, top=0.2)
    ax.dress(axes)
    styles = series_styles(list(lines.keys))
    for key, label in reversed(list(zip(lines.keys, lines.labels, strict=True))):
        points = [(place, values.get((at, key))) for place, at in zip(across.places, across.keys, strict=True)]
        known = [(place, value or (math.nan if log else 0.0)) for place, value in points if value is not None]
        axes.plot([x for x, _ in known], [y for _, y in known], label=label, **styles[key].line())
    places = across.places
    room = max(0.25, 0.03 * (places[-1] - places[0]))
    keep = ax.spread(places, 0.075 * (places[-1] - places[0] + 2 * room))
    axes.set_xlim(places[0] - room, places[-1] + room)
    axes.set_xticks(places, [label if kept else "" for label, kept in zip(across.labels, keep, strict=True)])
    ax.set_y(axes, (*values.values(), *scale), heading, log=log)
    axes.set_xlabel(ax.logarithmic(across.title) if across.log else across.title)
    legend_beside(axes, *axes.get_legend_handles_labels(), lines.title)
    return figure
