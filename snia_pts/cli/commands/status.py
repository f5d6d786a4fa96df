"""The verbs ``status`` and ``stop``: where runs stand, from any terminal, and an end to one."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import Literal, get_args

from ...errors import NotRunning, RecordError
from ...files import require_private, shell_quoted
from ...record.ends import Ends, read_ends
from ...record.folder import RunFolder, unreadable
from ...record.journal import is_written
from ...record.replay import ResumePlan, assess, inspect_run, moment
from ...record.result_xml import stored_verdict
from ...record.suite import SuiteFolder
from ...units import counted, duration

State = Literal["running", "stopped", "finished", "not begun", "unreadable"]
#: Widths of columns: of serial numbers that of NVMe drives.
_SERIAL, _STATE = 20, max(map(len, get_args(State)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """Where a run stands.  ``told`` is what there is to say of its state; ``command`` goes on with it, if any does.

    ``virtual`` says that its times are a simulated drive's, which mostly lie ahead.
    """

    run: str
    state: State
    test: str = ""
    drive: str = ""
    serial: str = ""
    where: str = ""
    since: str = ""
    virtual: bool = False
    told: str = ""
    command: str = ""


def status(arguments: argparse.Namespace) -> int:
    """Tell where each run stands; a folder of runs stands for all of them."""
    states = set[str]()

    def noted() -> Iterator[RunStatus]:
        for path in arguments.runs:
            for standing in _of(path):
                states.add(standing.state)
                yield standing

    if arguments.json:
        print(json.dumps([asdict(standing) for standing in noted()], indent=1))
    else:
        for line in _lines(noted(), max(map(_name_length, arguments.runs))):
            print(line, flush=True)
    return RecordError.exit_code if "unreadable" in states else 0


def _lines(standings: Iterator[RunStatus], width: int) -> Iterator[str]:
    """Give the lines about one run, or about several, each as soon as it is known."""
    first = tuple(islice(standings, 2))
    if len(first) == 1:
        yield from _alone(first[0])
    else:
        yield from _together(chain(first, standings), width)


def _name_length(path: Path) -> int:
    """Return the length of the longest name of a run at ``path``, or in it, as far as it can be listed."""
    try:
        names = [] if (path / "journal.jsonl").exists() else [child.name for child in path.iterdir()]
    except OSError:
        names = []
    shown = len(_pasted(path.absolute()))
    return shown + (1 + max(map(len, names)) if names else 0)


def _of(path: Path, *, brief: bool = False) -> Iterator[RunStatus]:
    """Give where the run at ``path`` stands, or all tests of one of several, or all runs in a folder.

    Where it is to be ``brief``, as for many runs in a folder, only the ends of a journal are read.
    """
    suite = SuiteFolder.existing(path)
    if suite is not None:
        told = [_of_test(suite, test, brief=brief) for test in suite.tests]
        goes_on = suite.in_progress
        if goes_on and not any(each.state == "running" for each in told):
            told = [_being_reported(each) for each in told]
        hopeless = goes_on or all(each.state == "not begun" for each in told)
        yield from (replace(each, command="") if hopeless else each for each in told)
    elif (path / "journal.jsonl").is_file() or not path.is_dir():
        yield _standing(RunFolder.existing(path), brief=brief)
    else:
        try:
            children = sorted(path.iterdir())
        except OSError as error:
            raise unreadable(path, error) from None
        yield from _in_folder(path, children)


def _in_folder(path: Path, children: Sequence[Path]) -> Iterator[RunStatus]:
    """Give where each of those ``children`` of a folder stands that is a run, or a run of several tests."""
    runs = filter(_is_run, children)
    first = tuple(islice(runs, 2))
    for child in chain(first, runs):
        try:
            yield from _of(child, brief=len(first) > 1)
        except RecordError as error:
            yield _unreadable(child.resolve(), error)
    if not first:
        raise RecordError(path=path, reason="there is no run in it", hint="Name the folder of a run, or of several.")


def _of_test(suite: SuiteFolder, test: str, *, brief: bool) -> RunStatus:
    """Return where one of several tests stands; what cannot be read of it hides none of the others."""
    try:
        run = suite.run(test)
    except RecordError as error:
        return _unreadable(suite.place(test), error)
    return _standing(run, suite.path, brief=brief) if run else _not_begun(suite, test)


def _being_reported(standing: RunStatus) -> RunStatus:
    """Tell of a test between its end and the next one's beginning that its report is being made."""
    ended = standing.state in ("finished", "stopped")
    missing = ended and not (Path(standing.run) / "report.pdf").exists()
    return replace(standing, told=f"{standing.told}; its report is being made") if missing else standing


def _is_run(path: Path) -> bool:
    """Tell whether a run is there, or may be: in what may not be looked into."""
    try:
        return any((path / name).is_file() for name in ("journal.jsonl", "suite.json"))
    except PermissionError:
        return True


def _not_begun(suite: SuiteFolder, test: str) -> RunStatus:
    command = f"snia-pts resume {shell_quoted(suite.path)}"
    return RunStatus(run=str(suite.place(test)), state="not begun", test=test, told="not begun", command=command)


def _standing(folder: RunFolder, suite: Path | None = None, *, brief: bool = False) -> RunStatus:
    try:
        running = is_written(folder.journal)
        if brief:
            return _in_brief(folder, read_ends(folder.journal), suite or folder.path, running=running)
        outlook = inspect_run(folder, "rule")
        return _known(folder, outlook, suite or folder.path, running=running)
    except RecordError as error:
        return _unreadable(folder.path, error)
    except OSError as error:
        return _unreadable(folder.path, unreadable(folder.path, error))


def _unreadable(path: Path, error: RecordError) -> RunStatus:
    return RunStatus(run=str(path), state="unreadable", told=f"{error} {error.hint}".strip())


def _in_brief(folder: RunFolder, ends: Ends, whole: Path, *, running: bool) -> RunStatus:
    """Return what the ends of a journal tell, and the verdict from result.xml."""
    facts, ended = ends.facts, ends.ended
    finished = ended is not None and ended.ending == "finished"
    state: State = "finished" if finished else "stopped"
    command = ""
    if running:
        state, told = "running", ""
    elif finished:
        told = stored_verdict(folder.result) or "no result.xml; report makes it again"
    else:
        command = f"snia-pts resume {shell_quoted(whole)}"
        told = f"{ended.ending}: {ended.detail.rstrip('.')}" if ended else "the suite or the host died"
    since = moment(folder, ended.at) if ended and ended.at else ends.written
    return RunStatus(
        run=str(folder.path),
        state=state,
        test=facts.spec.test,
        drive=facts.dut.summary,
        serial=facts.dut.serial,
        where=ends.where,
        since=since.isoformat(" ", "seconds"),
        virtual=facts.dut.simulated,
        told=told,
        command=command,
    )


def _known(folder: RunFolder, outlook: ResumePlan, whole: Path, *, running: bool) -> RunStatus:
    facts = outlook.facts
    command = f"snia-pts resume {shell_quoted(whole)}"
    if running:
        state: State = "running"
        entry = duration(max(0.0, (datetime.now().astimezone() - outlook.stopped).total_seconds()))
        last = " (virtual)" if facts.dut.simulated else f", last entry {entry} ago"
        began = moment(folder, facts.started).isoformat(" ", "seconds")
        asked = "; it stops after this point" if folder.stop_requested else ""
        told, command = f"since {began}{last}{asked}", ""
    elif outlook.finished:
        state, told, command = "finished", assess(folder).verdict, ""
    else:
        state, told = "stopped", f"{outlook.reason}; would go on with {outlook.next_step or 'its end'}{_lost(outlook)}"
    return RunStatus(
        run=str(folder.path),
        state=state,
        test=facts.spec.test,
        drive=facts.dut.summary,
        serial=facts.dut.serial,
        where=outlook.where,
        since=outlook.stopped.isoformat(" ", "seconds"),
        virtual=facts.dut.simulated,
        told=told,
        command=command,
    )


def _lost(outlook: ResumePlan) -> str:
    """What of a run would be set aside if it went on, and what of that the operator can keep."""
    if not outlook.lost:
        return ""
    kept = "all" if outlook.spared == outlook.lost else outlook.spared
    spared = f" (resume --continue keeps {kept} of them, without a new purge)" if outlook.spared else ""
    return f", {counted(outlook.lost, 'outcome')} set aside{spared}"


def _alone(standing: RunStatus) -> Iterator[str]:
    yield f"{standing.run}: {standing.test or 'a run'}{f' on {standing.drive}' if standing.drive else ''}"
    since = f" {standing.since}{' (virtual)' if standing.virtual else ''}"
    where = {"running": f" at {standing.where}", "stopped": f"{since} at {standing.where}", "finished": since}
    yield f"  {standing.state}{where.get(standing.state, '')}"
    yield f"  {standing.told}"
    if standing.command:
        yield f"  {standing.command}"


def _together(standings: Iterable[RunStatus], width: int) -> Iterator[str]:
    """One line a run, and below what there is to say of those that do not run."""
    commands = dict[str, None]()
    for standing in standings:
        name, what = _pasted(Path(standing.run)), standing.told
        if standing.state in ("running", "stopped"):
            what = standing.where
        yield f"{name.ljust(width)}  {standing.serial.ljust(_SERIAL)}  {standing.state.ljust(_STATE)}  {what}"
        if standing.command:
            commands[standing.command] = None
    if commands:
        yield ""
        yield from (f"  {command}" for command in commands)


def _pasted(path: Path) -> str:
    """Return how a shell is told of a folder from where it is now."""
    here = Path.cwd()
    return shell_quoted(path.relative_to(here) if path.is_relative_to(here) else path)


def stop(arguments: argparse.Namespace) -> int:
    """Let a run stop after its current point."""
    suite = SuiteFolder.existing(arguments.run)
    folders = (
        [run for test in suite.tests if (run := suite.run(test))] if suite else [RunFolder.existing(arguments.run)]
    )
    require_private(arguments.run)
    running = [folder for folder in folders if is_written(folder.journal)]
    if suite and not running and suite.in_progress:
        suite.whole.request_stop()
        print(
            f"{suite.path} stops before its next test; snia-pts resume {shell_quoted(arguments.run)} goes on with it."
        )
        return 0
    if not running:
        raise NotRunning(path=arguments.run, reason="no process writes its journal")
    for folder in running:
        folder.request_stop()
        print(
            f"{folder.path} stops after its current point; "
            f"snia-pts resume {shell_quoted(arguments.run)} goes on with it."
        )
        if lost := _lost_now(folder):
            print(f"As it stands, that is with {lost}.")
    return 0


def _lost_now(folder: RunFolder) -> str:
    """What a run would begin again with that stopped now; empty where nothing is lost, or its journal cannot tell."""
    try:
        outlook = inspect_run(folder, "rule")
    except (RecordError, OSError):
        return ""  # it was asked to stop all the same
    return f"{outlook.next_step}{_lost(outlook)}" if outlook.lost else ""
