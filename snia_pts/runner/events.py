"""Events of a run, for a terminal, a page or a program that follows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..analysis.window import Window
from ..model.dut import Dut
from ..model.measurement import MeasuredRound, Outcome, SampledRound
from ..model.steps import Step
from ..procedures.estimator import Plan
from ..record.folder import RunFolder
from ..record.replay import ResumePlan
from ..results.result import TestResult
from ..spec import Spec, SteadyStateRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Information for the operator that does not stop the run: a setting was restored, a check was skipped."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderCreated:
    """The folder of a run of ``dut`` is ready; ``report`` is the name of its report files without suffix."""

    folder: RunFolder
    title: str
    dut: Dut
    report: str = "report"


@dataclass(frozen=True, slots=True, kw_only=True)
class TestStarted:
    """The ``position``-th (from 1) of ``total`` tests of a suite starts or resumes."""

    title: str
    position: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePlanned:
    """A stopped run was inspected; ``resume_plan`` states where it will resume."""

    folder: RunFolder
    resume_plan: ResumePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """The target is ready and the first step follows; ``resumed``: recorded steps are replayed first."""

    spec: Spec
    plan: Plan
    simulated: bool
    resumed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationStarted:
    """The host is measured without the drive before the test; ``text`` states what is measured, and for how long."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted:
    """A step is about to start."""

    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRunning:
    """A program of the current step has run for ``seconds`` and written ``written_bytes``; sent repeatedly."""

    seconds: float
    written_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRecorded:
    """The ``position``-th outcome (from 0) of a step is in the journal."""

    step: Step
    position: int
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundEvaluated:
    """A round, or a sample evaluated as a round, is complete.  ``window`` ends with it; None after too few rounds."""

    step: Step
    rule: SteadyStateRule
    evaluated_round: MeasuredRound | SampledRound
    window: Window | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResumed:
    """All recorded steps of a resumed run were replayed; the following steps are performed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestFinished:
    """A test has ended and its result is stored; its report is written next."""

    result: TestResult


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteFinished:
    """All tests of several have ended; their summary is written next."""


Event = (
    Notice
    | FolderCreated
    | TestStarted
    | ResumePlanned
    | RunStarted
    | CalibrationStarted
    | StepStarted
    | ProgramRunning
    | OutcomeRecorded
    | RoundEvaluated
    | RunResumed
    | TestFinished
    | SuiteFinished
)
OnEvent = Callable[[Event], None]


def ignore_event(_: Event) -> None:
    """Do nothing, for a caller that does not follow a run."""
