"""Reads the entries of a journal while another process writes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ..errors import RecordError
from ..files import open_regular
from ..units import MIB
from .entries import Entry
from .folder import MAX_LINE_BYTES, unreadable
from .journal_reader import read_entry

#: How often a journal without new lines is read again.
_PAUSE_SECONDS = 0.1


class JournalTail:
    """Reads the entries of a journal that were added since the last call; one thread at a time may use it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = self._checksum = self._number = 0

    def new_entries(self) -> Iterator[Entry]:
        """Yield each entry whose line is complete and was not yielded before; raises RecordError.

        An incomplete last line is ignored; it is read once it is complete.
        """
        try:
            file = open_regular(self._path)
        except OSError as error:
            raise unreadable(self._path, error) from None
        with file:
            file.seek(self._offset)
            while (text := file.readline(MAX_LINE_BYTES)).endswith(b"\n"):
                entry, checksum = read_entry(self._path, self._number + 1, text, self._checksum)
                self._number, self._offset, self._checksum = self._number + 1, self._offset + len(text), checksum
                yield entry
        if len(text) == MAX_LINE_BYTES:
            raise RecordError(path=self._path, reason=f"a line is longer than {MAX_LINE_BYTES // MIB} MiB")


def follow_entries(path: Path, is_writing: Callable[[], bool]) -> Iterator[Entry]:
    """Yield each entry of a journal once its line is complete, until no process writes it any more.

    ``is_writing`` returns whether one does.  An incomplete last line is ignored.  Raises RecordError.
    """
    tail, writing = JournalTail(path), True
    while writing:
        writing = is_writing()  # first, so that the lines of a process that has ended are read
        yield from tail.new_entries()
        if writing:
            time.sleep(_PAUSE_SECONDS)
