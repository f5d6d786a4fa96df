"""The pages of a trend and of a spread, with plots, in the style of the reports."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ..api.tables import Table as Values
from ..report.figures import axes as ax
from ..report.figures.figure import LEGEND_WIDTH, canvas, legend_beside, padded, plot
from ..report.figures.style import BAD, COLOURS, INK, series_styles
from ..report.pages import NO_HEADER, Block, Figure, Page, Prose, Report
from ..report.tables import NOT_APPLICABLE, UNKNOWN, Column, Table, aligned, number_columns
from ..text import printable
from .statistics import Group, Spread, groups_of, spreads_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

#: With more groups, all runs of a trend have one colour.
_MAX_GROUPS = 20
#: The most dates on the axis of a trend, and the most points in the figure of a spread.
_MAX_DATES, _MAX_POINTS = 6, 60
_POINT_INCHES = 0.2


def trend_report(values: Values) -> Report:
    """Return the page of a trend from its values, one or more, the table ``trend_values``."""
    groups, unit = groups_of(values), str(values.columns["unit"][0])
    metric, by = values.title.rsplit(", by ", 1)
    heading = f"{metric} ({unit})" if unit else metric
    draw = partial(_draw_trend, values, groups, heading, by)
    caption = "Each run, in the order of their starts"
    if len(groups) <= _MAX_GROUPS:
        caption += "; the lines are the medians of the groups"
    figure = Figure(name="trend", caption=f"{caption}.", alt=f"{heading} of each run.", draw=draw)
    notice = _notice(max(group.specifications for group in groups))
    blocks: tuple[Block, ...] = (*notice, figure, _trend_table(groups, by))
    return _report(f"Trend of {values.title}", [Page(title=f"Trend of {values.title}", blocks=blocks)])


def _trend_table(groups: Sequence[Group], by: str) -> Table:
    values = [(group.median, group.mean, group.deviation, group.minimum, group.maximum) for group in groups]
    numbers = list(zip(*(aligned(column) for column in zip(*values, strict=True)), strict=True))
    rows = tuple(
        (group.name or UNKNOWN, str(group.runs), *cells, _percent(group.change_percent))
        for group, cells in zip(groups, numbers, strict=True)
    )
    headings = ("Runs", "Median", "Mean", "Deviation", "Minimum", "Maximum", "Change (%)")
    columns = (Column(heading=by.capitalize(), width=23), *number_columns(dict.fromkeys(headings, 11)))
    return Table(kind="numbers", columns=columns, rows=rows)


def _draw_trend(values: Values, groups: Sequence[Group], heading: str, by: str) -> Drawing:
    figure = canvas()
    axes = plot(figure, left=0.85, right=LEGEND_WIDTH, bottom=0.55, top=0.2)
    ax.dress(axes)
    numbers: list[Any] = list(values.columns["value"])
    places: dict[str, list[int]] = {}
    for place, group in enumerate(map(str, values.columns["group"])):
        places.setdefault(group if len(groups) <= _MAX_GROUPS else "", []).append(place)
    medians = {group.name: group.median for group in groups}
    for (name, own), style in zip(places.items(), series_styles(list(places)).values(), strict=True):
        drawn = {**style.line(), "linestyle": "none", "label": printable(name) or UNKNOWN}
        axes.plot(own, [numbers[place] for place in own], **drawn)
        if len(groups) <= _MAX_GROUPS:
            ends = (own[0] - 0.3, own[-1] + 0.3)
            axes.plot(ends, [medians[name]] * 2, color=style.colour, linewidth=1.2, zorder=1.8)
    stride = -(-len(numbers) // _MAX_DATES)
    dates = [printable(str(started)[:10]) for started in values.columns["started"]]
    axes.set_xlim(-0.7, len(numbers) - 0.3)
    axes.set_xticks(range(0, len(numbers), stride), dates[::stride])
    axes.set_xlabel("Start of the run")
    ax.set_y_within(axes, *padded(numbers))
    axes.set_ylabel(printable(heading))
    if len(groups) <= _MAX_GROUPS:
        legend_beside(axes, by.capitalize())
    return figure


def spread_report(values: Values) -> Report:
    """Return the pages of a spread, one for each metric of a test, from the table ``spread_values``."""
    return _report(values.title, list(_spread_pages(values)))


def _spread_pages(values: Values) -> Iterator[Page]:
    for number, (key, found) in enumerate(groupby(_by_metric(values), key=lambda item: item[0])):
        test, metric, unit = key
        spreads = {str(at): result for _, at, result in found}
        title = f"{test}: {metric}{f' ({unit})' * bool(unit)}"
        blocks: list[Block] = [*_notice(max(result.specifications for result in spreads.values()))]
        if widest := _widest(spreads):
            caption = "Mean of each unit in percent of the mean of all units; outliers are red diamonds."
            if len(widest) < len(spreads):
                caption += f" These are the {len(widest)} points whose units differ most."
            height = 0.8 + _POINT_INCHES * max(4, len(widest))
            draw = partial(_draw_spread, widest, height)
            alt = f"{title}: a mark for each unit."
            blocks.append(Figure(name=f"spread-{number}", caption=caption, alt=alt, draw=draw, height=height))
        yield Page(title=title, blocks=(*blocks, _spread_table(spreads)))


def _by_metric(values: Values) -> list[tuple[tuple[str, str, str], str, Spread]]:
    found = [((test, metric, unit), at, result) for (test, metric, at, unit), result in spreads_of(values)]
    return sorted(found, key=lambda item: item[0])


def _widest(spreads: Mapping[str, Spread]) -> dict[str, Spread]:
    """Return the spreads that a figure shows, in their order: with two units or more, the widest of many."""
    percents = {at: result.deviation_percent for at, result in spreads.items()}
    shown = {at: percent for at, percent in percents.items() if percent is not None and math.isfinite(percent)}
    widest = set(sorted(shown, key=shown.__getitem__, reverse=True)[:_MAX_POINTS])
    return {at: result for at, result in spreads.items() if at in widest}


def _draw_spread(spreads: Mapping[str, Spread], height: float) -> Drawing:
    figure = canvas(height=height)
    axes = plot(figure, left=2.2, right=0.3, bottom=0.55, top=0.2)
    ax.dress(axes)
    shown: list[float] = []
    for place, result in enumerate(spreads.values()):
        percents = {unit: 100 * mean / result.mean for unit, mean in result.means.items()}
        shown += percents.values()
        near = [percent for unit, percent in percents.items() if unit not in result.outliers]
        axes.plot(near, [place] * len(near), "o", color=COLOURS[0], alpha=0.7)
        for unit in result.outliers:
            axes.plot(percents[unit], place, "D", color=BAD)
            axes.annotate(
                printable(unit), (percents[unit], place), (5, 0), textcoords="offset points", fontsize=6.5, va="center"
            )
    axes.axvline(100, color=INK, linewidth=0.8, zorder=1.5)
    axes.set_yticks(range(len(spreads)), [_shortened(at) for at in spreads])
    axes.set_ylim(len(spreads) - 0.4, -0.6)
    ax.set_linear_x(axes, shown)
    axes.set_xlabel("Mean of the unit in % of the mean of all units")
    return figure


def _shortened(at: str) -> str:
    return printable(at if len(at) <= 34 else f"{at[:33]}\N{HORIZONTAL ELLIPSIS}")


def _spread_table(spreads: Mapping[str, Spread]) -> Table:
    numbers = zip(
        *(aligned([getattr(result, name) for result in spreads.values()]) for name in ("mean", "minimum", "maximum")),
        strict=True,
    )
    rows = tuple(
        (at, str(result.units), mean, _percent(result.deviation_percent, ".2f"), low, high, ", ".join(result.outliers))
        for (at, result), (mean, low, high) in zip(spreads.items(), numbers, strict=True)
    )
    headings = {"Units": 7, "Mean": 12, "Deviation (%)": 11, "Minimum": 12, "Maximum": 12}
    columns = (Column(heading="Point", width=26), *number_columns(headings), Column(heading="Outliers", width=20))
    return Table(kind="numbers", columns=columns, rows=rows)


def _percent(value: float | None, form: str = "+.1f") -> str:
    return NOT_APPLICABLE if value is None or not math.isfinite(value) else format(value, form)


def _notice(specifications: int) -> tuple[Prose, ...]:
    if specifications == 1:
        return ()
    return (Prose(text=f"Compare with care: the runs have {specifications} specifications of the test", kind="bad"),)


def _report(title: str, pages: Sequence[Page]) -> Report:
    return Report(title=title, author="", dated="", header=NO_HEADER, pages=tuple(pages))
