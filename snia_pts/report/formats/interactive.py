"""The figures of a result as an interactive HTML page with zoomable figures: one file that opens offline.

It supplements the report, which needs no script.  The file includes plotly's library, about 5 MB.
"""

from __future__ import annotations

import html
import json
import shlex
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import jinja2
from markupsafe import Markup

from ...errors import ReportError
from ...model.measurement import METRICS
from ...model.time_series import TimeLine
from ...results.attributes import window_points
from ...results.result import Loop, TestResult
from ...results.tracked_series import TrackedSeries, evaluated_series
from ...spec import Tracked
from ...text import one_line
from ..checksums import report_id
from ..figures import timelines
from ..figures.matrices import varying_parameters
from ..figures.style import COLOURS
from ..header import date
from ..registry import further_pages
from ..sections.summary import statements, warning_rows
from .rst import TEMPLATES

#: The metrics plotted for each point: name in result.xml, heading, divisor.
_SURFACE_METRICS = (
    ("iops", "IOPS", 1.0),
    ("mb_per_second", "Throughput (MB/s)", 1.0),
    ("average_response_us", "ART (ms)", 1000.0),
)
_MAX_TICKS = 30
#: Characters of a line of a legend; it fits on the screen of a telephone.
_LEGEND_LETTERS = 40
#: The colour bar of surfaces, below them.
COLOUR_BAR: Mapping[str, Any] = {"orientation": "h", "len": 0.8, "thickness": 12, "y": 0, "yanchor": "top"}
#: The direction from which a surface is seen; the page moves the camera away if it is narrow.
CAMERA: Mapping[str, Any] = {"eye": {"x": 1.6, "y": -1.6, "z": 0.9}, "center": {"x": 0, "y": 0, "z": -0.1}}
SURFACE_MARGIN: Mapping[str, int] = {"l": 0, "r": 0, "t": 0, "b": 40}
_MARGIN = {"l": 70, "r": 20, "t": 20, "b": 60}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A figure: its title, and plotly's traces and layout."""

    title: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]


def make(result: TestResult) -> bytes:
    """Return the page; raises ReportError if plotly is not installed."""
    figures = tuple(_plots(result))
    data = json.dumps([{"data": plot.data, "layout": plot.layout} for plot in figures], allow_nan=False)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=True,
    )
    page = environment.get_template("interactive.html.j2").render(
        title=one_line(f"{result.facts.spec.title} Test: {result.facts.dut.model or result.facts.dut.name}"),
        lines=list(_lines(result)),
        figures=[{"title": one_line(plot.title)} for plot in figures],
        library=Markup(_library()),  # noqa: S704  # plotly's own
        data=Markup(data.replace("<", "\\u003c")),  # noqa: S704  # JSON, in which nothing can end the script
    )
    return page.encode("utf-8", "replace")


def require_plotly() -> None:
    """Raise ReportError if plotly is not installed."""
    try:
        installed = _library_path().is_file()
    except ImportError:
        installed = False
    if not installed:
        hint = f"Install plotly: {shlex.quote(sys.executable)} -m pip install 'plotly>=6'."
        raise ReportError(reason="interactive figures require plotly", hint=hint)


def _library() -> str:
    require_plotly()
    return _library_path().read_text(encoding="utf-8")


def _library_path() -> Traversable:
    """Return the path of plotly's library for browsers."""
    return files("plotly") / "package_data" / "plotly.min.js"


def _lines(result: TestResult) -> Iterator[dict[str, str]]:
    for statement in statements(result):
        yield {"kind": statement.kind, "text": one_line(statement.text)}
    facts, name = result.facts, report_id(result)
    details = (facts.spec.revision, facts.dut.model, facts.dut.serial, facts.dut.firmware, date(result, facts.started))
    notes = [", ".join(filter(None, (*details, f"report id {name}" if name else "")))]
    for text in (*notes, *(f"Warning: {what}: {detail}" for what, detail in warning_rows(result))):
        yield {"kind": "note", "text": one_line(text)}


def _plots(result: TestResult) -> Iterator[Plot]:
    if further := further_pages(result.facts.spec.test):
        yield from (Plot(title=title, data=data, layout=layout) for title, data, layout in further.plots(result))
        return
    for loop in result.loops:
        yield from _surfaces(result, loop)
    yield from _rounds(result)
    for line in result.time_lines:
        if not line.is_fill:
            yield from _over_time(line)


# -- over a matrix ----------------------------------------------------------------------------------------------------


def _surfaces(result: TestResult, loop: Loop) -> Iterator[Plot]:
    """Yield a surface for each metric over the two parameters in which a loop's points differ."""
    points = dict(window_points(result, loop))
    parameters = varying_parameters(points)
    if parameters is None:
        return
    x_parameter, y_parameter = parameters
    read_x, read_y, x_name, y_name = x_parameter.label, y_parameter.label, x_parameter.title, y_parameter.title
    xs, ys = list(dict.fromkeys(map(read_x, points))), list(dict.fromkeys(map(read_y, points)))
    for name, heading, divisor in _SURFACE_METRICS:
        values = {(read_x(stimulus), read_y(stimulus)): figures[name] for stimulus, figures in points.items()}
        heights = [[None if (z := values.get((x, y))) is None else z / divisor for x in xs] for y in ys]
        trace = {
            "type": "surface",
            "colorbar": COLOUR_BAR,
            "x": xs,
            "y": ys,
            "z": heights,
            "colorscale": "Cividis",
            "hovertemplate": f"{x_name} %{{x}}<br>{y_name} %{{y}}<br>{heading} %{{z:,.4~g}}<extra></extra>",
        }
        scene = {
            "xaxis": {"title": {"text": x_name}, "type": "category"},
            "yaxis": {"title": {"text": y_name}, "type": "category"},
            "zaxis": {"title": {"text": heading}, "rangemode": "tozero"},
            "camera": CAMERA,
        }
        title = " - ".join(filter(None, (heading, loop.part, "mean over the window")))
        yield Plot(title=title, data=[trace], layout={"scene": scene, "margin": SURFACE_MARGIN})


# -- over rounds and time ---------------------------------------------------------------------------------------------


def _rounds(result: TestResult) -> Iterator[Plot]:
    for series in evaluated_series(result):
        traces, bands = [], list[dict[str, Any]]()
        numbers = [judged.number for judged in series.rounds]
        for index, tracked in enumerate(series.rule.tracked):
            values = [judged.value(tracked) for judged in series.rounds]
            colour = COLOURS[index % len(COLOURS)]
            traces.append(_line(numbers, values, series.label(tracked), colour, "lines+markers"))
            bands += _band(series, tracked, colour)
        yield Plot(
            title=f"Tracked variables by round - {series.part or series.name}",
            data=[*bands, *traces],
            layout=_layout(traces, "Round", _headings(series), log=True, every_round=len(series.rounds) <= _MAX_TICKS),
        )


def _band(series: TrackedSeries, tracked: Tracked, colour: str) -> Iterator[dict[str, Any]]:
    """Yield a band around the average of the last window, as high as the allowed data excursion."""
    determination = dict(series.window.determinations).get(tracked) if series.window else None
    if series.window is None or determination is None or not determination.evaluable:
        return
    first, last, half = determination.rounds[0], determination.rounds[-1], series.rule.data_excursion_percent / 2
    window = "" if series.window.steady else "last window, NOT ACHIEVED: "
    low, high = (determination.average * (1 + side * half / 100) for side in (-1, 1))
    yield {
        "type": "scatter",
        "mode": "lines",
        "x": [first, last, last, first, first],
        "y": [low, low, high, high, low],
        "fill": "toself",
        "fillcolor": f"{colour}2e",
        "line": {"color": colour, "width": 0.5},
        "name": trace_name(f"{series.label(tracked)}: {window}average \N{PLUS-MINUS SIGN} {half:g} %"),
        "hoverinfo": "skip",
    }


def _headings(series: TrackedSeries) -> str:
    """Return the headings of the metrics of the tracked variables."""
    return ", ".join(dict.fromkeys(METRICS[tracked.metric].heading for tracked in series.rule.tracked))


def _over_time(line: TimeLine) -> Iterator[Plot]:
    minutes = [seconds / 60 for seconds in line.ended_seconds]
    name = " - ".join(filter(None, (line.stimulus.label, line.phase, line.part)))
    times = (timelines.ART, timelines.NINES, timelines.MRT)
    for heading, quantities in (("IOPS", (timelines.IOPS,)), ("Response time (ms)", times)):
        traces = [
            _line(minutes, timelines.rates(line, quantity).tolist(), quantity.heading, quantity.colour, "lines")
            for quantity in quantities
        ]
        traces = [trace for trace in traces if any(value is not None for value in trace["y"])]
        if len(minutes) > 1 and traces:
            layout = _layout(traces, "Time (minutes)", heading, log=quantities == times)
            yield Plot(title=f"{heading} vs Time - {name}", data=traces, layout=layout)


def trace_name(name: str) -> str:
    """Return the name of a trace as plotly's markup, in lines that fit into a narrow legend."""
    return "<br>".join(map(html.escape, textwrap.wrap(one_line(name), _LEGEND_LETTERS)))


def _line(x: Sequence[float], y: Sequence[float], name: str, colour: str, mode: str) -> dict[str, Any]:
    values = [value if abs(value) < float("inf") else None for value in y]  # false for nan
    return {
        "type": "scatter",
        "mode": mode,
        "x": list(x),
        "y": values,
        "name": trace_name(name),
        "line": {"color": colour, "width": 1.5},
    }


def _layout(
    traces: Sequence[dict[str, Any]], xlabel: str, ylabel: str, *, log: bool, every_round: bool = False
) -> dict[str, Any]:
    """Return axes for traces; log axes over several decades have labels at 1, 2 and 5.

    ``every_round`` labels every round on the x axis.
    """
    values = [value for trace in traces for value in trace["y"] if value]
    decades = log and values and max(values) > 10 * min(values)
    scale = {"type": "log", **({"dtick": "D2"} if decades else {})} if log else {"rangemode": "tozero"}
    tick_format = "~g" if "ms" in ylabel else "~s"
    return {
        "xaxis": {"title": {"text": xlabel}, **({"dtick": 1} if every_round else {})},
        "yaxis": {**scale, "tickformat": tick_format, "title": {"text": f"{ylabel}, log" if log else ylabel}},
        "showlegend": True,
        "legend": {"orientation": "h", "y": -0.2, "yanchor": "top"},
        "margin": _MARGIN,
        "hovermode": "x unified",
    }
