"""Runs are packed into archives, which are read like their folders; nothing is lost, and no archive is believed."""

from __future__ import annotations

import json
import lzma
import multiprocessing
import os
import shutil
import sys
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from errno import EPERM
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import snia_pts as pts
from snia_pts.cli.main import main
from snia_pts.errors import FolderKept, RecordError, UsageError
from snia_pts.record import archive
from snia_pts.store.store import Filter, Store
from tests.store.test_store import content

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.store.test_archives"])
_settings = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def run(runs: Path, tmp_path: Path) -> Path:
    """A folder of a finished run, which a test may remove."""
    return Path(shutil.copytree(runs / "hir", tmp_path / "run"))


def files(folder: Path) -> dict[str, bytes]:
    """Return the content of all files below a folder, by their places."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- packing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["iops", "hir", "wsat"])
def test_an_archive_is_read_like_its_folder(name: str, runs: Path, tmp_path: Path) -> None:
    """Result, assessment, evidence and report are the same; the folder is unchanged."""
    folder, before = runs / name, files(runs / name)
    packed = tmp_path / f"{name}.tar.xz"
    assert archive.pack(folder, packed) == archive.digest(packed)
    assert files(folder) == before

    loaded = pts.load(packed)
    assert loaded.path == packed
    assert loaded.result == pts.load(folder).result
    assert (pts.assess(packed).differences, pts.assess(packed).unjournaled) == ((), ())
    evidence = next(measurement.evidence for measurement in loaded.result.measurements if measurement.evidence)
    assert loaded.evidence(evidence) == pts.load(folder).evidence(evidence)
    pts.write_report(packed, folder=tmp_path / "a", formats=["csv"])
    pts.write_report(folder, folder=tmp_path / "b", formats=["csv"])
    assert files(tmp_path / "a") == files(tmp_path / "b")
    with pytest.raises(UsageError, match="is an archive"):
        pts.write_report(packed)


@pytest.mark.long
def test_a_run_is_found_without_its_folder(store: Store, run: Path, tmp_path: Path) -> None:
    """Its rows, a rebuild and its figures are those of before; it can be added from the archive, too."""
    store.add(run, {"project": "alpha"})
    rows = content(store)
    packed = store.archive(1, tmp_path / "packed")
    assert run.exists()
    assert store.archive(1, tmp_path / "other", remove=True) == packed
    assert not run.exists()
    assert store.archive(1, tmp_path / "other", remove=True) == packed

    assert store.runs(Filter(test="hir")).columns["archive"] == (str(packed),)
    with_archive = content(store)
    assert store.rebuild(lambda _path, error: pytest.fail(str(error))) == 1
    assert content(store) == with_archive
    assert {**with_archive, "run": None} == {**rows, "run": None}
    assert store.add(packed) == "unchanged"
    assert content(store) == with_archive
    packed.write_bytes(packed.read_bytes()[:-1] + b"x")
    failed: list[Any] = []
    assert store.rebuild(lambda _path, error: failed.append(str(error))) == 0
    assert "SHA-256 differs" in failed[0]


def test_an_archive_of_another_store_is_added(run: Path, tmp_path: Path) -> None:
    """Its figures are those of the folder."""
    with Store(tmp_path / "a.sqlite", create=True) as first, Store(tmp_path / "b.sqlite", create=True) as second:
        first.add(run)
        second.add(first.archive(1, tmp_path / "packed"))
        assert content(second)["figure"] == content(first)["figure"]
        assert second.runs().columns["folder"] == ("",)
    assert [loaded.test for loaded in pts.load_many(tmp_path / "packed")] == ["hir"]


def test_archives_are_added_in_the_order_of_their_starts_and_unpacked_once(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start of a run is read from its archive, wherever the journal is in it."""
    for name, run in (("b", "iops"), ("c", "hir")):
        archive.pack(runs / run, tmp_path / f"{name}.tar.xz")
    with tarfile.open(tmp_path / "a.tar.xz", "w:xz") as other:
        other.add(runs / "wsat" / "evidence", "run/evidence")
        other.add(runs / "wsat" / "journal.jsonl", "run/journal.jsonl")
    (tmp_path / "d.tar.xz").write_bytes(lzma.compress(bytes(1024)))  # it has no journal
    packed, unpack, unpacked = [tmp_path / f"{name}.tar.xz" for name in "abcd"], archive._unpack, list[Path]()

    def counted(path: Path, folder: Path) -> None:
        unpacked.append(path)
        unpack(path, folder)

    monkeypatch.setattr(archive, "_unpack", counted)
    starts = {path: pts.load(runs / run).started for path, run in zip(packed, ("wsat", "iops", "hir"), strict=False)}

    assert main(["store", "add", *map(str, packed), "--store", str(tmp_path / "store.sqlite")]) == RecordError.exit_code
    assert unpacked == [packed[3], *sorted(starts, key=starts.__getitem__)]
    with Store(tmp_path / "store.sqlite") as store:
        stored = store.runs().columns
        assert list(reversed(stored["archive"])) == [str(path) for path in unpacked[1:]]
        assert list(reversed(stored["id"])) == [1, 2, 3]


def test_what_is_not_in_the_archive_is_not_removed(run: Path, tmp_path: Path) -> None:
    """A file that was added or changed since is named, and everything stays; the archive is complete."""
    before = files(run)
    with Store(tmp_path / "store.sqlite", create=True) as store:
        store.add(run)
        packed = store.archive(1, tmp_path)
        for name in ("notes", "result.xml"):
            (run / name).write_text("mine")
            with pytest.raises(
                FolderKept, match=f"{name} differs from the archive, or the archive does not contain it"
            ):
                store.archive(1, tmp_path, remove=True)
            assert files(run) == {**before, name: b"mine"}
            (run / name).unlink()
        store.archive(1, tmp_path, remove=True)
    assert not run.exists()
    with archive.opened(packed) as folder:
        assert files(folder.path) == before
    assert not folder.path.exists()


@pytest.mark.parametrize("name", ["suite.json", "batch.json"])
def test_a_run_of_a_suite_or_batch_is_not_removed(name: str, run: Path, tmp_path: Path) -> None:
    """Without its folder, ``resume`` would test the drive again, and destroy its data."""
    before = files(run)
    (tmp_path / name).write_text("{}")
    with Store(tmp_path / "store.sqlite", create=True) as store:
        store.add(run)
        with pytest.raises(FolderKept, match=f"has a {name}"):
            store.archive(1, tmp_path / "packed", remove=True)
        assert files(run) == before
        (tmp_path / name).unlink()
        store.archive(1, tmp_path / "packed", remove=True)
    assert not run.exists()


def test_another_run_in_the_folder_of_a_packed_run_stays(runs: Path, run: Path, tmp_path: Path) -> None:
    """A folder that was removed may have another run later: a call for the packed run does not change it."""
    with Store(tmp_path / "store.sqlite", create=True) as store:
        store.add(run)
        packed = store.archive(1, tmp_path, remove=True)
        assert store.runs().columns["folder"] == ("",)
        shutil.copytree(runs / "wsat", run)
        before = files(run)
        assert store.archive(1, tmp_path, remove=True) == packed
        assert store.rebuild(lambda _path, error: pytest.fail(str(error))) == 1
    assert files(run) == before


def test_a_folder_that_cannot_be_removed_is_named(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused removal, such as that of a folder in one of another user, is an error that names it."""

    def refuse(path: Path) -> None:
        raise PermissionError(EPERM, "Operation not permitted", str(path))

    with Store(tmp_path / "store.sqlite", create=True) as store:
        store.add(run)
        monkeypatch.setattr(archive, "remove_folder", refuse)
        with pytest.raises(FolderKept, match="cannot be removed: Operation not permitted"):
            store.archive(1, tmp_path, remove=True)
        monkeypatch.undo()
        store.archive(1, tmp_path, remove=True)
    assert not run.exists()


def test_a_damaged_archive_removes_nothing(run: Path, tmp_path: Path) -> None:
    """The folder stays if the archive is not the one that was stored."""
    with Store(tmp_path / "store.sqlite", create=True) as store:
        store.add(run)
        packed = store.archive(1, tmp_path)
        before = files(run)
        packed.write_bytes(packed.read_bytes()[:-1])
        with pytest.raises(RecordError, match="SHA-256 differs"):
            store.archive(1, tmp_path, remove=True)
    assert files(run) == before


def test_other_runs_are_not_packed(runs: Path, run: Path, tmp_path: Path) -> None:
    """One that was stopped, one that changed since it was stored, and a folder with a symlink; no archive is left."""
    with Store(tmp_path / "store.sqlite", create=True) as store:
        store.add(run)
        store.add(runs / "interrupted")
        (run / "link").symlink_to("/etc/passwd")
        with pytest.raises(RecordError, match="neither a folder nor a regular file"):
            store.archive(1, tmp_path / "packed")
        (run / "link").unlink()
        with store._transaction() as connection:
            connection.exec_driver_sql("UPDATE run SET journal_crc32 = 1 WHERE id = 1")
            connection.exec_driver_sql("UPDATE run SET ending = 'interrupted' WHERE id = 2")
        for number in (1, 2):
            with pytest.raises(RecordError, match="has not finished, or is not as it was"):
                store.archive(number, tmp_path / "packed")
        with pytest.raises(UsageError, match="no run 9"):
            store.archive(9, tmp_path)
    assert list((tmp_path / "packed").iterdir()) == []


def test_the_verb(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints the archives; ``assess`` and ``report`` accept them."""
    at, to = ["--store", str(tmp_path / "store.sqlite")], ["--to", str(tmp_path / "packed")]
    assert main(["store", "add", str(run), *at]) == 0
    assert main(["assess", str(run)]) == 0
    before = capsys.readouterr().out.partition("\n")[2]
    assert main(["store", "archive", *to, "--remove", *at]) == 0
    packed = capsys.readouterr().out.strip()
    assert main(["assess", packed]) == 0
    assert capsys.readouterr().out in before
    assert main(["report", packed]) == UsageError.exit_code
    assert main(["report", packed, "--out", str(tmp_path / "report"), "--to", "csv"]) == 0
    assert (tmp_path / "report/tables").is_dir()
    assert not run.exists()
    assert main(["store", "archive", *to, "--json", *at]) == 0
    Path(packed).unlink()
    capsys.readouterr()
    assert main(["store", "archive", *to, "--json", *at]) == RecordError.exit_code
    assert json.loads(capsys.readouterr().out) == {"format": 1, "archived": 0, "refused": [packed]}


# -- kills ------------------------------------------------------------------------------------------------------------


def pack_until(url: str, to: str, last_operation: int) -> None:
    """Pack a run and remove its folder; end this process before the operation on files with this number."""
    operations = count()

    def end(event: str, _arguments: object) -> None:
        if event in {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir"} and next(operations) == last_operation:
            os._exit(9)

    with Store(url) as store:
        sys.addaudithook(end)
        store.archive(1, to, remove=True)


def kill_points(url: str, to: Path) -> Iterator[int]:
    """Yield after each kill, at later and later operations, until the process ends by itself."""
    for point in (*range(0, 200, 9), *range(200, 20_000, 40)):
        process = _CONTEXT.Process(target=pack_until, args=(url, str(to), point))
        process.start()
        process.join()
        if process.exitcode == 0:
            return
        assert process.exitcode == 9
        yield point


@pytest.mark.long
def test_a_kill_anywhere_loses_nothing(run: Path, tmp_path: Path) -> None:
    """The folder is complete, or the store has its complete archive; the next call finishes the rest."""
    before, url, kills = files(run), str(tmp_path / "store.sqlite"), 0
    with Store(url, create=True) as store:
        store.add(run)
    for _ in kill_points(url, tmp_path / "packed"):
        kills += 1
        with Store(url) as store:
            (packed,) = store.runs().columns["archive"]
        if packed:
            with archive.opened(Path(str(packed))) as folder:
                assert files(folder.path) == before
        else:
            assert files(run) == before
    assert kills > 10
    assert not run.exists()
    (packed_file,) = (tmp_path / "packed").iterdir()
    with archive.opened(packed_file) as folder:
        assert files(folder.path) == before


# -- hostile archives -------------------------------------------------------------------------------------------------


def member(name: str, kind: bytes = tarfile.REGTYPE, content: bytes = b"", **fields: Any) -> bytes:
    """Return a member of an archive as its bytes."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info.tobuf(tarfile.PAX_FORMAT) + content + bytes(-len(content) % 512)


def made(path: Path, *members: bytes) -> Path:
    """Write an archive of these members."""
    path.write_bytes(lzma.compress(b"".join(members) + bytes(1024)))
    return path


_JOURNAL = member("run/journal.jsonl", content=b"{}\n")


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([member("/etc/evil")], "is not the path"),
        ([member("run/../../evil")], "is not the path"),
        ([member("run/./a")], "is not the path"),
        ([member("run//a")], "is not the path"),
        ([member("a/x"), member("b/x")], "is not the path"),
        ([member("run/a", tarfile.SYMTYPE, linkname="/etc/passwd")], "neither a folder"),
        ([member("run/a", tarfile.LNKTYPE, linkname="run/b")], "neither a folder"),
        ([member("run/a", tarfile.FIFOTYPE)], "neither a folder"),
        ([member("run/a", tarfile.CHRTYPE)], "neither a folder"),
        ([member("run/a", tarfile.GNUTYPE_SPARSE)], "neither a folder"),
        ([member("run/a", pax_headers={"GNU.sparse.map": "0,1", "GNU.sparse.size": "1"})], "neither a folder"),
        ([member("run/a"), member("run/a")], "twice"),
        ([member("run/a", tarfile.DIRTYPE), member("run/a", tarfile.DIRTYPE)], "twice"),
        ([member("run/none/a")], "No such file"),
        ([member("run/" + "a" * 300)], "name too long"),
        ([member("run/a", size=1 << 60)], "more than"),
        ([member("run/a", size=4096)], "unexpected end"),
        ([member("x", tarfile.XHDTYPE, bytes(2 << 20))], "a header of more than"),
        ([_JOURNAL], "the first entry is not|damaged|first"),
        ([], "no journal"),
    ],
)
def test_a_hostile_archive_is_refused(members: list[bytes], reason: str, tmp_path: Path) -> None:
    """The message says why and names the archive; nothing is written elsewhere."""
    path = made(tmp_path / "hostile.tar.xz", *members)
    with pytest.raises(RecordError, match=reason) as error:
        pts.load(path)
    assert "hostile.tar.xz" in str(error.value)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.long
def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too much content, too many files, or a decompressor that would need too much memory."""
    big = made(tmp_path / "big.tar.xz", member("run/a", content=bytes(2 << 20)))
    many = made(tmp_path / "many.tar.xz", *(member(f"run/{number}") for number in range(20)))
    (tmp_path / "wide.tar.xz").write_bytes(
        lzma.compress(_JOURNAL, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 29}])
    )
    with pytest.raises(RecordError, match="Memory usage limit"):
        pts.load(tmp_path / "wide.tar.xz")
    monkeypatch.setattr(archive, "_MAX_BYTES", 1 << 20)
    monkeypatch.setattr(archive, "_MAX_FILES", 10)
    for path in (big, many):
        with pytest.raises(RecordError, match="it has more than"):
            pts.load(path)


def test_too_little_space_is_no_damage(packed_run: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says that space is missing, and what to do; the archive is not blamed."""
    path = tmp_path / "run.tar.xz"
    path.write_bytes(packed_run)
    monkeypatch.setattr(archive, "_RESERVE_BYTES", shutil.disk_usage(tmp_path).total)
    with pytest.raises(RecordError, match="there is not enough space to unpack it") as error:
        pts.load(path)
    assert "TMPDIR" in error.value.hint


@pytest.fixture(scope="session")
def packed_run(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The archive of a run."""
    path = tmp_path_factory.mktemp("packed") / "run.tar.xz"
    archive.pack(runs / "hir", path)
    return path.read_bytes()


def load_or_refuse(path: Path) -> None:
    """Load an archive; the only error is a RecordError."""
    with suppress(RecordError):
        pts.load(path)


@pytest.mark.long
@_settings
@given(st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), min_size=1, max_size=9), st.booleans())
def test_a_damaged_archive(packed_run: bytes, tmp_path: Path, damages: list[tuple[int, int]], plain: bool) -> None:
    """Other bytes anywhere in the file, or in its content before it is compressed."""
    damaged = bytearray(lzma.decompress(packed_run) if plain else packed_run)
    for position, byte in damages:
        damaged[position % min(len(damaged), 1 << 14 if plain else len(damaged))] = byte
    path = tmp_path / "damaged.tar.xz"
    path.write_bytes(lzma.compress(damaged, preset=0) if plain else damaged)
    load_or_refuse(path)


_KINDS = [bytes([kind]) for kind in b"0\x001234567LKSxgX"]
_NAMES = st.one_of(
    st.text(max_size=40), st.sampled_from(["run", "run/a", "run/a/b", "../a", "/a", "run/journal.jsonl", "a/"])
)
_PAX = st.dictionaries(
    st.sampled_from(["path", "size", "mtime", "GNU.sparse.major", "GNU.sparse.map", "GNU.sparse.size", "hdrcharset"]),
    st.one_of(st.text(max_size=9), st.sampled_from(["0", "-1", "1e999", "9" * 30, "BINARY", "../../a"])),
    max_size=3,
)


@pytest.mark.long
@_settings
@given(st.lists(st.tuples(_NAMES, st.sampled_from(_KINDS), st.binary(max_size=700), _PAX), max_size=4))
def test_any_members(tmp_path: Path, members: list[tuple[str, bytes, bytes, dict[str, str]]]) -> None:
    """Names, types and extended headers of any kind: nothing is written outside, and every error is a sentence."""
    parts = []
    for name, kind, body, pax in members:
        try:
            parts.append(member(name, kind, body, pax_headers=pax))
        except (ValueError, UnicodeError):
            continue
    path = made(tmp_path / "any.tar.xz", *parts)
    load_or_refuse(path)
    assert list(tmp_path.iterdir()) == [path]
