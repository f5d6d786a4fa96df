"""Response time percentiles of reads and of writes: their counts, the rule for too few I/Os, matrices and figures."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import pytest

from snia_pts.model.histogram import Histogram
from snia_pts.model.measurement import NO_TRANSFERS, Direction, Measurement, Transfers, percentile_response_us
from snia_pts.record.document import parse
from snia_pts.record.result_xml import result_xml
from snia_pts.report.figures import render as drawing
from snia_pts.report.formats import xlsx
from snia_pts.report.pages import Page, Prose
from snia_pts.report.registry import build
from snia_pts.report.sections import response_over_time
from snia_pts.report.tables import Table
from snia_pts.results.attributes import Tail, tails
from snia_pts.results.result import TestResult
from snia_pts.results.tables import all_tables
from snia_pts.spec import loop_rule
from tests import samples
from tests.test_report_data import Book
from tests.test_report_figures import check

TITLE = "Response Time Percentiles - Tabular Data"
THIN = "\N{NARROW NO-BREAK SPACE}"


def with_point(result: TestResult, point: str, bins: dict[Direction, dict[int, int]]) -> TestResult:
    """Return a result in which each measurement of a point in the rounds has these reads and writes."""

    def changed(measurement: Measurement) -> Measurement:
        if measurement.stimulus.label != point:
            return measurement
        return dataclasses.replace(measurement, read=side("read"), write=side("write"))

    def side(direction: Direction) -> Transfers:
        return transfers(bins[direction]) if direction in bins else NO_TRANSFERS

    loops = []
    for loop in result.loops:
        rounds = [
            dataclasses.replace(measured, measurements=tuple(map(changed, measured.measurements)))
            for measured in loop.rounds
        ]
        loops.append(dataclasses.replace(loop, rounds=tuple(rounds)))
    return dataclasses.replace(result, loops=tuple(loops))


def transfers(bins: dict[int, int]) -> Transfers:
    ios = sum(bins.values())
    return Transfers(
        ios=ios,
        transferred_bytes=4096 * ios,
        runtime_ms=60_000,
        response_min_ns=min(bins),
        response_mean_ns=sum(edge * count for edge, count in bins.items()) / ios,
        response_max_ns=max(bins),
        histogram=Histogram.from_bins(bins.items()),
    )


def tails_of(result: TestResult, point: str) -> dict[str, Tail]:
    return {tail.direction: tail for tail in tails(result) if tail.point == point and tail.phase == "round"}


def tables_of(page: Page) -> dict[str, Table]:
    return {block.title: block for block in page.blocks if isinstance(block, Table)}


def page_of(result: TestResult) -> Page:
    (page,) = (page for page in build(result).pages if page.title == TITLE)
    return page


def cell(table: Table, row: str, column: str) -> str:
    (values,) = (values for values in table.rows if values[0] == row)
    return values[[heading.heading for heading in table.columns].index(column)]


def test_reads_and_writes_are_apart_over_all_rounds_of_the_window() -> None:
    """Fast reads and slow writes of a mixed point do not mix; their counts are those of the five rounds."""
    reads = {100_000: 19_999, 200_000: 1}
    writes = {5_000_000: 990, 9_000_000: 10}
    result = with_point(samples.iops_result(), "RND 4 KiB 65/35", {"read": reads, "write": writes})
    found = tails_of(result, "RND 4 KiB 65/35")

    assert (found["read"].ios, found["write"].ios) == (100_000, 5000)
    assert list(found["read"].percentiles_us.values()) == [100, 100, 100, 100, 200]
    assert list(found["write"].percentiles_us.values()) == [5000, 5000, 9000, None, None]
    assert (found["read"].maximum_us, found["write"].maximum_us) == (200, 9000)


def test_result_xml_has_the_percentiles_of_reads_and_of_writes_with_their_counts() -> None:
    """It omits the percentiles that need more I/Os than there are, here 10 000 for 99.99 % of 5000 writes."""
    reads = {100_000: 19_999, 200_000: 1}
    writes = {5_000_000: 990, 9_000_000: 10}
    result = with_point(samples.iops_result(), "RND 4 KiB 65/35", {"read": reads, "write": writes})
    elements = parse(result_xml(result), "result.xml").findall("percentiles[@point='RND 4 KiB 65/35']")
    point = {"part": result.loops[0].part, "phase": "round", "point": "RND 4 KiB 65/35", "read_percent": "65"}
    stimulus = {"block_size_bytes": "4096", "thread_count": "4", "queue_depth": "32"}
    read = {"direction": "read", "ios": "100000", "maximum_response_us": "200", "five_nines_response_us": "200"}
    read |= dict.fromkeys(
        (f"{nines}_response_us" for nines in ("median", "two_nines", "three_nines", "four_nines")), "100"
    )
    write = {"direction": "write", "ios": "5000", "maximum_response_us": "9000"}
    write |= {"median_response_us": "5000", "two_nines_response_us": "5000", "three_nines_response_us": "9000"}

    assert [dict(element.attrib) for element in elements] == [point | stimulus | read, point | stimulus | write]


@pytest.mark.parametrize("test", ["composite", "wsat", "xsr"])
def test_result_xml_has_the_rows_of_the_table_of_percentiles(test: str) -> None:
    """Also those of histograms; a run whose stimuli have no rounds and no histogram has none."""
    result = samples.result_of(test)
    (table,) = (table for table in all_tables(result) if table.name == "percentiles")
    rows = [dict(zip(table.fields, row, strict=True)) for row in table.rows]
    elements = parse(result_xml(result), "result.xml").findall("percentiles")

    assert bool(rows) == (test != "xsr")
    assert len(elements) == len(rows)
    for element, row in zip(elements, rows, strict=True):
        assert set(element.attrib) == {name for name, value in row.items() if value is not None}
        assert all(float(element.attrib[name]) == row[name] for name in row if name.endswith("_us") and row[name])


@pytest.mark.long
@pytest.mark.parametrize(("ios", "shown"), [(99_995, "n/a"), (100_000, "0.100")])
def test_five_nines_need_100_000_ios(ios: int, shown: str) -> None:
    """One I/O fewer than needed is n/a in the matrix and in the workbook; the count stands beside it."""
    result = with_point(samples.iops_result(), "RND 4 KiB 0/100", {"write": {100_000: ios // 5}})
    tables = tables_of(page_of(result))
    texts = "".join(Book(xlsx.make(result)).part("xl/sharedStrings.xml").itertext())

    assert cell(tables["Writes: I/Os"], "4", "R/W 0/100") == f"{ios:,}".replace(",", THIN)
    (title,) = (title for title in tables if title.startswith("Writes: 99.999 % response time (ms)"))
    assert cell(tables[title], "4", "R/W 0/100").startswith(shown)
    is_missing = any("n/a" in row for row in tables[title].rows)
    assert title.endswith(f", n/a: fewer than 100{THIN}000 I/Os" if is_missing else "(ms)")
    (four_nines,) = (title for title in tables if title.startswith("Writes: 99.99 % response time (ms)"))
    assert cell(tables[four_nines], "4", "R/W 0/100").startswith("0.100")
    assert "n/a: fewer I/Os than 2 for 50 %, 100 for 99 %" in texts


@pytest.mark.parametrize("scale", [1e-3, 3e-2])
def test_a_percentile_that_no_point_has_is_a_sentence(scale: float) -> None:
    """Nothing is printed twice: each percentile has either a table with a number in it, or the sentence."""
    page = page_of(samples.result_of("iops", scale=scale))
    tables = tables_of(page)
    sentences = [block.text for block in page.blocks if isinstance(block, Prose)][1:]
    for side in ("Reads", "Writes"):
        counts = [cell for row in tables[f"{side}: I/Os"].rows for cell in row[1:] if cell != "n/a"]
        most = max(int(cell.replace(THIN, "")) for cell in counts)
        for percent, least in (("50", 2), ("99", 100), ("99.9", 1000), ("99.99", 10_000), ("99.999", 100_000)):
            name, count = f"{side}: {percent} % response time", f"{least:,}".replace(",", THIN)
            sentence = f"{name}: n/a, every point has fewer than {count} I/Os."
            assert (sentence in sentences) == (most < least)
            assert any(title.startswith(f"{name} (ms)") for title in tables) == (most >= least)
    assert sentences


def test_a_mix_without_reads_has_no_column_of_reads() -> None:
    """0/100 is no column of the reads, and 100/0 none of the writes."""
    tables = tables_of(page_of(samples.iops_result()))
    headings = {
        name: {column.heading for table in tables.values() if table.title.startswith(name) for column in table.columns}
        for name in ("Reads", "Writes")
    }
    assert "R/W 0/100" not in headings["Reads"]
    assert "R/W 100/0" not in headings["Writes"]
    assert len(tables) == 12


def test_matrices_that_fit_into_one_table_have_reads_and_writes_beside_each_other() -> None:
    """The latency test has two mixes with reads and two with writes: one table for each percentile."""
    tables = tables_of(page_of(samples.result_of("latency")))
    assert {title.partition(":")[0] for title in tables} == {"Reads and writes"}
    assert [column.heading for column in tables["Reads and writes: I/Os"].columns] == [
        "Block size (KiB)",
        "Reads R/W 65/35",
        "Reads R/W 100/0",
        "Writes R/W 0/100",
        "Writes R/W 65/35",
    ]


@pytest.mark.parametrize("test", ["iops", "latency", "dirth"])
def test_a_run_without_a_window_has_no_percentiles_page(test: str) -> None:
    """Without a window, or without any I/O, there is nothing to show."""
    for result in (samples.result_of(test, stop_after=1, ending="interrupted"), samples.result_of(test, scale=0.0)):
        assert TITLE not in {page.title for page in build(result).pages}


@pytest.mark.long
def test_percentiles_over_iops_have_a_panel_for_reads_and_one_for_writes() -> None:
    """Each panel has each point at its IOPS, with the percentile of its reads, or of its writes; all share a scale."""
    result = samples.result_of("dirth")
    (planned,) = (figure for figure in build(result).figures if figure.name == "percentiles-over-iops")
    with drawing.settings():
        figure = planned.draw()
        check(figure)
    columns = {"99 %": "two_nines_response_us", "99.9 %": "three_nines_response_us"}
    assert [axes.get_title("left") for axes in figure.axes] == [
        f"{side}: {percent}" for percent in columns for side in ("Reads", "Writes")
    ]
    for axes in figure.axes:
        side, percent = axes.get_title("left").split(": ")
        expected = [tail for tail in tails(result) if tail.phase == "round" and f"{tail.direction}s" == side.lower()]
        times = [tail.percentiles_us[columns[percent]] for tail in expected]
        assert sorted(y for _, y in points(axes.lines)) == sorted(time / 1000 for time in times if time is not None)
    assert len({axes.get_ylim() for axes in figure.axes}) == 1


def points(lines: Sequence[Any]) -> list[tuple[float, float]]:
    """Return the points of the lines of Thread Counts."""
    named = (line for line in lines if re.fullmatch(r"\d+", str(line.get_label())))
    return [point for line in named for point in zip(*map(list, line.get_data()), strict=True)]


@pytest.mark.parametrize("test", ["iops", "latency"])
def test_tracked_points_over_time_are_at_the_end_of_each_measurement(test: str) -> None:
    """Average, 99.9 % and maximum of each round stand at its minute since the loop began."""
    result = samples.result_of(test)
    (loop,) = result.loops
    (planned,) = (figure for figure in build(result).figures if figure.name == "response-over-time")
    with drawing.settings():
        figure: Any = planned.draw()
        check(figure)
    shown = [point for line in figure.axes[0].lines for point in zip(*map(list, line.get_data()), strict=True)]
    start_ns = loop.rounds[0].measurements[0].timing.started_monotonic_ns
    expected = []
    for measured in loop.complete:
        for variable in loop_rule(result.facts.spec).tracked:  # type: ignore[union-attr]
            point = measured.point(variable)
            ended_ns = point.timing.ended_monotonic_ns - start_ns
            three_nines_us = percentile_response_us([point], 99.9)
            assert three_nines_us is not None
            times_us = (point.average_response_us, three_nines_us, point.maximum_response_us)
            expected += [(ended_ns / 60e9, time_us / 1000) for time_us in times_us]
    assert sorted(shown) == [pytest.approx(point) for point in sorted(expected)]


def test_the_time_of_an_interruption_is_left_out() -> None:
    """After a resume, whose clock may have started again, the curve goes on where it ended."""
    result = samples.iops_result()
    (loop,) = result.loops
    later = dataclasses.replace(loop.rounds[-1], measurements=tuple(map(resumed, loop.rounds[-1].measurements)))
    rounds = (*loop.rounds[:-1], later)
    changed = dataclasses.replace(loop, rounds=rounds)
    times, others = response_over_time.ends(loop), response_over_time.ends(changed)
    before, after = loop.rounds[-2].measurements[-1], loop.rounds[-1].measurements[0]
    gap_ns = after.timing.started_monotonic_ns - before.timing.ended_monotonic_ns

    for one, other in zip(loop.rounds[-1].measurements, later.measurements, strict=True):
        assert others[id(other)] == pytest.approx(times[id(one)] - gap_ns / 1e9)


def test_a_curve_over_time_has_only_the_notes_that_apply() -> None:
    """The notes on interruptions and on few I/Os are only in the captions of runs that have them."""
    result = samples.iops_result()
    (loop,) = result.loops
    later = dataclasses.replace(loop.rounds[-1], measurements=tuple(map(resumed, loop.rounds[-1].measurements)))
    stopped = dataclasses.replace(result, loops=(dataclasses.replace(loop, rounds=(*loop.rounds[:-1], later)),))
    few = with_point(result, "RND 4 KiB 0/100", {"write": {1000: 999}})
    notes = ("Interruptions of the run do not count.", "99.9 % is missing below 1 000 I/Os.")
    expected = ((result, (False, False)), (stopped, (True, False)), (few, (False, True)))
    for changed, noted in expected:
        (page,) = response_over_time.response_time_page(changed, changed.loops[0])
        (figure,) = page.blocks
        assert tuple(note in figure.caption for note in notes) == noted  # type: ignore[union-attr]


def resumed(measurement: Measurement) -> Measurement:
    timing = measurement.timing
    shifted = dataclasses.replace(
        timing,
        interruptions=1,
        started_monotonic_ns=timing.started_monotonic_ns + 10**15,
        ended_monotonic_ns=timing.ended_monotonic_ns + 10**15,
    )
    return dataclasses.replace(measurement, timing=shifted)
