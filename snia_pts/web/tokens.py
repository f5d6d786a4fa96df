"""Tokens, with which programs use the API; only their hashes are stored."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

from annotated_types import Timezone
from pydantic import StringConstraints

from .roles import Role

#: The longest time that a token may be valid.
MAX_DAYS = 366
_PREFIX_BYTES, _SECRET_BYTES = 5, 32
_FORM = re.compile(r"(spt_[0-9a-f]{10})_[A-Za-z0-9_-]{43}")
#: The name of a user or a token.
UserName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,39}$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token as it is stored: ``prefix`` is its visible beginning, ``sha256`` the hash of all of it."""

    __pydantic_config__ = {"extra": "forbid"}
    name: UserName
    role: Role
    prefix: Annotated[str, StringConstraints(pattern=r"^spt_[0-9a-f]{10}$")]
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    created: Annotated[datetime, Timezone(...)]
    expires: Annotated[datetime, Timezone(...)]

    @property
    def is_expired(self) -> bool:
        """Whether its time is over."""
        return datetime.now(UTC) >= self.expires


def make_token(name: str, role: Role, days: int) -> tuple[str, Token]:
    """Return the text of a new token, which is nowhere stored, and the token to store.

    Its secret part has 256 random bits, so that a fast hash is enough.
    """
    prefix = f"spt_{secrets.token_hex(_PREFIX_BYTES)}"
    text = f"{prefix}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    created = datetime.now(UTC).replace(microsecond=0)
    token = Token(
        name=name,
        role=role,
        prefix=prefix,
        sha256=_hash(text),
        created=created,
        expires=created + timedelta(days=days),
    )
    return text, token


def find_token(text: str, tokens: Sequence[Token]) -> Token | None:
    """Return the stored token of a text, unless it is expired; None if there is none."""
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    token = next((stored for stored in tokens if stored.prefix == match[1]), None)
    stored_hash = token.sha256 if token else _hash("")
    same = hmac.compare_digest(_hash(text), stored_hash)
    return token if token and same and not token.is_expired else None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()
