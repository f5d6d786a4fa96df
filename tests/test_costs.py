"""The suite's CPU time and memory in relation to those of other programs: ratios with generous bounds, no times.

Unlike those of ``test_ratios``, they hold beside other tests.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path

import pytest

from bench import days
from bench.report import cost
from snia_pts.record.folder import RunFolder

pytestmark = pytest.mark.long
SUITE = (sys.executable, "-m", "snia_pts")


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
