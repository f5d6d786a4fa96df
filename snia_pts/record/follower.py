"""Reads the entries of a journal while another process writes it."""

from __future__ import annotations

import os
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


def follow_entries(path: Path, is_writing: Callable[[], bool]) -> Iterator[Entry]:
    """Yield each entry of a journal once its line is complete, until no process writes it any more.

    ``is_writing`` returns whether one does.  An incomplete last line is ignored.  Raises RecordError.
    """
    checksum, number, writing = 0, 0, True
    try:
        file = open_regular(path)
    except OSError as error:
        raise unreadable(path, error) from None
    with file:
        while writing:
            writing = is_writing()  # first, so that the lines of a process that has ended are read
            while (text := file.readline(MAX_LINE_BYTES)).endswith(b"\n"):
                number += 1
                entry, checksum = read_entry(path, number, text, checksum)
                yield entry
            if len(text) == MAX_LINE_BYTES:
                raise RecordError(path=path, reason=f"a line is longer than {MAX_LINE_BYTES // MIB} MiB")
            file.seek(-len(text), os.SEEK_CUR)
            if writing:
                time.sleep(_PAUSE_SECONDS)
