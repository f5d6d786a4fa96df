"""Figures of differences between runs: a heat map of a matrix, grouped bars, and the units of a lot."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ...analysis.outliers import robust_tolerance
from ...results.comparison import Difference
from ...results.key_figures import Better
from ...results.lot import LotFigure
from ...text import without_breaks
from ...units import number, percent_decimals, signed
from ..tables import thousands
from . import axes as ax
from .figure import LEGEND_WIDTH, Side, Styles, canvas, legend_beside, padded, plot
from .style import BAD, BAND, GRID, INK, QUIET, series_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BETTER, _WORSE = (0, 114, 178), (213, 94, 0)
#: A significant difference of this many percent, or the largest one if that is more, has the full colour.
_FULL_PERCENT = 10.0
#: The part of the full colour in that of the smallest difference.
_LIGHTEST = 0.2
#: Height of a line of text below a plot of groups, and the letters in it for one inch.
_LINE_HEIGHT, _LETTERS_PER_INCH = 0.135, 15
#: The width in inches of a letter on top of a bar.
_LETTER_WIDTH = 0.057


def heat_map(
    changes: Mapping[tuple[int, int], Difference | None], across: Side, down: Side, *, better: Better
) -> Figure:
    """Draw the differences of a matrix in percent, by the keys across and down.

    Significant ones are coloured, blue if they are ``better`` and orange if worse, the stronger the greater; others are
    grey, and those without an interval white.  The legend has the scale of the colours.
    """
    from matplotlib.patches import Patch, Rectangle

    figure = canvas()
    axes = plot(figure, left=0.85, right=LEGEND_WIDTH, bottom=0.55, top=0.2)
    significant = [abs(change.percent) for change in changes.values() if change and change.significant]
    full = max([_FULL_PERCENT, *significant])
    kinds: set[str] = set()
    texts = {place: signed(change.percent) if change else "n/a" for place, change in changes.items()}
    width = 72 * axes.get_position().width * figure.get_figwidth() / len(across.keys)
    size = min(8.0, width / (0.62 * max(map(len, texts.values()))))
    for place, change in changes.items():
        x, y = across.keys.index(place[0]), down.keys.index(place[1])
        kind, colour, dark = _cell(change, better, full)
        kinds.add(kind)
        axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colour, edgecolor="white", linewidth=1.5))
        ink = "white" if dark else INK if change and change.significant else QUIET
        axes.text(x, y, texts[place], ha="center", va="center", fontsize=size, color=ink)
    axes.set_xlim(-0.5, len(across.keys) - 0.5)
    axes.set_ylim(-0.5, len(down.keys) - 0.5)
    axes.set_xticks(range(len(across.keys)), across.labels)
    axes.set_yticks(range(len(down.keys)), down.labels)
    axes.set_xlabel(across.title)
    axes.set_ylabel(down.title)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    scale = {label: colour for kind in _KINDS if kind in kinds for label, colour in _scale(kind, full)}
    patches = [Patch(facecolor=colour, edgecolor=GRID) for colour in scale.values()]
    legend_beside(axes, "Difference (%)", patches, list(scale))
    return figure


_KINDS = ("better", "worse", "not significant", "no interval", "n/a")
_COLOURS = {"better": _BETTER, "worse": _WORSE}


def _scale(kind: str, full: float) -> Iterator[tuple[str, str]]:
    """Yield the labels and colours of a kind of cells; if it has shades, of three of them."""
    if kind not in _COLOURS:
        yield kind, _flat_colour(kind)
        return
    for percent in (full, full / 2, 0.0):
        yield f"{kind} by {number(percent, digits=3)}", _shade(kind, percent / full)


def _flat_colour(kind: str) -> str:
    return GRID if kind == "not significant" else "white"


def _shade(kind: str, share: float) -> str:
    """Return the colour of a significant difference that is ``share`` of the greatest."""
    return _mixed(_COLOURS[kind], _LIGHTEST + (1 - _LIGHTEST) * share)


def _cell(change: Difference | None, better: Better, full: float) -> tuple[str, str, bool]:
    """Return the kind of a difference, the colour of its cell, and whether that is dark."""
    if change is None:
        return "n/a", "white", False
    if not change.significant:
        kind = "no interval" if change.significant is None else "not significant"
        return kind, _flat_colour(kind), False
    share = abs(change.percent) / full
    kind = "better" if (change.percent > 0) == (better == "more") else "worse"
    return kind, _shade(kind, share), share > 0.5


def _mixed(colour: tuple[int, int, int], share: float) -> str:
    """Return a colour mixed with white."""
    return "#" + "".join(f"{round(255 - share * (255 - part)):02x}" for part in colour)


def grouped_bars(
    groups: Sequence[str],
    series: Mapping[str, Sequence[Difference | None]],
    *,
    reference: str,
    styles: Styles | None = None,
) -> Figure:
    """Draw a bar for each run in each group, in percent of the ``reference`` run, whose bars are 100 %.

    Whiskers are the confidence intervals of the differences.
    """
    figure, axes = _groups(groups)
    axes.grid(False, axis="x")
    styles = styles or series_styles(list(series))
    width = 0.8 / len(series)
    inches = axes.get_position().width * figure.get_figwidth()
    ends = [100.0]
    for order, (name, changes) in enumerate(series.items()):
        places = [place + width * (order - (len(series) - 1) / 2) for place in range(len(groups))]
        heights, below, above = zip(*(_bar(change, is_reference=name == reference) for change in changes), strict=True)
        error = {"ecolor": INK, "elinewidth": 0.9, "capsize": 0}
        colour = styles[name].colour
        bars = axes.bar(places, heights, 0.92 * width, label=name, color=colour, yerr=[below, above], error_kw=error)
        texts = [thousands(height, percent_decimals(height)) if math.isfinite(height) else "" for height in heights]
        if width * inches / len(groups) >= _LETTER_WIDTH * max(map(len, texts)):
            axes.bar_label(bars, texts, padding=2, fontsize=7)
        ends += [height + more for height, more in zip(heights, above, strict=True)]
    ax.set_y(axes, [1.06 * end for end in ends], f"% of {reference.partition(':')[0]}", log=False)
    legend_beside(axes, "Run")
    return figure


def _bar(change: Difference | None, *, is_reference: bool) -> tuple[float, float, float]:
    """Return the height of a bar, and the lengths of its whisker below and above it."""
    if change is None:
        return (100.0 if is_reference else math.nan), 0.0, 0.0
    if change.low is None or change.high is None:
        return 100 + change.percent, 0.0, 0.0
    return 100 + change.percent, change.percent - change.low, change.high - change.percent


def unit_dots(groups: Sequence[str], lots: Sequence[LotFigure], names: Sequence[str]) -> Figure:
    """Draw each unit of a lot as a dot in each group, in percent of the median; outliers have their own dots and names.

    A line is the mean, and a band one standard deviation on both sides; dashed lines are the limits of outliers.
    """
    figure, axes = _groups(groups)
    axes.grid(False, axis="x")
    found = sorted({unit for lot in lots for unit in lot.outliers or ()})
    styles = series_styles([-1, *found])
    shown = [100.0]
    for place, lot in enumerate(lots):
        ends = (place - 0.35, place + 0.35)
        mean, half = 100 * lot.mean / lot.median, 100 * lot.deviation / lot.median
        axes.fill_between(ends, mean - half, mean + half, color=BAND, linewidth=0, zorder=1)
        axes.plot(ends, [mean] * 2, color=INK, linewidth=1.1, zorder=2, label="mean")
        shown += [mean - half, mean + half]
        if lot.outliers is not None:
            _, tolerance = robust_tolerance(lot.known)
            limits = [100 + sign * 100 * tolerance / lot.median for sign in (1, -1)]
            for limit in limits:
                axes.plot(
                    ends, [limit] * 2, color=BAD, linewidth=0.9, linestyle=(0, (4, 2)), label="limits of outliers"
                )
            shown += limits
        for unit, value in enumerate(lot.values):
            if value is None:
                continue
            is_outlier = unit in (lot.outliers or ())
            style, percent = styles[unit if is_outlier else -1], 100 * value / lot.median
            x = place + 0.5 * (unit / (len(lot.values) - 1) - 0.5)
            label = f"outlier {names[unit]}" if is_outlier else "unit"
            size = 6 if is_outlier else 4
            axes.plot(
                [x],
                [percent],
                linestyle="none",
                marker=style.marker,
                markersize=size,
                color=style.colour,
                label=label,
                zorder=3,
            )
            if is_outlier:
                axes.annotate(
                    names[unit].partition(":")[0],
                    (x, percent),
                    (5, 0),
                    textcoords="offset points",
                    fontsize=7,
                    va="center",
                )
            shown.append(percent)
    ax.set_y_within(axes, *padded(shown))
    axes.set_ylabel("% of the median")
    handles, labels = axes.get_legend_handles_labels()
    by_label = dict(zip(labels, handles, strict=True))
    by_label["mean \N{PLUS-MINUS SIGN} deviation"] = axes.collections[0]
    order = sorted(by_label, key=lambda label: (label.startswith("outlier "), label != "unit", label))
    legend_beside(axes, "Lot", [by_label[label] for label in order], order)
    return figure


def _groups(groups: Sequence[str]) -> tuple[Figure, Axes]:
    """Return axes with a place for each group, and the groups' names below, in as many lines as they need."""
    figure = canvas()
    inches = figure.get_figwidth() - 0.85 - LEGEND_WIDTH
    letters = max(8, int(_LETTERS_PER_INCH * inches / len(groups)))
    texts = ["\n".join(line for part in group.split("\n") for line in _lines(part, letters)) for group in groups]
    lines = max(text.count("\n") + 1 for text in texts)
    axes = plot(figure, left=0.85, right=LEGEND_WIDTH, bottom=0.2 + _LINE_HEIGHT * lines, top=0.2)
    ax.dress(axes)
    axes.set_xlim(-0.5, len(groups) - 0.5)
    axes.set_xticks(range(len(groups)), texts, fontsize=7.5)
    axes.tick_params(axis="x", length=0)
    return figure, axes


def _lines(text: str, letters: int) -> list[str]:
    """Return ``text`` in lines of at most so many letters, which end within a quantity only if it is longer."""
    space = "\N{NO-BREAK SPACE}"
    words = [word if len(word) <= letters else word.replace(space, " ") for word in without_breaks(text).split(" ")]
    return [line.replace(space, " ") for line in textwrap.wrap(" ".join(words), letters)]
