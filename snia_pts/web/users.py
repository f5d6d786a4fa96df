"""The file with the users and tokens of ``snia-pts serve``; only its owner can read and change it."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import MaxLen
from pydantic import TypeAdapter

from ..errors import HostFailed, SpecError, UsageError
from ..files import open_regular, open_to_append, replace_file
from ..spec.toml_file import spec_error, validate
from ..trusted_paths import private_path, tampering_risk
from .passwords import PasswordHash, hash_password, is_password, require_good_password
from .roles import Role
from .tokens import Token, UserName, find_token, make_token

_WHAT = "The file of users"
_REMEDY = "Correct the file, or remove it and add the users again."
_MAX_BYTES = 4 * 2**20
_MAX_ENTRIES = 1000
_PRIVATE = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A person who may log in."""

    __pydantic_config__ = {"extra": "forbid"}
    name: UserName
    role: Role
    password: PasswordHash


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """The content of the file."""

    __pydantic_config__ = {"extra": "forbid"}
    format: Literal[1] = 1
    users: Annotated[tuple[User, ...], MaxLen(_MAX_ENTRIES)] = ()
    tokens: Annotated[tuple[Token, ...], MaxLen(_MAX_ENTRIES)] = ()

    def user(self, name: str) -> User | None:
        """Return the user with a name; None if there is none."""
        return next((user for user in self.users if user.name == name), None)

    def login(self, name: str, password: str) -> User | None:
        """Return the user with this name and password, or None; it takes as long if there is no such user."""
        user = self.user(name)
        return user if is_password(password, user.password if user else None) else None

    def token(self, text: str) -> Token | None:
        """Return the valid token with this text; None if there is none."""
        return find_token(text, self.tokens)


def default_path() -> Path:
    """Return the path of the file unless --users gives another one: that of this user of the host."""
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder, "snia-pts", "users.json")


class UserFile:
    """The file at ``path``; nobody has access while there is none."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._version: tuple[int, ...] | None = None
        self._accounts = Accounts()

    def read(self) -> Accounts:
        """Return the present content, which is read again only if the file has changed.

        Raises SpecError for a file with mistakes, or that other users can read or change.
        """
        try:
            status = self.path.stat()
        except FileNotFoundError:
            self._version, self._accounts = None, Accounts()
            return self._accounts
        except OSError as error:
            raise self._error(f"not readable: {error.strerror}") from None
        version = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        if version != self._version:
            self._version = None
            self._accounts = self._read()
            self._version = version
        return self._accounts

    def require_free(self, name: str) -> None:
        """Raise UsageError if there is a user of this name, or it cannot be one."""
        _require_name(name)
        if self.read().user(name):
            hint = "Remove that user first, or choose another name."
            raise UsageError(detail=f"There is a user {name!r} already in {self.path}.", hint=hint)

    def add_user(self, name: str, role: Role, password: str) -> None:
        """Add a user; raises UsageError if the name is taken, invalid or the password is easily guessed."""
        require_good_password(password, name)
        with self._changing() as accounts:
            self.require_free(name)
            user = User(name=name, role=role, password=hash_password(password))
            self._write(replace(accounts, users=(*accounts.users, user)))

    def change_user(self, name: str, *, role: Role | None = None, password: str | None = None) -> None:
        """Give a user another role or password; a new password ends the sessions of the user.  Raises UsageError."""
        if password is not None:
            require_good_password(password, name)
        with self._changing() as accounts:
            user = self._user(accounts, name)
            changed = replace(
                user,
                role=role or user.role,
                password=user.password if password is None else hash_password(password),
            )
            users = tuple(changed if other is user else other for other in accounts.users)
            self._write(replace(accounts, users=users))

    def remove_user(self, name: str) -> None:
        """Remove a user, which ends the user's sessions; raises UsageError if there is none."""
        with self._changing() as accounts:
            user = self._user(accounts, name)
            self._write(replace(accounts, users=tuple(other for other in accounts.users if other is not user)))

    def add_token(self, name: str, role: Role, days: int) -> tuple[str, Token]:
        """Add a token; return its text, which is not stored, and the token.  Raises UsageError."""
        _require_name(name)
        with self._changing() as accounts:
            if any(token.name == name for token in accounts.tokens):
                hint = "Remove that token first, or choose another name."
                raise UsageError(detail=f"There is a token {name!r} already in {self.path}.", hint=hint)
            text, token = make_token(name, role, days)
            self._write(replace(accounts, tokens=(*accounts.tokens, token)))
        return text, token

    def remove_token(self, name: str) -> None:
        """Remove the token with a name or a prefix; raises UsageError if there is none."""
        with self._changing() as accounts:
            rest = tuple(token for token in accounts.tokens if name not in (token.name, token.prefix))
            if rest == accounts.tokens:
                raise UsageError(detail=f"There is no token {name!r} in {self.path}.", hint="List the tokens.")
            self._write(replace(accounts, tokens=rest))

    def _user(self, accounts: Accounts, name: str) -> User:
        user = accounts.user(name)
        if user is None:
            raise UsageError(detail=f"There is no user {name!r} in {self.path}.", hint="List the users.")
        return user

    def _read(self) -> Accounts:
        try:
            with open_regular(self.path, _MAX_BYTES) as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                content = file.read(_MAX_BYTES)
            risk = tampering_risk(self.path)
        except OSError as error:
            raise self._error(f"not readable: {error.strerror}") from None
        if mode & ~_PRIVATE:
            raise spec_error(
                str(self.path),
                [f"its mode is {mode:04o}: expected 0600, so that only its owner can read it"],
                _WHAT,
                remedy=f"Change it: chmod 600 {self.path}; and change the passwords in it if others could read them.",
            )
        if risk:
            raise self._error(f"it decides who has access, and {risk}")
        try:
            document = json.loads(content)
            if not isinstance(document, dict):
                raise ValueError("expected an object")
        except (ValueError, RecursionError) as error:
            raise self._error(f"not readable as JSON: {error}") from None
        accounts, mistakes = validate(Accounts, document)
        if accounts is None:
            raise spec_error(str(self.path), mistakes, _WHAT, remedy=_REMEDY)
        for kind, names in (
            ("user", [user.name for user in accounts.users]),
            ("token", [token.name for token in accounts.tokens]),
        ):
            if len(names) != len(set(names)):
                raise self._error(f"expected each {kind} once")
        return accounts

    def _error(self, mistake: str) -> SpecError:
        return spec_error(str(self.path), [mistake], _WHAT, remedy=_REMEDY)

    @contextmanager
    def _changing(self) -> Iterator[Accounts]:
        """Yield the present content; no other process changes the file meanwhile."""
        try:
            private_path(self.path.parent, make=True)
            with open_to_append(self.path.with_name(f".{self.path.name}.lock"), new=True) as lock:
                os.fchmod(lock.fileno(), _PRIVATE)
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield self.read()
        except OSError as error:
            raise HostFailed(
                step="change of the users", what=self.path, reason=error.strerror or str(error), hint=_FOLDER_HINT
            ) from None

    def _write(self, accounts: Accounts) -> None:
        replace_file(self.path, _adapter().dump_json(accounts, indent=1) + b"\n", mode=_PRIVATE)


_FOLDER_HINT = "Choose a file in a folder of yours with --users."


def _require_name(name: str) -> None:
    value, _ = validate(_Named, {"name": name})
    if value is None:
        detail = f"{name!r} is not a name: expected 1 to 40 of the letters a to z and A to Z, digits, and . _ @ -."
        raise UsageError(detail=detail, hint="It begins with a letter or a digit.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    name: UserName


@cache
def _adapter() -> TypeAdapter[Accounts]:
    return TypeAdapter(Accounts)
