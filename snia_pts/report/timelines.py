"""A continuous stimulus over time, over what was written, over drive fills: figures of time lines.

A time line may have a value a second over a week.  What is drawn has no more than ``MOST_COLUMNS`` columns: samples are
taken together, a rate over all their time (or I/Os), with a light band from their lowest to their highest.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..result import Sampling
from ..timeline import TimeLine
from ..units import GB, MB
from . import axes as ax
from .figures import canvas, plot
from .header import NOT_ACHIEVED
from .pages import FIGURE_HEIGHT, FIGURE_WIDTH
from .style import INK, QUIET

if TYPE_CHECKING:
    import numpy
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    Numbers = numpy.ndarray[Any, numpy.dtype[numpy.float64]]

#: A figure on paper is about so many dots wide.
MOST_COLUMNS = 1500
#: Few samples are shown as points too.
_FEW = 60
#: Steps between ticks of a time axis, in minutes and in hours, and how many ticks it has at most.
_MINUTES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 20, 30, 60)
_HOURS = (0.1, 0.2, 0.5, 1, 2, 3, 4, 6, 12, 24, 48)
_MOST_TICKS = 14
#: Longer axes are in hours.
_MOST_MINUTES = 1000.0
_LEFT, _RIGHT, _BOTTOM, _LEGEND = 0.85, 0.3, 0.58, 0.21
_BETWEEN = 0.12

Along = Literal["time", "written", "fills"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """What is drawn of a time line: its name in file names and in labels, its unit, its colour everywhere.

    ``amounts`` and ``weights`` are per sample, the value amount by weight.  Without weights an amount is the value, and
    of samples taken together the highest is drawn: a mean of percentiles is no percentile.
    """

    name: str
    label: str
    unit: str
    colour: str
    amounts: Callable[[TimeLine], Numbers]
    weights: Callable[[TimeLine], Numbers] | None = None

    @property
    def heading(self) -> str:
        """Name and unit: ``ART (ms)``, and just ``IOPS`` for what is its own unit."""
        return self.label if self.label == self.unit else f"{self.label} ({self.unit})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A quantity as it is drawn: a value for every column, and the band where columns are of more than one sample."""

    x: Numbers
    values: Numbers
    low: Numbers
    high: Numbers
    samples: int

    @property
    def banded(self) -> bool:
        """Whether samples were taken together."""
        return self.samples > len(self.x)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A curve with its name in the legend and its look."""

    curve: Curve
    label: str
    colour: str
    quantity: Quantity
    points: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A place on the x axis where something begins: a line, and its name, or a shorter one, to the right of it."""

    x: float
    name: str
    short: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A horizontal line: a baseline, or what is held against it."""

    value: float
    label: str
    colour: str = INK
    dash: Any = (0, (5, 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dots:
    """Single points drawn over the curves: the samples that steady state was judged on."""

    points: Sequence[tuple[float, float]]
    label: str


def column(line: TimeLine, name: str) -> Numbers:
    """Return a column of ``line`` as numbers."""
    import numpy

    return numpy.array(getattr(line, name), dtype=float)


def _ios(line: TimeLine) -> Numbers:
    return column(line, "read_ios") + column(line, "write_ios")


IOPS = Quantity(
    name="iops", label="IOPS", unit="IOPS", colour="#0072b2", amounts=_ios,
    weights=lambda line: column(line, "seconds"),
)  # fmt: skip
THROUGHPUT = Quantity(
    name="throughput", label="Throughput", unit="MB/s", colour="#009e73",
    amounts=lambda line: (column(line, "read_bytes") + column(line, "write_bytes")) / MB,
    weights=lambda line: column(line, "seconds"),
)  # fmt: skip
ART = Quantity(
    name="art", label="ART", unit="ms", colour="#e69f00",
    amounts=lambda line: column(line, "average_response_us") / 1000 * _ios(line), weights=_ios,
)  # fmt: skip
NINES = Quantity(
    name="five-nines", label="99.999 %", unit="ms", colour="#cc79a7",
    amounts=lambda line: column(line, "five_nines_us") / 1000,
)  # fmt: skip
MRT = Quantity(
    name="mrt", label="MRT", unit="ms", colour="#d55e00",
    amounts=lambda line: column(line, "maximum_response_us") / 1000,
)  # fmt: skip


def places(line: TimeLine, along: Along, capacity_bytes: int = 0) -> Numbers:
    """Return where every sample's end lies: in seconds, in GB written, or in drive fills."""
    import numpy

    if along == "time":
        return column(line, "ended_seconds")
    written: Numbers = numpy.cumsum(column(line, "write_bytes"))
    return written / (GB if along == "written" else capacity_bytes)


def rates(line: TimeLine, quantity: Quantity) -> Numbers:
    """Return ``quantity`` of every sample; nan where it has none."""
    amounts, weights = _columns(line, quantity)
    return _by(amounts, weights)


def mean(line: TimeLine, quantity: Quantity) -> float:
    """Return ``quantity`` of all samples together: all amounts by all weights; nan of nothing."""
    amounts, weights = _columns(line, quantity)
    total = math.fsum(weights)
    return math.fsum(amounts) / total if total > 0 else math.nan


def highest(line: TimeLine, quantity: Quantity) -> float:
    """Return ``quantity`` of the sample that has the highest; nan of nothing."""
    return max(ax.finite(rates(line, quantity)), default=math.nan)


def lowest(line: TimeLine, quantity: Quantity) -> float:
    """Return ``quantity`` of the sample that has the lowest; nan of nothing."""
    return min(ax.finite(rates(line, quantity)), default=math.nan)


def curve(x: Numbers, line: TimeLine, quantity: Quantity, rows: slice = slice(None)) -> Curve:
    """Return ``quantity`` at the ``rows`` of ``line``, its samples at ``x``, in columns of equally many samples."""
    import numpy

    amounts, weights = (each[rows] for each in _columns(line, quantity))
    x, single = x[rows], _by(amounts, weights)
    starts = numpy.arange(0, len(x), max(1, math.ceil(len(x) / MOST_COLUMNS)))
    if len(starts) == len(x):
        return Curve(x=x, values=single, low=single, high=single, samples=len(x))
    low, high = numpy.fmin.reduceat(single, starts), numpy.fmax.reduceat(single, starts)
    values = high
    if quantity.weights is not None:
        values = _by(numpy.add.reduceat(amounts, starts), numpy.add.reduceat(weights, starts))
    middle = numpy.add.reduceat(x, starts) / numpy.diff([*starts, len(x)])
    return Curve(x=middle, values=values, low=low, high=high, samples=len(x))


def _columns(line: TimeLine, quantity: Quantity) -> tuple[Numbers, Numbers]:
    import numpy

    amounts = quantity.amounts(line)
    return amounts, numpy.ones(len(amounts)) if quantity.weights is None else quantity.weights(line)


def _by(amounts: Numbers, weights: Numbers) -> Numbers:
    import numpy

    values: Numbers = numpy.full(len(amounts), math.nan)
    numpy.divide(amounts, weights, out=values, where=weights > 0)
    return values


def series(
    line: TimeLine,
    quantity: Quantity,
    *,
    along: Along = "time",
    capacity_bytes: int = 0,
    shift: float = 0.0,
    span: tuple[float, float] = (-math.inf, math.inf),
    label: str = "",
    colour: str = "",
    points: bool = False,
) -> Series:
    """Return the samples of ``line``, moved by ``shift``, that lie in ``span``; by default in the quantity's look."""
    import numpy

    x = places(line, along, capacity_bytes) + shift
    first, last = numpy.searchsorted(x, span[0], side="left"), numpy.searchsorted(x, span[1], side="right")
    drawn = curve(x, line, quantity, slice(int(first), int(last)))
    return Series(
        curve=drawn, label=label or quantity.label, colour=colour or quantity.colour, quantity=quantity, points=points
    )


def known(shown: Sequence[Series]) -> list[Series]:
    """Return the series that have a value anywhere; percentiles of samples with too few I/Os have none."""
    import numpy

    return [each for each in shown if len(each.curve.x) and numpy.isfinite(each.curve.values).any()]


def reduction(shown: Sequence[Series], *, log: bool = False) -> str:
    """Tell how samples were taken together, and what a log axis cannot show; empty where every sample is shown."""
    import numpy

    told = ""
    banded = [each for each in shown if each.curve.banded]
    if banded:
        most = max(math.ceil(each.curve.samples / len(each.curve.x)) for each in banded)
        peaks = any(each.quantity.weights is None for each in banded)
        means = any(each.quantity.weights is not None for each in banded)
        kinds = " ".join(
            text
            for text, used in (
                ("the line is their mean, the band goes from the lowest to the highest.", means),
                ("Of percentiles and MRT the line is the highest, the band goes down to the lowest.", peaks),
            )
            if used
        )
        told = f" Up to {most} samples are drawn as one: {kinds}"
    if log and any((each.curve.values <= 0).any() for each in shown if numpy.isfinite(each.curve.low).any()):
        told += " Samples without any I/O have no place on a log axis."
    return told


def window_dots(sampling: Sampling | None) -> list[Dots]:
    """Return the IOPS of the samples in the last window, by their time; nothing while there is none."""
    if sampling is None or sampling.window is None:
        return []
    judged = [each for each in sampling.rounds if each.number in sampling.window.numbers]
    label = "measurement window" if sampling.steady else f"last window, {NOT_ACHIEVED}"
    return [Dots(points=[(60 * each.minute, each.sample.iops) for each in judged], label=label)]


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
    height: float = FIGURE_HEIGHT,
) -> Drawing:
    """Draw series against time, GB written or drive fills; ``span`` is the x axis' range, all of it by default.

    Along time, x is in seconds; the axis is labelled in minutes or hours.
    """
    figure = canvas(height=height)
    drawn: tuple[Series | Level | Dots, ...] = (*shown, *levels, *dots)
    columns, rows = _legend_shape([each.label for each in drawn])
    bottom, top = _BOTTOM + _LEGEND * rows, 0.42 if marks else 0.2
    axes = plot(figure, left=_LEFT, right=_RIGHT, bottom=bottom, top=top)
    ax.dress(axes)
    begin, end = span or (0.0, max((float(each.curve.x[-1]) for each in shown if len(each.curve.x)), default=0.0))
    factor = set_places(axes, begin, end, along)
    for order, each in enumerate(shown):
        _draw(axes, each, factor, order)
    for level in levels:
        axes.axhline(level.value, color=level.colour, linestyle=level.dash, linewidth=1.0, label=level.label, zorder=6)
    for single in dots:
        axes.plot(
            [x * factor for x, _ in single.points], [y for _, y in single.points], linestyle="none", marker="D",
            markersize=5, markerfacecolor="white", markeredgecolor=INK, markeredgewidth=1.2, zorder=7,
            label=single.label, clip_on=False,
        )  # fmt: skip
    values = [value for each in shown for part in (each.curve.low, each.curve.high) for value in part.tolist()]
    ax.set_y(axes, [*values, *(level.value for level in levels)], ylabel, log=log)
    _mark(axes, marks, factor)
    if rows:
        handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        axes.legend(
            list(handles.values()), list(handles), loc="upper center", ncols=columns, columnspacing=1.6,
            handlelength=2.4, bbox_to_anchor=(0.5, -0.45 / (height - bottom - top)), borderaxespad=0,
        )  # fmt: skip
    return figure


def _legend_shape(labels: Sequence[str]) -> tuple[int, int]:
    """Return columns and rows of a legend below the plot; no rows for a single name."""
    widths = [0.62 + 0.065 * len(label) for label in set(labels)]
    if len(widths) < 2:
        return 1, 0
    room = FIGURE_WIDTH - 0.5
    columns = len(widths) if sum(widths) <= room else max(1, int(room / max(widths)))
    rows = math.ceil(len(widths) / columns)
    return math.ceil(len(widths) / rows), rows


def _draw(axes: Axes, each: Series, factor: float, order: int) -> None:
    drawn = each.curve
    few = len(drawn.x) <= _FEW
    dots = {"linestyle": "none", "marker": "o", "markersize": 4 if few else 3, "markeredgewidth": 0}
    line = {"linewidth": 1.2, "marker": "o" if few else "none", "markersize": 3.2, "markeredgewidth": 0}
    if drawn.banded:
        axes.fill_between(
            drawn.x * factor, drawn.low, drawn.high, color=each.colour, alpha=0.25, linewidth=0, zorder=2 + order / 100
        )
    axes.plot(
        drawn.x * factor, drawn.values, color=each.colour, label=each.label, zorder=3 + order / 100,
        **(dots if each.points else line),
    )  # fmt: skip


def time_axis(begin: float, end: float) -> tuple[str, float, list[float]]:
    """Return the unit of a time axis over ``begin`` .. ``end`` seconds, its seconds, and the ticks in that unit."""
    minutes = end / 60 <= _MOST_MINUTES
    unit, seconds, steps = ("minutes", 60.0, _MINUTES) if minutes else ("hours", 3600.0, _HOURS)
    first, last = begin / seconds, end / seconds
    wanted = (last - first) / _MOST_TICKS
    place = bisect.bisect_left(steps, wanted * (1 - 1e-9))
    step = steps[place] if place < len(steps) else steps[-1] * math.ceil(wanted / steps[-1])
    ticks = [number * step for number in range(math.ceil(first / step - 1e-6), math.floor(last / step + 1e-6) + 1)]
    return unit, seconds, ticks


def set_places(axes: Axes, begin: float, end: float, along: Along) -> float:
    """Give ``axes`` an x axis from ``begin`` to ``end``; return what x is to be multiplied with."""
    if along == "time":
        unit, seconds, ticks = time_axis(begin, end)
        room = (end - begin or 1.0) / seconds
        axes.set_xlim(begin / seconds - 0.01 * room, end / seconds + 0.01 * room)
        axes.set_xticks(ticks, [ax.tick_label(round(tick, 6)) for tick in ticks])
        axes.set_xlabel(f"Time ({unit})")
        return 1 / seconds
    ticks = [tick for tick in ax.linear_ticks(begin, end) if tick <= end * (1 + 1e-9)]
    room = end - begin or 1.0
    axes.set_xlim(begin - 0.01 * room, end + 0.01 * room)
    axes.set_xticks(ticks, [ax.tick_label(round(tick, 9)) for tick in ticks])
    axes.set_xlabel("Total host writes, TGBW (GB)" if along == "written" else "Total host writes (drive fills)")
    return 1.0


def _mark(axes: Axes, marks: Sequence[Mark], factor: float) -> None:
    """Draw what begins where; a name that has no room before the next is shortened, then left out."""
    low, high = axes.get_xlim()
    width = axes.get_position().width * axes.figure.get_size_inches()[0]  # type: ignore[union-attr]
    inches = [(mark.x * factor - low) / (high - low) * width for mark in marks]
    for mark, at, next_at in zip(marks, inches, [*inches[1:], width][: len(inches)], strict=True):
        if at > _BETWEEN:  # else it begins where the axis does
            axes.axvline(mark.x * factor, color=QUIET, linewidth=1.0, linestyle=(0, (2, 2)), zorder=1.5)
        text = next((text for text in (mark.name, mark.short) if _BETWEEN + 0.06 * len(text) < next_at - at), "")
        axes.text(at / width, 1.02, text, transform=axes.transAxes, ha="left", va="bottom", fontsize=7.5)
