"""Reads the file of an array."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, get_args

from ..model.array import Controller, Layout, RaidLevel
from ..spec.toml_file import read_toml, spec_error, validate

_FILE_KIND = "The array"
_REMEDY = "Correct the file; docs/array.rst describes every key."
#: Valid members for each controller.
_MEMBERS = {
    controller: ["/dev/a", "/dev/b"] if controller == "mdadm" else ["0:0", "0:1"] for controller in get_args(Controller)
}


def read_layout(path: Path) -> Layout:
    """Return the array that a file describes; raises SpecError with all its mistakes."""
    table = read_toml(path, _FILE_KIND, remedy=_REMEDY)
    layout, mistakes = validate(Layout, table)
    if layout is None:
        raise spec_error(str(path), [*mistakes, *_hidden_mistakes(table, mistakes)], _FILE_KIND, remedy=_REMEDY)
    return layout


def _hidden_mistakes(table: Mapping[str, Any], mistakes: Sequence[str]) -> list[str]:
    """Return the mistakes that ``validate`` does not reach, because it compares keys only if each is valid by itself.

    An invalid or missing key gets a value that fits any other; without a valid controller or level, a mistake must be
    one for each controller or level.
    """
    invalid = {re.split(r"[:. ]", line, maxsplit=1)[0] for line in mistakes}
    sound = {key: value for key, value in table.items() if key not in invalid}
    controllers = [sound["controller"]] if "controller" in sound else get_args(Controller)
    levels = [sound["level"]] if "level" in sound else get_args(RaidLevel)
    first, *others = (
        validate(
            Layout, {"format": 1, "members": _MEMBERS[controller], **sound, "controller": controller, "level": level}
        )[1]
        for controller, level in product(controllers, levels)
    )
    found = [line for line in first if all(line in lines for lines in others)]
    return [line for line in found if line not in mistakes and line.startswith(tuple(f"{key}:" for key in sound))]
