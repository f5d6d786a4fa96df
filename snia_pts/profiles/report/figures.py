"""The figures of a workload profile's report: lines and bars with the range of the repeats, response time over IOPS."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...report.figures import axes as ax
from ...report.figures.figure import LEGEND_WIDTH, Side, Styles, canvas, legend_beside, plot
from ...report.figures.style import BAD, COLOURS, INK, QUIET, series_styles
from ...report.header import short
from ...report.pages import FIGURE_HEIGHT, FIGURE_WIDTH
from ...report.tables import decimals_for, thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Characters of a bar's label, and the height of a bar or box in inches.
_LABEL_LETTERS, _ROW = 34, 0.33
#: The most bars or boxes in one figure.
MOST_ROWS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The mean, minimum and maximum of some values."""

    mean: float
    least: float
    greatest: float


#: The dashes of the curves of response time over IOPS.
_DASHES: Mapping[str, Any] = {"average": "solid", "99 %": (0, (4, 1.5)), "99.9 %": (0, (1, 1.2))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A point of a curve of response time over IOPS: its demand (``Q16``), and its response times in ms."""

    demand: str
    iops: float
    average_ms: float
    two_nines_ms: float
    three_nines_ms: float


def lines(
    panels: Mapping[str, Mapping[str, Mapping[int, Span]]],
    across: Side,
    *,
    legend: str,
    scales: Mapping[str, Sequence[float]],
    styles: Styles | None = None,
) -> Figure:
    """Plot stacked panels over one axis, a line for each series, with whiskers from minimum to maximum.

    ``panels`` are values by heading, label and key.  The scale of each panel includes ``scales``, by heading.
    """
    figure = canvas()
    room = (FIGURE_HEIGHT - 0.75) / len(panels)
    styles = styles or series_styles(list(next(iter(panels.values()))))
    for number, (heading, series) in enumerate(panels.items()):
        last = number == len(panels) - 1
        axes = plot(
            figure,
            left=0.85,
            right=LEGEND_WIDTH,
            bottom=0.55 + room * (len(panels) - 1 - number) + 0.2 * (not last),
            top=0.2 + room * number,
        )
        ax.dress(axes)
        for label, line in series.items():
            _line(axes, across, line, label, styles[label].line())
        spans = [item for line in series.values() for item in line.values()]
        values = [value for span in spans for value in (span.least, span.greatest)]
        values += scales.get(heading, ())
        ax.set_y(axes, values, heading, log=ax.is_wide(values))
        _across(axes, across, labelled=last)
        if number == 0:
            legend_beside(axes, legend)
    return figure


def _line(axes: Axes, across: Side, spans: Mapping[int, Span], label: str, style: Mapping[str, object]) -> None:
    places = dict(zip(across.keys, across.places, strict=True))
    found = [(places[key], span) for key, span in spans.items()]
    xs, ys = [x for x, _ in found], [span.mean or math.nan for _, span in found]
    axes.plot(xs, ys, label=label, **style)  # type: ignore[arg-type]
    reach = [[span.mean - span.least for _, span in found], [span.greatest - span.mean for _, span in found]]
    if any(map(any, reach)):
        axes.errorbar(xs, ys, yerr=reach, fmt="none", ecolor=style["color"], elinewidth=0.8, capsize=2.2)  # type: ignore[arg-type]


def _across(axes: Axes, across: Side, *, labelled: bool) -> None:
    places = across.places
    room = max(0.25, 0.03 * (places[-1] - places[0]))
    keep = ax.spread(places, 0.09 * (places[-1] - places[0] + 2 * room))
    axes.set_xlim(places[0] - room, places[-1] + room)
    shown = [label if kept and labelled else "" for label, kept in zip(across.labels, keep, strict=True)]
    axes.set_xticks(places, shown)
    if labelled:
        axes.set_xlabel(ax.logarithmic(across.title) if across.log else across.title)


# -- response time over IOPS ------------------------------------------------------------------------------------------


def response_over_iops(series: Mapping[str, Sequence[Step]], *, legend: str, scales: Sequence[Step] = ()) -> Figure:
    """Plot average, 99 % and 99.9 % response time over IOPS, one colour per series; labels give the demand of points.

    The scales of the axes include the steps ``scales``.
    """
    figure = canvas()
    axes = plot(figure, left=0.85, right=LEGEND_WIDTH, bottom=0.55, top=0.2)
    ax.dress(axes)
    styles = series_styles(list(series))
    for label, steps in series.items():
        style, x = styles[label].line(), [step.iops for step in steps]
        axes.plot(x, [step.average_ms for step in steps], label=label, **{**style, "linestyle": "solid"})
        thin = {**style, "markersize": 2.5, "linewidth": 0.9}
        axes.plot(x, [step.two_nines_ms for step in steps], **{**thin, "linestyle": _DASHES["99 %"]})
        axes.plot(x, [step.three_nines_ms for step in steps], **{**thin, "linestyle": _DASHES["99.9 %"]})
    for name, dash in _DASHES.items():
        axes.plot([], [], color=QUIET, linestyle=dash, label=name)
    every = [step for steps in (*series.values(), scales) for step in steps]
    times = [value for step in every for value in (step.average_ms, step.two_nines_ms, step.three_nines_ms)]
    ax.set_linear_x(axes, [0.0, *(step.iops for step in every)])
    axes.set_xlabel("IOPS")
    ax.set_y(axes, times, "Response time (ms)", log=ax.is_wide(times))
    legend_beside(axes, legend)
    _name_steps(axes, series, {label: styles[label].colour for label in series})
    return figure


def _name_steps(axes: Axes, series: Mapping[str, Sequence[Step]], colours: Mapping[str, str]) -> None:
    """Label each step with its demand, inside the axes and beside all points and other labels.

    The ends of curves go first; a step without a free place has no label.
    """
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=1.6, foreground="white")]
    at = {
        (label, number): _printed(axes, step.iops, step.average_ms)
        for label, steps in series.items()
        for number, step in enumerate(steps)
        if step.average_ms > 0
    }
    edges = (axes.bbox.get_points() * 72 / axes.figure.dpi).tolist()
    tail = [
        (step.iops, ms)
        for steps in series.values()
        for step in steps
        for ms in (step.two_nines_ms, step.three_nines_ms)
    ]
    dots = [*at.values(), *(_printed(axes, *point) for point in tail)]
    taken = [(x - 2.5, y - 2.5, x + 2.5, y + 2.5) for x, y in dots]
    for label, steps in series.items():
        for number in sorted(range(len(steps)), key=lambda place: (place not in (0, len(steps) - 1), -place)):
            if (label, number) not in at:
                continue
            text, (x, y) = steps[number].demand, at[label, number]
            box, shift = next(_free(x, y, 4.6 * len(text) + 1.5, taken, edges), (None, (0.0, 0.0)))
            if box is not None:
                taken.append(box)
                axes.annotate(
                    text,
                    (steps[number].iops, steps[number].average_ms),
                    xytext=shift,
                    textcoords="offset points",
                    fontsize=6.5,
                    color=colours[label],
                    ha="left",
                    va="bottom",
                    annotation_clip=False,
                    path_effects=halo,
                    zorder=5,
                )


def _printed(axes: Axes, x: float, y: float) -> tuple[float, float]:
    """Return the printed position of a data point, in points; off the page if ``y`` is not a positive number."""
    if not (math.isfinite(y) and y > 0):
        return -1e6, -1e6
    right, up = axes.transData.transform((x, y))
    return 72 * right / axes.figure.dpi, 72 * up / axes.figure.dpi


_Box = tuple[float, float, float, float]


def _free(
    x: float, y: float, wide: float, taken: Sequence[_Box], edges: Sequence[Sequence[float]]
) -> Iterator[tuple[_Box, tuple[float, float]]]:
    """Yield the free boxes around a point, in points of print, for a label of this width, with their offsets.

    All are within ``edges``, the lower left and the upper right end of the axes; the nearest ones come first.
    """
    (left, lower), (end, upper) = edges
    for far in (0.0, 7.0, 14.0):
        beside, across = 3.0 + far / 2, -wide / 2
        for right, above in (
            *((side, height) for height in (3.0 + far, -12.0 - far) for side in (-wide - beside, beside)),
            (across, 4.0 + far),
            (across, -13.0 - far),
        ):
            box = (x + right, y + above, x + right + wide, y + above + 9.0)
            inside = left <= box[0] and box[2] <= end and lower <= box[1] and box[3] <= upper
            if inside and not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken):
                yield box, (right, above)


# -- bars and boxes, one per row --------------------------------------------------------------------------------------


def height(rows: int) -> float:
    """Return the height in inches of a figure with this many rows."""
    return 0.75 + _ROW * max(rows, 2)


def _row_label(text: str) -> str:
    lines = textwrap.wrap(text, _LABEL_LETTERS)
    return "\n".join(lines[:2]) + ("\N{HORIZONTAL ELLIPSIS}" if len(lines) > 2 else "")


def row_labels(axes: Axes, labels: Sequence[str]) -> None:
    """Label the rows of axes, the first on top."""
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_yticks(range(len(labels)), [_row_label(label) for label in labels], fontsize=7)
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")


def bars(
    panels: Mapping[str, Mapping[str, Span]], colours: Mapping[str, int], scale: Mapping[str, Sequence[float]]
) -> Figure:
    """Draw quantities as bars from zero in adjacent panels, one row per label, with whiskers as in ``lines``.

    ``colours`` are the colour numbers of the labels; the scale of each panel includes ``scale``, by heading.
    """
    labels = list(next(iter(panels.values())))
    figure = canvas(height=height(len(labels)))
    left, gap = 2.05, 0.35
    wide = (FIGURE_WIDTH - left - 0.3 - gap * (len(panels) - 1)) / len(panels)
    for number, (heading, spans) in enumerate(panels.items()):
        start = left + number * (wide + gap)
        axes = plot(figure, left=start, right=FIGURE_WIDTH - start - wide, bottom=0.5, top=0.15)
        ax.dress(axes)
        means = [spans[label].mean for label in labels]
        axes.barh(range(len(labels)), means, height=0.62, color=[COLOURS[colours[label] % 8] for label in labels])
        reach = [
            [spans[label].mean - spans[label].least for label in labels],
            [spans[label].greatest - spans[label].mean for label in labels],
        ]
        if any(map(any, reach)):
            axes.errorbar(means, range(len(labels)), xerr=reach, fmt="none", ecolor=INK, elinewidth=0.9, capsize=2.5)
        ax.set_few_x(axes, scale[heading], heading)
        row_labels(axes, labels if number == 0 else [""] * len(labels))
        for row, value in enumerate(means):
            _value(axes, row, value, max(scale[heading], default=0.0))
    return figure


def _value(axes: Axes, row: int, value: float, most: float) -> None:
    """Write a bar's value: inside a long bar, else after it."""
    inside = value > 0.55 * most
    text = thousands(value, decimals_for([value], digits=3, most=3))
    axes.annotate(
        text,
        (value, row),
        xytext=(-7 if inside else 7, 0),
        textcoords="offset points",
        va="center",
        ha="right" if inside else "left",
        fontsize=6.5,
        color="white" if inside else INK,
    )


# -- synchronizing calls ----------------------------------------------------------------------------------------------


def percentiles(
    series: Mapping[str, Mapping[str, float]], limits: Sequence[tuple[str, float, str]], *, heading: str, legend: str
) -> Figure:
    """Plot times by percentile, one line per series; ``limits`` are percentile, value and label of each limit."""
    figure = canvas()
    axes = plot(figure, left=0.85, right=LEGEND_WIDTH, bottom=0.55, top=0.2)
    ax.dress(axes)
    places = list(dict.fromkeys(place for one_series in series.values() for place in one_series))
    for label, style in series_styles(list(series)).items():
        found = series[label]
        axes.plot([places.index(place) for place in found], list(found.values()), label=label, **style.line())
    for place, value, name in limits:
        at = places.index(place)
        axes.plot([at - 0.45, at + 0.45], [value, value], color=BAD, linewidth=2.2, label=name, solid_capstyle="butt")
    values = [value for found in series.values() for value in found.values()] + [value for _, value, _ in limits]
    axes.set_xlim(-0.5, len(places) - 0.5)
    axes.set_xticks(range(len(places)), [short(place, 8.0) for place in places])
    axes.set_xlabel("Percentile")
    ax.set_y(axes, values, heading, log=ax.is_wide(values))
    legend_beside(axes, legend)
    return figure
