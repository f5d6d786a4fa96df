"""The numbers that a test comes to, each by a name that is the same from run to run: to be compared, to be limited."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..analysis.operating_points import demand_means, operating_points
from ..analysis.recovery import end_rows
from ..model.measurement import (
    METRICS,
    NINES,
    Measurement,
    average_response_us,
    mean,
    percentile_response_us,
    rate_per_second,
    sync_percentile_us,
)
from ..model.steps import Stimulus
from ..model.time_series import TimeLine
from ..spec import DemandSpec, ProfileSpec, WriteSaturationSpec
from ..units import GB, MB
from .result import Loop, Sampling, TestResult

Better = Literal["more", "less"]

NS_PER_MS = 1e6
#: What workloads are asked for besides the standard's confidence levels.
_WORKLOAD_PERCENTILES = (50.0, 99.0)

#: The phases whose whole time line is a result of the test, rather than its preparation.
_MEASURED_PHASES = ("stimulus", "access A", "access C", "histogram")
#: Write saturation begins fresh from the purge: a mean over all of it is none of the state that it ends in.
_WHOLE, _END = "whole stimulus, from FOB on", "end of the stimulus"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFigure:
    """One number of a test: the metric, the point or phase it was measured at, its unit, and which way is better.

    ``rounds`` are the values of the measurement window's rounds, where it comes from such; ``steady`` tells whether
    that window was.  It is the mean of the rounds, weighted by ``weights`` where there are some: a response time is
    that of all I/Os of the window together, so that each round has the weight of its I/Os.
    """

    metric: str
    at: str
    unit: str
    value: float
    better: Better | None
    rounds: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()
    steady: bool = True

    @property
    def name(self) -> str:
        """Both, for people: ``iops at RND 4 KiB 0/100``."""
        return f"{self.metric} at {self.at}"


def key_figures(result: TestResult) -> tuple[KeyFigure, ...]:
    """Return the numbers of a result that are finite, in the order of the test; names are not repeated."""
    return tuple(_named(figure for figure in _figures(result) if math.isfinite(figure.value)).values())


def units(result: TestResult) -> Mapping[str, str]:
    """Return every name that a result like this one may have a number by, finite or not here, and its unit."""
    return {name: figure.unit for name, figure in _named(_figures(result)).items()}


def _named(figures: Iterable[KeyFigure]) -> Mapping[str, KeyFigure]:
    """Return the first of each name."""
    found: dict[str, KeyFigure] = {}
    for figure in figures:
        found.setdefault(figure.name, figure)
    return found


def _figures(result: TestResult) -> tuple[KeyFigure, ...]:
    steady = not result.unsteady
    return (
        *(each for loop in result.loops for each in _loop(result, loop)),
        *_operating_points(result),
        *(_sampling(result, result.sampling) if result.sampling else ()),
        *(each for line, at, rows in _continuous(result) for each in _line(line, at, rows, steady)),
        KeyFigure(metric="written_gb", at="the whole test", unit="GB", value=result.written_bytes / GB, better=None),
    )


def _loop(result: TestResult, loop: Loop) -> Iterator[KeyFigure]:
    """Every point of a loop's window."""
    demands = isinstance(result.facts.spec, DemandSpec)
    rounds = [measured.measurements for measured in result.counted(loop)]
    for measured in zip(*rounds, strict=True):
        at = _at(measured[0].stimulus, loop.part, demands)
        if isinstance(result.facts.spec, ProfileSpec):
            yield from _point(at, measured, steady=True)
            yield from _workload(at, measured)
        else:
            yield from _point(at, measured, loop.steady)


def _at(stimulus: Stimulus, part: str, demands: bool) -> str:
    words = f"{stimulus.label} {stimulus.demand.label}" if demands else stimulus.label
    return words if not part or part in words else f"{part}, {words}"


def _point(at: str, measured: Sequence[Measurement], steady: bool) -> Iterator[KeyFigure]:
    for name in ("iops", "mb_per_second"):
        rounds = tuple(map(METRICS[name].of, measured))
        yield KeyFigure(
            metric=name, at=at, unit=METRICS[name].unit, value=mean(rounds), better="more", rounds=rounds, steady=steady
        )
    timed = measured if all(each.timed for each in measured) else ()
    yield KeyFigure(
        metric="average_response_ms",
        at=at,
        unit="ms",
        value=average_response_us(measured) / 1000,
        better="less",
        rounds=tuple(each.average_response_us / 1000 for each in timed),
        weights=() if any(each.told for each in timed) else tuple(float(each.ios) for each in timed),
        steady=steady,
    )
    for percent in NINES:
        found = percentile_response_us(measured, percent)
        yield _response(f"response_{percent:g}_percent_ms", at, math.nan if found is None else found / 1000, steady)
    greatest = max((each.maximum_response_us for each in measured if each.timed), default=math.nan)
    yield _response("maximum_response_ms", at, greatest / 1000, steady)


def _workload(at: str, measured: Sequence[Measurement]) -> Iterator[KeyFigure]:
    """What is asked of workloads besides: reads and writes apart, other percentiles, synchronizing calls."""
    if 0 < measured[0].stimulus.read_percent < 100:
        for name, rounds in (
            ("read_iops", tuple(each.read.iops for each in measured)),
            ("write_iops", tuple(each.write.iops for each in measured)),
        ):
            yield KeyFigure(metric=name, at=at, unit="IOPS", value=mean(rounds), better="more", rounds=rounds)
    for percent in _WORKLOAD_PERCENTILES:
        found = percentile_response_us(measured, percent)
        yield _response(f"response_{percent:g}_percent_ms", at, math.nan if found is None else found / 1000)
    times = [each.sync for each in measured if each.sync is not None]
    calls = sum(each.calls for each in times)
    if calls:
        total = math.fsum(each.calls * each.mean_ns for each in times)
        yield _response("average_sync_ms", at, total / calls / NS_PER_MS)
        for percent in (*_WORKLOAD_PERCENTILES, NINES[0]):
            found = sync_percentile_us(measured, percent)
            yield _response(f"sync_{percent:g}_percent_ms", at, math.nan if found is None else found / 1000)
        yield _response("maximum_sync_ms", at, max(each.max_ns for each in times) / NS_PER_MS)


def _response(metric: str, at: str, value: float, steady: bool = True) -> KeyFigure:
    return KeyFigure(metric=metric, at=at, unit="ms", value=value, better="less", steady=steady)


def _operating_points(result: TestResult) -> Iterator[KeyFigure]:
    spec, loop = result.facts.spec, result.loop()
    if not isinstance(spec, DemandSpec) or loop is None:
        return
    for point in operating_points(demand_means(loop.window_rounds), spec.operating_points):
        at, steady = f"{point.name} point", loop.steady
        yield KeyFigure(metric="iops", at=at, unit="IOPS", value=point.iops, better="more", steady=steady)
        yield _response("average_response_ms", at, point.art_ms, steady)


def _sampling(result: TestResult, sampling: Sampling) -> Iterator[KeyFigure]:
    """The window of the samples that stood for rounds; nan of write saturation until steady, for it may hold FOB."""
    known = sampling.steady or not isinstance(result.facts.spec, WriteSaturationSpec)
    for tracked, state in sampling.window.determinations if sampling.window else ():
        metric = METRICS[tracked.metric]
        yield KeyFigure(
            metric=tracked.metric,
            at=f"{sampling.phase}, measurement window",
            unit=metric.unit,
            value=state.average if known else math.nan,
            better="less" if tracked.metric == "average_response_ms" else "more",
            rounds=state.values,
            steady=state.steady,
        )


def _continuous(result: TestResult) -> Iterator[tuple[TimeLine, str, range]]:
    """Give each continuous stimulus with a name of its own for it, or for a part of it, and the rows of that."""
    for line in result.lines_apart:
        if line.phase == "stimulus" and isinstance(result.facts.spec, WriteSaturationSpec):
            yield line, _END, end_rows(line)
            yield line, _WHOLE, range(len(line))
        elif line.phase in _MEASURED_PHASES:
            yield line, f"{line.part}, {line.phase}" if line.part else line.phase, range(len(line))


def _line(line: TimeLine, at: str, rows: range, steady: bool) -> Iterator[KeyFigure]:
    """A continuous stimulus, or a part: all I/Os by all time.

    It is at steady state where what the test wants steady is; write saturation wants nothing steady before its end.
    """
    seconds = math.fsum(line.seconds[row] for row in rows)
    ios = math.fsum(line.read_ios[row] + line.write_ios[row] for row in rows)
    if not seconds or not ios:
        return
    moved = math.fsum(line.read_bytes[row] + line.write_bytes[row] for row in rows)
    waited = math.fsum((line.read_ios[row] + line.write_ios[row]) * line.average_response_us[row] for row in rows)
    yield KeyFigure(
        metric="iops", at=at, unit="IOPS", value=rate_per_second(ios, 1000 * seconds), better="more", steady=steady
    )
    yield KeyFigure(
        metric="mb_per_second",
        at=at,
        unit="MB/s",
        value=rate_per_second(moved, 1000 * seconds) / MB,
        better="more",
        steady=steady,
    )
    yield _response("average_response_ms", at, waited / ios / 1000, steady)
    yield _response("maximum_response_ms", at, max(line.maximum_response_us[row] for row in rows) / 1000, steady)
    if line.phase == "histogram":
        for percent in NINES:
            found = percentile_response_us(line.measurements, percent) if line.measurements else None
            name = f"response_{percent:g}_percent_ms"
            yield _response(name, at, math.nan if found is None else found / 1000, steady)
