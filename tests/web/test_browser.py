"""A real browser follows a run on the pages to its end: each round appears, and nothing is loaded from elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest

import snia_pts as pts
from snia_pts.store.store import Store
from snia_pts.web.users import UserFile
from tests.fleet.labs import new_lab, request
from tests.store import postgresql
from tests.store.stored_runs import like, put, rows_of
from tests.test_run_folders import unpacked

pytest.importorskip("playwright", reason="playwright is not installed")
from playwright.sync_api import Page, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [pytest.mark.long, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this host")]

PASSWORD = "a long password of a viewer"  # noqa: S105  # of a server on the loopback
#: Runs a test on a simulated drive, about two seconds a round, and prints when each round is in the journal.
PACED = """
import sys, time
from dataclasses import replace
from pathlib import Path
import snia_pts as pts
from tests.test_api_running import OPTIONS

def wait(event):
    if isinstance(event, pts.events.OutcomeRecorded):
        time.sleep(0.1)
    if isinstance(event, pts.events.RoundEvaluated):
        print(event.evaluated_round.number, time.time(), flush=True)

pts.run(replace(OPTIONS, run_folder=Path(sys.argv[1])), on_event=wait)
"""
#: Reports each row that is added to a table of rounds, with the time.
OBSERVE = """
addEventListener("DOMContentLoaded", () => new MutationObserver(() => {
  const rows = document.querySelectorAll('[data-table="rounds-0"] tr');
  report(location.pathname, rows.length, Date.now() / 1000);
}).observe(document.body, {childList: true, subtree: true, characterData: true}));
"""


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[str]:
    """Serve the runs in a folder, and yield the address."""
    command = [sys.executable, "-m", "snia_pts", "serve", str(folder), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            assert found, line
            yield found[0]
        finally:
            server.kill()  # at any time


@pytest.fixture(name="address")
def _address(tmp_path: Path) -> Iterator[str]:
    """The address of a server of the runs in a folder."""
    with serving(tmp_path) as address:
        yield address


@pytest.fixture(name="page")
def _page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.set_default_timeout(120_000)
        yield page
        browser.close()


def test_a_page_follows_a_run_to_its_end(address: str, page: Page, tmp_path: Path) -> None:
    """Each round appears soon after its journal entry; then the page shows the verdict of the stored run."""
    appeared, requests, messages = dict[int, float](), set[str](), list[str]()
    page.on("request", lambda request: requests.add(request.url))
    page.on("console", lambda message: messages.append(message.text))
    page.expose_function("report", lambda _, rows, at: appeared.setdefault(rows, at))
    page.add_init_script(OBSERVE)
    with subprocess.Popen(
        [sys.executable, "-c", PACED, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        written = [run.stdout.readline()]  # the first round is in the journal
        page.goto(f"{address}/runs/run")
        page.wait_for_selector(".verdict", timeout=300_000)
        written += run.stdout.read().splitlines()
    journaled = {int(number): float(at) for number, at in map(str.split, written)}
    delays = [appeared[number] - at for number, at in journaled.items() if 2 < number < max(journaled)]

    assert page.inner_text(".verdict") == pts.load(tmp_path / "run").verdict
    assert len(delays) >= 2
    assert min(delays) < 1, delays  # of a host that others keep busy, one may be late
    assert page.locator("canvas").count() >= 3
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not [url for url in requests if not url.startswith((address, "data:"))]
    assert messages == []


def test_a_run_is_started_stopped_and_resumed_on_its_page(page: Page, tmp_path: Path) -> None:
    """The page that follows each of these shows the new state, and the deviations of the run, without a reload."""
    overrides = "rounds.point_seconds=60000\nsteady_state.data_excursion_percent=0.01"
    query = urlencode({"test": "iops", "target": "sim:enterprise-nvme", "overrides": overrides})
    with serving(tmp_path, "--role", "operator") as address:
        page.goto(f"{address}/plan?{query}")
        page.click("text=Start this run")
        page.wait_for_selector("text=3 deviations from the standard")
        page.click("text=Stop the run")
        page.click("text=Resume the run")
        page.wait_for_selector("[data-state=running]")
        page.click("text=Stop the run")
        page.wait_for_selector("text=Resume the run")

        assert page.inner_text(".state") == "stopped"


def test_the_pages_work_by_keyboard(address: str, page: Page, tmp_path: Path) -> None:
    """The first Tab reaches the link to the content; the form of a plan is filled and sent without a mouse."""
    page.goto(f"{address}/plan")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.focus("#overrides")
    page.keyboard.type("rounds.maximum=6")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector(".facts", timeout=120_000)

    assert "rounds.maximum" in page.inner_text("main")
    assert list(tmp_path.iterdir()) == []


def serious_errors(page: Page) -> list[tuple[str, str]]:
    """Return the serious errors that axe finds on a page that a browser shows."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    violations = axe.Axe().run(page).response["violations"]
    return [(found["id"], found["help"]) for found in violations if found["impact"] in ("serious", "critical")]


def test_axe_finds_no_serious_error(page: Page, tmp_path: Path) -> None:
    """The login, then each page of a folder and its store, with runs in tables and plots, and an error."""
    shutil.copytree(unpacked("iops", tmp_path), tmp_path / "copy")
    with Store(tmp_path / "store.sqlite", create=True) as store:
        rows = rows_of(tmp_path / "iops")
        put(store, *(like(rows, day, 1 + day / 50, serial="AB"[day % 2]) for day in range(6)))
        at = str(store.metrics().columns["at"][store.metrics().columns["metric"].index("iops")])
        model = str(store.runs().columns["model"][0])
    paths = {
        "/": "Drives",
        "/runs": "Runs",
        "/runs/iops": "IOPS",
        "/plan?test=iops&target=sim:enterprise-nvme": "Plan",
        "/results": "Results",
        f"/results/trend?{urlencode({'metric': 'iops', 'at': at})}": "Trend",
        f"/results/spread?{urlencode({'model': model, 'metric': 'iops'})}": "Spread",
        "/results/comparison?run=iops&run=copy": "Comparison",
        "/login": "Log in",
        "/nothing": "Not Found",
    }
    users = UserFile(tmp_path / "users.json")
    users.add_user("ann", "viewer", PASSWORD)
    with serving(tmp_path, "--store", str(tmp_path / "store.sqlite"), "--users", str(users.path)) as address:
        page.goto(address)
        assert page.inner_text("h1") == "Log in"
        assert serious_errors(page) == []
        page.fill("[name=name]", "ann")
        page.fill("[name=password]", PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_selector("h1:has-text('Drives')")
        for path, heading in paths.items():
            page.goto(f"{address}{path}")
            assert heading in page.inner_text("h1"), path
            assert (path, serious_errors(page)) == (path, [])


def test_rows_of_queue_and_hosts_arrive(page: Page, tmp_path: Path) -> None:
    """New rows, other states and rows that leave appear while the page is open; axe finds no serious error."""
    with (
        postgresql.running_server() as server,
        new_lab(server, tmp_path) as lab,
        serving(tmp_path, "--lab", lab.url) as address,
    ):
        lab.add("h1")
        lab.hello("h1", "A")
        lab.query("UPDATE lab_host SET last_seen = now() + interval '1 hour'")  # it is not silent during the test
        first, second = request("A"), request("A")
        page.goto(f"{address}/queue")
        assert page.locator("[data-key^=queue]").count() == 0
        lab.submit(first)
        page.wait_for_selector(cell("queue", first.run_id, "queued"))
        lab.submit(second)
        page.wait_for_selector(cell("queue", second.run_id, "queued"))
        assert serious_errors(page) == []

        page.evaluate("window.unchanged = true")  # a page that is loaded again has no such value
        with lab.as_agent("h1") as agent:
            agent.execute("SELECT lab_report(%s, 'running', NULL, '', '', '')", (first.run_id,))
            page.wait_for_selector(cell("queue", first.run_id, "running"))
            assert page.evaluate("window.unchanged")
            agent.execute("SELECT lab_report(%s, 'finished', 0, '', '', '')", (first.run_id,))
        page.wait_for_selector(f'[data-key="queue {first.run_id}"]', state="detached")
        page.wait_for_selector(cell("queue", second.run_id, "queued"))

        page.goto(f"{address}/hosts")
        page.wait_for_selector(cell("host", "h1", "ready"))
        page.evaluate("window.unchanged = true")
        with lab.open() as opened:
            opened.set_maintenance("h1", on=True)
        page.wait_for_selector(cell("host", "h1", "maintenance"))
        assert page.evaluate("window.unchanged")
        lab.add("h2")
        page.wait_for_selector(cell("host", "h2", "silent"))
        assert serious_errors(page) == []


def cell(kind: str, name: object, state: str) -> str:
    """Return the selector of the state in a row."""
    return f'[data-key="{kind} {name}"] [data-cell="state"][data-state="{state}"]'
