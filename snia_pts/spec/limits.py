"""Limits for the results of a test, from a buyer or a datasheet: reads a file and reports all errors at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import inf
from pathlib import Path
from typing import Annotated, Literal, get_args

from annotated_types import Ge, Le, MinLen

from .. import registries
from ..errors import SpecError
from .toml_file import Mistakes, read_file, spec_error

_WHAT = "The file of limits"
_REMEDY = "Correct the file; docs/limits.rst shows one."
_UNMET_REMEDY = (
    "Correct the file; snia-pts compare RUN RUN --json shows metric, at and unit of each figure. "
    "RUN is any run of this test, for example a simulated one without --limits."
)
Text = Annotated[str, MinLen(1)]
#: The tests of the standard.
StandardTest = Literal["iops", "throughput", "latency", "wsat", "hir", "xsr", "composite", "dirth"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The minimum and the maximum of a key figure; metric, point (``at``) and unit are those of the key figure.

    At most one of ``minimum`` and ``maximum`` may be omitted.  ``tolerance_percent`` widens each bound by that
    percentage of the bound.
    """

    __pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}
    test: str
    metric: Text
    at: Text
    unit: Text
    minimum: float | None = None
    maximum: float | None = None
    tolerance_percent: Annotated[float, Ge(0), Le(100)] = 0.0

    def __post_init__(self) -> None:
        tests = (*get_args(StandardTest), *registries.SPECS)
        if self.test not in tests:
            raise Mistakes(f"test: {self.test!r}: expected {', '.join(map(repr, tests[:-1]))} or {tests[-1]!r}")
        if self.minimum is None and self.maximum is None:
            raise ValueError("minimum, maximum, or both")
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError("a minimum that is no more than the maximum")

    @property
    def name(self) -> str:
        """The key figure's name: ``iops at RND 4 KiB 0/100``."""
        return f"{self.metric} at {self.at}"

    @property
    def lower_bound(self) -> float:
        """The minimum minus the tolerance; minus infinity if there is no minimum."""
        return -inf if self.minimum is None else self._widened(self.minimum, -1)

    @property
    def upper_bound(self) -> float:
        """The maximum plus the tolerance; infinity if there is no maximum."""
        return inf if self.maximum is None else self._widened(self.maximum, 1)

    def _widened(self, bound: float, sign: int) -> float:
        """Return a bound with its tolerance, in decimal arithmetic: 0.3 + 10 % is 0.33, not less."""
        exact = Decimal(str(bound))
        return float(exact + sign * abs(exact) * Decimal(str(self.tolerance_percent)) / 100)

    def is_met_by(self, value: float) -> bool:
        """Return whether a value is within the limit, bounds included."""
        return self.lower_bound <= value <= self.upper_bound


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsFile:
    """The content of a file of limits."""

    __pydantic_config__ = {"extra": "forbid"}
    format: Literal[1]
    limit: Annotated[tuple[Limit, ...], MinLen(1)]

    def __post_init__(self) -> None:
        if mistakes := tuple(duplicate_bounds(self.limit)):
            raise Mistakes(*mistakes)


def duplicate_bounds(limits: Sequence[Limit]) -> Iterator[str]:
    """Yield an error for each bound that an earlier limit already sets."""
    indexes: dict[tuple[str, str, str], int] = {}
    for index, limit in enumerate(limits, start=1):
        for bound in (name for name in ("minimum", "maximum") if getattr(limit, name) is not None):
            first = indexes.setdefault((limit.test, limit.name, bound), index)
            if first != index:
                yield f"limit {index}.{bound}: expected no second {bound} of {limit.name!r}; limit {first} has one"


def read_limits(path: Path, on_read: Callable[[bytes], object] | None = None) -> tuple[Limit, ...]:
    """Return the limits of a TOML file; raises SpecError with all errors, each with key and value.

    ``on_read`` is called with the content of the file.
    """
    return read_file(path, LimitsFile, _WHAT, remedy=_REMEDY, on_read=on_read).limit


def limits_error(path: Path, mistakes: Sequence[str]) -> SpecError:
    """Return the error for limits that match no key figure, in a file of limits or a specification."""
    return spec_error(str(path), mistakes, "The file", remedy=_UNMET_REMEDY)
