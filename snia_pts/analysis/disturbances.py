"""Detects what disturbed a test: I/O of other processes, CPU throttling, link errors, clock changes, the engine.

Each function yields (name, sentence) for every disturbance that deserves a warning.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import replace
from itertools import groupby, islice

from ..model.measurement import Measurement, Timing
from ..model.steps import Stimulus
from ..model.telemetry import BlockStatistics, ProcessIo, TelemetrySample
from ..model.time_series import TimeLine
from ..text import without_numbers
from ..units import (
    MB,
    capacity,
    counted,
    distinct_decimals,
    distinct_digits,
    distinct_duration,
    duration,
    number,
)

#: The block layer may count more than the engine by this share of the bytes, or this many bytes, whichever is greater:
#: the kernel itself reads a drive that was just closed.
_FOREIGN_SHARE, _FOREIGN_BYTES = 0.02, 8 * MB
#: The kernel and udev read a drive that was closed or purged, but no more bytes and I/Os than these.
_IDLE_BYTES, _IDLE_IOS = 8 * MB, 500
#: A sample is compared with the kernel's counters if it has at least this many seconds and I/Os.  It is contradicted if
#: both differ by more than this share and by more than the I/O of this time: the suite reads the kernel's counters
#: after fio's.
_JUDGED_SECONDS, _JUDGED_IOS, _SAMPLE_SHARE, _LATE_SECONDS = 1.0, 2000, 0.05, 0.25
#: If the suite reads the kernel's counters too late, by at most this time, two successive samples have opposite
#: differences, which are tolerated.
_LATEST_SECONDS = 5.0
#: Steal time up to this percentage changes a result by a tolerable amount at most (docs/host-limits.rst).
_STOLEN_PERCENT = 10.0
#: Smaller changes of the wall clock are not reported.
_CLOCK_SECONDS = 0.5
#: A stimulus may exceed its time by that of its outstanding I/Os; more than this share is reported.
_OVERRUN_TOLERANCE = 0.05
#: A stimulus may take longer by the suite's clock than by fio's, by this share plus this time, because a busy suite
#: notices the end of the stimulus late.
_CLOCK_SHARE, _LATE_END_SECONDS = 0.05, 1.0
#: A stall: an I/O that takes more than this time, and more than this multiple of the average.
STALL_SECONDS, _STALL_FACTOR = 2.0, 30.0
#: An idle time is reported if it differs from the requested one by more than this share of it.
_IDLE_TOLERANCE = 0.01
#: The threads of a point may start at different times, within this share of its duration; otherwise the point did not
#: have its Thread Count.
_SPREAD_TOLERANCE = 0.01
#: The maximum number of kinds of messages with a warning of their own.
_MAX_MESSAGE_KINDS = 5
#: The maximum number of processes that a warning names.
_MAX_PROCESSES = 5
#: Tolerance of the share of reads: this difference, and this many standard deviations.
_MIX_SHARE, _MIX_DEVIATIONS = 0.002, 3.0


def disturbances(points: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Yield what the kernel's counters report: I/O of other processes, steal time, throttling, link errors."""
    yield from _foreign(
        points,
        foreign_bytes,
        lambda excess: (
            f"the block layer counted more I/O on the drive than the test did; up to {capacity(excess)} more"
        ),
    )
    yield from _foreign(
        points,
        _discarded_bytes,
        lambda discarded: (
            "another program discarded blocks of the drive: its preconditioning is lost, and reads of these blocks "
            f"measure nothing; up to {capacity(discarded)}"
        ),
    )
    yield from _foreign(
        points,
        foreign_ios,
        lambda ios: (
            "the block layer counted reads although the test only wrote, or writes although it only read; "
            f"up to {counted(ios, 'I/O')}"
        ),
    )
    disturbed = [point for point in points if was_disturbed(point.timing)]
    if disturbed:
        worst = max(disturbed, key=lambda point: point.timing.idle_bytes or 0)
        detail = (
            f"before {_of_all(disturbed, points)} the block layer counted I/O on the drive "
            f"while the test left it idle; up to {counted(worst.timing.idle_ios or 0, 'I/O')} and "
            f"{capacity(worst.timing.idle_bytes or 0)}, before {point_name(worst)}"
        )
        yield "other I/O while idle", detail
    yield from _other_processes(points)
    yield from _steal_time(points)
    yield from _kernel_events(
        points, "CPU throttling", "the CPU was throttled because of its temperature", lambda sample: sample.throttlings
    )
    yield from _kernel_events(
        points, "PCIe errors", "the drive's PCIe link reported errors", lambda sample: sample.link_errors
    )


def _foreign(
    points: Sequence[Measurement], amount: Callable[[Measurement], int], sentence: Callable[[int], str]
) -> Iterator[tuple[str, str]]:
    """Yield a warning if other programs did some I/O during points; ``sentence`` is about the largest ``amount``."""
    amounts = [(value, point) for point in points if (value := amount(point))]
    if amounts:
        largest, point = max(amounts, key=lambda pair: pair[0])
        detail = f"in {_of_all(amounts, points)} {sentence(largest)}, in {point_name(point)}"
        yield "other I/O on the drive", detail


def _other_processes(points: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Yield a warning that names the processes with much I/O in points that it may have disturbed.

    The kernel does not account for which device a process used.  So for a drive, the block layer must have counted
    I/O of others in the same point; for a file this cannot be known.
    """
    totals, affected = dict[str, ProcessIo](), list[Measurement]()
    for point in points:
        telemetry = point.telemetry
        if telemetry is None or (telemetry.block and not _has_foreign_io(point)):
            continue
        # A thread of the kernel does I/O for other processes, also for the engine.
        processes = [item for item in telemetry.processes if telemetry.block or not item.name.startswith("[")]
        limit = max(_FOREIGN_BYTES, _FOREIGN_SHARE * (point.read.transferred_bytes + point.write.transferred_bytes))
        if sum(item.bytes for item in processes) > limit:
            affected.append(point)
            for item in processes:
                earlier = totals.get(item.pid)
                totals[item.pid] = item if earlier is None else earlier.plus(item)
    if affected:
        most = sorted(totals.values(), key=lambda item: item.bytes, reverse=True)[:_MAX_PROCESSES]
        names = ", ".join(f"{item.name} (process {item.pid}) {capacity(item.bytes)}" for item in most)
        yield (
            "other processes",
            f"in {_of_all(affected, points)} other processes did I/O, on this or another device: {names}",
        )


def _has_foreign_io(point: Measurement) -> bool:
    """Return whether the block layer counted I/O on the drive that is not the test's."""
    return bool(foreign_bytes(point) or foreign_ios(point) or _discarded_bytes(point))


def was_disturbed(timing: Timing) -> bool:
    """Return whether other programs did I/O on the drive in the idle time before a stimulus."""
    return (timing.idle_bytes or 0) > _IDLE_BYTES or (timing.idle_ios or 0) > _IDLE_IOS


def foreign_bytes(point: Measurement) -> int:
    """Return the bytes that other processes transferred on the drive during a point; 0 if this is not certain.

    I/Os in flight at the end of a point may be counted only by the block layer.  Points with a ramp time or through the
    page cache return 0: the block layer also counts I/O of the ramp time, and writes that the page cache defers.
    """
    block = _point_statistics(point)
    if block is None:
        return 0
    test_bytes = point.read.transferred_bytes + point.write.transferred_bytes
    in_flight = point.stimulus.total_oio * point.stimulus.largest_block_bytes
    excess = block.read_bytes + block.write_bytes - test_bytes - in_flight
    return excess if excess > max(_FOREIGN_BYTES, _FOREIGN_SHARE * test_bytes) else 0


def foreign_ios(point: Measurement) -> int:
    """Return the reads of the drive during a point that only writes, or the writes during one that only reads.

    0 for a few, as in ``was_disturbed``, and for points that ``foreign_bytes`` does not evaluate.
    """
    block, read_percent = _point_statistics(point), point.stimulus.read_percent
    if block is None or read_percent not in (0, 100):
        return 0
    ios = block.write_ios if read_percent else block.read_ios
    return ios if ios > max(_IDLE_IOS, _FOREIGN_SHARE * point.ios) else 0


def _discarded_bytes(point: Measurement) -> int:
    """Return the bytes that other programs discarded during a point; the test itself discards none."""
    return point.telemetry.block.discarded_bytes if point.telemetry and point.telemetry.block else 0


def _point_statistics(point: Measurement) -> BlockStatistics | None:
    """Return the block layer's counters; None if they may include I/O outside the point."""
    if point.stimulus.ramp_seconds or point.stimulus.cached:
        return None
    return point.telemetry.block if point.telemetry else None


def contradicted_samples(line: TimeLine) -> Iterator[tuple[str, str]]:
    """Yield a warning if fio and the kernel count different amounts of I/O in samples, although their totals are equal.

    If the totals differ, the kernel did not count everything, or other processes used the drive: then the samples are
    not compared.
    """
    total, ios = _sum(line.read_bytes, line.write_bytes), _sum(line.read_ios, line.write_ios)
    difference = math.fsum(line.counted_bytes) - total
    if line.stimulus.cached or not ios or not abs(difference) <= max(_FOREIGN_BYTES, _FOREIGN_SHARE * total):
        return
    count, worst = 0, 0
    for differs, run in groupby(range(len(line)), lambda row: _differs(line, row, total / ios)):
        if not differs:
            continue
        rows = list(run)
        rest = math.fsum(_excess_bytes(line, row) for row in rows)
        if len(rows) <= 2 and abs(rest) <= _SAMPLE_SHARE * line.counted_bytes[rows[0]] and _is_short(line, rows[0]):
            continue  # The suite was late once: the two samples have opposite differences.
        worst = max([*rows, worst] if count else rows, key=lambda row: abs(_excess_bytes(line, row)))
        count += len(rows)
    if count:
        detail = (
            f"in {count} of {counted(len(line), 'sample')} of {line.label} the kernel counted another amount of I/O "
            f"than fio, although the totals are equal: {capacity(line.counted_bytes[worst])} instead of "
            f"{capacity(line.read_bytes[worst] + line.write_bytes[worst])} in sample {worst + 1}"
        )
        yield "samples", detail


def impossible_samples(line: TimeLine) -> Iterator[tuple[str, str]]:
    """Yield a warning if the response times of samples add up to more than their outstanding I/Os can have.

    By Little's law, the maximum is the number of outstanding I/Os times the duration of the sample.  More is tolerated
    for I/Os that started before the sample.
    """
    outstanding, sums = line.stimulus.total_oio, list[tuple[float, int]]()
    for row, (seconds, average_us) in enumerate(zip(line.seconds, line.average_response_us, strict=True)):
        sum_seconds = average_us * (line.read_ios[row] + line.write_ios[row]) / 1e6
        possible = seconds * (1 + _SAMPLE_SHARE) + line.maximum_response_us[row] / 1e6 + _LATE_SECONDS
        if sum_seconds > outstanding * possible:
            sums.append((sum_seconds / seconds if seconds else math.inf, row))
    if sums:
        mean, worst = max(sums)
        detail = (
            f"in {len(sums)} of {counted(len(line), 'sample')} of {line.label} the response times add up to more than "
            f"{counted(outstanding, 'outstanding I/O')} can have: to those of {number(mean, digits=4)} in sample "
            f"{worst + 1}"
        )
        yield "samples", detail


def _sum(reads: Iterable[float], writes: Iterable[float]) -> float:
    return math.fsum(reads) + math.fsum(writes)


def _excess_bytes(line: TimeLine, row: int) -> float:
    """Return how much more the kernel counted than fio in a sample."""
    return line.counted_bytes[row] - line.read_bytes[row] - line.write_bytes[row]


def _is_short(line: TimeLine, row: int) -> bool:
    """Return whether the difference in a sample is the I/O of at most ``_LATEST_SECONDS``."""
    greater = max(line.read_bytes[row] + line.write_bytes[row], line.counted_bytes[row])
    return abs(_excess_bytes(line, row)) * line.seconds[row] <= _LATEST_SECONDS * greater


def _differs(line: TimeLine, row: int, mean_bytes: float) -> bool:
    """Return whether the kernel contradicts a sample; I/Os in flight may be counted in a neighboring one."""
    greater, seconds = max(line.read_bytes[row] + line.write_bytes[row], line.counted_bytes[row]), line.seconds[row]
    if seconds < _JUDGED_SECONDS or greater < _JUDGED_IOS * mean_bytes:
        return False
    in_flight = line.stimulus.total_oio * line.stimulus.largest_block_bytes
    tolerance = in_flight + max(_SAMPLE_SHARE, _LATE_SECONDS / seconds) * greater
    return abs(_excess_bytes(line, row)) > tolerance


def point_name(point: Measurement) -> str:
    """Return the stimulus of a measurement with its demand, and its evidence: ``RND 4 KiB 65/35 T2Q16 (00012-...)``."""
    return f"{point.stimulus.label} {point.stimulus.demand.label} ({point.evidence})"


def _percent(value: float, limit: float) -> str:
    """Return a percentage with two digits, or with more if it would look like the ``limit`` that it exceeds."""
    return f"{number(value, digits=distinct_digits((value, limit), least=2))} %"


def _of_all(found: Sized, points: Sized) -> str:
    """Return how many of all measurements were affected: ``2 of 337 measurements``, with those of preconditioning."""
    return f"{len(found)} of {counted(len(points), 'measurement')}"


def _kernel_events(
    points: Sequence[Measurement], name: str, sentence: str, count: Callable[[TelemetrySample], int | None]
) -> Iterator[tuple[str, str]]:
    """Yield a warning if the kernel counted events during points."""
    counts = [times for point in points if point.telemetry and (times := count(point.telemetry))]
    if counts:
        yield name, f"{sentence}: {counted(sum(counts), 'time')}, in {_of_all(counts, points)}"


def _steal_time(points: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Yield a warning if a hypervisor took so much CPU time from the host that results may be affected."""
    shares = [(point.telemetry.stolen_percent or 0.0, point) for point in points if point.telemetry]
    affected = [share for share in shares if share[0] > _STOLEN_PERCENT]
    if affected:
        percent, point = max(affected, key=lambda share: share[0])
        most = _percent(percent, _STOLEN_PERCENT)
        detail = (
            f"a hypervisor took more than {_STOLEN_PERCENT:.0f} % of the host's CPU time in "
            f"{_of_all(affected, points)}; up to {most}, in {point_name(point)}"
        )
        yield "stolen CPU time", detail


def clock_changes(points: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Yield each change of the wall clock."""
    for timing in (point.timing for point in points if abs(point.timing.clock_set_seconds) > _CLOCK_SECONDS):
        change = f"{'forward' if timing.clock_set_seconds > 0 else 'back'} by {abs(timing.clock_set_seconds):.1f} s"
        detail = (
            f"the wall clock was set {change} at about {timing.started}: earlier and later times are not comparable"
        )
        yield "clock", detail


def inexact_idle_times(idle_times: Sequence[tuple[float, float]]) -> Iterator[tuple[str, str]]:
    """Yield a warning for idle times that were too long, and for those that were too short.

    ``idle_times`` are (requested, measured) in seconds; the measured time is an upper bound, see ``Timing``.
    """
    causes = {
        "longer": "the host was suspended, or too busy to continue",
        "shorter": "the drive had less time to recover",
    }
    for word, cause in causes.items():
        sign = 1 if word == "longer" else -1
        errors = [(sign * (actual - requested) / requested, requested, actual) for requested, actual in idle_times]
        errors = [error for error in errors if error[0] > _IDLE_TOLERANCE]
        if errors:
            share, requested, actual = max(errors)
            detail = (
                f"{len(errors)} of {counted(len(idle_times), 'idle time')} were {word} than requested by more than "
                f"{100 * _IDLE_TOLERANCE:g} %, by up to {_percent(100 * share, 100 * _IDLE_TOLERANCE)}: "
                f"{duration(actual)} instead of {duration(requested)}; {cause}"
            )
            yield "idle time", detail


def engine_deviations(points: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Yield what the engine did besides the request: restarts, messages, overruns, clocks, stalls, repeats, mixes."""
    restarted = [point for point in points if point.timing.engine_restarted]
    if restarted:
        detail = (
            f"for {_of_all(restarted, points)} fio exited before its first I/O and was "
            f"restarted without a start signal for its threads, so that the gap before is longer: "
            f"{point_name(restarted[0])}"
        )
        yield "fio restarted", detail + (" was the first" if len(restarted) > 1 else "")
    yield from _messages(points)
    late = [
        (point.runtime_ms / 1000 / point.stimulus.seconds, point)
        for point in points
        if point.stimulus.seconds and point.runtime_ms / 1000 > (1 + _OVERRUN_TOLERANCE) * point.stimulus.seconds
    ]
    if late:
        factor, point = max(late, key=lambda pair: pair[0])
        detail = (
            f"{_of_all(late, points)} took more than {100 * _OVERRUN_TOLERANCE:g} % longer than requested, up to "
            f"{factor:.2f} times the requested time: {duration(point.runtime_ms / 1000)} instead of "
            f"{duration(point.stimulus.seconds or 0)} in {point_name(point)}"
        )
        yield "point duration", detail
    yield from _clocks(points)
    yield from _spreads(points)
    yield from _stalls(points)
    yield from _repeats(points)
    yield from _mixes(points)


def _messages(points: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Yield a warning for each kind of message that fio wrote although its answer is valid.

    Messages of one kind differ in numbers only.  Kinds beyond the maximum are only counted.
    """
    by_kind: dict[str, list[tuple[str, Measurement]]] = {}
    for point in points:
        for message in point.engine_messages:
            by_kind.setdefault(without_numbers(message), []).append((message, point))
    for messages in islice(by_kind.values(), _MAX_MESSAGE_KINDS):
        message, first = messages[0]
        yield (
            "fio's message",
            f"in {_of_all(messages, points)} fio wrote to its standard error: {message}; "
            f"{'the first is ' if len(messages) > 1 else ''}{point_name(first)}",
        )
    if (others := len(by_kind) - _MAX_MESSAGE_KINDS) > 0:
        yield "fio's message", f"evidence/*.process.json has {counted(others, 'other kind')} of messages"


def _clocks(points: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Yield a warning if fio reports a much shorter runtime than the suite measured between start and end of its I/O.

    The last I/Os may end after the runtime.  A fio that was restarted has no known start of its I/O.
    """
    different = []
    for point in points:
        measured = (point.timing.ended_monotonic_ns - point.timing.started_monotonic_ns) / 1e9
        reported = point.stimulus.ramp_seconds + point.runtime_ms / 1000
        excess = measured - reported - point.maximum_response_us / 1e6
        tolerance = _CLOCK_SHARE * measured + _LATE_END_SECONDS
        if excess > tolerance and not (point.reported or point.timing.engine_restarted):
            different.append((measured - reported, measured, reported, point))
    if different:
        _, measured, reported, point = max(different, key=lambda entry: entry[0])
        detail = (
            f"in {_of_all(different, points)} fio's clock disagrees with the suite's: fio "
            f"reports {duration(reported)} of I/O, but {duration(measured)} passed between start and end; "
            f"{point_name(point)}; fio's clock is slow, or the host was too busy to notice the end"
        )
        yield "fio's clock", detail


def _mixes(points: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Yield a warning if R/W mixes deviate.

    Points with the same stimulus are added up first, because the mix that fio chooses for a short point is biased.
    """
    reads, ios = Counter[Stimulus](), Counter[Stimulus]()
    for point in points:
        passes = 1 if point.stimulus.passes else None  # each repeat of a short point has another number of passes
        stimulus = replace(point.stimulus, start_bytes=0, passes=passes, limit_bytes=None)
        reads[stimulus] += point.read.ios
        ios[stimulus] += point.ios
    deviating = []
    for stimulus, total in ios.items():
        requested = stimulus.read_percent / 100
        difference = abs(reads[stimulus] / total - requested) if total else 0.0
        if difference > max(
            _MIX_SHARE, _MIX_DEVIATIONS * math.sqrt(requested * (1 - requested) / total if total else 0.0)
        ):
            deviating.append((difference, stimulus))
    if deviating:
        difference, worst = max(deviating, key=lambda pair: pair[0])
        achieved, decimals = 100 * reads[worst] / ios[worst], distinct_decimals(difference, _MIX_SHARE, least=4) - 2
        detail = (
            f"{len(deviating)} of {counted(len(ios), 'kind')} of points did not have the requested R/W mix, by more "
            f"than {100 * _MIX_SHARE:g} percentage points and more than chance explains; {worst.label} deviated most: "
            f"it had {achieved:.{decimals}f}/{100 - achieved:.{decimals}f} in {ios[worst]} I/Os"
        )
        yield "R/W mix", detail


def _spreads(points: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Yield a warning if threads of a point started apart: their ends were further apart than an I/O takes."""
    apart = []
    for point in points:
        spread_ms = (point.timing.thread_spread_ms or 0.0) - point.maximum_response_us / 1000
        if point.stimulus.seconds and spread_ms > 1000 * _SPREAD_TOLERANCE * point.stimulus.seconds:
            apart.append((spread_ms / point.stimulus.seconds / 10, spread_ms, point))
    if apart:
        percent, spread_ms, point = max(apart, key=lambda entry: entry[0])
        detail = (
            f"in {_of_all(apart, points)} threads started apart by more than "
            f"{100 * _SPREAD_TOLERANCE:g} % of the time of the measurement: fewer I/Os than requested were outstanding "
            f"at its start and end. The worst: {number(spread_ms, digits=3)} ms "
            f"({_percent(percent, 100 * _SPREAD_TOLERANCE)}) in {point_name(point)}"
        )
        yield "threads apart", detail


def _stalls(points: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Yield a warning if an I/O took very long.  It is a result: it is included in the response times."""
    if stalled := _stalled(points):
        longest = max(stalled, key=lambda point: point.maximum_response_us)
        most = distinct_duration(longest.maximum_response_us / 1e6, STALL_SECONDS)
        detail = (
            f"in {_of_all(stalled, points)} an I/O took more than {STALL_SECONDS:g} s and more "
            f"than {_STALL_FACTOR:.0f} times the average; up to {most}, in {point_name(longest)}"
        )
        yield "stall", detail


def _stalled(points: Sequence[Measurement]) -> list[Measurement]:
    return [
        point
        for point in points
        if point.maximum_response_us > max(1e6 * STALL_SECONDS, _STALL_FACTOR * point.average_response_us)
    ]


def longest_io_sentence(points: Sequence[Measurement]) -> str:
    """Return a sentence on the longest I/O if it is longer than the one that the warning of stalls names, else empty.

    A point with a high average may have longer I/Os that are not stalls.
    """
    longest = max(points, key=lambda point: point.maximum_response_us)
    named_us = max((point.maximum_response_us for point in _stalled(points)), default=math.inf)
    if longest.maximum_response_us <= named_us:
        return ""
    took = distinct_duration(longest.maximum_response_us / 1e6, named_us / 1e6)
    return (
        f"The longest I/O of the run, {took} in {point_name(longest)}, is not counted: it took at most "
        f"{_STALL_FACTOR:.0f} times the average there."
    )


def _repeats(points: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Yield the points that were remeasured, and those for which fio did not count some I/Os."""
    for point in points:
        for attempt in point.rejected:
            yield (
                "remeasured",
                f"{point_name(point)}: the previous attempt was rejected ({attempt.evidence}: "
                f"{attempt.reason}). Its {duration(attempt.seconds)} of I/O, and any I/O of the next point that had "
                "started, are additional to the test and in none of its results; all later I/O is delayed by that time",
            )
        if point.uncounted_ios:
            yield (
                "uncounted I/Os",
                f"{point_name(point)}: fio did not count the last "
                f"{counted(point.uncounted_ios, 'I/O')}: they are in none of its results; the point was not repeated, "
                "and the time line is as requested",
            )
