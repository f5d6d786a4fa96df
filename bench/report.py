"""Time and memory from a stored run to its report, and of ``--help`` and ``--plan``.

``python bench/report.py RUN [--repeats 3]`` makes the report of RUN again, each time in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path


def cost(argv: Sequence[str]) -> tuple[float, float]:
    """Return seconds and peak resident memory (MiB) of a program."""
    began = time.monotonic()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(argv)} failed")
    return time.monotonic() - began, usage.ru_maxrss / 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    suite = [sys.executable, "-m", "snia_pts"]
    commands = {
        "interpreter alone": [sys.executable, "-c", "pass"],
        "--help": [*suite, "iops", "--help"],
        "--plan": [*suite, "iops", "no-such.img", "--size", "1G", "--plan"],
        "assess": [*suite, "assess", str(arguments.run)],
        "report (RST, PDF, HTML)": [*suite, "report", str(arguments.run)],
    }
    print(f"{'':26} seconds (median)  peak MiB")
    for name, argv in commands.items():
        costs = [cost(argv) for _ in range(arguments.repeats)]
        seconds, memory = statistics.median(first for first, _ in costs), max(second for _, second in costs)
        print(f"{name:26} {seconds:16.3f} {memory:9.0f}")


if __name__ == "__main__":
    main()
