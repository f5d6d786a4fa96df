"""The API: its description, its answers for real runs, its one form of errors, and its events."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from threading import Event
from typing import Any, NoReturn

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from pydantic import TypeAdapter
from schemathesis import GenerationMode
from schemathesis.core.result import Ok
from starlette.testclient import TestClient

import snia_pts as pts
from snia_pts.errors import HostFailed, NotRunning, SniaPtsError, UnknownRun
from snia_pts.record.folder import RunFolder
from snia_pts.record.locks import lock
from snia_pts.store.store import Store
from snia_pts.web.access import ROUTES, Access
from snia_pts.web.api import PREFIX
from snia_pts.web.application import make_application
from snia_pts.web.folder_source import FolderSource
from snia_pts.web.model import RunDetail
from snia_pts.web.pages import PAGE_ROUTES
from snia_pts.web.problem import error_response, error_status
from snia_pts.web.sessions import Sessions
from snia_pts.web.site import make_site
from snia_pts.web.source import UNNAMED
from snia_pts.web.users import UserFile
from tests.store.stored_runs import like, put, rows_of
from tests.test_api_running import OPTIONS
from tests.test_run_folders import unpacked

ORIGIN = "http://127.0.0.1:8400"
OWN = {"Origin": ORIGIN}


def stopped_run(folder: Path) -> None:
    """Make a run that was stopped in its first round."""
    stop = Event()

    def stop_soon(event: object) -> None:
        if isinstance(event, pts.events.OutcomeRecorded):
            stop.set()

    with pytest.raises(pts.errors.Interrupted):
        pts.run(replace(OPTIONS, run_folder=folder), on_event=stop_soon, stop=stop)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a finished run and a stopped one."""
    folder = tmp_path_factory.mktemp("runs")
    pts.run(replace(OPTIONS, run_folder=folder / "finished"))
    stopped_run(folder / "stopped")
    return folder


@pytest.fixture(scope="module")
def application(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    """Return an application without users, where everybody is an admin."""
    return make(runs, tmp_path_factory.mktemp("users") / "users.json")


def make(runs: Path, users: Path, store: str = "") -> FastAPI:
    """Return an application for a folder of runs, a file of users, and a store."""
    access = Access(site=make_site("127.0.0.1"), users=UserFile(users), sessions=Sessions(), anyone="admin")
    return make_application(FolderSource(runs, store), access)


def make_with_store(runs: Path, folder: Path) -> FastAPI:
    """Return an application for two equal runs, A and B, and a store with another one, in ``folder``."""
    for name in ("A", "B"):
        shutil.copytree(runs / "finished", folder / "runs" / name)
    with Store(folder / "store.sqlite", create=True) as store:
        put(store, like(rows_of(unpacked("iops", folder)), 0, serial="A"))
    return make(folder / "runs", folder / "users.json", str(folder / "store.sqlite"))


def point_and_model(folder: Path) -> tuple[str, str]:
    """Return a point of the metric ``iops`` in the store in ``folder``, and the model of its run."""
    with Store(folder / "store.sqlite") as store:
        metrics = store.metrics().columns
        return str(metrics["at"][metrics["metric"].index("iops")]), str(store.runs().columns["model"][0])


def known_queries(folder: Path) -> dict[str, dict[str, Any]]:
    """Return queries of results with names that the store and the runs in ``folder`` have, by path."""
    at, model = point_and_model(folder)
    period = {"since": "", "before": ""}
    return {
        "/results": period,
        "/results/trend": {"metric": "iops", "at": at, "by": "firmware", **period},
        "/results/spread": {"metric": "iops", "model": model, **period},
        "/results/comparison": {"run": ["A", "B"]},
    }


@pytest.fixture
def client(application: FastAPI) -> Iterator[TestClient]:
    """Return a client of it."""
    with TestClient(application, base_url=ORIGIN) as client:
        yield client


def problem(answer: Any, status: int) -> dict[str, Any]:
    """Return the problem document of an answer with this status."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    document: dict[str, Any] = answer.json()
    assert document["status"] == status
    assert set(document) >= {"type", "title", "status", "detail", "hint", "errors"}
    return document


# -- the description -------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_description_has_every_route_with_a_type(client: TestClient) -> None:
    """Each operation has a summary, and a schema of its answer that is not empty."""
    document = client.get(f"{PREFIX}/openapi.json").json()
    operations = {
        (method.upper(), path): operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }

    assert set(operations) == {route for route in ROUTES if route[1].startswith(PREFIX)} - {
        ("GET", f"{PREFIX}/openapi.json")
    }
    for (method, path), operation in operations.items():
        success = operation["responses"]["201" if (method, path) == ("POST", f"{PREFIX}/runs") else "200"]
        content = success["content"]
        assert operation["summary"], path
        assert "text/event-stream" in content or content["application/json"]["schema"], path
        assert "application/problem+json" in operation["responses"]["422"]["content"], path
    assert document["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"


@pytest.mark.long
def test_no_request_of_the_description_fails_inside(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Schemathesis makes valid and invalid requests of the description; the source starts no process for them.

    Requests for results are also made with names that the store and the folder have, which cannot be guessed.
    """
    monkeypatch.setattr("snia_pts.web.folder_source.start", _refuse)
    application = make_with_store(runs, tmp_path)
    known = known_queries(tmp_path)
    schema = schemathesis.openapi.from_asgi(f"{PREFIX}/openapi.json", application, headers=OWN | {"Host": "localhost"})
    statuses = dict[str, set[int]]()

    def send(case: Any) -> None:
        answer = case.call(headers={**OWN, "Host": "127.0.0.1:8400"})
        statuses.setdefault(case.operation.label, set()).add(answer.status_code)
        assert answer.status_code < 500, case.as_curl_command()

    for result, mode in product(schema.exclude(path_regex="/events$").get_all_operations(), GenerationMode):
        assert isinstance(result, Ok)
        operation = result.ok()
        if mode.is_negative and not operation.body and not operation.query:
            continue  # every such request is valid

        @settings(max_examples=5, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case: Any) -> None:
            """Send a request, as it was made and with known names."""
            case.headers.pop("Authorization", None)  # invented tokens would be refused before everything else
            send(case)
            if values := known.get(case.path.removeprefix(PREFIX)):
                case.query = {**(case.query or {}), **values}
                send(case)

        check()
    expected = {f"{method} {path}" for method, path in ROUTES if path.startswith(PREFIX)}
    without = {f"GET {PREFIX}/openapi.json", f"GET {PREFIX}/runs/{{run_id}}/events"}
    assert set(statuses) == expected - without
    answered = ["/drives", "/runs", "/queue", "/hosts", "/results/metrics", *known]
    assert [path for path in answered if 200 not in statuses[f"GET {PREFIX}{path}"]] == []
    assert {status for found in statuses.values() for status in found} >= {200, 404, 422}


def _refuse(*_: object) -> NoReturn:
    raise NotRunning(path=Path("run"), reason="it is a test")


# -- answers ---------------------------------------------------------------------------------------------------------


def test_what_is_served_and_who_asks(client: TestClient, runs: Path) -> None:
    """The name of the folder, the version, and the role."""
    assert client.get(PREFIX).json() == {
        "name": str(runs),
        "version": pts.__version__,
        "has_lab": False,
        "has_results": False,
        "user": "",
        "role": "admin",
    }


def test_runs_are_listed_by_state_test_and_drive(client: TestClient) -> None:
    """The views are those of the source; what does not match is left out."""
    both = client.get(f"{PREFIX}/runs").json()
    states = {run["id"]: run["state"] for run in both}

    assert states == {"finished": "finished", "stopped": "stopped"}
    assert [run["id"] for run in client.get(f"{PREFIX}/runs", params={"state": "stopped"}).json()] == ["stopped"]
    drive, test = both[0]["drive_id"], both[0]["test"]
    assert len(client.get(f"{PREFIX}/runs", params={"drive": drive, "test": test}).json()) == 2
    assert client.get(f"{PREFIX}/runs", params={"drive": "another"}).json() == []
    drives = client.get(f"{PREFIX}/drives").json()
    assert [entry["id"] for entry in drives] == [drive]
    problem(client.get(f"{PREFIX}/runs", params={"state": "x"}), 422)


def test_a_run_is_that_of_the_library(client: TestClient, runs: Path) -> None:
    """The numbers of its rounds, with all digits."""
    document = client.get(f"{PREFIX}/runs/finished").json()
    detail = FolderSource(runs).run("finished")

    assert TypeAdapter(RunDetail).validate_python(document) == detail
    assert document["run"]["verdict"] == pts.load(runs / "finished").verdict
    found = problem(client.get(f"{PREFIX}/runs/none"), 404)
    assert (found["type"], found["exit_code"]) == ("snia-pts:UnknownRun", 14)


def test_a_plan_is_that_of_the_library(client: TestClient) -> None:
    """The bounds of time and of written bytes."""
    request = {"test": "iops", "target": "sim:enterprise-nvme", "overrides": ["rounds.maximum=7"]}
    document = client.post(f"{PREFIX}/plan", json=request, headers=OWN).json()
    longest = pts.plan(
        pts.RunOptions(test="iops", target="sim:enterprise-nvme", overrides=("rounds.maximum=7",))
    ).plan.longest

    assert document["most_seconds"] == longest.seconds
    assert document["most_written_bytes"] == longest.written_bytes
    assert document["deviations"]


@pytest.mark.parametrize("target", ["/dev/vda", "../vda", "sim:/etc/passwd", "array:x", "nvme0n1/x", "", "sim:", "~"])
@pytest.mark.parametrize("path", ["plan", "runs"])
def test_no_drive_is_tested_without_a_lab(client: TestClient, target: str, path: str) -> None:
    """Only simulated drives and files in the folder; the typed serial number of a drive changes nothing."""
    for serial in ("", "S1"):
        request = {"test": "iops", "target": target, "serial": serial}
        document = problem(client.post(f"{PREFIX}/{path}", json=request, headers=OWN), 422)
        assert document["type"] == "snia-pts:UsageError"
        assert "simulated drive" in document["hint"]


def test_stored_results_are_those_of_the_store(runs: Path, tmp_path: Path) -> None:
    """Metrics, a trend and a spread have the values of the store, and a comparison those of the library."""
    application = make_with_store(runs, tmp_path)
    at, model = point_and_model(tmp_path)
    with Store(tmp_path / "store.sqlite") as store:
        metrics, trend, spread = store.metrics(), store.trend("iops", at=at), store.spread(model, metric="iops")
    compared = pts.compare([tmp_path / "runs" / "A", tmp_path / "runs" / "B"])
    with TestClient(application, base_url=f"{ORIGIN}{PREFIX}/results/") as client:
        assert [item["at"] for item in client.get("metrics").json()] == list(metrics.columns["at"])
        (group,) = client.get("trend", params={"metric": "iops", "at": at}).json()["groups"]
        assert (group["runs"], group["median"]) == (1, trend.columns["median"][0])
        rows = client.get("spread", params={"model": model, "metric": "iops"}).json()
        assert [row["mean"] for row in rows] == list(spread.columns["mean"])
        figures = client.get("comparison?run=A&run=B").json()["figures"]
        assert [[item["value"] for item in figure["values"]] for figure in figures] == [
            list(figure.values) for figure in compared.figures
        ]
        assert {figure["values"][1]["difference_percent"] for figure in figures} <= {0.0, None}
        problem(client.get("trend", params={"metric": "x"}), 422)
        problem(client.get("spread"), 422)
        problem(client.get("comparison?run=A"), 422)
        problem(client.get("comparison?run=A&run=C"), 404)


@pytest.mark.parametrize(
    ("body", "mistake"),
    [
        (b"{", "JSON"),
        (b"[]", "body"),
        (b'{"target": "sim:enterprise-nvme"}', "test: "),
        (b'{"test": "iops", "target": "sim:enterprise-nvme", "command": "rm"}', "command: "),
        (b'{"test": 1, "target": []}', "target: "),
    ],
)
def test_every_mistake_of_a_request_is_named(client: TestClient, body: bytes, mistake: str) -> None:
    """With its key; unknown keys are mistakes."""
    headers = {**OWN, "Content-Type": "application/json"}
    document = problem(client.post(f"{PREFIX}/runs", content=body, headers=headers), 422)

    assert any(mistake in sentence for sentence in document["errors"])
    assert document["hint"] == f"{PREFIX}/openapi.json describes each request."


def test_a_change_that_the_state_does_not_allow_is_a_conflict(client: TestClient) -> None:
    """A run that has ended is not stopped, and a finished one not resumed; drives are held in a lab only."""
    for run, change in (("finished", "stop"), ("stopped", "stop"), ("finished", "resume")):
        document = problem(client.post(f"{PREFIX}/runs/{run}/{change}", json={}, headers=OWN), 409)
        assert document["detail"]
        assert document["hint"]
    problem(client.post(f"{PREFIX}/drives/S1/hold", json={"reason": "cable"}, headers=OWN), 422)
    problem(client.post(f"{PREFIX}/drives/S1/hold", json={"reason": ""}, headers=OWN), 422)
    problem(client.post(f"{PREFIX}/runs/none/stop", json={}, headers=OWN), 404)


def test_each_error_of_the_suite_is_a_problem_with_its_exit_code() -> None:
    """A fault of the host is a 503, one of the request a 4xx; the sentences are those of the program."""
    error = HostFailed(step="start", what="fio", reason="no memory")
    answer = error_response(error)

    assert answer.status_code == 503
    assert json.loads(bytes(answer.body)) == {
        "type": "snia-pts:HostFailed",
        "title": "Service Unavailable",
        "status": 503,
        "detail": str(error),
        "hint": error.full_hint,
        "exit_code": 13,
        "errors": [],
    }
    assert error_status(UnknownRun(path=Path("x"), reason="y")) == 404
    assert error_status(SniaPtsError()) == 500


# -- events ----------------------------------------------------------------------------------------------------------


def read_events(client: TestClient, run: str) -> list[dict[str, Any]]:
    """Return the events of a run until the stream ends."""
    with client.stream("GET", f"{PREFIX}/runs/{run}/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        text = "".join(answer.iter_text())
    blocks = [block for block in text.split("\n\n") if block and not block.startswith(":")]
    assert all(block.startswith("event: run\ndata: ") for block in blocks)
    return [json.loads(block.partition("data: ")[2]) for block in blocks]


def test_the_events_of_a_run_that_has_ended_are_its_present_state(client: TestClient) -> None:
    """One event, and the stream ends; an unknown run has none."""
    (event,) = read_events(client, "finished")
    (listed,) = [run for run in client.get(f"{PREFIX}/runs").json() if run["id"] == "finished"]

    assert event == listed
    problem(client.get(f"{PREFIX}/runs/none/events"), 404)


def test_a_run_in_progress_is_stopped(runs: Path, tmp_path: Path) -> None:
    """The request is in the folder of the run, and the list of runs shows it at once."""
    folder = RunFolder(path=tmp_path / "run")
    shutil.copytree(runs / "stopped", folder.path)
    with TestClient(make(tmp_path, tmp_path / "users.json"), base_url=ORIGIN) as client:
        with folder.journal.open("rb") as journal:
            lock(journal.fileno())  # as the process of a run does
            (before,) = client.get(f"{PREFIX}/runs").json()
            answer = client.post(f"{PREFIX}/runs/run/stop", json={}, headers=OWN)
            (after,) = client.get(f"{PREFIX}/runs").json()
        problem(client.post(f"{PREFIX}/runs/run/stop", json={}, headers=OWN), 409)

    assert answer.status_code == 200
    assert answer.json() == {"detail": "it stops after its current point or sample"}
    assert (folder.stop_requested, folder.stop_requester) == (True, UNNAMED)
    assert [(run["state"], run["stopping"]) for run in (before, after)] == [("running", False), ("running", True)]


@pytest.mark.long
def test_a_stopped_run_is_resumed(runs: Path, tmp_path: Path) -> None:
    """It finishes; a second request is a conflict, meanwhile and afterwards."""
    shutil.copytree(runs / "stopped", tmp_path / "run")
    with TestClient(make(tmp_path, tmp_path / "users.json"), base_url=ORIGIN) as client:
        answer = client.post(f"{PREFIX}/runs/run/resume", json={}, headers=OWN)
        problem(client.post(f"{PREFIX}/runs/run/resume", json={}, headers=OWN), 409)
        list(pts.follow(tmp_path / "run"))
        problem(client.post(f"{PREFIX}/runs/run/resume", json={}, headers=OWN), 409)

    assert (answer.status_code, answer.json()) == (200, {"detail": "it continues"})
    assert pts.load(tmp_path / "run").ending == "finished"


@pytest.mark.long
def test_a_run_is_submitted_and_followed_to_its_end(client: TestClient, runs: Path) -> None:
    """A program needs nothing but the API: it starts a simulated run, and sees its states until the last one."""
    request = {"test": "iops", "target": "sim:enterprise-nvme"}
    answer = client.post(f"{PREFIX}/runs", json=request, headers=OWN)
    assert answer.status_code == 201
    run = answer.json()["id"]
    assert answer.headers["location"] == f"{PREFIX}/runs/{run}"
    events = read_events(client, run)

    assert events[-1]["state"] == "finished"
    assert client.get(f"{PREFIX}/runs/{run}").json()["run"]["state"] == "finished"
    assert (runs / run / "journal.jsonl").is_file()


# -- the network -----------------------------------------------------------------------------------------------------


def test_no_request_leaves_the_host(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every route answers although no name can be resolved and nothing outside can be connected to."""
    application, queries = make_with_store(runs, tmp_path), known_queries(tmp_path)
    used = []

    def fail(*arguments: object, **_: object) -> NoReturn:
        used.append(arguments)
        raise OSError("the network is not to be used")

    for function in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getfqdn"):
        monkeypatch.setattr(socket, function, fail)
    monkeypatch.setattr(socket.socket, "connect", fail)
    monkeypatch.setattr(socket.socket, "connect_ex", fail)
    values = {"{run_id}": "A", "{name}": "style.css", "{name:path}": "journal.jsonl"}
    with TestClient(application, base_url=ORIGIN) as client:
        for method, path in {**PAGE_ROUTES, **ROUTES}:
            if method == "GET" and not (path.endswith("/events") and not path.startswith(PREFIX)):
                for parameter, value in values.items():
                    path = path.replace(parameter, value)
                query = queries.get(path.removeprefix(PREFIX))
                answer = client.get(path, params=query, follow_redirects=False)
                assert (path, answer.status_code in (200, 303)) == (path, True)
    assert used == []
