"""How many drives of a host are tested side by side, so that no test takes CPUs or a link from another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..model.dut import megabytes
from ..units import counted

#: The CPUs of a test if the host is not calibrated, or the speed of the drive is unknown: fio's threads and the kernel.
_ASSUMED_CPUS = 2.0
#: A calibration has no driver of a drive: it is assumed to use as much CPU time per I/O as the engine.
_DRIVER_FACTOR = 2.0
_BLOCK_BYTES = 4096
#: The sum of the speeds of links may differ from the speed of all their lanes by rounding.
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class SharedLink:
    """A link between a drive and the CPUs, which other drives may share, and its MB/s in each direction."""

    name: str
    mb_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DriveLoad:
    """What a test of a drive can use at most.

    ``mb_per_second`` is the speed of its link in each direction; None if it is unknown, as for a file.  ``node`` is its
    NUMA node, and ``cpus`` are the CPUs of this node that tests may use; None and those of the host if there is only
    one node.  ``links`` are those between the drive and the CPUs.
    """

    mb_per_second: float | None
    node: int | None
    cpus: int
    links: tuple[SharedLink, ...] = ()


@dataclass(frozen=True, slots=True)
class SideBySide:
    """How many tests go on side by side, and what limits them; without a reason, the operator's choice does."""

    count: int
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.count} side by side{f': {self.reason}' if self.reason else ''}"


def fit_side_by_side(loads: Sequence[DriveLoad], cost_us: float | None) -> SideBySide:
    """Return how many of these drives fit side by side on their host, whichever they are.

    ``cost_us`` is the CPU time per I/O by the calibration of the host; None if it is not calibrated.
    """
    limits = [limit for limit in (*_cpu_limits(loads, cost_us), *_link_limits(loads)) if limit is not None]
    default = SideBySide(max(1, len(loads)), f"{counted(len(loads), 'drive')}, and all fit")
    return min(limits, key=lambda limit: limit.count, default=default)


def _cpu_limits(loads: Sequence[DriveLoad], cost_us: float | None) -> Iterator[SideBySide | None]:
    """Yield how many tests the CPUs of each node bear, each with an equal share; None if those of all its drives."""
    nodes = defaultdict[int | None, list[DriveLoad]](list)
    for load in loads:
        nodes[load.node].append(load)
    for node, drives in nodes.items():
        cpus, needed = drives[0].cpus, max(_needed_cpus(load, cost_us) for load in drives)
        count = max(1, int(cpus / needed * (1 + _TOLERANCE)))
        where = "this host" if node is None else f"NUMA node {node}"
        source = "assumed" if needed == _ASSUMED_CPUS else "from the calibration and the link"
        reason = f"{where} has {counted(cpus, 'CPU')}, and a test can use {needed:.1f} ({source})"
        yield SideBySide(count, reason) if count < len(drives) else None


def _needed_cpus(load: DriveLoad, cost_us: float | None) -> float:
    """Return how many CPUs a test uses while it fills the link of its drive with small blocks."""
    if load.mb_per_second is None or cost_us is None:
        return _ASSUMED_CPUS
    return max(1.0, load.mb_per_second / _BLOCK_BYTES * cost_us * _DRIVER_FACTOR)  # 1e6 B/MB and 1e-6 s/us cancel


def _link_limits(loads: Sequence[DriveLoad]) -> Iterator[SideBySide | None]:
    """Yield how many drives fill each link together; None if all its drives fit."""
    drives = defaultdict[SharedLink, list[float]](list)
    for load in loads:
        for link in load.links:
            if load.mb_per_second is not None:
                drives[link].append(load.mb_per_second)
    for link, speeds in drives.items():
        fastest = sorted(speeds, reverse=True)
        capacity = link.mb_per_second * (1 + _TOLERANCE)
        count = sum(sum(fastest[: number + 1]) <= capacity for number in range(len(fastest)))
        used = f"{len(speeds)} drives of up to {megabytes(fastest[0])} MB/s share it"
        reason = f"{link.name} transfers {megabytes(link.mb_per_second)} MB/s, and {used}"
        yield SideBySide(max(1, count), reason) if count < len(speeds) and len(speeds) > 1 else None
