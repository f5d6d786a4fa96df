"""The standard as data: read ``specs/*.toml`` and report every difference from the standard.

All mistakes of a file are reported at once.  Every number that differs from the standard's becomes a Deviation, or an
OperatorSetting if the standard leaves the number to the operator.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..files import data_folder
from ..text import suggestion
from . import SPEC_TYPES, Deviation, OperatorSetting, Spec, TestClass, TestSpec
from .definitions import Definitions
from .toml_file import read_toml, spec_error, validate

SPECS = data_folder("specs")
#: The unit of a number, by the last word of its key.
_UNITS = {"seconds": " s", "ms": " ms", "percent": " %", "percents": " %", "kib": " KiB"}
#: The fields that identify a specification; they are not numbers of the standard.
_IDENTITY = {field.name for field in fields(TestSpec)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Specification:
    """A validated specification and its differences from the standard.

    ``source`` is the path of the operator's specification file; comparisons ignore it.
    """

    spec: Spec
    test_class: TestClass
    deviations: tuple[Deviation, ...]
    settings: tuple[OperatorSetting, ...] = ()
    source: str = field(default="", compare=False)


def versions(test: str) -> tuple[str, ...]:
    """Return the versions of the standard for which ``specs/`` has a file of this test, newest first."""
    names = (path.stem.removeprefix(f"{test}-") for path in SPECS.glob(f"{test}-*.toml"))
    return tuple(sorted(names, reverse=True))


def standard_tests() -> tuple[str, ...]:
    """Return the tests of the standard for which ``specs/`` has a file."""
    names = (path.stem.rpartition("-")[0] for path in SPECS.glob("*-*.toml"))
    return tuple(sorted(set(names)))


@lru_cache
def title_of(test: str, pts: str = "") -> str:
    """Return a test's title in a version of the standard, or in the newest version if that has no such test.

    The title of a test that is not in the standard is its name.
    """
    if test not in SPEC_TYPES:
        return test
    available = versions(test)
    return read_specification(test, pts if pts in available else available[0], "enterprise").spec.title


def read_specification(
    test: str,
    pts: str,
    test_class: TestClass,
    *,
    path: Path | None = None,
    overrides: Iterable[tuple[str, Any]] = (),
) -> Specification:
    """Read the standard's specification of ``test``, or the file at ``path``, and apply ``overrides``.

    ``overrides`` are (dotted key, value) pairs.  Every number that then differs from the standard's file is a
    Deviation or an OperatorSetting.  Raises SpecError with all mistakes: file, key, value and what was expected.
    """
    standard = _read_standard(SPECS / f"{test}-{pts}.toml", test_class)
    chosen = _File.read(path, test_class) if path else standard
    for key, expected in (("test", test), ("pts", pts)):
        if (actual := chosen.leaves.get(key)) and actual.value != expected:
            choice = "run its own test" if key == "test" else "choose its version with --pts"
            raise spec_error(str(path), [f"{key}: {actual.value!r}: expected {expected!r}; {choice}"])
    values = {key: leaf.value for key, leaf in chosen.leaves.items()}
    mistakes = list(chosen.mistakes)
    for key, value in overrides:
        if key in values.keys() - _IDENTITY:
            values[key] = value
        else:
            mistakes.append(_unknown(key, values.keys() - _IDENTITY, test, pts, test_class))
    spec, more = validate(SPEC_TYPES[test], _nested(values))
    if spec is None or mistakes or more:
        raise spec_error(str(path or f"{standard.path.name} with your options"), mistakes + more)
    departures = dict.fromkeys((*standard.departures, *chosen.departures))
    differences = tuple(_differences(standard, chosen, values))
    settings = tuple(difference for difference in differences if isinstance(difference, OperatorSetting))
    value_deviations = (difference for difference in differences if isinstance(difference, Deviation))
    deviations = (*value_deviations, *departures, *_custom_file(standard, chosen))
    return Specification(spec=spec, test_class=test_class, deviations=deviations, settings=settings)


@cache
def definitions() -> Definitions:
    """Return the suite's own definitions, which apply to every test; raises SpecError."""
    file = _File.read(SPECS / "suite-definitions.toml", "enterprise")
    value, mistakes = validate(Definitions, _nested({key: leaf.value for key, leaf in file.leaves.items()}))
    if value is None or file.mistakes:
        raise spec_error(str(file.path), [*file.mistakes, *mistakes])
    return value


def spec_deviations(spec: Spec, test_class: TestClass) -> tuple[Deviation, ...]:
    """Return the deviations of a specification from the standard, as ``read_specification`` lists them.

    Omits the deviation "specification file", because a specification does not contain its path.
    There are none for a specification that is not part of the standard.
    """
    if not spec.is_standard:
        return ()
    standard = _read_standard(SPECS / f"{spec.test}-{spec.pts}.toml", test_class)
    values = {key: _toml_value(_value(spec, key)) for key in standard.leaves}
    differences = _differences(standard, standard, values)
    return (*(difference for difference in differences if isinstance(difference, Deviation)), *standard.departures)


def operator_range(spec: Spec, test_class: TestClass, key: str) -> tuple[float, float] | None:
    """Return the lowest and the highest value that the operator may choose for a number that the standard requires.

    None if the standard has no such range, or if the specification is not part of it.
    """
    if not spec.is_standard:
        return None
    leaf = _read_standard(SPECS / f"{spec.test}-{spec.pts}.toml", test_class).leaves.get(key)
    return leaf.required_bounds if leaf else None


def _value(spec: Spec, key: str) -> Any:
    """Return a value of a specification; None if an optional section is absent."""
    value: Any = spec
    for name in key.split("."):
        value = getattr(value, name, None)
    return value


def parse_override(text: str) -> tuple[str, Any]:
    """Split ``KEY=VALUE`` and parse VALUE as TOML, or keep it as text if it is not TOML.

    Raises UsageError if the key or the value is missing.
    """
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

    @property
    def required_bounds(self) -> tuple[float, float] | None:
        """The bounds of a number that the standard requires; None if it only recommends one, or leaves the choice."""
        return self.bounds if self.binding == "required" else None

    def allows(self, value: object) -> bool:
        """Return whether the standard permits the operator to choose this value."""
        if self.bounds is None:
            return self.binding != "required"
        return isinstance(value, int | float) and self.bounds[0] <= value <= self.bounds[1]


@dataclass(frozen=True, slots=True)
class _File:
    """The content of one specification file for one class, and the mistakes in the file.

    ``leaves`` has each value with its clause, by dotted key (``rounds.maximum``).
    """

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
            mistakes.append("format: expected 1, the only supported format")
        departures = _departures(table.pop("departures", []), test_class, mistakes)
        leaves: dict[str, _Leaf] = {}
        _collect(table, "", test_class, leaves, mistakes)
        return cls(path, leaves, departures, tuple(mistakes))


@cache
def _read_standard(path: Path, test_class: TestClass) -> _File:
    """Read a file of the standard once: nothing changes it while the suite runs."""
    return _File.read(path, test_class)


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
        mistakes.append(f"{key}: expected the clause of the standard that the value follows")
    binding = entry.get("binding", "required")
    if binding not in ("required", "recommended", "operator"):
        mistakes.append(f"{key}: binding {binding!r}: expected required, recommended or operator")
    for extra in sorted(entry.keys() - {"value", "enterprise", "client", "clause", "binding", "bounds"}):
        mistakes.append(f"{key}.{extra}: unknown key")
    bounds = _bounds(entry.get("bounds"), key, mistakes)
    return _Leaf(entry.get("value", entry.get(test_class)), str(entry.get("clause")), str(binding), bounds)


def _bounds(entry: object, key: str, mistakes: list[str]) -> tuple[float, float] | None:
    if isinstance(entry, list) and len(entry) == 2:
        minimum, maximum = entry
        numeric = all(isinstance(bound, int | float) and not isinstance(bound, bool) for bound in entry)
        if numeric and minimum <= maximum:
            return minimum, maximum
    if entry is not None:
        mistakes.append(f"{key}.bounds: {entry!r}: expected the minimum and the maximum value")
    return None


def _departures(entries: object, test_class: TestClass, mistakes: list[str]) -> tuple[Deviation, ...]:
    departures = []
    for number, entry in enumerate(entries if isinstance(entries, list) else [entries], start=1):
        keys = {"what", "standard", "actual", "clause"}
        entry_class = entry.get("class", test_class) if isinstance(entry, dict) else None
        if entry_class not in ("enterprise", "client") or entry.keys() - {"class"} != keys:
            mistakes.append(f"departures {number}: expected what, standard, actual, clause, and optionally class")
        elif entry_class == test_class:
            departures.append(Deviation(**{key: str(entry[key]) for key in keys}))
    return tuple(departures)


def _unknown(key: str, keys: Collection[str], test: str, pts: str, test_class: TestClass) -> str:
    """Return the message for an override with an unknown key; it names the versions of the standard with this key."""
    files = {
        version: _File.read(SPECS / f"{test}-{version}.toml", test_class)
        for version in versions(test)
        if version != pts
    }
    supporting = [f"PTS {version}" for version, file in files.items() if key in file.leaves]
    if supporting and key not in _IDENTITY:
        verb = "have" if len(supporting) > 1 else "has"
        return f"--set {key}: unknown key of PTS {pts}; {' and '.join(supporting)} {verb} it"
    advice = suggestion(key, keys) or f"the keys are {', '.join(sorted(keys))}"
    return f"--set {key}: unknown key; {advice}"


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return tables nested by the dotted keys."""
    root: dict[str, Any] = {}
    for key, value in values.items():
        *sections, name = key.split(".")
        table = root
        for section in sections:
            table = table.setdefault(section, {})
        table[name] = value
    return root


def _differences(standard: _File, chosen: _File, values: Mapping[str, Any]) -> Iterator[Deviation | OperatorSetting]:
    for key, leaf in (chosen.leaves | standard.leaves).items():
        standardised = key in standard.leaves
        expected = standard.leaves[key].value if standardised else None
        if not leaf.clause:
            continue
        kind = OperatorSetting if standardised and leaf.allows(values.get(key)) else Deviation
        for name, expected_part, actual_part in _differing(key, expected, values.get(key)):
            yield kind(
                what=name,
                standard=format_value(expected_part, key) + _latitude(leaf, key),
                actual=format_value(actual_part, key),
                clause=leaf.clause,
            )


def _latitude(leaf: _Leaf, key: str) -> str:
    """Return a note on the operator's choice: the permitted range, or "recommended"; empty if there is none."""
    if leaf.required_bounds:
        return f" (the operator may choose {format_range(leaf.required_bounds, key)})"
    return f" ({leaf.binding})" if leaf.binding == "recommended" else ""


def _differing(key: str, standard: Any, actual: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name and both values of every difference; lists of named tables are compared table by table."""
    if standard == actual:
        return
    expected, tables = _by_name(standard), _by_name(actual)
    if not expected or not tables:
        yield key, standard, actual
        return
    if list(expected) != list(tables):
        yield key, list(expected), list(tables)
    for name, table in tables.items():
        if name not in expected:
            yield f"{key}: {name}", None, {field: item for field, item in table.items() if field != "name"}
        elif table != expected[name]:
            yield f"{key}: {name}", _different_items(expected[name], table), _different_items(table, expected[name])


def _by_name(value: Any) -> dict[str, dict[str, Any]]:
    tables = [table for table in value if isinstance(table, dict)] if isinstance(value, list) else []
    return {
        table["name"]: {name: item for name, item in table.items() if item != []} for table in tables if "name" in table
    }


def _different_items(table: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the items of a table that differ from ``other``; a list is reduced to the entries missing in ``other``."""
    different = {name: item for name, item in table.items() if other.get(name) != item}
    for name, item in different.items():
        if isinstance(item, list):
            different[name] = [entry for entry in item if entry not in other.get(name, [])] or item
    return different


def _custom_file(standard: _File, chosen: _File) -> Iterable[Deviation]:
    if chosen.path != standard.path:
        yield Deviation(
            what="specification file", standard=standard.path.name, actual=str(chosen.path), clause="specs/"
        )


def spec_values(spec: Spec) -> Iterator[tuple[str, str]]:
    """Yield the dotted key and the text of every value of a specification, except texts at the top level.

    If the entries of a list have names, the key contains the name of the entry.
    """
    for spec_field in fields(spec):
        item = getattr(spec, spec_field.name)
        if not isinstance(item, str):
            yield from _values(item, spec_field.name)


def _values(value: Any, key: str, excluded: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values in ``value``.  The field ``excluded`` is omitted, because it is already in the key."""
    if is_dataclass(value):
        for value_field in fields(value):
            if value_field.name != excluded:
                yield from _values(getattr(value, value_field.name), f"{key}.{value_field.name}")
    elif isinstance(value, tuple) and value and hasattr(value[0], "name"):
        for entry in value:
            yield from _values(entry, f"{key}.{entry.name}", "name")
    elif value is not None:
        yield key, format_value(_toml_value(value))


def _toml_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_toml_value(entry) for entry in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _toml_value(entry) for name, entry in asdict(value).items() if entry is not None}
    return value


def format_value(value: Any, key: str = "") -> str:
    """Return a specification value as text: lists with commas, tables in words.

    The unit of a number follows from the last word of its key: a table with the keys ``kib`` and ``percent`` gives
    ``4 KiB 67 %``.
    """
    if isinstance(value, Mapping):
        return (
            " ".join(_format_item(name, item) for name, item in value.items() if item not in (None, [], ())) or "none"
        )
    if value is None or value in ([], ()):
        return "none"
    unit = _UNITS.get(key.replace(".", "_").rpartition("_")[2], "")
    if isinstance(value, list | tuple):
        return ", ".join(map(format_value, value)) + unit
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (f"{value:.15g}" if isinstance(value, float) else str(value)) + unit


def format_range(bounds: tuple[float, float], key: str) -> str:
    """Return a range of values as text: ``21600 to 86400 s``."""
    return format_value(list(bounds), key).replace(", ", " to ")


def _format_item(name: str, item: Any) -> str:
    words = name.split("_")
    label = " ".join(words[:-1] if words[-1] in _UNITS else words)
    if isinstance(item, str):
        return item.replace("_", " ")
    if isinstance(item, list | tuple):
        return f"{label} ({format_value(item, name)})"
    return f"{label} {format_value(item, name)}".strip()
