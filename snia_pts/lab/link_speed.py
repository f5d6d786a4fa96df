"""How fast a device can be at most, by the link it hangs on, for plans.  Reads only."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ..model.dut import Dut, SupposedSpeed
from ..model.raid import LINKS, Link, fabric_mb_per_second
from .device.identity import ROOT, attribute
from .inventory import link, pci_function

#: What a drive is supposed to write at least where it streams; nothing tells before it did.
_LEAST_MB_PER_SECOND = 500.0
#: The link that is supposed where none is known: the fastest of those with a known line code.
_SUPPOSED = ("pcie-5", 4)
_GBIT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?) ?G")


def supposed_speed(dut: Dut, root: Path = ROOT) -> SupposedSpeed:
    """Return how fast a device may be: as its link, an array as all links of its members."""
    paths = [member.path for member in dut.array.members] if dut.array else [dut.path]
    buses = [dut.bus] if not dut.array else [""] * len(paths)
    found = [_link(_block(path, root), bus) for path, bus in zip(paths, buses, strict=True)]
    most = sum(mb_per_second for mb_per_second, _ in found)
    names = ", ".join(dict.fromkeys(name for _, name in found))
    return SupposedSpeed(
        read=most,
        write=most,
        least=min(most, _LEAST_MB_PER_SECOND),
        source=f"the links of its members: {names}" if dut.array else names,
    )


def _block(path: str, root: Path) -> Path:
    return (root / "sys/class/block" / Path(os.path.realpath(path)).name).resolve()


def _link(block: Path, bus: str) -> tuple[float, str]:
    """Return the MB/s that go through the link of a disk each way, and what it is called."""
    place = str(block)
    function = pci_function(block) if "/nvme" in place else None
    if function is not None and (found := link(function, "current")).gigatransfers and found.lanes:
        several = [each for each in block.parent.glob("nvme[0-9]*") if each.is_symlink()]  # paths to one drive
        return _pcie(found.gigatransfers, found.lanes * max(1, len(several)))
    if "/usb" in place and (megabits := _usb_megabits(block)):
        return Link(gbit_per_second=megabits / 1000).mb_per_second, f"USB {megabits:g} Mb/s"
    if gbits := _sas_gbits(block):
        return sum(map(_sas_mb_per_second, gbits)), f"SAS {max(gbits):g} Gb/s x{len(gbits)}"
    if bus == "SATA" or "/ata" in place:
        return LINKS["sata-3"].mb_per_second, "SATA 6 Gb/s"
    kind, lanes = _SUPPOSED
    return fabric_mb_per_second(lanes, LINKS[kind]), f"PCIe {kind[-1]}.0 x{lanes}, as nothing tells its link"


def _pcie(gigatransfers: float, lanes: int) -> tuple[float, str]:
    kinds = {each.gbit_per_second: kind for kind, each in LINKS.items() if kind.startswith("pcie")}
    kind = kinds.get(gigatransfers)
    lane = LINKS[kind] if kind else Link(gbit_per_second=gigatransfers)  # one newer than the list: without its code
    name = f"PCIe {kind[-1]}.0" if kind else f"PCIe {gigatransfers:g} GT/s"
    return fabric_mb_per_second(lanes, lane), f"{name} x{lanes}"


def _usb_megabits(block: Path) -> float:
    """Return the speed of the USB device that a disk hangs on; 0 where there is none."""
    speed = next((text for folder in block.parents if (text := attribute(folder / "speed"))), "")
    return float(speed) if re.fullmatch(r"[0-9]{1,6}(\.[0-9])?", speed) else 0.0


def _sas_gbits(block: Path) -> list[float]:
    """Return the Gb/s of each lane of the SAS port that a disk hangs on; none where there is no port."""
    end = next((folder for folder in block.parents if folder.name.startswith("end_device-")), None)
    rates = end.parent.glob("phy-*/sas_phy/*/negotiated_linkrate") if end else ()
    return [float(found[1]) for rate in rates if (found := _GBIT.match(attribute(rate)))]


def _sas_mb_per_second(gbits: float) -> float:
    kinds = (each for kind, each in LINKS.items() if kind.startswith("sas"))
    lane = next((each for each in kinds if each.gbit_per_second == gbits), Link(gbit_per_second=gbits))
    return lane.mb_per_second
