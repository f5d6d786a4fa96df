"""The time between two points: the suite's own, and the device's idle time as the block layer sees it.

``python bench/gap.py [--folder DIR] [--point-seconds 1] [--rounds 2]`` (root) makes a loop device on a file in DIR, and
runs rounds of 56 points on it: with the suite, and as a plain loop that starts fio with its defaults for each point, as
the peers do.  A process of its own watches /sys/block/loopN/stat all the while.
``--tkperf CHECKOUT --tkperf-python PYTHON`` lets TKperf do its IOPS test too, for as long as the plain loop took.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

#: A pause from its beginning to its end, in ms of the monotonic clock.
Idle = tuple[float, float]

SHORTEST_IDLE_MS = 0.5
MIXES = (100, 95, 65, 50, 35, 5, 0)
SIZES_KIB = (1024, 128, 64, 32, 16, 8, 4, 0.5)
#: What lies around the moments that the suite tells may belong to its pause.
AROUND_MS = 100.0
MOMENTS = ("started_monotonic_ns", "ended_monotonic_ns")


def sample(stat: Path, stop: Event, idles: multiprocessing.Queue[list[Idle]]) -> None:
    """Collect the times in which the device had nothing to do and did nothing, until told to stop."""
    found: list[Idle] = []
    before, since = "", 1000 * time.monotonic()
    with stat.open() as file:
        while not stop.is_set():
            file.seek(0)
            fields = file.read().split()
            now, state = 1000 * time.monotonic(), f"{fields[0]} {fields[4]}"
            if state != before or fields[8] != "0":
                if now - since > SHORTEST_IDLE_MS:
                    found.append((since, now))
                before, since = state, now
            time.sleep(0.0001)
    idles.put(found)


@contextmanager
def watched(device: str) -> Iterator[list[Idle]]:
    """Watch ``device`` and fill the list with its idle times."""
    stop = multiprocessing.Event()
    idles: multiprocessing.Queue[list[Idle]] = multiprocessing.Queue()
    stat = Path("/sys/block") / Path(device).name / "stat"
    watcher = multiprocessing.Process(target=sample, args=(stat, stop, idles))
    watcher.start()
    found: list[Idle] = []
    try:
        yield found
    finally:
        stop.set()
        found += idles.get()
        watcher.join()


def ours(device: str, run: Path, seconds: float, rounds: int) -> None:
    """Run the suite on ``device``."""
    argv = [
        sys.executable, "-m", "snia_pts", "iops", device, "--serial", Path(device).name, "--run-dir", str(run),
        "--point-seconds", str(seconds), "--set", f"steady_state.window_rounds={rounds}", "--max-rounds", str(rounds),
        "--to", "none",
    ]  # fmt: skip
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    if done.returncode not in (0, 10):
        raise SystemExit(done.stderr)


def plain(device: str, seconds: float) -> None:
    """Measure the points of a round as the peers do."""
    for mix, size in itertools.product(MIXES, SIZES_KIB):
        plain_point(device, mix, size, seconds)


def plain_point(device: str, mix: int, size_kib: float, seconds: float) -> None:
    """Start fio for a point with its default clock and engine, and read its JSON."""
    argv = [
        "fio", "--name=x", f"--filename={device}", "--direct=1", "--ioengine=libaio", "--rw=randrw",
        f"--rwmixread={mix}", f"--bs={round(1024 * size_kib)}", "--iodepth=32", "--numjobs=4", "--group_reporting",
        "--time_based", f"--runtime={round(1000 * seconds)}ms", "--norandommap", "--randrepeat=0",
        "--output-format=json",
    ]  # fmt: skip
    json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)


def tkperf(device: str, seconds: float, limit_seconds: float, checkout: Path, python: Path, folder: Path) -> None:
    """Let TKperf test ``device`` for a while, and end it."""
    argv = [
        str(python), str(checkout / "scripts" / "tkperf"), "ssd", "gap", device, "-rt", str(max(1, round(seconds))),
        "-nj", "4", "-iod", "32", "-ft", "-ssdt", "iops",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "MPLBACKEND": "agg"}
    with subprocess.Popen(
        argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            process.wait(limit_seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def between(idles: Sequence[Idle], points: Sequence[dict[str, Any]]) -> list[float]:
    """Return the longest pause that the block layer saw around the moment between each two points, in ms."""
    found = []
    for before, after in itertools.pairwise(points):
        first, last = before["ended_monotonic_ns"] / 1e6 - AROUND_MS, after["started_monotonic_ns"] / 1e6 + AROUND_MS
        found.append(max((end - start for start, end in idles if start >= first and end <= last), default=0.0))
    return found


def longest(idles: Sequence[Idle], count: int) -> list[float]:
    """Return so many of the longest pauses, in ms: those between points, where points have no pauses of their own."""
    return sorted(end - start for start, end in idles)[-count:]


def spread(name: str, values: Sequence[float]) -> float:
    """Print median, 90th percentile and worst; return the median."""
    ordered = sorted(values)
    p90 = ordered[int(0.9 * (len(ordered) - 1))]
    print(f"{name:46} {statistics.median(ordered):8.2f} {p90:8.2f} {ordered[-1]:8.2f} ms  ({len(ordered)})")
    return statistics.median(ordered)


def rounds_of(journal: Path) -> list[list[dict[str, Any]]]:
    """Return the clockings of the points of each round of a journal."""
    rounds: list[list[dict[str, Any]]] = []
    for entry in (json.loads(line)["entry"] for line in journal.read_text().splitlines()):
        if entry["kind"] == "asked":
            rounds.append([])
        elif "clocking" in entry.get("outcome", {}):
            rounds[-1].append(entry["outcome"]["clocking"])
    return [each for each in rounds if len(each) > 1]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--point-seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tkperf", type=Path, metavar="CHECKOUT")
    parser.add_argument("--tkperf-python", type=Path, metavar="PYTHON", default=Path(sys.executable))
    arguments = parser.parse_args()
    seconds, peers = arguments.point_seconds, dict[str, list[Idle]]()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        with (folder / "drive.img").open("wb") as file:
            file.truncate(128 << 20)
        argv = ["losetup", "--find", "--show", str(folder / "drive.img")]
        device = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
        try:
            with watched(device) as suite:
                ours(device, folder / "run", seconds, arguments.rounds)
            with watched(device) as peers["plain loop"]:
                began = time.monotonic()
                plain(device, seconds)
                took = time.monotonic() - began
            if arguments.tkperf:
                with watched(device) as peers["TKperf"]:
                    tkperf(device, seconds, took, arguments.tkperf, arguments.tkperf_python, folder)
        finally:
            subprocess.run(["losetup", "--detach", device], check=True)
        rounds = rounds_of(folder / "run" / "journal.jsonl")
    within = [gap for points in rounds for gap in points[1:]]
    print(f"{'':46}   median      p90    worst")
    spread("the suite's own time before a point", [gap["own_gap_us"] / 1000 for gap in within])
    spread("idle before a point, as the suite records it", [gap["idle_gap_ms"] for gap in within])
    ours_ms = spread(
        "idle between points, block layer: suite", [g for points in rounds for g in between(suite, points)]
    )
    spread("the same between two rounds", [points[0]["idle_gap_ms"] for points in rounds[1:]])
    count = len(MIXES) * len(SIZES_KIB) - 1
    for peer, idles in peers.items():
        theirs_ms = spread(f"idle between points, block layer: {peer}", longest(idles, count))
        print(f"ratio of the medians, suite to {peer}: {ours_ms / theirs_ms:.3f}")
    for points in rounds:
        wall = (points[-1]["ended_monotonic_ns"] - points[0]["started_monotonic_ns"]) / 1e9
        asked = len(points) * seconds
        print(f"wall time of a round of {len(points)} points: {wall:.3f} s, {wall / asked:.4f} of what was asked")


if __name__ == "__main__":
    main()
