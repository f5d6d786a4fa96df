"""How many runs a host performs side by side: decided once by the agent, and read by the processes of the runs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from snia_pts.analysis.side_by_side import SideBySide
from snia_pts.fleet import capacity
from snia_pts.fleet.capacity import decide_side_by_side, decided_side_by_side
from snia_pts.fleet.configuration import AgentConfiguration, read_configuration
from snia_pts.fleet.state_folder import RunState
from snia_pts.fleet.trial import TrialHost
from tests.fleet.labs import request


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> AgentConfiguration:
    """A host with two simulated drives; its configuration does not say how many runs go on side by side."""
    trial = TrialHost("h1", tmp_path, "postgresql://agent_h1@/lab", ("A", "B"))
    (tmp_path / "state").mkdir()
    return replace(read_configuration(trial.configuration), side_by_side=None)


def test_a_host_is_calibrated_once(host: AgentConfiguration, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes of the runs read what the agent has decided; before that, a run has the host for itself."""
    costs = [1.5]
    monkeypatch.setattr(capacity, "calibrated_cost_us", costs.pop)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(3)))
    assert decided_side_by_side(host) == 1
    expected = SideBySide(1, "this host has 3 CPUs, and a test can use 2.0 (assumed)")
    assert decide_side_by_side(host) == decide_side_by_side(host) == expected
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    assert decide_side_by_side(host) == SideBySide(2, "2 drives, and all fit")
    assert decided_side_by_side(host) == 2
    assert costs == []


def test_no_calibration_disturbs_a_run(host: AgentConfiguration, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one is in progress, the CPUs of a test are assumed; the next start of the agent calibrates the host."""
    costs = [1.5]
    monkeypatch.setattr(capacity, "calibrated_cost_us", costs.pop)
    run = request("A")
    state = RunState.of(host.state_folder, run.run_id)
    state.make_folder()
    lock = state.locked()
    assert lock is not None
    decide_side_by_side(host)
    assert costs == [1.5]
    os.close(lock)
    decide_side_by_side(host)
    assert costs == []


def test_the_configuration_decides_if_it_has_a_number(host: AgentConfiguration) -> None:
    """Nothing is calibrated or stored."""
    configured = replace(host, side_by_side=7)
    assert decide_side_by_side(configured) == SideBySide(7, f"side_by_side in {host.path}")
    assert decided_side_by_side(configured) == 7
    assert list(host.state_folder.iterdir()) == []
