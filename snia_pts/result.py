"""What came of a test: everything a report says, folded from what was asked and what came back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    running: bool = False

    @property
    def deviations(self) -> tuple[Deviation, ...]:
        """Every difference from the standard; a run is PTS conformant only with none."""
        return self.facts.deviations + (self.purged.deviations if self.purged else ())

    @property
    def warnings(self) -> tuple[RunWarning, ...]:
        """What a reader must know besides: pauses between stimuli, points that took another time or mix than asked."""
        points = [point for measured in self.rounds for point in measured.measurements]
        return (*self.facts.warnings, *_pauses(points), *_overruns(points), *_mixes(points))

    @property
    def steady(self) -> bool:
        return self.window is not None and self.window.steady

    @property
    def altered_rules(self) -> bool:
        """Whether steady state was judged by other numbers than the standard's."""
        return any(deviation.what.startswith("steady_state.") for deviation in self.facts.deviations)

    @property
    def conformant(self) -> bool:
        return self.ending == "finished" and not self.deviations

    @property
    def verdict(self) -> str:
        """The steady state verdict in the standard's words."""
        if self.ending != "finished":
            return f"INCOMPLETE ({self.ending})"
        by = " BY ALTERED RULES" if self.altered_rules else ""
        return f"STEADY STATE{by}" if self.steady else f"STEADY STATE NOT ACHIEVED{by}"

    @property
    def matrix(self) -> Mapping[Cell, float]:
        """IOPS of every cell, averaged over the last window; empty while there is none."""
        return self.window.cell_means() if self.window else {}


#: The standard asks for no pause between stimuli (PTS 2.0.2 chapter 4); a longer one may let a drive recover.
_LONGEST_IDLE_MS = 3000.0
#: A stimulus may end late by the time its outstanding I/Os take; more than this share of it is worth a word.
_LONGEST_OVERRUN = 1.05
#: Reads in percent of all I/Os, off by what chance cannot explain in so many I/Os.
_MIX_PERCENT, _MIX_IOS = 3.0, 2000


def _pauses(points: Sequence[Measurement]) -> Iterator[RunWarning]:
    gaps = [point.clocking.idle_gap_ms or 0.0 for point in points]
    long = [gap for gap in gaps if gap > _LONGEST_IDLE_MS]
    if long:
        detail = (
            f"{len(long)} time(s) the drive was left idle between points, for {max(long) / 1000:.3g} s at the longest"
        )
        yield RunWarning(what="pause", detail=detail)


def _overruns(points: Sequence[Measurement]) -> Iterator[RunWarning]:
    late = [
        point.runtime_ms / 1000 / point.stimulus.seconds
        for point in points
        if point.stimulus.seconds and point.runtime_ms / 1000 > _LONGEST_OVERRUN * point.stimulus.seconds
    ]
    if late:
        detail = (
            f"{len(late)} of {len(points)} points took longer than asked, {max(late):.2f} times as long at the most"
        )
        yield RunWarning(what="time a point", detail=detail)


def _mixes(points: Sequence[Measurement]) -> Iterator[RunWarning]:
    off = [
        point.stimulus.label
        for point in points
        if point.ios >= _MIX_IOS and abs(100 * point.read.ios / point.ios - point.stimulus.read_percent) > _MIX_PERCENT
    ]
    if off:
        detail = f"{len(off)} of {len(points)} points did not keep to their mix, {off[0]} among them"
        yield RunWarning(what="R/W mix", detail=detail)


def fold(
    facts: RunFacts,
    answered: Iterable[tuple[Step, Sequence[Outcome]]],
    *,
    ending: Ending,
    ending_detail: str,
    finished: str,
    running: bool = False,
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
        ending=ending, ending_detail=ending_detail, finished=finished, running=running,
    )  # fmt: skip
