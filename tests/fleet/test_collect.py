"""Results come home: they are received, added to a store and acknowledged, whatever is killed on the way."""

from __future__ import annotations

import json
import multiprocessing
import random
import shutil
import time
from collections.abc import Callable
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import psycopg
import pytest

from snia_pts.cli.main import main
from snia_pts.errors import RunFolderError
from snia_pts.fleet import transfer
from snia_pts.fleet.collect import Collected, collect
from snia_pts.fleet.run_state import Ended, HostRuns, Lost, Outcome, Running
from snia_pts.fleet.sending import ResultSender
from snia_pts.store.store import Filter, Store
from snia_pts.units import GIB, capacity
from tests.fleet.labs import TestLab, request, until
from tests.fleet.test_rights import run_of, with_hosts
from tests.fleet.test_transfer import files, sent
from tests.store.killed import content_by_name
from tests.store.test_store import cut_before_resumption
from tests.test_run_folders import unpacked

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.fleet.test_collect"])
_KILLS = 8


@pytest.fixture(name="hosts")
def _hosts(lab: TestLab) -> TestLab:
    """A lab with the hosts h1 and h2, and a run on each."""
    return with_hosts(lab, "h1", "h2")


@pytest.fixture(name="run", scope="module")
def _run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run."""
    return unpacked("hir", tmp_path_factory.mktemp("runs"))


def ended(lab: TestLab, serial: str, state: str = "finished") -> UUID:
    """Report the end of the run on a drive, as its agent does; return the run."""
    run_id = run_of(lab, serial)
    with lab.as_agent("h1" if serial == "A" else "h2") as connection:
        for reported in ("running", state):
            connection.execute("SELECT lab_report(%s, %s, 0, '', '', '')", (run_id, reported))
    return run_id


def unreceived(lab: TestLab, host: str) -> list[UUID]:
    """Return the runs whose results a host still has to send."""
    with lab.as_agent(host) as connection:
        return [row["lab_unreceived"] for row in connection.execute("SELECT lab_unreceived()")]


def collected(lab: TestLab, place: Path) -> list[Collected]:
    """Collect the results of a lab as the controller, into ``place``."""
    url = lab.url.replace("lab@", "lab_controller@")
    return list(collect(url, place / "home", str(place / "store.sqlite")))


def stored(place: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return the content of the store in ``place``."""
    with Store(place / "store.sqlite") as store:
        return content_by_name(store)


def left(lab: TestLab) -> tuple[int, int]:
    """Return the numbers of chunks and uploads in the database."""
    return (len(lab.query("SELECT digest FROM lab_chunk")), len(lab.query("SELECT id FROM lab_upload")))


def test_a_finished_run_is_in_the_store_and_acknowledged(hosts: TestLab, run: Path, tmp_path: Path) -> None:
    """The folder is equal, the store has the labels, the database has only the receipt."""
    hosts.query(
        "UPDATE lab_request SET request = jsonb_set(request, '{labels}', '{\"lot\": \"7\"}'), campaign = 'spring'"
    )
    run_id = ended(hosts, "A")
    assert unreceived(hosts, "h1") == [run_id]
    assert unreceived(hosts, "h2") == []
    sent(hosts, "h1", run_id, run)

    (result,) = collected(hosts, tmp_path)
    assert (result.run_id, result.host, result.serial, result.outcome, result.message) == (
        run_id,
        "h1",
        "A",
        "stored",
        "",
    )
    assert result.folder == tmp_path / "home" / str(run_id)
    assert files(result.folder) == files(run)
    with Store(tmp_path / "store.sqlite") as store:
        labels = {"lot": "7", "campaign": "spring", "lab_run": str(run_id)}
        assert store.runs(Filter(labels=labels)).columns["folder"] == (str(result.folder),)
    assert left(hosts) == (0, 0)
    assert hosts.query("SELECT outcome FROM lab_receipt") == [("stored",)]
    assert hosts.query("SELECT message, kind FROM lab_event WHERE kind LIKE 'results%%'") == [("", "results stored")]
    assert unreceived(hosts, "h1") == []
    assert collected(hosts, tmp_path) == []


def test_what_is_still_being_sent_is_named(
    hosts: TestLab, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As long as a part is missing: what is there, and whether the host is silent; only then nothing waits."""
    words = ["lab", "collect", "--database", hosts.url, "--runs", str(tmp_path / "home")]
    words += ["--store", str(tmp_path / "store.sqlite")]

    def said() -> list[str]:
        assert main(words) == 0
        return capsys.readouterr().err.splitlines()

    assert said() == ["snia-pts: no results wait"]
    first, second = (str(ended(hosts, serial)) for serial in ("A", "B"))
    hosts.query("UPDATE lab_host SET last_seen = now() - interval '31 s' WHERE name = 'h2'")
    assert said() == [
        f"snia-pts: h1 is still sending the results of run {first[:8]}",
        f"snia-pts: h2 is silent, and has not sent the results of run {second[:8]} yet",
    ]
    sent(hosts, "h1", UUID(first), run)
    hosts.query("DELETE FROM lab_chunk WHERE length(content) < 5000")
    ((size,),) = hosts.query("SELECT sum(length(content)) FROM lab_chunk")
    assert said()[0] == f"snia-pts: h1 is still sending the results of run {first[:8]}, {capacity(size)} so far"
    for host, run_id in (("h1", first), ("h2", second)):
        sent(hosts, host, UUID(run_id), run)
    assert said() == []
    assert said() == ["snia-pts: no results wait"]


@pytest.mark.long
def test_the_results_of_an_agent_come_home(lab: TestLab, tmp_path: Path) -> None:
    """From the request to the store: the agent performs two runs and sends their folders; its own ones stay."""
    host = lab.add("h1", "A", "B").start()
    until(lambda: lab.query("SELECT serial FROM lab_drive"), "the agent reports its drives")
    runs = [request("A"), request("B")]
    lab.submit(*runs)
    home = dict[UUID, Path]()

    def all_stored() -> bool:
        home.update((result.run_id, result.folder) for result in collected(lab, tmp_path) if result.outcome == "stored")
        return len(home) == len(runs)

    until(all_stored, "the results of both runs are in the store")
    for run in runs:
        assert files(home[run.run_id]) == files(host.folder / "runs" / str(run.run_id))
    with Store(tmp_path / "store.sqlite") as store:
        assert len(store.runs()) == len(runs)
    assert left(lab) == (0, 0)


def test_a_stopped_run_that_was_resumed_comes_home_again(hosts: TestLab, tmp_path: Path) -> None:
    """Folder and rows are replaced; the results of the stopped run do not count for the resumed one."""
    whole = unpacked("interrupted", tmp_path)
    partial = Path(shutil.copytree(whole, tmp_path / "partial"))
    cut_before_resumption(partial)
    run_id = ended(hosts, "A", "stopped")
    sent(hosts, "h1", run_id, partial)
    ended(hosts, "A")  # it was resumed before the controller had the first state
    assert [result.outcome for result in collected(hosts, tmp_path)] == ["stored"]
    assert len(stored(tmp_path)["run"]) == 1
    assert unreceived(hosts, "h1") == [run_id]

    sent(hosts, "h1", run_id, whole)
    assert [result.outcome for result in collected(hosts, tmp_path)] == ["stored"]
    assert len(stored(tmp_path)["run"]) == 1
    assert files(tmp_path / "home" / str(run_id)) == files(whole)
    assert unreceived(hosts, "h1") == []


def test_results_that_the_store_does_not_take_are_kept(hosts: TestLab, run: Path, tmp_path: Path) -> None:
    """A folder without a run, and one whose evidence was changed, are on the controller, with a reason."""
    changed = Path(shutil.copytree(run, tmp_path / "changed"))
    next((changed / "evidence").iterdir()).write_text("{}")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "log.txt").write_text("failed")
    for host, serial, folder in (("h1", "A", changed), ("h2", "B", tmp_path / "logs")):
        sent(hosts, host, ended(hosts, serial, "failed"), folder)
    results = collected(hosts, tmp_path)
    assert [result.outcome for result in results] == ["kept", "kept"]
    assert "differs" in results[0].message
    assert "no run" in results[1].message or "no journal" in results[1].message
    assert [files(result.folder) for result in results] == [files(changed), files(tmp_path / "logs")]
    assert left(hosts) == (0, 0)


def test_a_refused_upload_does_not_keep_the_others_out(hosts: TestLab, run: Path, tmp_path: Path) -> None:
    """It is acknowledged as refused; nothing of it is written."""
    file = {"path": "../evil", "size": 0, "mode": 0o644, "sha256": sha256(b"").hexdigest(), "chunks": []}
    manifest = json.dumps({"format": 1, "files": [file]}).encode()
    with hosts.as_agent("h1") as connection:
        connection.execute(
            "INSERT INTO lab_upload (run_id, digest, manifest) VALUES (%s, %s, %b)",
            (run_of(hosts, "A"), sha256(manifest).hexdigest(), manifest),
        )
    sent(hosts, "h2", ended(hosts, "B"), run)
    sent(hosts, "h1", run_of(hosts, "A"), tmp_path / "none")  # a newer upload without files replaces the hostile one
    assert [result.outcome for result in collected(hosts, tmp_path)] == ["stored", "empty"]
    with hosts.as_agent("h1") as connection:
        connection.execute(
            "INSERT INTO lab_upload (run_id, digest, manifest) VALUES (%s, %s, %b)",
            (run_of(hosts, "A"), sha256(manifest).hexdigest(), manifest),
        )
    (result,) = collected(hosts, tmp_path)
    assert result.outcome == "refused"
    assert "the file '../evil' is not in the folder" in result.message
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == [".collect", str(run_of(hosts, "B"))]
    assert left(hosts) == (0, 0)


def test_only_one_process_collects_into_a_folder(hosts: TestLab, run: Path, tmp_path: Path) -> None:
    """A second one is refused; results that are not complete wait."""
    sent(hosts, "h1", ended(hosts, "A"), run)
    sent(hosts, "h2", ended(hosts, "B"), run)
    hosts.query("DELETE FROM lab_chunk WHERE run_id = %s AND length(content) < 5000", run_of(hosts, "B"))
    first = collect(hosts.url, tmp_path / "home", str(tmp_path / "store.sqlite"))
    assert next(first).run_id == run_of(hosts, "A")
    with pytest.raises(RunFolderError, match="another process receives results"):
        collected(hosts, tmp_path)
    assert list(first) == []
    sent(hosts, "h2", run_of(hosts, "B"), run)
    assert [result.run_id for result in collected(hosts, tmp_path)] == [run_of(hosts, "B")]


def test_a_sender_sends_until_it_is_acknowledged(hosts: TestLab, run: Path, tmp_path: Path) -> None:
    """Not while the run goes on; again if its chunks are gone; a failure is said once; the folder stays."""
    said = list[str]()
    ended(hosts, "A")
    outcome: Outcome = Running(pid=1, folder=run)

    class Runs:
        """The runs of a host, with one in this state."""

        def state(self, run_id: UUID) -> Outcome:
            del run_id
            return outcome

    sender = ResultSender(
        psycopg.conninfo.conninfo_to_dict(hosts.url.replace("lab@", "agent_h1@")),
        cast("HostRuns", Runs()),
        said.append,
    )

    def send() -> tuple[int, int]:
        sender.send_all(lambda: False)
        return left(hosts)

    assert send() == (0, 0)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "link").symlink_to("/etc/passwd")
    outcome = Lost(starts=1, decision="hold", progress="kept", folder=broken)
    assert (send(), send(), len(said)) == ((0, 0), (0, 0), 1)
    outcome = Ended(exit_code=0, message="", folder=run)
    hosts.query("UPDATE lab_host SET chunk_bytes = %s", 64 * GIB)
    assert (send(), send(), len(said)) == ((0, 0), (0, 0), 2)
    assert "64 GiB of results of this host that were not collected. snia-pts lab collect receives them." in said[-1]
    hosts.query("UPDATE lab_host SET chunk_bytes = 0")
    chunks, _ = send()
    assert (chunks > 5, send()) == (True, (chunks, 1))
    hosts.query("TRUNCATE lab_chunk")
    assert send() == (chunks, 1)
    assert [result.outcome for result in collected(hosts, tmp_path)] == ["stored"]
    assert send() == (0, 0)
    assert run.is_dir()


# -- kills ------------------------------------------------------------------------------------------------------------


class _Killed(BaseException):
    """Ends a call at an operation, as a kill does."""


def _killed_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the operation on the database, the store or a folder with this number, and none before it, end the call."""
    numbers = count()

    def counted(operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if next(numbers) == number:
                raise _Killed
            return operation(*arguments, **options)

        return call

    monkeypatch.setattr(psycopg.Connection, "execute", counted(psycopg.Connection.execute))
    monkeypatch.setattr(Store, "add", counted(Store.add))
    for name in ("make_folder", "rename", "_present"):
        monkeypatch.setattr(transfer, name, counted(getattr(transfer, name)))


@pytest.mark.long
def test_a_call_that_is_killed_anywhere_is_followed_by_one_that_ends_in_the_same_state(
    hosts: TestLab, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each operation of a file, the store and the database."""
    for number in count():
        place = tmp_path / str(number)
        place.mkdir()
        hosts.query("TRUNCATE lab_receipt")
        sent(hosts, "h1", run_of(hosts, "A"), run)
        with monkeypatch.context() as patch:
            _killed_at(number, patch)
            try:
                collected(hosts, place)
            except _Killed:
                is_killed = True
            else:
                is_killed = False
        collected(hosts, place)
        assert_home(hosts, place, run, "A")
        shutil.rmtree(place)
        if not is_killed:
            break
    assert number > 10


def assert_home(lab: TestLab, place: Path, run: Path, *serials: str) -> None:
    """Check that the results of these drives are home, and nothing else is anywhere."""
    names = sorted(str(run_of(lab, serial)) for serial in serials)
    assert sorted(path.name for path in (place / "home").iterdir()) == [".collect", *names]
    for name in names:
        assert files(place / "home" / name) == files(run)
    assert len(stored(place)["run"]) == 1  # both are the same run
    assert left(lab) == (0, 0)
    assert lab.query("SELECT outcome FROM lab_receipt") == [("stored",)] * len(names)


def _collect(url: str, place: Path) -> None:
    list(collect(url, place / "home", str(place / "store.sqlite")))


@pytest.mark.long
def test_a_killed_process_loses_nothing(hosts: TestLab, run: Path, tmp_path: Path) -> None:
    """Killed at random times, and called again until it ends: each result is there once."""
    source, killed, seconds = random.Random(4711), 0, 3.0
    while killed < _KILLS:
        shutil.rmtree(tmp_path / "place", ignore_errors=True)
        (tmp_path / "place").mkdir()
        hosts.query("TRUNCATE lab_receipt")
        sent(hosts, "h1", run_of(hosts, "A"), run)
        sent(hosts, "h2", run_of(hosts, "B"), run)
        while True:
            process = _CONTEXT.Process(target=_collect, args=(hosts.url, tmp_path / "place"))
            began = time.monotonic()
            process.start()
            process.join(source.uniform(0, seconds))
            if process.exitcode is None:
                process.kill()
                process.join()
            if process.exitcode == 0:
                seconds = 1.1 * (time.monotonic() - began)
                break
            assert process.exitcode == -9
            killed += 1
            seconds *= 1.1  # so that it ends on a host that is slower now
        assert_home(hosts, tmp_path / "place", run, "A", "B")
