"""Connections to the database of a lab: verified by TLS, and with short timeouts for a server that is gone."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo

from ..errors import UsageError

#: A connection whose server, or client, is gone fails within 15 seconds.  The server would keep such a connection for
#: hours, so that a network that fails often would use up all its connections.
_GONE_AFTER = {
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
_TIMEOUTS = {"connect_timeout": 5, "keepalives": 1, **_GONE_AFTER}
_SERVER_TIMEOUTS = " ".join(f"-c tcp_{name.removeprefix('tcp_')}={value}" for name, value in _GONE_AFTER.items())
_VERIFIED = "verify-full"


def connection_parameters(url: str) -> dict[str, Any]:
    """Return the parameters of libpq for ``postgresql://USER@HOST/NAME``.

    Raises UsageError for an invalid URL, and for a server on the network whose certificate would not be verified.
    """
    hint = "Give postgresql://USER@HOST/NAME, with the parameters of libpq after a question mark."
    if not url.startswith(("postgresql://", "postgres://")):
        raise UsageError(detail="--database: this is not the URL of a PostgreSQL database.", hint=hint)
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error as error:
        detail = f"--database: invalid URL ({' '.join(str(error).split()).rstrip('.')})."
        raise UsageError(detail=detail, hint=hint) from None
    if "service" in given:
        raise UsageError(detail="--database: a service is not supported.", hint="Name the host in the URL.")
    _require_verified(given)
    options = f"{_SERVER_TIMEOUTS} {given.get('options') or _defaults().get('options', '')}".rstrip()
    return {**_TIMEOUTS, **given, "options": options}


def name_of(parameters: Mapping[str, Any]) -> str:
    """Return a name of a database for messages, without a password."""
    host = parameters.get("host") or parameters.get("hostaddr") or "localhost"
    user = f"{parameters['user']}@" if parameters.get("user") else ""
    return f"{user}{host}/{parameters.get('dbname') or ''}"


def _require_verified(given: Mapping[str, Any]) -> None:
    """Raise UsageError if a server on the network could be another one than its name says, or be read by others."""
    values = _defaults() | {name: str(value) for name, value in given.items()}
    hosts = (values.get("hostaddr") or values.get("host") or "").split(",")
    remote = [host for host in hosts if not _is_local(host)]
    mode = values.get("sslmode", "prefer")
    if remote and mode != _VERIFIED:
        detail = f"--database: {', '.join(remote)} is not this host, and sslmode={mode} does not verify the server."
        hint = f"Add ?sslmode={_VERIFIED}&sslrootcert=FILE to the URL; FILE has the certificate of the authority."
        raise UsageError(detail=detail, hint=hint)


def _defaults() -> dict[str, str]:
    """Return the parameters that libpq uses without a URL, also from the environment."""
    return {
        option.keyword.decode(): option.val.decode() for option in Conninfo.get_defaults() if option.val is not None
    }


def _is_local(host: str) -> bool:
    """Whether a host of libpq is a socket or the loopback interface."""
    if host in ("", "localhost") or host.startswith(("/", "@")):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
