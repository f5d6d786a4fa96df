"""The IOPS test: rounds of 56 one-minute points until three variables are steady in the same window (chapter 7)."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.model.steps import Cell, Step, Stimulus
from snia_pts.procedures.preconditioning import wipc
from snia_pts.spec import TestClass, Tracked
from snia_pts.units import GB, KIB, MIB
from tests.procedure_runs import Behaviour, outline, refusal, run_procedure, stops_at
from tests.strategies import CLASSES, VERSIONS, WILD, dut, series, spec_of

EVERY = tuple(product(VERSIONS, CLASSES))
#: The three variables of 2.0.2: 4 KiB writes, 64 KiB 65/35, 1024 KiB reads.
THREE = ((0, 4), (65, 64), (100, 1024))


def cell(read_percent: int, block_size_kib: int) -> Cell:
    """Return a cell of the matrix."""
    return Cell(read_percent=read_percent, block_size_bytes=block_size_kib * KIB)


def with_cells(ios: dict[Cell, list[int]]) -> Behaviour:
    """Return a behaviour in which these cells follow a series, round by round, and the others are constant."""

    def iops(step: Step, stimulus: Stimulus, number: int) -> float:
        return ios[stimulus.cell][number - 1] if step.kind == "round" and stimulus.cell in ios else 1000

    return iops


def small(**changes: Any) -> Any:
    """Return a specification of the nine points around the three variables."""
    return spec_of("iops", rounds__read_percents=(100, 65, 0), rounds__block_sizes_kib=(1024, 64, 4), **changes)


# -- steps and stimuli ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_purge_then_wipc_then_rounds(pts: str, test_class: TestClass) -> None:
    """A device that is steady from the start is purged, preconditioned and measured for five rounds of 56 minutes."""
    run = run_procedure(spec_of("iops", pts, test_class))

    assert [kind for kind, _ in outline(run.steps)] == ["purge", "WIPC", *["round"] * 5]
    assert [step.number for step in run.rounds] == [1, 2, 3, 4, 5]
    assert [seconds for _, seconds in outline(run.rounds)] == [56 * 60] * 5


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
@pytest.mark.parametrize("capacity_bytes", [960_197_124_096, 10**9 + 512, 256 * MIB])
def test_wipc_writes_twice_the_capacity(pts: str, test_class: TestClass, capacity_bytes: int) -> None:
    """WIPC writes 2 x user capacity in 128 KiB blocks over the entire ActiveRange, also at odd capacities."""
    spec = spec_of("iops", pts, test_class)
    run = run_procedure(spec, dut(capacity_bytes=capacity_bytes))
    (wipc,) = [step.stimulus for step in run.continuous_stimuli()]
    share = spec.setup.active_range_percent

    assert (wipc.access, wipc.read_percent, wipc.block_size_bytes) == ("SEQ", 0, 128 * KIB)
    assert wipc.range_offset_bytes == 0
    assert 0 <= share * capacity_bytes // 100 - wipc.range_bytes < 128 * KIB
    assert wipc.passes == (2 if share == 100 else 3)
    assert 2 * capacity_bytes <= (wipc.amount_bytes or 0) < 2 * capacity_bytes + 128 * KIB
    assert wipc.seconds is None


@given(st.integers(1, 100), st.integers(1, 5), st.integers(200 * MIB, 2**45))
def test_wipc_writes_the_specified_number_of_user_capacities(
    percent: int, capacities: int, capacity_bytes: int
) -> None:
    """For any ActiveRange the amount is the specified number of user capacities, and the writes stay in the range."""
    spec = spec_of("iops", setup__active_range_percent=percent, preconditioning__capacities=capacities)
    stimulus = wipc(spec, dut(capacity_bytes=capacity_bytes), 128 * KIB)
    amount_bytes = stimulus.amount_bytes or 0

    assert 100 * stimulus.range_bytes <= percent * capacity_bytes
    assert 0 <= amount_bytes - capacities * capacity_bytes < 128 * KIB
    assert (stimulus.passes or 0) - 1 < amount_bytes / stimulus.range_bytes <= (stimulus.passes or 0)


@pytest.mark.parametrize("thread_count", [1, 2, 3, 4, 7, 32])
def test_wipc_has_the_demand_of_the_loop(thread_count: int) -> None:
    """WIPC has the Thread Count and Queue Depth of the loop, and writes the same amount with any number of threads."""
    run = run_procedure(spec_of("iops", setup__thread_count=thread_count, setup__queue_depth=8))
    (wipc_stimulus,) = [step.stimulus for step in run.continuous_stimuli("WIPC")]

    assert wipc_stimulus.amount_bytes == 2 * 960 * GB
    assert {stimulus.demand for stimulus in (wipc_stimulus, *run.rounds[0].stimuli)} == {wipc_stimulus.demand}
    assert (wipc_stimulus.thread_count, wipc_stimulus.queue_depth) == (thread_count, 8)


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_points_of_a_round_are_nested_as_in_the_standard(pts: str, test_class: TestClass) -> None:
    """The outer loop goes over R/W mixes from 100/0 to 0/100, the inner over block sizes from 1024 KiB to 0.5 KiB."""
    points = run_procedure(spec_of("iops", pts, test_class)).rounds[0].stimuli
    mixes = ["100/0", "95/5", "65/35", "50/50", "35/65", "5/95", "0/100"]
    sizes = ["1024 KiB", "128 KiB", "64 KiB", "32 KiB", "16 KiB", "8 KiB", "4 KiB", "0.5 KiB"]

    assert [point.label for point in points] == [f"RND {size} {mix}" for mix, size in product(mixes, sizes)]
    assert len(points) == 56


def test_all_rounds_have_the_same_stimuli() -> None:
    """Every round has the same stimuli in the same order."""
    assert len({step.stimuli for step in run_procedure(spec_of("iops")).rounds}) == 1


@pytest.mark.parametrize(("test_class", "thread_count", "queue_depth"), [("enterprise", 4, 32), ("client", 2, 16)])
@pytest.mark.parametrize("pts", VERSIONS)
def test_points_have_the_demand_of_the_class(
    pts: str, test_class: TestClass, thread_count: int, queue_depth: int
) -> None:
    """Every point runs for a minute with the class's Thread Count and Queue Depth."""
    points = run_procedure(spec_of("iops", pts, test_class)).rounds[0].stimuli

    assert {(point.thread_count, point.queue_depth, point.seconds) for point in points} == {
        (thread_count, queue_depth, 60.0)
    }


@given(st.integers(1, 100), st.integers(200 * MIB, 2**45))
def test_active_range_is_rounded_down_to_whole_blocks(percent: int, capacity_bytes: int) -> None:
    """An ActiveRange is at most its share and less than a block smaller; 100 % is the whole device."""
    run = run_procedure(small(setup__active_range_percent=percent), dut(capacity_bytes=capacity_bytes))
    (range_bytes,) = {stimulus.range_bytes for stimulus in run.rounds[0].stimuli}

    assert 100 * range_bytes <= percent * capacity_bytes
    assert 100 * (range_bytes + MIB) > percent * capacity_bytes
    assert percent < 100 or range_bytes == capacity_bytes


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_sectors_of_4096_leave_out_half_a_kib(pts: str, test_class: TestClass) -> None:
    """On 4096-byte sectors the 0.5 KiB points are omitted; the other 49 keep their order."""
    spec = spec_of("iops", pts, test_class)
    points = run_procedure(spec, dut(logical_sector_bytes=4096)).rounds[0].stimuli

    assert points == tuple(
        stimulus for stimulus in run_procedure(spec).rounds[0].stimuli if stimulus.block_size_bytes != 512
    )
    assert len(points) == 49


# -- targets that cannot be tested -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "device", "sentence"),
    [
        (
            {"steady_state__tracked": (Tracked(metric="iops", block_size_kib=0.5, read_percent=0),)},
            {"logical_sector_bytes": 4096},
            "0.5 KiB of a tracked variable is not a multiple of its logical sector size of 4096 bytes",
        ),
        (
            {"preconditioning__block_size_kib": 2},
            {"logical_sector_bytes": 4096},
            "2 KiB of preconditioning is not a multiple of its logical sector size of 4096 bytes",
        ),
        (
            {},
            {"logical_sector_bytes": 520},
            "128 KiB of preconditioning is not a multiple of its logical sector size of 520 bytes",
        ),
        ({}, {"capacity_bytes": MIB - 512}, "100 % of its 1.048 MB is less than one block of 1024 KiB"),
        ({}, {"capacity_bytes": 64 * KIB}, "100 % of its 65.54 kB is less than one block of 128 KiB"),
        (
            {"setup__active_range_percent": 10},
            {"capacity_bytes": 10 * MIB - 1},
            "10 % of its 10.49 MB is less than one block of 1024 KiB",
        ),
    ],
)
def test_unfit_target_is_refused(changes: dict[str, Any], device: dict[str, int], sentence: str) -> None:
    """A device that cannot run a tracked variable, WIPC or a block size is refused before the first step."""
    message = refusal(spec_of("iops", **changes), dut(**device))

    assert message == f"/dev/sdx cannot be tested: {sentence}. Nothing was written to it."


def test_smallest_target() -> None:
    """A device of exactly one block of the largest size can be tested."""
    run = run_procedure(spec_of("iops"), dut(capacity_bytes=MIB))

    assert {stimulus.range_bytes for stimulus in run.rounds[0].stimuli} == {MIB}


# -- the stop rule ---------------------------------------------------------------------------------------------------


@pytest.mark.long
@given(st.integers(2, 6), st.integers(6, 25), st.tuples(series(), series(), series()))
def test_stops_at_the_first_common_window(window: int, maximum: int, values: tuple[list[int], ...]) -> None:
    """The loop ends at the first round where all tracked variables are steady in one window, or at the maximum."""
    spec = small(rounds__maximum=maximum, steady_state__window_rounds=window)
    run = run_procedure(spec, iops=with_cells({cell(*key): column for key, column in zip(THREE, values, strict=True)}))
    expected = stops_at(values, window, maximum)
    loop = run.result().loop()

    assert [step.number for step in run.rounds] == list(range(1, (expected or maximum) + 1))
    assert loop is not None
    assert loop.window is not None
    assert loop.steady == (expected is not None)
    assert loop.window.numbers == tuple(step.number for step in run.rounds)[-window:]


def test_common_window_of_three_variables() -> None:
    """Variables that are first steady at rounds 5, 7 and 5 end the test at round 11, where all are steady together."""
    columns = ([100] * 6 + [150] * 19, [25, 50] + [100] * 23, [100] * 25)
    run = run_procedure(
        spec_of("iops"), iops=with_cells({cell(*key): column for key, column in zip(THREE, columns, strict=True)})
    )

    assert [stops_at([column]) for column in columns] == [5, 7, 5]
    assert [step.number for step in run.rounds] == list(range(1, 12))


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_each_tracked_variable_of_the_version_is_required(pts: str, test_class: TestClass) -> None:
    """In 2.0.2 any one unsteady variable keeps the loop running; in 1.1 only the 4 KiB writes do."""
    spec = spec_of("iops", pts, test_class)
    rounds = [len(run_procedure(spec, iops=with_cells({cell(*key): WILD})).rounds) for key in THREE]

    assert rounds == ([25, 25, 25] if pts == "2.0.2" else [25, 5, 5])


def test_untracked_points_do_not_matter() -> None:
    """If the other 53 points are unsteady, the test still ends after five rounds."""
    every = {stimulus.cell: WILD for stimulus in run_procedure(spec_of("iops")).rounds[0].stimuli}
    others = {key: values for key, values in every.items() if key not in {cell(*key) for key in THREE}}

    assert len(others) == 53
    assert len(run_procedure(spec_of("iops"), iops=with_cells(others)).rounds) == 5


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_without_steady_state_the_test_ends_after_25_rounds(pts: str, test_class: TestClass) -> None:
    """The result uses the last five of 25 rounds, and its verdict is STEADY STATE NOT ACHIEVED."""
    result = run_procedure(spec_of("iops", pts, test_class), iops=with_cells({cell(0, 4): WILD})).result()
    loop = result.loop()

    assert loop is not None
    assert [measured.number for measured in loop.rounds] == list(range(1, 26))
    assert [measured.number for measured in loop.window_rounds] == [21, 22, 23, 24, 25]
    assert (result.verdict, result.steady) == ("STEADY STATE NOT ACHIEVED", False)


def test_steady_at_the_last_round() -> None:
    """A device that becomes steady at round 25 gets the verdict STEADY STATE."""
    values = [*([100, 50] * 10), *[100] * 5]
    result = run_procedure(spec_of("iops"), iops=with_cells({cell(0, 4): values})).result()
    loop = result.loop()

    assert stops_at([values]) == 25
    assert loop is not None
    assert len(loop.rounds) == 25
    assert result.verdict == "STEADY STATE"
