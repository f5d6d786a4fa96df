"""The verdicts of real fio's results on a slow drive and on a file in memory: is the host the limit?"""

from __future__ import annotations

import os
import resource
from dataclasses import replace
from pathlib import Path

import pytest

from snia_pts.analysis.host_limit import host_share
from snia_pts.lab.device.identity import read_dut
from snia_pts.lab.fio.engine import FioEngine
from tests.drives import MIB, filled, mounted
from tests.simulated_device.drive import loop_drive
from tests.test_calibration import calibrated, measured, stimulus

CPUS = os.cpu_count() or 1


def test_fio_reports_the_mean_cpu_time_of_its_threads(tmp_path: Path) -> None:
    """The mean share of two threads, times two, is at most the CPU time that the kernel counts for fio."""
    request = stimulus(seconds=0.5)
    engine = FioEngine(str(filled(tmp_path / "x.img", 16 * MIB)), tmp_path, seed=1, io_engine="libaio")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    (point,) = engine.measure([request])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    counted = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert point.engine_cpu_percent is not None
    reported = request.thread_count * point.engine_cpu_percent / 100 * point.runtime_ms / 1000

    assert 0.3 * counted < reported < 1.05 * counted + 0.02


@pytest.mark.long
def test_a_slow_drive_is_not_host_limited(tmp_path: Path) -> None:
    """A drive of some thousand IOPS limits its own results, even if its simulation keeps a CPU busy."""
    stimuli = [stimulus(0), stimulus(100, thread_count=1, queue_depth=1), stimulus(65, queue_depth=16)]
    null = calibrated(tmp_path, stimuli)
    with loop_drive(tmp_path) as drive:
        dut = read_dut(drive.path)
        for point in measured(drive.path, tmp_path, *stimuli):
            for kind in (dut.kind, "drive"):
                share = host_share(point, replace(dut, kind=kind), CPUS, null)
                assert share is not None
                assert share.limited is not True, (point.stimulus.label, share)


def used_by_others() -> float:
    """Return the CPU seconds since the start of this machine that other processes used, or a hypervisor took."""
    user, nice, system, _, _, irq, soft_irq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    used = (user + nice + system + irq + soft_irq + steal) / os.sysconf("SC_CLK_TCK")
    return used - sum(os.times()[:4])  # of this process, and of its children that have ended


@pytest.mark.long
def test_a_file_in_memory_is_host_limited(tmp_path: Path) -> None:
    """On a file in memory, threads for all CPUs do not wait for a drive."""
    stimuli = [stimulus(percent, thread_count=2 * CPUS, queue_depth=32, seconds=0.5) for percent in (0, 100)]
    null = calibrated(tmp_path, stimuli)
    with mounted("none", tmp_path / "memory", "-t", "tmpfs") as memory:
        target = filled(memory / "x.img", 16 * MIB)
        try:
            os.close(os.open(target, os.O_RDONLY | os.O_DIRECT))
        except OSError as error:
            pytest.skip(f"this kernel has no direct I/O on files in memory: {error.strerror}")
        before = used_by_others()
        alone = [
            point for item in stimuli for point in measured(target, tmp_path, item)
        ]  # no other fio begins meanwhile
        taken = 100 * (used_by_others() - before) / sum(CPUS * found.runtime_ms / 1000 for found in alone)
        if taken > 10:  # which docs/host-limits.rst names among what is not seen
            pytest.skip(f"other processes or a hypervisor took {taken:.0f} % of the CPU time")
        shares = [host_share(found, read_dut(target), CPUS, null) for found in alone]

    assert [share and share.limited for share in shares] == [True, True], shares
