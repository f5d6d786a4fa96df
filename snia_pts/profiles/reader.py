"""Find and read workload profiles: those of ``specs/profiles`` and the operator's own files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from .. import registries
from ..errors import UsageError
from ..spec import Deviation, Scalar
from ..spec.limits import duplicate_bounds
from ..spec.reader import SPECS, Specification, format_value
from ..spec.toml_file import read_toml, spec_error, validate
from ..units import parse_size
from .procedure import value_text
from .spec import AXIS, WHOLE, ProfileSpec, Workload

Number = TypeVar("Number", int, float)
PROFILES = SPECS / "profiles"
_WHAT = "The profile"
_REMEDY = "Correct the file; docs/profiles.rst lists the keys."
_NAME = re.compile(r"[a-z0-9-]{1,40}")
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,9})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The operator's changes to a profile; None or an empty tuple leaves the profile's value.

    ``seconds`` and ``ramp_seconds`` apply to every workload with a time; ``range`` is the maximum range of every
    workload.
    """

    repeats: int | None = None
    seconds: float | None = None
    ramp_seconds: float | None = None
    range: str | None = None
    axes: tuple[tuple[str, tuple[Scalar, ...]], ...] = ()

    @classmethod
    def parse(cls, overrides: Sequence[str]) -> Changes:
        """Return the changes of ``KEY=VALUE`` texts; ``axis.KEY=V,V`` changes an axis.  Raises UsageError."""
        values = dict(text.partition("=")[::2] for text in overrides if not text.startswith(AXIS))
        if unknown := values.keys() - {"repeats", "seconds", "ramp_seconds", "range"}:
            raise UsageError(
                detail=f"{min(unknown)}: a profile has no such override.",
                hint=f"Known: repeats, seconds, ramp_seconds, range, {AXIS}KEY.",
            )
        if "range" in values:
            parse_size(values["range"])
        return cls(
            repeats=_number("repeats", values, int),
            seconds=_number("seconds", values, float),
            ramp_seconds=_number("ramp_seconds", values, float),
            range=values.get("range"),
            axes=tuple(parse_axis(text.removeprefix(AXIS)) for text in overrides if text.startswith(AXIS)),
        )


def _number(key: str, values: Mapping[str, str], kind: type[Number]) -> Number | None:
    """Return an override as a number, or None if there is no such override.  Raises UsageError."""
    if key not in values:
        return None
    try:
        return kind(values[key])
    except ValueError:
        option = f"--{key.replace('_', '-')}"
        raise UsageError(detail=f"{option} {values[key]}: not a number.", hint=f"For example {option} 3.") from None


def builtin_profiles() -> tuple[str, ...]:
    """Return the names of the profiles included in the suite."""
    return tuple(sorted(path.stem for path in PROFILES.glob("*.toml")))


def profile_paths(plugins: Sequence[str] = ()) -> dict[str, Path]:
    """Return the path of each profile of the suite and of these plugins, by its name."""
    added = registries.added_by(plugins, registries.PROFILE_FOLDERS)
    folders = [*(registries.load(added, folder) for folder in added), PROFILES]
    paths = {path.stem: path for folder in folders for path in folder.glob("*.toml")}  # the suite's replace others
    return dict(sorted(paths.items()))


def profile_path(name: str, plugins: Sequence[str] = ()) -> Path:
    """Return the path of a profile: of the suite and of ``plugins`` by its name, any other by its path.

    Raises UsageError if there is no such profile.
    """
    paths = profile_paths(plugins)
    if name in paths:
        return paths[name]
    if "/" in name or name.endswith(".toml"):
        return Path(name)
    raise UsageError(
        detail=f"There is no profile {name!r}.",
        hint=f"Known: {', '.join(paths)}; or give the path of a profile file.",
    )


def read_profile(name: str, changes: Changes | None = None, plugins: Sequence[str] = ()) -> Specification:
    """Read a profile by its name, also one of ``plugins``, or by its path; apply the changes, each as a Deviation.

    Raises UsageError if there is no such profile, and SpecError with every mistake in the file or the changes.
    """
    path = profile_path(name, plugins)
    table = read_toml(path, _WHAT, remedy=_REMEDY)
    mistakes = [] if table.pop("format", None) == 1 else ["format: expected 1, the only supported format"]
    named = "name" in table or _NAME.fullmatch(path.stem)
    if not named:
        mistakes.append("name: missing key; the file name contains characters other than a-z, 0-9 and -")
    table = {"name": path.stem if named else "unnamed", **table}
    if isinstance(limits := table.get("limit"), list):
        table["limit"] = [{"test": "profile", **limit} if isinstance(limit, dict) else limit for limit in limits]
    spec, invalid = validate(ProfileSpec, table)
    mistakes += (*invalid, *(duplicate_bounds(spec.limit) if spec else ()))
    if spec is None or mistakes:
        raise spec_error(str(path), mistakes, _WHAT, remedy=_REMEDY)
    changed, mistakes = validate(ProfileSpec, _changed(table, changes or Changes()))
    if changed is None:
        raise spec_error(f"{path.name} with your options", mistakes, _WHAT, remedy="Correct the options.")
    return Specification(
        spec=changed, test_class="enterprise", deviations=tuple(_differences(spec, changed)), source=str(path)
    )


def parse_axis(text: str) -> tuple[str, tuple[Scalar, ...]]:
    """Return the key and the values of ``KEY=VALUE,VALUE``; raises UsageError if the text has another form."""
    key, equals, values = text.partition("=")
    words = [word.strip() for word in values.split(",")]
    if not key.strip() or not equals or not all(words):
        raise UsageError(detail=f"--axis {text}: not KEY=VALUE,VALUE.", hint="For example --axis queue_depth=1,4,16.")
    return key.strip(), tuple(map(_scalar, words))


def _scalar(word: str) -> Scalar:
    if not _NUMBER.fullmatch(word):
        return word
    return float(word) if "." in word else int(word)


def _changed(table: Mapping[str, Any], changes: Changes) -> dict[str, Any]:
    """Return a profile's content with the changes applied."""
    changed = dict(table)
    if changes.repeats is not None:
        changed["repeats"] = changes.repeats
    changed["workload"] = [_changed_workload(workload, changes) for workload in table["workload"]]
    axes = {axis["key"]: axis for axis in table.get("axis", [])}
    if changes.range is not None and "range" in axes:
        sizes, max_bytes = axes["range"]["values"], parse_size(changes.range)
        allowed = [size for size in sizes if size != WHOLE and parse_size(str(size)) <= max_bytes]
        axes["range"] = {**axes["range"], "values": allowed or [changes.range]}
    for key, values in changes.axes:
        axes[key] = {**axes.get(key, _new_axis(key, table["workload"])), "values": list(values)}
    return {**changed, "axis": list(axes.values())}


def _new_axis(key: str, workloads: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return an axis of the command line.

    That of the Thread Count omits workloads with an order, which have one thread.
    """
    parallel = [workload["name"] for workload in workloads if workload.get("order", "forward") == "forward"]
    if key == "thread_count" and 0 < len(parallel) < len(workloads):
        return {"key": key, "workloads": parallel}
    return {"key": key}


def _changed_workload(table: Mapping[str, Any], changes: Changes) -> dict[str, Any]:
    changed = dict(table)
    if "seconds" in table:
        changed["seconds"] = table["seconds"] if changes.seconds is None else changes.seconds
        if "sample_seconds" in table:
            changed["sample_seconds"] = min(table["sample_seconds"], changed["seconds"])
        elif changes.ramp_seconds is not None:
            changed["ramp_seconds"] = changes.ramp_seconds
    size = table.get("range", WHOLE)
    if changes.range is not None and (size == WHOLE or parse_size(size) > parse_size(changes.range)):
        changed["range"] = changes.range
    return changed


def _differences(profile: ProfileSpec, changed: ProfileSpec) -> Iterator[Deviation]:
    """Yield the differences between a changed profile and its file."""
    clause = profile.clause
    if profile.repeats != changed.repeats:
        yield Deviation(what="repeats", standard=str(profile.repeats), actual=str(changed.repeats), clause=clause)
    original = {axis.key: axis.values for axis in profile.axis}
    for axis in changed.axis:
        values = original.get(axis.key, ())
        if values != axis.values:
            yield Deviation(
                what=f"axis {axis.key}",
                standard=_axis_text(axis.key, values),
                actual=_axis_text(axis.key, axis.values),
                clause=clause,
            )
    axes = {axis.key for axis in changed.axis if not axis.workloads}
    for key in (key for key in ("seconds", "ramp_seconds", "range") if key not in axes):
        pairs = zip(_values(profile.workload, key), _values(changed.workload, key), strict=True)
        different = list(dict.fromkeys(pair for pair in pairs if pair[0] != pair[1]))
        if different:
            yield Deviation(
                what=f"workload.{key}",
                standard=format_value([expected for expected, _ in different], key),
                actual=format_value(list(dict.fromkeys(actual for _, actual in different)), key),
                clause=clause,
            )


def _axis_text(key: str, values: Sequence[Scalar]) -> str:
    return ", ".join(value_text(key, value) for value in values) or "none"


def _values(workloads: Sequence[Workload], key: str) -> list[Any]:
    return [getattr(workload, key) for workload in workloads]
