"""The state of runs, and the lines that show it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import Literal, get_args

from ...errors import RecordError
from ...files import shell_quoted
from ...record.ends import JournalEnds, read_ends
from ...record.folder import RunFolder, unreadable
from ...record.journal_reader import end_detail
from ...record.replay import ResumePlan, assess, inspect_run, parse_time
from ...record.result_xml import stored_verdict
from ...record.suite import SuiteFolder, child_folders, is_run
from ...results.limit_checks import judgements
from ...results.result import TestResult
from ...units import counted, duration

State = Literal["starting", "running", "stopped", "finished", "not started", "unreadable"]
#: Widths of columns.  NVMe serial numbers have 20 characters.
_SERIAL_WIDTH, _STATE_WIDTH = 20, max(map(len, get_args(State)))

#: Follows a verdict that anybody may have written to result.xml.
_NOT_VERIFIED = "(by result.xml, not verified)"
_IMPORT_UNFINISHED = "the import did not finish; remove the folder and import the file again"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """The state of a run.

    ``position`` is the step and point that it reached, ``detail`` explains its state, and ``command`` continues it.
    ``virtual`` is True if its times are those of a simulated drive, which are usually in the future.
    """

    run: str
    state: State
    test: str = ""
    drive: str = ""
    serial: str = ""
    position: str = ""
    since: str = ""
    virtual: bool = False
    detail: str = ""
    command: str = ""


def status_lines(runs: Iterator[RunStatus], width: int) -> Iterator[str]:
    """Yield the lines about one run, or about several, each as soon as it is known."""
    first = tuple(islice(runs, 2))
    if len(first) == 1:
        yield from _lines_of_one(first[0])
    else:
        yield from _lines_of_several(chain(first, runs), width)


def name_width(path: Path) -> int:
    """Return the length of the longest name of a run at or in ``path``, as far as it can be listed."""
    try:
        names = [] if (path / "journal.jsonl").exists() else [child.name for child in path.iterdir()]
    except OSError:
        names = []
    width = len(_shell_path(path.absolute()))
    return width + (1 + max(map(len, names)) if names else 0)


def read_statuses(path: Path, *, brief: bool = False) -> Iterator[RunStatus]:
    """Yield the status of the run at ``path``, of each test of a suite, or of each run in a folder.

    If ``brief``, as for a folder of many runs, only the ends of a journal are read.
    """
    suite = SuiteFolder.existing(path)
    if suite is not None:
        runs = [_read_test_status(suite, test, brief=brief) for test in suite.tests]
        in_progress = suite.in_progress
        if in_progress and not any(run.state == "running" for run in runs):
            runs = [_with_report_in_progress(run) for run in runs]
        not_resumable = in_progress or all(run.state == "not started" for run in runs)
        yield from (replace(run, command="") if not_resumable else run for run in runs)
    elif RunFolder(path=path).is_starting:
        yield _starting(RunFolder(path=path.resolve()))
    elif not path.is_dir() or is_run(path, unstarted=True):
        yield _read_run_status(RunFolder.existing(path), brief=brief)
    else:
        yield from _read_folder(path, child_folders(path))


def _read_folder(path: Path, children: Sequence[Path]) -> Iterator[RunStatus]:
    """Yield the status of each run, or suite of several tests, among the ``children`` of a folder."""
    runs = (child for child in children if is_run(child, unstarted=True))
    first = tuple(islice(runs, 2))
    for child in chain(first, runs):
        try:
            yield from read_statuses(child, brief=len(first) > 1)
        except RecordError as error:
            yield _unreadable(child.resolve(), error)
    if not first:
        raise RecordError(path=path, reason="it contains no run", hint="Name the folder of a run or of runs.")


def _read_test_status(suite: SuiteFolder, test: str, *, brief: bool) -> RunStatus:
    """Return the status of one test of a suite; a test that cannot be read does not hide the others."""
    try:
        run = suite.run_folder(test)
    except RecordError as error:
        return _unreadable(suite.run_path(test), error)
    if run:
        return _read_run_status(run, suite.path, brief=brief)
    run = RunFolder(path=suite.run_path(test))
    return _starting(run, test) if run.is_starting else _not_started(suite, test)


def _with_report_in_progress(run: RunStatus) -> RunStatus:
    """Add that the report is being made, for a test that has ended while the next one has not started."""
    ended = run.state in ("finished", "stopped")
    missing = ended and not (Path(run.run) / "report.pdf").exists()
    return replace(run, detail=f"{run.detail}; its report is being made") if missing else run


def _not_started(suite: SuiteFolder, test: str) -> RunStatus:
    command = f"snia-pts resume {shell_quoted(suite.path)}"
    return RunStatus(
        run=str(suite.run_path(test)), state="not started", test=test, detail="not started", command=command
    )


def _starting(folder: RunFolder, test: str = "") -> RunStatus:
    detail = "it waits for a confirmation, or prepares the drive; its first step has not started"
    return RunStatus(run=str(folder.path), state="starting", test=test, detail=detail)


def _read_run_status(folder: RunFolder, suite: Path | None = None, *, brief: bool = False) -> RunStatus:
    try:
        running = folder.is_running
        if brief:
            return _brief_status(folder, read_ends(folder.journal), suite or folder.path, running=running)
        plan = inspect_run(folder, "rule")
        return _full_status(folder, plan, suite or folder.path, running=running)
    except RecordError as error:
        return _unreadable(folder.path, error)
    except OSError as error:
        return _unreadable(folder.path, unreadable(folder.path, error))


def _unreadable(path: Path, error: RecordError) -> RunStatus:
    return RunStatus(run=str(path), state="unreadable", detail=f"{error} {error.full_hint}".strip())


def _brief_status(folder: RunFolder, ends: JournalEnds, resumable: Path, *, running: bool) -> RunStatus:
    """Return a status from the ends of a journal and the verdict in result.xml; ``resumable`` is what to resume.

    The verdict follows from the whole journal, which is not read for a list of runs.
    """
    facts, ended = ends.facts, ends.end
    state: State = "stopped"
    command = ""
    if running:
        state, detail = "running", ""
    elif ended is not None and ended.ending == "finished":
        state = "finished"
        verdict = stored_verdict(folder.result, facts.run_id, ended.at)
        detail = f"{verdict} {_NOT_VERIFIED}" if verdict else "no up-to-date result.xml; snia-pts report creates it"
    elif facts.imported is not None:
        detail = _IMPORT_UNFINISHED
    else:
        command = f"snia-pts resume {shell_quoted(resumable)}"
        detail = (f"{ended.ending}: " if ended else "") + end_detail(ended, ends.torn_bytes).rstrip(".")
    since = parse_time(folder, ended.at) if ended and ended.at else ends.written
    return RunStatus(
        run=str(folder.path),
        state=state,
        test=facts.spec.test,
        drive=facts.dut.summary,
        serial=facts.dut.serial,
        position=ends.position,
        since=since.isoformat(" ", "seconds"),
        virtual=facts.dut.simulated,
        detail=detail,
        command=command,
    )


def _full_status(folder: RunFolder, plan: ResumePlan, resumable: Path, *, running: bool) -> RunStatus:
    """Return a status from a whole journal; ``resumable`` is what to resume: the run, or its suite."""
    facts = plan.facts
    command = f"snia-pts resume {shell_quoted(resumable)}"
    if running:
        state: State = "running"
        age = duration(max(0.0, (datetime.now().astimezone() - plan.stopped).total_seconds()))
        last_entry = " (virtual)" if facts.dut.simulated else f", last entry {age} ago"
        started = parse_time(folder, facts.started).isoformat(" ", "seconds")
        stop_request = "; it stops after this point or sample" if folder.stop_requested else ""
        detail, command = f"since {started}{last_entry}{stop_request}", ""
    elif plan.finished:
        result = assess(folder)
        state, detail, command = "finished", f"{result.verdict}{_missed_limits(result)}", ""
    elif facts.imported is not None:
        state, detail, command = "stopped", _IMPORT_UNFINISHED, ""
    else:
        next_step = plan.next_step or "its end"
        state, detail = "stopped", f"{plan.reason}; would continue with {next_step}{discarded(plan)}"
    return RunStatus(
        run=str(folder.path),
        state=state,
        test=facts.spec.test,
        drive=facts.dut.summary,
        serial=facts.dut.serial,
        position=plan.position,
        since=plan.stopped.isoformat(" ", "seconds"),
        virtual=facts.dut.simulated,
        detail=detail,
        command=command,
    )


def _missed_limits(result: TestResult) -> str:
    """Return how many limits of a run were missed; empty if none was."""
    limits = judgements(result)
    missed = sum(not judgement.met for judgement in limits)
    return f"; {missed} of {counted(len(limits), 'limit')} NOT MET" if missed else ""


def discarded(plan: ResumePlan) -> str:
    """Describe the outcomes that resume would discard, and those that the operator can keep; empty for none."""
    if not plan.discarded_outcomes:
        return ""
    count = "all" if plan.recoverable_outcomes == plan.discarded_outcomes else plan.recoverable_outcomes
    option = f" (resume --continue keeps {count} of them, without a new purge)" if plan.recoverable_outcomes else ""
    return f", {counted(plan.discarded_outcomes, 'outcome')} discarded{option}"


def _lines_of_one(run: RunStatus) -> Iterator[str]:
    yield f"{run.run}: {run.test or 'a run'}{f' on {run.drive}' if run.drive else ''}"
    since = f" {run.since}{' (virtual)' if run.virtual else ''}"
    suffixes = {"running": f" at {run.position}", "stopped": f"{since} at {run.position}", "finished": since}
    yield f"  {run.state}{suffixes.get(run.state, '')}"
    yield f"  {run.detail}"
    if run.command:
        yield f"  {run.command}"


def _lines_of_several(runs: Iterable[RunStatus], width: int) -> Iterator[str]:
    """Yield one line per run, then the commands that continue those that stopped."""
    commands = dict[str, None]()
    for run in runs:
        name = _shell_path(Path(run.run)).ljust(width)
        detail = run.position if run.state == "running" else run.detail
        if run.state == "stopped":
            detail = f"{run.position}: {run.detail}"
        yield f"{name}  {run.serial.ljust(_SERIAL_WIDTH)}  {run.state.ljust(_STATE_WIDTH)}  {detail}"
        if run.command:
            commands[run.command] = None
    if commands:
        yield ""
        yield from (f"  {command}" for command in commands)


def _shell_path(path: Path) -> str:
    """Return a path for a shell command in the current folder: relative if it is below it."""
    here = Path.cwd()
    return shell_quoted(path.relative_to(here) if path.is_relative_to(here) else path)


def repeated_step(folder: RunFolder) -> str:
    """Return the step that resume would start again at; empty if nothing is discarded, or if that is unknown."""
    try:
        plan = inspect_run(folder, "rule")
    except (RecordError, OSError):
        return ""  # the run is asked to stop all the same
    return f"{plan.next_step}{discarded(plan)}" if plan.discarded_outcomes else ""
