"""The files of one run of fio: its job file, and that of its answer; both new, and held until the answer is read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ...files import create
from ..device.fio_name import fio_name
from ..process.inherited import InheritedFiles
from .job import TARGET

if TYPE_CHECKING:
    from typing import Self


class JobFiles:
    """A job file at ``path``, and the file of the answer beside it.

    fio opens both, and its target, by descriptors of what the suite holds (``inherited``), so that a file put in the
    place of one of them meanwhile is not opened.
    """

    def __init__(
        self, path: Path, text: str, target: str = "", descriptor: int | None = None, *, replace: bool = False
    ) -> None:
        """Create the files; the target is what ``descriptor`` holds, or without one what its path leads to.

        Raises RunFolderError for files that are there, unless they are regular and ``replace`` allows it.
        """
        self.path, self.text = path, text
        self._job = create(path, replace=replace)
        try:
            self._job.write(text.encode())
            self._answer = create(path.with_suffix(".json"), replace=replace)
        except BaseException:
            self._job.close()
            raise
        files = {str(path): self._job.fileno(), str(path.with_suffix(".json")): self._answer.fileno()}
        name = fio_name(target) if target else ""
        self.inherited = InheritedFiles(
            files=files if descriptor is None else {**files, name: descriptor},
            environment={TARGET: name} if name else {},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def answer(self) -> bytes:
        """Return fio's answer; nothing where it gave none."""
        return os.pread(self._answer.fileno(), os.fstat(self._answer.fileno()).st_size, 0)

    def keep(self, answer: bytes) -> None:
        """Keep an answer that fio gave on its standard output."""
        self._answer.write(answer)

    def close(self) -> None:
        """Close both files."""
        self._job.close()
        self._answer.close()
