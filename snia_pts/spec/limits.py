"""What a buyer or a datasheet asks of a test's numbers: read from a file, every mistake of which is told at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge, Le, MinLen

from ..errors import SpecError
from .toml_file import Mistakes, mistaken, read_file

_WHAT = "The file of limits"
_REMEDY = "Correct the file; docs/usage.rst shows one."
_UNMET_REMEDY = "Correct the file; metric, at and unit are those of snia-pts compare RUN RUN --json."
Text = Annotated[str, MinLen(1)]
TestName = Literal["iops", "throughput", "latency", "wsat", "hir", "xsr", "composite", "dirth", "profile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A key figure's least and greatest value: metric, where it is measured and unit are those of the key figure.

    Just one of ``minimum`` and ``maximum`` may be left out.  ``tolerance_percent`` of a bound widens it.
    """

    __pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}
    test: TestName
    metric: Text
    at: Text
    unit: Text
    minimum: float | None = None
    maximum: float | None = None
    tolerance_percent: Annotated[float, Ge(0), Le(100)] = 0.0

    def __post_init__(self) -> None:
        if self.minimum is None and self.maximum is None:
            raise ValueError("minimum, maximum, or both")
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError("a minimum that is no more than the maximum")

    @property
    def name(self) -> str:
        """The key figure's name: ``iops at RND 4 KiB 0/100``."""
        return f"{self.metric} at {self.at}"

    @property
    def least(self) -> float:
        """The minimum less the tolerance; minus infinity where there is no minimum."""
        return -inf if self.minimum is None else self.minimum - self.tolerance_percent / 100 * abs(self.minimum)

    @property
    def most(self) -> float:
        """The maximum plus the tolerance; infinity where there is no maximum."""
        return inf if self.maximum is None else self.maximum + self.tolerance_percent / 100 * abs(self.maximum)

    def met_by(self, value: float) -> bool:
        """Tell whether a value keeps to it; one that lies on a bound does."""
        return self.least <= value <= self.most


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    __pydantic_config__ = {"extra": "forbid"}
    format: Literal[1]
    limit: Annotated[tuple[Limit, ...], MinLen(1)]

    def __post_init__(self) -> None:
        if mistakes := tuple(repeated(self.limit)):
            raise Mistakes(*mistakes)


def repeated(limits: Sequence[Limit]) -> Iterator[str]:
    """Give what is wrong with limits whose bound one before has given already: nobody knows which is meant."""
    asked: dict[tuple[str, str, str], int] = {}
    for place, limit in enumerate(limits, start=1):
        for bound in (each for each in ("minimum", "maximum") if getattr(limit, each) is not None):
            first = asked.setdefault((limit.test, limit.name, bound), place)
            if first != place:
                yield f"limit {place}.{bound}: expected none, as limit {first} has that of {limit.name!r}"


def read_limits(path: Path) -> tuple[Limit, ...]:
    """Return the limits of a TOML file; raises SpecError, naming every mistake at once with key and value."""
    return read_file(path, _File, _WHAT, remedy=_REMEDY).limit


def unmet(path: Path, mistakes: Sequence[str]) -> SpecError:
    """Return the error of limits that nothing can meet, in a file of theirs or a profile."""
    return mistaken(str(path), mistakes, "The file", remedy=_UNMET_REMEDY)
