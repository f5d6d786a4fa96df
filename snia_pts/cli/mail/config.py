"""Where the mail of a run goes: from options or a file, checked before the run begins."""

from __future__ import annotations

import argparse
import os
import re
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Ge, Le, MaxLen, MinLen

from ...errors import UsageError
from ...files import open_regular
from ...spec.toml_file import mistaken, read_file

if TYPE_CHECKING:
    import ssl

_WHAT = "The file of --mail"
_REMEDY = "Correct the file; docs/usage.rst shows one."
_LONGEST_PASSWORD_BYTES = 1024
_HOST = re.compile(r"(?P<host>[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:(?P<port>[0-9]{1,5}))?")
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")

Text = Annotated[str, MinLen(1), MaxLen(1000)]
Tls = Literal["none", "starttls", "implicit"]
_PORTS: dict[Tls, int] = {"none": 25, "starttls": 587, "implicit": 465}


@dataclass(frozen=True, slots=True, kw_only=True)
class MailConfig:
    """Who sends to whom, by which server; a password only goes where the server proved who it is."""

    server: str
    port: int
    sender: str
    recipients: tuple[str, ...]
    tls: Tls = "none"
    authorities: ssl.SSLContext | None = field(default=None, repr=False)
    user: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
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
    """Return where the mail of a run goes, None where nobody wants one; raises UsageError or SpecError."""
    told: list[str] = arguments.mail_to or []
    if wrong := [each for each in told if not _ADDRESS.fullmatch(each)]:
        raise UsageError(detail=f"--mail-to {wrong[0]!r}: no address.", hint="For example --mail-to lab@example.org.")
    if arguments.mail is not None and arguments.mail_server is not None:
        raise UsageError(detail="--mail-server goes without --mail.", hint="The file of --mail names a server.")
    if arguments.mail is not None:
        return _from_file(arguments.mail, tuple(told))
    if arguments.mail_server is None and not told:
        return None
    if arguments.mail_server is None:
        hint = "Give it with --mail-server HOST, or all settings with --mail FILE."
        raise UsageError(detail="--mail-to: nothing tells which server takes the mail.", hint=hint)
    if not told:
        raise UsageError(detail="--mail-server: nothing tells who gets the mail.", hint="Give --mail-to ADDRESS.")
    found = _HOST.fullmatch(arguments.mail_server)
    port = int(found["port"] or _PORTS["none"]) if found else 0
    if not found or not 0 < port < 1 << 16:
        detail = f"--mail-server {arguments.mail_server!r}: no server."
        raise UsageError(detail=detail, hint="Give HOST or HOST:PORT; what needs a password goes with --mail FILE.")
    return MailConfig(server=found["host"].strip("[]"), port=port, sender=_own_address(), recipients=tuple(told))


def _from_file(path: Path, recipients: tuple[str, ...]) -> MailConfig:
    told = read_file(path, _File, _WHAT, remedy=_REMEDY)
    mistakes: list[str] = list(_mistakes(told, recipients))
    password, context = "", None
    try:
        password = _password(path, told)
        context = None if told.tls == "none" else _context(path, told)
    except ValueError as mistake:
        mistakes.append(str(mistake))
    if mistakes:
        raise mistaken(str(path), mistakes, _WHAT, remedy=_REMEDY)
    return MailConfig(
        server=told.server.strip("[]"),
        port=told.port or _PORTS[told.tls],
        tls=told.tls,
        authorities=context,
        user=told.user or "",
        password=password,
        sender=told.sender or _own_address(),
        recipients=recipients or told.recipients,
    )


def _mistakes(told: _File, recipients: tuple[str, ...]) -> Iterator[str]:
    found = _HOST.fullmatch(told.server)
    if not found or found["port"]:
        yield f"server: {told.server!r}: expected the name or address of a server, its port as port"
    for name, each in (("sender", told.sender), *(("recipients", each) for each in told.recipients)):
        if each is not None and not _ADDRESS.fullmatch(each):
            yield f"{name}: {each!r}: expected an address like lab@example.org"
    if not told.recipients and not recipients:
        yield "recipients: expected an address, here or with --mail-to"
    if told.user and told.tls == "none":
        yield "tls: 'none': expected 'starttls' or 'implicit' with a user: no password is sent in the clear"
    passwords = [each for each in (told.password_variable, told.password_file) if each]
    if len(passwords) != (1 if told.user else 0):
        yield "user: expected with it password_variable or password_file, and neither without a user"


def _password(path: Path, told: _File) -> str:
    """Return the password, "" where none is wanted; raises ValueError where it cannot be had, or others may read it."""
    if told.password_variable:
        name, lines = f"password_variable: {told.password_variable!r}", [os.environ.get(told.password_variable, "")]
    elif told.password_file:
        name, lines = f"password_file: {told.password_file!r}", _owners_lines(path.parent / told.password_file)
    else:
        return ""
    if len(lines) != 1 or not lines[0] or not (lines[0].isascii() and lines[0].isprintable()):
        raise ValueError(f"{name}: expected one line of ASCII letters")
    return lines[0]


def _owners_lines(path: Path) -> list[str]:
    """Return the lines of a file that its owner alone may read."""
    try:
        with open_regular(path, _LONGEST_PASSWORD_BYTES) as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise ValueError(f"password_file: {path}: expected that its owner alone may read it (chmod 600)")
            return file.read(_LONGEST_PASSWORD_BYTES).decode("utf-8", "replace").splitlines()
    except OSError as error:
        raise ValueError(f"password_file: {path}: {error.strerror or error}") from None


def _context(path: Path, told: _File) -> ssl.SSLContext:
    """Return how the server proves who it is; raises ValueError for authorities that cannot be read."""
    import ssl

    try:
        return ssl.create_default_context(cafile=str(path.parent / told.ca_file) if told.ca_file else None)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"ca_file: {told.ca_file!r}: not readable as certificates: {reason}") from None


def _own_address() -> str:
    """Return the address of a mail that nobody is named as the sender of."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname()) or "localhost"
    return f"snia-pts@{host}"
