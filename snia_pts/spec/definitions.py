"""This suite's own definitions of what the standard leaves open: the numbers of ``specs/definitions.toml``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Le, Lt

from .sections import STRICT, Seconds

Part = Annotated[float, Gt(0), Le(100)]


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of a continuous stimulus: the last ``seconds``, and no more than ``percent`` of it."""

    __pydantic_config__ = STRICT
    seconds: Seconds
    percent: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryRule:
    """Recovered is what lies within the tolerance of its reference, and stays so to the end, for the dwell at least.

    The dwell is ``dwell_seconds``, and no more than ``dwell_percent`` of what was measured.
    """

    __pydantic_config__ = STRICT
    tolerance_percent: Part
    dwell_seconds: Seconds
    dwell_percent: Part

    def dwell(self, measured_seconds: float) -> float:
        """Return the dwell of a measurement of so many seconds, in seconds."""
        return min(self.dwell_seconds, self.dwell_percent / 100 * measured_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsistencyRule:
    """When the samples at the end have a spread: ``fewest_samples``, without a trend.

    A trend is a fitted line that rises or falls by more than ``trend_percent`` of the mean, or a significant order of
    the means of ``trend_parts`` parts (Mann-Kendall test).
    """

    __pydantic_config__ = STRICT
    fewest_samples: Annotated[int, Ge(2), Le(1024)]
    even_percent: Part
    trend_percent: Part
    trend_parts: Annotated[int, Ge(5), Le(1024)]
    trend_significance_percent: Annotated[float, Gt(0), Lt(50)]

    def __post_init__(self) -> None:
        if self.fewest_samples < self.trend_parts:
            raise ValueError("fewest_samples of trend_parts at least")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPointRule:
    """How certain it must be that another run chooses the same operating point."""

    __pydantic_config__ = STRICT
    confidence_percent: Annotated[float, Ge(50), Lt(100)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlySteadyState:
    """A steady state after fewer than ``few_fills`` fills of the ActiveRange is named in the verdict."""

    __pydantic_config__ = STRICT
    few_fills: Annotated[float, Gt(0), Le(1024)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """All of them, by the tables of the file."""

    __pydantic_config__ = STRICT
    end: End
    recovery: RecoveryRule
    consistency: ConsistencyRule
    operating_points: OperatingPointRule
    steady_state: EarlySteadyState
