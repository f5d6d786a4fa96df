"""What a TC x QD loop says: means over a window, and the operating points taken from them (PTS 2.0.2 chapter 14)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .measurement import MeasuredRound, average_response_us, mean
from .steps import Demand

PointName = Literal["Max IOPS", "Mid IOPS", "Min IOPS"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandMean:
    """One demand over the rounds of a window: mean IOPS, and the ART of all its I/Os, weighted by count."""

    demand: Demand
    iops: float
    art_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """A demand at which response times are shown.  ``wanted_iops`` is what it was chosen for."""

    name: PointName
    demand: Demand
    iops: float
    art_ms: float
    wanted_iops: float


def demand_means(rounds: Sequence[MeasuredRound]) -> tuple[DemandMean, ...]:
    """Return the means of every demand that all of ``rounds`` measured, in the order of the loop."""
    keyed = [measured.by(lambda stimulus: stimulus.demand) for measured in rounds]
    demands = [demand for demand in (keyed[0] if keyed else ()) if all(demand in each for each in keyed)]
    return tuple(
        DemandMean(
            demand=demand,
            iops=mean(each[demand].iops for each in keyed),
            art_ms=average_response_us([each[demand] for each in keyed]) / 1000,
        )
        for demand in demands
    )


def operating_points(means: Sequence[DemandMean], maximum_art_ms: float) -> tuple[OperatingPoint, ...]:
    """Return the Max, Mid and Min IOPS points, in this order; nothing where nothing was measured.

    Max has the highest IOPS of those whose ART is below ``maximum_art_ms``, Min the least Total OIO (T1Q1), Mid the
    IOPS nearest to the middle of both, below the same ART.  Where points tie, the least Total OIO is taken.  Where no
    point is below the ART, Max is the one with the least ART: ``beyond_art`` tells.
    """
    if not means:
        return ()
    allowed = [each for each in means if each.art_ms < maximum_art_ms]
    lightest = min(means, key=_oio)
    most = min(allowed, key=lambda each: (-each.iops, _oio(each))) if allowed else min(means, key=_by_art)
    middle = (most.iops + lightest.iops) / 2
    mid = min(allowed or means, key=lambda each: (abs(each.iops - middle), _oio(each)))
    chosen: tuple[tuple[PointName, DemandMean, float], ...] = (
        ("Max IOPS", most, most.iops),
        ("Mid IOPS", mid, middle),
        ("Min IOPS", lightest, lightest.iops),
    )
    return tuple(
        OperatingPoint(name=name, demand=each.demand, iops=each.iops, art_ms=each.art_ms, wanted_iops=wanted)
        for name, each, wanted in chosen
    )


def beyond_art(points: Sequence[OperatingPoint], maximum_art_ms: float) -> bool:
    """Tell whether the Max IOPS point could not keep to the ART it must be below."""
    return any(point.name == "Max IOPS" and not point.art_ms < maximum_art_ms for point in points)


def _oio(each: DemandMean) -> tuple[int, int]:
    return each.demand.total_oio, each.demand.thread_count


def _by_art(each: DemandMean) -> tuple[float, tuple[int, int]]:
    return (each.art_ms if math.isfinite(each.art_ms) else math.inf), _oio(each)
