"""A workload profile: what people measure beside the standard, as workloads x axes x repeats."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Literal

from annotated_types import Ge, Le, MaxLen, MinLen, Predicate

from ..errors import UsageError
from ..units import parse_size
from .fio_options import SYNCHRONOUS_ENGINES, rejection_reason
from .limits import Limit
from .sections import MAX_POINTS, STRICT, Count, Line, Name, Percent, Seconds, require_at_most, require_unique
from .toml_file import Mistakes, validate

#: What a setting of the host, or an option of fio, is given.
Scalar = bool | int | float | str
Label = Annotated[str, MinLen(1), MaxLen(60), Predicate(str.isprintable)]
#: ``whole`` is all of the target.
WHOLE = "whole"
#: What an override of a profile starts with that changes an axis: ``axis.queue_depth=1,8``.
AXIS = "axis."
#: The settings of the host that an axis may go through, each as ``host.<name>``.
HOST_SETTINGS = ("governor", "scheduler")
#: A value of one of them; what there is on a host, its kernel tells.
_SETTING = re.compile(r"[a-z][a-z_-]{0,29}")

#: How the blocks of a sequential workload follow each other: ``record`` is one block again and again.
Order = Literal["forward", "backward", "stride", "record"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One workload: a test stimulus in the standard's words, and any option of fio besides.

    It goes once over ``range``, from the target's beginning, or lasts ``seconds``, what it does in ``ramp_seconds``
    before not counted; it is then told in samples of ``sample_seconds`` too, if wanted.  ``zones`` equal parts of the
    range are measured one after the other.  ``fresh`` discards what the target holds before (a file is empty then, a
    drive purged), ``cold`` empties the host's page cache.
    """

    __pydantic_config__ = STRICT
    name: Label
    access: Literal["RND", "SEQ"]
    read_percent: Percent
    block_size: str
    thread_count: Count = 1
    queue_depth: Count = 1
    range: str = WHOLE
    seconds: Seconds | None = None
    ramp_seconds: Annotated[float, Ge(0), Le(86400)] = 0.0
    order: Order = "forward"
    stride_blocks: Annotated[int, Ge(2), Le(65536)] = 17
    zones: Count = 1
    sample_seconds: Seconds | None = None
    fresh: bool = False
    cold: bool = False
    fio: Mapping[str, Scalar] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _size("block_size", self.block_size)
        if self.range != WHOLE:
            _size("range", self.range)
        if self.order != "forward" and (self.access == "RND" or 0 < self.read_percent < 100 or self.thread_count > 1):
            raise ValueError(f"order {self.order} for one thread of sequential reads or writes")
        if self.access == "SEQ" and 0 < self.read_percent < 100 and self.seconds is None:
            raise ValueError("seconds, for a mixed sequential workload")
        if self.ramp_seconds and (self.seconds is None or self.sample_seconds):
            raise ValueError("ramp_seconds for a workload with seconds, and without samples")
        if self.sample_seconds is not None and (self.seconds or 0) < self.sample_seconds:
            raise ValueError("seconds of at least sample_seconds")
        if mistakes := [
            f"fio.{each}: {why}" for each, value in self.fio.items() if (why := rejection_reason(each, value))
        ]:
            raise Mistakes(*mistakes)
        if self.queue_depth > 1 and (engine := self.fio.get("ioengine")) in SYNCHRONOUS_ENGINES:
            raise ValueError(f"queue_depth 1 with ioengine {engine}, which waits for each I/O")

    @property
    def block_size_bytes(self) -> int:
        return parse_size(self.block_size)

    @property
    def range_bytes(self) -> int | None:
        """The bytes of its range; None for the whole target."""
        return None if self.range == WHOLE else parse_size(self.range)

    def with_axis_value(self, key: str, value: Scalar) -> Workload:
        """Return the workload with the value of an axis; raises ValueError where it cannot have it."""
        if key.startswith("fio."):
            return replace(self, fio={**self.fio, key.removeprefix("fio."): value})
        given = {key: str(value) if key in _SIZES else value}
        return replace(self, **given)  # type: ignore[arg-type]  # the axis looked at its kind


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axial:
    """The keys of a workload that an axis may go through, besides ``fio.*`` and ``host.*``, with what they may be."""

    __pydantic_config__ = STRICT
    block_size: str | int = 0
    thread_count: Count = 1
    queue_depth: Count = 1
    read_percent: Percent = 0
    range: str | int = WHOLE
    seconds: Seconds = 1.0


WORKLOAD_KEYS = tuple(each.name for each in fields(_Axial))
#: A number is a size in bytes.
_SIZES = ("block_size", "range")


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A key of workloads, an option of fio or a setting of the host, and the values it goes through.

    It is of all workloads, or of those that are named.
    """

    __pydantic_config__ = STRICT
    key: str
    values: Annotated[tuple[Scalar, ...], MinLen(1), MaxLen(1024)]
    workloads: tuple[Label, ...] = ()

    def __post_init__(self) -> None:
        require_unique(values=[(type(value), value) for value in self.values], workloads=self.workloads)
        room, _, name = self.key.partition(".")
        if self.setting:
            if name not in HOST_SETTINGS:
                raise ValueError(f"host.{' or host.'.join(HOST_SETTINGS)}, not {self.key}")
            if self.workloads or not all(isinstance(each, str) and _SETTING.fullmatch(each) for each in self.values):
                raise ValueError(f"{self.key} for all workloads, with names as the kernel has them")
        elif self.key not in WORKLOAD_KEYS and not (room == "fio" and name):
            raise ValueError(f"key of {', '.join(WORKLOAD_KEYS)}, fio.<option> or host.<setting>, not {self.key}")
        elif room != "fio" and (mistakes := [each for value in self.values for each in _mistakes(self.key, value)]):
            raise Mistakes(*mistakes)

    @property
    def setting(self) -> str:
        """The setting of the host that it goes through; empty for any other axis."""
        return self.key.removeprefix("host.") if self.key.startswith("host.") else ""

    def of(self, workload: Workload) -> bool:
        """Tell whether a workload goes through it."""
        return not self.workloads or workload.name in self.workloads


WriteCacheState = Literal["as found", "enabled", "disabled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSetup:
    """The conditions of a profile's run, by the names of the standard's tests."""

    write_cache: WriteCacheState
    active_range_percent: int = 100
    data_pattern: Literal["random"] = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSpec:
    """A workload profile.

    Its order: for each combination of host settings, ``repeats`` times, the axes from the first (outermost) on, the
    workloads in each place.  A pass over a range that takes less than ``minimum_seconds`` is repeated with more
    passes.  ``purge`` and ``fill`` say how the target is prepared once, before all: purged, and written over once,
    sequentially.
    """

    __pydantic_config__ = STRICT
    test: Literal["profile"] = "profile"
    name: Annotated[str, MinLen(1), MaxLen(40), Predicate(lambda text: re.fullmatch("[a-z0-9-]+", text) is not None)]
    title: Name
    description: Annotated[str, MinLen(1), MaxLen(2000)]
    source: Line
    repeats: Annotated[int, Ge(1), Le(1000)] = 1
    minimum_seconds: Annotated[float, Ge(0.1), Le(60)] = 0.1
    purge: bool = False
    fill: bool = False
    write_cache: WriteCacheState = "as found"
    workload: Annotated[tuple[Workload, ...], MinLen(1)]
    axis: tuple[Axis, ...] = ()
    limit: tuple[Limit, ...] = ()

    def __post_init__(self) -> None:
        names = [each.name for each in self.workload]
        require_unique(workload=names, axis=[each.key for each in self.axis])
        if any(each.test != self.test for each in self.limit):
            raise ValueError("limit of the profile, not of a test")
        for axis in self.axis:
            if unknown := [name for name in axis.workloads if name not in names]:
                raise ValueError(f"axis {axis.key} of workloads that there are, not {unknown[0]}")
        count = len(self.workload) * max(each.zones for each in self.workload) * self.repeats
        for axis in self.axis:
            count *= len(axis.values)
        require_at_most(count, MAX_POINTS, "points in all repeats")
        left = {workload.name for workload, _ in self.cases()}  # ValueError where an axis does not go with a workload
        if lost := [name for name in names if name not in left]:
            raise ValueError(f"a range that holds a block of some size for workload {lost[0]}")

    @property
    def caption(self) -> str:
        """The profile in words: its title."""
        return self.title

    @property
    def authority(self) -> str:
        return "the profile"

    @property
    def pts(self) -> str:
        return "none"

    @property
    def subtitle(self) -> str:
        return "a workload profile, no test of the standard"

    @property
    def publication(self) -> str:
        return self.source

    @property
    def revision(self) -> str:
        return f"Workload profile {self.name}"

    @property
    def setup(self) -> ProfileSetup:
        return ProfileSetup(write_cache=self.write_cache)

    def settings(self) -> Iterator[tuple[tuple[str, str], ...]]:
        """Give each combination of host settings, as pairs of name and value; one empty one where there is no axis."""
        yield from _combined(tuple(axis for axis in self.axis if axis.setting))

    def cases(self) -> Iterator[tuple[Workload, Mapping[str, Scalar]]]:
        """Give each workload with the values of its axes, those of the host apart, in the order of a repeat.

        Block sizes of an axis that are larger than the range are left out.
        """
        axes, told = tuple(axis for axis in self.axis if not axis.setting), set()
        for values in _product(axes):
            for plain in self.workload:
                workload, place = plain, {}
                for axis, value in zip(axes, values, strict=True):
                    if axis.of(plain):
                        workload, place[axis.key] = workload.with_axis_value(axis.key, value), value
                key = (plain.name, *place.items())
                fits = workload.range_bytes is None or workload.block_size_bytes <= workload.range_bytes
                if key not in told and (fits or "block_size" not in place):
                    told.add(key)
                    yield workload, place


def _combined(axes: tuple[Axis, ...]) -> Iterator[tuple[tuple[str, str], ...]]:
    for values in _product(axes):
        yield tuple((axis.setting, str(value)) for axis, value in zip(axes, values, strict=True))


def _product(axes: tuple[Axis, ...]) -> Iterator[tuple[Scalar, ...]]:
    """Give each combination of values; the last axis changes fastest."""
    if not axes:
        yield ()
        return
    for value in axes[0].values:
        yield from ((value, *rest) for rest in _product(axes[1:]))


def _mistakes(key: str, value: Scalar) -> list[str]:
    """Return what forbids a value of an axis over a key of workloads."""
    if isinstance(value, bool):
        return [f"{key}: {value!r}: expected neither true nor false"]
    return validate(_Axial, {key: value})[1]


def _size(key: str, text: str) -> None:
    try:
        parse_size(text)
    except UsageError:
        raise Mistakes(f"{key}: {text!r}: expected a size like 4 KiB") from None
