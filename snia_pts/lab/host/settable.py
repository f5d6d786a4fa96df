"""The settings of host and drive that the suite may change: where each is, and which values it may be given."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..array import controller as arrays
from ..device.identity import ROOT, attribute
from ..settings.settings import Setting
from ..settings.write_cache import CACHES

_BLOCK, _NUMBER = r"[a-z][A-Za-z0-9!_-]{0,63}", r"[0-9]{1,7}"
_QUEUE = "sys/block/{}/queue"
#: What tells a drive from every other, below its folder in /sys/block.
_IDENTITY = ("device/model", "device/serial", "serial", "device/wwid", "loop/backing_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of setting that is a file of sysfs: where, with ``{}`` for its place, of which places and values.

    One ``of_drive`` has a block device as its place.
    """

    path: str
    places: str = ""
    values: str
    of_drive: bool = False


#: Every kind by its name.
KINDS: Mapping[str, Kind] = {
    "governor": Kind(
        path="sys/devices/system/cpu/cpufreq/{}/scaling_governor", places=r"policy[0-9]{1,5}", values=r"[a-z_]{1,30}"
    ),
    "energy preference": Kind(
        path="sys/devices/system/cpu/cpufreq/{}/energy_performance_preference",
        places=r"policy[0-9]{1,5}",
        values=r"[a-z_]{1,30}|[0-9]{1,3}",
    ),
    "scheduler": Kind(path=f"{_QUEUE}/scheduler", places=_BLOCK, values=r"[a-z-]{1,30}", of_drive=True),
    # It goes with the scheduler: it is noted without a value to be set.
    "requests": Kind(path=f"{_QUEUE}/nr_requests", places=_BLOCK, values=f"({_NUMBER})?", of_drive=True),
    "merging": Kind(path=f"{_QUEUE}/nomerges", places=_BLOCK, values="[012]", of_drive=True),
    "largest I/O": Kind(path=f"{_QUEUE}/max_sectors_kb", places=_BLOCK, values=_NUMBER, of_drive=True),
    "PCIe power saving": Kind(path="sys/module/pcie_aspm/parameters/policy", values="[a-z]{1,30}"),
    "SATA power saving": Kind(
        path="sys/class/scsi_host/{}/link_power_management_policy",
        places="host[0-9]{1,5}",
        values="max_performance|medium_power|med_power_with_dipm|min_power|min_power_with_partial",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSetting:
    """A setting that is a file of sysfs; of those that list what there is (``[none] kyber``), the one in brackets."""

    kind: str
    place: str
    root: Path = ROOT

    @property
    def name(self) -> str:
        """The kind, and of a drive's the drive."""
        return f"{self.kind} of {self.place}" if KINDS[self.kind].of_drive else self.kind

    @property
    def drive(self) -> str:
        """See Setting."""
        return identity(self.root / "sys/block" / self.place) if KINDS[self.kind].of_drive else ""

    @property
    def lasting(self) -> bool:
        """Nothing of sysfs outlives a boot."""
        return False

    @property
    def path(self) -> Path:
        return self.root / KINDS[self.kind].path.format(self.place)

    def takes(self, value: str) -> bool:
        """See Setting."""
        return re.fullmatch(KINDS[self.kind].values, value) is not None

    def elsewhere(self) -> Iterator[Setting]:
        """See Setting: what a boot clears is nowhere else."""
        yield from ()

    def read(self) -> str | None:
        """See Setting."""
        return chosen(attribute(self.path)) or None

    def write(self, value: str) -> None:
        """See Setting."""
        if not self.takes(value):
            raise OSError(errno.EINVAL, "the suite knows no such value")
        descriptor = os.open(self.path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.write(descriptor, value.encode())
        finally:
            os.close(descriptor)


def find(kind: str, place: str, root: Path = ROOT) -> Setting | None:
    """Return a setting; None for one that the suite does not change."""
    for each in CACHES:
        if kind == each.KIND:
            return each(place=place, root=root) if re.fullmatch(each.PLACES, place) else None
    if kind == arrays.KIND:
        return arrays.find(place, root)
    known = KINDS.get(kind)
    return FileSetting(kind=kind, place=place, root=root) if known and re.fullmatch(known.places, place) else None


def chosen(text: str) -> str:
    """Return the one in brackets of a list of sysfs, or all of what is no list."""
    found = re.search(r"\[([^\]]*)\]", text)
    return found[1] if found else text


def identity(block: Path) -> str:
    """Return what tells a block device from every other that may come to have its name; at least its size."""
    told = "; ".join(text for name in _IDENTITY if (text := attribute(block / name)))
    return told or attribute(block / "size")
