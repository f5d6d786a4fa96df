"""The pages of the cross stimulus recovery test's report (PTS 2.0.2 chapter 12)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from ...analysis import recovery
from ...analysis.recovery import Recovery, RecoveryTime
from ...model.steps import mix
from ...model.time_series import TimeLine
from ...results.result import TestResult
from ...spec import CrossStimulusSpec
from ...spec.reader import definitions
from ...units import block_size, duration
from ..figures import matrices, timelines, timeplots
from ..figures.timelines import ART, MRT, THROUGHPUT
from ..figures.timeplots import Level, Mark
from ..header import Rows, demand, pattern, preconditions, range_and_amount
from ..pages import Page, Prose
from ..sections.provenance import provenance
from ..sections.summary import summary
from ..tables import NOT_APPLICABLE, Column, Table, aligned, facts, thousands

#: So much of either group is shown around a transition.
_AROUND_SECONDS = 7200.0
#: So many groups have room in the header.
_IN_HEADER = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """An access group, and when it began and ended in seconds from the first one's begin."""

    line: TimeLine
    begin: float
    end: float

    @property
    def name(self) -> str:
        return f"{self.line.part}: {self.line.stimulus.label}"


def pages(result: TestResult) -> tuple[Page, ...]:
    """Return all pages that ``result`` has data for, the summary first."""
    groups = _groups(result)
    found = recovery.recovery(result.lines("stimulus")) if not _missing(result, groups) else None
    figures = (group_table(result, groups), recovery_table(result, groups, found)) if groups else ()
    return (
        summary(result, omitted=_left_out(result, groups), figures=figures),
        *_measured(result, groups, found),
        provenance(result),
    )


def setup(result: TestResult) -> Rows:
    """Return the Setup Parameters."""
    return preconditions(result)


def parameters(result: TestResult) -> Rows:
    """Return the Test Parameters: the first three access groups, and how many more there are."""
    spec = _spec(result)
    groups = spec.groups.sequence
    shown = [
        row
        for group in groups[:_IN_HEADER]
        for row in (
            (group.name, f"{group.access} {block_size(group.block_size_bytes)} {mix(group.read_percent)}"),
            ("TOIO, Duration", f"{demand(group.thread_count, group.queue_depth)}, {duration(group.seconds)}"),
        )
    ]
    more = f"{len(groups) - _IN_HEADER} more groups" if len(groups) > _IN_HEADER else NOT_APPLICABLE
    head = (("Data Pattern", pattern(spec)), ("AR & Amount", range_and_amount(result)))
    rows = (*head, *shown, ("Steady State", NOT_APPLICABLE), ("Besides", more))
    return (*rows, *[("", "")] * (10 - len(rows)))


def _spec(result: TestResult) -> CrossStimulusSpec:
    return cast("CrossStimulusSpec", result.facts.spec)


def _groups(result: TestResult) -> list[_Group]:
    groups: list[_Group] = []
    lines = [line for line in result.lines("stimulus") if len(line)]
    for line in lines:
        begin = groups[-1].end if groups else 0.0
        if line.start_ns is not None and lines[0].start_ns is not None:
            begin = (line.start_ns - lines[0].start_ns) / 1e9
        groups.append(_Group(line=line, begin=begin, end=begin + line.ended_seconds[-1]))
    return groups


def _missing(result: TestResult, groups: list[_Group]) -> list[str]:
    return [group.name for group in _spec(result).groups.sequence][len(groups) :]


def _left_out(result: TestResult, groups: list[_Group]) -> str:
    missing = _missing(result, groups)
    return f"Left out for want of data: {', '.join(missing)}." if missing else ""


def _measured(result: TestResult, groups: list[_Group], found: Recovery | None) -> Iterator[Page]:
    if not groups:
        return
    yield _throughput(groups)
    for number, (before, after) in enumerate(itertools.pairwise(groups), start=2):
        yield _transition(number, before, after, found if found and found.group == after.line.part else None)
    yield _response_times(groups)
    yield _by_group(result, groups, found)


def _marks(groups: list[_Group]) -> list[Mark]:
    return [Mark(x=group.begin, name=group.name, short=group.line.part) for group in groups]


def _throughput(groups: list[_Group]) -> Page:
    parts = ", ".join(group.line.part for group in groups)
    return timeplots.page(
        [timelines.series(group.line, THROUGHPUT, shift=group.begin) for group in groups],
        title="XSR - MB/s vs Time, All Access Groups",
        name="throughput-time",
        caption=f"{THROUGHPUT.heading} of {parts} over time.",
        alt=f"Line plot: throughput in MB/s against time over {parts}, with a line where each group begins.",
        ylabel=THROUGHPUT.heading,
        marks=_marks(groups),
    )


def _transition(number: int, before: _Group, after: _Group, found: Recovery | None) -> Page:
    """Return the page of the last of one group and the first of the next, the ``number``-th; with the recovery where
    it is one.
    """
    span = (max(before.begin, after.begin - _AROUND_SECONDS), min(after.end, after.begin + _AROUND_SECONDS))
    marks = [Mark(x=span[0], name=before.name, short=before.line.part), *_marks([after])]
    levels = []
    if found is not None:
        share = 100 - definitions().recovery.tolerance_percent
        levels = [
            Level(value=found.baseline, label=f"{found.reference} at its end"),
            Level(value=found.threshold, label=f"{share:g} % of it", dash=(0, (1.5, 1.5))),
        ]
        at = after.begin + (found.time.seconds or 0.0)
        if found.time.seconds is not None and after.begin < at < span[1]:
            marks.append(Mark(x=at, name="recovered"))
    name = f"{before.line.part} to {after.line.part}"
    return timeplots.page(
        [timelines.series(group.line, THROUGHPUT, shift=group.begin, span=span) for group in (before, after)],
        title=f"XSR - MB/s vs Time, {name}",
        name=f"transition-{number}",
        caption=f"{THROUGHPUT.heading}, {duration(after.begin - span[0])} before and {duration(span[1] - after.begin)} "
        f"after the transition from {name}.",
        alt=f"Line plot: throughput in MB/s against time around the transition from {name}.",
        ylabel=THROUGHPUT.heading,
        span=span,
        marks=marks,
        levels=levels,
    )


def _response_times(groups: list[_Group]) -> Page:
    return timeplots.page(
        [timelines.series(group.line, quantity, shift=group.begin) for quantity in (ART, MRT) for group in groups],
        title="XSR - ART and MRT vs Time",
        name="response-time",
        caption="Average (ART) and maximum (MRT) response time over time.",
        alt="Line plot: average and maximum response time of every sample against time, log scale.",
        ylabel="Response time (ms)",
        log=True,
        marks=_marks(groups),
    )


def _by_group(result: TestResult, groups: list[_Group], found: Recovery | None) -> Page:
    rule, last = definitions().recovery, definitions().end
    share = 100 - rule.tolerance_percent
    end = f"{duration(last.seconds)}, or the last {last.percent:g} % of a group of less than "
    end += duration(100 * last.seconds / last.percent)
    dwell = f"{duration(rule.dwell_seconds)} (in a short group the last {rule.dwell_percent:g} %)"
    text = (
        f"Definitions. The end of an access group is its last {end}; MB/s there, and over the whole group, are all "
        f"bytes by all time. Baseline: MB/s at the end of the first group. Recovery time: from the start of the last "
        f"group, which has the first group's stimulus, to the begin of the first sample from which on MB/s stay at or "
        f"above {share:g} % of the baseline until the group's end, for {dwell} at least. The steady state rule takes "
        f"values {rule.tolerance_percent:g} % to either side of their average for the same (definition 2.1.24). Depth: "
        f"the last group's lowest sample in percent of the baseline. The standard itself defines neither."
    )
    tables = (group_table(result, groups), recovery_table(result, groups, found))
    return Page(title="XSR - Summary by Access Group", blocks=(*tables, Prose(text=text)))


def group_table(result: TestResult, groups: list[_Group]) -> Table:
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
        f"{group.name}, {group.line.stimulus.demand.label}{'' if group.line.complete else ' (not complete)'}"
        for group in groups
    ]
    rows = tuple(zip(names, *(aligned(values) for _, values in figures), strict=True))
    return Table(kind="numbers", columns=columns, rows=rows, title="Access groups")


def recovery_table(result: TestResult, groups: list[_Group], found: Recovery | None) -> Table:
    """Return how the last group recovers; why that is not known, where it was not measured or repeats no other."""
    if found is None:
        missing = _missing(result, groups)
        why = f"no group before {groups[-1].line.part} has its stimulus, or any throughput"
        return facts([("Recovery", f"{missing[-1]} was not measured" if missing else why)], title="Recovery")
    stay, (speed, threshold) = found.time, aligned([found.baseline, found.threshold], digits=4)
    measured = f"in {duration(stay.measured_seconds)} of {found.group}"
    reached = "never" if stay.reached_seconds is None else f"after {duration(stay.reached_seconds)}"
    back = f"NOT RECOVERED {measured}{_too_late(stay)}" if stay.seconds is None else duration(stay.seconds)
    rows = (
        ("Recovery time", back),
        ("First sample recovered", f"{reached} {measured if stay.reached_seconds is None else ''}"),
        ("Depth", f"{thousands(found.lowest_percent, 1)} % of the baseline (lowest sample of {found.group})"),
        ("Baseline", f"{speed} MB/s ({found.reference}, at its end)"),
        (
            "Recovered is",
            f"{threshold} MB/s or more, to the end of {found.group}, for {duration(stay.dwell_seconds)} at least",
        ),
    )
    return facts(rows, title=f"Recovery of {found.group}")


def _too_late(stay: RecoveryTime) -> str:
    """Tell that values came back too late for the dwell; empty where they did not come back at all."""
    return f", there for the last {duration(stay.in_band_seconds)} alone" if stay.in_band_seconds else ""
