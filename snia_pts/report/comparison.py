"""The report of a comparison: its header, the figures of all runs, and the tables of their numbers."""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ..analysis.window import Window
from ..model.measurement import METRICS, MeasuredRound
from ..model.steps import mix
from ..results.comparison import (
    CONFIDENCE_PERCENT,
    SPREAD_RUNS,
    ComparedFigure,
    Difference,
    compare_figures,
    context_differences,
    points_compared,
)
from ..results.lot import lot_model
from ..results.tables import heading
from ..results.tracked_series import tracked_series
from ..spec import RoundsSpec, Tracked, loop_rule
from ..units import number, percent_decimals, signed
from . import comparison_figures
from .comparison_summary import Entry, round_noun, run_names, summary, values_with_labels
from .figures import figure as figures
from .figures import matrices, overlays
from .figures.style import overlay_styles
from .header import MAX_VALUE_EM, NOT_ACHIEVED, simulated, width_em
from .pages import Block, Differing, Figure, Header, Page, Prose, Report, slug
from .registry import build, further_pages
from .tables import NOT_APPLICABLE, Column, Table, number_columns, thousands

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

#: The metrics in the report; a comparison as JSON has all.
_METRICS = (
    "iops",
    "mb_per_second",
    "finish_seconds",
    "average_response_ms",
    "response_99_percent_ms",
    "response_99.999_percent_ms",
    "maximum_response_ms",
    "read_iops",
    "write_iops",
    "sync_99_percent_ms",
)
_PERCENTILE = re.compile(r"\w+?_([0-9.]+)_percent_ms")
#: The height of a figure of lines, in inches, by the number of them that fit on a page.
_LINES_HEIGHTS = {3: 2.75, 4: 2.25}
#: The table of the first page that has the values of a field of the header.
_TABLES = {
    "Test Run Date Start:": "Runs",
    "Test Run Date Finish:": "Runs",
    "Report id:": "Provenance",
    "SSD Model:": "Runs",
    "Model No.": "Runs",
    "S/N": "Runs",
}
#: The compared property that has the values of a field of the header.
_COMPARED = {
    "Ref Test Platform": "host",
    "CPU": "CPU",
    "Operating System": "operating system",
    "Firmware ver": "firmware",
    "Capacity": "capacity",
    "Interface": "bus",
    "PCIe/NVMe": "PCIe link",
    "Write Cache": "write cache",
}
#: With more named points, a comparison has figures and matrices only; single points are in the data.
MAX_POINTS = 60
#: The number of runs in one table, beside the first.
RUNS_PER_TABLE = 3


def build_comparison(entries: Sequence[Entry]) -> Report:
    """Return the report on runs of one test; the others are compared with the first."""
    results = [entry.result for entry in entries]
    first = results[0]
    return Report(
        title=f"{first.facts.spec.title} Test, {len(entries)} runs compared",
        author=first.facts.about.operator,
        dated=max(result.finished for result in results),
        header=_header(entries),
        pages=(
            Page(title="Comparison", blocks=tuple(summary(entries)), flows=True),
            *_differences(entries),
            *_figures(entries),
            *_numbers(entries),
        ),
        joined=True,
        runs=_key(entries).text,
    )


def _header(entries: Sequence[Entry]) -> Header:
    """Return the common header of all runs; a field that differs has the values of all runs, or refers to them."""
    results = [entry.result for entry in entries]
    headers, marks = [build(result).header for result in results], {simulated(result) for result in results}
    mark = marks.pop() if len(marks) == 1 else ""
    title = f"{results[0].facts.spec.title} Test - Comparison of {len(results)} Runs{mark}"
    first, merged = headers[0], partial(_merged, entries)
    return Header(
        test=replace(first.test, rows=((title,),)),
        dates=merged([header.dates for header in headers], max_em=0.0),
        standard=merged([header.standard for header in headers]),
        names=merged([header.names for header in headers]),
        heads=first.heads,
        blocks=merged([header.blocks for header in headers]),
    )


def _merged(entries: Sequence[Entry], tables: Sequence[Table], max_em: float = MAX_VALUE_EM) -> Table:
    """Return the tables of all runs as one; the values of a field that differs are shown if they fit."""
    compared = {difference.what for difference in context_differences([entry.result for entry in entries])}
    rows = []
    for lines in zip(*(table.rows for table in tables), strict=True):
        names = ("", *lines[0][:-1])
        rows.append(
            tuple(
                cells[0] if len(set(cells)) == 1 else _differing(entries, name, cells, compared, max_em)
                for name, cells in zip(names, zip(*lines, strict=True), strict=True)
            )
        )
    return replace(tables[0], rows=tuple(rows))


def _differing(
    entries: Sequence[Entry], name: str, values: Sequence[str], compared: Container[str], max_em: float
) -> Differing:
    """Return the values of a field if they fit, else the table of the first page that has them."""
    text = "; ".join(values_with_labels(entries, values))
    if sum(map(width_em, text)) <= max_em:
        return Differing(text)
    table = _TABLES.get(name) or ("Differences" if _COMPARED.get(name) in compared else "")
    return Differing(f"see {table}" if table else "differs")


# -- numbers ----------------------------------------------------------------------------------------------------------


def _numbers(entries: Sequence[Entry]) -> Iterator[Page]:
    """Yield a page for each metric: the values of all runs and their differences from the first.

    Rates are shown either as IOPS or in MB/s, because their relative differences are equal.
    """
    results = [entry.result for entry in entries]
    figures, points = compare_figures(results), points_compared(results)
    if points is not None and points > MAX_POINTS:
        return
    redundant = "iops" if entries[0].result.facts.spec.test == "throughput" else "mb_per_second"
    shown = [metric for metric in _METRICS if metric != redundant]
    if lot_model(results):
        yield from comparison_figures.lot_tables(run_names(entries), figures, shown)
    for metric in shown:
        rows = [figure for figure in figures if figure.metric == metric]
        if rows:
            blocks: tuple[Block, ...] = (*_tables(entries, rows), _reading(entries, rows), *_missing(rows))
            yield Page(title=f"{heading(metric)} by Run", blocks=(_key(entries), *blocks), flows=True)


def _reading(entries: Sequence[Entry], rows: Sequence[ComparedFigure]) -> Prose:
    """Return how to read a table of differences: what is better, and what the asterisks and intervals mean."""
    first, *others = (entry.label for entry in entries)
    basis = f"{others[0]} against {first} (%): ({others[0]} - {first}) / {first}."
    if len(others) > 1:
        basis = f"Against {first} (%): the difference from {first} in percent of {first}."
    better = {"more": " Higher is better.", "less": " Lower is better."}.get(rows[0].better or "", "")
    known = [change for row in rows for change in row.differences if change and change.significant is not None]
    interval = f"the {CONFIDENCE_PERCENT:g} % confidence interval of the difference"
    marks = ""
    if known and len(entries) == 2:
        marks = f" Interval: {interval}. An asterisk marks those that exclude 0."
    elif known:
        marks = f" An asterisk: {interval} excludes 0."
    return Prose(text=f"{basis}{better}{marks}")


def _missing(rows: Sequence[ComparedFigure]) -> Iterator[Prose]:
    """Yield the meaning of ``n/a`` in a table of percentiles that has any."""
    percent = _PERCENTILE.match(rows[0].metric)
    if percent and any(None in row.figures for row in rows):
        least = thousands(100 / (100 - float(percent[1])), 0)
        yield Prose(text=f"n/a: fewer than {least} I/Os, or the run does not have the point.")


def _tables(entries: Sequence[Entry], rows: Sequence[ComparedFigure]) -> Iterator[Table]:
    """Yield tables of a few runs each, all of them with run A, and the last with the spread of all runs.

    The head, which is repeated on each page, names the metric.
    """
    runs = [[figure and figure.value for figure in run] for run in zip(*(row.figures for row in rows), strict=True)]
    medians = [statistics.median(row.values) if row.values else None for row in rows]
    every = [*itertools.chain(*runs), *medians]
    texts = iter(NOT_APPLICABLE if value is None else number(value) for value in every)
    *values, median_texts = [list(itertools.islice(texts, len(rows))) for _ in (*runs, medians)]
    others = range(1, len(entries))
    for start in range(0, len(others), RUNS_PER_TABLE):
        shown = others[start : start + RUNS_PER_TABLE]
        columns = {entries[0].label: values[0]}
        for index in shown:
            label, changes = entries[index].label, [row.differences[index] for row in rows]
            columns |= {label: values[index], f"{label} against {entries[0].label} (%)": _changes(changes)}
            if len(entries) == 2 and any(change and change.round_count for change in changes):
                columns["Interval (%)"] = [_interval(change, round_noun(entries)) for change in changes]
        if shown[-1] == others[-1] and len(entries) >= SPREAD_RUNS:
            columns |= {"Median": median_texts, "Spread (%)": [_spread(row) for row in rows]}
        points = Column(heading=heading(rows[0].metric), width=24)
        headings = (points, *number_columns(dict.fromkeys(columns, 76 // len(columns))))
        lines = zip((row.at for row in rows), *columns.values(), strict=True)
        yield Table(kind="numbers", columns=headings, rows=tuple(lines))


def _changes(changes: Sequence[Difference | None]) -> list[str]:
    """Return the differences of a run from the first in percent, with an asterisk if significant."""
    return [
        NOT_APPLICABLE if change is None else f"{'* ' if change.significant else ''}{signed(change.percent)}"
        for change in changes
    ]


def _spread(row: ComparedFigure) -> str:
    return (
        NOT_APPLICABLE
        if row.spread_percent is None
        else thousands(row.spread_percent, percent_decimals(row.spread_percent))
    )


def _interval(change: Difference | None, noun: str) -> str:
    return NOT_APPLICABLE if change is None else change.interval_text(noun)


def _key(entries: Sequence[Entry]) -> Prose:
    return Prose(text="; ".join(run_names(entries).values()))


# -- figures ----------------------------------------------------------------------------------------------------------


def _differences(entries: Sequence[Entry]) -> Iterator[Page]:
    """Yield the pages that show differences: the units of a lot, the main figures, and heat maps."""
    results, names, test = [entry.result for entry in entries], run_names(entries), entries[0].result.facts.spec.test
    rows = compare_figures(results)
    if model := lot_model(results):
        yield from comparison_figures.lot_page(names, model, test, rows)
    yield from comparison_figures.bars(names, test, rows)
    yield from comparison_figures.heat_maps(names, results, rows)


def _figures(entries: Sequence[Entry]) -> Iterator[Page]:
    if further := further_pages(entries[0].result.facts.spec.test):
        for page in further.comparison({entry.label: entry.result for entry in entries}):
            yield replace(page, blocks=(_key(entries), *page.blocks))
    yield from _page("Tracked Variables by Round", _convergence(entries))
    yield from _page("IOPS by Block Size", _matrix(entries))
    yield from _page("IOPS over Time", _time_lines(entries))


#: Returns a figure with a line for each run, by its height.
_Lines = Callable[[float], Figure]


def _page(title: str, figures_of_page: Iterable[_Lines]) -> Iterator[Page]:
    """Yield a page of low figures below each other; none without any.

    Three fit on a page; four lower ones if otherwise the last would be alone on a page.
    """
    shown = tuple(figures_of_page)
    height = _LINES_HEIGHTS[4 if len(shown) > 3 and len(shown) % 3 == 1 else 3]
    if shown:
        yield Page(title=title, blocks=tuple(draw(height) for draw in shown), flows=True, brief=True)


def _lines(title: str, name: str, caption: str, draw: Callable[..., Drawing], height: float) -> Figure:
    """Return a figure with a line for each run; its caption begins with its title."""
    return Figure(
        name=name,
        caption=f"{title}. {caption}",
        alt=f"{title}: one line per run.",
        draw=partial(draw, height=height),
        height=height,
    )


def _convergence(entries: Sequence[Entry]) -> Iterator[_Lines]:
    """Yield a figure for each tracked variable: its value in every round, one line per run."""
    rule, names = loop_rule(entries[0].result.facts.spec), run_names(entries)
    parts = dict.fromkeys(loop.part for entry in entries for loop in entry.result.loops)
    for place, part in enumerate(parts, start=1):
        loops = {entry.label: entry.result.loop(part) for entry in entries}
        for tracked in rule.tracked if rule else ():
            series: dict[str, dict[int, float]] = {}
            windows: dict[str, Window] = {}
            for label, loop in loops.items():
                if loop and loop.complete and _measures(loop.complete[0], tracked):
                    series[names[label]] = {
                        measured_round.number: measured_round.value(tracked) for measured_round in loop.complete
                    }
                    if loop.window:
                        windows[names[label]] = loop.window
            first = next((entry for entry in entries if names[entry.label] in series), None)
            if first is None:
                continue
            loop = first.result.loop(part)
            label = tracked_series(first.result, loop).label(tracked) if loop else ""
            title = (
                f"{METRICS[tracked.metric].label} by Round - {f'{part}: ' if part and part not in label else ''}{label}"
            )
            # Equal windows are shaded, as in the report on one run.
            equal = (
                windows.keys() == series.keys() and len({(one.numbers, one.steady) for one in windows.values()}) == 1
            )
            window = next(iter(windows.values())) if equal else None
            caption = f"Every complete round, one line per run.{'' if equal else _window_bars(windows)}"
            draw = partial(
                figures.convergence,
                series,
                window.numbers if window else (),
                steady=window is None or window.steady,
                windows={} if window else {name: one.numbers for name, one in windows.items()},
                heading=METRICS[tracked.metric].heading,
                legend="Run",
                log=False,
                styles=overlay_styles(list(names.values())),
            )
            yield partial(_lines, title, f"rounds-{slug(f'{place} {label}' if part else label)}", caption, draw)


def _window_bars(windows: Mapping[str, Window]) -> str:
    """Return a sentence on the bars that mark the windows of the runs, by their names; empty without any."""
    spans = (
        f"{name.partition(':')[0]}: rounds {window.numbers[0]} - {window.numbers[-1]}"
        f"{'' if window.steady else f', {NOT_ACHIEVED}'}"
        for name, window in windows.items()
    )
    return f" Bars at the top: the measurement windows ({'; '.join(spans)})." if windows else ""


def _measures(measured_round: MeasuredRound, tracked: Tracked) -> bool:
    """Return whether a round has the point of a variable that another run tracked."""
    try:
        measured_round.point(tracked)
    except (KeyError, ValueError):
        return False
    return True


def _matrix(entries: Sequence[Entry]) -> Iterator[_Lines]:
    """Yield a figure for each R/W mix of a matrix over block sizes: IOPS, one line per run, with a common scale."""
    spec = entries[0].result.facts.spec
    if not isinstance(spec, RoundsSpec) or spec.test == "throughput":
        return
    grids = [matrices.reduced(entry.result.loops, matrices.iops) for entry in entries]
    draw_lines = partial(figures.matrix_lines, heading="IOPS", styles=overlay_styles(range(len(entries))))
    all_values = [value for grid in grids for value in grid.values()]
    runs = figures.Side(title="Run", keys=tuple(range(len(entries))), labels=tuple(run_names(entries).values()))
    merged = {point: value for grid in grids for point, value in grid.items()}
    measured, _ = matrices.measured_sizes(matrices.sizes(spec.rounds), merged)
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
            draw = partial(draw_lines, values, measured, runs, scale=all_values)
            caption = "IOPS against block size, one line per run; the scale is the same for all R/W mixes."
            yield partial(_lines, f"R/W {mix(share)}", f"matrix-{share}", caption, draw)


def _time_lines(entries: Sequence[Entry]) -> Iterator[_Lines]:
    """Yield a figure for each continuous stimulus: IOPS over time, one line per run."""
    names = run_names(entries)
    styles = overlay_styles(list(names.values()))
    shown = [
        line
        for entry in entries
        for line in entry.result.time_lines
        if line.phase in ("stimulus", "access C") and len(line) > 1
    ]
    stimuli = dict.fromkeys((line.phase, line.part) for line in shown)
    longest = max((line.ended_seconds[-1] for line in shown), default=0.0)
    for place, (phase, part) in enumerate(stimuli, start=1):
        lines = {entry.label: entry.result.time_line(phase, part) for entry in entries}
        series = {
            names[label]: (line.ended_seconds, line.iops) for label, line in lines.items() if line and len(line) > 1
        }
        name = f"{part}, {phase}" if part else phase
        caption = "Every sample, one line per run."
        draw = partial(overlays.over_time, series, heading="IOPS", legend="Run", longest=longest, styles=styles)
        yield partial(_lines, f"IOPS over time: {name}", f"time-{place}", caption, draw)
