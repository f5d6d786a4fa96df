"""A profile's points as its pages show them: families of workloads that go through the same axes, series of points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from ...model.measurement import Measurement
from ...model.steps import mix
from ...procedures.profile import Point, axis_label, points
from ...results.result import TestResult
from ...spec import Axis, ProfileSpec, Scalar
from ...spec.fio_options import fio_value
from ...units import GIB, KIB, MIB, parse_size
from ..figures.figure import Grid, Side

#: The keys of axes whose values are quantities, and what each is called.
_QUANTITIES = {
    "block_size": "Block size",
    "range": "Range",
    "thread_count": "Thread count",
    "queue_depth": "Queue depth",
    "read_percent": "R/W mix",
    "seconds": "Duration",
}
_HOST = {"governor": "CPU governor", "scheduler": "I/O scheduler"}
#: An axis of these may be logarithmic: its values are above zero, and grow by factors.
_GROWING = ("block_size", "range", "thread_count", "queue_depth")
#: The axes of outstanding I/Os: along them response time is drawn over IOPS.
DEMANDS = {"queue_depth": "Q", "thread_count": "T"}

#: What the measurements of a point, one a repeat, come to.
Reduction = Callable[[Sequence[Measurement]], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPoint:
    """A point, and what was measured of it in all complete repeats."""

    point: Point
    measured: tuple[Measurement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Spots that differ along the drawn axes only: what tells them from other series of their family."""

    label: str
    spots: tuple[PlacedPoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Workloads that go through the same axes of several values, in zones or not, and their spots in order."""

    workloads: tuple[str, ...]
    axes: tuple[Axis, ...]
    zoned: bool
    spots: tuple[PlacedPoint, ...]

    @property
    def sequential(self) -> bool:
        """Whether a workload is sequential: MB/s tells more of it than IOPS."""
        return any(spot.point.workload.access == "SEQ" for spot in self.spots)

    @property
    def sides(self) -> tuple[Axis, ...]:
        """The axes that figures are drawn over: of those of quantities the last two; none over zones."""
        return () if self.zoned else tuple(filter(is_quantity, self.axes))[-2:]

    @property
    def choices(self) -> tuple[Axis, ...]:
        """The axes whose values are no quantities: settings, engines, switches."""
        return tuple(axis for axis in self.axes if not is_quantity(axis))

    def series(self, over: Iterable[str]) -> tuple[Series, ...]:
        """Return the spots in series over the axes of these keys."""
        others = [axis.key for axis in self.axes if axis.key not in tuple(over)]
        found: dict[str, list[PlacedPoint]] = {}
        for spot in self.spots:
            names = [spot.point.workload.name] if len(self.workloads) > 1 else []
            label = ", ".join([*names, *(spoken_at(key, spot.point.axis_values[key]) for key in others)])
            found.setdefault(label or spot.point.workload.name, []).append(spot)
        return tuple(Series(label=label, spots=tuple(placed_points)) for label, placed_points in found.items())


def part(number: int, parts: Sequence[object]) -> str:
    """Return what a page's title has behind it where there are several such pages."""
    return f" ({number} of {len(parts)})" if len(parts) > 1 else ""


def profile_spec(result: TestResult) -> ProfileSpec:
    """Return the profile that a result is of."""
    return cast("ProfileSpec", result.facts.spec)


def placed_points(result: TestResult) -> tuple[PlacedPoint, ...]:
    """Return the points that were measured to the end of a repeat once at least, workload by workload."""
    loops = {loop.part: loop for loop in result.loops}
    found = []
    for point in points(profile_spec(result), result.facts.dut):
        rounds = result.evaluated_rounds(loops[point.name]) if point.name in loops else ()
        if rounds:
            found.append(PlacedPoint(point=point, measured=tuple(each for one in rounds for each in one.measurements)))
    names = [each.name for each in profile_spec(result).workload]
    return tuple(sorted(found, key=lambda spot: names.index(spot.point.workload.name)))


def group_by_workload(result: TestResult, every: Iterable[PlacedPoint] | None = None) -> tuple[Family, ...]:
    """Return the families of a profile's workloads, in the order of these; ``every`` are the spots, if at hand."""
    several = tuple(axis for axis in profile_spec(result).axis if len(axis.values) > 1)
    grouped: dict[tuple[tuple[Axis, ...], bool], list[PlacedPoint]] = {}
    for spot in placed_points(result) if every is None else every:
        axes = tuple(axis for axis in several if axis.applies_to(spot.point.workload))
        grouped.setdefault((axes, spot.point.zone > 0), []).append(spot)
    return tuple(
        Family(
            workloads=tuple(dict.fromkeys(spot.point.workload.name for spot in found)),
            axes=axes,
            zoned=zoned,
            spots=tuple(found),
        )
        for (axes, zoned), found in grouped.items()
    )


def is_quantity(axis: Axis) -> bool:
    """Tell whether an axis' values are quantities, rather than choices: an option that is just 0 or 1 is a switch."""
    numbers = [value for value in axis.values if isinstance(value, int | float) and not isinstance(value, bool)]
    return axis.key in _QUANTITIES or (len(numbers) == len(axis.values) and max(numbers) > 1)


def axis_name(axis: Axis) -> str:
    """Return what an axis is called: ``Queue depth``, ``CPU governor``, ``option ioengine``."""
    if axis.setting:
        return _HOST.get(axis.setting, axis.setting)
    return _QUANTITIES.get(axis.key) or f"option {axis.key.removeprefix('fio.')}"


def spoken_at(key: str, value: Scalar) -> str:
    """Return a place on an axis, as the names of points have it."""
    return f"{key.removeprefix('host.')} {value}" if key.startswith("host.") else axis_label(key, value)


def key_of(axis: Axis, value: Scalar) -> int:
    """Return the place of a value on its axis: a size in bytes, a whole number, or else its number from 0."""
    if axis.key in ("block_size", "range"):
        return parse_size(str(value))
    whole = all(isinstance(each, int) for each in axis.values)
    return int(value) if whole else axis.values.index(value)


def side(axis: Axis, found: Iterable[PlacedPoint]) -> Side:
    """Return an axis as a side of a figure: the values that ``found`` has, ascending where it is one of amounts."""
    known = {spot.point.axis_values[axis.key] for spot in found}
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


def grid(found: Iterable[PlacedPoint], across: Axis, deep: Axis, reduce: Reduction) -> Grid:
    """Return a value for every place that spots have on two axes."""
    return {
        (key_of(across, spot.point.axis_values[across.key]), key_of(deep, spot.point.axis_values[deep.key])): reduce(
            spot.measured
        )
        for spot in found
    }


def along(found: Iterable[PlacedPoint], axis: Axis) -> Mapping[int, PlacedPoint]:
    """Return the spots of a series by their places on an axis, ascending."""
    return dict(sorted((key_of(axis, spot.point.axis_values[axis.key]), spot) for spot in found))


def zones(series: Series) -> Iterator[tuple[float, float, PlacedPoint]]:
    """Give the spots of a zoned series with where each begins and ends, in bytes of the target.

    Zones are alike: of a disk that does not say how large it is, they are counted.
    """
    for spot in sorted(series.spots, key=lambda spot: spot.point.zone):
        stimulus = spot.point.stimulus
        first = float(stimulus.range_offset_bytes)
        if not stimulus.range_bytes:
            yield spot.point.zone - 1.0, float(spot.point.zone), spot
            continue
        yield first, first + stimulus.range_bytes, spot
