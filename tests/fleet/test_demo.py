"""``snia-pts lab demo`` shows a lab, and leaves nothing; ``lab up`` and ``lab down`` make and stop a server."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from snia_pts.cli.main import main
from snia_pts.errors import NotRunning, RunFolderError, ToolMissing, UsageError
from snia_pts.fleet import private_server
from snia_pts.fleet.private_server import PrivateServer
from tests.command_line import ENVIRONMENT, command
from tests.fleet.labs import PATIENCE_SECONDS
from tests.store import postgresql

_FOLDER = re.compile(r"A lab is made in (\S+)\.")


@pytest.fixture(name="server_folder")
def _server_folder() -> Iterator[Path]:
    """The path of a new folder, short enough for a socket, which is removed with its server."""
    postgresql.programs()
    parent = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    parent.chmod(0o711)
    yield parent / "lab"
    PrivateServer(parent / "lab").kill()
    shutil.rmtree(parent)


def processes_of(folder: str) -> list[str]:
    """Return the command lines of the processes whose arguments, or current folders, name a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            places = [*words, str((process / "cwd").readlink())]
        except OSError:  # it has ended
            continue
        if any(folder in place for place in places):
            found.append(" ".join(words))
    return found


def start_demo() -> subprocess.Popen[str]:
    """Start the demo."""
    postgresql.programs()
    return subprocess.Popen(
        command("lab", "demo"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT
    )


def left_by(output: str) -> list[str]:
    """Return the folder of the demo, if it is still there, and the processes that name it."""
    found = _FOLDER.search(output)
    assert found, output
    folder = found[1]
    return [*([folder] if Path(folder).exists() else []), *processes_of(folder)]


@pytest.mark.long
def test_the_demo_loses_nothing() -> None:
    """All 12 tests are started once although agent and database are killed, and their results are stored."""
    with start_demo() as demo:
        output, _ = demo.communicate(timeout=10 * PATIENCE_SECONDS)
    assert demo.returncode == 0, output
    assert len(re.findall(r"^ *DRIVE-\d +h[12] +latency +finished +1 +yes$", output, re.MULTILINE)) == 12, output
    assert "of h1 is killed (SIGKILL)" in output
    assert "The database is killed (SIGKILL)" in output
    assert "All 12 tests were started once; nothing is lost." in output
    assert max(map(len, output.splitlines())) <= 80, output
    assert left_by(output) == []


@pytest.mark.long
def test_an_interrupted_demo_leaves_nothing() -> None:
    """Ctrl-C while tests go on ends the server, the agents and the tests, and removes the folder."""
    output = ""
    with start_demo() as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            output += line
            if "is killed" in line:
                assert len(left_by(output)) > 3
                demo.send_signal(signal.SIGINT)
        assert demo.wait(PATIENCE_SECONDS) == 130, output
    assert "Traceback" not in output
    assert left_by(output) == []


@pytest.mark.long
def test_a_server_is_started_and_stopped(server_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``lab up`` prints the URL, also of a server that runs; ``lab down`` keeps the data, and fails if none runs."""
    export = f"export SNIA_PTS_LAB='postgresql://lab@/lab?host={server_folder}'\n"
    for _ in range(2):
        assert main(["lab", "up", str(server_folder)]) == 0
        assert capsys.readouterr().out == export
    url = ("--database", PrivateServer(server_folder).url())
    assert main(["lab", "host", "add", "h1", *url]) == 0
    assert main(["lab", "down", str(server_folder)]) == 0
    assert main(["lab", "down", str(server_folder)]) == NotRunning.exit_code
    assert server_folder.stat().st_mode & 0o777 == 0o700
    assert main(["lab", "up", str(server_folder)]) == 0
    capsys.readouterr()
    assert main(["lab", "hosts", "--json", *url]) == 0
    assert '"h1"' in capsys.readouterr().out


def test_without_a_server_the_message_says_how_to_install_it(
    tmp_path: Path, server_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the folders of packages nor the PATH have one."""
    monkeypatch.setattr(private_server, "_PROGRAM_FOLDERS", (f"{tmp_path}/*/bin",))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing):
        private_server.program_path("initdb")
    assert main(["lab", "up", str(server_folder)]) == ToolMissing.exit_code
    message = capsys.readouterr().err
    assert "A PostgreSQL server is needed and was not found." in message
    assert "apt install postgresql" in message
    assert not server_folder.exists()


def test_a_folder_with_files_is_not_taken(server_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its owner, its mode and its files stay as they are."""
    server_folder.mkdir(mode=0o755)
    (server_folder / "file").write_text("mine")
    before = server_folder.stat()
    assert main(["lab", "up", str(server_folder)]) == RunFolderError.exit_code
    assert "not empty" in capsys.readouterr().err
    after = server_folder.stat()
    assert (after.st_uid, after.st_mode) == (before.st_uid, before.st_mode)
    assert [path.name for path in server_folder.iterdir()] == ["file"]


@pytest.mark.parametrize("name", ["x" * 95, "a folder", "a,b"])
def test_a_folder_whose_path_no_socket_can_have_is_refused(
    name: str, server_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is too long, or would be several words or folders in the options of the server."""
    folder = server_folder.parent / name
    assert main(["lab", "up", str(folder)]) == UsageError.exit_code
    assert "cannot be the folder of a server" in capsys.readouterr().err
    assert not folder.exists()
