"""What happens in a run, as values for whoever follows it: a terminal, a page, a program."""

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
    """Something that the operator should know, and that stops nothing: a setting was put back, a check left out."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderMade:
    """A run of ``dut`` will be kept in ``folder``; ``report`` is the name of its report files, without suffix."""

    folder: RunFolder
    title: str
    dut: Dut
    report: str = "report"


@dataclass(frozen=True, slots=True, kw_only=True)
class TestStarted:
    """The ``position``-th test (from 1) of the ``total`` of a suite begins, or goes on."""

    title: str
    position: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePlanned:
    """A stopped run was inspected; ``outlook`` says where it will go on."""

    folder: RunFolder
    outlook: ResumePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """The target is ready, and the first step follows; ``resumed`` where recorded steps are replayed first."""

    spec: Spec
    plan: Plan
    simulated: bool
    resumed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationStarted:
    """The host is measured by itself before the test; ``text`` says what is measured, and for how long."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted:
    """A step is about to be performed."""

    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRunning:
    """A program of the current step runs since ``seconds`` and has written ``written_bytes``; sent now and then."""

    seconds: float
    written_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRecorded:
    """The ``position``-th outcome (from 0) of a step is safe in the journal."""

    step: Step
    position: int
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundEvaluated:
    """A round, or a sample that stands for one, is complete; ``window`` ends with it, None while too few rounds."""

    step: Step
    rule: SteadyStateRule
    judged: MeasuredRound | SampledRound
    window: Window | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResumed:
    """All recorded steps of a resumed run were replayed; what follows is performed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestFinished:
    """A test has ended and its result is stored; its report is made next."""

    result: TestResult


Event = (
    Notice
    | FolderMade
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
)
OnEvent = Callable[[Event], None]


def ignore_event(_: Event) -> None:
    """Do nothing: for a caller that does not follow a run."""
