"""The spread of the samples at the end of a continuous stimulus, and whether they have a trend.

The standard requires only the plot; the rule is ``consistency`` of ``specs/suite-definitions.toml``.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, pairwise

import numpy as np

from ..spec.reader import definitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A trend of values: they rise, or fall (negative), by ``line_percent`` of their mean from first to last.

    This is the rise of the fitted line.  ``p_percent`` is the p-value of the Mann-Kendall test in percent.
    """

    line_percent: float
    p_percent: float

    @property
    def is_steep(self) -> bool:
        """Whether the line alone makes a trend."""
        return abs(self.line_percent) > definitions().consistency.trend_percent


def trend(values: Sequence[float]) -> Trend | None:
    """Return the trend of ``values``; None if they have none.

    There must be at least ``minimum_samples`` of the rule, and their mean must be above 0.  There is a trend if the
    fitted line rises or falls by more than the limit, or if the order of the means of consecutive parts is
    statistically significant (H. B. Mann, Econometrica 13, 1945; M. G. Kendall, Rank Correlation Methods, 1948).
    """
    rule = definitions().consistency
    slope = statistics.linear_regression(range(len(values)), values).slope
    found = Trend(
        line_percent=100 * slope * (len(values) - 1) / statistics.fmean(values),
        p_percent=100 * kendall_p_value(_part_means(values, rule.trend_parts)),
    )
    return found if found.is_steep or found.p_percent < rule.trend_significance_percent else None


def even_percent(values: Sequence[float]) -> float:
    """Return the percentage of ``values`` that are within the rule's ``even_percent`` of their mean."""
    mean, share = statistics.fmean(values), definitions().consistency.even_percent / 100
    return 100 * sum(abs(value - mean) <= mean * share for value in values) / len(values)


def kendall_p_value(values: Sequence[float]) -> float:
    """Return the two-sided p-value of the order of ``values``: exact, by Kendall's S; equal values count 0.

    Without equal values, ``scipy.stats.kendalltau`` gives the same; its import takes a second and 60 MB.
    """
    score = sum((later > earlier) - (later < earlier) for earlier, later in combinations(values, 2))
    # The permutations with 0, 1, 2, ... inversions: each further value adds between none and all of those before it.
    permutations = reduce(np.convolve, (np.ones(count) for count in range(1, len(values) + 1)))
    pairs = len(permutations) - 1
    is_as_ordered = abs(pairs - 2 * np.arange(pairs + 1)) >= abs(score)
    return float(permutations[is_as_ordered].sum() / permutations.sum())


def _part_means(values: Sequence[float], parts: int) -> list[float]:
    """Return the means of consecutive parts of equal length."""
    edges = [len(values) * part // parts for part in range(parts + 1)]
    return [statistics.fmean(values[begin:end]) for begin, end in pairwise(edges)]
