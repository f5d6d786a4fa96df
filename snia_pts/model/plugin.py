"""A plugin that took part in a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A plugin that the operator named for a run, with the SHA-256 of its code.

    ``name`` is what the operator named, ``path`` the file.  ``parts`` are what it adds, such as ``purge method zeros``.
    """

    name: str
    path: str
    sha256: str
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(self.parts)})"
