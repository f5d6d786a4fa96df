"""The time between two points: the suite's own, and the device's idle time as the block layer sees it.

``python bench/gap.py [--folder DIR] [--point-seconds 0.3]`` (root) makes a loop device on a file in DIR, runs the
suite on it, and then the same points as a plain loop that starts fio with its default clock, as the peers do.
A process of its own samples /sys/block/loopN/stat all the while.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

SHORTEST_IDLE_SECONDS = 0.002
POINTS = [(read, size) for read in (100, 65, 0) for size in (65536, 16384, 4096)]
ROUNDS = 3


def sample(stat: Path, stop: Event, idles: multiprocessing.Queue[list[float]]) -> None:
    """Collect the times in which the device had nothing to do and did nothing, until told to stop."""
    found: list[float] = []
    before, since = "", time.monotonic()
    with stat.open() as file:
        while not stop.is_set():
            file.seek(0)
            fields = file.read().split()
            now, state = time.monotonic(), f"{fields[0]} {fields[4]}"
            if state != before or fields[8] != "0":
                if now - since > SHORTEST_IDLE_SECONDS:
                    found.append(now - since)
                before, since = state, now
            time.sleep(0.0001)
    idles.put(found)


@contextmanager
def watched(device: str) -> Iterator[list[float]]:
    """Watch ``device`` and fill the list with its idle times, in seconds."""
    stop = multiprocessing.Event()
    idles: multiprocessing.Queue[list[float]] = multiprocessing.Queue()
    stat = Path("/sys/block") / Path(device).name / "stat"
    watcher = multiprocessing.Process(target=sample, args=(stat, stop, idles))
    watcher.start()
    found: list[float] = []
    yield found
    stop.set()
    found += idles.get()
    watcher.join()


def ours(device: str, run: Path, seconds: float) -> None:
    """Run the suite on ``device``."""
    sizes = sorted({size / 1024 for _, size in POINTS}, reverse=True)
    argv = [
        sys.executable, "-m", "snia_pts", "iops", device, "--serial", Path(device).name, "--run-dir", str(run),
        "--point-seconds", str(seconds), "--set", f"steady_state.window_rounds={ROUNDS}", "--max-rounds", str(ROUNDS),
        "--set", "rounds.read_percents=[100, 65, 0]", "--set", f"rounds.block_sizes_kib={sizes}",
        "--set", "steady_state.tracked=[{metric = 'iops', block_size_kib = 4, read_percent = 0}]",
    ]  # fmt: skip
    subprocess.run(argv, check=True, capture_output=True)


def plain(device: str, seconds: float) -> None:
    """Start fio for each point with its default clock and engine, and read its JSON, as the peers do."""
    for read, size in POINTS * ROUNDS:
        argv = [
            "fio", "--name=x", f"--filename={device}", "--direct=1", "--ioengine=libaio", "--rw=randrw",
            f"--rwmixread={read}", f"--bs={size}", "--iodepth=32", "--numjobs=4", "--group_reporting", "--time_based",
            f"--runtime={round(1000 * seconds)}ms", "--norandommap", "--randrepeat=0", "--output-format=json",
        ]  # fmt: skip
        json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)


def spread(name: str, values: list[float], unit: str) -> None:
    """Print median, 90th percentile and worst."""
    values.sort()
    p90 = values[int(0.9 * (len(values) - 1))]
    print(f"{name:46} {statistics.median(values):8.2f} {p90:8.2f} {values[-1]:8.2f} {unit}  ({len(values)})")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--point-seconds", type=float, default=0.3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        with (folder / "drive.img").open("wb") as file:
            file.truncate(128 << 20)
        argv = ["losetup", "--find", "--show", str(folder / "drive.img")]
        device = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
        try:
            with watched(device) as suite:
                ours(device, folder / "run", arguments.point_seconds)
            with watched(device) as loop:
                plain(device, arguments.point_seconds)
        finally:
            subprocess.run(["losetup", "--detach", device], check=True)
        lines = (folder / "run" / "journal.jsonl").read_text().splitlines()
    entries = [json.loads(line)["entry"] for line in lines]
    gaps = [entry["outcome"]["clocking"] for entry in entries if "clocking" in entry.get("outcome", {})][2:]
    count = len(POINTS) * ROUNDS - 1
    print(f"{'':46}   median      p90    worst")
    spread("suite's own time between two fio processes", [gap["own_gap_us"] / 1000 for gap in gaps], "ms")
    spread("idle before a point, as the suite records it", [gap["idle_gap_ms"] for gap in gaps], "ms")
    spread("idle between points, block layer: suite", sorted(1000 * gap for gap in suite)[-count:], "ms")
    spread("idle between points, block layer: plain loop", sorted(1000 * gap for gap in loop)[-count:], "ms")
    ratio = statistics.median(sorted(suite)[-count:]) / statistics.median(sorted(loop)[-count:])
    print(f"ratio of the medians, suite to plain loop: {ratio:.2f}")


if __name__ == "__main__":
    main()
