"""The pages of the cross stimulus recovery test's report (PTS 2.0.2 chapter 12)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from ...analysis import recovery
from ...analysis.disturbances import STALL_SECONDS
from ...analysis.recovery import Mean, Recovery, RecoveryTime
from ...model.steps import mix
from ...model.time_series import TimeLine
from ...results.result import TestResult
from ...spec import CrossStimulusSpec
from ...spec.reader import definitions
from ...units import block_size, distinct_decimals, distinct_duration, duration
from ..figures import matrices, timelines, timeplots
from ..figures.dashboard import Curves
from ..figures.timelines import ART, MRT, THROUGHPUT, Quantity, Series
from ..figures.timeplots import Level, Mark
from ..header import Rows, chart_conditions, demand, pattern, preconditions, range_and_amount
from ..pages import Block, Page, Prose
from ..sections.convergence import dashboard
from ..sections.provenance import provenance
from ..sections.summary import summary
from ..tables import NOT_APPLICABLE, Column, Table, facts, significant, thousands, time_span

Result = TestResult[CrossStimulusSpec]

#: A transition page shows at most this much of the group before, and of the group after unless it recovers later: then
#: its recovery, and half of that time more.
_AROUND_SECONDS, _RECOVERY_SHARE = 7200.0, 1.5
_LOG = ", log scale"
#: The header has room for this many groups.
_HEADER_GROUPS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """An access group with its start and end, in seconds from the start of the first group."""

    line: TimeLine
    start: float
    end: float

    @property
    def name(self) -> str:
        return f"{self.line.part}: {self.line.stimulus.label}"


def pages(result: Result) -> tuple[Page, ...]:
    """Return all pages that ``result`` has data for, the summary first."""
    groups = _groups(result)
    measured_recovery = recovery.recovery(result.lines("stimulus")) if not _missing(result, groups) else None
    figures: tuple[Block, ...] = ()
    if groups:
        curves = [timelines.series(group.line, THROUGHPUT, shift=group.start) for group in groups]
        figures = (
            *dashboard(result, Curves(curves=curves, heading=THROUGHPUT.heading, marks=_marks(groups))),
            group_table(result, groups),
            recovery_table(result, groups, measured_recovery),
            Prose(text=_stalls(groups)),
            Prose(text=_definitions(result)),
        )
    return (
        summary(result, omitted=_omitted(result, groups), figures=figures),
        *_measurement_pages(result, groups, measured_recovery),
        provenance(result),
    )


def setup(result: Result) -> Rows:
    """Return the Setup Parameters."""
    return preconditions(result)


def parameters(result: Result) -> Rows:
    """Return the Test Parameters: the first three access groups, and how many more there are."""
    spec = result.facts.spec
    groups = spec.groups.sequence
    shown = [
        row
        for group in groups[:_HEADER_GROUPS]
        for row in (
            (group.name, f"{group.access} {block_size(group.block_size_bytes)} {mix(group.read_percent)}"),
            ("TOIO, Duration", f"{demand(group.thread_count, group.queue_depth)}, {duration(group.seconds)}"),
        )
    ]
    further = len(groups) - _HEADER_GROUPS
    more = (("Further groups", f"{further} more"),) if further > 0 else ()
    head = (("Data Pattern", pattern(spec)), ("AR & Amount", range_and_amount(result)))
    rows = (*head, *shown, ("Steady State", NOT_APPLICABLE), *more)
    return (*rows, *[("", "")] * (10 - len(rows)))


def _groups(result: Result) -> list[_Group]:
    groups: list[_Group] = []
    lines = [line for line in result.lines("stimulus") if len(line)]
    for line in lines:
        start = groups[-1].end if groups else 0.0
        if line.start_ns is not None and lines[0].start_ns is not None:
            start = (line.start_ns - lines[0].start_ns) / 1e9
        groups.append(_Group(line=line, start=start, end=start + line.ended_seconds[-1]))
    return groups


def _missing(result: Result, groups: list[_Group]) -> list[str]:
    return [group.name for group in result.facts.spec.groups.sequence][len(groups) :]


def _omitted(result: Result, groups: list[_Group]) -> str:
    missing = _missing(result, groups)
    return f"{', '.join(missing)} omitted: no data." if missing else ""


def _measurement_pages(result: Result, groups: list[_Group], measured_recovery: Recovery | None) -> Iterator[Page]:
    if not groups:
        return
    yield _throughput(result, groups)
    for number, (before, after) in enumerate(itertools.pairwise(groups), start=2):
        yield _transition(
            result,
            number,
            before,
            after,
            measured_recovery if measured_recovery and measured_recovery.group == after.line.part else None,
        )
    if result.facts.spec.pts.startswith("1."):
        yield _response_times(result, groups, ART, "Average Response Time")
        yield _response_times(result, groups, MRT, "Maximum Response Time")
    else:
        yield _throughput_and_response_times(result, groups)


def _samples(result: Result) -> str:
    """Return the end of a caption: the length of a sample, and the conditions of the chart."""
    return f"Samples of {duration(result.facts.spec.groups.sample_seconds)}. {chart_conditions(result)}."


def _marks(groups: list[_Group]) -> list[Mark]:
    return [Mark(x=group.start, name=group.name, short=group.line.part) for group in groups]


def _throughput(result: Result, groups: list[_Group]) -> Page:
    parts = ", ".join(group.line.part for group in groups)
    stimuli = "; ".join(f"{group.name}, {group.line.stimulus.demand.label}" for group in groups)
    shown = [timelines.series(group.line, THROUGHPUT, shift=group.start) for group in groups]
    log = timelines.is_wide(shown)
    return timeplots.page(
        shown,
        title="XSR - MB/s vs Time, All Access Groups",
        name="throughput-time",
        caption=f"{THROUGHPUT.heading} over time{_LOG * log}. {stimuli}. {_samples(result)}",
        alt=f"Line plot: throughput in MB/s against time over {parts}{_LOG * log}, with a line at the start of each "
        "group.",
        ylabel=THROUGHPUT.heading,
        log=log,
        marks=_marks(groups),
    )


def _transition(result: Result, number: int, before: _Group, after: _Group, measured_recovery: Recovery | None) -> Page:
    """Return the page of transition ``number``: the end of one group and the start of the next.

    If the transition has a ``measured_recovery``, its baseline, threshold and time are drawn too.
    """
    recovered = measured_recovery.time.recovered if measured_recovery else None
    shown_seconds = max(_AROUND_SECONDS, _RECOVERY_SHARE * (recovered.end if recovered else 0.0))
    span = (max(before.start, after.start - _AROUND_SECONDS), min(after.end, after.start + shown_seconds))
    marks = [Mark(x=span[0], name=before.name, short=before.line.part), *_marks([after])]
    levels = []
    if measured_recovery is not None:
        share = 100 - definitions().recovery.tolerance_percent
        levels = [
            Level(value=measured_recovery.baseline, label=f"baseline: {measured_recovery.reference} at its end"),
            Level(value=measured_recovery.threshold, label=f"{share:g} % of the baseline", dash=(0, (1.5, 1.5))),
        ]
    if recovered and recovered.begin:
        marks.append(
            Mark(x=after.start + recovered.end, name=f"recovered, {_span(result, recovered)}", short="recovered")
        )
    name = f"{before.line.part} to {after.line.part}"
    shown = [timelines.series(group.line, THROUGHPUT, shift=group.start, span=span) for group in (before, after)]
    log = timelines.is_wide(shown)
    return timeplots.page(
        shown,
        title=f"XSR - MB/s vs Time, {name}",
        name=f"transition-{number}",
        caption=f"{THROUGHPUT.heading}{_LOG * log}, {duration(after.start - span[0])} before and "
        f"{duration(span[1] - after.start)} after the transition from {before.line.part} "
        f"({before.line.stimulus.label}) to {after.line.part} ({after.line.stimulus.label}). A sample is drawn at its "
        f"end. {_samples(result)}",
        alt=f"Line plot: throughput in MB/s{_LOG * log}, against time around the transition from {name}.",
        ylabel=THROUGHPUT.heading,
        log=log,
        span=span,
        marks=marks,
        levels=levels,
    )


def _response_times(result: Result, groups: list[_Group], quantity: Quantity, title: str) -> Page:
    return timeplots.page(
        [timelines.series(group.line, quantity, shift=group.start) for group in groups],
        title=f"XSR - {title} vs Time",
        name=quantity.name,
        caption=f"{title} ({quantity.label}) of every sample over time, log scale. {_samples(result)}",
        alt=f"Line plot: {title.lower()} of every sample against time, log scale.",
        ylabel=quantity.heading,
        log=True,
        marks=_marks(groups),
    )


def _throughput_and_response_times(result: Result, groups: list[_Group]) -> Page:
    def shown(quantity: Quantity, side: str) -> list[Series]:
        label = f"{quantity.label} ({side})"
        return [timelines.series(group.line, quantity, shift=group.start, label=label) for group in groups]

    throughput = shown(THROUGHPUT, "left axis")
    times = [series for quantity in (ART, MRT) for series in shown(quantity, "right axis")]
    log = timelines.is_wide(throughput)
    return timeplots.page(
        throughput,
        title="XSR - MB/s, ART and MRT vs Time",
        name="throughput-and-response-time",
        caption=f"{THROUGHPUT.heading}{_LOG * log}, and average (ART) and maximum (MRT) response time, log scale, over "
        f"time. {_samples(result)}",
        alt=f"Line plot with two y axes: throughput in MB/s{_LOG * log} on the left, average and maximum response time "
        "of every sample, log scale, on the right, against time.",
        ylabel=THROUGHPUT.heading,
        log=log,
        marks=_marks(groups),
        right=timeplots.Panel(shown=times, ylabel="Response time (ms)", log=True),
    )


def _stalls(groups: list[_Group]) -> str:
    """Return a sentence on the samples in which an I/O took very long, and when they were measured."""
    counts = []
    for group in groups:
        line = group.line
        stalled = [row for row, us in enumerate(line.maximum_response_us) if us > 1e6 * STALL_SECONDS]
        if stalled:
            start, end = line.ended_seconds[stalled[0]] - line.seconds[stalled[0]], line.ended_seconds[stalled[-1]]
            when = f"between {duration(max(0.0, start))} and {duration(end)} after its start"
            counts.append(f"{len(stalled)} of {len(line)} of {line.part} ({when})")
    return f"Samples in which an I/O took more than {STALL_SECONDS:g} s: {', '.join(counts) or 'none'}."


def _definitions(result: Result) -> str:
    """Return how the figures of groups and of recovery are defined."""
    rule, last = definitions().recovery, definitions().end
    return (
        f"Samples of {duration(result.facts.spec.groups.sample_seconds)}. End of an access group: its last "
        f"{last.percent:g} %, at most {duration(last.seconds)}. MB/s at the end and mean MB/s: total bytes divided by "
        f"total time. Peak ART: the highest ART of a sample.{_open_demand(result)} The last group repeats the stimulus "
        "of the first. Baseline: MB/s at the end of the first group. A sample is recovered if it has at least "
        f"{100 - rule.tolerance_percent:g} % of the baseline. Recovery time: start and end of the first sample from "
        "which on all are recovered, from the start of the last group. Required duration: "
        f"{duration(rule.dwell_seconds)}, or {rule.dwell_percent:g} % of the group if that is less. The standard "
        "does not define recovery: these numbers are of this suite."
    )


def _open_demand(result: Result) -> str:
    """Return a sentence on thread counts and queue depths of which the standard's own are not known; else nothing."""
    is_default = all(deviation.what != "groups.sequence" for deviation in result.deviations)
    if not (is_default and result.facts.spec.pts.startswith("1.")):
        return ""
    return (
        " TC and QD of the groups are this suite's defaults for PTS 1.1, as in one other implementation; whether the "
        "standard requires them is not known."
    )


def group_table(result: Result, groups: list[_Group]) -> Table:
    """Return throughput and response times by access group."""
    lines = [group.line for group in groups]
    figures = (
        ("MB/s at the end", [recovery.mean_at_end(line) for line in lines]),
        ("MB/s, mean", [timelines.mean(line, THROUGHPUT) for line in lines]),
        ("MB/s, lowest sample", [timelines.lowest(line, THROUGHPUT) for line in lines]),
        (matrices.art_heading(result), [timelines.mean(line, ART) for line in lines]),
        ("Peak ART (ms)", [timelines.highest(line, ART) for line in lines]),
        ("Peak MRT (ms)", [timelines.highest(line, MRT) for line in lines]),
    )
    columns = (
        Column(heading="Access group", width=34),
        *(Column(heading=heading, align="right", width=11) for heading, _ in figures),
    )
    names = [
        f"{group.name}, {group.line.stimulus.demand.label}{'' if group.line.complete else ' (incomplete)'}"
        for group in groups
    ]
    rows = tuple(zip(names, *(significant(values) for _, values in figures), strict=True))
    return Table(kind="numbers", columns=columns, rows=rows, title="Access groups")


def recovery_table(result: Result, groups: list[_Group], measured_recovery: Recovery | None) -> Table:
    """Return the table of the last group's recovery.

    If it was not measured, or no earlier group has the same stimulus, the table gives the reason instead.
    """
    if measured_recovery is None:
        missing = _missing(result, groups)
        reason = f"no earlier group has the stimulus of {groups[-1].line.part}, or it has no throughput"
        return facts([("Recovery", f"{missing[-1]} was not measured" if missing else reason)], title="Recovery")
    time, group = measured_recovery.time, measured_recovery.group
    lowest, recovered = measured_recovery.lowest_percent, 100 - definitions().recovery.tolerance_percent
    shown_lowest = thousands(lowest, distinct_decimals(lowest, recovered, least=1))
    baseline, threshold = significant([measured_recovery.baseline, measured_recovery.threshold])
    measured = f"within {duration(time.measured_seconds)} of {group}"
    reached = _span(result, time.reached) if time.reached else f"never {measured}"
    first = () if time.recovered and time.reached == time.recovered else (("First recovered sample", reached),)
    not_recovered = f"NOT RECOVERED {measured}{_short_dwell(time)}"
    recovery_time = _span(result, time.recovered) if time.recovered else not_recovered
    rows = (
        ("Recovery time", recovery_time),
        *first,
        ("Lowest sample", f"{shown_lowest} % of the baseline"),
        ("Baseline", f"{baseline} MB/s ({measured_recovery.reference}, at its end)"),
        ("Recovery threshold", f"{threshold} MB/s ({recovered:g} % of the baseline)"),
        ("Required duration of recovery", f"to the end of {group}, at least {duration(time.dwell_seconds)}"),
    )
    return facts(rows, title=f"Recovery of {group}")


def _span(result: Result, sample: Mean) -> str:
    """Return the time of a sample, from the start of its group: ``48 - 49 min``."""
    return time_span(sample.begin, sample.end, result.facts.spec.groups.sample_seconds)


def _short_dwell(time: RecoveryTime) -> str:
    """Return a note if values recovered too late for the dwell time; empty if they never recovered."""
    if not time.in_band_seconds:
        return ""
    return f", above the threshold only for the last {distinct_duration(time.in_band_seconds, time.dwell_seconds)}"
