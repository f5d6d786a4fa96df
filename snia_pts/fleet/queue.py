"""The queue of a lab, which is Procrastinate's: a queue for each host, a lock for each drive, one task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from procrastinate import App, JobContext, PsycopgConnector, RetryDecision, SyncPsycopgConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.job_context import AbortReason
from procrastinate.jobs import Job, Status
from procrastinate.retry import BaseRetryStrategy

_TASK = "ensure_run"
#: The priority of the job of a run that may have been started: before all others of its drive.
FIRST = 1000
#: The limit of the priority of a request, in both directions.
MAX_PRIORITY = 100
#: What a connection, or a pool of them, raises if the database is gone.
DATABASE_ERRORS = (psycopg.Error, ConnectorException)
_POOL_SECONDS = 3.0
#: The highest priority of the jobs that wait for each lock; an agent sees only those of its own queue.
WAITING_PRIORITIES: LiteralString = (
    "SELECT lock, max(priority) AS priority FROM procrastinate_jobs WHERE status = 'todo' GROUP BY lock"
)
_log = logging.getLogger(__name__)

EnsureRun = Callable[[UUID], Awaitable[None]]


def queue_of(host: str) -> str:
    """Return the name of the queue of a host."""
    return f"host:{host}"


def lock_of(serial: str) -> str:
    """Return the name of the lock of a drive: at most one job with it is being worked on."""
    return f"drive:{serial}"


class GivenBack(Exception):
    """A run that has not started goes back to the queue, where its job waits with ``priority``."""

    def __init__(self, priority: int) -> None:
        super().__init__(priority)
        self.priority = priority


class _Again(BaseRetryStrategy):
    """Keeps the job of a run until its end is reported, as it only attaches to a run that was started."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision:
        """Return a decision to deliver the job again: at once after a stop of the agent, later after an error."""
        _ = job
        if isinstance(exception, GivenBack):
            return RetryDecision(priority=exception.priority)
        if isinstance(exception, asyncio.CancelledError):
            return RetryDecision(priority=FIRST)
        seconds = 1 if isinstance(exception, DATABASE_ERRORS) else 10
        return RetryDecision(retry_in={"seconds": seconds}, priority=FIRST)


def worker_app(parameters: Mapping[str, Any], ensure_run: EnsureRun) -> App:
    """Return the app of an agent, whose task is ``ensure_run``."""
    connector = PsycopgConnector(kwargs=dict(parameters), min_size=1, max_size=4, timeout=_POOL_SECONDS)
    app = App(connector=connector)

    @app.task(name=_TASK, retry=_Again(), pass_context=True)
    async def task(context: JobContext, run_id: str) -> None:
        """Wait for the end of a run.

        An agent that shuts down cancels its tasks.  A notification cancels them, too, but any role can send one, so
        that it is ignored; ``lab stop`` reaches the agent through ``lab_heartbeat``.
        """
        work = asyncio.ensure_future(ensure_run(UUID(run_id)))
        while True:
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                if context.abort_reason() is AbortReason.USER_REQUEST and not work.done():
                    continue
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
                raise

    return app


async def reclaim(app: App, host: str) -> int:
    """Make the unfinished jobs of this host's queue waiting ones again; return how many there were.

    Only one agent reads this queue, so that nobody else works on them.
    """
    manager, queue = app.job_manager, queue_of(host)
    jobs = list(await manager.list_jobs_async(queue=queue, status=Status.DOING.value))
    for job in jobs:
        if job.abort_requested:  # a waiting job cannot have such a request, so that retry_job would end it
            await manager.finish_job(job, Status.FAILED, delete_job=False)
        await manager.retry_job(job, priority=FIRST)
    return len(jobs)


async def work(app: App, host: str, concurrency: int) -> None:
    """Fetch and work on jobs until cancelled, or until the database is gone."""
    await app.run_worker_async(
        queues=[queue_of(host)],
        concurrency=concurrency,
        shutdown_graceful_timeout=1.0,
        install_signal_handlers=False,
    )


def _client() -> App:
    """Return the app for commands, which pass their own connections."""
    return App(connector=SyncPsycopgConnector())


def defer_run(connection: psycopg.Connection, *, run_id: UUID, host: str, serial: str, priority: int) -> None:
    """Add the job of a run in the transaction of ``connection``."""
    deferrer = _client().configure_task(
        _TASK,
        queue=queue_of(host),
        lock=lock_of(serial),
        queueing_lock=str(run_id),
        priority=priority,
        connection=connection,
    )
    deferrer.defer(run_id=str(run_id))


def cancel_job(connection: psycopg.Connection, job_id: int) -> bool:
    """Cancel a waiting job in the transaction of ``connection``; return whether it was still waiting."""
    return _client().job_manager.cancel_job_by_id(job_id, connection=connection)
