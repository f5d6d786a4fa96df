"""Did the host, and not the drive, set a number?  The reasoning, and what it cannot tell, is in docs/host-limits.rst.

Each of the outstanding I/Os is at any time either in the drive or in the host: being prepared, submitted, completed and
counted, or waiting for a CPU to do that.  Two measures tell how much the host has to do with the number.  How near its
CPUs are to what they can do says whether it may be the limit; how many of the outstanding I/Os are in the drive says
how much a faster host could change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..model.dut import Dut
from ..model.host_ceiling import Ceiling, most_iops
from ..model.measurement import Measurement
from ..model.steps import Stimulus
from ..units import Quantity, counted

#: CPU time is counted for whole threads, their beginning and end included; nobody reaches all of it.
_ENGINE_PERCENT = 90.0
#: A null target leaves out the block layer, the driver and the interrupts: a quarter of the way, and never less.
_CEILING_PERCENT = 75.0
#: All CPUs together are never quite busy for a whole second.
_HOST_PERCENT = 95.0
#: An engine that used less of what it could get did not wait for CPUs, whoever made them busy.
_PRESENT_PERCENT = 10.0
#: One CPU that is never idle may be the one that takes the drive's interrupts.
_CPU_PERCENT = 98.0
#: With so many of its I/Os in the drive, no host could raise the number by more than a ninth.
_FULL_PERCENT = 90.0
#: A hypervisor that took more may have kept from its CPU what the drive had done; with less that is a ninth at most.
_STOLEN_PERCENT = 100.0 - _FULL_PERCENT
#: With fewer of its I/Os in the drive, an I/O is longer in the host than in the drive.
_THIN_PERCENT = 50.0
#: A sentence names so many points; the matrix marks all.
_NAMED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class HostShare:
    """The host's share in a measurement, and whether it set the number: None where that cannot be told.

    ``engine_percent`` is what the engine used of the CPU time that its threads could get, ``ceiling_percent`` the IOPS
    in percent of those on a null target, ``host_percent`` how busy all CPUs were together, by whatever.
    ``drive_percent`` is how many of the outstanding I/Os were in the drive, in the mean.  ``stolen_percent`` is what a
    hypervisor took, in percent of the CPU time that the threads could get: all of it, though others may have borne
    some.
    ``reasons`` are sentences without numbers, so that they can be counted.
    """

    limited: bool | None
    reasons: tuple[str, ...]
    engine_percent: Quantity | None
    ceiling_percent: Quantity | None
    host_percent: Quantity | None
    drive_percent: Quantity | None
    stolen_percent: Quantity


def host_share(measurement: Measurement, dut: Dut, cpus: int, ceilings: Sequence[Ceiling] = ()) -> HostShare | None:
    """Return the host's share in a measurement of ``dut`` on a host of ``cpus`` CPUs (0: not known).

    None of a simulated drive, which no host serves, and of what goes through the page cache, which is the host.
    """
    if dut.simulated or measurement.stimulus.cached:
        return None
    ceiling = most_iops(measurement.stimulus, ceilings, cpus)
    found = HostShare(
        limited=None,
        reasons=(),
        engine_percent=_engine_percent(measurement, cpus),
        ceiling_percent=100 * measurement.iops / ceiling if ceiling else None,
        host_percent=measurement.host_cpu_percent,
        drive_percent=_drive_percent(measurement, dut),
        stolen_percent=_stolen_percent(measurement, cpus),
    )
    limited, reasons = _judge(found, measurement, cpus)
    return replace(found, limited=limited, reasons=reasons)


def balance_percent(measurement: Measurement, cpus: int) -> float:
    """Return how busy the host is when an I/O costs it as much as it costs the drive.

    N outstanding I/Os that go round between two places of equal speed keep each of them busy for N / (N + 1) of the
    time; N is here what is outstanding for each CPU that can serve it.
    """
    stimulus = measurement.stimulus
    each = stimulus.total_oio / min(stimulus.thread_count, cpus or stimulus.thread_count)
    return 100 * each / (each + 1)


def limited_over(shares: Sequence[HostShare | None]) -> bool | None:
    """Return whether the host set the number of a point, by most of its rounds; None where that cannot be told."""
    verdicts = [share.limited for share in shares if share is not None]
    return next((each for each in (True, False) if 2 * verdicts.count(each) > len(shares)), None)


def limited_words(points: Mapping[Stimulus, bool | None], of: str = " of the window") -> str:
    """Return a sentence about the points ``of`` a window whose number the host set; nothing where there is none."""
    alone = len({point.demand for point in points}) == 1
    limited = [
        each.name or f"{each.label}{'' if alone else f' {each.demand.label}'}"
        for each, found in points.items()
        if found
    ]
    more = f" and {len(limited) - _NAMED} more" if len(limited) > _NAMED else ""
    if not limited:
        return ""
    named = f"{('; ' if any(',' in each for each in limited) else ', ').join(limited[:_NAMED])}{more}"
    return f"the host, not the drive, set {len(limited)} of {counted(len(points), 'point')}{of}: {named}"


def _engine_percent(measurement: Measurement, cpus: int) -> float | None:
    """Threads that are more than the CPUs share them."""
    if measurement.engine_cpu_percent is None or not cpus:
        return None
    return measurement.engine_cpu_percent * max(1.0, measurement.stimulus.thread_count / cpus)


def _stolen_percent(measurement: Measurement, cpus: int) -> float:
    """As many CPUs as there are threads may have borne all of it."""
    stolen = measurement.vitals.stolen_percent if measurement.vitals else None
    return min(100.0, (stolen or 0.0) * max(1.0, cpus / measurement.stimulus.thread_count))


def _drive_percent(measurement: Measurement, dut: Dut) -> float | None:
    """Return how many of the outstanding I/Os were in the drive, by Little's law; None of what is itself the host.

    What the block layer counts is spread over its requests, which may be parts of the engine's I/Os, or several
    together; the engine's start and end, without I/O, are not counted.
    """
    block = measurement.vitals.block if measurement.vitals else None
    requests = block.read_ios + block.write_ios if block else 0
    if dut.kind != "drive" or block is None or measurement.vitals is None or not requests:
        return None
    seconds_each = block.queue * measurement.vitals.seconds / requests
    return min(100.0, 100 * seconds_each * measurement.iops / measurement.stimulus.total_oio)


def _judge(found: HostShare, measurement: Measurement, cpus: int) -> tuple[bool | None, tuple[str, ...]]:
    balance = balance_percent(measurement, cpus)
    evidence = tuple(_evidence(found, balance))
    if found.drive_percent is not None and found.drive_percent >= _FULL_PERCENT:
        return _judge_full_queue(found, measurement)
    if evidence:
        return True, evidence
    if any(_evidence(_with_steal_time(found), balance)):
        return None, ("a hypervisor took CPU time that the engine may have wanted",)
    if found.engine_percent is None and found.ceiling_percent is None:
        return None, ("nothing is known of the engine's CPU time",)
    if found.host_percent is not None and found.host_percent >= _HOST_PERCENT * _wanted(found, measurement, cpus):
        return None, ("the host's CPUs were busy, and whether I/Os waited for them is not clear",)
    if found.drive_percent is not None and found.drive_percent < _THIN_PERCENT:
        return None, ("few of the outstanding I/Os were in the drive, though CPUs were free",)
    return _undecided_if_stolen(found) or (False, ())


def _undecided_if_stolen(found: HostShare) -> tuple[None, tuple[str, ...]] | None:
    """Leave a point open in which a hypervisor took more than a little."""
    if found.stolen_percent <= _STOLEN_PERCENT:
        return None
    return None, ("a hypervisor took CPU time, for which I/Os that the drive had done may have waited",)


def _wanted(found: HostShare, measurement: Measurement, cpus: int) -> float:
    """Return which share of the CPUs the outstanding I/Os can keep busy, where these may be all in the host."""
    if found.drive_percent is not None or not cpus:
        return 1.0
    return min(1.0, measurement.stimulus.total_oio / cpus)


def _evidence(found: HostShare, balance: float) -> Iterator[str]:
    engine, ceiling, host = found.engine_percent, found.ceiling_percent, found.host_percent
    if engine is not None and engine >= min(_ENGINE_PERCENT, balance):
        yield "the engine used the CPU time that it could get"
    if ceiling is not None and ceiling >= min(_CEILING_PERCENT, balance):
        yield "the IOPS were near those on a null target"
    present = engine is not None and engine >= _PRESENT_PERCENT
    thin = found.drive_percent is None or found.drive_percent < _THIN_PERCENT
    if host is not None and host >= _HOST_PERCENT and present and thin:
        yield "the host's CPUs were busy, with the engine among others"


def _with_steal_time(found: HostShare) -> HostShare:
    """Return the share of an engine that was near its end for as long as it may have waited for the hypervisor, too."""
    engine, ceiling, stolen = found.engine_percent, found.ceiling_percent, found.stolen_percent
    return replace(
        found,
        engine_percent=None if engine is None else engine + stolen,
        ceiling_percent=None if ceiling is None else 100 * ceiling / max(1.0, 100 - stolen),
    )


def _judge_full_queue(found: HostShare, measurement: Measurement) -> tuple[bool | None, tuple[str, ...]]:
    """Judge a point whose I/Os were in the drive: or done by it, and waiting for the CPU that takes its interrupts."""
    busiest = measurement.vitals.busiest_cpu_percent if measurement.vitals else None
    engine = measurement.engine_cpu_percent
    if busiest is not None and busiest >= _CPU_PERCENT and engine is not None and engine < _ENGINE_PERCENT:
        return None, ("one CPU was busy all the time, and not by the engine; it may take the drive's interrupts",)
    return _undecided_if_stolen(found) or (False, ("nearly all outstanding I/Os were in the drive",))
