"""What every test of the standard keeps to, whatever it measures."""

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
from tests.courses import Behaviour, ScriptedDrive, brief, constant, course, noisy, refusal, whole_runs, wild
from tests.strategies import EVERY, PURGED, TESTS, dut, measurement, spec_of, stimulus

#: Where a test's own ActiveRange is 75 %.
RESTRICTED = ("2.0.2", "client")
behaviours = st.builds(noisy, st.integers(0, 10**6), st.sampled_from([0.0, 0.05, 0.12, 0.5])) | st.just(wild)
which = pytest.mark.parametrize(("test", "pts", "test_class"), EVERY)


@which
def test_nothing_precedes_the_purge(test: str, pts: str, test_class: TestClass) -> None:
    """The first step is a purge; a test has one, but for throughput, which has one for each block size."""
    steps = course(brief(spec_of(test, pts, test_class))).steps
    parts = [step.part for step in steps if isinstance(step, Purge)]
    two = ["1024 KiB"] if (pts, test_class) == ("1.1", "client") else ["1024 KiB", "128 KiB"]

    assert isinstance(steps[0], Purge)
    assert parts == (two if test == "throughput" else [""])


@which
def test_only_some_tests_precondition_independently(test: str, pts: str, test_class: TestClass) -> None:
    """IOPS, throughput and latency have a WIPC; the others begin their own writes on the purged device."""
    run = course(brief(spec_of(test, pts, test_class)))

    assert bool(run.stretches("WIPC")) == (test in ("iops", "throughput", "latency"))


@whole_runs
@given(st.sampled_from(EVERY), st.integers(2**30, 2**44), st.sampled_from([512, 4096]), behaviours)
def test_active_range(entry: tuple[str, str, TestClass], capacity_bytes: int, sector: int, iops: Behaviour) -> None:
    """No stimulus, WIPC included, reaches beyond the ActiveRange, 75 % for PTS-C 2.0.2, and each has it all.

    What it lacks is less than a block of the largest size.
    """
    share = 75 if entry[1:] == RESTRICTED else 100
    run = course(brief(spec_of(*entry)), dut(capacity_bytes=capacity_bytes, logical_sector_bytes=sector), iops)

    for step in run.steps:
        for item in step.stimuli:
            end = item.range_offset_bytes + item.range_bytes
            assert 100 * end <= share * capacity_bytes
            assert 100 * (item.range_bytes + 1024 * 1024) > share * capacity_bytes
            assert all(0 <= start < item.range_bytes for start in item.starts)


@which
def test_nothing_is_substituted_on_sectors_of_4096(test: str, pts: str, test_class: TestClass) -> None:
    """Every stimulus fits 4096-byte sectors, and has a size and a mix that the test has on 512-byte ones too."""
    spec = brief(spec_of(test, pts, test_class))

    def points(sector: int) -> set[tuple[str, int, str]]:
        steps = course(spec, dut(logical_sector_bytes=sector)).steps
        stimuli = [entry for step in steps for entry in step.stimuli]
        for item in stimuli:
            sizes = [share.size_bytes for share in item.block_shares] or [item.largest_block_bytes]
            assert all(size % sector == 0 for size in sizes)
        return {(each.label, each.largest_block_bytes, each.demand.label) for each in stimuli}

    left_out = points(512) - points(4096)
    assert points(4096) <= points(512)
    assert {size for _, size, _ in left_out} == ({512} if test in ("iops", "latency") else set())


@pytest.mark.parametrize("test", ["latency", "wsat"])
def test_the_histogram_must_fit_before_the_first_step(test: str) -> None:
    """A device that can run all but the last step is refused at once, not after hours."""
    message = refusal(spec_of(test, histogram__block_size_kib=2), dut(logical_sector_bytes=4096))

    assert "2 KiB of the histogram is not a multiple of its logical sector size of 4096 bytes" in message


@pytest.mark.parametrize("test", TESTS)
def test_a_device_of_less_than_a_block_is_refused(test: str) -> None:
    """Every test wants room for one block of each of its sizes in the ActiveRange before its first step."""
    assert "is less than one block of" in refusal(spec_of(test), dut(capacity_bytes=3584))


@whole_runs
@given(st.sampled_from(EVERY), behaviours)
def test_a_procedure_repeats_itself(entry: tuple[str, str, TestClass], iops: Behaviour) -> None:
    """With the answers of a run it asks for that run's steps and concludes the same: a journal can be replayed."""
    run = course(brief(spec_of(*entry)), iops=iops)
    left = iter(run.told)

    def replay(step: Step) -> Iterable[Outcome]:
        asked, outcomes = next(left)
        assert step == asked
        return outcomes

    assert drive(procedure(run.spec, run.device), replay) == run.conclusion
    assert list(left) == []


@which
@pytest.mark.parametrize("iops", [constant, wild])
def test_nothing_follows_the_last_step(test: str, pts: str, test_class: TestClass, iops: Behaviour) -> None:
    """A test ends with its last round, or stretch, or the histogram that 2.0.2 adds, steady or not."""
    step = course(brief(spec_of(test, pts, test_class)), iops=iops).steps[-1]
    added = "histogram" if pts == "2.0.2" else ""
    last = {
        "iops": "round",
        "throughput": "round",
        "latency": added or "round",
        "wsat": added or "stimulus",
        "hir": "access C",
        "xsr": "stimulus",
        "composite": "histogram",
        "dirth": "histogram",
    }

    assert (step.phase if isinstance(step, ContinuousStimulus) else step.kind) == last[test]


# -- how it is driven ------------------------------------------------------------------------------------------------


def test_answer_to_other_stimuli_is_refused() -> None:
    """A round that is answered with other stimuli, or fewer, or in another order, is refused."""
    stimuli = course(spec_of("iops")).rounds[0].stimuli
    right = [measurement(item) for item in stimuli]
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


def test_stretch_without_its_whole_or_samples_is_refused() -> None:
    """A stretch answered with another stimulus, with no whole, or where it is cut with no sample, is refused."""

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


def test_drive_passes_failures_on() -> None:
    """An answer that fails ends the procedure with that failure, and no further step is asked for."""
    steps: list[Step] = []

    def answer(step: Step) -> Iterable[Outcome]:
        steps.append(step)
        if not isinstance(step, Purge):
            raise OSError("gone")
        return (PURGED,)

    with pytest.raises(OSError, match="gone"):
        drive(procedure(spec_of("iops"), dut(capacity_bytes=GB)), answer)
    assert [step.label for step in steps] == ["Purge", "WIPC SEQ 128 KiB 0/100"]


def test_drive_passes_on_what_fails_within_a_stretch() -> None:
    """A device that fails after some samples ends the procedure with that failure, and no further step is asked for."""
    scripted = ScriptedDrive()
    given_on: list[Outcome] = []

    def answer(step: Step) -> Iterable[Outcome]:
        for outcome in scripted(step):
            if len(given_on) == 70:
                raise OSError("gone")
            given_on.append(outcome)
            yield outcome

    with pytest.raises(OSError, match="gone"):
        drive(procedure(spec_of("wsat"), dut()), answer)
    assert [step.kind for step, _ in scripted.told] == ["purge", "continuous"]
