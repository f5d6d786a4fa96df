"""What disturbed a test, as far as it can be told: others at the drive, heat, a bad link, the clock, the engine.

Each gives a name and a sentence for every disturbance that is worth a warning.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ..model.measurement import Measurement
from ..model.steps import Stimulus
from ..model.telemetry import TelemetrySample
from ..units import MB, capacity, counted

#: The block layer's bytes beyond the engine's: so large a share of these, and so much, is more than the kernel's own
#: looks at a drive that was just closed.
_FOREIGN_SHARE, _FOREIGN_BYTES = 0.02, 8 * MB
#: So much less of each CPU is as much as a drive's number may be off without a word (docs/host-limits.rst).
_STOLEN_PERCENT = 10.0
#: A wall clock that was set by less is as good as any.
_CLOCK_SECONDS = 0.5
#: A stimulus may end late by the time its outstanding I/Os take; more than this share of it is worth a word.
_LONGEST_OVERRUN = 1.05
#: No drive needs so long for an I/O while it works, however many are outstanding.
_STALL_SECONDS, _STALL_TIMES = 2.0, 30.0
#: An idle time that differs from what was asked by more than this share of it is another one.
_IDLE_SHARE = 0.01
#: Threads that start apart by more than this share of a point's time do not make up its Thread Count.
_SPREAD_SHARE = 0.01
#: The share of reads may be off by so much, and by so many standard deviations of chance.
_MIX_SHARE, _MIX_DEVIATIONS = 0.002, 3.0


def disturbances(points: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Give what the kernel's counters tell of other I/O, of heat and of the link."""
    foreign = [(point, beyond) for point in points if (beyond := foreign_bytes(point)) > 0]
    if foreign:
        point, most = max(foreign, key=lambda each: each[1])
        detail = (
            f"in {len(foreign)} of {counted(len(points), 'point')} the block layer saw more I/O on the drive than the "
            f"test did; {capacity(most)} more at the most, in {point.stimulus.label} ({point.evidence})"
        )
        yield "others used the drive", detail
    yield from _stolen(points)
    yield from _counted(points, "CPU throttling", "the CPU was slowed down for its heat", lambda each: each.throttlings)
    yield from _counted(points, "PCIe errors", "the drive's PCIe link reported errors", lambda each: each.link_errors)


def foreign_bytes(point: Measurement) -> int:
    """Return the bytes that others moved on the drive meanwhile; 0 where it is not clear that anybody did.

    I/Os in flight at the end of a point may be counted by the block layer alone.  It counts what is done before a
    stimulus counts, too, and what goes through the page cache when that likes.
    """
    block = point.vitals.block if point.vitals else None
    if block is None or point.stimulus.ramp_seconds or point.stimulus.cached:
        return 0
    ours = point.read.transferred_bytes + point.write.transferred_bytes
    in_flight = point.stimulus.total_oio * point.stimulus.largest_block_bytes
    beyond = block.read_bytes + block.write_bytes - ours - in_flight
    return beyond if beyond > max(_FOREIGN_BYTES, _FOREIGN_SHARE * ours) else 0


def _counted(
    points: Sequence[Measurement], what: str, sentence: str, count: Callable[[TelemetrySample], int | None]
) -> Iterator[tuple[str, str]]:
    counts = [found for point in points if point.vitals and (found := count(point.vitals))]
    if counts:
        yield what, f"{sentence}: {counted(sum(counts), 'time')}, in {len(counts)} of {counted(len(points), 'point')}"


def _stolen(points: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Give that a hypervisor let others use so much of the host's CPU time that any point may bear it."""
    taken = [(point.vitals.stolen_percent or 0.0, point) for point in points if point.vitals]
    robbed = [each for each in taken if each[0] > _STOLEN_PERCENT]
    if robbed:
        most, point = max(robbed, key=lambda each: each[0])
        detail = (
            f"a hypervisor took more than {_STOLEN_PERCENT:.0f} % of the host's CPU time in {len(robbed)} of "
            f"{counted(len(points), 'point')}; {most:.0f} % at the most, in {point.stimulus.label} ({point.evidence})"
        )
        yield "stolen CPU time", detail


def clock_set(points: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Give each time that the wall clock was set."""
    for clocking in (point.timing for point in points if abs(point.timing.clock_set_seconds) > _CLOCK_SECONDS):
        how = f"{'forward' if clocking.clock_set_seconds > 0 else 'back'} by {abs(clocking.clock_set_seconds):.1f} s"
        detail = f"the wall clock was set {how} at about {clocking.started}: times of day before and after do not agree"
        yield "clock", detail


def idled_otherwise(idle: Sequence[tuple[float, float]]) -> Iterator[tuple[str, str]]:
    """Give that the drive was left idle for longer or shorter than asked.

    Each idle time is in seconds, asked and measured; the latter at most, see ``Timing``.
    """
    causes = {
        "longer": "the host stood still, or was too busy to go on",
        "shorter": "the drive had less time to recover",
    }
    for word, cause in causes.items():
        sign = 1 if word == "longer" else -1
        off = [(sign * (took - asked) / asked, asked, took) for asked, took in idle]
        off = [each for each in off if each[0] > _IDLE_SHARE]
        if off:
            share, asked, took = max(off)
            detail = (
                f"{len(off)} of {counted(len(idle), 'idle time')} were {word} than asked by more than "
                f"{100 * _IDLE_SHARE:g} %, by {100 * share:.2g} % at the most: {took:.4g} s where {asked:g} s were "
                f"asked; {cause}"
            )
            yield "idle time", detail


def otherwise(points: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Give what the engine did otherwise than asked: points begun twice, too long, or off their mix."""
    again = [point for point in points if point.timing.engine_restarted]
    if again:
        detail = (
            f"fio stood ready for {len(again)} of {counted(len(points), 'point')}, ended before its first I/O, and was "
            f"begun once more, so that the gap before is longer: {again[0].stimulus.label} ({again[0].evidence})"
        )
        yield "begun again", detail + (" was the first" if len(again) > 1 else "")
    late = [
        (point.runtime_ms / 1000 / point.stimulus.seconds, point)
        for point in points
        if point.stimulus.seconds and point.runtime_ms / 1000 > _LONGEST_OVERRUN * point.stimulus.seconds
    ]
    if late:
        times, point = max(late, key=lambda each: each[0])
        detail = (
            f"{len(late)} of {len(points)} points took longer than asked, {times:.2f} times as long at the most: "
            f"{point.runtime_ms / 1000:.3g} s instead of {point.stimulus.seconds:.3g} s ({point.evidence})"
        )
        yield "time a point", detail
    yield from _spreads(points)
    yield from _stalls(points)
    yield from _repeats(points)
    yield from _mixes(points)


def _mixes(points: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Give which mixes were not kept to, each by all I/Os of its points together; fio itself biases short ones."""
    reads, ios = Counter[Stimulus](), Counter[Stimulus]()
    for point in points:
        stimulus = replace(point.stimulus, start_bytes=0)
        reads[stimulus] += point.read.ios
        ios[stimulus] += point.ios
    off = []
    for stimulus, total in ios.items():
        asked = stimulus.read_percent / 100
        difference = abs(reads[stimulus] / total - asked) if total else 0.0
        if difference > max(_MIX_SHARE, _MIX_DEVIATIONS * math.sqrt(asked * (1 - asked) / total if total else 0.0)):
            off.append((difference, stimulus))
    if off:
        _, worst = max(off, key=lambda each: each[0])
        achieved = 100 * reads[worst] / ios[worst]
        detail = (
            f"{len(off)} of {counted(len(ios), 'kind')} of points did not keep to their mix, by more than "
            f"{100 * _MIX_SHARE:g} points and what chance explains; {worst.label} by most: it had "
            f"{achieved:.2f}/{100 - achieved:.2f} in {ios[worst]} I/Os"
        )
        yield "R/W mix", detail


def _spreads(points: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Give that threads of a point started apart: they ended further apart than an I/O took."""
    apart = []
    for point in points:
        spread_ms = (point.timing.thread_spread_ms or 0.0) - point.maximum_response_us / 1000
        if point.stimulus.seconds and spread_ms > 1000 * _SPREAD_SHARE * point.stimulus.seconds:
            apart.append((spread_ms / point.stimulus.seconds / 10, spread_ms, point))
    if apart:
        share, spread_ms, point = max(apart, key=lambda each: each[0])
        detail = (
            f"in {len(apart)} of {counted(len(points), 'point')} threads started apart by more than "
            f"{100 * _SPREAD_SHARE:g} % of its time, by at least {spread_ms:.3g} ms ({share:.2g} %) at the most: there "
            f"were fewer outstanding I/Os than {point.stimulus.demand.label} at its beginning and end; "
            f"{point.stimulus.label} ({point.evidence})"
        )
        yield "threads apart", detail


def _stalls(points: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Give that the drive left an I/O unanswered for long, which is a result: it is in the response times."""
    stalled = [
        point
        for point in points
        if point.maximum_response_us > max(1e6 * _STALL_SECONDS, _STALL_TIMES * point.average_response_us)
    ]
    if stalled:
        longest = max(stalled, key=lambda point: point.maximum_response_us)
        detail = (
            f"in {len(stalled)} of {counted(len(points), 'point')} an I/O took more than {_STALL_SECONDS:g} s, and "
            f"{_STALL_TIMES:.0f} times the average; "
            f"{longest.maximum_response_us / 1e6:.3g} s at the most, in {longest.stimulus.label} ({longest.evidence})"
        )
        yield "stall", detail


def _repeats(points: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Give which points were measured again, and of which some I/Os are missing, as fio lost count of them."""
    for point in points:
        for attempt in point.rejected:
            yield (
                "measured again",
                f"{point.stimulus.label} ({point.evidence}): the attempt before it was rejected ({attempt.evidence}: "
                f"{attempt.reason}). Its {attempt.seconds:.3g} s of I/O, and what of the next point had begun, came on "
                "top of the test's own and are in none of its numbers; all that follows is later by that time",
            )
        if point.uncounted_ios:
            yield (
                "uncounted I/Os",
                f"of {point.stimulus.label} ({point.evidence}) fio lost count of the last "
                f"{counted(point.uncounted_ios, 'I/O')}: they are in none of its numbers; it was not repeated, and the "
                "time line is as asked",
            )
