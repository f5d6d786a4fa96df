"""Asks a drive for its own log, before and after a test: by nvme-cli, or by smartctl.

Reading it is no part of the test: a tool that is missing, or a drive that does not tell, is told and stops nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any

from ..dut import Dut
from ..errors import SniaPtsError
from ..health import Figure, Health, Role, Unit
from ..units import GB, GIB, MIB, MOST
from . import process
from .evidence import looked_up

_TIMEOUT_SECONDS = 20.0
_MOST_FIGURES, _LONGEST_TEXT = 200, 120
_KELVIN = 273
#: A data unit is a thousand sectors of 512 bytes, rounded up (NVMe base specification, SMART / Health Information).
_DATA_UNIT_BYTES = 512_000

#: What an answer becomes.
Reader = Callable[[Mapping[str, Any], Dut], Iterator[Figure]]

#: The NVMe SMART log: nvme-cli's keys (of several versions), the specification's names, units and meaning.
_NVME: tuple[tuple[tuple[str, ...], str, Unit, Role], ...] = (
    (("critical_warning",), "Critical Warning", "", "state"),
    (("temperature",), "Composite Temperature", "°C", ""),
    (("avail_spare", "available_spare"), "Available Spare", "%", ""),
    (("spare_thresh", "available_spare_threshold"), "Available Spare Threshold", "%", ""),
    (("percent_used", "percentage_used"), "Percentage Used", "%", ""),
    (("data_units_read",), "Data Units Read", "bytes", ""),
    (("data_units_written",), "Data Units Written", "bytes", "host written"),
    (("host_read_commands",), "Host Read Commands", "", ""),
    (("host_write_commands",), "Host Write Commands", "", ""),
    (("controller_busy_time",), "Controller Busy Time", "min", ""),
    (("power_cycles",), "Power Cycles", "", ""),
    (("power_on_hours",), "Power On Hours", "h", ""),
    (("unsafe_shutdowns",), "Unsafe Shutdowns", "", "fault"),
    (("media_errors",), "Media and Data Integrity Errors", "", "fault"),
    (("num_err_log_entries",), "Error Information Log Entries", "", ""),
    (("warning_temp_time",), "Warning Composite Temperature Time", "min", "heat"),
    (("critical_comp_time",), "Critical Composite Temperature Time", "min", "heat"),
    (("thm_temp1_trans_count",), "Thermal Management Temperature 1 Transitions", "", "heat"),
    (("thm_temp2_trans_count",), "Thermal Management Temperature 2 Transitions", "", "heat"),
    (("thm_temp1_total_time",), "Thermal Management Temperature 1 Time", "s", "heat"),
    (("thm_temp2_total_time",), "Thermal Management Temperature 2 Time", "s", "heat"),
)
_OCP: tuple[tuple[tuple[str, ...], str, Unit, Role], ...] = (
    (("Physical media units written", "physical_media_units_written"), "Physical Media Units Written", "bytes",
     "media written"),
    (("Physical media units read", "physical_media_units_read"), "Physical Media Units Read", "bytes", ""),
)  # fmt: skip
#: ATA attributes that should not grow: reallocated, end-to-end, uncorrectable and pending sectors, CRC errors.
_ATA_FAULTS = frozenset((5, 184, 187, 197, 198, 199))
#: ATA attributes whose names tell what they count, and in what: smartctl knows the drive then.
_WRITES = re.compile(
    r"(?P<by>Host|Lifetime|NAND|Total_NAND)_Writes_(?P<unit>1?GiB|32MiB|MiB)|(?P<media>NAND)_GB_Written"
)
_WRITE_UNITS = {"GiB": GIB, "1GiB": GIB, "32MiB": 32 * MIB, "MiB": MIB, None: GB}


def read_health(dut: Dut, evidence: Path) -> Health | None:
    """Return what a drive tells of its life; None of what is no drive.  Reads only, and raises nothing.

    What its tools said stays in the folder ``evidence``, under the number of what was measured last.
    """
    if dut.kind != "drive":
        return None
    asked: tuple[tuple[str, Reader, tuple[str, ...]], ...] = (
        ("smart", smartctl, ("smartctl", "-j", "-a", "-l", "devstat", dut.path)),
    )
    if dut.bus.startswith("NVMe"):
        asked = (
            ("smart-log", smart_log, ("nvme", "smart-log", dut.path, "-o", "json")),
            ("ocp", ocp_log, ("nvme", "ocp", "smart-add-log", dut.path, "-o", "json")),
        )
    figures: list[Figure] = []
    unread: list[str] = []
    kept: list[str] = []
    for name, reader, argv in asked:
        place = _unused(evidence, name)
        try:
            finished = process.run(argv, evidence=place, timeout_seconds=_TIMEOUT_SECONDS)
            kept.append(f"{place.name}.process.json")
            if finished.timed_out:  # a drive that does not answer is not asked again
                unread.append(f"{argv[0]} had no answer in {_TIMEOUT_SECONDS:g} s")
                break
            figures += figures_of(finished.stdout, reader, dut)
        except NotTold as silence:
            unread.append(_plain(f"{' '.join(argv[:-3])}: {silence} ({finished.complaint})"))
        except (SniaPtsError, OSError) as error:
            unread.append(_plain(str(error)))
    return Health(
        at=datetime.now().astimezone().isoformat(timespec="milliseconds"), figures=tuple(figures),
        unread=tuple(unread), evidence=tuple(kept),
    )  # fmt: skip


class NotTold(Exception):
    """A tool's answer holds nothing of what was asked."""


def figures_of(answer: str, reader: Reader, dut: Dut) -> tuple[Figure, ...]:
    """Return the figures in a tool's answer; raises NotTold where it has none."""
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        raise NotTold("it gave no JSON") from None
    if not isinstance(found, dict):
        raise NotTold("it gave no JSON object")
    figures = tuple(islice(reader(found, dut), _MOST_FIGURES))
    if not figures:
        raise NotTold("it tells nothing of the drive")
    return figures


def _unused(evidence: Path, name: str) -> Path:
    """Return a place for evidence, by the number of the last: one that no reading before has taken."""
    first = looked_up(evidence, f"health-{name}")
    places = (first, *(first.with_name(f"{first.name}-{number}") for number in range(2, 1000)))
    return next(each for each in places if not each.with_suffix(".process.json").exists())


# -- NVMe -------------------------------------------------------------------------------------------------------------


def smart_log(found: Mapping[str, Any], dut: Dut) -> Iterator[Figure]:
    """Give what nvme smart-log tells."""
    del dut
    for keys, name, unit, role in _NVME:
        value = _first(found, keys)
        if value is None:
            continue
        if unit == "°C":
            value -= _KELVIN
        elif unit == "bytes":
            value *= _DATA_UNIT_BYTES
        yield from _figure(name, value, unit, "NVMe SMART log", role)


def ocp_log(found: Mapping[str, Any], dut: Dut) -> Iterator[Figure]:
    """Give what nvme ocp smart-add-log tells of the media, in bytes (OCP Datacenter NVMe SSD, log page C0h)."""
    del dut
    for keys, name, unit, role in _OCP:
        value = _first(found, keys)
        if value is not None:
            yield from _figure(name, value, unit, "OCP log C0h", role)


def _first(found: Mapping[str, Any], keys: tuple[str, ...]) -> float | None:
    return next((value for key in keys if (value := _number(found.get(key))) is not None), None)


# -- ATA and SCSI -----------------------------------------------------------------------------------------------------


def smartctl(found: Mapping[str, Any], dut: Dut) -> Iterator[Figure]:
    """Give what smartctl tells of an ATA or SCSI drive."""
    passed = _part(found, "smart_status").get("passed")
    if isinstance(passed, bool):
        yield from _figure("SMART status failed", 0 if passed else 1, "", "SMART status", "state")
    yield from _figure("Temperature", _number(_part(found, "temperature").get("current")), "°C", "smartctl")
    yield from _figure("Power-on time", _number(_part(found, "power_on_time").get("hours")), "h", "smartctl")
    yield from _statistics(found, dut)
    yield from _attributes(found)
    yield from _scsi(found)


def _statistics(found: Mapping[str, Any], dut: Dut) -> Iterator[Figure]:
    """Give what the ATA standard itself defines: sectors by the host, and errors of the interface and of the media."""
    roles: Mapping[str, tuple[Unit, Role]] = {
        "Logical Sectors Written": ("bytes", "host written"), "Logical Sectors Read": ("bytes", ""),
        "Number of Reported Uncorrectable Errors": ("", "fault"), "Number of Interface CRC Errors": ("", "fault"),
        "Percentage Used Endurance Indicator": ("%", ""),
    }  # fmt: skip
    for page in _rows(_part(found, "ata_device_statistics").get("pages")):
        for row in _rows(page.get("table")):
            name, value = _plain(row.get("name")), _number(row.get("value"))
            if name in roles and value is not None and _part(row, "flags").get("valid", True):
                unit, role = roles[name]
                scale = dut.logical_sector_bytes if unit == "bytes" else 1
                yield from _figure(name, scale * value, unit, "ATA device statistics", role)


def _attributes(found: Mapping[str, Any]) -> Iterator[Figure]:
    for row in _rows(_part(found, "ata_smart_attributes").get("table")):
        number, name = row.get("id"), _plain(row.get("name"))
        raw = _part(row, "raw")
        # Other numbers may be packed into the raw value; smartctl's text begins with the one that counts.
        told = re.match(r"(\d{1,18})(?![\dx])", text) if isinstance(text := raw.get("string"), str) else None
        value = _number(told[1] if told else raw.get("value"))
        if not isinstance(number, int) or value is None:
            continue
        role: Role = "fault" if number in _ATA_FAULTS else ""
        yield from _figure(f"{number % 256} {name}", value, "", "ATA SMART attributes", role)
        if writes := _WRITES.fullmatch(name):
            by = writes["media"] or writes["by"]
            scaled: Role = "media written" if "NAND" in by else "host written"
            yield from _figure(
                f"{name}, in bytes", value * _WRITE_UNITS[writes["unit"]], "bytes", "ATA SMART attributes", scaled
            )  # fmt: skip


def _scsi(found: Mapping[str, Any]) -> Iterator[Figure]:
    log, source = _part(found, "scsi_error_counter_log"), "SCSI log pages"
    roles: Mapping[str, Role] = {"read": "", "write": "host written", "verify": ""}
    for side, role in roles.items():
        counters = _part(log, side)
        moved = _number(counters.get("gigabytes_processed"))
        if moved is not None:
            yield from _figure(f"Bytes processed, {side}", GB * moved, "bytes", source, role)
        uncorrected = _number(counters.get("total_uncorrected_errors"))
        yield from _figure(f"Uncorrected errors, {side}", uncorrected, "", source, "fault")
    yield from _figure("Grown defect list", _number(found.get("scsi_grown_defect_list")), "", source, "fault")
    used = _number(found.get("scsi_percentage_used_endurance_indicator"))
    yield from _figure("Percentage used endurance indicator", used, "%", source)
    others = _first(found, ("scsi_nonmedium_error_count", "scsi_non_medium_error_count"))
    yield from _figure("Non-medium errors", others, "", source)


# -- what may be anything ---------------------------------------------------------------------------------------------


def _figure(name: str, value: float | None, unit: Unit, source: str, role: Role = "") -> Iterator[Figure]:
    """Give a figure, unless its value is none that a drive has."""
    if value is not None and abs(value) <= MOST:
        yield Figure(name=name, value=float(value), unit=unit, source=source, role=role)


def _number(told: object) -> float | None:
    """Return the number that a tool tells, in any of the ways that its versions do; None where it tells none."""
    if isinstance(told, dict):
        if "value" in told:
            return _number(told["value"]) if not isinstance(told["value"], dict) else None
        high, low = told.get("hi"), told.get("lo")
        told = (high << 64) + low if isinstance(high, int) and isinstance(low, int) else None
    if isinstance(told, str) and re.fullmatch(r"\d{1,20}(\.\d{1,20})?", told):
        told = float(told)
    if isinstance(told, bool) or not isinstance(told, int | float) or not -MOST <= told <= MOST:
        return None
    return float(told) if isfinite(told) else None


def _part(found: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = found.get(key)
    return part if isinstance(part, dict) else {}


def _rows(told: object) -> list[Mapping[str, Any]]:
    return [row for row in told if isinstance(row, dict)] if isinstance(told, list) else []


def _plain(told: object) -> str:
    """Return words as text of one line that can be kept, whatever a drive or a tool makes of them."""
    words = " ".join(told.split()).encode("utf-8", "replace").decode() if isinstance(told, str) else ""
    return words if len(words) <= _LONGEST_TEXT else f"{words[:_LONGEST_TEXT]}\N{HORIZONTAL ELLIPSIS}"
