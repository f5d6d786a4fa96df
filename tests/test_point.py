"""The next point is begun late in the one before, early enough to stand ready, and never lost."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from snia_pts.errors import UsageError
from snia_pts.lab.point import Point, Upcoming
from tests.strategies import stimulus


class Program:
    """What a point holds; notes its end."""

    ended = False

    def end(self) -> None:
        """End."""
        self.ended = True


class Round:
    """Points that are begun as they are asked for."""

    def __init__(self, *kept: Exception | None) -> None:
        """Begin a point for each None, and fail with each error."""
        self.kept = kept
        self.begun: list[Point] = []
        self.left = ExitStack()
        self.upcoming = Upcoming(self._points(), self.left)

    def _points(self) -> Iterator[Point]:
        for error in self.kept:
            if error:
                raise error
            program = cast("Any", Program())
            self.begun.append(Point(stimulus=stimulus(), job=Path("x.fio"), seed=1, program=program))
            yield self.begun[-1]


def begun_in(seconds: float | None, ramp: float = 0.0, ticks: tuple[float, ...] = ()) -> list[int]:
    """Return how many points are begun when one of so long begins, and after each of these ticks."""
    each = Round(None, None)
    asked = stimulus(seconds=seconds, ramp_seconds=ramp, passes=None if seconds else 2.0)
    seen: list[float] = []
    tick = each.upcoming.during(asked, lambda elapsed, _: seen.append(elapsed))
    counts = [len(each.begun)]
    for elapsed in ticks:
        tick(elapsed, 0)
        counts.append(len(each.begun))
    assert seen == list(ticks)
    return counts


@pytest.mark.parametrize(
    ("seconds", "ramp", "ticks", "counts"),
    [
        (60.0, 0.0, (1.0, 30.0, 56.9, 57.0, 58.0, 59.5), [0, 0, 0, 0, 1, 1, 1]),
        (60.0, 5.0, (57.5, 61.0, 62.5), [0, 0, 0, 1]),
        (60.0, 0.0, (56.0, 59.0, 59.9), [0, 0, 0, 0]),
        (3.5, 0.0, (0.4, 1.0), [0, 0, 1]),
        (3.0, 0.0, (1.0,), [1, 1]),
        (0.1, 0.0, (), [1]),
        (None, 0.0, (1.0, 1000.0), [1, 1, 1]),
    ],
    ids=["a minute", "after a ramp", "nobody looked in time", "hardly late", "short", "very short", "no time told"],
)
def test_the_next_point_is_begun_in_the_last_seconds(
    seconds: float | None, ramp: float, ticks: tuple[float, ...], counts: list[int]
) -> None:
    """Not sooner, for it takes CPU time, nor in the last one, whose end must be seen; at once where none is known."""
    assert begun_in(seconds, ramp, ticks) == counts


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
    tick = each.upcoming.during(stimulus(seconds=10), lambda *_: None)
    for second in itertools.count(1):
        tick(float(second), 0)
        if second > 9:
            break

    assert each.upcoming.take() is None
    assert each.upcoming.trouble is error


def test_every_point_that_was_begun_is_ended() -> None:
    """Whoever leaves the round in its midst leaves no fio behind, taken or not."""
    each = Round(None, None, None)
    with each.left:
        each.upcoming.take()
        each.upcoming.during(stimulus(seconds=1), lambda *_: None)

    assert [cast("Any", point.program).ended for point in each.begun] == [True, True]
