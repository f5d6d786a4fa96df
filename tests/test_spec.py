"""The standard as data: what the bundled files say, what bad files are told, what counts as a deviation."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from snia_pts.errors import SpecError, UsageError
from snia_pts.spec import TestClass, Tracked
from snia_pts.specfile import SPECS, Specification, parse_override, read_specification, shown, versions
from tests.strategies import CLASSES, VERSIONS, iops_spec, standard, toml_document, toml_values

EVERY = [(pts, test_class) for pts in VERSIONS for test_class in CLASSES]
WRITE_4K = Tracked(metric="iops", block_size_kib=4, read_percent=0)
MIXED_64K = Tracked(metric="iops", block_size_kib=64, read_percent=65)
READ_1024K = Tracked(metric="iops", block_size_kib=1024, read_percent=100)

#: Another valid value of every number of the specification.
OTHERS: dict[str, Any] = {
    "setup.write_cache": "enabled",
    "setup.active_range_percent": 50,
    "setup.thread_count": 8,
    "setup.queue_depth": 64,
    "preconditioning.block_size_kib": 256,
    "preconditioning.capacities": 1,
    "preconditioning.active_range_percent": 75,
    "preconditioning.thread_count": 2,
    "preconditioning.queue_depth": 16,
    "rounds.read_percents": [0, 5, 35, 50, 65, 95, 100],
    "rounds.block_sizes_kib": [0.5, 4, 8, 16, 32, 64, 128, 1024],
    "rounds.point_seconds": 10,
    "rounds.maximum": 5,
    "steady_state.window_rounds": 4,
    "steady_state.data_excursion_percent": 25,
    "steady_state.slope_excursion_percent": 12.5,
    "steady_state.tracked": [{"metric": "iops", "block_size_kib": 8, "read_percent": 0}],
}


def table(pts: str = "2.0.2") -> dict[str, Any]:
    """Return a bundled specification file as a table."""
    return tomllib.loads((SPECS / f"iops-{pts}.toml").read_text(encoding="utf-8"))


def leaves(entry: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every table of a file that holds no further table, with its dotted key."""
    for name, child in entry.items():
        if isinstance(child, dict):
            if any(isinstance(grandchild, dict) for grandchild in child.values()):
                yield from leaves(child, f"{prefix}{name}.")
            else:
                yield prefix + name, child


def mistakes(path: Path) -> list[str]:
    """Return the lines that the operator is told about a bad file, each of which names the file."""
    with pytest.raises(SpecError) as caught:
        read_specification("iops", "2.0.2", "enterprise", path=path)
    lines = str(caught.value).splitlines()

    count = len(lines) - 1
    assert lines[0] == f"The specification {path} has {count} mistake{'s' * (count != 1)}:"
    assert all(line.startswith(f"  {path}: ") for line in lines[1:])
    return [line.removeprefix(f"  {path}: ") for line in lines[1:]]


def written(folder: Path, text: str) -> Path:
    """Write a specification file."""
    path = folder / "own.toml"
    path.write_text(text, encoding="utf-8")
    return path


# -- the standard's numbers -----------------------------------------------------------------------------------------


def test_versions_are_newest_first() -> None:
    """The suite knows 2.0.2 and 1.1."""
    assert versions("iops") == VERSIONS
    assert versions("nonsense") == ()


@pytest.mark.parametrize("pts", VERSIONS)
def test_every_number_has_its_clause(pts: str) -> None:
    """Each leaf of a bundled file says which clause it follows, in the words of its version."""
    found = dict(leaves(table(pts)))

    assert OTHERS.keys() <= found.keys()
    assert [key for key, leaf in found.items() if not leaf["clause"].strip()] == []
    assert [key for key, leaf in found.items() if key != "revision" and pts not in leaf["clause"]] == []


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_loop_is_the_standard_s(pts: str, test_class: TestClass) -> None:
    """7 mixes by 8 block sizes in the standard's order, a minute each, 25 rounds at most, in all four."""
    rounds = standard(pts, test_class).spec.rounds

    assert rounds.read_percents == (100, 95, 65, 50, 35, 5, 0)
    assert rounds.block_sizes_kib == (1024, 128, 64, 32, 16, 8, 4, 0.5)
    assert rounds.block_sizes_bytes == (1048576, 131072, 65536, 32768, 16384, 8192, 4096, 512)
    assert rounds.point_seconds == 60
    assert rounds.maximum == 25


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_preconditioning_is_the_standard_s(pts: str, test_class: TestClass) -> None:
    """WIPC is 128 KiB writes of twice the capacity over 100 % of the LBAs, in the client class too."""
    wipc = standard(pts, test_class).spec.preconditioning

    assert (wipc.block_size_bytes, wipc.capacities, wipc.active_range_percent) == (131072, 2, 100)


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_steady_state_rule_is_the_standard_s(pts: str, test_class: TestClass) -> None:
    """Five rounds, 20 %, 10 %; 2.0.2 tracks three variables, 1.1 the first of them."""
    rule = standard(pts, test_class).spec.steady_state

    assert (rule.window_rounds, rule.data_excursion_percent, rule.slope_excursion_percent) == (5, 20, 10)
    assert rule.tracked == ((WRITE_4K, MIXED_64K, READ_1024K) if pts == "2.0.2" else (WRITE_4K,))


@pytest.mark.parametrize(
    ("pts", "test_class", "expected"),
    [
        ("2.0.2", "enterprise", ("PTS-E 2.0.2", "disabled", 100, 4, 32)),
        ("2.0.2", "client", ("PTS-C 2.0.2", "enabled", 75, 2, 16)),
        ("1.1", "enterprise", ("PTS-E 1.1", "disabled", 100, 4, 32)),
        ("1.1", "client", ("PTS-C 1.1", "enabled", 100, 2, 16)),
    ],
)
def test_classes_differ(pts: str, test_class: TestClass, expected: tuple[object, ...]) -> None:
    """Write cache, ActiveRange, thread count and queue depth of each version and class."""
    spec = standard(pts, test_class).spec
    setup = spec.setup

    assert expected == (
        spec.revision, setup.write_cache, setup.active_range_percent, setup.thread_count, setup.queue_depth,
    )  # fmt: skip
    assert setup.data_pattern == "random"
    assert spec.pts == pts


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_standard_does_not_deviate_from_itself(pts: str, test_class: TestClass) -> None:
    """Only PTS-C 1.1 begins with a deviation: its four combinations of ActiveRange and AR Amount are not run."""
    expected = ["Active Range and AR Amount"] if (pts, test_class) == ("1.1", "client") else []

    assert [deviation.what for deviation in standard(pts, test_class).deviations] == expected


# -- changed numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", OTHERS)
def test_changed_number_is_a_deviation(key: str) -> None:
    """Each number that differs from the standard is one deviation with its clause, unless it is the operator's."""
    leaf = dict(leaves(table()))[key]
    changed = read_specification("iops", "2.0.2", "enterprise", overrides=[(key, OTHERS[key])])

    if leaf.get("binding") == "operator":
        assert changed.deviations == ()
    else:
        (deviation,) = changed.deviations
        assert deviation.what == key
        assert deviation.clause == leaf["clause"]
        unit = {"seconds": " s", "percent": " %", "percents": " %", "kib": " KiB"}.get(key.rpartition("_")[2], "")
        assert deviation.actual == shown(OTHERS[key]) + unit
        assert deviation.standard.endswith("(recommended)") == (leaf.get("binding") == "recommended")


def test_operator_s_choice_depends_on_the_version() -> None:
    """1.1 leaves thread count and queue depth to the operator, 2.0.2 recommends them."""
    overrides = [("setup.thread_count", 8), ("setup.queue_depth", 64)]

    assert read_specification("iops", "1.1", "enterprise", overrides=overrides).deviations == ()
    assert len(read_specification("iops", "2.0.2", "enterprise", overrides=overrides).deviations) == 2


def test_deviation_reads_well() -> None:
    """A deviation says in plain words what the standard asks and what was done."""
    changed = read_specification(
        "iops", "2.0.2", "enterprise", overrides=[("rounds.point_seconds", 0.4), ("setup.thread_count", 8)]
    )

    assert [(deviation.what, deviation.standard, deviation.actual) for deviation in changed.deviations] == [
        ("setup.thread_count", "4 (recommended)", "8"),
        ("rounds.point_seconds", "60 s", "0.4 s"),
    ]
    assert shown([{"metric": "iops", "read_percent": 0}, {"metric": "x"}]) == "metric=iops read_percent=0, metric=x"


@pytest.mark.parametrize("key", OTHERS)
def test_repeating_the_standard_is_no_deviation(key: str) -> None:
    """Saying the standard's own value again changes nothing."""
    section, name = key.split(".")
    value = json.loads(json.dumps(asdict(standard().spec)))[section][name]
    again = read_specification("iops", "2.0.2", "enterprise", overrides=[(key, value)])

    assert again == standard()


def test_override_takes_effect() -> None:
    """A changed number is in the specification, and the standard's own value stays."""
    changed = read_specification("iops", "2.0.2", "client", overrides=[("rounds.maximum", 7)])

    assert changed.spec.rounds.maximum == 7
    assert standard("2.0.2", "client").spec.rounds.maximum == 25


def test_own_file_is_a_deviation(tmp_path: Path) -> None:
    """A file of one's own deviates as a whole and in each number that differs, whatever binding it claims."""
    own = table()
    own["rounds"]["maximum"] = {"value": 7, "binding": "operator", "clause": "mine"}
    path = written(tmp_path, toml_document(own))
    read = read_specification("iops", "2.0.2", "enterprise", path=path)

    assert [(deviation.what, deviation.actual) for deviation in read.deviations] == [
        ("rounds.maximum", "7"),
        ("specification file", str(path)),
    ]


def test_own_file_keeps_the_suite_s_departures(tmp_path: Path) -> None:
    """What the suite does not do of PTS-C 1.1 stays a deviation when a file of one's own does not mention it."""
    own = table("1.1")
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
    """KEY=VALUE is read as TOML, and as a text where it is none."""
    assert parse_override(text) == expected


@pytest.mark.parametrize("text", ["", "=", "rounds.maximum", "rounds.maximum=", "=7", " = "])
def test_no_override(text: str) -> None:
    """What is not KEY=VALUE is refused with an example."""
    with pytest.raises(UsageError) as caught:
        parse_override(text)
    assert "--set rounds.maximum=7" in caught.value.hint


@pytest.mark.parametrize(
    "key", ["rounds.maximun", "maximum", "rounds", "", ".", "rounds.maximum.x", "title", "a.b.c.d"]
)
def test_override_of_an_unknown_key(key: str) -> None:
    """A key that no number has is refused with all that there are."""
    with pytest.raises(SpecError) as caught:
        read_specification("iops", "2.0.2", "enterprise", overrides=[(key, 7)])

    assert f"--set {key}: expected one of " in str(caught.value)
    assert all(known in str(caught.value) for known in OTHERS)


def test_wrong_overrides_are_told_together() -> None:
    """All mistakes of all overrides are told at once, each with key, value and what was expected."""
    overrides = [("rounds.maximum", "many"), ("setup.thread_count", 0), ("rounds.minimum", 1)]
    with pytest.raises(SpecError) as caught:
        read_specification("iops", "2.0.2", "enterprise", overrides=overrides)

    assert "has 3 mistakes" in str(caught.value)
    assert "rounds.maximum: 'many': expected a valid integer" in str(caught.value)
    assert "setup.thread_count: 0: expected greater than or equal to 1" in str(caught.value)
    assert "--set rounds.minimum: expected one of" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rounds.maximum", 4), ("rounds.maximum", 0), ("rounds.maximum", 1025), ("rounds.maximum", True),
        ("rounds.maximum", 7.5), ("rounds.maximum", "7"), ("rounds.maximum", None), ("rounds.read_percents", []),
        ("rounds.read_percents", [0, 0]), ("rounds.read_percents", [101]), ("rounds.read_percents", 0),
        ("rounds.block_sizes_kib", [4, 4.0]), ("rounds.block_sizes_kib", [0.3]), ("rounds.block_sizes_kib", [-4]),
        ("rounds.block_sizes_kib", [1024, 64, 8]), ("rounds.point_seconds", 0), ("rounds.point_seconds", float("nan")),
        ("rounds.point_seconds", float("inf")), ("setup.write_cache", "off"), ("setup.active_range_percent", 0),
        ("setup.data_pattern", "zero"), ("steady_state.window_rounds", 1), ("steady_state.window_rounds", 26),
        ("steady_state.data_excursion_percent", 0), ("steady_state.tracked", []), ("steady_state.tracked", [4]),
        ("steady_state.tracked", [{"metric": "iops", "block_size_kib": 2, "read_percent": 0}]),
        ("steady_state.tracked", [{"metric": "art", "block_size_kib": 4, "read_percent": 0}]),
        ("rounds.maximum", 10**5000), ("setup.write_cache", "\udcff"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isascii() else "value",
)  # fmt: skip
def test_meaningless_values(key: str, value: object) -> None:
    """A value that the test could not run with is refused, in a sentence with its key or what it has to fit."""
    with pytest.raises(SpecError) as caught:
        read_specification("iops", "2.0.2", "enterprise", overrides=[(key, value)])

    assert caught.value.exit_code == 3
    assert "expected" in str(caught.value)
    assert len(str(caught.value)) < 1000


# -- bad files ------------------------------------------------------------------------------------------------------


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    """A file with a mistake of every kind is told all of them, with file, key, value and what was expected."""
    own = table()
    own["format"] = 2
    own["colour"] = "red"
    own["setup"]["thread_count"] = {"value": "four", "clause": "x"}
    own["setup"]["queue_depth"] = {"value": 32, "enterprise": 32, "clause": "x"}
    own["setup"]["active_range_percent"] = {"client": 75, "clause": "x"}
    own["setup"]["data_pattern"] = "random"
    own["preconditioning"]["capacities"] = {"value": 2}
    own["preconditioning"]["queue_depth"]["binding"] = "perhaps"
    own["preconditioning"]["thread_count"]["source"] = "x"
    own["rounds"]["maximum"]["value"] = -1
    own["rounds"]["day"] = {"value": 1, "clause": "x"}
    own["rounds"]["a.b"] = {"value": 1, "clause": "x"}
    own["departures"] = [{"what": "x"}, 7]
    del own["steady_state"]["tracked"]

    assert sorted(mistakes(written(tmp_path, toml_document(own)))) == sorted(
        [
            "format: expected 1 (this suite reads no other)",
            "colour: expected no such key",
            "setup.thread_count: 'four': expected a valid integer",
            "setup.queue_depth: expected either value, or enterprise and client",
            "setup.active_range_percent: expected a value for the class enterprise",
            "setup.active_range_percent: None: expected a valid integer",
            "setup.data_pattern: 'random': expected a table with a value and its clause",
            "preconditioning.capacities: expected the clause it follows",
            "preconditioning.queue_depth: binding 'perhaps': expected required, recommended or operator",
            "preconditioning.thread_count.source: expected no such key",
            "rounds.maximum: -1: expected greater than or equal to 1",
            "rounds.day: expected no such key",
            "rounds.a.b: expected a name without a dot",
            "departures.0: expected what, standard, actual, clause, and perhaps class",
            "departures.1: expected what, standard, actual, clause, and perhaps class",
            "steady_state.tracked: expected this key",
        ]
    )


def test_dates_and_nan_are_told_with_their_key(tmp_path: Path) -> None:
    """Values that TOML knows and the standard does not are told beside other mistakes, not instead of them."""
    text = (SPECS / "iops-2.0.2.toml").read_text(encoding="utf-8")
    text = text.replace("maximum = { value = 25", "maximum = { value = 1979-05-27")
    text = text.replace("point_seconds = { value = 60", "point_seconds = { value = nan")
    text = text.replace("capacities = { value = 2", "capacities = { value = 0")

    assert [line.split(":")[0] for line in mistakes(written(tmp_path, text))] == [
        "preconditioning.capacities",
        "rounds.point_seconds",
        "rounds.maximum",
    ]


def test_departure_of_a_mistyped_class(tmp_path: Path) -> None:
    """A departure whose class is mistyped is a mistake, and does not vanish."""
    own = table("1.1")
    own["departures"][0]["class"] = "cleint"

    assert mistakes(written(tmp_path, toml_document(own))) == [
        "departures.0: expected what, standard, actual, clause, and perhaps class"
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\x00\x01\x02", b"\xff\xfe", b"\x7fELF\x02\x01\x01\x00", b"format = ", b"[setup", b"format = 1",
        b"setup = 1\n'setup.x' = 2", b"a = " + b"[" * 10_000, b"a" + b".a" * 2000 + b" = 1",
        b"a = " + b"{a = " * 10_000, b"a = " + b"1" * 10_000, b"[setup]\na = 0x" + b"f" * 10_000,
        b"[setup]\na = {value = 0x" + b"f" * 10_000 + b", clause = 'x'}", b"a = [" + b"[" * 250 + b"]" * 250 + b"]",
        b"\xef\xbb\xbfformat = 1", b"format = 1\rtest = 2",
    ],
    ids=lambda content: "content",
)  # fmt: skip
def test_files_that_are_no_specification(tmp_path: Path, content: bytes) -> None:
    """Binary, cut off, absurdly deep and absurdly long files are refused in lines that name the file."""
    path = tmp_path / "own.toml"
    path.write_bytes(content)

    assert mistakes(path)


def test_places_that_are_no_file(tmp_path: Path) -> None:
    """A folder, a missing file, a file below a file and a name that cannot be are refused in a line with their name."""
    (tmp_path / "file").touch()

    assert mistakes(tmp_path / "missing.toml") == ["no such file"]
    for path in (tmp_path, tmp_path / "file" / "x", tmp_path / ("x" * 300), tmp_path / "a\0b"):
        assert mistakes(path)[0].startswith("not readable as TOML: ")


def test_unknown_version_or_test() -> None:
    """A version or a test that there is no file for is refused."""
    with pytest.raises(SpecError, match="no such file"):
        read_specification("iops", "9.9", "enterprise")
    with pytest.raises(SpecError, match="no such file"):
        read_specification("nonsense", "2.0.2", "enterprise")


def read_or_refuse(**how: Any) -> Specification | SpecError:
    """Read a specification; a SpecError, and no other exception, is an answer too."""
    try:
        return read_specification("iops", "2.0.2", "enterprise", **how)
    except SpecError as error:
        return error


@st.composite
def broken_tables(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a bundled file with up to three values replaced by anything at all."""
    own = table(draw(st.sampled_from(VERSIONS)))
    for _ in range(draw(st.integers(0, 3))):
        place: Any = own
        while True:
            key = draw(st.sampled_from(sorted(place)))
            if not isinstance(place[key], dict) or not place[key] or draw(st.booleans()):
                break
            place = place[key]
        place[key] = draw(toml_values())
    return own


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=broken_tables() | st.dictionaries(st.text(st.characters(codec="ascii"), max_size=5), toml_values()))
def test_any_table_is_read_or_refused(tmp_path: Path, table: dict[str, Any]) -> None:
    """Whatever a TOML file holds, it is a specification or a SpecError."""
    path = written(tmp_path, toml_document(table))
    assert tomllib.loads(path.read_text(encoding="utf-8")).keys() == table.keys()
    read = read_or_refuse(path=path)

    if isinstance(read, SpecError):
        assert str(path) in str(read)
    else:
        assert "specification file" in [deviation.what for deviation in read.deviations]


@given(st.sampled_from(sorted(OTHERS)), toml_values() | st.text())
def test_any_override_is_read_or_refused(key: str, value: object) -> None:
    """Whatever --set is given, it is a specification or a SpecError."""
    read = read_or_refuse(overrides=[(key, value)])

    assert isinstance(read, Specification) or "expected" in str(read)


@given(st.text())
def test_any_text_is_an_override_or_refused(text: str) -> None:
    """There is no argument of --set that fails in another way."""
    try:
        key, _ = parse_override(text)
    except UsageError:
        return
    assert key == text.partition("=")[0].strip()


def test_makers_of_the_tests_agree() -> None:
    """The tests' own maker of specifications changes what it is told to."""
    assert iops_spec(rounds__maximum=9).rounds.maximum == 9
