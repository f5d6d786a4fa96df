"""Metrics for Prometheus: the exposition, the text file, the alert rules and the dashboard."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from snia_pts.cli.main import main
from snia_pts.errors import UsageError
from snia_pts.runner.live import LiveState, TrackedVariable
from snia_pts.web.application import make_application
from snia_pts.web.folder_source import FolderSource
from snia_pts.web.metrics import exposition
from snia_pts.web.model import DriveView, HostView, QueueEntry, RunView, Snapshot
from snia_pts.web.monitoring_files import ALERTS
from tests.monitoring import FILES, FOLDER
from tests.samples import store_run

LIVE = LiveState(
    position="Round 6, point 2 of 56",
    step="Round 6",
    point=1,
    points=56,
    round_number=6,
    round_maximum=25,
    least_seconds_left=1800.0,
    most_seconds_left=70000.0,
    iops=200000.0,
    celsius=48.0,
    watts=None,
    written_bytes=12345678,
    variables=(
        TrackedVariable(
            series="",
            variable='RND "4 KiB"\n0/100',
            metric="iops",
            unit="IOPS",
            rounds=(1, 2),
            values=(1.0, 201589.5),
            determination=None,
        ),
    ),
    progress=0.25,
    longest_step_seconds=3600.0,
)
RUN = RunView(
    id="r1",
    folder="/runs/r1",
    state="running",
    test="iops",
    drive_id="S1",
    updated="2026-11-27T12:00:00+00:00",
    live=LIVE,
)
SNAPSHOT = Snapshot(
    time="2026-11-27T12:01:00+00:00",
    drives=(
        DriveView(
            id="S1",
            model="X1",
            capacity_bytes=10**12,
            kind="drive",
            firmware="F1",
            bus="PCIe",
            state="running",
            host="h1",
            celsius=48.0,
            warning_celsius=84.0,
            run="r1",
        ),
    ),
    runs=(RUN,),
    queue=(
        QueueEntry(
            run="r2", drive_id="S1", model="X1", host="h1", test="iops", title="IOPS", state="queued", position=1
        ),
    ),
    hosts=(HostView(name="h1", state="ready", drives=1, version="0.1.0", seconds_ago=12.0),),
    free_bytes=5 * 10**9,
    ingest_failures=2,
)


def samples(text: bytes) -> dict[tuple[str, ...], float]:
    """Return each sample by its name and the sorted values of its labels, as Prometheus's own parser reads it."""
    families = text_string_to_metric_families(text.decode())
    return {(one.name, *sorted(one.labels.values())): one.value for family in families for one in family.samples}


def test_each_value_of_a_snapshot_is_a_metric() -> None:
    """Names, labels and values; hostile texts in labels are escaped."""
    found = samples(exposition(SNAPSHOT))
    expected = {
        ("snia_pts_drive_info", "S1", "X1", "F1", "h1", "PCIe", "drive"): 1.0,
        ("snia_pts_drive_temperature_celsius", "S1"): 48.0,
        ("snia_pts_drive_warning_temperature_celsius", "S1"): 84.0,
        ("snia_pts_folder_free_bytes",): 5e9,
        ("snia_pts_ingest_failures_total",): 2.0,
        ("snia_pts_run_info", "S1", "r1", "iops"): 1.0,
        ("snia_pts_run_state", "S1", "running"): 1.0,
        ("snia_pts_run_progress_ratio", "S1"): 0.25,
        ("snia_pts_run_remaining_seconds", "S1", "least"): 1800.0,
        ("snia_pts_run_remaining_seconds", "S1", "most"): 70000.0,
        ("snia_pts_run_round", "S1"): 6.0,
        ("snia_pts_run_last_step_timestamp_seconds", "S1"): 1795780800.0,
        ("snia_pts_run_longest_step_seconds", "S1"): 3600.0,
        ("snia_pts_run_write_bytes_total", "S1"): 12345678.0,
        ("snia_pts_result_iops", "S1", 'RND "4 KiB"\n0/100'): 201589.5,
        ("snia_pts_queue_jobs", "S1", "ready"): 1.0,
        ("snia_pts_agent_last_seen_timestamp_seconds", "h1"): 1795780848.0,
        ("snia_pts_agent_build_info", "h1", "0.1.0"): 1.0,
    }
    assert {key: found.get((key[0], *sorted(key[1:]))) for key in expected} == expected
    states = {key[0] for key in found if key[0].endswith("_state") and "lost" in key}
    assert not states, "only the state that a drive or a run has is a series"


def test_the_series_of_a_run_vanish_an_hour_after_its_end() -> None:
    """Those of the drive stay."""
    for state, minutes, kept in (("finished", 59, True), ("finished", 61, False), ("running", 61, True)):
        time = f"2026-11-27T{12 + minutes // 60}:{minutes % 60:02}:00+00:00"
        run = replace(RUN, state=state)  # type: ignore[arg-type]
        names = {key[0] for key in samples(exposition(replace(SNAPSHOT, runs=(run,), time=time)))}
        assert ("snia_pts_run_info" in names) == kept
        assert "snia_pts_drive_info" in names


def test_missed_limits_are_a_metric_of_a_finished_run() -> None:
    """A run in progress has none."""
    courses = {("finished", True): 1.0, ("finished", False): 0.0, ("running", False): None}
    for (state, missed), value in courses.items():
        run = replace(RUN, state=state, missed_limits=missed)  # type: ignore[arg-type]
        found = samples(exposition(replace(SNAPSHOT, runs=(run,))))
        assert found.get(("snia_pts_run_missed_limits", "S1")) == value


def test_the_state_of_a_run_in_the_queue_says_whether_it_can_start() -> None:
    """A run that waits for nothing is ready; what waits for its host is blocked."""
    waits = {"the drive": "queued", "": "ready", "the host": "blocked", "the host, which is silent": "blocked"}
    for reason, state in waits.items():
        queue = (replace(SNAPSHOT.queue[0], waits_for=reason),)
        assert ("snia_pts_queue_jobs", "S1", state) in samples(exposition(replace(SNAPSHOT, queue=queue)))


def test_virtual_time_is_no_metric() -> None:
    """The remaining time of a simulated drive is not that of a clock."""
    found = samples(exposition(replace(SNAPSHOT, runs=(replace(RUN, virtual=True),))))
    assert not any(key[0] == "snia_pts_run_remaining_seconds" for key in found)


@pytest.mark.long
def test_a_folder_is_written_for_the_node_exporter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file is replaced, readable for others, and what the route gives; a missing folder is an error."""
    store_run(tmp_path / "runs/run")
    target = tmp_path / "snia-pts.prom"
    target.write_text("old")
    assert main(["metrics", str(tmp_path / "runs"), "--to", str(target)]) == 0
    assert samples(target.read_bytes()).keys() == samples(exposition(FolderSource(tmp_path / "runs").snapshot())).keys()
    assert target.stat().st_mode & 0o777 == 0o644
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "snia-pts.prom"}
    with TestClient(make_application(FolderSource(tmp_path / "runs"))) as client:
        answer = client.get("/metrics")
    assert answer.status_code == 200
    served, written = samples(answer.content), samples(target.read_bytes())
    assert served.pop(("snia_pts_folder_free_bytes",)) > 0
    del written[("snia_pts_folder_free_bytes",)]
    assert served == written
    assert main(["metrics", str(tmp_path / "nothing"), "--to", str(target)]) == UsageError.exit_code
    assert "nothing" in capsys.readouterr().err


@pytest.mark.parametrize("name", FILES)
def test_the_files_are_those_of_the_generator(name: str) -> None:
    """``python -m tests.monitoring`` writes them."""
    assert (FOLDER / name).read_text("utf-8") == FILES[name]()


def test_rules_and_dashboard_use_only_metrics_that_there_are() -> None:
    """Each name in a query is in the exposition."""
    ended = replace(SNAPSHOT, runs=(replace(RUN, state="finished"),))
    names = {key[0] for snapshot in (SNAPSHOT, ended) for key in samples(exposition(snapshot))}
    queries = [expression for expression, _, _ in ALERTS.values()]
    queries += [panel["targets"][0]["expr"] for panel in json.loads(FILES["snia-pts-dashboard.json"]())["panels"]]
    used = {name for query in queries for name in re.findall(r"snia_pts_\w+", query)}
    assert used <= names


#: Series that make each alert fire, then clear: the values of one a minute, and the minutes at which it is checked.
COURSES: dict[str, tuple[dict[str, str], int, int]] = {
    "SniaPtsRunStalled": (
        {
            'snia_pts_run_last_step_timestamp_seconds{drive="S1"}': "0x29 1800x30",
            'snia_pts_run_longest_step_seconds{drive="S1"}': "120x60",
            'snia_pts_run_state{drive="S1",state="running"}': "1x60",
        },
        25,
        32,
    ),
    "SniaPtsAgentSilent": ({'snia_pts_agent_last_seen_timestamp_seconds{host="h1"}': "0x19 1200x30"}, 10, 22),
    "SniaPtsDriveHot": (
        {
            'snia_pts_drive_temperature_celsius{drive="S1"}': "48x4 67x5 66x30",
            'snia_pts_drive_warning_temperature_celsius{drive="S1"}': "70x40",
            'snia_pts_drive_temperature_celsius{drive="S2"}': "75x40",
            'snia_pts_drive_warning_temperature_celsius{drive="S2"}': "84x40",
            'snia_pts_drive_temperature_celsius{drive="S3"}': "95x40",
        },
        8,
        14,
    ),
    "SniaPtsDiskLow": ({"snia_pts_folder_free_bytes": "3000000000x4 1900000000x5 3000000000x30"}, 8, 14),
    "SniaPtsRunLost": ({'snia_pts_run_state{drive="S1",state="lost"}': "_x4 1x5 _x30"}, 7, 14),
    "SniaPtsLimitsMissed": ({'snia_pts_run_missed_limits{drive="S1"}': "0x4 1x5 _x30"}, 7, 14),
    "SniaPtsIngestFailing": ({"snia_pts_ingest_failures_total": "0x9 1x90"}, 15, 90),
    "SniaPtsCertificateExpiring": (
        {'probe_ssl_earliest_cert_expiry{job="snia-pts-certificate",instance="lab:8400"}': "1200000x70 9000000x30"},
        65,
        75,
    ),
    "SniaPtsDriveHeld": ({'snia_pts_drive_state{drive="S1",state="held"}': "1x70 _x30"}, 65, 75),
    "SniaPtsQueueStuck": (
        {
            'snia_pts_queue_jobs{drive="S1",state="ready"}': "1x20 _x40",
            'snia_pts_queue_jobs{drive="S2",state="queued"}': "1x60",
        },
        18,
        25,
    ),
}


#: The labels of an alert that is not one of the drive S1.
LABELS: dict[str, dict[str, str]] = {
    "SniaPtsAgentSilent": {"host": "h1"},
    "SniaPtsDiskLow": {},
    "SniaPtsIngestFailing": {},
    "SniaPtsCertificateExpiring": {"job": "snia-pts-certificate", "instance": "lab:8400"},
}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (package prometheus)")
def test_every_alert_fires_and_clears(tmp_path: Path) -> None:
    """promtool evaluates the rules on a course of each alert."""
    assert COURSES.keys() == ALERTS.keys()
    tests = []
    for alert, (series, fires, clears) in COURSES.items():
        labels = LABELS.get(alert, {"drive": "S1"})
        state = re.search(r'state="(\w+)"', next(iter(series)))
        labels = {**labels, "state": state[1]} if state else labels
        expected = {"exp_labels": {"severity": "warning", **labels}}
        tests.append(
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": _values(values)} for name, values in series.items()],
                "alert_rule_test": [
                    {"eval_time": f"{fires}m", "alertname": alert, "exp_alerts": [expected]},
                    {"eval_time": f"{clears}m", "alertname": alert, "exp_alerts": []},
                ],
            }
        )
    rules = json.loads(FILES["snia-pts.rules.yml"]())
    for rule in rules["groups"][0]["rules"]:
        del rule["annotations"]
    (tmp_path / "rules.yml").write_text(json.dumps(rules))
    (tmp_path / "test.yml").write_text(json.dumps({"rule_files": ["rules.yml"], "tests": tests}))
    for command in (
        ["promtool", "check", "rules", str(FOLDER / "snia-pts.rules.yml")],
        ["promtool", "test", "rules", "test.yml"],
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


def _values(course: str) -> str:
    """Return a course of ``VALUExMINUTES`` (``_``: no value) in the notation of promtool."""
    parts = (part.split("x") for part in course.split())
    return " ".join(f"_x{minutes}" if value == "_" else f"{value}+0x{int(minutes) - 1}" for value, minutes in parts)
