"""Runs several tests on one target, which is confirmed and claimed once; each has its own purge and folder."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ..errors import Interrupted, NotResumable, RecordError, ReportError, SniaPtsError, UsageError, stop_cause
from ..files import present_path, shell_quoted
from ..lab.host.conditions import changes_before_resume, restore_settings
from ..lab.settings.restore_files import RESTORE_FILE
from ..model.dut import Dut
from ..model.run_options import RunOptions
from ..record.folder import RunFolder, default_name
from ..record.journal_reader import JournalReader
from ..record.log import logged
from ..record.replay import ResumePlan, assess, inspect_run, is_readable, store
from ..record.suite import SuiteFolder
from ..report import report_paths, write
from ..report.suite import Overview
from ..report.suite import write as write_summary
from ..results.interruption import ResumePolicy
from ..results.result import TestResult
from ..spec import SPEC_TYPES
from ..spec.reader import Specification
from ..units import counted
from .caller import Caller
from .events import FolderCreated, SuiteFinished, TestStarted
from .notifications import notified
from .options import ResumeOptions
from .report_formats import require_formats
from .resume import (
    available_formats,
    confirm_restart,
    drive_changes,
    preparation,
    require_resumable,
    resume_claimed,
    resumed_options,
    resumed_target,
    with_content_checked,
)
from .run import discard_unless_failed, perform
from .setup import (
    TestEstimate,
    estimate_test,
    preflight,
    require_measurable,
    specification_for,
    target_setup,
)
from .suite_summary import build_summary
from .target import TargetSetup

_LOGGER = logging.getLogger(__name__)
_RUNS = Path("runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedSuite:
    """A finished suite: the results of its tests, and the files of its summary by format.

    ``unreported`` are the errors of reports that could not be written.
    """

    folder: SuiteFolder
    results: tuple[TestResult, ...]
    overview: Overview
    reports: Mapping[str, Path]
    unreported: tuple[ReportError, ...]


def estimate_suite(options: Sequence[RunOptions], caller: Caller) -> tuple[TestEstimate, ...]:
    """Return the estimate of each test; raises the error with which the run would be refused.  Writes nothing."""
    specifications = tuple(_specifications(options).values())
    target = target_setup(options[0], caller.tell)
    target.require_tools()
    preflight(options[0], specifications[0].spec, target)  # first, so that no command is sent to a drive in use
    return _estimates(options, specifications, target, caller)


def _specifications(options: Sequence[RunOptions]) -> dict[str, Specification]:
    """Return the specification of each test by its name; raises UsageError if two have the same name."""
    specifications: dict[str, Specification] = {}
    for test_options in options:
        specification = specification_for(test_options)
        name = specification.spec.name
        if name in specifications:
            raise UsageError(detail=f"{name}: named twice.", hint="Name each test once; its run folder has its name.")
        specifications[name] = specification
    return specifications


def _estimates(
    options: Sequence[RunOptions], specifications: Sequence[Specification], target: TargetSetup, caller: Caller
) -> tuple[TestEstimate, ...]:
    pairs = zip(options, specifications, strict=True)
    estimates = tuple(estimate_test(specification, target, test_options) for test_options, specification in pairs)
    duts = (estimate.dut for estimate in estimates)
    require_measurable(options[0], list(zip(specifications, duts, strict=True)), caller.tell)
    return estimates


def run_suite(options: Sequence[RunOptions], caller: Caller) -> FinishedSuite:
    """Run several tests on one target, one after the other, and summarise them.

    ``options`` differ only in test, specification, overrides and seed.  Raises what ``run`` raises; ``resume_suite``
    continues it.
    """
    specifications = _specifications(options)
    formats, target = require_formats(options[0].formats, options[0].plugins), target_setup(options[0], caller.tell)
    target.require_tools()
    dut = _estimates(options, tuple(specifications.values()), target, caller)[0].dut
    kind = "all" if options[0].test in SPEC_TYPES else "profiles"
    name = default_name(kind, target.subject, datetime.now().astimezone().isoformat())
    folder = SuiteFolder.create(options[0].run_folder or _RUNS / name, tuple(specifications), options)
    plan = _SuitePlan(
        folder=folder,
        options=dict(zip(specifications, options, strict=True)),
        specifications=specifications,
        formats=formats,
        dut=dut,
    )
    return _run(plan, target, caller)


def resume_suite(folder: SuiteFolder, options: ResumeOptions, caller: Caller) -> FinishedSuite:
    """Resume a suite: the test that was stopped, then those that were not run."""
    with preparation(folder.path):
        runs = [run for test in folder.tests if (run := folder.verified_run_folder(test))]
        if not runs:
            raise NotResumable(path=folder.path, reason="none of its tests was started", hint="Start a new run.")
        if len(runs) == len(folder.tests) and all(inspect_run(run, "rule").finished for run in runs):
            hint = f"snia-pts report {shell_quoted(folder.path)} reports them."
            raise NotResumable(path=folder.path, reason="all of its tests are finished", hint=hint)
        facts = JournalReader(runs[0].journal).facts
        first = resumed_options(facts, folder.path, options)
        overridden = {
            name: getattr(first, name)
            for name in (
                "target",
                "size_bytes",
                "serial",
                "overwrite",
                "discard_data",
                "purge_command",
                "power_command",
                "limits",
                "about",
                "plugins",
            )
        }
        options_by_test = {
            test: replace(stored, **overridden) for test, stored in zip(folder.tests, folder.options, strict=False)
        }
        specifications = {test: specification_for(stored) for test, stored in options_by_test.items()}
        if [specification.spec.name for specification in specifications.values()] != list(folder.tests):
            raise NotResumable(path=folder.path, reason="its suite.json does not contain the options of its tests")
        formats = available_formats(first, caller)
        target = resumed_target(facts, folder.path, first, options, caller)
        plan = _SuitePlan(
            folder=folder,
            options=options_by_test,
            specifications=specifications,
            formats=formats,
            policy=options.policy,
            dut=facts.dut,
            resumed=True,
            setting_changes=changes_before_resume(*map(folder.run_path, folder.tests)),
        )
        return _run(plan, target, caller)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SuitePlan:
    """The tests to run or resume, their folder, and the policy for a stopped one.

    ``dut`` is the target; for a ``resumed`` suite, as recorded by its first run.  ``setting_changes`` are sentences
    about the settings that changed before the resume.
    """

    folder: SuiteFolder
    options: Mapping[str, RunOptions]
    specifications: Mapping[str, Specification]
    formats: tuple[str, ...]
    dut: Dut
    policy: ResumePolicy = "rule"
    resumed: bool = False
    setting_changes: tuple[str, ...] = ()


def _run(plan: _SuitePlan, target: TargetSetup, caller: Caller) -> FinishedSuite:
    plugins = next(iter(plan.options.values())).plugins
    with notified(plugins, caller) as observed:
        return _run_and_summarise(plan, target, observed)


def _run_and_summarise(plan: _SuitePlan, target: TargetSetup, caller: Caller) -> FinishedSuite:
    folder = plan.folder
    tests = folder.tests
    caller.on_event(
        FolderCreated(folder=folder.as_run_folder, title=counted(len(tests), "test"), dut=plan.dut, report="summary")
    )
    with folder.locked(), logged(folder.as_run_folder):
        folder.as_run_folder.withdraw_stop()
        try:
            with target.claimed():
                unreported = _run_tests(plan, target, caller)
        except (SniaPtsError, KeyboardInterrupt) as error:
            raise _stop_error(error, folder, plan.formats) from None
        finally:
            folder.discard()
        return _summarise(plan, unreported, caller)


def _run_tests(plan: _SuitePlan, target: TargetSetup, caller: Caller) -> list[ReportError]:
    """Run the remaining tests; return the errors of failed reports, which do not stop the other tests."""
    unreported: list[ReportError] = []
    confirmed = False
    for position, test in enumerate(plan.specifications, start=1):
        run = plan.folder.verified_run_folder(test)
        resume_plan = inspect_run(run, plan.policy) if run else None
        if run and resume_plan and resume_plan.finished:
            target.set_clock(resume_plan.stopped)
            outputs = (run.result, *report_paths(run.path, plan.formats).values())
            if not all(path.exists() for path in outputs):  # a crash before they were written
                with run.opened():
                    result = store(run)
                _report(result, run, plan.formats, unreported)
            continue
        run = run or _new_folder(plan.folder.run_path(test), caller)
        try:
            if resume_plan:
                resume_plan = with_content_checked(run, resume_plan, target)
                confirm_restart(run, resume_plan, target, plan.options[test], caller)
            if not confirmed:
                with run.opened():
                    target.confirm(run.evidence, caller.confirm)
                confirmed = True
            title = plan.specifications[test].spec.title
            _LOGGER.info("test %d of %d: %s", position, len(plan.specifications), title)
            caller.on_event(TestStarted(title=title, position=position, total=len(plan.specifications)))
            with run.opened(), logged(run):
                result = _run_or_resume(plan, run, resume_plan, target, test, caller)
        except BaseException as error:
            if not run.has_started:
                discard_unless_failed(run, error)
            raise
        _report(result, run, plan.formats, unreported)
        _check_stop_requested((run, plan.folder.as_run_folder), result, caller)
    return unreported


def _check_stop_requested(folders: Sequence[RunFolder], result: TestResult, caller: Caller) -> None:
    """Raise Interrupted if a stop was requested since the last point of a test."""
    stop_folders = [folder for folder in folders if folder.stop_requested]
    for folder in stop_folders:
        folder.withdraw_stop()
    cause = caller.requested_stop()
    if cause or stop_folders:
        raise Interrupted(cause=cause or stop_cause(), step=result.facts.spec.title, what="between two tests")


def _new_folder(path: Path, caller: Caller) -> RunFolder:
    """Return a new run folder; first remove the remains of a run that never started."""
    discard_unstarted(path, caller)
    return RunFolder.create(path)


def discard_unstarted(path: Path, caller: Caller) -> None:
    """Remove the remains of a run, or of several tests, that never started; restore the settings that it changed."""
    suite = SuiteFolder.existing(path)
    for run_path in map(suite.run_path, suite.tests) if suite else (path,):
        if os.path.lexists(run_path / RESTORE_FILE):
            for line in restore_settings(run_path):
                caller.tell(line)
        RunFolder(path=run_path, created=True).discard()
    if suite:
        suite.as_run_folder.withdraw_stop()
        replace(suite, created=True).discard()


def _report(result: TestResult, run: RunFolder, formats: Sequence[str], unreported: list[ReportError]) -> None:
    try:
        write(result, run.path, formats)
    except ReportError as error:
        _LOGGER.error("%s", error)
        unreported.append(error)


def _run_or_resume(
    plan: _SuitePlan, run: RunFolder, resume_plan: ResumePlan | None, target: TargetSetup, test: str, caller: Caller
) -> TestResult:
    specification, options = plan.specifications[test], plan.options[test]
    if resume_plan is not None:
        checked_plan = with_content_checked(run, require_resumable(run, plan.policy), target)
        return resume_claimed(run, checked_plan, target, options, caller, plan.setting_changes)
    if plan.resumed:
        now = replace(target.dut(specification.spec), write_cache=plan.dut.write_cache)
        tuple(drive_changes(run, plan.dut, now, overwrite=options.overwrite))  # raises NotResumable for another drive
    return perform(specification, target, run, options, caller, run_id=f"{plan.folder.path.name}/{test}")


def _stop_error(error: SniaPtsError | KeyboardInterrupt, folder: SuiteFolder, formats: Sequence[str]) -> SniaPtsError:
    """Return the error of a suite that did not finish, after writing the summary of the tests that were run."""
    folder = replace(folder, path=present_path(folder.path))
    try:
        runs = {test: run for test in folder.tests if (run := folder.run_folder(test))}
    except RecordError as damage:
        runs = {}
        error.add_note(f"Also: {damage}")
    tests_run = list(runs)
    if isinstance(error, KeyboardInterrupt):
        step = tests_run[-1] if tests_run else "preparation"
        error = Interrupted(cause=stop_cause(error), step=step, what="between two tests")
    if not runs or not all(map(is_readable, runs.values())):
        return error
    missing = [test for test in folder.tests if test not in runs]
    not_run = f"Not run: {', '.join(missing)}. " if missing else ""
    path = shell_quoted(folder.path)
    next_steps = f"snia-pts resume {path} continues the suite; snia-pts report {path} reports the tests that were run."
    error.add_note(f"{not_run}{next_steps}")
    try:
        write_summary(build_summary(folder), folder.path, formats)
    except (SniaPtsError, OSError) as secondary:
        error.add_note(f"Also: {secondary}")
    return error


def _summarise(plan: _SuitePlan, unreported: Sequence[ReportError], caller: Caller) -> FinishedSuite:
    """Write the summary of all tests."""
    caller.on_event(SuiteFinished())
    folder = plan.folder
    try:
        summary = build_summary(folder)
        reports = write_summary(summary, folder.path, plan.formats)
    except KeyboardInterrupt:
        report_hint = f"snia-pts report {shell_quoted(folder.path)} writes the summary"
        hint = f"All tests are finished and their results stored; {report_hint}."
        raise Interrupted(cause=stop_cause(), step="summary", what=folder.path, hint=hint) from None
    results = tuple(assess(run) for test in folder.tests if (run := folder.verified_run_folder(test)))
    return FinishedSuite(
        folder=folder, results=results, overview=summary, reports=reports, unreported=tuple(unreported)
    )
