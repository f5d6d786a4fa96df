"""What fio and the suite say, held against what the drive itself saw: a simulated SSD in real time."""

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
#: The kernel passes on what is not larger in one piece.
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
    """A drive behind a socket."""
    if "\tnbd\n" not in subprocess.run(["fio", "--enghelp"], capture_output=True, text=True, check=False).stdout:
        pytest.skip("this fio has no nbd engine")
    with nbd_drive(tmp_path_factory.mktemp("nbd")) as drive:
        yield drive


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[SimulatedDrive]:
    """A drive as a block device."""
    with loop_drive(tmp_path) as drive:
        yield drive


def fio(drive: SimulatedDrive, *options: str) -> dict[str, Any]:
    """Return what fio says of its one job on a drive."""
    is_socket = drive.path.is_socket()
    where = ["nbd", f"--uri=nbd+unix:///?socket={drive.path}"] if is_socket else ["libaio", f"--filename={drive.path}"]
    command = ["fio", "--name=x", "--output-format=json", f"--ioengine={where[0]}", where[1], *OPTIONS, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    document = json.loads(done.stdout[done.stdout.index("{") :])
    job = document["jobs"][0]
    assert isinstance(job, dict)
    assert (done.returncode != 0) == (job["error"] != 0), done.stderr
    return job


def seen_during(drive: SimulatedDrive, *options: str) -> tuple[dict[str, Any], dict[str, tuple[int, int]]]:
    """Return what fio says of its job, and the I/Os and bytes of it that the drive saw, by direction."""
    before = drive.tell()
    job = fio(drive, *options)
    after = drive.tell()
    kinds = ("read", "write", "trim")
    return job, {kind: (after.ios[kind] - before.ios[kind], after.bytes[kind] - before.bytes[kind]) for kind in kinds}


def said(job: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Return the I/Os and bytes that fio counted, by direction."""
    return {kind: (job[kind]["total_ios"], job[kind]["io_bytes"]) for kind in ("read", "write", "trim")}


# -- without root -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", ["512", "4k", "128k", "1m"])
@pytest.mark.parametrize("access", ["randread", "randwrite", "randrw", "write"])
def test_fio_counts_what_the_drive_saw(nbd: SimulatedDrive, access: str, block: str) -> None:
    """Over NBD, fio's I/Os and bytes in each direction are those that the drive itself saw, to the last one."""
    job, seen = seen_during(nbd, f"--rw={access}", f"--bs={block}", "--iodepth=8", "--time_based", "--runtime=300ms")

    assert said(job) == seen
    assert sum(ios for ios, _ in seen.values()) > 3


@pytest.mark.parametrize("depth", [1, 4, 32])
@pytest.mark.parametrize("access", ["randread", "randwrite"])
def test_response_times_and_rate_make_up_the_queue_depth(nbd: SimulatedDrive, access: str, depth: int) -> None:
    """Little's law: I/Os per second times mean response time are the outstanding I/Os."""
    job = fio(nbd, f"--rw={access}", "--bs=4k", f"--iodepth={depth}", "--time_based", "--runtime=1")
    side = job["read" if access == "randread" else "write"]

    assert side["iops"] * side["lat_ns"]["mean"] / 1e9 == pytest.approx(depth, rel=0.1)


def test_the_drive_keeps_what_is_written(nbd: SimulatedDrive) -> None:
    """What fio wrote with checksums, it reads back, every block of it."""
    job, seen = seen_during(nbd, "--rw=randwrite", "--bs=4k", "--iodepth=16", "--size=8m", "--verify=crc32c")

    assert job["error"] == 0
    assert seen["write"] == (2048, 8 << 20)
    assert seen["read"][0] > 1000


def test_a_trimmed_drive_reads_zeros(nbd: SimulatedDrive) -> None:
    """Trimmed, a drive has forgotten: fio finds zeros where data were."""
    pattern = ("--bs=128k", "--size=1m", "--verify=pattern")
    fio(nbd, "--rw=write", *pattern, "--verify_pattern=0x55", "--do_verify=0")
    _, seen = seen_during(nbd, "--rw=trim", "--bs=128k", "--size=1m")

    assert seen["trim"] == (8, 1 << 20)
    assert fio(nbd, "--rw=read", *pattern, "--verify_pattern=0x00")["error"] == 0
    assert fio(nbd, "--rw=read", *pattern, "--verify_pattern=0x55")["error"] != 0


def test_after_a_ramp_what_ended_in_the_measured_time_is_counted(nbd: SimulatedDrive) -> None:
    """The response times are of what the drive was asked after the ramp, and of what was outstanding at its end.

    fio's own count of I/Os leaves out the outstanding ones, its bytes do not.
    """
    began = time.monotonic()
    options = ("--rw=randwrite", "--bs=4k", "--iodepth=8", "--time_based", "--ramp_time=1s", "--runtime=1s")
    write = fio(nbd, *options)["write"]
    seen = nbd.seen(began, time.monotonic())
    first = bisect_left(range(20_000), 1, key=lambda ms: nbd.seen(began, began + ms / 1000).ios["write"]) / 1000
    after = nbd.seen(began + first + 1.0, time.monotonic()).ios["write"]
    slot = 4  # what the log cannot tell apart, and what fio needs to notice the end of its ramp

    assert seen.ios["write"] > 1.5 * after
    assert write["total_ios"] == pytest.approx(after, abs=slot)
    assert write["lat_ns"]["N"] == pytest.approx(after + 8, abs=slot)
    assert write["lat_ns"]["N"] > write["total_ios"]
    assert 0 <= write["io_bytes"] // 4096 - write["lat_ns"]["N"] <= 1


def test_an_error_reaches_fio(nbd: SimulatedDrive) -> None:
    """The I/O after the last good one fails with EIO, and fio says so."""
    nbd.fail_after(100)
    job = fio(nbd, "--rw=randread", "--bs=4k", "--iodepth=1", "--number_ios=1000")
    nbd.heal()

    assert job["error"] == 5
    assert fio(nbd, "--rw=randread", "--bs=4k", "--iodepth=1", "--number_ios=1000")["error"] == 0


# -- as a block device ------------------------------------------------------------------------------------------------


@pytest.mark.root
@pytest.mark.long
def test_a_drive_becomes_slow_and_a_purge_makes_it_fast_again(loop: SimulatedDrive) -> None:
    """FOB, transition, steady state: the same random writes are slower once the drive is full, and fast after a purge.

    Real time says it, and so does what the drive programs for each byte written.
    """
    writes = ("--rw=randwrite", "--bs=4k", "--iodepth=16")
    rates, amplifications = [], []
    for place in ("FOB", "worn", "purged"):
        if place == "worn":
            fio(loop, *writes, f"--io_size={2 * slow.CAPACITY_BYTES}")
        if place == "purged":
            subprocess.run(["blkdiscard", loop.path], check=True)
        rates.append(fio(loop, *writes, f"--io_size={slow.CAPACITY_BYTES // 2}")["write"]["iops"])
        amplifications.append(loop.write_amplification())

    fresh, worn, purged = rates
    assert amplifications[0] == amplifications[2] == 1.0
    assert amplifications[1] > 1.6
    assert min(fresh, purged) > worn  # 1.9 times where nobody else uses the machine


@pytest.mark.root
@pytest.mark.long
def test_every_point_of_a_run_is_what_the_drive_saw(loop: SimulatedDrive, tmp_path: Path) -> None:
    """The I/Os and bytes of WIPC and of each point, reads and writes, are those that the drive itself saw.

    The kernel splits the largest blocks: of these the bytes agree.  Nothing else was written but the purge's proof.
    """
    done = snia_pts(tmp_path, "iops", str(loop.path), *SHORT, "--serial", loop.path.name, "--run-dir", "run")
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
def test_a_drive_that_fails_ends_the_run_and_keeps_what_was_measured(loop: SimulatedDrive, tmp_path: Path) -> None:
    """An I/O error in a round ends the run with code 12; what was measured before is kept, told and reported."""
    loop.fail_after(1500)
    done = snia_pts(tmp_path, "iops", str(loop.path), *SHORT, "--serial", loop.path.name, "--run-dir", "run")
    assessed = snia_pts(tmp_path, "assess", "run")
    report = snia_pts(tmp_path, "report", "run")
    measured = measurements(tmp_path / "run")

    assert done.returncode == 12
    assert "The device failed in step Round 1" in done.stderr
    assert "Input/output error" in done.stderr
    assert 1 < len(measured) < 1 + 2 * 12
    assert "INCOMPLETE (device failed)" in assessed.stdout
    assert report.returncode == 0, report.stderr
    assert (tmp_path / "run" / "report.pdf").exists()


@pytest.mark.root
def test_a_drive_that_hangs_is_the_device_s_failure(
    loop: SimulatedDrive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When I/Os are never answered, fio hangs in the kernel beyond any signal: it is left behind, the device blamed."""
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
    """A drive that stands still some seconds after its first I/Os."""
    loop.hang_after(1000)
    healing = threading.Timer(6.0, loop.heal)
    healing.start()
    yield loop
    healing.join()


def measured(drive: SimulatedDrive, evidence: Path, stall_seconds: float) -> Measurement:
    """Measure 6 s of writes."""
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


@pytest.mark.root
def test_a_drive_that_stands_still_for_a_while_is_a_result(stalling: SimulatedDrive, tmp_path: Path) -> None:
    """A stall of seconds is in the response times of the point."""
    assert 2 < measured(stalling, tmp_path, 120.0).maximum_response_us / 1e6 < 6.5


@pytest.mark.root
def test_a_drive_that_stands_still_beyond_the_limit_has_failed(stalling: SimulatedDrive, tmp_path: Path) -> None:
    """Where the operator allows less, it is the device's failure."""
    with pytest.raises(adapter.AnswerRejected, match="stalled") as refused:
        measured(stalling, tmp_path, 2.0)
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
