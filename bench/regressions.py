"""False alarms of the regression rule, and its power against a planted change.

``python bench/regressions.py [--histories 1000] [--seed 1]`` simulates histories of like runs with six key figures,
whose values scatter from run to run by a normal distribution; each figure scatters for itself.  The last run of a
history is judged against the runs before it, by the rule of the store.  Prints a line for each scatter and number of
like runs: the percentage of last runs with a regression found although nothing changed, for one figure and for any of
the six; and with a regression of the figure found that became slower by 5 or 8 %.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from snia_pts.results.main_figures import MAX_FIGURES
from snia_pts.store.regression_rule import MAX_LIKE_RUNS, MIN_LIKE_RUNS, judge

_SCATTER_PERCENT = (1.0, 2.0, 3.0)
_CHANGES_PERCENT = (0.0, 5.0, 8.0)


def regressed(source: random.Random, scatter: float, like_runs: int, change: float) -> list[bool]:
    """Simulate a history whose last run is slower by ``change`` percent; return whether each figure regressed."""

    def values(count: int) -> list[float]:
        return [1 + source.gauss(0, scatter / 100) for _ in range(count)]

    factor = 1 - change / 100
    return [judge(factor * values(1)[0], values(like_runs), "more").finding == "regression" for _ in range(MAX_FIGURES)]


def main() -> None:
    """Simulate, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    source = random.Random(arguments.seed)
    print("scatter  like runs  false alarm: figure   any of six  power: 5 % slower   8 % slower")
    for scatter in _SCATTER_PERCENT:
        for like_runs in (MIN_LIKE_RUNS, MAX_LIKE_RUNS):
            unchanged, *changed = (
                [regressed(source, scatter, like_runs, change) for _ in range(arguments.histories)]
                for change in _CHANGES_PERCENT
            )
            any_of_six = 100 * sum(map(any, unchanged)) / len(unchanged)
            one, five, eight = (100 * sum(map(sum, runs)) / len(runs) / MAX_FIGURES for runs in (unchanged, *changed))
            print(f"{scatter:>5g} %{like_runs:>11}{one:>19.1f} %{any_of_six:>11.1f} %{five:>17.1f} %{eight:>11.1f} %")


if __name__ == "__main__":
    main()
