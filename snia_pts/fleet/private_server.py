"""A PostgreSQL server for the lab of one machine, in a folder; only the user who runs it and root can connect."""

from __future__ import annotations

import os
import pwd
import re
import select
import shlex
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg

from ..errors import HostFailed, NotRunning, ToolMissing, UsageError
from ..lab.process.program import Program, find
from ..record.folder import require_empty
from ..trusted_paths import private_path, require_private
from .connection import connection_parameters

#: The superuser of the server, and the name of the database of the lab.
_ROLE = DATABASE = "lab"
#: The folders of a server's programs on Debian and Ubuntu, and in the PostgreSQL project's packages for other systems.
_PROGRAM_FOLDERS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")
_INSTALL = "Install it (Debian, Ubuntu: apt install postgresql; Fedora: dnf install postgresql-server)."
#: The package of the server makes this user.  The server refuses to run as root, so root starts it as this user.
_SERVER_USER = "postgres"
#: The path of the socket, which ends in /.s.PGSQL.5432, may have 107 bytes, and it is one word of the server's options.
_FOLDER = re.compile(r"/[\w./+-]{1,90}", re.ASCII)
_PROGRAM_SECONDS = 120.0
_POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class PrivateServer:
    """A server whose data and socket are in ``folder``, an absolute path; ``settings`` are added to the usual ones."""

    folder: Path
    settings: tuple[str, ...] = ()

    @classmethod
    def at(cls, folder: Path) -> PrivateServer:
        """Return the server in a folder, which may not exist yet.  Raises UsageError."""
        path = folder.absolute()
        if not _FOLDER.fullmatch(str(path)):
            hint = "Give one of at most 90 letters, digits and ./_+-, because the path of its socket is limited."
            raise UsageError(detail=f"{path} cannot be the folder of a server.", hint=hint)
        return cls(path)

    def url(self, database: str = DATABASE, role: str = _ROLE) -> str:
        """Return the URL of a database of the server."""
        return f"postgresql://{role}@/{database}?host={self.folder}"

    @property
    def exists(self) -> bool:
        """Whether the folder has the data of a server."""
        return (self._data / "PG_VERSION").exists()

    @property
    def is_running(self) -> bool:
        """Whether the server runs."""
        with self._process() as process:
            return process is not None

    def create(self) -> None:
        """Create the folder and the data of the server.  Raises HostFailed, RunFolderError and ToolMissing."""
        program_path("initdb")
        require_empty(self.folder)
        try:
            require_private(self.folder, parent=True)
            private_path(self.folder, make=True)
            self.folder.chmod(0o700)
            if os.geteuid() == 0:
                os.chown(self.folder, *_server_user())
        except OSError as error:
            raise HostFailed(step="creation of the database", what=self.folder, reason=str(error)) from None
        words = ("--auth-local=trust", "--auth-host=reject", f"--username={_ROLE}", "--encoding=UTF8", "--locale=C")
        self._call("initdb", *words, f"--pgdata={self._data}")

    def start(self) -> None:
        """Start the server, and wait until it accepts connections.  Raises HostFailed and ToolMissing."""
        settings = ("listen_addresses=", f"unix_socket_directories={self.folder}", *self.settings)
        options = " ".join(f"-c {shlex.quote(setting)}" for setting in settings)
        self._call("pg_ctl", f"--pgdata={self._data}", "--wait", f"--log={self._log}", f"--options={options}", "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop the server: ``fast`` ends its connections, ``immediate`` does not shut it down cleanly."""
        if not self.is_running:
            raise NotRunning(path=str(self.folder), reason="its server does not run", hint="snia-pts lab up starts it.")
        self._call("pg_ctl", f"--pgdata={self._data}", "--mode", mode, "stop")

    def kill(self) -> None:
        """Kill the server and its processes (SIGKILL), and wait at most two minutes for the end of each."""
        with self._process() as process:
            if process is None:
                return
            number, handle = process
            signal.pidfd_send_signal(handle, signal.SIGSTOP)  # so that it starts no process that would be left
            while not _is_stopped(number):
                time.sleep(_POLL_SECONDS)
            children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            _wait(handle)
        for child in map(int, children):
            with suppress(ProcessLookupError):
                descriptor = os.pidfd_open(child)
                try:
                    if Path(f"/proc/{child}/cwd").samefile(self._data):
                        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                        _wait(descriptor)
                except FileNotFoundError:  # it has ended
                    continue
                finally:
                    os.close(descriptor)

    def create_database(self, name: str = DATABASE) -> None:
        """Create an empty database, unless there is one of this name."""
        with psycopg.connect(**connection_parameters(self.url("postgres")), autocommit=True) as connection:
            if not connection.execute("SELECT FROM pg_database WHERE datname = %s", (name,)).rowcount:
                connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name)))

    def remove(self) -> None:
        """Remove the folder of a server that does not run."""
        shutil.rmtree(self.folder)

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @contextmanager
    def _process(self) -> Iterator[tuple[int, int] | None]:
        """Yield the number and a pidfd of the server's first process; None if it does not run.

        The number is read from a file that remains after a crash, so the process counts only if its current
        folder is that of the data.
        """
        handle = None
        with suppress(FileNotFoundError, ProcessLookupError, ValueError, IndexError):
            number = int((self._data / "postmaster.pid").read_text().split()[0])
            handle = os.pidfd_open(number)
        try:
            is_ours = False
            with suppress(OSError):
                is_ours = handle is not None and Path(f"/proc/{number}/cwd").samefile(self._data)
            yield (number, handle) if is_ours and handle is not None else None
        finally:
            if handle is not None:
                os.close(handle)

    def _call(self, name: str, *words: str) -> None:
        """Run one of the server's programs, as the server's user.  Raises HostFailed and ToolMissing."""
        argv: Sequence[str] = ("env", "--chdir=/", str(program_path(name)), *words)
        if os.geteuid() == 0:
            user, group = _server_user()
            argv = ("setpriv", f"--reuid={user}", f"--regid={group}", "--init-groups", "--", *argv)
        with Program(argv, evidence=None) as called:
            called.wait_for_io_end(_PROGRAM_SECONDS)
        finished = called.finished
        if finished.exit_code or finished.timed_out:
            reason = "it takes too long" if finished.timed_out else finished.error_summary
            raise HostFailed(step=name, what=self.folder, reason=reason.rstrip("."), hint=self._hint)

    @property
    def _hint(self) -> str:
        return f"{self._log} has the messages of the server." if self._log.exists() else "Correct this, and try again."


def program_path(name: str) -> Path:
    """Return the path of a program of the newest server that is installed; raises ToolMissing."""
    found = [path for folder in _PROGRAM_FOLDERS for path in Path("/").glob(f"{folder.removeprefix('/')}/{name}")]
    if found:
        return max(found, key=lambda path: [int(number) for number in re.findall(r"\d+", str(path.parent))])
    try:
        return Path(find(name))
    except ToolMissing:
        raise ToolMissing(program="A PostgreSQL server", package="postgresql", hint=_INSTALL) from None


def _server_user() -> tuple[int, int]:
    """Return the user and group as which root runs a server; raises ToolMissing if the package did not make them."""
    try:
        entry = pwd.getpwnam(_SERVER_USER)
    except KeyError:
        raise ToolMissing(program=f"The user {_SERVER_USER}", package="postgresql", hint=_INSTALL) from None
    return entry.pw_uid, entry.pw_gid


def _is_stopped(number: int) -> bool:
    """Return whether a process is stopped, or has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{number}/stat").read_text().rpartition(") ")[2][:1] in "TZX"
    return True


def _wait(process: int) -> None:
    """Wait for the end of a process (pidfd)."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.poll(1000 * _PROGRAM_SECONDS)
