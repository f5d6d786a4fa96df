"""Temporary folders that no other user can rename or fill."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from .trusted_paths import tampering_risk


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Create a folder and remove it at the end; as root, in a folder where no other user can rename it.

    Raises OSError.
    """
    usual = Path(gettempdir())
    parent = "/tmp" if tampering_risk(usual, parent=True) else usual.resolve()  # noqa: S108
    with TemporaryDirectory(prefix="snia-pts-", dir=parent) as folder:
        yield Path(folder)
