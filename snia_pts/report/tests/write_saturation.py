"""The pages of the write saturation test's report (PTS 2.0.2 chapter 10)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import cast

from ...analysis.recovery import end_rows
from ...model.measurement import (
    FIVE_NINES,
    Measurement,
    average_response_us,
    mean,
    percentile_response_us,
    rate_per_second,
)
from ...model.steps import mix
from ...model.time_series import TimeLine
from ...results.result import Sampling, TestResult, saturation_end
from ...spec import WriteSaturationSpec
from ...units import GB, MB, block_size, duration, number
from ..figures import matrices, timelines, timeplots
from ..figures.timelines import Along, Quantity
from ..header import Rows, alignment, demand, pattern, pattern_stimulus, preconditions, range_and_amount, sampled_rounds
from ..pages import Block, Page, Prose
from ..sections import confidence, consistency
from ..sections.provenance import provenance
from ..sections.steady_state import rounds_page, window_pages
from ..sections.summary import summary
from ..tables import NOT_APPLICABLE, Column, Table, aligned, facts, thousands

#: The table of data has at most so many rows.
_MOST_ROWS = 50
_AGAINST: dict[Along, str] = {"time": "Time", "written": "TGBW", "fills": "Normalised Capacity"}


def pages(result: TestResult) -> tuple[Page, ...]:
    """Return all pages that ``result`` has data for, the summary first."""
    line = _measured(result)
    figures: tuple[Block, ...] = (_course(result, line), key_figures(result, line)) if line else ()
    return (
        summary(result, omitted=_left_out(result, line), figures=figures),
        *(_plots(result, line) if line else ()),
        *(_steady(result, result.sampling) if result.sampling else ()),
        *_histogram(result),
        *([_data(result, line)] if line else ()),
        provenance(result),
    )


def setup(result: TestResult) -> Rows:
    """Return the Setup Parameters."""
    return preconditions(result, rounds=sampled_rounds(result))


def parameters(result: TestResult) -> Rows:
    """Return the Test Parameters."""
    spec = _spec(result)
    after = spec.histogram
    second = f"RND {block_size(after.block_size_bytes)} {mix(after.read_percent)}" if after else NOT_APPLICABLE
    return (
        ("Data Pattern", pattern(spec)),
        ("AR & Amount", range_and_amount(result)),
        ("Test Stimulus 1", pattern_stimulus(spec)),
        ("TOIO - TC/QD", demand(spec.setup.thread_count, spec.setup.queue_depth)),
        ("Ends at", _ends(spec)),
        ("Steady State", sampled_rounds(result)),
        ("Test Stimulus 2", f"{second}, histogram" if after else NOT_APPLICABLE),
        ("TOIO - TC/QD", demand(after.thread_count, after.queue_depth) if after else NOT_APPLICABLE),
        ("Duration", duration(after.seconds) if after else NOT_APPLICABLE),
        ("Steady State", NOT_APPLICABLE),
    )


def _ends(spec: WriteSaturationSpec) -> str:
    told = f"{spec.saturation.capacities:g} x capacity, {duration(spec.saturation.seconds)}"
    return f"{told}, or steady state" if spec.saturation.until_steady else told.replace(", ", " or ")


def _spec(result: TestResult) -> WriteSaturationSpec:
    return cast("WriteSaturationSpec", result.facts.spec)


def _measured(result: TestResult) -> TimeLine | None:
    line = result.time_line("stimulus")
    return line if line is not None and len(line) else None


def _left_out(result: TestResult, line: TimeLine | None) -> str:
    spec, missing = _spec(result), []
    if line is None:
        missing.append("all plots and tables of the stimulus")
    if result.sampling is None or result.sampling.window is None:
        rounds = spec.settling.window_rounds
        wanted = f"{rounds} rounds in a row, {spec.settling.samples(rounds)} samples"
        missing.append(f"measurement window (it wants {wanted}; there are {len(line) if line else 0})")
    if spec.histogram is not None and not _counted(result):
        missing.append("response time histogram")
    return f"Left out for want of data: {', '.join(missing)}." if missing else ""


def _counted(result: TestResult) -> bool:
    after = result.time_line("histogram")
    return after is not None and bool(after.measurements)


def _went_on(result: TestResult) -> str:
    """Say what a stimulus that went on without a new purge makes of its sums; nothing of one in one piece."""
    lost = [stop for stop in result.interruptions if stop.policy == "continue" and stop.discarded_outcomes]
    if not lost:
        return ""
    written = number(sum(stop.discarded_bytes for stop in lost) / GB)
    return (
        f" The stimulus was interrupted and begun once more without a purge: its first sample is not FOB, and TGBW and "
        f"drive fills count from there, so that they are lower bounds; before it at least {written} GB were written."
    )


# -- the summary's share ----------------------------------------------------------------------------------------------


def _course(result: TestResult, line: TimeLine) -> Table:
    spec, written, least = _spec(result), line.written_bytes, "at least " if _went_on(result) else ""
    pauses = [gap.idle_ms for gap in result.gaps[: max(0, line.engine_starts - 1)]]
    longest = f"; longest time without host I/O between: at most {max(pauses):.0f} ms" if pauses else ""
    rows = (
        ("Stimulus", f"{line.stimulus.label} ({spec.pattern.name}), {line.stimulus.demand.label}"),
        *alignment(line.stimulus),
        ("Ended by", saturation_end(result, spec)),
        ("Time", duration(line.ended_seconds[-1])),
        (
            "Written by the stimulus",
            f"{least}{number(written / GB)} GB (TGBW), "
            f"{least}{thousands(result.facts.dut.fills(written), 2)} drive fills",
        ),
        ("Starts of the engine", f"{line.engine_starts}{longest}"),
    )
    return facts(rows, title="The stimulus")


def key_figures(result: TestResult, line: TimeLine) -> Table:
    """Return what the stimulus came to FOB, over the measurement window, and at its end.

    A window that was not steady may hold the fresh drive; it has its own page, and is no figure.
    """
    end, after = end_rows(line), result.time_line("histogram")
    first = "First sample (not FOB)" if _went_on(result) else "First sample (FOB)"
    rows = [(first, _at(line, 0)), ("Last sample", _at(line, len(line) - 1))]
    if result.sampling is not None and result.sampling.steady:
        rows.insert(1, ("Measurement window, mean", _over_window(result.sampling)))
    what = "mean of its samples" if result.facts.imported else "all I/Os"
    rows.append((f"Last {duration(sum(line.seconds[row] for row in end))}, {what}", _over(line, end)))
    if after is not None and after.measurements:
        rows.append((f"Histogram after it, {after.stimulus.label}", _of(after.measurements)))
    names, figures = zip(*rows, strict=True)
    headings = ("IOPS", "MB/s", matrices.art_heading(result), f"{FIVE_NINES:g} % (ms)", "MRT (ms)")
    columns = (
        Column(heading="When", width=35),
        *(Column(heading=heading, align="right", width=13) for heading in headings),
    )
    cells = [aligned(values) for values in zip(*figures, strict=True)]
    return Table(kind="numbers", columns=columns, rows=tuple(zip(names, *cells, strict=True)), title="Key figures")


#: IOPS, MB/s, and in ms ART, five nines, MRT.
_Figures = tuple[float | None, ...]


def _at(line: TimeLine, row: int) -> _Figures:
    iops, moved, average, _, maximum = _over(line, range(row, row + 1))
    return iops, moved, average, line.five_nines_us[row] / 1000, maximum


def _over(line: TimeLine, rows: range) -> _Figures:
    """Return the figures of samples together; a percentile of them all cannot be told from theirs."""
    runtime_ms = 1000 * math.fsum(line.seconds[row] for row in rows)
    ios = [line.read_ios[row] + line.write_ios[row] for row in rows]
    moved = math.fsum(line.read_bytes[row] + line.write_bytes[row] for row in rows)
    waited = math.fsum(each * line.average_response_us[row] for each, row in zip(ios, rows, strict=True))
    return (
        rate_per_second(math.fsum(ios), runtime_ms),
        rate_per_second(moved, runtime_ms) / MB,
        waited / (math.fsum(ios) or math.nan) / 1000,
        None,
        max(line.maximum_response_us[row] for row in rows) / 1000,
    )


def _over_window(sampling: Sampling) -> _Figures:
    numbers = sampling.window.numbers if sampling.window else ()
    samples = [each.sample for each in sampling.rounds if each.number in numbers]
    ios = sum(each.ios for each in samples)
    weighted = math.fsum(each.ios * each.average_response_us for each in samples) / ios if ios else math.nan
    return (
        mean(each.iops for each in samples),
        mean(each.mb_per_second for each in samples),
        weighted / 1000,
        None,
        max(each.maximum_response_us for each in samples) / 1000,
    )


def _of(measured: list[Measurement]) -> _Figures:
    seconds = sum(each.runtime_ms for each in measured) / 1000 or math.nan
    shares = [each.runtime_ms / 1000 / seconds for each in measured]
    nines = percentile_response_us(measured, FIVE_NINES)
    return (
        math.fsum(share * each.iops for share, each in zip(shares, measured, strict=True)),
        math.fsum(share * each.mb_per_second for share, each in zip(shares, measured, strict=True)),
        average_response_us(measured) / 1000,
        None if nines is None else nines / 1000,
        max(each.maximum_response_us for each in measured) / 1000,
    )


# -- plots ------------------------------------------------------------------------------------------------------------


def _plots(result: TestResult, line: TimeLine) -> Iterator[Page]:
    first = _spec(result).pts.startswith("1.")
    yield _plot(result, line, timelines.IOPS)
    yield _plot(result, line, timelines.IOPS, log=True)
    yield _plot(result, line, timelines.IOPS, along="written")
    if first or result.facts.dut.capacity_bytes:
        yield _plot(result, line, timelines.IOPS, along="written" if first else "fills", log=first)
    yield _plot(result, line, timelines.THROUGHPUT)
    yield _plot(result, line, timelines.ART)
    yield _response_times(result, line)
    if end := consistency.page(line, title=_titled(line, "Consistency at the End")):
        yield end


def _titled(line: TimeLine, title: str) -> str:
    return f"WSAT - {line.stimulus.label} - {title}"


def _plot(result: TestResult, line: TimeLine, quantity: Quantity, *, along: Along = "time", log: bool = False) -> Page:
    capacity_bytes = result.facts.dut.capacity_bytes
    shown = [timelines.series(line, quantity, along=along, capacity_bytes=capacity_bytes)]
    scale = "log" if log else "linear"
    against = _AGAINST[along]
    what = {
        "time": "time",
        "written": "total host writes",
        "fills": f"total host writes in drive fills (user capacity, {number(capacity_bytes / GB)} GB)",
    }[along]
    return timeplots.page(
        shown,
        title=_titled(line, f"{quantity.label} vs {against}{' (log)' * log}"),
        name=f"{quantity.name}-{along}{'-log' * log}",
        caption=f"{quantity.heading} against {what}, {scale} scale.{_went_on(result) if along != 'time' else ''}",
        alt=f"Line plot: {quantity.heading} of {line.stimulus.label}, {scale} scale, against {what}.",
        ylabel=quantity.heading,
        log=log,
        along=along,
        dots=timeplots.window_dots(result.sampling, line) if quantity is timelines.IOPS and along == "time" else (),
    )


def _few(result: TestResult, who: str) -> str:
    """Tell why there is no percentile."""
    why = "its file does not tell it" if result.facts.imported else f"where {who} the 100 000 I/Os that it takes"
    return f"{FIVE_NINES:g} % is n/a: {why}."


def _response_times(result: TestResult, line: TimeLine) -> Page:
    shown = timelines.known([timelines.series(line, each) for each in (timelines.ART, timelines.NINES, timelines.MRT)])
    few = "" if any(each.quantity is timelines.NINES for each in shown) else f" {_few(result, 'no sample has')}"
    names = ", ".join(each.label for each in shown)
    return timeplots.page(
        shown,
        title=_titled(line, f"ART, {FIVE_NINES:g} % and MRT vs Time"),
        name="response-time",
        caption=f"Response times against time, log scale: {names}.{few}",
        alt=f"Line plot: response times in ms, log scale, against time: {names}.",
        ylabel="Response time (ms)",
        log=True,
    )


def _steady(result: TestResult, sampling: Sampling) -> Iterator[Page]:
    yield from window_pages(result, sampling)
    yield from rounds_page(result, sampling)


def _histogram(result: TestResult) -> Iterator[Page]:
    after = result.time_line("histogram")
    if after is not None and after.measurements:
        title = f"WSAT - Response Time Histogram - {after.stimulus.label} {after.stimulus.demand.label}"
        yield confidence.page(result, after, title=title, name="histogram")


# -- table of data ----------------------------------------------------------------------------------------------------


def _data(result: TestResult, line: TimeLine) -> Page:
    rows = list(range(0, len(line), _stride(len(line), _spec(result).settling.stride_samples)))
    rows += [len(line) - 1] if rows[-1] != len(line) - 1 else []
    written = list(itertools.accumulate(line.write_bytes))
    figures = [_at(line, row) for row in rows]
    cells = (
        [thousands(line.ended_seconds[row] / 60, 0 if line.ended_seconds[-1] >= 600 else 2) for row in rows],
        *(aligned(values) for values in zip(*figures, strict=True)),
        aligned([written[row] / GB for row in rows]),
        aligned([result.facts.dut.fills(written[row]) for row in rows]),
    )
    headings = (
        "Minute",
        "IOPS",
        "MB/s",
        matrices.art_heading(result),
        f"{FIVE_NINES:g} % (ms)",
        "MRT (ms)",
        "TGBW (GB)",
        "Drive fills",
    )
    columns = tuple(Column(heading=heading, align="right", width=12) for heading in headings)
    table = Table(kind="numbers", columns=columns, rows=tuple(zip(*cells, strict=True)))
    each = duration(_spec(result).settling.sample_seconds)
    note = (
        f"Single samples of {each}, by the minute they ended, {len(rows)} of {len(line)}; "
        f"{_few(result, 'a sample has not')}{_went_on(result)}"
    )
    return Page(title=_titled(line, "Tabular Data"), blocks=(Prose(text=note), table), flows=True)


def _stride(samples: int, stride: int) -> int:
    """Return the least step through the samples that hits all that stand for rounds, and is few rows enough."""
    parts = (part for part in range(1, stride) if stride % part == 0)
    steps = itertools.chain(parts, itertools.count(stride, stride))
    return next(step for step in steps if samples <= step * _MOST_ROWS)
