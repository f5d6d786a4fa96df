"""The agent of a host: fetches the runs of its queue, starts each once, and reports what becomes of it.

It only looks at the state of runs (``run_state``); a run is a process of its own.  So the agent and the database can
end and start again at any time: a run that is delivered again is attached to.
"""

from __future__ import annotations

import asyncio
import json
import logging
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
from ..errors import AgentRunning, Interrupted, LimitsMissed, NotRunning, RecordError, SniaPtsError, TargetBusy
from ..record.ends import read_ends
from ..record.folder import RunFolder
from ..record.result_xml import stored_verdict
from ..record.suite import SuiteFolder
from .configuration import AgentConfiguration
from .connection import connection_parameters, name_of
from .drive_facts import present_drives
from .queue import DATABASE_ERRORS, reclaim, work, worker_app
from .request import RunRequest, parse_request
from .run_state import Ended, HostRuns, Lost, Outcome, Running
from .sending import ResultSender
from .state_folder import RunState, lock_file, make_private_folder

_HEARTBEAT_SECONDS = 5.0
_POLL_SECONDS = 1.0
_RESULTS_SECONDS = 5.0
_RECONNECT_SECONDS = 1.0
#: As the migration ``output`` checks it.
_OUTPUT_BYTES = 65_536
#: The exit codes of a run whose measurements are complete.
_COMPLETE = (0, LimitsMissed.exit_code)
_UNKNOWN = "It was started, but the state folder of this host does not have it: look at the drive before you resume it."
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """What the database has of a run: ``stop`` and ``resume`` are what people want; ``obstacle`` may be empty."""

    state: str
    stop: str
    resume: str
    obstacle: str


class Agent:
    """The agent of a host.  ``say`` is called with a sentence for each event."""

    def __init__(self, configuration: AgentConfiguration, runs: HostRuns, say: Callable[[str], None]) -> None:
        self._configuration = configuration
        self._parameters = {**connection_parameters(configuration.database), "application_name": "snia-pts agent"}
        self._runs = runs
        self._say = say
        self._sender = ResultSender(self._parameters, runs, say)
        self._stopping = asyncio.Event()
        self._wishes: Mapping[UUID, _Wish] = {}
        self._changed = asyncio.Condition()
        self._active: set[UUID] = set()
        self._output_sizes: dict[UUID, int] = {}
        self._submitted: dict[UUID, datetime] = {}
        self._connection: psycopg.AsyncConnection[dict[str, Any]] | None = None
        self._reachable: bool | None = None

    async def serve(self) -> None:
        """Serve the queue of this host until a signal, through all failures of the database."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stopping.set)
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
            await self._query("SELECT lab_facts(%s, %s)", configuration.side_by_side, drives)
            app = worker_app(self._parameters, self._ensure)
            async with app.open_async():
                reclaimed = await reclaim(app, configuration.host)
                self._report_reachable(reachable=True, reason=f"{reclaimed} unfinished")
                await self._serve_queue(app)

    async def _serve_queue(self, app: App) -> None:
        # Only one run of a drive is fetched at a time, and those of the drives that are held wait here.
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
        """Send the results of the runs that have ended, until the controller has them."""
        while True:
            await asyncio.to_thread(self._sender.send_all, self._stopping.is_set)
            await asyncio.sleep(_RESULTS_SECONDS)

    async def _refresh(self) -> None:
        """Tell the database that this agent lives, and read what people want of its runs."""
        self._wishes = {
            row["run_id"]: _Wish(state=row["state"], stop=row["stop"], resume=row["resume"], obstacle=row["obstacle"])
            for row in await self._query("SELECT * FROM lab_heartbeat()")
        }
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
        """Say once that the database is reachable, or is not."""
        if reachable != self._reachable:
            name = name_of(self._parameters)
            self._say(f"serves {name} ({reason})" if reachable else f"cannot reach {name}, tries again: {reason}")
        self._reachable = reachable

    # -- a run ---------------------------------------------------------------------------------------------------------

    async def _ensure(self, run_id: UUID) -> None:
        """Start or attach to a run, wait for its end, and report it."""
        try:
            request = await self._request(run_id)
            if request is None:
                self._say(f"run {run_id}: it is not a run of this host")
                return
            self._configuration.drive(request)
            await self._perform(request)
        except SniaPtsError as error:
            await self._report(run_id, "refused", error.exit_code, message=f"{error} {error.full_hint}".strip())
        except DATABASE_ERRORS:
            raise
        except Exception as error:
            self._say(f"run {run_id}: unexpected error, tries again: {error!r}")
            raise
        finally:
            self._active.discard(run_id)
            self._output_sizes.pop(run_id, None)
            self._submitted.pop(run_id, None)
            await self._notify()

    async def _request(self, run_id: UUID) -> RunRequest | None:
        """Return a request of this host; None for another one.  Raises SpecError for an invalid one."""
        rows = await self._query("SELECT request, submitted FROM lab_request WHERE run_id = %s", run_id)
        if not rows:
            return None
        self._submitted[run_id] = rows[0]["submitted"]
        return parse_request(json.dumps(rows[0]["request"]))

    async def _perform(self, request: RunRequest) -> None:
        run_id = request.run_id
        await self._refresh()
        outcome = await asyncio.to_thread(self._runs.state, run_id)
        wish = self._wishes.get(run_id)
        if wish is None and not isinstance(outcome, Running):
            return None  # its end was reported before
        if wish and outcome is None and wish.state == "running":
            return await self._report(run_id, "lost", None, message=_UNKNOWN)
        resume, sent = wish.resume if wish else "", ""
        while True:
            if isinstance(outcome, Running):
                self._active.add(run_id)
                await self._report(run_id, "running", None, folder=outcome.folder)
                sent = await self._stop_if_requested(run_id, sent)
                await asyncio.sleep(_POLL_SECONDS)
                outcome = await asyncio.to_thread(self._runs.state, run_id)
                await self._send_output(run_id, has_ended=not isinstance(outcome, Running))
            elif isinstance(outcome, Ended) and not resume:
                return await self._report_end(run_id, outcome)
            elif isinstance(outcome, Lost) and outcome.decision == "hold" and not resume:
                return await self._report(run_id, "lost", None, message=_lost(outcome), folder=outcome.folder)
            elif await self._may_start(run_id):
                outcome, resume = await self._start(request, resume), ""
            else:
                state = "cancelled" if outcome is None else "stopped"
                return await self._report(run_id, state, None, message="It was stopped while it waited.")

    async def _stop_if_requested(self, run_id: UUID, sent: str) -> str:
        """Pass on a request to stop a run; return the last one that was passed on."""
        wish = self._wishes.get(run_id)
        if wish and wish.stop not in ("", sent):
            with suppress(NotRunning):  # it is about to start, or has just ended
                await asyncio.to_thread(self._runs.stop, run_id, at_once=wish.stop == "now")
                return wish.stop
        return sent

    async def _send_output(self, run_id: UUID, *, has_ended: bool) -> None:
        """Send the lines that a run has printed and that the database does not have, also an incomplete last one."""
        path = RunState.of(self._configuration.state_folder, run_id).output
        size = self._output_sizes.get(run_id)
        if size is None:
            size = await self._add_output(run_id, 0, b"")
        while content := await asyncio.to_thread(_read_lines, path, size, is_complete=has_ended):
            stored = await self._add_output(run_id, size, content)
            if stored == size:
                break  # the database takes no more of this run
            size = stored
        self._output_sizes[run_id] = size

    async def _add_output(self, run_id: UUID, start: int, content: bytes) -> int:
        """Add output of a run to the database; return how much of it the database has."""
        rows = await self._query("SELECT lab_add_output(%s, %s, %s) AS stored", run_id, start, content)
        return int(rows[0]["stored"])

    async def _may_start(self, run_id: UUID) -> bool:
        """Wait until nothing hinders the start of a run, and a place is free; False if it is to be stopped."""
        reason = ""
        while True:
            wish, others = self._wishes.get(run_id), self._active - {run_id}
            if wish is None or wish.stop:
                return False
            obstacle = wish.obstacle
            if not obstacle and len(others) >= self._configuration.side_by_side:
                obstacle = f"{len(others)} runs go on side by side"
            if not obstacle:
                self._active.add(run_id)
                return True
            if obstacle != reason:
                self._say(f"run {run_id} waits: {obstacle}")
                reason = obstacle
            async with self._changed:
                await self._changed.wait()

    async def _start(self, request: RunRequest, resume: str) -> Outcome:
        """Start or resume a run; waits while the process of another run still has the drive."""
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
        """Start a run, or resume it as a person or the policy for lost runs wants it."""
        outcome = self._runs.state(request.run_id)
        if isinstance(outcome, Lost) and not resume and outcome.decision != "hold":
            resume = outcome.decision
        if isinstance(outcome, Ended | Lost) and resume:
            return self._runs.resume(request.run_id, from_purge=resume == "from-purge")
        return self._runs.ensure(request, self._submitted.get(request.run_id))

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
def only_agent(state_folder: Path) -> Iterator[None]:
    """Keep other agents away from a state folder; raises AgentRunning."""
    make_private_folder(state_folder)
    path = state_folder / "agent"
    descriptor = lock_file(path)
    if descriptor is None:
        raise AgentRunning(path=state_folder)
    try:
        yield
    finally:
        os.close(descriptor)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, but no longer than this."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return


def _read_lines(path: Path, start: int, *, is_complete: bool) -> bytes:
    """Return complete lines of a file from a byte on, at most what the database takes at once.

    The last line of a file that ``is_complete`` may have no end.
    """
    try:
        with path.open("rb") as file:
            file.seek(start)
            content = file.read(_OUTPUT_BYTES)
    except FileNotFoundError:
        return b""
    return content if is_complete or len(content) == _OUTPUT_BYTES else content[: content.rfind(b"\n") + 1]


def _verdict(folder: Path) -> str:
    """Return the verdicts of the finished tests of a run, as result.xml states them."""
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


def _lost(outcome: Lost) -> str:
    return f"Its process is gone without an end ({outcome.progress}), started {outcome.starts} times."
