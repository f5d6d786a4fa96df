"""Scrambled or refilled random buffers: the cost of each on the host, and the written data.

``python bench/random_data.py [--seconds 1] [--fast DIR]`` writes with both, in turns, to fio's null engine (the host's
limit) and to a file in memory (DIR, /dev/shm by default: the fastest possible target). Then it examines the written
data: its compressibility, and how many blocks repeat.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

COMMON = (
    "--name=x",
    "--thread",
    "--clocksource=clock_gettime",
    "--randrepeat=0",
    "--norandommap",
    "--output-format=json",
)
SHAPES = (("4 KiB", 4096), ("128 KiB", 131072), ("1024 KiB", 1048576))


NOWHERE = ("--ioengine=null", "--size=1g")


def mb_per_second(target: Sequence[str], block_bytes: int, seconds: float, refill: bool) -> float:
    """Return the decimal MB/s of random writes to ``target``, one thread, queue depth 32."""
    argv = [
        "fio",
        *COMMON,
        *target,
        "--rw=randwrite",
        f"--bs={block_bytes}",
        "--iodepth=32",
        "--time_based",
        f"--runtime={round(1000 * seconds)}ms",
        f"--refill_buffers={int(refill)}",
    ]
    answer = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
    return float(answer["jobs"][0]["write"]["bw_bytes"]) / 1e6


def compare(name: str, target: Sequence[str], seconds: float) -> None:
    """Print the medians of three turns of both, for each block size."""
    for shape, block_bytes in SHAPES:
        mb_per_second(target, block_bytes, seconds, refill=False)  # warms up; not counted
        turns = [[mb_per_second(target, block_bytes, seconds, refill) for refill in (False, True)] for _ in range(3)]
        scrambled, refilled = (statistics.median(turn[which] for turn in turns) for which in (0, 1))
        print(f"{name + ' ' + shape:>34} {scrambled:14.0f} {refilled:14.0f} {refilled / scrambled:10.2f}")


def content(folder: Path, refill: bool) -> tuple[float, float, float]:
    """Return shares of 64 MiB written: compressed size by 4 KiB, unique 4 KiB blocks, unique 512-byte blocks."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        argv = ["fio", *COMMON, "--ioengine=psync", f"--filename={file.name}", "--size=64m", "--rw=write", "--bs=128k"]
        subprocess.run([*argv, f"--refill_buffers={int(refill)}"], check=True, capture_output=True)
        data = Path(file.name).read_bytes()
    pages = [data[start : start + 4096] for start in range(0, len(data), 4096)]
    compressed = sum(len(zlib.compress(page, 9)) for page in pages) / len(data)
    return compressed, unique(data, 4096), unique(data, 512)


def unique(data: bytes, size: int) -> float:
    """Return the share of blocks of ``size`` bytes that occur only once."""
    blocks = [data[start : start + size] for start in range(0, len(data), size)]
    return len(set(blocks)) / len(blocks)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--fast", type=Path, default=Path("/dev/shm"))  # noqa: S108 - memory is what is wanted
    arguments = parser.parse_args()
    print(f"{'random writes, MB/s':>34}      scrambled       refilled      ratio")
    compare("nowhere", NOWHERE, arguments.seconds)
    with tempfile.NamedTemporaryFile(dir=arguments.fast) as file:
        os.posix_fallocate(file.fileno(), 0, 1 << 30)
        memory = (f"--filename={file.name}", "--size=1g", "--direct=1", "--ioengine=io_uring")
        compare("memory", memory, arguments.seconds)
    print(f"{'64 MiB written, shares of one':>34}  compressed to   unique 4 KiB   unique 512 B")
    for name, refill in (("scrambled", False), ("refilled", True)):
        compressed, blocks, sectors = content(arguments.fast, refill)
        print(f"{name:>34} {compressed:14.4f} {blocks:14.4f} {sectors:14.4f}")


if __name__ == "__main__":
    main()
