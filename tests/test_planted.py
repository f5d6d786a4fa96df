"""Run folders that another user prepared: symlinks in place of files, and folders that others can change."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import FileIO
from itertools import count, product
from pathlib import Path
from typing import Any

import pytest

from snia_pts import files, trusted_paths
from snia_pts.cli.main import main
from snia_pts.errors import RecordError, ReportError, RunFolderError
from snia_pts.lab.evidence import last_number
from snia_pts.lab.process import program as process
from snia_pts.record import folder as folder_module
from snia_pts.record.folder import RunFolder, writable_path
from snia_pts.record.journal import Journal
from snia_pts.record.locks import is_locked
from snia_pts.record.suite import SuiteFolder
from snia_pts.report.writing import replace_files
from snia_pts.units import MIB
from tests.command_line import ENVIRONMENT, command, snia_pts
from tests.drives import content, filled, need_root
from tests.simulated_device import fuse, slow
from tests.simulated_device.model import Drive
from tests.simulated_device.oracle import Oracle
from tests.test_end_to_end import SMALL

#: What another user puts in the place of a file.
KINDS = ("symlink", "dangling symlink", "hard link", "named pipe", "directory")
SIMULATED = (
    "throughput",
    "sim:client-qlc",
    "--max-rounds",
    "2",
    "--set",
    "steady_state.window_rounds=2",
    "--pts",
    "1.1",
)


def called(capsys: pytest.CaptureFixture[str], *argv: str | Path) -> tuple[int, str]:
    """Run a command line in this process; return its exit code and standard error."""
    code = main([str(word) for word in argv])
    return code, capsys.readouterr().err


def plant(path: Path, kind: str, victim: Path) -> None:
    """Put something at ``path`` that leads to a victim, or is in the way."""
    path.unlink(missing_ok=True)
    if kind == "symlink":
        path.symlink_to(victim)
    elif kind == "dangling symlink":
        path.symlink_to(victim.with_name("new"))
    elif kind == "hard link":
        path.hardlink_to(victim)
    elif kind == "named pipe":
        os.mkfifo(path)
    else:
        path.mkdir()


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return another user's file, outside of every run folder."""
    (tmp_path / "home").mkdir()
    return filled(tmp_path / "home" / "victim", 4096)


def untouched(victim: Path, before: str) -> bool:
    """Return whether a victim has its bytes, and no file was created beside it."""
    return content(victim) == before and [path.name for path in victim.parent.iterdir()] == ["victim"]


# -- one file at a time -----------------------------------------------------------------------------------------------

WRITERS: dict[str, Callable[[Path], object]] = {
    "create": lambda path: files.create_file(path, b"new"),
    "create, replacing": lambda path: files.create_file(path, b"new", replace=True),
    "append": lambda path: files.open_to_append(path, new=True).close(),
    "replace": lambda path: files.replace_file(path, b"new"),
    "program": lambda path: process.run(["true"], evidence=path.with_suffix(""), timeout_seconds=10),
    "new journal": lambda path: Journal(path).close(),
    "existing journal": lambda path: Journal(path, existing=True).close(),
    "folder": files.make_folder,
    "report": lambda path: replace_files(path.parents[1], {f"{path.parent.name}/{path.name}": b"new"}),
    "table": lambda path: replace_files(path.parents[1], {f"{path.parent.name}/{path.name}/a.csv": b"new"}),
}
#: Where a planted object is replaced, and the file is written; everywhere else it is refused.
REPLACED = {
    *(("replace", kind) for kind in KINDS if kind != "directory"),
    ("create, replacing", "hard link"),
    ("program", "hard link"),
    ("folder", "directory"),
    ("table", "directory"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("writer", WRITERS)
def test_nothing_is_written_through_a_planted_object(tmp_path: Path, victim: Path, writer: str, kind: str) -> None:
    """Each function that writes refuses or replaces what is not its own file; a victim keeps its bytes."""
    before, run = content(victim), RunFolder.create(tmp_path / "run")
    path = run.evidence / "00001-x.process.json"
    plant(path, kind, victim)
    with run.opened():
        if (writer, kind) in REPLACED:
            WRITERS[writer](path)
            assert path.is_dir() or path.is_file()
            assert not path.is_symlink()
        else:
            with pytest.raises((RunFolderError, ReportError, IsADirectoryError)) as refused:
                WRITERS[writer](path)
            assert path.name in f"{refused.value} {getattr(refused.value, 'filename', '')}"

    assert untouched(victim, before)


@pytest.mark.parametrize("writer", WRITERS)
def test_a_folder_that_became_a_symlink_is_not_followed(tmp_path: Path, victim: Path, writer: str) -> None:
    """If a subfolder of an open run folder is replaced by a symlink, nothing is written through it."""
    before, run = content(victim), RunFolder.create(tmp_path / "run")
    files.make_folder(run.path / "figures")
    with run.opened():
        for name in ("figures", "evidence"):
            (run.path / name).rename(run.path / f"{name}.away")
            (run.path / name).symlink_to(victim.parent)
        with pytest.raises((RunFolderError, ReportError)):
            WRITERS[writer](run.path / "figures" / "00001-x.process.json")
        if writer not in ("existing journal", "report"):
            WRITERS[writer](run.evidence / "00001-x.process.json")  # it is open, and written to where it is now
            assert (run.path / "evidence.away" / "00001-x.process.json").exists()

    assert untouched(victim, before)


@pytest.mark.root
@pytest.mark.parametrize(
    "write", [RunFolder.create, lambda path: replace_files(path, {"report.rst": b"new"}), writable_path]
)
def test_a_symlink_that_appears_between_two_calls_is_not_followed(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], object]
) -> None:
    """Another user plants a symlink in a sticky directory before each of the calls that inspect or create a path."""
    need_root()
    before, sticky = content(victim), tmp_path / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    planted = []
    for position in range(40):
        name = sticky / f"new{position}"
        with monkeypatch.context() as patch:
            calls = count()
            for function in ("open", "mkdir", "stat", "scandir"):
                patch.setattr(os, function, before_call(getattr(os, function), calls, position, name, victim.parent))
            with suppress(RunFolderError, ReportError, RecordError):
                write(name / "run")
        planted.append(name.is_symlink())

    assert any(planted)
    assert not all(planted)
    assert untouched(victim, before)


@pytest.mark.root
@pytest.mark.parametrize(("user", "is_trusted"), [(0, True), (65534, False)])
def test_a_user_who_serves_a_file_system_owns_all_its_files(user: int, is_trusted: bool, tmp_path: Path) -> None:
    """The server claims that all files belong to root."""
    need_root()
    ended, mount = threading.Event(), tmp_path / "mount"
    mount.mkdir()
    drive = Drive(MIB, slow.MEDIA, slow.CONTROLLER, Oracle(tmp_path / "log"))

    def serve(connector: fuse.Fuse) -> None:
        while not ended.wait(0.001):
            connector.receive(connector.sources[0], lambda _: None)

    try:
        with fuse.opened(drive, mount, user, others=True) as connector, ThreadPoolExecutor() as threads:
            threads.submit(serve, connector)
            try:
                assert (mount / fuse.LINK).lstat().st_uid == 0
                redirected = trusted_paths.redirect_risk(mount / fuse.LINK / "etc", Path("/etc"))
                written = trusted_paths.tampering_risk(mount)
            finally:
                ended.set()
    except fuse.Unavailable as reason:
        pytest.skip(f"no FUSE here: {reason}")
    owner = trusted_paths.owner_name(user)
    assert redirected == ("" if is_trusted else f"{mount / fuse.LINK} is a symlink that belongs to {owner}")
    assert written == ("" if is_trusted else f"{mount} belongs to {owner}")


@pytest.mark.parametrize("reader", [files.open_regular, is_locked])
def test_only_a_regular_file_is_opened_for_reading(tmp_path: Path, reader: Callable[[Path], object]) -> None:
    """Opening a pipe lets its writer continue, and opening a watchdog starts it."""
    pipe, planted = tmp_path / "pipe", tmp_path / "planted"
    os.mkfifo(pipe)
    planted.symlink_to(pipe)
    writer = threading.Thread(target=lambda: os.close(os.open(pipe, os.O_WRONLY)), daemon=True)
    writer.start()
    time.sleep(0.2)

    with pytest.raises(OSError, match="it is not a regular file"):
        reader(planted)

    writer.join(0.5)
    assert writer.is_alive()
    os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))
    writer.join()


def before_call(
    function: Callable[..., Any], calls: Iterator[int], position: int, name: Path, target: Path
) -> Callable[..., Any]:
    """Return a function that plants another user's symlink, if the name is free, before the call of that position."""

    def call(*arguments: Any, **options: Any) -> Any:
        if next(calls) == position and not os.path.lexists(name):
            name.symlink_to(target)
            os.chown(name, 65534, 65534, follow_symlinks=False)
        return function(*arguments, **options)

    return call


def test_a_run_folder_that_is_moved_is_still_written(tmp_path: Path) -> None:
    """A folder that replaces an open one gets no file of the run."""
    run = RunFolder.create(tmp_path / "run")
    with run.opened():
        run.path.rename(tmp_path / "away")
        (tmp_path / "run" / "evidence").mkdir(parents=True)
        files.create_file(run.evidence / "x", b"new")
        files.replace_file(run.result, b"new")

    assert not [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert (tmp_path / "away" / "evidence" / "x").read_bytes() == b"new"


@pytest.mark.parametrize("replacement", ["empty folder", "folder of a run", "symlink"])
def test_a_run_folder_that_is_moved_keeps_its_journal(tmp_path: Path, replacement: str) -> None:
    """When the run ends, it is not mistaken for one that never started because another folder has its path."""
    run, moved = RunFolder.create(tmp_path / "run"), tmp_path / "moved"
    with run.opened():
        files.create_file(run.journal, b"{}\n")
        files.create_file(run.evidence / "00000-probe", b"")
        run.path.rename(moved)
        (tmp_path / "other" / "evidence" if replacement == "folder of a run" else tmp_path / "other").mkdir(
            parents=True
        )
        if replacement == "symlink":
            run.path.symlink_to(tmp_path / "other")
        else:
            (tmp_path / "other").rename(run.path)
        assert run.has_started
        run.discard()

    assert (moved / "journal.jsonl").read_bytes() == b"{}\n"
    assert (moved / "evidence" / "00000-probe").exists()


def test_a_suite_folder_that_is_moved_keeps_its_list_of_tests(tmp_path: Path) -> None:
    """Without it, no test of the suite can be resumed."""
    suite = SuiteFolder.create(tmp_path / "suite", ["iops"])
    with suite.locked():
        suite.path.rename(tmp_path / "moved")
        suite.path.mkdir()
        suite.discard()

    assert SuiteFolder.existing(tmp_path / "moved") is not None


def test_temporary_files_of_a_killed_writer_are_removed(tmp_path: Path) -> None:
    """The next writer removes a temporary file without a writer, but not one in use, nor files with other names."""
    left, busy = tmp_path / ".result.xml.0123456789abcdef", tmp_path / ".result.xml.fedcba9876543210"
    others = [tmp_path / name for name in (".result.xml.backup", ".report.pdf.0123456789abcdef", "result.xml.0")]
    for path in (left, busy, *others):
        path.write_text("half")
    with busy.open("rb") as writing:
        fcntl.flock(writing, fcntl.LOCK_EX)
        files.replace_file(tmp_path / "result.xml", b"whole")

    assert {path.name for path in tmp_path.iterdir()} == {"result.xml", busy.name, *(path.name for path in others)}


def test_a_writer_that_is_killed_leaves_the_old_file(tmp_path: Path) -> None:
    """After SIGKILL while result.xml is written, the old file is unchanged; the next writer leaves only the new one."""
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom snia_pts import files\n"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        "files.replace_file(Path(sys.argv[1]), b'new')\n"
    )
    path = tmp_path / "result.xml"
    path.write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    names = [item.name for item in tmp_path.iterdir()]
    assert done.returncode == -9
    assert path.read_bytes() == b"old"
    assert any(name.startswith(".result.xml.") for name in names)

    files.replace_file(path, b"newer")

    assert [entry.name for entry in tmp_path.iterdir()] == ["result.xml"]
    assert path.read_bytes() == b"newer"


# -- commands ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished simulated run in ``run``."""
    place = tmp_path_factory.mktemp("simulated")
    snia_pts(place, *SIMULATED, "--run-dir", "run", "--to", "json,csv")
    return place


@pytest.fixture
def stored(simulated: Path, tmp_path: Path) -> Path:
    """A copy of the finished run."""
    return Path(shutil.copytree(simulated / "run", tmp_path / "run"))


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["result.xml", "report.json", "tables", "journal.jsonl"])
def test_report_writes_through_nothing(
    stored: Path, victim: Path, name: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """``report`` and ``assess`` of a folder with a planted object replace it with exit code 0, or refuse it.

    An object in the place of a report was not written by a report, so it is not replaced.
    """
    before, path = content(victim), stored / name
    if path.is_dir():
        shutil.rmtree(path)
    elif name == "journal.jsonl" and kind in ("symlink", "hard link"):
        shutil.copy(path, victim)
        before = content(victim)
    plant(path, kind, victim)

    code, message = called(capsys, "report", stored, "--to", "json,csv")
    judged, _ = called(capsys, "assess", stored)

    assert untouched(victim, before)
    in_the_way = name == "report.json" or (kind == "directory") != (name == "tables")
    readable = name != "journal.jsonl" or kind in ("symlink", "hard link")  # both are read, but not written
    assert code in ((0,) if readable and (name == "journal.jsonl" or not in_the_way) else (13, 14, 15)), message
    assert judged in (0, 14)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["comparison.rst", "figures"])
def test_compare_writes_through_nothing(
    stored: Path, victim: Path, name: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """``compare --out`` replaces nothing, and follows no symlink in place of figures."""
    before, out = content(victim), stored.parent / "out"
    out.mkdir()
    plant(out / name, kind, victim)

    code, message = called(capsys, "compare", stored, stored, "--out", out)

    assert untouched(victim, before)
    assert code == (0 if (name, kind) == ("figures", "directory") else 15), message
    assert code == 0 or [path.name for path in out.iterdir()] == [name]


@pytest.mark.long_but_first
@pytest.mark.parametrize("kind", KINDS)
def test_export_overwrites_nothing(stored: Path, victim: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``export`` refuses an existing file."""
    before = content(victim)
    plant(stored.parent / "out.xml", kind, victim)

    code, message = called(capsys, "export", stored, "--to", "tkperf", "--out", stored.parent / "out.xml")

    assert untouched(victim, before)
    assert code == 20, message


@pytest.mark.parametrize("kind", KINDS[:4])
def test_a_run_refuses_a_folder_with_content(
    tmp_path: Path, victim: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """``run`` and ``all`` refuse a folder that is not empty, and anything that is not a folder."""
    before, full = content(victim), tmp_path / "full"
    full.mkdir()
    plant(full / "evidence", kind, victim)
    names = ["full"]
    if kind != "dangling symlink":  # the operator's own symlink to a folder that does not exist yet
        plant(tmp_path / "planted", kind, victim)
        names.append("planted")

    for name in names:
        for verb in (SIMULATED, ("all", "sim:client-qlc")):
            code, message = called(capsys, *verb, "--run-dir", tmp_path / name)
            assert code == 5, message
    assert untouched(victim, before)


@pytest.mark.long
def test_resume_writes_through_nothing(tmp_path: Path, victim: Path) -> None:
    """A stopped run whose next evidence file is planted continues with other names, or is refused: nothing is harmed.

    All copies of the run write to the same file, so each has the option to continue on it.
    """
    argv = ("iops", "x.img", "--size", "16M", *SMALL, "--point-seconds", "0.2", "--to", "none", "--run-dir", "run")
    with subprocess.Popen(command(*argv), cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.DEVNULL) as running:
        while running.poll() is None and not list(tmp_path.glob("run/evidence/00002-*.process.json")):
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
    run, before = tmp_path / "run", content(victim)
    number = f"{last_number(run / 'evidence'):05d}"
    names = [
        f"evidence/{number}-{name}"
        for name in (
            "probe-io_uring.fio",
            "probe-io_uring.json",
            "probe-io_uring.process.json",
        )
    ]
    for place, (name, kind) in enumerate(product((*names, "journal.jsonl", "evidence"), KINDS[:2])):
        copy = tmp_path / f"copy-{place}"
        shutil.copytree(run, copy)
        path = copy / name
        if path.exists():
            path.rename(tmp_path / f"kept-{place}")
        plant(path, kind, victim)
        done = snia_pts(tmp_path, "resume", copy.name, "--continue", check=False)
        assert untouched(victim, before), (name, kind)
        assert done.returncode in ((0, 5, 14) if name in names else (5, 14, 16)), (name, kind, done.stderr)
        assert "Traceback" not in done.stderr

    assert snia_pts(tmp_path, "resume", "run", "--continue").returncode == 0


# -- folders that others may change -----------------------------------------------------------------------------------


#: Owner, group and permissions of a folder, and the message about it.
CHANGEABLE = {
    "somebody else's": (4711, 0, 0o755, "belongs to user 4711"),
    "everybody's": (0, 0, 0o777, "every user may change"),
    "a group's": (0, 4711, 0o775, "the group 4711 may change"),
}


@pytest.mark.long_but_first
@pytest.mark.root
@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("how", CHANGEABLE)
def test_root_writes_to_no_folder_that_others_can_change(
    tmp_path: Path, how: str, depth: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """If another user can change the run folder or one above it: exit code 5, the reason, and nothing is written."""
    need_root()
    owner, group, mode, reason = CHANGEABLE[how]
    folders = [tmp_path / "a" / "b" / "run", tmp_path / "a" / "b", tmp_path / "a"]
    folders[0].mkdir(parents=True)
    os.chown(folders[depth], owner, group)
    folders[depth].chmod(mode)

    for verb in (SIMULATED, ("all", "sim:client-qlc"), (*SIMULATED, "--plan")):
        code, message = called(capsys, *verb, "--run-dir", folders[0])
        assert code == 5, message
        assert reason in message
        assert "chown" in message
    assert list(folders[0].iterdir()) == []


@pytest.mark.long_but_first
@pytest.mark.root
@pytest.mark.parametrize("verb", [("resume",), ("report",), ("export", "--to", "tkperf")], ids=" ".join)
def test_root_adds_nothing_to_a_run_that_others_can_change(
    stored: Path, verb: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Root reads a stored run of another user, but does not write to it."""
    need_root()
    (stored / "journal.jsonl").write_bytes((stored / "journal.jsonl").read_bytes().rsplit(b"\n", 2)[0] + b"\n")
    stored.chmod(0o777)
    before = {path: content(path) for path in stored.rglob("*") if path.is_file()}

    code, message = called(capsys, verb[0], stored, *verb[1:])

    assert code == 5, message
    assert "every user may change" in message
    assert {path: content(path) for path in stored.rglob("*") if path.is_file()} == before
    assert called(capsys, "assess", stored)[0] in (0, 14)


@pytest.mark.root
def test_the_user_behind_sudo_and_sticky_folders_are_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write to a home of the user who called sudo, and below a sticky folder, but not into a sticky folder."""
    need_root()
    home, sticky = tmp_path / "home", tmp_path / "sticky"
    (home / "run").mkdir(parents=True)
    os.chown(home, 4711, 4711)
    (sticky / "run").mkdir(parents=True)
    sticky.chmod(0o1777)

    trusted_paths.require_private(sticky / "run")
    trusted_paths.require_private(sticky, parent=True)
    for folder in (sticky, home / "run"):
        with pytest.raises(RunFolderError):
            trusted_paths.require_private(folder)
    monkeypatch.setenv("SUDO_UID", "4711")
    trusted_paths.require_private(home / "run")
    monkeypatch.setenv("SUDO_UID", "4712")
    with pytest.raises(RunFolderError, match="belongs to user 4711"):
        trusted_paths.require_private(home / "run")
    monkeypatch.setattr(os, "geteuid", lambda: 4713)
    trusted_paths.require_private(home / "run")


@pytest.mark.root
def test_root_appends_to_no_journal_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal of a run that is resumed belongs to root or to the user behind sudo."""
    need_root()
    journal = tmp_path / "journal.jsonl"
    journal.touch()
    os.chown(journal, 4711, 4711)

    with pytest.raises(RunFolderError, match="belongs to user 4711"):
        Journal(journal, existing=True)
    monkeypatch.setenv("SUDO_UID", "4711")
    Journal(journal, existing=True).close()


# -- where a path leads -----------------------------------------------------------------------------------------------


def own_tree(tmp_path: Path) -> tuple[Path, Path]:
    """Make a folder that only root can change, and one of another user; return both."""
    own, others = tmp_path / "own", tmp_path / "others"
    own.mkdir()
    others.mkdir()
    os.chown(others, 65534, 65534)
    return own, others


#: How another user redirects root to a folder of root's: what is planted, and the path that root gives.
LEADS: dict[str, Callable[[Path, Path], Path]] = {
    "a link": lambda own, others: link(others / "runs", own),
    "a link in a link's target": lambda own, others: link(own.parent / "l", link(others / "runs", own)),
    "a link in a sticky folder": lambda own, _others: link(sticky(own.parent) / "runs", own, owner=65534),
    "a link to what is not there": lambda own, _others: link(sticky(own.parent) / "runs", own / "new", owner=65534),
    "a folder before ..": lambda own, others: folder(others / "x" / "y") / ".." / ".." / ".." / own.name,
    "root's link in another's folder": lambda own, others: link(others / "runs", own, owner=0),
}


def link(place: Path, target: Path, owner: int = 65534) -> Path:
    """Make a symlink of another user."""
    place.symlink_to(target)
    os.chown(place, owner, owner, follow_symlinks=False)
    return place


def sticky(parent: Path) -> Path:
    """Make a folder such as /tmp."""
    (parent / "sticky").mkdir()
    (parent / "sticky").chmod(0o1777)
    return parent / "sticky"


def folder(place: Path) -> Path:
    """Make a folder and its parents."""
    place.mkdir(parents=True)
    return place


@pytest.mark.long_but_first
@pytest.mark.root
@pytest.mark.parametrize("name", ["", "run"])
@pytest.mark.parametrize("lead", LEADS)
def test_root_is_not_redirected(tmp_path: Path, lead: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A path of --run-dir that another user can redirect: exit code 5, and nothing is written there."""
    need_root()
    own, others = own_tree(tmp_path)
    place = LEADS[lead](own, others) / name

    for verb in (SIMULATED, ("all", "sim:client-qlc"), (*SIMULATED, "--plan")):
        code, message = called(capsys, *verb, "--run-dir", place)
        assert code == 5, message
    assert list(own.iterdir()) == []


@pytest.mark.root
def test_root_follows_its_own_symlinks(tmp_path: Path) -> None:
    """A symlink of root's in root's folder leads to a run folder; paths with .. work too."""
    need_root()
    own, _ = own_tree(tmp_path)
    runs = link(tmp_path / "runs", own, owner=0)

    assert RunFolder.create(runs / "a").path == own / "a"
    assert RunFolder.create(own / "a" / ".." / "b").path == own / "b"


@pytest.mark.parametrize(
    "make", [RunFolder.create, lambda path: SuiteFolder.create(path, ["iops"])], ids=["run", "all"]
)
def test_a_folder_that_appears_at_the_run_folders_path_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object]
) -> None:
    """A folder with files, or a symlink to one, that appears after the check of the path gets no file of the run."""
    full = tmp_path / "full"
    full.mkdir()
    (full / "data").touch()

    for appear in (lambda path: path.symlink_to(full), lambda path: shutil.copytree(full, path)):
        place = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        monkeypatch.setattr(folder_module, "require_empty", appear)
        with pytest.raises(RunFolderError):
            make(place)
        assert [item.name for item in place.iterdir()] == ["data"]
    assert [entry.name for entry in full.iterdir()] == ["data"]


def out(run: Path, verb: str, place: Path) -> list[str | Path]:
    """Return a command line that writes into a folder."""
    if verb == "export":
        return ["export", run, "--to", "tkperf", "--out", place / "x.xml"]
    return ["compare", run, run, "--out", place / "new"]


@pytest.mark.long_but_first
@pytest.mark.root
@pytest.mark.parametrize("verb", ["export", "compare"])
@pytest.mark.parametrize("lead", [*LEADS, "a folder", "a folder to be made"])
def test_root_writes_no_output_where_others_can_redirect_it(
    stored: Path, tmp_path: Path, verb: str, lead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--out`` in a folder of another user, or through their symlink: exit code 5, and nothing is written."""
    need_root()
    own, others = own_tree(tmp_path)
    place = LEADS[lead](own, others) if lead in LEADS else others / ("new" if lead.endswith("made") else "")
    before = sorted(others.rglob("*"))

    code, message = called(capsys, *out(stored, verb, place))

    assert code == 5, message
    assert list(own.iterdir()) == []
    assert sorted(others.rglob("*")) == before


@pytest.mark.long_but_first
@pytest.mark.parametrize("verb", ["export", "compare"])
def test_no_output_is_written_to_a_symlinked_folder(
    stored: Path, tmp_path: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder of ``--out`` that is a symlink is refused, even one of the operator's own."""
    own = tmp_path / "own"
    own.mkdir()
    (tmp_path / "link").symlink_to(own)
    place = tmp_path / "link" / "x.xml" if verb == "export" else tmp_path / "link"
    argv: tuple[str | Path, ...] = ("export", stored, "--to", "tkperf")
    if verb == "compare":
        argv = ("compare", stored, stored)

    code, message = called(capsys, *argv, "--out", place)

    assert code in (5, 15)
    assert "symlink" in message
    assert list(own.iterdir()) == []


def test_an_export_replaces_no_file_that_appears_later(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that somebody creates after the check of its path keeps its bytes."""
    place = tmp_path / "x.xml"
    place.write_text("theirs")
    monkeypatch.setattr("os.path.lexists", lambda path: path != place and Path(path).exists())

    code, message = called(capsys, "export", stored, "--to", "tkperf", "--out", place)

    assert code == 5
    assert "x.xml already exists" in message
    assert place.read_text() == "theirs"


def test_an_incomplete_file_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk becomes full while a new file is written, no part of it is left."""

    class Full(FileIO):
        def write(self, _content: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "UnbufferedFile", Full)
    with pytest.raises(OSError, match="No space left"):
        files.create_file(tmp_path / "x", b"new")

    assert list(tmp_path.iterdir()) == []
