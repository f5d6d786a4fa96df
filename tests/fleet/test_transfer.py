"""Run folders go to the database in chunks and come back equal; no host reaches the results of another one."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import errors

from snia_pts.errors import RecordError, UploadRefused
from snia_pts.fleet import transfer
from snia_pts.fleet.transfer import CHUNK_BYTES, Upload, is_sent, manifest_of, parse_manifest, receive, send
from snia_pts.units import GIB
from tests.fleet.labs import TestLab
from tests.fleet.test_rights import run_of, with_hosts

_CONTENT = {
    "journal.jsonl": os.urandom(2 * CHUNK_BYTES + 17),
    "result.xml": b"<result/>",
    "empty": b"",
    "evidence/00001-a.json": b"{}" * 1000,
    "evidence/deep/er/b": b"\x00" * CHUNK_BYTES,
}


@pytest.fixture(name="hosts")
def _hosts(lab: TestLab) -> TestLab:
    """A lab with the hosts h1 and h2, and a run on each."""
    return with_hosts(lab, "h1", "h2")


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    """A folder with files of several chunks, of one, and of none."""
    for name, content in _CONTENT.items():
        path = tmp_path / "run" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "run" / "result.xml").chmod(0o600)
    return tmp_path / "run"


def files(folder: Path) -> dict[str, bytes]:
    """Return the content of all files below a folder, by their paths."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def sent(lab: TestLab, host: str, run_id: UUID, folder: Path) -> int:
    """Send a folder as the agent of a host; return how many chunks were sent."""
    manifest = manifest_of(folder)
    with lab.as_agent(host) as connection:
        number = send(connection, run_id, folder, manifest)
        assert is_sent(connection, run_id, manifest)
    return number


def upload_of(lab: TestLab, run_id: UUID) -> Upload:
    """Return the newest upload of a run."""
    query = "SELECT digest, manifest FROM lab_upload WHERE run_id = %s ORDER BY id DESC LIMIT 1"
    ((digest, manifest),) = lab.query(query, run_id)
    return Upload(run_id=run_id, digest=digest, manifest=bytes(manifest))


def received(lab: TestLab, run_id: UUID, destination: Path) -> bool:
    """Receive the newest upload of a run as the controller."""
    with as_controller(lab) as connection:
        return receive(connection, upload_of(lab, run_id), destination)


def as_controller(lab: TestLab) -> psycopg.Connection[Any]:
    """Return a connection of the controller's role."""
    return psycopg.connect(lab.url.replace("lab@", "lab_controller@"), autocommit=True)


def test_a_folder_comes_home_as_it_was(hosts: TestLab, folder: Path, tmp_path: Path) -> None:
    """All files are equal, and no other user may change them; nothing else is beside the folder."""
    run_id, home = run_of(hosts, "A"), tmp_path / "home"
    home.mkdir()
    assert sent(hosts, "h1", run_id, folder) == 6  # one chunk has another file's content, too: none
    assert received(hosts, run_id, home / "run")

    assert files(home / "run") == _CONTENT
    assert stat.S_IMODE((home / "run" / "result.xml").stat().st_mode) == 0o600
    assert [path.name for path in home.iterdir()] == ["run"]


def test_what_is_there_is_not_sent_again(hosts: TestLab, folder: Path, tmp_path: Path) -> None:
    """A second call sends nothing; of a journal that has grown only the end is sent; the folder is replaced."""
    run_id, home = run_of(hosts, "A"), tmp_path / "home"
    home.mkdir()
    sent(hosts, "h1", run_id, folder)
    assert sent(hosts, "h1", run_id, folder) == 0
    assert received(hosts, run_id, home / "run")

    with (folder / "journal.jsonl").open("ab") as journal:
        journal.write(b"more")
    (folder / "report.pdf").write_bytes(b"%PDF")
    (folder / "empty").unlink()
    assert sent(hosts, "h1", run_id, folder) == 2
    assert received(hosts, run_id, home / "run")
    assert files(home / "run") == files(folder)
    assert len(hosts.query("SELECT id FROM lab_upload")) == 2


def test_a_transfer_goes_on_where_it_ended(hosts: TestLab, folder: Path, tmp_path: Path) -> None:
    """An agent that stops after each chunk sends each of them once; without all of them nothing is received."""
    run_id, manifest, numbers = run_of(hosts, "A"), manifest_of(folder), []
    with hosts.as_agent("h1") as connection:
        for _ in range(20):
            calls = count()
            numbers.append(
                send(connection, run_id, folder, manifest, is_stopping=lambda calls=calls: next(calls) >= 3)  # type: ignore[misc]
            )
            if is_sent(connection, run_id, manifest):
                break
    assert sum(numbers) == len(hosts.query("SELECT digest FROM lab_chunk")) == len(manifest.chunks)
    assert len(numbers) > 1

    hosts.query("DELETE FROM lab_chunk WHERE digest = %s", manifest.files[-1].chunks[-1])
    assert not received(hosts, run_id, tmp_path / "home")
    assert not (tmp_path / "home").exists()
    assert sent(hosts, "h1", run_id, folder) == 1
    assert received(hosts, run_id, tmp_path / "home")


def test_a_folder_that_changes_is_not_sent(hosts: TestLab, folder: Path) -> None:
    """Bytes after the end that the manifest has are another state; other bytes before it are a mistake."""
    run_id, manifest = run_of(hosts, "A"), manifest_of(folder)
    with (folder / "journal.jsonl").open("ab") as journal:
        journal.write(b"more")
    with hosts.as_agent("h1") as connection:
        assert send(connection, run_id, folder, manifest) == len(manifest.chunks)
    (folder / "evidence/00001-a.json").write_bytes(b"[]" * 1000)
    hosts.query("TRUNCATE lab_chunk")
    with hosts.as_agent("h1") as connection, pytest.raises(RecordError, match="it changed while it was sent"):
        send(connection, run_id, folder, manifest)
    (folder / "link").symlink_to("/etc/passwd")
    with pytest.raises(RecordError, match="neither a folder nor a regular file"):
        manifest_of(folder)


def test_no_folder_is_an_upload_without_files(hosts: TestLab, tmp_path: Path) -> None:
    """A run that failed before it had a folder has nothing to receive; a folder that is there stays."""
    run_id = run_of(hosts, "A")
    assert sent(hosts, "h1", run_id, tmp_path / "none") == 0
    (tmp_path / "home").mkdir()
    assert received(hosts, run_id, tmp_path / "home")
    assert list((tmp_path / "home").iterdir()) == []


# -- the rights of an agent -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO lab_chunk (run_id, digest, content) VALUES ('{other}', encode(sha256('x'), 'hex'), 'x')",
        "INSERT INTO lab_upload (run_id, digest, manifest) VALUES ('{other}', encode(sha256('x'), 'hex'), 'x')",
        "INSERT INTO lab_upload (run_id, digest, manifest, sent) "
        "VALUES ('{own}', encode(sha256('y'), 'hex'), 'y', 'infinity')",
        "INSERT INTO lab_receipt (run_id, digest, sent, outcome) VALUES ('{own}', 'x', now(), 'stored')",
        "UPDATE lab_chunk SET content = 'y'",
        "UPDATE lab_chunk SET run_id = '{other}'",
        "UPDATE lab_upload SET run_id = '{other}'",
        "UPDATE lab_receipt SET outcome = 'stored'",
        "DELETE FROM lab_chunk",
        "DELETE FROM lab_upload",
        "DELETE FROM lab_receipt",
        "TRUNCATE lab_chunk",
        "SELECT content FROM lab_chunk",
        "SELECT manifest FROM lab_upload",
        "SELECT lab_judge_health_check()",
    ],
)
def test_an_agent_may_not(hosts: TestLab, statement: str) -> None:
    """Each statement is refused, and changes nothing."""
    own, other = run_of(hosts, "A"), run_of(hosts, "B")
    for run_id in (own, other):
        hosts.query("INSERT INTO lab_chunk VALUES (%s, encode(sha256('a'), 'hex'), 'a')", run_id)
        hosts.query("INSERT INTO lab_receipt VALUES (%s, 'a', now(), now(), 'kept')", run_id)
    before = contents(hosts)
    with hosts.as_agent("h1") as connection, pytest.raises((errors.InsufficientPrivilege, errors.FeatureNotSupported)):
        connection.execute(statement.format(own=own, other=other).encode())
    assert contents(hosts) == before


def contents(lab: TestLab) -> list[list[tuple[Any, ...]]]:
    """Return the rows of all tables of results."""
    return [lab.query(f"TABLE {table}") for table in ("lab_chunk", "lab_upload", "lab_receipt")]


def test_an_agent_sees_only_what_it_sent(hosts: TestLab, folder: Path) -> None:
    """Digests and receipts of its own runs, none of another host."""
    for host, serial in (("h1", "A"), ("h2", "B")):
        sent(hosts, host, run_of(hosts, serial), folder)
        hosts.query("INSERT INTO lab_receipt VALUES (%s, 'x', now(), now(), 'stored')", run_of(hosts, serial))
    with hosts.as_agent("h1") as connection:
        for table in ("lab_chunk", "lab_upload", "lab_receipt"):
            runs = connection.execute(
                f"SELECT DISTINCT run_id FROM {table}".encode()  # noqa: S608 - a name of this test
            ).fetchall()
            assert runs == [{"run_id": run_of(hosts, "A")}], table


@pytest.mark.parametrize(
    ("digest", "content"), [("0" * 64, b"x"), (sha256(b"").hexdigest(), b""), ("", bytes(CHUNK_BYTES + 1))]
)
def test_a_chunk_is_what_its_digest_says(hosts: TestLab, digest: str, content: bytes) -> None:
    """The database refuses another content, an empty chunk and one that is too large."""
    digest = digest or sha256(content).hexdigest()
    statement = "INSERT INTO lab_chunk (run_id, digest, content) VALUES (%s, %s, %b)"
    with hosts.as_agent("h1") as connection, pytest.raises(errors.CheckViolation):
        connection.execute(statement, (run_of(hosts, "A"), digest, content))


def test_a_host_sends_at_most_64_gib_that_were_not_collected(hosts: TestLab) -> None:
    """The database counts the bytes of each host's chunks; those that the controller removes make room again."""
    full, counted = 64 * GIB, "SELECT chunk_bytes FROM lab_host WHERE name = 'h1'"
    statement = "INSERT INTO lab_chunk (run_id, digest, content) VALUES (%s, %s, %b) ON CONFLICT DO NOTHING"
    chunks = [(run_of(hosts, "A"), sha256(content).hexdigest(), content) for content in (b"abc", b"de")]
    hosts.query("UPDATE lab_host SET chunk_bytes = %s WHERE name = 'h1'", full - 4)
    with hosts.as_agent("h1") as connection:
        connection.execute(statement, chunks[0])
        connection.execute(statement, chunks[0])
        with pytest.raises(errors.DiskFull, match="64 GiB of results of this host"):
            connection.execute(statement, chunks[1])
        assert hosts.query(counted) == [(full - 1,)]
        hosts.query("DELETE FROM lab_chunk WHERE run_id = %s", chunks[0][0])
        assert hosts.query(counted) == [(full - 4,)]
        connection.execute(statement, chunks[1])
    assert hosts.query(counted) == [(full - 2,)]


# -- manifests are the text of another host ---------------------------------------------------------------------------


def upload(*changes: dict[str, Any], **document: Any) -> Upload:
    """Return an upload with an empty file for each of the changes."""
    file = {"path": "a", "size": 0, "mode": 0o644, "sha256": sha256(b"").hexdigest(), "chunks": []}
    content = json.dumps({"format": 1, "files": [{**file, **change} for change in changes], **document}).encode()
    return Upload(run_id=uuid4(), digest=sha256(content).hexdigest(), manifest=content)


@pytest.mark.long_but_first
@pytest.mark.parametrize(
    ("hostile", "reason"),
    [
        (upload({"path": "../a"}), "the file '../a' is not in the folder"),
        (upload({"path": "a/../../b"}), "the file 'a/../../b' is not in the folder"),
        (upload({"path": "/etc/passwd"}), "the file '/etc/passwd' is not in the folder"),
        (upload({"path": ""}), "the file '' is not in the folder"),
        (upload({"path": "a//b"}), "the file 'a//b' is not in the folder"),
        (upload({"path": "./a"}), "the file './a' is not in the folder"),
        (upload({"path": "a/"}), "the file 'a/' is not in the folder"),
        (upload({"path": "a\0b"}), "unprintable letters"),
        (upload({"path": "a\x1b[2J"}), "unprintable letters"),
        (upload({"path": "a\nb"}), "unprintable letters"),
        (upload({"path": "a" * 256}), "too long a name"),
        (upload({"path": "ä" * 128}), "too long a name"),
        (upload({"path": "/".join("a" * 9)}), "in too many folders"),
        (upload({"path": "a" * 5000}), "files 1.path"),
        (upload({}, {}), "the file 'a' is there twice"),
        (upload({"path": "Ä"}, {"path": "a\u0308"}), "only in upper and lower case"),
        (upload({"path": "x/a"}, {"path": "X/b"}), "only in upper and lower case"),
        (upload({"path": "a"}, {"path": "a/b"}), "'a' is both a file and a folder"),
        (upload({"path": "a/b"}, {"path": "a"}), "'a' is both a file and a folder"),
        (upload({"mode": 0o4755}), "files 1.mode"),
        (upload({"mode": 0o120777}), "files 1.mode"),
        (upload({"target": "/etc/passwd"}), "files 1.target: unknown key"),
        (upload({"size": -1}), "files 1.size"),
        (upload({"size": 1 << 60}), "files 1.size"),
        (upload({"size": 1}), "not as many chunks as its size requires"),
        (upload({"chunks": ["0" * 64]}), "not as many chunks as its size requires"),
        (upload({"sha256": "../../etc"}), "files 1.sha256"),
        (upload({"size": 1, "chunks": ["'; DROP TABLE"]}), "files 1.chunks 1"),
        (upload(*[{}] * 100_001), "files: expected at most 100000 entries"),
        (upload(files=7), "files"),
        (upload(format=2), "format"),
        (Upload(run_id=uuid4(), digest="0" * 64, manifest=b"{}"), "its SHA-256 is another one"),
        *(
            (Upload(run_id=uuid4(), digest=sha256(text).hexdigest(), manifest=text), "its manifest is invalid")
            for text in (b"", b"[]", b"7", b"\xff", b"[" * 100_000, b"null", b"{}")
        ),
    ],
)
def test_a_hostile_manifest_is_refused_with_a_sentence(hostile: Upload, reason: str) -> None:
    """The reason has the path or the key; it is one line, whatever the manifest has."""
    with pytest.raises(UploadRefused) as refused:
        parse_manifest(hostile)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "\x1b" not in str(refused.value)


def test_the_files_of_a_manifest_have_a_limit_together() -> None:
    """No more than an archive may have."""
    large = {"size": 40 << 30, "chunks": ["0" * 64] * (40 << 10)}
    with pytest.raises(UploadRefused, match=r"more than 68\.72 GB"):
        parse_manifest(upload({**large, "path": "a"}, {**large, "path": "b"}))


@pytest.mark.long
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(paths=st.lists(st.text(alphabet="aA./\\\0ä\u0308\u200f~-", max_size=12), max_size=4))
def test_no_path_leaves_the_folder(paths: list[str], tmp_path: Path) -> None:
    """Any paths are refused, or all of them are different files below the folder."""
    try:
        manifest = parse_manifest(upload(*({"path": path} for path in paths)))
    except UploadRefused:
        return
    real = [os.path.normpath(tmp_path / file.path) for file in manifest.files]
    assert all(path.startswith(f"{tmp_path}/") for path in real)
    assert len({path.casefold() for path in real}) == len(paths)


@pytest.mark.parametrize("change", [{"sha256": "0" * 64}, {"chunks": [sha256(b"y").hexdigest()]}, {"size": 2}])
def test_a_file_with_another_content_is_refused(hosts: TestLab, tmp_path: Path, change: dict[str, Any]) -> None:
    """Its chunks are in the database, but they are not the file; nothing is left of the folder."""
    run_id = run_of(hosts, "A")
    for content in (b"x", b"y"):
        statement = "INSERT INTO lab_chunk (run_id, digest, content) VALUES (%s, %s, %b)"
        with hosts.as_agent("h1") as connection:
            connection.execute(statement, (run_id, sha256(content).hexdigest(), content))
    file = {"size": 1, "sha256": sha256(b"x").hexdigest(), "chunks": [sha256(b"x").hexdigest()]}
    forged = upload({**file, **change})
    home = tmp_path / "home"
    home.mkdir()
    with as_controller(hosts) as connection, pytest.raises(UploadRefused, match="another size or SHA-256"):
        receive(connection, Upload(run_id=run_id, digest=forged.digest, manifest=forged.manifest), home / "run")
    assert list(home.iterdir()) == []


def test_a_symlink_beside_the_destination_is_not_followed(hosts: TestLab, folder: Path, tmp_path: Path) -> None:
    """Neither in the place of the folder nor in that of the temporary one."""
    run_id, home, victim = run_of(hosts, "A"), tmp_path / "home", tmp_path / "victim"
    home.mkdir()
    victim.mkdir()
    (victim / "mine").write_text("mine")
    (home / "run").symlink_to(victim)
    (home / ".run.receiving").symlink_to(victim)
    sent(hosts, "h1", run_id, folder)
    assert received(hosts, run_id, home / "run")
    assert files(victim) == {"mine": b"mine"}
    assert not (home / "run").is_symlink()
    assert files(home / "run") == _CONTENT


# -- kills ------------------------------------------------------------------------------------------------------------

_OPERATIONS = ("create", "make_folder", "rename", "sync_folder", "_chunk", "_present")


class _Killed(BaseException):
    """Ends a call at an operation, as a kill does."""


def _killed_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the operation with this number, and none before it, end the call."""
    numbers = count()

    def counted(operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if next(numbers) == number:
                raise _Killed
            return operation(*arguments, **options)

        return call

    for name in _OPERATIONS:
        monkeypatch.setattr(transfer, name, counted(getattr(transfer, name)))
    monkeypatch.setattr(shutil, "rmtree", counted(shutil.rmtree))


@pytest.mark.long
def test_a_call_that_is_killed_anywhere_leaves_the_old_folder_or_the_new_one(
    hosts: TestLab, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each operation; the next call ends in the new folder, and nothing is beside it."""
    run_id, home = run_of(hosts, "A"), tmp_path / "home"
    old = {"journal.jsonl": b"old"}
    sent(hosts, "h1", run_id, folder)
    for number in count():
        shutil.rmtree(home, ignore_errors=True)
        (home / "run").mkdir(parents=True)
        (home / "run" / "journal.jsonl").write_bytes(b"old")
        with monkeypatch.context() as patch:
            _killed_at(number, patch)
            try:
                assert received(hosts, run_id, home / "run")
            except _Killed:
                ended = False
            else:
                ended = True
        states = [files(path) for path in home.iterdir() if path.name in ("run", ".run.before")]
        assert any(state in (old, _CONTENT) for state in states), number
        assert received(hosts, run_id, home / "run")
        assert files(home / "run") == _CONTENT
        assert [path.name for path in home.iterdir()] == ["run"]
        if ended:
            break
    assert number > 20
