"""Every failure is a class with its own sentence, remedy and exit code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

from snia_pts import errors
from snia_pts.errors import SniaPtsError

PACKAGE = Path(errors.__file__).parent


def family(kind: type[SniaPtsError] = SniaPtsError) -> list[type[SniaPtsError]]:
    """Return a class and all that derive from it."""
    return [
        kind,
        *(member for child in kind.__subclasses__() if child.__module__ == kind.__module__ for member in family(child)),
    ]


def blanks(text: str) -> set[str]:
    """Return the names that a sentence wants filled in."""
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def wanted(kind: type[SniaPtsError]) -> set[str]:
    """Return the facts that a class's sentence and remedy want."""
    return blanks(kind.__doc__ or "") | blanks(kind.hint)


def raised() -> Iterator[tuple[str, type[SniaPtsError], set[str], bool]]:
    """Find every place that makes an error: where, which class, with which facts, and whether with its own remedy."""
    kinds = {kind.__name__: kind for kind in family()}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and name in kinds:
                facts = {keyword.arg or "**" for keyword in node.keywords}
                yield f"{path.name}:{node.lineno}", kinds[name], facts - {"hint"}, "hint" in facts


def test_exit_codes_are_unique() -> None:
    """No two classes share an exit code, and none is 0."""
    codes = [kind.exit_code for kind in family()]

    assert len(set(codes)) == len(codes)
    assert 0 not in codes


def test_every_code_is_its_own() -> None:
    """Each class says its exit code itself, none inherits one."""
    assert [kind.__name__ for kind in family() if "exit_code" not in vars(kind)] == []


def test_tree_is_as_drawn() -> None:
    """The tree at the top of the module shows all classes, each with its code."""
    drawn = re.findall(r"^[ |-]*(\w+) +(\d+)", errors.__doc__ or "", re.MULTILINE)

    assert sorted(drawn) == sorted((kind.__name__, str(kind.exit_code)) for kind in family())


@pytest.mark.parametrize("kind", family(), ids=lambda kind: kind.__name__)
def test_every_class_speaks(kind: type[SniaPtsError]) -> None:
    """A class fills its sentence and its remedy with facts, braces in them included."""
    facts = {name: f"<{name} {{}}>" for name in wanted(kind)}
    error = kind(**facts)

    assert all(facts[name] in str(error) for name in blanks(kind.__doc__ or ""))
    assert all(facts[name] in error.hint for name in blanks(kind.hint))
    assert error.facts == facts
    assert str(error).strip()


@pytest.mark.parametrize("kind", family()[1:], ids=lambda kind: kind.__name__)
def test_every_class_has_a_remedy(kind: type[SniaPtsError]) -> None:
    """Whatever goes wrong, the operator reads what to do about it."""
    assert kind.hint
    assert kind(hint="Do {this}.", **dict.fromkeys(wanted(kind), "x")).hint == "Do {this}."


def test_errors_are_raised_with_their_facts() -> None:
    """Every place that raises gives the facts that sentence and remedy want, and none that nobody reads."""
    places = list(raised())
    wrong = [
        f"{place}: {kind.__name__} wants {', '.join(sorted(needed))}, got {', '.join(sorted(facts))}"
        for place, kind, facts, own_remedy in places
        for needed in [blanks(kind.__doc__ or "") | (set() if own_remedy else blanks(kind.hint))]
        if "**" not in facts and not needed <= facts <= wanted(kind)
    ]

    assert places
    assert wrong == []
