"""A result's values with the names that they have in all output formats.

The pages of a report show rounded values; these have full precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from ..analysis.steady_state import SteadyState
from ..model.dut import Dut
from ..model.measurement import (
    NINES,
    Direction,
    Measurement,
    PrepareOutcome,
    average_response_us,
    mean,
    percentiles_of_transfers_us,
    percentiles_response_us,
    sync_percentile_us,
)
from ..model.steps import BlockSize, Stimulus
from ..procedures import named_points
from ..spec import MetricName, Scalar
from .result import Loop, TestResult

Value = str | int | float | bool | None
#: Values by name.
Row = Mapping[str, Value]

#: The column of each tracked metric, and the number by which its values are divided.
METRIC_COLUMNS: Mapping[MetricName, tuple[str, int]] = {
    "iops": ("iops", 1),
    "mb_per_second": ("mb_per_second", 1),
    "average_response_ms": ("average_response_us", 1000),
}
_SYNC = {"median_sync_us": 50.0, "two_nines_sync_us": 99.0, "three_nines_sync_us": 99.9}
_NINES = ("three_nines_response_us", "four_nines_response_us", "five_nines_response_us")
#: The percents of the table of percentiles, by column.
PERCENTS: Mapping[str, float] = {
    "median_response_us": 50.0,
    "two_nines_response_us": 99.0,
    **dict(zip(_NINES, NINES, strict=True)),
}


def run_attributes(result: TestResult) -> dict[str, Value]:
    """Return a run with the names of result.xml, without its ID."""
    return {
        "started": result.facts.started,
        "finished": result.finished,
        "ending": result.ending,
        "detail": result.ending_detail,
        "verdict": result.verdict,
        "conformant": result.conformant,
        "seed": None if result.facts.seed is None else str(result.facts.seed),
        "operator": result.facts.about.operator,
        "written_bytes": whole_bytes_or_none(result.written_bytes),
        "read_bytes": whole_bytes_or_none(result.read_bytes),
    }


def specification_attributes(result: TestResult) -> dict[str, Value]:
    """Return the names and the version of a test's specification with the names of result.xml."""
    spec = result.facts.spec
    return {
        "test": spec.test,
        "pts": spec.pts,
        "class": result.facts.test_class,
        "revision": spec.revision,
        "title": spec.title,
        "publication": spec.publication,
    }


def stimulus_attributes(stimulus: Stimulus) -> dict[str, Value]:
    """Return a stimulus with the names of result.xml; None for default values.

    A size mix is a list of ``bytes:percent``, a skew a list of ``percent of accesses:percent of range``.
    """
    skew = " ".join(f"{zone.access_percent}:{zone.range_percent}" for zone in stimulus.skew)
    return {
        "access": stimulus.access,
        "read_percent": stimulus.read_percent,
        **sizes(stimulus.block_size_bytes),
        "thread_count": stimulus.thread_count,
        "queue_depth": stimulus.queue_depth,
        "range_offset_bytes": stimulus.range_offset_bytes,
        "range_bytes": stimulus.range_bytes or None,
        "skew": skew or None,
        "start_bytes": _starts(stimulus),
        "seconds": stimulus.seconds,
        "passes": stimulus.passes,
        "limit_bytes": stimulus.limit_bytes,
        "ramp_seconds": stimulus.ramp_seconds or None,
        "skip_bytes": stimulus.skip_bytes or None,
        "options": " ".join(f"{key}={value}" for key, value in stimulus.options) or None,
        "name": stimulus.name or None,
    }


def _starts(stimulus: Stimulus) -> int | str | None:
    """Return the start offsets of sequential streams, as a list for several threads; None if all start at 0."""
    start = stimulus.start_bytes
    return " ".join(map(str, start)) if isinstance(start, tuple) else start or None


def sizes(size: BlockSize | None) -> dict[str, Value]:
    """Return a block size, or the shares of a mix, with their names; None if there is no size."""
    if size is None or isinstance(size, int):
        return {"block_size_bytes": size, "block_mix": None}
    shares = " ".join(f"{share.size_bytes}:{share.percent}" for share in size)
    return {"block_size_bytes": None, "block_mix": shares}


def window_points(result: TestResult, loop: Loop) -> Iterator[tuple[Stimulus, Mapping[str, float | None]]]:
    """Yield every point of a loop with its figures over the window, with the names of result.xml."""
    for stimulus, measured in _window_measurements(loop):
        yield stimulus, {**_means(measured), "host_limited": result.host_limited(measured)}


def _window_measurements(loop: Loop) -> Iterator[tuple[Stimulus, Sequence[Measurement]]]:
    """Yield every point of a loop with its measurements in the window."""
    keyed = [measured.keyed_by(_without_start) for measured in loop.window_rounds]
    for stimulus in keyed[0] if keyed else ():
        yield stimulus, [points[stimulus] for points in keyed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The response times of the reads, or of the writes, of a point over its window or repeats, or of a histogram.

    ``ios`` is their count; ``percentiles_us`` are by column of ``PERCENTS``, None if there are too few I/Os.
    """

    part: str
    phase: str
    point: str
    stimulus: Stimulus
    direction: Direction
    ios: int
    percentiles_us: Mapping[str, float | None]
    maximum_us: float


def tails(result: TestResult) -> Iterator[Tail]:
    """Yield the tails of all points, and of all histograms; none of points without response times."""
    for loop in result.loops:
        if result.facts.spec.rounds_are_repeats:
            repeats = [point for turn in result.evaluated_rounds(loop) for point in turn.measurements]
            yield from _tails(repeats, part=loop.part, phase="round", point=loop.part)
        else:
            for stimulus, measured in _window_measurements(loop):
                yield from _tails(measured, part=loop.part, phase="round", point=stimulus.label)
    for line in result.lines("histogram"):
        yield from _tails(line.measurements, part=line.part, phase="histogram", point=line.stimulus.label)


def _tails(measured: Sequence[Measurement], *, part: str, phase: str, point: str) -> Iterator[Tail]:
    directions: tuple[Direction, ...] = ("read", "write")
    for direction in directions:
        transfers = [getattr(measurement, direction) for measurement in measured]
        ios = sum(side.ios for side in transfers)
        if ios and all(measurement.stimulus.timed for measurement in measured):
            yield Tail(
                part=part,
                phase=phase,
                point=point,
                stimulus=measured[0].stimulus,
                direction=direction,
                ios=ios,
                percentiles_us=dict(
                    zip(PERCENTS, percentiles_of_transfers_us(transfers, tuple(PERCENTS.values())), strict=True)
                ),
                maximum_us=max(side.response_max_ns for side in transfers) / 1000,
            )


def tail_attributes(tail: Tail) -> dict[str, Value]:
    """Return a tail with the names of result.xml; None for percentiles with too few I/Os."""
    stimulus = tail.stimulus
    return {
        "part": tail.part,
        "phase": tail.phase,
        "point": tail.point,
        "read_percent": stimulus.read_percent,
        **sizes(stimulus.block_size_bytes),
        "thread_count": stimulus.thread_count,
        "queue_depth": stimulus.queue_depth,
        "direction": tail.direction,
        "ios": tail.ios,
        **tail.percentiles_us,
        "maximum_response_us": tail.maximum_us,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedPoint:
    """A named point: name, stimulus, axis values, and figures with their names."""

    name: str
    stimulus: Stimulus
    axis_values: Mapping[str, Scalar]
    figures: Mapping[str, int | float | None]


def repeated_points(result: TestResult) -> Iterator[RepeatedPoint]:
    """Yield every named point of a run, with its figures over all complete repeats; none if rounds are not repeats."""
    if not result.facts.spec.rounds_are_repeats:
        return
    axis_values = {point.name: point.axis_values for point in named_points(result.facts.spec, result.facts.dut)}
    for loop in result.loops:
        measured = [point for turn in result.evaluated_rounds(loop) for point in turn.measurements]
        if measured:
            figures = {
                "repeats": len(measured),
                **_means(measured),
                **_repeat_figures(measured),
                "host_limited": result.host_limited(measured),
            }
            yield RepeatedPoint(
                name=loop.part,
                stimulus=measured[0].stimulus,
                axis_values=axis_values.get(loop.part, {}),
                figures=figures,
            )


def _repeat_figures(measured: Sequence[Measurement]) -> Mapping[str, float | None]:
    """Return more figures of a repeated point: spread of the repeats, reads and writes, synchronizing calls."""
    rates, mixed = [point.iops for point in measured], measured[0].has_both_sides
    median, two_nines = percentiles_response_us(measured, (50.0, 99.0))
    rates = [rate for rate in rates if math.isfinite(rate)] or [math.nan]
    sync_times = [point.sync for point in measured if point.sync is not None]
    calls = sum(sync.calls for sync in sync_times)
    return {
        "minimum_iops": finite_or_none(min(rates)),
        "maximum_iops": finite_or_none(max(rates)),
        "spread_percent": spread_percent(measured),
        "read_iops": finite_or_none(mean(point.read.iops for point in measured)) if mixed else None,
        "write_iops": finite_or_none(mean(point.write.iops for point in measured)) if mixed else None,
        "median_response_us": median,
        "two_nines_response_us": two_nines,
        "sync_calls": calls or None,
        "average_sync_us": math.fsum(sync.calls * sync.mean_ns for sync in sync_times) / calls / 1000
        if calls
        else None,
        **{name: sync_percentile_us(measured, percent) if calls else None for name, percent in _SYNC.items()},
        "maximum_sync_us": max(sync.max_ns for sync in sync_times) / 1000 if calls else None,
    }


def spread_percent(measured: Sequence[Measurement]) -> float | None:
    """Return the difference of maximum and minimum IOPS of ``measured`` in percent of their mean.

    None for a single measurement, for one too short for a rate, and for a difference below the resolution of the
    engine's clock: 1 ms of the shortest measurement.
    """
    rates = [point.iops for point in measured]
    average = mean(rates)
    if len(rates) < 2 or not average > 0:
        return None
    spread, shortest_ms = 100 * (max(rates) - min(rates)) / average, min(point.runtime_ms for point in measured)
    return spread if any(point.reported is not None for point in measured) or spread * shortest_ms >= 100 else None


def _without_start(stimulus: Stimulus) -> Stimulus:
    """Return the stimulus without its start: a sequential stream starts at another offset in each round."""
    return replace(stimulus, start_bytes=0)


def _means(measured: Sequence[Measurement]) -> Mapping[str, float | None]:
    """Return the figures of a point over a window; response times are those of all its I/Os together."""
    maxima = [point.maximum_response_us for point in measured]
    cpu_loads = [point.host_cpu_percent for point in measured if point.host_cpu_percent is not None]
    return {
        "iops": finite_or_none(mean(point.iops for point in measured)),
        "mb_per_second": finite_or_none(mean(point.mb_per_second for point in measured)),
        "average_response_us": finite_or_none(average_response_us(measured)),
        "maximum_response_us": finite_or_none(max(maxima)),
        "mean_maximum_response_us": finite_or_none(mean(maxima)),
        **percentiles(measured),
        "host_cpu_percent": mean(cpu_loads) if len(cpu_loads) == len(measured) else None,
        **power_figures(measured),
    }


def power_figures(
    measured: Sequence[Measurement], weights: Sequence[float] | None = None
) -> Mapping[str, float | None]:
    """Return the mean power of a point, of the power meter and of the host's CPU packages, and the rates per watt.

    None if a measurement has no power.  ``weights`` are those of the measurements in the means.
    """
    telemetry = [point.telemetry for point in measured]
    iops = mean((point.iops for point in measured), weights)
    mb_per_second = mean((point.mb_per_second for point in measured), weights)
    figures: dict[str, float | None] = {}
    for name, values in (
        ("watts", [sample.watts if sample else None for sample in telemetry]),
        ("host_watts", [sample.host_watts if sample else None for sample in telemetry]),
    ):
        watts = math.nan if None in values else mean((value for value in values if value is not None), weights)
        unit = name.removesuffix("s")
        figures[name] = finite_or_none(watts)
        figures[f"iops_per_{unit}"] = finite_or_none(iops / watts) if watts else None
        figures[f"mb_per_second_per_{unit}"] = finite_or_none(mb_per_second / watts) if watts else None
    return figures


def finite_or_none(value: float) -> float | None:
    """Return the number, or None for nan and infinity."""
    return value if math.isfinite(value) else None


def dut_attributes(dut: Dut) -> Mapping[str, object]:
    """Return a device with the names of result.xml; sizes that it does not report are None."""
    values = asdict(dut)
    del values["array"]  # The array has elements of its own.
    return {name: value or None if name.endswith("_bytes") else value for name, value in values.items()}


def whole_bytes_or_none(value: float) -> int | None:
    """Return an amount in whole bytes; None if it was not counted."""
    return int(value) if math.isfinite(value) else None


def measurement_figures(result: TestResult, measurement: Measurement) -> dict[str, Value]:
    """Return a stimulus and its results with the names of result.xml; None for values that were not measured.

    The seed is a text, because it exceeds the integers that a JSON number or a cell of a workbook can have.
    """
    share, timing, timed = result.host_share(measurement), measurement.timing, measurement.timed
    return {
        **stimulus_attributes(measurement.stimulus),
        "seed": str(measurement.seed) if result.facts.imported is None else None,
        "iops": finite_or_none(measurement.iops),
        "mb_per_second": finite_or_none(measurement.mb_per_second),
        "average_response_us": finite_or_none(measurement.average_response_us) if timed else None,
        "maximum_response_us": finite_or_none(measurement.maximum_response_us) if timed else None,
        **percentiles([measurement]),
        **_transfers(measurement),
        "started": timing.started,
        "suite_gap_us": timing.suite_gap_us,
        "idle_gap_ms": timing.idle_gap_ms,
        "idle_ios": timing.idle_ios,
        "idle_bytes": timing.idle_bytes,
        "thread_spread_ms": timing.thread_spread_ms,
        "host_cpu_percent": measurement.host_cpu_percent,
        **power_figures([measurement]),
        "engine_cpu_percent": measurement.engine_cpu_percent,
        "host_limited": share.limited if share else None,
        "evidence": measurement.evidence or None,
        "evidence_sha256": measurement.evidence_sha256 or None,
        "interruptions": timing.interruptions,
    }


def _transfers(measurement: Measurement) -> Mapping[str, int | None]:
    """Return counts and times of reads and writes; None if they were not counted."""
    sides = (("read", measurement.read), ("write", measurement.write))
    values = {
        f"{name}_{what}": value
        for name, side in sides
        for what, value in (("ios", side.ios), ("bytes", side.transferred_bytes), ("runtime_ms", side.runtime_ms))
    }
    return values if measurement.reported is None else dict.fromkeys(values)


def percentiles(measured: Sequence[Measurement]) -> Mapping[str, float | None]:
    """Return the confidence levels in us, with the names of result.xml; None if there are too few I/Os.

    They come from merged bins.  No value exceeds the maximum response time, which is known exactly.
    """
    return dict(zip(_NINES, percentiles_response_us(measured, NINES), strict=True))


def determination_figures(determination: SteadyState) -> dict[str, Value]:
    """Return the determination of a tracked variable with the names of result.xml, without the values of its rounds."""
    return {name: value for name, value in asdict(determination).items() if name != "values"}


def host_settings(prepared: PrepareOutcome) -> Iterator[dict[str, Value]]:
    """Yield the host settings of a point of a profile, as found and as read back, with the names of result.xml."""
    before = dict(prepared.before)
    for name, value in prepared.settings:
        yield {"name": name, "value": value, "before": before.get(name, "")}
