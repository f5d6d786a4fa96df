"""Checks that refuse a block device or file as a target, above all one that is in use.  They only read.

``target_claim`` runs them before the first byte is written, ``inventory`` for every device of the host, so that both
give the same answer.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Sequence
from pathlib import Path

from ...errors import TargetBusy, TargetMissing, TargetNotOurs, TargetUnfit
from ...units import capacity, whole_number
from .contents import Contents
from .identity import ROOT, attribute
from .processes import lock_sentence
from .storage import (
    Identity,
    Layer,
    device_identity,
    holders,
    identity_of,
    label,
    layers,
    partitions,
    undetermined_backing,
)
from .usage import Usage

#: The unit of sysfs and stat(2), for every sector size.
_SECTOR_BYTES = 512
_OPTICAL = "5"
_FLOPPY = "2:"
#: Device mapper: prefix of a device's UUID, and the kind of device.
_MAPPERS = {"LVM-": "LVM", "mpath-": "multipath", "CRYPT-": "encryption", "": "device mapper"}
_MEMBER_HINT = (
    "Remove the drive from it and wipe the signature (wipefs --all, its partitions first), or choose another drive; "
    "--discard-data does not allow this."
)
_DATA_HINT = "Choose another drive, or pass --discard-data if all data on this one may be destroyed."
_PATHS_HINT = "Test the multipath device of the drive, or remove the other path first."
_GONE_HINT = "Detach the device and create it again on a file or device that exists here, or choose another target."

_EROFS_HINT = "Unmount that file system, or test a file: the kernel reports whether a file is open elsewhere."


def require_node(path: Path, block: Path) -> None:
    """Refuse a block device known from sysfs if its name below /dev is missing or leads to another device."""
    try:
        status = path.stat()
    except OSError:
        hint = "The kernel knows the device, but it has no node here (a container?)."
        raise TargetMissing(path=path, hint=hint) from None
    if stat.S_ISBLK(status.st_mode) and identity_of(status) != device_identity(block):
        raise TargetUnfit(path=path, reason="its node leads to another device than the kernel's device of this name")


def stack_of(block: Path, usage: Usage, root: Path = ROOT) -> tuple[Layer, ...]:
    """Return a block device and everything that it is built on, from the top down; ``block`` is its sysfs folder."""
    return tuple(layers(block, usage.backings, root))


def require_free(path: Path, stack: Sequence[Layer], usage: Usage, root: Path = ROOT) -> None:
    """Refuse a target that cannot be tested, or that is in use itself or in any layer beneath it.

    ``stack`` is the target and the layers beneath it, empty for a device that is gone.  Raises TargetMissing,
    TargetUnfit, TargetBusy.
    """
    if not stack:
        raise TargetMissing(path=path)
    top, *beneath = stack
    if top.block and (unsupported := _unsupported(top.block)):
        raise TargetUnfit(path=path, reason=unsupported)
    if reason := usage_sentence(stack, usage, path):
        raise TargetBusy(path=path, reason=reason)
    if name := undetermined_backing(tuple(stack), usage.backings):
        raise TargetUnfit(
            path=path, reason=f"it is built on {name}, which cannot be examined from here", hint=_GONE_HINT
        )
    capacity_bytes = (whole_number(attribute(top.block / "size")) or 0) * _SECTOR_BYTES if top.block else 0
    for layer in beneath:
        _require_backing_file(path, layer, capacity_bytes)
        if layer.block is None and usage.multi_file_mounts:
            erofs = f"the erofs mounted at {usage.multi_file_mounts[0]}"
            reason = f"it is built on {layer.name}, and {erofs} uses files that the kernel does not name"
            raise TargetUnfit(path=path, reason=reason, hint=_EROFS_HINT)
    for layer in stack:
        if layer.block and (other := _other_path(layer.block, {below.block for below in stack}, root)):
            reason = f"{'it' if layer is top else layer.name} and {other} are two paths to one drive"
            raise TargetUnfit(path=path, reason=reason, hint=_PATHS_HINT)


def _other_path(block: Path, known: Collection[Path | None], root: Path) -> str:
    """Return the path of a block device of the same drive that is not ``known``; empty if there is none.

    A drive may have two ports, and the host a device for each: what uses one of them does not show at the other.
    """
    facts, names = _drive_facts(block), {path.name for path in known if path}
    others = (other for other in sorted((root / "sys/block").glob("*")) if other.name not in names)
    same = (other for other in others if _drive_facts(other) == facts and attribute(other / "hidden") != "1")
    return next((f"/dev/{other.name}" for other in same), "") if facts[0] else ""


def _drive_facts(block: Path) -> tuple[str, ...]:
    """Return the worldwide identifier of a drive (empty if it has none), its model and its size."""
    wwid = attribute(block / "wwid") or attribute(block / "device/wwid")
    return (wwid, attribute(block / "device/model"), attribute(block / "size"))


def usage_sentence(stack: Sequence[Layer], usage: Usage, path: Path) -> str:
    """Return a sentence that says who or what uses the target ``path`` or a layer beneath it; empty if unused."""
    for layer in stack:
        is_top = layer is stack[0]
        node, name = (path, "it") if is_top else (layer.path, layer.name)
        reason = _use(layer, stack, usage, name) or process_sentence(layer, usage, stack, name)
        if reason := reason or _lock_sentence(node, usage, name):
            return reason if is_top else f"it is built on {name}, and {reason}"
    return ""


def process_sentence(layer: Layer, usage: Usage, stack: Sequence[Layer] = (), name: str = "it") -> str:
    """Return a sentence that says which process has a file, or a disk or one of its partitions, open or mapped.

    The layer is called ``name`` in it.  multipathd is ignored in the layers beneath a multipath device of ``stack``,
    whose paths it keeps open.  The sentence is empty if no process uses the layer.
    """
    parts = partitions(layer.block) if layer.block else []
    objects = [(layer.identity, name), *((device_identity(part), part.name) for part in parts)]
    multipath = any(upper.block and attribute(upper.block / "dm/uuid").startswith("mpath-") for upper in stack[:-1])
    for identity, object_name in objects:
        for user in usage.processes.users.get(identity, ()) if identity else ():
            if not (multipath and layer is not stack[0] and user.process.startswith("multipathd (")):
                return user.sentence(object_name)
    return ""


def require_sole_name(path: Path, links: int, beneath: str = "") -> None:
    """Refuse a file with hard links, or a target that is built on one, called ``beneath``."""
    if links > 1:
        subject = f"it is built on {beneath}, which" if beneath else "it"
        reason = f"{subject} has {links} names (hard links), and a test would destroy the content of all of them"
        raise TargetUnfit(path=path, reason=reason)


def require_space(path: Path, needed_bytes: int, beneath: Path | None = None) -> None:
    """Refuse a file, or a target that is built on the file ``beneath``, whose file system has too little free space."""
    file_system = os.statvfs((beneath or path).parent)
    free_bytes = file_system.f_bavail * file_system.f_frsize
    if needed_bytes > free_bytes:
        owner = f"the file {beneath}'s" if beneath else "its"
        space = f"{capacity(free_bytes)} of free space; it needs {capacity(needed_bytes)} more"
        hint = f"Free some space, or {'choose another target' if beneath else 'give a smaller --size'}."
        raise TargetUnfit(path=path, reason=f"{owner} file system has {space}", hint=hint)


def _require_backing_file(path: Path, layer: Layer, capacity_bytes: int) -> None:
    """Refuse a target whose backing file has hard links, is not at its path, or would fill its file system.

    The kernel reports the path.  A test writes ``capacity_bytes``; other programs need the file system, too.  A file
    that this process may not examine is left to ``claim_beneath``, which reports it.
    """
    if layer.block is not None:
        return
    try:
        status = layer.path.stat()
    except PermissionError:
        return
    except OSError:
        status = None
    if status is None or identity_of(status) != layer.identity:
        reason = f"it is built on {layer.path}, which was removed, renamed, or is in another mount namespace"
        raise TargetUnfit(path=path, reason=reason, hint=_GONE_HINT)
    require_sole_name(path, status.st_nlink, layer.name)
    require_space(path, min(capacity_bytes, status.st_size - status.st_blocks * _SECTOR_BYTES), layer.path)


def _use(layer: Layer, stack: Sequence[Layer], usage: Usage, name: str) -> str:
    """Return a sentence with the use of a layer, called ``name``, apart from that by its own stack; empty if unused."""
    identities = {member.identity for member in stack}
    for use in usage.uses.get(layer.identity, ()):
        if use.by is None or use.by not in identities:
            return use.sentence(name) + _upper_user(use.by, usage)
    if layer.block is None:
        return ""
    if holder := _holder_sentence(layer.block, identities, usage, name):
        return holder
    registered = any((device / "bcache").is_dir() for device in (layer.block, *partitions(layer.block)))
    above = any(member.block and member.block.name.startswith("bcache") for member in stack)
    return f"{name} is registered with bcache" if registered and not above else ""


def require_writable(path: Path) -> None:
    """Refuse a device that this process may not write to, without opening it."""
    if not os.access(path, os.W_OK, effective_ids=True):
        raise cannot_open(path, denial(path))


def denial(path: Path) -> int:
    """Return the error number with which the kernel denies writing to a path."""
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return errno.EROFS
    return errno.EACCES if os.geteuid() else errno.EPERM  # root may not write to an immutable file


def cannot_open(path: Path, number: int) -> TargetUnfit:
    """Return the exception for a target that cannot be opened for writing because of error ``number``."""
    hint = "Run as root, or as a user who may write to it." if number == errno.EACCES else TargetUnfit.hint
    return TargetUnfit(path=path, reason=f"it cannot be opened for writing ({os.strerror(number)})", hint=hint)


def require_spare(path: Path, contents: Contents, *, discard_data: bool) -> None:
    """Refuse a block device that holds or may hold data, unless ``discard_data`` is True.

    A member of a RAID, pool or volume group is always refused.  Raises TargetBusy, TargetNotOurs.
    """
    members = dict.fromkeys(signature.member_of for signature in contents.signatures if signature.member_of)
    if members:
        reason = f"it is marked as a member of {', '.join(members)}"
        raise TargetBusy(path=path, reason=reason, hint=_MEMBER_HINT)
    if discard_data:
        return
    if contents.unreadable:
        reason = f"its content cannot be examined ({contents.unreadable})"
        raise TargetNotOurs(path=path, reason=reason, hint=_DATA_HINT)
    if descriptions := contents.descriptions(path.name):
        raise TargetNotOurs(path=path, reason=f"it holds {', '.join(descriptions)}", hint=_DATA_HINT)


def _unsupported(block: Path) -> str:
    """Return why the tests cannot run on a device; empty if they can."""
    if attribute(block / "ro") == "1":
        return "it is read-only"
    if attribute(block / "device/type") == _OPTICAL or attribute(block / "dev").startswith(_FLOPPY):
        return "it is an optical drive or a floppy disk"
    if attribute(block / "queue/zoned") == "host-managed":
        return "its zones accept only sequential writes (host-managed), and the tests write at random"
    return ""


def _holder_sentence(block: Path, identities: Collection[Identity], usage: Usage, name: str) -> str:
    """Return a sentence with the devices, except ``identities``, that are built on a disk; empty if there are none."""
    devices, user = [], ""
    for holder in holders(block):
        identity = device_identity(holder)
        if identity in identities:
            continue
        mapper = attribute(holder / "dm/uuid") if holder.name.startswith("dm-") else None
        if mapper is not None:
            kind = next(kind for prefix, kind in _MAPPERS.items() if mapper.startswith(prefix))
        else:
            kind = "RAID" if holder.name.startswith("md") else ""
        devices.append(f"{label(holder)} ({kind})" if kind else label(holder))
        user = user or _upper_user(identity, usage)
    return f"{name} backs {', '.join(devices)}{user}" if devices else ""


def _upper_user(identity: Identity | None, usage: Usage) -> str:
    """Return the end of a sentence: who has a device open that backs the object, such as another run; else nothing."""
    users = usage.processes.users.get(identity, ()) if identity else ()
    return f", and {users[0].sentence('that device')}" if users else ""


def _lock_sentence(path: Path, usage: Usage, name: str) -> str:
    """Return a sentence that says who has locked the node or file ``path``, called ``name``; empty if unlocked."""
    try:
        status = path.stat()
    except OSError:
        return ""
    owners = usage.processes.locks.get((status.st_dev, status.st_ino))
    return lock_sentence(owners[0], name) if owners else ""
