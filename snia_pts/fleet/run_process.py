"""The process of a run: uses its permission once, performs the test or resumes it, and leaves its end.

``python -m snia_pts.fleet.run_process CONFIGURATION RUN_ID`` is the command of a unit of systemd.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Event as StopEvent
from typing import Any
from uuid import UUID

from ..api.report import recreate_report
from ..cli.commands.run import show_run, show_suite
from ..cli.main import run_reported
from ..cli.notifications.content import Notification
from ..cli.text.lines import say
from ..cli.text.terminal import Terminal
from ..errors import (
    HostFailed,
    Interrupted,
    NotResumable,
    RequestRefused,
    SniaPtsError,
    TargetBusy,
    TargetMissing,
    TargetUnfit,
    stop_error,
)
from ..files import sync_folder
from ..lab.device.identity import read_dut
from ..lab.inventory import drive_paths
from ..lab.process.detached import close_order
from ..model.run_options import SIMULATED, RunOptions
from ..record.folder import RunFolder
from ..record.replay import assess
from ..record.suite import SuiteFolder, has_begun
from ..report import DEFAULT_FORMATS
from ..report.suite import write as write_summary
from ..runner.caller import Caller
from ..runner.confirmation import refuse
from ..runner.events import Event, ResumePlanned, RunStarted
from ..runner.resume import resume
from ..runner.run import FinishedRun, run
from ..runner.signals import stopped_by_signals
from ..runner.suite import FinishedSuite, discard_unstarted, resume_suite, run_suite
from ..runner.suite_summary import build_summary
from .capacity import decided_side_by_side
from .configuration import AgentConfiguration, AgentDrive, read_configuration
from .progress import read_progress
from .request import RunRequest
from .run_options import resume_options, run_options
from .side_by_side import SharedHost
from .state_folder import Exit, RunState, Start, drive_lock, make_private_folder, now
from .unit import LOCK_DESCRIPTORS

#: How long a unit of systemd waits until the agent that starts it has released the locks.
_LOCK_SECONDS = 30
_POLL_SECONDS = 0.05


def run_detached(order: Mapping[str, Any]) -> None:
    """Perform a run whose locks this process has inherited."""
    for descriptor in LOCK_DESCRIPTORS:
        os.set_inheritable(descriptor, False)
    close_order()

    def perform(_afterwards: list[Callable[[], None]]) -> int:
        configuration = read_configuration(Path(order["configuration"]))
        state = RunState.of(configuration.state_folder, UUID(order["run_id"]))
        return _use_permission(configuration, state, LOCK_DESCRIPTORS[0])

    raise SystemExit(run_reported(perform))


def run_as_unit(configuration_path: str, run_id: str) -> int:
    """Perform a run as a unit of systemd, which takes the locks itself; return the exit code."""
    configuration = read_configuration(Path(configuration_path))
    state = RunState.of(configuration.state_folder, UUID(run_id))
    run_lock = _when_released(state.locked, f"the run {run_id}")
    serial = state.request().serial
    _when_released(partial(drive_lock, configuration.state_folder, serial), f"the drive {serial}")
    return _use_permission(configuration, state, run_lock)


def _when_released(locked: Callable[[], int | None], what: str) -> int:
    """Return the descriptor of a lock as soon as it is free; raises TargetBusy."""
    end = time.monotonic() + _LOCK_SECONDS
    while (descriptor := locked()) is None:
        if time.monotonic() > end:
            raise TargetBusy(path=what, reason="another process has locked it")
        time.sleep(_POLL_SECONDS)
    return descriptor


def _use_permission(configuration: AgentConfiguration, state: RunState, run_lock: int) -> int:
    """Use the last permission of a run, unless it was used before; return the exit code."""
    os.ftruncate(run_lock, 0)
    os.write(run_lock, f"{os.getpid()}\n".encode())
    claim, starts = state.claims - 1, state.starts()
    if claim < 0 or any(start.claim >= claim for start in starts):
        say(f"The run {state.path.name} has no permission to start that was not used before.")
        return NotResumable.exit_code
    start = Start(claim=claim, kind=state.claimed_kind(claim), began=False, pid=os.getpid(), at=now())
    state.record_start(start)
    host = SharedHost(state_folder=configuration.state_folder, run_id=UUID(state.path.name), started=start.at)
    process = _RunProcess(configuration, state, start, began=any(earlier.began for earlier in starts), host=host)
    try:
        code = process.perform()
    except BaseException as error:
        code, message = _end(error, state.path.name)
        state.record_exit(Exit(claim=claim, code=code, message=message, at=now()))
        raise
    state.record_exit(Exit(claim=claim, code=code, message=process.verdict, at=now()))
    return code


def _end(error: BaseException, run_id: str) -> tuple[int, str]:
    """Return the exit code and the message of a process that ends with this error.

    A person resumes the run through the lab, not on its host.
    """
    if isinstance(error, KeyboardInterrupt):
        error = stop_error(error)
    if isinstance(error, Interrupted):
        return error.exit_code, f"{error} {Interrupted.hint} snia-pts lab resume {run_id[:8]} continues it."
    if isinstance(error, SniaPtsError):
        return error.exit_code, f"{error} {error.full_hint}".strip()
    code = HostFailed.exit_code if isinstance(error, OSError) else SniaPtsError.exit_code
    return code, f"{type(error).__name__}: {error}"


@dataclass(slots=True)
class _RunProcess:
    """The performance of a run, and its verdict once that is known.

    ``began``: the first step of the run was about to begin, in this process or an earlier one.
    """

    configuration: AgentConfiguration
    state: RunState
    start: Start
    began: bool
    host: SharedHost
    verdict: str = ""
    stop: StopEvent = field(default_factory=StopEvent)

    def perform(self) -> int:
        """Perform the test and print its result; return the exit code.  Raises what ends it otherwise."""
        on_event = partial(self._on_event, Terminal("log").on_event)
        caller = Caller(
            on_event=on_event,
            confirm=refuse,
            stop=self.stop,
            stop_cause="Stopped by a request to the lab",
            host_settings=self.host.settings,
            end_warnings=self.host.end_warnings,
        )
        with stopped_by_signals():
            return self._perform(caller)

    def _perform(self, caller: Caller) -> int:
        request = self.state.request()
        drive = self.configuration.drive(request)
        path = self.configuration.run_folder / self.state.path.name
        target = present_target(request, drive)
        options = run_options(request, drive, path, target)
        make_private_folder(self.configuration.run_folder)
        if not target.startswith(SIMULATED):
            self.host.take_cpus(target, decided_side_by_side(self.configuration))
        if read_progress(path, began=self.began) == "finished":
            return self._show(_report(path, options))
        from_purge = self.start.kind == "from-purge"
        if has_begun(path):
            given = resume_options(request, drive, target, from_purge=from_purge)
            suite = SuiteFolder.existing(path)
            if suite is None:
                return self._show(resume(path, given, caller))
            return self._show(resume_suite(suite, given, caller))
        if self.began and not from_purge:
            raise _begins_again(path, "its run folder has no journal any more")
        discard_unstarted(path, caller)
        if request.test == "all":
            return self._show(run_suite(options, caller))
        return self._show(run(options[0], caller))

    def _show(self, finished: FinishedRun | FinishedSuite) -> int:
        """Print a finished run; raises LimitsMissed, and ReportError for a report that failed."""
        if isinstance(finished, FinishedSuite):
            self.verdict = finished.overview.verdict
            return show_suite(finished, Notification())
        self.verdict = finished.result.verdict
        return show_run(finished)

    def _on_event(self, forward: Callable[[Event], None], event: Event) -> None:
        """Receive an event of the run."""
        if self.state.stop_requested:
            self.stop.set()
        forward(event)
        if isinstance(event, ResumePlanned) and event.resume_plan.restarts_test and self.start.kind != "from-purge":
            raise _begins_again(event.folder.path, "it would begin again at a purge")
        if isinstance(event, RunStarted) and not self.began:
            path = self.configuration.run_folder / self.state.path.name
            sync_folder(path.parent)
            sync_folder(path)
            self.state.record_start(replace(self.start, began=True, at=now()))
            self.began = True


def _begins_again(path: Path, reason: str) -> NotResumable:
    hint = "Ask for it: snia-pts lab resume --from-purge, or on_lost = from-purge in the request."
    return NotResumable(path=path, reason=reason, hint=hint)


def present_target(request: RunRequest, drive: AgentDrive) -> str:
    """Return the target of a request: that of the configuration, else the only drive with its model and serial number.

    The run itself compares the serial number again when it has claimed the drive.  Raises TargetMissing, TargetUnfit
    and RequestRefused.
    """
    if drive.target is None:
        paths = drive_paths(request.model, request.serial)
        what = f"{request.model}, serial {request.serial}"
        if not paths:
            raise TargetMissing(path=f"The drive {what}", hint="Connect it; snia-pts devices lists the drives.")
        if len(paths) > 1:
            hint = "Name the path of the right one as its target in the configuration of the agent."
            raise TargetUnfit(path=what, reason=f"several drives are: {', '.join(paths)}", hint=hint)
        return paths[0]
    path = Path(drive.target)
    if not drive.target.startswith(SIMULATED) and path.is_block_device():
        dut = read_dut(path)
        if dut.kind == "drive" and (dut.model, dut.identity) != (request.model, request.serial):
            reason = f"{path} is {dut.model}, serial {dut.identity}, not {request.model}, serial {request.serial}"
            raise RequestRefused(run_id=str(request.run_id), reason=reason, hint="Correct the configuration.")
    return drive.target


def _report(path: Path, options: tuple[RunOptions, ...]) -> FinishedRun | FinishedSuite:
    """Write the report of a finished run, whose process was killed before that was complete."""
    suite = SuiteFolder.existing(path)
    formats = DEFAULT_FORMATS if options[0].formats is None else options[0].formats
    folders = suite.runs() if suite else (RunFolder.existing(path),)
    reports = [recreate_report(folder, formats, lambda result: result, lambda _: None) for folder in folders]
    results = tuple(map(assess, folders))
    if suite is None:
        return FinishedRun(folder=folders[0], result=results[0], reports=reports[0])
    with suite.as_run_folder.opened():
        summary = build_summary(suite, formats=formats)
        written = write_summary(summary, suite.path, formats)
    return FinishedSuite(folder=suite, results=results, overview=summary, reports=written, unreported=())


if __name__ == "__main__":
    raise SystemExit(run_reported(lambda _: run_as_unit(*sys.argv[1:])))
