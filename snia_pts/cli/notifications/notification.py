"""Sends a mail when a run finishes, stops or fails.

The mail is sent after the last line on the terminal, within a timeout; a failure to send it does not affect the run.
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
from .content import Notification
from .delivery import message, send

_MAX_REASON_LENGTH = 200


class _Tee:
    """A stream that copies its text."""

    def __init__(self, stream: TextIO, copy: io.StringIO) -> None:
        self._stream, self._copy = stream, copy

    def write(self, text: str) -> int:
        self._copy.write(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def notify_on_exit(config: MailConfig | None, afterwards: list[Callable[[], None]]) -> Iterator[Notification]:
    """Record the output of a run, and append to ``afterwards`` a call that mails it with the report.

    No mail is sent without ``config``, or for a run without a folder.
    """
    notification = Notification()
    if config is None:
        yield notification
        return
    try:
        with redirect_stdout(cast("TextIO", _Tee(sys.stdout, notification.output))):
            yield notification
    except BaseException as error:
        notification.record_error(error)
        raise
    finally:
        if notification.about:
            afterwards.append(partial(_mail, config, notification))


def _mail(config: MailConfig, notification: Notification) -> None:
    """Send a mail; print a failure, which is not a failure of the run."""
    prefix = f"The mail to {', '.join(config.recipients)} was not sent: "
    try:
        reason = send(config, message(config, notification))
    except KeyboardInterrupt:
        reason = "interrupted"
    except Exception as error:  # noqa: BLE001  # no failure of the mail may hide the result
        reason = f"{type(error).__name__}: {error}"
    if reason:
        with suppress(OSError):
            print(f"snia-pts: {prefix}{printable(reason)[:_MAX_REASON_LENGTH]}.", file=sys.stderr)
