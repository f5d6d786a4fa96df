"""The front door: reads the arguments, calls the verb, turns every failure into a sentence, a remedy and a code."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Sequence

from ..errors import HostFailed, Interrupted, SniaPtsError
from .parser import build_parser


def console() -> None:
    """Run the command line of this process and exit with its code."""
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Run one command line; returns the exit code."""
    _open_streams()
    _speak_plainly()
    try:
        arguments = build_parser().parse_args(argv)
        arguments.command_line = ("snia-pts", *argv)
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
    except OSError as error:
        reason = error.strerror or str(error)
        if error.filename is None:  # what is written without a name is the standard output
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            hint = "What was run is in its run folder."
            return _say(HostFailed(step="telling the result", what="standard output", reason=reason, hint=hint))
        return _say(HostFailed(step="running", what=str(error.filename or "a file"), reason=reason))


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


def _say(error: SniaPtsError) -> int:
    print(f"snia-pts: {error}", file=sys.stderr)
    if error.hint:
        print(f"  {error.hint}", file=sys.stderr)
    return error.exit_code
