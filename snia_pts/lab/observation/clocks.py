"""The clocks of the host, held against each other: whether it was suspended, and whether its wall clock was set."""

from __future__ import annotations

import time
from dataclasses import dataclass

#: The clocks are read one after the other; what takes longer than this is read again.
_LONGEST_READING_NS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What the clocks say at one moment, in ns: ``monotonic_ns`` stands while the host is suspended, ``boot_ns`` goes
    on, and ``wall_ns`` may be set.
    """

    monotonic_ns: int
    boot_ns: int
    wall_ns: int

    def suspended_seconds(self, before: Moment) -> float:
        """Return how long the host was suspended since ``before``."""
        return (self.boot_ns - self.monotonic_ns - before.boot_ns + before.monotonic_ns) / 1e9

    def set_seconds(self, before: Moment) -> float:
        """Return by how much the wall clock was set since ``before``; below 0 for one that was set back."""
        return (self.wall_ns - self.boot_ns - before.wall_ns + before.boot_ns) / 1e9


def read_moment() -> Moment:
    """Return what the clocks say now."""
    while True:
        monotonic = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        boot, wall = time.clock_gettime_ns(time.CLOCK_BOOTTIME), time.clock_gettime_ns(time.CLOCK_REALTIME)
        if time.clock_gettime_ns(time.CLOCK_MONOTONIC) - monotonic < _LONGEST_READING_NS:
            return Moment(monotonic_ns=monotonic, boot_ns=boot, wall_ns=wall)
