"""The points that are not steady in a steady measurement window: the standard judges the tracked variables alone."""

from __future__ import annotations

from collections.abc import Mapping

from ..analysis.steady_state import SteadyState, determine
from ..model.measurement import METRICS
from ..model.steps import Stimulus
from ..spec import loop_rule
from .result import Loop, TestResult


def unsteady_points(result: TestResult, loop: Loop) -> Mapping[Stimulus, SteadyState]:
    """Return the points of a loop's window that exceed the limits of the tracked variables, in the order measured.

    Each point is evaluated for the metric of the tracked variables.  Empty if the window is not steady: then its
    verdict says it.  The keys are those of ``TestResult.points``.
    """
    rule = loop_rule(result.facts.spec)
    if rule is None or not loop.steady:
        return {}
    metric, first_round = METRICS[rule.tracked[0].metric], loop.window_rounds[0].number
    states = {
        point: determine([metric.read(measurement) for measurement in measured], rule, first_round=first_round)
        for point, measured in result.points(loop).items()
    }
    return {point: state for point, state in states.items() if state.evaluable and not state.steady}
