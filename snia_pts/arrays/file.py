"""Reads the file of an array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from ..model.array import Layout, RaidLevel
from ..spec.toml_file import read_toml, spec_error, validate

_FILE_KIND = "The array"
_REMEDY = "Correct the file; docs/array.rst describes every key."


def read_layout(path: Path) -> Layout:
    """Return the array that a file describes; raises SpecError with all its mistakes."""
    table = read_toml(path, _FILE_KIND, remedy=_REMEDY)
    layout, mistakes = validate(Layout, table)
    if layout is None:
        raise spec_error(str(path), [*mistakes, *_hidden_mistakes(table, mistakes)], _FILE_KIND, remedy=_REMEDY)
    return layout


def _hidden_mistakes(table: Mapping[str, Any], mistakes: Sequence[str]) -> list[str]:
    """Return the mistakes that ``validate`` does not reach, because it compares keys only if each is valid by itself.

    An invalid or missing key gets a value that fits any other; without a valid level, a mistake must be one for each
    level.  Without a controller, nothing can be compared.
    """
    sound = {
        key: value
        for key, value in table.items()
        if not any(line.startswith((f"{key}:", f"{key} ")) for line in mistakes)
    }
    if "controller" not in sound:
        return []
    members = ["/dev/a", "/dev/b"] if sound["controller"] == "mdadm" else ["0:0", "0:1"]
    assumed = {"format": 1, "members": members, **sound}
    levels = [sound["level"]] if "level" in sound else get_args(RaidLevel)
    first, *others = (validate(Layout, {**assumed, "level": level})[1] for level in levels)
    found = [line for line in first if all(line in lines for lines in others)]
    return [line for line in found if line not in mistakes and line.startswith(tuple(f"{key}:" for key in sound))]
