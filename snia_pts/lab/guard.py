"""May a test have this block device?  Every refusal of one is made in this module; it only reads.

``safety.hold`` asks before the first byte, ``inventory`` for every device of the host: both get the same answer.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from ..errors import TargetBusy, TargetMissing, TargetNotOurs, TargetUnfit
from .contents import Contents
from .device import attribute
from .occupancy import Occupancy, holders, label, partitions

_OPTICAL = "5"
_FLOPPY = "2:"
#: What the device mapper's users write before the name of a device.
_MAPPERS = {"LVM-": "LVM", "mpath-": "multipath", "CRYPT-": "encryption", "": "device mapper"}
_MEMBER_HINT = (
    "Take it out of that and wipe the mark (wipefs --all, its partitions first), or choose another drive; "
    "--discard-data does not allow this."
)
_DATA_HINT = "Choose another drive, or say --discard-data if all of it may be destroyed."


def require_node(path: Path, block: Path) -> None:
    """Refuse a block device known from sysfs whose name is missing below /dev, or leads to another one."""
    try:
        status = path.stat()
    except OSError:
        raise TargetMissing(path=path, hint="The kernel knows it, but it has no name here (a container?).") from None
    if stat.S_ISBLK(status.st_mode) and status.st_rdev != _number(block):
        raise TargetUnfit(path=path, reason="its name leads to another device than the kernel's")


def require_free(path: Path, block: Path, occupancy: Occupancy) -> None:
    """Refuse a block device that nobody could test, or that anybody uses; ``block`` is its sysfs folder.

    Raises TargetUnfit, TargetBusy.
    """
    if unfit := _unfit(block):
        raise TargetUnfit(path=path, reason=unfit)
    for reason in (
        occupancy.uses.get(block.name, ""),
        _held(block),
        "it is registered with bcache"
        if any((each / "bcache").is_dir() for each in (block, *partitions(block)))
        else "",
        opened(block, occupancy.openers),
        _locked(path, occupancy),
    ):
        if reason:
            raise TargetBusy(path=path, reason=reason)


def require_writable(path: Path) -> None:
    """Refuse a device that this process may not write to; nothing is opened."""
    if not os.access(path, os.W_OK, effective_ids=True):
        raise not_opened(path, denial(path))


def denial(path: Path) -> int:
    """Return the error number with which the kernel denies writing to a path."""
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return errno.EROFS
    return errno.EACCES if os.geteuid() else errno.EPERM  # what root may not write was made immutable


def not_opened(path: Path, number: int) -> TargetUnfit:
    """Say why a target cannot be opened for writing."""
    hint = "Run as root, or as a user who may write to it." if number == errno.EACCES else None
    return TargetUnfit(path=path, reason=f"it cannot be opened for writing ({os.strerror(number)})", hint=hint)


def require_spare(path: Path, contents: Contents, *, discard_data: bool) -> None:
    """Refuse a block device that holds somebody's data, or may hold some, unless that may be discarded; one that is
    part of something larger in any case.

    Raises TargetBusy, TargetNotOurs.
    """
    members = dict.fromkeys(each.member_of for each in contents.signatures if each.member_of)
    if members:
        reason = f"it is marked as a member of {', '.join(members)}"
        raise TargetBusy(path=path, reason=reason, hint=_MEMBER_HINT)
    if discard_data:
        return
    if contents.unreadable:
        reason = f"what is on it cannot be told ({contents.unreadable})"
        raise TargetNotOurs(path=path, reason=reason, hint=_DATA_HINT)
    if told := contents.told(path.name):
        raise TargetNotOurs(path=path, reason=f"on it is {', '.join(told)}", hint=_DATA_HINT)


def opened(block: Path, openers: Mapping[int, str]) -> str:
    """Who has a disk or one of its partitions open, in words."""
    for each in (block, *partitions(block)):
        owner = openers.get(_number(each))
        if owner:
            return f"{owner} has {'it' if each == block else each.name} open"
    return ""


def _unfit(block: Path) -> str:
    """Why nobody could test a device."""
    if attribute(block / "ro") == "1":
        return "it is read-only"
    if attribute(block / "device/type") == _OPTICAL or attribute(block / "dev").startswith(_FLOPPY):
        return "it is an optical drive or a floppy disk"
    if attribute(block / "queue/zoned") == "host-managed":
        return "its zones can only be written in order (host-managed), and the tests write at random"
    return ""


def _held(block: Path) -> str:
    """What is made of a disk, in words."""
    words = []
    for holder in holders(block):
        mapper = attribute(holder / "dm/uuid") if holder.name.startswith("dm-") else None
        if mapper is not None:
            kind = next(kind for prefix, kind in _MAPPERS.items() if mapper.startswith(prefix))
        else:
            kind = "RAID" if holder.name.startswith("md") else ""
        words.append(f"{label(holder)} ({kind})" if kind else label(holder))
    return f"{', '.join(words)} {'is' if len(words) == 1 else 'are'} made of it" if words else ""


def _locked(path: Path, occupancy: Occupancy) -> str:
    try:
        status = path.stat()
    except OSError:
        return ""
    owner = occupancy.locks.get((status.st_dev, status.st_ino))
    return f"process {owner} has locked it (another run of snia-pts?)" if owner is not None else ""


def _number(block: Path) -> int:
    """A device's number, from sysfs; 0, which is no device's, where it is gone."""
    found = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", attribute(block / "dev"))
    return os.makedev(int(found[1]), int(found[2])) if found else 0
