"""The block devices of this host: what each is, where it hangs, and whether a test may have it.  Reads only."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import SniaPtsError
from ..model.dut import Dut
from ..units import whole_number
from .device.contents import Contents, read_contents
from .device.guard import require_free, require_node, require_spare, require_writable, stack_of
from .device.identity import ROOT, attribute, block_dut, require_kernel_files
from .device.storage import device_path, partitions
from .device.usage import Usage, read_usage
from .purge import offers

_ASKED_AT_ONCE = 8
_PASSING_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Speed (GT/s) and width (lanes) of a PCIe link; 0 where the kernel does not know."""

    gigatransfers: float
    lanes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A block device of this host.

    ``by_id`` are its names that stay the same when drives are plugged in another order, those with its serial number
    first.  ``dut`` is None where there is no medium.  ``link`` and ``link_maximum`` are an NVMe drive's own PCIe link.
    ``contents`` tells what is recognised on it, if it was looked at: only where nothing else refuses it.
    ``refusal`` is what a test on it would end with at once, None where it may be tested.
    """

    path: str
    by_id: tuple[str, ...]
    dut: Dut | None
    link: Link | None
    link_maximum: Link | None
    numa_node: int | None
    purge_methods: tuple[str, ...]
    contents: tuple[str, ...]
    refusal: SniaPtsError | None


def read_inventory(root: Path = ROOT) -> tuple[Listed, ...]:
    """Return the disks of this host, and the loop devices that are bound, in the order of their names.

    Raises KernelFilesMissing.
    """
    from concurrent.futures import ThreadPoolExecutor  # for who lists devices, and not for every test

    require_kernel_files(root)
    usage = _lasting(read_usage(root), root)
    blocks = sorted((each for each in (root / "sys/block").glob("*") if _is_there(each)), key=_natural)
    disks = {device_path(block, root): block.resolve() for block in blocks}
    refusals = {path: _in_use(path, block, usage, root) for path, block in disks.items()}
    free = {path: [device_path(each, root) for each in partitions(disks[path])] for path in disks if not refusals[path]}
    contents = read_contents(free)
    refusals |= {path: _refusal(path, contents[path]) for path in free}
    by_id = _names_by_id(root)
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:  # most of the time is the drives' own, which answer what they have
        return tuple(
            pool.map(
                lambda path: _listed(
                    path, disks[path], by_id.get(path.name, []), contents.get(path, Contents()), refusals[path], root
                ),
                disks,
            )
        )


def _lasting(usage: Usage, root: Path) -> Usage:
    """Leave out who has a device open for a moment only, as udev and other lists do."""
    time.sleep(_PASSING_SECONDS)
    return usage.recheck_processes(root)


def _is_there(block: Path) -> bool:
    """Is it a disk, or a slot for one?  Not: another path to one, or a loop device without a file."""
    sizeless = attribute(block / "size") in ("", "0") and not (block / "device").exists()
    return attribute(block / "hidden") != "1" and not sizeless


def _in_use(path: Path, block: Path, usage: Usage, root: Path) -> SniaPtsError | None:
    """Why a test would be refused before it looks at what is on the device."""
    try:
        require_node(path, block)
        block_dut(path, block, root)
        require_free(path, stack_of(block, usage, root), usage)
        require_writable(path)
    except SniaPtsError as refusal:
        return refusal
    return None


def _refusal(path: Path, contents: Contents) -> SniaPtsError | None:
    try:
        require_spare(path, contents, discard_data=False)
    except SniaPtsError as refusal:
        return refusal
    return None


def _listed(
    path: Path, block: Path, by_id: Sequence[str], contents: Contents, refusal: SniaPtsError | None, root: Path
) -> Listed:
    try:
        dut = block_dut(path, block, root)
    except SniaPtsError as gone:  # maybe only since it was looked at
        dut, refusal = None, refusal or gone
    function = pci_function(block) if dut and dut.bus == "NVMe" else None
    return Listed(
        path=str(path),
        by_id=tuple(f"/dev/disk/by-id/{name}" for name in _readable_first(by_id, dut.serial if dut else "")),
        dut=dut,
        link=link(function, "current") if function else None,
        link_maximum=link(function, "max") if function else None,
        numa_node=numa_node(block),
        purge_methods=offers(dut, root) if dut else (),
        contents=contents.descriptions(path.name),
        refusal=refusal,
    )


def _names_by_id(root: Path) -> dict[str, list[str]]:
    """The names that udev gives each device, by the kernel's name."""
    found: dict[str, list[str]] = {}
    for name in (root / "dev/disk/by-id").glob("*"):
        if name.is_symlink():
            found.setdefault(name.readlink().name, []).append(name.name)
    return found


def _readable_first(names: Sequence[str], serial: str) -> list[str]:
    return sorted(names, key=lambda name: (serial not in name, len(name), name))


def above(block: Path) -> Iterator[Path]:
    """Yield the folders of the devices that a disk hangs on, the nearest first; of multipath NVMe, of each path."""
    controllers = [each.resolve() for each in sorted(block.parent.glob("nvme[0-9]*")) if each.is_symlink()]
    for start in (block, *controllers):
        yield from start.parents


def pci_function(block: Path) -> Path | None:
    """Return the folder of the PCIe function that a disk hangs on; None where the kernel tells of no link."""
    return next((folder for folder in above(block) if (folder / "current_link_speed").exists()), None)


def link(function: Path, which: str) -> Link:
    """Return the link of a PCIe function, ``current`` or ``max``."""
    speed = re.match(r"[0-9]{1,9}(\.[0-9]{1,9})?", attribute(function / f"{which}_link_speed"))
    lanes = whole_number(attribute(function / f"{which}_link_width"))
    return Link(gigatransfers=float(speed[0]) if speed else 0.0, lanes=lanes or 0)


def numa_node(block: Path) -> int | None:
    """The memory that a disk's controller is next to; None where there is only one, or the kernel does not say."""
    node = next((text for folder in above(block) if (text := attribute(folder / "numa_node"))), "-1")
    return whole_number(node)


def _natural(block: Path) -> list[tuple[int, str]]:
    """Sort nvme2n1 before nvme10n1."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", block.name)]
