"""The pages of the write saturation test's report (PTS 2.0.2 chapter 10)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from ...analysis.recovery import end_rows, whole_rows
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
from ...units import GB, MB, block_size, capacity, counted, duration
from ..figures import matrices, timelines, timeplots
from ..figures.dashboard import Curves
from ..figures.timelines import IOPS, Along, Quantity, Series
from ..header import (
    Rows,
    alignment,
    chart_conditions,
    demand,
    pattern,
    pattern_stimulus,
    preconditions,
    range_and_amount,
    window_rounds,
)
from ..pages import Block, Page, Prose
from ..sections import confidence, consistency
from ..sections.convergence import dashboard
from ..sections.provenance import provenance
from ..sections.steady_state import rounds_page, window_pages
from ..sections.summary import summary
from ..tables import NOT_APPLICABLE, Column, Table, aligned, facts, significant, thousands

Result = TestResult[WriteSaturationSpec]

#: The maximum number of rows in the table of data.
_MAX_ROWS = 50
_AGAINST: dict[Along, str] = {"time": "Time", "written": "TGBW", "fills": "Normalised Capacity"}


def pages(result: Result) -> tuple[Page, ...]:
    """Return all pages that ``result`` has data for, the summary first."""
    line = _measured(result)
    figures: tuple[Block, ...] = ()
    if line:
        curves = Curves(curves=[timelines.series(line, IOPS)], heading="IOPS")
        figures = (
            *dashboard(result, curves),
            _stimulus_table(result, line),
            key_figures(result, line),
            Prose(text=_key_figures_note(result)),
        )
    return (
        summary(result, omitted=_omitted(result, line), figures=figures),
        *(_plots(result, line) if line else ()),
        *(_steady(result, result.sampling) if result.sampling else ()),
        *_histogram(result),
        *([_data(result, line)] if line else ()),
        provenance(result),
    )


def setup(result: Result) -> Rows:
    """Return the Setup Parameters."""
    return preconditions(result)


def parameters(result: Result) -> Rows:
    """Return the Test Parameters."""
    spec = result.facts.spec
    after = spec.histogram
    second = f"RND {block_size(after.block_size_bytes)} {mix(after.read_percent)}" if after else NOT_APPLICABLE
    return (
        ("Data Pattern", pattern(spec)),
        ("AR & Amount", range_and_amount(result)),
        ("Test Stimulus 1", pattern_stimulus(spec)),
        ("TOIO - TC/QD", demand(spec.setup.thread_count, spec.setup.queue_depth)),
        ("Ends at", _ends(spec)),
        ("Steady State", window_rounds(result, result.sampling)),
        ("Test Stimulus 2", f"{second}, histogram" if after else NOT_APPLICABLE),
        ("TOIO - TC/QD", demand(after.thread_count, after.queue_depth) if after else NOT_APPLICABLE),
        ("Duration", duration(after.seconds) if after else NOT_APPLICABLE),
        ("Steady State", NOT_APPLICABLE),
    )


def _ends(spec: WriteSaturationSpec) -> str:
    capacities, seconds = f"{spec.saturation.capacities:g} x capacity", duration(spec.saturation.seconds)
    if spec.saturation.until_steady:
        return f"{capacities}, {seconds}, or steady state"
    return f"{capacities} or {seconds}"


def _measured(result: Result) -> TimeLine | None:
    line = result.time_line("stimulus")
    return line if line is not None and len(line) else None


def _omitted(result: Result, line: TimeLine | None) -> str:
    spec, missing = result.facts.spec, []
    if line is None:
        missing.append("all plots and tables of the stimulus")
    if result.sampling is None or result.sampling.window is None:
        rounds = spec.settling.window_rounds
        required = f"{rounds} consecutive rounds, {spec.settling.samples(rounds)} samples"
        missing.append(f"measurement window (requires {required}; {len(line) if line else 0} available)")
    if spec.histogram is not None and not _has_histogram(result):
        missing.append("response time histogram")
    if not missing:
        return ""
    text = ", ".join(missing)
    return f"{text[0].upper()}{text[1:]} omitted: no data."


def _has_histogram(result: Result) -> bool:
    after = result.time_line("histogram")
    return after is not None and bool(after.measurements)


def _restart_note(result: Result) -> str:
    """Return a note on totals of a stimulus that was resumed without a purge; empty if it ran uninterrupted."""
    discarded = [stop for stop in result.interruptions if stop.policy == "continue" and stop.discarded_outcomes]
    if not discarded:
        return ""
    written = capacity(sum(stop.discarded_bytes for stop in discarded))
    return (
        f" The stimulus was interrupted and restarted without a purge: its first sample is not FOB. TGBW and drive "
        f"fills count from the restart and are lower bounds; at least {written} were written before it."
    )


# -- summary tables ---------------------------------------------------------------------------------------------------


def _stimulus_table(result: Result, line: TimeLine) -> Table:
    spec, written, bound = result.facts.spec, line.written_bytes, "at least " if _restart_note(result) else ""
    pauses = [gap.idle_ms for gap in result.gaps[: max(0, line.engine_starts - 1)]]
    longest = f"; longest idle gap between them: at most {max(pauses):.0f} ms" if pauses else ""
    starts = () if result.facts.dut.simulated else (("fio starts", f"{line.engine_starts}{longest}"),)
    name = "" if spec.pts.startswith("1.") else f" ({spec.pattern.title})"  # 1.1 has one pattern, without a name
    rows = (
        ("Stimulus", f"{line.stimulus.label}{name}, {line.stimulus.demand.label}"),
        *alignment(line.stimulus),
        ("Ended by", saturation_end(result)),
        ("Time", duration(line.ended_seconds[-1])),
        (
            "Written by the stimulus",
            f"{bound}{capacity(written)} (TGBW), {bound}{thousands(result.facts.dut.fills(written), 2)} drive fills",
        ),
        *starts,
    )
    return facts(rows, title="Stimulus")


def key_figures(result: Result, line: TimeLine) -> Table:
    """Return the figures of the stimulus FOB, over the measurement window, and at its end.

    A window that was not steady is omitted, because it may include the fresh drive; it has its own page.
    """
    end, after = end_rows(line), result.time_line("histogram")
    first = "First sample (not FOB)" if _restart_note(result) else "First sample (FOB)"
    rows = [(first, _sample_figures(line, 0)), ("Last full sample", _sample_figures(line, _last_row(line)))]
    if result.sampling is not None and result.sampling.steady:
        rows.insert(1, ("Measurement window", _window_figures(result.sampling)))
    rows.append(
        (f"End: last {duration(sum(line.seconds[row] for row in end))}, all I/Os", _combined_figures(line, end))
    )
    if after is not None and after.measurements:
        rows.append((f"Histogram after it, {after.stimulus.label}", _measurement_figures(after.measurements)))
    names, figures = zip(*rows, strict=True)
    headings = ("IOPS", "MB/s", matrices.WEIGHTED_ART, f"{FIVE_NINES:g} % (ms)", "MRT (ms)")
    columns = (
        Column(heading="Period", width=35),
        *(Column(heading=heading, align="right", width=13) for heading in headings),
    )
    cells = map(significant, zip(*figures, strict=True))
    return Table(kind="numbers", columns=columns, rows=tuple(zip(names, *cells, strict=True)), title="Key figures")


def _key_figures_note(result: Result) -> str:
    has_window = result.sampling is not None and result.sampling.steady
    window = ""
    if has_window:
        window = "Measurement window: means of its samples; ART is weighted by I/O, MRT is the maximum. "
    return (
        f"Samples of {_sample_time(result)}. {window}{consistency.end_definition()} "
        f"{FIVE_NINES:g} % needs at least 100 000 I/Os. For several samples together it is n/a, because the response "
        "time bins of single samples are not stored."
    )


def _last_row(line: TimeLine) -> int:
    """Return the row of the last sample that is not shortened."""
    return whole_rows(line, range(len(line)))[-1]


#: IOPS, MB/s, and in ms ART, five nines, MRT.
_Figures = tuple[float | None, ...]


def _sample_figures(line: TimeLine, row: int) -> _Figures:
    iops, moved, average, _, maximum = _combined_figures(line, range(row, row + 1))
    return iops, moved, average, line.five_nines_us[row] / 1000, maximum


def _combined_figures(line: TimeLine, rows: Sequence[int]) -> _Figures:
    """Return the combined figures of samples; their percentiles cannot be combined, so there is none."""
    seconds = math.fsum(line.seconds[row] for row in rows)
    ios = [line.read_ios[row] + line.write_ios[row] for row in rows]
    moved = math.fsum(line.read_bytes[row] + line.write_bytes[row] for row in rows)
    response_us = math.fsum(count * line.average_response_us[row] for count, row in zip(ios, rows, strict=True))
    return (
        rate_per_second(math.fsum(ios), seconds),
        rate_per_second(moved, seconds) / MB,
        response_us / (math.fsum(ios) or math.nan) / 1000,
        None,
        max(line.maximum_response_us[row] for row in rows) / 1000,
    )


def _window_figures(sampling: Sampling) -> _Figures:
    numbers = sampling.window.numbers if sampling.window else ()
    samples = [judged.sample for judged in sampling.rounds if judged.number in numbers]
    ios = sum(sample.ios for sample in samples)
    weighted = math.fsum(sample.ios * sample.average_response_us for sample in samples) / ios if ios else math.nan
    return (
        mean(sample.iops for sample in samples),
        mean(sample.mb_per_second for sample in samples),
        weighted / 1000,
        None,
        max(sample.maximum_response_us for sample in samples) / 1000,
    )


def _measurement_figures(measured: list[Measurement]) -> _Figures:
    times_ms = [part.runtime_ms for part in measured]
    nines = percentile_response_us(measured, FIVE_NINES)
    return (
        mean((part.iops for part in measured), times_ms),
        mean((part.mb_per_second for part in measured), times_ms),
        average_response_us(measured) / 1000,
        None if nines is None else nines / 1000,
        max(part.maximum_response_us for part in measured) / 1000,
    )


# -- plots ------------------------------------------------------------------------------------------------------------


def _plots(result: Result, line: TimeLine) -> Iterator[Page]:
    pts_1 = result.facts.spec.pts.startswith("1.")
    yield _plot(result, line, timelines.IOPS)
    yield _plot(result, line, timelines.IOPS, log=True)
    yield _plot(result, line, timelines.IOPS, along="written")
    if pts_1 or result.facts.dut.capacity_bytes:
        yield _plot(result, line, timelines.IOPS, along="written" if pts_1 else "fills", log=pts_1)
    yield _plot(result, line, timelines.THROUGHPUT)
    yield _plot(result, line, timelines.ART)
    yield _response_times(result, line)
    if not pts_1 and result.facts.dut.capacity_bytes:
        yield _response_times(result, line, along="fills")
    if end := consistency.page(line, title=_page_title(line, "Consistency at the End")):
        yield end


def _page_title(line: TimeLine, title: str) -> str:
    return f"WSAT - {line.stimulus.label} - {title}"


def _plot(
    result: Result,
    line: TimeLine,
    quantity: Quantity,
    *,
    along: Along = "time",
    log: bool = False,
) -> Page:
    capacity_bytes = result.facts.dut.capacity_bytes
    shown = [_series(line, quantity, along, capacity_bytes)]
    scale = "log" if log else "linear"
    against, axis = _AGAINST[along], _axis(along, capacity_bytes)
    return timeplots.page(
        shown,
        title=_page_title(line, f"{quantity.label} vs {against}{' (log)' * log}"),
        name=f"{quantity.name}-{along}{'-log' * log}",
        caption=f"{quantity.heading} against {axis}, {scale} scale.{_plot_note(result, line, along)}",
        alt=f"Line plot: {quantity.heading} of {line.stimulus.label}, {scale} scale, against {axis}.",
        ylabel=quantity.heading,
        log=log,
        along=along,
        dots=timeplots.window_dots(result.sampling, line) if quantity is timelines.IOPS and along == "time" else (),
    )


def _series(line: TimeLine, quantity: Quantity, along: Along, capacity_bytes: int) -> Series:
    """Return a curve without a shortened last sample, whose MRT is not comparable with that of the others."""
    end = timelines.places(line, along, capacity_bytes)[_last_row(line)]
    return timelines.series(line, quantity, along=along, capacity_bytes=capacity_bytes, span=(-math.inf, float(end)))


def _plot_note(result: Result, line: TimeLine, along: Along) -> str:
    """Return the end of a caption: the stimulus, the length of a sample, and the conditions of the chart."""
    measured = f"{line.stimulus.label}, {line.stimulus.demand.label}, samples of {_sample_time(result)}"
    shortened = "" if _last_row(line) == len(line) - 1 else " The shortened last sample is omitted."
    restarted = "" if along == "time" else _restart_note(result)
    return f" {measured}. {chart_conditions(result)}.{shortened}{restarted}"


def _sample_time(result: Result) -> str:
    return duration(result.facts.spec.settling.sample_seconds)


def _axis(along: Along, capacity_bytes: int) -> str:
    """Return the words of a caption for the x axis."""
    return {
        "time": "time",
        "written": "total host writes",
        "fills": f"total host writes in drive fills (user capacity, {capacity(capacity_bytes)})",
    }[along]


def _response_times(result: Result, line: TimeLine, *, along: Along = "time") -> Page:
    quantities, capacity_bytes = (timelines.ART, timelines.NINES, timelines.MRT), result.facts.dut.capacity_bytes
    shown = timelines.with_values([_series(line, quantity, along, capacity_bytes) for quantity in quantities])
    has_nines = any(series.quantity is timelines.NINES for series in shown)
    note = "" if has_nines else f" {confidence.no_five_nines(result, 'every sample has')}"
    note += _plot_note(result, line, along)
    names, axis = ", ".join(series.label for series in shown), _axis(along, capacity_bytes)
    return timeplots.page(
        shown,
        title=_page_title(line, f"ART, {FIVE_NINES:g} % and MRT vs {_AGAINST[along]}"),
        name=f"response-time{'' if along == 'time' else f'-{along}'}",
        caption=f"Response times against {axis}, log scale: {names}.{note}",
        alt=f"Line plot: response times in ms, log scale, against {axis}: {names}.",
        ylabel="Response time (ms)",
        log=True,
        along=along,
    )


def _steady(result: Result, sampling: Sampling) -> Iterator[Page]:
    yield from window_pages(result, sampling)
    yield from rounds_page(result, sampling)


def _histogram(result: Result) -> Iterator[Page]:
    after = result.time_line("histogram")
    if after is not None and after.measurements:
        title = f"WSAT - Response Time Histogram - {after.stimulus.label} {after.stimulus.demand.label}"
        yield confidence.page(result, after, title=title, name="histogram")


# -- table of data ----------------------------------------------------------------------------------------------------


def _data(result: Result, line: TimeLine) -> Page:
    stride, last = _stride(len(line), result.facts.spec.settling.stride_samples), _last_row(line)
    rows = whole_rows(line, sorted({*range(0, last, stride), last}))
    written = list(itertools.accumulate(line.write_bytes))
    figures = [_sample_figures(line, row) for row in rows]
    cells = (
        [thousands(line.ended_seconds[row] / 60, 0 if line.ended_seconds[-1] >= 600 else 2) for row in rows],
        *map(significant, zip(*figures, strict=True)),
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
    is_missing = any(not math.isfinite(line.five_nines_us[row]) for row in rows)
    missing = f" {confidence.no_five_nines(result, 'the sample has')}" if is_missing else ""
    shortened = len(line) - len(whole_rows(line, range(len(line))))
    omitted = f"; {counted(shortened, 'shortened sample')} omitted" if shortened else ""
    last_one = f"the last{' full' if shortened else ''} one"
    selection = f": one in {stride} from the first on, and {last_one}" if stride > 1 else ""
    note = (
        f"Single samples of {_sample_time(result)}, by the minute they ended, {len(rows)} of {len(line)} shown"
        f"{selection}{omitted}."
        f"{missing}{_restart_note(result)}"
    )
    return Page(title=_page_title(line, "Tabular Data"), blocks=(Prose(text=note), table), flows=True)


def _stride(samples: int, stride: int) -> int:
    """Return the smallest step that includes every round's sample and gives at most ``_MAX_ROWS`` rows."""
    divisors = (divisor for divisor in range(1, stride) if stride % divisor == 0)
    steps = itertools.chain(divisors, itertools.count(stride, stride))
    return next(step for step in steps if samples <= step * _MAX_ROWS)
