"""Purging without a purge command of the drive: discard, hole punching, overwriting, or a vendor's tool."""

from __future__ import annotations

import re
import shlex

from ...errors import UsageError
from .method import DEVICE, Method, MethodUnavailable, PurgeCapability, Tools, any_device

_SERIAL = "{serial}"
_PLACEHOLDER = re.compile(f"{DEVICE}|{_SERIAL}")
#: The beginning of the title of a vendor's command.
VENDOR_TITLE = "vendor command: "
_MIN_BYTES_PER_SECOND = 50e6
VENDOR_TOOL_HINT = (
    "It is the program of --purge-command. Such tools come from the drive's vendor, rarely from a distribution: "
    "install it, and put it on the PATH or give its full path."
)


def _discard(tools: Tools) -> PurgeCapability:
    if not tools.dut.discard:
        raise MethodUnavailable("the device does not support discard")
    # --force only skips the tool's exclusive open: the suite has the device open exclusively already.
    return PurgeCapability(command=("blkdiscard", "--force", tools.dut.path), by_descriptor=True)


def _punch(tools: Tools) -> PurgeCapability:
    size = str(tools.dut.capacity_bytes)
    return PurgeCapability(
        command=("fallocate", "--punch-hole", "--offset", "0", "--length", size, tools.dut.path), by_descriptor=True
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
    return PurgeCapability(command=command, seconds=size / _MIN_BYTES_PER_SECOND, by_descriptor=True)


def vendor(command: str) -> Method:
    """Return the method for a vendor's tool, filling in ``{device}`` and ``{serial}``; raises UsageError."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(detail=f"--purge-command: {error}.", hint="Quote it as for a shell.") from None
    if not any(placeholder in word for word in words[1:] for placeholder in (DEVICE, _SERIAL)):
        raise UsageError(
            detail="--purge-command does not name the drive.",
            hint="Put {device} where its path belongs, or {serial}: --purge-command 'tool erase {device}'.",
        )

    def query(tools: Tools) -> PurgeCapability:
        values = {DEVICE: tools.dut.path, _SERIAL: tools.dut.serial}
        if any(placeholder in word and not value for word in words for placeholder, value in values.items()):
            raise MethodUnavailable("the device reports no serial number to pass to the command")
        if tools.dut.kind == "file":  # Tools.run replaces {device} by the name of the open descriptor
            return PurgeCapability(command=tuple(words), by_descriptor=True)
        # All placeholders are replaced in one pass, because the device's path may contain the text {serial}.
        return PurgeCapability(command=tuple(_PLACEHOLDER.sub(lambda match: values[match[0]], word) for word in words))

    title = f"{VENDOR_TITLE}{' '.join(words)}"
    return Method(name="vendor", title=title, words=(words[0],), standard=True, fits=any_device, query=query)


METHODS = (
    Method(
        name="blkdiscard",
        title="blkdiscard",
        words=("blkdiscard",),
        standard=False,
        fits=lambda tools: tools.dut.kind != "file",
        query=_discard,
    ),
    Method(
        name="punch-hole",
        title="punch-hole",
        words=("fallocate", "--punch-hole"),
        standard=False,
        fits=lambda tools: tools.dut.kind == "file",
        query=_punch,
    ),
    Method(
        name="overwrite",
        title="overwrite with zeros",
        words=("dd", "if=/dev/zero"),
        standard=False,
        fits=any_device,
        query=_overwrite,
        automatic=False,
    ),
)
