"""The report's tables about host or drive: how many points the host set, and what it can do on a null target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ...model.host_ceiling import Ceiling, Shape
from ...results.result import TestResult
from ...units import block_size, counted
from ..tables import NOT_APPLICABLE, Column, Table, facts, thousands


def host_tables(result: TestResult) -> Iterator[Table]:
    """Give what tells whose numbers the points are; nothing of a simulated drive, or of what another tool measured."""
    if result.facts.dut.simulated or result.facts.imported:
        return
    ceilings, cpus = result.facts.ceilings, result.facts.platform.cpus
    rows = [("Points judged", _judged(result)), *_reasons(result)]
    if not ceilings:
        rows.append(
            (
                "Ceiling of the host",
                "not calibrated: the test is too short for it, or fio was not believed on the null target",
            )
        )
    yield facts(rows, title="Host or drive?")
    if ceilings and cpus:
        yield _ceilings(ceilings, cpus)


def _verdicts(result: TestResult) -> Iterator[bool | None]:
    """Give the verdicts on the points of all windows, and on the continuous stimuli."""
    for loop in result.loops:
        yield from result.host_limited_points(loop).values()
    for line in result.separate_lines:
        if line.phase != "WIPC" and line.measurements:
            yield result.host_limited(line.measurements)


def _judged(result: TestResult) -> str:
    found = Counter(_verdicts(result))
    if not found.total():
        return NOT_APPLICABLE
    words = ((True, "set by the host"), (False, "not set by the host"), (None, "cannot be told"))
    return f"{counted(found.total(), 'point')}: {', '.join(f'{found[each]} {word}' for each, word in words)}"


def _reasons(result: TestResult) -> Iterator[tuple[str, str]]:
    """Give why the measurements that do not speak for the drive do not, the most frequent reasons first."""
    found: dict[bool | None, Counter[str]] = {True: Counter(), None: Counter()}
    for loop in result.loops:
        for each in (each for measured in result.evaluated_rounds(loop) for each in measured.measurements):
            share = result.host_share(each)
            if share is not None and share.limited in found:
                found[share.limited].update(share.reasons)
    for verdict, name in ((True, "Signs of the host"), (None, "Why it cannot be told")):
        why = (f"{reason} ({counted(count, 'measurement')})" for reason, count in found[verdict].most_common())
        if told := "; ".join(why):
            yield name, told


def _ceilings(ceilings: Sequence[Ceiling], cpus: int) -> Table:
    """Return what was calibrated; a shape of many demands is one row, from the least to the most."""
    grouped: dict[tuple[str, str], list[Ceiling]] = {}
    for each in ceilings:
        grouped.setdefault(_named(each.shape), []).append(each)
    columns = (
        Column(heading="Null target", width=28),
        Column(heading="TC/QD", width=20),
        Column(heading="Engine's CPU time for an I/O (us)", align="right", width=26),
        Column(heading=f"IOPS of this host ({counted(cpus, 'CPU')})", align="right", width=26),
    )
    rows = tuple(
        (
            f"{name} {size}".strip(),
            _span(sorted({(each.shape.thread_count, each.shape.queue_depth) for each in group})),
            _range([each.cost_us for each in group], 2),
            _range([each.max_iops(cpus) for each in group], 0),
        )
        for (name, size), group in grouped.items()
    )
    return Table(kind="numbers", columns=columns, rows=rows, title="Ceiling of the host, without a drive")


def _named(shape: Shape) -> tuple[str, str]:
    sizes = shape.block_size_bytes
    if sizes is None:
        return f"{shape.access} reads, any size", ""
    return f"{shape.access} writes,", block_size(sizes) if isinstance(sizes, int) else "composite"


def _span(demands: Sequence[tuple[int, int]]) -> str:
    first, last = demands[0], demands[-1]
    return " - ".join(dict.fromkeys(f"T{threads}Q{depth}" for threads, depth in (first, last)))


def _range(values: Sequence[float], decimals: int) -> str:
    return " - ".join(dict.fromkeys(thousands(each, decimals) for each in (min(values), max(values))))
