"""Demand intensity and composite workload: rounds of 49 demands, then three operating points (chapters 14 and 13)."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.model.steps import ContinuousStimulus, Step, Stimulus
from snia_pts.spec import SizeShare, TestClass, Tracked
from snia_pts.units import KIB
from tests.procedure_runs import Behaviour, outline, refusal, run_procedure, stops_at
from tests.strategies import CLASSES, VERSIONS, WILD, dut, series, spec_of

BOTH = ("dirth", "composite")
EVERY = tuple(product(BOTH, VERSIONS, CLASSES))
COUNTS = (32, 16, 8, 6, 4, 2, 1)
POINTS = ("Max IOPS", "Mid IOPS", "Min IOPS")
#: The first and the last demands by descending Total OIO, written by hand.
FIRST = ["T32Q32", "T32Q16", "T16Q32", "T32Q8", "T16Q16", "T8Q32", "T32Q6", "T6Q32", "T32Q4", "T16Q8", "T8Q16", "T4Q32"]
LAST = ["T8Q1", "T4Q2", "T2Q4", "T1Q8", "T6Q1", "T1Q6", "T4Q1", "T2Q2", "T1Q4", "T2Q1", "T1Q2", "T1Q1"]
MIX = {0.5: 4, 1: 1, 1.5: 1, 2: 1, 2.5: 1, 3: 1, 3.5: 1, 4: 67, 8: 10, 16: 7, 32: 3, 64: 3}
SKEW = [(50, 5), (30, 15), (20, 80)]


def following(loop: list[int] | None = None, conditioning: list[int] | None = None) -> Behaviour:
    """Return a behaviour with given IOPS at T32Q32 by round, and in the judged samples of preconditioning."""

    def iops(step: Step, stimulus: Stimulus, number: int) -> float:
        if isinstance(step, ContinuousStimulus):
            is_judged = conditioning is not None and step.phase == "PC" and number % 30 == 1
            return conditioning[(number - 1) // 30] if is_judged and conditioning else 100
        heaviest = stimulus.demand.label == "T32Q32"
        return loop[number - 1] if loop and heaviest else 10 * number**2

    return iops


# -- steps and stimuli ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("test", "pts", "test_class"), EVERY)
def test_steps(test: str, pts: str, test_class: TestClass) -> None:
    """Purge, preconditioning, five rounds of 5 min pre-write and 49 min, three operating points of 60 and 10 min."""
    run = run_procedure(spec_of(test, pts, test_class))

    assert outline(run.steps) == [
        ("purge", 0),
        ("PC", 121 * 60),
        *[("pre-write", 300), ("round", 49 * 60)] * 5,
        *[("pre-write", 3600), ("histogram", 600)] * 3,
    ]
    numbers = [f"Round {number}" for number in range(1, 6)]
    assert [step.part for step in run.continuous_stimuli("pre-write")] == [*numbers, *POINTS]
    assert [step.part for step in run.continuous_stimuli("histogram")] == list(POINTS)


@pytest.mark.parametrize(("test", "pts", "test_class"), EVERY)
def test_preconditioning_and_pre_writes_run_at_t32q32(test: str, pts: str, test_class: TestClass) -> None:
    """Preconditioning and the rounds' pre-writes write the pattern at 0/100 and T32Q32, in samples of a minute."""
    run = run_procedure(spec_of(test, pts, test_class))
    writes = [step for step in run.continuous_stimuli("PC", "pre-write") if step.part not in POINTS]
    point = run.rounds[0].stimuli[0]

    assert len(writes) == 1 + 5
    assert {(step.stimulus.read_percent, step.stimulus.demand.label) for step in writes} == {(0, "T32Q32")}
    assert {step.sample_seconds for step in writes} == {60}
    for step in writes:
        same = (step.stimulus.access, step.stimulus.block_size_bytes, step.stimulus.skew, step.stimulus.range_bytes)
        assert same == (point.access, point.block_size_bytes, point.skew, point.range_bytes)


@pytest.mark.parametrize(("test", "pts", "test_class"), EVERY)
def test_a_round_has_every_demand_by_descending_total_oio(test: str, pts: str, test_class: TestClass) -> None:
    """A round has 49 one-minute points from Total OIO 1024 to 1; of equal Total OIO, more threads come first."""
    points = run_procedure(spec_of(test, pts, test_class)).rounds[0].stimuli
    demands = [point.demand for point in points]

    assert {(demand.thread_count, demand.queue_depth) for demand in demands} == set(product(COUNTS, COUNTS))
    assert (len(demands), demands[0].total_oio, demands[-1].total_oio) == (49, 1024, 1)
    for demand, following_demand in pairwise(demands):
        assert (demand.total_oio, demand.thread_count) > (following_demand.total_oio, following_demand.thread_count)
    assert [demand.label for demand in demands[:12]] == FIRST
    assert [demand.label for demand in demands[-12:]] == LAST
    assert {point.seconds for point in points} == {60.0}


def test_patterns() -> None:
    """DIRTH's default pattern is RND 8 KiB 65/35; the composite pattern is 40/60 with twelve sizes and three zones."""
    (oltp,) = {(stimulus.label, stimulus.skew) for stimulus in run_procedure(spec_of("dirth")).rounds[0].stimuli}
    composite = run_procedure(spec_of("composite")).rounds[0].stimuli[0]

    assert oltp == ("RND 8 KiB 65/35", ())
    assert {share.size_bytes / KIB: share.percent for share in composite.block_shares} == MIX
    assert [(zone.access_percent, zone.range_percent) for zone in composite.skew] == SKEW
    assert (composite.access, composite.read_percent) == ("RND", 40)


def test_dirth_may_run_the_composite_pattern() -> None:
    """With the composite pattern DIRTH has the steps of the composite workload test."""
    assert (
        run_procedure(spec_of("dirth", stimulus__name="composite")).steps == run_procedure(spec_of("composite")).steps
    )


def test_nested_orders() -> None:
    """``tc-major`` has all Queue Depths for each Thread Count, ``qd-major`` all Thread Counts for each Queue Depth."""
    orders = {
        order: [
            stimulus.demand.label for stimulus in run_procedure(spec_of("dirth", demand__order=order)).rounds[0].stimuli
        ]
        for order in ("tc-major", "qd-major")
    }

    assert orders["tc-major"] == [f"T{threads}Q{depth}" for threads in COUNTS for depth in COUNTS]
    assert orders["qd-major"] == [f"T{threads}Q{depth}" for depth in COUNTS for threads in COUNTS]


@pytest.mark.long
@given(
    st.lists(st.integers(1, 1024), min_size=1, max_size=6, unique=True),
    st.lists(st.integers(1, 1024), min_size=1, max_size=6, unique=True),
    st.sampled_from(["total-oio", "tc-major", "qd-major"]),
)
def test_every_order_has_each_demand_once(threads: list[int], depths: list[int], order: str) -> None:
    """With any lists and order, each Thread Count is combined with each Queue Depth exactly once."""
    tracked = (Tracked(metric="iops", thread_count=threads[0], queue_depth=depths[0]),)
    spec = spec_of(
        "dirth",
        demand__thread_counts=tuple(threads),
        demand__queue_depths=tuple(depths),
        demand__order=order,
        steady_state__tracked=tracked,
    )
    demands = [(stimulus.thread_count, stimulus.queue_depth) for stimulus in run_procedure(spec).rounds[0].stimuli]

    assert len(demands) == len(threads) * len(depths)
    assert set(demands) == set(product(threads, depths))


# -- steady state ----------------------------------------------------------------------------------------------------


@pytest.mark.long
@given(series(), series(), st.sampled_from(BOTH))
def test_preconditioning_and_rounds_stop_at_their_own_steady_state(
    conditioning: list[int], loop: list[int], test: str
) -> None:
    """Preconditioning ends by its samples used as rounds, the loop by IOPS at T32Q32 alone, each after at most 25."""
    spec = spec_of(test, demand__thread_counts=(32, 1), demand__queue_depths=(32, 1))
    run = run_procedure(spec, iops=following(loop, conditioning))
    first, second = stops_at([conditioning]), stops_at([loop])
    result = run.result()
    unsteady = (["test loop"] if second is None else []) + (["preconditioning"] if first is None else [])

    assert sum(step.samples for step in run.continuous_stimuli("PC")) == 30 * (first or 25) - 29
    assert [step.number for step in run.rounds] == list(range(1, (second or 25) + 1))
    assert result.unsteady == tuple(unsteady)
    assert result.steady == (not unsteady)
    assert result.verdict.startswith("STEADY STATE NOT ACHIEVED" if unsteady else "STEADY STATE")


@pytest.mark.parametrize("test", BOTH)
def test_without_steady_state_the_operating_points_follow(test: str) -> None:
    """After 721 minutes and 25 rounds the operating points follow; the window is the last five rounds."""
    run = run_procedure(spec_of(test), iops=following(WILD, WILD))
    result = run.result()
    loop = result.loop()

    assert sum(seconds for kind, seconds in outline(run.steps) if kind == "PC") == 721 * 60
    assert [kind for kind, _ in outline(run.steps[-6:])] == ["pre-write", "histogram"] * 3
    assert loop is not None
    assert [measured.number for measured in loop.window_rounds] == [21, 22, 23, 24, 25]
    assert result.verdict == "STEADY STATE NOT ACHIEVED (test loop, preconditioning)"


# -- operating points ------------------------------------------------------------------------------------------------


def saturating(step: Step, stimulus: Stimulus, number: int) -> float:
    """Return 1000 IOPS per outstanding I/O, at most 60 000: the response time is 1 ms below saturation."""
    return min(1000 * stimulus.total_oio, 60_000)


@pytest.mark.parametrize(("test", "pts", "test_class"), EVERY)
def test_operating_points(test: str, pts: str, test_class: TestClass) -> None:
    """Max is the least saturating Total OIO (64), Mid the one nearest to 30 500 IOPS (32), Min is T1Q1.

    Each runs 60 minutes at 0/100 and then 10 minutes at its mix, at its own demand.
    """
    run = run_procedure(spec_of(test, pts, test_class), iops=saturating)
    steps = [step for step in run.continuous_stimuli() if step.part in POINTS]
    mix = run.rounds[0].stimuli[0].read_percent

    assert [(step.part, step.phase, step.stimulus.seconds) for step in steps] == [
        entry for name in POINTS for entry in ((name, "pre-write", 3600), (name, "histogram", 600))
    ]
    assert [step.stimulus.read_percent for step in steps] == [0, mix] * 3
    assert [step.stimulus.total_oio for step in steps] == [64, 64, 32, 32, 1, 1]
    assert [step.stimulus.demand for step in steps[::2]] == [step.stimulus.demand for step in steps[1::2]]
    assert steps[-1].stimulus.demand.label == "T1Q1"
    assert [step.sample_seconds for step in steps] == [60, None] * 3


def test_operating_points_come_from_the_window() -> None:
    """A high value before the last five rounds does not make a demand the Max point."""

    def iops(step: Step, stimulus: Stimulus, number: int) -> float:
        early = step.kind == "round" and number == 1
        if stimulus.demand.label == "T32Q32":
            return 10_000 if early else 60_000
        return 900_000 if early and stimulus.demand.label == "T8Q1" else saturating(step, stimulus, number)

    run = run_procedure(spec_of("dirth"), iops=iops)

    assert len(run.rounds) == 6
    assert {step.stimulus.total_oio for step in run.continuous_stimuli() if step.part == "Max IOPS"} == {64}


def test_max_point_has_a_response_time_below_5_ms() -> None:
    """A demand with a response time of 5 ms or more is not the Max point if another demand is faster."""

    def iops(step: Step, stimulus: Stimulus, number: int) -> float:
        return 100 * math.pow(stimulus.total_oio, 0.75)

    run = run_procedure(spec_of("dirth"), iops=iops)
    (total_oio,) = {step.stimulus.total_oio for step in run.continuous_stimuli() if step.part == "Max IOPS"}

    # ART is 10 ms * OIO ** 0.25: never below 5 ms, so the least response time is taken
    assert total_oio == 1
    fast = run_procedure(spec_of("dirth"), iops=lambda step, stimulus, number: 400 * iops(step, stimulus, number) / 100)
    # ART is 2.5 ms * OIO ** 0.25: 5 ms at 16, so 12 is the most
    assert {step.stimulus.total_oio for step in fast.continuous_stimuli() if step.part == "Max IOPS"} == {12}


# -- sectors of 4096 bytes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("test", BOTH)
def test_mix_on_sectors_of_4096(test: str) -> None:
    """Only 4, 8, 16, 32 and 64 KiB remain of the mix, in the same proportion to within a percent."""
    spec = spec_of(test, stimulus__name="composite")
    run = run_procedure(spec, dut(logical_sector_bytes=4096))
    remaining = {4.0: 67, 8.0: 10, 16.0: 7, 32.0: 3, 64.0: 3}

    for stimulus in {point for step in run.steps for point in step.stimuli}:
        shares = {share.size_bytes / KIB: share.percent for share in stimulus.block_shares}
        assert shares.keys() == remaining.keys()
        assert sum(shares.values()) == 100
        assert all(abs(shares[size] - 100 * percent / 90) < 1 for size, percent in remaining.items())


@st.composite
def mixes(draw: st.DrawFn) -> dict[float, int]:
    """Draw a mix of up to twelve sizes in KiB, of which some fit 4096-byte sectors, with shares that add up to 100."""
    sizes = draw(st.lists(st.sampled_from(list(MIX)), min_size=2, max_size=12, unique=True))
    cuts = draw(st.lists(st.integers(1, 99), min_size=len(sizes) - 1, max_size=len(sizes) - 1, unique=True))
    return {size: high - low for size, (low, high) in zip(sizes, pairwise([0, *sorted(cuts), 100]), strict=True)}


@pytest.mark.long
@given(mixes())
def test_any_mix_keeps_its_proportion(mix: dict[float, int]) -> None:
    """The shares of the sizes that fit the sectors are scaled to add up to 100, to within one percent each.

    A single remaining size becomes the block size; if none remains, the device is refused before the first step.
    """
    shares = tuple(SizeShare(kib=size, percent=percent) for size, percent in mix.items())
    pattern = replace(spec_of("composite").pattern, block_sizes=shares)
    spec, device = spec_of("composite", patterns=(pattern,)), dut(logical_sector_bytes=4096)
    remaining = {size: percent for size, percent in mix.items() if size % 4 == 0}
    if not remaining:
        assert "of the pattern composite" in refusal(spec, device)
        return
    stimulus = run_procedure(spec, device).rounds[0].stimuli[0]
    percents = {share.size_bytes / KIB: share.percent for share in stimulus.block_shares}

    assert stimulus.largest_block_bytes == max(remaining) * KIB
    assert percents.keys() == (remaining.keys() if len(remaining) > 1 else set())
    assert not percents or sum(percents.values()) == 100
    assert all(abs(percents[size] - 100 * remaining[size] / sum(remaining.values())) < 1 for size in percents)
