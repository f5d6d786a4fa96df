"""An argument parser whose errors are sentences with suggestions."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NoReturn

from ..errors import UsageError, missing_library
from ..text import suggestion


def path(text: str) -> Path:
    """Return the path that an argument names; raises ArgumentTypeError for an empty one."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty")
    return Path(text)


#: The end of every help text; it says where the pages of the documentation are.
DOCUMENTATION = "Pages such as docs/usage.rst are shown by snia-pts docs usage."


class Parser(argparse.ArgumentParser):
    """An argument parser that raises UsageError; each verb reports its own errors."""

    def __init__(self, **options: Any) -> None:
        """Accept ``-1G`` as the value of an option, so that the option can report an invalid size."""
        super().__init__(**{"epilog": DOCUMENTATION, **options})
        self.add_argument(
            "-v",
            "--verbose",
            action="count",
            default=argparse.SUPPRESS,
            help="show what the suite does, on standard error; -vv shows more",
        )
        #: By option that this verb does not have: the keys of --set that have the same effect.
        self.keys_instead: dict[str, list[str]] = {}
        self._negative_number_matcher = re.compile(r"-\.?[0-9]")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Refuse unknown arguments in the parser of the verb; argparse would leave them to the main parser."""
        words = list(sys.argv[1:] if args is None else args)
        known, unknown = super().parse_known_args(words, namespace)
        if unknown:
            message = f"unrecognized arguments: {' '.join(unknown)}"
            self._refuse(message, *(self._suggestion(word, words) for word in unknown))
        return known, unknown

    def _suggestion(self, word: str, words: Sequence[str]) -> str:
        """Return a hint for an unknown option among the ``words`` of a command; empty for other words."""
        option, _, value = word.partition("=")
        if keys := self.keys_instead.get(option):
            value = value or next(iter(words[words.index(word) + 1 :]), "VALUE")
            return f"each test has its own: {', '.join(f'--set {key}={value}' for key in keys)}."
        options = [*self._option_string_actions, *self.keys_instead]
        # Options have short names: --range is similar to --purge by 0.6, but nobody mistypes one for the other.
        return suggestion(option, options, similarity=0.7) if option.startswith("-") else ""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            name = " ".join(action.option_strings) or f"{action.metavar}"
            expected = f"{name}: {value!r}: expected one of {', '.join(action.choices)}"
            self._refuse(expected, suggestion(value, action.choices))

    def _refuse(self, message: str, *hints: str) -> NoReturn:
        sentences = [_sentence(hint) for hint in hints if hint]
        raise UsageError(detail=f"{_sentence(message)}.", hint=" ".join([*sentences, f"See {self.prog} --help."]))

    def error(self, message: str) -> NoReturn:
        self._refuse(message)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


VerbParser = argparse.ArgumentParser
#: The ``add_parser`` of a command line: takes the name of a verb and its help.
AddVerb = Callable[..., VerbParser]


class LazyVerb:
    """A verb that imports its function (``module:function``) only when it is called."""

    def __init__(self, function: str) -> None:
        self._function = function

    def __call__(self, arguments: argparse.Namespace) -> int:
        try:
            function = resolve_name(self._function)
        except ModuleNotFoundError as error:
            raise missing_library(error) from None
        return int(function(arguments))
