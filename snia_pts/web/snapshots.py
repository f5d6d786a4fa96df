"""One snapshot of a source for everybody: the pages, the API, the events and the metrics."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from .model import Snapshot
from .source import Source

#: A page, an answer of the API or a scrape may show a snapshot of this age.
_MAX_AGE_SECONDS = 1.0
_Result = TypeVar("_Result")


class Snapshots:
    """The newest snapshot of a source.  All methods may be called from any thread, and wait while one is read."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._newest: Snapshot | None = None
        self._read_at = -math.inf

    def current(self) -> Snapshot:
        """Return the newest snapshot; read another one if it is too old."""
        with self._lock:
            if self._newest is None or time.monotonic() - self._read_at >= _MAX_AGE_SECONDS:
                return self._read()
            return self._newest

    def read(self) -> Snapshot:
        """Read a snapshot now."""
        with self._lock:
            return self._read()

    def apply(self, change: Callable[[], _Result]) -> _Result:
        """Perform a change of the source, so that each later snapshot has it; return the change's result."""
        try:
            return change()
        finally:
            with self._lock:
                self._newest = None

    def _read(self) -> Snapshot:
        self._newest = self._source.snapshot()
        self._read_at = time.monotonic()
        return self._newest
