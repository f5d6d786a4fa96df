"""A store file or a journal that somebody damaged or forged, or values that no database has, end in a sentence."""

from __future__ import annotations

import json
import shutil
import sqlite3
import zlib
from argparse import Namespace
from collections.abc import Callable
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from snia_pts.cli.main import run_reported
from snia_pts.cli.parser import build_parser
from snia_pts.errors import RecordError, RegressionUnknown, SniaPtsError, StoreError
from snia_pts.record.entries import AFTER, BEFORE, line
from snia_pts.store import ingestion
from snia_pts.store.ingestion import in_order, rows
from snia_pts.store.schema import METADATA
from snia_pts.store.store import Filter, Store
from tests.store.stored_runs import like, put, rows_of

_CELLS = [(table.name, column.name) for table in METADATA.sorted_tables for column in table.columns]
_VALUES = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(), st.binary(max_size=99))
#: Queries that no verb calls.
_QUERIES: tuple[Callable[[Store], object], ...] = (
    lambda store: store.runs(Filter(since="2026-01-01")),
    lambda store: store.tables(),
    lambda store: store.trend("iops", at="RND 4 KiB 0/100", by="seed"),
)
_VERBS = (
    ["list"],
    ["list", "--json"],
    ["show", "1"],
    ["show", "1", "--json"],
    ["regressions"],
    ["regressions", "--json"],
    ["drives", "--json"],
    ["trend", "iops", "--at", "RND 4 KiB 0/100"],
    ["spread", "Simulated enterprise SATA SSD", "--json"],
    ["sql", "SELECT * FROM figure", "--json"],
)


@pytest.fixture(scope="session")
def original(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in one file, with nothing in a write-ahead log."""
    path = tmp_path_factory.mktemp("original") / "store.sqlite"
    with Store(path, create=True) as store:
        store.add(runs / "iops", {"project": "alpha"})
        put(store, *(like(rows_of(runs / "iops"), day) for day in range(7)))
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    return path


@cache
def verbs() -> tuple[Namespace, ...]:
    """Return the arguments of all verbs: their parser is made once."""
    parser = build_parser()
    return tuple(parser.parse_args(["store", *verb]) for verb in _VERBS)


@pytest.fixture
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read each run folder once, for tests that change only the store: reading takes most of the time."""
    for name in ("read_run", "require_trusted"):
        monkeypatch.setattr(ingestion, name, cache(getattr(ingestion, name)))


def call(arguments: Namespace) -> int:
    """Call a verb as the program does; return the exit code."""
    return run_reported(lambda _afterwards: int(arguments.verb(arguments)))


def query_everything(path: Path) -> int:
    """Open the store, call every query and verb, and rebuild it; return how many of the queries and verbs succeeded."""
    succeeded = 0
    with suppress(SniaPtsError), Store(path, create=True) as store:
        for query in _QUERIES:
            with suppress(SniaPtsError):
                query(store)
                succeeded += 1
        with patch("snia_pts.store.commands.Store", lambda _url: nullcontext(store)):
            for arguments in verbs():
                code = call(arguments)
                assert code in {0, 2, 23, 24, RegressionUnknown.exit_code}
                succeeded += code in {0, RegressionUnknown.exit_code}
        store.rebuild(lambda _path, _error: None)
    return succeeded


_slow = settings(
    max_examples=settings().max_examples // 10 or 1,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def test_the_original_answers_everything(original: Path, tmp_path: Path) -> None:
    """So the other tests damage something that works."""
    shutil.copyfile(original, tmp_path / "copy")
    assert query_everything(tmp_path / "copy") == len(_QUERIES) + len(_VERBS)


@pytest.mark.long
@pytest.mark.usefixtures("read_once")
@_slow
@given(st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), min_size=1, max_size=50), st.booleans())
def test_a_damaged_file(original: Path, tmp_path: Path, damages: list[tuple[int, int]], short: bool) -> None:
    """Other bytes anywhere, or its end missing."""
    content = bytearray(original.read_bytes())
    for position, byte in damages:
        content[position % len(content)] = byte
    if short:
        del content[damages[0][0] % len(content) :]
    for old in tmp_path.iterdir():
        old.unlink()
    (tmp_path / "copy").write_bytes(content)
    query_everything(tmp_path / "copy")


@pytest.mark.long
@pytest.mark.usefixtures("read_once")
@_slow
@given(st.lists(st.tuples(st.sampled_from(_CELLS), _VALUES), min_size=1, max_size=5))
def test_a_forged_file(original: Path, tmp_path: Path, forged: list[tuple[tuple[str, str], Any]]) -> None:
    """Values of any type in any column: SQLite checks none."""
    path = tmp_path / "copy"
    for old in tmp_path.iterdir():
        old.unlink()
    shutil.copyfile(original, path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for (table, column), value in forged:
            try:
                connection.execute(f'UPDATE OR IGNORE "{table}" SET "{column}" = ?', (value,))  # noqa: S608
            except (sqlite3.Error, UnicodeEncodeError):
                continue
    connection.close()
    query_everything(path)


_FORGED = [
    *(("figure", "value", value, "expected a number") for value in ("", "9 IOPS", b"x")),
    *(("figure", "steady", value, "expected 0 or 1") for value in ("yes", 2, b"x")),
    *(("run", "started", value, "expected a time") for value in ("soon", b"2026")),
]


@pytest.mark.parametrize(("table", "column", "value", "reason"), _FORGED, ids=str)
def test_an_invalid_value_drops_no_figure(
    original: Path, tmp_path: Path, table: str, column: str, value: object, reason: str
) -> None:
    """SQLite checks no types, counts a text as 0, and would leave out a figure that is neither steady nor not."""
    path = tmp_path / "copy"
    shutil.copyfile(original, path)
    with closing(sqlite3.connect(path)) as connection, connection:
        key = "id" if table == "run" else "run_id"
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = 3", (value,))  # noqa: S608
    queries: list[Callable[[Store], object]] = [
        lambda store: store.figures(),
        lambda store: store.trend("iops", at="RND 4 KiB 0/100"),
    ]
    if table == "figure":
        queries.append(lambda store: store.spread("Simulated enterprise SATA SSD"))
    if column != "steady":
        queries.append(lambda store: store.drives())
    with Store(path) as store:
        for query in queries:
            with pytest.raises(StoreError, match=f"invalid values .{reason}"):
                query(store)


@pytest.mark.parametrize(("column", "value"), [("value", "9 IOPS"), ("steady", "yes")])
def test_a_run_is_not_judged_by_an_invalid_value(
    original: Path, runs: Path, tmp_path: Path, column: str, value: object
) -> None:
    """It is not added; the other runs have it as one of their comparable runs."""
    path = tmp_path / "copy"
    shutil.copyfile(original, path)
    later = like(rows_of(runs / "iops"), 9)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE figure SET {column} = ? WHERE run_id = 3", (value,))  # noqa: S608
    with Store(path) as store:
        with pytest.raises(StoreError, match="invalid values"):
            put(store, later)
        assert len(store.runs()) == 8


@pytest.mark.parametrize("started", ["soon", "", "9999-01-01T00:00:00.000+00:00"], ids=repr)
def test_a_forged_start_is_replaced_by_that_of_the_run_folder(runs: Path, tmp_path: Path, started: object) -> None:
    """And the runs are judged in the order of their true starts."""
    folders = [tmp_path / f"run-{day}" for day in (1, 2, 3)]
    for day, folder in enumerate(folders, start=1):
        shutil.copytree(runs / "hir", folder)
        forge(folder / "journal.jsonl", 0, started_in(folder), f"2025-01-0{day}T00:00:00+00:00")
    path = tmp_path / "store.sqlite"
    with Store(path, create=True) as store:
        assert [store.add(folder) for folder in folders] == ["added"] * 3
        before = store.regressions().columns
        assert set(before["like_runs"]) == {0, 1, 2}
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE run SET started = ? WHERE id = 2", (started,))
        failures = list[RecordError]()
        assert store.rebuild(lambda _path, error: failures.append(error)) == 3
        assert not failures
        assert store.regressions().columns == before


@pytest.mark.usefixtures("read_once")
def test_a_table_that_accepts_no_new_metrics_is_refused(original: Path, tmp_path: Path) -> None:
    """As if a damaged index had the metric, and the table had not."""
    path = tmp_path / "copy"
    shutil.copyfile(original, path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM metric WHERE at = 'RND 64 KiB 100/0'")
        connection.execute("CREATE TRIGGER ignored BEFORE INSERT ON metric BEGIN SELECT RAISE(IGNORE); END")
    with Store(path) as store, pytest.raises(StoreError, match="its table of metrics accepts no new ones"):
        store.rebuild(lambda _path, _error: None)


@pytest.fixture
def altered(original: Path, tmp_path: Path) -> Callable[[str, Any], Path]:
    """Return a function that makes a store whose first run has another value in a column."""

    def alter(column: str, value: Any) -> Path:
        path = tmp_path / "copy"
        shutil.copyfile(original, path)
        with sqlite3.connect(path) as connection:
            connection.execute(f'UPDATE run SET "{column}" = ? WHERE id = 1', (value,))  # noqa: S608
        connection.close()
        return path

    return alter


@pytest.mark.parametrize("column", ["folder", "archive"])
@pytest.mark.parametrize("value", [b"x", 1, "a\0b"], ids=repr)
def test_a_forged_location_is_refused(
    altered: Callable[[str, Any], Path], tmp_path: Path, column: str, value: Any
) -> None:
    """SQLite checks no types: what is not a path is no location of a run or archive."""
    failures = list[RecordError]()
    with Store(altered(column, value)) as store:
        with pytest.raises(RecordError):
            store.archive(1, tmp_path / "archives")
        with sqlite3.connect(tmp_path / "copy") as connection:
            connection.execute("DELETE FROM run WHERE id > 1")
        connection.close()
        store.rebuild(lambda _path, error: failures.append(error))

    assert bool(failures) == (column == "folder")  # a run with a folder is read from there
    assert not (tmp_path / "archives").exists()


def test_the_name_of_an_archive_is_from_the_run_folder(altered: Callable[[str, Any], Path], tmp_path: Path) -> None:
    """A forged test in the store does not lead out of the folder of archives."""
    with Store(altered("test", "../../evil")) as store:
        archive = store.archive(1, tmp_path / "archives")

    assert archive.parent == tmp_path / "archives"
    assert archive.name.startswith("iops-")


def test_a_store_with_two_versions(original: Path, tmp_path: Path) -> None:
    """alembic's own error is a sentence, too."""
    path = tmp_path / "copy"
    shutil.copyfile(original, path)
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO alembic_version VALUES ('0001')")
    connection.close()
    query_everything(path)


@pytest.mark.parametrize("changes", [{"seed": 2**64}, {"model": "\ud800"}, {"capacity_bytes": 2**70}], ids=str)
def test_a_run_whose_values_do_not_fit_is_refused(store: Store, runs: Path, changes: dict[str, Any]) -> None:
    """The others are still added."""

    def forged(*arguments: Any) -> Any:
        made = rows(*arguments)
        return replace(made, run={**made.run, **changes})

    with patch("snia_pts.store.ingestion.rows", forged), pytest.raises(RecordError, match="the store cannot have"):
        store.add(runs / "iops")
    assert len(store.runs()) == 0
    assert store.add(runs / "hir") == "added"


# -- hostile journals -------------------------------------------------------------------------------------------------


def values_in(entry: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the places of all values in an entry of a journal."""
    items = entry.items() if isinstance(entry, dict) else enumerate(entry) if isinstance(entry, list) else ()
    return [place, *(found for key, value in items for found in values_in(value, (*place, key)))]


def forge(journal: Path, number: int, choice: int, value: Any) -> None:
    """Replace a value in an entry of a journal, and make all checksums valid again."""
    payloads = [json.loads(written[BEFORE:-AFTER]) for written in journal.read_bytes().splitlines(keepends=True)]
    entry = payloads[number % len(payloads)]
    places = values_in(entry)[1:]
    *parents, last = places[choice % len(places)]
    for key in parents:
        entry = entry[key]
    entry[last] = value
    checksum, lines = 0, []
    for payload in payloads:
        text = json.dumps(payload, separators=(",", ":")).encode("utf-8")
        checksum = zlib.crc32(text, checksum)
        lines.append(line(checksum, text))
    journal.write_bytes(b"".join(lines))


def started_in(folder: Path) -> int:
    """Return the place of the start in the first entry of a journal, as ``forge`` counts them."""
    first = (folder / "journal.jsonl").read_bytes().splitlines()[0]
    return values_in(json.loads(first[BEFORE : 1 - AFTER]))[1:].index(("facts", "started"))


def test_a_start_before_the_year_1_is_refused(store: Store, runs: Path, tmp_path: Path) -> None:
    """UTC has no such time; the run neither ends the program nor keeps the others out."""
    folder = tmp_path / "run"
    shutil.copytree(runs / "hir", folder)
    forge(folder / "journal.jsonl", 0, started_in(folder), "0001-01-01T00:00:00+14:00")
    assert in_order([runs / "hir", folder]) == [folder, runs / "hir"]
    with pytest.raises(RecordError, match="outside the years"):
        store.add(folder)
    assert store.add(runs / "hir") == "added"


_JSON = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(),
    st.sampled_from(["NaN", "9999-12-31T23:59:59+00:00", "0001-01-01T00:00:00+14:00", "\0", "\ud800", "../.."]),
    st.just([]),
    st.just({}),
)


@pytest.mark.long
@_slow
@given(st.integers(0, 3), st.integers(0, 1 << 30), _JSON)
def test_a_forged_journal(runs: Path, tmp_path: Path, number: int, choice: int, value: Any) -> None:
    """Any value anywhere in an entry, with valid checksums: the run is stored or refused, and the store works."""
    for old in tmp_path.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    folder = tmp_path / "run"
    shutil.copytree(runs / "hir", folder)
    forge(folder / "journal.jsonl", number, choice, value)
    path = tmp_path / "store.sqlite"
    with Store(path, create=True) as store:
        refused = False
        try:
            store.add(folder)
        except SniaPtsError:
            refused = True
        assert len(store.runs()) == (0 if refused else 1)
        assert store.add(runs / "hir") in {"added", "replaced", "unchanged"}
    query_everything(path)


@_slow
@given(st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), min_size=1, max_size=9), st.booleans())
def test_a_damaged_journal(runs: Path, tmp_path: Path, damages: list[tuple[int, int]], short: bool) -> None:
    """Other bytes anywhere, or its end missing: the run is stored as far as it got, or refused."""
    for old in tmp_path.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    folder = tmp_path / "run"
    shutil.copytree(runs / "hir", folder)
    content = bytearray((folder / "journal.jsonl").read_bytes())
    for position, byte in damages:
        content[position % len(content)] = byte
    if short:
        del content[damages[0][0] % len(content) :]
    (folder / "journal.jsonl").write_bytes(content)
    with Store(tmp_path / "store.sqlite", create=True) as store:
        added = 0
        with suppress(SniaPtsError):
            store.add(folder)
            added = 1
        assert len(store.runs()) == added
