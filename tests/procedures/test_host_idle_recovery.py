"""Host idle recovery: after steady state, writes with idle times of increasing length between them (chapter 11)."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given

from snia_pts.model.steps import ContinuousStimulus, Idle, Step, Stimulus
from snia_pts.spec import TestClass
from tests.procedure_runs import Behaviour, outline, run_procedure, stops_at
from tests.strategies import CLASSES, VERSIONS, WILD, dut, series, spec_of

EVERY = tuple(product(VERSIONS, CLASSES))
#: Idle seconds of a wait state, and the minutes of its 360 cycles.
STATES = {5: 60, 10: 90, 15: 120, 25: 180, 50: 330}


def preconditioning_iops(values: list[int]) -> Behaviour:
    """Return a behaviour whose judged samples of preconditioning have these values; the other samples vary."""

    def iops(step: Step, stimulus: Stimulus, number: int) -> float:
        if not isinstance(step, ContinuousStimulus) or step.phase != "PC":
            return 100
        return values[(number - 1) // 30] if number % 30 == 1 else 7 * number

    return iops


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_steps(pts: str, test_class: TestClass) -> None:
    """The steps are purge, preconditioning and, per wait state, 360 x (5 s writes, idle time) and 30 min of writes."""
    run = run_procedure(spec_of("hir", pts, test_class))
    expected = [("purge", 0.0), ("PC", 121 * 60.0)]
    for idle in (5, 10, 15, 25, 50):
        expected += [("access A", 5), ("idle", idle)] * 360 + [("access C", 1800)]

    assert outline(run.steps) == expected


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_wait_states_take_930_minutes(pts: str, test_class: TestClass) -> None:
    """The wait states take 60, 90, 120, 180 and 330 minutes, plus 30 minutes each of return to baseline: 930 in all."""
    parts: dict[str, float] = {}
    steps = run_procedure(spec_of("hir", pts, test_class)).steps[2:]
    for step in steps:
        seconds = step.seconds if isinstance(step, Idle) else sum(stimulus.seconds or 0 for stimulus in step.stimuli)
        parts[step.part] = parts.get(step.part, 0) + seconds

    assert [seconds / 60 for seconds in parts.values()] == [minutes + 30 for minutes in STATES.values()]
    assert sum(parts.values()) == 930 * 60


def test_parts_are_the_wait_states() -> None:
    """Each wait state is a part, named by the ratio of idle time to write time: 1, 2, 3, 5, 10."""
    parts = dict.fromkeys(step.part for step in run_procedure(spec_of("hir")).steps[2:])

    assert list(parts) == [f"Wait State {number}" for number in (1, 2, 3, 5, 10)]


@pytest.mark.parametrize(
    ("test_class", "demand", "range_bytes"),
    [("enterprise", "T4Q32", 960_000_000_000), ("client", "T2Q16", 720_000_000_000)],
)
def test_all_stimuli_are_the_same_writes(test_class: TestClass, demand: str, range_bytes: int) -> None:
    """Preconditioning, Access A and C are RND 4 KiB writes over the class's ActiveRange, at the class's demand."""
    stimuli = [step.stimulus for step in run_procedure(spec_of("hir", "2.0.2", test_class)).continuous_stimuli()]

    assert {stimulus.label for stimulus in stimuli} == {"RND 4 KiB 0/100"}
    assert {stimulus.demand.label for stimulus in stimuli} == {demand}
    assert all(0 <= range_bytes - stimulus.range_bytes < 4096 for stimulus in stimuli)


def test_sample_lengths() -> None:
    """Preconditioning has samples of a minute, Access C of 5 s, Access A none."""
    run = run_procedure(spec_of("hir"))

    assert {(step.phase, step.sample_seconds) for step in run.continuous_stimuli()} == {
        ("PC", 60),
        ("access A", None),
        ("access C", 5),
    }
    assert {step.samples for step in run.continuous_stimuli("access C")} == {360}


@pytest.mark.long
@given(series())
def test_preconditioning_ends_at_steady_state_or_25_samples(values: list[int]) -> None:
    """It ends at the first of samples 121, 151, ... at which the last five judged samples are steady, or at 721."""
    run = run_procedure(spec_of("hir", wait_states__cycles=1), iops=preconditioning_iops(values))
    expected = stops_at([values])
    result = run.result()

    assert sum(step.samples for step in run.continuous_stimuli("PC")) == 30 * (expected or 25) - 29
    assert result.sampling is not None
    assert [sampled.number for sampled in result.sampling.rounds] == list(range(1, (expected or 25) + 1))
    assert result.steady == (expected is not None)


def test_without_steady_state_the_wait_states_follow() -> None:
    """After 25 judged samples (721 minutes) the wait states follow; the verdict names the unsteady preconditioning."""
    run = run_procedure(spec_of("hir"), iops=preconditioning_iops(WILD))
    result = run.result()

    assert sum(stimulus.seconds or 0 for step in run.continuous_stimuli("PC") for stimulus in step.stimuli) == 721 * 60
    assert len(run.continuous_stimuli("access C")) == 5
    assert result.verdict == "STEADY STATE NOT ACHIEVED (preconditioning)"
    assert result.sampling is not None
    assert result.sampling.window is not None
    assert result.sampling.window.numbers == (21, 22, 23, 24, 25)


def test_idle_steps_have_no_stimulus() -> None:
    """There are 5 x 360 idle steps, without a stimulus."""
    idles = [step for step in run_procedure(spec_of("hir")).steps if isinstance(step, Idle)]

    assert len(idles) == 5 * 360
    assert {step.stimuli for step in idles} == {()}


def test_sectors_of_4096_change_nothing() -> None:
    """On 4096-byte sectors the steps are the same, as 4 KiB writes fit them."""
    spec = spec_of("hir", wait_states__cycles=1)

    assert run_procedure(spec, dut(logical_sector_bytes=4096)).steps == run_procedure(spec).steps
