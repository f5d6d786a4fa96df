"""How the host uses its block devices and files: mounts, swap, exports, devices built on them, processes.

Everything is read from /proc and /sys, and from the images of file systems that are mounted from a file.  The only
devices that are opened, for reading, are loop devices, to ask for their backing file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from .identity import ROOT, attribute, block_directory, cached_status
from .mounts import Mount, kernel_text, parse_mounts, unescaped
from .processes import Processes, keep_persistent, program, read_pids, read_processes
from .storage import (
    Backing,
    Identity,
    Layer,
    block_of,
    device_identity,
    devices_of_mount,
    identity_at,
    layers,
    partitions,
    read_backings,
)

#: Files of /sys that name a block device or file in use by the kernel, and the use.
_USES = (
    ("sys/fs/btrfs/*/devices/*", "belongs to a btrfs file system in use"),
    ("sys/fs/bcachefs/*/dev-*/block", "belongs to a bcachefs file system in use"),
    ("sys/kernel/config/nvmet/subsystems/*/namespaces/*/device_path", "is exported to other hosts (NVMe target)"),
    ("sys/kernel/config/target/core/*/*/udev_path", "is exported to other hosts (SCSI target)"),
    ("sys/kernel/config/usb_gadget/*/functions/mass_storage.*/lun.*/file", "is exported to another host (USB)"),
)
_NAMED = 3
#: The offset of the number of further devices in an image (struct erofs_super_block of fs/erofs/erofs_fs.h).
_EROFS_EXTRA_DEVICES = 1024 + 0x56


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A use of an object, or of a device that is built on it.

    ``predicate`` says what the used device is: ``is mounted at /mnt``.  ``above`` holds the names of the devices from
    the used one down to the object, empty if the object itself is used; ``partition`` is True if that device is a
    partition of the object.  ``by`` is the device built on the object if that alone is the use, else None.
    """

    predicate: str
    above: tuple[str, ...] = ()
    partition: bool = False
    by: Identity | None = None

    def sentence(self, name: str = "it") -> str:
        """Return the use as a sentence about the object called ``name``."""
        if not self.above:
            return f"{name} {self.predicate}"
        user, *between = self.above
        if self.partition:
            owner = "its" if name == "it" else f"{name}'s"
            return f"{owner} partition {user} {self.predicate}"
        through = f" (through {', '.join(between)})" if between else ""
        return f"{user}, which is built on {name}{through}, {self.predicate}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The uses of all block devices and files of a host; of several uses of an object the most serious is first.

    ``multi_file_mounts`` are the mount points of file systems that use files which the kernel does not report.
    """

    uses: Mapping[Identity, tuple[Use, ...]]
    processes: Processes
    backings: Mapping[str, Backing]
    multi_file_mounts: tuple[str, ...] = ()

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Descriptions of what could not be examined, for the operator."""
        unopened = [name for name, backing in self.backings.items() if backing.open_error]
        others = f" and {len(unopened) - _NAMED} more" if len(unopened) > _NAMED else ""
        use, they = ("uses", "it") if len(unopened) == 1 else ("use", "they")
        loops = f"whether {', '.join(unopened[:_NAMED])}{others} {use} it by another name ({they} cannot be opened)"
        return (*self.processes.unchecked, *[loops] * bool(unopened))

    def recheck_processes(self, root: Path = ROOT) -> Usage:
        """Read the processes again; return the usage without the objects that none uses now, or none used before."""
        return replace(self, processes=keep_persistent(self.processes, read_processes(root)))


def read_usage(root: Path = ROOT) -> Usage:
    """Read how the host uses its block devices and files."""
    uses: dict[Identity, dict[Use, None]] = {}
    backings = read_backings(root)
    for top, use in _all_uses(backings, root):
        if isinstance(top, Path):
            for layer in layers(top, backings, root):
                lower = replace(use, above=layer.between, partition=_is_partition(layer))
                uses.setdefault(layer.identity, {})[lower] = None
        else:
            uses.setdefault(top, {})[use] = None
    return Usage(
        uses={identity: tuple(object_uses) for identity, object_uses in uses.items()},
        processes=read_processes(root),
        backings=backings,
        multi_file_mounts=tuple(_multi_file_mounts(root)),
    )


def _is_partition(layer: Layer) -> bool:
    """Return whether the only device above ``layer`` is one of its partitions."""
    return layer.block is not None and layer.between in {(part.name,) for part in partitions(layer.block)}


def _all_uses(backings: Mapping[str, Backing], root: Path) -> Iterator[tuple[Path | Identity, Use]]:
    """Yield each block device (its sysfs folder) or file in use, and its use; the root file system first."""
    mounts = list(_mounts(root))
    yield from ((top, Use(predicate=predicate)) for top, predicate, is_root in mounts if is_root)
    for name in _swaps(root):
        yield from _uses_of(name, "is swap space", root)
    yield from ((top, Use(predicate=predicate)) for top, predicate, is_root in mounts if not is_root)
    for pattern, predicate in _USES:
        for path in root.glob(pattern):
            if path.is_dir():
                yield path.resolve(), Use(predicate=predicate)
            else:
                yield from _uses_of(attribute(path), predicate, root)
    for name, backing in backings.items():
        by = device_identity((root / "sys/block" / name).resolve())
        if backing.identity is not None:
            yield _top(backing.identity, root), Use(predicate=f"backs /dev/{name}", by=by)


def _uses_of(name: str, predicate: str, root: Path) -> Iterator[tuple[Path | Identity, Use]]:
    """Yield the block device or file whose name the kernel reports, and its use; nothing if the name leads nowhere."""
    use = Use(predicate=predicate)
    if block := block_of(name, root):
        yield block, use
    elif name.startswith("/") and (identity := identity_at(root / name.lstrip("/"))):
        yield identity, use


def _top(identity: Identity, root: Path) -> Path | Identity:
    return block_directory(identity.device, root) if identity.kind == "device" else identity


def _mounts(root: Path) -> Iterator[tuple[Path | Identity, str, bool]]:
    """Yield each mounted block device or file, the predicate of its use, and whether it is the root file system.

    The root file system is that of this process or of the host.  A file can be mounted directly (erofs), or bound to
    another name.
    """
    for pid, where, table in _mount_tables(root):
        tree = root / "proc" / pid / "root"
        for mount in parse_mounts(table):
            mounted = f"is mounted at {mount.point}{where}"
            is_root = mount.point == "/" and not where
            for top in _sources(mount, tree, root):
                yield top, "holds the root file system" if is_root else mounted, is_root
            if mount.part != "/":  # only part of a file system: a folder or a file
                bound = identity_at(f"{tree}{mount.point}")
                if bound and bound.kind == "file":
                    yield bound, mounted, False


def _sources(mount: Mount, tree: Path, root: Path) -> list[Path | Identity]:
    """Return the devices of a mount, else the file that is mounted, by its name below ``tree``."""
    if devices := devices_of_mount(mount, root):
        return [*devices]
    file = identity_at(f"{tree}{mount.source}") if mount.source.startswith("/") else None
    return [_top(file, root)] if file else []


def _multi_file_mounts(root: Path) -> Iterator[str]:
    """Yield where an erofs is mounted from a file and uses further files, or may use them.

    Tables of mounts lack the option ``device=`` that names them.  An erofs on a block device uses only such devices.
    """
    for pid, where, table in _mount_tables(root):
        for mount in parse_mounts(table):
            if mount.kind == "erofs" and mount.source.startswith("/") and not devices_of_mount(mount, root):
                try:
                    with open(f"{root / 'proc' / pid / 'root'}{mount.source}", "rb", opener=_open_at_once) as image:
                        image.seek(_EROFS_EXTRA_DEVICES)
                        count = image.read(2)
                except OSError:
                    count = b""
                if count != bytes(2):
                    yield f"{mount.point}{where}"


def _open_at_once(name: str, flags: int) -> int:
    """Open a file, without waiting if it is a named pipe."""
    return os.open(name, flags | os.O_NONBLOCK)


def _mount_tables(root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield for each readable mount namespace a process in it, the words that name it in a message, and its mounts.

    This process's namespace and the host's come first, with empty words.  A table lists only the mounts below the root
    directory of its process, so there is one for each root directory in a namespace (chroot); they are distinguished by
    their content if these may not be read.
    """
    visited: set[object] = set()
    for pid in ("self", *read_pids(root)):
        process = root / "proc" / pid
        try:
            status = cached_status(process / "root")
            view = str((process / "ns/mnt").readlink()), status.st_dev, status.st_ino
        except OSError:
            view = None
        if view in visited:
            continue
        table = kernel_text(process / "mountinfo")
        if table and table not in visited:
            where = "" if pid in ("self", "1") else f" in the mount namespace of {program(pid, root)}"
            yield pid, where, table
        visited |= {table, view} - {None}


def _swaps(root: Path) -> Iterator[str]:
    """Yield the name of each swap device or file."""
    for line in kernel_text(root / "proc/swaps").split("\n")[1:]:
        yield unescaped(re.split("[ \t]", line, maxsplit=1)[0])
