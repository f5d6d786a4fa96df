"""The operating points of demand intensity and composite workload, their candidates and alternatives."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from scipy import stats

from tests.recomputation.matrices import over_window
from tests.recomputation.printed import Expected, PrintedTable, check_number, labelled
from tests.recomputation.record import Array, answers, parameter, rate, rows, window_of

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

    @property
    def nearest(self) -> Point:
        """The point with the IOPS nearest to the target."""
        return min(self.candidates, key=lambda point: abs(point.iops - self.target))


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


def noise_percent(run: Path) -> float:
    """Return the noise of a run's points, in percent of their IOPS."""
    limit = parameter(run, "operating_points.maximum_art_ms")
    return 100 * interval([point for point in points(run) if point.figures["average_ms"] < limit] or points(run))


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

    noise = interval(allowed)

    def near_enough(point: Point, name: str) -> float:
        """Return by how many IOPS a point is near enough."""
        if name == "Max IOPS":
            return point.iops - (1 - near / 100) * best.iops
        return abs(nearest.iops - middle) + near / 100 * middle - abs(point.iops - middle)

    def choice(name: str, target: float, among: Sequence[Point]) -> Choice:
        margins = [near_enough(point, name) for point in among]
        doubts = [noise * point.iops for point in among]
        candidates = [point for point, margin in zip(among, margins, strict=True) if margin >= 0]
        sure = (at for at, (margin, doubt) in enumerate(zip(margins, doubts, strict=True)) if margin >= doubt)
        last = next(sure, len(among) - 1)
        possible = [among[at] for at in range(last + 1) if margins[at] + doubts[at] >= 0]
        return Choice(target, candidates, [point for point in possible if point is not candidates[0]])

    return {
        "Max IOPS": choice("Max IOPS", best.iops, fast),
        "Mid IOPS": choice("Mid IOPS", middle, allowed),
        "Min IOPS": Choice(least.iops, [least], []),
    }


def interval(compared: Sequence[Point]) -> float:
    """Return the 95 % interval of the difference between two points, from run to run, as a part of their IOPS.

    A part that all points of a round have in common is left out: what remains is the interaction of an analysis of
    variance with the factors point and round.
    """
    table = np.array([point.rounds / np.mean(point.rounds) for point in compared if point.iops > 0])
    if len(table) < 2 or table.shape[1] < 2:
        return 0.0
    remains = table - table.mean(axis=0, keepdims=True) - table.mean(axis=1, keepdims=True) + table.mean()
    freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
    variance = float(np.sum(remains**2)) / freedom
    return float(stats.t.ppf(0.975, freedom)) * math.sqrt(2 * 2 * variance / table.shape[1])


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
    expected: dict[str, Expected] = {
        name: partial(_check_points, choice.alternatives)
        for name, choice in choices(run).items()
        if choice.alternatives
    }
    return labelled(table, expected)


def _check_points(expected: Sequence[Point], cell: str) -> None:
    """Compare ``T6Q16, T4Q32 (97 to 99 IOPS)`` with points, in their order."""
    match = re.fullmatch(r"(.*) \((\S+?)(?: to (\S+))? IOPS\)", cell)
    assert match, cell
    assert match[1].split(", ") == [point.label for point in expected]
    iops = [point.iops for point in expected]
    check_number(match[2], min(iops))
    check_number(match[3] or match[2], max(iops))
