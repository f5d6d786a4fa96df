"""All tracked variables must be steady in the same window of consecutive, complete rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from snia_pts.measurement import MeasuredRound
from snia_pts.steadystate import first_steady_round
from snia_pts.window import window_ending
from tests.strategies import cells, measured_round, rule

#: Three tracked variables over eleven rounds: steady first at round 5, 7 and 5, but together only at 11.
APART = (
    (100, 100, 100, 100, 100, 100, 150, 150, 150, 150, 150),
    (25, 50, 100, 100, 100, 100, 100, 100, 100, 100, 100),
    (100,) * 11,
)


def rounds_of(*series: Sequence[int]) -> list[MeasuredRound]:
    """Return rounds in which the tracked variables have these values."""
    return [
        measured_round(number, dict(zip(cells(rule()), values, strict=True)))
        for number, values in enumerate(zip(*series, strict=True), start=1)
    ]


def test_variables_are_steady_in_the_same_window() -> None:
    """Variables that were each steady once, in different windows, are not steady."""
    rounds = rounds_of(*APART)
    windows = [window_ending(rounds[:last], rule()) for last in range(5, 12)]

    assert [first_steady_round(series, rule()) for series in APART] == [5, 7, 5]
    assert [window.steady for window in windows if window] == [False] * 6 + [True]


def test_window_has_a_determination_for_each_variable() -> None:
    """The determinations stand in the specification's order, over the window's true round numbers."""
    window = window_ending(rounds_of(*APART), rule())

    assert window is not None
    assert window.numbers == (7, 8, 9, 10, 11)
    assert tuple(tracked for tracked, _ in window.determinations) == rule().tracked
    assert [state.average for _, state in window.determinations] == [150, 100, 100]
    assert {state.rounds for _, state in window.determinations} == {window.numbers}


@pytest.mark.parametrize("count", range(5))
def test_no_window_before_round_five(count: int) -> None:
    """Fewer than five rounds make no window."""
    assert window_ending(rounds_of([1] * count, [1] * count, [1] * count), rule()) is None


def test_window_is_of_consecutive_rounds() -> None:
    """A window over a missing, doubled or reversed round is refused."""
    rounds = rounds_of(*APART)
    for broken in (rounds[:8] + rounds[9:], [rounds[0], *rounds[:4]], rounds[::-1]):
        with pytest.raises(ValueError, match="consecutive"):
            window_ending(broken, rule())


def test_window_is_of_complete_rounds() -> None:
    """A round that was cut off is in no window, even if all tracked variables were measured."""
    rounds = rounds_of(*APART)
    with pytest.raises(ValueError, match="complete"):
        window_ending([*rounds[:-1], replace(rounds[-1], complete=False)], rule())
    assert window_ending([replace(rounds[0], complete=False), *rounds[1:]], rule()) is not None


def test_cells_are_averaged_over_the_window() -> None:
    """A cell's reported value is the mean of the window's five rounds, the rounds before left out."""
    window = window_ending(rounds_of([1000, 1, 2, 3, 4, 5], [7] * 6, [8] * 6), rule())

    assert window is not None
    assert [window.cell_means()[cell] for cell in cells(rule())] == [3, 7, 8]
