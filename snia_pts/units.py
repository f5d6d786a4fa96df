"""Parse and format sizes, times and counts.

Transfer sizes and offsets are binary (KiB = 1024 bytes), capacity and throughput decimal (MB = 10^6 bytes), as PTS
2.0.2 section 2.4.1 requires.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Annotated

from annotated_types import Ge, Le

from .errors import UsageError

#: Upper bound for every quantity, requested or measured: bytes, I/Os, nanoseconds and others.
MAX_QUANTITY = 10**18
Amount = Annotated[int, Ge(0), Le(MAX_QUANTITY)]
Quantity = Annotated[float, Ge(0), Le(MAX_QUANTITY)]
#: The difference of two quantities.
Difference = Annotated[float, Ge(-MAX_QUANTITY), Le(MAX_QUANTITY)]

#: Thousands separator.
NARROW_NBSP = "\N{NARROW NO-BREAK SPACE}"
#: Times of samples are in seconds if the last one is at most this, else in minutes.
SHORT_SECONDS = 300.0
KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
MB = 10**6
GB = 10**9

_DIGITS = re.compile(r"[0-9]{1,19}")
_SIZE = re.compile(r"(?P<number>\d{1,20}(\.\d{1,20})?)\s*(?P<unit>[a-z]*)", re.IGNORECASE | re.ASCII)
_SIZE_UNITS = {
    "": 1,
    "b": 1,
    "k": KIB,
    "kib": KIB,
    "m": MIB,
    "mib": MIB,
    "g": GIB,
    "gib": GIB,
    "t": 1024 * GIB,
    "tib": 1024 * GIB,
    "kb": 10**3,
    "mb": MB,
    "gb": GB,
    "tb": 10**12,
}


@lru_cache(maxsize=1024)
def parse_size(text: str) -> int:
    """Return the bytes that ``text`` names: ``4K`` and ``4KiB`` are 4096, ``4kB`` is 4000.

    Raises UsageError unless it is a whole, positive number of bytes.
    """
    match = _SIZE.fullmatch(text.strip())
    factor = _SIZE_UNITS.get(match["unit"].lower()) if match else None
    size = Fraction(match["number"]) * factor if match and factor else Fraction()
    if size < 1 or size.denominator != 1:
        raise UsageError(
            detail=f"{text!r} is not a size.", hint="Write a number with K, M, G or T (binary) or kB, MB, GB, TB."
        )
    return int(size)


def whole_number(text: str) -> int | None:
    """Return a number below 2^63 from its decimal digits; None for any other text."""
    number = int(text) if _DIGITS.fullmatch(text) else None
    return number if number is not None and number < 1 << 63 else None


def block_size(size_bytes: int) -> str:
    """Return a transfer size in KiB as in the standard: ``0.5 KiB``, ``1024 KiB``."""
    return f"{size_bytes / KIB:g} KiB"


def in_decimal_unit(size_bytes: float) -> tuple[float, str]:
    """Return an amount of data in the largest decimal unit of which it has at least one, if rounded to four digits."""
    for factor, unit in ((10**15, "PB"), (10**12, "TB"), (GB, "GB"), (MB, "MB"), (10**3, "kB")):
        if size_bytes >= 0.99995 * factor:
            return size_bytes / factor, unit
    return float(size_bytes), "B"


def capacity(size_bytes: float) -> str:
    """Return an amount of data with four digits in decimal units: ``960.2 GB``, ``16.50 TB``.

    A whole number of units has no decimals: ``1 TB``.  Nan and infinity are ``n/a``.
    """
    if not math.isfinite(size_bytes):
        return "n/a"
    value, unit = in_decimal_unit(size_bytes)
    if unit == "B" or value.is_integer():
        return f"{value:g} {unit}"
    return f"{value:#.4g} {unit}".replace(". ", " ")


def exact_capacity(size_bytes: int) -> str:
    """Return an amount of data with all its bytes: ``16.78 MB (16 777 216 bytes)``."""
    exact = f"{size_bytes:,} bytes".replace(",", NARROW_NBSP)
    return exact if size_bytes < 10**3 else f"{capacity(size_bytes)} ({exact})"


def duration(seconds: float) -> str:
    """Return a time in its two largest units, rounded to the smaller one: ``4 h 40 min``, ``1 min 05 s``, ``0.5 s``.

    Up to 100 hours are hours and minutes: the standard says 24 h.
    """
    if seconds < 59.95:  # a longer time would be printed as 60 s
        return f"{seconds:.3g} s"
    if (whole_seconds := round(seconds)) < 3600:
        return "{} min {:02} s".format(*divmod(whole_seconds, 60))
    if (whole_minutes := round(seconds / 60)) < 100 * 60:
        return "{} h {:02} min".format(*divmod(whole_minutes, 60))
    return "{} d {:02} h".format(*divmod(round(seconds / 3600), 24))


def number(value: float, *, digits: int = 4) -> str:
    """Return a value with thousands separated and about four significant digits: ``12 345``, ``812.8``, ``0.1497``."""
    return f"{value:,.{decimals(value, digits=digits)}f}".replace(",", NARROW_NBSP) if math.isfinite(value) else "n/a"


def decimals(value: float, *, digits: int = 4) -> int:
    """Return the decimals with which ``number`` prints a finite value."""
    return min(digits + 2, max(0, digits - 1 - math.floor(math.log10(abs(value))))) if value else 0


def percent_decimals(percent: float) -> int:
    """Return the decimals of a value in percent: one, and none from 1000 % on, which is four digits."""
    return 1 if abs(percent) < 999.95 else 0


def signed(percent: float, decimals: int | None = None) -> str:
    """Return a difference in percent with its sign and thousands separated: ``-91.9``, ``+5 248``."""
    places = percent_decimals(percent) if decimals is None else decimals
    return f"{percent:+z,.{places}f}".replace(",", NARROW_NBSP)


def rounded_down(value: float, decimals: int) -> str:
    """Return a value rounded down to ``decimals`` places: ``1.99`` for 1.999; ``n/a`` for nan and infinity."""
    if not math.isfinite(value):
        return "n/a"
    # repr gives the decimal that a person would write: 0.7, not 0.69999999999999996, which would be rounded to 0.6.
    return str(Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-decimals), ROUND_FLOOR))


def distinct_digits(values: Iterable[float], *, least: int = 4) -> int:
    """Return the fewest ``digits``, at least ``least``, with which ``number`` prints different values differently."""
    distinct = {value for value in values if math.isfinite(value)}
    for digits in range(least, 17):
        printed = {float(number(value, digits=digits).replace(NARROW_NBSP, "")) for value in distinct}
        if len(printed) == len(distinct):  # as numbers: 1.000 and 1.0000 are equal
            return digits
    return 17


def distinct_decimals(value: float, limit: float, *, least: int) -> int:
    """Return the fewest decimals, at least ``least``, that show a value and its limit as different if they are."""
    shown = (places for places in range(least, 17) if value == limit or f"{value:.{places}f}" != f"{limit:.{places}f}")
    return next(shown, 17)


def distinct_duration(seconds: float, limit_seconds: float) -> str:
    """Return a time like ``duration``, with more digits if it would look like a different ``limit_seconds``."""
    if seconds == limit_seconds or duration(seconds) != duration(limit_seconds):
        return duration(seconds)
    return f"{number(seconds, digits=distinct_digits((seconds, limit_seconds)))} s"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 round``, ``5 rounds``."""
    return f"{count} {noun}{'s' * (count != 1)}"
