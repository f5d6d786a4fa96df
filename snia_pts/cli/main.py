"""The program: parses the arguments, calls the verb, and prints every error as a sentence, a hint and an exit code."""

from __future__ import annotations

import argparse
import codecs
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TextIO, cast

from ..errors import HostFailed, SniaPtsError, UsageError, stop_error
from ..text import printable
from .parser import build_parser

#: What a terminal without Unicode shows for the characters of tables and units.
_ASCII = {
    "\N{EN DASH}": "-",
    "\N{HORIZONTAL ELLIPSIS}": "...",
    "\N{MICRO SIGN}": "u",
    "\N{PLUS-MINUS SIGN}": "+-",
    "\N{DEGREE SIGN}": "deg ",
    "\N{DAGGER}": "+",
    "\N{DOUBLE DAGGER}": "#",
}


def console() -> None:
    """Run the command line of this process and exit with its code."""
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Run one command line; returns the exit code."""
    return run_reported(partial(_run, argv))


def run_reported(run: Callable[[list[Callable[[], None]]], int]) -> int:
    """Call ``run`` and return its exit code; print an error as a sentence, and return its code.

    ``run`` may append functions to its argument, which are called after the last output.
    """
    _open_streams()
    _replace_unencodable()
    afterwards: list[Callable[[], None]] = []
    with _printable_streams():
        try:
            return _report_errors(partial(run, afterwards))
        finally:
            for call in afterwards:
                call()


def _run(argv: Sequence[str], afterwards: list[Callable[[], None]]) -> int:
    """Parse ``argv`` and call its verb."""
    _require_text(argv)
    arguments = build_parser().parse_args(argv)
    arguments.command_line, arguments.afterwards = ("snia-pts", *argv), afterwards
    with _log_on_terminal(arguments):
        return int(arguments.verb(arguments))


def _report_errors(run: Callable[[], int]) -> int:
    try:
        code = run()
        sys.stdout.flush()
        return code
    except SniaPtsError as error:
        return _print_error(error)
    except KeyboardInterrupt as stop:
        return _print_error(stop_error(stop))
    except BrokenPipeError:
        # The reader of the output has exited (snia-pts assess RUN | head).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ImportError as error:  # the installation is incomplete, or changed since the start
        part, hint = error.name or "a module", "Install it again; the run folder has all results."
        return _print_error(HostFailed(step="loading a part of the suite", what=part, reason=str(error), hint=hint))
    except OSError as error:
        reason = error.strerror or str(error)
        if error.filename is None:  # only standard output is written without a file name
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            hint = "The run folder has all results."
            return _print_error(
                HostFailed(step="printing the result", what="standard output", reason=reason, hint=hint)
            )
        return _print_error(HostFailed(step="running", what=str(error.filename or "a file"), reason=reason))


def _log_on_terminal(arguments: argparse.Namespace) -> AbstractContextManager[None]:
    """Return a context that shows the log on standard error, as -v requests."""
    verbosity: int = getattr(arguments, "verbose", 0)
    if not verbosity:
        return nullcontext()
    from .text.log import show_log

    return show_log(verbosity, getattr(arguments, "progress", "auto"))


def _require_text(argv: Sequence[str]) -> None:
    """Raise UsageError for arguments that are not valid UTF-8, because a journal cannot store them."""
    for word in argv:
        if not word.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in word):
            raise UsageError(detail=f"{word!a} is not valid UTF-8.", hint="Rename the file, or use a symlink to it.")


def _open_streams() -> None:
    """Open /dev/null for a closed standard stream (``>&-``)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  # until the process ends


def _replace_unencodable() -> None:
    """On a terminal without Unicode, show dashes, spaces and units in ASCII, and other characters as ?."""

    def replacement(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        unencodable = error.object[error.start : error.end]
        return "".join(_ASCII.get(letter, " " if letter.isspace() else "?") for letter in unencodable), error.end

    codecs.register_error("plain", replacement)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="plain")


class _PrintableStream:
    """A stream that replaces unprintable characters by U+FFFD: they could control the terminal or hide text."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        leading, trailing = text.startswith("\r"), text.endswith("\r")  # a progress line starts with \r
        line = printable(text.removeprefix("\r").removesuffix("\r"), lines=True)
        return self._stream.write("\r" * leading + line + "\r" * (trailing and len(text) > 1))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _printable_streams() -> Iterator[None]:
    """Make texts of drives, file systems and stored runs printable on the standard streams."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", _PrintableStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _print_error(error: SniaPtsError) -> int:
    print(f"snia-pts: {error}", file=sys.stderr)
    if error.full_hint:
        print(f"  {error.full_hint}", file=sys.stderr)
    return error.exit_code
