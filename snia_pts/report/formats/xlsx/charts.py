"""The common properties of the charts of a workbook."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from xlsxwriter.workbook import Workbook

from ...figures.figure import padded
from ...figures.style import GRID

#: The number of rows from one chart to the next, and the height of a chart in pixels.
CHART_ROWS, CHART_HEIGHT = 20, 380
#: A chart moves with its cells, and its upper border is not on that of the page.
CHART_PLACE = {"object_position": 2, "y_offset": 5}
#: The number format of an axis: an optional decimal, ``#,##0.##``, would leave a point after a whole number.
AXIS_FORMAT = "[>=1000]#,##0;General"
#: The properties of an x axis of rounds or times.
FROM_ZERO: Mapping[str, Any] = {"min": 0, "major_gridlines": {"visible": False}}

#: What xlsxwriter takes for the reference of a cell, and a letter without width that prevents it.
_CELL, _WORD_JOINER = re.compile(r"!(?=\$?[A-Z]+\$?\d)"), "\N{WORD JOINER}"

Properties = Mapping[str, Any]


def add_chart(workbook: Workbook, kind: Properties, title: str, x: Properties, y: Properties, legend: str) -> Any:
    """Return a chart without lines, with the properties of its axes, and the position of its legend."""
    chart = workbook.add_chart(kind)
    chart.set_title({"name": _as_text(title), "name_font": {"size": 10, "bold": False}})
    chart.set_x_axis(x)
    chart.set_y_axis({"major_gridlines": {"visible": True, "line": {"color": GRID}}, **y})
    chart.set_legend({"position": legend})
    chart.set_size({"width": 560, "height": CHART_HEIGHT})
    return chart


def _as_text(title: str) -> str:
    """Return a title that xlsxwriter writes as text: it has no option for one that looks like a cell, ``a!B1``."""
    return _CELL.sub(f"!{_WORD_JOINER}", title)


def line(colour: str, width: float = 1.5, dash: str | None = None) -> Properties:
    """Return the style of a line of a chart."""
    return {"line": {"color": colour, "width": width, "dash_type": dash}, "marker": {"type": "none"}}


def dotted_line(colour: str) -> Properties:
    """Return the style of a line with a dot at each value."""
    dot = {"type": "circle", "size": 5, "fill": {"color": colour}, "border": {"color": colour}}
    return {**line(colour), "marker": dot}


def zoomed(values: Sequence[float]) -> Properties:
    """Return the ends and the step of a linear axis around ``values``, which need not start at zero."""
    low, high = padded(values)
    power = 10.0 ** math.floor(math.log10(high - low))
    step = power * next(part for limit, part in ((2, 0.2), (5, 0.5), (math.inf, 1)) if (high - low) / power < limit)
    ends = (math.floor(low / step) * step, math.ceil(high / step) * step)
    return dict(zip(("min", "max", "major_unit"), (float(f"{value:.12g}") for value in (*ends, step)), strict=True))
