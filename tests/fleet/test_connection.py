"""Connections to a lab: a server on the network is verified, or refused."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from snia_pts.errors import UsageError
from snia_pts.fleet.connection import connection_parameters
from tests.store import postgresql

NAME = "db.lab.test"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://a@db.lab.test/lab",
        "postgresql://a@db.lab.test/lab?sslmode=require",
        "postgresql://a@db.lab.test/lab?sslmode=verify-ca",
        "postgresql://a@192.0.2.1/lab",
        "postgresql://a@localhost/lab?hostaddr=192.0.2.1",
        "postgresql://a@localhost,db.lab.test/lab",
        "postgresql:///lab?host=db.lab.test",
    ],
)
def test_a_server_on_the_network_must_be_verified(url: str) -> None:
    """Every other mode would accept another server, or none that has a certificate."""
    with pytest.raises(UsageError, match="does not verify the server") as refused:
        connection_parameters(url)
    assert "sslmode=verify-full" in refused.value.hint
    assert connection_parameters(f"{url.partition('?')[0]}?sslmode=verify-full")["sslmode"] == "verify-full"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://a@localhost/lab",
        "postgresql://a@127.0.0.5/lab",
        "postgresql://a@[::1]/lab",
        "postgresql:///lab",
        "postgresql://a@/lab?host=/run/postgresql",
    ],
)
def test_this_host_needs_no_certificate(url: str) -> None:
    """A socket and the loopback interface do not leave this host; the timeouts are set."""
    assert connection_parameters(url)["connect_timeout"] == 5


def test_the_server_ends_the_connection_of_a_lost_client_soon(
    tls_server: tuple[int, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it keeps it for hours, and has no connection left after some failures of the network."""
    port, authority = tls_server
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=77kB")
    url = f"postgresql://lab@{NAME}:{port}/postgres?hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert={authority}"
    names = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout", "work_mem")
    with psycopg.connect(**connection_parameters(url)) as connection:
        values = [connection.execute(f"SHOW {name}".encode()).fetchone() for name in names]
    assert values == [("5",), ("3",), ("3",), ("15000",), ("77kB",)]


def test_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host from PGHOST is checked as one in the URL; so is a mode from PGSSLMODE."""
    monkeypatch.setenv("PGHOST", "db.lab.test")
    with pytest.raises(UsageError, match=r"db\.lab\.test is not this host"):
        connection_parameters("postgresql:///lab")
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    connection_parameters("postgresql:///lab")


@pytest.mark.parametrize(
    "url", ["lab.db", "sqlite:///lab.db", "postgresql://a@h/b?nonsense=1", "postgresql:///?service=x"]
)
def test_another_url_is_refused(url: str) -> None:
    """The message says what is expected."""
    with pytest.raises(UsageError, match="--database"):
        connection_parameters(url)


@pytest.fixture(name="tls_server", scope="module")
def _tls_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """The port of a server on the loopback interface with a certificate for NAME, and the certificate."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "server.crt", folder / "server.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={NAME}"]
    command += ["-addext", f"subjectAltName=DNS:{NAME}", "-out", str(certificate), "-keyout", str(key)]
    subprocess.run(command, check=True, capture_output=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = ("listen_addresses=127.0.0.1", f"port={port}", "ssl=on")
    with postgresql.running_server(*settings, certificate=(certificate, key)):
        yield port, certificate


def connect(port: int, certificate: Path, name: str) -> bool:
    """Connect to the server as the host ``name``; return whether the connection is encrypted."""
    url = f"postgresql://lab@{name}:{port}/postgres?hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert={certificate}"
    with psycopg.connect(**connection_parameters(url)) as connection:
        return connection.pgconn.ssl_in_use


def test_a_server_with_another_name_is_refused(tls_server: tuple[int, Path]) -> None:
    """Its own name is accepted, with TLS; a wrong one is not."""
    assert connect(*tls_server, NAME)
    with pytest.raises(psycopg.OperationalError, match="does not match host name"):
        connect(*tls_server, "other.lab.test")


def test_a_server_with_another_authority_is_refused(tls_server: tuple[int, Path], tmp_path: Path) -> None:
    """A certificate that is not signed by the authority in sslrootcert is not accepted."""
    other = tmp_path / "other.crt"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={NAME}"]
    subprocess.run([*command, "-out", str(other), "-keyout", "/dev/null"], check=True, capture_output=True)
    with pytest.raises(psycopg.OperationalError, match="certificate verify failed"):
        connect(tls_server[0], other, NAME)
