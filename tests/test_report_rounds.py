"""The reports of the throughput and latency tests, and the pages that all tests share."""

from __future__ import annotations

import dataclasses
import math
import re
import statistics
from pathlib import Path
from typing import Any

import pypdf
import pytest
from matplotlib.colors import to_hex

from snia_pts.analysis.window import last_window
from snia_pts.record.result_xml import result_xml
from snia_pts.report import write
from snia_pts.report.figures import matrices
from snia_pts.report.figures import render as drawing
from snia_pts.report.header import window_rounds
from snia_pts.report.pages import Figure, Page, Prose
from snia_pts.report.registry import build
from snia_pts.report.sections import steady_state as steady
from snia_pts.report.tables import Table
from snia_pts.results.result import Loop, TestResult
from snia_pts.results.warnings import run_warnings
from snia_pts.spec import loop_rule
from snia_pts.units import capacity, number
from tests import samples
from tests.killing import BRIEF, reference
from tests.test_report_figures import check, lines
from tests.typesetting import HEADER_FORMS, forms_of, typeset

THIN = "\N{NARROW NO-BREAK SPACE}"
MARK = f"{matrices.UNSTEADY} "
SMALL = [("steady_state.slope_excursion_percent", 9.5)]

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "TP": ("throughput", {"rounds": 9}),
    "TP 1.1, not steady": ("throughput", {"pts": "1.1", "steady": False}),
    "TP 1.1, client": ("throughput", {"pts": "1.1", "test_class": "client"}),
    "TP in its second part": ("throughput", {"stop_after": 2 + 5 * 2 + 2 + 3, "ending": "interrupted"}),
    "TP purged": ("throughput", {"stop_after": 1, "ending": "host failed"}),
    "TP dead": ("throughput", {"scale": 0.0}),
    "TP of three sizes and mixes": (
        "throughput",
        {"overrides": [("rounds.block_sizes_kib", [1024.0, 256.0, 64.0]), ("rounds.read_percents", [100, 50, 0])]},
    ),
    "LAT": ("latency", {"rounds": 9}),
    "LAT not steady": ("latency", {"steady": False}),
    "LAT 1.1, client, 4096-byte sectors": ("latency", {"pts": "1.1", "test_class": "client", "sector_bytes": 4096}),
    "LAT in its third round": ("latency", {"stop_after": 2 + 2 * 9 + 4, "ending": "interrupted"}),
    "LAT without its histogram": ("latency", {"stop_after": 2 + 5 * 9, "ending": "device failed"}),
    "LAT a thousand times faster": ("latency", {"scale": 1000.0}),
    "LAT dead": ("latency", {"scale": 0.0}),
    "LAT by altered rules": ("latency", {"overrides": SMALL}),
}


#: The kinds with the fullest pages, the most pages, or pages that a steady run does not have.
FULLEST = (
    "TP 1.1, not steady",
    "TP in its second part",
    "TP of three sizes and mixes",
    "LAT not steady",
    "LAT 1.1, client, 4096-byte sectors",
    "LAT without its histogram",
    "LAT by altered rules",
)


def result_of(kind: str) -> TestResult:
    test, changes = KINDS[kind]
    return samples.result_of(test, **changes)


def loop_of(result: TestResult, part: str = "") -> Loop:
    loop = result.loop(part)
    assert loop
    return loop


def titles(result: TestResult) -> list[str]:
    return [page.title for page in build(result).pages]


def tables(result: TestResult, title: str) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the tables of a page by title; each is a dict of its rows by first column, without marks."""
    page = next(page for page in build(result).pages if title in page.title)
    return {
        block.title: {
            row[0]: tuple(cell.replace(THIN, "").removeprefix(MARK) for cell in row[1:]) for row in block.rows
        }
        for block in page.blocks
        if isinstance(block, Table)
    }


def text_of(page: Page) -> str:
    return " ".join(block.text for block in page.blocks if isinstance(block, Prose))


def plot(result: TestResult, name: str) -> dict[str, list[float]]:
    """Return the values of every line of a figure, by its label."""
    figure = next(figure for figure in build(result).figures if figure.name == name)
    with drawing.settings():
        return {label: [y for _, y in points] for label, points in lines(figure.draw()).items()}


@pytest.mark.long_but_first
@pytest.mark.parametrize("kind", KINDS)
def test_no_texts_of_any_figure_overlap(kind: str) -> None:
    """In every figure no texts overlap, all are inside, and the unit is that of the test, or its share in %."""
    units = {"MB/s"} if KINDS[kind][0] == "throughput" else {"ms"}
    with drawing.settings():
        for figure in build(result_of(kind)).figures:
            drawn = figure.draw()
            words = check(drawn)
            shown = {"% of average"} if figure.name == "dashboard" and len(drawn.axes) == 1 else units
            assert any(unit in word for word in words for unit in shown), figure.name
            assert not any("IOPS" in word for word in words)
            assert tuple(drawn.get_size_inches()) == (figure.width, figure.height)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["TP", "LAT"])
def test_the_pdf_has_every_figure(kind: str, tmp_path: Path) -> None:
    """The PDF has each figure of the report once, in order."""
    result = result_of(kind)
    reader = pypdf.PdfReader(write(result, tmp_path, ("pdf",))["pdf"])
    drawn = [name for page in reader.pages for name in forms_of(page) if not name.startswith(HEADER_FORMS)]
    assert drawn == [figure.name for figure in build(result).figures]


@pytest.mark.long
@pytest.mark.parametrize("kind", FULLEST)
def test_only_flowing_pages_take_several_pdf_pages(kind: str) -> None:
    """The PDF has at most one more page for each flowing page, and every page has the test's title."""
    result = result_of(kind)
    report, reader = typeset(result)
    pages = report.pages
    flowing = sum(page.flows for page in pages)
    assert len(reader.pages) <= len(pages) + flowing
    text = [page.extract_text() for page in reader.pages]
    assert all(result.facts.spec.title in page for page in text)


# -- throughput -------------------------------------------------------------------------------------------------------


def test_the_throughput_report_has_the_pages_of_each_block_size() -> None:
    """Each block size has convergence plots of writes and reads and a window; one table and 2D plot have both sizes."""
    plots = "Throughput Steady State Convergence Plot - SEQ"
    window = "Throughput Steady State Measurement Window - SEQ"
    assert titles(result_of("TP")) == [
        "Summary",
        f"{plots} 1024 KiB Write",
        f"{plots} 1024 KiB Read",
        f"{window}/1024KiB RW0",
        f"{plots} 128 KiB Write",
        f"{plots} 128 KiB Read",
        f"{window}/128KiB RW0",
        "Tracked Variables by Round",
        "Throughput - SEQ 1024 KiB & 128 KiB - Tabular Data",
        "Throughput - SEQ 1024 KiB & 128 KiB - 2D Plot",
        "Provenance",
    ]
    assert "128 KiB" not in " ".join(titles(result_of("TP 1.1, client")))


def test_a_block_size_has_one_colour_and_marker_and_no_tracked_variable_hides_another() -> None:
    """On the first page the tracked variables have the styles of their block sizes; dashes show what is below."""
    figures = {figure.name: figure for figure in build(samples.result_of("throughput", rounds=5)).figures}
    with drawing.settings():
        first_page = figures["dashboard"].draw().axes[1]
        convergence = {size: figures[f"convergence-{size}-kib-0"].draw().axes[0] for size in (1024, 128)}
    tracked = [line for line in first_page.lines if str(line.get_label()).startswith("SEQ")]
    assert [line.get_label() for line in tracked] == ["SEQ 1024 KiB 0/100", "SEQ 128 KiB 0/100"]
    for line, axes in zip(tracked, convergence.values(), strict=True):
        (same,) = (one for one in axes.lines if str(one.get_label()) in str(line.get_label()))
        assert (line.get_color(), line.get_marker()) == (same.get_color(), same.get_marker())
    below, above = tracked
    assert (below.get_linestyle(), above.get_linestyle()) == ("-", "--")
    assert below.get_markerfacecolor() == above.get_markerfacecolor() == "none"
    assert below.get_color() != above.get_color()


def test_throughput_is_in_decimal_megabytes_per_second() -> None:
    """Each cell is the window's mean in MB/s (1 000 000 bytes per second); the convergence plots have every round."""
    result = result_of("TP")
    (table,) = tables(result, "Tabular Data").values()
    assert list(table) == ["1024", "128"]
    for part, size in (("1024 KiB", "1024"), ("128 KiB", "128")):
        loop = loop_of(result, part)
        for column, share in enumerate((0, 100)):
            rates = []
            for measured in loop.rounds:
                point = measured.keyed_by(lambda stimulus: stimulus.read_percent)[share]
                transferred = point.read.transferred_bytes + point.write.transferred_bytes
                rates.append(transferred / point.runtime_ms / 1000)
            shown = plot(result, f"convergence-{part.replace(' ', '-').lower()}-{share}")[part]
            assert shown == pytest.approx(rates)
            assert float(table[size][column]) == pytest.approx(statistics.fmean(rates[-5:]), abs=0.5)
            assert bars(result)[part][1][column] == pytest.approx(statistics.fmean(rates[-5:]))


def bars(result: TestResult) -> dict[str, tuple[str, list[float]]]:
    """Return the colour and the heights of the bars of each block size."""
    (figure,) = (figure for figure in build(result).figures if figure.name == "matrix-2d")
    with drawing.settings():
        drawn: Any = figure.draw().axes[0].containers
    return {
        part.get_label(): (to_hex(part[0].get_facecolor()), [bar.get_height() for bar in part.patches])
        for part in drawn
    }


def test_a_block_size_has_one_colour_in_the_whole_report() -> None:
    """Also where it is the only series of a figure; the legend has the order of the axis."""
    result = result_of("TP")
    colours = {part: colour for part, (colour, _) in bars(result).items()}
    assert list(colours) == ["1024 KiB", "128 KiB"]
    assert len(set(colours.values())) == 2
    with drawing.settings():
        for figure in build(result).figures:
            if figure.name.startswith("convergence-"):
                drawn: Any = figure.draw().axes[0].lines[0]
                assert drawn.get_color() == colours[drawn.get_label()]


def test_bars_have_their_values_on_top() -> None:
    """Each value is inside the axes, above its bar, and overlaps nothing."""
    (figure,) = (figure for figure in build(result_of("TP")).figures if figure.name == "matrix-2d")
    with drawing.settings():
        drawn = figure.draw()
        words = check(drawn)
    (axes,) = drawn.axes
    assert len([text for text in axes.texts if text.get_text()]) == 4
    for text in axes.texts:
        assert text.get_text() in words
        assert axes.bbox.y1 >= text.get_window_extent().y1


def test_only_the_block_size_that_is_not_steady_is_marked() -> None:
    """Only its window page and header row have NOT ACHIEVED; the verdict names the block size."""
    steady_, unsteady = result_of("TP"), samples.result_of("throughput", steady=False)
    result = dataclasses.replace(steady_, loops=(loop_of(steady_, "1024 KiB"), loop_of(unsteady, "128 KiB")))
    windows = [title for title in titles(result) if "Measurement Window" in title]
    assert [title.endswith("NOT ACHIEVED") for title in windows] == [False, True]
    first = text_of(build(result).pages[0])
    assert "STEADY STATE NOT ACHIEVED (128 KiB)" in first
    assert "1024 KiB: rounds 5 - 9; 128 KiB: rounds 21 - 25, NOT ACHIEVED" in first
    rows = build(result).header.blocks.rows
    assert [row[7] for row in rows if row[6] == "Steady State"] == ["5 - 9", "21 - 25, NOT ACHIEVED"]
    assert ("SS Rounds", "5 - 9 / 21 - 25, NOT ACHIEVED") in [row[4:6] for row in rows]
    assert ("AR Segments", "1") in [row[4:6] for row in rows]


def test_throughput_tables_keep_the_order_of_the_block_sizes() -> None:
    """1024 KiB is first, as on all other pages; equal windows are named once; one size is not called separate."""
    result = result_of("TP")
    (matrix,) = (page for page in build(result).pages if page.title.endswith("Tabular Data"))
    (table,) = (block for block in matrix.blocks if isinstance(block, Table))
    single = samples.result_of("throughput", overrides=[("rounds.block_sizes_kib", [128])])
    assert [row[0] for row in table.rows] == ["1024", "128"]
    assert table.title.endswith("each block size: mean over its rounds 5 - 9")
    for one, text in ((result, "each a separate test"), (single, "128 KiB")):
        assert ("Block Sizes", text) in [row[6:8] for row in build(one).header.blocks.rows]


def test_a_run_stopped_in_its_second_part_reports_the_first() -> None:
    """The first block size has its window and its table; the summary says what is missing of the second."""
    report = build(result_of("TP in its second part"))
    assert [page.title for page in report.pages if "Window" in page.title or "Tabular" in page.title] == [
        "Throughput Steady State Measurement Window - SEQ/1024KiB RW0",
        "Throughput - SEQ 1024 KiB - Tabular Data",
    ]
    text = text_of(report.pages[0])
    assert "INCOMPLETE (interrupted)" in text
    assert "1 complete round of 128 KiB; a measurement window needs 5" in text
    assert "Measurement window of 128 KiB" in text
    stopped = samples.result_of("throughput", stop_after=2 + 5 * 2 + 1, ending="interrupted")
    assert ("Duration", "NOT FINISHED") in [row[4:6] for row in build(stopped).header.blocks.rows]
    assert "No complete round of 128 KiB" in text_of(build(stopped).pages[0])


# -- latency ----------------------------------------------------------------------------------------------------------


def test_the_latency_report_has_the_standards_pages() -> None:
    """The pages are those of the standard, in order; only PTS 2.0.2 has the histogram page."""
    expected = [
        "Summary",
        "Latency Steady State Convergence Plot - Average Response Time, R/W 0/100",
        "Latency Steady State Convergence Plot - Maximum Response Time, R/W 0/100",
        "Latency Steady State Measurement Window - All Block Sizes, R/W 0/100",
        "Latency Steady State Measurement Window - RND/4KiB RW0",
        "Tracked Point - Response Time vs Time",
        "Tracked Variables by Round",
        "Latency - All RW Mix & BS - Tabular Data",
        "Latency - All RW Mix & BS - Average Response Time - 3D Columns",
        "Latency - All RW Mix & BS - Maximum Response Time - 3D Columns",
        "Response Time Percentiles - Tabular Data",
        "LAT Response Time Histogram - Confidence Level Plot",
        "Provenance",
    ]
    assert titles(result_of("LAT")) == expected
    assert titles(result_of("LAT 1.1, client, 4096-byte sectors")) == [*expected[:-2], expected[-1]]


def test_the_latency_tables_are_those_of_the_version() -> None:
    """1.1 has ART and MRT; 2.0.2 also has IOPS and 99.999 %; the page states the test conditions."""
    page = "All RW Mix & BS - Tabular Data"
    heads = [title.partition(",")[0] for title in tables(result_of("LAT"), page)]
    average, maximum = "Average response time (ms)", "Maximum response time (ms)"
    assert heads == ["IOPS", average, "99.999 % response time (ms)", maximum, maximum]
    old = result_of("LAT 1.1, client, 4096-byte sectors")
    assert [title.partition(",")[0] for title in tables(old, page)] == [average, maximum, maximum]
    data_page = next(item for item in build(result_of("LAT")).pages if page in item.title)
    assert "PTS-E, WCD, T1/Q1" in text_of(data_page)


def test_both_maximum_response_times_are_reported() -> None:
    """One table has the window's maximum, the other the mean of its rounds' maxima, as its title states."""
    result = result_of("LAT")
    by_title = tables(result, "Tabular Data")
    window, mean = (rows for title, rows in by_title.items() if title.startswith("Maximum"))
    heads = [title for title in by_title if title.startswith("Maximum")]
    assert "maximum of the window" in heads[0]
    assert "mean of the rounds' maxima" in heads[1]
    maxima = [
        measurement.maximum_response_us / 1000 for measurement in matrices.over(loop_of(result).rounds[-5:], (4096, 65))
    ]
    assert len(set(maxima)) == 5
    assert float(window["4"][1]) == pytest.approx(max(maxima), abs=0.01)
    assert float(mean["4"][1]) == pytest.approx(statistics.fmean(maxima), abs=0.01)


def test_the_average_of_a_mixed_point_is_weighted_by_ios() -> None:
    """The ART of 65/35 is the total response time over all I/Os, not the mean of the reads' and writes' means."""
    result = result_of("LAT")
    shown = next(rows for title, rows in tables(result, "Tabular Data").items() if title.startswith("Average"))["4"][1]
    sides = [
        side
        for measurement in matrices.over(loop_of(result).rounds[-5:], (4096, 65))
        for side in (measurement.read, measurement.write)
    ]
    weighted = math.fsum(side.ios * side.response_mean_ns for side in sides) / sum(side.ios for side in sides) / 1e6
    assert float(shown) == pytest.approx(weighted, rel=1e-3)
    assert float(shown) != pytest.approx(statistics.fmean(side.response_mean_ns for side in sides) / 1e6, rel=1e-3)


def test_the_latency_window_is_in_milliseconds() -> None:
    """The steady state determination has the ART of RND 4 KiB writes in ms, with six digits."""
    result = result_of("LAT")
    rows = tables(result, "Measurement Window - RND")["Steady State Determination Data"]
    tracked = [
        measurement.average_response_us / 1000 for measurement in matrices.over(loop_of(result).rounds[-5:], (4096, 0))
    ]
    assert float(rows["Average"][0]) == pytest.approx(statistics.fmean(tracked), rel=1e-5)
    assert float(rows["Measured data excursion"][0]) == pytest.approx(max(tracked) - min(tracked), abs=1e-5)
    assert plot(result, "window-rnd-4kib-rw0")["Average response time"] == pytest.approx(tracked)


@pytest.mark.parametrize(
    ("test", "changes", "cautioned"),
    [
        ("latency", {}, True),
        ("latency", {"steady": False}, False),
        ("latency", {"scale": 1000.0}, False),
        ("iops", {}, True),
        ("throughput", {}, False),
    ],
)
def test_a_window_has_the_amount_that_its_rounds_wrote(test: str, changes: dict[str, Any], *, cautioned: bool) -> None:
    """The summary and the window's pages have it, with a caution if random writes have not filled the range once."""
    result = samples.result_of(test, **changes)
    loop = result.loops[0]
    points = [point for measured in loop.rounds for point in measured.measurements]
    written = sum(point.write.transferred_bytes for point in points)
    fills = written / points[0].stimulus.range_bytes
    rounds = f"rounds 1 to {loop.rounds[-1].number}"
    amount = f"{capacity(written)}, {number(fills, digits=3)} fills of the ActiveRange"
    part = f", {loop.part}" * (len(result.loops) > 1)
    summary, *others = build(result).pages
    rows = {row[0]: row[1] for block in summary.blocks if isinstance(block, Table) for row in block.rows}
    assert rows[f"Data written, {rounds}{part}"] == amount
    variables = len(loop.window.determinations) if loop.window else 0
    pages = [page for page in others if "Measurement Window - " in page.title and "All Block Sizes" not in page.title]
    notes = [block.text for page in pages for block in page.blocks[-1:] if isinstance(block, Prose)]
    assert len(notes) == len(pages) == variables * len(result.loops)
    first = notes[:variables]
    assert all(note.startswith(f"Written in {rounds}: {amount}.") for note in first)
    assert [" may become slower " in note for note in first] == [cautioned] * variables
    assert any(isinstance(block, Prose) and first[0] in block.text for block in summary.blocks) == cautioned


def test_only_the_rounds_up_to_the_end_of_the_window_count() -> None:
    """A round that was not completed follows the window and does not count."""
    whole = loop_of(samples.result_of("latency", steady=False))
    stopped = loop_of(samples.result_of("latency", steady=False, stop_after=2 + 9 * 9 + 5, ending="interrupted"))
    assert [measured.complete for measured in stopped.rounds] == [*[True] * 9, False]
    points = [point for measured in whole.rounds[:9] for point in measured.measurements]
    assert stopped.written_bytes == sum(point.write.transferred_bytes for point in points)


@pytest.mark.long
def test_convergence_plots_have_average_and_maximum_of_every_round() -> None:
    """Each block size of 100 % writes has a line with the values of all rounds in ms."""
    result = result_of("LAT")
    for name, attribute in (("average", "average_response_us"), ("maximum", "maximum_response_us")):
        drawn = plot(result, f"convergence-{name}")
        for size in (512, 4096, 8192):
            measured = [
                getattr(measurement, attribute) / 1000
                for measurement in matrices.over(loop_of(result).rounds, (size, 0))
            ]
            assert len(measured) > 5
            assert drawn[f"{size / 1024:g} KiB"] == pytest.approx(measured)


def test_five_nines_of_too_few_ios_are_not_reported() -> None:
    """If a window has fewer than 100 000 I/Os of a cell, its 99.999 % is n/a, and the page states why."""
    result = samples.result_of("latency", scale=0.2)
    shown = next(rows for title, rows in tables(result, "Tabular Data").items() if title.startswith("99.999"))
    measured = {
        at: sum(measurement.ios for measurement in matrices.over(loop_of(result).rounds, at))
        for at in ((4096, 0), (4096, 100))
    }
    assert measured[4096, 0] < 100_000 <= measured[4096, 100]
    assert shown["4"][0] == "n/a"
    assert float(shown["4"][2]) > 0
    page = next(page for page in build(result).pages if "Tabular Data" in page.title)
    assert "too few I/Os" in text_of(page)
    full = next(page for page in build(result_of("LAT a thousand times faster")).pages if "Tabular Data" in page.title)
    assert "too few I/Os" not in text_of(full)


def test_latency_of_blocks_below_the_sector_size_is_not_applicable() -> None:
    """On 4096-byte sectors the rows of 0.5 KiB are n/a in every table, and the page states why."""
    result = result_of("LAT 1.1, client, 4096-byte sectors")
    by_title = tables(result, "Tabular Data")
    assert all(rows["0.5"] == ("n/a",) * 3 and "n/a" not in rows["4"] for rows in by_title.values())
    page = next(page for page in build(result).pages if "Tabular Data" in page.title)
    assert "smaller than the device's sectors: 0.5 KiB" in text_of(page)


def test_a_run_stopped_before_its_histogram_reports_it_as_omitted() -> None:
    """The report has its tables but no histogram page, and the summary lists the histogram as omitted."""
    result = result_of("LAT without its histogram")
    assert not any("Histogram" in title for title in titles(result))
    assert any("Tabular Data" in title for title in titles(result))
    assert "histogram omitted: its run did not complete" in text_of(build(result).pages[0])
    assert "histogram" not in text_of(build(result_of("LAT 1.1, client, 4096-byte sectors")).pages[0])


# -- pages of all tests -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("test", ["iops", "throughput", "latency"])
def test_altered_rules_are_marked_on_every_window(test: str) -> None:
    """The title of every window page ends with ALTERED RULES if the rules differ from the standard's."""
    windows = [title for title in titles(samples.result_of(test, overrides=SMALL)) if "Measurement Window" in title]
    assert windows
    assert all(title.endswith("ALTERED RULES") for title in windows)
    assert not any("ALTERED" in title for title in titles(samples.result_of(test)))


def test_early_samples_are_in_seconds() -> None:
    """Samples of 6 s are at seconds 6 to 30, as on the time axis of such a plot, not at minutes 0.1 to 0.5."""
    brief = [("settling.sample_seconds", 6), ("settling.first_sample", 1), ("settling.stride_samples", 1)]
    result = samples.result_of("hir", overrides=brief)
    assert result.sampling
    assert result.sampling.window
    first, last = result.sampling.window.numbers[0], result.sampling.window.numbers[-1]
    assert window_rounds(result, result.sampling).startswith(f"{first} - {last} (seconds {6 * first} - {6 * last})")
    (page,) = steady.window_pages(result, result.sampling)
    figure, table = page.blocks[-2:]
    assert isinstance(figure, Figure)
    assert isinstance(table, Table)
    assert table.rows[0][1].startswith(f"{first} - {last} (seconds {6 * first} - {6 * last})")
    with drawing.settings():
        axes = figure.draw().axes[0]
    assert axes.get_xlabel() == "Second"
    assert [label.get_text() for label in axes.get_xticklabels()] == [str(6 * n) for n in range(first, last + 1)]
    (by_round,) = steady.rounds_page(result, result.sampling)
    (rounds,) = (block for block in by_round.blocks if isinstance(block, Table))
    assert [column.heading for column in rounds.columns][1] == "Second"
    assert [row[1] for row in rounds.rows] == [str(6 * int(row[0])) for row in rounds.rows]


def test_samples_used_as_rounds_are_labelled_with_minutes() -> None:
    """The window page of a continuous stimulus has the minutes on its axis and in its block: 1, 31, 61, ..."""
    result = samples.result_of("hir")
    assert result.sampling
    assert result.sampling.window
    (page,) = steady.window_pages(result, result.sampling)
    assert page.title == "Host Idle Recovery Preconditioning Steady State Measurement Window - RND/4KiB RW0"
    figure = next(block for block in page.blocks if not isinstance(block, Prose | Table))
    with drawing.settings():
        drawn = figure.draw()
        check(drawn)
    numbers = result.sampling.window.numbers
    minutes = [1 + 30 * (number - 1) for number in numbers]
    axes = drawn.axes[0]
    assert axes.get_xlabel() == "Minute"
    assert [label.get_text() for label in axes.get_xticklabels()] == [str(minute) for minute in minutes]
    table = next(block for block in page.blocks if isinstance(block, Table))
    assert table.rows[0][1] == f"{numbers[0]} - {numbers[-1]} (minutes {minutes[0]} - {minutes[-1]})"
    (by_round,) = steady.rounds_page(result, result.sampling)
    rows = next(block.rows for block in by_round.blocks if isinstance(block, Table))
    assert [row[:2] for row in rows] == [(str(n), str(1 + 30 * (n - 1))) for n in range(1, numbers[-1] + 1)]


@pytest.mark.parametrize(
    ("test", "overrides", "sentence"),
    [
        (
            "iops",
            {"rounds.maximum": 7},
            "The test loop ends {first} all tracked variables are steady, or after round 7.",
        ),
        ("hir", {"conditioning.maximum": 6}, "The preconditioning ends {first} {tracked} steady, or after round 6."),
        (
            "wsat",
            {"saturation.until_steady": True},
            "The stimulus ends {first} {tracked} steady, or after {limit}.",
        ),
        ("wsat", {"saturation.until_steady": False}, "The stimulus ends after {limit}."),
        ("wsat", {"saturation.until_steady": False, "settling.minimum_fills": 1.5}, "The stimulus ends after {limit}."),
        ("wsat", {"saturation.until_steady": False, "settling.minimum_fills": 0}, "The stimulus ends after {limit}."),
    ],
)
def test_all_ends_of_the_rounds_are_named(test: str, overrides: dict[str, object], sentence: str) -> None:
    """A loop also ends at its last round, a stimulus at an amount or a time, whichever comes first.

    Samples count only after a number of fills, once by default: this rule is the suite's own, so the page states it.
    """
    seconds = {"saturation.seconds": 7260} if test == "wsat" else {}
    result = samples.result_of(test, steady=False, overrides=[*overrides.items(), *seconds.items()])
    part = result.sampling or result.loops[0]
    (page,) = steady.rounds_page(result, part)
    first = "with the first round in which"
    limit = "4 x user capacity or 2 h 01 min, whichever comes first"
    expected = sentence.format(first=first, tracked="the tracked variable is", limit=limit)
    fills = str(overrides.get("settling.minimum_fills", 0 if test == "iops" else 1))
    if fills != "0":
        times = {"1": "", "1.5": "1.5 times "}[fills]
        expected += (
            f" A window counts only if at least {times}as much data as the ActiveRange holds was written by its end; "
            "this rule is of this suite."
        )

    assert page.blocks[-1].text.endswith(f" {expected}")  # type: ignore[union-attr]


@pytest.mark.parametrize("test", ["hir", "xsr"])
def test_the_tolerance_of_recovery_is_the_suites(test: str) -> None:
    """The standard has no such tolerance, in any version: no clause of it is cited."""
    (first, *_) = build(samples.result_of(test, pts="1.1", overrides=BRIEF[test])).pages
    text = " ".join(block.text for block in first.blocks if isinstance(block, Prose))

    assert "these numbers are of this suite" in text
    assert "2.1.24" not in text


def test_the_provenance_names_purge_and_preconditioning_of_each_part() -> None:
    """Each block size has its own purge and WIPC, and its own evidence."""
    rows = tables(result_of("TP"), "Provenance")["Procedure"]
    for part in ("1024 KiB", "128 KiB"):
        assert "verified: 64 of 64 sample blocks were erased" in rows[f"Purge, {part}"][0]
        assert f"SEQ {part} 0/100, 2 passes" in rows[f"WIPC, {part}"][0]
        assert f"rounds, {part}: " in rows["Evidence"][0]
    assert rows["Evidence"][0].startswith("purge: 00001-purge, ")
    points = "rounds, 1024 KiB: 18 points between 00003-point and 00020-point"
    assert f"WIPC: 00002-point, 00021-point; {points}; " in rows["Evidence"][0]


def test_many_files_of_evidence_are_a_count_between_two_names() -> None:
    """Files of other steps may lie between the first and the last: the text is no range."""
    result = samples.result_of("composite", overrides=BRIEF["composite"])
    (evidence,) = tables(result, "Provenance")["Procedure"]["Evidence"]
    rounds = [point for measured in result.loops[0].rounds for point in measured.measurements]
    pre_writes = [part.evidence for line in result.lines("pre-write") for part in line.measurements]

    assert f"; rounds: {len(rounds)} points between {rounds[0].evidence} and {rounds[-1].evidence}" in evidence
    assert f"; pre-write: {', '.join(pre_writes)}; " in evidence


def test_a_simulated_run_has_virtual_dates_and_gaps_and_proves_nothing(tmp_path: Path) -> None:
    """Its times are those of a virtual clock without gaps, and a model has no data that a purge could leave."""
    for result in (samples.result_of("hir", overrides=BRIEF["hir"]), reference("hir", tmp_path / "run").result):
        simulated, report = result.facts.dut.simulated, build(result)
        shown, gaps = tables(result, "Provenance"), [gap for gap in result.gaps if gap.requested_seconds is None]
        procedure = {name: values[0] for name, values in shown["Procedure"].items()}
        marks = [
            procedure["Purge"].endswith("erased"),
            procedure["Idle gap between points"].startswith(f"{len(gaps)} gaps: median "),
        ]
        marks.append("s shortest" in procedure["Idle for 5 s"])

        assert marks == [not simulated] * 3
        if simulated:
            assert procedure["Idle gap between points"] == "none (virtual time)"
            assert procedure["Idle for 5 s"] == "2 times (virtual time)"
        dates = [report.header.dates.rows[0][at] for at in (1, 3)]
        assert [date.endswith(" UTC (virtual)") for date in dates] == [simulated] * 2
        assert shown["Run"]["Started, finished"][0] == ", ".join(dates)


def test_a_model_has_no_threads_that_could_end_before_others() -> None:
    """The warning on an uneven end is for real drives."""
    for simulated in (False, True):
        device = samples.dut(kind="simulated" if simulated else "drive")
        result = samples.result_of("wsat", device=device, overrides=[("saturation.capacities", 0.5)])
        assert any(warning.what == "end of the stimulus" for warning in run_warnings(result)) is not simulated


def test_warnings_and_evidence_count_the_same_measurements() -> None:
    """A warning about all measurements counts as many as the provenance has in all: points and preconditioning."""
    result = samples.iops_result()
    (loop,) = result.loops
    first, *others = loop.rounds
    noted = dataclasses.replace(first.measurements[0], engine_messages=("fio: a note",))
    measured = dataclasses.replace(first, measurements=(noted, *first.measurements[1:]))
    result = dataclasses.replace(result, loops=(dataclasses.replace(loop, rounds=(measured, *others)),))
    (warning,) = (warning for warning in run_warnings(result) if warning.what == "fio's message")
    evidence = tables(result, "Provenance")["Procedure"]["Evidence"][0]
    points, everything = sum(len(one.measurements) for one in loop.rounds), len(list(result.measurements))

    assert everything == points + 1
    assert f"rounds: {points} points between {first.measurements[0].evidence} and " in evidence
    assert evidence.endswith(f"; {everything} measurements in all")
    assert warning.detail.startswith(f"in 1 of {everything} measurements ")


@pytest.mark.long
def test_the_provenance_separates_requested_from_other_idle_times() -> None:
    """Each wait state of host idle recovery has its own row; gaps between points exclude the requested idle times."""
    result = samples.result_of("hir")
    rows = tables(result, "Provenance")["Procedure"]
    selected = [gap for gap in result.gaps if gap.requested_seconds is not None]
    assert len(selected) == 5 * 360
    for seconds in (5, 10, 15, 25, 50):
        idle = [gap.idle_ms / 1000 for gap in selected if gap.requested_seconds == seconds]
        shortest, median, longest = min(idle), statistics.median(idle), max(idle)
        figures = f"{shortest:.3f} s shortest, {median:.3f} s median, {longest:.3f} s longest (upper bounds)"
        assert rows[f"Idle for {seconds} s"] == (f"360 times without host I/O: {figures}",)
    between = rows["Idle gap between points"][0]
    assert between.startswith(f"{len(result.gaps) - len(selected)} gaps: ")
    worst = max(gap.idle_ms for gap in result.gaps if gap.requested_seconds is None)
    assert f"longest {number(worst, digits=3)} ms; this includes" in between


@pytest.mark.long
def test_idle_times_with_io_of_other_programs_are_not_reported_as_idle() -> None:
    """The provenance, the first page and result.xml have the number of disturbed idle times."""
    result = samples.result_of("hir")
    index = next(index for index, gap in enumerate(result.gaps) if gap.requested_seconds == 25)
    gaps = [dataclasses.replace(gap, disturbed=number == index) for number, gap in enumerate(result.gaps)]
    disturbed = dataclasses.replace(result, gaps=tuple(gaps))
    row = tables(disturbed, "Provenance")["Procedure"]["Idle for 25 s"][0]
    page = build(disturbed).pages[0]
    (note,) = (block.text for block in page.blocks if isinstance(block, Prose) and "Baseline:" in block.text)
    groups = re.findall(r'<gaps [^>]* disturbed="(\d+)"', result_xml(disturbed).decode())

    assert row.startswith("360 times without I/O of the test: ")
    assert row.endswith("; other programs did I/O in 1 of them")
    assert "1 of 1800 idle times were disturbed: other programs did I/O on the drive." in note
    assert groups == ["1"]


@pytest.mark.long
def test_the_provenance_has_the_number_of_engine_starts() -> None:
    """The procedure has the number of fio starts of each continuous stimulus; a test without one has no such row."""
    result = samples.result_of("hir")
    line = result.time_line("PC")
    assert line
    rows = tables(result, "Provenance")["Procedure"]
    (starts,) = (cells[0] for name, cells in rows.items() if name.startswith("fio starts"))
    assert f"PC: {line.engine_starts};" in starts
    assert "access A: 360 for each of 5" in starts
    assert "access C: 1 for each of 5" in starts
    assert not any(name.startswith("fio starts") for name in tables(samples.iops_result(), "Provenance")["Procedure"])


def test_a_simulated_run_has_no_number_of_fio_starts() -> None:
    """No fio is started on a simulated drive: neither the stimulus nor the procedure has such a row."""
    result = samples.result_of("wsat")
    rows = [name for name in _fact_names(result) if name.startswith("fio starts")]
    facts = dataclasses.replace(result.facts, dut=dataclasses.replace(result.facts.dut, kind="simulated"))

    assert rows == ["fio starts", "fio starts per continuous stimulus"]
    assert not any(name.startswith("fio starts") for name in _fact_names(dataclasses.replace(result, facts=facts)))


def _fact_names(result: TestResult) -> list[str]:
    """Return the first cell of every row of all tables of a report."""
    tables_ = (block for page in build(result).pages for block in page.blocks if isinstance(block, Table))
    return [row[0] for table in tables_ for row in table.rows]


def interrupted(result: TestResult, *, number: int) -> TestResult:
    """Return a result whose run was interrupted during a round."""
    (loop,) = result.loops

    def counted(measured: Any) -> Any:
        half = len(measured.measurements) // 2
        later = [measured.number > number or (measured.number == number and at > half) for at in range(2 * half + 1)]
        measurements = tuple(
            dataclasses.replace(measurement, timing=dataclasses.replace(measurement.timing, interruptions=int(after)))
            for measurement, after in zip(measured.measurements, later, strict=False)
        )
        return dataclasses.replace(measured, measurements=measurements)

    rounds = tuple(map(counted, loop.rounds))
    window = last_window(rounds, loop_rule(result.facts.spec))  # type: ignore[arg-type]
    return dataclasses.replace(result, loops=(dataclasses.replace(loop, rounds=rounds, window=window),))


def test_no_excursion_is_reported_across_a_missing_round() -> None:
    """After a missing round the table has no excursions until there are five consecutive rounds."""
    result = samples.result_of("hir", steady=False)
    sampling = result.sampling
    assert sampling is not None
    gapped = dataclasses.replace(
        sampling, rounds=tuple(measured_round for measured_round in sampling.rounds if measured_round.number != 8)
    )
    excursions = {}
    for name, variant in (("complete", sampling), ("gapped", gapped)):
        (page,) = steady.rounds_page(result, variant)
        table, note = page.blocks[0], page.blocks[-1]
        assert isinstance(table, Table)
        assert isinstance(note, Prose)
        assert ("is missing here" in note.text) == (name == "gapped")
        excursions[name] = {int(row[0]): row[3:] for row in table.rows}

    assert [number for number, row in excursions["gapped"].items() if any(row)] == [5, 6, 7, *range(13, 26)]
    assert all(excursions["gapped"][number] == excursions["complete"][number] for number in (5, 6, 7, *range(13, 26)))


def test_no_excursion_is_reported_across_an_interruption() -> None:
    """The table by round has no excursions for windows that contain the interruption, and marks the round."""
    result = interrupted(samples.result_of("iops", rounds=11), number=3)
    (page,) = steady.rounds_page(result, *result.loops)
    table, note = page.blocks[0], page.blocks[-1]
    assert isinstance(table, Table)
    assert isinstance(note, Prose)
    assert [row[0] for row in table.rows] == ["1", "2", "* 3", *map(str, range(4, 12))]
    assert [row[2] != "" for row in table.rows] == [False] * 7 + [True] * 4
    assert "no window spans" in note.text
    uninterrupted = samples.result_of("iops", rounds=11)
    (page,) = steady.rounds_page(uninterrupted, *uninterrupted.loops)
    assert not page.blocks[-1].text.count("*")  # type: ignore[union-attr]


@pytest.mark.parametrize(("number", "text"), [(8, "3 complete rounds since the interruption"), (11, "No complete")])
def test_rounds_before_an_interruption_do_not_count_for_a_window(number: int, text: str) -> None:
    """The message about too few rounds counts only the rounds after the interruption."""
    result = interrupted(samples.result_of("iops", rounds=11), number=number)
    (loop,) = result.loops
    assert loop.window is None
    assert steady.too_few(loop.complete, loop_rule(result.facts.spec)).startswith(text)  # type: ignore[arg-type]
    assert len(build(result).pages) > 2


@pytest.mark.parametrize(("scale", "is_missing"), [(1.0, False), (1e-4, True)])
def test_a_missing_percentile_of_a_tracked_point_is_explained(scale: float, is_missing: bool) -> None:
    """The key figures say how many I/Os 99.999 % needs, and only if a point has too few."""
    result = samples.result_of("throughput", scale=scale)
    page = build(result).pages[0]
    (table,) = (block for block in page.blocks if isinstance(block, Table) and block.title.startswith("Key figures of"))
    place = [column.heading for column in table.columns].index("99.999 % (ms)")
    assert any(row[place] == "n/a" for row in table.rows) == is_missing
    assert ("99.999 % is n/a: it needs 100 000 I/Os." in text_of(page)) == is_missing
