"""Faults of a lab of simulated drives: agent, run and database killed, host lost, database away, the network cut.

``python bench/fleet_faults.py [--times 20] [--only NAME]`` causes each fault this often while a run goes on, with a
server, a database and agents of its own.  It requires that each run is started once and its result reported, within the
limit, and prints the seconds until an agent has attached to the run or resumed it, a result is reported, or a run on
another drive has started.  The network is that of a namespace of its own, for which it needs root.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.fleet.faults import FAULTS, NETWORK_FAULTS
from tests.fleet.labs import new_lab
from tests.store import postgresql

_NAMESPACE = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")


def main() -> None:
    """Cause the faults, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--only", choices=(*FAULTS, *NETWORK_FAULTS))
    parser.add_argument("--in-namespace", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.in_namespace:
        print(f"{'fault':28}{'times':>6}{'median s':>10}{'most s':>8}{'limit s':>9}{'wrong':>7}", flush=True)
    wrong = 0
    for name in (*FAULTS, *NETWORK_FAULTS):
        if arguments.only not in (None, name):
            continue
        if name in NETWORK_FAULTS and not arguments.in_namespace:
            words = (sys.executable, __file__, "--times", str(arguments.times), "--only", name, "--in-namespace")
            wrong += subprocess.run((*_NAMESPACE, *words), check=False).returncode
        else:
            wrong += _cause(name, arguments.times)
    sys.exit(1 if wrong else 0)


def _cause(name: str, times: int) -> int:
    """Cause a fault this often, and print its row and what went wrong; return how often that was."""
    fault, limit_seconds = {**FAULTS, **NETWORK_FAULTS}[name]
    seconds, failures = [], []
    with (
        tempfile.TemporaryDirectory() as folder,
        postgresql.running_server(loopback=name in NETWORK_FAULTS) as server,
        new_lab(server, Path(folder)) as lab,
    ):
        for number in range(times):
            try:
                seconds.append(fault(lab, f"h{number}"))
                print(f"    {name}, {number + 1} of {times}: {seconds[-1]:.1f} s", file=sys.stderr, flush=True)
                if seconds[-1] > limit_seconds:
                    failures.append(f"{name}, {number + 1}: {seconds[-1]:.1f} s; {lab.hosts[f'h{number}'].log}")
            except AssertionError as error:
                failures.append(str(error))
    figures = f"{median(seconds):10.1f}{max(seconds):8.1f}" if seconds else f"{'-':>10}{'-':>8}"
    print(f"{name:28}{times:6}{figures}{limit_seconds:9.0f}{len(failures):7}", flush=True)
    print("\n".join(f"    {failure}" for failure in failures), end="\n" if failures else "", flush=True)
    return len(failures)


if __name__ == "__main__":
    main()
