"""Response-time histograms with the engine's bins, and the percentiles calculated from them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from itertools import accumulate, repeat
from operator import add, lt
from typing import Annotated

from annotated_types import Ge
from pydantic import TypeAdapter, ValidationError

from ..units import MAX_QUANTITY, Amount, Quantity

#: More than a test has points: result.xml, tables and pages all need the same percentiles of its points.
_CACHE_SIZE = 2048
#: A run computes millions of ranks, but of only a few different percents.
_CACHED_PERCENTS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Response times as counted by the engine.

    ``counted`` holds ``nanoseconds I/Os`` for each bin, ascending, separated by commas.  It is a single text because a
    run keeps thousands of histograms with a thousand bins each.
    """

    counted: str = ""

    def __post_init__(self) -> None:
        edges, _ = _columns(self.counted)
        if not all(map(lt, edges, edges[1:])):
            raise ValueError("histogram bins must ascend")
        if max(edges[-1:], default=0) > MAX_QUANTITY:
            raise ValueError(f"histogram bin above {MAX_QUANTITY} ns")

    @classmethod
    def from_bins(cls, bins: Iterable[tuple[int, int]]) -> Histogram:
        """Return the histogram of (nanoseconds, I/Os) pairs in any order; raise ValueError for a repeated bin."""
        return cls(counted=",".join(f"{edge} {count}" for edge, count in sorted(bins)))

    @property
    def bins(self) -> tuple[tuple[int, int], ...]:
        """The (nanoseconds, I/Os) pairs, ascending."""
        return tuple(zip(*_columns(self.counted), strict=True))

    @property
    def count(self) -> int:
        return sum(_columns(self.counted)[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncTimes:
    """Durations of the synchronizing calls (fsync, fdatasync) between the I/Os."""

    calls: Amount
    mean_ns: Quantity
    max_ns: Amount
    histogram: Histogram


@cache
def _numbers() -> TypeAdapter[list[int]]:
    return TypeAdapter(list[Annotated[int, Ge(0)]])


@lru_cache(maxsize=1)  # a new histogram is checked, and then its count
def _columns(counted: str) -> tuple[list[int], list[int]]:
    """Return the nanoseconds and the I/Os of the bins, which callers must not change; raises ValueError."""
    try:  # A run has millions of bins; parsing them as JSON takes a quarter of the time of int().
        numbers = _numbers().validate_json(f"[{counted.replace(' ', ',')}]", strict=True)
    except ValidationError:
        raise ValueError("histogram bins must be whole numbers from 0") from None
    if len(numbers) % 2:
        raise ValueError("histogram bin without a count")
    return numbers[::2], numbers[1::2]


def merge(histograms: Iterable[Histogram]) -> Histogram:
    """Return the sum of the histograms."""
    filled = [histogram for histogram in histograms if histogram.counted]
    return filled[0] if len(filled) == 1 else Histogram.from_bins(_totals(filled).items())


def percentiles_ns(histograms: Iterable[Histogram], percents: Sequence[float]) -> tuple[int | None, ...]:
    """Return percentiles of the sum of ``histograms``: for each percent, the edge of the bin that contains it.

    None if there are too few I/Os: percentile q needs at least 1 / (1 - q) of them, which is 100 000 for five nines.
    """
    filled = tuple(histogram for histogram in histograms if histogram.counted)
    return _percentiles_ns(filled, tuple(percents))


def percentile_rank(count: int, percent: float) -> int | None:
    """Return the rank of a percentile in ``count`` sorted values, counted from 1; None if there are too few values.

    The rank is exact for the percent as written (99.9 is 999/1000); floating point is off by one for some counts.
    Raises ValueError for a percent that is not between 0 and 100.
    """
    share, whole = _exact_ratio(percent)
    return -(-count * share // whole) if count * (whole - share) >= whole else None


@lru_cache(maxsize=_CACHED_PERCENTS)
def _exact_ratio(percent: float) -> tuple[int, int]:
    """Return a percent, exactly as written, as a ratio of integers; raises ValueError as ``percentile_rank`` does."""
    exact = Fraction(str(percent)) / 100
    if not 0 < exact < 1:
        raise ValueError(f"expected a percent between 0 and 100, got {percent}")
    return exact.as_integer_ratio()


@lru_cache(maxsize=_CACHE_SIZE)
def _percentiles_ns(histograms: tuple[Histogram, ...], percents: tuple[float, ...]) -> tuple[int | None, ...]:
    counts = _totals(histograms)
    bins = sorted(counts)
    cumulative = list(accumulate(map(counts.__getitem__, bins)))
    ranks = [percentile_rank(cumulative[-1] if cumulative else 0, percent) for percent in percents]
    return tuple(None if rank is None else bins[bisect_left(cumulative, rank)] for rank in ranks)


def _totals(histograms: Iterable[Histogram]) -> dict[int, int]:
    """Return how many I/Os of all histograms are in each bin, by the bin's nanoseconds."""
    total: dict[int, int] = {}
    for histogram in histograms:
        edges, counts = _columns(histogram.counted)
        subtotals = map(total.get, edges, repeat(0))
        total.update(zip(edges, list(map(add, subtotals, counts)), strict=True))
    return total
