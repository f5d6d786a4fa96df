"""The engine with real fio: amounts, offsets, seeds, gaps, and rejected answers."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
import zlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.errors import HostFailed, RunFolderError, TargetUnfit, ToolMissing, UsageError
from snia_pts.lab import fio
from snia_pts.lab.fio import IoEngine
from snia_pts.lab.fio.engine import FioEngine
from snia_pts.lab.fio.probe import IO_ENGINES, can_lock_buffers, choose_io_engine, exact_io_engines, fio_version
from snia_pts.lab.fio.seeds import seed_for, stimulus_seed
from snia_pts.lab.observation.clocks import Moment, read_moment
from snia_pts.lab.process import program as process
from snia_pts.lab.process import staged
from snia_pts.model.measurement import Measurement, Sample
from snia_pts.model.steps import BlockShare, ContinuousStimulus, Stimulus, Zone
from snia_pts.procedures.preconditioning import wipc
from tests.command_line import opened_files
from tests.drives import MIB, allocated_bytes, data_map, filled, loop_device, mounted, need_root
from tests.strategies import dut, spec_of

RUN_SEED = 4711


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    """A folder for evidence."""
    (tmp_path / "evidence").mkdir()
    return tmp_path / "evidence"


def engine(target: Path, evidence: Path, seed: int = RUN_SEED, **how: Any) -> FioEngine:
    """Return fio on a target."""
    return FioEngine(str(target), evidence, seed=seed, io_engine="libaio", **how)


def stimulus(size: int = 16 * MIB, **changes: Any) -> Stimulus:
    """Return a stimulus of a tenth of a second, 4 KiB random writes."""
    facts: dict[str, Any] = {
        "access": "RND",
        "read_percent": 0,
        "block_size_bytes": 4096,
        "thread_count": 2,
        "queue_depth": 4,
        "range_offset_bytes": 0,
        "range_bytes": size,
        "seconds": None if "passes" in changes else 0.1,
    }
    return Stimulus(**{**facts, **changes})


def sparse(path: Path, size_bytes: int = 16 * MIB) -> Path:
    """Make a new sparse file."""
    with path.open("xb") as file:
        file.truncate(size_bytes)
    return path


def measured(target: Path, evidence: Path, *request: Stimulus, **how: Any) -> list[Measurement]:
    """Measure stimuli one after the other."""
    return list(engine(target, evidence, **how).measure(request))


# -- amounts and places -----------------------------------------------------------------------------------------------


@pytest.mark.long_but_first
@pytest.mark.parametrize("threads", [1, 3, 4])
@pytest.mark.parametrize("size", [8 * MIB, 8 * MIB + 3 * 512, 131072 * 5 + 4096])
def test_wipc_writes_exactly_twice_the_capacity(tmp_path: Path, evidence: Path, threads: int, size: int) -> None:
    """Sequential preconditioning writes 2.000 x the capacity over all LBAs, for any thread count and any remainder."""
    target = sparse(tmp_path / "x.img", size)
    request = stimulus(size, access="SEQ", block_size_bytes=131072, thread_count=threads, passes=2)
    (measurement,) = measured(target, evidence, request)
    data = target.read_bytes()

    assert measurement.write.transferred_bytes == 2 * size
    assert measurement.read.ios == 0
    assert allocated_bytes(target) >= size
    assert data_map(target) == ((0, size),)
    assert not [place for place in range(0, size, 512) if data[place : place + 512] == bytes(512)]
    assert target.stat().st_size == size


@pytest.mark.parametrize("threads", [1, 3])
def test_wipc_of_a_smaller_range_ends_in_a_partial_pass(tmp_path: Path, evidence: Path, threads: int) -> None:
    """2 x capacity within 75 % of it are 2.67 passes: exactly the bytes, the whole range, and nothing outside it."""
    size, block = 16 * MIB, 131072
    target = sparse(tmp_path / "x.img", size)
    request = wipc(
        spec_of("iops", setup__active_range_percent=75, setup__thread_count=threads), dut(capacity_bytes=size), block
    )
    (measurement,) = measured(target, evidence, request)

    assert measurement.write.transferred_bytes == 2 * size
    assert measurement.write.ios == 2 * size // block
    assert data_map(target) == ((0, size * 3 // 4),)


@pytest.mark.long_but_first
@pytest.mark.parametrize("io_engine", ["psync", "libaio"])
@pytest.mark.parametrize("sync", [("fsync", "1"), ("fdatasync", "8")])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"read_percent": 50},
        {"access": "SEQ", "limit_bytes": 8 * MIB, "seconds": 10.0},
        {"access": "SEQ", "passes": 4},
    ],
)
def test_sync_calls_of_real_fio_are_accepted(
    tmp_path: Path, evidence: Path, changes: dict[str, Any], sync: tuple[str, str], io_engine: str
) -> None:
    """Threads that end at different times, reads between the writes, and restarts change the number of calls."""
    options = (sync, ("ioengine", io_engine), ("direct", "0"))
    request = stimulus(MIB, thread_count=4, queue_depth=1, options=options, **changes)
    (measurement,) = measured(filled(tmp_path / "x.img", MIB), evidence, request)

    assert measurement.sync is not None
    assert measurement.sync.calls >= measurement.write.ios // int(sync[1]) - 4


@pytest.mark.long
def test_each_round_touches_new_lbas(tmp_path: Path, evidence: Path) -> None:
    """The allocated size of a sparse file grows with each round, because no round repeats the LBAs of another."""
    # One pass at random leaves 1/e of the blocks out, the next 1/e of those: 63, 86 and 95 % of the room are taken.
    target = sparse(tmp_path / "x.img", 16 * MIB)
    request = stimulus(16 * MIB, thread_count=1, passes=1)
    taken = [
        sum(end - start for start, end in data_map(target)) / (16 * MIB)
        for _ in measure_paced(engine(target, evidence), request, 3)
    ]

    assert taken == pytest.approx([0.632, 0.865, 0.950], abs=0.03)


def measure_paced(laboratory: FioEngine, request: Stimulus, rounds: int) -> Iterator[Measurement]:
    """Measure a stimulus some times, each in a round of its own."""
    for _ in range(rounds):
        yield from laboratory.measure([request])


@pytest.mark.long
def test_the_seed_of_a_run_decides_every_lba(tmp_path: Path, evidence: Path) -> None:
    """Two runs of one seed write the same blocks in the same rounds; a run of another seed writes elsewhere."""
    # A range that one thread goes over once in blocks of 4 KiB: as many I/Os each time, whatever the speed.
    request = stimulus(MIB, thread_count=1, passes=1)
    maps: dict[str, list[tuple[tuple[int, int], ...]]] = {}
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (evidence / name).mkdir()
        target = sparse(tmp_path / f"{name}.img", MIB)
        laboratory = engine(target, evidence / name, seed=seed)
        maps[name] = [data_map(target) for _ in measure_paced(laboratory, request, 2)]

    assert maps["a"] == maps["b"]
    assert maps["a"][0] != maps["c"][0]
    assert maps["a"][0] != maps["a"][1]
    assert len(maps["a"][0]) > 10


@pytest.mark.parametrize(("randrepeat", "same"), [("1", True), ("0", False)])
def test_randrepeat_uses_the_same_offsets(tmp_path: Path, evidence: Path, randrepeat: str, same: bool) -> None:
    """Each repeat writes the same blocks if its profile requests that, otherwise others; seeds agree."""
    target, maps, seeds = sparse(tmp_path / "x.img", MIB), [], []
    request = stimulus(MIB, thread_count=1, passes=1, name="point", options=(("randrepeat", randrepeat),))
    laboratory = engine(target, evidence)
    for repeat in measure_paced(laboratory, request, 3):
        maps.append(data_map(target))
        seeds.append(repeat.seed)
        for size in (0, MIB):  # empty again
            os.truncate(target, size)

    assert len(maps[0]) > 10
    assert (len(set(maps)), len(set(seeds))) == ((1, 1) if same else (3, 3))


def test_other_points_and_runs_have_other_seeds(tmp_path: Path) -> None:
    """randrepeat repeats a point within its run: neither another point nor another run has its seed."""
    request = stimulus(name="point", options=(("randrepeat", "1"),))
    seeds = [seed_for(request, 1, 1), seed_for(request, 2, 1), seed_for(replace(request, name="other"), 1, 1)]

    assert len(set(seeds)) == 3
    assert seed_for(request, 1, 2) == seeds[0]


def test_every_stimulus_has_its_own_large_seed(tmp_path: Path, evidence: Path) -> None:
    """Seeds are larger than 2^60, all different, recorded, and those in fio's job file."""
    stimuli = [stimulus(seconds=0.05)] * 3
    laboratory = engine(sparse(tmp_path / "x.img"), evidence)
    measured_points = [*laboratory.measure(stimuli[:2]), *laboratory.measure(stimuli[2:])]
    text = [
        int(re.findall(r"^randseed=(\d+)$", (evidence / f"{measured_point.evidence}.fio").read_text(), re.MULTILINE)[0])
        for measured_point in measured_points
    ]

    assert [item.seed for item in measured_points] == text == [stimulus_seed(RUN_SEED, number) for number in (1, 2, 3)]
    assert len(set(text)) == 3
    assert min(text) >= 1 << 60


@given(st.integers(0, (1 << 63) - 1), st.integers(1, 2000), st.integers(1, 2000))
def test_seeds(run_seed: int, one: int, other: int) -> None:
    """A seed is in fio's range, is large, and differs from those of the next stimulus and of another run."""
    seed = stimulus_seed(run_seed, one)

    assert 1 << 60 <= seed < 1 << 63
    assert seed == stimulus_seed(run_seed, one)
    assert (seed == stimulus_seed(run_seed, other)) == (one == other)
    assert seed != stimulus_seed(run_seed + 1, one)


# -- numbers ----------------------------------------------------------------------------------------------------------


def test_mixed_points_are_reads_and_writes(tmp_path: Path, evidence: Path) -> None:
    """A mixed point has reads and writes, near the requested mix; its IOPS are their sum, as in fio's answer."""
    target = filled(tmp_path / "x.img", 4 * MIB)
    request = stimulus(4 * MIB, read_percent=65, seconds=0.3)
    (point,) = measured(target, evidence, request)
    text = (evidence / f"{point.evidence}.json").read_text()
    job = json.loads(text[text.index("{\n") :])["jobs"][0]

    assert point.ios == job["read"]["total_ios"] + job["write"]["total_ios"]
    assert point.iops == pytest.approx(job["read"]["iops"] + job["write"]["iops"], rel=0.001)
    assert point.read.ios / point.ios == pytest.approx(0.65, abs=0.05)
    assert point.histogram.count == point.ios
    assert 300 <= point.runtime_ms < 400


@pytest.mark.long_but_first
@pytest.mark.parametrize("access", ["RND", "SEQ"])
@pytest.mark.parametrize("read_percent", [0, 50, 100])
@pytest.mark.parametrize("block_size_bytes", [512, MIB])
@pytest.mark.parametrize(("io_engine", "fixed_buffers"), [("io_uring", False), ("io_uring", True), ("libaio", False)])
def test_every_kind_of_point_is_measured(
    tmp_path: Path,
    evidence: Path,
    access: Any,
    read_percent: int,
    block_size_bytes: int,
    io_engine: fio.IoEngine,
    fixed_buffers: bool,
) -> None:
    """Every access, mix and block size runs on both I/O engines, also with fixed buffers, and is accepted."""
    target = filled(tmp_path / "x.img", 4 * MIB + 512)
    request = stimulus(
        4 * MIB + 512, access=access, read_percent=read_percent, block_size_bytes=block_size_bytes, seconds=0.2
    )
    if fixed_buffers and not can_lock_buffers([request], evidence, fio_version(evidence)):
        pytest.skip("this user may not lock the memory of io_uring's buffers (ulimit -l)")
    laboratory = FioEngine(str(target), evidence, seed=1, io_engine=io_engine, fixed_buffers=fixed_buffers)
    (point,) = laboratory.measure([request])

    assert ("fixedbufs=1" in (evidence / f"{point.evidence}.fio").read_text().splitlines()) is fixed_buffers
    assert point.ios > 0
    assert point.read.transferred_bytes + point.write.transferred_bytes == point.ios * block_size_bytes
    assert (point.read.ios > 0, point.write.ios > 0) == (read_percent > 0, read_percent < 100)


@pytest.mark.long
def test_gaps_are_measured(tmp_path: Path, evidence: Path) -> None:
    """The first stimulus has no gap; each later one has the suite's own time and the idle time of the device."""
    laboratory = engine(sparse(tmp_path / "x.img"), evidence)
    measured_points = [point.timing for point in laboratory.measure([stimulus(seconds=0.4)] * 3)]

    assert (measured_points[0].suite_gap_us, measured_points[0].idle_gap_ms) == (None, None)
    for before, after in itertools.pairwise(measured_points):
        suite_us = (after.started_monotonic_ns - before.ended_monotonic_ns) / 1000
        assert after.suite_gap_us is not None
        assert 0 < after.suite_gap_us <= suite_us
        assert after.idle_gap_ms is not None
        length_ms = max(item.ended_monotonic_ns - item.started_monotonic_ns for item in (before, after)) / 1e6
        assert suite_us / 1000 < after.idle_gap_ms <= suite_us / 1000 + length_ms - 395


@pytest.mark.long
def test_the_next_point_starts_immediately(tmp_path: Path, evidence: Path) -> None:
    """A point starts when all I/O of the previous one is complete: no start or end of fio and no consumer delays it."""
    laboratory = engine(sparse(tmp_path / "x.img"), evidence)
    found = []
    for point in laboratory.measure([stimulus(seconds=1.0)] * 3):
        found.append(point.timing)
        time.sleep(0.5)

    gaps = [after.started_monotonic_ns - before.ended_monotonic_ns for before, after in itertools.pairwise(found)]
    assert max(gaps) < 0.3e9
    for started, ended in ((entry.started_monotonic_ns, entry.ended_monotonic_ns) for entry in found):
        assert 1.0e9 <= ended - started < 1.4e9


def test_each_point_needs_a_permission(tmp_path: Path, evidence: Path) -> None:
    """A forbidden point does not start, and the measurements before it are kept."""
    target = sparse(tmp_path / "x.img")
    stimuli = [
        stimulus(range_offset_bytes=offset * MIB, range_bytes=MIB, access="SEQ", block_size_bytes=65536)
        for offset in (0, 4, 8)
    ]

    def forbid(wanted: Stimulus) -> None:
        if wanted.range_offset_bytes == 4 * MIB:
            raise OSError(errno.ENODEV, "gone")

    outcomes = engine(target, evidence).measure(stimuli, forbid)
    first = next(outcomes)
    with pytest.raises(OSError, match="gone"):
        next(outcomes)

    assert first.stimulus == stimuli[0]
    assert data_map(target) == ((0, MIB),)
    assert fio_processes(evidence) == []


def test_a_point_is_kept_if_the_next_one_cannot_be_prepared(tmp_path: Path, evidence: Path) -> None:
    """If the job file of the next point cannot be written, the running point is measured before the error is raised."""
    (evidence / "00002-rnd-4096b-r0.fio").mkdir()
    laboratory = engine(sparse(tmp_path / "x.img"), evidence)
    laboratory._count = 0  # as if the name were free when the run began
    outcomes = laboratory.measure([stimulus(seconds=0.3)] * 2)
    first = next(outcomes)
    with pytest.raises(RunFolderError, match="is a directory"):
        next(outcomes)

    assert first.runtime_ms >= 300
    assert fio_processes(evidence) == []


@pytest.mark.long
def test_the_next_fio_starts_late_and_is_ready_in_time(tmp_path: Path, evidence: Path) -> None:
    """Early in a point there is no other fio; at its end the next one is ready, so that its start causes no gap."""
    early: list[int] = []
    look = threading.Timer(0.6, lambda: early.append(len(list(evidence.glob("*.fio")))))
    look.start()
    first, second, third = measured(sparse(tmp_path / "x.img"), evidence, *[stimulus(seconds=3.6)] * 2, stimulus())

    assert early == [1]
    for before, after in ((first, second), (second, third)):
        began = (evidence / f"{after.evidence}.fio").stat().st_mtime
        assert began < (evidence / f"{before.evidence}.json").stat().st_mtime - 0.2
        assert not after.timing.engine_restarted


def test_no_fio_starts_after_a_failed_one(tmp_path: Path, evidence: Path) -> None:
    """A drive that hangs is not opened again: the next fio starts only after the point was accepted."""
    outcomes = engine(sparse(tmp_path / "x.img"), evidence).measure([stimulus(seconds=30)] * 2)

    def kill() -> None:
        for pid in fio_processes(evidence):
            os.kill(pid, signal.SIGKILL)

    threading.Timer(1.0, kill).start()
    with pytest.raises(fio.AnswerRejected):
        next(outcomes)

    assert [path.name[:5] for path in evidence.glob("*.fio")] == ["00001"]


@pytest.mark.long
def test_a_point_with_fewer_threads_than_requested_is_rejected(tmp_path: Path, evidence: Path) -> None:
    """If a waiting thread is lost, fio reports success, but the point is rejected; the previous one is kept."""
    outcomes = engine(sparse(tmp_path / "x.img"), evidence).measure([stimulus(seconds=1.5), stimulus(seconds=0.3)])
    losing = threading.Timer(1.0, end_a_waiting_thread, (evidence,))
    losing.start()
    first = next(outcomes)
    losing.join()
    with pytest.raises(fio.AnswerRejected, match=r"not all of fio's threads|too little with 8 outstanding") as refusal:
        next(outcomes)

    assert first.runtime_ms >= 1500
    assert refusal.value.blame == "host"


def end_a_waiting_thread(evidence: Path) -> None:
    """End the shell of one of the threads that wait for the second stimulus."""
    for pid in fio_processes(evidence):
        if any("/00002-" in name for name in opened_files(pid)):
            children = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
            os.kill(int(next(words for words in children if words)[0]), signal.SIGKILL)
            return


def test_messages_on_standard_error_are_in_the_measurement(
    tmp_path: Path, evidence: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that does not invalidate the answer is stored with the point, with and without samples."""
    program = tmp_path / "fio"
    program.write_text(f'#!/bin/sh\necho "fio: odd" >&2\nexec {process.find("fio")} "$@"\n')
    program.chmod(0o755)
    replace_fio(monkeypatch, program)
    target = sparse(tmp_path / "x.img")
    step = ContinuousStimulus(phase="stimulus", stimulus=stimulus(seconds=0.3), sample_seconds=0.1)
    *_, sampled = engine(target, evidence).measure_continuous(step)
    (point,) = measured(target, evidence, stimulus())

    assert isinstance(sampled, Measurement)
    assert sampled.engine_messages == point.engine_messages == ("fio: odd",)


def test_a_closed_generator_ends_the_running_and_the_prepared_fio(tmp_path: Path, evidence: Path) -> None:
    """After a measurement the next point runs, and one more may be prepared: both end with their consumer."""
    outcomes = engine(sparse(tmp_path / "x.img"), evidence).measure(
        [stimulus(seconds=0.3), *[stimulus(seconds=60)] * 2]
    )
    next(outcomes)
    running = fio_processes(evidence)
    assert isinstance(outcomes, Generator)
    outcomes.close()

    assert running
    assert fio_processes(evidence) == []


def test_a_fio_that_cannot_be_prepared_starts_in_the_normal_way(
    tmp_path: Path, evidence: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the preparation fails, the point is still measured; only the gap before it is longer."""
    program = tmp_path / "fio"
    real = process.find("fio")
    program.write_text(f'#!/bin/sh\ncase "$*" in *exec_prerun*) exit 1;; esac\nexec {real} "$@"\n')
    program.chmod(0o755)
    replace_fio(monkeypatch, program)
    measured_points = measured(sparse(tmp_path / "x.img"), evidence, *[stimulus(seconds=0.2)] * 3)

    assert len(measured_points) == 3
    assert all(200 <= measured_point.runtime_ms < 400 for measured_point in measured_points)
    assert all((item.timing.idle_gap_ms or 0) > 20 for item in measured_points[1:])
    assert all(entry.timing.engine_restarted for entry in measured_points)
    command = json.loads((evidence / f"{measured_points[1].evidence}.process.json").read_text())["argv"]
    assert not any("exec_prerun" in word for word in command)
    fallen = json.loads((evidence / f"{measured_points[1].evidence}.fallen.process.json").read_text())
    assert (fallen["exit_code"], any("exec_prerun" in word for word in fallen["argv"])) == (1, True)


@pytest.mark.parametrize(
    ("behaviour", "ready"), [("echo >&3; exit 1", 1), ("echo >&3; exec sleep 60", 1), ("exec sleep 60", 0)]
)
def test_a_fio_that_starts_other_threads_than_requested_is_not_restarted(
    behaviour: str, ready: int, tmp_path: Path, evidence: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the start gate nothing would count the threads, so that fewer could measure the point."""
    monkeypatch.setattr(staged, "_READY_SECONDS", 1.0)
    program = tmp_path / "fio"
    real = process.find("fio")
    program.write_text(f'#!/bin/sh\ncase "$*" in *exec_prerun*) {behaviour};; esac\nexec {real} "$@"\n')
    program.chmod(0o755)
    replace_fio(monkeypatch, program)
    with pytest.raises(fio.AnswerRejected) as refusal:
        measured(sparse(tmp_path / "x.img"), evidence, stimulus(seconds=0.2, thread_count=4))

    assert (refusal.value.blame, refusal.value.reason) == ("host", f"fio started {ready} of 4 threads")
    assert fio_processes(evidence) == []


@pytest.mark.long
def test_no_thread_is_interrupted_when_another_ends(tmp_path: Path, evidence: Path) -> None:
    """SIGCHLD is blocked in every thread of fio: it would interrupt a wait for I/O, and leave I/Os uncounted."""
    lines: list[str] = []

    def look(_seconds: float, _written: int) -> None:
        for pid in fio_processes(evidence):
            lines.extend(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status"))

    measured(sparse(tmp_path / "x.img"), evidence, stimulus(seconds=1.5, thread_count=4), tick=look)

    masks = [int(mask, 16) for status in lines for mask in re.findall(r"^SigBlk:\t(\w+)$", status, re.MULTILINE)]
    assert len(masks) >= 5
    assert all(mask & 1 << (signal.SIGCHLD - 1) for mask in masks)


def test_fio_inherits_the_claim_of_its_target(tmp_path: Path, evidence: Path) -> None:
    """If the suite is killed, the lock and exclusive open of the target last until fio has ended."""
    locks: list[str] = []

    def look(_seconds: float, _written: int) -> None:
        for pid in fio_processes(evidence):
            locks.extend(path.read_text() for path in Path(f"/proc/{pid}/fdinfo").iterdir())

    target = sparse(tmp_path / "x.img")
    with target.open("rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        measured(target, evidence, stimulus(seconds=1.5), tick=look, descriptor=file.fileno())

    assert any("FLOCK" in text for text in locks)


def test_evidence_is_complete(tmp_path: Path, evidence: Path) -> None:
    """Job file, answer and process of each stimulus are stored under its name, the answer with its digest."""
    (point,) = measured(sparse(tmp_path / "x.img"), evidence, stimulus())
    name = point.evidence

    assert name == "00001-rnd-4096b-r0"
    assert hashlib.sha256((evidence / f"{name}.json").read_bytes()).hexdigest() == point.evidence_sha256
    assert json.loads((evidence / f"{name}.process.json").read_text())["exit_code"] == 0
    job, process = (evidence / f"{name}.fio").read_text(), json.loads((evidence / f"{name}.process.json").read_text())
    assert f"SNIA_PTS_TARGET={tmp_path}/x.img fio FILE" in job
    assert process["environment"] == {"SNIA_PTS_TARGET": f"{tmp_path}/x.img", "TMPDIR": "/dev/null"}
    assert sorted(process["descriptors"].values()) == [f"{evidence / name}.fio", f"{evidence / name}.json"]


def test_refilled_buffers_are_recorded(tmp_path: Path, evidence: Path) -> None:
    """The operator's choice of data is in the job file and in the report's description of the engine."""
    laboratory = engine(sparse(tmp_path / "x.img"), evidence, refill=True)
    (point,) = laboratory.measure([stimulus()])

    assert "refill_buffers=1" in (evidence / f"{point.evidence}.fio").read_text()
    assert laboratory.io_engine == "libaio, random buffers refilled"
    assert engine(tmp_path / "x.img", evidence).io_engine == "libaio, random buffers scrambled"


@pytest.mark.long
def test_fixed_buffers_change_nothing_of_the_stimulus(tmp_path: Path, evidence: Path) -> None:
    """One seed gives one set of offsets, and no sector twice; fio scrambles by the time, so the bytes differ."""
    places = []
    for fixed_buffers in (False, True):
        target, folder = sparse(tmp_path / f"{fixed_buffers}.img"), evidence / str(fixed_buffers)
        folder.mkdir()
        laboratory = FioEngine(str(target), folder, seed=1, io_engine="io_uring", fixed_buffers=fixed_buffers)
        list(laboratory.measure([stimulus(read_percent=0, seconds=None, passes=1)]))
        content = target.read_bytes()
        sectors = [content[start : start + 512] for start in range(0, len(content), 512)]
        written = [place for place, sector in enumerate(sectors) if any(sector)]
        assert len({sectors[place] for place in written}) == len(written)
        places.append(written)
        assert laboratory.io_engine == f"io_uring{', fixed buffers' if fixed_buffers else ''}, random buffers scrambled"

    assert places[0] == places[1]
    assert len(places[0]) > 0.5 * len(sectors)


# -- memory that may be locked ----------------------------------------------------------------------------------------

#: Prints whether the buffers of a stimulus may be locked, and whether fio tried.
LOCKING = """
import subprocess, sys
from pathlib import Path
from snia_pts.lab.fio.probe import can_lock_buffers
from tests.test_engine import stimulus
threads, depth, block = map(int, sys.argv[2:])
version = subprocess.check_output(["fio", "--version"], text=True).strip().removeprefix("fio-")
asked = stimulus(thread_count=threads, queue_depth=depth, block_size_bytes=block)
print(can_lock_buffers([stimulus(thread_count=1, queue_depth=1), asked], Path(sys.argv[1]), version))
print(any(Path(sys.argv[1]).iterdir()))
"""


@pytest.mark.long_but_first
@pytest.mark.parametrize(
    ("limit_bytes", "shape", "found", "tried"),
    [
        (0, (1, 1, 4096), False, False),
        (65536, (1, 32, 4096), False, False),
        (8 * MIB, (1, 32, 4096), True, True),
        (8 * MIB, (4, 32, 4096), True, True),
        (8 * MIB, (1, 8, MIB), False, False),
        (8 * MIB, (1, 4, MIB), False, True),
    ],
    ids=str,
)
def test_buffers_are_fixed_only_if_their_memory_may_be_locked(
    limit_bytes: int, shape: tuple[int, int, int], found: bool, tried: bool, evidence: Path
) -> None:
    """Within RLIMIT_MEMLOCK the largest stimulus fits twice, or fio's buffers are not registered; its rings count, too.

    Root has the capability to lock more, so it is taken from a process of its own.
    """
    need_root()
    argv = (
        *("prlimit", f"--memlock={limit_bytes}:{limit_bytes}", "setpriv", "--bounding-set=-ipc_lock", "--"),
        *(sys.executable, "-c", LOCKING, str(evidence), *map(str, shape)),
    )
    finished = subprocess.run(argv, check=True, capture_output=True, text=True, cwd=Path(__file__).parent.parent)

    assert finished.stdout.split() == [str(found), str(tried)]


def test_with_the_capability_any_amount_is_locked(evidence: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root has no limit, so fio tries one small buffer; if it fails nevertheless, that result is used."""
    need_root()
    request = stimulus(thread_count=32, queue_depth=32, block_size_bytes=MIB, range_bytes=64 * MIB)

    version = fio_version(evidence)
    assert can_lock_buffers([request], evidence, version)
    assert "bs=4096" in (evidence / "00000-fixed-buffers.fio").read_text().splitlines()
    monkeypatch.setattr("snia_pts.lab.fio.null_job_file", lambda *_, **__: "[x]\nioengine=no-such-engine\n")
    assert not can_lock_buffers([request], evidence, version)


def test_the_probe_of_locked_memory_must_be_of_this_fio(evidence: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer of another version, or to another job, ends the run: another program runs in place of fio."""
    need_root()
    request, run_job = stimulus(), fio.run_job
    with pytest.raises(HostFailed, match=r"expected an answer of fio-9\.99, got one of fio-3"):
        can_lock_buffers([request], evidence, "9.99")

    def run_other_job(job: Path, text: str, *arguments: Any) -> Any:
        return run_job(job, text.replace(f"randseed={1 << 61}", "randseed=77"), *arguments)

    monkeypatch.setattr(fio, "run_job", run_other_job)
    with pytest.raises(HostFailed, match=f"expected randseed={1 << 61}, got randseed=77"):
        can_lock_buffers([request], evidence, fio_version(evidence))


# -- mixes, starts, limits ------------------------------------------------------------------------------------------


def test_a_mix_of_sizes_is_measured(tmp_path: Path, evidence: Path) -> None:
    """A mix of sizes with a skew is accepted; its bytes are between those of its smallest and largest size."""
    sizes = ((512, 4), (1024, 1), (4096, 85), (65536, 10))
    request = stimulus(
        16 * MIB,
        read_percent=40,
        seconds=0.3,
        block_size_bytes=tuple(BlockShare(size_bytes=size, percent=percent) for size, percent in sizes),
        skew=(Zone(access_percent=50, range_percent=5), Zone(access_percent=50, range_percent=95)),
    )
    (point,) = measured(filled(tmp_path / "x.img", 16 * MIB), evidence, request)
    total = point.read.transferred_bytes + point.write.transferred_bytes
    mean = sum(size * percent for size, percent in sizes) / 100

    assert point.ios > 1000
    assert total / point.ios == pytest.approx(mean, rel=0.2)
    assert 0.3 < point.read.ios / point.ios < 0.5
    assert point.evidence == "00001-rnd-mixed-r40"


def test_a_stream_starts_at_its_offset(tmp_path: Path, evidence: Path) -> None:
    """A sequential stream starts at its offset, each thread in its own share, and writes nothing before it."""
    target = sparse(tmp_path / "x.img", 64 * MIB)
    request = stimulus(
        64 * MIB,
        access="SEQ",
        block_size_bytes=MIB,
        thread_count=2,
        queue_depth=1,
        start_bytes=48 * MIB,
        seconds=5.0,
        limit_bytes=4 * MIB,
    )
    measured(target, evidence, request)

    assert data_map(target) == ((24 * MIB, 26 * MIB), (56 * MIB, 58 * MIB))


@pytest.mark.parametrize("access", ["RND", "SEQ"])
@pytest.mark.parametrize("size", [MIB, 16 * MIB])
def test_a_limit_of_bytes_ends_a_stimulus_early(tmp_path: Path, evidence: Path, access: Any, size: int) -> None:
    """All threads together transfer the amount, larger or smaller than the range, long before the time ends."""
    request = stimulus(size, access=access, thread_count=3, seconds=30.0, limit_bytes=3 * MIB + 1)
    (point,) = measured(sparse(tmp_path / "x.img", size), evidence, request)

    assert 3 * MIB < point.write.transferred_bytes <= 3 * MIB + 3 * 4096
    assert point.runtime_ms < 20_000


def test_threads_that_cannot_share_a_range_are_refused(tmp_path: Path, evidence: Path) -> None:
    """If some threads would have no block, the stimulus is refused and not run with fewer threads."""
    refusal = refused(
        engine(sparse(tmp_path / "x.img", MIB), evidence),
        stimulus(MIB, access="SEQ", block_size_bytes=262144, thread_count=5),
    )

    assert "5 sequential threads cannot share a range of 4 blocks" in refusal.reason


# -- samples --------------------------------------------------------------------------------------------------------


def stretch(request: Stimulus, sample_seconds: float | None) -> ContinuousStimulus:
    """Return a continuous stimulus."""
    return ContinuousStimulus(phase="stimulus", stimulus=request, sample_seconds=sample_seconds)


def stretched(laboratory: FioEngine, step: ContinuousStimulus) -> tuple[list[Sample], Measurement]:
    """Run a continuous stimulus; return its samples and its measurement."""
    *samples, whole = laboratory.measure_continuous(step)
    assert isinstance(whole, Measurement)
    return [sample for sample in samples if isinstance(sample, Sample)], whole


@pytest.mark.long_but_first
@pytest.mark.parametrize("read_percent", [0, 60])
def test_samples_add_up_to_the_measurement(tmp_path: Path, evidence: Path, read_percent: int) -> None:
    """One fio gives all samples, of the requested length except the first and last; their sum is its final answer."""
    request = stimulus(read_percent=read_percent, seconds=1.5)
    samples, whole = stretched(engine(filled(tmp_path / "x.img", 16 * MIB), evidence), stretch(request, 0.3))

    assert [sample.number for sample in samples] == [1, 2, 3, 4, 5]
    assert [sample.seconds for sample in samples[1:-1]] == pytest.approx([0.3] * 3, abs=0.25)
    assert samples[0].seconds <= 0.31
    assert samples[-1].ended_seconds == whole.runtime_ms / 1000
    assert sum(sample.read_ios for sample in samples) == whole.read.ios
    assert sum(sample.write_ios for sample in samples) == whole.write.ios
    assert sum(sample.write_bytes for sample in samples) == whole.write.transferred_bytes
    assert all(sample.ios > 100 and 0 < sample.average_response_us <= sample.maximum_response_us for sample in samples)
    assert max(sample.maximum_response_us for sample in samples) == whole.maximum_response_us
    assert whole.stimulus == request
    assert len(list(evidence.glob("0000[1-9]*.fio"))) == 1


def test_a_continuous_stimulus_without_samples_is_a_measurement(tmp_path: Path, evidence: Path) -> None:
    """Without a sample time only the measurement is returned."""
    samples, whole = stretched(engine(sparse(tmp_path / "x.img"), evidence), stretch(stimulus(), None))

    assert samples == []
    assert whole.ios > 0


def test_samples_are_returned_while_fio_runs(tmp_path: Path, evidence: Path) -> None:
    """Each sample is returned at its end; after a stop it is kept, with its evidence, and fio is ended."""
    outcomes = engine(sparse(tmp_path / "x.img"), evidence).measure_continuous(stretch(stimulus(seconds=60.0), 0.3))
    first, second = next(outcomes), next(outcomes)

    assert isinstance(first, Sample)
    assert isinstance(second, Sample)
    assert len(fio_processes(evidence)) == 1
    kept = kept_answers(evidence)
    assert isinstance(outcomes, Generator)
    outcomes.close()

    assert fio_processes(evidence) == []
    assert len(kept) == 2
    assert sum(answer["write"]["lat_ns"]["N"] for answer in kept[-1:]) == first.ios + second.ios
    assert json.loads((evidence / "00001-rnd-4096b-r0.process.json").read_text())["exit_code"] != 0


def kept_answers(evidence: Path) -> list[dict[str, Any]]:
    """Return the jobs of the answers stored so far, of a file that may still be written."""
    raw = zlib.decompressobj(wbits=31).decompress((evidence / "00001-rnd-4096b-r0.samples.json.gz").read_bytes())
    return [the_job(document + "}") for document in raw.decode().split("\n}\n")[:-1]]


def the_job(answer: str) -> dict[str, Any]:
    """Return the job of an answer, which lines of text may precede."""
    document: dict[str, Any] = json.loads(answer[answer.index("{\n") :])["jobs"][0]
    return document


@pytest.mark.long
def test_all_output_of_fio_is_stored(tmp_path: Path, evidence: Path) -> None:
    """The evidence of samples is the whole output of fio, compressed; the final answer is beside it."""
    samples, whole = stretched(engine(sparse(tmp_path / "x.img"), evidence), stretch(stimulus(seconds=0.9), 0.3))
    kept = kept_answers(evidence)
    final = (evidence / f"{whole.evidence}.json").read_bytes()

    assert len(kept) >= len(samples) == 3
    assert the_job(final.decode()) == kept[-1]
    assert hashlib.sha256(final).hexdigest() == whole.evidence_sha256
    assert [answer["write"]["lat_ns"]["N"] for answer in kept[:2]] == [samples[0].ios, samples[0].ios + samples[1].ios]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_samples_of_a_fio_that_was_ended_are_kept(tmp_path: Path, evidence: Path, number: signal.Signals) -> None:
    """Complete samples before the end from outside are kept; the measurement and the incomplete sample are rejected."""
    outcomes = engine(sparse(tmp_path / "x.img"), evidence).measure_continuous(stretch(stimulus(seconds=60.0), 0.2))
    seen = [next(outcomes) for _ in range(3)]
    for pid in fio_processes(evidence):
        os.kill(pid, number)
    with pytest.raises(fio.AnswerRejected) as refusal:
        seen.extend(outcomes)

    assert all(isinstance(item, Sample) for item in seen)
    assert refusal.value.blame == "host"


def test_a_limit_shortens_the_last_sample(tmp_path: Path, evidence: Path) -> None:
    """If a limit ends the stimulus, there are fewer samples, the last one is shorter, and all I/O is in them."""
    request = stimulus(seconds=60.0, limit_bytes=40 * MIB)
    samples, whole = stretched(engine(sparse(tmp_path / "x.img"), evidence), stretch(request, 0.1))

    assert 0 < len(samples) < 100
    assert sum(sample.write_bytes for sample in samples) == whole.write.transferred_bytes == 40 * MIB
    assert samples[-1].ended_seconds == pytest.approx(whole.runtime_ms / 1000, abs=0.01)


def test_continuous_stimuli_have_gaps(tmp_path: Path, evidence: Path) -> None:
    """The gap before a continuous stimulus with samples is recorded as before any stimulus."""
    laboratory = engine(sparse(tmp_path / "x.img"), evidence)
    first = stretched(laboratory, stretch(stimulus(seconds=0.2), 0.1))[1]
    second = stretched(laboratory, stretch(stimulus(seconds=0.2), 0.1))[1]

    assert first.timing.suite_gap_us is None
    assert second.timing.suite_gap_us is not None
    assert second.timing.idle_gap_ms is not None
    assert second.timing.suite_gap_us < 1000 * second.timing.idle_gap_ms


@pytest.mark.long
def test_samples_cost_no_memory(tmp_path: Path, evidence: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times as many samples need no more memory if they are consumed one by one."""
    peaks = []
    for count in (150, 1500):
        folder = evidence / f"{count}"
        folder.mkdir()
        replace_fio(monkeypatch, fake_sampling_fio(tmp_path / f"{count}", count))
        laboratory = engine(tmp_path / "x.img", folder)
        outcomes = laboratory.measure_continuous(stretch(stimulus(seconds=count / 1000), 0.001))
        tracemalloc.start()
        seen = sum(isinstance(outcome, Sample) for outcome in outcomes)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert seen == count

    assert peaks[1] < 1.5 * peaks[0]
    assert peaks[1] < 4 * MIB


def replace_fio(monkeypatch: pytest.MonkeyPatch, program: Path) -> None:
    """Put another program in the place of fio, which does not read its job file, and echoes none of it."""
    find = process.find
    monkeypatch.setattr("snia_pts.lab.fio.echo.require_echo", lambda *_: None)
    monkeypatch.setattr(process, "find", lambda name: str(program) if name == "fio" else find(name))


def alter_answers(monkeypatch: pytest.MonkeyPatch, program: Path, change: str) -> None:
    """Create a program that runs fio and changes its answers with a command of sed."""
    real, find = process.find("fio"), process.find
    program.write_text(
        f'#!/bin/sh\n{real} "$@" || exit\n'
        "for word; do case $word in --output=*) f=${word#*=};; esac; done\n"
        f'test -z "$f" || {{ s=$(sed \'{change}\' $f); echo "$s" > $f; }}\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(process, "find", lambda name: str(program) if name == "fio" else find(name))


def fake_sampling_fio(folder: Path, count: int, printed: Sequence[int] = (), *, hasty: bool = False) -> Path:
    """Create a program with fio's output for ``count`` samples of a millisecond, in real time unless ``hasty``.

    It has no threads that could wait at the start gate: it ends there, and is started again without the gate.
    ``printed`` are the samples that it prints, all by default.
    """
    folder.mkdir()
    with (folder / "samples").open("w") as file:
        for second in printed or range(1, count + 1):
            bins = {str(edge): 100 * second for edge in range(129, 256, 2)}
            ios = 100 * second * len(bins)
            lat = {"min": 128, "max": 255, "mean": 191.5, "N": ios, "bins": bins}
            rates = {"iops": 1000 * ios / second, "bw_bytes": 4096 * 1000 * ios / second}
            write = {"total_ios": ios, "io_bytes": 4096 * ios, "runtime": second, "lat_ns": lat, **rates}
            none = {"total_ios": 0, "io_bytes": 0, "runtime": 0, "iops": 0.0, "bw_bytes": 0}
            read = {**none, "lat_ns": {"min": 0, "max": 0, "mean": 0.0, "N": 0}}
            document = {"fio version": "fio-3.33", "jobs": [{"error": 0, "read": read, "write": write}]}
            file.write(json.dumps(document, indent=1) + "\n")
    program = folder / "fio"
    seconds = 0 if hasty else count / 1000
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec echo fio-3.33\n'
        f'case "$*" in *exec_prerun*) exit 1;; esac\n'
        f'trap "" USR1\ncat {folder / "samples"} && exec sleep {seconds}\n'
    )
    program.chmod(0o755)
    return program


# -- idle -----------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("seconds", [0.7, 2.0])
@pytest.mark.device
def test_idle_time_is_as_long_as_requested(tmp_path: Path, evidence: Path, seconds: float) -> None:
    """From the last I/O before it to the first one after, the device is idle for the requested time plus at most 20 ms.

    What is spent on the next fio is part of it, and no gap of the suite's own.
    """
    laboratory = engine(sparse(tmp_path / "x.img"), evidence)
    list(laboratory.measure([stimulus(seconds=0.3)]))
    laboratory.idle(seconds)
    (point,) = laboratory.measure([stimulus(seconds=0.3)])
    laboratory.idle(seconds)
    (*_, whole) = laboratory.measure_continuous(stretch(stimulus(seconds=0.6), 0.3))

    assert isinstance(whole, Measurement)
    for after in (point, whole):
        assert 1000 * seconds <= (after.timing.idle_gap_ms or 0) < 1000 * seconds + 20
        assert (after.timing.suite_gap_us or 0) < 1000


def test_an_idle_time_shorter_than_the_start_of_fio_is_recorded(tmp_path: Path, evidence: Path) -> None:
    """If the next fio needs longer to start, the gap is that time; the part beyond the request is the suite's."""
    laboratory = engine(sparse(tmp_path / "x.img"), evidence)
    list(laboratory.measure([stimulus()]))
    laboratory.idle(0.001)
    (after,) = laboratory.measure([stimulus()])

    assert (after.timing.idle_gap_ms or 0) > 20
    assert (after.timing.suite_gap_us or 0) > 1000


def test_nothing_runs_while_idle(tmp_path: Path, evidence: Path) -> None:
    """While the device is idle no fio runs, there is a tick about once a second, and Ctrl-C ends the wait."""
    elapsed: list[float] = []

    def tick(seconds: float, written: int) -> None:
        assert fio_processes(evidence) == []
        elapsed.append(seconds)
        if len(elapsed) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine(sparse(tmp_path / "x.img"), evidence, tick=tick).idle(60.0)

    assert 1 <= elapsed[0] <= elapsed[1] - 1 < 10


# -- refusals -----------------------------------------------------------------------------------------------------


def refused(laboratory: FioEngine, request: Stimulus) -> fio.AnswerRejected:
    """Measure, and return the rejection."""
    with pytest.raises(fio.AnswerRejected) as caught:
        list(laboratory.measure([request]))
    return caught.value


@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGTERM, "stopped fio with a signal"), (signal.SIGKILL, "wrote no result")]
)
def test_a_fio_ended_from_outside_is_rejected(
    tmp_path: Path, evidence: Path, number: signal.Signals, reason: str
) -> None:
    """If another process ends fio, the point is rejected although fio reports success; the host is to blame."""
    laboratory = engine(sparse(tmp_path / "x.img"), evidence)

    def end() -> None:
        await_work(evidence)
        for pid in fio_processes(evidence):
            os.kill(pid, number)

    ending = threading.Thread(target=end)
    ending.start()
    refusal = refused(laboratory, stimulus(seconds=8.0))
    ending.join()

    assert (refusal.blame, reason in refusal.reason) == ("host", True)


@pytest.mark.long_but_first
@pytest.mark.parametrize("pause", [0.02, 0.3, 60.0])
@pytest.mark.parametrize("sample_seconds", [None, 0.2])
def test_a_fio_stopped_from_outside_is_rejected(
    tmp_path: Path, evidence: Path, pause: float, sample_seconds: float | None
) -> None:
    """If another process stops fio for a moment or forever, the point or the continuous stimulus is rejected."""
    outcomes = engine(sparse(tmp_path / "x.img"), evidence).measure_continuous(
        stretch(stimulus(seconds=20.0), sample_seconds)
    )
    stopper = threading.Thread(target=stop_for, args=(evidence, pause))
    stopper.start()
    began = time.monotonic()
    with pytest.raises(fio.AnswerRejected) as refusal:
        list(outcomes)
    taken = time.monotonic() - began
    stopper.join()

    assert refusal.value.blame == "host"
    assert re.fullmatch(r"another process stopped fio for about [\d.]+ s", refusal.value.reason)
    assert taken < 10
    assert fio_processes(evidence) == []


def await_work(evidence: Path) -> None:
    """Wait until fio has done I/O for the first stimulus for a while."""
    until = time.monotonic() + 20
    while not any(evidence.glob("00001-*.process.json")):
        assert time.monotonic() < until
        time.sleep(0.01)
    time.sleep(0.3)


def stop_for(evidence: Path, seconds: float) -> None:
    """Stop the fio that works for this folder, and continue it after ``seconds`` if it still exists."""
    await_work(evidence)
    found = fio_processes(evidence)
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if seconds > 10:
            return
        time.sleep(seconds if number == signal.SIGSTOP else 0)


@pytest.mark.long
def test_a_stopped_suite_keeps_its_point_and_records_the_pause(tmp_path: Path, evidence: Path) -> None:
    """Ctrl-Z stops the suite, but not fio: the point is complete, and the time until the next one is an idle gap."""
    code = (
        "import sys, tests.test_engine as t\nfrom pathlib import Path\n"
        "for point in t.engine(Path(sys.argv[1]), Path(sys.argv[2])).measure([t.stimulus(seconds=0.5)] * 2):\n"
        "    print(point.runtime_ms, point.timing.idle_gap_ms)\n"
    )
    argv = [sys.executable, "-c", code, str(sparse(tmp_path / "x.img")), str(evidence)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent) as suite:
        while not (evidence / "00001-rnd-4096b-r0.process.json").exists():
            assert suite.poll() is None
            time.sleep(0.01)
        suite.send_signal(signal.SIGSTOP)
        time.sleep(2.5)
        suite.send_signal(signal.SIGCONT)
        output, _ = suite.communicate()
    first, second = (line.split() for line in output.splitlines())

    assert 500 <= int(first[0]) < 1000
    assert 1500 < float(second[1]) < 5000


def test_a_fio_with_a_runtime_longer_than_its_life_is_rejected(
    tmp_path: Path, evidence: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If fio reports more time with I/O than its process existed, its clock is wrong, and the answer is rejected."""
    replace_fio(monkeypatch, fake_sampling_fio(tmp_path / "fast", 20_000, printed=(20_000,), hasty=True))
    with pytest.raises(fio.AnswerRejected, match="20 s of I/O, but its process ran for") as refusal:
        stretched(engine(tmp_path / "x.img", evidence), stretch(stimulus(seconds=20.0), 10.0))

    assert refusal.value.blame == "host"


# -- clocks ---------------------------------------------------------------------------------------------------------


class Clock:
    """The host's clocks, with simulated jumps."""

    suspended = changed = 0.0

    def __call__(self) -> Moment:
        now = read_moment()
        asleep, wall = round(1e9 * self.suspended), round(1e9 * self.changed)
        return replace(now, boot_ns=now.boot_ns + asleep, wall_ns=now.wall_ns + asleep + wall)


def test_a_suspension_between_rounds_ends_the_run(tmp_path: Path, evidence: Path) -> None:
    """What the drive did during the suspension is unknown: no point follows, and no I/O is done."""
    clock = Clock()
    laboratory = engine(sparse(tmp_path / "x.img"), evidence, clock=clock)
    list(laboratory.measure([stimulus()]))
    clock.suspended = 7.2
    refusal = refused(laboratory, stimulus())

    assert (refusal.blame, "suspended for 7.2 s" in refusal.reason) == ("host", True)
    assert not (evidence / "00002-rnd-4096b-r0.process.json").exists()


@pytest.mark.long_but_first
@pytest.mark.parametrize("sample_seconds", [None, 0.2])
def test_a_suspension_during_a_point_ends_the_run(tmp_path: Path, evidence: Path, sample_seconds: float | None) -> None:
    """The point is rejected and its fio ended at once, although fio itself noticed nothing."""
    clock = Clock()
    laboratory = engine(sparse(tmp_path / "x.img"), evidence, clock=clock)
    sleeping = threading.Timer(0.5, setattr, (clock, "suspended", 0.2))
    sleeping.start()
    began = time.monotonic()
    with pytest.raises(fio.AnswerRejected, match=r"suspended for 0\.2 s"):
        list(laboratory.measure_continuous(stretch(stimulus(seconds=20.0), sample_seconds)))

    assert time.monotonic() - began < 10
    assert fio_processes(evidence) == []


def test_a_suspension_at_the_end_of_a_point_ends_the_run(tmp_path: Path, evidence: Path) -> None:
    """The clocks are also read after a point, however short it was."""
    clock = Clock()
    laboratory = engine(sparse(tmp_path / "x.img"), evidence, clock=clock)
    sleeping = threading.Timer(0.1, setattr, (clock, "suspended", 3.0))
    sleeping.start()

    assert "suspended for 3.0 s" in refused(laboratory, stimulus(seconds=0.3)).reason


def test_a_suspension_in_an_idle_time_ends_the_run(tmp_path: Path, evidence: Path) -> None:
    """An idle time in which the drive may have lost power is not valid."""
    clock = Clock()
    laboratory = engine(sparse(tmp_path / "x.img"), evidence, clock=clock)
    clock.suspended = 60.0
    with pytest.raises(fio.AnswerRejected, match=r"suspended for 60\.0 s"):
        laboratory.idle(30.0)


@pytest.mark.parametrize("seconds", [3600.0, -7.5])
def test_a_change_of_the_wall_clock_is_recorded_once(tmp_path: Path, evidence: Path, seconds: float) -> None:
    """The change is stored with the next point, and is no reason to reject it."""
    clock = Clock()
    outcomes = engine(sparse(tmp_path / "x.img"), evidence, clock=clock).measure([stimulus()] * 3)
    found = [next(outcomes)]
    clock.changed = seconds
    found += outcomes

    assert [entry.timing.clock_set_seconds for entry in found] == pytest.approx([0, seconds, 0], abs=0.05)


def test_the_clocks_of_this_host_agree() -> None:
    """Within a moment, this host was not suspended and its clock not set; the three clocks are the kernel's."""
    before = read_moment()
    time.sleep(0.01)
    after = read_moment()

    assert after.suspended_seconds(before) == pytest.approx(0, abs=0.005)
    assert after.wall_clock_change_seconds(before) == pytest.approx(0, abs=0.05)
    assert after.monotonic_ns - before.monotonic_ns >= 10_000_000
    assert after.wall_ns == pytest.approx(time.time_ns(), abs=10**9)


def fio_processes(evidence: Path) -> list[int]:
    """Return the fio processes that work for this folder."""
    found = []
    for owner in Path("/proc").iterdir():
        try:
            words = (owner / "cmdline").read_text().split("\0") if owner.name.isdigit() else [""]
        except OSError:
            continue
        if words[0].endswith("fio") and any(str(evidence) in name for name in opened_files(int(owner.name))):
            found.append(int(owner.name))
    return found


def test_a_missing_file_is_an_error_and_is_not_recreated(tmp_path: Path, evidence: Path) -> None:
    """If the target is missing when its stimulus starts, the host failed, and fio does not create it."""
    target = sparse(tmp_path / "x.img")
    laboratory = engine(target, evidence)
    list(laboratory.measure([stimulus()]))
    target.unlink()
    refusal = refused(laboratory, stimulus())

    assert refusal.blame == "host"
    assert "file creation disallowed" in refusal.reason
    assert not target.exists()


@pytest.mark.root
def test_a_full_disk_is_an_error(tmp_path: Path, evidence: Path) -> None:
    """If the disk beneath a loop device is full, the error is fio's, with its message."""
    with (
        mounted("none", tmp_path / "full", "-t", "tmpfs", "-o", "size=1M") as full,
        loop_device(full / "x.img", 16 * MIB) as device,
    ):
        refusal = refused(engine(device, evidence), stimulus(access="SEQ", block_size_bytes=65536, passes=1))

    assert "fio reports error" in refusal.reason
    assert f"io_u error on file {device}" in refusal.reason


@pytest.mark.root
def test_a_block_smaller_than_the_sector_is_the_hosts_mistake(tmp_path: Path, evidence: Path) -> None:
    """512 bytes on a 4Kn device: the request was wrong, and the device is not blamed."""
    with loop_device(tmp_path / "x.img", 16 * MIB, sector_bytes=4096) as device:
        refusal = refused(engine(device, evidence), stimulus(block_size_bytes=512, seconds=0.05))

    assert (refusal.blame, "Invalid argument" in refusal.reason) == ("host", True)


def test_a_hanging_fio_is_a_failure_of_the_device(
    tmp_path: Path, evidence: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fio that exceeds the time limit is ended, and the device is to blame."""
    monkeypatch.setattr(fio, "timeout_seconds", lambda *_: 0.4)
    refusal = refused(engine(sparse(tmp_path / "x.img"), evidence), stimulus(seconds=20.0))

    assert (refusal.blame, "no answer within" in refusal.reason) == ("device", True)
    assert fio_processes(evidence) == []


def test_ctrl_c_ends_fio(tmp_path: Path, evidence: Path) -> None:
    """An exception of the tick ends fio and is raised."""

    def tick(seconds: float, written: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(engine(sparse(tmp_path / "x.img"), evidence, tick=tick).measure([stimulus(seconds=20.0)]))

    assert fio_processes(evidence) == []


# -- fio itself -----------------------------------------------------------------------------------------------------


def test_the_preferred_engine_is_chosen(tmp_path: Path, evidence: Path) -> None:
    """The first engine that works is used, and the target is only read."""
    target = filled(tmp_path / "x.img")
    before = target.read_bytes()

    assert choose_io_engine(str(target), 512, evidence, ["libaio", "io_uring"], fio_version(evidence)) == "libaio"
    assert target.read_bytes() == before


def test_an_engine_that_does_not_work_is_skipped(tmp_path: Path, evidence: Path) -> None:
    """If the first engine fails, the next one is used (an unknown engine represents a blocked one)."""
    wanted: Any = ("no-such-engine", "libaio")

    assert choose_io_engine(str(filled(tmp_path / "x.img")), 512, evidence, wanted, fio_version(evidence)) == "libaio"
    assert (evidence / "00000-probe-no-such-engine.fio").exists()


def test_a_repeated_query_does_not_overwrite_evidence(evidence: Path) -> None:
    """Before a run is resumed, fio's version has its own evidence, with the number of the last measurement."""
    fio_version(evidence)
    first = (evidence / "00000-fio-version.process.json").read_bytes()
    (evidence / "00007-rnd-4096b-r0.json").write_text("{}")
    fio_version(evidence)

    assert (evidence / "00000-fio-version.process.json").read_bytes() == first
    assert (evidence / "00007-fio-version.process.json").exists()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("s/fio-[0-9.]*/fio-3.01/", r"expected an answer of fio-\S+, got one of fio-3\.01"),
        ('s/"iodepth" : "1"/"iodepth" : "2"/', "expected iodepth=1, got iodepth=2"),
        ('s/"jobname" : "rnd0"/"jobname" : "rnd1"/', "expected job rnd0, got rnd1"),
    ],
)
def test_another_fio_is_noticed_before_the_run(
    tmp_path: Path, evidence: Path, monkeypatch: pytest.MonkeyPatch, change: str, text: str
) -> None:
    """A program that answers as another version, or to another job, stops the run in its preparation."""
    alter_answers(monkeypatch, tmp_path / "fio", change)
    with pytest.raises(HostFailed, match=text):
        choose_io_engine(str(filled(tmp_path / "x.img")), 512, evidence, IO_ENGINES, fio_version(evidence))


def test_a_missing_engine_is_explained(tmp_path: Path, evidence: Path) -> None:
    """If no engine works, each is named with its reason, and nothing is created."""
    with pytest.raises(TargetUnfit) as unfit:
        choose_io_engine(str(tmp_path / "gone.img"), 512, evidence, IO_ENGINES, fio_version(evidence))

    assert "io_uring: fio " in str(unfit.value)
    assert "libaio: fio " in str(unfit.value)
    assert not (tmp_path / "gone.img").exists()


@pytest.mark.parametrize("text", ["fio-3.32", "fio-2.21", "something else"])
def test_an_old_fio_is_refused(tmp_path: Path, evidence: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """If fio is too old or missing, the message says which version was found and which is required."""
    old = tmp_path / "bin" / "fio"
    old.parent.mkdir()
    old.write_text(f"#!/bin/sh\necho {text}\n")
    old.chmod(0o755)
    replace_fio(monkeypatch, old)
    with pytest.raises(ToolMissing) as missing:
        engine(tmp_path / "x.img", evidence)

    assert f"fio 3.33 or newer is needed (found: {text})" in str(missing.value)


def test_an_answer_of_another_version_is_refused(tmp_path: Path, evidence: Path) -> None:
    """A package upgrade during a run may replace fio."""
    laboratory = engine(sparse(tmp_path / "x.img"), evidence)
    version, laboratory.version = laboratory.version, "3.01"
    with pytest.raises(fio.AnswerRejected, match=f"expected an answer of fio-3.01, got one of fio-{version}"):
        list(laboratory.measure([stimulus(seconds=0.2)]))


def test_the_version_is_known(tmp_path: Path, evidence: Path) -> None:
    """The engine reports the version of fio."""
    assert re.fullmatch(r"\d+\.\d+.*", engine(tmp_path / "x.img", evidence).version)


@pytest.mark.parametrize(
    ("depths", "permitted", "expected"),
    [
        ((1, 32), ("io_uring", "libaio"), ("io_uring", "libaio")),
        ((1, 6, 32), ("io_uring", "libaio"), ("libaio",)),
        ((6,), ("libaio",), ("libaio",)),
    ],
)
def test_an_engine_that_rounds_queue_depths_is_not_used(
    depths: tuple[int, ...], permitted: tuple[IoEngine, ...], expected: tuple[IoEngine, ...]
) -> None:
    """The queue depths of composite workload and demand intensity include 6, of which io_uring makes 8."""
    stimuli = [stimulus(queue_depth=depth) for depth in depths]

    assert exact_io_engines(permitted, stimuli) == expected


def test_a_requested_engine_that_rounds_queue_depths_is_refused() -> None:
    """A stimulus with an engine of its own is not considered."""
    own = stimulus(queue_depth=6, options=(("ioengine", "libaio"),))
    assert exact_io_engines(("io_uring",), [own]) == ("io_uring",)

    with pytest.raises(UsageError, match="rounds a queue depth of 6 up to a power of two"):
        exact_io_engines(("io_uring",), [stimulus(queue_depth=6)])


@pytest.mark.device
@pytest.mark.parametrize("depth", [6, 8])
def test_the_queue_depth_is_the_requested_one(evidence: Path, tmp_path: Path, depth: int) -> None:
    """By Little's law, with the engine that is chosen for it."""
    asked = stimulus(range_bytes=16 * MIB, thread_count=1, queue_depth=depth, seconds=0.5, read_percent=100)
    (io_engine, *_) = exact_io_engines(IO_ENGINES, [asked])
    engine = FioEngine(str(filled(tmp_path / "x.img", 16 * MIB)), evidence, seed=1, io_engine=io_engine)
    (measured,) = engine.measure([asked])
    outstanding = measured.ios * measured.average_response_us / 1000 / measured.runtime_ms

    assert 0.8 * depth < outstanding < 1.05 * depth
