"""The verb ``report``: recreates the report of a stored run, or those of a suite of several tests."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...api.assessment import overriding
from ...api.report import naming_folder, recreate_report, write_report
from ...errors import UsageError
from ...record.archive import is_archive
from ...record.folder import RunFolder, writable_path
from ...record.journal_reader import JournalReader
from ...record.suite import SuiteFolder
from ...report import OUTPUTS, known_formats, report_paths
from ...report.suite import write as write_summary
from ...runner.plugins import load_plugins, missing_parts
from ...runner.report_formats import require_formats
from ...runner.suite_summary import build_summary
from ..options import formats_of
from ..text.lines import ignore, print_lines, say, say_all
from ..text.result import difference_lines


def report(arguments: argparse.Namespace) -> int:
    """Recreate result.xml and the report of a stored run; print how the old result.xml differs from the journal."""
    if arguments.out:
        return _report_elsewhere(arguments)
    if is_archive(arguments.run):
        raise UsageError(detail=f"{arguments.run} is an archive.", hint="Give a folder for its report: --out DIR.")
    plugins, run_path = load_plugins(arguments.plugin), writable_path(arguments.run)
    suite = SuiteFolder.existing(run_path)
    # A suite may have limits on all of its tests, so limits on other tests than the current one need no notice.
    override = overriding(arguments.limits, arguments.about, say if suite is None else ignore)
    folders = suite.runs() if suite else (RunFolder.existing(run_path),)
    for folder in folders:
        kinds = ("purge method", "report format")
        say_all(missing_parts(JournalReader(folder.journal).facts.plugins, plugins, kinds))
    formats = require_formats(formats_of(arguments), arguments.plugin)
    for folder in folders:
        written = recreate_report(folder, formats, override, _print_differences)
        _list_older_formats(folder.path, report_paths(folder.path, known_formats()), formats)
        print_lines(map(str, written.values()))
    if suite:
        with suite.as_run_folder.opened(), naming_folder(suite.path):
            written = write_summary(build_summary(suite, override, formats), suite.path, formats)
        summaries = {name: suite.path / f"summary.{name}" for name in OUTPUTS}
        _list_older_formats(suite.path, summaries, formats)
        print_lines(map(str, written.values()))
    return 0


def _report_elsewhere(arguments: argparse.Namespace) -> int:
    """Write the report of a run into another folder; the run, which may be an archive, stays as it is."""
    written = write_report(
        arguments.run,
        formats=require_formats(formats_of(arguments), arguments.plugin),
        folder=arguments.out,
        limits=arguments.limits,
        about=arguments.about,
        plugins=arguments.plugin,
    )
    print_lines(map(str, written.values()))
    return 0


def _print_differences(differences: tuple[str, ...]) -> None:
    print_lines(difference_lines(differences), sys.stderr)


def _list_older_formats(folder: Path, known: Mapping[str, Path], formats: Sequence[str]) -> None:
    """List the formats of an earlier report, which stay: they may be signed, and may differ from this report."""
    older = {name: path for name, path in known.items() if name not in formats and path.exists()}
    if older:
        names = ", ".join(path.name for path in older.values())
        say(f"not updated, perhaps out of date: {names} in {folder}; --to {','.join(older)} updates them.")
