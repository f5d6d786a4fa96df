"""The latency test: rounds of nine one-minute points with one outstanding I/O, then a histogram (chapter 9)."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given

from snia_pts.model.steps import ContinuousStimulus, Step, Stimulus
from snia_pts.spec import TestClass
from snia_pts.units import KIB
from tests.procedure_runs import Behaviour, outline, run_procedure, stops_at
from tests.strategies import CLASSES, VERSIONS, WILD, dut, series, spec_of

EVERY = tuple(product(VERSIONS, CLASSES))
POINTS = [
    "RND 8 KiB 100/0",
    "RND 4 KiB 100/0",
    "RND 0.5 KiB 100/0",
    "RND 8 KiB 65/35",
    "RND 4 KiB 65/35",
    "RND 0.5 KiB 65/35",
    "RND 8 KiB 0/100",
    "RND 4 KiB 0/100",
    "RND 0.5 KiB 0/100",
]


def following(label: str, values: list[int]) -> Behaviour:
    """Return a behaviour in which one point follows a series, times 1000, by round; the others are constant."""

    def behaviour(step: Step, stimulus: Stimulus, number: int) -> float:
        return 1000 * values[number - 1] if step.kind == "round" and stimulus.label == label else 1000

    return behaviour


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_steps(pts: str, test_class: TestClass) -> None:
    """The steps are purge, WIPC of 2 x capacity, rounds of nine minutes and, in 2.0.2, a histogram of 20 minutes."""
    run = run_procedure(spec_of("latency", pts, test_class))
    (wipc,) = run.continuous_stimuli("WIPC")

    assert outline(run.steps) == [
        ("purge", 0),
        ("WIPC", 0),
        *[("round", 9 * 60)] * 5,
        *([("histogram", 20 * 60)] if pts == "2.0.2" else []),
    ]
    assert wipc.stimulus.label == "SEQ 128 KiB 0/100"
    assert 0 <= (wipc.stimulus.amount_bytes or 0) - 2 * run.device.capacity_bytes < 128 * KIB


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_points(pts: str, test_class: TestClass) -> None:
    """Each round has three mixes of three block sizes each, a minute per point, with one outstanding I/O."""
    run = run_procedure(spec_of("latency", pts, test_class))

    for step in run.rounds:
        assert [stimulus.label for stimulus in step.stimuli] == POINTS
        assert {(stimulus.thread_count, stimulus.queue_depth, stimulus.seconds) for stimulus in step.stimuli} == {
            (1, 1, 60.0)
        }


@pytest.mark.parametrize("test_class", CLASSES)
@pytest.mark.parametrize("steady", [True, False])
def test_histogram_follows_the_last_round(test_class: TestClass, steady: bool) -> None:
    """The histogram, RND 4 KiB writes at T1Q1, directly follows the last round, steady or not, and has no samples."""
    values = [100] * 25 if steady else WILD
    run = run_procedure(spec_of("latency", "2.0.2", test_class), response_us=following("RND 4 KiB 0/100", values))
    before, last = run.steps[-2:]

    assert before == run.rounds[-1]
    assert len(run.rounds) == (5 if steady else 25)
    assert isinstance(last, ContinuousStimulus)
    assert last.phase == "histogram"
    assert last.sample_seconds is None
    assert last.stimulus.label == "RND 4 KiB 0/100"
    assert (last.stimulus.demand.label, last.stimulus.seconds) == ("T1Q1", 1200)


@pytest.mark.long
@given(series())
def test_stops_at_a_steady_average_response_time(values: list[int]) -> None:
    """The loop ends when the average response time of 4 KiB writes is steady over five rounds, or after 25."""
    run = run_procedure(spec_of("latency"), iops=lambda *_: 10, response_us=following("RND 4 KiB 0/100", values))
    expected = stops_at([values])

    assert len(run.rounds) == (expected or 25)
    assert run.result().verdict == ("STEADY STATE" if expected else "STEADY STATE NOT ACHIEVED")


def test_only_the_response_time_of_4_kib_writes_is_tracked() -> None:
    """Unsteady response times of other points, or unsteady IOPS, do not prolong the test."""
    spec = spec_of("latency")
    others = [label for label in POINTS if label != "RND 4 KiB 0/100"]

    assert [len(run_procedure(spec, response_us=following(other, WILD)).rounds) for other in others] == [5] * 8
    unsteady_iops = following("RND 4 KiB 0/100", WILD)
    assert len(run_procedure(spec, iops=unsteady_iops, response_us=lambda *_: 100).rounds) == 5


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_sectors_of_4096_leave_out_half_a_kib(pts: str, test_class: TestClass) -> None:
    """On 4096-byte sectors the six points of larger blocks remain, in the same order."""
    run = run_procedure(spec_of("latency", pts, test_class), dut(logical_sector_bytes=4096))

    assert [stimulus.label for stimulus in run.rounds[0].stimuli] == [label for label in POINTS if "0.5" not in label]
    assert all(stimulus.largest_block_bytes >= 4 * KIB for stimulus in run.rounds[0].stimuli)
