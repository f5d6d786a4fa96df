"""A plan is the procedure driven with supposed answers: its arithmetic is checked by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.plan import Assumptions, plan
from snia_pts.spec import TestClass
from snia_pts.units import GB, MB
from tests.strategies import CLASSES, VERSIONS, dut, iops_spec, standard

ASSUMED = Assumptions(mb_per_second=500, overhead_seconds=0)


@pytest.mark.parametrize("test_class", CLASSES)
@pytest.mark.parametrize("pts", VERSIONS)
def test_shortest_and_longest(pts: str, test_class: TestClass) -> None:
    """Five rounds at least, twenty-five at most, after a purge and the preconditioning."""
    planned = plan(standard(pts, test_class).spec, dut(), ASSUMED)

    assert (planned.shortest.rounds, planned.longest.rounds) == (5, 25)
    assert [step.label for step in planned.shortest.steps] == [
        "Purge", "Preconditioning SEQ 128 KiB 0/100", "Round 1", "Round 2", "Round 3", "Round 4", "Round 5",
    ]  # fmt: skip
    assert planned.longest.steps[:7] == planned.shortest.steps


def test_time_by_hand() -> None:
    """960 GB at 500 MB/s: 3840 s of preconditioning, then 56 minutes a round; 4.7 h and 23.3 h of pure rounds."""
    planned = plan(standard().spec, dut(capacity_bytes=960 * GB), ASSUMED)

    assert [step.seconds for step in planned.shortest.steps] == pytest.approx([0, 3840, *[56 * 60] * 5])
    assert planned.shortest.seconds == pytest.approx(3840 + 5 * 3360)
    assert planned.longest.seconds == pytest.approx(3840 + 25 * 3360)


def test_overhead_is_counted_for_each_stimulus() -> None:
    """The time lost around a stimulus is added to every one of them, and to no purge."""
    lossy = Assumptions(mb_per_second=500, overhead_seconds=0.25)
    steps = plan(standard().spec, dut(), lossy).shortest.steps

    assert [step.stimuli for step in steps] == [0, 1, *[56] * 5]
    assert [step.seconds for step in steps] == pytest.approx([0, 3840.25, *[56 * 60.25] * 5])


def test_bytes_by_hand() -> None:
    """WIPC writes exactly twice the capacity; a round at most the writing share of its minutes at full speed."""
    planned = plan(standard().spec, dut(capacity_bytes=960_197_124_096), ASSUMED)
    written_shares = 8 * sum([0, 5, 35, 50, 65, 95, 100]) / 100
    by_round = round(written_shares * 60 * 500 * MB)

    assert [step.written_bytes for step in planned.shortest.steps] == [0, 2 * 960_197_124_096, *[by_round] * 5]
    assert planned.shortest.written_bytes == 2 * 960_197_124_096 + 5 * by_round
    assert planned.longest.written_bytes == 2 * 960_197_124_096 + 25 * by_round


def test_reads_write_nothing() -> None:
    """A point's written bytes are its writing share: of 0/100 and 95/5 together 105 % of a minute."""
    planned = plan(iops_spec("1.1", rounds__read_percents=[0, 95]), dut(), ASSUMED)

    assert {step.written_bytes for step in planned.shortest.steps[2:]} == {round(8 * 1.05 * 60 * 500 * MB)}


def test_shortened_test_costs_less() -> None:
    """Time a point and rounds are the specification's: what is shortened there is shorter in the plan."""
    planned = plan(iops_spec(rounds__point_seconds=0.5, rounds__maximum=6), dut(), ASSUMED)

    assert planned.longest.rounds == 6
    assert planned.longest.seconds == pytest.approx(3840 + 6 * 28)


@pytest.mark.parametrize("window", range(2, 12))
def test_longest_is_never_steady(window: int) -> None:
    """Whatever the window and however generous the limits, the longest course runs all rounds."""
    spec = iops_spec(
        steady_state__window_rounds=window,
        steady_state__data_excursion_percent=100,
        steady_state__slope_excursion_percent=100,
    )
    planned = plan(spec, dut(), ASSUMED)

    assert planned.shortest.rounds == window
    assert planned.longest.rounds == 25


def test_sectors_of_4096_make_49_points() -> None:
    """The plan leaves out what the procedure leaves out."""
    planned = plan(standard().spec, dut(logical_sector_bytes=4096), ASSUMED)

    assert [step.stimuli for step in planned.shortest.steps[2:]] == [49] * 5


@given(st.integers(2**21, 2**45), st.integers(0, 2**40), st.sampled_from(CLASSES))
def test_larger_devices_cost_no_less(capacity_bytes: int, more_bytes: int, test_class: TestClass) -> None:
    """Time and bytes grow with the capacity, the rounds do not."""
    spec = iops_spec("2.0.2", test_class, rounds__maximum=6, rounds__block_sizes_kib=[1024, 64, 4])
    small = plan(spec, dut(capacity_bytes=capacity_bytes), ASSUMED)
    large = plan(spec, dut(capacity_bytes=capacity_bytes + more_bytes), ASSUMED)

    for less, more in ((small.shortest, large.shortest), (small.longest, large.longest)):
        assert less.seconds <= more.seconds
        assert more.written_bytes - less.written_bytes == 2 * more_bytes
        assert less.rounds == more.rounds
