"""Response times in bins, as an engine counts them: what percentiles come from."""

from __future__ import annotations

import math
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

#: result.xml, tables and pages ask for the same percentiles of the same points: a test has fewer than that.
_ASKED_AGAIN = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Response times as counted by the engine: ``counted`` is ``nanoseconds I/Os`` a bin, ascending, with commas.

    One text, because a run keeps thousands of histograms of a thousand bins each.
    """

    counted: str = ""

    def __post_init__(self) -> None:
        edges, _ = self._columns()
        if not all(map(lt, edges, edges[1:])):
            raise ValueError("histogram bins must ascend")
        if max(edges[-1:], default=0) > MAX_QUANTITY:
            raise ValueError("a histogram bin beyond all that can be measured")

    @classmethod
    def of(cls, bins: Iterable[tuple[int, int]]) -> Histogram:
        """Return the histogram of (nanoseconds, I/Os) pairs in any order; raises ValueError on a repeated bin."""
        return cls(counted=",".join(f"{edge} {count}" for edge, count in sorted(bins)))

    @property
    def bins(self) -> tuple[tuple[int, int], ...]:
        """The (nanoseconds, I/Os) pairs, ascending."""
        return tuple(zip(*self._columns(), strict=True))

    @property
    def count(self) -> int:
        return sum(self._columns()[1])

    def _columns(self) -> tuple[list[int], list[int]]:
        try:  # a run has millions of them: they are read as JSON, in a quarter of the time that Python takes
            numbers = _numbers().validate_json(f"[{self.counted.replace(' ', ',')}]", strict=True)
        except ValidationError:
            raise ValueError("histogram bins must be whole numbers from 0") from None
        if len(numbers) % 2:
            raise ValueError("a histogram bin without its count")
        return numbers[::2], numbers[1::2]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncTimes:
    """How long the synchronizing calls between the I/Os took: fsync, fdatasync."""

    calls: Amount
    mean_ns: Quantity
    max_ns: Amount
    histogram: Histogram


@cache
def _numbers() -> TypeAdapter[list[int]]:
    return TypeAdapter(list[Annotated[int, Ge(0)]])


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """Return the histogram of all together."""
    counted = [each for each in histograms if each.counted]
    return counted[0] if len(counted) == 1 else Histogram.of(_totals(counted).items())


def percentiles_ns(histograms: Iterable[Histogram], percents: Sequence[float]) -> tuple[int | None, ...]:
    """Return for each percent the bin below or in which so many of the I/Os of all ``histograms`` together lie.

    None where there are too few I/Os to tell: a percentile of q needs at least 1 / (1 - q) of them, 100 000 for five
    nines.
    """
    return _percentiles_ns(tuple(histograms), tuple(percents))


def percentile_rank(count: int, percent: float) -> int | None:
    """Return which of ``count`` sorted values is a percentile, counted from 1; None where there are too few values.

    Exact for the percent as written (99.9 is 999/1000), as floating point is off by one for some counts.
    Raises ValueError for a percent that is not between 0 and 100.
    """
    exact = Fraction(str(percent))
    if not 0 < exact < 100:
        raise ValueError(f"expected a percent between 0 and 100, got {percent}")
    return math.ceil(count * exact / 100) if count * (100 - exact) >= 100 else None


@lru_cache(maxsize=_ASKED_AGAIN)
def _percentiles_ns(histograms: tuple[Histogram, ...], percents: tuple[float, ...]) -> tuple[int | None, ...]:
    counts = _totals(histograms)
    bins = sorted(counts)
    seen = list(accumulate(map(counts.__getitem__, bins)))
    ranks = [percentile_rank(seen[-1] if seen else 0, percent) for percent in percents]
    return tuple(None if rank is None else bins[bisect_left(seen, rank)] for rank in ranks)


def _totals(histograms: Iterable[Histogram]) -> dict[int, int]:
    """Return the I/Os of all together, by nanoseconds."""
    total: dict[int, int] = {}
    for each in histograms:
        edges, counts = each._columns()
        before = map(total.get, edges, repeat(0))
        total.update(zip(edges, list(map(add, before, counts)), strict=True))
    return total
