"""The test loop that most tests of the standard share: rounds until steady state."""

from __future__ import annotations

from collections.abc import Sequence

from ..measurement import MeasuredRound, Measurement, Outcome
from ..spec import Rounds, SteadyStateRule
from ..steps import Round, Stimulus
from ..window import Window, window_ending
from .asking import Procedure


def rounds_until_steady(
    stimuli: tuple[Stimulus, ...], rounds: Rounds, rule: SteadyStateRule
) -> Procedure[Window | None]:
    """Run rounds of ``stimuli`` until all tracked variables are steady in one window, or the maximum is reached.

    Returns the last window: the Measurement Window when it is steady, and what the standard reports as
    NOT ACHIEVED when it is not (PTS 2.0.2 chapter 7, p. 26).
    """
    measured: list[MeasuredRound] = []
    window = None
    for number in range(1, rounds.maximum + 1):
        outcomes = yield Round(number=number, stimuli=stimuli)
        measured.append(measured_round(number, stimuli, outcomes))
        measured = measured[-rule.window_rounds :]
        window = window_ending(measured, rule)
        if window is not None and window.steady:
            break
    return window


def measured_round(number: int, stimuli: Sequence[Stimulus], outcomes: Sequence[Outcome]) -> MeasuredRound:
    """Return the round that ``outcomes`` make; raises ValueError when they answer other stimuli than asked."""
    measurements = tuple(outcome for outcome in outcomes if isinstance(outcome, Measurement))
    if tuple(measurement.stimulus for measurement in measurements) != tuple(stimuli):
        raise ValueError(f"round {number} was answered with other stimuli than it asked for")
    return MeasuredRound(number=number, measurements=measurements, complete=True)
