"""The measurement window of a test: the last rounds, judged for every tracked variable together.

PTS 2.0.2 chapter 7: all tracked variables must be steady in the same window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .measurement import MeasuredRound, mean
from .spec import SteadyStateRule, Tracked
from .steadystate import SteadyState, determine
from .steps import Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Consecutive rounds with a determination for each tracked variable, in the specification's order."""

    rounds: tuple[MeasuredRound, ...]
    determinations: tuple[tuple[Tracked, SteadyState], ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(measured.number for measured in self.rounds)

    @property
    def steady(self) -> bool:
        return all(determination.steady for _, determination in self.determinations)

    def cell_means(self) -> Mapping[Cell, float]:
        """Return the IOPS of every cell, averaged over the window's rounds (the value the standard reports)."""
        cells = [measured.by_cell for measured in self.rounds]
        return {cell: mean(by_cell[cell].iops for by_cell in cells) for cell in cells[0]}


def window_ending(rounds: Sequence[MeasuredRound], rule: SteadyStateRule) -> Window | None:
    """Return the window that ends with the last of ``rounds``; None while there are too few.

    A tracked variable that the device cannot run (0.5 KiB on 4096-byte sectors) is left to the caller to refuse.
    Raises ValueError when the rounds are not consecutive and complete.
    """
    if len(rounds) < rule.window_rounds:
        return None
    last = tuple(rounds[-rule.window_rounds :])
    first = last[0].number
    if [measured.number for measured in last] != list(range(first, first + len(last))):
        raise ValueError("a measurement window is made of consecutive rounds")
    if not all(measured.complete for measured in last):
        raise ValueError("a measurement window is made of complete rounds")
    determinations = tuple(
        (tracked, determine([measured.value(tracked) for measured in last], rule, first_round=first))
        for tracked in rule.tracked
    )
    return Window(rounds=last, determinations=determinations)
