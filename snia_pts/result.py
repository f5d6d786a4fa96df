"""What came of a test: everything a report says, folded from what was asked and what came back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .dut import Dut
from .measurement import MeasuredRound, Measurement, Outcome, Purged
from .spec import Deviation, IopsSpec, TestClass
from .steps import Cell, Round, Step
from .testplatform import TestPlatform
from .window import Window, window_ending

Ending = Literal["finished", "interrupted", "device failed", "host failed", "unfinished"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWarning:
    """Something a reader must know that is no difference from the standard: what, and in which step."""

    what: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What is fixed before the first step: the specification, the device, the platform, the seed, who asked how.

    ``deviations`` are those known from the start; more may come with the outcomes.
    """

    run_id: str
    started: str
    command_line: tuple[str, ...]
    operator: str
    seed: int
    test_class: TestClass
    spec: IopsSpec
    dut: Dut
    platform: TestPlatform
    deviations: tuple[Deviation, ...]
    warnings: tuple[RunWarning, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """One run of one test, as far as it came.

    ``window`` is the last complete window: the Measurement Window when it is steady.
    """

    facts: RunFacts
    purged: Purged | None
    preconditioned: Measurement | None
    rounds: tuple[MeasuredRound, ...]
    window: Window | None
    ending: Ending
    ending_detail: str
    finished: str

    @property
    def deviations(self) -> tuple[Deviation, ...]:
        """Every difference from the standard; a run is PTS conformant only with none."""
        return self.facts.deviations + (self.purged.deviations if self.purged else ())

    @property
    def warnings(self) -> tuple[RunWarning, ...]:
        return self.facts.warnings

    @property
    def steady(self) -> bool:
        return self.window is not None and self.window.steady

    @property
    def conformant(self) -> bool:
        return self.ending == "finished" and not self.deviations

    @property
    def verdict(self) -> str:
        """The steady state verdict in the standard's words."""
        if self.ending != "finished":
            return f"INCOMPLETE ({self.ending})"
        return "STEADY STATE" if self.steady else "STEADY STATE NOT ACHIEVED"

    @property
    def matrix(self) -> Mapping[Cell, float]:
        """IOPS of every cell, averaged over the last window; empty while there is none."""
        return self.window.cell_means() if self.window else {}


def fold(
    facts: RunFacts,
    answered: Iterable[tuple[Step, Sequence[Outcome]]],
    *,
    ending: Ending,
    ending_detail: str,
    finished: str,
) -> TestResult:
    """Fold steps and their outcomes, in the order they happened, into a result.

    A step without all its outcomes is what a stopped run leaves; its round is kept, marked not complete, and no
    window reaches into it.
    """
    purged: Purged | None = None
    preconditioned: Measurement | None = None
    rounds: list[MeasuredRound] = []
    for step, outcomes in answered:
        measurements = tuple(outcome for outcome in outcomes if isinstance(outcome, Measurement))
        if isinstance(step, Round):
            complete = len(measurements) == len(step.stimuli)
            rounds.append(MeasuredRound(number=step.number, measurements=measurements, complete=complete))
        elif measurements:
            preconditioned = measurements[0]
        purged = next((outcome for outcome in outcomes if isinstance(outcome, Purged)), purged)
    whole = [measured for measured in rounds if measured.complete]
    return TestResult(
        facts=facts, purged=purged, preconditioned=preconditioned, rounds=tuple(rounds),
        window=window_ending(whole, facts.spec.steady_state),
        ending=ending, ending_detail=ending_detail, finished=finished,
    )  # fmt: skip
