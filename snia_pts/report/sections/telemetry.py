"""Telemetry pages: temperature, queue, CPU use and power over the run, and the health of the drive."""

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
from ..figures.timelines import BUSIEST, CELSIUS, CPU, HOST_POWER, IOPS, POWER, QUEUE, Quantity, Series
from ..figures.timeplots import Mark, Panel
from ..header import date
from ..pages import Block, Figure, Page, Prose
from ..tables import NOT_APPLICABLE, UNKNOWN, Column, Table, facts, thousands
from .power import power_page
from .summary import lower_bound_prefix

#: Reads a quantity from a telemetry sample.
_READERS: Mapping[str, Callable[[TelemetrySample], float | None]] = {
    CELSIUS.name: lambda telemetry: telemetry.celsius,
    QUEUE.name: lambda telemetry: telemetry.block.queue if telemetry.block else None,
    CPU.name: lambda telemetry: telemetry.cpu_percent,
    BUSIEST.name: lambda telemetry: telemetry.busiest_cpu_percent,
    POWER.name: lambda telemetry: telemetry.watts,
    HOST_POWER.name: lambda telemetry: telemetry.host_watts,
}
#: The continuous stimuli of these phases are short, with other steps between them.
_SHORT_PHASES = ("access A", "pre-write")
#: If there are more phases and parts than this, none is marked.
_MAX_MARKS = 40
#: The minimum span of a temperature axis.
_MIN_SPAN_CELSIUS = 10.0
_NOTE = (
    "The kernel's counters are read before and after each sample and each point of a round; temperatures are the "
    "maximum that was read. I/Os in flight: the mean, as counted by the block layer. Interruptions of the run are "
    "omitted."
)
_SIMULATED_NOTE = (
    "Temperature and power are those of the model. Temperature of a continuous stimulus: at the end of each sample; of "
    "a point without samples: the highest. Power: the mean of a sample or point."
)


def telemetry_pages(result: TestResult) -> Iterator[Page]:
    """Yield the telemetry pages; none if there is no telemetry of the drive."""
    yield from _over_run(result)
    yield from power_page(result)
    if result.facts.health is not None or result.health_after is not None:
        yield Page(title="Drive Health", blocks=tuple(_health(result)), flows=True)


# -- over the time of the run -----------------------------------------------------------------------------------------


def _over_run(result: TestResult) -> Iterator[Page]:
    curves = {
        quantity.name: timelines.with_values(_series(result, quantity))
        for quantity in (IOPS, CELSIUS, QUEUE, CPU, BUSIEST, POWER, HOST_POWER)
    }
    powers = [*curves[POWER.name], *curves[HOST_POWER.name]]
    if not curves[CELSIUS.name] and not curves[QUEUE.name] and not powers:
        return
    panels = [
        Panel(
            shown=curves[IOPS.name],
            ylabel="IOPS",
            share=2.0,
            log=bool(result.loops),
            span=(0.0,),
        ),
        Panel(shown=curves[CELSIUS.name], ylabel=f"Temperature\n({CELSIUS.unit})", span=_around(curves[CELSIUS.name])),
        Panel(shown=curves[QUEUE.name], ylabel="I/Os\nin flight", span=(0.0,)),
        Panel(shown=[*curves[CPU.name], *curves[BUSIEST.name]], ylabel="CPU (%)", span=(0.0, 100.0)),
        Panel(shown=powers, ylabel=f"Power\n({POWER.unit})", span=(0.0,)),
    ]
    panels = [panel for panel in panels if panel.shown]
    names = [
        name
        for name, quantity in (("drive temperature", CELSIUS), ("I/Os in flight", QUEUE), ("CPU time", CPU))
        if curves[quantity.name]
    ]
    names += ["power"] if powers else []
    content = f"IOPS, {', '.join(names)}"
    shown = [series for panel in panels for series in panel.shown]
    figure = Figure(
        name="telemetry",
        caption=f"{content}, over the run.{timelines.reduction(shown)}",
        alt=f"Stacked plots with a common time axis: {content}.",
        draw=partial(timeplots.stacked, panels, marks=_marks(result)),
        height=timeplots.stacked_height(panels),
    )
    yield Page(
        title="Drive and Host Telemetry vs Time"
        if curves[CPU.name] or curves[HOST_POWER.name]
        else "Drive Telemetry vs Time",
        blocks=(figure, Prose(text=_SIMULATED_NOTE if result.facts.dut.simulated else _NOTE)),
    )


def _series(result: TestResult, quantity: Quantity) -> list[Series]:
    """Return a quantity over the run: a curve for each continuous stimulus, and a point for each other measurement."""
    clock, sampled = _Clock(result), _sampled(result)
    curves = [
        timelines.series(line, quantity, shift=clock.start(line), points=True)
        if line.phase in _SHORT_PHASES
        else timelines.broken(line, quantity, shift=clock.start(line))
        for line in result.time_lines
        if len(line)
    ]
    measurements = [
        measurement
        for loop in result.loops
        if loop.part not in sampled
        for measured_round in loop.rounds
        for measurement in measured_round.measurements
    ]
    if measurements:
        x = [clock.end(measurement) for measurement in measurements]
        curves.append(timelines.points(x, [_value(measurement, quantity) for measurement in measurements], quantity))
    return curves


def _sampled(result: TestResult) -> set[str]:
    """Return the named points that were split into samples: they are time lines as well as loops."""
    separate = {(line.phase, line.part) for line in result.separate_lines}
    return {line.part for line in result.time_lines if len(line) and (line.phase, line.part) not in separate}


def _around(shown: list[Series]) -> tuple[float, ...]:
    """Return the minimum range of a temperature axis, so that small changes do not look large."""
    values = [value for series in shown for value in series.curve.values.tolist() if math.isfinite(value)]
    middle = (min(values) + max(values)) / 2 if values else 0.0
    return middle - _MIN_SPAN_CELSIUS / 2, middle + _MIN_SPAN_CELSIUS / 2


def _value(measurement: Measurement, quantity: Quantity) -> float:
    if quantity is IOPS:
        return measurement.iops
    value = _READERS[quantity.name](measurement.telemetry) if measurement.telemetry else None
    return math.nan if value is None else value


class _Clock:
    """Seconds since the first I/O of a run, without the interruptions, which no clock measures."""

    def __init__(self, result: TestResult) -> None:
        self._origins: dict[int, float] = {}
        self._end = 0.0
        ordered = sorted(
            result.measurements,
            key=lambda measurement: (measurement.timing.interruptions, measurement.timing.started_monotonic_ns),
        )
        for epoch, group in itertools.groupby(ordered, key=lambda measurement: measurement.timing.interruptions):
            measurements = list(group)
            self._origins[epoch] = _start_seconds(measurements[0]) - self._end
            self._end = max(map(self.end, measurements))

    def end(self, measurement: Measurement) -> float:
        """Return when a measurement ended."""
        timing = measurement.timing
        return timing.ended_monotonic_ns / 1e9 - self._origins[timing.interruptions]

    def start(self, line: TimeLine) -> float:
        """Return when a line started; the end of the run if it was stopped before its first measurement ended."""
        if line.start_ns is None or not line.measurements:
            return self._end
        return line.start_ns / 1e9 - self._origins[line.measurements[-1].timing.interruptions]


def _start_seconds(measurement: Measurement) -> float:
    return measurement.timing.ended_monotonic_ns / 1e9 - measurement.runtime_ms / 1000


def _marks(result: TestResult) -> list[Mark]:
    """Return the start of each phase, and of each part of the rounds; none if so many lines would hide the points."""
    clock, sampled, marks = _Clock(result), _sampled(result), list[Mark]()
    for line in result.time_lines:
        if len(line) and line.phase not in ("access C", "pre-write"):
            name = f"{line.phase}, {line.part}" if line.part and line.part not in sampled else line.part or line.phase
            marks.append(Mark(x=clock.start(line), name=name, short=line.part or line.phase))
    for loop in result.loops:
        points = [point for measured_round in loop.rounds for point in measured_round.measurements]
        if points and loop.part not in sampled:
            start = min(clock.end(point) - point.runtime_ms / 1000 for point in points)
            marks.append(Mark(x=start, name=f"rounds, {loop.part}" if loop.part else "rounds", short="rounds"))
    return sorted(marks, key=lambda mark: mark.x) if len(marks) <= _MAX_MARKS else []


# -- health log of the drive ------------------------------------------------------------------------------------------


def _health(result: TestResult) -> Iterator[Block]:
    before, after = result.facts.health, result.health_after
    counters = changes(before, after)
    yield facts(_readings(result, before, after), title="Readings", label_width=24)
    if not counters:
        return
    columns = (
        Column(heading="Counter", width=38),
        Column(heading="Before", align="right", width=14),
        Column(heading="After", align="right", width=14),
        Column(heading="Difference", align="right", width=14),
        Column(heading="Source", width=20),
    )
    rows = tuple(
        (
            counter.name,
            *_counter_texts(counter),
            counter.source,
        )
        for counter in counters
    )
    yield Table(kind="numbers", columns=columns, rows=rows, title="Drive health counters")
    source = "of the model" if result.facts.dut.simulated else "as reported in the drive's log"
    yield Prose(
        text=f"Counters {source}. The differences include the purge and everything else that was done to the drive "
        "between the readings, also during interruptions."
    )


def _readings(result: TestResult, before: Health | None, after: Health | None) -> Iterator[tuple[str, str]]:
    yield "Before the test", date(result, before.read_at) if before else "not read"
    missing = "not read: the run did not end" if result.ending == "unfinished" else "not read"
    yield "After the test", date(result, after.read_at) if after else missing
    yield "Write amplification", _amplification(result)
    yield "Written by the test", f"{lower_bound_prefix(result)}{capacity(result.written_bytes)}, as counted by the test"
    for name, versions in _texts(before, after).items():
        yield name, ", then ".join(versions)
    reasons = list(dict.fromkeys(reason for health in (before, after) if health for reason in health.unread))
    if reasons:
        yield "Not read", "; ".join(reasons)
    if evidence := [name for health in (before, after) if health for name in health.evidence]:
        yield "Evidence", ", ".join(evidence)


def _texts(before: Health | None, after: Health | None) -> Mapping[str, Sequence[str]]:
    """Return the texts of the drive's logs by name; two if a text changed between the readings."""
    texts: dict[str, list[str]] = {}
    for health in (before, after):
        for entry in health.texts if health else ():
            if entry.text not in texts.setdefault(entry.name, []):
                texts[entry.name].append(entry.text)
    return texts


def _amplification(result: TestResult) -> str:
    amplification = result.write_amplification
    if amplification is None:
        return f"{NOT_APPLICABLE}: the drive does not report both host and media writes"
    return (
        f"{amplification.factor:.3f}: {capacity(amplification.media_bytes)} on the media "
        f"({amplification.media_source}) for {capacity(amplification.host_bytes)} by the host "
        f"({amplification.host_source})"
    )


def _counter_texts(change: Change) -> Iterator[str]:
    """Yield a counter before and after the test, and its difference."""
    values = (change.before, change.after, change.difference)
    for value in values:
        if value is None:
            yield UNKNOWN
        elif change.unit == "bytes":
            yield f"{'-' * (value < 0)}{capacity(abs(value))}"
        else:
            yield f"{thousands(value, 0 if value == int(value) else 1)} {change.unit}".strip()
