"""Purging by SCSI: Format Unit and Sanitize, by sg3-utils."""

from __future__ import annotations

import re
from functools import partial

from ..device.identity import attribute
from .method import Method, MethodFailed, MethodUnavailable, PurgeCapability, Tools

_FORMAT_UNIT = ("04", "")
_STARTING_SECONDS = 600.0
_READY, _NOT_READY, _UNIT_ATTENTION = 0, 2, 6
"""Exit codes of sg_turs: Test Unit Ready succeeded; not ready; something was to be told first."""


def _format(tools: Tools) -> PurgeCapability:
    protection = [attribute(file) for file in (tools.block / "device/scsi_disk").glob("*/protection_type")]
    if any(kind not in ("", "0") for kind in protection):
        raise MethodUnavailable(
            "it is formatted with protection information, which Format Unit would have to set anew",
            "Name another method.",
        )
    commands = _commands(tools)
    if commands and _FORMAT_UNIT not in commands:
        raise MethodUnavailable("the drive has no Format Unit")
    # Format Unit is mandatory for disks, but one that cannot list its commands may answer to what it does not do.
    doubt = "" if commands else "the drive does not tell which commands it has"
    return PurgeCapability(command=("sg_format", "--format", "--quick", "--early", tools.dut.path), doubt=doubt)


def _sanitize(tools: Tools, service_action: str, option: str) -> PurgeCapability:
    if ("48", service_action) not in _commands(tools):
        raise MethodUnavailable("the drive has no such sanitize operation")
    return PurgeCapability(command=("sg_sanitize", option, "--quick", "--early", tools.dut.path))


def _commands(tools: Tools) -> set[tuple[str, str]]:
    """Return operation code and service action of every command that the drive says it has."""
    finished = tools.ask("opcodes", "sg_opcodes", tools.dut.path)
    lines = finished.stdout.splitlines() if finished.exit_code == 0 else []
    found = (re.match(r" *([0-9a-f]{2}) +(?:([0-9a-f]{1,4}) +)?\d+ +(?:\d+,\d+ +)?\D", line) for line in lines)
    return {(line[1], line[2] or "") for line in found if line}


def _do(tools: Tools, offer: PurgeCapability) -> None:
    """Begin, and wait until the drive is ready again."""
    tools.act(offer.command, limit_seconds=_STARTING_SECONDS)
    last = _READY

    def progress() -> float | None:
        nonlocal last
        finished = tools.look("ready", "sg_turs", "--progress", tools.dut.path)
        last, percent = finished.exit_code, re.search(r"(\d+\.\d+)% done", finished.stdout)
        if percent:
            return float(percent[1]) / 100
        return 0.0 if last in (_NOT_READY, _UNIT_ATTENTION) else None

    tools.wait(progress, limit_seconds=offer.limit_seconds)
    if last != _READY:
        raise MethodFailed(f"failed: the drive is not ready after it (sg_turs ended with {last})")


def _fits(tools: Tools) -> bool:
    return tools.protocol == "SCSI"


METHODS = (
    Method(name="scsi-format", title="SCSI Format Unit", standard=True, fits=_fits, ask=_format, perform=_do),
    Method(
        name="scsi-sanitize-block",
        title="SCSI Sanitize, block",
        standard=True,
        fits=_fits,
        ask=partial(_sanitize, service_action="2", option="--block"),
        perform=_do,
    ),
    Method(
        name="scsi-sanitize-crypto",
        title="SCSI Sanitize, crypto",
        standard=True,
        fits=_fits,
        ask=partial(_sanitize, service_action="3", option="--crypto"),
        perform=_do,
    ),
)
