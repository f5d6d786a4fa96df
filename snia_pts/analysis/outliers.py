"""A robust rule for values that differ from others of their kind: median and median absolute deviation.

A single extreme value changes neither of the two much, unlike mean and standard deviation (P. J. Rousseeuw, C. Croux,
Journal of the American Statistical Association 88, 1993).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

#: With fewer values there is no judgement.
MIN_VALUES = 5
#: The tolerance is a percentage of the median, or a multiple of the median absolute deviation, if that is more.
TOLERANCE_PERCENT, TOLERANCE_MADS = 5.0, 4.0


def robust_tolerance(values: Sequence[float]) -> tuple[float, float]:
    """Return the median of ``values``, and how far a value may be from it on either side."""
    median = statistics.median(values)
    deviation = statistics.median(abs(value - median) for value in values)
    return median, max(abs(median) * TOLERANCE_PERCENT / 100, TOLERANCE_MADS * deviation)


def outliers(values: Sequence[float]) -> tuple[int, ...] | None:
    """Return the indexes of the values beyond the tolerance; None for fewer than ``MIN_VALUES``."""
    if len(values) < MIN_VALUES:
        return None
    median, tolerance = robust_tolerance(values)
    return tuple(index for index, value in enumerate(values) if abs(value - median) > tolerance)
