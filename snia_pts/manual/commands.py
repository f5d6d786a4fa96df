"""The verbs ``docs``, ``spec`` and ``sim``: list and print the files that are part of the suite."""

from __future__ import annotations

import argparse
import pydoc
import sys
from collections.abc import Iterable

from ..cli.parser import TESTS
from ..errors import UsageError
from ..lab.simulated.preset import PRESETS, preset_names, read_preset
from ..spec.reader import SPECS, title_of, versions
from ..text import suggestion
from ..units import capacity
from .pages import page, page_paths, title


def docs(arguments: argparse.Namespace) -> int:
    """Show a page of the documentation, on a terminal with a pager; without a page, list all."""
    if arguments.man:
        from .man_page import man_page  # loads docutils

        print(man_page(), end="")
    elif arguments.page is None:
        _print_table((name, title(path)) for name, path in page_paths().items())
        print("\nsnia-pts docs PAGE shows a page.")
    elif sys.stdout.isatty():
        pydoc.pager(page(arguments.page))
    else:
        sys.stdout.write(page(arguments.page))
    return 0


def list_specs(_: argparse.Namespace) -> int:
    """List the specification of each test with its versions of the standard."""
    _print_table((test, f"{', '.join(versions(test)):<10} {title_of(test)}") for test in TESTS)
    print("\nsnia-pts spec show TEST prints a specification; run a copy of it with --spec FILE.")
    return 0


def show_spec(arguments: argparse.Namespace) -> int:
    """Print the file of a specification."""
    _require("test of the standard", arguments.test, TESTS, "snia-pts spec list")
    _require("version of this test", arguments.pts, versions(arguments.test), "snia-pts spec list")
    sys.stdout.write((SPECS / f"{arguments.test}-{arguments.pts}.toml").read_text(encoding="utf-8"))
    return 0


def list_presets(_: argparse.Namespace) -> int:
    """List the presets of simulated drives."""
    drives = ((name, read_preset(name).drive) for name in preset_names())
    _print_table((name, f"{drive.model}, {capacity(drive.capacity_bytes)}") for name, drive in drives)
    print("\nsnia-pts sim show PRESET prints a preset. Use sim:PRESET as a target, or sim:PATH for your own copy.")
    return 0


def show_preset(arguments: argparse.Namespace) -> int:
    """Print the file of a preset."""
    name = arguments.name.removeprefix("sim:")
    _require("preset of a simulated drive", name, preset_names(), "snia-pts sim list")
    sys.stdout.write((PRESETS / f"{name}.toml").read_text(encoding="utf-8"))
    return 0


def _print_table(rows: Iterable[tuple[str, str]]) -> None:
    table = list(rows)
    width = max(len(name) for name, _ in table)
    for name, text in table:
        print(f"{name:<{width}}  {text}")


def _require(kind: str, name: str, names: Iterable[str], listing: str) -> None:
    """Raise UsageError if ``name`` is not in ``names``."""
    known = list(names)
    if name not in known:
        hints = (suggestion(name, known), f"{listing} lists them.")
        raise UsageError(detail=f"{name!r} is not a {kind}.", hint=" ".join(filter(None, hints)))
