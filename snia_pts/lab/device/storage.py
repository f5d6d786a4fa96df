"""Storage stacks: a target and everything that it is built on.

An object is identified by number, never by name: a block device by its device number, a file by file system and inode.
One object can have many names (hard links, bind mounts, device nodes in other folders, paths of other mount
namespaces), so two objects are the same if their ``Identity`` is equal.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from .identity import ROOT, CachedStatus, attribute, block_directory, block_with_number, cached_status
from .mounts import Mount

_LOOP_GET_STATUS64 = 0x4C05  # linux/loop.h
_LOOP_INFO64_BYTES = 232
_NUMBER = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")


class Identity(NamedTuple):
    """The number of a block device, or file system number and inode of a file, as stat(2) reports them.

    On overlayfs a file and the same file in the lower layer have different identities.
    """

    kind: Literal["device", "file"]
    device: int
    inode: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Backing:
    """The backing file or device of a loop or zram device; ``identity`` is None if it cannot be determined.

    ``name`` is the path that the kernel reports, which is valid in some mount namespace.  ``open_error`` says why the
    loop device could not be examined, in which case ``identity`` was looked up by ``name``; it is empty if the driver
    reported the backing object itself.
    """

    identity: Identity | None
    name: str
    open_error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One object of a storage stack; ``block`` is its sysfs folder, None for a file.

    ``path`` is the path to open it by; the caller must check that it leads to this object.  ``between`` holds the names
    of the layers above this one, the top of the stack first.
    """

    identity: Identity
    path: Path
    block: Path | None
    between: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The path of a file; the device mapper's or the kernel's name of a device."""
        return str(self.path) if self.block is None else label(self.block)


def identity_of(status: os.stat_result | CachedStatus) -> Identity | None:
    """Return the identity of a block device, of the drive behind a generic device, or of a file; None for others."""
    if stat.S_ISBLK(status.st_mode):
        return Identity("device", status.st_rdev)
    if stat.S_ISCHR(status.st_mode):
        return generic_identity(status.st_rdev)
    return Identity("file", status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def generic_identity(number: int, root: Path = ROOT) -> Identity | None:
    """Return the identity of the drive to which a character device (sg, bsg, ng) sends commands; None for others."""
    node = root / f"sys/dev/char/{os.major(number)}:{os.minor(number)}"
    try:
        blocks = [node / "device/block" / name for name in os.listdir(node / "device/block")]  # noqa: PTH208
    except OSError:
        name = node.resolve().name
        blocks = [root / "sys/block" / f"nvme{name[2:]}"] if name.startswith("ng") else []
    return device_identity(blocks[0]) if blocks else None


def identity_at(path: Path | str) -> Identity | None:
    """Return the identity of the block device or file at ``path``; None if there is neither."""
    try:
        return identity_of(cached_status(path))
    except (OSError, ValueError):
        return None


def device_identity(block: Path) -> Identity | None:
    """Return the identity of a block device from its sysfs folder; None if the device is gone."""
    number = _NUMBER.fullmatch(attribute(block / "dev"))
    return Identity("device", os.makedev(int(number[1]), int(number[2]))) if number else None


def identity_by_name(name: str, root: Path = ROOT) -> Identity | None:
    """Return the identity of the block device or file whose name the kernel reports; None if the name leads nowhere."""
    if block := block_of(name, root):
        return device_identity(block)
    return identity_at(root / name.lstrip("/")) if name.startswith("/") else None


def block_of(name: str, root: Path = ROOT) -> Path | None:
    """Return the sysfs folder of the block device at a path below /dev; None if there is no such device."""
    if not name.startswith("/dev/"):
        return None
    try:
        real = Path(os.path.realpath(root / name.lstrip("/")))
        with suppress(PermissionError):  # a file of another user in /dev/shm
            if real.is_block_device():
                return block_directory(real.stat().st_rdev, root)
        # A path of another mount namespace: its last part is the kernel's name.
        block = root / "sys/class/block" / real.name
        return block.resolve() if block.exists() else None
    except ValueError:  # not a valid file name
        return None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return None


def devices_of_mount(mount: Mount, root: Path = ROOT) -> list[Path]:
    """Return the sysfs folders of the devices that a mounted file system is on.

    They are looked up by the number of the file system, else by the names that it reports: bcachefs reports all of its
    devices, btrfs one of them.
    """
    if _NUMBER.fullmatch(mount.number) and (block := block_with_number(mount.number, root)):
        return [block]
    named = [block for name in mount.source.split(":") if (block := block_of(name, root))]
    for folder in root.glob("sys/fs/btrfs/*/devices") if named else ():
        devices = sorted(device.resolve() for device in folder.glob("*"))
        if named[0] in devices:
            return devices
    return named


def device_path(block: Path, root: Path = ROOT) -> Path:
    """Return the path below /dev of a block device, given its sysfs folder."""
    return root / "dev" / block.name.replace("!", "/")


def label(block: Path) -> str:
    """Return the display name of a block device: the device mapper's name, else the kernel's."""
    return attribute(block / "dm/name") or block.name


def partitions(block: Path) -> list[Path]:
    """Return the sysfs folders of a disk's partitions."""
    parts = [child for child in block.iterdir() if (child / "partition").exists()] if block.is_dir() else []
    return sorted(parts, key=lambda part: (len(part.name), part.name))


def holders(block: Path) -> list[Path]:
    """Return the sysfs folders of the devices built on a disk or its partitions: LVM, RAID, device mapper, bcache."""
    folders = [device / "holders" for device in (block, *partitions(block))]
    return sorted({child.resolve() for folder in folders if folder.is_dir() for child in folder.iterdir()})


def read_backings(root: Path = ROOT) -> dict[str, Backing]:
    """Return the backing object of each bound loop device, and of each zram device that has one, by kernel name."""
    backings = {}
    for entry in sorted((root / "sys/block").glob("loop*/loop/backing_file")):
        block = entry.parent.parent
        backings[block.name] = _loop_backing(block.resolve(), attribute(entry), root)
    for entry in sorted((root / "sys/block").glob("zram*/backing_dev")):
        if (name := attribute(entry)) not in ("", "none"):
            backings[entry.parent.name] = Backing(identity=identity_by_name(name, root), name=name)
    return backings


def layers(block: Path, backings: Mapping[str, Backing], root: Path = ROOT) -> Iterator[Layer]:
    """Yield a block device and everything that it is built on, from the top down, each object once.

    A backing object that cannot be determined is omitted; ``undetermined_backing`` returns its name.
    """
    pending: list[tuple[Path, tuple[str, ...]]] = [(block, ())]
    visited: set[Identity] = set()
    while pending:
        upper, between = pending.pop()
        identity = device_identity(upper)
        if identity is None or identity in visited:
            continue
        visited.add(identity)
        yield Layer(identity=identity, path=device_path(upper, root), block=upper, between=between)
        below = (*between, label(upper))
        pending += [(lower, below) for lower in _lower_devices(upper)]
        backing = backings.get(upper.name)
        if backing is None or backing.identity is None or backing.identity in visited:
            continue
        if backing.identity.kind == "device":
            pending.append((block_directory(backing.identity.device, root), below))
        else:
            visited.add(backing.identity)
            path = root / backing.name.lstrip("/")
            yield Layer(identity=backing.identity, path=path, block=None, between=below)


def undetermined_backing(stack: tuple[Layer, ...], backings: Mapping[str, Backing]) -> str:
    """Return the name of a backing object in ``stack`` that cannot be determined; empty if all are determined."""
    in_stack = (backings.get(layer.block.name) for layer in stack if layer.block)
    return next((backing.name for backing in in_stack if backing and backing.identity is None), "")


def _lower_devices(block: Path) -> list[Path]:
    """Return the block devices directly beneath a device mapper or RAID device, or a partition."""
    try:
        below = [slave.resolve() for slave in (block / "slaves").iterdir()]
    except OSError:  # there is no such folder, or the device is gone
        below = []
    return [*below, block.parent] if (block / "partition").exists() else below


def _loop_backing(block: Path, name: str, root: Path) -> Backing:
    """Ask the loop driver for the backing object; look it up by ``name`` only if the device cannot be examined."""
    try:
        descriptor = os.open(device_path(block, root), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return Backing(identity=identity_by_name(name, root), name=name, open_error=error.strerror or str(error))
    status = bytearray(_LOOP_INFO64_BYTES)
    try:
        if identity_of(os.fstat(descriptor)) != device_identity(block):
            reason = "its device node leads to another device"
            return Backing(identity=identity_by_name(name, root), name=name, open_error=reason)
        fcntl.ioctl(descriptor, _LOOP_GET_STATUS64, status)
    except OSError as error:
        return Backing(identity=identity_by_name(name, root), name=name, open_error=error.strerror or str(error))
    finally:
        os.close(descriptor)
    device, inode, device_number = struct.unpack_from("=3Q", status)
    by_name = identity_by_name(name, root)
    # The third number is a device's own number; for a file it is 0, or the number of its file system again.
    is_device = device_number not in (0, device) or by_name == Identity("device", device_number)
    return Backing(
        identity=Identity("device", device_number) if is_device else Identity("file", device, inode), name=name
    )
