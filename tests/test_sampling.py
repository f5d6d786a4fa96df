"""Samples as differences of running totals: their sum is the final totals, and no value is impossible."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.lab.fio.sampling import LAST_BIN_NS, Sampler, Side, Totals, is_midpoint, upper_edge_ns
from snia_pts.model.histogram import Histogram, percentiles_ns
from snia_pts.model.measurement import NINES, Sample


def middle_ns(time_ns: int) -> int:
    """Return the middle of fio's bin for a response time: 64 bins from each power of two to the next."""
    width = 1 << max(0, time_ns.bit_length() - 7)
    return time_ns // width * width + width // 2


@given(st.integers(0, 10**10))
def test_a_time_is_not_above_its_bins_upper_edge(time_ns: int) -> None:
    """The upper edge of a bin is the longest time in it: one nanosecond more belongs to the next bin."""
    edge = upper_edge_ns(middle_ns(time_ns))

    assert time_ns <= edge
    assert middle_ns(edge) == middle_ns(time_ns) != middle_ns(edge + 1)


@given(st.integers(0, LAST_BIN_NS))
def test_a_midpoint_is_that_of_its_own_bin(time_ns: int) -> None:
    """No other time in a bin is its midpoint."""
    assert is_midpoint(middle_ns(time_ns))
    assert is_midpoint(time_ns) == (time_ns == middle_ns(time_ns))
    assert not is_midpoint(middle_ns(LAST_BIN_NS + 2**27 + time_ns))  # fio has no bin above the last one


Times = list[int]


def side(times: Sequence[int], untimed: int = 0, runtime_ms: int = 0) -> Side:
    """Return the totals of 4 KiB I/Os with these response times; the last ``untimed`` are counted but not timed."""
    timed = times[: len(times) - untimed]
    return Side(
        ios=len(times),
        transferred_bytes=4096 * len(times),
        runtime_ms=runtime_ms,
        timed_ios=len(timed),
        response_ns=float(sum(timed)),
        response_max_ns=max(timed, default=0),
        bins=Counter(map(middle_ns, timed)),
    )


@st.composite
def running_totals(draw: st.DrawFn) -> tuple[list[Totals], list[tuple[Times, Times]]]:
    """Draw the running totals of a stimulus and the new read and write times of each; only the last are all timed."""
    times = st.lists(st.integers(1, 10**9), max_size=30)
    new = draw(st.lists(st.tuples(times, times), min_size=1, max_size=8))
    reads: Times = []
    writes: Times = []
    runtime, totals = 0, []
    for number, (read, write) in enumerate(new):
        reads, writes = reads + read, writes + write
        runtime += draw(st.integers(0, 1000))
        final = number == len(new) - 1
        untimed = (0, 0) if final else (draw(st.integers(0, len(read))), draw(st.integers(0, len(write))))
        totals.append(Totals(read=side(reads, untimed[0], runtime), write=side(writes, untimed[1], runtime)))
    return totals, new


def sampled(course: Sequence[Totals], maximum: int) -> list[Sample]:
    """Sample running totals as an engine does: the last ones are the final totals."""
    sampler = Sampler(maximum)
    cut = [sample for totals in course[:-1] for sample in sampler.add(totals)]
    return [*cut, *sampler.finish(course[-1])]


@pytest.mark.long
@given(running_totals(), st.integers(1, 10))
def test_the_sum_of_the_samples_is_the_final_totals(course: tuple[list[Totals], object], maximum: int) -> None:
    """For any running totals, the sum of all samples equals the final totals in I/Os, bytes and milliseconds."""
    totals, _ = course
    cut = sampled(totals, maximum)
    final = totals[-1]

    assert sum(sample.read_ios for sample in cut) == final.read.ios
    assert sum(sample.write_ios for sample in cut) == final.write.ios
    assert sum(sample.read_bytes for sample in cut) == final.read.transferred_bytes
    assert sum(sample.write_bytes for sample in cut) == final.write.transferred_bytes
    assert sum(round(1000 * sample.seconds) for sample in cut) == final.read.runtime_ms
    assert [sample.number for sample in cut] == list(range(1, len(cut) + 1))
    assert len(cut) <= maximum
    for before, after in itertools.pairwise(cut):
        assert after.ended_seconds == pytest.approx(before.ended_seconds + after.seconds)


@pytest.mark.long
@given(running_totals())
def test_no_sample_has_an_impossible_value(course: tuple[list[Totals], object]) -> None:
    """No value is negative, no average or percentile exceeds the sample's maximum, and that not the stimulus's."""
    totals, _ = course
    for sample in sampled(totals, len(totals)):
        assert min(sample.seconds, sample.ios, sample.read_bytes, sample.write_bytes) >= 0
        assert 0 <= sample.average_response_us <= sample.maximum_response_us
        assert sample.maximum_response_us <= totals[-1].response_max_ns / 1000
        for nines in (sample.three_nines_us, sample.four_nines_us, sample.five_nines_us):
            assert nines is None or 0 <= nines <= sample.maximum_response_us


@pytest.mark.long
@given(st.lists(st.tuples(st.lists(st.integers(1, 10**9)), st.lists(st.integers(1, 10**9))), min_size=1, max_size=6))
def test_response_times_of_a_sample_are_those_of_its_own_ios(new: list[tuple[Times, Times]]) -> None:
    """Average and maximum response time are those of the sample's own I/Os, reads and writes together.

    The average is exact. The maximum is exact if it is the longest time so far, and at most a bin's width above if not.
    """
    reads = list(itertools.accumulate((read for read, _ in new), initial=[]))[1:]
    writes = list(itertools.accumulate((write for _, write in new), initial=[]))[1:]
    course = [Totals(read=side(read, 0, 1), write=side(write, 0, 1)) for read, write in zip(reads, writes, strict=True)]
    sampler = Sampler(len(course) + 1)
    longest = 0
    for totals, (read, write) in zip(course, new, strict=True):
        (sample,) = sampler.add(totals)
        own = sorted(read + write)
        if not own:
            assert (sample.average_response_us, sample.maximum_response_us) == (0, 0)
            continue
        assert sample.average_response_us == pytest.approx(sum(own) / len(own) / 1000)
        if own[-1] > longest:
            assert sample.maximum_response_us == own[-1] / 1000
        else:
            assert own[-1] / 1000 <= sample.maximum_response_us <= own[-1] / 1000 * (1 + 1 / 64)
        longest = max(longest, own[-1])


@given(st.lists(st.integers(1000, 10**6), min_size=1, max_size=20), st.integers(1, 10_000), st.integers(1, 10_000))
def test_percentiles_come_from_merged_bins(times: Times, reads: int, writes: int) -> None:
    """A sample's percentiles are those of the merged histogram of its reads and writes; too few I/Os give None."""
    bins = Counter(map(middle_ns, times))

    def many(count: int) -> Side:
        counted = {middle: count * ios for middle, ios in bins.items()}
        total = sum(counted.values())
        return Side(
            ios=total,
            transferred_bytes=total,
            runtime_ms=1,
            timed_ios=total,
            response_ns=1.0,
            response_max_ns=10**6,
            bins=counted,
        )

    sampler = Sampler(3)
    list(sampler.add(Totals(read=many(reads), write=many(writes))))
    (second,) = sampler.add(Totals(read=many(3 * reads), write=many(2 * writes)))
    whole = Histogram.from_bins((middle, (2 * reads + writes) * count) for middle, count in bins.items())
    expected = [percentiles_ns((whole,), (percent,))[0] for percent in NINES]

    assert [second.three_nines_us, second.four_nines_us, second.five_nines_us] == [
        None if time_ns is None else min(time_ns / 1000, second.maximum_response_us) for time_ns in expected
    ]
    assert (second.five_nines_us is None) == (second.ios < 100_000)


def test_the_last_sample_takes_all_remaining_totals() -> None:
    """If there are more running totals than samples, the last sample contains all the I/Os that remain."""
    course = [Totals(write=side([1000] * count, 0, count)) for count in range(1, 10)]

    assert [sample.ios for sample in sampled(course, 3)] == [1, 1, 7]
    assert [sample.ios for sample in sampled(course, 1)] == [9]


def test_final_totals_without_new_ios_add_no_sample() -> None:
    """If the final totals equal the last running ones, as when a limit ends a stimulus, no empty sample follows."""
    final = Totals(write=side([1000] * 5, 0, 7))
    sampler = Sampler(10)

    assert [sample.ios for sample in sampler.add(final)] == [5]
    assert list(sampler.finish(final)) == []


@pytest.mark.parametrize(
    "later",
    [
        side([1000] * 4, 0, 10),
        side([1000] * 5 + [9], 3, 10),
        side([500, 1000, 1000, 1000, 1000], 0, 10),
        Side(ios=5, transferred_bytes=4096 * 4, timed_ios=5, bins={1004: 5}),
    ],
)
def test_decreasing_totals_are_refused(later: Side) -> None:
    """Totals in which I/Os, timed I/Os, response times or bytes decrease are refused."""
    sampler = Sampler(3)
    list(sampler.add(Totals(write=side([1000] * 5, 0, 5))))
    with pytest.raises(ValueError, match="decreased"):
        list(sampler.finish(Totals(write=later)))


def test_a_runtime_may_decrease() -> None:
    """If the final runtime is shorter than the one before, the sample has a duration of 0 and its IOPS are nan.

    An ended thread reports its own runtime, which may be shorter than the running one.
    """
    sampler = Sampler(3)
    list(sampler.add(Totals(write=side([1000] * 5, 0, 1002))))
    (last,) = sampler.finish(Totals(write=side([1000] * 6, 0, 1000)))

    assert (last.ios, last.seconds, last.ended_seconds) == (1, 0.0, 1.002)
    assert math.isnan(last.iops)
