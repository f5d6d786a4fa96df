"""Values for tests: all Hypothesis strategies, and small functions that make the values from which they are built."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time
from functools import cache
from itertools import product
from typing import Any

from hypothesis import strategies as st

from snia_pts.model.dut import Dut
from snia_pts.model.histogram import Histogram
from snia_pts.model.measurement import (
    NO_TRANSFERS,
    MeasuredRound,
    Measurement,
    PurgeOutcome,
    Sample,
    Timing,
    Transfers,
)
from snia_pts.model.steps import Cell, Stimulus
from snia_pts.model.telemetry import BlockStatistics, TelemetrySample
from snia_pts.spec import SPEC_TYPES, PatternSpec, SteadyStateRule, TestClass, loop_rule
from snia_pts.spec.reader import Specification, read_specification
from snia_pts.units import GB, KIB

TESTS = tuple(SPEC_TYPES)
CLASSES: tuple[TestClass, ...] = ("enterprise", "client")
VERSIONS = ("2.0.2", "1.1")
#: Every test with every version and class.
EVERY = tuple(product(TESTS, VERSIONS, CLASSES))


@cache
def standard(test: str = "iops", pts: str = "2.0.2", test_class: TestClass = "enterprise") -> Specification:
    """Return the standard's specification of a test."""
    return read_specification(test, pts, test_class)


def spec_of(test: str, pts: str = "2.0.2", test_class: TestClass = "enterprise", **changes: Any) -> Any:
    """Return a test's specification with changes, whose keys have ``__`` for the dot: ``rounds__maximum=7``.

    By default the rule decides steady state as written, however little the assumed drive has written.
    """
    spec = standard(test, pts, test_class).spec
    written = altered(spec, settling__minimum_fills=0.0) if isinstance(spec, PatternSpec) else spec
    return altered(written, **changes)


def altered(spec: Any, **changes: Any) -> Any:
    """Return a specification, or a section of one, with changes."""
    inner: dict[str, dict[str, Any]] = {}
    here: dict[str, Any] = {}
    for key, value in changes.items():
        section, _, rest = key.partition("__")
        if rest:
            inner.setdefault(section, {})[rest] = value
        else:
            here[section] = value
    return replace(spec, **here, **{name: altered(getattr(spec, name), **its) for name, its in inner.items()})


def rule() -> SteadyStateRule:
    """Return the standard's steady state rule, with the IOPS test's tracked variables."""
    found = loop_rule(standard().spec)
    assert found is not None
    return found


def dut(**changes: Any) -> Dut:
    """Return a device, by default a drive of 960 GB with 512-byte sectors."""
    facts: dict[str, Any] = {
        "path": "/dev/sdx",
        "kind": "drive",
        "model": "ACME 960",
        "serial": "S1",
        "firmware": "1.0",
        "bus": "SATA",
        "capacity_bytes": 960 * GB,
        "logical_sector_bytes": 512,
        "physical_sector_bytes": 4096,
        "rotational": False,
        "write_cache": "disabled",
        "discard": True,
    }
    return Dut(**{**facts, **changes})


def stimulus(read_percent: int = 0, block_size_kib: float = 4, **changes: Any) -> Stimulus:
    """Return a stimulus of one minute."""
    facts: dict[str, Any] = {
        "access": "RND",
        "read_percent": read_percent,
        "block_size_bytes": int(block_size_kib * KIB),
        "thread_count": 4,
        "queue_depth": 32,
        "range_offset_bytes": 0,
        "range_bytes": 960 * GB,
        "seconds": 60.0,
    }
    return Stimulus(**{**facts, **changes})


def transfers(ios: int = 1000, **changes: Any) -> Transfers:
    """Return ``ios`` I/Os of 4 KiB in one second."""
    facts: dict[str, Any] = {
        "ios": ios,
        "transferred_bytes": ios * 4 * KIB,
        "runtime_ms": 1000,
        "response_min_ns": 1,
        "response_mean_ns": 1000.0,
        "response_max_ns": 2000,
        "histogram": Histogram(),
    }
    return Transfers(**{**facts, **changes})


CLOCKING = Timing(started="", started_monotonic_ns=0, ended_monotonic_ns=1, suite_gap_us=None, idle_gap_ms=None)
PURGED = PurgeOutcome(method="supposed", samples=4, survivors=0, started="", seconds=1.0, evidence="")


def measurement(
    request: Stimulus | None = None, *, read: Transfers = NO_TRANSFERS, write: Transfers = NO_TRANSFERS
) -> Measurement:
    """Return a measurement of a stimulus from reads and writes."""
    return Measurement(
        stimulus=request or stimulus(), seed=1, read=read, write=write, timing=CLOCKING, evidence="", evidence_sha256=""
    )


def sample(number: int = 1, write_ios: int = 1000, **changes: Any) -> Sample:
    """Return a sample of one minute with these writes of 4 KiB."""
    facts: dict[str, Any] = {
        "number": number,
        "ended_seconds": 60.0 * number,
        "seconds": 60.0,
        "read_ios": 0,
        "write_ios": write_ios,
        "read_bytes": 0,
        "write_bytes": write_ios * 4 * KIB,
        "average_response_us": 10.0,
        "maximum_response_us": 20.0,
        "three_nines_us": None,
        "four_nines_us": None,
        "five_nines_us": None,
    }
    return Sample(**{**facts, **changes})


def vitals(**changes: Any) -> TelemetrySample:
    """Return a second of telemetry, by default without any known value."""
    facts: dict[str, Any] = {
        "seconds": 1.0,
        "cpu_percent": None,
        "busiest_cpu_percent": None,
        "block": None,
        "celsius": None,
        "throttlings": None,
        "link_errors": None,
    }
    return TelemetrySample(**{**facts, **changes})


def block_statistics(**changes: Any) -> BlockStatistics:
    """Return the block statistics of a second, by default a thousand writes of 4 KiB."""
    facts: dict[str, Any] = {
        "read_ios": 0,
        "write_ios": 1000,
        "read_bytes": 0,
        "write_bytes": 1000 * 4 * KIB,
        "queue": 30.0,
        "busy_percent": 99.0,
        "write_merges": 7,
        "write_ms": 900,
        "device": "sda",
    }
    return BlockStatistics(**{**facts, **changes})


def measured_round(number: int, ios: Mapping[Cell, int], *, complete: bool = True) -> MeasuredRound:
    """Return a round of writes in which each cell took one second."""
    return MeasuredRound(
        number=number,
        measurements=tuple(
            measurement(stimulus(cell.read_percent, cell.block_size_bytes / KIB), write=transfers(done))
            for cell, done in ios.items()
        ),
        complete=complete,
    )


def cells(tracked_by: SteadyStateRule) -> tuple[Cell, ...]:
    """Return the cells that a rule tracks, in its order."""
    return tuple(
        Cell(read_percent=tracked.read_percent or 0, block_size_bytes=tracked.block_size_bytes or 0)
        for tracked in tracked_by.tracked
    )


@st.composite
def series(draw: st.DrawFn, rounds: int = 25) -> list[int]:
    """Draw a variable's values: varying for some rounds and constant afterwards, or always varying."""
    wild_rounds = draw(st.integers(0, rounds + 4))
    wild = st.sampled_from([80, 90, 100, 110, 120, 500]) | st.integers(1, 10**6)
    calm = st.sampled_from([100, 100, 100, 105, 110, 95, 90])
    return [draw(wild if number < wild_rounds else calm) for number in range(rounds)]


#: Never steady in any window.
WILD = [100, 1000] * 12 + [100]


def positive_values(size: int = 5) -> st.SearchStrategy[list[float]]:
    """Draw windows of positive values: each of any magnitude, or near one magnitude as measured ones are."""
    wild = st.lists(st.floats(min_value=1e-6, max_value=1e12), min_size=size, max_size=size)
    shares = st.lists(st.floats(min_value=0.85, max_value=1.15), min_size=size, max_size=size)
    magnitudes = st.floats(min_value=1e-3, max_value=1e9)
    near = st.builds(lambda unit, parts: [unit * part for part in parts], magnitudes, shares)
    return wild | near


def histograms() -> st.SearchStrategy[Histogram]:
    """Draw histograms of a few bins."""
    bins = st.dictionaries(st.integers(1, 10**10), st.integers(0, 10**6), max_size=8)
    return bins.map(lambda counted: Histogram.from_bins(tuple(sorted(counted.items()))))


def toml_values() -> st.SearchStrategy[Any]:
    """Draw anything that a TOML value can be."""
    texts = st.text(st.characters(codec="utf-8"), max_size=8)
    leaves = st.one_of(
        st.integers(-(2**70), 2**70),
        st.floats(),
        st.booleans(),
        texts,
        st.dates(),
        st.datetimes(),
        st.times(),
        st.sampled_from([0, 1, 100, 4.0, 0.5, "random", "disabled", "required", "2.0.2", [4, 64]]),
    )
    names = texts | st.sampled_from(["value", "clause", "enterprise", "binding", "setup", "rounds", "tracked", "a.b"])
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=8
    )


def toml(value: Any) -> str:
    """Return a value as TOML, tables inline."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml(key)} = {toml(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def toml_document(table: Mapping[str, Any]) -> str:
    """Return a table as the text of a TOML file."""
    return "".join(f"{toml(str(key))} = {toml(entry)}\n" for key, entry in table.items())
