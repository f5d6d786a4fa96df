"""What a TC x QD loop says: means over a window, and the operating points taken from them (PTS 2.0.2 chapter 14)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..model.measurement import MeasuredRound, average_response_us, mean
from ..model.steps import Demand
from ..spec import OperatingPoints
from ..spec.reader import definitions

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
    Total OIO: the first is the point.
    """

    name: PointName
    demand: Demand
    iops: float
    art_ms: float
    wanted_iops: float
    candidates: tuple[DemandMean, ...]


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
    candidate.  Of two with the same Total OIO that of fewer threads is taken.  Where no point is below the ART, Max is
    the one with the least ART: ``beyond_art`` tells.
    """
    return tuple(choice.point for choice in _choices(means, rule)) if means else ()


def contested(means: Sequence[DemandMean], rule: OperatingPoints) -> Mapping[PointName, tuple[DemandMean, ...]]:
    """Return for each operating point the others that another run of the same drive may choose, by Total OIO.

    Another run takes the first point that comes within the tolerance by its own rounds.  So it may take each that does
    so here or falls short by no more than noise makes, up to the first that does so beyond noise.
    """
    return {choice.name: tuple(choice.others()) for choice in _choices(means, rule)} if means else {}


class _References(NamedTuple):
    """The IOPS that points are held against: the highest, those of the least Total OIO, those nearest to the middle."""

    best: float
    lightest: float
    nearest: float

    @property
    def middle(self) -> float:
        return (self.best + self.lightest) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """How one point is chosen of ``means``, which are ordered by Total OIO.

    ``margin`` gives by how many IOPS a point is within the tolerance (negative: outside), for its IOPS and those that
    it is held against, of the means in ``held_against``.  ``certain`` is within it by definition.
    """

    name: PointName
    means: Sequence[DemandMean]
    wanted_iops: float
    margin: Callable[[float, _References], float]
    held_against: tuple[DemandMean, DemandMean, DemandMean]
    certain: DemandMean

    @property
    def references(self) -> _References:
        return _References(*(each.iops for each in self.held_against))

    @property
    def point(self) -> OperatingPoint:
        """The point that is chosen."""
        candidates = tuple(each for each in self.means if self.margin(each.iops, self.references) >= 0)
        return OperatingPoint(
            name=self.name,
            demand=candidates[0].demand,
            iops=candidates[0].iops,
            art_ms=candidates[0].art_ms,
            wanted_iops=self.wanted_iops,
            candidates=candidates,
        )

    def others(self) -> Iterator[DemandMean]:
        """Give the points besides the chosen one that another run may choose."""
        chosen = self.point.demand
        for each in self.means:
            margin, reach = self.margin(each.iops, self.references), self._reach(each)
            if margin + reach >= 0 and each.demand != chosen:
                yield each
            if margin - reach >= 0:
                return

    def _reach(self, point: DemandMean) -> float:
        """Return how far the margin may lie from this one in another run of as many rounds, at the stated confidence.

        The scatter is that of the point's own rounds and that of the rounds it is held against: the interval for the
        difference of two means of ``count`` values each, by Student's t.
        """
        count = min(len(each.rounds) for each in (point, *self.held_against))
        if count < 2 or point == self.certain:
            return 0.0
        from scipy.special import stdtrit

        own = [self.margin(iops, self.references) for iops in point.rounds]
        rounds = zip(*(each.rounds for each in self.held_against), strict=True)
        theirs = [self.margin(point.iops, _References(*values)) for values in rounds]
        variance = statistics.variance(own) + statistics.variance(theirs)
        share = 0.5 + definitions().operating_points.confidence_percent / 200
        return float(stdtrit(count - 1, share)) * math.sqrt(variance * 2 / count)


def _choices(means: Sequence[DemandMean], rule: OperatingPoints) -> Iterator[_Choice]:
    ordered = sorted(means, key=_oio)
    allowed = [each for each in ordered if each.art_ms < rule.maximum_art_ms]
    lightest = ordered[0]
    best = max(allowed, key=lambda each: each.iops) if allowed else min(means, key=_by_art)
    middle = _References(best.iops, lightest.iops, math.nan).middle
    nearest = min(allowed or ordered, key=lambda each: abs(each.iops - middle))
    tolerance = rule.tolerance_percent / 100
    held_against = (best, lightest, nearest)
    yield _Choice(
        name="Max IOPS",
        means=allowed or [best],
        wanted_iops=best.iops,
        margin=lambda iops, to: iops - (1 - tolerance) * to.best,
        held_against=held_against,
        certain=best,
    )
    yield _Choice(
        name="Mid IOPS",
        means=allowed or ordered,
        wanted_iops=middle,
        margin=lambda iops, to: _farthest(to, tolerance) - abs(iops - to.middle),
        held_against=held_against,
        certain=nearest,
    )
    yield _Choice(
        name="Min IOPS",
        means=[lightest],
        wanted_iops=lightest.iops,
        margin=lambda iops, to: iops - to.lightest,
        held_against=held_against,
        certain=lightest,
    )


def _farthest(to: _References, tolerance: float) -> float:
    """Return how far from the middle a point may lie: the nearest one's distance, and the tolerance besides."""
    return abs(to.nearest - to.middle) + tolerance * to.middle


def beyond_art(points: Sequence[OperatingPoint], maximum_art_ms: float) -> bool:
    """Tell whether the Max IOPS point could not keep to the ART it must be below."""
    return any(point.name == "Max IOPS" and not point.art_ms < maximum_art_ms for point in points)


def _oio(each: DemandMean) -> tuple[int, int]:
    return each.demand.total_oio, each.demand.thread_count


def _by_art(each: DemandMean) -> tuple[float, tuple[int, int]]:
    return (each.art_ms if math.isfinite(each.art_ms) else math.inf), _oio(each)
