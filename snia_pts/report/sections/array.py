"""The array that was made for a run: its layout and members, and what it should carry beside what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from ...model import raid
from ...model.array import BuiltArray
from ...model.steps import Stimulus, mix
from ...results.result import Loop, TestResult
from ...units import KIB, block_size, capacity
from ..pages import Page, Prose
from ..tables import UNKNOWN, Column, Table, facts, thousands

_SMALL_BYTES = 4 * KIB
_COLUMNS = (
    Column(heading="R/W", width=16),
    Column(heading="Predicted", align="right", width=20),
    Column(heading="Measured", align="right", width=20),
    Column(heading="Measured / predicted", align="right", width=24),
)
_SUPPOSED = (
    "The prediction supposes that all members share the work evenly, that writes are small and random, and that no "
    "cache answers: what a host, a controller or its cache adds or saves shows in the ratio."
)


def array_tables(result: TestResult) -> Iterator[Table]:
    """Give the array's layout, and its members in order; nothing for a single device."""
    array = result.facts.dut.array
    if array is None:
        return
    layout = array.layout
    policies = ", ".join(filter(None, (layout.write_policy, layout.read_policy, layout.io_policy)))
    rows = [
        ("Level, members", f"RAID {layout.level} of {len(array.members)}"),
        ("Chunk", block_size(layout.chunk_bytes) if layout.chunk_bytes else UNKNOWN),
        ("Made by", array.version),
        ("Made as", layout.device),
        ("Policies asked for", policies),
        ("As the controller tells", "; ".join(f"{name}: {value}" for name, value in array.properties)),
    ]
    yield facts(rows, title="Array")
    columns = (
        Column(heading="Member", width=20),
        Column(heading="Model", width=30),
        Column(heading="Serial number", width=22),
        Column(heading="Firmware", width=12),
        Column(heading="Capacity", align="right", width=16),
    )
    members = tuple(
        (
            each.path,
            each.model or UNKNOWN,
            each.serial or UNKNOWN,
            each.firmware or UNKNOWN,
            capacity(each.capacity_bytes),
        )
        for each in array.members
    )
    yield Table(kind="texts", columns=columns, rows=members, title="Members, in their order")


def predicted_iops_page(result: TestResult, loop: Loop) -> Iterator[Page]:
    """Give the 4 KiB row of a test beside what the members' own IOPS let expect; nothing where those are not known."""
    array = result.facts.dut.array
    measured = _means(loop, lambda stimulus: stimulus.block_size_bytes == _SMALL_BYTES, "iops")
    if array is None or array.speeds is None or not measured:
        return
    rows = [(share, array.predicted_iops(share), measured[share]) for share in sorted(measured, reverse=True)]
    source = f"I/Os of the members for a write: {array.layout.array.write_penalty}. IOPS of a member: {_told(array)}."
    yield _page("IOPS, 4 KiB", rows, source)


def predicted_throughput_page(result: TestResult, loops: Sequence[Loop]) -> Iterator[Page]:
    """Give the throughput of the largest blocks beside what the members' own lets expect."""
    array = result.facts.dut.array
    told = array.layout.measured.disk_mb_per_second if array else None
    if array is None or told is None or not loops:
        return
    largest = max(loops, key=lambda loop: max((each.largest_block_bytes for each in _stimuli(loop)), default=0))
    measured = _means(largest, lambda _: True, "mb_per_second")
    predicted = raid.disks_mb_per_second(array.layout.array.data_disks, told)
    rows = [(share, predicted, measured[share]) for share in sorted(measured, reverse=True)]
    if rows:
        count = array.layout.array.data_disks
        source = f"Whole stripes: the data of {count} of its members at once. A member moves {told:g} MB/s."
        yield _page(f"Throughput (MB/s), {largest.part}", rows, source)


def _page(title: str, rows: Sequence[tuple[int, float | None, float]], source: str) -> Page:
    table = Table(
        kind="numbers",
        columns=_COLUMNS,
        title=f"{title}: the array predicted and measured",
        rows=tuple(
            (
                mix(share),
                UNKNOWN if predicted is None else thousands(predicted, 0),
                thousands(measured, 0),
                thousands(measured / predicted, 2) if predicted else UNKNOWN,
            )
            for share, predicted, measured in rows
        ),
    )
    return Page(title="Array - Predicted and Measured", blocks=(table, Prose(text=f"{source} {_SUPPOSED}")))


def _told(array: BuiltArray) -> str:
    if array.speeds is None:
        return UNKNOWN
    known = array.speeds.iops
    values = ", ".join(f"{mix(share)} {thousands(iops, 0)}" for share, iops in sorted(known, reverse=True))
    return f"{thousands(known[0][1], 0) if len(known) == 1 else values} ({array.speeds.source})"


def _stimuli(loop: Loop) -> Iterator[Stimulus]:
    yield from (each.stimulus for measured in loop.window_rounds for each in measured.measurements)


def _means(loop: Loop, fits: Callable[[Stimulus], bool], what: str) -> dict[int, float]:
    """Return the mean over the window by the share of reads, of the points that fit."""
    found: dict[int, list[float]] = {}
    for each in (each for measured in loop.window_rounds for each in measured.measurements):
        if fits(each.stimulus):
            found.setdefault(each.stimulus.read_percent, []).append(getattr(each, what))
    return {share: statistics.fmean(values) for share, values in found.items()}
