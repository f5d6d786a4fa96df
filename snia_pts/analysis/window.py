"""The measurement window of a test: the last rounds, judged for every tracked variable together.

PTS 2.0.2 chapter 7: all tracked variables must be steady in the same window.  Where steady state is judged on samples
of a continuous stimulus (chapters 10, 11, 13, 14), each sample that counts stands for a round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from ..model.measurement import Sample, SampledRound
from ..spec import SampledSteadyStateRule, SteadyStateRule, Tracked
from ..spec.reader import definitions
from .steady_state import SteadyState, determine


class Judged(Protocol):
    """What steady state is judged on: a round of measurements, or a sample that stands for one."""

    @property
    def number(self) -> int: ...
    @property
    def complete(self) -> bool: ...
    @property
    def interruptions(self) -> frozenset[int]: ...
    def value(self, tracked: Tracked) -> float: ...


J = TypeVar("J", bound=Judged)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Consecutive rounds with a determination for each tracked variable, in the specification's order.

    ``fills`` tells how often a continuous stimulus had written the ActiveRange at the window's end, ``least_fills`` how
    often it must have; fills of rounds are not counted.
    """

    numbers: tuple[int, ...]
    determinations: tuple[tuple[Tracked, SteadyState], ...]
    fills: float | None = None
    least_fills: float = 0.0

    @property
    def even(self) -> bool:
        """Whether every tracked variable is steady in it."""
        return all(determination.steady for _, determination in self.determinations)

    @property
    def filled(self) -> bool:
        """Whether the ActiveRange was written often enough for it to count."""
        return self.fills is None or self.fills >= self.least_fills

    @property
    def steady(self) -> bool:
        return self.even and self.filled

    @property
    def early(self) -> str:
        """In words, how little was written where it is even: a fresh drive is so, and fast; else empty."""
        if self.fills is None or not self.even or self.fills >= definitions().steady_state.few_fills:
            return ""
        told = f"after {self.fills:.2f} fills of the ActiveRange"
        return f"determined {told}" if self.filled else f"even {told}, of at least {self.least_fills:g}"


def window_ending(rounds: Sequence[Judged], rule: SteadyStateRule) -> Window | None:
    """Judge the last rounds for every tracked variable together; None while there are fewer than a window has.

    A window lies wholly after the last time that the run was interrupted: no round before it counts, nor the round it
    fell into (PTS 2.0.2 chapter 4 knows no pause).  A tracked variable that the device cannot run (0.5 KiB on 4096-byte
    sectors) is left to the caller to refuse.  Raises ValueError when the rounds are not consecutive and complete.
    """
    last = unbroken(rounds[-rule.window_rounds :])
    if len(last) < rule.window_rounds:
        return None
    first = last[0].number
    numbers = tuple(measured.number for measured in last)
    if numbers != tuple(range(first, first + len(last))):
        raise ValueError("a measurement window is made of consecutive rounds")
    if not all(measured.complete for measured in last):
        raise ValueError("a measurement window is made of complete rounds")
    determinations = tuple(
        (tracked, determine([measured.value(tracked) for measured in last], rule, first_round=first))
        for tracked in rule.tracked
    )
    return Window(numbers=numbers, determinations=determinations)


def in_a_row(rounds: Sequence[J], rule: SteadyStateRule) -> Sequence[J]:
    """Return the last rounds, no more than a window has, as far as none is missing and the run was not interrupted."""
    last = rounds[-rule.window_rounds :]
    first = max(0, len(last) - 1)
    while first and last[first - 1].number == last[first].number - 1:
        first -= 1
    return unbroken(last[first:])


def unbroken(rounds: Sequence[J]) -> Sequence[J]:
    """Return the last of the rounds, as far as the run was not interrupted since the first of them began."""
    now = rounds[-1].interruptions if rounds else frozenset()
    if len(now) > 1:
        return ()
    first = len(rounds)
    while first and rounds[first - 1].interruptions == now:
        first -= 1
    return rounds[first:]


def breaks(rounds: Sequence[Judged]) -> tuple[float, ...]:
    """Return where among ``rounds`` the run was interrupted: the number of a round, or half a round before it."""
    found: list[float] = []
    before: int | None = None
    for judged in rounds:
        counts = sorted(judged.interruptions)
        if counts and before is not None and counts[0] != before:
            found.append(judged.number - 0.5)
        if len(counts) > 1:
            found.append(float(judged.number))
        before = counts[-1] if counts else before
    return tuple(found)


def sampled_round(before: int, sample: Sample, rule: SampledSteadyStateRule, fills: float) -> SampledRound | None:
    """Return the round that a sample stands for; None for one that stands for none.

    ``before`` is how many samples the stretches before this one were asked for, ``fills`` how often the ActiveRange was
    written by its end.  What counts is when a sample ended, in
    I/O time: where the host was halted and samples are missing, those that follow keep their minutes.  One that took
    half as long as asked, or half as long again, is none of a minute.
    """
    number = before + round(sample.ended_seconds / rule.sample_seconds)
    position = number - rule.first_sample
    if position < 0 or position % rule.stride_samples or not 0.5 < sample.seconds / rule.sample_seconds < 1.5:
        return None
    minute = number * rule.sample_seconds / 60
    return SampledRound(number=1 + position // rule.stride_samples, minute=minute, fills=fills, sample=sample)


def sampled_window(rounds: Sequence[SampledRound], rule: SampledSteadyStateRule) -> Window | None:
    """Judge the last of the samples that stand for rounds; None until enough follow a missing one."""
    window = window_ending(in_a_row(rounds, rule), rule)
    return None if window is None else replace(window, fills=rounds[-1].fills, least_fills=rule.least_fills)
