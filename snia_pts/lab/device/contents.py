"""Signatures on a drive: file systems, partition tables, and membership in a RAID, pool or volume group.

They are read by wipefs with --no-act and, in partitions that the kernel has not read, by libblkid of util-linux.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import DeviceFailed
from ...temporary import temporary_folder
from ...units import KIB, whole_number
from ..process import program as process
from .blkid import read_part
from .identity import ROOT, attribute

_TIMEOUT_SECONDS = 60
_EDGE_BYTES = 256 * KIB
#: The superblock of btrfs and, in it, the offset of the number of devices (linux/btrfs_tree.h).
_BTRFS_SUPERBLOCK, _BTRFS_DEVICES = 64 * KIB, 0x88
#: The unit of sysfs, for every sector size of the disk.
_SECTOR_BYTES = 512
_TABLE = " partition table"
#: A disk with more partitions, at any depth, is not examined further.
_MAX_PARTITIONS = 1000
#: Errors of opening that do not mean that the drive failed.
_NOT_DRIVE_ERRORS = {errno.EACCES, errno.EPERM, errno.ENOENT, errno.EBUSY}
#: Signatures of members of a larger whole; wipefs does not report usage "raid" for all of them.
_MEMBERS = {
    "bcachefs": "a bcachefs",
    "jbd": "a file system (as its journal)",
    "xfs_external_log": "a file system (as its journal)",
    "zfs_member": "a ZFS pool",
    "bcache": "a bcache",
    "ceph_bluestore": "Ceph",
    "oracleasm": "an Oracle ASM disk group",
    "DM_snapshot_cow": "a device mapper snapshot (as its store)",
    "LVM2_member": "LVM",
    "linux_raid_member": "a Linux RAID",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A signature on a device: its kind (``ext4``, ``gpt partition table``), its label, what the device is a member of
    (empty if of nothing), and its UUID (empty if unknown).
    """

    device: str
    kind: str
    label: str
    member_of: str
    uuid: str = ""

    @property
    def description(self) -> str:
        """Kind and label."""
        return f"{self.kind} {self.label}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The signatures on a disk and its partitions; ``unreadable`` says why they cannot be read, or is empty."""

    partitions: tuple[str, ...] = ()
    signatures: tuple[Signature, ...] = ()
    unreadable: str = ""

    def descriptions(self, disk: str) -> tuple[str, ...]:
        """Return distinct descriptions, such as ``gpt`` and ``sdb1 (ext4 photos)``; every partition is included.

        The last one is ``contents unknown`` if they cannot be read.
        """
        texts = [signature.description for signature in self.signatures if signature.device == disk]
        for partition in self.partitions:
            inside = [signature.description for signature in self.signatures if signature.device == partition]
            texts.append(f"{partition} ({', '.join(dict.fromkeys(inside)) or 'nothing recognised'})")
        return (*dict.fromkeys(texts), *["contents unknown"] * bool(self.unreadable))


def read_contents(disks: Mapping[Path, Sequence[Path]], evidence: Path | None = None) -> dict[Path, Contents]:
    """Return the contents of each disk, given its partitions; ``evidence`` is the base name of the files to keep.

    One wipefs examines all disks; if it fails (one disk disappeared), each disk is examined by its own.
    """
    unreadable = {disk: _read_error(disk) for disk in disks}
    readable = [disk for disk, reason in unreadable.items() if not reason]
    devices = {device.name: device for disk in readable for device in (disk, *disks[disk])}
    signatures, failed = _signatures(list(devices.values()), evidence)
    signatures = [_as_member(signature, devices.get(signature.device)) for signature in signatures]
    if failed and len(disks) > 1:
        return {disk: read_contents({disk: parts})[disk] for disk, parts in disks.items()}
    if failed and any(disks.values()):  # a partition may have no node, in a container: read it from the disk
        return read_contents(dict.fromkeys(disks, ()), evidence)
    return {
        disk: _with_unread_partitions(
            disk,
            parts,
            Contents(
                partitions=tuple(part.name for part in parts),
                signatures=tuple(
                    signature
                    for signature in signatures
                    if signature.device in {disk.name, *(part.name for part in parts)}
                ),
                unreadable=unreadable[disk] or failed,
            ),
        )
        for disk, parts in disks.items()
    }


def read_file_contents(path: Path) -> Contents:
    """Return the contents of a regular file."""
    unreadable = _read_error(path)
    signatures, failed = ([], "") if unreadable else _signatures([path], None)
    return Contents(signatures=tuple(signatures), unreadable=unreadable or failed)


def _read_error(disk: Path) -> str:
    """Return why the beginning or end of a disk, where signatures are, cannot be read; wipefs reports nothing then."""
    try:
        _read_edges(disk)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def require_answer(disk: Path) -> None:
    """Raise DeviceFailed if the beginning or end of a block device cannot be read; other paths are accepted."""
    if not disk.is_block_device():
        return
    try:
        reason = "" if _read_edges(disk) else "its size is 0"
    except OSError as error:
        reason = "" if error.errno in _NOT_DRIVE_ERRORS else error.strerror or str(error)
    if reason:
        hint = "Check dmesg, its cable and its power. Nothing was written to it or to the run folder."
        raise DeviceFailed(step="resume", what=disk, reason=f"it does not answer ({reason})", hint=hint)


def _read_edges(disk: Path) -> int:
    """Read the beginning and end of a disk, and return its size in bytes; raises OSError."""
    descriptor = os.open(disk, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        end = os.lseek(descriptor, 0, os.SEEK_END)
        for start, stop in ((0, min(end, _EDGE_BYTES)), (max(0, end - _EDGE_BYTES), end)):
            offset = start
            while offset < stop:  # a read that ends before a bad sector succeeds; the next one fails
                offset += len(os.pread(descriptor, stop - offset, offset)) or stop
        return end
    finally:
        os.close(descriptor)


def _signatures(devices: Sequence[Path], evidence: Path | None) -> tuple[list[Signature], str]:
    """Return the signatures on these devices, and why they could not be read (empty if they were)."""
    if not devices:
        return [], ""
    columns = "DEVICE,TYPE,USAGE,LABEL,UUID"
    finished = _run("wipefs", "--no-act", "--json", "--output", columns, *map(str, devices), evidence=evidence)
    if finished.exit_code or finished.timed_out:
        return [], finished.error_summary
    return parse_signatures(finished.stdout)


def _run(*argv: str, evidence: Path | None = None) -> process.Finished:
    with temporary_folder() as folder:
        return process.run(argv, evidence=evidence or folder / argv[0], timeout_seconds=_TIMEOUT_SECONDS)


def _with_unread_partitions(disk: Path, parts: Sequence[Path], contents: Contents) -> Contents:
    """Add the partitions of the disk's table and of tables within partitions that are not ``parts``, of the kernel.

    The kernel reads no partitions of some disks (loop devices, device mapper), none of a table within a partition, and
    keeps an old table while a partition is in use.  What ``parts`` contain is read again, since the node of a partition
    may lead elsewhere.
    """
    if contents.unreadable:
        return contents
    partitions, signatures, unreadable = list(contents.partitions), list(contents.signatures), ""
    nodes = {start: part.name for part in parts if (start := _start_bytes(part)) is not None}
    try:
        descriptor = os.open(disk, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return replace(contents, unreadable=error.strerror or str(error))
    try:
        end = os.lseek(descriptor, 0, os.SEEK_END)
        pending, visited = [(disk.name, 0, end)], {0}
        for name, start, size_bytes in pending:  # which grows meanwhile
            if start >= end or len(visited) > _MAX_PARTITIONS:
                continue
            part = read_part(descriptor, start, min(size_bytes, end - start))
            for row in part.signatures:
                signature = _as_member(_signature({**row, "device": name}), disk, start)
                signatures += [signature] * (signature not in signatures)
            for entry in part.partitions:
                inner_start = start + entry.start_bytes
                if inner_start in visited:
                    continue
                visited.add(inner_start)
                inner = nodes.get(inner_start) or f"{name} partition {entry.number}"
                if inner_start not in nodes:
                    partitions.append(inner)
                if not entry.is_extended:
                    pending.append((inner, inner_start, entry.size_bytes))
        if len(visited) > _MAX_PARTITIONS:
            unreadable = f"it has more than {_MAX_PARTITIONS} partitions"
    except OSError as error:
        unreadable = f"its partitions: {error.strerror or error}"
    finally:
        os.close(descriptor)
    return replace(contents, partitions=tuple(partitions), signatures=tuple(signatures), unreadable=unreadable)


def _start_bytes(part: Path) -> int | None:
    """Return where on its disk a partition begins; None if the kernel does not know it."""
    sectors = whole_number(attribute(ROOT / "sys/class/block" / part.name / "start"))
    return None if sectors is None else sectors * _SECTOR_BYTES


def _as_member(signature: Signature, device: Path | None, offset: int = 0) -> Signature:
    """Return a signature, as that of a member if it is a btrfs of several drives, which begins at ``offset``."""
    if signature.kind != "btrfs" or device is None:
        return signature
    try:
        with device.open("rb") as file:
            file.seek(offset + _BTRFS_SUPERBLOCK + _BTRFS_DEVICES)
            count = int.from_bytes(file.read(8), "little")
    except OSError as error:
        return replace(signature, member_of=f"a btrfs (its number of drives cannot be read: {error.strerror})")
    return replace(signature, member_of=f"a btrfs of {count} drives") if count > 1 else signature


def parse_signatures(answer: str) -> tuple[list[Signature], str]:
    """Return the signatures in an answer of wipefs, and why it could not be parsed (empty if it could)."""
    try:
        rows = json.loads(answer)["signatures"] if answer.strip() else []
        return [_signature(row) for row in rows], ""
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return [], f"unexpected output of wipefs ({answer[:40]!r})"


def _signature(row: Mapping[str, str | None]) -> Signature:
    kind = row["type"] or "an unknown signature"
    member = _MEMBERS.get(kind, "")
    if not member and (row["usage"] == "raid" or kind.endswith("_member")):
        member = f"a RAID ({kind})"
    if row["usage"] == "partition-table":
        kind = f"{kind}{_TABLE}"
    return Signature(
        device=row["device"] or "", kind=kind, label=row["label"] or "", member_of=member, uuid=row.get("uuid") or ""
    )
