"""The consistency of a continuous stimulus at its end (``recovery.end_rows``): each sample, and their spread.

A preconditioned drive is characterised by the spread of its samples, not by their mean alone.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from functools import partial

from ...analysis.consistency import even_percent, trend
from ...analysis.recovery import end_rows
from ...model.time_series import TimeLine
from ...spec.reader import definitions
from ...units import counted, distinct_digits, duration, number
from ..figures import axes as ax
from ..figures import timelines, timeplots
from ..figures.style import BAD, QUIET
from ..pages import Figure, Page, Prose
from ..tables import NOT_APPLICABLE, Table, aligned, facts, thousands


def page(line: TimeLine, *, title: str) -> Page | None:
    """Return the page on the end of ``line``; None if it has too few samples."""
    rows, rates = end_rows(line), timelines.rates(line, timelines.IOPS)
    iops = [float(rates[row]) for row in rows]
    if len(iops) < definitions().consistency.minimum_samples or not all(map(math.isfinite, iops)) or not any(iops):
        return None
    length = _length(line, rows)
    start = line.ended_seconds[rows[-1]] - length
    span = (math.nextafter(start, math.inf), line.ended_seconds[rows[-1]])
    samples = timelines.series(line, timelines.IOPS, span=span, points=True)
    times = timelines.with_values(
        [timelines.series(line, quantity, span=span, points=True) for quantity in (timelines.ART, timelines.MRT)]
    )
    panels = [timeplots.Panel(shown=[samples], ylabel="IOPS", share=1.6, levels=_levels(iops))]
    if times:
        panels.append(timeplots.Panel(shown=times, ylabel="Response time\n(ms)", log=True))
    shown = [*iops, *(level.value for level in panels[0].levels)]
    note = f" {ax.NOT_FROM_ZERO}" * (ax.linear_ticks(min(shown), max(shown))[0] > 0)
    combined = timelines.reduction([samples, *times], log=True)
    content = f"each sample of the last {duration(length)}"
    figure = Figure(
        name="consistency",
        caption=f"IOPS and response times, {content}. {end_definition()}{note}{combined}",
        alt=f"Scatter plot: IOPS, and response times on a log scale, of {content}, with the mean, "
        "the standard deviation and the worst sample.",
        draw=partial(timeplots.stacked, panels, begin=start),
    )
    return Page(title=title, blocks=(figure, _table(line, rows, iops), Prose(text=_definition())))


def _length(line: TimeLine, rows: Sequence[int]) -> float:
    """Return the time from the start of the first of ``rows`` to the end of the last, in seconds."""
    return line.ended_seconds[rows[-1]] - line.ended_seconds[rows[0]] + line.seconds[rows[0]]


def end_definition() -> str:
    """Return a sentence on which samples are the end of a continuous stimulus."""
    rule = definitions().end
    return (
        f"End: the last {rule.percent:g} % of the stimulus, at most {duration(rule.seconds)}, without shortened "
        "samples; this definition is of this suite."
    )


def _levels(iops: Sequence[float]) -> tuple[timeplots.Level, ...]:
    mean, deviation = statistics.fmean(iops), statistics.stdev(iops)
    label = "mean \N{PLUS-MINUS SIGN}\nstandard\ndeviation"
    return (
        timeplots.Level(value=mean, label="mean", dash="solid"),
        timeplots.Level(value=mean + deviation, label=label, colour=QUIET),
        timeplots.Level(value=mean - deviation, label=label, colour=QUIET),
        timeplots.Level(value=min(iops), label="worst\nsample", colour=BAD, dash=(0, (1.5, 1))),
    )


def _table(line: TimeLine, rows: Sequence[int], iops: Sequence[float]) -> Table:
    mean, deviation = statistics.fmean(iops), statistics.stdev(iops)
    near = definitions().consistency.even_percent
    mean_text, deviation_text, low, high = aligned((mean, deviation, min(iops), max(iops)))
    short = len(line) - rows[0] - len(rows)
    omitted = f"; {counted(short, 'shortened sample')} omitted" if short else ""
    sample_time = duration(statistics.median(line.seconds))
    texts = (
        ("Samples", f"{len(iops)} x {sample_time}, the last {duration(_length(line, rows))}{omitted}"),
        ("Mean", f"{mean_text} IOPS"),
        ("Standard deviation", f"{deviation_text} IOPS, {thousands(100 * deviation / mean, 2)} % of the mean"),
        ("Worst, best sample", f"{low} IOPS, {high} IOPS"),
        *_worst_percent(iops),
        (f"Within {near:g} % of the mean", f"{thousands(even_percent(iops), 1)} % of the samples"),
        ("Consistency (mean / standard deviation)", _consistency(iops)),
    )
    return facts(texts, title="Consistency", label_width=36)


def _consistency(iops: Sequence[float]) -> str:
    """Return mean / deviation; n/a if the IOPS rise or fall: it would show their slope, not their spread."""
    mean, deviation = statistics.fmean(iops), statistics.stdev(iops)
    if not deviation:
        return "all samples are equal"
    found = trend(iops)
    if found is None:
        return thousands(mean / deviation, 1)
    rule, direction = definitions().consistency, "rises" if found.line_percent > 0 else "falls"
    percent = _percent(abs(found.line_percent), rule.trend_percent)
    line = f"the least squares line of the IOPS {direction} by {percent} of the mean"
    if found.is_steep:
        return f"{NOT_APPLICABLE}: {line}, more than {rule.trend_percent:g} %"
    chance = _percent(found.p_percent, rule.trend_significance_percent)
    return (
        f"{NOT_APPLICABLE}: the IOPS have a trend: the Mann-Kendall test gives p = {chance}, less than "
        f"{rule.trend_significance_percent:g} %; {line} (allowed: {rule.trend_percent:g} %)"
    )


def _percent(value: float, limit: float) -> str:
    """Return a percentage with two digits, with more if it would look like a different ``limit``."""
    return f"{number(value, digits=distinct_digits((value, limit), least=2))} %"


def _definition() -> str:
    """Return a note on when consistency has a value."""
    rule = definitions().consistency
    return (
        "Consistency is n/a if the IOPS have a trend: if their least squares line rises or falls by more than "
        f"{rule.trend_percent:g} % of the mean, or if the means of {rule.trend_parts:g} consecutive parts of about "
        f"equal length show a trend (Mann-Kendall test, two-sided, p below {rule.trend_significance_percent:g} %). "
        "This definition is of this suite."
    )


def _worst_percent(iops: Sequence[float]) -> Iterator[tuple[str, str]]:
    """Yield the maximum of the worst 1 % of the samples, if there are at least 100."""
    if len(iops) >= 100:
        worst = sorted(iops)[math.ceil(len(iops) / 100) - 1]
        yield "Worst 1 % of the samples", f"{thousands(worst, 0)} IOPS or less"
