"""Limits of the time and the memory that one input may take."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

#: Memory of an input, in addition to that of the process before it.
MEMORY_BYTES = 1 << 30
#: Maximum ratio of elapsed time to CPU time, while other programs use the machine.
_BUSY = 20
_PAGE_BYTES = resource.getpagesize()


class TooSlow(BaseException):
    """A parser exceeded its time."""


@contextmanager
def limited_time(seconds: float) -> Iterator[None]:
    """Raise TooSlow in the main thread after ``seconds`` of CPU time, or after many times as long without them."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooSlow(f"more than {seconds:g} s")

    timers = {signal.ITIMER_PROF: (signal.SIGPROF, seconds), signal.ITIMER_REAL: (signal.SIGALRM, _BUSY * seconds)}
    before = {number: signal.signal(number, stop) for number, _ in timers.values()}
    for timer, (_, limit) in timers.items():
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for timer in timers:
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def limited_memory(more_bytes: int) -> Iterator[None]:
    """Limit the memory of this process to its present size plus ``more_bytes``; beyond it there is a MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * _PAGE_BYTES + more_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
