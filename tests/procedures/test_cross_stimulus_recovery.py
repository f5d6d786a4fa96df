"""Cross stimulus recovery: 8 h sequential, 6 h random and 8 h sequential writes without a pause (chapter 12)."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from snia_pts.spec import TestClass
from tests.procedure_runs import outline, refusal, run_procedure
from tests.strategies import CLASSES, VERSIONS, dut, spec_of

EVERY = tuple(product(VERSIONS, CLASSES))


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_steps(pts: str, test_class: TestClass) -> None:
    """The steps are a purge and Access Groups 1, 2 and 3 of 8 + 6 + 8 = 22 hours, and no others."""
    run = run_procedure(spec_of("xsr", pts, test_class))

    assert outline(run.steps) == [("purge", 0), ("stimulus", 28_800), ("stimulus", 21_600), ("stimulus", 28_800)]
    assert [step.part for step in run.steps] == ["", "AG 1", "AG 2", "AG 3"]
    assert sum(seconds for _, seconds in outline(run.steps)) == 22 * 3600


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_stimuli_of_the_access_groups(pts: str, test_class: TestClass) -> None:
    """The groups write SEQ 1024 KiB, RND 8 KiB and SEQ 1024 KiB at T1Q32; in 1.1 the random writes run at T8Q32."""
    stimuli = [step.stimulus for step in run_procedure(spec_of("xsr", pts, test_class)).continuous_stimuli()]

    assert [stimulus.label for stimulus in stimuli] == ["SEQ 1024 KiB 0/100", "RND 8 KiB 0/100", "SEQ 1024 KiB 0/100"]
    assert [stimulus.demand.label for stimulus in stimuli] == ["T1Q32", "T8Q32" if pts == "1.1" else "T1Q32", "T1Q32"]


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_samples_of_a_minute(pts: str, test_class: TestClass) -> None:
    """The groups have 480, 360 and 480 samples of a minute, each in one continuous stimulus."""
    run = run_procedure(spec_of("xsr", pts, test_class))

    assert [(step.samples, step.sample_seconds) for step in run.continuous_stimuli()] == [
        (480, 60),
        (360, 60),
        (480, 60),
    ]
    assert [len(line) for line in run.result().lines("stimulus")] == [480, 360, 480]


def test_steady_state_is_not_required() -> None:
    """With unsteady IOPS the steps are the same, and the verdict is COMPLETE."""
    steps = run_procedure(spec_of("xsr")).steps
    unsteady = run_procedure(spec_of("xsr"), iops=lambda step, stimulus, number: 10 if number % 2 else 10_000)

    assert unsteady.steps == steps
    assert unsteady.result().verdict.startswith("COMPLETE")
    assert unsteady.result().achieved


def test_a_device_that_cannot_run_a_later_group_is_refused() -> None:
    """A device that can run AG 1 but not AG 2 is refused before the first step."""
    groups = spec_of("xsr").groups.sequence
    spec = spec_of("xsr", groups__sequence=(groups[0], replace(groups[1], block_size_kib=2), groups[2]))

    assert "2 KiB of AG 2 is not a multiple of" in refusal(spec, dut(logical_sector_bytes=4096))
