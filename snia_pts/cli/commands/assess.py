"""The verb ``assess``: judges a stored run, or each run of a suite of several tests."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ...api.assessment import Assessment, assess_run, overriding
from ...api.run import read_run
from ...errors import LimitsMissed, RecordError
from ...files import shell_quoted
from ...record.archive import opened
from ...record.evidence import describe_unjournaled
from ...record.folder import RunFolder
from ...record.suite import SuiteFolder
from ...results.limit_checks import Judgement, judgements, require_met, untested_judgements
from ...results.result import TestResult
from ...runner.plugins import load_plugins, missing_parts
from ...runner.suite_summary import build_summary
from ..text.formatting import json_text
from ..text.lines import ignore, print_lines, say, say_all, terminal_width
from ..text.result import difference_lines, result_json, result_lines
from ..text.suite import overview_json, overview_lines


def assess(arguments: argparse.Namespace) -> int:
    """Judge a stored run from its journal, and compare result.xml and the evidence with the journal.

    The exit code is that of RecordError if they differ.  Raises LimitsMissed.
    """
    with opened(arguments.run) as place:
        return _assess(arguments, place.path)


def _assess(arguments: argparse.Namespace, path: Path) -> int:
    plugins = load_plugins(arguments.plugin)
    suite = SuiteFolder.existing(path)
    # A suite may have limits on all of its tests, so limits on other tests than the current one need no notice.
    override = overriding(arguments.limits, tell=say if suite is None else ignore)
    folders = suite.runs() if suite else (RunFolder.existing(path),)
    documents, judgement_list, differs, finished = [], list[Judgement](), False, True
    tests = list[str]()
    for folder in folders:
        assessment = assess_run(read_run(folder))
        say_all(missing_parts(assessment.run.result.facts.plugins, plugins, ("purge method",)))
        differs = differs or bool(assessment.differences)
        result = override(assessment.run.result)
        finished = finished and result.ending == "finished"
        judgement_list += judgements(result)
        tests.append(result.facts.spec.test)
        if arguments.json:
            documents.append(result_json(result, assessment.differences, assessment.unjournaled))
        else:
            _print_assessment(folder, result, assessment)
    if arguments.json:
        document = documents[0]
        if suite:
            document = {"format": 1, "summary": overview_json(build_summary(suite)), "tests": documents}
        print(json_text(document))
    elif suite:
        print_lines(("", *overview_lines(build_summary(suite))))
    if differs:
        return RecordError.exit_code
    if suite:
        judgement_list += untested_judgements(result.facts.limits, tests)
    _require_met(judgement_list, arguments.run, finished and (suite is None or len(folders) == len(suite.tests)))
    return 0


def _require_met(judgement_list: Sequence[Judgement], run: Path, finished: bool) -> None:
    """Raise LimitsMissed unless all limits are met; the hint differs for an unfinished run."""
    unfinished_hint = f"The run is not finished; snia-pts status {shell_quoted(run)} shows its state."
    require_met(judgement_list, LimitsMissed.hint if finished else unfinished_hint)


def _print_assessment(folder: RunFolder, result: TestResult, assessment: Assessment) -> None:
    print_lines((*result_lines(result, terminal_width(sys.stdout)), ""))
    conclusion = "result.xml and all evidence agree with the journal."
    if not os.path.lexists(folder.result):
        conclusion = "There is no result.xml; all evidence agrees with the journal."
    print_lines(tuple(difference_lines(assessment.differences)) or (conclusion,))
    if assessment.unjournaled:
        print_lines((f"The run did not finish; not in its journal: {describe_unjournaled(assessment.unjournaled)}.",))
    print()
