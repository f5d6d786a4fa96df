"""The second implementation of the reports' figures agrees with the first one for any values, not only for a run's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from snia_pts.analysis import consistency
from snia_pts.analysis.operating_points import DemandMean, alternative_points, noise_percent, operating_points
from snia_pts.analysis.recovery import RecoveryTime, back_to_baseline, recovery
from snia_pts.model.steps import Demand
from snia_pts.model.time_series import TimeLine
from snia_pts.spec import OperatingPoints
from tests.recomputation import host
from tests.recomputation.demand import Point, choose, interval
from tests.recomputation.record import Row, total
from tests.recomputation.recoveries import means, return_time
from tests.recomputation.saturation import trend
from tests.test_hostlimit import ceiling, judged, measured
from tests.test_recovery import group, groups

SPEEDS = st.lists(st.integers(80, 120), min_size=1, max_size=60)
SECONDS = st.sampled_from([5.0, 25.0, 60.0])


def table(line: TimeLine) -> list[Row]:
    """Return the samples of a time line as rows of a table of data."""
    names = ("ended_seconds", "seconds", "read_ios", "write_ios", "read_bytes", "write_bytes")
    columns = [getattr(line, name) for name in names]
    return [dict(zip(names, map(repr, row), strict=True)) for row in zip(*columns, strict=True)]


def found(times: dict[str, float]) -> list[float | None]:
    return [None if math.isnan(times[key]) else times[key] for key in ("first", "for_good", "measured", "in_band")]


def begins(time: RecoveryTime) -> list[float | None]:
    return [mean and mean.begin for mean in (time.reached, time.recovered)]


@given(SPEEDS, SECONDS, st.integers(90, 110))
def test_the_return_to_a_baseline_of_any_samples_agrees(speeds: list[int], seconds: float, baseline: int) -> None:
    """Means over a minute enter the band, leave it and return to it at the same times."""
    line = group("C", speeds, seconds=seconds)
    first = back_to_baseline(line, baseline, 60.0)
    kept = table(line)
    second = return_time(means(kept, list(total(kept, "ios")), 60.0), 0.9 * baseline, 1.1 * baseline)
    assert found(second) == [*begins(first), first.measured_seconds, first.in_band_seconds]


@given(SPEEDS, SECONDS)
def test_the_recovery_of_any_samples_agrees(speeds: list[int], seconds: float) -> None:
    """The samples of the last group reach 90 % of the first one's at the same times."""
    lines = groups(speeds, seconds=seconds)
    first = recovery(lines)
    assert first is not None
    kept = table(lines[-1])
    second = return_time(means(kept, list(total(kept, "bytes") / 1e6), seconds), first.threshold, math.inf)
    assert found(second) == [*begins(first.time), first.time.measured_seconds, first.time.in_band_seconds]


@given(st.lists(st.integers(900, 1100), min_size=10, max_size=80))
def test_the_trend_of_any_samples_agrees(values: list[int]) -> None:
    """A trend and its rise are the same by the order of the parts' means and by the fitted line."""
    edges = [len(values) * part // 10 for part in range(11)]
    parts = [float(np.mean(values[edges[part] : edges[part + 1]])) for part in range(10)]
    assume(len(set(parts)) == len(parts))  # equal means have no exact p-value
    rise, p_percent = trend(np.array(values, dtype=float))
    first = consistency.trend([float(value) for value in values])
    assert (first is not None) == (abs(rise) > 10 or p_percent < 1)
    if first is not None:
        assert (first.line_percent, first.p_percent) == pytest.approx((rise, p_percent), rel=1e-9)
        assert first.is_steep == (abs(rise) > 10)


#: Figures on both sides of each limit.
PERCENTS = {
    "engine": [None, 5.0, 20.0, 70.0, 89.0, 95.0],
    "host": [None, 50.0, 92.0, 96.0],
    "busiest": [None, 50.0, 97.0, 99.0],
    "in_drive": [None, 20.0, 60.0, 88.0, 92.0],
    "stolen": [None, 4.0, 11.0, 40.0],
}


@given(
    st.integers(1, 64),
    st.integers(1, 64),
    st.sampled_from([1, 2, 8, 64]),
    st.fixed_dictionaries({name: st.sampled_from(values) for name, values in PERCENTS.items()}),
    st.sampled_from([0, 80_000, 120_000, 1_000_000]),
)
def test_the_verdict_on_the_host_of_any_point_agrees(
    threads: int, depth: int, cpus: int, percents: dict[str, Any], null_iops: int
) -> None:
    """Verdict and reasons follow from the load of CPUs, queue, null target and hypervisor alike."""
    known = {name: math.nan if value is None else value for name, value in percents.items()}
    ceilings = [ceiling(null_iops, thread_count=threads, queue_depth=depth)] if null_iops else []
    first = judged(measured(threads=threads, depth=depth, **percents), *ceilings, cpus=cpus)
    in_drive = math.nan if first.drive_percent is None else first.drive_percent
    assert in_drive == pytest.approx(known["in_drive"], nan_ok=True)
    second = host.Share(
        threads=threads,
        outstanding=threads * depth,
        host_cpus=cpus,
        engine_of_a_cpu=known["engine"],
        ceiling=first.ceiling_percent if first.ceiling_percent is not None else math.nan,
        cpus=known["host"],
        busiest=known["busiest"],
        drive=in_drive,  # a limit may be reached by rounding
        stolen_of_all=percents["stolen"] or 0.0,
    )
    assert host.judge(second) == (first.limited, first.reasons)


DEMANDS = [(threads, depth) for threads in (1, 2, 4) for depth in (1, 2, 4)]
ROUNDS = st.lists(st.lists(st.integers(900, 1000), min_size=5, max_size=5), min_size=9, max_size=9)


@pytest.mark.long
@given(ROUNDS, st.lists(st.sampled_from([0.5, 4.0, 6.0]), min_size=8, max_size=8))
def test_the_operating_points_of_any_loop_agree(rounds: list[list[int]], art_ms: list[float]) -> None:
    """Targets, candidates and alternatives of any IOPS are the same."""
    iops = [
        [float(value * (threads * depth) ** 0.25) for value in row]
        for (threads, depth), row in zip(DEMANDS, rounds, strict=True)
    ]
    arts = [0.5, *art_ms]
    first = [
        DemandMean(
            demand=Demand(thread_count=threads, queue_depth=depth),
            iops=math.fsum(row) / 5,
            art_ms=art,
            rounds=tuple(row),
        )
        for (threads, depth), row, art in zip(DEMANDS, iops, arts, strict=True)
    ]
    second = [
        Point(threads, depth, np.array(row), {"iops": math.fsum(row) / 5, "average_ms": art})
        for (threads, depth), row, art in zip(DEMANDS, iops, arts, strict=True)
    ]
    second.sort(key=lambda point: (point.threads * point.depth, point.threads))
    rule = OperatingPoints(maximum_art_ms=5.0, tolerance_percent=2.0, pre_write_seconds=1.0, histogram_seconds=1.0)
    choices, others = choose(second, 5.0, 2.0), alternative_points(first, rule)
    compared = [point for point in second if point.figures["average_ms"] < 5.0]
    assert noise_percent(first, rule) == pytest.approx(100 * interval(compared))
    for point in operating_points(first, rule):
        again = choices[point.name]
        assert again.target == pytest.approx(point.target_iops)
        assert [candidate.label for candidate in again.candidates] == [item.demand.label for item in point.candidates]
        assert [alternative.label for alternative in again.alternatives] == [
            other.demand.label for other in others[point.name]
        ]
