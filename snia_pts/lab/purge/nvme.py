"""Purging by NVMe: Format NVM and Sanitize, by nvme-cli.

Format NVM applies to one namespace, but a controller may extend it to all of them (FNA, Format NVM Attributes);
Sanitize always applies to the whole drive.  A method that would erase a namespace not under test is unavailable.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from ..device.identity import attribute
from .method import DEFAULT_TIMEOUT_SECONDS, Method, MethodFailed, MethodUnavailable, PurgeCapability, Tools, json_of

_FORMAT, _MANAGEMENT = 1 << 1, 1 << 3
"""Bits of OACS: the controller supports Format NVM; it supports Namespace Management."""
_FORMATS_ALL, _ERASES_ALL, _CRYPTO = 1 << 0, 1 << 1, 1 << 2
"""Bits of FNA: a format applies to all namespaces; a secure erase does; cryptographic erase is supported."""
_NOT_REPORTED = 0xFFFFFFFF
_START_SECONDS = 600.0
_NEWER_CLI_HINT = "Try a newer nvme-cli."
_DONE, _RUNNING, _DONE_WITHOUT_DEALLOCATION = 1, 2, 4


def _format(tools: Tools, secure_erase: int) -> PurgeCapability:
    """Return Format NVM with a Secure Erase Setting, keeping the current LBA format, metadata and protection."""
    controller = _controller(tools)
    if not _number(controller, "oacs") & _FORMAT:
        raise MethodUnavailable("the controller does not support Format NVM")
    attributes = _number(controller, "fna")
    if secure_erase == 2 and not attributes & _CRYPTO:
        raise MethodUnavailable("this controller's Format NVM does not support cryptographic erase")
    if attributes & (_FORMATS_ALL | _ERASES_ALL):
        _require_single_namespace(tools, controller, "Format NVM")
    namespace = json_of(tools.query_once("id-ns", "nvme", "id-ns", tools.dut.path, "-o", "json"))
    flbas, dps = _number(namespace, "flbas"), _number(namespace, "dps")
    command = (
        "nvme",
        "format",
        _controller_path(tools) if attributes & _FORMATS_ALL else tools.dut.path,
        "--force",
        f"--ses={secure_erase}",
        f"--lbaf={flbas & 0xF | flbas >> 1 & 0x30}",
        f"--ms={flbas >> 4 & 1}",
        f"--pi={dps & 7}",
        f"--pil={dps >> 3 & 1}",
        f"--timeout={1000 * DEFAULT_TIMEOUT_SECONDS:.0f}",
    )
    return PurgeCapability(command=command)


def _perform_format(tools: Tools, capability: PurgeCapability) -> None:
    tools.run(capability.command, timeout_seconds=capability.timeout_seconds)
    before = json_of(tools.query_once("id-ns", "nvme", "id-ns", tools.dut.path, "-o", "json"))
    after = json_of(tools.query("id-ns-after", "nvme", "id-ns", tools.dut.path, "-o", "json"))
    for key in ("flbas", "dps"):
        if before.get(key) != after.get(key):
            reason = f"changed the format of the drive: {key} was {before.get(key)}, and is now {after.get(key)}"
            raise MethodFailed(reason, f"Restore its former format with nvme format {tools.dut.path}.")


def _sanitize(tools: Tools, capability: int, action: int, estimate: str) -> PurgeCapability:
    """Return a sanitize operation: ``capability`` is its bit in SANICAP, ``estimate`` the log's key for its time."""
    controller = _controller(tools)
    if not _number(controller, "sanicap") & capability:
        raise MethodUnavailable("the controller does not support this sanitize operation")
    _require_single_namespace(tools, controller, "Sanitize")
    log = _log(tools)
    if _status(log) == _RUNNING:
        raise MethodUnavailable(
            "a sanitize operation is in progress", f"Wait for its end: nvme sanitize-log {tools.dut.path}"
        )
    reported = log.get(estimate)
    seconds = float(reported) if isinstance(reported, int) and 0 < reported < _NOT_REPORTED else None
    # Unrestricted exit: if it fails, the drive stays usable without a further successful sanitize.
    command = ("nvme", "sanitize", tools.dut.path, f"--sanact={action}", "--ause")
    return PurgeCapability(command=command, seconds=seconds)


def _perform_sanitize(tools: Tools, capability: PurgeCapability) -> None:
    tools.run(capability.command, timeout_seconds=_START_SECONDS)

    def progress() -> float | None:
        log = _log(tools)
        return _number(log, "sprog") / 65536 if _status(log) == _RUNNING else None

    tools.wait(progress, timeout_seconds=capability.timeout_seconds)
    log = _log(tools)
    if _status(log) not in (_DONE, _DONE_WITHOUT_DEALLOCATION):
        raise MethodFailed(f"failed: the drive's sanitize log says {log['sstat']['status']}")


def _controller(tools: Tools) -> dict[str, Any]:
    return json_of(tools.query_once("id-ctrl", "nvme", "id-ctrl", tools.dut.path, "-o", "json"))


def _log(tools: Tools) -> dict[str, Any]:
    """Return the sanitize log, which nvme-cli puts under a key with the device's name."""
    answer = json_of(tools.query("sanitize-log", "nvme", "sanitize-log", tools.dut.path, "-o", "json"))
    log = next(iter(answer.values()), None)
    if not isinstance(log, dict):
        raise MethodUnavailable("nvme sanitize-log printed no log", _NEWER_CLI_HINT)
    return log


def _status(log: dict[str, Any]) -> int:
    """Return the status number of the last sanitize operation, from text like ``(2) Sanitize in Progress.``"""
    state = log.get("sstat")
    match = re.match(r"\((\d)\)", str(state.get("status"))) if isinstance(state, dict) else None
    if match is None:
        raise MethodUnavailable("nvme sanitize-log reports no status", _NEWER_CLI_HINT)
    return int(match[1])


def _require_single_namespace(tools: Tools, controller: dict[str, Any], what: str) -> None:
    """Raise MethodUnavailable if the drive has other namespaces, attached or not, that ``what`` would erase too."""
    scope = ("--all",) if _number(controller, "oacs") & _MANAGEMENT else ()
    answer = json_of(tools.query_once("list-ns", "nvme", "list-ns", tools.dut.path, *scope, "-o", "json"))
    namespaces = answer.get("nsid_list")
    count = len(namespaces) if isinstance(namespaces, list) else 0
    if count != 1:
        raise MethodUnavailable(
            f"{what} erases every namespace of the drive, and it has {count or 'an unknown number'}",
            "Give the drive a single namespace (nvme delete-ns).",
        )


def _controller_path(tools: Tools) -> str:
    """Return the path of the namespace's controller, through which nvme-cli formats all namespaces of the drive."""
    parent = (tools.sysfs_folder / "device").resolve()
    controllers = [parent] if re.fullmatch(r"nvme\d+", parent.name) else sorted(parent.glob("nvme*"))
    for controller in controllers:
        if re.fullmatch(r"nvme\d+", controller.name) and attribute(controller / "serial") == tools.dut.serial:
            return f"/dev/{controller.name}"
    raise MethodUnavailable("the kernel does not report its controller", "Name another method.")


def _number(fields: dict[str, Any], key: str) -> int:
    value = fields.get(key)
    if not isinstance(value, int):
        raise MethodUnavailable(f"nvme-cli does not report {key}", _NEWER_CLI_HINT)
    return value


def _fits(tools: Tools) -> bool:
    return tools.protocol == "NVMe"


METHODS = (
    Method(
        name="nvme-format",
        title="NVMe Format, SES 1",
        words=("nvme", "format", "--ses=1"),
        standard=True,
        fits=_fits,
        query=partial(_format, secure_erase=1),
        perform=_perform_format,
    ),
    Method(
        name="nvme-format-crypto",
        title="NVMe Format, SES 2",
        words=("nvme", "format", "--ses=2"),
        standard=True,
        fits=_fits,
        query=partial(_format, secure_erase=2),
        perform=_perform_format,
    ),
    Method(
        name="nvme-sanitize-block",
        title="NVMe Sanitize, block",
        words=("nvme", "sanitize", "--sanact=2"),
        standard=True,
        fits=_fits,
        query=partial(_sanitize, capability=2, action=2, estimate="time_block_erase"),
        perform=_perform_sanitize,
    ),
    Method(
        name="nvme-sanitize-crypto",
        title="NVMe Sanitize, crypto",
        words=("nvme", "sanitize", "--sanact=4"),
        standard=True,
        fits=_fits,
        query=partial(_sanitize, capability=1, action=4, estimate="time_crypto_erase"),
        perform=_perform_sanitize,
    ),
)
