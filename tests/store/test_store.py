"""A store has the results of many runs, as ``assess`` gives them; on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

import snia_pts as pts
from snia_pts.cli.main import main
from snia_pts.errors import LibraryMissing, RecordError, RunFolderError, StoreError, UsageError
from snia_pts.lab.device.mounts import Mount
from snia_pts.record.folder import RunFolder
from snia_pts.record.journal import Journal
from snia_pts.report.tables import aligned
from snia_pts.store import database
from snia_pts.store.database import open_database
from snia_pts.store.pages import spread_report, trend_report
from snia_pts.store.schema import METADATA
from snia_pts.store.statistics import spread, trend
from snia_pts.store.store import Filter, Store
from tests.drives import need_root
from tests.run_folders.make import RUNS
from tests.store.stored_runs import like, put, rows_of


def content(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of a store by table."""
    with store._engine.connect() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(table.select().order_by(*table.primary_key.columns))]
            for table in METADATA.sorted_tables
        }


def cut_before_resumption(path: Path) -> None:
    """Remove from the folder of a run that was resumed what was written since."""
    lines = (path / "journal.jsonl").read_bytes().splitlines(keepends=True)
    stop = next(number for number, line in enumerate(lines) if b'"kind":"resume"' in line)
    (path / "journal.jsonl").write_bytes(b"".join(lines[:stop]))
    (path / "result.xml").unlink(missing_ok=True)
    for file in (path / "evidence").iterdir():
        if not any(file.name.partition(".")[0].encode() in line for line in lines[:stop]):
            file.unlink()


class Added(NamedTuple):
    run: pts.Run
    number: int


def added(store: Store, path: Path) -> Added:
    """Add a run; return it as ``load`` does, and its number in the store."""
    assert store.add(path) == "added"
    run = pts.load(path)
    names = store.runs().columns
    return Added(run, int(str(names["id"][names["folder"].index(str(run.path))])))


@pytest.mark.long_but_first
@pytest.mark.parametrize("name", RUNS)
def test_the_numbers_of_a_run_are_those_of_assess(store: Store, runs: Path, name: str) -> None:
    """All figures, determinations, deviations, warnings and limits are stored to the bit."""
    for path in sorted(folder.parent for folder in (runs / name).rglob("journal.jsonl")):
        run, number = added(store, path)
        tables = store.run(number)

        figures = tables["figures"].columns
        stored = dict(zip(zip(figures["metric"], figures["at"], strict=True), figures["value"], strict=True))
        assert stored == {(figure.metric, figure.at): figure.value for figure in run.figures}
        assert tables["run"].columns["verdict"] == (run.verdict,)
        assert tables["determinations"].columns["average"] == tuple(item.state.average for item in run.determinations)
        assert tables["deviations"].columns["what"] == tuple(item.what for item in run.deviations)
        assert tables["warnings"].columns["detail"] == tuple(item.detail for item in run.warnings)
        assert tables["limits"].columns["met"] == tuple(item.met for item in run.limits)


def test_the_rounds_of_a_figure_are_stored(store: Store, runs: Path) -> None:
    """They are doubles in little-endian order."""
    run, _ = added(store, runs / "iops")
    blobs = sorted(row[4] for row in content(store)["figure"])
    assert blobs == sorted(struct.pack(f"<{len(figure.rounds)}d", *figure.rounds) for figure in run.figures)


def test_a_run_is_added_once(store: Store, runs: Path) -> None:
    """Adding it again changes nothing, not even the row numbers."""
    store.add(runs / "iops")
    store.add(runs / "hir")
    before = content(store)

    assert [store.add(runs / name) for name in ("hir", "iops")] == ["unchanged", "unchanged"]
    assert content(store) == before


def test_a_run_that_was_resumed_is_replaced(store: Store, runs: Path, tmp_path: Path) -> None:
    """The rows of the first part are removed; labels and the number of the run stay."""
    path = tmp_path / "run"
    shutil.copytree(runs / "interrupted", path)
    cut_before_resumption(path)
    assert store.add(path, {"project": "alpha"}) == "added"
    partial = content(store)
    shutil.rmtree(path)
    shutil.copytree(runs / "interrupted", path)

    assert store.add(path) == "replaced"
    now = content(store)
    assert [row[0] for row in now["run"]] == [row[0] for row in partial["run"]]
    assert now["label"] == partial["label"] != []
    run = pts.load(path)
    assert len(now["figure"]) == len(run.figures)
    assert store.runs().columns["verdict"] == (run.verdict,)


def test_a_run_that_was_moved_stays_one_run(store: Store, runs: Path, tmp_path: Path) -> None:
    """Its key is its journal, not its path."""
    shutil.copytree(runs / "hir", tmp_path / "a")
    store.add(tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")

    assert store.add(tmp_path / "b") == "unchanged"
    assert store.runs().columns["folder"] == (str(tmp_path / "b"),)


def test_a_run_that_differs_from_its_evidence_is_refused(store: Store, runs: Path, tmp_path: Path) -> None:
    """Nothing of it is stored."""
    path = tmp_path / "run"
    shutil.copytree(runs / "drive", path)
    next(file for file in sorted((path / "evidence").iterdir()) if file.suffix == ".json").write_text("{}")
    with pytest.raises(RecordError, match="differs from its journal"):
        store.add(path)
    assert not any(content(store).values())


def test_a_run_in_progress_is_refused(store: Store, runs: Path, tmp_path: Path) -> None:
    """Its rows would soon be outdated."""
    path = tmp_path / "run"
    shutil.copytree(runs / "iops", path)
    with Journal(RunFolder(path=path).journal, existing=True), pytest.raises(RecordError, match="in progress"):
        store.add(path)


def test_runs_are_filtered(store: Store, runs: Path) -> None:
    """Filters are properties of the run, its start time, and the operator's annotations."""
    for name, labels in (("iops", {"project": "alpha"}), ("hir", {"project": "beta"}), ("latency", {})):
        store.add(runs / name, labels)
    first = min(str(value) for value in store.runs().columns["started"])

    def tests(**where: object) -> set[object]:
        return set(store.runs(Filter(**where)).columns["test"])  # type: ignore[arg-type]

    assert tests() == {"iops", "hir", "latency"}
    assert tests(test="hir") == {"hir"}
    assert tests(labels={"project": "alpha"}) == {"iops"}
    assert tests(labels={"project": "gamma"}) == set()
    assert len(tests(before=first)) == 0
    assert len(tests(since=first)) == 3
    assert tests(like=1) == {str(store.run(1)["run"].columns["test"][0])}
    assert tests(like=99) == set()
    for time in ("yesterday", "0001-01-01T00:00:00+14:00"):
        with pytest.raises(UsageError, match="not a time in ISO 8601"):
            store.runs(Filter(since=time))
    for query in (lambda: store.run(2**63), lambda: store.runs(Filter(like=-(2**64)))):
        with pytest.raises(UsageError, match="has no run"):
            query()
    assert tests(like=2**63 - 1) == set()
    assert tests(serial="' OR 1=1 --") == set()
    metrics = store.figures(Filter(test="iops"), metric="iops", at="RND 4 KiB 0/100")
    assert metrics.columns["value"] == (pts.load(runs / "iops").figure("iops", at="RND 4 KiB 0/100").value,)


def test_trend_and_spread(store: Store, runs: Path) -> None:
    """A trend has the figures of each group of runs, a spread those of the units of a model."""
    run = added(store, runs / "iops").run
    value = run.figure("iops", at="RND 4 KiB 0/100").value

    trend = store.trend("iops", at="RND 4 KiB 0/100").columns
    assert trend["firmware"] == (run.device.firmware,)
    assert trend["median"] == trend["maximum"] == (value,)
    assert trend["deviation"] == (None,)
    spread = store.spread(run.device.model, metric="iops").columns
    assert spread["mean"][spread["at"].index("RND 4 KiB 0/100")] == value
    assert set(spread["units"]) == {1}
    with pytest.raises(UsageError, match="no such metric") as error:
        store.trend("iopz", at="RND 4 KiB 0/100")
    assert "iops" in error.value.hint
    with pytest.raises(UsageError, match="no such point"):
        store.trend("iops", at="RND 4 KiB 1/99")
    with pytest.raises(UsageError, match="no such column"):
        store.trend("iops", at="RND 4 KiB 0/100", by="colour")
    with pytest.raises(UsageError, match="no such model"):
        store.spread("another")


def test_the_groups_of_a_trend() -> None:
    """Groups are in the order of their first runs; changes are those of the medians."""
    new, old = trend([("2", 110.0, "x"), ("1", 100.0, "x"), ("2", 130.0, "x"), ("2", 120.0, "y")])
    assert (new.name, new.runs, new.median, new.deviation, new.change_percent) == ("2", 3, 120, 10, 0)
    assert (old.name, old.runs, old.deviation) == ("1", 1, None)
    assert old.change_percent == pytest.approx(-100 / 6)
    assert (new.specifications, old.specifications) == (2, 1)
    assert trend([]) == ()


def test_a_unit_far_from_the_others_is_an_outlier() -> None:
    """Each unit counts once; below five units none is an outlier; a difference of less than 5 % makes none."""
    units = [(name, "x", 100.0 + position, 1) for position, name in enumerate("abcd")]
    assert spread([*((name, "x", 100.0, 1) for name in "abcd"), ("z", "x", 104.9, 1)]).outliers == ()
    assert spread([*units, ("z", "x", 1000.0, 1)]).outliers == ("z",)
    assert spread([*units[:3], ("z", "x", 1000.0, 1)]).outliers == ()
    twice = spread([("a", "x", 90.0, 3), ("a", "y", 130.0, 1), ("b", "x", 102.0, 1)])
    assert (twice.units, twice.mean, twice.minimum, twice.specifications) == (2, 101, 100, 2)
    assert twice.deviation_percent == pytest.approx(100 * 2**0.5 / 101)
    assert spread([("a", "x", 5.0, 1)]).deviation_percent is None


def test_each_unit_of_a_spread_counts_with_the_mean_of_its_runs(store: Store, runs: Path) -> None:
    """However many runs it has, and whatever their specifications are."""
    base = rows_of(runs / "iops")
    factors = {"A": (1.0, 2.0, 6.0), "B": (5.0,)}
    put(store, *(like(base, day, factor, serial="A") for day, factor in enumerate(factors["A"][:2])))
    put(
        store, like(base, 2, factors["A"][2], serial="A", spec_sha256="other"), like(base, 3, *factors["B"], serial="B")
    )
    spread = store.spread(str(base.run["model"]), metric="iops").columns
    value = pts.load(runs / "iops").figure("iops", at="RND 4 KiB 0/100").value
    row = spread["at"].index("RND 4 KiB 0/100")
    assert spread["minimum"][row] == pytest.approx(3 * value)
    assert spread["maximum"][row] == pytest.approx(5 * value)
    assert (spread["units"][row], spread["specifications"][row]) == (2, 2)


def test_a_page_shows_the_trend(store: Store, runs: Path, tmp_path: Path, url: str) -> None:
    """The figure has each run and the median of each group; the page has neither scripts nor other files."""
    base = rows_of(runs / "iops")
    put(store, *(like(base, day, 1 - day / 100, firmware="old" if day < 3 else "<b>new") for day in range(5)))
    words = ["trend", "iops", "--at", "RND 4 KiB 0/100", "--out", str(tmp_path / "pages"), "--store", url]
    assert main(["store", *words]) == main(["store", *words]) == 0
    page = (tmp_path / "pages/trend.html").read_text()
    found: Any = store.trend("iops", at="RND 4 KiB 0/100").columns
    assert all(cell in page for cell in aligned(found["median"]))
    assert "&lt;b&gt;new" in page
    assert "<b>" not in page
    assert "<script" not in page
    drawn: Any = next(trend_report(store.trend_values("iops", at="RND 4 KiB 0/100")).figures).draw().axes[0]
    marks = [line.get_ydata() for line in drawn.get_lines() if line.get_marker() != "None"]
    lines = [line.get_ydata() for line in drawn.get_lines() if line.get_marker() == "None"]
    values = store.figures(metric="iops", at="RND 4 KiB 0/100").columns["value"]
    assert [value for mark in marks for value in mark] == list(values)
    assert [line[0] for line in lines] == list(found["median"])


@pytest.mark.long
def test_a_page_shows_the_spread(store: Store, runs: Path, tmp_path: Path, url: str) -> None:
    """Each unit is a mark at its percentage of the mean; outliers are named."""
    base = rows_of(runs / "hir")
    put(store, *(like(base, day, 2 if day == 5 else 1 + day / 1000, serial=f"S{day}") for day in range(6)))
    model = str(base.run["model"])
    assert main(["store", "spread", model, "--out", str(tmp_path), "--store", url]) == 0
    page = (tmp_path / "spread.html").read_text()
    assert page.count("<figure") == len(set(store.spread(model).columns["metric"]))
    assert ">S5<" in page
    report = spread_report(store.spread_values(model, metric="iops"))
    (figure,) = report.figures
    axes: Any = figure.draw().axes[0]
    points = [label.get_text() for label in axes.get_yticklabels()]
    values: Any = store.figures(metric="iops", at=points[0]).columns["value"]
    drawn = [x for line in axes.get_lines() for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True) if y == 0]
    assert sorted(drawn) == pytest.approx(sorted([100, *(100 * value / fmean(values) for value in values)]))
    assert {text.get_text() for text in axes.texts} == {"S5"}


def test_a_store_of_a_newer_version_is_refused(store: Store, url: str) -> None:
    """Its tables may have another meaning."""
    with store._engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreError, match="a newer version of snia-pts made its tables"):
        Store(url)


def test_a_query_does_not_wait_for_a_writer(store: Store, url: str, runs: Path) -> None:
    """Opening a store whose tables are current takes no lock."""
    store.add(runs / "iops")
    with store._transaction() as connection:
        connection.execute(text("DELETE FROM label"))
        with Store(url) as reader:
            assert len(reader.runs()) == 1


def test_the_migrations_make_the_tables_of_the_schema(store: Store) -> None:
    """Alembic finds no difference between them."""
    with store._engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []


def test_a_query_creates_no_store(tmp_path: Path) -> None:
    """Only ``add`` creates one."""
    with pytest.raises(StoreError, match="no such file"):
        Store(tmp_path / "none.sqlite")
    with pytest.raises(StoreError, match="there is no folder"):
        Store(tmp_path / "none/store.sqlite", create=True)
    (tmp_path / "other.sqlite").touch()
    with pytest.raises(StoreError, match="no tables of snia-pts"):
        Store(tmp_path / "other.sqlite")


@pytest.mark.parametrize("url", ["mysql://host/name", "postgresql://host:port/name", "sqlite://", "x://y"])
def test_an_invalid_url_is_refused(url: str) -> None:
    """The message has the valid forms."""
    with pytest.raises(UsageError, match="not the URL of a store"):
        Store(url)


@pytest.mark.parametrize("url", [":memory:", "sqlite:///:memory:"])
def test_a_store_is_always_a_file(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database in memory would lose the runs that it reports as added."""
    monkeypatch.chdir(tmp_path)
    Store(url, create=True).close()
    assert (tmp_path / ":memory:").is_file()


def test_a_password_is_in_no_message() -> None:
    """A server that does not answer is named without it."""
    with pytest.raises(StoreError) as error:
        Store("postgresql://user:secret@127.0.0.1:1/name")
    assert "127.0.0.1" in str(error.value)
    assert "secret" not in f"{error.value} {error.value.full_hint}"


def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    """The file is unchanged."""
    path = tmp_path / "file"
    path.write_bytes(b"somebody's data" * 100)
    with pytest.raises(StoreError, match="not a database"):
        Store(path, create=True)
    assert path.read_bytes() == b"somebody's data" * 100


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's locks do not work there."""
    mount = Mount(number="0:1", part="/", point="/", kind="nfs4", source="host:/", options=())
    monkeypatch.setattr(database, "mount_of", lambda _path: mount)
    with pytest.raises(StoreError, match="network file system"):
        open_database(str(tmp_path / "store.sqlite"), create=True)


@pytest.mark.long
@pytest.mark.parametrize("library", ["sqlalchemy", "alembic"])
def test_a_missing_library_is_named(library: str) -> None:
    """The program and the library name the extra that installs it; everything else works without it."""
    program = (
        f"import sys; sys.modules[{library!r}] = None\n"
        "import snia_pts\nfrom snia_pts.cli.main import main\nfrom snia_pts.errors import LibraryMissing\n"
        "assert main(['store', 'list']) == LibraryMissing.exit_code\n"
        "try:\n    snia_pts.Store\nexcept LibraryMissing as error:\n    print(error, error.hint)\n"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'snia-pts[store]'" in output.stdout
    assert "pip install 'snia-pts[store]'" in output.stderr


@pytest.mark.root
def test_a_folder_that_others_can_change_is_refused(tmp_path: Path) -> None:
    """Otherwise root would write through another user's symlink."""
    need_root()
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(RunFolderError):
        Store(tmp_path / "store.sqlite", create=True)


def test_without_the_library_the_message_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL's client is optional."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(LibraryMissing, match="psycopg"):
        Store("postgresql://host/name")


# -- the command line -------------------------------------------------------------------------------------------------


def test_the_verbs(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A refused run does not prevent the others; list and show print what was added."""
    at = ["--store", str(tmp_path / "store.sqlite")]
    shutil.copytree(runs / "iops", tmp_path / "runs/iops")
    shutil.copytree(runs / "hir", tmp_path / "runs/hir")
    shutil.copytree(runs / "wsat", tmp_path / "runs/wsat")
    (tmp_path / "runs/wsat/journal.jsonl").write_text("{}\n")

    assert main(["store", "add", str(tmp_path / "runs"), "--label", "project=alpha", *at]) == RecordError.exit_code
    output = capsys.readouterr()
    assert output.out == "2 added, 0 replaced, 0 unchanged, 1 refused\n"
    assert "wsat" in output.err
    assert main(["store", "list", "--test", "hir", "--json", *at]) == 0
    (run,) = json.loads(capsys.readouterr().out)
    assert run["test"] == "hir"
    assert main(["store", "show", str(run["id"]), *at]) == 0
    shown = capsys.readouterr().out
    assert "project" in shown
    figures = shown.partition("Key figures\n")[2].partition("\n\n")[0].splitlines()
    assert figures[0].split() == ["metric", "at", "unit", "value", "steady"]
    assert max(map(len, figures)) < 80
    assert main(["store", "trend", "iops", "--at", "RND 4 KiB 0/100", "--test", "iops", *at]) == 0
    assert "change_percent" in capsys.readouterr().out
    assert main(["store", "spread", run["model"], "--json", *at]) == 0
    assert json.loads(capsys.readouterr().out)[0]["units"] == 1
    assert main(["store", "list", "--label", "alpha", *at]) == UsageError.exit_code
    assert main(["store", "show", "99", *at]) == UsageError.exit_code
    assert main(["store", "list", "--store", str(tmp_path / "none")]) == StoreError.exit_code
