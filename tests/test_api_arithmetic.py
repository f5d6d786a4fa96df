"""The arithmetic of the library on numbers that are not of a run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import snia_pts
from snia_pts.errors import UsageError

#: Golden case G2: the rounds of a published report of the standard, and their figures.
ROUNDS = (13705, 14639, 14747, 14678, 13927)
BINS = st.dictionaries(st.integers(1, 10**10), st.integers(1, 1000), min_size=1, max_size=20)


def response_times(bins: dict[int, int]) -> snia_pts.ResponseTimes:
    total = sum(edge * count for edge, count in bins.items())
    latency = {"bins": {str(edge): count for edge, count in bins.items()}}
    return snia_pts.ResponseTimes.from_fio({**latency, "mean": total / sum(bins.values()), "max": max(bins)})


def test_five_values_are_judged_by_the_standard() -> None:
    """The example has a data excursion of 1042 and a slope excursion of 193.2, at an average of 14 339.2."""
    state = snia_pts.steady_state(ROUNDS)

    assert (state.steady, state.average, state.data_excursion) == (True, 14339.2, 1042.0)
    assert state.slope_excursion == pytest.approx(193.2)


def test_the_first_steady_window_counts() -> None:
    """The test ends there; without one, the last window tells how far the values are from it."""
    assert snia_pts.steady_state((50000, 30000, *ROUNDS, 1)).rounds == (3, 4, 5, 6, 7)
    unsteady = snia_pts.steady_state((1, 2, 4, 8, 16, 32, 64))
    assert (unsteady.rounds, unsteady.steady) == ((3, 4, 5, 6, 7), False)


def test_another_rule_can_be_given() -> None:
    """A narrower excursion is not met; a shorter window needs fewer values."""
    assert not snia_pts.steady_state(ROUNDS, data_excursion_percent=5).steady
    assert not snia_pts.steady_state(ROUNDS, slope_excursion_percent=1).steady
    assert snia_pts.steady_state((10, 10), window_rounds=2).steady


def test_values_that_are_not_finite_are_not_steady() -> None:
    """There is no average to compare with."""
    state = snia_pts.steady_state((*ROUNDS[:4], math.nan))

    assert (state.steady, state.evaluable) == (False, False)


@pytest.mark.long
@given(parts=st.lists(BINS, min_size=1, max_size=4))
def test_merged_response_times_are_those_of_all_ios(parts: list[dict[int, int]]) -> None:
    """Counts, average, maximum and median are those of all I/Os in one list."""
    every = sorted(edge for bins in parts for edge, count in bins.items() for _ in range(count))
    merged = snia_pts.merge_response_times(map(response_times, parts))

    assert merged.count == len(every)
    assert merged.maximum_us == every[-1] / 1000
    assert merged.average_us == pytest.approx(math.fsum(every) / len(every) / 1000)
    median = merged.percentile_us(50)
    assert median == (every[(len(every) + 1) // 2 - 1] / 1000 if len(every) > 1 else None)


def test_response_times_without_ios() -> None:
    """Nothing merged has no numbers; too few I/Os have no percentile."""
    nothing = snia_pts.merge_response_times([])

    assert (nothing.count, nothing.average_us, nothing.maximum_us, nothing.percentile_us(50)) == (0, None, None, None)
    assert response_times({1000: 999}).percentile_us(99.9) is None
    assert response_times({1000: 1000}).percentile_us(99.9) == 1.0


def test_a_percentile_does_not_exceed_the_maximum() -> None:
    """The edge of the last bin may lie above the greatest time, which is exact."""
    times = snia_pts.ResponseTimes.from_fio({"bins": {"1056": 10}, "mean": 1050, "max": 1050})

    assert times.percentile_us(50) == 1.05


def test_a_difference_has_a_confidence_interval() -> None:
    """Of Welch's t test for rounds; without scatter to judge by, there is none."""
    change = snia_pts.difference((100, 101, 99), (103, 104, 102))
    assert change is not None
    assert change.percent == pytest.approx(3)
    assert change.low is not None
    assert change.high is not None
    assert 0 < change.low < 3 < change.high
    assert change.significant
    single = snia_pts.difference([100], [103])
    assert single is not None
    assert (single.low, single.significant) == (None, None)
    assert snia_pts.difference([0.0], [1.0]) is None


def test_an_array_is_estimated() -> None:
    """Of RAID 5, a small write costs two reads and two writes."""
    estimate = snia_pts.raid_estimate(level=5, disks=8, read_percent=60, iops=10_000, disk_iops=50_000)

    assert estimate.work is not None
    assert (estimate.work.read_iops, estimate.work.pre_read_iops, estimate.work.write_iops) == (6000, 8000, 8000)
    assert estimate.iops == pytest.approx(8 * 50_000 / 2.2)
    cached = snia_pts.raid_estimate(level=0, disks=2, read_percent=100, cache_hit_percent=100, disk_iops=1)
    assert (cached.work, cached.iops) == (None, math.inf)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: snia_pts.steady_state((1, 2)), "A window has 5 rounds, but there are 2 values."),
        (lambda: snia_pts.steady_state(ROUNDS, window_rounds=1), "a line needs two points"),
        (lambda: snia_pts.steady_state(ROUNDS, data_excursion_percent=0), "an excursion of 0 % cannot be allowed"),
        (lambda: snia_pts.steady_state(ROUNDS, slope_excursion_percent=math.nan), "cannot be allowed"),
        (lambda: snia_pts.difference([], [1]), "no values to compare"),
        (lambda: snia_pts.raid_estimate(level=7, disks=4, read_percent=50), "RAID 7 is not supported"),
    ],
)
def test_impossible_numbers_are_refused(use: Callable[..., Any], message: str) -> None:
    """Each refusal is a sentence with a remedy."""
    with pytest.raises(UsageError, match=f"(?i){message}") as raised:
        use()

    assert raised.value.hint


NO_LATENCY: tuple[dict[str, Any], ...] = (
    {},
    {"bins": []},
    {"bins": {"x": 1}, "mean": 1, "max": 1},
    {"bins": {"1": -1}, "mean": 1, "max": 1},
    {"bins": {"1": 1}, "mean": None, "max": 1},
    {"bins": {"1": 1}, "mean": 1},
)


@pytest.mark.parametrize("latency", NO_LATENCY, ids=str)
def test_what_is_no_latency_object_is_refused(latency: dict[str, Any]) -> None:
    """fio writes bins with json+ only."""
    with pytest.raises(UsageError, match="not a latency object"):
        snia_pts.ResponseTimes.from_fio(latency)
