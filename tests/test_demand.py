"""The TC x QD loop's means, and the operating points taken from them (PTS 2.0.2 chapter 14)."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.analysis.operating_points import (
    DemandMean,
    OperatingPoint,
    alternative_points,
    demand_means,
    exceeds_art_limit,
    noise_percent,
    operating_points,
)
from snia_pts.model.measurement import MeasuredRound, Measurement
from snia_pts.model.steps import Demand
from snia_pts.spec import OperatingPoints
from tests import samples, strategies

LIMIT_MS = 5.0
RULE = OperatingPoints(maximum_art_ms=LIMIT_MS, tolerance_percent=2, pre_write_seconds=3600, histogram_seconds=600)
COUNTS = (1, 2, 4, 6, 8, 16, 32)
DEMANDS = tuple(
    Demand(thread_count=threads, queue_depth=depth) for threads, depth in itertools.product(COUNTS, repeat=2)
)


def mean_of(threads: int, depth: int, iops: float, art_ms: float) -> DemandMean:
    return DemandMean(demand=Demand(thread_count=threads, queue_depth=depth), iops=iops, art_ms=art_ms)


def points(means: Sequence[DemandMean]) -> dict[str, OperatingPoint]:
    return {point.name: point for point in operating_points(means, RULE)}


#: Few different IOPS, so that points tie; ART on both sides of the limit, and just on it.
surfaces = st.lists(
    st.builds(
        DemandMean,
        demand=st.sampled_from(DEMANDS),
        iops=st.integers(1, 12).map(lambda step: 1000.0 * step),
        art_ms=st.sampled_from([0.1, 1.0, math.nextafter(LIMIT_MS, 0), LIMIT_MS, math.nextafter(LIMIT_MS, 9), 80.0]),
    ),
    min_size=1,
    unique_by=lambda mean: mean.demand,
)


@given(surfaces)
def test_max_is_the_highest_iops_of_those_below_the_limit(means: Sequence[DemandMean]) -> None:
    """Max is below the ART limit if any point is, and no other point below it has more than 2 % more IOPS."""
    below = [mean for mean in means if mean.art_ms < LIMIT_MS]
    chosen_points = points(means)["Max IOPS"]
    assert exceeds_art_limit(operating_points(means, RULE), LIMIT_MS) == (not below)
    if below:
        assert chosen_points.art_ms < LIMIT_MS
        assert chosen_points.iops >= 0.98 * max(mean.iops for mean in below)
    else:
        assert chosen_points.art_ms == min(mean.art_ms for mean in means)


@given(surfaces)
def test_mid_is_the_nearest_to_the_middle_of_max_and_min(means: Sequence[DemandMean]) -> None:
    """No allowed point is nearer to (Max + Min) / 2; Mid is below the ART limit if any point is."""
    chosen_points = points(means)
    wanted = (chosen_points["Max IOPS"].target_iops + chosen_points["Min IOPS"].iops) / 2
    below = [mean for mean in means if mean.art_ms < LIMIT_MS]
    assert chosen_points["Mid IOPS"].target_iops == wanted
    nearest = min(abs(mean.iops - wanted) for mean in below or means)
    assert nearest <= abs(chosen_points["Mid IOPS"].iops - wanted) <= nearest + 0.02 * wanted
    assert not below or chosen_points["Mid IOPS"].art_ms < LIMIT_MS


@given(surfaces)
def test_min_is_the_lowest_total_oio(means: Sequence[DemandMean]) -> None:
    """Min has the fewest outstanding I/Os of all points, whatever its ART."""
    assert points(means)["Min IOPS"].demand.total_oio == min(mean.demand.total_oio for mean in means)


@given(surfaces)
def test_ties_go_to_the_lowest_total_oio(means: Sequence[DemandMean]) -> None:
    """No point that is equal to Max or Mid has fewer outstanding I/Os."""
    chosen_points = points(means)
    allowed = [mean for mean in means if mean.art_ms < LIMIT_MS] or means
    middle = chosen_points["Mid IOPS"].target_iops
    if not exceeds_art_limit(list(chosen_points.values()), LIMIT_MS):
        as_high = [mean for mean in allowed if mean.iops == chosen_points["Max IOPS"].iops]
        assert chosen_points["Max IOPS"].demand.total_oio == min(mean.demand.total_oio for mean in as_high)
    as_near = [mean for mean in allowed if abs(mean.iops - middle) <= abs(chosen_points["Mid IOPS"].iops - middle)]
    assert chosen_points["Mid IOPS"].demand.total_oio == min(mean.demand.total_oio for mean in as_near)


@given(surfaces.flatmap(lambda means: st.tuples(st.just(means), st.permutations(means))))
def test_the_order_of_the_loop_does_not_matter(pair: tuple[list[DemandMean], list[DemandMean]]) -> None:
    """The same means in another order give the same operating points, ties included."""
    means, shuffled = pair
    assert operating_points(means, RULE) == operating_points(shuffled, RULE)


@given(surfaces)
def test_operating_points_are_measured_points(means: Sequence[DemandMean]) -> None:
    """Max, Mid and Min, in this order, each with the IOPS and ART of its own demand."""
    chosen_points = operating_points(means, RULE)
    assert [point.name for point in chosen_points] == ["Max IOPS", "Mid IOPS", "Min IOPS"]
    measured = {mean.demand: mean for mean in means}
    assert all(
        (point.iops, point.art_ms) == (measured[point.demand].iops, measured[point.demand].art_ms)
        for point in chosen_points
    )


def test_the_middle_of_a_published_run() -> None:
    """Golden case G6: between 52723 and 7415 IOPS lie 30069, and T4Q2 is the point nearest to it."""
    means = [
        mean_of(1, 1, 7415, 0.13),
        mean_of(2, 2, 24100, 0.17),
        mean_of(4, 2, 30500, 0.26),
        mean_of(4, 4, 37800, 0.42),
        mean_of(16, 8, 52723, 2.4),
        mean_of(32, 32, 53900, 19.0),
    ]
    chosen_points = points(means)
    assert chosen_points["Mid IOPS"].target_iops == 30069
    assert {name: point.demand.label for name, point in chosen_points.items()} == {
        "Max IOPS": "T16Q8",
        "Mid IOPS": "T4Q2",
        "Min IOPS": "T1Q1",
    }


def test_noise_on_a_plateau_does_not_decide() -> None:
    """Of the points within 2 % of the best IOPS, Max is the one with the lowest Total OIO; all are candidates."""
    means = [
        mean_of(32, 32, 50000, 4.9),
        mean_of(32, 6, 50100, 4.0),
        mean_of(16, 8, 49200, 2.4),
        mean_of(8, 8, 48900, 1.3),
        mean_of(1, 1, 7400, 0.13),
    ]
    chosen_points = points(means)["Max IOPS"]

    assert (chosen_points.demand.label, chosen_points.target_iops) == ("T16Q8", 50100)
    assert [candidate.demand.label for candidate in chosen_points.candidates] == ["T16Q8", "T32Q6", "T32Q32"]


def test_points_at_the_edge_of_the_tolerance_are_alternatives() -> None:
    """If rounds of the chosen point are on both sides of the tolerance, another run may choose the next candidate."""

    def of(number: int, ios: int) -> MeasuredRound:
        measured = (measured_at(32, 32, 10_000, 1.0), measured_at(8, 8, ios, 1.0), measured_at(1, 1, 1000, 1.0))
        return MeasuredRound(number=number, measurements=measured, complete=True)

    close, clear = [of(1, 9790), of(2, 9830)], [of(1, 9900), of(2, 9910)]

    assert points(demand_means(close))["Max IOPS"].demand.label == "T8Q8"
    assert [item.demand.label for item in alternative_points(demand_means(close), RULE)["Max IOPS"]] == ["T32Q32"]
    assert alternative_points(demand_means(clear), RULE)["Max IOPS"] == ()


def _rounds_of(iops: dict[tuple[int, int], list[float]]) -> list[DemandMean]:
    """Return points with these IOPS in each round."""
    return [
        DemandMean(
            demand=Demand(thread_count=threads, queue_depth=depth),
            iops=statistics.fmean(rounds),
            art_ms=1.0,
            rounds=tuple(rounds),
        )
        for (threads, depth), rounds in iops.items()
    ]


def test_noise_is_the_interval_of_a_difference_between_two_points() -> None:
    """Two points that scatter by 1 % against each other in two rounds: t(0.975, 1) x sqrt(4 x 4e-4 / 2) = 35.94 %."""
    means = _rounds_of({(1, 1): [990, 1010], (2, 2): [2020, 1980]})
    assert noise_percent(means, RULE) == pytest.approx(12.7062 * math.sqrt(4 * 4e-4 / 2) * 100, rel=1e-5)
    assert noise_percent(means[:1], RULE) == noise_percent([], RULE) == 0.0


def test_drift_that_all_points_have_in_common_is_not_noise() -> None:
    """A point 5 % below the best in every round is no alternative, even if all points lose 8 % over the rounds."""
    drift = [1.0, 0.98, 0.96, 0.94, 0.92]
    best, below, scattered = ([level * part for part in drift] for level in (180_000.0, 171_000.0, 176_000.0))
    scattered = [iops * part for iops, part in zip(scattered, (1.004, 0.996, 1.002, 0.998, 1.0), strict=True)]
    means = _rounds_of({(16, 6): best, (6, 6): below, (8, 8): scattered, (1, 1): [9_000 * part for part in drift]})
    assert noise_percent(means, RULE) < 1
    assert [point.demand.label for point in alternative_points(means, RULE)["Max IOPS"]] == ["T8Q8"]


def test_noise_above_the_tolerance_lets_points_behind_the_best_be_chosen() -> None:
    """The best point of one run may be outside the tolerance in another, which chooses a point behind it."""
    up, down = [0.97, 1.03, 0.97, 1.03, 1.0], [1.03, 0.97, 1.03, 0.97, 1.0]
    iops = {(8, 8): (10_000, up), (16, 16): (9_900, down), (1, 1): (1_000, up), (2, 2): (2_000, down)}
    noisy = _rounds_of({demand: [most * part for part in parts] for demand, (most, parts) in iops.items()})
    quiet = _rounds_of({demand: [most] * 5 for demand, (most, _) in iops.items()})
    assert noise_percent(noisy, RULE) > RULE.tolerance_percent
    assert [point.demand.label for point in alternative_points(noisy, RULE)["Max IOPS"]] == ["T16Q16"]
    assert alternative_points(quiet, RULE)["Max IOPS"] == ()


def test_a_point_on_the_limit_is_not_below_it() -> None:
    """The ART must be below the limit: 5 ms itself is not, and the next lower point is Max."""
    means = [mean_of(32, 32, 9000, LIMIT_MS), mean_of(8, 8, 8000, 4.999), mean_of(1, 1, 1000, 0.5)]
    assert points(means)["Max IOPS"].demand.label == "T8Q8"


def test_a_device_without_io_has_operating_points() -> None:
    """Without I/O every ART is unknown: no point is below the limit, and Max, Mid and Min are the lowest Total OIO."""
    means = [mean_of(8, 8, 0.0, math.nan), mean_of(1, 1, 0.0, math.nan)]
    chosen_points = operating_points(means, RULE)
    assert {point.demand.label for point in chosen_points} == {"T1Q1"}
    assert exceeds_art_limit(chosen_points, LIMIT_MS)
    assert operating_points([], RULE) == ()


def measured_at(threads: int, depth: int, ios: int, response_ms: float) -> Measurement:
    stimulus = strategies.stimulus(thread_count=threads, queue_depth=depth)
    return strategies.measurement(stimulus, write=strategies.transfers(ios, response_mean_ns=1e6 * response_ms))


def test_means_weigh_response_times_by_their_ios() -> None:
    """IOPS are the mean of the rounds; ART is that of all I/Os together, not the mean of the rounds' averages."""
    rounds = [
        MeasuredRound(number=1, measurements=(measured_at(2, 4, 1000, 1.0),), complete=True),
        MeasuredRound(number=2, measurements=(measured_at(2, 4, 3000, 3.0),), complete=True),
    ]
    (demand,) = demand_means(rounds)
    assert demand.iops == 2000
    assert demand.art_ms == pytest.approx(2.5)


def test_a_demand_that_a_round_lacks_has_no_mean() -> None:
    """Only demands that every round of the window measured have means, in the order of the loop."""
    whole = MeasuredRound(number=1, measurements=(measured_at(2, 2, 10, 1), measured_at(2, 1, 10, 1)), complete=True)
    part = MeasuredRound(number=2, measurements=(measured_at(2, 2, 10, 1),), complete=False)
    assert [mean.demand.label for mean in demand_means([whole])] == ["T2Q2", "T2Q1"]
    assert [mean.demand.label for mean in demand_means([whole, part])] == ["T2Q2"]
    assert demand_means([]) == ()


@pytest.mark.parametrize("test", ["dirth", "composite"])
def test_the_histograms_run_at_the_operating_points_of_the_last_window(test: str) -> None:
    """The continuous stimuli after the loop run at the operating points of the window in the result."""
    result = samples.result_of(test)
    loop = result.loop()
    assert loop is not None
    chosen_points = operating_points(demand_means(loop.window_rounds), RULE)
    assert [(line.part, line.stimulus.demand) for line in result.lines("histogram")] == [
        (point.name, point.demand) for point in chosen_points
    ]
