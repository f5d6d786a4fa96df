"""Results of a TC x QD loop: means over a window, and the operating points chosen from them (PTS 2.0.2 chapter 14)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..model.measurement import MeasuredRound, average_response_us, mean
from ..model.steps import Demand
from ..spec import OperatingPoints
from ..spec.reader import definitions

PointName = Literal["Max IOPS", "Mid IOPS", "Min IOPS"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandMean:
    """One demand over the rounds of a window: the mean IOPS, and the ART of all its I/Os, weighted by count.

    ``rounds`` are the IOPS of each round.
    """

    demand: Demand
    iops: float
    art_ms: float
    rounds: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """A demand at which response times are shown.

    ``target_iops`` are the IOPS for which it was chosen.  ``candidates`` are all demands that are equally close to
    them, given the tolerance, ordered by Total OIO; the first is the operating point.
    """

    name: PointName
    demand: Demand
    iops: float
    art_ms: float
    target_iops: float
    candidates: tuple[DemandMean, ...]


def demand_means(rounds: Sequence[MeasuredRound]) -> tuple[DemandMean, ...]:
    """Return the means of every demand that was measured in all ``rounds``, in the order of the loop."""
    by_demand = [measured.keyed_by(lambda stimulus: stimulus.demand) for measured in rounds]
    demands = [
        demand for demand in (by_demand[0] if by_demand else ()) if all(demand in points for points in by_demand)
    ]
    return tuple(
        DemandMean(
            demand=demand,
            iops=mean(points[demand].iops for points in by_demand),
            art_ms=average_response_us([points[demand] for points in by_demand]) / 1000,
            rounds=tuple(points[demand].iops for points in by_demand),
        )
        for demand in demands
    )


def operating_points(means: Sequence[DemandMean], rule: OperatingPoints) -> tuple[OperatingPoint, ...]:
    """Return the Max, Mid and Min IOPS points, in this order; empty if there are no means.

    Max is the lowest Total OIO that gives the highest IOPS of all points with an ART below ``rule.maximum_art_ms``.
    Min is the lowest Total OIO (T1Q1).  Mid is the lowest Total OIO whose IOPS are closest to the middle between those
    of Max and Min, with an ART below the same limit.  On a plateau, noise determines which point is highest or closest,
    so every point within ``rule.tolerance_percent`` is a candidate.  Of two points with the same Total OIO, the one
    with fewer threads wins.  If no point is below the ART, Max is the point with the lowest ART, and
    ``exceeds_art_limit`` returns True.
    """
    return tuple(choice.point for choice in _choices(means, rule)) if means else ()


def alternative_points(
    means: Sequence[DemandMean], rule: OperatingPoints
) -> Mapping[PointName, tuple[DemandMean, ...]]:
    """Return for each operating point the other points that another run of the same drive may choose, by Total OIO.

    Another run chooses the first point that is within the tolerance in its own rounds.  That may be any point that is
    within the tolerance here, or outside by no more than the noise; but none after the first point that is within the
    tolerance by more than the noise, because another run chooses that one first.
    """
    noise = noise_percent(means, rule)
    return {choice.name: tuple(choice.alternatives(noise)) for choice in _choices(means, rule)} if means else {}


def noise_percent(means: Sequence[DemandMean], rule: OperatingPoints) -> float:
    """Return by how much the difference between two points may change from run to run, in percent of their IOPS.

    This is the confidence interval (``confidence_percent``, Student's t) for runs with the same number of rounds.  The
    noise of a point in a round is its IOPS, divided by the point's mean, less the mean of this quotient for all points
    of the round: drift that all points have in common is not noise.  The variance is that of all points with an ART
    below the limit, or of all points if there is none.  0 if there are fewer than two points or rounds.
    """
    points = [point for point in _allowed(means, rule) or means if point.iops > 0]
    count = min((len(point.rounds) for point in points), default=0)
    if count < 2 or len(points) < 2:
        return 0.0
    from scipy.special import stdtrit

    relative = [[iops / point.iops for iops in point.rounds] for point in points]
    drift = [mean(quotients) for quotients in zip(*relative, strict=True)]
    noise = [quotient - common for quotients in relative for quotient, common in zip(quotients, drift, strict=True)]
    degrees_of_freedom = (len(points) - 1) * (count - 1)
    variance = math.fsum(value**2 for value in noise) / degrees_of_freedom
    quantile = 0.5 + definitions().operating_points.confidence_percent / 200
    means_compared = 4  # of two points in two runs
    return 100 * float(stdtrit(degrees_of_freedom, quantile)) * math.sqrt(means_compared * variance / count)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """How one operating point is chosen from ``means``, which are ordered by Total OIO.

    ``margin`` returns by how many IOPS a point with these IOPS is within the tolerance (negative: outside).
    """

    name: PointName
    means: Sequence[DemandMean]
    target_iops: float
    margin: Callable[[float], float]

    @property
    def point(self) -> OperatingPoint:
        """The chosen operating point."""
        candidates = tuple(point for point in self.means if self.margin(point.iops) >= 0)
        return OperatingPoint(
            name=self.name,
            demand=candidates[0].demand,
            iops=candidates[0].iops,
            art_ms=candidates[0].art_ms,
            target_iops=self.target_iops,
            candidates=candidates,
        )

    def alternatives(self, noise_percent: float) -> Iterator[DemandMean]:
        """Yield the points that another run may choose instead of this one."""
        chosen = self.point.demand
        for point in self.means:
            margin, uncertainty = self.margin(point.iops), noise_percent / 100 * point.iops
            if margin + uncertainty >= 0 and point.demand != chosen:
                yield point
            if margin - uncertainty >= 0:
                return


def _allowed(means: Sequence[DemandMean], rule: OperatingPoints) -> list[DemandMean]:
    """Return the points with an ART below the limit."""
    return [point for point in means if point.art_ms < rule.maximum_art_ms]


def _choices(means: Sequence[DemandMean], rule: OperatingPoints) -> Iterator[_Choice]:
    ordered = sorted(means, key=_load)
    allowed = _allowed(ordered, rule)
    lightest = ordered[0]
    best = max(allowed, key=lambda point: point.iops) if allowed else min(means, key=_art)
    middle = (best.iops + lightest.iops) / 2
    nearest = min(allowed or ordered, key=lambda point: abs(point.iops - middle))
    tolerance = rule.tolerance_percent / 100
    max_distance = abs(nearest.iops - middle) + tolerance * middle
    yield _Choice(
        name="Max IOPS",
        means=allowed or [best],
        target_iops=best.iops,
        margin=lambda iops: iops - (1 - tolerance) * best.iops,
    )
    yield _Choice(
        name="Mid IOPS",
        means=allowed or ordered,
        target_iops=middle,
        margin=lambda iops: max_distance - abs(iops - middle),
    )
    yield _Choice(
        name="Min IOPS",
        means=[lightest],
        target_iops=lightest.iops,
        margin=lambda iops: iops - lightest.iops,
    )


def exceeds_art_limit(points: Sequence[OperatingPoint], maximum_art_ms: float) -> bool:
    """Return whether the ART of the Max IOPS point is not below the maximum."""
    return any(point.name == "Max IOPS" and not point.art_ms < maximum_art_ms for point in points)


def _load(point: DemandMean) -> tuple[int, int]:
    """Return the sort key by Total OIO, then Thread Count."""
    return point.demand.total_oio, point.demand.thread_count


def _art(point: DemandMean) -> tuple[float, tuple[int, int]]:
    return (point.art_ms if math.isfinite(point.art_ms) else math.inf), _load(point)
