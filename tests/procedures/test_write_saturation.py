"""Write saturation: writes until 4 x capacity, the time limit or steady state, whichever is first (chapter 10)."""

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
from tests.procedure_runs import Behaviour, ProcedureRun, is_steady, outline, refusal, run_procedure, whole_runs
from tests.strategies import CLASSES, VERSIONS, WILD, dut, series, spec_of

EVERY = tuple(product(VERSIONS, CLASSES))
HOURS = {"2.0.2": 6, "1.1": 24}
#: The patterns of 2.0.2: access, read percent, block size in KiB.
PATTERNS = {
    "write-intensive": ("RND", 0, 4),
    "oltp": ("RND", 65, 8),
    "vod": ("SEQ", 90, 128),
    "meta-data": ("SEQ", 50, 0.5),
}
#: The composite mix: KiB and percent.
COMPOSITE = {0.5: 4, 1: 1, 1.5: 1, 2: 1, 2.5: 1, 3: 1, 3.5: 1, 4: 67, 8: 10, 16: 7, 32: 3, 64: 3}
#: A capacity too large to be written four times.
HUGE = 10**18


def by_half_hours(levels: list[int]) -> Behaviour:
    """Return a behaviour whose IOPS change at each judged sample."""
    return lambda step, stimulus, number: levels[(number - 1) // 30 % len(levels)]


def reason(conclusion: Conclusion) -> str:
    """Return why the writes ended."""
    assert isinstance(conclusion, SaturationEnd)
    return conclusion.reason


def minutes(run: ProcedureRun) -> int:
    """Return how many samples the stimulus was measured for."""
    line = run.result().time_line("stimulus")
    assert line is not None
    return len(line)


def written(run: ProcedureRun) -> int:
    """Return the bytes that the stimulus wrote."""
    (line,) = run.result().lines("stimulus")
    return sum(measurement.write.transferred_bytes for measurement in line.measurements)


# -- steps and stimuli ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_steps(pts: str, test_class: TestClass) -> None:
    """The steps are a purge, the writes without preconditioning and, in 2.0.2, a histogram of 20 minutes."""
    run = run_procedure(spec_of("wsat", pts, test_class))
    histogram = [("histogram", 1200)] if pts == "2.0.2" else []

    assert outline(run.steps) == [("purge", 0), ("stimulus", 121 * 60), *histogram]
    assert run.continuous_stimuli("stimulus")[0].samples == 121


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_demand(pts: str, test_class: TestClass) -> None:
    """Writes and histogram run at T4Q32 in the enterprise class and at T2Q16 in the client class."""
    run = run_procedure(spec_of("wsat", pts, test_class))
    demands = {step.stimulus.demand.label for step in run.continuous_stimuli()}

    assert demands == {"T4Q32" if test_class == "enterprise" else "T2Q16"}


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("test_class", CLASSES)
def test_patterns(name: str, test_class: TestClass) -> None:
    """Each pattern of 2.0.2 can be selected; the histogram is RND 4 KiB writes with all of them."""
    run = run_procedure(spec_of("wsat", "2.0.2", test_class, stimulus__name=name), dut(capacity_bytes=HUGE))
    stimulus, histogram = (step.stimulus for step in run.continuous_stimuli())

    assert (stimulus.access, stimulus.read_percent, stimulus.largest_block_bytes / KIB) == PATTERNS[name]
    assert histogram.label == "RND 4 KiB 0/100"
    assert stimulus.skew == ()


def test_composite_pattern() -> None:
    """The composite pattern is 40/60, with the standard's shares of twelve sizes and three zones of skew."""
    run = run_procedure(spec_of("wsat", stimulus__name="composite"), dut(capacity_bytes=HUGE))
    stimulus = run.continuous_stimuli("stimulus")[0].stimulus

    assert {share.size_bytes / KIB: share.percent for share in stimulus.block_shares} == COMPOSITE
    assert [(zone.access_percent, zone.range_percent) for zone in stimulus.skew] == [(50, 5), (30, 15), (20, 80)]
    assert (stimulus.access, stimulus.read_percent) == ("RND", 40)


@pytest.mark.parametrize("ending", ["steady state", "written", "time"])
@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_histogram_follows_every_end_of_the_writes(pts: str, test_class: TestClass, ending: str) -> None:
    """The histogram of 2.0.2 directly follows the writes, is the last step and has no samples; 1.1 has none."""
    device = dut(capacity_bytes=GB // 2 if ending == "written" else HUGE)
    run = run_procedure(
        spec_of("wsat", pts, test_class), device, by_half_hours([100, 1000] if ending == "time" else [100])
    )

    assert reason(run.conclusion) == ending
    assert {step.phase for step in run.continuous_stimuli()[:-1]} <= {"stimulus"}
    assert len(run.continuous_stimuli("histogram")) == (pts == "2.0.2")
    if pts == "2.0.2":
        assert run.steps[-1] == run.continuous_stimuli("histogram")[0]
        assert run.continuous_stimuli("histogram")[0].sample_seconds is None
    assert [step.kind for step in run.steps].count("purge") == 1
    assert isinstance(run.steps[0], Purge)


# -- the three stop rules --------------------------------------------------------------------------------------------


def ends(levels: list[int], capacity_bytes: int, most_minutes: int) -> tuple[str, int, int]:
    """Return the expected end of 4 KiB writes with these IOPS: the reason, the minute and the blocks written."""
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


@pytest.mark.long
@given(series(13), st.floats(0.01, 1.3), st.sampled_from(EVERY), st.integers(0, 7))
def test_ends_at_the_first_of_the_three_conditions(
    levels: list[int], fullness: float, which: tuple[str, TestClass], sectors: int
) -> None:
    """The reason, the minute and the bytes written equal those of a minute-by-minute count."""
    pts, test_class = which
    total = sum(60 * 30 * level for level in levels) * HOURS[pts] // 6
    device = dut(capacity_bytes=4096 * max(2, int(fullness * total / 4)) + 512 * sectors)
    run = run_procedure(spec_of("wsat", pts, test_class), device, by_half_hours(levels))
    expected, minute, blocks = ends(levels, device.capacity_bytes, 60 * HOURS[pts])

    assert reason(run.conclusion) == expected
    assert minutes(run) == minute
    assert written(run) == 4096 * blocks
    assert run.result().steady == (expected == "steady state")


def test_steady_state_is_possible_from_minute_121_on() -> None:
    """Samples 1, 31, 61, 91 and 121 are the first window."""
    run = run_procedure(spec_of("wsat"), dut(capacity_bytes=HUGE))

    assert (reason(run.conclusion), minutes(run)) == ("steady state", 121)
    sampling = run.result().sampling
    assert sampling is not None
    assert [sampled.minute for sampled in sampling.rounds] == [1, 31, 61, 91, 121]
    assert sampling.window is not None
    assert sampling.window.numbers == (1, 2, 3, 4, 5)


def test_the_end_at_steady_state_can_be_disabled() -> None:
    """With `until_steady` off, a steady drive is written for the whole time, in one continuous stimulus."""
    run = run_procedure(spec_of("wsat", saturation__until_steady=False), dut(capacity_bytes=HUGE))

    assert (reason(run.conclusion), minutes(run)) == ("time", 360)
    assert len(run.continuous_stimuli("stimulus")) == 1
    assert run.result().steady


@pytest.mark.parametrize(("unsteady", "minute"), [(0, 121), (1, 151), (2, 181), (5, 271), (7, 331)])
def test_steady_state_is_judged_every_30_minutes(unsteady: int, minute: int) -> None:
    """Each unsteady judged sample at the start delays the end by 30 minutes; the samples between do not matter."""
    levels = [1000 * 10**number for number in range(unsteady)][::-1] + [100] * 20

    def iops(step: Step, stimulus: Stimulus, number: int) -> float:
        return levels[(number - 1) // 30] if number % 30 == 1 else 1 + number % 30 * 50

    run = run_procedure(spec_of("wsat"), dut(capacity_bytes=HUGE), iops)

    assert (reason(run.conclusion), minutes(run)) == ("steady state", minute)


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_the_time_limit_ends_the_writes(pts: str, test_class: TestClass) -> None:
    """A drive that is neither filled nor steady is written for 6 hours (24 in 1.1), and the verdict is COMPLETE."""
    run = run_procedure(spec_of("wsat", pts, test_class), dut(capacity_bytes=HUGE), by_half_hours([100, 1000]))
    seconds = sum(step.stimulus.seconds or 0 for step in run.continuous_stimuli("stimulus"))
    result = run.result()

    assert reason(run.conclusion) == "time"
    assert seconds == 3600 * HOURS[pts] == 60 * minutes(run)
    assert result.verdict.startswith("COMPLETE: ")
    assert result.verdict.endswith(" elapsed, steady state NOT ACHIEVED")
    assert result.achieved


@pytest.mark.parametrize(("pts", "test_class"), EVERY)
def test_four_times_the_capacity_ends_the_writes(pts: str, test_class: TestClass) -> None:
    """Exactly 4 x 960 GB are written, also in the client class with its smaller range; the verdict is COMPLETE."""
    run = run_procedure(spec_of("wsat", pts, test_class), iops=lambda *_: 200_000)
    result = run.result()

    assert reason(run.conclusion) == "written"
    assert written(run) == 3_840_000_000_000
    assert result.verdict == "COMPLETE: 4 x user capacity written, steady state NOT ACHIEVED"
    assert result.achieved


@whole_runs
@given(
    st.sampled_from([*PATTERNS, "composite"]), st.integers(10**6, 10**13), st.integers(1, 10**6), st.integers(0, 10**6)
)
def test_only_writes_count_towards_the_capacity(name: str, capacity_bytes: int, iops: int, increase: int) -> None:
    """Reads of a mix do not count: the writes end within a block of 4 x capacity, or earlier by another condition."""
    spec = spec_of("wsat", stimulus__name=name)
    run = run_procedure(spec, dut(capacity_bytes=capacity_bytes), by_half_hours([iops, iops + increase]))
    block = run.continuous_stimuli("stimulus")[0].stimulus.largest_block_bytes

    assert written(run) < 4 * capacity_bytes + block
    if reason(run.conclusion) == "written":
        assert written(run) > 4 * capacity_bytes - block


@given(st.integers(10**6, 10**10), st.lists(st.integers(1, 10**7), min_size=1, max_size=12))
def test_each_stimulus_is_limited_to_the_rest_of_the_capacity(capacity_bytes: int, levels: list[int]) -> None:
    """At any speed, each stimulus is limited to the rest of 4 x capacity, rounded up to one block."""
    run = run_procedure(spec_of("wsat"), dut(capacity_bytes=capacity_bytes), by_half_hours(levels))
    remaining = 4 * capacity_bytes

    for step in run.continuous_stimuli("stimulus"):
        assert step.stimulus.limit_bytes is not None
        assert remaining <= step.stimulus.limit_bytes < remaining + 4096
        remaining -= sum(
            measurement.write.transferred_bytes
            for measurement in run.measurements
            if measurement.stimulus == step.stimulus
        )


@pytest.mark.parametrize("minute", [121, 151, 331])
def test_capacity_written_exactly_at_the_end_of_a_stimulus(minute: int) -> None:
    """If a stimulus's last sample ends exactly at 4 x capacity, no further block is written."""
    levels = [100, 1000] * 10
    blocks = sum(60 * levels[passed // 30] for passed in range(minute))
    run = run_procedure(spec_of("wsat"), dut(capacity_bytes=blocks * 4096 // 4), by_half_hours(levels))

    assert (reason(run.conclusion), minutes(run), written(run)) == ("written", minute, blocks * 4096)


def test_a_pattern_of_reads_ends_at_the_time_limit() -> None:
    """A pattern of reads only writes nothing, and an unsteady drive ends it at the time limit."""
    spec = spec_of("wsat")
    reads = replace(spec, patterns=(replace(spec.pattern, read_percent=100),))
    run = run_procedure(reads, dut(capacity_bytes=GB), by_half_hours([100, 1000]))

    assert (reason(run.conclusion), written(run)) == ("time", 0)


def test_steady_state_has_priority_over_the_written_capacity() -> None:
    """If both conditions hold after the same sample, steady state is the reason."""
    run = run_procedure(spec_of("wsat"), dut(capacity_bytes=121 * 60 * 1000 * 4096 // 4))

    assert (reason(run.conclusion), minutes(run)) == ("steady state", 121)


# -- streams and sectors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["vod", "meta-data"])
@pytest.mark.parametrize("capacity_bytes", [2 * 10**11, 10**12, HUGE])
def test_a_sequential_pattern_continues_where_it_stopped(name: str, capacity_bytes: int) -> None:
    """A stimulus starts where the previous one stopped, or at the start of the range if the rest would not suffice."""
    run = run_procedure(
        spec_of("wsat", stimulus__name=name), dut(capacity_bytes=capacity_bytes), by_half_hours([100, 1000])
    )
    stimuli = run.continuous_stimuli("stimulus")
    whole = [
        measurement for measurement in run.measurements if measurement.stimulus in {step.stimulus for step in stimuli}
    ]

    assert stimuli[0].stimulus.start_bytes == 0
    for before, step in pairwise(zip(whole, stimuli, strict=True)):
        earlier, after = before[0], step[1].stimulus
        moved = earlier.read.transferred_bytes + earlier.write.transferred_bytes
        stopped = sum(earlier.stimulus.starts) + moved
        suffices = stopped + moved * (after.seconds or 0) / (earlier.stimulus.seconds or 1) <= capacity_bytes
        assert after.start_bytes == (stopped if suffices else 0)


def test_meta_data_pattern_needs_sectors_of_512() -> None:
    """On 4096-byte sectors the 0.5 KiB pattern is refused before the first step, and the message says why."""
    message = refusal(spec_of("wsat", stimulus__name="meta-data"), dut(logical_sector_bytes=4096))

    assert "0.5 KiB of the pattern meta-data is not a multiple of its logical sector size of 4096 bytes" in message


def test_other_patterns_run_on_sectors_of_4096() -> None:
    """On 4096-byte sectors the other patterns of one size have the same steps."""
    for name in ("write-intensive", "oltp", "vod"):
        spec = spec_of("wsat", stimulus__name=name)
        assert run_procedure(spec, dut(logical_sector_bytes=4096)).steps == run_procedure(spec).steps


def test_the_unsteady_series_has_no_steady_window() -> None:
    """No window of WILD is steady."""
    assert not any(is_steady(WILD[first : first + 5]) for first in range(21))
