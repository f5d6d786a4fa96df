"""The response time histogram with its confidence levels (PTS 2.0.2 sections 9.2 and 10.2.4, chapters 13 and 14).

Engines count response times in bins some 1 % wide: too fine to be seen.  For drawing they are counted again into the
bins of a log grid; percentiles and the cumulative line come from the bins as the engine counted them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ...model.histogram import Histogram
from ...model.measurement import NINES, average_response_us, percentile_response_us, rate_per_second
from ...model.time_series import TimeLine
from ...results.result import TestResult
from ...units import MB, duration, number
from ..figures import axes as ax
from ..figures.figure import canvas, plot
from ..figures.matrices import WEIGHTED_ART
from ..figures.style import INK
from ..pages import Figure, Page, Prose
from ..tables import Column, Table, aligned, thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

#: Bins a decade of the log grid that histograms are drawn on.
BINS_A_DECADE = 20
#: What the plot marks, in the order of tables.
MARKERS = ("ART", *(f"{percent:g} %" for percent in NINES), "MRT")
_COLOURS = ("#009e73", "#a08a00", "#e69f00", "#d55e00", "#b00020")
_BARS, _LINE = "#9ecae1", "#0072b2"
#: Room that a marker's label takes, and the height of the strip of labels above the plot, in inches.
_LABEL_WIDTH, _STRIP = 0.82, 0.62


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """A response time that the plot marks: its name, and where it lies in ms; None with too few I/Os to tell."""

    name: str
    ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Confidence:
    """What is known of the response times of one stimulus: rates, the markers ART, nines and MRT, and the bins."""

    ios: int
    iops: float
    mb_per_second: float
    markers: tuple[Marker, ...]
    histogram: Histogram

    @property
    def maximum_ms(self) -> float:
        """MRT in ms; nan when no I/O was done."""
        last = self.markers[-1].ms
        return math.nan if last is None else last

    @property
    def known(self) -> tuple[Marker, ...]:
        """The markers that have a place."""
        return tuple(marker for marker in self.markers if marker.ms is not None)


def confidence(line: TimeLine) -> Confidence:
    """Return the response times of all stretches of ``line`` together; percentiles are never above MRT."""
    measured = line.measurements
    ios = sum(each.ios for each in measured)
    moved = sum(each.read.transferred_bytes + each.write.transferred_bytes for each in measured)
    runtime_ms = sum(each.runtime_ms for each in measured)
    times_us = (
        average_response_us(measured) if ios else None,
        *(percentile_response_us(measured, percent) for percent in NINES),
        max(each.maximum_response_us for each in measured) if ios else None,
    )
    return Confidence(
        ios=ios,
        iops=rate_per_second(ios, runtime_ms),
        mb_per_second=rate_per_second(moved, runtime_ms) / MB,
        markers=tuple(
            Marker(name=name, ms=None if us is None else us / 1000) for name, us in zip(MARKERS, times_us, strict=True)
        ),
        histogram=line.histogram,
    )


def page(result: TestResult, line: TimeLine, *, title: str, name: str) -> Page:
    """Return the page of the response times of ``line``; ``name`` is the figure's."""
    found = confidence(line)
    what = f"{line.stimulus.label}, {line.stimulus.demand.label}"
    rates = f"IOPS = {number(found.iops)}, {number(found.mb_per_second)} MB/s, MRT = {number(found.maximum_ms)} ms"
    caption = f"CLP. {what}: {rates}. {_conditions(result)}."
    if not found.histogram.counted:
        return Page(title=title, blocks=(Prose(text=caption), Prose(text="No response time was counted.", kind="bad")))
    drawn, counted = len(rebinned(found)[0]), len(found.histogram.bins)
    seconds = sum(each.runtime_ms for each in line.measurements) / 1000
    how = (
        f"{thousands(found.ios, 0)} I/Os in {duration(seconds)}, in {drawn} bins, {BINS_A_DECADE} a decade "
        f"(counted in {counted}); the line is their cumulative share."
    )
    figure = Figure(
        name=name,
        caption=f"{caption} {how}",
        alt=f"Histogram of response times, both axes log, of {what}, with their cumulative share in percent and "
        f"marks at {', '.join(marker.name for marker in found.known)}.",
        draw=partial(histogram, found),
    )
    return Page(title=title, blocks=(figure, table({what: found})))


def table(found: Mapping[str, Confidence], *, title: str = "Response times") -> Table:
    """Return the numbers of plots, each in a row by its name; ``n/a`` where there are too few I/Os to tell."""
    shown = list(found.values())
    times = {name: [each.markers[place].ms for each in shown] for place, name in enumerate(MARKERS)}
    columns = (
        Column(heading="Stimulus", width=18),
        Column(heading="I/Os", align="right", width=14),
        Column(heading="IOPS", align="right", width=9),
        Column(heading="MB/s", align="right", width=9),
        *(Column(heading=WEIGHTED_ART if name == "ART" else f"{name} (ms)", align="right", width=10) for name in times),
    )
    cells = (
        tuple(found),
        [thousands(each.ios, 0) for each in shown],
        aligned([each.iops for each in shown]),
        aligned([each.mb_per_second for each in shown]),
        *map(aligned, times.values()),
    )
    return Table(kind="numbers", columns=columns, rows=tuple(zip(*cells, strict=True)), title=title)


def _conditions(result: TestResult) -> str:
    spec = result.facts.spec
    caches = {"enabled": "WCE", "disabled": "WCD", "none": "no write cache"}
    cache = caches.get(result.facts.dut.write_cache, "write cache unknown")
    return f"{spec.revision}, {cache}, AR {spec.setup.active_range_percent} %"


def rebinned(found: Confidence) -> tuple[list[int], list[float]]:
    """Return I/Os by bin of the log grid, and the bins' edges in ms, one more than bins; there is a counted I/O."""
    places = [
        (math.floor(BINS_A_DECADE * math.log10(_clamped_ms(edge, found))), count)
        for edge, count in found.histogram.bins
        if count
    ]
    first, last = places[0][0], places[-1][0]
    counts = [0] * (last - first + 1)
    for place, count in places:
        counts[place - first] += count
    return counts, [10 ** (place / BINS_A_DECADE) for place in range(first, last + 2)]


def _clamped_ms(edge_ns: int, found: Confidence) -> float:
    """Return a bin's value in ms, never above MRT: a bin's value stands for all in it."""
    return min(max(edge_ns, 1) / 1000 / 1000, found.maximum_ms)


def cumulative(found: Confidence) -> tuple[list[float], list[float]]:
    """Return response times in ms, ascending, and the percent of the I/Os that took no longer."""
    bins = found.histogram.bins
    total = found.histogram.count
    sums = itertools.accumulate(count for _, count in bins)
    return [_clamped_ms(edge, found) for edge, _ in bins], [100 * each / total for each in sums]


def histogram(found: Confidence) -> Drawing:
    """Draw the histogram, the cumulative share on an axis of its own, and the markers with their labels above."""
    figure = canvas()
    axes = plot(figure, left=0.85, right=0.75, bottom=0.55, top=_STRIP + 0.12)
    ax.dress(axes)
    counts, edges = rebinned(found)
    known = [marker.ms for marker in found.known if marker.ms is not None]
    _time_axis(axes, min(*edges, *known), max(*edges, *known))
    _count_axis(axes, max(counts))
    axes.stairs(counts, edges, fill=True, color=_BARS, linewidth=0, baseline=axes.get_ylim()[0])
    beside = axes.twinx()
    times, shares = cumulative(found)
    beside.step([edges[0], *times, edges[-1]], [0.0, *shares, 100.0], where="post", color=_LINE, linewidth=1.3)
    beside.set_ylim(0, 104)
    beside.set_yticks(range(0, 101, 20))
    beside.set_ylabel("Cumulative I/Os (%)", color=_LINE)
    beside.tick_params(length=0, labelcolor=_LINE)
    beside.spines[["top", "left", "bottom", "right"]].set_visible(False)
    _mark(axes, found)
    return figure


def _time_axis(axes: Axes, low: float, high: float) -> None:
    ticks = ax.log_ticks(low, high)
    axes.set_xscale("log")
    axes.set_xlim(ticks[0], ticks[-1])
    axes.set_xticks(ticks, [ax.tick_label(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("Response time (ms, log)")


def _count_axis(axes: Axes, most: int) -> None:
    """Show counts from one I/O on: the axis begins below, so that one I/O has a height."""
    ticks = ax.log_ticks(1, max(2, most) * 1.5)
    axes.set_yscale("log")
    axes.set_ylim(0.5, ticks[-1])
    axes.set_yticks(ticks, [ax.tick_label(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_ylabel("I/Os a bin (log)")


def _mark(axes: Axes, found: Confidence) -> None:
    """Draw a line at each marker, and its label above the plot, moved aside as far as labels need and no farther."""
    box = axes.get_position()
    width, height = axes.figure.get_size_inches()  # type: ignore[union-attr]  # only a subfigure has none
    inches, tall = box.width * width, box.height * height
    low, high = map(math.log10, axes.get_xlim())
    colours = dict(zip(MARKERS, _COLOURS, strict=True))
    marked = sorted((marker.ms, colours[marker.name], marker.name) for marker in found.known if marker.ms is not None)
    places = [inches * (math.log10(ms) - low) / (high - low) for ms, _, _ in marked]
    across, up = axes.transAxes, (1 + 0.2 / tall, 1 + 0.24 / tall)
    for place, label, (ms, colour, name) in zip(
        places, apart(places, _LABEL_WIDTH, 0.3, inches - 0.3), marked, strict=True
    ):
        x, shown = place / inches, label / inches
        axes.plot([x, x], [0, 1], transform=across, color=colour, linewidth=1.2, label=name, zorder=5)
        axes.plot([x, shown], [1, up[0]], transform=across, color=colour, linewidth=0.8, clip_on=False)
        axes.text(
            shown,
            up[1],
            f"{name}\n{number(ms)} ms",
            transform=across,
            ha="center",
            va="bottom",
            fontsize=7.5,
            color=INK,
            linespacing=1.25,
        )


def apart(places: Sequence[float], least: float, low: float, high: float) -> list[float]:
    """Return ascending ``places`` moved at least ``least`` apart and between ``low`` and ``high``, as little as can be.

    Least squares: runs of places that are too near one another are spread around their mean.  There must be room.
    """
    runs: list[tuple[float, int]] = []  # mean and length of runs, after the room taken before each place is left out
    for order, place in enumerate(places):
        mean, length = place - order * least, 1
        while runs and runs[-1][0] > mean:
            before, longer = runs.pop()
            mean = (mean * length + before * longer) / (length + longer)
            length += longer
        runs.append((mean, length))
    highest = high - (len(places) - 1) * least
    level = [min(max(mean, low), highest) for mean, length in runs for _ in range(length)]
    return [each + order * least for order, each in enumerate(level)]
