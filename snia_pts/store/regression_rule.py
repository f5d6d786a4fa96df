"""Compares a key figure of a run with the same figure of the most recent comparable runs.

Two runs are comparable if they have the same test specification with its overrides, class, drive model, CPU model, and
engine with its version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..analysis.outliers import MIN_VALUES, robust_tolerance
from ..results.key_figures import Better

Finding = Literal["regression", "improvement", "unchanged", "no basis"]
NO_BASIS: Finding = "no basis"

#: A figure is compared with up to MAX_COMPARABLE_RUNS runs.  With fewer than MIN_COMPARABLE_RUNS the finding is
#: ``no basis``.
MAX_COMPARABLE_RUNS, MIN_COMPARABLE_RUNS = 10, MIN_VALUES


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionCheck:
    """The judgement of a figure.

    ``comparable_runs`` is the number of runs that the figure was compared with, ``median`` the median of their figures,
    and ``tolerance`` the permitted difference in both directions.  If the finding is ``no basis``, median and
    tolerance are None.
    """

    finding: Finding
    comparable_runs: int
    median: float | None = None
    tolerance: float | None = None


def judge(value: float | None, comparable_values: Sequence[float], better: Better | None) -> RegressionCheck:
    """Return the check of a value against the values of the most recent comparable runs.

    ``value`` is None if it may not be judged: it is not steady, or the run was stopped.  If ``better`` is None, a
    change in either direction is a regression.
    """
    if value is None or len(comparable_values) < MIN_COMPARABLE_RUNS:
        return RegressionCheck(finding=NO_BASIS, comparable_runs=len(comparable_values))
    median, tolerance = robust_tolerance(comparable_values)
    change = value - median
    finding: Finding = "unchanged"
    if abs(change) > tolerance:
        improved = (change > 0 and better == "more") or (change < 0 and better == "less")
        finding = "improvement" if improved else "regression"
    return RegressionCheck(finding=finding, comparable_runs=len(comparable_values), median=median, tolerance=tolerance)
