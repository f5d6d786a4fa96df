"""Limits of the control group of this process, which fio inherits: CPU time, CPUs and I/O; cgroup v1 and v2.

The kernel counts how often a limit of CPU time stopped the processes of a group (``cpu.stat``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ....units import counted, duration, whole_number
from ...device.identity import attribute
from ...device.mounts import Mount, kernel_text, parse_mounts
from .finding import NOT_REPORTED, Finding, finding, numbers, unknown_finding

_NAME = "control group"
#: The files with I/O limits; that of version 2 has all limits of a device in one line.
_IO_FILES = (
    "io.max",
    *(f"blkio.throttle.{side}_{unit}_device" for side in ("read", "write") for unit in ("bps", "iops")),
)


class Throttling(NamedTuple):
    """How often limits of CPU time stopped the processes of the control groups, and for how long on all CPUs."""

    times: int
    seconds: float


def read_throttling(root: Path) -> Throttling:
    """Return the throttling of this process's control groups, and of those above them, since they were created."""
    stats = [_numbers_by_name(folder / "cpu.stat") for group in _groups(root) for folder in group]
    seconds = (stat.get("throttled_usec", 0) / 1e6 + stat.get("throttled_time", 0) / 1e9 for stat in stats)
    return Throttling(sum(stat.get("nr_throttled", 0) for stat in stats), sum(seconds))


def _numbers_by_name(path: Path) -> dict[str, int]:
    """Return the numbers of a file with a name and a number on each line."""
    pairs = (line.split() for line in attribute(path).splitlines())
    return {pair[0]: number for pair in pairs if len(pair) == 2 and (number := whole_number(pair[1])) is not None}


def throttling_sentence(before: Throttling, after: Throttling) -> str:
    """Return how limits of CPU time slowed down fio between two readings; empty if they did not."""
    times = after.times - before.times
    if times <= 0:
        return ""
    stopped = duration(max(0.0, after.seconds - before.seconds))
    return (
        f"a limit of CPU time stopped the processes of the suite's control group {counted(times, 'time')}, "
        f"for {stopped} added over all CPUs: the results may show this limit, not the drive"
    )


def control_group(root: Path) -> Finding:
    """Return the finding on the limits of this process's control group, and of its visible parent groups."""
    groups = list(_groups(root))
    if not groups:
        return unknown_finding(_NAME, NOT_REPORTED)
    limits = [limit for group in groups for folder in group for limit in _limits(folder, root)]
    limits += [limit for group, *_ in groups for limit in _cpus(group, root)]
    if not limits:
        return finding(_NAME, "no limits", "good", "no control group limits the CPU time, CPUs or I/O of fio")
    reason = "fio and its I/O are slowed down to these limits, which are measured in place of the drive"
    return finding(_NAME, "; ".join(dict.fromkeys(limits)), "affects results", reason, recommended="no limits")


def _groups(root: Path) -> Iterator[tuple[Path, ...]]:
    """Yield the folder of each of this process's control groups, with those above it up to the mount."""
    mounts = [mount for mount in parse_mounts(kernel_text(root / "proc/self/mountinfo")) if "cgroup" in mount.kind]
    for line in attribute(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        mount = next((mount for mount in mounts if _is_hierarchy(mount, controllers)), None)
        if mount is None or not PurePosixPath(path).is_relative_to(mount.part):
            continue
        top = root / mount.point.lstrip("/")
        group = top / PurePosixPath(path).relative_to(mount.part)
        yield tuple(folder for folder in (group, *group.parents) if folder.is_relative_to(top))


def _is_hierarchy(mount: Mount, controllers: str) -> bool:
    """Return whether a mount has the hierarchy of these version 1 ``controllers``; if empty, that of version 2."""
    return mount.kind == ("cgroup" if controllers else "cgroup2") and set(controllers.split(",")) <= {
        "",
        *mount.options,
    }


def _limits(folder: Path, root: Path) -> Iterator[str]:
    """Yield the limits of CPU time and I/O of one control group."""
    quota, period = (*attribute(folder / "cpu.max").split(), "", "")[:2]
    quota, period = quota or attribute(folder / "cpu.cfs_quota_us"), period or attribute(folder / "cpu.cfs_period_us")
    quota_us, period_us = whole_number(quota), whole_number(period)
    if quota_us is not None and period_us:
        yield f"CPU time of {quota_us / period_us:.3g} CPUs"
    for name in _IO_FILES:
        for line in attribute(folder / name).splitlines():
            number, *values = line.split() or [""]
            limited = [value for value in values if not value.endswith("max")]
            if limited and re.fullmatch(r"[0-9]{1,9}:[0-9]{1,9}", number):
                device = (root / "sys/dev/block" / number).resolve().name
                yield f"{name} of {device}: {' '.join(limited)}"


def _cpus(group: Path, root: Path) -> Iterator[str]:
    """Yield the CPUs that a control group may use, if they are not all."""
    online = attribute(root / "sys/devices/system/cpu/online")
    names = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
    allowed = next((text for name in names if (text := attribute(group / name))), "")
    if allowed and numbers(online) - numbers(allowed):
        yield f"CPUs {allowed} of {online}"
