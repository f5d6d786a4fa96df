"""The pages of the IOPS test's report (PTS 2.0.2 chapter 7), one plot or table a page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from ...model.measurement import FIVE_NINES, METRICS
from ...model.steps import mix
from ...results.result import Loop, TestResult
from ...spec import IopsSpec
from ...units import block_size
from ..figures import columns_3d, matrices
from ..figures import figure as figures
from ..figures.dashboard import heat_map
from ..header import Rows, chart_conditions, demand, loop_parameters, loop_setup
from ..pages import Figure, Page, Prose
from ..sections.array import predicted_iops_page
from ..sections.convergence import convergence_page, dashboard, tracked_figure
from ..sections.key_figures import key_figures, unsteady_points_note, values_note
from ..sections.percentiles import percentile_pages
from ..sections.provenance import provenance
from ..sections.response_over_time import response_time_page
from ..sections.steady_state import all_sizes_window_page, rounds_page, spans, too_few, window_pages
from ..sections.summary import summary

Result = TestResult[IopsSpec]


def pages(result: Result) -> tuple[Page, ...]:
    """Return all pages that ``result`` has data for, the summary first."""
    loop = result.loop() or Loop(part="", rounds=(), window=None)
    measured = (
        *_convergence(result, loop),
        *all_sizes_window_page(result, loop, METRICS["iops"], *matrices.writes(result.facts.spec.rounds)),
        *window_pages(result, loop),
        *response_time_page(result, loop),
        *rounds_page(result, loop),
        *_matrix(result, loop),
        *percentile_pages(result, loop),
        *predicted_iops_page(result, loop),
    )
    first_figures = (*_dashboard(result, loop), *key_figures(result, [loop]))
    first = summary(result, omitted=_omitted(result, loop), figures=first_figures)
    return (first, *measured, provenance(result))


def setup(result: Result) -> Rows:
    """Return the Setup Parameters."""
    spec = result.facts.spec
    return loop_setup(result, spec, block_size(spec.preconditioning.block_size_bytes))


def parameters(result: Result) -> Rows:
    """Return the Test Parameters."""
    return loop_parameters(result, result.facts.spec)


def _dashboard(result: Result, loop: Loop) -> Iterator[Figure]:
    values, rounds = matrices.reduced([loop], matrices.iops), result.facts.spec.rounds
    sizes, _ = matrices.measured_sizes(matrices.sizes(rounds), values)
    marks = matrices.marks(result, [loop])
    caption, mixes = f"IOPS, mean over {spans([loop])}", matrices.mixes(rounds)
    yield from dashboard(result, heat_map(values, sizes, mixes, heading="IOPS", caption=caption, marks=marks))


def _omitted(result: Result, loop: Loop) -> str:
    """Return a sentence on the pages that have no data, and why; empty if all have data."""
    if loop.window is not None:
        return ""
    missing = "measurement window, tabular data, 2D plot and 3D columns"
    if not loop.complete:
        missing = f"convergence plot, response time vs time, tracked variables by round, {missing}"
    return (
        f"{too_few(loop.complete, result.facts.spec.steady_state)} {missing[0].upper()}{missing[1:]} omitted: no data."
    )


def _convergence(result: Result, loop: Loop) -> Iterator[Page]:
    spec = result.facts.spec
    share, lines = matrices.writes(spec.rounds)
    yield from convergence_page(
        loop,
        METRICS["iops"],
        matrices.size_and_mix,
        lines,
        title=f"{spec.title} Steady State Convergence Plot - All Block Sizes",
        name="convergence",
        caption=f"IOPS of every block size over all rounds, R/W {mix(share)}, "
        f"TOIO {demand(spec.setup.thread_count, spec.setup.queue_depth)}. {chart_conditions(result)}.",
        legend="Block size",
        tracked=tracked_figure(result, loop) if loop.complete else None,
    )


def _matrix(result: Result, loop: Loop) -> Iterator[Page]:
    if loop.window is None:
        return
    spec, values = result.facts.spec, matrices.reduced([loop], matrices.iops)
    sizes, mixes = matrices.sizes(spec.rounds), matrices.mixes(spec.rounds)
    window = spans([loop])
    name = f"{spec.title} - All RW Mix & BS"
    measured, missing_sizes = matrices.measured_sizes(sizes, values)
    explanation = "IOPS of a mixed point are reads and writes together. R/W in percent of the I/Os."
    marks = matrices.marks(result, [loop])
    tables = matrices.matrix_tables(values, sizes, mixes, title=f"IOPS, mean over {window}", marks=marks)
    unsteady, values_page = unsteady_points_note(result, [loop]), f"{name} - Tabular Data"
    flows = not matrices.fits_a_page(sizes, mixes)
    yield Page(
        title=values_page,
        blocks=(*tables, _notes(explanation, missing_sizes, unsteady, matrices.foot(marks.values()))),
        flows=flows,
    )
    yield _times_page(result, loop, sizes, mixes)
    yield Page(
        title=f"{name} - 2D Plot",
        blocks=(
            Figure(
                name="matrix-2d",
                caption=f"IOPS against block size, one line per R/W mix; mean over {window}."
                f"{matrices.covered_lines(values, measured, mixes)}"
                f"{values_note(result, [loop], values_page)}",
                alt="Line plot: IOPS against block size, both on log scales, one line per R/W mix.",
                draw=partial(figures.matrix_lines, values, measured, mixes, heading="IOPS"),
            ),
        ),
    )
    yield Page(
        title=f"{name} - 3D Columns",
        blocks=(
            Figure(
                name="matrix-3d",
                caption=f"IOPS over block size and R/W mix; mean over {window}."
                f"{values_note(result, [loop], values_page, marks=marks)}",
                alt="Columns in three dimensions: IOPS over block size and R/W mix, linear scale from zero.",
                draw=partial(columns_3d.columns, values, measured, mixes, heading="IOPS", marks=marks),
            ),
        ),
    )


def _notes(*sentences: str) -> Prose:
    return Prose(text=" ".join(filter(None, sentences)))


def _times_page(result: Result, loop: Loop, sizes: figures.Side, mixes: figures.Side) -> Page:
    five_nines = partial(matrices.percentile_response_ms, percent=FIVE_NINES)
    reductions = (
        (matrices.WEIGHTED, matrices.average_response_ms),
        (f"{FIVE_NINES:g} % response time (ms)", five_nines),
        ("Maximum response time (ms), maximum of the window", matrices.maximum_response_ms),
        ("Throughput (MB/s, decimal)", matrices.mb_per_second),
    )
    marks, window = matrices.marks(result, [loop]), spans([loop])
    grids = [(f"{title}, {window}", matrices.reduced([loop], reduce)) for title, reduce in reductions]
    tables = tuple(
        table
        for title, values in grids
        if not result.facts.imported or any(map(math.isfinite, values.values()))
        for table in matrices.matrix_tables(values, sizes, mixes, title=title, marks=marks)
    )
    has_missing = any(map(math.isnan, matrices.reduced([loop], five_nines).values()))
    notes = _notes(
        matrices.mixed_times(point.stimulus for point in loop.window_rounds[0].measurements),
        matrices.FIVE_NINES_MISSING * (has_missing and not result.facts.imported),
        "" if result.facts.imported else matrices.bin_width(result),
        matrices.foot(marks.values()),
    )
    shown_notes = (notes,) if notes.text else ()
    return Page(title="Response Time and Throughput - Tabular Data", blocks=(*tables, *shown_notes), flows=True)
