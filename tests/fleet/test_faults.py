"""The agent and the database are killed while a run goes on: no run is started twice, and no result is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.faults import FAULTS
from tests.fleet.labs import TestLab, new_lab
from tests.store import postgresql

#: A loaded host needs seconds for the start of an agent; bench/fleet_faults.py measures the figures.
_LOADED = 10


@pytest.fixture(name="killed_lab")
def _killed_lab(tmp_path: Path) -> Iterator[TestLab]:
    """A lab on a server of its own, which the test kills."""
    with postgresql.running_server() as server, new_lab(server, tmp_path) as lab:
        yield lab


@pytest.mark.long
@pytest.mark.parametrize("name", FAULTS)
def test_a_run_survives(killed_lab: TestLab, name: str) -> None:
    """It is started once, and its result is reported; the fault costs only some seconds."""
    fault, limit_seconds = FAULTS[name]
    assert fault(killed_lab, "h1") < _LOADED * limit_seconds
