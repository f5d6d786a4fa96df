"""The pages of the demand intensity and composite workload tests (PTS 2.0.2 chapters 14 and 13): plots P1 to P15."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from ...analysis.operating_points import (
    DemandMean,
    OperatingPoint,
    alternative_points,
    exceeds_art_limit,
    noise_percent,
)
from ...model.measurement import FIVE_NINES
from ...model.steps import mix
from ...results.result import TestResult
from ...results.tracked_series import stimulus_code
from ...spec import OperatingPoints
from ...spec.reader import definitions
from ...units import block_size, counted, decimals, duration, number
from ..figures import matrices
from ..figures.dashboard import heat_map
from ..figures.figure import Side
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
from ..sections.host_share import verdicts_note
from ..sections.percentiles import percentile_pages, too_few_ios
from ..sections.provenance import provenance
from ..sections.summary import summary
from ..tables import NOT_APPLICABLE, Column, Table, facts, significant, thousands
from .demand_plots import (
    AT_POINTS,
    chosen_points,
    chosen_verdicts,
    demand_spec,
    grid,
    host_cpu,
    host_note,
    marks,
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
    "those of all their I/Os, reads and writes together; maximum response times are the maxima of these rounds"
)
_HOST_CPU = "Host CPU utilisation by all processes (%)"
#: The title of the page after the summary.
_DETAILS = "Operating Points and Access Pattern"
#: A larger difference between the IOPS of a histogram and those of the loop is noted.
_NOTED_PERCENT = 5.0
_PLOTS = tuple(f"P{number}" for number in range(1, 15))
_Value = TypeVar("_Value")


def pages(result: TestResult) -> tuple[Page, ...]:
    """Return all pages that ``result`` has data for, the summary first; plots have the standard's numbers."""
    numbered = [(name, replace(page, title=f"{name} {page.title}")) for name, page in plots(result)]
    return (
        summary(result, omitted=_omitted(result, {name for name, _ in numbered}), figures=_first_page(result)),
        Page(
            title=_DETAILS,
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
    loop, sentences = result.loop(), []
    if missing and (loop is None or loop.window is None):
        sentences.append(steady.too_few(loop.complete if loop else (), demand_spec(result).steady_state))
    elif "P8" in missing:
        missing.remove("P8")
        reason = "is not simulated" if result.facts.dut.simulated else "was not measured at every point"
        sentences.append(f"P8 (host CPU utilisation) omitted: it {reason}.")
    if missing:
        sentences.append(f"{', '.join(missing)} omitted: no data.")
    return " ".join(sentences)


# -- numbers ----------------------------------------------------------------------------------------------------------


def _first_page(result: TestResult) -> Iterator[Block]:
    values, (depths, threads) = grid(result, matrices.iops), sides(result)
    by_threads = {(count, depth): value for (depth, count), value in values.items()}
    caption, shown_marks = f"IOPS, means of rounds {loop_rounds(result)}", _transposed(marks(result))
    yield from dashboard(
        result, heat_map(by_threads, threads, depths, heading="IOPS", caption=caption, marks=shown_marks)
    )
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
        yield from _histogram_times(result)
        yield from _uncertain_points(result)
        yield from _rate_differences(result)


def _details(result: TestResult) -> Iterator[Block]:
    """Yield the points that another run may choose, the operating points' response times, and the access pattern."""
    if chosen_points(result):
        yield from _alternatives(result)
    lines = {point: result.time_line("histogram", point) for point in AT_POINTS}
    measured = {point: line for point, line in lines.items() if line and line.measurements}
    if measured:
        verdicts = {point: result.host_limited(line.measurements) for point, line in measured.items()}
        histograms = {
            f"{f'{matrices.HOST_LIMITED} ' if verdicts[point] else ''}{point} {line.stimulus.demand.label}": (
                confidence.confidence(line)
            )
            for point, line in measured.items()
        }
        yield confidence.table(histograms, title="Response time histograms")
        yield from confidence.missing_percentiles(result, histograms.values())
        limited = [point for point, verdict in verdicts.items() if verdict]
        notes = (matrices.foot(limited), verdicts_note(result, verdicts, noun="histogram", marked=True))
        if any(notes):
            yield Prose(text=" ".join(filter(None, notes)))
        yield from _rate_differences(result)
    yield _pattern_table(result)


def _rate_differences(result: TestResult) -> Iterator[Block]:
    """Yield a sentence on histograms whose IOPS differ from those of their operating point in the loop, and why."""
    lines = ((point, result.time_line("histogram", point.name)) for point in chosen_points(result))
    differences = [
        (point.name, 100 * (confidence.confidence(line).iops / point.iops - 1))
        for point, line in lines
        if line and line.measurements and line.stimulus.demand == point.demand and point.iops
    ]
    texts = [
        f"{name} {abs(percent):.1f} % {'lower' if percent < 0 else 'higher'}"
        for name, percent in differences
        if abs(percent) > _NOTED_PERCENT
    ]
    if texts:
        spec, limit = demand_spec(result), f"{_NOTED_PERCENT:g} %"
        rule, point_time = spec.operating_points, duration(spec.demand.point_seconds)
        yield Prose(
            text=f"IOPS of histograms that differ from the loop by more than {limit}: {', '.join(texts)}. A "
            "histogram is measured after the loop and directly after a pre-write of "
            f"{duration(rule.pre_write_seconds)}; it lasts {duration(rule.histogram_seconds)}, a point of the loop "
            f"{point_time}."
        )


def _points_table(result: TestResult, points: Sequence[OperatingPoint]) -> Iterator[Block]:
    loop = result.loop()
    rounds = loop.window_rounds if loop else ()
    measured = [matrices.over(rounds, (point.demand.queue_depth, point.demand.thread_count), place) for point in points]
    by_place = marks(result)
    shown = [by_place.get((point.demand.queue_depth, point.demand.thread_count), "") for point in points]
    nines = [matrices.percentile_response_ms(repeats, FIVE_NINES) for repeats in measured]
    cells = (
        [matrices.marked(mark, point.name) for mark, point in zip(shown, points, strict=True)],
        [demand(point.demand.thread_count, point.demand.queue_depth) for point in points],
        significant(point.target_iops for point in points),
        significant(point.iops for point in points),
        significant(point.art_ms for point in points),
        significant(nines),
        significant(map(matrices.maximum_response_ms, measured)),
    )
    headings = ("Best or target IOPS", "IOPS", matrices.art_heading(result), f"{FIVE_NINES:g} % (ms)", "MRT (ms)")
    table_columns = (
        Column(heading="Operating point", width=16),
        Column(heading="TOIO - TC/QD", width=20),
        *(Column(heading=heading, align="right", width=13) for heading in headings),
    )
    title = f"Operating points, rounds {loop_rounds(result)}"
    yield Table(kind="numbers", columns=table_columns, rows=tuple(zip(*cells, strict=True)), title=title)
    notes = (matrices.foot(shown), verdicts_note(result, chosen_verdicts(result), marked=True))
    if any(notes):
        yield Prose(text=" ".join(filter(None, notes)))
    if any(map(math.isnan, nines)):
        yield Prose(text=confidence.no_five_nines(result, "the point has"))
    rule = _selection_rule(points, demand_spec(result).operating_points)
    mixed = any(0 < measurement.stimulus.read_percent < 100 for repeats in measured for measurement in repeats)
    yield Prose(text=f"{rule} Response times are those of reads and writes together." if mixed else rule)


def _selection_rule(points: Sequence[OperatingPoint], rule: OperatingPoints) -> str:
    """Return how the operating points are chosen."""
    near, has_limit = f"{rule.tolerance_percent:g} %", not exceeds_art_limit(points, rule.maximum_art_ms)
    (middle,) = (point for point in points if point.name == "Mid IOPS")
    nearest = min(middle.candidates, key=lambda candidate: abs(candidate.iops - middle.target_iops))
    distance = abs(nearest.iops - middle.target_iops)
    farthest = distance + rule.tolerance_percent / 100 * middle.target_iops
    target, away, most = (
        thousands(value, decimals(middle.target_iops)) for value in (middle.target_iops, distance, farthest)
    )
    highest = f"a point within {near} of the best IOPS is near enough" if has_limit else "the point with the lowest ART"
    limit = f" Max and Mid IOPS: only points with an ART below {rule.maximum_art_ms:g} ms count." * has_limit
    return (
        f"Max IOPS: {highest}. Mid IOPS: the target is the middle between best and Min IOPS. The nearest point, "
        f"{nearest.demand.label}, is {away} IOPS away. Points up to {away} + {near} of {target} = {most} IOPS from the "
        "target are near enough. Of all points that are near enough, the one with the lowest Total OIO is chosen; of "
        f"several with the same Total OIO, the one with the fewest threads. Min IOPS: the lowest Total OIO.{limit} The "
        f"{near} are this suite's tolerance."
    )


def _uncertain_points(result: TestResult) -> Iterator[Block]:
    """Yield a sentence on the operating points for which another run may choose other points.

    If these are most of the points, the operating point has a sentence of its own.
    """
    means, rule = window_means(result), demand_spec(result).operating_points
    noise, few = f"noise is {noise_percent(means, rule):.1f} % of the IOPS", []
    for name, others in alternative_points(means, rule).items():
        if 2 * len(others) > len(means):
            yield Prose(
                text=f"{name} cannot be distinguished from most other points in this run: the {noise}, and another run "
                f"may choose one of {len(others)} other points of {len(means)}, with {_format_iops(others)}.",
                kind="lead",
            )
        elif others:
            few.append(f"{counted(len(others), 'other point')} as {name}")
    if few:
        yield Prose(
            text=f"The {noise}, the tolerance {rule.tolerance_percent:g} %. Another run may choose one of "
            f'{" and ".join(few)} (page "{_DETAILS}").'
        )


def _histogram_times(result: TestResult) -> Iterator[Block]:
    """Yield a sentence with the longest response times of the histograms: they differ from those of the loop."""
    texts = []
    for point in chosen_points(result):
        line = result.time_line("histogram", point.name)
        if line and line.measurements and line.stimulus.demand == point.demand:
            times = confidence.confidence(line)
            longest = [
                f"{marker.name} = {number(marker.ms)} ms" for marker in times.markers[-2:] if marker.ms is not None
            ]
            texts.append(f"{point.name}: {', '.join(longest) or NOT_APPLICABLE}")
    if texts:
        seconds = duration(demand_spec(result).operating_points.histogram_seconds)
        yield Prose(
            text=f"The table is of the loop. The histograms measure the same points for {seconds} (page "
            f'"{_DETAILS}"): {"; ".join(texts)}.'
        )


def _alternatives(result: TestResult) -> Iterator[Block]:
    """Yield the points that another run may choose as Max and as Mid IOPS, with the reason; nothing without any."""
    means, rule = window_means(result), demand_spec(result).operating_points
    others = {name: points for name, points in alternative_points(means, rule).items() if points}
    if others:
        percent = definitions().operating_points.confidence_percent
        first = next(iter(others.values()))[0].demand
        rows = [(name, _format_points(points)) for name, points in others.items()]
        yield facts(rows, title="Operating points that another run may choose instead", label_width=32)
        yield Prose(
            text="A run chooses the first point in the order of Total OIO that is near enough by the rule in the "
            "summary. The table has the other points that are near enough in this run, and those that miss this by no "
            "more than the noise, but none after the first point that is near enough by more than the noise. The noise "
            f"is {noise_percent(means, rule):.1f} % of each point's IOPS: with {percent:g} % confidence, the "
            "difference between two points changes by no more than this from one run to another. This is estimated "
            "from the rounds of the window of this run; drift that all points have in common does not count. "
            f"{first.label}: Thread Count {first.thread_count}, Queue Depth {first.queue_depth}."
        )


def _format_points(means: Sequence[DemandMean]) -> str:
    """Return the demands of points, and their IOPS: ``T6Q16, T4Q32 (97 to 99 IOPS)``."""
    return f"{', '.join(mean.demand.label for mean in means)} ({_format_iops(means)})"


def _format_iops(means: Sequence[DemandMean]) -> str:
    """Return the lowest and the highest IOPS of points: ``97 to 99 IOPS``."""
    iops = [thousands(value, 0) for value in sorted(mean.iops for mean in means)]
    return f"{' to '.join(dict.fromkeys((iops[0], iops[-1])))} IOPS"


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
        *_pattern_names(result),
    )
    explanation = " (online transaction processing)" if spec.pattern.name == "oltp" else ""
    return facts(rows, title=f"Access pattern: {spec.pattern.title}{explanation}")


def _pattern_names(result: TestResult) -> Iterator[tuple[str, str]]:
    """Yield the names of the pattern in this report, if it has several."""
    loop = result.loop()
    stimuli = [measured.stimulus for measured in loop.rounds[0].measurements] if loop and loop.rounds else []
    if stimuli:
        names = (pattern_name(result, stimuli[0].read_percent), stimuli[0].label, stimulus_code(stimuli[0]))
        yield "Names in this report", f"{', '.join(dict.fromkeys(names))} (RW: percentage of reads)"


def _part(place: int, count: int) -> str:
    """Return the words before a part of the ActiveRange."""
    return "the first" if not place else "the remaining" if place == count - 1 else "the next"


def _tables(result: TestResult) -> Iterator[Page]:
    """Yield the page of all points, TC x QD."""
    depths, threads = sides(result)
    by_threads = _transposed(marks(result))
    cpu = host_cpu(result)
    averaged = "IOPS and CPU utilisation" if cpu else "IOPS"
    nines = grid(result, partial(matrices.percentile_response_ms, percent=FIVE_NINES))
    grids = (
        ("IOPS", grid(result, matrices.iops)),
        (matrices.heading(result, matrices.WEIGHTED), grid(result, matrices.average_response_ms)),
        (f"{FIVE_NINES:g} % response time (ms){too_few_ios(nines.values(), FIVE_NINES)}", nines),
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
            marks=matrices.NO_MARKS if title == _HOST_CPU else by_threads,
        )
    ]
    if tables:
        text = source(result, f"{averaged} {_ALL_POINTS_SOURCE}")
        notes = (text, matrices.foot(by_threads.values()), host_note(result, marked=True))
        yield Page(
            title="All Points, TC x QD",
            blocks=(*tables, Prose(text=" ".join(filter(None, notes)))),
            flows=True,
        )


def _transposed(values: Mapping[tuple[int, int], _Value]) -> dict[tuple[int, int], _Value]:
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
