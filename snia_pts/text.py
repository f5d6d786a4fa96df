"""Text of devices, files and operators as outputs may show it; and the known word that a mistyped one resembles."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_KEPT_SPACES = "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
#: Control, format (among them the bidirectional ones), surrogate, private and unassigned characters; separators of
#: lines and paragraphs.
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


class _Shown(dict[int, str]):
    """What each character is shown as, by its number; looked up once."""

    def __missing__(self, number: int) -> str:
        sign = chr(number)
        self[number] = shown = _REPLACEMENT if unicodedata.category(sign) in _UNPRINTABLE else sign
        return shown


_SHOWN = _Shown()
_SHOWN_LINES = _Shown({ord("\n"): "\n", ord("\t"): "\t"})


def printable(text: str, *, lines: bool = False) -> str:
    """Return ``text`` with every character that cannot be printed as U+FFFD; ``lines`` keeps line feeds and tabs."""
    return text.translate(_SHOWN_LINES if lines else _SHOWN)


def plain(text: str) -> str:
    """Return ``text`` on one line with single spaces, and what cannot be printed as U+FFFD."""
    return printable(re.sub(rf"[^\S{_KEPT_SPACES}]+", " ", text).strip()).strip()


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return ``did you mean X?`` for the one of ``known`` that is most like ``word``; empty where none is."""
    from difflib import get_close_matches  # only a mistake needs it

    return "".join(f"did you mean {each}?" for each in get_close_matches(word, list(known), n=1))
