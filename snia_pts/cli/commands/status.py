"""The verbs ``status`` and ``stop``: the state of runs, and a request to stop them, from any terminal."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict

from ...batch.folder import BatchFolder
from ...errors import NotRunning, RecordError
from ...files import shell_quoted
from ...record.folder import RunFolder, writable_path
from ...record.suite import SuiteFolder, running_folders
from ..text.formatting import json_text
from ..text.lines import print_lines
from .batch_status import batch_lines, drive_statuses, stop_batch
from .run_status import RunStatus, name_width, read_statuses, repeated_step, status_lines


def status(arguments: argparse.Namespace) -> int:
    """Print the state of each run, of all runs in a folder, or of each drive of a batch.

    The exit code is that of RecordError if a run cannot be read.
    """
    states = set[str]()
    batch = BatchFolder.existing(arguments.runs[0]) if len(arguments.runs) == 1 else None
    if batch:
        return _batch_status(batch, as_json=arguments.json)

    def statuses() -> Iterator[RunStatus]:
        for path in arguments.runs:
            for run in read_statuses(path):
                states.add(run.state)
                yield run

    if arguments.json:
        print(json_text([asdict(run) for run in statuses()]))
    else:
        print_lines(status_lines(statuses(), max(map(name_width, arguments.runs))))
    return RecordError.exit_code if "unreadable" in states else 0


def _batch_status(batch: BatchFolder, *, as_json: bool) -> int:
    drives = list(drive_statuses(batch))
    if as_json:
        print(json_text([asdict(drive) for drive in drives]))
    else:
        print_lines(batch_lines(batch, drives))
    return RecordError.exit_code if any(drive.state == "unreadable" for drive in drives) else 0


def stop(arguments: argparse.Namespace) -> int:
    """Ask a run to stop after its current point or sample; stop all runs of a batch."""
    run_path = writable_path(arguments.run)
    if batch := BatchFolder.existing(run_path):
        return stop_batch(batch)
    running = running_folders(run_path)
    resume = f"snia-pts resume {shell_quoted(arguments.run)} continues it."
    if not running:
        if not SuiteFolder.existing(run_path):
            RunFolder.existing(run_path)  # raises RecordError if it is no run
        raise NotRunning(path=arguments.run, reason="no process writes its journal")
    for folder in running:
        folder.request_stop()
        if SuiteFolder.existing(folder.path):
            when = "before its next test"
        else:
            when = "before its first step" if folder.is_starting else "after its current point or sample"
        print_lines((f"{folder.path} stops {when}; {resume}",))
        if repeated := repeated_step(folder):
            print_lines((f"Resumed from where it is now, it would start again at {repeated}.",))
    return 0
