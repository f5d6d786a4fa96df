"""Read the kernel's counters around a measurement: the drive's I/O and temperature, and how busy the host is.

No extra thread is needed, and an extra program only for a power meter: the suite takes the readings when it wakes, at
every outcome and about once a second.  Files are opened once and kept open for repeated reads.  Nothing is read while
the test leaves the drive idle.

The numbers read at an outcome are counters of the kernel.  For the temperature, however, the kernel has to query the
drive, so it is read only while the drive does I/O, and at longer intervals.
"""

from __future__ import annotations

import math
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import add, itemgetter, sub
from pathlib import Path
from typing import NamedTuple

from ...model.telemetry import BlockStatistics, TelemetrySample
from ...units import MAX_QUANTITY
from ..device.identity import ROOT, attribute, block_directory
from ..device.mounts import mount_of
from ..device.storage import devices_of_mount
from .interval_files import IntervalFiles
from .power import PowerMeter, PowerObserver
from .process_io import ProcessObserver

_SECTOR_BYTES = 512
#: The space for one CPU's line of /proc/stat.
_CPU_LINE_BYTES = 160
#: In a CPU's line of /proc/stat: the number of columns to add up (later columns are guest time, which user and nice
#: already include), and the indices of idle, iowait and steal.
_CPU_COLUMNS, _IDLE, _IOWAIT, _STEAL = 8, 3, 4, 7
#: The interval of temperature readings.  A reading costs an NVMe drive an admin command; a SATA drive first completes
#: all queued I/Os.
_TEMPERATURE_SECONDS = {"nvme": 10.0, "drivetemp": 60.0}
#: A drive is hot from this many degrees below its warning temperature on.
_HOT_MARGIN_CELSIUS = 3.0
_MIN_CELSIUS, _MAX_CELSIUS = -100.0, 300.0
_PCI_FUNCTION = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ERRORS = ("aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal")
#: From /sys/block/*/stat: I/Os, merges and sectors read and written.
_COLUMNS, _MIN_COLUMNS = itemgetter(0, 1, 2, 4, 5, 6), 11
#: Time columns in ms: total time of reads, total time of writes, time with I/O in flight, total time of all I/Os.
_TIMES = itemgetter(3, 7, 9, 10)
#: The column of sectors discarded, since Linux 4.18.
_DISCARDED = 13
#: The kernel's millisecond counters wrap to 0 at this value: with 512 I/Os in flight, after two hours.
_WRAP_MS = 1 << 32
#: Shorter intervals give no watts: the energy counters are updated only about every millisecond.
_MIN_POWER_SECONDS = 0.1


class CpuTimes(NamedTuple):
    """The times of a CPU since boot, in the kernel's units; ``busy`` includes the time stolen by a hypervisor."""

    busy: int
    total: int
    stolen: int


#: Used for a CPU that the kernel does not report.
ZERO_CPU_TIMES = CpuTimes(0, 0, 0)


class CounterFile:
    """A /proc or /sys file kept open for repeated reads."""

    def __init__(self, path: Path, max_bytes: int = 4096) -> None:
        self._max_bytes = max_bytes
        self._descriptor = -1
        with suppress(OSError):
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def read(self) -> bytes:
        """Return the current content; b"" if the file or the drive does not exist."""
        if self._descriptor >= 0:
            with suppress(OSError):
                return os.pread(self._descriptor, self._max_bytes, 0)
        return b""


class _Statistics:
    """The statistics of a block device; corrects for the wrap of its millisecond counters."""

    def __init__(self, path: Path) -> None:
        self._file = CounterFile(path)
        self._previous = (0, 0, 0, 0)
        self._wrapped_ms = [0, 0, 0, 0]

    def read(self) -> tuple[int, ...]:
        """Return the ``_COLUMNS`` since boot, ``_DISCARDED``, and the ``_TIMES``.

        () if the file does not exist or has fewer columns.
        """
        numbers = _numbers(self._file.read())
        if len(numbers) < _MIN_COLUMNS:
            return ()
        times = _TIMES(numbers)
        for index, (current, previous) in enumerate(zip(times, self._previous, strict=True)):
            if current < previous:
                self._wrapped_ms[index] += _WRAP_MS
        self._previous = times
        discarded = numbers[_DISCARDED] if len(numbers) > _DISCARDED else 0
        return (*_COLUMNS(numbers), discarded, *map(add, times, self._wrapped_ms))


class _PackageEnergy:
    """The energy of all CPU packages (RAPL); corrects for the wrap of each counter.

    The zone ``psys`` and the subzones of a package are left out: their energy would count twice.  Only root may read
    the counters.
    """

    def __init__(self, root: Path) -> None:
        zones = [
            zone
            for zone in sorted((root / "sys/class/powercap").glob("intel-rapl:[0-9]*"))
            if attribute(zone / "name").startswith("package")
        ]
        self._files = [CounterFile(zone / "energy_uj", 64) for zone in zones]
        self._wraps_uj = [_single_number(attribute(zone / "max_energy_range_uj").encode()) for zone in zones]
        self._previous = [0] * len(zones)
        self._wrapped_uj = 0

    def read(self) -> int | None:
        """Return the microjoules of all packages since their counters started; None unless all can be read."""
        current = [_single_number(file.read()) for file in self._files]
        if not current or None in current or None in self._wraps_uj:
            return None
        counters = [counter for counter in current if counter is not None]
        for counter, previous, wrap_uj in zip(counters, self._previous, self._wraps_uj, strict=True):
            if counter < previous:
                self._wrapped_uj += wrap_uj or 0
        self._previous = counters
        return sum(counters) + self._wrapped_uj


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The counters at one moment; ``cpus`` are the times of each CPU, and of all CPUs together (key ``cpu``)."""

    taken_ns: int
    cpus: Mapping[bytes, CpuTimes]
    block: tuple[int, ...]
    throttlings: int | None
    link_errors: int | None
    energy_uj: int | None


class Observer:
    """Take readings, and compute telemetry from their differences.

    Call ``start`` when a stimulus starts, ``tick`` about once a second while it runs, ``lap`` at each of its samples,
    and ``finish`` at its end.  ``start_idle`` begins an idle time that does not follow a stimulus.
    """

    def __init__(
        self,
        block: Path | None,
        root: Path = ROOT,
        *,
        underlying: Path | None = None,
        meter: PowerMeter | None = None,
    ) -> None:
        """Observe the host, the drive with the sysfs folder ``block``, and the power ``meter``.

        For a file, ``underlying`` is the device that holds its file system.
        """
        self._cpus = CounterFile(root / "proc/stat", _CPU_LINE_BYTES * (2 + (os.cpu_count() or 1)))
        self._throttle_files = [CounterFile(path) for path in _throttle_count_files(root)]
        observed = block or underlying
        has_statistics = observed is not None and attribute(observed / "queue/iostats") != "0"
        self._block = _Statistics(observed / "stat") if observed is not None and has_statistics else None
        self._device = observed.name.replace("!", "/") if observed is not None else ""
        self._queue = block / "queue" if self._block is not None and block is not None else None
        self._is_target = block is not None
        self._processes = ProcessObserver(root)
        self._power = PowerObserver(meter)
        self._energy = _PackageEnergy(root)
        self._intervals: IntervalFiles | None = None
        self._interval_start_ns, self._interval_block = 0, tuple[int, ...]()
        self._error_files = [CounterFile(path) for path in _error_count_files(block)] if block is not None else []
        driver, sensor = _sensor(block) if block is not None else ("", None)
        self._sensor = CounterFile(sensor, 64) if sensor is not None else None
        self._celsius_interval_ns = round(1e9 * _TEMPERATURE_SECONDS.get(driver, 0.0))
        self._celsius: float | None = None
        self._max_celsius: float | None = None
        self._lap_max_celsius: float | None = None
        self._celsius_read_ns: int | None = None
        self._idle_start: _Reading | None = None
        self._first = self._last = self._read()

    @property
    def counts_every_byte(self) -> bool:
        """Whether the kernel counts every byte that the device transfers, before it reports the I/O's completion.

        It does so for devices with request queues of their own.  For others (md, most of dm, NVMe multipath) some
        kernels count only a part; with 32 bits the counters wrap.
        """
        if self._queue is None or sys.maxsize < 1 << 32:
            return False
        return (self._queue.parent / "mq").is_dir() and attribute(self._queue / "iostats") == "1"

    def start_idle(self) -> None:
        """Take the reading at the start of an idle time."""
        self._idle_start = self._read()

    def start(self, intervals: IntervalFiles | None = None, seconds: float = math.inf) -> BlockStatistics | None:
        """Take the reading before the first I/O of a stimulus; return the statistics of the idle time before it.

        None if the start of that time is not known, or if the kernel keeps no statistics of the target.  ``intervals``
        gets the statistics of each interval between two ticks.  The stimulus is expected to take ``seconds``.
        """
        self._first = self._last = self._read()
        self._processes.start(self._first.taken_ns + 1e9 * seconds)
        self._power.start()
        self._intervals = intervals
        self._interval_start_ns, self._interval_block = self._first.taken_ns, self._first.block
        idle_start, self._idle_start = self._idle_start, None
        is_fresh = self._celsius_age_ns(self._first.taken_ns) <= 2 * self._celsius_interval_ns
        self._celsius = self._max_celsius = self._lap_max_celsius = self._celsius if is_fresh else None
        if idle_start is None or not self._is_target:
            return None
        seconds = (self._first.taken_ns - idle_start.taken_ns) / 1e9
        return _block(self._device, idle_start.block, self._first.block, seconds)

    def tick(self) -> None:
        """End an interval; read the drive's temperature if that is due.  Call this only while the drive does I/O."""
        now = time.monotonic_ns()
        if self._block is not None:
            self._end_interval(now, self._block.read())  # This also detects each wrap of a counter.
        processes = self._processes.tick()
        if self._intervals is not None:
            self._intervals.add_processes(processes)
        self._read_power()
        self._energy.read()  # This detects each wrap of a counter.
        if self._sensor is None or self._celsius_age_ns(now) < self._celsius_interval_ns:
            return
        self._celsius, self._celsius_read_ns = _celsius(self._sensor.read()), now
        self._max_celsius = _greater(self._max_celsius, self._celsius)
        self._lap_max_celsius = _greater(self._lap_max_celsius, self._celsius)

    def _read_power(self) -> None:
        watts = self._power.tick(ramp=self._intervals is not None and self._intervals.in_ramp)
        if self._intervals is not None:
            self._intervals.add_power(watts)

    def _celsius_age_ns(self, now_ns: int) -> float:
        return math.inf if self._celsius_read_ns is None else now_ns - self._celsius_read_ns

    def _end_interval(self, now_ns: int, block: tuple[int, ...]) -> None:
        """Write the statistics of the interval that ends now, and start the next interval."""
        seconds = (now_ns - self._interval_start_ns) / 1e9
        statistics = _block(self._device, self._interval_block, block, seconds)
        self._interval_start_ns, self._interval_block = now_ns, block
        if statistics is not None and self._intervals is not None:
            self._intervals.add(statistics, seconds)

    def lap(self) -> TelemetrySample:
        """Return the telemetry since the last lap, or since the start."""
        previous, self._last = self._last, self._read()
        max_celsius, self._lap_max_celsius = self._lap_max_celsius, self._celsius
        self._read_power()
        return replace(self._difference(previous, self._last, max_celsius), power=self._power.lap())

    def finish(self) -> TelemetrySample:
        """Return the telemetry since the start.  Also start the idle time that follows the stimulus."""
        self._idle_start = self._read()
        self._end_interval(self._idle_start.taken_ns, self._idle_start.block)
        self._read_power()
        self._intervals = None
        processes, unreadable = self._processes.finish()
        telemetry = self._difference(self._first, self._idle_start, self._max_celsius)
        power = self._power.finish()
        return replace(telemetry, processes=processes, unreadable_processes=unreadable, power=power)

    def _difference(self, before: _Reading, after: _Reading, celsius: float | None) -> TelemetrySample:
        busy = {name: busy_percent(before.cpus.get(name, ZERO_CPU_TIMES), times) for name, times in after.cpus.items()}
        single = [percent for name, percent in busy.items() if name != b"cpu" and percent is not None]
        seconds = (after.taken_ns - before.taken_ns) / 1e9
        all_before, all_after = (reading.cpus.get(b"cpu", ZERO_CPU_TIMES) for reading in (before, after))
        statistics = _block(self._device, before.block, after.block, seconds)
        return TelemetrySample(
            seconds=seconds,
            cpu_percent=busy.get(b"cpu"),
            busiest_cpu_percent=max(single, default=None),
            block=statistics if self._is_target else None,
            celsius=celsius,
            throttlings=_increase(before.throttlings, after.throttlings),
            link_errors=_increase(before.link_errors, after.link_errors),
            host_watts=_watts(_increase(before.energy_uj, after.energy_uj), seconds),
            stolen_percent=_percent(all_after.stolen - all_before.stolen, all_after.total - all_before.total),
            underlying=None if self._is_target else statistics,
        )

    def _read(self) -> _Reading:
        return _Reading(
            taken_ns=time.monotonic_ns(),
            cpus=cpu_times(self._cpus.read()),
            block=self._block.read() if self._block is not None else (),
            throttlings=_sum(_single_number(file.read()) for file in self._throttle_files),
            link_errors=_sum(_total_errors(file.read()) for file in self._error_files),
            energy_uj=self._energy.read(),
        )


def observe(path: str, root: Path = ROOT, *, meter: PowerMeter | None = None) -> Observer:
    """Return an observer of the target at ``path``."""
    try:
        status = Path(path).stat()
        if stat.S_ISBLK(status.st_mode):
            return Observer(block_directory(status.st_rdev, root), root, meter=meter)
        return Observer(None, root, underlying=underlying_device(Path(path).resolve(), root), meter=meter)
    except OSError:
        return Observer(None, root, meter=meter)


def underlying_device(path: Path, root: Path = ROOT) -> Path | None:
    """Return the sysfs folder of the device that holds the file's file system; for a partition, the folder of its disk.

    None if the file system is on several devices, or does not report them.
    """
    mount = mount_of(path, root)
    devices = devices_of_mount(mount, root) if mount else []
    if len(devices) != 1:
        return None
    return devices[0].parent if (devices[0] / "partition").exists() else devices[0]


# -- Find the kernel's files ------------------------------------------------------------------------------------------


def _throttle_count_files(root: Path) -> Iterator[Path]:
    """Yield the thermal throttle counters of cores and packages, each counter once, even if several CPUs share it."""
    keys = set()
    for cpu in sorted((root / "sys/devices/system/cpu").glob("cpu[0-9]*")):
        package = attribute(cpu / "topology/physical_package_id")
        for name, key in (
            ("core_throttle_count", (package, attribute(cpu / "topology/core_id"))),
            ("package_throttle_count", (package,)),
        ):
            path = cpu / "thermal_throttle" / name
            if key not in keys and path.exists():
                keys.add(key)
                yield path


def _devices(block: Path) -> Iterator[Path]:
    """Yield the device of a disk; for a multipath NVMe disk, whose device is virtual, also its controllers."""
    device = (block / "device").resolve()
    yield device
    yield from (path.resolve() for path in sorted(device.glob("nvme[0-9]*")) if path.is_symlink())


def _sensor(block: Path) -> tuple[str, Path | None]:
    """Return the driver and the file of a drive's temperature sensor; ("", None) if it has none."""
    for device in _devices(block):
        for folder in sorted((*device.glob("hwmon[0-9]*"), *device.glob("hwmon/hwmon[0-9]*"))):
            driver = attribute(folder / "name")
            if driver in _TEMPERATURE_SECONDS and (folder / "temp1_input").exists():
                return driver, folder / "temp1_input"
    return "", None


def warning_celsius(device: str, root: Path = ROOT) -> float | None:
    """Return the temperature at which a drive starts to warn (NVMe WCTEMP); None if the kernel does not report it."""
    _, sensor = _sensor((root / "sys/class/block" / Path(os.path.realpath(device)).name).resolve())
    maximum = _single_number(attribute(sensor.with_name("temp1_max")).encode()) if sensor else None
    return maximum / 1000 if maximum and maximum > 0 else None


def is_hot(celsius: float, warning: float) -> bool:
    """Return whether a drive is hot: it warns soon, or warns already."""
    return celsius >= warning - _HOT_MARGIN_CELSIUS


def _error_count_files(block: Path) -> tuple[Path, ...]:
    """Return the error counters of an NVMe drive's PCIe function.

    Other drives share a function with their neighbours, so () is returned for them.
    """
    if not block.name.startswith("nvme"):
        return ()
    functions = (path for device in _devices(block) for path in device.parents if _PCI_FUNCTION.fullmatch(path.name))
    function = next(functions, None)
    return tuple(function / name for name in _ERRORS if (function / name).exists()) if function else ()


# -- Parse their content ----------------------------------------------------------------------------------------------


def _numbers(text: bytes) -> tuple[int, ...]:
    """Return the numbers of a line; () if the line contains anything else."""
    with suppress(ValueError):
        return tuple(map(int, text.split()))
    return ()


def _single_number(text: bytes) -> int | None:
    numbers = _numbers(text)
    return numbers[0] if len(numbers) == 1 else None


def _total_errors(text: bytes) -> int | None:
    """Return the total in the last line of an error counter file."""
    match = re.search(rb"^TOTAL_ERR_\w+ (\d{1,18})$", text, re.MULTILINE)
    return int(match[1]) if match else None


def _sum(counts: Iterable[int | None]) -> int | None:
    reported = [count for count in counts if count is not None]
    return sum(reported) if reported else None


def _celsius(text: bytes) -> float | None:
    """Convert a sensor value in millidegrees to degrees Celsius; None for an implausible value."""
    with suppress(ValueError):
        degrees = int(text) / 1000
        return degrees if _MIN_CELSIUS < degrees < _MAX_CELSIUS else None
    return None


def cpu_times(text: bytes) -> dict[bytes, CpuTimes]:
    """Return the times of each CPU.  Waiting for I/O does not count as busy; waiting for the hypervisor does."""
    times = {}
    for line in text.split(b"\n"):
        if not line.startswith(b"cpu"):
            break
        name, _, numbers = line.partition(b" ")
        columns = _numbers(numbers)[:_CPU_COLUMNS]
        if len(columns) == _CPU_COLUMNS:
            total = sum(columns)
            times[name] = CpuTimes(total - columns[_IDLE] - columns[_IOWAIT], total, columns[_STEAL])
    return times


def _greater(one: float | None, other: float | None) -> float | None:
    return max((value for value in (one, other) if value is not None), default=None)


def busy_percent(before: CpuTimes, after: CpuTimes) -> float | None:
    """Return how busy a CPU was between two readings; None if no time passed."""
    return _percent(after.busy - before.busy, after.total - before.total)


def _percent(part: int, total: int) -> float | None:
    return min(100.0, 100 * max(0, part) / total) if total > 0 else None


def _increase(before: int | None, after: int | None) -> int | None:
    """Return the increase of a counter; 0 if it was reset (a CPU was removed, or a controller came back)."""
    return None if before is None or after is None else min(MAX_QUANTITY, max(0, after - before))


def _watts(energy_uj: int | None, seconds: float) -> float | None:
    return energy_uj / 1e6 / seconds if energy_uj is not None and seconds >= _MIN_POWER_SECONDS else None


def _block(device: str, before: tuple[int, ...], after: tuple[int, ...], seconds: float) -> BlockStatistics | None:
    """Return the statistics between two readings.

    None if the kernel keeps no statistics of this device, or if the readings cannot be compared.
    """
    if not any(after) or len(before) != len(after) or seconds <= 0:
        return None
    increases = list(map(sub, after, before))
    if min(increases) < 0 or max(increases) > MAX_QUANTITY // _SECTOR_BYTES:  # Another device now has this name.
        return None
    reads, read_merges, read_sectors, writes, write_merges, written_sectors, discarded_sectors = increases[:-4]
    read_ms, write_ms, busy_ms, queued_ms = increases[-4:]
    return BlockStatistics(
        read_ios=reads,
        write_ios=writes,
        read_bytes=read_sectors * _SECTOR_BYTES,
        write_bytes=written_sectors * _SECTOR_BYTES,
        queue=queued_ms / 1000 / seconds,
        busy_percent=min(100.0, busy_ms / 10 / seconds),
        discarded_bytes=discarded_sectors * _SECTOR_BYTES,
        read_merges=read_merges,
        write_merges=write_merges,
        read_ms=read_ms,
        write_ms=write_ms,
        device=device,
    )
