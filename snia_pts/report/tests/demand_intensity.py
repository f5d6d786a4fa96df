"""The pages of the demand intensity and composite workload tests (PTS 2.0.2 chapters 14 and 13): plots P1 to P15."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ...analysis.operating_points import (
    DemandMean,
    OperatingPoint,
    alternative_points,
    exceeds_art_limit,
    noise_percent,
)
from ...model.measurement import FIVE_NINES
from ...model.steps import mix
from ...model.time_series import TimeLine
from ...results.result import TestResult
from ...spec import OperatingPoints
from ...spec.reader import definitions
from ...units import block_size, duration
from ..figures import matrices
from ..figures.dashboard import heat_map
from ..figures.figure import Grid, Side
from ..header import (
    Rows,
    alignment,
    demand,
    loop_rounds,
    notes,
    pattern,
    pattern_sizes,
    range_and_amount,
    segments,
    window_rounds,
)
from ..pages import Block, Page, Prose
from ..sections import confidence
from ..sections import steady_state as steady
from ..sections.convergence import dashboard
from ..sections.percentiles import percentile_pages
from ..sections.provenance import provenance
from ..sections.summary import summary
from ..tables import NOT_APPLICABLE, Column, Table, facts, significant, thousands
from .demand_plots import (
    AT_POINTS,
    chosen_points,
    demand_spec,
    grid,
    host_cpu,
    host_limited,
    pattern_name,
    percentiles_page,
    place,
    plots,
    sides,
    source,
    window_means,
)

_ALL_POINTS_SOURCE = (
    "are means of rounds {}; average response times are weighted by I/O count over all their I/Os; percentiles are "
    "those of all their I/Os, reads and writes together (n/a: fewer than 100 000); maximum response times are the "
    "maxima of these rounds"
)
_HOST_CPU = "Host CPU utilisation by all processes (%)"
#: A larger difference between the IOPS of a histogram and those of the loop is noted.
_NOTED_PERCENT = 10.0
_PLOTS = tuple(f"P{number}" for number in range(1, 15))


def pages(result: TestResult) -> tuple[Page, ...]:
    """Return all pages that ``result`` has data for, the summary first; plots have the standard's numbers."""
    numbered = [(name, replace(page, title=f"{name} {page.title}")) for name, page in plots(result)]
    return (
        summary(result, omitted=_omitted(result, {name for name, _ in numbered}), figures=_first_page(result)),
        Page(
            title="Operating Points and Access Pattern",
            blocks=tuple(_details(result)),
            flows=True,
            brief=True,
            summary=True,
        ),
        *(page for _, page in numbered),
        *_tables(result),
        *percentiles_page(result),
        *percentile_pages(result, result.loop()),
        *(page for judged in (result.sampling, result.loop()) if judged for page in steady.rounds_page(result, judged)),
        provenance(result),
    )


def _omitted(result: TestResult, plot_names: set[str]) -> str:
    """Return a sentence on the plots that have no data, and why; empty if all have data."""
    expected = (*_PLOTS, "P15") if result.facts.spec.test == "composite" else _PLOTS
    missing = [name for name in expected if name not in plot_names]
    if not missing:
        return ""
    loop, reason = result.loop(), ""
    if loop is None or loop.window is None:
        reason = steady.too_few(loop.complete if loop else (), demand_spec(result).steady_state)
    elif "P8" in missing:
        simulated = result.facts.dut.simulated
        reason = f"The host's CPU utilisation {'is not simulated' if simulated else 'was not measured at every point'}."
    return f"{reason} {', '.join(missing)} omitted: no data.".strip()


# -- numbers ----------------------------------------------------------------------------------------------------------


def _first_page(result: TestResult) -> Iterator[Block]:
    values, (depths, threads) = grid(result, matrices.iops), sides(result)
    by_threads = {(count, depth): value for (depth, count), value in values.items()}
    limited = frozenset((count, depth) for depth, count in host_limited(result))
    yield from dashboard(result, heat_map(by_threads, threads, depths, "IOPS", limited))
    yield from _key_figures(result)


def _key_figures(result: TestResult) -> Iterator[Block]:
    points, limit = chosen_points(result), demand_spec(result).operating_points.maximum_art_ms
    if exceeds_art_limit(points, limit):
        yield Prose(
            text=f"No point kept its ART below {limit:g} ms: the Max IOPS point is the one with the lowest ART.",
            kind="bad",
        )
    if points:
        yield from _points_table(result, points)


def _details(result: TestResult) -> Iterator[Block]:
    """Yield the points that another run may choose, the operating points' response times, and the access pattern."""
    if chosen_points(result):
        yield from _alternatives(result)
    lines = {point: result.time_line("histogram", point) for point in AT_POINTS}
    histograms = {
        f"{point} {line.stimulus.demand.label}": confidence.confidence(line)
        for point, line in lines.items()
        if line and line.measurements
    }
    if histograms:
        yield confidence.table(histograms, title="Response time histograms")
        yield from _rate_differences(result, lines)
    yield _pattern_table(result)


def _rate_differences(result: TestResult, lines: Mapping[str, TimeLine | None]) -> Iterator[Block]:
    """Yield a sentence on histograms whose IOPS differ from those of their operating point in the loop."""
    differences = [
        (point.name, 100 * (confidence.confidence(line).iops / point.iops - 1))
        for point in chosen_points(result)
        if (line := lines[point.name]) and line.measurements and line.stimulus.demand == point.demand and point.iops
    ]
    texts = [
        f"{name} {abs(percent):.1f} % {'lower' if percent < 0 else 'higher'}"
        for name, percent in differences
        if abs(percent) > _NOTED_PERCENT
    ]
    if texts:
        limit = f"{_NOTED_PERCENT:g} %"
        yield Prose(text=f"IOPS of histograms that differ from the loop by more than {limit}: {', '.join(texts)}.")


def _points_table(result: TestResult, points: Sequence[OperatingPoint]) -> Iterator[Block]:
    loop = result.loop()
    rounds = loop.window_rounds if loop else ()
    measured = [matrices.over(rounds, (point.demand.queue_depth, point.demand.thread_count), place) for point in points]
    limited = frozenset(
        point.name for point, repeats in zip(points, measured, strict=True) if result.host_limited(repeats)
    )
    cells = (
        [f"{matrices.MARK} {point.name}" if point.name in limited else point.name for point in points],
        [demand(point.demand.thread_count, point.demand.queue_depth) for point in points],
        significant(point.target_iops for point in points),
        significant(point.iops for point in points),
        significant(point.art_ms for point in points),
        significant(matrices.percentile_response_ms(repeats, FIVE_NINES) for repeats in measured),
        significant(map(matrices.maximum_response_ms, measured)),
    )
    headings = ("Best or target IOPS", "IOPS", matrices.art_heading(result), f"{FIVE_NINES:g} % (ms)", "MRT (ms)")
    table_columns = (
        Column(heading="Operating point", width=16),
        Column(heading="TOIO - TC/QD", width=20),
        *(Column(heading=heading, align="right", width=13) for heading in headings),
    )
    title = f"Operating points, rounds {loop_rounds(result)} of the loop"
    yield Table(kind="numbers", columns=table_columns, rows=tuple(zip(*cells, strict=True)), title=title)
    if limited:
        yield Prose(text=matrices.foot(limited))
    rule = _selection_rule(demand_spec(result).operating_points)
    mixed = any(0 < measurement.stimulus.read_percent < 100 for repeats in measured for measurement in repeats)
    yield Prose(text=f"{rule} Response times are those of reads and writes together." if mixed else rule)


def _selection_rule(rule: OperatingPoints) -> str:
    """Return how the operating points are chosen."""
    near = f"{rule.tolerance_percent:g} %"
    return (
        f"Max IOPS: of the points within {near} of the best IOPS, the one with the lowest Total OIO, and of these the "
        "one with the fewest threads. Mid IOPS: the target is the middle between best and Min IOPS; of the point "
        f"nearest to it and those that are at most {near} of the target farther away, the same choice. Min IOPS: the "
        f"lowest Total OIO. Only points with an ART below {rule.maximum_art_ms:g} ms count. The {near} are this "
        "suite's tolerance."
    )


def _alternatives(result: TestResult) -> Iterator[Block]:
    """Yield the points that another run may choose as Max and as Mid IOPS, with the reason; nothing without any."""
    means, rule = window_means(result), demand_spec(result).operating_points
    rows = [(name, _format_points(points)) for name, points in alternative_points(means, rule).items() if points]
    if rows:
        percent = definitions().operating_points.confidence_percent
        yield facts(rows, title="Operating points that another run may choose instead", label_width=32)
        yield Prose(
            text="The points are in the order of Total OIO (T4Q16: Thread Count 4, Queue Depth 16). A run chooses the "
            "first point within the tolerance. The list has all points that noise can bring within the tolerance, up "
            f"to the first that it cannot bring outside. The noise is {noise_percent(means, rule):.1f} % of the IOPS: "
            f"the difference between two points may change by this from run to run ({percent:g} % confidence). Drift "
            "that all points have in common does not count."
        )


def _format_points(means: Sequence[DemandMean]) -> str:
    """Return the demands of points, and their IOPS: ``T6Q16, T4Q32 (97 to 99 IOPS)``."""
    iops = [thousands(value, 0) for value in sorted(mean.iops for mean in means)]
    labels = ", ".join(mean.demand.label for mean in means)
    return f"{labels} ({' to '.join(dict.fromkeys((iops[0], iops[-1])))} IOPS)"


def _pattern_table(result: TestResult) -> Table:
    spec, line = demand_spec(result), result.time_line("PC")
    chosen, shares = spec.pattern, line.stimulus.block_shares if line else ()
    sizes = ", ".join(f"{block_size(share.size_bytes)} {share.percent} %" for share in shares)
    skew = ", ".join(
        f"{zone.access_percent} % of the accesses to {_part(place, len(chosen.skew))} {zone.range_percent} %"
        for place, zone in enumerate(chosen.skew)
    )
    rows = (
        ("Access, R/W mix", f"{chosen.access}, {mix(chosen.read_percent)}"),
        ("Block sizes", sizes or pattern_sizes(spec)),
        ("Access skew", f"{skew} of the ActiveRange" if skew else "none: uniform over the ActiveRange"),
        *(alignment(line.stimulus) if line else ()),
    )
    return facts(rows, title=f"Access pattern: {spec.pattern.title}")


def _part(place: int, count: int) -> str:
    """Return the words before a part of the ActiveRange."""
    return "the first" if not place else "the remaining" if place == count - 1 else "the next"


def _tables(result: TestResult) -> Iterator[Page]:
    """Yield the page of all points, TC x QD."""
    depths, threads = sides(result)
    limited = frozenset((down, across) for across, down in host_limited(result))
    cpu = host_cpu(result)
    averaged = "IOPS and CPU utilisation" if cpu else "IOPS"
    grids = (
        ("IOPS", grid(result, matrices.iops)),
        (matrices.heading(result, matrices.WEIGHTED), grid(result, matrices.average_response_ms)),
        (
            f"{FIVE_NINES:g} % response time (ms)",
            grid(result, partial(matrices.percentile_response_ms, percent=FIVE_NINES)),
        ),
        ("Maximum response time (ms)", grid(result, matrices.maximum_response_ms)),
        (_HOST_CPU, cpu),
    )
    tables = [
        table
        for title, values in grids
        if values
        for table in matrices.matrix_tables(
            _transposed(values),
            threads,
            depths,
            title=title,
            decimals=1 if title == _HOST_CPU else None,
            marked=frozenset() if title == _HOST_CPU else limited,
        )
    ]
    if tables:
        text = source(result, f"{averaged} {_ALL_POINTS_SOURCE}")
        yield Page(
            title="All Points, TC x QD",
            blocks=(*tables, Prose(text=f"{text} {matrices.foot(limited)}".strip())),
            flows=True,
        )


def _transposed(values: Grid) -> Grid:
    return {(down, across): value for (across, down), value in values.items()}


# -- header -----------------------------------------------------------------------------------------------------------


def setup(result: TestResult) -> Rows:
    """Return the ten Setup Parameters."""
    spec = demand_spec(result)
    conditioning = spec.conditioning
    heaviest = demand(conditioning.thread_count, conditioning.queue_depth)
    return (
        ("Data Pattern", pattern(spec)),
        ("AR", f"{spec.setup.active_range_percent} %"),
        ("AR Segments", segments(result)),
        ("Pre Condition 1", pattern_name(result, conditioning.read_percent)),
        ("TOIO - TC/QD", heaviest),
        ("SS Rounds", window_rounds(result, result.sampling)),
        ("Inter-Round Pre W", mix(conditioning.read_percent)),
        ("TOIO - TC/QD", heaviest),
        ("Duration", duration(spec.demand.pre_write_seconds)),
        ("Notes", notes(result)),
    )


_LOOP_ORDERS = {"total-oio": "High to Low TOIO", "tc-major": "TC outer, QD inner", "qd-major": "QD outer, TC inner"}


def parameters(result: TestResult) -> Rows:
    """Return the ten Test Parameters."""
    spec, (depths, threads) = demand_spec(result), sides(result)
    points = chosen_points(result)
    chosen = {point.name: demand(point.demand.thread_count, point.demand.queue_depth) for point in points}
    skew = ", ".join(f"{zone.access_percent}/{zone.range_percent}" for zone in spec.pattern.skew)
    return (
        ("Data Pattern", pattern(spec)),
        ("AR & Amount", range_and_amount(result)),
        ("Test Stimulus 1", pattern_name(result, spec.pattern.read_percent)),
        ("TC & QD", f"TC {_format_range(threads)}, QD {_format_range(depths)}"),
        ("Access Skew", skew or "none"),
        ("TC & QD Loops", _LOOP_ORDERS[spec.demand.order]),
        ("Steady State", loop_rounds(result)),
        *((f"{name} Point", chosen.get(name, NOT_APPLICABLE)) for name in ("Min IOPS", "Mid IOPS", "Max IOPS")),
    )


def _format_range(side: Side) -> str:
    return " - ".join(dict.fromkeys((side.labels[0], side.labels[-1])))
