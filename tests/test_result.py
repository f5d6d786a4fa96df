"""A result is folded from what was asked and what came back, as far as it came."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from snia_pts.measurement import Outcome, Purged
from snia_pts.procedures import drive
from snia_pts.procedures.iops import iops
from snia_pts.result import Ending, RunFacts, RunWarning, TestResult, fold
from snia_pts.spec import Deviation
from snia_pts.steps import Cell, Precondition, Purge, Round, Step
from snia_pts.testplatform import TestPlatform
from tests import samples
from tests.strategies import answering, cells, dut, standard

SHORTENED = Deviation(what="rounds.point_seconds", standard="60", actual="1", clause="x")
UNPROVEN = Deviation(what="purge", standard="purged", actual="not proven", clause="x")
PLATFORM = TestPlatform(
    hostname="h", motherboard="", cpu="", cpus=2, memory_bytes=0, operating_system="", kernel="", python="",
    suite_version="", engine="fio", engine_version="", io_engine="",
)  # fmt: skip
Answered = list[tuple[Step, Sequence[Outcome]]]


def facts(**changes: Any) -> RunFacts:
    """Return the facts of a run that begins without deviations."""
    known: dict[str, Any] = {
        "run_id": "r", "started": "", "command_line": ("snia-pts",), "operator": "", "seed": 1,
        "test_class": "enterprise", "spec": standard().spec, "dut": dut(), "platform": PLATFORM, "deviations": (),
    }  # fmt: skip
    return RunFacts(**{**known, **changes})


def constant(cell: Cell, number: int) -> int:
    """Every cell does its block size's KiB, in every round."""
    return cell.block_size_bytes // 512


def rising(cell: Cell, number: int) -> int:
    """Every cell doubles from round to round."""
    return int(2**number)


def answered(ios: Callable[[Cell, int], int]) -> Answered:
    """Return all steps of a whole run with their outcomes."""
    happened: Answered = []
    perform = answering(ios)

    def note(step: Step) -> Sequence[Outcome]:
        outcomes = tuple(perform(step))
        happened.append((step, outcomes))
        return outcomes

    drive(iops(standard().spec, dut()), note)
    return happened


def folded(happened: Answered, ending: Ending = "finished", **changes: Any) -> TestResult:
    """Return the result of what happened."""
    return fold(facts(**changes), happened, ending=ending, ending_detail="", finished="")


def test_whole_run() -> None:
    """A finished run has its purge, its preconditioning, its rounds and its window."""
    result = folded(answered(constant))

    assert result.purged is not None
    assert result.purged.label == "supposed (proven on 4 blocks)"
    assert result.preconditioned is not None
    assert result.preconditioned.stimulus.access == "SEQ"
    assert [measured.number for measured in result.rounds] == [1, 2, 3, 4, 5]
    assert all(measured.complete for measured in result.rounds)
    assert result.steady
    assert result.verdict == "STEADY STATE"
    assert result.conformant


def test_matrix_has_every_cell_s_mean() -> None:
    """The matrix holds the window's mean of all 56 cells, each its own."""
    result = folded(answered(lambda cell, number: 1000 * cell.read_percent + cell.block_size_bytes // 512 + number % 2))

    assert len(result.matrix) == 56
    assert result.matrix == {
        cell: 1000 * cell.read_percent + cell.block_size_bytes // 512 + 0.6 for cell in result.matrix
    }


def test_never_steady() -> None:
    """25 rounds without steady state are a finished, conformant run that did not achieve it."""
    result = folded(answered(rising))

    assert len(result.rounds) == 25
    assert not result.steady
    assert result.verdict == "STEADY STATE NOT ACHIEVED"
    assert result.conformant
    assert result.window is not None
    assert result.window.numbers == (21, 22, 23, 24, 25)


@pytest.mark.parametrize("ending", ["interrupted", "device failed", "host failed", "unfinished"])
def test_run_that_did_not_finish(ending: Ending) -> None:
    """A run that ended early says how, keeps its window, and is not conformant, steady or not."""
    result = folded(answered(constant), ending)

    assert result.verdict == f"INCOMPLETE ({ending})"
    assert result.steady
    assert not result.conformant


@pytest.mark.parametrize("done", [0, 1, 30, 55])
def test_partial_round_is_kept_and_judged_by_nobody(done: int) -> None:
    """What was measured of a cut-off round stays, marked not complete, and no window reaches into it."""
    happened = answered(rising)[:9]
    step, outcomes = happened[-1]
    result = folded([*happened[:-1], (step, outcomes[:done])], "interrupted")

    assert isinstance(step, Round)
    assert step.number == 7
    assert [measured.complete for measured in result.rounds] == [True] * 6 + [False]
    assert len(result.rounds[-1].measurements) == done
    assert result.window is not None
    assert result.window.numbers == (2, 3, 4, 5, 6)


@pytest.mark.parametrize("steps", range(7))
def test_run_without_a_window(steps: int) -> None:
    """A run that stopped before its fifth round has no window, no matrix, and is not steady."""
    result = folded(answered(constant)[:steps], "interrupted")

    assert result.window is None
    assert result.matrix == {}
    assert not result.steady
    assert (result.purged is not None) == (steps > 0)
    assert (result.preconditioned is not None) == (steps > 1)
    assert len(result.rounds) == max(0, steps - 2)


def test_step_without_outcome() -> None:
    """A purge or preconditioning that was asked for and never answered did not happen."""
    purge, wipc = answered(constant)[:2]

    assert isinstance(purge[0], Purge)
    assert folded([(purge[0], ())], "interrupted").purged is None
    assert isinstance(wipc[0], Precondition)
    assert folded([purge, (wipc[0], ())], "interrupted").preconditioned is None


def test_every_deviation_spoils_conformance() -> None:
    """Deviations known from the start and those that came with the purge are all in the result, in that order."""
    happened = answered(constant)
    unproven = Purged(method="none", samples=0, survivors=0, started="", seconds=0, evidence="", deviations=(UNPROVEN,))
    with_purge = [(happened[0][0], (unproven,)), *happened[1:]]

    assert not folded(happened, deviations=(SHORTENED,)).conformant
    assert not folded(with_purge).conformant
    assert folded(with_purge, deviations=(SHORTENED,)).deviations == (SHORTENED, UNPROVEN)
    assert unproven.label == "not purged"


def test_warnings_do_not_spoil_conformance() -> None:
    """A warning is in the result and leaves a run conformant."""
    warning = RunWarning(what="idle gap", detail="300 ms")
    result = folded(answered(constant), warnings=(warning,))

    assert result.warnings[0] == warning
    assert result.conformant


def told(result: TestResult) -> dict[str, str]:
    """Return a result's warnings by what they are about."""
    return {warning.what: warning.detail for warning in result.warnings}


def with_first_point(result: TestResult, **changes: Any) -> TestResult:
    """Return a result whose first point was measured otherwise."""
    first, *others = result.rounds
    point = replace(first.measurements[0], **changes)
    return replace(result, rounds=(replace(first, measurements=(point, *first.measurements[1:])), *others))


def test_what_a_run_should_not_do_is_warned_of() -> None:
    """A long pause, a point that took too long, and one that left its mix are told; a clean run has no warning."""
    clean = samples.iops_result()
    point = clean.rounds[0].measurements[0]
    paused = with_first_point(clean, clocking=replace(point.clocking, idle_gap_ms=12_006.0))
    late = with_first_point(clean, read=replace(point.read, runtime_ms=90_000))
    other_mix = with_first_point(clean, write=replace(point.read, ios=10 * point.read.ios))

    assert clean.warnings == ()
    assert "12 s at the longest" in told(paused)["pause"]
    assert "1.50 times" in told(late)["time a point"]
    assert point.stimulus.label in told(other_mix)["R/W mix"]


def test_steady_by_other_rules_is_not_plainly_steady() -> None:
    """Where the rule's numbers are not the standard's, the verdict says so."""
    altered = samples.iops_result(overrides=[("steady_state.data_excursion_percent", 50)])

    assert altered.steady
    assert altered.verdict == "STEADY STATE BY ALTERED RULES"
    assert samples.iops_result().verdict == "STEADY STATE"


def test_window_is_the_procedure_s() -> None:
    """Folding what happened gives the same window as the procedure concluded while it ran."""
    for ios in (constant, rising):
        assert folded(answered(ios)).window == drive(iops(standard().spec, dut()), answering(ios))


def test_tracked_cells_are_in_the_matrix() -> None:
    """The tracked variables' averages are the matrix's values of their cells."""
    result = folded(answered(rising))

    assert result.window is not None
    assert [state.average for _, state in result.window.determinations] == [
        result.matrix[cell] for cell in cells(standard().spec.steady_state)
    ]
