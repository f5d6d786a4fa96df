"""Reads the kernel's counters around what is measured: what the drive did, how warm it is, how busy the host.

No program and no thread beside the test: the suite wakes at every outcome anyway, and about once a second.  Files are
opened once and read again where they are.  Nothing is read while the test leaves the drive idle.

What is read at an outcome are numbers that the kernel keeps itself.  The temperature is another matter: for it the
kernel asks the drive.  So it is read only while the drive is at work, now and then.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter, sub
from pathlib import Path
from typing import NamedTuple

from ...model.telemetry import BlockStatistics, TelemetrySample
from ...units import MAX_QUANTITY
from ..device.identity import ROOT, attribute, block_directory

_SECTOR_BYTES = 512
#: Room for the lines of /proc/stat about CPUs, with so much for each.
_CPU_LINE_BYTES = 160
#: The columns of a CPU's line in /proc/stat that are counted (guests' time is in user and nice), and those not busy.
_CPU_COLUMNS, _IDLE, _WAITING, _STOLEN = 8, 3, 4, 7
#: How often a drive is asked for its temperature.  Asking costs an NVMe drive an admin command; a SATA drive finishes
#: all queued I/Os first.
_TEMPERATURE_SECONDS = {"nvme": 10.0, "drivetemp": 60.0}
_COLDEST, _HOTTEST = -100.0, 300.0
_PCI_FUNCTION = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ERRORS = ("aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal")
#: Of /sys/block/*/stat: I/Os and sectors read and written, ms with an I/O in flight, ms of all I/Os together.
_COLUMNS, _LEAST_COLUMNS = itemgetter(0, 2, 4, 6, 9, 10), 11
#: Where the kernel lets a count of milliseconds begin again at 0: with 512 I/Os in flight after two hours.
_WRAP_MS = 1 << 32


class CpuTimes(NamedTuple):
    """What a CPU's time was spent on, in the kernel's units since it began; what a hypervisor took is busy, too."""

    busy: int
    whole: int
    stolen: int


#: The times of a CPU that the kernel does not tell of.
NEVER = CpuTimes(0, 0, 0)


class Counter:
    """A file of the kernel's that is read again and again."""

    def __init__(self, path: Path, most_bytes: int = 4096) -> None:
        self._most_bytes = most_bytes
        self._descriptor = -1
        with suppress(OSError):
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def read(self) -> bytes:
        """Return what it holds now, nothing where there is no such file, or no drive any more."""
        if self._descriptor >= 0:
            with suppress(OSError):
                return os.pread(self._descriptor, self._most_bytes, 0)
        return b""


class _Statistics:
    """The statistics of a block device, their milliseconds counted on where the kernel begins again."""

    def __init__(self, path: Path) -> None:
        self._file = Counter(path)
        self._before = (0, 0)
        self._past_ms = [0, 0]

    def read(self) -> tuple[int, ...]:
        """Return ``_COLUMNS`` since the kernel began to count; nothing of what is no such file."""
        numbers = _numbers(self._file.read())
        if len(numbers) < _LEAST_COLUMNS:
            return ()
        *amounts, busy_ms, queued_ms = _COLUMNS(numbers)
        for place, (now, before) in enumerate(zip((busy_ms, queued_ms), self._before, strict=True)):
            if now < before:
                self._past_ms[place] += _WRAP_MS
        self._before = busy_ms, queued_ms
        return (*amounts, busy_ms + self._past_ms[0], queued_ms + self._past_ms[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """What the counters said at a moment; ``cpus`` are the times of each CPU, and of all together (cpu)."""

    at_ns: int
    cpus: Mapping[bytes, CpuTimes]
    block: tuple[int, ...]
    throttlings: int | None
    link_errors: int | None


class Observer:
    """Takes readings, and tells what lies between them.

    ``begin`` when a stimulus begins, ``tick`` now and then while it runs, ``lap`` at each of its samples, and ``whole``
    at its end.
    """

    def __init__(self, block: Path | None, root: Path = ROOT) -> None:
        """Observe the host, and the drive whose folder in sysfs is ``block``; of a file only the host."""
        self._cpus = Counter(root / "proc/stat", _CPU_LINE_BYTES * (2 + (os.cpu_count() or 1)))
        self._throttled = [Counter(path) for path in _throttle_counts(root)]
        counted = block is not None and attribute(block / "queue/iostats") != "0"
        self._block = _Statistics(block / "stat") if block is not None and counted else None
        self._errors = [Counter(path) for path in _error_counts(block)] if block is not None else []
        driver, sensor = _sensor(block) if block is not None else ("", None)
        self._sensor = Counter(sensor, 64) if sensor is not None else None
        self._every_ns = round(1e9 * _TEMPERATURE_SECONDS.get(driver, 0.0))
        self._celsius: float | None = None
        self._warmest: float | None = None
        self._warmest_since: float | None = None
        self._asked_ns: int | None = None
        self._first = self._last = self._read()

    def begin(self) -> None:
        """Take the reading before the first I/O of a stimulus."""
        self._first = self._last = self._read()
        fresh = self._asked_ns is not None and self._first.at_ns - self._asked_ns <= 2 * self._every_ns
        self._celsius = self._warmest = self._warmest_since = self._celsius if fresh else None

    def tick(self) -> None:
        """Ask the drive for its temperature, if that is due; it is at work."""
        now = time.monotonic_ns()
        if self._block is not None:
            self._block.read()  # so that no wrap is missed
        if self._sensor is None or (self._asked_ns is not None and now - self._asked_ns < self._every_ns):
            return
        self._celsius, self._asked_ns = _celsius(self._sensor.read()), now
        self._warmest = _greater(self._warmest, self._celsius)
        self._warmest_since = _greater(self._warmest_since, self._celsius)

    def lap(self) -> TelemetrySample:
        """Return what lies between the last lap, or the beginning, and now."""
        before, self._last = self._last, self._read()
        warmest, self._warmest_since = self._warmest_since, self._celsius
        return _between(before, self._last, warmest)

    def whole(self) -> TelemetrySample:
        """Return what lies between the beginning and now."""
        return _between(self._first, self._read(), self._warmest)

    def _read(self) -> _Reading:
        return _Reading(
            at_ns=time.monotonic_ns(),
            cpus=cpu_times(self._cpus.read()),
            block=self._block.read() if self._block is not None else (),
            throttlings=_sum(_whole(each.read()) for each in self._throttled),
            link_errors=_sum(_total(each.read()) for each in self._errors),
        )


def observe(path: str, root: Path = ROOT) -> Observer:
    """Return an observer of the target at ``path``."""
    try:
        status = Path(path).stat()
    except OSError:
        return Observer(None, root)
    return Observer(block_directory(status.st_rdev, root) if stat.S_ISBLK(status.st_mode) else None, root)


# -- where the kernel keeps it ----------------------------------------------------------------------------------------


def _throttle_counts(root: Path) -> Iterator[Path]:
    """Yield how often each core, and each package, was slowed down for its heat: of CPUs that share one, one file."""
    seen = set()
    for cpu in sorted((root / "sys/devices/system/cpu").glob("cpu[0-9]*")):
        package = attribute(cpu / "topology/physical_package_id")
        for name, key in (
            ("core_throttle_count", (package, attribute(cpu / "topology/core_id"))),
            ("package_throttle_count", (package,)),
        ):
            path = cpu / "thermal_throttle" / name
            if key not in seen and path.exists():
                seen.add(key)
                yield path


def _devices(block: Path) -> Iterator[Path]:
    """Yield the device of a disk; of multipath NVMe, which has none of its own, the controllers."""
    device = (block / "device").resolve()
    yield device
    yield from (each.resolve() for each in sorted(device.glob("nvme[0-9]*")) if each.is_symlink())


def _sensor(block: Path) -> tuple[str, Path | None]:
    """Return the driver of a drive's thermometer, and its file; none where there is none."""
    for device in _devices(block):
        for folder in sorted((*device.glob("hwmon[0-9]*"), *device.glob("hwmon/hwmon[0-9]*"))):
            driver = attribute(folder / "name")
            if driver in _TEMPERATURE_SECONDS and (folder / "temp1_input").exists():
                return driver, folder / "temp1_input"
    return "", None


def _error_counts(block: Path) -> tuple[Path, ...]:
    """Return the error counters of an NVMe drive's own PCIe function; another drive shares one with its neighbours."""
    if not block.name.startswith("nvme"):
        return ()
    functions = (each for device in _devices(block) for each in device.parents if _PCI_FUNCTION.fullmatch(each.name))
    function = next(functions, None)
    return tuple(function / name for name in _ERRORS if (function / name).exists()) if function else ()


# -- what it says -----------------------------------------------------------------------------------------------------


def _numbers(text: bytes) -> tuple[int, ...]:
    """Return the numbers of a line; nothing of a line that has anything else."""
    with suppress(ValueError):
        return tuple(map(int, text.split()))
    return ()


def _whole(text: bytes) -> int | None:
    found = _numbers(text)
    return found[0] if len(found) == 1 else None


def _total(text: bytes) -> int | None:
    """Return what the last line of an error counter's file adds up to."""
    found = re.search(rb"^TOTAL_ERR_\w+ (\d{1,18})$", text, re.MULTILINE)
    return int(found[1]) if found else None


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _celsius(text: bytes) -> float | None:
    """Return degrees of a sensor's thousandths; None for what no drive has."""
    with suppress(ValueError):
        degrees = int(text) / 1000
        return degrees if _COLDEST < degrees < _HOTTEST else None
    return None


def cpu_times(text: bytes) -> dict[bytes, CpuTimes]:
    """Return the times of each CPU; waiting for I/O is not busy, waiting for the hypervisor is."""
    times = {}
    for line in text.split(b"\n"):
        if not line.startswith(b"cpu"):
            break
        name, _, rest = line.partition(b" ")
        columns = _numbers(rest)[:_CPU_COLUMNS]
        if len(columns) == _CPU_COLUMNS:
            whole = sum(columns)
            times[name] = CpuTimes(whole - columns[_IDLE] - columns[_WAITING], whole, columns[_STOLEN])
    return times


def _greater(one: float | None, other: float | None) -> float | None:
    return max((each for each in (one, other) if each is not None), default=None)


def _between(before: _Reading, after: _Reading, celsius: float | None) -> TelemetrySample:
    busy = {name: busy_percent(before.cpus.get(name, NEVER), times) for name, times in after.cpus.items()}
    single = [percent for name, percent in busy.items() if name != b"cpu" and percent is not None]
    seconds = (after.at_ns - before.at_ns) / 1e9
    return TelemetrySample(
        seconds=seconds,
        cpu_percent=busy.get(b"cpu"),
        busiest_cpu_percent=max(single, default=None),
        block=_block(before.block, after.block, seconds),
        celsius=celsius,
        throttlings=_grown(before.throttlings, after.throttlings),
        link_errors=_grown(before.link_errors, after.link_errors),
        stolen_percent=_stolen_percent(before.cpus.get(b"cpu", NEVER), after.cpus.get(b"cpu", NEVER)),
    )


def busy_percent(before: CpuTimes, after: CpuTimes) -> float | None:
    """Return how busy a CPU was between two of its times; None where no time passed."""
    return _percent(after.busy - before.busy, after.whole - before.whole)


def _stolen_percent(before: CpuTimes, after: CpuTimes) -> float | None:
    return _percent(after.stolen - before.stolen, after.whole - before.whole)


def _percent(part: int, whole: int) -> float | None:
    return min(100.0, 100 * max(0, part) / whole) if whole > 0 else None


def _grown(before: int | None, after: int | None) -> int | None:
    """Return by how much a counter grew; one that begins anew (a CPU went, a controller came back) has not."""
    return None if before is None or after is None else min(MAX_QUANTITY, max(0, after - before))


def _block(before: tuple[int, ...], after: tuple[int, ...], seconds: float) -> BlockStatistics | None:
    """Return the statistics of the time between; None where the kernel counts nothing of this device."""
    if not any(after) or len(before) != len(after) or seconds <= 0:
        return None
    grown = list(map(sub, after, before))
    if min(grown) < 0 or max(grown) > MAX_QUANTITY // _SECTOR_BYTES:  # another device has its name
        return None
    reads, read_sectors, writes, written_sectors, busy_ms, queued_ms = grown
    return BlockStatistics(
        read_ios=reads,
        write_ios=writes,
        read_bytes=read_sectors * _SECTOR_BYTES,
        write_bytes=written_sectors * _SECTOR_BYTES,
        queue=queued_ms / 1000 / seconds,
        busy_percent=min(100.0, busy_ms / 10 / seconds),
    )
