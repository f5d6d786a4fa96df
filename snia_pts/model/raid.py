"""Disk load and throughput of an array, calculated from the load on the array; no device is involved.

A write costs more than one disk I/O: mirrors write every copy, and a small write to RAID 5 or 6 reads the old data and
parity before it writes both.  Reads that hit the array's cache cost no disk I/O.  The calculations assume that the load
is spread evenly over the disks, and that writes are small and random: full-stripe writes need no reads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ..errors import UsageError
from ..units import MAX_QUANTITY, MB

#: The supported levels, and their minimum numbers of disks.
MIN_DISKS: Mapping[int, int] = {0: 2, 1: 2, 5: 3, 6: 4, 10: 4}
_MAX_DISKS = 10**6
_BITS_PER_BYTE = 8


def _require(name: str, value: float, maximum: float, *, minimum: float = 0, exclusive: bool = False) -> None:
    """Raise UsageError unless the value is finite and within its bounds; ``exclusive`` excludes ``minimum``."""
    if not (minimum < value <= maximum if exclusive else minimum <= value <= maximum):  # NaN fails both comparisons.
        bounds = f"above {minimum:g}, at most {maximum:g}" if exclusive else f"from {minimum:g} to {maximum:g}"
        raise UsageError(detail=f"{value:g} is not a valid {name}.", hint=f"Give a number {bounds}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """Disks of one kind at a RAID level; raises UsageError for an invalid combination."""

    level: int
    disks: int

    def __post_init__(self) -> None:
        if self.level not in MIN_DISKS:
            levels = ", ".join(map(str, MIN_DISKS))
            raise UsageError(detail=f"RAID {self.level} is not supported.", hint=f"Supported levels: {levels}.")
        minimum = MIN_DISKS[self.level]
        if not minimum <= self.disks <= _MAX_DISKS:
            detail = f"RAID {self.level} does not support {self.disks} disks."
            raise UsageError(detail=detail, hint=f"Use at least {minimum} and at most {_MAX_DISKS} disks.")
        if self.level == 10 and self.disks % 2:
            detail = f"RAID 10 needs an even number of disks, not {self.disks}."
            raise UsageError(detail=detail, hint=f"Use {self.disks - 1} or {self.disks + 1} disks.")

    @property
    def pre_reads(self) -> int:
        """Disk reads before a small write: the old data and each old parity."""
        return {5: 2, 6: 3}.get(self.level, 0)

    @property
    def writes(self) -> int:
        """Disk writes of a small write: each copy, or the data and each parity."""
        return {0: 1, 1: self.disks, 5: 2, 6: 3, 10: 2}[self.level]

    @property
    def write_penalty(self) -> int:
        """Disk I/Os of a small write: 1, 2, 4, 6 and 2 for RAID 0, 1 (of two disks), 5, 6 and 10."""
        return self.pre_reads + self.writes

    @property
    def data_disks(self) -> int:
        """The capacity in disks, which is also the number of data disks in a full-stripe write."""
        return {0: self.disks, 1: 1, 5: self.disks - 1, 6: self.disks - 2, 10: self.disks // 2}[self.level]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayWorkload:
    """The load on an array: the share of reads in all I/Os, and of cache hits in the reads.

    With ``pre_reads_hit``, the reads before a write of RAID 5 and 6 hit the cache as often as other reads; otherwise
    never.
    """

    read_percent: float
    cache_hit_percent: float = 0.0
    pre_reads_hit: bool = False

    def __post_init__(self) -> None:
        _require("share of reads in percent", self.read_percent, 100)
        _require("share of cache hits in percent", self.cache_hit_percent, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskWork:
    """The IOPS of all disks together for the front-end I/Os of an array."""

    disks: int
    read_iops: float
    pre_read_iops: float
    write_iops: float

    @property
    def total_iops(self) -> float:
        """The IOPS of all disks."""
        return self.read_iops + self.pre_read_iops + self.write_iops

    @property
    def disk_iops(self) -> float:
        """The IOPS of one disk."""
        return self.total_iops / self.disks


def disk_work(array: Array, workload: ArrayWorkload, iops: float) -> DiskWork:
    """Return the disk I/Os for ``iops`` of the front end; raise UsageError for an invalid number."""
    _require("number of IOPS", iops, MAX_QUANTITY)
    miss_share = (100 - workload.cache_hit_percent) / 100
    reads = iops * workload.read_percent / 100
    writes = iops * (100 - workload.read_percent) / 100
    return DiskWork(
        disks=array.disks,
        read_iops=reads * miss_share,
        pre_read_iops=writes * array.pre_reads * (miss_share if workload.pre_reads_hit else 1),
        write_iops=writes * array.writes,
    )


def disks_iops(array: Array, disk_iops: float) -> float:
    """Return the IOPS of all disks together, at ``disk_iops`` per disk."""
    _require("number of IOPS of a disk", disk_iops, MAX_QUANTITY, exclusive=True)
    return array.disks * disk_iops


def front_end_iops(array: Array, workload: ArrayWorkload, disk_iops: float) -> float | None:
    """Return the IOPS of an array at ``disk_iops`` per disk; None if the cache serves everything."""
    cost = disk_work(array, workload, 1).total_iops
    return disks_iops(array, disk_iops) / cost if cost else None


# -- throughput -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpeed:
    """The speed of a link, or of one lane: its line rate, and the number of line bits per byte."""

    gbit_per_second: float
    bits_per_byte: float = _BITS_PER_BYTE

    def __post_init__(self) -> None:
        _require("speed of a link in Gb/s", self.gbit_per_second, 10**6, exclusive=True)

    @property
    def mb_per_second(self) -> float:
        """The maximum throughput in MB/s."""
        return self.gbit_per_second * 10**9 / self.bits_per_byte / MB


def _encoded_link(gbit_per_second: float, payload_bits: int, line_bits: int) -> LinkSpeed:
    return LinkSpeed(gbit_per_second=gbit_per_second, bits_per_byte=_BITS_PER_BYTE * line_bits / payload_bits)


#: Speeds by kind of link, with the line code: of a link for SATA and SAS, of a lane for PCIe.
LINKS: Mapping[str, LinkSpeed] = {
    "sata-1": _encoded_link(1.5, 8, 10),
    "sata-2": _encoded_link(3, 8, 10),
    "sata-3": _encoded_link(6, 8, 10),
    "sas-1": _encoded_link(3, 8, 10),
    "sas-2": _encoded_link(6, 8, 10),
    "sas-3": _encoded_link(12, 8, 10),
    "sas-4": _encoded_link(22.5, 128, 150),
    "pcie-1": _encoded_link(2.5, 8, 10),
    "pcie-2": _encoded_link(5, 8, 10),
    "pcie-3": _encoded_link(8, 128, 130),
    "pcie-4": _encoded_link(16, 128, 130),
    "pcie-5": _encoded_link(32, 128, 130),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskKind:
    """What one disk of a kind does, and where the figures come from."""

    iops: float
    mb_per_second: float
    source: str


#: The document's throughputs are of reads and writes of an array in use, far below those of one sequential stream.
_DOCUMENT = "Linux test Disk IOPS with FIO"
#: Disks by kind.  Those of SSDs are of writes, which are slower than reads.
DISKS: Mapping[str, DiskKind] = {
    "10k": DiskKind(
        iops=133,
        mb_per_second=10,
        source=f"{_DOCUMENT}: 10 MB/s; IOPS: seek of 4.5 ms and half a turn, 3 ms (WD VelociRaptor)",
    ),
    "15k": DiskKind(iops=150, mb_per_second=13, source=f"{_DOCUMENT}: 150 IOPS, 13 MB/s"),
    "sata": DiskKind(
        iops=81,
        mb_per_second=8,
        source=f"{_DOCUMENT}: 8 MB/s (ATA); IOPS: seek of 8.2 ms and half a turn, 4.2 ms (HGST Ultrastar 7K4000)",
    ),
    "sata-ssd": DiskKind(
        iops=65_000, mb_per_second=530, source="Kingston DC600M 960 GB data sheet: writes of 4 KiB, sequential writes"
    ),
    "nvme": DiskKind(
        iops=200_000, mb_per_second=3500, source="Samsung PM9A3 data sheet: writes of 4 KiB, sequential writes"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """The maximum throughput of fabric and disks in MB/s; None if it was not specified."""

    disks_mb_per_second: float | None
    fabric_mb_per_second: float | None

    @property
    def bottleneck(self) -> Literal["disks", "fabric", "both", ""]:
        """The slower one; empty if only one is specified."""
        if self.disks_mb_per_second is None or self.fabric_mb_per_second is None:
            return ""
        if self.disks_mb_per_second == self.fabric_mb_per_second:
            return "both"
        return "disks" if self.disks_mb_per_second < self.fabric_mb_per_second else "fabric"


def disks_mb_per_second(disks: int, disk_mb_per_second: float) -> float:
    """Return the throughput of all disks together."""
    _require("throughput of a disk in MB/s", disk_mb_per_second, MAX_QUANTITY, exclusive=True)
    return disks * disk_mb_per_second


def fabric_mb_per_second(links: int, link: LinkSpeed) -> float:
    """Return the throughput of all links together."""
    _require("number of links", links, _MAX_DISKS, minimum=1)
    return links * link.mb_per_second


def round_half_up(value: float) -> int:
    """Return the nearest integer, rounding a half up: 101.67 is 102."""
    return math.floor(value + 0.5)
