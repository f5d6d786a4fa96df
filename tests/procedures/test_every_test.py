"""Rules that hold for every test of the standard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.model.measurement import Measurement, Outcome
from snia_pts.model.steps import ContinuousStimulus, Purge, Round, Step
from snia_pts.procedures import drive, procedure
from snia_pts.spec import TestClass
from snia_pts.units import GB
from tests.procedure_runs import (
    Behaviour,
    ScriptedDrive,
    brief,
    constant,
    noisy,
    refusal,
    run_procedure,
    unsteady,
    whole_runs,
)
from tests.strategies import EVERY, PURGED, TESTS, dut, measurement, spec_of, stimulus

#: The version and class whose ActiveRange is 75 %.
RESTRICTED = ("2.0.2", "client")
behaviours = st.builds(noisy, st.integers(0, 10**6), st.sampled_from([0.0, 0.05, 0.12, 0.5])) | st.just(unsteady)
which = pytest.mark.parametrize(("test", "pts", "test_class"), EVERY)


@which
def test_the_first_step_is_a_purge(test: str, pts: str, test_class: TestClass) -> None:
    """A test has one purge, throughput one per block size, and the first step is a purge."""
    steps = run_procedure(brief(spec_of(test, pts, test_class))).steps
    parts = [step.part for step in steps if isinstance(step, Purge)]
    sizes = ["1024 KiB"] if (pts, test_class) == ("1.1", "client") else ["1024 KiB", "128 KiB"]

    assert isinstance(steps[0], Purge)
    assert parts == (sizes if test == "throughput" else [""])


@which
def test_only_some_tests_have_wipc(test: str, pts: str, test_class: TestClass) -> None:
    """IOPS, throughput and latency have WIPC; the other tests do not."""
    run = run_procedure(brief(spec_of(test, pts, test_class)))

    assert bool(run.continuous_stimuli("WIPC")) == (test in ("iops", "throughput", "latency"))


@pytest.mark.long
@whole_runs
@given(st.sampled_from(EVERY), st.integers(2**30, 2**44), st.sampled_from([512, 4096]), behaviours)
def test_active_range(entry: tuple[str, str, TestClass], capacity_bytes: int, sector: int, iops: Behaviour) -> None:
    """Every stimulus, WIPC included, covers the ActiveRange (75 % for PTS-C 2.0.2) and does not exceed it.

    It may be smaller by less than a block of the largest size.
    """
    share = 75 if entry[1:] == RESTRICTED else 100
    run = run_procedure(brief(spec_of(*entry)), dut(capacity_bytes=capacity_bytes, logical_sector_bytes=sector), iops)

    for step in run.steps:
        for point in step.stimuli:
            end = point.range_offset_bytes + point.range_bytes
            assert 100 * end <= share * capacity_bytes
            assert 100 * (point.range_bytes + 1024 * 1024) > share * capacity_bytes
            assert all(0 <= start < point.range_bytes for start in point.starts)


@which
def test_nothing_is_substituted_on_sectors_of_4096(test: str, pts: str, test_class: TestClass) -> None:
    """Every stimulus fits 4096-byte sectors, and is also one of the stimuli on 512-byte sectors."""
    spec = brief(spec_of(test, pts, test_class))

    def points(sector: int) -> set[tuple[str, int, str]]:
        steps = run_procedure(spec, dut(logical_sector_bytes=sector)).steps
        stimuli = [point for step in steps for point in step.stimuli]
        for point in stimuli:
            sizes = [share.size_bytes for share in point.block_shares] or [point.largest_block_bytes]
            assert all(size % sector == 0 for size in sizes)
        return {(point.label, point.largest_block_bytes, point.demand.label) for point in stimuli}

    left_out = points(512) - points(4096)
    assert points(4096) <= points(512)
    assert {size for _, size, _ in left_out} == ({512} if test in ("iops", "latency") else set())


@pytest.mark.parametrize("test", ["latency", "wsat"])
def test_a_device_that_cannot_run_the_histogram_is_refused(test: str) -> None:
    """A device that can run all steps but the last is refused before the first step."""
    message = refusal(spec_of(test, histogram__block_size_kib=2), dut(logical_sector_bytes=4096))

    assert "2 KiB of the histogram is not a multiple of its logical sector size of 4096 bytes" in message


@pytest.mark.parametrize("test", TESTS)
def test_a_device_of_less_than_a_block_is_refused(test: str) -> None:
    """A device whose ActiveRange is smaller than one block of a tested size is refused before the first step."""
    assert "is less than one block of" in refusal(spec_of(test), dut(capacity_bytes=3584))


@pytest.mark.long
@whole_runs
@given(st.sampled_from(EVERY), behaviours)
def test_a_procedure_is_deterministic(entry: tuple[str, str, TestClass], iops: Behaviour) -> None:
    """With the outcomes of a run it gives the same steps and the same conclusion, so that a journal can be replayed."""
    run = run_procedure(brief(spec_of(*entry)), iops=iops)
    recorded = iter(run.performed)

    def replay(step: Step) -> Iterable[Outcome]:
        recorded_step, outcomes = next(recorded)
        assert step == recorded_step
        return outcomes

    assert drive(procedure(run.spec, run.device), replay) == run.conclusion
    assert list(recorded) == []


@which
@pytest.mark.parametrize("iops", [constant, unsteady])
def test_last_step_of_each_test(test: str, pts: str, test_class: TestClass, iops: Behaviour) -> None:
    """A test ends with its last round, its last continuous stimulus, or the histogram of 2.0.2, steady or not."""
    step = run_procedure(brief(spec_of(test, pts, test_class)), iops=iops).steps[-1]
    histogram = "histogram" if pts == "2.0.2" else ""
    last = {
        "iops": "round",
        "throughput": "round",
        "latency": histogram or "round",
        "wsat": histogram or "stimulus",
        "hir": "access C",
        "xsr": "stimulus",
        "composite": "histogram",
        "dirth": "histogram",
    }

    assert (step.phase if isinstance(step, ContinuousStimulus) else step.kind) == last[test]


# -- driver ---------------------------------------------------------------------------------------------------------


def test_measurements_of_other_stimuli_are_refused() -> None:
    """Measurements of a round that are fewer, in another order or of other stimuli raise ValueError."""
    stimuli = run_procedure(spec_of("iops")).rounds[0].stimuli
    right = [measurement(point) for point in stimuli]
    wrong = measurement(stimulus(read_percent=42))

    def answer_with(outcomes: Sequence[Outcome]) -> None:
        def answer(step: Step) -> Sequence[Outcome]:
            return outcomes if isinstance(step, Round) and step.number == 1 else scripted(step)

        scripted = ScriptedDrive()
        drive(procedure(spec_of("iops"), dut()), answer)

    for outcomes in ([], right[:-1], right[::-1], [*right, wrong], [wrong, *right[1:]], [PURGED]):
        with pytest.raises(ValueError, match="round 1: the answers are for other stimuli"):
            answer_with(outcomes)
    answer_with(right)


def test_wrong_outcomes_of_a_continuous_stimulus_are_refused() -> None:
    """Another stimulus, a missing measurement of the whole, or missing samples raise ValueError."""

    def answering(change: str) -> None:
        def answer(step: Step) -> Sequence[Outcome]:
            outcomes = scripted(step)
            if not isinstance(step, ContinuousStimulus):
                return outcomes
            whole = outcomes[-1]
            assert isinstance(whole, Measurement)
            other = replace(whole, stimulus=replace(whole.stimulus, thread_count=3))
            return {"other": (*outcomes[:-1], other), "part": outcomes[:-1], "whole": (whole,), "none": ()}[change]

        scripted = ScriptedDrive()
        drive(procedure(spec_of("xsr"), dut()), answer)

    for change in ("other", "part", "none"):
        with pytest.raises(ValueError, match=r"AG 1: stimulus .*: the answer is for another stimulus"):
            answering(change)
    with pytest.raises(ValueError, match=r"AG 1: stimulus .*: the answer has no samples"):
        answering("whole")


def test_drive_propagates_an_error() -> None:
    """An error in a step is raised by `drive`, and no further step is requested."""
    steps: list[Step] = []

    def answer(step: Step) -> Iterable[Outcome]:
        steps.append(step)
        if not isinstance(step, Purge):
            raise OSError("gone")
        return (PURGED,)

    with pytest.raises(OSError, match="gone"):
        drive(procedure(spec_of("iops"), dut(capacity_bytes=GB)), answer)
    assert [step.label for step in steps] == ["Purge", "WIPC SEQ 128 KiB 0/100"]


def test_drive_propagates_an_error_after_some_samples() -> None:
    """An error after some samples is raised by `drive`, and no further step is requested."""
    scripted = ScriptedDrive()
    yielded: list[Outcome] = []

    def answer(step: Step) -> Iterable[Outcome]:
        for outcome in scripted(step):
            if len(yielded) == 70:
                raise OSError("gone")
            yielded.append(outcome)
            yield outcome

    with pytest.raises(OSError, match="gone"):
        drive(procedure(spec_of("wsat"), dut()), answer)
    assert [step.kind for step, _ in scripted.performed] == ["purge", "continuous"]
