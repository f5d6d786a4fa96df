"""The throughput test: each block size a test of its own, of streams that go on where they stopped (chapter 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.model.measurement import Measurement
from snia_pts.model.steps import Purge, Round, Step, Stimulus
from snia_pts.procedures.ranges import next_start_bytes
from snia_pts.spec import TestClass
from snia_pts.units import GB, KIB, MIB
from tests.courses import Behaviour, Course, course, refusal, stops_at, whole_runs
from tests.strategies import CLASSES, VERSIONS, WILD, dut, measurement, series, spec_of, stimulus, transfers

EVERY = tuple(product(VERSIONS, CLASSES))


def sizes(pts: str, test_class: TestClass) -> list[str]:
    """Return the block sizes that a version and class test."""
    return ["1024 KiB"] if (pts, test_class) == ("1.1", "client") else ["1024 KiB", "128 KiB"]


def following(values: dict[tuple[str, int], list[int]]) -> Behaviour:
    """Return a behaviour in which the streams of some (part, read share) follow a series, round by round."""

    def iops(step: Step, stimulus: Stimulus, number: int) -> float:
        found = values.get((step.part, stimulus.read_percent)) if step.kind == "round" else None
        return found[number - 1] if found else 100

    return iops


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_each_block_size_is_a_test_of_its_own(pts: str, test_class: TestClass) -> None:
    """For 1024 KiB, then 128 KiB: a purge, WIPC of that very block size, rounds of 100/0 then 0/100, a minute each."""
    run = course(spec_of("throughput", pts, test_class))
    told = [
        (step.part, step.kind, [f"{item.label}, {item.seconds or item.passes}" for item in step.stimuli])
        for step in run.steps
    ]

    assert told == [
        entry
        for size in sizes(pts, test_class)
        for entry in (
            (size, "purge", []),
            (size, "continuous", [f"SEQ {size} 0/100, {3 if (pts, test_class) == ('2.0.2', 'client') else 2}"]),
            *[(size, "round", [f"SEQ {size} 100/0, 60.0", f"SEQ {size} 0/100, 60.0"])] * 5,
        )
    ]
    assert {step.phase for step in run.stretches()} == {"WIPC"}
    for step in run.stretches():
        assert 0 <= (step.stimulus.amount_bytes or 0) - 2 * 960 * GB < step.stimulus.largest_block_bytes


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_demand(pts: str, test_class: TestClass) -> None:
    """Every stream runs at T1Q32, in both versions and classes."""
    run = course(spec_of("throughput", pts, test_class))

    assert {item.demand.label for step in run.rounds for item in step.stimuli} == {"T1Q32"}


@given(series(), series())
def test_each_block_size_stops_by_its_own_writes(large: list[int], small: list[int]) -> None:
    """A block size ends when its own write MB/s is steady over five rounds, else after 25, and the other follows."""
    run = course(spec_of("throughput"), iops=following({("1024 KiB", 0): large, ("128 KiB", 0): small}))
    numbers = {part: [step.number for step in run.rounds if step.part == part] for part in ("1024 KiB", "128 KiB")}
    expected = [stops_at([values]) for values in (large, small)]
    unsteady = [part for part, last in zip(numbers, expected, strict=True) if last is None]

    assert list(numbers.values()) == [list(range(1, (last or 25) + 1)) for last in expected]
    assert run.result().unsteady == tuple(unsteady)
    assert run.result().verdict == (
        f"STEADY STATE NOT ACHIEVED ({', '.join(unsteady)})" if unsteady else "STEADY STATE"
    )


def test_reads_do_not_decide() -> None:
    """Wild reads are reported and keep nothing going."""
    run = course(spec_of("throughput"), iops=following({("1024 KiB", 100): WILD, ("128 KiB", 100): WILD}))

    assert len(run.rounds) == 10


def test_never_steady_is_reported_with_the_last_five_rounds() -> None:
    """A block size that is never steady gets 25 rounds, of which the last five are its window."""
    result = course(spec_of("throughput"), iops=following({("128 KiB", 0): WILD})).result()
    loops = {loop.part: loop for loop in result.loops}

    assert {part: loop.steady for part, loop in loops.items()} == {"1024 KiB": True, "128 KiB": False}
    assert [measured.number for measured in loops["128 KiB"].window_rounds] == [21, 22, 23, 24, 25]
    assert result.verdict == "STEADY STATE NOT ACHIEVED (128 KiB)"


# -- streams ---------------------------------------------------------------------------------------------------------


def streams(run: Course) -> dict[tuple[str, int], list[Measurement]]:
    """Return the measurements of each stream, in order, by part and read share."""
    point: dict[tuple[str, int], list[Measurement]] = {}
    for step, outcomes in run.told:
        if isinstance(step, Round):
            for outcome in outcomes:
                assert isinstance(outcome, Measurement)
                point.setdefault((step.part, outcome.stimulus.read_percent), []).append(outcome)
    return point


def begin(stimulus: Stimulus) -> int:
    """Return where the one stream of a stimulus begins."""
    assert isinstance(stimulus.start_bytes, int)
    return stimulus.start_bytes


def moved_bytes(measured: Measurement) -> int:
    return measured.read.transferred_bytes + measured.write.transferred_bytes


@whole_runs
@given(
    st.integers(4 * MIB, 64 * GB),
    st.lists(st.integers(1, 4000), min_size=25, max_size=25),
    st.lists(st.integers(1, 4000), min_size=25, max_size=25),
    st.sampled_from(CLASSES),
)
def test_streams_go_on_where_they_stopped(
    capacity_bytes: int, reads: Sequence[int], writes: Sequence[int], test_class: TestClass
) -> None:
    """A stream begins where that mix's stream stopped; at the range's start only where the rest would not last."""
    device = dut(capacity_bytes=capacity_bytes)
    speeds = {100: reads, 0: writes}

    def iops(step: Step, stimulus: Stimulus, number: int) -> float:
        return speeds[stimulus.read_percent][number - 1] if step.kind == "round" else 100

    for stream in streams(course(spec_of("throughput", "2.0.2", test_class), device, iops)).values():
        assert stream[0].stimulus.start_bytes == 0
        for before, after in pairwise(stream):
            block, range_bytes = after.stimulus.largest_block_bytes, after.stimulus.range_bytes
            stopped = begin(before.stimulus) + moved_bytes(before)
            lasts = stopped + moved_bytes(before) <= range_bytes

            assert range_bytes <= capacity_bytes * (3 if test_class == "client" else 4) / 4
            assert begin(after.stimulus) % block == 0
            assert after.stimulus.start_bytes == (stopped if lasts else 0)
            assert 0 <= begin(after.stimulus) < range_bytes


def test_a_stream_uses_the_range_to_its_end() -> None:
    """Where the rest of the range just lasts for one more minute the stream goes on, and then begins anew."""
    run = course(spec_of("throughput"), dut(capacity_bytes=180 * MIB), lambda step, stimulus, number: 1)
    starts = [begin(item.stimulus) // MIB for item in streams(run)["1024 KiB", 0]]

    assert starts == [0, 60, 120, 0, 60]


@given(st.integers(0, 2000), st.integers(0, 10**9), st.sampled_from([4, 128, 1024]))
def test_a_stream_that_stopped_within_a_block_goes_on_at_its_begin(start: int, moved: int, size_kib: int) -> None:
    """Whatever the engine says was transferred, a stream goes on at a whole block, less than one before it stopped."""
    block, range_bytes = size_kib * KIB, 10**9
    request = stimulus(access="SEQ", block_size_kib=size_kib, range_bytes=range_bytes)
    point = replace(request, start_bytes=start * block % range_bytes // block * block)
    place = next_start_bytes(request, measurement(point, write=transfers(transferred_bytes=moved)))

    assert isinstance(place, int)
    assert place % block == 0
    assert place == 0 or 0 <= begin(point) + moved - place < block


@given(
    st.lists(st.integers(0, 300), min_size=4, max_size=4),
    st.lists(st.integers(0, 300), min_size=4, max_size=4),
    st.sampled_from([1.0, 2.0]),
)
def test_several_streams_go_on_where_each_stopped(starts: list[int], moved: list[int], times: float) -> None:
    """Each in its share of 400 or 401 blocks; at its beginning only where its rest would not last."""
    request = stimulus(access="SEQ", thread_count=4, block_size_kib=4, range_bytes=1602 * 4 * KIB + 512)
    before = replace(request, start_bytes=tuple(start * 4 * KIB for start in starts))
    point = replace(
        measurement(before, write=transfers(transferred_bytes=sum(moved) * 4 * KIB)),
        stream_bytes=tuple(blocks * 4 * KIB for blocks in moved),
    )
    places = next_start_bytes(replace(request, seconds=60.0 * times), point)

    expected = [
        (start + blocks) * 4 * KIB if start + blocks * (1 + times) <= 400 + (thread < 2) else 0
        for thread, (start, blocks) in enumerate(zip(starts, moved, strict=True))
    ]
    assert places == (tuple(expected) if any(expected) else 0)


def test_runs_of_older_versions_go_on_at_the_mean_place() -> None:
    """Where nobody told what each thread transferred, all are where they would be if they were alike."""
    request = stimulus(access="SEQ", thread_count=4, range_bytes=GB)
    before = measurement(replace(request, start_bytes=64 * KIB), write=transfers(transferred_bytes=256 * KIB))

    assert next_start_bytes(request, before) == 320 * KIB


def test_a_course_of_several_threads_has_a_place_for_each() -> None:
    """The places of T4 are in the shares of the threads, in every round but the first."""
    run = course(spec_of("throughput", setup__thread_count=4), dut(capacity_bytes=960 * MIB), lambda *_: 1)
    starts = [item.stimulus.start_bytes for item in streams(run)["1024 KiB", 0]]

    assert starts[:3] == [0, (15 * MIB,) * 4, (30 * MIB,) * 4]


def test_a_block_size_begins_its_streams_anew() -> None:
    """The streams of 128 KiB begin at the range's start, not where those of 1024 KiB stopped."""
    first = {step.part: step.stimuli for step in course(spec_of("throughput")).rounds if step.number == 1}

    assert {part: [item.start_bytes for item in stimuli] for part, stimuli in first.items()} == {
        "1024 KiB": [0, 0],
        "128 KiB": [0, 0],
    }


# -- targets ---------------------------------------------------------------------------------------------------------


def test_every_block_size_must_fit_before_the_first_step() -> None:
    """A device that can run 1024 KiB and not 128 KiB is refused at once, not half way through."""
    spec = spec_of("throughput", rounds__block_sizes_kib=(1024, 2))

    assert "2 KiB of preconditioning is not a multiple of" in refusal(spec, dut(logical_sector_bytes=4096))


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_sectors_of_4096_change_nothing(pts: str, test_class: TestClass) -> None:
    """The large block sizes fit 4096-byte sectors."""
    spec = spec_of("throughput", pts, test_class)

    assert course(spec, dut(logical_sector_bytes=4096)).steps == course(spec).steps


def test_purges_are_told_by_their_part() -> None:
    """The result holds a purge for each block size."""
    run = course(spec_of("throughput"))

    assert [step.part for step in run.steps if isinstance(step, Purge)] == ["1024 KiB", "128 KiB"]
    assert [part for part, _ in run.result().purges] == ["1024 KiB", "128 KiB"]
    assert all(item.largest_block_bytes >= 128 * KIB for step in run.rounds for item in step.stimuli)
