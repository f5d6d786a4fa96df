"""What the kernel says of a drive, read from its log while a run goes on; no program is started for it."""

from __future__ import annotations

import errno
import os
import re
from collections import deque
from contextlib import suppress
from pathlib import Path

_LOG = Path("/dev/kmsg")
_RECORD_BYTES = 8192
_KEPT_LINES = 200
#: The parts of a drive's place in sysfs by which the kernel calls it, its port, or its controller.
_NAMED = re.compile(r"ata\d+|nvme\d+|\d+:\d+:\d+:\d+|virtio\d+|mmc\d+|[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_CONTROLLER = re.compile(r"nvme\d+")
#: What the kernel says when it takes I/Os for lost, though fio may see but a long response time.
_RESET = re.compile(r"\breset|\btime(d )?out|\blink (is )?down|\boffline", re.IGNORECASE)


def open_log() -> int | None:
    """Return a descriptor of the kernel's log at its end; None where this process may not read it."""
    try:
        descriptor = os.open(_LOG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    os.lseek(descriptor, 0, os.SEEK_END)
    return descriptor


def names(block: Path) -> set[str]:
    """Return the words by which the kernel calls a drive, given the sysfs folder of its block device."""
    found = {part for part in block.parts if _NAMED.fullmatch(part)}
    buses = [part for part in block.parts if part in found and part.count(":") == 2]
    controller = _CONTROLLER.match(block.name)
    return found - set(buses[:-1]) | {block.name} | ({controller[0]} if controller else set())


class KernelLog:
    """The lines of the kernel's log that name a drive, from now on."""

    def __init__(self, called: set[str], descriptor: int | None) -> None:
        """Hear what is said of whom the kernel has ``called`` so; the log's ``descriptor`` is closed in the end."""
        self._descriptor = descriptor
        self._called = re.compile(rf"(?<![\w:.])({'|'.join(map(re.escape, sorted(called)))})(?!\w)")
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)

    def __del__(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    @property
    def readable(self) -> bool:
        return self._descriptor is not None

    def resets(self) -> tuple[str, ...]:
        """Return those lines since the last call that tell of a reset, or of a command that was not answered."""
        return tuple(line for line in self._more() if _RESET.search(line))

    def lines(self) -> tuple[str, ...]:
        """Return all lines that were heard, as far as they are kept."""
        self._more()
        return tuple(self._lines)

    def _more(self) -> list[str]:
        found: list[str] = []
        while self._descriptor is not None:
            try:
                record = os.read(self._descriptor, _RECORD_BYTES)
            except OSError as error:
                if error.errno == errno.EPIPE:  # what was not read in time is gone
                    continue
                break
            if not record:
                break
            line = _line(record)
            if self._called.search(line):
                found.append(line)
        self._lines += found
        return found


def _line(record: bytes) -> str:
    """Return ``[seconds since boot] text`` of a record that is the kernel's own, else nothing."""
    head, _, text = record.decode("utf-8", "replace").partition(";")
    with suppress(ValueError):
        priority, _, microseconds = map(int, head.split(",")[:3])
        if priority >> 3 == 0:  # any program may write to the log, but not in the kernel's name
            first, _, _ = text.partition("\n")
            return f"[{microseconds / 1e6:.6f}] {first}"
    return ""
