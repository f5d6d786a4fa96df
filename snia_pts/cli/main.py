"""The front door: reads the arguments, calls the verb, turns every failure into a sentence, a remedy and a code."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO, cast

from ..errors import HostFailed, Interrupted, SniaPtsError, UsageError, stop_cause
from ..text import printable
from .parser import build_parser


def console() -> None:
    """Run the command line of this process and exit with its code."""
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Run one command line; returns the exit code."""
    _open_streams()
    _speak_plainly()
    afterwards: list[Callable[[], None]] = []
    with _text_alone():
        try:
            return _run(argv, afterwards)
        finally:
            for tell in afterwards:
                tell()


def _run(argv: Sequence[str], afterwards: list[Callable[[], None]]) -> int:
    """Call the verb, which may leave in ``afterwards`` what is to be done when all is said."""
    try:
        _require_text(argv)
        arguments = build_parser().parse_args(argv)
        arguments.command_line, arguments.afterwards = ("snia-pts", *argv), afterwards
        code = int(arguments.verb(arguments))
        sys.stdout.flush()
        return code
    except SniaPtsError as error:
        return _say(error)
    except KeyboardInterrupt as stop:
        hint = "Nothing was tested."
        return _say(Interrupted(cause=stop_cause(stop), step="the preparation", what="no test had begun", hint=hint))
    except BrokenPipeError:
        # The reader of our output is gone (snia-pts assess RUN | head): nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ImportError as error:  # it is not whole, or was replaced since it began
        part, hint = error.name or "a module", "Install it again; what was run is in its run folder."
        return _say(HostFailed(step="loading a part of the suite", what=part, reason=str(error), hint=hint))
    except OSError as error:
        reason = error.strerror or str(error)
        if error.filename is None:  # what is written without a name is the standard output
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            hint = "What was run is in its run folder."
            return _say(HostFailed(step="telling the result", what="standard output", reason=reason, hint=hint))
        return _say(HostFailed(step="running", what=str(error.filename or "a file"), reason=reason))


def _require_text(argv: Sequence[str]) -> None:
    """Raise UsageError for bytes that are no text: no record could hold them."""
    for word in argv:
        if not word.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in word):
            raise UsageError(detail=f"{word!a} is not valid UTF-8.", hint="Give a file another name, or a link.")


def _open_streams() -> None:
    """Give a closed standard stream (``>&-``) somewhere to go."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  # until the process ends


def _speak_plainly() -> None:
    """Let a terminal that knows no Unicode show a plain space for the thin one in numbers, and ? for the rest."""

    def plain(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        lost = error.object[error.start : error.end]
        return "".join(" " if letter.isspace() else "?" for letter in lost), error.end

    codecs.register_error("plain", plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="plain")


class _Text:
    """A stream that shows what cannot be printed as U+FFFD: it neither controls the terminal nor hides text."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        before, after = text.startswith("\r"), text.endswith("\r")  # a line that is written over begins with \r
        shown = printable(text.removeprefix("\r").removesuffix("\r"), lines=True)
        return self._stream.write("\r" * before + shown + "\r" * (after and len(text) > 1))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _text_alone() -> Iterator[None]:
    """Let nothing that a drive, a file system or a stored run is called reach the terminal but as text."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", _Text(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _say(error: SniaPtsError) -> int:
    print(f"snia-pts: {error}", file=sys.stderr)
    if error.full_hint:
        print(f"  {error.full_hint}", file=sys.stderr)
    return error.exit_code
