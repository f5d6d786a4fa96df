"""Workload profile: no test of the standard, but run as its tests are (``docs/profiles.rst``).

Workloads in a matrix over axes, repeated::

    Purge and fill the target, where the profile wants it
    for each combination of host settings:
        for repeat in 1..n:
            for each point of the axes, each workload, each zone of its range:
                prepare the host: its settings set and read back, its page cache emptied where the workload is cold
                Purge, where the workload is fresh
                the stimulus; if a pass over its range is too short for a rate, again with more passes

Each point is a loop of its own, with a round a repeat, so that its numbers are found by its name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ..errors import TargetUnfit
from ..model.dut import Dut
from ..model.steps import ContinuousStimulus, Prepare, Purge, Round, Stimulus, mix
from ..spec import WHOLE, ProfileSpec, Scalar, Workload
from ..spec.fio_options import spoken
from ..units import MIB, block_size, capacity, duration, parse_size
from .asking import Procedure, stretch
from .ranges import require_sectors
from .rounds import measured_round

#: Limits of the attempts and of the passes of a point; each attempt aims at so many times the time that is required.
_MOST_TRIES, _MOST_PASSES, _MARGIN = 6, 65536, 1.5
#: The target is filled with blocks of this size, or of less where it is no multiple of that.
_FILL_BYTES, _FILL_DEPTH = MIB, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point of a profile's matrix: its workload, where it lies on the axes, and its stimulus, which has its name.

    ``place`` are the values of the axes by their keys, those of the host among them; ``zone`` counts from 1, 0 where
    the range is not cut.
    """

    workload: Workload
    place: Mapping[str, Scalar]
    zone: int
    settings: tuple[tuple[str, str], ...]
    stimulus: Stimulus

    @property
    def name(self) -> str:
        return self.stimulus.name


def profile(spec: ProfileSpec, dut: Dut) -> Procedure[None]:
    """Ask for a profile's workloads on ``dut``.  Raises TargetUnfit before the first step when it cannot run one."""
    found = points(spec, dut)
    if spec.purge:
        yield Purge()
    passes: dict[str, int] = {}
    if spec.fill:
        yield from stretch(_fill(dut, found))
    for settings in spec.settings():
        here = [point for point in found if point.settings == settings]
        for number in range(1, spec.repeats + 1):
            for point in here:
                passes[point.name] = yield from _measured(
                    point, number, passes.get(point.name, 1), round(1000 * spec.shortest_seconds)
                )


def _measured(point: Point, number: int, passes: int, shortest_ms: int) -> Procedure[int]:
    """Measure a repeat of a point, beginning with so many passes; conclude with the passes that it took."""
    cold = point.workload.cold and point.zone <= 1
    if point.settings or cold:
        yield Prepare(part=point.name, settings=point.settings, cold=cold)
    if point.workload.fresh and point.zone <= 1:
        yield Purge(part=point.name)
    if point.workload.sample_seconds is None:
        return (yield from _long_enough(point, number, passes, shortest_ms))
    yield from stretch(
        ContinuousStimulus(
            part=point.name, phase="stimulus", stimulus=point.stimulus, sample_seconds=point.workload.sample_seconds
        )
    )
    return passes


def _long_enough(point: Point, number: int, passes: int, shortest_ms: int) -> Procedure[int]:
    """Ask for a point's stimulus, with more passes until it lasts ``shortest_ms``; conclude with their number.

    A fresh or cold pass is not repeated: the second pass would find the range written, or in the page cache.
    """
    once = point.stimulus.passes is None or point.workload.fresh or point.workload.cold
    for _ in range(_MOST_TRIES):
        stimuli = (point.stimulus if once else replace(point.stimulus, passes=passes),)
        outcomes = yield Round(part=point.name, number=number, stimuli=stimuli)
        runtime_ms = measured_round(number, stimuli, outcomes).measurements[0].runtime_ms
        if once or runtime_ms >= shortest_ms or passes == _MOST_PASSES:
            break
        passes = min(_MOST_PASSES, math.ceil(_MARGIN * passes * shortest_ms / max(1, runtime_ms)))
    return passes


def points(spec: ProfileSpec, dut: Dut) -> tuple[Point, ...]:
    """Return every point of a profile once, in the order of a repeat.

    Raises TargetUnfit for what ``dut`` cannot hold, and for two points that would have the same name.
    """
    named: dict[str, Point] = {}
    for settings in spec.settings():
        for workload, place in spec.cases():
            for point in _zones(spec, workload, place, settings, dut):
                if point.name in named:
                    raise TargetUnfit(path=dut.path, reason=f"the profile has two points called {point.name!r}")
                named[point.name] = point
    return tuple(named.values())


def _zones(
    spec: ProfileSpec, workload: Workload, place: Mapping[str, Scalar], settings: tuple[tuple[str, str], ...], dut: Dut
) -> Iterator[Point]:
    """Give a workload's points: one, or one for each zone of its range."""
    whole, block = workload.range_bytes or dut.capacity_bytes, workload.block_size_bytes
    several = {axis.key for axis in spec.axis if len(axis.values) > 1}
    words = [word(key, value) for key, value in place.items() if key in several]
    words += [f"{name} {value}" for name, value in settings if f"host.{name}" in several]
    for zone in range(1, workload.zones + 1):
        zoned = [f"zone {zone}"] if workload.zones > 1 else []
        name = ", ".join([workload.name, *words, *zoned])
        first = whole * (zone - 1) // workload.zones // block * block
        size = whole * zone // workload.zones // block * block - first
        _require_room(workload, name, whole, size, dut)
        yield Point(
            workload=workload,
            place={**place, **{f"host.{key}": value for key, value in settings}},
            zone=zone if zoned else 0,
            settings=settings,
            stimulus=_stimulus(workload, name, first, size),
        )


def _require_room(workload: Workload, name: str, whole: int, size: int, dut: Dut) -> None:
    """Raise TargetUnfit where the target does not hold a range, or that not a block for each thread."""
    if whole > dut.capacity_bytes:
        raise TargetUnfit(
            path=dut.path,
            reason=f"it holds {capacity(dut.capacity_bytes)}, and {name} wants {capacity(whole)}",
            hint="Take a larger target, or give a smaller --range.",
        )
    if whole and size < workload.block_size_bytes * workload.thread_count:  # 0: an imported disk does not say
        label = block_size(workload.block_size_bytes)
        reason = f"{capacity(size)} cannot hold a block of {label} for each thread of {name}"
        raise TargetUnfit(path=dut.path, reason=reason)
    if workload.fio.get("direct", 1) in (1, "1") and not workload.fio.get("buffered"):
        require_sectors(dut, [workload.block_size_bytes], name)


def _stimulus(workload: Workload, name: str, first: int, size: int) -> Stimulus:
    block, passes = workload.block_size_bytes, 1 if workload.seconds is None else None
    if passes and workload.access == "RND":  # each thread does an equal share of the range, in whole blocks
        size = size // (block * workload.thread_count) * (block * workload.thread_count)
    back = {"backward": -2 * block, "record": -block}  # from the end of a block
    skip = (workload.stride_blocks - 1) * block if workload.order == "stride" else back.get(workload.order, 0)
    return Stimulus(
        name=name,
        access=workload.access,
        read_percent=workload.read_percent,
        block_size_bytes=block,
        thread_count=workload.thread_count,
        queue_depth=workload.queue_depth,
        range_offset_bytes=first,
        range_bytes=size,
        seconds=workload.seconds,
        passes=passes,
        ramp_seconds=workload.ramp_seconds,
        skip_bytes=skip,
        options=tuple(sorted((key, spoken(value)) for key, value in workload.fio.items())),
    )


def word(key: str, value: Scalar) -> str:
    """Return what a value of an axis adds to a point's name."""
    match key:
        case "block_size" | "range":
            size = 0 if value == WHOLE else parse_size(str(value))
            return block_size(size) if key == "block_size" else f"over {_binary(size) if size else 'all'}"
        case "thread_count":
            return f"T{value}"
        case "queue_depth":
            return f"Q{value}"
        case "read_percent":
            return mix(int(value))
        case "seconds":
            return duration(float(value))
    return f"{key.removeprefix('fio.')}={spoken(value)}"


def _binary(size: int) -> str:
    """Return the size of a range in the largest binary unit that it is a multiple of."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size % 1024**power == 0:
            return f"{size // 1024**power} {unit}"
    return f"{size} B"


def _fill(dut: Dut, found: tuple[Point, ...]) -> ContinuousStimulus:
    """Write once, sequentially, all that the points go over."""
    end = max(point.stimulus.range_offset_bytes + point.stimulus.range_bytes for point in found)
    sector = dut.logical_sector_bytes
    size = min(dut.capacity_bytes, -(-end // sector) * sector)
    block = min(_FILL_BYTES, size)
    return ContinuousStimulus(
        phase="WIPC",
        stimulus=Stimulus(
            access="SEQ",
            read_percent=0,
            block_size_bytes=block,
            thread_count=1,
            queue_depth=_FILL_DEPTH,
            range_offset_bytes=0,
            range_bytes=size,
            passes=1,
        ),
    )
