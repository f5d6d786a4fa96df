"""Limits of the control group of this process, which fio inherits: CPU time, CPUs and I/O; cgroup v1 and v2."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from ....units import whole_number
from ...device.identity import attribute
from ...device.mounts import Mount, kernel_text, parse_mounts
from .finding import NOT_REPORTED, Finding, finding, numbers, unknown_finding

_NAME = "control group"
#: The files with I/O limits; that of version 2 has all limits of a device in one line.
_IO_FILES = (
    "io.max",
    *(f"blkio.throttle.{side}_{unit}_device" for side in ("read", "write") for unit in ("bps", "iops")),
)


def control_group(root: Path) -> Finding:
    """Return which limits the control group of this process has, or one above it that is visible here."""
    groups = list(_groups(root))
    if not groups:
        return unknown_finding(_NAME, NOT_REPORTED)
    limits = [limit for group in groups for folder in group for limit in _limits(folder, root)]
    limits += [limit for own, *_ in groups for limit in _cpus(own, root)]
    if not limits:
        return finding(_NAME, "no limits", "good", "no control group limits the CPU time, CPUs or I/O of fio")
    reason = "fio and its I/O are slowed down to these limits, which are measured in place of the drive"
    return finding(_NAME, "; ".join(dict.fromkeys(limits)), "affects results", reason, recommended="no limits")


def _groups(root: Path) -> Iterator[tuple[Path, ...]]:
    """Yield the folder of each of this process's control groups, with those above it up to the mount."""
    mounts = [mount for mount in parse_mounts(kernel_text(root / "proc/self/mountinfo")) if "cgroup" in mount.kind]
    for line in attribute(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        mount = next((mount for mount in mounts if _has(mount, controllers)), None)
        if mount is None or not PurePosixPath(path).is_relative_to(mount.part):
            continue
        top = root / mount.point.lstrip("/")
        own = top / PurePosixPath(path).relative_to(mount.part)
        yield tuple(folder for folder in (own, *own.parents) if folder.is_relative_to(top))


def _has(mount: Mount, controllers: str) -> bool:
    """Return whether a mount is that of the ``controllers`` of version 1, or of version 2 if there are none."""
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


def _cpus(own: Path, root: Path) -> Iterator[str]:
    """Yield the CPUs that a control group may use, if they are not all."""
    online = attribute(root / "sys/devices/system/cpu/online")
    names = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
    allowed = next((text for name in names if (text := attribute(own / name))), "")
    if allowed and numbers(online) - numbers(allowed):
        yield f"CPUs {allowed} of {online}"
