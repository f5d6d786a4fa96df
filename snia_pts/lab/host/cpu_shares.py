"""Shares of the CPUs near a drive, for tests that run side by side."""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import pairwise
from pathlib import Path

from ..device.identity import attribute
from .tuning.finding import numbers
from .tuning.io_path import numa_local_cpus

_CPUS = "sys/devices/system/cpu"


def cpu_shares(block: Path | None, count: int, allowed: Set[int], root: Path) -> tuple[frozenset[int], ...]:
    """Divide the ``allowed`` CPUs on the drive's NUMA node into ``count`` shares.

    ``block`` is the drive's sysfs folder.  The shares are disjoint, nearly equal, and consist of whole cores (of each
    core, the allowed threads).  If there are fewer cores than ``count``, there is one share per core.  If the node is
    not reported, or none of its CPUs is allowed, all allowed CPUs are divided.
    """
    cpus = numa_local_cpus(block, root) & allowed or frozenset(allowed)
    cores = _cores(cpus, root)
    count = max(1, min(count, len(cores)))
    bounds = [number * len(cores) // count for number in range(count + 1)]
    return tuple(frozenset[int]().union(*cores[first:end]) for first, end in pairwise(bounds))


def cpu_list(cpus: Set[int]) -> str:
    """Return CPUs as the kernel writes them: ``0-3,8``."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _cores(cpus: Set[int], root: Path) -> Sequence[frozenset[int]]:
    """Group ``cpus`` by core; the cores are sorted by their lowest CPU number."""
    cores = {
        frozenset(numbers(attribute(root / _CPUS / f"cpu{cpu}/topology/thread_siblings_list")) & cpus | {cpu})
        for cpu in cpus
    }
    return sorted(cores, key=min)
