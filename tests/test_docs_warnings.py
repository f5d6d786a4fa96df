"""The page on warnings has an entry for each warning that the suite can give, and for no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import snia_pts

PACKAGE = Path(snia_pts.__file__).parent
PAGE = PACKAGE.parent / "docs" / "warnings.rst"
#: Modules whose generators yield warnings as pairs of a name and a sentence.
PAIRS = (
    "analysis/disturbances.py",
    "fio_results/jobs.py",
    "fio_results/reader.py",
    "model/description.py",
    "model/health.py",
    "results/warnings.py",
)
#: The names of values that are part of a warning's name.
PLACEHOLDERS = {"part": "PART", "setting.name": "SETTING", "label": "NAME"}


def names(node: ast.expr, constants: dict[str, str]) -> Iterator[str]:
    """Yield the names that an expression gives a warning; none if they come from a pair of another function."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(next(names(part, constants)) for part in parts)
        case ast.FormattedValue(value=value):
            yield constants.get(ast.unparse(value)) or PLACEHOLDERS[ast.unparse(value)]
        case ast.IfExp(body=body, orelse=otherwise):
            yield from (*names(body, constants), *names(otherwise, constants))
        case ast.Name(id=name) if name in constants:
            yield constants[name]
        case ast.Name(id="program"):
            yield "fio VERSION, Python VERSION"


def given(path: Path) -> Iterator[str]:
    """Yield the names of the warnings that a module gives."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    yields_pairs = str(path.relative_to(PACKAGE)) in PAIRS
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="RunWarning"), keywords=keywords):
                yield from names(next(one.value for one in keywords if one.arg == "what"), constants)
            case ast.Yield(value=ast.Tuple(elts=[what, _])) if yields_pairs:
                yield from names(what, constants)
            case ast.Call(func=ast.Name(id="_kernel_events"), args=[_, what, *_]) if yields_pairs:
                yield from names(what, constants)
            case ast.Tuple(elts=[what, ast.Name(id="detail") | ast.JoinedStr()]) if yields_pairs:
                yield from names(what, constants)
            case ast.Tuple(elts=[ast.Constant(value=str(what)), ast.Constant(value=str(detail))]) if yields_pairs:
                if " " in detail:
                    yield what
            case ast.Tuple(elts=[ast.Tuple(), ast.Constant(value=str(what))]) if yields_pairs:
                yield what


@pytest.mark.long
def test_each_warning_has_an_entry() -> None:
    """Each warning has one entry, and each entry is of a warning."""
    # Model, serial number and firmware have one entry.
    stated = {"NAME as stated by the operator", "capacity as stated by the operator"}
    entries = re.findall(r"^(\w.*)\n(?=    \w)", PAGE.read_text(), re.MULTILINE)
    found = {name for path in PACKAGE.rglob("*.py") for name in given(path)}

    assert sorted(entries) == sorted(found | stated)
