"""How runs of one simulated drive with different seeds agree, for each test of the standard.

bench/seeds.py                          ten seeds of every test
bench/seeds.py --folder DIR             keep the runs in DIR, and do not repeat those that are there
bench/seeds.py dirth --seeds 30         one test

The table has the verdict that all runs share, how many differences between two runs have a 95 % confidence interval
and how many of these exclude 0 although the drive is the same (one in twenty by chance), the largest spread of any
IOPS, and the operating points that were chosen.  A chosen point that another run does not list is an error.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from snia_pts.cli.main import main as snia_pts
from snia_pts.record.folder import RunFolder
from snia_pts.record.replay import assess
from snia_pts.results.result import TestResult
from snia_pts.spec import SPEC_TYPES
from tests.seeds import agreement

_TESTS = tuple(test for test in SPEC_TYPES if test != "profile")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", metavar="TEST", default=_TESTS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--drive", default="enterprise-nvme")
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    print(f"{'test':10} {'intervals':>9} {'excluding 0':>11} {'share (%)':>9} {'IOPS spread (%)':>15}  verdict; points")
    with tempfile.TemporaryDirectory() as temporary:
        for test in arguments.tests:
            folder = arguments.folder or Path(temporary)
            results = [run(folder, test, arguments.drive, seed) for seed in range(1, arguments.seeds + 1)]
            print(line(test, results), flush=True)


def run(folder: Path, test: str, drive: str, seed: int) -> TestResult:
    """Return the result of a run, which is performed unless it is in the folder."""
    path = folder / f"{test}-{seed}"
    if not (path / "result.xml").exists():
        options = ["--seed", str(seed), "--run-dir", str(path), "--to", "none", "--progress", "none"]
        with contextlib.redirect_stdout(io.StringIO()):
            code = snia_pts([test, f"sim:{drive}", *options])
        if code:
            raise SystemExit(f"{test} with seed {seed} failed with exit code {code}")
    return assess(RunFolder.existing(path))


def line(test: str, results: list[TestResult]) -> str:
    """Return a test's line of the table."""
    found = agreement(results)
    if found.unlisted:
        raise SystemExit(f"{test}: not listed by every run: {', '.join(sorted(set(found.unlisted)))}")
    share = f"{100 * found.excluding_0 / found.intervals:.1f}" if found.intervals else "n/a"
    points = []
    for name in found.choices[0]:
        counts = Counter(chosen[name] for chosen in found.choices).most_common()
        points.append(f"{name} {', '.join(f'{label} x {count}' for label, count in counts)}")
    text = "; ".join([*sorted(found.verdicts), *points])
    return f"{test:10} {found.intervals:9} {found.excluding_0:11} {share:>9} {found.iops_spread_percent:15.1f}  {text}"


if __name__ == "__main__":
    main()
