"""Read the facts of a target: from sysfs for a block device, from the file system for a file.  Nothing is written."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import re
import stat
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from ...errors import KernelFilesMissing, TargetMissing, TargetUnfit
from ...files import shell_quoted
from ...model.dut import Dut, TargetKind
from ...units import MAX_QUANTITY, capacity, exact_capacity, whole_number

ROOT = Path("/")
_UNKNOWN_NAME = "Check the name with snia-pts devices; snia-pts never creates a file below /dev."
_OTHER_PATH = "Use a path of this mount namespace."
_SYSFS_SECTOR_BYTES = 512
_GET_GENERATION = 0x80087601  # FS_IOC_GETVERSION of linux/fs.h
_BTRFS_INFORMATION, _BTRFS_INFORMATION_BYTES = 0x8400941F, 1024  # BTRFS_IOC_FS_INFO of linux/btrfs.h
#: linux/stat.h and linux/fcntl.h: the size of struct statx, the offset and mask of the birth time, and flags.
_STATX_BYTES, _BTIME_OFFSET, _STATX_BTIME, _AT_EMPTY_PATH = 256, 0x50, 0x800, 0x1000
_AT_FDCWD, _AT_STATX_DONT_SYNC, _STATX_TYPE, _STATX_INO = -100, 0x4000, 0x1, 0x100
#: statx(2), which Python does not offer before 3.15; None in an old C library.
_statx = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)
#: The names of drives in /dev: without their folder they are not taken for names of files.
_DRIVE_NAME = re.compile(r"(nvme\d+n\d+|(s|v|xv|h)d[a-z]+|mmcblk\d+|md\d+|loop\d+|nbd\d+|zram\d+|dm-\d+)(p?\d+)?")
#: Files of sysfs that identify a drive and do not change.
_TRAITS = (
    "size",
    "queue/logical_block_size",
    "device/model",
    "device/serial",
    "serial",
    "device/vpd_pg80",
    "wwid",
    "device/wwid",
    "loop/backing_file",
    "loop/offset",
    "loop/sizelimit",
)
#: Part of a device's path in sysfs, and its bus; the first match counts.
_BUSES = (
    ("/nvme", "NVMe"),
    ("/usb", "USB"),
    ("/ata", "SATA"),
    ("/virtio", "virtio"),
    ("/mmc_host/", "MMC"),
    ("/host", "SCSI"),
    ("/virtual/", "virtual"),
)


def read_dut(path: Path, *, size_bytes: int | None = None, root: Path = ROOT) -> Dut:
    """Return the facts of the target at ``path``, or of a file of ``size_bytes`` that does not exist yet.

    Raises KernelFilesMissing, TargetMissing, TargetUnfit.
    """
    require_kernel_files(root)
    real = resolved(path)
    try:
        status = real.stat()
    except FileNotFoundError:
        if real.is_relative_to("/dev"):
            raise TargetMissing(path=path, hint=_UNKNOWN_NAME) from None
        if _DRIVE_NAME.fullmatch(str(path)):
            raise TargetMissing(path=path, hint=f"Did you mean /dev/{path}? {_UNKNOWN_NAME}") from None
        if size_bytes is None:
            raise TargetMissing(path=path) from None
        return _file_dut(real, size_bytes, 512)
    except OSError as error:
        raise TargetUnfit(path=path, reason=f"it cannot be examined ({error.strerror})") from None
    if stat.S_ISBLK(status.st_mode):
        return block_dut(real, block_directory(status.st_rdev, root), root)
    if stat.S_ISREG(status.st_mode):
        size = status.st_size if size_bytes is None else size_bytes
        if size == 0:
            raise TargetUnfit(path=path, reason="the file is empty", hint="Give its size, for example --size 1G.")
        return _file_dut(real, size, direct_sector_bytes(real))
    if stat.S_ISDIR(status.st_mode):
        hint = f"Name a drive or a file; to test in a directory, use snia-pts profile run NAME {shell_quoted(path)}."
        raise TargetUnfit(path=path, reason="it is a directory", hint=hint)
    raise TargetUnfit(
        path=path,
        reason="it is neither a block device nor a regular file",
        hint="Name a drive listed by snia-pts devices.",
    )


def resolved(path: Path) -> Path:
    """Return the absolute path without symlinks that leads to the same file as ``path``; of a device, its node in /dev.

    A magic link (``/proc/PID/root``, ``/proc/PID/fd/N``) and a working directory hidden by a later mount lead to other
    files than the resolved path.  For a file that does not exist yet, the folders are compared.  Raises TargetUnfit if
    the resolved path leads to another file, TargetMissing for a dangling symlink.
    """
    try:
        real = Path(os.path.realpath(path))
    except FileNotFoundError:
        reason = "it is a relative path, and the working directory was removed"
        raise TargetUnfit(path=path, reason=reason, hint="Give an absolute path.") from None
    except OSError as error:  # the root or working directory of another user's process in /proc
        raise TargetUnfit(path=path, reason=f"{error.filename}: {error.strerror}", hint=_OTHER_PATH) from None
    original, target = path, real
    if _is_missing(path):
        if path.is_symlink():
            hint = _UNKNOWN_NAME if real.is_relative_to("/dev") else "Name the file itself."
            raise TargetMissing(path=f"{path} (a symlink to {real})", hint=hint)
        original, target = path.parent, real.parent
        if _is_missing(original) and not _is_missing(target):  # such as no/../new.img
            raise TargetMissing(path=original)
    if _node_numbers(original) != _node_numbers(target):
        kind = "file" if original == path else "folder"
        reason = f"it leads to another {kind} than its resolved path {real}"
        raise TargetUnfit(path=path, reason=reason, hint=_OTHER_PATH)
    return _kernel_node(real)


def _kernel_node(path: Path) -> Path:
    """Return the node in ``/dev`` with the kernel's name of a block device; any other path, or without one, unchanged.

    Another node of the device (``mknod``) can have any name, also that of another device, and the name is what
    identifies a device without a serial number.
    """
    numbers = _node_numbers(path)
    if numbers is None or not path.is_block_device():
        return path
    node = Path("/dev", block_directory(numbers[2]).name.replace("!", "/"))
    same = node.is_block_device() and (found := _node_numbers(node)) is not None and found[2] == numbers[2]
    return node if same else path


def _is_missing(path: Path) -> bool:
    try:
        path.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _node_numbers(path: Path) -> tuple[int, int, int] | None:
    """Return the numbers of file system, inode and device of a file; None if it is missing or cannot be examined."""
    try:
        status = path.stat()
    except (OSError, ValueError):  # ValueError: a null byte in the path
        return None
    return status.st_dev, status.st_ino, status.st_rdev


def require_kernel_files(root: Path = ROOT) -> None:
    """Raise KernelFilesMissing unless sysfs and proc are mounted."""
    if not (root / "sys/block").is_dir():
        raise KernelFilesMissing(kind="sysfs", path=root / "sys")
    if not (root / "proc/self/mountinfo").is_file():
        raise KernelFilesMissing(kind="proc", path=root / "proc")


def block_directory(device_number: int, root: Path = ROOT) -> Path:
    """Return the sysfs folder of a block device number; a path that does not exist if no block device has it."""
    number = f"{os.major(device_number)}:{os.minor(device_number)}"
    return block_with_number(number, root) or root / "sys/class/block" / number


def block_with_number(number: str, root: Path = ROOT) -> Path | None:
    """Return the sysfs folder of the block device with a number, such as 8:0; None if there is none."""
    by_number = root / "sys/dev/block" / number
    with suppress(PermissionError):  # Podman hides this folder in its containers
        if by_number.exists():
            return by_number.resolve()
    folders = (root / "sys/class/block").glob("*")
    return next((folder.resolve() for folder in folders if attribute(folder / "dev") == number), None)


def block_dut(path: Path, block: Path, root: Path = ROOT) -> Dut:
    """Return the facts of the block device ``path`` from its sysfs folder ``block``.

    Raises TargetUnfit for a partition, and for a device without a plausible size.
    """
    if (block / "partition").exists():
        whole = f"/dev/{block.parent.name}"
        raise TargetUnfit(path=path, reason=f"it is a partition of {whole}", hint=f"Name the whole drive, {whole}.")
    sectors = whole_number(attribute(block / "size")) or 0
    if sectors == 0:
        raise TargetUnfit(path=path, reason="it has no size (no medium, or an unbound loop device)")
    if sectors > MAX_QUANTITY // _SYSFS_SECTOR_BYTES:
        size = capacity(sectors * _SYSFS_SECTOR_BYTES)
        raise TargetUnfit(path=path, reason=f"it reports an implausible capacity ({size})")
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
        instance=None if serial else _loop_instance(block, root) or attachment(block, root),
    )


def trait(path: Path, content: bytes) -> str:
    """Return the content of a file of ``traits`` for display."""
    text = content.decode("utf-8", "replace").strip("\0 \n\t")
    sectors = whole_number(text) if path.name == "size" else None
    if path.parent.name == "loop" and (size_bytes := whole_number(text)) is not None:
        return exact_capacity(size_bytes)
    return repr(text) if sectors is None else exact_capacity(sectors * _SYSFS_SECTOR_BYTES)


def traits(block: Path, root: Path = ROOT) -> tuple[tuple[Path, bytes], ...]:
    """Return the files of sysfs that identify a block device, with their contents.

    Their paths contain the device's name, so that a later read examines whatever device has that name then.
    """
    folder = root / "sys/class/block" / block.name
    return tuple((folder / name, content) for name in _TRAITS if (content := raw_attribute(folder / name)))


def raw_attribute(path: Path) -> bytes:
    """Return the content of a sysfs attribute, empty if it cannot be read; faster than ``attribute``.

    Raises OSError if a limit of this process or host is reached (open files, memory).
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
    """Return the text of a file of /sys or /proc without surrounding blanks; empty if it cannot be read."""
    try:
        return path.read_bytes().decode("utf-8", "replace").strip("\0 \n\t")
    except OSError:
        return ""


def direct_sector_bytes(path: Path) -> int:
    """Return the smallest direct I/O that the file system of ``path`` supports: 512 or 4096 bytes.

    Raises TargetUnfit if it does not support direct I/O.  Only reads the file.
    """
    buffer = mmap.mmap(-1, 4096)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    except OSError as error:
        raise TargetUnfit(
            path=path,
            reason=f"it cannot be opened for direct I/O ({error.strerror})",
            hint="Choose a file you may read, on a file system with O_DIRECT (not tmpfs before Linux 6.6).",
        ) from None
    try:
        for size in (512, 4096):
            if _is_readable(descriptor, buffer, size):
                return size
    finally:
        os.close(descriptor)
    raise TargetUnfit(path=path, reason="its file system does not support direct I/O")


def _is_readable(descriptor: int, buffer: mmap.mmap, size: int) -> bool:
    try:
        os.preadv(descriptor, [memoryview(buffer)[:size]], 0)
    except OSError:
        return False
    return True


def _file_dut(path: Path, size_bytes: int, sector_bytes: int) -> Dut:
    capacity_bytes = size_bytes // sector_bytes * sector_bytes
    if capacity_bytes == 0:
        reason = f"its size, {exact_capacity(size_bytes)}, is less than one sector of {exact_capacity(sector_bytes)}"
        raise TargetUnfit(path=path, reason=reason, hint="Give a size with a unit, for example --size 1G.")
    return Dut(
        path=str(path),
        kind="file",
        model=f"file {path.name}",
        serial="",
        firmware="",
        bus="file system",
        capacity_bytes=capacity_bytes,
        logical_sector_bytes=sector_bytes,
        physical_sector_bytes=sector_bytes,
        rotational=None,
        write_cache="unknown",
        discard=True,
        instance=_file_instance(path),
    )


def _file_instance(path: Path) -> str | None:
    """Return the generation or birth time of a file, which differs for a later file with the same inode number.

    None if the file system has neither, if the file cannot be opened, and for a path that is not a regular file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return generation(descriptor) or _birth_time(descriptor) if regular else None
    finally:
        os.close(descriptor)


def generation(descriptor: int) -> str | None:
    """Return inode and generation number of an open file; a later file with the same inode has another generation.

    None if the file system has no generation numbers: tmpfs, overlayfs and network file systems.  On btrfs the number
    of the subvolume belongs to it: generations are small transaction numbers there, the same in other file systems, and
    a snapshot keeps inode and generation.
    """
    number = bytearray(8)
    try:
        fcntl.ioctl(descriptor, _GET_GENERATION, number)
    except OSError:
        return None
    inode = f"inode {os.fstat(descriptor).st_ino}, generation {int.from_bytes(number[:4], sys.byteorder)}"
    return f"{inode}, file system {os.statvfs(descriptor).f_fsid:x}" if _is_on_btrfs(descriptor) else inode


def _is_on_btrfs(descriptor: int) -> bool:
    try:
        fcntl.ioctl(descriptor, _BTRFS_INFORMATION, bytearray(_BTRFS_INFORMATION_BYTES))
    except OSError:
        return False
    return True


def _birth_time(descriptor: int) -> str | None:
    """Return inode and birth time of an open file; None if they are unknown."""
    buffer = ctypes.create_string_buffer(_STATX_BYTES)
    if _statx is None or _statx(descriptor, b"", _AT_EMPTY_PATH, _STATX_BTIME, buffer):
        return None
    if not struct.unpack_from("=I", buffer)[0] & _STATX_BTIME:
        return None
    seconds, nanoseconds = struct.unpack_from("=qI", buffer, _BTIME_OFFSET)
    return f"inode {os.fstat(descriptor).st_ino}, born {seconds}.{nanoseconds:09}"


class CachedStatus(NamedTuple):
    """What stat(2) reports of a file and does not change: type, file system, inode, and the number of a device."""

    st_mode: int
    st_dev: int
    st_ino: int
    st_rdev: int


def cached_status(path: Path | str) -> CachedStatus | os.stat_result:
    """Return the status of a file as the kernel has it, without a request to the server of its file system.

    Such a server (FUSE, NFS) may not answer.  Of a file on the FUSE file system of another user, only the file system
    is known; the rest is 0.  Raises OSError.
    """
    if _statx is None:
        return os.stat(path)  # noqa: PTH116  # by the thousand
    buffer, name = ctypes.create_string_buffer(_STATX_BYTES), os.fsencode(path)
    for mask in (_STATX_TYPE | _STATX_INO, 0):
        if _statx(_AT_FDCWD, name, _AT_STATX_DONT_SYNC, mask, buffer) == 0:
            mode, inode, *numbers = struct.unpack_from("=28xH2xQ88x4I", buffer)
            return CachedStatus(mode, os.makedev(*numbers[2:]), inode, os.makedev(*numbers[:2]))
        if (error := ctypes.get_errno()) != errno.EACCES:
            break
    raise OSError(error, os.strerror(error), str(path))


def _loop_instance(block: Path, root: Path) -> str | None:
    """Return the instance of the file that a loop device stands on; it stays the same when the device is set up again.

    A loop device on another one stands on the file of that, and on part of it.  None for another device, for one on a
    drive, and for a file that has another name by now.
    """
    backing = Path(attribute(block / "loop/backing_file"))
    numbers = _node_numbers(backing)
    if numbers is None or not numbers[2]:
        return _file_instance(backing)
    lower = block_directory(numbers[2], root)
    instance = _loop_instance(lower, root)
    return instance and f"{instance}{_loop_offset(lower)}"


def attachment(block: Path, root: Path) -> str | None:
    """Return boot ID and disk sequence number, which the kernel increments when a disk or a medium is attached."""
    boot, number = attribute(root / "proc/sys/kernel/random/boot_id"), attribute(block / "diskseq")
    return f"boot {boot}, disk {number}" if boot and number else None


def _kind(block: Path) -> TargetKind:
    """Return the kind of a block device; one that the kernel builds on something else is not a drive."""
    if (block / "loop").is_dir():
        return "loop device"
    return "virtual device" if "/devices/virtual/block/" in str(block.resolve()) else "drive"


def _model(block: Path) -> str:
    """Return vendor and model that the drive reports; for a device built on others, their name in the kernel."""
    vendor, model = attribute(block / "device/vendor"), attribute(block / "device/model")
    if model or vendor:
        return model if vendor in ("", "ATA") or vendor.startswith("0x") else f"{vendor} {model}".strip()
    for name, kind in (("loop/backing_file", "loop device on"), ("dm/name", "device mapper"), ("md/level", "RAID")):
        if text := attribute(block / name):
            return f"{kind} {text}{_loop_offset(block)}"
    return ""


def _loop_offset(block: Path) -> str:
    """Return from which byte of its file a loop device begins; nothing for the first.  Its capacity tells the end."""
    offset_bytes = whole_number(attribute(block / "loop/offset")) or 0
    return f" from byte {offset_bytes}" if offset_bytes else ""


def _serial(block: Path, root: Path) -> str:
    """Return the serial number: from sysfs, else from the SCSI unit serial number page, else from udev."""
    sysfs = _first(block, "device/serial", "serial")
    if sysfs:
        return sysfs
    try:
        page = (block / "device/vpd_pg80").read_bytes()[4:].decode("ascii", "replace").strip("\0 ")
    except OSError:
        page = ""
    number = re.fullmatch(r"[0-9]{1,9}:[0-9]{1,9}", attribute(block / "dev"))
    udev = attribute(root / "run/udev/data" / f"b{number[0]}") if number else ""
    property_line = re.search(r"^E:ID_SERIAL_SHORT=(.+)$", udev, re.MULTILINE)
    return page or (property_line[1].strip() if property_line else "")


def _bus(block: Path) -> str:
    """Return the bus by the device's path in sysfs; a SATA drive behind a SAS controller reports vendor ATA."""
    path = str(block).partition("/sys/")[2]
    name = next((name for part, name in _BUSES if part in f"/{path}"), "unknown")
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
    return number if number <= MAX_QUANTITY else default
