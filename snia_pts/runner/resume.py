"""Resumes a stopped run, on the target that it began on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import (
    Interrupted,
    NotConfirmed,
    NotResumable,
    ReportError,
    SniaPtsError,
    TargetMissing,
    UsageError,
    stop_cause,
)
from ..files import require_private, shell_quoted
from ..lab.device.contents import require_answer
from ..lab.host.platform import read_platform
from ..model.dut import Dut
from ..model.run_options import COMMAND, RunOptions
from ..model.test_platform import HostSetting, TestPlatform
from ..record.folder import RunFolder
from ..record.journal import WAIT, is_written
from ..record.replay import ResumePlan, assess, file_state, inspect_run, moment
from ..report import USUAL
from ..report.writing import forget
from ..results.interruption import ResumePolicy
from ..results.result import RunFacts, TestResult
from ..units import counted
from . import session
from .confirmation import ConfirmRestart
from .events import FolderMade, ResumePlanned, RunStarted
from .run import Caller, FinishedRun, claimed, finish, ticker
from .setup import file_name, plan_of, require_formats, target_setup
from .target import TargetSetup
from .verification import require_evidence

#: Differences of the drive that are recorded; any other one would mix measurements of two drives.
_HARMLESS = {"path", "bus", "discard"}
#: What is known of an array before it is made.
_KNOWN_BEFORE = {"kind", "model", "serial", "array"}
#: Host settings that change from moment to moment.
_FLEETING = {"other load", "other I/O", "swap"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeOptions:
    """What its operator gives to a run that is resumed, besides what its journal holds.

    ``policy`` is where it goes on.  ``target`` is where the target is now; None where it was.  The others are those of
    RunOptions: options that destroy data or start a program are never taken from a journal.
    """

    policy: ResumePolicy = "rule"
    target: str | None = None
    serial: str | None = None
    overwrite: bool = False
    discard_data: bool = False
    purge_command: str | None = None


def resume(path: Path, options: ResumeOptions, caller: Caller) -> FinishedRun:
    """Resume the stopped run in a folder and make its report.

    Raises NotResumable, RecordError, NotConfirmed, and what ``run`` raises.
    """
    with preparation(path):
        folder = RunFolder.existing(path)
        require_private(path)
        outlook = require_resumable(folder, options.policy)
        facts = outlook.facts
        again = options_of(facts, path, options)
        formats = available_formats(again, caller)
        target = target_again(facts, path, again, options, caller)
        caller.on_event(FolderMade(folder=folder, title=f"{facts.spec.title} test", dut=facts.dut))
        with folder.opened():
            result = _measure(folder, outlook, target, again, caller)
            return finish(result, folder, formats, caller)


@contextmanager
def preparation(path: Path) -> Iterator[None]:
    """Name the remedy where the target of a stopped run is missing, or the run is stopped before it goes on."""
    try:
        yield
    except TargetMissing as missing:
        known = f"If it is gone for good, snia-pts report {shell_quoted(path)} reports what was measured."
        hint = f"If it has another name or place now, give that with --target. {known}"
        raise replace(missing, hint=hint) from None
    except KeyboardInterrupt as stop:
        hint = f"Nothing was added to it. snia-pts resume {shell_quoted(path)} goes on with it."
        raise Interrupted(cause=stop_cause(stop), step="the preparation", what=path, hint=hint) from None


def _measure(
    folder: RunFolder, outlook: ResumePlan, target: TargetSetup, options: RunOptions, caller: Caller
) -> TestResult:
    """Claim the target, let its destruction be confirmed, and perform the rest of the test."""
    try:
        with claimed(target, folder):
            confirm_restart(folder, outlook, target, options, caller)
            target.confirm(folder.evidence, caller.confirm)
            return perform_rest(folder, outlook, target, options, caller)
    except SniaPtsError as error:
        if file_state(folder) != outlook.file:
            error.add_note(f"snia-pts resume {shell_quoted(folder.path)} goes on with it.")
        raise


def require_resumable(folder: RunFolder, policy: ResumePolicy) -> ResumePlan:
    """Return where a run would go on; raises NotResumable for one that is in progress or finished.

    Raises RecordError where evidence was altered: what is added after it would make it part of the run.
    """
    if is_written(folder.journal):
        raise NotResumable(path=folder.path, reason="the run is still in progress", hint=WAIT)
    if folder.evidence.is_symlink() or not folder.evidence.is_dir():
        reason = "its evidence/ is missing, or leads elsewhere"
        raise NotResumable(path=folder.path, reason=reason, hint="Take the folder from a backup, or begin a new run.")
    outlook = inspect_run(folder, policy)
    if outlook.facts.imported is not None:
        raise NotResumable(path=folder.path, reason="another tool measured it", hint="Import its file once more.")
    if outlook.finished:
        hint = f"snia-pts report {shell_quoted(folder.path)} reports it."
        raise NotResumable(path=folder.path, reason="it is finished", hint=hint)
    require_evidence(folder, assess(folder))
    return outlook


def options_of(facts: RunFacts, path: Path, options: ResumeOptions) -> RunOptions:
    """Return what the run was asked for, with what the operator gives again; raises NotResumable or UsageError."""
    stored = facts.options
    if stored is None:
        raise NotResumable(path=path, reason="its journal does not hold what it was asked for")
    if stored.purge == COMMAND and options.purge_command is None:
        raise NotResumable(
            path=path,
            reason="the command that purges is not taken from a journal",
            hint="Give it again with --purge-command.",
        )
    given = {name: getattr(options, name) for name in ("serial", "overwrite", "discard_data", "purge_command")}
    target = stored.target if facts.dut.array else facts.dut.path
    return replace(
        stored,
        target=options.target or target,
        size_bytes=None,
        seed=facts.seed,
        limits=facts.limits,
        about=facts.about,
        **given,
    )


def target_again(facts: RunFacts, path: Path, again: RunOptions, options: ResumeOptions, caller: Caller) -> TargetSetup:
    """Return the setup of the target of a stopped run; raises NotResumable where the data on it are gone."""
    array, layout = facts.dut.array, None
    if array is not None and options.target is None:
        from .array import require_resumable_array

        require_resumable_array(array, path, options.policy)
        layout = array.layout
    else:
        require_answer(again.path)
    began_in = Path(facts.options.target if facts.options else "")
    in_directory = options.target is None and began_in.name != Path(facts.dut.path).name == file_name(facts.spec)
    target = target_setup(again, caller.tell, layout=layout, file_in_directory=in_directory)
    target.require_tools()
    return target


def available_formats(options: RunOptions, caller: Caller) -> tuple[str, ...]:
    """Return the formats that the run was begun with; the usual ones, with a notice, where these cannot be made."""
    try:
        return require_formats(options.formats)
    except (UsageError, ReportError) as error:
        caller.tell(f"{error} The report is made as {', '.join(USUAL)} instead.")
        return USUAL


def confirm_restart(
    folder: RunFolder, outlook: ResumePlan, target: TargetSetup, options: RunOptions, caller: Caller
) -> None:
    """Say where a run goes on; ask before a test on a file begins again, unless ``policy`` is the last purge.

    The operator of a drive is asked for its serial number anyway.  Raises NotConfirmed.
    """
    caller.on_event(ResumePlanned(folder=folder, outlook=outlook))
    spec, dut = outlook.facts.spec, outlook.facts.dut
    if not outlook.begins_again or dut.kind != "file" or outlook.policy == "purge":
        return
    now = target.dut(spec)
    kept = f" --continue keeps {counted(outlook.spared, 'outcome')} instead, without a new purge."
    request = ConfirmRestart(
        path=now.path,
        plan=plan_of(spec, now, target.speed(spec), options),
        spared=outlook.spared,
        hint=f"--from-purge begins again without this question.{kept if outlook.spared else ''}",
    )
    if caller.confirm(request).strip().lower() != request.expected:
        raise NotConfirmed(path=now.path, reason="the test was not to begin again", hint=request.hint)


def perform_rest(
    folder: RunFolder, outlook: ResumePlan, target: TargetSetup, options: RunOptions, caller: Caller
) -> TestResult:
    """Perform the rest of a test on a target that is claimed and confirmed."""
    folder.withdraw_stop()
    with target.conditions_applied(outlook.facts.spec, folder, outlook.facts.dut.write_cache) as settings:
        return _perform_rest(folder, outlook, target, options, caller, settings)


def _perform_rest(
    folder: RunFolder,
    outlook: ResumePlan,
    target: TargetSetup,
    options: RunOptions,
    caller: Caller,
    settings: tuple[HostSetting, ...],
) -> TestResult:
    facts = outlook.facts
    changes = tuple(drive_changes(folder, facts.dut, target.dut(facts.spec), overwrite=options.overwrite))
    plan = plan_of(facts.spec, facts.dut, target.speed(facts.spec), options)
    target.set_clock(moment(folder, facts.started))
    stimuli = (*plan.preconditioning, *plan.stimuli)
    context = target.context(facts.spec, folder.evidence, facts.seed or 0, ticker(caller.on_event), stimuli)
    changes += tuple(platform_changes(facts.platform, replace(read_platform(context.engine), settings=settings)))
    forget(folder.path)  # a report on what was there before is no longer true, once nothing refuses to go on
    caller.on_event(RunStarted(spec=facts.spec, plan=plan, simulated=facts.dut.simulated, resumed=True))
    return session.resume(
        outlook,
        context.laboratory,
        folder,
        caller.on_event,
        changes=changes,
        command_line=caller.command_line or ("snia-pts", "resume", str(folder.path)),
        now=context.now,
        examine=context.examine,
        durable=context.durable,
        stop=caller.stop,
    )


def drive_changes(folder: RunFolder, before: Dut, now: Dut, *, overwrite: bool) -> Iterator[str]:
    """Tell what is not as before and does no harm; raises NotResumable for what does.

    A file must be the one that the journal names by its instance; where that is not known, ``overwrite`` gives it up.
    """
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
                reason=f"the run was on {before.summary}; the {name} of {now.path} is {new}, and was {old}",
                hint="If the drive has another name now, give it with --target; else begin a new run.",
            )
        yield f"{name} of the drive: {new}, was {old}"
    if before.serial or before.simulated or (before.instance and before.instance == now.instance):
        return
    if _is_of_file(before) and _is_of_file(now):
        what = "another file" if before.kind == "file" else "a loop device on another file"
        raise NotResumable(
            path=folder.path,
            reason=f"{now.path} is {what} than the one that the run was on",
            hint="What was measured belongs to that file; begin a new run.",
        )
    if before.kind == "file" and not overwrite:
        whose = "its file system" if before.instance else "the journal"
        raise NotResumable(
            path=folder.path,
            reason=f"{whose} does not tell whether {now.path} is the file that the run was on",
            hint="Begin a new run, or say --overwrite if the content of this file may be destroyed.",
        )
    yield f"identity of the drive: nothing tells that {now.path} is the same, it has no serial number"


def _is_of_file(dut: Dut) -> bool:
    """Return whether the instance of a target is that of a file, which a loop device may have, too."""
    return dut.instance is not None and dut.instance.startswith("inode ")


def platform_changes(before: TestPlatform, now: TestPlatform) -> Iterator[str]:
    for field in dataclasses.fields(TestPlatform):
        old, new = getattr(before, field.name), getattr(now, field.name)
        if old != new and field.name != "settings":
            yield f"{field.name.replace('_', ' ')}: {new or 'unknown'}, was {old or 'unknown'}"
    was = {setting.name: setting.value for setting in before.settings}
    for setting in now.settings:
        if setting.name not in _FLEETING and was.get(setting.name, setting.value) != setting.value:
            yield f"{setting.name} of the host: {setting.value}, was {was[setting.name]}"
