"""The file system of a file and its mount options, which are needed to compare two results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ...device.identity import ROOT, attribute, block_directory
from .finding import NOT_REPORTED, Finding, finding, unknown_finding
from .queue import scheduler

_REASON = "the I/O passes through it; results are comparable only if it is the same"


def mount(path: str, root: Path = ROOT) -> tuple[Finding, ...]:
    """Return findings on the type of file system that a path is on, its mount options, and its disk's scheduler."""
    real_path = Path(path).resolve()
    mounted = mount_of(real_path, root)
    if mounted is None:
        return (unknown_finding("file system", NOT_REPORTED),)
    kind, options = mounted
    findings = finding("file system", kind, "noted", _REASON), finding("mount options", options, "noted", _REASON)
    return (*findings, *_scheduler(real_path, root))


def mount_of(path: Path, root: Path = ROOT) -> tuple[str, str] | None:
    """Return the type and the options of the file system of a path without symlinks; None if it is not reported."""
    mounts = [entry for entry in _mounts(root) if path.is_relative_to(entry[0])]
    if not mounts:
        return None
    _, kind, options = max(enumerate(mounts), key=lambda item: (len(item[1][0].parts), item[0]))[1]
    return kind, options


def _scheduler(path: Path, root: Path) -> Iterator[Finding]:
    """Yield the scheduler of the disk that a file is on, if it is on one; --tune does not set it."""
    try:
        block = block_directory(path.stat().st_dev, root)
    except OSError:
        return
    setting = scheduler(block.parent if (block / "partition").exists() else block).setting
    yield Finding(setting=replace(setting, judgement="noted"))


def _mounts(root: Path) -> Iterator[tuple[Path, str, str]]:
    """Yield mount point, type and options of each file system; a later one hides an earlier one."""
    for line in attribute(root / "proc/self/mountinfo").splitlines():
        mount_part, _, file_system_part = line.partition(" - ")
        fields, file_system = mount_part.split(), file_system_part.split()
        if len(fields) > 5 and len(file_system) > 2:
            options = dict.fromkeys((*fields[5].split(","), *file_system[2].split(",")))
            yield Path(_unescape(fields[4])), file_system[0], ",".join(options)


def _unescape(text: str) -> str:
    """Decode the octal escapes that the kernel uses for white space and backslashes in paths."""
    return re.sub(r"\\(0[0-7]{2}|134)", lambda match: chr(int(match[1], 8)), text)
