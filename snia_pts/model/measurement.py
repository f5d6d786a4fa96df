"""Measurement results: counts, times and response-time histograms of a stimulus; Rounds; Samples.

Statistics come from totals and histograms, never from averages of averages: the IOPS of a mixed point are reads plus
writes, its average response time is weighted by I/O count, and percentiles come from merged bins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Literal, Protocol, TypeVar

from ..spec import Deviation, MetricName, Tracked
from ..units import MAX_QUANTITY, MB, Amount, Difference, Quantity
from .attempt import RejectedAttempt
from .histogram import Histogram, SyncTimes, merge, percentile_rank, percentiles_ns
from .reported import ReportedFigures
from .steps import Stimulus
from .telemetry import TelemetrySample

FIVE_NINES = 99.999
#: The confidence levels of the standard, in percent.
NINES = (99.9, 99.99, FIVE_NINES)

#: The reads, or the writes, of a measurement.
Direction = Literal["read", "write"]

Key = TypeVar("Key", bound=Hashable)

#: Engines report their I/O time in whole milliseconds, which is 1 % of this.  Shorter times give no rate.
SHORTEST_RATED_MS = 100


def rate_per_second(amount: float, time: float, *, ticks_per_second: int = 1) -> float:
    """Return an amount per second of I/O time; nan if the time is shorter than ``SHORTEST_RATED_MS``.

    ``time`` is in seconds, or in milliseconds if ``ticks_per_second`` is 1000: a conversion would be rounded.  The rate
    of an amount of 0 is 0, however short the time.
    """
    if not amount:
        return 0.0
    milliseconds = round(1000 * time / ticks_per_second, 6)
    return ticks_per_second * amount / time if milliseconds >= SHORTEST_RATED_MS else math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfers:
    """The reads, or the writes, of one measurement.

    ``runtime_ms`` is the engine's measured time, not the requested one.  Response times are measured on the host, and
    include submission and completion.  ``percentiles_ns`` are percentiles by percent, as another tool's file states
    them if it has no histogram.
    """

    ios: Amount
    transferred_bytes: Amount
    runtime_ms: Amount
    response_min_ns: Amount
    response_mean_ns: Quantity
    response_max_ns: Amount
    histogram: Histogram
    percentiles_ns: tuple[tuple[float, Quantity], ...] = ()

    def __post_init__(self) -> None:
        if self.histogram.count > MAX_QUANTITY:
            raise ValueError(f"more than {MAX_QUANTITY} response times")

    @property
    def iops(self) -> float:
        return rate_per_second(self.ios, self.runtime_ms, ticks_per_second=1000)

    @property
    def bytes_per_second(self) -> float:
        return rate_per_second(self.transferred_bytes, self.runtime_ms, ticks_per_second=1000)

    def stated_percentile_us(self, percent: float) -> float | None:
        """Return one of ``percentiles_ns`` in us, at most the maximum; None if it is missing or has too few I/Os."""
        value_ns = dict(self.percentiles_ns).get(percent)
        if value_ns is None or percentile_rank(self.ios, percent) is None:
            return None
        return min(value_ns, self.response_max_ns) / 1000


NO_TRANSFERS = Transfers(
    ios=0,
    transferred_bytes=0,
    runtime_ms=0,
    response_min_ns=0,
    response_mean_ns=0.0,
    response_max_ns=0,
    histogram=Histogram(),
)


def sync_percentile_us(measurements: Sequence[Measurement], percent: float) -> float | None:
    """Return a percentile of all synchronizing calls of ``measurements`` in us; None if there are too few."""
    times = [measurement.sync for measurement in measurements if measurement.sync is not None]
    (value,) = percentiles_ns((sync.histogram for sync in times), (percent,))
    return None if value is None else min(value, max(sync.max_ns for sync in times)) / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The times of one stimulus, and the idle time of the device before it.

    ``suite_gap_us`` is the suite's own share of the time since the previous program.  ``idle_gap_ms`` is the time
    without host I/O: it also includes the engine's time before and after its I/O (``bench/gap.py`` measures it at the
    block layer).  Both are None for the first stimulus.  ``interruptions`` counts the resumes of the run so far.
    ``clock_set_seconds`` is the change of the wall clock, if somebody set it.  ``engine_restarted`` is true if the
    engine failed and was started again.  ``thread_spread_ms`` is the time between the end of the engine's first thread
    and the end of its last; None if unknown.  It depends on when the threads started, and on their last I/Os.
    ``idle_ios`` and ``idle_bytes`` are the I/O of other programs on the device before the stimulus, while the suite
    left it idle, as the block layer counted it; None if unknown.
    """

    started: str
    started_monotonic_ns: Amount
    ended_monotonic_ns: Amount
    suite_gap_us: Difference | None
    idle_gap_ms: Difference | None
    interruptions: int = 0
    clock_set_seconds: Difference = 0.0
    engine_restarted: bool = False
    thread_spread_ms: Quantity | None = None
    idle_ios: Amount | None = None
    idle_bytes: Amount | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The result of one stimulus.

    ``evidence`` names its files in the run folder, ``evidence_sha256`` is the checksum of the engine's result.
    ``engine_cpu_percent`` is the mean CPU usage of the engine's threads.  ``telemetry`` are the kernel's counters of
    drive and host during the measurement.  ``sync`` are the times of fsync and fdatasync, if the stimulus calls them.
    ``reported`` are the only figures if another tool measured; there are no I/O counts then.  ``rejected`` are the
    attempts before this one.  ``uncounted_ios`` are I/Os that the engine lost count of at its end; no other number
    includes them.  ``stream_bytes`` are the bytes of each of several sequential threads; empty if unknown.
    ``engine_messages`` are the unexpected lines that the engine wrote to its standard error.
    """

    kind: Literal["measurement"] = "measurement"
    stimulus: Stimulus
    seed: int
    read: Transfers
    write: Transfers
    timing: Timing
    evidence: str
    evidence_sha256: str
    engine_cpu_percent: Quantity | None = None
    telemetry: TelemetrySample | None = None
    sync: SyncTimes | None = None
    reported: ReportedFigures | None = None
    rejected: tuple[RejectedAttempt, ...] = ()
    uncounted_ios: Amount = 0
    stream_bytes: tuple[Amount, ...] = ()
    engine_messages: tuple[str, ...] = ()

    @property
    def host_cpu_percent(self) -> float | None:
        """The load of all CPUs during the measurement, from all processes; None if it is unknown."""
        return None if self.telemetry is None else self.telemetry.cpu_percent

    @property
    def ios(self) -> int:
        return self.read.ios + self.write.ios

    @property
    def has_both_sides(self) -> bool:
        """Whether it has separate figures of reads and writes; another tool reports only both together."""
        return 0 < self.stimulus.read_percent < 100 and self.reported is None

    @property
    def iops(self) -> float:
        """I/Os per second, reads and writes together; nan if unknown, as for all figures here."""
        if self.reported is not None:
            return self.reported.rate(self.stimulus.largest_block_bytes)
        return self.read.iops + self.write.iops

    @property
    def mb_per_second(self) -> float:
        """Throughput in decimal MB/s, reads and writes together."""
        if self.reported is not None:
            return self.reported.bytes_per_second(self.stimulus.largest_block_bytes) / MB
        return (self.read.bytes_per_second + self.write.bytes_per_second) / MB

    @property
    def runtime_ms(self) -> int:
        requested_ms = round(1000 * (self.stimulus.seconds or 0)) if self.reported is not None else 0
        return max(requested_ms, self.read.runtime_ms, self.write.runtime_ms)

    @property
    def finish_seconds(self) -> float:
        """The time of one pass over the range in seconds; nan if a time ends the stimulus.

        It is also nan if all passes took less than ``SHORTEST_RATED_MS``, which is too short for the engine's clock.
        """
        if not self.stimulus.passes or self.runtime_ms < SHORTEST_RATED_MS:
            return math.nan
        return self.runtime_ms / 1000 / self.stimulus.passes

    @property
    def timed(self) -> bool:
        """Whether there are response times."""
        return self.ios > 0 and self.stimulus.timed if self.reported is None else self.reported.timed

    @property
    def average_response_us(self) -> float:
        """ART in microseconds, weighted by I/O count."""
        if self.reported is not None:
            return self.reported.mean_us
        if not self.stimulus.timed:
            return math.nan
        total = self.read.ios * self.read.response_mean_ns + self.write.ios * self.write.response_mean_ns
        return total / self.ios / 1000 if self.ios else 0.0

    @property
    def maximum_response_us(self) -> float:
        """MRT in microseconds."""
        if self.reported is not None:
            return self.reported.maximum_us
        if not self.stimulus.timed:
            return math.nan
        return max(self.read.response_max_ns, self.write.response_max_ns) / 1000

    @property
    def histogram(self) -> Histogram:
        """Response times of reads and writes together."""
        return merge((self.read.histogram, self.write.histogram))


def average_response_us(measurements: Sequence[Measurement]) -> float:
    """Return the ART of all ``measurements`` in us, weighted by I/O count; nan without I/Os.

    Figures reported by another tool have no I/O counts, and get equal weights.
    """
    if any(measurement.reported is not None for measurement in measurements):
        return mean(measurement.average_response_us for measurement in measurements)
    if not all(measurement.stimulus.timed for measurement in measurements):
        return math.nan
    sides = [side for measurement in measurements for side in (measurement.read, measurement.write)]
    ios = sum(side.ios for side in sides)
    return math.fsum(side.ios * side.response_mean_ns for side in sides) / ios / 1000 if ios else math.nan


def percentile_response_us(measurements: Sequence[Measurement], percent: float) -> float | None:
    """Return a percentile of all response times of ``measurements`` in us; None if there are too few.

    It comes from merged bins, limited to the maximum response time, which alone is exact.
    """
    return percentiles_response_us(measurements, (percent,))[0]


def percentiles_response_us(measurements: Sequence[Measurement], percents: Sequence[float]) -> tuple[float | None, ...]:
    """Return several percentiles like ``percentile_response_us``, at the cost of one.

    Without bins, percentiles are those in the file of another tool.  These cannot be merged, with others or with bins,
    so they are returned only for a single measurement with either reads or writes.
    """
    sides = [side for measurement in measurements for side in (measurement.read, measurement.write)]
    return percentiles_of_transfers_us(sides, percents)


def percentiles_of_transfers_us(transfers: Sequence[Transfers], percents: Sequence[float]) -> tuple[float | None, ...]:
    """Return percentiles of reads, of writes, or of both, like ``percentiles_response_us``."""
    stated = [part for part in transfers if part.ios]
    if any(part.percentiles_ns for part in stated):
        return tuple(stated[0].stated_percentile_us(percent) if len(stated) == 1 else None for percent in percents)
    values_ns = percentiles_ns((part.histogram for part in transfers), percents)
    maximum_ns = max((part.response_max_ns for part in transfers), default=0)
    return tuple(None if value is None else min(value, maximum_ns) / 1000 for value in values_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeOutcome:
    """The outcome of a purge: the method, and the proof that the old data is gone.

    ``samples`` blocks were written with a pattern before the purge; ``survivors`` of them were unchanged after it.
    ``remarks`` are information for the reader that is not a Deviation.
    """

    kind: Literal["purge"] = "purge"
    method: str
    samples: Amount
    survivors: Amount
    started: str
    seconds: Quantity
    evidence: str
    deviations: tuple[Deviation, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def purged(self) -> bool:
        """Whether the target was purged; with the method "none" only its state is recorded."""
        return self.method != "none"

    @property
    def label(self) -> str:
        """The text for the report's header."""
        if not self.purged:
            return "not purged"
        proven = self.samples and not self.survivors
        return f"{self.method} ({f'proven on {self.samples} blocks' if proven else 'not proven'})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One sample of a continuous stimulus: the increase of the engine's running totals since the previous sample.

    ``ended_seconds`` is the I/O time from the start of the stimulus to the end of the sample, ``seconds`` the I/O time
    of the sample itself.
    Percentiles are None if the sample has too few I/Os.  The maximum response time is exact if it is the maximum of the
    stimulus so far, and otherwise the upper edge of the sample's highest bin.  ``interruptions`` counts the resumes of
    the run so far.  ``telemetry`` are the kernel's counters during the sample.
    """

    kind: Literal["sample"] = "sample"
    number: Amount
    ended_seconds: Quantity
    seconds: Quantity
    read_ios: Amount
    write_ios: Amount
    read_bytes: Amount
    write_bytes: Amount
    average_response_us: Quantity
    maximum_response_us: Quantity
    three_nines_us: Quantity | None
    four_nines_us: Quantity | None
    five_nines_us: Quantity | None
    interruptions: int = 0
    telemetry: TelemetrySample | None = None

    @property
    def ios(self) -> int:
        return self.read_ios + self.write_ios

    @property
    def iops(self) -> float:
        """I/Os per second, reads and writes together; nan if the sample is too short for a rate."""
        return rate_per_second(self.ios, self.seconds)

    @property
    def mb_per_second(self) -> float:
        """Throughput in decimal MB/s, reads and writes together."""
        return rate_per_second(self.read_bytes + self.write_bytes, self.seconds) / MB


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleOutcome:
    """An idle time of the device: no program ran, and the device got no commands."""

    kind: Literal["idle"] = "idle"
    started: str
    seconds: Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareOutcome:
    """A preparation of the host: ``settings`` as read back, ``before`` as found."""

    kind: Literal["prepare"] = "prepare"
    started: str
    seconds: Quantity
    settings: tuple[tuple[str, str], ...] = ()
    before: tuple[tuple[str, str], ...] = ()


Outcome = PurgeOutcome | Sample | Measurement | IdleOutcome | PrepareOutcome


class Measured(Protocol):
    """The source of a metric: a measurement or a sample."""

    @property
    def iops(self) -> float: ...
    @property
    def mb_per_second(self) -> float: ...
    @property
    def average_response_us(self) -> float: ...
    @property
    def maximum_response_us(self) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A tracked metric: its name and unit in reports, and the function that reads it."""

    label: str
    unit: str
    read: Callable[[Measured], float]

    @property
    def heading(self) -> str:
        """Name and unit, ``Throughput (MB/s)``; only the name if it is its own unit (``IOPS``)."""
        return self.label if self.label == self.unit else f"{self.label} ({self.unit})"


METRICS: Mapping[MetricName, Metric] = {
    "iops": Metric(label="IOPS", unit="IOPS", read=lambda measured: measured.iops),
    "mb_per_second": Metric(label="Throughput", unit="MB/s", read=lambda measured: measured.mb_per_second),
    "average_response_ms": Metric(
        label="Average response time", unit="ms", read=lambda measured: measured.average_response_us / 1000
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRound:
    """The measurements of one Round; only the last Round of a stopped run can be incomplete."""

    number: int
    measurements: tuple[Measurement, ...]
    complete: bool

    @property
    def interruptions(self) -> frozenset[int]:
        """The numbers of resumes before its measurements; two if the Round was interrupted."""
        return frozenset(measurement.timing.interruptions for measurement in self.measurements)

    def keyed_by(self, key: Callable[[Stimulus], Key]) -> Mapping[Key, Measurement]:
        """Return the measurements by a key of their stimuli; raise ValueError for a repeated key."""
        keyed = {key(measurement.stimulus): measurement for measurement in self.measurements}
        if len(keyed) != len(self.measurements):
            raise ValueError(f"round {self.number} measured a point twice")
        return keyed

    def point(self, tracked: Tracked) -> Measurement:
        """Return the measurement of a tracked variable.

        Raises KeyError if the round did not measure it, ValueError if several points match.
        """
        points = [measurement for measurement in self.measurements if _matches(measurement.stimulus, tracked)]
        if not points:
            raise KeyError(tracked)
        if len(points) > 1:
            raise ValueError(f"round {self.number} has {len(points)} points for a tracked variable")
        return points[0]

    def contains(self, tracked: Tracked) -> bool:
        """Return whether the round measured a tracked variable."""
        return any(_matches(measurement.stimulus, tracked) for measurement in self.measurements)

    def value(self, tracked: Tracked) -> float:
        """Return a tracked variable; raises the errors of ``point``."""
        return METRICS[tracked.metric].read(self.point(tracked))


def _matches(stimulus: Stimulus, tracked: Tracked) -> bool:
    """Return whether a stimulus matches a tracked variable in all values that the variable specifies."""
    return all(
        expected is None or expected == actual
        for expected, actual in (
            (tracked.read_percent, stimulus.read_percent),
            (tracked.block_size_bytes, stimulus.block_size_bytes),
            (tracked.thread_count, stimulus.thread_count),
            (tracked.queue_depth, stimulus.queue_depth),
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledRound:
    """A sample that counts as a round: the one for ``minute``, after ``fills`` of the ActiveRange.

    ``row`` is its row in the time line, once there is one.
    """

    number: int
    minute: float
    fills: float
    sample: Sample
    row: int | None = None
    complete = True

    @property
    def interruptions(self) -> frozenset[int]:
        return frozenset((self.sample.interruptions,))

    def value(self, tracked: Tracked) -> float:
        """Return a tracked variable."""
        return METRICS[tracked.metric].read(self.sample)


def mean(values: Iterable[float], weights: Sequence[float] | None = None) -> float:
    """Return the arithmetic mean, summed without rounding error; nan without values.

    ``weights``, one for each value, are all equal if there are none; nan if their sum is 0.
    """
    numbers = list(values)
    if weights is None:
        return math.fsum(numbers) / len(numbers) if numbers else math.nan
    total = math.fsum(weights)
    return math.fsum(map(mul, numbers, weights)) / total if total else math.nan
