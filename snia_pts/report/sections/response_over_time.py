"""The response times of the tracked points over the time of a loop: average, 99.9 % and maximum of each round."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial

from ...analysis.window import interruption_marks
from ...model.measurement import Measurement
from ...results.result import Loop, TestResult
from ...results.tracked_series import tracked_series
from ..figures import matrices
from ..figures.timeplots import responses
from ..pages import Figure, Page
from .convergence import tracked_styles

#: The response times of a measurement in ms, by the labels of the figure.
_QUANTITIES: Mapping[str, matrices.Reduction] = {
    "average": matrices.average_response_ms,
    "99.9 %": partial(matrices.percentile_response_ms, percent=99.9),
    "maximum": matrices.maximum_response_ms,
}


def response_time_page(result: TestResult, loop: Loop) -> Iterator[Page]:
    """Yield the page of the tracked points over time; none without a round, or if another tool measured."""
    if not loop.complete or result.facts.imported:
        return
    tracked, times = tracked_series(result, loop), ends(loop)
    shown: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for variable in tracked.rule.tracked:
        measured = [round_.point(variable) for round_ in loop.complete]
        shown[tracked.label(variable)] = {
            name: [(times[id(point)], reduce([point])) for point in measured] for name, reduce in _QUANTITIES.items()
        }
    values = [y for curves in shown.values() for curve in curves.values() for _, y in curve]
    if not any(map(math.isfinite, values)):
        return
    points = f"point{'s' * (len(shown) > 1)}"
    is_mixed = any(0 < stimulus.read_percent < 100 for stimulus in tracked.stimuli)
    few_ios = any(math.isnan(time_ms) for curves in shown.values() for _, time_ms in curves["99.9 %"])
    together = ", reads and writes together," if is_mixed else ""
    figure = Figure(
        name="response-over-time",
        caption=f"Average, 99.9 % and maximum response time of the tracked {points}{together} in every round, against "
        "the time since the first round began; each value stands at the end of its measurement."
        f"{' Interruptions of the run do not count.' * bool(interruption_marks(loop.complete))}"
        f"{' 99.9 % is missing below 1 000 I/Os.' * few_ios}",
        alt="Line plot: average, 99.9 % and maximum response time in ms, log, against time; a colour per point.",
        draw=partial(responses, shown, tracked_styles(result, [tracked])),
    )
    yield Page(title=f"Tracked {points.capitalize()} - Response Time vs Time", blocks=(figure,))


def ends(loop: Loop) -> dict[int, float]:
    """Return the end of each measurement by its identity, in seconds since the loop began.

    The time of an interruption is unknown and does not count.
    """
    ended: dict[int, float] = {}
    elapsed_ns, before = 0, None
    for measured in loop.rounds:
        for measurement in measured.measurements:
            elapsed_ns += _gap_ns(before, measurement)
            elapsed_ns += measurement.timing.ended_monotonic_ns - measurement.timing.started_monotonic_ns
            ended[id(measurement)] = elapsed_ns / 1e9
            before = measurement
    return ended


def _gap_ns(before: Measurement | None, measurement: Measurement) -> int:
    if before is None or before.timing.interruptions != measurement.timing.interruptions:
        return 0
    return measurement.timing.started_monotonic_ns - before.timing.ended_monotonic_ns
