"""Estimate the maximum speed of a device from its link, and find the links that drives share.  Reads only."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from ..analysis.side_by_side import SharedLink
from ..model.dut import AssumedSpeed, Dut
from ..model.raid import LINKS, LinkSpeed, fabric_mb_per_second
from .device.identity import ROOT, attribute
from .inventory import parent_folders, pci_function, read_link

#: The assumed minimum write speed of a drive for sequential streams; the real one is unknown before a measurement.
_MIN_MB_PER_SECOND = 500.0
#: The link that is assumed for a drive whose link is unknown: the fastest one with a known line code.
_DEFAULT_LINK = ("pcie-5", 4)
_USB_DEVICE = re.compile(r"[0-9]+-[0-9.]+")
_GBIT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?) ?G")


def assumed_speed(dut: Dut, root: Path = ROOT) -> AssumedSpeed:
    """Return the assumed speed of a device: that of its link, or for an array the sum of its members' links."""
    paths = [member.path for member in dut.array.members] if dut.array else [dut.path]
    buses = [dut.bus] if not dut.array else [""] * len(paths)
    links = [_link(block_of(path, root), bus) or _default_link() for path, bus in zip(paths, buses, strict=True)]
    max_speed = sum(mb_per_second for mb_per_second, _ in links)
    names = ", ".join(dict.fromkeys(name for _, name in links))
    return AssumedSpeed(
        read=max_speed,
        write=max_speed,
        minimum_write=min(max_speed, _MIN_MB_PER_SECOND),
        source=f"the links of its members: {names}" if dut.array else names,
    )


def link_speed(dut: Dut, root: Path = ROOT) -> float | None:
    """Return the MB/s of a device's own link in each direction; None if its link is not reported."""
    link = _link(block_of(dut.path, root), dut.bus)
    return link[0] if link else None


def shared_links(block: Path) -> Iterator[SharedLink]:
    """Yield the links between a disk and the CPUs: PCIe slots and switches, ports of SAS expanders, USB devices."""
    for folder in dict.fromkeys(parent_folders(block)):
        if (folder / "current_link_speed").exists():
            link = read_link(folder, "current")
            if link.gigatransfers and link.lanes:
                mb_per_second, name = _pcie(link.gigatransfers, link.lanes)
                yield SharedLink(f"{name} at {folder.name}", mb_per_second)
        elif folder.name.startswith("port-") and (gbits := _port_gbits(folder)):
            yield SharedLink(f"{_sas_name(gbits)} at {folder.name}", sum(map(_sas_mb_per_second, gbits)))
        elif _USB_DEVICE.fullmatch(folder.name) and (megabits := _megabits(folder)):
            yield SharedLink(f"USB {megabits:g} Mb/s at {folder.name}", _usb_mb_per_second(megabits))


def block_of(path: str, root: Path = ROOT) -> Path:
    """Return the sysfs folder of a block device; a path that does not exist for anything else."""
    return (root / "sys/class/block" / Path(os.path.realpath(path)).name).resolve()


def _link(block: Path, bus: str) -> tuple[float, str] | None:
    """Return the MB/s of a disk's link in each direction, and the link's name; None if it is not reported."""
    sysfs_path = str(block)
    function = pci_function(block) if "/nvme" in sysfs_path else None
    if function is not None and (link := read_link(function, "current")).gigatransfers and link.lanes:
        multipaths = [path for path in block.parent.glob("nvme[0-9]*") if path.is_symlink()]
        return _pcie(link.gigatransfers, link.lanes * max(1, len(multipaths)))
    if "/usb" in sysfs_path and (megabits := _usb_megabits(block)):
        return _usb_mb_per_second(megabits), f"USB {megabits:g} Mb/s"
    if gbits := _sas_gbits(block):
        return sum(map(_sas_mb_per_second, gbits)), _sas_name(gbits)
    if bus == "SATA" or "/ata" in sysfs_path:
        return LINKS["sata-3"].mb_per_second, "SATA 6 Gb/s"
    return None


def _default_link() -> tuple[float, str]:
    kind, lanes = _DEFAULT_LINK
    return fabric_mb_per_second(lanes, LINKS[kind]), f"PCIe {kind[-1]}.0 x{lanes} (assumed; its link is not reported)"


def _pcie(gigatransfers: float, lanes: int) -> tuple[float, str]:
    kinds = {speed.gbit_per_second: kind for kind, speed in LINKS.items() if kind.startswith("pcie")}
    kind = kinds.get(gigatransfers)
    # The line code of a link newer than the list is unknown, so its overhead is not subtracted.
    lane = LINKS[kind] if kind else LinkSpeed(gbit_per_second=gigatransfers)
    name = f"PCIe {kind[-1]}.0" if kind else f"PCIe {gigatransfers:g} GT/s"
    return fabric_mb_per_second(lanes, lane), f"{name} x{lanes}"


def _usb_megabits(block: Path) -> float:
    """Return the speed of a disk's USB device; 0 if there is none."""
    return next((megabits for folder in block.parents if (megabits := _megabits(folder))), 0.0)


def _megabits(folder: Path) -> float:
    speed = attribute(folder / "speed")
    return float(speed) if re.fullmatch(r"[0-9]{1,6}(\.[0-9])?", speed) else 0.0


def _usb_mb_per_second(megabits: float) -> float:
    return LinkSpeed(gbit_per_second=megabits / 1000).mb_per_second


def _sas_gbits(block: Path) -> list[float]:
    """Return the Gb/s of each lane of a disk's SAS port; [] if there is no port."""
    end = next((folder for folder in block.parents if folder.name.startswith("end_device-")), None)
    return _port_gbits(end.parent) if end else []


def _port_gbits(port: Path) -> list[float]:
    """Return the Gb/s of each lane of a SAS port."""
    rates = port.glob("phy-*/sas_phy/*/negotiated_linkrate")
    return [float(match[1]) for rate in rates if (match := _GBIT.match(attribute(rate)))]


def _sas_name(gbits: list[float]) -> str:
    return f"SAS {max(gbits):g} Gb/s x{len(gbits)}"


def _sas_mb_per_second(gbits: float) -> float:
    speeds = (speed for kind, speed in LINKS.items() if kind.startswith("sas"))
    lane = next((speed for speed in speeds if speed.gbit_per_second == gbits), LinkSpeed(gbit_per_second=gbits))
    return lane.mb_per_second
