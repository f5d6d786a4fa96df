"""The figures of a report: no labels overlap, and every line has the values of the result."""

from __future__ import annotations

import itertools
import math
import statistics
from typing import Any, cast

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure as Drawn
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from snia_pts.analysis.steady_state import determine
from snia_pts.model.measurement import METRICS
from snia_pts.report.figures import axes, columns_3d, dashboard, matrices, style
from snia_pts.report.figures import figure as figures
from snia_pts.report.figures import render as drawing
from snia_pts.report.pages import Figure
from snia_pts.report.registry import build
from snia_pts.report.tables import Table
from snia_pts.results.result import TestResult
from snia_pts.results.tracked_series import Convergence, SampleTimes
from snia_pts.spec import SPEC_TYPES, IopsSpec
from snia_pts.spec.reader import read_specification
from tests import samples

SPEC = cast("IopsSpec", read_specification("iops", "2.0.2", "enterprise").spec)
RULE, SIDES = SPEC.steady_state, (matrices.sizes(SPEC.rounds), matrices.mixes(SPEC.rounds))
IOPS = METRICS["iops"]
SIZES = [512, 4096, 8192, 16384, 32768, 65536, 131072, 1048576]
MIXES = [0, 5, 35, 50, 65, 95, 100]


def texts(figure: Drawn) -> list[tuple[str, Bbox]]:
    """Return all visible texts of a figure, with their boxes in pixels."""
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    visible = []
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if text.get_visible() and text.get_text().strip():
            visible.append((text.get_text(), text.get_window_extent(renderer)))
    return visible


def check(figure: Drawn) -> list[str]:
    """Assert that no texts overlap and all are inside the figure; return the texts."""
    visible = texts(figure)
    edge = figure.bbox
    for word, box in visible:
        inside = box.x0 >= edge.x0 and box.y0 >= edge.y0 and box.x1 <= edge.x1 and box.y1 <= edge.y1
        assert inside, f"{word!r} is not inside the figure"
    for (one, first), (other, second) in itertools.combinations(visible, 2):
        assert Bbox.intersection(first, second) is None, f"{one!r} overlaps {other!r}"
    return [word for word, _ in visible]


def lines(figure: Drawn) -> dict[str, list[tuple[float, float]]]:
    """Return the points of every line by its label."""
    drawn: Any = figure.axes[0].lines
    return {line.get_label(): [(float(x), float(y)) for x, y in zip(*line.get_data(), strict=True)] for line in drawn}


def matrix(scale: float = 1.0) -> figures.Grid:
    return {(size, share): scale * samples.golden_iops(share, size) for size in SIZES for share in MIXES}


def series(result: TestResult, at: tuple[int, int]) -> list[tuple[float, float]]:
    """Return the round numbers and IOPS of one cell of the matrix."""
    loop = result.loop()
    assert loop
    return [
        (measured_round.number, measured_round.keyed_by(matrices.size_and_mix)[at].iops)
        for measured_round in loop.rounds
    ]


SHAPES: dict[str, dict[str, Any]] = {
    "steady, 9 rounds": {"rounds": 9},
    "not steady, 25 rounds": {"steady": False},
    "PTS 1.1": {"pts": "1.1"},
    "4096-byte sectors, client": {"sector_bytes": 4096, "test_class": "client"},
    "one round": {"stop_after": 2 + 56, "ending": "interrupted"},
    "three rounds and a part": {"stop_after": 2 + 3 * 56 + 9, "ending": "host failed"},
    "a million times faster": {"scale": 1e6},
    "a hundred times slower": {"scale": 0.01},
    "dead": {"scale": 0.0},
    "one block size, one mix": {
        "overrides": [
            ("rounds.block_sizes_kib", [4.0]),
            ("rounds.read_percents", [0]),
            ("steady_state.tracked", [{"metric": "iops", "block_size_kib": 4.0, "read_percent": 0}]),
        ]
    },
    "many block sizes and mixes": {
        "overrides": [
            ("rounds.block_sizes_kib", [1024.0, *(float(size) for size in range(4, 72, 4))]),
            ("rounds.read_percents", list(range(100, -1, -5))),
        ]
    },
    "a window of 20 in 40 rounds": {
        "steady": False,
        "overrides": [("rounds.maximum", 40), ("steady_state.window_rounds", 20)],
    },
}


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_no_texts_of_any_figure_overlap(shape: str) -> None:
    """In every figure of every kind of result no texts overlap, all are inside, and one names the quantity."""
    result: TestResult = samples.iops_result(**SHAPES[shape])
    planned = list(build(result).figures)
    assert planned
    with drawing.settings():
        for figure in planned:
            drawn = figure.draw()
            words = check(drawn)
            assert tuple(drawn.get_size_inches()) == (figure.width, figure.height)
            quantity = "Response time (ms" if figure.name == "response-over-time" else "IOPS"
            assert any(word.startswith(quantity) for word in words), figure.name


def test_the_convergence_plot_shows_every_round_of_every_block_size() -> None:
    """Lines have the measured values; the legend has the order of the series, not of their values."""
    given = {"0.5 KiB": {1: 10.0, 2: 9.0}, "4 KiB": {1: 100.0, 2: 90.0}, "8 KiB": {1: 50.0, 2: 200.0}}
    with drawing.settings():
        figure = figures.convergence(given, (1, 2), heading="IOPS", legend="Block size")
        words = check(figure)
    assert lines(figure)["4 KiB"] == [(1, 100.0), (2, 90.0)]
    assert [word for word in words if word.endswith(" KiB")] == ["0.5 KiB", "4 KiB", "8 KiB"]
    assert figure.axes[0].get_yscale() == "log"
    assert [word for word in words if word in ("1", "2")] == ["1", "2"]


def test_the_plots_of_a_report_have_the_values_of_the_result() -> None:
    """The convergence plot has the 100 % writes of every round; the 2D plot has a line for each mix of the matrix."""
    result: TestResult = samples.iops_result(rounds=6)
    planned = {figure.name: figure for figure in build(result).figures}
    with drawing.settings():
        convergence, matrix_2d = lines(planned["convergence"].draw()), lines(planned["matrix-2d"].draw())

    for size in (512, 4096, 1024 * 1024):
        assert convergence[f"{size / 1024:g} KiB"] == series(result, (size, 0))
    for share in (0, 35, 100):
        row = [statistics.fmean(iops for _, iops in series(result, (size, share))[-5:]) for size in SIZES]
        assert [iops for _, iops in matrix_2d[f"{share}/{100 - share}"]] == pytest.approx(row)


def test_the_window_plot_draws_the_least_squares_line_and_the_band() -> None:
    """Average, 110 % and 90 % are flat; the best fit goes through SteadyState.fit, not first to last point."""
    determination = determine([287.6, 287.36, 285.91, 272.66, 278.9], RULE, first_round=4)
    with drawing.settings():
        figure = figures.measurement_window(determination, RULE.data_excursion_percent, metric=IOPS)
        check(figure)
    drawn = {name: [y for _, y in points] for name, points in lines(figure).items()}
    assert lines(figure)["IOPS"] == list(zip([4, 5, 6, 7, 8], determination.values, strict=True))
    assert set(drawn["Average"]) == {determination.average}
    assert drawn["110 % of average"] == pytest.approx([1.1 * determination.average] * 2)
    assert drawn["90 % of average"] == pytest.approx([0.9 * determination.average] * 2)
    fit = drawn["Best fit (least squares)"]
    assert fit == [determination.fit(4), determination.fit(8)]
    assert fit != [determination.values[0], determination.values[-1]]


@pytest.mark.parametrize("values", [[287.6, 287.36, 285.91, 272.66, 278.9], [0.0101, 0.0102, 0.01, 0.0099, 0.0098]])
def test_steady_windows_have_the_same_percent_axis(values: list[float]) -> None:
    """The right axis of every window within the band is labelled 90, 95, 100, 105, 110, at the same heights."""
    determination = determine(values, RULE)
    with drawing.settings():
        left, right = figures.measurement_window(determination, 20, metric=IOPS).axes
    assert [label.get_text() for label in right.get_yticklabels()] == ["90", "95", "100", "105", "110"]
    assert right.get_ylim() == pytest.approx((88.8, 111.2))
    assert left.get_ylim() == pytest.approx([limit * determination.average / 100 for limit in right.get_ylim()])


def test_a_wide_window_has_few_percent_ticks_with_the_average() -> None:
    """If values are far outside the band, ticks are wider apart, and 100 % is one of them."""
    with drawing.settings():
        figure = figures.measurement_window(determine([1.0, 9.0, 1.0, 9.0, 1.0], RULE), 20, metric=IOPS)
        check(figure)
    ticks = list(figure.axes[1].get_yticks())
    assert 100 in ticks
    assert 4 <= len(ticks) <= 8


def test_tracked_variables_converge_in_percent_of_their_window() -> None:
    """The convergence page has every tracked variable in every round, in percent of its average in the window."""
    result: TestResult = samples.iops_result(rounds=7)
    (page,) = (page for page in build(result).pages if "Convergence" in page.title)
    names = ["RND 4 KiB 0/100", "RND 64 KiB 65/35", "RND 1024 KiB 100/0"]
    with drawing.settings():
        drawn = lines({figure.name: figure for figure in build(result).figures}["convergence-tracked"].draw())
    for name, at in zip(names, [(4096, 0), (65536, 65), (1048576, 100)], strict=True):
        rounds = series(result, at)
        average = statistics.fmean(iops for _, iops in rounds[-5:])
        assert [number for number, _ in drawn[name]] == [number for number, _ in rounds]
        assert [percent for _, percent in drawn[name]] == pytest.approx([100 * iops / average for _, iops in rounds])
    assert {y for name in ("110 %", "90 %") for _, y in drawn[name]} == {110, 90}
    assert [block.name for block in page.blocks if isinstance(block, Figure)] == ["convergence", "convergence-tracked"]


def test_the_window_of_all_block_sizes_has_their_excursions() -> None:
    """Average and excursions of every block size come from the window's rounds; only those tracked are marked."""
    result: TestResult = samples.iops_result(rounds=7)
    (page,) = (
        page for page in build(result).pages if page.title.endswith("Measurement Window - All Block Sizes, R/W 0/100")
    )
    (table,) = (block for block in page.blocks if isinstance(block, Table))
    with drawing.settings():
        drawn = lines({figure.name: figure for figure in build(result).figures}["window-all"].draw())
    assert [row[0] for row in table.rows] == [f"{size / 1024:g} KiB" for size in SIZES]
    assert [row[0] for row in table.rows if row[-1] == "yes"] == ["4 KiB"]
    for size, row in zip(SIZES, table.rows, strict=True):
        rounds = series(result, (size, 0))[-5:]
        state = determine([iops for _, iops in rounds], RULE, first_round=3)
        assert drawn[row[0]] == rounds
        assert float(row[1].replace("\N{NARROW NO-BREAK SPACE}", "")) == pytest.approx(state.average, rel=1e-3)
        assert row[2:4] == state.percent_texts(decimals=2)


@pytest.mark.long
def test_only_an_axis_that_does_not_start_at_zero_is_noted() -> None:
    """The caption of a steady window has the note; that of a window with values near zero does not."""
    note = "Y axis does not start at zero."
    steady, scattered = (samples.iops_result(steady=steady) for steady in (True, False))
    captions = [figure.caption for figure in build(steady).figures if figure.name.startswith("window-rnd")]
    assert captions
    assert all(note in caption for caption in captions)
    with drawing.settings():
        for figure in (*build(steady).figures, *build(scattered).figures):
            if figure.name.startswith(("window-rnd", "convergence-tracked", "dashboard")):
                axes = figure.draw().axes[figure.name == "dashboard"]
                assert (note in figure.caption) == (axes.get_ylim()[0] > 0)


def test_the_first_page_says_how_the_values_of_its_heat_map_were_computed() -> None:
    """Rates are means over the rounds of the window; average response times are weighted by the count of I/Os."""
    expected = {
        "iops": "Left: IOPS, mean over rounds 1 - 5. Right: tracked variable",
        "latency": "Left: Average response time (ms), weighted by I/O count, rounds 1 - 5. Right: tracked variable",
        "throughput": "Left: Throughput (MB/s), each block size: mean over its rounds 1 - 5. Right: tracked variable",
        "dirth": "Left: IOPS, means of rounds 1 - 5. Right: tracked variable",
    }
    for test, text in expected.items():
        (figure,) = (
            figure for figure in build(samples.result_of(test, rounds=5)).figures if figure.name == "dashboard"
        )
        assert figure.caption.startswith(text)


def test_a_changed_rule_changes_the_band() -> None:
    """The band is half the allowed data excursion up and down, from the specification."""
    determination = determine([100.0] * 5, RULE)
    with drawing.settings():
        words = check(figures.measurement_window(determination, 30, metric=IOPS))
    assert {"115 % of average", "85 % of average"} <= set(words)


def test_the_window_plot_states_that_a_window_is_not_steady() -> None:
    """The plot has NOT ACHIEVED with the rounds or minutes, or NOT EVALUABLE for a dead device or a nan."""
    with drawing.settings():
        failed = check(figures.measurement_window(determine([1, 9, 1, 9, 1], RULE), 20, metric=IOPS))
        dead = check(figures.measurement_window(determine([0.0] * 5, RULE), 20, metric=IOPS))
        times = SampleTimes(unit="minute", ends={number: 30.0 * number - 29 for number in range(1, 6)})
        timed = check(figures.measurement_window(determine([1, 9, 1, 9, 1], RULE), 20, metric=IOPS, times=times))
        odd = check(figures.measurement_window(determine([math.nan, 1, 2, 3, 4], RULE), 20, metric=IOPS))
    assert any("NOT ACHIEVED in rounds 1 - 5" in word for word in failed)
    assert any("NOT ACHIEVED in minutes 1 - 121" in word for word in timed)
    assert any("NOT EVALUABLE" in word for word in dead)
    assert any("NOT EVALUABLE" in word for word in odd)
    assert "Average" not in dead


def test_the_small_plots_of_a_summary_have_few_values_on_their_axis() -> None:
    """Values from 90 % to 400 % leave room between the labels, as those from 90 % to 110 % do; 4 000 % need a log axis.

    The name of a single variable is below that of the test.
    """
    bounds = {"110 %": 110.0, "90 %": 90.0}
    panels = [
        dashboard.Tracked(
            heading=heading,
            lines=Convergence(
                name=heading,
                series={key: {1: first, 2: 100.0} for key in names},
                window=(1, 2),
                steady=True,
                bounds=bounds,
            ),
            styles=style.overlay_styles(names),
        )
        for heading, first, names in (
            ("Composite Block Size Workload", 400.0, ["a"]),
            ("high", 4000.0, ["b"]),
            ("low", 100.5, ["RND 4 KiB 0/100", "RND 64 KiB 65/35", "RND 1024 KiB 100/0"]),
        )
    ]
    with drawing.settings():
        figure = dashboard.draw_panels(panels)
        words = check(figure)
    ticks = [[100, 200, 300, 400], [50, 200, 1000, 5000], [90, 100, 110]]
    assert [list(axes.get_yticks()) for axes in figure.axes] == ticks
    assert [axes.get_title() for axes in figure.axes] == ["Composite Block Size\nWorkload\na", "high\nb", "low"]
    assert words.count("% of average") == 1
    assert "RND 1024 KiB 100/0" in words
    assert "a" not in words


def test_high_columns_are_drawn_behind_low_ones() -> None:
    """Rows are drawn in order from back to front; the axis lists 0/100 first and 100/0 last."""
    with drawing.settings():
        figure = columns_3d.columns(matrix(), *SIDES, heading="IOPS")
        words = check(figure)
    rows: Any = figure.axes[0].collections
    assert [len(row.get_paths()) for row in rows] == [3 * len(SIZES)] * len(MIXES)
    heights = [min(path.vertices[:, 1].min() for path in row.get_paths()) for row in rows]
    assert heights == sorted(heights, reverse=True)
    order = [row.get_zorder() for row in rows]
    assert order == sorted(order)
    assert len(set(order)) == len(MIXES)
    front_to_back = [word for word in words if word[0].isdigit() and "/" in word]
    assert front_to_back == ["0/100", "5/95", "35/65", "50/50", "65/35", "95/5", "100/0"]


def test_the_lowest_columns_are_in_front() -> None:
    """If reads have the lowest columns, these are in front, and they keep the colour of their mix."""
    inverted = {at: 1 / value for at, value in matrix().items()}
    with drawing.settings():
        figure = columns_3d.columns(inverted, *SIDES, heading="Average response time (ms)")
        words = check(figure)
    assert next(word for word in words if "/" in word) == "100/0"
    front: Any = figure.axes[0].collections[-1]
    assert tuple(front.get_facecolor()[-1][:3]) == pytest.approx(to_rgb(style.series_styles(MIXES)[100].colour))


@pytest.mark.long_but_first
@pytest.mark.parametrize("corner", [(4096, 0), (4096, 100), (1048576, 0), (1048576, 100)])
def test_the_highest_corner_hides_no_column(corner: tuple[int, int]) -> None:
    """Whichever corner of the matrix is the highest, the view has it where it covers no other column."""
    across, deep = SIDES
    values = {
        (size, share): 1e6 / (1 + 40 * abs(math.log2(size / corner[0]))) / (1 + 0.2 * abs(share - corner[1]))
        for size in SIZES
        for share in MIXES
    }
    given = columns_3d.hidden(values, across, deep, top=1e6)
    best = columns_3d.hidden(values, *columns_3d.best_view([values], across, deep), top=1e6)
    assert best <= min(2, given)
    with drawing.settings():
        check(columns_3d.columns(values, across, deep, heading="IOPS"))


@pytest.mark.long
def test_few_columns_have_their_values_on_top() -> None:
    """Nine columns are labelled, also those behind others, with the mark of a host-limited one; 56 are not."""
    sides = [figures.Side(title="", keys=(1, 2, 3), labels=("a", "b", "c")) for _ in range(2)]
    values = {(column, row): 10.0 * row + column for column in (1, 2, 3) for row in (1, 2, 3)}
    with drawing.settings():
        few = check(
            columns_3d.columns(values, sides[0], sides[1], heading="IOPS", marks={(2, 3): matrices.HOST_LIMITED})
        )
        many = check(columns_3d.columns(matrix(), *SIDES, heading="IOPS"))
    expected = {f"{value:.2f}" for value in values.values()} - {"32.00"} | {f"{matrices.HOST_LIMITED} 32.00"}
    assert expected <= set(few)
    assert not {f"{value:,.0f}" for value in matrix().values()} & set(many)


def test_the_value_of_a_column_stands_on_it() -> None:
    """Of columns behind higher ones the values are where they are visible, with the colour of their row."""
    sides = [figures.Side(title="", keys=(1, 2, 3), labels=("a", "b", "c")) for _ in range(2)]
    values = {(column, row): {1: 0.1, 2: 9.0, 3: 4.0}[row] + column / 100 for column in (1, 2, 3) for row in (1, 2, 3)}
    with drawing.settings():
        (shown,) = columns_3d.columns(values, *sides, heading="IOPS").axes
    rows: Any = shown.collections
    for column in (1, 2, 3):
        (label,) = (text for text in shown.texts if text.get_text().startswith(f"{values[column, 3]:.2f}"))
        assert not any(path.contains_point(label.get_position()) for path in rows[1].get_paths())
        assert any(path.contains_point(label.get_position()) for path in rows[0].get_paths())
        plate = label.get_bbox_patch()
        assert plate
        assert plate.get_edgecolor()[:3] == to_rgb(style.series_styles((1, 2, 3))[3].colour)


def test_a_column_covers_what_is_behind_it() -> None:
    """A high column in front covers a low one behind it; the reverse covers nothing."""
    wide = figures.Side(title="", keys=tuple(range(8)), labels=("",) * 8)
    rows = figures.Side(title="", keys=tuple(range(7)), labels=("",) * 7)
    front = {(at, depth): 9.0 if depth == 0 else 1.0 for at in wide.keys for depth in rows.keys}
    behind = {(at, depth): 9.0 if depth == 6 else 1.0 for at in wide.keys for depth in rows.keys}
    assert columns_3d.hidden(front, wide, rows, top=9.0) > 10
    assert columns_3d.hidden(behind, wide, rows, top=9.0) == 0


@pytest.mark.parametrize(("highest", "labels"), [(1e6, ["100 000", "1 000 000"]), (1e8, ["100 000", "1 M", "100 M"])])
def test_an_axis_has_one_style_of_units(highest: float, labels: list[str]) -> None:
    """Numbers below ten millions are written out on every axis, as in the tables."""
    shown = [axes.tick_label(value, highest) for value in (1e5, 1e6, 1e8) if value <= highest]
    assert [label.replace("\N{NARROW NO-BREAK SPACE}", " ") for label in shown] == labels
    linear = [label.replace("\N{NARROW NO-BREAK SPACE}", " ") for label in axes.tick_labels([0.0, 4e5, 8e5])]
    assert linear == ["0", "400 000", "800 000"]
    assert axes.tick_labels([0.0, 5e6, 1e7])[-1] == "10 M"
    assert axes.tick_labels([90.0, 95.0, 100.0]) == ["90", "95", "100"]
    assert axes.tick_labels([0.0, 2.5, 5.0])[1] == "2.5"


def test_lines_that_coincide_are_all_visible() -> None:
    """Three equal series: the colour of each is seen, also beside its markers; grid lines are above the window."""
    names = ["RND 4 KiB 0/100", "RND 64 KiB 65/35", "RND 1024 KiB 100/0"]
    series, styles = {name: dict.fromkeys(range(1, 7), 100.0) for name in names}, style.overlay_styles(names)
    with drawing.settings():
        figure = figures.convergence(
            series, (2, 3, 4, 5, 6), heading="IOPS (% of average)", legend="", log=False, styles=styles
        )
        canvas: Any = FigureCanvasAgg(figure)
        canvas.draw()
        pixels = numpy.asarray(canvas.buffer_rgba())[..., :3] / 255
        plot, at = figure.axes[0].bbox, pixels.shape[0] - figure.axes[0].transData.transform((2.5, 100.0))[1]
    line = pixels[round(at) - 2 : round(at) + 2, round(plot.x0) : round(plot.x1)]
    for name in names:
        near = numpy.abs(line - to_rgb(styles[name].colour)).max(axis=2) < 0.15
        assert near.any(axis=0).sum() > 20, name
    (band,) = (patch for patch in figure.axes[0].patches if patch.get_label())
    assert band.get_zorder() < figure.axes[0].get_ygridlines()[0].get_zorder()


def test_a_series_has_one_style_that_differs_in_grey() -> None:
    """A key's style depends only on its position; no two of the standard's series share marker and dash."""
    assert style.series_styles(MIXES) == style.series_styles(MIXES)
    for keys in (SIZES, MIXES):
        styles = style.series_styles(keys).values()
        assert len({style.colour for style in styles}) == len(keys)
        assert len({(style.marker, str(style.dash)) for style in styles}) == len(keys)


@given(st.floats(1e-6, 1e12), st.floats(1, 1e9))
def test_log_axes_enclose_their_values_closely_with_few_ticks(low: float, factor: float) -> None:
    """For every range the ends are at most a 1-2-5 step beyond the values; the ticks ascend, and are few."""
    (below, above), ticks = axes.log_axis(low, low * factor)
    assert below <= low * (1 + 1e-6)
    assert above >= low * factor * (1 - 1e-6)
    assert below >= low / 2.6
    assert above <= max(low * factor, below * (1 + 1e-6)) * 2.6
    assert ticks == sorted(set(ticks))
    assert 3 <= len(ticks) <= 11
    assert below * (1 - 1e-6) <= ticks[0] <= 4.6 * below
    assert above <= 4.6 * ticks[-1]
    assert ticks[-1] <= above * (1 + 1e-6)


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9))
def test_linear_ticks_enclose_and_are_few(low: float, span: float) -> None:
    """For every range the ticks ascend, enclose both ends, and are few."""
    ticks = axes.linear_ticks(low, low + span)
    assert ticks == sorted(set(ticks))
    assert ticks[0] <= low + 1e-6 * span + 1e-9 * abs(low)
    assert ticks[-1] >= low + span - 1e-6 * span - 1e-9 * abs(low)
    assert 2 <= len(ticks) <= 8


@pytest.mark.parametrize(("highest", "has_room"), [(249_900.0, True), (250_000.0, True), (230_000.0, False)])
def test_the_axis_has_room_for_a_marker_near_the_last_tick(highest: float, has_room: bool) -> None:
    """The axis extends beyond the last tick if a value is close to it, because markers are cut at the axis end."""
    plot = Drawn().subplots()
    axes.set_linear_y(plot, [0.0, highest])
    axes.set_linear_x(plot, [0.0, highest])

    for ticks, end in ((plot.get_yticks(), plot.get_ylim()[1]), (plot.get_xticks(), plot.get_xlim()[1])):
        assert ticks[-1] == 250_000
        assert end > highest + 5000
        assert (end > ticks[-1]) == has_room


def test_drawing_does_not_change_matplotlib_settings() -> None:
    """matplotlib's rcParams are the same before and after drawing."""
    import matplotlib

    before = dict(matplotlib.rcParams)
    drawing.draw(build(samples.iops_result(stop_after=58, ending="interrupted")), ("svg",))
    assert dict(matplotlib.rcParams) == before


@pytest.mark.long_but_first
@pytest.mark.parametrize("test", SPEC_TYPES)
def test_the_figure_of_the_first_page_is_readable(test: str) -> None:
    """No text of it overlaps another one, or is smaller than seven points."""
    result = samples.result_of(test)
    (figure,) = (block for block in build(result).pages[0].blocks if isinstance(block, Figure))
    with drawing.settings():
        drawn = figure.draw()
        assert check(drawn)
    sizes = [cast("Any", text).get_fontsize() for text in drawn.findobj(Text)]
    assert min(sizes) >= 7


def test_the_heat_map_has_the_values_of_the_matrix() -> None:
    """Each cell has its value in few digits, at its block size and mix; a lower value is never darker."""
    result = samples.result_of("iops")
    (loop,) = result.loops
    values, (down, across) = matrices.reduced([loop], matrices.iops), SIDES
    (figure,) = (block for block in build(result).pages[0].blocks if isinstance(block, Figure))
    with drawing.settings():
        axes_of_map = figure.draw().axes[0]
    cells = {
        (down.keys[round(y)], across.keys[round(x)]): text.get_text()
        for text in axes_of_map.texts
        for x, y in [text.get_position()]
    }
    assert cells == {place: dashboard.short_number(value) for place, value in values.items()}
    light = {
        (down.keys[round(bar.get_y() + 0.5)], across.keys[round(bar.get_x() + 0.5)]): sum(to_rgb(bar.get_facecolor()))
        for bar in axes_of_map.patches
        if isinstance(bar, Rectangle)
    }
    order = sorted(values, key=lambda place: values[place])
    assert [light[place] for place in order] == sorted(light.values(), reverse=True)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (202_610.4, "203k"),
        (12_345.0, "12.3k"),
        (9999.6, "10.0k"),
        (3498.0, "3\N{NARROW NO-BREAK SPACE}498"),
        (999.6, "1\N{NARROW NO-BREAK SPACE}000"),
        (999_600.0, "1.00M"),
        (1.234e6, "1.23M"),
        (850.2, "850"),
        (15.0, "15.0"),
        (0.07804, "0.0780"),
        (0.01317, "0.0132"),
        (0.0, "0.00"),
        (math.nan, "n/a"),
    ],
)
def test_a_number_in_a_cell_has_three_or_four_digits(value: float, text: str) -> None:
    """From ten thousand on it has a unit, and zeros at its end are kept, as in its neighbours."""
    assert dashboard.short_number(value) == text
