"""Workload profile: not a test of the standard, but run like one (``docs/profiles.rst``).

Workloads in a matrix over axes, repeated::

    Purge and fill the target, if the profile requests it
    for each combination of host settings:
        for repeat in 1..n:
            for each point of the axes, each workload, each zone of its range:
                prepare the host: apply and verify its settings; drop the page cache if the workload is cold
                Purge, if the workload is fresh
                the stimulus; if a pass over its range is too short for a rate, repeat it with more passes

Each point is a separate loop with one round per repeat, so that its results are found by its name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ..errors import TargetUnfit
from ..model.dut import Dut
from ..model.steps import FILE_COUNT, ContinuousStimulus, Prepare, Purge, Round, Stimulus, mix
from ..procedures.points import NamedPoint
from ..procedures.protocol import Procedure, run_continuous
from ..procedures.ranges import require_sectors
from ..procedures.rounds import measured_round
from ..spec import Scalar
from ..spec.reader import format_value
from ..units import MIB, block_size, capacity, duration, parse_size
from .fio_options import fio_value
from .spec import WHOLE, ProfileSpec, Workload

#: Maximum attempts and passes of a point.  Each attempt aims at ``_MARGIN`` times the minimum time.
_MAX_ATTEMPTS, _MAX_PASSES, _MARGIN = 6, 65536, 1.5
#: Block size and Queue Depth of the fill.  A smaller target is filled with one block of its size.
_FILL_BYTES, _FILL_DEPTH = MIB, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Point(NamedPoint):
    """One point of a profile's matrix, with its workload.

    ``zone`` counts from 1; 0 means that the range is not divided.
    """

    workload: Workload
    zone: int
    settings: tuple[tuple[str, str], ...]


def profile(spec: ProfileSpec, dut: Dut) -> Procedure[None]:
    """Yield the steps of a profile on ``dut``.

    Raises TargetUnfit before the first step if ``dut`` cannot run one of the points.
    """
    all_points = points(spec, dut)
    if spec.purge:
        yield Purge()
    passes: dict[str, int] = {}
    if spec.fill:
        for file_count in dict.fromkeys(point.workload.file_count for point in all_points):
            yield from run_continuous(_fill(dut, all_points, file_count))
    for settings in spec.settings():
        points_of_settings = [point for point in all_points if point.settings == settings]
        for number in range(1, spec.repeats + 1):
            for point in points_of_settings:
                passes[point.name] = yield from _measure(
                    point, number, passes.get(point.name, 1), round(1000 * spec.minimum_seconds)
                )


def _measure(point: Point, number: int, passes: int, minimum_ms: int) -> Procedure[int]:
    """Measure one repeat of a point, starting with ``passes`` passes; return the passes that were needed."""
    cold = point.workload.cold and point.zone <= 1
    if point.settings or cold:
        yield Prepare(part=point.name, settings=point.settings, cold=cold)
    if point.workload.fresh and point.zone <= 1:
        yield Purge(part=point.name)
    if point.workload.sample_seconds is None:
        return (yield from _measure_long_enough(point, number, passes, minimum_ms))
    yield from run_continuous(
        ContinuousStimulus(
            part=point.name, phase="stimulus", stimulus=point.stimulus, sample_seconds=point.workload.sample_seconds
        )
    )
    return passes


def _measure_long_enough(point: Point, number: int, passes: int, minimum_ms: int) -> Procedure[int]:
    """Request a point's stimulus with more and more passes until it lasts ``minimum_ms``; return the passes.

    A fresh or cold pass is not repeated, because the range would then be written already, or be in the page cache.
    """
    runs_once = point.stimulus.passes is None or point.workload.fresh or point.workload.cold
    for _ in range(_MAX_ATTEMPTS):
        stimuli = (point.stimulus if runs_once else replace(point.stimulus, passes=passes),)
        outcomes = yield Round(part=point.name, number=number, stimuli=stimuli)
        runtime_ms = measured_round(number, stimuli, outcomes).measurements[0].runtime_ms
        if runs_once or runtime_ms >= minimum_ms or passes == _MAX_PASSES:
            break
        passes = min(_MAX_PASSES, math.ceil(_MARGIN * passes * minimum_ms / max(1, runtime_ms)))
    return passes


def points(spec: ProfileSpec, dut: Dut) -> tuple[Point, ...]:
    """Return every point of a profile once, in the order of a repeat.

    Raises TargetUnfit if a range or block does not fit ``dut``, or if two points have the same name.
    """
    by_name: dict[str, Point] = {}
    for settings in spec.settings():
        for workload, axis_values in spec.cases():
            for point in _zones(spec, workload, axis_values, settings, dut):
                if point.name in by_name:
                    raise TargetUnfit(path=dut.path, reason=f"the profile has two points with the name {point.name!r}")
                by_name[point.name] = point
    return tuple(by_name.values())


def _zones(
    spec: ProfileSpec,
    workload: Workload,
    axis_values: Mapping[str, Scalar],
    settings: tuple[tuple[str, str], ...],
    dut: Dut,
) -> Iterator[Point]:
    """Yield the points of a workload: one, or one for each zone of its range."""
    range_bytes, block = workload.range_bytes or dut.capacity_bytes, workload.block_size_bytes
    parts = [axis_label(key, value) for key, value in axis_values.items() if key in spec.named_axes]
    parts += [f"{name} {value}" for name, value in settings if f"host.{name}" in spec.named_axes]
    for zone in range(1, workload.zones + 1):
        zone_part = [f"zone {zone}"] if workload.zones > 1 else []
        name = ", ".join([workload.name, *parts, *zone_part])
        offset = range_bytes * (zone - 1) // workload.zones // block * block
        unit = block * workload.file_count  # files have whole blocks
        size = range_bytes * zone // workload.zones // unit * unit - offset
        _require_fit(workload, name, range_bytes, size, dut)
        yield Point(
            workload=workload,
            axis_values={**axis_values, **{f"host.{key}": value for key, value in settings}},
            zone=zone if zone_part else 0,
            settings=settings,
            stimulus=_stimulus(workload, name, offset, size),
        )


def _require_fit(workload: Workload, name: str, range_bytes: int, size: int, dut: Dut) -> None:
    """Raise TargetUnfit if a range is larger than the target, or has less than one block for each thread.

    An imported target is not checked, because another tool has already run the workload on it.
    """
    if dut.kind == "imported":
        return
    if workload.file_count > 1 and dut.kind != "file":
        raise TargetUnfit(
            path=dut.path,
            reason=f"it is not a file system, and {name} needs {workload.file_count} files",
            hint="Give a directory as the target.",
        )
    if range_bytes > dut.capacity_bytes:
        raise TargetUnfit(
            path=dut.path,
            reason=f"its capacity is {capacity(dut.capacity_bytes)}, but {name} needs {capacity(range_bytes)}",
            hint="Use a larger target or a smaller --range.",
        )
    if size < workload.block_size_bytes * workload.thread_count or not size:
        label = block_size(workload.block_size_bytes)
        reason = f"{capacity(size)} is less than one block of {label} for each thread of {name}"
        raise TargetUnfit(path=dut.path, reason=reason)
    if workload.fio.get("direct", 1) in (1, "1") and not workload.fio.get("buffered"):
        sizes = [share.size_bytes for share in workload.block_shares] or [workload.block_size_bytes]
        require_sectors(dut, sizes, name)


def _stimulus(workload: Workload, name: str, offset: int, size: int) -> Stimulus:
    block, passes = workload.block_size_bytes, 1 if workload.seconds is None else None
    if passes and workload.access == "RND":  # each thread uses an equal share of the range, in whole blocks
        unit = block * math.lcm(workload.thread_count, workload.file_count)
        size = size // unit * unit
    skips = {"backward": -2 * block, "record": -block, "stride": (workload.stride_blocks - 1) * block}
    return Stimulus(
        name=name,
        access=workload.access,
        read_percent=workload.read_percent,
        block_size_bytes=workload.blocks,
        thread_count=workload.thread_count,
        queue_depth=workload.queue_depth,
        range_offset_bytes=offset,
        range_bytes=size,
        seconds=workload.seconds,
        passes=passes,
        ramp_seconds=workload.ramp_seconds,
        skip_bytes=skips.get(workload.order, 0),  # from the end of a block to the start of the next one
        options=tuple(sorted((key, fio_value(value)) for key, value in workload.fio.items())),
    )


def axis_label(key: str, value: Scalar) -> str:
    """Return the part of a point's name that a value of an axis adds."""
    match key:
        case "block_size":
            return value_text(key, value)
        case "range":
            return f"over {value_text(key, value)}"
        case "thread_count":
            return f"T{value}"
        case "queue_depth":
            return f"Q{value}"
        case "read_percent":
            return mix(int(value))
        case "seconds":
            return duration(float(value))
    return f"{key.removeprefix('fio.')}={fio_value(value)}"


def value_text(key: str, value: Scalar) -> str:
    """Return a value of an axis as text, with one unit for one size: ``1M`` is ``1024 KiB`` of a block size."""
    if key not in ("block_size", "range"):
        return format_value(value)
    size = 0 if value == WHOLE else parse_size(str(value))
    if key == "block_size":
        return block_size(size)
    return _format_binary_size(size) if size else "all"


def _format_binary_size(size: int) -> str:
    """Return a size in the largest binary unit that divides it."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size % 1024**power == 0:
            return f"{size // 1024**power} {unit}"
    return f"{size} B"


def _fill(dut: Dut, all_points: tuple[Point, ...], file_count: int) -> ContinuousStimulus:
    """Return the stimulus that writes the range of all points on ``file_count`` files once, sequentially."""
    stimuli = [point.stimulus for point in all_points if point.workload.file_count == file_count]
    end = max(stimulus.range_offset_bytes + stimulus.range_bytes for stimulus in stimuli)
    sector = dut.logical_sector_bytes
    size = end if file_count > 1 else min(dut.capacity_bytes, -(-end // sector) * sector)
    block = min(_FILL_BYTES, size) if file_count == 1 else math.gcd(_FILL_BYTES, size // file_count)
    return ContinuousStimulus(
        part=f"{file_count} files" if file_count > 1 else "",
        phase="fill",
        stimulus=Stimulus(
            access="SEQ",
            read_percent=0,
            block_size_bytes=block,
            thread_count=1,
            queue_depth=_FILL_DEPTH,
            range_offset_bytes=0,
            range_bytes=size,
            passes=1,
            options=((FILE_COUNT, str(file_count)),) if file_count > 1 else (),
        ),
    )
