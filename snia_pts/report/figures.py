"""The figures of a report: matplotlib Figures made of plain series, without pyplot and without global state."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..steadystate import SteadyState
from ..steps import Cell, mix
from ..units import KIB
from . import axes as ax
from .pages import FIGURE_HEIGHT, FIGURE_WIDTH
from .style import BAD, BAND, INK, QUIET, looks

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Lower than the others: the determination data stand below it.
WINDOW_HEIGHT = 3.4

#: IOPS by round number.
Series = Mapping[int, float]


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
    series: Mapping[int, Series], window: tuple[int, ...], *, height: float = FIGURE_HEIGHT, steady: bool = True
) -> Figure:
    """Plot IOPS against rounds, one line a block size (bytes), the rounds of ``window`` shaded."""
    figure = canvas(height=height)
    axes = plot(figure, left=0.85, right=1.45, bottom=0.55, top=0.2)
    rounds = sorted({number for line in series.values() for number in line})
    ax.dress(axes)
    if window:
        label = "measurement\nwindow" if steady else "last window,\nNOT ACHIEVED"
        axes.axvspan(window[0] - 0.3, window[-1] + 0.3, color=BAND, linewidth=0, label=label)
    shown = looks(list(series))
    for size in _as_they_end(series):
        numbers = sorted(series[size])
        values = [series[size][number] or math.nan for number in numbers]
        axes.plot(numbers, values, label=f"{size / KIB:g} KiB", **shown[size].line())
    ax.set_rounds(axes, rounds[0], rounds[-1])
    ax.set_log_y(axes, [value for line in series.values() for value in line.values()])
    axes.set_ylabel("IOPS (log)")
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda place: (not labels[place].endswith("KiB"), place))
    _legend_beside(axes, [handles[place] for place in order], [labels[place] for place in order], "Block size")
    return figure


def _as_they_end(series: Mapping[int, Series]) -> list[int]:
    """Return the block sizes as their lines stand above one another in the last round, highest first."""
    return sorted(series, key=lambda size: -series[size][max(series[size])])


def _legend_beside(axes: Axes, handles: Sequence[Artist], labels: Sequence[str], title: str) -> None:
    size = 8 if len(labels) <= 16 else max(3.5, 8 * 16 / len(labels))
    axes.legend(
        handles, labels, title=title, loc="upper left", bbox_to_anchor=(1.02, 1.0), borderaxespad=0,
        alignment="left", fontsize=size, title_fontsize=8.5, labelspacing=0.55,
    )  # fmt: skip


def measurement_window(determination: SteadyState, data_excursion_percent: float) -> Figure:
    """Plot one tracked variable over its window: points, average, the allowed band around it, and the best fit.

    The band is as wide as the allowed data excursion (20 %: 90 % to 110 % of the average).
    """
    figure = canvas(height=WINDOW_HEIGHT)
    axes = plot(figure, left=0.85, right=0.75, bottom=0.95, top=0.3)
    ax.dress(axes)
    rounds, values = determination.rounds, determination.values
    drawn = [value if math.isfinite(value) else math.nan for value in values]
    shown = [*values]
    if determination.evaluable:
        shown += _reference_lines(axes, determination, data_excursion_percent)
    axes.plot(rounds, drawn, color="#0072b2", marker="o", markersize=6, linewidth=1.2, label="IOPS", zorder=4)
    ax.set_rounds(axes, rounds[0], rounds[-1])
    ax.set_linear_y(axes, _padded(shown))
    axes.set_ylabel("IOPS")
    if determination.evaluable:
        _percent_axis(axes, determination.average)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=3, columnspacing=2.2)
    if not determination.steady:
        word = "NOT ACHIEVED" if determination.evaluable else "NOT EVALUABLE"
        axes.set_title(
            f"STEADY STATE {word} in rounds {rounds[0]} - {rounds[-1]}", color=BAD, fontsize=9, weight="bold"
        )
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
    axes.plot((first, last), fit, color="#d55e00", linewidth=1.8, linestyle=(0, (8, 2, 2, 2)),
              label="Best fit (least squares)", zorder=3)  # fmt: skip
    return [above, below, *fit]


def _padded(values: Sequence[float]) -> list[float]:
    shown = ax.finite(values) or [0.0]
    room = 0.06 * (max(shown) - min(shown)) or 0.05 * abs(shown[0]) or 0.5
    return [max(0.0, min(shown) - room) if min(shown) >= 0 else min(shown) - room, max(shown) + room]


def _percent_axis(axes: Axes, average: float) -> None:
    """Show on the right what share of the average a height is."""
    beside = axes.twinx()
    low, high = (100 * limit / average for limit in axes.get_ylim())
    ticks = [tick for tick in ax.linear_ticks(low, high) if low - 1e-9 <= tick <= high + 1e-9]
    beside.set_ylim(low, high)
    beside.set_yticks(ticks, [ax.tick_label(tick) for tick in ticks])
    beside.set_ylabel("% of average")
    beside.spines[["top", "left", "bottom", "right"]].set_visible(False)
    beside.tick_params(length=0)


def matrix_lines(matrix: Mapping[Cell, float], sizes: Sequence[int], mixes: Sequence[int]) -> Figure:
    """Plot IOPS against block size (bytes, ascending), both log, one line an R/W mix (given by read share)."""
    figure = canvas()
    axes = plot(figure, left=0.85, right=1.3, bottom=0.55, top=0.2)
    ax.dress(axes)
    shown = looks(list(mixes))
    for read_percent in sorted(mixes, reverse=True):
        points = [(size, matrix.get(Cell(read_percent=read_percent, block_size_bytes=size))) for size in sizes]
        known = [(math.log2(size / KIB), value or math.nan) for size, value in points if value is not None]
        axes.plot([x for x, _ in known], [y for _, y in known], label=mix(read_percent), **shown[read_percent].line())
    places = [math.log2(size / KIB) for size in sizes]
    room = max(0.25, 0.03 * (places[-1] - places[0]))
    keep = ax.spread(places, 0.075 * (places[-1] - places[0] + 2 * room))
    axes.set_xlim(places[0] - room, places[-1] + room)
    axes.set_xticks(places, [f"{size / KIB:g}" if kept else "" for size, kept in zip(sizes, keep, strict=True)])
    ax.set_log_y(axes, matrix.values())
    axes.set_xlabel("Block size (KiB, log)")
    axes.set_ylabel("IOPS (log)")
    _legend_beside(axes, *axes.get_legend_handles_labels(), "R/W mix (%)")
    return figure
