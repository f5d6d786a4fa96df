"""The verbs ``status`` and ``stop``: where runs stand, from any terminal, and an end to one."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

from ..errors import NotRunning, RecordError
from ..files import pasted
from ..record.folder import RunFolder, unreadable
from ..record.journal import is_written
from ..record.suite import SuiteFolder
from ..replay import Outlook, assess, look, moment
from ..units import counted, duration
from .words import dut_words

State = Literal["running", "stopped", "finished", "not begun", "unreadable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
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
    standings = [standing for path in arguments.runs for standing in _of(path)]
    if arguments.json:
        print(json.dumps([asdict(standing) for standing in standings], indent=1))
    elif len(standings) == 1:
        print("\n".join(_alone(standings[0])))
    else:
        print("\n".join(_together(standings)))
    unreadable = any(standing.state == "unreadable" for standing in standings)
    return RecordError.exit_code if unreadable else 0


def _of(path: Path) -> Iterator[Standing]:
    """Give where the run at ``path`` stands, or all tests of one of several, or all runs in a folder."""
    suite = SuiteFolder.existing(path)
    if suite is not None:
        told = [_of_test(suite, test) for test in suite.tests]
        goes_on = suite.goes_on
        if goes_on and not any(each.state == "running" for each in told):
            told = [_being_reported(each) for each in told]
        hopeless = goes_on or all(each.state == "not begun" for each in told)
        yield from (replace(each, command="") if hopeless else each for each in told)
    elif (path / "journal.jsonl").is_file() or not path.is_dir():
        yield _standing(RunFolder.existing(path))
    else:
        try:
            places = [child for child in sorted(path.iterdir()) if _is_run(child)]
        except OSError as error:
            raise unreadable(path, error) from None
        if not places:
            raise RecordError(
                path=path, reason="there is no run in it", hint="Name the folder of a run, or of several."
            )
        for place in places:
            try:
                yield from _of(place)
            except RecordError as error:
                yield _unreadable(place.resolve(), error)


def _of_test(suite: SuiteFolder, test: str) -> Standing:
    """Return where one of several tests stands; what cannot be read of it hides none of the others."""
    try:
        run = suite.run(test)
    except RecordError as error:
        return _unreadable(suite.place(test), error)
    return _standing(run, suite.path) if run else _not_begun(suite, test)


def _being_reported(standing: Standing) -> Standing:
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


def _not_begun(suite: SuiteFolder, test: str) -> Standing:
    command = f"snia-pts resume {pasted(suite.path)}"
    return Standing(run=str(suite.place(test)), state="not begun", test=test, told="not begun", command=command)


def _standing(folder: RunFolder, suite: Path | None = None) -> Standing:
    try:
        running = is_written(folder.journal)
        outlook = look(folder, "rule")
        return _known(folder, outlook, suite or folder.path, running=running)
    except RecordError as error:
        return _unreadable(folder.path, error)
    except OSError as error:
        return _unreadable(folder.path, unreadable(folder.path, error))


def _unreadable(path: Path, error: RecordError) -> Standing:
    return Standing(run=str(path), state="unreadable", told=f"{error} {error.hint}".strip())


def _known(folder: RunFolder, outlook: Outlook, whole: Path, *, running: bool) -> Standing:
    facts = outlook.facts
    command = f"snia-pts resume {pasted(whole)}"
    if running:
        state: State = "running"
        entry = duration(max(0.0, (datetime.now().astimezone() - outlook.stopped).total_seconds()))
        last = " (virtual)" if facts.dut.simulated else f", last entry {entry} ago"
        began = moment(folder, facts.started).isoformat(" ", "seconds")
        asked = "; it stops after this point" if folder.stop_asked else ""
        told, command = f"since {began}{last}{asked}", ""
    elif outlook.finished:
        state, told, command = "finished", assess(folder).verdict, ""
    else:
        state, told = "stopped", f"{outlook.reason}; would go on with {outlook.went_on or 'its end'}{_lost(outlook)}"
    return Standing(
        run=str(folder.path), state=state, test=facts.spec.test, drive=dut_words(facts.dut), serial=facts.dut.serial,
        where=outlook.where, since=outlook.stopped.isoformat(" ", "seconds"), virtual=facts.dut.simulated, told=told,
        command=command,
    )  # fmt: skip


def _lost(outlook: Outlook) -> str:
    """What of a run would be set aside if it went on, and what of that the operator can keep."""
    if not outlook.lost:
        return ""
    kept = "all" if outlook.spared == outlook.lost else outlook.spared
    spared = f" (resume --continue keeps {kept} of them, without a new purge)" if outlook.spared else ""
    return f", {counted(outlook.lost, 'outcome')} set aside{spared}"


def _alone(standing: Standing) -> Iterator[str]:
    yield f"{standing.run}: {standing.test or 'a run'}{f' on {standing.drive}' if standing.drive else ''}"
    since = f" {standing.since}{' (virtual)' if standing.virtual else ''}"
    where = {"running": f" at {standing.where}", "stopped": f"{since} at {standing.where}", "finished": since}
    yield f"  {standing.state}{where.get(standing.state, '')}"
    yield f"  {standing.told}"
    if standing.command:
        yield f"  {standing.command}"


def _together(standings: Sequence[Standing]) -> Iterator[str]:
    """One line a run, and below what there is to say of those that do not run."""
    shown = [_pasted(Path(standing.run)) for standing in standings]
    width, kind = max(map(len, shown)), max(len(standing.state) for standing in standings)
    drives = max(len(standing.serial) for standing in standings)
    for name, standing in zip(shown, standings, strict=True):
        what = standing.where if standing.state in ("running", "stopped") else standing.told
        yield f"{name.ljust(width)}  {standing.serial.ljust(drives)}  {standing.state.ljust(kind)}  {what}"
    commands = dict.fromkeys(standing.command for standing in standings if standing.command)
    if commands:
        yield ""
        yield from (f"  {command}" for command in commands)


def _pasted(path: Path) -> str:
    """Return how a shell is told of a folder from where it is now."""
    here = Path.cwd()
    return pasted(path.relative_to(here) if path.is_relative_to(here) else path)


def stop(arguments: argparse.Namespace) -> int:
    """Let a run stop after its current point."""
    suite = SuiteFolder.existing(arguments.run)
    folders = (
        [run for test in suite.tests if (run := suite.run(test))] if suite else [RunFolder.existing(arguments.run)]
    )
    running = [folder for folder in folders if is_written(folder.journal)]
    if suite and not running and suite.goes_on:
        suite.whole.ask_to_stop()
        print(f"{suite.path} stops before its next test; snia-pts resume {pasted(arguments.run)} goes on with it.")
        return 0
    if not running:
        raise NotRunning(path=arguments.run, reason="no process writes its journal")
    for folder in running:
        folder.ask_to_stop()
        print(f"{folder.path} stops after its current point; snia-pts resume {pasted(arguments.run)} goes on with it.")
        if lost := _lost_now(folder):
            print(f"As it stands, that is with {lost}.")
    return 0


def _lost_now(folder: RunFolder) -> str:
    """What a run would begin again with that stopped now; empty where nothing is lost, or its journal cannot tell."""
    try:
        outlook = look(folder, "rule")
    except (RecordError, OSError):
        return ""  # it was asked to stop all the same
    return f"{outlook.went_on}{_lost(outlook)}" if outlook.lost else ""
