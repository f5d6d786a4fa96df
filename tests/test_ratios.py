"""What the suite costs beside others on the same machine: ratios with generous bounds, no times."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest

from bench import gap
from snia_pts.lab.engine import FioEngine
from snia_pts.steps import Stimulus
from tests.drives import MIB, filled, loop_device

pytestmark = [pytest.mark.root, pytest.mark.long]

POINTS, SECONDS = 8, 0.8


def test_a_drive_is_left_alone_for_a_fraction_of_what_fio_needs(tmp_path: Path) -> None:
    """The block layer sees a pause between two points that is less than half of that with a fio of its own for each."""
    (tmp_path / "evidence").mkdir()
    asked = Stimulus(
        access="RND", read_percent=65, block_size_bytes=4096, thread_count=2, queue_depth=8, range_offset_bytes=0,
        range_bytes=64 * MIB, seconds=SECONDS,
    )  # fmt: skip
    with loop_device(filled(tmp_path / "x.img", 64 * MIB)) as device:
        with gap.watched(str(device)) as ours:
            engine = FioEngine(str(device), tmp_path / "evidence", seed=1, io_engine="io_uring")
            found = [each.clocking for each in engine.measure([asked] * POINTS)]
        with gap.watched(str(device)) as theirs:
            for _ in range(POINTS):
                gap.plain_point(str(device), 65, 4, SECONDS)
    clockings = [{name: getattr(each, name) for name in gap.MOMENTS} for each in found]
    mine = statistics.median(gap.between(ours, clockings))

    assert 0 < mine < 0.5 * statistics.median(gap.longest(theirs, POINTS - 1))
    assert statistics.median(each.idle_gap_ms or 0 for each in found[1:]) > 0.5 * mine  # what is told is what was


def test_the_suite_costs_next_to_nothing_beside_a_point(tmp_path: Path) -> None:
    """While a point runs, the suite itself uses less than a tenth of what its fio does."""
    (tmp_path / "evidence").mkdir()
    asked = Stimulus(
        access="RND", read_percent=0, block_size_bytes=4096, thread_count=1, queue_depth=4, range_offset_bytes=0,
        range_bytes=64 * MIB, seconds=3.0,
    )  # fmt: skip
    with loop_device(filled(tmp_path / "x.img", 64 * MIB)) as device:
        engine = FioEngine(str(device), tmp_path / "evidence", seed=1, io_engine="io_uring")
        before = time.process_time()
        (found,) = engine.measure([asked])
        used = time.process_time() - before

    assert found.engine_cpu_percent is not None
    assert used < 0.1 * found.engine_cpu_percent / 100 * found.runtime_ms / 1000
