"""The run folder: made once, never overwritten, written so that a crash leaves old or new."""

import errno
import os
import stat
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.errors import RecordError, RunFolderError
from snia_pts.files import keep_folder_open, replace_file
from snia_pts.record import folder as folders
from snia_pts.record import suite as suites
from snia_pts.record.folder import RunFolder, default_name
from snia_pts.record.suite import SuiteFolder
from tests.command_line import ENVIRONMENT


def test_a_new_folder_has_room_for_evidence(tmp_path: Path) -> None:
    """A run folder is made with its parents, and holds a folder for evidence."""
    folder = RunFolder.create(tmp_path / "runs" / "one")

    assert folder.evidence.is_dir()
    assert folder.path.is_absolute()


def test_an_empty_folder_is_taken_and_a_full_one_refused(tmp_path: Path) -> None:
    """No run overwrites another."""
    RunFolder.create(tmp_path)

    with pytest.raises(RunFolderError, match="not empty") as refused:
        RunFolder.create(tmp_path)
    assert refused.value.exit_code == 5
    assert "--run-dir" in refused.value.hint


def test_of_two_runs_that_start_at_once_one_gets_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both find it empty; the slower one adds nothing to it."""
    for module in (folders, suites):
        monkeypatch.setattr(module, "create_folder", lambda path: (path, False))
    run, suite = tmp_path / "run", tmp_path / "suite"
    run.mkdir()
    suite.mkdir()
    RunFolder.create(run)
    SuiteFolder.create(suite, ["iops"])
    before = (suite / "suite.json").read_bytes()

    with pytest.raises(RunFolderError, match="not empty"):
        RunFolder.create(run)
    with pytest.raises(RunFolderError, match=r"suite\.json already exists"):
        SuiteFolder.create(suite, ["wsat"])
    assert (suite / "suite.json").read_bytes() == before


def test_a_run_and_a_suite_that_start_at_once_do_not_share_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both find it empty; the one that is second to create a file removes it again, and the first has it alone."""
    for module in (folders, suites):
        monkeypatch.setattr(module, "create_folder", lambda path: (path, False))
    run, suite = tmp_path / "run", tmp_path / "suite"
    run.mkdir()
    suite.mkdir()
    RunFolder.create(run)
    SuiteFolder.create(suite, ["iops"])

    with pytest.raises(RunFolderError, match="not empty"):
        SuiteFolder.create(run, ["wsat"])
    with pytest.raises(RunFolderError, match="not empty"):
        RunFolder.create(suite)
    assert [path.name for path in run.iterdir()] == ["evidence"]
    assert [path.name for path in suite.iterdir()] == ["suite.json"]


#: Creates a run or suite in each folder of its input, and prints whether it got it.
CREATES = """
import sys
from pathlib import Path
from snia_pts.errors import RunFolderError
from snia_pts.record.folder import RunFolder
from snia_pts.record.suite import SuiteFolder
from tests.command_line import ENVIRONMENT
create = RunFolder.create if sys.argv[1] == "run" else lambda path: SuiteFolder.create(path, ["iops"])
print("ready", flush=True)
for line in sys.stdin:
    try:
        create(Path(line.strip()))
        print("got", flush=True)
    except RunFolderError as refusal:
        print(refusal.reason, flush=True)
"""


@pytest.mark.long
def test_a_run_and_a_suite_race_for_a_folder(tmp_path: Path) -> None:
    """Of two processes at most one gets an empty folder; who does not get it leaves nothing in it."""
    with ExitStack() as stack:
        processes = []
        for kind in ("run", "suite"):
            argv = [sys.executable, "-c", CREATES, kind]
            process = subprocess.Popen(argv, stdin=PIPE, stdout=PIPE, text=True, env=ENVIRONMENT)
            processes.append(stack.enter_context(process))
        assert [process.stdout.readline() for process in processes if process.stdout] == ["ready\n"] * 2
        for number in range(200):
            place = tmp_path / str(number)
            place.mkdir()
            for process in processes:
                assert process.stdin is not None
                process.stdin.write(f"{place}\n")
                process.stdin.flush()
            answers = [process.stdout.readline().strip() for process in processes if process.stdout]
            left = [path.name for path in place.iterdir()]
            expected = [
                name for name, answer in zip(("evidence", "suite.json"), answers, strict=True) if answer == "got"
            ]
            assert left == expected
            assert len(left) <= 1
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    """A file in the way gives a sentence."""
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(RunFolderError, match="Not a directory"):
        RunFolder.create(tmp_path / "file" / "run")


def test_a_run_that_never_began_leaves_no_folder(tmp_path: Path) -> None:
    """Discarding removes what was looked up before a run, and no folder that holds anything else."""
    never, begun = RunFolder.create(tmp_path / "never"), RunFolder.create(tmp_path / "begun")
    (never.evidence / "00000-probe-io_uring.json").write_text("{}")
    (begun.evidence / "00001-rnd-4096b-r0.json").write_text("precious")

    for folder in (never, begun, never):
        folder.discard()

    assert not never.path.exists()
    assert (begun.evidence / "00001-rnd-4096b-r0.json").read_text() == "precious"


@pytest.mark.parametrize(
    "left", ["result.xml", "notes.txt", "evidence/00001-rnd-4096b-r0.json", "evidence/00000-purge.json"]
)
def test_a_folder_with_other_files_stays_whole(left: str, tmp_path: Path) -> None:
    """What is left of a journal that lost its first line, its log and its evidence are not removed."""
    folder = RunFolder.create(tmp_path / "run")
    names = {left, "journal.jsonl", "log.txt", "evidence/00000-fio-version.process.json"}
    for name in names:
        (folder.path / name).write_text("precious")

    RunFolder(path=folder.path, created=True).discard()

    assert {str(path.relative_to(folder.path)) for path in folder.path.rglob("*") if path.is_file()} == names


def test_a_journal_that_cannot_be_read_is_not_discarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fails, or a right that is missing, does not make a run one that never began."""
    folder = RunFolder.create(tmp_path / "run")
    folder.journal.write_text("hours of a run\n")

    def refuse(_: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(folders, "open_regular", refuse)
    with pytest.raises(OSError, match="Input/output error"):
        assert folder.has_started
    folder.discard()

    assert folder.journal.read_text() == "hours of a run\n"


def test_word_to_stop_is_left_and_taken_back(tmp_path: Path) -> None:
    """It may be left twice, and is taken back at once."""
    folder = RunFolder.create(tmp_path / "run")
    assert not folder.stop_requested
    for _ in range(2):
        folder.request_stop()
        assert folder.stop_requested
    for _ in range(2):
        folder.withdraw_stop()
        assert not folder.stop_requested


def test_a_request_to_stop_names_the_person(tmp_path: Path) -> None:
    """In one printable line of limited length; a request without a name, and a symlink, name nobody."""
    folder = RunFolder.create(tmp_path / "run")
    (tmp_path / "ann").write_text("ann")
    for by, name in (("", ""), ("ann", "ann"), ("a\nb\x1b", "a b\N{REPLACEMENT CHARACTER}"), ("a" * 9999, "a" * 400)):
        folder.request_stop(by)
        assert (folder.stop_requested, folder.stop_requester) == (True, name)
        folder.withdraw_stop()
    (folder.path / "stop").symlink_to(tmp_path / "ann")
    assert (folder.stop_requested, folder.stop_requester) == (True, "")


@pytest.mark.parametrize("there", [True, False])
def test_a_link_in_place_of_the_word_is_not_followed(tmp_path: Path, there: bool) -> None:
    """Whoever may write to the run folder makes the suite neither touch nor remove a file elsewhere."""
    folder, precious = RunFolder.create(tmp_path / "run"), tmp_path / "precious"
    if there:
        precious.write_text("precious")
        os.utime(precious, (1, 1))
    (folder.path / "stop").symlink_to(precious)

    folder.request_stop()
    assert folder.stop_requested
    folder.withdraw_stop()

    assert not (folder.path / "stop").is_symlink()
    assert precious.exists() == there
    assert not there or (precious.read_text() == "precious" and precious.stat().st_mtime == 1)


def test_a_folder_in_place_of_the_word_is_none(tmp_path: Path) -> None:
    """What cannot be taken back stops nothing, and the request is refused."""
    folder = RunFolder.create(tmp_path / "run")
    (folder.path / "stop").mkdir()
    with pytest.raises(RunFolderError, match="stop is a directory"):
        folder.request_stop()
    assert not folder.stop_requested
    folder.withdraw_stop()


def test_a_stop_that_cannot_be_requested_is_no_failure_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who may not write to the folder is referred to the owner of the run."""
    folder = RunFolder.create(tmp_path / "run")

    def refuse(_: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(folders, "create", refuse)
    with pytest.raises(RunFolderError, match="cannot be requested: Permission denied") as refused:
        folder.request_stop()
    assert refused.value.hint == "Run this as the owner of the run."


def test_a_folder_without_a_journal_is_no_run(tmp_path: Path) -> None:
    """Reading needs a journal."""
    with pytest.raises(RecordError, match=r"no journal\.jsonl"):
        RunFolder.existing(tmp_path)
    with pytest.raises(RecordError, match="no such folder"):
        RunFolder.existing(tmp_path / "no")


@given(st.text(), st.text(max_size=200))
def test_names_stay_in_their_folder(test: str, subject: str) -> None:
    """Whatever a drive calls itself, its run folder's name is one short name."""
    name = default_name("iops", subject, "2026-01-02T03:04:05.678+00:00")

    assert Path(name).name == name
    assert name.startswith("iops-")
    assert name.endswith("-20260102T030405")
    assert len(name) < 100


def test_replacing_is_whole(tmp_path: Path) -> None:
    """A replaced file has its new content, is readable by others, and nothing else is left."""
    path = tmp_path / "result.xml"
    replace_file(path, b"old")

    replace_file(path, b"new")

    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_replacement_leaves_the_old(tmp_path: Path) -> None:
    """What cannot be put in place leaves nothing behind, and the old as it was."""
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old").write_text("old")

    with pytest.raises(OSError, match="directory"):
        replace_file(path, b"new")

    assert (path / "old").read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_replaced_file_has_its_name_on_stable_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is synced after the rename: a power failure loses neither the content of a file nor its name."""
    calls: list[str] = []
    fsync, rename = os.fsync, os.rename

    def synced(descriptor: int) -> None:
        calls.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def renamed(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        calls.append("rename")
        rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    replace_file(tmp_path / "note", b"x")

    assert calls == ["file", "rename", "folder"]


def test_an_error_names_one_path(tmp_path: Path) -> None:
    """It is printed with its full path, and without a second one."""
    with keep_folder_open(tmp_path), pytest.raises(FileNotFoundError) as failed:
        replace_file(tmp_path / "none" / "note", b"x")
    assert str(failed.value) == f"[Errno 2] No such file or directory: '{tmp_path / 'none'}'"
