"""Create the job file and the answer file of one fio run, and keep both open until the answer is read; run a job."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ...files import create
from ..device.fio_name import fio_name, set_names
from ..process import program as process
from ..process.inherited import InheritedFiles
from .job import TARGET, command

#: fio prints its status whenever a file fio-dump-status appears in TMPDIR, which in /tmp any user could create.
_WITHOUT_STATUS_FILE = {"TMPDIR": "/dev/null"}

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self


class JobFiles:
    """A job file at ``path`` and the answer file next to it.

    fio opens both files and its target through the suite's open descriptors (``inherited``), so it never opens a file
    that replaced one of them during the run.
    """

    def __init__(
        self,
        path: Path,
        text: str,
        target: str = "",
        descriptor: int | None = None,
        *,
        file_set: Sequence[int] = (),
        replace: bool = False,
    ) -> None:
        """Create the files.  The target is the open ``descriptor`` if given, else the path ``target``.

        If there is a ``file_set``, the job uses these open files beside the target instead.

        Raises RunFolderError if a file exists, unless it is regular and ``replace`` is set.
        """
        self.path, self.text = path, text
        self._job = create(path, replace=replace)
        try:
            self._job.write(text.encode())
            self._answer = create(path.with_suffix(".json"), replace=replace)
        except BaseException:
            self._job.close()
            raise
        files: dict[str, int] = {str(path): self._job.fileno(), str(path.with_suffix(".json")): self._answer.fileno()}
        name = fio_name(target) if target else ""
        if file_set:
            members = dict(zip((f"{{{member}}}" for member in set_names(target, len(file_set))), file_set, strict=True))
            files, name = {**files, **members}, ":".join(members)
        elif descriptor is not None:
            files[name] = descriptor
        self.inherited = InheritedFiles(
            files=files,
            claims=() if descriptor is None else (descriptor,),
            environment={TARGET: name, **_WITHOUT_STATUS_FILE} if name else {},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def answer(self) -> bytes:
        """Return fio's answer; b"" if there is none."""
        return os.pread(self._answer.fileno(), os.fstat(self._answer.fileno()).st_size, 0)

    def write_answer(self, answer: bytes) -> None:
        """Write an answer that fio printed on its standard output."""
        self._answer.write(answer)

    def close(self) -> None:
        """Close both files."""
        self._job.close()
        self._answer.close()


def run_job(
    job: Path, text: str, timeout_seconds: float, target: str = "", descriptor: int | None = None
) -> tuple[process.Finished, str]:
    """Run a job file, which replaces one of the same name, and return the ended program and fio's answer.

    For jobs that are no points of a test: nothing is prepared ahead.  See JobFiles for the target.
    """
    with JobFiles(job, text, target, descriptor, replace=True) as files:
        finished = process.run(command(job), evidence=job, timeout_seconds=timeout_seconds, inherited=files.inherited)
        return finished, files.answer().decode("utf-8", "replace")
