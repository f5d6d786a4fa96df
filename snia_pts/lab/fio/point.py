"""A point on its way: the stimulus with the fio that does it; and the next one, made ready shortly before its turn."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...errors import SniaPtsError
from ...model.steps import Stimulus
from .. import fio
from ..process import program as process

if TYPE_CHECKING:
    from typing import Self

#: The next fio starts so long before the end of the one at work, and no later than so long before it: what comes to
#: its end then must be noticed at once.  A program's ticks are about a second apart.
_AHEAD_SECONDS, _LATEST_SECONDS = 3.0, 0.5


@dataclass(slots=True, kw_only=True)
class IdleGap:
    """The time without I/O since a moment (monotonic; None before the first I/O).

    ``not_ours_ns`` of it are idle time that was asked for, and fio's own.
    """

    since_ns: int | None = None
    not_ours_ns: int = 0


@dataclass(slots=True, kw_only=True)
class PreparedPoint:
    """A stimulus with the fio that does it, and the pause before its I/O, known when that may begin.

    fio reports running totals on its standard output where it is ``sampled``; it was gone by ``exited_ns`` then.
    """

    stimulus: Stimulus
    files: fio.JobFiles
    seed: int
    program: process.Program
    sampled: bool = False
    exited_ns: int = 0
    engine_restarted: bool = False
    pause: IdleGap = field(default_factory=IdleGap)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.program.end()
        self.files.close()


class PointPipeline:
    """The points of a round in their order, each begun late in the one before.

    A fio's start takes a tenth of a CPU second or two.  Early in a point it would do more harm than that: the scheduler
    may move the I/O at work to other CPUs for it, and leaves it there (``bench/speed.py``).
    """

    def __init__(self, points: Iterator[PreparedPoint], left: ExitStack) -> None:
        """Begin the next of ``points`` when its time comes; ``left`` ends it, whatever happens."""
        self._points, self._left = points, left
        self._begun: list[PreparedPoint | None] = []
        #: What kept the next point from being begun, or from its I/O: what the one before measured comes first.
        self.trouble: SniaPtsError | fio.AnswerRejected | OSError | None = None

    def during(self, point: PreparedPoint, tick: process.Tick) -> process.Tick:
        """Return what is done about once a second while ``point`` is at work: ``tick``, and the next one's start.

        Where no time is known that it ends at, or where that is near, the next one starts at once.
        """
        if _left_seconds(point) <= _AHEAD_SECONDS:
            self._begin()

        def ticked(seconds: float, written_bytes: int) -> None:
            tick(seconds, written_bytes)
            if _LATEST_SECONDS <= _left_seconds(point) <= _AHEAD_SECONDS:
                self._begin()

        return ticked

    def take(self) -> PreparedPoint | None:
        """Return the next point, begun; None when there is none, or ``trouble`` with it."""
        self._begin()
        return self._begun.pop()

    def _begin(self) -> None:
        if self._begun:
            return
        try:
            following = next(self._points, None)
            self._begun.append(following and self._left.enter_context(following))
        except (SniaPtsError, fio.AnswerRejected, OSError) as error:
            self._begun.append(None)
            self.trouble = error


def _left_seconds(point: PreparedPoint) -> float:
    """Return how long a point that is at work will be so; nothing where that is not known."""
    asked = point.stimulus
    if asked.seconds is None or asked.limit_bytes is not None:
        return 0.0
    return asked.ramp_seconds + asked.seconds - (time.monotonic_ns() - point.program.started_ns) / 1e9
