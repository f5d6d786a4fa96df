"""The specification of an imported run of fio: its jobs as the workloads and axes of a profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from annotated_types import MinLen

from ..profiles.spec import ProfileSpec, Workload
from ..spec import Scalar
from ..spec.sections import STRICT
from ..units import parse_size


@dataclass(frozen=True, slots=True, kw_only=True)
class FioWorkload(Workload):
    """The jobs of one direction.  Unlike a profile's, its options are not limited: fio has already run them."""

    __pydantic_config__ = STRICT

    def __post_init__(self) -> None:
        parse_size(self.block_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class FioSpec(ProfileSpec):
    """The jobs of an imported run.  The names of its points have the values of all axes, so that imports compare."""

    __pydantic_config__ = STRICT
    document: ClassVar[str] = "Results of fio"
    publisher: ClassVar[str] = "fio"
    authority: ClassVar[str] = "the specification"
    subject: ClassVar[str] = "Jobs"
    is_irregular: ClassVar[bool] = True
    uncompared: ClassVar[frozenset[str]] = frozenset({"axis", "limit", "workload"})
    test: Literal["fio"] = "fio"  # type: ignore[assignment]  # each specification has its own test
    workload: Annotated[tuple[FioWorkload, ...], MinLen(1)] = field()

    @property
    def compared_axes(self) -> Mapping[str, tuple[Scalar, ...]]:
        """The values of the axes, and those in which the workloads may differ: duration, ramp and range."""
        shared = {
            key: tuple(sorted({str(getattr(workload, key)) for workload in self.workload}))
            for key in ("seconds", "ramp_seconds", "range")
        }
        return {**shared, **self.axes}

    @property
    def named_axes(self) -> frozenset[str]:
        return frozenset(axis.key for axis in self.axis)

    @property
    def subtitle(self) -> str:
        return "results of fio, not a PTS test"

    @property
    def revision(self) -> str:
        return "Results of fio"

    @property
    def command(self) -> str:
        return ""  # the suite cannot run them
