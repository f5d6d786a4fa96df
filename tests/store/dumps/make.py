"""Writes the dumps of the revision of the tables that this version has: ``python -m tests.store.dumps.make``.

A released revision keeps its dumps; run this once when a migration is added.  It needs PostgreSQL's programs.
"""

from __future__ import annotations

import sqlite3
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from sqlalchemy import text

from snia_pts.store.store import Store
from tests.store import postgresql
from tests.test_run_folders import unpacked

HERE = Path(__file__).parent
#: Runs with few figures: one with determinations, one with deviations.
RUNS = ("throughput", "hir")
#: Beginnings of the lines that only psql needs, or only a server of the same version knows.
_OMITTED = ("--", "SET ", "\\", "SELECT pg_catalog.set_config", "CREATE SCHEMA", "COMMENT ON SCHEMA")


def fill(url: str, place: Path) -> str:
    """Add the runs to a new store; return its revision."""
    with Store(url, create=True) as store:
        for name in RUNS:
            store.add(unpacked(name, place), {"project": "alpha; 'beta'"})
        with store._engine.connect() as connection:
            return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one())


def main() -> None:
    """Write both dumps."""
    with tempfile.TemporaryDirectory() as name, postgresql.server() as url:
        place = Path(name)
        file = place / "store.sqlite"
        revision = fill(str(file), place)
        with closing(sqlite3.connect(file)) as connection:
            lines = list(connection.iterdump())
        (HERE / f"{revision}.sqlite.sql").write_text("\n".join(lines) + "\n")
        fill(url, place)
        server = urlsplit(url)
        socket = parse_qs(server.query)["host"][0]
        words = (
            "--inserts",
            "--no-owner",
            "--no-privileges",
            "--host",
            socket,
            "--username",
            str(server.username),
            "postgres",
        )
        command = [str(postgresql.programs() / "pg_dump"), *words]
        dumped = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        kept = [line for line in dumped.splitlines() if line and not line.startswith(_OMITTED)]
        (HERE / f"{revision}.postgresql.sql").write_text("\n".join(kept) + "\n")


if __name__ == "__main__":
    main()
