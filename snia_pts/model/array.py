"""An array that the suite makes of drives, as values: what is asked for, and what became of it."""

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
Known = Annotated[float, Gt(0), Le(MAX_QUANTITY)]

_STRICT = {"extra": "forbid", "allow_inf_nan": False}
_LEAST_CHUNK, _MOST_CHUNK = 4 * KIB, 64 * MIB
#: A device that mdadm makes is named; a member is named by its path, or by enclosure and slot of a controller.
_MD = re.compile(r"/dev/md/[A-Za-z0-9][A-Za-z0-9._-]{0,30}|/dev/md[0-9]{1,3}")
_BLOCK = re.compile(r"/dev/[A-Za-z0-9][A-Za-z0-9!:+._/-]{0,200}")
_SLOT = re.compile(r"[0-9]{0,4}:[0-9]{1,4}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a member does by itself."""

    __pydantic_config__ = _STRICT
    disk_iops: Known | None = None
    disk_mb_per_second: Known | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """An array as it is asked for: by which ``controller``, of what level and members, to appear as ``device``.

    ``chunk`` is what lies on one member before the next one's turn.  ``sync`` is whether the first sync is waited for.
    ``bitmap`` is mdadm's; the policies and ``index``, its number, are those of a hardware controller, which has its own
    where nothing is said.  Raises ValueError with every mistake.
    """

    __pydantic_config__ = _STRICT
    format: Literal[1]
    controller: Controller
    level: Literal[0, 1, 5, 6, 10]
    members: tuple[str, ...]
    chunk: str = ""
    device: str = "/dev/md/snia-pts"
    sync: Literal["wait", "skip"] = "wait"
    bitmap: Literal["none", "internal"] = "none"
    index: Annotated[int, Ge(0), Le(255)] = 0
    write_policy: Literal["", "write through", "write back", "always write back"] = ""
    read_policy: Literal["", "read ahead", "no read ahead"] = ""
    io_policy: Literal["", "direct", "cached"] = ""
    measured: Measured = Measured()

    def __post_init__(self) -> None:
        if mistakes := [*self._mistakes()]:
            raise Mistakes(*mistakes)

    @property
    def software(self) -> bool:
        """Whether the kernel makes the array, of drives that are there for everybody."""
        return self.controller == "mdadm"

    @property
    def array(self) -> raid.Array:
        """What can be reckoned with."""
        return raid.Array(level=self.level, disks=len(self.members))

    @property
    def chunk_bytes(self) -> int | None:
        """The chunk; None where there is none, or where the controller is to choose."""
        return parse_size(self.chunk) if self.chunk else None

    @property
    def redundant(self) -> bool:
        """Whether there is something to sync."""
        return self.level != 0

    @property
    def label(self) -> str:
        """``RAID 5 of 3, chunk 64 KiB``."""
        chunk = f", chunk {block_size(self.chunk_bytes)}" if self.chunk_bytes else ""
        return f"RAID {self.level} of {len(self.members)}{chunk}"

    def _mistakes(self) -> Iterator[str]:
        try:
            raid.Array(level=self.level, disks=len(self.members))
        except UsageError as error:
            yield f"members: {error} {error.hint}"
        for name in dict.fromkeys(self.members):
            if not (_BLOCK if self.software else _SLOT).fullmatch(name):
                form = "a path as /dev/sdb" if self.software else "enclosure and slot as 252:0, without an enclosure :0"
                yield f"members: {name[:80]!r}: expected {form}"
            elif self.members.count(name) > 1:
                yield f"members: {name!r} is there {self.members.count(name)} times"
        if len({name.startswith(":") for name in self.members}) > 1:  # "252:1,3" would be two slots of one enclosure
            yield "members: expected all with an enclosure, or all without"
        if not (_MD if self.software else _BLOCK).fullmatch(self.device):
            form = "/dev/md/NAME or /dev/mdN" if self.software else "the path of the virtual drive, as /dev/sdb"
            yield f"device: {self.device[:80]!r}: expected {form}"
        if self.device in self.members:
            yield f"device: {self.device!r} is one of the members"
        yield from self._chunk_mistakes()
        yield from self._foreign()

    def _chunk_mistakes(self) -> Iterator[str]:
        if not self.chunk:
            if self.software and self.level != 1:
                yield "chunk: expected this key, for example '64 KiB'"
            return
        if self.level == 1:
            yield "chunk: RAID 1 has none"
        try:
            size = parse_size(self.chunk)
        except UsageError:
            size = 0
        if not _LEAST_CHUNK <= size <= _MOST_CHUNK or size & (size - 1):
            yield f"chunk: {self.chunk[:80]!r}: expected a power of two from 4 KiB to 64 MiB"

    def _foreign(self) -> Iterator[str]:
        """Tell the keys that belong to another controller."""
        if self.software:
            values: dict[str, object] = {
                "index": self.index,
                "write_policy": self.write_policy,
                "read_policy": self.read_policy,
            }
            values["io_policy"] = self.io_policy
            yield from (f"{name}: expected for storcli and perccli only" for name, value in values.items() if value)
        else:
            if self.bitmap != "none":
                yield "bitmap: expected for mdadm only"
            if self.sync != "wait":
                yield "sync: expected for mdadm only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A drive of an array; ``path`` is its place behind a controller where it has none of the kernel's."""

    path: str
    model: str
    serial: str
    firmware: str
    capacity_bytes: Amount
    rotational: bool | None = None

    @property
    def identity(self) -> str:
        """What tells it from its neighbours: the serial number, else its name."""
        return self.serial or self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """The IOPS of a member with 4 KiB by itself, by the share of reads in percent, and where they come from."""

    iops: tuple[tuple[Amount, Known], ...]
    source: str

    def at(self, read_percent: float) -> float:
        """Return the IOPS with a share of reads; between known shares the time of an I/O changes evenly."""
        known = sorted(self.iops)
        below = max((each for each in known if each[0] <= read_percent), default=known[0])
        above = min((each for each in known if each[0] >= read_percent), default=known[-1])
        if below[0] == above[0]:
            return below[1]
        part = (read_percent - below[0]) / (above[0] - below[0])
        return 1 / ((1 - part) / below[1] + part / above[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltArray:
    """An array as it was made: the controller's ``version``, what it says of the array, and the members in order."""

    layout: Layout
    version: str
    members: tuple[Member, ...]
    told: tuple[tuple[str, str], ...] = ()
    speeds: Speeds | None = None

    @property
    def essence(self) -> tuple[object, ...]:
        """What may not change while a run goes on; the members may have other names."""
        layout = self.layout
        policies = (layout.write_policy, layout.read_policy, layout.io_policy)
        return (
            layout.controller,
            layout.level,
            layout.chunk_bytes,
            layout.sync,
            layout.bitmap,
            *policies,
            *((each.model, each.serial, each.firmware, each.capacity_bytes) for each in self.members),
        )

    @property
    def rotational(self) -> bool | None:
        """Whether a member rotates; the kernel says so of every array that was not whole when it was made."""
        kinds = {each.rotational for each in self.members}
        return True if True in kinds else False if kinds == {False} else None

    def predicted_iops(self, read_percent: float) -> float | None:
        """Return what it should carry of small random I/Os with a share of reads; None where no speeds are known.

        The members' own IOPS are those with the reads and writes that the array makes of the front end's.
        """
        if self.speeds is None:
            return None
        workload = raid.Workload(read_percent=read_percent)
        work = raid.disk_work(self.layout.array, workload, 1)
        reads = 100 * (work.read_iops + work.pre_read_iops) / work.total_iops
        return raid.front_end_iops(self.layout.array, workload, self.speeds.at(reads))
