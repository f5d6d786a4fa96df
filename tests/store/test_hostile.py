"""A store file or a journal that somebody damaged or forged, or values that no database has, end in a sentence."""

from __future__ import annotations

import json
import shutil
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from snia_pts.cli.main import main
from snia_pts.errors import RecordError, RegressionUnknown, SniaPtsError, StoreError
from snia_pts.record.entries import AFTER, BEFORE, line
from snia_pts.store.ingestion import in_order, rows
from snia_pts.store.schema import METADATA
from snia_pts.store.store import Filter, Store
from tests.store.stored_runs import like, put, rows_of

_CELLS = [(table.name, column.name) for table in METADATA.sorted_tables for column in table.columns]
_VALUES = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(), st.binary(max_size=99))
_QUERIES: tuple[Callable[[Store], object], ...] = (
    lambda store: store.runs(),
    lambda store: store.runs(Filter(since="2026-01-01")),
    lambda store: store.figures(),
    lambda store: store.regressions(),
    lambda store: store.drives(),
    lambda store: store.tables(),
    lambda store: store.run(1),
    lambda store: store.trend("iops", at="RND 4 KiB 0/100", by="firmware"),
    lambda store: store.trend("iops", at="RND 4 KiB 0/100", by="seed"),
    lambda store: store.spread("Simulated enterprise SATA SSD"),
    lambda store: store.sql("SELECT * FROM run"),
    lambda store: store.rebuild(lambda _path, _error: None),
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


def query_everything(path: Path) -> int:
    """Call every query and every verb; return how many queries gave a result."""
    answered = 0
    for query in _QUERIES:
        with suppress(SniaPtsError), Store(path, create=True) as store:
            query(store)
            answered += 1
    for verb in _VERBS:
        assert main(["store", *verb, "--store", str(path)]) in {0, 2, 23, 24, RegressionUnknown.exit_code}
    return answered


_slow = settings(
    max_examples=settings().max_examples // 10 or 1,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def test_the_original_answers_everything(original: Path, tmp_path: Path) -> None:
    """So the other tests damage something that works."""
    shutil.copyfile(original, tmp_path / "copy")
    assert query_everything(tmp_path / "copy") == len(_QUERIES)


@pytest.mark.long
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


@pytest.mark.parametrize("value", ["", "9 IOPS", b"x"], ids=repr)
def test_a_text_among_figures_is_in_no_average(original: Path, tmp_path: Path, value: object) -> None:
    """SQLite would count it as 0."""
    path = tmp_path / "copy"
    shutil.copyfile(original, path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE figure SET value = ? WHERE run_id = 3", (value,))
    connection.close()
    with Store(path) as store:
        with pytest.raises(StoreError, match="a figure is not a number"):
            store.drives()
        with pytest.raises(StoreError, match="a figure is not a number"):
            store.spread("Simulated enterprise SATA SSD")


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


def test_a_start_before_the_year_1_is_refused(store: Store, runs: Path, tmp_path: Path) -> None:
    """UTC has no such time; the run neither ends the program nor keeps the others out."""
    folder = tmp_path / "run"
    shutil.copytree(runs / "hir", folder)
    places = values_in(json.loads((folder / "journal.jsonl").read_bytes().splitlines(keepends=True)[0][BEFORE:-AFTER]))
    choice = places[1:].index(("facts", "started"))
    forge(folder / "journal.jsonl", 0, choice, "0001-01-01T00:00:00+14:00")
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
