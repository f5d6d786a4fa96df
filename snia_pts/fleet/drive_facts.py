"""What a plan needs to know about a drive of another host, as the agent of that host reports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le, MaxLen, Predicate
from pydantic_core import to_jsonable_python

from ..errors import SniaPtsError
from ..lab.device.identity import read_dut
from ..lab.inventory import read_inventory
from ..lab.link_speed import assumed_speed
from ..lab.simulated.preset import read_preset, simulated_dut
from ..model.dut import AssumedSpeed, Dut
from ..model.run_options import SIMULATED
from ..spec.toml_file import validate
from ..text import printable
from .configuration import AgentConfiguration

_MAX_BYTES, _MAX_SECTOR_BYTES, _MAX_TEXT = 1 << 62, 1 << 20, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class DriveFacts:
    """The facts of a drive: those that determine the time of a test and what it writes, and its firmware.

    ``speed`` is that of its link.
    """

    __pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}
    capacity_bytes: Annotated[int, Ge(1), Le(_MAX_BYTES)]
    logical_sector_bytes: Annotated[int, Ge(1), Le(_MAX_SECTOR_BYTES)]
    rotational: bool | None
    bus: Annotated[str, MaxLen(_MAX_TEXT), Predicate(str.isprintable)]
    speed: AssumedSpeed
    firmware: Annotated[str, MaxLen(_MAX_TEXT), Predicate(str.isprintable)] = ""

    def dut(self, model: str, serial: str) -> Dut:
        """Return the drive as the estimator takes it."""
        return Dut(
            path=serial,
            kind="drive",
            model=model,
            serial=serial,
            firmware=self.firmware,
            bus=self.bus,
            capacity_bytes=self.capacity_bytes,
            logical_sector_bytes=self.logical_sector_bytes,
            physical_sector_bytes=self.logical_sector_bytes,
            rotational=self.rotational,
            write_cache="unknown",
            discard=None,
        )


def facts_of(dut: Dut, speed: AssumedSpeed | None = None) -> DriveFacts:
    """Return the facts of a drive of this host; ``speed``: its speed, if that is not the speed of its link."""
    return DriveFacts(
        capacity_bytes=int(dut.capacity_bytes),
        logical_sector_bytes=int(dut.logical_sector_bytes),
        rotational=dut.rotational,
        bus=dut.bus,
        speed=speed or assumed_speed(dut),
        firmware=printable(dut.firmware)[:_MAX_TEXT],
    )


def drive_at(target: str) -> Dut | None:
    """Return the drive at the path ``target``; None for a simulated drive, a file, or a device that is no drive."""
    path = Path(target)
    if target.startswith(SIMULATED) or not path.is_block_device():
        return None
    try:
        dut = read_dut(path)
    except (SniaPtsError, OSError):  # the run will be refused with it
        return None
    return dut if dut.kind == "drive" else None


def target_facts(target: str) -> DriveFacts | None:
    """Return the facts of a target of this host; None if they are not known before a run, as for a file to create."""
    try:
        if target.startswith(SIMULATED):
            name = target.removeprefix(SIMULATED)
            preset = read_preset(name)
            return facts_of(simulated_dut(name, preset), preset.speed)
        return facts_of(read_dut(Path(target)))
    except (SniaPtsError, OSError):  # the run will be refused with it
        return None


def facts_document(facts: DriveFacts) -> dict[str, Any]:
    """Return facts as a JSON object, from which ``parse_facts`` returns equal ones."""
    document: dict[str, Any] = to_jsonable_python(facts)
    return document


def parse_facts(document: object) -> DriveFacts | None:
    """Return the facts in a JSON object that an agent sent; None if there are none, or they are invalid."""
    return validate(DriveFacts, document)[0] if isinstance(document, Mapping) else None


def present_drives(configuration: AgentConfiguration) -> list[dict[str, Any]]:
    """Return serial number, model and facts of each drive that is here; another drive at the path of one is not it.

    The model of a file or a simulated drive is its target.
    """
    drives = []
    for serial, dut in present_duts(configuration).items():
        target = configuration.drives[serial].target
        facts = facts_of(dut) if dut else target_facts(str(target))
        model = dut.model if dut else target
        drives.append({"serial": serial, "model": model, "facts": facts and facts_document(facts)})
    return drives


def present_duts(configuration: AgentConfiguration) -> dict[str, Dut | None]:
    """Return each drive that is here by its serial number; None for a file or a simulated drive."""
    inventory = {device.dut.serial: device.dut for device in read_inventory() if device.dut}
    duts = {}
    for serial, drive in configuration.drives.items():
        dut = inventory.get(serial) if drive.target is None else drive_at(drive.target)
        if dut.identity == serial if dut else drive.target is not None:
            duts[serial] = dut
    return duts
