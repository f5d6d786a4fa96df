"""Reads what a target says of itself: from sysfs for a block device, from the file system for a file.

It writes nothing.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import re
import stat
import sys
from pathlib import Path
from typing import Literal

from ..dut import Dut, TargetKind
from ..errors import TargetMissing, TargetUnfit
from ..units import MOST, whole_number

ROOT = Path("/")
_UNKNOWN_NAME = "Check the name with snia-pts devices; nothing is ever made below /dev."
_SYSFS_SECTOR_BYTES = 512
_GET_GENERATION = 0x80087601  # FS_IOC_GETVERSION of linux/fs.h
#: What a drive says of itself that does not change.
_TRAITS = (
    "size", "queue/logical_block_size", "device/model", "device/serial", "serial", "device/vpd_pg80",
    "loop/backing_file",
)  # fmt: skip
#: What the place of a device in sysfs tells of its bus; the first that fits.
_BUSES = (
    ("/nvme", "NVMe"), ("/usb", "USB"), ("/ata", "SATA"), ("/virtio", "virtio"), ("/mmc_host/", "MMC"),
    ("/host", "SCSI"), ("/virtual/", "virtual"),
)  # fmt: skip


def read_dut(path: Path, *, size_bytes: int | None = None, root: Path = ROOT) -> Dut:
    """Return the facts of the target at ``path``; of a file that is yet to be made, given its ``size_bytes``.

    Raises TargetMissing and TargetUnfit.
    """
    real = Path(os.path.realpath(path))
    try:
        status = real.stat()
    except FileNotFoundError:
        if real.is_relative_to("/dev"):
            raise TargetMissing(path=path, hint=_UNKNOWN_NAME) from None
        if size_bytes is None:
            raise TargetMissing(path=path) from None
        return _file(real, size_bytes, 512)
    except OSError as error:
        raise TargetUnfit(path=path, reason=f"it cannot be looked at ({error.strerror})") from None
    if stat.S_ISBLK(status.st_mode):
        return block_dut(real, block_directory(status.st_rdev, root), root)
    if stat.S_ISREG(status.st_mode):
        size = status.st_size if size_bytes is None else size_bytes
        if size == 0:
            raise TargetUnfit(path=path, reason="the file is empty", hint="Give its size, for example --size 1G.")
        return _file(real, size, direct_sector_bytes(real))
    raise TargetUnfit(
        path=path,
        reason="it is neither a block device nor a regular file",
        hint="Name a drive, as snia-pts devices shows them.",
    )


def block_directory(device_number: int, root: Path = ROOT) -> Path:
    """Return the sysfs folder of a block device number."""
    return (root / f"sys/dev/block/{os.major(device_number)}:{os.minor(device_number)}").resolve()


def block_dut(path: Path, block: Path, root: Path = ROOT) -> Dut:
    """Return the facts that the sysfs folder ``block`` holds of the block device ``path``.

    Raises TargetUnfit for what is no whole drive, or has no size.
    """
    if (block / "partition").exists():
        whole = f"/dev/{block.parent.name}"
        raise TargetUnfit(path=path, reason=f"it is a partition of {whole}", hint="A test takes a whole drive.")
    sectors = whole_number(attribute(block / "size")) or 0
    if sectors == 0:
        raise TargetUnfit(path=path, reason="it has no size (no medium, or an unbound loop device)")
    if sectors > MOST // _SYSFS_SECTOR_BYTES:
        raise TargetUnfit(path=path, reason=f"no drive has the size that it tells ({sectors} x 512 bytes)")
    kind = _kind(block)
    serial = _serial(block, root)
    return Dut(
        path=str(path),
        kind=kind,
        model=_model(block) or (f"virtual device {block.name}" if kind == "virtual device" else ""),
        serial=serial,
        firmware=_first(block, "device/firmware_rev", "device/rev"),
        bus="loop" if kind == "loop device" else _bus(block),
        capacity_bytes=sectors * _SYSFS_SECTOR_BYTES,
        logical_sector_bytes=_number(block / "queue/logical_block_size", 512),
        physical_sector_bytes=_number(block / "queue/physical_block_size", 512),
        rotational={"0": False, "1": True}.get(attribute(block / "queue/rotational")),
        write_cache=_write_cache(block),
        discard=_number(block / "queue/discard_max_bytes", 0) > 0,
        instance=None if serial else _attachment(block, root),
    )


def traits(block: Path, root: Path = ROOT) -> tuple[tuple[Path, bytes], ...]:
    """Return what a block device says of itself that stays the same as long as the drive does, file by file.

    The files are those of its name: what has that name later is looked at.
    """
    place = root / "sys/class/block" / block.name
    return tuple((place / name, text) for name in _TRAITS if (text := raw(place / name)))


def raw(path: Path) -> bytes:
    """Return what a sysfs attribute holds, nothing where the kernel has none, or none any more; the quickest way.

    Raises OSError where this process or host is at a limit of its own.
    """
    descriptor = -1
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return os.read(descriptor, 4096)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        return b""
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def attribute(path: Path) -> str:
    """Return the text of an attribute of /sys or /proc, an empty one where the kernel has none."""
    try:
        return path.read_bytes().decode("utf-8", "replace").strip("\0 \n\t")
    except OSError:
        return ""


def direct_sector_bytes(path: Path) -> int:
    """Return the smallest transfer that the file's file system takes with direct I/O: 512 or 4096 bytes.

    Raises TargetUnfit where it takes no direct I/O at all.  Reads only.
    """
    buffer = mmap.mmap(-1, 4096)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    except OSError as error:
        raise TargetUnfit(
            path=path, reason=f"it cannot be opened for direct I/O ({error.strerror})",
            hint="Choose a file you may read, on a file system with O_DIRECT (not tmpfs before Linux 6.6).",
        ) from None  # fmt: skip
    try:
        for size in (512, 4096):
            if _reads(descriptor, buffer, size):
                return size
    finally:
        os.close(descriptor)
    raise TargetUnfit(path=path, reason="its file system takes no direct I/O")


def _reads(descriptor: int, buffer: mmap.mmap, size: int) -> bool:
    try:
        os.preadv(descriptor, [memoryview(buffer)[:size]], 0)
    except OSError:
        return False
    return True


def _file(path: Path, size_bytes: int, sector_bytes: int) -> Dut:
    whole = size_bytes // sector_bytes * sector_bytes
    if whole == 0:
        reason = f"{size_bytes} bytes are less than one sector of {sector_bytes}"
        raise TargetUnfit(path=path, reason=reason, hint="Give it a size with its unit, for example --size 1G.")
    return Dut(
        path=str(path),
        kind="file",
        model=f"file {path.name}",
        serial="",
        firmware="",
        bus="file system",
        capacity_bytes=whole,
        logical_sector_bytes=sector_bytes,
        physical_sector_bytes=sector_bytes,
        rotational=None,
        write_cache="unknown",
        discard=True,
        instance=_generation(path),
    )


def _generation(path: Path) -> str | None:
    """What tells a file from one that took its place: an inode is used again, with another generation number."""
    number = bytearray(8)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.ioctl(descriptor, _GET_GENERATION, number)
        return f"inode {os.fstat(descriptor).st_ino}, generation {int.from_bytes(number[:4], sys.byteorder)}"
    except OSError:  # not every file system has them
        return None
    finally:
        os.close(descriptor)


def _attachment(block: Path, root: Path) -> str | None:
    """What the kernel counts up whenever a disk comes or its medium is changed, since the host was started."""
    boot, number = attribute(root / "proc/sys/kernel/random/boot_id"), attribute(block / "diskseq")
    return f"boot {boot}, disk {number}" if boot and number else None


def _kind(block: Path) -> TargetKind:
    """A device that the kernel makes of something else is no drive; one that names its device is."""
    if (block / "loop").is_dir():
        return "loop device"
    return "virtual device" if "/devices/virtual/block/" in str(block.resolve()) else "drive"


def _model(block: Path) -> str:
    """The drive's own words; of a device that is made of something else, what the kernel calls that."""
    vendor, model = attribute(block / "device/vendor"), attribute(block / "device/model")
    if model or vendor:
        return model if vendor in ("", "ATA") or vendor.startswith("0x") else f"{vendor} {model}".strip()
    for name, words in (("loop/backing_file", "loop device on"), ("dm/name", "device mapper"), ("md/level", "RAID")):
        if text := attribute(block / name):
            return f"{words} {text}"
    return ""


def _serial(block: Path, root: Path) -> str:
    """The serial number: from sysfs, else from the SCSI unit serial number page, else from udev."""
    plain = _first(block, "device/serial", "serial")
    if plain:
        return plain
    try:
        page = (block / "device/vpd_pg80").read_bytes()[4:].decode("ascii", "replace").strip("\0 ")
    except OSError:
        page = ""
    number = re.fullmatch(r"[0-9]{1,9}:[0-9]{1,9}", attribute(block / "dev"))
    udev = attribute(root / "run/udev/data" / f"b{number[0]}") if number else ""
    found = re.search(r"^E:ID_SERIAL_SHORT=(.+)$", udev, re.MULTILINE)
    return page or (found[1].strip() if found else "")


def _bus(block: Path) -> str:
    """The bus by the device's place in sysfs; a SATA drive behind a SAS controller names ATA as its vendor."""
    place = str(block).partition("/sys/")[2]
    name = next((name for part, name in _BUSES if part in f"/{place}"), "unknown")
    if name == "SCSI" and attribute(block / "device/vendor") == "ATA":
        return "SATA"
    transport = attribute(block / "device/transport") if name == "NVMe" else ""
    return name if transport in ("", "pcie") else f"{name}/{transport.upper()}"


def _write_cache(block: Path) -> Literal["enabled", "disabled", "unknown"]:
    kernel = attribute(block / "queue/write_cache")
    return "enabled" if kernel == "write back" else "disabled" if kernel == "write through" else "unknown"


def _first(block: Path, *names: str) -> str:
    return next((text for name in names if (text := attribute(block / name))), "")


def _number(path: Path, default: int) -> int:
    number = whole_number(attribute(path)) or default
    return number if number <= MOST else default
