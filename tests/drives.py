"""Drives for tests: loop devices on new files, mounts, and what is known of their content."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path

import pytest

from snia_pts.lab.device import exclusive_access, target_claim

MIB = 1 << 20
#: In a chroot whose root is not a mount, the propagation of mounts cannot be set; its namespace is already private.
_TRIED = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
UNSHARE = ("unshare", "--mount") if _TRIED.returncode == 0 else ("unshare", "--mount", "--propagation", "unchanged")


@contextmanager
def refused_at_once() -> Iterator[None]:
    """Refuse a target that other processes use without the time that they normally have to close it."""
    with pytest.MonkeyPatch.context() as patches:
        for module in (exclusive_access, target_claim):
            patches.setattr(module, "BRIEF_USE_SECONDS", 0.05)
        yield


@contextmanager
def loop_device(
    image: Path, size_bytes: int = 0, *options: str, sector_bytes: int = 512, read_only: bool = False
) -> Iterator[Path]:
    """Yield a loop device on ``image``, which gets ``size_bytes`` if not 0; skips the test without loop devices.

    ``options`` are those of losetup. The kernel reads its partitions: otherwise it keeps those of an earlier device of
    this name.
    """
    need_root()
    if size_bytes:
        with image.open("ab") as file:
            file.truncate(size_bytes)
    how = ["--sector-size", str(sector_bytes), *(["--read-only"] if read_only else []), *options]
    command = ["losetup", "--find", "--show", "--partscan", *how, str(image)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no loop devices here: {made.stderr.strip()}")
    device = Path(made.stdout.strip())
    _reset_queue(device)
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


def _reset_queue(device: Path) -> None:
    """Reset the queue to the kernel's defaults: a device of a killed test keeps its settings."""
    for name, text in (("scheduler", "none"), ("nomerges", "0")):
        (Path("/sys/block") / device.name / "queue" / name).write_text(text)


@contextmanager
def btrfs_subvolumes(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Yield two subvolumes of a new btrfs, mounted in an existing folder."""
    need_program("mkfs.btrfs", "btrfs-progs")
    with (folder / "file system").open("wb") as file:
        file.truncate(256 * MIB)
    subprocess.run(["mkfs.btrfs", "-q", folder / "file system"], check=True, capture_output=True)
    with loop_device(folder / "file system", 0) as device, mounted(device, folder / "mnt") as place:
        for name in ("first", "second"):
            subprocess.run(["btrfs", "subvolume", "create", place / name], check=True, capture_output=True)
        yield place / "first", place / "second"


@contextmanager
def partitioned(device: Path, *sectors: int) -> Iterator[tuple[Path, ...]]:
    """Yield partitions of ``sectors`` each on a loop device, from sector 2048; skips if the kernel makes none."""
    starts = accumulate(sectors, initial=2048)
    entries = (
        struct.pack("<B3sB3sII", 0, b"", 0x83, b"", start, length)
        for start, length in zip(starts, sectors, strict=False)
    )
    with device.open("r+b") as file:
        file.seek(446)
        file.write(b"".join(entries).ljust(64, b"\0") + b"\x55\xaa")
    parts = tuple(Path(f"{device}p{number}") for number in range(1, len(sectors) + 1))
    if subprocess.run(["partx", "--add", device], check=False, capture_output=True).returncode:
        pytest.skip("no partitions on loop devices here")
    try:
        assert _becomes_true(lambda: all(part.exists() for part in parts))
        yield parts
    finally:
        assert _becomes_true(lambda: _remove_partitions(device)), f"the partitions of {device} stay: one is open"


def _remove_partitions(device: Path) -> bool:
    """Remove the partitions of a device, unless one is open, and return whether it has none."""
    subprocess.run(["partx", "--delete", device], check=False, capture_output=True)
    return not any((Path("/sys/block") / device.name).glob(f"{device.name}p*"))


def _becomes_true(condition: Callable[[], bool]) -> bool:
    """Wait up to 5 s for a condition; return whether it became true."""
    until = time.monotonic() + 5
    while not (met := condition()) and time.monotonic() < until:
        time.sleep(0.02)
    return met


@contextmanager
def mounted(what: Path | str, on: Path, *options: str) -> Iterator[Path]:
    """Mount something for the time of a test, on a new folder."""
    need_root()
    on.mkdir(exist_ok=True)
    subprocess.run(["mount", *options, what, on], check=True, capture_output=True)
    try:
        yield on
    finally:
        subprocess.run(["umount", on], check=True)


def need_root() -> None:
    """Skip a test that changes the machine if it does not run as root."""
    if os.geteuid() != 0:
        pytest.skip("needs root for loop devices and mounts")


def need_program(name: str, package: str) -> None:
    """Skip a test that needs a program which is not installed."""
    if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
        pytest.skip(f"{name} is not installed (apt install {package})")


def make_ext4(device: Path | str, label: str = "") -> None:
    """Make an ext4 file system on a device."""
    need_program("mkfs.ext4", "e2fsprogs")
    subprocess.run(["mkfs.ext4", "-q", "-L", label, device], check=True, capture_output=True)


def filled(path: Path, size_bytes: int = MIB, seed: int = 7) -> Path:
    """Fill a new file with another user's data, all of it random."""
    path.write_bytes(random.Random(seed).randbytes(size_bytes))
    return path


def content(path: Path) -> str:
    """Return the digest of all bytes of a file or device, as stored on the medium."""
    subprocess.run(["blockdev", "--flushbufs", path], check=False, capture_output=True)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def data_map(path: Path) -> tuple[tuple[int, int], ...]:
    """Return (start, end) of each part of a sparse file that holds data."""
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
    """Return the space that a file takes."""
    os.sync()
    return path.stat().st_blocks * 512


def special(path: Path, kind: str) -> None:
    """Put at ``path`` a ``fifo``, a ``sparse`` file of 20 GB, or a symlink to the device that ``kind`` names."""
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "sparse":
        path.touch()
        os.truncate(path, 20 * 10**9)
    else:
        path.symlink_to(kind)


def zfs_marks() -> tuple[tuple[int, bytes], ...]:
    """Return the signatures of the first label of a ZFS pool, with their offsets.

    libblkid before 2.40 looks for uberblocks, later versions for the label's name-value list (XDR: size, decoded size,
    name, type, number, value).
    """

    def text(value: str) -> bytes:
        return struct.pack(">I", len(value)) + value.encode() + bytes(-len(value) % 4)

    def pair(name: str, kind: int, value: bytes) -> bytes:
        body = text(name) + struct.pack(">II", kind, 1) + value
        return struct.pack(">II", 8 + len(body), 16 + len(body)) + body

    def pairs(*data: bytes) -> bytes:
        return struct.pack(">II", 0, 1) + b"".join(data) + bytes(8)

    def number(name: str, value: int) -> bytes:
        return pair(name, 8, struct.pack(">Q", value))

    tree = pairs(pair("type", 9, text("disk")), number("id", 0), number("guid", 3), number("ashift", 12))
    found = pairs(
        number("version", 5000),
        pair("name", 9, text("tank")),
        number("state", 0),
        number("txg", 4),
        number("pool_guid", 2),
        number("top_guid", 3),
        number("guid", 3),
        pair("vdev_tree", 19, tree),
    )
    uberblock = struct.pack("<Q", 0x00BAB10C)
    return (16 * 1024, b"\1\1\0\0" + found), *((128 * 1024 + slot * 1024, uberblock) for slot in range(4))
