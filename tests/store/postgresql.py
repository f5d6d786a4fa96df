"""A private PostgreSQL server for the tests: as an unprivileged user, on a socket in a temporary folder."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from snia_pts.errors import ToolMissing
from snia_pts.fleet.private_server import PrivateServer, program_path

Server = PrivateServer
_SETTINGS = ("fsync=off", "shared_buffers=16MB", "max_connections=40")


def programs() -> Path:
    """Return the folder of the server's programs; skips the test if there is none."""
    try:
        return program_path("initdb").parent
    except ToolMissing:
        pytest.skip("PostgreSQL is not installed (apt install postgresql)")


@contextmanager
def running_server(
    *settings: str, certificate: tuple[Path, Path] | None = None, loopback: bool = False
) -> Iterator[Server]:
    """Start a server with further ``settings``, and stop it; ``certificate``: the files of its certificate and key.

    ``loopback``: it can be reached at its port on 127.0.0.1 without TLS, too.
    """
    programs()
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # the path of a socket must be short
    server = Server(folder, (*_SETTINGS, *(("listen_addresses=127.0.0.1",) if loopback else ()), *settings))
    try:
        server.create()
        for source, name in zip(certificate or (), ("server.crt", "server.key"), strict=False):
            target = Path(shutil.copy(source, folder / "data" / name))
            target.chmod(0o600)
            owner = folder.stat()
            os.chown(target, owner.st_uid, owner.st_gid)
        if certificate or loopback:
            access, kind = folder / "data" / "pg_hba.conf", "hostssl" if certificate else "host"
            access.write_text(f"{kind} all all 127.0.0.1/32 trust\n{access.read_text()}")
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
        yield started.url("postgres")
