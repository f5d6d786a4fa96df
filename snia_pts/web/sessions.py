"""Sessions of people who logged in: in memory only, so that a restart ends them all."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .users import Accounts, User

#: How long a session lives without a request, and in all, in seconds (OWASP ASVS 3.3.2, level 2).
IDLE_SECONDS, LONGEST_SECONDS = 30 * 60.0, 12 * 3600.0
_MAX_OF_USER, _MAX = 20, 5000
_BYTES = 32


def boot_clock() -> float:
    """Return the seconds since the host started; unlike a monotonic clock, it goes on while the host sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(slots=True)
class Session:
    """A session of ``user``, as that user was at the login; ``csrf_token`` is in each form of its pages."""

    user: User
    csrf_token: str
    started: float
    used: float


@dataclass(slots=True)
class Sessions:
    """The present sessions, by the hash of their id: who reads the memory of the process learns no id."""

    clock: Callable[[], float] = boot_clock
    _by_hash: dict[bytes, Session] = field(default_factory=dict)

    def start(self, user: User) -> tuple[str, Session]:
        """Start a session with a new id of 256 bits; return the id, which is nowhere stored, and the session."""
        self._discard_ended()
        own = [key for key, session in self._by_hash.items() if session.user.name == user.name]
        for key in own[: max(0, len(own) + 1 - _MAX_OF_USER)]:
            del self._by_hash[key]
        while len(self._by_hash) >= _MAX:
            del self._by_hash[next(iter(self._by_hash))]  # the oldest one
        session_id, now = secrets.token_urlsafe(_BYTES), self.clock()
        session = Session(user, secrets.token_urlsafe(_BYTES), now, now)
        self._by_hash[_hash(session_id)] = session
        return session_id, session

    def find(self, session_id: str, accounts: Accounts, *, extend_session: bool = True) -> Session | None:
        """Return the session with an id; None if there is none, it expired, or its user was removed or changed.

        The session has the user's present role.  With ``extend_session`` its idle time starts again.
        """
        key = _hash(session_id)
        session = self._by_hash.get(key)
        if session is None:
            return None
        user = accounts.user(session.user.name)
        if user is None or user.password != session.user.password or self._is_expired(session):
            del self._by_hash[key]
            return None
        session.user = user
        if extend_session:
            session.used = self.clock()
        return session

    def end(self, session_id: str) -> None:
        """End a session, if there is one with this id."""
        self._by_hash.pop(_hash(session_id), None)

    def _is_expired(self, session: Session) -> bool:
        now = self.clock()
        return now - session.used >= IDLE_SECONDS or now - session.started >= LONGEST_SECONDS

    def _discard_ended(self) -> None:
        self._by_hash = {key: session for key, session in self._by_hash.items() if not self._is_expired(session)}


def _hash(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).digest()
