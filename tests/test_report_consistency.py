"""The page on the consistency at the end of a continuous stimulus."""

from __future__ import annotations

import random
import re
import statistics
from typing import cast

import pytest
from scipy.stats import kendalltau

from snia_pts.analysis.consistency import kendall_p_value, trend
from snia_pts.analysis.recovery import end_rows
from snia_pts.model.steps import Stimulus
from snia_pts.model.time_series import TimeLine
from snia_pts.report import registry as building
from snia_pts.report.pages import Figure
from snia_pts.report.sections.consistency import page
from snia_pts.report.tables import Table
from tests import samples
from tests.strategies import sample

STIMULUS = Stimulus(
    access="RND",
    read_percent=0,
    block_size_bytes=4096,
    thread_count=4,
    queue_depth=32,
    range_offset_bytes=0,
    range_bytes=10**9,
    seconds=10**5,
)


def line(ios: list[int], seconds: float = 60.0) -> TimeLine:
    """Return a time line whose samples have these numbers of I/Os."""
    samples_line = TimeLine(phase="stimulus", part="", stimulus=STIMULUS)
    for number, count in enumerate(ios, start=1):
        samples_line.add_sample(
            sample(number=number, ended_seconds=number * seconds, seconds=seconds, write_ios=count, read_ios=0)
        )
    return samples_line


def consistency(made: TimeLine) -> dict[str, str]:
    """Return the page's table."""
    shown = page(made, title="WSAT")
    assert shown is not None
    return {name: text.replace("\N{NARROW NO-BREAK SPACE}", "") for name, text in cast("Table", shown.blocks[1]).rows}


def test_only_the_last_hour_counts() -> None:
    """Of four hours, the page has mean, deviation and worst of the last, as the statistics module computes them."""
    last = [60_000 + 600 * (minute % 7) for minute in range(60)]
    texts = consistency(line([600_000] * 180 + last))
    iops = [count / 60 for count in last]

    assert texts["Samples"] == "60 x 1 min 00 s, the last 1 h 00 min"
    assert texts["Mean"] == f"{statistics.fmean(iops):.1f} IOPS"
    deviation = statistics.stdev(iops)
    assert texts["Standard deviation"].endswith(f" {100 * deviation / statistics.fmean(iops):.2f} % of the mean")
    assert texts["Worst, best sample"] == "1000.0 IOPS, 1060.0 IOPS"
    assert texts["Consistency (mean / standard deviation)"] == f"{statistics.fmean(iops) / deviation:.1f}"
    assert texts["Within 10 % of the mean"] == "100.0 % of the samples"


def test_a_short_stimulus_is_evaluated_in_its_last_quarter() -> None:
    """The start shows the fresh drive, not the worn one; the key figures use the same end."""
    samples_line = line([10**6] * 60 + [60_000] * 20)
    texts = consistency(samples_line)
    assert len(end_rows(samples_line)) == 20
    assert texts["Samples"] == "20 x 1 min 00 s, the last 20 min 00 s"
    assert texts["Worst, best sample"] == "1000 IOPS, 1000 IOPS"
    assert texts["Consistency (mean / standard deviation)"] == "all samples are equal"


def test_the_plot_names_its_lines_and_scales() -> None:
    """Both lines of the deviation have one name; the caption says where the axis starts; the log axis says log."""
    shown = page(line([600_000] * 180 + [60_000 + 600 * (minute % 7) for minute in range(60)]), title="WSAT")
    assert shown is not None
    (figure,) = (block for block in shown.blocks if isinstance(block, Figure))
    above, below = figure.draw().axes
    names = [str(drawn.get_label()).replace("\n", " ") for drawn in above.lines]
    assert names == ["IOPS", "mean", *["mean \N{PLUS-MINUS SIGN} standard deviation"] * 2, "worst sample"]
    assert above.get_ylim()[0] > 0
    assert "Y axis does not start at zero." in figure.caption
    assert below.get_ylabel() == "Response time\n(ms, log)"


@pytest.mark.parametrize(("step", "word"), [(-600, "fall"), (600, "rise")])
def test_a_trend_is_no_consistency(step: int, word: str) -> None:
    """IOPS that steadily rise or fall have no consistency: mean / deviation would describe their slope."""
    texts = consistency(line([600_000] * 180 + [100_000 + step * minute for minute in range(60)]))

    assert re.fullmatch(
        f"n/a: the least squares line of the IOPS {word}s by [0-9]+ % of the mean, more than 10 %",
        texts["Consistency (mean / standard deviation)"],
    )


@pytest.mark.parametrize("percent", [0.5, 2, 5, 9])
@pytest.mark.parametrize("noise", [0, 0.25])
def test_a_monotonic_fall_below_ten_percent_is_no_consistency(percent: float, noise: float) -> None:
    """A statistically significant trend counts as a trend, however small it is; the text names the test that fired."""
    chance = random.Random(7)
    fall = [percent / 100 * (minute / 59 + noise * chance.gauss()) for minute in range(60)]
    texts = consistency(line([600_000] * 180 + [round(100_000 * (1 - part)) for part in fall]))

    assert re.fullmatch(
        r"n/a: the IOPS have a trend: the Mann-Kendall test gives p = 0\.0[0-9]+ %, less than 1 %; the least squares "
        r"line of the IOPS falls by [0-9.]+ % of the mean \(allowed: 10 %\)",
        texts["Consistency (mean / standard deviation)"],
    )


def test_noise_is_no_trend() -> None:
    """Of 300 drives that only scatter, at most ten are reported as rising or falling (1 % by the test)."""
    chance = random.Random(11)
    trends = [trend([chance.gauss(1000, 20) for _ in range(60)]) is not None for _ in range(300)]

    assert sum(trends) <= 10


@pytest.mark.parametrize("count", [2, 3, 4, 10])
def test_p_values_are_those_of_scipy(count: int) -> None:
    """For random orders, and for orders with a trend in part."""
    chance = random.Random(count)
    for sorted_count in (0, 0, 0, count // 2, count - 1, count):
        values = [chance.random() for _ in range(count)]
        values[:sorted_count] = sorted(values[:sorted_count])
        assert kendall_p_value(values) == pytest.approx(kendalltau(range(count), values, method="exact").pvalue)


def test_equal_values_have_no_trend() -> None:
    """Equal means count neither for a rise nor for a fall."""
    assert kendall_p_value([5.0] * 10) == 1
    assert kendall_p_value([5.0] * 9 + [6.0]) > 0.1


def test_the_worst_percent_needs_a_hundred_samples() -> None:
    """The worst 1 % of 60 samples would be a single sample, and is not reported; of 400 it is the fourth."""
    assert "Worst 1 % of the samples" not in consistency(line([1000] * 180 + [60_000] * 60))
    rates = [1000 + 7 * number % 400 for number in range(400)]
    texts = consistency(line([10**6] * 1200 + [9 * rate for rate in rates], 9.0))
    assert texts["Worst 1 % of the samples"] == f"{sorted(rates)[3]} IOPS or less"


@pytest.mark.parametrize("ios", [[60] * 10, [0] * 100])
def test_too_few_samples_have_no_page(ios: list[int]) -> None:
    """Samples without any I/O have none either."""
    assert page(line(ios), title="WSAT") is None


def test_write_saturation_has_the_page() -> None:
    """It follows the plots over time; its figure is tested with all other figures of time lines."""
    report = building.build(samples.result_of("wsat"))
    assert [page.title for page in report.pages].count("WSAT - RND 4 KiB 0/100 - Consistency at the End") == 1
    assert "consistency" in [figure.name for figure in report.figures]


def test_a_sample_that_was_cut_short_does_not_count() -> None:
    """A stimulus ends at its limit, within a sample, with fewer threads: that is not the drive's worst."""
    samples_line = line([6_000_000] * 240)
    samples_line.add_sample(sample(number=241, ended_seconds=14400.004, seconds=0.004, write_ios=128, read_ios=0))
    texts = consistency(samples_line)
    assert texts["Worst, best sample"] == "100000 IOPS, 100000 IOPS"
    assert texts["Samples"] == "60 x 1 min 00 s, the last 1 h 00 min; 1 shortened sample omitted"
    shown = page(samples_line, title="WSAT")
    assert shown is not None
    axes = cast("Figure", shown.blocks[0]).draw().axes[0]
    dots = next(drawn for drawn in axes.lines if drawn.get_label() == "IOPS")
    assert set(cast("list[float]", dots.get_ydata())) == {100_000.0}
