"""The measures of a profile's points: each with its heading, over all complete repeats."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from ...model.measurement import Measurement, mean, sync_percentile_us
from ...report.figures.matrices import (
    average_response_ms,
    iops,
    maximum_response_ms,
    mb_per_second,
    percentile_response_ms,
)
from ...report.tables import decimals_for, extremes, thousands
from ...results.attributes import spread_percent
from .figures import Span
from .points import Reduction

NS_PER_MS = 1e6
#: With fewer I/Os, a point has no 99 % response time.
TWO_NINES_IOS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A quantity: its heading with the unit, its value over a point's repeats, and its value for one repeat."""

    heading: str
    of: Reduction
    each: Callable[[Measurement], float]

    def span(self, measured: Sequence[Measurement]) -> Span:
        """Return a point's mean, and the minimum and maximum of its repeats."""
        least, _, greatest = extremes(self.each(one) for one in measured)
        return Span(mean=self.of(measured), least=least, greatest=greatest)


IOPS = Measure(heading="IOPS", of=iops, each=lambda measured: measured.iops)
MB_PER_SECOND = Measure(heading="Throughput (MB/s)", of=mb_per_second, each=lambda measured: measured.mb_per_second)


def two_nines_ms(measured: Sequence[Measurement]) -> float:
    """Return the 99 % response time of a point in ms."""
    return percentile_response_ms(measured, 99.0)


def spread(measured: Sequence[Measurement]) -> float:
    """Return the spread from the slowest to the fastest repeat, in percent of the mean IOPS; nan if unknown."""
    percent = spread_percent(measured)
    return math.nan if percent is None else percent


#: The columns of a table of points.
FIGURES: tuple[tuple[str, Reduction], ...] = (
    ("IOPS", iops),
    ("MB/s", mb_per_second),
    ("Average response (ms)", average_response_ms),
    ("99 % response (ms)", two_nines_ms),
    ("Max. response (ms)", maximum_response_ms),
)


#: The columns of points that end after passes over their range: the time of one pass, the mean over the repeats, and
#: the passes of all repeats.
FINISH: tuple[str, Reduction] = (
    "Time per pass (ms)",
    lambda measured: 1000 * mean(item.finish_seconds for item in measured),
)
PASSES: tuple[str, Reduction] = ("Passes", lambda measured: sum(item.stimulus.passes or 0 for item in measured))


def clock_digits(measured: Iterable[Measurement]) -> int:
    """Return how many digits of a rate the engine's clock supports: those of the shortest time in whole milliseconds.

    How another tool measured its rates is unknown; they have all digits of a float.
    """
    times_ms = [sys.maxsize if item.reported is not None else item.runtime_ms for item in measured]
    return len(str(min(times_ms)))


def rate_texts(rates: Sequence[float], digits: Sequence[int]) -> tuple[str, ...]:
    """Return rates with the same number of decimals, without those that are not among the ``digits`` of a rate."""
    decimals = decimals_for(rates)
    return tuple(
        thousands(rate, max(0, min(decimals, most - 1 - math.floor(math.log10(rate)))))
        if math.isfinite(rate) and rate > 0
        else thousands(rate, decimals)
        for rate, most in zip(rates, digits, strict=True)
    )


def _side(name: str, value: Callable[[Measurement], float]) -> tuple[str, Reduction]:
    return name, lambda measured: mean(map(value, measured))


#: The columns of the table of mixed points: reads and writes separately.
SIDES: tuple[tuple[str, Reduction], ...] = (
    _side("Read IOPS", lambda item: item.read.iops),
    _side("Write IOPS", lambda item: item.write.iops),
    _side("Read MB/s", lambda item: item.read.bytes_per_second / 1e6),
    _side("Write MB/s", lambda item: item.write.bytes_per_second / 1e6),
)


def sync_ms(measured: Sequence[Measurement], percent: float) -> float:
    """Return a percentile of the synchronizing calls of a point in ms; nan if there are too few."""
    sync_us = sync_percentile_us(measured, percent)
    return math.nan if sync_us is None else sync_us / 1000


def longest_sync_ms(measured: Sequence[Measurement]) -> float:
    """Return the longest synchronizing call of a point in ms."""
    return max((measurement.sync.max_ns for measurement in measured if measurement.sync), default=math.nan) / NS_PER_MS


def _calls(measured: Sequence[Measurement]) -> float:
    return sum(measurement.sync.calls for measurement in measured if measurement.sync)


#: The columns of the table of synchronizing calls, and the percentiles of their figure.
SYNCS: tuple[tuple[str, Reduction], ...] = (
    ("Calls", _calls),
    ("50 % (ms)", partial(sync_ms, percent=50.0)),
    ("99 % (ms)", partial(sync_ms, percent=99.0)),
    ("99.9 % (ms)", partial(sync_ms, percent=99.9)),
    ("Max. (ms)", longest_sync_ms),
)
SYNC_PERCENTS = (1.0, 10.0, 50.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.99)


def side_response_ms(measured: Sequence[Measurement], side: str) -> float:
    """Return the average response time of a point's reads, or writes, in ms."""
    if not all(measurement.timed for measurement in measured):
        return math.nan
    parts = [getattr(measurement, side) for measurement in measured]
    ios = sum(part.ios for part in parts)
    return math.fsum(part.ios * part.response_mean_ns for part in parts) / ios / NS_PER_MS if ios else math.nan
