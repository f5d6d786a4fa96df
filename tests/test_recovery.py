"""Recovery from random writes, and the return to a baseline after idle times: by definition, for any length."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.analysis import recovery
from snia_pts.model.steps import Stimulus
from snia_pts.model.time_series import TimeLine
from snia_pts.spec.reader import definitions
from snia_pts.units import MB
from tests import samples
from tests.strategies import sample, stimulus

TOLERANCE_PERCENT = definitions().recovery.tolerance_percent
SEQ = replace(stimulus(block_size_kib=1024), access="SEQ")
RND = stimulus(block_size_kib=8)
SPEEDS = st.lists(st.integers(1, 1000), min_size=1, max_size=40)


def dwelt(kept: Sequence[bool], seconds: float) -> bool:
    """Return whether the last samples are kept for 5 minutes, or for a quarter of all if that is shorter."""
    last = next((place for place, item in enumerate(reversed(kept)) if not item), len(kept))
    return last * seconds >= min(300, 0.25 * len(kept) * seconds)


def group(name: str, speeds: Sequence[float], *, seconds: float = 60.0, request: Stimulus = SEQ) -> TimeLine:
    """Return an access group with one sample per speed (MB/s), each of so many seconds."""
    line = TimeLine(phase="stimulus", part=name, stimulus=request)
    line.add(
        [
            replace(
                sample(number),
                seconds=seconds,
                ended_seconds=number * seconds,
                write_ios=round(speed * seconds),
                write_bytes=round(speed * seconds * MB),
            )
            for number, speed in enumerate(speeds, start=1)
        ],
        None,
    )
    return line


def groups(last: Sequence[float], *, seconds: float = 60.0) -> list[TimeLine]:
    """Return three access groups, the first at 100 MB/s throughout."""
    return [
        group("AG 1", [100] * 40, seconds=seconds),
        group("AG 2", [30] * 30, seconds=seconds, request=RND),
        group("AG 3", last, seconds=seconds),
    ]


# -- cross stimulus recovery ------------------------------------------------------------------------------------------


@given(SPEEDS, st.sampled_from([0.25, 1.0, 60.0]))
def test_recovered_samples_stay_above_the_threshold_to_the_end(speeds: list[int], seconds: float) -> None:
    """From the recovery time on every sample has 90 % of the baseline, and the one before does not."""
    found = recovery.recovery(groups(speeds, seconds=seconds))

    assert found is not None
    assert (found.reference, found.group) == ("AG 1", "AG 3")
    assert found.baseline == pytest.approx(100)
    kept = [speed >= 100 - TOLERANCE_PERCENT for speed in speeds]
    assert (found.time.recovered is not None) == dwelt(kept, seconds)
    if found.time.recovered is not None:
        place = round(found.time.recovered.begin / seconds)
        assert found.time.recovered == pytest.approx((place * seconds, (place + 1) * seconds, speeds[place]))
        assert all(kept[place:])
        assert place == 0 or not kept[place - 1]
    assert (found.time.reached and found.time.reached.begin) == (kept.index(True) * seconds if any(kept) else None)
    assert found.time.measured_seconds == len(speeds) * seconds


@given(SPEEDS)
def test_depth_is_the_lowest_sample(speeds: list[int]) -> None:
    """The depth is the lowest sample of the last group in percent of the baseline."""
    found = recovery.recovery(groups(speeds))

    assert found is not None
    assert found.lowest_percent == pytest.approx(min(speeds))


def test_a_late_dip_means_not_recovered() -> None:
    """Having reached the threshold once is not recovery, if a sample at the end is below it."""
    found = recovery.recovery(groups([50, 95, 95, 95, 80]))

    assert found is not None
    assert found.time.recovered is None
    assert found.time.reached == pytest.approx((60, 120, 95))


def test_a_single_good_second_at_the_end_is_no_recovery() -> None:
    """The last second of ten is less than a quarter, and the last minute of an hour less than 5."""
    for bad, good, seconds, stayed in ((9, 1, 1.0, 1), (59, 1, 60.0, 60), (56, 4, 60.0, 240)):
        found = recovery.recovery(groups([50] * bad + [95] * good, seconds=seconds))
        assert found is not None
        assert found.time.recovered is None
        assert found.time.in_band_seconds == pytest.approx(stayed)
    found = recovery.recovery(groups([50] * 55 + [95] * 5))
    assert found is not None
    assert found.time.recovered == pytest.approx((55 * 60, 56 * 60, 95))


def test_exactly_the_threshold_is_recovered() -> None:
    """90 % of the baseline is enough, slightly less is not."""
    found = [recovery.recovery(groups([speed])) for speed in (90.0, 89.9)]
    assert [one is not None and one.time.recovered is not None for one in found] == [True, False]


def test_the_baseline_is_the_end_of_the_first_group() -> None:
    """The baseline is the last hour, not the first seven hours of a fresh drive."""
    first = group("AG 1", [500] * 420 + [100] * 60)
    found = recovery.recovery([first, group("AG 3", [100])])

    assert found is not None
    assert found.baseline == pytest.approx(100)


@given(st.integers(1, 500), st.sampled_from([0.25, 1.0, 60.0]))
def test_the_end_of_a_group_is_an_hour_or_at_most_a_quarter(count: int, seconds: float) -> None:
    """It consists of whole samples, at least one, and of no more than needed."""
    line = group("AG 1", range(1, count + 1), seconds=seconds)
    wanted = min(3600, 0.25 * count * seconds)
    taken = max(1, -(-wanted // seconds))

    assert recovery.end_seconds(line) == wanted
    speeds = range(count - int(taken) + 1, count + 1)
    assert recovery.mean_at_end(line) == pytest.approx(statistics.fmean(speeds), rel=1e-6)


def test_a_short_last_sample_decides_nothing() -> None:
    """A sample of less than half its length is ignored; a group with no other sample is evaluated by it."""
    last = group("AG 3", [95, 95])
    last.add([replace(sample(), seconds=5.0, ended_seconds=5.0, write_bytes=MB)], None)
    found = recovery.recovery([group("AG 1", [100] * 9), last])
    assert found is not None
    assert found.time.recovered
    assert found.time.recovered[:2] == (0, 60)
    assert found.lowest_percent == pytest.approx(95)

    stub = group("AG 3", [20], seconds=0.2)
    found = recovery.recovery([group("AG 1", [100] * 9), stub])
    assert found is not None
    assert found.lowest_percent == pytest.approx(20)


def test_samples_too_short_for_a_rate_do_not_count() -> None:
    """Less than 100 ms give no MB/s: neither a baseline, nor a lowest sample, nor a recovery."""
    assert recovery.recovery([group("AG 1", [100], seconds=0.05), group("AG 3", [100])]) is None
    found = recovery.recovery([group("AG 1", [100] * 9), group("AG 3", [100], seconds=0.05)])
    assert found is not None
    assert math.isnan(found.lowest_percent)
    assert found.time.recovered is None


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [group("AG 1", [100])],
        [group("AG 1", [100]), group("AG 2", [30], request=RND)],
        [group("AG 1", []), group("AG 3", [100])],
        [group("AG 1", [0, 0]), group("AG 3", [100])],
    ],
    ids=["nothing", "one group", "no group repeated", "nothing measured in the first", "a dead first group"],
)
def test_without_a_baseline_there_is_no_recovery(lines: list[TimeLine]) -> None:
    """The figures are n/a if no earlier group has the last one's stimulus and a throughput."""
    assert recovery.recovery(lines) is None


@pytest.mark.parametrize("pts", ["1.1", "2.0.2"])
def test_the_third_standard_group_recovers_to_the_first(pts: str) -> None:
    """With the standard's access groups, AG 3 is compared with AG 1."""
    found = recovery.recovery(samples.result_of("xsr", pts=pts).lines("stimulus"))

    assert found is not None
    assert (found.reference, found.group) == ("AG 1", "AG 3")
    assert found.time.recovered is not None
    assert 0 < found.time.recovered.begin < 3600
    assert found.lowest_percent < 60


# -- return to baseline -----------------------------------------------------------------------------------------------


@given(st.lists(st.integers(50, 150), min_size=1, max_size=20))
def test_the_return_stays_within_ten_percent(minutes: list[int]) -> None:
    """IOPS above the band are as far from the baseline as those below it; means are over a minute, not over 5 s."""
    line = group("Wait State 1", [rate for minute in minutes for rate in (minute - 20, minute + 20) * 6], seconds=5)
    stay = recovery.back_to_baseline(line, 100, 60)

    back = [abs(minute - 100) <= TOLERANCE_PERCENT for minute in minutes]
    assert (stay.recovered is not None) == dwelt(back, 60)
    if stay.recovered is not None:
        place = round(stay.recovered.begin / 60)
        assert all(back[place:])
        assert place == 0 or not back[place - 1]


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=50),
    st.sampled_from([1.0, 4.99, 5.0, 5.01]),
    st.sampled_from([1, 12, 1000]),
)
def test_means_use_whole_samples(rates: list[int], seconds: float, together: int) -> None:
    """The number of samples nearest to the time is combined; slightly short samples do not add another one."""
    line = group("AG 1", rates, seconds=seconds)
    means = list(recovery.iops_means(line, together * round(seconds)))

    blocks = [rates[at : at + together] for at in range(0, len(rates), together)]
    if len(blocks) > 1 and 2 * len(blocks[-1]) * seconds < together * round(seconds):
        blocks.pop()
    assert [mean.value for mean in means] == pytest.approx([statistics.fmean(block) for block in blocks], abs=0.6)
    assert means[0].begin == 0
    assert means[0].end == pytest.approx(len(blocks[0]) * seconds)
