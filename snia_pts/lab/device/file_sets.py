"""Sets of files beside a target, for workloads on several files.

The files have no names, so nobody else can open, replace or find them, and the kernel removes them when the run ends,
even after a crash.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile

from ...trusted_paths import folder_without_symlinks
from ..process.inherited import DESCRIPTORS


class FileSets(ExitStack):
    """Sets of unnamed files beside ``target``, keyed by the number of files in the set.  Closing removes the files."""

    def __init__(self, target: Path) -> None:
        super().__init__()
        self._target = target
        self._sets: dict[int, tuple[int, ...]] = {}

    def descriptors(self, count: int, size_bytes: int) -> tuple[int, ...]:
        """Return the descriptors of the set of ``count`` files, each of at least ``size_bytes``.

        The set is created on first use.  Raises OSError.
        """
        if count not in self._sets:
            with folder_without_symlinks(self._target) as folder:
                self._sets[count] = tuple(self._create(f"{DESCRIPTORS}{folder}") for _ in range(count))
        for descriptor in self._sets[count]:
            if os.fstat(descriptor).st_size < size_bytes:
                os.ftruncate(descriptor, size_bytes)
        return self._sets[count]

    def _create(self, folder: str) -> int:
        return self.enter_context(TemporaryFile(dir=folder, buffering=0)).fileno()
