"""The verb ``all``: several tests on a target that is confirmed and held once, each with its own purge and folder."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ..acceptance import judgements, require_met, untested
from ..dut import Dut
from ..errors import Interrupted, NotResumable, ReportError, SniaPtsError, UsageError
from ..files import pasted
from ..interruption import Way
from ..lab.conditions import put_back
from ..lab.settings import NOTE
from ..points import amount
from ..record.folder import RunFolder, default_name
from ..record.recorded import Recorded
from ..record.suite import SuiteFolder
from ..replay import Outlook, assess, look, store
from ..report import USUAL, places
from ..report.suite import NOT_RUN, Overview, TestLine, overview
from ..report.suite import write as write_summary
from ..report.tables import UNKNOWN
from ..result import TestResult
from ..spec import Spec
from ..specfile import Specification
from ..units import capacity, counted, number
from . import preparing
from .benches import Bench, bench, say
from .mail import Letter, mailed
from .parser import TESTS
from .plan_text import suite_json, suite_lines
from .post import post
from .resuming import asked_again, drive_changes, require_resumable, resume_test
from .running import foresee, planned_test, run_test
from .words import dut_words, table

#: The tests without --advanced.
BASIC = ("iops", "throughput", "latency", "wsat")


def run_all(arguments: argparse.Namespace) -> int:
    """Run, or plan, several tests one after the other."""
    tests = tuple(TESTS) if arguments.advanced else BASIC
    overrides = _overrides(arguments.set, tests)
    specifications = {test: preparing.specification(test, arguments, overrides[test]) for test in tests}
    preparing.refuse_ignored(arguments)
    path, arguments.limits, arguments.about = arguments.limits, preparing.limits(arguments), preparing.about(arguments)
    arguments.formats, arguments.post = preparing.formats(arguments), post(arguments)
    target, seed = bench(arguments), preparing.seed(arguments.seed)
    target.require_tools()
    if arguments.plan:  # before anything is asked of a drive that is at somebody's work
        foresee(next(iter(specifications.values())).spec, target, arguments)
    planned = [planned_test(each, target, arguments) for each in specifications.values()]  # refuses what is unfit
    duts = [(each.spec, target.dut(each.spec)) for each in planned]
    preparing.require_measurable(arguments.limits, path, duts, arguments)
    if arguments.plan:
        _, dut = duts[0]
        text = (
            json.dumps(suite_json(planned, dut), indent=1) if arguments.json else "\n".join(suite_lines(planned, dut))
        )
        print(text)
        return 0
    name = default_name("all", target.subject, datetime.now().astimezone().isoformat())
    about = _words(planned[0].spec, target, tests)
    folder = SuiteFolder.create(arguments.run_dir or Path("runs") / name, tests)
    command_line = (*arguments.command_line, *(() if arguments.seed else ("--seed", str(seed))))
    order = _Order(about=about, folder=folder, specifications=specifications, seed=seed, command_line=command_line)
    return _run_all(order, target, arguments)


def _words(spec: Spec, target: Bench, tests: Sequence[str]) -> str:
    return f"{counted(len(tests), 'test')} of {dut_words(target.dut(spec))}"


def resume_all(folder: SuiteFolder, arguments: argparse.Namespace) -> int:
    """Go on with several tests: the one that was broken off, then those that were not run."""
    runs = [run for test in folder.tests if (run := folder.recorded(test))]
    if not runs:
        raise NotResumable(path=folder.path, reason="none of its tests had begun", hint="Begin a new run.")
    if len(runs) == len(folder.tests) and all(look(run, "rule").finished for run in runs):
        hint = f"snia-pts report {pasted(folder.path)} reports them."
        raise NotResumable(path=folder.path, reason="all of its tests are finished", hint=hint)
    facts = Recorded(runs[0].journal).facts
    asked = asked_again(facts, arguments)
    overrides = _overrides(asked.set, folder.tests)
    specifications = {test: preparing.specification(test, asked, overrides[test]) for test in folder.tests}
    target = bench(asked)
    target.require_tools()
    order = _Order(
        about=_words(facts.spec, target, folder.tests), folder=folder,
        specifications=specifications, seed=preparing.seed(asked.seed), command_line=facts.command_line,
        way=arguments.way, dut=facts.dut,
    )  # fmt: skip
    return _run_all(order, target, asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """Several tests, run or to be run: where, what, with which seed; how and on what to go on where one was stopped.

    ``about`` is the same in a few words.
    """

    about: str
    folder: SuiteFolder
    specifications: Mapping[str, Specification]
    seed: int
    command_line: tuple[str, ...]
    way: Way = "rule"
    dut: Dut | None = None


def _run_all(order: _Order, target: Bench, arguments: argparse.Namespace) -> int:
    with order.folder.held(), mailed(arguments, order.about, order.folder.path / "summary.pdf") as letter:
        order.folder.whole.forget_stop()
        return _run_held(order, target, arguments, letter)


def _run_held(order: _Order, target: Bench, arguments: argparse.Namespace, letter: Letter) -> int:
    folder = order.folder
    try:
        with preparing.stoppable(), target.held():
            unreported = _run_each(order, target, arguments)
    except (SniaPtsError, KeyboardInterrupt) as error:
        raise _stopped(error, folder, arguments.formats) from None
    finally:
        folder.discard()
    letter.verdict = _finish(folder, arguments.formats)
    if unreported:
        raise unreported[0]
    if arguments.limits:
        runs = filter(None, map(folder.recorded, folder.tests))
        judged = [judgement for run in runs for judgement in judgements(assess(run))]
        require_met((*judged, *untested(arguments.limits, order.folder.tests)))
    return 0


def _overrides(texts: Sequence[str], tests: Sequence[str]) -> Mapping[str, list[str]]:
    """Sort ``TEST.KEY=VALUE`` by tests."""
    found: dict[str, list[str]] = {test: [] for test in tests}
    for text in texts:
        test, dot, rest = text.partition(".")
        if test not in found or not dot:
            raise UsageError(
                detail=f"--set {text}: not TEST.KEY=VALUE with one of the tests {', '.join(tests)}.",
                hint="For example --set iops.rounds.maximum=7.",
            )
        found[test].append(rest)
    return found


def _run_each(order: _Order, target: Bench, arguments: argparse.Namespace) -> list[ReportError]:
    """Run what is left of each test; return which reports could not be made, which is no reason to run no more."""
    unreported: list[ReportError] = []
    confirmed = False
    for place_, test in enumerate(order.specifications, start=1):
        run = order.folder.recorded(test)
        outlook = look(run, order.way) if run else None
        if run and outlook and outlook.finished:
            target.set_clock(outlook.stopped)
            wanted = (run.result, *places(run.path, arguments.formats).values())
            if not all(path.exists() for path in wanted):  # the crash came before them
                _report(store(run), run, arguments.formats, unreported)
            continue
        run = run or _anew(order.folder.place(test))
        try:
            if not confirmed:
                target.confirm(run.evidence)
                confirmed = True
            if arguments.progress != "none":
                title = order.specifications[test].spec.title
                print(f"test {place_} of {len(order.specifications)}: {title}", file=sys.stderr)
            result = _run_or_resume(order, run, outlook, target, arguments, test)
        finally:
            if not run.journal.exists():
                run.discard()
        _report(result, run, arguments.formats, unreported)
        asked = [each for each in (run, order.folder.whole) if each.stop_asked]
        if asked:
            for each in asked:
                each.forget_stop()
            raise Interrupted(step=result.facts.spec.title, what="between two tests")
    return unreported


def _anew(place: Path) -> RunFolder:
    """Return a new run folder; what is left of one that never began is removed."""
    if os.path.lexists(place / NOTE):
        for line in put_back(place):
            say(line)
    RunFolder(path=place, made=True).discard()
    return RunFolder.create(place)


def _report(result: TestResult, run: RunFolder, formats: Sequence[str], unreported: list[ReportError]) -> None:
    from ..report import write

    try:
        write(result, run.path, formats)
    except ReportError as error:
        unreported.append(error)


def _run_or_resume(
    order: _Order, run: RunFolder, outlook: Outlook | None, target: Bench, arguments: argparse.Namespace, test: str
) -> TestResult:
    if outlook is not None:
        return resume_test(run, require_resumable(run, order.way), target, arguments)
    if order.dut is not None:
        now = replace(target.dut(order.specifications[test].spec), write_cache=order.dut.write_cache)
        tuple(drive_changes(run, order.dut, now))  # raises NotResumable where it is another drive
    return run_test(
        order.specifications[test], target, run, arguments, seed=seed_of(order.seed, test),
        run_id=f"{order.folder.path.name}/{test}", command_line=order.command_line,
    )  # fmt: skip


def seed_of(seed: int, test: str) -> int:
    """Return a test's own seed, below 2^63: the same whenever the seed of all is the same."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{test}".encode()).digest()[:8], "big") >> 1


def _stopped(error: SniaPtsError | KeyboardInterrupt, folder: SuiteFolder, formats: Sequence[str]) -> SniaPtsError:
    """Return the reason why not all tests were run, once what was run is summed up."""
    run = [test for test in folder.tests if folder.run(test)]
    if isinstance(error, KeyboardInterrupt):
        error = Interrupted(step=run[-1] if run else "the preparation", what="between two tests")
    if not run:
        return error
    missing = [test for test in folder.tests if test not in run]
    told = f"Not run: {', '.join(missing)}. " if missing else ""
    whole = pasted(folder.path)
    going_on = f"snia-pts resume {whole} goes on; snia-pts report {whole} reports all that was run."
    error.hint = f"{error.hint} {told}{going_on}".strip()
    try:
        write_summary(summed_up(folder), folder.path, formats)
    except (SniaPtsError, OSError) as second:
        error.hint += f" Besides: {second}"
    return error


def summed_up(
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
    for test in folder.tests:
        run = folder.recorded(test)
        yield test, change(assess(run)) if run else None


def _finish(folder: SuiteFolder, formats: Sequence[str]) -> str:
    """Sum up all tests, and tell what became of them; returns the verdict."""
    try:
        told = summed_up(folder)
        written = write_summary(told, folder.path, formats)
    except KeyboardInterrupt:
        remade = f"snia-pts report {pasted(folder.path)} makes the summary"
        hint = f"All tests are finished and their results safe; {remade}."
        raise Interrupted(step="the summary", what=folder.path, hint=hint) from None
    for line in overview_lines(told):
        print(line)
    print()
    print(f"run folder: {folder.path}")
    for path in written.values():
        print(f"summary:    {path}")
    return told.verdict


def overview_lines(told: Overview) -> Iterator[str]:
    """What became of all tests, as lines of text."""
    yield told.verdict
    yield ""
    yield from table(
        ("test", "PTS conformant", "duration", "written", "drive fills"),
        ((line.title, line.conformance, line.duration, *_written(told, line)) for line in told.lines),
    )
    for line in told.lines:
        yield ""
        yield f"{line.title}: {line.verdict}"
        yield from (f"  {figure}" for figure in line.key_figures)


def _written(told: Overview, line: TestLine) -> tuple[str, str]:
    """How much a test wrote, and how often that fills the drive, as far as it was run, and tells."""
    if line.ending == NOT_RUN:
        return UNKNOWN, UNKNOWN
    if not math.isfinite(line.written_bytes):
        return "not told", UNKNOWN
    fills = told.fills(line.written_bytes)
    return line.least + capacity(line.written_bytes), number(fills) if math.isfinite(fills) else UNKNOWN


def overview_json(told: Overview) -> list[dict[str, object]]:
    """What became of all tests, for programs."""
    return [
        {
            "test": line.test, "verdict": line.verdict, "ending": line.ending, "achieved": line.achieved,
            "conformance": line.conformance, "key_figures": list(line.key_figures), "started": line.started,
            "finished": line.finished, "written_bytes": amount(line.written_bytes), "report": line.report,
        }
        for line in told.lines
    ]  # fmt: skip
