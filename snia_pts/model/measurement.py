"""What was measured: counts, times and response-time histograms of one stimulus, rounds and time lines of them.

Statistics come from totals and histograms, never from averages of averages: a mixed point's IOPS is reads plus
writes, its average response time is weighted by I/O count, percentiles come from merged bins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from ..spec import Deviation, MetricName, Tracked
from ..units import MAX_QUANTITY, MB, Amount, Difference, Quantity
from .attempt import RejectedAttempt
from .histogram import Histogram, SyncTimes, merged, percentiles_ns
from .reported import ReportedFigures
from .steps import Stimulus
from .telemetry import TelemetrySample

FIVE_NINES = 99.999
#: The confidence levels of the standard, in percent.
NINES = (99.9, 99.99, FIVE_NINES)

Key = TypeVar("Key", bound=Hashable)

#: Engines report the time of their I/O in whole milliseconds, 1 % of this.  No rate is computed from a shorter time.
SHORTEST_RATED_MS = 100


def rate_per_second(amount: float, milliseconds: float) -> float:
    """Return an amount per second of I/O time; nan where the time is shorter than ``SHORTEST_RATED_MS``.

    The rate of no amount is 0, however short the time.
    """
    if not amount:
        return 0.0
    return 1000 * amount / milliseconds if round(milliseconds, 6) >= SHORTEST_RATED_MS else math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfers:
    """The reads, or the writes, of one measurement.

    ``runtime_ms`` is what the engine measured, not what was asked.  Response times are the host's: submission and
    completion together.
    """

    ios: Amount
    transferred_bytes: Amount
    runtime_ms: Amount
    response_min_ns: Amount
    response_mean_ns: Quantity
    response_max_ns: Amount
    histogram: Histogram

    def __post_init__(self) -> None:
        if self.histogram.count > MAX_QUANTITY:
            raise ValueError("more response times than can be measured")

    @property
    def iops(self) -> float:
        return rate_per_second(self.ios, self.runtime_ms)

    @property
    def bytes_per_second(self) -> float:
        return rate_per_second(self.transferred_bytes, self.runtime_ms)


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
    """Return a percentile of the synchronizing calls of all ``measurements`` in us; None when they are too few."""
    found = [each.sync for each in measurements if each.sync is not None]
    (value,) = percentiles_ns((each.histogram for each in found), (percent,))
    return None if value is None else min(value, max(each.max_ns for each in found)) / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """When one stimulus ran, and how long the device was left alone before it.

    ``own_gap_us`` is the suite's own time since the program before, ``idle_gap_ms`` the time without host I/O: that and
    the engine's around its I/O (``bench/gap.py`` asks the block layer); None where no stimulus came before.  The run
    had been resumed ``interruptions`` times, the clock set by ``clock_set_seconds``, a fallen engine
    ``engine_restarted``.  ``thread_spread_ms`` is the time from the first of the engine's threads that ended to the
    last: how far apart they started, and the time of what each had outstanding; None where that is not known.
    """

    started: str
    started_monotonic_ns: Amount
    ended_monotonic_ns: Amount
    own_gap_us: Difference | None
    idle_gap_ms: Difference | None
    interruptions: int = 0
    clock_set_seconds: Difference = 0.0
    engine_restarted: bool = False
    thread_spread_ms: Quantity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What came of one stimulus.  ``evidence`` names its files in the run folder, ``evidence_sha256`` their result.

    ``engine_cpu_percent`` is what each of the engine's threads used of a CPU, in the mean, ``vitals`` what the kernel
    told of drive and host meanwhile.  ``sync`` are the times of fsync and fdatasync, where the stimulus asked for such.
    ``told`` is all that is known where another tool measured: no I/O was counted then.  ``rejected`` are the attempts
    before it, ``uncounted_ios`` those that the engine lost count of at its end, which are in no other number.
    ``stream_bytes`` is what each of several sequential threads transferred; empty where that is not known.
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
    vitals: TelemetrySample | None = None
    sync: SyncTimes | None = None
    told: ReportedFigures | None = None
    rejected: tuple[RejectedAttempt, ...] = ()
    uncounted_ios: Amount = 0
    stream_bytes: tuple[Amount, ...] = ()

    @property
    def host_cpu_percent(self) -> float | None:
        """How busy all CPUs of the host were together meanwhile, by whatever; None where that is not known."""
        return None if self.vitals is None else self.vitals.cpu_percent

    @property
    def ios(self) -> int:
        return self.read.ios + self.write.ios

    @property
    def iops(self) -> float:
        """I/Os per second, reads and writes together; nan where it is not known, as all here."""
        if self.told is not None:
            return self.told.rate(self.stimulus.largest_block_bytes)
        return self.read.iops + self.write.iops

    @property
    def mb_per_second(self) -> float:
        """Throughput in decimal MB/s, reads and writes together."""
        if self.told is not None:
            return self.told.bytes_per_second(self.stimulus.largest_block_bytes) / MB
        return (self.read.bytes_per_second + self.write.bytes_per_second) / MB

    @property
    def runtime_ms(self) -> int:
        asked_ms = round(1000 * (self.stimulus.seconds or 0)) if self.told is not None else 0
        return max(asked_ms, self.read.runtime_ms, self.write.runtime_ms)

    @property
    def timed(self) -> bool:
        """Whether there are response times."""
        return self.ios > 0 if self.told is None else self.told.timed

    @property
    def average_response_us(self) -> float:
        """ART in microseconds, weighted by I/O count."""
        if self.told is not None:
            return self.told.mean_us
        total = self.read.ios * self.read.response_mean_ns + self.write.ios * self.write.response_mean_ns
        return total / self.ios / 1000 if self.ios else 0.0

    @property
    def maximum_response_us(self) -> float:
        """MRT in microseconds."""
        if self.told is not None:
            return self.told.maximum_us
        return max(self.read.response_max_ns, self.write.response_max_ns) / 1000

    @property
    def histogram(self) -> Histogram:
        """Response times of reads and writes together."""
        return merged((self.read.histogram, self.write.histogram))


def average_response_us(measurements: Sequence[Measurement]) -> float:
    """Return the ART of all ``measurements`` in us, weighted by I/O count (where told: alike); nan of none."""
    if any(measurement.told is not None for measurement in measurements):
        return mean(measurement.average_response_us for measurement in measurements)
    parts = [part for measurement in measurements for part in (measurement.read, measurement.write)]
    ios = sum(part.ios for part in parts)
    return math.fsum(part.ios * part.response_mean_ns for part in parts) / ios / 1000 if ios else math.nan


def percentile_response_us(measurements: Sequence[Measurement], percent: float) -> float | None:
    """Return a percentile of the response times of all ``measurements`` together in us; None when they are too few.

    It comes from merged bins, and is never above the greatest response time, which alone is known exactly.
    """
    return percentiles_response_us(measurements, (percent,))[0]


def percentiles_response_us(measurements: Sequence[Measurement], percents: Sequence[float]) -> tuple[float | None, ...]:
    """Return several percentiles as ``percentile_response_us`` does, at the cost of one."""
    found = percentiles_ns((part.histogram for each in measurements for part in (each.read, each.write)), percents)
    greatest = max((each.maximum_response_us for each in measurements), default=math.nan)
    return tuple(None if value is None else min(value / 1000, greatest) for value in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeOutcome:
    """What came of a purge: the method, and the proof that what was there is gone.

    Of ``samples`` blocks written with a pattern before, ``survivors`` were still there after.  ``remarks`` are what a
    reader should know that is no Deviation.
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
    def label(self) -> str:
        """For the report's header."""
        if self.method == "none":
            return "not purged"
        proven = self.samples and not self.survivors
        return f"{self.method} ({f'proven on {self.samples} blocks' if proven else 'not proven'})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One sample of a stretch: what was transferred since the sample before, by the engine's running totals.

    ``ended_seconds`` is the stretch's I/O time until the sample's end, ``seconds`` the sample's own part of it.
    Percentiles are None where the sample has too few I/Os to tell.  The greatest response time is exact where it is
    the greatest of the stretch so far, and else the upper edge of the sample's highest bin.  ``interruptions`` is how
    often the run had been stopped and resumed before, ``vitals`` what the kernel told meanwhile.
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
    vitals: TelemetrySample | None = None

    @property
    def ios(self) -> int:
        return self.read_ios + self.write_ios

    @property
    def iops(self) -> float:
        """I/Os per second, reads and writes together; nan of a sample too short for a rate."""
        return rate_per_second(self.ios, 1000 * self.seconds)

    @property
    def mb_per_second(self) -> float:
        """Throughput in decimal MB/s, reads and writes together."""
        return rate_per_second(self.read_bytes + self.write_bytes, 1000 * self.seconds) / MB


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleOutcome:
    """The device was left alone for so long; no program ran and nothing was asked of it."""

    kind: Literal["idle"] = "idle"
    started: str
    seconds: Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareOutcome:
    """The host was set as asked: ``settings`` as they were read back, ``before`` as they were found."""

    kind: Literal["prepare"] = "prepare"
    started: str
    seconds: Quantity
    settings: tuple[tuple[str, str], ...] = ()
    before: tuple[tuple[str, str], ...] = ()


Outcome = PurgeOutcome | Sample | Measurement | IdleOutcome | PrepareOutcome


class Measured(Protocol):
    """What a metric is read from: a measurement, or a sample of one."""

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
    """Something a test tracks: its name and unit as a report prints them, and how it is read."""

    label: str
    unit: str
    of: Callable[[Measured], float]

    @property
    def heading(self) -> str:
        """Name and unit: ``Throughput (MB/s)``, and just ``IOPS`` for what is its own unit."""
        return self.label if self.label == self.unit else f"{self.label} ({self.unit})"


METRICS: Mapping[MetricName, Metric] = {
    "iops": Metric(label="IOPS", unit="IOPS", of=lambda measured: measured.iops),
    "mb_per_second": Metric(label="Throughput", unit="MB/s", of=lambda measured: measured.mb_per_second),
    "average_response_ms": Metric(
        label="Average response time", unit="ms", of=lambda measured: measured.average_response_us / 1000
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRound:
    """The measurements of one Round, complete or (the last one of a stopped run) not."""

    number: int
    measurements: tuple[Measurement, ...]
    complete: bool

    @property
    def interruptions(self) -> frozenset[int]:
        """How often the run had been stopped and resumed before its measurements; of two kinds in a broken round."""
        return frozenset(measurement.timing.interruptions for measurement in self.measurements)

    def by(self, key: Callable[[Stimulus], Key]) -> Mapping[Key, Measurement]:
        """The measurements by a key of their stimuli; raises ValueError when two have the same."""
        keyed = {key(measurement.stimulus): measurement for measurement in self.measurements}
        if len(keyed) != len(self.measurements):
            raise ValueError(f"round {self.number} measured a point twice")
        return keyed

    def point(self, tracked: Tracked) -> Measurement:
        """Return the measurement of a tracked variable, found by its key.

        Raises KeyError when the round did not measure it, ValueError when more than one point answers to the key.
        """
        found = [measurement for measurement in self.measurements if _answers(measurement.stimulus, tracked)]
        if not found:
            raise KeyError(tracked)
        if len(found) > 1:
            raise ValueError(f"round {self.number} has {len(found)} points for a tracked variable")
        return found[0]

    def value(self, tracked: Tracked) -> float:
        """Return a tracked variable; raises as ``point`` does."""
        return METRICS[tracked.metric].of(self.point(tracked))


def _answers(stimulus: Stimulus, tracked: Tracked) -> bool:
    """Tell whether a stimulus is the tracked variable's: every key that is given agrees."""
    return all(
        asked is None or asked == given
        for asked, given in (
            (tracked.read_percent, stimulus.read_percent),
            (tracked.block_size_bytes, stimulus.block_size_bytes),
            (tracked.thread_count, stimulus.thread_count),
            (tracked.queue_depth, stimulus.queue_depth),
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledRound:
    """A sample that stands for a round: it ended at ``minute``, after so many ``fills`` of the ActiveRange."""

    number: int
    minute: float
    fills: float
    sample: Sample
    complete = True

    @property
    def interruptions(self) -> frozenset[int]:
        return frozenset((self.sample.interruptions,))

    def value(self, tracked: Tracked) -> float:
        """Return a tracked variable."""
        return METRICS[tracked.metric].of(self.sample)


def mean(values: Iterable[float]) -> float:
    """Return the arithmetic mean, summed without rounding error; nan of nothing."""
    listed = list(values)
    return math.fsum(listed) / len(listed) if listed else math.nan
