"""Manage virtual drives: with storcli on Broadcom (LSI, Avago) MegaRAID controllers, with perccli on Dell's PERC.

Both programs have the same commands.

The suite gives each of its virtual drives a random name, which alone identifies the drive as the suite's.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...errors import TargetBusy, TargetUnfit, ToolMissing
from ...lab.device.identity import ROOT, attribute, block_dut
from ...lab.device.refusals import require_free, stack_of
from ...lab.device.storage import device_path
from ...lab.device.usage import read_usage
from ...lab.process import program as process
from ...lab.process.program import Tick
from ...model.array import Layout, Member
from ...units import KIB
from .answers import (
    CommandRejected,
    VirtualDrive,
    clean_text,
    decode,
    details,
    is_failure,
    reasons,
    rows,
    size_bytes,
    virtual_drives,
)
from .programs import ArrayError, Programs

IDENTITY_PATTERN = r"pts[0-9a-f]{12}"
#: The names of the executables.
_PROGRAMS = {"storcli": ("storcli64", "storcli"), "perccli": ("perccli64", "perccli")}
_POLICIES = {
    "write through": "wt",
    "write back": "wb",
    "always write back": "awb",
    "read ahead": "ra",
    "no read ahead": "nora",
    "direct": "direct",
    "cached": "cached",
}
#: The state of an unused physical drive.
_FREE = "UGood"
_APPEARING_SECONDS = 60.0
_OPERATION_START_SECONDS = 60.0
_STALLED_SECONDS = 3600.0
#: A process that opens a device only briefly, such as udev, closes it within this time.
_TRANSIENT_SECONDS = 10.0
_PAUSE_SECONDS = (0.5, 30.0)
_NO_DRIVES = re.compile(r"No VD'?s have been configured\.?")


class Storcli:
    """Manages a virtual drive; ``identity`` is its name."""

    def __init__(self, layout: Layout, identity: str = "", *, root: Path = ROOT) -> None:
        self._layout, self._root = layout, root
        self._kind, self._index = layout.controller, layout.index
        self.identity = identity or f"pts{secrets.token_hex(6)}"

    @classmethod
    def from_record(cls, kind: str, index: int, identity: str, *, root: Path = ROOT) -> Storcli:
        """Return a recorded virtual drive, with only what is needed to find and delete it."""
        layout = Layout(
            format=1,
            controller="perccli" if kind == "perccli" else "storcli",
            level=0,
            members=("0:0", "0:1"),
            device="/dev/sd",
            index=index,
        )
        return cls(layout, identity, root=root)

    @property
    def place(self) -> str:
        """The entry of a restore file that identifies the virtual drive: program, controller and name."""
        return f"{self._kind} {self._index} {self.identity}"

    def version(self) -> str:
        """Return program, controller and firmware.

        Some controllers report a failure if any drive has a foreign configuration; the version is then unknown.
        """
        try:
            answer = self._ask("show", "show")
        except CommandRejected as rejection:
            return f"{self._kind} version unknown ({rejection.description})"
        tool = clean_text(answer["Command Status"].get("CLI Version")).partition(" ")[0] or "version unknown"
        data = answer["Response Data"] if isinstance(answer["Response Data"], dict) else {}
        firmware = clean_text(data.get("FW Version")) or clean_text(data.get("FW Package Build")) or "unknown"
        return (
            f"{self._kind} {tool}; {clean_text(data.get('Product Name')) or 'unknown controller'}, firmware {firmware}"
        )

    def members(self, evidence: Path | None = None) -> tuple[Member, ...]:
        """Return the physical drives of the layout; raises ArrayError if one is in use or missing."""
        return tuple(self._member(slot, evidence) for slot in self._layout.members)

    def create(self, members: Sequence[str], evidence: Path, *, clean: bool) -> Path:
        """Create the virtual drive from unused slots and return its device; raises ArrayError.

        Unless ``clean``, starts the full initialization that makes the redundancy consistent.
        """
        self._ask("add", "add", "vd", *self._creation_words(members), evidence=evidence)
        drive = self._existing(evidence)
        if sorted(drive.slots) != sorted(members):
            raise ArrayError(
                f"virtual drive {drive.number} is made of {', '.join(drive.slots)}, not of {', '.join(members)}"
            )
        if self._layout.redundant:
            self._ask("autobgi", "set", "autobgi=off", object_path=f"/v{drive.number}", evidence=evidence)
            if not clean:
                self._ask("init", "start", "init", "full", "force", object_path=f"/v{drive.number}", evidence=evidence)
        return self._wait_for_device(evidence)

    def wait(self, device: Path, tick: Tick | None = None) -> None:
        """Wait until no operation is in progress and the drive is optimal and consistent; raises ArrayError."""
        del device
        started = changed = time.monotonic()
        pause, before = _PAUSE_SECONDS[0], ""
        while True:
            drive = self._existing(None)
            operations = [*drive.operations]
            for kind in ("init", "bgi"):
                operations += self._operations(drive.number, kind)
            if str(operations) != before:
                changed, before = time.monotonic(), str(operations)
            if not operations and drive.is_ready(wait=time.monotonic() - changed < _OPERATION_START_SECONDS):
                return
            if time.monotonic() - changed > _STALLED_SECONDS:
                raise ArrayError(f"its initialization has stalled ({before})")
            if tick is not None:
                tick(time.monotonic() - started, 0)
            time.sleep(pause)
            pause = min(1.5 * pause, _PAUSE_SECONDS[1])

    def properties(self, device: Path) -> tuple[tuple[str, str], ...]:
        """Return the virtual drive's properties as reported by the controller."""
        del device
        drive = self._existing(None)
        row, properties = drive.row, drive.properties
        rows = [("Virtual drive", f"/c{self._index}/v{drive.number}"), ("Level", row.get("TYPE", ""))]
        rows += [("Cache policy", row.get("Cache", "")), ("Consistent", row.get("Consist", ""))]
        rows += [(name, properties.get(name, "")) for name in ("Strip Size", "Disk Cache Policy")]
        rows.append(("Write Cache", properties.get("Write Cache(initial setting)", "")))
        return tuple((name, str(value)) for name, value in rows if value)

    def delete(self, members: Sequence[str], evidence: Path | None = None) -> None:
        """Delete the virtual drive if it exists; raises ArrayError, also if it is in use."""
        del members
        if (drive := self._find(evidence)) is not None:
            self._require_unused(drive)
            self._ask("del", "del", "force", object_path=f"/v{drive.number}", evidence=evidence)

    def exists(self) -> bool:
        """Return whether a virtual drive has our name."""
        return self._find(None) is not None

    def clean_up(self) -> None:
        """Delete it; raises ArrayError."""
        self.delete(())

    def _creation_words(self, members: Sequence[str]) -> Iterator[str]:
        layout = self._layout
        # without an enclosure a drive is named by its slot alone, because the program rejects ":0"
        drives = ",".join(slot.removeprefix(":") for slot in members)
        yield from (f"type=raid{layout.level}", f"name={self.identity}", f"drives={drives}")
        if layout.level == 10:
            yield "PDperArray=2"
        yield from (_POLICIES[name] for name in (layout.write_policy, layout.read_policy, layout.io_policy) if name)
        if layout.chunk_bytes:
            yield f"strip={layout.chunk_bytes // KIB}"

    def _ask(self, name: str, *words: str, object_path: str = "", evidence: Path | None = None) -> dict[str, Any]:
        """Return the controller's answer; raises ArrayError if it reports a failure."""
        argv = (_program(self._kind), f"/c{self._index}{object_path}", *words, "J")
        finished = Programs(evidence).run(name, *argv)
        command = " ".join(argv[1:-1])
        try:
            answer = decode(finished.stdout)["Controllers"][0]
            status = answer["Command Status"]
            succeeded, controller = status["Status"] == "Success", status.get("Controller", self._index)
        except (ValueError, LookupError, TypeError, AttributeError):
            raise ArrayError(f"{self._kind} {command}: invalid answer: {finished.error_summary}") from None
        if not succeeded or any(is_failure(detail) for detail in details(status)):
            raise CommandRejected(
                f"{self._kind} {command} failed: {reasons(status)}", str(status.get("Description", ""))
            )
        if str(controller) != str(self._index):
            raise ArrayError(f"{self._kind} {command} was answered by controller {controller}")
        return {"Response Data": {}, **answer}

    def _member(self, slot: str, evidence: Path | None) -> Member:
        enclosure, _, number = slot.partition(":")
        object_path = f"/e{enclosure}/s{number}" if enclosure else f"/s{number}"
        answer = self._ask(f"drive-{enclosure}-{number}", "show", "all", object_path=object_path, evidence=evidence)
        data = answer["Response Data"]
        try:
            name = f"Drive /c{self._index}{object_path}"
            row = dict(data[name][0])
            attributes = dict(data[f"{name} - Detailed Information"][f"{name} Device attributes"])
            reported_slot = str(row["EID:Slt"]).strip()
        except (LookupError, TypeError, ValueError):
            reported_slot = ""
        if reported_slot != slot:
            raise ArrayError(f"{self._kind} does not report the drive in slot {slot}")
        if row.get("State") != _FREE or row.get("DG") != "-":
            state = f"{row.get('State')}, drive group {row.get('DG')}"
            raise ArrayError(f"the drive in slot {slot} is not free ({state}; expected {_FREE} without a drive group)")
        if (size := size_bytes(str(attributes.get("Raw size", "")))) is None:
            raise ArrayError(f"the drive in slot {slot} does not report its size")
        serial = clean_text(attributes.get("SN"))
        if path := self._kernel_device(serial, clean_text(attributes.get("WWN")).lower()):
            raise ArrayError(
                f"the drive in slot {slot} is not free (it is also {path}, where other processes may use it)"
            )
        return Member(
            path=slot,
            model=clean_text(attributes.get("Model Number")) or clean_text(row.get("Model")),
            serial=serial,
            firmware=clean_text(attributes.get("Firmware Revision")),
            capacity_bytes=size,
            rotational={"SSD": False, "HDD": True}.get(str(row.get("Med"))),
        )

    def _kernel_device(self, serial: str, number: str) -> str:
        """Return the kernel's device of a drive; empty if there is none.  Free drives have one with IR firmware."""
        for block in sorted((self._root / "sys/block").glob("*")):
            path = device_path(block, self._root)
            try:
                block_serial = block_dut(path, block.resolve(), self._root).serial
            except TargetUnfit:  # it has no size
                continue
            if (serial and block_serial == serial) or (number and _naa_number(block) == number):
                return str(path)
        return ""

    def _require_unused(self, drive: VirtualDrive) -> None:
        """Raise ArrayError if any process or layer of the host uses the virtual drive."""
        deadline = time.monotonic() + _TRANSIENT_SECONDS
        if not drive.naa:
            raise ArrayError(
                f"virtual drive {drive.number} is not deleted: the controller does not report its NAA number"
            )
        blocks = sorted((self._root / "sys/block").glob("*"))
        # if no device has that number, check those that the layout and the controller name
        devices = (self._layout.device, clean_text(drive.properties.get("OS Drive Name")))
        names = {Path(os.path.realpath(self._root / device.lstrip("/"))).name for device in devices}
        with_number = [block for block in blocks if _naa_number(block) == drive.naa]
        for block in with_number or [block for block in blocks if block.name in names]:
            while True:
                try:
                    usage = read_usage(self._root)
                    require_free(device_path(block, self._root), stack_of(block.resolve(), usage, self._root), usage)
                    break
                except (TargetBusy, TargetUnfit) as refusal:
                    if time.monotonic() > deadline:
                        raise ArrayError(f"virtual drive {drive.number} is not deleted: {refusal}") from None
                    time.sleep(_PAUSE_SECONDS[0])

    def _find(self, evidence: Path | None) -> VirtualDrive | None:
        """Return the virtual drive with our name, or None; raises ArrayError if the answer is unclear."""
        try:
            answer = self._ask("drives", "show", "all", object_path="/vall", evidence=evidence)
        except CommandRejected as rejection:
            if _NO_DRIVES.fullmatch(rejection.description):
                return None
            raise
        try:
            drives = [*virtual_drives(answer["Response Data"], self._index)]
        except (LookupError, TypeError, ValueError, AttributeError):
            drives = []
        if not drives and not _NO_DRIVES.fullmatch(str(answer["Command Status"].get("Description"))):
            raise ArrayError(f"{self._kind} does not report the virtual drives of controller {self._index}")
        ours = [drive for drive in drives if drive.row.get("Name") == self.identity]
        if len(ours) > 1:
            raise ArrayError(
                f"virtual drives {' and '.join(str(drive.number) for drive in ours)} are both {self.identity}"
            )
        return ours[0] if ours else None

    def _existing(self, evidence: Path | None) -> VirtualDrive:
        drive = self._find(evidence)
        if drive is None:
            raise ArrayError(f"there is no virtual drive {self.identity}")
        return drive

    def _operations(self, number: int, kind: str) -> list[str]:
        """Return the operations of a kind (``init`` or ``bgi``) that are in progress."""
        data = self._ask(f"show-{kind}", "show", kind, object_path=f"/v{number}")["Response Data"]
        with_status = [row for row in rows(data) if "Status" in row]
        return [str(row) for row in with_status if str(row["Status"]).lower().startswith("in progress")]

    def _wait_for_device(self, evidence: Path) -> Path:
        """Return the layout's device once its NAA number is the virtual drive's; raises ArrayError on timeout."""
        deadline, device = time.monotonic() + _APPEARING_SECONDS, Path(self._layout.device)
        while True:
            expected = self._existing(evidence).naa
            real = Path(os.path.realpath(self._root / str(device).lstrip("/")))
            number = _naa_number(self._root / "sys/class/block" / real.name)
            if expected and number == expected:
                return real
            if time.monotonic() > deadline:
                actual = f"{device} is naa.{number}" if number else f"there is no {device}"
                raise ArrayError(f"the virtual drive naa.{expected} did not appear as {device} ({actual})")
            time.sleep(_PAUSE_SECONDS[0])


def _program(kind: str) -> str:
    """Return the name of the installed program; raises ToolMissing."""
    for name in _PROGRAMS[kind]:
        try:
            process.find(name)
        except ToolMissing:
            continue
        return name
    raise ToolMissing(
        program=_PROGRAMS[kind][0],
        package=kind,
        hint=f"Install {_PROGRAMS[kind][0]} from the vendor of the controller, and put it on the PATH.",
    )


def _naa_number(block: Path) -> str:
    """Return the NAA number of a SCSI device; empty if it has none."""
    return attribute(block / "device/wwid").lower().removeprefix("naa.")
