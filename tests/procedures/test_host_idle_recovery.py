"""Host idle recovery: writes with idle times of growing length between them, from steady state on (chapter 11)."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given

from snia_pts.model.steps import ContinuousStimulus, Idle, Step, Stimulus
from snia_pts.spec import TestClass
from tests.courses import Behaviour, course, outline, stops_at
from tests.strategies import CLASSES, VERSIONS, WILD, dut, series, spec_of

EVERY = tuple(product(VERSIONS, CLASSES))
#: Idle seconds and the minutes that 360 cycles with them take.
STATES = {5: 60, 10: 90, 15: 120, 25: 180, 50: 330}


def judged(values: list[int]) -> Behaviour:
    """Return a behaviour whose preconditioning has these values where it is judged, and others between."""

    def iops(step: Step, stimulus: Stimulus, number: int) -> float:
        if not isinstance(step, ContinuousStimulus) or step.phase != "PC":
            return 100
        return values[(number - 1) // 30] if number % 30 == 1 else 7 * number

    return iops


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_course(pts: str, test_class: TestClass) -> None:
    """Purge, preconditioning, then for each wait state 360 times 5 s of writes and the idle time, and 30 min writes."""
    run = course(spec_of("hir", pts, test_class))
    expected = [("purge", 0.0), ("PC", 121 * 60.0)]
    for idle in (5, 10, 15, 25, 50):
        expected += [("access A", 5), ("idle", idle)] * 360 + [("access C", 1800)]

    assert outline(run.steps) == expected


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_it_takes_930_minutes_after_preconditioning(pts: str, test_class: TestClass) -> None:
    """Wait states of 60, 90, 120, 180 and 330 minutes, each with 30 minutes of return to baseline: 930 together."""
    parts: dict[str, float] = {}
    after = course(spec_of("hir", pts, test_class)).steps[2:]
    for step in after:
        seconds = step.seconds if isinstance(step, Idle) else sum(stimulus.seconds or 0 for stimulus in step.stimuli)
        parts[step.part] = parts.get(step.part, 0) + seconds

    assert [seconds / 60 for seconds in parts.values()] == [minutes + 30 for minutes in STATES.values()]
    assert sum(parts.values()) == 930 * 60


def test_parts_are_the_wait_states() -> None:
    """Each wait state is a part, named by idle time over write time: 1, 2, 3, 5, 10."""
    parts = dict.fromkeys(step.part for step in course(spec_of("hir")).steps[2:])

    assert list(parts) == [f"Wait State {number}" for number in (1, 2, 3, 5, 10)]


@pytest.mark.parametrize(
    ("test_class", "demand", "range_bytes"),
    [("enterprise", "T4Q32", 960_000_000_000), ("client", "T2Q16", 720_000_000_000)],
)
def test_all_writes_are_alike(test_class: TestClass, demand: str, range_bytes: int) -> None:
    """Preconditioning, Access A and C are the same 4 KiB random writes over the class's range, at its demand."""
    stimuli = [step.stimulus for step in course(spec_of("hir", "2.0.2", test_class)).stretches()]

    assert {stimulus.label for stimulus in stimuli} == {"RND 4 KiB 0/100"}
    assert {item.demand.label for item in stimuli} == {demand}
    assert all(0 <= range_bytes - entry.range_bytes < 4096 for entry in stimuli)


def test_samples() -> None:
    """Preconditioning is cut into minutes, the return to baseline into 5 s, and Access A is not cut."""
    run = course(spec_of("hir"))

    assert {(step.phase, step.sample_seconds) for step in run.stretches()} == {
        ("PC", 60),
        ("access A", None),
        ("access C", 5),
    }
    assert {step.samples for step in run.stretches("access C")} == {360}


@given(series())
def test_preconditioning_ends_at_steady_state_or_25_samples(values: list[int]) -> None:
    """It ends with the first of samples 121, 151, ... 721 at which the last five judged ones are steady."""
    run = course(spec_of("hir", wait_states__cycles=1), iops=judged(values))
    expected = stops_at([values])
    result = run.result()

    assert sum(step.samples for step in run.stretches("PC")) == 30 * (expected or 25) - 29
    assert result.sampling is not None
    assert [item.number for item in result.sampling.rounds] == list(range(1, (expected or 25) + 1))
    assert result.steady == (expected is not None)


def test_never_steady_goes_on_and_says_so() -> None:
    """After 25 judged samples, 721 minutes, the wait states follow, and the verdict says what was not achieved."""
    run = course(spec_of("hir"), iops=judged(WILD))
    result = run.result()

    assert sum(stimulus.seconds or 0 for step in run.stretches("PC") for stimulus in step.stimuli) == 721 * 60
    assert len(run.stretches("access C")) == 5
    assert result.verdict == "STEADY STATE NOT ACHIEVED (preconditioning)"
    assert result.sampling is not None
    assert result.sampling.window is not None
    assert result.sampling.window.numbers == (21, 22, 23, 24, 25)


def test_idle_times_are_asked_for() -> None:
    """No stimulus runs in an idle step: it has none."""
    idles = [step for step in course(spec_of("hir")).steps if isinstance(step, Idle)]

    assert len(idles) == 5 * 360
    assert {step.stimuli for step in idles} == {()}


def test_small_and_large_sectors_are_tested_alike() -> None:
    """4 KiB writes fit 4096-byte sectors."""
    spec = spec_of("hir", wait_states__cycles=1)

    assert course(spec, dut(logical_sector_bytes=4096)).steps == course(spec).steps
