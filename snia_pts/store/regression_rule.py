"""The regression rule: compares a key figure of a run with the same figure of the last like runs.

Two runs are alike if they have the same test specification with its overrides, class, drive model, CPU model, and
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

#: A figure is compared with at most so many like runs; below the minimum there is no basis for a judgement.
MAX_LIKE_RUNS, MIN_LIKE_RUNS = 10, MIN_VALUES


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionCheck:
    """The judgement of a figure: the like runs it was compared with, their median, and the tolerance on both sides.

    If the finding is ``no basis``, median and tolerance are None.
    """

    finding: Finding
    like_runs: int
    median: float | None = None
    tolerance: float | None = None


def judge(value: float | None, like_values: Sequence[float], better: Better | None) -> RegressionCheck:
    """Return the check of a value against those of the last like runs.

    ``value`` is None if it may not be judged: it is not steady, or the run was stopped.  If ``better`` is None, a
    change in either direction is a regression.
    """
    if value is None or len(like_values) < MIN_LIKE_RUNS:
        return RegressionCheck(finding=NO_BASIS, like_runs=len(like_values))
    median, tolerance = robust_tolerance(like_values)
    change = value - median
    finding: Finding = "unchanged"
    if abs(change) > tolerance:
        improved = (change > 0 and better == "more") or (change < 0 and better == "less")
        finding = "improvement" if improved else "regression"
    return RegressionCheck(finding=finding, like_runs=len(like_values), median=median, tolerance=tolerance)
