"""Marks of host-limited numbers in a report: matrices, figures, warnings, provenance."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import pytest
from lxml import etree

from snia_pts.cli.text.result import result_lines
from snia_pts.model.host_ceiling import Ceiling, all_shapes
from snia_pts.model.measurement import Measurement
from snia_pts.model.steps import Stimulus
from snia_pts.record.result_xml import result_xml
from snia_pts.report.figures import matrices
from snia_pts.report.figures import render as drawing
from snia_pts.report.figures.figure import Side
from snia_pts.report.pages import Prose
from snia_pts.report.registry import build
from snia_pts.report.tables import NOT_APPLICABLE, Table
from snia_pts.results.result import TestResult
from snia_pts.results.warnings import run_warnings
from tests import samples


def host_limited(test: str, limited: Callable[[Stimulus], bool]) -> TestResult:
    """Return a result with engine-limited points on a calibrated host."""
    result = samples.result_of(test)

    def seen(measured: Measurement) -> Measurement:
        return dataclasses.replace(measured, engine_cpu_percent=97.0 if limited(measured.stimulus) else 20.0)

    loops = tuple(
        dataclasses.replace(
            loop,
            rounds=tuple(
                dataclasses.replace(measured_round, measurements=tuple(map(seen, measured_round.measurements)))
                for measured_round in loop.rounds
            ),
        )
        for loop in result.loops
    )
    stimuli = (
        measurement.stimulus for loop in loops for measured in loop.rounds for measurement in measured.measurements
    )
    ceilings = tuple(Ceiling(shape=shape, iops=2e6, engine_cpu_percent=98.0) for shape in all_shapes(stimuli))
    return dataclasses.replace(result, loops=loops, facts=dataclasses.replace(result.facts, ceilings=ceilings))


@pytest.mark.parametrize(
    ("test", "limited", "count", "matrices_of_them", "key_figures"),
    [
        ("iops", lambda item: item.read_percent == 100 and item.largest_block_bytes <= 4096, 2, 5 + 5, 1),
        ("latency", lambda item: item.read_percent == 100, 3, 5 + 5, 1),
        ("throughput", lambda item: item.read_percent == 100, 2, 1, 2),
        ("dirth", lambda item: item.total_oio >= 512, 3, 4 + 2 * 5, 0),
    ],
)
def test_host_limited_points_are_marked(
    test: str, limited: Callable[[Stimulus], bool], count: int, matrices_of_them: int, key_figures: int
) -> None:
    """Matrices and key figures mark exactly the host-limited points; footnotes and the first warning explain it.

    There is a matrix for each of five percentiles, of reads and of writes that are host-limited.
    """
    result = host_limited(test, limited)
    pages = build(result).pages
    cells = [
        cell
        for page in pages
        for table in page.blocks
        if isinstance(table, Table)
        for row in table.rows
        for cell in row
        if cell.startswith(matrices.HOST_LIMITED)
    ]
    explained = [
        page for page in pages for block in page.blocks if isinstance(block, Prose) and "† Limited" in block.text
    ]

    assert len(cells) == count * matrices_of_them + key_figures
    assert explained
    assert run_warnings(result)[0].what == "host-limited"
    assert "RND" in run_warnings(result)[0].detail or "SEQ" in run_warnings(result)[0].detail


@pytest.mark.long_but_first
@pytest.mark.parametrize("test", ["iops", "latency", "throughput", "dirth"])
@pytest.mark.parametrize("limited", [True, False])
def test_the_first_page_marks_host_limited_figures(test: str, limited: bool) -> None:
    """A host-limited key figure has the mark, which page and terminal explain; other figures have none."""
    result = host_limited(test, lambda item: limited)
    page = build(result).pages[0]
    title = "Operating points" if test == "dirth" else "Key figures"
    (table,) = [block for block in page.blocks if isinstance(block, Table) and block.title.startswith(title)]

    assert {row[0].startswith(f"{matrices.HOST_LIMITED} ") for row in table.rows} == {limited}
    assert (
        any(isinstance(block, Prose) and "\N{DAGGER} Limited by the host" in block.text for block in page.blocks)
        is limited
    )
    assert any(line.startswith("  \N{DAGGER} Limited by the host") for line in result_lines(result)) is limited


@pytest.mark.long
def test_a_figure_marks_host_limited_points() -> None:
    """Columns and surface mark each host-limited point, before its value if that is shown; the caption explains it."""
    for test, name, count in (("iops", "matrix-3d", 8), ("dirth", "demand-variation-surface", 3)):
        result = host_limited(test, lambda item: item.total_oio >= 512 or item.read_percent == 100)
        (figure,) = [figure for figure in build(result).figures if figure.name == name]
        with drawing.settings():
            (axes,) = figure.draw().axes

        assert sum(text.get_text().startswith(matrices.HOST_LIMITED) for text in axes.texts) == count
        assert matrices.HOST_LIMITED in figure.caption


def test_the_provenance_has_the_ceiling_of_the_host() -> None:
    """It has the number of points by judgement with the reasons, and the calibration, or that there was none."""

    def tables(result: TestResult) -> dict[str, Table]:
        return {block.title: block for block in build(result).pages[-1].blocks if isinstance(block, Table)}

    limited = host_limited("iops", lambda item: item.total_oio >= 1 and item.largest_block_bytes == 4096)
    by_title = tables(limited)
    judged = {row[0]: row[1] for row in by_title["Host or drive?"].rows}

    assert judged["Points judged"] == "56 points: 7 host-limited, 49 not host-limited, 0 undetermined"
    assert judged["Host-limited measurements"] == "the engine used the available CPU time (35 measurements)"
    assert [row[0] for row in by_title["Host ceiling (null device)"].rows][:2] == [
        "RND reads, any size",
        "RND writes, 1024 KiB",
    ]
    uncalibrated = dataclasses.replace(limited, facts=dataclasses.replace(limited.facts, ceilings=()))
    points = {row[0]: row[1] for row in tables(uncalibrated)["Host or drive?"].rows}["Points judged"]
    assert points == (
        "56 points: 7 host-limited, 49 without a sign of a host limit, 0 undetermined; "
        "not compared with a host ceiling, the IOPS that this host reaches on a null device"
    )
    bare = {row[0]: row[1] for row in tables(samples.result_of("iops"))["Host or drive?"].rows}
    assert "ceiling" not in bare["Points judged"]  # none is judged
    assert bare["Rule"].startswith("a point has the verdict of most of its measurements")
    assert bare["Host ceiling"] == "not calibrated: the test is too short"
    rejected = dataclasses.replace(samples.result_of("iops"), evidence={"00000-ceiling-001-write.fio": "0" * 64})
    (text,) = (row[1] for row in tables(rejected)["Host or drive?"].rows if row[0] == "Host ceiling")
    assert text == "not calibrated: the results on the null device were rejected"
    assert bare["Undetermined measurements"] == "the CPU time of the engine is unknown (280 measurements)"
    simulated = samples.result_of("iops", device=samples.dut(kind="simulated"))
    assert "Host or drive?" not in tables(simulated)
    assert all(warning.what != "host-limited" for warning in run_warnings(simulated))


def test_continuous_stimuli_have_their_reasons() -> None:
    """The reasons are those of all evaluated points: of rounds, and of continuous stimuli."""
    (judged,) = (
        {row[0]: row[1] for row in block.rows}
        for block in build(samples.result_of("wsat")).pages[-1].blocks
        if isinstance(block, Table) and block.title == "Host or drive?"
    )
    assert judged["Points judged"].endswith("2 undetermined")
    assert judged["Undetermined measurements"] == "the CPU time of the engine is unknown (10 measurements)"


def test_figures_without_marks_count_the_host_limited_points() -> None:
    """A figure copied alone says how many of its points the host limited, and which are undetermined."""
    result = host_limited("dirth", lambda item: item.total_oio >= 512 or item.read_percent == 100)
    captions = {figure.name: figure.caption for figure in build(result).figures}
    others = "3 undetermined (T1Q1, T1Q2, T2Q1), 43 not host-limited."
    for name in ("demand-variation", "demand-intensity"):
        assert captions[name].endswith(
            f"49 points: 3 host-limited (the drive may be faster; not marked here), {others}"
        )
    marked = f"49 points: 3 host-limited, {others} No mark: undetermined or not host-limited."
    assert captions["demand-variation-surface"].endswith(marked)
    unknown = {figure.name: figure.caption for figure in build(samples.result_of("dirth")).figures}
    names = "T1Q1, T1Q2, T1Q4, T1Q6, T1Q8, T1Q16, T1Q32, T2Q1, T2Q2, T2Q4 and 39 more"
    assert f"0 host-limited, 49 undetermined ({names}), 0 without" in unknown["demand-intensity"]
    assert unknown["histogram-max"].endswith(" Undetermined whether the host limited it.")
    simulated = build(samples.result_of("dirth", device=samples.dut(kind="simulated")))
    assert not any("undetermined" in figure.caption for figure in simulated.figures)


def test_result_xml_flags_each_measurement_and_point() -> None:
    """It has ceilings, and a flag for every measurement and point of the window; a simulated drive has none."""
    result = host_limited("iops", lambda item: item.largest_block_bytes == 4096)
    root = etree.fromstring(result_xml(result))
    simulated = etree.fromstring(result_xml(samples.result_of("iops", device=samples.dut(kind="simulated"))))

    for path, count in (("loop/round/measurement", 5 * 56), ("loop/window/point", 56)):
        flags = [element.get("host_limited") for element in root.iterfind(path)]
        assert (flags.count("true"), flags.count("false")) == (count // 8, count - count // 8)
    assert [element.get("side") for element in root.iterfind("ceiling")] == ["read"] + 8 * ["write"]
    assert not simulated.xpath("//@host_limited | //ceiling")


def test_a_cell_without_a_number_has_no_mark() -> None:
    """A host-limited point with too few I/Os for a percentile has n/a alone."""
    side = Side(title="", keys=(1, 2), labels=("a", "b"))
    places = [(row, column) for row in side.keys for column in side.keys]
    values = dict.fromkeys(places, 5.0) | {places[0]: math.nan}
    (table,) = matrices.matrix_tables(
        values, side, side, title="99.999 % response time (ms)", marks=dict.fromkeys(places, matrices.HOST_LIMITED)
    )
    cells = [cell for row in table.rows for cell in row[1:]]

    assert cells[0] == NOT_APPLICABLE
    assert all(cell.startswith(f"{matrices.HOST_LIMITED} ") for cell in cells[1:])
