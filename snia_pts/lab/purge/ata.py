"""Purging by ATA: Sanitize Device and Security Erase Unit, by hdparm.

Security Erase wants a password to be set.  It is always the same, and told in docs/purge.rst, so that whatever
happens between setting it and the end of the erase, which clears it, the drive can be unlocked.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from ...files import open_to_append
from .method import Method, MethodFailed, MethodUnavailable, PurgeCapability, Tools, stdout_of

PASSWORD = "snia-pts"  # noqa: S105 - no secret: it must be known to whoever finds the drive
_ACCESS = ("hdparm", "--user-master", "u")
_STARTING_SECONDS = 600.0
_PASSWORD_SECONDS = 120.0
_THAW = (
    "Send the host to sleep and wake it, or unplug the drive and plug it in again while the host runs; "
    "some firmware has a setting for it (docs/purge.rst)."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """The section Security of ``hdparm -I``: flags, and the minutes of a normal and an enhanced erase."""

    flags: frozenset[str]
    minutes: dict[str, int]

    @classmethod
    def read(cls, text: str) -> Security:
        """Read what ``hdparm -I`` said; a flag is set where no "not" stands before it."""
        section = re.search(r"^Security: *\n((?:\t.*\n?)*)", text, re.MULTILINE)
        lines = section[1] if section else ""
        flags = re.findall(r"^\t\t(supported(?:: enhanced erase)?|enabled|locked|frozen|expired)", lines, re.MULTILINE)
        times = re.findall(r"(\d+)min for (ENHANCED )?SECURITY ERASE UNIT", lines)
        return cls(flags=frozenset(flags), minutes={kind.strip(): int(minutes) for minutes, kind in times})


def _identify(tools: Tools, name: str = "identify") -> str:
    """Return what ``hdparm -I`` says; under a new name it is asked anew."""
    return stdout_of(tools.query_once(name, "hdparm", "-I", tools.dut.path))


def _erase(tools: Tools, option: str, flag: str, time: str) -> PurgeCapability:
    """Offer a Security Erase: ``flag`` and ``time`` are what ``hdparm -I`` calls its support and its duration."""
    security = Security.read(_identify(tools))
    if flag not in security.flags:
        raise MethodUnavailable("the drive has no such Security Erase")
    if "frozen" in security.flags:
        raise MethodUnavailable(
            "its security is frozen until it loses power: firmware does that when a host starts", _THAW
        )
    if "expired" in security.flags:
        raise MethodUnavailable("its password was tried too often", "Unplug its power and plug it in again.")
    minutes = security.minutes.get(time)
    return PurgeCapability(
        command=(*_ACCESS, option, PASSWORD, tools.dut.path), seconds=None if minutes is None else 60.0 * minutes
    )


def _unlock(tools: Tools) -> None:
    """Clear the password that an erase left which was cut off; one of somebody else's stays."""
    if "enabled" in Security.read(_identify(tools)).flags:
        tools.run(_clearing(tools), timeout_seconds=_PASSWORD_SECONDS, name="unlock")
        if "enabled" in Security.read(_identify(tools, "identify-unlocked")).flags:
            raise MethodFailed("is not possible: a password is set that is not the suite's", _rescue(tools, "PASSWORD"))


def _do_erase(tools: Tools, capability: PurgeCapability) -> None:
    """Set the password, erase, and see to it that the password is gone, whatever happens."""
    _note(tools, "about to be set")
    try:
        setting = (*_ACCESS, "--security-set-pass", PASSWORD, tools.dut.path)
        tools.run(setting, timeout_seconds=_PASSWORD_SECONDS, name="set-password")
        if "enabled" not in Security.read(_identify(tools, "identify-set")).flags:
            raise MethodFailed("failed: the drive took the password, and has none set")
        tools.run(capability.command, timeout_seconds=capability.timeout_seconds)
    finally:
        _clear(tools)


def _clear(tools: Tools) -> None:
    """Clear the password where the erase did not; raises Unpurged where that cannot be done."""
    try:
        if "enabled" in Security.read(_identify(tools, "identify-erased")).flags:
            tools.run(_clearing(tools), timeout_seconds=_PASSWORD_SECONDS, name="clear-password")
            if "enabled" in Security.read(_identify(tools, "identify-cleared")).flags:
                raise MethodFailed("failed: the password stayed set")
    except (MethodUnavailable, MethodFailed) as failed:
        reason = f"left the drive with the password {PASSWORD}: {failed}"
        raise MethodFailed(reason, _rescue(tools, PASSWORD)) from None
    _note(tools, "cleared")


def _note(tools: Tools, state: str) -> None:
    """Keep where the password stands, before it is so, and on the disk."""
    when = datetime.now().astimezone().isoformat(timespec="seconds")
    drive = f"{tools.dut.path} ({tools.dut.model}, serial {tools.dut.serial})"
    text = f"{when} The ATA user password {PASSWORD} of {drive} is {state}.\n{_rescue(tools, PASSWORD)}\n"
    with open_to_append(tools.evidence_path("password.txt"), new=True) as file:
        file.write(text.encode())
        os.fsync(file.fileno())


def _clearing(tools: Tools) -> tuple[str, ...]:
    return (*_ACCESS, "--security-disable", PASSWORD, tools.dut.path)


def _rescue(tools: Tools, password: str) -> str:
    return f"Unlock it: {' '.join((*_ACCESS, '--security-disable', password, tools.dut.path))} (docs/purge.rst)."


def _sanitize(tools: Tools, feature: str, option: str) -> PurgeCapability:
    """Offer a sanitize: ``feature`` is what ``hdparm -I`` calls its command."""
    supported = re.findall(r"^\t +\*?\t(.+?) *$", _identify(tools), re.MULTILINE)
    if "SANITIZE feature set" not in supported or feature not in supported:
        raise MethodUnavailable("the drive has no such sanitize operation")
    state = _state(tools)
    if "SD1" in state:
        raise MethodUnavailable("its sanitize commands are frozen until it loses power", _THAW)
    if "SD2" in state:
        raise MethodUnavailable("a sanitize operation is in progress", "Wait for its end: hdparm --sanitize-status.")
    return PurgeCapability(command=("hdparm", "--yes-i-know-what-i-am-doing", option, tools.dut.path))


def _do_sanitize(tools: Tools, capability: PurgeCapability) -> None:
    tools.run(capability.command, timeout_seconds=_STARTING_SECONDS)

    def progress() -> float | None:
        state = _state(tools)
        percent = re.search(r"\((\d+)%\)", state)
        return None if "SD2" not in state else int(percent[1]) / 100 if percent else 0.0

    tools.wait(progress, timeout_seconds=capability.timeout_seconds)
    if "Completed Without Error" not in _state(tools):
        raise MethodFailed("failed: the drive's sanitize status does not say that it completed without error")


def _state(tools: Tools) -> str:
    return stdout_of(tools.query("sanitize-status", "hdparm", "--sanitize-status", tools.dut.path))


def _fits(tools: Tools) -> bool:
    return tools.protocol == "ATA"


METHODS = (
    Method(
        name="ata-sanitize-block",
        title="ATA Sanitize, block",
        standard=True,
        fits=_fits,
        query=partial(_sanitize, feature="BLOCK_ERASE_EXT command", option="--sanitize-block-erase"),
        perform=_do_sanitize,
    ),
    Method(
        name="ata-security-erase",
        title="ATA Security Erase",
        standard=True,
        fits=_fits,
        query=partial(_erase, option="--security-erase", flag="supported", time=""),
        prepare=_unlock,
        perform=_do_erase,
    ),
    Method(
        name="ata-security-erase-enhanced",
        title="ATA Security Erase, enhanced",
        standard=True,
        fits=_fits,
        query=partial(_erase, option="--security-erase-enhanced", flag="supported: enhanced erase", time="ENHANCED"),
        prepare=_unlock,
        perform=_do_erase,
    ),
    Method(
        name="ata-sanitize-crypto",
        title="ATA Sanitize, crypto",
        standard=True,
        fits=_fits,
        query=partial(_sanitize, feature="CRYPTO_SCRAMBLE_EXT command", option="--sanitize-crypto-scramble"),
        perform=_do_sanitize,
    ),
)
