"""The messages of the suite's errors and notices, as text: those of each error class, then those of each module.

``python -m tests.messages`` writes them to ``tests/messages.txt``, where all of them can be read together.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from snia_pts import errors
from snia_pts.errors import SniaPtsError

PACKAGE = Path(errors.__file__).parent
PATH = Path(__file__).with_suffix(".txt")
#: Arguments and variables whose strings an operator reads.
_NAMES = {"detail", "hint", "reason", "message"}
_SENTENCE = re.compile("[A-Za-z]{2}.* .*[A-Za-z]{2}", re.DOTALL)


def describe() -> str:
    """Return all messages, with the expressions that they contain in braces."""
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, SniaPtsError)]
    lines = [line for error_class in classes if hasattr(error_class, "message") for line in _class_lines(error_class)]
    for path in sorted(PACKAGE.rglob("*.py")):
        if path != Path(errors.__file__) and (
            sentences := dict.fromkeys(_sentences(ast.parse(path.read_text("utf-8"))))
        ):
            lines += ["", str(path.relative_to(PACKAGE)), *(f"    {sentence}" for sentence in sentences)]
    return "\n".join(lines) + "\n"


def _class_lines(error_class: type[SniaPtsError]) -> Iterator[str]:
    yield f"{error_class.__name__} ({error_class.exit_code})"
    yield f"    {error_class.message}"
    yield f"    {error_class.hint}"


def _sentences(tree: ast.AST) -> Iterator[str]:
    """Yield the strings of several words among the arguments and variables that an operator reads."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg=name, value=value) if name in _NAMES:
                yield from _strings(value)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in _NAMES:
                yield from _strings(value)
            case ast.Raise(exc=ast.Call(args=[value, *_])):
                yield from _strings(value)


def _strings(node: ast.AST) -> Iterator[str]:
    """Yield the strings of several words in an expression; an f-string is one string."""
    match node:
        case ast.JoinedStr(values=parts):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
        case ast.Constant(value=str(text)):
            pass
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _strings(child)
            return
    if _SENTENCE.search(text):
        yield text.replace("\n", " ")


if __name__ == "__main__":
    PATH.write_text(describe(), encoding="utf-8")
