"""What the kernel's own counters tell of drive and host while something was measured."""

from __future__ import annotations

from dataclasses import dataclass

from ..units import Amount, Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockStatistics:
    """What the block layer did on the drive between two readings (``/sys/block/*/stat``).

    Requests as the block layer makes them: it splits what is larger than the drive takes at once.  ``queue`` is the
    average number of I/Os in flight, ``busy_percent`` the share of the time with at least one, both over all the time
    between the readings: the engine's start and end are in it.
    """

    read_ios: Amount
    write_ios: Amount
    read_bytes: Amount
    write_bytes: Amount
    queue: Quantity
    busy_percent: Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySample:
    """Drive and host between two readings, ``seconds`` apart, which enclose what was measured.

    ``cpu_percent`` is how busy all CPUs of the host were together, by whatever, ``busiest_cpu_percent`` the one that
    was busiest.  ``stolen_percent`` is how much of the time of all CPUs together a hypervisor gave to others while they
    had something to do; that time counts as busy.  ``celsius`` is the drive's greatest temperature that was seen,
    ``throttlings`` how often a core or package was slowed down for its heat, ``link_errors`` how many errors the
    drive's PCIe function reported.  None where the kernel does not say; ``block`` also where there is no block device.
    """

    seconds: Quantity
    cpu_percent: Quantity | None
    busiest_cpu_percent: Quantity | None
    block: BlockStatistics | None
    celsius: float | None
    throttlings: Amount | None
    link_errors: Amount | None
    stolen_percent: Quantity | None = None
