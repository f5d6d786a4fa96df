"""Temporary folders that no other user can rename or fill."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from .trusted_paths import FOLDER, tampering_risk

#: Unlikely as the start of a user's folder name, because empty folders with this prefix are removed.
_PREFIX = "snia-pts-temporary-"
_NAMES = _PREFIX + "[a-z0-9_]" * 8
#: A younger folder is not removed: the process that created it may not have locked it yet.
_STALE_SECONDS = 60


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Create a folder and remove it at the end; as root, in a folder where no other user can rename it.

    Empty folders that killed processes of this user left are removed.  Raises OSError.
    """
    default = Path(gettempdir())
    parent = Path("/tmp") if tampering_risk(default, parent=True) else default.resolve()  # noqa: S108
    _remove_stale(parent)
    with TemporaryDirectory(prefix=_PREFIX, dir=parent) as folder:
        descriptor = os.open(folder, FOLDER)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # until this process ends
            yield Path(folder)
        finally:
            os.close(descriptor)


def _remove_stale(parent: Path) -> None:
    for path in parent.glob(_NAMES):
        with suppress(OSError):  # in use by its process, not empty, or not removable
            descriptor = os.open(path, FOLDER | os.O_NOFOLLOW)
            try:
                status = os.fstat(descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if status.st_uid == os.geteuid() and time.time() - status.st_mtime > _STALE_SECONDS:
                    path.rmdir()
            finally:
                os.close(descriptor)
