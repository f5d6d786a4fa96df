"""Telemetry: the kernel's counters of drive and host during a measurement."""

from __future__ import annotations

from dataclasses import dataclass

from ..units import Amount, Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockStatistics:
    """Activity of the block layer on the drive between two readings (``/sys/block/*/stat``).

    The counts are the block layer's requests; it splits requests that exceed the drive's maximum size.  ``queue`` is
    the mean number of I/Os in flight, ``busy_percent`` the share of the time with at least one.  Both refer to the
    whole time between the readings, including the start and end of the engine.  ``discarded_bytes`` are those of
    discards; old kernels do not count them.
    """

    read_ios: Amount
    write_ios: Amount
    read_bytes: Amount
    write_bytes: Amount
    queue: Quantity
    busy_percent: Quantity
    discarded_bytes: Amount = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySample:
    """Drive and host between two readings, ``seconds`` apart, which enclose the measurement.

    ``cpu_percent`` is the load of all CPUs of the host together, from all processes.  ``busiest_cpu_percent`` is that
    of the busiest CPU.  ``stolen_percent`` is the share of the time of all CPUs that a hypervisor gave to others while
    the host's CPUs were runnable; that time counts as busy.  ``celsius`` is the drive's highest temperature reading.
    ``throttlings`` counts how often a core or package was throttled because of heat.  ``link_errors`` counts the errors
    that the drive's PCIe function reported.  Values that the kernel does not report are None.  ``block`` is also None
    without a block device.
    """

    seconds: Quantity
    cpu_percent: Quantity | None
    busiest_cpu_percent: Quantity | None
    block: BlockStatistics | None
    celsius: float | None
    throttlings: Amount | None
    link_errors: Amount | None
    stolen_percent: Quantity | None = None
