"""The verb ``export``: write a stored run as a result file of TKperf."""

from __future__ import annotations

import argparse
import errno
import os
from pathlib import Path

from ..cli.text.lines import print_lines, say
from ..errors import NotExportable
from ..files import create_file, keep_folder_open
from ..record.folder import RunFolder, writable_path
from ..record.replay import assess
from ..record.suite import SuiteFolder, child_folders, is_run
from ..runner.verification import require_evidence
from .original import original
from .writer import export_document


def export(arguments: argparse.Namespace) -> int:
    """Write a run, a suite, or the runs in a folder as a file that TKperf loads; print what such a file cannot hold.

    Raises NotExportable if it can hold nothing of the run, or if the file cannot be written.
    """
    run_path = arguments.run if arguments.out else writable_path(arguments.run)
    folders = _run_folders(run_path)
    results = [assess(folder) for folder in folders]
    for folder, result in zip(folders, results, strict=True):
        require_evidence(folder, result)
    document, name, omissions = original(folders, results) or export_document(results, str(arguments.run))
    folder = RunFolder(path=run_path)
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


def _run_folders(path: Path) -> tuple[RunFolder, ...]:
    """Return the folder of a run, those of a suite, or those of the runs in any other folder; raises RecordError."""
    if suite := SuiteFolder.existing(path):
        return suite.runs()
    runs = () if is_run(path) or not path.is_dir() else tuple(filter(is_run, child_folders(path)))
    return tuple(RunFolder.existing(run) for run in runs or (path,))
