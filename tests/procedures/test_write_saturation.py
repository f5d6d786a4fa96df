"""Write saturation: writes until 4 x capacity, the time, or steady state, whichever is first (chapter 10)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from snia_pts.model.steps import Purge, Step, Stimulus
from snia_pts.procedures import Conclusion
from snia_pts.procedures.sampled_steady_state import SaturationEnd
from snia_pts.spec import TestClass
from snia_pts.units import GB, KIB
from tests.courses import Behaviour, Course, course, is_steady, outline, refusal, whole_runs
from tests.strategies import CLASSES, VERSIONS, WILD, dut, series, spec_of

EVERY = tuple(product(VERSIONS, CLASSES))
HOURS = {"2.0.2": 6, "1.1": 24}
#: The patterns of 2.0.2: access, read share, block size in KiB.
PATTERNS = {
    "write-intensive": ("RND", 0, 4),
    "oltp": ("RND", 65, 8),
    "vod": ("SEQ", 90, 128),
    "meta-data": ("SEQ", 50, 0.5),
}
#: The composite mix: KiB and percent.
COMPOSITE = {0.5: 4, 1: 1, 1.5: 1, 2: 1, 2.5: 1, 3: 1, 3.5: 1, 4: 67, 8: 10, 16: 7, 32: 3, 64: 3}
#: Too large to be written four times.
ENDLESS = 10**18


def by_half_hours(levels: list[int]) -> Behaviour:
    """Return a behaviour whose IOPS change with each sample that is judged, and stay until the next."""
    return lambda step, stimulus, number: levels[(number - 1) // 30 % len(levels)]


def reason(conclusion: Conclusion) -> str:
    assert isinstance(conclusion, SaturationEnd)
    return conclusion.reason


def minutes(run: Course) -> int:
    """Return how many samples the stimulus was measured for."""
    line = run.result().time_line("stimulus")
    assert line is not None
    return len(line)


def written(run: Course) -> int:
    """Return the bytes that the stimulus wrote."""
    (line,) = run.result().lines("stimulus")
    return sum(measurement.write.transferred_bytes for measurement in line.measurements)


# -- what is asked for -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_course(pts: str, test_class: TestClass) -> None:
    """A purge and the writes at once, without preconditioning; in 2.0.2 a histogram of 20 minutes follows."""
    run = course(spec_of("wsat", pts, test_class))
    histogram = [("histogram", 1200)] if pts == "2.0.2" else []

    assert outline(run.steps) == [("purge", 0), ("stimulus", 121 * 60), *histogram]
    assert run.stretches("stimulus")[0].samples == 121


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_demand(pts: str, test_class: TestClass) -> None:
    """Writes and histogram run at T4Q32, in the client class at T2Q16."""
    run = course(spec_of("wsat", pts, test_class))
    demands = {step.stimulus.demand.label for step in run.stretches()}

    assert demands == {"T4Q32" if test_class == "enterprise" else "T2Q16"}


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("test_class", CLASSES)
def test_patterns(name: str, test_class: TestClass) -> None:
    """The operator may choose another pattern of 2.0.2; the histogram is of 4 KiB random writes all the same."""
    run = course(spec_of("wsat", "2.0.2", test_class, stimulus__name=name), dut(capacity_bytes=ENDLESS))
    stimulus, histogram = (step.stimulus for step in run.stretches())

    assert (stimulus.access, stimulus.read_percent, stimulus.largest_block_bytes / KIB) == PATTERNS[name]
    assert histogram.label == "RND 4 KiB 0/100"
    assert stimulus.skew == ()


def test_composite_pattern() -> None:
    """The composite pattern has twelve sizes in the standard's shares, three zones of skew, and is 40/60."""
    run = course(spec_of("wsat", stimulus__name="composite"), dut(capacity_bytes=ENDLESS))
    stimulus = run.stretches("stimulus")[0].stimulus

    assert {share.size_bytes / KIB: share.percent for share in stimulus.block_shares} == COMPOSITE
    assert [(zone.access_percent, zone.range_percent) for zone in stimulus.skew] == [(50, 5), (30, 15), (20, 80)]
    assert (stimulus.access, stimulus.read_percent) == ("RND", 40)


@pytest.mark.parametrize("ending", ["steady state", "written", "time"])
@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_histogram_follows_whatever_ended_the_writes(pts: str, test_class: TestClass, ending: str) -> None:
    """The histogram of 2.0.2 is the last step, right after the writes, whole, and 1.1 has none."""
    device = dut(capacity_bytes=GB // 2 if ending == "written" else ENDLESS)
    run = course(spec_of("wsat", pts, test_class), device, by_half_hours([100, 1000] if ending == "time" else [100]))

    assert reason(run.conclusion) == ending
    assert {step.phase for step in run.stretches()[:-1]} <= {"stimulus"}
    assert len(run.stretches("histogram")) == (pts == "2.0.2")
    if pts == "2.0.2":
        assert run.steps[-1] == run.stretches("histogram")[0]
        assert run.stretches("histogram")[0].sample_seconds is None
    assert [step.kind for step in run.steps].count("purge") == 1
    assert isinstance(run.steps[0], Purge)


# -- the three stop rules --------------------------------------------------------------------------------------------


def ends(levels: list[int], capacity_bytes: int, most_minutes: int) -> tuple[str, int, int]:
    """Return what ends 4 KiB writes of so many I/Os per second, in which minute, and the blocks written: the oracle."""
    blocks, judged = 0, []
    most_blocks = -(-4 * capacity_bytes // 4096)
    for minute in range(1, most_minutes + 1):
        level = levels[(minute - 1) // 30 % len(levels)]
        reached = blocks + 60 * level >= most_blocks
        blocks = min(most_blocks, blocks + 60 * level)
        if (minute - 1) % 30 == 0:
            assume(not reached)  # both at once: either reason is right
            judged.append(level)
            if len(judged) >= 5 and is_steady(judged[-5:]):
                return "steady state", minute, blocks
        if reached:
            return "written", minute, blocks
    return "time", most_minutes, blocks


@given(series(13), st.floats(0.01, 1.3), st.sampled_from(EVERY), st.integers(0, 7))
def test_ends_at_whichever_is_first(
    levels: list[int], fullness: float, which: tuple[str, TestClass], sectors: int
) -> None:
    """The reason, the minute, and the bytes to the block are those of the rule that a minute-by-minute count finds."""
    pts, test_class = which
    total = sum(60 * 30 * level for level in levels) * HOURS[pts] // 6
    device = dut(capacity_bytes=4096 * max(2, int(fullness * total / 4)) + 512 * sectors)
    run = course(spec_of("wsat", pts, test_class), device, by_half_hours(levels))
    why, minute, blocks = ends(levels, device.capacity_bytes, 60 * HOURS[pts])

    assert reason(run.conclusion) == why
    assert minutes(run) == minute
    assert written(run) == 4096 * blocks
    assert run.result().steady == (why == "steady state")


def test_steady_state_is_seen_at_minute_121_at_the_earliest() -> None:
    """Samples 1, 31, 61, 91 and 121 make the first window: none is judged before."""
    run = course(spec_of("wsat"), dut(capacity_bytes=ENDLESS))

    assert (reason(run.conclusion), minutes(run)) == ("steady state", 121)
    sampling = run.result().sampling
    assert sampling is not None
    assert [item.minute for item in sampling.rounds] == [1, 31, 61, 91, 121]
    assert sampling.window is not None
    assert sampling.window.numbers == (1, 2, 3, 4, 5)


def test_steady_state_can_be_left_out() -> None:
    """Where the operator switches that end off, a steady drive is written to for the whole time, in one stretch."""
    run = course(spec_of("wsat", saturation__until_steady=False), dut(capacity_bytes=ENDLESS))

    assert (reason(run.conclusion), minutes(run)) == ("time", 360)
    assert len(run.stretches("stimulus")) == 1
    assert run.result().steady


@pytest.mark.parametrize(("wild", "minute"), [(0, 121), (1, 151), (2, 181), (5, 271), (7, 331)])
def test_steady_state_is_judged_every_30_minutes(wild: int, minute: int) -> None:
    """Each wild sample at the begin puts the end off by 30 minutes, and only samples that are judged matter."""
    levels = [1000 * 10**number for number in range(wild)][::-1] + [100] * 20

    def iops(step: Step, stimulus: Stimulus, number: int) -> float:
        return levels[(number - 1) // 30] if number % 30 == 1 else 1 + number % 30 * 50

    run = course(spec_of("wsat"), dut(capacity_bytes=ENDLESS), iops)

    assert (reason(run.conclusion), minutes(run)) == ("steady state", minute)


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_time_ends_it(pts: str, test_class: TestClass) -> None:
    """A drive that is neither filled nor steady is written for 6 hours, in 1.1 for 24, and this is no failure."""
    run = course(spec_of("wsat", pts, test_class), dut(capacity_bytes=ENDLESS), by_half_hours([100, 1000]))
    asked = sum(step.stimulus.seconds or 0 for step in run.stretches("stimulus"))
    result = run.result()

    assert reason(run.conclusion) == "time"
    assert asked == 3600 * HOURS[pts] == 60 * minutes(run)
    assert result.verdict.startswith("COMPLETE: ")
    assert result.verdict.endswith(" elapsed, steady state not reached")
    assert result.achieved


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_four_times_the_capacity_ends_it(pts: str, test_class: TestClass) -> None:
    """4 x 960 GB are written to the byte, in the client class too, whose range is smaller, and this is no failure."""
    run = course(spec_of("wsat", pts, test_class), iops=lambda *_: 200_000)
    result = run.result()

    assert reason(run.conclusion) == "written"
    assert written(run) == 3_840_000_000_000
    assert result.verdict == "COMPLETE: 4 x user capacity written, steady state not reached"
    assert result.achieved


@whole_runs
@given(
    st.sampled_from([*PATTERNS, "composite"]), st.integers(10**6, 10**13), st.integers(1, 10**6), st.integers(0, 10**6)
)
def test_what_is_written_counts(name: str, capacity_bytes: int, slow: int, faster: int) -> None:
    """Of a mix the writes alone count: they are 4 x capacity but for a block, and never more where time ended it."""
    spec = spec_of("wsat", stimulus__name=name)
    run = course(spec, dut(capacity_bytes=capacity_bytes), by_half_hours([slow, slow + faster]))
    block = run.stretches("stimulus")[0].stimulus.largest_block_bytes

    assert written(run) < 4 * capacity_bytes + block
    if reason(run.conclusion) == "written":
        assert written(run) > 4 * capacity_bytes - block


@given(st.integers(10**6, 10**10), st.lists(st.integers(1, 10**7), min_size=1, max_size=12))
def test_no_stretch_may_write_more_than_is_left(capacity_bytes: int, levels: list[int]) -> None:
    """However fast a drive suddenly is, each stretch is bounded by what is left, rounded up to one block."""
    run = course(spec_of("wsat"), dut(capacity_bytes=capacity_bytes), by_half_hours(levels))
    left = 4 * capacity_bytes

    for step in run.stretches("stimulus"):
        assert step.stimulus.limit_bytes is not None
        assert left <= step.stimulus.limit_bytes < left + 4096
        left -= sum(
            measurement.write.transferred_bytes
            for measurement in run.measurements
            if measurement.stimulus == step.stimulus
        )


@pytest.mark.parametrize("minute", [121, 151, 331])
def test_written_just_when_a_stretch_ends(minute: int) -> None:
    """Where the last byte of 4 x capacity is that of a stretch's last sample, not a block more is written."""
    levels = [100, 1000] * 10
    blocks = sum(60 * levels[passed // 30] for passed in range(minute))
    run = course(spec_of("wsat"), dut(capacity_bytes=blocks * 4096 // 4), by_half_hours(levels))

    assert (reason(run.conclusion), minutes(run), written(run)) == ("written", minute, blocks * 4096)


def test_reads_alone_never_write() -> None:
    """A pattern that only reads has no limit, and ends by steady state or by time."""
    spec = spec_of("wsat")
    reads = replace(spec, patterns=(replace(spec.pattern, read_percent=100),))
    run = course(reads, dut(capacity_bytes=GB), by_half_hours([100, 1000]))

    assert (reason(run.conclusion), written(run)) == ("time", 0)


def test_steady_just_when_the_capacity_was_written_is_steady() -> None:
    """Where both rules hold after the same sample, steady state is the reason."""
    run = course(spec_of("wsat"), dut(capacity_bytes=121 * 60 * 1000 * 4096 // 4))

    assert (reason(run.conclusion), minutes(run)) == ("steady state", 121)


# -- streams and sectors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["vod", "meta-data"])
@pytest.mark.parametrize("capacity_bytes", [2 * 10**11, 10**12, ENDLESS])
def test_a_sequential_pattern_goes_on_where_it_stopped(name: str, capacity_bytes: int) -> None:
    """A stretch begins where the one before stopped, and at the range's start where the rest would not last."""
    run = course(spec_of("wsat", stimulus__name=name), dut(capacity_bytes=capacity_bytes), by_half_hours([100, 1000]))
    stretches = run.stretches("stimulus")
    whole = [
        measurement for measurement in run.measurements if measurement.stimulus in {step.stimulus for step in stretches}
    ]

    assert stretches[0].stimulus.start_bytes == 0
    for before, step in pairwise(zip(whole, stretches, strict=True)):
        earlier, after = before[0], step[1].stimulus
        moved = earlier.read.transferred_bytes + earlier.write.transferred_bytes
        stopped = sum(earlier.stimulus.starts) + moved
        lasts = stopped + moved * (after.seconds or 0) / (earlier.stimulus.seconds or 1) <= capacity_bytes
        assert after.start_bytes == (stopped if lasts else 0)


def test_meta_data_needs_sectors_of_512() -> None:
    """On 4096-byte sectors the 0.5 KiB pattern is refused before the first step, with the reason."""
    message = refusal(spec_of("wsat", stimulus__name="meta-data"), dut(logical_sector_bytes=4096))

    assert "0.5 KiB of the pattern meta-data is not a multiple of its logical sector size of 4096 bytes" in message


def test_other_patterns_run_on_sectors_of_4096() -> None:
    """The other patterns of one size are the same on 4096-byte sectors."""
    for name in ("write-intensive", "oltp", "vod"):
        spec = spec_of("wsat", stimulus__name=name)
        assert course(spec, dut(logical_sector_bytes=4096)).steps == course(spec).steps


def test_wild() -> None:
    """The series that the tests call wild is steady in no window."""
    assert not any(is_steady(WILD[first : first + 5]) for first in range(21))
