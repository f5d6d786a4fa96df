"""The kernel's counters during a test: those of fake hosts to the digit, those of a loop device as in iostat."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.analysis.disturbances import was_disturbed
from snia_pts.lab.fio import AnswerRejected
from snia_pts.lab.fio.engine import FioEngine
from snia_pts.lab.fio.kernel_counters import require_counted
from snia_pts.lab.observation import telemetry
from snia_pts.lab.observation.interval_files import IntervalFiles
from snia_pts.lab.observation.telemetry import Observer, observe
from snia_pts.model.measurement import Measurement, Sample
from snia_pts.model.steps import ContinuousStimulus, Stimulus
from snia_pts.model.telemetry import IOSTAT_COLUMNS, BlockStatistics, TelemetrySample
from snia_pts.units import GB, MAX_QUANTITY, MB
from tests.drives import MIB, loop_device, make_ext4, mounted, need_program
from tests.hosts import FakeHost
from tests.strategies import block_statistics, transfers, vitals

STAT = "  {} 0 {} 100 {} 0 {} 300 {} {} {} 0 0 0 0 0 0\n"
CPU = "{} {} 0 {} {} {} 0 0 0 5 0\n"


class Clock:
    """A monotonic clock that only the test advances."""

    def __init__(self) -> None:
        self.now_ns = 10**12

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return a fake clock for telemetry."""
    found = Clock()
    monkeypatch.setattr("snia_pts.lab.observation.telemetry.time.monotonic_ns", found)
    return found


class Drive:
    """An NVMe drive in a fake host, with all files that telemetry reads."""

    def __init__(self, root: Path, *, glue: str = "") -> None:
        self.host = FakeHost(root)
        self.block = self.host.nvme()
        controller = self.block.parent
        self.sensor = self._made(controller / glue / "hwmon3", name="nvme\n", temp1_input="41850\n")
        slot = controller.parent.parent
        for kind in ("correctable", "nonfatal", "fatal"):
            (slot / f"aer_dev_{kind}").write_text(f"RxErr 0\nBadTLP 3\nTOTAL_ERR_{kind[:3].upper()} 3\n")
        self.errors = slot / "aer_dev_correctable"
        for cpu, core in ((0, 0), (1, 0), (2, 1)):
            self._made(
                root / f"sys/devices/system/cpu/cpu{cpu}/topology", physical_package_id="0\n", core_id=f"{core}\n"
            )
            self._made(
                root / f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle",
                core_throttle_count="5\n",
                package_throttle_count="7\n",
            )
        self.block_stat(0, 0, 0, 0, 0, 0, 0)
        self.cpus((0, 0), (0, 0))

    @staticmethod
    def _made(folder: Path, **files: str) -> Path:
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        return folder

    def block_stat(
        self, reads: int, read_sectors: int, writes: int, written: int, now: int, busy: int, queued: int
    ) -> None:
        """Write the kernel's block statistics."""
        (self.block / "stat").write_text(STAT.format(reads, read_sectors, writes, written, now, busy, queued))

    def cpus(self, *times: tuple[int, int]) -> None:
        """Set the busy and idle time of each CPU in hundredths of seconds; a fifth of the idle time waits for I/O."""
        lines = [
            CPU.format(f"cpu{number}", busy // 2, busy - busy // 2, idle - idle // 5, idle // 5)
            for number, (busy, idle) in enumerate(times)
        ]
        busy, idle = (sum(item) for item in zip(*times, strict=True))
        whole = CPU.format("cpu ", busy // 2, busy - busy // 2, idle - idle // 5, idle // 5)
        self.host.write("proc/stat", f"{whole}{''.join(lines)}intr 1 2 3\nctxt 5\n")

    def celsius(self, degrees: float) -> None:
        (self.sensor / "temp1_input").write_text(f"{round(1000 * degrees)}\n")


@pytest.fixture
def drive(tmp_path: Path) -> Drive:
    """Return an NVMe drive in a fake host."""
    return Drive(tmp_path)


def observed(drive: Drive) -> Observer:
    return Observer(drive.block.resolve(), drive.host.root)


# -- what lies between two readings -----------------------------------------------------------------------------------


def test_block_statistics_are_those_of_iostat(drive: Drive, clock: Clock) -> None:
    """Requests and bytes are differences; queue and busy time are the kernel's milliseconds divided by the interval."""
    drive.block_stat(100, 800, 10, 160, 0, 5000, 90_000)
    observer = observed(drive)
    observer.start()
    clock.now_ns += 2 * 10**9
    drive.block_stat(1100, 8800, 210, 32_160, 3, 6900, 150_000)
    found = observer.lap().block

    assert found is not None
    assert (found.read_ios, found.write_ios) == (1000, 200)
    assert (found.read_bytes, found.write_bytes) == (8000 * 512, 32_000 * 512)
    assert (found.queue, found.busy_percent) == (30.0, 95.0)


def test_the_columns_of_iostat_are_those_of_sysstat(drive: Drive, clock: Clock) -> None:
    """Computed by hand from two lines of /sys/block/*/stat, two seconds apart."""
    (drive.block / "stat").write_text("100 10 800 50 10 5 160 7 0 5000 90000 0 0 0 0 0 0\n")
    observer = observed(drive)
    observer.start()
    clock.now_ns += 2 * 10**9
    (drive.block / "stat").write_text("1100 50 8800 550 210 105 32160 107 3 6900 150000 0 0 0 0 0 0\n")
    found = observer.lap().block

    assert found is not None
    assert found.device == "nvme0n1"
    assert found.iostat(2.0) == {
        "r/s": 500.0,  # 1000 reads in 2 s
        "w/s": 100.0,
        "rkB/s": 2000.0,  # 8000 sectors of 512 bytes
        "wkB/s": 8000.0,
        "rrqm/s": 20.0,
        "wrqm/s": 50.0,
        "r_await": 0.5,  # 500 ms of 1000 reads
        "w_await": 0.5,  # 100 ms of 200 writes
        "aqu-sz": 30.0,  # 60000 ms in 2000 ms
        "%util": 95.0,
    }


@pytest.mark.parametrize(
    ("changes", "seconds", "missing"),
    [
        ({"write_ms": 10}, 1.0, {"r_await"}),
        ({"write_ms": 9}, 1.0, {"r_await", "w_await"}),
        ({"write_ms": 500, "queue": 0.009, "busy_percent": 0.9}, 1.0, {"r_await", "aqu-sz", "%util"}),
        ({"write_ms": 500}, 0.099, set(IOSTAT_COLUMNS)),
        ({"write_ios": 0, "write_bytes": 0, "queue": 0.0, "busy_percent": 0.0}, 1.0, {"r_await", "w_await"}),
    ],
)
def test_times_below_the_resolution_of_the_kernel_are_not_given(
    changes: dict[str, Any], seconds: float, missing: set[str]
) -> None:
    """It counts whole milliseconds; an interval without I/Os has no times, but a queue of 0."""
    found = block_statistics(**changes).iostat(seconds)

    assert {name for name, value in found.items() if math.isnan(value)} == missing


def test_milliseconds_continue_after_an_overflow(drive: Drive, clock: Clock) -> None:
    """The kernel's counts of ms have 32 bits: with 512 I/Os in flight they overflow after two hours."""
    drive.block_stat(1, 8, 0, 0, 0, 2**32 - 500, 2**32 - 100_000)
    observer = observed(drive)
    observer.start()
    for _ in range(3):  # with ticks between, a total of any length is right
        clock.now_ns += 10**9
        drive.block_stat(2, 16, 0, 0, 0, 500, 2**32 - 50_000)
        observer.tick()
        clock.now_ns += 10**9
        drive.block_stat(3, 24, 0, 0, 0, 2**32 - 500, 2**32 - 100_000)
        observer.tick()
    found = observer.finish().block

    assert found is not None
    assert found.queue == pytest.approx(3 * 2**32 / 1000 / 6)


def test_all_cpus_and_the_busiest(drive: Drive, clock: Clock) -> None:
    """Waiting for I/O is not busy; one busy CPU of two is 50 % of all, and 100 % of itself."""
    drive.cpus((1000, 1000), (0, 5000))
    observer = observed(drive)
    observer.start()
    drive.cpus((1200, 1000), (0, 5200))
    found = observer.lap()

    assert (found.cpu_percent, found.busiest_cpu_percent, found.stolen_percent) == (50.0, 100.0, 0.0)


def test_steal_time_is_reported_for_all_cpus(drive: Drive, clock: Clock) -> None:
    """The eighth column is the kernel's steal: a tenth of the time of two CPUs; it counts as busy, too."""
    drive.host.write("proc/stat", "cpu  0 0 0 50 0 0 0 50 0 0\ncpu0 0 0 0 50 0 0 0 50 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\n")
    observer = observed(drive)
    observer.start()
    drive.host.write(
        "proc/stat", "cpu  30 0 10 190 0 0 0 70 0 0\ncpu0 30 0 10 90 0 0 0 70 0 0\ncpu1 0 0 0 100 0 0 0 0 0 0\n"
    )
    found = observer.lap()

    assert (found.stolen_percent, found.cpu_percent, found.busiest_cpu_percent) == (10.0, 30.0, 60.0)


def test_laps_are_consecutive_and_add_up_to_the_total(drive: Drive, clock: Clock) -> None:
    """The time between two laps counts once; the total starts where the first lap does."""
    drive.block_stat(1, 1, 1, 1, 0, 1, 1)
    observer = observed(drive)
    observer.start()
    laps = []
    for number in (1, 2, 3):
        clock.now_ns += number * 10**9
        drive.block_stat(1, 1, 1 + 10 * number, 1 + 80 * number, 0, 1, 1)
        laps.append(observer.lap())
    whole = observer.finish()

    assert [lap.seconds for lap in laps] == [1.0, 2.0, 3.0]
    assert [lap.block.write_ios for lap in laps if lap.block] == [10, 10, 10]
    assert (whole.seconds, whole.block and whole.block.write_ios) == (6.0, 30)


def test_throttling_of_the_cpu_and_errors_of_the_link_are_counted(drive: Drive, clock: Clock) -> None:
    """A core counts once for all its CPUs, a package once; errors are those of the drive's own function."""
    observer = observed(drive)
    observer.start()
    root = drive.host.root / "sys/devices/system/cpu"
    for cpu in (0, 1):  # one core
        (root / f"cpu{cpu}/thermal_throttle/core_throttle_count").write_text("9\n")
    for cpu in (0, 1, 2):  # one package
        (root / f"cpu{cpu}/thermal_throttle/package_throttle_count").write_text("8\n")
    drive.errors.write_text("RxErr 2\nBadTLP 3\nTOTAL_ERR_COR 5\n")
    found = observer.lap()

    assert (found.throttlings, found.link_errors) == (4 + 1, 2)


@pytest.mark.parametrize("glue", ["", "hwmon"])
def test_a_lap_has_the_highest_temperature_between_two_readings(tmp_path: Path, clock: Clock, glue: str) -> None:
    """The drive is read now and then; a lap has the highest reading, or the last known; with old and new paths."""
    drive = Drive(tmp_path, glue=glue)
    observer = observed(drive)
    observer.start()
    found = []
    for degrees in ((40.0, 44.0), (42.0, 41.0), ()):
        for degree in degrees:
            drive.celsius(degree)
            clock.now_ns += 10 * 10**9
            observer.tick()
        found.append(observer.lap().celsius)

    assert found == [44.0, 44.0, 41.0]  # at the start of the second lap it had 44 degrees
    assert observer.finish().celsius == 44.0


def test_a_drive_is_not_read_too_often(drive: Drive, clock: Clock) -> None:
    """Ticks come every second, readings every ten seconds."""
    observer = observed(drive)
    observer.start()
    seen = []
    for second in range(25):
        drive.celsius(30 + second)
        observer.tick()
        clock.now_ns += 10**9
        seen.append(observer.lap().celsius)

    assert set(seen) == {30.0, 40.0, 50.0}


def test_an_old_temperature_is_unknown(drive: Drive, clock: Clock) -> None:
    """After a long idle time the drive's temperature is unknown until the next reading."""
    observer = observed(drive)
    observer.start()
    observer.tick()
    clock.now_ns += 3600 * 10**9
    observer.start()

    assert observer.lap().celsius is None
    observer.tick()
    assert observer.lap().celsius == pytest.approx(41.85)


def test_values_that_the_kernel_does_not_report_are_none(tmp_path: Path) -> None:
    """A host without any of them gives no number that was not measured."""
    host = FakeHost(tmp_path)
    found = Observer(host.disk(), tmp_path)
    found.start()
    found.tick()
    reading = found.lap()

    assert reading == TelemetrySample(
        seconds=reading.seconds,
        cpu_percent=None,
        busiest_cpu_percent=None,
        block=None,
        celsius=None,
        throttlings=None,
        link_errors=None,
        stolen_percent=None,
    )


def test_a_device_without_io_accounting_has_no_statistics(drive: Drive, clock: Clock) -> None:
    """With accounting off, or with zeros after I/O (old multipath NVMe), 0 is not a measurement."""
    (drive.block / "stat").write_text("       0" * 17 + "\n")
    observer = observed(drive)
    observer.start()
    clock.now_ns += 10**9
    assert observer.lap().block is None

    drive.host.write(str((drive.block / "queue/iostats").relative_to(drive.host.root)), "0\n")
    drive.block_stat(5, 5, 5, 5, 0, 5, 5)
    silent = observed(drive)
    silent.start()
    clock.now_ns += 10**9
    assert silent.lap().block is None


def test_a_drive_that_disappeared_is_not_an_error(drive: Drive) -> None:
    """Files that cannot be read any more count as empty: other code reports what happened to the drive."""
    observer = observed(drive)
    observer.start()
    os.truncate(drive.block / "stat", 0)
    os.truncate(drive.sensor / "temp1_input", 0)
    os.truncate(drive.host.root / "proc/stat", 0)
    observer.tick()
    reading = observer.lap()

    assert (reading.block, reading.celsius, reading.cpu_percent) == (None, None, None)


def test_discards_are_counted(tmp_path: Path) -> None:
    """Their sectors are in a separate column, which kernels before 4.18 do not have."""
    statistics = tmp_path / "stat"
    for columns, discarded in (("1 0 8 1 1 0 8 1 0 1 1", 0), ("1 0 8 1 1 0 8 1 0 1 1 1 0 2048 1 0 0", 2048)):
        statistics.write_text(columns)
        before, after = (0,) * 11, telemetry._Statistics(statistics).read()
        block = telemetry._block("sda", before, after, 1.0)
        assert block is not None
        assert block.discarded_bytes == 512 * discarded


@given(st.binary(max_size=200), st.binary(max_size=200), st.binary(max_size=60))
def test_any_value_of_the_kernel_can_be_stored(stat: bytes, cpus: bytes, sensor: bytes) -> None:
    """No content of any of the files is an error, and no number exceeds what a journal accepts."""
    before = telemetry._Reading(
        taken_ns=0,
        cpus=telemetry.cpu_times(b"cpu 1 2 3 4 5 6 7 8 9\n"),
        block=(0,) * 11,
        throttlings=0,
        link_errors=0,
        energy_uj=0,
    )
    after = telemetry._Reading(
        taken_ns=1,
        cpus=telemetry.cpu_times(b"cpu  " + cpus),
        block=telemetry._numbers(stat + b" 1" * 11)[:11],
        throttlings=telemetry._single_number(stat),
        link_errors=telemetry._total_errors(b"TOTAL_ERR_COR " + stat),
        energy_uj=telemetry._single_number(stat),
    )
    reading = Observer(Path("/sys/block/missing"))._difference(before, after, telemetry._celsius(sensor))

    queue = reading.block.queue if reading.block else None
    counts = (reading.throttlings, reading.link_errors, reading.host_watts)
    for value in (reading.cpu_percent, reading.stolen_percent, *counts, queue):
        assert value is None or 0 <= value <= MAX_QUANTITY
    for value in reading.block.iostat(reading.seconds).values() if reading.block else ():
        assert math.isnan(value) or value >= 0


# -- real kernels -----------------------------------------------------------------------------------------------------


def stimulus(**changes: Any) -> Stimulus:
    facts: dict[str, Any] = {
        "access": "RND",
        "read_percent": 30,
        "block_size_bytes": 8192,
        "thread_count": 2,
        "queue_depth": 4,
        "range_offset_bytes": 0,
        "range_bytes": 16 * MIB,
        "seconds": 0.3,
    }
    return Stimulus(**{**facts, **changes})


def engine(target: Path, evidence: Path, **how: Any) -> FioEngine:
    evidence.mkdir(exist_ok=True)
    return FioEngine(str(target), evidence, seed=1, io_engine="libaio", **how)


def diskstats(device: Path) -> dict[str, int]:
    """Return the fields of /proc/diskstats by their documented names."""
    names = (
        "reads",
        "reads_merged",
        "sectors_read",
        "ms_reading",
        "writes",
        "writes_merged",
        "sectors_written",
        "ms_writing",
        "in_progress",
        "ms_io",
        "weighted_ms_io",
    )
    for line in Path("/proc/diskstats").read_text().splitlines():
        _, _, name, *numbers = line.split()
        if name == device.name:
            return dict(zip(names, map(int, numbers), strict=False))
    raise AssertionError(device)


@pytest.mark.device  # a test that lists all devices reads this one, too
def test_over_a_point_the_numbers_are_those_of_diskstats_and_of_fio(tmp_path: Path) -> None:
    """Reads, writes and bytes equal fio's exactly, and those of /proc/diskstats; so do queue and busy time."""
    with loop_device(tmp_path / "x.img", 16 * MIB) as device:
        laboratory = engine(device, tmp_path / "e")
        before = diskstats(device)
        (point,) = laboratory.measure([stimulus()])
        after = diskstats(device)
    grown = {name: after[name] - before[name] for name in before}
    vitals, block = point.telemetry, point.telemetry and point.telemetry.block

    assert vitals
    assert block
    assert (block.read_ios, block.write_ios) == (point.read.ios, point.write.ios) == (grown["reads"], grown["writes"])
    assert block.read_bytes == point.read.transferred_bytes == 512 * grown["sectors_read"]
    assert block.write_bytes == point.write.transferred_bytes == 512 * grown["sectors_written"]
    assert block.queue == pytest.approx(grown["weighted_ms_io"] / 1000 / vitals.seconds, abs=1e-6)
    assert block.busy_percent == pytest.approx(min(100, grown["ms_io"] / 10 / vitals.seconds), abs=1e-6)
    assert vitals.seconds > 0.3
    assert point.host_cpu_percent == vitals.cpu_percent
    assert vitals.cpu_percent is not None
    assert vitals.busiest_cpu_percent is not None
    assert 0 < vitals.cpu_percent < vitals.busiest_cpu_percent + 1 <= 101  # the kernel counts totals and parts in ticks


@pytest.mark.long
def test_reads_of_another_program_while_the_drive_is_idle_are_counted(tmp_path: Path) -> None:
    """The first reading is that of a purge; without one, the time before a point is unknown."""

    def read_all() -> None:
        command = ["dd", f"if={device}", "of=/dev/null", "bs=1M", "iflag=direct", "status=none"]
        subprocess.run(command, check=True, timeout=60)

    with loop_device(tmp_path / "x.img", 16 * MIB) as device:
        laboratory = engine(device, tmp_path / "e")
        (unknown,) = laboratory.measure([stimulus(seconds=0.1)])
        laboratory.count_idle_io()
        read_all()
        purged, quiet = laboratory.measure([stimulus(seconds=0.1)] * 2)
        read_all()
        laboratory.idle(0.2)
        continuous = ContinuousStimulus(phase="stimulus", stimulus=stimulus(seconds=0.2), sample_seconds=0.1)
        *_, after_idle = laboratory.measure_continuous(continuous)
        read_all()
        (after_samples,) = laboratory.measure([stimulus(seconds=0.1)])

    assert (unknown.timing.idle_ios, unknown.timing.idle_bytes) == (None, None)
    assert not was_disturbed(quiet.timing)
    for found in (purged, after_idle, after_samples):
        assert isinstance(found, Measurement)
        assert was_disturbed(found.timing)
        assert found.timing.idle_bytes == pytest.approx(16 * MIB, abs=MIB)


def test_io_that_did_not_reach_the_device_is_refused(tmp_path: Path) -> None:
    """If the kernel counted less on the observed device than fio reports, fio worked elsewhere."""
    with loop_device(tmp_path / "x.img", 16 * MIB) as device, loop_device(tmp_path / "y.img", 16 * MIB) as other:
        list(engine(other, tmp_path / "e").measure([stimulus(seconds=0.1)]))  # its counters are no longer 0
        request = stimulus(seconds=0.3, block_size_bytes=MIB, access="SEQ")
        with pytest.raises(AnswerRejected) as refused:
            list(engine(device, tmp_path / "f", observer=observe(str(other))).measure([request]))
        sampled = ContinuousStimulus(phase="stimulus", stimulus=request, sample_seconds=0.1)
        with pytest.raises(AnswerRejected, match="but the kernel counted"):
            list(engine(device, tmp_path / "g", observer=observe(str(other))).measure_continuous(sampled))

    assert refused.value.blame == "host"
    assert re.search(rf"fio reports .*, but the kernel counted .* on {device}$", refused.value.reason)


@pytest.mark.parametrize(
    ("reported", "counted", "accepted"),
    [
        (10**9, 10**9, True),
        (10**9, 980_000_000, True),
        (10**9, 979_999_999, False),
        (10**7, 2_000_000, True),  # less than 8 MB is missing
        (10**7, 1_999_999, False),
        (10**7, 10**9, True),  # a ramp, or another program
    ],
)
def test_the_kernel_may_count_a_little_less(reported: int, counted: int, *, accepted: bool) -> None:
    """2 % or 8 MB less is accepted, as other I/O may add; never with the page cache, whose I/O comes at other times."""
    block = block_statistics(read_bytes=0, write_bytes=counted, queue=0.0)
    nothing, written = transfers(ios=0, transferred_bytes=0), transfers(ios=1, transferred_bytes=reported)
    for request, valid in ((stimulus(), accepted), (stimulus(options=(("direct", "0"),)), True)):
        with nullcontext() if valid else pytest.raises(AnswerRejected, match=r"the kernel counted .* on /dev/x"):
            require_counted(request, nothing, written, vitals(block=block), "/dev/x")


@pytest.mark.parametrize(
    ("changes", "counted_ios", "accepted"),
    [
        ({}, 90_000, True),
        ({}, 89_999, False),
        ({"access": "SEQ"}, 2_000, True),  # the block layer merges neighbours
        ({"range_bytes": 64 * 4096}, 2_000, True),
    ],
)
def test_the_kernel_counts_direction_and_size(changes: dict[str, Any], counted_ios: int, *, accepted: bool) -> None:
    """Other bytes in the same direction, or the same bytes in larger blocks or in the other direction, are refused."""
    request = stimulus(**({"range_bytes": GB, "block_size_bytes": 4096, "thread_count": 1, "queue_depth": 4} | changes))
    nothing, written = transfers(ios=0, transferred_bytes=0), transfers(ios=100_000, transferred_bytes=409_600_000)
    block = block_statistics(read_bytes=0, read_ios=0, write_bytes=409_600_000, write_ios=counted_ios, queue=0.0)
    with nullcontext() if accepted else pytest.raises(AnswerRejected, match="100000 I/Os written, but the kernel"):
        require_counted(request, nothing, written, vitals(block=block), "/dev/x")
    with pytest.raises(AnswerRejected, match=r"fio reports 409\.6 MB .* read, but the kernel counted 0 bytes"):
        require_counted(request, written, nothing, vitals(block=block), "/dev/x")


@pytest.mark.parametrize(
    ("changes", "counts", "mean_us", "accepted"),
    [
        ({}, {}, 100.0, True),
        ({}, {}, 51.0, True),
        ({}, {}, 35.0, False),  # 0.04 s is the resolution of the kernel's milliseconds
        ({"ramp_seconds": 1.0}, {}, 10.0, True),  # the kernel also counts the ramp
        ({"options": (("direct", "0"),)}, {}, 10.0, True),  # the page cache answers earlier than the drive
        ({}, {"read_ios": 9000}, 10.0, True),  # another program's I/Os also have times
        ({}, {"discarded_bytes": 4096}, 10.0, True),  # and discards
    ],
)
def test_response_times_include_those_of_the_kernel(
    changes: dict[str, Any], counts: dict[str, Any], mean_us: float, *, accepted: bool
) -> None:
    """10 000 I/Os of 100 us in the block layer cannot take 10 us in fio; fio's check alone accepts times / 10."""
    request = stimulus(**({"thread_count": 1, "queue_depth": 4} | changes))
    nothing = transfers(ios=0, transferred_bytes=0)
    written = transfers(ios=10_000, transferred_bytes=40_960_000, response_mean_ns=1000 * mean_us)
    block = block_statistics(**({"write_ios": 10_000, "write_bytes": 40_960_000, "queue": 1.0} | counts))
    with nullcontext() if accepted else pytest.raises(AnswerRejected, match="but the kernel counted 1 s for the same"):
        require_counted(request, nothing, written, vitals(block=block, seconds=1.0), "/dev/x")


def test_partial_counters_are_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the kernel may count only a part of a device's I/O, an answer is accepted without its counters."""
    monkeypatch.setattr(Observer, "counts_every_byte", False)
    with loop_device(tmp_path / "x.img", 16 * MIB) as device, loop_device(tmp_path / "y.img", 16 * MIB) as other:
        list(engine(other, tmp_path / "e").measure([stimulus(seconds=0.1)]))  # its counters are no longer 0
        request = stimulus(seconds=0.3, block_size_bytes=MIB, access="SEQ")
        (point,) = engine(device, tmp_path / "f", observer=observe(str(other))).measure([request])
    assert point.write.transferred_bytes > 8 * MB


def test_only_a_device_with_request_queues_counts_every_byte(drive: Drive, tmp_path: Path) -> None:
    """Some kernels count only a part of the I/O of stacked devices; a file has no counters."""
    (drive.block / "queue").mkdir(exist_ok=True)
    (drive.block / "queue/iostats").write_text("1\n")
    assert not observed(drive).counts_every_byte
    (drive.block / "mq").mkdir()
    assert observed(drive).counts_every_byte
    (drive.block / "queue/iostats").write_text("0\n")
    assert not observed(drive).counts_every_byte
    assert not observe(str(tmp_path), tmp_path).counts_every_byte


def test_iostat_reports_the_same(tmp_path: Path) -> None:
    """iostat -x over an interval around a point has as many I/Os, bytes, and I/Os in flight (aqu-sz)."""
    need_program("iostat", "sysstat")
    with loop_device(tmp_path / "x.img", 16 * MIB) as device:
        laboratory = engine(device, tmp_path / "e")
        argv = ["iostat", "-x", "-k", "-o", "JSON", "-y", device.name, "2", "1"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, env={**os.environ, "LC_ALL": "C"}) as beside:
            time.sleep(0.3)
            (point,) = laboratory.measure([stimulus(seconds=0.5)])
            output, _ = beside.communicate()
    (document,) = json.loads(output)["sysstat"]["hosts"][0]["statistics"][0]["disk"]
    block, seconds = point.telemetry and point.telemetry.block, point.telemetry and point.telemetry.seconds

    assert block
    assert seconds
    assert (2 * document["r/s"], 2 * document["w/s"]) == pytest.approx((block.read_ios, block.write_ios), rel=0.02)
    assert (2048 * document["rkB/s"], 2048 * document["wkB/s"]) == pytest.approx(
        (block.read_bytes, block.write_bytes), rel=0.02
    )
    assert 2 * document["aqu-sz"] == pytest.approx(block.queue * seconds, rel=0.05, abs=0.05)
    assert (2 * document["rrqm/s"], 2 * document["wrqm/s"]) == (block.read_merges, block.write_merges)
    for column, ms in (("r_await", block.read_ms), ("w_await", block.write_ms)):
        ours = block.iostat(seconds)[column]
        assert math.isnan(ours) if ms < 10 else document[column] == pytest.approx(ours, rel=0.05, abs=0.005)


def intervals_of(evidence: Path, point: Measurement) -> list[dict[str, str]]:
    """Return the lines of a point's file of intervals."""
    with (evidence / f"{point.evidence}.iostat.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_interval_of_a_point_is_listed_without_samples_and_with_a_ramp(tmp_path: Path) -> None:
    """One line a second; together they have as many I/Os as the block layer counted for the point with its ramp."""
    with loop_device(tmp_path / "x.img", 16 * MIB) as device:
        (point,) = engine(device, tmp_path / "e").measure([stimulus(seconds=1.6, ramp_seconds=1.0)])
    lines = intervals_of(tmp_path / "e", point)
    block = point.telemetry and point.telemetry.block

    assert block
    assert len(lines) >= 3
    assert {line["device"] for line in lines} == {device.name}
    parts = [line["part"] for line in lines]
    assert parts == sorted(parts, reverse=True)
    assert set(parts) == {"ramp", "measured"}
    for column, count in (("r/s", block.read_ios), ("w/s", block.write_ios)):
        rated = [line for line in lines if line[column] != "n/a"]
        missing = sum(float(line["seconds"]) for line in lines if line[column] == "n/a")
        listed = sum(float(line[column]) * float(line["seconds"]) for line in rated)
        assert missing < 0.1
        assert listed == pytest.approx(count, rel=0.01) if not missing else listed <= 1.01 * count


def test_samples_of_a_continuous_stimulus_add_up_to_the_total(tmp_path: Path) -> None:
    """Each sample has the block layer's work since the one before; together they are all that fio did."""
    with loop_device(tmp_path / "x.img", 16 * MIB) as device:
        laboratory = engine(device, tmp_path / "e")
        request = ContinuousStimulus(phase="stimulus", stimulus=stimulus(seconds=1.0), sample_seconds=0.25)
        outcomes = list(laboratory.measure_continuous(request))
    whole = outcomes[-1]
    assert isinstance(whole, Measurement)
    assert whole.telemetry
    assert whole.telemetry.block
    parts = [outcome.telemetry.block for outcome in outcomes if isinstance(outcome, Sample) and outcome.telemetry]

    assert len(parts) == len(outcomes) - 1 > 2
    assert sum(part.write_ios for part in parts if part) == whole.write.ios == whole.telemetry.block.write_ios
    assert sum(item.read_bytes for item in parts if item) == whole.read.transferred_bytes


def test_a_file_has_the_statistics_of_the_device_below_its_file_system(tmp_path: Path) -> None:
    """No one knows which I/Os of that device are those of the file: they are not the target's own."""
    with ExitStack() as stack:
        device = stack.enter_context(loop_device(tmp_path / "disk.img", 64 * MIB))
        make_ext4(device)
        folder = stack.enter_context(mounted(device, tmp_path / "mnt"))
        target = folder / "x.img"
        target.write_bytes(bytes(16 * MIB))
        os.sync()
        (point,) = engine(target, tmp_path / "e").measure([stimulus(seconds=1.2, read_percent=0)])
    found = point.telemetry

    assert found
    assert found.block is None
    assert found.underlying
    assert found.underlying.device == device.name
    assert found.underlying.write_bytes >= point.write.transferred_bytes > 0
    lines = intervals_of(tmp_path / "e", point)
    assert {line["device"] for line in lines} == {device.name}
    assert sum(float(line["w/s"]) > 0 for line in lines if line["w/s"] != "n/a")
    assert point.host_cpu_percent is not None


def test_the_device_below_a_file_system_is_the_whole_disk(tmp_path: Path) -> None:
    """As iostat is used: a partition shows only a part of the drive's I/O.  Several devices have no view."""
    host = FakeHost(tmp_path)
    block = host.nvme()
    part = block / f"{block.name}p1"
    part.mkdir()
    (part / "partition").write_text("1\n")
    mounts = "30 1 259:7 / /mnt rw - ext4 /dev/nvme0n1p1 rw\n31 1 0:44 / /run rw - tmpfs tmpfs rw\n"
    host.write("proc/self/mountinfo", mounts)
    numbers = tmp_path / "sys/dev/block"
    numbers.mkdir(parents=True, exist_ok=True)
    (numbers / "259:7").symlink_to(part)

    assert telemetry.underlying_device(Path("/mnt/x"), tmp_path) == block.resolve()
    assert telemetry.underlying_device(Path("/run/x"), tmp_path) is None
    assert telemetry.underlying_device(Path("/elsewhere/x"), tmp_path) is None


class Silent(Observer):
    """Count the readings."""

    calls = 0

    def start(self, intervals: IntervalFiles | None = None, seconds: float = math.inf) -> BlockStatistics | None:
        self.calls += 1
        return super().start(intervals, seconds)

    def tick(self) -> None:
        self.calls += 1
        super().tick()

    def _read(self) -> telemetry._Reading:
        self.calls += 1
        return super()._read()


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """Record the files of the kernel that this process opens from now on."""
    names: list[str] = []
    listening = True

    def hear(event: str, details: tuple[Any, ...]) -> None:
        if listening and event == "open" and str(details[0]).startswith(("/sys", "/proc", "/dev")):
            names.append(str(details[0]))

    sys.addaudithook(hear)
    yield names
    listening = False


def test_an_idle_drive_is_left_alone(tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """While the test leaves the drive idle, no file is opened or read, and the drive gets no command."""
    target = tmp_path / "x.img"
    target.write_bytes(bytes(MIB))
    watching, woke = Silent(None), list[float]()
    list(engine(target, tmp_path / "e", observer=watching).measure([stimulus(seconds=0.1, range_bytes=MIB)]))
    assert watching.calls > 2
    laboratory = engine(target, tmp_path / "f", observer=watching, tick=lambda seconds, _: woke.append(seconds))
    before, reads = watching.calls, list[int]()

    def read(*request: int) -> bytes:
        reads.append(request[0])
        return b""

    monkeypatch.setattr("snia_pts.lab.observation.telemetry.os.pread", read)
    opened.clear()
    laboratory.idle(1.55)

    assert woke
    assert (watching.calls - before, reads, opened) == (0, [], [])


def test_the_temperature_is_read_during_io_only(drive: Drive, clock: Clock) -> None:
    """Start and end of a point send no command to the drive: only a tick does, while fio does I/O."""
    observer = observed(drive)
    observer.start()
    observer.lap()
    observer.start()

    assert observer.finish().celsius is None
    observer.tick()
    assert observer.finish().celsius == pytest.approx(41.85)


def test_a_missing_target_has_no_telemetry(tmp_path: Path) -> None:
    """Only the host is observed then."""
    assert observe("/nonexistent", tmp_path).finish().block is None
