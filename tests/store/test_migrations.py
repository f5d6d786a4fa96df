"""Stores of every earlier revision are upgraded, on both databases, from dumps that the versions of that time made."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Engine, MetaData, create_engine

from snia_pts.errors import StoreError
from snia_pts.store import database
from snia_pts.store.schema import METADATA
from snia_pts.store.store import Filter, Store
from tests.store.dumps.make import HERE, RUNS

DATABASES = ("sqlite", "postgresql")


def revisions() -> list[str]:
    """Return all revisions of the tables."""
    config = Config()
    config.set_main_option("script_location", str(Path(database.__file__).with_name("migrations")))
    return sorted(script.revision for script in ScriptDirectory.from_config(config).walk_revisions())


def restore(url: str, revision: str) -> dict[str, list[dict[str, Any]]]:
    """Make the store of a dump in an empty database; return all rows by table."""
    engine = create_engine(sqlalchemy_url(url))
    if "://" not in url:
        with closing(sqlite3.connect(url)) as connection:
            connection.executescript((HERE / f"{revision}.sqlite.sql").read_text())
    else:
        dump = (HERE / f"{revision}.postgresql.sql").read_text()
        with engine.connect().execution_options(no_parameters=True) as opened, opened.begin():
            opened.exec_driver_sql(dump)
    try:
        return stored_rows(engine)
    finally:
        engine.dispose()


def sqlalchemy_url(url: str) -> str:
    """Return the URL of a store as SQLAlchemy has it."""
    return url.replace("postgresql:", "postgresql+psycopg:") if "://" in url else f"sqlite:///{url}"


def stored_rows(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    """Return all rows of the tables that a database has, whatever its revision is."""
    tables = MetaData()
    with engine.connect() as connection:
        tables.reflect(connection)
        return {
            table.name: [
                row._asdict() for row in connection.execute(table.select().order_by(*table.primary_key.columns))
            ]
            for table in tables.sorted_tables
            if table.name != "alembic_version"
        }


def test_every_revision_has_dumps() -> None:
    """A new migration needs those of its revision: ``python -m tests.store.dumps.make``."""
    expected = {f"{revision}.{name}.sql" for revision in revisions() for name in DATABASES}
    assert {path.name for path in HERE.glob("*.sql")} == expected


@pytest.mark.long_but_first
@pytest.mark.parametrize("revision", revisions())
def test_a_store_of_an_earlier_revision_is_upgraded(url: str, revision: str, runs: Path) -> None:
    """Its rows stay to the bit, its tables are those of a new store, and it takes and finds runs."""
    before = restore(url, revision)
    assert len(before["run"]) == len(RUNS)
    assert all(before[name] for name in ("figure", "metric", "determination", "deviation", "label", "regression_check"))

    with Store(url) as store:
        now = stored_rows(store._engine)
        with store._engine.connect() as connection:
            assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
        assert list(now) == list(before)
        for name, rows in before.items():
            assert [{column: row[column] for column in rows[0]} for row in now[name]] == rows if rows else not now[name]
        assert store.add(runs / "iops") == "added"
        assert len(store.runs()) == len(RUNS) + 1
        assert store.runs(Filter(labels={"project": "alpha; 'beta'"})).columns["archive"] == ("",) * len(RUNS)
        assert store.figures(Filter(test="throughput"), metric="mb_per_second").columns["value"]


@pytest.mark.parametrize("revision", revisions()[:-1])
def test_an_upgrade_that_fails_leaves_the_old_tables(url: str, revision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one transaction, on both databases."""
    before = restore(url, revision)

    def fail(config: Config, head: str) -> None:
        command.upgrade(config, head)
        raise CommandError("the disk is full")

    with monkeypatch.context() as failing:
        failing.setattr(database, "command", SimpleNamespace(upgrade=fail))
        with pytest.raises(StoreError, match="the disk is full"):
            Store(url)
    engine = create_engine(sqlalchemy_url(url))
    assert stored_rows(engine) == before
    engine.dispose()
    with Store(url) as store:
        assert len(store.runs()) == len(RUNS)
