"""A profile's points, grouped for its pages: families of workloads with the same axes, and series of points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...model.measurement import Measurement
from ...model.steps import mix
from ...report.figures.figure import Grid, Side
from ...results.result import TestResult
from ...spec import Scalar
from ...units import GIB, KIB, MIB, counted, parse_size
from ..fio_options import fio_value
from ..procedure import Point, axis_label, points
from ..spec import Axis, ProfileSpec

ProfileResult = TestResult[ProfileSpec]

#: The keys of axes whose values are quantities, and their display names.
_QUANTITIES = {
    "block_size": "Block size",
    "range": "Range",
    "thread_count": "Thread count",
    "queue_depth": "Queue depth",
    "read_percent": "R/W mix",
    "seconds": "Duration",
}
_HOST = {"governor": "CPU governor", "scheduler": "I/O scheduler"}
#: Axes that may be logarithmic, because their values are above zero and grow by factors.
_GROWING = ("block_size", "range", "thread_count", "queue_depth")
#: The axes of outstanding I/Os, for curves of response time over IOPS.
DEMANDS = {"queue_depth": "Q", "thread_count": "T"}

#: A repeated pass with fewer I/Os has a note, which names at most this many points.
_FEW_IOS, _MAX_NAMED = 16, 6

#: Reduces the measurements of a point, one per repeat, to one value.
Reduction = Callable[[Sequence[Measurement]], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPoint:
    """A point with its measurements in all complete repeats, and whether the host limited it; None if undetermined."""

    point: Point
    measured: tuple[Measurement, ...]
    host_limited: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points that differ only along the drawn axes; the label has the values of the other axes."""

    label: str
    spots: tuple[PlacedPoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Workloads that vary the same axes, in zones or not, and their points in order."""

    workloads: tuple[str, ...]
    axes: tuple[Axis, ...]
    zoned: bool
    spots: tuple[PlacedPoint, ...]

    @property
    def sequential(self) -> bool:
        """Return whether a workload is sequential, so that its main quantity is MB/s rather than IOPS."""
        return any(spot.point.workload.access == "SEQ" for spot in self.spots)

    @property
    def sides(self) -> tuple[Axis, ...]:
        """Return the axes of the figures: the last two quantity axes; none for zones."""
        return () if self.zoned else tuple(filter(is_quantity, self.axes))[-2:]

    @property
    def choices(self) -> tuple[Axis, ...]:
        """Return the axes whose values are not quantities: settings, engines, switches."""
        return tuple(axis for axis in self.axes if not is_quantity(axis))

    def series(self, over: Iterable[str]) -> tuple[Series, ...]:
        """Return the points in series over the axes with these keys."""
        others = [axis.key for axis in self.axes if axis.key not in tuple(over)]
        spots_by_label: dict[str, list[PlacedPoint]] = {}
        for spot in self.spots:
            names = [spot.point.workload.name] if len(self.workloads) > 1 else []
            label = ", ".join([*names, *(value_label(key, spot.point.axis_values[key]) for key in others)])
            spots_by_label.setdefault(label or spot.point.workload.name, []).append(spot)
        return tuple(Series(label=label, spots=tuple(spots)) for label, spots in spots_by_label.items())


def part(number: int, parts: Sequence[object]) -> str:
    """Return the suffix of a page's title if there are several such pages, else an empty string."""
    return f" ({number} of {len(parts)})" if len(parts) > 1 else ""


def page_cache_note(placed: Sequence[PlacedPoint]) -> str:
    """Return a caption's last sentence if all I/O of these points passed through the page cache of the host."""
    cached = all(measured.stimulus.cached for spot in placed for measured in spot.measured)
    return " All I/O passed through the page cache of the host." if cached else ""


def few_ios_note(placed: Iterable[PlacedPoint]) -> str:
    """Return a sentence on the points that repeat a pass of few I/Os, all on the same blocks; empty if there are none.

    A pass of a stride has an I/O for every ``stride_blocks`` blocks, and the next pass starts with the same block.
    """
    texts = []
    for spot in placed:
        stimulus = spot.measured[-1].stimulus
        if stimulus.passes and stimulus.passes > 1:
            ios = (stimulus.amount_bytes or 0) // stimulus.largest_block_bytes // stimulus.passes
            texts += [f"{spot.point.name} ({counted(ios, 'I/O')})"] * (ios < _FEW_IOS)
    if not texts:
        return ""
    more = f" and {counted(len(texts) - _MAX_NAMED, 'more point')}" if len(texts) > _MAX_NAMED else ""
    return (
        f"A pass with fewer than {_FEW_IOS} I/Os, repeated, reads or writes the same few blocks again and again: "
        f"{', '.join(texts[:_MAX_NAMED])}{more}."
    )


def placed_points(result: ProfileResult) -> tuple[PlacedPoint, ...]:
    """Return the points with at least one complete repeat, grouped by workload."""
    loops = {loop.part: loop for loop in result.loops}
    spots = []
    for point in points(result.facts.spec, result.facts.dut):
        rounds = result.evaluated_rounds(loops[point.name]) if point.name in loops else ()
        if rounds:
            measured = tuple(measurement for repeat in rounds for measurement in repeat.measurements)
            limited = False if result.facts.dut.simulated else result.host_limited(measured)  # it has no host
            spots.append(PlacedPoint(point=point, measured=measured, host_limited=limited))
    names = [workload.name for workload in result.facts.spec.workload]
    return tuple(sorted(spots, key=lambda spot: names.index(spot.point.workload.name)))


def group_by_workload(result: ProfileResult, every: Iterable[PlacedPoint] | None = None) -> tuple[Family, ...]:
    """Return the families of a profile's workloads, in their order; ``every`` are all points, if known already."""
    varied_axes = tuple(axis for axis in result.facts.spec.axis if len(axis.values) > 1)
    by_workload: dict[str, list[PlacedPoint]] = {}
    for spot in placed_points(result) if every is None else every:
        by_workload.setdefault(spot.point.workload.name, []).append(spot)
    grouped: dict[tuple[tuple[Axis, ...], bool, str], list[PlacedPoint]] = {}
    for spots in by_workload.values():
        axes = tuple(axis for axis in varied_axes if axis.applies_to(spots[0].point.workload))
        access = ""
        if result.facts.spec.is_irregular:
            axes = tuple(axis for axis in axes if len({spot.point.axis_values[axis.key] for spot in spots}) > 1)
            access = spots[0].point.workload.access
        for spot in spots:
            grouped.setdefault((axes, spot.point.zone > 0, access), []).append(spot)
    return tuple(
        Family(
            workloads=tuple(dict.fromkeys(spot.point.workload.name for spot in spots)),
            axes=axes,
            zoned=zoned,
            spots=tuple(spots),
        )
        for (axes, zoned, _), spots in grouped.items()
    )


def is_quantity(axis: Axis) -> bool:
    """Return whether an axis' values are quantities rather than choices; an option with values 0 and 1 is a switch."""
    numbers = [value for value in axis.values if isinstance(value, int | float) and not isinstance(value, bool)]
    return axis.key in _QUANTITIES or (len(numbers) == len(axis.values) and max(numbers) > 1)


def axis_name(axis: Axis) -> str:
    """Return the display name of an axis: ``Queue depth``, ``CPU governor``, ``option ioengine``."""
    if axis.setting:
        return _HOST.get(axis.setting, axis.setting)
    return _QUANTITIES.get(axis.key) or f"option {axis.key.removeprefix('fio.')}"


def value_label(key: str, value: Scalar) -> str:
    """Return the label of a value on an axis, as in the names of points."""
    return f"{key.removeprefix('host.')} {value}" if key.startswith("host.") else axis_label(key, value)


def key_of(axis: Axis, value: Scalar) -> int:
    """Return the numeric key of a value on its axis: a size in bytes, an integer, or else its index from 0."""
    if axis.key in ("block_size", "range"):
        return parse_size(str(value))
    whole = all(isinstance(item, int) for item in axis.values)
    return int(value) if whole else axis.values.index(value)


def side(axis: Axis, placed: Iterable[PlacedPoint]) -> Side:
    """Return an axis as a side of a figure: the values in ``placed``, ascending if they are amounts."""
    known = {spot.point.axis_values[axis.key] for spot in placed}
    values = [value for value in axis.values if value in known]
    if axis.key in _GROWING or axis.key == "read_percent":
        values.sort(key=lambda value: key_of(axis, value))
    keys = tuple(key_of(axis, value) for value in values)
    unit, labels = _labels(axis, values, keys)
    title = f"{axis_name(axis)}{f' ({unit})' if unit else ''}"
    return Side(title=title, keys=keys, labels=labels, log=axis.key in _GROWING and len(keys) > 2)


def _labels(axis: Axis, values: Sequence[Scalar], keys: Sequence[int]) -> tuple[str, tuple[str, ...]]:
    match axis.key:
        case "block_size":
            return "KiB", tuple(f"{size / KIB:g}" for size in keys)
        case "range":
            size, unit = (GIB, "GiB") if min(keys) >= GIB else (MIB, "MiB")
            return unit, tuple(f"{key / size:g}" for key in keys)
        case "read_percent":
            return "%", tuple(mix(key) for key in keys)
        case "seconds":
            return "s", tuple(f"{value:g}" for value in values)
    return "", tuple(fio_value(value) for value in values)


def grid(placed: Iterable[PlacedPoint], across: Axis, deep: Axis, reduce: Reduction) -> Grid:
    """Return the reduced value of every point, by its keys on two axes."""
    return {
        (key_of(across, spot.point.axis_values[across.key]), key_of(deep, spot.point.axis_values[deep.key])): reduce(
            spot.measured
        )
        for spot in placed
    }


def along(placed: Iterable[PlacedPoint], axis: Axis) -> Mapping[int, PlacedPoint]:
    """Return the points of a series by their keys on an axis, ascending."""
    return dict(sorted((key_of(axis, spot.point.axis_values[axis.key]), spot) for spot in placed))


def zones(series: Series) -> Iterator[tuple[float, float, PlacedPoint]]:
    """Yield the points of a zoned series with the start and end of each, in bytes of the target.

    If the size of the target is not known, start and end are zone numbers; all zones have the same size.
    """
    for spot in sorted(series.spots, key=lambda spot: spot.point.zone):
        stimulus = spot.point.stimulus
        first = float(stimulus.range_offset_bytes)
        if not stimulus.range_bytes:
            yield spot.point.zone - 1.0, float(spot.point.zone), spot
            continue
        yield first, first + stimulus.range_bytes, spot
