"""Labs on a private PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.labs import TestLab, new_lab
from tests.store import postgresql


@pytest.fixture(scope="session", name="database_server")
def _database_server() -> Iterator[postgresql.Server]:
    """A PostgreSQL server."""
    with postgresql.running_server() as server:
        yield server


@pytest.fixture
def lab(database_server: postgresql.Server, tmp_path: Path) -> Iterator[TestLab]:
    """A new lab without hosts."""
    with new_lab(database_server, tmp_path) as made:
        yield made
