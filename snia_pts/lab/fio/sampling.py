"""Compute the samples of a continuous stimulus as differences of an engine's running totals.

The counters of one answer may differ by the few I/Os that complete while they are copied.  Each counter only grows, so
an I/O missing in one sample is in the next, and the samples add up to the totals.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from ...model.histogram import Histogram, percentiles_ns
from ...model.measurement import NINES, Sample

#: fio has fewer bins than this.
_MAX_BINS = 2048
#: The midpoint of fio's last bin, which has no upper edge.
LAST_BIN_NS = 17_112_760_320


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The reads, or the writes, since the start of the stimulus; ``response_ns`` sums up ``timed_ios`` of them.

    ``bins`` counts response times by the midpoint of each bin, in nanoseconds.
    """

    ios: int = 0
    transferred_bytes: int = 0
    runtime_ms: int = 0
    timed_ios: int = 0
    response_ns: float = 0.0
    response_max_ns: int = 0
    bins: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def combine(cls, sides: Sequence[Side]) -> Side:
        """Return the totals of several jobs that run at the same time."""
        bins = Counter[int]()
        for side in sides:
            bins.update(side.bins)
        return cls(
            ios=sum(side.ios for side in sides),
            transferred_bytes=sum(side.transferred_bytes for side in sides),
            runtime_ms=max(side.runtime_ms for side in sides),
            timed_ios=sum(side.timed_ios for side in sides),
            response_ns=math.fsum(side.response_ns for side in sides),
            response_max_ns=max(side.response_max_ns for side in sides),
            bins=bins,
        )

    def minus(self, previous: Side) -> Side:
        """Return the difference to ``previous``; raises ValueError if a counter decreased.

        A time may decrease slightly, because a thread that ends reports its own end instead of the present time, or
        because a mean was rounded.  The difference is 0 then.
        """
        bins = {midpoint: count - previous.bins.get(midpoint, 0) for midpoint, count in self.bins.items()}
        difference = Side(
            ios=self.ios - previous.ios,
            transferred_bytes=self.transferred_bytes - previous.transferred_bytes,
            runtime_ms=max(0, self.runtime_ms - previous.runtime_ms),
            timed_ios=self.timed_ios - previous.timed_ios,
            response_ns=max(0.0, self.response_ns - previous.response_ns),
            response_max_ns=self.response_max_ns,
            bins={midpoint: count for midpoint, count in bins.items() if count},
        )
        counters = (difference.ios, difference.transferred_bytes, difference.timed_ios, *difference.bins.values())
        if min(counters) < 0 or previous.bins.keys() - self.bins.keys():
            raise ValueError("running totals decreased")
        return difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """All I/Os of a continuous stimulus so far."""

    read: Side = field(default_factory=Side)
    write: Side = field(default_factory=Side)

    @property
    def response_max_ns(self) -> int:
        return max(self.read.response_max_ns, self.write.response_max_ns)


class Sampler:
    """Compute at most ``max_samples`` samples of a continuous stimulus; the last one is for the final totals."""

    def __init__(self, max_samples: int) -> None:
        self._max_samples = max_samples
        self._previous = Totals()
        self._count = self._ended_ms = 0
        self._sums: tuple[int, ...] = (0, 0, 0, 0)

    def add(self, totals: Totals) -> Iterator[Sample]:
        """Yield the sample up to these running totals, unless only the last sample remains.

        Raises ValueError if a counter decreased.
        """
        if self._count < self._max_samples - 1:
            yield self._sample(totals)

    def finish(self, totals: Totals) -> Iterator[Sample]:
        """Yield the sample up to the final totals, unless there was neither I/O nor time since the previous sample.

        Raises ValueError unless the samples add up to the totals, to the last I/O and byte.
        """
        counts = _counts(totals.read, totals.write)
        if counts != self._sums or _ended_ms(totals) > self._ended_ms:
            yield self._sample(totals)
        if counts != self._sums:
            raise ValueError("the samples do not add up to the totals")

    def _sample(self, totals: Totals) -> Sample:
        read, write = totals.read.minus(self._previous.read), totals.write.minus(self._previous.write)
        histogram = Histogram.from_bins((Counter(read.bins) + Counter(write.bins)).items())
        timed = read.timed_ios + write.timed_ios
        maximum_us = _maximum_ns(self._previous, totals, histogram) / 1000
        average_us = (read.response_ns + write.response_ns) / timed / 1000 if timed else 0.0
        percentiles = percentiles_ns((histogram,), NINES)
        three, four, five = (None if time_ns is None else min(time_ns / 1000, maximum_us) for time_ns in percentiles)
        ended_ms = max(self._ended_ms, _ended_ms(totals))
        sample = Sample(
            number=self._count + 1,
            ended_seconds=ended_ms / 1000,
            seconds=(ended_ms - self._ended_ms) / 1000,
            read_ios=read.ios,
            write_ios=write.ios,
            read_bytes=read.transferred_bytes,
            write_bytes=write.transferred_bytes,
            average_response_us=min(average_us, maximum_us),
            maximum_response_us=maximum_us,
            three_nines_us=three,
            four_nines_us=four,
            five_nines_us=five,
        )
        counts = (sample.read_ios, sample.write_ios, sample.read_bytes, sample.write_bytes)
        self._sums = tuple(map(operator.add, self._sums, counts))
        self._previous, self._count, self._ended_ms = totals, sample.number, ended_ms
        return sample


def _counts(read: Side, write: Side) -> tuple[int, ...]:
    return read.ios, write.ios, read.transferred_bytes, write.transferred_bytes


def _ended_ms(totals: Totals) -> int:
    return max(totals.read.runtime_ms, totals.write.runtime_ms)


def _maximum_ns(previous: Totals, totals: Totals, histogram: Histogram) -> int:
    """Return the maximum response time: exact if it is the maximum so far, else the upper edge of the highest bin."""
    if totals.response_max_ns > previous.response_max_ns:
        return totals.response_max_ns
    highest = max((midpoint for midpoint, _ in histogram.bins), default=0)
    return min(upper_edge_ns(highest), totals.response_max_ns)


@lru_cache(maxsize=_MAX_BINS)
def is_midpoint(time_ns: int) -> bool:
    """Return whether a time is the midpoint of one of fio's bins; see ``upper_edge_ns``."""
    half_width = 1 << max(0, time_ns.bit_length() - 8)
    return time_ns <= LAST_BIN_NS and (time_ns < 128 or time_ns % (2 * half_width) == half_width)


@lru_cache(maxsize=_MAX_BINS)
def upper_edge_ns(midpoint_ns: int) -> int:
    """Return the longest time in fio's bin with this midpoint.

    Below 128 ns a bin is 1 ns wide; above, there are 64 bins for each power of two.
    """
    return midpoint_ns + (1 << max(0, midpoint_ns.bit_length() - 8)) - 1


@lru_cache(maxsize=_MAX_BINS)
def lower_edge_ns(midpoint_ns: int) -> int:
    """Return the shortest time in fio's bin with this midpoint; see ``upper_edge_ns``."""
    return 2 * midpoint_ns - upper_edge_ns(midpoint_ns) - (midpoint_ns >= 128)
