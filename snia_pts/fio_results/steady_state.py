"""Judge the steady state of each point over the last rounds of an import, by the rule of the standard's IOPS test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from ..analysis.steady_state import SteadyState, determine
from ..model.measurement import METRICS
from ..results.result import TestResult
from ..spec import MetricName, SteadyStateRule
from ..spec.kinds import IopsSpec
from ..spec.reader import read_specification


@dataclass(frozen=True, slots=True, kw_only=True)
class PointSteadyState:
    """The determination of one point: IOPS of random access, MB/s of sequential access."""

    point: str
    metric: MetricName
    determination: SteadyState


@cache
def steady_state_rule() -> SteadyStateRule:
    """Return the rule of the IOPS test in PTS 2.0.2: window and excursions."""
    spec = read_specification("iops", "2.0.2", "enterprise").spec
    if not isinstance(spec, IopsSpec):
        raise TypeError("the IOPS test has another kind of specification")
    return spec.steady_state


def steady_states(result: TestResult) -> Iterator[PointSteadyState]:
    """Yield the determination of every point with enough rounds."""
    for loop in result.loops:
        rounds = loop.complete[-steady_state_rule().window_rounds :]
        if len(rounds) < steady_state_rule().window_rounds:
            continue
        measurements = [measured_round.measurements[0] for measured_round in rounds]
        metric: MetricName = "mb_per_second" if measurements[0].stimulus.access == "SEQ" else "iops"
        values = [METRICS[metric].read(measurement) for measurement in measurements]
        yield PointSteadyState(
            point=loop.part,
            metric=metric,
            determination=determine(values, steady_state_rule(), first_round=rounds[0].number),
        )
