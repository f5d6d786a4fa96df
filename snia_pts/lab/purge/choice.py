"""Every purge method, which of them a device has, and which is taken."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from ...errors import TargetUnfit, ToolMissing
from ...model.dut import Dut
from ..device.identity import ROOT
from ..process import program as process
from . import ata, nvme, plain, scsi
from .method import Method, MethodUnavailable, Tools

#: Every purge method by its name, in order of preference; docs/purge.rst gives the reasons.
METHODS: Mapping[str, Method] = {
    method.name: method for method in (*nvme.METHODS, *ata.METHODS, *scsi.METHODS, *plain.METHODS)
}
AUTO = "auto"
NONE = "none"
_LESS = "Without it, --purge blkdiscard is a Deviation."


def choose(tools: Tools, wanted: str, command: str | None = None) -> Method | None:
    """Return the method for ``wanted`` (a name, ``auto`` or ``none``), or for a vendor's ``command``; None for none.

    Asks the device.  Raises UsageError, TargetUnfit when the method is not on offer, ToolMissing when its program is
    not there.
    """
    if command is not None:
        method = plain.vendor(command)
    elif wanted == NONE:
        return None
    elif wanted == AUTO:
        return _best(tools)
    elif wanted in METHODS and METHODS[wanted].fits(tools):
        method = METHODS[wanted]
    else:
        raise _unfit(tools, f"purge method {wanted} is not on offer for it")
    try:
        process.find(method.ask(tools).command[0])
    except MethodUnavailable as refused:
        raise _unfit(tools, f"purge method {method.name} is not on offer for it: {refused}", refused.remedy) from None
    except ToolMissing as missing:
        if command is None:
            raise
        raise replace(missing, hint=plain.VENDORS_TOOL) from None
    return method


def offers(dut: Dut, root: Path = ROOT) -> tuple[str, ...]:
    """Return the methods that a device has and would do now, the preferred first; asks it, reading only."""
    with tempfile.TemporaryDirectory(prefix="snia-pts-") as folder:
        return tuple(_offered(Tools(dut, Path(folder) / "offer", root=root)))


def _best(tools: Tools) -> Method:
    """Return the first method on offer.

    A drive that has one of the standard's methods, but will not do it now, is not purged by something less.
    """
    hindered: dict[str, MethodUnavailable] = {}
    for method in METHODS.values():
        if not method.automatic or not method.fits(tools) or (hindered and not method.standard):
            continue
        try:
            offer = method.ask(tools)
        except MethodUnavailable as refused:
            if refused.remedy:
                hindered[method.name] = refused
            continue
        except ToolMissing as missing:
            missing.add_note(_LESS)
            raise
        if not offer.doubt:
            process.find(offer.command[0])
            return method
    if not hindered:
        raise _unfit(tools, "no purge method is on offer for it")
    reason = "; ".join(f"{name}: {refused}" for name, refused in hindered.items())
    raise _unfit(tools, f"it cannot be purged now ({reason})", " ".join({each.remedy: 0 for each in hindered.values()}))


def _offered(tools: Tools) -> Iterator[str]:
    for method in METHODS.values():
        if method.fits(tools):
            try:
                method.ask(tools)
            except (MethodUnavailable, ToolMissing):
                continue
            yield method.name


def _unfit(tools: Tools, reason: str, remedy: str = "") -> TargetUnfit:
    hint = f"{remedy} On offer: {', '.join([*_offered(tools), NONE])} (docs/purge.rst).".strip()
    return TargetUnfit(path=tools.dut.path, reason=reason, hint=hint)
