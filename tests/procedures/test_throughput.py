"""The throughput test: a separate test per block size, of streams that continue where they stopped (chapter 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.errors import TargetUnfit
from snia_pts.model.measurement import Measurement
from snia_pts.model.steps import Purge, Round, Step, Stimulus
from snia_pts.procedures.ranges import next_start_bytes, require_sectors
from snia_pts.spec import TestClass
from snia_pts.units import GB, KIB, MIB
from tests.procedure_runs import Behaviour, ProcedureRun, refusal, run_procedure, stops_at, whole_runs
from tests.strategies import CLASSES, VERSIONS, WILD, dut, measurement, series, spec_of, stimulus, transfers

EVERY = tuple(product(VERSIONS, CLASSES))


def sizes(pts: str, test_class: TestClass) -> list[str]:
    """Return the block sizes that this version and class test."""
    return ["1024 KiB"] if (pts, test_class) == ("1.1", "client") else ["1024 KiB", "128 KiB"]


def following(values: dict[tuple[str, int], list[int]]) -> Behaviour:
    """Return a behaviour in which the streams of these (part, read percent) follow a series, round by round."""

    def iops(step: Step, stimulus: Stimulus, number: int) -> float:
        series = values.get((step.part, stimulus.read_percent)) if step.kind == "round" else None
        return series[number - 1] if series else 100

    return iops


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_each_block_size_is_a_separate_test(pts: str, test_class: TestClass) -> None:
    """For 1024 KiB, then 128 KiB: a purge, WIPC with that block size, rounds of one minute 100/0 and one 0/100."""
    run = run_procedure(spec_of("throughput", pts, test_class))
    steps = [
        (step.part, step.kind, [f"{point.label}, {point.seconds or point.passes}" for point in step.stimuli])
        for step in run.steps
    ]

    assert steps == [
        entry
        for size in sizes(pts, test_class)
        for entry in (
            (size, "purge", []),
            (size, "continuous", [f"SEQ {size} 0/100, {3 if (pts, test_class) == ('2.0.2', 'client') else 2}"]),
            *[(size, "round", [f"SEQ {size} 100/0, 60.0", f"SEQ {size} 0/100, 60.0"])] * 5,
        )
    ]
    assert {step.phase for step in run.continuous_stimuli()} == {"WIPC"}
    for step in run.continuous_stimuli():
        assert 0 <= (step.stimulus.amount_bytes or 0) - 2 * 960 * GB < step.stimulus.largest_block_bytes


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_demand(pts: str, test_class: TestClass) -> None:
    """Every stream runs at T1Q32 in all versions and classes."""
    run = run_procedure(spec_of("throughput", pts, test_class))

    assert {point.demand.label for step in run.rounds for point in step.stimuli} == {"T1Q32"}


@pytest.mark.long
@given(series(), series())
def test_each_block_size_stops_at_its_own_steady_state(large: list[int], small: list[int]) -> None:
    """A block size ends when its write throughput is steady over five rounds, or after 25; then the next one starts."""
    run = run_procedure(spec_of("throughput"), iops=following({("1024 KiB", 0): large, ("128 KiB", 0): small}))
    numbers = {part: [step.number for step in run.rounds if step.part == part] for part in ("1024 KiB", "128 KiB")}
    expected = [stops_at([values]) for values in (large, small)]
    unsteady = [part for part, last in zip(numbers, expected, strict=True) if last is None]

    assert list(numbers.values()) == [list(range(1, (last or 25) + 1)) for last in expected]
    assert run.result().unsteady == tuple(unsteady)
    assert run.result().verdict == (
        f"STEADY STATE NOT ACHIEVED ({', '.join(unsteady)})" if unsteady else "STEADY STATE"
    )


def test_unsteady_reads_do_not_matter() -> None:
    """With unsteady reads each block size still ends after five rounds."""
    run = run_procedure(spec_of("throughput"), iops=following({("1024 KiB", 100): WILD, ("128 KiB", 100): WILD}))

    assert len(run.rounds) == 10


def test_never_steady_is_reported_with_the_last_five_rounds() -> None:
    """A block size that is never steady gets 25 rounds; its window is the last five."""
    result = run_procedure(spec_of("throughput"), iops=following({("128 KiB", 0): WILD})).result()
    loops = {loop.part: loop for loop in result.loops}

    assert {part: loop.steady for part, loop in loops.items()} == {"1024 KiB": True, "128 KiB": False}
    assert [measured.number for measured in loops["128 KiB"].window_rounds] == [21, 22, 23, 24, 25]
    assert result.verdict == "STEADY STATE NOT ACHIEVED (128 KiB)"


# -- streams ---------------------------------------------------------------------------------------------------------


def streams(run: ProcedureRun) -> dict[tuple[str, int], list[Measurement]]:
    """Return the measurements of each stream, in order, by part and read percent."""
    measurements: dict[tuple[str, int], list[Measurement]] = {}
    for step, outcomes in run.performed:
        if isinstance(step, Round):
            for outcome in outcomes:
                assert isinstance(outcome, Measurement)
                measurements.setdefault((step.part, outcome.stimulus.read_percent), []).append(outcome)
    return measurements


def start_of(stimulus: Stimulus) -> int:
    """Return the start of a stimulus's only stream, in bytes."""
    assert isinstance(stimulus.start_bytes, int)
    return stimulus.start_bytes


def moved_bytes(measured: Measurement) -> int:
    """Return the bytes read and written."""
    return measured.read.transferred_bytes + measured.write.transferred_bytes


@whole_runs
@given(
    st.integers(4 * MIB, 64 * GB),
    st.lists(st.integers(1, 4000), min_size=25, max_size=25),
    st.lists(st.integers(1, 4000), min_size=25, max_size=25),
    st.sampled_from(CLASSES),
)
def test_streams_continue_where_they_stopped(
    capacity_bytes: int, reads: Sequence[int], writes: Sequence[int], test_class: TestClass
) -> None:
    """A stream starts where the same mix's stopped, or at the start of the range if the rest would not suffice."""
    device = dut(capacity_bytes=capacity_bytes)
    speeds = {100: reads, 0: writes}

    def iops(step: Step, stimulus: Stimulus, number: int) -> float:
        return speeds[stimulus.read_percent][number - 1] if step.kind == "round" else 100

    for stream in streams(run_procedure(spec_of("throughput", "2.0.2", test_class), device, iops)).values():
        assert stream[0].stimulus.start_bytes == 0
        for before, after in pairwise(stream):
            block, range_bytes = after.stimulus.largest_block_bytes, after.stimulus.range_bytes
            stopped = start_of(before.stimulus) + moved_bytes(before)
            suffices = stopped + moved_bytes(before) <= range_bytes

            assert range_bytes <= capacity_bytes * (3 if test_class == "client" else 4) / 4
            assert start_of(after.stimulus) % block == 0
            assert after.stimulus.start_bytes == (stopped if suffices else 0)
            assert 0 <= start_of(after.stimulus) < range_bytes


def test_a_stream_continues_if_the_rest_of_the_range_just_suffices() -> None:
    """If the rest of the range just suffices for one more minute, the stream continues, and then wraps to the start."""
    run = run_procedure(spec_of("throughput"), dut(capacity_bytes=180 * MIB), lambda step, stimulus, number: 1)
    starts = [start_of(measured.stimulus) // MIB for measured in streams(run)["1024 KiB", 0]]

    assert starts == [0, 60, 120, 0, 60]


@given(st.integers(0, 2000), st.integers(0, 10**9), st.sampled_from([4, 128, 1024]))
def test_a_stream_that_stopped_within_a_block_continues_at_the_start_of_it(
    start: int, moved: int, size_kib: int
) -> None:
    """With any number of bytes, the next start is a whole block, less than one block before the stop, or 0."""
    block, range_bytes = size_kib * KIB, 10**9
    request = stimulus(access="SEQ", block_size_kib=size_kib, range_bytes=range_bytes)
    point = replace(request, start_bytes=start * block % range_bytes // block * block)
    next_start = next_start_bytes(request, measurement(point, write=transfers(transferred_bytes=moved)))

    assert isinstance(next_start, int)
    assert next_start % block == 0
    assert next_start == 0 or 0 <= start_of(point) + moved - next_start < block


@given(
    st.lists(st.integers(0, 300), min_size=4, max_size=4),
    st.lists(st.integers(0, 300), min_size=4, max_size=4),
    st.sampled_from([1.0, 2.0]),
)
def test_several_streams_continue_where_each_stopped(starts: list[int], moved: list[int], times: float) -> None:
    """Each continues in its share of 400 or 401 blocks, or at the share's start if the rest would not suffice."""
    request = stimulus(access="SEQ", thread_count=4, block_size_kib=4, range_bytes=1602 * 4 * KIB + 512)
    before = replace(request, start_bytes=tuple(start * 4 * KIB for start in starts))
    point = replace(
        measurement(before, write=transfers(transferred_bytes=sum(moved) * 4 * KIB)),
        stream_bytes=tuple(blocks * 4 * KIB for blocks in moved),
    )
    next_starts = next_start_bytes(replace(request, seconds=60.0 * times), point)

    expected = [
        (start + blocks) * 4 * KIB if start + blocks * (1 + times) <= 400 + (thread < 2) else 0
        for thread, (start, blocks) in enumerate(zip(starts, moved, strict=True))
    ]
    assert next_starts == (tuple(expected) if any(expected) else 0)


def test_streams_without_bytes_by_thread_continue_at_the_mean() -> None:
    """Without the bytes of each thread, every stream continues as if all threads had transferred the same."""
    request = stimulus(access="SEQ", thread_count=4, range_bytes=GB)
    before = measurement(replace(request, start_bytes=64 * KIB), write=transfers(transferred_bytes=256 * KIB))

    assert next_start_bytes(request, before) == 320 * KIB


def test_each_thread_has_its_own_start() -> None:
    """With four threads, every round but the first has a start for each thread."""
    run = run_procedure(spec_of("throughput", setup__thread_count=4), dut(capacity_bytes=960 * MIB), lambda *_: 1)
    starts = [measured.stimulus.start_bytes for measured in streams(run)["1024 KiB", 0]]

    assert starts[:3] == [0, (15 * MIB,) * 4, (30 * MIB,) * 4]


def test_each_block_size_starts_its_streams_at_0() -> None:
    """The streams of 128 KiB start at the range's start, not where those of 1024 KiB stopped."""
    first = {step.part: step.stimuli for step in run_procedure(spec_of("throughput")).rounds if step.number == 1}

    assert {part: [point.start_bytes for point in stimuli] for part, stimuli in first.items()} == {
        "1024 KiB": [0, 0],
        "128 KiB": [0, 0],
    }


# -- targets ---------------------------------------------------------------------------------------------------------


def test_a_device_that_cannot_run_a_later_block_size_is_refused() -> None:
    """A device that can run the first block size but not the second is refused before the first step."""
    spec = spec_of("throughput", rounds__block_sizes_kib=(1024, 2))

    assert "2 KiB of preconditioning is not a multiple of" in refusal(spec, dut(logical_sector_bytes=4096))
    with pytest.raises(TargetUnfit) as unfit:
        require_sectors(dut(logical_sector_bytes=4096), [2048], "preconditioning")
    assert unfit.value.hint.startswith("Change the block size")


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_sectors_of_4096_change_nothing(pts: str, test_class: TestClass) -> None:
    """On 4096-byte sectors the steps are the same, as the block sizes fit them."""
    spec = spec_of("throughput", pts, test_class)

    assert run_procedure(spec, dut(logical_sector_bytes=4096)).steps == run_procedure(spec).steps


def test_the_result_has_a_purge_for_each_block_size() -> None:
    """The steps and the result have a purge for each block size."""
    run = run_procedure(spec_of("throughput"))

    assert [step.part for step in run.steps if isinstance(step, Purge)] == ["1024 KiB", "128 KiB"]
    assert [part for part, _ in run.result().purges] == ["1024 KiB", "128 KiB"]
    assert all(point.largest_block_bytes >= 128 * KIB for step in run.rounds for point in step.stimuli)
