"""The verbs that need no device: assess and report, of a run or of all.

What a run of all tests needs, the laboratory with it, is loaded for such a run alone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ...errors import LimitsMissed, RecordError, ReportError, RunFolderError
from ...files import replace_file, require_private, shell_quoted
from ...model.annotations import Annotations, read_about
from ...record.evidence import EvidenceCheck, unjournaled_words
from ...record.folder import RunFolder
from ...record.journal import WAIT
from ...record.replay import assess as assess_run
from ...record.result_xml import differences, result_xml
from ...record.suite import SuiteFolder
from ...report import DATA_OUTPUTS, OUTPUTS, places
from ...report.suite import write as write_summary
from ...results.limit_checks import Judgement, judgements, require_met, untested
from ...results.result import TestResult
from ...runner.setup import require_formats, tell_if_unlimited
from ...runner.verification import check_evidence, require_evidence
from ...spec.limits import Limit, read_limits
from ..options import formats_of
from ..text.result import result_json, result_lines
from ..text.terminal import say

#: How many disagreements are told one by one.
_TOLD = 10


def assess(arguments: argparse.Namespace) -> int:
    """Judge a stored run again from its journal, and hold result.xml and the evidence against it.

    The exit code is that of RecordError when they do not agree.  Raises LimitsMissed.
    """
    suite = SuiteFolder.existing(arguments.run)
    with_given = _override_annotations(arguments, suite)
    if suite:
        from ...runner.suite import build_summary
        from ..text.suite import overview_json, overview_lines
    folders = _runs(suite) if suite else [RunFolder.existing(arguments.run)]
    documents, judged, disagreed, finished = [], list[Judgement](), False, True
    for folder in folders:
        result = assess_run(folder)
        evidence = check_evidence(folder, result)
        disagreements = (*evidence.differences, *_stored_differences(folder, result_xml(result)))
        disagreed, finished = disagreed or bool(disagreements), finished and result.ending == "finished"
        result = with_given(result)
        judged += judgements(result)
        if arguments.json:
            documents.append(result_json(result, disagreements, evidence.unjournaled))
        else:
            _print_assessment(folder, result, disagreements, evidence)
    if arguments.json:
        told = (
            {"format": 1, "summary": overview_json(build_summary(suite)), "tests": documents} if suite else documents[0]
        )
        print(json.dumps(told, indent=1, allow_nan=False))
    elif suite:
        print("\n".join(("", *overview_lines(build_summary(suite)))))
    if disagreed:
        return RecordError.exit_code
    if suite:
        judged += untested(result.facts.limits, [folder.path.name for folder in folders])
    _require_met(judged, arguments.run, finished and (suite is None or len(folders) == len(suite.tests)))
    return 0


def _require_met(judged: Sequence[Judgement], run: Path, finished: bool) -> None:
    """Raise LimitsMissed unless all limits are met, with another remedy for what is not at its end."""
    try:
        require_met(judged)
    except LimitsMissed as missed:
        if not finished:
            missed.hint = f"It is not at its end; snia-pts status {shell_quoted(run)} tells where it stands."
        raise


def _override_annotations(
    arguments: argparse.Namespace, suite: SuiteFolder | None, about: Annotations | None = None
) -> Callable[[TestResult], TestResult]:
    """Return what gives a result --limits, and ``about``; it tells where these limits ask nothing of the one run."""
    limits = read_limits(arguments.limits) if arguments.limits else None

    def change(result: TestResult) -> TestResult:
        if limits and suite is None:
            tell_if_unlimited(limits, str(arguments.limits), result.facts.spec.test, say)
        return given(result, limits, about)

    return change


def given(result: TestResult, limits: tuple[Limit, ...] | None, about: Annotations | None = None) -> TestResult:
    """Return a result with other limits, or other words about it, than its run was given; None keeps these."""
    facts = result.facts
    told = replace(facts, limits=facts.limits if limits is None else limits, about=about or facts.about)
    return replace(result, facts=told)


def _runs(suite: SuiteFolder) -> list[RunFolder]:
    found = [run for test in suite.tests if (run := suite.recorded(test))]
    if not found:
        raise RecordError(path=suite.path, reason="none of its tests was run")
    return found


def _print_assessment(
    folder: RunFolder, result: TestResult, disagreements: tuple[str, ...], evidence: EvidenceCheck
) -> None:
    for line in result_lines(result):
        print(line)
    print()
    agreed = "result.xml and all evidence agree with the journal."
    if not os.path.lexists(folder.result):
        agreed = "There is no result.xml; all evidence agrees with the journal."
    print("\n".join(_told(disagreements)) or agreed)
    if evidence.unjournaled:
        print(f"The run did not finish; it left {unjournaled_words(evidence.unjournaled)}.")
    print()


def report(arguments: argparse.Namespace) -> int:
    """Make result.xml and the report of a stored run again; tells where what was there differed from the journal."""
    formats, suite = require_formats(formats_of(arguments)), SuiteFolder.existing(arguments.run)
    change = _override_annotations(arguments, suite, read_about(arguments.about) if arguments.about else None)
    folders = _runs(suite) if suite else [RunFolder.existing(arguments.run)]
    require_private(arguments.run)
    for folder in folders:
        for line in _report_again(folder, formats, change):
            print(line)
    if suite:
        from ...runner.suite import build_summary

        with suite.whole.opened(), _writing(suite.path):
            written = write_summary(build_summary(suite, change, formats), suite.path, formats)
        summaries = {name: suite.path / f"summary.{name}" for name in OUTPUTS}
        _tell_older(suite.path, summaries, formats)
        for path in written.values():
            print(path)
    return 0


def _report_again(
    folder: RunFolder, formats: Sequence[str], with_given: Callable[[TestResult], TestResult]
) -> Iterator[str]:
    from ...report import write

    result = assess_run(folder)
    if result.running:
        raise RecordError(path=folder.path, reason="the run is still in progress", hint=WAIT)
    require_evidence(folder, result)
    made = result_xml(result)
    for line in _told(_stored_differences(folder, made)):
        print(line, file=sys.stderr)
    with folder.opened(), _writing(folder.path):
        replace_file(folder.result, made)
        written = write(with_given(result), folder.path, formats)
    _tell_older(folder.path, places(folder.path, (*OUTPUTS, *DATA_OUTPUTS)), formats)
    yield from map(str, written.values())


def _tell_older(folder: Path, known: Mapping[str, Path], formats: Sequence[str]) -> None:
    """Tell of what an earlier report left beside this one, which may say otherwise; it may be signed, and stays."""
    older = {name: path for name, path in known.items() if name not in formats and path.exists()}
    if older:
        left, again = ", ".join(path.name for path in older.values()), ",".join(older)
        print(
            f"snia-pts: Left as it was, from an earlier report that may say otherwise: {left} in {folder}; "
            f"--to {again} makes it again.",
            file=sys.stderr,
        )


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Say in which folder a file could not be written; raises ReportError."""
    try:
        yield
    except RunFolderError:
        raise
    except OSError as error:
        hint = "The result itself is safe; make the report as a user who may write there."
        told = hint if isinstance(error, PermissionError) else None
        raise ReportError(reason=f"{folder}: {error.strerror or error}", hint=told) from None


def _stored_differences(folder: RunFolder, made: bytes) -> tuple[str, ...]:
    """Tell where result.xml differs from the one ``made`` of the journal; a result.xml that is none differs too."""
    try:
        if folder.result.is_symlink():
            return (f"{folder.result.name} is a symlink",)
        return differences(folder.result, made) if folder.result.exists() else ()
    except RecordError as unreadable:
        return (str(unreadable),)


def _told(disagreements: tuple[str, ...]) -> list[str]:
    if not disagreements:
        return []
    more = len(disagreements) - _TOLD
    lines = ["What is stored differs from the journal:", *(f"  {line}" for line in disagreements[:_TOLD])]
    return [*lines, f"  and {more} more"] if more > 0 else lines
