"""Random kills of what a lab runs on a host: the starts of each run, and how each ends.

``python bench/fleet_kills.py [--kills 500] [--seed 1]`` runs real tests of files with fio, and tests of a simulated
drive. It kills the caller of ``ensure``, the processes of the runs and their fio at random times and in any
combination, until so many were killed, and starts the caller again each time. It requires that each run has at most one
fresh start, that each permission to start was used at most once, and that every run has a known end or is lost. Prints
the counts after each set of runs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.fleet_killing import Counts, kill_runs


def main() -> None:
    """Run the benchmark; it ends with an error if a run was started twice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="snia-pts-fleet-kills-") as folder:
        kill_runs(Path(folder), arguments.kills, arguments.seed, lambda counts: print(_described(counts), flush=True))
    print(f"time:   {time.monotonic() - began:.0f} s")


def _described(counts: Counts) -> str:
    return (
        f"killed: {counts.kills.total()} processes ({_listed(counts.kills)})\n"
        f"        {counts.combinations} times several kinds at once\n"
        f"runs:   {counts.runs}, started {counts.starts} times, resumed {counts.resumes} times\n"
        f"        at most {counts.most_fresh_starts} fresh start of each\n"
        f"ends:   {_listed(counts.ends)}\n"
    )


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{what}: {count}" for what, count in sorted(counts.items()))


if __name__ == "__main__":
    main()
