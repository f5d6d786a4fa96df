"""What a TC x QD loop says: means over a window, and the operating points taken from them (PTS 2.0.2 chapter 14)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ..model.measurement import MeasuredRound, average_response_us, mean
from ..model.steps import Demand
from ..spec import OperatingPoints

PointName = Literal["Max IOPS", "Mid IOPS", "Min IOPS"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandMean:
    """One demand over the rounds of a window: mean IOPS, and the ART of all its I/Os, weighted by count.

    ``rounds`` are the IOPS of each.
    """

    demand: Demand
    iops: float
    art_ms: float
    rounds: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """A demand at which response times are shown.

    ``wanted_iops`` is what it was chosen for, ``candidates`` all that come as near to that within the tolerance, by
    Total OIO: the first is the point.  ``contested`` are those that another run may choose: no more than noise decides.
    """

    name: PointName
    demand: Demand
    iops: float
    art_ms: float
    wanted_iops: float
    candidates: tuple[DemandMean, ...]
    contested: tuple[DemandMean, ...]


def demand_means(rounds: Sequence[MeasuredRound]) -> tuple[DemandMean, ...]:
    """Return the means of every demand that all of ``rounds`` measured, in the order of the loop."""
    keyed = [measured.by(lambda stimulus: stimulus.demand) for measured in rounds]
    demands = [demand for demand in (keyed[0] if keyed else ()) if all(demand in each for each in keyed)]
    return tuple(
        DemandMean(
            demand=demand,
            iops=mean(each[demand].iops for each in keyed),
            art_ms=average_response_us([each[demand] for each in keyed]) / 1000,
            rounds=tuple(each[demand].iops for each in keyed),
        )
        for demand in demands
    )


def operating_points(means: Sequence[DemandMean], rule: OperatingPoints) -> tuple[OperatingPoint, ...]:
    """Return the Max, Mid and Min IOPS points, in this order; nothing where nothing was measured.

    Max is the least Total OIO that gives the highest IOPS of those whose ART is below ``rule.maximum_art_ms``, Min the
    least Total OIO (T1Q1), Mid the least Total OIO that comes nearest to the middle of both, below the same ART.  On a
    plateau noise decides which point is highest, or nearest: whatever is so within ``rule.tolerance_percent`` is a
    candidate.  Where no point is below the ART, Max is the one with the least ART: ``beyond_art`` tells.
    """
    if not means:
        return ()
    allowed = [each for each in means if each.art_ms < rule.maximum_art_ms]
    lightest = min(means, key=_oio)
    best = max(allowed, key=lambda each: each.iops) if allowed else min(means, key=_by_art)
    share = 1 - rule.tolerance_percent / 100
    lowest = min(best.rounds, default=best.iops)
    middle = (best.iops + lightest.iops) / 2
    farthest = min(abs(each.iops - middle) for each in allowed or means) + rule.tolerance_percent / 100 * middle
    return (
        _chosen("Max IOPS", allowed or [best], best.iops, lambda iops: iops >= share * best.iops, share * lowest),
        _chosen("Mid IOPS", allowed or means, middle, lambda iops: abs(iops - middle) <= farthest),
        _chosen("Min IOPS", [lightest], lightest.iops, lambda iops: iops == lightest.iops),
    )


def _chosen(
    name: PointName,
    means: Sequence[DemandMean],
    wanted_iops: float,
    near: Callable[[float], bool],
    perhaps_iops: float = math.inf,
) -> OperatingPoint:
    """Return the least Total OIO of those that come near; where two have the same, that of fewer threads.

    Another run may choose one whose IOPS came near, or to ``perhaps_iops``, in some round of the window, while none
    before it surely does.
    """
    ordered = sorted(means, key=_oio)
    candidates = [each for each in ordered if near(each.iops)]
    point, contested = candidates[0], list[DemandMean]()
    for each in ordered:
        if each is not point and any(near(iops) or iops >= perhaps_iops for iops in each.rounds):
            contested.append(each)
        if ordered.index(each) >= ordered.index(point) and all(map(near, each.rounds)):
            break
    return OperatingPoint(
        name=name,
        demand=point.demand,
        iops=point.iops,
        art_ms=point.art_ms,
        wanted_iops=wanted_iops,
        candidates=tuple(candidates),
        contested=tuple(contested),
    )


def beyond_art(points: Sequence[OperatingPoint], maximum_art_ms: float) -> bool:
    """Tell whether the Max IOPS point could not keep to the ART it must be below."""
    return any(point.name == "Max IOPS" and not point.art_ms < maximum_art_ms for point in points)


def _oio(each: DemandMean) -> tuple[int, int]:
    return each.demand.total_oio, each.demand.thread_count


def _by_art(each: DemandMean) -> tuple[float, tuple[int, int]]:
    return (each.art_ms if math.isfinite(each.art_ms) else math.inf), _oio(each)
