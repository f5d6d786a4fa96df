"""The standard's words as values: what a specification is made of, checked.

The numbers stand in ``specs/``, each with its clause; ``specfile`` reads them into these types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, MinLen, MultipleOf

from .units import KIB

TestClass = Literal["enterprise", "client"]
Percent = Annotated[int, Ge(0), Le(100)]
Share = Annotated[int, Ge(1), Le(100)]
Count = Annotated[int, Ge(1), Le(1024)]
Kib = Annotated[float, Gt(0), Le(65536), MultipleOf(0.5)]

_STRICT = {"extra": "forbid", "allow_inf_nan": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """Something that differs from the standard: what, what the standard asks, what was done, the clause."""

    what: str
    standard: str
    actual: str
    clause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Test conditions set before the first stimulus (PTS 2.0.2 chapter 4)."""

    __pydantic_config__ = _STRICT
    write_cache: Literal["disabled", "enabled"]
    active_range_percent: Share
    data_pattern: Literal["random"]
    thread_count: Count
    queue_depth: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditioning:
    """Workload independent preconditioning (WIPC): sequential writes of ``capacities`` times the range."""

    __pydantic_config__ = _STRICT
    block_size_kib: Kib
    capacities: Count
    active_range_percent: Share
    thread_count: Count
    queue_depth: Count

    @property
    def block_size_bytes(self) -> int:
        return int(self.block_size_kib * KIB)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """The test loop: R/W mixes (outer), block sizes (inner), time a point, rounds at most."""

    __pydantic_config__ = _STRICT
    read_percents: Annotated[tuple[Percent, ...], MinLen(1)]
    block_sizes_kib: Annotated[tuple[Kib, ...], MinLen(1)]
    point_seconds: Annotated[float, Ge(0.1), Le(86400)]
    maximum: Count

    def __post_init__(self) -> None:
        for name, values in (("read_percents", self.read_percents), ("block_sizes_kib", self.block_sizes_kib)):
            if len(set(values)) != len(values):
                raise ValueError(f"{name} without repetition")

    @property
    def block_sizes_bytes(self) -> tuple[int, ...]:
        return tuple(int(size * KIB) for size in self.block_sizes_kib)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked:
    """A variable whose steady state decides the test: a metric at one cell of the matrix, found by key."""

    __pydantic_config__ = _STRICT
    metric: Literal["iops"]
    block_size_kib: Kib
    read_percent: Percent

    @property
    def block_size_bytes(self) -> int:
        return int(self.block_size_kib * KIB)


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyStateRule:
    """The steady state rule (PTS 2.0.2 definition 2.1.24): window length and allowed excursions."""

    __pydantic_config__ = _STRICT
    window_rounds: Annotated[int, Ge(2), Le(1024)]
    data_excursion_percent: Annotated[float, Gt(0), Le(100)]
    slope_excursion_percent: Annotated[float, Gt(0), Le(100)]
    tracked: Annotated[tuple[Tracked, ...], MinLen(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class IopsSpec:
    """The IOPS test of one version and class (PTS 2.0.2 chapter 7)."""

    __pydantic_config__ = _STRICT
    test: Literal["iops"]
    title: str
    subtitle: str
    pts: str
    publication: str
    revision: str
    setup: Setup
    preconditioning: Preconditioning
    rounds: Rounds
    steady_state: SteadyStateRule

    def __post_init__(self) -> None:
        if self.rounds.maximum < self.steady_state.window_rounds:
            raise ValueError(
                f"rounds.maximum of at least steady_state.window_rounds ({self.steady_state.window_rounds})"
            )
        if len(set(self.steady_state.tracked)) != len(self.steady_state.tracked):
            raise ValueError("steady_state.tracked without repetition")
        for tracked in self.steady_state.tracked:
            if (
                tracked.block_size_kib not in self.rounds.block_sizes_kib
                or tracked.read_percent not in self.rounds.read_percents
            ):
                raise ValueError("steady_state.tracked to name cells that rounds.* measures")


#: Every test's specification type, by the test's verb.
SPEC_TYPES: Mapping[str, type[IopsSpec]] = {"iops": IopsSpec}
