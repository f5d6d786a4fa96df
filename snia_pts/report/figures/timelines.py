"""Curves of a continuous stimulus over time, bytes written or drive fills, for the figures of time lines.

Every figure draws a sample at its end.  A time line may have one value per second for a week.  A curve has at most
``MAX_COLUMNS`` columns: samples are combined into a rate over all their time (or I/Os), drawn at the end of the last
one, with a light band from the lowest to the highest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy

from ...model.measurement import SHORTEST_RATED_MS
from ...model.time_series import TimeLine
from ...units import GB, MB
from . import axes as ax

Numbers = numpy.ndarray[Any, numpy.dtype[numpy.float64]]

#: About the width of a printed figure in dots.
MAX_COLUMNS = 1500

Along = Literal["time", "written", "fills"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A quantity of a time line: its name in file names, its label, its unit, its colour in every figure.

    ``amounts`` and ``weights`` are per sample; the value is amount / weight.  Without weights the amount is the value,
    and of combined samples the highest is drawn, because a mean of percentiles is not a percentile.  If the weight is
    less than ``min_weight``, there is no value.
    """

    name: str
    label: str
    unit: str
    colour: str
    amounts: Callable[[TimeLine], Numbers]
    weights: Callable[[TimeLine], Numbers] | None = None
    min_weight: float = 0.0

    @property
    def heading(self) -> str:
        """Return name and unit, ``ART (ms)``; the name alone if it is the unit, ``IOPS``."""
        return self.label if self.label == self.unit else f"{self.label} ({self.unit})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The drawn values of a quantity: one per column of at most ``together`` samples, and the band of these samples."""

    x: Numbers
    values: Numbers
    low: Numbers
    high: Numbers
    together: int = 1

    @property
    def banded(self) -> bool:
        """Return whether samples were combined."""
        return self.together > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A curve with its legend label and its style."""

    curve: Curve
    label: str
    colour: str
    quantity: Quantity
    points: bool = False


def column(line: TimeLine, name: str) -> Numbers:
    """Return a column of ``line`` as numbers."""
    return numpy.array(getattr(line, name), dtype=float)


def _ios(line: TimeLine) -> Numbers:
    return column(line, "read_ios") + column(line, "write_ios")


IOPS = Quantity(
    name="iops",
    label="IOPS",
    unit="IOPS",
    colour="#0072b2",
    amounts=_ios,
    weights=lambda line: column(line, "seconds"),
    min_weight=SHORTEST_RATED_MS / 1000,
)
THROUGHPUT = Quantity(
    name="throughput",
    label="Throughput",
    unit="MB/s",
    colour="#009e73",
    amounts=lambda line: (column(line, "read_bytes") + column(line, "write_bytes")) / MB,
    weights=lambda line: column(line, "seconds"),
    min_weight=SHORTEST_RATED_MS / 1000,
)
ART = Quantity(
    name="art",
    label="ART",
    unit="ms",
    colour="#e69f00",
    amounts=lambda line: column(line, "average_response_us") / 1000 * _ios(line),
    weights=_ios,
)
NINES = Quantity(
    name="five-nines",
    label="99.999 %",
    unit="ms",
    colour="#cc79a7",
    amounts=lambda line: column(line, "five_nines_us") / 1000,
)
MRT = Quantity(
    name="mrt",
    label="MRT",
    unit="ms",
    colour="#d55e00",
    amounts=lambda line: column(line, "maximum_response_us") / 1000,
)
CELSIUS = Quantity(
    name="temperature",
    label="Temperature",
    unit="\N{DEGREE SIGN}C",
    colour="#b00020",
    amounts=lambda line: column(line, "celsius"),
)


def _by_time(name: str, label: str, unit: str, colour: str) -> Quantity:
    """Return the quantity of a column that is a mean over time, and may have missing values."""

    def amounts(line: TimeLine) -> Numbers:
        return numpy.nan_to_num(column(line, name) * column(line, "seconds"))

    def weights(line: TimeLine) -> Numbers:
        return numpy.where(numpy.isnan(column(line, name)), 0.0, column(line, "seconds"))

    return Quantity(name=name, label=label, unit=unit, colour=colour, amounts=amounts, weights=weights)


QUEUE = _by_time("queue", "I/Os in flight", "I/Os in flight", "#009e73")
CPU = _by_time("cpu_percent", "all CPUs", "%", "#222222")
BUSIEST = _by_time("busiest_cpu_percent", "busiest CPU", "%", "#e69f00")
POWER = _by_time("watts", "power meter", "W", "#cc79a7")
HOST_POWER = _by_time("host_watts", "CPU packages", "W", "#222222")


def places(line: TimeLine, along: Along, capacity_bytes: int = 0) -> Numbers:
    """Return the x position of every sample's end: in seconds, GB written or drive fills."""
    if along == "time":
        return column(line, "ended_seconds")
    written: Numbers = numpy.cumsum(column(line, "write_bytes"))
    return written / (GB if along == "written" else capacity_bytes)


def rates(line: TimeLine, quantity: Quantity) -> Numbers:
    """Return ``quantity`` of every sample; nan if a sample has none."""
    amounts, weights = _columns(line, quantity)
    return _divide(amounts, weights, quantity.min_weight)


def mean(line: TimeLine, quantity: Quantity) -> float:
    """Return ``quantity`` of all samples together: total amount / total weight; nan if there are none."""
    amounts, weights = _columns(line, quantity)
    total = math.fsum(weights)
    return math.fsum(amounts) / total if total > 0 and total >= quantity.min_weight else math.nan


def highest(line: TimeLine, quantity: Quantity) -> float:
    """Return the highest ``quantity`` of any sample; nan if there are none."""
    return max(ax.finite(rates(line, quantity)), default=math.nan)


def lowest(line: TimeLine, quantity: Quantity) -> float:
    """Return the lowest ``quantity`` of any sample; nan if there are none."""
    return min(ax.finite(rates(line, quantity)), default=math.nan)


def curve(x: Numbers, line: TimeLine, quantity: Quantity, rows: slice = slice(None)) -> Curve:
    """Return ``quantity`` at the ``rows`` of ``line``, its samples at ``x``, in columns of equally many samples."""
    amounts, weights = (item[rows] for item in _columns(line, quantity))
    x, single = x[rows], _divide(amounts, weights, quantity.min_weight)
    together = max(1, math.ceil(len(x) / MAX_COLUMNS))
    if together == 1:
        return Curve(x=x, values=single, low=single, high=single)
    starts = numpy.arange(0, len(x), together)
    low, high = numpy.fmin.reduceat(single, starts), numpy.fmax.reduceat(single, starts)
    values = high
    if quantity.weights is not None:
        sums = numpy.add.reduceat(amounts, starts), numpy.add.reduceat(weights, starts)
        values = _divide(*sums, quantity.min_weight)
    ends = x[numpy.append(starts[1:], len(x)) - 1]
    return Curve(x=ends, values=values, low=low, high=high, together=together)


def _columns(line: TimeLine, quantity: Quantity) -> tuple[Numbers, Numbers]:
    amounts = quantity.amounts(line)
    return amounts, numpy.ones(len(amounts)) if quantity.weights is None else quantity.weights(line)


def _divide(amounts: Numbers, weights: Numbers, min_weight: float) -> Numbers:
    values: Numbers = numpy.full(len(amounts), math.nan)
    numpy.divide(amounts, weights, out=values, where=(weights > 0) & (weights >= min_weight))
    return values


def points(x: Sequence[float], values: Sequence[float], quantity: Quantity) -> Series:
    """Return single values of a quantity as points, in its style."""
    y = numpy.array(values, dtype=float)
    drawn = Curve(x=numpy.array(x, dtype=float), values=y, low=y, high=y)
    return Series(curve=drawn, label=quantity.label, colour=quantity.colour, quantity=quantity, points=True)


def broken(line: TimeLine, quantity: Quantity, *, shift: float = 0.0) -> Series:
    """Return a line's samples, shifted by ``shift`` seconds, with a break between samples that are not consecutive.

    An isolated sample is drawn from its start to its end.
    """
    ends = places(line, "time") + shift
    pieces = [_piece(ends, line, quantity, rows) for rows in _consecutive_rows(ends, column(line, "seconds"))]

    def joined(name: str) -> Numbers:
        parts = [numpy.append(getattr(item, name), item.x[-1] if name == "x" else math.nan) for item in pieces]
        values: Numbers = numpy.concatenate(parts)[:-1]
        return values

    x, values, low, high = map(joined, ("x", "values", "low", "high"))
    drawn = Curve(x=x, values=values, low=low, high=high, together=max(item.together for item in pieces))
    return Series(curve=drawn, label=quantity.label, colour=quantity.colour, quantity=quantity)


def _piece(ends: Numbers, line: TimeLine, quantity: Quantity, rows: slice) -> Curve:
    drawn = curve(ends, line, quantity, rows)
    if len(drawn.x) > 1:
        return drawn
    start = drawn.x - line.seconds[rows.start]
    values, low, high = (numpy.repeat(item, 2) for item in (drawn.values, drawn.low, drawn.high))
    return Curve(x=numpy.append(start, drawn.x), values=values, low=low, high=high)


def _consecutive_rows(ends: Numbers, seconds: Numbers) -> list[slice]:
    """Return the rows of each run of consecutive samples; a gap of more than half a sample's time ends a run."""
    gaps = ends[1:] - seconds[1:] - ends[:-1]
    edges = [0, *(int(row) + 1 for row in numpy.flatnonzero(gaps > seconds[1:] / 2)), len(ends)]
    return [slice(first, last) for first, last in itertools.pairwise(edges)]


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
    """Return the samples of ``line`` within ``span``, shifted by ``shift``; by default in the quantity's style."""
    x = places(line, along, capacity_bytes) + shift
    first, last = numpy.searchsorted(x, span[0], side="left"), numpy.searchsorted(x, span[1], side="right")
    drawn = curve(x, line, quantity, slice(int(first), int(last)))
    return Series(
        curve=drawn, label=label or quantity.label, colour=colour or quantity.colour, quantity=quantity, points=points
    )


def with_values(shown: Sequence[Series]) -> list[Series]:
    """Return the series that have any value; percentiles of samples with too few I/Os have none."""
    return [part for part in shown if len(part.curve.x) and numpy.isfinite(part.curve.values).any()]


def is_wide(shown: Sequence[Series]) -> bool:
    """Return whether a linear axis would hide the lowest values of series."""
    return ax.is_wide(value for series in shown for value in (*series.curve.low, *series.curve.high))


def reduction(shown: Sequence[Series], *, log: bool = False) -> str:
    """Return a caption note on combined samples and on those missing on a log axis; empty if all are shown."""
    note = ""
    banded = [series for series in shown if series.curve.banded]
    if banded:
        largest = max(series.curve.together for series in banded)
        peaks = any(series.quantity.weights is None for series in banded)
        means = any(series.quantity.weights is not None for series in banded)
        kinds = " ".join(
            text
            for text, used in (
                ("the line is their mean, the band their range from lowest to highest.", means),
                (
                    "For percentiles and MRT, the line is the highest value and the band extends down to the lowest.",
                    peaks,
                ),
            )
            if used
        )
        note = f" Up to {largest} samples are combined into one point: {kinds}"
    if log and any((series.curve.values <= 0).any() for series in shown if numpy.isfinite(series.curve.low).any()):
        note += " Samples without I/O cannot be shown on a log axis."
    return note
