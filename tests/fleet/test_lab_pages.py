"""The pages of a lab: its drives, queue and hosts as its database has them, and what can be changed there."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from snia_pts.cli.main import main
from snia_pts.cli.parser import build_parser
from snia_pts.errors import NotConfirmed, SpecError, UnknownRun, UsageError
from snia_pts.fleet.drive_facts import facts_document
from snia_pts.fleet.live_values import live_values_json
from snia_pts.fleet.request import RequestOptions
from snia_pts.web.application import make_application
from snia_pts.web.folder_source import FolderSource
from snia_pts.web.lab_source import LabSource
from snia_pts.web.model import Request
from tests.fleet.labs import TestLab, request
from tests.fleet.test_campaign import FACTS
from tests.fleet.test_live_values import VALUES

pytestmark = pytest.mark.long


def test_a_lab_has_pages(lab: TestLab, tmp_path: Path) -> None:
    """Drives, queue and hosts are those of the database; a request, a hold and a stop are in it afterwards."""
    lab.add("h1")
    lab.hello("h1", "DRIVE-1", "<DRIVE-2>")
    source = LabSource(lab.url, FolderSource(tmp_path))
    request = Request(test="iops", target="DRIVE-1", serial="DRIVE-1")
    run = source.submit(request)
    source.submit(request)
    source.hold("<DRIVE-2>", "cable")
    with TestClient(make_application(source)) as client:
        pages = {path: client.get(path).text for path in ("/", "/queue", "/hosts", f"/runs/{run}", "/runs/nothing")}
    snapshot = source.snapshot()

    assert {drive.id: (drive.state, drive.held, drive.runs) for drive in snapshot.drives} == {
        "DRIVE-1": ("reserved", "", 2),
        "<DRIVE-2>": ("held", "cable", 0),
    }
    assert [(entry.position, entry.waits_for) for entry in snapshot.queue] == [(1, ""), (2, "the drive")]
    assert [host.name for host in snapshot.hosts] == ["h1"]
    assert "&lt;DRIVE-2&gt;" in pages["/"]
    assert "<DRIVE-2>" not in pages["/"]
    assert run[:8] in pages["/queue"]
    assert "h1" in pages["/hosts"]
    assert "queued" in pages[f"/runs/{run}"]
    assert "the lab has no such run" in pages["/runs/nothing"]
    assert source.stop(run, by="ann") == "cancelled before it started"
    assert (source.run(run).run.state, source.run(run).run.detail) == ("cancelled", "ann cancelled it.")


def test_a_queued_run_hides_no_run_that_ended(lab: TestLab, tmp_path: Path) -> None:
    """The run of a drive is the one in progress, else the last one that ended; only without these one that waits."""
    lab.add("h1")
    lab.hello("h1", "DRIVE-1")
    source = LabSource(lab.url, FolderSource(tmp_path))
    first, second = (source.submit(Request(test="iops", target="DRIVE-1", serial="DRIVE-1")) for _ in range(2))
    runs = [source.snapshot().drives[0].run]
    for run, state in ((first, "running"), (first, "lost"), (second, "running")):
        _report(lab, run, state)
        runs.append(source.snapshot().drives[0].run)

    assert runs == [second, first, first, second]


def test_a_run_waits_for_the_other_tests_of_its_host(lab: TestLab, tmp_path: Path) -> None:
    """The queue names the limit ``side_by_side`` of the host as long as the tests in progress reach it."""
    lab.add("h1")
    lab.hello("h1", "DRIVE-1", "DRIVE-2")
    source = LabSource(lab.url, FolderSource(tmp_path))
    first, *_ = [source.submit(Request(test="iops", target=serial, serial=serial)) for serial in ("DRIVE-1", "DRIVE-2")]
    waits = []
    for state in ("running", "finished"):
        _report(lab, first, state)
        waits.append([entry.waits_for for entry in source.snapshot().queue])

    assert waits == [["", "the end of a test on h1 (side_by_side: 1)"], [""]]


def test_a_test_has_one_name_in_all_lists(lab: TestLab, tmp_path: Path) -> None:
    """Its title, in the version of the standard that was requested, before, during and after its run."""
    lab.add("h1")
    lab.hello("h1", "DRIVE-1", "DRIVE-2")
    source = LabSource(lab.url, FolderSource(tmp_path))
    run = source.submit(Request(test="wsat", target="DRIVE-1", serial="DRIVE-1"))
    titles = []
    for state in ("queued", "running", "finished"):
        if state != "queued":
            _report(lab, run, state)
        if state == "running":
            with lab.as_agent("h1") as connection:
                values = live_values_json(VALUES)
                connection.execute("SELECT lab_report_live(%s, %s, '[]', '')", (run, values))
        snapshot = source.snapshot()
        titles.append((snapshot.runs[0].title, *(entry.title for entry in snapshot.queue)))
    assert titles == [("Write Saturation",) * 2, ("Write Saturation",) * 2, ("Write Saturation",)]

    lab.submit(replace(request("DRIVE-2"), test="composite", options=RequestOptions(pts="1.1")))
    lab.submit(replace(request("DRIVE-2"), test="all"))
    with TestClient(make_application(source)) as client:
        for path in ("/", "/runs", "/queue"):
            text = client.get(path).text
            assert all(f">{name}<" in text for name in ("Enterprise Composite Workload", "All basic tests"))
            assert not re.search(">(wsat|composite)<", text)


def _report(lab: TestLab, run: str, state: str) -> None:
    """Report the state of a run as the agent of h1."""
    with lab.as_agent("h1") as connection:
        connection.execute("SELECT lab_report(%s, %s, NULL, '', '', '/runs/x')", (run, state))


def test_a_lab_refuses_what_is_not_confirmed(lab: TestLab, tmp_path: Path) -> None:
    """The serial number must be typed as it is; unknown drives and runs are named, and nothing is in the queue."""
    lab.add("h1")
    lab.hello("h1", "DRIVE-1")
    source = LabSource(lab.url, FolderSource(tmp_path))
    with pytest.raises(NotConfirmed):
        source.submit(Request(test="iops", target="DRIVE-1", serial="DRIVE-2"))
    with pytest.raises(UsageError, match="No agent has a drive"):
        source.submit(Request(test="iops", target="DRIVE-3", serial="DRIVE-3"))
    with pytest.raises(UsageError, match="needs a reason"):
        source.hold("DRIVE-1", " ")
    with pytest.raises(UnknownRun):
        source.stop("x")

    assert source.snapshot().runs == ()


def test_what_the_run_would_be_refused_for_is_not_submitted(
    lab: TestLab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page and ``lab submit`` name the mistake in an override, and the queue stays empty."""
    lab.add("h1")
    lab.hello("h1", "DRIVE-1")
    lab.query("UPDATE lab_drive SET facts = %s", json.dumps(facts_document(FACTS)))
    source, override = LabSource(lab.url, FolderSource(tmp_path)), "rounds.maxim=30"
    with pytest.raises(SpecError, match=r"did you mean rounds\.maximum"):
        source.submit(Request(test="iops", target="DRIVE-1", serial="DRIVE-1", overrides=(override,)))
    words = ["--database", lab.url, "--serial", "DRIVE-1", "--test", "iops", "--set", override]

    assert main(["lab", "submit", *words]) == SpecError.exit_code
    assert "did you mean rounds.maximum" in capsys.readouterr().err
    assert source.snapshot().queue == ()


def test_the_command_of_a_plan_submits_what_was_planned(lab: TestLab, tmp_path: Path) -> None:
    """It is a command line of snia-pts, with the drive, the test, the class and the overrides."""
    lab.add("h1")
    lab.hello("h1", "DRIVE 1")
    facts = json.dumps(facts_document(FACTS))
    lab.query("UPDATE lab_drive SET facts = %s", facts)
    overrides = ("rounds.maximum=7",)
    request = Request(test="iops", target="DRIVE 1", test_class="client", overrides=overrides)
    plan = LabSource(lab.url, FolderSource(tmp_path)).plan(request)
    arguments = build_parser().parse_args(shlex.split(plan.command)[1:])

    assert (arguments.serial, arguments.test, arguments.test_class) == ("DRIVE 1", "iops", "client")
    assert tuple(arguments.set) == overrides
    assert 0 < plan.least_seconds < plan.most_seconds
