"""All purge methods, which of them a device supports, and the choice of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from ... import registries
from ...errors import TargetUnfit, ToolMissing
from ...model.dut import Dut
from ...temporary import temporary_folder
from ..device.identity import ROOT
from ..process import program as process
from . import ata, generic, nvme, scsi
from .method import Method, MethodUnavailable, Tools

#: All purge methods by name, in order of preference; docs/purge.rst gives the reasons.
METHODS: Mapping[str, Method] = {
    method.name: method for method in (*nvme.METHODS, *ata.METHODS, *scsi.METHODS, *generic.METHODS)
}
AUTO = "auto"
NONE = "none"
_DEVIATION_NOTE = "Without it, --purge blkdiscard can be used, which is a Deviation."


def choose(tools: Tools, requested: str, command: str | None = None) -> Method | None:
    """Return the method for ``requested`` (a name or ``auto``), or for a vendor's ``command``; None for ``none``.

    Queries the device.  Raises UsageError, TargetUnfit if the device does not support the method, ToolMissing if its
    program is missing.
    """
    if command is not None:
        method = generic.vendor(command)
    elif requested == NONE:
        return None
    elif requested == AUTO:
        return _best(tools)
    elif (named := _named(requested)) and named.fits(tools):
        method = named
    else:
        raise _unfit(tools, f"purge method {requested} is not available for it")
    try:
        process.find(method.query(tools).command[0], "" if command is None else generic.VENDOR_TOOL_HINT)
    except MethodUnavailable as unavailable:
        raise _unfit(
            tools, f"purge method {method.name} is not available for it: {unavailable}", unavailable.remedy
        ) from None
    return method


def available_methods(dut: Dut, root: Path = ROOT) -> tuple[str, ...]:
    """Return the names of the methods that a device supports in its present state, in order of preference.

    Queries the device without changing it.
    """
    with temporary_folder() as folder:
        return tuple(_available(Tools(dut, folder / "capability", root=root)))


def is_command_of(title: str, argv: Sequence[str]) -> bool:
    """Return whether a command is that of the method with a title."""
    if title.startswith(generic.VENDOR_TITLE):
        return title.removeprefix(generic.VENDOR_TITLE).startswith(argv[0])
    return any(method.title == title and {*method.words} <= {*argv} for method in _known_methods())


def _known_methods() -> Iterator[Method]:
    """Yield all methods, also those of the plugins that are loaded."""
    yield from METHODS.values()
    yield from filter(None, map(_named, registries.PURGE_METHODS))


def _named(name: str) -> Method | None:
    """Return the method of a name, which may be that of a plugin; None if there is none."""
    if name in registries.PURGE_METHODS:
        return cast("Method", registries.load(registries.PURGE_METHODS, name))
    return METHODS.get(name)


def _best(tools: Tools) -> Method:
    """Return the first available method.

    If the drive supports one of the standard's methods, but not in its present state, do not fall back on a method that
    the standard does not name.
    """
    blocked: dict[str, MethodUnavailable] = {}
    for method in METHODS.values():
        if not method.automatic or not method.fits(tools) or (blocked and not method.standard):
            continue
        try:
            capability = method.query(tools)
        except MethodUnavailable as unavailable:
            if unavailable.remedy:
                blocked[method.name] = unavailable
            continue
        except ToolMissing as missing:
            missing.add_note(_DEVIATION_NOTE)
            raise
        if not capability.caveat:
            process.find(capability.command[0])
            return method
    if not blocked:
        raise _unfit(tools, "no purge method is available for it")
    reason = "; ".join(f"{name}: {unavailable}" for name, unavailable in blocked.items())
    remedies = dict.fromkeys(unavailable.remedy for unavailable in blocked.values())
    raise _unfit(tools, f"it cannot be purged in its present state ({reason})", " ".join(remedies))


def _available(tools: Tools) -> Iterator[str]:
    for method in METHODS.values():
        if method.fits(tools):
            try:
                method.query(tools)
            except (MethodUnavailable, ToolMissing):
                continue
            yield method.name


def _unfit(tools: Tools, reason: str, remedy: str = "") -> TargetUnfit:
    hint = f"{remedy} Available: {', '.join([*_available(tools), NONE])} (docs/purge.rst).".strip()
    return TargetUnfit(path=tools.dut.path, reason=reason, hint=hint)
