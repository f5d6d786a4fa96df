"""The measurement window of a test: the last rounds, judged for every tracked variable together.

PTS 2.0.2 chapter 7: all tracked variables must be steady in the same window.  Where steady state is judged on samples
of a continuous stimulus (chapters 10, 11, 13, 14), each sample that counts stands for a round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from .measurement import Sample, SampledRound
from .spec import Settling, SteadyStateRule, Tracked
from .steadystate import SteadyState, determine


class Judged(Protocol):
    """What steady state is judged on: a round of measurements, or a sample that stands for one."""

    @property
    def number(self) -> int: ...
    @property
    def complete(self) -> bool: ...
    def value(self, tracked: Tracked) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Consecutive rounds with a determination for each tracked variable, in the specification's order."""

    numbers: tuple[int, ...]
    determinations: tuple[tuple[Tracked, SteadyState], ...]

    @property
    def steady(self) -> bool:
        return all(determination.steady for _, determination in self.determinations)


def window_ending(rounds: Sequence[Judged], rule: SteadyStateRule) -> Window | None:
    """Judge the last rounds for every tracked variable together; None while there are fewer than a window has.

    A tracked variable that the device cannot run (0.5 KiB on 4096-byte sectors) is left to the caller to refuse.
    Raises ValueError when the rounds are not consecutive and complete.
    """
    if len(rounds) < rule.window_rounds:
        return None
    last = rounds[-rule.window_rounds :]
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


def sampled_rounds(samples: Iterable[tuple[int, Sample]], rule: Settling) -> Iterator[SampledRound]:
    """Return the samples that stand for rounds; ``samples`` come with their numbers, from 1, over all stretches.

    A sample cut short by half or more (by a limit, or a stop) stands for none.
    """
    for number, sample in samples:
        position = number - rule.first_sample
        if position >= 0 and position % rule.stride_samples == 0 and sample.seconds > rule.sample_seconds / 2:
            minute = number * rule.sample_seconds / 60
            yield SampledRound(number=1 + position // rule.stride_samples, minute=minute, sample=sample)
