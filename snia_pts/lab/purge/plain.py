"""Purging without a purge command: discard, overwrite, punched holes, and what a vendor's tool does."""

from __future__ import annotations

import shlex

from ...errors import UsageError
from .method import Method, MethodUnavailable, PurgeCapability, Tools, anything

_DEVICE, _SERIAL = "{device}", "{serial}"
_SLOWEST_BYTES_PER_SECOND = 50e6
VENDORS_TOOL = (
    "It is the program of --purge-command. Such tools come from the drive's vendor, seldom from a distribution: "
    "get it there, and put it on the PATH or give its whole path."
)


def _discard(tools: Tools) -> PurgeCapability:
    if not tools.dut.discard:
        raise MethodUnavailable("the device cannot discard")
    # --force only skips the tool's own exclusive open: the suite holds the device already.
    return PurgeCapability(command=("blkdiscard", "--force", tools.dut.path), opens=True)


def _punch(tools: Tools) -> PurgeCapability:
    size = str(tools.dut.capacity_bytes)
    return PurgeCapability(
        command=("fallocate", "--punch-hole", "--offset", "0", "--length", size, tools.dut.path), opens=True
    )


def _overwrite(tools: Tools) -> PurgeCapability:
    size = tools.dut.capacity_bytes
    command = (
        "dd",
        "if=/dev/zero",
        f"of={tools.dut.path}",
        "bs=1M",
        f"count={size}",
        "iflag=count_bytes",
        "oflag=direct",
        "conv=notrunc,nocreat,fsync",
    )
    return PurgeCapability(command=command, seconds=size / _SLOWEST_BYTES_PER_SECOND, opens=True)


def vendor(command: str) -> Method:
    """Return the method of a vendor's tool; ``{device}`` and ``{serial}`` in it are filled in.  Raises UsageError."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(detail=f"--purge-command: {error}.", hint="Quote it as for a shell.") from None
    if not any(place in word for word in words[1:] for place in (_DEVICE, _SERIAL)):
        raise UsageError(
            detail="--purge-command does not say which drive.",
            hint="Put {device} where its path belongs, or {serial}: --purge-command 'tool erase {device}'.",
        )

    def ask(tools: Tools) -> PurgeCapability:
        facts = {_DEVICE: tools.dut.path, _SERIAL: tools.dut.serial}
        if any(place in word and not fact for word in words for place, fact in facts.items()):
            raise MethodUnavailable("the device has no serial number to give to the command")
        filled = words
        for place, fact in facts.items():
            filled = [word.replace(place, fact) for word in filled]
        return PurgeCapability(command=tuple(filled), opens=tools.dut.kind == "file")

    title = f"the vendor's own, by: {' '.join(words)}"
    return Method(name="vendor", title=title, standard=True, fits=anything, ask=ask)


METHODS = (
    Method(
        name="blkdiscard",
        title="blkdiscard",
        standard=False,
        fits=lambda tools: tools.dut.kind != "file",
        ask=_discard,
    ),
    Method(
        name="punch-hole", title="punch-hole", standard=False, fits=lambda tools: tools.dut.kind == "file", ask=_punch
    ),
    Method(
        name="overwrite",
        title="overwrite with zeros",
        standard=False,
        fits=anything,
        ask=_overwrite,
        automatic=False,
    ),
)
