"""A real browser follows a run on the pages to its end: each round appears, and nothing is loaded from elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import snia_pts as pts
from tests.test_api_running import OPTIONS

pytest.importorskip("playwright", reason="playwright is not installed")
from playwright.sync_api import Page, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [pytest.mark.long, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this host")]

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


@pytest.fixture(name="address")
def _address(tmp_path: Path) -> Iterator[str]:
    """The address of a server of the runs in a folder."""
    command = [sys.executable, "-m", "snia_pts", "serve", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+", server.stdout.readline())
        assert found
        yield found[0]
        server.kill()  # at any time


@pytest.fixture(name="page")
def _page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser.new_page(viewport={"width": 390, "height": 844})
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


def test_axe_finds_no_serious_error(address: str, page: Page, tmp_path: Path) -> None:
    """Each page, with a run in its tables and plots, also a page of an error."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    pts.run(replace(OPTIONS, run_folder=tmp_path / "run"))
    for path in ("/", "/runs", "/runs/run", "/plan?test=iops&target=sim:enterprise-nvme", "/nothing"):
        page.goto(f"{address}{path}")
        violations = axe.Axe().run(page).response["violations"]
        serious = [(found["id"], found["help"]) for found in violations if found["impact"] in ("serious", "critical")]
        assert (path, serious) == (path, [])
