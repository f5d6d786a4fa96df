"""The key figures of a test with rounds: its tracked points over the windows, and the points that are not steady."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from ...analysis.steady_state import SteadyState
from ...model.measurement import FIVE_NINES, METRICS, Measurement
from ...model.steps import Stimulus, mix
from ...results.result import Loop, TestResult
from ...results.tracked_series import untracked_reads
from ...results.unsteady_points import unsteady_points
from ...spec import loop_rule
from ...units import KIB, counted
from ..figures import matrices
from ..header import window_rounds
from ..pages import Block, Prose
from ..tables import NOT_APPLICABLE, Column, Table, significant
from .rounds_written import is_fresh, rounds_written_note


def key_figures(result: TestResult, loops: Sequence[Loop]) -> Iterator[Block]:
    """Yield the table of the loops' tracked points and of the reads beside them over their windows; none without one.

    Sentences explain the marks, and what the response times of mixed points are.
    """
    rows: list[tuple[str, str, tuple[Measurement, ...], str]] = []
    for loop in loops:
        determinations = loop.window.determinations if loop.window else ()
        verdicts = {variable: "yes" if state.steady else "NO" for variable, state in determinations}
        verdicts |= dict.fromkeys(untracked_reads(loop), NOT_APPLICABLE)
        marks = matrices.marks(result, [loop])
        for variable, steady in verdicts.items():
            measured = tuple(window_round.point(variable) for window_round in loop.window_rounds)
            mark = marks.get(matrices.size_and_mix(measured[0].stimulus), "")
            rows.append((mark, window_rounds(result, loop), measured, steady))
    if not rows:
        return
    shown_marks, window_spans, points, steady_column = zip(*rows, strict=True)
    names = [matrices.marked(mark, point[0].stimulus.label) for mark, point in zip(shown_marks, points, strict=True)]
    values = (
        significant(map(matrices.iops, points)),
        significant(map(matrices.mb_per_second, points)),
        significant(map(matrices.average_response_ms, points)),
        significant(matrices.percentile_response_ms(measured, FIVE_NINES) for measured in points),
        significant(map(matrices.maximum_response_ms, points)),
    )
    headings = {"IOPS": 9, "MB/s": 8, matrices.art_heading(result): 19, f"{FIVE_NINES:g} % (ms)": 13, "MRT (ms)": 10}
    columns = (
        Column(heading="Point", width=19),
        Column(heading="Rounds", width=12),
        *(Column(heading=heading, align="right", width=width) for heading, width in headings.items()),
        Column(heading=f"Steady ({_tracked_metric(result)})", align="center", width=13),
    )
    table_rows = tuple(zip(names, window_spans, *values, steady_column, strict=True))
    yield Table(kind="numbers", columns=columns, rows=table_rows, title="Key figures of the measurement window")
    no_tail = NOT_APPLICABLE in values[3] and not result.facts.imported
    notes = (
        matrices.mixed_times(measured.stimulus for point in points for measured in point),
        f"{FIVE_NINES:g} % is n/a: it needs 100 000 I/Os." if no_tail else "",
        _count_of_unsteady(result, loops),
        *(rounds_written_note(result, loop) for loop in loops if is_fresh(loop)),
        "MRT: midpoint of a bin of the model." if result.facts.dut.simulated else "",
        matrices.foot(shown_marks),
    )
    if any(notes):
        yield Prose(text=" ".join(filter(None, notes)))


def _tracked_metric(result: TestResult) -> str:
    """Return the short name of the metric of the tracked variables: IOPS, MB/s or ART."""
    rule = loop_rule(result.facts.spec)
    metric = rule.tracked[0].metric if rule else "iops"
    return "ART" if metric == "average_response_ms" else METRICS[metric].unit


def unsteady_points_note(result: TestResult, loops: Sequence[Loop]) -> str:
    """Return sentences on the points that are not steady in the loops' windows; empty if there are none."""
    unsteady = _unsteady(result, loops)
    if not unsteady:
        return ""
    count = _count_of_unsteady(result, loops)
    if len(unsteady) == 1:
        ((point, state),) = unsteady.items()
        data_percent, slope_percent = state.percent_texts(decimals=1)
        excursions = f"data excursion {data_percent} %, slope excursion {slope_percent} %"
        return f"{count} It is {point.label} ({excursions})."
    return f"{count} They are {_by_mix(unsteady, _points(result, loops))}. {_largest(unsteady)}"


def values_note(
    result: TestResult, loops: Sequence[Loop], title: str, *, marks: matrices.Marks = matrices.NO_MARKS
) -> str:
    """Return the end of a figure's caption: its ``marks``, and the page with its values.

    If the figure has no marks but the page has, the note counts the points that are not steady.
    """
    values = f' Values: page "{title}".'
    if marks:
        return f"{matrices.shown_marks(marks, points=len(_points(result, loops)))}{values}"
    unsteady = not_steady(result, loops)
    return f"{values} {unsteady}, marked there." if unsteady else values


def not_steady(result: TestResult, loops: Sequence[Loop]) -> str:
    """Return how many points are not steady: ``2 of 56 points are not steady in the window``; empty if none."""
    unsteady, points = _unsteady(result, loops), counted(len(_points(result, loops)), "point")
    are = "is" if len(unsteady) == 1 else "are"
    return f"{len(unsteady)} of {points} {are} not steady in the window" if unsteady else ""


def _points(result: TestResult, loops: Sequence[Loop]) -> list[Stimulus]:
    return [point for loop in loops for point in result.points(loop)]


def _unsteady(result: TestResult, loops: Sequence[Loop]) -> dict[Stimulus, SteadyState]:
    """Return the points that are not steady in the loops' windows; empty if a window is not: the verdict says it."""
    if not all(loop.steady for loop in loops):
        return {}
    return {point: state for loop in loops for point, state in unsteady_points(result, loop).items()}


def _count_of_unsteady(result: TestResult, loops: Sequence[Loop]) -> str:
    """Return a sentence on the number of points that are not steady; empty if there are none."""
    unsteady, rule = not_steady(result, loops), loop_rule(result.facts.spec)
    if rule is None or not unsteady:
        return ""
    return (
        f"{unsteady} (data excursion above {rule.data_excursion_percent:g} % or slope excursion above "
        f"{rule.slope_excursion_percent:g} %); only tracked variables decide steady state."
    )


def _by_mix(unsteady: Collection[Stimulus], points: Collection[Stimulus]) -> str:
    """Return points by R/W mix: ``R/W 95/5: 8, 4, 0.5 KiB; 65/35: all block sizes``."""
    sizes: dict[int, list[str]] = {}
    for point in unsteady:
        sizes.setdefault(point.read_percent, []).append(f"{point.largest_block_bytes / KIB:g}")
    texts = []
    for share, of_mix in sizes.items():
        are_all = len(of_mix) == sum(point.read_percent == share for point in points) > 1
        texts.append(f"{mix(share)}: {'all block sizes' if are_all else ', '.join(of_mix) + ' KiB'}")
    return f"R/W {'; '.join(texts)}"


def _largest(unsteady: Mapping[Stimulus, SteadyState]) -> str:
    """Return a sentence on the largest data excursion and the largest slope excursion of several points."""
    data_point, data = max(unsteady.items(), key=lambda entry: entry[1].data_excursion_percent)
    slope_point, slope = max(unsteady.items(), key=lambda entry: entry[1].slope_excursion_percent)
    data_percent, slope_percent = data.percent_texts(decimals=1)[0], slope.percent_texts(decimals=1)[1]
    return (
        f"The largest data excursion is {data_percent} % ({data_point.label}), "
        f"the largest slope excursion {slope_percent} % ({slope_point.label})."
    )
