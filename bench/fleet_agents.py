"""Cost of a lab's database for many agents: memory, CPU without work, and the time from a submission to its delivery.

``python bench/fleet_agents.py [--agents 200 600] [--idle 60]`` connects light agents, each with the role of its host,
and two connections: one for its calls every five seconds, one that listens and fetches as Procrastinate's worker does.
Then it submits a run for each.  The memory is the sum of the PSS of the server's processes, so that shared pages count
once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from uuid import UUID

import psycopg

sys.path.insert(0, str(Path(__file__).parent.parent))

from snia_pts.fleet.operations import Lab
from tests.fleet.labs import request
from tests.store import postgresql

_CALL_SECONDS = 5.0


class LightAgent:
    """An agent that fetches its runs and starts none."""

    def __init__(self, name: str, url: str) -> None:
        self.name, self.queue, self._url = name, f"host:{name}", url.replace("lab@", f"agent_{name}@")
        self.fetched: dict[UUID, float] = {}

    async def serve(self, ready: asyncio.Semaphore, stop: asyncio.Event) -> None:
        """Report a drive, then fetch and call until ``stop``; a few agents connect at a time."""
        async with ready:
            calls = await psycopg.AsyncConnection.connect(self._url, autocommit=True)
            fetching = await psycopg.AsyncConnection.connect(self._url, autocommit=True)
            drives = json.dumps([{"serial": self.name, "model": "M"}])
            await calls.execute("SELECT lab_hello('1', %s)", (drives,))
            await fetching.execute(f'LISTEN "procrastinate_queue_v1#{self.queue}"'.encode())
            row = await (await fetching.execute("SELECT procrastinate_register_worker_v1()")).fetchone()
            worker = row[0] if row else None
        async with calls, fetching, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._call(calls, stop))
            tasks.create_task(self._fetch(fetching, worker, stop))

    async def _call(self, connection: psycopg.AsyncConnection, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await connection.execute("SELECT * FROM lab_heartbeat()")
            await asyncio.sleep(_CALL_SECONDS)

    async def _fetch(self, connection: psycopg.AsyncConnection, worker: int | None, stop: asyncio.Event) -> None:
        statement = b"SELECT id, args FROM procrastinate_fetch_job_v2(ARRAY[%s]::varchar[], %s)"
        while not stop.is_set():
            row = await (await connection.execute(statement, (self.queue, worker))).fetchone()
            if row and row[0] is not None:
                self.fetched[UUID(row[1]["run_id"])] = time.monotonic()
                await connection.execute("SELECT procrastinate_finish_job_v1(%s, 'succeeded', false)", (row[0],))
                continue
            async for _ in connection.notifies(timeout=_CALL_SECONDS, stop_after=1):
                pass


def main() -> None:
    """Measure, and print a row for each number of agents."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, nargs="+", default=[200, 600])
    parser.add_argument("--idle", type=float, default=60.0, help="seconds without work")
    arguments = parser.parse_args()
    print(
        f"{'agents':>7}{'PSS MiB':>9}{'idle CPU %':>12}{'median ms':>11}{'p99 ms':>8}{'most ms':>9}{'lost':>6}",
        flush=True,
    )
    for count in arguments.agents:
        asyncio.run(_measure(count, arguments.idle))


async def _measure(count: int, idle_seconds: float) -> None:
    settings = (f"max_connections={2 * count + 20}", "fsync=on")
    with tempfile.TemporaryDirectory(), postgresql.running_server(*settings) as server:
        server.create_database()
        with Lab(server.url(), create=True) as lab:
            agents = [LightAgent(f"a{number}", server.url()) for number in range(count)]
            for agent in agents:
                lab.add_host(agent.name)
            ready, stop = asyncio.Semaphore(8), asyncio.Event()
            serving = [asyncio.create_task(agent.serve(ready, stop)) for agent in agents]
            while len(await asyncio.to_thread(lab.drives)) < count:
                await asyncio.sleep(1)
            before, began = _cpu_seconds(server.folder), time.monotonic()
            await asyncio.sleep(idle_seconds)
            spent = sum(seconds - before.get(pid, 0.0) for pid, seconds in _cpu_seconds(server.folder).items())
            idle_percent = 100 * spent / (time.monotonic() - began)
            memory = sum(_pss_bytes(pid) for pid in _processes(server.folder))
            submitted: dict[UUID, float] = {}
            for agent in agents:
                run = request(agent.name)
                await asyncio.to_thread(lab.submit, [run])
                submitted[run.run_id] = time.monotonic()
            deadline = time.monotonic() + 60
            while sum(len(agent.fetched) for agent in agents) < count and time.monotonic() < deadline:
                await asyncio.sleep(0.1)
            stop.set()
            await asyncio.gather(*serving)
    fetched = {run_id: at for agent in agents for run_id, at in agent.fetched.items()}
    delays = [1000 * max(0.0, at - submitted[run_id]) for run_id, at in fetched.items()]
    p99 = quantiles(delays, n=100, method="inclusive")[98]
    print(
        f"{count:7}{memory / 2**20:9.0f}{idle_percent:12.2f}{median(delays):11.0f}{p99:8.0f}{max(delays):9.0f}"
        f"{count - len(fetched):6}",
        flush=True,
    )


def _processes(folder: Path) -> list[int]:
    """Return the processes of a server."""
    postmaster = int((folder / "data" / "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    return [postmaster, *map(int, children)]


def _pss_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def _cpu_seconds(folder: Path) -> dict[int, float]:
    """Return the CPU time of each process of a server, by its number.

    It is the scheduler's, in ns: most processes need less than a tick of /proc/PID/stat between two readings.
    """
    return {pid: int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9 for pid in _processes(folder)}


if __name__ == "__main__":
    main()
