"""The regression rule: compares a key figure of a run with the same figure of the last like runs.

Two runs are alike if they have the same test specification with its overrides, class, drive model, CPU model, and
engine with its version.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..results.key_figures import Better, KeyFigure

Finding = Literal["regression", "improvement", "unchanged", "no basis"]
NO_BASIS: Finding = "no basis"

#: A figure is compared with at most so many like runs; below the minimum there is no basis for a judgement.
MAX_LIKE_RUNS, MIN_LIKE_RUNS = 10, 5
#: The tolerance is a percentage of the median, or a multiple of the median absolute deviation, if that is more.
TOLERANCE_PERCENT, TOLERANCE_MADS = 5.0, 4.0
#: More key figures would give more false alarms for each run.
MAX_FIGURES = 6

_MAX_MID_MIN = tuple(
    (metric, f"{point} IOPS point") for metric in ("iops", "average_response_ms") for point in ("Max", "Mid", "Min")
)
#: For each test, the figures that are judged, as (metric, point).  Of other tests, the first six IOPS are judged.
_FIGURES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "iops": (
        ("iops", "RND 4 KiB 100/0"),
        ("iops", "RND 4 KiB 65/35"),
        ("iops", "RND 4 KiB 0/100"),
        ("iops", "RND 64 KiB 65/35"),
        ("iops", "RND 1024 KiB 100/0"),
        ("iops", "RND 1024 KiB 0/100"),
    ),
    "throughput": tuple(
        ("mb_per_second", f"SEQ {size} KiB {mix}") for size in (1024, 128) for mix in ("100/0", "0/100")
    ),
    "latency": (
        ("average_response_ms", "RND 4 KiB 100/0"),
        ("average_response_ms", "RND 4 KiB 65/35"),
        ("average_response_ms", "RND 4 KiB 0/100"),
        ("average_response_ms", "RND 8 KiB 100/0"),
        ("average_response_ms", "RND 8 KiB 0/100"),
        ("response_99.9_percent_ms", "histogram"),
    ),
    "wsat": (
        ("iops", "end of the stimulus"),
        ("average_response_ms", "end of the stimulus"),
        ("iops", "whole stimulus, from FOB on"),
        ("response_99.9_percent_ms", "histogram"),
    ),
    "hir": (
        ("iops", "PC, measurement window"),
        *(("iops", f"Wait State {number}, access C") for number in (1, 2, 3, 5, 10)),
    ),
    "xsr": tuple(
        (metric, f"AG {group}, stimulus") for metric in ("iops", "average_response_ms") for group in (1, 2, 3)
    ),
    "composite": _MAX_MID_MIN,
    "dirth": _MAX_MID_MIN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionCheck:
    """The judgement of a figure: the like runs it was compared with, their median, and the tolerance on both sides.

    If the finding is ``no basis``, median and tolerance are None.
    """

    finding: Finding
    like_runs: int
    median: float | None = None
    tolerance: float | None = None


def judged_figures(test: str, figures: Sequence[KeyFigure]) -> tuple[KeyFigure, ...]:
    """Return the figures of a run that the rule judges, at most six."""
    if names := _FIGURES.get(test):
        by_name = {(figure.metric, figure.at): figure for figure in figures}
        return tuple(by_name[name] for name in names if name in by_name)
    return tuple(figure for figure in figures if figure.metric == "iops")[:MAX_FIGURES]


def judge(value: float | None, like_values: Sequence[float], better: Better | None) -> RegressionCheck:
    """Return the check of a value against those of the last like runs.

    ``value`` is None if it may not be judged: it is not steady, or the run was stopped.  If ``better`` is None, a
    change in either direction is a regression.
    """
    if value is None or len(like_values) < MIN_LIKE_RUNS:
        return RegressionCheck(finding=NO_BASIS, like_runs=len(like_values))
    median = statistics.median(like_values)
    deviation = statistics.median(abs(like - median) for like in like_values)
    tolerance = max(abs(median) * TOLERANCE_PERCENT / 100, TOLERANCE_MADS * deviation)
    change = value - median
    finding: Finding = "unchanged"
    if abs(change) > tolerance:
        improved = (change > 0 and better == "more") or (change < 0 and better == "less")
        finding = "improvement" if improved else "regression"
    return RegressionCheck(finding=finding, like_runs=len(like_values), median=median, tolerance=tolerance)
