"""Styles of lines and columns: a block size or mix has the same style in every figure of a report.

Colours are Okabe and Ito's, which colour-blind readers can distinguish (yellow is darkened for white paper); markers
and dashes distinguish lines in grey print.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

INK = "#222222"
QUIET = "#666666"
GRID = "#d9d9d9"
BAND = "#e8edf3"
BAD = "#b00020"

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#a08a00", "#222222")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
_WIDTH, _SIZE = 1.4, 4.5
_DASHES: tuple[Any, ...] = ("solid", (0, (5, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1.5, 1.5)))
#: The width and the dashes of lines that may coincide, in the order they are drawn: each has longer gaps.
_THIN, _OVERLAID_DASHES = 0.9, ("solid", (0, (8, 5)), (0, (2, 5)))

#: matplotlib settings of every figure, applied to its defaults; the user's matplotlibrc is ignored.
SETTINGS: Mapping[Any, Any] = {
    "font.family": "DejaVu Sans",
    "text.parse_math": False,  # names may contain "$"
    "font.size": 8,
    "axes.labelsize": 8.5,
    "axes.edgecolor": QUIET,
    "axes.linewidth": 0.7,
    "axes.axisbelow": True,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "lines.linewidth": _WIDTH,
    "lines.markersize": _SIZE,
    "text.color": INK,
    "axes.labelcolor": INK,
    "svg.hashsalt": "snia-pts",
    "svg.fonttype": "path",
    "pdf.fonttype": 3,
    "pdf.compression": 6,
    "path.simplify": False,
}

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesStyle:
    """The style of one series."""

    colour: str
    marker: str
    dash: Any
    width: float = _WIDTH
    hollow: bool = False

    def line(self) -> dict[str, Any]:
        """Return the style as matplotlib's keyword arguments for a line; ``hollow`` markers are outlines."""
        return {
            "color": self.colour,
            "marker": self.marker,
            "markersize": _SIZE,
            "markeredgewidth": self.width if self.hollow else 0,
            "markerfacecolor": "none" if self.hollow else self.colour,
            "linestyle": self.dash,
            "linewidth": self.width,
        }


def series_styles(keys: Sequence[Key]) -> dict[Key, SeriesStyle]:
    """Return the style of each key by its position; pass all keys of a report in the same order each time."""
    return {
        key: SeriesStyle(
            colour=COLOURS[place % len(COLOURS)],
            marker=_MARKERS[(place + place // len(COLOURS)) % len(_MARKERS)],
            dash=_DASHES[(place // 2) % len(_DASHES)],
        )
        for place, key in enumerate(keys)
    }


def overlay_styles(keys: Sequence[Key]) -> dict[Key, SeriesStyle]:
    """Return the styles of series that may coincide, to be drawn in this order."""
    return overlaid(series_styles(keys))


def overlaid(styles: Mapping[Key, SeriesStyle]) -> dict[Key, SeriesStyle]:
    """Return ``styles``, with their colours and markers, for series that may coincide, to be drawn in this order.

    Lines are thin, and all but the first have gaps in which those below them are visible; markers are hollow.
    """
    return {
        key: replace(style, dash=_OVERLAID_DASHES[min(place, len(_OVERLAID_DASHES) - 1)], width=_THIN, hollow=True)
        for place, (key, style) in enumerate(styles.items())
    }
