"""The next point is begun late in the one before, early enough to stand ready, and never lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, cast

import pytest

from snia_pts.errors import UsageError
from snia_pts.lab.fio.point import PointPipeline, PreparedPoint
from snia_pts.model.steps import Stimulus
from tests.strategies import stimulus


class Program:
    """What a point holds: it began at a moment, and notes its end."""

    ended = False
    started_ns = 0

    def end(self) -> None:
        """End."""
        self.ended = True


class Files:
    """Files of a job that are closed with it."""

    def close(self) -> None:
        """Close nothing."""


class Round:
    """Points that are begun as they are asked for."""

    def __init__(self, *kept: Exception | None) -> None:
        """Begin a point for each None, and fail with each error."""
        self.kept = kept
        self.begun: list[PreparedPoint] = []
        self.left = ExitStack()
        self.upcoming = PointPipeline(self._points(), self.left)

    def _points(self) -> Iterator[PreparedPoint]:
        for error in self.kept:
            if error:
                raise error
            program = cast("Any", Program())
            self.begun.append(PreparedPoint(stimulus=stimulus(), files=cast("Any", Files()), seed=1, program=program))
            yield self.begun[-1]


def at_work(request: Stimulus, seconds: float = 0.0) -> PreparedPoint:
    """Return a point that has been at work for so long."""
    point = PreparedPoint(stimulus=request, files=cast("Any", Files()), seed=1, program=cast("Any", Program()))
    point.program.started_ns = time.monotonic_ns() - round(1e9 * seconds)
    return point


def begun_in(request: Stimulus, at: tuple[float, ...]) -> list[int]:
    """Return how many points are begun when one is looked at first after so many seconds, and in ticks after others."""
    each, point = Round(None, None), at_work(request, at[0])
    seen: list[float] = []
    tick = each.upcoming.tick_for(point, lambda elapsed, _: seen.append(elapsed))
    counts = [len(each.begun)]
    for elapsed in at[1:]:
        point.program.started_ns = time.monotonic_ns() - round(1e9 * elapsed)
        tick(elapsed, 0)
        counts.append(len(each.begun))
    assert seen == list(at[1:])
    return counts


@pytest.mark.parametrize(
    ("asked", "at", "counts"),
    [
        ({"seconds": 60.0}, (0, 1, 30, 56.9, 57.1, 58.1, 59.6), [0, 0, 0, 0, 1, 1, 1]),
        ({"seconds": 60.0, "ramp_seconds": 5.0}, (0, 57.5, 61.5, 62.5), [0, 0, 0, 1]),
        ({"seconds": 60.0}, (0, 56.5, 59.6, 59.9), [0, 0, 0, 0]),
        ({"seconds": 60.0}, (58, 59), [1, 1]),
        ({"seconds": 60.0}, (61,), [1]),
        ({"seconds": 3.5}, (0, 0.4, 1.0), [0, 0, 1]),
        ({"seconds": 2.9}, (0, 1.0), [1, 1]),
        ({"seconds": 0.1}, (0,), [1]),
        ({"seconds": None, "passes": 2.0}, (0, 1, 1000), [1, 1, 1]),
        ({"seconds": 60.0, "limit_bytes": 4096}, (0, 1), [1, 1]),
    ],
    ids=[
        "a minute",
        "after a ramp",
        "nobody looked in time",
        "late already",
        "over",
        "hardly late",
        "short",
        "very short",
        "no time told",
        "may end before",
    ],
)
def test_the_next_point_is_begun_in_the_last_seconds(
    asked: dict[str, Any], at: tuple[float, ...], counts: list[int]
) -> None:
    """Not sooner, for it takes CPU time, nor at the very end, which must be seen at once; now where none is known."""
    assert begun_in(stimulus(**asked), at) == counts


def test_the_next_point_is_begun_when_it_is_taken_at_the_latest() -> None:
    """Each is given once, in its order; then none."""
    each = Round(None, None)
    found = [each.upcoming.take() for _ in range(4)]

    assert found == [*each.begun, None, None]
    assert len(each.begun) == 2


@pytest.mark.parametrize("error", [UsageError(detail="no"), OSError("full")])
def test_what_keeps_a_point_from_being_begun_waits_for_the_one_before(error: Exception) -> None:
    """No error comes out of a tick, nor of the taking: who measures tells what was measured first."""
    each = Round(None, error)
    assert each.upcoming.take() is each.begun[0]
    each.upcoming.tick_for(at_work(stimulus(seconds=10), 8.0), lambda *_: None)(9.0, 0)

    assert each.upcoming.take() is None
    assert each.upcoming.deferred_error is error


def test_every_point_that_was_begun_is_ended() -> None:
    """Whoever leaves the round in its midst leaves no fio behind, taken or not."""
    each = Round(None, None, None)
    with each.left:
        each.upcoming.take()
        each.upcoming.tick_for(at_work(stimulus(seconds=1)), lambda *_: None)

    assert [cast("Any", point.program).ended for point in each.begun] == [True, True]
