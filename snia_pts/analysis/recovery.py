"""Recovery of a drive from random writes, and its return to baseline after idle times (PTS 2.0.2 chapters 12, 11).

The standard requires the plots but does not define recovery.  The definitions are here, and their numbers are in
``specs/suite-definitions.toml``; a report prints them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import add
from typing import NamedTuple

from ..model.measurement import rate_per_second
from ..model.time_series import TimeLine
from ..spec.reader import definitions
from ..units import MB


class Mean(NamedTuple):
    """A mean rate, and the time from ``begin`` to ``end`` that it covers, in seconds on the clock of a time line."""

    begin: float
    end: float
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryTime:
    """The first mean in a band, and the first from which on all are in it, with times from the start of a time line.

    ``reached`` is the first mean in the band, None if none is in it.  ``in_band_seconds`` is how long, up to the end,
    the means stayed in the band.  If this is less than ``dwell_seconds``, they did not recover within
    ``measured_seconds`` and ``recovered`` is None; otherwise it is the first mean from which on all are in the band.
    """

    reached: Mean | None
    recovered: Mean | None
    measured_seconds: float
    in_band_seconds: float
    dwell_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The last access group compared with ``reference``, the first group with the same stimulus.

    ``baseline`` is the MB/s at the end of the reference, ``lowest_percent`` the lowest sample of the last group in
    percent of the baseline.
    """

    reference: str
    group: str
    baseline: float
    threshold: float
    lowest_percent: float
    time: RecoveryTime


def recovery(lines: Sequence[TimeLine]) -> Recovery | None:
    """Return the recovery of the last access group; None if no earlier group has the same stimulus and MB/s above 0.

    The group has recovered when it is at most ``recovery.tolerance_percent`` below the baseline, and stays so until the
    end, at least for the dwell.
    """
    measured = [line for line in lines if len(line)]
    if not measured:
        return None
    *earlier, last = measured
    reference = next((line for line in earlier if _same(line, last)), None)
    baseline = mean_at_end(reference) if reference is not None else 0.0
    if reference is None or not baseline > 0:
        return None
    threshold = baseline * (100 - definitions().recovery.tolerance_percent) / 100
    throughputs = [mean.value for mean in _throughput(last) if math.isfinite(mean.value)]
    return Recovery(
        reference=reference.part,
        group=last.part,
        baseline=baseline,
        threshold=threshold,
        lowest_percent=100 * min(throughputs, default=math.nan) / baseline,
        time=_recovery_time(_throughput(last), threshold, math.inf),
    )


def _same(one: TimeLine, other: TimeLine) -> bool:
    first, second = one.stimulus, other.stimulus
    return (first.access, first.read_percent, first.block_size_bytes, first.demand) == (
        second.access,
        second.read_percent,
        second.block_size_bytes,
        second.demand,
    )


def end_seconds(line: TimeLine) -> float:
    """Return the length, in seconds, of the final part of a continuous stimulus that counts as its end."""
    rule = definitions().end
    return min(rule.seconds, rule.percent / 100 * line.ended_seconds[-1])


def end_rows(line: TimeLine) -> list[int]:
    """Return the rows of a time line that form its end.

    They are the smallest number of final samples whose total time is at least ``end_seconds``, without shortened ones.
    """
    seconds, first = 0.0, len(line)
    required = end_seconds(line) * (1 - 1e-9) if first else 0.0
    while first and seconds < required:
        first -= 1
        seconds += line.seconds[first]
    return whole_rows(line, range(first, len(line)))


def whole_rows(line: TimeLine, rows: Sequence[int]) -> list[int]:
    """Return ``rows`` without shortened samples, which are not representative of the drive; all if all are shortened.

    A sample is shortened if it is less than half as long as the median of ``line``: the stimulus ended within it.
    """
    shortest = statistics.median(line.seconds) / 2 if len(line) else 0.0
    return [row for row in rows if line.seconds[row] >= shortest] or list(rows)


def mean_at_end(line: TimeLine) -> float:
    """Return the MB/s at the end of a group: all bytes divided by the total time; nan if the time is too short."""
    rows = end_rows(line)
    transferred = math.fsum(line.read_bytes[row] + line.write_bytes[row] for row in rows)
    seconds = math.fsum(line.seconds[row] for row in rows)
    return rate_per_second(transferred, seconds) / MB


def back_to_baseline(line: TimeLine, baseline_iops: float, mean_seconds: float) -> RecoveryTime:
    """Return when the IOPS of ``line`` return to the baseline.

    They must then stay within the tolerance until the end of the line, and for at least the dwell.  The means are over
    ``mean_seconds``, the length of the baseline's samples, so that line and baseline are comparable.
    """
    tolerance = baseline_iops * definitions().recovery.tolerance_percent / 100
    return _recovery_time(iops_means(line, mean_seconds), baseline_iops - tolerance, baseline_iops + tolerance)


def iops_means(line: TimeLine, mean_seconds: float) -> Iterator[Mean]:
    """Yield the mean IOPS of consecutive samples that together take about ``mean_seconds``."""
    return _means(line, map(add, line.read_ios, line.write_ios), mean_seconds)


def _throughput(line: TimeLine) -> Iterator[Mean]:
    """Yield the MB/s of every sample."""
    megabytes = (sample_bytes / MB for sample_bytes in map(add, line.read_bytes, line.write_bytes))
    return _means(line, megabytes, statistics.median(line.seconds))


def _means(line: TimeLine, amounts: Iterable[float], mean_seconds: float) -> Iterator[Mean]:
    """Yield mean rates over whole samples; omit a remainder of less than half ``mean_seconds``.

    A line that consists only of such a remainder yields one mean.  If the time is too short for a rate, the value is
    nan.
    """
    amount = seconds = begin = 0.0
    has_means = False
    for ended, sample_seconds, sample_amount in zip(line.ended_seconds, line.seconds, amounts, strict=True):
        begin = begin if seconds else ended - sample_seconds
        amount, seconds = amount + sample_amount, seconds + sample_seconds
        if seconds > 0 and seconds >= mean_seconds - sample_seconds / 2:
            yield Mean(begin=begin, end=ended, value=rate_per_second(amount, seconds))
            amount, seconds, has_means = 0.0, 0.0, True
    if seconds > 0 and (seconds >= mean_seconds / 2 or not has_means):
        yield Mean(begin=begin, end=line.ended_seconds[-1], value=rate_per_second(amount, seconds))


def _recovery_time(means: Iterable[Mean], low: float, high: float) -> RecoveryTime:
    """Return when ``means`` enter the band from ``low`` to ``high``, both included."""
    reached: Mean | None = None
    entered: Mean | None = None
    ended = 0.0
    for mean in means:
        ended = mean.end
        if not low <= mean.value <= high:
            entered = None
            continue
        entered = entered or mean._replace(begin=max(0.0, mean.begin))
        reached = reached or entered
    in_band, dwell = 0.0 if entered is None else ended - entered.begin, definitions().recovery.dwell(ended)
    return RecoveryTime(
        reached=reached,
        recovered=entered if in_band >= dwell * (1 - 1e-9) else None,
        measured_seconds=ended,
        in_band_seconds=in_band,
        dwell_seconds=dwell,
    )
