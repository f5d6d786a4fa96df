"""Hashes passwords with scrypt, and compares them in constant time."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import unicodedata
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le
from pydantic import StringConstraints

from ..errors import UsageError

#: The lengths of a password in characters (OWASP ASVS 2.1.1 and 2.1.2).
MIN_LENGTH, MAX_LENGTH = 12, 128
_Cost = Literal[16384, 32768, 65536, 131072, 262144]
#: The parameters of new hashes, one of the equivalent sets of OWASP's Password Storage Cheat Sheet: 32 MiB of memory.
_N: _Cost = 32768
_R, _P = 8, 3
_BYTES = 32
_MAX_MEMORY = 512 * 2**20
_MIN_DIFFERENT = 5
_REMEDY = "Several words that have nothing to do with each other make a good one."

_Hex = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordHash:
    """A hash of a password, with its parameters of scrypt; ``salt`` and ``key`` are hexadecimal."""

    __pydantic_config__ = {"extra": "forbid"}
    n: _Cost
    r: Annotated[int, Ge(8), Le(8)]
    p: Annotated[int, Ge(1), Le(16)]
    salt: _Hex
    key: _Hex


def require_good_password(password: str, name: str) -> None:
    """Raise UsageError for a password that is too short, too long or easily guessed by the ``name`` of its user."""
    text = _normal(password)
    if not MIN_LENGTH <= len(text) <= MAX_LENGTH:
        detail = f"A password has {MIN_LENGTH} to {MAX_LENGTH} characters; this one has {len(text)}."
        raise UsageError(detail=detail, hint=_REMEDY)
    rest = text.casefold().replace(_normal(name).casefold(), "")
    if len(set(rest)) < _MIN_DIFFERENT:
        raise UsageError(detail="The password is easily guessed: most of it is the name, or the same.", hint=_REMEDY)


def hash_password(password: str) -> PasswordHash:
    """Return a new hash of a password."""
    salt = secrets.token_bytes(_BYTES)
    key = _key(password, salt, n=_N, r=_R, p=_P)
    return PasswordHash(n=_N, r=_R, p=_P, salt=salt.hex(), key=key.hex())


def is_password(password: str, stored: PasswordHash | None) -> bool:
    """Return whether a password is that of the hash; without a hash it takes as long, and returns False."""
    if stored is None:
        _key(password, bytes(_BYTES), n=_N, r=_R, p=_P)
        return False
    key = _key(password, bytes.fromhex(stored.salt), n=stored.n, r=stored.r, p=stored.p)
    return hmac.compare_digest(key, bytes.fromhex(stored.key))


def _key(password: str, salt: bytes, *, n: int, r: int, p: int) -> bytes:
    text = _normal(password).encode("utf-8", "surrogatepass")
    return hashlib.scrypt(text, salt=salt, n=n, r=r, p=p, maxmem=_MAX_MEMORY, dklen=_BYTES)


def _normal(text: str) -> str:
    """Return the text in one form of Unicode, because keyboards and systems differ in theirs."""
    return unicodedata.normalize("NFKC", text)
