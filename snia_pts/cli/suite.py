"""The verb ``all``: several tests on a target that is confirmed and held once, each with its own purge and folder."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from ..errors import Interrupted, ReportError, SniaPtsError, UsageError
from ..record.folder import RunFolder, default_name
from ..record.suite import SuiteFolder
from ..report.suite import Overview, overview
from ..report.suite import write as write_summary
from ..result import TestResult
from ..runner import assess
from ..specfile import Specification
from ..units import GB, number
from . import preparing
from .benches import Bench, bench
from .parser import TESTS
from .plan_text import suite_json, suite_lines
from .running import planned_test, run_test
from .words import table

#: The tests without --advanced.
BASIC = ("iops", "throughput", "latency", "wsat")


def run_all(arguments: argparse.Namespace) -> int:
    """Run, or plan, several tests one after the other."""
    tests = tuple(TESTS) if arguments.advanced else BASIC
    overrides = _overrides(arguments.set, tests)
    specifications = {test: preparing.specification(test, arguments, overrides[test]) for test in tests}
    preparing.refuse_ignored(arguments)
    target, seed = bench(arguments), preparing.seed(arguments.seed)
    if not arguments.plan:
        target.require_tools()
    planned = [planned_test(each, target, arguments) for each in specifications.values()]  # refuses what is unfit
    if arguments.plan:
        dut = target.dut(planned[0].spec)
        text = (
            json.dumps(suite_json(planned, dut), indent=1) if arguments.json else "\n".join(suite_lines(planned, dut))
        )
        print(text)
        return 0
    name = default_name("all", target.subject, datetime.now().astimezone().isoformat())
    folder = SuiteFolder.create(arguments.run_dir or Path("runs") / name, tests)
    try:
        with preparing.stoppable(), target.held():
            unreported = _run_each(specifications, target, folder, arguments, seed)
    except (SniaPtsError, KeyboardInterrupt) as error:
        raise _stopped(error, folder) from None
    finally:
        folder.discard()
    _finish(folder)
    if unreported:
        raise unreported[0]
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


def _run_each(
    specifications: Mapping[str, Specification],
    target: Bench,
    folder: SuiteFolder,
    arguments: argparse.Namespace,
    seed: int,
) -> list[ReportError]:
    """Run each test; return which reports could not be made, which is no reason to run no more."""
    from ..report import write

    unreported: list[ReportError] = []
    command_line = ("snia-pts", *sys.argv[1:], *(() if arguments.seed else ("--seed", str(seed))))
    for number_, (test, specification) in enumerate(specifications.items(), start=1):
        place = RunFolder.create(folder.place(test))
        try:
            if number_ == 1:
                target.confirm(place.evidence)
            if arguments.progress != "none":
                print(f"test {number_} of {len(specifications)}: {specification.spec.title}", file=sys.stderr)
            result = run_test(
                specification, target, place, arguments, seed=seed_of(seed, test),
                run_id=f"{folder.path.name}/{test}", command_line=command_line,
            )  # fmt: skip
        finally:
            if not place.journal.exists():
                place.discard()
        try:
            write(result, place.path)
        except ReportError as error:
            unreported.append(error)
    return unreported


def seed_of(seed: int, test: str) -> int:
    """Return a test's own seed, below 2^63: the same whenever the seed of all is the same."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{test}".encode()).digest()[:8], "big") >> 1


def _stopped(error: SniaPtsError | KeyboardInterrupt, folder: SuiteFolder) -> SniaPtsError:
    """Return the reason why not all tests were run, once what was run is summed up."""
    run = [test for test in folder.tests if folder.run(test)]
    if isinstance(error, KeyboardInterrupt):
        error = Interrupted(step=run[-1] if run else "the preparation", what="between two tests")
    if not run:
        return error
    missing = [test for test in folder.tests if test not in run]
    told = f"Not run: {', '.join(missing)}. " if missing else ""
    error.hint = f"{error.hint} {told}snia-pts report {folder.path} reports all that was run.".strip()
    try:
        write_summary(summed_up(folder), folder.path)
    except (SniaPtsError, OSError) as second:
        error.hint += f" Besides: {second}"
    return error


def summed_up(folder: SuiteFolder) -> Overview:
    """Return what became of all tests of a stored run of several, from their journals."""
    reported = [test for test in folder.tests if (folder.place(test) / "report.pdf").is_file()]
    return overview(_results(folder), reported)


def _results(folder: SuiteFolder) -> Iterator[tuple[str, TestResult | None]]:
    for test in folder.tests:
        run = folder.recorded(test)
        yield test, assess(run) if run else None


def _finish(folder: SuiteFolder) -> None:
    try:
        told = summed_up(folder)
        written = write_summary(told, folder.path)
    except KeyboardInterrupt:
        hint = f"All tests are finished and their results safe; snia-pts report {folder.path} makes the summary."
        raise Interrupted(step="the summary", what=folder.path, hint=hint) from None
    for line in overview_lines(told):
        print(line)
    print()
    print(f"run folder: {folder.path}")
    for path in written.values():
        print(f"summary:    {path}")


def overview_lines(told: Overview) -> Iterator[str]:
    """What became of all tests, as lines of text."""
    yield told.verdict
    yield ""
    yield from table(
        ("test", "PTS conformant", "duration", "written GB", "drive fills"),
        (
            (
                line.title, line.conformance, line.duration, line.least + number(line.written_bytes / GB),
                number(line.written_bytes / told.capacity_bytes),
            )
            for line in told.lines
        ),
    )  # fmt: skip
    for line in told.lines:
        yield ""
        yield f"{line.title}: {line.verdict}"
        yield from (f"  {figure}" for figure in line.key_figures)


def overview_json(told: Overview) -> list[dict[str, object]]:
    """What became of all tests, for programs."""
    return [
        {
            "test": line.test, "verdict": line.verdict, "ending": line.ending, "achieved": line.achieved,
            "conformance": line.conformance, "key_figures": list(line.key_figures), "started": line.started,
            "finished": line.finished, "written_bytes": line.written_bytes, "report": line.report,
        }
        for line in told.lines
    ]  # fmt: skip
