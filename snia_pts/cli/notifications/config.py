"""The mail configuration, from options or a file; it is checked before the run starts."""

from __future__ import annotations

import argparse
import os
import re
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge, Le, MaxLen, MinLen

from ...errors import UsageError
from ...files import read_private, read_regular, require_author_may_read
from ...spec.toml_file import read_file, spec_error
from ...units import MIB

_WHAT = "The file of --mail"
_REMEDY = "Correct the file; docs/mail.rst shows one."
_MAX_PASSWORD_BYTES = 1024
_MAX_CERTIFICATES_BYTES = 4 * MIB
_HOST = re.compile(r"(?P<host>[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:(?P<port>[0-9]{1,5}))?")
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")

Text = Annotated[str, MinLen(1), MaxLen(1000)]
Tls = Literal["none", "starttls", "implicit"]
_PORTS: dict[Tls, int] = {"none": 25, "starttls": 587, "implicit": 465}


@dataclass(frozen=True, slots=True, kw_only=True)
class MailConfig:
    """Sender, recipients and server.  A password is sent only after the certificate of the server was verified."""

    server: str
    port: int
    sender: str
    recipients: tuple[str, ...]
    tls: Tls = "none"
    authorities: ssl.SSLContext | None = field(default=None, repr=False)
    user: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MailFile:
    """The content of a mail configuration, as it is written there."""

    __pydantic_config__ = {"extra": "forbid"}
    format: Literal[1]
    server: Text
    port: Annotated[int, Ge(1), Le(65535)] | None = None
    tls: Tls = "starttls"
    ca_file: Text | None = None
    user: Text | None = None
    password_variable: Text | None = None
    password_file: Text | None = None
    sender: Text | None = None
    recipients: tuple[Text, ...] = ()


def load_mail_config(arguments: argparse.Namespace) -> MailConfig | None:
    """Return the mail configuration, None if no mail is requested; raises UsageError or SpecError."""
    recipients: list[str] = arguments.mail_to or []
    if invalid := [address for address in recipients if not _ADDRESS.fullmatch(address)]:
        raise UsageError(
            detail=f"--mail-to {invalid[0]!r}: not an e-mail address.", hint="For example --mail-to lab@example.org."
        )
    if arguments.mail is not None and arguments.mail_server is not None:
        raise UsageError(detail="--mail-server: not allowed with --mail.", hint="The file of --mail names a server.")
    if arguments.mail is not None:
        return _from_file(arguments.mail, tuple(recipients))
    if arguments.mail_server is None and not recipients:
        return None
    if arguments.mail_server is None:
        hint = "Give it with --mail-server HOST, or all settings with --mail FILE."
        raise UsageError(detail="--mail-to: no mail server is given.", hint=hint)
    if not recipients:
        raise UsageError(detail="--mail-server: no recipient is given.", hint="Give --mail-to ADDRESS.")
    server = _HOST.fullmatch(arguments.mail_server)
    port = int(server["port"] or _PORTS["none"]) if server else 0
    if not server or not 0 < port < 1 << 16:
        detail = f"--mail-server {arguments.mail_server!r}: not a server name or address."
        raise UsageError(detail=detail, hint="Give HOST or HOST:PORT; a server with a password needs --mail FILE.")
    name = server["host"].strip("[]")
    return MailConfig(server=name, port=port, sender=_default_sender(), recipients=tuple(recipients))


def _from_file(path: Path, recipients: tuple[str, ...]) -> MailConfig:
    owners: list[int] = []
    file = read_file(path, MailFile, _WHAT, remedy=_REMEDY, on_open=owners.append)
    mistakes: list[str] = list(_mistakes(file, recipients))
    password, context = "", None
    try:
        password = _password(path, file, owners[0])
        context = None if file.tls == "none" else _context(path, file, owners[0])
    except ValueError as mistake:
        mistakes.append(str(mistake))
    if mistakes:
        raise spec_error(str(path), mistakes, _WHAT, remedy=_REMEDY)
    return MailConfig(
        server=file.server.strip("[]"),
        port=file.port or _PORTS[file.tls],
        tls=file.tls,
        authorities=context,
        user=file.user or "",
        password=password,
        sender=file.sender or _default_sender(),
        recipients=recipients or file.recipients,
    )


def _mistakes(file: MailFile, recipients: tuple[str, ...]) -> Iterator[str]:
    server = _HOST.fullmatch(file.server)
    if not server or server["port"]:
        yield f"server: {file.server!r}: expected a server name or address; the key port gives its port"
    for key, address in (("sender", file.sender), *(("recipients", address) for address in file.recipients)):
        if address is not None and not _ADDRESS.fullmatch(address):
            yield f"{key}: {address!r}: expected an address like lab@example.org"
    if not file.recipients and not recipients:
        yield "recipients: expected an address, here or with --mail-to"
    if file.user and file.tls == "none":
        yield "tls: 'none': expected 'starttls' or 'implicit' with a user: a password is never sent without encryption"
    passwords = [source for source in (file.password_variable, file.password_file) if source]
    if len(passwords) != (1 if file.user else 0):
        yield "user: expected one of password_variable and password_file with a user, and neither without"


def _password(path: Path, file: MailFile, author: int) -> str:
    """Return the password, "" without a user; raises ValueError if it cannot be read, or if others may read it.

    ``author`` is the owner of the configuration that was read; its ``path`` may lead to another file by now.  That user
    must not be able to make another user send a secret.
    """
    if file.password_variable:
        if author not in (0, os.geteuid()):
            raise ValueError(f"password_variable: {path} belongs to another user; expected password_file")
        name, lines = f"password_variable: {file.password_variable!r}", [os.environ.get(file.password_variable, "")]
    elif file.password_file:
        name = f"password_file: {file.password_file!r}"
        password_path = path.parent / file.password_file
        try:
            content = read_private(password_path, _MAX_PASSWORD_BYTES, author)
        except OSError as error:
            raise ValueError(f"password_file: {password_path}: {error.strerror or error}") from None
        lines = content.decode("utf-8", "replace").splitlines()
    else:
        return ""
    if len(lines) != 1 or not lines[0] or not (lines[0].isascii() and lines[0].isprintable()):
        raise ValueError(f"{name}: expected one line of ASCII letters")
    return lines[0]


def _context(path: Path, file: MailFile, author: int) -> ssl.SSLContext:
    """Return the TLS context for the server; raises ValueError if the certificates cannot be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # create_default_context() would also write SSLKEYLOGFILE
    try:
        if file.ca_file:
            certificates = read_regular(
                path.parent / file.ca_file, _MAX_CERTIFICATES_BYTES, partial(require_author_may_read, path, author)
            )
            context.load_verify_locations(cadata=certificates.decode("ascii", "ignore"))
        else:
            context.load_default_certs()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"ca_file: {file.ca_file!r}: not readable as certificates: {reason}") from None
    return context


def _default_sender() -> str:
    """Return the sender of a mail for which none is configured."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname()) or "localhost"
    return f"snia-pts@{host}"
