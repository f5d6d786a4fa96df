"""What the disks of an array have to do for what is asked of the array: arithmetic alone, no device.

A write costs more than one I/O of the disks: mirrors write every copy, and a small write to RAID 5 or 6 reads old data
and old parity before it writes both anew.  Reads that the array's cache answers cost none.  The sums suppose that all
disks share the work evenly, and that writes are small and random: whole stripes need no reads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ..errors import UsageError
from ..units import MAX_QUANTITY, MB

#: The levels, each with the fewest disks that it works with.
FEWEST_DISKS: Mapping[int, int] = {0: 2, 1: 2, 5: 3, 6: 4, 10: 4}
_MOST_DISKS = 10**6
_BITS_OF_A_BYTE = 8


def _require(name: str, value: float, most: float, *, least: float = 0, above: bool = False) -> None:
    """Raise UsageError for a number that is not finite or out of bounds; with ``above``, ``least`` is out as well."""
    if not (least < value <= most if above else least <= value <= most):  # NaN is out of all bounds
        bounds = f"above {least:g}, at most {most:g}" if above else f"from {least:g} to {most:g}"
        raise UsageError(detail=f"{value:g} is no {name}.", hint=f"Give a number {bounds}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """Disks of a kind, in one RAID level; raises UsageError for what is none."""

    level: int
    disks: int

    def __post_init__(self) -> None:
        if self.level not in FEWEST_DISKS:
            known = ", ".join(map(str, FEWEST_DISKS))
            raise UsageError(detail=f"RAID {self.level} is not known.", hint=f"Known levels: {known}.")
        fewest = FEWEST_DISKS[self.level]
        if not fewest <= self.disks <= _MOST_DISKS:
            detail = f"RAID {self.level} is not made of {self.disks} disks."
            raise UsageError(detail=detail, hint=f"It takes {fewest} at least, and {_MOST_DISKS} at most.")
        if self.level == 10 and self.disks % 2:
            detail = f"RAID 10 is made of pairs; {self.disks} disks are none."
            raise UsageError(detail=detail, hint=f"Take {self.disks - 1} disks, or {self.disks + 1}.")

    @property
    def pre_reads(self) -> int:
        """The reads of disks before a small write: of the old data and of each old parity."""
        return {5: 2, 6: 3}.get(self.level, 0)

    @property
    def writes(self) -> int:
        """The writes of disks that a small write is: each copy, or the data and each parity."""
        return {0: 1, 1: self.disks, 5: 2, 6: 3, 10: 2}[self.level]

    @property
    def write_penalty(self) -> int:
        """The I/Os of disks that a small write is: 1, 2, 4, 6 and 2 for RAID 0, 1 (of two disks), 5, 6 and 10."""
        return self.pre_reads + self.writes

    @property
    def data_disks(self) -> int:
        """So many disks' worth of data it holds, and writes at once in whole stripes."""
        return {0: self.disks, 1: 1, 5: self.disks - 1, 6: self.disks - 2, 10: self.disks // 2}[self.level]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is asked of an array: the share of reads in all I/Os, and of cache hits in the reads.

    With ``pre_reads_hit`` the reads before a write of RAID 5 and 6 hit the cache as often as others; without, never.
    """

    read_percent: float
    cache_hit_percent: float = 0.0
    pre_reads_hit: bool = False

    def __post_init__(self) -> None:
        _require("share of reads in percent", self.read_percent, 100)
        _require("share of cache hits in percent", self.cache_hit_percent, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskWork:
    """What all disks together do for the front-end I/Os of an array, in IOPS."""

    disks: int
    read_iops: float
    pre_read_iops: float
    write_iops: float

    @property
    def total_iops(self) -> float:
        """Of all disks."""
        return self.read_iops + self.pre_read_iops + self.write_iops

    @property
    def disk_iops(self) -> float:
        """Of each disk."""
        return self.total_iops / self.disks


def disk_work(array: Array, workload: Workload, iops: float) -> DiskWork:
    """Return what the disks do for ``iops`` of the front end; raises UsageError for a number that is none."""
    _require("number of IOPS", iops, MAX_QUANTITY)
    missed = (100 - workload.cache_hit_percent) / 100
    reads = iops * workload.read_percent / 100
    writes = iops * (100 - workload.read_percent) / 100
    return DiskWork(
        disks=array.disks,
        read_iops=reads * missed,
        pre_read_iops=writes * array.pre_reads * (missed if workload.pre_reads_hit else 1),
        write_iops=writes * array.writes,
    )


def disks_iops(array: Array, disk_iops: float) -> float:
    """Return what all disks carry together where each carries ``disk_iops``, in IOPS of disks."""
    _require("number of IOPS of a disk", disk_iops, MAX_QUANTITY, above=True)
    return array.disks * disk_iops


def front_end_iops(array: Array, workload: Workload, disk_iops: float) -> float | None:
    """Return what an array carries whose disks carry ``disk_iops`` each; None where the cache answers everything."""
    cost = disk_work(array, workload, 1).total_iops
    return disks_iops(array, disk_iops) / cost if cost else None


# -- throughput -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link, or a lane of one: its speed on the wire, and how many bits of the wire carry a byte."""

    gbit_per_second: float
    bits_per_byte: float = _BITS_OF_A_BYTE

    def __post_init__(self) -> None:
        _require("speed of a link in Gb/s", self.gbit_per_second, 10**6, above=True)

    @property
    def mb_per_second(self) -> float:
        """The most that goes through, in MB/s."""
        return self.gbit_per_second * 10**9 / self.bits_per_byte / MB


def _coded(gbit_per_second: float, payload_bits: int, line_bits: int) -> Link:
    return Link(gbit_per_second=gbit_per_second, bits_per_byte=_BITS_OF_A_BYTE * line_bits / payload_bits)


#: Links whose line code is known: of SATA and SAS a link, of PCIe a lane.
LINKS: Mapping[str, Link] = {
    "sata-1": _coded(1.5, 8, 10),
    "sata-2": _coded(3, 8, 10),
    "sata-3": _coded(6, 8, 10),
    "sas-1": _coded(3, 8, 10),
    "sas-2": _coded(6, 8, 10),
    "sas-3": _coded(12, 8, 10),
    "sas-4": _coded(22.5, 128, 150),
    "pcie-1": _coded(2.5, 8, 10),
    "pcie-2": _coded(5, 8, 10),
    "pcie-3": _coded(8, 128, 130),
    "pcie-4": _coded(16, 128, 130),
    "pcie-5": _coded(32, 128, 130),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """The most that fabric and disks move, in MB/s; None of what nothing is told of."""

    disks_mb_per_second: float | None
    fabric_mb_per_second: float | None

    @property
    def bottleneck(self) -> Literal["disks", "fabric", "both", ""]:
        """What lets less through; empty where only one of them is told."""
        if self.disks_mb_per_second is None or self.fabric_mb_per_second is None:
            return ""
        if self.disks_mb_per_second == self.fabric_mb_per_second:
            return "both"
        return "disks" if self.disks_mb_per_second < self.fabric_mb_per_second else "fabric"


def disks_mb_per_second(disks: int, disk_mb_per_second: float) -> float:
    """Return what ``disks`` move together where each moves ``disk_mb_per_second``."""
    _require("throughput of a disk in MB/s", disk_mb_per_second, MAX_QUANTITY, above=True)
    return disks * disk_mb_per_second


def fabric_mb_per_second(links: int, link: Link) -> float:
    """Return what ``links`` of a kind let through together."""
    _require("number of links", links, _MOST_DISKS, least=1)
    return links * link.mb_per_second


def rounded(value: float) -> int:
    """Return the nearest whole number, a half as the greater one: 101.67 is 102."""
    return math.floor(value + 0.5)
