"""This suite's definitions where the standard has none: the types of ``specs/suite-definitions.toml``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Le, Lt

from .sections import STRICT, Seconds

Part = Annotated[float, Gt(0), Le(100)]


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of a continuous stimulus: its last ``seconds``, but at most ``percent`` of it."""

    __pydantic_config__ = STRICT
    seconds: Seconds
    percent: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryRule:
    """Values have recovered if they are within the tolerance of the reference until the end, at least for the dwell.

    The dwell is ``dwell_seconds``, but at most ``dwell_percent`` of the measured time.
    """

    __pydantic_config__ = STRICT
    tolerance_percent: Part
    dwell_seconds: Seconds
    dwell_percent: Part

    def dwell(self, measured_seconds: float) -> float:
        """Return the dwell, in seconds, for a measurement of ``measured_seconds``."""
        return min(self.dwell_seconds, self.dwell_percent / 100 * measured_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsistencyRule:
    """When the spread of the samples at the end is stated: at least ``minimum_samples``, and no trend.

    There is a trend if the fitted line rises or falls by more than ``trend_percent`` of the mean, or if the means of
    ``trend_parts`` parts have a significant order (Mann-Kendall test).
    """

    __pydantic_config__ = STRICT
    minimum_samples: Annotated[int, Ge(2), Le(1024)]
    even_percent: Part
    trend_percent: Part
    trend_parts: Annotated[int, Ge(5), Le(1024)]
    trend_significance_percent: Annotated[float, Gt(0), Lt(50)]

    def __post_init__(self) -> None:
        if self.minimum_samples < self.trend_parts:
            raise ValueError("minimum_samples of at least trend_parts")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPointRule:
    """The confidence required to state that another run chooses the same operating point."""

    __pydantic_config__ = STRICT
    confidence_percent: Annotated[float, Ge(50), Lt(100)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlySteadyState:
    """The verdict mentions a steady state after fewer than ``early_fills`` fills of the ActiveRange."""

    __pydantic_config__ = STRICT
    early_fills: Annotated[float, Gt(0), Le(1024)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """All definitions, one field for each table of the file."""

    __pydantic_config__ = STRICT
    end: End
    recovery: RecoveryRule
    consistency: ConsistencyRule
    operating_points: OperatingPointRule
    steady_state: EarlySteadyState
