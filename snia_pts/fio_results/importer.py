"""Import the results of fio: the functions of ``importer.runs.Importer``."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from pathlib import Path

from ..importer.runs import ImportedRun, SourceFile, Steps, read_copies
from ..results.imported import Imported
from ..results.result import RunFacts
from .document import has_json
from .normal_output import has_normal_output
from .reader import read_run

#: Several files are the rounds and points of one run.
combines_files = True


def recognises(content: bytes) -> bool:
    """Return whether a file is fio's JSON or its normal output."""
    return has_json(content) or has_normal_output(content)


def copy_names(files: Sequence[SourceFile]) -> tuple[str, ...]:
    """Return the name of the copy of each file: its position and its own name."""
    return tuple(_copy_name(number, file) for number, file in enumerate(files, start=1))


def _copy_name(number: int, file: SourceFile) -> str:
    stem = re.sub("[^A-Za-z0-9_-]+", "-", posixpath.basename(file.name).rpartition(".")[0]).strip("-")[:60]
    suffix = "json" if has_json(file.content) else "txt"
    return f"fio-{number:04}{f'-{stem}' if stem else ''}.{suffix}"


def runs(files: Sequence[SourceFile], imported: Imported, command_line: tuple[str, ...]) -> tuple[ImportedRun, ...]:
    """Return the only run of files; raises ImportRejected."""
    return (read_run(files, imported, command_line),)


def steps_of(evidence: Path, facts: RunFacts) -> Steps:
    """Return the steps of the run with these facts in the copies of its files; raises ImportRejected, OSError."""
    if facts.imported is None:
        return ()
    run = read_run(read_copies(evidence, facts.imported), facts.imported, facts.command_line)
    return run.steps if run.facts.spec == facts.spec else ()
