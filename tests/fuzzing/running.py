"""Tries inputs one by one, each within a time and a memory, and tells results, refusals and what escaped."""

from __future__ import annotations

import resource
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType

from .targets import TARGETS, Target

#: What all of them together may take beyond what the process has when it begins.
MEMORY_BYTES = 1 << 30
#: How many times slower the machine may be while others use it.
_BUSY = 20
_PAGE_BYTES = resource.getpagesize()


class TooSlow(BaseException):
    """A parser took more than its time."""


@dataclass(slots=True, kw_only=True)
class Escape:
    """An input that gave neither a result nor a sentence; ``times`` counts the inputs that failed at this place."""

    number: int
    data: bytes
    told: str
    times: int = 1


@dataclass(slots=True, kw_only=True)
class Tally:
    """What came of many inputs: ``result``, or the class of the refusal; escapes by exception and place."""

    outcomes: Counter[str] = field(default_factory=Counter)
    escapes: dict[str, Escape] = field(default_factory=dict)
    slowest_seconds: float = 0.0

    def join(self, other: Tally) -> None:
        """Add what came of others."""
        self.outcomes.update(other.outcomes)
        self.slowest_seconds = max(self.slowest_seconds, other.slowest_seconds)
        for place, escape in other.escapes.items():
            known = self.escapes.setdefault(place, escape)
            if known is not escape:
                known.times += escape.times


def hostile(name: str, seed: int, number: int) -> bytes:
    """Return input ``number`` of a target: the same for the same seed, whatever was tried before."""
    target = TARGETS[name]
    corpus = target.corpus()
    if number < len(corpus):
        return corpus[number]
    return target.form.hostile(Random(f"{name}/{seed}/{number}"), corpus)


def sweep(
    name: str, seed: int, numbers: Iterable[int], folder: Path, at: Callable[[int], None] = lambda _: None
) -> Tally:
    """Try the inputs of these numbers, telling each number before; ``folder`` is for the parser's files."""
    tally = Tally()
    with limited_memory(MEMORY_BYTES):
        for number in numbers:
            at(number)
            attempt(TARGETS[name], hostile(name, seed, number), folder, tally, number)
    return tally


def attempt(target: Target, data: bytes, folder: Path, tally: Tally, number: int = 0) -> None:
    """Try one input, and count what came of it."""
    began = time.process_time()
    try:
        with limited_time(target.seconds), warnings.catch_warnings():
            warnings.simplefilter("error")
            target.parse(data, folder)
        outcome = "result"
    except KeyboardInterrupt:
        raise
    except target.refusals as refusal:
        outcome = type(refusal).__name__
    except BaseException as error:  # noqa: BLE001  # whatever it is, it is what we look for
        outcome = "escape"
        place = _place(error)
        known = tally.escapes.setdefault(place, Escape(number=number, data=data, told=_told(error), times=0))
        known.times += 1
    tally.outcomes[outcome] += 1
    tally.slowest_seconds = max(tally.slowest_seconds, time.process_time() - began)


def _place(error: BaseException) -> str:
    """Say what escaped and where: the innermost line of the suite."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/snia_pts/" in frame.filename]
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "outside the suite"
    return f"{type(error).__name__} at {where}"


def _told(error: BaseException) -> str:
    return "".join(traceback.format_exception(error, limit=-8))[-4000:]


@contextmanager
def limited_time(seconds: float) -> Iterator[None]:
    """Raise TooSlow in the main thread after so much CPU time, or when that is not used up in many times as long."""

    def late(_number: int, _frame: FrameType | None) -> None:
        raise TooSlow(f"more than {seconds:g} s")

    timers = {signal.ITIMER_PROF: (signal.SIGPROF, seconds), signal.ITIMER_REAL: (signal.SIGALRM, _BUSY * seconds)}
    before = {number: signal.signal(number, late) for number, _ in timers.values()}
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
    """Let the process have so much more memory, and no more: what asks for it gets a MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * _PAGE_BYTES + more_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
