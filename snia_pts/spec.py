"""The standard as data: reads ``specs/*.toml`` into frozen values, and tells every difference from it.

Every number of the standard stands in ``specs/`` with its clause.  Here are only the kinds of words the
standard uses, the checks that make a file of them meaningful, and the comparison that turns a changed
number into a Deviation.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, MinLen, MultipleOf

from .errors import SpecError, UsageError
from .units import KIB

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

TestClass = Literal["enterprise", "client"]
Percent = Annotated[int, Ge(0), Le(100)]
Share = Annotated[int, Ge(1), Le(100)]
Count = Annotated[int, Ge(1), Le(1024)]
Kib = Annotated[float, Gt(0), Le(65536), MultipleOf(0.5)]

SPECS = Path(__file__).parent / "data" / "specs"
_UNFIT = "expected numbers of fewer digits, lists nested less deep, texts of valid characters"
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
        for tracked in self.steady_state.tracked:
            if (
                tracked.block_size_kib not in self.rounds.block_sizes_kib
                or tracked.read_percent not in self.rounds.read_percents
            ):
                raise ValueError("steady_state.tracked to name cells that rounds.* measures")


#: Every test's specification type, by the test's verb.
SPEC_TYPES: Mapping[str, type[IopsSpec]] = {"iops": IopsSpec}


@dataclass(frozen=True, slots=True, kw_only=True)
class Specification:
    """A checked specification, what it differs in from the standard, and its plain form for the record."""

    spec: IopsSpec
    test_class: TestClass
    plain: dict[str, Any]
    deviations: tuple[Deviation, ...]


def versions(test: str) -> tuple[str, ...]:
    """Return the versions of the standard that ``specs/`` holds for a test, newest first."""
    found = (path.stem.removeprefix(f"{test}-") for path in SPECS.glob(f"{test}-*.toml"))
    return tuple(sorted(found, reverse=True))


def read_specification(
    test: str,
    pts: str,
    test_class: TestClass,
    *,
    path: Path | None = None,
    overrides: Iterable[tuple[str, Any]] = (),
) -> Specification:
    """Read the standard's specification of ``test``, or the file at ``path``, and apply ``overrides``.

    ``overrides`` are (dotted key, value) pairs.  Every number that then differs from the standard's own file is a
    Deviation.  Raises SpecError, naming every mistake at once with file, key, value and what was expected.
    """
    standard = _File.read(SPECS / f"{test}-{pts}.toml", test_class)
    chosen = _File.read(path, test_class) if path else standard
    plain = chosen.values()
    mistakes = list(chosen.mistakes)
    for key, value in overrides:
        mistakes += _override(plain, key, value)
    spec, more = _validate(test, plain)
    if spec is None or mistakes or more:
        raise _spec_error(str(path or standard.path.name), mistakes + more)
    departures = dict.fromkeys((*standard.departures, *chosen.departures))
    deviations = (*_differences(standard, plain), *departures, *_foreign(standard, chosen))
    return Specification(spec=spec, test_class=test_class, plain=plain, deviations=deviations)


def check_plain(test: str, plain: Mapping[str, Any], source: str) -> IopsSpec:
    """Check the plain form that a record holds; raises SpecError naming ``source``."""
    spec, mistakes = _validate(test, plain)
    if spec is None:
        raise _spec_error(source, mistakes)
    return spec


def parse_override(text: str) -> tuple[str, Any]:
    """Split ``KEY=VALUE``, reading VALUE as TOML; raises UsageError when there is no key or no value."""
    key, equals, value = text.partition("=")
    if not key.strip() or not equals or not value.strip():
        raise UsageError(detail=f"--set {text}: not KEY=VALUE.", hint="For example --set rounds.maximum=7.")
    try:
        table = tomllib.loads(f"value = {value}")
    except (ValueError, RecursionError):
        return key.strip(), value.strip()
    return key.strip(), table["value"] if len(table) == 1 else value.strip()


@dataclass(frozen=True, slots=True)
class _Leaf:
    value: Any
    clause: str
    binding: str


@dataclass(frozen=True, slots=True)
class _File:
    """One specification file, resolved for a class: its leaves by dotted key, and what is wrong with it."""

    path: Path
    leaves: dict[str, _Leaf]
    departures: tuple[Deviation, ...]
    mistakes: tuple[str, ...]

    @classmethod
    def read(cls, path: Path, test_class: TestClass) -> _File:
        try:
            return cls._resolve(path, tomllib.loads(path.read_text(encoding="utf-8")), test_class)
        except FileNotFoundError:
            raise _spec_error(str(path), ["no such file"]) from None
        except (OSError, ValueError, RecursionError) as error:
            raise _spec_error(str(path), [f"not readable as TOML: {error}"]) from None

    @classmethod
    def _resolve(cls, path: Path, table: dict[str, Any], test_class: TestClass) -> _File:
        mistakes: list[str] = []
        if table.pop("format", None) != 1:
            mistakes.append("format: expected 1 (this suite reads no other)")
        departures = _departures(table.pop("departures", []), test_class, mistakes)
        leaves: dict[str, _Leaf] = {}
        _collect(table, "", test_class, leaves, mistakes)
        return cls(path, leaves, departures, tuple(mistakes))

    def values(self) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for key, leaf in self.leaves.items():
            *sections, name = key.split(".")
            place = plain
            for section in sections:
                place = place.setdefault(section, {})
            place[name] = leaf.value
        return plain


def _collect(
    table: Mapping[str, Any], prefix: str, test_class: TestClass, leaves: dict[str, _Leaf], mistakes: list[str]
) -> None:
    for name, entry in table.items():
        key = prefix + name
        if "." in name:
            mistakes.append(f"{key}: expected a name without a dot")
        elif not isinstance(entry, dict):
            leaves[key] = _Leaf(entry, "", "required")
            if prefix:
                mistakes.append(f"{key}: {entry!r}: expected a table with a value and its clause")
        elif entry.keys() & {"value", "enterprise", "client", "clause"}:
            leaves[key] = _leaf(entry, key, test_class, mistakes)
        else:
            _collect(entry, f"{key}.", test_class, leaves, mistakes)


def _leaf(entry: Mapping[str, Any], key: str, test_class: TestClass, mistakes: list[str]) -> _Leaf:
    if ("value" in entry) == bool(entry.keys() & {"enterprise", "client"}):
        mistakes.append(f"{key}: expected either value, or enterprise and client")
    elif "value" not in entry and test_class not in entry:
        mistakes.append(f"{key}: expected a value for the class {test_class}")
    if not isinstance(entry.get("clause"), str) or not entry["clause"].strip():
        mistakes.append(f"{key}: expected the clause it follows")
    binding = entry.get("binding", "required")
    if binding not in ("required", "recommended", "operator"):
        mistakes.append(f"{key}: binding {binding!r}: expected required, recommended or operator")
    for extra in sorted(entry.keys() - {"value", "enterprise", "client", "clause", "binding"}):
        mistakes.append(f"{key}.{extra}: expected no such key")
    return _Leaf(entry.get("value", entry.get(test_class)), str(entry.get("clause")), str(binding))


def _departures(entries: object, test_class: TestClass, mistakes: list[str]) -> tuple[Deviation, ...]:
    found = []
    for number, entry in enumerate(entries if isinstance(entries, list) else [entries]):
        keys = {"what", "standard", "actual", "clause"}
        named = entry.get("class", test_class) if isinstance(entry, dict) else None
        if named not in ("enterprise", "client") or entry.keys() - {"class"} != keys:
            mistakes.append(f"departures.{number}: expected what, standard, actual, clause, and perhaps class")
        elif named == test_class:
            found.append(Deviation(**{key: str(entry[key]) for key in keys}))
    return tuple(found)


def _override(plain: dict[str, Any], key: str, value: Any) -> list[str]:
    *sections, name = key.split(".")
    place: Any = plain
    for section in sections:
        place = place.get(section) if isinstance(place, dict) else None
    if not sections or not isinstance(place, dict) or name not in place:
        keys = sorted(
            f"{section}.{leaf}" for section, table in plain.items() if isinstance(table, dict) for leaf in table
        )
        return [f"--set {key}: expected one of {', '.join(keys)}"]
    place[name] = value
    return []


def _validate(test: str, plain: Mapping[str, Any]) -> tuple[IopsSpec | None, list[str]]:
    from pydantic import TypeAdapter, ValidationError

    kind = SPEC_TYPES.get(test)
    if kind is None:
        return None, [f"test: {test!r}: expected one of {', '.join(SPEC_TYPES)}"]
    try:
        text = json.dumps(plain, ensure_ascii=False, default=lambda date: [str(date)])
        return TypeAdapter(kind).validate_json(text, strict=True), []
    except ValidationError as error:
        return None, [_sentence(detail) for detail in error.errors()]
    except (ValueError, RecursionError):
        return None, [_UNFIT]


def _sentence(detail: ErrorDetails) -> str:
    key = ".".join(str(part) for part in detail["loc"])
    if detail["type"] in ("json_invalid", "string_unicode"):
        return _UNFIT
    if detail["type"] == "missing":
        return f"{key}: expected this key"
    if detail["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return f"{key}: expected no such key"
    message = detail["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    shown = "" if isinstance(detail["input"], dict) else f" {detail['input']!r}:"
    return f"{key}:{shown} expected {message}".removeprefix(":").strip()


def _spec_error(path: str, mistakes: Sequence[str]) -> SpecError:
    return SpecError(path=path, count=len(mistakes), mistakes="\n".join(f"  {path}: {line}" for line in mistakes))


def _differences(standard: _File, plain: Mapping[str, Any]) -> Iterable[Deviation]:
    for key, leaf in standard.leaves.items():
        actual: Any = plain
        for part in key.split("."):
            actual = actual.get(part) if isinstance(actual, dict) else None
        if actual != leaf.value and leaf.binding != "operator" and leaf.clause:
            recommends = " (recommended)" if leaf.binding == "recommended" else ""
            yield Deviation(what=key, standard=shown(leaf.value) + recommends, actual=shown(actual), clause=leaf.clause)


def _foreign(standard: _File, chosen: _File) -> Iterable[Deviation]:
    if chosen.path != standard.path:
        yield Deviation(
            what="specification file", standard=standard.path.name, actual=str(chosen.path), clause="specs/"
        )


def shown(value: Any) -> str:
    """Return a specification value as a reader writes it: lists with commas, tables as key=value."""
    if isinstance(value, dict):
        return " ".join(f"{key}={shown(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(shown(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
