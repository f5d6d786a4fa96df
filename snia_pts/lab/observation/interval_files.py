"""Write iostat-like CSV files per interval of a point, beside fio's output file."""

from __future__ import annotations

import csv
import io
import math
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from ...files import UnbufferedFile, create
from ...model.telemetry import IOSTAT_COLUMNS, BlockStatistics, ProcessIo

#: Lines are written when there are this many, about every ten minutes.
_MAX_LINES = 600


class _LineFile:
    """A CSV file that is created with its first line."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._path, self._columns = path, columns
        self._file: UnbufferedFile | None = None
        self._lines: list[Sequence[str]] = []

    def add(self, values: Sequence[str]) -> None:
        self._lines.append(values)
        if len(self._lines) >= _MAX_LINES:
            self._write()

    def _write(self) -> None:
        header = (self._columns,) if self._file is None else ()
        if self._file is None:
            self._file = create(self._path)
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows((*header, *self._lines))
        self._file.write(text.getvalue().encode("utf-8", "replace"))
        self._lines = []

    def close(self) -> None:
        if self._lines:
            self._write()
        if self._file is not None:
            self._file.close()


class IntervalFiles:
    """The files of a point with a line for each interval of about a second; lines of the ramp are marked.

    ``.iostat.csv`` has the columns of ``iostat -x``, ``.iotop.csv`` the other processes that did I/O, on any device,
    ``.power.csv`` the readings of a power meter.
    """

    def __init__(self, job: Path, ramp_seconds: float) -> None:
        self._iostat = _LineFile(job.with_suffix(".iostat.csv"), ("time", "device", "part", "seconds", *IOSTAT_COLUMNS))
        columns = ("time", "part", "process", "read_bytes", "written_bytes")
        self._iotop = _LineFile(job.with_suffix(".iotop.csv"), columns)
        self._power = _LineFile(job.with_suffix(".power.csv"), ("time", "part", "watts"))
        self._ramp_end = time.monotonic() + ramp_seconds

    def add(self, statistics: BlockStatistics, seconds: float) -> None:
        """Add the interval of ``seconds`` that ends now."""
        values = statistics.iostat(seconds).values()
        self._iostat.add((_now(), statistics.device, self._part(seconds), f"{seconds:.3f}", *map(_text, values)))

    def add_processes(self, processes: Sequence[ProcessIo]) -> None:
        """Add the I/O of other processes between the previous reading and now."""
        for process in processes:
            counts = (str(process.read_bytes), str(process.written_bytes))
            self._iotop.add((_now(), self._part(0.0), f"{process.pid} {process.name}", *counts))

    def add_power(self, watts: Sequence[float]) -> None:
        """Add the readings of a power meter since the previous call."""
        for value in watts:
            self._power.add((_now(), self._part(0.0), _text(value)))

    @property
    def in_ramp(self) -> bool:
        """Whether the ramp has not ended yet."""
        return self._part(0.0) == "ramp"

    def _part(self, seconds: float) -> str:
        """Return whether the interval that began ``seconds`` ago started in the ``ramp`` or the ``measured`` part."""
        return "ramp" if time.monotonic() - seconds < self._ramp_end else "measured"

    def close(self) -> None:
        """Write the remaining lines."""
        self._iostat.close()
        self._iotop.close()
        self._power.close()


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="milliseconds")


def _text(value: float) -> str:
    return "n/a" if math.isnan(value) else f"{value:.6g}"
