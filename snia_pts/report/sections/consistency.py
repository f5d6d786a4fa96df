"""How even a continuous stimulus is at its end (``recovery.end_rows``): each sample, and how far they lie apart.

What a drive does once it is worn in is judged by the spread of its samples, not by their mean alone.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from functools import partial

from ...analysis.consistency import even_percent, trend_percent
from ...analysis.recovery import end_rows
from ...model.time_series import TimeLine
from ...spec.reader import definitions
from ...units import counted, duration
from ..figures import timelines, timeplots
from ..figures.style import BAD, QUIET
from ..pages import Figure, Page
from ..tables import NOT_APPLICABLE, Table, aligned, facts, thousands


def page(line: TimeLine, *, title: str) -> Page | None:
    """Return the page of the end of ``line``, whose name goes on ``title``; None where it has too few samples."""
    rows, rates = _rows(line), timelines.rates(line, timelines.IOPS)
    iops = [float(rates[row]) for row in rows]
    if len(iops) < definitions().consistency.minimum_samples or not all(map(math.isfinite, iops)) or not any(iops):
        return None
    begin = line.ended_seconds[rows[0]] - line.seconds[rows[0]]
    span = (math.nextafter(begin, math.inf), line.ended_seconds[rows[-1]])
    samples = timelines.series(line, timelines.IOPS, span=span, points=True)
    times = timelines.known(
        [timelines.series(line, each, span=span, points=True) for each in (timelines.ART, timelines.MRT)]
    )
    panels = [timeplots.Panel(shown=[samples], ylabel="IOPS", share=1.6, levels=_levels(iops))]
    if times:
        panels.append(timeplots.Panel(shown=times, ylabel="Response time (ms)", log=True))
    what = f"each sample of the last {duration(line.ended_seconds[-1] - begin)}"
    figure = Figure(
        name="consistency",
        caption=f"IOPS and response times, {what}.{timelines.reduction([samples, *times], log=True)}",
        alt=f"Scatter plot: IOPS, and response times on a log scale, of {what}, with mean, deviation and worst.",
        draw=partial(timeplots.stacked, panels, begin=begin),
    )
    return Page(title=title, blocks=(figure, _table(line, begin, iops)))


def _rows(line: TimeLine) -> list[int]:
    """Return the rows of the end; one that was cut short says nothing of a drive, and is left out."""
    usual = statistics.median(line.seconds)
    return [row for row in end_rows(line) if line.seconds[row] >= usual / 2]


def _levels(iops: Sequence[float]) -> tuple[timeplots.Level, ...]:
    middle, deviation = statistics.fmean(iops), statistics.stdev(iops)
    apart = "deviation"
    return (
        timeplots.Level(value=middle, label="mean", dash="solid"),
        timeplots.Level(value=middle + deviation, label=apart, colour=QUIET),
        timeplots.Level(value=middle - deviation, label=apart, colour=QUIET),
        timeplots.Level(value=min(iops), label="worst", colour=BAD, dash=(0, (1.5, 1))),
    )


def _table(line: TimeLine, begin: float, iops: Sequence[float]) -> Table:
    middle, deviation = statistics.fmean(iops), statistics.stdev(iops)
    near = definitions().consistency.even_percent
    mean, apart, low, high = aligned((middle, deviation, min(iops), max(iops)))
    short = len(end_rows(line)) - len(iops)
    left_out = f"; {counted(short, 'sample')} cut short left out" if short else ""
    each = duration(statistics.median(line.seconds))
    rows = (
        ("Samples", f"{len(iops)} of {each} each, the last {duration(line.ended_seconds[-1] - begin)}{left_out}"),
        ("Mean", f"{mean} IOPS"),
        ("Standard deviation", f"{apart} IOPS, {thousands(100 * deviation / middle, 2)} % of the mean"),
        ("Worst, best sample", f"{low} IOPS, {high} IOPS"),
        *_worst_percent(iops),
        (f"Within {near:g} % of the mean", f"{thousands(even_percent(iops), 1)} % of the samples"),
        ("Consistency (mean by deviation)", _consistency(iops)),
    )
    return facts(rows, title="Consistency", label_width=36)


def _consistency(iops: Sequence[float]) -> str:
    """Return mean by deviation; of samples that rise or fall that would tell their slope, not their spread."""
    middle, deviation = statistics.fmean(iops), statistics.stdev(iops)
    if not deviation:
        return "all samples are alike"
    rise = trend_percent(iops)
    if rise is not None:
        return f"{NOT_APPLICABLE}: the IOPS {'rise' if rise > 0 else 'fall'} by {abs(rise):.2g} % in this time"
    return thousands(middle / deviation, 1)


def _worst_percent(iops: Sequence[float]) -> Iterator[tuple[str, str]]:
    """Give what the worst hundredth of the samples does not exceed, where there are a hundred."""
    if len(iops) >= 100:
        worst = sorted(iops)[math.ceil(len(iops) / 100) - 1]
        yield "Worst 1 % of the samples", f"{thousands(worst, 0)} IOPS or less"
