"""What a buyer or a datasheet asks of a test's numbers: read from a file, every mistake of which is told at once."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Ge, Le, MinLen

from .errors import SpecError
from .specfile import follows, read_toml, sentence, spec_error

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_WHAT = "The file of limits"
_REMEDY = "Correct the file; docs/usage.rst shows one."
Text = Annotated[str, MinLen(1)]
TestName = Literal["iops", "throughput", "latency", "wsat", "hir", "xsr", "composite", "dirth"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A key figure's least and greatest value: metric, where it is measured and unit are those of the key figure.

    Just one of ``minimum`` and ``maximum`` may be left out.  ``tolerance_percent`` of a bound is forgiven.
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

    def met_by(self, value: float) -> bool:
        """Tell whether a value keeps to it; one that lies on a bound does."""
        forgiven = self.tolerance_percent / 100
        low = -float("inf") if self.minimum is None else self.minimum - forgiven * abs(self.minimum)
        high = float("inf") if self.maximum is None else self.maximum + forgiven * abs(self.maximum)
        return low <= value <= high


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    __pydantic_config__ = {"extra": "forbid"}
    format: Literal[1]
    limit: Annotated[tuple[Limit, ...], MinLen(1)]


def read_limits(path: Path) -> tuple[Limit, ...]:
    """Return the limits of a TOML file; raises SpecError, naming every mistake at once with key and value."""
    from pydantic import ValidationError

    try:
        text = json.dumps(read_toml(path, _WHAT), ensure_ascii=False, default=lambda date: [str(date)])
        return _adapter().validate_json(text, strict=True).limit
    except ValidationError as error:
        mistakes = [sentence(detail) for detail in error.errors() if not follows(detail)]
    except SpecError as error:
        error.hint = _REMEDY
        raise
    except (ValueError, RecursionError):
        mistakes = ["expected numbers of fewer digits, lists nested less deep"]
    raise spec_error(str(path), mistakes, _WHAT, hint=_REMEDY)


@cache
def _adapter() -> TypeAdapter[_File]:
    from pydantic import TypeAdapter

    return TypeAdapter(_File)
