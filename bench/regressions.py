"""False alarms of the regression rule, and its power against a planted change.

``python bench/regressions.py [--histories 1000] [--seed 1]`` simulates histories of comparable runs with six key
figures.  The values of each figure scatter from run to run by an independent normal distribution.  The last run of a
history is judged against the runs before it, by the rule of the store.  Prints a line for each scatter and number of
comparable runs: the percentage of last runs in which a regression is found although nothing changed, for one figure and
for any of the six; and the percentage in which the regression of a figure that became slower by 5 or 8 % is found.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from snia_pts.results.main_figures import MAX_FIGURES
from snia_pts.store.regression_rule import MAX_COMPARABLE_RUNS, MIN_COMPARABLE_RUNS, judge

_SCATTER_PERCENT = (1.0, 2.0, 3.0)
_CHANGES_PERCENT = (0.0, 5.0, 8.0)


def regressed(source: random.Random, scatter: float, comparable_runs: int, change: float) -> list[bool]:
    """Simulate a history whose last run is slower by ``change`` percent; return whether each figure regressed."""

    def values(count: int) -> list[float]:
        return [1 + source.gauss(0, scatter / 100) for _ in range(count)]

    factor = 1 - change / 100
    return [
        judge(factor * values(1)[0], values(comparable_runs), "more").finding == "regression"
        for _ in range(MAX_FIGURES)
    ]


def main() -> None:
    """Simulate, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    source = random.Random(arguments.seed)
    print("scatter       runs  false alarm: figure   any of six  power: 5 % slower   8 % slower")
    for scatter in _SCATTER_PERCENT:
        for count in (MIN_COMPARABLE_RUNS, MAX_COMPARABLE_RUNS):
            unchanged, *changed = (
                [regressed(source, scatter, count, change) for _ in range(arguments.histories)]
                for change in _CHANGES_PERCENT
            )
            any_of_six = 100 * sum(map(any, unchanged)) / len(unchanged)
            one, five, eight = (100 * sum(map(sum, runs)) / len(runs) / MAX_FIGURES for runs in (unchanged, *changed))
            print(f"{scatter:>5g} %{count:>11}{one:>19.1f} %{any_of_six:>11.1f} %{five:>17.1f} %{eight:>11.1f} %")


if __name__ == "__main__":
    main()
