"""A profile's figures for the interactive HTML page, as plotly traces and layouts."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...report.figures.figure import Grid
from ...report.figures.style import COLOURS
from ...report.formats.interactive import CAMERA, COLOUR_BAR, SURFACE_MARGIN, trace_name
from ...text import one_line
from .axes import steps, surfaces
from .points import DEMANDS, Family, ProfileResult, along, axis_name, group_by_workload, side
from .reductions import IOPS, MB_PER_SECOND, Measure
from .zones import zone_curves

#: Title, traces and layout.
Plotted = tuple[str, list[dict[str, Any]], dict[str, Any]]
_MARGIN = {"l": 70, "r": 20, "t": 20, "b": 60}


def profile_plots(result: ProfileResult) -> Iterator[Plotted]:
    """Yield the figures of a profile's run: surfaces over two axes, lines over one or over zones, bars over none."""
    for family in group_by_workload(result):
        measure = MB_PER_SECOND if family.sequential else IOPS
        title_suffix = f" - {', '.join(family.workloads)}"
        if family.zoned:
            yield _zones(family, measure, title_suffix)
        elif len(family.sides) == 2:
            yield from _surfaces(family, measure)
        elif family.sides:
            yield _lines(family, title_suffix)
        else:
            yield _bars(family, title_suffix)
        yield from _responses(family, title_suffix)


def _flat(xlabel: str, ylabel: str, **axis: Any) -> dict[str, Any]:
    return {
        "xaxis": {"title": {"text": one_line(xlabel)}, **axis},
        "margin": _MARGIN,
        "yaxis": {"title": {"text": ylabel}, "rangemode": "tozero", "tickformat": "~s"},
        "showlegend": True,
        "legend": {"orientation": "h", "y": -0.2, "yanchor": "top"},
    }


def _trace(
    index: int, name: str, x: Sequence[Any], y: Sequence[float], mode: str, text: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the trace of a line: the one with this ``index`` in the figure, which determines its colour."""
    finite_values = [value if math.isfinite(value) else None for value in y]
    return {
        "type": "scatter",
        "mode": mode,
        "x": list(x),
        "y": finite_values,
        "name": trace_name(name),
        "line": {"color": COLOURS[index % len(COLOURS)], "width": 1.5},
        **({"text": list(text), "textposition": "top left"} if text else {}),
    }


def _zones(family: Family, measure: Measure, title_suffix: str) -> Plotted:
    curves = zone_curves(family, measure)
    whole = max(last for line in curves.values() for _, last, _ in line)
    traces = [
        _trace(index, label, [50 * (first + last) / whole for first, last, _ in line], [v for *_, v in line], "lines")
        for index, (label, line) in enumerate(curves.items())
    ]
    return f"{measure.heading} by zone{title_suffix}", traces, _flat("Position (%)", measure.heading)


def _lines(family: Family, title_suffix: str) -> Plotted:
    (axis,) = family.sides
    across = side(axis, family.spots)
    labels = dict(zip(across.keys, across.labels, strict=True))
    traces = []
    for index, series in enumerate(family.series([axis.key])):
        spots = along(series.spots, axis)
        values = [IOPS.of(spot.measured) for spot in spots.values()]
        traces.append(_trace(index, series.label, [labels[key] for key in spots], values, "lines+markers"))
    return f"IOPS over {axis_name(axis).lower()}{title_suffix}", traces, _flat(across.title, "IOPS", type="category")


def _surfaces(family: Family, measure: Measure) -> Iterator[Plotted]:
    """Yield a surface for each series, all on one scale."""
    deep, across = family.sides
    right, back = side(across, family.spots), side(deep, family.spots)
    grids = surfaces(family, measure)
    top = max((value for values in grids.values() for value in values.values() if math.isfinite(value)), default=1.0)
    for label, values in grids.items():
        heights = [[_finite_value(values, (x, y)) for x in right.keys] for y in back.keys]
        trace = {
            "type": "surface",
            "colorbar": COLOUR_BAR,
            "x": list(right.labels),
            "y": list(back.labels),
            "z": heights,
            "colorscale": "Cividis",
            "cmin": 0,
            "cmax": top,
            "hovertemplate": f"{right.title} %{{x}}<br>{back.title} %{{y}}<br>{measure.heading} %{{z:,.4~g}}"
            "<extra></extra>",
        }
        scene = {
            "xaxis": {"title": {"text": right.title}, "type": "category"},
            "yaxis": {"title": {"text": back.title}, "type": "category"},
            "zaxis": {"title": {"text": measure.heading}, "range": [0, top]},
            "camera": CAMERA,
        }
        layout = {"scene": scene, "margin": SURFACE_MARGIN, **_scale_buttons(values, top)}
        yield f"{measure.heading} - {label}", [trace], layout


def _scale_buttons(values: Grid, top: float) -> dict[str, Any]:
    """Return the buttons for the scale of all surfaces, which is the first one, and that of this surface."""
    own = max((value for value in values.values() if math.isfinite(value)), default=0.0) or top
    buttons = [
        {"label": label, "method": "update", "args": [{"cmax": end}, {"scene.zaxis.range": [0, end]}]}
        for label, end in (("Common scale", top), ("Own scale", own))
    ]
    place = {"direction": "right", "x": 0, "xanchor": "left", "y": 1, "yanchor": "top", "pad": {"t": 28}}
    return {"updatemenus": [{"type": "buttons", **place, "buttons": buttons}]}


def _finite_value(values: Mapping[tuple[int, int], float], key: tuple[int, int]) -> float | None:
    value = values.get(key, math.nan)
    return value if math.isfinite(value) else None


def _bars(family: Family, title_suffix: str) -> Plotted:
    names = [html.escape(one_line(spot.point.name)) for spot in family.spots]
    values = [IOPS.of(spot.measured) for spot in family.spots]
    trace = {"type": "bar", "x": names, "y": values, "marker": {"color": COLOURS[0]}, "name": "IOPS"}
    return f"IOPS by point{title_suffix}", [trace], _flat("Point", "IOPS", type="category")


def _responses(family: Family, title_suffix: str) -> Iterator[Plotted]:
    key = next((key for key in DEMANDS for axis in family.axes if axis.key == key), None)
    if key is None or family.zoned:
        return
    traces = []
    for index, series in enumerate(family.series([key])):
        curve = [step for step in steps(series, key, family) if math.isfinite(step.average_ms)]
        rates, times = [step.iops for step in curve], [step.average_ms for step in curve]
        names = [step.demand for step in curve]
        traces.append(_trace(index, series.label, rates, times, "lines+markers+text", names))
    layout = _flat("IOPS", "Average response time (ms)")
    yield (
        f"Average response time over IOPS{title_suffix}",
        traces,
        {**layout, "yaxis": {**layout["yaxis"], "type": "log"}},
    )
