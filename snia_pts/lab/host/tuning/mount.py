"""The file system of a file and its mount options, which are needed to compare two results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ....errors import TargetUnfit
from ...device.identity import ROOT, block_directory, block_dut
from ...device.mounts import mount_of
from .finding import NOT_REPORTED, Finding, finding, unknown_finding
from .queue import scheduler

_REASON = "the I/O passes through it; results are comparable only if it is the same"


def mount(path: str, root: Path = ROOT) -> tuple[Finding, ...]:
    """Return findings on the file system of a path: its type, its mount options, its disk and the disk's scheduler."""
    real_path = Path(path).resolve()
    mount_point = mount_of(real_path, root)
    if mount_point is None:
        return (unknown_finding("file system", NOT_REPORTED),)
    return (
        finding("file system", mount_point.kind, "noted", _REASON),
        finding("mount options", ", ".join(mount_point.options), "noted", _REASON),
        *_disk(real_path, root),
    )


def _disk(path: Path, root: Path) -> Iterator[Finding]:
    """Yield the disk that a file is on, if it is on one, and its scheduler; --tune does not set it."""
    try:
        block = block_directory(path.stat().st_dev, root)
    except OSError:
        return
    disk = block.parent if (block / "partition").exists() else block
    try:
        storage = block_dut(Path(f"/dev/{disk.name}"), disk, root).summary
        yield finding("storage", f"{disk.name}: {storage}", "noted", _REASON)
    except TargetUnfit:
        yield unknown_finding("storage", NOT_REPORTED)
    yield Finding(setting=replace(scheduler(disk).setting, judgement="noted"))
