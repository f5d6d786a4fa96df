"""The roles of users and tokens."""

from __future__ import annotations

from typing import Literal

#: What a user may do: a viewer reads, an operator also starts, stops and holds, an admin also manages access.
Role = Literal["viewer", "operator", "admin"]
#: All roles; each may do everything that those before it may.
ROLES: tuple[Role, ...] = ("viewer", "operator", "admin")


def is_enough(role: Role, least: Role) -> bool:
    """Return whether a role may do what needs at least the role ``least``."""
    return ROLES.index(role) >= ROLES.index(least)
