"""The sections of specifications, which validate their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

from annotated_types import Ge, Gt, Le, MaxLen, MinLen, MultipleOf, Predicate

from ..units import KIB

TestClass = Literal["enterprise", "client"]
#: Texts in titles, headings and figures.
Name = Annotated[str, MinLen(1), MaxLen(40), Predicate(str.isprintable)]
Line = Annotated[str, MinLen(1), MaxLen(120), Predicate(str.isprintable)]
Percent = Annotated[int, Ge(0), Le(100)]
Share = Annotated[int, Ge(1), Le(100)]
Count = Annotated[int, Ge(1), Le(1024)]
Kib = Annotated[float, Ge(0.5), Le(65536), MultipleOf(0.5)]

Seconds = Annotated[float, Ge(0.1), Le(7 * 86400)]
#: Larger tests, and their plans, would not finish in useful time, and result.xml would be too large to read.
MAX_POINTS, _MAX_SAMPLES = 10**5, 10**7
#: How reports write the names of patterns, where it differs from the name in a specification.
_PATTERN_TITLES = {"oltp": "OLTP", "composite": "Composite"}
MetricName = Literal["iops", "mb_per_second", "average_response_ms"]

STRICT = {"extra": "forbid", "allow_inf_nan": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """A difference from the standard: the key, the standard's value, the actual value, the clause."""

    what: str
    standard: str
    actual: str
    clause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSetting:
    """A value other than the default where the standard leaves the choice to the operator: not a deviation."""

    what: str
    standard: str
    actual: str
    clause: str


def default_of(difference: Deviation | OperatorSetting, authority: str = "the standard") -> str:
    """Return the origin of the field ``standard``: this suite's default if the clause says so, else ``authority``.

    ``specs/`` has numbers that the standard does not define; their clause starts with ``this suite``.
    """
    return "this suite's default" if difference.clause.startswith("this suite") else authority


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Test conditions set before the first stimulus (PTS 2.0.2 chapter 4)."""

    __pydantic_config__ = STRICT
    write_cache: Literal["disabled", "enabled"]
    active_range_percent: Share
    data_pattern: Literal["random"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandSetup(Setup):
    """Test conditions of a test with one demand for all its stimuli."""

    __pydantic_config__ = STRICT
    thread_count: Count
    queue_depth: Count


def size_bytes(size_kib: float) -> int:
    return int(size_kib * KIB)


def require_unique(**lists: Sequence[object]) -> None:
    for name, values in lists.items():
        if len(set(values)) != len(values):
            raise ValueError(f"{name} without repetition")


def require_at_most(count: float, maximum: int, noun: str) -> None:
    if count > maximum:
        raise ValueError(f"at most {maximum} {noun}")


class HasDemand(Protocol):
    """An object with a Thread Count and a Queue Depth."""

    @property
    def thread_count(self) -> int: ...
    @property
    def queue_depth(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditioning:
    """Workload independent preconditioning (WIPC, PTS 2.0.2 section 3.3): sequential writes within the ActiveRange.

    Their amount is ``capacities`` times the user capacity, whatever the size of the ActiveRange.
    """

    __pydantic_config__ = STRICT
    capacities: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedPreconditioning(Preconditioning):
    """Preconditioning with a block size of its own, at the test's demand (PTS 2.0.2 chapter 7)."""

    __pydantic_config__ = STRICT
    block_size_kib: Kib

    @property
    def block_size_bytes(self) -> int:
        return size_bytes(self.block_size_kib)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandPreconditioning(Preconditioning):
    """Preconditioning with the block size under test, at a demand of its own (PTS 2.0.2 chapter 8)."""

    __pydantic_config__ = STRICT
    thread_count: Count
    queue_depth: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedDemandPreconditioning(SizedPreconditioning):
    """Preconditioning with a block size and a demand of its own (PTS 2.0.2 chapter 9)."""

    __pydantic_config__ = STRICT
    thread_count: Count
    queue_depth: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """The test loop: R/W mixes (outer), block sizes (inner), time per point, maximum number of rounds.

    In the throughput test each block size has a separate loop.
    """

    __pydantic_config__ = STRICT
    read_percents: Annotated[tuple[Percent, ...], MinLen(1)]
    block_sizes_kib: Annotated[tuple[Kib, ...], MinLen(1)]
    point_seconds: Seconds
    maximum: Count

    def __post_init__(self) -> None:
        require_unique(read_percents=self.read_percents, block_sizes_kib=self.block_sizes_kib)
        points = len(self.read_percents) * len(self.block_sizes_kib)
        require_at_most(points * self.maximum, MAX_POINTS, "points in all rounds")

    @property
    def block_sizes_bytes(self) -> tuple[int, ...]:
        return tuple(map(size_bytes, self.block_sizes_kib))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked:
    """A variable whose steady state decides the test: a metric at one point, identified by the keys that are set."""

    __pydantic_config__ = STRICT
    metric: MetricName
    read_percent: Percent | None = None
    block_size_kib: Kib | None = None
    thread_count: Count | None = None
    queue_depth: Count | None = None

    @property
    def block_size_bytes(self) -> int | None:
        return None if self.block_size_kib is None else size_bytes(self.block_size_kib)


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyStateRule:
    """The steady state rule (PTS 2.0.2 definition 2.1.24): window length and allowed excursions."""

    __pydantic_config__ = STRICT
    window_rounds: Annotated[int, Ge(2), Le(1024)]
    data_excursion_percent: Annotated[float, Gt(0), Le(100)]
    slope_excursion_percent: Annotated[float, Gt(0), Le(100)]
    tracked: Annotated[tuple[Tracked, ...], MinLen(1)]

    def __post_init__(self) -> None:
        if len(set(self.tracked)) != len(self.tracked):
            raise ValueError("steady_state.tracked without repetition")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledSteadyStateRule(SteadyStateRule):
    """Steady state from samples of a continuous stimulus: ``first_sample``, then every ``stride_samples``-th.

    PTS 2.0.2 chapters 10, 11, 13, 14: one-minute samples 30 minutes apart; each is treated as a round.  A window
    counts only after the ActiveRange was written ``minimum_fills`` times, because a fresh drive has constant speed.
    """

    __pydantic_config__ = STRICT
    sample_seconds: Seconds
    first_sample: Count
    stride_samples: Count
    minimum_fills: Annotated[float, Ge(0), Le(1024)]

    def samples(self, rounds: int) -> int:
        """Return the number of samples that give ``rounds`` rounds: 121 for 5."""
        return self.first_sample + (rounds - 1) * self.stride_samples


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeShare:
    """One size of a pattern's block-size mix."""

    __pydantic_config__ = STRICT
    kib: Kib
    percent: Share

    @property
    def size_bytes(self) -> int:
        return size_bytes(self.kib)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewShare:
    """``access_percent`` of the accesses go to the next ``range_percent`` of the ActiveRange."""

    __pydantic_config__ = STRICT
    access_percent: Share
    range_percent: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """An access pattern by its name: access, R/W mix, block sizes with their shares, skew."""

    __pydantic_config__ = STRICT
    name: Name
    access: Literal["RND", "SEQ"]
    read_percent: Percent
    block_sizes: Annotated[tuple[SizeShare, ...], MinLen(1)]
    skew: tuple[SkewShare, ...] = ()

    def __post_init__(self) -> None:
        if sum(size.percent for size in self.block_sizes) != 100:
            raise ValueError("shares of block_sizes that add up to 100")
        sums = (sum(zone.access_percent for zone in self.skew), sum(zone.range_percent for zone in self.skew))
        if self.skew and (sums != (100, 100) or self.access == "SEQ"):
            raise ValueError("a skew that adds up to 100 and 100, for random access")
        if len(self.block_sizes) > 1 and self.access == "SEQ":
            raise ValueError("block_sizes of one size, for sequential access")
        require_unique(block_sizes=[size.kib for size in self.block_sizes])

    @property
    def title(self) -> str:
        """The name as reports write it."""
        return _PATTERN_TITLES.get(self.name, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The name of the pattern that is the test stimulus."""

    __pydantic_config__ = STRICT
    name: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHistogram:
    """The stimulus whose response times are shown as a histogram (PTS 2.0.2 sections 9.2 and 10.2.4)."""

    __pydantic_config__ = STRICT
    seconds: Seconds
    read_percent: Percent
    block_size_kib: Kib
    thread_count: Count
    queue_depth: Count

    @property
    def block_size_bytes(self) -> int:
        return size_bytes(self.block_size_kib)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturation:
    """When write saturation ends: after ``capacities`` or ``seconds``, or earlier if ``until_steady``."""

    __pydantic_config__ = STRICT
    capacities: Annotated[float, Gt(0), Le(1024)]
    seconds: Seconds
    until_steady: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditioning:
    """Preconditioning by the test's own pattern until steady state, at most ``maximum`` rounds of the settling rule."""

    __pydantic_config__ = STRICT
    maximum: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandConditioning(Conditioning):
    """Preconditioning with the test's block sizes and skew, an R/W mix and a demand of its own."""

    __pydantic_config__ = STRICT
    read_percent: Percent
    thread_count: Count
    queue_depth: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitStates:
    """Host idle recovery: Access A (writes), Access B (idle), Access C (return to baseline)."""

    __pydantic_config__ = STRICT
    access_a_seconds: Seconds
    idle_seconds: Annotated[tuple[Seconds, ...], MinLen(1)]
    cycles: Annotated[int, Ge(1), Le(100_000)]
    access_c_seconds: Seconds
    access_c_sample_seconds: Seconds

    def __post_init__(self) -> None:
        require_unique(idle_seconds=self.idle_seconds)
        states = len(self.idle_seconds)
        require_at_most(states * self.cycles, MAX_POINTS, "cycles in all wait states")
        require_at_most(
            states * self.access_c_seconds / self.access_c_sample_seconds, _MAX_SAMPLES, "samples of Access C"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One access group of cross stimulus recovery."""

    __pydantic_config__ = STRICT
    name: Name
    access: Literal["RND", "SEQ"]
    read_percent: Percent
    block_size_kib: Kib
    seconds: Seconds
    thread_count: Count
    queue_depth: Count

    @property
    def block_size_bytes(self) -> int:
        return size_bytes(self.block_size_kib)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessGroups:
    """The access groups, one after the other without a pause, in samples."""

    __pydantic_config__ = STRICT
    sample_seconds: Seconds
    sequence: Annotated[tuple[Group, ...], MinLen(1)]

    def __post_init__(self) -> None:
        require_unique(sequence=[group.name for group in self.sequence])
        seconds = sum(group.seconds for group in self.sequence)
        require_at_most(seconds / self.sample_seconds, _MAX_SAMPLES, "samples in all groups")


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandLoop:
    """The TC x QD loop: inter-round pre-write, Thread Counts and Queue Depths, order, time, maximum rounds."""

    __pydantic_config__ = STRICT
    pre_write_seconds: Seconds
    thread_counts: Annotated[tuple[Count, ...], MinLen(1)]
    queue_depths: Annotated[tuple[Count, ...], MinLen(1)]
    order: Literal["total-oio", "tc-major", "qd-major"]
    point_seconds: Seconds
    maximum: Count

    def __post_init__(self) -> None:
        require_unique(thread_counts=self.thread_counts, queue_depths=self.queue_depths)
        points = len(self.thread_counts) * len(self.queue_depths)
        require_at_most(points * self.maximum, MAX_POINTS, "points in all rounds")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoints:
    """The response time histograms at the Max, Mid and Min IOPS points of the demand loop.

    IOPS within ``tolerance_percent`` of the best are considered equal.
    """

    __pydantic_config__ = STRICT
    maximum_art_ms: Annotated[float, Gt(0), Le(100_000)]
    tolerance_percent: Annotated[float, Ge(0), Le(50)]
    pre_write_seconds: Seconds
    histogram_seconds: Seconds
