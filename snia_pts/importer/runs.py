"""Files of another tool, and the runs in them: what the verb ``import`` and each importer exchange."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, cast

from pydantic import ValidationError

from .. import registries
from ..errors import ImportRejected
from ..files import read_regular
from ..model.measurement import Outcome, Timing
from ..model.steps import Step
from ..record.entries import Digests, EndEntry, Entry, OutcomeEntry, StartEntry, StepEntry, adapter
from ..results.imported import Imported, ImportedFile
from ..results.result import RunFacts

#: Other tools do not report when each of their measurements ran.
UNTIMED = Timing(started="", started_monotonic_ns=0, ended_monotonic_ns=0, suite_gap_us=None, idle_gap_ms=None)
#: The size of one file, and of all together.
MAX_BYTES, _MAX_TOTAL_BYTES = 64 * 1024 * 1024, 512 * 1024 * 1024
_MAX_FILES = 5000
_HINT = (
    "Name result files of TKperf or fio, or a folder in which all *.json files are results of fio, or all *.xml files "
    "are of TKperf (docs/import.rst)."
)

#: The steps of a run, each with its outcomes.
Steps = tuple[tuple[Step, tuple[Outcome, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file to import: its content, and its name for messages."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRun:
    """A run of another tool; ``test`` is the name of its test in the names of folders."""

    test: str
    facts: RunFacts
    steps: Steps


class Importer(Protocol):
    """The module of an importer."""

    #: Whether several files are one result; else each is imported by itself.
    combines_files: bool

    def recognises(self, content: bytes, /) -> bool:
        """Return whether a file is a result of the tool."""
        ...

    def copy_names(self, files: Sequence[SourceFile], /) -> tuple[str, ...]:
        """Return the name in evidence/ of the copy of each file."""
        ...

    def runs(
        self, files: Sequence[SourceFile], imported: Imported, command_line: tuple[str, ...], /
    ) -> tuple[ImportedRun, ...]:
        """Return the runs in files; ``imported`` is their origin.  Raises ImportRejected."""
        ...

    def steps_of(self, evidence: Path, facts: RunFacts, /) -> Steps:
        """Read the copies of the files of a run again, and return its steps; empty if they have no such run.

        Raises ImportRejected, OSError.
        """
        ...


def find_files(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return the files that paths name: a file itself, and the files of a folder and its subfolders.

    Of a folder, these are its ``*.json`` files; if it has none, its ``*.xml`` files.  Raises ImportRejected if it has
    neither, or if there are too many.
    """
    found: dict[Path, None] = {}
    for path in paths:
        is_folder = os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises PermissionError
        files = (sorted(path.rglob("*.json")) or sorted(path.rglob("*.xml"))) if is_folder else [path]
        if not files:
            hint = "Name the files themselves if their names end otherwise."
            raise ImportRejected(path=path, reason="the folder contains no *.json or *.xml file", hint=hint)
        found.update(dict.fromkeys(files))
    if len(found) > _MAX_FILES:
        reason = f"there are {len(found)} files, at most {_MAX_FILES} can be imported at once"
        raise ImportRejected(path=paths[0], reason=reason, hint="Import its subfolders one by one.")
    return tuple(found)


def read_files(paths: Sequence[Path]) -> tuple[SourceFile, ...]:
    """Return the content of files; raises ImportRejected if one cannot be read, or if they are too large."""
    files, total = [], 0
    for path in paths:
        try:
            content = read_regular(path, MAX_BYTES)
        except OSError as error:
            raise ImportRejected(path=path, reason=error.strerror or str(error), hint="Name a file.") from None
        total += len(content)
        if total > _MAX_TOTAL_BYTES:
            reason = f"the files together are larger than {_MAX_TOTAL_BYTES >> 20} MiB"
            raise ImportRejected(path=paths[0], reason=reason, hint="Import fewer files at once.")
        files.append(SourceFile(name=str(path), content=content))
    return tuple(files)


def read_copies(evidence: Path, imported: Imported) -> tuple[SourceFile, ...]:
    """Return the copies of the files of a run in the folder ``evidence``; raises OSError."""
    return tuple(
        SourceFile(name=f"evidence/{file.name}", content=read_regular(evidence / file.name, MAX_BYTES))
        for file in imported.files
    )


def importer_of(name: str) -> Importer:
    """Return the importer with a name; raises KeyError if there is none."""
    return cast("Importer", registries.load(registries.IMPORTERS, name))


def recognise(files: Sequence[SourceFile]) -> str:
    """Return the name of the importer of files.

    Raises ImportRejected if no importer recognises one, or if they are of different tools.
    """
    names = [_recognise(file) for file in files]
    if len(set(names)) > 1:
        other = next(file for file, name in zip(files, names, strict=True) if name != names[0])
        reason = f"it is a result of another tool than {files[0].name}"
        raise ImportRejected(path=other.name, reason=reason, hint="Import the files of each tool separately.")
    return names[0]


def _recognise(file: SourceFile) -> str:
    for name in registries.IMPORTERS:
        if importer_of(name).recognises(file.content):
            return name
    reason = "the file is empty" if not file.content.strip() else "it is not a result of a known tool"
    raise ImportRejected(path=file.name, reason=reason, hint=_HINT)


def grouped(files: Sequence[SourceFile]) -> tuple[tuple[SourceFile, ...], ...]:
    """Return the files that are imported together; raises ImportRejected, see ``recognise``.

    Those of a tool whose files are separate results are imported one by one.  Then their names must differ, because
    they name the folders.
    """
    if importer_of(recognise(files)).combines_files:
        return (tuple(files),)
    first: dict[str, SourceFile] = {}
    for file in files:
        if (other := first.setdefault(Path(file.name).stem, file)) is not file:
            hint = "Import files of the same name one by one, each with its own --run-dir."
            raise ImportRejected(path=file.name, reason=f"its name is also that of {other.name}", hint=hint)
    return tuple((file,) for file in files)


def runs_in(files: Sequence[SourceFile], imported_at: str, command_line: tuple[str, ...]) -> tuple[ImportedRun, ...]:
    """Return the runs in files; ``imported_at`` is the time of the import, as an ISO 8601 timestamp.

    Raises ImportRejected if no importer recognises the files, or if they are invalid.
    """
    name = recognise(files)
    importer = importer_of(name)
    first, *others = _copies(files, importer.copy_names(files))
    imported = Imported(
        importer=name,
        tool="",
        version="",
        file=first.name,
        sha256=first.sha256,
        more_files=tuple(others),
        imported_at=imported_at,
        name="",
    )
    runs = importer.runs(files, imported, command_line)
    for run in runs:
        _require_storable(run, files[0].name)
    return runs


def entries_of(run: ImportedRun, digests: Digests = MappingProxyType({})) -> Iterator[Entry]:
    """Yield the entries of a run's journal; ``digests`` are those of its evidence."""
    yield StartEntry(facts=run.facts, evidence=dict(digests))
    for step, outcomes in run.steps:
        yield StepEntry(step=step)
        yield from (OutcomeEntry(outcome=outcome) for outcome in outcomes)
    yield EndEntry(ending="finished", detail="", at="")


def _require_storable(run: ImportedRun, name: str) -> None:
    """Raise ImportRejected if a journal could not be read again with a value of the run."""
    for entry in entries_of(run):
        try:
            adapter().validate_json(adapter().dump_json(entry))
        except ValueError as error:
            first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
            where = ".".join(map(str, first["loc"]))
            raise ImportRejected(path=name, reason=f"a value cannot be stored ({where}: {first['msg']})") from None


def _copies(files: Sequence[SourceFile], names: Sequence[str]) -> tuple[ImportedFile, ...]:
    """Return the copies of files in evidence/ with these names."""
    return tuple(
        ImportedFile(name=name, sha256=hashlib.sha256(file.content).hexdigest())
        for file, name in zip(files, names, strict=True)
    )
