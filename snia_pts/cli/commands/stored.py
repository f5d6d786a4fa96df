"""The verbs that need no device: ``assess`` and ``report``, for one run or a suite of several tests.

The modules for suites, which load the laboratory, are imported for a suite only.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ...errors import LimitsMissed, RecordError, ReportError
from ...files import replace_file, shell_quoted
from ...model.annotations import Annotations, read_annotations
from ...record.evidence import EvidenceCheck, describe_unjournaled
from ...record.folder import RunFolder, writable_path
from ...record.journal import prevent_resume
from ...record.replay import assess as assess_run
from ...record.result_xml import differences, result_xml
from ...record.suite import SuiteFolder
from ...report import DATA_OUTPUTS, OUTPUTS, places, write
from ...report.suite import write as write_summary
from ...results.limit_checks import Judgement, judgements, require_met, untested
from ...results.result import TestResult
from ...runner.setup import notify_if_unlimited, require_formats
from ...runner.suite import build_summary
from ...runner.verification import check_evidence, require_evidence
from ...spec.limits import Limit, read_limits
from ..options import formats_of
from ..text.formatting import json_text
from ..text.result import result_json, result_lines
from ..text.suite import overview_json, overview_lines
from ..text.terminal import print_lines, say

#: The number of differences that are listed.
_MAX_LISTED = 10


def assess(arguments: argparse.Namespace) -> int:
    """Judge a stored run from its journal, and compare result.xml and the evidence with the journal.

    The exit code is that of RecordError if they differ.  Raises LimitsMissed.
    """
    suite = SuiteFolder.existing(arguments.run)
    override = _override(arguments, suite)
    folders = _runs(suite) if suite else [RunFolder.existing(arguments.run)]
    documents, judgement_list, differs, finished = [], list[Judgement](), False, True
    for folder in folders:
        result = assess_run(folder)
        evidence = check_evidence(folder, result)
        discrepancies = (*evidence.differences, *_stored_differences(folder, result_xml(result)))
        differs, finished = differs or bool(discrepancies), finished and result.ending == "finished"
        result = override(result)
        judgement_list += judgements(result)
        if arguments.json:
            documents.append(result_json(result, discrepancies, evidence.unjournaled))
        else:
            _print_assessment(folder, result, discrepancies, evidence)
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
        judgement_list += untested(result.facts.limits, [folder.path.name for folder in folders])
    _require_met(judgement_list, arguments.run, finished and (suite is None or len(folders) == len(suite.tests)))
    return 0


def _require_met(judgement_list: Sequence[Judgement], run: Path, finished: bool) -> None:
    """Raise LimitsMissed unless all limits are met; the hint differs for an unfinished run."""
    unfinished_hint = f"The run is not finished; snia-pts status {shell_quoted(run)} shows its state."
    require_met(judgement_list, LimitsMissed.hint if finished else unfinished_hint)


def _override(
    arguments: argparse.Namespace, suite: SuiteFolder | None, about: Annotations | None = None
) -> Callable[[TestResult], TestResult]:
    """Return a function that replaces the limits (--limits) and annotations (``about``) of a result.

    It prints a notice if none of these limits applies to the run.
    """
    limits = read_limits(arguments.limits) if arguments.limits else None

    def change(result: TestResult) -> TestResult:
        if limits and suite is None:
            notify_if_unlimited(limits, str(arguments.limits), result.facts.spec.test, say)
        return with_overrides(result, limits, about)

    return change


def with_overrides(
    result: TestResult, limits: tuple[Limit, ...] | None, about: Annotations | None = None
) -> TestResult:
    """Return a result with other limits or annotations than its run had; None keeps those of the run."""
    facts = result.facts
    facts = replace(facts, limits=facts.limits if limits is None else limits, about=about or facts.about)
    return replace(result, facts=facts)


def _runs(suite: SuiteFolder) -> list[RunFolder]:
    runs = [run for test in suite.tests if (run := suite.verified_run_folder(test))]
    if not runs:
        raise RecordError(path=suite.path, reason="none of its tests was run")
    return runs


def _print_assessment(
    folder: RunFolder, result: TestResult, discrepancies: tuple[str, ...], evidence: EvidenceCheck
) -> None:
    print_lines((*result_lines(result), ""))
    conclusion = "result.xml and all evidence agree with the journal."
    if not os.path.lexists(folder.result):
        conclusion = "There is no result.xml; all evidence agrees with the journal."
    print_lines(tuple(_discrepancy_lines(discrepancies)) or (conclusion,))
    if evidence.unjournaled:
        print_lines((f"The run did not finish; not in its journal: {describe_unjournaled(evidence.unjournaled)}.",))
    print()


def report(arguments: argparse.Namespace) -> int:
    """Recreate result.xml and the report of a stored run; print how the old result.xml differs from the journal."""
    formats, run_path = require_formats(formats_of(arguments)), writable_path(arguments.run)
    suite = SuiteFolder.existing(run_path)
    override = _override(arguments, suite, read_annotations(arguments.about) if arguments.about else None)
    folders = _runs(suite) if suite else [RunFolder.existing(run_path)]
    for folder in folders:
        print_lines(_recreate_report(folder, formats, override))
    if suite:
        with suite.as_run_folder.opened(), _naming_folder(suite.path):
            written = write_summary(build_summary(suite, override, formats), suite.path, formats)
        summaries = {name: suite.path / f"summary.{name}" for name in OUTPUTS}
        _list_older_formats(suite.path, summaries, formats)
        print_lines(map(str, written.values()))
    return 0


def _recreate_report(
    folder: RunFolder, formats: Sequence[str], override: Callable[[TestResult], TestResult]
) -> Iterator[str]:
    with prevent_resume(folder.path, folder.journal):
        result = assess_run(folder)
        require_evidence(folder, result)
        document = result_xml(result)
        print_lines(_discrepancy_lines(_stored_differences(folder, document)), sys.stderr)
        with folder.opened(), _naming_folder(folder.path):
            replace_file(folder.result, document)
            written = write(override(result), folder.path, formats)
    _list_older_formats(folder.path, places(folder.path, (*OUTPUTS, *DATA_OUTPUTS)), formats)
    yield from map(str, written.values())


def _list_older_formats(folder: Path, known: Mapping[str, Path], formats: Sequence[str]) -> None:
    """List the formats of an earlier report, which stay: they may be signed, and may differ from this report."""
    older = {name: path for name, path in known.items() if name not in formats and path.exists()}
    if older:
        names = ", ".join(path.name for path in older.values())
        say(f"not updated, perhaps out of date: {names} in {folder}; --to {','.join(older)} updates them.")


@contextmanager
def _naming_folder(folder: Path) -> Iterator[None]:
    """Convert an OSError to a ReportError that names the folder."""
    try:
        yield
    except OSError as error:
        remedy = "The result is safe; make the report as a user who may write there."
        hint = remedy if isinstance(error, PermissionError) else ReportError.hint
        raise ReportError(reason=f"{folder}: {error.strerror or error}", hint=hint) from None


def _stored_differences(folder: RunFolder, expected: bytes) -> tuple[str, ...]:
    """Return how result.xml differs from the ``expected`` one, which the journal gives; an invalid one differs too."""
    try:
        if folder.result.is_symlink():
            return (f"{folder.result.name} is a symlink",)
        return differences(folder.result, expected) if folder.result.exists() else ()
    except RecordError as unreadable:
        return (str(unreadable),)


def _discrepancy_lines(discrepancies: tuple[str, ...]) -> list[str]:
    if not discrepancies:
        return []
    more = len(discrepancies) - _MAX_LISTED
    lines = ["Stored files differ from the journal:", *(f"  {line}" for line in discrepancies[:_MAX_LISTED])]
    return [*lines, f"  and {more} more"] if more > 0 else lines
