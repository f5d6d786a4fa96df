"""Pages about steady state: convergence, measurement windows with their determination, tracked variables by round.

They serve a loop of rounds as well as the samples of a continuous stimulus that serve as rounds, for any metric.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from ...analysis.steady_state import SteadyState, determine
from ...analysis.window import Judged, Window, consecutive_rounds, interruption_marks, rounds_since_interruption
from ...model.measurement import FIVE_NINES, METRICS, Key, MeasuredRound, Measurement, Metric
from ...model.steps import Stimulus, mix
from ...results.result import Loop, Sampling, TestResult
from ...results.tracked_series import (
    TrackedSeries,
    convergence,
    shown_series,
    span,
    tracked_series,
)
from ...spec import (
    DemandSpec,
    HostIdleSpec,
    RoundsSpec,
    SampledSteadyStateRule,
    Spec,
    SteadyStateRule,
    Tracked,
    WriteSaturationSpec,
    loop_rule,
    max_rounds,
)
from ...units import counted, distinct_decimals, duration, number
from ..figures import figure as figures
from ..figures import matrices
from ..figures.axes import NOT_FROM_ZERO, is_wide
from ..figures.dashboard import HEIGHT as DASHBOARD_HEIGHT
from ..figures.dashboard import Curves, HeatMap
from ..figures.dashboard import Tracked as TrackedLines
from ..figures.dashboard import draw as draw_dashboard
from ..figures.style import SeriesStyle, overlaid, overlay_styles, series_styles
from ..header import ALTERED, NOT_ACHIEVED, window_rounds
from ..pages import FIGURE_HEIGHT, Block, Figure, Page, Prose
from ..tables import NOT_APPLICABLE, Column, Table, decimals_for, facts, number_columns, significant, thousands

#: The maximum number of tracked variables side by side in one table.
_MAX_PER_TABLE = 3
#: The digits of the smallest value of a tracked variable: excursions are printed in hundredths of a percent.
_TRACKED_DIGITS = 5
#: The most decimals of a tracked variable.
_MOST_DECIMALS = 6
#: Heights of the two figures of a page in inches: all stimuli, and the tracked variables.
_UPPER_HEIGHT, _TRACKED_HEIGHT = 3.5, 2.9


def slug(text: str) -> str:
    """Return ``text`` as a figure's name: ``window-rnd-4kib-rw0``."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")


# -- convergence ------------------------------------------------------------------------------------------------------


def convergence_page(
    loop: Loop,
    metric: Metric,
    key: Callable[[Stimulus], Key],
    lines: Mapping[Key, str],
    *,
    title: str,
    name: str,
    caption: str,
    legend: str,
    log: bool = True,
    tracked: Figure | None = None,
) -> Iterator[Page]:
    """Yield the page that plots ``metric`` over all complete rounds of ``loop``; none if there are none.

    ``lines`` names the stimuli to show, by ``key``, in the same order in every figure, so that styles match, even if
    some of them have no data.  ``tracked`` is a second figure.
    """
    series = _series(loop.complete, metric, key, lines)
    if not series:
        return
    incomplete = [measured_round.number for measured_round in loop.rounds if not measured_round.complete]
    note = f" Round {incomplete[0]} was not completed and is not shown." if incomplete else ""
    height = _UPPER_HEIGHT if tracked else FIGURE_HEIGHT
    scale = "log scale" if log else "linear scale from zero"
    figure = Figure(
        name=name,
        caption=f"{caption}{note}",
        alt=f"Line plot: {metric.heading}, {scale}, against rounds 1 to {loop.complete[-1].number}. {caption}",
        draw=partial(
            figures.convergence,
            series,
            loop.window.numbers if loop.window else (),
            heading=metric.heading,
            legend=legend,
            log=log,
            steady=loop.steady,
            height=height,
            interruptions=interruption_marks(loop.complete),
            styles=series_styles(list(lines.values())),
        ),
        height=height,
    )
    blocks = (figure, tracked) if tracked else (figure,)
    yield Page(title=title, blocks=blocks, flows=tracked is not None)


def _series(
    rounds: Sequence[MeasuredRound], metric: Metric, key: Callable[[Stimulus], Key], lines: Mapping[Key, str]
) -> dict[str, dict[int, float]]:
    """Return the values of each of ``lines`` by label and round, without those that have none."""
    series: dict[str, dict[int, float]] = {}
    for measured_round in rounds:
        measurements = measured_round.keyed_by(key)
        for line_key, label in lines.items():
            if line_key in measurements:
                series.setdefault(label, {})[measured_round.number] = metric.read(measurements[line_key])
    return {label: series[label] for label in lines.values() if label in series}


def tracked_figure(result: TestResult, loop: Loop) -> Figure:
    """Return the figure of all tracked variables over all rounds, each in percent of its average in the last window.

    Without a window, the average is that of all rounds.
    """
    tracked = tracked_series(result, loop)
    numbers, series = tracked.averaged, tracked.percents()
    half = tracked.rule.data_excursion_percent / 2
    bounds = tracked.bounds
    values = [*bounds.values(), *(value for line in series.values() for value in line.values())]
    hides_zero = not is_wide(values) and figures.padded(values)[0] > 0
    basis = f"the average of rounds {numbers[0]} - {numbers[-1]}"
    return Figure(
        name="convergence-tracked",
        caption=f"Every tracked variable over all rounds, in percent of {basis}.{f' {NOT_FROM_ZERO}' * hides_zero}",
        alt=f"Line plot: every tracked variable in percent of {basis}, with lines at {half:g} % above and below it.",
        draw=partial(
            figures.convergence,
            series,
            tracked.window.numbers if tracked.window else (),
            heading=_percent_heading([tracked]),
            legend="Tracked variable",
            log=False,
            steady=tracked.window is None or tracked.window.steady,
            height=_TRACKED_HEIGHT,
            interruptions=interruption_marks(tracked.rounds),
            bounds=bounds,
            styles=tracked_styles(result, [tracked]),
        ),
        height=_TRACKED_HEIGHT,
    )


def tracked_styles(result: TestResult, shown: Sequence[TrackedSeries]) -> dict[str, SeriesStyle]:
    """Return the style of each tracked variable by label: its lines may coincide.

    Colour and marker are those of its block size in all figures, unless tracked variables share a block size.
    """
    spec = result.facts.spec
    stimuli = {
        series.label(variable): stimulus
        for series in shown
        for variable, stimulus in zip(series.rule.tracked, series.stimuli, strict=True)
    }
    if isinstance(spec, RoundsSpec):
        of_sizes = series_styles(matrices.sizes(spec.rounds).keys)
        styles = {label: of_sizes[matrices.size_and_mix(stimulus)[0]] for label, stimulus in stimuli.items()}
        if len({style.colour for style in styles.values()}) == len(styles):
            return overlaid(styles)
    return overlay_styles(list(stimuli))


def _percent_heading(shown: Sequence[TrackedSeries]) -> str:
    """Return the name of the tracked quantities, with their unit."""
    labels = dict.fromkeys(METRICS[variable.metric].label for tracked in shown for variable in tracked.rule.tracked)
    return f"{' and '.join(labels)} (% of average)"


def dashboard(result: TestResult, left: HeatMap | Curves | None) -> Iterator[Figure]:
    """Yield the figure of the first page: ``left``, and every tracked variable over its rounds; none without data."""
    shown, tracked, about = shown_series(result), None, [left.heading] if left else []
    if lines := convergence(shown):
        tracked = TrackedLines(heading=_percent_heading(shown), lines=lines, styles=tracked_styles(result, shown))
        basis = "window" if all(series.window for series in shown) else "rounds"
        noun, bounds = f"tracked variable{'s' * (len(lines.series) != 1)}", " and ".join(reversed(lines.bounds))
        about.append(f"{noun} over all rounds, in percent of the average of the {basis}; dashed: {bounds}")
    if not about:
        return
    marks = matrices.shown_marks(left.marked) if isinstance(left, HeatMap) else ""
    text = "; ".join(about)
    yield Figure(
        name="dashboard",
        caption=f"{text[0].upper()}{text[1:]}.{marks}",
        alt=f"Two small plots: {text}." if len(about) > 1 else f"A small plot: {text}.",
        draw=partial(draw_dashboard, left, tracked),
        height=DASHBOARD_HEIGHT,
        shaded=isinstance(left, HeatMap),
    )


# -- measurement window -----------------------------------------------------------------------------------------------


def window_pages(result: TestResult, part: Loop | Sampling) -> Iterator[Page]:
    """Yield a page for each tracked variable of the last window of a loop or sampling; none without a window."""
    tracked = tracked_series(result, part)
    if tracked.window is None:
        return
    suffix = _suffix(result, tracked.window)
    for variable, determination in tracked.window.determinations:
        title = f"{tracked.name} Steady State Measurement Window - {tracked.code(variable)}{suffix}"
        yield Page(title=title, blocks=tuple(_window_blocks(tracked, variable, determination)))


def _suffix(result: TestResult, window: Window) -> str:
    """Return the end of the title of a page about a window: NOT ACHIEVED, ALTERED RULES, or nothing."""
    return ("" if window.steady else f" - {NOT_ACHIEVED}") + (f" - {ALTERED}" if result.altered_rules else "")


def all_sizes_window_page(
    result: TestResult, loop: Loop, metric: Metric, read_percent: int, lines: Mapping[tuple[int, int], str]
) -> Iterator[Page]:
    """Yield the page of the last window for all block sizes at one R/W mix, tracked or not; none without a window.

    ``lines`` names the points by block size and mix.
    """
    tracked = tracked_series(result, loop)
    series = _series(loop.window_rounds, metric, matrices.size_and_mix, lines)
    if tracked.window is None or not series:
        return
    rule, points = tracked.rule, f"every block size, R/W {mix(read_percent)}"
    figure = Figure(
        name="window-all",
        caption=f"{metric.label} of {points}; {spans([loop])}.",
        alt=f"Line plot: {metric.heading} of {points} in the rounds of the measurement window, log scale.",
        draw=partial(
            figures.convergence,
            series,
            (),
            heading=metric.heading,
            legend="Block size",
            height=figures.WINDOW_HEIGHT,
            styles=series_styles(list(lines.values())),
        ),
        height=figures.WINDOW_HEIGHT,
    )
    note = (
        f"Allowed for the tracked variables: {rule.data_excursion_percent:g} % (data excursion), "
        f"{rule.slope_excursion_percent:g} % (slope excursion). Only they decide steady state; the others are for "
        "information."
    )
    of_tracked = {
        matrices.size_and_mix(stimulus)
        for variable, stimulus in zip(rule.tracked, tracked.stimuli, strict=True)
        if METRICS[variable.metric] == metric
    }
    named = {label: key in of_tracked for key, label in lines.items()}
    table = _sizes_table(series, named, tracked, metric)
    title = f"{tracked.name} Steady State Measurement Window - All Block Sizes{_suffix(result, tracked.window)}"
    yield Page(title=title, blocks=(figure, table, Prose(text=note)))


def _sizes_table(
    series: Mapping[str, Mapping[int, float]], of_tracked: Mapping[str, bool], tracked: TrackedSeries, metric: Metric
) -> Table:
    """Return average and excursions of each of ``series`` in the window; ``of_tracked``: it is a tracked variable."""
    states = [determine([*line.values()], tracked.rule, first_round=min(line)) for line in series.values()]
    data, slope = zip(*map(_round_percents, states), strict=True)
    rows = zip(
        series,
        [number(state.average, digits=_TRACKED_DIGITS) for state in states],
        data,
        slope,
        map(_steady, states),
        ["yes" if of_tracked[label] else "no" for label in series],
        strict=True,
    )
    columns = (
        Column(heading="Block size", align="right", width=16),
        *number_columns({f"Average ({metric.unit})": 20, "Data excursion (%)": 18, "Slope excursion (%)": 18}),
        Column(heading="Within the limits", align="center", width=14),
        Column(heading="Tracked", align="center", width=14),
    )
    return Table(kind="numbers", columns=columns, rows=tuple(rows), title="Excursions in percent of the average")


def _window_blocks(tracked: TrackedSeries, variable: Tracked, determination: SteadyState) -> Iterator[Block]:
    shown, metric = _readable(determination, METRICS[variable.metric])
    label = tracked.label(variable)
    rounds = span(determination.rounds, tracked.times)
    half = tracked.rule.data_excursion_percent / 2
    low, _ = figures.window_limits(shown, tracked.rule.data_excursion_percent)
    if tracked.window is not None and not tracked.window.steady:
        yield Prose(text=_not_achieved(determination, tracked.window), kind="bad")
    yield Figure(
        name=slug(f"window{' samples' if tracked.times else ''} {tracked.code(variable)}"),
        caption=f"{label}, rounds {rounds}.{f' {NOT_FROM_ZERO}' * (low > 0)}",
        alt=f"Line plot: {metric.label} of {label} in rounds {rounds}, with their average, lines {half:g} % above and "
        "below it, and the least squares line.",
        draw=partial(
            figures.measurement_window,
            shown,
            tracked.rule.data_excursion_percent,
            metric=metric,
            times=tracked.times,
        ),
        height=figures.WINDOW_HEIGHT,
    )
    yield determination_table(shown, tracked.rule, metric, rounds)


def _not_achieved(determination: SteadyState, window: Window) -> str:
    if not determination.evaluable:
        return "STEADY STATE NOT ACHIEVED: this variable is not evaluable (its average is not a positive number)."
    if not determination.steady:
        return "STEADY STATE NOT ACHIEVED: this variable is not steady in this window."
    if window.all_steady:
        return f"STEADY STATE NOT ACHIEVED: {window.early_note}."
    return "STEADY STATE NOT ACHIEVED: this variable is steady here, but not all tracked variables are."


def determination_table(determination: SteadyState, rule: SteadyStateRule, metric: Metric, rounds: str) -> Table:
    """Return the Steady State Determination Data of one tracked variable; ``rounds`` is the text of its rounds."""
    title = "Steady State Determination Data"
    if not determination.evaluable:
        reason = "not evaluable: the average is not a positive number"
        return facts([("Measurement window (rounds)", rounds), ("Verdict", f"{NOT_ACHIEVED} ({reason})")], title=title)
    data_percent, slope_percent = determination.percent_texts(decimals=3)
    determination, metric = _readable(determination, metric)
    data_pair = (determination.data_excursion, determination.allowed_data_excursion)
    slope_pair = (determination.slope_excursion, determination.allowed_slope_excursion)
    values = (determination.average, *data_pair, *slope_pair)
    decimals = decimals_for(values, digits=4, most=_decimals(determination))
    decimals = max(distinct_decimals(*pair, least=decimals) for pair in (data_pair, slope_pair))
    average, data_excursion, allowed_data, slope_excursion, allowed_slope = (
        thousands(value, decimals) for value in values
    )
    data_passes, slope_passes = data_pair[0] <= data_pair[1], slope_pair[0] <= slope_pair[1]
    rows = (
        ("Measurement window (rounds)", rounds, "", ""),
        ("Average", average, "100", ""),
        ("Allowed maximum data excursion", allowed_data, f"{rule.data_excursion_percent:g}", ""),
        ("Measured data excursion", data_excursion, data_percent, _passes(data_passes)),
        ("Allowed maximum slope excursion", allowed_slope, f"{rule.slope_excursion_percent:g}", ""),
        ("Measured slope excursion", slope_excursion, slope_percent, _passes(slope_passes)),
        ("Least squares line (R: round)", line(determination), "", ""),
        ("Verdict", "STEADY" if determination.steady else NOT_ACHIEVED, "", _passes(determination.steady)),
    )
    headings = (
        Column(heading="Quantity", width=40),
        Column(heading=metric.unit, align="right", width=30),
        Column(heading="% of average", align="right", width=15),
        Column(heading="Rule", align="center", width=15),
    )
    return Table(kind="numbers", columns=headings, rows=rows, title=title)


def _readable(determination: SteadyState, metric: Metric) -> tuple[SteadyState, Metric]:
    """Return a determination and its metric: response times below 1 ms in microseconds."""
    if metric.unit != "ms" or not determination.average < 1:
        return determination, metric
    names = ("average", "allowed_data_excursion", "data_excursion", "allowed_slope_excursion", "slope_excursion")
    scaled = {name: 1000 * getattr(determination, name) for name in (*names, "slope", "intercept")}
    values = tuple(1000 * value for value in determination.values)
    return replace(determination, values=values, **scaled), replace(metric, unit="\N{MICRO SIGN}s")


def _decimals(determination: SteadyState) -> int:
    """Return the number of decimals that shows a millionth of the average."""
    return decimals_for([determination.average], digits=6, most=_MOST_DECIMALS)


def _passes(passed: bool) -> str:
    return "pass" if passed else "FAIL"


def line(determination: SteadyState) -> str:
    """Return the best fit as a formula of the round: ``-6.4 x R + 11 746.0``."""
    slope, intercept, decimals = determination.slope, determination.intercept, _decimals(determination)
    sign = "-" if intercept < 0 else "+"
    return f"{thousands(slope, decimals)} x R {sign} {thousands(abs(intercept), decimals)}"


# -- round by round ---------------------------------------------------------------------------------------------------


def rounds_page(result: TestResult, *parts: Loop | Sampling) -> Iterator[Page]:
    """Yield the page of the tracked variables by round, with the windows' excursions; none without a round."""
    all_tracked = [tracked for part in parts if (tracked := tracked_series(result, part)).rounds]
    if not all_tracked:
        return
    rule, sampled = all_tracked[0].rule, all_tracked[0].times is not None
    subject = "all tracked variables are" if len(rule.tracked) > 1 else "the tracked variable is"
    note = (
        f"Excursions are calculated over the {rule.window_rounds} rounds that end with the row's round, in percent "
        f"of their average; allowed are {rule.data_excursion_percent:g} % (data), {rule.slope_excursion_percent:g} % "
        f"(slope). {_end(result.facts.spec, subject, sampled=sampled)}{_minimum_fills(rule)}"
    )
    if any(_has_gaps(tracked.rounds) for tracked in all_tracked):
        note += " There is no sample for a round that is missing here, and no window spans it."
    if any(interruption_marks(tracked.rounds) for tracked in all_tracked):
        note += " * The run was interrupted in this round, or right before it: no window spans the interruption."
    groups = [rule.tracked[start : start + _MAX_PER_TABLE] for start in range(0, len(rule.tracked), _MAX_PER_TABLE)]
    tables = (round_table(tracked, group) for tracked in all_tracked for group in groups)
    prefix = f"{all_tracked[0].name} - " if sampled else ""
    yield Page(title=f"{prefix}Tracked Variables by Round", blocks=(*tables, Prose(text=note)), flows=True)


def _end(spec: Spec, steady: str, *, sampled: bool) -> str:
    """Return a sentence on what ends the rounds; ``steady`` is what must be steady, with its verb."""
    first = f"with the first round in which {steady} steady"
    if isinstance(spec, WriteSaturationSpec):
        limit = f"{spec.saturation.capacities:g} x user capacity or {duration(spec.saturation.seconds)}"
        until = f"{first}, or after" if spec.saturation.until_steady else "after"
        return f"The stimulus ends {until} {limit}, whichever comes first."
    if sampled and isinstance(spec, HostIdleSpec | DemandSpec):
        return f"The preconditioning ends {first}, or after round {spec.conditioning.maximum}."
    return f"The test loop ends {first}, or after round {max_rounds(spec)}."


def _minimum_fills(rule: SteadyStateRule) -> str:
    """Return a sentence on the writes required before a window of samples counts; empty if none are."""
    fills = rule.minimum_fills if isinstance(rule, SampledSteadyStateRule) else 0
    if not fills:
        return ""
    times = "once" if fills == 1 else f"{fills:g} times"
    return f" A window counts only if the ActiveRange was written {times} by its end; this rule is of this suite."


def round_table(tracked: TrackedSeries, variables: Sequence[Tracked]) -> Table:
    """Return tracked variables round by round, each with the excursions of the window that ends there."""
    headings = [Column(heading="Round", align="right", width=9)]
    interrupted = {math.ceil(mark) for mark in interruption_marks(tracked.rounds)}
    numbers = [judged_round.number for judged_round in tracked.rounds]
    cells: list[Sequence[str]] = [[f"{'* ' if number in interrupted else ''}{number}" for number in numbers]]
    if times := tracked.times:
        headings.append(Column(heading=times.unit.capitalize(), align="right", width=9))
        cells.append([f"{times.ends[number]:.4g}" for number in numbers])
    for variable in variables:
        unit = METRICS[variable.metric].unit
        headings += [
            Column(heading=f"{tracked.label(variable)} ({unit})", align="right", width=13),
            Column(heading="Data exc. (%)", align="right", width=9),
            Column(heading="Slope exc. (%)", align="right", width=9),
            Column(heading="Steady", align="center", width=9),
        ]
        cells += _variable_cells(tracked, variable)
    rows = tuple(zip(*cells, strict=True))
    return Table(kind="numbers", columns=tuple(headings), rows=rows, title=tracked.part)


def _has_gaps(rounds: Sequence[Judged]) -> bool:
    """Return whether a round is missing between others."""
    return any(after.number != before.number + 1 for before, after in pairwise(rounds))


def _variable_cells(tracked: TrackedSeries, variable: Tracked) -> tuple[Sequence[str], ...]:
    rounds, rule = tracked.rounds, tracked.rule
    values = [judged_round.value(variable) for judged_round in rounds]
    states: list[SteadyState | None] = []
    for end in range(1, len(values) + 1):
        last = consecutive_rounds(rounds[:end], rule)
        complete = len(last) == rule.window_rounds
        states.append(determine(values[end - len(last) : end], rule, first_round=last[0].number) if complete else None)
    data, slope = zip(*map(_round_percents, states), strict=True)
    return (
        [number(value, digits=_TRACKED_DIGITS) for value in values],
        data,
        slope,
        [_steady(state) for state in states],
    )


def _round_percents(determination: SteadyState | None) -> tuple[str, str]:
    if determination is None:
        return "", ""
    return determination.percent_texts(decimals=2) if determination.evaluable else (NOT_APPLICABLE,) * 2


def _steady(determination: SteadyState | None) -> str:
    if determination is None:
        return ""
    return "yes" if determination.steady else "no"


# -- for the summary --------------------------------------------------------------------------------------------------


def key_figures(result: TestResult, loops: Sequence[Loop]) -> Iterator[Block]:
    """Yield the table of the loops' tracked points over their windows; none without a window.

    Sentences explain the mark of host-limited points, and what the response times of mixed points are.
    """
    rows: list[tuple[str, str, tuple[Measurement, ...], str]] = []
    for loop in loops:
        tracked = tracked_series(result, loop)
        for variable, determination in tracked.window.determinations if tracked.window else ():
            measured = tuple(window_round.point(variable) for window_round in loop.window_rounds)
            steady = "yes" if determination.steady else "NO"
            rows.append((tracked.label(variable), window_rounds(result, loop), measured, steady))
    if not rows:
        return
    points = [measured for _, _, measured, _ in rows]
    limited = frozenset(index for index, measured in enumerate(points) if result.host_limited(measured))
    values = (
        significant(map(matrices.iops, points)),
        significant(map(matrices.mb_per_second, points)),
        significant(map(matrices.average_response_ms, points)),
        significant(matrices.percentile_response_ms(measured, FIVE_NINES) for measured in points),
        significant(map(matrices.maximum_response_ms, points)),
    )
    headings = {"IOPS": 9, "MB/s": 8, matrices.art_heading(result): 22, f"{FIVE_NINES:g} % (ms)": 13, "MRT (ms)": 10}
    columns = (
        Column(heading="Tracked variable", width=20),
        Column(heading="Rounds", width=12),
        *(Column(heading=heading, align="right", width=width) for heading, width in headings.items()),
        Column(heading="Steady", align="center", width=9),
    )
    names, window_spans, _, verdicts = zip(*rows, strict=True)
    marked = [f"{matrices.MARK} {name}" if index in limited else name for index, name in enumerate(names)]
    table_rows = tuple(zip(marked, window_spans, *values, verdicts, strict=True))
    yield Table(kind="numbers", columns=columns, rows=table_rows, title="Key figures of the measurement window")
    no_tail = NOT_APPLICABLE in values[3] and not result.facts.imported
    notes = (
        matrices.mixed_times(measured.stimulus for point in points for measured in point),
        f"{FIVE_NINES:g} % is n/a: it needs 100 000 I/Os." if no_tail else "",
        _unsteady_points(result, loops)[0],
        matrices.foot(limited),
    )
    if any(notes):
        yield Prose(text=" ".join(filter(None, notes)))


def unsteady_points_note(result: TestResult, loops: Sequence[Loop]) -> str:
    """Return sentences on the points that are not steady in the loops' windows; empty if there are none."""
    text, unsteady = _unsteady_points(result, loops)
    return f"{text} {_largest(unsteady)} Only tracked variables decide steady state." if unsteady else ""


def _unsteady_points(result: TestResult, loops: Sequence[Loop]) -> tuple[str, Sequence[tuple[str, SteadyState]]]:
    """Return a sentence on the number of points that are not steady in the loops' windows, and these points.

    Both are empty if all are steady, or if a window is not: then the verdict says it.  Each point is evaluated for the
    metric of the tracked variables.
    """
    rule = loop_rule(result.facts.spec)
    if rule is None or not all(loop.steady for loop in loops):
        return "", ()
    states: list[tuple[str, SteadyState]] = []
    for loop in loops:
        metric, first = METRICS[rule.tracked[0].metric], loop.window_rounds[0].number
        rounds = [measured.keyed_by(matrices.size_and_mix) for measured in loop.window_rounds]
        for key, point in rounds[0].items():
            values = [metric.read(points[key]) for points in rounds]
            states.append((point.stimulus.label, determine(values, rule, first_round=first)))
    unsteady = [(label, state) for label, state in states if state.evaluable and not state.steady]
    exceed = f"{len(unsteady)} of {counted(len(states), 'point')} exceed{'s' * (len(unsteady) == 1)} the limits of the"
    return (f"{exceed} tracked variables in the window." if unsteady else ""), unsteady


def _largest(unsteady: Sequence[tuple[str, SteadyState]]) -> str:
    """Return a sentence on the largest data excursion and the largest slope excursion of these points."""
    data_label, data = max(unsteady, key=lambda entry: entry[1].data_excursion_percent)
    slope_label, slope = max(unsteady, key=lambda entry: entry[1].slope_excursion_percent)
    data_percent, slope_percent = data.percent_texts(decimals=1)[0], slope.percent_texts(decimals=1)[1]
    if len(unsteady) == 1:
        return f"It is {data_label} (data excursion {data_percent} %, slope excursion {slope_percent} %)."
    return (
        f"The largest data excursion is {data_percent} % ({data_label}), "
        f"the largest slope excursion {slope_percent} % ({slope_label})."
    )


def spans(loops: Sequence[Loop]) -> str:
    """Return the windows of the loops as text: ``rounds 5 - 9``; of several parts, each with its parts' names."""
    parts: dict[str, list[str]] = {}
    for loop in loops:
        first, last = (loop.window.numbers[0], loop.window.numbers[-1]) if loop.window else (0, 0)
        window = f"rounds {first} - {last}{'' if loop.steady else f', {NOT_ACHIEVED}'}"
        parts.setdefault(window, []).append(loop.part)
    if len(loops) == 1:
        return next(iter(parts))
    return "; ".join(f"{window} of {' and '.join(names)}" for window, names in parts.items())


def too_few(rounds: Sequence[MeasuredRound], rule: SteadyStateRule, *, part: str = "") -> str:
    """Return the summary's sentence on a loop with fewer complete rounds than a window needs."""
    count = len(rounds_since_interruption(rounds))
    available = f"{count} complete round{'s' * (count != 1)}" if count else "No complete round"
    since = " since the interruption" if interruption_marks(rounds) else ""
    return f"{available}{f' of {part}' if part else ''}{since}; a measurement window needs {rule.window_rounds}."
