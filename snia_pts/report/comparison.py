"""The pages of a comparison: what is compared, what is not the same, and how the numbers differ."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from ..model.measurement import METRICS, MeasuredRound
from ..model.steps import mix
from ..results.comparison import (
    CONFIDENCE_PERCENT,
    SPREAD_RUNS,
    ComparedFigure,
    ContextDifference,
    Difference,
    compare_figures,
    context_differences,
    possible_causes,
)
from ..results.result import TestResult
from ..spec import ProfileSpec, RoundsSpec, Tracked, loop_rule
from ..units import counted
from .figures import figure as figures
from .figures import matrices, overlays
from .header import simulated, when
from .pages import Block, Figure, Header, Page, Prose, Report
from .profile.comparing import MOST_POINTS, overall_lines, points_compared, profile_figures
from .registry import build
from .sections.steady_state import slug, tracking
from .sections.summary import SIMULATED, shortcomings, verdict
from .tables import NOT_APPLICABLE, UNKNOWN, Column, Table, aligned, thousands

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

#: The metrics on paper; a comparison as JSON has all.
_METRICS = {
    "iops": "IOPS",
    "mb_per_second": "Throughput (MB/s)",
    "average_response_ms": "Average response time (ms)",
    "response_99_percent_ms": "Response time, 99 % (ms)",
    "response_99.999_percent_ms": "Response time, 99.999 % (ms)",
    "maximum_response_ms": "Maximum response time (ms)",
    "read_iops": "Read IOPS of mixed points",
    "write_iops": "Write IOPS of mixed points",
    "sync_99_percent_ms": "Synchronizing calls, 99 % (ms)",
}
#: So many runs stand abreast beside the first.
ABREAST = 3
_DIFFERS = "differs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A run that is compared: the letter it goes by, the folder it came from, and its result."""

    label: str
    place: str
    result: TestResult


def build_comparison(entries: Sequence[Entry]) -> Report:
    """Return the report on runs of one test; the first is what the others are held against."""
    results = [entry.result for entry in entries]
    first = results[0]
    return Report(
        title=f"{first.facts.spec.title} Test, {len(entries)} runs compared",
        author=first.facts.about.operator,
        dated=max(result.finished for result in results),
        header=_header(results),
        pages=(
            Page(title="Comparison", blocks=tuple(_summary(entries)), flows=True),
            *_figures(entries),
            *_numbers(entries),
        ),
    )


def _header(results: Sequence[TestResult]) -> Header:
    """Return the header that all runs have, with ``differs`` where they have not the same."""
    made, marks = [build(result).header for result in results], {simulated(result) for result in results}
    mark = marks.pop() if len(marks) == 1 else ""
    title = f"{results[0].facts.spec.title} Test - Comparison of {len(results)} Runs{mark}"
    started, ended = min(result.facts.started for result in results), max(result.finished for result in results)
    dates = made[0].dates.rows[0]
    return Header(
        test=replace(made[0].test, rows=((title,),)),
        dates=replace(made[0].dates, rows=((dates[0], when(started), dates[2], when(ended)),)),
        standard=_merged([header.standard for header in made]),
        names=_merged([header.names for header in made]),
        heads=made[0].heads,
        blocks=_merged([header.blocks for header in made]),
    )


def _merged(tables: Sequence[Table]) -> Table:
    rows = (
        tuple(cells[0] if len(set(cells)) == 1 else _DIFFERS for cells in zip(*lines, strict=True))
        for lines in zip(*(table.rows for table in tables), strict=True)
    )
    return replace(tables[0], rows=tuple(rows))


# -- summary ----------------------------------------------------------------------------------------------------------


def _summary(entries: Sequence[Entry]) -> Iterator[Block]:
    found = context_differences([entry.result for entry in entries])
    flagged = [each for each in found if each.weight == "flagged"]
    if any(entry.result.facts.dut.simulated for entry in entries):
        yield SIMULATED
    if flagged:
        text = f"Compare with care: {len(flagged)} thing{'s' * (len(flagged) != 1)} of weight not the same, or not well"
        yield Prose(text=text, kind="bad")
    else:
        what = "profile, axes and repeats" if _profiled(entries) else "test, class, demand and deviations"
        yield Prose(text=f"Measured by the same rules: {what} are the same", kind="good")
    yield _runs(entries)
    yield from _made_it(entries, found)
    if flagged:
        yield _unlike(entries, flagged, "Not the same, or not as it should be")
    if told := [each for each in found if each.weight == "context"]:
        yield _unlike(entries, told, "What was compared differs in")
    yield Prose(text=_explained(entries))


def _made_it(entries: Sequence[Entry], found: Sequence[ContextDifference]) -> Iterator[Block]:
    """Tell what may have made the numbers differ, where just one recorded thing may, and how much they do."""
    yield Prose(text=cause(entries, found), kind="lead")
    results = [entry.result for entry in entries]
    if points_compared(results) is not None:
        for line in overall_lines([entry.label for entry in entries], compare_figures(results)):
            yield Prose(text=line, kind="lead")


def cause(entries: Sequence[Entry], found: Sequence[ContextDifference]) -> str:
    """Return a sentence about what may have made the numbers differ, as far as it was recorded and is compared."""
    possible = possible_causes(found)
    same = _same_run(entries)
    told = f"{' and '.join(same)} are the same run. " if same else ""
    if len(same) == len(entries):
        return f"{told}It differs in nothing from itself."
    return told + _cause(entries, possible)


def _cause(entries: Sequence[Entry], possible: Sequence[ContextDifference]) -> str:
    if not possible:
        return (
            "Nothing that is compared differs (drive, host, suite, settings, deviations; not seed and command line): "
            "what the numbers differ by is chance, or of what is not compared."
        )
    told = f"{possible[0].what} ({'; '.join(_gathered(entries, possible[0].values))})"
    if len(possible) == 1:
        return f"The only difference in what is compared: {told}."
    told = f"{len(possible)} differences in what is compared"
    return f"{told}; which of them made the numbers differ, these runs cannot tell."


def _same_run(entries: Sequence[Entry]) -> list[str]:
    """Return the labels of the first entries that are one run, in one folder or a copy; none where there are none."""
    for place, each in enumerate(entries):
        labels = [each.label, *(other.label for other in entries[place + 1 :] if other.result == each.result)]
        if len(labels) > 1:
            return labels
    return []


def _runs(entries: Sequence[Entry]) -> Table:
    columns = (
        Column(heading="", width=4),
        Column(heading="Run", width=30),
        Column(heading="Drive", width=24),
        Column(heading="Verdict", width=24),
        Column(heading="Otherwise than the profile" if _profiled(entries) else "PTS conformant", width=18),
    )
    rows = tuple(
        (
            entry.label,
            entry.place,
            " ".join(filter(None, (entry.result.facts.dut.model, entry.result.facts.dut.serial))) or UNKNOWN,
            verdict(entry.result),
            _conformance(entry.result),
        )
        for entry in entries
    )
    return Table(kind="texts", columns=columns, rows=rows, title="Runs")


def _conformance(result: TestResult) -> str:
    if isinstance(result.facts.spec, ProfileSpec):
        return counted(len(result.deviations), "deviation")
    return "yes" if result.conformant else f"NO, {shortcomings(result)}"


def _unlike(entries: Sequence[Entry], found: Sequence[ContextDifference], title: str) -> Table:
    columns = (Column(heading="What", width=30), Column(heading="Runs", width=70))
    rows = tuple((each.what, "; ".join(_gathered(entries, each.values))) for each in found)
    return Table(kind="texts", columns=columns, rows=rows, title=title)


def _gathered(entries: Sequence[Entry], values: Sequence[str]) -> Iterator[str]:
    """Give each value with the runs that have it: ``A, C: enabled``."""
    for value in dict.fromkeys(values):
        labels = (entry.label for entry, own in zip(entries, values, strict=True) if own == value)
        yield f"{', '.join(labels)}: {value or UNKNOWN}"


def _explained(entries: Sequence[Entry]) -> str:
    text = (
        f"Differences are from run {entries[0].label}, in percent of its value. The interval is the "
        f"{CONFIDENCE_PERCENT:g} % confidence interval of the ratio of both values, from {_basis(entries)} "
        "(Welch); one that leaves 0 out is marked with an asterisk. Each number is judged by "
        "itself: without any difference, about one in twenty is marked. It says what these runs can "
        "tell, not how drives of a kind differ."
    )
    if len(entries) >= SPREAD_RUNS:
        text += " The spread is from the least to the greatest value, in percent of the median."
    return text


def _basis(entries: Sequence[Entry]) -> str:
    return "the repeats of both runs" if _profiled(entries) else "the rounds of both measurement windows"


def _profiled(entries: Sequence[Entry]) -> bool:
    return isinstance(entries[0].result.facts.spec, ProfileSpec)


# -- numbers ----------------------------------------------------------------------------------------------------------


def _numbers(entries: Sequence[Entry]) -> Iterator[Page]:
    """Give a page for each metric: the values of all runs and how they differ from the first.

    A rate is told once, as IOPS or in MB/s: they differ alike.
    """
    results = [entry.result for entry in entries]
    found, points = compare_figures(results), points_compared(results)
    if points is not None and points > MOST_POINTS:
        return
    spared = "iops" if entries[0].result.facts.spec.test == "throughput" else "mb_per_second"
    for metric, heading in _METRICS.items():
        rows = [each for each in found if each.metric == metric]
        if rows and metric != spared:
            yield Page(title=f"{heading} by Run", blocks=tuple(_tables(entries, rows)), flows=True)


def _tables(entries: Sequence[Entry], rows: Sequence[ComparedFigure]) -> Iterator[Table]:
    """Give tables of a few runs each, A the first of all, with the spread of all in the last."""
    others = range(1, len(entries))
    for at in range(0, len(others), ABREAST):
        shown = others[at : at + ABREAST]
        last = shown[-1] == others[-1]
        parts = [_columns(entries, each, shown, last) for each in rows]
        headings = ("At", *(heading for heading, _ in parts[0]))
        width = 76 // (len(headings) - 1)
        columns = (
            Column(heading=headings[0], width=24),
            *(Column(heading=heading, align="right", width=width) for heading in headings[1:]),
        )
        cells = tuple((each.at, *(cell for _, cell in part)) for each, part in zip(rows, parts, strict=True))
        yield Table(kind="numbers", columns=columns, rows=cells)


def _columns(entries: Sequence[Entry], each: ComparedFigure, shown: Sequence[int], last: bool) -> list[tuple[str, str]]:
    """Return headings and cells of a figure: A, the runs that are shown, with two runs the interval, the spread."""
    values = aligned([figure.value if figure else None for figure in each.figures], digits=4)
    found = [(entries[0].label, values[0])]
    for place in shown:
        label, change = entries[place].label, each.differences[place]
        percent = NOT_APPLICABLE if change is None else f"{'* ' if change.significant else ''}{change.percent:+.1f}"
        found += [(label, values[place]), (f"{label} (%)", percent)]
        if len(entries) == 2:
            found.append(("Interval (%)", _interval(change)))
    if last and len(entries) >= SPREAD_RUNS:
        spread = each.spread_percent
        middle = (
            aligned([*each.values, statistics.median(each.values)], digits=4)[-1] if each.values else NOT_APPLICABLE
        )
        found += [("Median", middle), ("Spread (%)", NOT_APPLICABLE if spread is None else thousands(spread, 1))]
    return found


def _interval(change: Difference | None) -> str:
    if change is None or change.low is None or change.high is None:
        return NOT_APPLICABLE
    return f"{change.low:+.1f} .. {change.high:+.1f}"


# -- figures ----------------------------------------------------------------------------------------------------------


def _figures(entries: Sequence[Entry]) -> Iterator[Page]:
    if points_compared([entry.result for entry in entries]) is not None:
        yield from profile_figures({entry.label: entry.result for entry in entries})
    yield from _convergence(entries)
    yield from _matrix(entries)
    yield from _time_lines(entries)


def _page(title: str, name: str, caption: str, draw: partial[Drawing]) -> Page:
    figure = Figure(name=name, caption=caption, alt=f"{title}: one line a run.", draw=draw)
    return Page(title=title, blocks=(figure,))


def _convergence(entries: Sequence[Entry]) -> Iterator[Page]:
    """Give a page for each tracked variable: its value in every round, one line a run."""
    rule = loop_rule(entries[0].result.facts.spec)
    parts = dict.fromkeys(loop.part for entry in entries for loop in entry.result.loops)
    for part in parts:
        loops = {entry.label: entry.result.loop(part) for entry in entries}
        for tracked in rule.tracked if rule else ():
            series: dict[str, dict[int, float]] = {}
            for label, loop in loops.items():
                if loop and loop.complete and _measures(loop.complete[0], tracked):
                    series[label] = {each.number: each.value(tracked) for each in loop.complete}
            known = next((entry for entry in entries if entry.label in series), None)
            if known is None:
                continue
            loop = known.result.loop(part)
            label = tracking(known.result, loop).label(tracked) if loop else ""
            title = (
                f"{METRICS[tracked.metric].label} by Round - {f'{part}: ' if part and part not in label else ''}{label}"
            )
            caption = f"{METRICS[tracked.metric].heading} of every complete round, one line a run."
            draw = partial(figures.convergence, series, (), metric=METRICS[tracked.metric], legend="Run", log=False)
            yield _page(title, f"rounds-{slug(f'{part} {label}')}", caption, draw)


def _measures(measured: MeasuredRound, tracked: Tracked) -> bool:
    """Tell whether a round measured what another run tracked."""
    try:
        measured.point(tracked)
    except (KeyError, ValueError):
        return False
    return True


def _matrix(entries: Sequence[Entry]) -> Iterator[Page]:
    """Give a page for each R/W mix of a matrix over block sizes: IOPS, one line a run, on one scale for all mixes."""
    spec = entries[0].result.facts.spec
    if not isinstance(spec, RoundsSpec) or spec.test == "throughput":
        return
    grids = [matrices.reduced(entry.result.loops, matrices.iops) for entry in entries]
    everything = [value for grid in grids for value in grid.values()]
    runs = figures.Side(title="Run", keys=tuple(range(len(entries))), labels=tuple(entry.label for entry in entries))
    measured, _ = matrices.measured_sizes(
        matrices.sizes(spec.rounds), {at: v for grid in grids for at, v in grid.items()}
    )
    if len(measured.keys) < 2:
        return
    for share in sorted(spec.rounds.read_percents):
        values = {
            (size, number): grid[size, share]
            for number, grid in enumerate(grids)
            for size in measured.keys
            if (size, share) in grid
        }
        if values:
            draw = partial(figures.matrix_lines, values, measured, runs, heading="IOPS", scale=everything)
            caption = "IOPS against block size, one line a run; the scale is the same for all R/W mixes."
            yield _page(f"IOPS - R/W {mix(share)}", f"matrix-{share}", caption, draw)


def _time_lines(entries: Sequence[Entry]) -> Iterator[Page]:
    """Give a page for each continuous stimulus: IOPS over time, one line a run."""
    places = dict.fromkeys(
        (line.phase, line.part)
        for entry in entries
        for line in entry.result.time_lines
        if line.phase in ("stimulus", "access C") and len(line) > 1
    )
    for phase, part in places:
        lines = {entry.label: entry.result.time_line(phase, part) for entry in entries}
        series = {label: (line.ended_seconds, line.iops) for label, line in lines.items() if line and len(line) > 1}
        name = f"{part}, {phase}" if part else phase
        caption = "IOPS of every sample, one line a run; time is that of the stimulus."
        draw = partial(overlays.over_time, series, heading="IOPS", legend="Run")
        yield _page(f"IOPS over Time - {name}", f"time-{slug(name)}", caption, draw)
