"""The numbers and words of a report: tables, matrices, verdicts, and which pages a result has."""

from __future__ import annotations

import dataclasses
import math
import re
import statistics
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from snia_pts.analysis.steady_state import determine
from snia_pts.cli.text.formatting import excursions
from snia_pts.cli.text.result import result_lines
from snia_pts.model.annotations import Annotations
from snia_pts.model.dut import TargetKind
from snia_pts.model.measurement import METRICS, MeasuredRound, Measurement
from snia_pts.model.run_options import RunOptions
from snia_pts.model.test_platform import HostSetting
from snia_pts.report.comparison import build_comparison
from snia_pts.report.comparison_summary import Entry
from snia_pts.report.figures import matrices
from snia_pts.report.figures import render as drawing
from snia_pts.report.figures.figure import Side
from snia_pts.report.formats import junit
from snia_pts.report.header import MAX_VALUE_EM, loop_rounds, short, when, width_em
from snia_pts.report.pages import Page, Prose
from snia_pts.report.registry import build
from snia_pts.report.sections import summary
from snia_pts.report.sections.steady_state import determination_table, line
from snia_pts.report.tables import Column, Table, aligned, significant, thousands
from snia_pts.results.limit_checks import Judgement
from snia_pts.results.result import Ending, Loop, RunWarning, TestResult
from snia_pts.results.unsteady_points import unsteady_points
from snia_pts.spec import SPEC_TYPES, Deviation, IopsSpec
from snia_pts.spec.limits import Limit
from snia_pts.spec.reader import read_specification
from snia_pts.units import capacity
from tests import samples
from tests.killing import BRIEF

SPEC = cast("IopsSpec", read_specification("iops", "2.0.2", "enterprise").spec)
RULE, IOPS, MB_S = SPEC.steady_state, METRICS["iops"], METRICS["mb_per_second"]
CONVERGENCE = "IOPS Steady State Convergence Plot"
THIN = "\N{NARROW NO-BREAK SPACE}"


def titles(result: TestResult) -> list[str]:
    return [page.title for page in build(result).pages]


def words(page: Page) -> str:
    parts = [block.text for block in page.blocks if isinstance(block, Prose)]
    for block in page.blocks:
        if isinstance(block, Table):
            parts += [block.title, *(cell for row in block.rows for cell in row)]
    return "\n".join(parts)


def cells_of(page: Page, title: str) -> tuple[tuple[str, ...], ...]:
    return next(block.rows for block in page.blocks if isinstance(block, Table) and title in block.title)


def loop_of(result: TestResult) -> Loop:
    loop = result.loop()
    assert loop
    return loop


@given(st.lists(st.floats(1e-4, 1e9), min_size=1))
def test_aligned_numbers_have_equal_decimals(values: list[float]) -> None:
    """The numbers of a right-aligned column have equally many decimals, at most four."""
    decimals = {len(text.partition(".")[2]) for text in aligned(values)}
    assert len(decimals) == 1
    assert decimals <= {0, 1, 2, 3, 4}


def test_missing_numbers_are_shown_as_n_a() -> None:
    """None, nan and infinity are n/a, and do not disturb the numbers beside them."""
    assert aligned([None, math.nan, math.inf, 1234.5, 32.7]) == ("n/a", "n/a", "n/a", f"1{THIN}234.5", "32.7")
    assert thousands(-1234567, 0) == f"-1{THIN}234{THIN}567"


def test_rates_and_response_times_have_four_digits_each() -> None:
    """Numbers of one table differ by orders of magnitude; more digits than four of one would not have been measured."""
    shown = significant([1132.4621, 206.5695, 15.0431, 0.032381, 171.956, None, math.nan])
    assert shown == (f"1{THIN}132", "206.6", "15.04", "0.03238", "172.0", "n/a", "n/a")


def test_a_table_whose_rows_do_not_fit_is_refused() -> None:
    """Every row must have as many cells as there are columns."""
    with pytest.raises(ValueError, match="every row has 2 cells"):
        Table(kind="facts", columns=(Column(), Column()), rows=(("a",),))


def test_the_determination_block_has_the_published_figures() -> None:
    """The block of golden case G3 (TP 128K W) has its published average, excursions and best fit."""
    determination = determine([262.69, 269.38, 271.73, 272.63, 273.07], RULE)
    rows = {row[0]: row[1:] for row in determination_table(determination, RULE, MB_S, "1 - 5").rows}
    assert rows["Average"] == ("269.900", "100", "")
    assert rows["Measured data excursion"] == ("10.380", "3.85", "pass")
    assert rows["Measured slope excursion"] == ("9.604", "3.56", "pass")
    assert rows["Least squares line (R: round, 1 to 5)"][0] == "2.401 x R + 262.697"
    assert rows["Verdict"] == ("", "", "STEADY")


def test_the_best_fit_is_the_least_squares_line() -> None:
    """The formula is that of golden case G4's kind, not the line from the first to the last point."""
    determination = determine([287.6, 287.36, 285.91, 272.66, 278.9], RULE)
    assert line(determination) == "-3.210 x R + 292.116"
    assert (determination.values[-1] - determination.values[0]) / 4 != pytest.approx(determination.slope, rel=0.1)


def test_the_determination_of_short_response_times_has_enough_digits() -> None:
    """Response times are in ms, as on all other pages; an excursion of 0.00027 ms has four digits."""
    determination = determine([0.02555, 0.02571, 0.02556, 0.02568, 0.02582], RULE)
    table = determination_table(determination, RULE, METRICS["average_response_ms"], "1 - 5")
    rows = {row[0]: row[1:] for row in table.rows}
    assert table.columns[1].heading == "ms"
    assert rows["Average"][0] == "0.0256640"
    assert rows["Measured data excursion"][:2] == ("0.0002700", "1.05")
    assert rows["Least squares line (R: round, 1 to 5)"][0] == "0.0000510 x R + 0.0255110"


def test_allowed_excursions_come_from_the_specification() -> None:
    """The block prints and applies a changed rule."""
    rule = dataclasses.replace(RULE, data_excursion_percent=3.0)
    determination = determine([262.69, 269.38, 271.73, 272.63, 273.07], rule)
    rows = {row[0]: row[1:] for row in determination_table(determination, rule, MB_S, "1 - 5").rows}
    assert rows["Allowed maximum data excursion"][1] == "3"
    assert rows["Measured data excursion"][2] == "FAIL"
    assert rows["Verdict"] == ("", "", "NOT ACHIEVED")


@pytest.mark.parametrize(
    ("kind", "values", "bound"),
    [
        ("data", [90.0, 100.0, 110.00000001, 100.0, 100.0], 20),
        ("slope", [95.0, 97.5, 100.0, 102.5, 105.00000001], 10),
    ],
)
def test_an_excursion_just_above_its_limit_is_printed_differently(kind: str, values: list[float], bound: int) -> None:
    """A FAIL beside the digits of the limit would be a contradiction, in report and terminal."""
    determination = determine(values, RULE)
    rows = {row[0]: row[1:] for row in determination_table(determination, RULE, IOPS, "1 - 5").rows}
    measured, percent, verdict = rows[f"Measured {kind} excursion"]
    assert verdict == "FAIL"
    assert float(measured) > float(rows[f"Allowed maximum {kind} excursion"][0])
    assert float(percent) > bound

    result = samples.iops_result()
    loop = loop_of(result)
    assert loop.window
    window = dataclasses.replace(loop.window, determinations=((RULE.tracked[0], determination),))
    lines = "\n".join(result_lines(dataclasses.replace(result, loops=(dataclasses.replace(loop, window=window),))))
    printed = re.search(rf"{kind} excursion (\S+) IOPS \((\S+) %\), allowed (\S+) IOPS", lines)
    assert printed
    assert float(printed[1]) > float(printed[3])
    assert float(printed[2]) > bound

    shown = re.search(rf"{kind} (\S+) %", excursions(window.determinations))
    assert shown
    assert float(shown[1]) > bound


def test_a_window_without_an_average_is_not_evaluable() -> None:
    """A device without I/O has no figures, and the verdict NOT ACHIEVED."""
    table = determination_table(determine([0.0] * 5, RULE), RULE, IOPS, "1 - 5")
    assert "NOT ACHIEVED (not evaluable" in table.rows[-1][1]


def test_a_steady_run_has_all_pages_in_the_standards_order() -> None:
    """Summary, convergence, three windows, response time, rounds, tables, 2D, 3D, percentiles, provenance."""
    assert titles(samples.iops_result(rounds=9)) == [
        "Summary",
        "IOPS Steady State Convergence Plot - All Block Sizes",
        "IOPS Steady State Measurement Window - All Block Sizes, R/W 0/100",
        "IOPS Steady State Measurement Window - RND/4KiB RW0",
        "IOPS Steady State Measurement Window - RND/64KiB RW65",
        "IOPS Steady State Measurement Window - RND/1024KiB RW100",
        "Tracked Points - Response Time vs Time",
        "Tracked Variables by Round",
        "IOPS - All RW Mix & BS - Tabular Data",
        "Response Time and Throughput - Tabular Data",
        "IOPS - All RW Mix & BS - 2D Plot",
        "IOPS - All RW Mix & BS - 3D Columns",
        "Response Time Percentiles - Tabular Data",
        "Provenance",
    ]


def test_pts_1_1_has_one_window_page() -> None:
    """PTS 1.1 tracks one variable."""
    windows = [title for title in titles(samples.iops_result(pts="1.1")) if "Window - RND" in title]
    assert windows == ["IOPS Steady State Measurement Window - RND/4KiB RW0"]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "subject"), [("drive", "Percentiles"), ("simulated", "Percentiles and maxima")])
def test_maxima_of_a_simulated_run_are_midpoints_of_bins(kind: TargetKind, subject: str) -> None:
    """Table of response times and percentiles have the note, the summary a short one; a drive's maxima are measured."""
    pages = build(samples.iops_result(device=samples.dut(kind=kind))).pages
    noted = [page.title for page in pages if f"{subject} are midpoints of bins " in words(page)]
    assert noted == ["Response Time and Throughput - Tabular Data", "Response Time Percentiles - Tabular Data"]
    assert ("MRT: midpoint of a bin of the model." in words(pages[0])) == (kind == "simulated")


@pytest.mark.long
def test_a_run_that_is_not_steady_says_so_on_every_page_of_its_window() -> None:
    """The verdict, the header, the windows' titles and blocks, and the tables' titles have NOT ACHIEVED."""
    result = samples.iops_result(steady=False)
    report = build(result)
    assert summary.verdict(result) == "STEADY STATE NOT ACHIEVED (last window: rounds 21 - 25)"
    assert loop_rounds(result) == "21 - 25, NOT ACHIEVED"
    assert any("21 - 25, NOT ACHIEVED" in row for row in report.header.blocks.rows)
    windows = [page for page in report.pages if "Measurement Window" in page.title]
    assert len(windows) == 4
    assert all(page.title.endswith("NOT ACHIEVED") for page in windows)
    assert any("NOT ACHIEVED" in figure.caption for figure in report.figures if figure.name == "window-all")
    assert all("STEADY STATE NOT ACHIEVED" in words(page) for page in windows[1:])
    tables = [page for page in report.pages if "Tabular Data" in page.title]
    assert all("rounds 21 - 25, NOT ACHIEVED" in words(page) for page in tables)


@pytest.mark.parametrize(
    ("stop_after", "pages", "message"),
    [
        (0, ["Summary", "Provenance"], "No complete round; a measurement window needs 5"),
        (1, ["Summary", "Provenance"], "No complete round; a measurement window needs 5"),
        (2 + 3, ["Summary", "Provenance"], "No complete round; a measurement window needs 5"),
        (
            2 + 3 * 56 + 20,
            [
                "Summary",
                f"{CONVERGENCE} - All Block Sizes",
                "Tracked Points - Response Time vs Time",
                "Tracked Variables by Round",
                "Provenance",
            ],
            "3 complete rounds; a measurement window needs 5",
        ),
    ],
)
def test_a_stopped_run_shows_its_data_and_lists_missing_pages(stop_after: int, pages: list[str], message: str) -> None:
    """Pages without data are omitted; the summary has INCOMPLETE, the reason, and the omitted pages."""
    result = samples.iops_result(
        rounds=9, stop_after=stop_after, ending="interrupted", ending_detail="Ctrl-C in round 4"
    )
    report = build(result)
    assert [page.title for page in report.pages] == pages
    text = words(report.pages[0])
    assert "INCOMPLETE (interrupted)" in text
    assert "Ctrl-C in round 4" in text
    assert message in text
    assert "NOT PTS conformant: the run did not finish" in text
    assert any("none (INCOMPLETE)" in row for row in report.header.blocks.rows)


def test_deviations_come_first_and_undo_conformance() -> None:
    """Deviations precede the key figures, each with its clause; without any the run is PTS conformant."""
    deviation = Deviation(what="cache", standard="disabled", actual="enabled", clause="2.0.2 section 3.7")
    warned = RunWarning(what="temperature", detail="71 degrees")
    page = build(samples.iops_result(found=[deviation], warnings=[warned])).pages[0]
    names = [block.title for block in page.blocks if isinstance(block, Table)]
    assert [name.partition(",")[0] for name in names] == [
        "Deviations from the standard",
        "Warnings",
        "Key figures of the measurement window",
        "The run",
    ]
    assert cells_of(page, "Deviations") == (("cache", "disabled", "enabled", "2.0.2 section 3.7"),)
    assert "NOT PTS conformant: 1 deviation" in words(page)
    assert "PTS conformant: no deviation" in words(build(samples.iops_result()).pages[0])


@pytest.mark.parametrize(
    ("key", "value", "required"),
    [
        ("conditioning.maximum", 5, "25, or more until steady state"),
        ("settling.stride_samples", 1, "30 to 31"),
        ("saturation.seconds", 60, "21600 to 86400 s"),
        ("demand.point_seconds", 0.5, "60 s"),
    ],
)
def test_a_bound_of_the_suite_is_not_a_requirement_of_the_standard(key: str, value: float, required: str) -> None:
    """The suite measures at most 1024 rounds; the standard has no such maximum, but a range of strides."""
    test = "wsat" if key == "saturation.seconds" else "dirth"
    found = read_specification(test, "2.0.2", "enterprise", overrides=[(key, value)]).deviations
    (row,) = cells_of(build(samples.result_of(test, found=found)).pages[0], "Deviations")
    assert row[:2] == (key, required)


@pytest.mark.long_but_first
@pytest.mark.parametrize("test", ["iops", "throughput", "latency", "hir", "composite"])
def test_a_run_that_is_not_steady_has_nothing_green_on_its_summary(test: str) -> None:
    """A run without deviations that was never steady states both, and neither line is green."""
    page = build(samples.result_of(test, steady=False)).pages[0]
    assert "No deviation from PTS-E 2.0.2, but steady state was not achieved" in words(page)
    assert [block.text for block in page.blocks if isinstance(block, Prose) and block.kind == "good"] == []


def test_write_saturation_without_steady_state_has_one_verdict_everywhere() -> None:
    """First page, header, terminal and JUnit say NOT ACHIEVED; none is green or passed, and none failed."""
    result = samples.result_of("wsat", steady=False)
    report = build(result)
    (verdict,) = (block for block in report.pages[0].blocks if isinstance(block, Prose) and "COMPLETE" in block.text)
    suite = etree.fromstring(junit.make(result)).find("testsuite")
    assert suite is not None
    assert "steady state NOT ACHIEVED" in verdict.text
    assert verdict.kind == "neutral"
    assert "NOT ACHIEVED" in " ".join(cell for row in report.header.blocks.rows for cell in row)
    assert any("steady state NOT ACHIEVED" in text for text in result_lines(result))
    assert [case.get("name") for case in suite.iterfind("testcase")] == ["the run finishes"]


@pytest.mark.long_but_first
@pytest.mark.parametrize("test", SPEC_TYPES)
def test_no_table_is_in_a_report_twice(test: str) -> None:
    """The figures of the first page are not printed again on a later one; all slow I/Os of the samples are writes."""
    report = build(samples.result_of(test))
    tables = [block for page in report.pages for block in page.blocks if isinstance(block, Table)]
    rows = [table.rows for table in tables if not table.title.startswith("Writes: 99.999 %")]
    assert len(set(rows)) == len(rows)


def test_the_verdict_names_an_unsteady_preconditioning_once() -> None:
    """The verdict of host idle recovery is followed by its last window, with its part."""
    assert summary.verdict(samples.result_of("hir", steady=False)) == (
        "STEADY STATE NOT ACHIEVED (preconditioning) (last window: rounds 21 - 25 (minutes 601 - 721))"
    )


def test_blocks_that_the_sectors_cannot_hold_are_not_applicable() -> None:
    """On 4096-byte sectors only the row of 0.5 KiB is n/a, and the page states why."""
    page = next(page for page in build(samples.iops_result(sector_bytes=4096)).pages if "Tabular" in page.title)
    rows = cells_of(page, "IOPS")
    assert rows[0] == ("0.5", *["n/a"] * 7)
    assert not any("n/a" in row for row in rows[1:])
    assert "smaller than the device's sectors: 0.5 KiB" in words(page)


def test_the_matrix_is_the_mean_of_the_window_in_the_standards_order() -> None:
    """Block sizes ascend down, R/W mixes go from 0/100 to 100/0, and cells have the window's values."""
    result = samples.iops_result()
    values = matrices.reduced([loop_of(result)], matrices.iops)
    (table,) = matrices.matrix_tables(values, matrices.sizes(SPEC.rounds), matrices.mixes(SPEC.rounds), title="IOPS")
    assert [row[0] for row in table.rows] == ["0.5", "4", "8", "16", "32", "64", "128", "1024"]
    mixes = ("0/100", "5/95", "35/65", "50/50", "65/35", "95/5", "100/0")
    assert tuple(column.heading for column in table.columns) == ("Block size (KiB)", *(f"R/W {mix}" for mix in mixes))
    measured = [measurement.iops for measurement in matrices.over(loop_of(result).rounds[-5:], (65536, 65))]
    assert len(measured) == 5
    assert float(table.rows[5][5].replace(THIN, "")) == pytest.approx(statistics.fmean(measured), abs=0.5)


def test_response_times_are_weighted_by_count_and_throughput_is_bytes_over_time() -> None:
    """The ART of two measurements of 1 and 3 I/Os is nearer to the second; MB/s come from totals."""
    one = loop_of(samples.iops_result()).rounds[0].measurements[0]
    write = dataclasses.replace(one.read, ios=3, response_mean_ns=4e6, transferred_bytes=6 * 10**6, runtime_ms=2000)
    read = dataclasses.replace(one.read, ios=1, response_mean_ns=8e6, transferred_bytes=2 * 10**6, runtime_ms=2000)
    mixed = dataclasses.replace(one, read=read, write=write)
    assert matrices.average_response_ms([mixed]) == 5.0
    assert matrices.mb_per_second([mixed, mixed]) == 4.0
    assert math.isnan(matrices.average_response_ms([]))
    assert math.isnan(matrices.mb_per_second([]))


def test_a_device_without_io_has_no_response_times() -> None:
    """Without any I/O there is no ART and no MRT: the cells are n/a, not 0."""
    page = next(page for page in build(samples.iops_result(scale=0.0)).pages if "Response Time" in page.title)
    for title in ("Average response time", "Maximum response time"):
        assert {cell for row in cells_of(page, title) for cell in row[1:]} == {"n/a"}


def test_percentiles_come_from_merged_bins() -> None:
    """Five nines of few I/Os are not reported; those of a window's merged histogram are."""
    result = samples.iops_result()
    measured = matrices.over(loop_of(result).rounds, (4096, 0))
    assert math.isnan(matrices.percentile_response_ms(measured[:1], 99.99999999))
    assert matrices.percentile_response_ms(measured, 99.999) <= matrices.maximum_response_ms(measured)


def test_the_rounds_table_has_the_window_that_ends_with_each_round() -> None:
    """The first rounds end no window; only the last one ends a steady window, where the test ended."""
    result = samples.iops_result(rounds=9)
    page = next(page for page in build(result).pages if page.title == "Tracked Variables by Round")
    rows = next(block.rows for block in page.blocks if isinstance(block, Table))
    assert [row[0] for row in rows] == [str(number) for number in range(1, 10)]
    assert {row[4] for row in rows[:4]} == {""}
    assert [row[4] == row[8] == row[12] == "yes" for row in rows] == [False] * 8 + [True]
    window = loop_of(result).window
    assert window is not None
    assert float(rows[-1][2]) == pytest.approx(window.determinations[0][1].data_excursion_percent, abs=0.006)


def test_written_data_counts_everything_since_the_purge() -> None:
    """The bytes of the whole run include preconditioning and incomplete rounds."""
    result = samples.iops_result(stop_after=2 + 56 + 3, ending="interrupted")
    measured: list[Measurement] = [
        measurement for measured_round in loop_of(result).rounds for measurement in measured_round.measurements
    ]
    (conditioned,) = result.lines("WIPC")[0].measurements
    written = sum(item.write.transferred_bytes for item in (conditioned, *measured))
    assert len(measured) == 56 + 3
    rows = {row[0]: row[1] for row in cells_of(build(result).pages[0], "The run")}
    assert rows["Data written, whole run"].startswith(f"at least {capacity(written)}, ")


def test_a_simulated_drive_s_time_is_called_virtual() -> None:
    """The duration of a simulated run is not reported as real time."""
    for kind, virtual in (("simulated", True), ("drive", False)):
        result = samples.iops_result(device=samples.dut(kind=kind))
        rows = {row[0]: row[1] for row in cells_of(build(result).pages[0], "The run")}
        assert rows["Duration"].endswith(" (virtual)") is virtual


def test_the_header_invents_nothing() -> None:
    """An unknown field is an en dash; every other field has the result's value."""
    device = samples.dut(serial="", firmware="")
    blocks = {
        name: value
        for row in build(samples.iops_result(device=device)).header.blocks.rows
        for name, value in zip(row[::2], row[1::2], strict=True)
    }
    for name in ("Mfgr", "S/N", "Firmware ver", "NAND Type", "HBA", "PCIe"):
        assert blocks[name] == "\N{EN DASH}"
    assert blocks["Model No."] == "EXAMPLE MZ7L3960HCJR-00A07"
    assert blocks["Write Cache"] == "disabled (WCD), ATA IDENTIFY"
    assert blocks["Test Stimulus 2"] == "n/a"


@pytest.mark.parametrize(
    ("bus", "link"),
    [("SATA", "n/a"), ("SAS 12 Gb/s x2 (simulated)", "n/a"), ("USB", "\N{EN DASH}"), ("NVMe", "\N{EN DASH}")],
)
def test_a_drive_of_another_bus_has_no_pcie_link(bus: str, link: str) -> None:
    """It is not applicable to SATA and SAS; that of an NVMe drive, also behind USB, may be unknown."""
    rows = build(samples.iops_result(device=samples.dut(bus=bus))).header.blocks.rows
    assert ("PCIe/NVMe", link) in [row[2:4] for row in rows]


def test_a_simulated_drive_has_the_link_of_its_interface() -> None:
    """No PCIe link can be read; the interface of the model states it."""
    device = samples.dut(kind="simulated", bus="NVMe PCIe 4.0 x4 (simulated)")
    rows = build(samples.iops_result(device=device)).header.blocks.rows
    assert ("PCIe/NVMe", "PCIe 4.0 x4") in [row[2:4] for row in rows]


@given(st.text())
def test_header_values_are_short(text: str) -> None:
    """Every value fits in its cell of the header, and none is empty."""
    shown = short(text)
    assert shown
    assert sum(map(width_em, shown)) <= MAX_VALUE_EM


def test_no_value_of_the_header_is_lost() -> None:
    """A value that is truncated in the header is in full on the page Provenance."""
    names = ("vendor", "hba", "nand_type", "operator", "motherboard", "cpu", "operating_system")
    long = {name: " ".join([f"the {name} has a name longer than its cell of the header"] * 2) for name in names}
    about = Annotations(vendor=long["vendor"], hba=long["hba"], nand_type=long["nand_type"], operator=long["operator"])
    host = samples.platform(**{name: long[name] for name in names[4:]})
    result = samples.result_of("iops", host=host)
    result = dataclasses.replace(result, facts=dataclasses.replace(result.facts, about=about))
    last = " ".join(words(build(result).pages[-1]).split())
    assert [name for name, value in long.items() if value not in last] == []


def test_a_version_is_in_the_header_once() -> None:
    """A simulated drive has the version of the suite."""
    result = samples.result_of("iops", host=samples.platform(suite_version="0.9", engine_version="0.9"))
    rows = [row for row in build(result).header.blocks.rows if row[0] == "Test SW ver"]
    assert [row[1] for row in rows] == ["0.9"]


def test_times_are_shown_with_their_zone() -> None:
    """ISO 8601 is made readable; an invalid time is shown unchanged."""
    assert when("2026-11-03T01:46:00+00:00") == "2026-11-03 01:46:00 UTC"
    assert when("2026-11-03T01:46:00+08:00") == "2026-11-03 01:46:00 UTC+0800"
    assert when("yesterday") == "yesterday"


@pytest.mark.parametrize(
    ("options", "again"),
    [
        (
            RunOptions(test="throughput", target="d.img", overrides=("rounds.maximum=9",), run_folder=Path("a b")),
            "throughput d.img --seed 7 --set rounds.maximum=9",
        ),
        (
            RunOptions(
                test="profile", target="d.img", specification="etcd-fsync", overrides=("axis.sync=1,2", "repeats=2")
            ),
            "profile run etcd-fsync d.img --seed 7 --axis sync=1,2 --repeats 2",
        ),
        (
            RunOptions(test="iops", target="/dev/sdx", serial="S1", discard_data=True, purge_command="tool {device}"),
            "iops /dev/sdx --purge-command ... --seed 7",
        ),
    ],
)
@pytest.mark.parametrize("several", [False, True])
def test_the_steps_to_repeat_can_be_pasted(options: RunOptions, again: str, several: bool) -> None:
    """They name no existing folder, the run's own seed, and of several tests only this one."""
    result = samples.iops_result()
    run_id = "all-x/iops" if several else "iops-x"
    facts = dataclasses.replace(result.facts, options=options.stored(), seed=7, run_id=run_id)
    report = build(dataclasses.replace(result, facts=facts))
    (step,) = (text for _, text in cells_of(report.pages[-1], "Steps to repeat") if text.startswith("Run the test"))
    assert step.endswith(f"; it creates a new folder in runs/: snia-pts {again}")
    assert ("one of several" in step) is several


def uneven_result(result: TestResult, factors: dict[tuple[float, int], int]) -> TestResult:
    """Return a result with more reads in the window's first round, by block size in KiB and read share."""
    loop = loop_of(result)
    assert loop.window
    first = loop.window.numbers[0]

    def changed(measured_round: MeasuredRound) -> MeasuredRound:
        points = []
        for point in measured_round.measurements:
            size_bytes, read_percent = matrices.size_and_mix(point.stimulus)
            factor = factors.get((size_bytes / 1024, read_percent), 1) if measured_round.number == first else 1
            read = dataclasses.replace(point.read, ios=factor * point.read.ios)
            points.append(dataclasses.replace(point, read=read))
        return dataclasses.replace(measured_round, measurements=tuple(points))

    return dataclasses.replace(result, loops=(dataclasses.replace(loop, rounds=tuple(map(changed, loop.rounds))),))


NOT_STEADY = (
    "not steady in the window (data excursion above 20 % or slope excursion above 10 %); only tracked variables decide "
    "steady state."
)


def test_one_point_that_is_not_steady_is_named_with_both_excursions() -> None:
    """There is no largest one of one point."""
    pages = build(uneven_result(samples.result_of("iops"), {(8, 95): 3})).pages
    noted = words(next(page for page in pages if page.title == "IOPS - All RW Mix & BS - Tabular Data"))
    assert f"1 of 56 points is {NOT_STEADY} It is RND 8 KiB 95/5 (data " in noted
    assert "The largest" not in noted


@pytest.mark.parametrize("steady", [True, False])
def test_points_of_a_steady_window_that_are_not_steady_are_listed(steady: bool) -> None:
    """The tracked variables decide; the note below the matrix names the largest excursions of the other points."""
    result = samples.result_of("iops", steady=steady)
    uneven = uneven_result(result, {(8, 95): 3, (16, 95): 2})
    title, determination = "IOPS - All RW Mix & BS - Tabular Data", determine([3.0, 1, 1, 1, 1], RULE)
    plain, noted = (words(next(page for page in build(one).pages if page.title == title)) for one in (result, uneven))
    sentence = f"2 of 56 points are {NOT_STEADY} "

    assert "not steady in the window" not in plain
    assert (sentence in noted) is steady
    if steady:
        listed, _, largest = noted.partition(sentence)[2].partition(" The largest data excursion is ")
        number, _, name = largest.partition(" % (")
        assert listed == "They are R/W 95/5: 16, 8 KiB."
        assert float(number) == pytest.approx(determination.data_excursion_percent, rel=0.1)
        assert name.startswith("RND 8 KiB 95/5), the largest slope excursion ")
    assert (sentence.strip() in words(build(uneven).pages[0])) is steady


def test_a_mix_of_which_no_point_is_steady_has_no_list_of_block_sizes() -> None:
    """All eight block sizes are one word; the other mixes have their block sizes as measured."""
    all_sizes = {(size / 1024, 50): 2 for size in SPEC.rounds.block_sizes_bytes}
    pages = build(uneven_result(samples.result_of("iops"), {(0.5, 95): 3} | all_sizes)).pages
    noted = words(next(page for page in pages if page.title == "IOPS - All RW Mix & BS - Tabular Data"))
    assert "They are R/W 95/5: 0.5 KiB; 50/50: all block sizes. " in noted


def test_a_caption_names_lines_that_lie_under_others() -> None:
    """A line within 3 % of a later one at each block size is under the last such line; one that differs once is not."""
    across = Side(title="", keys=(1, 2), labels=("1", "2"))
    lines = Side(title="", keys=(0, 50, 95, 100), labels=("0/100", "50/50", "95/5", "100/0"))
    rows = {0: (100.0, 50.0), 50: (200.0, 80.0), 95: (204.0, 81.0), 100: (205.0, 82.0)}
    values = {(at, key): row[at - 1] for key, row in rows.items() for at in across.keys}
    note = matrices.covered_lines(values, across, lines)
    assert note == " 50/50 and 95/5 lie under 100/0: less than 3 % apart."
    values[2, 100] = 90.0
    assert matrices.covered_lines(values, across, lines) == " 50/50 lies under 95/5: less than 3 % apart."
    assert not matrices.covered_lines({**values, (1, 95): 300.0}, across, lines)


def test_points_that_are_not_steady_are_marked() -> None:
    """Each number of the point has the mark in matrices and in the heat map; a page with marks explains them.

    Captions of figures with its value name the page that has the mark.  Nothing else is marked.
    """
    result = uneven_result(samples.result_of("iops"), {(8, 95): 3})
    (loop,) = result.loops
    report, mark = build(result), matrices.UNSTEADY
    tables = [
        (page, table)
        for page in report.pages
        for table in page.blocks
        if isinstance(table, Table) and any(mark in cell for row in table.rows for cell in row)
    ]
    assert [(point.label, state.steady) for point, state in unsteady_points(result, loop).items()] == [
        ("RND 8 KiB 95/5", False)
    ]
    assert {page.title for page, _ in tables} == {
        "IOPS - All RW Mix & BS - Tabular Data",
        "Response Time and Throughput - Tabular Data",
        "Response Time Percentiles - Tabular Data",
    }
    for page, table in tables:
        marked = [(row[0], at) for row in table.rows for at, cell in enumerate(row) if cell.startswith(f"{mark} ")]
        assert [size for size, _ in marked] == ["8"]
        assert "95/5" in table.columns[marked[0][1]].heading
        assert f"{mark} Not steady in the window." in words(page)
    drawn = {figure.name: figure for figure in report.figures}
    with drawing.settings():
        heat_map, columns = (drawn[name].draw() for name in ("dashboard", "matrix-3d"))
    for figure in (heat_map, columns):
        assert sum(text.get_text().startswith(mark) for axes in figure.axes for text in axes.texts) == 1
    assert f" {mark}: not steady in the window." in drawn["dashboard"].caption
    title, count = '"IOPS - All RW Mix & BS - Tabular Data".', "1 of 56 points is not steady in the window, marked"
    assert drawn["matrix-2d"].caption.endswith(f" Values: page {title} {count} there.")
    expected = f" {mark}: 1 of 56 points, not steady in the window. Values: page {title}"
    assert drawn["matrix-3d"].caption.endswith(expected)
    (sizes,) = (page for page in report.pages if "All Block Sizes, " in page.title)
    assert f" {count} on page {title}" in words(sizes)
    assert not any(mark in str(page.blocks) for page in build(samples.result_of("iops")).pages)
    printed = list(result_lines(result))
    (row,) = (line.split(mark) for line in printed if line.count(mark) == 1 and line.startswith("  8 KiB"))
    assert len(row[1].split("  ")) == 2, "95/5 and 100/0"
    assert f"  {mark} Not steady in the window." in printed


def test_a_comparison_lists_points_that_are_not_steady() -> None:
    """For each run that has any, their number, the first names, and how many more there are."""
    plain, uneven = samples.result_of("iops"), uneven_result(samples.result_of("iops"), {(8, 95): 3})
    more = uneven_result(plain, {(size / 1024, 50): 3 for size in SPEC.rounds.block_sizes_bytes})

    def listed(*results: TestResult) -> str:
        letters = zip("ABC", results, strict=False)
        entries = [Entry(label=letter, path=letter, result=result) for letter, result in letters]
        return words(build_comparison(entries).pages[0])

    shown = listed(plain, uneven, more)
    assert "Not steady in a steady window: B: 1 of 56 points (RND 8 KiB 95/5); C: 8 of 56 points (RND " in shown
    assert re.search(
        r"\((RND [0-9.]+ KiB 50/50, ){5}RND [0-9.]+ KiB 50/50 and 2 more\)\. The report on the run marks", shown
    )
    assert "Not steady in a steady window" not in listed(plain, plain)


def test_response_times_of_mixed_points_are_of_reads_and_writes_together() -> None:
    """The tables of percentiles have them apart; throughput without a mixed point has no word on mixed points."""
    iops, throughput, mixed = (
        build(samples.result_of(test, overrides=overrides)).pages
        for test, overrides in (
            ("iops", []),
            ("throughput", []),
            ("throughput", [("rounds.read_percents", [100, 50, 0])]),
        )
    )
    together = "Response times of a mixed point are those of reads and writes together."
    matrix = "Throughput of a mixed point includes reads and writes."
    by_time = next(page for page in iops if page.title == "Tracked Points - Response Time vs Time")

    assert together in words(iops[0])
    assert together not in words(throughput[0])
    assert "reads and writes together" in by_time.blocks[0].caption  # type: ignore[union-attr]
    times = next(page for page in iops if page.title == "Response Time and Throughput - Tabular Data")
    assert together in words(times)
    assert "99.999 % response time (ms), rounds " in words(times)
    latency = build(samples.result_of("latency")).pages
    assert together in words(next(page for page in latency if page.title.endswith("BS - Tabular Data")))
    for pages, expected in ((throughput, False), (mixed, True)):
        assert (matrix in "".join(map(words, pages))) is expected


def test_limits_have_the_words_of_the_report() -> None:
    """Internal names of metrics are for files; the margin says of what it is a percentage."""
    names = {
        "iops": "IOPS",
        "average_response_ms": "Average response time",
        "response_99.9_percent_ms": "99.9 % response time",
        "maximum_response_ms": "Maximum response time",
        "finish_seconds": "Time for one pass",
        "written_gb": "Data written",
    }
    at = "RND 4 KiB 0/100"
    limits = [
        Limit(test="iops", metric=name, at=at, unit="-", minimum=4.0, tolerance_percent=share)
        for name, share in zip(names, (50, 0, 0, 0, 0, 0), strict=True)
    ]
    judged = [Judgement(limit=limit, value=2.0, met=True, reason="") for limit in limits]
    _, table, note = summary.limit_blocks(judged, summary.OF_ROUNDS)

    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == [f"{name} at {at}" for name in names.values()]
    assert [row[1:3] for row in table.rows[:2]] == [
        ("at least 4.000 -", "at least 2.000 (50 %)"),
        ("at least 4.000 -", "no tolerance"),
    ]
    assert "Margin with tolerance (%)" in [column.heading for column in table.columns]
    assert isinstance(note, Prose)
    assert "the distance to the nearest limit with tolerance, in percent of that limit" in note.text


@pytest.mark.parametrize(("test", "has_rounds"), [("iops", True), ("wsat", False)])
def test_only_limits_of_a_test_with_rounds_are_measured_over_rounds(test: str, has_rounds: bool) -> None:
    """A continuous stimulus has no points; only profiles have repeats."""
    limit = Limit(test=test, metric="written_gb", at="the whole test", unit="GB", minimum=1.0)
    result = samples.result_of(test)
    result = dataclasses.replace(result, facts=dataclasses.replace(result.facts, limits=(limit,)))
    page = words(build(result).pages[0])
    (window, *_) = [loop.window for loop in result.loops] or [None]
    rounds = f"rounds {window.numbers[0]} - {window.numbers[-1]}, the measurement window" if window else ""
    assert (f"Measured at points: IOPS and MB/s are means of {rounds};" in page) is has_rounds
    assert "repeats" not in page


def test_patterns_and_microseconds_have_their_signs() -> None:
    """OLTP is an abbreviation, the last part of the range is the rest, and a microsecond is no 'us'."""
    setting = HostSetting(name="idle states", value="up to 1 us", judgement="good", recommended="", reason="")
    host = dataclasses.replace(samples.platform(), settings=(setting,))
    oltp = "".join(map(words, build(samples.result_of("dirth", overrides=BRIEF["dirth"])).pages))
    pages = build(samples.result_of("composite", host=host, overrides=BRIEF["composite"])).pages

    assert "Access pattern: OLTP" in oltp
    assert "to the next 15 %, 20 % of the accesses to the remaining 80 % of the ActiveRange" in "".join(
        map(words, pages)
    )
    assert "up to 1 \N{MICRO SIGN}s" in words(pages[-1])


def test_the_repeated_command_has_the_limits_annotations_and_plugins_of_the_run() -> None:
    """The options of a stored run do not have them; the command line has."""
    line = ("snia-pts", "all", "d.img", "--limits", "a b.toml", "--about=c.toml", "--seed", "1", "--plugin", "p.py")
    pages = build(samples.result_of("iops", command_line=line)).pages
    (step,) = (text for _, text in cells_of(pages[-1], "Steps to repeat") if text.startswith("Run the test"))

    assert step.endswith(f" --seed {samples.SEED} --limits 'a b.toml' --about c.toml --plugin p.py")
    files, compare = (text for _, text in cells_of(pages[-1], "Steps to repeat")[-2:])
    assert "of --limits and --about, omit these options" in files
    assert compare.startswith("Compare")
    run = {row[0]: row[1] for row in cells_of(pages[-1], "Run")}
    assert run["Seed"] == f"{samples.SEED} (derived from --seed 1)"


def test_a_file_is_not_a_device_that_loses_all_data() -> None:
    """Only the file is lost, and nobody needs the same device."""
    file = samples.result_of("iops", device=samples.dut(kind="file", path="d.img"))
    steps = " ".join(text for _, text in cells_of(build(file).pages[-1], "Steps to repeat"))

    assert "all data in the file will be lost" in steps
    assert "same device" not in steps


@pytest.mark.parametrize(
    ("kind", "ending", "expected"),
    [
        ("simulated", "finished", "SHA256SUMS"),
        ("simulated", "interrupted", "snia-pts compare RUN NEW"),
        ("drive", "finished", "snia-pts compare RUN NEW"),
    ],
)
def test_only_a_complete_simulated_run_must_be_equal(kind: TargetKind, ending: Ending, expected: str) -> None:
    """All others are compared with a judgement of the differences; the words of the command are explained."""
    result = dataclasses.replace(samples.iops_result(device=samples.dut(kind=kind)), ending=ending)
    steps = cells_of(build(result).pages[-1], "Steps to repeat")
    assert expected in steps[-1][1]
    assert ("RUN: the folder of this run; NEW: the folder of the new run" in steps[-1][1]) == ("RUN" in expected)


@pytest.mark.parametrize("simulated", [False, True])
def test_only_a_real_device_is_to_be_claimed_and_overwritten(simulated: bool) -> None:
    """The steps to repeat a simulated run name its preset, and no device that would lose its data."""
    device = samples.dut()
    if simulated:
        device = dataclasses.replace(device, kind="simulated", path="sim:optane")
    steps = " ".join(
        text for _, text in cells_of(build(samples.iops_result(device=device)).pages[-1], "Steps to repeat")
    )

    assert ("sim:optane" in steps) is simulated
    assert ("all data on the device will be lost" in steps) is not simulated
    assert (device.serial in steps.partition("Run the test")[0]) is not simulated
