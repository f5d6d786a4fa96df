"""Key figures: the numbers of a test, with names that are the same in every run, for comparisons and limits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..analysis.operating_points import OperatingPoint, demand_means, operating_points
from ..analysis.recovery import end_rows
from ..model.measurement import (
    METRICS,
    NINES,
    Measurement,
    average_response_us,
    mean,
    percentiles_response_us,
    rate_per_second,
    sync_percentile_us,
)
from ..model.steps import Stimulus
from ..model.time_series import TimeLine
from ..spec import DemandSpec, WriteSaturationSpec, loop_rule, settling_rule
from ..units import GB, MB
from .result import Loop, Sampling, TestResult
from .unsteady_points import loop_is_steady, steady_points

Better = Literal["more", "less"]

NS_PER_MS = 1e6
#: The percentiles of workloads in addition to the standard's confidence levels.
_WORKLOAD_PERCENTILES = (50.0, 99.0)

#: The phases whose whole time line is a result of the test, rather than its preparation.
_MEASURED_PHASES = ("stimulus", "access A", "access C", "histogram")
#: Write saturation starts in the purged state, so the mean of the whole stimulus does not represent its final state.
_WHOLE, _END = "whole stimulus, from FOB on", "end of the stimulus"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFigure:
    """A number of a test: the metric, its point or phase, its unit, and the direction of improvement.

    If it comes from a measurement window, ``rounds`` are the values of the window's rounds.  The value is their mean,
    weighted by ``weights`` if there are any: a response time is that of all I/Os of the window together, so each round
    has the weight of its I/Os.  ``steady`` says whether the test reached the steady state that the figure requires;
    None if it requires none, such as a figure of a profile, or of the end of write saturation.
    """

    metric: str
    at: str
    unit: str
    value: float
    better: Better | None
    rounds: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()
    steady: bool | None = None

    @property
    def unsteady(self) -> bool:
        """Whether the figure requires steady state, which the test did not reach."""
        return self.steady is False

    @property
    def name(self) -> str:
        """Metric and point: ``iops at RND 4 KiB 0/100``."""
        return f"{self.metric} at {self.at}"


def key_figures(result: TestResult) -> tuple[KeyFigure, ...]:
    """Return the finite numbers of a result in the order of the test; names are unique."""
    return tuple(_by_name(figure for figure in _figures(result) if math.isfinite(figure.value)).values())


def units(result: TestResult) -> Mapping[str, str]:
    """Return the unit of every name that a result like this one can have a number for, finite or not."""
    return {name: figure.unit for name, figure in _by_name(_figures(result)).items()}


def _by_name(figures: Iterable[KeyFigure]) -> Mapping[str, KeyFigure]:
    """Return the first figure of each name."""
    by_name: dict[str, KeyFigure] = {}
    for figure in figures:
        by_name.setdefault(figure.name, figure)
    return by_name


def _figures(result: TestResult) -> tuple[KeyFigure, ...]:
    spec = result.facts.spec
    required = loop_rule(spec) or (settling_rule(spec) and not isinstance(spec, WriteSaturationSpec))
    steady = not result.unsteady if required else None
    return (
        *(figure for loop in result.loops for figure in _loop_figures(result, loop)),
        *_operating_points(result),
        *(_sampling_figures(result, result.sampling) if result.sampling else ()),
        *(figure for line, at, rows in _continuous(result) for figure in _line_figures(line, at, rows, steady)),
        KeyFigure(metric="written_gb", at="the whole test", unit="GB", value=result.written_bytes / GB, better=None),
    )


def steady_by_name(result: TestResult) -> Mapping[str, bool | None]:
    """Return whether each point, and the window of samples, is steady, by the names in ``KeyFigure.at``.

    Unlike ``KeyFigure.steady``, it is the point's own verdict (``steady_points``).  Points and phases that were not
    judged, such as histograms, are missing or None.
    """
    by_name: dict[str, bool | None] = {}
    for loop in result.loops:
        steady = steady_points(result, loop)
        demands = {point.demand: verdict for point, verdict in steady.items()}
        for point, verdict in steady.items():
            by_name.setdefault(_at(point, loop.part, isinstance(result.facts.spec, DemandSpec)), verdict)
        by_name |= {at: demands.get(point.demand) for at, point in _points_chosen(result)}
    if result.sampling:
        by_name[_window_name(result.sampling)] = result.sampling.steady
    return by_name


def measurements_by_name(result: TestResult) -> Mapping[str, Sequence[Measurement]]:
    """Return the measurements from which figures come, by the names of their points and phases (``KeyFigure.at``)."""
    by_name: dict[str, Sequence[Measurement]] = {}
    for loop in result.loops:
        for at, measured in loop_points(result, loop):
            by_name.setdefault(at, measured)
    for line, at, rows in _continuous(result):
        if len(rows) == len(line):  # a histogram of a part is not recorded
            by_name.setdefault(at, line.measurements)
    return by_name


def loop_points(result: TestResult, loop: Loop) -> Iterator[tuple[str, Sequence[Measurement]]]:
    """Yield the name of every point of a loop's evaluated rounds, with its measurements in them."""
    demands = isinstance(result.facts.spec, DemandSpec)
    rounds = [measured.measurements for measured in result.evaluated_rounds(loop)]
    for measured in zip(*rounds, strict=True):
        yield _at(measured[0].stimulus, loop.part, demands), measured


def _loop_figures(result: TestResult, loop: Loop) -> Iterator[KeyFigure]:
    """Yield the figures of every point of a loop's window."""
    steady = loop_is_steady(result, loop)
    for at, measured in loop_points(result, loop):
        if result.facts.spec.rounds_are_repeats:
            yield from _point_figures(at, measured, steady=None, percents=(*_WORKLOAD_PERCENTILES, *NINES))
            yield from _workload_figures(at, measured)
        else:
            yield from _point_figures(at, measured, steady, NINES)


def _at(stimulus: Stimulus, part: str, demands: bool) -> str:
    label = f"{stimulus.label} {stimulus.demand.label}" if demands else stimulus.label
    return label if not part or part in label else f"{part}, {label}"


def _point_figures(
    at: str, measured: Sequence[Measurement], steady: bool | None, percents: Sequence[float]
) -> Iterator[KeyFigure]:
    for name in ("iops", "mb_per_second"):
        rounds = tuple(map(METRICS[name].read, measured))
        yield KeyFigure(
            metric=name, at=at, unit=METRICS[name].unit, value=mean(rounds), better="more", rounds=rounds, steady=steady
        )
    if not measured[0].stimulus.timed:
        return
    timed = measured if all(point.timed for point in measured) else ()
    yield KeyFigure(
        metric="average_response_ms",
        at=at,
        unit="ms",
        value=average_response_us(measured) / 1000,
        better="less",
        rounds=tuple(point.average_response_us / 1000 for point in timed),
        weights=() if any(point.reported for point in timed) else tuple(float(point.ios) for point in timed),
        steady=steady,
    )
    yield from _percentile_figures(at, measured, percents, steady)
    maximum_us = max((point.maximum_response_us for point in measured if point.timed), default=math.nan)
    yield _response("maximum_response_ms", at, maximum_us / 1000, steady)


def _workload_figures(at: str, measured: Sequence[Measurement]) -> Iterator[KeyFigure]:
    """Yield figures for workloads only: time of a pass, separate reads and writes, sync calls."""
    if measured[0].stimulus.passes:
        rounds = tuple(point.finish_seconds for point in measured)
        yield KeyFigure(metric="finish_seconds", at=at, unit="s", value=mean(rounds), better="less", rounds=rounds)
    if measured[0].has_both_sides:
        for name, rounds in (
            ("read_iops", tuple(point.read.iops for point in measured)),
            ("write_iops", tuple(point.write.iops for point in measured)),
        ):
            yield KeyFigure(metric=name, at=at, unit="IOPS", value=mean(rounds), better="more", rounds=rounds)
    times = [point.sync for point in measured if point.sync is not None]
    calls = sum(sync.calls for sync in times)
    if calls:
        total_ns = math.fsum(sync.calls * sync.mean_ns for sync in times)
        yield _response("average_sync_ms", at, total_ns / calls / NS_PER_MS)
        for percent in (*_WORKLOAD_PERCENTILES, NINES[0]):
            value_us = sync_percentile_us(measured, percent)
            yield _response(f"sync_{percent:g}_percent_ms", at, math.nan if value_us is None else value_us / 1000)
        yield _response("maximum_sync_ms", at, max(sync.max_ns for sync in times) / NS_PER_MS)


def _percentile_figures(
    at: str, measured: Sequence[Measurement], percents: Sequence[float], steady: bool | None = None
) -> Iterator[KeyFigure]:
    for percent, value_us in zip(percents, percentiles_response_us(measured, percents), strict=True):
        value_ms = math.nan if value_us is None else value_us / 1000
        yield _response(f"response_{percent:g}_percent_ms", at, value_ms, steady)


def _response(metric: str, at: str, value: float, steady: bool | None = None) -> KeyFigure:
    return KeyFigure(metric=metric, at=at, unit="ms", value=value, better="less", steady=steady)


def _operating_points(result: TestResult) -> Iterator[KeyFigure]:
    loop = result.loop()
    for at, point in _points_chosen(result):
        steady = loop is not None and loop_is_steady(result, loop)
        yield KeyFigure(metric="iops", at=at, unit="IOPS", value=point.iops, better="more", steady=steady)
        yield _response("average_response_ms", at, point.art_ms, steady)


def _points_chosen(result: TestResult) -> Iterator[tuple[str, OperatingPoint]]:
    """Yield the operating points with their names."""
    spec, loop = result.facts.spec, result.loop()
    if isinstance(spec, DemandSpec) and loop is not None:
        for point in operating_points(demand_means(loop.window_rounds), spec.operating_points):
            yield f"{point.name} point", point


def _sampling_figures(result: TestResult, sampling: Sampling) -> Iterator[KeyFigure]:
    """Yield the window's figures of the samples that count as rounds.

    They are at steady state if the whole window is: all tracked variables, after the required fills.  For write
    saturation they are nan until then, because the window may include FOB.
    """
    valid = sampling.steady or not isinstance(result.facts.spec, WriteSaturationSpec)
    for tracked, state in sampling.window.determinations if sampling.window else ():
        metric = METRICS[tracked.metric]
        yield KeyFigure(
            metric=tracked.metric,
            at=_window_name(sampling),
            unit=metric.unit,
            value=state.average if valid else math.nan,
            better="less" if tracked.metric == "average_response_ms" else "more",
            rounds=state.values,
            steady=sampling.steady,
        )


def _window_name(sampling: Sampling) -> str:
    return f"{sampling.phase}, measurement window"


def _continuous(result: TestResult) -> Iterator[tuple[TimeLine, str, Sequence[int]]]:
    """Yield each continuous stimulus, or a part of it, with its name and its rows."""
    for line in result.separate_lines:
        if line.phase == "stimulus" and isinstance(result.facts.spec, WriteSaturationSpec):
            yield line, _END, end_rows(line)
            yield line, _WHOLE, range(len(line))
        elif line.phase in _MEASURED_PHASES:
            yield line, f"{line.part}, {line.phase}" if line.part else line.phase, range(len(line))


def _line_figures(line: TimeLine, at: str, rows: Sequence[int], steady: bool | None) -> Iterator[KeyFigure]:
    """Yield the figures of a continuous stimulus or a part of it: all I/Os by all time.

    They are at steady state if everything that the test requires to be steady is.
    """
    seconds = math.fsum(line.seconds[row] for row in rows)
    ios = math.fsum(line.read_ios[row] + line.write_ios[row] for row in rows)
    if not seconds or not ios:
        return
    transferred = math.fsum(line.read_bytes[row] + line.write_bytes[row] for row in rows)
    response_us = math.fsum((line.read_ios[row] + line.write_ios[row]) * line.average_response_us[row] for row in rows)
    yield KeyFigure(
        metric="iops", at=at, unit="IOPS", value=rate_per_second(ios, seconds), better="more", steady=steady
    )
    yield KeyFigure(
        metric="mb_per_second",
        at=at,
        unit="MB/s",
        value=rate_per_second(transferred, seconds) / MB,
        better="more",
        steady=steady,
    )
    yield _response("average_response_ms", at, response_us / ios / 1000, steady)
    if line.phase == "histogram":
        yield from _percentile_figures(at, line.measurements, NINES, steady)
    yield _response("maximum_response_ms", at, max(line.maximum_response_us[row] for row in rows) / 1000, steady)
