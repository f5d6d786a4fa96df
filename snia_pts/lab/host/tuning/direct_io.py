"""Whether the direct I/O of a target ends in the page cache or the memory of this host, which is then measured."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ...device.identity import ROOT, attribute, block_directory
from ...device.storage import device_path, layers, read_backings
from .finding import Finding, finding
from .mount import mount_of


class _Buffer(NamedTuple):
    """A layer beneath a target that does not pass on direct I/O."""

    what: str
    reason: str
    remedy: str


def direct_io(path: Path, root: Path = ROOT) -> tuple[Finding, ...]:
    """Return a finding if the target, or anything that it is built on, buffers direct I/O; for a new file, its folder.

    Only what the kernel reports is known: the mode of loop devices, and the type and options of file systems.
    """
    buffers = tuple(_buffers(path, root))
    if not buffers:
        return ()
    value, reason, remedy = ("; ".join(dict.fromkeys(texts)) for texts in zip(*buffers, strict=True))
    return (finding("direct I/O", f"buffered by {value}", "affects results", reason, recommended=remedy),)


def _buffers(path: Path, root: Path) -> Iterator[_Buffer]:
    real_path = (path if path.exists() else path.parent).resolve()
    try:
        status = real_path.stat()
    except OSError:
        return
    is_device = stat.S_ISBLK(status.st_mode)
    if not is_device:
        yield from _file_system(real_path, root)
    pending, visited, backings = [status.st_rdev if is_device else status.st_dev], set[object](), read_backings(root)
    while pending:
        for layer in layers(block_directory(pending.pop(), root), backings, root):
            if layer.identity in visited:
                continue
            visited.add(layer.identity)
            if layer.block is not None:
                yield from _loop(layer.block, root)
            else:
                yield from _file_system(layer.path, root)
                pending.append(layer.identity.device)


def _loop(block: Path, root: Path) -> Iterator[_Buffer]:
    if attribute(block / "loop/dio") == "0":
        device = device_path(block, root)
        reason = f"{block.name} reads and writes its file through the page cache of this host, which is measured"
        yield _Buffer(block.name, reason, f"losetup --direct-io=on {device}")


def _file_system(path: Path, root: Path) -> Iterator[_Buffer]:
    kind, options = mount_of(path, root) or ("", "")
    if kind in ("tmpfs", "ramfs"):
        yield _Buffer(kind, "it keeps its files in the memory of this host, which is measured", "a file on a drive")
    elif kind in ("ext3", "ext4") and "data=journal" in options.split(","):
        reason = "with data=journal it writes through the page cache of this host, even with direct I/O"
        yield _Buffer(f"{kind} (data=journal)", reason, "data=ordered")
