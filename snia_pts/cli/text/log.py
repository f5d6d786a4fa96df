"""Shows the log on standard error, for -v and -vv."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from ...record.log import PACKAGE, LogFormatter
from .progress import choose_mode, standard_stream


class _TerminalHandler(logging.StreamHandler[TextIO]):
    """Writes records; on a terminal each overwrites the progress line, which is drawn again below it."""

    def __init__(self, stream: TextIO, progress: str) -> None:
        super().__init__(stream)
        self._over_progress_line = choose_mode(progress, stream) == "line"

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one or several lines."""
        text = super().format(record)
        if not self._over_progress_line:
            return text
        first, *others = text.split("\n")
        return "\n".join((f"\r{first.ljust(shutil.get_terminal_size().columns - 1)}", *others))

    def handleError(self, record: logging.LogRecord) -> None:  # the name is that of the base class
        """Ignore the error: a closed output must not stop a test."""


@contextmanager
def show_log(verbosity: int, progress: str) -> Iterator[None]:
    """Inside the block, show records of level INFO and above, or all if ``verbosity`` is 2 or more.

    ``progress`` is the value of --progress.
    """
    handler, before = _TerminalHandler(standard_stream(), progress), PACKAGE.level
    handler.setFormatter(LogFormatter())
    PACKAGE.addHandler(handler)
    PACKAGE.setLevel(logging.INFO if verbosity == 1 else logging.DEBUG)
    try:
        yield
    finally:
        PACKAGE.removeHandler(handler)
        PACKAGE.setLevel(before)
