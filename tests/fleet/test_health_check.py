"""A health check that does not pass holds its drive; agents report what a campaign needs."""

from __future__ import annotations

import json

import pytest

from snia_pts.analysis.side_by_side import SideBySide
from snia_pts.fleet.drive_facts import facts_document, target_facts
from tests.fleet.labs import TestLab, request


@pytest.mark.parametrize(
    ("state", "exit_code", "held"),
    [("finished", 0, ""), ("finished", 19, "exit code 19"), ("failed", 13, "failed"), ("stopped", 130, "stopped")],
)
def test_only_a_health_check_that_passes_lets_the_drive_go_on(
    lab: TestLab, state: str, exit_code: int, held: str
) -> None:
    """The drive is held as soon as the end is reported; a run that is no health check changes nothing."""
    lab.add("h1")
    lab.hello("h1", "A", "B")
    check, other = request("A"), request("B")
    with lab.open() as opened:
        opened.submit([check, other], health_checks={check.run_id})
    with lab.as_agent("h1") as connection:
        for run in (check, other):
            for reported, code in (("running", None), (state, exit_code)):
                values = (run.run_id, reported, code)
                connection.execute("SELECT lab_report(%s, %s, %s, '', '', '')", values)
    reason = f"health check {str(check.run_id)[:8]}: {held}" if held else ""
    assert lab.query("SELECT serial, held FROM lab_drive ORDER BY 1") == [("A", reason), ("B", "")]


def test_a_campaign_sees_the_facts_that_the_agent_of_a_drive_reports(lab: TestLab) -> None:
    """Those of another host's drive are ignored; the requests in the queue are those of the drive."""
    facts = target_facts("sim:enterprise-nvme")
    assert facts is not None
    lab.add("h1")
    lab.add("h2")
    lab.hello("h1", "A")
    lab.hello("h2", "B")
    queued = request("A")
    lab.submit(queued)
    drives = json.dumps([{"serial": serial, "facts": facts_document(facts)} for serial in "AB"])
    with lab.as_agent("h1") as connection:
        connection.execute("SELECT lab_facts(3, %s)", (drives,))
    with lab.open() as opened:
        known, side_by_side = opened.campaign_drives()
    assert [(drive.serial, drive.host, drive.facts, drive.queued) for drive in known] == [
        ("A", "h1", facts, (queued,)),
        ("B", "h2", None, ()),
    ]
    assert side_by_side == {"h1": SideBySide(3), "h2": SideBySide(1)}
