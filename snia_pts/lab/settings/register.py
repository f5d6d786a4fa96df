"""The folder in which root's runs record what they changed on this host: root's alone, and kept over a boot.

A settings.json in a run folder may come from anybody; what is recorded here, the suite itself wrote on this host.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..device.identity import attribute

_PLACE = "var/lib/snia-pts"


@contextmanager
def entered(root: Path) -> Iterator[Path | None]:
    """Enter the folder of notes, alone; None where there is none that only this user can write."""
    place, descriptor = root / _PLACE, -1
    try:
        with suppress(FileExistsError):
            place.mkdir(mode=0o700)
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        status = os.fstat(descriptor)
        ours = status.st_uid == os.geteuid() and not status.st_mode & 0o077
        if ours:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        ours = False
    try:
        yield place if ours else None
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def boot(root: Path) -> str:
    """Return what tells this boot of the host from every other."""
    return attribute(root / "proc/sys/kernel/random/boot_id")


def note_name(folder: Path) -> str:
    """Return the name of a run folder's note in the register."""
    return f"{hashlib.sha256(str(folder).encode()).hexdigest()[:16]}.json"
