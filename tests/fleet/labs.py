"""Labs for the tests: a database in a private server, hosts in temporary folders, and agents as processes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg

from snia_pts.fleet.operations import Lab
from snia_pts.fleet.request import RequestOptions, RunRequest
from snia_pts.fleet.trial import MODEL, TrialHost
from tests.store.postgresql import Server

#: How long the tests wait for what must happen, on a loaded host.
PATIENCE_SECONDS = 120.0
#: A test on a simulated drive of less than a second, one of some seconds, and one that lasts until an agent, which asks
#: every five seconds, knows that it is to be stopped.
SHORT = ("rounds.point_seconds=1", "rounds.maximum=5")
LONG = ("rounds.maximum=40", "rounds.point_seconds=5", "steady_state.data_excursion_percent=0.001")
LONGER = ("rounds.maximum=120", *LONG[1:])


def until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """Wait until ``condition`` returns something, and return it."""
    deadline = time.monotonic() + seconds
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} seconds: {what}")
        time.sleep(0.05)


def request(serial: str, overrides: tuple[str, ...] = SHORT, **values: Any) -> RunRequest:
    """Return a request for a short IOPS test without report."""
    options = RequestOptions(overrides=overrides, formats=())
    return RunRequest(run_id=uuid4(), serial=serial, model=MODEL, test="iops", options=options, **values)


@dataclass
class Host(TrialHost):
    """A host of a lab for the tests."""

    def state(self, run_id: UUID) -> Path:
        """Return the folder with the state of a run on this host."""
        return self.run_state(run_id).path

    def process(self, run_id: UUID) -> int:
        """Wait until the process of a run has written its number, and return this."""
        return int(until(lambda: self.run_state(run_id).pid, f"the process of run {run_id}"))


@dataclass
class TestLab:
    """A lab in a database of its own."""

    __test__ = False
    server: Server
    url: str
    folder: Path
    hosts: dict[str, Host] = field(default_factory=dict)

    def open(self) -> Lab:
        """Open the lab as its owner."""
        return Lab(self.url)

    def add(self, name: str, *serials: str, side_by_side: int = 8) -> Host:
        """Add a host with these drives; its agent is not started."""
        with self.open() as lab:
            lab.add_host(name)
        url = self.url.replace("lab@", f"agent_{name}@")
        if "listen_addresses=127.0.0.1" in self.server.settings:
            url = f"postgresql://agent_{name}@127.0.0.1/{url.partition('@/')[2].partition('?')[0]}"
        self.hosts[name] = Host(name, self.folder / name, url, serials, side_by_side)
        return self.hosts[name]

    def as_agent(self, name: str) -> psycopg.Connection[dict[str, Any]]:
        """Return a connection of an agent's role."""
        row_factory = psycopg.rows.dict_row
        url = self.url.replace("lab@", f"agent_{name}@")
        return psycopg.connect(url, autocommit=True, row_factory=row_factory)

    def hello(self, name: str, *serials: str) -> None:
        """Report drives as an agent that starts."""
        drives = json.dumps([{"serial": serial, "model": "M"} for serial in serials])
        with self.as_agent(name) as connection:
            connection.execute("SELECT lab_hello('1', %s)", (drives,))

    def submit(self, *requests: RunRequest, priority: int = 0) -> None:
        """Submit requests."""
        with self.open() as lab:
            lab.submit(requests, priority=priority)

    def run(self, run_id: UUID) -> dict[str, Any]:
        """Return the row of a run."""
        with self.open() as lab:
            return next(run for run in lab.runs() if run["run_id"] == run_id)

    def until_state(self, run_id: UUID, *states: str, seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
        """Wait until a run has one of the states, and return its row."""

        def reached() -> dict[str, Any] | None:
            run = self.run(run_id)
            return run if run["state"] in states else None

        try:
            return dict(until(reached, f"run {run_id} is {' or '.join(states)}", seconds))
        except AssertionError as error:
            logs = "\n".join(f"{name}: {host.log}" for name, host in self.hosts.items())
            raise AssertionError(f"{error}; it is {self.run(run_id)}\n{logs}") from None

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement of the owner, if it has any."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []


@contextmanager
def new_lab(server: Server, folder: Path) -> Iterator[TestLab]:
    """Make a database with the tables of a lab; afterwards, kill what is left, and remove it with its roles."""
    name = f"lab{uuid4().hex[:12]}"
    server.create_database(name)
    lab = TestLab(server, server.url(name), folder)
    try:
        with Lab(lab.url, create=True):
            pass
        yield lab
    finally:
        for host in lab.hosts.values():
            host.close()
        with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
            for host in lab.hosts.values():
                connection.execute(f'DROP ROLE "agent_{host.name}"'.encode())
