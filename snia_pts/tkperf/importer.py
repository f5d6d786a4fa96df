"""Import the files of TKperf: the functions of ``importer.runs.Importer``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..importer.runs import ImportedRun, SourceFile, Steps, read_copies
from ..results.imported import Imported
from ..results.result import RunFacts
from .document import read
from .reader import runs as runs_of

#: The name of the copy of a file in evidence/.
COPY = "tkperf.xml"
_XML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<")


#: A file has all tests of a device.
combines_files = False


def recognises(content: bytes) -> bool:
    """Return whether a file is XML, as TKperf's files are."""
    return _XML.match(content) is not None


def copy_names(files: Sequence[SourceFile]) -> tuple[str, ...]:
    """Return the name of the copy of the only file."""
    return (COPY,) * len(files)


def runs(files: Sequence[SourceFile], imported: Imported, command_line: tuple[str, ...]) -> tuple[ImportedRun, ...]:
    """Return a run for each test of a file; raises RecordError."""
    (file,) = files
    return runs_of(read(file.content, file.name), imported, command_line, file.name)


def steps_of(evidence: Path, facts: RunFacts) -> Steps:
    """Return the steps of the run with these facts in the copy of its file; raises RecordError, OSError."""
    if facts.imported is None:
        return ()
    again = runs(read_copies(evidence, facts.imported), facts.imported, facts.command_line)
    return next((run.steps for run in again if run.facts.spec == facts.spec), ())
