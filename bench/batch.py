"""Kills any process of a batch at random times, resumes it until every drive has a result, and counts the fresh starts.

``python bench/batch.py [--batches 5] [--seed 1] [--folder DIR]`` tests three files of 64 MiB with fio, two side by
side.  It kills the process that starts the drives, one that tests a drive, or all at once, as a power failure does.
For each batch it prints what was killed and how often it was resumed; it fails if a drive has more than one start
entry, or if a batch does not end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

_DRIVES = 3
_OPTIONS = (
    "--size",
    "64M",
    "--purge",
    "none",
    "--to",
    "none",
    "--set",
    "rounds.point_seconds=1",
    "--set",
    "rounds.maximum=5",
    "--detach",
)
_LIMIT_SECONDS = 600
_MAX_KILLS = 6


def main(folder: Path, batches: int, seed: int) -> None:
    """Run the batches."""
    choice = random.Random(seed)
    total: Counter[str] = Counter()
    for number in range(1, batches + 1):
        batch = folder / f"batch-{seed}-{number}"
        killed = _test_batch(folder, batch, choice)
        starts = [_kinds(journal) for journal in sorted(batch.rglob("journal.jsonl"))]
        assert len(starts) == _DRIVES, f"{batch}: {len(starts)} drives were tested"
        for kinds in starts:
            assert kinds["start"] == 1, f"{batch}: {kinds['start']} start entries"
        total += killed
        print(
            f"batch {number}: {dict(killed)}; {_DRIVES} results, {sum(kinds['start'] for kinds in starts)} starts",
            flush=True,
        )
    print(f"all: {dict(total)}; {batches * _DRIVES} results, no test started twice")


def _test_batch(folder: Path, batch: Path, choice: random.Random) -> Counter[str]:
    """Start a batch, kill and resume it until all is finished; return how often each kind of kill was made."""
    targets = [str(folder / f"{batch.name}-{number}.img") for number in range(_DRIVES)]
    _snia_pts("throughput", *targets, *_OPTIONS, "--side-by-side", "2", "--run-dir", str(batch))
    killed: Counter[str] = Counter()
    end = time.monotonic() + _LIMIT_SECONDS
    while not _finished(batch):
        assert time.monotonic() < end, f"{batch} did not end"
        if killed.total() < _MAX_KILLS:
            time.sleep(choice.uniform(0, 6))
            killed[_kill(batch, choice)] += 1
        while _processes(batch) and (killed.total() == _MAX_KILLS or choice.random() < 0.3):
            time.sleep(1)
        if not _finished(batch):
            killed["resumed"] += _snia_pts("resume", str(batch), "--from-purge") == 0
    for target in targets:
        Path(target).unlink()
    return killed


def _kill(batch: Path, choice: random.Random) -> str:
    """Kill one process, or all, as a power failure does; return what."""
    processes = _processes(batch)
    what = choice.choice(("starter", "test", "all"))
    tests = sorted(pid for name, pid in processes.items() if name != "batch.json")
    victims = {
        "starter": [processes["batch.json"]] if "batch.json" in processes else [],
        "test": [choice.choice(tests)] if tests else [],
        "all": list(processes.values()),
    }[what]
    for pid in victims:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return f"{what} killed" if victims else "nothing to kill"


def _processes(batch: Path) -> dict[str, int]:
    """Return the process by the file of the batch that it has locked."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            name = path.readlink()
            if name.parent == batch and (name.name == "batch.json" or name.suffix == ".process"):
                found[name.name] = int(path.parent.parent.name)
    return found


def _finished(batch: Path) -> bool:
    listing = [sys.executable, "-m", "snia_pts", "status", str(batch), "--json"]
    drives = json.loads(subprocess.run(listing, capture_output=True, check=True, text=True).stdout)
    return {drive["state"] for drive in drives} == {"finished"}


def _snia_pts(*words: str) -> int:
    return subprocess.run(
        [sys.executable, "-m", "snia_pts", *words], stdin=subprocess.DEVNULL, capture_output=True, check=False
    ).returncode


def _kinds(journal: Path) -> Counter[str]:
    return Counter(json.loads(line)["entry"]["kind"] for line in journal.read_text().splitlines())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the files and runs are created (default: a temporary one)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        main((arguments.folder or Path(temporary)).resolve(), arguments.batches, arguments.seed)
