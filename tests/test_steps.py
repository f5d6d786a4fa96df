"""Stimuli, steps and the device under test as values: equality, labels, amounts and validation."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from snia_pts.model.dut import Dut
from snia_pts.model.steps import BlockShare, Cell, ContinuousStimulus, Demand, Idle, Purge, Round, Zone
from snia_pts.units import GB, KIB
from tests.strategies import dut, stimulus


def test_stimulus_is_a_key() -> None:
    """Equal stimuli are one dictionary key; a stimulus with any other attribute is another key."""
    one = stimulus(read_percent=65, block_size_kib=64)

    assert {one: "value"}[stimulus(read_percent=65, block_size_kib=64)] == "value"
    assert len({one, stimulus(65, 8), stimulus(5, 64), stimulus(65, 64, queue_depth=1)}) == 4


def test_stimulus_is_immutable() -> None:
    """Setting an attribute of a stimulus raises FrozenInstanceError."""
    with pytest.raises(FrozenInstanceError):
        stimulus().queue_depth = 1  # type: ignore[misc]


def test_total_oio() -> None:
    """Total OIO is thread count times queue depth."""
    assert stimulus(thread_count=4, queue_depth=32).total_oio == 128


def test_cell_and_labels() -> None:
    """A stimulus has its cell, and its label is in the standard's notation."""
    one = stimulus(read_percent=65, block_size_kib=0.5)

    assert one.cell == Cell(read_percent=65, block_size_bytes=512)
    assert one.cell.mix == "65/35"
    assert one.label == "RND 0.5 KiB 65/35"
    assert stimulus(access="SEQ", block_size_kib=128).label == "SEQ 128 KiB 0/100"


def test_amount_is_passes_over_the_range() -> None:
    """The amount is the passes times the range; a stimulus with a duration has no amount."""
    assert stimulus(seconds=None, passes=2, range_bytes=10**9).amount_bytes == 2 * 10**9
    assert stimulus(seconds=None, passes=3, range_bytes=10**9).amount_bytes == 3 * 10**9
    assert stimulus(seconds=60.0).amount_bytes is None


@pytest.mark.parametrize("end", [{"seconds": None, "passes": None}, {"seconds": 60.0, "passes": 2}])
def test_stimulus_has_either_seconds_or_passes(end: dict[str, Any]) -> None:
    """A stimulus with neither seconds nor passes, or with both, raises ValueError."""
    with pytest.raises(ValueError, match="either seconds or passes"):
        stimulus(**end)


def test_range_is_at_least_one_block() -> None:
    """A range smaller than a block raises ValueError; a range of one block is valid."""
    assert stimulus(range_bytes=4 * KIB).range_bytes == 4096
    with pytest.raises(ValueError, match="is smaller than a block"):
        stimulus(range_bytes=4 * KIB - 1)


def test_steps_have_their_stimuli() -> None:
    """A purge and an idle time have no stimulus, a continuous stimulus has one, a round has all of its points."""
    wipc = stimulus(access="SEQ", block_size_kib=128, seconds=None, passes=2)

    assert Purge().stimuli == Idle(seconds=5).stimuli == ()
    assert ContinuousStimulus(phase="WIPC", stimulus=wipc).stimuli == (wipc,)
    assert Round(number=3, stimuli=(wipc, stimulus())).stimuli == (wipc, stimulus())


def test_step_labels() -> None:
    """A label starts with the part of the test, if there is one, and then names the step."""
    wipc = stimulus(access="SEQ", block_size_kib=128, seconds=None, passes=2)

    assert Purge().label == "Purge"
    assert Purge(part="128 KiB").label == "128 KiB: Purge"
    assert ContinuousStimulus(phase="WIPC", stimulus=wipc).label == "WIPC SEQ 128 KiB 0/100"
    assert Round(part="128 KiB", number=3, stimuli=(wipc,)).label == "128 KiB: Round 3"
    assert Idle(part="Wait State 10", seconds=50).label == "Wait State 10: Idle 50 s"


@pytest.mark.parametrize(
    ("seconds", "sample_seconds", "samples"),
    [(7260, 60, 121), (60, 60, 1), (90, 60, 2), (60.5, 60, 2), (0.3, 0.1, 3), (0.7, 0.1, 7), (5, None, 0)],
)
def test_samples_of_a_continuous_stimulus(seconds: float, sample_seconds: float | None, samples: int) -> None:
    """The number of samples is rounded up; without a sample length it is 0."""
    step = ContinuousStimulus(phase="PC", stimulus=stimulus(seconds=seconds), sample_seconds=sample_seconds)

    assert step.samples == samples


@pytest.mark.parametrize("changes", [{"seconds": 59.0}, {"seconds": None, "passes": 2}])
def test_samples_need_a_long_enough_duration(changes: dict[str, Any]) -> None:
    """A stimulus shorter than a sample, or without a duration, raises ValueError if samples are requested."""
    with pytest.raises(ValueError, match="shorter than one sample"):
        ContinuousStimulus(phase="PC", stimulus=stimulus(**changes), sample_seconds=60)


def mixed(*shares: tuple[float, int]) -> tuple[BlockShare, ...]:
    """Return a mix of (KiB, percent)."""
    return tuple(BlockShare(size_bytes=int(size * KIB), percent=percent) for size, percent in shares)


def test_mix_of_sizes() -> None:
    """A mix has a largest block, the label "composite" and no cell."""
    one = stimulus(block_size_bytes=mixed((0.5, 10), (64, 20), (4, 70)), read_percent=40)

    assert one.largest_block_bytes == 64 * KIB
    assert one.label == "RND composite 40/60"
    assert len(one.block_shares) == 3
    assert stimulus().block_shares == ()
    with pytest.raises(ValueError, match="no cell in a matrix"):
        _ = one.cell


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"block_size_bytes": mixed((4, 60), (8, 39))}, "shares of a block-size mix must add up"),
        (
            {"block_size_bytes": mixed((4, 60), (64, 40)), "range_bytes": 32 * KIB},
            "is smaller than a block of composite",
        ),
        ({"skew": (Zone(access_percent=50, range_percent=100),)}, "zones of a skew must add up"),
        ({"skew": (Zone(access_percent=100, range_percent=99),)}, "zones of a skew must add up"),
        ({"start_bytes": -4096}, "start_bytes must be within the range"),
        ({"start_bytes": 960 * GB}, "start_bytes must be within the range"),
        ({"limit_bytes": 4095}, "smaller than one block"),
        ({"limit_bytes": 4096, "seconds": None, "passes": 1}, "must end the last pass of a sequential stream"),
    ],
)
def test_invalid_stimuli_are_refused(changes: dict[str, Any], sentence: str) -> None:
    """Shares that do not add up to 100 %, and invalid start, range or limit, raise ValueError."""
    with pytest.raises(ValueError, match=sentence):
        stimulus(**changes)


def test_demand() -> None:
    """A demand has a label in the standard's notation and its Total OIO."""
    assert stimulus(thread_count=32, queue_depth=4).demand == Demand(thread_count=32, queue_depth=4)
    assert (Demand(thread_count=32, queue_depth=4).label, Demand(thread_count=32, queue_depth=4).total_oio) == (
        "T32Q4",
        128,
    )


def test_dut_identity_and_name() -> None:
    """The identity is the serial number or, without one, the name."""
    assert dut().identity == "S1"
    assert dut(path="/tmp/drive.img", serial="").identity == "drive.img"  # noqa: S108 - never opened
    assert dut().name == "sdx"


@pytest.mark.parametrize("facts", [{"capacity_bytes": 0}, {"logical_sector_bytes": 0}])
def test_dut_needs_a_capacity_and_a_sector_size(facts: dict[str, int]) -> None:
    """A capacity or sector size of 0 raises ValueError."""
    with pytest.raises(ValueError, match="/dev/sdx: capacity and sector size must be positive"):
        dut(**facts)


def test_duts_compare_by_value() -> None:
    """Devices with equal attributes are equal."""
    assert isinstance(dut(), Dut)
    assert dut() == dut()
    assert dut() != dut(serial="S2")
