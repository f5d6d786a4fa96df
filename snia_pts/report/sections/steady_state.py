"""Pages about steady state: measurement windows with their determination, and tracked variables by round.

They serve a loop of rounds as well as the samples of a continuous stimulus that serve as rounds, for any metric.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from ...analysis.steady_state import SteadyState, determine
from ...analysis.window import Judged, Window, consecutive_rounds, interruption_marks, rounds_since_interruption
from ...model.measurement import METRICS, MeasuredRound, Metric
from ...model.steps import mix
from ...results.result import Loop, Sampling, TestResult
from ...results.tracked_series import TrackedSeries, span, tracked_series
from ...spec import (
    DemandSpec,
    HostIdleSpec,
    SampledSteadyStateRule,
    Spec,
    SteadyStateRule,
    Tracked,
    WriteSaturationSpec,
    max_rounds,
)
from ...units import distinct_decimals, duration, number
from ..figures import figure as figures
from ..figures import matrices
from ..figures.axes import NOT_FROM_ZERO
from ..figures.style import series_styles
from ..header import ALTERED, NOT_ACHIEVED
from ..pages import Block, Figure, Page, Prose, slug
from ..tables import NOT_APPLICABLE, Column, Table, decimals_for, facts, number_columns, thousands
from .convergence import values_by_round
from .key_figures import not_steady
from .rounds_written import rounds_written_note

#: The maximum number of tracked variables side by side in one table.
_MAX_PER_TABLE = 3
#: The digits of the smallest value of a tracked variable: excursions are printed in hundredths of a percent.
TRACKED_DIGITS = 5
#: The most decimals of a tracked variable: response times of 0.01 ms need as many.
_MOST_DECIMALS = 8


# -- measurement window -----------------------------------------------------------------------------------------------


def window_pages(result: TestResult, part: Loop | Sampling) -> Iterator[Page]:
    """Yield a page for each tracked variable of the last window of a loop or sampling; none without a window."""
    tracked = tracked_series(result, part)
    if tracked.window is None:
        return
    suffix = _suffix(result, tracked.window)
    note = rounds_written_note(result, part) if isinstance(part, Loop) else ""
    for variable, determination in tracked.window.determinations:
        title = f"{tracked.name} Steady State Measurement Window - {tracked.code(variable)}{suffix}"
        blocks = tuple(_window_blocks(tracked, variable, determination))
        yield Page(title=title, blocks=(*blocks, Prose(text=note)) if note else blocks)


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
    series = values_by_round(loop.window_rounds, metric, matrices.size_and_mix, lines)
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
        "information. Points of other R/W mixes are not in this table."
    )
    if unsteady := not_steady(result, [loop]):
        note += f' {unsteady}, marked on page "{tracked.name} - All RW Mix & BS - Tabular Data".'
    of_tracked = {
        matrices.size_and_mix(stimulus)
        for variable, stimulus in zip(rule.tracked, tracked.stimuli, strict=True)
        if METRICS[variable.metric] == metric
    }
    named = {label: key in of_tracked for key, label in lines.items()}
    table = _sizes_table(series, named, tracked, metric, read_percent)
    name = f"{tracked.name} Steady State Measurement Window - All Block Sizes, R/W {mix(read_percent)}"
    title = f"{name}{_suffix(result, tracked.window)}"
    yield Page(title=title, blocks=(figure, table, Prose(text=note)))


def _sizes_table(
    series: Mapping[str, Mapping[int, float]],
    of_tracked: Mapping[str, bool],
    tracked: TrackedSeries,
    metric: Metric,
    read_percent: int,
) -> Table:
    """Return average and excursions of each of ``series`` in the window; ``of_tracked``: it is a tracked variable."""
    states = [determine([*line.values()], tracked.rule, first_round=min(line)) for line in series.values()]
    data, slope = zip(*map(_round_percents, states), strict=True)
    rows = zip(
        series,
        [number(state.average, digits=TRACKED_DIGITS) for state in states],
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
    title = f"R/W {mix(read_percent)}: excursions in percent of the average"
    return Table(kind="numbers", columns=columns, rows=tuple(rows), title=title)


def _window_blocks(tracked: TrackedSeries, variable: Tracked, determination: SteadyState) -> Iterator[Block]:
    metric = METRICS[variable.metric]
    label = tracked.label(variable)
    rounds = span(determination.rounds, tracked.times)
    half = tracked.rule.data_excursion_percent / 2
    low, _ = figures.window_limits(determination, tracked.rule.data_excursion_percent)
    if tracked.window is not None and not tracked.window.steady:
        yield Prose(text=_not_achieved(determination, tracked.window), kind="bad")
    yield Figure(
        name=slug(f"window{' samples' if tracked.times else ''} {tracked.code(variable)}"),
        caption=f"{label}, rounds {rounds}.{f' {NOT_FROM_ZERO}' * (low > 0)}",
        alt=f"Line plot: {metric.label} of {label} in rounds {rounds}, with their average, lines {half:g} % above and "
        "below it, and the least squares line.",
        draw=partial(
            figures.measurement_window,
            determination,
            tracked.rule.data_excursion_percent,
            metric=metric,
            times=tracked.times,
        ),
        height=figures.WINDOW_HEIGHT,
    )
    yield determination_table(determination, tracked.rule, metric, rounds)


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
    texts = determination_texts(determination, metric)
    data_passes = determination.data_excursion <= determination.allowed_data_excursion
    slope_passes = determination.slope_excursion <= determination.allowed_slope_excursion
    first, last = determination.rounds[0], determination.rounds[-1]
    rows = (
        ("Measurement window (rounds)", rounds, "", ""),
        ("Average", texts.average, "100", ""),
        ("Allowed maximum data excursion", texts.allowed_data, f"{rule.data_excursion_percent:g}", ""),
        ("Measured data excursion", texts.data_excursion, texts.data_percent, _passes(data_passes)),
        ("Allowed maximum slope excursion", texts.allowed_slope, f"{rule.slope_excursion_percent:g}", ""),
        ("Measured slope excursion", texts.slope_excursion, texts.slope_percent, _passes(slope_passes)),
        (f"Least squares line (R: round, {first} to {last})", texts.line, "", ""),
        ("Verdict", "", "", "STEADY" if determination.steady else NOT_ACHIEVED),
    )
    headings = (
        Column(heading="Quantity", width=40),
        Column(heading=texts.unit, align="right", width=30),
        Column(heading="% of average", align="right", width=15),
        Column(heading="Result", align="center", width=15),
    )
    return Table(kind="numbers", columns=headings, rows=rows, title=title)


class DeterminationTexts(NamedTuple):
    """The numbers of a steady state determination as texts, in ``unit`` or in percent of the average.

    ``line`` is the best fit over the round R.
    """

    unit: str
    average: str
    allowed_data: str
    data_excursion: str
    data_percent: str
    allowed_slope: str
    slope_excursion: str
    slope_percent: str
    line: str


def determination_texts(determination: SteadyState, metric: Metric) -> DeterminationTexts:
    """Return the numbers of an evaluable determination as texts."""
    data_percent, slope_percent = determination.percent_texts(decimals=2)
    data_pair = (determination.data_excursion, determination.allowed_data_excursion)
    slope_pair = (determination.slope_excursion, determination.allowed_slope_excursion)
    values = (determination.average, *data_pair, *slope_pair)
    decimals = decimals_for(values, digits=4, most=_decimals(determination))
    decimals = max(distinct_decimals(*pair, least=decimals) for pair in (data_pair, slope_pair))
    average, data_excursion, allowed_data, slope_excursion, allowed_slope = (
        thousands(value, decimals) for value in values
    )
    return DeterminationTexts(
        unit=metric.unit,
        average=average,
        allowed_data=allowed_data,
        data_excursion=data_excursion,
        data_percent=data_percent,
        allowed_slope=allowed_slope,
        slope_excursion=slope_excursion,
        slope_percent=slope_percent,
        line=line(determination),
    )


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
    times = "" if fills == 1 else f"{fills:g} times "
    return (
        f" A window counts only if at least {times}as much data as the ActiveRange holds was written by its end; this "
        "rule is of this suite."
    )


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
        [number(value, digits=TRACKED_DIGITS) for value in values],
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
