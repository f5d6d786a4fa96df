"""The specification type of every test: its sections, and checks that they are consistent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Literal

from annotated_types import MinLen

from .base import KINDS, Spec
from .sections import (
    MAX_POINTS,
    STRICT,
    AccessGroups,
    Choice,
    Conditioning,
    DemandConditioning,
    DemandLoop,
    DemandPreconditioning,
    DemandSetup,
    HasDemand,
    Line,
    Name,
    OperatingPoints,
    Pattern,
    Preconditioning,
    ResponseHistogram,
    Rounds,
    SampledSteadyStateRule,
    Saturation,
    Setup,
    SizedDemandPreconditioning,
    SizedPreconditioning,
    SteadyStateRule,
    Tracked,
    WaitStates,
    require_at_most,
    require_unique,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TestSpec(Spec):
    """The common fields of the specifications of all tests of the standard."""

    __pydantic_config__ = STRICT
    # Without field(), dataclass takes the property of the base class for the default value.
    test: str = field()
    title: Name = field()
    subtitle: Line = field()
    pts: Name = field()
    publication: Line = field()
    revision: Name = field()
    setup: Setup = field()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsSpec(TestSpec):
    """A test of rounds over R/W mixes and block sizes until steady state."""

    __pydantic_config__ = STRICT
    setup: DemandSetup
    preconditioning: Preconditioning
    rounds: Rounds
    steady_state: SteadyStateRule

    @property
    def wipc_demand(self) -> HasDemand:
        """Thread Count and Queue Depth of the preconditioning: the test's, unless WIPC has its own."""
        return self.setup

    def __post_init__(self) -> None:
        _require_window_fits("rounds", self.rounds.maximum, self.steady_state)
        sizes = {} if self.test == "throughput" else {"block_size_kib": self.rounds.block_sizes_kib}
        _require_measured("steady_state", self.steady_state, read_percent=self.rounds.read_percents, **sizes)


def _require_window_fits(section: str, maximum: int, rule: SteadyStateRule) -> None:
    if maximum < rule.window_rounds:
        ruling = "settling" if isinstance(rule, SampledSteadyStateRule) else "steady_state"
        raise ValueError(f"{section}.maximum of at least {ruling}.window_rounds ({rule.window_rounds})")


def _require_sample_fits(samples: str, sample_seconds: float, durations: Mapping[str, float]) -> None:
    """Raise ValueError if a stimulus is shorter than one of its samples."""
    for key, seconds in durations.items():
        if seconds < sample_seconds:
            raise ValueError(f"{key} of at least {samples} ({sample_seconds:g})")


def _require_measured(section: str, rule: SteadyStateRule, **measured: Sequence[float]) -> None:
    """Raise ValueError if a tracked variable does not identify exactly one of the measured points."""
    keys = [entry.name for entry in fields(Tracked) if entry.name != "metric"]
    for tracked in rule.tracked:
        if any(getattr(tracked, key) not in measured.get(key, (None,)) for key in keys):
            required = " and ".join(["metric", *measured])
            raise ValueError(f"each of {section}.tracked to have only {required}, of a measured point")


@dataclass(frozen=True, slots=True, kw_only=True)
class IopsSpec(RoundsSpec):
    """The IOPS test of one version and class (PTS 2.0.2 chapter 7)."""

    __pydantic_config__ = STRICT
    test: Literal["iops"]
    preconditioning: SizedPreconditioning


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputSpec(RoundsSpec):
    """The throughput test (PTS 2.0.2 chapter 8): a separate test for each block size."""

    __pydantic_config__ = STRICT
    test: Literal["throughput"]
    preconditioning: DemandPreconditioning

    @property
    def wipc_demand(self) -> HasDemand:
        return self.preconditioning


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySpec(RoundsSpec):
    """The latency test (PTS 2.0.2 chapter 9); 1.1 has no histogram."""

    __pydantic_config__ = STRICT
    test: Literal["latency"]
    preconditioning: SizedDemandPreconditioning
    histogram: ResponseHistogram | None = None

    @property
    def wipc_demand(self) -> HasDemand:
        return self.preconditioning


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternSpec(TestSpec):
    """A test whose stimulus is one of several patterns."""

    __pydantic_config__ = STRICT
    stimulus: Choice
    patterns: Annotated[tuple[Pattern, ...], MinLen(1)]
    settling: SampledSteadyStateRule

    def __post_init__(self) -> None:
        names = [pattern.name for pattern in self.patterns]
        require_unique(patterns=names)
        if self.stimulus.name not in names:
            raise ValueError(f"stimulus.name to be one of {', '.join(names)}, not {self.stimulus.name}")
        _require_measured("settling", self.settling)

    @property
    def pattern(self) -> Pattern:
        """The pattern that is the test stimulus."""
        return next(pattern for pattern in self.patterns if pattern.name == self.stimulus.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSaturationSpec(PatternSpec):
    """The write saturation test (PTS 2.0.2 chapter 10); 1.1 has no histogram."""

    __pydantic_config__ = STRICT
    test: Literal["wsat"]
    setup: DemandSetup
    saturation: Saturation
    histogram: ResponseHistogram | None = None

    def __post_init__(self) -> None:
        PatternSpec.__post_init__(self)
        durations = {"saturation.seconds": self.saturation.seconds}
        _require_sample_fits("settling.sample_seconds", self.settling.sample_seconds, durations)
        samples = self.saturation.seconds / self.settling.sample_seconds
        require_at_most(samples / self.settling.stride_samples, MAX_POINTS, "samples that stand for rounds")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostIdleSpec(PatternSpec):
    """The host idle recovery test (PTS 2.0.2 chapter 11)."""

    __pydantic_config__ = STRICT
    test: Literal["hir"]
    setup: DemandSetup
    conditioning: Conditioning
    wait_states: WaitStates

    def __post_init__(self) -> None:
        PatternSpec.__post_init__(self)
        _require_window_fits("conditioning", self.conditioning.maximum, self.settling)
        durations = {"wait_states.access_c_seconds": self.wait_states.access_c_seconds}
        _require_sample_fits("wait_states.access_c_sample_seconds", self.wait_states.access_c_sample_seconds, durations)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossStimulusSpec(TestSpec):
    """The cross stimulus recovery test (PTS 2.0.2 chapter 12)."""

    __pydantic_config__ = STRICT
    test: Literal["xsr"]
    groups: AccessGroups

    def __post_init__(self) -> None:
        steps = enumerate(self.groups.sequence, start=1)
        durations = {f"groups.sequence {number}.seconds": group.seconds for number, group in steps}
        _require_sample_fits("groups.sample_seconds", self.groups.sample_seconds, durations)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandSpec(PatternSpec):
    """The demand intensity and composite workload tests (PTS 2.0.2 chapters 14 and 13)."""

    __pydantic_config__ = STRICT
    test: Literal["dirth", "composite"]
    conditioning: DemandConditioning
    demand: DemandLoop
    steady_state: SteadyStateRule
    operating_points: OperatingPoints

    def __post_init__(self) -> None:
        PatternSpec.__post_init__(self)
        _require_window_fits("conditioning", self.conditioning.maximum, self.settling)
        _require_window_fits("demand", self.demand.maximum, self.steady_state)
        durations = {
            "demand.pre_write_seconds": self.demand.pre_write_seconds,
            "operating_points.pre_write_seconds": self.operating_points.pre_write_seconds,
        }
        _require_sample_fits("settling.sample_seconds", self.settling.sample_seconds, durations)
        counts = {"thread_count": self.demand.thread_counts, "queue_depth": self.demand.queue_depths}
        _require_measured("steady_state", self.steady_state, **counts)


#: The specification type of every test of the standard, by the test's verb.
SPEC_TYPES: Mapping[str, type[TestSpec]] = {
    "iops": IopsSpec,
    "throughput": ThroughputSpec,
    "latency": LatencySpec,
    "wsat": WriteSaturationSpec,
    "hir": HostIdleSpec,
    "xsr": CrossStimulusSpec,
    "composite": DemandSpec,
    "dirth": DemandSpec,
}
KINDS.update(SPEC_TYPES)


def loop_rule(spec: Spec) -> SteadyStateRule | None:
    """Return the steady state rule of a test's rounds; None for a test without rounds."""
    return spec.steady_state if isinstance(spec, RoundsSpec | DemandSpec) else None


def max_rounds(spec: Spec) -> int | None:
    """Return the maximum number of rounds of a test's loop; None for a test without rounds."""
    if isinstance(spec, DemandSpec):
        return spec.demand.maximum
    return spec.rounds.maximum if isinstance(spec, RoundsSpec) else None


def settling_rule(spec: Spec) -> SampledSteadyStateRule | None:
    """Return the steady state rule of the samples of a test's continuous stimulus; None for a test without one."""
    return spec.settling if isinstance(spec, PatternSpec) else None
