"""The process that tests one drive of a batch."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...batch.folder import BatchDrive, BatchFolder, record_process
from ...batch.processes import LOCK_DESCRIPTOR, DriveOrder, parse_order
from ...batch.resume import options_for_start
from ...record.suite import SuiteFolder
from ...runner.resume import resume
from ...runner.run import run
from ...runner.suite import discard_unstarted, resume_suite, run_suite
from ..main import run_reported
from .run import operator_session, show_run, show_suite


def test_drive(document: Mapping[str, Any]) -> None:
    """Run the tests of a drive, or resume them if one has begun; the output is that of the command line."""
    batch, order = parse_order(document)
    record_process(LOCK_DESCRIPTOR)
    (drive,) = order.drives
    raise SystemExit(run_reported(lambda afterwards: _test(batch, batch.drive(drive.name), drive, afterwards)))


def _test(batch: BatchFolder, drive: BatchDrive, order: DriveOrder, afterwards: list[Any]) -> int:
    session = dict(order.session)
    paths = {name: Path(path) if (path := session.pop(name)) else None for name in ("mail", "webhook_secret")}
    arguments = argparse.Namespace(**session, **paths, progress="log", afterwards=afterwards, command_line=())
    path = batch.run_path(drive)
    with operator_session(arguments) as (caller, notification):
        if batch.has_begun(drive):
            suite = SuiteFolder.existing(path)
            if suite is None:
                return show_run(resume(path, order.given, caller))
            return show_suite(resume_suite(suite, order.given, caller), notification)
        discard_unstarted(path, caller)
        options = options_for_start(drive, order.given, batch)
        if drive.suite:
            return show_suite(run_suite(options, caller), notification)
        return show_run(run(options[0], caller))
