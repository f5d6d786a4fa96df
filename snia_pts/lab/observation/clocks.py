"""Compare the host's clocks to detect a suspension, or a change of the wall clock."""

from __future__ import annotations

import time
from dataclasses import dataclass

#: The clocks are read one after the other.  If that takes longer than this, they are read again.
_MAX_READING_NS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The clock readings of one moment, in ns.

    While the host is suspended, ``monotonic_ns`` stops and ``boot_ns`` continues.  ``wall_ns`` can be set.
    """

    monotonic_ns: int
    boot_ns: int
    wall_ns: int

    def suspended_seconds(self, before: Moment) -> float:
        """Return how long the host was suspended since ``before``."""
        return (self.boot_ns - self.monotonic_ns - before.boot_ns + before.monotonic_ns) / 1e9

    def wall_clock_change_seconds(self, before: Moment) -> float:
        """Return by how much the wall clock was set since ``before``; negative if it was set back."""
        return (self.wall_ns - self.boot_ns - before.wall_ns + before.boot_ns) / 1e9


def read_moment() -> Moment:
    """Return the current clock readings."""
    while True:
        monotonic = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        boot, wall = time.clock_gettime_ns(time.CLOCK_BOOTTIME), time.clock_gettime_ns(time.CLOCK_REALTIME)
        if time.clock_gettime_ns(time.CLOCK_MONOTONIC) - monotonic < _MAX_READING_NS:
            return Moment(monotonic_ns=monotonic, boot_ns=boot, wall_ns=wall)
