"""The figures of fio and of the suite against those of the drive itself: a simulated SSD in real time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from snia_pts.lab import fio as adapter
from snia_pts.lab.fio.engine import FioEngine
from snia_pts.lab.process import program as process
from snia_pts.model.measurement import Measurement
from snia_pts.model.steps import Stimulus
from tests.simulated_device import slow
from tests.simulated_device.drive import ROOT, SimulatedDrive, loop_drive, nbd_drive

PROVED_BYTES = 64 * 4096
#: The kernel does not split I/Os of up to this size.
UNSPLIT = 128 << 10
OPTIONS = (
    "--direct=1",
    "--thread",
    "--group_reporting",
    "--norandommap",
    "--randrepeat=0",
    "--allow_file_create=0",
    "--clat_percentiles=0",
    "--lat_percentiles=1",
    "--verify_state_save=0",
)
SHORT = (
    "--thread-count",
    "2",
    "--queue-depth",
    "2",
    "--point-seconds",
    "0.5",
    "--max-rounds",
    "2",
    "--set",
    "steady_state.window_rounds=2",
    "--set",
    "rounds.read_percents=[100, 65, 0]",
    "--set",
    "rounds.block_sizes_kib=[1024, 128, 64, 4]",
)


@pytest.fixture(scope="module")
def nbd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedDrive]:
    """A simulated drive behind an NBD socket."""
    if "\tnbd\n" not in subprocess.run(["fio", "--enghelp"], capture_output=True, text=True, check=False).stdout:
        pytest.skip("this fio has no nbd engine")
    with nbd_drive(tmp_path_factory.mktemp("nbd")) as drive:
        yield drive


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[SimulatedDrive]:
    """A simulated drive as a block device."""
    with loop_drive(tmp_path) as drive:
        yield drive


def fio(drive: SimulatedDrive, *options: str) -> dict[str, Any]:
    """Return fio's result of one job on a drive."""
    is_socket = drive.path.is_socket()
    engine = ["nbd", f"--uri=nbd+unix:///?socket={drive.path}"] if is_socket else ["libaio", f"--filename={drive.path}"]
    command = ["fio", "--name=x", "--output-format=json", f"--ioengine={engine[0]}", engine[1], *OPTIONS, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    document = json.loads(done.stdout[done.stdout.index("{") :])
    job = document["jobs"][0]
    assert isinstance(job, dict)
    assert (done.returncode != 0) == (job["error"] != 0), done.stderr
    return job


def run_and_count(drive: SimulatedDrive, *options: str) -> tuple[dict[str, Any], dict[str, tuple[int, int]]]:
    """Return fio's result of a job, and the I/Os and bytes that the drive counted meanwhile, by direction."""
    before = drive.tell()
    job = fio(drive, *options)
    after = drive.tell()
    kinds = ("read", "write", "trim")
    return job, {kind: (after.ios[kind] - before.ios[kind], after.bytes[kind] - before.bytes[kind]) for kind in kinds}


def fio_counts(job: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Return the I/Os and bytes that fio counted, by direction."""
    return {kind: (job[kind]["total_ios"], job[kind]["io_bytes"]) for kind in ("read", "write", "trim")}


# -- without root -----------------------------------------------------------------------------------------------------


@pytest.mark.long_but_first
@pytest.mark.parametrize("block", ["512", "4k", "128k", "1m"])
@pytest.mark.parametrize("access", ["randread", "randwrite", "randrw", "write"])
def test_fio_counts_the_ios_and_bytes_of_the_drive(nbd: SimulatedDrive, access: str, block: str) -> None:
    """Over NBD, fio's I/Os and bytes in each direction are exactly those that the drive itself counted."""
    job, seen = run_and_count(nbd, f"--rw={access}", f"--bs={block}", "--iodepth=8", "--time_based", "--runtime=300ms")

    assert fio_counts(job) == seen
    assert sum(ios for ios, _ in seen.values()) > 3


@pytest.mark.long_but_first
@pytest.mark.parametrize("depth", [1, 4, 32])
@pytest.mark.parametrize("access", ["randread", "randwrite"])
def test_iops_times_response_time_is_the_queue_depth(nbd: SimulatedDrive, access: str, depth: int) -> None:
    """Little's law: IOPS times mean response time is the number of outstanding I/Os."""
    job = fio(nbd, f"--rw={access}", "--bs=4k", f"--iodepth={depth}", "--time_based", "--runtime=1")
    side = job["read" if access == "randread" else "write"]

    assert side["iops"] * side["lat_ns"]["mean"] / 1e9 == pytest.approx(depth, rel=0.1)


def test_the_drive_stores_written_data(nbd: SimulatedDrive) -> None:
    """fio writes 8 MiB with checksums and verifies them without an error."""
    job, seen = run_and_count(nbd, "--rw=randwrite", "--bs=4k", "--iodepth=16", "--size=8m", "--verify=crc32c")

    assert job["error"] == 0
    assert seen["write"] == (2048, 8 << 20)
    assert seen["read"][0] > 1000


def test_a_trimmed_drive_reads_zeros(nbd: SimulatedDrive) -> None:
    """After a trim fio reads zeros in place of the data."""
    pattern = ("--bs=128k", "--size=1m", "--verify=pattern")
    fio(nbd, "--rw=write", *pattern, "--verify_pattern=0x55", "--do_verify=0")
    _, seen = run_and_count(nbd, "--rw=trim", "--bs=128k", "--size=1m")

    assert seen["trim"] == (8, 1 << 20)
    assert fio(nbd, "--rw=read", *pattern, "--verify_pattern=0x00")["error"] == 0
    assert fio(nbd, "--rw=read", *pattern, "--verify_pattern=0x55")["error"] != 0


@pytest.mark.long
def test_ios_that_end_after_the_ramp_are_counted(nbd: SimulatedDrive) -> None:
    """Response times are those of the I/Os sent after the ramp and of those outstanding at its end.

    fio's count of I/Os excludes the outstanding ones; its bytes include them.
    """
    began = time.monotonic()
    options = ("--rw=randwrite", "--bs=4k", "--iodepth=8", "--time_based", "--ramp_time=1s", "--runtime=1s")
    write = fio(nbd, *options)["write"]
    seen = nbd.seen(began, time.monotonic())
    first = bisect_left(range(20_000), 1, key=lambda ms: nbd.seen(began, began + ms / 1000).ios["write"]) / 1000
    after = nbd.seen(began + first + 1.0, time.monotonic()).ios["write"]
    tolerance = 4  # the log's resolution, and the I/Os until fio notices the end of its ramp

    assert seen.ios["write"] > 1.5 * after
    assert write["total_ios"] == pytest.approx(after, abs=tolerance)
    assert write["lat_ns"]["N"] == pytest.approx(after + 8, abs=tolerance)
    assert write["lat_ns"]["N"] > write["total_ios"]
    assert 0 <= write["io_bytes"] // 4096 - write["lat_ns"]["N"] <= 1


@pytest.mark.long
def test_an_error_reaches_fio(nbd: SimulatedDrive) -> None:
    """If an I/O fails with EIO, fio reports error 5; after the repair it reports none."""
    nbd.fail_after(100)
    job = fio(nbd, "--rw=randread", "--bs=4k", "--iodepth=1", "--number_ios=1000")
    nbd.heal()

    assert job["error"] == 5
    assert fio(nbd, "--rw=randread", "--bs=4k", "--iodepth=1", "--number_ios=1000")["error"] == 0


# -- as a block device ------------------------------------------------------------------------------------------------


@pytest.mark.root
@pytest.mark.long
def test_a_full_drive_is_slow_and_a_purge_restores_its_speed(loop: SimulatedDrive) -> None:
    """The same random writes are slower when the drive is full than at FOB and after a purge.

    Both the IOPS in real time and the write amplification of the drive show this.
    """
    writes = ("--rw=randwrite", "--bs=4k", "--iodepth=16")
    rates, amplifications = [], []
    for state in ("FOB", "worn", "purged"):
        if state == "worn":
            fio(loop, *writes, f"--io_size={2 * slow.CAPACITY_BYTES}")
        if state == "purged":
            subprocess.run(["blkdiscard", loop.path], check=True)
        rates.append(fio(loop, *writes, f"--io_size={slow.CAPACITY_BYTES // 2}")["write"]["iops"])
        amplifications.append(loop.write_amplification())

    fresh, worn, purged = rates
    assert amplifications[0] == amplifications[2] == 1.0
    assert amplifications[1] > 1.6
    assert min(fresh, purged) > worn  # 1.9 times on an otherwise idle machine


@pytest.mark.root
@pytest.mark.long
def test_every_point_of_a_run_agrees_with_the_drive(loop: SimulatedDrive, tmp_path: Path) -> None:
    """The I/Os and bytes of WIPC and of each point, reads and writes, are those that the drive itself counted.

    The kernel splits the largest blocks; for these only the bytes agree. Apart from the sample blocks that prove the
    purge, nothing else is written.
    """
    options = ("--serial", loop.path.name, "--to", "none", "--run-dir", "run")
    done = snia_pts(tmp_path, "iops", str(loop.path), *SHORT, *options)
    measured = measurements(tmp_path / "run")
    total = loop.tell()

    assert done.returncode == 0, done.stderr
    assert len(measured) == 1 + 2 * 12
    assert measured[0]["write"]["transferred_bytes"] == 2 * slow.CAPACITY_BYTES
    for point in measured:
        clock = point["timing"]
        seen = loop.seen(clock["started_monotonic_ns"] / 1e9, clock["ended_monotonic_ns"] / 1e9)
        for side in ("read", "write"):
            assert seen.bytes[side] == point[side]["transferred_bytes"], point
            if point["stimulus"]["block_size_bytes"] <= UNSPLIT:
                assert seen.ios[side] == point[side]["ios"], point
    assert total.bytes["trim"] == slow.CAPACITY_BYTES
    assert total.bytes["write"] == sum(point["write"]["transferred_bytes"] for point in measured) + PROVED_BYTES


@pytest.mark.root
@pytest.mark.long
def test_a_failing_drive_ends_the_run_and_keeps_its_measurements(loop: SimulatedDrive, tmp_path: Path) -> None:
    """An I/O error in a round ends the run with exit code 12; assess and report use the measurements before it."""
    loop.fail_after(1500)
    options = ("--serial", loop.path.name, "--to", "none", "--run-dir", "run")
    done = snia_pts(tmp_path, "iops", str(loop.path), *SHORT, *options)
    assessed = snia_pts(tmp_path, "assess", "run")
    report = snia_pts(tmp_path, "report", "run", "--to", "pdf")
    measured = measurements(tmp_path / "run")

    assert done.returncode == 12
    assert "The device failed in step Round 1" in done.stderr
    assert "Input/output error" in done.stderr
    assert 1 < len(measured) < 1 + 2 * 12
    assert "INCOMPLETE (device failed)" in assessed.stdout
    assert report.returncode == 0, report.stderr
    assert (tmp_path / "run" / "report.pdf").exists()


@pytest.mark.long
@pytest.mark.root
def test_a_hanging_drive_is_a_device_failure(
    loop: SimulatedDrive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If I/Os never complete and fio cannot be killed, the suite stops waiting for fio and blames the device."""
    monkeypatch.setattr(adapter, "timeout_seconds", lambda stimulus, stall_seconds: 3.0)
    monkeypatch.setattr(process, "_GRACE_SECONDS", 0.5)
    stimulus = Stimulus(
        access="RND",
        read_percent=0,
        block_size_bytes=4096,
        thread_count=1,
        queue_depth=4,
        range_offset_bytes=0,
        range_bytes=slow.CAPACITY_BYTES,
        seconds=0.5,
    )
    engine = FioEngine(str(loop.path), tmp_path, seed=1, io_engine="libaio")
    loop.hang_after(100)

    with pytest.raises(adapter.AnswerRejected) as refused:
        list(engine.measure([stimulus]))
    loop.heal()

    assert refused.value.blame == "device"
    assert "fio hangs in the kernel and cannot be killed" in refused.value.reason
    assert loop.tell().ios["write"] == 104


@pytest.fixture
def stalling(loop: SimulatedDrive) -> Iterator[SimulatedDrive]:
    """A drive that stalls for some seconds after its first 1000 I/Os."""
    loop.hang_after(1000)
    healing = threading.Timer(6.0, loop.heal)
    healing.start()
    yield loop
    healing.join()


def measure(drive: SimulatedDrive, evidence: Path, stall_seconds: float) -> Measurement:
    """Measure 6 s of random writes."""
    stimulus = Stimulus(
        access="RND",
        read_percent=0,
        block_size_bytes=4096,
        thread_count=1,
        queue_depth=4,
        range_offset_bytes=0,
        range_bytes=slow.CAPACITY_BYTES,
        seconds=6.0,
    )
    engine = FioEngine(str(drive.path), evidence, seed=1, io_engine="libaio", stall_seconds=stall_seconds)
    (point,) = engine.measure([stimulus])
    return point


@pytest.mark.long
@pytest.mark.root
def test_a_stall_below_the_limit_is_in_the_response_times(stalling: SimulatedDrive, tmp_path: Path) -> None:
    """A stall of several seconds is in the maximum response time of the point."""
    assert 2 < measure(stalling, tmp_path, 120.0).maximum_response_us / 1e6 < 6.5


@pytest.mark.long
@pytest.mark.root
def test_a_stall_beyond_the_limit_is_a_device_failure(stalling: SimulatedDrive, tmp_path: Path) -> None:
    """If the stall exceeds the operator's limit, the measurement is rejected and the device is blamed."""
    with pytest.raises(adapter.AnswerRejected, match="stalled") as refused:
        measure(stalling, tmp_path, 2.0)
    assert refused.value.blame == "device"


def snia_pts(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run the command line of this checkout in ``folder``."""
    return subprocess.run(
        [sys.executable, "-m", "snia_pts", *argv],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def measurements(run: Path) -> list[dict[str, Any]]:
    """Return all measurements of a run, from its journal."""
    entries = [json.loads(line)["entry"] for line in (run / "journal.jsonl").read_text().splitlines()]
    return [entry["outcome"] for entry in entries if entry["kind"] == "outcome" and "seed" in entry["outcome"]]
