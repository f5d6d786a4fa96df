"""The time between two points, and the suite's resource usage during points, compared with other tools.

``python bench/gap.py [--folder DIR] [--point-seconds 1] [--rounds 2]`` (root) makes a loop device on a file in DIR, and
runs rounds of 56 points on it: with the suite, and with a plain loop that starts fio with its defaults for each point.
A separate process watches /sys/block/loopN/stat all the time. ``--tkperf CHECKOUT --tkperf-python PYTHON`` and
``--cloudharmony CHECKOUT`` (block-storage, with php) run the IOPS tests of these tools as well, for the time that the
plain loop took plus the time for which they sleep first. ``--alone`` runs the suite only; ``--mixes`` and ``--sizes``
(KiB) reduce the points: ``--alone --point-seconds 60 --mixes 100 65 0 --sizes 1024 64 4`` takes 18 minutes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import multiprocessing
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.peers import Reading, cloudharmony, readings, started, tkperf
from tests.drives import MIB, loop_device

#: A pause from its start to its end, in ms of the monotonic clock.
Idle = tuple[float, float]

SHORTEST_IDLE_MS = 0.5
MIXES = (100, 95, 65, 50, 35, 5, 0)
SIZES_KIB = (1024.0, 128.0, 64.0, 32.0, 16.0, 8.0, 4.0, 0.5)
#: fio sleeps at least this long before it starts: starting one for each point leaves the device idle for longer.
FIO_MS = 100.0
#: The time for which the other tools sleep before their points.
SLEPT_SECONDS = 15.0
#: Of a window.
LEAST_ROUNDS = 2
#: A pause may include this much before and after the times that the suite records.
AROUND_MS = 100.0
MOMENTS = ("started_monotonic_ns", "ended_monotonic_ns")


def sample(stat: Path, stop: Event, idles: multiprocessing.Queue[list[Idle]]) -> None:
    """Collect the device's idle times until ``stop`` is set."""
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


def ours(device: str, run: Path, arguments: argparse.Namespace) -> list[Reading]:
    """Run the suite on ``device``; return readings of its resource usage."""
    values = {
        "steady_state.window_rounds": arguments.rounds,
        "rounds.maximum": arguments.rounds,
        "rounds.point_seconds": arguments.point_seconds,
        "rounds.read_percents": arguments.mixes,
        "rounds.block_sizes_kib": arguments.sizes,
    }
    argv: list[str | Path] = [
        sys.executable,
        "-m",
        "snia_pts",
        "iops",
        device,
        "--serial",
        Path(device).name,
        "--run-dir",
        run,
        "--to",
        "none",
        *(f"--set={key}={json.dumps(value)}" for key, value in values.items()),
    ]
    process = started(argv, run.parent)
    usage = list(readings(process, math.inf))
    if process.returncode not in (0, 10):
        raise SystemExit(f"the suite ended with {process.returncode}: {' '.join(map(str, argv))}")
    return usage


def plain(device: str, seconds: float, mixes: Sequence[int], sizes_kib: Sequence[float]) -> None:
    """Measure the points of a round like the peers."""
    for mix, size in itertools.product(mixes, sizes_kib):
        plain_point(device, mix, size, seconds)


def plain_point(device: str, mix: int, size_kib: float, seconds: float) -> None:
    """Start fio for a point with its default clock and engine, and read its JSON."""
    argv = [
        "fio",
        "--name=x",
        f"--filename={device}",
        "--direct=1",
        "--ioengine=libaio",
        "--rw=randrw",
        f"--rwmixread={mix}",
        f"--bs={round(1024 * size_kib)}",
        "--iodepth=32",
        "--numjobs=4",
        "--group_reporting",
        "--time_based",
        f"--runtime={round(1000 * seconds)}ms",
        "--norandommap",
        "--randrepeat=0",
        "--output-format=json",
    ]
    json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)


def between(idles: Sequence[Idle], points: Sequence[dict[str, Any]]) -> list[float]:
    """Return the longest pause of the block device around the time between each two points, in ms."""
    pauses = []
    for before, after in itertools.pairwise(points):
        first, last = before["ended_monotonic_ns"] / 1e6 - AROUND_MS, after["started_monotonic_ns"] / 1e6 + AROUND_MS
        pauses.append(max((end - start for start, end in idles if start >= first and end <= last), default=0.0))
    return pauses


def longest(idles: Sequence[Idle], count: int) -> list[float]:
    """Return the ``count`` longest pauses in ms: those between points, if there are none within points."""
    return sorted(end - start for start, end in idles)[-count:]


def spread(name: str, values: Sequence[float]) -> float:
    """Print median, 90th percentile and worst; return the median."""
    ordered = sorted(values)
    p90 = ordered[int(0.9 * (len(ordered) - 1))]
    print(f"{name:46} {statistics.median(ordered):8.2f} {p90:8.2f} {ordered[-1]:8.2f} ms  ({len(ordered)})")
    return statistics.median(ordered)


def rounds_of(journal: Path) -> list[list[dict[str, Any]]]:
    """Return the timings of the points of each round of a journal, with their runtimes."""
    rounds: list[list[dict[str, Any]]] = []
    for entry in (json.loads(line)["entry"] for line in journal.read_text().splitlines()):
        if entry["kind"] == "step":
            rounds.append([])
        elif "timing" in entry.get("outcome", {}):
            outcome = entry["outcome"]
            runtime = max(outcome[side]["runtime_ms"] for side in ("read", "write"))
            rounds[-1].append({**outcome["timing"], "runtime_ms": runtime})
    return [measured_round for measured_round in rounds if len(measured_round) > 1]


def taken(name: str, found: Sequence[Reading], first: float, last: float) -> None:
    """Print the resource usage of a process between two times of the monotonic clock, in seconds."""
    during = [item for item in found if first <= item.at <= last]
    if len(during) < 2:
        print(f"{name:46} was not seen twice")
        return
    one, other = during[0], during[-1]
    cpu = 100 * (other.cpu_seconds - one.cpu_seconds) / (other.at - one.at)
    print(f"{name:46} {other.peak_mib:8.1f} {other.shared_mib:8.1f} {other.own_mib:8.1f} MiB {cpu:8.2f} %")


def peers_of(device: str, arguments: argparse.Namespace, folder: Path) -> Mapping[str, Callable[[], Any]]:
    """Return the requested peers, as functions that start them."""
    seconds, peers = arguments.point_seconds, dict[str, Callable[[], Any]]()
    if arguments.tkperf:
        peers["TKperf"] = partial(tkperf, device, seconds, arguments.tkperf, arguments.tkperf_python, folder)
    if arguments.cloudharmony:
        peers["CloudHarmony"] = partial(cloudharmony, device, seconds, arguments.cloudharmony, folder)
    return peers


def wall_times(rounds: Sequence[Sequence[dict[str, Any]]], seconds: float) -> None:
    """Print the durations of rounds, first to last I/O, relative to their points' runtimes and the requested time."""

    def line(name: str, points: Sequence[dict[str, Any]]) -> None:
        wall = (points[-1]["ended_monotonic_ns"] - points[0]["started_monotonic_ns"]) / 1e9
        ran, requested = sum(point["runtime_ms"] for point in points) / 1000, len(points) * seconds
        ratios = f"{wall / ran:.4f} of its points' runtimes, {wall / requested:.4f} of the requested time"
        print(f"{name} of {len(points)} points of {seconds:g} s: {wall:.3f} s, {ratios}")

    for points in rounds:
        line("a round", points)
    line("all rounds", list(itertools.chain(*rounds)))


def parsed() -> argparse.Namespace:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--point-seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--mixes", type=int, nargs="+", default=MIXES, metavar="PERCENT")
    parser.add_argument("--sizes", type=float, nargs="+", default=SIZES_KIB, metavar="KIB")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--tkperf", type=Path, metavar="CHECKOUT")
    parser.add_argument("--tkperf-python", type=Path, metavar="PYTHON", default=Path(sys.executable))
    parser.add_argument("--cloudharmony", type=Path, metavar="CHECKOUT")
    arguments = parser.parse_args()
    if arguments.rounds < LEAST_ROUNDS:
        parser.error(f"the suite makes {LEAST_ROUNDS} rounds at least")
    if arguments.cloudharmony and not shutil.which("php"):
        parser.error("CloudHarmony's program needs php (php-cli)")
    return arguments


def main() -> None:
    """Measure and print."""
    arguments = parsed()
    seconds, idles, took = arguments.point_seconds, dict[str, list[Idle]](), dict[str, list[Reading]]()
    with (
        tempfile.TemporaryDirectory(dir=arguments.folder) as name,
        loop_device(Path(name) / "drive.img", 128 * MIB) as made,
    ):
        device = str(made)
        folder = Path(name)
        with watched(device) as suite:
            mine = ours(device, folder / "run", arguments)
        rounds = rounds_of(folder / "run" / "journal.jsonl")
        if not arguments.alone:
            began = time.monotonic()
            with watched(device) as idles["plain loop"]:
                plain(device, seconds, arguments.mixes, arguments.sizes)
            limit = time.monotonic() - began + SLEPT_SECONDS
            for peer, start in peers_of(device, arguments, folder).items():
                with watched(device) as idles[peer]:
                    took[peer] = list(readings(start(), limit))
    print(f"{'':46}   median      p90    worst")
    within = [point for points in rounds for point in points[1:]]
    spread("the suite's own time before a point", [point["suite_gap_us"] / 1000 for point in within])
    spread("idle before a point, as the suite records it", [point["idle_gap_ms"] for point in within])
    median_ms = spread("idle between points: suite", [gap for points in rounds for gap in between(suite, points)])
    spread("the same between two rounds", [points[0]["idle_gap_ms"] for points in rounds[1:]])
    for peer, idle in idles.items():
        expected = len(arguments.mixes) * len(arguments.sizes) - 1 if peer == "plain loop" else len(idle)
        count = min(expected, sum(end - start > FIO_MS for start, end in idle))
        theirs_ms = spread(f"idle between points: {peer}", longest(idle, count))
        print(f"ratio of the medians, suite to {peer}: {median_ms / theirs_ms:.3f}")
    wall_times(rounds, seconds)
    print(f"{'while points were measured':46} peak RSS  its Pss  its Uss       CPU of one core")
    taken("the suite", mine, rounds[0][0]["started_monotonic_ns"] / 1e9, rounds[-1][-1]["ended_monotonic_ns"] / 1e9)
    for peer, theirs in took.items():
        taken(peer, theirs, theirs[len(theirs) // 2].at, theirs[-1].at)


if __name__ == "__main__":
    main()
