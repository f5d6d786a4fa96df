"""What is known of the device under test, as a value (PTS 2.0.2 chapter 5, reporting requirements)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ..units import Amount, capacity
from .array import BuiltArray

#: What the kernel makes of other things (device mapper, RAID, memory) is a virtual device; what another tool tested is
#: imported, and may be any of these.
TargetKind = Literal["drive", "loop device", "virtual device", "file", "simulated", "imported"]
#: The state of a volatile write cache; a drive without one is as good as one that has it disabled.
CacheState = Literal["enabled", "disabled", "none", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dut:
    """The device under test.

    An empty string, or None, means that the target does not say; so does 0 as the capacity, or a sector's size, of an
    imported one.  ``identity`` is what the operator types to confirm
    the destruction: the serial number, or the name of a target that has none.  ``write_cache_source`` is who told the
    state of the write cache, and whether it was set for the run.  ``instance`` tells a target without a serial number
    from another one of its name and size, as far as the host can; None where it cannot, or need not.  ``array`` is
    the one of drives that the suite made for the run, if it is one.
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
        """Whether there is no device at all."""
        return self.kind == "simulated"

    def fills(self, written_bytes: float) -> float:
        """Return how often so many bytes fill it; nan where it does not say how large it is."""
        return written_bytes / self.capacity_bytes if self.capacity_bytes else math.nan

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def identity(self) -> str:
        """What tells this target from its neighbours: the serial number, else its name."""
        return self.serial or self.name

    @property
    def summary(self) -> str:
        """Model, serial number and capacity."""
        serial = f", serial {self.serial}" if self.serial else ""
        size = capacity(self.capacity_bytes) if self.capacity_bytes else "unknown capacity"
        return f"{self.model or 'unknown model'}{serial}, {size}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SupposedSpeed:
    """What a device is supposed to do in MB/s, for plans: what it reads and writes at most, each at the same time.

    ``least`` is what it writes at least where it streams over an amount.  ``source`` tells where the most comes from.
    """

    read: float
    write: float
    least: float
    source: str

    def __post_init__(self) -> None:
        if not 0 < self.least <= min(self.read, self.write):
            raise ValueError("the least speed must be positive, and no more than the most")

    @classmethod
    def constant(cls, mb_per_second: float, source: str = "") -> SupposedSpeed:
        """Return that of a device that always does the same."""
        return cls(read=mb_per_second, write=mb_per_second, least=mb_per_second, source=source)

    @property
    def span(self) -> str:
        """What it writes: ``500 MB/s``, ``500 to 7877 MB/s``."""
        return " to ".join(dict.fromkeys(map(megabytes, (self.least, self.write)))) + " MB/s"


def megabytes(speed: float) -> str:
    """Return a supposed speed with as many digits as it is worth: ``0.5``, ``7877``, ``15754``."""
    return f"{speed:.3g}" if speed < 1000 else f"{speed:.0f}"
