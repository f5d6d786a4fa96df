"""The front door: reads the arguments, calls the verb, turns every failure into a sentence, a remedy and a code."""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any, TextIO, cast

from ..errors import HostFailed, Interrupted, SniaPtsError, UsageError
from .parser import build_parser


def console() -> None:
    """Run the command line of this process and exit with its code."""
    _forgo_openssl()
    sys.exit(main(sys.argv[1:]))


def _forgo_openssl() -> None:
    """Have ``hashlib`` take Python's own digests: OpenSSL is 3.5 MiB that a run would hold for nothing.

    A Python that was built without them has OpenSSL all the same.
    """
    sha2 = ("_sha2",) if sys.version_info >= (3, 12) else ("_sha256", "_sha512")
    if all(map(find_spec, ("_md5", "_sha1", *sha2, "_sha3", "_blake2"))):
        sys.modules.setdefault("_hashlib", cast("ModuleType", None))  # nobody finds it


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
    except KeyboardInterrupt:
        return _say(Interrupted(step="the preparation", what="no test had begun", hint="Nothing was tested."))
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
    """A stream that takes text alone: what would command a terminal, or turn text around, becomes ?."""

    _COMMANDS = re.compile(
        r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|(?!\A)\r(?!\Z)"
    )  # a line that is written over begins with \r

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(self._COMMANDS.sub("?", text))

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
    if error.hint:
        print(f"  {error.hint}", file=sys.stderr)
    return error.exit_code
