"""The function of the public library that reads results of fio."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from ..api.run import Run
from ..errors import ImportRejected
from ..importer.runs import find_files, read_files, recognise, runs_in
from ..results.builder import fold


def read_fio(path: str | os.PathLike[str], *more: str | os.PathLike[str]) -> Run:
    """Return the results of fio in a file, in several files, or in a folder as one run; writes nothing.

    A file has fio's JSON, json+ or normal output; of a folder, the ``*.json`` files in it and its subfolders are read.
    The run is one of kind "imported", whose points are fio's jobs: rates in I/Os and bytes per second, response times
    in microseconds.  What the files do not state is unknown.

    Raises ImportRejected (a RecordError) if a file is not a valid result of fio, or if the files do not fit together.
    """
    files = read_files(find_files([Path(path), *map(Path, more)]))
    if recognise(files) != "fio":
        raise ImportRejected(path=path if isinstance(path, Path) else str(path), reason="it is not a result of fio")
    (run,) = runs_in(files, datetime.now().astimezone().isoformat(timespec="milliseconds"), ())
    result = fold(run.facts, run.steps, ending="finished", ending_detail="", finished="")
    return Run(path=Path(path), result=result, stored=False)
