"""Read a drive's SMART log before and after a test, with nvme-cli or smartctl; OCP's log page C0h is read raw.

Of an NVMe drive, nvme-cli also reads the power state; of a SATA drive, hdparm reads what it supports.

It is not part of the test: a missing tool, or a drive that does not answer, is recorded and does not stop the run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any

from ...errors import SniaPtsError
from ...files import read_regular
from ...model.dut import Dut
from ...model.health import Health, HealthText, HealthValue, Role, Unit
from ...units import GB, GIB, MAX_QUANTITY, MIB
from ..evidence import pre_run_path
from ..process import program as process
from . import ata_features, ocp_log, power_state

_TIMEOUT_SECONDS = 20.0
_MAX_FIGURES, _MAX_TEXT = 200, 120
#: More than the answer for OCP's log page of 512 bytes.
_MOST_PAGE_BYTES = 1 << 20
_KELVIN = 273
#: A data unit is 1000 sectors of 512 bytes, rounded up (NVMe base specification, SMART / Health Information).
_DATA_UNIT_BYTES = 512_000

#: Yields the figures in a tool's parsed answer.
Reader = Callable[[Mapping[str, Any], Dut], Iterator[HealthValue]]

#: The NVMe SMART log: the keys of several versions of nvme-cli, the specification's name, the unit and the role.
_NVME: tuple[tuple[tuple[str, ...], str, Unit, Role], ...] = (
    (("critical_warning",), "Critical Warning", "", "state"),
    (("temperature",), "Composite Temperature", "°C", ""),
    (("avail_spare", "available_spare"), "Available Spare", "%", "spare"),
    (("spare_thresh", "available_spare_threshold"), "Available Spare Threshold", "%", ""),
    (("percent_used", "percentage_used"), "Percentage Used", "%", ""),
    (("data_units_read",), "Data Units Read", "bytes", "host read"),
    (("data_units_written",), "Data Units Written", "bytes", "host written"),
    (("host_read_commands",), "Host Read Commands", "", "count"),
    (("host_write_commands",), "Host Write Commands", "", "count"),
    (("controller_busy_time",), "Controller Busy Time", "min", "count"),
    (("power_cycles",), "Power Cycles", "", "power"),
    (("power_on_hours",), "Power On Hours", "h", "count"),
    (("unsafe_shutdowns",), "Unsafe Shutdowns", "", "fault"),
    (("media_errors",), "Media and Data Integrity Errors", "", "fault"),
    (("num_err_log_entries",), "Error Information Log Entries", "", "count"),
    (("warning_temp_time",), "Warning Composite Temperature Time", "min", "heat"),
    (("critical_comp_time",), "Critical Composite Temperature Time", "min", "heat"),
    (("thm_temp1_trans_count",), "Thermal Management Temperature 1 Transitions", "", "heat"),
    (("thm_temp2_trans_count",), "Thermal Management Temperature 2 Transitions", "", "heat"),
    (("thm_temp1_total_time",), "Thermal Management Temperature 1 Time", "s", "heat"),
    (("thm_temp2_total_time",), "Thermal Management Temperature 2 Time", "s", "heat"),
)
#: The roles of ATA attributes: reallocated and uncorrectable sectors, end-to-end and CRC errors; power cycles; sectors
#: that are pending or uncorrectable until they are written again.
_ATA_ROLES: Mapping[int, Role] = {
    **dict.fromkeys((5, 184, 187, 199), "fault"),
    12: "power",
    **dict.fromkeys((197, 198), "pending"),
}
#: Names of ATA attributes that give their unit; smartctl uses them for drives in its database.
_WRITES = re.compile(
    r"(?P<by>Host|Lifetime|NAND|Total_NAND)_Writes_(?P<unit>1?GiB|32MiB|MiB)|(?P<media>NAND)_GB_Written"
)
_WRITE_UNITS = {"GiB": GIB, "1GiB": GIB, "32MiB": 32 * MIB, "MiB": MIB, None: GB}


def read_health(dut: Dut, evidence: Path) -> Health | None:
    """Return the health data of a drive; None if the target is not a drive.  Only reads, and raises nothing.

    The answers of the tools are kept in the folder ``evidence``, under the number of the last measurement; OCP's log
    page as a file ``*-health-ocp.bin``.
    """
    if dut.kind != "drive":
        return None
    nvme = dut.bus.startswith("NVMe")
    argv: tuple[str, ...]
    name, reader, argv = "smart", smartctl, ("smartctl", "-j", "-a", "-l", "devstat", dut.path)
    if nvme:
        name, reader, argv = "smart-log", smart_log, ("nvme", "smart-log", dut.path, "-o", "json")
    figures: list[HealthValue] = []
    texts: list[HealthText] = []
    unread: list[str] = []
    evidence_names: list[str] = []
    timed_out = False
    path = pre_run_path(evidence, f"health-{name}")
    try:
        finished = process.run(argv, evidence=path, timeout_seconds=_TIMEOUT_SECONDS)
        evidence_names.append(f"{path.name}.process.json")
        timed_out = finished.timed_out
        if timed_out:
            unread.append(f"{argv[0]} had no answer in {_TIMEOUT_SECONDS:g} s")
        else:
            figures += parse_figures(finished.stdout, reader, dut)
    except NoFigures as error:
        unread.append(_one_line(f"{' '.join(argv[:-3])}: {error} ({finished.error_summary})"))
    except (SniaPtsError, OSError) as error:
        unread.append(_one_line(str(error)))
    if nvme and not timed_out:  # a drive that does not answer is not asked again
        page = _read_ocp_page(dut, evidence, evidence_names)
        figures += page.figures
        texts += page.texts
        unread += page.unread
        texts += _read_power_state(dut, evidence, evidence_names, unread)
    if dut.bus == "SATA" and not timed_out:
        texts += _read_ata_features(dut, evidence, evidence_names, unread)
    return Health(
        read_at=datetime.now().astimezone().isoformat(timespec="milliseconds"),
        figures=tuple(figures),
        unread=tuple(unread),
        evidence=tuple(evidence_names),
        texts=tuple(texts),
    )


def _run(
    argv: tuple[str, ...], name: str, evidence: Path, evidence_names: list[str], unread: list[str]
) -> process.Finished | None:
    """Run a tool; adds the name of its evidence, or the reason why it has no answer."""
    path = pre_run_path(evidence, f"health-{name}")
    try:
        finished = process.run(argv, evidence=path, timeout_seconds=_TIMEOUT_SECONDS)
    except (SniaPtsError, OSError) as error:
        unread.append(_one_line(str(error)))
        return None
    evidence_names.append(f"{path.name}.process.json")
    if finished.timed_out:
        unread.append(f"{argv[0]} had no answer in {_TIMEOUT_SECONDS:g} s")
        return None
    return finished


def _read_ata_features(
    dut: Dut, evidence: Path, evidence_names: list[str], unread: list[str]
) -> tuple[HealthText, ...]:
    """Return what a SATA drive supports; adds the name of the evidence, or the reason why it could not be read."""
    finished = _run(("hdparm", "-I", dut.path), "identify", evidence, evidence_names, unread)
    texts = ata_features.parse(finished.stdout) if finished else ()
    if finished and not texts:
        unread.append(_one_line(f"hdparm -I: its output lists no features ({finished.error_summary})"))
    return texts


def _read_power_state(dut: Dut, evidence: Path, evidence_names: list[str], unread: list[str]) -> tuple[HealthText, ...]:
    """Return the power state of an NVMe drive; adds the names of the evidence, or the reason why it was not read."""
    argv = ("nvme", "get-feature", dut.path, "--feature-id=2")
    feature = _run(argv, "power-state", evidence, evidence_names, unread)
    if feature is None:
        return ()
    identity = _run(("nvme", "id-ctrl", dut.path, "-o", "json"), "id-ctrl", evidence, evidence_names, unread)
    texts = power_state.parse(feature.stdout, identity.stdout if identity else "")
    if not texts:
        unread.append(_one_line(f"nvme get-feature: its output has no power state ({feature.error_summary})"))
    return texts


def _read_ocp_page(dut: Dut, evidence: Path, evidence_names: list[str]) -> ocp_log.Decoded:
    """Read OCP's log page C0h and decode it; adds the names of its evidence to ``evidence_names``."""
    path = pre_run_path(evidence, "health-ocp")
    raw = path.with_suffix(".bin")
    argv = ("nvme", "get-log", dut.path, "-i", "0xC0", "-l", "512", "-b")
    try:
        finished = process.run(argv, evidence=path, timeout_seconds=_TIMEOUT_SECONDS, stdout_file=raw)
        evidence_names += [f"{path.name}.process.json", raw.name]
        if finished.timed_out:
            return _no_page(f"nvme had no answer in {_TIMEOUT_SECONDS:g} s")
        decoded = ocp_log.decode(read_regular(raw, _MOST_PAGE_BYTES))
    except ocp_log.PageRejected as error:
        summary = f" ({finished.error_summary})" if finished.exit_code or finished.stderr.strip() else ""
        return _no_page(f"{ocp_log.SOURCE}: {error}{summary}")
    except (SniaPtsError, OSError) as error:
        return _no_page(str(error))
    return replace(decoded, unread=tuple(f"{ocp_log.SOURCE}: {sentence}" for sentence in decoded.unread))


def _no_page(reason: str) -> ocp_log.Decoded:
    return ocp_log.Decoded(figures=(), texts=(), unread=(_one_line(reason),))


class NoFigures(Exception):
    """A tool's answer contains no figure of the drive."""


def parse_figures(answer: str, reader: Reader, dut: Dut) -> tuple[HealthValue, ...]:
    """Return the figures in a tool's answer; raises NoFigures if it has none."""
    try:
        document = json.loads(answer)
    except (ValueError, RecursionError):
        raise NoFigures("its output is not JSON") from None
    if not isinstance(document, dict):
        raise NoFigures("its output is not a JSON object")
    figures = tuple(islice(reader(document, dut), _MAX_FIGURES))
    if not figures:
        raise NoFigures("its output has no figure of the drive")
    return figures


# -- NVMe -------------------------------------------------------------------------------------------------------------


def smart_log(document: Mapping[str, Any], dut: Dut) -> Iterator[HealthValue]:
    """Yield the figures of nvme smart-log."""
    del dut
    for keys, name, unit, role in _NVME:
        value = _first(document, keys)
        if value is None:
            continue
        if unit == "°C":
            value -= _KELVIN
        elif unit == "bytes":
            value *= _DATA_UNIT_BYTES
        yield from _figure(name, value, unit, "NVMe SMART log", role)


def _first(document: Mapping[str, Any], keys: tuple[str, ...]) -> float | None:
    return next((value for key in keys if (value := _number(document.get(key))) is not None), None)


# -- ATA and SCSI -----------------------------------------------------------------------------------------------------


def smartctl(document: Mapping[str, Any], dut: Dut) -> Iterator[HealthValue]:
    """Yield the figures of smartctl on an ATA or SCSI drive."""
    passed = _object(document, "smart_status").get("passed")
    if isinstance(passed, bool):
        yield from _figure("SMART status failed", 0 if passed else 1, "", "SMART status", "state")
    yield from _figure("Temperature", _number(_object(document, "temperature").get("current")), "°C", "smartctl")
    yield from _figure(
        "Power-on time", _number(_object(document, "power_on_time").get("hours")), "h", "smartctl", "count"
    )
    yield from _statistics(document, dut)
    yield from _attributes(document)
    yield from _scsi(document)


def _statistics(document: Mapping[str, Any], dut: Dut) -> Iterator[HealthValue]:
    """Yield the figures that the ATA standard defines: sectors transferred, errors of interface and media."""
    roles: Mapping[str, tuple[Unit, Role]] = {
        "Logical Sectors Written": ("bytes", "host written"),
        "Logical Sectors Read": ("bytes", "host read"),
        "Number of Reported Uncorrectable Errors": ("", "fault"),
        "Number of Interface CRC Errors": ("", "fault"),
        "Percentage Used Endurance Indicator": ("%", ""),
    }
    for page in _rows(_object(document, "ata_device_statistics").get("pages")):
        for row in _rows(page.get("table")):
            name, value = _one_line(row.get("name")), _number(row.get("value"))
            if name in roles and value is not None and _object(row, "flags").get("valid", True):
                unit, role = roles[name]
                scale = dut.logical_sector_bytes if unit == "bytes" else 1
                yield from _figure(name, scale * value, unit, "ATA device statistics", role)


def _attributes(document: Mapping[str, Any]) -> Iterator[HealthValue]:
    for row in _rows(_object(document, "ata_smart_attributes").get("table")):
        number, name = row.get("id"), _one_line(row.get("name"))
        raw = _object(row, "raw")
        # Other numbers may be packed into the raw value; smartctl's text begins with the attribute's own number.
        digits = re.match(r"(\d{1,18})(?![\dx])", text) if isinstance(text := raw.get("string"), str) else None
        value = _number(digits[1] if digits else raw.get("value"))
        if not isinstance(number, int) or value is None:
            continue
        role = _ATA_ROLES.get(number, "")
        yield from _figure(f"{number % 256} {name}", value, "", "ATA SMART attributes", role)
        if writes := _WRITES.fullmatch(name):
            by = writes["media"] or writes["by"]
            scaled: Role = "media written" if "NAND" in by else "host written"
            yield from _figure(
                f"{name}, in bytes", value * _WRITE_UNITS[writes["unit"]], "bytes", "ATA SMART attributes", scaled
            )


def _scsi(document: Mapping[str, Any]) -> Iterator[HealthValue]:
    log, source = _object(document, "scsi_error_counter_log"), "SCSI log pages"
    roles: Mapping[str, Role] = {"read": "host read", "write": "host written", "verify": ""}
    for side, role in roles.items():
        counters = _object(log, side)
        gigabytes = _number(counters.get("gigabytes_processed"))
        if gigabytes is not None:
            yield from _figure(f"Bytes processed, {side}", GB * gigabytes, "bytes", source, role)
        uncorrected = _number(counters.get("total_uncorrected_errors"))
        yield from _figure(f"Uncorrected errors, {side}", uncorrected, "", source, "fault")
    yield from _figure("Grown defect list", _number(document.get("scsi_grown_defect_list")), "", source, "fault")
    endurance = _number(document.get("scsi_percentage_used_endurance_indicator"))
    yield from _figure("Percentage used endurance indicator", endurance, "%", source)
    non_medium = _first(document, ("scsi_nonmedium_error_count", "scsi_non_medium_error_count"))
    yield from _figure("Non-medium errors", non_medium, "", source)


# -- untrusted values -------------------------------------------------------------------------------------------------


def _figure(name: str, value: float | None, unit: Unit, source: str, role: Role = "") -> Iterator[HealthValue]:
    """Yield a figure, unless its value is missing or implausible."""
    if value is not None and abs(value) <= MAX_QUANTITY:
        yield HealthValue(name=name, value=float(value), unit=unit, source=source, role=role)


def _number(value: object) -> float | None:
    """Return a number in any of the forms that the tools' versions use; None if ``value`` is none of them."""
    if isinstance(value, dict):
        if "value" in value:
            return _number(value["value"]) if not isinstance(value["value"], dict) else None
        high, low = value.get("hi"), value.get("lo")
        value = (high << 64) + low if isinstance(high, int) and isinstance(low, int) else None
    if isinstance(value, str) and re.fullmatch(r"\d{1,20}(\.\d{1,20})?", value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not -MAX_QUANTITY <= value <= MAX_QUANTITY:
        return None
    return float(value) if isfinite(value) else None


def _object(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the JSON object under ``key``; an empty one if there is none."""
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def _rows(value: object) -> list[Mapping[str, Any]]:
    """Return the JSON objects of an array; none if ``value`` is not an array."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _one_line(value: object) -> str:
    """Return text as one short line of valid UTF-8; empty if ``value`` is not text."""
    text = " ".join(value.split()).encode("utf-8", "replace").decode() if isinstance(value, str) else ""
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}\N{HORIZONTAL ELLIPSIS}"
