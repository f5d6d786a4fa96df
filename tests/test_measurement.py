"""Statistics come from totals and histograms, never from averages of averages."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.model.histogram import Histogram, merge, percentile_rank, percentiles_ns
from snia_pts.model.measurement import (
    FIVE_NINES,
    METRICS,
    NO_TRANSFERS,
    MeasuredRound,
    average_response_us,
    mean,
    percentile_response_us,
)
from snia_pts.model.steps import Cell
from snia_pts.results.attributes import spread_percent
from snia_pts.spec import MetricName, Tracked
from tests.strategies import cells, histograms, measured_round, measurement, rule, sample, stimulus, transfers


def test_mixed_iops_is_the_sum() -> None:
    """A mixed point's IOPS is reads plus writes, not weighted by the mix."""
    mixed = measurement(read=transfers(650, runtime_ms=2000), write=transfers(350, runtime_ms=2000))

    assert mixed.ios == 1000
    assert mixed.iops == 500
    assert mixed.runtime_ms == 2000


def test_throughput_is_decimal_and_the_sum() -> None:
    """MB/s is 10^6 bytes per second, reads and writes together."""
    mixed = measurement(
        read=transfers(transferred_bytes=3_000_000, runtime_ms=1500), write=transfers(transferred_bytes=500_000)
    )

    assert mixed.mb_per_second == pytest.approx(2.5)


@pytest.mark.parametrize(("runtime_ms", "iops"), [(0, math.nan), (99, math.nan), (100, 1000.0), (1000, 100.0)])
def test_a_rate_needs_100_ms_of_the_engines_clock(runtime_ms: int, iops: float) -> None:
    """The clock counts whole milliseconds: below 100 ms a rate would be wrong by more than 1 %."""
    measured = measurement(stimulus(), write=transfers(100, transferred_bytes=409_600, runtime_ms=runtime_ms))
    short = sample(1, 100, seconds=runtime_ms / 1000, write_bytes=409_600)

    assert [measured.iops, short.iops] == pytest.approx([iops] * 2, nan_ok=True)
    assert [measured.mb_per_second, short.mb_per_second] == pytest.approx([iops * 0.004096] * 2, nan_ok=True)


@given(st.integers(1, 10**12), st.floats(0.1, 1e6))
def test_a_rate_is_the_nearest_float(ios: int, seconds: float) -> None:
    """Seconds are not converted to milliseconds first, because that would round them."""
    assert sample(1, ios, seconds=seconds).iops == ios / seconds
    runtime_ms = round(1000 * seconds)
    assert measurement(write=transfers(ios, runtime_ms=runtime_ms)).iops == float(Fraction(1000 * ios, runtime_ms))


@pytest.mark.parametrize(("counts", "expected"), [((1000, 1000), None), ((1000, 1009), None), ((1000, 1011), 1.094)])
def test_a_spread_below_the_clocks_resolution_is_unknown(counts: tuple[int, int], expected: float | None) -> None:
    """Points of 100 ms have a resolution of 1 %: equal rates do not mean that the repeats were equal."""
    measured = [measurement(stimulus(), write=transfers(ios, runtime_ms=100)) for ios in counts]
    assert spread_percent(measured) == (None if expected is None else pytest.approx(expected, abs=0.001))


def test_average_response_is_weighted() -> None:
    """ART counts each I/O once: 900 of 100 us and 100 of 1000 us are 190 us, not 550."""
    mixed = measurement(
        read=transfers(900, response_mean_ns=100_000.0), write=transfers(100, response_mean_ns=1_000_000.0)
    )

    assert mixed.average_response_us == pytest.approx(190)


def test_maximum_response_is_the_larger() -> None:
    """MRT is the largest response time of reads and writes."""
    mixed = measurement(read=transfers(response_max_ns=7000), write=transfers(response_max_ns=9000))

    assert mixed.maximum_response_us == 9


def test_a_measurement_without_io_is_zero() -> None:
    """Its rates are computed without a division by zero."""
    nothing = measurement()

    assert (nothing.iops, nothing.mb_per_second, nothing.average_response_us, nothing.runtime_ms) == (0, 0, 0, 0)
    assert NO_TRANSFERS.iops == 0


@given(histograms(), histograms(), histograms())
def test_merging_keeps_the_count(one: Histogram, two: Histogram, three: Histogram) -> None:
    """Merged histograms hold all I/Os, in any order."""
    assert merge((one, two)) == merge((two, one))
    assert merge((one, two)).count == one.count + two.count
    assert merge((merge((one, two)), three)) == merge((one, merge((two, three)))) == merge((one, two, three))
    assert merge((one, Histogram())) == one


def test_histograms_have_maximum_values() -> None:
    """The maximum response time is 10^18 ns, the maximum count 10^18 I/Os; merged histograms may have more."""
    most = Histogram(counted=f"{10**18} {10**18}")

    assert merge((transfers(histogram=most).histogram, most)).count == 2 * 10**18
    with pytest.raises(ValueError, match="histogram bin above"):
        Histogram(counted=f"{10**18 + 1} 1")
    with pytest.raises(ValueError, match="response times"):
        transfers(histogram=merge((most, Histogram(counted="1 1"))))


@pytest.mark.parametrize("counted", ["-2 1", "2 1,1 1", "1 1,1 1", "1 -1", "1 1,2", "one 1", "1.5 1"])
def test_invalid_bins_are_refused(counted: str) -> None:
    """Bins that do not ascend, duplicate bins, missing or negative counts, and fractions are refused."""
    with pytest.raises(ValueError, match=r"bins must ascend|without a count|whole numbers"):
        Histogram(counted=counted)


def test_percentiles_come_from_merged_bins() -> None:
    """The 99 % response time of a mixed point is that of all its I/Os, not an average of two percentiles."""
    reads = transfers(histogram=Histogram.from_bins(((10, 900),)))
    writes = transfers(histogram=Histogram.from_bins(((20, 85), (5000, 15))))
    mixed = measurement(read=reads, write=writes)

    assert percentiles_ns((mixed.histogram,), (90,))[0] == 10
    assert percentiles_ns((mixed.histogram,), (95,))[0] == 20
    assert percentiles_ns((mixed.histogram,), (99,))[0] == 5000


@given(histograms(), st.sampled_from([50.0, 90.0, 99.0, 99.9]))
def test_percentile_is_the_first_bin_that_reaches_it(histogram: Histogram, percent: float) -> None:
    """At least that many I/Os are at or below the percentile, and fewer below it."""
    edge = percentiles_ns((histogram,), (percent,))[0]
    enough = 1000 * histogram.count >= round(100_000 / (100 - percent)) and histogram.count > 0

    assert (edge is not None) == enough
    if edge is not None:
        up_to = sum(count for bin_edge, count in histogram.bins if bin_edge <= edge)
        below = sum(count for bin_edge, count in histogram.bins if bin_edge < edge)
        assert 1000 * up_to >= round(10 * percent) * histogram.count
        assert 1000 * below < round(10 * percent) * histogram.count


def test_five_nines_need_a_hundred_thousand() -> None:
    """With 99 999 I/Os the 99.999 % response time is unknown, with 100 000 it is the second largest."""
    assert percentiles_ns((Histogram.from_bins(((1, 99_999),)),), (FIVE_NINES,))[0] is None
    assert percentiles_ns((Histogram.from_bins(((1, 99_998), (2, 1), (3, 1))),), (FIVE_NINES,))[0] == 2
    assert percentiles_ns((Histogram(),), (50,))[0] is None


@pytest.mark.parametrize("percent", [1.0, 50.0, 95.0, 99.0, 99.5, 99.9, 99.99, FIVE_NINES])
def test_the_rank_of_a_percentile_is_exact(percent: float) -> None:
    """The rank is the smallest integer that is at least that percentage of the count, computed in integers."""
    thousandths = round(percent * 1000)
    for count in range(100_000, 20_000_000, 100_000):
        assert percentile_rank(count, percent) == -(-count * thousandths // 100_000)
    assert percentile_rank(41_000, 99.9) == 40_959


def test_a_value_is_found_by_its_key() -> None:
    """A tracked variable is looked up by mix and block size, at any position in the round."""
    four_kib, sixty_four_kib, _ = cells(rule())
    for ios in ({four_kib: 10, sixty_four_kib: 20}, {sixty_four_kib: 20, four_kib: 10}):
        assert [measured_round(1, ios).value(tracked) for tracked in rule().tracked[:2]] == [10, 20]


def test_a_value_that_was_not_measured_is_an_error() -> None:
    """A round that did not measure a variable returns no neighbour's value."""
    tracked = Tracked(metric="iops", block_size_kib=4, read_percent=0)
    with pytest.raises(KeyError):
        measured_round(1, {Cell(read_percent=0, block_size_bytes=8192): 5}).value(tracked)


def test_mean() -> None:
    """The mean is summed without rounding error, and is nan without values."""
    assert mean([0.1] * 10) == 0.1
    assert mean([1e16, 1.0, -1e16]) == pytest.approx(1 / 3)
    assert math.isnan(mean([]))


def test_no_percentile_is_above_the_maximum() -> None:
    """A bin's value may exceed the maximum response time, a percentile may not."""
    side = transfers(histogram=Histogram(counted="1000 200000,2100 2"), response_max_ns=2000, ios=200_002)
    point = measurement(write=side)

    assert percentile_response_us([point], FIVE_NINES) == 1.0
    assert percentile_response_us([point], 99.9995) == 2.0
    assert percentile_response_us([], FIVE_NINES) is None


@pytest.mark.parametrize("percent", [0, 100, -1, 101])
def test_0_and_100_percent_are_no_percentiles(percent: float) -> None:
    """A percentile is between them."""
    with pytest.raises(ValueError, match="between 0 and 100"):
        percentiles_ns((Histogram(counted="1 1"),), (percent,))[0]


def test_a_point_measured_twice_is_refused() -> None:
    """Two measurements with the same key cannot be distinguished."""
    twice = MeasuredRound(number=1, measurements=(measurement(), measurement()), complete=True)
    with pytest.raises(ValueError, match="round 1 measured a point twice"):
        twice.keyed_by(lambda stimulus: stimulus.cell)
    with pytest.raises(ValueError, match="round 1 has 2 points for a tracked variable"):
        twice.value(Tracked(metric="iops", read_percent=0, block_size_kib=4))


def test_points_have_the_keys_of_the_test() -> None:
    """The same round is a matrix of cells, or of demands."""
    stimuli = [stimulus(thread_count=threads, queue_depth=depth) for threads in (2, 1) for depth in (2, 1)]
    measured = MeasuredRound(number=1, measurements=tuple(map(measurement, stimuli)), complete=True)

    assert [demand.label for demand in measured.keyed_by(lambda item: item.demand)] == ["T2Q2", "T2Q1", "T1Q2", "T1Q1"]
    with pytest.raises(ValueError, match="twice"):
        measured.keyed_by(lambda value: value.cell)


def test_value_at_a_demand() -> None:
    """A tracked variable of a demand loop is found by Thread Count and Queue Depth, not by their product."""
    points = tuple(
        measurement(stimulus(thread_count=threads, queue_depth=depth), write=transfers(ios))
        for threads, depth, ios in ((2, 8, 1), (4, 4, 2), (8, 2, 3))
    )
    measured = MeasuredRound(number=1, measurements=points, complete=True)

    assert measured.value(Tracked(metric="iops", thread_count=4, queue_depth=4)) == 2
    assert measured.value(Tracked(metric="iops", thread_count=8, queue_depth=2)) == 3
    with pytest.raises(KeyError):
        measured.value(Tracked(metric="iops", thread_count=2, queue_depth=2))


@pytest.mark.parametrize(("metric", "value"), [("iops", 1500), ("mb_per_second", 6.144), ("average_response_ms", 0.4)])
def test_metrics(metric: MetricName, value: float) -> None:
    """IOPS and decimal MB/s of reads and writes together, and their average response time in ms, by I/O count."""
    point = measurement(
        read=transfers(1000, response_mean_ns=100_000.0), write=transfers(500, response_mean_ns=1_000_000.0)
    )
    cut = sample(
        seconds=1.0, read_ios=1000, write_ios=500, read_bytes=4_096_000, write_bytes=2_048_000, average_response_us=400
    )

    assert METRICS[metric].read(point) == pytest.approx(value)
    assert METRICS[metric].read(cut) == pytest.approx(value)


def test_response_time_of_several_measurements() -> None:
    """The ART of several measurements counts each I/O once; without I/Os it is nan."""
    few = measurement(write=transfers(10, response_mean_ns=9_000_000.0))
    many = measurement(read=transfers(90, response_mean_ns=1_000_000.0))

    assert average_response_us([few, many]) == pytest.approx(1800)
    assert math.isnan(average_response_us([]))
    assert math.isnan(average_response_us([measurement()]))
