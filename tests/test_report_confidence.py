"""The response time histogram with its confidence levels has the counts of the bins, and its labels do not overlap."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from snia_pts.model.histogram import Histogram
from snia_pts.model.measurement import NO_TRANSFERS, Transfers
from snia_pts.model.time_series import TimeLine
from snia_pts.report.figures import render as drawing
from snia_pts.report.pages import Figure, Prose
from snia_pts.report.sections import confidence
from snia_pts.report.tables import Table
from snia_pts.results.result import TestResult
from tests import samples, strategies
from tests.test_report_figures import check

RESULT: TestResult = samples.result_of("dirth")


def line_of(bins: dict[int, int], *, maximum_ns: int | None = None, seconds: float = 600) -> TimeLine:
    """Return a histogram line of 4 KiB writes whose response times were counted in ``bins``."""
    ios = sum(bins.values())
    write = NO_TRANSFERS
    if ios:
        write = Transfers(
            ios=ios,
            transferred_bytes=4096 * ios,
            runtime_ms=round(1000 * seconds),
            response_min_ns=min(bins),
            response_mean_ns=sum(edge * count for edge, count in bins.items()) / ios,
            response_max_ns=maximum_ns or max(bins),
            histogram=Histogram.from_bins(bins.items()),
        )
    stimulus = strategies.stimulus(thread_count=1, queue_depth=1)
    line = TimeLine(phase="histogram", part="", stimulus=stimulus)
    line.add((), strategies.measurement(stimulus, write=write))
    return line


def words_of(line: TimeLine) -> list[str]:
    """Return the texts of the drawn page's figure, none of which overlap."""
    (figure,) = (block for block in page_of(line).blocks if isinstance(block, Figure))
    with drawing.settings():
        drawn = figure.draw()
        assert tuple(drawn.get_size_inches()) == (figure.width, figure.height)
        return check(drawn)


def page_of(line: TimeLine) -> Any:
    return confidence.page(RESULT, line, title="Response Time Histogram", name="histogram")


def row_of(line: TimeLine) -> dict[str, str]:
    (table,) = (block for block in page_of(line).blocks if isinstance(block, Table))
    (row,) = table.rows
    return dict(zip((column.heading for column in table.columns), row, strict=True))


bins = st.dictionaries(st.integers(1, 10**12), st.integers(1, 10**7), min_size=1, max_size=40)


@given(bins)
def test_drawing_loses_no_io(counted: dict[int, int]) -> None:
    """The plotted bins have as many I/Os as were counted, and their edges enclose every response time."""
    summary = confidence.confidence(line_of(counted))
    counts, edges = confidence.rebinned(summary)
    assert sum(counts) == sum(counted.values())
    assert len(edges) == len(counts) + 1
    assert counts[0] > 0
    assert counts[-1] > 0
    assert edges[0] <= min(counted) / 1e6 * (1 + 1e-9)
    assert edges[-1] >= max(counted) / 1e6 * (1 - 1e-9)
    assert all(
        high / low == pytest.approx(10 ** (1 / confidence.BINS_PER_DECADE)) for low, high in itertools.pairwise(edges)
    )


@given(bins)
def test_the_cumulative_line_rises_to_100_percent(counted: dict[int, int]) -> None:
    """The line passes through the marker of each percentile."""
    summary = confidence.confidence(line_of(counted))
    times, shares = confidence.cumulative(summary)
    assert times == sorted(times)
    assert shares == sorted(shares)
    assert shares[-1] == 100
    for marker in summary.known_markers[1:-1]:
        percent = float(marker.name.removesuffix(" %"))
        assert marker.ms is not None
        reached = max(share for time, share in zip(times, shares, strict=True) if time <= marker.ms)
        assert reached >= percent - 1e-9


@given(bins)
def test_the_axis_of_nines_has_each_marker_at_its_number_of_nines(counted: dict[int, int]) -> None:
    """The line reaches three nines at the 99.9 % marker, and not before it; the longest response time has no nines."""
    summary = confidence.confidence(line_of(counted))
    times, nines = confidence.nines(summary)
    assert nines == sorted(nines)
    assert len(times) == len(counted) - 1
    for number, marker in enumerate(summary.known_markers[1:-1], start=3):
        assert marker.ms is not None
        before = [value for time, value in zip(times, nines, strict=True) if time < marker.ms]
        until = [value for time, value in zip(times, nines, strict=True) if time <= marker.ms]
        assert max(before, default=0) < number
        assert marker.ms == summary.maximum_ms or max(until) >= number - 1e-9


def test_the_axis_of_nines_has_a_tick_for_each_power_of_ten() -> None:
    """1 000 000 I/Os are shown up to six nines."""
    words = words_of(line_of({100_000: 999_990, 900_000: 10}))
    ticks = ["0", "90", "99", "99.9", "99.99", "99.999", "99.9999"]
    assert [word for word in words if word in ticks and word != "0"] == ticks[1:]


def test_each_axis_has_one_notation() -> None:
    """Counts have units from a thousand on, shares are percentages, whatever the number of I/Os."""
    words = words_of(line_of({100_000: 99_999_990, 900_000: 10}))
    assert [word for word in words if word.startswith("1")][:5] == ["1", "100", "10 k", "1 M", "100 M"]
    assert {"99.99", "99.999999"} <= set(words)


@given(bins, st.integers(0, 100))
def test_no_marker_lies_beyond_mrt(counted: dict[int, int], percent: int) -> None:
    """A bin's value may exceed the greatest response time; markers are limited to that time."""
    maximum_ns = max(1, max(counted) * percent // 100)
    assume(maximum_ns >= min(counted))
    summary = confidence.confidence(line_of(counted, maximum_ns=maximum_ns))
    assert summary.maximum_ms == maximum_ns / 1000 / 1000
    assert all(marker.ms is not None and marker.ms <= summary.maximum_ms for marker in summary.known_markers[1:])
    assert all(time <= summary.maximum_ms for time in confidence.cumulative(summary)[0])


@given(
    st.lists(st.floats(0, 5), min_size=1, max_size=5).map(sorted),
    st.floats(0.1, 1.0),
)
def test_labels_do_not_overlap_and_stay_near_their_markers(places: list[float], least: float) -> None:
    """Labels keep their order, distance and the edges; if there is space they are right above their markers."""
    low, high = -0.5, 5.5
    moved = confidence.spread_apart(places, least, low, high)
    assert all(after - before >= least - 1e-9 for before, after in itertools.pairwise(moved))
    assert moved[0] >= low - 1e-9
    assert moved[-1] <= high + 1e-9
    if all(after - before >= least for before, after in itertools.pairwise(places)):
        assert moved == pytest.approx(places)


def test_labels_that_share_a_place_spread_around_it() -> None:
    """Three markers at one position have their labels left of it, above it and right of it."""
    assert confidence.spread_apart([2, 2, 2], 1, 0, 5) == pytest.approx([1, 2, 3])
    assert confidence.spread_apart([0, 0], 1, 0, 5) == pytest.approx([0, 1])
    assert confidence.spread_apart([5, 5], 1, 0, 5) == pytest.approx([4, 5])


SHAPES: dict[str, TimeLine] = {
    "all at one time": line_of({100_000: 10**6}),
    "markers close together": line_of({100_000: 10**6, 101_000: 2000, 102_000: 200, 103_000: 20, 104_000: 2}),
    "markers far apart": line_of({10_000: 10**9, 10**7: 10**6, 10**9: 10**5, 10**11: 10**4, 10**13: 10}),
    "one I/O": line_of({8_000_000: 1}),
    "nanoseconds": line_of({1: 10**6, 2: 10**5}),
    "hours": line_of({10**12: 1000, 10**13: 1}),
    "few I/Os": line_of({200_000: 40, 5_000_000: 3}),
}


def test_equal_percentiles_are_labelled_in_their_order() -> None:
    """99.99 % is left of 99.999 % also where both have the same value."""
    line = SHAPES["all at one time"]
    labels = [word.partition("\n")[0] for word in words_of(line) if "\n" in word and word.endswith(" ms")]
    assert labels == [marker.name for marker in confidence.confidence(line).known_markers]


@pytest.mark.long_but_first
@pytest.mark.parametrize("shape", SHAPES)
def test_no_labels_overlap_at_any_marker_positions(shape: str) -> None:
    """With any response times, texts do not overlap, are inside, and each known marker has one label."""
    line = SHAPES[shape]
    words = words_of(line)
    for marker in confidence.confidence(line).known_markers:
        assert sum(word.startswith(f"{marker.name}\n") for word in words) == 1


@pytest.mark.long_but_first
@pytest.mark.parametrize("place", range(3))
def test_labels_never_overlap_in_a_complete_run(place: int) -> None:
    """The three histograms of a full-length run are readable."""
    assert "Response time (ms, log)" in words_of(RESULT.lines("histogram")[place])


def test_a_percentile_with_too_few_ios_is_not_marked() -> None:
    """50 000 I/Os are too few for five nines: n/a in the table, no marker; 10^5 are enough."""
    few, enough = line_of({100_000: 49_990, 900_000: 10}), line_of({100_000: 99_999, 900_000: 1})
    assert row_of(few)["99.999 % (ms)"] == "n/a"
    assert not any(word.startswith("99.999 %") for word in words_of(few))
    assert row_of(enough)["99.999 % (ms)"] == row_of(enough)["ART (ms)"] == "0.1000"
    assert any(word.startswith("99.999 %") for word in words_of(enough))
    reasons = [
        [
            block.text
            for block in confidence.page(RESULT, line, title="P10", name="p10").blocks
            if isinstance(block, Prose)
        ]
        for line in (few, enough)
    ]
    required = "100\N{NARROW NO-BREAK SPACE}000 for 99.999 %"
    assert reasons == [[f"n/a: fewer I/Os than {required}. The figure has no mark for it."], []]


def test_the_table_has_the_counts_of_the_engine() -> None:
    """I/Os, IOPS and decimal MB/s of the histogram's stimulus, ART, the nines and MRT."""
    row = row_of(line_of({1_000_000: 599_000, 4_000_000: 900, 8_000_000: 100}, maximum_ns=9_000_000))
    assert row == {
        "Stimulus": "RND 4 KiB 0/100, T1Q1",
        "I/Os": "600\N{NARROW NO-BREAK SPACE}000",
        "IOPS": "1\N{NARROW NO-BREAK SPACE}000",
        "MB/s": "4.096",
        "ART (ms)": "1.006",
        "99.9 % (ms)": "4.000",
        "99.99 % (ms)": "8.000",
        "99.999 % (ms)": "8.000",
        "MRT (ms)": "9.000",
    }


def test_the_caption_names_pattern_demand_rates_and_bins() -> None:
    """As in the standard's reports: CLP, pattern, demand, IOPS, MB/s, MRT; and how the bins were made."""
    line = line_of({1_000_000: 599_000, 4_000_000: 1000})
    (figure,) = (block for block in page_of(line).blocks if isinstance(block, Figure))
    assert figure.caption.startswith(
        "Confidence Level Plot (CLP). RND 4 KiB 0/100, T1Q1: IOPS = 1\N{NARROW NO-BREAK SPACE}000, 4.096 MB/s, "
        "MRT = 4.000 ms. PTS-E 2.0.2, WCD"
    )
    bins_drawn = len(confidence.rebinned(confidence.confidence(line))[0])
    assert "reads and writes together" not in figure.caption
    assert f"in {bins_drawn} bins, {confidence.BINS_PER_DECADE} per decade (recorded in 2 bins)" in figure.caption


def test_a_dead_device_has_a_page_with_the_reason() -> None:
    """Without any I/O the page has no figure, but the reason."""
    page = page_of(line_of({}))
    assert all(isinstance(block, Prose) for block in page.blocks)
    assert "MRT = n/a ms" in page.blocks[0].text


def test_bins_of_reads_writes_and_several_stimuli_are_merged() -> None:
    """Two stimuli of one line count together: I/Os and bins are added, MRT is the larger one."""
    one, other = line_of({1_000_000: 1000}), line_of({3_000_000: 1000})
    one.add((), other.measurements[0])
    summary = confidence.confidence(one)
    assert summary.ios == 2000
    assert summary.maximum_ms == 3
    assert summary.markers[0].ms == pytest.approx(2)
    assert math.isclose(sum(confidence.rebinned(summary)[0]), 2000)
