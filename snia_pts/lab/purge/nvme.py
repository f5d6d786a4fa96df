"""Purging by NVMe: Format NVM and Sanitize, by nvme-cli.

Format NVM is for a namespace, but a controller may extend it to all of them (FNA, Format NVM Attributes); Sanitize
always is for all of a drive.  Where that would reach a namespace that is not under test, neither is on capability.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from ..device.identity import attribute
from .method import DEFAULT_TIMEOUT_SECONDS, Method, MethodFailed, MethodUnavailable, PurgeCapability, Tools, json_of

_FORMAT, _MANAGEMENT = 1 << 1, 1 << 3
"""Bits of OACS: the controller has Format NVM; it has Namespace Management."""
_FORMATS_ALL, _ERASES_ALL, _CRYPTO = 1 << 0, 1 << 1, 1 << 2
"""Bits of FNA: a format, or a secure erase by it, is of all namespaces; there is cryptographic erase."""
_UNTOLD = 0xFFFFFFFF
_STARTING_SECONDS = 600.0
_DONE, _RUNNING, _DONE_WITHOUT_DEALLOCATION = 1, 2, 4


def _format(tools: Tools, secure_erase: int) -> PurgeCapability:
    """Offer Format NVM with a Secure Erase Setting, in the LBA format, metadata and protection that are in use."""
    controller = _controller(tools)
    if not _number(controller, "oacs") & _FORMAT:
        raise MethodUnavailable("the controller has no Format NVM")
    attributes = _number(controller, "fna")
    if secure_erase == 2 and not attributes & _CRYPTO:
        raise MethodUnavailable("Format NVM has no cryptographic erase on this controller")
    if attributes & (_FORMATS_ALL | _ERASES_ALL):
        _require_alone(tools, controller, "Format NVM")
    namespace = json_of(tools.query_once("id-ns", "nvme", "id-ns", tools.dut.path, "-o", "json"))
    flbas, dps = _number(namespace, "flbas"), _number(namespace, "dps")
    command = (
        "nvme",
        "format",
        _addressed(tools) if attributes & _FORMATS_ALL else tools.dut.path,
        "--force",
        f"--ses={secure_erase}",
        f"--lbaf={flbas & 0xF | flbas >> 1 & 0x30}",
        f"--ms={flbas >> 4 & 1}",
        f"--pi={dps & 7}",
        f"--pil={dps >> 3 & 1}",
        f"--timeout={1000 * DEFAULT_TIMEOUT_SECONDS:.0f}",
    )
    return PurgeCapability(command=command)


def _do_format(tools: Tools, capability: PurgeCapability) -> None:
    tools.run(capability.command, timeout_seconds=capability.timeout_seconds)
    before = json_of(tools.query_once("id-ns", "nvme", "id-ns", tools.dut.path, "-o", "json"))
    after = json_of(tools.query("id-ns-after", "nvme", "id-ns", tools.dut.path, "-o", "json"))
    for key in ("flbas", "dps"):
        if before.get(key) != after.get(key):
            reason = f"changed the format of the drive: {key} is {after.get(key)}, and was {before.get(key)}"
            raise MethodFailed(reason, f"Format it as it was, with nvme format {tools.dut.path}.")


def _sanitize(tools: Tools, capability: int, action: int, estimate: str) -> PurgeCapability:
    """Offer a sanitize: ``capability`` is its bit of SANICAP, ``estimate`` what the log calls its time."""
    controller = _controller(tools)
    if not _number(controller, "sanicap") & capability:
        raise MethodUnavailable("the controller has no such sanitize operation")
    _require_alone(tools, controller, "Sanitize")
    log = _log(tools)
    if _status(log) == _RUNNING:
        raise MethodUnavailable(
            "a sanitize operation is in progress", f"Wait for its end: nvme sanitize-log {tools.dut.path}"
        )
    told = log.get(estimate)
    seconds = float(told) if isinstance(told, int) and 0 < told < _UNTOLD else None
    # Unrestricted exit: should it fail, the drive may be used again without another sanitize that succeeds.
    command = ("nvme", "sanitize", tools.dut.path, f"--sanact={action}", "--ause")
    return PurgeCapability(command=command, seconds=seconds)


def _do_sanitize(tools: Tools, capability: PurgeCapability) -> None:
    tools.run(capability.command, timeout_seconds=_STARTING_SECONDS)

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
    """Return the sanitize log, which nvme-cli files under the device's name."""
    answer = json_of(tools.query("sanitize-log", "nvme", "sanitize-log", tools.dut.path, "-o", "json"))
    found = next(iter(answer.values()), None)
    if not isinstance(found, dict):
        raise MethodUnavailable("nvme sanitize-log gave no log", "A newer nvme-cli may.")
    return found


def _status(log: dict[str, Any]) -> int:
    """Return the number of the last sanitize operation's status, from text like ``(2) Sanitize in Progress.``"""
    state = log.get("sstat")
    found = re.match(r"\((\d)\)", str(state.get("status"))) if isinstance(state, dict) else None
    if found is None:
        raise MethodUnavailable("nvme sanitize-log tells no status", "A newer nvme-cli may.")
    return int(found[1])


def _require_alone(tools: Tools, controller: dict[str, Any], what: str) -> None:
    """Raise NotOffered where the drive has other namespaces, attached or not, which ``what`` would erase too."""
    everywhere = ("--all",) if _number(controller, "oacs") & _MANAGEMENT else ()
    listed = json_of(tools.query_once("list-ns", "nvme", "list-ns", tools.dut.path, *everywhere, "-o", "json"))
    namespaces = listed.get("nsid_list")
    count = len(namespaces) if isinstance(namespaces, list) else 0
    if count != 1:
        raise MethodUnavailable(
            f"{what} erases every namespace of the drive, and it has {count or 'an unknown number'}",
            "Give the drive a single namespace (nvme delete-ns).",
        )


def _addressed(tools: Tools) -> str:
    """Return the controller of the namespace: the tool formats all namespaces there, and this is the only one."""
    above = (tools.block / "device").resolve()
    controllers = [above] if re.fullmatch(r"nvme\d+", above.name) else sorted(above.glob("nvme*"))
    for controller in controllers:
        if re.fullmatch(r"nvme\d+", controller.name) and attribute(controller / "serial") == tools.dut.serial:
            return f"/dev/{controller.name}"
    raise MethodUnavailable("the kernel does not tell its controller", "Name another method.")


def _number(found: dict[str, Any], key: str) -> int:
    value = found.get(key)
    if not isinstance(value, int):
        raise MethodUnavailable(f"nvme-cli does not tell {key}", "A newer nvme-cli may.")
    return value


def _fits(tools: Tools) -> bool:
    return tools.protocol == "NVMe"


METHODS = (
    Method(
        name="nvme-format",
        title="NVMe Format, SES 1",
        standard=True,
        fits=_fits,
        query=partial(_format, secure_erase=1),
        perform=_do_format,
    ),
    Method(
        name="nvme-format-crypto",
        title="NVMe Format, SES 2",
        standard=True,
        fits=_fits,
        query=partial(_format, secure_erase=2),
        perform=_do_format,
    ),
    Method(
        name="nvme-sanitize-block",
        title="NVMe Sanitize, block",
        standard=True,
        fits=_fits,
        query=partial(_sanitize, capability=2, action=2, estimate="time_block_erase"),
        perform=_do_sanitize,
    ),
    Method(
        name="nvme-sanitize-crypto",
        title="NVMe Sanitize, crypto",
        standard=True,
        fits=_fits,
        query=partial(_sanitize, capability=1, action=4, estimate="time_crypto_erase"),
        perform=_do_sanitize,
    ),
)
