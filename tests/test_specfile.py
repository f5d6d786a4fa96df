"""Specification files: how they are read, the messages about invalid ones, --set, and what counts as a deviation."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from snia_pts.cli.text.formatting import deviation_lines, setting_lines
from snia_pts.errors import SpecError, UsageError
from snia_pts.report.sections.summary import differences_table
from snia_pts.spec import SPEC_TYPES, PatternSpec
from snia_pts.spec.reader import (
    SPECS,
    Specification,
    format_value,
    parse_override,
    read_specification,
    spec_deviations,
    title_of,
)
from tests.drives import special
from tests.strategies import CLASSES, VERSIONS, toml_document, toml_values

TESTS = tuple(SPEC_TYPES)
FILES = [(test, pts) for test in TESTS for pts in VERSIONS]
#: A file's own metadata, which no operator changes.
NAMES = {"test", "title", "subtitle", "pts", "publication", "revision"}
#: The unit that a deviation prints after a number, by the last word of its key.
UNITS = {"seconds": " s", "ms": " ms", "percent": " %", "percents": " %", "kib": " KiB"}


def table(test: str = "iops", pts: str = "2.0.2") -> dict[str, Any]:
    """Return a bundled specification file as a table, which the caller may change."""
    return deepcopy(_table(test, pts))


@cache
def _table(test: str, pts: str) -> dict[str, Any]:
    return tomllib.loads((SPECS / f"{test}-{pts}.toml").read_text(encoding="utf-8"))


def leaves(entry: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every table of a file without subtables, with its dotted key."""
    for name, child in entry.items():
        if isinstance(child, dict):
            if any(isinstance(grandchild, dict) for grandchild in child.values()):
                yield from leaves(child, f"{prefix}{name}.")
            else:
                yield prefix + name, child


def numbers(test: str, pts: str = "2.0.2") -> dict[str, Any]:
    """Return the enterprise value of every number of a bundled file, by its dotted key."""
    found = dict(leaves(table(test, pts)))
    return {key: leaf.get("value", leaf.get("enterprise")) for key, leaf in found.items() if key not in NAMES}


@pytest.mark.parametrize(
    ("test", "pts", "title"),
    [
        ("composite", "1.1", "Enterprise Composite Workload"),
        ("composite", "2.0.2", "Composite Block Size Workload"),
        ("composite", "9.9", "Composite Block Size Workload"),
        ("wsat", "", "Write Saturation"),
        ("queue-depth", "", "queue-depth"),
        ("../iops", "1.1", "../iops"),
    ],
)
def test_a_test_has_a_title(test: str, pts: str, title: str) -> None:
    """In an unknown version it is that of the newest one; another test is called by its name."""
    assert title_of(test, pts) == title


KEYS = [(test, pts, key) for test, pts in FILES for key in numbers(test, pts)]


def another(key: str, value: Any) -> Any:
    """Return another valid value of a number; the same if there is none."""
    if isinstance(value, list) and isinstance(value[0], dict):
        first = (
            {**value[0], "metric": "mb_per_second" if value[0]["metric"] == "iops" else "iops"}
            if ("metric" in value[0])
            else {**value[0], "read_percent": value[0]["read_percent"] + 1}
        )
        return [first, *value[1:]]
    if isinstance(value, list):
        return value[::-1] if len(value) > 1 else [2 * value[0]]
    if isinstance(value, str):
        return {"disabled": "enabled", "total-oio": "qd-major"}.get(value, value)
    if isinstance(value, bool):
        return not value
    return value - 1 if value == 100 else value + 1


def changed(test: str = "iops", *overrides: tuple[str, Any], pts: str = "2.0.2") -> Specification:
    """Return a test's specification of the enterprise class, with overrides."""
    return read_specification(test, pts, "enterprise", overrides=overrides)


def deviating(test: str, key: str, value: Any) -> list[tuple[str, str, str]]:
    """Return the subject, the standard's value and the actual one of each deviation of an override."""
    return [
        (deviation.what, deviation.standard, deviation.actual) for deviation in changed(test, (key, value)).deviations
    ]


def mistakes(path: Path, test: str = "iops", pts: str = "2.0.2") -> list[str]:
    """Return the mistakes that the message about an invalid file lists."""
    with pytest.raises(SpecError) as caught:
        read_specification(test, pts, "enterprise", path=path)
    lines = str(caught.value).splitlines()

    count = len(lines) - 1
    assert lines[0] == f"The specification {path} has {count} mistake{'s' * (count != 1)}:"
    return [line.removeprefix("  ") for line in lines[1:]]


def written(folder: Path, text: str) -> Path:
    """Write a specification file."""
    path = folder / "own.toml"
    path.write_text(text, encoding="utf-8")
    return path


# -- bundled files ----------------------------------------------------------------------------------------------------


def test_bundled_files() -> None:
    """There is a file for each test and version, one of the suite's own definitions, and no other."""
    expected = [*(f"{test}-{pts}.toml" for test, pts in FILES), "suite-definitions.toml"]
    assert sorted(path.name for path in SPECS.glob("*.toml")) == sorted(expected)


@pytest.mark.parametrize(("test", "pts"), FILES)
def test_every_number_has_its_clause(test: str, pts: str) -> None:
    """Each leaf of a bundled file has its clause, in the words of its version."""
    found = {key: leaf for key, leaf in leaves(table(test, pts)) if key not in NAMES}

    assert len(found) > 4
    assert [key for key, leaf in found.items() if pts not in leaf["clause"]] == []


# -- deviations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("test", "pts", "key"), KEYS)
def test_changed_number_is_a_deviation(test: str, pts: str, key: str) -> None:
    """Each number that differs from the standard is a deviation with its clause, or the operator's setting."""
    leaf, value = dict(leaves(table(test, pts)))[key], numbers(test, pts)[key]
    other = another(key, value)
    read = changed(test, (key, other), pts=pts)

    if other == value:
        assert (read.deviations, read.settings) == ((), ())
        return
    least, most = leaf.get("bounds", (None, None))
    free = leaf.get("binding", "required") != "required" if least is None else least <= other <= most
    (deviation,) = read.settings if free else read.deviations
    assert not (read.deviations if free else read.settings)
    assert deviation.what.partition(":")[0] == key
    assert deviation.clause == leaf["clause"]
    assert deviation.standard.endswith(" (recommended)") == (leaf.get("binding") == "recommended")
    assert deviation.standard.partition(" (")[0] != deviation.actual
    if deviation.what == key:
        assert deviation.actual.endswith(UNITS.get(key.replace(".", "_").rpartition("_")[2], ""))


@pytest.mark.parametrize(("test", "pts"), FILES)
def test_repeating_the_standard_is_no_deviation(test: str, pts: str) -> None:
    """Setting the standard's own values changes nothing."""
    assert changed(test, *numbers(test, pts).items(), pts=pts) == changed(test, pts=pts)


@pytest.mark.parametrize("test_class", CLASSES)
@pytest.mark.parametrize(("test", "pts"), FILES)
def test_a_complete_specification_is_its_file(test: str, pts: str, test_class: Any) -> None:
    """Setting all values of a specification, including those that its file omits, gives no deviation."""
    own = read_specification(test, pts, test_class)
    document = json.loads(json.dumps(asdict(own.spec)))
    patterns = [("patterns", document["patterns"])] if isinstance(own.spec, PatternSpec) else []

    assert read_specification(test, pts, test_class, overrides=patterns) == own


@pytest.mark.parametrize("pts", VERSIONS)
def test_thread_count_and_queue_depth_are_settings(pts: str) -> None:
    """1.1 leaves thread count and queue depth to the operator, 2.0.2 recommends them: neither gives a deviation."""
    read = changed("iops", ("setup.thread_count", 8), ("setup.queue_depth", 64), pts=pts)

    assert read.deviations == ()
    assert [setting.what for setting in read.settings] == ["setup.thread_count", "setup.queue_depth"]


@pytest.mark.parametrize(
    ("test", "key", "within", "outside"),
    [
        ("iops", "rounds.maximum", (26, 1024), (5, 24)),
        ("dirth", "demand.maximum", (26, 40), (24,)),
        ("hir", "conditioning.maximum", (26, 40), (24,)),
        ("wsat", "saturation.seconds", (21601, 86400), (21599, 86401)),
        ("wsat", "settling.stride_samples", (31,), (29, 32)),
        ("composite", "settling.stride_samples", (31,), (1, 60)),
        ("wsat", "saturation.until_steady", (False,), ()),
        ("wsat", "settling.minimum_fills", (0, 2.5), ()),
    ],
)
def test_bounds_separate_a_setting_from_a_deviation(
    test: str, key: str, within: tuple[Any, ...], outside: tuple[Any, ...]
) -> None:
    """A number that the standard leaves to the operator is a setting within its bounds, and a deviation beyond them."""
    for value in within:
        read = changed(test, (key, value))
        assert (read.deviations, [setting.what for setting in read.settings]) == ((), [key])
    for value in outside:
        read = changed(test, (key, value))
        assert ([deviation.what for deviation in read.deviations], read.settings) == ([key], ())


def test_a_number_of_the_suite_is_not_called_the_standard_s() -> None:
    """Terminal and report call a default whose clause is not the standard's one of the suite, and no other."""
    read = changed(
        "dirth", ("settling.minimum_fills", 0), ("demand.maximum", 26), ("operating_points.tolerance_percent", 1)
    )
    least, most = list(setting_lines(read.settings))[1:]
    _, _, tolerance = deviation_lines(read.deviations, "PTS-E 2.0.2")

    assert "; this suite's default: 1 (" in least
    assert "; the standard: 25 (" in most
    assert "; this suite's default: 2 % (this suite" in tolerance
    listed = differences_table(read.spec, read.test_class, read.settings, "Setting", "Settings")
    settings_listed = [row[1] for row in listed.rows]
    assert settings_listed[0].startswith("this suite's default: 1")
    assert settings_listed[1].startswith("25")


def test_a_file_of_the_user_cannot_widen_bounds(tmp_path: Path) -> None:
    """The standard's own file defines the settings: bounds in another file are ignored."""
    own = table()
    own["rounds"]["point_seconds"] |= {"value": 30, "bounds": [1, 60]}
    read = read_specification("iops", "2.0.2", "enterprise", path=written(tmp_path, toml_document(own)))

    assert "rounds.point_seconds" in [deviation.what for deviation in read.deviations]
    assert read.settings == ()


@pytest.mark.parametrize("bounds", [7, [1], [2, 1], ["a", "b"], [True, False], [1, 2, 3]])
def test_bounds_are_two_numbers(tmp_path: Path, bounds: Any) -> None:
    """Bounds are the minimum and the maximum, in this order."""
    own = table()
    own["rounds"]["maximum"]["bounds"] = bounds

    assert mistakes(written(tmp_path, toml_document(own))) == [
        f"rounds.maximum.bounds: {bounds!r}: expected the minimum and the maximum value"
    ]


def test_stimulus_is_the_operator_s_choice() -> None:
    """Another stimulus of the standard is no deviation, for write saturation and demand intensity."""
    for test, name in (("wsat", "oltp"), ("wsat", "composite"), ("dirth", "write-intensive")):
        assert changed(test, ("stimulus.name", name)).deviations == ()


def test_deviation_reads_well() -> None:
    """A deviation states the standard's requirement and the actual value in plain words."""
    read = changed("iops", ("rounds.point_seconds", 0.4), ("rounds.maximum", 40), ("setup.thread_count", 8))

    assert [(deviation.what, deviation.standard, deviation.actual) for deviation in read.deviations] == [
        ("rounds.point_seconds", "60 s", "0.4 s"),
    ]
    assert [(setting.what, setting.standard, setting.actual) for setting in read.settings] == [
        ("setup.thread_count", "4 (recommended)", "8"),
        ("rounds.maximum", "25 (the operator may choose 25 to 1024)", "40"),
    ]
    assert deviating("hir", "wait_states.idle_seconds", [5, 10.5]) == [
        ("wait_states.idle_seconds", "5, 10, 15, 25, 50 s", "5, 10.5 s")
    ]
    assert deviating("dirth", "operating_points.maximum_art_ms", 2) == [
        ("operating_points.maximum_art_ms", "5 ms", "2 ms")
    ]


def test_tracked_variables_read_well() -> None:
    """The text has all tracked variables."""
    only = [{"metric": "mb_per_second", "block_size_kib": 8, "read_percent": 0}]

    assert deviating("iops", "steady_state.tracked", only) == [
        (
            "steady_state.tracked",
            "iops block size 4 KiB read 0 %, iops block size 64 KiB read 65 %, iops block size 1024 KiB read 100 %",
            "mb per second block size 8 KiB read 0 %",
        )
    ]


def test_one_number_of_a_pattern() -> None:
    """In a list of named tables only the changed table is reported, and in it only the change."""
    patterns = numbers("wsat")["patterns"]
    clearly = [*patterns[:4], {**patterns[4], "read_percent": 30}]
    small = {0.5: 5, 4: 66}
    sizes = [{**size, "percent": small.get(size["kib"], size["percent"])} for size in patterns[4]["block_sizes"]]
    evenly = {name: item for name, item in patterns[4].items() if name != "skew"}

    assert deviating("wsat", "patterns", clearly) == [("patterns: composite", "read 40 %", "read 30 %")]
    assert deviating("wsat", "patterns", [*patterns[:4], {**patterns[4], "block_sizes": sizes}]) == [
        (
            "patterns: composite",
            "block sizes (0.5 KiB 4 %, 4 KiB 67 %)",
            "block sizes (0.5 KiB 5 %, 4 KiB 66 %)",
        )
    ]
    assert deviating("wsat", "patterns", [*patterns[:4], evenly]) == [
        (
            "patterns: composite",
            "skew (access 50 % range 5 %, access 30 % range 15 %, access 20 % range 80 %)",
            "none",
        )
    ]


def test_added_and_missing_groups() -> None:
    """In a list of named tables an added one is reported with its content, a missing one or another order by names."""
    groups = numbers("xsr")["groups.sequence"]
    more = {**groups[0], "name": "AG 4", "seconds": 60.5}

    assert deviating("xsr", "groups.sequence", [groups[2], groups[0]]) == [
        ("groups.sequence", "AG 1, AG 2, AG 3", "AG 3, AG 1")
    ]
    assert deviating("xsr", "groups.sequence", [*groups, more]) == [
        ("groups.sequence", "AG 1, AG 2, AG 3", "AG 1, AG 2, AG 3, AG 4"),
        (
            "groups.sequence: AG 4",
            "none",
            "SEQ read 0 % block size 1024 KiB 60.5 s thread count 1 queue depth 32",
        ),
    ]


@given(st.dictionaries(st.sampled_from(["kib", "percent", "read_percent"]), st.integers() | st.floats(), min_size=1))
def test_tables_are_shown_with_all_their_numbers(entry: dict[str, float]) -> None:
    """Each number of a table is in its text."""
    assert all(format_value(value) in format_value([entry]) for value in entry.values())


def test_missing_values() -> None:
    """A missing value is called none."""
    assert (format_value(None, "x_seconds"), format_value([], "x_seconds"), format_value(())) == (
        "none",
        "none",
        "none",
    )
    assert format_value({"read_percent": None, "skew": []}) == "none"


def test_override_takes_effect() -> None:
    """A changed number is in the specification, and the standard's own value stays available."""
    read = read_specification("iops", "2.0.2", "client", overrides=[("rounds.maximum", 7)])

    assert asdict(read.spec)["rounds"]["maximum"] == 7
    assert asdict(read_specification("iops", "2.0.2", "client").spec)["rounds"]["maximum"] == 25


# -- files of one's own -----------------------------------------------------------------------------------------------


def test_own_file_is_a_deviation(tmp_path: Path) -> None:
    """A file of the user is a deviation as a whole and in each changed number, whatever binding it claims."""
    own = table()
    own["rounds"]["maximum"] = {"value": 7, "binding": "operator", "clause": "mine"}
    path = written(tmp_path, toml_document(own))
    read = read_specification("iops", "2.0.2", "enterprise", path=path)

    assert [(deviation.what, deviation.actual) for deviation in read.deviations] == [
        ("rounds.maximum", "7"),
        ("specification file", str(path)),
    ]


def test_own_file_without_a_part(tmp_path: Path) -> None:
    """A user's file without the histogram deviates in each of its numbers, and --set cannot set them."""
    own = table("latency")
    del own["histogram"]
    path = written(tmp_path, toml_document(own))
    read = read_specification("latency", "2.0.2", "enterprise", path=path)
    assert set(read.deviations) > set(spec_deviations(read.spec, "enterprise"))

    assert {
        (deviation.what, deviation.actual) for deviation in read.deviations if deviation.what.startswith("histogram.")
    } == {
        (f"histogram.{name}", "none")
        for name in ("seconds", "read_percent", "block_size_kib", "thread_count", "queue_depth")
    }
    with pytest.raises(SpecError, match=r"--set histogram\.seconds: unknown key; "):
        read_specification("latency", "2.0.2", "enterprise", path=path, overrides=[("histogram.seconds", 1)])


def test_own_file_with_an_additional_part(tmp_path: Path) -> None:
    """A user's file with a histogram, which 1.1 lacks, deviates in each of its numbers."""
    own = {**table("wsat", "1.1"), "histogram": table("wsat")["histogram"]}
    read = read_specification("wsat", "1.1", "enterprise", path=written(tmp_path, toml_document(own)))

    assert [(deviation.what, deviation.standard, deviation.actual) for deviation in read.deviations][:2] == [
        ("histogram.seconds", "none", "1200 s"),
        ("histogram.read_percent", "none", "0 %"),
    ]
    assert len(read.deviations) == 5 + 1


def test_own_file_keeps_the_suite_s_departures(tmp_path: Path) -> None:
    """What the suite does not implement of PTS-C 1.1 stays a deviation even if a user's file does not mention it."""
    own = table("iops", "1.1")
    del own["departures"]
    read = read_specification("iops", "1.1", "client", path=written(tmp_path, toml_document(own)))

    assert [deviation.what for deviation in read.deviations] == ["Active Range and AR Amount", "specification file"]


# -- --set ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rounds.maximum=7", ("rounds.maximum", 7)),
        (" rounds.maximum = 7 ", ("rounds.maximum", 7)),
        ("rounds.point_seconds=0.4", ("rounds.point_seconds", 0.4)),
        ("setup.write_cache=enabled", ("setup.write_cache", "enabled")),
        ('setup.write_cache="enabled"', ("setup.write_cache", "enabled")),
        ("rounds.block_sizes_kib=[4, 0.5]", ("rounds.block_sizes_kib", [4, 0.5])),
        ("a=b=c", ("a", "b=c")),
        ("a=1\nb=2", ("a", "1\nb=2")),
        ("a=" + "[" * 5000, ("a", "[" * 5000)),
        ("a=" + "1" * 5000, ("a", "1" * 5000)),
    ],
    ids=lambda value: "value",
)
def test_override_is_read(text: str, expected: tuple[str, Any]) -> None:
    """KEY=VALUE is read as TOML, or as a text if it is not valid TOML."""
    assert parse_override(text) == expected


@pytest.mark.parametrize("text", ["", "=", "rounds.maximum", "rounds.maximum=", "=7", " = "])
def test_an_invalid_override(text: str) -> None:
    """An argument other than KEY=VALUE is refused with an example."""
    with pytest.raises(UsageError) as caught:
        parse_override(text)
    assert "--set rounds.maximum=7" in caught.value.hint


@pytest.mark.parametrize(
    "key", ["rounds.maximun", "maximum", "rounds", "", ".", "rounds.maximum.x", "title", "revision", "a.b.c.d"]
)
def test_override_of_an_unknown_key(key: str) -> None:
    """An unknown key is refused with the most similar key, or with all keys if none is similar."""
    with pytest.raises(SpecError) as caught:
        changed("iops", (key, 7))

    assert f"--set {key}: " in str(caught.value)
    assert "unknown key; " in str(caught.value)
    assert "did you mean" in str(caught.value) or all(known in str(caught.value) for known in numbers("iops"))


@pytest.mark.parametrize(("test", "pts"), FILES)
def test_override_reaches_every_number(test: str, pts: str) -> None:
    """--set can set each number of each file: values of the wrong type are reported with their keys."""
    with pytest.raises(SpecError) as caught:
        changed(test, *((key, {"x": 1}) for key in numbers(test, pts)), pts=pts)

    assert [key for key in numbers(test, pts) if f"\n  {key}: " not in str(caught.value)] == []


def test_override_of_a_number_of_another_version() -> None:
    """A number that only another version has is refused with that version's name."""
    with pytest.raises(SpecError, match=r"--set histogram\.seconds: unknown key of PTS 1\.1; PTS 2\.0\.2 has it"):
        changed("wsat", ("histogram.seconds", 3), pts="1.1")


def test_invalid_overrides_are_reported_together() -> None:
    """All mistakes of all overrides are reported at once, each with key, value and what was expected."""
    overrides = [("rounds.maximum", "many"), ("setup.thread_count", 0), ("rounds.minimum", 1)]
    with pytest.raises(SpecError) as caught:
        changed("iops", *overrides)

    assert "has 3 mistakes" in str(caught.value)
    assert "rounds.maximum: 'many': expected a whole number" in str(caught.value)
    assert "setup.thread_count: 0: expected a number of at least 1" in str(caught.value)
    assert "--set rounds.minimum: unknown key; did you mean " in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rounds.maximum", 4),
        ("rounds.maximum", 0),
        ("rounds.maximum", 1025),
        ("rounds.maximum", True),
        ("rounds.maximum", 7.5),
        ("rounds.maximum", "7"),
        ("rounds.maximum", None),
        ("rounds.read_percents", []),
        ("rounds.read_percents", [0, 0]),
        ("rounds.read_percents", [101]),
        ("rounds.read_percents", 0),
        ("rounds.block_sizes_kib", [4, 4.0]),
        ("rounds.block_sizes_kib", [0.3]),
        ("rounds.block_sizes_kib", [-4]),
        ("rounds.block_sizes_kib", [1024, 64, 8]),
        ("rounds.point_seconds", 0),
        ("rounds.point_seconds", float("nan")),
        ("rounds.point_seconds", float("inf")),
        ("setup.write_cache", "off"),
        ("setup.active_range_percent", 0),
        ("setup.data_pattern", "zero"),
        ("steady_state.window_rounds", 1),
        ("steady_state.window_rounds", 26),
        ("steady_state.data_excursion_percent", 0),
        ("steady_state.tracked", []),
        ("steady_state.tracked", [4]),
        ("steady_state.tracked", [{"metric": "iops", "block_size_kib": 2, "read_percent": 0}]),
        ("steady_state.tracked", [{"metric": "art", "block_size_kib": 4, "read_percent": 0}]),
        ("rounds.maximum", 10**5000),
        ("setup.write_cache", "\udcff"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isascii() else "value",
)
def test_meaningless_values(key: str, value: object) -> None:
    """A value that the test could not run with is refused with its key or the value that it contradicts."""
    with pytest.raises(SpecError) as caught:
        changed("iops", (key, value))

    assert caught.value.exit_code == 3
    assert "expected" in str(caught.value)
    assert len(str(caught.value)) < 1000


ENDLESS: dict[str, tuple[tuple[str, Any], ...]] = {
    "iops": (("rounds.block_sizes_kib", list(range(1, 201))), ("rounds.maximum", 1024)),
    "dirth": (
        ("demand.thread_counts", list(range(1, 41))),
        ("demand.queue_depths", list(range(1, 41))),
        ("demand.maximum", 1024),
    ),
    "wsat": (("settling.sample_seconds", 0.1), ("settling.stride_samples", 1), ("saturation.seconds", 604_800)),
    "hir": (("wait_states.idle_seconds", list(range(1, 12))), ("wait_states.cycles", 100_000)),
    "xsr": (
        ("groups.sample_seconds", 0.1),
        (
            "groups.sequence",
            [
                {
                    "name": f"AG {number}",
                    "access": "SEQ",
                    "read_percent": 0,
                    "block_size_kib": 1024,
                    "seconds": 604_800,
                    "thread_count": 1,
                    "queue_depth": 32,
                }
                for number in range(2)
            ],
        ),
    ),
}


@pytest.mark.parametrize("test", ENDLESS)
def test_a_test_without_an_end_is_refused(test: str) -> None:
    """More points, cycles or samples than can be run, or than a plan can count, are a mistake."""
    with pytest.raises(SpecError, match=r"expected at most 10{5,7} (points|cycles|samples) "):
        changed(test, *ENDLESS[test])


NAMED = {"groups.sequence": "xsr", "patterns": "wsat"}


@pytest.mark.parametrize("name", ["", "x" * 41, "a\nb", "a\0b", "\u202egroup", "\u2028", "\x1b[31m"])
@pytest.mark.parametrize("key", NAMED)
def test_a_name_is_a_short_line_of_letters(key: str, name: str) -> None:
    """Text of titles, headings and figures cannot contain line breaks, hidden characters or direction overrides."""
    test = NAMED[key]
    value = numbers(test)[key]
    with pytest.raises(SpecError, match=rf"{key} 1\.name: .*expected a short line of printable letters"):
        changed(test, (key, [{**value[0], "name": name}, *value[1:]]))


@pytest.mark.parametrize("key", ["title", "subtitle", "publication", "revision"])
def test_a_title_is_a_short_line_of_letters(key: str, tmp_path: Path) -> None:
    """The same holds for a file's own title."""
    own = {**table(), key: "x" * 121}

    assert mistakes(written(tmp_path, toml_document(own))) == [
        f"{key}: {'x' * 80!r}: expected a short line of printable letters"
    ]


# -- bad files ------------------------------------------------------------------------------------------------------


def test_every_mistake_is_reported_at_once(tmp_path: Path) -> None:
    """For a file with a mistake of every kind, the message has file, key, value and what was expected for each."""
    own = table()
    own["format"] = 2
    own["colour"] = "red"
    own["setup"]["thread_count"] = {"value": "four", "clause": "x"}
    own["setup"]["queue_depth"] = {"value": 32, "enterprise": 32, "clause": "x"}
    own["setup"]["active_range_percent"] = {"client": 75, "clause": "x"}
    own["setup"]["data_pattern"] = "random"
    own["preconditioning"]["capacities"] = {"value": 2}
    own["preconditioning"]["block_size_kib"]["binding"] = "perhaps"
    own["rounds"]["point_seconds"]["source"] = "x"
    own["rounds"]["maximum"]["value"] = -1
    own["rounds"]["day"] = {"value": 1, "clause": "x"}
    own["rounds"]["maximun"] = {"value": 1, "clause": "x"}
    own["rounds"]["a.b"] = {"value": 1, "clause": "x"}
    own["departures"] = [{"what": "x"}, 7]
    del own["steady_state"]["tracked"]

    assert sorted(mistakes(written(tmp_path, toml_document(own)))) == sorted(
        [
            "format: expected 1, the only supported format",
            "colour: unknown key",
            "setup.thread_count: 'four': expected a whole number",
            "setup.queue_depth: expected either value, or enterprise and client",
            "setup.active_range_percent: expected a value for the class enterprise",
            "setup.active_range_percent: None: expected a whole number",
            "setup.data_pattern: 'random': expected a table with a value and its clause",
            "preconditioning.capacities: expected the clause of the standard that the value follows",
            "preconditioning.block_size_kib: binding 'perhaps': expected required, recommended or operator",
            "rounds.point_seconds.source: unknown key",
            "rounds.maximum: -1: expected a number of at least 1",
            "rounds.day: unknown key",
            "rounds.maximun: unknown key; did you mean maximum?",
            "rounds.a.b: expected a name without a dot",
            "departures 1: expected what, standard, actual, clause, and optionally class",
            "departures 2: expected what, standard, actual, clause, and optionally class",
            "steady_state.tracked: missing key",
        ]
    )


def test_dates_and_nan_are_reported_with_their_key(tmp_path: Path) -> None:
    """Values that TOML allows and the standard does not are reported together with other mistakes."""
    text = (SPECS / "iops-2.0.2.toml").read_text(encoding="utf-8")
    text = text.replace("maximum = { value = 25", "maximum = { value = 1979-05-27")
    text = text.replace("point_seconds = { value = 60", "point_seconds = { value = nan")
    text = text.replace("capacities = { value = 2", "capacities = { value = 0")

    assert sorted(line.split(":")[0] for line in mistakes(written(tmp_path, text))) == [
        "preconditioning.capacities",
        "rounds.maximum",
        "rounds.point_seconds",
    ]


@pytest.mark.parametrize(
    ("test", "pts", "mistake"),
    [
        ("latency", "2.0.2", "test: 'latency': expected 'iops'; run its own test"),
        ("iops", "1.1", "pts: '1.1': expected '2.0.2'; choose its version with --pts"),
    ],
)
def test_a_file_of_another_test_or_version_is_refused(test: str, pts: str, mistake: str, tmp_path: Path) -> None:
    """Its numbers would be reported as those of the chosen test and version."""
    assert mistakes(written(tmp_path, toml_document(table(test, pts)))) == [mistake]


def test_departure_with_a_mistyped_class(tmp_path: Path) -> None:
    """A departure whose class is mistyped is a mistake, and is not ignored."""
    own = table("iops", "1.1")
    own["departures"][0]["class"] = "cleint"

    assert mistakes(written(tmp_path, toml_document(own)), pts="1.1") == [
        "departures 1: expected what, standard, actual, clause, and optionally class"
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\x01\x02",
        b"\xff\xfe",
        b"\x7fELF\x02\x01\x01\x00",
        b"format = ",
        b"[setup",
        b"format = 1",
        b"setup = 1\n'setup.x' = 2",
        b"a = " + b"[" * 10_000,
        b"a" + b".a" * 2000 + b" = 1",
        b"a = " + b"{a = " * 10_000,
        b"a = " + b"1" * 10_000,
        b"[setup]\na = 0x" + b"f" * 10_000,
        b"[setup]\na = {value = 0x" + b"f" * 10_000 + b", clause = 'x'}",
        b"a = [" + b"[" * 250 + b"]" * 250 + b"]",
        b"\xef\xbb\xbfformat = 1",
        b"format = 1\rtest = 2",
    ],
    ids=lambda content: "content",
)
def test_invalid_files_are_refused(tmp_path: Path, content: bytes) -> None:
    """Binary, truncated, deeply nested and very long files are refused in lines that name the file."""
    path = tmp_path / "own.toml"
    path.write_bytes(content)

    assert mistakes(path)


def test_paths_without_a_file_are_refused(tmp_path: Path) -> None:
    """A folder, a missing file, a path below a file and an invalid path are refused in a line with their name."""
    (tmp_path / "file").touch()

    assert mistakes(tmp_path / "missing.toml") == ["no such file"]
    for path in (tmp_path, tmp_path / "file" / "x", tmp_path / ("x" * 300), tmp_path / "a\0b"):
        assert mistakes(path)[0].startswith("not readable as TOML: ")


def test_unknown_version_or_test() -> None:
    """A version or test without a file is refused."""
    with pytest.raises(SpecError, match="no such file"):
        read_specification("iops", "9.9", "enterprise")
    with pytest.raises(SpecError, match="no such file"):
        read_specification("nonsense", "2.0.2", "enterprise")


def read_or_refuse(test: str, **how: Any) -> Specification | SpecError:
    """Read a specification; a SpecError, but no other exception, is valid too."""
    try:
        return read_specification(test, "2.0.2", "enterprise", **how)
    except SpecError as error:
        return error


@st.composite
def broken_tables(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a bundled file in which up to three values are replaced by arbitrary ones."""
    own = table(*draw(st.sampled_from(FILES)))
    for _ in range(draw(st.integers(0, 3))):
        place: Any = own
        while True:
            key = draw(st.sampled_from(sorted(place)))
            if not isinstance(place[key], dict) or not place[key] or draw(st.booleans()):
                break
            place = place[key]
        place[key] = draw(toml_values())
    return own


@pytest.mark.long
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(TESTS),
    broken_tables() | st.dictionaries(st.text(st.characters(codec="ascii"), max_size=5), toml_values()),
)
def test_any_table_is_read_or_refused(tmp_path: Path, test: str, table: dict[str, Any]) -> None:
    """Any TOML file gives a specification or a SpecError."""
    test = table["test"] if table.get("test") in TESTS else test
    path = written(tmp_path, toml_document(table))
    assert tomllib.loads(path.read_text(encoding="utf-8")).keys() == table.keys()
    read = read_or_refuse(test, path=path)

    if isinstance(read, SpecError):
        assert str(path) in str(read)
    else:
        assert "specification file" in [deviation.what for deviation in read.deviations]


@given(st.sampled_from(KEYS), toml_values() | st.text())
def test_any_override_is_read_or_refused(place: tuple[str, str, str], value: object) -> None:
    """Any argument of --set gives a specification or a SpecError."""
    test, _, key = place
    read = read_or_refuse(test, overrides=[(key, value)])

    assert isinstance(read, Specification) or "mistake" in str(read)


def similar(value: Any) -> st.SearchStrategy[Any]:
    """Draw values of the same shape, with numbers that may be meaningless."""
    if isinstance(value, dict):
        return st.fixed_dictionaries({name: similar(item) for name, item in value.items()})
    if isinstance(value, list):
        items = st.sampled_from(value).flatmap(similar)
        return st.just(value) | st.lists(items, max_size=4)
    if isinstance(value, str):
        return st.just(value) | st.text(max_size=4)
    return st.just(value) | st.integers(-1, 130) | st.sampled_from([0.5, 0.25, 1e9])


@given(st.data())
def test_every_difference_is_reported(data: st.DataObject) -> None:
    """Each difference from the standard is a deviation or a setting, and never both."""
    test, pts, key = data.draw(st.sampled_from(KEYS))
    value = data.draw(similar(numbers(test, pts)[key]))
    read = read_or_refuse(test, overrides=[(key, value)])
    assume(isinstance(read, Specification))
    assert isinstance(read, Specification)

    assert bool(read.deviations) + bool(read.settings) == (read.spec != changed(test).spec)
    assert all(
        deviation.standard and deviation.actual and deviation.standard != deviation.actual
        for deviation in read.deviations
    )


@given(st.text())
def test_any_text_is_an_override_or_refused(text: str) -> None:
    """No argument of --set fails in another way."""
    try:
        key, _ = parse_override(text)
    except UsageError:
        return
    assert key == text.partition("=")[0].strip()


@pytest.mark.parametrize("target", ["fifo", "/dev/zero", "sparse"])
def test_a_special_file_is_no_specification(target: str, tmp_path: Path) -> None:
    """A file that cannot be read to its end in limited time and memory is refused at once."""
    special(tmp_path / "mine.toml", target)

    with pytest.raises(SpecError, match=r"it is (not a regular file|larger than 1 MiB)"):
        read_specification("iops", "2.0.2", "enterprise", path=tmp_path / "mine.toml")
