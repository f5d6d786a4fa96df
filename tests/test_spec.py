"""The standard's numbers: what the bundled files contain for every test, and values with which no test could run."""

from __future__ import annotations

import json
import pkgutil
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from snia_pts.errors import SpecError
from snia_pts.spec import (
    SPEC_TYPES,
    DemandSpec,
    HostIdleSpec,
    LatencySpec,
    PatternSpec,
    RoundsSpec,
    Spec,
    TestClass,
    ThroughputSpec,
    WriteSaturationSpec,
    loop_rule,
    settling_rule,
)
from snia_pts.spec.reader import SPECS, definitions, read_specification, versions
from tests.strategies import CLASSES, VERSIONS

TESTS = ("iops", "throughput", "latency", "wsat", "hir", "xsr", "composite", "dirth")
EVERY = tuple(product(TESTS, VERSIONS, CLASSES))

# -- the standard, written down a second time -------------------------------------------------------------------------

SETUP = {"write_cache": "disabled", "active_range_percent": 100, "data_pattern": "random"}
WINDOW = {"window_rounds": 5, "data_excursion_percent": 20, "slope_excursion_percent": 10}
SETTLING = {
    **WINDOW,
    "tracked": [{"metric": "iops"}],
    "sample_seconds": 60,
    "first_sample": 1,
    "stride_samples": 30,
    "minimum_fills": 1,
}
WIPC = {"capacities": 2, "thread_count": 1, "queue_depth": 32}
WRITES = {"name": "write-intensive", "access": "RND", "read_percent": 0, "block_sizes": [{"kib": 4, "percent": 100}]}
OLTP = {"name": "oltp", "access": "RND", "read_percent": 65, "block_sizes": [{"kib": 8, "percent": 100}]}
VOD = {"name": "vod", "access": "SEQ", "read_percent": 90, "block_sizes": [{"kib": 128, "percent": 100}]}
META = {"name": "meta-data", "access": "SEQ", "read_percent": 50, "block_sizes": [{"kib": 0.5, "percent": 100}]}
MIX = {0.5: 4, 1: 1, 1.5: 1, 2: 1, 2.5: 1, 3: 1, 3.5: 1, 4: 67, 8: 10, 16: 7, 32: 3, 64: 3}
SKEW = [(50, 5), (30, 15), (20, 80)]
COMPOSITE = {
    "name": "composite",
    "access": "RND",
    "read_percent": 40,
    "block_sizes": [{"kib": kib, "percent": percent} for kib, percent in MIX.items()],
    "skew": [{"access_percent": accesses, "range_percent": lbas} for accesses, lbas in SKEW],
}
DEMAND = {
    "setup": SETUP,
    "settling": SETTLING,
    "conditioning": {"maximum": 25, "read_percent": 0, "thread_count": 32, "queue_depth": 32},
    "demand": {
        "pre_write_seconds": 300,
        "thread_counts": [32, 16, 8, 6, 4, 2, 1],
        "queue_depths": [32, 16, 8, 6, 4, 2, 1],
        "order": "total-oio",
        "point_seconds": 60,
        "maximum": 25,
    },
    "steady_state": {**WINDOW, "tracked": [{"metric": "iops", "thread_count": 32, "queue_depth": 32}]},
    "operating_points": {
        "maximum_art_ms": 5,
        "tolerance_percent": 2,
        "pre_write_seconds": 3600,
        "histogram_seconds": 600,
    },
}


def group(number: int, access: str, block_size_kib: float, hours: int, thread_count: int = 1) -> dict[str, Any]:
    """Return an access group of cross stimulus recovery: writes at Queue Depth 32."""
    return {
        "name": f"AG {number}",
        "access": access,
        "read_percent": 0,
        "block_size_kib": block_size_kib,
        "seconds": 3600 * hours,
        "thread_count": thread_count,
        "queue_depth": 32,
    }


#: PTS-E 2.0.2.
STANDARD: Mapping[str, dict[str, Any]] = {
    "iops": {
        "setup": {**SETUP, "thread_count": 4, "queue_depth": 32},
        "preconditioning": {"block_size_kib": 128, "capacities": 2},
        "rounds": {
            "read_percents": [100, 95, 65, 50, 35, 5, 0],
            "block_sizes_kib": [1024, 128, 64, 32, 16, 8, 4, 0.5],
            "point_seconds": 60,
            "maximum": 25,
        },
        "steady_state": {
            **WINDOW,
            "tracked": [
                {"metric": "iops", "read_percent": 0, "block_size_kib": 4},
                {"metric": "iops", "read_percent": 65, "block_size_kib": 64},
                {"metric": "iops", "read_percent": 100, "block_size_kib": 1024},
            ],
        },
    },
    "throughput": {
        "setup": {**SETUP, "thread_count": 1, "queue_depth": 32},
        "preconditioning": WIPC,
        "rounds": {"read_percents": [100, 0], "block_sizes_kib": [1024, 128], "point_seconds": 60, "maximum": 25},
        "steady_state": {**WINDOW, "tracked": [{"metric": "mb_per_second", "read_percent": 0}]},
    },
    "latency": {
        "setup": {**SETUP, "thread_count": 1, "queue_depth": 1},
        "preconditioning": {"block_size_kib": 128, **WIPC},
        "rounds": {"read_percents": [100, 65, 0], "block_sizes_kib": [8, 4, 0.5], "point_seconds": 60, "maximum": 25},
        "steady_state": {
            **WINDOW,
            "tracked": [{"metric": "average_response_ms", "read_percent": 0, "block_size_kib": 4}],
        },
        "histogram": {"seconds": 1200, "read_percent": 0, "block_size_kib": 4, "thread_count": 1, "queue_depth": 1},
    },
    "wsat": {
        "setup": {**SETUP, "thread_count": 4, "queue_depth": 32},
        "stimulus": {"name": "write-intensive"},
        "patterns": [WRITES, OLTP, VOD, META, COMPOSITE],
        "settling": SETTLING,
        "saturation": {"capacities": 4, "seconds": 6 * 3600, "until_steady": True},
        "histogram": {"seconds": 1200, "read_percent": 0, "block_size_kib": 4, "thread_count": 4, "queue_depth": 32},
    },
    "hir": {
        "setup": {**SETUP, "thread_count": 4, "queue_depth": 32},
        "stimulus": {"name": "write-intensive"},
        "patterns": [WRITES],
        "settling": SETTLING,
        "conditioning": {"maximum": 25},
        "wait_states": {
            "access_a_seconds": 5,
            "idle_seconds": [5, 10, 15, 25, 50],
            "cycles": 360,
            "access_c_seconds": 1800,
            "access_c_sample_seconds": 5,
        },
    },
    "xsr": {
        "setup": SETUP,
        "groups": {
            "sample_seconds": 60,
            "sequence": [group(1, "SEQ", 1024, 8), group(2, "RND", 8, 6), group(3, "SEQ", 1024, 8)],
        },
    },
    "composite": {"stimulus": {"name": "composite"}, "patterns": [COMPOSITE], **DEMAND},
    "dirth": {"stimulus": {"name": "oltp"}, "patterns": [OLTP, WRITES, VOD, META, COMPOSITE], **DEMAND},
}

#: The exceptions of a test, version or class: (test, version, class), key, value; ``None`` is any, or no such key.
OTHERWISE: tuple[tuple[tuple[str | None, str | None, str | None], str, Any], ...] = (
    ((None, None, "client"), "setup.write_cache", "enabled"),
    ((None, "2.0.2", "client"), "setup.active_range_percent", 75),
    *(((test, None, "client"), "setup.thread_count", 2) for test in ("iops", "wsat", "hir")),
    *(((test, None, "client"), "setup.queue_depth", 16) for test in ("iops", "wsat", "hir")),
    (("wsat", "2.0.2", "client"), "histogram.thread_count", 2),
    (("wsat", "2.0.2", "client"), "histogram.queue_depth", 16),
    (("iops", "1.1", None), "steady_state.tracked", [{"metric": "iops", "read_percent": 0, "block_size_kib": 4}]),
    (("throughput", "1.1", "client"), "rounds.block_sizes_kib", [1024]),
    (("latency", "1.1", None), "histogram", None),
    (("wsat", "1.1", None), "histogram", None),
    (("wsat", "1.1", None), "patterns", [WRITES]),
    (("wsat", "1.1", None), "saturation.seconds", 24 * 3600),
    (
        ("xsr", "1.1", None),
        "groups.sequence",
        [
            group(1, "SEQ", 1024, 8),
            group(2, "RND", 8, 6, thread_count=8),
            group(3, "SEQ", 1024, 8),
        ],
    ),
)


def written_down(test: str, pts: str, test_class: TestClass) -> dict[str, Any]:
    """Return a test's numbers as written in this module."""
    numbers: dict[str, Any] = json.loads(json.dumps(STANDARD[test]))
    for where, key, value in OTHERWISE:
        if all(named in (None, own) for named, own in zip(where, (test, pts, test_class), strict=True)):
            *sections, name = key.split(".")
            place = numbers[sections[0]] if sections else numbers
            place.pop(name)
            if value is not None:
                place[name] = value
    return numbers


def without_empty_fields(value: Any) -> Any:
    """Return a specification's fields without the empty ones."""
    if isinstance(value, dict):
        return {name: without_empty_fields(item) for name, item in value.items() if item not in (None, ())}
    return [without_empty_fields(item) for item in value] if isinstance(value, tuple) else value


def spec(test: str, pts: str = "2.0.2", test_class: TestClass = "enterprise", **changes: Any) -> Spec:
    """Return a test's specification with changes, whose keys have ``__`` for the dot."""
    overrides = [(key.replace("__", "."), value) for key, value in changes.items()]
    return read_specification(test, pts, test_class, overrides=overrides).spec


def refused(test: str, *overrides: tuple[str, Any]) -> list[str]:
    """Return the mistakes in ``overrides`` that the error lists."""
    with pytest.raises(SpecError) as caught:
        read_specification(test, "2.0.2", "enterprise", overrides=overrides)
    return [line.removeprefix("  ") for line in str(caught.value).splitlines()[1:]]


# -- the numbers ------------------------------------------------------------------------------------------------------


def test_every_test_of_the_standard_has_both_versions() -> None:
    """There are eight tests, each in 2.0.2 and 1.1, newest first."""
    assert tuple(SPEC_TYPES) == TESTS
    assert [versions(test) for test in TESTS] == [VERSIONS] * 8
    assert versions("nonsense") == ()


@pytest.mark.parametrize(("test", "pts", "test_class"), EVERY)
def test_numbers_are_the_standard_s(test: str, pts: str, test_class: TestClass) -> None:
    """Every number of every test, version and class is the one written down here, and there are no others."""
    read = without_empty_fields(asdict(spec(test, pts, test_class)))
    names = {name: read.pop(name) for name in ("test", "title", "subtitle", "pts", "publication", "revision")}

    assert read == written_down(test, pts, test_class)
    assert (names["test"], names["pts"]) == (test, pts)
    assert names["revision"] == f"PTS-{test_class[0].upper()} {pts}"
    assert f"Specification {pts}" in names["publication"]


def test_titles_are_the_standard_s_short_names() -> None:
    """Each test has the name on its report pages; only the composite workload's name changed with the version."""
    assert [spec(test).title for test in TESTS] == [
        "IOPS",
        "Throughput",
        "Latency",
        "Write Saturation",
        "Host Idle Recovery",
        "Cross Stimulus Recovery",
        "Composite Block Size Workload",
        "Demand Intensity",
    ]
    assert [test for test in TESTS if spec(test).title != spec(test, "1.1").title] == ["composite"]
    assert spec("composite", "1.1").title == "Enterprise Composite Workload"


@pytest.mark.parametrize("test", TESTS)
def test_subtitles_are_distinct(test: str) -> None:
    """No two tests share a subtitle, and none is empty."""
    others = {spec(other).subtitle for other in TESTS if other != test}

    assert spec(test).subtitle not in {"", *others}
    assert spec(test, "1.1").subtitle


@pytest.mark.parametrize(("test", "pts", "test_class"), EVERY)
def test_deviations_at_the_start(test: str, pts: str, test_class: TestClass) -> None:
    """Only PTS-C 1.1 has one: its combinations of ranges are not run, and it lacks five of the tests."""
    deviations = read_specification(test, pts, test_class).deviations

    if (pts, test_class) != ("1.1", "client"):
        assert deviations == ()
    else:
        (deviation,) = deviations
        ranges = test in ("iops", "throughput", "latency")
        assert deviation.what == ("Active Range and AR Amount" if ranges else "The test itself")
        assert "PTS-C 1.1" in deviation.clause


# -- what the numbers add up to ---------------------------------------------------------------------------------------


def composites() -> Iterator[PatternSpec]:
    """Yield every specification that has the composite pattern."""
    for test, pts, test_class in EVERY:
        read = spec(test, pts, test_class)
        if isinstance(read, PatternSpec) and "composite" in [pattern.name for pattern in read.patterns]:
            yield read


def test_composite_pattern_adds_up() -> None:
    """Twelve sizes have shares of 100 % in all, and a skew distributes all accesses over all LBAs."""
    read = list(composites())
    assert len(read) == 2 + 4 + 4
    for item in read:
        pattern = item.patterns[-1]
        assert len(pattern.block_sizes) == 12
        assert sum(size.percent for size in pattern.block_sizes) == 100
        assert [size.size_bytes for size in pattern.block_sizes][:8] == list(range(512, 4097, 512))
        assert sum(zone.access_percent for zone in pattern.skew) == sum(z.range_percent for z in pattern.skew) == 100


@pytest.mark.parametrize(("test", "points"), [("iops", 56), ("throughput", 2), ("latency", 9)])
def test_minutes_of_a_round(test: str, points: int) -> None:
    """A round of IOPS takes 56 minutes, of latency 9, of each throughput test 2."""
    read = spec(test)
    assert isinstance(read, RoundsSpec)
    sizes = read.rounds.block_sizes_bytes if test != "throughput" else (1,)

    assert len(read.rounds.read_percents) * len(sizes) * read.rounds.point_seconds == 60 * points


@pytest.mark.parametrize("test", ["composite", "dirth"])
def test_demands(test: str) -> None:
    """49 demands from 1024 outstanding I/Os down to one; a round takes 54 minutes with its pre-write."""
    read = spec(test)
    assert isinstance(read, DemandSpec)
    loop = read.demand
    demands = {(threads, depth) for threads in loop.thread_counts for depth in loop.queue_depths}

    assert len(demands) == 49
    assert (max(t * q for t, q in demands), min(t * q for t, q in demands)) == (1024, 1)
    assert len(demands) * loop.point_seconds + loop.pre_write_seconds == 54 * 60


@pytest.mark.parametrize("pts", VERSIONS)
def test_wait_states_take_930_minutes(pts: str) -> None:
    """The wait states take 60, 90, 120, 180 and 330 minutes, each followed by 30 minutes of writes."""
    read = spec("hir", pts)
    assert isinstance(read, HostIdleSpec)
    waits = read.wait_states
    minutes = [waits.cycles * (waits.access_a_seconds + idle) / 60 for idle in waits.idle_seconds]

    assert minutes == [60, 90, 120, 180, 330]
    assert sum(minutes) + len(minutes) * waits.access_c_seconds / 60 == 930


@pytest.mark.parametrize("test", ["wsat", "hir", "composite", "dirth"])
def test_samples_used_as_rounds(test: str) -> None:
    """Steady state is first possible after 121 minutes; 25 samples take 721."""
    rule = settling_rule(spec(test))

    assert rule is not None
    assert [rule.samples(rounds) for rounds in range(1, 6)] == [1, 31, 61, 91, 121]
    assert rule.samples(25) == 721


def test_which_tests_have_which_rule() -> None:
    """Five tests have rounds, four a continuous stimulus with a rule, cross stimulus recovery neither."""
    assert [test for test in TESTS if loop_rule(spec(test))] == ["iops", "throughput", "latency", "composite", "dirth"]
    assert [test for test in TESTS if settling_rule(spec(test))] == ["wsat", "hir", "composite", "dirth"]


@pytest.mark.parametrize("name", ["write-intensive", "oltp", "vod", "meta-data", "composite"])
def test_stimulus_is_the_pattern_of_its_name(name: str) -> None:
    """The operator selects the stimulus of write saturation by the name of a pattern."""
    read = spec("wsat", stimulus__name=name)

    assert isinstance(read, WriteSaturationSpec)
    assert read.pattern.name == name


def test_sizes_in_bytes() -> None:
    """A KiB is 1024 bytes in every size."""
    read, other = spec("latency"), spec("throughput")

    assert isinstance(read, LatencySpec)
    assert isinstance(other, ThroughputSpec)
    assert read.histogram is not None
    assert read.rounds.block_sizes_bytes == (8192, 4096, 512)
    assert (read.preconditioning.block_size_bytes, read.histogram.block_size_bytes) == (131072, 4096)
    assert read.steady_state.tracked[0].block_size_bytes == 4096
    assert other.steady_state.tracked[0].block_size_bytes is None


# -- what no test could run with --------------------------------------------------------------------------------------

TWO_SIZES = [{"kib": 4, "percent": 50}, {"kib": 8, "percent": 50}]
TRACKED = "expected each of {}.tracked to have only {}, of a measured point".format


def tracked(**point: Any) -> list[dict[str, Any]]:
    """Return one tracked variable."""
    return [{"metric": "iops", **point}]


@pytest.mark.parametrize(
    ("test", "key", "value", "text"),
    [
        ("iops", "rounds.maximum", 4, "expected rounds.maximum of at least steady_state.window_rounds (5)"),
        ("hir", "conditioning.maximum", 4, "expected conditioning.maximum of at least settling.window_rounds (5)"),
        ("dirth", "demand.maximum", 4, "expected demand.maximum of at least steady_state.window_rounds (5)"),
        ("dirth", "conditioning.maximum", 4, "expected conditioning.maximum of at least settling.window_rounds (5)"),
        (
            "iops",
            "steady_state.tracked",
            tracked(read_percent=0, block_size_kib=2),
            TRACKED("steady_state", "metric and read_percent and block_size_kib"),
        ),
        (
            "latency",
            "steady_state.tracked",
            tracked(read_percent=0),
            TRACKED("steady_state", "metric and read_percent and block_size_kib"),
        ),
        (
            "throughput",
            "steady_state.tracked",
            tracked(read_percent=50),
            TRACKED("steady_state", "metric and read_percent"),
        ),
        (
            "throughput",
            "steady_state.tracked",
            tracked(read_percent=0, block_size_kib=128),
            TRACKED("steady_state", "metric and read_percent"),
        ),
        ("throughput", "steady_state.tracked", tracked(), TRACKED("steady_state", "metric and read_percent")),
        (
            "dirth",
            "steady_state.tracked",
            tracked(thread_count=32),
            TRACKED("steady_state", "metric and thread_count and queue_depth"),
        ),
        (
            "dirth",
            "steady_state.tracked",
            tracked(thread_count=3, queue_depth=32),
            TRACKED("steady_state", "metric and thread_count and queue_depth"),
        ),
        ("wsat", "settling.tracked", tracked(read_percent=0), TRACKED("settling", "metric")),
        (
            "iops",
            "steady_state.tracked",
            2 * tracked(read_percent=0, block_size_kib=4),
            "steady_state: expected steady_state.tracked without repetition",
        ),
        (
            "wsat",
            "stimulus.name",
            "oltpp",
            "expected stimulus.name to be one of write-intensive, oltp, vod, meta-data, composite, not oltpp",
        ),
        ("wsat", "saturation.seconds", 59, "expected saturation.seconds of at least settling.sample_seconds (60)"),
        (
            "hir",
            "wait_states.access_c_seconds",
            4,
            "expected wait_states.access_c_seconds of at least wait_states.access_c_sample_seconds (5)",
        ),
        (
            "xsr",
            "groups.sequence",
            [group(1, "SEQ", 4, 1), {**group(2, "RND", 4, 1), "seconds": 59}],
            "expected groups.sequence 2.seconds of at least groups.sample_seconds (60)",
        ),
        (
            "dirth",
            "demand.pre_write_seconds",
            59,
            "expected demand.pre_write_seconds of at least settling.sample_seconds (60)",
        ),
        (
            "dirth",
            "operating_points.pre_write_seconds",
            59,
            "expected operating_points.pre_write_seconds of at least settling.sample_seconds (60)",
        ),
        ("wsat", "saturation.capacities", 0, "saturation.capacities: 0: expected a number greater than 0"),
        ("wsat", "settling.sample_seconds", 0, "settling.sample_seconds: 0: expected a number of at least 0.1"),
        ("wsat", "settling.stride_samples", 0, "settling.stride_samples: 0: expected a number of at least 1"),
        ("wsat", "settling.first_sample", 0, "settling.first_sample: 0: expected a number of at least 1"),
        ("hir", "wait_states.idle_seconds", [5, 10, 5], "wait_states: expected idle_seconds without repetition"),
        ("hir", "wait_states.idle_seconds", [], "wait_states.idle_seconds: expected at least one entry"),
        ("hir", "wait_states.cycles", 0, "wait_states.cycles: 0: expected a number of at least 1"),
        ("hir", "patterns", [], "patterns: expected at least one entry"),
        ("hir", "patterns", [WRITES, WRITES], "expected patterns without repetition"),
        (
            "hir",
            "patterns",
            [{**WRITES, "block_sizes": TWO_SIZES[:1]}],
            "patterns 1: expected shares of block_sizes that add up to 100",
        ),
        (
            "hir",
            "patterns",
            [{**WRITES, "block_sizes": TWO_SIZES[:1] * 2}],
            "patterns 1: expected block_sizes without repetition",
        ),
        (
            "hir",
            "patterns",
            [{**WRITES, "block_sizes": TWO_SIZES, "access": "SEQ"}],
            "patterns 1: expected block_sizes of one size, for sequential access",
        ),
        (
            "hir",
            "patterns",
            [{**WRITES, "skew": [{"access_percent": 50, "range_percent": 100}]}],
            "patterns 1: expected a skew that adds up to 100 and 100, for random access",
        ),
        (
            "hir",
            "patterns",
            [{**WRITES, "access": "SEQ", "skew": [{"access_percent": 100, "range_percent": 100}]}],
            "patterns 1: expected a skew that adds up to 100 and 100, for random access",
        ),
        ("hir", "patterns", [{**WRITES, "access": "random"}], "patterns 1.access: 'random': expected 'RND' or 'SEQ'"),
        ("hir", "patterns", [{**WRITES, "weight": 1}], "patterns 1.weight: unknown key"),
        ("hir", "patterns", [7], "patterns 1: 7: expected a table"),
        (
            "xsr",
            "groups.sequence",
            [group(1, "SEQ", 4, 1), group(1, "RND", 4, 1)],
            "groups: expected sequence without repetition",
        ),
        ("xsr", "groups.sequence", [{"name": "AG 1"}], "groups.sequence 1.access: missing key"),
        ("xsr", "groups.sample_seconds", -1, "groups.sample_seconds: -1: expected a number of at least 0.1"),
        ("dirth", "demand.thread_counts", [32, 32], "demand: expected thread_counts without repetition"),
        ("dirth", "demand.queue_depths", [], "demand.queue_depths: expected at least one entry"),
        ("dirth", "demand.order", "up", "demand.order: 'up': expected 'total-oio', 'tc-major' or 'qd-major'"),
        (
            "dirth",
            "operating_points.maximum_art_ms",
            0,
            "operating_points.maximum_art_ms: 0: expected a number greater than 0",
        ),
        ("latency", "histogram.block_size_kib", 0.7, "histogram.block_size_kib: 0.7: expected a multiple of 0.5"),
        (
            "latency",
            "histogram.block_size_kib",
            1e-17,
            "histogram.block_size_kib: 1e-17: expected a number of at least 0.5",
        ),
        ("latency", "histogram.seconds", True, "histogram.seconds: true: expected a number"),
        ("throughput", "rounds.read_percents", [0, 0], "rounds: expected read_percents without repetition"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isascii() and len(value) < 40 else "value",
)
def test_meaningless_numbers_are_refused(test: str, key: str, value: object, text: str) -> None:
    """The message for a number that a test could not run with has its key and what was expected."""
    assert refused(test, (key, value))[0] == text


def test_invalid_entries_are_reported_once() -> None:
    """A list with invalid entries is not also called empty."""
    mistaken = [{"metric": "art", "read_percent": 0}]

    assert refused("throughput", ("steady_state.tracked", mistaken)) == [
        "steady_state.tracked 1.metric: 'art': expected 'iops', 'mb_per_second' or 'average_response_ms'"
    ]


# -- the page that tells of them --------------------------------------------------------------------------------------

PAGE = Path(__file__).parent.parent / "docs" / "standard.rst"


def code(name: str) -> Any:
    """Return the object of a dotted name, in the package or in its procedures; None if there is none."""
    for package in ("snia_pts.procedures", "snia_pts"):
        with suppress(ImportError, AttributeError):
            return pkgutil.resolve_name(f"{package}.{name}")
    return None


def test_the_page_maps_every_number_to_code() -> None:
    """docs/standard.rst has every key of every test; other names in its tables are existing code."""
    tables = PAGE.read_text(encoding="utf-8").partition("What tests have in common")[2].partition("How versions")[0]
    listed = set(re.findall(r"``(\w+(?:\.\w+)+|patterns)``", tables))
    keys = {
        f"{section}.{name}" if isinstance(values, dict) else section
        for numbers in STANDARD.values()
        for section, values in numbers.items()
        for name in (values if isinstance(values, dict) else [section])
    }

    assert sorted(keys - listed) == []
    assert sorted(name for name in listed - keys if code(name) is None) == []


def test_definitions_are_the_suites_own() -> None:
    """Each number that the suite defines has a source that says so; these are all of them."""
    tables = tomllib.loads((SPECS / "suite-definitions.toml").read_text())
    clauses = [leaf["clause"] for table in tables.values() if isinstance(table, dict) for leaf in table.values()]
    assert len(clauses) == 12
    assert all(clause.startswith("this suite") for clause in clauses)
    found = definitions()
    assert (found.end.seconds, found.end.percent, found.steady_state.early_fills) == (3600, 25, 2)
    assert (found.recovery.tolerance_percent, found.recovery.dwell_seconds, found.recovery.dwell_percent) == (
        10,
        300,
        25,
    )
    assert (found.consistency.trend_parts, found.consistency.trend_significance_percent) == (10, 1)
    assert found.operating_points.confidence_percent == 95
