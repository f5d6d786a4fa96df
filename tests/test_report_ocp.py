"""The result as lines of OCP Test & Validation: their format, and the measured values."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from datetime import datetime
from typing import Any

import pytest

from snia_pts.report.formats import ocp
from snia_pts.results.key_figures import key_figures
from snia_pts.results.result import TestResult
from snia_pts.results.warnings import run_warnings
from snia_pts.spec import SPEC_TYPES
from snia_pts.spec.limits import Limit
from tests import samples

HOSTILE = 'a\x1b[31m\u202e\udcff\n"{}'
#: The members of the two kinds of artifacts, in the grammar of ocp-diag-core.
RUN = {"testRunStart", "testRunEnd", "log", "error"}
STEP = {
    "testStepStart",
    "testStepEnd",
    "measurement",
    "measurementSeriesStart",
    "measurementSeriesElement",
    "measurementSeriesEnd",
    "diagnosis",
    "log",
}


def lines(result: TestResult) -> list[dict[str, Any]]:
    """Return the lines as they are read back."""
    return [json.loads(line) for line in ocp.make(result).decode("utf-8").splitlines()]


def steps(result: TestResult) -> list[tuple[str, dict[str, Any]]]:
    """Return kind and content of each artifact of the steps, in order."""
    selected = [line["testStepArtifact"] for line in lines(result) if "testStepArtifact" in line]
    return [(kind, item[kind]) for item in selected for kind in item if kind != "testStepId"]


@pytest.mark.long_but_first
@pytest.mark.parametrize("test", SPEC_TYPES)
def test_every_line_has_its_number_time_and_one_artifact(test: str) -> None:
    """The lines go from the schema version to the end of the run; every step and series begins and ends once."""
    records = lines(samples.result_of(test))
    open_steps, closed = list[str](), set[str]()
    for number, line in enumerate(records):
        (kind,) = set(line) - {"sequenceNumber", "timestamp"}
        assert line["sequenceNumber"] == number
        assert datetime.fromisoformat(line["timestamp"]).tzinfo
        if kind == "testStepArtifact":
            step = line[kind].pop("testStepId")
            (what,) = line[kind]
            assert what in STEP
            if what == "testStepStart":
                assert step not in closed
                open_steps.append(step)
            assert open_steps == [step]
            if what == "testStepEnd":
                closed.add(open_steps.pop())
        elif kind == "testRunArtifact":
            assert set(line[kind]) <= RUN
            assert not open_steps
    assert records[0]["schemaVersion"] == {"major": 2, "minor": 0}
    assert "testRunStart" in records[1]["testRunArtifact"]
    assert records[-1]["testRunArtifact"] == {"testRunEnd": {"status": "COMPLETE", "result": "PASS"}}


@pytest.mark.parametrize("test", ["iops", "throughput", "dirth"])
def test_a_series_has_the_measured_values(test: str) -> None:
    """Every point of every round is in its own series, with the round's number and its start time."""
    result = samples.result_of(test)
    outcome, counts = steps(result), Counter[str]()
    elements = [item for kind, item in outcome if kind == "measurementSeriesElement"]
    for item in elements:
        counts[item["measurementSeriesId"]] += 1
    measured = [
        (each_round.number, measurement.timing.started, measurement.iops)
        for loop in result.loops
        for each_round in loop.rounds
        for measurement in each_round.measurements
    ]

    iops = [element for element in elements if element["measurementSeriesId"].startswith("iops at ")]
    assert [(element["index"], element["value"]) for element in iops] == [
        (number, value) for number, _, value in measured
    ]
    assert [datetime.fromisoformat(element["timestamp"]) for element in iops] == [
        datetime.fromisoformat(started) for _, started, _ in measured
    ]
    ends = {item["measurementSeriesId"]: item["totalCount"] for kind, item in outcome if kind == "measurementSeriesEnd"}
    starts = [item["measurementSeriesId"] for kind, item in outcome if kind == "measurementSeriesStart"]
    assert ends == counts
    assert sorted(starts) == sorted(ends)


def test_a_point_without_ios_has_no_response_time() -> None:
    """Its IOPS are 0, as in result.xml and in the tables; an average over no I/O would not be a measured value."""
    starts = [item["name"] for kind, item in steps(samples.result_of("latency", scale=0.0)) if kind.endswith("Start")]

    assert "iops" in starts
    assert "average_response_ms" not in starts


@pytest.mark.long
def test_key_figures_have_their_limits() -> None:
    """Limits include the tolerance: each bound has a validator, each limit a diagnosis, and the run a result."""
    result = samples.result_of("iops")
    figure = next(figure for figure in key_figures(result) if figure.metric == "iops")
    facts: dict[str, Any] = {"test": "iops", "metric": "iops", "at": figure.at, "unit": "IOPS"}
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"minimum": 2.0}, "PASS"),
        ({"minimum": 1.0, "maximum": 2.0}, "FAIL"),
    )
    for bounds, passed in cases:
        limit = Limit(**facts, **bounds, tolerance_percent=50)
        outcome = dataclasses.replace(result, facts=dataclasses.replace(result.facts, limits=(limit,)))
        artifacts = steps(outcome)
        (selected,) = (entry for kind, entry in artifacts if kind == "measurement" and "validators" in entry)
        expected = [("GREATER_THAN_OR_EQUAL", bounds["minimum"] / 2)]
        expected += [("LESS_THAN_OR_EQUAL", 3.0)] if "maximum" in bounds else []
        assert [(item["type"], item["value"]) for item in selected["validators"]] == expected
        assert (selected["name"], selected["value"], selected["unit"]) == ("iops", figure.value, "IOPS")
        verdicts = {content["verdict"]: content["type"] for kind, content in artifacts if kind == "diagnosis"}
        assert (verdicts[limit.name], verdicts["steady state"], verdicts["test"]) == (passed, "PASS", "PASS")
        assert lines(outcome)[-1]["testRunArtifact"]["testRunEnd"]["result"] == passed


@pytest.mark.long_but_first
@pytest.mark.parametrize(
    ("how", "end"),
    [
        ({"steady": False}, {"status": "COMPLETE", "result": "FAIL"}),
        ({"stop_after": 1, "ending": "device failed"}, {"status": "ERROR", "result": "NOT_APPLICABLE"}),
    ],
)
def test_an_unsteady_or_stopped_test_does_not_pass(how: dict[str, Any], end: dict[str, str]) -> None:
    """A test that is not steady fails; an unfinished one has the reason and no result."""
    records = lines(samples.result_of("iops", ending_detail="it is gone" if "ending" in how else "", **how))
    assert records[-1]["testRunArtifact"]["testRunEnd"] == end
    errors = [item["testRunArtifact"]["error"] for item in records if "error" in item.get("testRunArtifact", {})]
    assert errors == ([{"symptom": "device failed", "message": "it is gone"}] if "ending" in how else [])


def test_deviations_and_warnings_are_logged() -> None:
    """None of them is omitted."""
    result = samples.result_of("iops", found=samples.deviations(3))
    logs = [line["testRunArtifact"]["log"] for line in lines(result) if "log" in line.get("testRunArtifact", {})]
    assert {"severity": "WARNING", "message": "PTS conformant: NO, 3 deviations"} in [item for _, item in steps(result)]
    assert len(logs) == len(result.deviations) + len(run_warnings(result)) >= 3
    assert {log["severity"] for log in logs} == {"WARNING"}


def test_texts_of_a_device_are_texts() -> None:
    """Each text is one line without control characters; an invalid time is replaced by the one before."""
    result = samples.result_of("iops", device=samples.dut(model=HOSTILE, serial=HOSTILE), operator=HOSTILE)
    result = dataclasses.replace(result, finished=HOSTILE, facts=dataclasses.replace(result.facts, started=HOSTILE))
    content = ocp.make(result).decode("utf-8")
    assert not set(content) & set("\x1b\u202e")
    assert len(content.splitlines()) == content.count("\n") == len(lines(result))
    assert "1970-01-01T00:00:00" in content.splitlines()[0]


def test_validators_are_those_of_the_figures_unit() -> None:
    """A figure has all its limits; a limit in another unit is not among them, and its diagnosis is a failure."""
    result = samples.result_of("iops")
    at = next(figure.at for figure in key_figures(result) if figure.metric == "average_response_ms")
    facts: dict[str, Any] = {"test": "iops", "metric": "average_response_ms", "at": at}
    limits = (
        Limit(**facts, unit="us", maximum=300.0),
        Limit(**facts, unit="ms", minimum=0.0),
        Limit(**facts, unit="ms", maximum=9e9),
    )
    artifacts = steps(dataclasses.replace(result, facts=dataclasses.replace(result.facts, limits=limits)))
    (selected,) = (entry for kind, entry in artifacts if kind == "measurement" and "validators" in entry)
    assert [(item["type"], item["value"]) for item in selected["validators"]] == [
        ("GREATER_THAN_OR_EQUAL", 0.0),
        ("LESS_THAN_OR_EQUAL", 9e9),
    ]
    assert [content["type"] for kind, content in artifacts if kind == "diagnosis"][-3:] == ["FAIL", "PASS", "PASS"]


def test_an_interrupted_run_is_not_complete() -> None:
    """The interrupted step is an error; steady state and test result cannot be evaluated, and are unknown."""
    result = samples.result_of("iops", stop_after=150, ending="device failed", ending_detail="it is gone")
    assert not result.loops[0].rounds[-1].complete
    artifacts = steps(result)
    assert [item["status"] for kind, item in artifacts if kind == "testStepEnd"][-2:] == ["ERROR", "COMPLETE"]
    kinds = {entry["verdict"]: entry["type"] for kind, entry in artifacts if kind == "diagnosis"}
    assert (kinds["steady state"], kinds["test"]) == ("UNKNOWN", "UNKNOWN")
