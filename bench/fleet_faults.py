"""Faults of a lab of simulated drives: agent and database killed, database restarted or away, while a run goes on.

``python bench/fleet_faults.py [--times 20] [--only NAME]`` causes each fault this often, with a server, a database and
agents of its own.  It requires that each run is started once and its result reported, and prints the seconds until an
agent has attached, a result is reported, or a run on another drive has started.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.fleet.faults import FAULTS
from tests.fleet.labs import new_lab
from tests.store import postgresql


def main() -> None:
    """Cause the faults, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--only", choices=FAULTS)
    arguments = parser.parse_args()
    print(f"{'fault':28}{'times':>6}{'median s':>10}{'most s':>8}{'limit s':>9}{'wrong':>7}")
    wrong = 0
    for name, (fault, limit_seconds) in FAULTS.items():
        if arguments.only not in (None, name):
            continue
        seconds, failures = [], []
        with (
            tempfile.TemporaryDirectory() as folder,
            postgresql.running_server() as server,
            new_lab(server, Path(folder)) as lab,
        ):
            for number in range(arguments.times):
                try:
                    seconds.append(fault(lab, f"h{number}"))
                except AssertionError as error:
                    failures.append(str(error))
        figures = f"{median(seconds):10.1f}{max(seconds):8.1f}" if seconds else f"{'-':>10}{'-':>8}"
        print(f"{name:28}{arguments.times:6}{figures}{limit_seconds:9.0f}{len(failures):7}", flush=True)
        print("\n".join(f"    {failure}" for failure in failures), end="\n" if failures else "")
        wrong += len(failures)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
