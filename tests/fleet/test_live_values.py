"""The pages of a lab show runs in progress: the agent reports their live values."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from snia_pts.cli.main import main
from snia_pts.errors import RecordError
from snia_pts.fleet import live_values
from snia_pts.fleet.agent import Agent
from snia_pts.fleet.configuration import read_configuration
from snia_pts.fleet.live_values import (
    LiveReader,
    LiveValues,
    live_values_json,
    parse_live_values,
    parse_series,
    series_json,
)
from snia_pts.fleet.run_state import HostRuns
from snia_pts.fleet.trial import MODEL, TrialHost
from snia_pts.model.run_options import RunOptions
from snia_pts.record.folder import RunFolder
from snia_pts.record.replay import assess
from snia_pts.record.suite import SuiteFolder
from snia_pts.runner.live import LiveRun
from snia_pts.spec import Deviation
from snia_pts.web.folder_source import FolderSource
from snia_pts.web.lab_source import LabSource
from tests.fleet.labs import LONG, TestLab, request, until
from tests.samples import store_run
from tests.test_metrics import LIVE

VALUES = LiveValues(
    title="IOPS test",
    started="2026-11-28T11:00:00+00:00",
    updated="2026-11-28T12:00:00+00:00",
    virtual=False,
    warning_celsius=84.0,
    state=LIVE,
    deviations=(Deviation(what="rounds", standard="25", actual="14", clause="7.2"),),
)


def test_values_are_read_as_they_were_written() -> None:
    """Characters that cannot be printed are replaced; anything else than live values is none."""
    document = json.loads(live_values_json(replace(VALUES, title="\x1b[31m")))
    parsed = parse_live_values(document)
    assert parsed is not None
    assert "\x1b" not in parsed.title
    assert parsed.state == replace(LIVE, variables=parsed.state.variables)
    assert parsed.state.variables[0].values == LIVE.variables[0].values
    assert (parsed.deviations, parsed.warnings) == (VALUES.deviations, ())
    invalid: tuple[object, ...] = (None, {}, [], "x", {**document, "state": {**document["state"], "iops": "many"}})
    assert {parse_live_values(value) for value in invalid} == {None}


@pytest.mark.parametrize(("celsius", "warning", "heat"), [(80.9, 84.0, ""), (None, 84.0, ""), (99.0, None, "")])
def test_a_drive_is_not_hot(celsius: float | None, warning: float | None, heat: str) -> None:
    """It has at least 3 degrees left, or one of the temperatures is not known."""
    assert replace(VALUES, state=replace(LIVE, celsius=celsius), warning_celsius=warning).heat == heat


def test_a_drive_is_hot() -> None:
    """From 3 degrees below its warning temperature on."""
    assert replace(VALUES, state=replace(LIVE, celsius=81.0)).heat == "It has 81 °C; it warns at 84 °C."


def test_values_without_end_are_sent_without_their_rounds() -> None:
    """The database accepts 64 KiB; a run with many tracked variables is still live."""
    large = replace(VALUES, state=replace(LIVE, variables=LIVE.variables * 1000))
    document = live_values_json(large)
    parsed = parse_live_values(json.loads(document))
    assert len(document) < 40 * 1024
    assert parsed is not None
    assert (parsed.state.variables, parsed.state.iops) == ((), LIVE.iops)


def test_a_reader_returns_new_values_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those of the last test of the folder; a folder without a journal has none yet."""
    monkeypatch.setattr(live_values, "_PAUSE_SECONDS", 0.0)
    assert LiveReader(tmp_path / "none").read() is None
    store_run(tmp_path / "run")
    reader = LiveReader(tmp_path / "run")
    read = reader.read()
    assert read is not None
    values, series = read
    assert values.title
    assert values.state.variables
    assert parse_series(json.loads(series_json(series))) == series
    assert "IOPS" in {one.name for one in series}
    assert reader.read() is None
    (tmp_path / "run" / "journal.jsonl").write_text("nonsense\n")
    with pytest.raises(RecordError):
        LiveReader(tmp_path / "run").read()


def test_only_the_last_rounds_and_some_values_over_time_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the values of a long test are small; the last value over time is among them."""
    monkeypatch.setattr(live_values, "_MAX_ROUNDS", 2)
    store_run(tmp_path / "run")
    monkeypatch.setattr(live_values, "_MAX_POINTS", 10)
    read = LiveReader(tmp_path / "run").read()
    assert read is not None
    values, series = read
    run = LiveRun(RunFolder(path=tmp_path / "run"))
    run.read()
    assert [one.values[-1] for one in series] == [one.values[-1] for one in run.series]
    assert {len(one.seconds) for one in series} == {len(one.values) for one in series} == {10}
    assert {len(variable.rounds) for variable in values.state.variables} == {2}
    assert {len(variable.values) for variable in values.state.variables} == {2}


def test_a_suite_has_no_live_values_before_its_first_test(tmp_path: Path) -> None:
    """That is no failure; then they are those of its last test that has started."""
    seed = assess(store_run(tmp_path / "run")).facts.seed
    options = RunOptions(test="iops", target=MODEL, seed=seed)
    suite = SuiteFolder.create(tmp_path / "all", ("iops", "wsat"), (options, replace(options, test="wsat")))
    reader = LiveReader(suite.path)
    assert reader.read() is None
    store_run(suite.run_path("iops"))
    assert reader.read() is not None


def test_a_failure_to_read_live_values_is_said_once(tmp_path: Path) -> None:
    """For each run, in the log of the agent."""
    said, host = list[str](), TrialHost("h1", tmp_path / "h1", "postgresql://agent_h1@/lab", ("A",))
    configuration = read_configuration(host.configuration)
    agent = Agent(configuration, HostRuns(configuration), said.append)
    store_run(tmp_path / "run")
    (tmp_path / "run" / "journal.jsonl").write_text("nonsense\n")
    reader, runs = LiveReader(tmp_path / "run"), (UUID(int=1), UUID(int=2))

    async def send() -> None:
        for run_id in (*runs, *runs):
            await agent._send_live_values(run_id, reader)

    asyncio.run(send())
    assert [line.partition(": ")[0] for line in said] == [f"run {run_id}" for run_id in runs]
    assert all("its live values cannot be read, and pages do not show them: " in line for line in said)


@pytest.mark.long
def test_a_run_in_progress_is_live_in_the_lab(lab: TestLab, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Page, metrics and command show its round and the drive's temperature; a run that has ended has no live values."""
    lab.add("h1", "A").start()
    until(lambda: lab.query("SELECT 1 FROM lab_drive"), "the agent reports its drive")
    run = request("A", LONG)
    lab.submit(run)
    source = LabSource(lab.url, FolderSource(tmp_path))

    def live_view() -> Any:
        view = source.snapshot().runs[0]
        return view if view.live else None

    assert not source.snapshot().runs[0].deviations_known
    view = until(live_view, "the run is live")
    assert (view.state, view.virtual) == ("running", True)
    assert view.live.position
    assert view.deviations_known
    assert view.deviations
    detail = until(lambda: (found := source.run(str(run.run_id))).log and found, "the run has printed")
    assert detail.run.id == str(run.run_id)
    assert "IOPS" in {series.name for series in detail.series}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SNIA_PTS_LAB", lab.url)
        assert main(["lab", "runs"]) == 0
    lab.until_state(run.run_id, "finished")
    assert source.snapshot().runs[0].live is None
    assert "running" in capsys.readouterr().out
