"""A continuous stimulus over time: its samples as columns of plain numbers, 8 bytes each."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ..units import MB
from .histogram import Histogram, merged
from .measurement import FIVE_NINES, Measurement, Sample, percentile_response_us, rate_per_second
from .steps import Phase, Stimulus
from .telemetry import TelemetrySample

#: The columns taken from a sample as they are.
_COPIED = (
    "seconds",
    "read_ios",
    "write_ios",
    "read_bytes",
    "write_bytes",
    "average_response_us",
    "maximum_response_us",
)
#: The columns that may lack a value: nan there.
_PERCENTILES = ("three_nines_us", "four_nines_us", "five_nines_us")
#: The columns of what the kernel told meanwhile; they may lack a value too.
VITALS = ("celsius", "cpu_percent", "busiest_cpu_percent", "queue", "busy_percent")
#: All columns of what was measured, in the order in which they are written.
COLUMNS = ("ended_seconds", *_COPIED, *_PERCENTILES)


def _column() -> array[float]:
    return array("d")


@dataclass(slots=True, kw_only=True)
class TimeLine:
    """All stretches of one phase and part, in order; columns have one value a sample, rows are samples in order.

    A stretch that was not cut into samples is a row by itself.  ``ended_seconds`` is when a sample ended, on the clock
    of the first stretch's I/O: times between stretches count, but for those in which the run was interrupted, whose
    length no clock of the host may know.  ``stretches`` tells how often the engine was started,
    ``ended_rows`` how many rows are of stretches that ended.
    """

    phase: Phase
    part: str
    stimulus: Stimulus
    ended_seconds: array[float] = field(default_factory=_column)
    seconds: array[float] = field(default_factory=_column)
    read_ios: array[float] = field(default_factory=_column)
    write_ios: array[float] = field(default_factory=_column)
    read_bytes: array[float] = field(default_factory=_column)
    write_bytes: array[float] = field(default_factory=_column)
    average_response_us: array[float] = field(default_factory=_column)
    maximum_response_us: array[float] = field(default_factory=_column)
    three_nines_us: array[float] = field(default_factory=_column)
    four_nines_us: array[float] = field(default_factory=_column)
    five_nines_us: array[float] = field(default_factory=_column)
    celsius: array[float] = field(default_factory=_column)
    cpu_percent: array[float] = field(default_factory=_column)
    busiest_cpu_percent: array[float] = field(default_factory=_column)
    queue: array[float] = field(default_factory=_column)
    busy_percent: array[float] = field(default_factory=_column)
    measurements: list[Measurement] = field(default_factory=list)
    stretches: int = 0
    complete: bool = True
    began_ns: int | None = None
    ended_rows: int = 0

    def __len__(self) -> int:
        return len(self.seconds)

    def __eq__(self, other: object) -> bool:
        """Tell whether all is alike; two values that are missing are."""
        if not isinstance(other, TimeLine):
            return NotImplemented
        pairs = ((getattr(self, name), getattr(other, name)) for name in self.__slots__)
        return all(mine.tobytes() == its.tobytes() if isinstance(mine, array) else mine == its for mine, its in pairs)

    def add(self, samples: Iterable[Sample], whole: Measurement | None) -> None:
        """Take in what came of a stretch; without its whole it was stopped."""
        for sample in samples:
            self.take(sample)
        self.end(whole)

    def take(self, sample: Sample) -> None:
        """Take in a sample of the stretch that runs."""
        self.ended_seconds.append(sample.ended_seconds)
        for name in _COPIED:
            getattr(self, name).append(getattr(sample, name))
        for name in _PERCENTILES:
            value = getattr(sample, name)
            getattr(self, name).append(math.nan if value is None else value)
        for name, value in zip(VITALS, _vitals(sample.vitals), strict=True):
            getattr(self, name).append(math.nan if value is None else value)

    def end(self, whole: Measurement | None) -> None:
        """Take in the whole of the stretch that ran; without it the stretch was stopped."""
        first = self.ended_rows
        if whole is not None and first == len(self):
            self.take(_whole_sample(whole))
        began = self._begin(whole)
        for row in range(first, len(self)):
            self.ended_seconds[row] += began
        self.ended_rows = len(self)
        self.stretches += 1
        self.complete = whole is not None
        if whole is not None:
            self.measurements.append(whole)

    def _begin(self, whole: Measurement | None) -> float:
        """Return when a stretch's I/O began, in seconds on this line's clock."""
        before = self.ended_seconds[self.ended_rows - 1] if self.ended_rows else 0.0
        if whole is None or whole.told is not None:  # stopped, or nobody told: right after the stretch before
            return before
        began_ns = whole.timing.ended_monotonic_ns - whole.runtime_ms * 1_000_000
        known = self.measurements[-1].timing.interruptions if self.measurements else None
        if self.began_ns is None or known not in (None, whole.timing.interruptions):
            self.began_ns = began_ns - round(1e9 * before)
        return max(0.0, (began_ns - self.began_ns) / 1e9)

    @property
    def iops(self) -> list[float]:
        """I/Os per second of every sample, reads and writes together."""
        times = zip(self.read_ios, self.write_ios, self.seconds, strict=True)
        return [rate_per_second(read + write, 1000 * seconds) for read, write, seconds in times]

    @property
    def mb_per_second(self) -> list[float]:
        """Decimal MB/s of every sample, reads and writes together."""
        times = zip(self.read_bytes, self.write_bytes, self.seconds, strict=True)
        return [rate_per_second(read + write, 1000 * seconds) / MB for read, write, seconds in times]

    @property
    def written_bytes(self) -> float:
        return math.fsum(self.write_bytes)

    @property
    def histogram(self) -> Histogram:
        """Response times of all its I/Os together, by the merged bins of its stretches."""
        return merged(part.histogram for each in self.measurements for part in (each.read, each.write))

    def written_by_sample(self) -> Iterator[float]:
        """Give the bytes written until each sample's end."""
        total = 0.0
        for written in self.write_bytes:
            total += written
            yield total


def _vitals(vitals: TelemetrySample | None) -> tuple[float | None, ...]:
    """Return the columns ``VITALS`` of a sample."""
    if vitals is None:
        return (None,) * len(VITALS)
    block = vitals.block
    return (
        vitals.celsius,
        vitals.cpu_percent,
        vitals.busiest_cpu_percent,
        block.queue if block else None,
        block.busy_percent if block else None,
    )


def _whole_sample(whole: Measurement) -> Sample:
    seconds = whole.runtime_ms / 1000
    return Sample(
        number=1,
        ended_seconds=seconds,
        seconds=seconds,
        read_ios=whole.read.ios,
        write_ios=whole.write.ios,
        read_bytes=whole.read.transferred_bytes,
        write_bytes=whole.write.transferred_bytes,
        average_response_us=whole.average_response_us,
        maximum_response_us=whole.maximum_response_us,
        three_nines_us=percentile_response_us([whole], 99.9),
        four_nines_us=percentile_response_us([whole], 99.99),
        five_nines_us=percentile_response_us([whole], FIVE_NINES),
        vitals=whole.vitals,
    )
