"""The path of a target as fio parses it."""

from __future__ import annotations

import re

from ...errors import TargetUnfit

#: fio reads lines of up to 4095 bytes, and takes the rest of a longer line for another option.
_MAX_BYTES = 4000
_MISREAD = re.compile(r"[\x00-\x1f\x7f$\\\"'#;]|^\s|\s$")


def require_fio_name(path: str) -> str:
    """Return ``path`` if fio reads it as written; raises TargetUnfit if fio would take it for something else."""
    if _MISREAD.search(path) or any("\ud800" <= letter <= "\udfff" for letter in path):
        raise TargetUnfit(
            path=repr(path),
            reason="its path contains characters that fio misinterprets",
            hint="Use a valid UTF-8 path without quotes, backslash, $, #, ; or control characters, and without a space "
            "at its beginning or end.",
        )
    if not path.startswith("/") or len(_escaped(path).encode()) > _MAX_BYTES:
        raise TargetUnfit(path=path, reason="its path is too long for fio", hint="Use a shorter path.")
    return path


def fio_name(path: str) -> str:
    """Return a path with the escapes that fio expects; raises TargetUnfit."""
    return _escaped(require_fio_name(path))


def set_names(path: str, count: int) -> tuple[str, ...]:
    """Return the names of a set of ``count`` files beside a target, or the target's own name if that is 1.

    The files have no names in the file system; these are for the evidence.  Raises TargetUnfit.
    """
    name = fio_name(path)
    return (name,) if count == 1 else tuple(f"{name}.{number}" for number in range(1, count + 1))


def _escaped(path: str) -> str:
    return path.replace(":", r"\:")
