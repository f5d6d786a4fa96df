"""The verbs of ``access``: the users and tokens of ``snia-pts serve``."""

from __future__ import annotations

import argparse
import getpass
import sys
from pathlib import Path

from ..cli.text.formatting import json_text, table
from ..cli.text.lines import print_lines, say
from ..errors import UsageError
from ..files import read_regular
from .tokens import MAX_DAYS
from .users import UserFile, default_path

_MAX_BYTES = 4096


def list_access(arguments: argparse.Namespace) -> int:
    """Print the users and tokens, without their secrets."""
    file = _file(arguments)
    accounts = file.read()
    if arguments.json:
        users = [{"name": user.name, "role": user.role} for user in accounts.users]
        tokens = [
            {
                "name": token.name,
                "role": token.role,
                "prefix": token.prefix,
                "created": token.created.isoformat(),
                "expires": token.expires.isoformat(),
            }
            for token in accounts.tokens
        ]
        print(json_text({"format": 1, "users": users, "tokens": tokens}))
        return 0
    if not accounts.users and not accounts.tokens:
        say(f"{file.path} has no users and no tokens; snia-pts access user add NAME adds a user")
        return 0
    rows = [(user.name, "user", user.role, "", "") for user in accounts.users]
    for token in accounts.tokens:
        expired = " (over)" if token.is_expired else ""
        rows.append((token.name, "token", token.role, f"{token.expires:%Y-%m-%d}{expired}", token.prefix))
    print_lines(table(("name", "kind", "role", "valid until", "begins with"), rows))
    return 0


def add_user(arguments: argparse.Namespace) -> int:
    """Add a user, whose password is typed or read from a file."""
    file = _file(arguments)
    file.require_free(arguments.name)
    file.add_user(arguments.name, arguments.role, _password(arguments.password_file))
    say(f"{arguments.name} may log in as {arguments.role}")
    return 0


def change_user(arguments: argparse.Namespace) -> int:
    """Give a user another role, another password, or both."""
    wants_password = arguments.password or arguments.password_file is not None
    if arguments.role is None and not wants_password:
        detail = "access user change: expected --role, --password or --password-file."
        raise UsageError(detail=detail, hint="For example --role operator.")
    password = _password(arguments.password_file) if wants_password else None
    _file(arguments).change_user(arguments.name, role=arguments.role, password=password)
    say(f"{arguments.name} is changed" + (", and logged out everywhere" if wants_password else ""))
    return 0


def remove_user(arguments: argparse.Namespace) -> int:
    """Remove a user."""
    _file(arguments).remove_user(arguments.name)
    say(f"{arguments.name} is removed, and logged out everywhere")
    return 0


def add_token(arguments: argparse.Namespace) -> int:
    """Add a token, and print it: the only time that it is shown."""
    if not 1 <= arguments.days <= MAX_DAYS:
        raise UsageError(detail=f"--days {arguments.days}: expected 1 to {MAX_DAYS}.", hint="For example --days 90.")
    text, token = _file(arguments).add_token(arguments.name, arguments.role, arguments.days)
    say(f"{token.name} may use the API as {token.role} until {token.expires:%Y-%m-%d}; it is not shown again:")
    print(text)
    return 0


def remove_token(arguments: argparse.Namespace) -> int:
    """Remove a token."""
    _file(arguments).remove_token(arguments.name)
    say(f"{arguments.name} is removed")
    return 0


def _file(arguments: argparse.Namespace) -> UserFile:
    return UserFile(arguments.users or default_path())


def _password(path: Path | None) -> str:
    """Return the first line of a file, or the password that the operator types twice."""
    if path is not None:
        try:
            return read_regular(path, _MAX_BYTES).decode("utf-8").partition("\n")[0].removesuffix("\r")
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UsageError(
                detail=f"--password-file {path}: {reason}.", hint="Its first line is the password."
            ) from None
    if not sys.stdin.isatty():
        raise UsageError(
            detail="The password cannot be typed: standard input is not a terminal.",
            hint="Write it into a file that only you can read, and give --password-file.",
        )
    try:
        password = getpass.getpass("Password: ")
        if getpass.getpass("Again: ") != password:
            raise UsageError(detail="The two passwords are different.", hint="Type it again.")
    except EOFError:
        raise UsageError(detail="No password was typed.", hint="Type it again.") from None
    return password
