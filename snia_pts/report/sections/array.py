"""The array that was created for a run: its layout and members, and predicted against measured performance."""

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
_ASSUMPTIONS = (
    "The prediction assumes that the load is spread evenly over all members, that writes are small and random, and "
    "that there are no cache hits. The ratio shows the effect of the host, the controller and its cache."
)


def array_tables(result: TestResult) -> Iterator[Table]:
    """Yield the tables of the array's layout and of its members in order; none for a single device."""
    array = result.facts.dut.array
    if array is None:
        return
    layout = array.layout
    policies = ", ".join(filter(None, (layout.write_policy, layout.read_policy, layout.io_policy)))
    rows = [
        ("Level, members", f"RAID {layout.level} of {len(array.members)}"),
        ("Chunk", block_size(layout.chunk_bytes) if layout.chunk_bytes else UNKNOWN),
        ("Created by", array.version),
        ("Device", layout.device),
        ("Policies requested", policies),
        ("Reported by the controller", "; ".join(f"{name}: {value}" for name, value in array.properties)),
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
            member.path,
            member.model or UNKNOWN,
            member.serial or UNKNOWN,
            member.firmware or UNKNOWN,
            capacity(member.capacity_bytes),
        )
        for member in array.members
    )
    yield Table(kind="texts", columns=columns, rows=members, title="Members, in order")


def predicted_iops_page(result: TestResult, loop: Loop) -> Iterator[Page]:
    """Yield the page of 4 KiB IOPS, measured and predicted from the members' IOPS; none if those are unknown."""
    array = result.facts.dut.array
    measured = _means(loop, lambda stimulus: stimulus.block_size_bytes == _SMALL_BYTES, "iops")
    if array is None or array.speeds is None or not measured:
        return
    rows = [(share, array.predicted_iops(share), measured[share]) for share in sorted(measured, reverse=True)]
    penalty = array.layout.array.write_penalty
    source = f"Member I/Os per write: {penalty}. IOPS of a member: {_member_iops(array)}."
    yield _page("IOPS, 4 KiB", rows, source)


def predicted_throughput_page(result: TestResult, loops: Sequence[Loop]) -> Iterator[Page]:
    """Yield the page of throughput with the largest blocks, measured and predicted from the members' throughput."""
    array = result.facts.dut.array
    member_mb_per_second = array.layout.measured.disk_mb_per_second if array else None
    if array is None or member_mb_per_second is None or not loops:
        return
    largest = max(loops, key=lambda loop: max((stimulus.largest_block_bytes for stimulus in _stimuli(loop)), default=0))
    measured = _means(largest, lambda _: True, "mb_per_second")
    count = array.layout.array.data_disks
    predicted = raid.disks_mb_per_second(count, member_mb_per_second)
    rows = [(share, predicted, measured[share]) for share in sorted(measured, reverse=True)]
    if rows:
        source = (
            f"Full stripes: data of {count} members in parallel. Throughput of a member: {member_mb_per_second:g} MB/s."
        )
        yield _page(f"Throughput (MB/s), {largest.part}", rows, source)


def _page(title: str, rows: Sequence[tuple[int, float | None, float]], source: str) -> Page:
    table = Table(
        kind="numbers",
        columns=_COLUMNS,
        title=f"{title}: array, predicted and measured",
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
    return Page(title="Array - Predicted and Measured", blocks=(table, Prose(text=f"{source} {_ASSUMPTIONS}")))


def _member_iops(array: BuiltArray) -> str:
    if array.speeds is None:
        return UNKNOWN
    speeds = array.speeds.iops
    values = ", ".join(f"{mix(share)} {thousands(iops, 0)}" for share, iops in sorted(speeds, reverse=True))
    return f"{thousands(speeds[0][1], 0) if len(speeds) == 1 else values} ({array.speeds.source})"


def _stimuli(loop: Loop) -> Iterator[Stimulus]:
    yield from (point.stimulus for window_round in loop.window_rounds for point in window_round.measurements)


def _means(loop: Loop, matches: Callable[[Stimulus], bool], metric: str) -> dict[int, float]:
    """Return the mean over the window of the matching points, by their percentage of reads."""
    values: dict[int, list[float]] = {}
    for window_round in loop.window_rounds:
        for point in window_round.measurements:
            if matches(point.stimulus):
                values.setdefault(point.stimulus.read_percent, []).append(getattr(point, metric))
    return {share: statistics.fmean(group) for share, group in values.items()}
