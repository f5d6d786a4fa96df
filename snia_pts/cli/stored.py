"""The verbs that need no device: assess and report."""

from __future__ import annotations

import argparse
import json
import sys

from ..errors import RecordError
from ..record.evidence import evidence_differences
from ..record.folder import RunFolder
from ..record.resultxml import differences
from ..result import TestResult
from ..runner import assess as assess_run
from ..runner import store
from .show import result_json, result_lines

#: How many disagreements are told one by one.
_TOLD = 10


def assess(arguments: argparse.Namespace) -> int:
    """Judge a stored run again from its journal, and hold result.xml and the evidence against it.

    The exit code is that of RecordError when they do not agree.
    """
    folder = RunFolder.existing(arguments.run)
    result = assess_run(folder)
    disagreements = _disagreements(folder, result)
    if arguments.json:
        print(json.dumps(result_json(result, disagreements), indent=1, allow_nan=False))
    else:
        for line in result_lines(result):
            print(line)
        print()
        agreed = (
            "result.xml and evidence agree" if folder.result.exists() else "There is no result.xml; evidence agrees"
        )
        print("\n".join(_told(disagreements)) or f"{agreed} with the journal.")
    return RecordError.exit_code if disagreements else 0


def report(arguments: argparse.Namespace) -> int:
    """Make result.xml and the report of a stored run again; tells where what was there differed from the journal."""
    from ..report import write

    folder = RunFolder.existing(arguments.run)
    result = assess_run(folder)
    if result.running:
        raise RecordError(path=arguments.run, reason="the run still goes on", hint="Wait for its end, or stop it.")
    for line in _told(_disagreements(folder, result)):
        print(line, file=sys.stderr)
    store(folder)
    for path in write(result, folder.path).values():
        print(path)
    return 0


def _disagreements(folder: RunFolder, result: TestResult) -> tuple[str, ...]:
    stored = differences(folder.result, result) if folder.result.exists() else ()
    return (*stored, *evidence_differences(folder, result))


def _told(disagreements: tuple[str, ...]) -> list[str]:
    if not disagreements:
        return []
    more = len(disagreements) - _TOLD
    lines = ["What is stored differs from the journal:", *(f"  {line}" for line in disagreements[:_TOLD])]
    return [*lines, f"  and {more} more"] if more > 0 else lines
