"""Find out which other processes do I/O during a point, from the kernel's accounting (``/proc/PID/io``).

The accounting does not tell which device a process used.  It counts a process's reads from block devices, and its
writes, including data still in the page cache.  Only root may read the accounting for processes of other users.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from ...model.telemetry import ProcessIo
from ...text import printable
from ..device.identity import ROOT, attribute
from ..device.processes import read_own_pid, read_pids

#: Minimum interval between readings; it is longer if reading would use more than this share of one CPU.
_INTERVAL_NS, _MAX_SHARE = 900_000_000, 0.005
#: No reading in this last part of a point, so that its end is noticed immediately.
_QUIET_NS = 500_000_000
#: Telemetry names at most this many processes, each with at least this many bytes.
_MAX_NAMED, _MIN_BYTES = 5, 1_000_000
_COUNTS = re.compile(rb"^read_bytes: (\d+)\nwrite_bytes: (\d+)$", re.MULTILINE)
#: The process that adopts those whose parent has ended, and the parent of all threads of the kernel.
_INIT, _KERNEL = "1", "2"


class _Counts(NamedTuple):
    """The bytes that a process and its ended children have read and written since the process started."""

    read: int
    written: int

    def minus(self, other: _Counts) -> _Counts:
        return _Counts(max(0, self.read - other.read), max(0, self.written - other.written))

    def plus(self, other: _Counts) -> _Counts:
        return _Counts(self.read + other.read, self.written + other.written)


_ZERO = _Counts(0, 0)


class ProcessObserver:
    """Adds up the I/O of all processes except this one and its children.

    Call ``start`` when a stimulus starts, ``tick`` about once a second while it runs, and ``finish`` at its end.  The
    first tick is the baseline: I/O before it is not counted.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self._root, self._own = root, read_own_pid(root)
        self._counts: dict[str, _Counts] = {}
        self._parents: dict[str, str] = {}
        self._total: dict[str, ProcessIo] = {}
        self._has_baseline, self._next_ns, self._end_ns = False, 0, math.inf
        self._unreadable: int | None = None

    def start(self, end_ns: float = math.inf) -> None:
        """Start a point that is expected to end at ``end_ns``."""
        self._total, self._has_baseline, self._unreadable = {}, False, None
        self._end_ns = end_ns

    def tick(self) -> tuple[ProcessIo, ...]:
        """Return the I/O of each process since the previous reading; empty if no reading is due."""
        started_ns, used_ns = time.monotonic_ns(), time.thread_time_ns()
        if started_ns < self._next_ns or started_ns > self._end_ns - _QUIET_NS:
            return ()
        before, self._counts = self._counts, self._read()
        self._read_parents(before)
        increases = self._increases(before) if self._has_baseline else {}
        self._has_baseline = True
        found = tuple(self._describe(pid, increase) for pid, increase in increases.items())
        for process in found:
            earlier = self._total.get(process.pid)
            self._total[process.pid] = process if earlier is None else earlier.plus(process)
        self._next_ns = started_ns + max(_INTERVAL_NS, round((time.thread_time_ns() - used_ns) / _MAX_SHARE))
        return found

    def finish(self) -> tuple[tuple[ProcessIo, ...], int | None]:
        """Return the processes with the most I/O since the start, and how many could not be read (None: no reading)."""
        most = sorted(self._total.values(), key=lambda process: process.bytes, reverse=True)[:_MAX_NAMED]
        return tuple(process for process in most if process.bytes >= _MIN_BYTES), self._unreadable

    def _read(self) -> dict[str, _Counts]:
        counts, self._unreadable = {}, 0
        for pid in read_pids(self._root):
            try:
                descriptor = os.open(self._root / "proc" / pid / "io", os.O_RDONLY | os.O_CLOEXEC)
                try:
                    text = os.read(descriptor, 512)
                finally:
                    os.close(descriptor)
            except PermissionError:
                self._unreadable += 1
                continue
            except OSError:  # the process has ended, or the kernel has no such accounting
                continue
            if match := _COUNTS.search(text):
                counts[pid] = _Counts(int(match[1]), int(match[2]))
        return counts

    def _read_parents(self, before: Mapping[str, _Counts]) -> None:
        """Read the parents of the processes that did I/O since ``before``.

        Forget the parents of processes that had already ended at the previous reading.
        """
        changed = (pid for pid, counts in self._counts.items() if counts != before.get(pid, _ZERO))
        ended = {pid: parent for pid, parent in self._parents.items() if pid not in self._counts and pid in before}
        self._parents = {pid: parent for pid, parent in self._parents.items() if pid in self._counts} | ended
        self._parents |= {pid: self._read_parent(pid) for pid in changed}

    def _read_parent(self, pid: str) -> str:
        fields = attribute(self._root / "proc" / pid / "stat").rpartition(")")[2].split()
        return fields[1] if len(fields) > 1 else _INIT

    def _increases(self, before: Mapping[str, _Counts]) -> dict[str, _Counts]:
        """Return the I/O of each other process since ``before``.

        When a process ends, the kernel adds its counts to its parent's; what was already counted for the child is
        subtracted from the parent.
        """
        inherited: dict[str, _Counts] = {}
        for pid, counts in before.items():
            if pid not in self._counts:
                heir = self._heir(pid)
                inherited[heir] = inherited.get(heir, _ZERO).plus(counts)
        increases = {
            pid: counts.minus(before.get(pid, _ZERO)).minus(inherited.get(pid, _ZERO))
            for pid, counts in self._counts.items()
            if counts != before.get(pid) and not self._is_own(pid)
        }
        return {pid: increase for pid, increase in increases.items() if any(increase)}

    def _heir(self, pid: str) -> str:
        """Return the closest ancestor of an ended process that still runs."""
        return next((ancestor for ancestor in self._ancestors(pid) if ancestor in self._counts), _INIT)

    def _is_own(self, pid: str) -> bool:
        return self._own in (pid, *self._ancestors(pid))

    def _ancestors(self, pid: str) -> Iterable[str]:
        seen = {pid}
        while (pid := self._parents.get(pid, "")) and pid not in seen:
            seen.add(pid)
            yield pid

    def _describe(self, pid: str, increase: _Counts) -> ProcessIo:
        name = printable(attribute(self._root / "proc" / pid / "comm")) or "?"
        is_thread = _KERNEL in (pid, self._parents.get(pid))
        return ProcessIo(
            pid=pid, name=f"[{name}]" if is_thread else name, read_bytes=increase.read, written_bytes=increase.written
        )
