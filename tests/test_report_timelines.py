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

from snia_pts.analysis.recovery import recovery
from snia_pts.model.steps import Phase
from snia_pts.model.time_series import TimeLine
from snia_pts.report.figures import render as drawing
from snia_pts.report.figures import timelines, timeplots
from snia_pts.report.figures.timelines import ART, IOPS, MAX_COLUMNS, MRT, NINES, THROUGHPUT
from snia_pts.report.formats import rst
from snia_pts.report.pages import Figure, Page, Prose
from snia_pts.report.registry import TESTS, build
from snia_pts.report.tables import Table, thousands
from snia_pts.report.tests import cross_stimulus_recovery, host_idle_recovery
from snia_pts.results.result import TestResult
from snia_pts.spec import HostIdleSpec, TestClass
from snia_pts.units import duration
from tests import samples
from tests.procedure_runs import whole_runs
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
    """Return a time line with one sample for each count of writes."""
    line = TimeLine(phase="stimulus", part="", stimulus=stimulus())
    numbered = (replace(sample(number, count), **changes) for number, count in enumerate(ios, start=1))
    line.add([replace(sample, seconds=seconds, ended_seconds=sample.number * seconds) for sample in numbered], None)
    return line


def repeated(line: TimeLine, times: int) -> TimeLine:
    """Repeat the samples of a time line and return it."""
    for name in TimeLine.__slots__:
        column = getattr(line, name)
        if isinstance(column, array):
            column *= times
    line.ended_seconds[:] = array("d", accumulate(line.seconds))
    return line


def page(pages: Sequence[Page], title: str) -> Page:
    """Return the page whose title ends with ``title``."""
    return next(page for page in pages if page.title.endswith(title))


def tables(page: Page) -> list[Table]:
    """Return the tables of a page."""
    return [block for block in page.blocks if isinstance(block, Table)]


def prose(page: Page) -> str:
    return "\n".join(block.text for block in page.blocks if isinstance(block, Prose))


def cells(table: Table, heading: str) -> list[str]:
    """Return the cells of the column with a heading."""
    index = next(index for index, column in enumerate(table.columns) if column.heading == heading)
    return [row[index] for row in table.rows]


def figures(result: TestResult) -> list[Figure]:
    """Return the figures of a report except the window and the histogram."""
    return [figure for figure in build(result).figures if not figure.name.startswith(("window", "histogram"))]


# -- many samples, few columns ----------------------------------------------------------------------------------------


@pytest.mark.long
@whole_runs
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30), st.integers(1, 150))
def test_a_column_combines_all_of_its_samples(ios: list[int], times: int) -> None:
    """A curve has at most MAX_COLUMNS points, at the end of their samples: their mean, with a band of their range."""
    line = repeated(line_of(ios), times)
    drawn = timelines.series(line, IOPS).curve

    assert drawn.x.size <= MAX_COLUMNS
    assert drawn.banded == (len(line) > MAX_COLUMNS)
    step = math.ceil(len(line) / MAX_COLUMNS)
    groups = [line.iops[at : at + step] for at in range(0, len(line), step)]
    assert drawn.values.tolist() == pytest.approx([sum(group) / len(group) for group in groups])
    assert drawn.low.tolist() == [min(group) for group in groups]
    assert drawn.high.tolist() == [max(group) for group in groups]
    assert drawn.x.tolist() == [line.ended_seconds[at : at + step][-1] for at in range(0, len(line), step)]


def test_response_times_are_weighted_by_their_ios() -> None:
    """The ART of combined samples is that of all their I/Os, not the mean of their ARTs."""
    line = line_of([1, 999])
    line.average_response_us[:] = array("d", [1000.0, 2000.0])
    repeated(line, MAX_COLUMNS)

    assert timelines.series(line, ART).curve.values.tolist() == pytest.approx([1.999] * MAX_COLUMNS)
    assert timelines.mean(line, ART) == pytest.approx(1.999)


@pytest.mark.parametrize(("quantity", "name"), [(NINES, "five_nines_us"), (MRT, "maximum_response_us")])
def test_combined_samples_have_the_highest_percentile(quantity: timelines.Quantity, name: str) -> None:
    """Combined samples have their highest 99.999 % and MRT, not the mean; nan values are ignored."""
    line = line_of([1, 1, 1])
    getattr(line, name)[:] = array("d", [1000.0, math.nan, 3000.0])
    drawn = timelines.series(repeated(line, MAX_COLUMNS), quantity).curve

    assert drawn.values.tolist() == [3.0] * MAX_COLUMNS
    assert drawn.low.tolist() == [1.0] * MAX_COLUMNS


def test_the_caption_states_that_samples_are_combined() -> None:
    """The caption says how many samples are combined into a point, and nothing if every sample is shown."""
    few, many = (timelines.series(repeated(line_of([5]), count), IOPS) for count in (MAX_COLUMNS, 86_400))

    assert timelines.reduction([few]) == ""
    note = "Up to 58 samples are combined into one point: the line is their mean, the band"
    assert note in timelines.reduction([few, many])
    assert "percentiles" in timelines.reduction([timelines.series(repeated(line_of([5]), 86_400), MRT)])


def test_the_caption_states_combined_samples_of_a_broken_line() -> None:
    """The samples of a long piece are combined even if the line also has pieces of a single sample."""
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
    """The figure of 604 800 samples has a line of at most MAX_COLUMNS points and a band of twice as many."""
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
def test_time_axes_of_any_length_have_few_round_ticks(seconds: float, share: float) -> None:
    """From a second to a week, the axis has 3 to 15 ticks, equidistant; the last is within half a step of the end."""
    begin = share * seconds * 0.9
    unit, factor, ticks = timeplots.time_axis(begin, seconds)

    assert (unit, factor) == (("seconds", 1) if seconds <= 300 else ("minutes", 60))
    assert len(ticks) <= 15
    assert len(ticks) >= 3 or seconds - begin < 2
    tolerance = 1e-5 * (seconds - begin) / factor
    assert all(begin / factor - tolerance <= tick for tick in ticks)
    if len(ticks) > 1:
        steps = numpy.diff(ticks)
        assert abs(seconds / factor - ticks[-1]) <= steps[0] / 2 + tolerance
        assert max(steps) == pytest.approx(min(steps))
        days = steps[0] * factor / 86400
        assert max(days, 1 / days) == pytest.approx(round(max(days, 1 / days)))


def test_all_times_of_a_report_have_one_unit() -> None:
    """All groups of a test of 22 hours, its transitions, and the plot of the first page are in minutes."""
    with drawing.settings():
        titles = {axes.get_xlabel() for item in build(samples.result_of("xsr")).figures for axes in item.draw().axes}

    assert {title for title in titles if "Time" in title} == {"Time (minutes)"}


@pytest.mark.long_but_first
@pytest.mark.parametrize("seconds", [0.5, 30, 90, 600, HOUR, 2 * HOUR, 6 * HOUR, 16 * HOUR, 24 * HOUR, 168 * HOUR])
@pytest.mark.parametrize("log", [False, True])
def test_no_labels_overlap_at_any_length(seconds: float, log: bool) -> None:
    """From half a second to a week, no texts of the figure overlap and all are inside."""
    shown = [timelines.series(line_of(range(100, 200), seconds / 100), quantity) for quantity in (IOPS, THROUGHPUT)]
    with drawing.settings():
        words = check(timeplots.drawing(shown, ylabel="IOPS", log=log))

    assert any(word.startswith("Time (") for word in words)


@pytest.mark.parametrize("count", [1, 2])
def test_a_single_sample_is_visible(count: int) -> None:
    """Few samples have a marker each, because a single sample makes no line."""
    with drawing.settings():
        axes = timeplots.drawing([timelines.series(line_of([5] * count), IOPS)], ylabel="IOPS").axes[0]

    assert axes.lines[0].get_marker() == "o"
    assert axes.get_xlim()[1] >= count


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


@pytest.mark.long
def test_names_of_access_groups_are_plain_text() -> None:
    """With any group names each figure has its own file name in figures/, and no name is read as markup or formula."""
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

    assert len(drawn) == len(list(report.figures)) == len(sequence) + 2
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in drawn)
    assert rst.parse(rst.render(report))


@pytest.mark.parametrize(("seconds", "expected"), [(5e-324, math.nan), (0.0999, math.nan), (0.1, 1000.0)])
def test_a_sample_shorter_than_100_ms_has_no_rate(seconds: float, expected: float) -> None:
    """Its rate is nan, because fio's clock of 1 ms is too coarse for it; a sample of 100 ms has one."""
    short = line_of([100], seconds=seconds)
    assert list(timelines.rates(short, IOPS)) == pytest.approx([expected], nan_ok=True)
    assert short.iops == pytest.approx([expected], nan_ok=True)


def test_a_linear_axis_begins_at_zero() -> None:
    """The axis begins at zero, so that a drive that slows by 5 % does not look as if it stopped."""
    with drawing.settings():
        axes = timeplots.drawing([timelines.series(line_of([1000, 950]), IOPS)], ylabel="IOPS").axes[0]

    assert axes.get_ylim()[0] == 0


# -- pages ------------------------------------------------------------------------------------------------------------


@pytest.mark.long_but_first
@pytest.mark.parametrize("test", CONTINUOUS)
@pytest.mark.parametrize(
    ("pts", "test_class", "steady"),
    [("1.1", "enterprise", True), ("2.0.2", "client", False), ("2.0.2", "client", True)],
)
def test_no_texts_of_any_figure_overlap(test: str, pts: str, test_class: TestClass, steady: bool) -> None:
    """No texts of a figure overlap and all are inside, for both versions and classes, steady or not."""
    result = samples.result_of(test, pts=pts, test_class=test_class, steady=steady)
    with drawing.settings():
        for figure in figures(result):
            check(figure.draw())


@pytest.mark.long_but_first
@pytest.mark.parametrize("test", CONTINUOUS)
def test_a_run_of_seconds_has_the_same_pages(test: str) -> None:
    """A run shortened from hours to seconds has the figures of a full one except the consistency plots."""
    short, full = samples.result_of(test, overrides=SHORT[test]), samples.result_of(test)

    drawn, all_drawn = ([figure.name for figure in build(result).figures] for result in (short, full))
    assert len(drawn) == len(all_drawn) - all_drawn.count("consistency")  # which needs more samples
    with drawing.settings():
        for figure in figures(short):
            check(figure.draw())


@cache
def pages_of(test: str) -> int:
    """Return the number of pages in the report of a complete run."""
    return len(build(samples.result_of(test)).pages)


@pytest.mark.long_but_first
@pytest.mark.parametrize("test", CONTINUOUS)
@pytest.mark.parametrize("stop_after", [0, 1, 2, 122, 363, 482, 845])
def test_a_stopped_run_shows_its_data(test: str, stop_after: int) -> None:
    """A run stopped at any step has a readable report, which lists missing pages."""
    result = samples.result_of(test, ending="interrupted", stop_after=stop_after)
    report, page_count = build(result), pages_of(test)

    assert report.pages[0].title == "Summary"
    assert report.pages[-1].title == "Provenance"
    has_omissions = any("omitted: no data" in getattr(block, "text", "") for block in report.pages[0].blocks)
    assert has_omissions == (len(report.pages) < page_count)
    with drawing.settings():
        for figure in figures(result):
            check(figure.draw())


@pytest.mark.long_but_first
@pytest.mark.parametrize("test", CONTINUOUS)
def test_a_dead_drive_has_a_report(test: str) -> None:
    """No texts overlap in the figures of a drive with almost no I/O."""
    result = samples.result_of(test, scale=0.0)
    with drawing.settings():
        for figure in figures(result):
            check(figure.draw())


@pytest.mark.long_but_first
@pytest.mark.parametrize("test", CONTINUOUS)
@pytest.mark.parametrize("pts", ["1.1", "2.0.2"])
def test_header_blocks_have_ten_rows(test: str, pts: str) -> None:
    """Setup and Test Parameters have ten rows each, as many as the platform has."""
    result = samples.result_of(test, pts=pts)

    assert len(TESTS[test].setup(result)) == len(TESTS[test].parameters(result)) == 10


@pytest.mark.parametrize(
    ("test", "phase", "name"), [("wsat", "stimulus", "iops-time"), ("hir", "PC", "preconditioning")]
)
def test_the_dots_of_the_window_are_on_the_curve(test: str, phase: Phase, name: str) -> None:
    """Dots and curve use the same times, even if gaps between continuous stimuli shift them."""
    result = samples.result_of(test)
    line = result.time_line(phase)
    assert line is not None
    later = replace(line, ended_seconds=array("d", [1.01 * ended for ended in line.ended_seconds]))
    shifted = tuple(later if other is line else other for other in result.time_lines)
    figure = next(figure for figure in figures(replace(result, time_lines=shifted)) if figure.name == name)
    drawn = {line.get_label(): cast("Any", line.get_xydata()).tolist() for line in figure.draw().axes[0].lines}
    dots = next(points for label, points in drawn.items() if "window" in str(label))

    assert len(dots) == 5
    assert all(dot in drawn["IOPS"] for dot in dots)


def test_only_names_of_marks_that_do_not_fit_are_shortened() -> None:
    """A short group does not hide the names of others; the last may extend beyond the axes, and Access C is named."""
    shown = [timelines.series(line_of(range(100, 200), 36), IOPS)]

    def names(*marks: timeplots.Mark) -> list[str]:
        with drawing.settings():
            return [text.get_text() for text in timeplots.drawing(shown, ylabel="IOPS", marks=marks).axes[0].texts]

    long, last = (
        timeplots.Mark(x=0, name="AG 1: RND 8 KiB 0/100", short="AG 1"),
        timeplots.Mark(x=3400, name="Access C"),
    )
    assert names(long, replace(long, x=1800)) == [long.name] * 2
    assert names(long, replace(long, x=600)) == ["AG 1", long.name]
    assert names(long, last) == [long.name, "Access C"]


def test_the_first_figure_of_cross_stimulus_recovery_has_the_marks_of_its_groups() -> None:
    """As the figure of all groups on a later page, it has the name of each access group, and a line at its start."""
    with drawing.settings():
        first, later = (
            figure.draw().axes[0]
            for name in ("dashboard", "throughput-time")
            for figure in figures(samples.result_of("xsr"))
            if figure.name == name
        )
    names = [text.get_text() for text in first.texts]
    assert len(names) == 3
    assert names == [text.get_text() for text in later.texts]
    dashed = [[line for line in axes.lines if line.get_linestyle() == "--"] for axes in (first, later)]
    starts, later_starts = ([cast("Any", line.get_xdata())[0] for line in lines] for lines in dashed)
    assert len(starts) == 2
    assert starts == later_starts


def test_write_saturation_has_the_plots_of_its_version() -> None:
    """1.1 has IOPS vs TGBW on a log scale; 2.0.2 has plots vs Normalised Capacity and the response time histogram."""
    first, second = (
        {page.title for page in build(samples.result_of("wsat", pts=pts)).pages} for pts in ("1.1", "2.0.2")
    )

    stimulus_name = "WSAT - RND 4 KiB 0/100 -"
    assert {
        f"{stimulus_name} {name}" for name in ("IOPS vs Time", "IOPS vs Time (log)", "IOPS vs TGBW")
    } <= first & second
    assert f"{stimulus_name} IOPS vs TGBW (log)" in first - second
    assert f"{stimulus_name} ART, 99.999 % and MRT vs Time" in first & second
    assert {
        f"{stimulus_name} {name} vs Normalised Capacity" for name in ("IOPS", "ART, 99.999 % and MRT")
    } <= second - first
    assert "WSAT - Response Time Histogram - RND 4 KiB 0/100 T4Q32" in second - first


def test_response_times_against_drive_fills_are_those_against_time() -> None:
    """Both figures show the same values; one at the sample's end, the other at the drive fills written until then."""
    result = samples.result_of("wsat")
    line = result.time_line("stimulus")
    assert line is not None
    drawn = {figure.name: figure.draw().axes[0].lines for figure in figures(result) if "response-time" in figure.name}
    fills = [written / result.facts.dut.capacity_bytes for written in accumulate(line.write_bytes)]

    assert [curve.get_label() for curve in drawn["response-time-fills"]] == ["ART", "99.999 %", "MRT"]
    for by_time, by_fills in zip(drawn["response-time"], drawn["response-time-fills"], strict=True):
        assert numpy.array_equal(by_time.get_ydata(), by_fills.get_ydata(), equal_nan=True)
        assert list(cast("Any", by_fills.get_xdata())) == pytest.approx(fills)
        assert list(cast("Any", by_time.get_xdata())) == pytest.approx([ended / 60 for ended in line.ended_seconds])


@pytest.mark.long
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_host_idle_recovery_shows_response_times_of_both_accesses(scale: float) -> None:
    """Each wait state has ART, 99.999 % and MRT of every sample; if samples have too few I/Os, the caption says so."""
    result = samples.result_of("hir", scale=scale)
    (shown,) = (figure for figure in figures(result) if figure.name == "wait-state-3-response-time")
    drawn = {line.get_label(): line for line in shown.draw().axes[0].lines if not str(line.get_label()).startswith("_")}
    has_nines = scale > 1

    assert ("99.999 % is n/a: all samples of Access A and Access C have fewer" in shown.caption) is not has_nines
    for name, phase, style in (("Access A", "access A", "None"), ("Access C", "access C", "-")):
        line = result.time_line(cast("Phase", phase), "Wait State 3")
        assert line is not None
        for label, column, shows in (
            ("ART", line.average_response_us, True),
            ("99.999 %", line.five_nines_us, has_nines),
            ("MRT", line.maximum_response_us, True),
        ):
            assert (f"{label}, {name}" in drawn) is shows
            if shows:
                curve = drawn[f"{label}, {name}"]
                assert list(cast("Any", curve.get_ydata())) == pytest.approx([value / 1000 for value in column])
                assert curve.get_linestyle() == style


def test_cross_stimulus_recovery_has_the_plots_of_its_version() -> None:
    """1.1 has average and maximum response times apart; 2.0.2 has them with MB/s, on an axis of their own."""
    first, second = (build(samples.result_of("xsr", pts=pts)) for pts in ("1.1", "2.0.2"))
    apart = {f"XSR - {name} Response Time vs Time" for name in ("Average", "Maximum")}
    together = "XSR - MB/s, ART and MRT vs Time"
    titles, titles_2 = ({page.title for page in report.pages} for report in (first, second))

    assert titles - titles_2 == apart
    assert titles_2 - titles == {together}
    result = samples.result_of("xsr", pts="2.0.2")
    (shown,) = (figure for figure in figures(result) if figure.name == "throughput-and-response-time")
    left, right = shown.draw().axes
    groups = result.lines("stimulus")
    drawn = [list(cast("Any", line.get_ydata())) for line in (*left.lines[: len(groups)], *right.lines)]
    expected = [timelines.rates(line, quantity) for quantity in (THROUGHPUT, ART, MRT) for line in groups]
    assert len(drawn) == len(expected)
    for values, rates in zip(drawn, expected, strict=True):
        assert values == pytest.approx(list(rates))
    assert (left.get_yscale(), right.get_yscale()) == ("log", "log"), "MB/s fall by more than a factor of 10"
    assert {label.get_label() for label in right.lines} == {"ART (right axis)", "MRT (right axis)"}


@pytest.mark.parametrize(
    ("name", "shown"), [("oltp", "OLTP"), ("vod", "vod"), ("meta-data", "meta-data"), ("composite", "Composite")]
)
def test_write_saturation_names_its_stimulus(name: str, shown: str) -> None:
    """Titles and summary name the selected stimulus of the standard."""
    result = samples.result_of("wsat", overrides=[("stimulus.name", name)])
    line = result.time_line("stimulus")
    pages = build(result).pages

    assert line is not None
    assert any(page.title == f"WSAT - {line.stimulus.label} - IOPS vs Time" for page in pages)
    assert any(f"{line.stimulus.label} ({shown})" in row[1] for table in tables(pages[0]) for row in table.rows)


@pytest.mark.parametrize(("pts", "steady"), [("2.0.2", True), ("1.1", False)])
def test_the_table_of_data_has_the_samples_used_as_rounds(pts: str, steady: bool) -> None:
    """The table has minutes 1, 31, 61, ... and the last one, in at most 51 rows, with the values of the samples."""
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
    """The summary has the stop rule that applied first, the drive fills, and the number of fio starts."""
    full, half = samples.result_of("wsat"), samples.result_of("wsat", overrides=[("saturation.capacities", 1.5)])
    summaries = [
        dict(row for table in tables(build(result).pages[0]) for row in table.rows if len(row) == 2)
        for result in (full, half)
    ]

    assert [summary["Ended by"] for summary in summaries] == ["6 h 00 min elapsed", "1.5 x user capacity written"]
    assert summaries[1]["Written by the stimulus"].endswith("1.50 drive fills")
    line = full.time_line("stimulus")
    assert line is not None
    assert summaries[0]["fio starts"].startswith(f"{line.engine_starts}; longest idle gap")


def test_write_saturation_without_steady_state_has_no_mean_of_its_window() -> None:
    """Its key figures are first and last sample, the final period and the histogram; a steady run adds the window."""
    lenient = [(f"settling.{name}_excursion_percent", 100) for name in ("data", "slope")]
    for overrides, end, window in (
        ([("saturation.seconds", 121 * 60)], 31, []),
        (lenient, 53, ["Measurement window"]),
    ):
        result = samples.result_of("wsat", overrides=overrides)
        names = ["First sample (FOB)", *window, "Last full sample", f"End: last {end} min 00 s, all I/Os"]
        line = result.time_line("stimulus")
        (table,) = (table for table in tables(build(result).pages[0]) if table.title == "Key figures")

        assert line is not None
        assert cells(table, "Period") == [*names, "Histogram after it, RND 4 KiB 0/100"]
        iops = [float(text.replace("\N{NARROW NO-BREAK SPACE}", "")) for text in cells(table, "IOPS")]
        assert iops[-2] == pytest.approx(sum(line.write_ios[-end:]) / (end * 60), rel=1e-3)
        assert iops[0] == pytest.approx(line.iops[0], rel=1e-3)


@pytest.mark.parametrize("pts", ["2.0.2", "1.1"])
def test_a_shortened_last_sample_is_in_no_table_or_plot_of_single_samples(pts: str) -> None:
    """The stimulus ends within a sample: tables and plots end with the last whole one.

    The name of the pattern is one of 2.0.2, so a report of 1.1 omits it.
    """
    result = samples.result_of("wsat", pts=pts, overrides=[("saturation.seconds", 121 * 60)])
    line = result.time_line("stimulus")
    assert line is not None
    last = sample(number=122, ended_seconds=121 * 60 + 5, seconds=5, read_ios=0, write_ios=5, maximum_response_us=1e6)
    line.add_sample(last)
    pages = build(result).pages
    (data,) = tables(page(pages, "Tabular Data"))
    (figures,) = (table for table in tables(pages[0]) if table.title == "Key figures")
    consistency = {row[0]: row[1] for row in tables(page(pages, "Consistency at the End"))[0].rows}

    assert cells(data, "Minute")[-1] == "121"
    whole = cells(data, "IOPS")[-1]
    periods = dict(zip(cells(figures, "Period"), cells(figures, "IOPS"), strict=True))
    assert periods["Last full sample"] == whole == thousands(line.iops[-2], 0)
    assert "; 1 shortened sample omitted." in prose(page(pages, "Tabular Data"))
    assert f"{periods['End: last 31 min 00 s, all I/Os']} IOPS" == consistency["Mean"]
    assert consistency["Samples"] == "31 x 1 min 00 s, the last 31 min 00 s; 1 shortened sample omitted"
    (stimulus,) = (table for table in tables(pages[0]) if table.title == "Stimulus")
    assert stimulus.rows[0][1] == f"RND 4 KiB 0/100{'' if pts == '1.1' else ' (write-intensive)'}, T4Q32"
    note = prose(pages[0])
    assert "End: the last 25 % of the stimulus, at most 1 h 00 min" in note
    plots = {block.name: block for shown in pages for block in shown.blocks if isinstance(block, Figure)}
    for name in ("iops-time", "response-time", "iops-written"):
        assert "The shortened last sample is omitted." in plots[name].caption
        with drawing.settings():
            curve, *_ = plots[name].draw().axes[0].lines
        assert len(cast("Any", curve.get_ydata())) == 121


@pytest.mark.long
def test_an_unsteady_baseline_is_marked() -> None:
    """On the first page the headings of figures relative to an unsteady baseline say so."""
    for steady, prefix in ((True, ""), (False, "unsteady ")):
        first, *_ = build(samples.result_of("hir", steady=steady)).pages
        (table,) = (table for table in tables(first) if table.title == "Wait states")
        headings = [column.heading for column in table.columns]

        marked = {f"{name} {prefix}baseline" for name in ("A: % of", "C end: % of", "Return to")}
        assert marked <= set(headings)


def test_the_baseline_is_drawn_with_its_value_and_its_rounds() -> None:
    """A dashed line without a number would have to be read from the axis; all wait states have the accesses' styles."""
    result = samples.result_of("hir", overrides=SHORT["hir"])
    shown = {figure.name: figure for figure in figures(result)}
    sampling = result.sampling
    assert sampling
    assert sampling.window
    base = host_idle_recovery.baseline(sampling)
    assert base
    first, *_, last = sampling.window.numbers
    for name in ("wait-state-25", "wait-states"):
        assert f"Baseline: mean of preconditioning rounds {first} - {last} (" in shown[name].caption
        with drawing.settings():
            (axes,) = shown[name].draw().axes
        legend = axes.get_legend()
        assert legend
        handles = dict(zip([text.get_text() for text in legend.texts], legend.legend_handles, strict=True))
        assert any(label.startswith(f"baseline, {thousands(base, 0)} IOPS") for label in handles)
        styles = [cast("Any", handles[label]) for label in ("Access A", "Access C")]
        assert [handle.get_linestyle() for handle in styles] == ["None", "-"]


@pytest.mark.parametrize(
    ("high", "first", "returned"),
    [
        (0, "0 - 5 s", "0 - 1 min"),
        (1, "5 - 10 s", "1 - 2 min"),
        (13, "65 - 70 s", "2 - 3 min"),
        (360, "none", "none: above it at the end"),
    ],
)
def test_the_return_to_the_baseline_states_its_resolution(high: int, first: str, returned: str) -> None:
    """The return is the minute of a mean, beside the first single sample at the baseline."""
    result = samples.result_of("hir", overrides=SHORT["hir"])
    spec = result.facts.spec
    assert isinstance(spec, HostIdleSpec)
    settling = replace(spec.settling, sample_seconds=60.0)
    waits = replace(spec.wait_states, access_c_seconds=1800.0, access_c_sample_seconds=5.0)
    spec = replace(spec, settling=settling, wait_states=waits)
    base = host_idle_recovery.baseline(result.sampling)
    assert base
    line = TimeLine(phase="access C", part="", stimulus=result.lines("access C")[0].stimulus)
    for number in range(1, 361):
        ios = round(5 * base * (10 if number <= high else 1))
        line.add_sample(sample(number=number, ended_seconds=5.0 * number, seconds=5.0, read_ios=0, write_ios=ios))
    changed = cast("host_idle_recovery.Result", replace(result, facts=replace(result.facts, spec=spec)))
    states = [replace(state, c=line) for state in host_idle_recovery.states(changed)]
    table = host_idle_recovery.state_table(changed, states)

    assert [column.heading for column in table.columns[-2:]] == [
        "C: first sample at unsteady baseline",
        "Return to unsteady baseline",
    ]
    assert table.rows[0][-2] == first
    assert table.rows[0][-1].startswith(returned)


@pytest.mark.long
def test_idle_times_are_reported_as_requested_and_as_measured() -> None:
    """Each wait state has its requested and its measured idle time, and IOPS next to the baseline."""
    result = samples.result_of("hir")
    (table,) = (table for page_ in build(result).pages for table in tables(page_) if table.title == "Wait states")

    assert cells(table, "Wait state") == [f"Wait State {number}" for number in (1, 2, 3, 5, 10)]
    assert cells(table, "B: idle requested (s)") == ["5", "10", "15", "25", "50"]
    measured = re.fullmatch(r"(\S+) \((\S+) - (\S+)\)", cells(table, "B: idle measured, median (range) (s)")[0])
    assert measured
    middle, shortest, longest = map(float, measured.groups())
    assert 5 <= shortest <= middle <= longest < 5.1
    assert cells(table, "Duty cycle (%)")[0] == "49.9"
    base = cells(table, "A: % of baseline")
    assert float(base[-1]) > 150 > float(base[0])
    numbers = [
        float(text.replace("\N{NARROW NO-BREAK SPACE}", ""))
        for heading in ("A: IOPS", "A: % of baseline", "C end: IOPS", "C end: % of baseline")
        for text in cells(table, heading)[:1]
    ]
    assert numbers[3] / numbers[2] == pytest.approx(numbers[1] / numbers[0], rel=2e-3)


def test_a_simulated_drive_has_no_measured_idle_times() -> None:
    """The clock is virtual, so nothing was measured; the first access, which no idle time precedes, is explained."""
    result = samples.result_of("hir", device=samples.dut(kind="simulated"), overrides=SHORT["hir"])
    first, *_ = build(result).pages
    (table,) = (table for table in tables(first) if table.title == "Wait states")
    captions = {figure.name: figure.caption for figure in figures(result)}

    assert not any("measured" in column.heading for column in table.columns)
    assert "for at most the measured times" not in prose(first)
    assert "The first access has no idle time before it: IOPS include it, response times do not." in prose(first)
    for text in (captions["wait-state-25"], captions["wait-state-25-response-time"]):
        assert "The first Access A has no idle time before it." in text


def test_percentiles_that_most_samples_lack_are_explained_but_not_drawn() -> None:
    """A line or a legend for one value among many that are missing would promise more."""
    result = samples.result_of("hir", overrides=SHORT["hir"])
    line = result.time_line("access C", "Wait State 25")
    assert line is not None
    line.five_nines_us[0] = 5000.0
    for number in (2, 3):
        line.add_sample(sample(number=number, ended_seconds=0.5 * number, seconds=0.5))
        line.five_nines_us[number - 1] = math.nan
    figure = next(figure for figure in figures(result) if figure.name == "wait-state-25-response-time")
    with drawing.settings():
        (axes,) = figure.draw().axes

    assert not any(curve.get_label() == "99.999 %, Access C" for curve in axes.lines)
    assert "99.999 % is n/a: most samples of Access A and Access C have fewer" in figure.caption


@pytest.mark.parametrize(("factor", "scale"), [(9, "linear"), (11, "log")])
def test_a_throughput_that_falls_by_more_than_a_factor_of_ten_has_a_log_axis(factor: int, scale: str) -> None:
    """On a linear axis the slow group would lie on the bottom line."""
    result = samples.result_of("xsr", overrides=SHORT["xsr"])
    for number, line in enumerate(result.lines("stimulus")):
        for row in range(len(line)):
            line.read_bytes[row], line.write_bytes[row] = 0.0, 1e9 / (factor if number == 1 else 1)
    shown = {figure.name: figure for figure in figures(result)}
    for name in ("throughput-time", "transition-2", "throughput-and-response-time", "dashboard"):
        with drawing.settings():
            axes = shown[name].draw().axes[0]
        assert axes.get_yscale() == scale
        label = axes.get_title() if name == "dashboard" else axes.get_ylabel()
        assert label.endswith("log)") == (scale == "log")
        if name.startswith("t") and name != "throughput-and-response-time":
            assert ("log scale" in shown[name].caption) == (scale == "log")


def test_the_transition_is_shown_until_its_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    """However late a drive recovers, the plot shows it, with a named line."""
    monkeypatch.setattr(cross_stimulus_recovery, "_AROUND_SECONDS", 600.0)
    result = samples.result_of("xsr")
    measured = recovery(result.lines("stimulus"))
    assert measured
    recovered = measured.time.recovered
    assert recovered
    figure = next(figure for figure in figures(result) if figure.name == "transition-3")
    with drawing.settings():
        (axes,) = figure.draw().axes
    vertical = [line for line in axes.lines if list(cast("Any", line.get_ydata())) == [0, 1]]
    marks = [float(cast("Any", line.get_xdata())[0]) for line in vertical]
    span = f"{round(recovered.begin / 60)} - {round(recovered.end / 60)} min"
    assert any(text.get_text() == f"recovered, {span}" for text in axes.texts)
    assert len(marks) == 2
    assert marks[1] - marks[0] == pytest.approx(recovered.end / 60)
    assert marks[1] < axes.get_xlim()[1]


def test_samples_with_a_stall_are_counted() -> None:
    """A warning names a whole group; the sentence says in how many samples, and when."""
    result = samples.result_of("xsr", overrides=(("groups.sample_seconds", 1), *SHORT["xsr"][1:]))
    assert "Samples in which an I/O took more than 2 s: none." in prose(build(result).pages[0])
    line = result.lines("stimulus")[-1]
    for row in (0, 2):
        line.maximum_response_us[row] = 2.1e6
    begin, end = line.ended_seconds[0] - line.seconds[0], line.ended_seconds[2]

    assert (
        f"took more than 2 s: 2 of {len(line)} of AG 3 (between {duration(max(0.0, begin))} and {duration(end)} after "
        "its start)."
    ) in prose(build(result).pages[0])


@pytest.mark.parametrize("pts", ["1.1", "2.0.2"])
def test_the_open_demand_of_1_1_is_marked_as_a_default(pts: str) -> None:
    """Sources differ on the thread count of its second group; that of 2.0.2 is known."""
    note = prose(build(samples.result_of("xsr", pts=pts)).pages[0])

    assert ("TC and QD of the groups are this suite's defaults for PTS 1.1" in note) == (pts == "1.1")


@pytest.mark.parametrize(
    ("stop_after", "message"),
    [(None, "Recovery time"), (845, "NOT RECOVERED within 2 min 00 s of AG 3"), (500, "was not measured")],
)
def test_recovery_is_reported_with_its_definition(stop_after: int | None, message: str) -> None:
    """The page states that the drive recovered, did not recover, or was not measured, and defines recovery."""
    ending = "interrupted" if stop_after else "finished"
    result = samples.result_of("xsr", stop_after=stop_after, ending=ending)  # type: ignore[arg-type]
    by_group = build(result).pages[0]
    text = " ".join(cell for table in tables(by_group) for row in table.rows for cell in row)

    assert message.lower() in text.lower()
    outcome = None if stop_after == 500 else recovery(result.lines("stimulus"))
    repeated = outcome is None or outcome.time.reached == outcome.time.recovered is not None
    assert ("First recovered sample" in text) == (not repeated), "it would repeat the recovery time"
    assert any(
        "A sample is recovered if it has at least 90 % of the baseline." in getattr(block, "text", "")
        for block in by_group.blocks
    )
