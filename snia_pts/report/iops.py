"""The pages of the IOPS test's report (PTS 2.0.2 chapter 7), one plot or table a page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

from ..measurement import MeasuredRound
from ..result import TestResult
from ..spec import SteadyStateRule, Tracked
from ..steadystate import SteadyState, determine
from ..steps import Cell, mix
from ..units import block_size
from . import columns, figures, matrices
from .pages import Block, Figure, Page, Prose
from .provenance import provenance
from .summary import summary
from .tables import NOT_APPLICABLE, Column, Table, aligned, facts, thousands

#: At most so many tracked variables stand side by side in one table.
_ABREAST = 3


def iops(result: TestResult) -> tuple[Page, ...]:
    """Return all pages that ``result`` has data for, the summary first."""
    measured = (*_convergence(result), *_windows(result), *_by_round(result), *_matrix(result))
    return (summary(result, left_out=_left_out(result)), *measured, provenance(result))


def _complete(result: TestResult) -> list[MeasuredRound]:
    return [measured for measured in result.rounds if measured.complete]


def _left_out(result: TestResult) -> str:
    """Tell which pages there are no data for, and why; empty when all are there."""
    if result.window is not None:
        return ""
    complete, needed = len(_complete(result)), result.facts.spec.steady_state.window_rounds
    pages = "measurement window, tabular data, 2D plot and 3D columns"
    if not complete:
        pages = f"convergence plot, tracked variables by round, {pages}"
    ran = f"{complete} complete round{'s' * (complete != 1)}" if complete else "No complete round"
    return f"{ran} of the {needed} that a measurement window needs. Left out for want of data: {pages}."


def _convergence(result: TestResult) -> Iterator[Page]:
    rounds, spec = _complete(result), result.facts.spec
    if not rounds:
        return
    share = min(spec.rounds.read_percents)
    series: dict[int, dict[int, float]] = {}
    for measured in rounds:
        for cell, measurement in measured.by_cell.items():
            if cell.read_percent == share:
                series.setdefault(cell.block_size_bytes, {})[measured.number] = measurement.iops
    series = dict(sorted(series.items()))
    window = result.window.numbers if result.window else ()
    partly = [measured.number for measured in result.rounds if not measured.complete]
    note = f" Round {partly[0]} was not completed and is not shown." if partly else ""
    figure = Figure(
        name="convergence",
        caption=f"IOPS of every block size over all rounds, R/W {mix(share)}.{note}",
        alt=f"Line plot: IOPS, log scale, against rounds 1 to {rounds[-1].number}, one line a block size, "
        f"R/W {mix(share)}.",
        draw=partial(figures.convergence, series, window, steady=result.steady),
    )
    yield Page(title=f"{spec.title} Steady State Convergence Plot - All Block Sizes", blocks=(figure,))


def _windows(result: TestResult) -> Iterator[Page]:
    if result.window is None:
        return
    for tracked, determination in result.window.determinations:
        size = block_size(tracked.block_size_bytes).replace(" ", "")
        name = f"RND/{size} RW{tracked.read_percent}"
        failed = ("" if result.window.steady else " - NOT ACHIEVED") + (
            " - ALTERED RULES" if result.altered_rules else ""
        )
        yield Page(
            title=f"{result.facts.spec.title} Steady State Measurement Window - {name}{failed}",
            blocks=tuple(_window_blocks(result, tracked, determination)),
        )


def _window_blocks(result: TestResult, tracked: Tracked, determination: SteadyState) -> Iterator[Block]:
    rule, rounds = result.facts.spec.steady_state, determination.rounds
    first, last = rounds[0], rounds[-1]
    if result.window is not None and not result.window.steady:
        yield Prose(text=_not_achieved(determination), kind="bad")
    yield Figure(
        name=f"window-{tracked.block_size_bytes}-{tracked.read_percent}",
        caption=f"{_label(tracked)}, rounds {first} - {last}. The axis shows the range of the window.",
        alt=f"Line plot: IOPS of {_label(tracked)} in rounds {first} to {last}, with their average, lines "
        f"{rule.data_excursion_percent / 2:g} % above and below it, and the least squares line.",
        draw=partial(figures.measurement_window, determination, rule.data_excursion_percent),
        height=figures.WINDOW_HEIGHT,
    )
    yield determination_table(determination, rule)


def _not_achieved(determination: SteadyState) -> str:
    if not determination.evaluable:
        return "STEADY STATE NOT ACHIEVED: this variable is not evaluable (its average is not a positive number)."
    if not determination.steady:
        return "STEADY STATE NOT ACHIEVED: this variable is not steady in this window."
    return "STEADY STATE NOT ACHIEVED: this variable is steady here, but not all tracked variables are."


def determination_table(determination: SteadyState, rule: SteadyStateRule) -> Table:
    """Return the Steady State Determination Data block of one tracked variable."""
    rounds = f"{determination.rounds[0]} - {determination.rounds[-1]}"
    title = "Steady State Determination Data"
    if not determination.evaluable:
        why = "not evaluable: the average is not a positive number"
        return facts([("Measurement window (rounds)", rounds), ("Verdict", f"NOT ACHIEVED ({why})")], title=title)
    data, slope = determination.data_excursion_percent, determination.slope_excursion_percent
    texts = aligned(
        (
            determination.average, determination.allowed_data_excursion, determination.data_excursion,
            determination.allowed_slope_excursion, determination.slope_excursion,
        ),
        digits=4,
    )  # fmt: skip
    data_passes = determination.data_excursion <= determination.allowed_data_excursion
    slope_passes = determination.slope_excursion <= determination.allowed_slope_excursion
    rows = (
        ("Measurement window (rounds)", rounds, "", ""),
        ("Average", texts[0], "100", ""),
        ("Allowed maximum data excursion", texts[1], f"{rule.data_excursion_percent:g}", ""),
        ("Measured data excursion", texts[2], f"{data:.3f}", _passes(data_passes)),
        ("Allowed maximum slope excursion", texts[3], f"{rule.slope_excursion_percent:g}", ""),
        ("Measured slope excursion", texts[4], f"{slope:.3f}", _passes(slope_passes)),
        ("Least squares line", line(determination), "", ""),
        ("Verdict", "STEADY" if determination.steady else "NOT ACHIEVED", "", _passes(determination.steady)),
    )
    headings = (
        Column(heading="Quantity", width=40),
        Column(heading="IOPS", align="right", width=30),
        Column(heading="% of average", align="right", width=15),
        Column(heading="Rule", align="center", width=15),
    )
    return Table(kind="numbers", columns=headings, rows=rows, title=title)


def _passes(passed: bool) -> str:
    return "pass" if passed else "FAIL"


def line(determination: SteadyState) -> str:
    """Return the best fit as a formula: ``-6.4 x R + 11 746``."""
    slope, intercept = determination.slope, determination.intercept
    decimals = 3 if abs(slope) < 100 else 1
    sign = "-" if intercept < 0 else "+"
    return f"{thousands(slope, decimals)} x R {sign} {thousands(abs(intercept), decimals)}"


def _label(tracked: Tracked) -> str:
    return f"RND {block_size(tracked.block_size_bytes)} {mix(tracked.read_percent)}"


def _by_round(result: TestResult) -> Iterator[Page]:
    rounds, rule = _complete(result), result.facts.spec.steady_state
    if not rounds:
        return
    groups = [rule.tracked[at : at + _ABREAST] for at in range(0, len(rule.tracked), _ABREAST)]
    note = (
        f"Excursions are those of the {rule.window_rounds} rounds that end with the line's round, in percent of their "
        f"average; allowed are {rule.data_excursion_percent:g} % (data), {rule.slope_excursion_percent:g} % (slope). "
        "The test ends with the first round in which all tracked variables are steady."
    )
    tables = (round_table(rounds, group, rule) for group in groups)
    yield Page(title="Tracked Variables by Round", blocks=(*tables, Prose(text=note)), flows=True)


def round_table(rounds: Sequence[MeasuredRound], tracked: Sequence[Tracked], rule: SteadyStateRule) -> Table:
    """Return the tracked variables round by round, each with the excursions of the window that ends there."""
    headings = [Column(heading="Round", align="right", width=9)]
    cells: list[Sequence[str]] = [[str(measured.number) for measured in rounds]]
    for variable in tracked:
        headings += [
            Column(heading=f"{_label(variable)} (IOPS)", align="right", width=13),
            Column(heading="Data exc. (%)", align="right", width=9),
            Column(heading="Slope exc. (%)", align="right", width=9),
            Column(heading="Steady", align="center", width=9),
        ]
        cells += _variable_cells(rounds, variable, rule)
    return Table(kind="numbers", columns=tuple(headings), rows=tuple(zip(*cells, strict=True)))


def _variable_cells(
    rounds: Sequence[MeasuredRound], tracked: Tracked, rule: SteadyStateRule
) -> tuple[Sequence[str], ...]:
    cell = Cell(read_percent=tracked.read_percent, block_size_bytes=tracked.block_size_bytes)
    values = [measured.value(tracked) if cell in measured.by_cell else math.nan for measured in rounds]
    found: list[SteadyState | None] = []
    for end in range(1, len(values) + 1):
        start = end - rule.window_rounds
        found.append(determine(values[start:end], rule, first_round=rounds[start].number) if start >= 0 else None)
    data = [each.data_excursion_percent if each and each.evaluable else None for each in found]
    slope = [each.slope_excursion_percent if each and each.evaluable else None for each in found]
    return aligned(values), _percents(data, found), _percents(slope, found), [_steady(each) for each in found]


def _percents(values: Sequence[float | None], found: Sequence[SteadyState | None]) -> list[str]:
    texts = [NOT_APPLICABLE if value is None else thousands(value, 2) for value in values]
    return [text if each else "" for text, each in zip(texts, found, strict=True)]


def _steady(determination: SteadyState | None) -> str:
    if determination is None:
        return ""
    return "yes" if determination.steady else "no"


def _matrix(result: TestResult) -> Iterator[Page]:
    if result.window is None:
        return
    spec, matrix = result.facts.spec, result.matrix
    first, last = result.window.numbers[0], result.window.numbers[-1]
    sizes, mixes = matrices.sizes(spec), matrices.mixes(spec)
    failed = "" if result.steady else ", NOT ACHIEVED"
    window = f"rounds {first} - {last}{failed}"
    name = f"{spec.title} - All RW Mix & BS"
    missing = [size for size in sizes if not any(cell.block_size_bytes == size for cell in matrix)]
    none = f" n/a: the device's sectors cannot hold {', '.join(map(block_size, missing))}." if missing else ""
    flows = not matrices.fits_a_page(spec)
    measured = [size for size in sizes if size not in missing]
    tables = matrices.matrix_tables(spec, matrix, title=f"IOPS, mean over {window}")
    yield Page(title=f"{name} - Tabular Data", blocks=(*tables, Prose(text=_how_iops(none))), flows=flows)
    yield _times_page(result, window)
    yield Page(
        title=f"{name} - 2D Plot",
        blocks=(
            Figure(
                name="matrix-2d", caption=f"IOPS against block size, one line an R/W mix; mean over {window}.",
                alt="Line plot: IOPS against block size, both on log scales, one line an R/W mix.",
                draw=partial(figures.matrix_lines, matrix, measured, mixes),
            ),
        ),
    )  # fmt: skip
    yield Page(
        title=f"{name} - 3D Columns",
        blocks=(
            Figure(
                name="matrix-3d", caption=f"IOPS over block size and R/W mix; mean over {window}.",
                alt="Columns in three dimensions: IOPS over block size and R/W mix, linear scale from zero.",
                draw=partial(columns.columns, matrix, measured, mixes),
            ),
        ),
    )  # fmt: skip


def _how_iops(none: str) -> str:
    return f"IOPS of a mixed point are reads and writes together. R/W in percent of the I/Os.{none}"


def _times_page(result: TestResult, window: str) -> Page:
    spec = result.facts.spec
    reductions = (
        ("Average response time (ms), weighted by I/O count", matrices.average_response_ms),
        ("Maximum response time (ms)", matrices.maximum_response_ms),
        ("Throughput (MB/s, decimal)", matrices.throughput_mb_per_second),
    )
    tables = tuple(
        table
        for title, reduce in reductions
        for table in matrices.matrix_tables(spec, matrices.reduced(result, reduce), title=f"{title}, {window}")
    )
    flows = not matrices.fits_a_page(spec)
    return Page(title="Response Time and Throughput - Tabular Data", blocks=tables, flows=flows)
