"""The measurement window of a test: the last rounds, evaluated for all tracked variables together.

PTS 2.0.2 chapter 7: all tracked variables must be steady in the same window.  If steady state is determined from
samples of a continuous stimulus (chapters 10, 11, 13, 14), each sample that counts is treated as a round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from ..model.measurement import Sample, SampledRound
from ..spec import SampledSteadyStateRule, SteadyStateRule, Tracked
from ..spec.reader import definitions
from ..units import rounded_down
from .steady_state import SteadyState, determine


class Judged(Protocol):
    """A round of measurements, or a sample that is treated as a round."""

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

    ``fills`` is how many times a continuous stimulus had written the ActiveRange by the end of the window (None for
    rounds); ``minimum_fills`` is how many times are required.
    """

    numbers: tuple[int, ...]
    determinations: tuple[tuple[Tracked, SteadyState], ...]
    fills: float | None = None
    minimum_fills: float = 0.0

    @property
    def all_steady(self) -> bool:
        """Whether every tracked variable is steady in the window."""
        return all(determination.steady for _, determination in self.determinations)

    @property
    def has_minimum_fills(self) -> bool:
        """Whether the ActiveRange was written often enough for the window to count."""
        return self.fills is None or self.fills >= self.minimum_fills

    @property
    def steady(self) -> bool:
        return self.all_steady and self.has_minimum_fills

    @property
    def early_note(self) -> str:
        """A note on a window that is steady after few fills (a fresh drive is steady, too); else empty."""
        if self.fills is None or not self.all_steady or self.fills >= definitions().steady_state.early_fills:
            return ""
        fills = f"after {rounded_down(self.fills, 2)} fills of the ActiveRange"
        if self.has_minimum_fills:
            return f"determined {fills}"
        return f"within the limits {fills}, but at least {self.minimum_fills:g} are required"


def last_window(rounds: Sequence[Judged], rule: SteadyStateRule) -> Window | None:
    """Return the window of the last rounds; None if there are fewer rounds than a window has.

    A window consists only of rounds after the last interruption of the run: neither the rounds before it count nor the
    round in which it occurred (PTS 2.0.2 chapter 4 has no pauses).  The caller must reject a tracked variable that the
    device cannot perform (0.5 KiB on 4096-byte sectors).  Raises ValueError if the rounds are not consecutive and
    complete.
    """
    last = rounds_since_interruption(rounds[-rule.window_rounds :])
    if len(last) < rule.window_rounds:
        return None
    first = last[0].number
    numbers = tuple(measured.number for measured in last)
    if numbers != tuple(range(first, first + len(last))):
        raise ValueError("a measurement window must consist of consecutive rounds")
    if not all(measured.complete for measured in last):
        raise ValueError("a measurement window must consist of complete rounds")
    determinations = tuple(
        (tracked, determine([measured.value(tracked) for measured in last], rule, first_round=first))
        for tracked in rule.tracked
    )
    return Window(numbers=numbers, determinations=determinations)


def consecutive_rounds(rounds: Sequence[J], rule: SteadyStateRule) -> Sequence[J]:
    """Return the consecutive rounds at the end and after any interruption, at most as many as a window has."""
    last = rounds[-rule.window_rounds :]
    first = max(0, len(last) - 1)
    while first and last[first - 1].number == last[first].number - 1:
        first -= 1
    return rounds_since_interruption(last[first:])


def rounds_since_interruption(rounds: Sequence[J]) -> Sequence[J]:
    """Return the rounds after the last interruption of the run; empty if it occurred during the last round."""
    current = rounds[-1].interruptions if rounds else frozenset()
    if len(current) > 1:
        return ()
    first = len(rounds)
    while first and rounds[first - 1].interruptions == current:
        first -= 1
    return rounds[first:]


def interruption_marks(rounds: Sequence[Judged]) -> tuple[float, ...]:
    """Return where among ``rounds`` the run was interrupted: ``n`` within round ``n``, ``n - 0.5`` before it."""
    marks: list[float] = []
    previous: int | None = None
    for current in rounds:
        counts = sorted(current.interruptions)
        if counts and previous is not None and counts[0] != previous:
            marks.append(current.number - 0.5)
        if len(counts) > 1:
            marks.append(float(current.number))
        previous = counts[-1] if counts else previous
    return tuple(marks)


def sampled_round(
    preceding_samples: int, sample: Sample, rule: SampledSteadyStateRule, fills: float
) -> SampledRound | None:
    """Return a sample as a round; None if the sample does not count as one.

    ``preceding_samples`` is the number of samples requested before this continuous stimulus, ``fills`` how often the
    ActiveRange was written by the end of the sample.  A sample is numbered by its end in I/O time, so that it keeps its
    minute even if samples before it are missing because the host was suspended.  A sample does not count if it took at
    most half the requested time, or at least 1.5 times that time.
    """
    number = preceding_samples + round(sample.ended_seconds / rule.sample_seconds)
    position = number - rule.first_sample
    if position < 0 or position % rule.stride_samples or not 0.5 < sample.seconds / rule.sample_seconds < 1.5:
        return None
    minute = number * rule.sample_seconds / 60
    return SampledRound(number=1 + position // rule.stride_samples, minute=minute, fills=fills, sample=sample)


def sampled_window(rounds: Sequence[SampledRound], rule: SampledSteadyStateRule) -> Window | None:
    """Return the window of the last sampled rounds; None until there are enough consecutive ones."""
    window = last_window(consecutive_rounds(rounds, rule), rule)
    return None if window is None else replace(window, fills=rounds[-1].fills, minimum_fills=rule.minimum_fills)
