"""Every error is a class with its own message, hint and exit code."""

from __future__ import annotations

import ast
import copy
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from string import Formatter

import pytest

from snia_pts import errors
from snia_pts.errors import SniaPtsError, TargetMissing, ToolMissing

PACKAGE = Path(errors.__file__).parent
CLASSES: dict[str, type[SniaPtsError]] = {
    name: value
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, SniaPtsError) and value is not SniaPtsError
}
WITH_BASE: list[type[SniaPtsError]] = [SniaPtsError, *CLASSES.values()]
each_class = pytest.mark.parametrize("error_class", CLASSES.values(), ids=CLASSES)


def field_names(error_class: type[SniaPtsError]) -> set[str]:
    """Return the names of the fields of a class, without its hint."""
    return {field.name for field in fields(error_class)} - {"hint"}


def placeholders(template: str) -> set[str]:
    """Return the names of the fields that a template uses."""
    return {name for _, name, _, _ in Formatter().parse(template) if name}


def example(error_class: type[SniaPtsError]) -> SniaPtsError:
    """Return an error whose fields contain braces."""
    return error_class(**{name: f"<{name} {{}}>" for name in field_names(error_class)})


def raised() -> Iterator[tuple[str, type[SniaPtsError], set[str]]]:
    """Yield each place that creates an error: where it is, the class, and the names of the arguments."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and name in CLASSES:
                yield f"{path.name}:{node.lineno}", CLASSES[name], {keyword.arg or "**" for keyword in node.keywords}


def test_exit_codes_are_unique() -> None:
    """No two classes state the same exit code, and none has 0."""
    codes = [error_class.exit_code for error_class in WITH_BASE if "exit_code" in vars(error_class)]

    assert len(set(codes)) == len(codes)
    assert 0 not in codes


def test_docstring_lists_all_classes() -> None:
    """The tree in the module's docstring lists each class with its exit code."""
    listed = re.findall(r"^[ |-]*(\w+) +(\d+)", errors.__doc__ or "", re.MULTILINE)

    assert listed == [(error_class.__name__, str(error_class.exit_code)) for error_class in WITH_BASE]


@each_class
def test_messages_and_hints_use_the_fields(error_class: type[SniaPtsError]) -> None:
    """A class has a message and a hint; both contain the values of the fields, and every field is used."""
    error = example(error_class)

    assert error_class.hint
    assert placeholders(error_class.message) | placeholders(error_class.hint) == field_names(error_class)
    assert all(f"<{name} {{}}>" in str(error) for name in placeholders(error_class.message))
    assert all(f"<{name} {{}}>" in error.hint for name in placeholders(error_class.hint))


@each_class
def test_a_given_hint_is_not_a_template(error_class: type[SniaPtsError]) -> None:
    """A hint that is passed replaces the class's hint as it is."""
    assert error_class(hint="Do {this}.", **dict.fromkeys(field_names(error_class), "x")).hint == "Do {this}."


@each_class
def test_no_class_is_an_oserror(error_class: type[SniaPtsError]) -> None:
    """``except OSError`` catches only errors of the operating system."""
    assert not issubclass(error_class, OSError)


@each_class
@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))],  # noqa: S301
    ids=["copy", "deep", "pickle"],
)
def test_errors_can_be_copied(
    error_class: type[SniaPtsError], duplicate: Callable[[SniaPtsError], SniaPtsError]
) -> None:
    """A copy, also one through pickle, has the class, fields, hint and notes of the original."""
    error = example(error_class)
    error.add_note("More about it.")
    other = duplicate(error)

    assert type(other) is error_class
    assert (vars(other), str(other), other.full_hint) == (vars(error), str(error), error.full_hint)


def test_notes_follow_the_hint() -> None:
    """``full_hint`` is the hint and all notes, on one line."""
    error = TargetMissing(path="/dev/x", hint="Look again.")
    error.add_note("It was there before.")
    bare = TargetMissing(path="/dev/x", hint="")
    bare.add_note("It was there before.")

    assert error.full_hint == "Look again. It was there before."
    assert bare.full_hint == "It was there before."
    assert TargetMissing(path="/dev/x", hint="").full_hint == ""


def test_paths_in_hints_are_quoted_for_the_shell() -> None:
    """A path in a hint can be pasted into a shell; the message has it as it is."""
    error = errors.NotRunning(path=Path("/runs/a b"), reason="it is finished")

    assert "'/runs/a b'" in error.hint
    assert "/runs/a b is" in str(error)


def test_messages_do_not_need_docstrings() -> None:
    """Messages and hints are the same under ``python -OO``, which removes docstrings."""
    program = "from snia_pts.errors import ToolMissing as T; e = T(program='dd', package='coreutils'); print(e, e.hint)"
    output = subprocess.run([sys.executable, "-OO", "-c", program], capture_output=True, text=True, check=True).stdout
    error = ToolMissing(program="dd", package="coreutils")

    assert output == f"{error} {error.hint}\n"


def test_every_hint_that_is_not_passed_has_its_fields() -> None:
    """Wherever a class's own hint is used, the fields with a default that the hint contains are passed."""
    places = list(raised())

    assert places
    assert [
        place
        for place, error_class, arguments in places
        if "hint" not in arguments and not placeholders(error_class.hint) <= arguments
    ] == []
