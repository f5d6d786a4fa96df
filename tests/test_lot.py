"""The units of a lot: which runs are one, their statistics, their outliers, and the figures of differences."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from scipy import stats

from snia_pts.analysis.outliers import outliers
from snia_pts.report.comparison import build_comparison
from snia_pts.report.comparison_summary import Entry
from snia_pts.report.figures import differences
from snia_pts.report.figures.figure import Side
from snia_pts.report.figures.render import settings
from snia_pts.report.figures.style import GRID
from snia_pts.results.comparison import Difference, compare_figures
from snia_pts.results.lot import LotFigure, lot_figures, lot_model
from snia_pts.results.result import TestResult
from snia_pts.spec import SPEC_TYPES
from tests import samples
from tests.test_report_figures import check

SCALES = (1.0, 1.01, 0.99, 1.02, 0.8)
values = st.lists(st.floats(1, 1e6), min_size=1, max_size=12)


def unit(number: int, scale: float = 1.0, test: str = "latency", **changes: Any) -> TestResult:
    """Return the result of a unit of a lot, which is slower or faster than the others by ``scale``."""
    return samples.result_of(test, scale=scale, device=samples.dut(serial=f"S{number}", **changes))


def lot(test: str = "latency", scales: Sequence[float] = SCALES) -> list[TestResult]:
    return [unit(number, scale, test) for number, scale in enumerate(scales)]


def entries(results: Sequence[TestResult]) -> list[Entry]:
    return [Entry(label=label, path=f"runs/{label}", result=one) for label, one in zip("ABCDEF", results, strict=False)]


@given(values)
def test_outliers_are_beyond_five_percent_and_four_deviations(numbers: list[float]) -> None:
    """The rule is that of scipy's median absolute deviation; fewer than five values have no outliers."""
    found = outliers(numbers)
    if len(numbers) < 5:
        assert found is None
        return
    distances = numpy.abs(numpy.array(numbers) - numpy.median(numbers))
    limit = max(0.05 * float(numpy.median(numbers)), 4 * float(stats.median_abs_deviation(numbers)))
    assert found == tuple(int(place) for place in numpy.flatnonzero(distances > limit))


def test_an_outlier_hides_neither_itself_nor_another() -> None:
    """Two bad units of seven are found, although both are within two standard deviations of the mean."""
    numbers = [100.0, 101, 99, 100, 102, 60, 61]
    assert outliers(numbers) == (5, 6)
    assert abs(60 - statistics.fmean(numbers)) < 2 * statistics.stdev(numbers)


def test_a_lot_is_at_least_three_drives_of_one_model() -> None:
    """Two drives, two models, two runs of one drive, or drives without a serial number are no lot."""
    three = lot(scales=(1.0, 1.0, 1.0))
    assert lot_model(three) == samples.dut().model
    assert lot_model(three[:2]) is None
    assert lot_model([*three[:2], unit(3, model="OTHER")]) is None
    assert lot_model([*three, three[0]]) is None
    assert lot_model([*three[:2], samples.result_of("latency", device=samples.dut(serial=""))]) is None


def test_values_that_are_not_steady_do_not_count() -> None:
    """The unit of a run without steady state is in no mean; with two others there is no figure."""
    unsteady = samples.result_of("latency", steady=False, device=samples.dut(serial="S9"))
    good = lot(scales=(1.0, 1.01, 0.99))
    at = "RND 4 KiB 0/100"
    (figure,) = (
        item
        for item in lot_figures(compare_figures([*good, unsteady]))
        if (item.metric, item.at) == ("average_response_ms", at)
    )
    (alone,) = (
        item for item in lot_figures(compare_figures(good)) if (item.metric, item.at) == ("average_response_ms", at)
    )
    assert (figure.values[3], figure.mean, figure.outliers) == (None, alone.mean, None)
    names = {(item.metric, item.at) for item in lot_figures(compare_figures([*good[:2], unsteady]))}
    assert ("average_response_ms", at) not in names


@pytest.mark.long
@pytest.mark.parametrize("test", [test for test in SPEC_TYPES if test != "profile"])
def test_no_texts_of_figures_of_differences_overlap(test: str) -> None:
    """Heat maps, bars and dots of every test are readable, for a lot of five with an outlier, and for two runs."""
    for units in (5, 2):
        report = build_comparison(entries(lot(test)[-units:]))
        shown = [item for item in report.figures if item.name.startswith(("difference-", "key-figures", "lot"))]
        maps = units - 1 if test in ("iops", "latency", "dirth", "composite") else 0

        lots = ["lot"] if units > 2 else []
        assert [item.name.partition("-")[0] for item in shown] == [*lots, "key", *["difference"] * maps]
        with settings():
            for item in shown:
                check(item.draw())


@pytest.mark.parametrize(("better", "blue"), [("more", 12.0), ("less", -12.0)])
def test_the_heat_map_colours_significant_differences(better: Any, blue: float) -> None:
    """The colour is blue if better, orange if worse, grey if not significant, and white without an interval."""
    side = Side(title="x", keys=(0, 1), labels=("0", "1"))
    changes = {
        (0, 0): Difference(percent=blue, low=blue - 1, high=blue + 1),
        (1, 0): Difference(percent=-blue, low=-blue - 1, high=-blue + 1),
        (0, 1): Difference(percent=30.0, low=-1.0, high=61.0),
        (1, 1): Difference(percent=30.0),
    }
    (axes,) = differences.heat_map(changes, side, side, better=better).axes
    colours = {
        (round(patch.get_x() + 0.5), round(patch.get_y() + 0.5)): to_hex(patch.get_facecolor())
        for patch in axes.patches
        if isinstance(patch, Rectangle)
    }
    texts = {tuple(map(float, text.get_position())): text.get_text() for text in axes.texts}

    assert colours == {(0, 0): "#0072b2", (1, 0): "#d55e00", (0, 1): GRID, (1, 1): "#ffffff"}
    assert texts == {place: f"{change.percent:+.1f}" for place, change in changes.items()}


def test_bars_are_percentages_of_the_first_run_with_their_intervals() -> None:
    """A bar is 100 % plus the difference; its whisker is the interval; there is none without one."""
    changes = [Difference(percent=-10.0, low=-12.0, high=-8.0), Difference(percent=5.0), None]
    figure = differences.grouped_bars(["x", "y", "z"], {"A": [None] * 3, "B: new": changes}, reference="A")
    (axes,) = figure.axes
    containers: Any = axes.containers
    first, second = containers[1], containers[3]  # after the whiskers of each

    assert [bar.get_height() for bar in first] == [100, 100, 100]
    assert [bar.get_height() for bar in second] == pytest.approx([90, 105, numpy.nan], nan_ok=True)
    whiskers = [sorted(float(y) for _, y in path) for path in second.errorbar.lines[2][0].get_segments()]
    assert whiskers[:2] == [[88, 92], [105, 105]]


@pytest.mark.parametrize("count", [1, 4, 8, 16])
def test_labels_of_groups_are_not_broken_between_number_and_unit(count: int) -> None:
    """However narrow a group is, 1024 and KiB are on one line; a longer quantity is broken at its spaces."""
    groups = ["SEQ 1024 KiB 100/0\nMB/s", "RND 0.5 - 64 KiB mix 0/100\nIOPS"] * count
    (axes,) = differences.grouped_bars(groups, {"A": [None] * len(groups)}, reference="A").axes
    first, second = (label.get_text() for label in axes.get_xticklabels()[:2])

    assert "1024 KiB" in first
    assert first.split() == groups[0].split()
    assert second.split() == groups[1].split()


def test_each_unit_is_a_dot_and_outliers_have_names() -> None:
    """Every unit is drawn in percent of the median, with the limits of outliers; the legend names the outlier alone."""
    figure = LotFigure(metric="iops", at="x", unit="IOPS", values=(100.0, 101.0, 99.0, None, 100.0, 80.0))
    names = [f"{letter}: S{letter}" for letter in "ABCDEF"]
    (axes,) = differences.unit_dots(["x"], [figure], names).axes
    lines: Any = axes.lines
    dots = [line.get_ydata()[0] for line in lines if line.get_linestyle() == "None"]
    legend = axes.get_legend()
    assert legend is not None
    labels = [text.get_text() for text in legend.get_texts()]

    assert dots == pytest.approx([100, 101, 99, 100, 80])
    assert labels[0] == "unit"
    levels = {line.get_label(): line.get_ydata()[0] for line in lines if line.get_linestyle() != "None"}
    limits = sorted(line.get_ydata()[0] for line in lines if line.get_label() == "limits of outliers")
    assert levels["mean"] == pytest.approx(96)
    assert limits == pytest.approx([95, 105])
    assert [label for label in labels if label.startswith("outlier")] == ["outlier F: SF"]
    assert [text.get_text() for text in axes.texts] == ["F"]
