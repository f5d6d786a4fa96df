"""The report of an imported run of fio: the pages of a profile, and the steady state of its rounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..model.measurement import METRICS, NINES
from ..profiles.report import parts
from ..profiles.report.parts import comparison, key_figures, parameters, plots, point_matrices
from ..profiles.report.points import PlacedPoint, ProfileResult, placed_points
from ..report.figures.matrices import maximum_response_ms, percentile_response_ms
from ..report.header import Rows, pattern
from ..report.pages import Page, Prose
from ..report.tables import NOT_APPLICABLE, Column, Table, aligned
from ..units import counted
from .steady_state import PointSteadyState, steady_state_rule, steady_states

_PERCENTS = (50.0, 90.0, 99.0, *NINES)
_PERCENTILES = (
    "From the bins of all rounds; without bins, fio's own percentiles of a point that was measured once and only reads "
    "or only writes. n/a: unknown, or too few I/Os (99.999 % needs 100 000)."
)
__all__ = ["comparison", "key_figures", "overview", "pages", "parameters", "plots", "point_matrices", "setup"]


def pages(result: ProfileResult) -> tuple[Page, ...]:
    """Return the pages of a profile, with the steady state of the rounds and the percentiles of response times."""
    summary, *others, provenance = parts.pages(result)
    percentiles = tuple(_percentile_pages(placed_points(result)))
    judged = list(steady_states(result))
    if not judged:
        return (summary, *others, *percentiles, provenance)
    at = next((number for number, block in enumerate(summary.blocks) if isinstance(block, Table)), 0)
    blocks = (*summary.blocks[:at], _verdict(judged), *summary.blocks[at:])
    return (replace(summary, blocks=blocks), _steady_page(judged), *others, *percentiles, provenance)


def overview(result: ProfileResult) -> Iterator[Table]:
    """Yield the tables that summarise a run on a terminal; the steady state of its points first."""
    if judged := list(steady_states(result)):
        yield _table(judged)
    yield from parts.overview(result)


def setup(result: ProfileResult) -> Rows:
    """Return the Setup Parameters; those that a result of fio does not state say so."""
    changed = dict.fromkeys(("Purge", "Fill", "Host settings", "Write cache"), "not stated")
    changed["Order"] = "by time in the files" if result.facts.started else "by name of the files"
    if dict(parts.setup(result))["Data Pattern"] == pattern(result.facts.spec):
        changed["Data Pattern"] = "fio's default"
    return tuple((name, changed.get(name, value)) for name, value in parts.setup(result))


def _verdict(judged: list[PointSteadyState]) -> Prose:
    steady = sum(point.determination.steady for point in judged)
    text = f"{steady} of {counted(len(judged), 'point')} steady in the last {steady_state_rule().window_rounds} rounds"
    return Prose(text=text, kind="good" if steady == len(judged) else "bad")


def _steady_page(judged: list[PointSteadyState]) -> Page:
    rule = steady_state_rule()
    text = (
        f"By the rule of PTS 2.0.2: the range of the last {rule.window_rounds} rounds is at most "
        f"{rule.data_excursion_percent:g} % of their average, and their best fit rises or falls by at most "
        f"{rule.slope_excursion_percent:g} %. Each point is judged by itself, on IOPS of random and MB/s of "
        "sequential access. The rounds are the repeats of the points, in the order of the times in the files."
    )
    return Page(title="Steady State", blocks=(_verdict(judged), Prose(text=text), _table(judged)), flows=True)


def _percentile_pages(placed: Sequence[PlacedPoint]) -> Iterator[Page]:
    """Yield the percentiles of all points, unless there are none."""
    values = {percent: [percentile_response_ms(spot.measured, percent) for spot in placed] for percent in _PERCENTS}
    known = {f"{percent:g} %": column for percent, column in values.items() if any(map(math.isfinite, column))}
    if not known:
        return
    known["Max."] = [maximum_response_ms(spot.measured) for spot in placed]
    columns = (
        Column(heading="Point", width=34),
        *(Column(heading=heading, align="right", width=66 // len(known)) for heading in known),
    )
    cells = zip(*(aligned(column) for column in known.values()), strict=True)
    rows = tuple((spot.point.name, *row) for spot, row in zip(placed, cells, strict=True))
    table = Table(kind="numbers", columns=columns, rows=rows, title="Response times (ms) by percentile")
    yield Page(title="Response Time Percentiles", blocks=(table, Prose(text=_PERCENTILES)), flows=True)


def _table(judged: list[PointSteadyState]) -> Table:
    columns = (
        Column(heading="Point", width=34),
        Column(heading="Judged on", width=10),
        Column(heading="Rounds", align="right", width=10),
        Column(heading="Average", align="right", width=12),
        Column(heading=f"Range (%), at most {steady_state_rule().data_excursion_percent:g}", align="right", width=12),
        Column(heading=f"Slope (%), at most {steady_state_rule().slope_excursion_percent:g}", align="right", width=12),
        Column(heading="Steady", width=10),
    )
    averages = aligned([point.determination.average for point in judged])
    rows = tuple(_row(point, average) for point, average in zip(judged, averages, strict=True))
    return Table(kind="numbers", columns=columns, rows=rows, title="Steady state of each point")


def _row(point: PointSteadyState, average: str) -> tuple[str, ...]:
    state = point.determination
    percents = state.percent_texts(decimals=1) if state.evaluable else (NOT_APPLICABLE, NOT_APPLICABLE)
    rounds = f"{state.rounds[0]} - {state.rounds[-1]}"
    return (point.point, METRICS[point.metric].unit, rounds, average, *percents, "yes" if state.steady else "NO")
