"""The report of the demand intensity and composite workload tests: every plot of the standard, correct and readable."""

from __future__ import annotations

import itertools
import math
import re
from array import array
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.analysis.operating_points import alternative_points, demand_means, noise_percent, operating_points
from snia_pts.model.measurement import MeasuredRound, SampledRound
from snia_pts.model.time_series import COLUMNS, TELEMETRY_COLUMNS
from snia_pts.report.figures import columns_3d, demand_figures, surface_3d
from snia_pts.report.figures import render as drawing
from snia_pts.report.figures.figure import Side
from snia_pts.report.pages import Figure, Page, Prose, Report
from snia_pts.report.registry import build
from snia_pts.report.sections import confidence
from snia_pts.report.tables import Table
from snia_pts.results.result import Sampling, TestResult
from snia_pts.units import number
from tests import samples
from tests.procedure_runs import whole_runs
from tests.test_demand import RULE
from tests.test_report_figures import check, lines

COUNTS = (1, 2, 4, 6, 8, 16, 32)
#: Outcomes of a full-length run up to its rounds, of a round with its pre-write, of an operating point.
BEFORE_ROUNDS, A_ROUND, A_POINT = 1 + 361 + 9, 6 + 49, 61 + 1

SHAPES: dict[str, dict[str, Any]] = {
    "steady": {},
    "client": {"test_class": "client"},
    "PTS 1.1, not steady": {"pts": "1.1", "steady": False},
    "4096-byte sectors": {"sector_bytes": 4096},
    "interrupted in preconditioning": {"stop_after": 100, "ending": "interrupted"},
    "interrupted in round 3": {"stop_after": BEFORE_ROUNDS + 2 * A_ROUND + 20, "ending": "interrupted"},
    "interrupted before a histogram": {
        "stop_after": BEFORE_ROUNDS + 5 * A_ROUND + A_POINT + 30,
        "ending": "host failed",
    },
    "300 times faster": {"scale": 300.0},
    "a million times faster": {"scale": 1e6},
    "a thousand times slower": {"scale": 0.001},
    "dead": {"scale": 0.0},
    "one Thread Count, one Queue Depth": {
        "overrides": [
            ("demand.thread_counts", [4]),
            ("demand.queue_depths", [8]),
            ("steady_state.tracked", [{"metric": "iops", "thread_count": 4, "queue_depth": 8}]),
        ]
    },
    "many Thread Counts and Queue Depths": {
        "overrides": [
            ("demand.thread_counts", [32, *range(1, 12)]),
            ("demand.queue_depths", [32, *range(1, 12)]),
        ]
    },
}


#: Figures differ from those of a steady run only here: a class has other titles, and a stopped run fewer figures.
DRAWN = [shape for shape in SHAPES if shape not in ("client", "interrupted before a histogram")]


@cache
def result_of(test: str, shape: str = "steady") -> TestResult:
    return samples.result_of(test, **SHAPES[shape])


def plots(report: Report) -> dict[str, list[Page]]:
    """Return the pages with a plot's number."""
    found: dict[str, list[Page]] = {}
    for page in report.pages:
        name = page.title.split()[0]
        if name[0] == "P" and name[1:].isdigit():
            found.setdefault(name, []).append(page)
    return found


def figure_of(result: TestResult, name: str) -> Any:
    (planned,) = (figure for figure in build(result).figures if figure.name == name)
    with drawing.settings():
        return planned.draw()


def tables(page: Page) -> dict[str, Table]:
    return {block.title: block for block in page.blocks if isinstance(block, Table)}


def text_of(page: Page) -> str:
    return " ".join(block.text for block in page.blocks if isinstance(block, Prose))


@pytest.mark.parametrize(("test", "most"), [("dirth", 14), ("composite", 15)])
@pytest.mark.parametrize("pts", ["2.0.2", "1.1"])
def test_every_plot_of_the_standard_is_there_in_order(test: str, most: int, pts: str) -> None:
    """P1 to P14, and P15 of the composite workload, each with a figure; the summary first, the provenance last."""
    report = build(samples.result_of(test, pts=pts))
    outcome = plots(report)
    assert list(outcome) == [f"P{number}" for number in range(1, most + 1)]
    for page in itertools.chain.from_iterable(outcome.values()):
        assert sum(isinstance(block, Figure) for block in page.blocks) == 1
    assert (report.pages[0].title, report.pages[-1].title) == ("Summary", "Provenance")
    assert "omitted" not in text_of(report.pages[0])


@pytest.mark.long
@pytest.mark.parametrize(("test", "shape"), [("dirth", "steady"), *(("composite", shape) for shape in DRAWN)])
def test_no_texts_of_any_figure_overlap(test: str, shape: str) -> None:
    """In every figure of every kind of result, no texts overlap and all are inside; axes have names."""
    planned = list(build(result_of(test, shape)).figures)
    assert planned
    with drawing.settings():
        for figure in planned:
            drawn = figure.draw()
            words = check(drawn)
            assert tuple(drawn.get_size_inches()) == (figure.width, figure.height)
            assert any(word.startswith(("IOPS", "I/Os per bin", "Host CPU")) for word in words), figure.name


@pytest.mark.long
@whole_runs
@given(st.integers(0, BEFORE_ROUNDS + 5 * A_ROUND + 3 * A_POINT))
def test_wherever_a_run_stops_the_summary_tells_which_plots_are_left_out(stop_after: int) -> None:
    """Every plot is either in the report or listed as omitted in the summary, never both."""
    report = build(samples.result_of("dirth", stop_after=stop_after, ending="interrupted"))
    omitted = re.search(r"((?:P\d+, )*P\d+) omitted: no data", text_of(report.pages[0]))
    left_out = omitted[1].split(", ") if omitted else []
    assert {*plots(report), *left_out} == {f"P{number}" for number in range(1, 15)}
    assert not set(plots(report)) & set(left_out)


def test_demand_intensity_shows_the_means_the_ceiling_and_the_operating_points() -> None:
    """Each Thread Count's line is its means by Queue Depth; a line at 5 ms; a ring at each operating point."""
    result = result_of("dirth")
    loop = result.loop()
    assert loop is not None
    means = demand_means(loop.window_rounds)
    figure = figure_of(result, "demand-intensity")
    drawn = lines(figure)
    for count in COUNTS:
        wanted = sorted((m.demand.queue_depth, m.iops, m.art_ms) for m in means if m.demand.thread_count == count)
        assert drawn[str(count)] == [(iops, art_ms) for _, iops, art_ms in wanted]
    assert {y for _, y in drawn["ART limit, 5 ms"]} == {5.0}
    for point in operating_points(means, RULE):
        assert drawn[f"{point.name}\n{point.demand.label}"] == [(point.iops, point.art_ms)]
    assert figure.axes[0].get_yscale() == "log"


@pytest.mark.long
def test_the_legend_of_thread_counts_is_ascending() -> None:
    """This holds in all figures, for any values."""
    result = result_of("composite")
    for name in ("demand-variation", "demand-intensity", "total-oio"):
        legend = figure_of(result, name).axes[0].get_legend()
        assert legend is not None
        texts = [text.get_text() for text in legend.get_texts()]
        assert texts[: len(COUNTS)] == [str(count) for count in sorted(COUNTS)]


@pytest.mark.parametrize("limit", [0.5, 2.0, 5.0, 5.1])
def test_the_limit_and_the_rings_have_space(limit: float) -> None:
    """The line of the limit is well inside the axes, not on an edge, and no ring is cut off."""
    result = samples.result_of("dirth", overrides=[("operating_points.maximum_art_ms", limit)])
    (axes,) = figure_of(result, "demand-intensity").axes
    low, high = axes.get_ylim()
    assert low * 1.25 <= limit <= high / 1.25
    rings = [line for line in axes.lines if "IOPS" in str(line.get_label())]
    assert rings
    assert not any(ring.get_clip_on() for ring in rings)


def test_the_limit_of_the_specification_moves_the_ceiling() -> None:
    """The ART limit is operating_points.maximum_art_ms, in the figure and in the text."""
    result = samples.result_of("dirth", overrides=[("operating_points.maximum_art_ms", 2.0)])
    assert {y for _, y in lines(figure_of(result, "demand-intensity"))["ART limit, 2 ms"]} == {2.0}
    (page,) = plots(build(result))["P7"]
    assert any("The line at 2 ms" in block.caption for block in page.blocks if isinstance(block, Figure))


def test_demand_variation_shows_the_means_by_queue_depth() -> None:
    """Each Thread Count's line is the mean IOPS of the window at every Queue Depth, from zero."""
    result = result_of("composite")
    loop = result.loop()
    assert loop is not None
    means = demand_means(loop.window_rounds)
    drawn = lines(figure_of(result, "demand-variation"))
    for count in COUNTS:
        wanted = sorted((m.demand.queue_depth, m.iops) for m in means if m.demand.thread_count == count)
        assert drawn[str(count)] == [(math.log2(depth), iops) for depth, iops in wanted]


def test_total_oio_shows_iops_above_and_response_times_below() -> None:
    """P15: all 49 points twice, against TC x QD."""
    result = result_of("composite")
    loop = result.loop()
    assert loop is not None
    above, below = figure_of(result, "total-oio").axes
    for axes, value in ((above, "iops"), (below, "art_ms")):
        shown = sorted(
            point
            for line in axes.lines
            if str(line.get_label()).isdigit()
            for point in zip(*map(list, line.get_data()), strict=True)
        )
        wanted = sorted((m.demand.total_oio, getattr(m, value)) for m in demand_means(loop.window_rounds))
        assert len(wanted) == 49
        assert shown == wanted


@pytest.mark.parametrize("shape", ["steady", "PTS 1.1, not steady"])
def test_the_inter_round_plot_shows_every_rounds_pre_write(shape: str) -> None:
    """P3 has the samples of all rounds' pre-writes in sequence, and none of the operating points' pre-writes."""
    result = result_of("dirth", shape)
    loop = result.loop()
    assert loop is not None
    figure = figure_of(result, "inter-round-iops")
    drawn = [line for line in figure.axes[0].lines if len(line.get_data()[0]) > 2]
    assert len(drawn) == len(loop.rounds)
    before = [line for line in result.lines("pre-write") if line.part.startswith("Round")]
    assert [list(line.get_data()[1]) for line in drawn] == [line.iops for line in before]
    minutes = [minute for line in drawn for minute in line.get_data()[0]]
    assert minutes == pytest.approx(range(1, 5 * len(drawn) + 1))
    labels = [line.get_data()[0][0] for line in figure.axes[0].lines if len(line.get_data()[0]) == 2]
    assert len(labels) >= 4
    assert all(label % 5 == pytest.approx(0.5) for label in labels)  # before the first sample of a round


def test_a_single_sample_is_a_number_and_no_plot() -> None:
    """A plot of one sample would be a dot in an empty grid."""
    result = result_of("dirth")
    short = {"PC": [1], "pre-write": [1]}
    lines_of_one = tuple(
        replace(line, **{name: getattr(line, name)[: short[line.phase][0]] for name in (*COLUMNS, *TELEMETRY_COLUMNS)})
        if line.phase in short
        else line
        for line in result.time_lines
    )
    shown = plots(build(replace(result, sampling=None, time_lines=lines_of_one)))
    first = next(line for line in lines_of_one if line.phase == "PC")
    ((page,), (inter_round,)) = shown["P1"], shown["P3"]
    assert not any(isinstance(block, Figure) for block in page.blocks)
    assert f"No plot: {number(first.iops[0])} IOPS in its only sample." in text_of(page)
    assert any(isinstance(block, Figure) for block in inter_round.blocks)
    assert "No plot" in text_of(shown["P9"][0])


def in_window(sampling: Sampling) -> list[SampledRound]:
    """Return the samples of the measurement window."""
    assert sampling.window is not None
    return [sampled for sampled in sampling.rounds if sampled.number in sampling.window.numbers]


def test_the_preconditioning_plot_marks_the_measurement_window() -> None:
    """P1 has a dot on the curve at each sample of the window, of minutes 1, 31, 61, ..."""
    result = result_of("dirth")
    line, sampling = result.time_line("PC"), result.sampling
    assert line is not None
    assert sampling is not None
    drawn = lines(figure_of(result, "pc-iops"))
    dots = drawn["measurement window"]
    assert [x for x, _ in dots] == pytest.approx(
        [measured_round.minute for measured_round in in_window(sampling)], abs=0.1
    )
    assert set(dots) <= set(drawn["IOPS"])
    (plot,) = (figure for figure in build(result).figures if figure.name == "pc-iops")
    assert "steady state is evaluated on samples 1, 31, 61 and so on." in plot.caption


@pytest.mark.parametrize("missing", [1, 5, 100])
def test_samples_used_as_rounds_are_found_by_their_time(missing: int) -> None:
    """P1: if a sample is missing, because the host was suspended, the dots after it stay at their minutes."""
    result = result_of("dirth")
    line, sampling = result.time_line("PC"), result.sampling
    assert line is not None
    assert sampling is not None
    columns = {name: getattr(line, name) for name in (*COLUMNS, *TELEMETRY_COLUMNS)}
    shorter = replace(line, **{name: values[:missing] + values[missing + 1 :] for name, values in columns.items()})
    others = tuple(shorter if item is line else item for item in result.time_lines)
    moved = [
        replace(measured_round, row=(measured_round.row or 0) - ((measured_round.row or 0) > missing))
        for measured_round in sampling.rounds
    ]
    facts = replace(result, time_lines=others, sampling=replace(sampling, rounds=tuple(moved)))

    drawn = lines(figure_of(facts, "pc-iops"))

    dots = drawn["measurement window"]
    assert [x for x, _ in dots] == pytest.approx(
        [measured_round.minute for measured_round in in_window(sampling)], abs=0.1
    )
    assert set(dots) <= set(drawn["IOPS"])


def test_evaluated_samples_are_on_the_curve_s_clock() -> None:
    """P1: times between continuous stimuli move the curve, and the dots with it, beyond the nominal minutes."""
    result = result_of("dirth")
    line, sampling = result.time_line("PC"), result.sampling
    assert line is not None
    assert sampling is not None
    later = replace(line, ended_seconds=array("d", [seconds * 1.01 for seconds in line.ended_seconds]))
    others = tuple(later if item is line else item for item in result.time_lines)

    drawn = lines(figure_of(replace(result, time_lines=others), "pc-iops"))

    dots = drawn["measurement window"]
    assert [x for x, _ in dots] == pytest.approx(
        [1.01 * measured_round.minute for measured_round in in_window(sampling)], rel=1e-3
    )
    assert set(dots) <= set(drawn["IOPS"])


def grid(sides: int) -> Mapping[tuple[int, int], float]:
    return {(depth, count): float(depth * count) for depth in range(sides) for count in range(sides)}


def side(title: str, count: int) -> Side:
    return Side(title=title, keys=tuple(range(count)), labels=tuple(map(str, range(count))))


def test_a_surface_is_painted_from_the_back_to_the_front() -> None:
    """Four neighbours have one patch at their heights; no patch hides a nearer one."""
    across, deep, values = side("Queue Depth", 4), side("Thread Count", 4), grid(4)
    with drawing.settings():
        figure = surface_3d.surface(values, across, deep, heading="IOPS")
        check(figure)
    (drawn,) = (item for item in figure.axes[0].collections if item.get_zorder() >= 1)
    patches: Any = drawn.get_paths()
    projection = columns_3d.Projection(columns=4, rows=4, top=10.0)
    back_to_front = [(column, row) for row in (2, 1, 0) for column in (0, 1, 2)]
    firsts = [place for patch in patches for place in patch.vertices[0]]
    places = [projection.place(column + 0.5, row + 0.5, column * row) for column, row in back_to_front]
    assert firsts == pytest.approx([place for corner in places for place in corner])
    corners = [place for corner in patches[-1].vertices[:4] for place in corner]
    wanted = projection.strip((2.5, 0.5, 0), (3.5, 0.5, 0), (3.5, 1.5, 3), (2.5, 1.5, 2))
    assert corners == pytest.approx([place for corner in wanted for place in corner])


def test_the_colours_of_a_surface_span_its_own_values() -> None:
    """A surface that is low on the common scale has the colours, and a bar with the maximum, of its own scale."""
    across, deep, values = side("Queue Depth", 4), side("Thread Count", 4), grid(4)
    tall = {place: 100 * value for place, value in values.items()}
    with drawing.settings():
        figures = [surface_3d.surface(values, across, deep, heading="IOPS", alike=alike) for alike in ((), (tall,))]
        for figure in figures:
            check(figure)
    surfaces: Any = [item for figure in figures for item in figure.axes[0].collections if item.get_zorder() >= 1]
    alone, low = ([tuple(colour) for colour in drawn.get_facecolor()] for drawn in surfaces)
    assert alone == low
    assert len(set(low)) > 3
    for figure in figures:
        labels = [text.get_text() for text in figure.axes[0].texts]
        assert labels[-3:] == ["0", "9.00", "Colours: IOPS"]


def test_a_surface_needs_two_keys_per_axis_and_all_values() -> None:
    """A single row, or a missing value, gives no surface: then there is only the line plot."""
    two, one = side("x", 2), side("x", 1)
    whole = grid(2)
    assert surface_3d.has_surface(whole, two, two)
    assert not surface_3d.has_surface(whole, two, one)
    assert not surface_3d.has_surface({key: value for key, value in whole.items() if key != (1, 1)}, two, two)
    report = build(result_of("dirth", "one Thread Count, one Queue Depth"))
    assert len(plots(report)["P6"]) == 1
    assert len(plots(build(result_of("dirth")))["P6"]) == 2


@pytest.mark.long
def test_a_thread_count_has_one_style_in_all_plots() -> None:
    """A Thread Count has the same colour, marker and dashes in demand variation, demand intensity and Total OIO."""
    result = result_of("composite")

    def looks(name: str, label: str) -> set[tuple[Any, ...]]:
        return {
            (line.get_color(), line.get_marker(), line.get_linestyle())
            for axes in figure_of(result, name).axes
            for line in axes.lines
            if line.get_label() == label
        }

    styles = set()
    for count in COUNTS:
        same = looks("demand-variation", str(count))
        assert same == looks("demand-intensity", str(count)) == looks("total-oio", str(count))
        styles |= same
    assert (
        len({(marker, dash) for _, marker, dash in styles}) == len({colour for colour, _, _ in styles}) == len(COUNTS)
    )


def test_without_host_cpu_utilisation_there_is_no_p8_and_the_summary_says_so() -> None:
    """If the utilisation of one point is unknown, as on a simulated drive, a sentence replaces page and table."""
    result = result_of("dirth")
    (loop,) = result.loops
    last = loop.rounds[-1]
    unknown = replace(last.measurements[0], telemetry=None)
    rounds = (*loop.rounds[:-1], replace(last, measurements=(unknown, *last.measurements[1:])))
    report = build(replace(result, loops=(replace(loop, rounds=rounds),)))
    assert "P8" not in plots(report)
    assert "P8 (host CPU utilisation) omitted: it was not measured at every point." in text_of(report.pages[0])
    facts = replace(result.facts, dut=samples.dut(kind="simulated"))
    simulated = build(replace(result, facts=facts, loops=(replace(loop, rounds=rounds),)))
    assert "P8 (host CPU utilisation) omitted: it is not simulated." in text_of(simulated.pages[0])
    (points,) = (page for page in report.pages if page.title.startswith("All Points"))
    assert not [title for title in tables(points) if "CPU" in title]
    assert " IOPS are means of rounds " in text_of(points)


def test_a_drive_that_never_meets_the_art_limit_is_reported() -> None:
    """Only if no point has an ART below 5 ms, the summary states how Max IOPS was chosen."""
    warned = "No point kept its ART below 5 ms"
    assert warned in text_of(build(result_of("dirth", "a thousand times slower")).pages[0])
    assert warned not in text_of(build(result_of("dirth")).pages[0])


def test_the_summary_has_the_operating_points() -> None:
    """Max, Mid and Min have TC/QD, the IOPS they were chosen for, and the window's values and histograms."""
    result = result_of("dirth")
    loop = result.loop()
    assert loop is not None
    first, second, *_ = build(result).pages
    by_title = tables(first) | tables(second)
    (points,) = (table for title, table in by_title.items() if title.startswith("Operating points, rounds 1 - 5"))
    found_points = operating_points(demand_means(loop.window_rounds), RULE)
    for row, point in zip(points.rows, found_points, strict=True):
        assert row[0] == point.name
        assert f"TC {point.demand.thread_count}/QD {point.demand.queue_depth}" in row[1]
        shown = [float(cell.replace("\N{NARROW NO-BREAK SPACE}", "")) for cell in row[2:5]]
        assert shown == pytest.approx([point.target_iops, point.iops, point.art_ms], rel=1e-3)
    histograms = by_title["Response time histograms"]
    assert [row[0].rpartition(" ")[0] for row in histograms.rows] == ["Max IOPS", "Mid IOPS", "Min IOPS"]


def test_captions_of_mixed_histograms_say_that_reads_and_writes_are_together() -> None:
    """The two directions have different response times: without the words, two humps have no reason."""
    histograms = [figure for figure in build(result_of("dirth")).figures if figure.name.startswith("histogram-")]
    assert len(histograms) == 3
    assert all("I/Os, reads and writes together, in 10 min 00 s" in figure.caption for figure in histograms)


def test_a_histogram_with_other_iops_than_the_loop_is_noted() -> None:
    """A difference of more than 5 % is stated on the first page and below the histograms; a smaller one is not."""
    result = result_of("dirth")
    assert "differ from the loop" not in text_of(build(result).pages[0]) + text_of(build(result).pages[1])
    (line,) = (line for line in result.lines("histogram") if line.part == "Max IOPS")
    (part,) = line.measurements
    read, write = (replace(side, runtime_ms=2 * side.runtime_ms) for side in (part.read, part.write))
    slow = replace(line, measurements=[replace(part, read=read, write=write)])
    slower = replace(result, time_lines=tuple(slow if item is line else item for item in result.time_lines))
    loop_iops = operating_points(demand_means(result.loops[0].window_rounds), RULE)[0].iops
    percent = 100 - 100 * confidence.confidence(slow).iops / loop_iops
    note = f"IOPS of histograms that differ from the loop by more than 5 %: Max IOPS {percent:.1f} % lower."
    reason = "A histogram is measured after the loop and directly after a pre-write of 1 h 00 min; it lasts 10 min 00 s"
    for shown in build(slower).pages[:2]:
        assert f"{note} {reason}, a point of the loop 1 min 00 s." in text_of(shown)


def test_the_summary_states_how_operating_points_are_chosen() -> None:
    """The rule is complete: tolerance, target, ART, and the choice of points with the same Total OIO."""
    rule = text_of(build(result_of("dirth")).pages[0])
    assert "Max IOPS: a point within 2 % of the best IOPS is near enough." in rule
    assert re.search(
        r"The nearest point, T\d+Q\d+, is (.+?) IOPS away\. Points up to \1 \+ 2 % of .+? = .+? IOPS from the target",
        rule,
    )
    assert (
        "the one with the lowest Total OIO is chosen; of several with the same Total OIO, the one with the few" in rule
    )
    assert "Max and Mid IOPS: only points with an ART below 5 ms count." in rule
    assert "Response times are those of reads and writes together." in rule


def _with_noise(measured: MeasuredRound, part: float = 0.04) -> MeasuredRound:
    """Return a round in which every second point has 4 % more I/Os, the others 4 % fewer, and in turn."""
    factors = [1 - part + 2 * part * ((measured.number + place) % 2) for place in range(len(measured.measurements))]
    points = [
        replace(
            point,
            read=replace(point.read, ios=round(factor * point.read.ios)),
            write=replace(point.write, ios=round(factor * point.write.ios)),
        )
        for point, factor in zip(measured.measurements, factors, strict=True)
    ]
    return replace(measured, measurements=tuple(points))


def test_the_points_that_another_run_may_choose_are_listed_only_if_there_are_any() -> None:
    """Rounds without noise have none; with noise, the table has the points of ``alternative_points``."""
    title = "Operating points that another run may choose instead"
    result = result_of("dirth")
    loop = result.loop()
    assert loop is not None
    quiet = tuple(replace(measured, measurements=loop.rounds[0].measurements) for measured in loop.rounds)
    assert title not in tables(build(replace(result, loops=(replace(loop, rounds=quiet),))).pages[1])
    noisy = replace(result, loops=(replace(loop, rounds=tuple(map(_with_noise, loop.rounds))),))
    others = alternative_points(demand_means(noisy.loops[0].window_rounds), RULE)
    rows = {name: re.findall(r"T\d+Q\d+", cell) for name, cell in tables(build(noisy).pages[1])[title].rows}
    assert rows == {name: [point.demand.label for point in points] for name, points in others.items() if points}


def test_the_summary_counts_the_points_that_another_run_may_choose() -> None:
    """Below the operating points, with the noise and the tolerance; not if there are none."""
    result = result_of("dirth")
    loop = result.loop()
    assert loop is not None
    quiet = tuple(replace(measured, measurements=loop.rounds[0].measurements) for measured in loop.rounds)
    assert "Another run may choose" not in text_of(
        build(replace(result, loops=(replace(loop, rounds=quiet),))).pages[0]
    )
    rounds = tuple(_with_noise(measured, 0.02) for measured in loop.rounds)
    others = alternative_points(demand_means(rounds), RULE)
    counts = [len(others[name]) for name in ("Max IOPS", "Mid IOPS")]
    noise = noise_percent(demand_means(rounds), RULE)
    assert all(1 < count < len(COUNTS) ** 2 / 2 for count in counts)
    assert (
        f"The noise is {noise:.1f} % of the IOPS, the tolerance 2 %. Another run may choose one of {counts[0]} other "
        f'points as Max IOPS and {counts[1]} other points as Mid IOPS (page "Operating Points and Access Pattern").'
    ) in text_of(build(replace(result, loops=(replace(loop, rounds=rounds),))).pages[0])


def test_the_summary_has_the_maximum_of_each_histogram() -> None:
    """A reader of the table of the loop takes its maximum, of a shorter measurement, for that of the drive."""
    result = result_of("dirth")
    text = text_of(build(result).pages[0])
    assert "The table is of the loop. The histograms measure the same points for 10 min 00 s" in text
    for line in result.lines("histogram"):
        (five_nines, maximum) = confidence.confidence(line).markers[-2:]
        assert five_nines.ms is not None
        assert f"{line.part}: 99.999 % = {number(five_nines.ms)} ms, MRT = {number(maximum.ms or 0)} ms" in text


def test_a_run_that_cannot_tell_its_points_apart_says_so() -> None:
    """If another run may choose most of the points, the first page says it of each such operating point."""
    result = result_of("dirth")
    warned = "IOPS cannot be distinguished from most other points in this run"
    assert warned not in text_of(build(result).pages[0])
    (loop,) = result.loops
    rounds = tuple(_with_noise(measured, 0.5) for measured in loop.rounds)
    noisy = replace(result, loops=(replace(loop, rounds=rounds),))
    others = alternative_points(demand_means(rounds), RULE)
    many = [name for name, points in others.items() if 2 * len(points) > len(COUNTS) ** 2]
    assert many
    assert text_of(build(noisy).pages[0]).count(warned) == len(many)


def test_all_points_are_in_tables() -> None:
    """IOPS and ART of all 49 points, Thread Counts down, Queue Depths across."""
    result = result_of("composite")
    loop = result.loop()
    assert loop is not None
    (page,) = (page for page in build(result).pages if page.title.startswith("All Points"))
    by_title = tables(page)
    means = {(m.demand.thread_count, m.demand.queue_depth): m for m in demand_means(loop.window_rounds)}
    for title, value in (("IOPS", "iops"), ("Average response time (ms), weighted by I/O count", "art_ms")):
        table = by_title[title]
        assert [column.heading for column in table.columns[1:]] == [f"QD {depth}" for depth in COUNTS]
        for row in table.rows:
            for depth, cell in zip(COUNTS, row[1:], strict=True):
                shown = float(cell.replace("\N{NARROW NO-BREAK SPACE}", ""))
                assert shown == pytest.approx(getattr(means[int(row[0]), depth], value), rel=5e-3)


def header(result: TestResult) -> dict[str, list[str]]:
    """Return the values of the header's last two blocks by their names."""
    found: dict[str, list[str]] = {}
    for row in build(result).header.blocks.rows:
        for name, value in ((row[4], row[5]), (row[6], row[7])):
            found.setdefault(name, []).append(value)
    return found


def test_the_header_names_pattern_pre_writes_and_operating_points() -> None:
    """As in the standard's report pages: preconditioning, inter-round pre-write, stimulus, loops, Min, Mid and Max."""
    heading = header(result_of("composite"))
    assert heading["Pre Condition 1"] == ["RND 0.5 - 64 KiB mix 0/100"]
    assert heading["TOIO - TC/QD"] == ["1024 (TC 32/QD 32)"] * 2
    assert heading["Inter-Round Pre W"] == ["0/100"]
    assert heading["Duration"] == ["5 min 00 s"]
    assert heading["Test Stimulus 1"] == ["RND 0.5 - 64 KiB mix 40/60"]
    assert heading["Access Skew"] == ["50/5, 30/15, 20/80"]
    assert heading["TC & QD"] == ["TC 1 - 32, QD 1 - 32"]
    assert heading["TC & QD Loops"] == ["High to Low TOIO"]
    assert heading["Min IOPS Point"] == ["1 (TC 1/QD 1)"]
    assert heading["Steady State"] == ["1 - 5"]
    stopped = header(result_of("composite", "interrupted in round 3"))
    assert stopped["Max IOPS Point"] == stopped["Mid IOPS Point"] == ["n/a"]


def test_the_pattern_is_the_one_that_was_run() -> None:
    """On 4096-byte sectors the mix begins at 4 KiB, in the header, in captions and in the summary."""
    result = result_of("composite", "4096-byte sectors")
    assert header(result)["Test Stimulus 1"] == ["RND 4 - 64 KiB mix 40/60"]
    report = build(result)
    assert "RND 4 - 64 KiB mix 40/60" in next(
        block.caption for page in plots(report)["P7"] for block in page.blocks if isinstance(block, Figure)
    )
    assert any("Window - RND/4-64KiB RW40 T32Q32" in page.title for page in report.pages)
    (sizes,) = (row[1] for row in tables(report.pages[1])["Access pattern: Composite"].rows if row[0] == "Block sizes")
    assert sizes.startswith("4 KiB 75 %, 8 KiB 11 %")
    assert "0.5 KiB" not in sizes


def test_the_order_of_the_loop_is_in_the_header() -> None:
    """The header has the loop's order if it is not the standard's."""
    heading = header(samples.result_of("dirth", overrides=[("demand.order", "tc-major")]))
    assert heading["TC & QD Loops"] == ["TC outer, QD inner"]


def test_a_loop_of_one_point_has_its_plots() -> None:
    """A loop of one Thread Count and one Queue Depth has a demand intensity plot, of one point."""
    result = result_of("dirth", "one Thread Count, one Queue Depth")
    loop = result.loop()
    assert loop is not None
    means = demand_means(loop.window_rounds)
    with drawing.settings():
        check(demand_figures.by_total_oio(means, 5.0))
        figure = demand_figures.intensity(means, operating_points(means, RULE), 5.0)
        check(figure)
    assert lines(figure)["4"] == [(means[0].iops, means[0].art_ms)]
