"""The standard as data: reads ``specs/*.toml``, and tells every difference from it.

Every mistake of a file is told at once; every number that differs from the standard's own becomes a Deviation, or an
OperatorSetting where the standard leaves it to the operator.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache, reduce
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..files import data_folder
from ..text import suggestion
from . import SPEC_TYPES, Deviation, OperatorSetting, ProfileSpec, Spec, TestClass, TestSpec
from .definitions import Definitions
from .toml_file import read_toml, spec_error, validate

SPECS = data_folder("specs")
#: What the last word of a key says of its number.
_UNITS = {"seconds": " s", "ms": " ms", "percent": " %", "percents": " %", "kib": " KiB"}
#: What names a specification, and is no number of the standard.
_NAMES = {field.name for field in fields(TestSpec)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Specification:
    """A checked specification, and what it differs in from the standard."""

    spec: Spec
    test_class: TestClass
    deviations: tuple[Deviation, ...]
    settings: tuple[OperatorSetting, ...] = ()


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
    Deviation, or an OperatorSetting.  Raises SpecError, naming every mistake at once with file, key, value and what
    was expected.
    """
    standard = _File.read(SPECS / f"{test}-{pts}.toml", test_class)
    chosen = _File.read(path, test_class) if path else standard
    values = {key: leaf.value for key, leaf in chosen.leaves.items()}
    mistakes = list(chosen.mistakes)
    for key, value in overrides:
        if key in values.keys() - _NAMES:
            values[key] = value
        else:
            mistakes.append(_unknown(key, values.keys() - _NAMES, test, pts, test_class))
    spec, more = validate(SPEC_TYPES[test], _nested(values))
    if spec is None or mistakes or more:
        raise spec_error(str(path or f"{standard.path.name} with your options"), mistakes + more)
    departures = dict.fromkeys((*standard.departures, *chosen.departures))
    found = tuple(_differences(standard, chosen, values))
    settings = tuple(each for each in found if isinstance(each, OperatorSetting))
    differences = (each for each in found if isinstance(each, Deviation))
    deviations = (*differences, *departures, *_foreign(standard, chosen))
    return Specification(spec=spec, test_class=test_class, deviations=deviations, settings=settings)


@cache
def definitions() -> Definitions:
    """Return this suite's own definitions, which are the same for every test; raises SpecError."""
    file = _File.read(SPECS / "definitions.toml", "enterprise")
    value, mistakes = validate(Definitions, _nested({key: leaf.value for key, leaf in file.leaves.items()}))
    if value is None or file.mistakes:
        raise spec_error(str(file.path), [*file.mistakes, *mistakes])
    return value


def spec_deviations(spec: Spec, test_class: TestClass) -> tuple[Deviation, ...]:
    """Return what of a specification differs from the standard's, which ``read_specification`` lists too.

    That it is in a file of its own is not to be seen.  A profile is no part of the standard: it has none.
    """
    if isinstance(spec, ProfileSpec):
        return ()
    standard = _File.read(SPECS / f"{spec.test}-{spec.pts}.toml", test_class)
    values = {key: _plain(reduce(getattr, key.split("."), spec)) for key in standard.leaves}
    found = _differences(standard, standard, values)
    return (*(each for each in found if isinstance(each, Deviation)), *standard.departures)


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
    bounds: tuple[float, float] | None = None

    def allows(self, value: object) -> bool:
        """Whether the standard leaves another value than its own to the operator."""
        if self.bounds is None:
            return self.binding != "required"
        return isinstance(value, int | float) and self.bounds[0] <= value <= self.bounds[1]


@dataclass(frozen=True, slots=True)
class _File:
    """One specification file, resolved for a class: its leaves by dotted key, and what is wrong with it."""

    path: Path
    leaves: dict[str, _Leaf]
    departures: tuple[Deviation, ...]
    mistakes: tuple[str, ...]

    @classmethod
    def read(cls, path: Path, test_class: TestClass) -> _File:
        table = read_toml(path)
        try:
            return cls._resolve(path, table, test_class)
        except (ValueError, RecursionError) as error:
            raise spec_error(str(path), [f"not readable as TOML: {error}"]) from None

    @classmethod
    def _resolve(cls, path: Path, table: dict[str, Any], test_class: TestClass) -> _File:
        mistakes: list[str] = []
        if table.pop("format", None) != 1:
            mistakes.append("format: expected 1 (this suite reads no other)")
        departures = _departures(table.pop("departures", []), test_class, mistakes)
        leaves: dict[str, _Leaf] = {}
        _collect(table, "", test_class, leaves, mistakes)
        return cls(path, leaves, departures, tuple(mistakes))


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
    for extra in sorted(entry.keys() - {"value", "enterprise", "client", "clause", "binding", "bounds"}):
        mistakes.append(f"{key}.{extra}: unknown key")
    bounds = _bounds(entry.get("bounds"), key, mistakes)
    return _Leaf(entry.get("value", entry.get(test_class)), str(entry.get("clause")), str(binding), bounds)


def _bounds(found: object, key: str, mistakes: list[str]) -> tuple[float, float] | None:
    if isinstance(found, list) and len(found) == 2:
        least, most = found
        numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in found)
        if numbers and least <= most:
            return least, most
    if found is not None:
        mistakes.append(f"{key}.bounds: {found!r}: expected the least and the greatest value")
    return None


def _departures(entries: object, test_class: TestClass, mistakes: list[str]) -> tuple[Deviation, ...]:
    found = []
    for number, entry in enumerate(entries if isinstance(entries, list) else [entries], start=1):
        keys = {"what", "standard", "actual", "clause"}
        named = entry.get("class", test_class) if isinstance(entry, dict) else None
        if named not in ("enterprise", "client") or entry.keys() - {"class"} != keys:
            mistakes.append(f"departures {number}: expected what, standard, actual, clause, and perhaps class")
        elif named == test_class:
            found.append(Deviation(**{key: str(entry[key]) for key in keys}))
    return tuple(found)


def _unknown(key: str, known: Collection[str], test: str, pts: str, test_class: TestClass) -> str:
    others = (other for other in versions(test) if other != pts)
    having = [f"PTS {each}" for each in others if key in _File.read(SPECS / f"{test}-{each}.toml", test_class).leaves]
    elsewhere = f"only {' and '.join(having)} has it; " if having and key not in _NAMES else ""
    meant = suggestion(key, known)
    return f"--set {key}: {elsewhere or (meant and f'{meant} ')}expected one of {', '.join(sorted(known))}"


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, value in values.items():
        *sections, name = key.split(".")
        place = plain
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = value
    return plain


def _differences(standard: _File, chosen: _File, values: Mapping[str, Any]) -> Iterator[Deviation | OperatorSetting]:
    for key, leaf in (chosen.leaves | standard.leaves).items():
        known = key in standard.leaves
        asked = standard.leaves[key].value if known else None
        if not leaf.clause:
            continue
        kind = OperatorSetting if known and leaf.allows(values.get(key)) else Deviation
        for what, ours, theirs in _differing(key, asked, values.get(key)):
            yield kind(
                what=what,
                standard=format_value(ours, key) + _latitude(leaf, key),
                actual=format_value(theirs, key),
                clause=leaf.clause,
            )


def _latitude(leaf: _Leaf, key: str) -> str:
    """Return how far the standard's value binds, where it does not wholly."""
    if leaf.bounds is not None and leaf.binding == "required":
        return f" (the operator may take {format_value(list(leaf.bounds), key).replace(', ', ' to ')})"
    return f" ({leaf.binding})" if leaf.binding == "recommended" else ""


def _differing(key: str, standard: Any, actual: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield what differs with both values: the whole, or of a list of named tables each that does."""
    if standard == actual:
        return
    ours, theirs = _by_name(standard), _by_name(actual)
    if not ours or not theirs:
        yield key, standard, actual
        return
    if list(ours) != list(theirs):
        yield key, list(ours), list(theirs)
    for name, table in theirs.items():
        if name not in ours:
            yield f"{key}: {name}", None, {each: item for each, item in table.items() if each != "name"}
        elif table != ours[name]:
            yield f"{key}: {name}", _unlike(ours[name], table), _unlike(table, ours[name])


def _by_name(value: Any) -> dict[str, dict[str, Any]]:
    tables = [table for table in value if isinstance(table, dict)] if isinstance(value, list) else []
    return {
        table["name"]: {name: item for name, item in table.items() if item != []} for table in tables if "name" in table
    }


def _unlike(table: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a table has otherwise than ``other``; of lists the entries that ``other`` has not."""
    unlike = {name: item for name, item in table.items() if other.get(name) != item}
    for name, item in unlike.items():
        if isinstance(item, list):
            unlike[name] = [entry for entry in item if entry not in other.get(name, [])] or item
    return unlike


def _foreign(standard: _File, chosen: _File) -> Iterable[Deviation]:
    if chosen.path != standard.path:
        yield Deviation(
            what="specification file", standard=standard.path.name, actual=str(chosen.path), clause="specs/"
        )


def numbers(spec: Spec) -> Iterator[tuple[str, str]]:
    """Give every number of a specification with its dotted key; what has a name in a list is found by that name."""
    for field in fields(spec):
        item = getattr(spec, field.name)
        if not isinstance(item, str):
            yield from _numbers(item, field.name)


def _numbers(value: Any, key: str, known: str = "") -> Iterator[tuple[str, str]]:
    """Give what ``value`` holds; the field ``known`` stands in the key already."""
    if is_dataclass(value):
        for field in fields(value):
            if field.name != known:
                yield from _numbers(getattr(value, field.name), f"{key}.{field.name}")
    elif isinstance(value, tuple) and value and hasattr(value[0], "name"):
        for entry in value:
            yield from _numbers(entry, f"{key}.{entry.name}", "name")
    elif value is not None:
        yield key, format_value(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _plain(entry) for name, entry in asdict(value).items() if entry is not None}
    return value


def format_value(value: Any, key: str = "") -> str:
    """Return a specification value as a reader writes it: lists with commas, tables in words.

    A number has the unit that ``key`` ends in: ``4 KiB 67 %`` is a table of ``kib`` and ``percent``.
    """
    if isinstance(value, Mapping):
        return " ".join(_word(name, item) for name, item in value.items() if item not in (None, [], ())) or "none"
    if value is None or value in ([], ()):
        return "none"
    unit = _UNITS.get(key.replace(".", "_").rpartition("_")[2], "")
    if isinstance(value, list | tuple):
        return ", ".join(map(format_value, value)) + unit
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (f"{value:.15g}" if isinstance(value, float) else str(value)) + unit


def _word(name: str, item: Any) -> str:
    words = name.split("_")
    said = " ".join(words[:-1] if words[-1] in _UNITS else words)
    if isinstance(item, str):
        return item.replace("_", " ")
    if isinstance(item, list | tuple):
        return f"{said} ({format_value(item, name)})"
    return f"{said} {format_value(item, name)}".strip()
