"""The file system that a file lies on, and how it is mounted: what compares two of them must know both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ...device.identity import ROOT, attribute, block_directory
from .finding import Finding, finding, unknown_finding
from .queue import scheduler

_REASON = "the I/O goes through it; compare only files on the same, or to compare just that"


def mount(path: str, root: Path = ROOT) -> tuple[Finding, ...]:
    """Return the kind of file system that a path lies on, its mount options, and the scheduler of the disk below."""
    place = Path(path).resolve()
    found = [entry for entry in _mounts(root) if place.is_relative_to(entry[0])]
    if not found:
        return (unknown_finding("file system", "the kernel does not tell"),)
    _, kind, options = max(enumerate(found), key=lambda each: (len(each[1][0].parts), each[0]))[1]
    mounted = finding("file system", kind, "noted", _REASON), finding("mount options", options, "noted", _REASON)
    return (*mounted, *_scheduler(place, root))


def _scheduler(place: Path, root: Path) -> Iterator[Finding]:
    """Give the scheduler of the disk that a file lies on, where it lies on one; it is not set by --tune."""
    try:
        block = block_directory(place.stat().st_dev, root)
    except OSError:
        return
    found = scheduler(block.parent if (block / "partition").exists() else block)
    yield Finding(setting=replace(found.setting, judgement="noted"))


def _mounts(root: Path) -> Iterator[tuple[Path, str, str]]:
    """Give where each file system is mounted, its kind and its options; the later lie over the earlier."""
    for line in attribute(root / "proc/self/mountinfo").splitlines():
        before, _, behind = line.partition(" - ")
        fields, own = before.split(), behind.split()
        if len(fields) > 5 and len(own) > 2:
            options = dict.fromkeys((*fields[5].split(","), *own[2].split(",")))
            yield Path(_plain(fields[4])), own[0], ",".join(options)


def _plain(text: str) -> str:
    """Undo what the kernel does to blanks in names."""
    return re.sub(r"\\(0[0-7]{2}|134)", lambda found: chr(int(found[1], 8)), text)
