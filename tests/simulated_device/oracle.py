"""What a drive itself saw: each request with its place and times; counts of requests and bytes, all and by time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Literal, get_args

Kind = Literal["read", "write", "trim", "flush"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_SLOT_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class Io:
    """One request: when it arrived and when it was answered, in seconds of the monotonic clock; never: infinity."""

    kind: Kind
    offset: int
    length: int
    arrived: float
    done: float


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
        self._each: list[Io] = []
        self._since = 0.0
        self._log = log

    def saw(self, io: Io) -> None:
        """Count a request."""
        if io.arrived > self._since + _SLOT_SECONDS:
            self.keep()
            self._since = io.arrived
        self._now.count(io.kind, io.length)
        self._each.append(io)

    def keep(self) -> None:
        """Write down what was counted since the last line."""
        if any(self._now.ios.values()):
            rows = [astuple(io) for io in self._each]
            line = {"seconds": self._since, "ios": self._now.ios, "bytes": self._now.bytes, "each": rows}
            with self._log.open("a") as log:
                log.write(json.dumps(line) + "\n")
            self.total.join(self._now)
            self._now, self._each = Seen(), []


def read_ios(log: Path, began: float, ended: float) -> Iterator[Io]:
    """Give each request that arrived between two times of the monotonic clock, in the order of their arrival."""
    for line in map(json.loads, log.read_text().splitlines() if log.exists() else ()):
        yield from (io for io in (Io(*item) for item in line["each"]) if began <= io.arrived <= ended)


def read_log(log: Path, began: float, ended: float) -> Seen:
    """Return what a drive saw between two times of the monotonic clock.

    Exact if it was left alone for a thousandth of a second before each, as it is between all points.
    """
    counts = Seen()
    for line in map(json.loads, log.read_text().splitlines() if log.exists() else ()):
        if began <= line["seconds"] <= ended:
            counts.join(Seen(ios=line["ios"], bytes=line["bytes"]))
    return counts
