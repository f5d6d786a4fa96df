"""The interface of array controllers, and the array as a setting that is restored if a run was killed."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ...errors import ToolMissing
from ...lab.device.identity import ROOT
from ...lab.process.program import Tick
from ...lab.settings.settings import Setting
from ...model.array import Layout
from . import mdadm, storcli
from .mdadm import Mdadm
from .programs import ArrayError
from .storcli import Storcli

KIND = "array"
_CREATED, _NONE = "made", "none"


class Controller(Protocol):
    """Creates and deletes one array; ``place`` identifies it on this host.  All methods raise ArrayError."""

    @property
    def place(self) -> str: ...

    def version(self) -> str:
        """Return the controller's name and version."""
        ...

    def create(self, members: Sequence[str], evidence: Path, *, clean: bool) -> Path:
        """Create the array from unused members and return its device; ``clean`` assumes consistent redundancy."""
        ...

    def wait(self, device: Path, tick: Tick | None = None) -> None:
        """Wait until the redundancy is complete, calling ``tick``."""
        ...

    def properties(self, device: Path) -> tuple[tuple[str, str], ...]:
        """Return the array's properties as reported by the controller."""
        ...

    def delete(self, members: Sequence[str], evidence: Path | None = None) -> None:
        """Delete the array, if it exists, and its metadata on the members."""
        ...

    def exists(self) -> bool:
        """Return whether the array or any of its metadata exists."""
        ...

    def clean_up(self) -> None:
        """Delete the array and its metadata, wherever its members are now."""
        ...


def controller_of(layout: Layout, *, root: Path = ROOT) -> Controller:
    """Return the controller for a new array with this layout."""
    return Mdadm(layout, root=root) if layout.software else Storcli(layout, root=root)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySetting:
    """The array of a run as a Setting: ``none`` before the run, and ``none`` again when it is restored."""

    place: str
    root: Path = ROOT
    kind: str = KIND
    drive: str = ""
    survives_boot: bool = True

    @property
    def name(self) -> str:
        return f"array {self.place.rpartition(' ')[2]}"

    def accepts(self, value: str) -> bool:
        """See Setting; an empty value means that the array is only restored."""
        return value in ("", _CREATED, _NONE)

    def candidates(self) -> Iterator[Setting]:
        """See Setting: there are none, because an array is found wherever its members are."""
        yield from ()

    def read(self) -> str | None:
        """See Setting."""
        controller = _controller(self.place, self.root)
        try:
            return None if controller is None else _CREATED if controller.exists() else _NONE
        except (ArrayError, ToolMissing):
            return None

    def write(self, value: str) -> None:
        """See Setting; the only possible change is to delete the array."""
        controller = _controller(self.place, self.root)
        if controller is None or value != _NONE:
            raise OSError(errno.EINVAL, "the suite deletes only its own arrays")
        try:
            controller.clean_up()
        except (ArrayError, ToolMissing) as error:
            raise OSError(errno.EIO, str(error)) from None


def find(place: str, root: Path = ROOT) -> ArraySetting | None:
    """Return the array at the place that a restore file records; None if it is no place of the suite's arrays."""
    return None if _controller(place, root) is None else ArraySetting(place=place, root=root)


def _controller(place: str, root: Path) -> Controller | None:
    """Return a controller that can delete the array at a place; None if the place is not one of the suite's."""
    if match := re.fullmatch(rf"{mdadm.KIND} ({mdadm.IDENTITY_PATTERN})", place):
        return Mdadm(_ANY, match[1], root=root)
    if match := re.fullmatch(rf"(storcli|perccli) ([0-9]{{1,3}}) ({storcli.IDENTITY_PATTERN})", place):
        return Storcli.from_record(match[1], int(match[2]), match[3], root=root)
    return None


#: Deleting an array needs only its identity, so any layout will do.
_ANY = Layout(format=1, controller="mdadm", level=0, members=("/dev/a", "/dev/b"), chunk="64 KiB")
