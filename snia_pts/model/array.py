"""An array that the suite builds from drives: its requested layout, and the array as built."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le

from ..errors import UsageError
from ..spec.toml_file import Mistakes
from ..units import KIB, MAX_QUANTITY, MIB, Amount, block_size, parse_size
from . import raid

Controller = Literal["mdadm", "storcli", "perccli"]
RaidLevel = Literal[0, 1, 5, 6, 10]
PositiveRate = Annotated[float, Gt(0), Le(MAX_QUANTITY)]

_STRICT = {"extra": "forbid", "allow_inf_nan": False}
#: Properties of an array that may differ each time it is created.
_VARIABLE_PROPERTIES = ("Virtual drive", "Consistent")
_MIN_CHUNK, _MAX_CHUNK = 4 * KIB, 64 * MIB
#: The device names of mdadm.  A member is given by its path, or by enclosure and slot of a controller.
_MD = re.compile(r"/dev/md/[A-Za-z0-9][A-Za-z0-9._-]{0,30}|/dev/md[0-9]{1,3}")
_BLOCK = re.compile(r"/dev/[A-Za-z0-9][A-Za-z0-9!:+._/-]{0,200}")
_SLOT = re.compile(r"[0-9]{0,4}:[0-9]{1,4}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRates:
    """The measured rates of a single member."""

    __pydantic_config__ = _STRICT
    disk_iops: PositiveRate | None = None
    disk_mb_per_second: PositiveRate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The requested array: its ``controller``, level and members, and the path that it gets, ``device``.

    ``chunk`` is the amount of consecutive data on one member.  ``sync`` says whether to wait for the first sync.
    ``bitmap`` is an option of mdadm.  The policies, and the number ``index``, are options of a hardware controller; the
    controller's defaults apply where they are empty.  Raises ValueError with all mistakes.
    """

    __pydantic_config__ = _STRICT
    format: Literal[1]
    controller: Controller
    level: RaidLevel
    members: tuple[str, ...]
    chunk: str = ""
    device: str = "/dev/md/snia-pts"
    sync: Literal["wait", "skip"] = "wait"
    bitmap: Literal["none", "internal"] = "none"
    index: Annotated[int, Ge(0), Le(255)] = 0
    write_policy: Literal["", "write through", "write back", "always write back"] = ""
    read_policy: Literal["", "read ahead", "no read ahead"] = ""
    io_policy: Literal["", "direct", "cached"] = ""
    measured: MemberRates = MemberRates()

    def __post_init__(self) -> None:
        if mistakes := [*self._mistakes()]:
            raise Mistakes(*mistakes)

    @property
    def software(self) -> bool:
        """Whether the kernel builds the array, from drives that are visible to all processes."""
        return self.controller == "mdadm"

    @property
    def array(self) -> raid.Array:
        """The array as input of the calculations in ``raid``."""
        return raid.Array(level=self.level, disks=len(self.members))

    @property
    def chunk_bytes(self) -> int | None:
        """The chunk size; None if the level has no chunks, or if the controller chooses."""
        return parse_size(self.chunk) if self.chunk else None

    @property
    def redundant(self) -> bool:
        """Whether the array needs a sync."""
        return self.level != 0

    @property
    def label(self) -> str:
        """Level, number of members and chunk size: ``RAID 5 of 3, chunk 64 KiB``."""
        chunk = f", chunk {block_size(self.chunk_bytes)}" if self.chunk_bytes else ""
        return f"RAID {self.level} of {len(self.members)}{chunk}"

    def _mistakes(self) -> Iterator[str]:
        try:
            raid.Array(level=self.level, disks=len(self.members))
        except UsageError as error:
            yield f"members: {error} {error.hint}"
        for name in dict.fromkeys(self.members):
            if not (_BLOCK if self.software else _SLOT).fullmatch(name):
                form = "a path such as /dev/sdb" if self.software else "enclosure and slot such as 252:0 or :0"
                yield f"members: {name[:80]!r}: expected {form}"
            if self.members.count(name) > 1:
                yield f"members: {name!r} is listed {self.members.count(name)} times"
        if len({name.startswith(":") for name in self.members}) > 1:  # "252:1,3" would be two slots of one enclosure.
            yield "members: expected an enclosure for all members, or for none"
        if not (_MD if self.software else _BLOCK).fullmatch(self.device):
            form = "/dev/md/NAME or /dev/mdN" if self.software else "the path of the virtual drive, such as /dev/sdb"
            yield f"device: {self.device[:80]!r}: expected {form}"
        if self.device in self.members:
            yield f"device: {self.device!r} is one of the members"
        yield from self._chunk_mistakes()
        yield from self._foreign_keys()

    def _chunk_mistakes(self) -> Iterator[str]:
        if not self.chunk:
            if self.software and self.level != 1:
                yield "chunk: missing key, for example '64 KiB'"
            return
        if self.level == 1:
            yield "chunk: not applicable to RAID 1"
        try:
            size = parse_size(self.chunk)
        except UsageError:
            size = 0
        if not _MIN_CHUNK <= size <= _MAX_CHUNK or size & (size - 1):
            yield f"chunk: {self.chunk[:80]!r}: expected a power of two from 4 KiB to 64 MiB"

    def _foreign_keys(self) -> Iterator[str]:
        """Yield a mistake for each key that belongs to another controller."""
        if self.software:
            values: dict[str, object] = {
                "index": self.index,
                "write_policy": self.write_policy,
                "read_policy": self.read_policy,
                "io_policy": self.io_policy,
            }
            yield from (f"{name}: only valid for storcli and perccli" for name, value in values.items() if value)
        else:
            if self.bitmap != "none":
                yield "bitmap: only valid for mdadm"
            if self.sync != "wait":
                yield "sync: only valid for mdadm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A drive of an array; ``path`` is its address at the controller if the kernel has no path for it."""

    path: str
    model: str
    serial: str
    firmware: str
    capacity_bytes: Amount
    rotational: bool | None = None

    @property
    def identity(self) -> str:
        """The serial number, else the name: what distinguishes the member from the others."""
        return self.serial or self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """The 4 KiB IOPS of a single member by read share in percent, and the source of these values."""

    iops: tuple[tuple[Amount, PositiveRate], ...]
    source: str

    def iops_at(self, read_percent: float) -> float:
        """Return the IOPS at a read share.  Between the known shares, the time per I/O is interpolated linearly."""
        points = sorted(self.iops)
        below = max((point for point in points if point[0] <= read_percent), default=points[0])
        above = min((point for point in points if point[0] >= read_percent), default=points[-1])
        if below[0] == above[0]:
            return below[1]
        fraction = (read_percent - below[0]) / (above[0] - below[0])
        return 1 / ((1 - fraction) / below[1] + fraction / above[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltArray:
    """The array as built: the controller's ``version``, the ``properties`` it reports, and the members in order."""

    layout: Layout
    version: str
    members: tuple[Member, ...]
    properties: tuple[tuple[str, str], ...] = ()
    speeds: Speeds | None = None

    def difference(self, other: BuiltArray) -> str:
        """Return how an array that was created again differs from this one; empty if it is the same.

        The members may have other names.  What the controller reports is compared if it has reported it for both: an
        array that is not created yet has no properties.
        """
        before, after = self._fixed_values, other._fixed_values
        changed = [name for name in before if name in after and before[name] != after[name]]
        added = len(other.members) - len(self.members)
        if added:
            return f"members of the array: expected {len(self.members)}, got {len(other.members)}"
        return "".join(f"{name} of the array: expected {before[name]}, got {after[name]}" for name in changed[:1])

    @property
    def _fixed_values(self) -> dict[str, object]:
        """The values that must not change during a run, by their names."""
        layout = self.layout
        requested = {
            "controller": layout.controller,
            "level": layout.level,
            "chunk": block_size(layout.chunk_bytes) if layout.chunk_bytes else "none",
            "sync": layout.sync,
            "bitmap": layout.bitmap,
            "write policy": layout.write_policy,
            "read policy": layout.read_policy,
            "I/O policy": layout.io_policy,
        }
        members = {
            f"member {number}": f"{member.model} {member.serial} {member.firmware}, {member.capacity_bytes} bytes"
            for number, member in enumerate(self.members, start=1)
        }
        reported = {name: value for name, value in self.properties if name not in _VARIABLE_PROPERTIES}
        return {**requested, **members, **reported}

    @property
    def rotational(self) -> bool | None:
        """Whether a member rotates.  The kernel's flag is not used: it is wrong for arrays that were built degraded."""
        kinds = {member.rotational for member in self.members}
        return True if True in kinds else False if kinds == {False} else None

    def predicted_iops(self, read_percent: float) -> float | None:
        """Return the predicted IOPS for small random I/Os at a read share; None if no speeds are known.

        The prediction uses the members' IOPS at the mix of reads and writes that the array generates from the front
        end's.
        """
        if self.speeds is None:
            return None
        workload = raid.ArrayWorkload(read_percent=read_percent)
        work = raid.disk_work(self.layout.array, workload, 1)
        disk_read_percent = 100 * (work.read_iops + work.pre_read_iops) / work.total_iops
        return raid.front_end_iops(self.layout.array, workload, self.speeds.iops_at(disk_read_percent))
