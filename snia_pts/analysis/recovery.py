"""How a drive recovers: from random writes, and back to its baseline after idle times (PTS 2.0.2 chapters 12 and 11).

The standard asks for the plots and leaves open what recovery is; the definitions are here, their numbers in
``specs/definitions.toml``, and a report prints them.
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
    """What was done by time, from ``begin`` to ``end`` in seconds on a line's clock."""

    begin: float
    end: float
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """When values came to where they belong, and when they came to stay there, in seconds from the start of a line.

    ``reached_seconds`` is None where no value lies there.  ``stayed_seconds`` is how long the last values lie there
    before the end; where that is less than ``dwell_seconds`` they have not come to stay within ``measured_seconds``,
    and ``seconds`` is None.
    """

    reached_seconds: float | None
    seconds: float | None
    measured_seconds: float
    stayed_seconds: float
    dwell_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """How the last access group does beside ``reference``, the first group of the same stimulus.

    ``baseline`` is the reference's MB/s at its end, ``lowest_percent`` the last group's lowest sample in percent of it.
    """

    reference: str
    group: str
    baseline: float
    threshold: float
    lowest_percent: float
    stay: Stay


def recovery(lines: Sequence[TimeLine]) -> Recovery | None:
    """Return how the last of the access groups recovers; None where none before it has its stimulus, or any MB/s.

    Recovered is what is no more than ``recovery.tolerance_percent`` below the baseline, and stays so for the dwell.
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
    rated = [mean.value for mean in _throughput(last) if math.isfinite(mean.value)]
    return Recovery(
        reference=reference.part,
        group=last.part,
        baseline=baseline,
        threshold=threshold,
        lowest_percent=100 * min(rated, default=math.nan) / baseline,
        stay=_stay(_throughput(last), threshold, math.inf),
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
    """Return how long the end of a continuous stimulus is, as its samples allow."""
    end = definitions().end
    return min(end.seconds, end.percent / 100 * line.ended_seconds[-1])


def end_rows(line: TimeLine) -> range:
    """Return the rows of a line that are its end: whole samples, no more than it takes."""
    seconds, first = 0.0, len(line)
    wanted = end_seconds(line) * (1 - 1e-9) if first else 0.0
    while first and seconds < wanted:
        first -= 1
        seconds += line.seconds[first]
    return range(first, len(line))


def mean_at_end(line: TimeLine) -> float:
    """Return the MB/s of the samples at the end of a group: all its bytes by all its time; nan where that is short."""
    rows = end_rows(line)
    moved = math.fsum(line.read_bytes[row] + line.write_bytes[row] for row in rows)
    seconds = math.fsum(line.seconds[row] for row in rows)
    return rate_per_second(moved, 1000 * seconds) / MB


def back_to_baseline(line: TimeLine, baseline_iops: float, mean_seconds: float) -> Stay:
    """Return when the IOPS of ``line`` come back to a baseline: within the tolerance of it, and stay for the dwell.

    Judged on means over ``mean_seconds``, the time of a sample that the baseline is made of, so that like is held
    against like.
    """
    room = baseline_iops * definitions().recovery.tolerance_percent / 100
    return _stay(iops_means(line, mean_seconds), baseline_iops - room, baseline_iops + room)


def iops_means(line: TimeLine, mean_seconds: float) -> Iterator[Mean]:
    """Give the IOPS of consecutive samples that take about ``mean_seconds`` together."""
    return _means(line, map(add, line.read_ios, line.write_ios), mean_seconds)


def _throughput(line: TimeLine) -> Iterator[Mean]:
    """Give the MB/s of every sample."""
    moved = (moved_bytes / MB for moved_bytes in map(add, line.read_bytes, line.write_bytes))
    return _means(line, moved, statistics.median(line.seconds))


def _means(line: TimeLine, amounts: Iterable[float], mean_seconds: float) -> Iterator[Mean]:
    """Give amounts by time over whole samples; a rest of less than half ``mean_seconds`` tells nothing and is left out.

    A line that is no more than such a rest is given as it is.  Of too short a time for a rate the value is nan.
    """
    amount = seconds = begin = 0.0
    given = False
    for ended, own, added in zip(line.ended_seconds, line.seconds, amounts, strict=True):
        begin = begin if seconds else ended - own
        amount, seconds = amount + added, seconds + own
        if seconds > 0 and seconds >= mean_seconds - own / 2:
            yield Mean(begin=begin, end=ended, value=rate_per_second(amount, 1000 * seconds))
            amount, seconds, given = 0.0, 0.0, True
    if seconds > 0 and (seconds >= mean_seconds / 2 or not given):
        yield Mean(begin=begin, end=line.ended_seconds[-1], value=rate_per_second(amount, 1000 * seconds))


def _stay(means: Iterable[Mean], low: float, high: float) -> Stay:
    """Return when ``means`` come into ``low`` .. ``high``, both included."""
    reached: float | None = None
    since: float | None = None
    ended = 0.0
    for mean in means:
        ended = mean.end
        if not low <= mean.value <= high:
            since = None
            continue
        since = max(0.0, mean.begin) if since is None else since
        reached = since if reached is None else reached
    stayed, dwell = 0.0 if since is None else ended - since, definitions().recovery.dwell(ended)
    return Stay(
        reached_seconds=reached,
        seconds=since if stayed >= dwell * (1 - 1e-9) else None,
        measured_seconds=ended,
        stayed_seconds=stayed,
        dwell_seconds=dwell,
    )
