"""Tables on host or drive: how many points the host limited, and the null-device ceiling of the host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ...model.host_ceiling import EVIDENCE_PREFIX, Ceiling, Shape
from ...model.measurement import Measurement
from ...results.result import TestResult
from ...units import block_size, counted
from ..tables import NOT_APPLICABLE, Column, Table, facts, thousands


def host_tables(result: TestResult) -> Iterator[Table]:
    """Yield the tables on host limits; none for a simulated drive or an imported run."""
    if result.facts.dut.simulated or result.facts.imported:
        return
    ceilings, cpus = result.facts.ceilings, result.facts.platform.cpus
    rows = [("Points judged", verdict_counts(result)), *_reasons(result)]
    if not ceilings:
        calibrated = any(file.startswith(EVIDENCE_PREFIX) for file in result.evidence)
        reason = "the results on the null device were rejected" if calibrated else "the test is too short"
        rows.append(("Host ceiling", f"not calibrated: {reason}"))
    yield facts(rows, title="Host or drive?")
    if ceilings and cpus:
        yield _ceilings(ceilings, cpus)


def _verdicts(result: TestResult) -> Iterator[bool | None]:
    """Yield a verdict (True: host-limited) for each point of the windows and each continuous stimulus."""
    for loop in result.loops:
        yield from result.host_limited_points(loop).values()
    for line in result.separate_lines:
        if not line.is_fill and line.measurements:
            yield result.host_limited(line.measurements)


def verdict_counts(result: TestResult) -> str:
    """Return how many points are limited by the host."""
    counts = Counter(_verdicts(result))
    if not counts.total():
        return NOT_APPLICABLE
    labels = ((True, "host-limited"), (False, "not host-limited"), (None, "undetermined"))
    verdicts = ", ".join(f"{counts[verdict]} {label}" for verdict, label in labels)
    basis = "; judged without a host ceiling" if counts[False] and not result.facts.ceilings else ""
    return f"{counted(counts.total(), 'point')}: {verdicts}{basis}"


def _reasons(result: TestResult) -> Iterator[tuple[str, str]]:
    """Yield the reasons why measurements are host-limited or undetermined, the most frequent first."""
    counts: dict[bool | None, Counter[str]] = {True: Counter(), None: Counter()}
    for measurement in _judged(result):
        share = result.host_share(measurement)
        if share is not None and share.limited in counts:
            counts[share.limited].update(share.reasons)
    for verdict, label in ((True, "Reasons: host-limited"), (None, "Reasons: undetermined")):
        reasons = (f"{reason} ({counted(count, 'measurement')})" for reason, count in counts[verdict].most_common())
        if text := "; ".join(reasons):
            yield label, text


def _judged(result: TestResult) -> Iterator[Measurement]:
    """Yield the measurements of the windows, and of the continuous stimuli that are judged."""
    for loop in result.loops:
        for measured_round in result.evaluated_rounds(loop):
            yield from measured_round.measurements
    for line in result.separate_lines:
        if not line.is_fill:
            yield from line.measurements


def _ceilings(ceilings: Sequence[Ceiling], cpus: int) -> Table:
    """Return the calibrated ceilings: one row per kind of I/O, with the range of its demands."""
    grouped: dict[tuple[str, str], list[Ceiling]] = {}
    for ceiling in ceilings:
        grouped.setdefault(_shape_label(ceiling.shape), []).append(ceiling)
    columns = (
        Column(heading="Null device", width=28),
        Column(heading="TC/QD", width=20),
        Column(heading="Engine CPU time per I/O (\N{MICRO SIGN}s)", align="right", width=26),
        Column(heading=f"Host IOPS ({counted(cpus, 'CPU')})", align="right", width=26),
    )
    rows = tuple(
        (
            f"{name} {size}".strip(),
            _demand_range(sorted({(ceiling.shape.thread_count, ceiling.shape.queue_depth) for ceiling in group})),
            _range([ceiling.cost_us for ceiling in group], 2),
            _range([ceiling.max_iops(cpus) for ceiling in group], 0),
        )
        for (name, size), group in grouped.items()
    )
    return Table(kind="numbers", columns=columns, rows=rows, title="Host ceiling (null device)")


def _shape_label(shape: Shape) -> tuple[str, str]:
    sizes = shape.block_size_bytes
    if sizes is None:
        return f"{shape.access} reads, any size", ""
    return f"{shape.access} writes,", block_size(sizes) if isinstance(sizes, int) else "composite"


def _demand_range(demands: Sequence[tuple[int, int]]) -> str:
    first, last = demands[0], demands[-1]
    return " - ".join(dict.fromkeys(f"T{threads}Q{depth}" for threads, depth in (first, last)))


def _range(values: Sequence[float], decimals: int) -> str:
    return " - ".join(dict.fromkeys(thousands(value, decimals) for value in (min(values), max(values))))
