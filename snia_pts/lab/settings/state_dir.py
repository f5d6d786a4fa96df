"""The state directory, in which root's runs record what they change on this host; it survives a reboot.

Anybody may have written the settings.json in a run folder; only root on this host can have written these records.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..device.identity import attribute

_PATH = "var/lib/snia-pts"


@contextmanager
def locked_state_dir(root: Path) -> Iterator[Path | None]:
    """Yield the state directory, locked; None if there is none that only this user can access."""
    path, descriptor = root / _PATH, -1
    try:
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        status = os.fstat(descriptor)
        is_private = status.st_uid == os.geteuid() and not status.st_mode & 0o077
        if is_private:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        is_private = False
    try:
        yield path if is_private else None
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def boot_id(root: Path) -> str:
    """Return the kernel's ID of the current boot."""
    return attribute(root / "proc/sys/kernel/random/boot_id")


def restore_file_name(folder: Path) -> str:
    """Return the name of a run folder's restore file in the state directory."""
    return f"{hashlib.sha256(str(folder).encode()).hexdigest()[:16]}.json"
