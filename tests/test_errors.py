"""Every error is a class with its own message, hint and exit code."""

from __future__ import annotations

import ast
import copy
import importlib
import pickle
import pkgutil
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from http import HTTPStatus
from pathlib import Path
from string import Formatter

import pytest

import snia_pts
from snia_pts import errors
from snia_pts.arrays.lab.answers import CommandRejected
from snia_pts.arrays.lab.programs import ArrayError
from snia_pts.errors import CopyableError, SniaPtsError, TargetMissing, UsageError
from snia_pts.fleet.queue import GivenBack
from snia_pts.lab.device.health import NoFigures
from snia_pts.lab.device.ocp_log import PageRejected
from snia_pts.lab.fio import AnswerRejected
from snia_pts.lab.purge.method import MethodFailed, MethodUnavailable
from snia_pts.lab.simulated.drive import SimulatedFault
from snia_pts.record.replay import _JournalEnds
from snia_pts.spec.toml_file import Mistakes
from snia_pts.tkperf.writer import _NotStorable
from snia_pts.web.problem import Refusal
from tests import messages

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


@pytest.mark.long
def test_messages_are_those_of_the_file() -> None:
    """``tests/messages.txt`` has every sentence; other tests assert classes and facts.  docs/ may quote a sentence."""
    assert messages.describe() == messages.PATH.read_text(encoding="utf-8"), "run: python -m tests.messages"


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


def defined() -> set[type[BaseException]]:
    """Return every exception class that the package defines."""
    for module in pkgutil.walk_packages(snia_pts.__path__, "snia_pts."):
        if not module.name.endswith((".__main__", ".migrations.env")):
            importlib.import_module(module.name)
    classes, unseen = set[type[BaseException]](), [BaseException]
    while unseen:
        subclasses = unseen.pop().__subclasses__()
        unseen += subclasses
        classes.update(error_class for error_class in subclasses if error_class.__module__.startswith("snia_pts."))
    return classes


def test_no_class_is_an_oserror() -> None:
    """``except OSError`` catches only errors of the operating system."""
    classes = defined()

    assert classes >= {*WITH_BASE}
    assert [error_class for error_class in classes if issubclass(error_class, OSError)] == []


#: An exception of each other class, with all its fields.
OTHERS: Sequence[Exception] = (
    CopyableError("a reason", 2),
    ArrayError("no answer"),
    CommandRejected("failed", "its own text"),
    NoFigures("its output is not JSON"),
    PageRejected("another GUID"),
    AnswerRejected("device", "an I/O failed", 5, repeatable=True),
    MethodUnavailable("frozen", "Suspend the host."),
    MethodFailed("timed out", remedy="Try again."),
    SimulatedFault(hangs=True),
    GivenBack(5),
    _JournalEnds(),
    Mistakes("a: a number", "b: a text"),
    _NotStorable("no such test"),
    Refusal(HTTPStatus.FORBIDDEN, "The role viewer may not do this.", "Ask an admin.", {"Allow": "GET"}),
)


@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))],  # noqa: S301
    ids=["copy", "deep", "pickle"],
)
@pytest.mark.parametrize("error", [*OTHERS, *map(example, CLASSES.values())], ids=lambda error: type(error).__name__)
def test_errors_can_be_copied(error: Exception, duplicate: Callable[[Exception], Exception]) -> None:
    """A copy, also one through pickle, has the class, fields, hint and notes of the original."""
    error.add_note("More about it.")
    other = duplicate(error)

    assert type(other) is type(error)
    assert (vars(other), other.args, str(other)) == (vars(error), error.args, str(error))


def test_every_class_is_copied() -> None:
    """The examples have all exception classes of the package, but for the base, which has no message."""
    assert {type(error) for error in OTHERS} | {*CLASSES.values()} == defined() - {SniaPtsError}


def test_a_traceback_shows_the_hint() -> None:
    """A program that does not catch an error shows what to do."""
    error = UsageError(detail="There is no label '42'.", hint="Labels: 0, 65, 100.")
    error.add_note("A note.")

    assert "".join(traceback.format_exception(error)).endswith("'42'.\nLabels: 0, 65, 100.\nA note.\n")


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


@pytest.mark.long
def test_messages_do_not_need_docstrings() -> None:
    """All messages and hints are the same under ``python -OO``, which removes docstrings."""
    program = "from tests.test_errors import *\nfor each in CLASSES.values(): print(example(each), example(each).hint)"
    command = [sys.executable, "-OO", "-c", program]
    output = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PACKAGE.parent).stdout

    assert output == "".join(f"{example(item)} {example(item).hint}\n" for item in CLASSES.values())


@pytest.mark.long
def test_no_hint_is_changed_on_the_way_up() -> None:
    """What a caller knows is a note: a replaced error loses its notes, and a replaced hint the first reason."""
    changes = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            targets = node.targets if isinstance(node, ast.Assign) else []
            assigned = any(isinstance(target, ast.Attribute) and target.attr == "hint" for target in targets)
            called = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
            keywords = {keyword.arg for keyword in node.keywords} if isinstance(node, ast.Call) else set()
            if assigned or (called == "replace" and "hint" in keywords):
                changes.append(f"{path.relative_to(PACKAGE)}: {ast.unparse(node)}")

    assert changes == ["errors.py: self.hint = self.hint.format(**shell_words)"]


@pytest.mark.long
def test_every_hint_that_is_not_passed_has_its_fields() -> None:
    """Wherever a class's own hint is used, the fields with a default that the hint contains are passed."""
    places = list(raised())

    assert places
    assert [
        place
        for place, error_class, arguments in places
        if "hint" not in arguments and not placeholders(error_class.hint) <= arguments
    ] == []
