"""The pages of the documentation, as text for a terminal; lists that are made from the code are filled in."""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path
from pkgutil import resolve_name

from ..errors import UsageError
from ..files import data_folder
from ..text import suggestion
from . import generate

PAGES = data_folder("docs")


def page_paths() -> dict[str, Path]:
    """Return the file of each page by the name of the page, in alphabetical order."""
    return {path.stem: path for path in sorted(PAGES.glob("*.rst")) if path.stem != "index"}


def title(path: Path) -> str:
    """Return the title of a page, its first line."""
    return path.read_text(encoding="utf-8").partition("\n")[0]


def page(name: str) -> str:
    """Return the text of a page; ``name`` may be ``purge`` or, as in hints, ``docs/purge.rst``.

    Raises UsageError if there is no such page.
    """
    paths = page_paths()
    stem = name.removeprefix("docs/").removesuffix(".rst")
    if stem not in paths:
        hints = (suggestion(stem, paths), "snia-pts docs lists all pages.")
        raise UsageError(detail=f"{name!r} is not a page of the documentation.", hint=" ".join(filter(None, hints)))
    text = re.sub(r"^\.\. generate:: (\w+)$", _generated, paths[stem].read_text(encoding="utf-8"), flags=re.MULTILINE)
    return without_roles(text)


def without_roles(text: str) -> str:
    """Replace ``:class:`` roles, which only Sphinx understands, with the class name."""
    return re.sub(r":class:`~(?:\w+\.)*(\w+)`", r"\1", text)


def _generated(directive: re.Match[str]) -> str:
    """Return the text that a ``generate`` directive stands for, with the objects that Sphinx would document."""
    prefix = "snia_pts:"

    def documented(line: re.Match[str]) -> str:
        nonlocal prefix
        kind, name = line.groups()
        if kind == "currentmodule":
            prefix = f"snia_pts:{name.removeprefix('snia_pts').removeprefix('.')}"
            return ""
        value = resolve_name(f"{prefix}.{name}".replace(":.", ":"))
        return f"{name}{_signature(value)}\n{textwrap.indent(inspect.getdoc(value) or '', '    ')}\n"

    text: str = getattr(generate, directive[1])()
    text = re.sub(r"^ +:members:\n", "", text, flags=re.MULTILINE)
    return re.sub(r"^\.\. (currentmodule|autofunction|autoclass):: (\S+)$", documented, text, flags=re.MULTILINE)


def _signature(value: object) -> str:
    return str(inspect.signature(value)) if inspect.isfunction(value) else ""
