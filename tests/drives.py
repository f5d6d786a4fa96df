"""Drives for tests: loop devices on files of their own, mounts, and what can be told of their content."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MIB = 1 << 20


@contextmanager
def loop_device(
    image: Path, size_bytes: int = 0, *, sector_bytes: int = 512, read_only: bool = False
) -> Iterator[Path]:
    """A loop device on ``image``, which is made ``size_bytes`` long if told so; skips where there are none."""
    need_root()
    if size_bytes:
        with image.open("ab") as file:
            file.truncate(size_bytes)
    how = ["--sector-size", str(sector_bytes), *(["--read-only"] if read_only else [])]
    made = subprocess.run(["losetup", "--find", "--show", *how, image], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no loop devices here: {made.stderr.strip()}")
    device = Path(made.stdout.strip())
    _set_as_made(device)
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


def _set_as_made(device: Path) -> None:
    """Make the queue what it was when the kernel made the device: one that was killed in its use keeps its settings."""
    for name, text in (("scheduler", "none"), ("nomerges", "0")):
        (Path("/sys/block") / device.name / "queue" / name).write_text(text)


@contextmanager
def mounted(what: Path | str, on: Path, *options: str) -> Iterator[Path]:
    """A mount for the time of a test, on a folder that is made for it."""
    need_root()
    on.mkdir(exist_ok=True)
    subprocess.run(["mount", *options, what, on], check=True, capture_output=True)
    try:
        yield on
    finally:
        subprocess.run(["umount", on], check=True)


def need_root() -> None:
    """Skip a test that changes the machine where we may not."""
    if os.geteuid() != 0:
        pytest.skip("needs root for loop devices and mounts")


def filled(path: Path, size_bytes: int = MIB, seed: int = 7) -> Path:
    """Fill a new file with somebody's data, all of it random."""
    path.write_bytes(random.Random(seed).randbytes(size_bytes))
    return path


def content(path: Path) -> str:
    """Return the digest of all bytes of a file or device, as they are on the medium."""
    subprocess.run(["blockdev", "--flushbufs", path], check=False, capture_output=True)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def data_map(path: Path) -> tuple[tuple[int, int], ...]:
    """Return (start, end) of each stretch of a sparse file that holds data."""
    found, place = [], 0
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while place < size:
            try:
                start = os.lseek(file.fileno(), place, os.SEEK_DATA)
            except OSError:
                break
            place = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            found.append((start, place))
    return tuple(found)


def allocated_bytes(path: Path) -> int:
    """Return the room that a file takes."""
    os.sync()
    return path.stat().st_blocks * 512


def special(path: Path, kind: str) -> None:
    """Put at ``path`` a ``fifo``, a ``sparse`` file of 20 GB, or a link to the device that ``kind`` names."""
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "sparse":
        path.touch()
        os.truncate(path, 20 * 10**9)
    else:
        path.symlink_to(kind)
