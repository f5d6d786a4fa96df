"""The key figures of a test with rounds: its tracked points over the windows, and the points that are not steady."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...analysis.steady_state import SteadyState, determine
from ...model.measurement import FIVE_NINES, METRICS, Measurement
from ...results.result import Loop, TestResult
from ...results.tracked_series import tracked_series
from ...spec import loop_rule
from ...units import counted
from ..figures import matrices
from ..header import window_rounds
from ..pages import Block, Prose
from ..tables import NOT_APPLICABLE, Column, Table, significant
from .rounds_written import is_fresh, rounds_written_note


def key_figures(result: TestResult, loops: Sequence[Loop]) -> Iterator[Block]:
    """Yield the table of the loops' tracked points over their windows; none without a window.

    Sentences explain the mark of host-limited points, and what the response times of mixed points are.
    """
    rows: list[tuple[str, str, tuple[Measurement, ...], str]] = []
    for loop in loops:
        tracked = tracked_series(result, loop)
        for variable, determination in tracked.window.determinations if tracked.window else ():
            measured = tuple(window_round.point(variable) for window_round in loop.window_rounds)
            steady = "yes" if determination.steady else "NO"
            rows.append((tracked.label(variable), window_rounds(result, loop), measured, steady))
    if not rows:
        return
    points = [measured for _, _, measured, _ in rows]
    limited = frozenset(index for index, measured in enumerate(points) if result.host_limited(measured))
    values = (
        significant(map(matrices.iops, points)),
        significant(map(matrices.mb_per_second, points)),
        significant(map(matrices.average_response_ms, points)),
        significant(matrices.percentile_response_ms(measured, FIVE_NINES) for measured in points),
        significant(map(matrices.maximum_response_ms, points)),
    )
    headings = {"IOPS": 9, "MB/s": 8, matrices.art_heading(result): 22, f"{FIVE_NINES:g} % (ms)": 13, "MRT (ms)": 10}
    columns = (
        Column(heading="Tracked variable", width=20),
        Column(heading="Rounds", width=12),
        *(Column(heading=heading, align="right", width=width) for heading, width in headings.items()),
        Column(heading="Steady", align="center", width=9),
    )
    names, window_spans, _, verdicts = zip(*rows, strict=True)
    marked = [f"{matrices.MARK} {name}" if index in limited else name for index, name in enumerate(names)]
    table_rows = tuple(zip(marked, window_spans, *values, verdicts, strict=True))
    yield Table(kind="numbers", columns=columns, rows=table_rows, title="Key figures of the measurement window")
    no_tail = NOT_APPLICABLE in values[3] and not result.facts.imported
    notes = (
        matrices.mixed_times(measured.stimulus for point in points for measured in point),
        f"{FIVE_NINES:g} % is n/a: it needs 100 000 I/Os." if no_tail else "",
        _unsteady_points(result, loops)[0],
        *(rounds_written_note(result, loop) for loop in loops if is_fresh(loop)),
        matrices.foot(limited),
    )
    if any(notes):
        yield Prose(text=" ".join(filter(None, notes)))


def unsteady_points_note(result: TestResult, loops: Sequence[Loop]) -> str:
    """Return sentences on the points that are not steady in the loops' windows; empty if there are none."""
    text, unsteady = _unsteady_points(result, loops)
    return f"{text} {_largest(unsteady)} Only tracked variables decide steady state." if unsteady else ""


def _unsteady_points(result: TestResult, loops: Sequence[Loop]) -> tuple[str, Sequence[tuple[str, SteadyState]]]:
    """Return a sentence on the number of points that are not steady in the loops' windows, and these points.

    Both are empty if all are steady, or if a window is not: then the verdict says it.  Each point is evaluated for the
    metric of the tracked variables.
    """
    rule = loop_rule(result.facts.spec)
    if rule is None or not all(loop.steady for loop in loops):
        return "", ()
    states: list[tuple[str, SteadyState]] = []
    for loop in loops:
        metric, first = METRICS[rule.tracked[0].metric], loop.window_rounds[0].number
        rounds = [measured.keyed_by(matrices.size_and_mix) for measured in loop.window_rounds]
        for key, point in rounds[0].items():
            values = [metric.read(points[key]) for points in rounds]
            states.append((point.stimulus.label, determine(values, rule, first_round=first)))
    unsteady = [(label, state) for label, state in states if state.evaluable and not state.steady]
    exceed = f"{len(unsteady)} of {counted(len(states), 'point')} exceed{'s' * (len(unsteady) == 1)} the limits of the"
    return (f"{exceed} tracked variables in the window." if unsteady else ""), unsteady


def _largest(unsteady: Sequence[tuple[str, SteadyState]]) -> str:
    """Return a sentence on the largest data excursion and the largest slope excursion of these points."""
    data_label, data = max(unsteady, key=lambda entry: entry[1].data_excursion_percent)
    slope_label, slope = max(unsteady, key=lambda entry: entry[1].slope_excursion_percent)
    data_percent, slope_percent = data.percent_texts(decimals=1)[0], slope.percent_texts(decimals=1)[1]
    if len(unsteady) == 1:
        return f"It is {data_label} (data excursion {data_percent} %, slope excursion {slope_percent} %)."
    return (
        f"The largest data excursion is {data_percent} % ({data_label}), "
        f"the largest slope excursion {slope_percent} % ({slope_label})."
    )
