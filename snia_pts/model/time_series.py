"""A continuous stimulus over time: its samples as columns of numbers, 8 bytes per value."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..units import MB
from .histogram import Histogram, merge
from .measurement import NINES, Measurement, Sample, percentiles_response_us, rate_per_second
from .steps import FILL_PHASES, ContinuousStimulus, Phase, Stimulus
from .telemetry import TelemetrySample

#: The columns copied from a sample without conversion.
_COPIED = (
    "seconds",
    "read_ios",
    "write_ios",
    "read_bytes",
    "write_bytes",
    "average_response_us",
    "maximum_response_us",
)
#: Columns with missing values, which are nan.
_PERCENTILES = ("three_nines_us", "four_nines_us", "five_nines_us")
#: Columns of the kernel's telemetry, also with missing values.
TELEMETRY_COLUMNS = ("celsius", "cpu_percent", "busiest_cpu_percent", "queue", "busy_percent", "watts", "host_watts")
#: All columns of measured values, in file order.
COLUMNS = ("ended_seconds", *_COPIED, *_PERCENTILES)


def _column() -> array[float]:
    return array("d")


@dataclass(slots=True, kw_only=True)
class TimeLine:
    """All continuous stimuli of one phase and part, in order: one row per sample, and a column per value.

    A stimulus without samples is a single row.  ``ended_seconds`` is the end of a sample on a clock that starts with
    the I/O of the first stimulus.  Times between stimuli count, except those during which the run was interrupted: no
    clock of the host can measure these reliably.  ``counted_bytes`` are those that the kernel counted on the drive; nan
    if unknown.  ``engine_starts`` counts the starts of the engine.  ``ended_rows``
    counts the rows of stimuli that have ended.
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
    watts: array[float] = field(default_factory=_column)
    host_watts: array[float] = field(default_factory=_column)
    counted_bytes: array[float] = field(default_factory=_column)
    measurements: list[Measurement] = field(default_factory=list)
    engine_starts: int = 0
    complete: bool = True
    start_ns: int | None = None
    ended_rows: int = 0

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def is_fill(self) -> bool:
        """Whether it only fills the range before the test: WIPC, or the fill of a profile."""
        return self.phase in FILL_PHASES

    @property
    def label(self) -> str:
        """Part, phase and stimulus: ``Wait State 1: access A RND 4 KiB 0/100``."""
        return ContinuousStimulus(part=self.part, phase=self.phase, stimulus=self.stimulus).label

    def __eq__(self, other: object) -> bool:
        """Return whether all values are equal; two missing values are equal."""
        if not isinstance(other, TimeLine):
            return NotImplemented
        pairs = ((getattr(self, name), getattr(other, name)) for name in self.__slots__)
        return all(one.tobytes() == two.tobytes() if isinstance(one, array) else one == two for one, two in pairs)

    def add(self, samples: Iterable[Sample], measurement: Measurement | None) -> None:
        """Add the samples and the measurement of a stimulus; without a measurement it was stopped."""
        for sample in samples:
            self.add_sample(sample)
        self.end(measurement)

    def add_sample(self, sample: Sample) -> None:
        """Add a sample of the stimulus that is running."""
        self.ended_seconds.append(sample.ended_seconds)
        for name in _COPIED:
            getattr(self, name).append(getattr(sample, name))
        for name in _PERCENTILES:
            value = getattr(sample, name)
            getattr(self, name).append(math.nan if value is None else value)
        for name, value in zip(TELEMETRY_COLUMNS, _telemetry_row(sample.telemetry), strict=True):
            getattr(self, name).append(math.nan if value is None else value)
        block = sample.telemetry.block if sample.telemetry else None
        self.counted_bytes.append(block.read_bytes + block.write_bytes if block else math.nan)

    def end(self, measurement: Measurement | None) -> None:
        """Add the measurement of the stimulus that was running; without a measurement it was stopped."""
        first = self.ended_rows
        if measurement is not None and first == len(self):
            self.add_sample(_to_sample(measurement))
        start = self._start_seconds(measurement)
        for row in range(first, len(self)):
            self.ended_seconds[row] += start
        self.ended_rows = len(self)
        self.engine_starts += 1
        self.complete = measurement is not None
        if measurement is not None:
            self.measurements.append(measurement)

    def _start_seconds(self, measurement: Measurement | None) -> float:
        """Return the start of a stimulus's I/O on this line's clock, in seconds."""
        previous_end = self.ended_seconds[self.ended_rows - 1] if self.ended_rows else 0.0
        if measurement is None or measurement.reported is not None:  # The time is unknown: assume no gap.
            return previous_end
        stimulus_start_ns = measurement.timing.ended_monotonic_ns - measurement.runtime_ms * 1_000_000
        interruptions = self.measurements[-1].timing.interruptions if self.measurements else None
        if self.start_ns is None or interruptions not in (None, measurement.timing.interruptions):
            self.start_ns = stimulus_start_ns - round(1e9 * previous_end)
        return max(0.0, (stimulus_start_ns - self.start_ns) / 1e9)

    @property
    def iops(self) -> list[float]:
        """I/Os per second of every sample, reads and writes together."""
        times = zip(self.read_ios, self.write_ios, self.seconds, strict=True)
        return [rate_per_second(read + write, seconds) for read, write, seconds in times]

    @property
    def mb_per_second(self) -> list[float]:
        """Decimal MB/s of every sample, reads and writes together."""
        times = zip(self.read_bytes, self.write_bytes, self.seconds, strict=True)
        return [rate_per_second(read + write, seconds) / MB for read, write, seconds in times]

    @property
    def written_bytes(self) -> float:
        return math.fsum(self.write_bytes)

    @property
    def histogram(self) -> Histogram:
        """Response times of all I/Os, from the merged bins of its stimuli."""
        return merge(side.histogram for point in self.measurements for side in (point.read, point.write))


def _telemetry_row(telemetry: TelemetrySample | None) -> tuple[float | None, ...]:
    """Return the values of ``TELEMETRY_COLUMNS`` for a sample."""
    if telemetry is None:
        return (None,) * len(TELEMETRY_COLUMNS)
    block = telemetry.block
    return (
        telemetry.celsius,
        telemetry.cpu_percent,
        telemetry.busiest_cpu_percent,
        block.queue if block else None,
        block.busy_percent if block else None,
        telemetry.watts,
        telemetry.host_watts,
    )


def _to_sample(measurement: Measurement) -> Sample:
    seconds = measurement.runtime_ms / 1000
    three_nines_us, four_nines_us, five_nines_us = percentiles_response_us([measurement], NINES)
    return Sample(
        number=1,
        ended_seconds=seconds,
        seconds=seconds,
        read_ios=measurement.read.ios,
        write_ios=measurement.write.ios,
        read_bytes=measurement.read.transferred_bytes,
        write_bytes=measurement.write.transferred_bytes,
        average_response_us=measurement.average_response_us,
        maximum_response_us=measurement.maximum_response_us,
        three_nines_us=three_nines_us,
        four_nines_us=four_nines_us,
        five_nines_us=five_nines_us,
        telemetry=measurement.telemetry,
    )
