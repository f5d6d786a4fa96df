"""The plots P1 to P15 of the demand intensity and composite workload tests (PTS 2.0.2 chapters 14 and 13)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ...analysis.operating_points import DemandMean, OperatingPoint, demand_means, operating_points
from ...model.measurement import METRICS, Measurement, mean
from ...model.steps import Demand, Stimulus, mix
from ...results.attributes import PERCENTS
from ...results.result import TestResult
from ...spec import DemandSpec
from ...spec.sections import SampledSteadyStateRule
from ...units import KIB, duration, number
from ..figures import columns_3d, demand_figures, matrices, timeplots
from ..figures import figure as figures
from ..figures.figure import Grid, Side
from ..figures.surface_3d import has_surface, surface
from ..figures.timelines import IOPS, Series, series
from ..figures.timeplots import Dots, Mark
from ..header import loop_rounds, pattern_sizes
from ..pages import Figure, Page, Prose
from ..sections import confidence
from ..sections import steady_state as steady
from ..sections.convergence import convergence_page
from ..sections.host_share import line_note, verdicts_note
from ..sections.percentiles import tail_matrices

#: For each operating point, the numbers of two plots: its pre-write, and the histogram after it.
AT_POINTS = {"Max IOPS": ("P9", "P10"), "Mid IOPS": ("P11", "P12"), "Min IOPS": ("P13", "P14")}
#: The most rounds labelled in one plot.
_MAX_MARKS = 20
#: How the values in a figure of IOPS and response times are computed.
_IOPS_AND_ART = "IOPS are means of rounds {}; ART is weighted by I/O count over all their I/Os"


def demand_spec(result: TestResult) -> DemandSpec:
    if not isinstance(result.facts.spec, DemandSpec):
        raise ValueError("these are the pages of a demand intensity test")
    return result.facts.spec


def window_means(result: TestResult) -> tuple[DemandMean, ...]:
    loop = result.loop()
    return demand_means(loop.window_rounds) if loop else ()


def chosen_points(result: TestResult) -> tuple[OperatingPoint, ...]:
    return operating_points(window_means(result), demand_spec(result).operating_points)


def place(stimulus: Stimulus) -> tuple[int, int]:
    return stimulus.queue_depth, stimulus.thread_count


def sides(result: TestResult) -> tuple[Side, Side]:
    """Return Queue Depths and Thread Counts, ascending."""
    loop = demand_spec(result).demand
    return matrices.queue_depths(loop), matrices.thread_counts(loop)


# -- plots ------------------------------------------------------------------------------------------------------------


def plots(result: TestResult) -> Iterator[tuple[str, Page]]:
    """Yield every plot's page with its number, in order."""
    for name, pages in (
        ("P1", _preconditioning(result)),
        ("P2", steady.window_pages(result, result.sampling) if result.sampling else ()),
        ("P3", _inter_round(result)),
        ("P4", _convergence(result)),
        ("P5", _window_pages(result)),
        ("P6", _demand_variation(result)),
        ("P7", _demand_intensity(result)),
        ("P8", _host_cpu(result)),
    ):
        yield from ((name, page) for page in pages)
    yield from _at_points(result)
    if demand_spec(result).test == "composite":
        yield from (("P15", page) for page in _by_total_oio(result))


def _stimulus_label(stimulus: Stimulus) -> str:
    return f"{stimulus.label}, {stimulus.demand.label}"


def _time_page(
    shown: Sequence[Series],
    *,
    title: str,
    name: str,
    caption: str,
    marks: Sequence[Mark] = (),
    dots: Sequence[Dots] = (),
) -> Page:
    alt = f"Line plot: IOPS against time. {caption}"
    if sum(len(part.curve.x) for part in shown) < 2:
        rates = [f"{number(rate)} IOPS in its only sample" for part in shown for rate in part.curve.values.tolist()]
        return Page(title=title, blocks=(Prose(text=f"{caption} No plot: {rates[0]}."),))
    return timeplots.page(
        shown, title=title, name=name, caption=caption, alt=alt, ylabel="IOPS", marks=marks, dots=dots
    )


def _preconditioning(result: TestResult) -> Iterator[Page]:
    line, rule = result.time_line("PC"), demand_spec(result).settling
    if line is None or not len(line):
        return
    yield _time_page(
        [series(line, IOPS)],
        title="Preconditioning - IOPS vs Time",
        name="pc-iops",
        caption=f"{_stimulus_label(line.stimulus)}: IOPS of samples of {duration(rule.sample_seconds)}; steady state "
        f"is evaluated on {_evaluated_samples(rule)}. {line_note(result, line)}".rstrip(),
        dots=timeplots.window_dots(result.sampling, line),
    )


def _evaluated_samples(rule: SampledSteadyStateRule) -> str:
    """Return which samples of a stimulus stand for rounds: ``sample 1, 31, 61 and so on``."""
    first, second, third = (rule.first_sample + place * rule.stride_samples for place in range(3))
    return f"samples {first}, {second}, {third} and so on"


def _inter_round(result: TestResult) -> Iterator[Page]:
    """Yield the plot of all pre-writes placed end to end; the rounds between them are not shown."""
    lines = [line for line in result.lines("pre-write") if line.part not in AT_POINTS and len(line)]
    if not lines:
        return
    seconds = demand_spec(result).demand.pre_write_seconds
    placed = [(place * seconds, line) for place, line in enumerate(lines)]
    verdicts = {line.part: result.host_limited(line.measurements) for line in lines if line.measurements}
    yield _time_page(
        [series(line, IOPS, shift=shift) for shift, line in placed],
        title="Inter-Round Pre-Writes - IOPS vs Time",
        name="inter-round-iops",
        caption=f"{_stimulus_label(lines[0].stimulus)}: {duration(seconds)} before each round, placed end to end; the "
        "points of the rounds between them are not shown. A sample is drawn at its end; the label of a round is before "
        f"its first sample. {verdicts_note(result, verdicts, noun='pre-write')}".rstrip(),
        marks=[
            Mark(x=shift + line.seconds[0] / 2, name=line.part, short=line.part.rpartition(" ")[2])
            for shift, line in placed[:: 1 + len(placed) // _MAX_MARKS]
        ],
    )


def _window_pages(result: TestResult) -> Iterator[Page]:
    """Yield the pages of the window of the loop, each with the host limits of the tracked points."""
    loop = result.loop()
    if loop is None:
        return
    verdicts = {
        stimulus.demand.label: verdict
        for stimulus, verdict in result.host_limited_points(loop).items()
        for tracked in demand_spec(result).steady_state.tracked
        if (stimulus.thread_count, stimulus.queue_depth) == (tracked.thread_count, tracked.queue_depth)
    }
    note = verdicts_note(result, verdicts)
    for page in steady.window_pages(result, loop):
        yield replace(page, blocks=(*page.blocks, Prose(text=note))) if note else page


def _convergence(result: TestResult) -> Iterator[Page]:
    loop, (depths, threads) = result.loop(), sides(result)
    if loop is None:
        return
    largest = threads.keys[-1]
    yield from convergence_page(
        loop,
        METRICS["iops"],
        lambda stimulus: stimulus.demand,
        {Demand(thread_count=largest, queue_depth=depth): str(depth) for depth in depths.keys},
        title=f"TC={largest} IOPS vs Round, All QD",
        name="convergence",
        caption=f"IOPS at Thread Count {largest} and every Queue Depth over all rounds. "
        f"{host_note(result, thread_count=largest)}".rstrip(),
        legend="Queue Depth",
        log=False,
    )


def pattern_name(result: TestResult, read_percent: int) -> str:
    """Return the pattern at a R/W mix for captions: ``RND 8 KiB 65/35``, ``RND 0.5 - 64 KiB mix 40/60``.

    The sizes are those that ran: a drive with 4096 byte sectors cannot run smaller ones.
    """
    line, spec = result.time_line("PC"), demand_spec(result)
    sizes = [share.size_bytes / KIB for share in line.stimulus.block_shares] if line else []
    size_range = f"{min(sizes):g} - {max(sizes):g} KiB mix" if sizes else pattern_sizes(spec)
    return f"{spec.pattern.access} {size_range} {mix(read_percent)}"


def grid(result: TestResult, reduce: matrices.Reduction) -> Grid:
    """Return a value for every Queue Depth and Thread Count over the window; empty without a window."""
    loop = result.loop()
    return matrices.reduced([loop], reduce, place) if loop else {}


def marks(result: TestResult) -> matrices.Marks:
    """Return the marks of the points by (Queue Depth, Thread Count)."""
    loop = result.loop()
    return matrices.marks(result, [loop], place) if loop else matrices.NO_MARKS


def host_note(result: TestResult, *, thread_count: int | None = None, marked: bool = False) -> str:
    """Return the sentences on the host limits of all points, or of those with one Thread Count; may be empty."""
    loop = result.loop()
    points = result.host_limited_points(loop) if loop else {}
    verdicts = {
        stimulus.demand.label: points[stimulus]
        for stimulus in sorted(points, key=lambda stimulus: stimulus.demand)
        if thread_count in (None, stimulus.thread_count)
    }
    return verdicts_note(result, verdicts, marked=marked)


def chosen_verdicts(result: TestResult) -> Mapping[str, bool | None]:
    """Return whether the host limited each operating point, by its name."""
    loop = result.loop()
    rounds = loop.window_rounds if loop else ()
    measured = {
        point.name: matrices.over(rounds, (point.demand.queue_depth, point.demand.thread_count), place)
        for point in chosen_points(result)
    }
    return {name: result.host_limited(repeats) for name, repeats in measured.items()}


def _demand_variation(result: TestResult) -> Iterator[Page]:
    values, (depths, threads) = grid(result, matrices.iops), sides(result)
    if not values:
        return
    origin, shown_marks = source(result), marks(result)
    lines = Figure(
        name="demand-variation",
        caption=f"IOPS at every Queue Depth, one line per Thread Count. {origin} {host_note(result)}".rstrip(),
        alt="Line plot: IOPS, linear from zero, against Queue Depth (log), one line per Thread Count.",
        draw=partial(figures.matrix_lines, values, depths, threads, heading="IOPS", log=False),
    )
    yield Page(title="Demand Variation", blocks=(lines,))
    if has_surface(values, depths, threads):
        surface_figure = Figure(
            name="demand-variation-surface",
            caption=f"IOPS over Queue Depth and Thread Count, on a linear scale from zero. {origin}"
            f"{matrices.shown_marks(shown_marks)} {host_note(result, marked=True)}".rstrip(),
            alt="Surface in three dimensions: IOPS over Queue Depth, to the right, and Thread Count, in depth.",
            draw=partial(surface, values, depths, threads, heading="IOPS", marks=shown_marks),
        )
        yield Page(title="Demand Variation - Surface", blocks=(surface_figure,))


def source(result: TestResult, what: str = "means of rounds {}") -> str:
    """Return a caption sentence on the pattern and on how the values were computed.

    ``what`` has a ``{}`` for the rounds.
    """
    pattern = pattern_name(result, demand_spec(result).pattern.read_percent)
    return f"{pattern}; {what.format(loop_rounds(result))}."


def _demand_intensity(result: TestResult) -> Iterator[Page]:
    means, limit = window_means(result), demand_spec(result).operating_points.maximum_art_ms
    if not means:
        return
    limited = {name for name, verdict in chosen_verdicts(result).items() if verdict}
    caption = (
        f"ART against IOPS, one line per Thread Count over its Queue Depths. {source(result, _IOPS_AND_ART)} The "
        f"line at {limit:g} ms is the ART limit of the Max and Mid IOPS points; large open marks are the operating "
        f"points{f' ({matrices.HOST_LIMITED}: host-limited)' * bool(limited)}. {host_note(result)}"
    )
    figure = Figure(
        name="demand-intensity",
        caption=caption.rstrip(),
        alt=f"Line plot: average response time in ms, log, against IOPS, with a line at {limit:g} ms.",
        draw=partial(demand_figures.intensity, means, chosen_points(result), limit, limited),
    )
    yield Page(title="Demand Intensity", blocks=(figure,))


def _host_cpu(result: TestResult) -> Iterator[Page]:
    values, (depths, threads) = host_cpu(result), sides(result)
    if not values:
        return
    figure = Figure(
        name="host-cpu",
        caption=f"Utilisation of all host CPUs together by all processes, in percent. {source(result)} "
        "The values are in the table of all points.",
        alt="Columns in three dimensions: host CPU utilisation in percent over Queue Depth and Thread Count.",
        draw=partial(
            columns_3d.columns,
            values,
            depths,
            threads,
            heading="Host CPU (%)",
            view=(grid(result, matrices.iops),),  # that of the surface of IOPS
        ),
    )
    yield Page(title="Host CPU Utilisation", blocks=(figure,))


def host_cpu(result: TestResult) -> Grid:
    """Return the host's CPU utilisation in percent at every point; empty unless it was measured at every point."""

    def utilisation(measured: Sequence[Measurement]) -> float:
        percents = (measurement.host_cpu_percent for measurement in measured)
        return mean(math.nan if percent is None else percent for percent in percents)

    values = grid(result, utilisation)
    return values if all(map(math.isfinite, values.values())) else {}


def _at_points(result: TestResult) -> Iterator[tuple[str, Page]]:
    for point, (before, after) in AT_POINTS.items():
        line, name = result.time_line("pre-write", point), point.split()[0].lower()
        if line is not None and len(line):
            page = _time_page(
                [series(line, IOPS)],
                title=f"{point} Pre-Write - IOPS vs Time",
                name=f"pre-write-{name}",
                caption=f"{_stimulus_label(line.stimulus)}, before the response time histogram of the {point} point. "
                f"{line_note(result, line)}".rstrip(),
            )
            yield before, page
        line = result.time_line("histogram", point)
        if line is not None and line.measurements:
            mrt = number(confidence.confidence(line).maximum_ms)
            title = f"{point} Response Time Histogram, MRT = {mrt} ms"
            yield after, confidence.page(result, line, title=title, name=f"histogram-{name}")


def percentiles_page(result: TestResult) -> Iterator[Page]:
    """Yield the plots of the 99 % and 99.9 % response times of reads and of writes against IOPS."""
    found = list(tail_matrices(result))
    if not found:
        return
    panels = {
        f"{matrix.title}: {PERCENTS[column]:g} %": {
            Demand(thread_count=threads, queue_depth=depth): time_ms
            for (threads, depth), time_ms in matrix.times_ms(column).items()
        }
        for column in ("two_nines_response_us", "three_nines_response_us")
        for matrix in found
    }
    sides = " and ".join(matrix.title.lower() for matrix in found)
    computed = "IOPS are reads and writes together, means of rounds {}; percentiles are those of all their I/Os"
    figure = Figure(
        name="percentiles-over-iops",
        caption=f"99 % and 99.9 % response time of {sides} against IOPS, one line per Thread Count over its Queue "
        f"Depths. {source(result, computed)} Points with too few I/Os for a percentile are not shown. "
        f"{host_note(result)}".rstrip(),
        alt=f"Line plots: 99 % and 99.9 % response time of {sides} in ms, log, against IOPS.",
        draw=partial(demand_figures.percentiles_over_iops, window_means(result), panels, len(found)),
        height=demand_figures.TAIL_HEIGHT,
    )
    yield Page(title="Response Time Percentiles vs IOPS", blocks=(figure,))


def _by_total_oio(result: TestResult) -> Iterator[Page]:
    means, limit = window_means(result), demand_spec(result).operating_points.maximum_art_ms
    if not means:
        return
    figure = Figure(
        name="total-oio",
        caption=f"IOPS and ART against Total OIO, one line per Thread Count. {source(result, _IOPS_AND_ART)} "
        f"{host_note(result)}".rstrip(),
        alt="Two line plots above each other: IOPS, and average response time in ms (log), against Total OIO (log).",
        draw=partial(demand_figures.by_total_oio, means, limit),
    )
    yield Page(title="IOPS and ART vs Total OIO", blocks=(figure,))
