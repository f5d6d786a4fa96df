"""The figures of a report: matplotlib Figures built from plain series, without pyplot or global state."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...analysis.steady_state import SteadyState
from ...model.measurement import Metric
from ...units import number
from ..pages import FIGURE_HEIGHT, FIGURE_WIDTH
from . import axes as ax
from .style import BAD, BAND, INK, QUIET, SeriesStyle, series_styles

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...results.tracked_series import SampleTimes

#: Lower than other figures, because the determination data follow below it.
WINDOW_HEIGHT = 3.0
#: Right margin of a plot with a legend beside it, in inches.
LEGEND_WIDTH = 1.75
#: Characters per line of a legend, lines per entry, and the lines above which its font is smaller in a usual figure.
_LEGEND_LETTERS, _ENTRY_LINES, _LEGEND_LINES = 18, 4, 22
#: The height in inches of the axes of a usual figure with a legend beside it.
_USUAL_AXES = FIGURE_HEIGHT - 0.75

#: The most ticks of the axis of a measurement window in percent of the average.
_MAX_PERCENT_TICKS = 8

#: The least width in inches of a bar with its value on top.
_LEAST_LABELLED_BAR = 0.45

#: The room for a bar above the rounds of a window, and for all of them, in points.
_BAR_POINTS, _BARS_POINTS = 4.5, 12.0

#: The dashes of the upper and the lower bound of a steady value.
_BOUND_DASHES: tuple[Any, Any] = ((0, (6, 2)), (0, (2, 2)))

#: The style of each series, by its key; by default, the series of a figure are styled by their order.
Styles = Mapping[Any, SeriesStyle]

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

    def in_order(self, keys: Sequence[int]) -> Side:
        """Return this side with its keys in the order of ``keys``."""
        labels = dict(zip(self.keys, self.labels, strict=True))
        return replace(self, keys=tuple(keys), labels=tuple(labels[key] for key in keys))

    def only(self, keys: Container[int]) -> Side:
        """Return this side with those of its keys that are in ``keys``."""
        kept = [(key, label) for key, label in zip(self.keys, self.labels, strict=True) if key in keys]
        return replace(self, keys=tuple(key for key, _ in kept), labels=tuple(label for _, label in kept))


@dataclass(frozen=True, slots=True, kw_only=True)
class PointMatrix:
    """The names of the points that differ along two sides, by their keys across and down.

    ``metric`` is their main quantity, a field of the table of points.
    """

    title: str
    metric: str
    across: Side
    down: Side
    points: Mapping[tuple[int, int], str]


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
    heading: str,
    legend: str,
    log: bool = True,
    steady: bool = True,
    height: float = FIGURE_HEIGHT,
    interruptions: Sequence[float] = (),
    bounds: Mapping[str, float] | None = None,
    styles: Styles | None = None,
    windows: Mapping[str, Sequence[int]] | None = None,
) -> Figure:
    """Plot values against rounds, one line for each of ``series`` by label, the rounds of ``window`` shaded.

    ``heading`` names the values.  A vertical line marks each of ``interruptions``, the positions among the rounds where
    the run was interrupted.  ``bounds`` are horizontal lines by label; with them, the axis need not start at zero.  The
    legend has the order of ``series``.  A bar at the top marks the rounds of each of ``windows``, which belong to
    series with their own windows.
    """
    figure = canvas(height=height)
    axes = plot(figure, left=0.85, right=LEGEND_WIDTH, bottom=0.55, top=0.2)
    draw_rounds(
        axes,
        series,
        window,
        heading=heading,
        log=log,
        steady=steady,
        interruptions=interruptions,
        bounds=bounds,
        styles=styles,
    )
    _window_bars(axes, windows or {}, styles or series_styles(list(series)))
    handles, labels = axes.get_legend_handles_labels()
    by_label = dict(zip(labels, handles, strict=True))  # one entry for several interruptions
    order = sorted(by_label, key=lambda label: label not in series)
    legend_beside(axes, legend, [by_label[label] for label in order], order)
    return figure


def _window_bars(axes: Axes, windows: Mapping[str, Sequence[int]], styles: Styles) -> None:
    """Draw a bar above ``axes`` for the rounds of each window, in the colour of its series, the first one on top."""
    points = min(_BAR_POINTS, _BARS_POINTS / max(1, len(windows)))
    height = 72 * axes.bbox.height / axes.figure.dpi
    for place, (name, numbers) in enumerate(reversed(list(windows.items())), start=1):
        axes.hlines(
            1 + place * points / height,
            numbers[0] - 0.3,
            numbers[-1] + 0.3,
            colors=styles[name].colour,
            linewidth=0.6 * points,
            transform=axes.get_xaxis_transform(),
            clip_on=False,
        )


def draw_rounds(
    axes: Axes,
    series: Mapping[str, Series],
    window: tuple[int, ...],
    *,
    heading: str,
    log: bool,
    steady: bool,
    interruptions: Sequence[float] = (),
    bounds: Mapping[str, float] | None = None,
    styles: Styles | None = None,
    most: int = 25,
    y_steps: int = 8,
) -> None:
    """Draw the lines of ``convergence`` into ``axes``, without a legend; at most ``most`` rounds have a label.

    With ``bounds``, the y axis is log only if the values need it; it has about ``y_steps`` labels.
    """
    rounds = sorted({number for line in series.values() for number in line})
    ax.dress(axes)
    if window:
        label = "measurement\nwindow" if steady else "last window,\nNOT ACHIEVED"
        axes.axvspan(window[0] - 0.3, window[-1] + 0.3, color=BAND, linewidth=0, zorder=0, label=label)
    for place in interruptions:
        axes.axvline(place, color=BAD, linewidth=1.0, linestyle=(0, (2, 2)), zorder=1.5, label="interruption")
    styles = styles or series_styles(list(series))
    for name, line in series.items():
        values = [line[number] or (math.nan if log else 0.0) for number in sorted(line)]
        axes.plot(sorted(line), values, label=name, **styles[name].line())
    ax.set_rounds(axes, rounds[0], rounds[-1], most=most)
    shown = [value for line in series.values() for value in line.values()]
    if bounds:
        for (name, level), dash in zip(bounds.items(), _BOUND_DASHES, strict=True):
            axes.axhline(level, color=QUIET, linewidth=1.0, linestyle=dash, label=name)
        enclosed = [*shown, *bounds.values()]
        if log := ax.is_wide(enclosed):
            ax.set_log_y(axes, enclosed, most=y_steps)
        else:
            ax.set_y_within(axes, *padded(enclosed), steps=y_steps)
        axes.set_ylabel(ax.logarithmic(heading) if log and heading else heading)
    else:
        ax.set_y(axes, shown, heading, log=log)


def legend_text(label: str) -> str:
    """Return a label wrapped to the lines that a legend has room for."""
    lines = [line for part in label.split("\n") for line in _wrapped(part)] or [label]
    if len(lines) > _ENTRY_LINES:  # the end of the label distinguishes the series
        lines = [f"{lines[0]} \N{HORIZONTAL ELLIPSIS}", *lines[1 - _ENTRY_LINES :]]
    return "\n".join(lines)


def _wrapped(text: str) -> list[str]:
    """Return the lines of a text; only words that are longer than a line end at a hyphen in them."""
    hyphen = "\N{NON-BREAKING HYPHEN}"
    words = [word if len(word) > _LEGEND_LETTERS else word.replace("-", hyphen) for word in text.split(" ")]
    return [line.replace(hyphen, "-") for line in textwrap.wrap(" ".join(words), _LEGEND_LETTERS)]


def legend_beside(axes: Axes, title: str, handles: Sequence[Artist] = (), labels: Sequence[str] = ()) -> None:
    """Put a legend to the right of ``axes``, by default of all its series; in a smaller font if it is long."""
    if not handles:
        handles, labels = axes.get_legend_handles_labels()
    texts = [legend_text(label) for label in labels]
    lines = sum(text.count("\n") + 1 for text in texts)
    room = _LEGEND_LINES * axes.bbox.height / axes.figure.dpi / _USUAL_AXES
    axes.legend(
        handles,
        texts,
        title=title,
        loc="upper left",
        bbox_to_anchor=(1.02, 1.0),
        borderaxespad=0,
        alignment="left",
        fontsize=min(8.0, max(3.5, 8 * room / (lines + 1))),
        title_fontsize=8.5,
        labelspacing=0.55,
    )


def measurement_window(
    determination: SteadyState, data_excursion_percent: float, *, metric: Metric, times: SampleTimes | None = None
) -> Figure:
    """Plot one tracked variable over its window: points, average, the allowed band around it, and the best fit.

    The band is as wide as the allowed data excursion (20 %: 90 % to 110 % of the average).  If ``times``, the ends of
    the rounds' samples, are given, the axis shows them instead of round numbers.
    """
    figure = canvas(height=WINDOW_HEIGHT)
    axes = plot(figure, left=0.85, right=0.75, bottom=0.95, top=0.3)
    ax.dress(axes)
    rounds, values = determination.rounds, determination.values
    drawn = [value if math.isfinite(value) else math.nan for value in values]
    if determination.evaluable:
        _reference_lines(axes, determination, data_excursion_percent)
    axes.plot(rounds, drawn, color="#0072b2", marker="o", markersize=6, linewidth=1.2, label=metric.label, zorder=4)
    ax.set_rounds(axes, rounds[0], rounds[-1], times)
    ax.set_y_within(axes, *window_limits(determination, data_excursion_percent))
    axes.set_ylabel(metric.heading)
    if determination.evaluable:
        _percent_axis(axes, determination.average, data_excursion_percent / 4)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.24), ncols=3, columnspacing=2.2)
    if not determination.steady:
        word = "NOT ACHIEVED" if determination.evaluable else "NOT EVALUABLE"
        shown = times.span(rounds) if times else f"rounds {rounds[0]} - {rounds[-1]}"
        axes.set_title(f"STEADY STATE {word} in {shown}", color=BAD, fontsize=9, weight="bold")
    return figure


def window_limits(determination: SteadyState, data_excursion_percent: float) -> tuple[float, float]:
    """Return the ends of a window's y axis: the allowed band fills it, unless values are outside of the band."""
    shown, half = [*determination.values], data_excursion_percent / 200
    if determination.evaluable:
        first, last = determination.rounds[0], determination.rounds[-1]
        shown += [determination.average * (1 + half), determination.average * (1 - half)]
        shown += [determination.fit(first), determination.fit(last)]
    return padded(shown)


def padded(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of an axis with room on both sides of ``values``, not below zero if none of them is."""
    shown = ax.finite(values) or [0.0]
    room = 0.06 * (max(shown) - min(shown)) or 0.05 * abs(shown[0]) or 0.5
    return max(0.0, min(shown) - room) if min(shown) >= 0 else min(shown) - room, max(shown) + room


def _reference_lines(axes: Axes, determination: SteadyState, data_excursion_percent: float) -> None:
    ends = (determination.first_round - 0.4, determination.rounds[-1] + 0.4)
    average, half = determination.average, data_excursion_percent / 2
    above, below = average * (1 + half / 100), average * (1 - half / 100)
    first, last = determination.rounds[0], determination.rounds[-1]
    fit = [determination.fit(first), determination.fit(last)]
    axes.plot(ends, [average] * 2, color=INK, linewidth=1.1, label="Average")
    axes.plot(ends, [above] * 2, color=QUIET, linestyle=_BOUND_DASHES[0], label=f"{100 + half:g} % of average")
    axes.plot(ends, [below] * 2, color=QUIET, linestyle=_BOUND_DASHES[1], label=f"{100 - half:g} % of average")
    axes.plot(
        (first, last),
        fit,
        color="#d55e00",
        linewidth=1.8,
        linestyle=(0, (8, 2, 2, 2)),
        label="Best fit (least squares)",
        zorder=3,
    )


def _percent_axis(axes: Axes, average: float, step: float) -> None:
    """Add an axis on the right in percent of the average: 90, 95, 100, 105, 110, or wider apart for a wider range."""
    beside = axes.twinx()
    low, high = (100 * limit / average for limit in axes.get_ylim())
    while (high - low) / step > _MAX_PERCENT_TICKS:
        step *= 2
    ticks = [100 + step * place for place in range(math.ceil((low - 100) / step), math.floor((high - 100) / step) + 1)]
    beside.set_ylim(low, high)
    beside.set_yticks(ticks, [ax.tick_label(tick) for tick in ticks])
    beside.set_ylabel("% of average")
    beside.spines[["top", "left", "bottom", "right"]].set_visible(False)
    beside.tick_params(length=0)


def matrix_lines(
    values: Grid,
    across: Side,
    lines: Side,
    *,
    heading: str,
    log: bool = True,
    scale: Sequence[float] = (),
    styles: Styles | None = None,
    height: float = FIGURE_HEIGHT,
) -> Figure:
    """Plot a matrix: ``across`` horizontally, one line for each key of ``lines``; ``heading`` names the values.

    The axis includes the values of ``scale``, so that several figures share one scale.
    """
    figure = canvas(height=height)
    axes = plot(figure, left=0.85, right=LEGEND_WIDTH, bottom=0.55, top=0.2)
    ax.dress(axes)
    styles = styles or series_styles(lines.keys)
    for key, label in zip(lines.keys, lines.labels, strict=True):
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
    legend_beside(axes, lines.title)
    return figure


def matrix_bars(values: Grid, across: Side, bars: Side, *, heading: str, styles: Styles | None = None) -> Figure:
    """Draw a matrix as bars from zero: a group for each key of ``across``, in it a bar for each key of ``bars``.

    Each bar has its value on top, if it is wide enough.
    """
    figure = canvas()
    axes = plot(figure, left=0.85, right=LEGEND_WIDTH, bottom=0.55, top=0.2)
    ax.dress(axes)
    axes.grid(False, axis="x")
    styles = styles or series_styles(bars.keys)
    width = 0.8 / len(bars.keys)
    labelled = width * (FIGURE_WIDTH - 0.85 - LEGEND_WIDTH) / len(across.keys) >= _LEAST_LABELLED_BAR
    for order, (key, label) in enumerate(zip(bars.keys, bars.labels, strict=True)):
        places = [place + width * (order - (len(bars.keys) - 1) / 2) for place in range(len(across.keys))]
        heights = [values.get((at, key), math.nan) for at in across.keys]
        drawn = axes.bar(places, heights, 0.92 * width, label=label, color=styles[key].colour)
        if labelled:
            texts = [number(height) if math.isfinite(height) else "" for height in heights]
            axes.bar_label(drawn, texts, padding=2, fontsize=7)
    axes.set_xticks(range(len(across.keys)), across.labels)
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel(across.title)
    ax.set_y(axes, [1.06 * value for value in values.values()], heading, log=False)
    legend_beside(axes, bars.title)
    return figure
