"""The reports on continuous stimuli: write saturation, host idle recovery, cross stimulus recovery."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate
from typing import Any, cast

import numpy
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from matplotlib.collections import PolyCollection

from snia_pts.model.steps import Phase
from snia_pts.model.time_series import TimeLine
from snia_pts.report.figures import render as drawing
from snia_pts.report.figures import timelines, timeplots
from snia_pts.report.figures.timelines import ART, IOPS, MAX_COLUMNS, MRT, NINES, THROUGHPUT
from snia_pts.report.formats import rst
from snia_pts.report.pages import Figure, Page
from snia_pts.report.registry import TESTS, build
from snia_pts.report.tables import Table
from snia_pts.results.result import TestResult
from snia_pts.spec import TestClass
from tests import samples
from tests.courses import whole_runs
from tests.strategies import sample, stimulus
from tests.test_report_figures import check

CONTINUOUS = ("wsat", "hir", "xsr")
HOUR = 3600
SHORT: dict[str, tuple[tuple[str, Any], ...]] = {
    "wsat": (
        ("settling.sample_seconds", 0.5),
        ("settling.stride_samples", 2),
        ("saturation.seconds", 4.5),
        ("histogram.seconds", 1),
    ),
    "hir": (
        ("settling.sample_seconds", 0.5),
        ("settling.stride_samples", 2),
        ("conditioning.maximum", 5),
        ("wait_states.access_a_seconds", 0.2),
        ("wait_states.cycles", 2),
        ("wait_states.access_c_seconds", 0.5),
        ("wait_states.access_c_sample_seconds", 0.5),
    ),
    "xsr": (
        ("groups.sample_seconds", 3),
        (
            "groups.sequence",
            [
                {
                    "name": f"AG {number}",
                    "access": access,
                    "read_percent": 0,
                    "block_size_kib": size,
                    "seconds": 3,
                    "thread_count": 1,
                    "queue_depth": 32,
                }
                for number, (access, size) in enumerate((("SEQ", 1024), ("RND", 8), ("SEQ", 1024)), start=1)
            ],
        ),
    ),
}


def line_of(ios: Sequence[int], seconds: float = 1.0, **changes: Any) -> TimeLine:
    """Return a time line of one sample a count of writes."""
    line = TimeLine(phase="stimulus", part="", stimulus=stimulus())
    counted = (replace(sample(number, count), **changes) for number, count in enumerate(ios, start=1))
    line.add([replace(item, seconds=seconds, ended_seconds=item.number * seconds) for item in counted], None)
    return line


def repeated(line: TimeLine, times: int) -> TimeLine:
    """Let a time line's samples come again so often, one after the other."""
    for name in TimeLine.__slots__:
        column = getattr(line, name)
        if isinstance(column, array):
            column *= times
    line.ended_seconds[:] = array("d", accumulate(line.seconds))
    return line


def page(pages: Sequence[Page], title: str) -> Page:
    """Return the page whose title ends with ``title``."""
    return next(item for item in pages if item.title.endswith(title))


def tables(page: Page) -> list[Table]:
    """Return a page's tables."""
    return [block for block in page.blocks if isinstance(block, Table)]


def cells(table: Table, heading: str) -> list[str]:
    """Return the cells below a heading."""
    place = next(place for place, column in enumerate(table.columns) if column.heading == heading)
    return [row[place] for row in table.rows]


def figures(result: TestResult) -> list[Figure]:
    """Return the figures of the pages that these tests bring, the window and the histogram left out."""
    return [figure for figure in build(result).figures if not figure.name.startswith(("window", "histogram"))]


# -- many samples, few columns ----------------------------------------------------------------------------------------


@whole_runs
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30), st.integers(1, 150))
def test_a_column_is_all_its_samples_together(ios: list[int], times: int) -> None:
    """However many samples, no more columns than a page has dots; each is their I/Os by their time, within its band."""
    line = repeated(line_of(ios), times)
    drawn = timelines.series(line, IOPS).curve

    assert drawn.x.size <= MAX_COLUMNS
    assert drawn.banded == (len(line) > MAX_COLUMNS)
    step = math.ceil(len(line) / MAX_COLUMNS)
    groups = [line.iops[at : at + step] for at in range(0, len(line), step)]
    assert drawn.values.tolist() == pytest.approx([sum(group) / len(group) for group in groups])
    assert drawn.low.tolist() == [min(group) for group in groups]
    assert drawn.high.tolist() == [max(group) for group in groups]
    assert drawn.x[0] >= line.ended_seconds[0]
    assert drawn.x[-1] <= line.ended_seconds[-1]


def test_response_times_are_weighted_by_their_ios() -> None:
    """The ART of samples taken together is that of all their I/Os, not the mean of their ARTs."""
    line = line_of([1, 999])
    line.average_response_us[:] = array("d", [1000.0, 2000.0])
    repeated(line, MAX_COLUMNS)

    assert timelines.series(line, ART).curve.values.tolist() == pytest.approx([1.999] * MAX_COLUMNS)
    assert timelines.mean(line, ART) == pytest.approx(1.999)


@pytest.mark.parametrize(("quantity", "name"), [(NINES, "five_nines_us"), (MRT, "maximum_response_us")])
def test_of_percentiles_the_highest_is_drawn(quantity: timelines.Quantity, name: str) -> None:
    """A mean of percentiles is not a percentile: of combined samples the highest is used, unknown ones do not."""
    line = line_of([1, 1, 1])
    getattr(line, name)[:] = array("d", [1000.0, math.nan, 3000.0])
    drawn = timelines.series(repeated(line, MAX_COLUMNS), quantity).curve

    assert drawn.values.tolist() == [3.0] * MAX_COLUMNS
    assert drawn.low.tolist() == [1.0] * MAX_COLUMNS


def test_the_caption_says_when_samples_are_taken_together() -> None:
    """Every sample is shown, or the caption states that samples are combined."""
    few, many = (timelines.series(repeated(line_of([5]), count), IOPS) for count in (MAX_COLUMNS, 86_400))

    assert timelines.reduction([few]) == ""
    note = "Up to 58 samples are combined into one point: the line is their mean, the band"
    assert note in timelines.reduction([few, many])
    assert "percentiles" in timelines.reduction([timelines.series(repeated(line_of([5]), 86_400), MRT)])


def test_the_caption_says_so_of_a_line_with_breaks_too() -> None:
    """A long piece is drawn in columns, regardless of single samples beside it, each with two ends."""
    line = repeated(line_of([5]), 5 * MAX_COLUMNS)
    for row in range(2 * MAX_COLUMNS, len(line)):
        line.ended_seconds[row] += 9.0 * (row - 2 * MAX_COLUMNS + 1)

    assert "Up to 2 samples are combined into one point" in timelines.reduction([timelines.broken(line, IOPS)])


def test_the_caption_of_a_log_axis_names_missing_samples() -> None:
    """Samples without I/O cannot be shown on a log axis, as the caption states."""
    shown = [timelines.series(line_of([5, 0, 5]), IOPS)]

    assert "cannot be shown on a log axis" in timelines.reduction(shown, log=True)
    assert timelines.reduction(shown) == ""


def test_a_week_of_seconds_is_a_small_figure() -> None:
    """What is drawn of 604 800 samples is a line and a band of no more points than the page has dots."""
    shown = [timelines.series(repeated(line_of([5, 7]), 302_400), IOPS)]
    with drawing.settings():
        axes = timeplots.drawing(shown, ylabel="IOPS").axes[0]

    assert numpy.size(axes.lines[0].get_xdata()) <= MAX_COLUMNS
    (band,) = (artist for artist in axes.collections if isinstance(artist, PolyCollection))
    assert numpy.shape(band.get_paths()[0].vertices)[0] <= 2 * MAX_COLUMNS + 3


# -- axes -------------------------------------------------------------------------------------------------------------


@given(st.floats(1, 7 * 24 * HOUR), st.floats(0, 1))
@example(80001.0, 1.0)
@example(60001.0, 1.0)
def test_time_has_few_round_ticks_whatever_the_length(seconds: float, share: float) -> None:
    """From a second to a week, in minutes or hours: 3 to 15 ticks, equally far apart, none outside."""
    begin = share * seconds * 0.9
    unit, factor, ticks = timeplots.time_axis(begin, seconds)

    assert (unit, factor) in (("minutes", 60), ("hours", 3600))
    assert len(ticks) <= 15
    assert len(ticks) >= 3 or seconds - begin < 2
    room = 1e-5 * (seconds - begin) / factor
    assert all(begin / factor - room <= tick <= seconds / factor + room for tick in ticks)
    if len(ticks) > 1:
        steps = numpy.diff(ticks)
        assert max(steps) == pytest.approx(min(steps))
        assert f"{steps[0]:.6g}".strip("0.")[:-1] in ("", "1", "2", "3", "4", "6", "9", "12")


@pytest.mark.parametrize("seconds", [0.5, 30, 90, 600, HOUR, 2 * HOUR, 6 * HOUR, 16 * HOUR, 24 * HOUR, 168 * HOUR])
@pytest.mark.parametrize("log", [False, True])
def test_no_label_meets_another_whatever_the_length(seconds: float, log: bool) -> None:
    """Half a second or a week: the figure's words are apart and within it."""
    shown = [timelines.series(line_of(range(100, 200), seconds / 100), item) for item in (IOPS, THROUGHPUT)]
    with drawing.settings():
        words = check(timeplots.drawing(shown, ylabel="IOPS", log=log))

    assert any(word.startswith("Time (") for word in words)


@pytest.mark.parametrize("count", [1, 2])
def test_a_single_sample_is_visible(count: int) -> None:
    """A line needs two points; where there are few samples each has a dot."""
    with drawing.settings():
        axes = timeplots.drawing([timelines.series(line_of([5] * count), IOPS)], ylabel="IOPS").axes[0]

    assert axes.lines[0].get_marker() == "o"
    assert axes.get_xlim()[1] >= count / 60


NAMES = (
    "../../../../x",
    "..\\x",
    "AG 1",
    "ag-1",
    "ag 1",
    "$x^2$",
    r"$\frac{$",
    "*b*",
    "{0}",
    "%s",
    "<b>",
)


def test_names_of_access_groups_are_text_alone() -> None:
    """Whatever the groups are called, each figure has a file of its own in figures/, and no name is taken for markup
    or for a formula."""
    group = {
        "access": "SEQ",
        "read_percent": 0,
        "block_size_kib": 1024,
        "seconds": 120,
        "thread_count": 1,
        "queue_depth": 32,
    }
    sequence = [{**group, "name": name} for name in NAMES]
    report = build(samples.result_of("xsr", overrides=[("groups.sequence", sequence)]))
    drawn = drawing.draw(report, ("svg",))["svg"]

    assert len(drawn) == len(list(report.figures)) == len(sequence) + 1
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in drawn)
    assert rst.parse(rst.render(report))


@pytest.mark.parametrize(("seconds", "expected"), [(5e-324, math.nan), (0.0999, math.nan), (0.1, 1000.0)])
def test_a_sample_shorter_than_100_ms_has_no_rate(seconds: float, expected: float) -> None:
    """The engine's clock of 1 ms is too coarse for it; its I/Os count in means over several samples."""
    short = line_of([100], seconds=seconds)
    assert list(timelines.rates(short, IOPS)) == pytest.approx([expected], nan_ok=True)
    assert short.iops == pytest.approx([expected], nan_ok=True)


def test_a_linear_axis_begins_at_zero() -> None:
    """A drive that gets 5 % slower must not look as if it stopped."""
    with drawing.settings():
        axes = timeplots.drawing([timelines.series(line_of([1000, 950]), IOPS)], ylabel="IOPS").axes[0]

    assert axes.get_ylim()[0] == 0


# -- pages ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("test", CONTINUOUS)
@pytest.mark.parametrize(
    ("pts", "test_class", "steady"),
    [("1.1", "enterprise", True), ("2.0.2", "client", False), ("2.0.2", "client", True)],
)
def test_every_word_of_every_figure_can_be_read(test: str, pts: str, test_class: TestClass, steady: bool) -> None:
    """No words of a figure meet, none leave it: both versions and classes, steady or not."""
    result = samples.result_of(test, pts=pts, test_class=test_class, steady=steady)
    with drawing.settings():
        for figure in figures(result):
            check(figure.draw())


@pytest.mark.parametrize("test", CONTINUOUS)
def test_a_run_of_seconds_has_the_same_pages(test: str) -> None:
    """Shortened from hours to seconds, a run has the pages that the full one has, and they can be read."""
    short, full = samples.result_of(test, overrides=SHORT[test]), samples.result_of(test)

    drawn, all_drawn = ([figure.name for figure in build(item).figures] for item in (short, full))
    assert len(drawn) == len(all_drawn) - all_drawn.count("consistency")  # which wants more samples
    with drawing.settings():
        for figure in figures(short):
            check(figure.draw())


@cache
def pages_of(test: str) -> int:
    """Return how many pages the report of a whole run has."""
    return len(build(samples.result_of(test)).pages)


@pytest.mark.parametrize("test", CONTINUOUS)
@pytest.mark.parametrize("stop_after", [0, 1, 2, 122, 363, 482, 845])
def test_a_stopped_run_shows_its_data(test: str, stop_after: int) -> None:
    """A run stopped at any step has a readable report, which lists missing pages."""
    result = samples.result_of(test, ending="interrupted", stop_after=stop_after)
    report, whole = build(result), pages_of(test)

    assert report.pages[0].title == "Summary"
    assert report.pages[-1].title == "Provenance"
    outcome = any("omitted: no data" in getattr(block, "text", "") for block in report.pages[0].blocks)
    assert outcome == (len(report.pages) < whole)
    with drawing.settings():
        for figure in figures(result):
            check(figure.draw())


@pytest.mark.parametrize("test", CONTINUOUS)
def test_a_dead_drive_has_a_report(test: str) -> None:
    """A drive that does next to nothing is shown as that."""
    result = samples.result_of(test, scale=0.0)
    with drawing.settings():
        for figure in figures(result):
            check(figure.draw())


@pytest.mark.parametrize("test", CONTINUOUS)
@pytest.mark.parametrize("pts", ["1.1", "2.0.2"])
def test_header_blocks_have_ten_rows(test: str, pts: str) -> None:
    """Setup and Test Parameters fill the header beside the platform's ten rows."""
    result = samples.result_of(test, pts=pts)

    assert len(TESTS[test].setup(result)) == len(TESTS[test].parameters(result)) == 10


@pytest.mark.parametrize(
    ("test", "phase", "name"), [("wsat", "stimulus", "iops-time"), ("hir", "PC", "preconditioning")]
)
def test_the_window_s_dots_are_on_the_curve(test: str, phase: Phase, name: str) -> None:
    """Dots and curve have one clock: times between continuous stimuli move both."""
    result = samples.result_of(test)
    line = result.time_line(phase)
    assert line is not None
    later = replace(line, ended_seconds=array("d", [1.01 * ended for ended in line.ended_seconds]))
    others = tuple(later if item is line else item for item in result.time_lines)
    figure = next(figure for figure in figures(replace(result, time_lines=others)) if figure.name == name)
    drawn = {line.get_label(): cast("Any", line.get_xydata()).tolist() for line in figure.draw().axes[0].lines}
    dots = next(points for label, points in drawn.items() if "window" in str(label))

    assert len(dots) == 5
    assert all(dot in drawn["IOPS"] for dot in dots)


def test_write_saturation_has_the_plots_of_its_version() -> None:
    """1.1 asks for IOPS against TGBW on a log scale, 2.0.2 for drive fills and the response time histogram."""
    first, second = (
        {item.title for item in build(samples.result_of("wsat", pts=pts)).pages} for pts in ("1.1", "2.0.2")
    )

    stimulus_name = "WSAT - RND 4 KiB 0/100 -"
    assert {
        f"{stimulus_name} {name}" for name in ("IOPS vs Time", "IOPS vs Time (log)", "IOPS vs TGBW")
    } <= first & second
    assert f"{stimulus_name} IOPS vs TGBW (log)" in first - second
    assert f"{stimulus_name} IOPS vs Normalised Capacity" in second - first
    assert "WSAT - Response Time Histogram - RND 4 KiB 0/100 T4Q32" in second - first


@pytest.mark.parametrize("name", ["oltp", "vod", "meta-data", "composite"])
def test_write_saturation_names_the_stimulus_that_ran(name: str) -> None:
    """Titles and summary say which of the standard's stimuli was chosen."""
    result = samples.result_of("wsat", overrides=[("stimulus.name", name)])
    line = result.time_line("stimulus")
    pages = build(result).pages

    assert line is not None
    assert any(item.title == f"WSAT - {line.stimulus.label} - IOPS vs Time" for item in pages)
    assert any(f"{line.stimulus.label} ({name})" in row[1] for table in tables(pages[0]) for row in table.rows)


@pytest.mark.parametrize(("pts", "steady"), [("2.0.2", True), ("1.1", False)])
def test_the_table_of_data_has_the_samples_used_as_rounds(pts: str, steady: bool) -> None:
    """Minutes 1, 31, 61, ... and the last are in it, in 50 rows at most, with the samples' own values."""
    result = samples.result_of("wsat", pts=pts, steady=steady)
    line, sampling = result.time_line("stimulus"), result.sampling
    assert line is not None
    assert sampling is not None
    (table,) = tables(page(build(result).pages, "Tabular Data"))

    minutes = [int(text.replace("\N{NARROW NO-BREAK SPACE}", "")) for text in cells(table, "Minute")]
    assert {round(measured_round.minute) for measured_round in sampling.rounds} <= set(minutes)
    assert minutes[-1] == len(line)
    assert len(minutes) <= 51
    iops = [int(text.replace("\N{NARROW NO-BREAK SPACE}", "")) for text in cells(table, "IOPS")]
    assert iops == [round(line.iops[minute - 1]) for minute in minutes]


def test_write_saturation_reports_its_end_and_engine_starts() -> None:
    """The summary has the stop rule that applied first, drive fills, TGBW, and the starts of the engine."""
    full, half = samples.result_of("wsat"), samples.result_of("wsat", overrides=[("saturation.capacities", 1.5)])
    selected = [
        dict(row for table in tables(build(result).pages[0]) for row in table.rows if len(row) == 2)
        for result in (full, half)
    ]

    assert [item["Ended by"] for item in selected] == ["6 h 00 min elapsed", "1.5 x user capacity written"]
    assert selected[1]["Written by the stimulus"].endswith("1.50 drive fills")
    line = full.time_line("stimulus")
    assert line is not None
    assert selected[0]["fio starts"].startswith(f"{line.engine_starts}; longest idle gap")


def test_write_saturation_without_steady_state_has_no_mean_of_its_window() -> None:
    """Its key figures are those of its first and last sample, of its end, and of the histogram after it."""
    lenient = [(f"settling.{name}_excursion_percent", 100) for name in ("data", "slope")]
    for overrides, end, window in (
        ([("saturation.seconds", 121 * 60)], 31, []),
        (lenient, 53, ["Measurement window, mean"]),
    ):
        result = samples.result_of("wsat", overrides=overrides)
        names = ["First sample (FOB)", *window, "Last sample", f"Last {end} min 00 s, all I/Os"]
        line = result.time_line("stimulus")
        (table,) = (table for table in tables(build(result).pages[0]) if table.title == "Key figures")

        assert line is not None
        assert cells(table, "Period") == [*names, "Histogram after it, RND 4 KiB 0/100"]
        iops = [float(text.replace("\N{NARROW NO-BREAK SPACE}", "")) for text in cells(table, "IOPS")]
        assert iops[-2] == pytest.approx(sum(line.write_ios[-end:]) / (end * 60), rel=1e-3)
        assert iops[0] == pytest.approx(line.iops[0], rel=1e-3)


def test_an_unsteady_baseline_is_called_so() -> None:
    """The names of figures relative to a baseline that was not achieved state this on the first page."""
    for steady, word in ((True, ""), (False, "unsteady ")):
        first, *_ = build(samples.result_of("hir", steady=steady)).pages
        (table,) = (table for table in tables(first) if table.title == "Wait states")
        headings = [column.heading for column in table.columns]

        assert {f"% of {word}baseline", f"Return to {word}baseline"} <= set(headings)


def test_idle_times_are_reported_as_requested_and_as_measured() -> None:
    """Each wait state has its requested and its measured idle time, and IOPS next to the baseline."""
    result = samples.result_of("hir")
    (table,) = tables(page(build(result).pages, "All Wait States - Tabular Data"))

    assert cells(table, "Wait state") == [f"Wait State {number}" for number in (1, 2, 3, 5, 10)]
    assert cells(table, "Idle requested (s)") == ["5", "10", "15", "25", "50"]
    for heading in ("Idle measured, shortest (s)", "Idle measured, median (s)", "Idle measured, longest (s)"):
        assert 5 <= float(cells(table, heading)[0]) < 5.1
    assert cells(table, "Duty cycle (%)")[0] == "49.9"
    base = cells(table, "% of baseline")
    assert float(base[-1]) > 150 > float(base[0])


@pytest.mark.parametrize(
    ("stop_after", "message"),
    [(None, "recovered"), (845, "NOT RECOVERED within 2 min 00 s of AG 3"), (500, "was not measured")],
)
def test_recovery_is_reported_with_its_definition(stop_after: int | None, message: str) -> None:
    """The page states when it recovered, or that it did not or was not measured, and what this means."""
    ending = "interrupted" if stop_after else "finished"
    result = samples.result_of("xsr", stop_after=stop_after, ending=ending)  # type: ignore[arg-type]
    by_group = page(build(result).pages, "Summary by Access Group")
    text = " ".join(cell for table in tables(by_group) for row in table.rows for cell in row)

    assert message.lower() in text.lower()
    assert any(
        "90 % of the baseline until the end of the group" in getattr(block, "text", "") for block in by_group.blocks
    )
