"""Samples of a stretch: differences of the running totals that an engine tells now and then.

The counters of one moment may differ by the few I/Os that end meanwhile, but each only grows: what one sample lacks is
in the next, and all samples together are the whole.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import add

from ...model.histogram import Histogram, percentiles_ns
from ...model.measurement import NINES, Sample

#: fio has fewer bins than that.
_BINS = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The reads, or the writes, since the stretch began; ``timed_ios`` of them took ``response_ns`` together.

    ``bins`` counts response times by the middle of each bin, in nanoseconds.
    """

    ios: int = 0
    transferred_bytes: int = 0
    runtime_ms: int = 0
    timed_ios: int = 0
    response_ns: float = 0.0
    response_max_ns: int = 0
    bins: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def together(cls, sides: Sequence[Side]) -> Side:
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

    def since(self, before: Side) -> Side:
        """Return what came after ``before``; raises ValueError when a counter went back.

        A time may, by a little: where a thread that ends tells its own and not the present one, or a mean was rounded.
        It is 0 then.
        """
        bins = {edge: count - before.bins.get(edge, 0) for edge, count in self.bins.items()}
        after = Side(
            ios=self.ios - before.ios,
            transferred_bytes=self.transferred_bytes - before.transferred_bytes,
            runtime_ms=max(0, self.runtime_ms - before.runtime_ms),
            timed_ios=self.timed_ios - before.timed_ios,
            response_ns=max(0.0, self.response_ns - before.response_ns),
            response_max_ns=self.response_max_ns,
            bins={edge: count for edge, count in bins.items() if count},
        )
        counters = (after.ios, after.transferred_bytes, after.timed_ios, *after.bins.values())
        if min(counters) < 0 or before.bins.keys() - self.bins.keys():
            raise ValueError("running totals went back")
        return after


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """All I/Os of a stretch so far."""

    read: Side = field(default_factory=Side)
    write: Side = field(default_factory=Side)

    @property
    def response_max_ns(self) -> int:
        return max(self.read.response_max_ns, self.write.response_max_ns)


class Sampler:
    """Cuts a stretch into at most ``most`` samples; the last of them is for the final totals."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._before = Totals()
        self._cuts = self._ended_ms = 0
        self._sums: tuple[int, ...] = (0, 0, 0, 0)

    def cut(self, totals: Totals) -> Iterator[Sample]:
        """Give the sample that running totals end; nothing where only the last is left.

        Raises ValueError when a counter went back.
        """
        if self._cuts < self._most - 1:
            yield self._sample(totals)

    def last(self, totals: Totals) -> Iterator[Sample]:
        """Give the sample that the final totals end; nothing where neither I/O nor time came since the sample before.

        Raises ValueError unless all samples together are the whole, to the last I/O and byte.
        """
        whole = _counts(totals.read, totals.write)
        if whole != self._sums or _ended_ms(totals) > self._ended_ms:
            yield self._sample(totals)
        if whole != self._sums:
            raise ValueError("the samples together are not the whole")

    def _sample(self, now: Totals) -> Sample:
        read, write = now.read.since(self._before.read), now.write.since(self._before.write)
        histogram = Histogram.of((Counter(read.bins) + Counter(write.bins)).items())
        timed = read.timed_ios + write.timed_ios
        maximum_us = _maximum_ns(self._before, now, histogram) / 1000
        average_us = (read.response_ns + write.response_ns) / timed / 1000 if timed else 0.0
        nines = percentiles_ns((histogram,), NINES)
        three, four, five = (None if found is None else min(found / 1000, maximum_us) for found in nines)
        ended_ms = max(self._ended_ms, _ended_ms(now))
        found = Sample(
            number=self._cuts + 1,
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
        given = (found.read_ios, found.write_ios, found.read_bytes, found.write_bytes)
        self._sums = tuple(map(add, self._sums, given))
        self._before, self._cuts, self._ended_ms = now, found.number, ended_ms
        return found


def _counts(read: Side, write: Side) -> tuple[int, ...]:
    return read.ios, write.ios, read.transferred_bytes, write.transferred_bytes


def _ended_ms(totals: Totals) -> int:
    return max(totals.read.runtime_ms, totals.write.runtime_ms)


def _maximum_ns(before: Totals, now: Totals, histogram: Histogram) -> int:
    """Return the greatest response time: exact where it is the greatest so far, else the highest bin's upper edge."""
    if now.response_max_ns > before.response_max_ns:
        return now.response_max_ns
    highest = max((middle for middle, _ in histogram.bins), default=0)
    return min(upper_edge_ns(highest), now.response_max_ns)


@lru_cache(maxsize=_BINS)
def upper_edge_ns(middle_ns: int) -> int:
    """Return the greatest time in fio's bin around ``middle_ns``.

    Below 128 ns a bin is 1 ns wide; above there are 64 bins from each power of two to the next.
    """
    return middle_ns + (1 << max(0, middle_ns.bit_length() - 8)) - 1


@lru_cache(maxsize=_BINS)
def lower_edge_ns(middle_ns: int) -> int:
    """Return the least time in fio's bin around ``middle_ns``; see ``upper_edge_ns``."""
    return 2 * middle_ns - upper_edge_ns(middle_ns) - (middle_ns >= 128)
