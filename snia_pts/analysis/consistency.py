"""The spread of the samples at the end of a continuous stimulus, and whether they have a trend.

The standard requires only the plot; the rule is ``consistency`` of ``specs/definitions.toml``.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from ..spec.reader import definitions


def trend_percent(values: Sequence[float]) -> float | None:
    """Return the rise (or fall, negative) of ``values`` from first to last in percent of their mean; None if no trend.

    There must be at least ``minimum_samples`` of the rule, and their mean must be above 0.  The percentage is that of
    the fitted line.  There is a trend if the percentage is large, or if the order of the means of consecutive parts is
    statistically significant (H. B. Mann, Econometrica 13, 1945; M. G. Kendall, Rank Correlation Methods, 1948).
    """
    rule = definitions().consistency
    slope = statistics.linear_regression(range(len(values)), values).slope
    percent = 100 * slope * (len(values) - 1) / statistics.fmean(values)
    if (
        abs(percent) > rule.trend_percent
        or _p_value_percent(values, rule.trend_parts) < rule.trend_significance_percent
    ):
        return percent
    return None


def even_percent(values: Sequence[float]) -> float:
    """Return the percentage of ``values`` that are within the rule's ``even_percent`` of their mean."""
    mean, share = statistics.fmean(values), definitions().consistency.even_percent / 100
    return 100 * sum(abs(value - mean) <= mean * share for value in values) / len(values)


def _p_value_percent(values: Sequence[float], parts: int) -> float:
    """Return the p-value, in percent, of Kendall's tau of the means of consecutive parts; nan if all are equal."""
    from scipy.stats import kendalltau

    edges = [len(values) * part // parts for part in range(parts + 1)]
    means = [statistics.fmean(values[edges[part] : edges[part + 1]]) for part in range(parts)]
    return 100 * float(kendalltau(range(parts), means).pvalue)
