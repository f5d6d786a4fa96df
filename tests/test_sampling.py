"""Samples as differences of running totals: they add up, and say no more than was counted."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.lab.fio.sampling import Sampler, Side, Totals, upper_edge_ns
from snia_pts.model.histogram import Histogram, percentiles_ns
from snia_pts.model.measurement import NINES, Sample


def middle_ns(time_ns: int) -> int:
    """Return the middle of fio's bin for a response time: 64 bins from each power of two to the next."""
    width = 1 << max(0, time_ns.bit_length() - 7)
    return time_ns // width * width + width // 2


@given(st.integers(0, 10**10))
def test_a_time_is_not_above_its_bins_upper_edge(time_ns: int) -> None:
    """The edge of a bin is the greatest time in it: that time is in the bin, one nanosecond more is not."""
    edge = upper_edge_ns(middle_ns(time_ns))

    assert time_ns <= edge
    assert middle_ns(edge) == middle_ns(time_ns) != middle_ns(edge + 1)


Times = list[int]


def side(times: Sequence[int], torn: int = 0, runtime_ms: int = 0) -> Side:
    """Return the totals of I/Os of 4 KiB with these response times; the last ``torn`` of them not yet timed."""
    timed = times[: len(times) - torn]
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
def courses(draw: st.DrawFn) -> tuple[list[Totals], list[tuple[Times, Times]]]:
    """Running totals of a stretch, torn but for the last; with the times of the reads and writes of each sample."""
    times = st.lists(st.integers(1, 10**9), max_size=30)
    new = draw(st.lists(st.tuples(times, times), min_size=1, max_size=8))
    reads: Times = []
    writes: Times = []
    runtime, course = 0, []
    for number, (read, write) in enumerate(new):
        reads, writes = reads + read, writes + write
        runtime += draw(st.integers(0, 1000))
        final = number == len(new) - 1
        torn = (0, 0) if final else (draw(st.integers(0, len(read))), draw(st.integers(0, len(write))))
        course.append(Totals(read=side(reads, torn[0], runtime), write=side(writes, torn[1], runtime)))
    return course, new


def sampled(course: Sequence[Totals], most: int) -> list[Sample]:
    """Sample a course as an engine would: all but the last totals are told on the way."""
    sampler = Sampler(most)
    found = [sample for totals in course[:-1] for sample in sampler.add(totals)]
    return [*found, *sampler.finish(course[-1])]


@given(courses(), st.integers(1, 10))
def test_samples_add_up_to_the_whole(course: tuple[list[Totals], object], most: int) -> None:
    """Whatever the running totals, all samples together are the final ones, to the last I/O, byte and millisecond."""
    totals, _ = course
    found = sampled(totals, most)
    final = totals[-1]

    assert sum(sample.read_ios for sample in found) == final.read.ios
    assert sum(sample.write_ios for sample in found) == final.write.ios
    assert sum(sample.read_bytes for sample in found) == final.read.transferred_bytes
    assert sum(sample.write_bytes for sample in found) == final.write.transferred_bytes
    assert sum(round(1000 * sample.seconds) for sample in found) == final.read.runtime_ms
    assert [sample.number for sample in found] == list(range(1, len(found) + 1))
    assert len(found) <= most
    for before, after in itertools.pairwise(found):
        assert after.ended_seconds == pytest.approx(before.ended_seconds + after.seconds)


@given(courses())
def test_no_sample_has_a_number_that_cannot_be(course: tuple[list[Totals], object]) -> None:
    """No number is below zero, no average or percentile above the greatest time, and that not above the stretch's."""
    totals, _ = course
    for sample in sampled(totals, len(totals)):
        assert min(sample.seconds, sample.ios, sample.read_bytes, sample.write_bytes) >= 0
        assert 0 <= sample.average_response_us <= sample.maximum_response_us
        assert sample.maximum_response_us <= totals[-1].response_max_ns / 1000
        for nines in (sample.three_nines_us, sample.four_nines_us, sample.five_nines_us):
            assert nines is None or 0 <= nines <= sample.maximum_response_us


@given(st.lists(st.tuples(st.lists(st.integers(1, 10**9)), st.lists(st.integers(1, 10**9))), min_size=1, max_size=6))
def test_a_sample_says_what_a_count_of_its_own_would(new: list[tuple[Times, Times]]) -> None:
    """Average and greatest response time are those of the sample's own I/Os, reads and writes together.

    The average is exact; the greatest time is where it is the greatest so far, and else at most a bin's width above.
    """
    reads = list(itertools.accumulate((read for read, _ in new), initial=[]))[1:]
    writes = list(itertools.accumulate((write for _, write in new), initial=[]))[1:]
    course = [Totals(read=side(read, 0, 1), write=side(write, 0, 1)) for read, write in zip(reads, writes, strict=True)]
    sampler = Sampler(len(course) + 1)
    greatest = 0
    for totals, (read, write) in zip(course, new, strict=True):
        (sample,) = sampler.add(totals)
        own = sorted(read + write)
        if not own:
            assert (sample.average_response_us, sample.maximum_response_us) == (0, 0)
            continue
        assert sample.average_response_us == pytest.approx(sum(own) / len(own) / 1000)
        if own[-1] > greatest:
            assert sample.maximum_response_us == own[-1] / 1000
        else:
            assert own[-1] / 1000 <= sample.maximum_response_us <= own[-1] / 1000 * (1 + 1 / 64)
        greatest = max(greatest, own[-1])


@given(st.lists(st.integers(1000, 10**6), min_size=1, max_size=20), st.integers(1, 10_000), st.integers(1, 10_000))
def test_percentiles_come_from_merged_bins(times: Times, reads: int, writes: int) -> None:
    """A sample's percentiles are those of its reads and writes in one histogram; of too few I/Os there are none."""
    bins = Counter(map(middle_ns, times))

    def many(count: int) -> Side:
        counted = {middle: count * item for middle, item in bins.items()}
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
    wanted = [percentiles_ns((whole,), (percent,))[0] for percent in NINES]

    assert [second.three_nines_us, second.four_nines_us, second.five_nines_us] == [
        None if found is None else min(found / 1000, second.maximum_response_us) for found in wanted
    ]
    assert (second.five_nines_us is None) == (second.ios < 100_000)


def test_the_last_sample_is_not_cut_early() -> None:
    """However many running totals come, the last sample is the final totals' own."""
    course = [Totals(write=side([1000] * count, 0, count)) for count in range(1, 10)]

    assert [sample.ios for sample in sampled(course, 3)] == [1, 1, 7]
    assert [sample.ios for sample in sampled(course, 1)] == [9]


def test_final_totals_that_ended_a_sample_end_no_other() -> None:
    """Where a limit ends a stretch, its final totals come as running ones first: there is no empty sample after."""
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
def test_totals_that_go_back_are_refused(later: Side) -> None:
    """Totals that lose an I/O, a byte or a response time are not those of one run."""
    sampler = Sampler(3)
    list(sampler.add(Totals(write=side([1000] * 5, 0, 5))))
    with pytest.raises(ValueError, match="decreased"):
        list(sampler.finish(Totals(write=later)))


def test_a_time_may_go_back_a_little() -> None:
    """A thread that has ended tells its own runtime, perhaps shorter than told before: no sample lasts less than 0.

    A sample that lasts no time has no rate.
    """
    sampler = Sampler(3)
    list(sampler.add(Totals(write=side([1000] * 5, 0, 1002))))
    (last,) = sampler.finish(Totals(write=side([1000] * 6, 0, 1000)))

    assert (last.ios, last.seconds, last.ended_seconds) == (1, 0.0, 1.002)
    assert math.isnan(last.iops)
