"""The agent of a host: fetches the runs of its queue, starts each run once, and reports its state.

It only reads the state of runs (``run_state``); each run is a separate process.  So the agent and the database can end
and start again at any time.  If the queue delivers a run again, the agent attaches to its process instead of starting a
second one.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from procrastinate import App
from psycopg.rows import dict_row

from .. import __version__
from ..analysis.side_by_side import SideBySide
from ..errors import AgentRunning, Interrupted, LimitsMissed, NotRunning, RecordError, SniaPtsError, TargetBusy
from ..record.ends import read_ends
from ..record.folder import RunFolder
from ..record.result_xml import stored_verdict
from ..record.suite import SuiteFolder
from ..units import counted
from .configuration import AgentConfiguration
from .connection import connection_parameters, name_of
from .drive_facts import present_drives
from .host_service import RemoteRuns
from .live_values import LiveReader, live_values_json, series_json
from .queue import DATABASE_ERRORS, WAITING_PRIORITIES, GivenBack, lock_of, reclaim, work, worker_app
from .request import RunRequest, parse_request
from .run_state import Ended, HostRuns, Lost, Outcome, Running
from .sending import ResultSender
from .state_folder import RunState, lock_file, lock_present_file, make_private_folder

_HEARTBEAT_SECONDS = 5.0
_POLL_SECONDS = 1.0
_RESULTS_SECONDS = 5.0
_RECONNECT_SECONDS = 1.0
#: Maximum output bytes per call.  The database migration ``output`` enforces the same limit.
_OUTPUT_BYTES = 65_536
#: The exit codes of a run whose measurements are complete.
_COMPLETE = (0, LimitsMissed.exit_code)
_UNKNOWN_RUN_MESSAGE = (
    "The run was started, but this host's state folder has no record of it. "
    "Check the state of the drive before you resume the run."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunRow:
    """The database's row of a run.

    ``state`` is its state, ``stop`` and ``resume`` are the requested actions (empty if none), and ``obstacle`` is the
    reason why it must not start (empty if none).
    """

    state: str
    stop: str
    resume: str
    obstacle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Submission:
    """When a run was requested, and its priority."""

    priority: int
    at: datetime

    @property
    def order(self) -> tuple[int, datetime]:
        """The key of the order in which runs start: the highest priority first, then the earliest one."""
        return -self.priority, self.at


class Agent:
    """The agent of a host.  ``say`` is called with a message for each event."""

    def __init__(
        self, configuration: AgentConfiguration, runs: HostRuns | RemoteRuns, say: Callable[[str], None]
    ) -> None:
        self._configuration = configuration
        self._parameters = {**connection_parameters(configuration.database), "application_name": "snia-pts agent"}
        self._runs = runs
        self._say = say
        self._sender = ResultSender(self._parameters, runs, say)
        self._stopping = asyncio.Event()
        self._run_rows: Mapping[UUID, _RunRow] = {}
        self._changed = asyncio.Condition()
        self._active: set[UUID] = set()
        self._output_sizes: dict[UUID, int] = {}
        self._not_live: set[UUID] = set()
        self._submissions: dict[UUID, _Submission] = {}
        self._waiting: set[UUID] = set()
        self._waiting_priorities: Mapping[str, int] = {}
        self._side_by_side = SideBySide(1)
        self._connection: psycopg.AsyncConnection[dict[str, Any]] | None = None
        self._reachable: bool | None = None

    async def serve(self) -> None:
        """Serve the queue of this host until a signal; reconnect after each failure of the database."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stopping.set)
        self._side_by_side = await asyncio.to_thread(self._runs.side_by_side)
        self._say(str(self._side_by_side))
        while not self._stopping.is_set():
            try:
                await self._session()
            except DATABASE_ERRORS as error:
                self._report_reachable(reachable=False, reason=" ".join(str(error).split()))
            await _wait(self._stopping, _RECONNECT_SECONDS)

    async def _session(self) -> None:
        """Serve the queue until a signal, or until a connection fails."""
        configuration = self._configuration
        async with await psycopg.AsyncConnection.connect(
            **self._parameters, autocommit=True, row_factory=dict_row
        ) as connection:
            self._connection = connection
            drives = json.dumps(await asyncio.to_thread(present_drives, configuration))
            await self._query("SELECT lab_hello(%s, %s)", __version__, drives)
            side_by_side = self._side_by_side
            await self._query("SELECT lab_facts(%s, %s, %s)", side_by_side.count, side_by_side.reason, drives)
            app = worker_app(self._parameters, self._run_job)
            async with app.open_async():
                reclaimed = await reclaim(app, configuration.host)
                self._report_reachable(reachable=True, reason=f"{counted(reclaimed, 'unfinished job')} taken over")
                await self._serve_queue(app)

    async def _serve_queue(self, app: App) -> None:
        # Each drive has at most one fetched job.  The job of a held drive occupies its place while it waits.
        # + 1: a job of a drive that is no longer configured is refused even while every other place is occupied.
        concurrency = len(self._configuration.drives) + 1
        tasks = [
            asyncio.create_task(work(app, self._configuration.host, concurrency)),
            asyncio.create_task(self._heartbeats()),
            asyncio.create_task(self._results()),
            asyncio.create_task(self._stopping.wait()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()

    async def _heartbeats(self) -> None:
        while True:
            await self._refresh()
            await asyncio.sleep(_HEARTBEAT_SECONDS)

    async def _results(self) -> None:
        """Send the results of runs that have ended, until the controller has received them.

        The sender opens a connection of its own only if there are any.
        """
        while True:
            if await self._query("SELECT lab_unreceived()"):
                await asyncio.to_thread(self._sender.send_all, self._stopping.is_set)
            await asyncio.sleep(_RESULTS_SECONDS)

    async def _refresh(self) -> None:
        """Report to the database that this agent is alive, and read the rows of its runs."""
        self._run_rows = {
            row["run_id"]: _RunRow(state=row["state"], stop=row["stop"], resume=row["resume"], obstacle=row["obstacle"])
            for row in await self._query("SELECT * FROM lab_heartbeat()")
        }
        if self._waiting:
            rows = await self._query(WAITING_PRIORITIES)
            self._waiting_priorities = {row["lock"]: row["priority"] for row in rows}
        await self._notify()

    async def _query(self, statement: LiteralString, *values: object) -> list[dict[str, Any]]:
        """Return the rows of a statement; raises psycopg.Error."""
        if self._connection is None:
            raise psycopg.InterfaceError("the agent has no connection")
        return await (await self._connection.execute(statement, values)).fetchall()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _report_reachable(self, *, reachable: bool, reason: str) -> None:
        """Report each change between a reachable and an unreachable database once."""
        if reachable != self._reachable:
            name = name_of(self._parameters)
            self._say(f"connected to {name}; {reason}" if reachable else f"cannot reach {name}, retrying: {reason}")
        self._reachable = reachable

    # -- a run ---------------------------------------------------------------------------------------------------------

    async def _run_job(self, run_id: UUID) -> None:
        """Start or attach to a run, wait for its end, and report it."""
        try:
            request = await self._request(run_id)
            if request is None:
                self._say(f"run {run_id}: belongs to another host")
                return
            self._configuration.drive(request)
            await self._perform(request)
        except SniaPtsError as error:
            await self._report(run_id, "refused", error.exit_code, message=f"{error} {error.full_hint}".strip())
        except (GivenBack, *DATABASE_ERRORS):
            raise
        except Exception as error:
            self._say(f"run {run_id}: unexpected error, retrying: {error!r}")
            raise
        finally:
            self._active.discard(run_id)
            self._output_sizes.pop(run_id, None)
            self._not_live.discard(run_id)
            self._submissions.pop(run_id, None)
            await self._notify()

    async def _request(self, run_id: UUID) -> RunRequest | None:
        """Return the request of a run; None if the run belongs to another host.  Raises SpecError if it is invalid."""
        rows = await self._query("SELECT request, priority, submitted FROM lab_request WHERE run_id = %s", run_id)
        if not rows:
            return None
        self._submissions[run_id] = _Submission(priority=rows[0]["priority"], at=rows[0]["submitted"])
        return parse_request(json.dumps(rows[0]["request"]))

    async def _perform(self, request: RunRequest) -> None:
        run_id = request.run_id
        await self._refresh()
        outcome = await asyncio.to_thread(self._runs.state, run_id)
        row = self._run_rows.get(run_id)
        if row is None and not isinstance(outcome, Running):
            return None  # its end was reported before
        if row and outcome is None and row.state == "running":
            return await self._report(run_id, "lost", None, message=_UNKNOWN_RUN_MESSAGE)
        resume, sent, live = row.resume if row else "", "", None
        while True:
            if isinstance(outcome, Running):
                self._active.add(run_id)
                await self._report(run_id, "running", None, folder=outcome.folder)
                sent = await self._stop_if_requested(run_id, sent)
                await asyncio.sleep(_POLL_SECONDS)
                outcome = await asyncio.to_thread(self._runs.state, run_id)
                await self._send_output(run_id, has_ended=not isinstance(outcome, Running))
                if isinstance(outcome, Running):
                    live = live or LiveReader(outcome.folder)
                    await self._send_live_values(run_id, live)
            elif isinstance(outcome, Ended) and not resume:
                return await self._report_end(run_id, outcome)
            elif isinstance(outcome, Lost) and outcome.decision == "hold" and not resume:
                return await self._report(run_id, "lost", None, message=_lost_message(outcome), folder=outcome.folder)
            elif await self._may_start(request, gives_way=outcome is None and not resume):
                outcome, resume, live = await self._start(request, resume), "", None
            else:
                state = "cancelled" if outcome is None else "stopped"
                return await self._report(run_id, state, None, message="It was stopped while it waited to start.")

    async def _stop_if_requested(self, run_id: UUID, sent: str) -> str:
        """Forward a request to stop a run; return the last ``stop`` that was forwarded."""
        row = self._run_rows.get(run_id)
        if row and row.stop not in ("", sent):
            with suppress(NotRunning):  # it is about to start, or has just ended
                await asyncio.to_thread(self._runs.stop, run_id, at_once=row.stop == "now")
                return row.stop
        return sent

    async def _send_live_values(self, run_id: UUID, reader: LiveReader) -> None:
        """Report the live values of a run if there are new ones; the first failure to read them is a message."""
        try:
            read = await asyncio.to_thread(reader.read)
        except (SniaPtsError, OSError) as error:
            if run_id not in self._not_live:
                self._not_live.add(run_id)
                self._say(f"run {run_id}: its live values cannot be read, and pages do not show them: {error}")
            return
        if read is not None:
            values, series = read
            documents = live_values_json(values), series_json(series)
            await self._query("SELECT lab_report_live(%s, %s, %s, %s)", run_id, *documents, values.heat)

    async def _send_output(self, run_id: UUID, *, has_ended: bool) -> None:
        """Send the complete lines that the database does not have yet.

        When the run has ended, also send an incomplete last line.
        """
        path = RunState.of(self._configuration.state_folder, run_id).output
        size = self._output_sizes.get(run_id)
        if size is None:
            size = await self._add_output(run_id, 0, b"")
        while content := await asyncio.to_thread(_read_lines, path, size, is_complete=has_ended):
            stored = await self._add_output(run_id, size, content)
            if stored == size:
                break  # the database accepts no more output of this run
            size = stored
        self._output_sizes[run_id] = size

    async def _add_output(self, run_id: UUID, start: int, content: bytes) -> int:
        """Add output of a run to the database; return the number of bytes that the database has."""
        rows = await self._query("SELECT lab_add_output(%s, %s, %s) AS stored", run_id, start, content)
        return int(rows[0]["stored"])

    async def _may_start(self, request: RunRequest, *, gives_way: bool) -> bool:
        """Wait until a run has no obstacle and a place is free, then return True; return False if it must not start.

        Raises GivenBack if a run of higher priority waits for the drive of one that ``gives_way``.
        """
        run_id, priority, reason = request.run_id, self._submissions[request.run_id].priority, ""
        self._waiting.add(run_id)
        try:
            await self._refresh()
            while True:
                row, others = self._run_rows.get(run_id), self._active - {run_id}
                if row is None or row.stop:
                    return False
                if gives_way and self._waiting_priorities.get(lock_of(request.serial), priority) > priority:
                    self._say(f"run {run_id} goes back to the queue: a run of higher priority waits for its drive")
                    raise GivenBack(priority)
                obstacle = row.obstacle
                if not obstacle and len(others) >= self._side_by_side.count:
                    obstacle = f"{counted(len(others), 'run')} in progress, the limit of side_by_side"
                if not obstacle and len(others) + self._earlier(run_id) < self._side_by_side.count:
                    self._active.add(run_id)
                    return True
                if obstacle not in ("", reason):
                    self._say(f"run {run_id} waits: {obstacle}")
                    reason = obstacle
                async with self._changed:
                    await self._changed.wait()
        finally:
            self._waiting.remove(run_id)
            await self._notify()

    def _earlier(self, run_id: UUID) -> int:
        """Return how many of the runs that wait without an obstacle start before this one."""
        rows = {other: self._run_rows.get(other) for other in self._waiting}
        able = (other for other, row in rows.items() if row and not row.obstacle and not row.stop)
        return sum(self._submissions[other].order < self._submissions[run_id].order for other in able)

    async def _start(self, request: RunRequest, resume: str) -> Outcome:
        """Start or resume a run; wait while the process of another run still uses the drive."""
        reason = ""
        while True:
            try:
                return await asyncio.to_thread(self._start_or_resume, request, resume)
            except TargetBusy as error:
                if str(error) != reason:
                    self._say(f"run {request.run_id} waits: {error}")
                    reason = str(error)
                await asyncio.sleep(_POLL_SECONDS)

    def _start_or_resume(self, request: RunRequest, resume: str) -> Outcome:
        """Start a run, or resume it as a user or the policy for lost runs requires."""
        outcome = self._runs.state(request.run_id)
        if isinstance(outcome, Lost) and not resume and outcome.decision != "hold":
            resume = outcome.decision
        if isinstance(outcome, Ended | Lost) and resume:
            return self._runs.resume(request.run_id, from_purge=resume == "from-purge")
        return self._runs.ensure(request, self._submissions[request.run_id].at)

    async def _report_end(self, run_id: UUID, outcome: Ended) -> None:
        code = outcome.exit_code
        state = "finished" if code in _COMPLETE else "stopped" if code == Interrupted.exit_code else "failed"
        verdict = await asyncio.to_thread(_verdict, outcome.folder)
        await self._report(run_id, state, code, verdict=verdict, message=outcome.message, folder=outcome.folder)

    async def _report(
        self,
        run_id: UUID,
        state: str,
        exit_code: int | None,
        *,
        verdict: str = "",
        message: str = "",
        folder: Path | None = None,
    ) -> None:
        values = (run_id, state, exit_code, verdict, message, "" if folder is None else str(folder))
        await self._query("SELECT lab_report(%s, %s, %s, %s, %s, %s)", *values)
        if state != "running":
            self._say(f"run {run_id}: {state}{f' ({verdict})' if verdict else ''}")


@contextmanager
def locked_host(configuration: AgentConfiguration) -> Iterator[None]:
    """Lock a host against other agents; raises AgentRunning.

    An agent without rights on drives cannot write to the state folder; it locks the configuration.
    """
    path = configuration.state_folder if configuration.host_service is None else configuration.path
    if configuration.host_service is None:
        make_private_folder(path)
        descriptor = lock_file(path / "agent")
    else:
        descriptor = lock_present_file(path)
    if descriptor is None:
        raise AgentRunning(path=path)
    try:
        yield
    finally:
        os.close(descriptor)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, at most ``seconds``."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return


def _read_lines(path: Path, start: int, *, is_complete: bool) -> bytes:
    """Return the complete lines of a file from offset ``start``, at most 64 KiB.

    If ``is_complete``, the last line may lack its newline.  A chunk of 64 KiB is not cut at the end of a line.
    """
    try:
        with path.open("rb") as file:
            file.seek(start)
            content = file.read(_OUTPUT_BYTES)
    except FileNotFoundError:
        return b""
    return content if is_complete or len(content) == _OUTPUT_BYTES else content[: content.rfind(b"\n") + 1]


def _verdict(folder: Path) -> str:
    """Return the verdicts of a run's finished tests from result.xml."""
    try:
        suite = SuiteFolder.existing(folder)
        runs = [(test, suite.run_folder(test)) for test in suite.tests] if suite else [("", RunFolder(path=folder))]
        verdicts = []
        for test, run in runs:
            if run is None or not run.has_started:
                continue
            ends = read_ends(run.journal)
            if ends.end and (verdict := stored_verdict(run.result, ends.facts.run_id, ends.end.at)):
                verdicts.append(f"{test}: {verdict}" if test else verdict)
    except (RecordError, OSError):
        return ""  # the run failed before it had a journal; its message says why
    return "; ".join(verdicts)


def _lost_message(outcome: Lost) -> str:
    starts = counted(outcome.starts, "time")
    return f"Its process disappeared without recording an exit code ({outcome.progress}); it was started {starts}."
