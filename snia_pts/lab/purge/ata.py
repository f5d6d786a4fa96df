"""Purging by ATA: Sanitize Device and Security Erase Unit, by hdparm.

Security Erase needs a password to be set, which the end of the erase clears.  The suite always sets the same one, and
docs/purge.rst documents it, so that the drive can be unlocked whatever happens in between.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from ...files import open_to_append
from .method import Method, MethodFailed, MethodUnavailable, PurgeCapability, Tools, stdout_of

PASSWORD = "snia-pts"  # noqa: S105 - no secret: anyone who finds the drive locked must be able to know it
_ACCESS = ("hdparm", "--user-master", "u")
_START_SECONDS = 600.0
_PASSWORD_SECONDS = 120.0
_UNFREEZE_HINT = (
    "Suspend the host and wake it, or unplug the drive and plug it in again while the host runs; "
    "some firmware has a setting for it (docs/purge.rst)."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """The section Security of ``hdparm -I``: flags, and the minutes for a normal and an enhanced erase."""

    flags: frozenset[str]
    minutes: dict[str, int]

    @classmethod
    def read(cls, text: str) -> Security:
        """Parse the output of ``hdparm -I``; a flag is set if it is not preceded by "not"."""
        section = re.search(r"^Security: *\n((?:\t.*\n?)*)", text, re.MULTILINE)
        lines = section[1] if section else ""
        flags = re.findall(r"^\t\t(supported(?:: enhanced erase)?|enabled|locked|frozen|expired)", lines, re.MULTILINE)
        times = re.findall(r"(\d+)min for (ENHANCED )?SECURITY ERASE UNIT", lines)
        return cls(flags=frozenset(flags), minutes={kind.strip(): int(minutes) for minutes, kind in times})


def _identify(tools: Tools, name: str = "identify") -> str:
    """Return the output of ``hdparm -I``; a new ``name`` runs it again."""
    return stdout_of(tools.query_once(name, "hdparm", "-I", tools.dut.path))


def _erase(tools: Tools, option: str, flag: str, time: str) -> PurgeCapability:
    """Return a Security Erase: ``flag`` and ``time`` are the words of ``hdparm -I`` for its support and duration."""
    security = Security.read(_identify(tools))
    if flag not in security.flags:
        raise MethodUnavailable("the drive does not support this Security Erase")
    if "frozen" in security.flags:
        raise MethodUnavailable(
            "its security is frozen until it loses power; firmware does that when the host boots", _UNFREEZE_HINT
        )
    if "expired" in security.flags:
        raise MethodUnavailable("too many password attempts", "Unplug its power and plug it in again.")
    minutes = security.minutes.get(time)
    return PurgeCapability(
        command=(*_ACCESS, option, PASSWORD, tools.dut.path), seconds=None if minutes is None else 60.0 * minutes
    )


def _unlock(tools: Tools) -> None:
    """Clear the password that an interrupted erase left; raises MethodFailed if the password is not the suite's."""
    if "enabled" in Security.read(_identify(tools)).flags:
        tools.run(_clear_command(tools, PASSWORD), timeout_seconds=_PASSWORD_SECONDS, name="unlock")
        if "enabled" in Security.read(_identify(tools, "identify-unlocked")).flags:
            reason = "is not possible: a password is set that is not the suite's"
            raise MethodFailed(reason, _unlock_hint(tools, "PASSWORD"))


def _perform_erase(tools: Tools, capability: PurgeCapability) -> None:
    """Set the password, erase, and clear the password whatever happens."""
    _log_password(tools, "about to be set")
    try:
        set_command = (*_ACCESS, "--security-set-pass", PASSWORD, tools.dut.path)
        tools.run(set_command, timeout_seconds=_PASSWORD_SECONDS, name="set-password")
        if "enabled" not in Security.read(_identify(tools, "identify-set")).flags:
            raise MethodFailed("failed: the drive accepted the password, but reports none set")
        tools.run(capability.command, timeout_seconds=capability.timeout_seconds)
    finally:
        _clear_password(tools)


def _clear_password(tools: Tools) -> None:
    """Clear the password if the erase did not; raises MethodFailed if that is not possible."""
    try:
        if "enabled" in Security.read(_identify(tools, "identify-erased")).flags:
            tools.run(_clear_command(tools, PASSWORD), timeout_seconds=_PASSWORD_SECONDS, name="clear-password")
            if "enabled" in Security.read(_identify(tools, "identify-cleared")).flags:
                raise MethodFailed("failed: the password is still set")
    except (MethodUnavailable, MethodFailed) as error:
        reason = f"left the drive with the password {PASSWORD}: {error}"
        raise MethodFailed(reason, _unlock_hint(tools, PASSWORD)) from None
    _log_password(tools, "cleared")


def _log_password(tools: Tools, state: str) -> None:
    """Record the state of the password, synced to the disk before the password is set."""
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    drive = f"{tools.dut.path} ({tools.dut.model}, serial {tools.dut.serial})"
    text = f"{now} The ATA user password {PASSWORD} of {drive} is {state}.\n{_unlock_hint(tools, PASSWORD)}\n"
    with open_to_append(tools.evidence_path("password.txt"), new=True) as file:
        file.write(text.encode())
        os.fsync(file.fileno())


def _clear_command(tools: Tools, password: str) -> tuple[str, ...]:
    return (*_ACCESS, "--security-disable", password, tools.dut.path)


def _unlock_hint(tools: Tools, password: str) -> str:
    return f"Unlock it: {' '.join(_clear_command(tools, password))} (docs/purge.rst)."


def _sanitize(tools: Tools, feature: str, option: str) -> PurgeCapability:
    """Return a sanitize operation: ``feature`` is its command in ``hdparm -I``."""
    supported = re.findall(r"^\t +\*?\t(.+?) *$", _identify(tools), re.MULTILINE)
    if "SANITIZE feature set" not in supported or feature not in supported:
        raise MethodUnavailable("the drive does not support this sanitize operation")
    state = _state(tools)
    if "SD1" in state:
        raise MethodUnavailable("its sanitize commands are frozen until it loses power", _UNFREEZE_HINT)
    if "SD2" in state:
        raise MethodUnavailable("a sanitize operation is in progress", "Wait for its end: hdparm --sanitize-status.")
    return PurgeCapability(command=("hdparm", "--yes-i-know-what-i-am-doing", option, tools.dut.path))


def _perform_sanitize(tools: Tools, capability: PurgeCapability) -> None:
    tools.run(capability.command, timeout_seconds=_START_SECONDS)

    def progress() -> float | None:
        state = _state(tools)
        percent = re.search(r"\((\d+)%\)", state)
        return None if "SD2" not in state else int(percent[1]) / 100 if percent else 0.0

    tools.wait(progress, timeout_seconds=capability.timeout_seconds)
    if "Completed Without Error" not in _state(tools):
        raise MethodFailed("failed: the drive's sanitize status is not Completed Without Error")


def _state(tools: Tools) -> str:
    return stdout_of(tools.query("sanitize-status", "hdparm", "--sanitize-status", tools.dut.path))


def _fits(tools: Tools) -> bool:
    return tools.protocol == "ATA"


METHODS = (
    Method(
        name="ata-sanitize-block",
        title="ATA Sanitize, block",
        words=("hdparm", "--sanitize-block-erase"),
        standard=True,
        fits=_fits,
        query=partial(_sanitize, feature="BLOCK_ERASE_EXT command", option="--sanitize-block-erase"),
        perform=_perform_sanitize,
    ),
    Method(
        name="ata-security-erase",
        title="ATA Security Erase",
        words=("hdparm", "--security-erase"),
        standard=True,
        fits=_fits,
        query=partial(_erase, option="--security-erase", flag="supported", time=""),
        prepare=_unlock,
        perform=_perform_erase,
    ),
    Method(
        name="ata-security-erase-enhanced",
        title="ATA Security Erase, enhanced",
        words=("hdparm", "--security-erase-enhanced"),
        standard=True,
        fits=_fits,
        query=partial(_erase, option="--security-erase-enhanced", flag="supported: enhanced erase", time="ENHANCED"),
        prepare=_unlock,
        perform=_perform_erase,
    ),
    Method(
        name="ata-sanitize-crypto",
        title="ATA Sanitize, crypto",
        words=("hdparm", "--sanitize-crypto-scramble"),
        standard=True,
        fits=_fits,
        query=partial(_sanitize, feature="CRYPTO_SCRAMBLE_EXT command", option="--sanitize-crypto-scramble"),
        perform=_perform_sanitize,
    ),
)
