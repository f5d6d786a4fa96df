"""Shares of the CPUs near a drive, for tests that go on side by side."""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import pairwise
from pathlib import Path

from ..device.identity import attribute
from .tuning.finding import numbers
from .tuning.io_path import numa_local_cpus

_CPUS = "sys/devices/system/cpu"


def cpu_shares(block: Path | None, count: int, allowed: Set[int], root: Path) -> tuple[frozenset[int], ...]:
    """Return ``count`` shares of the ``allowed`` CPUs of the memory node of the drive with the sysfs folder ``block``.

    They are disjoint and nearly equal, and each has whole cores with all their threads; fewer if there are fewer cores.
    If the node is not reported, or none of its CPUs is allowed, they are shares of all allowed CPUs.
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
    """Return the threads among ``cpus`` of each core, in the order of their first ones."""
    cores = {
        frozenset(numbers(attribute(root / _CPUS / f"cpu{cpu}/topology/thread_siblings_list")) & cpus | {cpu})
        for cpu in cpus
    }
    return sorted(cores, key=min)
