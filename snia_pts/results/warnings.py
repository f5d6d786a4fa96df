"""The warnings of a result: facts that a reader must know but that are not deviations from the standard."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from ..analysis.disturbances import (
    clock_changes,
    contradicted_samples,
    disturbances,
    engine_deviations,
    impossible_samples,
    inexact_idle_times,
    point_name,
)
from ..analysis.host_limit import limited_points_sentence, limited_stimuli_sentence
from ..analysis.written_ranges import unwritten_reads_sentence
from ..model.description import contradictions
from ..model.health import alarms, uncounted_io
from ..model.measurement import SHORTEST_RATED_MS, Measurement
from ..model.steps import Stimulus
from ..units import counted, duration
from .imported import claim_disputes
from .result import RunWarning, TestResult

#: The standard specifies no pause between stimuli (PTS 2.0.2 chapter 4); a pause above this may let a drive recover.
_MAX_IDLE_MS = 3000.0


def run_warnings(result: TestResult) -> tuple[RunWarning, ...]:
    """Return all warnings of a result."""
    measurements = list(result.measurements)
    idle_times = [
        (gap.requested_seconds, gap.idle_ms / 1000) for gap in result.gaps if gap.requested_seconds is not None
    ]
    return (
        *_host_limits(result),
        *option_warnings(point.stimulus for loop in result.loops for one in loop.rounds for point in one.measurements),
        *result.facts.warnings,
        *_to_warnings(contradictions(result.facts.dut, result.facts.about)),
        *_claim_disputes(result),
        *result.end_warnings,
        *_resume_changes(result),
        *_to_warnings(clock_changes(measurements)),
        *_purge_remarks(result),
        *_uneven_end(result),
        *_long_samples(result),
        *_unrated_points(result),
        *unwritten_reads(result.unwritten_reads),
        *unmeasured_points(result.facts.spec.unmeasured_points),
        *_pauses(result),
        *_to_warnings(inexact_idle_times(idle_times)),
        *_to_warnings(engine_deviations(measurements)),
        *_to_warnings(disturbances(measurements)),
        *_to_warnings(finding for line in result.time_lines for finding in contradicted_samples(line)),
        *_to_warnings(finding for line in result.time_lines for finding in impossible_samples(line)),
        *_to_warnings(alarms(result.facts.health, result.health_after, interrupted=bool(result.interruptions))),
        *_uncounted_io(result, measurements),
    )


def warning_kinds(result: TestResult) -> str:
    """Return the titles of a run's warnings, with a count if there are several of a kind: ``pause, x (2 times)``."""
    counts = Counter(warning.title for warning in run_warnings(result))
    return ", ".join(what if count == 1 else f"{what} ({count} times)" for what, count in counts.items()) or "none"


def _host_limits(result: TestResult) -> Iterator[RunWarning]:
    """Yield a warning for each loop window that contains host-limited points, and one for all continuous stimuli."""
    limits_with_prefix = [
        (f"{loop.part}: " if loop.part else "", result.host_limited_points(loop)) for loop in result.loops
    ]
    suffix = " of the window"
    if result.facts.spec.rounds_are_repeats:  # Every point is a loop: one warning for all of them.
        limits_with_prefix = [
            ("", {point: limited for _, points in limits_with_prefix for point, limited in points.items()})
        ]
        suffix = ""
    for prefix, points in limits_with_prefix:
        if sentence := limited_points_sentence(points, suffix):
            yield RunWarning(what="host-limited", detail=f"{prefix}{sentence}")
    continuous: dict[tuple[str, str], bool | None] = {
        (line.phase, line.part): result.host_limited(line.measurements)
        for line in result.separate_lines
        if not line.is_fill and line.measurements
    }
    if sentence := limited_stimuli_sentence(continuous):
        yield RunWarning(what="host-limited", detail=sentence)


def _to_warnings(findings: Iterable[tuple[str, str]]) -> Iterator[RunWarning]:
    return (RunWarning(what=what, detail=detail) for what, detail in findings)


def _claim_disputes(result: TestResult) -> Iterator[RunWarning]:
    """Yield a warning for each way in which an imported file's claim of steady state contradicts its first loop."""
    claim = result.facts.imported.claim if result.facts.imported else None
    if claim is not None and result.loops:
        details = claim_disputes(claim, result.loops[0].window)
        yield from _to_warnings(("steady state claimed", detail) for detail in details)


def _resume_changes(result: TestResult) -> Iterator[RunWarning]:
    for interruption in result.interruptions:
        for change in interruption.changes:
            yield RunWarning(what="changed before resume", detail=f"{interruption.resumed}: {change}")


def _purge_remarks(result: TestResult) -> Iterator[RunWarning]:
    for part, outcome in result.purges:
        for remark in outcome.remarks:
            yield RunWarning(what=f"purge of {part}" if part else "purge", detail=remark)


def _uneven_end(result: TestResult) -> Iterator[RunWarning]:
    conclusion, line = result.conclusion, result.time_line("stimulus")
    measured = not (result.facts.imported or result.facts.dut.simulated)
    ended_by_amount = conclusion is not None and conclusion.reason == "written" and measured
    if ended_by_amount and line is not None and line.stimulus.thread_count > 1:
        detail = (
            "the amount to write is divided evenly among the threads; if some threads finished before others, the last "
            f"sample held fewer outstanding I/Os than {line.stimulus.demand.label}"
        )
        yield RunWarning(what="end of the stimulus", detail=detail)


def _long_samples(result: TestResult) -> Iterator[RunWarning]:
    for label in dict.fromkeys(label for label, _ in result.long_samples):
        seconds = [seconds for line, seconds in result.long_samples if line == label]
        detail = (
            f"{counted(len(seconds), 'sample')} of {label} took longer than requested, up to "
            f"{duration(max(seconds))}: the host was suspended or overloaded; such samples are not "
            "evaluated as rounds"
        )
        yield RunWarning(what="long samples", detail=detail)


def _unrated_points(result: TestResult) -> Iterator[RunWarning]:
    """Yield a warning if points were too short for a rate."""
    continuous = [point for line in result.separate_lines if not line.is_fill for point in line.measurements]
    points = [*continuous, *(point for loop in result.loops for round_ in loop.rounds for point in round_.measurements)]
    short = [point for point in points if point.ios and math.isnan(point.iops)]
    if short:
        detail = (
            f"{len(short)} of {counted(len(points), 'point')} lasted less than {SHORTEST_RATED_MS} ms, too short for "
            "the engine's clock of 1 ms: no IOPS and no throughput are given (n/a); "
            f"{'the first is ' if len(short) > 1 else ''}{point_name(short[0])}"
        )
        yield RunWarning(what="too short for a rate", detail=detail)


def _uncounted_io(result: TestResult, measurements: Iterable[Measurement]) -> Iterator[RunWarning]:
    """Yield a warning for each drive counter that increased by less than the test's direct I/O."""
    direct = [measurement for measurement in measurements if not measurement.stimulus.cached]
    findings = uncounted_io(
        result.facts.health,
        result.health_after,
        written_bytes=sum(measurement.write.transferred_bytes for measurement in direct),
        read_bytes=sum(measurement.read.transferred_bytes for measurement in direct),
        interrupted=bool(result.interruptions),
    )
    return _to_warnings(findings)


def unwritten_reads(labels: Collection[str]) -> Iterator[RunWarning]:
    """Yield one warning that lists the stimuli that read unwritten addresses; nothing if ``labels`` is empty."""
    if labels:
        yield RunWarning(what="unwritten addresses", detail=unwritten_reads_sentence(labels))


def unmeasured_points(points: Sequence[str]) -> Iterator[RunWarning]:
    """Yield a warning about points that are omitted because their range has less than a block for each thread."""
    if points:
        count, first = counted(len(points), "point"), _first_phrase(points)
        detail = f"{count} ({first}) not measured: less than one block for each thread"
        yield RunWarning(what="omitted points", detail=detail)


def option_warnings(stimuli: Iterable[Stimulus]) -> Iterator[RunWarning]:
    """Yield a warning about points that use the page cache, and about points that options of the engine limit."""
    points = {stimulus.label: stimulus for stimulus in stimuli}
    cached = [label for label, stimulus in points.items() if stimulus.cached]
    if cached:
        first = _first_phrase(cached)
        detail = (
            f"{len(cached)} of {counted(len(points), 'point')} ({first}) used the page cache of the host: the numbers "
            "are those of the host's memory, or of memory and drive together, not those of the drive"
        )
        yield RunWarning(what="page cache", detail=detail)
    limited = [label for label, stimulus in points.items() if stimulus.limiting_options]
    if limited:
        first, options = _first_phrase(limited), " ".join(points[limited[0]].limiting_options)
        detail = (
            f"{len(limited)} of {counted(len(points), 'point')} ({first}: {options}) had options of fio that limit "
            "the rate, pause between I/Os or wait until fewer I/Os are outstanding: the drive may do more"
        )
        yield RunWarning(what="limited by options", detail=detail)


def _first_phrase(labels: Sequence[str]) -> str:
    return f"the first is {labels[0]}" if len(labels) > 1 else labels[0]


def _pauses(result: TestResult) -> Iterator[RunWarning]:
    if not result.facts.spec.is_standard:  # Only the standard requires points without a gap.
        return
    pauses_ms = [gap.idle_ms for gap in result.gaps if gap.requested_seconds is None and gap.idle_ms > _MAX_IDLE_MS]
    if pauses_ms:
        detail = (
            f"the drive was idle between points {counted(len(pauses_ms), 'time')}, for up to "
            f"{duration(max(pauses_ms) / 1000)}"
        )
        yield RunWarning(what="pause", detail=detail)
