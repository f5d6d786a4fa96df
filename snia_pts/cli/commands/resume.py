"""The verb ``resume``: continues a run that was stopped."""

from __future__ import annotations

import argparse

from ...batch.folder import BatchFolder
from ...record.folder import writable_path
from ...record.suite import SuiteFolder
from ...runner.resume import resume as resume_run
from ...runner.suite import resume_suite
from ..options import resume_options
from .batch import resume_batch
from .run import operator_session, show_run, show_suite


def resume(arguments: argparse.Namespace) -> int:
    """Resume a stopped run, the remaining tests of a suite, or those of the drives of a batch."""
    path, options = writable_path(arguments.run), resume_options(arguments)
    if batch := BatchFolder.existing(path):
        return resume_batch(batch, arguments)
    suite = SuiteFolder.existing(path)
    with operator_session(arguments) as (caller, notification):
        if suite is None:
            return show_run(resume_run(path, options, caller))
        return show_suite(resume_suite(suite, options, caller), notification)
