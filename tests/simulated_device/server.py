"""The clock of a drive: requests come in, and are answered when the model says that they are done.

``python -m tests.simulated_device.server {nbd,fuse} WHERE LOG`` serves the drive of ``slow``.  Every line of its
standard input is a command (``tell``, ``fail-after N``, ``hang-after N``, ``heal``), answered with a line of JSON; it
ends when that ends.
"""

from __future__ import annotations

import ctypes
import heapq
import json
import math
import os
import select
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from . import fuse, nbd, slow
from .model import Drive, Faults, Request, Submit
from .oracle import Oracle

_PR_SET_TIMERSLACK = 29
_CLOSE_SECONDS = 5e-6


class Connector(Protocol):
    """Brings a host's requests and takes its answers."""

    @property
    def sources(self) -> list[int]: ...

    def receive(self, source: int, submit: Submit) -> None: ...

    def answer(self, request: Request) -> None: ...


class Server:
    """One thread: it waits for requests, commands, and the next completion."""

    def __init__(self, drive: Drive, connector: Connector) -> None:
        self._drive = drive
        self._connector = connector
        self._due: list[tuple[float, int, Request]] = []
        self._count = 0

    def run(self, commands: int) -> None:
        """Serve until there are no more commands."""
        received = b""
        while True:
            for source in select.select([commands, *self._connector.sources], [], [], self._patience())[0]:
                if source != commands:
                    self._connector.receive(source, self._submit)
                    continue
                piece = os.read(commands, 4096)
                if not piece:
                    return
                *lines, received = (received + piece).split(b"\n")
                for line in lines:
                    print(json.dumps(self._obey(*line.decode().split())), flush=True)
            self._complete()

    def _patience(self) -> float | None:
        wait = self._due[0][0] - time.monotonic() if self._due else math.inf
        return max(0.0, wait) if wait < math.inf else None

    def _submit(self, request: Request) -> None:
        self._count += 1
        heapq.heappush(self._due, (self._drive.submit(request, time.monotonic()), self._count, request))

    def _complete(self) -> None:
        now = time.monotonic() + _CLOSE_SECONDS
        while self._due and self._due[0][0] <= now:
            self._connector.answer(heapq.heappop(self._due)[2])

    def _obey(self, command: str, after: str = "0") -> dict[str, object]:
        """Do what a command says, and tell what the drive has seen so far."""
        faults = self._drive.faults
        match command:
            case "fail-after":
                faults.fail_after = int(after)
            case "hang-after":
                faults.hang_after = int(after)
            case "heal":
                self._drive.faults = Faults()
                self._due = [(0.0 if when == math.inf else when, count, item) for when, count, item in self._due]
                heapq.heapify(self._due)
            case "tell":
                self._drive.oracle.keep()
        total = self._drive.oracle.total
        return {
            "ios": total.ios,
            "bytes": total.bytes,
            "write_amplification": self._drive.write_amplification,
        }


def main(kind: str, where: str, log: str) -> None:
    """Serve a drive; the first line of output is ``ready``, or why no drive is possible here."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    oracle = Oracle(Path(log))
    drive = Drive(slow.CAPACITY_BYTES, slow.MEDIA, slow.CONTROLLER, oracle)
    opened: Callable[[Drive, Path], AbstractContextManager[Connector]] = nbd.opened if kind == "nbd" else fuse.opened
    try:
        with opened(drive, Path(where)) as connector:
            print("ready", flush=True)
            Server(drive, connector).run(sys.stdin.fileno())
    except fuse.Unavailable as error:
        print(error, flush=True)
    oracle.keep()


if __name__ == "__main__":
    main(*sys.argv[1:])
