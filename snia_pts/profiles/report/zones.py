"""Zones of a target in a profile's report: curves over the position, box plots, the first and the last zone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ...report.figures import axes as ax
from ...report.figures.figure import LEGEND_WIDTH, Styles, canvas, legend_beside, plot
from ...report.figures.style import COLOURS, INK, series_styles
from ...report.pages import FIGURE_HEIGHT, Block, Figure, Page, Prose
from ...report.tables import NOT_APPLICABLE, Column, Table, aligned, extremes, number_columns, thousands
from ...units import capacity, counted
from .figures import MOST_ROWS, height, row_labels
from .points import Family, zones
from .reductions import Measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

#: Values beyond this multiple of the interquartile range are drawn as dots (J. W. Tukey, 1977).
_WHISKER = 1.5
#: A curve with more zones has no markers.
_MAX_MARKED = 40
#: The most curves in one figure.
_MAX_CURVES = 6

#: Start, end and value of each zone, by series.
Curves = Mapping[str, Sequence[tuple[float, float, float]]]


def zone_pages(
    family: Family, measure: Measure, same_measure: Sequence[Family], *, prefix: str, slug: str
) -> Iterator[Page]:
    """Yield the pages of a family that was measured in zones.

    ``same_measure`` are all families with the same main quantity: their figures share one scale.
    """
    curves = zone_curves(family, measure)
    all_curves = (zone_curves(other, measure) for other in same_measure if other.zoned)
    scale = [value for by_series in all_curves for line in by_series.values() for _, _, value in line]
    blocks: list[Block] = []
    for number, labels in enumerate(_groups(list(curves)), start=1):
        group = {label: curves[label] for label in labels}
        blocks.append(_curves(group, scale, measure, f"zones-{slug}-{number}"))
    for number, start in enumerate(range(0, len(curves), MOST_ROWS), start=1):
        group = dict(list(curves.items())[start : start + MOST_ROWS])
        blocks += [_boxes(group, scale, measure, f"boxes-{slug}-{number}"), *zone_tables(group, measure)]
    yield Page(title=f"{prefix}{measure.heading} by Zone", blocks=(*blocks, _explanation(family)), flows=True)


def zone_curves(family: Family, measure: Measure) -> Curves:
    """Return start, end and value of each zone of a family, by series."""
    return {
        series.label: [(first, last, measure.of(spot.measured)) for first, last, spot in zones(series)]
        for series in family.series(())
    }


def _groups(labels: Sequence[str]) -> list[list[str]]:
    """Return the labels of the curves of each figure; many curves are grouped by the start of their labels."""
    if len(labels) <= _MAX_CURVES:
        return [list(labels)]
    grouped: dict[str, list[str]] = {}
    for label in labels:
        grouped.setdefault(label.rpartition(", ")[0], []).append(label)
    groups: list[list[str]] = []
    for similar in grouped.values():
        groups += [similar[start : start + _MAX_CURVES] for start in range(0, len(similar), _MAX_CURVES)]
    return groups


def _explanation(family: Family) -> Prose:
    stimuli = [spot.point.stimulus for spot in family.spots]
    end = max(stimulus.range_offset_bytes + stimulus.range_bytes for stimulus in stimuli)
    count = family.spots[0].point.workload.zones
    size = capacity(end / count) if end else "unknown size"
    return Prose(
        text=f"{counted(count, 'zone')} of {size}, from the start of the target. The box spans the first to the third "
        "quartile, interpolated between neighbouring values (Hyndman and Fan's type 7); the line in it is the median. "
        f"Whiskers reach to the outermost values within {_WHISKER} times the interquartile range; outliers are dots."
    )


def zone_tables(curves: Curves, measure: Measure) -> Iterator[Table]:
    """Yield the table of the first, the median and the last zone of each series."""
    columns = (
        Column(heading="Point", width=34),
        *number_columns(
            {
                "Zones": 8,
                "First zone": 12,
                "Median": 12,
                "Last zone": 12,
                "Last / first (%)": 10,
                "Minimum": 12,
                "Maximum": 12,
            }
        ),
    )
    values_by_series = [[value for _, _, value in line] for line in curves.values()]
    reach = [extremes(values_by_one_series) for values_by_one_series in values_by_series]
    cells = aligned(
        [
            value
            for entry, (least, middle, most) in zip(values_by_series, reach, strict=True)
            for value in (entry[0], middle, entry[-1], least, most)
        ]
    )
    rows = []
    for number, (label, item) in enumerate(zip(curves, values_by_series, strict=True)):
        first, middle, last, least, most = cells[5 * number : 5 * number + 5]
        share = thousands(100 * item[-1] / item[0], 1) if item[0] else NOT_APPLICABLE
        rows.append((label, str(len(item)), first, middle, last, share, least, most))
    yield Table(kind="numbers", columns=columns, rows=tuple(rows), title=f"{measure.heading} by zone")


# -- figures ----------------------------------------------------------------------------------------------------------


def over_position(
    curves: Curves,
    *,
    heading: str,
    scales: Sequence[float] = (),
    legend: str = "Point",
    high: float = FIGURE_HEIGHT,
    styles: Styles | None = None,
) -> Drawing:
    """Plot values from zero over the position in percent of the range; the axis shows the whole range."""
    figure = canvas(height=high)
    axes = plot(figure, left=0.85, right=LEGEND_WIDTH, bottom=0.55, top=0.2)
    ax.dress(axes)
    whole = max(last for line in curves.values() for _, last, _ in line)
    styles = styles or series_styles(list(curves))
    for label, line in curves.items():
        line_style = styles[label].line() | ({"marker": ""} if len(line) > _MAX_MARKED else {})
        places = [50 * (first + last) / whole for first, last, _ in line]
        axes.plot(places, [value for _, _, value in line], label=label, **line_style)
    ticks = list(range(0, 101, 10))
    axes.set_xlim(0, 100)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    has_zone_numbers = whole <= max(map(len, curves.values()))  # the size of the range is unknown
    size = "the range" if has_zone_numbers else capacity(whole)
    axes.set_xlabel(f"Position (% of {size})")
    ax.set_y(axes, [*scales, *(value for line in curves.values() for _, _, value in line)], heading, log=False)
    legend_beside(axes, legend)
    return figure


def _curves(curves: Curves, scale: Sequence[float], measure: Measure, name: str) -> Block:
    return Figure(
        name=name,
        caption=f"{measure.heading} of each zone by position; all such figures have the same scale.",
        alt=f"Line plot: {measure.heading} from zero against the position in percent of the range.",
        draw=partial(over_position, curves, heading=measure.heading, scales=scale),
    )


def _boxes(curves: Curves, scale: Sequence[float], measure: Measure, name: str) -> Block:
    values = {label: [value for _, _, value in line] for label, line in curves.items()}
    return Figure(
        name=name,
        caption=f"{measure.heading} of all zones, one row per point of the profile.",
        alt=f"Box plots: {measure.heading} of all zones, from zero.",
        draw=partial(boxes, values, heading=measure.heading, scales=scale),
        height=height(len(values)),
    )


def boxes(values: Mapping[str, Sequence[float]], *, heading: str, scales: Sequence[float] = ()) -> Drawing:
    """Draw one box plot per row: quartiles, median, whiskers, and outliers as dots; the scale starts at zero."""
    figure = canvas(height=height(len(values)))
    axes = plot(figure, left=2.05, right=0.3, bottom=0.5, top=0.15)
    ax.dress(axes)
    for row, item in enumerate(values.values()):
        _draw_box(axes, row, item, COLOURS[row % len(COLOURS)])
    ax.set_linear_x(axes, [0.0, *scales, *(value for entry in values.values() for value in entry)])
    axes.set_xlabel(heading)
    row_labels(axes, list(values))
    return figure


def _draw_box(axes: Axes, row: int, values: Sequence[float], colour: str) -> None:
    values = ax.finite(values)
    first, middle, third = quartiles(values)
    reach = _WHISKER * (third - first)
    inside = [value for value in values if first - reach <= value <= third + reach]
    outside = sorted(value for value in values if not first - reach <= value <= third + reach)
    line: dict[str, Any] = {"color": INK, "linewidth": 0.8, "solid_capstyle": "butt"}
    for box, end in ((first, min(inside)), (third, max(inside))) if inside else ():
        axes.plot([box, end], [row, row], zorder=1.8, **line)
        axes.plot([end, end], [row - 0.14, row + 0.14], zorder=1.8, **line)
    axes.barh(row, third - first, left=first, height=0.55, color=colour, alpha=0.75, edgecolor=INK, linewidth=0.8)
    axes.plot([middle, middle], [row - 0.275, row + 0.275], zorder=3, **{**line, "linewidth": 1.4})
    axes.plot(outside, [row] * len(outside), "o", markersize=2.5, markeredgewidth=0, color=INK, zorder=3)


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the quartiles, interpolated between neighbours (Hyndman and Fan's type 7); a single value is all three."""
    known = ax.finite(values) or [math.nan]
    if len(known) == 1:
        return known[0], known[0], known[0]
    first, middle, third = statistics.quantiles(known, n=4, method="inclusive")
    return first, middle, third
