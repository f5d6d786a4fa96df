"""The suite's overhead in relation to other programs on the same machine: ratios with generous bounds, no times."""

from __future__ import annotations

import json
import statistics
import sys
import time
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from bench import days, gap, speed
from bench.report import cost
from snia_pts.lab.fio.engine import FioEngine
from snia_pts.model.steps import Stimulus
from snia_pts.record.folder import RunFolder
from tests.drives import MIB, filled, loop_device

pytestmark = [pytest.mark.root, pytest.mark.long]
SUITE = (sys.executable, "-m", "snia_pts")

POINTS, SECONDS = 8, 0.8


def test_idle_gaps_are_shorter_than_those_of_separate_fio_runs(tmp_path: Path) -> None:
    """The block layer sees less than half of the idle gap between two points that a fio for each point has."""
    (tmp_path / "evidence").mkdir()
    stimulus = Stimulus(
        access="RND",
        read_percent=65,
        block_size_bytes=4096,
        thread_count=2,
        queue_depth=8,
        range_offset_bytes=0,
        range_bytes=64 * MIB,
        seconds=SECONDS,
    )
    with loop_device(filled(tmp_path / "x.img", 64 * MIB)) as device:
        with gap.watched(str(device)) as ours:
            engine = FioEngine(str(device), tmp_path / "evidence", seed=1, io_engine="io_uring")
            timings = [point.timing for point in engine.measure([stimulus] * POINTS)]
        with gap.watched(str(device)) as theirs:
            for _ in range(POINTS):
                gap.plain_point(str(device), 65, 4, SECONDS)
    clockings = [{name: getattr(timing, name) for name in gap.MOMENTS} for timing in timings]
    suite_gap = statistics.median(gap.between(ours, clockings))

    assert 0 < suite_gap < 0.5 * statistics.median(gap.longest(theirs, POINTS - 1))
    reported = statistics.median(item.idle_gap_ms or 0 for item in timings[1:])
    assert reported > 0.5 * suite_gap - 1  # the report is correct; fio counts whole milliseconds


def test_the_suite_needs_little_cpu_time_during_a_point(tmp_path: Path) -> None:
    """While a point runs, the suite itself uses less than a tenth of the CPU time of its fio."""
    (tmp_path / "evidence").mkdir()
    stimulus = Stimulus(
        access="RND",
        read_percent=0,
        block_size_bytes=4096,
        thread_count=1,
        queue_depth=4,
        range_offset_bytes=0,
        range_bytes=64 * MIB,
        seconds=3.0,
    )
    with loop_device(filled(tmp_path / "x.img", 64 * MIB)) as device:
        engine = FioEngine(str(device), tmp_path / "evidence", seed=1, io_engine="io_uring")
        before = time.process_time()
        (point,) = engine.measure([stimulus])
        used = time.process_time() - before

    assert point.engine_cpu_percent is not None
    assert used < 0.1 * point.engine_cpu_percent / 100 * point.runtime_ms / 1000


def test_reported_iops_are_those_of_the_drive(tmp_path: Path) -> None:
    """A drive in memory reaches nearly as many IOPS with the suite as with fio tuned by hand."""
    stimulus = Stimulus(
        access="RND",
        read_percent=100,
        block_size_bytes=4096,
        thread_count=1,
        queue_depth=1,
        range_offset_bytes=0,
        range_bytes=64 * MIB,
        seconds=1.0,
    )
    with loop_device(filled(tmp_path / "x.img", 64 * MIB)) as device:
        tuned = partial(speed.by_fio, device, stimulus, speed.OTHERS["tuned by hand"])
        turns = [(speed.by_suite(device, stimulus, 1), tuned()) for _ in range(5)]
    suite_gap, theirs = map(max, zip(*turns, strict=True))  # other users of the machine make it slower, never faster

    assert suite_gap > 0.5 * theirs


def test_a_command_starts_quickly() -> None:
    """``--help`` takes no longer than ten bare starts of Python, and a plan no longer than fifty."""
    bare = cost((sys.executable, "-c", "pass")).cpu_seconds

    assert cost((*SUITE, "--help")).cpu_seconds < 10 * bare
    assert cost((*SUITE, "iops", "sim:enterprise-nvme", "--plan")).cpu_seconds < 50 * bare


def test_a_long_test_needs_little_more_memory_than_a_short_one(tmp_path: Path) -> None:
    """90 minutes of one-second samples take at most a quarter more memory than 15."""
    peaks: dict[str, list[float]] = {"run": [], "assess": []}
    for hours in (0.25, 1.5):
        folder = RunFolder.create(tmp_path / f"{hours:g}")
        for phase, peak in peaks.items():
            peak.append(days.cost(phase, "xsr", hours, folder)[1])

    for short, long in peaks.values():
        assert long < 1.25 * short


def test_a_report_takes_little_longer_than_its_typesetting(tmp_path: Path) -> None:
    """The report with plots, PDF, HTML and workbook takes less than six times rst2pdf's time for a bare table."""
    table = "\n".join(f"   * - {row}\n     - {row * row}" for row in range(200))
    (tmp_path / "bare.rst").write_text(f"Bare\n====\n\n.. list-table::\n\n{table}\n")
    program = "import sys; from rst2pdf.createpdf import main; main(sys.argv[1:])"
    bare = cost((sys.executable, "-c", program, str(tmp_path / "bare.rst"), "-o", str(tmp_path / "bare.pdf")))
    program = (
        "import sys; from pathlib import Path; from snia_pts.report import write; from tests import samples; "
        "write(samples.result_of('iops'), Path(sys.argv[1]), ('pdf', 'html', 'xlsx'))"
    )
    report = cost((sys.executable, "-c", program, str(tmp_path / "run")))  # a process as new as the other one

    assert (tmp_path / "bare.pdf").stat().st_size
    assert (tmp_path / "run/report.pdf").stat().st_size
    assert report.cpu_seconds < 6 * bare.cpu_seconds


def test_a_rehearsal_is_much_faster_than_the_test(tmp_path: Path) -> None:
    """A test on a simulated drive takes less than a hundredth of the time that it would take on a drive."""
    argv = ("throughput", "sim:enterprise-nvme", "--to", "none", "--run-dir", str(tmp_path / "run"))
    spent = cost((*SUITE, *argv)).cpu_seconds
    document = json.loads((tmp_path / "run/journal.jsonl").read_text().splitlines()[-1])

    assert document["entry"]["ending"] == "finished"
    assert spent < 0.01 * _seconds(tmp_path / "run")


def _seconds(run: Path) -> float:
    """Return the time from a run's start to its end, from its journal."""
    entries = [json.loads(line)["entry"] for line in (run / "journal.jsonl").read_text().splitlines()]
    first, last = (datetime.fromisoformat(text) for text in (entries[0]["facts"]["started"], entries[-1]["at"]))
    return (last - first).total_seconds()
