"""The operating points of demand intensity and composite workload, their candidates and alternatives."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from scipy import stats

from tests.recomputation.matrices import over_window
from tests.recomputation.printed import Expected, PrintedTable, check_number, labelled
from tests.recomputation.record import Array, answers, parameter, parameters, rate, rows, window_of

_NAMES = ("Max IOPS", "Mid IOPS", "Min IOPS")


@dataclass(frozen=True, eq=False)
class Point:
    """A demand of the loop with its IOPS in each round of the window, and its figures over the window."""

    threads: int
    depth: int
    rounds: Array
    figures: dict[str, float]

    @property
    def iops(self) -> float:
        return self.figures["iops"]

    @property
    def label(self) -> str:
        return f"T{self.threads}Q{self.depth}"


@dataclass(frozen=True)
class Choice:
    """An operating point: what its IOPS are compared with, the points near enough, and those by chance."""

    target: float
    candidates: list[Point]
    alternatives: list[Point]


@cache
def points(run: Path) -> list[Point]:
    """Return all points, the fewest outstanding I/Os first; of as many, the fewest threads."""
    found = [
        Point(
            threads=int(row["thread_count"]),
            depth=int(row["queue_depth"]),
            rounds=np.array([rate(answers(run, [measured]), "total_ios") for measured in window_of(run, row)]),
            figures=over_window(run, row),
        )
        for row in rows(run, "points")
    ]
    return sorted(found, key=lambda point: (point.threads * point.depth, point.threads))


@cache
def choices(run: Path) -> dict[str, Choice]:
    """Return the operating points of a run."""
    limit, near = (parameter(run, f"operating_points.{key}") for key in ("maximum_art_ms", "tolerance_percent"))
    return choose(points(run), limit, near)


def choose(everything: Sequence[Point], limit: float, near: float) -> dict[str, Choice]:
    """Return the Max, Mid and Min IOPS points of all points, the fewest outstanding I/Os first.

    Max: the highest IOPS with an ART below ``limit`` ms.  Mid: nearest to the middle of Max and Min.  Min: T1Q1.  The
    first of all points within ``near`` percent of that is chosen.  If no ART is below ``limit``, Max is the lowest ART.
    """
    allowed = [point for point in everything if point.figures["average_ms"] < limit]
    if allowed:
        best = max(allowed, key=lambda point: point.iops)
        fast = allowed
    else:
        best = min(everything, key=lambda point: point.figures["average_ms"])
        fast, allowed = [best], list(everything)
    least = everything[0]
    middle = (best.iops + least.iops) / 2
    nearest = min(allowed, key=lambda point: abs(point.iops - middle))

    def max_margin(iops: Array, top: Array, low: Array, mid: Array) -> Array:
        return iops - (1 - near / 100) * top

    def mid_margin(iops: Array, top: Array, low: Array, mid: Array) -> Array:
        centre = (top + low) / 2
        allowed_distance: Array = np.abs(mid - centre) + near / 100 * centre
        return allowed_distance - np.abs(iops - centre)

    references = (best, least, nearest)
    return {
        "Max IOPS": Choice(best.iops, *_near(fast, references, max_margin, best)),
        "Mid IOPS": Choice(middle, *_near(allowed, references, mid_margin, nearest)),
        "Min IOPS": Choice(least.iops, [least], []),
    }


def _near(
    allowed: Sequence[Point], references: Sequence[Point], margin: Callable[..., Array], certain: Point
) -> tuple[list[Point], list[Point]]:
    """Return the candidates, and the points that another run may choose instead of the first of them."""
    at = [np.array(reference.iops) for reference in references]
    margins = {point.label: float(margin(np.array(point.iops), *at)) for point in allowed}
    candidates = [point for point in allowed if margins[point.label] >= 0]
    alternatives: list[Point] = []
    for point in allowed:
        own = margin(point.rounds, *at)
        others = margin(np.array(point.iops), *(reference.rounds for reference in references))
        count = len(point.rounds)
        spread = math.sqrt((float(np.var(own, ddof=1)) + float(np.var(others, ddof=1))) * 2 / count)
        chance = 0.0 if point is certain else float(stats.t.ppf(0.975, count - 1)) * spread
        if margins[point.label] + chance >= 0 and point is not candidates[0]:
            alternatives.append(point)
        if margins[point.label] - chance >= 0:
            break
    return candidates, alternatives


# -- tables -----------------------------------------------------------------------------------------------------------


def operating_points(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return each operating point with its demand, its target, and its figures over the window."""
    cells: list[list[Expected]] = []
    for name in _NAMES:
        choice = choices(run)[name]
        point = choice.candidates[0]
        demand = f"{point.threads * point.depth} (TC {point.threads}/QD {point.depth})"
        keys = ("iops", "average_ms", "five_nines_ms", "maximum_ms")
        cells.append([name, demand, choice.target, *(point.figures[key] for key in keys)])
    return cells


def selection(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return the alternatives to Max and Mid IOPS; no row for a point without any."""
    depths = [int(depth) for depth in parameters(run, "demand.queue_depths")]
    expected: dict[str, Expected] = {
        name: partial(_check_points, choice.alternatives, depths)
        for name, choice in choices(run).items()
        if choice.alternatives
    }
    return labelled(table, expected)


def _check_points(expected: Sequence[Point], depths: Sequence[int], cell: str) -> None:
    """Compare ``T4Q32, T6Q16-32 (97 to 99 IOPS)`` with points."""
    match = re.fullmatch(r"(.*) \((\S+?)(?: to (\S+))? IOPS\)", cell)
    assert match, cell
    shown = [named for demand in match[1].split(", ") for named in _expanded(demand, depths)]
    assert sorted(shown) == sorted(point.label for point in expected)
    iops = [point.iops for point in expected]
    check_number(match[2], min(iops))
    check_number(match[3] or match[2], max(iops))


def _expanded(demand: str, depths: Sequence[int]) -> list[str]:
    """Return ``T6Q8``, ``T6Q16`` and ``T6Q32`` for ``T6Q8-32``."""
    threads, _, text = demand.partition("Q")
    numbers = [int(number) for number in re.split("[-/]", text)]
    used = [depth for depth in depths if numbers[0] <= depth <= numbers[-1]] if "-" in text else numbers
    return [f"{threads}Q{depth}" for depth in used]
