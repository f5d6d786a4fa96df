"""Parsing and formatting of sizes, times and numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.errors import UsageError
from snia_pts.units import (
    NARROW_NBSP,
    block_size,
    capacity,
    distinct_decimals,
    distinct_duration,
    duration,
    exact_capacity,
    number,
    parse_size,
    rounded_down,
    whole_number,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512", 512),
        ("512B", 512),
        ("4k", 4096),
        ("4K", 4096),
        ("4 KiB", 4096),
        ("4kB", 4000),
        ("0.5K", 512),
        ("1M", 2**20),
        ("1MB", 10**6),
        ("1.5G", 3 * 2**29),
        ("1GB", 10**9),
        ("2T", 2**41),
        ("2TiB", 2**41),
        ("2TB", 2 * 10**12),
        (" 1G ", 2**30),
        ("1.005kB", 1005),
    ],
)
def test_size_is_parsed(text: str, size: int) -> None:
    """K, M, G and T are binary, kB, MB, GB and TB decimal; case and spaces do not matter."""
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        "K",
        "0",
        "0.0G",
        "-1K",
        "1.0001",
        "0.3K",
        "1X",
        "1KK",
        "1 2",
        "1e3",
        "inf",
        "nan",
        "4\N{FULLWIDTH DIGIT FOUR}K",
        "1" * 5000,
        "{}",
    ],
)
def test_invalid_sizes_are_refused(text: str) -> None:
    """A text that is not a positive whole number of bytes is refused; the error has the text and a remedy."""
    with pytest.raises(UsageError) as caught:
        parse_size(text)

    assert repr(text) in str(caught.value)
    assert "Write a number" in caught.value.hint


@given(st.integers(1, 10**19))
def test_sizes_in_bytes_and_kib_are_exact(size: int) -> None:
    """Sizes up to 10^19 are parsed to the byte."""
    assert parse_size(str(size)) == size
    assert parse_size(f"{size}K") == size * 1024


@given(st.text())
def test_any_text_is_a_size_or_a_usage_error(text: str) -> None:
    """No text raises another exception, and every parsed size is at least 1."""
    try:
        size = parse_size(text)
    except UsageError:
        return
    assert size >= 1


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("4711", 4711),
        ("007", 7),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**63), None),
        ("9" * 5000, None),
        ("\N{SUPERSCRIPT TWO}", None),
        ("\N{ARABIC-INDIC DIGIT ONE}", None),
        ("1_0", None),
        ("+1", None),
        ("-1", None),
        (" 1", None),
        ("1\n", None),
        ("", None),
        ("1.0", None),
    ],
)
def test_whole_number_accepts_ascii_digits_only(text: str, number: int | None) -> None:
    """Only ASCII digits below 2^63 are a number; other Unicode digits, signs, spaces and underscores give None."""
    assert whole_number(text) == number


@pytest.mark.parametrize(
    ("size", "text"), [(512, "0.5 KiB"), (4096, "4 KiB"), (1536, "1.5 KiB"), (131072, "128 KiB"), (2**20, "1024 KiB")]
)
def test_block_size_is_in_kib(size: int, text: str) -> None:
    """Block sizes are formatted in KiB, as in the standard, and can be parsed again."""
    assert block_size(size) == text
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (960_197_124_096, "960.2 GB"),
        (1e12, "1 TB"),
        (1_000_204_886_016, "1.000 TB"),
        (16.4988e12, "16.50 TB"),
        (999_940_000, "999.9 MB"),
        (999_960_000, "1.000 GB"),
        (9_999_960_000, "10.00 GB"),
        (2.5e15, "2.500 PB"),
        (1.5e18, "1500 PB"),
        (1.2345e18, "1234 PB"),
    ],
)
def test_capacity_is_decimal(size: float, text: str) -> None:
    """Amounts of data are formatted in decimal units, with four digits unless they are whole."""
    assert capacity(size) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (512, "512 bytes"), (4096, "4.096 kB (4 096 bytes)"), (16 << 20, "16.78 MB (16 777 216 bytes)")],
)
def test_exact_capacity_includes_all_bytes(size: int, text: str) -> None:
    """The text has the rounded amount and, from 1000 bytes on, the exact number of bytes."""
    assert exact_capacity(size) == text.replace(" 096", NARROW_NBSP + "096").replace(
        " 777 216", f"{NARROW_NBSP}777{NARROW_NBSP}216"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.5, "0.5 s"),
        (59, "59 s"),
        (60, "1 min 00 s"),
        (65.4, "1 min 05 s"),
        (3599.7, "1 h 00 min"),
        (16800, "4 h 40 min"),
        (93.83 * 60, "1 h 34 min"),
        (86399, "24 h 00 min"),
        (86400, "24 h 00 min"),
        (91860, "25 h 31 min"),
        (95.71 * 3600, "95 h 43 min"),
        (359969, "99 h 59 min"),
        (359971, "4 d 04 h"),
    ],
)
def test_duration_has_two_units(seconds: float, text: str) -> None:
    """Times of a minute or more have their two largest units, and are rounded before they are split."""
    assert duration(seconds) == text


@given(st.floats(0, 10**9))
def test_duration_has_a_rounding_error_of_at_most_half_its_last_digit(seconds: float) -> None:
    """A formatted time differs from the value by at most half of its smaller unit (or of its third digit)."""
    units = {"d": 86400, "h": 3600, "min": 60, "s": 1}
    words = duration(seconds).split()
    formatted = sum(float(number) * units[unit] for number, unit in zip(words[::2], words[1::2], strict=True))
    last = units[words[-1]] if len(words) > 2 else 10.0 ** (math.floor(math.log10(seconds)) - 2) if seconds else 1
    assert abs(formatted - seconds) <= last / 2 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (12345.4, "12\N{NARROW NO-BREAK SPACE}345"),
        (812.8, "812.8"),
        (0.1497, "0.1497"),
        (-6.4, "-6.400"),
        (1000, "1\N{NARROW NO-BREAK SPACE}000"),
        (1e-9, "0.000000"),
        (math.nan, "n/a"),
        (math.inf, "n/a"),
    ],
)
def test_number_has_about_four_digits(value: float, text: str) -> None:
    """Numbers have about four significant digits and separated thousands; nan and infinity are n/a."""
    assert number(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_number_is_close_to_its_value(value: float) -> None:
    """The formatted number differs from the value by at most a thousandth of it, or a millionth."""
    formatted = float(number(value).replace("\N{NARROW NO-BREAK SPACE}", ""))

    assert formatted == pytest.approx(value, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (0.7, 4, "0.7000"),
        (1.99999, 4, "1.9999"),
        (0.998, 2, "0.99"),
        (1.0, 2, "1.00"),
        (0, 2, "0.00"),
        (1e-9, 4, "0.0000"),
        (12345.678, 2, "12345.67"),
        (math.nan, 2, "n/a"),
    ],
)
def test_rounded_down(value: float, decimals: int, text: str) -> None:
    """A number is cut after its decimals, never rounded up; nan is n/a."""
    assert rounded_down(value, decimals) == text


@given(st.floats(0, 1e12), st.integers(0, 6))
def test_rounded_down_is_at_most_the_value_and_less_than_one_unit_below(value: float, decimals: int) -> None:
    """The formatted number is at most the value, and less than one unit of its last place below."""
    formatted = Fraction(rounded_down(value, decimals))
    assert formatted <= Fraction(repr(value))
    assert Fraction(repr(value)) - formatted < Fraction(1, 10**decimals)


@pytest.mark.parametrize(
    ("seconds", "limit", "text"),
    [
        (299.8, 300.0, "299.8 s"),
        (299.99, 300.0, "299.99 s"),
        (300.0, 300.0, "5 min 00 s"),
        (200.0, 300.0, "3 min 20 s"),
        (2.0001, 2.0, "2.0001 s"),
    ],
)
def test_a_time_reads_like_its_limit_only_if_both_are_equal(seconds: float, limit: float, text: str) -> None:
    """A time just below its limit gets enough decimals to read differently from it."""
    assert distinct_duration(seconds, limit) == text


@given(st.floats(0, 1e6), st.floats(-1e-3, 1e-3))
def test_a_value_has_enough_decimals_to_differ_from_its_limit(limit: float, share: float) -> None:
    """The fewest decimals, from 2 to 17, with which value and limit read differently; 2 if both are equal."""
    value = limit * (1 + share)
    decimals = distinct_decimals(value, limit, least=2)
    different = f"{value:.{decimals}f}" != f"{limit:.{decimals}f}"
    fewer = decimals == 2 or f"{value:.{decimals - 1}f}" == f"{limit:.{decimals - 1}f}"
    assert fewer
    assert different == (value != limit) or decimals == 17
