"""Root is needed only where a program of the purge needs it: an operator without it tests what is theirs."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from snia_pts import aside
from snia_pts.cli.main import main

NOBODY = 65534
SHORT = [
    "--set", "settling.sample_seconds=1", "--set", "settling.stride_samples=1", "--set", "saturation.seconds=5",
    "--set", "histogram.seconds=1", "--progress", "none",
]  # fmt: skip

SIZE = ["--size", "16M"]
TO = ["--to", "rst"]


def as_nobody(work: Callable[[], int]) -> int:
    """Do ``work`` in a process that is nobody's; return what it returns."""
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


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw in this process: what a copy of it loads is not there afterwards, and lies where nobody may not go."""
    monkeypatch.setattr(aside, "_has_room", lambda: False)


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A folder of nobody's."""
    folder = Path(tempfile.mkdtemp(prefix="snia-pts-"))
    os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.root
def test_an_operator_without_root_runs_a_whole_test(theirs: Path, tmp_path: Path) -> None:
    """Run, report and assessment on a file of the operator's; by the umask nobody else may even read it."""
    assert main(["wsat", str(tmp_path / "x.img"), "--run-dir", str(tmp_path / "first"), *SHORT, *SIZE, *TO]) == 0
    run = theirs / "run"

    # By now all modules are there: those of the interpreter may lie where nobody may not go.
    assert as_nobody(lambda: main(["wsat", str(theirs / "x.img"), "--run-dir", str(run), *SHORT, *SIZE, *TO])) == 0
    assert as_nobody(lambda: main(["assess", str(run)])) == 0

    made = [run, *run.rglob("*")]
    assert len(made) > 20
    assert {path.stat().st_uid for path in made} == {NOBODY}
    assert not [path for path in made if path.stat().st_mode & (stat.S_IWGRP | stat.S_IRWXO)]


@pytest.mark.root
@pytest.mark.parametrize("verb", ["assess", "compare", "report", "resume", "status", "stop", "host"])
@pytest.mark.parametrize("locked", ["folder", "journal"])
def test_what_may_not_be_read_is_told(verb: str, locked: str, theirs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A run of somebody else's is no run that is not there, nor one that failed."""
    run = theirs / "run"
    run.mkdir()
    (run / "evidence").mkdir()
    (run / "journal.jsonl").write_text("somebody's\n")
    (run if locked == "folder" else run / "journal.jsonl").chmod(0)
    line = [verb, *(["--restore"] if verb == "host" else []), str(run), *([str(run)] if verb == "compare" else [])]
    assert main(line) in (0, 14, 17)  # all modules are there then
    capfd.readouterr()

    code = as_nobody(lambda: main(line))
    said = capfd.readouterr()
    if (verb, locked) == ("host", "journal"):
        assert code == 0
        return
    assert code == 14
    assert "Permission denied" in said.out + said.err
    assert "as the user whose run it is" in said.out + said.err


@pytest.mark.root
def test_an_operator_without_root_is_refused_with_a_reason(theirs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A file of somebody else's is refused before a byte is written."""
    target = theirs / "roots.img"
    target.write_bytes(b"precious" * 1024 * 1024)
    target.chmod(0o644)

    code = as_nobody(lambda: main(["wsat", str(target), "--overwrite", "--run-dir", str(theirs / "run"), *SHORT]))

    assert code in (7, 8, 10)
    assert "Permission denied" in capfd.readouterr().err
    assert target.read_bytes() == b"precious" * 1024 * 1024
    assert not (theirs / "run" / "journal.jsonl").exists()
