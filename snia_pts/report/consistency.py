"""How even a continuous stimulus is at its end: each sample of the last hour, and how far they lie apart.

What a drive does once it is worn in is judged by the spread of its samples, not by their mean alone.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from functools import partial

from ..timeline import TimeLine
from ..units import counted, duration
from . import timelines, timeplots
from .pages import Figure, Page
from .style import BAD, QUIET
from .tables import Table, aligned, facts, thousands

#: The end of a stimulus, in seconds: no more than half of it.
_END_SECONDS = 3600.0
#: Fewer samples have no spread worth a name.
_FEWEST = 10
#: Samples so far from the mean count as even.
_EVEN_PERCENT = 10.0


def page(line: TimeLine, *, title: str) -> Page | None:
    """Return the page of the end of ``line``, whose name goes on ``title``; None where it has too few samples."""
    begin, rates = _begin(line), timelines.rates(line, timelines.IOPS)
    rows = _rows(line, begin)
    iops = [float(rates[row]) for row in rows]
    if len(iops) < _FEWEST or not all(map(math.isfinite, iops)) or not any(iops):
        return None
    span = (begin, line.ended_seconds[rows[-1]])
    samples = timelines.series(line, timelines.IOPS, span=span, points=True)
    times = timelines.known(
        [timelines.series(line, each, span=span, points=True) for each in (timelines.ART, timelines.MRT)]
    )
    panels = [timeplots.Panel(shown=[samples], ylabel="IOPS", share=1.6, levels=_levels(iops))]
    if times:
        panels.append(timeplots.Panel(shown=times, ylabel="Response time (ms)", log=True))
    each = f"each {line.samples_per_row} samples together" if line.samples_per_row > 1 else "each sample"
    what = f"{each} of the last {duration(line.ended_seconds[-1] - begin)}"
    figure = Figure(
        name="consistency",
        caption=f"IOPS and response times, {what}.{timelines.reduction([samples, *times], log=True)}",
        alt=f"Scatter plot: IOPS, and response times on a log scale, of {what}, with mean, deviation and worst.",
        draw=partial(timeplots.stacked, panels, begin=begin),
    )
    return Page(title=title, blocks=(figure, _table(line, begin, iops)))


def _begin(line: TimeLine) -> float:
    """Return when the end begins, in seconds of the stimulus; a sample that ended just then is none of it."""
    whole = line.ended_seconds[-1]
    return math.nextafter(whole - min(_END_SECONDS, whole / 2), math.inf)


def _rows(line: TimeLine, begin: float) -> list[int]:
    """Return the rows of the end; one that was cut short says nothing of a drive, and is left out."""
    usual = statistics.median(line.seconds)
    rows = (row for row, ended in enumerate(line.ended_seconds) if ended >= begin)
    return [row for row in rows if line.seconds[row] >= usual / 2]


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
    even = sum(abs(each - middle) <= middle * _EVEN_PERCENT / 100 for each in iops)
    each = f"{duration(statistics.median(line.seconds))} each" + (
        f", {line.samples_per_row} samples taken together" if line.samples_per_row > 1 else ""
    )
    mean, apart, low, high = aligned((middle, deviation, min(iops), max(iops)))
    short = sum(ended >= begin for ended in line.ended_seconds) - len(iops)
    left_out = f"; {counted(short, 'sample')} cut short left out" if short else ""
    rows = (
        ("Samples", f"{len(iops)} of {each}, the last {duration(line.ended_seconds[-1] - begin)}{left_out}"),
        ("Mean", f"{mean} IOPS"),
        ("Standard deviation", f"{apart} IOPS, {thousands(100 * deviation / middle, 2)} % of the mean"),
        ("Worst, best sample", f"{low} IOPS, {high} IOPS"),
        *_worst_percent(iops),
        (f"Within {_EVEN_PERCENT:g} % of the mean", f"{thousands(100 * even / len(iops), 1)} % of the samples"),
        (
            "Consistency (mean by deviation)",
            thousands(middle / deviation, 1) if deviation else "all samples are alike",
        ),
    )
    return facts(rows, title="Consistency", label_width=36)


def _worst_percent(iops: Sequence[float]) -> Iterator[tuple[str, str]]:
    """Give what the worst hundredth of the samples does not exceed, where there are a hundred."""
    if len(iops) >= 100:
        worst = sorted(iops)[math.ceil(len(iops) / 100) - 1]
        yield "Worst 1 % of the samples", f"{thousands(worst, 0)} IOPS or less"
