"""The pages of the host idle recovery test's report (PTS 2.0.2 chapter 11)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ...analysis import recovery
from ...model.measurement import FIVE_NINES
from ...model.time_series import TimeLine
from ...procedures.host_idle_recovery import wait_state
from ...results.result import Sampling, TestResult
from ...results.tracked_series import sample_times, span
from ...spec import HostIdleSpec
from ...spec.reader import definitions
from ...units import counted, distinct_duration, duration
from ..figures import axes as ax
from ..figures import timelines, timeplots
from ..figures.dashboard import Curves
from ..figures.matrices import WEIGHTED_ART
from ..figures.style import QUIET, series_styles
from ..figures.timelines import ART, IOPS, MRT, NINES, Series
from ..figures.timeplots import Level, Mark
from ..header import (
    NOT_ACHIEVED,
    Rows,
    chart_conditions,
    demand,
    pattern,
    pattern_stimulus,
    preconditions,
    range_and_amount,
    window_rounds,
)
from ..pages import Page, Prose, slug
from ..sections import confidence
from ..sections.convergence import dashboard
from ..sections.provenance import provenance
from ..sections.steady_state import rounds_page, window_pages
from ..sections.summary import summary
from ..tables import NOT_APPLICABLE, UNKNOWN, Column, Table, aligned, number_columns, significant, thousands, time_span

Result = TestResult[HostIdleSpec]


#: Explains a first point that differs from the others.
_FIRST_ACCESS = " The first Access A has no idle time before it."


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A measured wait state: writes (Access A) between idle times (Access B), and the writes after them (Access C).

    ``start`` and ``c_start`` are when Access A and Access C started, in seconds from the start of the first wait state.
    ``c`` is None if Access C was not measured.
    """

    name: str
    idle_seconds: float
    colour: str
    start: float
    a: TimeLine
    c: TimeLine | None
    c_start: float

    @property
    def end(self) -> float:
        """Return the end of the last sample, in seconds."""
        return self.c_start + self.c.ended_seconds[-1] if self.c else self.start + self.a.ended_seconds[-1]


def pages(result: Result) -> tuple[Page, ...]:
    """Return all pages that ``result`` has data for, the summary first."""
    shown = states(result)
    line = result.time_line("PC")
    curves = [timelines.series(line, IOPS)] if line is not None and len(line) else []
    left = Curves(curves=curves, heading="IOPS of the preconditioning") if curves else None
    table = (state_table(result, shown), response_table(shown), _note(result)) if shown else ()
    return (
        summary(result, omitted=_omitted(result, shown), figures=(*dashboard(result, left), *table)),
        *(_preconditioning_pages(result, line) if line is not None and len(line) else ()),
        *(_state_pages(result, shown) if shown else ()),
        provenance(result),
    )


def setup(result: Result) -> Rows:
    """Return the Setup Parameters."""
    spec = result.facts.spec
    writes = (pattern_stimulus(spec), demand(spec.setup.thread_count, spec.setup.queue_depth))
    return preconditions(result, second=writes, rounds=window_rounds(result, result.sampling))


def parameters(result: Result) -> Rows:
    """Return the Test Parameters."""
    spec = result.facts.spec
    waits = spec.wait_states
    names = [wait_state(spec, seconds).split()[-1] for seconds in waits.idle_seconds]
    return (
        ("Data Pattern", pattern(spec)),
        ("AR & Amount", range_and_amount(result)),
        ("Write Stimulus", pattern_stimulus(spec)),
        ("TOIO - TC/QD", demand(spec.setup.thread_count, spec.setup.queue_depth)),
        ("Durations (s)", f"{waits.access_a_seconds:g}, {waits.cycles} times"),
        ("Idle State", "Host Idle"),
        ("Durations (s)", ", ".join(f"{seconds:g}" for seconds in waits.idle_seconds)),
        ("Wait States", ", ".join(names)),
        ("Access C", duration(waits.access_c_seconds)),
        ("Steady State", NOT_APPLICABLE),
    )


def _omitted(result: Result, shown: Sequence[State]) -> str:
    spec = result.facts.spec
    measured = {state.name for state in shown}
    names = (wait_state(spec, seconds) for seconds in spec.wait_states.idle_seconds)
    missing = [name for name in names if name not in measured]
    missing += [f"return to baseline of {state.name}" for state in shown if state.c is None]
    if result.sampling is None or result.sampling.window is None:
        missing.insert(0, "measurement window of the preconditioning")
    return f"{', '.join(missing)} omitted: no data." if missing else ""


def states(result: Result) -> list[State]:
    """Return the wait states that have a measured write, in the order they ran."""
    spec = result.facts.spec
    idle = spec.wait_states.idle_seconds
    colours = series_styles(idle)
    first = next((line.start_ns for line in result.lines("access A") if line.start_ns is not None), 0)
    measured_states = []
    for seconds in idle:
        name = wait_state(spec, seconds)
        a, c = result.time_line("access A", name), result.time_line("access C", name)
        if a is None or not len(a):
            continue
        start = _start_seconds(first, a, 0.0)
        expected = start + a.ended_seconds[-1] + seconds
        c = c if c is not None and len(c) else None
        c_start = _start_seconds(first, c, expected) if c else expected
        measured_states.append(
            State(
                name=name,
                idle_seconds=seconds,
                colour=colours[seconds].colour,
                start=start,
                a=a,
                c=c,
                c_start=c_start,
            )
        )
    return measured_states


def _start_seconds(first_ns: int, line: TimeLine, default: float) -> float:
    return default if line.start_ns is None else (line.start_ns - first_ns) / 1e9


def baseline(sampling: Sampling | None) -> float | None:
    """Return the preconditioning's IOPS: the mean over its last window, steady or not; None without a window."""
    if sampling is None or sampling.window is None:
        return None
    numbers = sampling.window.numbers
    return statistics.fmean(judged.sample.iops for judged in sampling.rounds if judged.number in numbers)


def _baseline_name(sampling: Sampling | None) -> str:
    return (
        "steady state of the preconditioning"
        if sampling and sampling.steady
        else (f"last window of the preconditioning, {NOT_ACHIEVED}")
    )


# -- pages ------------------------------------------------------------------------------------------------------------


def _preconditioning_pages(result: Result, line: TimeLine) -> Iterator[Page]:
    sampling = result.sampling
    yield timeplots.page(
        [timelines.series(line, IOPS)],
        title="HIR - Preconditioning - IOPS vs Time",
        name="preconditioning",
        caption=f"Preconditioning, {line.stimulus.label} {line.stimulus.demand.label}: IOPS against time. "
        f"Samples of {duration(result.facts.spec.settling.sample_seconds)}. {chart_conditions(result)}.",
        alt=f"Line plot: IOPS of {line.stimulus.label} against time, linear scale from zero.",
        ylabel="IOPS",
        dots=timeplots.window_dots(sampling, line),
    )
    if sampling is not None:
        yield from window_pages(result, sampling)
        yield from rounds_page(result, sampling)


def _state_pages(result: Result, shown: Sequence[State]) -> Iterator[Page]:
    levels = _levels(result.sampling)
    sample = duration(result.facts.spec.wait_states.access_c_sample_seconds)
    for state in shown:
        writes = (
            f"Access A: {state.a.stimulus.label}, {state.a.stimulus.seconds:g} s; Access B: idle, "
            f"{state.idle_seconds:g} s"
        )
        marks = [Mark(x=0.0, name=writes, short="Access A, Access B")]
        if state.c:
            marks.append(Mark(x=state.c_start - state.start, name="Access C"))
        yield timeplots.page(
            _curves(state, -state.start, ("Access A", "Access C")),
            title=f"HIR - {state.name} - IOPS vs Time",
            name=slug(state.name),
            caption=f"{state.name}. {writes}; {len(state.a)} times"
            f"{f'. Access C: writes without idle time, samples of {sample}' if state.c else ''}.{_FIRST_ACCESS}"
            f"{_baseline_note(result.sampling)}",
            alt=f"Plot: IOPS of {state.name} against time: points are writes between idle times, the line is the "
            "writes after them, without idle time.",
            ylabel="IOPS",
            marks=marks,
            levels=levels,
        )
        yield _response_times(result, state, marks)
    curves = [curve for state in shown for curve in _curves(state, 0.0, (state.name, state.name))]
    yield timeplots.page(
        [*curves, *_legend_of_accesses(shown[0].a)],
        title="HIR - All Wait States - IOPS vs Time",
        name="wait-states",
        caption="All wait states on a common scale, from the start of the first: points are Access A, lines are "
        f"Access C (return to baseline), samples of {sample}.{_baseline_note(result.sampling)}",
        alt="Plot: IOPS of all wait states against time, one colour per wait state.",
        ylabel="IOPS",
        levels=levels,
    )


def _response_times(result: Result, state: State, marks: Sequence[Mark]) -> Page:
    parts = [(state.a, 0.0, True, "Access A")]
    parts += [(state.c, state.c_start - state.start, False, "Access C")] if state.c else []
    lacking = [name for line, _, _, name in parts if 2 * len(ax.finite(line.five_nines_us)) < len(line)]
    sample = duration(result.facts.spec.wait_states.access_c_sample_seconds)
    shown = timelines.with_values(
        [
            timelines.series(line, quantity, shift=shift, label=f"{quantity.label}, {name}", points=points)
            for quantity in (ART, NINES, MRT)
            for line, shift, points, name in parts
            if quantity is not NINES or name not in lacking
        ]
    )
    known = any(ax.finite(line.five_nines_us) for line, _, _, name in parts if name in lacking)
    subject = f"{'most' if known else 'all'} samples of {' and '.join(lacking)} have"
    note = f" {confidence.no_five_nines(result, subject)}" if lacking else ""
    return timeplots.page(
        shown,
        title=f"HIR - {state.name} - Response Times vs Time",
        name=f"{slug(state.name)}-response-time",
        caption=f"{state.name}: ART, {FIVE_NINES:g} % and MRT of every sample against time, log scale; points are "
        f"Access A, lines are Access C (samples of {sample}).{_FIRST_ACCESS}{note}",
        alt=f"Plot: response times of {state.name} in ms against time, log scale: points are writes between idle "
        "times, lines are the writes after them, without idle time.",
        ylabel="Response time (ms)",
        log=True,
        marks=marks,
    )


def _curves(state: State, shift: float, labels: tuple[str, str]) -> list[Series]:
    parts = [(state.a, state.start, True, labels[0])]
    parts += [(state.c, state.c_start, False, labels[1])] if state.c else []
    return [
        timelines.series(line, IOPS, shift=start + shift, label=label, colour=state.colour, points=points)
        for line, start, points, label in parts
    ]


def _legend_of_accesses(line: TimeLine) -> list[Series]:
    """Return series without samples: their entries in the legend are the styles of Access A and of Access C."""
    return [
        timelines.series(line, IOPS, span=(math.inf, math.inf), label=label, colour=QUIET, points=points)
        for label, points in (("Access A", True), ("Access C", False))
    ]


def _levels(sampling: Sampling | None) -> list[Level]:
    value = baseline(sampling)
    unsteady = "" if sampling and sampling.steady else f" ({NOT_ACHIEVED})"
    return [] if value is None else [Level(value=value, label=f"baseline, {thousands(value, 0)} IOPS{unsteady}")]


def _baseline_note(sampling: Sampling | None) -> str:
    """Return a sentence of a caption on the baseline; empty without one."""
    if sampling is None or sampling.window is None:
        return ""
    return f" Baseline: mean of preconditioning rounds {span(sampling.window.numbers, sample_times(sampling))}."


def state_table(result: Result, shown: Sequence[State]) -> Table:
    """Return idle times, IOPS and the return to baseline by wait state."""
    base, spec = baseline(result.sampling), result.facts.spec
    sample_seconds, c_sample_seconds = spec.settling.sample_seconds, spec.wait_states.access_c_sample_seconds
    idle = [_idle_seconds(result, state) for state in shown]
    means = [timelines.mean(state.a, IOPS) for state in shown]
    unsteady = "" if result.steady_so_far or base is None else "unsteady "
    c = [[mean.value for mean in recovery.iops_means(state.c, sample_seconds)] if state.c else [] for state in shown]
    simulated = result.facts.dut.simulated  # no idle time was measured
    figures = {
        "B: idle requested (s)": [f"{state.idle_seconds:g}" for state in shown],
        **({} if simulated else {"B: idle measured, median (range) (s)": [_median_and_range(times) for times in idle]}),
        "Duty cycle (%)": [_duty_cycle(state, times) for state, times in zip(shown, idle, strict=True)],
        "A: IOPS": aligned(means),
        f"A: % of {unsteady}baseline": _percents(means, base),
        "C start: IOPS": aligned([values[0] if values else None for values in c]),
        "C end: IOPS": aligned([values[-1] if values else None for values in c]),
        f"C end: % of {unsteady}baseline": _percents([values[-1] if values else None for values in c], base),
        f"C: first sample at {unsteady}baseline": [_first_sample(state, base, c_sample_seconds) for state in shown],
        f"Return to {unsteady}baseline": [return_time(state, base, sample_seconds) for state in shown],
    }
    columns = (
        Column(heading="Wait state", width=17),
        *(Column(heading=heading, align="right", width=_width(heading)) for heading in figures),
    )
    rows = tuple(zip((state.name for state in shown), *figures.values(), strict=True))
    return Table(kind="numbers", columns=columns, rows=rows, title="Wait states")


def response_table(shown: Sequence[State]) -> Table:
    """Return ART, 99.999 % and MRT of Access A and of Access C by wait state.

    They are of all I/Os, but without those of the first Access A, which no idle time precedes.
    """
    figures: dict[str, tuple[str, ...]] = {}
    after_idle = [replace(state.a, measurements=state.a.measurements[1:]) for state in shown]
    for access, lines in (("A", after_idle), ("C", [state.c for state in shown])):
        times = [confidence.confidence(line).markers if line else () for line in lines]
        for name in ("ART", f"{FIVE_NINES:g} %", "MRT"):
            values = [next((marker.ms for marker in markers if marker.name == name), None) for markers in times]
            figures[f"{access}: {WEIGHTED_ART if name == 'ART' else f'{name} (ms)'}"] = significant(values)
    widths = dict.fromkeys(figures, 14)
    columns = (Column(heading="Wait state", width=16), *number_columns(widths))
    rows = tuple(zip((state.name for state in shown), *figures.values(), strict=True))
    return Table(kind="numbers", columns=columns, rows=rows, title="Response times of Access A and C")


def _width(heading: str) -> int:
    """Return the width of a column in which no word of the heading is broken."""
    words = {"measured": 25, "requested": 13, "Return": 14, "baseline": 12}
    return next((width for word, width in words.items() if word in heading), 10)


def _percents(values: Sequence[float | None], base: float | None) -> list[str]:
    return [thousands(100 * value / base, 1) if base and value is not None else NOT_APPLICABLE for value in values]


def _median_and_range(seconds: Sequence[float]) -> str:
    """Return idle times as ``5.001 (5.000 - 5.003)``."""
    if not seconds:
        return NOT_APPLICABLE
    middle, shortest, longest = aligned([statistics.median(seconds), min(seconds), max(seconds)], digits=4)
    return f"{middle} ({shortest} - {longest})"


def _idle_seconds(result: Result, state: State) -> list[float]:
    """Return the measured idle times of a wait state in seconds."""
    return [
        gap.idle_ms / 1000
        for gap in result.gaps
        if gap.part == state.name and gap.requested_seconds == state.idle_seconds
    ]


def _duty_cycle(state: State, idle: Sequence[float]) -> str:
    """Return the measured share of write time, in percent."""
    writing = statistics.fmean(state.a.seconds)
    return thousands(100 * writing / (writing + statistics.fmean(idle)), 1) if idle else NOT_APPLICABLE


def _first_sample(state: State, base: float | None, sample_seconds: float) -> str:
    """Return when the first sample of Access C at the baseline was measured."""
    if base is None or state.c is None:
        return NOT_APPLICABLE
    reached = recovery.back_to_baseline(state.c, base, sample_seconds).reached
    return "none" if reached is None else time_span(reached.begin, reached.end, sample_seconds)


def return_time(state: State, base: float | None, mean_seconds: float) -> str:
    """Return when the first mean was measured from which on all are at the baseline."""
    if base is None or state.c is None:
        return NOT_APPLICABLE
    time = recovery.back_to_baseline(state.c, base, mean_seconds)
    if time.recovered is not None:
        return time_span(time.recovered.begin, time.recovered.end, mean_seconds)
    if time.in_band_seconds:
        return f"only for the last {distinct_duration(time.in_band_seconds, time.dwell_seconds)}"
    *_, last = (mean.value for mean in recovery.iops_means(state.c, mean_seconds))
    return f"none: {'below' if last < base else 'above'} it at the end"


def _note(result: Result) -> Prose:
    base, sampling = baseline(result.sampling), result.sampling
    value = f"{thousands(base, 0)} IOPS, the mean over the {_baseline_name(sampling)}" if base else UNKNOWN
    rule, waits = definitions().recovery, result.facts.spec.wait_states
    mean, sample = duration(result.facts.spec.settling.sample_seconds), duration(waits.access_c_sample_seconds)
    idle = [gap for gap in result.gaps if gap.requested_seconds is not None]
    disturbed = sum(gap.disturbed for gap in idle)
    warning = (
        f" {disturbed} of {counted(len(idle), 'idle time')} were disturbed: other programs did I/O on the drive."
        if disturbed
        else ""
    )
    measured = "" if result.facts.dut.simulated else " The drive was idle for at most the measured times."
    return Prose(
        text=f"Wait State n: idle times of n x {waits.access_a_seconds:g} s. Access A: writes; IOPS exclude idle "
        "times. The first access has no idle time before it: IOPS include it, response times do not. Access B: idle "
        f"time. Access C: writes without idle time; start and end: its first and last {mean}.{measured}{warning} Duty "
        f"cycle: I/O time divided by I/O time plus idle time. Baseline: {value}. At the baseline: within "
        f"{rule.tolerance_percent:g} % of it. First sample at baseline: the first one of {sample} in Access C; later "
        f"ones may be off it. Return to baseline: the recovery time, from means of {mean} of Access C: the first mean "
        f"from which on all are at the baseline, for at least {duration(rule.dwell_seconds)} ({rule.dwell_percent:g} % "
        "of Access C if that is less). The standard does not define the return to baseline: these numbers are of this "
        "suite."
    )
