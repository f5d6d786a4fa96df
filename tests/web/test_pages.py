"""The pages of a folder of runs: what they show, their headers, hostile texts and files, and the feed of changes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from lxml import html
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

import snia_pts as pts
from snia_pts.errors import Interrupted, LabError, NotResumable, UsageError
from snia_pts.files import data_folder
from snia_pts.record.folder import RunFolder
from snia_pts.record.locks import lock
from snia_pts.runner.live import LiveRun
from snia_pts.spec import SPEC_TYPES
from snia_pts.store.store import Store
from snia_pts.units import number
from snia_pts.web import feed as feed_module
from snia_pts.web.api import add_error_answers
from snia_pts.web.application import CONTENT_SECURITY_POLICY, HEADERS, SafeHeaders, make_application
from snia_pts.web.feed import Feed
from snia_pts.web.folder_source import FolderSource
from snia_pts.web.model import DriveView, Request, Snapshot
from snia_pts.web.pages import PAGE_ROUTES, Pages
from snia_pts.web.rows import UNKNOWN, Selection
from snia_pts.web.snapshots import Snapshots
from snia_pts.web.source import UNNAMED
from tests.store.stored_runs import like, put, rows_of
from tests.test_api_running import OPTIONS
from tests.test_run_folders import unpacked

PACKAGE = Path(pts.__file__).parent / "web"
HOSTILE = '<script>alert(1)</script>"&'


def stopped_run(folder: Path, outcomes: int) -> None:
    """Make a run that was stopped after a number of outcomes."""
    stop, seen = Event(), list[object]()

    def count(event: object) -> None:
        if isinstance(event, pts.events.OutcomeRecorded):
            seen.append(event)
        if len(seen) == outcomes:
            stop.set()

    with pytest.raises(Interrupted):
        pts.run(replace(OPTIONS, run_folder=folder), on_event=count, stop=stop)


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run, a stopped one, and one with hostile texts and files."""
    folder = tmp_path_factory.mktemp("runs")
    pts.run(replace(OPTIONS, run_folder=folder / "finished"))
    stopped_run(folder / "stopped", 30)
    preset = (data_folder("specs") / "drives" / "enterprise-nvme.toml").read_text("utf-8")
    hostile, file = folder / HOSTILE.replace("/", "|"), folder.parent / "hostile.toml"
    file.write_text(re.sub("(?m)^model = .*", f"model = {json.dumps(HOSTILE)}", preset), "utf-8")
    pts.run(replace(OPTIONS, target=f"sim:{file}", run_folder=hostile))
    (hostile / "page.html").write_text("<script>parent.stolen = document.cookie</script>")
    (hostile / "picture.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>')
    (hostile / "program.js").write_text("alert(1)")
    (hostile / "link.txt").symlink_to("/etc/passwd")
    return folder


@pytest.fixture(name="client", scope="module")
def _client(folder: Path) -> Iterator[TestClient]:
    with TestClient(make_application(FolderSource(folder))) as client:
        yield client


def page(client: TestClient, address: str) -> html.HtmlElement:
    """Return a page, after the checks that hold for all: its headers, and no script, style or handler in it."""
    response = client.get(address)
    document = html.document_fromstring(response.content)

    assert response.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert response.headers["x-content-type-options"] == "nosniff"
    assert all(script.get("src") and not script.text for script in document.iter("script"))
    assert not list(document.iter("style"))
    assert not [name for item in document.iter() for name in item.attrib if name == "style" or name.startswith("on")]
    assert not [link for _, _, link, _ in document.iterlinks() if not link.startswith(("/", "#", "data:,"))]
    return document


def hostile_id(client: TestClient) -> str:
    """Return the id of the run in the folder with a hostile name."""
    source: FolderSource = client.app.state.source  # type: ignore[attr-defined]
    (run,) = (run for run in source.snapshot().runs if run.id.startswith("sha256-"))
    return run.id


@pytest.mark.long
def test_each_route_is_listed_and_each_page_is_shown(client: TestClient) -> None:
    """The table of routes is complete; each page without a parameter has a title and a heading."""
    source: FolderSource = client.app.state.source  # type: ignore[attr-defined]
    pages = Pages(source, Snapshots(source), Feed(Snapshots(source)), access_control=True)
    routes = [route for route in pages.router.routes if isinstance(route, APIRoute)]
    found = {(method, route.path) for route in routes for method in route.methods or ()}
    assert found == set(PAGE_ROUTES)
    for method, address in PAGE_ROUTES:
        if method == "GET" and "{" not in address and address != "/events":
            document = page(client, address)
            assert document.findtext(".//title"), address
            assert len(document.findall(".//h1")) == 1, address


def test_the_first_page_has_drives_and_runs(client: TestClient) -> None:
    """A drive is one row for all of its runs; a run says how it ended, and where it stopped."""
    text = " ".join(page(client, "/").text_content().split())

    assert "2 finished, 1 stopped" in text
    assert "SIM-ENTERPRISE-NVME" in text
    assert "Stopped by the calling program" in text
    assert "STEADY STATE" in text


def test_the_page_of_a_run_has_every_round(client: TestClient, folder: Path) -> None:
    """The tables have the tracked variables by round, and the determination, of the stored result."""
    run = pts.load(folder / "finished")
    document = page(client, "/runs/finished")
    (loop,) = run.result.loops
    assert run.window is not None

    for place, (tracked, state) in enumerate(run.window.determinations):
        table = document.find(f".//tbody[@data-table='rounds-{place}']")
        assert table is not None
        shown = [[cell.text_content() for cell in row] for row in table.iter("tr")]
        inside = run.window.numbers
        expected = [
            [str(one.number), number(one.value(tracked)), "yes" if one.number in inside else "no"]
            for one in loop.complete
        ]
        assert shown == expected
        note = document.findtext(f".//p[@data-note='note-{place}']") or ""
        assert f"data excursion {state.data_excursion_percent:.2f} % (at most 20 %)" in note
        assert state.steady == note.endswith(": steady.")
    assert run.verdict in document.text_content()
    assert "rounds.point_seconds" in document.text_content()  # a deviation


def test_a_stopped_run_says_what_is_missing(client: TestClient) -> None:
    """Too few rounds have no determination; the drive's time left is not shown."""
    document = page(client, "/runs/stopped")

    assert "Too few rounds for a window: 1 so far." in document.text_content()
    assert [item.text for item in document.findall(".//dd[@data-cell='left']")] == [UNKNOWN]


def test_a_finished_run_shows_its_rounds_if_it_has_any(tmp_path: Path) -> None:
    """Also if its last step, as the histogram of the latency test, is no round."""
    runs = {test: LiveRun(RunFolder(path=unpacked(test, tmp_path))) for test in ("latency", "xsr")}
    with TestClient(make_application(FolderSource(tmp_path))) as client:
        shown = {test: page(client, f"/runs/{test}").xpath("//dd[@data-cell='round']/text()") for test in runs}
    runs["latency"].read()
    state = runs["latency"].state
    assert state is not None

    assert shown == {"latency": [f"{state.variables[0].rounds[-1]} of at most {state.round_maximum}"], "xsr": []}


def test_hostile_texts_are_shown_as_text(client: TestClient) -> None:
    """The model of a drive and the name of a folder are escaped on every page, and in the events."""
    run_id = hostile_id(client)
    text = quote(HOSTILE)
    for address in ("/", "/runs", f"/runs/{run_id}", f"/runs?q={text}", f"/plan?test=iops&target={text}"):
        document = page(client, address)
        assert HOSTILE in document.text_content() or HOSTILE in [item.get("value") for item in document.iter("input")]
    source: FolderSource = client.app.state.source  # type: ignore[attr-defined]
    for row in Selection(kind="drives").listing(source.snapshot()).rows().values():
        assert "\n" not in row
        json.loads(row)


def test_files_of_a_run_have_no_access_to_the_pages(client: TestClient) -> None:
    """Pages and pictures are in a sandbox, unknown kinds are downloads, and symlinks and other names do not exist."""
    files = f"/runs/{hostile_id(client)}/files"
    for name in ("page.html", "picture.svg"):
        policy = client.get(f"{files}/{name}").headers["content-security-policy"].split("; ")
        assert policy[0] == "sandbox"
        assert "default-src 'none'" in policy
        assert not [item for item in policy if item.startswith("script")]
    assert client.get(f"{files}/program.js").headers["content-disposition"].startswith("attachment;")
    assert client.get(f"{files}/log.txt").headers["content-type"] == "text/plain; charset=utf-8"
    assert client.get(f"{files}/page.html?download=true").headers["content-type"] == "application/octet-stream"
    for name in ("link.txt", "missing", "../finished/log.txt", "..%2Ffinished%2Flog.txt", "evidence"):
        assert client.get(f"{files}/{name}").status_code == 404, name


def test_a_report_file_is_sent_unchanged(client: TestClient, folder: Path) -> None:
    """Each file on the page of a run can be read."""
    document = page(client, "/runs/finished")
    links = [link for link in document.xpath("//a/@href") if "/files/" in link and "?" not in link]

    assert {link.rpartition("/")[2] for link in links} == {"journal.jsonl", "log.txt", "result.xml"}
    for link in links:
        assert client.get(link).content == (folder / "finished" / link.rpartition("/")[2]).read_bytes()


def test_a_plan_shows_time_and_deviations(client: TestClient) -> None:
    """It has the bounds of the library's plan; a mistake is a message, not a page of the server."""
    address = "/plan?test=iops&target=sim:enterprise-nvme&overrides=rounds.maximum=6"
    text = page(client, address).text_content()

    assert "rounds.maximum" in text
    assert "PTS chapter 1" in text
    for target in ("sim:nonsense", "/etc/passwd", "sim:/etc/passwd", "../x"):
        response = client.get(f"/plan?test=iops&target={target}")
        assert response.status_code == 400
        assert 'role="alert"' in response.text


def test_nothing_can_be_changed_without_access_control(client: TestClient) -> None:
    """The forms and their routes are there only where the sender of a request is known."""
    for method, address in PAGE_ROUTES:
        if method == "POST":
            assert client.post(address).status_code in (404, 405), address
    assert not page(client, "/runs/stopped").findall(".//form")


class _Operator:
    """Middleware that lets everybody change everything, in the place of access control."""

    csrf_token = str(4711)

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def may(self, role: str) -> bool:
        """Return whether this role is enough."""
        return role in ("viewer", "operator")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        scope.setdefault("state", {})["identity"] = self
        await self._app(scope, receive, send)

    kind, name, role = "user", "ann", "operator"


def test_forms_change_what_they_say(folder: Path) -> None:
    """Each form has the token of the session, and leads to its route; a refusal has its reason."""
    source = _Recording(folder)
    application = FastAPI()
    application.include_router(Pages(source, Snapshots(source), Feed(Snapshots(source)), access_control=True).router)
    add_error_answers(application)
    application.add_middleware(_Operator)
    application.add_middleware(SafeHeaders)
    with TestClient(application, follow_redirects=False) as client:
        forms = page(client, "/runs/stopped").forms + page(client, "/plan?test=iops&target=sim:enterprise-nvme").forms
        posted = [form for form in forms if form.method == "POST" and form.action != "/logout"]
        answers = [client.post(str(form.action), data=dict(form.form_values())) for form in posted]
        refused = client.post("/runs/finished/stop")

    assert [form.action for form in posted] == ["/runs/stopped/resume", "/runs"]
    assert all(form.fields["csrf_token"] == _Operator.csrf_token for form in posted)
    assert [answer.headers["location"] for answer in answers] == ["/runs/stopped", "/runs/new"]
    assert source.done == [("resume", "stopped"), ("submit", Request(test="iops", target="sim:enterprise-nvme"))]
    assert refused.status_code == 409
    assert "is not running: it is finished" in refused.text


class _Recording(FolderSource):
    """A source that starts nothing, and remembers what it was to start."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.done: list[tuple[str, object]] = []

    def submit(self, request: Request) -> str:
        """Remember a request."""
        self.done.append(("submit", request))
        return "new"

    def resume(self, run_id: str, *, serial: str = "") -> str:
        """Remember a run."""
        self.done.append(("resume", run_id))
        return serial


@pytest.mark.parametrize(("operators", "person"), [(True, "ann"), (False, UNNAMED)])
def test_a_run_says_who_stopped_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, operators: bool, person: str
) -> None:
    """The user who pressed Stop on its page; where nobody logs in, a user of the pages."""
    monkeypatch.setattr("snia_pts.web.folder_source._SEARCH_SECONDS", 0)
    source = FolderSource(tmp_path)
    application, answers = FastAPI(), list[int]()
    application.include_router(Pages(source, Snapshots(source), Feed(Snapshots(source)), access_control=True).router)
    application.add_middleware(_Operator if operators else _Anyone)
    with TestClient(application, follow_redirects=False) as client:

        def press_stop(event: object) -> None:
            if isinstance(event, pts.events.RoundEvaluated):
                answers.append(client.post("/runs/run/stop").status_code)

        with pytest.raises(Interrupted, match=f"Stopped by {person} in step Round 2"):
            pts.run(replace(OPTIONS, run_folder=tmp_path / "run"), on_event=press_stop)
    assert answers == [303]
    assert source.run("run").run.detail.startswith(f"Stopped by {person} in step ")


class _Anyone(_Operator):
    """Middleware for pages without users."""

    kind, name, role = "anyone", "", "operator"


def test_vendored_files_are_those_of_their_digests() -> None:
    """The library of the charts is the published one, and its licence is with it."""
    lines = (PACKAGE / "vendor" / "SHA256SUMS").read_text("utf-8").splitlines()
    digests = {name: digest for digest, name in (line.split() for line in lines)}

    assert digests == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (PACKAGE / "vendor").iterdir()
        if path.name != "SHA256SUMS"
    }
    assert "MIT" in (PACKAGE / "vendor" / "uPlot.LICENSE").read_text("utf-8")


@pytest.mark.long
def test_a_source_follows_a_run_and_finds_new_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a run is measured, each snapshot has its rounds so far; suites and batches are searched, symlinks not."""
    monkeypatch.setattr("snia_pts.web.folder_source._SEARCH_SECONDS", 0)
    source, seen = FolderSource(tmp_path), list[tuple[str, int]]()

    def look(event: object) -> None:
        if isinstance(event, pts.events.RoundEvaluated):
            (run,) = source.snapshot().runs
            assert run.live is not None
            seen.append((run.state, len(run.live.variables[0].rounds)))

    pts.run(replace(OPTIONS, run_folder=tmp_path / "run"), on_event=look)
    (tmp_path / "other").symlink_to(tmp_path / "run")

    assert seen == [("running", count) for count in range(1, len(seen) + 1)]
    assert [(run.id, run.state) for run in source.snapshot().runs] == [("run", "finished")]


def test_a_submitted_run_is_found_at_once(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is searched again, although that was done a moment ago."""
    shutil.copytree(folder / "finished", tmp_path / "earlier")
    source = FolderSource(tmp_path)
    assert [run.id for run in source.snapshot().runs] == ["earlier"]
    monkeypatch.setattr(
        "snia_pts.web.folder_source.start",
        lambda options: shutil.copytree(folder / "finished", options.run_folder),
    )
    run_id = source.submit(Request(test="iops", target="sim:enterprise-nvme"))
    assert source.run(run_id).run.state == "finished"


def test_the_page_of_a_run_that_ends_is_not_kept_as_running(folder: Path) -> None:
    """The process of a run ends after the last entry of its journal: the page has the verdict from then on."""
    source, journal = FolderSource(folder), folder / "finished" / "journal.jsonl"
    with journal.open("rb") as file:
        lock(file.fileno())
        assert source.run("finished").run.state == "running"
    detail = source.run("finished")
    assert detail.run.state == "finished"
    assert detail.run.verdict == pts.load(folder / "finished").verdict


def test_a_stored_result_links_to_its_run(folder: Path, tmp_path: Path) -> None:
    """The page of the run has its reports; a run that is elsewhere has no link."""
    shutil.copytree(folder / "finished", tmp_path / "elsewhere")
    with Store(tmp_path / "store.sqlite", create=True) as store:
        store.add(folder / "finished")
    for runs, links in ((folder, ["/runs/finished"]), (tmp_path, [])):
        with TestClient(make_application(FolderSource(runs, str(tmp_path / "store.sqlite")))) as client:
            document = page(client, "/results")
            assert [row.findtext("td[2]") for row in document.findall(".//tbody/tr")] == ["IOPS"]
            assert document.xpath("//datalist[@id='test-list']/option/@value") == list(SPEC_TYPES)
            assert [link.get("href") for link in document.findall(".//tbody//a")] == links


@pytest.fixture(name="steady", scope="module")
def _steady(tmp_path_factory: pytest.TempPathFactory) -> pts.Run:
    """A run that reached steady state."""
    return pts.load(unpacked("iops", tmp_path_factory.mktemp("steady")))


@pytest.fixture(name="stored", scope="module")
def _stored(steady: pts.Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A client of a server with the results of five runs of four drives, each a tenth faster than the first."""
    folder = tmp_path_factory.mktemp("stored")
    rows = rows_of(steady.path)
    with Store(folder / "store.sqlite", create=True) as store:
        for day, serial in enumerate(("A", "B", "C", "D", "D")):
            firmware = "<b>2</b>" if day > 2 else "1"
            put(store, like(rows, day, 1 + day / 10, serial=serial, firmware=firmware))
    with TestClient(make_application(FolderSource(folder, str(folder / "store.sqlite")))) as client:
        yield client


def _cells(document: html.HtmlElement, table: int) -> list[list[str]]:
    rows = document.findall(".//table")[table].findall("tbody/tr")
    return [[cell.text_content() for cell in row] for row in rows]


def test_a_trend_has_each_group_and_each_run(stored: TestClient, steady: pts.Run) -> None:
    """The medians are those of the values of the runs; the plot has the same values."""
    figure = next(item for item in steady.figures if item.metric == "iops")
    document = page(stored, f"/results/trend?{urlencode({'metric': 'iops', 'at': figure.at})}")
    values = [figure.value * factor for factor in (1, 1.1, 1.2, 1.3, 1.4)]
    groups, runs = _cells(document, 0), _cells(document, 1)
    plot = json.loads(str(document.xpath("string(.//div/@data-plot)")))

    assert [row[:4] for row in groups] == [
        ["1", "3", number(values[1]), "+0.0 %"],
        ["<b>2</b>", "2", number((values[3] + values[4]) / 2), "+22.7 %"],
    ]
    assert [row[3] for row in runs] == [number(value) for value in values]
    assert plot["values"] == pytest.approx(values)
    assert plot["lines"]["median"] == pytest.approx([values[1]] * 3 + [figure.value * 1.35] * 2)


def test_a_spread_counts_each_unit_once(stored: TestClient, steady: pts.Run) -> None:
    """The drive D has two runs, and counts with their mean."""
    figure = next(item for item in steady.figures if item.metric == "iops")
    document = page(stored, f"/results/spread?{urlencode({'model': steady.device.model, 'metric': 'iops'})}")
    (row,) = [row for row in _cells(document, 0) if row[1] == figure.at]

    mean, largest = figure.value * (1 + 1.1 + 1.2 + 1.35) / 4, figure.value * 1.35
    assert row[4:6] == ["4", number(mean)]
    assert row[7:9] == [number(figure.value), number(largest)]


def test_chosen_runs_are_compared_with_the_first_of_them(folder: Path, tmp_path: Path) -> None:
    """The figures and differences are those of the library; the list of results has a box for each run that is here."""
    runs = [tmp_path / "runs" / name for name in ("finished", "other")]
    shutil.copytree(folder / "finished", runs[0])
    pts.run(replace(OPTIONS, target="sim:enterprise-sata", run_folder=runs[1]))
    with Store(tmp_path / "store.sqlite", create=True) as store:
        store.add(runs[0])
        store.add(runs[1])
    figure = pts.compare(runs).figures[0]
    change = figure.differences[1]
    assert change is not None
    with TestClient(make_application(FolderSource(tmp_path / "runs", str(tmp_path / "store.sqlite")))) as client:
        boxes = page(client, "/results").findall(".//input[@name='run']")
        assert [box.get("value") for box in boxes] == ["other", "finished"]
        document = page(client, "/results/comparison?run=other&run=finished")
        assert [row[:2] for row in _cells(document, 0)] == [["A", "finished"], ["B", "other"]]
        row = _cells(document, 2)[0]
        assert row[:4] == [f"{figure.metric} ({figure.unit})", figure.at, *map(number, figure.values)]
        assert row[4].startswith(f"{change.percent:+.1f} %")
        assert client.get("/results/comparison?run=finished").status_code == 400


@pytest.mark.parametrize(
    ("address", "mistake"),
    [
        ("trend?metric=iopss&at=x", "Did you mean iops?"),
        ("trend?metric=iops&at=x", "there is no such point of iops"),
        ("trend?metric=iops&at=x&by=journal", "there is no such column of the runs"),
        ("spread?model=x", "there is no such model with steady figures"),
        ("spread?model=x&since=yesterday", "is not a time in ISO 8601"),
    ],
)
def test_a_mistake_in_a_query_of_results_is_shown_with_its_form(address: str, mistake: str, stored: TestClient) -> None:
    """The form keeps what was entered."""
    document = page(stored, f"/results/{address}")
    assert mistake in str(document.findtext(".//p[@role='alert']"))
    assert document.findall(".//form//input[@value]")


def test_a_damaged_run_is_shown_beside_the_others(folder: Path, tmp_path: Path) -> None:
    """Its row says what is wrong; so does its page."""
    shutil.copytree(folder / "finished", tmp_path / "run")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "journal.jsonl").write_bytes(b"nonsense\n")
    with TestClient(make_application(FolderSource(tmp_path))) as client:
        assert "1 finished, 1 unreadable" in page(client, "/").text_content()
        assert "cannot be read" in page(client, "/runs/damaged").text_content()
        assert client.get("/runs/damaged").status_code == 200


@pytest.mark.parametrize("target", ["/dev/null", "sim:/etc/passwd", "../x", ".hidden", ""])
def test_only_simulated_drives_and_files_in_the_folder_are_tested(target: str, tmp_path: Path) -> None:
    """No request leads to a drive, or to a file elsewhere."""
    with pytest.raises(UsageError):
        FolderSource(tmp_path).submit(Request(test="iops", target=target))


@pytest.mark.long
def test_a_stopped_run_is_resumed_in_a_process_of_its_own(folder: Path, tmp_path: Path) -> None:
    """It finishes although its server does nothing more; while it runs, it is not resumed again."""
    shutil.copytree(folder / "stopped", tmp_path / "run")
    source = FolderSource(tmp_path)

    assert source.resume("run") == "it continues"
    with pytest.raises(NotResumable):
        source.resume("run")
    list(pts.follow(tmp_path / "run"))
    assert pts.load(tmp_path / "run").ending == "finished"


@pytest.mark.long
def test_threads_read_a_run_at_the_same_time(tmp_path: Path) -> None:
    """Pages and the feed have threads of their own; each sees the run as its journal has it."""
    source, states = FolderSource(tmp_path), set[str]()

    def read(number: int) -> str:
        return source.run("run").run.state if number % 4 == 0 else source.snapshot().runs[0].state

    with ThreadPoolExecutor(5) as threads:

        def look(event: object) -> None:
            if isinstance(event, pts.events.RoundEvaluated):
                states.update(threads.map(read, range(5)))

        pts.run(replace(OPTIONS, run_folder=tmp_path / "run"), on_event=look)

    assert states == {"running"}


class _Counting:
    """A source whose snapshots have one more run each time."""

    def __init__(self) -> None:
        self.snapshots = 0

    def snapshot(self) -> Snapshot:
        """Return the next snapshot."""
        self.snapshots += 1
        return Snapshot(time=str(self.snapshots))


def one_row(snapshot: Snapshot) -> dict[str, str]:
    """Return the only row: the time."""
    return {"time": snapshot.time}


def test_all_viewers_share_the_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each viewer gets the present rows first and then each change; no snapshot is read without viewers."""
    monkeypatch.setattr(feed_module, "_PAUSE_SECONDS", 0)
    source = _Counting()
    feed = Feed(Snapshots(source))  # type: ignore[arg-type]

    async def view() -> tuple[list[str], list[str], int]:
        first, second = feed.events("", one_row), feed.events("", one_row)
        events = [await anext(first)], [await anext(second)]
        for _ in range(3):
            events[0].append(await anext(first))
            events[1].append(await anext(second))
        await first.aclose()
        await second.aclose()
        await asyncio.sleep(0.1)
        before = source.snapshots
        await asyncio.sleep(0.1)
        assert source.snapshots == before
        return *events, feed.viewers

    first, second, viewers = asyncio.run(view())
    assert first == [f"data: [{time}]\n\n" for time in (1, 2, 3, 4)]
    assert second == first
    assert viewers == 0


def test_pages_and_metrics_share_a_snapshot_until_something_changes() -> None:
    """A snapshot is read again for the next event, after a change, and when it is too old."""
    source = _Counting()
    snapshots = Snapshots(source)  # type: ignore[arg-type]
    assert [snapshots.current().time for _ in range(3)] == ["1", "1", "1"]
    assert (snapshots.read().time, snapshots.current().time) == ("2", "2")
    assert snapshots.apply(lambda: "stopped") == "stopped"
    assert snapshots.current().time == "3"
    with pytest.raises(NotResumable):
        snapshots.apply(_refuse)
    assert snapshots.current().time == "4"


def _refuse() -> None:
    raise NotResumable(path=Path("run"), reason="it is finished")


def test_a_list_is_shown_by_pages() -> None:
    """A page has 100 of the entries that match; its events are about the same entries, and name their version."""
    drives = tuple(
        DriveView(
            id=f"S{number:03}",
            model="EVEN" if number % 2 == 0 else "ODD",
            capacity_bytes=0,
            kind="drive",
            state="idle" if number else "held",
        )
        for number in range(250)
    )
    snapshot = Snapshot(time="2026-11-27T12:00:00+00:00", drives=drives)

    def keys(selection: Selection) -> list[str]:
        return [key.removeprefix("drive ") for key in selection.listing(snapshot).rows() if key != "summary"]

    pages = [keys(Selection(kind="drives", page=page)) for page in (1, 2, 3, 4)]
    assert [len(page) for page in pages] == [100, 100, 50, 0]
    assert [key for page in pages for key in page] == [drive.id for drive in drives]
    assert keys(Selection(kind="drives", text="even", page=2)) == [drive.id for drive in drives[200::2]]
    assert keys(Selection(kind="drives", text="even", state="held")) == ["S000"]
    assert Selection(kind="drives", text="even").listing(snapshot).pages == 2
    versions = {Selection(kind="drives", page=page).listing(snapshot).version for page in (1, 2)}
    assert len(versions) == 2


class _LabOfThree(FolderSource):
    """A lab with an idle drive, one that is held, and one that is held while a test is in progress."""

    has_lab = True

    def snapshot(self) -> Snapshot:
        """Return the drives."""
        values: dict[str, Any] = {"model": "M", "capacity_bytes": 0, "kind": "drive", "health": "good"}
        drives = (
            DriveView(id="S0", state="idle", **values),
            DriveView(id="S1", state="held", held="<cable>", **values),
            DriveView(id="S2", state="running", held="next", **values),
        )
        return Snapshot(time="2026-11-27T12:00:00+00:00", drives=drives)


def test_the_reason_of_a_hold_belongs_to_the_state_of_the_drive(tmp_path: Path) -> None:
    """The column Health has the health; a page on which a drive is no longer held is loaded again."""
    with TestClient(make_application(_LabOfThree(tmp_path))) as client:
        document = page(client, "/")
    names = [cell.text_content() for cell in document.findall(".//thead//th")]
    rows = [[" ".join(" ".join(cell.itertext()).split()) for cell in row] for row in document.findall(".//tbody/tr")]
    states = {row[names.index("Drive")]: row[names.index("State")] for row in rows}

    assert states == {"S0": "idle", "S1": "held <cable>", "S2": "running held: next"}
    assert {row[names.index("Health")] for row in rows} == {"good"}
    snapshot = _LabOfThree(tmp_path).snapshot()
    released = replace(snapshot, drives=tuple(replace(drive, held="") for drive in snapshot.drives))
    versions = {Selection(kind="drives").listing(one).version for one in (snapshot, released)}
    assert len(versions) == 2


def test_a_slow_viewer_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes no events does not fill the memory; its stream ends after those that waited."""
    monkeypatch.setattr(feed_module, "_PAUSE_SECONDS", 0)
    feed = Feed(Snapshots(_Counting()))  # type: ignore[arg-type]

    async def view() -> int:
        events = feed.events("", one_row)
        await anext(events)
        while feed.viewers:
            await asyncio.sleep(0)
        return len([event async for event in events])

    assert asyncio.run(view()) == feed_module._MAX_WAITING


class _Failing(FolderSource):
    """A source whose database is away."""

    def snapshot(self) -> Snapshot:
        """Fail."""
        raise LabError(url="lab", reason="the server does not answer")


class _Broken(FolderSource):
    """A source with a mistake in its code."""

    def snapshot(self) -> Snapshot:
        """Fail."""
        raise RuntimeError("private detail")


def test_an_unexpected_failure_is_in_the_log_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A browser gets a page, a program a problem document, both with the headers of all answers."""
    with TestClient(make_application(_Broken(tmp_path))) as client:
        page, document = (client.get("/", headers={"Accept": kind}) for kind in ("text/html", "application/json"))

    for answer in (page, document):
        assert answer.status_code == 500
        assert "private detail" not in answer.text
        assert "The server failed unexpectedly" in answer.text
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert page.headers["content-type"].startswith("text/html")
    assert document.headers["content-type"].startswith("application/problem+json")
    assert caplog.text.count("RuntimeError: private detail") == 2


def test_a_source_that_fails_has_a_page(tmp_path: Path) -> None:
    """Its reason is shown, without a traceback; a viewer of events is disconnected."""
    with TestClient(make_application(_Failing(tmp_path))) as client:
        response = client.get("/", headers={"Accept": "text/html"})
    source = _Counting()
    feed = Feed(Snapshots(source))  # type: ignore[arg-type]

    async def view() -> int:
        events = feed.events("", one_row)
        await anext(events)
        source.snapshot = _Failing(tmp_path).snapshot  # type: ignore[method-assign]
        return len([event async for event in events])

    assert (response.status_code, "the server does not answer" in response.text) == (503, True)
    assert asyncio.run(view()) == 0
    assert feed.viewers == 0
