"""A workload profile: a measurement outside the standard, as workloads x axes x repeats."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le, MaxLen, MinLen, Predicate

from ..errors import UsageError
from ..model.steps import FILE_COUNT, SYNCHRONOUS_ENGINES, BlockShare, BlockSize
from ..spec.base import HOST, Scalar, Spec, WriteCacheState
from ..spec.limits import Limit
from ..spec.sections import MAX_POINTS, STRICT, Count, Line, Name, Percent, Seconds, require_at_most, require_unique
from ..spec.toml_file import Mistakes, validate
from ..units import block_size, parse_size
from .fio_options import rejection_reason

Label = Annotated[str, MinLen(1), MaxLen(60), Predicate(str.isprintable)]
#: The range that is the whole target.
WHOLE = "whole"
#: Prefix of an override that changes an axis of a profile: ``axis.queue_depth=1,8``.
AXIS = "axis."
#: The host settings that an axis can vary, as ``host.<name>``.
HOST_SETTINGS = ("governor", "scheduler")
#: Syntax of a host setting's value; the host's kernel reports which values exist.
_SETTING = re.compile(r"[a-z][a-z_-]{0,29}")

#: The order of a sequential workload's blocks; ``record`` repeats one block.
Order = Literal["forward", "backward", "stride", "record"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One workload: a test stimulus in the standard's terms, plus any options of fio.

    Without ``seconds``, it passes once over ``range``, from the start of the target.  With ``seconds``, it lasts that
    long; the preceding ``ramp_seconds`` are not counted, and ``sample_seconds``, if set, also divides the result into
    samples.  ``zones`` equal parts of the range are measured in sequence.  Before the workload, ``fresh`` discards the
    content of the target (empties a file, purges a drive), and ``cold`` empties the host's page cache.
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
        if self.name != self.name.strip():
            raise ValueError("a name without spaces at its ends")
        if _is_mix(self.block_size):
            self._require_mix()
        else:
            _require_size("block_size", self.block_size)
        if self.range != WHOLE:
            _require_size("range", self.range)
        if self.order != "forward" and (self.access == "RND" or 0 < self.read_percent < 100 or self.thread_count > 1):
            raise ValueError(f"one thread of sequential reads or sequential writes for order {self.order}")
        if self.access == "SEQ" and 0 < self.read_percent < 100 and self.seconds is None:
            raise ValueError("seconds for a mixed sequential workload")
        if self.ramp_seconds and (self.seconds is None or self.sample_seconds):
            raise ValueError("ramp_seconds only with seconds and without sample_seconds")
        if self.sample_seconds is not None and (self.seconds or 0) < self.sample_seconds:
            raise ValueError("seconds of at least sample_seconds")
        reasons = {option: rejection_reason(option, value) for option, value in self.fio.items()}
        if mistakes := [f"fio.{option}: {reason}" for option, reason in reasons.items() if reason]:
            raise Mistakes(*mistakes)
        if self.queue_depth > 1 and (engine := self.fio.get("ioengine")) in SYNCHRONOUS_ENGINES:
            raise ValueError(f"queue_depth 1 with ioengine {engine}, which waits for each I/O")
        if self.fio.get("ioengine") == "io_uring" and self.queue_depth & (self.queue_depth - 1):
            raise ValueError("a power of two as queue_depth with ioengine io_uring, which rounds it up to one")
        self._require_files()
        if self.fio.get("gtod_reduce", 0) in (1, "1") and (
            self.ramp_seconds or self.sample_seconds or self.fio.keys() & {"fsync", "fdatasync", "end_fsync"}
        ):
            raise ValueError(
                "no ramp_seconds, sample_seconds, fsync, fdatasync or end_fsync with gtod_reduce: they need times"
            )

    def _require_files(self) -> None:
        """Raise ValueError for several files of a workload that cannot have them."""
        service = str(self.fio.get("file_service_type", ""))
        if self.file_count == 1:
            return
        if self.range == WHOLE or self.zones > 1 or self.fresh or self.order != "forward":
            raise ValueError("a range, and no zones, fresh or order, with nrfiles")
        if self.access == "SEQ" and self.thread_count > 1:
            raise ValueError("one thread of sequential access with nrfiles: several would access the same blocks")
        if self.access == "RND" and service.startswith("sequential"):
            raise ValueError("no file_service_type sequential with random access: fio would use the first file only")

    def _require_mix(self) -> None:
        """Raise Mistakes for an invalid mix of block sizes, and ValueError for a workload that cannot have a mix."""
        for part in self.block_size.split(":"):
            size, _, percent = part.partition("/")
            _require_size("block_size", size)
            if not re.fullmatch("[1-9][0-9]?", percent):
                raise Mistakes(f"block_size: {part!r}: expected a size and its share, like 4 KiB/60")
        if sum(share.percent for share in self.block_shares) != 100:
            raise Mistakes(f"block_size: {self.block_size!r}: expected shares that add up to 100")
        if self.access != "RND" or self.seconds is None or self.ramp_seconds:
            raise ValueError("random access, seconds and no ramp_seconds for a mix of block sizes")
        if self.fio.get("norandommap", 1) in (0, "0"):
            raise ValueError(
                "norandommap 1 for a mix of block sizes: with 0, fio shortens blocks, which changes the shares"
            )

    @property
    def block_shares(self) -> tuple[BlockShare, ...]:
        """The shares of a mix of block sizes; empty for a single size."""
        pairs = (part.split("/") for part in self.block_size.split(":") if _is_mix(self.block_size))
        return tuple(BlockShare(size_bytes=parse_size(size), percent=int(percent)) for size, percent in pairs)

    @property
    def blocks(self) -> BlockSize:
        """The block size in bytes, or the shares of a mix."""
        return self.block_shares or self.block_size_bytes

    @property
    def block_size_bytes(self) -> int:
        """The block size in bytes; the largest one of a mix."""
        return max((share.size_bytes for share in self.block_shares), default=0) or parse_size(self.block_size)

    @property
    def file_count(self) -> int:
        """The number of files that share the range; 1 is the target itself, more are a set of files beside it."""
        return int(self.fio.get(FILE_COUNT, 1))

    @property
    def range_bytes(self) -> int | None:
        """The size of the range in bytes; None for the whole target."""
        return None if self.range == WHOLE else parse_size(self.range)

    def with_axis_value(self, key: str, value: Scalar) -> Workload:
        """Return the workload with this value of an axis; raises ValueError if the workload cannot have the value."""
        if key.startswith("fio."):
            return replace(self, fio={**self.fio, key.removeprefix("fio."): value})
        change = {key: str(value) if key in _SIZE_KEYS else value}
        return replace(self, **change)  # type: ignore[arg-type]  # the axis has validated the value's type


@dataclass(frozen=True, slots=True, kw_only=True)
class _AxisValues:
    """The workload keys that an axis can vary, besides ``fio.*`` and ``host.*``, with the types of their values."""

    __pydantic_config__ = STRICT
    block_size: str | int = 0
    thread_count: Count = 1
    queue_depth: Count = 1
    read_percent: Percent = 0
    range: str | int = WHOLE
    seconds: Seconds = 1.0


WORKLOAD_KEYS = tuple(key.name for key in fields(_AxisValues))
#: Keys that are sizes; a number is a size in bytes.
_SIZE_KEYS = ("block_size", "range")


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A workload key, fio option or host setting, and the values to measure.

    Applies to the named workloads, or to all if none is named.
    """

    __pydantic_config__ = STRICT
    key: str
    values: Annotated[tuple[Scalar, ...], MinLen(1), MaxLen(1024)]
    workloads: tuple[Label, ...] = ()

    def __post_init__(self) -> None:
        require_unique(values=[(type(value), value) for value in self.values], workloads=self.workloads)
        prefix, _, name = self.key.partition(".")
        if self.setting:
            if name not in HOST_SETTINGS:
                raise ValueError(f"host.{' or host.'.join(HOST_SETTINGS)}, not {self.key}")
            if self.workloads or not all(isinstance(value, str) and _SETTING.fullmatch(value) for value in self.values):
                raise ValueError(f"{self.key} without workloads, and values as the kernel names them")
        elif self.key not in WORKLOAD_KEYS and not (prefix == "fio" and name):
            raise ValueError(f"a key among {', '.join(WORKLOAD_KEYS)}, fio.<option> and host.<setting>, not {self.key}")
        elif self.key == "block_size" and any(map(_is_mix, map(str, self.values))):
            raise ValueError("single sizes for an axis; a mix of block sizes is a workload of its own")
        elif prefix != "fio" and (mistakes := [line for value in self.values for line in _mistakes(self.key, value)]):
            raise Mistakes(*mistakes)

    @property
    def setting(self) -> str:
        """The host setting that the axis varies; empty for any other axis."""
        return self.key.removeprefix(HOST) if self.key.startswith(HOST) else ""

    def applies_to(self, workload: Workload) -> bool:
        """Return whether the axis varies this workload."""
        return not self.workloads or workload.name in self.workloads


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSetup:
    """The conditions of a profile's run, named as in the standard's tests."""

    write_cache: WriteCacheState
    active_range_percent: int = 100
    data_pattern: Literal["random"] = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSpec(Spec):
    """A workload profile.

    Order of measurement: every combination of host settings, then ``repeats``, then the axes from the first
    (outermost) on, then the workloads.  If a pass over a range takes less than ``minimum_seconds``, it is repeated
    with more passes.  ``purge`` and ``fill`` prepare the target once, before the first point: purge it, then overwrite
    it once sequentially.
    """

    __pydantic_config__ = STRICT
    is_standard: ClassVar[bool] = False
    publisher: ClassVar[str] = "snia-pts"
    document: ClassVar[str] = "Workload Profile"
    authority: ClassVar[str] = "the profile"
    #: What a report calls the specification.
    subject: ClassVar[str] = "Profile"
    #: Whether the points may be any of the combinations of values.  Figures are then over the axes in which the points
    #: of a workload differ, and random and sequential workloads have separate ones.
    is_irregular: ClassVar[bool] = False
    rounds_are_repeats: ClassVar[bool] = True
    any_purge_method: ClassVar[bool] = True
    test: Literal["profile"] = "profile"
    # Without field(), dataclass takes the property of the base class for the default value.
    name: Annotated[
        str, MinLen(1), MaxLen(40), Predicate(lambda text: re.fullmatch("[a-z0-9-]+", text) is not None)
    ] = field()
    title: Name = field()
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
        names = [workload.name for workload in self.workload]
        require_unique(workload=names, axis=[axis.key for axis in self.axis])
        if any(limit.test != self.test for limit in self.limit):
            raise ValueError("limits of the profile, not of a test")
        for axis in self.axis:
            if unknown := [name for name in axis.workloads if name not in names]:
                raise ValueError(f"existing workloads for axis {axis.key}, not {unknown[0]}")
        count = len(self.workload) * max(workload.zones for workload in self.workload) * self.repeats
        for axis in self.axis:
            count *= len(axis.values)
        require_at_most(count, MAX_POINTS, "points in all repeats")
        # Raises ValueError if a workload cannot have a value of an axis.
        measured = {workload.name for workload, _ in self.cases()}
        if unmeasured := [name for name in names if name not in measured]:
            raise ValueError(f"a range of at least one block for workload {unmeasured[0]}")
        several = {workload.name for workload, _ in self.cases() if workload.file_count > 1}
        for workload, _ in self.cases():
            if workload.name not in several and (ignored := workload.fio.keys() & {"openfiles", "file_service_type"}):
                raise ValueError(f"nrfiles of more than 1 for {min(ignored)} of workload {workload.name}")

    @property
    def caption(self) -> str:
        """The title of the profile."""
        return self.title

    @property
    def pts(self) -> str:
        return "none"

    @property
    def subtitle(self) -> str:
        return "workload profile, not a PTS test"

    @property
    def publication(self) -> str:
        return self.source

    @property
    def revision(self) -> str:
        return f"Workload profile {self.name}"

    @property
    def setup(self) -> ProfileSetup:
        return ProfileSetup(write_cache=self.write_cache)

    @property
    def command(self) -> str:
        return f"profile run {self.name}"

    @property
    def own_limits(self) -> tuple[Limit, ...]:
        return self.limit

    @property
    def axes(self) -> Mapping[str, tuple[Scalar, ...]]:
        return {axis.key: axis.values for axis in self.axis}

    @property
    def named_axes(self) -> frozenset[str]:
        """The keys of the axes whose values are part of the names of points."""
        return frozenset(axis.key for axis in self.axis if len(axis.values) > 1)

    @property
    def drops_page_cache(self) -> bool:
        return any(workload.cold for workload in self.workload)

    @property
    def host_requirement(self) -> str:
        if self.varied_settings:
            return f"the setting {HOST}{next(iter(self.varied_settings))}"
        for workload, _ in self.cases():
            if workload.cold:
                return "an empty page cache"
            if workload.fio:
                return f"fio's {next(iter(workload.fio))}"
            if workload.order != "forward":
                return f"the order {workload.order}"
        return ""

    @property
    def purges(self) -> bool:
        return self.purge or any(workload.fresh for workload in self.workload)

    @property
    def purges_first(self) -> bool:
        return self.purge

    @property
    def file_name(self) -> str:
        return f"snia-pts-{self.name}.data"

    @property
    def required_bytes(self) -> int | None:
        sizes = [workload.range_bytes for workload, _ in self.cases()]
        known = [size for size in sizes if size is not None]
        return max(known) if len(known) == len(sizes) else None

    @property
    def file_set_bytes(self) -> int:
        largest: dict[int, int] = {}
        for workload, _ in self.cases():
            largest[workload.file_count] = max(largest.get(workload.file_count, 0), workload.range_bytes or 0)
        return sum(size for count, size in largest.items() if count > 1)

    @property
    def unmeasured_points(self) -> tuple[str, ...]:
        return tuple(
            f"{workload.name}, {block_size(workload.block_size_bytes)} for each of T{workload.thread_count} over "
            f"{block_size(workload.range_bytes or 0)}"
            for workload, values in self._combinations()
            if not _fits(workload, values)
        )

    def settings(self) -> Iterator[tuple[tuple[str, str], ...]]:
        """Yield every combination of host settings as pairs of name and value.

        If no axis varies a host setting, yields one empty combination.
        """
        yield from _host_settings(tuple(axis for axis in self.axis if axis.setting))

    def cases(self) -> Iterator[tuple[Workload, Mapping[str, Scalar]]]:
        """Yield every workload with the values of its axes, except host settings, in the order of a repeat.

        Omits the values of axes with which the range has less than one block for each thread.
        """
        yield from ((workload, values) for workload, values in self._combinations() if _fits(workload, values))

    def _combinations(self) -> Iterator[tuple[Workload, Mapping[str, Scalar]]]:
        """Yield the cases, and those whose block size is larger than the range."""
        axes, yielded = tuple(axis for axis in self.axis if not axis.setting), set()
        for values in _product(axes):
            for template in self.workload:
                workload, axis_values = template, {}
                for axis, value in zip(axes, values, strict=True):
                    if axis.applies_to(template):
                        workload, axis_values[axis.key] = workload.with_axis_value(axis.key, value), value
                key = (template.name, *axis_values.items())
                if key not in yielded:
                    yielded.add(key)
                    yield workload, axis_values


def _fits(workload: Workload, axis_values: Mapping[str, Scalar]) -> bool:
    """Return whether the range has a block for each thread.

    A workload of which no axis varies block size or threads must fit, or is refused.
    """
    needed_bytes = workload.block_size_bytes * max(workload.thread_count, workload.file_count)
    is_varied = not axis_values.keys().isdisjoint({"block_size", "thread_count", f"fio.{FILE_COUNT}"})
    return workload.range_bytes is None or needed_bytes <= workload.range_bytes or not is_varied


def _host_settings(axes: tuple[Axis, ...]) -> Iterator[tuple[tuple[str, str], ...]]:
    for values in _product(axes):
        yield tuple((axis.setting, str(value)) for axis, value in zip(axes, values, strict=True))


def _product(axes: tuple[Axis, ...]) -> Iterator[tuple[Scalar, ...]]:
    """Yield every combination of values; the last axis changes fastest."""
    if not axes:
        yield ()
        return
    for value in axes[0].values:
        yield from ((value, *inner) for inner in _product(axes[1:]))


def _mistakes(key: str, value: Scalar) -> list[str]:
    """Return the mistakes in an axis value of a workload key."""
    if isinstance(value, bool):
        return [f"{key}: {str(value).lower()}: expected a number or a text"]
    return validate(_AxisValues, {key: value})[1]


def _is_mix(block_size_text: str) -> bool:
    """Return whether a block size is a mix, ``4 KiB/60:64 KiB/40``."""
    return "/" in block_size_text


def _require_size(key: str, text: str) -> None:
    try:
        parse_size(text)
    except UsageError:
        raise Mistakes(f"{key}: {text!r}: expected a size like 4 KiB") from None
