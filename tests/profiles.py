"""Results of workload profiles, made without a device: the same arguments give the same values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from snia_pts.model.dut import Dut
from snia_pts.model.histogram import Histogram, SyncTimes
from snia_pts.model.measurement import (
    NO_TRANSFERS,
    Measurement,
    Outcome,
    PrepareOutcome,
    PurgeOutcome,
    Sample,
    Timing,
    Transfers,
)
from snia_pts.model.steps import ContinuousStimulus, Prepare, Purge, Round, Step, Stimulus
from snia_pts.procedures import drive, procedure
from snia_pts.profiles.procedure import Point, points
from snia_pts.profiles.reader import Changes, read_profile
from snia_pts.profiles.spec import Axis, ProfileSpec, Workload
from snia_pts.results.builder import fold
from snia_pts.results.result import Ending, TestResult
from tests import samples

#: IOPS of a point in a repeat, counted from 1.
Rate = Callable[[Point, int], float]


def spec(*workloads: Workload, axes: Sequence[Axis] = (), **changes: Any) -> ProfileSpec:
    """Return a profile, by default of one workload, random reads of 4 KiB."""
    known: dict[str, Any] = {"name": "own", "title": "Own", "description": "What is tried here.", "source": "nobody"}
    return ProfileSpec(**{**known, **changes}, workload=workloads or (workload(),), axis=tuple(axes))


def workload(name: str = "random read", **changes: Any) -> Workload:
    known: dict[str, Any] = {"access": "RND", "read_percent": 100, "block_size": "4 KiB", "seconds": 1.0}
    return Workload(name=name, **{**known, **changes})


def shipped(name: str, **changes: Any) -> ProfileSpec:
    """Return a built-in profile, changed as the options of the command line do it."""
    profile = read_profile(name, Changes(**changes)).spec
    assert isinstance(profile, ProfileSpec)
    return profile


def rate(point: Point, number: int) -> float:
    """Return IOPS that grow with the outstanding I/Os up to a limit, fall with the block size and along the target."""
    stimulus = point.stimulus
    full = 90_000 * stimulus.total_oio / (stimulus.total_oio + 12)
    size = stimulus.largest_block_bytes / 4096
    outer = 1 - 0.4 * stimulus.range_offset_bytes / 960e9
    return full / float(size**0.8) * outer * (1 + 0.01 * (number - 2)) * (0.6 if stimulus.read_percent < 50 else 1)


def result(
    profile: ProfileSpec,
    of: Rate = rate,
    *,
    device: Dut | None = None,
    limits: bool = True,
    stop_after: int | None = None,
    ending: Ending = "finished",
    sync_us: float = 0.0,
    **facts: Any,
) -> TestResult[Any]:
    """Return the result of a profile: each point reaches ``of`` in each of its repeats.

    ``stop_after`` ends the run after so many steps; ``facts`` change those of the run.
    """
    device = device or samples.dut()
    known = {point.name: point for point in points(profile, device)}
    steps: list[tuple[Step, tuple[Outcome, ...]]] = []
    clock = [10**12]

    def answer(step: Step) -> Iterable[Outcome]:
        steps.append((step, tuple(_answers(step, known, of, clock, sync_us))))
        return steps[-1][1]

    drive(procedure(profile, device), answer)
    limit_list = profile.limit if limits else ()
    plain = samples.run_facts(profile, device=device, host=facts.pop("host", None))
    return fold(
        dataclasses.replace(plain, limits=limit_list, **facts),
        steps[:stop_after],
        ending=ending,
        ending_detail="",
        finished="2026-11-03T04:00:00+00:00",
    )


def _answers(step: Step, known: dict[str, Point], of: Rate, clock: list[int], sync_us: float) -> Iterator[Outcome]:
    began = samples.STARTED.isoformat()
    match step:
        case Purge():
            yield PurgeOutcome(method="punch-hole", samples=8, survivors=0, started=began, seconds=0.5, evidence="")
        case Prepare():
            before = tuple((name, "found") for name, _ in step.settings)
            yield PrepareOutcome(started=began, seconds=0.1, settings=step.settings, before=before)
        case Round():
            for stimulus in step.stimuli:
                yield _measured(stimulus, of(known[stimulus.name], step.number), clock, sync_us)
        case ContinuousStimulus():
            iops = of(known[step.stimulus.name], 1) if step.stimulus.name else 1000.0
            count = step.samples if step.sample_seconds else 0
            yield from (
                _sample(step.stimulus, number, iops, step.sample_seconds or 0) for number in range(1, count + 1)
            )
            yield _measured(step.stimulus, iops, clock, 0.0)


def _sample(stimulus: Stimulus, number: int, iops: float, seconds: float) -> Sample:
    ios = round(iops * seconds * (1 + 0.05 * (number % 3)))
    reads = round(ios * stimulus.read_percent / 100)
    size = stimulus.largest_block_bytes
    return Sample(
        number=number,
        ended_seconds=number * seconds,
        seconds=seconds,
        read_ios=reads,
        write_ios=ios - reads,
        read_bytes=size * reads,
        write_bytes=size * (ios - reads),
        average_response_us=100.0,
        maximum_response_us=900.0,
        three_nines_us=None,
        four_nines_us=None,
        five_nines_us=None,
    )


def _measured(stimulus: Stimulus, iops: float, clock: list[int], sync_us: float) -> Measurement:
    seconds = stimulus.seconds or 1.0
    ios = round(iops * seconds)
    reads = round(ios * stimulus.read_percent / 100)
    mean_ns = 1e9 * stimulus.total_oio * seconds / max(1, ios)
    clock[0] += round(2e9 * seconds)
    sides = [_side(stimulus, count, seconds, mean_ns) for count in (reads, ios - reads)]
    sync_ns = max(1, round(1000 * sync_us))
    sync = SyncTimes(
        calls=ios,
        mean_ns=float(sync_ns),
        max_ns=2 * sync_ns,
        histogram=Histogram.from_bins([(sync_ns, ios - ios // 50), (2 * sync_ns, ios // 50)]),
    )
    return Measurement(
        stimulus=stimulus,
        seed=1,
        read=sides[0],
        write=sides[1],
        evidence=f"{clock[0]}-point",
        evidence_sha256=f"{clock[0]:064x}",
        sync=sync if sync_us and dict(stimulus.options).keys() & {"fsync", "fdatasync"} else None,
        timing=Timing(
            started=samples.STARTED.isoformat(),
            started_monotonic_ns=clock[0],
            ended_monotonic_ns=clock[0] + round(1e9 * seconds),
            suite_gap_us=900.0,
            idle_gap_ms=70.0,
        ),
    )


def _side(stimulus: Stimulus, ios: int, seconds: float, mean_ns: float) -> Transfers:
    if not ios:
        return NO_TRANSFERS
    slow = max(1, ios // 50)  # two in a hundred
    bins = [(round(0.8 * mean_ns), ios - slow), (round(5 * mean_ns), slow)] if ios > slow else [(round(mean_ns), ios)]
    return Transfers(
        ios=ios,
        transferred_bytes=ios * stimulus.largest_block_bytes,
        runtime_ms=round(1000 * seconds),
        response_min_ns=round(0.5 * mean_ns),
        response_mean_ns=mean_ns,
        response_max_ns=round(6 * mean_ns),
        histogram=Histogram.from_bins(bins),
    )
