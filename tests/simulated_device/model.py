"""The drive: its data, and when each request is done.

The same parts as the simulation in virtual time has, one request at a time: the suite's own flash translation layer,
units that work side by side, a write buffer with back-pressure, reads that wait for programs, a link and a firmware.
"""

from __future__ import annotations

import errno
import math
import mmap
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from snia_pts.lab.simulated.ftl import Ftl
from snia_pts.lab.simulated.preset import Controller, Media
from snia_pts.units import KIB

from .oracle import Io, Kind, Oracle

_PAGES = 64
_BUFFER_CHUNKS = 128
_TRIM_SECONDS = 1e-4
#: The unit of a chunk that holds nothing.
_NOWHERE = 0


@dataclass(slots=True)
class Request:
    """What a host asks; ``tag`` is the connector's own, for its answer."""

    kind: Kind
    offset: int
    length: int
    tag: Any
    error: int = 0


#: Takes a request from a connector.
Submit = Callable[[Request], None]


@dataclass(slots=True)
class Faults:
    """After how many more reads and writes each of them fails with EIO, or is not answered."""

    fail_after: float = math.inf
    hang_after: float = math.inf

    def befall(self, request: Request) -> bool:
        """Fail a request if it must fail; return whether it hangs."""
        if request.kind not in ("read", "write"):
            return False
        self.fail_after -= 1
        self.hang_after -= 1
        request.error = errno.EIO if self.fail_after < 0 else 0
        return self.hang_after < 0


class Drive:
    """A drive that stores written data, and takes the time of its medium and its controller."""

    def __init__(self, capacity_bytes: int, media: Media, controller: Controller, oracle: Oracle) -> None:
        self.capacity_bytes = capacity_bytes
        self.data = memoryview(mmap.mmap(-1, capacity_bytes))
        self.oracle = oracle
        self.faults = Faults()
        self._media, self._controller = media, controller
        self._chunk_bytes = int(media.mapping_kib * KIB)
        chunks = capacity_bytes // self._chunk_bytes
        self._ftl = Ftl(chunks, _PAGES, media.over_provisioning_percent / 100)
        self._unit_of = bytearray(chunks)
        self._programs_until = [0.0] * (media.units + 1)
        self._reads_until = [0.0] * (media.units + 1)
        self._buffer = [0.0] * _BUFFER_CHUNKS
        self._written = 0
        self._link_until = 0.0

    @property
    def write_amplification(self) -> float:
        """What is programmed for each byte written, now."""
        return self._ftl.write_amplification

    def store(self, offset: int, content: memoryview | bytes) -> None:
        """Keep what was written; a host stays within the capacity."""
        self.data[offset : offset + len(content)] = content

    def submit(self, request: Request, now: float) -> float:
        """Return when a request that arrives ``now`` is done: never, if it hangs."""
        done = self._done(request, now)
        self.oracle.saw(Io(request.kind, request.offset, request.length, now, done))
        return done

    def _done(self, request: Request, now: float) -> float:
        if self.faults.befall(request):
            return math.inf
        if request.error:
            return now
        match request.kind:
            case "read":
                return max(self._read(request, now), self._pass_link(request, now))
            case "write":
                return max(self._write(request, now), self._pass_link(request, now))
            case "trim":
                return self._trim(request, now)
        return now

    def _read(self, request: Request, now: float) -> float:
        """Sense every chunk that holds something: behind other reads, and the program that its unit is busy with."""
        done, sense = now, self._media.read_us / 1e6
        for chunk in self._touched(request):
            unit = self._unit_of[chunk]
            if unit == _NOWHERE:
                continue
            backlog = self._programs_until[unit] - now
            if backlog > 0:
                self._programs_until[unit] += sense
                waiting = min(backlog, self._media.program_us / 1e6) * random.random()
            else:
                waiting = 0.0
            self._reads_until[unit] = max(now + waiting, self._reads_until[unit]) + sense
            done = max(done, self._reads_until[unit])
        return done + self._controller.read_us / 1e6

    def _write(self, request: Request, now: float) -> float:
        """Put every chunk into the buffer when it has space; units empty it, and garbage collection takes its time."""
        entered, chunks = now, self._touched(request)
        program = self._media.program_us / 1e6 * self._ftl.write_amplification
        if request.offset % self._chunk_bytes or request.length % self._chunk_bytes:
            program += self._media.read_us / 1e6
        for chunk in chunks:
            unit, place = 1 + self._written % self._media.units, self._written % _BUFFER_CHUNKS
            entered = max(entered, self._buffer[place])
            self._programs_until[unit] = max(entered, self._programs_until[unit]) + program
            self._buffer[place] = self._programs_until[unit]
            self._unit_of[chunk] = unit
            self._written += 1
        self._ftl.write(np.arange(chunks.start, chunks.stop))
        return entered + self._controller.write_us / 1e6

    def _trim(self, request: Request, now: float) -> float:
        """Forget the chunks that are covered; all of them together are a purge."""
        first = math.ceil(request.offset / self._chunk_bytes)
        count = max(0, (request.offset + request.length) // self._chunk_bytes - first)
        self.store(request.offset, bytes(request.length))
        self._unit_of[first : first + count] = bytes(count)
        if count == len(self._unit_of):
            self._ftl.purge()
        else:
            self._ftl.trim(first, count)
        return now + _TRIM_SECONDS

    def _pass_link(self, request: Request, now: float) -> float:
        """Return when link and firmware are through with a request, one after the other."""
        limits, reads = self._controller, request.kind == "read"
        rate = limits.read_mb_per_second if reads else limits.write_mb_per_second
        least = 1 / (limits.read_iops if reads else limits.write_iops)
        self._link_until = max(now, self._link_until) + max(least, request.length / rate / 1e6)
        return self._link_until

    def _touched(self, request: Request) -> range:
        end = request.offset + request.length
        return range(request.offset // self._chunk_bytes, math.ceil(end / self._chunk_bytes))
