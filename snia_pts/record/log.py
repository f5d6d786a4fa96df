"""The log of a run: what the suite did and decided, for someone who looks for the cause of a problem.

The log is not evidence: no program reads it, and a run continues if it cannot be written.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..errors import SniaPtsError, stop_cause
from ..files import UnbufferedFile, open_to_append
from ..text import printable
from .folder import RunFolder
from .locks import lock

PACKAGE = logging.getLogger(__name__.partition(".")[0])
_LOGGER = logging.getLogger(__name__)
_INCOMPLETE = "(lines are missing here: the log could not be written)"


class LogFormatter(logging.Formatter):
    """Formats a record as a line: time in UTC, level, logger, message; a traceback follows on lines of its own."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # the name is that of the base class
        """Return the line; a line feed inside a message, which a device's text could contain, becomes U+FFFD."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: logging._SysExcInfoType) -> str:
        """Return a traceback; its last lines may quote texts of devices."""
        return printable(super().formatException(ei), lines=True)


class _LogFile:
    """An open log that is appended to; lines that cannot be written are lost, and the log states that."""

    def __init__(self, file: UnbufferedFile) -> None:
        self._file, self._incomplete = file, False

    def append(self, text: str) -> None:
        try:
            if self._incomplete:
                self._file.write(f"\n{_INCOMPLETE}\n".encode())
            self._file.write(f"{text}\n".encode())
            self._incomplete = False
        except OSError:  # the disk is full: the journal decides whether the run can continue
            self._incomplete = True


class _RunLogs(logging.Handler):
    """Writes the records of the package to every open log.

    While a log is open, the package logs from level INFO on.  The program's own handlers get only the records that they
    would get without it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(LogFormatter())
        self._lock_of_files = threading.Lock()
        self._files: list[_LogFile] = []
        # The settings of the package's logger before a log was opened.
        self._level_before, self._effective_level_before, self._propagate_before = logging.NOTSET, logging.WARNING, True

    @contextmanager
    def writing_to(self, file: _LogFile) -> Iterator[None]:
        """Write to ``file`` inside the block."""
        with self._lock_of_files:
            if not self._files:
                self._level_before, self._effective_level_before = PACKAGE.level, PACKAGE.getEffectiveLevel()
                self._propagate_before, PACKAGE.propagate = PACKAGE.propagate, False
                PACKAGE.setLevel(min(self._effective_level_before, logging.INFO))
                PACKAGE.addHandler(self)
            self._files = [*self._files, file]
        try:
            yield
        finally:
            with self._lock_of_files:
                self._files = [other for other in self._files if other is not file]
                if not self._files:
                    PACKAGE.removeHandler(self)
                    PACKAGE.setLevel(self._level_before)
                    PACKAGE.propagate = self._propagate_before

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        text = self.format(record)
        for file in self._files:
            file.append(text)
        parent = PACKAGE.parent
        enabled = self._propagate_before and record.levelno >= self._effective_level_before
        if enabled and parent is not None and parent.hasHandlers():
            parent.callHandlers(record)


_RUN_LOGS = _RunLogs()


@contextmanager
def logged(folder: RunFolder) -> Iterator[None]:
    """Append the records of the package to the log of an open run folder, and the error that ends the block.

    Raises RunFolderError for a symlink, a file with hard links, and other unexpected files of that name.
    """
    try:
        file = open_to_append(folder.log, new=True)
    except OSError as error:
        _LOGGER.warning("the log %s cannot be opened: %s", folder.log, error.strerror or error)
        yield
        return
    with suppress(OSError):  # locked by the process of the run, which then refuses this process
        lock(file.fileno())  # shows readers that a run without a journal is in progress
    with file, _RUN_LOGS.writing_to(_LogFile(file)):
        try:
            yield
        except SniaPtsError as error:
            _LOGGER.error("%s %s", error, error.full_hint)
            raise
        except KeyboardInterrupt as stop:
            _LOGGER.warning("interrupted: %s", stop_cause(stop))
            raise
        except Exception:
            _LOGGER.critical("a bug of the suite ended the run", exc_info=True)
            raise
