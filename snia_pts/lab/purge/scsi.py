"""Purging by SCSI: Format Unit and Sanitize, by sg3-utils.

Both are commands to a logical unit, but some devices with several (drives with two actuators) erase all of them.  A
method that may erase a logical unit not under test is unavailable.
"""

from __future__ import annotations

import re
from functools import partial

from ..device.identity import attribute
from .method import Method, MethodFailed, MethodUnavailable, PurgeCapability, Tools

_FORMAT_UNIT = ("04", "")
_START_SECONDS = 600.0
_NO_DATA = ("13", "30")
"""SCSI device types of logical units without data: enclosure services, and well-known logical units."""
_READY, _NOT_READY, _UNIT_ATTENTION = 0, 2, 6
"""Exit codes of sg_turs: ready; not ready; unit attention."""


def _require_single_unit(tools: Tools) -> None:
    """Raise MethodUnavailable if this host has other logical units with data of the same target device."""
    device = (tools.sysfs_folder / "device").resolve()
    target, _, _ = device.name.rpartition(":")  # host:channel:target
    others = [
        unit.name
        for unit in sorted(device.parent.glob(f"{target}:*"))
        if target and unit != device and attribute(unit / "type") not in _NO_DATA
    ]
    if others:
        raise MethodUnavailable(
            f"a purge may erase all logical units of the device, and it has others ({', '.join(others)})",
            "Name another method.",
        )


def _format(tools: Tools) -> PurgeCapability:
    _require_single_unit(tools)
    protection_types = [attribute(file) for file in (tools.sysfs_folder / "device/scsi_disk").glob("*/protection_type")]
    if any(protection_type not in ("", "0") for protection_type in protection_types):
        raise MethodUnavailable(
            "the drive is formatted with protection information, which Format Unit would remove",
            "Name another method.",
        )
    commands = _commands(tools)
    if commands and _FORMAT_UNIT not in commands:
        raise MethodUnavailable("the drive does not support Format Unit")
    # Format Unit is mandatory for disks.  A drive that does not list its commands may accept and ignore it.
    caveat = "" if commands else "the drive does not report its supported commands"
    return PurgeCapability(command=("sg_format", "--format", "--quick", "--early", tools.dut.path), caveat=caveat)


def _sanitize(tools: Tools, service_action: str, option: str) -> PurgeCapability:
    _require_single_unit(tools)
    if ("48", service_action) not in _commands(tools):
        raise MethodUnavailable("the drive does not support this sanitize operation")
    return PurgeCapability(command=("sg_sanitize", option, "--quick", "--early", tools.dut.path))


def _commands(tools: Tools) -> set[tuple[str, str]]:
    """Return the operation code and service action of every command that the drive reports as supported."""
    finished = tools.query_once("opcodes", "sg_opcodes", tools.dut.path)
    lines = finished.stdout.splitlines() if finished.exit_code == 0 else []
    matches = (re.match(r" *([0-9a-f]{2}) +(?:([0-9a-f]{1,4}) +)?\d+ +(?:\d+,\d+ +)?\D", line) for line in lines)
    return {(match[1], match[2] or "") for match in matches if match}


def _perform(tools: Tools, capability: PurgeCapability) -> None:
    """Start the operation, and wait until the drive is ready again."""
    tools.run(capability.command, timeout_seconds=_START_SECONDS)
    exit_code = _READY

    def progress() -> float | None:
        nonlocal exit_code
        finished = tools.query("ready", "sg_turs", "--progress", tools.dut.path)
        exit_code, percent = finished.exit_code, re.search(r"(\d+\.\d+)% done", finished.stdout)
        if percent:
            return float(percent[1]) / 100
        return 0.0 if exit_code in (_NOT_READY, _UNIT_ATTENTION) else None

    tools.wait(progress, timeout_seconds=capability.timeout_seconds)
    if exit_code != _READY:
        raise MethodFailed(f"failed: the drive is not ready after it (sg_turs exited with {exit_code})")


def _fits(tools: Tools) -> bool:
    return tools.protocol == "SCSI"


METHODS = (
    Method(
        name="scsi-format",
        title="SCSI Format Unit",
        words=("sg_format", "--format"),
        standard=True,
        fits=_fits,
        query=_format,
        perform=_perform,
    ),
    Method(
        name="scsi-sanitize-block",
        title="SCSI Sanitize, block",
        words=("sg_sanitize", "--block"),
        standard=True,
        fits=_fits,
        query=partial(_sanitize, service_action="2", option="--block"),
        perform=_perform,
    ),
    Method(
        name="scsi-sanitize-crypto",
        title="SCSI Sanitize, crypto",
        words=("sg_sanitize", "--crypto"),
        standard=True,
        fits=_fits,
        query=partial(_sanitize, service_action="3", option="--crypto"),
        perform=_perform,
    ),
)
