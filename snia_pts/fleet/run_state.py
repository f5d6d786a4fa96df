"""Starts each run of a host at most once: attaches to its process, or says how it ended, or that it is lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import UUID

from ..analysis.side_by_side import SideBySide
from ..errors import NotResumable, NotRunning, RequestRefused, TargetBusy
from .capacity import decide_side_by_side
from .configuration import AgentConfiguration
from .lost_runs import Decision, Progress, decide
from .progress import read_progress
from .request import RunRequest
from .run_options import run_options
from .state_folder import RunState, StartKind, drive_lock
from .unit import Units

#: The exit codes of a finished run: without error, and with a limit that is not met.
_FINISHED = (0, 19)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The process of the run ended with this exit code (docs/exit-codes.rst) and its last message."""

    exit_code: int
    message: str
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The process of the run lives; its number is None until it has written it."""

    pid: int | None
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The run was started on this host, its process is gone and left no end.

    ``starts`` is how many processes started it: none if it was killed before it touched the drive.  ``decision`` is
    what becomes of it, for the caller to perform.
    """

    starts: int
    decision: Decision
    progress: Progress
    folder: Path


Outcome = Ended | Running | Lost


class HostRuns:
    """The runs of a host, with their state in the state folder of its configuration."""

    def __init__(self, configuration: AgentConfiguration) -> None:
        self._configuration = configuration
        self._units = Units(configuration)

    def side_by_side(self) -> SideBySide:
        """Return how many runs the host performs side by side; it may calibrate the host first.  Raises OSError."""
        return decide_side_by_side(self._configuration)

    def ensure(self, request: RunRequest, submitted: datetime | None = None) -> Outcome:
        """Start a run that this host has never started; return the state of any other one.

        ``submitted`` is when it was requested, for the time in the queue in its result.
        May be called as often as desired, also by several processes: a run id is started at most once.  Raises
        RequestRefused and UsageError if the host may not perform the request, and TargetBusy if another run has the
        drive; then nothing is started.
        """
        run = self._run(request.run_id)
        if run.exists and run.request() != request:
            reason = "this host has another request with this run_id"
            raise RequestRefused(run_id=str(request.run_id), reason=reason, hint="Give each request its own run_id.")
        if outcome := self.state(request.run_id):
            return outcome
        run_options(request, self._configuration.drive(request), self._folder(run))
        with self._locked(run, request.serial) as locks:
            if not run.claims:
                if not run.exists:
                    run.accept(request)
                if submitted:
                    run.record_submission(submitted)
                return self._start(run, "fresh", *locks)
        return self.ensure(request, submitted)  # another process was faster

    def state(self, run_id: UUID) -> Outcome | None:
        """Return the state of a run; None if it was never started on this host.  Raises RecordError."""
        run = self._run(run_id)
        is_alive = self._units.is_alive(run)
        with run.unlocked() as is_free:
            if is_alive or not is_free:
                return Running(pid=run.pid, folder=self._folder(run))
            end, claims, starts = run.exit(), run.claims, run.starts()
        if end:
            return Ended(exit_code=end.code, message=end.message, folder=self._folder(run))
        if not claims:
            return None
        progress = read_progress(self._folder(run), began=any(start.began for start in starts))
        return Lost(
            starts=sum(not start.began for start in starts),
            decision=decide(progress, run.request().on_lost, claims - 1),
            progress=progress,
            folder=self._folder(run),
        )

    def stop(self, run_id: UUID, *, at_once: bool = False) -> None:
        """Ask a run to stop after its current point or sample, or ``at_once``, as Ctrl-C does.

        A process that has not yet written its number stops at its first event.  Raises NotRunning, RunFolderError.
        """
        run = self._run(run_id)
        if not self._units.is_alive(run):
            raise NotRunning(path=self._folder(run), reason="its process has not started, or has ended")
        if not (at_once and self._units.terminate(run)):
            run.request_stop()

    def resume(self, run_id: UUID, *, from_purge: bool = False) -> Outcome:
        """Resume a run that is lost, stopped or failed, at its last purge if ``from_purge``.

        A lost run that never began is started.  Raises NotResumable if it was never requested, runs or is finished,
        RequestRefused and TargetBusy.
        """
        run = self._run(run_id)
        outcome = self.state(run_id)
        if outcome is None:
            raise NotResumable(path=self._folder(run), reason="it was never started on this host")
        request = run.request()
        run_options(request, self._configuration.drive(request), self._folder(run))
        if isinstance(outcome, Running):
            raise NotResumable(path=outcome.folder, reason="its process lives", hint="Wait until it ends, or stop it.")
        with self._locked(run, request.serial) as locks:
            end = run.exit()
            if end and end.code in _FINISHED:
                raise NotResumable(path=self._folder(run), reason="it is finished")
            return self._start(run, "from-purge" if from_purge else "resume", *locks)

    def _start(self, run: RunState, kind: StartKind, run_lock: int, locked_drive: int) -> Outcome:
        run.claim(kind)
        os.ftruncate(run_lock, 0)  # the number of an earlier process
        self._units.start(run, run_lock, locked_drive)
        return Running(pid=None, folder=self._folder(run))

    @contextmanager
    def _locked(self, run: RunState, serial: str) -> Iterator[tuple[int, int]]:
        """Lock a drive, and its run, for a decision; yield the descriptors.  Raises TargetBusy."""
        with ExitStack() as locks:
            drive = drive_lock(self._configuration.state_folder, serial)
            if drive is None:
                raise TargetBusy(path=serial, reason="another run of this host tests it")
            locks.callback(os.close, drive)
            run.make_folder()
            locked = run.locked()
            if locked is None:
                raise TargetBusy(path=serial, reason="the process of this run lives")
            locks.callback(os.close, locked)
            yield locked, drive

    def _run(self, run_id: UUID) -> RunState:
        return RunState.of(self._configuration.state_folder, run_id)

    def _folder(self, run: RunState) -> Path:
        return self._configuration.run_folder / run.path.name
