"""The addresses at which the pages may be reached, and the TLS of the server."""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ..errors import HostFailed, UsageError

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)(?::([0-9]{1,5}))?")
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "[::1]"))
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The files of a certificate, with those of its issuers, and of its private key, in PEM."""

    path: Path
    key: Path

    def require_usable(self) -> None:
        """Raise HostFailed if TLS cannot use the files, or other users can read the key."""
        for path in (self.path, self.key):
            try:
                mode = path.stat().st_mode
                path.read_bytes()
            except OSError as error:
                raise self._error(path, error.strerror or str(error)) from None
        if stat.S_IMODE(mode) & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP):
            raise self._error(self.key, "other users can read or change it", f"Change it: chmod 600 {self.key}")
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.path, self.key, password=_no_password)
        except (ssl.SSLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or str(error)
            hint = "Give the certificate and its private key, without a password, in PEM."
            raise self._error(self.path, str(reason).replace("_", " ").lower(), hint) from None

    def _error(self, path: Path, reason: str, hint: str = "Check the path.") -> HostFailed:
        return HostFailed(step="start of TLS", what=path, reason=reason, hint=hint)


def _no_password() -> str:
    raise ValueError("the key has a password")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where the pages are: ``names`` are the names of the host, ``urls`` the origins of a proxy or other addresses."""

    names: frozenset[str]
    urls: frozenset[str] = frozenset()
    tls: bool = False

    def origin(self, host: str) -> str | None:
        """Return the origin of the pages at an address, the value of a Host header; None if it is not this site's."""
        host = host.lower()
        for url in self.urls:
            if url.partition("://")[2] == host:
                return url
        match = _HOST.fullmatch(host)
        if match is None or match[1] not in self.names:
            return None
        scheme = "https" if self.tls else "http"
        name, port = match[1], match[2]
        return f"{scheme}://{name}" if port in (None, str(_DEFAULT_PORTS[scheme])) else f"{scheme}://{name}:{port}"


def make_site(address: str, *, urls: Sequence[str] = (), certificate: Certificate | None = None) -> Site:
    """Return the site of a server that listens on an address; raises UsageError.

    The names are those of this host only, so that a page elsewhere whose name leads here (DNS rebinding) is refused.
    """
    if _ip(address) is None and address.lower() != "localhost":
        raise UsageError(detail=f"--listen {address}: expected an IP address.", hint="For example --listen 127.0.0.1.")
    if not is_loopback(address) and certificate is None:
        detail = f"--listen {address}: others in the network could read passwords and sessions."
        hint = "Give --certificate and --key as well, or listen on 127.0.0.1 and connect through ssh -L or a TLS proxy."
        raise UsageError(detail=detail, hint=hint)
    names = set(_LOOPBACK)
    if not is_loopback(address):
        names.add(socket.gethostname().lower())
    if (ip := _ip(address)) and not ip.is_unspecified:
        names.add(f"[{ip}]" if ip.version == 6 else str(ip))
    return Site(names=frozenset(names), urls=frozenset(map(_origin, urls)), tls=certificate is not None)


def is_loopback(address: str) -> bool:
    """Return whether only programs of this host can reach an address."""
    ip = _ip(address)
    return ip.is_loopback if ip else address.lower() == "localhost"


def _origin(url: str) -> str:
    """Return the origin of a URL as a browser writes it; raises UsageError."""
    try:
        parts = urlsplit(url.lower())
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in _DEFAULT_PORTS or not _HOST.fullmatch(parts.netloc) or parts.path not in ("", "/"):
        detail = f"--url {url}: expected http or https and a host, without a path."
        raise UsageError(detail=detail, hint="For example --url https://lab.example.")
    name = parts.netloc.removesuffix(f":{port}") if port == _DEFAULT_PORTS[parts.scheme] else parts.netloc
    return f"{parts.scheme}://{name}"


def _ip(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(address)
    except ValueError:
        return None
