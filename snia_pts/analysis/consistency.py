"""How even the samples at the end of a continuous stimulus are, and whether they rise or fall instead.

The standard asks for the plot alone; the rule is ``consistency`` of ``specs/definitions.toml``.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from ..spec.reader import definitions


def trend_percent(values: Sequence[float]) -> float | None:
    """Return by how many percent of their mean ``values`` rise, or fall (negative), from first to last; None of others.

    ``values`` are at least as many as the rule's ``fewest_samples``, with a mean above 0.  The percentage is that of
    the fitted line.  They have a trend where that is large, or where the means of consecutive parts are in an order
    that chance hardly makes (H. B. Mann, Econometrica 13, 1945; M. G. Kendall, Rank Correlation Methods, 1948).
    """
    rule = definitions().consistency
    slope = statistics.linear_regression(range(len(values)), values).slope
    percent = 100 * slope * (len(values) - 1) / statistics.fmean(values)
    if abs(percent) > rule.trend_percent or _chance_percent(values, rule.trend_parts) < rule.trend_significance_percent:
        return percent
    return None


def even_percent(values: Sequence[float]) -> float:
    """Return how many percent of ``values`` lie within the rule's ``even_percent`` of their mean."""
    middle, share = statistics.fmean(values), definitions().consistency.even_percent / 100
    return 100 * sum(abs(each - middle) <= middle * share for each in values) / len(values)


def _chance_percent(values: Sequence[float], parts: int) -> float:
    """Return how often chance orders the means of so many parts as well; nan where all are alike."""
    from scipy.stats import kendalltau

    edges = [len(values) * part // parts for part in range(parts + 1)]
    means = [statistics.fmean(values[edges[part] : edges[part + 1]]) for part in range(parts)]
    return 100 * float(kendalltau(range(parts), means).pvalue)
