"""Stimuli are keys, and steps say what shall happen."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from snia_pts.dut import Dut
from snia_pts.steps import Cell, Precondition, Purge, Round
from snia_pts.units import KIB
from tests.strategies import dut, stimulus


def test_stimulus_is_a_key() -> None:
    """Equal stimuli are one key; whatever differs in one makes another."""
    one = stimulus(read_percent=65, block_size_kib=64)

    assert {one: "value"}[stimulus(read_percent=65, block_size_kib=64)] == "value"
    assert len({one, stimulus(65, 8), stimulus(5, 64), stimulus(65, 64, queue_depth=1)}) == 4


def test_stimulus_does_not_change() -> None:
    """A stimulus cannot be altered once asked for."""
    with pytest.raises(FrozenInstanceError):
        stimulus().queue_depth = 1  # type: ignore[misc]


def test_total_oio() -> None:
    """Total OIO is thread count times queue depth."""
    assert stimulus(thread_count=4, queue_depth=32).total_oio == 128


def test_cell_and_labels() -> None:
    """A stimulus knows its cell, and reads as the standard writes it."""
    one = stimulus(read_percent=65, block_size_kib=0.5)

    assert one.cell == Cell(read_percent=65, block_size_bytes=512)
    assert one.cell.mix == "65/35"
    assert one.label == "RND 0.5 KiB 65/35"
    assert stimulus(access="SEQ", block_size_kib=128).label == "SEQ 128 KiB 0/100"


def test_amount_is_passes_over_the_range() -> None:
    """A stimulus of two passes transfers twice its range, of three thrice; one of a time has no amount."""
    assert stimulus(seconds=None, passes=2, range_bytes=10**9).amount_bytes == 2 * 10**9
    assert stimulus(seconds=None, passes=3, range_bytes=10**9).amount_bytes == 3 * 10**9
    assert stimulus(seconds=60.0).amount_bytes is None


@pytest.mark.parametrize("end", [{"seconds": None, "passes": None}, {"seconds": 60.0, "passes": 2}])
def test_stimulus_ends_in_just_one_way(end: dict[str, Any]) -> None:
    """A stimulus takes either a time or passes."""
    with pytest.raises(ValueError, match="either seconds or passes"):
        stimulus(**end)


def test_range_holds_a_block() -> None:
    """A range smaller than a block is refused, one of a block is not."""
    assert stimulus(range_bytes=4 * KIB).range_bytes == 4096
    with pytest.raises(ValueError, match="holds no block"):
        stimulus(range_bytes=4 * KIB - 1)


def test_steps_tell_their_stimuli() -> None:
    """A purge has no stimulus, preconditioning one, a round all of its own."""
    wipc = stimulus(access="SEQ", block_size_kib=128, seconds=None, passes=2)

    assert Purge().stimuli == ()
    assert Precondition(stimulus=wipc).stimuli == (wipc,)
    assert Precondition(stimulus=wipc).label == "Preconditioning SEQ 128 KiB 0/100"
    assert Round(number=3, stimuli=(wipc,)).label == "Round 3"


def test_dut_names() -> None:
    """The identity to confirm is the serial number, or the name of a target that has none."""
    assert dut().identity == "S1"
    assert dut(path="/tmp/drive.img", serial="").identity == "drive.img"  # noqa: S108 - never opened
    assert dut().name == "sdx"


@pytest.mark.parametrize("facts", [{"capacity_bytes": 0}, {"logical_sector_bytes": 0}])
def test_dut_has_a_size(facts: dict[str, int]) -> None:
    """A device without capacity or sectors is no device."""
    with pytest.raises(ValueError, match="/dev/sdx: capacity and sector size must be positive"):
        dut(**facts)


def test_dut_is_a_value() -> None:
    """Devices with the same facts are equal."""
    assert isinstance(dut(), Dut)
    assert dut() == dut()
    assert dut() != dut(serial="S2")
