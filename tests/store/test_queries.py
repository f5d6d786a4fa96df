"""Statements of the operator, drives, exports, and a store that is made again from the run folders."""

from __future__ import annotations

import csv
import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from pyarrow import parquet
from sqlalchemy import update

from snia_pts.cli.main import main
from snia_pts.errors import RecordError, UsageError
from snia_pts.store.schema import FIGURE, RUN
from snia_pts.store.store import Filter, Store
from tests.store.stored_runs import like, put, rows_of
from tests.store.test_store import content

#: A file that a server of another user could write, too.
_ELSEWHERE = Path(tempfile.gettempdir(), f"snia-pts-test-{os.getpid()}")

# -- sql --------------------------------------------------------------------------------------------------------------


def test_a_select_statement_is_performed(store: Store, runs: Path) -> None:
    """Numbers are those of the tables; a percent sign is one; binary values are hexadecimal digits."""
    store.add(runs / "iops")
    found = store.sql("SELECT count(*) AS figures, sum(value) AS total FROM figure")
    assert found.columns["figures"] == (len(content(store)["figure"]),)
    assert store.sql("SELECT id FROM run WHERE model LIKE 'Sim%'").columns["id"] == (1,)
    rounds = store.sql("SELECT rounds FROM figure ORDER BY metric_id LIMIT 1").columns["rounds"][0]
    assert bytes.fromhex(str(rounds)) == content(store)["figure"][0][4]
    assert store.sql("WITH a AS (SELECT 1 AS x) SELECT x FROM a").columns == {"x": (1,)}
    with pytest.raises(UsageError, match="same name"):
        store.sql("SELECT id, id FROM run")


@pytest.mark.long_but_first
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM run",
        "UPDATE run SET model = 'x'",
        "INSERT INTO label VALUES (1, 'a', 'b')",
        "DROP TABLE label",
        "CREATE TABLE x (y integer)",
        "CREATE TEMP TABLE x (y integer)",
        "SELECT 1; DELETE FROM run",
        "SELECT 1; COMMIT; DELETE FROM run",
        "COMMIT",
        "WITH gone AS (DELETE FROM run RETURNING id) SELECT * FROM gone",
        "SELECT * INTO x FROM run",
        "SET TRANSACTION READ WRITE",
        "SELECT set_config('transaction_read_only', 'off', false); DELETE FROM run",
        "COPY run TO '{elsewhere}'",
        "COPY run TO PROGRAM 'cat >{elsewhere}'",
        "PRAGMA query_only = OFF",
        "PRAGMA writable_schema = ON",
        "ATTACH DATABASE '{elsewhere}' AS other",
        "VACUUM INTO '{elsewhere}'",
        "SELEC 1",
        "",
        "\x00",
        "SELECT '\ud800'",
    ],
)
def test_no_statement_writes(store: Store, runs: Path, statement: str) -> None:
    """Neither in the store nor in another file; the message is a sentence."""
    store.add(runs / "hir")
    before = content(store)
    with pytest.raises(UsageError) as error:
        store.sql(statement.replace("{elsewhere}", str(_ELSEWHERE)))
    assert str(error.value).startswith("The statement failed: ")
    assert content(store) == before
    assert not list(_ELSEWHERE.parent.glob(f"{_ELSEWHERE.name}*"))


def test_a_function_that_writes_has_no_effect(store: Store, url: str) -> None:
    """PostgreSQL before version 16 lets a transaction that only reads create large objects: it is rolled back."""
    if "postgresql" in url:
        store.sql("SELECT lo_create(4711)")
        assert store.sql("SELECT count(*) AS n FROM pg_largeobject_metadata").columns["n"] == (0,)


# -- drives -----------------------------------------------------------------------------------------------------------


def test_drives_are_listed(store: Store, runs: Path) -> None:
    """A row for each firmware of a drive, with its runs and all that they wrote."""
    rows = rows_of(runs / "iops")
    put(store, *(like(rows, day) for day in range(3)), like(rows, 3, firmware="9"), like(rows, 4, serial="Z"))
    drives = store.drives().columns
    written = next(row["value"] for figure, row in rows.figures if figure.metric == "written_gb")
    assert drives["runs"] == (3, 1, 1)
    assert drives["written_gb"][0] == pytest.approx(3 * written)
    assert drives["firmware"][1] == "9"
    assert (drives["first"][0], drives["last"][0]) == ("2026-01-01T00:00:00.000+00:00", "2026-01-03T00:00:00.000+00:00")
    assert store.drives(Filter(serial="Z")).columns["runs"] == (1,)


# -- rebuild ----------------------------------------------------------------------------------------------------------


def test_a_store_is_rebuilt_from_the_run_folders(store: Store, runs: Path, tmp_path: Path) -> None:
    """Figures that somebody changed are right again; labels and numbers stay; what cannot be read keeps its rows."""
    for name in ("iops", "hir", "xsr"):
        shutil.copytree(runs / name, tmp_path / name)
        store.add(tmp_path / name, {"project": name})
    before = content(store)
    with store._transaction() as connection:
        connection.execute(update(FIGURE).values(value=0.0))
        connection.execute(update(RUN).values(verdict="", spec_sha256="x"))
    shutil.rmtree(tmp_path / "hir")
    shutil.rmtree(tmp_path / "xsr")
    shutil.copytree(runs / "iops", tmp_path / "xsr")
    failed: list[str] = []

    assert store.rebuild(lambda path, _error: failed.append(path.name)) == 1
    assert sorted(failed) == ["hir", "xsr"]
    now = content(store)
    assert now["label"] == before["label"]
    (number,) = store.runs(Filter(test="iops")).columns["id"]
    assert [row for row in now["figure"] if row[0] == number] == [row for row in before["figure"] if row[0] == number]
    assert [row for row in now["run"] if row[0] == number] == [row for row in before["run"] if row[0] == number]

    shutil.copytree(runs / "hir", tmp_path / "hir")
    shutil.rmtree(tmp_path / "xsr")
    shutil.copytree(runs / "xsr", tmp_path / "xsr")
    assert store.rebuild(lambda path, _error: failed.append(path.name)) == 3
    assert content(store) == before


# -- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_tables_are_exported(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As CSV and Parquet, with the same values; existing files are kept."""
    at = ["--store", str(tmp_path / "store.sqlite")]
    assert main(["store", "add", str(runs / "iops"), str(runs / "hir"), "--label", "project==cmd()", *at]) == 0
    export = ["store", "export", "--to", "parquet,csv", "--out", str(tmp_path / "tables"), *at]
    assert main(export) == 0
    with Store(tmp_path / "store.sqlite") as store:
        for name, table in store.tables().items():
            assert parquet.read_table(tmp_path / f"tables/{name}.parquet").equals(table.to_arrow())
            rows = list(csv.reader((tmp_path / f"tables/{name}.csv").read_text().splitlines()))
            assert rows[0] == list(table.columns)
            assert len(rows) == len(table) + 1
    assert "'=cmd()" in (tmp_path / "tables/labels.csv").read_text()
    assert main(export) != 0
    assert main(["store", "export", "--to", "xlsx", "--out", str(tmp_path / "other"), *at]) == UsageError.exit_code


@pytest.mark.long
def test_the_verbs(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """sql, drives and rebuild print a table, or JSON."""
    at = ["--store", str(tmp_path / "store.sqlite")]
    shutil.copytree(runs / "iops", tmp_path / "run")
    assert main(["store", "add", str(tmp_path / "run"), *at]) == 0
    capsys.readouterr()
    assert main(["store", "sql", "SELECT test, count(*) AS n FROM run GROUP BY test", "--json", *at]) == 0
    assert json.loads(capsys.readouterr().out) == [{"test": "iops", "n": 1}]
    assert main(["store", "sql", "DROP TABLE run", *at]) == UsageError.exit_code
    assert main(["store", "drives", *at]) == 0
    assert "written_gb" in capsys.readouterr().out
    assert main(["store", "rebuild", *at]) == 0
    assert capsys.readouterr().out == "1 rebuilt, 0 refused\n"
    shutil.rmtree(tmp_path / "run")
    assert main(["store", "rebuild", "--json", *at]) == RecordError.exit_code
    assert json.loads(capsys.readouterr().out)["refused"] == [str(tmp_path / "run")]
