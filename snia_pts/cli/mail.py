"""Mail when a run is done, stopped or failed: what stands in it, and how it is sent.

What becomes of a mail changes nothing of the run: it is sent after the last word on the terminal, for a bounded time.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TextIO, cast

from ..errors import Interrupted, LimitsMissed, ReportError, SniaPtsError
from .post import Post
from .words import printable

_LONGEST_REASON = 200
#: What is wrong with a run that was measured to its end.
_SHORT_OF: dict[type[BaseException], str] = {LimitsMissed: "LIMITS NOT MET", ReportError: "NO REPORT"}


@dataclass(slots=True, kw_only=True)
class Letter:
    """What is told of a run: ``about`` names test and drive, ``verdict`` is what came of it, once that is known."""

    about: str
    report: Path
    verdict: str = ""
    said: io.StringIO = field(default_factory=io.StringIO)

    def ended(self, error: BaseException) -> None:
        """Take down why a run ended before its time, or what is wrong with its numbers, as the terminal tells it."""
        stopped = isinstance(error, Interrupted | KeyboardInterrupt)
        outcome = "INTERRUPTED" if stopped else _SHORT_OF.get(type(error), "FAILED")
        self.verdict = f"{self.verdict}, {outcome}" if self.verdict else outcome
        self.said.write(f"snia-pts: {str(error) or 'Stopped by the operator.'}\n")
        if isinstance(error, SniaPtsError) and error.hint:
            self.said.write(f"  {error.hint}\n")


class _Copied:
    """A stream whose text is taken down as well."""

    def __init__(self, stream: TextIO, copy: io.StringIO) -> None:
        self._stream, self._copy = stream, copy

    def write(self, text: str) -> int:
        self._copy.write(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def mailed(arguments: argparse.Namespace, about: str, report: Path) -> Iterator[Letter]:
    """Take down what is said of a run, and have it mailed after the last word, with ``report`` if it was made.

    ``arguments.post`` is where it goes; nothing is mailed where that is None.
    """
    letter = Letter(about=about, report=report)
    if arguments.post is None:
        yield letter
        return
    try:
        with redirect_stdout(cast("TextIO", _Copied(sys.stdout, letter.said))):
            yield letter
    except BaseException as error:
        letter.ended(error)
        raise
    finally:
        arguments.afterwards.append(partial(_mail, arguments.post, letter))


def _mail(where: Post, letter: Letter) -> None:
    """Send a letter; what becomes of it is told, and is no failure of the run."""
    from .sending import delivered, message  # a run that mails nothing does without

    told = f"The mail to {', '.join(where.recipients)} was not sent: "
    try:
        wrong = delivered(where, message(where, letter))
    except KeyboardInterrupt:
        wrong = "nobody wanted to wait for it"
    except Exception as error:  # noqa: BLE001  # whatever it is, the run is done, and what came of it stays
        wrong = f"{type(error).__name__}: {error}"
    if wrong:
        with suppress(OSError):
            print(f"snia-pts: {told}{printable(wrong)[:_LONGEST_REASON]}.", file=sys.stderr)
