"""What is on a drive: file systems, partition tables, and marks of being part of something larger.

util-linux's wipefs knows them; it is told to act on nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ..units import KIB
from . import process

_TIMEOUT_SECONDS = 60
_EDGE_BYTES = 256 * KIB
#: Marks that have no usage "raid", but mean the same: data that only makes sense together with other drives'.
_MEMBERS = {
    "zfs_member": "a ZFS pool",
    "bcache": "a bcache",
    "ceph_bluestore": "Ceph",
    "LVM2_member": "LVM",
    "linux_raid_member": "a Linux RAID",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Something recognised on a device: its kind (``ext4``, ``gpt partition table``), its label, and what the device
    is a member of, if of anything.
    """

    device: str
    kind: str
    label: str
    member_of: str

    @property
    def words(self) -> str:
        """Kind and label."""
        return f"{self.kind} {self.label}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What is recognised on a disk and its partitions; ``unreadable`` is why that cannot be told, if it cannot."""

    partitions: tuple[str, ...] = ()
    signatures: tuple[Signature, ...] = ()
    unreadable: str = ""

    def told(self, disk: str) -> tuple[str, ...]:
        """Return it in words, each once: ``gpt``, ``sdb1 (ext4 photos)``; of a partition the name at least."""
        words = [each.words for each in self.signatures if each.device == disk]
        for partition in self.partitions:
            on_it = [each.words for each in self.signatures if each.device == partition]
            words.append(f"{partition} ({', '.join(dict.fromkeys(on_it)) or 'nothing recognised'})")
        return tuple(dict.fromkeys(words))


def read_contents(disks: Mapping[Path, Sequence[Path]], evidence: Path | None = None) -> dict[Path, Contents]:
    """Return what is on each disk, given the partitions of each; ``evidence`` is the base name of what is kept of it.

    One program looks at all of them; where that fails (one is gone meanwhile), each is looked at by itself.
    """
    unreadable = {disk: _unreadable(disk) for disk in disks}
    readable = [disk for disk, reason in unreadable.items() if not reason]
    found, failed = _signatures([each for disk in readable for each in (disk, *disks[disk])], evidence)
    if failed and len(disks) > 1:
        return {disk: read_contents({disk: parts})[disk] for disk, parts in disks.items()}
    return {
        disk: Contents(
            partitions=tuple(part.name for part in parts),
            signatures=tuple(each for each in found if each.device in {disk.name, *(part.name for part in parts)}),
            unreadable=unreadable[disk] or failed,
        )
        for disk, parts in disks.items()
    }


def _unreadable(disk: Path) -> str:
    """Why a disk cannot be read at its beginning or end, where signatures are; wipefs says "nothing" then."""
    try:
        descriptor = os.open(disk, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return error.strerror or str(error)
    try:
        end = os.lseek(descriptor, 0, os.SEEK_END)
        for place, until in ((0, min(end, _EDGE_BYTES)), (max(0, end - _EDGE_BYTES), end)):
            while place < until:  # what is read up to a bad sector is no error yet
                place += len(os.pread(descriptor, until - place, place)) or until
    except OSError as error:
        return error.strerror or str(error)
    finally:
        os.close(descriptor)
    return ""


def _signatures(devices: Sequence[Path], evidence: Path | None) -> tuple[list[Signature], str]:
    """Return all that is recognised on these devices, or why that could not be told."""
    if not devices:
        return [], ""
    argv = ["wipefs", "--no-act", "--json", "--output", "DEVICE,TYPE,USAGE,LABEL", *map(str, devices)]
    with TemporaryDirectory(prefix="snia-pts-") as folder:
        finished = process.run(argv, evidence=evidence or Path(folder) / "wipefs", timeout_seconds=_TIMEOUT_SECONDS)
    if finished.exit_code or finished.timed_out:
        return [], finished.complaint
    return recognised(finished.stdout)


def recognised(said: str) -> tuple[list[Signature], str]:
    """Return what wipefs says that it recognises, or why that is not understood."""
    try:
        rows = json.loads(said)["signatures"] if said.strip() else []
        return [_signature(row) for row in rows], ""
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return [], f"wipefs answers something else than expected ({said[:40]!r})"


def _signature(row: Mapping[str, str | None]) -> Signature:
    kind = row["type"] or "something unknown"
    member = _MEMBERS.get(kind, "")
    if not member and (row["usage"] == "raid" or kind.endswith("_member")):
        member = f"a RAID ({kind})"
    if row["usage"] == "partition-table":
        kind = f"{kind} partition table"
    return Signature(device=row["device"] or "", kind=kind, label=row["label"] or "", member_of=member)
