"""Mail when a run is done, stopped or failed: what stands in it, and how it is sent.

What becomes of a mail changes nothing of the run: it is sent after the last word on the terminal, for a bounded time.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial
from typing import Any, TextIO, cast

from ...text import printable
from .config import MailConfig
from .notification import Notification

_LONGEST_REASON = 200


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
def notify_on_exit(post: MailConfig | None, afterwards: list[Callable[[], None]]) -> Iterator[Notification]:
    """Record what is printed of a run, and leave in ``afterwards`` what mails it, with its report if there is one.

    Nothing is mailed without ``post``, or of a run that had no folder.
    """
    letter = Notification()
    if post is None:
        yield letter
        return
    try:
        with redirect_stdout(cast("TextIO", _Copied(sys.stdout, letter.said))):
            yield letter
    except BaseException as error:
        letter.ended(error)
        raise
    finally:
        if letter.about:
            afterwards.append(partial(_mail, post, letter))


def _mail(where: MailConfig, letter: Notification) -> None:
    """Send a letter; what becomes of it is told, and is no failure of the run."""
    from .delivery import message, send  # a run that mails nothing does without

    told = f"The mail to {', '.join(where.recipients)} was not sent: "
    try:
        wrong = send(where, message(where, letter))
    except KeyboardInterrupt:
        wrong = "nobody wanted to wait for it"
    except Exception as error:  # noqa: BLE001  # whatever it is, the run is done, and what came of it stays
        wrong = f"{type(error).__name__}: {error}"
    if wrong:
        with suppress(OSError):
            print(f"snia-pts: {told}{printable(wrong)[:_LONGEST_REASON]}.", file=sys.stderr)
