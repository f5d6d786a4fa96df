"""A private PostgreSQL server for the tests: as an unprivileged user, on a socket in a temporary folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_SETTINGS = ("listen_addresses=", "fsync=off", "shared_buffers=16MB", "max_connections=40")


def programs() -> Path:
    """Return the folder of the server's programs; skips the test if there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found:
        pytest.skip("PostgreSQL is not installed (apt install postgresql)")
    return found[-1].parent


@contextmanager
def server() -> Iterator[str]:
    """Start a server; yield the URL of an empty database, and stop the server."""
    binaries, user = programs(), "nobody" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # the path of a socket must be short
    try:
        if user:
            shutil.chown(folder, user)

        def call(program: str, *words: str) -> None:
            with (folder / "log").open("a") as log:
                subprocess.run([binaries / program, *words], check=True, user=user, cwd="/", stdout=log, stderr=log)

        call(
            "initdb",
            "--pgdata",
            f"{folder}/data",
            "--auth",
            "trust",
            "--username",
            "test",
            "--no-sync",
            "--encoding",
            "UTF8",
        )
        options = " ".join(f"-c {setting}" for setting in (*_SETTINGS, f"unix_socket_directories={folder}"))
        call("pg_ctl", "--pgdata", f"{folder}/data", "--wait", "--options", options, "start")
        try:
            yield f"postgresql://test@/postgres?host={folder}"
        finally:
            call("pg_ctl", "--pgdata", f"{folder}/data", "--mode", "immediate", "stop")
    finally:
        shutil.rmtree(folder)
