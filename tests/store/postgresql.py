"""A private PostgreSQL server for the tests: as an unprivileged user, on a socket in a temporary folder."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

_SETTINGS = ("listen_addresses=", "fsync=off", "shared_buffers=16MB", "max_connections=40")
_STOP_SECONDS = 60


def programs() -> Path:
    """Return the folder of the server's programs; skips the test if there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found:
        pytest.skip("PostgreSQL is not installed (apt install postgresql)")
    return found[-1].parent


@dataclass(frozen=True, slots=True)
class Server:
    """A server with its data in ``folder``; its superuser is ``test``."""

    folder: Path
    programs: Path
    user: str | None
    settings: tuple[str, ...]

    @property
    def url(self) -> str:
        """The URL of its first database."""
        return f"postgresql://test@/postgres?host={self.folder}"

    def call(self, program: str, *words: str) -> None:
        """Run one of the server's programs as the server's user."""
        with (self.folder / "log").open("a") as log:
            command = [str(self.programs / program), *words]
            subprocess.run(command, check=True, user=self.user, cwd="/", stdout=log, stderr=log)

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        options = " ".join(f"-c {setting}" for setting in self.settings)
        self.call("pg_ctl", "--pgdata", f"{self.folder}/data", "--wait", "--options", options, "start")

    def stop(self, mode: str) -> None:
        """Stop the server: ``fast`` ends its connections, ``immediate`` is a crash with a message."""
        self.call("pg_ctl", "--pgdata", f"{self.folder}/data", "--mode", mode, "stop")

    def kill(self) -> None:
        """Kill the server and all its processes (SIGKILL), and wait until they are gone."""
        postmaster = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        processes = []
        for number in (postmaster, *map(int, children)):
            with suppress(ProcessLookupError):
                processes.append(os.pidfd_open(number))
        for process in processes:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, signal.SIGKILL)
            os.close(process)
        deadline = time.monotonic() + _STOP_SECONDS
        while any(_is_alive(number) for number in (postmaster, *map(int, children))):
            if time.monotonic() > deadline:
                raise TimeoutError("the processes of the server do not end")
            time.sleep(0.02)


@contextmanager
def running_server(*settings: str, certificate: tuple[Path, Path] | None = None) -> Iterator[Server]:
    """Start a server with further ``settings``, and stop it; ``certificate``: the files of its certificate and key."""
    binaries, user = programs(), "nobody" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # the path of a socket must be short
    server = Server(folder, binaries, user, (*_SETTINGS, f"unix_socket_directories={folder}", *settings))
    try:
        if user:
            shutil.chown(folder, user)
        words = ("--auth", "trust", "--username", "test", "--no-sync", "--encoding", "UTF8")
        server.call("initdb", "--pgdata", f"{folder}/data", *words)
        for source, name in zip(certificate or (), ("server.crt", "server.key"), strict=False):
            target = Path(shutil.copy(source, folder / "data" / name))
            target.chmod(0o600)
            if user:
                shutil.chown(target, user)
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")
    finally:
        shutil.rmtree(folder)


@contextmanager
def server() -> Iterator[str]:
    """Start a server; yield the URL of an empty database, and stop the server."""
    with running_server() as started:
        yield started.url


def _is_alive(number: int) -> bool:
    """Whether a process lives; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
