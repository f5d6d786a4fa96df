"""Tables on host or drive: how many points the host limited, and the null-device ceiling of the host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ...model.host_ceiling import EVIDENCE_PREFIX, Ceiling, Shape
from ...model.measurement import Measurement
from ...model.time_series import TimeLine
from ...results.result import TestResult
from ...units import block_size, counted
from ..tables import NOT_APPLICABLE, Column, Table, facts, thousands

#: The most undetermined points that a note names.
_MAX_NAMED = 10


def host_tables(result: TestResult) -> Iterator[Table]:
    """Yield the tables on host limits; none for a simulated drive or an imported run."""
    if result.facts.dut.simulated or result.facts.imported:
        return
    ceilings, cpus = result.facts.ceilings, result.facts.platform.cpus
    rows = [("Points judged", verdict_counts(result)), *_reasons(result)]
    if len(rows) > 1:
        rows.append(
            ("Rule", "a point has the verdict of most of its measurements; without such a majority it is undetermined")
        )
    if not ceilings:
        calibrated = any(file.startswith(EVIDENCE_PREFIX) for file in result.evidence)
        reason = "the results on the null device were rejected" if calibrated else "the test is too short"
        rows.append(("Host ceiling", f"not calibrated: {reason}"))
    yield facts(rows, title="Host or drive?")
    if ceilings and cpus:
        yield _ceilings(ceilings, cpus)


def verdict_counts(result: TestResult) -> str:
    """Return how many points of the windows, and how many continuous stimuli, are limited by the host."""
    points = [verdict for loop in result.loops for verdict in result.host_limited_points(loop).values()]
    lines = [line.measurements for line in result.separate_lines if not line.is_fill and line.measurements]
    stimuli = [result.host_limited(measurements) for measurements in lines]
    if not points and not stimuli:
        return NOT_APPLICABLE
    used = [measurement.stimulus for loop in result.loops for measurement in loop.measurements]
    if not stimuli and all(stimulus.cached for stimulus in used):
        return f"none of {counted(len(points), 'point')} judged, because all I/O passed through the page cache"
    labels = ((True, "host-limited"), (False, _not_limited(result)), (None, "undetermined"))
    parts = [
        f"{count}: {', '.join(f'{Counter(verdicts)[verdict]} {label}' for verdict, label in labels)}"
        for count, verdicts in (
            (counted(len(points), "point"), points),
            (f"{len(stimuli)} continuous {'stimulus' if len(stimuli) == 1 else 'stimuli'}", stimuli),
        )
        if verdicts
    ]
    basis = ["not compared with a host ceiling, the IOPS that this host reaches on a null device"]
    return "; ".join(parts + basis * (False in (*points, *stimuli) and not result.facts.ceilings))


def _not_limited(result: TestResult) -> str:
    """Return the name of the verdict on a point that the host did not limit, as far as is known."""
    return "not host-limited" if result.facts.ceilings else "without a sign of a host limit"


def verdicts_note(
    result: TestResult, verdicts: Mapping[str, bool | None], *, noun: str = "point", marked: bool = False
) -> str:
    """Return the sentences on host limits below a figure or table that shows the results of ``verdicts``, by name.

    ``marked``: the host-limited ones have the mark, which is explained before.  Empty if the host limited none and none
    is undetermined, for a simulated drive and for an imported run.
    """
    limited = sum(verdict is True for verdict in verdicts.values())
    undetermined = [name for name, verdict in verdicts.items() if verdict is None]
    others = len(verdicts) - limited - len(undetermined)
    if result.facts.dut.simulated or result.facts.imported or not (limited or undetermined):
        return ""
    if len(verdicts) == 1:
        return (
            "Limited by the host; the drive may be faster." if limited else "Undetermined whether the host limited it."
        )
    faster = " (the drive may be faster; not marked here)" if limited and not marked else ""
    more = f" and {len(undetermined) - _MAX_NAMED} more" if len(undetermined) > _MAX_NAMED else ""
    names = f" ({', '.join(undetermined[:_MAX_NAMED])}{more})" if undetermined else ""
    unmarked = " or ".join(["undetermined"] * bool(undetermined) + [_not_limited(result)] * bool(others))
    return (
        f"{counted(len(verdicts), noun)}: {limited} host-limited{faster}, {len(undetermined)} undetermined{names}, "
        f"{others} {_not_limited(result)}.{f' No mark: {unmarked}.' if limited and marked and unmarked else ''}"
    )


def line_note(result: TestResult, line: TimeLine) -> str:
    """Return the sentence on host limits below a figure of one continuous stimulus; it may be empty."""
    return verdicts_note(result, {line.part: result.host_limited(line.measurements)}) if line.measurements else ""


def _reasons(result: TestResult) -> Iterator[tuple[str, str]]:
    """Yield the reasons why measurements are host-limited or undetermined, the most frequent first."""
    counts: dict[bool | None, Counter[str]] = {True: Counter(), None: Counter()}
    for measurement in _judged(result):
        share = result.host_share(measurement)
        if share is not None and share.limited in counts:
            counts[share.limited].update(share.reasons)
    for verdict, label in ((True, "Host-limited measurements"), (None, "Undetermined measurements")):
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
