"""What a drive itself saw: counts of requests and bytes, all together and by time."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

Kind = Literal["read", "write", "trim", "flush"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_SLOT_SECONDS = 0.001


@dataclass(slots=True)
class Seen:
    """Requests and bytes of each kind."""

    ios: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    bytes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))

    def count(self, kind: Kind, length: int) -> None:
        """Count one request."""
        self.ios[kind] += 1
        self.bytes[kind] += length

    def join(self, other: Seen) -> None:
        """Count what another has counted."""
        for kind in KINDS:
            self.ios[kind] += other.ios[kind]
            self.bytes[kind] += other.bytes[kind]


class Oracle:
    """Counts requests as they arrive; ``log`` gets a line of JSON for those of a thousandth of a second."""

    def __init__(self, log: Path) -> None:
        self.total = Seen()
        self._now = Seen()
        self._since = 0.0
        self._log = log

    def saw(self, kind: Kind, length: int, now: float) -> None:
        """Count a request that arrived at ``now``, in seconds of the monotonic clock."""
        if now > self._since + _SLOT_SECONDS:
            self.keep()
            self._since = now
        self._now.count(kind, length)

    def keep(self) -> None:
        """Write down what was counted since the last line."""
        if any(self._now.ios.values()):
            line = {"seconds": self._since, "ios": self._now.ios, "bytes": self._now.bytes}
            with self._log.open("a") as log:
                log.write(json.dumps(line) + "\n")
            self.total.join(self._now)
            self._now = Seen()


def read_log(log: Path, began: float, ended: float) -> Seen:
    """Return what a drive saw between two times of the monotonic clock.

    Exact if it was left alone for a thousandth of a second before each, as it is between all points.
    """
    found = Seen()
    for line in map(json.loads, log.read_text().splitlines() if log.exists() else ()):
        if began <= line["seconds"] <= ended:
            found.join(Seen(ios=line["ios"], bytes=line["bytes"]))
    return found
