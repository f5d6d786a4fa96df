"""What people do with a lab, and what its agents do with that."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from procrastinate import App, SyncPsycopgConnector
from procrastinate.jobs import Status
from procrastinate.schema import SchemaManager

from snia_pts.cli.main import main
from snia_pts.errors import AgentRunning, LabError, NotResumable, NotRunning, UsageError
from snia_pts.fleet.database import open_lab
from snia_pts.fleet.queue import FIRST
from snia_pts.fleet.schema import METADATA, VERSION_TABLE
from tests.command_line import ENVIRONMENT, command
from tests.fleet.labs import LONG, LONGER, PATIENCE_SECONDS, SHORT, Host, TestLab, request, until


class Terminal:
    """Calls the verbs of ``lab`` as a person does."""

    def __init__(self, lab: TestLab, capsys: pytest.CaptureFixture[str]) -> None:
        self._lab, self._capsys = lab, capsys

    def __call__(self, *words: str, code: int = 0) -> tuple[str, str]:
        """Call a verb, require its exit code, and return what it printed on both streams."""
        self._capsys.readouterr()
        assert main(["lab", *words, "--database", self._lab.url]) == code
        return self._capsys.readouterr()

    def json(self, *words: str) -> Any:
        """Call a verb with --json, and return the document."""
        return json.loads(self(*words, "--json")[0])


@pytest.fixture
def terminal(lab: TestLab, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """A person at a terminal."""
    return Terminal(lab, capsys)


def states(lab: TestLab) -> dict[str, tuple[str, str]]:
    """Return the state of each drive, and what its next run waits for."""
    with lab.open() as opened:
        return {drive["serial"]: (drive["state"], drive["waits_for"]) for drive in opened.drives()}


# -- without an agent --------------------------------------------------------------------------------------------------


def test_the_migrations_make_the_tables_of_the_schema(lab: TestLab) -> None:
    """Alembic finds no difference, beside the tables of Procrastinate and its own."""
    engine = open_lab(lab.url)
    options = {"version_table": VERSION_TABLE, "compare_server_default": True}
    with engine.connect() as connection:
        found = compare_metadata(MigrationContext.configure(connection, opts=options), METADATA)
    engine.dispose()
    assert [change for change in found if "procrastinate" not in str(change)] == []


def test_the_schema_of_procrastinate_is_the_one_that_the_first_revision_has() -> None:
    """A release that changes its schema needs a revision here, with the changes of its own migrations."""
    newest = max(path.name for path in Path(SchemaManager.get_migrations_path()).glob("*.sql"))
    assert newest.startswith("03.04.00")


def test_init_may_be_repeated(lab: TestLab, terminal: Terminal) -> None:
    """A second one changes nothing."""
    before = lab.query("SELECT version_num FROM lab_version")
    assert "is ready" in terminal("init")[1]
    assert lab.query("SELECT version_num FROM lab_version") == before == [("0007",)]


def test_a_database_without_tables_is_named(lab: TestLab, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says which command makes them; a server that is gone is named, too."""
    assert main(["lab", "runs", "--database", lab.server.url("postgres")]) == LabError.exit_code
    assert "snia-pts lab init makes them." in capsys.readouterr().err
    assert main(["lab", "runs", "--database", "postgresql://a@/b?host=/nowhere"]) == LabError.exit_code
    assert "a@/nowhere/b cannot be used" in capsys.readouterr().err


def test_the_database_is_required(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without an option and the variable, the message says both."""
    monkeypatch.delenv("SNIA_PTS_LAB", raising=False)
    assert main(["lab", "runs"]) == UsageError.exit_code
    assert "Give --database postgresql://USER@HOST/NAME, or set SNIA_PTS_LAB." in capsys.readouterr().err


def test_a_drive_is_in_one_queue_only(lab: TestLab, terminal: Terminal) -> None:
    """Runs of one drive wait for each other, in order of priority and submission; refused serials are suggested."""
    lab.add("h1")
    lab.hello("h1", "DRIVE-1", "DRIVE-2")
    words = ("submit", "--test", "iops", "--serial")
    first, second = (terminal.json(*words, "DRIVE-1")["run_id"] for _ in range(2))
    urgent = terminal.json(*words, "DRIVE-1", "--priority", "5")["run_id"]
    queue = terminal.json("queue")
    assert [run["run_id"] for run in queue] == [urgent, first, second]
    assert [run["waits_for"] for run in queue] == ["", "the drive", "the drive"]
    assert states(lab) == {"DRIVE-1": ("reserved", ""), "DRIVE-2": ("idle", "")}
    assert lab.query("SELECT DISTINCT queue_name, lock FROM procrastinate_jobs") == [("host:h1", "drive:DRIVE-1")]

    assert "did you mean DRIVE-1?" in terminal(*words, "DRIVE-11", code=UsageError.exit_code)[1]
    assert "expected -100 to 100" in terminal(*words, "DRIVE-1", "--priority", "101", code=UsageError.exit_code)[1]
    terminal("retire", "DRIVE-2")
    assert "DRIVE-2 is retired" in terminal(*words, "DRIVE-2", code=UsageError.exit_code)[1]
    assert len(terminal.json("runs")) == 3


def test_a_request_with_mistakes_is_refused(lab: TestLab, terminal: Terminal) -> None:
    """All mistakes are named, and nothing is in the queue."""
    lab.add("h1")
    lab.hello("h1", "A")
    words = ("submit", "--serial", "A", "--test", "sop", "--pts", "")
    errors = terminal(*words, code=3)[1]
    assert "test" in errors
    assert "options.pts" in errors
    assert terminal.json("runs") == []


def test_a_waiting_run_is_cancelled(lab: TestLab, terminal: Terminal) -> None:
    """Its job is cancelled with it; a run that is over cannot be stopped, and a cancelled one not be resumed."""
    lab.add("h1")
    lab.hello("h1", "A")
    run = terminal.json("submit", "--serial", "A", "--test", "iops")["run_id"]
    assert "cancelled before it started" in terminal("stop", run[:8])[1]
    assert [(row["state"], row["stopped_by"]) for row in terminal.json("runs")] == [("cancelled", "lab")]
    assert "cancelled  lab cancelled it." in terminal("runs")[0]
    assert "stop: lab: cancelled before it started" in terminal("logs", run)[0]
    assert lab.query("SELECT status::text FROM procrastinate_jobs") == [("cancelled",)]
    assert "it is cancelled" in terminal("stop", run, code=NotRunning.exit_code)[1]
    assert "it is cancelled" in terminal("resume", run, code=NotResumable.exit_code)[1]
    assert "The lab has no run 0000" in terminal("stop", "0000", code=UsageError.exit_code)[1]
    assert "not the number of a run" in terminal("stop", "%", code=UsageError.exit_code)[1]


def test_a_run_that_may_have_been_started_is_stopped_by_its_agent(lab: TestLab, terminal: Terminal) -> None:
    """Its job may wait again while its run goes on, after the end of an agent."""
    lab.add("h1")
    lab.hello("h1", "A")
    run = terminal.json("submit", "--serial", "A", "--test", "iops")["run_id"]
    lab.query("UPDATE procrastinate_jobs SET attempts = 1, priority = %s", FIRST)
    assert "its agent stops it after the current point" in terminal("stop", run)[1]
    assert [row["state"] for row in terminal.json("runs")] == ["queued"]
    assert lab.query("SELECT status::text FROM procrastinate_jobs") == [("todo",)]


def test_hosts_have_a_state(lab: TestLab, terminal: Terminal) -> None:
    """A host that never called is silent; one in maintenance keeps its runs waiting."""
    lab.add("h1")
    assert [host["state"] for host in terminal.json("hosts")] == ["silent"]
    lab.hello("h1", "A")
    assert [(host["state"], host["drives"]) for host in terminal.json("hosts")] == [("ready", 1)]
    assert [host["state"] for host in terminal.json("hosts", "--maintenance", "h1")] == ["maintenance"]
    assert states(lab) == {"A": ("idle", "the end of the maintenance")}
    assert [host["state"] for host in terminal.json("hosts", "--end-maintenance", "h1")] == ["ready"]
    assert "has no host h3" in terminal("hosts", "--maintenance", "h3", code=UsageError.exit_code)[1]
    lab.query("UPDATE lab_host SET last_seen = now() - interval '31 s'")
    assert states(lab) == {"A": ("unknown", "the host, which is silent")}


def test_names_of_hosts_are_checked(lab: TestLab, terminal: Terminal) -> None:
    """A name becomes a part of the name of a role."""
    for name in ("H1", "h 1", 'h"1', "hö", "", "a" * 49):
        assert "is not the name of a host" in terminal("host", "add", name, code=UsageError.exit_code)[1]
    assert lab.query("SELECT name FROM lab_host") == []


def test_the_password_of_an_agent_is_only_in_its_file(lab: TestLab, terminal: Terminal, tmp_path: Path) -> None:
    """The file is that of the operator alone, and a line of ~/.pgpass; the server has a digest of the password."""
    lab.hosts["h1"] = Host("h1", tmp_path / "h1", lab.url, ())  # so that the fixture removes its role
    path = tmp_path / "password"
    terminal("host", "add", "h1", "--password-file", str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    user, secret = path.read_text().strip().split(":")[3:]
    assert user == "agent_h1"
    ((digest,),) = lab.query("SELECT rolpassword FROM pg_authid WHERE rolname = 'agent_h1'")
    assert digest.startswith("SCRAM-SHA-256$")
    assert secret not in digest
    assert "already exists" in terminal("host", "add", "h1", "--password-file", str(path), code=5)[1]


# -- with an agent -----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_run_is_tested_and_its_verdict_shown(lab: TestLab, terminal: Terminal) -> None:
    """Submitted, started once, and reported with its verdict; two drives are tested side by side."""
    host = lab.add("h1", "A", "B").start()
    until(lambda: len(states(lab)) == 2, "the agent reports its drives")
    words = ("--test", "iops", "--to", "none", *(word for override in SHORT for word in ("--set", override)))
    runs = [terminal.json("submit", "--serial", serial, *words)["run_id"] for serial in ("A", "B", "A")]
    for run in runs:
        row = lab.until_state(run_id := UUID(run), "finished")
        assert (row["exit_code"], row["verdict"]) == (0, "STEADY STATE NOT ACHIEVED")
        assert host.starts(run_id) == ["fresh"]
        assert (Path(row["folder"]) / "journal.jsonl").exists()
    assert lab.query("SELECT DISTINCT status::text FROM procrastinate_jobs") == [("succeeded",)]
    assert "STEADY STATE NOT ACHIEVED" in terminal("runs")[0]
    assert {drive["health"] for drive in terminal.json("drives")} == {"good"}
    assert all(len(line) <= 80 for line in terminal("runs")[0].splitlines())
    log = terminal("logs", runs[0])[0].splitlines()
    events = [line[len("2026-11-27 23:59:00  ") :].partition(":")[0] for line in log if not line.startswith("  ")]
    assert events == ["submitted", "running", "finished"]
    printed = host.run_state(UUID(runs[0])).output.read_text().splitlines()
    assert [line.removeprefix("  ") for line in log if line.startswith("  ")] == printed
    assert len(printed) > 5


@pytest.mark.long
def test_the_log_of_a_run_can_be_followed(lab: TestLab) -> None:
    """Its lines come while it goes on; the last ones are those after its end."""
    host = lab.add("h1", "A").start()
    until(lambda: states(lab), "the agent reports its drive")
    run = request("A", LONG)
    lab.submit(run)
    lab.until_state(run.run_id, "running")
    words = command("lab", "logs", str(run.run_id), "--follow", "--database", lab.url)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as following:
        assert following.stdout is not None
        first = following.stdout.readline()
        lab.until_state(run.run_id, "finished")
        rest, _ = following.communicate(timeout=PATIENCE_SECONDS)
    assert following.returncode == 0
    assert "submitted" in first
    assert any("  finished: " in line for line in rest.splitlines())
    last = host.run_state(run.run_id).output.read_text().splitlines()[-1]
    assert f"  {last}" in rest.splitlines()


@pytest.mark.long
def test_a_held_drive_and_a_host_in_maintenance_start_nothing_new(lab: TestLab, terminal: Terminal) -> None:
    """The run waits, with the reason; a run on another drive starts; the release starts the run."""
    lab.add("h1", "A", "B").start()
    until(lambda: len(states(lab)) == 2, "the agent reports its drives")
    terminal("hold", "A", "--reason", "a cable")
    held, free = request("A"), request("B")
    lab.submit(held, free)
    lab.until_state(free.run_id, "finished")
    assert lab.run(held.run_id)["state"] == "queued"
    assert [run["waits_for"] for run in terminal.json("queue")] == ["a release (a cable)"]
    terminal("hosts", "--maintenance", "h1")
    terminal("release", "A")
    another = request("B")
    lab.submit(another)
    until(lambda: "is in maintenance" in lab.hosts["h1"].log, "the agent sees the maintenance")
    assert {run["state"] for run in terminal.json("queue")} == {"queued"}
    terminal("hosts", "--end-maintenance", "h1")
    for waiting in (held, another):
        assert lab.until_state(waiting.run_id, "finished")["exit_code"] == 0


@pytest.mark.long
def test_a_run_is_stopped_and_resumed(lab: TestLab, terminal: Terminal) -> None:
    """The stop ends it after the current point, and the resumed run ends as one that was never stopped."""
    host = lab.add("h1", "A").start()
    until(lambda: states(lab), "the agent reports its drive")
    run = request("A", LONGER)
    lab.submit(run)
    lab.until_state(run.run_id, "running")
    assert "its agent stops it" in terminal("stop", str(run.run_id))[1]
    assert lab.until_state(run.run_id, "stopped")["exit_code"] == 130
    assert "lab stopped it. Stopped by a request to the lab in step " in terminal("runs")[0]
    assert states(lab) == {"A": ("idle", "")}
    terminal("resume", "--from-purge", str(run.run_id)[:8])
    resumed = lab.until_state(run.run_id, "finished")
    assert (resumed["exit_code"], resumed["stopped_by"]) == (0, "")
    assert host.starts(run.run_id) == ["fresh", "from-purge"]


@pytest.mark.long
def test_a_lost_run_holds_its_drive_until_a_person_resumes_it(lab: TestLab, terminal: Terminal) -> None:
    """Its process is killed, its request says hold: nothing is started, also no other run of the drive."""
    host = lab.add("h1", "A").start()
    until(lambda: states(lab), "the agent reports its drive")
    run, following = request("A", LONG, on_lost="hold"), request("A")
    lab.submit(run, following)
    lab.until_state(run.run_id, "running")
    os.kill(host.process(run.run_id), signal.SIGKILL)
    lab.until_state(run.run_id, "lost")
    until(lambda: "waits: the drive is held" in host.log, "the following run waits")
    assert states(lab)["A"] == ("held", f"a release (run {run.run_id} is lost)")
    assert host.starts(run.run_id) == ["fresh"]
    terminal("resume", "--from-purge", str(run.run_id))
    for ended in (run, following):
        assert lab.until_state(ended.run_id, "finished")["exit_code"] == 0


@pytest.mark.long
def test_a_host_without_its_state_folder_starts_no_run_again(lab: TestLab, terminal: Terminal) -> None:
    """The database knows that the run was started: it is lost, and its drive is held until a person decides."""
    host = lab.add("h1", "A").start()
    until(lambda: states(lab), "the agent reports its drive")
    run = request("A", LONG)
    lab.submit(run)
    lab.until_state(run.run_id, "running")
    os.kill(host.process(run.run_id), signal.SIGSTOP)
    host.end(signal.SIGKILL)
    host.close()
    shutil.rmtree(host.folder / "state")
    host.start()
    row = lab.until_state(run.run_id, "lost")
    assert "this host's state folder has no record of it" in row["message"]
    assert states(lab)["A"] == ("held", f"a release (run {run.run_id} is lost)")
    assert not host.state(run.run_id).exists()


@pytest.mark.long
def test_the_agent_refuses_what_its_configuration_does_not_allow(lab: TestLab) -> None:
    """A drive that is not in its file, whatever the database says, and a purge method; nothing is started."""
    host = lab.add("h1", "A").start()
    until(lambda: states(lab), "the agent reports its drive")
    lab.query("INSERT INTO lab_drive (serial, claimed_by_host) VALUES ('FOREIGN', 'h1')")
    foreign = request("FOREIGN")
    lab.submit(foreign)
    row = lab.until_state(foreign.run_id, "refused")
    assert row["exit_code"] == 27
    assert "has no drive FOREIGN that may be destroyed" in row["message"]
    assert not host.state(foreign.run_id).exists()


@pytest.mark.long
def test_a_second_agent_of_a_host_ends(lab: TestLab) -> None:
    """It says so, with its own exit code; the first one goes on."""
    host = lab.add("h1", "A").start()
    until(lambda: states(lab), "the agent reports its drive")
    first = host._agent
    assert host.start()._agent is not first
    assert host._agent is not None
    assert host._agent.wait(60) == AgentRunning.exit_code
    assert f"Another agent uses {host.folder}/state." in host.log
    host._agent = first
    assert host.end() == 0


@pytest.mark.long
def test_a_forged_request_to_abort_does_not_end_a_run(lab: TestLab) -> None:
    """Any role may send a notification; the agent goes on, and reports the end of the run."""
    lab.add("h1", "A").start()
    until(lambda: states(lab), "the agent reports its drive")
    lab.add("h2")
    run = request("A", LONG)
    lab.submit(run)
    lab.until_state(run.run_id, "running")
    ((job,),) = lab.query("SELECT id FROM procrastinate_jobs")
    message = json.dumps({"type": "abort_job_requested", "job_id": job})
    with lab.as_agent("h2") as connection:
        connection.execute("SELECT pg_notify('procrastinate_queue_v1#host:h1', %s)", (message,))
    assert lab.until_state(run.run_id, "finished")["exit_code"] == 0
    assert lab.query("SELECT status::text FROM procrastinate_jobs") == [("succeeded",)]


@pytest.mark.long
def test_an_abort_by_procrastinate_does_not_lose_a_run(lab: TestLab) -> None:
    """A job with such a request cannot wait again; an agent that starts reclaims it all the same."""
    host = lab.add("h1", "A").start()
    until(lambda: states(lab), "the agent reports its drive")
    run = request("A", LONG)
    lab.submit(run)
    lab.until_state(run.run_id, "running")
    host.end(signal.SIGKILL)
    ((job,),) = lab.query("SELECT id FROM procrastinate_jobs WHERE status = 'doing'")
    with psycopg.connect(lab.url) as connection:
        manager = App(connector=SyncPsycopgConnector()).job_manager
        assert manager.cancel_job_by_id(job, abort=True, connection=connection)
    host.start()
    assert lab.until_state(run.run_id, "finished")["exit_code"] == 0
    assert host.starts(run.run_id) == ["fresh"]
    assert lab.query("SELECT status::text FROM procrastinate_jobs") == [(Status.SUCCEEDED.value,)]


@pytest.mark.long
def test_an_agent_that_is_stopped_leaves_its_run_going(lab: TestLab) -> None:
    """SIGTERM ends it at once; the job waits for the next agent, which attaches to the run."""
    host = lab.add("h1", "A").start()
    until(lambda: states(lab), "the agent reports its drive")
    run = request("A", LONG)
    lab.submit(run)
    lab.until_state(run.run_id, "running")
    os.kill(process := host.process(run.run_id), signal.SIGSTOP)
    assert host.end() == 0
    assert lab.query("SELECT status::text FROM procrastinate_jobs") == [("todo",)]
    assert lab.query("SELECT * FROM procrastinate_workers") == []
    host.start()
    until(lambda: lab.query("SELECT id FROM procrastinate_jobs WHERE status = 'doing'"), "the job is fetched again")
    os.kill(process, signal.SIGCONT)
    assert lab.until_state(run.run_id, "finished")["exit_code"] == 0
    assert host.starts(run.run_id) == ["fresh"]


@pytest.mark.long
@pytest.mark.parametrize("restarted", [False, True])
def test_a_run_that_waits_gives_way_to_one_of_higher_priority(
    lab: TestLab, terminal: Terminal, *, restarted: bool
) -> None:
    """It goes back to the queue, also after a restart of the agent, and can be cancelled there as any other one."""
    host = lab.add("h1", "A").start()
    until(lambda: states(lab), "the agent reports its drive")
    terminal("hold", "A", "--reason", "a cable")
    waiting, cancelled, urgent = request("A"), request("A"), request("A")
    lab.submit(waiting)
    until(lambda: f"run {waiting.run_id} waits: the drive is held" in host.log, "the run waits")
    if restarted:
        host.end()
    lab.submit(cancelled, priority=3)
    lab.submit(urgent, priority=5)
    if restarted:
        host.start()
    until(lambda: f"run {urgent.run_id} waits: the drive is held" in host.log, "the urgent run waits instead")
    assert f"run {waiting.run_id} goes back to the queue" in host.log
    fetched = lab.query("SELECT args->>'run_id', priority FROM procrastinate_jobs WHERE status = 'doing'")
    assert fetched == [(str(urgent.run_id), 5)]
    assert "cancelled before it started" in terminal("stop", str(cancelled.run_id))[1]
    terminal("release", "A")
    first, second = (lab.until_state(run.run_id, "finished") for run in (urgent, waiting))
    assert first["ended"] <= second["started"]
    assert [host.starts(run.run_id) for run in (urgent, waiting)] == [["fresh"], ["fresh"]]


def _says(host: Host, line: str) -> bool:
    return line in host.log


@pytest.mark.long
def test_a_free_place_goes_to_the_run_with_the_highest_priority(lab: TestLab) -> None:
    """Whichever drive it is on, and although it was submitted last."""
    host = lab.add("h1", "A", "B", "C", side_by_side=1).start()
    until(lambda: len(states(lab)) == 3, "the agent reports its drives")
    first, later, urgent = request("A", LONG), request("B"), request("C")
    lab.submit(first)
    lab.until_state(first.run_id, "running")
    for run, priority in ((later, 0), (urgent, 5)):
        lab.submit(run, priority=priority)
        waits = f"run {run.run_id} waits: 1 run in progress"
        until(partial(_says, host, waits), "the run waits")
    ended = [lab.until_state(run.run_id, "finished") for run in (first, urgent, later)]
    assert ended[0]["ended"] <= ended[1]["started"]
    assert ended[1]["ended"] <= ended[2]["started"]


@pytest.mark.long
def test_no_more_runs_go_on_side_by_side_than_configured(lab: TestLab) -> None:
    """The second drive waits until the run on the first one has ended."""
    host = lab.add("h1", "A", "B", side_by_side=1).start()
    until(lambda: len(states(lab)) == 2, "the agent reports its drives")
    first, second = request("A", LONG), request("B")
    lab.submit(first)
    lab.until_state(first.run_id, "running")
    lab.submit(second)
    until(lambda: "1 run in progress, the limit of side_by_side" in host.log, "the second run waits")
    assert lab.run(second.run_id)["state"] == "queued"
    ended = [lab.until_state(run.run_id, "finished") for run in (first, second)]
    assert ended[0]["ended"] <= ended[1]["started"]
