"""The settings of host and drive that the suite may change: their paths and the values that they accept."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ... import registries
from ..device.identity import ROOT, attribute
from ..settings.settings import Setting
from ..settings.write_cache import CACHES

_BLOCK, _NUMBER = r"[a-z][A-Za-z0-9!_-]{0,63}", r"[0-9]{1,7}"
_QUEUE = "sys/block/{}/queue"
#: Files below a drive's folder in /sys/block that together identify the drive.
_IDENTITY_FILES = ("device/model", "device/serial", "serial", "device/wwid", "loop/backing_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of setting that is a file in sysfs.

    ``path`` has ``{}`` for the place; ``places`` and ``values`` are the patterns of valid places and values.  The place
    of a drive setting (``is_drive_setting``) is a block device.
    """

    path: str
    places: str = ""
    values: str
    is_drive_setting: bool = False


#: All kinds by name.
KINDS: Mapping[str, Kind] = {
    "governor": Kind(
        path="sys/devices/system/cpu/cpufreq/{}/scaling_governor", places=r"policy[0-9]{1,5}", values=r"[a-z_]{1,30}"
    ),
    "energy preference": Kind(
        path="sys/devices/system/cpu/cpufreq/{}/energy_performance_preference",
        places=r"policy[0-9]{1,5}",
        values=r"[a-z_]{1,30}|[0-9]{1,3}",
    ),
    "scheduler": Kind(path=f"{_QUEUE}/scheduler", places=_BLOCK, values=r"[a-z-]{1,30}", is_drive_setting=True),
    # A side effect of the scheduler, recorded without a new value.
    "requests": Kind(path=f"{_QUEUE}/nr_requests", places=_BLOCK, values=f"({_NUMBER})?", is_drive_setting=True),
    "merging": Kind(path=f"{_QUEUE}/nomerges", places=_BLOCK, values="[012]", is_drive_setting=True),
    "largest I/O": Kind(path=f"{_QUEUE}/max_sectors_kb", places=_BLOCK, values=_NUMBER, is_drive_setting=True),
    "PCIe power saving": Kind(path="sys/module/pcie_aspm/parameters/policy", values="[a-z]{1,30}"),
    "SATA power saving": Kind(
        path="sys/class/scsi_host/{}/link_power_management_policy",
        places="host[0-9]{1,5}",
        values="max_performance|medium_power|med_power_with_dipm|min_power|min_power_with_partial",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSetting:
    """A setting that is a file in sysfs; if the file lists values (``[none] kyber``), the one in brackets."""

    kind: str
    place: str
    root: Path = ROOT

    @property
    def name(self) -> str:
        """The kind; for a drive setting also the drive."""
        return f"{self.kind} of {self.place}" if KINDS[self.kind].is_drive_setting else self.kind

    @property
    def drive(self) -> str:
        """See Setting."""
        return identity(self.root / "sys/block" / self.place) if KINDS[self.kind].is_drive_setting else ""

    @property
    def survives_boot(self) -> bool:
        """No sysfs setting survives a reboot."""
        return False

    @property
    def path(self) -> Path:
        return self.root / KINDS[self.kind].path.format(self.place)

    def accepts(self, value: str) -> bool:
        """See Setting."""
        return re.fullmatch(KINDS[self.kind].values, value) is not None

    def candidates(self) -> Iterator[Setting]:
        """See Setting: there are none, because a drive at another place has the kernel's defaults."""
        yield from ()

    def read(self) -> str | None:
        """See Setting."""
        return selected_value(attribute(self.path)) or None

    def write(self, value: str) -> None:
        """See Setting."""
        if not self.accepts(value):
            raise OSError(errno.EINVAL, f"unsupported value {value!a}")
        descriptor = os.open(self.path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.write(descriptor, value.encode())
        finally:
            os.close(descriptor)


def find(kind: str, place: str, root: Path = ROOT) -> Setting | None:
    """Return a setting; None if the suite does not change it."""
    for cache_class in CACHES:
        if kind == cache_class.KIND:
            return cache_class(place=place, root=root) if re.fullmatch(cache_class.PLACE_PATTERN, place) else None
    if kind in registries.SETTINGS:
        return cast("Setting | None", registries.load(registries.SETTINGS, kind)(place, root))
    is_valid = kind in KINDS and re.fullmatch(KINDS[kind].places, place)
    return FileSetting(kind=kind, place=place, root=root) if is_valid else None


def selected_value(text: str) -> str:
    """Return the value in brackets from a sysfs list of values, or the whole text if it is not a list."""
    match = re.search(r"\[([^\]]*)\]", text)
    return match[1] if match else text


def identity(block: Path) -> str:
    """Return a text that distinguishes a block device from later devices of the same name; if unknown, its size."""
    facts = "; ".join(text for name in _IDENTITY_FILES if (text := attribute(block / name)))
    return facts or attribute(block / "size")
