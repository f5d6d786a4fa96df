"""Reports are made without the configuration files of other users in the current folder or HOME."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Event, Thread

import pytest

from snia_pts import temporary
from snia_pts.errors import ReportError
from snia_pts.report import write
from snia_pts.report.formats.isolation import isolated
from tests import samples
from tests.command_line import ENVIRONMENT
from tests.drives import content, filled, need_root

#: Writes a report as the program does, in a process that has imported none of the libraries yet.
_WRITE = """
import sys
from pathlib import Path
from threading import Event, Thread
from snia_pts.report import write
from tests import samples
write(samples.iops_result(rounds=5), Path(sys.argv[1]), ("pdf", "html"))
"""


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a file of another user."""
    return filled(tmp_path / "victim", 4096)


def plant(place: Path, name: str, text: str) -> None:
    """Write a configuration file as another user could leave it."""
    (place / name).parent.mkdir(parents=True, exist_ok=True)
    (place / name).write_text(text)


def written(folder: Path, current: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Write a report to ``folder`` in a new process with this current folder and HOME."""
    environment = {**ENVIRONMENT, "HOME": str(home), "RL_useA85": "no number", "EVAL_DEBUG": "no number"}
    for name in ("MPLCONFIGDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        environment.pop(name, None)
    return subprocess.run(
        [sys.executable, "-c", _WRITE, str(folder)],
        cwd=current,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


@pytest.mark.long
def test_no_configuration_of_others_is_read(tmp_path: Path, victim: Path) -> None:
    """Files of docutils, rst2pdf, reportlab and matplotlib, and variables of reportlab, have no effect."""
    before, current, home = content(victim), tmp_path / "current", tmp_path / "home"
    writing = f"[general]\nrecord_dependencies: {victim}\nwarning_stream: {tmp_path}/warnings\n"
    python = f"open({str(tmp_path / 'ran')!r}, 'w').close()\n"
    plant(current, "docutils.conf", writing)
    plant(current, "styles.yaml", "styles: {base: {fontName: Courier}}\n")
    os.mkfifo(current / "matplotlibrc")
    plant(home, ".docutils", writing)
    plant(home, ".rst2pdf/config", "[general]\nstylesheets: missing\n")
    plant(home, ".rst2pdf/cover.tmpl", "{{ 1 / 0 }}")
    for name in (".reportlab_mods", ".reportlab_settings"):
        plant(home, name, python)
    for name in (".config", ".cache"):
        (home / name).mkdir()
        (home / name / "matplotlib").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "empty").mkdir()

    for name, places in (("planted", (current, home)), ("clean", (tmp_path / "empty", tmp_path / "empty"))):
        output = written(tmp_path / name, *places)
        assert (output.stdout, output.stderr) == ("", "")

    assert content(victim) == before
    assert not [name for name in ("warnings", "ran", "elsewhere") if (tmp_path / name).exists()]
    for name in ("report.pdf", "report.html"):
        assert (tmp_path / "planted" / name).read_bytes() == (tmp_path / "clean" / name).read_bytes()


def test_the_process_is_restored_after_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder and the environment are restored after a failed report, and in a removed folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCUTILSCONFIG", "mine")
    monkeypatch.delenv("MATPLOTLIBRC", raising=False)
    before = dict(os.environ)

    def fail() -> None:
        with isolated():
            assert str(Path.cwd()) == os.environ["HOME"]
            raise ReportError(reason="for the test")

    with pytest.raises(ReportError, match="for the test"):
        fail()

    assert (Path.cwd(), dict(os.environ)) == (tmp_path, before)
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with isolated():
        pass
    assert Path().stat().st_nlink == 0


def test_folders_of_killed_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only empty, unlocked folders older than a minute are removed; folders with a similar name stay."""
    monkeypatch.setattr(temporary, "gettempdir", lambda: str(tmp_path))
    stale, full, young = (f"snia-pts-temporary-{letter * 8}" for letter in "abc")
    for name in (stale, full, young, "snia-pts-baseline", "others"):
        (tmp_path / name).mkdir()
    (tmp_path / full / "file").touch()
    with temporary.temporary_folder() as used:
        for path in (used, *tmp_path.iterdir()):
            if path.name != young:
                os.utime(path, (0, 0))
        with temporary.temporary_folder():
            left = {path.name for path in tmp_path.iterdir()}
            assert used.name in left
            assert stale not in left
    assert {path.name for path in tmp_path.iterdir()} == {full, young, "snia-pts-baseline", "others"}


def test_no_space_for_a_temporary_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a place for temporary files there is no report but an error message."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))

    with pytest.raises(ReportError, match="temporary folder"):
        write(samples.iops_result(rounds=5), tmp_path / "run", ("csv",))


@pytest.mark.root
def test_root_writes_to_no_folder_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root, MPLCONFIGDIR and TMPDIR of another user are not written to; root's own are."""
    need_root()
    own, others = tmp_path / "own", tmp_path / "others"
    own.mkdir()
    others.mkdir()
    os.chown(others, 65534, 65534)
    for place in (own, others):
        monkeypatch.setenv("MPLCONFIGDIR", str(place))
        monkeypatch.setattr("tempfile.tempdir", str(place))
        with isolated():
            assert (os.environ["MPLCONFIGDIR"] == str(place)) == (place == own)
            assert Path.cwd().is_relative_to(place) == (place == own)
    assert list(others.iterdir()) == []


def test_threads_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of two threads do not overlap, so that the process ends in the folder where it started."""
    monkeypatch.chdir(tmp_path)
    entered, may_leave = Event(), Event()

    def stay() -> None:
        with isolated():
            entered.set()
            may_leave.wait(10)

    first, second = Thread(target=stay), Thread(target=stay)
    first.start()
    entered.wait(10)
    entered.clear()
    second.start()
    assert not entered.wait(0.2)
    may_leave.set()
    first.join()
    second.join()

    assert Path.cwd() == tmp_path
