"""The verbs that need no device: assess and report."""

from __future__ import annotations

import argparse
import json

from ..record.folder import RunFolder
from ..record.resultxml import differences
from ..runner import assess as assess_run
from .show import result_json, result_lines


def assess(arguments: argparse.Namespace) -> int:
    """Judge a stored run again from its journal, and hold the stored result.xml against it."""
    folder = RunFolder.existing(arguments.run)
    result = assess_run(folder)
    disagreements = differences(folder.result, result) if folder.result.exists() else ("there is no result.xml",)
    if arguments.json:
        print(json.dumps(result_json(result, disagreements), indent=1, allow_nan=False))
        return 0
    for line in result_lines(result):
        print(line)
    print()
    print("result.xml agrees with the journal." if not disagreements else "result.xml differs from the journal:")
    for line in disagreements[:10]:
        print(f"  {line}")
    return 0


def report(arguments: argparse.Namespace) -> int:
    """Make the report of a stored run again."""
    from ..report import write

    folder = RunFolder.existing(arguments.run)
    for path in write(assess_run(folder), folder.path).values():
        print(path)
    return 0
