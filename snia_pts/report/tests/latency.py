"""The pages of the latency test's report (PTS 2.0.2 chapter 9), one plot or table a page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from ...model.measurement import FIVE_NINES, METRICS
from ...model.steps import mix
from ...model.time_series import TimeLine
from ...results.result import Loop, TestResult
from ...spec import LatencySpec
from ...units import block_size, duration, number
from ..figures import columns_3d, matrices
from ..figures.dashboard import heat_map
from ..figures.figure import Side
from ..header import Rows, chart_conditions, demand, loop_parameters, loop_setup, write_cache
from ..pages import Block, Figure, Page, Prose
from ..sections import confidence
from ..sections.convergence import convergence_page, dashboard
from ..sections.key_figures import key_figures, unsteady_points_note, values_note
from ..sections.percentiles import percentile_pages
from ..sections.provenance import provenance
from ..sections.response_over_time import response_time_page
from ..sections.steady_state import all_sizes_window_page, rounds_page, spans, too_few, window_pages
from ..sections.summary import summary

Result = TestResult[LatencySpec]

_AVERAGE = METRICS["average_response_ms"]
_FIVE_NINES = partial(matrices.percentile_response_ms, percent=FIVE_NINES)
_CLASSES = {"enterprise": "PTS-E", "client": "PTS-C"}

#: Headings of tables, and how their cells are computed.
Reductions = tuple[tuple[str, matrices.Reduction], ...]
_TABLES_1_1: Reductions = (
    (matrices.WEIGHTED, matrices.average_response_ms),
    ("Maximum response time (ms), maximum of the window", matrices.maximum_response_ms),
    ("Maximum response time (ms), mean of the rounds' maxima", matrices.mean_of_maxima_ms),
)
_TABLES: Reductions = (
    ("IOPS", matrices.iops),
    _TABLES_1_1[0],
    (f"{FIVE_NINES:g} % response time (ms)", _FIVE_NINES),
    *_TABLES_1_1[1:],
)


def pages(result: Result) -> tuple[Page, ...]:
    """Return all pages that ``result`` has data for, the summary first."""
    loop = result.loop() or Loop(part="", rounds=(), window=None)
    measured = (
        *_convergence(result, loop),
        *all_sizes_window_page(result, loop, _AVERAGE, *matrices.writes(result.facts.spec.rounds)),
        *window_pages(result, loop),
        *response_time_page(result, loop),
        *rounds_page(result, loop),
        *_matrix(result, loop),
        *percentile_pages(result, loop),
        *_histogram(result),
    )
    first_figures = (*_dashboard(result, loop), *key_figures(result, [loop]), *_histogram_figures(result))
    first = summary(result, omitted=_omitted(result, loop), figures=first_figures)
    return (first, *measured, provenance(result))


def setup(result: Result) -> Rows:
    """Return the Setup Parameters."""
    spec = result.facts.spec
    return loop_setup(result, spec, block_size(spec.preconditioning.block_size_bytes))


def parameters(result: Result) -> Rows:
    """Return the Test Parameters; Test Stimulus 2 is the histogram's."""
    spec = result.facts.spec
    histogram = spec.histogram
    if histogram is None:
        return loop_parameters(result, spec)
    pattern = f"RND {block_size(histogram.block_size_bytes)} {mix(histogram.read_percent)}"
    stimulus = f"{pattern}, {duration(histogram.seconds)}"
    return loop_parameters(result, spec, second=(stimulus, demand(histogram.thread_count, histogram.queue_depth)))


def _dashboard(result: Result, loop: Loop) -> Iterator[Figure]:
    values, rounds = matrices.reduced([loop], matrices.average_response_ms), result.facts.spec.rounds
    sizes, _ = matrices.measured_sizes(matrices.sizes(rounds), values)
    marks = matrices.marks(result, [loop])
    caption, mixes = f"{matrices.heading(result, matrices.WEIGHTED)}, {spans([loop])}", matrices.mixes(rounds)
    yield from dashboard(result, heat_map(values, sizes, mixes, heading=_AVERAGE.heading, caption=caption, marks=marks))


def _omitted(result: Result, loop: Loop) -> str:
    """Return a sentence on the pages that have no data, and why; empty if all have data."""
    sentences, spec = [], result.facts.spec
    if loop.window is None:
        missing = "measurement window, tabular data and 3D columns"
        if not loop.complete:
            missing = f"convergence plots, response time vs time, tracked variables by round, {missing}"
        sentences.append(
            f"{too_few(loop.complete, spec.steady_state)} {missing[0].upper()}{missing[1:]} omitted: no data."
        )
    if spec.histogram is not None and _histogram_line(result) is None:
        sentences.append("Response time histogram omitted: its run did not complete.")
    return " ".join(sentences)


def _convergence(result: Result, loop: Loop) -> Iterator[Page]:
    spec = result.facts.spec
    share, lines = matrices.writes(spec.rounds)
    for name, metric, log in (("Average", _AVERAGE, False), ("Maximum", matrices.MAXIMUM_RESPONSE, True)):
        yield from convergence_page(
            loop,
            metric,
            matrices.size_and_mix,
            lines,
            title=f"{spec.title} Steady State Convergence Plot - {name} Response Time, R/W {mix(share)}",
            name=f"convergence-{name.lower()}",
            caption=f"{name} response time of every block size over all rounds, R/W {mix(share)}, "
            f"TOIO {demand(spec.setup.thread_count, spec.setup.queue_depth)}. {chart_conditions(result)}.",
            legend="Block size",
            log=log,
        )


def _matrix(result: Result, loop: Loop) -> Iterator[Page]:
    if loop.window is None:
        return
    spec = result.facts.spec
    sizes, mixes, window = matrices.sizes(spec.rounds), matrices.mixes(spec.rounds), spans([loop])
    name = f"{spec.title} - All RW Mix & BS"
    reductions = _TABLES_1_1 if spec.pts == "1.1" else _TABLES
    flows = not (matrices.fits_a_page(sizes, mixes) and len(sizes.keys) <= len(reductions))
    blocks = tuple(_tables(result, loop, reductions, sizes, mixes, window))
    values_page = f"{name} - Tabular Data"
    yield Page(title=values_page, blocks=blocks, flows=flows)
    for title, metric, reduce in (
        ("Average", _AVERAGE, matrices.average_response_ms),
        ("Maximum", matrices.MAXIMUM_RESPONSE, matrices.maximum_response_ms),
    ):
        values = {at: value for at, value in matrices.reduced([loop], reduce).items() if math.isfinite(value)}
        measured, _ = matrices.measured_sizes(sizes, matrices.reduced([loop], matrices.iops))
        marks = matrices.marks(result, [loop])
        of_window = "" if title == "Average" else ", maximum of the window"
        figure = Figure(
            name=f"matrix-3d-{title.lower()}",
            caption=f"{metric.label} over block size and R/W mix{of_window}; {window}."
            f"{values_note(result, [loop], values_page, marks=marks)}",
            alt=f"Columns in three dimensions: {metric.heading} over block size and R/W mix, linear scale from zero.",
            draw=partial(columns_3d.columns, values, measured, mixes, heading=metric.heading, marks=marks),
        )
        yield Page(title=f"{name} - {title} Response Time - 3D Columns", blocks=(figure,))


def _tables(
    result: Result, loop: Loop, reductions: Reductions, sizes: Side, mixes: Side, window: str
) -> Iterator[Block]:
    setup = result.facts.spec.setup
    test_class = _CLASSES[result.facts.test_class]
    conditions = f"{test_class}, {write_cache(result)}, T{setup.thread_count}/Q{setup.queue_depth}"
    yield Prose(text=conditions, kind="lead")
    too_few_ios, marks = False, matrices.marks(result, [loop])
    for title, reduce in reductions:
        values = matrices.reduced([loop], reduce)
        too_few_ios = too_few_ios or any(map(math.isnan, values.values()))
        heading = matrices.heading(result, title)
        yield from matrices.matrix_tables(values, sizes, mixes, title=f"{heading}, {window}", marks=marks)
    sentences = ["R/W in percent of the I/Os.", matrices.measured_sizes(sizes, values)[1]]
    sentences += [
        matrices.mixed_times(point.stimulus for point in loop.window_rounds[0].measurements),
        unsteady_points_note(result, [loop]),
    ]
    if not result.facts.imported:
        sentences.append(
            "Averages here are weighted by I/O count; steady state is determined from the average of each round."
        )
    if reductions is not _TABLES_1_1:
        sentences.append(f"Percentiles come from the merged bins of the window's rounds. {matrices.bin_width(result)}")
    if too_few_ios:
        sentences.append(matrices.FIVE_NINES_MISSING)
    yield Prose(text=" ".join(filter(None, (*sentences, matrices.foot(marks.values())))))


def _histogram_line(result: Result) -> TimeLine | None:
    line = result.time_line("histogram")
    return line if line is not None and line.measurements else None


def _histogram_figures(result: Result) -> Iterator[Prose]:
    """Yield sentences on the response times of the histogram, and why they can differ from those of the window."""
    line, spec = _histogram_line(result), result.facts.spec
    if line is None or spec.histogram is None:
        return
    interval = confidence.confidence(line)
    times = (f"{marker.name} {number(marker.ms)} ms" for marker in interval.markers if marker.ms is not None)
    yield Prose(
        text=f"Histogram of {line.stimulus.label}, {line.stimulus.demand.label}: {number(interval.iops)} IOPS, "
        f"{', '.join(times)}. It was measured after the loop, in {duration(spec.histogram.seconds)} without a break. "
        "The standard asks for both: the loop's figures in the tables, the histogram as a plot. "
        f"{_ratios(result, line)}In the loop, this point is written for {duration(spec.rounds.point_seconds)} a round; "
        "longer writes can start garbage collection."
    )


def _ratios(result: Result, line: TimeLine) -> str:
    """Return a sentence that compares the histogram's longest response times with the loop's; empty if none are known.

    Without enough I/Os for the percentile, only the maxima are compared.
    """
    loop = result.loop()
    of_loop = matrices.over(loop.window_rounds, matrices.size_and_mix(line.stimulus)) if loop else ()
    quantities: dict[str, matrices.Reduction] = {f"{FIVE_NINES:g} %": _FIVE_NINES, "MRT": matrices.maximum_response_ms}
    ratios = {name: reduce(line.measurements) / reduce(of_loop) for name, reduce in quantities.items()}
    texts = [f"{name} is {number(ratio, digits=2)} times" for name, ratio in ratios.items() if math.isfinite(ratio)]
    return f"In the histogram, {' and '.join(texts)} as long as in the loop. " if texts else ""


def _histogram(result: Result) -> Iterator[Page]:
    line = _histogram_line(result)
    if line is not None:
        title = "LAT Response Time Histogram - Confidence Level Plot"
        yield confidence.page(result, line, title=title, name="confidence")
