"""What makes an array, whichever it is; and the array as a setting that is put back when a run was killed."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ...errors import ToolMissing
from ...model.array import Layout
from ..device.identity import ROOT
from ..process.program import Tick
from ..settings.settings import Setting
from . import mdadm, storcli
from .mdadm import Mdadm
from .programs import ArrayError
from .storcli import Storcli

KIND = "array"
_MADE, _NONE = "made", "none"


class Controller(Protocol):
    """Makes one array, and takes it apart; ``place`` is what finds it again, on this host.  All raise ArrayError."""

    @property
    def place(self) -> str: ...

    def version(self) -> str:
        """Return what the controller is, and its version."""
        ...

    def create(self, members: Sequence[str], evidence: Path, *, clean: bool) -> Path:
        """Make the array of free members, and return its device; ``clean`` takes its redundancy for consistent."""
        ...

    def wait(self, device: Path, tick: Tick | None = None) -> None:
        """Wait until all redundancy is there; ``tick`` is called meanwhile."""
        ...

    def properties(self, device: Path) -> tuple[tuple[str, str], ...]:
        """Return what the controller says of the array."""
        ...

    def delete(self, members: Sequence[str], evidence: Path | None = None) -> None:
        """Take the array apart, if it is there, so that nothing of it is left on its members."""
        ...

    def exists(self) -> bool:
        """Whether there is anything of the array."""
        ...

    def clean_up(self) -> None:
        """Take apart what there is of the array, wherever its members are by now."""
        ...


def controller_of(layout: Layout, *, root: Path = ROOT) -> Controller:
    """Return what makes an array of this layout, as a new one."""
    return Mdadm(layout, root=root) if layout.software else Storcli(layout, root=root)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySetting:
    """The array of a run as a Setting: before it is none, and none again when it is put back."""

    place: str
    root: Path = ROOT
    kind: str = KIND
    drive: str = ""
    survives_boot: bool = True

    @property
    def name(self) -> str:
        return f"array {self.place.rpartition(' ')[2]}"

    def accepts(self, value: str) -> bool:
        """See Setting; without a value it is only put back."""
        return value in ("", _MADE, _NONE)

    def candidates(self) -> Iterator[Setting]:
        """See Setting: it is found wherever it is."""
        yield from ()

    def read(self) -> str | None:
        """See Setting."""
        found = _known(self.place, self.root)
        try:
            return None if found is None else _MADE if found.exists() else _NONE
        except (ArrayError, ToolMissing):
            return None

    def write(self, value: str) -> None:
        """See Setting; an array is only taken apart."""
        found = _known(self.place, self.root)
        if found is None or value != _NONE:
            raise OSError(errno.EINVAL, "the suite takes its own arrays apart, and nothing else")
        try:
            found.clean_up()
        except (ArrayError, ToolMissing) as failed:
            raise OSError(errno.EIO, str(failed)) from None


def find(place: str, root: Path = ROOT) -> ArraySetting | None:
    """Return the array that a note tells of; None where it is none of the suite's."""
    return None if _known(place, root) is None else ArraySetting(place=place, root=root)


def _known(place: str, root: Path) -> Controller | None:
    """Return what takes an array apart, by the words of a note."""
    if found := re.fullmatch(rf"{mdadm.KIND} ({mdadm.IDENTITY})", place):
        return Mdadm(_ANY, found[1], root=root)
    if found := re.fullmatch(rf"(storcli|perccli) ([0-9]{{1,3}}) ({storcli.IDENTITY})", place):
        return Storcli.from_record(found[1], int(found[2]), found[3], root=root)
    return None


#: What is taken apart is known by its identity alone.
_ANY = Layout(format=1, controller="mdadm", level=0, members=("/dev/a", "/dev/b"), chunk="64 KiB")
