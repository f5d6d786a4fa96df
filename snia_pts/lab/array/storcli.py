"""Virtual drives of Broadcom (LSI, Avago) MegaRAID controllers by storcli, and of Dell's PERC by perccli: one language.

A virtual drive of the suite has a name that the suite drew for it; by it alone it is known as the suite's own.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...array import Layout, Member
from ...errors import ToolMissing
from ...units import KIB
from .. import process
from ..device import ROOT, attribute
from ..process import Tick
from .programs import Programs, Unmade

IDENTITY = r"pts[0-9a-f]{12}"
#: The names that the programs go by.
_PROGRAMS = {"storcli": ("storcli64", "storcli"), "perccli": ("perccli64", "perccli")}
_POLICIES = {
    "write through": "wt", "write back": "wb", "always write back": "awb", "read ahead": "ra",
    "no read ahead": "nora", "direct": "direct", "cached": "cached",
}  # fmt: skip
#: The state of a physical drive that belongs to nothing.
_FREE = "UGood"
_OPTIMAL = "Optl"
_APPEARING_SECONDS = 60.0
_STILL_SECONDS = 3600.0
_PAUSE_SECONDS = (0.5, 30.0)
_SECTORS = re.compile(r"\[0x([0-9a-f]+) Sectors\]", re.IGNORECASE)
_SECTOR_BYTES = {"512B": 512, "4 KB": 4096, "4KB": 4096}


class Storcli:
    """A virtual drive; ``identity`` is its name."""

    def __init__(self, layout: Layout, identity: str = "", *, root: Path = ROOT) -> None:
        self._layout, self._root = layout, root
        self._kind, self._index = layout.controller, layout.index
        self.identity = identity or f"pts{secrets.token_hex(6)}"

    @classmethod
    def of(cls, kind: str, index: int, identity: str, *, root: Path = ROOT) -> Storcli:
        """Return a virtual drive that a note tells of: enough to find it, and to delete it."""
        layout = Layout(
            format=1, controller="perccli" if kind == "perccli" else "storcli", level=0, members=("0:0", "0:1"),
            device="/dev/sd", index=index,
        )  # fmt: skip
        return cls(layout, identity, root=root)

    @property
    def place(self) -> str:
        """What a note calls it by."""
        return f"{self._kind} {self._index} {self.identity}"

    def version(self) -> str:
        """Return program, controller and firmware."""
        answer = self._ask("show", "show")
        tool = answer["Command Status"].get("CLI Version", "version unknown")
        said = answer["Response Data"]
        firmware = said.get("FW Version") or said.get("FW Package Build") or "unknown"
        return f"{self._kind} {tool}; {said.get('Product Name', 'unknown controller')}, firmware {firmware}"

    def members(self, evidence: Path | None = None) -> tuple[Member, ...]:
        """Return the physical drives of the layout; raises Unmade for one that is not free, or not there."""
        return tuple(self._member(slot, evidence) for slot in self._layout.members)

    def create(self, members: Sequence[str], evidence: Path, *, clean: bool) -> Path:
        """Make the virtual drive of free slots, and return its device; raises Unmade.

        It is made consistent by a full initialization, which ``clean`` leaves out.
        """
        self._ask("add", "add", "vd", *self._creation(members), evidence=evidence)
        number, _, _ = self._found(evidence)
        self._ask("autobgi", "set", "autobgi=off", place=f"/v{number}", evidence=evidence)
        if self._layout.redundant and not clean:
            self._ask("init", "start", "init", "full", "force", place=f"/v{number}", evidence=evidence)
        return self._appeared(evidence)

    def wait(self, device: Path, tick: Tick | None = None) -> None:
        """Wait until no initialization goes on, and the virtual drive is optimal; raises Unmade."""
        del device
        began = moved = time.monotonic()
        pause, before = _PAUSE_SECONDS[0], ""
        while True:
            number, said, _ = self._found(None)
            going = [each for what in ("init", "bgi") for each in self._operations(number, what)]
            if not going:
                if said.get("State") != _OPTIMAL:
                    raise Unmade(f"virtual drive {number} is {said.get('State')}, not optimal")
                return
            if str(going) != before:
                moved, before = time.monotonic(), str(going)
            if time.monotonic() - moved > _STILL_SECONDS:
                raise Unmade(f"its initialization stands still ({before})")
            if tick is not None:
                tick(time.monotonic() - began, 0)
            time.sleep(pause)
            pause = min(1.5 * pause, _PAUSE_SECONDS[1])

    def told(self, device: Path) -> tuple[tuple[str, str], ...]:
        """Return what the controller says of the virtual drive."""
        del device
        number, said, properties = self._found(None)
        rows = [("Virtual drive", f"/c{self._index}/v{number}"), ("Level", said.get("TYPE", ""))]
        rows += [("Cache policy", said.get("Cache", "")), ("Consistent", said.get("Consist", ""))]
        rows += [(name, properties.get(name, "")) for name in ("Strip Size", "Disk Cache Policy")]
        rows.append(("Write Cache", properties.get("Write Cache(initial setting)", "")))
        return tuple((name, str(value)) for name, value in rows if value)

    def delete(self, members: Sequence[str], evidence: Path | None = None) -> None:
        """Delete the virtual drive, if it is there; raises Unmade."""
        del members
        if (found := self._find(evidence)) is not None:
            self._ask("del", "del", "force", place=f"/v{found[0]}", evidence=evidence)

    def exists(self) -> bool:
        """Whether there is a virtual drive of our name."""
        return self._find(None) is not None

    def clean_up(self) -> None:
        """Delete it; raises Unmade."""
        self.delete(())

    def _creation(self, members: Sequence[str]) -> Iterator[str]:
        layout = self._layout
        yield from (f"type=raid{layout.level}", f"name={self.identity}", f"drives={','.join(members)}")
        if layout.level == 10:
            yield "PDperArray=2"
        yield from (_POLICIES[each] for each in (layout.write_policy, layout.read_policy, layout.io_policy) if each)
        if layout.chunk_bytes:
            yield f"strip={layout.chunk_bytes // KIB}"

    def _ask(self, name: str, *words: str, place: str = "", evidence: Path | None = None) -> dict[str, Any]:
        """Return the answer of the controller; raises Unmade where it says that it failed."""
        argv = (_program(self._kind), f"/c{self._index}{place}", *words, "J")
        done = Programs(evidence).ask(name, *argv)
        said = " ".join(argv[1:-1])
        try:
            answer = json.loads(done.stdout)["Controllers"][0]
            status = answer["Command Status"]["Status"]
        except (ValueError, LookupError, TypeError):
            raise Unmade(f"{self._kind} {said} gave no answer that can be read: {done.complaint}") from None
        if status != "Success":
            raise Unmade(f"{self._kind} {said} failed: {_reasons(answer['Command Status'])}")
        answer.setdefault("Response Data", {})
        return dict(answer)

    def _member(self, slot: str, evidence: Path | None) -> Member:
        enclosure, _, number = slot.partition(":")
        place = f"/e{enclosure}/s{number}"
        data = self._ask(f"drive-{enclosure}-{number}", "show", "all", place=place, evidence=evidence)["Response Data"]
        try:
            name = f"Drive /c{self._index}{place}"
            listed, told = data[name][0], data[f"{name} - Detailed Information"][f"{name} Device attributes"]
        except (LookupError, TypeError):
            raise Unmade(f"{self._kind} does not tell what is in slot {slot}") from None
        if listed.get("State") != _FREE or listed.get("DG", "-") != "-":
            state = f"{listed.get('State')}, drive group {listed.get('DG', '-')}"
            raise Unmade(f"the drive in slot {slot} is not free ({state}; only {_FREE} without a group is)")
        sectors = _SECTORS.search(str(told.get("Raw size", "")))
        if sectors is None:
            raise Unmade(f"the drive in slot {slot} does not tell its size")
        return Member(
            path=slot,
            model=str(told.get("Model Number", listed.get("Model", ""))).strip(),
            serial=str(told.get("SN", "")).strip(),
            firmware=str(told.get("Firmware Revision", "")).strip(),
            capacity_bytes=int(sectors[1], 16) * _SECTOR_BYTES.get(str(told.get("Logical Sector Size")), 512),
            rotational={"SSD": False, "HDD": True}.get(str(listed.get("Med"))),
        )

    def _find(self, evidence: Path | None) -> tuple[int, Mapping[str, Any], Mapping[str, Any]] | None:
        """Return number, row and properties of the virtual drive of our name; None where there is none."""
        data = self._ask("drives", "show", "all", place="/vall", evidence=evidence)["Response Data"]
        for key, rows in data.items():
            known = re.fullmatch(rf"/c{self._index}/v([0-9]{{1,4}})", key)
            if known and rows and rows[0].get("Name") == self.identity:
                number = int(known[1])
                return number, rows[0], data.get(f"VD{number} Properties", {})
        return None

    def _found(self, evidence: Path | None) -> tuple[int, Mapping[str, Any], Mapping[str, Any]]:
        found = self._find(evidence)
        if found is None:
            raise Unmade(f"there is no virtual drive {self.identity}")
        return found

    def _operations(self, number: int, what: str) -> list[str]:
        """Return what goes on of an operation, with its progress."""
        data = self._ask(f"show-{what}", "show", what, place=f"/v{number}")["Response Data"]
        found = [each for each in _rows(data) if "Status" in each]
        return [str(each) for each in found if str(each["Status"]).lower().startswith("in progress")]

    def _appeared(self, evidence: Path) -> Path:
        """Return the kernel's device of the virtual drive: the one that the layout names, if its number is right."""
        until, device = time.monotonic() + _APPEARING_SECONDS, Path(self._layout.device)
        while True:
            wanted = str(self._found(evidence)[2].get("SCSI NAA Id", "")).lower()
            real = Path(os.path.realpath(self._root / str(device).lstrip("/")))
            wwid = attribute(self._root / "sys/class/block" / real.name / "device/wwid").lower()
            if wanted and wwid == f"naa.{wanted}":
                return real
            if time.monotonic() > until:
                there = f"{device} is {wwid}" if wwid else f"there is no {device}"
                raise Unmade(f"the virtual drive naa.{wanted} did not appear as {device} ({there})")
            time.sleep(_PAUSE_SECONDS[0])


def _program(kind: str) -> str:
    """Return the name of the program that is there; raises ToolMissing."""
    for name in _PROGRAMS[kind]:
        try:
            process.find(name)
        except ToolMissing:
            continue
        return name
    raise ToolMissing(
        program=_PROGRAMS[kind][0], package=kind,
        hint=f"Install {_PROGRAMS[kind][0]} from the vendor of the controller, and put it on the PATH.",
    )  # fmt: skip


def _reasons(status: Mapping[str, Any]) -> str:
    """Return why a command failed, in the controller's words."""
    detail = status.get("Detailed Status")
    told = (
        [str(each["ErrMsg"]) for each in detail if each.get("ErrMsg", "-") != "-"] if isinstance(detail, list) else []
    )
    return "; ".join([str(status.get("Description", "no reason given")), *told])


def _rows(data: Any) -> Iterator[Mapping[str, Any]]:
    """Yield every row of an answer, however deep it is."""
    if isinstance(data, Mapping):
        yield data
        for each in data.values():
            yield from _rows(each)
    elif isinstance(data, list):
        for each in data:
            yield from _rows(each)
