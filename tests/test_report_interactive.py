"""The interactive page: its figures, and that it contains only the suite's data and plotly."""

from __future__ import annotations

import dataclasses
import html
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from snia_pts.cli.main import main
from snia_pts.errors import ReportError
from snia_pts.model.run_options import RunOptions
from snia_pts.report import DEFAULT_FORMATS
from snia_pts.report.formats import interactive
from snia_pts.results.attributes import window_points
from snia_pts.results.result import TestResult
from snia_pts.runner.caller import Caller
from snia_pts.runner.events import Event, Notice
from snia_pts.runner.resume import available_formats
from snia_pts.spec import SPEC_TYPES
from tests import profiles, samples

HOSTILE = "</script><script>alert(1)</script>\u2028<b>&amp;"


@pytest.fixture(autouse=True)
def _short_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the library of five megabytes, so that not every test reads it."""
    monkeypatch.setattr(interactive, "_library", lambda: "/* plotly */")


def figures(result: TestResult) -> list[dict[str, Any]]:
    """Return the figures as a browser reads them."""
    page = interactive.make(result).decode("utf-8")
    (data,) = re.findall(r'<script type="application/json" id="figures">(.*?)</script>', page, re.DOTALL)
    document: list[dict[str, Any]] = json.loads(data)
    assert page.count('<div class="figure"') == len(document)
    return document


@pytest.mark.long_but_first
@pytest.mark.parametrize("test", SPEC_TYPES)
def test_every_test_has_figures_with_values(test: str) -> None:
    """Each figure has values, and the same result gives the same bytes."""
    result = samples.result_of(test)
    plots = figures(result)
    assert plots
    for plot in plots:
        for trace in plot["data"]:
            rows = trace["z"] if trace["type"] == "surface" else [trace["y"]]
            assert any(value is not None for row in rows for value in row)
    assert interactive.make(result) == interactive.make(samples.result_of(test))


@pytest.mark.parametrize("test", SPEC_TYPES)
def test_every_axis_has_a_title(test: str) -> None:
    """Both axes of a plot, and all three of a surface."""
    for plot in figures(samples.result_of(test)):
        axes = plot["layout"].get("scene", plot["layout"])
        titles = [axes[name]["title"]["text"] for name in ("xaxis", "yaxis", "zaxis") if name in axes]
        assert len(titles) == (3 if "scene" in plot["layout"] else 2)
        assert all(titles)


def test_the_allowed_band_spans_the_window() -> None:
    """Each tracked variable has its average less and plus 10 %, over the rounds of the window, in its colour."""
    result = samples.iops_result()
    (loop,) = result.loops
    assert loop.window is not None
    rounds = {"text": "Round"}
    (plot,) = (plot for plot in figures(result) if plot["layout"].get("xaxis", {}).get("title") == rounds)
    bands = [trace for trace in plot["data"] if trace.get("fill")]
    lines = [trace for trace in plot["data"] if not trace.get("fill")]
    for band, line, (_, state) in zip(bands, lines, loop.window.determinations, strict=True):
        assert (min(band["x"]), max(band["x"])) == (state.rounds[0], state.rounds[-1])
        assert (min(band["y"]), max(band["y"])) == pytest.approx((0.9 * state.average, 1.1 * state.average))
        assert band["line"]["color"] == line["line"]["color"]
        assert band["name"].endswith("average \N{PLUS-MINUS SIGN} 10 %")


def test_surfaces_of_a_profile_have_a_common_and_their_own_scale() -> None:
    """The first scale is that of all operations; a button changes height and colours to that of the one surface."""
    result = profiles.result(profiles.shipped("file-matrix", range="4M"))
    plots = figures(result)
    tops = [max(value for row in plot["data"][0]["z"] for value in row) for plot in plots]
    for plot, top in zip(plots, tops, strict=True):
        (menu,) = plot["layout"]["updatemenus"]
        assert [(button["label"], button["args"]) for button in menu["buttons"]] == [
            ("Common scale", [{"cmax": max(tops)}, {"scene.zaxis.range": [0, max(tops)]}]),
            ("Own scale", [{"cmax": top}, {"scene.zaxis.range": [0, top]}]),
        ]
        assert plot["data"][0]["cmax"] == plot["layout"]["scene"]["zaxis"]["range"][1] == max(tops)
    assert len(set(tops)) > 1


def test_long_names_are_wrapped_in_legends() -> None:
    """A line of a legend is as short as the screen of a telephone is narrow, and markup of a name is text."""
    lines = interactive.trace_name(f"{HOSTILE} {'word ' * 20}").split("<br>")
    assert len(lines) > 2
    assert max(len(html.unescape(line)) for line in lines) <= 40
    assert not any("<" in line for line in lines)


def test_surfaces_are_the_window() -> None:
    """They have IOPS, MB/s and ART in ms of every point, at its block size and R/W mix."""
    result = samples.iops_result()
    surfaces = [figure["data"][0] for figure in figures(result) if figure["data"][0]["type"] == "surface"]
    points = dict(window_points(result, result.loops[0]))
    for trace, (name, _, divisor) in zip(surfaces, interactive._SURFACE_METRICS, strict=True):
        shown = {
            (x, y): value
            for y, row in zip(trace["y"], trace["z"], strict=True)
            for x, value in zip(trace["x"], row, strict=True)
        }
        assert len(shown) == len(points) == 56
        for stimulus, values in points.items():
            value = values[name]
            place = (
                f"{stimulus.largest_block_bytes / 1024:g}",
                f"{stimulus.read_percent}/{100 - stimulus.read_percent}",
            )
            assert value is not None
            assert shown[place] == value / divisor


def test_a_demand_matrix_is_a_surface_too() -> None:
    """Its axes are thread count and queue depth."""
    surfaces = [figure for figure in figures(samples.result_of("dirth")) if figure["data"][0]["type"] == "surface"]
    assert surfaces
    assert {surface["layout"]["scene"]["xaxis"]["title"]["text"] for surface in surfaces} == {"Thread count"}


def test_time_lines_have_all_their_samples() -> None:
    """No sample is omitted or combined, because the figure can be zoomed."""
    result = samples.result_of("wsat")
    line = result.time_line("stimulus")
    assert line is not None
    (shown,) = (
        trace
        for figure in figures(result)
        for trace in figure["data"]
        if trace["name"] == "IOPS" and len(trace["x"]) > 30
    )
    assert shown["y"] == pytest.approx(line.iops)
    assert shown["x"] == pytest.approx([seconds / 60 for seconds in line.ended_seconds])


def test_texts_of_a_device_are_texts() -> None:
    """No text ends a script or becomes markup, and the page makes no network request."""
    result = samples.iops_result(device=samples.dut(model=HOSTILE, serial=HOSTILE), operator=HOSTILE)
    loop = dataclasses.replace(result.loops[0], part=HOSTILE)
    page = interactive.make(dataclasses.replace(result, loops=(loop,))).decode("utf-8")
    assert page.count("<script") == page.count("</script>") == 3
    assert "<b>" not in page
    assert "default-src 'none'" in page
    assert not re.search(r"https?://", page)
    assert 'showSendToCloud: false, plotlyServerURL: ""' in page
    assert figures(dataclasses.replace(result, loops=(loop,)))


def test_a_run_that_stopped_at_once_has_a_page() -> None:
    """It has the verdict, and no figure."""
    page = interactive.make(samples.iops_result(stop_after=1, ending="interrupted")).decode("utf-8")
    assert "INCOMPLETE" in page


def test_without_plotly_there_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message explains how to install the extra."""
    monkeypatch.undo()
    monkeypatch.setattr(interactive, "files", lambda name: (_ for _ in ()).throw(ModuleNotFoundError(name)))
    with pytest.raises(ReportError, match="plotly") as raised:
        interactive.make(samples.iops_result(stop_after=1, ending="interrupted"))
    assert f"{sys.executable} -m pip install 'plotly>=6'" in raised.value.hint


def test_a_run_that_could_not_be_reported_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Missing packages are reported before the run starts, not after hours."""
    monkeypatch.setattr(interactive, "files", lambda name: (_ for _ in ()).throw(ModuleNotFoundError(name)))
    argv = ["iops", "sim:optane", "--to", "pdf,interactive", "--run-dir", str(tmp_path / "run")]
    assert main(argv) == ReportError.exit_code
    output = capsys.readouterr().err
    assert "plotly" in output
    assert "No report was written." in output
    assert "omit interactive from --to" in output
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_without_plotly_names_the_formats_it_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Formats of the stored run that are unavailable here do not prevent the resume, and are not replaced silently."""
    monkeypatch.setattr(interactive, "files", lambda name: (_ for _ in ()).throw(ModuleNotFoundError(name)))
    events: list[Event] = []
    options = RunOptions(test="iops", target="/dev/sdx", formats=("pdf", "interactive"))
    assert available_formats(options, Caller(on_event=events.append)) == DEFAULT_FORMATS
    (notice,) = events
    assert isinstance(notice, Notice)
    assert "plotly" in notice.text
    assert "rst, pdf, html, xlsx instead" in notice.text


def test_the_page_includes_the_complete_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the same file, and none of its tags breaks the page."""
    pytest.importorskip("plotly")
    monkeypatch.undo()
    page = interactive.make(samples.iops_result(stop_after=1, ending="interrupted")).decode("utf-8")
    assert len(page) > 10**6
    assert "newPlot" in page
    assert page.count("</script>") == 3
