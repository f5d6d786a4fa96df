"""Scrambled or refilled random buffers: what each costs the host, and what it writes.

``python bench/random_data.py [--seconds 2] [--folder DIR]`` runs fio's null engine (the host's cost alone) with both,
side by side, and then looks at what they leave in a file: how far it compresses, and how many blocks repeat.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import zlib
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


def mb_per_second(block_bytes: int, seconds: float, refill: bool) -> float:
    """Return the decimal MB/s of random writes to nowhere, four threads, queue depth 32."""
    argv = [
        "fio", *COMMON, "--ioengine=null", "--size=1g", "--rw=randwrite", f"--bs={block_bytes}", "--iodepth=32",
        "--numjobs=4", "--group_reporting", "--time_based", f"--runtime={round(1000 * seconds)}ms",
        f"--refill_buffers={int(refill)}",
    ]  # fmt: skip
    answer = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
    return float(answer["jobs"][0]["write"]["bw_bytes"]) / 1e6


def content(folder: Path, refill: bool) -> tuple[float, float, float]:
    """Return compressed size, unique 4 KiB blocks and unique 512-byte sectors of 64 MiB written, as shares of one."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        argv = ["fio", *COMMON, "--ioengine=psync", f"--filename={file.name}", "--size=64m", "--rw=write", "--bs=128k"]
        subprocess.run([*argv, f"--refill_buffers={int(refill)}"], check=True, capture_output=True)
        data = Path(file.name).read_bytes()
    return len(zlib.compress(data, 1)) / len(data), unique(data, 4096), unique(data, 512)


def unique(data: bytes, size: int) -> float:
    """Return the share of blocks of ``size`` bytes that occur but once."""
    blocks = [data[start : start + size] for start in range(0, len(data), size)]
    return len(set(blocks)) / len(blocks)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    arguments = parser.parse_args()
    print("host's limit, random writes, MB/s    scrambled     refilled    ratio")
    for name, block_bytes in SHAPES:
        scrambled = mb_per_second(block_bytes, arguments.seconds, refill=False)
        refilled = mb_per_second(block_bytes, arguments.seconds, refill=True)
        print(f"{name:>34} {scrambled:12.0f} {refilled:12.0f} {scrambled / refilled:8.1f}")
    print("64 MiB written, shares of one       compressed to   unique 4 KiB   unique 512 B")
    for name, refill in (("scrambled", False), ("refilled", True)):
        compressed, blocks, sectors = content(arguments.folder, refill)
        print(f"{name:>34} {compressed:14.4f} {blocks:14.4f} {sectors:14.4f}")


if __name__ == "__main__":
    main()
