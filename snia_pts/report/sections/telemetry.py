"""What was seen beside the test: temperature, queue and CPU over the time of the run, and the health of the drive."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from ...model.health import Change, Health, changes
from ...model.measurement import Measurement
from ...model.telemetry import TelemetrySample
from ...model.time_series import TimeLine
from ...results.result import TestResult
from ...units import capacity
from ..figures import timelines, timeplots
from ..figures.timelines import BUSIEST, CELSIUS, CPU, IOPS, QUEUE, Quantity, Series
from ..figures.timeplots import Mark, Panel
from ..header import when
from ..pages import Block, Figure, Page, Prose
from ..tables import NOT_APPLICABLE, UNKNOWN, Column, Table, facts, thousands
from .summary import lower_bound_prefix

#: How a measurement tells a quantity.
_OF: Mapping[str, Callable[[TelemetrySample], float | None]] = {
    CELSIUS.name: lambda telemetry: telemetry.celsius,
    QUEUE.name: lambda telemetry: telemetry.block.queue if telemetry.block else None,
    CPU.name: lambda telemetry: telemetry.cpu_percent,
    BUSIEST.name: lambda telemetry: telemetry.busiest_cpu_percent,
}
#: Stretches of these phases are short, and other things happen between them.
_SINGLE = ("access A", "pre-write")
#: More phases and parts than this are not marked.
_MOST_MARKS = 40
#: An axis of temperatures shows so many degrees at least.
_LEAST_CELSIUS = 10.0
_NOTE = (
    "Readings of the kernel's counters enclose each sample and each point of a round; temperatures are the greatest "
    "that was seen. I/Os in flight: the mean, as the block layer counts them. Times in which the run was interrupted "
    "are left out."
)


def telemetry_pages(result: TestResult) -> Iterator[Page]:
    """Give the pages of what was seen; none where nothing was seen of the drive."""
    yield from _course(result)
    if result.facts.health is not None or result.health_after is not None:
        yield Page(title="Health of the Drive", blocks=tuple(_health(result)), flows=True)


# -- over the time of the run -----------------------------------------------------------------------------------------


def _course(result: TestResult) -> Iterator[Page]:
    seen = {
        quantity.name: timelines.known(_series(result, quantity)) for quantity in (IOPS, CELSIUS, QUEUE, CPU, BUSIEST)
    }
    if not seen[CELSIUS.name] and not seen[QUEUE.name]:
        return
    panels = [
        Panel(
            shown=seen[IOPS.name],
            ylabel="IOPS (log)" if result.loops else "IOPS",
            share=2.0,
            log=bool(result.loops),
            span=(0.0,),
        ),
        Panel(shown=seen[CELSIUS.name], ylabel=CELSIUS.unit, span=_around(seen[CELSIUS.name])),
        Panel(shown=seen[QUEUE.name], ylabel="in flight", span=(0.0,)),
        Panel(shown=[*seen[CPU.name], *seen[BUSIEST.name]], ylabel="CPU (%)", span=(0.0, 100.0)),
    ]
    panels = [panel for panel in panels if panel.shown]
    names = [
        name
        for name, quantity in (("temperature of the drive", CELSIUS), ("I/Os in flight", QUEUE), ("CPU time", CPU))
        if seen[quantity.name]
    ]
    told = f"IOPS, {', '.join(names)}"
    shown = [each for panel in panels for each in panel.shown]
    figure = Figure(
        name="watched",
        caption=f"{told}, over the time of the run.{timelines.reduction(shown)}",
        alt=f"Plots above one another over the same time axis: {told}.",
        draw=partial(timeplots.stacked, panels, marks=_marks(result)),
    )
    yield Page(title="Drive and Host vs Time", blocks=(figure, Prose(text=_NOTE)))


def _series(result: TestResult, quantity: Quantity) -> list[Series]:
    """Return a quantity of all that was measured: lines of samples, and points of what was not cut into any."""
    clock, sampled = _Clock(result), _sampled(result)
    found = [
        timelines.series(line, quantity, shift=clock.begin(line), points=True)
        if line.phase in _SINGLE
        else timelines.broken(line, quantity, shift=clock.begin(line))
        for line in result.time_lines
        if len(line)
    ]
    measured = [
        each for loop in result.loops if loop.part not in sampled for turn in loop.rounds for each in turn.measurements
    ]
    if measured:
        x = [clock.ended(each) for each in measured]
        found.append(timelines.points(x, [_value(each, quantity) for each in measured], quantity))
    return found


def _sampled(result: TestResult) -> set[str]:
    """Return the parts of a profile that were cut into samples: these are time lines, and loops too."""
    apart = {(each.phase, each.part) for each in result.separate_lines}
    return {each.part for each in result.time_lines if len(each) and (each.phase, each.part) not in apart}


def _around(shown: list[Series]) -> tuple[float, ...]:
    """Return the ends that an axis of temperatures has at least, so that no tenth of a degree looks like a fire."""
    values = [value for each in shown for value in each.curve.values.tolist() if math.isfinite(value)]
    middle = (min(values) + max(values)) / 2 if values else 0.0
    return middle - _LEAST_CELSIUS / 2, middle + _LEAST_CELSIUS / 2


def _value(measurement: Measurement, quantity: Quantity) -> float:
    if quantity is IOPS:
        return measurement.iops
    value = _OF[quantity.name](measurement.telemetry) if measurement.telemetry else None
    return math.nan if value is None else value


class _Clock:
    """Seconds since the first I/O of a run, without the times in which it was interrupted: no clock counts them."""

    def __init__(self, result: TestResult) -> None:
        self._origins: dict[int, float] = {}
        self._end = 0.0
        ordered = sorted(
            result.measurements, key=lambda each: (each.timing.interruptions, each.timing.started_monotonic_ns)
        )
        for epoch, measured in itertools.groupby(ordered, key=lambda each: each.timing.interruptions):
            these = list(measured)
            self._origins[epoch] = _began(these[0]) - self._end
            self._end = max(map(self.ended, these))

    def ended(self, measurement: Measurement) -> float:
        """Return when a measurement ended."""
        timing = measurement.timing
        return timing.ended_monotonic_ns / 1e9 - self._origins[timing.interruptions]

    def begin(self, line: TimeLine) -> float:
        """Return when a line began; one that was stopped in its first stretch, after all else."""
        if line.start_ns is None or not line.measurements:
            return self._end
        return line.start_ns / 1e9 - self._origins[line.measurements[-1].timing.interruptions]


def _began(measurement: Measurement) -> float:
    return measurement.timing.ended_monotonic_ns / 1e9 - measurement.runtime_ms / 1000


def _marks(result: TestResult) -> list[Mark]:
    """Return where each phase, and each part of the rounds, begins; nothing where lines would hide the points."""
    clock, sampled, found = _Clock(result), _sampled(result), list[Mark]()
    for line in result.time_lines:
        if len(line) and line.phase not in ("access C", "pre-write"):
            name = f"{line.phase}, {line.part}" if line.part and line.part not in sampled else line.part or line.phase
            found.append(Mark(x=clock.begin(line), name=name, short=line.part or line.phase))
    for loop in result.loops:
        points = [each for turn in loop.rounds for each in turn.measurements]
        if points and loop.part not in sampled:
            begin = min(clock.ended(each) - each.runtime_ms / 1000 for each in points)
            found.append(Mark(x=begin, name=f"rounds, {loop.part}" if loop.part else "rounds", short="rounds"))
    return sorted(found, key=lambda mark: mark.x) if len(found) <= _MOST_MARKS else []


# -- the drive's own log ----------------------------------------------------------------------------------------------


def _health(result: TestResult) -> Iterator[Block]:
    before, after = result.facts.health, result.health_after
    found = changes(before, after)
    yield facts(_readings(result, before, after), title="Readings", label_width=24)
    if not found:
        return
    columns = (
        Column(heading="What the drive tells", width=38),
        Column(heading="Before", align="right", width=14),
        Column(heading="After", align="right", width=14),
        Column(heading="Difference", align="right", width=14),
        Column(heading="Where", width=20),
    )
    rows = tuple(
        (each.name, *(_shown(value, each) for value in (each.before, each.after, each.difference)), each.source)
        for each in found
    )
    yield Table(kind="numbers", columns=columns, rows=rows, title="Health of the drive")
    yield Prose(
        text="The drive's own counters, as its log tells them. Between the readings lie the purge and whatever else "
        "was done to the drive, also while the run was interrupted."
    )


def _readings(result: TestResult, before: Health | None, after: Health | None) -> Iterator[tuple[str, str]]:
    yield "Before the test", when(before.read_at) if before else "not read"
    died = "not read: the run has no end" if result.ending == "unfinished" else "not read"
    yield "After the test", when(after.read_at) if after else died
    yield "Write amplification", _amplification(result)
    yield "Written by the test", f"{lower_bound_prefix(result)}{capacity(result.written_bytes)}, as the test counts it"
    for name, versions in _texts(before, after).items():
        yield name, ", then ".join(versions)
    silent = list(dict.fromkeys(reason for health in (before, after) if health for reason in health.unread))
    if silent:
        yield "Not read", "; ".join(silent)
    kept = [name for health in (before, after) if health for name in health.evidence]
    yield "Evidence", ", ".join(kept)


def _texts(before: Health | None, after: Health | None) -> Mapping[str, Sequence[str]]:
    """Return the texts of the drive's logs by name; two where a text changed between the readings."""
    texts: dict[str, list[str]] = {}
    for health in (before, after):
        for each in health.texts if health else ():
            if each.text not in texts.setdefault(each.name, []):
                texts[each.name].append(each.text)
    return texts


def _amplification(result: TestResult) -> str:
    found = result.write_amplification
    if found is None:
        return f"{NOT_APPLICABLE}: the drive does not tell both what the host wrote and what its media took"
    return (
        f"{found.factor:.3f}: {capacity(found.media_bytes)} on the media ({found.media_source}) for "
        f"{capacity(found.host_bytes)} by the host ({found.host_source})"
    )


def _shown(value: float | None, change: Change) -> str:
    if value is None:
        return UNKNOWN
    if change.unit == "bytes":
        return capacity(value) if value >= 0 else f"-{capacity(-value)}"
    text = thousands(value, 0 if value == int(value) else 1)
    return f"{text} {change.unit}".strip()
