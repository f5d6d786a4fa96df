"""The rights of an agent's role: it sees and changes its own runs, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import errors

from tests.fleet.labs import TestLab, new_lab, request
from tests.store.postgresql import Server

_FETCH = "SELECT * FROM procrastinate_fetch_job_v2(ARRAY[%s]::varchar[], %s)"


@pytest.fixture(name="two_hosts")
def _two_hosts(lab: TestLab) -> TestLab:
    """A lab with the hosts h1 and h2; each has a drive, and a run for it in its queue."""
    return with_hosts(lab, "h1", "h2")


@pytest.fixture(name="unchanged", scope="module")
def _unchanged(database_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestLab]:
    """A lab with the hosts r1 and r2, for statements that are refused."""
    with new_lab(database_server, tmp_path_factory.mktemp("lab")) as lab:
        yield with_hosts(lab, "r1", "r2")


def with_hosts(lab: TestLab, *names: str) -> TestLab:
    """Add hosts with one drive each, A, B, ..., and a run for each drive."""
    for name, serial in zip(names, "AB", strict=True):
        lab.add(name)
        lab.hello(name, serial)
        lab.submit(request(serial))
    return lab


def run_of(lab: TestLab, serial: str) -> UUID:
    """Return the run on a drive."""
    ((run_id,),) = lab.query("SELECT run_id FROM lab_request WHERE serial = %s", serial)
    return UUID(str(run_id))


def jobs(connection: psycopg.Connection[dict[str, Any]]) -> list[str]:
    """Return the queues of the jobs that a role sees."""
    return [row["queue_name"] for row in connection.execute("SELECT queue_name FROM procrastinate_jobs")]


def test_an_agent_sees_only_its_queue_and_requests(two_hosts: TestLab) -> None:
    """The owner sees both jobs and requests; the agent of h1 only those of h1."""
    assert two_hosts.query("SELECT count(*) FROM procrastinate_jobs") == [(2,)]
    with two_hosts.as_agent("h1") as connection:
        assert jobs(connection) == ["host:h1"]
        hosts = connection.execute("SELECT host, serial FROM lab_request").fetchall()
        assert hosts == [{"host": "h1", "serial": "A"}]


def test_an_agent_fetches_only_from_its_queue(two_hosts: TestLab) -> None:
    """The queue of another host is empty for it; its own job is fetched, retried and finished."""
    with two_hosts.as_agent("h1") as connection:
        worker = connection.execute("SELECT * FROM procrastinate_register_worker_v1()").fetchall()[0]["worker_id"]
        assert connection.execute(_FETCH.encode(), ("host:h2", worker)).fetchall()[0]["id"] is None
        job = connection.execute(_FETCH.encode(), ("host:h1", worker)).fetchall()[0]["id"]
        connection.execute("SELECT procrastinate_retry_job_v2(%s, NULL, 1000, NULL, NULL)", (job,))
        assert connection.execute(_FETCH.encode(), ("host:h1", worker)).fetchall()[0]["id"] == job
        connection.execute("SELECT procrastinate_finish_job_v1(%s, 'succeeded', false)", (job,))
    states = dict(two_hosts.query("SELECT queue_name, status::text FROM procrastinate_jobs"))
    assert states == {"host:h1": "succeeded", "host:h2": "todo"}


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO procrastinate_jobs (queue_name, task_name) VALUES ('host:r1', 'ensure_run')",
        "INSERT INTO procrastinate_jobs (queue_name, task_name) VALUES ('host:r2', 'ensure_run')",
        "UPDATE procrastinate_jobs SET queue_name = 'host:r2'",
        "UPDATE procrastinate_jobs SET lock = 'drive:B'",
        "UPDATE procrastinate_jobs SET lock = NULL",
        """UPDATE procrastinate_jobs SET args = '{"run_id": "1"}'""",
        "UPDATE procrastinate_jobs SET task_name = 'another'",
        "UPDATE procrastinate_jobs SET queueing_lock = 'another'",
        "DELETE FROM procrastinate_jobs",
        "SELECT procrastinate_finish_job_v1(id, 'succeeded', true) FROM procrastinate_jobs",
        "SELECT * FROM procrastinate_events",
        "INSERT INTO procrastinate_events (job_id, type) SELECT max(id) + 1, 'failed' FROM procrastinate_jobs",
        "UPDATE procrastinate_workers SET role = 'agent_r2'",
        "INSERT INTO lab_request SELECT * FROM lab_request",
        "UPDATE lab_request SET request = '{}'",
        "DELETE FROM lab_request",
        "SELECT * FROM lab_run",
        "UPDATE lab_run SET state = 'finished'",
        "SELECT * FROM lab_drive",
        "UPDATE lab_drive SET held = ''",
        "SELECT * FROM lab_host",
        "UPDATE lab_host SET maintenance = false",
        "SELECT * FROM lab_event",
        "INSERT INTO lab_event (kind) VALUES ('x')",
        "SELECT * FROM lab_notification",
        "INSERT INTO lab_notification (event_id, channel) VALUES (1, 'mail')",
        "SELECT * FROM lab_output",
        "INSERT INTO lab_output (run_id, start_byte, content) SELECT run_id, 0, 'x' FROM lab_request",
        "SELECT * FROM lab_version",
        "SELECT lab_require_host()",
        "CREATE TABLE own (a int)",
        "CREATE TEMPORARY TABLE own (a int)",
        "CREATE SCHEMA own",
        "CREATE FUNCTION own() RETURNS int LANGUAGE sql RETURN 1",
        "CREATE ROLE another",
        "SET ROLE agent_r2",
        "SET ROLE lab_controller",
        "SET SESSION AUTHORIZATION agent_r2",
        "ALTER TABLE lab_request DISABLE ROW LEVEL SECURITY",
        "COPY lab_request TO PROGRAM 'true'",
        "SELECT pg_read_file('/etc/passwd')",
    ],
)
def test_an_agent_is_refused(unchanged: TestLab, statement: str) -> None:
    """What is not needed to work on the own queue is refused, and changes nothing."""
    with unchanged.as_agent("r1") as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute(statement.encode())


def test_an_agent_reports_only_runs_of_its_host(two_hosts: TestLab) -> None:
    """A report for the run of another host is refused; for its own one it changes the run, and adds one event."""
    own, other = run_of(two_hosts, "A"), run_of(two_hosts, "B")
    report = b"SELECT lab_report(%s, %s, 0, 'V', 'm', '/f')"
    with two_hosts.as_agent("h1") as connection:
        with pytest.raises(errors.InsufficientPrivilege, match=f"{other} is not a run of host h1"):
            connection.execute(report, (other, "finished"))
        with pytest.raises(errors.CheckViolation, match="queued is not a state"):
            connection.execute(report, (own, "queued"))
        for state in ("running", "running", "finished", "finished"):
            connection.execute(report, (own, state))
    assert two_hosts.run(own)["state"] == "finished"
    assert two_hosts.run(other)["state"] == "queued"
    events = two_hosts.query("SELECT kind FROM lab_event WHERE run_id = %s ORDER BY id", own)
    assert events == [("submitted",), ("running",), ("finished",)]


def test_an_agent_adds_output_only_to_runs_of_its_host(two_hosts: TestLab) -> None:
    """Output is only appended: what the database has, or what leaves a gap, is not added again."""
    own, other = run_of(two_hosts, "A"), run_of(two_hosts, "B")
    add = b"SELECT lab_add_output(%s, %s, %s) AS stored"
    with two_hosts.as_agent("h1") as connection:
        with pytest.raises(errors.InsufficientPrivilege, match=f"{other} is not a run of host h1"):
            connection.execute(add, (other, 0, b"forged"))
        with pytest.raises(errors.CheckViolation):
            connection.execute(add, (own, 0, bytes(65_537)))
        pieces = [(0, b"one\n"), (0, b"other\n"), (9, b"gap\n"), (4, b""), (4, b"two\n")]
        stored = [connection.execute(add, (own, *piece)).fetchall()[0]["stored"] for piece in pieces]
    assert stored == [4, 4, 4, 4, 8]
    content = two_hosts.query("SELECT run_id, content FROM lab_output ORDER BY id")
    assert content == [(own, b"one\n"), (own, b"two\n")]


def test_the_database_takes_four_mebibytes_of_output(two_hosts: TestLab) -> None:
    """A run that prints without end does not fill the disk of the server."""
    own, piece = run_of(two_hosts, "A"), bytes(65_536)
    with two_hosts.as_agent("h1") as connection:
        for number in range(65):
            connection.execute("SELECT lab_add_output(%s, %s, %s)", (own, number * len(piece), piece))
    assert two_hosts.query("SELECT sum(length(content)) FROM lab_output") == [(4 << 20,)]


def test_an_agent_reports_live_values_only_of_its_runs_in_progress(two_hosts: TestLab) -> None:
    """They are small, those of a run that waits or has ended are ignored, and a hot drive is one event."""
    own, other = run_of(two_hosts, "A"), run_of(two_hosts, "B")
    live, values = b"SELECT lab_report_live(%s, %s, '[]', %s)", "SELECT live FROM lab_run WHERE run_id = %s"
    with two_hosts.as_agent("h1") as connection:
        with pytest.raises(errors.InsufficientPrivilege, match=f"{other} is not a run of host h1"):
            connection.execute(live, (other, "{}", ""))
        with pytest.raises(errors.CheckViolation, match="more than 64 KiB"):
            connection.execute(live, (own, json.dumps("x" * 65_536), ""))
        connection.execute(live, (own, '{"a": 1}', "hot"))
        assert two_hosts.query(values, own) == [(None,)]
        connection.execute("SELECT lab_report(%s, 'running', NULL, '', '', '/f')", (own,))
        for number in (1, 2):
            connection.execute(live, (own, json.dumps({"a": number}), "hot"))
    assert two_hosts.query(values, own) == [({"a": 2},)]
    assert two_hosts.query("SELECT message FROM lab_event WHERE run_id = %s AND kind = 'hot'", own) == [("hot",)]


def test_an_agent_cannot_take_the_drive_of_another_host(two_hosts: TestLab) -> None:
    """The claim stays with the first host, with an event; it moves once that host no longer has the drive."""
    owner = "SELECT claimed_by_host FROM lab_drive WHERE serial = 'C'"
    two_hosts.hello("h2", "B", "C")
    two_hosts.hello("h1", "A", "C")
    assert two_hosts.query(owner) == [("h2",)]
    noted = two_hosts.query("SELECT host, serial, message FROM lab_event WHERE kind = 'drive of another host'")
    assert noted == [("h1", "C", "h2 has claimed it")]
    two_hosts.hello("h2", "B")
    two_hosts.hello("h1", "A", "C")
    assert two_hosts.query(owner) == [("h1",)]
    two_hosts.hello("h2")  # B has a run in the queue of h2, and stays there
    assert two_hosts.query("SELECT claimed_by_host FROM lab_drive WHERE serial = 'B'") == [("h2",)]


def test_an_agent_removes_only_its_workers(two_hosts: TestLab) -> None:
    """Procrastinate removes the workers without heartbeat; an agent neither sees nor removes those of another one."""
    with two_hosts.as_agent("h1") as connection:
        connection.execute("SELECT * FROM procrastinate_register_worker_v1()")
    with two_hosts.as_agent("h2") as connection:
        connection.execute("SELECT * FROM procrastinate_register_worker_v1()")
        connection.execute("SELECT * FROM procrastinate_prune_stalled_workers_v1(-1)")
        assert connection.execute("SELECT * FROM procrastinate_workers").fetchall() == []
    assert two_hosts.query("SELECT role FROM procrastinate_workers") == [("agent_h1",)]


@pytest.mark.parametrize("role", ["lab_controller", "lab_agent"])
def test_the_roles_cannot_create(unchanged: TestLab, role: str) -> None:
    """No role of the lab has CREATE in the database or the schema, nor an attribute beyond its rights."""
    rights = unchanged.query(
        "SELECT has_schema_privilege(%s, 'public', 'CREATE'), "
        "has_database_privilege(%s, current_database(), 'CREATE'), "
        "has_database_privilege(%s, current_database(), 'TEMPORARY')",
        *(role,) * 3,
    )
    assert rights == [(False, False, False)]
    attributes = unchanged.query(
        "SELECT rolsuper, rolcreaterole, rolcreatedb, rolbypassrls, rolreplication FROM pg_roles WHERE rolname = %s",
        role,
    )
    assert attributes == [(False,) * 5]


def test_a_role_without_a_host_is_refused(two_hosts: TestLab) -> None:
    """The functions for agents refuse an agent whose host was never added, and the owner."""
    two_hosts.query("CREATE ROLE agent_h9 LOGIN IN ROLE lab_agent")
    try:
        with two_hosts.as_agent("h9") as connection, pytest.raises(errors.InsufficientPrivilege, match="agent_h9"):
            connection.execute("SELECT lab_hello('1', %s)", (json.dumps([]),))
        with pytest.raises(errors.InsufficientPrivilege, match="lab is not the role of an agent"):
            two_hosts.query("SELECT * FROM lab_heartbeat()")
    finally:
        two_hosts.query("DROP ROLE agent_h9")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE lab_request SET request = '{}'",
        "DELETE FROM lab_request",
        "DELETE FROM lab_event",
        "CREATE TABLE own ()",
    ],
)
def test_the_controller_cannot_change_a_request(unchanged: TestLab, statement: str) -> None:
    """A request is never changed, and an event never removed."""
    url = unchanged.url.replace("lab@", "lab_controller@")
    with psycopg.connect(url, autocommit=True) as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute(statement.encode())
