"""Compare the steady state rule with scipy, with published windows and with common misreadings of the standard."""

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

#: A window with a data excursion of exactly 20 %, and one with a slope excursion of exactly 10 %.
DATA_EQUAL = (90.0, 100.0, 110.0, 100.0, 100.0)
SLOPE_EQUAL = (105.0, 102.5, 100.0, 97.5, 95.0)

#: Series of real drives (SSSPT, MIT licence): values, the first round that ends a steady window, and that window's
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

NEVER_STEADY = (4815.5, 5545.99, 5867.84, 6329.12, 5156.61, 5455.03, 6395.94, 6548.03, 6608.01, 6177.67, 5651.46)

#: Series on which a band of +-10 % around the average passes later: values, first steady round by rule, by band.
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


def determined(*values: float, first_round: int = 1) -> SteadyState:
    """Return the standard's determination of a window."""
    return determine(values, rule(), first_round=first_round)


def window_at(series: Sequence[float], last: int) -> SteadyState:
    """Return the determination of the window of a series that ends with round ``last``."""
    return determined(*series[last - 5 : last], first_round=last - 4)


def first_steady_round(series: Sequence[float]) -> int | None:
    """Return the first round, counted from 1, that ends a steady window, or None."""
    return next((last for last in range(5, len(series) + 1) if window_at(series, last).steady), None)


# -- the arithmetic -------------------------------------------------------------------------------------------------


@given(positive_values(), st.integers(1, 25))
def test_fit_equals_linear_regression(values: list[float], first_round: int) -> None:
    """Slope and intercept equal those of scipy's linear regression over the round numbers."""
    fit = linregress(range(first_round, first_round + 5), values)
    state = determined(*values, first_round=first_round)

    assert state.slope == pytest.approx(fit.slope, rel=1e-9, abs=1e-9 * max(values))
    assert state.intercept == pytest.approx(fit.intercept, rel=1e-9, abs=1e-7 * max(values))


@given(positive_values())
def test_verdict_equals_a_floating_point_evaluation_away_from_the_limits(values: list[float]) -> None:
    """Both conditions, evaluated with scipy, give the same verdict if no excursion is within 1e-9 of its limit."""
    average = sum(values) / 5
    data_share = (max(values) - min(values)) / average
    slope_share = 4 * abs(linregress(range(5), values).slope) / average
    state = determined(*values)

    if abs(data_share - 0.20) > 1e-9 and abs(slope_share - 0.10) > 1e-9:
        assert state.steady == (data_share < 0.20 and slope_share < 0.10)
    assert state.data_excursion_percent == pytest.approx(100 * data_share, rel=1e-9)
    assert state.slope_excursion_percent == pytest.approx(100 * slope_share, rel=1e-9, abs=1e-9)


@given(positive_values())
def test_allowed_excursions_are_shares_of_the_average(values: list[float]) -> None:
    """The allowed data excursion is 20 % of the average, the allowed slope excursion 10 %."""
    state = determined(*values)

    assert state.allowed_data_excursion == pytest.approx(0.20 * sum(values) / 5)
    assert state.allowed_slope_excursion == pytest.approx(0.10 * sum(values) / 5)


@given(positive_values(), st.integers(1, 25))
def test_fit_passes_through_the_middle(values: list[float], first_round: int) -> None:
    """The best fit has the average at the middle round and changes by the slope excursion over the window."""
    state = determined(*values, first_round=first_round)

    assert state.fit(first_round + 2) == pytest.approx(state.average, rel=1e-9, abs=1e-7 * max(values))
    assert abs(state.fit(first_round + 4) - state.fit(first_round)) == pytest.approx(
        state.slope_excursion, rel=1e-9, abs=1e-7 * max(values)
    )
    assert state.rounds == tuple(range(first_round, first_round + 5))


@given(positive_values(), st.integers(-40, 40))
def test_scale_does_not_matter(values: list[float], exponent: int) -> None:
    """Scaling by a power of two keeps the verdict."""
    scaled = [value * 2.0**exponent for value in values]

    assert determined(*scaled).steady == determined(*values).steady


@given(positive_values())
def test_direction_does_not_matter(values: list[float]) -> None:
    """Reversing the values keeps the verdict and changes the slope's sign."""
    forward, backward = determined(*values), determined(*reversed(values))

    assert backward.steady == forward.steady
    assert backward.slope == -forward.slope


@given(st.floats(min_value=1e-6, max_value=1e12))
def test_constant_values_are_steady(value: float) -> None:
    """Five equal values are steady; both excursions and the slope are 0."""
    state = determined(*[value] * 5)

    assert state.steady
    assert (state.data_excursion, state.slope_excursion, state.slope) == (0, 0, 0)


@pytest.mark.parametrize("count", [0, 1, 4, 6])
def test_window_of_a_wrong_length_is_refused(count: int) -> None:
    """A window that has not five values raises ValueError."""
    with pytest.raises(ValueError, match="a window has 5 rounds"):
        determine([1.0] * count, rule())


def test_limits_come_from_the_rule() -> None:
    """The percentages and the window length of the rule decide the verdict; none is hard-coded."""
    values = (80.0, 100.0, 120.0)
    lenient = replace(rule(), window_rounds=3, data_excursion_percent=40.0, slope_excursion_percent=40.0)

    assert determine(values, lenient).steady
    assert not determine(values, replace(lenient, data_excursion_percent=39.0)).steady
    assert not determine(values, replace(lenient, slope_excursion_percent=39.0)).steady


# -- equality -------------------------------------------------------------------------------------------------------


@given(st.integers(1, 10**12), st.booleans())
def test_excursions_at_the_limit_are_steady(scale: int, reverse: bool) -> None:
    """A data excursion of exactly 20 %, or a slope excursion of exactly 10 %, is steady at any scale."""
    for window in (DATA_EQUAL, SLOPE_EQUAL):
        values = [value * 2 * scale for value in window]

        state = determined(*(reversed(values) if reverse else values))

        assert state.steady
        assert state.evaluable
        assert state.data_excursion <= state.allowed_data_excursion
        assert state.slope_excursion <= state.allowed_slope_excursion
    assert determined(*DATA_EQUAL).data_excursion == 20.0
    assert determined(*SLOPE_EQUAL).slope_excursion == 10.0


def test_data_excursion_just_above_the_limit_is_not_steady() -> None:
    """A maximum of the next float above the limit is not steady."""
    state = determined(90.0, 100.0, math.nextafter(110.0, math.inf), 100.0, 100.0)

    assert not state.steady
    assert state.data_excursion_percent == pytest.approx(20)


def test_slope_excursion_just_above_the_limit_is_not_steady() -> None:
    """A first value of the next float above the limit is not steady."""
    state = determined(math.nextafter(105.0, math.inf), *SLOPE_EQUAL[1:])

    assert not state.steady
    assert state.slope_excursion_percent == pytest.approx(10)


def test_texts_of_excursions_show_which_side_of_the_limit_they_are_on() -> None:
    """20.0096 % and 10.0082 % of the average have a second decimal, because 20.0 % and 10.0 % are allowed."""
    assert determined(90.0, 100.0, 110.01, 100.0, 100.0).percent_texts(decimals=1) == ("20.01", "8.0")
    assert determined(105.0, 102.5, 100.0, 97.5, 94.99).percent_texts(decimals=1) == ("10.0", "10.01")


def test_first_round_is_1_unless_stated() -> None:
    """A window that starts a series has the rounds 1 to 5."""
    assert determine(DATA_EQUAL, rule()).rounds == (1, 2, 3, 4, 5)


def test_excursions_agree_with_the_verdict_at_the_resolution_of_floats() -> None:
    """An average a fifth of a float's resolution below 100 makes both excursions exceed their limits."""
    below = math.nextafter(100.0, 0.0)
    data, slope = determined(90.0, 100.0, 110.0, 100.0, below), determined(*sorted((95.0, 97.5, below, 102.5, 105.0)))

    assert not data.steady
    assert data.data_excursion > data.allowed_data_excursion
    assert not slope.steady
    assert slope.slope_excursion > slope.allowed_slope_excursion


def test_each_condition_alone_can_fail_a_window() -> None:
    """One window fails by its data excursion alone, another by its slope excursion alone."""
    data_fails, slope_fails = window_at(NEVER_STEADY, 7), window_at(NEVER_STEADY, 10)

    assert (data_fails.data_excursion_percent, data_fails.slope_excursion_percent) == pytest.approx(
        (21.218, 1.247), abs=5e-4
    )
    assert (slope_fails.data_excursion_percent, slope_fails.slope_excursion_percent) == pytest.approx(
        (18.486, 10.629), abs=5e-4
    )
    assert not data_fails.steady
    assert not slope_fails.steady


# -- windows without a verdict --------------------------------------------------------------------------------------


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
def test_window_without_a_positive_finite_average_is_not_evaluable(values: tuple[float, ...]) -> None:
    """A window with an average of 0 or less, or with nan or infinity, is neither evaluable nor steady."""
    state = determined(*values)

    assert not state.evaluable
    assert not state.steady
    assert math.isnan(state.average)
    assert math.isnan(state.data_excursion_percent)
    assert math.isnan(state.slope_excursion_percent)
    assert math.isnan(state.fit(3))


# -- windows of real drives -----------------------------------------------------------------------------------------


def test_window_of_the_slides() -> None:
    """The worked example of SNIA's slides is steady, with slope 48.3, intercept 13904.5 and average 14339.2."""
    state = determined(13705, 14639, 14747, 14678, 13927, first_round=7)

    assert state.steady
    assert state.rounds == (7, 8, 9, 10, 11)
    assert (state.slope, state.intercept, state.average) == pytest.approx((48.3, 13904.5, 14339.2))


def test_window_of_a_published_report() -> None:
    """The determination block of a published PTS-E 1.1 report is reproduced to the digit.

    The report shows the five values only in a plot.  They are read from it and adjusted, within the reading error, to
    match the printed average, excursion and fit.
    """
    state = determined(11602, 11796, 11895, 11746, 11595)

    assert state.steady
    assert (state.average, state.allowed_data_excursion, state.data_excursion) == pytest.approx((11726.8, 2345.36, 300))
    assert (state.allowed_slope_excursion, state.slope_excursion) == pytest.approx((1172.68, 25.6))
    assert (state.slope, state.intercept) == pytest.approx((-6.4, 11746))


@pytest.mark.parametrize("name", PUBLISHED)
def test_series_of_real_drives(name: str) -> None:
    """Each series becomes steady at its known round, with the known figures."""
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
    """A series without a steady window has no steady round."""
    assert first_steady_round(NEVER_STEADY) is None


def test_steady_at_the_last_round_only() -> None:
    """Twenty unsteady rounds do not matter if the last five are steady."""
    alternating = [50.0 if number % 2 else 100.0 for number in range(20)]

    assert first_steady_round([*alternating, *[100.0] * 5]) == 25
    assert first_steady_round([*alternating, *[100.0] * 4]) is None


def test_all_known_series() -> None:
    """1016 measured series become steady in the round that an earlier evaluation recorded."""
    path = SHARED / "golden" / "rounds.json"
    if not path.is_file():
        pytest.skip(f"{path} is not there; set SNIA_PTS_SHARED to the folder that holds golden/rounds.json")
    series = json.loads(path.read_text(encoding="utf-8"))

    assert len(series) == 1016
    assert [entry["first_pass_pts"] for entry in series] == [first_steady_round(entry["values"]) for entry in series]


# -- misreadings of the standard ------------------------------------------------------------------------------------


def in_band(values: Sequence[float]) -> bool:
    """Misread the data condition: each value within +-10 % of the average; the slope as in the standard."""
    average = sum(values) / 5
    return determined(*values).steady and all(abs(value - average) <= 0.10 * average for value in values)


def fit_in_band(values: Sequence[float]) -> bool:
    """Misread both: values and ends of the fit within +-10 % of the average, which allows a slope of 20 %."""
    average, state = sum(values) / 5, determined(*values)
    ends = (state.fit(1), state.fit(5))
    return all(abs(value - average) <= 0.10 * average for value in (*values, *ends))


def first_to_last(values: Sequence[float]) -> bool:
    """Misread the slope: from the first to the last value instead of the least-squares fit."""
    average = sum(values) / 5
    return max(values) - min(values) <= 0.20 * average and abs(values[-1] - values[0]) <= 0.10 * average


def strict(values: Sequence[float]) -> bool:
    """Misread the limits: less than instead of no more than."""
    average = sum(values) / 5
    slope_excursion = 4 * abs(linregress(range(5), values).slope)
    return bool(max(values) - min(values) < 0.20 * average and slope_excursion < 0.10 * average)


@pytest.mark.parametrize(
    ("misreading", "values", "steady"),
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
def test_verdict_differs_from_misreadings(
    misreading: Callable[[Sequence[float]], bool], values: tuple[float, ...], steady: bool
) -> None:
    """Where a misreading and the standard differ, the verdict is the standard's."""
    assert determined(*values).steady is steady
    assert misreading(values) is not steady


@pytest.mark.parametrize("name", BAND)
def test_band_of_10_percent_passes_later(name: str) -> None:
    """On these series a band of +-10 % passes later than the rule, at the known rounds."""
    values, by_rule, by_band = BAND[name]
    first_in_band = next(last for last in range(5, len(values) + 1) if in_band(values[last - 5 : last]))

    assert first_steady_round(values) == by_rule
    assert first_in_band == by_band
