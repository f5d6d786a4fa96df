"""The verb ``import``: convert result files of other tools to runs, and report them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from ..cli.options import formats_of
from ..cli.parser import TESTS
from ..cli.text.lines import print_lines, terminal_width
from ..cli.text.result import result_lines
from ..cli.text.suite import overview_lines
from ..errors import HostFailed, RunFolderError
from ..files import create_file, remove
from ..record.evidence import EvidenceLedger
from ..record.folder import RunFolder, default_name
from ..record.journal import Journal
from ..record.replay import store
from ..record.suite import SuiteFolder
from ..report import write
from ..report.suite import write as write_summary
from ..results.imported import Imported
from ..runner.report_formats import require_formats
from ..runner.suite_summary import build_summary
from .runs import ImportedRun, SourceFile, entries_of, find_files, grouped, read_files, runs_in


def import_files(arguments: argparse.Namespace) -> int:
    """Create a run folder with its report for each run in files of another tool; a suite folder for several tests.

    Several files that are not one result each get their own folder.  Raises RecordError for an invalid file, before
    anything is written.
    """
    formats = require_formats(formats_of(arguments))
    groups = grouped(read_files(find_files(arguments.files)))
    now = datetime.now().astimezone().isoformat(timespec="milliseconds")
    runs_of_groups = [_sorted(runs_in(files, now, tuple(arguments.command_line))) for files in groups]
    for files, runs in zip(groups, runs_of_groups, strict=True):
        stem = Path(files[0].name if len(groups) > 1 else arguments.files[0].absolute()).stem
        subject = stem if len(groups) > 1 else runs[0].facts.dut.model or stem
        path = Path("runs") / default_name(runs[0].test if len(runs) == 1 else "all", subject, now)
        if arguments.run_dir:
            path = arguments.run_dir / stem if len(groups) > 1 else arguments.run_dir
        _import(files, runs, path, formats)
    return 0


def _sorted(runs: Sequence[ImportedRun]) -> tuple[ImportedRun, ...]:
    """Return runs in the order of the standard's tests."""
    return tuple(sorted(runs, key=lambda run: [*TESTS, run.test].index(run.test)))


def _import(files: Sequence[SourceFile], runs: Sequence[ImportedRun], path: Path, formats: Sequence[str]) -> None:
    """Create the folders of the runs in files that are imported together, and their reports."""
    if len(runs) == 1:
        _report(_create_runs(runs, [path], files), formats)
        return
    suite = SuiteFolder.create(path, [run.test for run in runs])
    try:
        folders = _create_runs(runs, [suite.run_path(run.test) for run in runs], files)
    finally:
        suite.discard()  # does nothing if there are runs
    _report(folders, formats)
    _report_suite(suite, formats)


def _create_runs(runs: Sequence[ImportedRun], paths: Sequence[Path], files: Sequence[SourceFile]) -> list[RunFolder]:
    """Create the run folders of files; if one fails, remove all of them."""
    folders: list[RunFolder] = []
    try:
        for run, path in zip(runs, paths, strict=True):
            folders.append(RunFolder.create(path))
            _write_journal(run, folders[-1], files)
    except BaseException as error:
        for folder, run in zip(folders, runs, strict=False):
            with suppress(OSError, RunFolderError), folder.opened():  # what cannot be removed remains
                remove(folder.journal)
                for copy in _imported(run).files:
                    remove(folder.evidence / copy.name)
            folder.discard()
        if isinstance(error, HostFailed):  # its hint is about a run with measurements
            hint = "Nothing was imported; import the file again."
            raise HostFailed(step="import", what=error.what, reason=error.reason, hint=hint) from None
        raise
    return folders


def _imported(run: ImportedRun) -> Imported:
    if run.facts.imported is None:
        raise TypeError("an imported run has an origin")
    return run.facts.imported


def _write_journal(run: ImportedRun, folder: RunFolder, files: Sequence[SourceFile]) -> None:
    with folder.opened():
        for file, copy in zip(files, _imported(run).files, strict=True):
            create_file(folder.evidence / copy.name, file.content)
        with Journal(folder.journal, durable=False) as journal:
            digests = EvidenceLedger(folder.evidence, durable=False).digest_remaining()
            named = replace(run, facts=replace(run.facts, run_id=folder.path.name))
            for entry in entries_of(named, digests):
                journal.append(entry)


def _report(folders: Sequence[RunFolder], formats: Sequence[str]) -> None:
    for number, folder in enumerate(folders):
        with folder.opened():
            result = store(folder)
            reports = write(result, folder.path, formats)
        print_lines(
            (
                *([""] if number else ()),
                *result_lines(result, terminal_width(sys.stdout)),
                "",
                f"run folder: {folder.path}",
            )
        )
        print_lines(f"report:     {path}" for path in reports.values())


def _report_suite(suite: SuiteFolder, formats: Sequence[str]) -> None:
    summary = build_summary(suite)
    files = write_summary(summary, suite.path, formats)
    print_lines(("", *overview_lines(summary), "", f"folder: {suite.path}"))
    print_lines(f"summary: {path}" for path in files.values())
