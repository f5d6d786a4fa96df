"""The host's ceiling, which real fio measures on a null target."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from snia_pts.lab.fio.engine import FioEngine
from snia_pts.lab.host.calibration import Calibration
from snia_pts.lab.process import program as process
from snia_pts.model.host_ceiling import Ceiling
from snia_pts.model.measurement import Measurement
from snia_pts.model.steps import Stimulus
from tests.drives import MIB
from tests.test_engine import alter_answers

LONG = 1e6


def stimulus(read_percent: int = 0, **changes: Any) -> Stimulus:
    """Return a stimulus of 4 KiB random I/O over 16 MiB."""
    facts: dict[str, Any] = {
        "access": "RND",
        "read_percent": read_percent,
        "block_size_bytes": 4096,
        "thread_count": 2,
        "queue_depth": 4,
        "range_offset_bytes": 0,
        "range_bytes": 16 * MIB,
        "seconds": 0.3,
    }
    return Stimulus(**{**facts, **changes})


@cache
def installed_version() -> str:
    """Return the version of fio, without evidence."""
    return subprocess.run(["fio", "--version"], check=True, capture_output=True, text=True).stdout.strip()[
        len("fio-") :
    ]


def calibrated(evidence: Path, stimuli: Sequence[Stimulus], seconds: float = LONG, **how: Any) -> tuple[Ceiling, ...]:
    """Calibrate for a test of so many seconds."""
    facts: dict[str, Any] = {
        "version": installed_version(),
        "io_engine": "libaio",
        "refill": False,
        "seed": 4711,
        "evidence": evidence,
    }
    return Calibration(**{**facts, **how}).ceilings(stimuli, seconds)


def measured(target: Path, evidence: Path, *request: Stimulus) -> list[Measurement]:
    """Measure stimuli one after the other."""
    return list(FioEngine(str(target), evidence, seed=4711, io_engine="libaio").measure(request))


def test_each_shape_is_run_once_on_the_null_target(tmp_path: Path) -> None:
    """A mix is calibrated by writes with the run's random data, and writes without; only /dev/null is opened."""
    measured_points = calibrated(tmp_path, [stimulus(65), stimulus(0), stimulus(0, seconds=0.1)])
    jobs = [path.read_text().splitlines() for path in sorted(tmp_path.glob("*.fio"))]

    assert [
        (measured_point.shape.side, measured_point.shape.block_size_bytes) for measured_point in measured_points
    ] == [("read", None), ("write", 4096)]
    assert all(item.iops > 0 and 0 < item.engine_cpu_percent <= 100 for item in measured_points)
    assert ["scramble_buffers=0" in job for job in jobs] == [True, False]
    for job in jobs:
        assert [line for line in job if "filename" in line] == ["filename=/dev/null"]
        assert {"rw=randwrite", "iodepth=4", "numjobs=2", "bs=4096", "ioengine=libaio"} <= set(job)


def test_refilled_buffers_are_calibrated_as_refilled(tmp_path: Path) -> None:
    """The calibration has the same cost per write as the run."""
    calibrated(tmp_path, [stimulus(50)], refill=True)
    jobs = [path.read_text() for path in sorted(tmp_path.glob("*.fio"))]

    assert ["refill_buffers=1" in job for job in jobs] == [False, True]


def test_fixed_buffers_are_calibrated_as_fixed(tmp_path: Path) -> None:
    """The ceiling is that of the measuring engine, whose CPU time is less with fixed buffers."""
    measured_points = calibrated(tmp_path, [stimulus(50)], io_engine="io_uring", fixed_buffers=True)

    assert len(measured_points) == 2
    assert all("fixedbufs=1" in path.read_text().splitlines() for path in tmp_path.glob("*.fio"))


def test_a_short_test_is_not_calibrated(tmp_path: Path) -> None:
    """A calibration that would take more than a hundredth of the test is omitted, and starts nothing."""
    assert calibrated(tmp_path, [stimulus()], seconds=10.0) == ()
    assert list(tmp_path.iterdir()) == []


def test_a_shape_that_fio_cannot_run_is_omitted(tmp_path: Path) -> None:
    """A failed calibration does not end the run."""
    assert calibrated(tmp_path, [stimulus()], io_engine="sync-of-nobody") == ()


@pytest.mark.parametrize(
    ("change", "ceilings"),
    [
        ("s/x/x/", 1),
        ("s/fio-[0-9.]*/fio-3.01/", 0),
        ('s/"iodepth" : "4"/"iodepth" : "2"/', 0),
        ('s/"jobname" : "rnd0"/"jobname" : "rnd1"/', 0),
        ('s/"usr_cpu" : [0-9.]*/"usr_cpu" : -1/', 0),
    ],
)
def test_the_answer_of_another_fio_or_job_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, ceilings: int
) -> None:
    """As for a point, the answer must be of the run's version of fio and belong to the job."""
    alter_answers(monkeypatch, tmp_path / "fio", change)
    assert len(calibrated(tmp_path, [stimulus()])) == ceilings


def test_the_answer_of_a_stopped_fio_is_no_ceiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A calibration is also judged by how its process ended."""
    run = process.run
    monkeypatch.setattr(process, "run", lambda *words, **how: replace(run(*words, **how), stopped_seconds=0.1))
    assert calibrated(tmp_path, [stimulus()]) == ()


@pytest.mark.long
def test_a_run_is_calibrated_before_its_first_step(tmp_path: Path) -> None:
    """A test with a long plan has its ceilings in the journal's first line, and reports the calibration."""
    run = tmp_path / "run"
    argv = [
        sys.executable,
        "-m",
        "snia_pts",
        "iops",
        str(tmp_path / "x.img"),
        "--size",
        "4M",
        "--to",
        "none",
        "--run-dir",
        str(run),
        "--assume",
        "0.01",
        "--point-seconds",
        "0.1",
        "--max-rounds",
        "5",
        "--set",
        "rounds.read_percents=[0]",
        "--set",
        "rounds.block_sizes_kib=[4.0]",
        "--set",
        "steady_state.tracked=[{metric = 'iops', block_size_kib = 4, read_percent = 0}]",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    with (run / "journal.jsonl").open(encoding="utf-8") as journal:
        facts = json.loads(journal.readline())["entry"]["facts"]

    assert "calibrating the host, without the drive: about 0.5 s" in done.stderr
    assert [ceiling["shape"]["block_size_bytes"] for ceiling in facts["ceilings"]] == [4096]
    assert (run / "evidence" / "00000-ceiling-001-write.fio").exists()
    assert "<ceiling " in (run / "result.xml").read_text(encoding="utf-8")
