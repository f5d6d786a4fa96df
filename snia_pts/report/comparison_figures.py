"""Pages of a comparison that show differences: heat maps of a matrix, main figures as bars, and the units of a lot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from ..analysis.outliers import MIN_VALUES, TOLERANCE_MADS, TOLERANCE_PERCENT
from ..model.steps import Stimulus
from ..results.comparison import CONFIDENCE_PERCENT, ComparedFigure, Difference
from ..results.key_figures import Better, loop_points
from ..results.lot import LotFigure, lot_figures
from ..results.main_figures import main_figures
from ..results.result import Loop, TestResult
from ..results.tables import heading, short_label
from ..spec import DemandSpec, RoundsSpec
from ..text import printable
from ..units import counted
from .figures import differences, matrices
from .figures.figure import Side
from .figures.style import overlay_styles
from .pages import Figure, Page, Prose, slug
from .tables import NOT_APPLICABLE, Column, Table, aligned, number_columns, significant, thousands
from .tests import demand_plots

#: Column headings of the lot tables, with their widths.
_HEADINGS = {"Point": 22, "Units": 7, "Mean": 12, "Std. dev.": 11, "Std. dev. (%)": 12, "Min": 12, "Max": 12}


def heat_maps(
    names: Mapping[str, str], results: Sequence[TestResult], rows: Sequence[ComparedFigure]
) -> Iterator[Page]:
    """Yield a page for each matrix and each run after the first: the differences of the run's points from the first's.

    ``names`` are the names of the runs by their letters.
    """
    first, metric = results[0], "average_response_ms" if results[0].facts.spec.test == "latency" else "iops"
    by_point = {row.at: row for row in rows if row.metric == metric}
    sides = _sides(first)
    if sides is None:
        return
    reference, *others = names.values()
    for loop in first.loops:
        by_cell = {cell: by_point[at] for cell, at in _points(first, loop) if at in by_point}
        across, down = (side.only({cell[index] for cell in by_cell}) for index, side in enumerate(sides))
        if len(across.keys) < 2 or len(down.keys) < 2:
            continue
        for index, (letter, name) in enumerate(zip(list(names)[1:], others, strict=True), start=1):
            changes = {cell: row.differences[index] for cell, row in by_cell.items()}
            part, label, base = f" - {loop.part}" if loop.part else "", short_label(metric), next(iter(names))
            title = f"{label} - {letter} against {base} (%){part}"
            figure = Figure(
                name=f"difference-{slug(f'{letter} {loop.part}')}",
                caption=f"{label}: ({letter} - {base}) / {base}, in percent. {reference}; {name}.{_colours(changes)}",
                alt=f"Heat map: difference in percent at every {down.title} and {across.title}.",
                draw=partial(differences.heat_map, changes, across, down, better=_better(by_cell)),
            )
            yield Page(title=title, blocks=(figure,))


def _colours(changes: Mapping[tuple[int, int], Difference | None]) -> str:
    """Return sentences on the colours that occur in a heat map."""
    interval = f"the {CONFIDENCE_PERCENT:g} % confidence interval of the difference"
    meanings = {
        True: f" Coloured: {interval} excludes 0; the stronger the colour, the greater the difference.",
        False: f" Grey: {interval} includes 0.",
        None: " No colour: no interval; a window is not steady or has too few rounds.",
    }
    shown = {change.significant for change in changes.values() if change}
    return "".join(text for significant, text in meanings.items() if significant in shown)


def _better(by_cell: Mapping[tuple[int, int], ComparedFigure]) -> Better:
    return next(iter(by_cell.values())).better or "more"


def _sides(result: TestResult) -> tuple[Side, Side] | None:
    """Return the two sides of a test's matrix, across and down; None if it has none."""
    spec = result.facts.spec
    if isinstance(spec, DemandSpec):
        return demand_plots.sides(result)
    return (matrices.mixes(spec.rounds), matrices.sizes(spec.rounds)) if isinstance(spec, RoundsSpec) else None


def _points(result: TestResult, loop: Loop) -> Iterator[tuple[tuple[int, int], str]]:
    """Return the cell, across and down, and the name of each point of a loop."""
    cell_of = demand_plots.place if isinstance(result.facts.spec, DemandSpec) else _mix_and_size
    return ((cell_of(measured.stimulus), at) for at, (measured, *_) in loop_points(result, loop))


def _mix_and_size(stimulus: Stimulus) -> tuple[int, int]:
    size, read_percent = matrices.size_and_mix(stimulus)
    return read_percent, size


def bars(names: Mapping[str, str], test: str, rows: Sequence[ComparedFigure]) -> Iterator[Page]:
    """Yield the page of the test's main figures: a group for each, with a bar for each run."""
    shown = [row for row in main_figures(test, rows) if any(row.differences)]
    if not shown:
        return
    reference = next(iter(names.values()))
    series = {name: [row.differences[index] for row in shown] for index, name in enumerate(names.values())}
    lower = " Lower is better for response times." if any(row.better == "less" for row in shown) else ""
    figure = Figure(
        name="key-figures",
        caption=f"The main figures of the test, in percent of {reference}. Whiskers: {CONFIDENCE_PERCENT:g} % "
        f"confidence intervals of the differences, where there are any.{lower}",
        alt="Grouped bars: the main figures of each run in percent of the first run's.",
        draw=partial(
            differences.grouped_bars,
            [_group_label(row) for row in shown],
            series,
            reference=reference,
            styles=overlay_styles(list(series)),
        ),
    )
    yield Page(title="Key Figures by Run", blocks=(figure, _values(names, shown)), flows=True)


def _values(names: Mapping[str, str], shown: Sequence[ComparedFigure]) -> Table:
    """Return the values of the main figures in their units, a row for each run."""
    headings = {f"{printable(row.at)}, {_label_with_unit(row)}": 84 // len(shown) for row in shown}
    values = [significant(figure.value if figure else None for figure in row.figures) for row in shown]
    columns = (Column(heading="Run", width=8), *number_columns(headings))
    return Table(kind="numbers", columns=columns, rows=tuple(zip(names, *values, strict=True)))


def _label_with_unit(row: ComparedFigure) -> str:
    label = short_label(row.metric)
    return label if label == row.unit else f"{label} ({row.unit})"


def _group_label(row: ComparedFigure | LotFigure) -> str:
    return f"{printable(row.at)}\n{short_label(row.metric)}"


# -- the units of a lot -----------------------------------------------------------------------------------------------


def lot_page(names: Mapping[str, str], model: str, test: str, rows: Sequence[ComparedFigure]) -> Iterator[Page]:
    """Yield the page of a lot's main figures, each unit as a dot, with their table."""
    shown = [figure for figure in main_figures(test, lot_figures(rows)) if figure.median]
    if not shown:
        return
    figure = Figure(
        name="lot",
        caption="The main figures of the test, in percent of the median of all units: each unit is a dot, in the order "
        "of the runs; the band is one standard deviation on both sides of the mean. The axis does not start at zero.",
        alt="Dots: each unit's main figures in percent of the median, with mean and standard deviation.",
        draw=partial(differences.unit_dots, [_group_label(row) for row in shown], shown, list(names.values())),
    )
    groups = [f"{printable(row.at)}, {short_label(row.metric)}" for row in shown]
    yield Page(
        title="Unit to Unit",
        blocks=(Prose(text=_lot_text(names, model)), figure, _lot_table(shown, groups, list(names))),
        flows=True,
    )


def lot_tables(names: Mapping[str, str], rows: Sequence[ComparedFigure], metrics: Sequence[str]) -> Iterator[Page]:
    """Yield a page for each metric with the statistics of a lot's units at every point."""
    figures = lot_figures(rows)
    for metric in metrics:
        shown = [figure for figure in figures if figure.metric == metric]
        if shown:
            table = _lot_table(shown, [printable(figure.at) for figure in shown], list(names))
            yield Page(title=f"{heading(metric)}, Unit to Unit", blocks=(table,), flows=True)


def _lot_text(names: Mapping[str, str], model: str) -> str:
    return (
        f"A lot: {counted(len(names), 'unit')} of {printable(model)}, one run each. Std. dev.: the sample standard "
        f"deviation of the units. Outliers: units farther from the median than {TOLERANCE_PERCENT:g} % of the "
        f"median and {TOLERANCE_MADS:g} times the median absolute deviation; n/a with fewer than {MIN_VALUES} "
        "units. Values of windows that were not steady are omitted. The standard does not define this."
    )


def _lot_table(figures: Sequence[LotFigure], points: Sequence[str], letters: Sequence[str]) -> Table:
    """Return number of units, mean, standard deviation, minimum, maximum and outliers of each figure of a lot."""
    count = len(figures)
    means = [figure.mean for figure in figures]
    texts = aligned([*means, *(min(figure.known) for figure in figures), *(max(figure.known) for figure in figures)])
    percents = [
        thousands(100 * figure.deviation / figure.mean, 2) if figure.mean else NOT_APPLICABLE for figure in figures
    ]
    cells = (
        points,
        [str(len(figure.known)) for figure in figures],
        texts[:count],
        aligned([figure.deviation for figure in figures]),
        percents,
        texts[count : 2 * count],
        texts[2 * count :],
        [_outliers(figure, letters) for figure in figures],
    )
    point, *others = _HEADINGS
    columns = (
        Column(heading=point, width=_HEADINGS[point]),
        *number_columns({name: _HEADINGS[name] for name in others}),
        Column(heading="Outliers", width=12),
    )
    return Table(kind="numbers", columns=columns, rows=tuple(zip(*cells, strict=True)))


def _outliers(figure: LotFigure, letters: Sequence[str]) -> str:
    return NOT_APPLICABLE if figure.outliers is None else ", ".join(letters[unit] for unit in figure.outliers) or "none"
