"""Stores on SQLite and on a private PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from snia_pts.store.store import Store
from tests.run_folders.make import RUNS
from tests.store import postgresql
from tests.test_run_folders import unpacked


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of each test, and further ones."""
    place = tmp_path_factory.mktemp("runs")
    for name in RUNS:
        unpacked(name, place)
    return place


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of an empty database of a PostgreSQL server."""
    with postgresql.server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a new store."""
    if request.param == "sqlite":
        yield str(tmp_path / "store.sqlite")
        return
    address = str(request.getfixturevalue("server"))
    yield address
    _empty(address)


@pytest.fixture
def empty(url: str) -> Callable[[], None]:
    """A function that removes all tables of the store."""
    return lambda: _empty(url)


def _empty(url: str) -> None:
    if "://" not in url:
        for path in Path(url).parent.glob(f"{Path(url).name}*"):
            path.unlink()
        return
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """A new store."""
    opened = Store(url, create=True)
    yield opened
    opened.close()
