"""The IOPS procedure asks for the standard's steps, in its order, and stops by its rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.dut import Dut
from snia_pts.errors import TargetUnfit
from snia_pts.measurement import Outcome
from snia_pts.procedures import TESTS, drive
from snia_pts.procedures.iops import iops
from snia_pts.spec import IopsSpec, TestClass
from snia_pts.steps import Cell, Precondition, Purge, Round, Step, Stimulus
from snia_pts.units import GB, KIB, MIB
from snia_pts.window import Window
from tests.strategies import (
    CLASSES,
    PURGED,
    VERSIONS,
    answering,
    cells,
    dut,
    iops_spec,
    measurement,
    standard,
    stimulus,
)

EVERY = [(pts, test_class) for pts in VERSIONS for test_class in CLASSES]
Series = Mapping[Cell, Sequence[int]]


def run(spec: IopsSpec, device: Dut, ios: Series | None = None) -> tuple[list[Step], Window | None]:
    """Drive the procedure with series of values for some cells, the others being constant; return what it asked."""
    asked: list[Step] = []
    given_series = ios or {}

    def value(cell: Cell, number: int) -> int:
        return given_series[cell][number - 1] if number and cell in given_series else 1

    return asked, drive(iops(spec, device), answering(value, asked))


def first_round(asked: Sequence[Step]) -> tuple[Stimulus, ...]:
    """Return the stimuli of the first round."""
    return next(step.stimuli for step in asked if isinstance(step, Round))


# -- what is asked for, and in which order ---------------------------------------------------------------------------


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_purge_then_wipc_then_rounds(pts: str, test_class: TestClass) -> None:
    """A device that is steady at once is purged, preconditioned and measured for five rounds, with nothing between."""
    asked, window = run(standard(pts, test_class).spec, dut())

    assert [step.kind for step in asked] == ["purge", "precondition", *["round"] * 5]
    assert [step.number for step in asked if isinstance(step, Round)] == [1, 2, 3, 4, 5]
    assert window is not None
    assert window.steady


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
@pytest.mark.parametrize("capacity_bytes", [960_197_124_096, 10**9 + 512, 256 * MIB])
def test_wipc_writes_twice_the_capacity(pts: str, test_class: TestClass, capacity_bytes: int) -> None:
    """WIPC writes 128 KiB blocks twice over 100 % of the LBAs, in the client class and at odd capacities too."""
    asked, _ = run(standard(pts, test_class).spec, dut(capacity_bytes=capacity_bytes))
    (wipc,) = [step.stimulus for step in asked if isinstance(step, Precondition)]

    assert (wipc.access, wipc.read_percent, wipc.block_size_bytes) == ("SEQ", 0, 128 * KIB)
    assert (wipc.range_offset_bytes, wipc.range_bytes, wipc.passes) == (0, capacity_bytes, 2)
    assert wipc.amount_bytes == 2 * capacity_bytes
    assert wipc.seconds is None


@pytest.mark.parametrize("thread_count", [1, 2, 3, 4, 7, 32])
def test_thread_count_does_not_change_the_wipc(thread_count: int) -> None:
    """However many threads precondition, the amount is twice the capacity."""
    asked, _ = run(iops_spec(preconditioning__thread_count=thread_count), dut())

    assert [step.stimulus.amount_bytes for step in asked if isinstance(step, Precondition)] == [2 * 960 * GB]


def test_round_is_the_standard_s_nesting() -> None:
    """56 points: R/W mixes outside from 100/0 down to 0/100, block sizes inside from 1024 KiB down to 0.5 KiB."""
    asked, _ = run(standard().spec, dut())
    mixes = ["100/0", "95/5", "65/35", "50/50", "35/65", "5/95", "0/100"]
    sizes = ["1024 KiB", "128 KiB", "64 KiB", "32 KiB", "16 KiB", "8 KiB", "4 KiB", "0.5 KiB"]
    labels = [each.label for each in first_round(asked)]

    assert labels == [f"RND {size} {mix}" for mix, size in product(mixes, sizes)]
    assert len(labels) == 56


def test_rounds_are_alike() -> None:
    """Every round has the same stimuli in the same order."""
    asked, _ = run(standard().spec, dut())

    assert len({step.stimuli for step in asked if isinstance(step, Round)}) == 1


@pytest.mark.parametrize(("test_class", "thread_count", "queue_depth"), [("enterprise", 4, 32), ("client", 2, 16)])
def test_points_have_the_class_s_demand(test_class: TestClass, thread_count: int, queue_depth: int) -> None:
    """Every point runs a minute with the class's thread count and queue depth."""
    asked, _ = run(standard("2.0.2", test_class).spec, dut())

    assert {(each.thread_count, each.queue_depth, each.seconds) for each in first_round(asked)} == {
        (thread_count, queue_depth, 60.0)
    }


def test_client_loop_runs_on_three_quarters() -> None:
    """PTS-C's loop has 75 % of the LBAs in whole blocks of 1024 KiB, its preconditioning all."""
    capacity_bytes = 960_197_124_096
    asked, _ = run(standard("2.0.2", "client").spec, dut(capacity_bytes=capacity_bytes))
    (range_bytes,) = {each.range_bytes for each in first_round(asked)}

    assert {each.range_offset_bytes for each in first_round(asked)} == {0}
    assert range_bytes % MIB == 0
    assert capacity_bytes * 3 / 4 - MIB < range_bytes <= capacity_bytes * 3 / 4
    assert asked[1].stimuli[0].range_bytes == capacity_bytes


@given(st.integers(1, 100), st.integers(200 * MIB, 2**45))
def test_range_is_the_largest_of_whole_blocks(percent: int, capacity_bytes: int) -> None:
    """An ActiveRange never exceeds its share, and lacks less than one block of it; 100 % is the whole device."""
    asked, _ = run(iops_spec_of(percent), dut(capacity_bytes=capacity_bytes))
    range_bytes = first_round(asked)[0].range_bytes

    assert 100 * range_bytes <= percent * capacity_bytes
    assert 100 * (range_bytes + MIB) > percent * capacity_bytes
    assert percent < 100 or range_bytes == capacity_bytes


def test_sectors_of_4096_leave_out_half_a_kib() -> None:
    """On 4096-byte sectors the 0.5 KiB points are left out, and the other 49 keep their order and place."""
    asked, window = run(standard().spec, dut(logical_sector_bytes=4096))
    everything, _ = run(standard().spec, dut())

    assert first_round(asked) == tuple(each for each in first_round(everything) if each.block_size_bytes != 512)
    assert len(first_round(asked)) == 49
    assert window is not None
    assert window.steady


# -- targets that cannot be tested -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "device", "sentence"),
    [
        (
            {"steady_state__tracked": [{"metric": "iops", "block_size_kib": 0.5, "read_percent": 0}]},
            {"logical_sector_bytes": 4096},
            "its logical sectors of 4096 bytes cannot hold the 0.5 KiB of a tracked variable",
        ),
        (
            {"preconditioning__block_size_kib": 2},
            {"logical_sector_bytes": 4096},
            "its logical sectors of 4096 bytes cannot hold the 2 KiB of preconditioning",
        ),
        (
            {},
            {"logical_sector_bytes": 520},
            "its logical sectors of 520 bytes cannot hold the 128 KiB of preconditioning",
        ),
        ({}, {"capacity_bytes": MIB - 512}, "100 % of its 1.048 MB cannot hold one block of 1024 KiB"),
        ({}, {"capacity_bytes": 64 * KIB}, "100 % of its 65.54 kB cannot hold one block of 128 KiB"),
        (
            {"setup__active_range_percent": 10},
            {"capacity_bytes": 10 * MIB - 1},
            "10 % of its 10.49 MB cannot hold one block of 1024 KiB",
        ),
    ],
)
def test_unfit_target_is_refused_at_the_start(changes: dict[str, Any], device: dict[str, int], sentence: str) -> None:
    """A device that cannot run what decides the test is refused in a clear sentence before anything is asked."""
    asked: list[Step] = []
    with pytest.raises(TargetUnfit) as caught:
        drive(iops(iops_spec(**changes), dut(**device)), answering(lambda cell, number: 1, asked))

    assert asked == []
    assert str(caught.value) == f"/dev/sdx cannot be tested: {sentence}. Nothing was written to it."


def test_smallest_target() -> None:
    """A device of just one largest block can be tested."""
    asked, _ = run(standard().spec, dut(capacity_bytes=MIB))

    assert {each.range_bytes for each in first_round(asked)} == {MIB}


# -- the stop rule ---------------------------------------------------------------------------------------------------


def stops_at(series: Iterable[Sequence[int]], window: int, maximum: int) -> int | None:
    """Return the first round at which all series are steady in one window, in integers: the tests' own oracle."""
    columns = list(series)
    for last in range(window, maximum + 1):
        if all(is_steady(column[last - window : last]) for column in columns):
            return last
    return None


def is_steady(values: Sequence[int]) -> bool:
    """The rule with every fraction multiplied out: range <= 20 % and |slope| * (n - 1) <= 10 % of the average."""
    count, total = len(values), sum(values)
    weights = [2 * index - (count - 1) for index in range(count)]
    rise = abs(sum(weight * value for weight, value in zip(weights, values, strict=True)))
    spread = sum(weight * weight for weight in weights)
    return 5 * count * (max(values) - min(values)) <= total and 20 * count * (count - 1) * rise <= total * spread


def iops_spec_of(percent: int) -> IopsSpec:
    """Return a small specification with an ActiveRange."""
    return iops_spec(setup__active_range_percent=percent, preconditioning__active_range_percent=percent)


def small_spec(window: int, maximum: int) -> IopsSpec:
    """Return a specification with a smaller matrix around the three tracked variables."""
    return iops_spec(
        rounds__read_percents=[100, 65, 0],
        rounds__block_sizes_kib=[1024, 64, 4],
        rounds__maximum=maximum,
        steady_state__window_rounds=window,
    )


@st.composite
def courses(draw: st.DrawFn) -> tuple[int, int, list[list[int]]]:
    """Draw a window, a maximum of rounds, and three variables that are wild at first and calm after, or calm never."""
    window = draw(st.integers(2, 6))
    maximum = draw(st.integers(window, 25))
    series = []
    for _ in range(3):
        wild_rounds = draw(st.integers(0, maximum + 4))
        wild = st.sampled_from([80, 90, 100, 110, 120, 500]) | st.integers(1, 10**6)
        calm = st.sampled_from([100, 100, 100, 105, 110, 95, 90])
        values = [draw(wild if number < wild_rounds else calm) for number in range(maximum)]
        series.append(values)
    return window, maximum, series


@given(courses())
def test_stops_at_the_first_common_window(course: tuple[int, int, list[list[int]]]) -> None:
    """The loop ends at the first round at which all tracked variables are steady in one window, else at the maximum."""
    window, maximum, series = course
    spec = small_spec(window, maximum)
    asked, concluded = run(spec, dut(), dict(zip(cells(spec.steady_state), series, strict=True)))
    expected = stops_at(series, window, maximum)
    rounds = [step.number for step in asked if isinstance(step, Round)]

    assert rounds == list(range(1, (expected or maximum) + 1))
    assert window <= len(rounds) <= maximum
    assert concluded is not None
    assert concluded.steady == (expected is not None)
    assert concluded.numbers == tuple(rounds[-window:])


def test_common_window_of_three_variables() -> None:
    """Three variables that pass first at rounds 5, 7 and 5 stop the test at 11, where they pass together."""
    spec = standard().spec
    series = ([100] * 6 + [150] * 19, [25, 50] + [100] * 23, [100] * 25)
    asked, window = run(spec, dut(), dict(zip(cells(spec.steady_state), series, strict=True)))

    assert [stops_at([column], 5, 25) for column in series] == [5, 7, 5]
    assert sum(step.kind == "round" for step in asked) == 11
    assert window is not None
    assert window.numbers == (7, 8, 9, 10, 11)


def test_untracked_variables_do_not_matter() -> None:
    """A variable that the version does not track may do what it likes: 1.1 ignores what keeps 2.0.2 going."""
    wild = [100, 1000] * 12 + [100]
    series = {Cell(read_percent=65, block_size_bytes=64 * KIB): wild}

    assert sum(step.kind == "round" for step in run(standard("1.1").spec, dut(), series)[0]) == 5
    assert sum(step.kind == "round" for step in run(standard("2.0.2").spec, dut(), series)[0]) == 25


def test_not_steady_after_25_rounds_is_a_result() -> None:
    """A device that never becomes steady gets 25 rounds and the last window, marked not steady, and no exception."""
    wild = [100, 1000] * 12 + [100]
    asked, window = run(standard().spec, dut(), {cells(standard().spec.steady_state)[0]: wild})

    assert sum(step.kind == "round" for step in asked) == 25
    assert window is not None
    assert window.numbers == (21, 22, 23, 24, 25)
    assert not window.steady


# -- how it is driven ------------------------------------------------------------------------------------------------


def test_answer_to_other_stimuli_is_refused() -> None:
    """A round that is answered with other stimuli, or fewer, or in another order, is refused."""

    def answer_with(outcomes: Sequence[Outcome]) -> None:
        procedure = iops(standard().spec, dut())
        next(procedure)
        procedure.send((PURGED,))
        procedure.send((measurement(),))
        procedure.send(tuple(outcomes))

    right = [measurement(each) for each in first_round(run(standard().spec, dut())[0])]
    wrong = measurement(stimulus(read_percent=42))
    for outcomes in ([], right[:-1], right[::-1], [*right, wrong], [wrong, *right[1:]], [PURGED]):
        with pytest.raises(ValueError, match="round 1 was answered with other stimuli than it asked for"):
            answer_with(outcomes)
    answer_with(right)


def test_drive_passes_failures_on() -> None:
    """An answer that fails ends the procedure with that failure, and no further step is asked for."""
    asked: list[Step] = []

    def answer(step: Step) -> Iterable[Outcome]:
        asked.append(step)
        if not isinstance(step, Purge):
            raise OSError("gone")
        return (PURGED,)

    with pytest.raises(OSError, match="gone"):
        drive(iops(standard().spec, dut()), answer)
    assert [step.kind for step in asked] == ["purge", "precondition"]


def test_procedure_repeats_itself() -> None:
    """With the same answers a procedure asks for the same steps: a journal can be replayed."""
    assert run(standard().spec, dut()) == run(standard().spec, dut())


def test_registry_holds_the_test() -> None:
    """The test is found by the verb that its specification carries."""
    assert TESTS[standard().spec.test] is iops
