"""Read the kernel's messages about a drive from its log during a run, without starting a program."""

from __future__ import annotations

import errno
import os
import re
from collections import deque
from contextlib import suppress
from pathlib import Path

_LOG = Path("/dev/kmsg")
_RECORD_BYTES = 8192
_MAX_LINES = 200
#: The components of a drive's sysfs path that the kernel uses as names of the drive, its port or its controller.
_NAME = re.compile(r"ata\d+|nvme\d+|\d+:\d+:\d+:\d+|virtio\d+|mmc\d+|[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_CONTROLLER = re.compile(r"nvme\d+")
#: Kernel messages about resets and timeouts, in which I/Os may be lost; fio may only see a long response time.
_RESET = re.compile(r"\breset|\btime(d )?out|\blink (is )?down|\boffline", re.IGNORECASE)


def open_log() -> int | None:
    """Return a descriptor positioned at the end of the kernel's log; None if this process may not read it."""
    try:
        descriptor = os.open(_LOG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    os.lseek(descriptor, 0, os.SEEK_END)
    return descriptor


def kernel_names(block: Path) -> set[str]:
    """Return the names that the kernel uses for a drive, given the sysfs folder of its block device."""
    names = {part for part in block.parts if _NAME.fullmatch(part)}
    buses = [part for part in block.parts if part in names and part.count(":") == 2]
    controller = _CONTROLLER.match(block.name)
    return names - set(buses[:-1]) | {block.name} | ({controller[0]} if controller else set())


class KernelLog:
    """The new lines of the kernel's log that name a drive."""

    def __init__(self, names: set[str], descriptor: int | None) -> None:
        """Read lines with one of the ``names`` from the log's ``descriptor``, and close it at the end."""
        self._descriptor = descriptor
        self._names = re.compile(rf"(?<![\w:.])({'|'.join(map(re.escape, sorted(names)))})(?!\w)")
        self._lines: deque[str] = deque(maxlen=_MAX_LINES)

    def __del__(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    @property
    def readable(self) -> bool:
        return self._descriptor is not None

    def resets(self) -> tuple[str, ...]:
        """Return the new lines that report a reset or a command timeout.

        A line is new if it was written after the last call of this method or of ``lines``.
        """
        return tuple(line for line in self._read_new_lines() if _RESET.search(line))

    def lines(self) -> tuple[str, ...]:
        """Return the lines so far, at most the last 200.  They are then no longer new for ``resets``."""
        self._read_new_lines()
        return tuple(self._lines)

    def _read_new_lines(self) -> list[str]:
        lines: list[str] = []
        while self._descriptor is not None:
            try:
                record = os.read(self._descriptor, _RECORD_BYTES)
            except OSError as error:
                if error.errno == errno.EPIPE:  # The kernel has overwritten records that were not read in time.
                    continue
                break
            if not record:
                break
            line = _line(record)
            if self._names.search(line):
                lines.append(line)
        self._lines += lines
        return lines


def _line(record: bytes) -> str:
    """Return ``[seconds since boot] text`` of a record if the kernel itself wrote it, else ""."""
    head, _, text = record.decode("utf-8", "replace").partition(";")
    with suppress(ValueError):
        priority, _, microseconds = map(int, head.split(",")[:3])
        if priority >> 3 == 0:  # Facility 0 is the kernel; other programs that write to the log cannot use it.
            first, _, _ = text.partition("\n")
            return f"[{microseconds / 1e6:.6f}] {first}"
    return ""
