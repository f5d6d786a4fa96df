"""The small figure of the first page: a heat map or a curve, and the tracked variables beside it."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..pages import FIGURE_WIDTH
from ..tables import thousands
from . import axes as ax
from .figure import LEGEND_WIDTH, Grid, Side, Styles, canvas, draw_rounds, legend_beside, plot
from .matrices import Marks
from .style import INK
from .timelines import Series as Curve
from .timelines import is_wide
from .timeplots import Mark, draw_marks, draw_series, set_places

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...results.tracked_series import Convergence

#: In inches.
HEIGHT = 1.8
_BOTTOM, _TOP, _LEFT, _BETWEEN, _RIGHT = 0.45, 0.22, 0.62, 0.72, 0.2
#: The height of the names of marks, between a plot and its title, in inches.
_MARK_NAMES = 0.14
#: The width of a heat map or curve with the tracked variables beside it, in inches.
_WIDTH = 2.75
#: The plots of the tests in a summary of several, in inches.
_PANELS_PER_ROW, _PANEL_HEIGHT, _PANEL_LEFT, _PANEL_STEPS = 4, 1.5, 0.52, 4
#: The height of a title and of an entry of the legend below a plot, in inches, and the letters in a line of a title.
_PANEL_TOP, _PANEL_LEGEND, _PANEL_LETTERS = 0.42, 0.15, 22
#: The most labelled rounds of the tracked variables, and the most cells that have their value.
_MAX_ROUNDS, _MAX_COLUMNS, _MAX_ROWS = 6, 8, 9
_FONT = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """Values over the two sides of a matrix, with the marks that precede them; ``caption`` is about the values."""

    values: Grid
    down: Side
    across: Side
    heading: str
    caption: str
    marks: Marks

    def draw(self, axes: Axes) -> None:
        """Draw a cell for each value, darker for higher values on a log scale, with the value in it."""
        from matplotlib import colormaps
        from matplotlib.colors import LogNorm, Normalize

        known = ax.finite(self.values.values())
        norm = LogNorm if min(known) > 0 else Normalize
        # The lightest and the darkest quarter of the colours are left out: text on them is readable.
        scale, colours = norm(min(known), max(max(known), min(known) * 1.001)), colormaps["Blues"]
        rows, columns = self.down.keys, self.across.keys
        places = {(row, column): (x, y) for y, row in enumerate(rows) for x, column in enumerate(columns)}
        values = [self.values.get(place, math.nan) for place in places]
        shares = [float(scale(value)) if math.isfinite(value) else math.nan for value in values]
        axes.bar(
            [x for x, _ in places.values()],
            1,
            width=1,
            bottom=[y - 0.5 for _, y in places.values()],
            color=["white" if math.isnan(share) else colours(0.1 + 0.75 * share) for share in shares],
            edgecolor="white",
            linewidth=0.5,
        )
        if len(rows) <= _MAX_ROWS and len(columns) <= _MAX_COLUMNS:
            for (place, (x, y)), value, share in zip(places.items(), values, shares, strict=True):
                text = f"{self.marks.get(place, '')}{short_number(value)}"
                ink = "white" if share > 0.6 else INK
                axes.text(x, y, text, ha="center", va="center", fontsize=_FONT, color=ink)
        axes.set_xlim(-0.5, len(columns) - 0.5)
        axes.set_ylim(-0.5, len(rows) - 0.5)
        for side, set_ticks in ((self.across, axes.set_xticks), (self.down, axes.set_yticks)):
            keep = ax.spread(range(len(side.keys)), len(side.keys) / _MAX_ROWS)
            set_ticks(range(len(side.keys)), [t if kept else "" for t, kept in zip(side.labels, keep, strict=True)])
        axes.tick_params(length=0, labelsize=_FONT)
        axes.spines[["top", "left", "bottom", "right"]].set_visible(False)
        axes.set_xlabel(self.across.title, fontsize=_FONT, labelpad=2)
        axes.set_ylabel(self.down.title, fontsize=_FONT)


def heat_map(values: Grid, down: Side, across: Side, *, heading: str, caption: str, marks: Marks) -> HeatMap | None:
    """Return a matrix as the heat map; None without a number."""
    if not any(map(math.isfinite, values.values())):
        return None
    return HeatMap(values=values, down=down, across=across, heading=heading, caption=caption, marks=marks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """A quantity over the time of continuous stimuli, with ``marks`` on the time axis."""

    curves: Sequence[Curve]
    heading: str
    marks: Sequence[Mark] = ()

    def draw(self, axes: Axes) -> None:
        """Draw the curves from zero, or on a log axis."""
        ax.dress(axes)
        end = max(float(series.curve.x[-1]) for series in self.curves)
        factor = set_places(axes, 0.0, end, "time", most=_MAX_ROUNDS)
        for order, series in enumerate(self.curves):
            draw_series(axes, series, factor, order)
        values = [value for series in self.curves for value in (*series.curve.low, *series.curve.high)]
        if is_wide(self.curves):
            ax.set_log_y(axes, values)
        else:
            ax.set_linear_y(axes, [0.0, *values])
        draw_marks(axes, self.marks, factor, beside=_RIGHT)
        axes.tick_params(labelsize=_FONT)
        axes.xaxis.label.set_fontsize(_FONT)
        axes.xaxis.labelpad = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked:
    """The tracked variables in percent of their averages."""

    heading: str
    lines: Convergence
    styles: Styles

    def draw(self, axes: Axes) -> None:
        """Draw a line for each variable, with a legend beside it."""
        draw_lines(axes, self.lines, self.styles)
        handles, labels = axes.get_legend_handles_labels()
        shown = {label: handle for label, handle in zip(labels, handles, strict=True) if label not in self.lines.bounds}
        order = sorted(shown, key=lambda label: label not in self.lines.series)
        legend_beside(axes, "Tracked variable", [shown[label] for label in order], order)


def draw_lines(axes: Axes, lines: Convergence, styles: Styles, *, y_steps: int = 8) -> None:
    """Draw a line for each tracked variable, without a legend; the y axis has at most ``y_steps`` steps."""
    draw_rounds(
        axes,
        lines.series,
        lines.window,
        heading="",
        log=False,
        steady=lines.steady,
        bounds=lines.bounds,
        styles=styles,
        most=_MAX_ROUNDS,
        y_steps=y_steps,
    )
    axes.tick_params(labelsize=_FONT)
    axes.xaxis.label.set_fontsize(_FONT)
    axes.xaxis.labelpad = 2


def panels_height(panels: Sequence[Tracked]) -> float:
    """Return the height of ``draw_panels`` in inches."""
    return sum(map(_row_height, _panel_rows(panels)))


def _panel_rows(panels: Sequence[Tracked]) -> list[Sequence[Tracked]]:
    return [panels[first : first + _PANELS_PER_ROW] for first in range(0, len(panels), _PANELS_PER_ROW)]


def _row_height(row: Sequence[Tracked]) -> float:
    """Return the height of a row of panels, with room for the longest legend; a single line has none."""
    lines = max(len(panel.lines.series) for panel in row)
    return _PANEL_HEIGHT + _PANEL_LEGEND * (lines if lines > 1 else 0)


def draw_panels(panels: Sequence[Tracked]) -> Figure:
    """Draw the tracked variables of each test in a small plot, with a legend below it if there are several."""
    height = panels_height(panels)
    figure, width, top = canvas(height=height), FIGURE_WIDTH / _PANELS_PER_ROW, 0.0
    for row in _panel_rows(panels):
        for column, panel in enumerate(row):
            axes = plot(
                figure,
                left=column * width + _PANEL_LEFT,
                right=FIGURE_WIDTH - (column + 1) * width + 0.1,
                top=top + _PANEL_TOP,
                bottom=height - top - _PANEL_HEIGHT + _BOTTOM,
            )
            draw_lines(axes, panel.lines, panel.styles, y_steps=_PANEL_STEPS)
            axes.set_ylabel("" if column else "% of average", fontsize=_FONT, labelpad=2)
            axes.set_title(_panel_title(panel), fontsize=_FONT + 0.5, pad=3)
            handles, labels = axes.get_legend_handles_labels()
            named = {
                label: handle for label, handle in zip(labels, handles, strict=True) if label in panel.lines.series
            }
            if len(named) > 1:
                axes.legend(
                    list(named.values()),
                    list(named),
                    loc="upper left",
                    bbox_to_anchor=(-0.15, -0.62),
                    fontsize=_FONT,
                    handlelength=2.4,
                    labelspacing=0.3,
                    borderaxespad=0,
                )
        top += _row_height(row)
    return figure


def _panel_title(panel: Tracked) -> str:
    """Return the test's name in short lines; below it that of its tracked variable if there is only one."""
    names = panel.lines.series if len(panel.lines.series) == 1 else ()
    return "\n".join((textwrap.fill(panel.heading, _PANEL_LETTERS), *names))


def draw(left: HeatMap | Curves | None, tracked: Tracked | None) -> Figure:
    """Draw ``left`` and ``tracked`` side by side; one alone has the whole width."""
    figure = canvas(height=HEIGHT)
    names = _MARK_NAMES if isinstance(left, Curves) and left.marks else 0.0
    if left is not None:
        right = FIGURE_WIDTH - _LEFT - _WIDTH if tracked else _RIGHT
        axes = plot(figure, left=_LEFT, right=right, bottom=_BOTTOM, top=_TOP + names)
        left.draw(axes)
        _set_title(axes, left.heading, above=names)
    if tracked is not None:
        start = _LEFT + (_WIDTH + _BETWEEN if left else 0)
        axes = plot(figure, left=start, right=LEGEND_WIDTH, bottom=_BOTTOM, top=_TOP)
        tracked.draw(axes)
        _set_title(axes, tracked.heading)
    return figure


def _set_title(axes: Axes, heading: str, above: float = 0.0) -> None:
    """Set a plot's title, ``above`` inches higher than usual."""
    shown = ax.logarithmic(heading) if axes.get_yscale() == "log" else heading
    axes.set_title(shown, fontsize=_FONT + 0.5, pad=3 + 72 * above)


def short_number(value: float) -> str:
    """Return a value with three or four digits, and a unit from ten thousand on: ``203k``, ``3 502``, ``0.0780``."""
    if not math.isfinite(value):
        return "n/a"
    if 999.5 <= abs(value) < 9999.5:
        return thousands(value, 0)
    text, unit = f"{value:#.3g}", ""
    for larger in "kMGT":
        if abs(float(text)) < 1000:
            break
        value, unit = value / 1000, larger
        text = f"{value:#.3g}"
    return text.removesuffix(".") + unit
