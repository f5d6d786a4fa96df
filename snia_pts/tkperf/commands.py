"""The verbs ``import`` and ``export``: convert result files of TKperf to runs, and runs to such files."""

from __future__ import annotations

import argparse
import errno
import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from ..cli.options import formats_of
from ..cli.parser import TESTS
from ..cli.text.result import result_lines
from ..cli.text.suite import overview_lines
from ..cli.text.terminal import print_lines, say
from ..errors import HostFailed, NotExportable, RecordError, RunFolderError
from ..files import create_file, keep_folder_open, read_regular, remove
from ..record.entries import EndEntry, OutcomeEntry, StartEntry, StepEntry
from ..record.evidence import EvidenceLedger
from ..record.folder import RunFolder, default_name, writable_path
from ..record.journal import Journal
from ..record.replay import assess, store
from ..record.suite import SuiteFolder
from ..report import write
from ..report.suite import write as write_summary
from ..results.imported import Imported
from ..runner.setup import require_formats
from ..runner.suite import build_summary
from ..runner.verification import require_evidence
from .document import MAX_BYTES, read
from .reader import Run, runs
from .writer import written

_COPY = "tkperf.xml"


def import_file(arguments: argparse.Namespace) -> int:
    """Create a run folder with its report for each test in a file of TKperf; a suite folder for several tests.

    Tests of a hard disk become runs of profiles, each in its own folder.  Raises RecordError for an invalid file,
    before anything is written.
    """
    formats, source = require_formats(formats_of(arguments)), arguments.file
    try:
        document = read_regular(source, MAX_BYTES)
    except OSError as error:
        raise RecordError(path=source, reason=error.strerror or str(error), hint="Name a file.") from None
    now = datetime.now().astimezone().isoformat(timespec="milliseconds")
    imported = Imported(
        importer="tkperf",
        tool="",
        version="",
        file=_COPY,
        sha256=hashlib.sha256(document).hexdigest(),
        imported_at=now,
        name="",
    )
    imports = runs(read(document, str(source)), imported, tuple(arguments.command_line), str(source))
    imports = tuple(sorted(imports, key=lambda run: [*TESTS, run.test].index(run.test)))
    name = default_name(imports[0].test if len(imports) == 1 else "all", imports[0].facts.dut.model or source.stem, now)
    path = arguments.run_dir or Path("runs") / name
    if len(imports) == 1:
        _report(_create_runs(imports, [path], document), formats)
    elif all(run.test in TESTS for run in imports):
        suite = SuiteFolder.create(path, [run.test for run in imports])
        try:
            folders = _create_runs(imports, [suite.run_path(run.test) for run in imports], document)
        finally:
            suite.discard()  # does nothing if there are runs
        _report(folders, formats)
        _report_suite(suite, formats)
    else:  # "all" runs no profiles of a hard disk
        _report(_create_runs(imports, [path / run.test for run in imports], document), formats)
    return 0


def _create_runs(imports: Sequence[Run], paths: Sequence[Path], document: bytes) -> list[RunFolder]:
    """Create the run folders of a file; if one fails, remove all of them."""
    folders: list[RunFolder] = []
    try:
        for run, path in zip(imports, paths, strict=True):
            folders.append(RunFolder.create(path))
            _write_journal(run, folders[-1], document)
    except BaseException as error:
        for folder in folders:
            with suppress(OSError, RunFolderError), folder.opened():  # what cannot be removed remains
                remove(folder.journal)
                remove(folder.evidence / _COPY)
            folder.discard()
        if isinstance(error, HostFailed):  # its hint is about a run with measurements
            hint = "Nothing was imported; import the file again."
            raise HostFailed(step="import", what=error.what, reason=error.reason, hint=hint) from None
        raise
    return folders


def _write_journal(run: Run, folder: RunFolder, document: bytes) -> None:
    with folder.opened():
        create_file(folder.evidence / _COPY, document)
        with Journal(folder.journal, durable=False) as journal:
            facts = replace(run.facts, run_id=folder.path.name)
            journal.append(
                StartEntry(facts=facts, evidence=EvidenceLedger(folder.evidence, durable=False).digest_remaining())
            )
            for step, outcomes in run.steps:
                journal.append(StepEntry(step=step))
                for outcome in outcomes:
                    journal.append(OutcomeEntry(outcome=outcome))
            journal.append(EndEntry(ending="finished", detail="", at=""))


def _report(folders: Sequence[RunFolder], formats: Sequence[str]) -> None:
    for number, folder in enumerate(folders):
        with folder.opened():
            result = store(folder)
            reports = write(result, folder.path, formats)
        print_lines((*([""] if number else ()), *result_lines(result), "", f"run folder: {folder.path}"))
        print_lines(f"report:     {path}" for path in reports.values())


def _report_suite(suite: SuiteFolder, formats: Sequence[str]) -> None:
    summary = build_summary(suite)
    files = write_summary(summary, suite.path, formats)
    print_lines(("", *overview_lines(summary), "", f"folder: {suite.path}"))
    print_lines(f"summary: {path}" for path in files.values())


def export(arguments: argparse.Namespace) -> int:
    """Write a run or a suite as a file that TKperf loads; print what such a file cannot hold.

    Raises NotExportable if it can hold nothing of the run, or if the file cannot be written.
    """
    run_path = arguments.run if arguments.out else writable_path(arguments.run)
    suite = SuiteFolder.existing(run_path)
    folders = (
        [run for test in suite.tests if (run := suite.verified_run_folder(test))]
        if suite
        else [RunFolder.existing(run_path)]
    )
    if not folders:
        raise RecordError(path=arguments.run, reason="none of its tests was run")
    results = [assess(folder) for folder in folders]
    for folder, result in zip(folders, results, strict=True):
        require_evidence(folder, result)
    document, name, omissions = written(results, str(arguments.run))
    folder = suite.as_run_folder if suite else folders[0]
    path = arguments.out or folder.path / f"{name}.xml"
    parent = path.parent.absolute()
    try:
        with keep_folder_open(parent, parent=True) if arguments.out else folder.opened():
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, "it already exists")
            create_file(parent / path.name, document)
    except OSError as error:
        reason = f"{path}: {error.strerror or error}"
        raise NotExportable(path=arguments.run, reason=reason, hint="Name another place with --out.") from None
    for sentence in omissions:
        say(f"not in the file: {sentence}")
    print_lines((str(path),))
    return 0
