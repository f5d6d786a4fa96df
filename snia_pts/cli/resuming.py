"""The verb ``resume``: goes on with a run that was stopped."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ..dut import Dut
from ..errors import Interrupted, NotResumable, ReportError, SniaPtsError, TargetMissing, UsageError
from ..files import pasted
from ..interruption import Way
from ..lab.host import read_platform
from ..record.folder import RunFolder
from ..record.journal import is_written
from ..record.suite import SuiteFolder
from ..replay import Outlook, file_state, look, moment
from ..report import USUAL
from ..result import RunFacts, TestResult
from ..runner import resume as go_on
from ..testplatform import HostSetting, TestPlatform
from ..units import counted
from . import preparing
from .benches import Bench, bench, say, scratch_name
from .mail import mailed
from .parser import build_parser
from .post import post
from .progress import Progress, choose_mode, standard_stream
from .words import called, dut_words

#: What may be otherwise than when the run began, and is told; else the measurements would not go together.
_HARMLESS = {"path", "bus", "discard"}
#: What is known of an array before it is made.
_KNOWN_BEFORE = {"kind", "model", "serial", "array"}
#: What of a host is another every moment.
_FLEETING = {"other load", "other I/O", "swap"}


def resume(arguments: argparse.Namespace) -> int:
    """Go on with a stopped run, or with what is left of several tests."""
    try:
        return _resume(arguments)
    except TargetMissing as missing:
        known = f"If it is gone for good, snia-pts report {pasted(arguments.run)} reports what was measured."
        missing.hint = f"If it has another name or place now, give that with --target. {known}"
        raise
    except KeyboardInterrupt:
        hint = f"Nothing was added to it. snia-pts resume {pasted(arguments.run)} goes on with it."
        raise Interrupted(step="the preparation", what=arguments.run, hint=hint) from None


def _resume(arguments: argparse.Namespace) -> int:
    from .running import finish, test_words

    suite = SuiteFolder.existing(arguments.run)
    if suite is not None:
        from .suite import resume_all

        return resume_all(suite, arguments)
    folder = RunFolder.existing(arguments.run)
    outlook = require_resumable(folder, arguments.way)
    asked = asked_again(outlook.facts, arguments)
    target = bench(asked)
    target.require_tools()
    with mailed(asked, test_words(outlook.facts.spec, target), folder.path / "report.pdf") as letter:
        result = _gone_on(folder, outlook, target, asked)
        return finish(result, folder, asked.formats, letter)


def _gone_on(folder: RunFolder, outlook: Outlook, target: Bench, asked: argparse.Namespace) -> TestResult:
    """Hold the target, let it be confirmed, and go on with the test."""
    from .running import held

    try:
        with preparing.stoppable(), held(target, folder):
            target.confirm(folder.evidence)
            return resume_test(folder, outlook, target, asked)
    except SniaPtsError as error:
        if file_state(folder) != outlook.file:
            error.hint += f" snia-pts resume {pasted(folder.path)} goes on with it."
        raise


def require_resumable(folder: RunFolder, way: Way) -> Outlook:
    """Return where a run would go on; raises NotResumable where it goes on already, or is at its end."""
    if is_written(folder.journal):
        raise NotResumable(path=folder.path, reason="it still goes on", hint="Wait for its end, or stop it.")
    if folder.evidence.is_symlink() or not folder.evidence.is_dir():
        reason = "its evidence/ is missing, or leads elsewhere"
        raise NotResumable(path=folder.path, reason=reason, hint="Take the folder from a backup, or begin a new run.")
    outlook = look(folder, way)
    if outlook.facts.imported is not None:
        raise NotResumable(path=folder.path, reason="another tool measured it", hint="Import its file once more.")
    if outlook.finished:
        hint = f"snia-pts report {pasted(folder.path)} reports it."
        raise NotResumable(path=folder.path, reason="it is finished", hint=hint)
    return outlook


def asked_again(facts: RunFacts, arguments: argparse.Namespace) -> argparse.Namespace:
    """Return what the run's own command line asked for, on the same target; raises NotResumable or UsageError.

    Whatever lets it destroy, run a program of the operator's, or mail, is asked for anew: who knows what was put on the
    drive meanwhile, and who wrote the journal.
    """
    try:
        asked = build_parser().parse_args(facts.command_line[1:])
    except UsageError as error:
        reason = f"this version of the suite does not know its options ({error})"
        raise NotResumable(path=arguments.run, reason=reason) from None
    if not hasattr(asked, "target"):
        raise NotResumable(path=arguments.run, reason="its command line is none that runs a test")
    asked.formats = _formats_again(asked)
    asked.post, asked.afterwards = post(arguments), arguments.afterwards
    in_directory = asked.target.name != Path(facts.dut.path).name == scratch_name(facts.spec)
    asked.target = arguments.target or Path(facts.dut.path)
    asked.scratch = asked.target if in_directory and arguments.target is None else None
    if getattr(asked, "purge_command", None) and not arguments.purge_command:
        raise NotResumable(
            path=arguments.run, reason="the command that purges is not taken from a journal",
            hint="Give it again with --purge-command.",
        )  # fmt: skip
    if facts.dut.array is not None:
        from .array import resumable

        asked.layout = resumable(facts.dut.array, arguments) if arguments.target is None else None
        asked.member_run = None
    asked.purge_command, asked.limits, asked.about = arguments.purge_command, facts.limits, facts.about
    asked.overwrite, asked.discard_data = arguments.overwrite, arguments.discard_data
    asked.size, asked.serial, asked.progress = None, arguments.serial, arguments.progress
    asked.command_line = arguments.command_line
    return asked


def _formats_again(asked: argparse.Namespace) -> tuple[str, ...]:
    """Return the formats that the run was begun with; the usual, with a word of it, where these cannot be made here."""
    try:
        return preparing.formats(asked)
    except (UsageError, ReportError) as error:
        say(f"{error} The report is made as {', '.join(USUAL)} instead.")
        return USUAL


def resume_test(folder: RunFolder, outlook: Outlook, target: Bench, asked: argparse.Namespace) -> TestResult:
    """Go on with a test on a target that is held and confirmed."""
    folder.forget_stop()
    with target.settled(outlook.facts.spec, folder, outlook.facts.dut.write_cache) as settings:
        return _resume_settled(folder, outlook, target, asked, settings)


def _resume_settled(
    folder: RunFolder, outlook: Outlook, target: Bench, asked: argparse.Namespace, settings: tuple[HostSetting, ...]
) -> TestResult:
    from ..report.writing import forget

    facts = outlook.facts
    changes = tuple(drive_changes(folder, facts.dut, target.dut(facts.spec)))
    plan, stream = preparing.plan_of(facts.spec, facts.dut, target.speed(facts.spec), asked), standard_stream()
    progress = Progress(facts.spec, plan, choose_mode(asked.progress, stream), stream, resumed=True)
    target.set_clock(moment(folder, facts.started))
    equipment = target.equip(facts.spec, folder.evidence, facts.seed or 0, progress.tick)
    changes += tuple(_platform_changes(facts.platform, replace(read_platform(equipment.engine), settings=settings)))
    if asked.progress != "none":
        print("\n".join(outlook_lines(folder, outlook)), file=sys.stderr)
    forget(folder.path)  # a report on what was there before is no longer true, once nothing refuses to go on
    try:
        progress.begin()
        return go_on(
            outlook, equipment.laboratory, folder, progress.event, command_line=asked.command_line,
            changes=changes, now=equipment.now, examine=equipment.examine, durable=equipment.durable,
        )  # fmt: skip
    finally:
        progress.close()


def drive_changes(folder: RunFolder, before: Dut, now: Dut) -> Iterator[str]:
    """Tell what is not as before and does no harm; raises NotResumable for what does."""
    for field in dataclasses.fields(Dut):
        old, new = getattr(before, field.name), getattr(now, field.name)
        if old == new or field.name in ("write_cache_source", "instance"):
            continue
        name = field.name.replace("_", " ")
        if field.name == "array" and old and new and old.essence == new.essence:
            continue
        if now.array and not now.array.version and field.name not in _KNOWN_BEFORE:
            continue
        if field.name not in _HARMLESS:
            raise NotResumable(
                path=folder.path,
                reason=f"the run was on {dut_words(before)}; the {name} of {now.path} is {new}, and was {old}",
                hint="If the drive has another name now, give it with --target; else begin a new run.",
            )
        yield f"{name} of the drive: {new}, was {old}"
    if before.serial or before.simulated or (before.instance and before.instance == now.instance):
        return
    if before.kind == "file" and before.instance and now.instance:
        raise NotResumable(
            path=folder.path, reason=f"{now.path} is another file than the one that the run was on",
            hint="What was measured belongs to that file; begin a new run.",
        )  # fmt: skip
    yield f"identity of the drive: nothing tells that {now.path} is the same, it has no serial number"


def _platform_changes(before: TestPlatform, now: TestPlatform) -> Iterator[str]:
    for field in dataclasses.fields(TestPlatform):
        old, new = getattr(before, field.name), getattr(now, field.name)
        if old != new and field.name != "settings":
            yield f"{field.name.replace('_', ' ')}: {new or 'unknown'}, was {old or 'unknown'}"
    was = {setting.name: setting.value for setting in before.settings}
    for setting in now.settings:
        if setting.name not in _FLEETING and was.get(setting.name, setting.value) != setting.value:
            yield f"{setting.name} of the host: {setting.value}, was {was[setting.name]}"


def outlook_lines(folder: RunFolder, outlook: Outlook) -> Iterator[str]:
    """Where a stopped run stands, and what resuming it would do."""
    yield f"{called(outlook.facts.spec)} of {dut_words(outlook.facts.dut)} in {folder.path}"
    virtual = " (virtual)" if outlook.facts.dut.simulated else ""
    stopped = outlook.stopped.isoformat(" ", "seconds") + virtual
    yield f"  stopped {stopped} at {outlook.where} ({outlook.reason})"
    if not outlook.went_on:
        yield "  everything was measured; only its end is missing"
        return
    lost = f"; {counted(outlook.lost, 'outcome')} before the stop set aside" if outlook.lost else ""
    yield f"  goes on with {outlook.went_on}{lost}"
