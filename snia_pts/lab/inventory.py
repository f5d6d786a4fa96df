"""List the block devices of this host: identity, connection, and whether a test may use them.  Reads only."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ..errors import SniaPtsError
from ..model.dut import Dut
from ..units import whole_number
from .device.contents import Contents, read_contents
from .device.identity import ROOT, attribute, block_dut, require_kernel_files
from .device.refusals import require_free, require_node, require_spare, require_writable, stack_of
from .device.storage import device_path, partitions
from .device.usage import Usage, read_usage
from .purge import available_methods

_MAX_THREADS = 8
_TRANSIENT_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieLink:
    """Speed (GT/s) and width (lanes) of a PCIe link; 0 if the kernel does not report it."""

    gigatransfers: float
    lanes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedDevice:
    """A block device of this host.

    ``by_id`` are its persistent names, those with its serial number first.  ``dut`` is None if there is no medium.
    ``link`` and ``link_maximum`` are the PCIe link of an NVMe drive.  ``contents`` lists the signatures on it; they are
    read only if there is no other reason to refuse it.  ``refusal`` is the error of a test on it; None if it may be
    tested.
    """

    path: str
    by_id: tuple[str, ...]
    dut: Dut | None
    link: PcieLink | None
    link_maximum: PcieLink | None
    numa_node: int | None
    purge_methods: tuple[str, ...]
    contents: tuple[str, ...]
    refusal: SniaPtsError | None


def read_inventory(root: Path = ROOT) -> tuple[ListedDevice, ...]:
    """Return the disks and the bound loop devices of this host, sorted by name.

    Raises KernelFilesMissing.
    """
    require_kernel_files(root)
    usage = _without_transient(read_usage(root), root)
    blocks = sorted((block for block in (root / "sys/block").glob("*") if _is_present(block)), key=_natural_key)
    disks = {device_path(block, root): block.resolve() for block in blocks}
    refusals = {path: _in_use(path, block, usage, root) for path, block in disks.items()}
    free = {
        path: [device_path(partition, root) for partition in partitions(disks[path])]
        for path in disks
        if not refusals[path]
    }
    contents = read_contents(free)
    refusals |= {path: _refusal(path, contents[path]) for path in free}
    by_id = _names_by_id(root)
    with ThreadPoolExecutor(_MAX_THREADS) as pool:  # Most of the time is spent waiting for the drives.
        return tuple(
            pool.map(
                lambda path: _list_device(
                    path, disks[path], by_id.get(path.name, []), contents.get(path, Contents()), refusals[path], root
                ),
                disks,
            )
        )


def drive_paths(model: str, identity: str) -> list[str]:
    """Return the present paths of the drives with this model and ``Dut.identity``: the serial number, if it has one."""
    duts = (device.dut for device in read_inventory())
    return [dut.path for dut in duts if dut and (dut.model, dut.identity) == (model, identity)]


def _without_transient(usage: Usage, root: Path) -> Usage:
    """Return the usage without processes that open a device only briefly, such as udev."""
    time.sleep(_TRANSIENT_SECONDS)
    return usage.recheck_processes(root)


def _is_present(block: Path) -> bool:
    """Return whether it is a disk or a slot for one, not an additional path to a disk or an unbound loop device."""
    is_unbound = attribute(block / "size") in ("", "0") and not (block / "device").exists()
    return attribute(block / "hidden") != "1" and not is_unbound


def _in_use(path: Path, block: Path, usage: Usage, root: Path) -> SniaPtsError | None:
    """Return why a test would be refused before it reads the device's contents; None if it would not."""
    try:
        require_node(path, block)
        block_dut(path, block, root)
        require_free(path, stack_of(block, usage, root), usage, root)
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


def _list_device(
    path: Path, block: Path, by_id: Sequence[str], contents: Contents, refusal: SniaPtsError | None, root: Path
) -> ListedDevice:
    try:
        dut = block_dut(path, block, root)
    except SniaPtsError as error:  # The device may have been removed since the checks.
        dut, refusal = None, refusal or error
    function = pci_function(block) if dut and dut.bus == "NVMe" else None
    return ListedDevice(
        path=str(path),
        by_id=tuple(f"/dev/disk/by-id/{name}" for name in _readable_first(by_id, dut.serial if dut else "")),
        dut=dut,
        link=read_link(function, "current") if function else None,
        link_maximum=read_link(function, "max") if function else None,
        numa_node=numa_node(block),
        purge_methods=available_methods(dut, root) if dut else (),
        contents=contents.descriptions(path.name),
        refusal=refusal,
    )


def _names_by_id(root: Path) -> dict[str, list[str]]:
    """Return the names that udev gives each device, by the kernel's name."""
    names: dict[str, list[str]] = {}
    for name in (root / "dev/disk/by-id").glob("*"):
        if name.is_symlink():
            names.setdefault(name.readlink().name, []).append(name.name)
    return names


def _readable_first(names: Sequence[str], serial: str) -> list[str]:
    return sorted(names, key=lambda name: (serial not in name, len(name), name))


def parent_folders(block: Path) -> Iterator[Path]:
    """Yield the folders of a disk's parent devices, the nearest first; for multipath NVMe, those of each path."""
    controllers = [path.resolve() for path in sorted(block.parent.glob("nvme[0-9]*")) if path.is_symlink()]
    for start in (block, *controllers):
        yield from start.parents


def pci_function(block: Path) -> Path | None:
    """Return the folder of the PCIe function of a disk; None if the kernel reports no link."""
    return next((folder for folder in parent_folders(block) if (folder / "current_link_speed").exists()), None)


def read_link(function: Path, which: str) -> PcieLink:
    """Return the link of a PCIe function, ``current`` or ``max``."""
    speed = re.match(r"[0-9]{1,9}(\.[0-9]{1,9})?", attribute(function / f"{which}_link_speed"))
    lanes = whole_number(attribute(function / f"{which}_link_width"))
    return PcieLink(gigatransfers=float(speed[0]) if speed else 0.0, lanes=lanes or 0)


def numa_node(block: Path) -> int | None:
    """Return the NUMA node of a disk's controller; None if there is only one node, or it is not reported."""
    node = next((text for folder in parent_folders(block) if (text := attribute(folder / "numa_node"))), "-1")
    return whole_number(node)


def _natural_key(block: Path) -> list[tuple[int, str]]:
    """Return a sort key that sorts nvme2n1 before nvme10n1."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", block.name)]
