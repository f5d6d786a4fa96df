"""The suite's arithmetic for anybody's numbers: of another program, a fio answer or a CSV file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ..analysis.steady_state import SteadyState, determine
from ..errors import UsageError
from ..model.histogram import Histogram, merge, percentiles_ns
from ..model.measurement import mean
from ..model.raid import Array, ArrayWorkload, DiskWork, disk_work, front_end_iops
from ..results.comparison import Difference
from ..results.comparison import difference as figure_difference
from ..results.key_figures import KeyFigure
from ..spec import IopsSpec, SteadyStateRule
from ..spec.reader import read_specification, versions

#: A line needs two points.
_MIN_WINDOW_ROUNDS = 2


def steady_state(
    values: Iterable[float],
    *,
    window_rounds: int | None = None,
    data_excursion_percent: float | None = None,
    slope_excursion_percent: float | None = None,
) -> SteadyState:
    """Return the determination of the first steady window of ``values``, one per round, the oldest first.

    Without a steady window, it is that of the last window.  The unit of the values is that of its excursions.  The rule
    is the standard's (PTS 2.0.2 definition 2.1.24: 5 rounds, 20 %, 10 %), except for the numbers that are given.  A
    window with a value that is not finite, or with an average that is not above 0, is not steady.  Raises UsageError
    for an impossible rule, or if there are fewer values than a window has rounds.
    """
    rule = _rule(window_rounds, data_excursion_percent, slope_excursion_percent)
    numbers = list(values)
    windows = len(numbers) - rule.window_rounds + 1
    if windows < 1:
        detail = f"A window has {rule.window_rounds} rounds, but there are {len(numbers)} values."
        raise UsageError(detail=detail, hint="Measure more rounds.")
    states = (determine(numbers[i : i + rule.window_rounds], rule, first_round=i + 1) for i in range(windows))
    return next(state for state in states if state.steady or state.rounds[-1] == len(numbers))


def _rule(window_rounds: int | None, data_percent: float | None, slope_percent: float | None) -> SteadyStateRule:
    """Return the rule of the standard with other numbers; raises UsageError for impossible ones."""
    if window_rounds is not None and window_rounds < _MIN_WINDOW_ROUNDS:
        raise UsageError(detail=f"window_rounds={window_rounds}: a line needs two points.", hint="Give at least 2.")
    for percent in (data_percent, slope_percent):
        if percent is not None and not 0 < percent < math.inf:
            raise UsageError(detail=f"An excursion of {percent:g} % cannot be allowed.", hint="Give a percent above 0.")
    rule = cast("IopsSpec", read_specification("iops", versions("iops")[0], "enterprise").spec).steady_state
    return replace(
        rule,
        window_rounds=window_rounds or rule.window_rounds,
        data_excursion_percent=data_percent or rule.data_excursion_percent,
        slope_excursion_percent=slope_percent or rule.slope_excursion_percent,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseTimes:
    """Response times of I/Os, counted in bins: ``histogram.bins`` are (ns, I/Os), ascending.

    ``average_us`` and ``maximum_us`` are exact, because they do not come from the bins; None if unknown.
    """

    histogram: Histogram
    average_us: float | None = None
    maximum_us: float | None = None

    @classmethod
    def from_fio(cls, latency: Mapping[str, Any]) -> ResponseTimes:
        """Return the response times in an object ``lat_ns`` or ``clat_ns`` of fio's JSON with bins (json+).

        Raises UsageError if it has no bins, or if they are not counts by nanoseconds.
        """
        try:
            bins = [(int(edge), int(count)) for edge, count in latency["bins"].items()]
            average_us, maximum_us = float(latency["mean"]) / 1000, float(latency["max"]) / 1000
            return cls(histogram=Histogram.from_bins(bins), average_us=average_us, maximum_us=maximum_us)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            detail = f"This is not a latency object of fio's JSON with bins: {error}."
            raise UsageError(detail=detail, hint="fio writes bins with --output-format=json+.") from None

    @property
    def count(self) -> int:
        """The number of I/Os."""
        return self.histogram.count

    def percentile_us(self, percent: float) -> float | None:
        """Return the response time that ``percent`` of the I/Os do not exceed, in us; None if there are too few I/Os.

        It is the edge of a bin, at most the maximum.  99.999 % needs at least 100 000 I/Os.  Raises ValueError for a
        percent that is not between 0 and 100.
        """
        (edge_ns,) = percentiles_ns([self.histogram], [percent])
        if edge_ns is None:
            return None
        return edge_ns / 1000 if self.maximum_us is None else min(edge_ns / 1000, self.maximum_us)


def merge_response_times(parts: Iterable[ResponseTimes]) -> ResponseTimes:
    """Return all I/Os of ``parts`` together.

    The bins are added, and the average is weighted by the I/Os: averages and percentiles of parts cannot be averaged.
    """
    filled = [part for part in parts if part.count]
    total = sum(part.count for part in filled)
    averages = [part.average_us * part.count for part in filled if part.average_us is not None]
    maxima = [part.maximum_us for part in filled if part.maximum_us is not None]
    return ResponseTimes(
        histogram=merge(part.histogram for part in filled),
        average_us=math.fsum(averages) / total if filled and len(averages) == len(filled) else None,
        maximum_us=max(maxima) if filled and len(maxima) == len(filled) else None,
    )


def difference(first: Sequence[float], other: Sequence[float]) -> Difference | None:
    """Return the difference of the mean of ``other`` from the mean of ``first`` in percent; None if the latter is 0.

    The values are those of the rounds of two runs.  With at least three of each, ``low`` and ``high`` are its 95 %
    confidence interval (Welch), and ``significant`` says whether it excludes 0.  Raises UsageError without values.
    """
    if not first or not other:
        raise UsageError(detail="There are no values to compare.", hint="Give the values of the rounds of both runs.")
    return figure_difference(_figure(first), _figure(other))


def _figure(rounds: Sequence[float]) -> KeyFigure:
    return KeyFigure(metric="", at="", unit="", value=mean(rounds), better=None, rounds=tuple(map(float, rounds)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RaidEstimate:
    """The load on the disks of an array, and its limit.

    ``work`` are the disk I/Os for the given IOPS, ``iops`` the IOPS that the array can carry with the given disks; None
    if not requested.  ``iops`` is infinite if the cache serves every I/O.
    """

    array: Array
    work: DiskWork | None
    iops: float | None


def raid_estimate(
    *,
    level: int,
    disks: int,
    read_percent: float,
    iops: float | None = None,
    disk_iops: float | None = None,
    cache_hit_percent: float = 0.0,
    pre_reads_hit: bool = False,
) -> RaidEstimate:
    """Return the load of small random I/Os on an array of ``disks`` at a RAID ``level`` (0, 1, 5, 6 or 10).

    ``iops`` are those requested of the array, ``disk_iops`` those that one disk can perform.  ``cache_hit_percent`` of
    the reads are served by the array's cache; with ``pre_reads_hit`` also of the reads before a write of RAID 5 and 6.
    Raises UsageError for an invalid number.  docs/array.rst has the formulas.
    """
    array = Array(level=level, disks=disks)
    load = ArrayWorkload(read_percent=read_percent, cache_hit_percent=cache_hit_percent, pre_reads_hit=pre_reads_hit)
    carried = None
    if disk_iops is not None:
        limit = front_end_iops(array, load, disk_iops)
        carried = math.inf if limit is None else limit
    return RaidEstimate(array=array, work=None if iops is None else disk_work(array, load, iops), iops=carried)
