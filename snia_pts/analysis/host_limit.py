"""Judges whether the host, and not the drive, limited a result.  docs/host-limits.rst has the reasons and the limits.

Each outstanding I/O is at any time either in the drive or in the host: being prepared, submitted, completed and
counted, or waiting for a CPU to do that.  Two measures show the influence of the host on the result.  How close its
CPUs are to their capacity shows whether the host may be the limit.  How many of the outstanding I/Os are in the drive
shows how much a faster host could change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..model.dut import Dut
from ..model.host_ceiling import Ceiling, max_iops
from ..model.measurement import Measurement
from ..model.steps import Stimulus
from ..units import Quantity, counted

#: CPU time is counted for whole threads, including their start and end, so that no engine reaches 100 %.
_ENGINE_PERCENT = 90.0
#: A null target bypasses the block layer, the driver and the interrupts, which are at least a quarter of the I/O path.
_CEILING_PERCENT = 75.0
#: All CPUs together are never fully busy for a whole second.
_HOST_PERCENT = 95.0
#: Below this share of its available CPU time the engine was not CPU-bound, whichever process kept the CPUs busy.
_ACTIVE_PERCENT = 10.0
#: A CPU that is never idle may be the one that handles the drive's interrupts.
_CPU_PERCENT = 98.0
#: With this share of its I/Os in the drive, no host could raise the result by more than a ninth.
_FULL_PERCENT = 90.0
#: With more steal time, completed I/Os may have waited for their CPU; with less, the effect is at most a ninth.
_STOLEN_PERCENT = 100.0 - _FULL_PERCENT
#: With a smaller share of its I/Os in the drive, an I/O spends more time in the host than in the drive.
_LOW_PERCENT = 50.0
#: fio's options with which a point has a requested rate, or pauses.
_LIMITING_OPTIONS = ("rate", "thinktime")
#: Maximum number of points that a sentence names; the matrix marks all of them.
_MAX_NAMED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class HostShare:
    """The host's share in a measurement.

    ``limited`` is whether the host limited the result, None if this is undetermined.  ``engine_percent`` is the CPU
    time that the engine used, in percent of what its threads could get.  ``ceiling_percent`` is the IOPS in percent of
    those on a null target.  ``host_percent`` is how busy all CPUs together were, for any reason.  ``drive_percent`` is
    the mean share of outstanding I/Os in the drive.  ``stolen_percent`` is the steal time in percent of the
    CPU time that the threads could get; all of it is attributed to the threads, although it may have affected other
    processes.  ``reasons`` are sentences without numbers, so that they can be counted.
    """

    limited: bool | None
    reasons: tuple[str, ...]
    engine_percent: Quantity | None
    ceiling_percent: Quantity | None
    host_percent: Quantity | None
    drive_percent: Quantity | None
    stolen_percent: Quantity


def host_share(measurement: Measurement, dut: Dut, cpus: int, ceilings: Sequence[Ceiling] = ()) -> HostShare | None:
    """Return the host's share in a measurement of ``dut`` on a host of ``cpus`` CPUs (0: unknown).

    Return None for a simulated drive, which has no host, for I/O through the page cache, which is part of the host, and
    for a point that its own options limit.
    """
    options = dict(measurement.stimulus.options)
    if dut.simulated or measurement.stimulus.cached or any(name.startswith(_LIMITING_OPTIONS) for name in options):
        return None
    ceiling = max_iops(measurement.stimulus, ceilings, cpus)
    share = HostShare(
        limited=None,
        reasons=(),
        engine_percent=_engine_percent(measurement, cpus),
        ceiling_percent=100 * measurement.iops / ceiling if ceiling else None,
        host_percent=measurement.host_cpu_percent,
        drive_percent=_drive_percent(measurement, dut),
        stolen_percent=_stolen_percent(measurement, cpus),
    )
    limited, reasons = _judge(share, measurement, cpus)
    return replace(share, limited=limited, reasons=reasons)


def balance_percent(measurement: Measurement, cpus: int) -> float:
    """Return how busy the host is if an I/O takes as long in the host as in the drive.

    N outstanding I/Os that circulate between two servers of equal speed keep each server busy for N / (N + 1) of the
    time.  Here, N is the number of outstanding I/Os per CPU that can process them.
    """
    stimulus = measurement.stimulus
    oio_per_cpu = stimulus.total_oio / min(stimulus.thread_count, cpus or stimulus.thread_count)
    return 100 * oio_per_cpu / (oio_per_cpu + 1)


def majority_verdict(shares: Sequence[HostShare | None]) -> bool | None:
    """Return whether the host limited a point in the majority of its rounds; None if undetermined."""
    verdicts = [share.limited for share in shares if share is not None]
    return next((verdict for verdict in (True, False) if 2 * verdicts.count(verdict) > len(shares)), None)


def limited_points_sentence(points: Mapping[Stimulus, bool | None], scope: str = " of the window") -> str:
    """Return a sentence that names the host-limited points; empty if there are none."""
    has_one_demand = len({point.demand for point in points}) == 1
    limited = [
        point.name or f"{point.label}{'' if has_one_demand else f' {point.demand.label}'}"
        for point, is_limited in points.items()
        if is_limited
    ]
    if not limited:
        return ""
    count = f"{len(limited)} of {counted(len(points), 'point')}{scope}"
    return f"the host, not the drive, limited {count}: {_named(limited)}"


def limited_stimuli_sentence(stimuli: Mapping[tuple[str, str], bool | None]) -> str:
    """Return a sentence that names the host-limited continuous stimuli; empty if there are none.

    ``stimuli`` are the verdicts by phase and part; the part may be empty.
    """
    parts: dict[str, list[str]] = {}
    for phase, part in (stimulus for stimulus, is_limited in stimuli.items() if is_limited):
        parts.setdefault(phase, []).append(part)
    if not parts:
        return ""
    names = "; ".join(f"{phase} ({_named(named)})" if any(named) else phase for phase, named in parts.items())
    noun = "continuous stimulus" if len(stimuli) == 1 else "continuous stimuli"
    return f"the host, not the drive, limited {sum(map(len, parts.values()))} of {len(stimuli)} {noun}: {names}"


def _named(names: Sequence[str]) -> str:
    """Return the first names, separated by commas or, if a name has a comma, by semicolons; and how many more."""
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ("; " if any("," in name for name in names) else ", ").join(names[:_MAX_NAMED]) + more


def _engine_percent(measurement: Measurement, cpus: int) -> float | None:
    """Return the engine's CPU time in percent of what it could get; more threads than CPUs share the CPUs."""
    if measurement.engine_cpu_percent is None or not cpus:
        return None
    return measurement.engine_cpu_percent * max(1.0, measurement.stimulus.thread_count / cpus)


def _stolen_percent(measurement: Measurement, cpus: int) -> float:
    """Return the steal time in percent of the threads' CPU time, as if it affected only the CPUs of the threads."""
    stolen = measurement.telemetry.stolen_percent if measurement.telemetry else None
    return min(100.0, (stolen or 0.0) * max(1.0, cpus / measurement.stimulus.thread_count))


def _drive_percent(measurement: Measurement, dut: Dut) -> float | None:
    """Return the percentage of outstanding I/Os in the drive, by Little's law; None if the target is not a drive.

    The block layer's time is divided by its own requests, which may be split or merged I/Os of the engine.  The start
    and the end of the engine, which have no I/O, are not counted.
    """
    block = measurement.telemetry.block if measurement.telemetry else None
    requests = block.read_ios + block.write_ios if block else 0
    if dut.kind != "drive" or block is None or measurement.telemetry is None or not requests:
        return None
    seconds_per_request = block.queue * measurement.telemetry.seconds / requests
    return min(100.0, 100 * seconds_per_request * measurement.iops / measurement.stimulus.total_oio)


def _judge(share: HostShare, measurement: Measurement, cpus: int) -> tuple[bool | None, tuple[str, ...]]:
    balance = balance_percent(measurement, cpus)
    evidence = tuple(_evidence(share, balance))
    if share.drive_percent is not None and share.drive_percent >= _FULL_PERCENT:
        return _judge_full_queue(share, measurement)
    if evidence:
        return True, evidence
    if any(_evidence(_with_steal_time(share), balance)):
        return None, ("a hypervisor took CPU time that the engine may have needed",)
    if share.engine_percent is None and share.ceiling_percent is None:
        return None, ("the CPU time of the engine is unknown",)
    if share.host_percent is not None and share.host_percent >= _HOST_PERCENT * _usable_cpu_share(
        share, measurement, cpus
    ):
        return None, ("the host's CPUs were busy, and it is unknown whether I/Os waited for them",)
    if share.drive_percent is not None and share.drive_percent < _LOW_PERCENT:
        return None, ("few of the outstanding I/Os were in the drive, although CPUs were idle",)
    return _undecided_if_stolen(share) or (False, ())


def _undecided_if_stolen(share: HostShare) -> tuple[None, tuple[str, ...]] | None:
    """Return an undetermined verdict if the steal time is too high; else None."""
    if share.stolen_percent <= _STOLEN_PERCENT:
        return None
    return None, ("a hypervisor took CPU time, so that I/Os that the drive had completed may have waited",)


def _usable_cpu_share(share: HostShare, measurement: Measurement, cpus: int) -> float:
    """Return the share of the CPUs that the outstanding I/Os can keep busy, if all of them may be in the host."""
    if share.drive_percent is not None or not cpus:
        return 1.0
    return min(1.0, measurement.stimulus.total_oio / cpus)


def _evidence(share: HostShare, balance: float) -> Iterator[str]:
    """Yield the reasons to conclude that the host limited a result."""
    engine, ceiling, host = share.engine_percent, share.ceiling_percent, share.host_percent
    if engine is not None and engine >= min(_ENGINE_PERCENT, balance):
        yield "the engine used the available CPU time"
    if ceiling is not None and ceiling >= min(_CEILING_PERCENT, balance):
        yield "the IOPS were close to those on a null target"
    is_active = engine is not None and engine >= _ACTIVE_PERCENT
    few_in_drive = share.drive_percent is None or share.drive_percent < _LOW_PERCENT
    if host is not None and host >= _HOST_PERCENT and is_active and few_in_drive:
        yield "the host's CPUs were busy with the engine and other work"


def _with_steal_time(share: HostShare) -> HostShare:
    """Return the share as if the engine would have used all of the steal time."""
    engine, ceiling, stolen = share.engine_percent, share.ceiling_percent, share.stolen_percent
    return replace(
        share,
        engine_percent=None if engine is None else engine + stolen,
        ceiling_percent=None if ceiling is None else 100 * ceiling / max(1.0, 100 - stolen),
    )


def _judge_full_queue(share: HostShare, measurement: Measurement) -> tuple[bool | None, tuple[str, ...]]:
    """Judge a point whose I/Os were in the drive, or completed and waiting for the CPU that handles its interrupts."""
    busiest = measurement.telemetry.busiest_cpu_percent if measurement.telemetry else None
    engine = measurement.engine_cpu_percent
    if busiest is not None and busiest >= _CPU_PERCENT and engine is not None and engine < _ENGINE_PERCENT:
        return None, ("one CPU was always busy, and not with the engine; it may handle the drive's interrupts",)
    return _undecided_if_stolen(share) or (False, ("nearly all outstanding I/Os were in the drive",))
