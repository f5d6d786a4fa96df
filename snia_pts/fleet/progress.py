"""How far a run on this host came, from its run folder."""

from __future__ import annotations

from pathlib import Path

from ..errors import RecordError
from ..record.folder import RunFolder
from ..record.replay import inspect_run
from ..record.suite import SuiteFolder
from .lost_runs import Progress


def read_progress(path: Path, *, began: bool) -> Progress:
    """Return how far the run, or the suite, in a folder came, as ``snia-pts status`` would say.

    ``began``: its first step was about to begin.  If there is no journal then, it was lost.
    """
    try:
        suite = SuiteFolder.existing(path)
        runs = [suite.verified_run_folder(test) for test in suite.tests] if suite else [RunFolder(path=path)]
        begun = [_read_run_progress(run) for run in runs if run and run.has_started]
    except (RecordError, OSError):
        return "unreadable"
    if not begun:
        return "begins again" if began else "not begun"
    unfinished = [progress for progress in begun if progress != "finished"]
    if unfinished or len(begun) == len(runs):
        return unfinished[0] if unfinished else "finished"
    return "kept"


def _read_run_progress(run: RunFolder) -> Progress:
    plan = inspect_run(run, "rule")
    if plan.finished:
        return "finished"
    return "begins again" if plan.restarts_test else "kept"
