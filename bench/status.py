"""Time and memory of ``status`` for many run folders, and the time to its first line.

``python bench/status.py [--runs 10000] [--folder DIR]`` makes one simulated run, copies its journal and result.xml into
new folders below DIR, and lists them twice: 1000 of them, and all.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_SNIA_PTS = (sys.executable, "-m", "snia_pts")
_FEW = 1000


def listed(folder: Path) -> tuple[int, float, float, float]:
    """List a folder; return the lines, the seconds to the first and to the last one, and the peak memory in MiB."""
    began = time.monotonic()
    with subprocess.Popen((*_SNIA_PTS, "status", str(folder)), stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        first = time.monotonic() - began
        lines = 1 + sum(1 for _ in program.stdout)
        _, status, usage = os.wait4(program.pid, 0)
        program.returncode = os.waitstatus_to_exitcode(status)
    return lines, first, time.monotonic() - began, usage.ru_maxrss / 1024


def main() -> None:
    """Make the folders and list them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as place:
        original, few, many = (Path(place) / name for name in ("run", "few", "many"))
        options = ("--run-dir", str(original), "--progress", "none", "--to", "json")
        subprocess.run((*_SNIA_PTS, "throughput", "sim:optane", *options), check=True, stdout=subprocess.DEVNULL)
        for folder, count in ((few, _FEW), (many, arguments.runs)):
            for number in range(count):
                copy = folder / f"{number:05}"
                copy.mkdir(parents=True)
                for name in ("journal.jsonl", "result.xml"):
                    shutil.copyfile(original / name, copy / name)
            lines, first, seconds, mib = listed(folder)
            print(f"{lines} runs: first line after {first:.2f} s, all after {seconds:.2f} s, {mib:.1f} MiB")


if __name__ == "__main__":
    main()
