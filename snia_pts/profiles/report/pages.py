"""The pages of a workload profile's report: each point with its repeats, and the effect of the axes.

The axes decide the figures: lines over one quantity, surfaces over two, curves and boxes over zones, bars without a
quantity axis, and a table of the effect of each setting.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from ...model.measurement import SHORTEST_RATED_MS
from ...model.steps import Stimulus
from ...report.figures.matrices import average_response_ms
from ...report.figures.overlays import over_time
from ...report.header import Rows, notes, pattern
from ...report.pages import Block, Figure, Page, Prose
from ...report.sections.provenance import provenance
from ...report.sections.summary import summary
from ...report.tables import NOT_APPLICABLE, Table, extremes, facts
from ...results.limit_checks import judgements
from ...units import block_size, capacity, counted, duration
from ...units import number as number_text
from ..procedure import value_text
from ..spec import ProfileSpec
from . import figures
from .axes import axis_pages, first_matrices
from .points import (
    Family,
    PlacedPoint,
    ProfileResult,
    axis_name,
    few_ios_note,
    group_by_workload,
    page_cache_note,
    placed_points,
)
from .reductions import (
    IOPS,
    MB_PER_SECOND,
    SYNC_PERCENTS,
    TWO_NINES_IOS,
    Measure,
    longest_sync_ms,
    sync_ms,
    two_nines_ms,
)
from .tables import (
    EXPLAINED,
    effect_tables,
    extremes_table,
    footnote,
    has_repeated_passes,
    has_repeats,
    host_table,
    options_table,
    points_table,
    repeats_table,
    sides_table,
    sync_table,
)
from .zones import zone_curves, zone_pages, zone_tables

#: The most points that the first page lists one by one.
_MAX_LISTED_POINTS = 24
#: The most patterns of data that the header lists.
_MAX_PATTERNS = 2
#: The most curves over time in one figure.
_MAX_CURVES = 6
_SPREAD = "Spread: maximum minus minimum IOPS of the repeats, in percent of their mean. "
_PASSES = (
    "Passes: the number of passes over the range{}. fio reports its time in whole milliseconds, so a measurement "
    "shorter than {} is repeated with more passes; the last one counts. "
)
#: Why the pass of a workload is not repeated.
_FRESH = "the data would be written already"
_COLD = "the data would be in the page cache"


def pages(result: ProfileResult) -> tuple[Page, ...]:
    """Return all pages that ``result`` has data for, the summary first."""
    every = placed_points(result)
    families = group_by_workload(result, every)
    measured = (
        *_results(result, families),
        *_pictures(families),
        *_over_time(result, every),
        *_effects(families),
    )
    measured = (*measured, *_sync(result, every), *_host(result))
    return (
        summary(result, figures=(*_profile_table(result), *options_table(result, every), *_key_tables(result, every))),
        *measured,
        provenance(result),
    )


def overview(result: ProfileResult) -> Iterator[Table]:
    """Yield the tables that summarise a run on a terminal: a row per point, and one figure of each matrix."""
    every = placed_points(result)
    families = group_by_workload(result, every)
    for family in families:
        if family.zoned:
            yield from zone_tables(zone_curves(family, _measure(family)), _measure(family))
        elif len(family.sides) == 2:
            yield from first_matrices(family, _measure(family))
        else:
            yield points_table(family.spots, _means(result))
    for family in families:
        yield from (table for axis in family.choices for table in effect_tables(family, axis))
    yield from sides_table(_outside_zones(families))
    if synced := _synced(every):
        yield sync_table(synced)


def key_figures(result: ProfileResult) -> Iterator[str]:
    """Yield the median zone of each curve over zones, and the range of the points of all other workloads."""
    for family in group_by_workload(result, placed_points(result)):
        measure, unit = _measure(family), "MB/s" if family.sequential else "IOPS"
        if family.zoned:
            for label, curve in zone_curves(family, measure).items():
                yield f"{label}: {number_text(extremes(value for _, _, value in curve)[1])} {unit}, median of the zones"
        else:
            values = [value for spot in family.spots if math.isfinite(value := measure.of(spot.measured))]
            least, _, most = extremes(values)
            span = " to ".join(dict.fromkeys((number_text(least), number_text(most))))
            yield f"{', '.join(family.workloads)}: {span} {unit}, {counted(len(values), 'point')}"


# -- header -----------------------------------------------------------------------------------------------------------


def setup(result: ProfileResult) -> Rows:
    """Return the Setup Parameters."""
    spec = result.facts.spec
    return (
        ("Data Pattern", _data_patterns(result)),
        ("Purge", _purges(spec)),
        ("Fill", "once, sequential" if spec.fill else "none"),
        ("Host settings", ", ".join(spec.varied_settings) or "unchanged"),
        ("Page cache", _page_cache(result)),
        ("Write cache", spec.write_cache),
        ("Repeats", str(spec.repeats)),
        ("Loop order", f"{'host settings, ' * bool(spec.varied_settings)}repeats, axes, workloads (outer first)"),
        ("Limits", counted(len(result.facts.limits), "limit") if result.facts.limits else "none"),
        ("Notes", notes(result).replace("NOT conformant: ", "")),
    )


def _data_patterns(result: ProfileResult) -> str:
    """Return the patterns of the data; if these are many, that options of fio set them."""
    usual = pattern(result.facts.spec)
    patterns = dict.fromkeys(stimulus.data_pattern or usual for stimulus in _stimuli(result))
    return "; ".join(patterns) or usual if len(patterns) <= _MAX_PATTERNS else "by options of fio"


def _page_cache(result: ProfileResult) -> str:
    """Return how many points use the host's page cache, and whether it is emptied."""
    stimuli = _stimuli(result)
    cached = sum(stimulus.cached for stimulus in stimuli)
    use = f"used by {cached} of {counted(len(stimuli), 'point')}" if cached else "not used"
    return f"{use}; emptied before cold workloads" if result.facts.spec.drops_page_cache else use


def _stimuli(result: ProfileResult) -> list[Stimulus]:
    """Return the stimulus of each point that was measured, in its first repeat."""
    return [loop.rounds[0].measurements[0].stimulus for loop in result.loops if loop.rounds[0].measurements]


def _purges(spec: ProfileSpec) -> str:
    if spec.purge:
        return "once, before all workloads"
    fresh = [load.name for load in spec.workload if load.fresh]
    return f"before each point of {_workloads(fresh)}" if fresh else "none"


def _workloads(names: Sequence[str]) -> str:
    """Return the name of a workload, or the number of several."""
    return names[0] if len(names) == 1 else counted(len(names), "workload")


def parameters(result: ProfileResult) -> Rows:
    """Return the Test Parameters: counts, the axes, and the parameters that all points share."""
    spec = result.facts.spec
    single = [load.name for load in spec.workload if load.fresh or load.cold]
    common = [
        (name, value)
        for name, value in _common_parameters(_stimuli(result), spec.minimum_seconds, single)
        if name not in {axis_name(axis) for axis in spec.axis}
    ]
    axes = [(axis_name(axis), ", ".join(value_text(axis.key, value) for value in axis.values)) for axis in spec.axis]
    rows = [(spec.subject, spec.name), ("Workloads", str(len(spec.workload))), ("Points", str(len(result.loops)))]
    ranges = {load.range_bytes or result.facts.dut.capacity_bytes for load in spec.workload}
    if len(ranges) == 1 and "range" not in {axis.key for axis in spec.axis}:
        common.append(("Range", capacity(ranges.pop())))
    rows += [*axes, *common][: 10 - len(rows)]
    return tuple((rows + [("", NOT_APPLICABLE)] * 10)[:10])


def _block_sizes(stimulus: Stimulus) -> str:
    """Return the block size, or the sizes of a mix with their shares in percent: ``4 KiB/60:64 KiB/40``."""
    shares = [f"{block_size(share.size_bytes)}/{share.percent}" for share in stimulus.block_shares]
    return ":".join(shares) or block_size(stimulus.largest_block_bytes)


def _common_parameters(
    stimuli: Sequence[Stimulus], minimum_seconds: float, single: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield the parameters that all stimuli share; the passes of the workloads ``single`` are never repeated."""
    repeated = any((stimulus.passes or 0) > 1 for stimulus in stimuli)
    if repeated:
        amount = f"passes, at least {duration(minimum_seconds)}"
        if single:
            amount += f"; {_workloads(single)}: one pass"
    else:
        amount = "one pass over the range"
    parameters: Mapping[str, list[str]] = {
        "Block size": [_block_sizes(stimulus) for stimulus in stimuli],
        "Thread count": [str(stimulus.thread_count) for stimulus in stimuli],
        "Queue depth": [str(stimulus.queue_depth) for stimulus in stimuli],
        "Duration": [duration(stimulus.seconds) if stimulus.seconds else amount for stimulus in stimuli],
        "Ramp": [duration(stimulus.ramp_seconds) if stimulus.ramp_seconds else "none" for stimulus in stimuli],
    }
    for name, values in parameters.items():
        if len(set(values)) == 1:
            yield name, values[0]


# -- pages ------------------------------------------------------------------------------------------------------------


def _profile_table(result: ProfileResult) -> Iterator[Table]:
    spec = result.facts.spec
    rows = ((spec.subject, f"{spec.name}: {spec.description}"), ("Source", spec.source))
    yield facts(rows, title=spec.subject, label_width=20)


def _means(result: ProfileResult) -> str:
    repeats = result.facts.spec.repeats
    return f"Means of {counted(repeats, 'repeat')}" if repeats > 1 else "Points"


def _key_tables(result: ProfileResult, placed: Sequence[PlacedPoint]) -> Iterator[Block]:
    """Yield the points if they are few, else each workload's range."""
    if len(placed) <= _MAX_LISTED_POINTS and placed:
        yield points_table(placed, _means(result))
        yield _points_note(result, placed)
        yield from footnote(placed)
    elif placed:
        yield extremes_table(placed)
        if not all(math.isfinite(IOPS.of(spot.measured)) for spot in placed):
            yield Prose(text="Averages are also those of points without a rate.")
        if few := few_ios_note(placed):
            yield Prose(text=few)


def _points_note(result: ProfileResult, placed: Sequence[PlacedPoint]) -> Prose:
    """Return the meaning of the columns that the table of these points has."""
    repeated = has_repeats(placed)
    passes, times = "", f"Response times cover all I/Os{' of all repeats' * repeated}."
    if has_repeated_passes(placed):
        passes = _PASSES.format(" in all repeats" * repeated, duration(result.facts.spec.minimum_seconds))
        passes += "".join(_single_passes(placed))
    few = any(sum(item.ios for item in spot.measured) < TWO_NINES_IOS for spot in placed)
    missing = f" The 99 % response time is n/a with fewer than {TWO_NINES_IOS} I/Os." if few else ""
    stalled = sum(average_response_ms(spot.measured) > two_nines_ms(spot.measured) for spot in placed)
    stalls = (
        f" In {stalled} of {counted(len(placed), 'point')} the average is above the 99 % response time: less than 1 % "
        "of the I/Os took so long that they determine the average."
    )
    return Prose(text=f"{_SPREAD * repeated}{passes}{times}{missing}{stalls if stalled else ''}")


def _single_passes(placed: Sequence[PlacedPoint]) -> Iterator[str]:
    """Yield a sentence on the workloads whose pass is never repeated, for each reason."""
    loads = {spot.point.workload.name: spot.point.workload for spot in placed if spot.point.stimulus.passes}
    fresh = [name for name, load in loads.items() if load.fresh]
    cold = [name for name, load in loads.items() if load.cold and not load.fresh]
    for names, reason in ((fresh, _FRESH), (cold, _COLD)):
        if names:
            yield (
                f"{', '.join(names)}: always one pass, because in a second one {reason}; the rates are n/a if it takes "
                f"less than {duration(SHORTEST_RATED_MS / 1000)}. "
            )


def _results(result: ProfileResult, families: Sequence[Family]) -> Iterator[Page]:
    """Yield the tables of points without a matrix or zone table, of their repeats, and of mixed points."""
    plain = [spot for family in families if not family.zoned and len(family.sides) < 2 for spot in family.spots]
    every = _outside_zones(families)
    blocks: list[Block] = []
    if sum(len(family.spots) for family in families) > _MAX_LISTED_POINTS and plain:
        blocks += [points_table(plain, _means(result)), _points_note(result, plain)]
    blocks += [*sides_table(every), *repeats_table(plain)]
    if blocks:
        blocks += footnote(every)
        yield Page(title="Results", blocks=tuple(blocks), flows=True)


def _outside_zones(families: Sequence[Family]) -> list[PlacedPoint]:
    """Return the points that have rows of their own in tables; zones have only their range."""
    return [spot for family in families if not family.zoned for spot in family.spots]


def _measure(family: Family) -> Measure:
    return MB_PER_SECOND if family.sequential else IOPS


def _pictures(families: Sequence[Family]) -> Iterator[Page]:
    """Yield the figures of each family; if there are several, titles name their workloads."""
    for number, family in enumerate(families, start=1):
        prefix, measure = f"{', '.join(family.workloads)}: " if len(families) > 1 else "", _measure(family)
        same_measure = [other for other in families if _measure(other) is measure]
        if family.zoned:
            yield from zone_pages(family, measure, same_measure, prefix=prefix, slug=str(number))
        elif family.sides:
            yield from axis_pages(family, measure, same_measure, prefix=prefix, slug=str(number))
    yield from _bars([spot for family in families if not family.zoned and not family.sides for spot in family.spots])


def _bars(placed: Sequence[PlacedPoint]) -> Iterator[Page]:
    """Yield the points without a quantity axis as bars, on the same scale on all pages."""
    if len(placed) < 2:
        return
    measures = (IOPS, MB_PER_SECOND)
    names = list(dict.fromkeys(spot.point.workload.name for spot in placed))
    colours = {spot.point.name: names.index(spot.point.workload.name) for spot in placed}
    scale = {measure.heading: [measure.span(spot.measured).greatest for spot in placed] for measure in measures}
    groups = [placed[at : at + figures.MOST_ROWS] for at in range(0, len(placed), figures.MOST_ROWS)]
    has_repeats = any(len(spot.measured) > 1 for spot in placed)
    blocks = []
    for number, group in enumerate(groups, start=1):
        panels = {item.heading: {spot.point.name: item.span(spot.measured) for spot in group} for item in measures}
        blocks.append(
            Figure(
                name=f"bars-{number}",
                caption=f"IOPS and throughput of each point, one colour per workload"
                f"{'; whiskers span the repeats from minimum to maximum' if has_repeats else ''}."
                f"{page_cache_note(placed)}",
                alt="Bars: IOPS and MB/s from zero, one row per point.",
                draw=partial(figures.bars, panels, colours, scale),
                height=figures.height(len(group)),
            )
        )
    yield Page(title="IOPS and Throughput by Point", blocks=tuple(blocks), flows=True)


def _over_time(result: ProfileResult, every: Sequence[PlacedPoint]) -> Iterator[Page]:
    """Yield the samples over time: a figure for each workload, its points on one scale, repeats end to end."""
    names = {spot.point.name: spot.point.workload.name for spot in every}
    sampled_lines = [line for line in result.lines("stimulus") if len(line) > 1]
    longest = max((line.ended_seconds[-1] for line in sampled_lines), default=0.0)
    blocks = []
    for number, workload in enumerate(result.facts.spec.workload, start=1):
        lines = [line for line in sampled_lines if names.get(line.part) == workload.name]
        rates = {line.part: line.mb_per_second if workload.access == "SEQ" else line.iops for line in lines}
        series = {line.part: (line.ended_seconds, rates[line.part]) for line in lines}
        heading = MB_PER_SECOND.heading if workload.access == "SEQ" else IOPS.heading
        for at in range(0, len(series), _MAX_CURVES):
            shown = dict(list(series.items())[at : at + _MAX_CURVES])
            blocks.append(
                Figure(
                    name=f"time-{number}-{at // _MAX_CURVES + 1}",
                    caption=f"{workload.name}: {heading} of each sample over time; repeats are placed end to end.",
                    alt=f"Line plot: {heading} from zero against time.",
                    draw=partial(over_time, shown, heading=heading, legend="Point", longest=longest),
                )
            )
    if blocks:
        yield Page(title="Samples over Time", blocks=tuple(blocks), flows=True)


def _effects(families: Sequence[Family]) -> Iterator[Page]:
    """Yield the effect of each setting, engine or switch on the points, a page for each such axis."""
    axes = dict.fromkeys(axis for family in families for axis in family.choices)
    for axis in axes:
        tables = [table for family in families if axis in family.choices for table in effect_tables(family, axis)]
        if tables:
            yield Page(title=f"Effect of {axis_name(axis)}", blocks=(*tables, Prose(text=EXPLAINED)), flows=True)


def _synced(every: Sequence[PlacedPoint]) -> list[PlacedPoint]:
    return [spot for spot in every if any(measurement.sync and measurement.sync.calls for measurement in spot.measured)]


def _sync(result: ProfileResult, every: Sequence[PlacedPoint]) -> Iterator[Page]:
    """Yield table and figure of the synchronizing calls, if there were any, with their limits."""
    placed = _synced(every)
    if not placed:
        return
    limits = [
        (
            f"{percent:g} %",
            judgement.limit.maximum,
            f"{judgement.limit.at}: {percent:g} % within {judgement.limit.maximum:g} ms",
        )
        for judgement in judgements(result)
        for percent in SYNC_PERCENTS
        if judgement.limit.metric == f"sync_{percent:g}_percent_ms" and judgement.limit.maximum is not None
    ]
    shown = placed[:8]
    series = {
        spot.point.name: {
            **{f"{percent:g} %": sync_ms(spot.measured, percent) for percent in SYNC_PERCENTS},
            "max.": longest_sync_ms(spot.measured),
        }
        for spot in shown
    }
    note = f" First {len(shown)} of {len(placed)} points." if len(placed) > len(shown) else ""
    figure = Figure(
        name="sync",
        caption=f"Time of fsync and fdatasync by percentile, all repeats combined.{note}",
        alt="Line plot: milliseconds by percentile of the synchronizing calls; limits as short red lines.",
        draw=partial(figures.percentiles, series, limits, heading="Synchronizing call (ms)", legend="Point"),
    )
    yield Page(title="Synchronizing Calls", blocks=(sync_table(placed), figure), flows=True)


def _host(result: ProfileResult) -> Iterator[Page]:
    if tables := tuple(host_table(result)):
        yield Page(title="Host Settings", blocks=tables, flows=True)
