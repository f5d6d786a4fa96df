"""Values for tests: the one home of the Hypothesis strategies, and small makers of the values they are built from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time
from functools import cache
from typing import Any

from hypothesis import strategies as st

from snia_pts.dut import Dut
from snia_pts.measurement import NOTHING, Clocking, Histogram, MeasuredRound, Measurement, Outcome, Purged, Transfers
from snia_pts.spec import IopsSpec, SteadyStateRule, TestClass
from snia_pts.specfile import Specification, read_specification
from snia_pts.steps import Cell, Purge, Round, Step, Stimulus
from snia_pts.units import GB, KIB

CLASSES: tuple[TestClass, ...] = ("enterprise", "client")
VERSIONS = ("2.0.2", "1.1")

#: What a cell of the matrix gives in a round, as I/Os of one second.
Ios = Callable[[Cell, int], int]


@cache
def standard(pts: str = "2.0.2", test_class: TestClass = "enterprise") -> Specification:
    """Return the standard's IOPS specification."""
    return read_specification("iops", pts, test_class)


def iops_spec(pts: str = "2.0.2", test_class: TestClass = "enterprise", **changes: Any) -> IopsSpec:
    """Return the IOPS specification with changes, whose keys have ``__`` for the dot: ``rounds__maximum=7``."""
    overrides = [(key.replace("__", "."), value) for key, value in changes.items()]
    return read_specification("iops", pts, test_class, overrides=overrides).spec


def rule() -> SteadyStateRule:
    """Return the standard's steady state rule."""
    return standard().spec.steady_state


def dut(**changes: Any) -> Dut:
    """Return a device: a drive of 960 GB with 512-byte sectors unless told otherwise."""
    facts: dict[str, Any] = {
        "path": "/dev/sdx", "kind": "drive", "model": "ACME 960", "serial": "S1", "firmware": "1.0", "bus": "SATA",
        "capacity_bytes": 960 * GB, "logical_sector_bytes": 512, "physical_sector_bytes": 4096, "rotational": False,
        "write_cache": "disabled", "discard": True,
    }  # fmt: skip
    return Dut(**{**facts, **changes})


def stimulus(read_percent: int = 0, block_size_kib: float = 4, **changes: Any) -> Stimulus:
    """Return a stimulus of one minute."""
    facts: dict[str, Any] = {
        "access": "RND", "read_percent": read_percent, "block_size_bytes": int(block_size_kib * KIB),
        "thread_count": 4, "queue_depth": 32, "range_offset_bytes": 0, "range_bytes": 960 * GB, "seconds": 60.0,
    }  # fmt: skip
    return Stimulus(**{**facts, **changes})


def transfers(ios: int = 1000, **changes: Any) -> Transfers:
    """Return ``ios`` I/Os of 4 KiB in one second."""
    facts: dict[str, Any] = {
        "ios": ios, "transferred_bytes": ios * 4 * KIB, "runtime_ms": 1000, "response_min_ns": 1,
        "response_mean_ns": 1000.0, "response_max_ns": 2000, "histogram": Histogram(),
    }  # fmt: skip
    return Transfers(**{**facts, **changes})


CLOCKING = Clocking(started="", started_monotonic_ns=0, ended_monotonic_ns=1, own_gap_us=None, idle_gap_ms=None)
PURGED = Purged(method="supposed", samples=4, survivors=0, started="", seconds=1.0, evidence="")


def measurement(asked: Stimulus | None = None, *, read: Transfers = NOTHING, write: Transfers = NOTHING) -> Measurement:
    """Return a measurement of ``asked`` made of reads and writes."""
    return Measurement(
        stimulus=asked or stimulus(), seed=1, read=read, write=write, clocking=CLOCKING, evidence="", evidence_sha256=""
    )


def measured_round(number: int, ios: Mapping[Cell, int], *, complete: bool = True) -> MeasuredRound:
    """Return a round of writes in which each cell did its I/Os in one second."""
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
        Cell(read_percent=tracked.read_percent, block_size_bytes=tracked.block_size_bytes)
        for tracked in tracked_by.tracked
    )


def answering(ios: Ios, asked: list[Step] | None = None) -> Callable[[Step], Iterable[Outcome]]:
    """Return an answer to every step, which notes what was asked for in ``asked``."""

    def answer(step: Step) -> Iterable[Outcome]:
        if asked is not None:
            asked.append(step)
        if isinstance(step, Purge):
            return (PURGED,)
        number = step.number if isinstance(step, Round) else 0
        return tuple(measurement(each, write=transfers(ios(each.cell, number))) for each in step.stimuli)

    return answer


def positive_values(size: int = 5) -> st.SearchStrategy[list[float]]:
    """Windows of positive values: of any magnitude each, or near one common magnitude as measured ones are."""
    wild = st.lists(st.floats(min_value=1e-6, max_value=1e12), min_size=size, max_size=size)
    shares = st.lists(st.floats(min_value=0.85, max_value=1.15), min_size=size, max_size=size)
    magnitudes = st.floats(min_value=1e-3, max_value=1e9)
    near = st.builds(lambda unit, parts: [unit * part for part in parts], magnitudes, shares)
    return wild | near


def histograms() -> st.SearchStrategy[Histogram]:
    """Histograms of a few bins."""
    bins = st.dictionaries(st.integers(1, 10**10), st.integers(0, 10**6), max_size=8)
    return bins.map(lambda counted: Histogram.of(tuple(sorted(counted.items()))))


def toml_values() -> st.SearchStrategy[Any]:
    """Anything a TOML value can be."""
    texts = st.text(st.characters(codec="utf-8"), max_size=8)
    leaves = st.one_of(
        st.integers(-(2**70), 2**70), st.floats(), st.booleans(), texts, st.dates(), st.datetimes(), st.times(),
        st.sampled_from([0, 1, 100, 4.0, 0.5, "random", "disabled", "required", "2.0.2", [4, 64]]),
    )  # fmt: skip
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
