"""The base class of every specification: the properties on which the suite's decisions about any test depend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Protocol

from pydantic import Field, GetCoreSchemaHandler

from .. import registries
from .limits import Limit

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

#: The value of a host setting or of a fio option.
Scalar = bool | int | float | str
WriteCacheState = Literal["as found", "enabled", "disabled"]
#: Prefix of the key of an axis that varies a host setting.
HOST = "host."


class Conditions(Protocol):
    """The conditions that are set before the first stimulus of a test."""

    @property
    def write_cache(self) -> WriteCacheState: ...

    @property
    def active_range_percent(self) -> float: ...

    @property
    def data_pattern(self) -> str: ...


#: The type of every specification of the standard by the verb of its test.
KINDS: dict[str, type[Spec]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(ABC):
    """A specification of a test.  Properties that are not abstract have the values of the standard's tests."""

    #: Whether it is a test of the standard, with which a run can conform.
    is_standard: ClassVar[bool] = True
    #: The publisher of the specification, and the kind of document that it is.
    publisher: ClassVar[str] = "SNIA SSS TWG"
    document: ClassVar[str] = "Solid State Storage Performance Test Spec"
    #: What a run is compared with; a difference from it is a Deviation.
    authority: ClassVar[str] = "the standard"
    #: Whether each loop repeats one named point a fixed number of times, instead of measuring all points in each round
    #: until steady state.  All complete rounds count.  A continuous stimulus of a point is one of its repeats.
    rounds_are_repeats: ClassVar[bool] = False
    #: The sections whose numbers a comparison of runs omits, because it compares their content in another way.
    uncompared: ClassVar[frozenset[str]] = frozenset({"axis", "limit"})
    #: Whether every method of Purge is allowed; otherwise only the methods of the standard are.
    any_purge_method: ClassVar[bool] = False

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of a stored specification; for Spec itself, that of every type, selected by ``test``."""
        if cls is not Spec:
            return handler(source)
        further = (registries.load(registries.SPECS, test) for test in registries.SPECS)
        return handler.generate_schema(Annotated[reduce(or_, (*KINDS.values(), *further)), Field(discriminator="test")])

    @property
    @abstractmethod
    def test(self) -> str:
        """The name of the test, and its key in the registries: ``iops``."""

    @property
    @abstractmethod
    def title(self) -> str: ...

    @property
    @abstractmethod
    def subtitle(self) -> str: ...

    @property
    @abstractmethod
    def pts(self) -> str:
        """The version of the standard."""

    @property
    @abstractmethod
    def publication(self) -> str: ...

    @property
    @abstractmethod
    def revision(self) -> str: ...

    @property
    @abstractmethod
    def setup(self) -> Conditions: ...

    @property
    def name(self) -> str:
        """The name of the test in the names of folders."""
        return self.test

    @property
    def caption(self) -> str:
        """The caption of the test: ``IOPS test``."""
        return f"{self.title} test"

    @property
    def command(self) -> str:
        """The words after ``snia-pts`` that run the test: ``iops --pts 2.0.2``."""
        return f"{self.test} --pts {self.pts}"

    @property
    def clause(self) -> str:
        """The clause of deviations from the specification's numbers, if they are not the standard's."""
        return f"{self.test} {self.name}"

    @property
    def own_limits(self) -> tuple[Limit, ...]:
        """The limits that are part of the specification."""
        return ()

    @property
    def repeats(self) -> int:
        """The number of times that each point is measured, if rounds are repeats."""
        return 1

    @property
    def axes(self) -> Mapping[str, tuple[Scalar, ...]]:
        """The values over which the points vary, by the key of their axis."""
        return {}

    @property
    def compared_axes(self) -> Mapping[str, tuple[Scalar, ...]]:
        """The axes, and further values by their key, whose differences a comparison of runs reports."""
        return self.axes

    @property
    def unmeasured_points(self) -> tuple[str, ...]:
        """The points of the axes that cannot be measured: their range has less than one block for each thread."""
        return ()

    @property
    def varied_settings(self) -> Mapping[str, tuple[str, ...]]:
        """The values that the test gives to each host setting."""
        return {
            key.removeprefix(HOST): tuple(map(str, values)) for key, values in self.axes.items() if key.startswith(HOST)
        }

    @property
    def drops_page_cache(self) -> bool:
        """Whether the test empties the page cache of the host."""
        return False

    @property
    def host_requirement(self) -> str:
        """The requirement that only a real host can fulfil; empty if a simulated drive is enough."""
        return ""

    @property
    def purges(self) -> bool:
        """Whether the test has a Purge."""
        return True

    @property
    def purges_first(self) -> bool:
        """Whether the first step is a Purge."""
        return True

    @property
    def file_name(self) -> str:
        """The name of the file that the test creates if its target is a directory; empty if it cannot."""
        return ""

    @property
    def required_bytes(self) -> int | None:
        """The size of that file in bytes; None if the test uses its whole target."""
        return None

    @property
    def file_set_bytes(self) -> int:
        """The size of all files that the test creates beside its target."""
        return 0
