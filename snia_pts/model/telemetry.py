"""Telemetry: the kernel's counters of drive and host during a measurement."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..units import KIB, Amount, Quantity

#: Shorter intervals have no rates, and counts of fewer milliseconds no times: the kernel counts whole milliseconds, so
#: that a time could be wrong by more than 10 %.
_SHORTEST_SECONDS, _SHORTEST_MS = 0.1, 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockStatistics:
    """Activity of the block layer on a ``device`` between two readings (``/sys/block/*/stat``).

    The counts are the block layer's requests; it splits requests that exceed the drive's maximum size.  ``queue`` is
    the mean number of I/Os in flight, ``busy_percent`` the share of the time with at least one.  Both refer to the
    whole time between the readings, including the start and end of the engine.  ``discarded_bytes`` are those of
    discards; old kernels do not count them.  ``read_merges`` are reads that the block layer merged with another one;
    ``read_ms`` is the sum of the times of all reads.
    """

    read_ios: Amount
    write_ios: Amount
    read_bytes: Amount
    write_bytes: Amount
    queue: Quantity
    busy_percent: Quantity
    discarded_bytes: Amount = 0
    read_merges: Amount = 0
    write_merges: Amount = 0
    read_ms: Amount = 0
    write_ms: Amount = 0
    device: str = ""

    def iostat(self, seconds: float) -> dict[str, float]:
        """Return the columns of ``iostat -x`` for an interval of ``seconds``, under its names; nan for n/a.

        As sysstat computes them from the increases of the kernel's counters::

            r/s, w/s          I/Os / seconds
            rkB/s, wkB/s      sectors / 2 / seconds, so that 1 kB is 1024 bytes
            rrqm/s, wrqm/s    merged I/Os / seconds
            r_await, w_await  sum of the ms of all I/Os / I/Os
            aqu-sz            sum of the ms of all I/Os / 1000 / seconds, from a counter of its own
            %util             ms with an I/O in flight / 10 / seconds

        iostat prints 0.00 for a time of no I/Os, and for one that is too short for the kernel's clock; both are n/a
        here.
        """
        if seconds < _SHORTEST_SECONDS:
            return dict.fromkeys(IOSTAT_COLUMNS, math.nan)
        idle = not self.read_ios + self.write_ios + self.discarded_bytes
        queued_ms, busy_ms = 1000 * self.queue * seconds, 10 * self.busy_percent * seconds
        values = (
            self.read_ios / seconds,
            self.write_ios / seconds,
            self.read_bytes / KIB / seconds,
            self.write_bytes / KIB / seconds,
            self.read_merges / seconds,
            self.write_merges / seconds,
            self.read_ms / self.read_ios if self.read_ios and self.read_ms >= _SHORTEST_MS else math.nan,
            self.write_ms / self.write_ios if self.write_ios and self.write_ms >= _SHORTEST_MS else math.nan,
            self.queue if idle or queued_ms >= _SHORTEST_MS else math.nan,
            self.busy_percent if idle or busy_ms >= _SHORTEST_MS else math.nan,
        )
        return dict(zip(IOSTAT_COLUMNS, values, strict=True))


#: The columns of ``iostat -x`` without those that follow from the others.
IOSTAT_COLUMNS = ("r/s", "w/s", "rkB/s", "wkB/s", "rrqm/s", "wrqm/s", "r_await", "w_await", "aqu-sz", "%util")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIo:
    """The I/O of another process, on any device, as the kernel accounts it; threads of the kernel have a ``[name]``."""

    pid: str
    name: str
    read_bytes: Amount
    written_bytes: Amount

    @property
    def bytes(self) -> int:
        return self.read_bytes + self.written_bytes

    def plus(self, later: ProcessIo) -> ProcessIo:
        """Return the I/O of both times, with the name of the ``later`` one."""
        return replace(
            later,
            read_bytes=self.read_bytes + later.read_bytes,
            written_bytes=self.written_bytes + later.written_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerReadings:
    """The mean of the ``readings`` of a power meter; None without any.  ``source`` is the meter's name."""

    source: str
    watts: Quantity | None
    readings: Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySample:
    """Drive and host between two readings, ``seconds`` apart, which enclose the measurement.

    ``cpu_percent`` is the load of all CPUs of the host together, from all processes.  ``busiest_cpu_percent`` is that
    of the busiest CPU.  ``stolen_percent`` is the share of the time of all CPUs that a hypervisor gave to others while
    the host's CPUs were runnable; that time counts as busy.  ``celsius`` is the drive's highest temperature reading.
    ``throttlings`` counts how often a core or package was throttled because of heat.  ``link_errors`` counts the errors
    that the drive's PCIe function reported.  Values that the kernel does not report are None.  ``block`` is also None
    for a file; ``underlying`` is then the device below its file system, which also does the I/O of all other files.
    ``processes`` are the other processes with the most I/O in a point, on any device; ``unreadable_processes`` could
    not be examined, None if none was.  ``power`` are the readings of a power meter, without those in a ramp;
    ``host_watts`` is the mean power of the CPU packages (RAPL).
    """

    seconds: Quantity
    cpu_percent: Quantity | None
    busiest_cpu_percent: Quantity | None
    block: BlockStatistics | None
    celsius: float | None
    throttlings: Amount | None
    link_errors: Amount | None
    stolen_percent: Quantity | None = None
    underlying: BlockStatistics | None = None
    processes: tuple[ProcessIo, ...] = ()
    unreadable_processes: Amount | None = None
    power: PowerReadings | None = None
    host_watts: Quantity | None = None

    @property
    def watts(self) -> float | None:
        """The mean of the power meter's readings."""
        return self.power.watts if self.power else None
