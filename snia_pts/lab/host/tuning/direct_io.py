"""Whether direct I/O to a target is served by the page cache or memory of this host, which is then measured instead."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ...device.identity import ROOT, attribute, block_directory
from ...device.mounts import mount_of
from ...device.storage import device_path, devices_of_mount, layers, read_backings
from .finding import Finding, finding, unknown_finding

#: From linux/fs.h, for 64-bit x86 and ARM.
_FS_IOC_GETFLAGS, _FS_NOCOW_FL = 0x80086601, 0x00800000
#: Since this kernel btrfs uses buffered I/O in place of direct I/O for files with checksums.
_BTRFS_BUFFERS_SINCE = (6, 15)


class _Buffer(NamedTuple):
    """A layer beneath a target that does not pass on direct I/O."""

    what: str
    reason: str
    remedy: str


def direct_io(path: Path, root: Path = ROOT) -> Finding:
    """Return whether the target (for a new file, its folder), or anything that it is built on, buffers direct I/O.

    Only what the kernel reports is known: the mode of loop devices, and the type and options of file systems.
    """
    try:
        buffers = tuple(_buffers(path, root))
    except OSError as error:
        return unknown_finding("direct I/O", f"the target cannot be examined ({error.strerror})")
    if not buffers:
        return finding("direct I/O", "not buffered", "good", "nothing beneath the target is known to buffer it")
    value, reason, remedy = ("; ".join(dict.fromkeys(texts)) for texts in zip(*buffers, strict=True))
    return finding("direct I/O", f"buffered by {value}", "affects results", reason, recommended=remedy)


def _buffers(path: Path, root: Path) -> Iterator[_Buffer]:
    real_path = (path if path.exists() else path.parent).resolve()
    status = real_path.stat()
    visited, backings = set[object](), read_backings(root)
    pending = [block_directory(status.st_rdev, root)]
    if not stat.S_ISBLK(status.st_mode):
        real_path = _below_overlays(real_path, root)
        yield from _file_system(real_path, root)
        pending = _devices(status.st_dev, real_path, root)
    while pending:
        for layer in layers(pending.pop(0), backings, root):
            if layer.identity in visited:
                continue
            visited.add(layer.identity)
            if layer.block is not None:
                yield from _block(layer.block, root)
            else:
                file = _below_overlays(layer.path, root)
                yield from _file_system(file, root)
                pending += _devices(layer.identity.device, file, root)


def _below_overlays(path: Path, root: Path) -> Path:
    """Return the folder that has the data of a path on overlayfs, in the upper layer; any other path unchanged.

    Where this mount namespace does not have that folder, as in a container, the path on overlayfs is returned.
    """
    mount = mount_of(path, root)
    while mount and mount.kind == "overlay" and Path(upper := mount.option("upperdir") or "").is_absolute():
        if not Path(upper).is_dir():
            break
        path = Path(upper).resolve()
        mount = mount_of(path, root)
    return path


def _devices(number: int, path: Path, root: Path) -> list[Path]:
    """Return the sysfs folders of the devices beneath a file system: by its number, and by the mount of ``path``."""
    mount = mount_of(path, root)
    return [block_directory(number, root), *(devices_of_mount(mount, root) if mount else ())]


def _block(block: Path, root: Path) -> Iterator[_Buffer]:
    if re.fullmatch("(zram|ram)[0-9]+", block.name):
        yield _Buffer(block.name, "it keeps its data in the memory of this host, which is measured", "a drive")
    if attribute(block / "loop/dio") == "0":
        device = device_path(block, root)
        reason = f"{block.name} reads and writes its file through the page cache of this host, which is measured"
        yield _Buffer(block.name, reason, f"losetup --direct-io=on {device}")


def _file_system(path: Path, root: Path) -> Iterator[_Buffer]:
    mount = mount_of(path, root)
    if mount is None:
        return
    kind = mount.kind
    if kind in ("tmpfs", "ramfs"):
        yield _Buffer(kind, "it keeps its files in the memory of this host, which is measured", "a file on a drive")
    elif kind in ("ext3", "ext4") and "data=journal" in mount.options:
        reason = "with data=journal it writes through the page cache of this host, even with direct I/O"
        yield _Buffer(f"{kind} (data=journal)", reason, "data=ordered")
    elif kind == "btrfs" and _has_checksums(path, mount.options) and _kernel(root) >= _BTRFS_BUFFERS_SINCE:
        reason = "for files with checksums it uses the page cache of this host, even with direct I/O"
        yield _Buffer("btrfs (checksums)", reason, "chattr +C on the empty file or its folder")


def _has_checksums(path: Path, options: tuple[str, ...]) -> bool:
    """Return whether btrfs has checksums of a file, or of new files in a folder."""
    if not {"nodatasum", "nodatacow"}.isdisjoint(options):
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        flags = fcntl.ioctl(descriptor, _FS_IOC_GETFLAGS, bytes(8))
        return not int.from_bytes(flags[:4], sys.byteorder) & _FS_NOCOW_FL
    except OSError:
        return True
    finally:
        os.close(descriptor)


def _kernel(root: Path) -> tuple[int, ...]:
    """Return major and minor version of the kernel; () if they are not reported."""
    match = re.match(r"([0-9]{1,4})\.([0-9]{1,4})", attribute(root / "proc/sys/kernel/osrelease") or "")
    return tuple(map(int, match.groups())) if match else ()
