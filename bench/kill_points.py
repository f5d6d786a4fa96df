"""Random kills of simulated runs of every test: the results after ``resume``.

``python bench/kill_points.py [--kills 500] [--seed 1] [--jobs 2]`` runs each test of the standard once, shortened, to
its end. Then it truncates the journal at random bytes, as a crash would, resumes the run, and perhaps kills it again.
It requires that no entry of the journal is lost, that the outcomes of the steps are those without interruption to the
last bit, that no measurement window spans an interruption, and that the report's deviations name each. Prints a line
per test.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from snia_pts.results.interruption import ResumePolicy
from tests import killing


def kill(test: str, kills: int, seed: int) -> tuple[str, int, int, float]:
    """Kill runs of a test at least this often; return the test, the kills, the failed ones, and the seconds."""
    place, began = Path(tempfile.mkdtemp(prefix="snia-pts-kills-")), time.monotonic()
    reference = killing.reference(test, place / "reference")
    done = failed = number = 0
    while done < kills:
        number += 1
        one = random.Random(f"{seed} {test} {number}")
        policy: ResumePolicy = one.choice(("rule", "rule", "continue", "purge"))
        try:
            done += killing.kill_and_resume(
                reference, place / "reference", place / "killed", one.getrandbits(32), policy
            )
        except Exception:  # noqa: BLE001  # an error is counted and printed, and does not stop the benchmark
            done, failed = done + 1, failed + 1
            print(f"{test}, number {number}, {policy}:\n{traceback.format_exc()}", file=sys.stderr)
        shutil.rmtree(place / "killed")
    shutil.rmtree(place)
    return test, done, failed, time.monotonic() - began


def main() -> int:
    """Run the benchmark; the exit code is 0 if every run survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    kills_per_test = -(-arguments.kills // len(killing.BRIEF))
    print(f"{'test':<12}{'kills':>7}{'not survived':>14}{'seconds':>9}")
    with multiprocessing.Pool(arguments.jobs) as pool:
        jobs = [(test, kills_per_test, arguments.seed) for test in killing.BRIEF]
        results = pool.starmap(kill, jobs, chunksize=1)
    for test, done, failed, seconds in results:
        print(f"{test:<12}{done:>7}{failed:>14}{seconds:>9.1f}")
    print(f"{'all':<12}{sum(done for _, done, _, _ in results):>7}{sum(failed for _, _, failed, _ in results):>14}")
    return 1 if any(failed for _, _, failed, _ in results) else 0


if __name__ == "__main__":
    sys.exit(main())
