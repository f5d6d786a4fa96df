"""The kernel's tables of mounts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .identity import ROOT


class Mount(NamedTuple):
    """A line of a table of mounts.

    ``number`` is the file system's device number, such as ``8:1``; ``part`` the path within the file system that is
    mounted (``/`` for all of it); ``options`` those of the mount and of the file system.
    """

    number: str
    part: str
    point: str
    kind: str
    source: str
    options: tuple[str, ...]

    def option(self, name: str) -> str | None:
        """Return the value of an option ``name=value``; None without it."""
        prefix = f"{name}="
        return next((text.removeprefix(prefix) for text in self.options if text.startswith(prefix)), None)


def parse_mounts(table: str) -> Iterator[Mount]:
    """Yield each mount of the text of a ``/proc/PID/mountinfo``."""
    for line in table.split("\n"):
        mount_part, _, file_system_part = line.partition(" - ")
        fields, file_system = mount_part.split(" "), file_system_part.split(" ")
        if len(fields) > 5 and len(file_system) > 2:
            number, part, point, options = fields[2:6]
            kind, source, more = file_system[:3]
            all_options = dict.fromkeys(map(unescaped, (*options.split(","), *more.split(","))))
            yield Mount(number, unescaped(part), unescaped(point), kind, unescaped(source), tuple(all_options))


def mount_of(path: Path, root: Path = ROOT) -> Mount | None:
    """Return the mount that a path without symlinks is on; None if it is not reported."""
    mounts = [
        mount for mount in parse_mounts(kernel_text(root / "proc/self/mountinfo")) if path.is_relative_to(mount.point)
    ]
    # A later mount hides an earlier one.
    return max(reversed(mounts), key=lambda mount: len(Path(mount.point).parts), default=None)


def kernel_text(path: Path) -> str:
    """Return the text of a file of /proc with names as ``os`` functions take them; empty if it cannot be read.

    Split it at ASCII line feeds, blanks and tabs only: the kernel escapes these in names, and no other white space.
    """
    try:
        return os.fsdecode(path.read_bytes())
    except OSError:
        return ""


def unescaped(text: str) -> str:
    """Decode the octal escapes with which /proc writes blanks, backslashes and the like in names."""
    return re.sub(r"\\([0-3][0-7]{2})", lambda escape: chr(int(escape[1], 8)), text)
