"""The device under test as a value (PTS 2.0.2 chapter 5, reporting requirements)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..units import NARROW_NBSP, Amount, capacity
from .array import BuiltArray

#: A virtual device is one that the kernel builds from something else (device mapper, RAID, memory).  An imported device
#: was tested by another tool, and may be of any kind.
TargetKind = Literal["drive", "loop device", "virtual device", "file", "simulated", "imported"]
#: The state of a volatile write cache.  ``none`` means that the drive has none, which is equivalent to ``disabled``.
CacheState = Literal["enabled", "disabled", "none", "unknown"]
_SEPARATOR = "; "


@dataclass(frozen=True, slots=True, kw_only=True)
class Dut:
    """The device under test.

    An empty string, or None, means that the target does not report the value.  The same applies to a capacity or sector
    size of 0, which only an imported target has.  ``identity`` is what the operator types to confirm the destruction:
    the serial number, or the name of a target without one.  ``write_cache_source`` is the source of the write cache's
    state, and says whether it was set for the run.  ``instance`` distinguishes a target without a serial number from
    another one of the same name and size; None if the host cannot distinguish them or need not.  For an array it joins
    those of the members.  ``array`` describes the array if the suite built one for the run.
    """

    path: str
    kind: TargetKind
    model: str
    serial: str
    firmware: str
    bus: str
    capacity_bytes: Amount
    logical_sector_bytes: Amount
    physical_sector_bytes: Amount
    rotational: bool | None
    write_cache: CacheState
    discard: bool | None
    write_cache_source: str = "as the kernel reports it"
    instance: str | None = None
    array: BuiltArray | None = None

    def __post_init__(self) -> None:
        if self.kind != "imported" and (self.capacity_bytes < 1 or self.logical_sector_bytes < 1):
            raise ValueError(f"{self.path}: capacity and sector size must be positive")

    @property
    def simulated(self) -> bool:
        """Whether there is no real device."""
        return self.kind == "simulated"

    @property
    def is_device(self) -> bool:
        """Whether it is a device of a host: neither simulated, nor a file, nor of imported results."""
        return self.kind not in ("simulated", "file", "imported")

    def fills(self, written_bytes: float) -> float:
        """Return the number of times that these bytes fill the device; nan if its capacity is unknown."""
        return written_bytes / self.capacity_bytes if self.capacity_bytes else math.nan

    @property
    def name(self) -> str:
        """The last component of the path."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def identity(self) -> str:
        """The serial number, else the name: what distinguishes this target from others."""
        return self.serial or self.name

    @property
    def instances(self) -> tuple[str, ...]:
        """The instance, or those of the members of an array; empty texts for unknown ones."""
        return tuple((self.instance or "").split(_SEPARATOR))

    @property
    def summary(self) -> str:
        """Model, serial number and capacity."""
        serial = f", serial {self.serial}" if self.serial else ""
        size = capacity(self.capacity_bytes) if self.capacity_bytes else "unknown capacity"
        return f"{self.model or 'unknown model'}{serial}, {size}"


def joined_instances(members: Sequence[Dut]) -> str | None:
    """Return the instances of the members of an array in order; None if all have a serial number."""
    known = any(member.instance for member in members)
    return _SEPARATOR.join(member.instance or "" for member in members) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedSpeed:
    """The assumed speed of a device in MB/s, for plans: its maximum read and write speeds, which may occur at once.

    ``minimum_write`` is its minimum speed for sequential writes of an amount.  ``source`` is the source of the maximum.
    """

    read: float
    write: float
    minimum_write: float
    source: str

    def __post_init__(self) -> None:
        if not 0 < self.minimum_write <= min(self.read, self.write):
            raise ValueError("the minimum speed must be positive, and at most the maximum")

    @classmethod
    def constant(cls, mb_per_second: float, source: str = "") -> AssumedSpeed:
        """Return the speed of a device that always reads and writes at the same rate."""
        return cls(read=mb_per_second, write=mb_per_second, minimum_write=mb_per_second, source=source)

    @property
    def span(self) -> str:
        """The range of write speeds: ``500 MB/s``, ``500 to 7877 MB/s``."""
        return " to ".join(dict.fromkeys(map(megabytes, (self.minimum_write, self.write)))) + " MB/s"


def megabytes(speed: float) -> str:
    """Format an assumed speed with its significant digits only: ``0.5``, ``787``, ``15 754``."""
    return f"{speed:.3g}" if speed < 1000 else f"{speed:,.0f}".replace(",", NARROW_NBSP)
