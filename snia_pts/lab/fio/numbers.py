"""Read the numbers of fio's answers strictly: Python's int() and float() also take texts such as "1_000" and "nan"."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

_DIGITS = re.compile("0|[1-9][0-9]{0,29}")


def integer(value: object) -> int:
    """Return a whole number; raises TypeError for any other value, also for a text."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"expected a whole number, got {value!r}")
    return value


def number(value: object) -> float:
    """Return a finite number; raises TypeError for any other value, also for a text."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise TypeError(f"expected a number, got {value!r}")
    return float(value)


def key_number(key: str) -> int:
    """Return the whole number that is a key of a JSON object; raises ValueError for any other text."""
    if not _DIGITS.fullmatch(key):
        raise ValueError(f"expected a whole number, got {key!r}")
    return int(key)


def bin_counts(bins: Mapping[str, object]) -> dict[int, int]:
    """Return how many times are in each bin, by the bin's midpoint in nanoseconds."""
    return {key_number(midpoint): integer(count) for midpoint, count in bins.items()}
