"""Figures of time lines, one per page: curves, marks, reference levels, and the samples used for steady state."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ...model.time_series import TimeLine
from ...results.result import Sampling
from ...units import SHORT_SECONDS
from ..header import NOT_ACHIEVED
from ..pages import FIGURE_HEIGHT, FIGURE_WIDTH, Figure, Page
from . import axes as ax
from .figure import LEGEND_WIDTH, Styles, canvas, legend_beside, plot
from .style import INK, QUIET
from .timelines import Along, Series, reduction

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

#: Curves with at most this many values have markers: a line would not show a single one.
_MAX_MARKERS = 60
#: The units of time axes: their name, their length in seconds, the end in seconds up to which an axis is in them, and
#: the steps between its ticks; the last step of minutes is a day.
_UNITS = (
    ("seconds", 1.0, SHORT_SECONDS, (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 20, 30, 60)),
    ("minutes", 60.0, math.inf, (0.5, 1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 240, 360, 720, 1440)),
)
#: The most ticks of a time axis.
_MAX_TICKS = 14
_LEFT, _RIGHT, _BOTTOM, _LEGEND = 0.85, 0.3, 0.58, 0.21
#: The space between the names of marks, and the width of a letter of them.
_BETWEEN, _LETTER = 0.12, 0.06
#: The dashes of the quantities of one point.
_DASHES: tuple[Any, ...] = ("solid", (0, (4, 1.5)), (0, (1, 1.2)))
#: Right margin of panels, for their legends.
_LEGEND_MARGIN = 1.05
#: A figure of usual height has room for this many stacked panels; each further one adds this height in inches.
_USUAL_PANELS, _PANEL_HEIGHT = 4, 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A labelled vertical line on the x axis, with a short label for when the full one does not fit."""

    x: float
    name: str
    short: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A horizontal reference line: a baseline or a threshold."""

    value: float
    label: str
    colour: str = INK
    dash: Any = (0, (5, 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One of several stacked plots, or a second y axis: its series, y label and share of the height.

    The y axis includes the values of ``span``.  A panel with several labels has a legend beside it.  ``levels`` are
    drawn over the series.
    """

    shown: Sequence[Series]
    ylabel: str
    share: float = 1.0
    log: bool = False
    span: tuple[float, ...] = ()
    levels: tuple[Level, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dots:
    """Single points drawn over the curves: the samples on which steady state was evaluated."""

    points: Sequence[tuple[float, float]]
    label: str


def window_dots(sampling: Sampling | None, line: TimeLine) -> list[Dots]:
    """Return the IOPS of the samples in the last window, at their ends by the clock of ``line``; empty without one.

    A sample's minute is not used: it is nominal and excludes the times between continuous stimuli.
    """
    if sampling is None or sampling.window is None:
        return []
    judged = [sampled for sampled in sampling.rounds if sampled.number in sampling.window.numbers]
    points = [(line.ended_seconds[sampled.row], sampled.sample.iops) for sampled in judged if sampled.row is not None]
    return [Dots(points=points, label="measurement window" if sampling.steady else f"last window, {NOT_ACHIEVED}")]


def page(
    shown: Sequence[Series],
    *,
    title: str,
    name: str,
    caption: str,
    alt: str,
    ylabel: str,
    log: bool = False,
    along: Along = "time",
    span: tuple[float, float] | None = None,
    marks: Sequence[Mark] = (),
    levels: Sequence[Level] = (),
    dots: Sequence[Dots] = (),
    right: Panel | None = None,
) -> Page:
    """Return the page of the ``drawing`` of series; a note on combined samples is added to its caption."""
    draw = partial(
        drawing,
        shown,
        ylabel=ylabel,
        log=log,
        along=along,
        span=span,
        marks=marks,
        levels=levels,
        dots=dots,
        right=right,
    )
    note = reduction([*shown, *right.shown], log=log or right.log) if right else reduction(shown, log=log)
    figure = Figure(name=name, caption=f"{caption}{note}", alt=alt, draw=draw)
    return Page(title=title, blocks=(figure,))


def drawing(
    shown: Sequence[Series],
    *,
    ylabel: str,
    log: bool = False,
    along: Along = "time",
    span: tuple[float, float] | None = None,
    marks: Sequence[Mark] = (),
    levels: Sequence[Level] = (),
    dots: Sequence[Dots] = (),
    right: Panel | None = None,
) -> Drawing:
    """Draw series against time, GB written or drive fills; ``span`` is the x axis' range, all of it by default.

    Along time, x is in seconds; the axis is in minutes, as in the reports of PTS 2.0.2, but up to 5 minutes in
    seconds.  The series of ``right`` have
    a y axis of their own on the right.
    """
    figure = canvas()
    drawn: tuple[Series | Level | Dots, ...] = (*shown, *(right.shown if right else ()), *levels, *dots)
    columns, rows = _legend_shape([series.label for series in drawn])
    bottom, top = _BOTTOM + _LEGEND * rows, 0.42 if marks else 0.2
    axes = plot(figure, left=_LEFT, right=_LEFT if right else _RIGHT, bottom=bottom, top=top)
    ax.dress(axes)
    begin, end = span or (0.0, max((float(series.curve.x[-1]) for series in shown if len(series.curve.x)), default=0.0))
    factor = set_places(axes, begin, end, along)
    for order, series in enumerate(shown):
        draw_series(axes, series, factor, order)
    _draw_levels(axes, levels)
    for single in dots:
        axes.plot(
            [x * factor for x, _ in single.points],
            [y for _, y in single.points],
            linestyle="none",
            marker="D",
            markersize=5,
            markerfacecolor="white",
            markeredgecolor=INK,
            markeredgewidth=1.2,
            zorder=7,
            label=single.label,
            clip_on=False,
        )
    ax.set_y(axes, [*_values(shown), *(level.value for level in levels)], ylabel, log=log)
    draw_marks(axes, marks, factor, beside=_RIGHT)
    legend = [axes.get_legend_handles_labels()]
    if right:
        legend.append(_draw_right(axes, right, factor, order=len(shown)))
    if rows:
        handles = {label: handle for part in legend for handle, label in zip(*part, strict=True)}
        axes.legend(
            list(handles.values()),
            list(handles),
            loc="upper center",
            ncols=columns,
            columnspacing=1.6,
            handlelength=2.4,
            bbox_to_anchor=(0.5, -0.45 / (FIGURE_HEIGHT - bottom - top)),
            borderaxespad=0,
        )
    return figure


def _draw_right(axes: Axes, right: Panel, factor: float, order: int) -> tuple[list[Artist], list[Any]]:
    """Draw series on an axis on the right of ``axes``; return their legend handles and labels."""
    beside = axes.twinx()
    for place, series in enumerate(right.shown, start=order):
        draw_series(beside, series, factor, place)
    ax.set_y(beside, _values(right.shown), right.ylabel, log=right.log)
    beside.spines[["top", "left"]].set_visible(False)
    beside.tick_params(color=QUIET, length=3)
    return beside.get_legend_handles_labels()


def _values(shown: Sequence[Series]) -> list[float]:
    """Return the values of series with their bands."""
    return [value for series in shown for part in (series.curve.low, series.curve.high) for value in part.tolist()]


def stacked_height(panels: Sequence[Panel]) -> float:
    """Return the height of stacked panels in inches; more than the usual number of panels need more."""
    return FIGURE_HEIGHT + _PANEL_HEIGHT * max(0, len(panels) - _USUAL_PANELS)


def stacked(panels: Sequence[Panel], *, marks: Sequence[Mark] = (), begin: float = 0.0) -> Drawing:
    """Draw stacked panels over one time axis, the first on top; the axis starts at ``begin`` seconds."""
    height = stacked_height(panels)
    figure = canvas(height=height)
    bottom, top, between = _BOTTOM, 0.42 if marks else 0.2, 0.14
    room = (height - bottom - top - between * (len(panels) - 1)) / sum(panel.share for panel in panels)
    end = max(float(series.curve.x[-1]) for panel in panels for series in panel.shown if len(series.curve.x))
    above = height - top
    for place, panel in enumerate(panels):
        below = max(bottom, above - room * panel.share)
        axes = plot(figure, left=_LEFT, right=_LEGEND_MARGIN, bottom=below, top=height - above)
        above = below - between
        ax.dress(axes)
        factor = set_places(axes, begin, end, "time")
        for order, series in enumerate(panel.shown):
            draw_series(axes, series, factor, order)
        _draw_levels(axes, panel.levels)
        values = _values(panel.shown)
        if panel.log:
            ax.set_log_y(axes, values)
        else:
            set_y = ax.set_linear_y if panel.share > 1 else ax.set_few_y
            set_y(axes, [*values, *panel.span, *(level.value for level in panel.levels)])
        axes.set_ylabel(ax.logarithmic(panel.ylabel) if panel.log else panel.ylabel)
        if len({*(series.label for series in panel.shown), *(level.label for level in panel.levels)}) > 1:
            handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
            axes.legend(
                list(handles.values()),
                list(handles),
                loc="center left",
                bbox_to_anchor=(1.01, 0.5),
                handlelength=1.2,
                fontsize=7.5,
                borderaxespad=0,
            )
        if place < len(panels) - 1:
            axes.set_xlabel("")
            axes.tick_params(axis="x", labelbottom=False)
        draw_marks(axes, marks, factor, named=place == 0, beside=_LEGEND_MARGIN - _RIGHT)
    figure.align_ylabels()
    return figure


def responses(shown: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]], styles: Styles) -> Drawing:
    """Plot response times in ms (log) against time in seconds, a colour for each point, dashes for each quantity.

    ``shown`` are the curves by point and quantity, ``styles`` those of the points.
    """
    figure = canvas()
    axes = plot(figure, left=_LEFT, right=LEGEND_WIDTH, bottom=_BOTTOM, top=0.2)
    ax.dress(axes)
    curves = [curve for quantities in shown.values() for curve in quantities.values()]
    factor = set_places(axes, 0.0, max(x for curve in curves for x, _ in curve), "time")
    dashes = dict(zip(next(iter(shown.values())), _DASHES, strict=True))
    for point, quantities in shown.items():
        for name, curve in quantities.items():
            style = {**styles[point].line(), "linestyle": dashes[name]}
            x, y = [place * factor for place, _ in curve], [value or math.nan for _, value in curve]
            axes.plot(x, y, label=point if dashes[name] == "solid" else "", **style)
    for name, dash in dashes.items():
        axes.plot([], [], color=QUIET, linestyle=dash, label=name)
    ax.set_y(axes, [value for curve in curves for _, value in curve], "Response time (ms)", log=True)
    legend_beside(axes, "Point")
    return figure


def _legend_shape(labels: Sequence[str]) -> tuple[int, int]:
    """Return columns and rows of a legend below the plot; no rows for a single label."""
    widths = [0.62 + 0.065 * len(label) for label in set(labels)]
    if len(widths) < 2:
        return 1, 0
    room = FIGURE_WIDTH - 0.5
    columns = len(widths) if sum(widths) <= room else max(1, int(room / max(widths)))
    rows = math.ceil(len(widths) / columns)
    return math.ceil(len(widths) / rows), rows


def draw_series(axes: Axes, series: Series, factor: float, order: int) -> None:
    """Draw a curve with its band into ``axes``; ``factor`` converts x to the units of the axis."""
    drawn = series.curve
    few = 0 < len(ax.finite(drawn.values)) <= _MAX_MARKERS
    dots = {"linestyle": "none", "marker": "o", "markersize": 4 if few else 3, "markeredgewidth": 0}
    line = {"linewidth": 1.2, "marker": "o" if few else "none", "markersize": 3.2, "markeredgewidth": 0}
    if drawn.banded:
        axes.fill_between(
            drawn.x * factor,
            drawn.low,
            drawn.high,
            color=series.colour,
            alpha=0.25,
            linewidth=0,
            zorder=2 + order / 100,
        )
    axes.plot(
        drawn.x * factor,
        drawn.values,
        color=series.colour,
        label=series.label,
        zorder=3 + order / 100,
        **(dots if series.points else line),
    )


def _draw_levels(axes: Axes, levels: Sequence[Level]) -> None:
    for level in levels:
        axes.axhline(level.value, color=level.colour, linestyle=level.dash, linewidth=1.0, label=level.label, zorder=6)


def time_axis(begin: float, end: float, most: int = _MAX_TICKS) -> tuple[str, float, list[float]]:
    """Return the unit of a time axis over ``begin`` .. ``end`` seconds, its length in seconds, and the ticks in it.

    The last tick is at most half a step beyond or before the end.
    """
    unit, seconds, _, steps = next(unit for unit in _UNITS if end <= unit[2])
    first, last = begin / seconds, end / seconds
    smallest = (last - first) / most
    place = bisect.bisect_left(steps, smallest * (1 - 1e-9))
    step = steps[place] if place < len(steps) else steps[-1] * math.ceil(smallest / steps[-1])
    ticks = [number * step for number in range(math.ceil(first / step - 1e-6), math.floor(last / step + 0.5) + 1)]
    return unit, seconds, ticks


def set_places(axes: Axes, begin: float, end: float, along: Along, *, most: int = _MAX_TICKS) -> float:
    """Give ``axes`` an x axis from ``begin`` to ``end``, ``most`` ticks of time; return the factor to its units."""
    if along == "time":
        unit, seconds, ticks = time_axis(begin, end, most)
        first, last = begin / seconds, max([end / seconds, *ticks[-1:]])
        room = last - first or 1.0
        axes.set_xlim(first - 0.01 * room, last + 0.01 * room)
        axes.set_xticks(ticks, [ax.tick_label(round(tick, 6)) for tick in ticks])
        axes.set_xlabel(f"Time ({unit})")
        return 1 / seconds
    ticks = ax.linear_ticks(begin, end)
    step = ticks[1] - ticks[0]
    ticks = [tick for tick in ticks if tick <= end + step / 4]
    last = max(end, ticks[-1])
    room = last - begin or 1.0
    axes.set_xlim(begin - 0.01 * room, last + 0.01 * room)
    axes.set_xticks(ticks, [ax.tick_label(round(tick, 9)) for tick in ticks])
    axes.set_xlabel("Total host writes, TGBW (GB)" if along == "written" else "Total host writes (drive fills)")
    return 1.0


def draw_marks(axes: Axes, marks: Sequence[Mark], factor: float, *, named: bool = True, beside: float = 0.0) -> None:
    """Draw marks; a name that does not fit before the next mark is shortened, and omitted if it still does not.

    The last name may extend ``beside`` inches beyond the plot.
    """
    low, high = axes.get_xlim()
    width = axes.get_position().width * axes.figure.get_size_inches()[0]  # type: ignore[union-attr]
    inches = [(mark.x * factor - low) / (high - low) * width for mark in marks]
    rooms = [end - at - _BETWEEN for at, end in pairwise([*inches, width + beside])]
    for mark, at, room in zip(marks, inches, rooms, strict=True):
        if at > _BETWEEN:  # else the mark is at the start of the axis
            axes.axvline(mark.x * factor, color=QUIET, linewidth=1.0, linestyle=(0, (2, 2)), zorder=1.5)
        text = mark.name if _LETTER * len(mark.name) < room else mark.short or mark.name
        if named and _LETTER * len(text) < room:
            axes.text(at / width, 1.02, text, transform=axes.transAxes, ha="left", va="bottom", fontsize=7.5)
