"""Prepare the next point's fio shortly before the running point ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...errors import SniaPtsError
from ...model.measurement import Timing, Transfers
from ...model.steps import Stimulus
from ...model.telemetry import BlockStatistics
from .. import fio
from ..observation.interval_files import IntervalFiles
from ..process import program as process

if TYPE_CHECKING:
    from typing import Self

#: The next fio starts between these times before the end of the running one.  It does not start later, because the
#: suite must notice that end immediately.  A program's ticks are about a second apart.
_MAX_AHEAD_SECONDS, _MIN_AHEAD_SECONDS = 3.0, 0.5


@dataclass(slots=True, kw_only=True)
class IdleGap:
    """The time without I/O since a moment (monotonic; None before the first I/O).

    ``excluded_ns`` is the part that the suite does not cause: requested idle time, and time spent waiting for fio.
    """

    since_ns: int | None = None
    excluded_ns: int = 0


@dataclass(slots=True, kw_only=True)
class PreparedPoint:
    """A stimulus with its fio, the gap before its I/O, and the block layer's statistics of that gap (set on release).

    A ``sampled`` fio writes running totals to its standard output, and has exited by ``exited_ns``.  ``had_holes``
    tells whether the target had them when the point was prepared.
    """

    stimulus: Stimulus
    files: fio.JobFiles
    seed: int
    program: process.Program
    sampled: bool = False
    had_holes: bool = False
    exited_ns: int = 0
    engine_restarted: bool = False
    gap: IdleGap = field(default_factory=IdleGap)
    idle_block: BlockStatistics | None = None
    intervals: IntervalFiles | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.program.end()
        self.close_files()

    def close_files(self) -> None:
        """Close the files that the suite keeps open for the point."""
        self.files.close()
        if self.intervals is not None:
            self.intervals.close()


class PointPipeline:
    """The points of a round in order; each is prepared near the end of the one before it.

    Starting fio takes 0.1 to 0.2 CPU seconds.  Early in a point it would also do harm: the scheduler may move the
    running I/O to other CPUs, and leaves it there (``bench/speed.py``).
    """

    def __init__(self, points: Iterator[PreparedPoint], stack: ExitStack) -> None:
        """Prepare ``points`` one at a time; ``stack`` ends each of them in any case."""
        self._points, self._stack = points, stack
        self._prepared: list[PreparedPoint | None] = []
        #: The error that prevented the next point's preparation or I/O; raised after the running point's measurement.
        self.deferred_error: SniaPtsError | fio.AnswerRejected | OSError | None = None

    def tick_for(self, point: PreparedPoint, tick: process.Tick) -> process.Tick:
        """Return the tick of a running point: calls ``tick``, and prepares the next point when it is time.

        If the end of ``point`` is not known or is near, the next point is prepared immediately.
        """
        if _remaining_seconds(point) <= _MAX_AHEAD_SECONDS:
            self._prepare()

        def tick_and_prepare(seconds: float, written_bytes: int) -> None:
            tick(seconds, written_bytes)
            if _MIN_AHEAD_SECONDS <= _remaining_seconds(point) <= _MAX_AHEAD_SECONDS:
                self._prepare()

        return tick_and_prepare

    def take(self) -> PreparedPoint | None:
        """Return the next point, prepared; None if there is none, or if its preparation set ``deferred_error``."""
        self._prepare()
        return self._prepared.pop()

    def _prepare(self) -> None:
        if self._prepared:
            return
        try:
            following = next(self._points, None)
            self._prepared.append(following and self._stack.enter_context(following))
        except (SniaPtsError, fio.AnswerRejected, OSError) as error:
            self._prepared.append(None)
            self.deferred_error = error


def _remaining_seconds(point: PreparedPoint) -> float:
    """Return how long a running point will still take; 0 if that is not known."""
    stimulus = point.stimulus
    if stimulus.seconds is None or not stimulus.ends_by_time:
        return 0.0
    return stimulus.ramp_seconds + stimulus.seconds - (time.monotonic_ns() - point.program.started_ns) / 1e9


def overhead_ns(stimulus: Stimulus, read: Transfers, write: Transfers, times: Timing | process.Finished) -> int:
    """Return the time of a program without its I/O."""
    io_ms = max(read.runtime_ms, write.runtime_ms) + 1000 * stimulus.ramp_seconds
    return max(0, times.ended_monotonic_ns - times.started_monotonic_ns - round(1e6 * io_ms))
