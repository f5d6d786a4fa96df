"""Root is needed only where a program of the purge needs it: other operators can test their own files."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import matplotlib as mpl
import pytest

import snia_pts.cli.commands.run
import snia_pts.importer.commands  # noqa: F401 - before the tests become a user who may not read the checkout
from snia_pts.cli.main import main
from snia_pts.record import document
from snia_pts.report.formats import rst
from snia_pts.spec import reader as specfile
from tests.drives import need_root

NOBODY = 65534
SHORT = [
    "--set",
    "settling.sample_seconds=1",
    "--set",
    "settling.stride_samples=1",
    "--set",
    "saturation.seconds=5",
    "--set",
    "histogram.seconds=1",
    "--progress",
    "none",
]

SIZE = ["--size", "16M"]
TO = ["--to", "rst"]


def as_nobody(work: Callable[[], int]) -> int:
    """Do ``work`` in a process of the user nobody; return what it returns."""
    child = os.fork()
    if not child:
        code = 99
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            os.umask(0o027)
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture(autouse=True, scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Load all modules, because the user nobody may lack access to the interpreter's folder."""
    need_root()
    place = tmp_path_factory.mktemp("loaded")
    assert main(["wsat", str(place / "x.img"), "--run-dir", str(place / "run"), *SHORT, *SIZE, *TO]) == 0
    assert main(["assess", str(place / "run")]) == 0


@pytest.fixture
def theirs() -> Iterator[Path]:
    """Return a folder of the user nobody."""
    folder = Path(tempfile.mkdtemp(prefix="snia-pts-"))
    os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def readable_data(theirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the user nobody read a copy of the suite's data, because the checkout's folder may be private."""
    copy = theirs / "data"
    shutil.copytree(specfile.SPECS, copy / "specs")
    shutil.copytree(rst.TEMPLATES, copy / "reports")
    for path in (copy, *copy.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    for module in (specfile, document):
        monkeypatch.setattr(module, "SPECS", copy / "specs")
    monkeypatch.setattr(rst, "TEMPLATES", copy / "reports")


@pytest.mark.long
@pytest.mark.root
def test_an_operator_without_root_runs_a_complete_test(theirs: Path) -> None:
    """Run, report and assess on a file of the operator's; with this umask no other user may read it."""
    fonts = mpl.get_data_path()
    if as_nobody(lambda: int(not os.access(fonts, os.R_OK))):
        pytest.skip(f"only root may read {fonts}, which a report is drawn with")
    run = theirs / "run"

    assert as_nobody(lambda: main(["wsat", str(theirs / "x.img"), "--run-dir", str(run), *SHORT, *SIZE, *TO])) == 0
    assert as_nobody(lambda: main(["assess", str(run)])) == 0

    made = [run, *run.rglob("*")]
    assert len(made) > 20
    assert {path.stat().st_uid for path in made} == {NOBODY}
    assert not [path for path in made if path.stat().st_mode & (stat.S_IWGRP | stat.S_IRWXO)]


@pytest.mark.root
@pytest.mark.parametrize("verb", ["assess", "compare", "report", "resume", "status", "stop", "host"])
@pytest.mark.parametrize("locked", ["folder", "journal"])
def test_a_run_without_read_permission_is_reported(
    verb: str, locked: str, theirs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Another user's run is neither called missing nor failed."""
    run = theirs / "run"
    run.mkdir()
    (run / "evidence").mkdir()
    (run / "journal.jsonl").write_text("somebody's\n")
    (run if locked == "folder" else run / "journal.jsonl").chmod(0)
    line = [verb, *(["--restore"] if verb == "host" else []), str(run), *([str(run)] if verb == "compare" else [])]
    # Afterwards all modules are loaded; root refuses to write into a user's folder.
    assert main(line) in (0, 5, 14, 17)
    capfd.readouterr()

    code = as_nobody(lambda: main(line))
    output = capfd.readouterr()
    if (verb, locked) == ("host", "journal"):
        assert code == 0
        return
    assert code == 14
    assert "Permission denied" in output.out + output.err
    assert "as the owner of the run" in output.out + output.err


@pytest.mark.long_but_first
@pytest.mark.root
@pytest.mark.parametrize("link", ["file", "folder"])
@pytest.mark.parametrize("verb", ["run", "plan"])
def test_root_follows_no_symlink_of_another_user(
    link: str, verb: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A file or folder of root's behind another user's symlink is refused, even with --overwrite."""
    precious, sticky = tmp_path / "precious", tmp_path / "sticky"
    precious.mkdir()
    (precious / "t.img").write_bytes(b"precious" * 131072)
    sticky.mkdir()
    sticky.chmod(0o1777)
    (sticky / "t").symlink_to(precious / "t.img" if link == "file" else precious)
    os.lchown(sticky / "t", NOBODY, NOBODY)
    target = sticky / "t" if link == "file" else sticky / "t" / "new.img"

    plan = ["--plan"] if verb == "plan" else ["--run-dir", str(tmp_path / "run")]
    code = main(["wsat", str(target), "--size", "32M", "--overwrite", *plan, *SHORT])

    assert code == 10
    assert f"{sticky / 't'} is a symlink that belongs to nobody" in capfd.readouterr().err
    assert [path.name for path in precious.iterdir()] == ["t.img"]
    assert (precious / "t.img").read_bytes() == b"precious" * 131072


@pytest.mark.root
def test_an_operator_without_root_is_refused_with_a_reason(theirs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Another user's file is refused before a byte is written."""
    target = theirs / "roots.img"
    target.write_bytes(b"precious" * 1024 * 1024)
    target.chmod(0o644)

    code = as_nobody(lambda: main(["wsat", str(target), "--overwrite", "--run-dir", str(theirs / "run"), *SHORT]))

    assert code in (7, 8, 10)
    assert "Permission denied" in capfd.readouterr().err
    assert target.read_bytes() == b"precious" * 1024 * 1024
    assert not (theirs / "run" / "journal.jsonl").exists()


@pytest.mark.root
@pytest.mark.parametrize("place", ["cwd", "root"])
@pytest.mark.parametrize("verb", ["run", "plan", "import"])
def test_a_path_through_the_process_of_another_user_is_refused(
    verb: str, place: str, theirs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The kernel reads such a symlink of /proc only for the owner of the process: a refusal, not a host failure."""
    link = Path(f"/proc/{os.getpid()}/{place}")
    path = f"{link}/{theirs.relative_to('/')}/new.img"
    lines = {
        "run": ["wsat", path, "--run-dir", str(theirs / "run"), *SIZE, *SHORT],
        "plan": ["wsat", path, "--plan", *SIZE, *SHORT],
        "import": ["import", path],
    }

    code = as_nobody(lambda: main(lines[verb]))

    assert code == (14 if verb == "import" else 10)
    assert "Permission denied" in capfd.readouterr().err
    assert [item.name for item in theirs.iterdir()] == ["data"]


@pytest.mark.root
def test_a_run_folder_through_the_process_of_another_user_is_refused(
    theirs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The folder is first compared with the target's path."""
    folder = f"/proc/{os.getpid()}/cwd/run"
    line = ["wsat", str(theirs / "new.img"), *SIZE, *SHORT, "--run-dir", folder]

    assert as_nobody(lambda: main([*line, "--plan"])) == 5
    assert as_nobody(lambda: main(line)) == 5
    assert "Permission denied" in capfd.readouterr().err
    assert not (theirs / "new.img").exists()
