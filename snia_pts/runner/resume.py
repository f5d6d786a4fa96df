"""Resumes a stopped run on the target on which it started."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
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
from ..files import shell_quoted
from ..lab.device.contents import require_answer
from ..lab.fio import STALL_SECONDS, timeout_seconds
from ..lab.host.conditions import changes_before_resume
from ..lab.host.platform import read_platform
from ..lab.laboratory import MAX_REPEATS
from ..model.dut import Dut
from ..model.run_options import COMMAND, RunOptions
from ..model.test_platform import HostSetting, TestPlatform, changed_settings
from ..record.folder import RunFolder, writable_path
from ..record.locks import WAIT
from ..record.log import logged
from ..record.replay import ResumePlan, assess, inspect_run, is_readable, parse_time, read_journal_state
from ..report import DEFAULT_FORMATS
from ..report.writing import remove_report
from ..results.interruption import CONTENT_CHANGE, ResumePolicy
from ..results.result import RunFacts, TestResult
from ..units import counted
from . import session
from .caller import Caller
from .confirmation import ConfirmRestart
from .events import FolderCreated, ResumePlanned, RunStarted
from .notifications import notified
from .options import ResumeOptions
from .plugins import load_plugins, missing_parts, missing_purge, plugin_changes
from .report_formats import require_formats
from .run import FinishedRun, claimed, finish, log_platform, ticker
from .setup import plan_test, target_kind, target_setup
from .target import TargetSetup
from .verification import require_evidence

_LOGGER = logging.getLogger(__name__)
#: Fields of the drive that may differ and are recorded; another difference could mix measurements of two drives.
_ALLOWED_DIFFERENCES = {"path", "bus", "discard"}
#: Fields of an array that are known before it is created.
_KNOWN_BEFORE_CREATION = {"kind", "model", "serial", "array"}


def resume(path: Path, options: ResumeOptions, caller: Caller) -> FinishedRun:
    """Resume the stopped run in a folder and write its report.

    Raises NotResumable, RecordError, NotConfirmed, and what ``run`` raises.
    """
    with notified(options.plugins, caller) as observed, preparation(path):
        return _resume(path, options, observed)


def _resume(path: Path, options: ResumeOptions, caller: Caller) -> FinishedRun:
    folder = RunFolder.existing(writable_path(path))
    resume_plan = require_resumable(folder, options.policy)
    facts = resume_plan.facts
    run_options = resumed_options(facts, path, options)
    formats = available_formats(run_options, caller)
    target = resumed_target(facts, path, run_options, options, caller)
    caller.on_event(FolderCreated(folder=folder, title=f"{facts.spec.title} test", dut=facts.dut))
    with folder.opened(), logged(folder):
        result = _measure(folder, resume_plan, target, run_options, caller)
        return finish(result, folder, formats, caller)


@contextmanager
def preparation(path: Path) -> Iterator[None]:
    """Add notes to the errors of a missing target, and of an interruption before the run resumes."""
    try:
        yield
    except TargetMissing as missing:
        report_hint = f"If it no longer exists, snia-pts report {shell_quoted(path)} reports the existing measurements."
        missing.add_note(f"If its path changed, give the new one with --target. {report_hint}")
        raise
    except KeyboardInterrupt as stop:
        hint = f"The run is unchanged. snia-pts resume {shell_quoted(path)} continues it."
        raise Interrupted(cause=stop_cause(stop), step="preparation", what=path, hint=hint) from None


def _measure(
    folder: RunFolder, resume_plan: ResumePlan, target: TargetSetup, options: RunOptions, caller: Caller
) -> TestResult:
    """Claim the target, have its destruction confirmed, and perform the remaining steps of the test."""
    setting_changes = changes_before_resume(folder.path)
    try:
        with claimed(target, folder):
            resume_plan = with_content_checked(folder, resume_plan, target)
            confirm_restart(folder, resume_plan, target, options, caller)
            target.confirm(folder.evidence, caller.confirm)
            return resume_claimed(folder, resume_plan, target, options, caller, setting_changes)
    except SniaPtsError as error:
        present = folder.present
        if is_readable(present) and read_journal_state(present) != resume_plan.journal_state:
            error.add_note(f"snia-pts resume {shell_quoted(present.path)} continues it.")
        raise


def require_resumable(folder: RunFolder, policy: ResumePolicy) -> ResumePlan:
    """Return where a run would resume; raises NotResumable if it is in progress or finished.

    Raises RecordError if evidence was altered, because resuming would make it part of the run.
    """
    if folder.is_running:
        raise NotResumable(path=folder.path, reason="the run is still in progress", hint=WAIT)
    if folder.evidence.is_symlink() or not folder.evidence.is_dir():
        reason = "its evidence/ is missing, or is not a folder"
        raise NotResumable(
            path=folder.path, reason=reason, hint="Restore the folder from a backup, or start a new run."
        )
    resume_plan = inspect_run(folder, policy)
    if resume_plan.facts.imported is not None:
        raise NotResumable(path=folder.path, reason="it was imported from another tool", hint="Import the file again.")
    if resume_plan.finished:
        hint = f"snia-pts report {shell_quoted(folder.path)} reports it."
        raise NotResumable(path=folder.path, reason="it is finished", hint=hint)
    require_evidence(folder, assess(folder))
    return resume_plan


def resumed_options(facts: RunFacts, path: Path, options: ResumeOptions) -> RunOptions:
    """Return the options of the run, with those that must be given again; raises NotResumable or UsageError."""
    stored = facts.options
    if stored is None:
        raise NotResumable(path=path, reason="its journal does not contain its options")
    if stored.purge == COMMAND and options.purge_command is None:
        raise NotResumable(
            path=path,
            reason="the purge command is never taken from a journal",
            hint="Give it again with --purge-command.",
        )
    if plugin := missing_purge(stored.purge, facts.plugins, load_plugins(options.plugins)):
        reason = f"its purge method {stored.purge} is that of the plugin {plugin.name}, which is not given"
        raise NotResumable(
            path=path, reason=reason, hint="Give it again with --plugin: a journal never decides what is executed."
        )
    if options.overwrite and options.target is None and facts.dut.kind == "file":
        raise UsageError(
            detail="resume --overwrite needs --target FILE: the journal does not decide which file is overwritten.",
            hint=f"For this run: --overwrite --target {shell_quoted(Path(facts.dut.path))}",
        )
    given_again = ("serial", "overwrite", "discard_data", "purge_command", "power_command", "plugins")
    overridden = {name: getattr(options, name) for name in given_again}
    target = stored.target if facts.dut.array else facts.dut.path
    return replace(
        stored,
        target=options.target or target,
        size_bytes=None,
        seed=facts.seed,
        limits=facts.limits,
        about=facts.about,
        **overridden,
    )


def resumed_target(
    facts: RunFacts, path: Path, run_options: RunOptions, options: ResumeOptions, caller: Caller
) -> TargetSetup:
    """Return the setup of the target of a stopped run; raises NotResumable if the data on it are lost."""
    for line in missing_parts(facts.plugins, load_plugins(run_options.plugins)):
        caller.tell(line)
    if (kind := target_kind(run_options.target)) and options.target is None:
        target = kind.resumed(run_options, caller.tell, facts.dut.array, path, options.policy)
    else:
        require_answer(run_options.path)
        original = Path(facts.options.target if facts.options else "")
        in_directory = options.target is None and original.name != Path(facts.dut.path).name == facts.spec.file_name
        target = target_setup(run_options, caller.tell, file_in_directory=in_directory)
    target.require_tools()
    return target


def available_formats(options: RunOptions, caller: Caller) -> tuple[str, ...]:
    """Return the report formats of the run; if they are unavailable, the default ones, with a notice."""
    try:
        return require_formats(options.formats, options.plugins)
    except (UsageError, ReportError) as error:
        caller.tell(f"{error} Writing the report as {', '.join(DEFAULT_FORMATS)} instead.")
        return DEFAULT_FORMATS


def with_content_checked(folder: RunFolder, resume_plan: ResumePlan, target: TargetSetup) -> ResumePlan:
    """Return the plan for a claimed target whose content another program may have changed since the stop.

    If it was changed, the target is no longer preconditioned, and the run restarts at the last purge, unless the policy
    is ``continue``.  A run that was killed may have written after its last outcome itself, but discarded nothing.
    """
    current, last, end = target.content_state(), resume_plan.last_content, resume_plan.end_content
    change = current and (
        (end and current.change_since(end)) or (last and current.change_after(_own_writes_end_ns(resume_plan), last))
    )
    restarted = inspect_run(folder, "purge") if change else resume_plan
    if restarted.kept_steps == resume_plan.kept_steps:
        return resume_plan
    plan = resume_plan if resume_plan.policy == "continue" else replace(restarted, policy=resume_plan.policy)
    return replace(plan, content_change=f"{CONTENT_CHANGE}{change} while the run was stopped")


def _own_writes_end_ns(resume_plan: ResumePlan) -> int:
    """Return until when a killed run may have written to its target, in ns since 1970.

    The step that was interrupted began no later than just after the last change of the journal; its stimuli may repeat.
    """
    options, step = resume_plan.facts.options, resume_plan.current_step
    stall_seconds = options.stall_seconds if options else STALL_SECONDS
    timeouts = (timeout_seconds(stimulus, stall_seconds) for stimulus in (step.stimuli if step else ()))
    longest_seconds = (1 + MAX_REPEATS) * max(timeouts, default=stall_seconds)
    last_entry_ns = max(resume_plan.journal_state[1], int(resume_plan.stopped.timestamp() * 1e9))
    return last_entry_ns + int(longest_seconds * 1e9)


def confirm_restart(
    folder: RunFolder, resume_plan: ResumePlan, target: TargetSetup, options: RunOptions, caller: Caller
) -> None:
    """Report where a run resumes; ask before a test on a file restarts, unless the policy is ``purge``.

    For a drive, the operator confirms its serial number in any case.  Raises NotConfirmed.
    """
    _LOGGER.info(
        "resume, policy %s: stopped at %s (%s); %d steps are kept, %d outcomes discarded, next: %s",
        resume_plan.policy,
        resume_plan.position,
        resume_plan.reason,
        resume_plan.kept_steps,
        resume_plan.discarded_outcomes,
        resume_plan.next_step or "the end of the run",
    )
    if resume_plan.content_change:
        caller.tell(f"Changed: {resume_plan.content_change}.")
    caller.on_event(ResumePlanned(folder=folder, resume_plan=resume_plan))
    spec, dut = resume_plan.facts.spec, resume_plan.facts.dut
    if not resume_plan.restarts_test or dut.kind != "file" or resume_plan.policy == "purge":
        return
    current_dut = target.dut(spec)
    alternative = ""
    if resume_plan.recoverable_outcomes:
        outcomes = counted(resume_plan.recoverable_outcomes, "outcome")
        alternative = f" --continue keeps {outcomes} instead, without a new purge."
    request = ConfirmRestart(
        path=current_dut.path,
        plan=plan_test(spec, current_dut, target.speed(spec), options),
        recoverable_outcomes=resume_plan.recoverable_outcomes,
        hint=f"--from-purge restarts it without this question.{alternative}",
    )
    if caller.confirm(request).strip().lower() != request.expected:
        raise NotConfirmed(path=current_dut.path, reason="the restart of the test was not confirmed", hint=request.hint)


def resume_claimed(
    folder: RunFolder,
    resume_plan: ResumePlan,
    target: TargetSetup,
    options: RunOptions,
    caller: Caller,
    setting_changes: tuple[str, ...],
) -> TestResult:
    """Perform the remaining steps of a test on a target that is claimed and confirmed.

    ``setting_changes`` are sentences about the settings that changed before the resume.
    """
    facts = resume_plan.facts
    # The write cache is not set yet, so it is not compared.
    current_dut = replace(target.dut(facts.spec), write_cache=facts.dut.write_cache)
    tuple(drive_changes(folder, facts.dut, current_dut, overwrite=options.overwrite))  # raises NotResumable if another
    folder.withdraw_stop()
    with target.conditions_applied(facts.spec, folder, facts.dut.write_cache) as settings:
        return _resume_claimed(folder, resume_plan, target, options, caller, settings, setting_changes)


def _resume_claimed(
    folder: RunFolder,
    resume_plan: ResumePlan,
    target: TargetSetup,
    options: RunOptions,
    caller: Caller,
    settings: tuple[HostSetting, ...],
    setting_changes: tuple[str, ...],
) -> TestResult:
    facts = resume_plan.facts
    changes = setting_changes + tuple(
        drive_changes(folder, facts.dut, target.dut(facts.spec), overwrite=options.overwrite)
    )
    if resume_plan.content_change:
        changes += (resume_plan.content_change,)
    plan = plan_test(facts.spec, facts.dut, target.speed(facts.spec), options)
    target.set_clock(parse_time(folder, facts.started))
    stimuli = (*plan.preconditioning, *plan.stimuli)
    context = target.context(facts.spec, folder.evidence, facts.seed or 0, ticker(caller.on_event), stimuli)
    platform = replace(read_platform(context.engine), settings=settings)
    changes += tuple(platform_changes(facts.platform, platform))
    changes += tuple(plugin_changes(facts.plugins, load_plugins(options.plugins)))
    log_platform(platform)
    for change in changes:
        _LOGGER.warning("changed since the stop: %s", change)
    caller.on_event(RunStarted(spec=facts.spec, plan=plan, simulated=facts.dut.simulated, resumed=True))
    return session.resume(
        resume_plan,
        context.laboratory,
        folder,
        caller.on_event,
        changes=changes,
        command_line=caller.command_line or ("snia-pts", "resume", str(folder.path)),
        now=context.now,
        read_health=context.read_health,
        read_content=context.read_content,
        end_warnings=lambda: (*context.end_warnings(), *caller.end_warnings()),
        durable=context.durable,
        requested_stop=caller.requested_stop,
        before_first_entry=lambda: remove_report(folder.path),  # the existing report is outdated once the run resumes
    )


def drive_changes(folder: RunFolder, before: Dut, after: Dut, *, overwrite: bool) -> Iterator[str]:
    """Yield the allowed differences of the target; raises NotResumable for others.

    A file must have the instance that is in the journal; if that is unknown, ``overwrite`` is required.
    """
    for field in dataclasses.fields(Dut):
        old, new = getattr(before, field.name), getattr(after, field.name)
        if old == new or field.name in ("write_cache_source", "instance"):
            continue
        name = field.name.replace("_", " ")
        difference = f"{name} of {after.path}: expected {old}, got {new}"
        if field.name == "array" and old and new:
            difference = old.difference(new)
            if not difference:
                continue
        if after.array and not after.array.version and field.name not in _KNOWN_BEFORE_CREATION:
            continue
        if field.name not in _ALLOWED_DIFFERENCES:
            raise NotResumable(
                path=folder.path,
                reason=f"the run was on {before.summary}; {difference}",
                hint="If the path of the drive changed, give it with --target; otherwise start a new run.",
            )
        yield f"{name} of the drive: {new}, was {old}"
    if before.serial or before.simulated or (before.instance and before.instance == after.instance):
        return
    pairs = zip(before.instances, after.instances, strict=False)
    if any(old != new and _is_of_file(old) and _is_of_file(new) for old, new in pairs):
        kinds = {"file": "another file", "loop device": "a loop device on another file"}
        what = kinds.get(before.kind, "an array with a loop device on another file")
        raise NotResumable(
            path=folder.path,
            reason=f"{after.path} is {what}, not the one that the run was on",
            hint="The measurements belong to the original file; start a new run.",
        )
    if before.kind == "file" and not overwrite:
        source = "its file system" if before.instance else "the journal"
        raise NotResumable(
            path=folder.path,
            reason=f"{source} cannot identify {after.path} as the file that the run was on",
            hint="Start a new run, or use --overwrite --target FILE if the content of this file may be destroyed.",
        )
    yield f"identity of the drive: {after.path} has no serial number, so it may be another drive"


def _is_of_file(instance: str) -> bool:
    """Return whether an instance is that of a file; a loop device has that of its file."""
    return instance.startswith("inode ")


def platform_changes(before: TestPlatform, after: TestPlatform) -> Iterator[str]:
    """Yield a sentence for each difference of the host and the suite."""
    for field in dataclasses.fields(TestPlatform):
        old, new = getattr(before, field.name), getattr(after, field.name)
        if old != new and field.name != "settings":
            yield f"{field.name.replace('_', ' ')}: {new or 'unknown'}, was {old or 'unknown'}"
    for earlier, setting in changed_settings(before.settings, after.settings):
        yield f"{setting.name} of the host was {earlier.value}, and is {setting.assessment}"
