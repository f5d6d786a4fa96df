"""Response times in bins, as an engine counts them: what percentiles come from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from operator import lt

from .units import MOST


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Response times as counted by the engine: ``counted`` is ``nanoseconds I/Os`` a bin, ascending, with commas.

    One text, because a run keeps thousands of histograms of a thousand bins each.
    """

    counted: str = ""

    def __post_init__(self) -> None:
        edges, counts = self._columns()
        if not all(map(lt, edges, edges[1:])) or min((*edges[:1], *counts), default=0) < 0:
            raise ValueError("histogram bins must ascend and count from 0")
        if max(edges[-1:], default=0) > MOST:
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

    def merge(self, other: Histogram) -> Histogram:
        """Return the histogram of both together."""
        if not self.counted or not other.counted:
            return self if self.counted else other
        total = dict(self.bins)
        for edge, count in other.bins:
            total[edge] = total.get(edge, 0) + count
        return Histogram.of(total.items())

    def _columns(self) -> tuple[list[int], list[int]]:
        numbers = list(map(int, self.counted.replace(",", " ").split()))
        if len(numbers) % 2:
            raise ValueError("a histogram bin without its count")
        return numbers[::2], numbers[1::2]

    def percentile_ns(self, percent: float) -> int | None:
        """Return the bin below or in which ``percent`` of the I/Os lie; None when there are too few I/Os to tell.

        A percentile of q needs at least 1 / (1 - q) I/Os: 100 000 for five nines.
        """
        bins = self.bins
        total = sum(count for _, count in bins)
        if not 0 < percent < 100:
            raise ValueError("a percentile lies between 0 and 100")
        if total == 0 or total < round(100 / (100 - percent)):
            return None
        wanted, seen = math.ceil(total * percent / 100), 0
        for edge, count in bins:
            seen += count
            if seen >= wanted:
                return edge
        return None
