"""A continuous stimulus over time, over what was written, over drive fills: what figures of time lines draw.

A time line may have a value a second over a week.  What is drawn has no more than ``MOST_COLUMNS`` columns: samples are
taken together, a rate over all their time (or I/Os), with a light band from their lowest to their highest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ...model.measurement import SHORTEST_RATED_MS
from ...model.time_series import TimeLine
from ...units import GB, MB
from . import axes as ax

if TYPE_CHECKING:
    import numpy

    Numbers = numpy.ndarray[Any, numpy.dtype[numpy.float64]]

#: A figure on paper is about so many dots wide.
MOST_COLUMNS = 1500

Along = Literal["time", "written", "fills"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """What is drawn of a time line: its name in file names and in labels, its unit, its colour everywhere.

    ``amounts`` and ``weights`` are per sample, the value amount by weight.  Without weights an amount is the value, and
    of samples taken together the highest is drawn: a mean of percentiles is no percentile.  There is no value where the
    weight is less than ``least_weight``.
    """

    name: str
    label: str
    unit: str
    colour: str
    amounts: Callable[[TimeLine], Numbers]
    weights: Callable[[TimeLine], Numbers] | None = None
    least_weight: float = 0.0

    @property
    def heading(self) -> str:
        """Name and unit: ``ART (ms)``, and just ``IOPS`` for what is its own unit."""
        return self.label if self.label == self.unit else f"{self.label} ({self.unit})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A quantity as it is drawn: a value for every column, of ``together`` samples at most, and the band of these."""

    x: Numbers
    values: Numbers
    low: Numbers
    high: Numbers
    together: int = 1

    @property
    def banded(self) -> bool:
        """Whether samples were taken together."""
        return self.together > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A curve with its name in the legend and its look."""

    curve: Curve
    label: str
    colour: str
    quantity: Quantity
    points: bool = False


def column(line: TimeLine, name: str) -> Numbers:
    """Return a column of ``line`` as numbers."""
    import numpy

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
    least_weight=SHORTEST_RATED_MS / 1000,
)
THROUGHPUT = Quantity(
    name="throughput",
    label="Throughput",
    unit="MB/s",
    colour="#009e73",
    amounts=lambda line: (column(line, "read_bytes") + column(line, "write_bytes")) / MB,
    weights=lambda line: column(line, "seconds"),
    least_weight=SHORTEST_RATED_MS / 1000,
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
    """Return a column that is a mean over time, and may lack values."""

    def amounts(line: TimeLine) -> Numbers:
        import numpy

        return numpy.nan_to_num(column(line, name) * column(line, "seconds"))

    def weights(line: TimeLine) -> Numbers:
        import numpy

        return numpy.where(numpy.isnan(column(line, name)), 0.0, column(line, "seconds"))

    return Quantity(name=name, label=label, unit=unit, colour=colour, amounts=amounts, weights=weights)


QUEUE = _by_time("queue", "I/Os in flight", "I/Os in flight", "#009e73")
CPU = _by_time("cpu_percent", "all CPUs", "%", "#222222")
BUSIEST = _by_time("busiest_cpu_percent", "busiest CPU", "%", "#e69f00")


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
    return _by(amounts, weights, quantity.least_weight)


def mean(line: TimeLine, quantity: Quantity) -> float:
    """Return ``quantity`` of all samples together: all amounts by all weights; nan of nothing."""
    amounts, weights = _columns(line, quantity)
    total = math.fsum(weights)
    return math.fsum(amounts) / total if total > 0 and total >= quantity.least_weight else math.nan


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
    x, single = x[rows], _by(amounts, weights, quantity.least_weight)
    together = max(1, math.ceil(len(x) / MOST_COLUMNS))
    if together == 1:
        return Curve(x=x, values=single, low=single, high=single)
    starts = numpy.arange(0, len(x), together)
    low, high = numpy.fmin.reduceat(single, starts), numpy.fmax.reduceat(single, starts)
    values = high
    if quantity.weights is not None:
        sums = numpy.add.reduceat(amounts, starts), numpy.add.reduceat(weights, starts)
        values = _by(*sums, quantity.least_weight)
    middle = numpy.add.reduceat(x, starts) / numpy.diff([*starts, len(x)])
    return Curve(x=middle, values=values, low=low, high=high, together=together)


def _columns(line: TimeLine, quantity: Quantity) -> tuple[Numbers, Numbers]:
    import numpy

    amounts = quantity.amounts(line)
    return amounts, numpy.ones(len(amounts)) if quantity.weights is None else quantity.weights(line)


def _by(amounts: Numbers, weights: Numbers, least_weight: float) -> Numbers:
    import numpy

    values: Numbers = numpy.full(len(amounts), math.nan)
    numpy.divide(amounts, weights, out=values, where=(weights > 0) & (weights >= least_weight))
    return values


def points(x: Sequence[float], values: Sequence[float], quantity: Quantity) -> Series:
    """Return single values of a quantity, drawn as points in its look."""
    import numpy

    y = numpy.array(values, dtype=float)
    drawn = Curve(x=numpy.array(x, dtype=float), values=y, low=y, high=y)
    return Series(curve=drawn, label=quantity.label, colour=quantity.colour, quantity=quantity, points=True)


def broken(line: TimeLine, quantity: Quantity, *, shift: float = 0.0) -> Series:
    """Return a line's samples, moved by ``shift``, with a break where something else ran between two.

    A sample by itself is drawn from its beginning to its end.
    """
    import numpy

    ends = places(line, "time") + shift
    pieces = [_piece(ends, line, quantity, rows) for rows in _unbroken(ends, column(line, "seconds"))]

    def joined(name: str) -> Numbers:
        parts = [numpy.append(getattr(each, name), each.x[-1] if name == "x" else math.nan) for each in pieces]
        whole: Numbers = numpy.concatenate(parts)[:-1]
        return whole

    x, values, low, high = map(joined, ("x", "values", "low", "high"))
    drawn = Curve(x=x, values=values, low=low, high=high, together=max(each.together for each in pieces))
    return Series(curve=drawn, label=quantity.label, colour=quantity.colour, quantity=quantity)


def _piece(ends: Numbers, line: TimeLine, quantity: Quantity, rows: slice) -> Curve:
    import numpy

    drawn = curve(ends, line, quantity, rows)
    if len(drawn.x) > 1:
        return drawn
    begin = drawn.x - line.seconds[rows.start]
    values, low, high = (numpy.repeat(each, 2) for each in (drawn.values, drawn.low, drawn.high))
    return Curve(x=numpy.append(begin, drawn.x), values=values, low=low, high=high)


def _unbroken(ends: Numbers, seconds: Numbers) -> list[slice]:
    """Return the rows of the samples that followed each other, each within half of its time."""
    import numpy

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
        most = max(each.curve.together for each in banded)
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
