"""How runs of one simulated drive with different seeds agree, by their own reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

from snia_pts.analysis.operating_points import alternative_points, demand_means, operating_points
from snia_pts.results.comparison import compare_figures, difference
from snia_pts.results.result import TestResult
from snia_pts.spec import DemandSpec


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """The verdicts of all runs, and how their figures agree.

    ``intervals`` counts the differences between two runs that have a confidence interval, ``excluding_0`` those whose
    interval excludes 0, although the drive is the same.  ``iops_spread_percent`` is the largest spread of any IOPS.
    ``unlisted`` are the operating points that a run chose, and that another one does not list.
    """

    verdicts: set[str]
    intervals: int
    excluding_0: int
    iops_spread_percent: float
    choices: list[dict[str, str]]
    unlisted: list[str]


def agreement(results: Sequence[TestResult]) -> Agreement:
    """Return how runs of one test agree."""
    figures = compare_figures(results)
    differences = [
        change
        for figure in figures
        for one, other in combinations(filter(None, figure.figures), 2)
        if (change := difference(one, other)) is not None and change.significant is not None
    ]
    chosen_points = [choices(result) for result in results]
    return Agreement(
        verdicts={result.verdict for result in results},
        intervals=len(differences),
        excluding_0=sum(bool(item.significant) for item in differences),
        iops_spread_percent=max(figure.spread_percent or 0.0 for figure in figures if figure.metric == "iops"),
        choices=chosen_points,
        unlisted=[
            f"{name} {label}"
            for chosen, result in product(chosen_points, results)
            for name, label in chosen.items()
            if label not in listed(result)[name]
        ],
    )


def choices(result: TestResult) -> dict[str, str]:
    """Return the demands of Max and Mid IOPS; empty for a test that chooses none."""
    return {name: labels[0] for name, labels in listed(result).items()}


def listed(result: TestResult) -> dict[str, list[str]]:
    """Return the demands of Max and Mid IOPS, each followed by its alternatives; empty for a test without them."""
    spec, loop = result.facts.spec, result.loop()
    if not isinstance(spec, DemandSpec) or loop is None:
        return {}
    means, rule = demand_means(loop.window_rounds), spec.operating_points
    others = alternative_points(means, rule)
    return {
        point.name: [point.demand.label, *(other.demand.label for other in others[point.name])]
        for point in operating_points(means, rule)
        if point.name != "Min IOPS"
    }
