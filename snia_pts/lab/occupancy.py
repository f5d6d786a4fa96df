"""What the host does with its block devices: mounts, swap, what is made of them, who has them open.

Everything is read from /proc and /sys; no device is opened.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .device import ROOT, attribute, block_directory

#: Places that name block devices in the kernel's use, and what that use is.
_USES = (
    ("sys/fs/btrfs/*/devices/*", "it belongs to a btrfs file system in use"),
    ("sys/fs/bcachefs/*/dev-*/block", "it belongs to a bcachefs file system in use"),
    ("sys/kernel/config/nvmet/subsystems/*/namespaces/*/device_path", "it is exported to other hosts (NVMe target)"),
    ("sys/kernel/config/target/core/*/*/udev_path", "it is exported to other hosts (SCSI target)"),
)
_NUMBER = re.compile(r"[0-9]{1,9}:[0-9]{1,9}")
_LOCK = re.compile(r" FLOCK +\S+ +\S+ +(-?[0-9]{1,18}) ([0-9a-f]{1,7}):([0-9a-f]{1,7}):([0-9]{1,20}) ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """What was looked up once for all block devices.

    ``uses`` tells by the kernel's name of a device what it, or anything made of it, is in use for; ``openers`` by
    device number who has it open; ``locks`` by file system and inode of its node which process has locked it.
    """

    uses: Mapping[str, str]
    openers: Mapping[int, str]
    locks: Mapping[tuple[int, int], int]


def look(root: Path = ROOT) -> Occupancy:
    """Look at what the host does with its block devices."""
    uses: dict[str, str] = {}
    loops = dict(_loops(root))
    for top, use in _all_uses(loops, root):
        for device, way in _beneath(top, loops):
            through = f" (through {', '.join(way)})" if way else ""
            uses.setdefault(device.name, use + through)
    return Occupancy(uses=uses, openers=openers(root), locks=_locks(root))


def block_of(name: str, root: Path = ROOT) -> Path | None:
    """Return the sysfs folder of the block device that a path below /dev leads to; None where it leads to none."""
    if not name.startswith("/dev/"):
        return None
    try:
        real = Path(os.path.realpath(root / name.lstrip("/")))
        if real.is_block_device():
            return block_directory(real.stat().st_rdev, root)
        found = root / "sys/class/block" / real.name  # a name of another mount namespace: its last part is the kernel's
        return found.resolve() if found.exists() else None
    except ValueError:  # no file can have that name
        return None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return None


def device_path(block: Path, root: Path = ROOT) -> Path:
    """Return the name below /dev of a block device, given its sysfs folder."""
    return root / "dev" / block.name.replace("!", "/")


def label(block: Path) -> str:
    """Return what people call a block device: the device mapper's name for it, else the kernel's."""
    return attribute(block / "dm/name") or block.name


def partitions(block: Path) -> list[Path]:
    """Return the sysfs folders of a disk's partitions."""
    found = [child for child in block.iterdir() if (child / "partition").exists()] if block.is_dir() else []
    return sorted(found, key=lambda child: (len(child.name), child.name))


def holders(block: Path) -> list[Path]:
    """Return the sysfs folders of what is made of a disk, or of its partitions: LVM, RAID, device mapper, bcache."""
    folders = [each / "holders" for each in (block, *partitions(block))]
    return sorted({child.resolve() for folder in folders if folder.is_dir() for child in folder.iterdir()})


def backing_files(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Yield each loop device by name, and what it is made of."""
    for backing in sorted((root / "sys/block").glob("loop*/loop/backing_file")):
        yield backing.parent.parent.name, attribute(backing)


def is_swap(path: Path, root: Path = ROOT) -> bool:
    """Does the kernel swap to this file?"""
    return any(is_same(path, name) for name in _swaps(root))


def is_same(path: Path, name: str) -> bool:
    """Do both names lead to the same file?"""
    try:
        return str(path) == os.path.realpath(name) or path.samefile(name)
    except (OSError, ValueError):  # there is none, or can be none of that name
        return False


def openers(root: Path = ROOT) -> dict[int, str]:
    """Return who has block devices open, by device number, as far as this process may see; itself left out."""
    names = {entry.name for entry in _entries(root / "sys/class/block")}
    found: dict[int, str] = {}
    for owner, link in descriptors(root):
        try:
            name = os.readlink(link)  # noqa: PTH115  # by the thousand
            if not name.startswith("/dev/") and name.rpartition("/")[2] not in names:
                continue
            status = os.stat(link)  # noqa: PTH116
        except OSError:
            continue
        if stat.S_ISBLK(status.st_mode):
            found.setdefault(status.st_rdev, program(owner, root))
    return found


def descriptors(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Yield process and link of every descriptor that other processes have open and that may be looked at."""
    for owner in _processes(root):
        if owner != str(os.getpid()):
            yield from ((owner, entry.path) for entry in _entries(root / "proc" / owner / "fd"))


def program(owner: str, root: Path = ROOT) -> str:
    """Return the name and number of a process."""
    return f"{attribute(root / 'proc' / owner / 'comm') or 'a program'} (process {owner})"


def _all_uses(loops: Mapping[str, Path], root: Path) -> Iterator[tuple[Path, str]]:
    """Yield each block device in use and its use; the root file system, which matters most, first."""
    mounts = list(_mounts(root))
    yield from ((block, use) for block, use, is_root in mounts if is_root)
    for name in _swaps(root):
        if block := block_of(name, root):
            yield block, "it is swap space"
    yield from ((block, use) for block, use, is_root in mounts if not is_root)
    for pattern, use in _USES:
        for place in root.glob(pattern):
            block = place.resolve() if place.is_dir() else block_of(attribute(place), root)
            if block:
                yield block, use
    for loop, below in loops.items():
        yield below, f"/dev/{loop} is made of it"


def _mounts(root: Path) -> Iterator[tuple[Path, str, bool]]:
    """Yield each mounted block device, where that is, and whether that is our root file system or the host's."""
    for where, table in _mount_tables(root):
        for line in table.splitlines():
            before, _, after = line.partition(" - ")
            fields, source = before.split(), after.split()[1:2]
            if len(fields) < 5:
                continue
            use = f"it is mounted on {fields[4]}{where}"
            is_root = fields[4] == "/" and not where
            for block in _sources(fields[2], source[0] if source else "", root):
                yield block, "the root file system is on it" if is_root else use, is_root


def _sources(number: str, source: str, root: Path) -> list[Path]:
    """What a mount is made of: by its device number, else (btrfs, bcachefs) by the names of its devices."""
    by_number = root / "sys/dev/block" / number
    if _NUMBER.fullmatch(number) and by_number.exists():
        return [by_number.resolve()]
    return [block for name in _plain(source).split(":") if (block := block_of(name, root))]


def _mount_tables(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the mounts of each mount namespace that may be read, ours and the host's first, and a word of where it is.

    Namespaces are told apart by their number, where that may not be read by what is mounted in them.
    """
    seen: set[str] = set()
    for owner in ("self", *_processes(root)):
        try:
            namespace = str((root / "proc" / owner / "ns/mnt").readlink())
        except OSError:
            namespace = ""
        if namespace and namespace in seen:
            continue
        table = attribute(root / "proc" / owner / "mountinfo")
        if table and table not in seen:
            where = "" if owner in ("self", "1") else f" in another mount namespace, that of {program(owner, root)}"
            yield where, table
        seen |= {table, namespace}


def _swaps(root: Path) -> Iterator[str]:
    """Yield the name of each swap space, a device or a file."""
    for line in attribute(root / "proc/swaps").splitlines()[1:]:
        yield from map(_plain, line.split()[:1])


def _plain(text: str) -> str:
    """Undo what /proc does to blanks in names."""
    return re.sub(r"\\(0[0-7]{2}|134)", lambda found: chr(int(found[1], 8)), text)


def _loops(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name of each loop device on a block device, and that."""
    for loop, name in backing_files(root):
        if below := block_of(name, root):
            yield loop, below


def _beneath(top: Path, loops: Mapping[str, Path]) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yield a block device and all that it is made of, each with what lies between, from the top down."""
    waiting: list[tuple[Path, tuple[str, ...]]] = [(top, ())]
    seen = set()
    while waiting:
        block, way = waiting.pop()
        if block.name in seen:
            continue
        seen.add(block.name)
        yield block, way
        below = [each.resolve() for each in _entries_of(block / "slaves")]
        if (block / "partition").exists():
            below.append(block.parent)
        if block.name in loops:
            below.append(loops[block.name])
        waiting += [(each, (*way, label(block))) for each in below]


def _locks(root: Path) -> dict[tuple[int, int], int]:
    """Which process has locked (flock) which inode of which file system; the kernel tells everybody."""
    found = {}
    for owner, major, minor, inode in _LOCK.findall(attribute(root / "proc/locks")):
        found[os.makedev(int(major, 16), int(minor, 16)), int(inode)] = int(owner)
    return found


def _processes(root: Path) -> list[str]:
    return sorted((entry.name for entry in _entries(root / "proc") if entry.name.isdigit()), key=int)


def _entries_of(folder: Path) -> list[Path]:
    return [Path(entry.path) for entry in _entries(folder)]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """What a folder of /proc or /sys holds; nothing where it is gone, or not ours to look at."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
