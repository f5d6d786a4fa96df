"""The response time histogram with its confidence levels (PTS 2.0.2 sections 9.2 and 10.2.4, chapters 13 and 14).

Engines count response times in bins of about 1 % width, too fine to draw.  For drawing they are counted into the bins
of a log grid; percentiles and the cumulative line come from the engine's bins.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ...model.histogram import Histogram
from ...model.measurement import FIVE_NINES, NINES, average_response_us, percentiles_response_us, rate_per_second
from ...model.time_series import TimeLine
from ...results.result import TestResult
from ...units import MB, duration, number
from ..figures import axes as ax
from ..figures.figure import canvas, plot
from ..figures.style import INK
from ..header import chart_conditions
from ..pages import Figure, Page, Prose
from ..tables import Column, Table, significant, thousands
from .host_share import line_note

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

#: Bins per decade of the log grid for drawing histograms.
BINS_PER_DECADE = 20
#: The response times that the plot marks, in the order of the tables.
MARKERS = ("ART", *(f"{percent:g} %" for percent in NINES), "MRT")
_MARKER_COLOURS = dict(zip(MARKERS, ("#009e73", "#a08a00", "#e69f00", "#d55e00", "#b00020"), strict=True))
_BARS, _LINE = "#9ecae1", "#0072b2"
#: The width of a marker's label, and the height of the strip of labels above the plot, in inches.
_LABEL_WIDTH, _STRIP_HEIGHT = 0.82, 0.62
#: The height of the figure, and of its plot with the scale of nines, in inches.
HEIGHT, _NINES_HEIGHT = 5.0, 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """A response time that the plot marks: its name, and its value in ms; None if there are too few I/Os for it."""

    name: str
    ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Confidence:
    """The response times of one stimulus: rates, the markers ART, nines and MRT, and the bins."""

    ios: int
    iops: float
    mb_per_second: float
    markers: tuple[Marker, ...]
    histogram: Histogram

    @property
    def maximum_ms(self) -> float:
        """MRT in ms; nan without I/Os."""
        last = self.markers[-1].ms
        return math.nan if last is None else last

    @property
    def known_markers(self) -> tuple[Marker, ...]:
        """The markers that have a value."""
        return tuple(marker for marker in self.markers if marker.ms is not None)


def no_five_nines(result: TestResult, subject: str) -> str:
    """Return a sentence on why 99.999 % is missing; ``subject`` is what has too few I/Os, with its verb."""
    if result.facts.imported:
        return f"{FIVE_NINES:g} % is n/a: not in the imported file."
    return f"{FIVE_NINES:g} % is n/a: {subject} fewer than the required 100 000 I/Os."


def missing_percentiles(result: TestResult, intervals: Iterable[Confidence], more: str = "") -> Iterator[Prose]:
    """Yield a sentence on why percentiles are n/a, with ``more`` after it; nothing if none is."""
    missing = {marker.name for values in intervals for marker in values.markers if marker.ms is None}
    required = [
        f"{thousands(100 / (100 - percent), 0)} for {percent:g} %" for percent in NINES if f"{percent:g} %" in missing
    ]
    if required:
        reason = "not in the imported file" if result.facts.imported else f"fewer I/Os than {', '.join(required)}"
        yield Prose(text=f"n/a: {reason}.{more}")


def confidence(line: TimeLine) -> Confidence:
    """Return the response times of all measurements of ``line`` together; percentiles are never above MRT."""
    measurements = line.measurements
    ios = sum(part.ios for part in measurements)
    transferred = sum(part.read.transferred_bytes + part.write.transferred_bytes for part in measurements)
    runtime_ms = sum(part.runtime_ms for part in measurements)
    times_us = (
        average_response_us(measurements) if ios else None,
        *percentiles_response_us(measurements, NINES),
        max(part.maximum_response_us for part in measurements) if ios else None,
    )
    return Confidence(
        ios=ios,
        iops=rate_per_second(ios, runtime_ms, ticks_per_second=1000),
        mb_per_second=rate_per_second(transferred, runtime_ms, ticks_per_second=1000) / MB,
        markers=tuple(
            Marker(name=name, ms=None if us is None else us / 1000) for name, us in zip(MARKERS, times_us, strict=True)
        ),
        histogram=line.histogram,
    )


def page(result: TestResult, line: TimeLine, *, title: str, name: str) -> Page:
    """Return the page on the response times of ``line``; ``name`` is the figure's."""
    interval = confidence(line)
    stimulus = f"{line.stimulus.label}, {line.stimulus.demand.label}"
    rates = (
        f"IOPS = {number(interval.iops)}, {number(interval.mb_per_second)} MB/s, MRT = {number(interval.maximum_ms)} ms"
    )
    caption = f"Confidence Level Plot (CLP). {stimulus}: {rates}. {chart_conditions(result)}."
    if not interval.histogram.counted:
        return Page(
            title=title, blocks=(Prose(text=caption), Prose(text="No response times were recorded.", kind="bad"))
        )
    drawn, counted = len(rebinned(interval)[0]), len(interval.histogram.bins)
    seconds = sum(part.runtime_ms for part in line.measurements) / 1000
    together = ", reads and writes together," if 0 < line.stimulus.read_percent < 100 else ""
    method = (
        f"{thousands(interval.ios, 0)} I/Os{together} in {duration(seconds)}, drawn in {drawn} bins, {BINS_PER_DECADE} "
        f"per decade (recorded in {counted} bins); the line is the cumulative percentage, which the lower plot repeats "
        "on a scale of nines."
    )
    figure = Figure(
        name=name,
        caption=" ".join(filter(None, (caption, method, line_note(result, line)))),
        alt=f"Histogram of response times, both axes log, of {stimulus}, with their cumulative percentage, "
        f"below it on a scale of nines, and marks at {', '.join(marker.name for marker in interval.known_markers)}.",
        draw=partial(histogram, interval),
        height=HEIGHT,
    )
    missing = missing_percentiles(result, [interval], " The figure has no mark for it.")
    return Page(title=title, blocks=(figure, table({stimulus: interval}), *missing))


def table(intervals: Mapping[str, Confidence], *, title: str = "Response times") -> Table:
    """Return the values of plots, a row for each, by name; ``n/a`` if there are too few I/Os for a percentile."""
    plots = list(intervals.values())
    times = {name: [values.markers[index].ms for values in plots] for index, name in enumerate(MARKERS)}
    columns = (
        Column(heading="Stimulus", width=18),
        Column(heading="I/Os", align="right", width=14),
        Column(heading="IOPS", align="right", width=9),
        Column(heading="MB/s", align="right", width=9),
        *(Column(heading=f"{name} (ms)", align="right", width=10) for name in times),
    )
    cells = (
        tuple(intervals),
        [thousands(values.ios, 0) for values in plots],
        significant(values.iops for values in plots),
        significant(values.mb_per_second for values in plots),
        *map(significant, times.values()),
    )
    return Table(kind="numbers", columns=columns, rows=tuple(zip(*cells, strict=True)), title=title)


def rebinned(intervals: Confidence) -> tuple[list[int], list[float]]:
    """Return I/Os by bin of the log grid, and the bins' edges in ms (one more than bins); requires at least one I/O."""
    places = [
        (math.floor(BINS_PER_DECADE * math.log10(_clamped_ms(edge, intervals))), count)
        for edge, count in intervals.histogram.bins
        if count
    ]
    first, last = places[0][0], places[-1][0]
    counts = [0] * (last - first + 1)
    for place, count in places:
        counts[place - first] += count
    return counts, [10 ** (place / BINS_PER_DECADE) for place in range(first, last + 2)]


def _clamped_ms(edge_ns: int, intervals: Confidence) -> float:
    """Return a bin's value in ms, at most MRT: the value of a bin represents all I/Os in it."""
    return min(max(edge_ns, 1) / 1000 / 1000, intervals.maximum_ms)


def cumulative(intervals: Confidence) -> tuple[list[float], list[float]]:
    """Return response times in ms, ascending, and for each the percentage of I/Os with at most that time."""
    bins = intervals.histogram.bins
    total = intervals.histogram.count
    sums = itertools.accumulate(count for _, count in bins)
    return [_clamped_ms(edge, intervals) for edge, _ in bins], [100 * item / total for item in sums]


def nines(intervals: Confidence) -> tuple[list[float], list[float]]:
    """Return response times in ms, ascending, and for each the nines of the I/Os with at most that time: 2 for 99 %.

    The longest response time has none: no I/O is slower.
    """
    bins, total = intervals.histogram.bins, intervals.histogram.count
    slower = [total - done for done in itertools.accumulate(count for _, count in bins)]
    shown = [(_clamped_ms(edge, intervals), rest) for (edge, _), rest in zip(bins, slower, strict=True) if rest]
    return [ms for ms, _ in shown], [math.log10(total / rest) for _, rest in shown]


def histogram(intervals: Confidence) -> Drawing:
    """Draw the histogram with the cumulative percentage on a second axis, and the latter on a scale of nines below.

    The markers have their labels above.
    """
    figure = canvas(height=HEIGHT)
    margins = {"left": 0.95, "right": 0.75}
    axes = plot(figure, **margins, bottom=0.75 + _NINES_HEIGHT, top=_STRIP_HEIGHT + 0.12)
    below = plot(figure, **margins, bottom=0.55, top=HEIGHT - 0.55 - _NINES_HEIGHT)
    ax.dress(axes)
    counts, edges = rebinned(intervals)
    known = [marker.ms for marker in intervals.known_markers if marker.ms is not None]
    for plotted in (axes, below):
        _time_axis(plotted, min(*edges, *known), max(*edges, *known))
    axes.set_xlabel("")
    axes.tick_params(labelbottom=False)
    _draw_nines(below, intervals, edges)
    _count_axis(axes, max(counts))
    axes.stairs(counts, edges, fill=True, color=_BARS, linewidth=0, baseline=axes.get_ylim()[0])
    right = axes.twinx()
    times, shares = cumulative(intervals)
    right.step([edges[0], *times, edges[-1]], [0.0, *shares, 100.0], where="post", color=_LINE, linewidth=1.3)
    right.set_ylim(0, 104)
    right.set_yticks(range(0, 101, 20))
    right.set_ylabel("Cumulative I/Os (%)", color=_LINE)
    right.tick_params(length=0, labelcolor=_LINE)
    right.spines[["top", "left", "bottom", "right"]].set_visible(False)
    _mark(axes, intervals)
    for marker in intervals.known_markers:
        below.axvline(marker.ms or math.nan, color=_MARKER_COLOURS[marker.name], linewidth=1.2, zorder=5)
    return figure


def _draw_nines(axes: Axes, intervals: Confidence, edges: Sequence[float]) -> None:
    """Draw the cumulative percentage on an axis on which 90, 99 and 99.9 % are equally far apart."""
    ax.dress(axes)
    times, values = nines(intervals)
    last = max(1, math.ceil(math.log10(intervals.histogram.count)))
    axes.step(
        [edges[0], *times, intervals.maximum_ms],
        [0.0, *values, max(values, default=0.0)],
        where="post",
        color=_LINE,
        linewidth=1.3,
    )
    axes.set_ylim(0, last)
    ticks = range(last + 1)
    labels = [f"{100 - 100 / 10**tick:.{max(0, tick - 2)}f}" for tick in ticks]
    axes.set_yticks(ticks, labels, fontsize=7 if last < 10 else 5)
    axes.set_ylabel("Cumulative I/Os (%)", color=_LINE, fontsize=7.5, labelpad=1)
    axes.tick_params(axis="y", labelcolor=_LINE)


def _time_axis(axes: Axes, low: float, high: float) -> None:
    ends, ticks = ax.log_axis(low, high)
    axes.set_xscale("log")
    room = (ends[1] / ends[0]) ** 0.02  # for a line at either end
    axes.set_xlim(ends[0] / room, ends[1] * room)
    axes.set_xticks(ticks, [ax.tick_label(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("Response time (ms, log)")


def _count_axis(axes: Axes, maximum: int) -> None:
    """Scale the axis of counts; it starts below 1 so that a single I/O is visible."""
    from matplotlib.ticker import EngFormatter

    (_, end), ticks = ax.log_axis(1, max(2, maximum) * 1.5)
    axes.set_yscale("log")
    axes.set_ylim(0.5, end)
    axes.set_yticks(ticks, list(map(EngFormatter(), ticks)))
    axes.minorticks_off()
    axes.set_ylabel("I/Os per bin (log)")


def _mark(axes: Axes, intervals: Confidence) -> None:
    """Draw a line at each marker, and its label above the plot, shifted as little as possible to avoid overlaps."""
    box = axes.get_position()
    width, height = axes.figure.get_size_inches()  # type: ignore[union-attr]  # only a subfigure has none
    inches_wide, inches_high = box.width * width, box.height * height
    low, high = map(math.log10, axes.get_xlim())
    known = [
        (marker.ms, _MARKER_COLOURS[marker.name], marker.name)
        for marker in intervals.known_markers
        if marker.ms is not None
    ]
    marked = sorted(known, key=lambda entry: entry[0])
    places = [inches_wide * (math.log10(ms) - low) / (high - low) for ms, _, _ in marked]
    transform, heights = axes.transAxes, (1 + 0.2 / inches_high, 1 + 0.24 / inches_high)
    label_places = spread_apart(places, _LABEL_WIDTH, 0.3, inches_wide - 0.3)
    for place, label_place, (ms, colour, name) in zip(places, label_places, marked, strict=True):
        x, label_x = place / inches_wide, label_place / inches_wide
        axes.plot([x, x], [0, 1], transform=transform, color=colour, linewidth=1.2, label=name, zorder=5)
        axes.plot([x, label_x], [1, heights[0]], transform=transform, color=colour, linewidth=0.8, clip_on=False)
        axes.text(
            label_x,
            heights[1],
            f"{name}\n{number(ms)} ms",
            transform=transform,
            ha="center",
            va="bottom",
            fontsize=7.5,
            color=INK,
            linespacing=1.25,
        )


def spread_apart(places: Sequence[float], distance: float, low: float, high: float) -> list[float]:
    """Return ascending ``places`` moved as little as possible to be ``distance`` apart, within ``low`` and ``high``.

    Least squares: runs of places that are too close to each other are spread around their mean.  They must fit.
    """
    runs: list[tuple[float, int]] = []  # mean and length of runs, with ``distance`` subtracted for each place before
    for order, place in enumerate(places):
        mean, length = place - order * distance, 1
        while runs and runs[-1][0] > mean:
            before, longer = runs.pop()
            mean = (mean * length + before * longer) / (length + longer)
            length += longer
        runs.append((mean, length))
    highest = high - (len(places) - 1) * distance
    reduced = [min(max(mean, low), highest) for mean, length in runs for _ in range(length)]
    return [place + order * distance for order, place in enumerate(reduced)]
