"""The pipeline prepares the next point late in the current one, early enough to be ready, and ends every point."""

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
    """A fake process of a point: has a start time, and records that it was ended."""

    ended = False
    started_ns = 0

    def end(self) -> None:
        """Record the end."""
        self.ended = True


class Files:
    """Fake job files."""

    def close(self) -> None:
        """Do nothing."""


class PreparedRound:
    """A pipeline whose points are prepared on demand."""

    def __init__(self, *errors: Exception | None) -> None:
        """Prepare a point for each None, and raise each error."""
        self.errors = errors
        self.prepared: list[PreparedPoint] = []
        self.exit_stack = ExitStack()
        self.pipeline = PointPipeline(self._points(), self.exit_stack)

    def _points(self) -> Iterator[PreparedPoint]:
        for error in self.errors:
            if error:
                raise error
            program = cast("Any", Program())
            self.prepared.append(
                PreparedPoint(stimulus=stimulus(), files=cast("Any", Files()), seed=1, program=program)
            )
            yield self.prepared[-1]


def running_point(request: Stimulus, seconds: float = 0.0) -> PreparedPoint:
    """Return a point that has been running for `seconds`."""
    point = PreparedPoint(stimulus=request, files=cast("Any", Files()), seed=1, program=cast("Any", Program()))
    point.program.started_ns = time.monotonic_ns() - round(1e9 * seconds)
    return point


def prepared_counts(request: Stimulus, at: tuple[float, ...]) -> list[int]:
    """Return the number of prepared points at the first of these times of a running point and at each later tick."""
    round_, point = PreparedRound(None, None), running_point(request, at[0])
    tick_times: list[float] = []
    tick = round_.pipeline.tick_for(point, lambda elapsed, _: tick_times.append(elapsed))
    counts = [len(round_.prepared)]
    for elapsed in at[1:]:
        point.program.started_ns = time.monotonic_ns() - round(1e9 * elapsed)
        tick(elapsed, 0)
        counts.append(len(round_.prepared))
    assert tick_times == list(at[1:])
    return counts


@pytest.mark.parametrize(
    ("changes", "at", "counts"),
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
        "no tick in time",
        "first tick already late",
        "already over",
        "short, last second",
        "short",
        "very short",
        "no duration",
        "limit may end it early",
    ],
)
def test_the_next_point_is_prepared_in_the_last_seconds(
    changes: dict[str, Any], at: tuple[float, ...], counts: list[int]
) -> None:
    """Not earlier, to save CPU time, nor in the last moment; immediately if the point is short or its end unknown."""
    assert prepared_counts(stimulus(**changes), at) == counts


def test_take_prepares_points_that_are_not_yet_prepared() -> None:
    """Each point is returned once, in order; then None."""
    round_ = PreparedRound(None, None)
    points = [round_.pipeline.take() for _ in range(4)]

    assert points == [*round_.prepared, None, None]
    assert len(round_.prepared) == 2


@pytest.mark.parametrize("error", [UsageError(detail="no"), OSError("full")])
def test_an_error_in_preparing_a_point_is_deferred(error: Exception) -> None:
    """Neither a tick nor `take` raises it: the current point must be recorded first."""
    round_ = PreparedRound(None, error)
    assert round_.pipeline.take() is round_.prepared[0]
    round_.pipeline.tick_for(running_point(stimulus(seconds=10), 8.0), lambda *_: None)(9.0, 0)

    assert round_.pipeline.take() is None
    assert round_.pipeline.deferred_error is error


def test_leaving_a_round_ends_every_prepared_point() -> None:
    """Both the taken point and the prepared one are ended when the round is left early."""
    round_ = PreparedRound(None, None, None)
    with round_.exit_stack:
        round_.pipeline.take()
        round_.pipeline.tick_for(running_point(stimulus(seconds=1)), lambda *_: None)

    assert [cast("Any", point.program).ended for point in round_.prepared] == [True, True]
