"""Lines on a terminal, in a pipe or in a file."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from typing import TextIO

from ...text import printable, wrapped


def print_lines(lines: Iterable[str], stream: TextIO | None = None) -> None:
    """Print each line at once; a line feed inside a line (device names may contain one) becomes U+FFFD.

    On a terminal, a line that is too long continues on the next one, after a word and further to the right.
    """
    stream = stream or sys.stdout
    width = terminal_width(stream)
    for line in lines:
        text = printable(line.replace("\n", "\ufffd"), lines=True)
        print("\n".join(_wrapped(text, width)) if width else text, file=stream, flush=True)


def say(line: str) -> None:
    """Print a notice for the operator."""
    print_lines([f"snia-pts: {line}"], sys.stderr)


def ignore(_line: str) -> None:
    """Ignore a notice."""


def say_all(lines: Iterable[str]) -> None:
    """Print several messages as ``say`` does."""
    for line in lines:
        say(line)


def terminal_width(stream: TextIO) -> int | None:
    """Return the number of columns of the terminal that a stream is; None if it is no terminal."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def _wrapped(line: str, width: int) -> list[str]:
    """Return a line as lines of at most ``width`` letters, the others further to the right."""
    if len(line) <= width:
        return [line]
    indent = " " * min(len(line) - len(line.lstrip()) + 2, width // 2)
    return wrapped(line, width, indent=indent)
