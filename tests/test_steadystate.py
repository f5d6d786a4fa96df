"""The steady state rule against a second implementation, against published windows, and against known wrong rules."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import linregress

from snia_pts.analysis.steady_state import SteadyState, determine
from tests.strategies import positive_values, rule

ROOT = Path(__file__).parent.parent
SHARED = Path(os.environ.get("SNIA_PTS_SHARED") or ROOT.parent / "shared")

#: A window that just has the data excursion of 20 %, and one that just has the slope excursion of 10 %.
DATA_EQUAL = (90.0, 100.0, 110.0, 100.0, 100.0)
SLOPE_EQUAL = (105.0, 102.5, 100.0, 97.5, 95.0)

#: Series of real drives (SSSPT, MIT licence): values, first round that ends a steady window, and of that window the
#: average, data excursion, its percentage, slope excursion, its percentage, slope and intercept.
PUBLISHED = {
    "TP 128 KiB W": (
        (262.69, 269.38, 271.73, 272.63, 273.07),
        5,
        (269.90, 10.38, 3.846, 9.604, 3.558, 2.401, 262.697),
    ),
    "TP 1024 KiB W": (
        (276.2, 275.61, 275.12, 274.98, 276.12),
        5,
        (275.606, 1.22, 0.443, 0.316, 0.115, -0.079, 275.843),
    ),
    "TP 128 KiB W, other host": (
        (287.6, 287.36, 285.91, 272.66, 278.9),
        5,
        (282.486, 14.94, 5.289, 12.84, 4.545, -3.21, 292.116),
    ),
    "LAT 4 KiB W": (
        (121.2, 118.91, 115.86, 83.4, 121.04, 118.94, 119.32, 115.9, 114.89),
        9,
        (118.018, 6.15, 5.211, 6.136, 5.199, -1.534, 128.756),
    ),
    "IOPS 1024 KiB 5/95": (
        (
            50.14,
            86.69,
            119.22,
            143.57,
            164.36,
            192,
            132.83,
            213.62,
            232.58,
            96.66,
            243.62,
            246.11,
            169.94,
            226.6,
            246.31,
            197.49,
            233.91,
            254.98,
            241.8,
            250.3,
            257.11,
        ),
        21,
        (247.62, 23.2, 9.369, 16.688, 6.739, 4.172, 168.352),
    ),
    "IOPS 1024 KiB 35/65": (
        (
            92.66,
            145.27,
            177.79,
            188.89,
            224.39,
            240.85,
            171.06,
            257.38,
            272.9,
            277.91,
            249.52,
            196.54,
            259.26,
            279.95,
            283.64,
            283.87,
            274.84,
        ),
        17,
        (276.312, 24.61, 8.907, 14.032, 5.078, 3.508, 223.692),
    ),
    "IOPS 0.5 KiB 35/65": (
        (25023.58, 31134.73, 33067.31, 33349.19, 33310.24, 25060.35, 33368.63, 33333.16, 33376.16, 33355.89, 33374.98),
        11,
        (33361.764, 43, 0.129, 14.172, 0.042, 3.543, 33329.877),
    ),
    "IOPS 16 KiB 5/95": (
        (
            6832.17,
            9024.8,
            10402.53,
            9422.25,
            8804.12,
            11726.75,
            11741.74,
            7855.25,
            10543.07,
            12918.1,
            12882.39,
            9080.88,
            11385.31,
            9305.15,
            11703.46,
            12890.12,
            10625.94,
            11362.87,
            12289.73,
        ),
        19,
        (11774.424, 2264.18, 19.230, 141.884, 1.205, -35.471, 12377.431),
    ),
}

NEVER = (4815.5, 5545.99, 5867.84, 6329.12, 5156.61, 5455.03, 6395.94, 6548.03, 6608.01, 6177.67, 5651.46)

#: Series on which a band of +-10 % around the average judges otherwise: values, first pass of the rule, of the band.
BAND = {
    "IOPS 4 KiB 65/35": (
        (19762.38, 25933.74, 31116.09, 27471.01, 31216.44, 33276.82, 30698.16, 32788.47, 33318.2),
        7,
        9,
    ),
    "IOPS 0.5 KiB 95/5": (
        (39634.95, 39229.56, 39653.54, 34494.13, 39516.87, 39848.26, 40188.13, 39783.14, 39844.34),
        5,
        9,
    ),
}


def judged(*values: float, first_round: int = 1) -> SteadyState:
    """Return the standard's determination of a window."""
    return determine(values, rule(), first_round=first_round)


def window_at(series: Sequence[float], last: int) -> SteadyState:
    """Return the determination of the window of a series that ends with round ``last``."""
    return judged(*series[last - 5 : last], first_round=last - 4)


def first_steady_round(series: Sequence[float]) -> int | None:
    """Return the first round, counted from 1, that ends a steady window; None when none does."""
    return next((last for last in range(5, len(series) + 1) if window_at(series, last).steady), None)


# -- the arithmetic -------------------------------------------------------------------------------------------------


@given(positive_values(), st.integers(1, 25))
def test_fit_is_least_squares(values: list[float], first_round: int) -> None:
    """Slope and intercept are those of scipy's linear regression over the true round numbers."""
    fit = linregress(range(first_round, first_round + 5), values)
    state = judged(*values, first_round=first_round)

    assert state.slope == pytest.approx(fit.slope, rel=1e-9, abs=1e-9 * max(values))
    assert state.intercept == pytest.approx(fit.intercept, rel=1e-9, abs=1e-7 * max(values))


@given(positive_values())
def test_verdict_is_that_of_floating_point_away_from_the_limits(values: list[float]) -> None:
    """The two conditions, evaluated with scipy's regression, give the same verdict unless a limit is all but met."""
    average = sum(values) / 5
    data_share = (max(values) - min(values)) / average
    slope_share = 4 * abs(linregress(range(5), values).slope) / average
    state = judged(*values)

    if abs(data_share - 0.20) > 1e-9 and abs(slope_share - 0.10) > 1e-9:
        assert state.steady == (data_share < 0.20 and slope_share < 0.10)
    assert state.data_excursion_percent == pytest.approx(100 * data_share, rel=1e-9)
    assert state.slope_excursion_percent == pytest.approx(100 * slope_share, rel=1e-9, abs=1e-9)


@given(positive_values())
def test_allowed_excursions_are_shares_of_the_average(values: list[float]) -> None:
    """20 % and 10 % of the average are allowed."""
    state = judged(*values)

    assert state.allowed_data_excursion == pytest.approx(0.20 * sum(values) / 5)
    assert state.allowed_slope_excursion == pytest.approx(0.10 * sum(values) / 5)


@given(positive_values(), st.integers(1, 25))
def test_fit_passes_through_the_middle(values: list[float], first_round: int) -> None:
    """The best fit has the average at the middle round, and rises by the slope excursion within the window."""
    state = judged(*values, first_round=first_round)

    assert state.fit(first_round + 2) == pytest.approx(state.average, rel=1e-9, abs=1e-7 * max(values))
    assert abs(state.fit(first_round + 4) - state.fit(first_round)) == pytest.approx(
        state.slope_excursion, rel=1e-9, abs=1e-7 * max(values)
    )
    assert state.rounds == tuple(range(first_round, first_round + 5))


@given(positive_values(), st.integers(-40, 40))
def test_scale_does_not_matter(values: list[float], exponent: int) -> None:
    """Scaling by a power of two keeps the verdict."""
    scaled = [value * 2.0**exponent for value in values]

    assert judged(*scaled).steady == judged(*values).steady


@given(positive_values())
def test_direction_does_not_matter(values: list[float]) -> None:
    """Reversing time keeps the verdict and turns the slope's sign."""
    forth, back = judged(*values), judged(*reversed(values))

    assert back.steady == forth.steady
    assert back.slope == -forth.slope


@given(st.floats(min_value=1e-6, max_value=1e12))
def test_constant_values_are_steady(value: float) -> None:
    """Five equal values are steady, with no excursion at all."""
    state = judged(*[value] * 5)

    assert state.steady
    assert (state.data_excursion, state.slope_excursion, state.slope) == (0, 0, 0)


@pytest.mark.parametrize("count", [0, 1, 4, 6])
def test_window_has_as_many_values_as_the_rule_says(count: int) -> None:
    """A window of another length is refused."""
    with pytest.raises(ValueError, match="a window has 5 rounds"):
        determine([1.0] * count, rule())


def test_limits_come_from_the_rule() -> None:
    """Other percentages and another window judge otherwise: no number of the standard is in the code."""
    values = (80.0, 100.0, 120.0)
    wide = replace(rule(), window_rounds=3, data_excursion_percent=40.0, slope_excursion_percent=40.0)

    assert determine(values, wide).steady
    assert not determine(values, replace(wide, data_excursion_percent=39.0)).steady
    assert not determine(values, replace(wide, slope_excursion_percent=39.0)).steady


# -- equality -------------------------------------------------------------------------------------------------------


@given(st.integers(1, 10**12), st.booleans())
def test_equality_passes(scale: int, reverse: bool) -> None:
    """An excursion of exactly 20 %, or a slope of exactly 10 %, passes at any scale."""
    for window in (DATA_EQUAL, SLOPE_EQUAL):
        values = [value * 2 * scale for value in window]

        assert judged(*(reversed(values) if reverse else values)).steady


def test_data_excursion_a_hair_above_fails() -> None:
    """The next float above 20 % fails."""
    state = judged(90.0, 100.0, math.nextafter(110.0, math.inf), 100.0, 100.0)

    assert not state.steady
    assert state.data_excursion_percent == pytest.approx(20)


def test_slope_excursion_a_hair_above_fails() -> None:
    """The next float above 10 % fails."""
    state = judged(math.nextafter(105.0, math.inf), *SLOPE_EQUAL[1:])

    assert not state.steady
    assert state.slope_excursion_percent == pytest.approx(10)


def test_figures_agree_with_a_decision_that_floats_cannot_show() -> None:
    """The average is less than 100 by a fifth of a float's resolution, and so the excursions exceed their limits."""
    below = math.nextafter(100.0, 0.0)
    data, slope = judged(90.0, 100.0, 110.0, 100.0, below), judged(*sorted((95.0, 97.5, below, 102.5, 105.0)))

    assert not data.steady
    assert data.data_excursion > data.allowed_data_excursion
    assert not slope.steady
    assert slope.slope_excursion > slope.allowed_slope_excursion


def test_each_condition_decides_alone() -> None:
    """A window may fail by its data alone, and by its slope alone."""
    data_fails, slope_fails = window_at(NEVER, 7), window_at(NEVER, 10)

    assert (data_fails.data_excursion_percent, data_fails.slope_excursion_percent) == pytest.approx(
        (21.218, 1.247), abs=5e-4
    )
    assert (slope_fails.data_excursion_percent, slope_fails.slope_excursion_percent) == pytest.approx(
        (18.486, 10.629), abs=5e-4
    )
    assert not data_fails.steady
    assert not slope_fails.steady


# -- what cannot be judged ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        (0.0,) * 5,
        (-1.0,) * 5,
        (-2.0, 1.0, 0.0, 0.0, 1.0),
        (1.0, 1.0, math.nan, 1.0, 1.0),
        (1.0, 1.0, math.inf, 1.0, 1.0),
        (-math.inf, 1.0, 1.0, 1.0, math.inf),
    ],
)
def test_no_positive_average_cannot_be_judged(values: tuple[float, ...]) -> None:
    """An average of 0 or less, and values that are not finite, are neither steady nor evaluable."""
    state = judged(*values)

    assert not state.evaluable
    assert not state.steady
    assert math.isnan(state.average)
    assert math.isnan(state.data_excursion_percent)
    assert math.isnan(state.slope_excursion_percent)
    assert math.isnan(state.fit(3))


# -- windows of real drives -----------------------------------------------------------------------------------------


def test_window_of_the_slides() -> None:
    """The worked window of SNIA's teaching slides: slope 48.3, intercept 13904.5, average 14339.2, steady."""
    state = judged(13705, 14639, 14747, 14678, 13927, first_round=7)

    assert state.steady
    assert state.rounds == (7, 8, 9, 10, 11)
    assert (state.slope, state.intercept, state.average) == pytest.approx((48.3, 13904.5, 14339.2))


def test_window_of_a_published_report() -> None:
    """A published PTS-E 1.1 report's determination block comes out to the digit.

    The report prints the block, and its five values only as a plot: these are read off it and moved, within the
    error of reading, to the values that the printed average, excursion and fit ask for.
    """
    state = judged(11602, 11796, 11895, 11746, 11595)

    assert state.steady
    assert (state.average, state.allowed_data_excursion, state.data_excursion) == pytest.approx((11726.8, 2345.36, 300))
    assert (state.allowed_slope_excursion, state.slope_excursion) == pytest.approx((1172.68, 25.6))
    assert (state.slope, state.intercept) == pytest.approx((-6.4, 11746))


@pytest.mark.parametrize("name", PUBLISHED)
def test_series_of_real_drives(name: str) -> None:
    """A measured series becomes steady at the known round, with the known figures."""
    values, first, figures = PUBLISHED[name]
    state = window_at(values, first)

    assert first_steady_round(values) == first
    assert (
        state.average,
        state.data_excursion,
        state.data_excursion_percent,
        state.slope_excursion,
        state.slope_excursion_percent,
        state.slope,
        state.intercept,
    ) == pytest.approx(figures, abs=6e-4)


def test_series_that_never_becomes_steady() -> None:
    """A series whose windows all fail has no steady round."""
    assert first_steady_round(NEVER) is None


def test_steady_at_the_last_round_only() -> None:
    """Twenty wild rounds do not spoil the 25th: only the window counts."""
    alternating = [50.0 if number % 2 else 100.0 for number in range(20)]

    assert first_steady_round([*alternating, *[100.0] * 5]) == 25
    assert first_steady_round([*alternating, *[100.0] * 4]) is None


def test_all_known_series() -> None:
    """1016 measured series become steady in the round that an earlier evaluation found."""
    path = SHARED / "golden" / "rounds.json"
    if not path.is_file():
        pytest.skip(f"{path} is not there; set SNIA_PTS_SHARED to the folder that holds golden/rounds.json")
    series = json.loads(path.read_text(encoding="utf-8"))

    assert len(series) == 1016
    assert [one_series["first_pass_pts"] for one_series in series] == [
        first_steady_round(item["values"]) for item in series
    ]


# -- rules that are not the standard's ------------------------------------------------------------------------------


def in_band(values: Sequence[float]) -> bool:
    """Each value within +-10 % of the average, and the slope as the standard says: a common misreading."""
    average = sum(values) / 5
    return judged(*values).steady and all(abs(value - average) <= 0.10 * average for value in values)


def fit_in_band(values: Sequence[float]) -> bool:
    """Values and both ends of the fitted line within +-10 % of the average: lets the slope rise by 20 %."""
    average, state = sum(values) / 5, judged(*values)
    ends = (state.fit(1), state.fit(5))
    return all(abs(value - average) <= 0.10 * average for value in (*values, *ends))


def first_to_last(values: Sequence[float]) -> bool:
    """The slope as the line from the first to the last value: wrong, the fit is by least squares."""
    average = sum(values) / 5
    return max(values) - min(values) <= 0.20 * average and abs(values[-1] - values[0]) <= 0.10 * average


def strict(values: Sequence[float]) -> bool:
    """Less than instead of no more than."""
    average = sum(values) / 5
    slope_excursion = 4 * abs(linregress(range(5), values).slope)
    return bool(max(values) - min(values) < 0.20 * average and slope_excursion < 0.10 * average)


@pytest.mark.parametrize(
    ("wrong", "values", "steady"),
    [
        (in_band, BAND["IOPS 4 KiB 65/35"][0][2:7], True),
        (in_band, BAND["IOPS 0.5 KiB 95/5"][0][0:5], True),
        (fit_in_band, (91.0, 96.0, 100.0, 104.0, 109.0), False),
        (first_to_last, (96.0, 91.0, 100.0, 109.0, 105.0), False),
        (first_to_last, (94.0, 100.0, 105.0, 96.0, 106.0), True),
        (strict, DATA_EQUAL, True),
        (strict, SLOPE_EQUAL, True),
    ],
)
def test_wrong_rules_judge_otherwise(
    wrong: Callable[[Sequence[float]], bool], values: tuple[float, ...], steady: bool
) -> None:
    """Where a known wrong reading and the standard part, the verdict is the standard's."""
    assert judged(*values).steady is steady
    assert wrong(values) is not steady


@pytest.mark.parametrize("name", BAND)
def test_band_would_pass_later(name: str) -> None:
    """On these drives a band of +-10 % would call steady only rounds after the rule does."""
    values, by_rule, by_band = BAND[name]
    first_in_band = next(last for last in range(5, len(values) + 1) if in_band(values[last - 5 : last]))

    assert first_steady_round(values) == by_rule
    assert first_in_band == by_band
