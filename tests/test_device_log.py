"""What the suite's engine says and does, compared with the log of the drive: bytes, offsets and times of each I/O."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from snia_pts.analysis.disturbances import engine_deviations
from snia_pts.lab.fio import job
from snia_pts.lab.fio.engine import FioEngine
from snia_pts.lab.process.staged import THREAD_READY
from snia_pts.model.measurement import Measurement, Outcome, Sample
from snia_pts.model.steps import ContinuousStimulus, Idle, Step, Stimulus
from snia_pts.procedures.preconditioning import wipc
from snia_pts.procedures.protocol import drive as drive_procedure
from snia_pts.procedures.ranges import next_start_bytes
from snia_pts.procedures.sampled_steady_state import run_until_steady
from snia_pts.units import KIB
from tests.simulated_device import slow
from tests.simulated_device.drive import SimulatedDrive, loop_drive
from tests.simulated_device.oracle import Io
from tests.strategies import dut, spec_of

pytestmark = pytest.mark.root

BLOCK = 4 * KIB


@dataclass(frozen=True)
class Bench:
    """The suite's engine on a drive, and the drive's log since it was made."""

    drive: SimulatedDrive
    engine: FioEngine

    def measure(self, *stimuli: Stimulus) -> list[Measurement]:
        return list(self.engine.measure(stimuli))

    def answer(self, step: Step) -> Iterable[Outcome]:
        """Perform a step of a procedure."""
        if isinstance(step, ContinuousStimulus):
            return self.engine.measure_continuous(step)
        return [self.engine.idle(step.seconds)] if isinstance(step, Idle) else self.engine.measure(step.stimuli)

    def writes(self, *, began: float = 0.0) -> list[Io]:
        """Return the writes that arrived since a time."""
        return [io for io in self.drive.ios(began, time.monotonic()) if io.kind == "write"]

    def during(self, point: Measurement) -> list[Io]:
        """Return what arrived while a point ran, of the kinds that it has.

        Another process that looks at new devices only reads, so it is not among the I/Os of a point that writes.
        """
        kinds = [kind for kind, side in (("read", point.read), ("write", point.write)) if side.ios]
        ios = self.drive.ios(point.timing.started_monotonic_ns / 1e9, point.timing.ended_monotonic_ns / 1e9)
        return [io for io in ios if io.kind in kinds]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A drive as a block device, and the engine on it."""
    evidence = tmp_path / "evidence"
    evidence.mkdir()
    with loop_drive(tmp_path) as drive:
        yield Bench(drive, FioEngine(str(drive.path), evidence, seed=1, io_engine="libaio"))


def stimulus(**changes: Any) -> Stimulus:
    """Return writes over all of the drive."""
    facts: dict[str, Any] = {
        "access": "RND",
        "read_percent": 0,
        "block_size_bytes": BLOCK,
        "thread_count": 1,
        "queue_depth": 1,
        "range_offset_bytes": 0,
        "range_bytes": slow.CAPACITY_BYTES,
        "seconds": 0.4,
    }
    return Stimulus(**{**facts, **changes})


def most_outstanding(ios: Sequence[Io]) -> int:
    """Return how many of them the drive had at a time at most."""
    changes = sorted([(io.arrived, 1) for io in ios] + [(io.done, -1) for io in ios])
    outstanding = most = 0
    for _, change in changes:
        outstanding += change
        most = max(most, outstanding)
    return most


def by_share(ios: Sequence[Io], request: Stimulus) -> list[list[Io]]:
    """Return the I/Os of each sequential thread, by the share of the range that they are in."""
    begin, found = request.range_offset_bytes, []
    for share in request.share_bytes:
        found.append([io for io in ios if begin <= io.offset < begin + share])
        begin += share
    return found


def blocks(ios: Sequence[Io], block: int) -> list[int]:
    """Return the number of each block of them; the kernel may have joined neighbours to one request."""
    return [number for io in ios for number in range(io.offset // block, (io.offset + io.length) // block)]


# -- preconditioning ----------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(("threads", "depth"), [(1, 16), (2, 8)])
def test_wipc_writes_twice_the_capacity_within_the_active_range(bench: Bench, threads: int, depth: int) -> None:
    """AR 75 %: 2 x user capacity are 2.67 passes over it, at the loop's TC and QD, and nothing beyond it is touched.

    Two passes are whole; the third one is partial, of as many blocks as are left, from each thread's beginning on.
    """
    spec = spec_of(
        "iops",
        setup__active_range_percent=75,
        setup__thread_count=threads,
        setup__queue_depth=depth,
    )
    block = 128 * KIB
    request = wipc(spec, dut(capacity_bytes=slow.CAPACITY_BYTES), block)
    (whole,) = bench.measure(request)
    written = bench.writes()
    passes = Counter(blocks(written, block))
    active, amount = slow.CAPACITY_BYTES * 3 // 4 // block, 2 * slow.CAPACITY_BYTES // block

    assert (request.thread_count, request.queue_depth) == (threads, depth)
    assert whole.write.transferred_bytes == sum(io.length for io in written) == 2 * slow.CAPACITY_BYTES
    assert sorted(passes) == list(range(active))
    assert Counter(passes.values()) == {3: amount - 2 * active, 2: 3 * active - amount}
    for share in by_share(written, request):
        third = [number for number, times in passes.items() if times == 3 and number in set(blocks(share, block))]
        assert sorted(third) == list(range(min(blocks(share, block)), min(blocks(share, block)) + len(third)))
    assert most_outstanding(written) == threads * depth


# -- sequential streams -------------------------------------------------------------------------------------------


def test_each_stream_goes_on_where_it_stopped(bench: Bench) -> None:
    """T4 over three rounds: each thread writes its share block by block, and none is left out or written twice."""
    request = stimulus(access="SEQ", thread_count=4, queue_depth=2, seconds=0.4)
    rounds: list[Measurement] = []
    for _ in range(3):
        start = next_start_bytes(request, rounds[-1]) if rounds else 0
        rounds += bench.measure(replace(request, start_bytes=start))

    for before, after in pairwise(rounds):
        stopped = [a + b for a, b in zip(before.stimulus.starts, before.stream_bytes, strict=True)]
        assert after.stimulus.start_bytes == tuple(stopped)
    for point in rounds:
        seen = [sum(io.length for io in share) for share in by_share(bench.during(point), request)]
        assert seen == list(point.stream_bytes)
        assert sum(seen) == point.write.transferred_bytes
    for share in by_share(bench.writes(), request):
        written = blocks(share, BLOCK)
        assert sorted(written) == list(range(min(written), min(written) + len(written)))


# -- times --------------------------------------------------------------------------------------------------------


def idle_seconds(bench: Bench, before: Measurement, after: Measurement) -> float:
    """Return the time between the last I/O of a point and the first of the next, by the drive's log."""
    first, last = bench.during(after)[0], max(io.done for io in bench.during(before))
    between = [io for io in bench.drive.ios(last, first.arrived) if io is not first and io.kind in ("read", "write")]
    assert between == [first]
    return first.arrived - last


@pytest.mark.long
def test_idle_times_are_as_asked_to_a_hundredth(bench: Bench) -> None:
    """Between points and before samples; the time that is measured is the drive's own, or a little more."""
    (first,) = bench.measure(stimulus(queue_depth=4))
    bench.engine.idle(2.0)
    (second,) = bench.measure(stimulus(queue_depth=4, thread_count=2))
    bench.engine.idle(3.0)
    step = ContinuousStimulus(phase="access C", stimulus=stimulus(queue_depth=4), sample_seconds=0.2)
    (*_, third) = bench.engine.measure_continuous(step)
    assert isinstance(third, Measurement)

    for asked, before, after in ((2.0, first, second), (3.0, second, third)):
        idle, timings = idle_seconds(bench, before, after), (after.timing.idle_gap_ms or 0.0) / 1000
        assert asked <= idle < 1.01 * asked
        assert timings == pytest.approx(idle, abs=0.01 * asked)


@pytest.mark.long
def test_threads_start_at_one_moment(bench: Bench) -> None:
    """The first I/Os of four threads arrive together, in a point and where samples are taken; the suite says so."""
    request = stimulus(access="SEQ", thread_count=4, seconds=0.6)
    (*_, sampled) = bench.engine.measure_continuous(
        ContinuousStimulus(phase="PC", stimulus=request, sample_seconds=0.3)
    )
    assert isinstance(sampled, Measurement)
    for point in (*bench.measure(request), sampled):
        apart = started_apart_ms(bench, point)
        assert apart < 30
        assert (point.timing.thread_spread_ms or 0.0) == pytest.approx(apart, abs=30)
        assert "threads apart" not in dict(engine_deviations([replace(point, stimulus=replace(request, seconds=6.0))]))


@pytest.mark.long
def test_threads_that_start_apart_are_noticed(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If one of two threads is slowed on purpose, the reported spread is that of the drive's log, with a warning."""
    delayed = f"{THREAD_READY} && {{ mkdir {tmp_path / 'one'} 2>/dev/null && sleep 0.25; true; }}"
    monkeypatch.setattr(job, "THREAD_READY", delayed)
    (point,) = bench.measure(stimulus(access="SEQ", thread_count=2, seconds=1.0))
    apart = started_apart_ms(bench, point)

    assert apart > 240
    assert point.timing.thread_spread_ms == pytest.approx(apart, abs=30)
    detail = dict(engine_deviations([point]))["threads apart"]
    assert "in 1 of 1 measurement threads started apart by more than 1 %" in detail


def started_apart_ms(bench: Bench, point: Measurement) -> float:
    """Return how far apart the first I/Os of sequential threads arrived, by the drive's log."""
    firsts = [share[0].arrived for share in by_share(bench.during(point), point.stimulus)]
    return 1000 * (max(firsts) - min(firsts))


# -- counts -------------------------------------------------------------------------------------------------------


@pytest.mark.long_but_first
@pytest.mark.parametrize(("read_percent", "threads", "depth"), [(0, 2, 4), (100, 1, 1), (50, 1, 8)])
def test_after_a_ramp_the_ios_that_ended_in_the_measured_time_are_counted(
    bench: Bench, read_percent: int, threads: int, depth: int
) -> None:
    """What the drive answered from the ramp's end on is counted, with response times and bytes, and makes the rate."""
    request = stimulus(read_percent=read_percent, thread_count=threads, queue_depth=depth, range_bytes=64 * BLOCK)
    bench.measure(replace(request, read_percent=0, seconds=None, passes=1))  # what was never written is read in no time
    (point,) = bench.measure(replace(request, ramp_seconds=0.6, seconds=0.8))
    seen = bench.during(point)
    ramp_ended = min(io.arrived for io in seen) + 0.6
    measured = [io for io in seen if io.done >= ramp_ended]
    seconds = max(io.done for io in seen) - ramp_ended

    assert len(measured) < 0.8 * len(seen)
    assert point.ios == point.histogram.count
    for kind, side in (("read", point.read), ("write", point.write)):
        ended = sum(io.kind == kind for io in measured)
        assert side.transferred_bytes == side.ios * BLOCK
        assert side.ios == pytest.approx(ended, abs=max(8, 0.02 * ended) if ended else 0)
    assert point.iops == pytest.approx(len(measured) / seconds, rel=0.05)


@pytest.mark.long_but_first
@pytest.mark.parametrize(("access", "read_percent", "depth"), [("SEQ", 0, 1), ("RND", 0, 8), ("RND", 100, 1)])
@pytest.mark.parametrize("passes", [1, 4, 80])
def test_a_rate_is_that_of_the_drive_or_none(
    bench: Bench, access: str, read_percent: int, depth: int, passes: int
) -> None:
    """8 to 640 I/Os: a time below 100 ms gives no rate, though the bytes are the drive's; any other gives the drive's.

    The engine's time begins before the first I/O arrives, and ends after the last answer; it has whole milliseconds.
    """
    request = stimulus(access=access, read_percent=read_percent, queue_depth=depth, range_bytes=8 * BLOCK)
    bench.measure(stimulus(range_bytes=8 * BLOCK, seconds=None, passes=1))  # what was never written is read in no time
    (point,) = bench.measure(replace(request, seconds=None, passes=passes))
    seen = bench.during(point)
    seconds = max(io.done for io in seen) - min(io.arrived for io in seen)

    assert sum(io.length for io in seen) == passes * 8 * BLOCK
    assert point.read.transferred_bytes + point.write.transferred_bytes == passes * 8 * BLOCK
    assert seconds - 0.002 <= point.runtime_ms / 1000
    if point.runtime_ms < 100:
        assert math.isnan(point.iops)
        assert math.isnan(point.mb_per_second)
    else:
        assert 0.9 * len(seen) / seconds < point.iops < 1.02 * len(seen) / seconds
        assert point.mb_per_second == pytest.approx(point.iops * BLOCK / 1e6)
    assert passes > 1 or seconds < 0.1
    assert passes < 80 or seconds > 0.1


def test_a_sample_shorter_than_the_clock_resolves_has_no_rate(bench: Bench) -> None:
    """The last sample of an amount: all bytes are in the samples, and rates only in those of at least 100 ms."""
    request = stimulus(queue_depth=8, seconds=3.0, limit_bytes=1_200 * BLOCK)
    step = ContinuousStimulus(phase="stimulus", stimulus=request, sample_seconds=0.1)
    *samples, _ = bench.engine.measure_continuous(step)
    short = [sample for sample in samples if isinstance(sample, Sample) and sample.seconds < 0.0999]
    long = [sample for sample in samples if isinstance(sample, Sample) and sample not in short]

    assert sum(sample.write_bytes for sample in (*short, *long)) == sum(io.length for io in bench.writes())
    assert len(short) + len(long) == len(samples) > 3
    assert all(math.isnan(sample.iops) and math.isnan(sample.mb_per_second) for sample in short if sample.ios)
    assert all(sample.iops == pytest.approx(sample.ios / sample.seconds) for sample in long)


@pytest.mark.long_but_first
@pytest.mark.parametrize("threads", [1, 3])
def test_write_saturation_ends_at_its_amount(bench: Bench, threads: int) -> None:
    """The samples are together what the drive saw: the amount, rounded up to a block of each thread."""
    amount = slow.CAPACITY_BYTES // 2 + 5 * BLOCK
    rule = replace(spec_of("wsat").settling, sample_seconds=0.5)
    bytes_of_samples = []

    def answer(step: Step) -> Iterator[Outcome]:
        for outcome in bench.answer(step):
            if isinstance(outcome, Sample):
                bytes_of_samples.append(outcome.write_bytes)
            yield outcome

    request = stimulus(thread_count=threads, queue_depth=8, seconds=0.5)
    procedure = run_until_steady(request, rule, phase="stimulus", max_samples=240, max_written_bytes=amount)
    ended = drive_procedure(procedure, answer)
    written = sum(io.length for io in bench.writes())

    assert ended.reason == "written"
    assert written == sum(bytes_of_samples)
    assert amount <= written < amount + threads * BLOCK
