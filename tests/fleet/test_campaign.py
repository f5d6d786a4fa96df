"""Campaigns: a file becomes requests and a plan, or a list of all its mistakes."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from snia_pts.analysis.side_by_side import SideBySide
from snia_pts.errors import SpecError
from snia_pts.fleet.campaign import CampaignPlan, LabDrive, plan_campaign
from snia_pts.fleet.drive_facts import DriveFacts, facts_document, facts_of, parse_facts
from snia_pts.fleet.request import RequestOptions, RunRequest, parse_request, request_json
from snia_pts.fleet.schedule import elapsed_seconds
from snia_pts.lab.simulated.preset import read_preset, simulated_dut
from snia_pts.model.dut import AssumedSpeed
from snia_pts.model.run_options import RunOptions
from snia_pts.runner.caller import Caller
from snia_pts.runner.run import estimate

FACTS = DriveFacts(
    capacity_bytes=960_197_124_096,
    logical_sector_bytes=512,
    rotational=False,
    bus="NVMe",
    speed=AssumedSpeed(read=7877, write=7877, minimum_write=500, source="PCIe 4.0 x4"),
)
_FILE = """
format = 1
name = "firmware-7.2"
[[drive]]
serial = "S1"
[[test]]
test = "wsat"
options.overrides = ["saturation.seconds=600"]
"""


def drive(serial: str, host: str = "h1", **values: Any) -> LabDrive:
    """Return a drive of a lab."""
    return LabDrive(**{"serial": serial, "model": "M", "host": host, "facts": FACTS, **values})


def planned(path: Path, text: str, *drives: LabDrive, **side_by_side: int) -> CampaignPlan:
    """Return the plan of a campaign file with this text."""
    file = path / "campaign.toml"
    file.write_text(text)
    counts = {host: SideBySide(count) for host, count in side_by_side.items()}
    return plan_campaign(file, drives or (drive("S1"),), counts)


def mistakes(path: Path, text: str, *drives: LabDrive) -> list[str]:
    """Return the mistakes of a campaign file with this text."""
    with pytest.raises(SpecError) as caught:
        planned(path, text, *drives)
    return [line.strip() for line in caught.value.mistakes.splitlines()]


def test_each_drive_has_each_test_as_often_as_it_is_repeated(tmp_path: Path) -> None:
    """The requests are in the order of the file, each with a number of its own; agents accept them."""
    text = """
format = 1
name = "lot 7"
priority = 5
on_lost = "hold"
labels = { lot = "7", project = "alpha" }
options = { test_class = "client", overrides = ["preconditioning.capacities=1"] }
[[drive]]
serial = "S2"
[[drive]]
serial = "S1"
[health_check]
test = "wsat"
options.overrides = ["saturation.seconds=600"]
[[test]]
test = "iops"
repeats = 2
labels = { project = "beta" }
[[test]]
test = "all"
on_lost = "from-purge"
options.overrides = []
"""
    plan = planned(tmp_path, text, drive("S1"), drive("S2"))

    requests = [run.request for run in plan.runs]
    assert [(request.serial, request.test) for request in requests] == [
        (serial, test) for serial in ("S2", "S1") for test in ("wsat", "iops", "iops", "all")
    ]
    assert [run.is_health_check for run in plan.runs[:4]] == [True, False, False, False]
    assert len({request.run_id for request in requests}) == len(requests)
    assert {request.options.test_class for request in requests} == {"client"}
    assert [request.options.overrides for request in requests[:4]] == [
        ("saturation.seconds=600",),
        ("preconditioning.capacities=1",),
        ("preconditioning.capacities=1",),
        (),
    ]
    assert [request.on_lost for request in requests[:4]] == ["hold", "hold", "hold", "from-purge"]
    assert requests[1].labels == {"lot": "7", "project": "beta"}
    assert plan.campaign.priority == 5
    assert [parse_request(request_json(request)) for request in requests] == requests


def test_drives_of_a_model_are_spread_over_the_hosts_and_idle_ones_are_first(tmp_path: Path) -> None:
    """A drive that is named, has a queue, is retired or has no host is not taken if there are others."""
    drives = (
        drive("A1", "h1"),
        drive("A2", "h1"),
        drive("A3", "h1", queued=(request(),)),
        drive("B1", "h2"),
        drive("B2", "h2", obstacle="it is retired"),
        drive("C1", "h3", model="other"),
    )
    text = _FILE.replace('serial = "S1"', 'serial = "A1"\n[[drive]]\nmodel = "M"\ncount = {count}')

    plan = planned(tmp_path, text.format(count=2), *drives)
    assert [run.request.serial for run in plan.runs] == ["A1", "B1", "A2"]
    plan = planned(tmp_path, text.format(count=3), *drives)
    assert [run.request.serial for run in plan.runs] == ["A1", "B1", "A2", "A3"]
    assert mistakes(tmp_path, text.format(count=4), *drives) == [
        "drive 2.count: 4: expected at most 3, the drives that are usable"
    ]


def request(seconds: int = 600) -> RunRequest:
    """Return a request for a test of this length."""
    options = RequestOptions(overrides=(f"saturation.seconds={seconds}",))
    return RunRequest(run_id=uuid4(), serial="S1", model="M", test="wsat", options=options)


@pytest.mark.parametrize("test", ["iops", "wsat"])
def test_the_plan_is_that_of_the_verb_plan(test: str, tmp_path: Path) -> None:
    """Times and written bytes of a request are those that ``--plan`` shows for the same drive."""
    preset = read_preset("enterprise-nvme")
    dut = simulated_dut("enterprise-nvme", preset)
    facts = facts_of(dut, preset.speed)
    plan = planned(
        tmp_path,
        _FILE.replace('"wsat"\noptions.overrides = ["saturation.seconds=600"]', f'"{test}"'),
        drive("S1", facts=facts),
    )
    expected = estimate(RunOptions(test=test, target="sim:enterprise-nvme"), Caller()).plan

    cost = plan.drives[0].cost
    assert (cost.least_seconds, cost.greatest_seconds) == (expected.shortest.seconds, expected.longest.seconds)
    assert cost.greatest_bytes == max(expected.shortest.written_bytes, expected.longest.written_bytes)
    assert cost.greatest_bytes > cost.least_bytes / 2 > 0
    assert parse_facts(facts_document(facts)) == facts


def test_the_time_of_a_host_has_its_queue_and_what_goes_on_side_by_side(tmp_path: Path) -> None:
    """Three drives with a run each: three times as long one after the other; the queue comes before."""
    drives = (drive("S1"), drive("S2"), drive("S3"))
    text = _FILE.replace('serial = "S1"', 'model = "M"\ncount = 3')
    alone = planned(tmp_path, text, *drives, h1=3).hosts[0].greatest_seconds
    assert alone > 600
    assert planned(tmp_path, text, *drives, h1=1).hosts[0].greatest_seconds == pytest.approx(3 * alone)
    assert planned(tmp_path, text, *drives, h1=2).hosts[0].greatest_seconds == pytest.approx(2 * alone)
    assert planned(tmp_path, text, *drives).hosts[0].side_by_side == SideBySide(1)

    queued = planned(tmp_path, _FILE, drive("S1", queued=(request(), request())), h1=2)
    assert queued.hosts[0].greatest_seconds == pytest.approx(3 * alone)
    assert (queued.drives[0].before, queued.drives[0].runs) == (2, 1)


@pytest.mark.parametrize(
    ("sequences", "side_by_side", "seconds"),
    [
        ([], 1, 0.0),
        ([[1, 2], [3]], 1, 6.0),
        ([[1, 2], [3]], 2, 3.0),
        ([[5], [5], [5, 1]], 2, 11.0),
        ([[4, 4], [1], [1]], 8, 8.0),
    ],
)
def test_a_place_is_given_to_the_drive_that_waits_the_longest(
    sequences: list[list[float]], side_by_side: int, seconds: float
) -> None:
    """The time of a host, calculated by hand."""
    assert elapsed_seconds(sequences, side_by_side) == seconds


def test_all_mistakes_of_a_file_are_listed_with_their_keys(tmp_path: Path) -> None:
    """Those of its form first; those of its content together."""
    form = """
format = 2
nam = "x"
priority = 1000
[[drive]]
[[drive]]
model = "M"
[[test]]
test = "rm"
repeats = 0
options.overwrite = true
options.plugins = ["evil.py"]
"""
    assert sorted(line.split(":")[0] for line in mistakes(tmp_path, form)) == [
        "drive 1",
        "drive 2.count",
        "format",
        "nam",
        "name",
        "priority",
        "test 1.options.overwrite",
        "test 1.options.plugins",
        "test 1.repeats",
        "test 1.test",
    ]
    content = """
format = 1
name = "x"
[[drive]]
serial = "S1"
[[drive]]
serial = "S1"
[[drive]]
serial = "S9"
[[drive]]
model = "N"
count = 1
[[drive]]
serial = "old"
[[test]]
test = "iops"
"""
    lines = mistakes(tmp_path, content, drive("S1"), drive("old", facts=None))
    assert lines == [
        "drive 2.serial: 'S1': expected each serial number once",
        "drive 3.serial: 'S9': no agent has this drive",
        "drive 4.model: 'N': no agent has a drive of this model",
        "drive 5.serial: 'old': its agent has not reported its capacity; upgrade and restart the agent",
    ]


def test_options_with_which_a_run_would_be_refused_are_mistakes(tmp_path: Path) -> None:
    """An override, a version, a format and a limit that do not exist are named with the key of their test."""
    text = """
format = 1
name = "x"
[[drive]]
serial = "S1"
[[test]]
test = "iops"
options.overrides = ["rounds.maximun=7"]
[[test]]
test = "iops"
options.pts = "9.9"
[[test]]
test = "wsat"
options.formats = ["docx"]
[[test]]
test = "iops"
[[test.options.limits]]
test = "iops"
metric = "iops"
at = "RND 5 KiB 0/100"
unit = "IOPS"
minimum = 1.0
"""
    lines = mistakes(tmp_path, text)
    assert [line.split(":")[0] for line in lines] == [f"test {number}.options" for number in (1, 2, 3, 4)]
    assert ["maximun" in lines[0], "9.9" in lines[1], "docx" in lines[2], "RND 5 KiB 0/100" in lines[3]] == [True] * 4


def test_a_campaign_has_a_limit(tmp_path: Path) -> None:
    """A count of runs that nobody means is refused before anything is planned."""
    text = _FILE.replace('"wsat"', '"wsat"\nrepeats = 1000').replace('serial = "S1"', 'model = "M"\ncount = 11')
    drives = [drive(f"S{number}") for number in range(11)]
    assert mistakes(tmp_path, text, *drives) == ["test: 11000 runs: expected at most 10000"]


@pytest.mark.parametrize(
    "document",
    [
        None,
        7,
        [],
        {},
        {**facts_document(FACTS), "capacity_bytes": 0},
        {**facts_document(FACTS), "capacity_bytes": 1 << 70},
        {**facts_document(FACTS), "bus": "x\x1b[2J"},
        {**facts_document(FACTS), "more": 1},
    ],
)
def test_facts_that_an_agent_made_up_are_no_facts(document: object) -> None:
    """A drive with such facts cannot be planned."""
    assert parse_facts(document) is None


def test_the_example_of_the_documentation_is_a_campaign(tmp_path: Path) -> None:
    """It can be planned for a lab with its drives, and each key of a campaign is described."""
    document = (Path(__file__).parents[2] / "docs" / "fleet.rst").read_text()
    example = re.search(r"(?m)^    format = 1\n    name = (?:.*\n)+?(?=\S)", document)
    assert example
    text = re.sub(r"(?m)^    ", "", example[0])
    drives = (drive("S64HNE0R500001"), *(drive(f"M{number}", model="EXAMPLE 960") for number in range(4)))
    plan = planned(tmp_path, text, *drives)
    assert Counter(run.is_health_check for run in plan.runs) == {True: 5, False: 15}
    assert len(plan.drives) == 5
