"""The verbs ``import`` and ``export``: runs of another tool become runs of ours, and ours files of that tool."""

from __future__ import annotations

import argparse
import errno
import hashlib
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from ...errors import NotExportable, RecordError, RunFolderError
from ...files import create_file, keep_folder_open, read_regular, require_private
from ...record.entries import EndEntry, OutcomeEntry, StartEntry, StepEntry
from ...record.evidence import EvidenceLedger
from ...record.folder import RunFolder, default_name
from ...record.journal import Journal
from ...record.replay import assess, store
from ...record.suite import SuiteFolder
from ...report.suite import write as write_summary
from ...results.imported import Imported
from ...runner.setup import require_formats
from ...runner.suite import build_summary
from ...runner.verification import require_evidence
from ...tkperf.document import LARGEST_BYTES, read
from ...tkperf.reader import Run, runs
from ...tkperf.writer import written
from ..options import formats_of
from ..parser import TESTS
from ..text.result import result_lines
from ..text.suite import overview_lines

_COPY = "tkperf.xml"


def import_file(arguments: argparse.Namespace) -> int:
    """Make a run folder of each test in a file of TKperf, with its report; of several tests a folder as ``all`` leaves.

    Tests of a hard disk are runs of its profiles, in a folder each.
    Raises RecordError for a file that is none, before anything is written.
    """
    formats, path = require_formats(formats_of(arguments)), arguments.file
    try:
        document = read_regular(path, LARGEST_BYTES)
    except OSError as error:
        raise RecordError(path=path, reason=error.strerror or str(error), hint="Name a file.") from None
    now = datetime.now().astimezone().isoformat(timespec="milliseconds")
    imported = Imported(tool="", version="", file=_COPY, sha256=hashlib.sha256(document).hexdigest(), at=now, name="")
    found = runs(read(document, str(path)), imported, tuple(arguments.command_line), str(path))
    found = tuple(sorted(found, key=lambda run: [*TESTS, run.test].index(run.test)))
    name = default_name(found[0].test if len(found) == 1 else "all", found[0].facts.dut.model or path.stem, now)
    place = arguments.run_dir or Path("runs") / name
    if len(found) == 1:
        _import_run(found[0], RunFolder.create(place), document, formats)
    elif all(run.test in TESTS for run in found):
        _import_all(found, SuiteFolder.create(place, [run.test for run in found]), document, formats)
    else:
        for run in found:  # profiles of a hard disk are no tests that all would run
            _import_run(run, RunFolder.create(place / run.test), document, formats)
    return 0


def _import_all(found: Sequence[Run], suite: SuiteFolder, document: bytes, formats: Sequence[str]) -> None:
    for run in found:
        _import_run(run, RunFolder.create(suite.place(run.test)), document, formats)
        print()
    told = build_summary(suite)
    written = write_summary(told, suite.path, formats)
    print("\n".join(overview_lines(told)))
    print()
    print(f"folder: {suite.path}")
    for path in written.values():
        print(f"summary: {path}")


def _import_run(run: Run, folder: RunFolder, document: bytes, formats: Sequence[str]) -> None:
    """Write a run's folder, and its report."""
    from ...report import write

    with folder.opened():
        create_file(folder.evidence / _COPY, document)
        with Journal(folder.journal, durable=False) as journal:
            facts = replace(run.facts, run_id=folder.path.name)
            journal.append(StartEntry(facts=facts, evidence=EvidenceLedger(folder.evidence, durable=False).rest()))
            for step, outcomes in run.course:
                journal.append(StepEntry(step=step))
                for outcome in outcomes:
                    journal.append(OutcomeEntry(outcome=outcome))
            journal.append(EndEntry(ending="finished", detail="", at=""))
        result = store(folder)
        reports = write(result, folder.path, formats)
    print("\n".join((*result_lines(result), "", f"run folder: {folder.path}")))
    for path in reports.values():
        print(f"report:     {path}")


def export(arguments: argparse.Namespace) -> int:
    """Write a run, or all tests of a folder of several, as a file that TKperf loads; says what that cannot hold.

    Raises NotExportable where nothing of it can be held, or the file cannot be written.
    """
    suite = SuiteFolder.existing(arguments.run)
    folders = (
        [run for test in suite.tests if (run := suite.recorded(test))] if suite else [RunFolder.existing(arguments.run)]
    )
    if not folders:
        raise RecordError(path=arguments.run, reason="none of its tests was run")
    results = [assess(folder) for folder in folders]
    for folder, result in zip(folders, results, strict=True):
        require_evidence(folder, result)
    document, name, lost = written(results, str(arguments.run))
    folder = suite.whole if suite else folders[0]
    place = arguments.out or folder.path / f"{name}.xml"
    require_private(place.parent if arguments.out else arguments.run, parent=bool(arguments.out))
    within = place.parent.parent.resolve() / place.parent.name  # where place is, by no symlink but perhaps the last
    try:
        with keep_folder_open(within) if arguments.out else folder.opened():
            if os.path.lexists(place):  # whatever it is, it may be somebody's
                raise FileExistsError(errno.EEXIST, "it is there already")
            create_file(within / place.name, document)
    except RunFolderError:
        raise
    except OSError as error:
        reason = f"{place}: {error.strerror or error}"
        raise NotExportable(path=arguments.run, reason=reason, hint="Name another place with --out.") from None
    for sentence in lost:
        print(f"snia-pts: not in the file: {sentence}", file=sys.stderr)
    print(place)
    return 0
