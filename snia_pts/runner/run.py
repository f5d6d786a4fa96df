"""Runs one test: from its options to its report."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ..errors import DeviceFailed, HostFailed, Interrupted, SniaPtsError, stop_cause
from ..files import shell_quoted
from ..lab.host.platform import read_platform
from ..model.run_options import RunOptions
from ..model.test_platform import HostSetting, TestPlatform
from ..record.folder import RunFolder, default_name
from ..record.log import logged
from ..record.replay import is_readable
from ..report import write
from ..results.result import RunFacts, RunWarning, TestResult
from ..spec.reader import Specification
from . import session
from .caller import Caller
from .events import (
    CalibrationStarted,
    FolderCreated,
    OnEvent,
    ProgramRunning,
    RunStarted,
    TestFinished,
)
from .notifications import notified
from .options import new_seed
from .plugins import load_plugins
from .report_formats import require_formats
from .setup import (
    TestEstimate,
    all_limits,
    estimate_test,
    host_warnings,
    plan_test,
    preflight,
    require_measurable,
    specification_for,
    target_for,
)
from .target import RunContext, TargetSetup

_LOGGER = logging.getLogger(__name__)
_RUNS = Path("runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A run that has ended, with the report files by their format."""

    folder: RunFolder
    result: TestResult
    reports: Mapping[str, Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class _PreparedRun:
    """A test whose options are valid and whose target can run it."""

    options: RunOptions
    specification: Specification
    target: TargetSetup
    estimate: TestEstimate


def estimate(options: RunOptions, caller: Caller) -> TestEstimate:
    """Return the estimate of a test; raises the error with which the run would be refused.  Writes nothing."""
    require_formats(options.formats, options.plugins)
    return _prepare(options, caller, estimate_only=True).estimate


def run(options: RunOptions, caller: Caller) -> FinishedRun:
    """Run a test and write its report; then call the notifications of its plugins.

    Raises Interrupted, DeviceFailed, HostFailed and the other errors of ``snia_pts.errors``; the measurements before
    the error are in the run folder, and ``resume`` continues the run.
    """
    with notified(options.plugins, caller) as observed:
        return _run(options, observed)


def _run(options: RunOptions, caller: Caller) -> FinishedRun:
    formats = require_formats(options.formats, options.plugins)
    prepared = _prepare(options, caller)
    spec, target = prepared.specification.spec, prepared.target
    name = default_name(
        spec.name,
        target.subject,
        datetime.now().astimezone().isoformat(),
    )
    folder = RunFolder.create(options.run_folder or _RUNS / name)
    caller.on_event(FolderCreated(folder=folder, title=f"{spec.title} test", dut=prepared.estimate.dut))
    with folder.opened(), logged(folder):
        result = _measure(prepared, folder, caller)
        return finish(result, folder, formats, caller)


def _prepare(options: RunOptions, caller: Caller, *, estimate_only: bool = False) -> _PreparedRun:
    specification = specification_for(options)
    target = target_for(options, specification.spec, caller.tell)
    target.require_tools()
    if estimate_only:  # first, so that no command is sent to a drive in use
        preflight(options, specification.spec, target)
    test_estimate = estimate_test(specification, target, options)  # refuses a test that does not fit the target
    require_measurable(options, [(specification, test_estimate.dut)], caller.tell)
    return _PreparedRun(options=options, specification=specification, target=target, estimate=test_estimate)


def _measure(prepared: _PreparedRun, folder: RunFolder, caller: Caller) -> TestResult:
    """Claim the target, have its destruction confirmed, run the test; remove the folder of a run that did not start."""
    try:
        with claimed(prepared.target, folder):
            prepared.target.confirm(folder.evidence, caller.confirm)
            return perform(prepared.specification, prepared.target, folder, prepared.options, caller)
    except BaseException as error:
        if not folder.has_started:
            discard_unless_failed(folder, error)
        elif isinstance(error, SniaPtsError) and is_readable(folder.present):
            path = shell_quoted(folder.present.path)
            error.add_note(f"snia-pts resume {path} continues it; snia-pts report {path} reports it.")
        raise


@contextmanager
def claimed(target: TargetSetup, folder: RunFolder) -> Iterator[None]:
    """Claim a target for a run in ``folder``; remove the file created for it, unless the run can be resumed."""
    with target.claimed():
        try:
            yield
        except BaseException:
            if not folder.has_started:
                target.remove_file(refused=True)
            raise
        target.remove_file()


def discard_unless_failed(folder: RunFolder, error: BaseException) -> None:
    """Remove the folder of a run that never started; keep it after a device or host failure that left evidence."""
    if not isinstance(error, DeviceFailed | HostFailed) or not folder.has_evidence:
        folder.discard()
        return
    error.add_note(f"The evidence is in {shell_quoted(folder.present.evidence)}.")


def perform(
    specification: Specification,
    target: TargetSetup,
    folder: RunFolder,
    options: RunOptions,
    caller: Caller,
    *,
    run_id: str = "",
) -> TestResult:
    """Run a test on a target that is claimed and confirmed."""
    spec = specification.spec
    _LOGGER.info("start: %s", shlex.join(options.stored().command()))
    options = options if options.seed is not None else replace(options, seed=new_seed())
    with target.conditions_applied(spec, folder, spec.setup.write_cache) as settings:
        return _perform(specification, target, folder, options, caller, run_id or folder.path.name, settings)


def _perform(
    specification: Specification,
    target: TargetSetup,
    folder: RunFolder,
    options: RunOptions,
    caller: Caller,
    run_id: str,
    settings: tuple[HostSetting, ...],
) -> TestResult:
    """Run a test after its conditions were applied; ``settings`` are the host settings."""
    spec, seed = specification.spec, options.seed or 0
    dut = target.dut(spec)
    plan = plan_test(spec, dut, target.speed(spec), options)
    stimuli = (*plan.preconditioning, *plan.stimuli)
    context = target.context(spec, folder.evidence, seed, ticker(caller.on_event), stimuli)
    platform = replace(read_platform(context.engine), settings=(*settings, *caller.host_settings()))
    facts = RunFacts(
        run_id=run_id,
        started=context.now().isoformat(timespec="milliseconds"),
        command_line=caller.command_line or options.command(),
        options=options.stored(),
        seed=seed,
        test_class=specification.test_class,
        spec=spec,
        dut=dut,
        platform=platform,
        warnings=tuple(_warnings(platform, context)),
        deviations=specification.deviations + target.deviations(spec),
        settings=specification.settings,
        health=context.read_health(),
        limits=all_limits(spec, options),
        about=options.about,
        plugins=load_plugins(options.plugins),
        ceilings=context.calibrate(
            plan.stimuli, plan.shortest.seconds, lambda text: caller.on_event(CalibrationStarted(text=text))
        ),
    )
    log_platform(platform)
    _LOGGER.info("seed %d", seed)
    for warning in facts.warnings:
        _LOGGER.warning("%s: %s", warning.what, warning.detail)
    caller.on_event(RunStarted(spec=spec, plan=plan, simulated=dut.simulated, resumed=False))
    return session.run(
        facts,
        context.laboratory.perform,
        folder,
        caller.on_event,
        now=context.now,
        read_health=context.read_health,
        read_content=context.read_content,
        end_warnings=lambda: (*context.end_warnings(), *caller.end_warnings()),
        durable=context.durable,
        requested_stop=caller.requested_stop,
    )


def log_platform(platform: TestPlatform) -> None:
    """Log the versions of the suite and of what it runs on."""
    _LOGGER.info(
        "snia-pts %s, Python %s, %s %s, kernel %s",
        platform.suite_version,
        platform.python,
        platform.engine,
        platform.engine_version,
        platform.kernel,
    )


def ticker(on_event: OnEvent) -> Callable[[float, int], None]:
    """Return a callback that reports a program's run time in seconds and the bytes it has written."""
    return lambda seconds, written: on_event(ProgramRunning(seconds=seconds, written_bytes=written))


def _warnings(platform: TestPlatform, context: RunContext) -> Iterator[RunWarning]:
    yield from context.other_runs()
    yield from host_warnings(platform.settings)
    for program, newest in platform.untested_versions():
        yield RunWarning(what=program, detail=f"this version is newer than {newest}, the newest that was tested")
    for line in context.unchecked:
        yield RunWarning(what="not checked", detail=line)


def finish(result: TestResult, folder: RunFolder, formats: Sequence[str], caller: Caller) -> FinishedRun:
    """Write the report of a finished test in ``formats``."""
    folder.withdraw_stop()  # requested after the last point
    try:
        caller.on_event(TestFinished(result=result))
        reports = write(result, folder.path, formats)
    except KeyboardInterrupt:
        report_hint = f"snia-pts report {shell_quoted(folder.path)} writes the report."
        hint = f"The test is finished and its result stored; {report_hint}"
        raise Interrupted(cause=stop_cause(), step="report", what=folder.path, hint=hint) from None
    return FinishedRun(folder=folder, result=result, reports=reports)
