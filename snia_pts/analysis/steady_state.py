"""The steady state rule of the PTS, applied to measured values.

PTS 2.0.2 definition 2.1.24, for a tracked variable y over a window of consecutive rounds:

1. data excursion: max(y) - min(y) is at most 20 % of the average of y;
2. slope excursion: the least-squares straight line through the window rises or falls within the window by at most 10 %
   of the average of y.

The percentages and the window come from the specification.  The decision uses exact rational arithmetic, so that an
excursion equal to the allowed one passes, without a rounding error.  The reported figures are the nearest floats that
agree with the decision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..spec import SteadyStateRule
from ..units import distinct_decimals


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyState:
    """The determination of one window: allowed excursions, measured excursions, verdict.

    The best fit is ``slope * round + intercept`` with the actual round numbers.  If the average is not positive or a
    value is not finite, ``evaluable`` is False and every figure except the values is nan.
    """

    first_round: int
    values: tuple[float, ...]
    average: float
    allowed_data_excursion: float
    data_excursion: float
    allowed_slope_excursion: float
    slope_excursion: float
    slope: float
    intercept: float
    evaluable: bool
    steady: bool

    @property
    def rounds(self) -> tuple[int, ...]:
        """The rounds of the measurement window."""
        return tuple(range(self.first_round, self.first_round + len(self.values)))

    @property
    def data_excursion_percent(self) -> float:
        """Measured data excursion in percent of the average."""
        return 100 * self.data_excursion / self.average

    @property
    def slope_excursion_percent(self) -> float:
        """Measured slope excursion in percent of the average."""
        return 100 * self.slope_excursion / self.average

    def percent_texts(self, *, decimals: int) -> tuple[str, str]:
        """Return the data and slope excursions in percent, with enough decimals to differ from the allowed ones."""
        pairs = (
            (self.data_excursion_percent, 100 * self.allowed_data_excursion / self.average),
            (self.slope_excursion_percent, 100 * self.allowed_slope_excursion / self.average),
        )
        data, slope = (f"{percent:.{distinct_decimals(percent, most, least=decimals)}f}" for percent, most in pairs)
        return data, slope

    def fit(self, round_number: float) -> float:
        """Return the value of the best fit at a round."""
        return self.slope * round_number + self.intercept


def determine(values: Sequence[float], rule: SteadyStateRule, *, first_round: int = 1) -> SteadyState:
    """Evaluate one window of ``values``, oldest first; the first value is that of round ``first_round``.

    Raises ValueError if the number of values is not the number of rounds of the rule's window.
    """
    if len(values) != rule.window_rounds:
        raise ValueError(f"a window has {rule.window_rounds} rounds, not {len(values)}")
    floats = tuple(float(value) for value in values)
    if not all(map(math.isfinite, floats)) or sum(map(Fraction, floats)) <= 0:
        return _not_evaluable(floats, first_round)
    exact = [Fraction(value) for value in floats]
    average = sum(exact, Fraction()) / len(exact)
    slope = _slope(exact)
    allowed_data = average * Fraction(rule.data_excursion_percent) / 100
    allowed_slope = average * Fraction(rule.slope_excursion_percent) / 100
    data_excursion = max(exact) - min(exact)
    slope_excursion = abs(slope) * (len(exact) - 1)
    middle = first_round + Fraction(len(exact) - 1, 2)
    return SteadyState(
        first_round=first_round,
        values=floats,
        average=float(average),
        allowed_data_excursion=float(allowed_data),
        data_excursion=_reported(data_excursion, allowed_data),
        allowed_slope_excursion=float(allowed_slope),
        slope_excursion=_reported(slope_excursion, allowed_slope),
        slope=float(slope),
        intercept=float(average - slope * middle),
        evaluable=True,
        steady=data_excursion <= allowed_data and slope_excursion <= allowed_slope,
    )


def _reported(excursion: Fraction, allowed: Fraction) -> float:
    """Return the nearest float of an excursion; the next one up if only rounding makes it equal to the allowed one."""
    nearest = float(excursion)
    return math.nextafter(nearest, math.inf) if excursion > allowed and nearest == float(allowed) else nearest


def _slope(values: Sequence[Fraction]) -> Fraction:
    """Return the least-squares slope over equally spaced rounds: sum((x - mean x) * y) / sum((x - mean x) ** 2)."""
    middle = Fraction(len(values) - 1, 2)
    offsets = [index - middle for index in range(len(values))]
    numerator = sum((offset * value for offset, value in zip(offsets, values, strict=True)), Fraction())
    return numerator / sum(offset * offset for offset in offsets)


def _not_evaluable(values: tuple[float, ...], first_round: int) -> SteadyState:
    nan = math.nan
    return SteadyState(
        first_round=first_round,
        values=values,
        average=nan,
        allowed_data_excursion=nan,
        data_excursion=nan,
        allowed_slope_excursion=nan,
        slope_excursion=nan,
        slope=nan,
        intercept=nan,
        evaluable=False,
        steady=False,
    )
