"""Make text from devices, files and operators safe to print; suggest the correct word for a mistyped one."""

from __future__ import annotations

import math
import re
import textwrap
import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_NO_BREAK_SPACES = "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
#: Unicode categories: control, format (includes bidirectional controls), surrogate, private and unassigned characters;
#: line and paragraph separators.
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}

#: Spaces at which no line may end: between thousands, between a number and its unit, in a duration, a range, a queue
#: depth or a share of a block size.
_NO_BREAK = re.compile(
    r"(?<=\d) (?=(?:%|°C|us|\N{MICRO SIGN}s|ms|s|min|h|d|B|[kMGT]B(?:/s)?|[KMGT]iB|IOPS|I/Os|DWPD)(?![\w/]))"
    r"|(?<=\d) (?=\d{3}\b)|(?<=\d [hd]) (?=\d)|(?<=\d min) (?=\d)|(?<=\d) (?=- \d)|(?<=\d -) (?=\d)"
    r"|(?<=\b[QT][DC]) (?=\d)|(?<=\d KiB) (?=\d+ %)"
)


class _PrintableTable(dict[int, str]):
    """A table for ``str.translate``: each code point and its printable replacement, determined once."""

    def __missing__(self, code_point: int) -> str:
        character = chr(code_point)
        self[code_point] = text = _REPLACEMENT if unicodedata.category(character) in _UNPRINTABLE else character
        return text


_TABLE = _PrintableTable()
_TABLE_WITH_LINES = _PrintableTable({ord("\n"): "\n", ord("\t"): "\t"})


def printable(text: str, *, lines: bool = False) -> str:
    """Return ``text`` with each unprintable character replaced by U+FFFD; ``lines`` keeps line feeds and tabs."""
    return text.translate(_TABLE_WITH_LINES if lines else _TABLE)


def one_line(text: str) -> str:
    """Return ``text`` on one line with single spaces, each unprintable character replaced by U+FFFD."""
    return printable(re.sub(rf"[^\S{_NO_BREAK_SPACES}]+", " ", text).strip()).strip()


def without_breaks(text: str) -> str:
    """Return ``text`` with no-break spaces between numbers and their units, for formats that wrap lines."""
    return _NO_BREAK.sub("\N{NO-BREAK SPACE}", text)


def wrapped(text: str, width: int, *, indent: str = "") -> list[str]:
    """Return a text as lines of at most ``width`` letters, from the second on with an indent.

    A number stays with its unit, and a longer word, such as a path, stays whole.
    """
    lines = textwrap.wrap(
        without_breaks(text),
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
        expand_tabs=False,
    )
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def without_numbers(text: str) -> str:
    """Return ``text`` with # for each number, so that messages that differ in numbers only are equal."""
    return re.sub(r"0x[0-9A-Fa-f]+|[0-9]+", "#", text)


def suggestion(word: str, valid_words: Iterable[str], *, similarity: float = 0.6) -> str:
    """Return ``did you mean X?`` for the valid word most similar to ``word``; empty if none is similar.

    ``similarity`` is the minimum, from 0 to 1; leading hyphens do not count.
    """
    by_name = {valid.lstrip("-"): valid for valid in valid_words}
    matches = get_close_matches(word.lstrip("-"), by_name, n=1, cutoff=similarity)
    return "".join(f"did you mean {by_name[match]}?" for match in matches)


def json_values(value: Any) -> Any:
    """Return ``value`` as JSON can hold it: null for every NaN and infinity, texts made printable, lists for tuples."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {name: json_values(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [json_values(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
