"""Which points of a measurement window are steady: the standard judges the tracked variables alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ..analysis.steady_state import SteadyState, determine
from ..model.measurement import METRICS
from ..model.steps import Stimulus
from ..spec import SteadyStateRule, loop_rule
from .result import Loop, TestResult


def unsteady_points(result: TestResult, loop: Loop) -> Mapping[Stimulus, SteadyState]:
    """Return the points of a loop's window that exceed the limits of the tracked variables, in the order measured.

    Each point is evaluated for the metric of the tracked variables.  Empty if the window is not steady: then its
    verdict says it.  The keys are those of ``TestResult.points``.
    """
    states = _point_states(result, loop) if loop.steady else {}
    return {point: state for point, state in states.items() if state.evaluable and not state.steady}


def steady_points(result: TestResult, loop: Loop) -> Mapping[Stimulus, bool | None]:
    """Return whether each point of a loop is within the limits of the tracked variables in a steady window.

    None for a point that cannot be evaluated.  No point is steady in a window that is not, or after preconditioning
    that was not.  Empty if the test requires no steady state of its rounds.  The keys are those of
    ``TestResult.points``.
    """
    if loop_rule(result.facts.spec) is None:
        return {}
    if not loop_is_steady(result, loop):
        return dict.fromkeys(result.points(loop), False)
    states = _point_states(result, loop)
    return {point: state.steady if state.evaluable else None for point, state in states.items()}


def loop_is_steady(result: TestResult, loop: Loop) -> bool:
    """Return whether the window of a loop is steady; after preconditioning that was not steady, none is."""
    return loop.steady and "preconditioning" not in result.unsteady


def _point_states(result: TestResult, loop: Loop) -> Mapping[Stimulus, SteadyState]:
    """Return the determination of each point in a loop's window; empty if the test has no rule for its rounds."""
    rule = loop_rule(result.facts.spec)
    if rule is None:
        return {}
    metric, first_round = METRICS[rule.tracked[0].metric], loop.window_rounds[0].number
    return {
        point: _state(tuple(metric.read(measurement) for measurement in measured), rule, first_round)
        for point, measured in result.points(loop).items()
    }


@lru_cache(maxsize=256)  # many tables and figures of a report mark the same points
def _state(values: tuple[float, ...], rule: SteadyStateRule, first_round: int) -> SteadyState:
    return determine(values, rule, first_round=first_round)
