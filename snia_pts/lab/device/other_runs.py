"""Find other runs of the suite whose targets are on the same disks, such as two files on one file system.

While a run has its target, it owns a socket for each disk, whose name has the disk's number and the run's process.  All
users see these names, and the kernel removes them when the process ends.  Programs in another network namespace (most
containers) have names of their own.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from .identity import ROOT, attribute, block_directory
from .mounts import kernel_text, mount_of
from .storage import Backing, devices_of_mount, label, layers, read_backings

#: A name in /proc/net/unix: the number of the disk, the process, and a random number of the run.
_NAME = re.compile(r" @snia-pts/([0-9]{1,9}:[0-9]{1,9})/([0-9]{1,10})/([0-9a-f]{16})$", re.MULTILINE)

#: Any user can forge such names; more than these are not recorded.
_MAX_FOUND = 10


class OtherRuns:
    """The other runs that used the disks of a target since it was claimed; ``names`` are the disks by their numbers."""

    def __init__(self, names: Mapping[str, str], own: str = "", root: Path = ROOT) -> None:
        self._names, self._own, self._root = names, own, root
        self._found = dict[str, None]()

    def find(self) -> tuple[str, ...]:
        """Look for other runs now; return a sentence for each one found now or before."""
        listed = _NAME.findall(kernel_text(self._root / "proc/net/unix")) if self._names else ()
        for number, process, run in listed:
            if number in self._names and run != self._own and len(self._found) < _MAX_FOUND:
                sentence = (
                    f"another run of snia-pts (process {process}) used the same disk, {self._names[number]}: "
                    "each slows down the other, so the numbers of both are worse than those of the drive"
                )
                self._found[sentence] = None
        return tuple(self._found)


@contextmanager
def announced(path: Path, root: Path = ROOT) -> Iterator[OtherRuns]:
    """Announce to other runs, inside the block, that a run uses the disks of the target at ``path``."""
    names, own = disks_of(path, root), secrets.token_hex(8)
    with ExitStack() as stack:
        for number in names:
            announcement = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            announcement.bind(f"\0snia-pts/{number}/{os.getpid()}/{own}")
        yield OtherRuns(names, own, root)


def disks_of(path: Path, root: Path = ROOT) -> dict[str, str]:
    """Return the names of the disks that a file or block device is on at last, by their numbers (``8:0``).

    A file system that does not report its devices (overlayfs, ZFS, a network file system) has none.
    """
    backings = read_backings(root)
    if path.is_block_device():
        return dict(_disks(block_directory(path.stat().st_rdev, root), backings, root))
    return dict(_disks_of_file(path, backings, root))


def _disks_of_file(path: Path, backings: Mapping[str, Backing], root: Path) -> Iterator[tuple[str, str]]:
    mount = mount_of(path, root)
    for block in devices_of_mount(mount, root) if mount else ():
        yield from _disks(block, backings, root)


def _disks(block: Path, backings: Mapping[str, Backing], root: Path) -> Iterator[tuple[str, str]]:
    """Yield number and name of each disk at the bottom of a block device's stack, also beneath a loop device's file."""
    stack = list(layers(block, backings, root))
    upper = {name for layer in stack for name in layer.between}
    for layer in stack:
        if layer.block is None:
            yield from _disks_of_file(layer.path, backings, root)
        elif label(layer.block) not in upper:
            yield attribute(layer.block / "dev"), label(layer.block)
