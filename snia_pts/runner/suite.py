"""Runs several tests on one target, which is confirmed and claimed once; each has its own purge and folder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ..errors import Interrupted, NotResumable, RecordError, ReportError, SniaPtsError, UsageError, stop_cause
from ..files import shell_quoted
from ..lab.host.conditions import put_back
from ..lab.settings.settings import NOTE
from ..model.dut import Dut
from ..model.run_options import RunOptions
from ..record.folder import RunFolder, default_name
from ..record.journal_reader import JournalReader
from ..record.replay import ResumePlan, assess, inspect_run, store
from ..record.suite import SuiteFolder
from ..report import USUAL, places
from ..report.suite import Overview, overview
from ..report.suite import write as write_summary
from ..results.interruption import ResumePolicy
from ..results.result import TestResult
from ..spec.reader import Specification
from ..text import suggestion
from ..units import counted
from .events import FolderMade, TestStarted
from .resume import (
    ResumeOptions,
    available_formats,
    confirm_restart,
    drive_changes,
    options_of,
    perform_rest,
    preparation,
    require_resumable,
    target_again,
)
from .run import Caller, discard_unless_failed, perform
from .setup import (
    TestEstimate,
    estimate_of,
    new_seed,
    preflight,
    require_formats,
    require_measurable,
    specification_of,
    target_setup,
)
from .target import TargetSetup

_RUNS = Path("runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedSuite:
    """Several tests that have ended, their results, and the files of their summary by format.

    ``unreported`` are the reports that could not be made.
    """

    folder: SuiteFolder
    results: tuple[TestResult, ...]
    overview: Overview
    reports: Mapping[str, Path]
    unreported: tuple[ReportError, ...]


def split_options(options: RunOptions, tests: Sequence[str]) -> tuple[RunOptions, ...]:
    """Return the options of each test: those of its overrides ``TEST.KEY=VALUE``, and a seed of its own.

    The seeds are the same whenever ``options.seed`` is.  Raises UsageError for an override of another test.
    """
    found: dict[str, list[str]] = {test: [] for test in tests}
    for text in options.overrides:
        test, dot, rest = text.partition(".")
        if test not in found or not dot:
            meant = suggestion(test, tests) or "for example --set iops.rounds.maximum=7."
            raise UsageError(
                detail=f"--set {text}: not TEST.KEY=VALUE with one of the tests {', '.join(tests)}.",
                hint=f"{meant[:1].upper()}{meant[1:]}",
            )
        found[test].append(rest)
    seed = new_seed() if options.seed is None else options.seed
    return tuple(
        replace(options, test=test, overrides=tuple(overrides), seed=seed_of(seed, test))
        for test, overrides in found.items()
    )


def seed_of(seed: int, test: str) -> int:
    """Return a test's own seed, below 2^63: the same whenever the seed of all is the same."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{test}".encode()).digest()[:8], "big") >> 1


def estimate_suite(options: Sequence[RunOptions], caller: Caller) -> tuple[TestEstimate, ...]:
    """Return what each test would cost; raises what the run would be refused for.  Writes nothing."""
    specifications = tuple(map(specification_of, options))
    target = target_setup(options[0], caller.tell)
    target.require_tools()
    preflight(options[0], specifications[0].spec, target)  # first, so that a drive in use is not asked anything
    return _estimates(options, specifications, target, caller)


def _estimates(
    options: Sequence[RunOptions], specifications: Sequence[Specification], target: TargetSetup, caller: Caller
) -> tuple[TestEstimate, ...]:
    pairs = zip(options, specifications, strict=True)
    found = tuple(estimate_of(specification, target, each) for each, specification in pairs)  # refuses what is unfit
    duts = (each.dut for each in found)
    require_measurable(options[0], list(zip(specifications, duts, strict=True)), caller.tell)
    return found


def run_suite(options: Sequence[RunOptions], caller: Caller) -> FinishedSuite:
    """Run several tests of one target, one after the other, and summarise them.

    ``options`` differ in test, overrides and seed alone.  Raises what ``run`` raises; ``resume_suite`` continues it.
    """
    specifications = {each.test: specification_of(each) for each in options}
    formats, target = require_formats(options[0].formats), target_setup(options[0], caller.tell)
    target.require_tools()
    dut = _estimates(options, tuple(specifications.values()), target, caller)[0].dut
    name = default_name("all", target.subject, datetime.now().astimezone().isoformat())
    folder = SuiteFolder.create(options[0].run_folder or _RUNS / name, tuple(specifications), options)
    work = _Suite(
        folder=folder,
        options={each.test: each for each in options},
        specifications=specifications,
        formats=formats,
        dut=dut,
    )
    return _run(work, target, caller)


def resume_suite(folder: SuiteFolder, options: ResumeOptions, caller: Caller) -> FinishedSuite:
    """Resume several tests: the one that was stopped, then those that were not run."""
    with preparation(folder.path):
        runs = [run for test in folder.tests if (run := folder.recorded(test))]
        if not runs:
            raise NotResumable(path=folder.path, reason="none of its tests had begun", hint="Begin a new run.")
        if len(runs) == len(folder.tests) and all(inspect_run(run, "rule").finished for run in runs):
            hint = f"snia-pts report {shell_quoted(folder.path)} reports them."
            raise NotResumable(path=folder.path, reason="all of its tests are finished", hint=hint)
        facts = JournalReader(runs[0].journal).facts
        first = options_of(facts, folder.path, options)
        given = {
            name: getattr(first, name)
            for name in (
                "target",
                "size_bytes",
                "serial",
                "overwrite",
                "discard_data",
                "purge_command",
                "limits",
                "about",
            )
        }
        each = {stored.test: replace(stored, **given) for stored in folder.options}
        if each.keys() != set(folder.tests):
            raise NotResumable(path=folder.path, reason="its suite.json does not hold what it was asked for")
        specifications = {test: specification_of(each[test]) for test in folder.tests}
        formats = available_formats(first, caller)
        target = target_again(facts, folder.path, first, options, caller)
        work = _Suite(
            folder=folder,
            options=each,
            specifications=specifications,
            formats=formats,
            policy=options.policy,
            dut=facts.dut,
            resumed=True,
        )
        return _run(work, target, caller)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Suite:
    """Several tests to run or resume: where, what, and how a stopped one goes on.

    ``dut`` is the target; where the suite is ``resumed``, as its first run found it.
    """

    folder: SuiteFolder
    options: Mapping[str, RunOptions]
    specifications: Mapping[str, Specification]
    formats: tuple[str, ...]
    dut: Dut
    policy: ResumePolicy = "rule"
    resumed: bool = False


def _run(work: _Suite, target: TargetSetup, caller: Caller) -> FinishedSuite:
    folder = work.folder
    tests = folder.tests
    caller.on_event(FolderMade(folder=folder.whole, title=counted(len(tests), "test"), dut=work.dut, report="summary"))
    with folder.locked():
        folder.whole.withdraw_stop()
        try:
            with target.claimed():
                unreported = _run_each(work, target, caller)
        except (SniaPtsError, KeyboardInterrupt) as error:
            raise _stopped(error, folder, work.formats) from None
        finally:
            folder.discard()
        return _summarise(work, unreported)


def _run_each(work: _Suite, target: TargetSetup, caller: Caller) -> list[ReportError]:
    """Run what is left of each test; return the failed reports, which do not stop the others."""
    unreported: list[ReportError] = []
    confirmed = False
    for position, test in enumerate(work.specifications, start=1):
        run = work.folder.recorded(test)
        outlook = inspect_run(run, work.policy) if run else None
        if run and outlook and outlook.finished:
            target.set_clock(outlook.stopped)
            wanted = (run.result, *places(run.path, work.formats).values())
            if not all(path.exists() for path in wanted):  # the crash came before them
                _report(store(run), run, work.formats, unreported)
            continue
        run = run or _new_folder(work.folder.place(test), caller)
        try:
            if outlook:
                confirm_restart(run, outlook, target, work.options[test], caller)
            if not confirmed:
                with run.opened():
                    target.confirm(run.evidence, caller.confirm)
                confirmed = True
            title = work.specifications[test].spec.title
            caller.on_event(TestStarted(title=title, position=position, total=len(work.specifications)))
            with run.opened():
                result = _run_or_resume(work, run, outlook, target, test, caller)
        except BaseException as error:
            if not run.journal.exists():
                discard_unless_failed(run, error)
            raise
        _report(result, run, work.formats, unreported)
        _check_stop_requested((run, work.folder.whole), result, caller)
    return unreported


def _check_stop_requested(folders: Sequence[RunFolder], result: TestResult, caller: Caller) -> None:
    """Raise Interrupted if a stop was requested since the last point of a test."""
    asked = [each for each in folders if each.stop_requested]
    for each in asked:
        each.withdraw_stop()
    if asked or (caller.stop is not None and caller.stop.is_set()):
        raise Interrupted(cause=stop_cause(), step=result.facts.spec.title, what="between two tests")


def _new_folder(place: Path, caller: Caller) -> RunFolder:
    """Return a new run folder; what is left of one that never began is removed."""
    if os.path.lexists(place / NOTE):
        for line in put_back(place):
            caller.tell(line)
    RunFolder(path=place, made=True).discard()
    return RunFolder.create(place)


def _report(result: TestResult, run: RunFolder, formats: Sequence[str], unreported: list[ReportError]) -> None:
    from ..report import write

    try:
        write(result, run.path, formats)
    except ReportError as error:
        unreported.append(error)


def _run_or_resume(
    work: _Suite, run: RunFolder, outlook: ResumePlan | None, target: TargetSetup, test: str, caller: Caller
) -> TestResult:
    specification, options = work.specifications[test], work.options[test]
    if outlook is not None:
        return perform_rest(run, require_resumable(run, work.policy), target, options, caller)
    if work.resumed:
        now = replace(target.dut(specification.spec), write_cache=work.dut.write_cache)
        tuple(drive_changes(run, work.dut, now, overwrite=options.overwrite))  # raises NotResumable for another drive
    return perform(specification, target, run, options, caller, run_id=f"{work.folder.path.name}/{test}")


def _stopped(error: SniaPtsError | KeyboardInterrupt, folder: SuiteFolder, formats: Sequence[str]) -> SniaPtsError:
    """Return the reason why not all tests were run, once what was run is summed up."""
    run = [test for test in folder.tests if folder.run(test)]
    if isinstance(error, KeyboardInterrupt):
        step = run[-1] if run else "the preparation"
        error = Interrupted(cause=stop_cause(error), step=step, what="between two tests")
    if not run:
        return error
    missing = [test for test in folder.tests if test not in run]
    told = f"Not run: {', '.join(missing)}. " if missing else ""
    whole = shell_quoted(folder.path)
    going_on = f"snia-pts resume {whole} goes on; snia-pts report {whole} reports all that was run."
    error.add_note(f"{told}{going_on}")
    try:
        write_summary(build_summary(folder), folder.path, formats)
    except (SniaPtsError, OSError) as second:
        error.add_note(f"Besides: {second}")
    return error


def build_summary(
    folder: SuiteFolder,
    change: Callable[[TestResult], TestResult] = lambda result: result,
    formats: Sequence[str] = USUAL,
) -> Overview:
    """Return what became of all tests of a stored run of several, from their journals.

    ``change`` is made to each; ``formats`` are those in which a report may be named.
    """
    reported = {
        test: f"report.{name}"
        for test in folder.tests
        for name in ("rst", "html", "pdf")  # the last that is there
        if name in formats and (folder.place(test) / f"report.{name}").is_file()
    }
    return overview(_results(folder, change), reported)


def _results(
    folder: SuiteFolder, change: Callable[[TestResult], TestResult]
) -> Iterator[tuple[str, TestResult | None]]:
    first: TestResult | None = None
    for test in folder.tests:
        run = folder.recorded(test)
        result = assess(run) if run else None
        first = first or result
        if run and first and result and result.facts.dut.summary != first.facts.dut.summary:
            reason = f"its drive is {result.facts.dut.summary}; that of the test before is {first.facts.dut.summary}"
            raise RecordError(path=run.path, reason=reason, hint="Each folder of several tests is of one drive.")
        yield test, change(result) if result else None


def _summarise(work: _Suite, unreported: Sequence[ReportError]) -> FinishedSuite:
    """Write the summary of all tests."""
    folder = work.folder
    try:
        found = build_summary(folder)
        reports = write_summary(found, folder.path, work.formats)
    except KeyboardInterrupt:
        remade = f"snia-pts report {shell_quoted(folder.path)} makes the summary"
        hint = f"All tests are finished and their results safe; {remade}."
        raise Interrupted(cause=stop_cause(), step="the summary", what=folder.path, hint=hint) from None
    results = tuple(assess(run) for test in folder.tests if (run := folder.recorded(test)))
    return FinishedSuite(folder=folder, results=results, overview=found, reports=reports, unreported=tuple(unreported))
