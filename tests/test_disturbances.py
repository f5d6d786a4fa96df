"""What disturbed a test from outside: others at the drive, a CPU that was too hot, a link with errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from snia_pts.analysis.disturbances import (
    contradicted_samples,
    disturbances,
    engine_deviations,
    foreign_bytes,
    foreign_ios,
    impossible_samples,
    inexact_idle_times,
    point_name,
)
from snia_pts.model.measurement import Measurement
from snia_pts.model.time_series import TimeLine
from snia_pts.results.result import Gap, RunWarning
from snia_pts.results.warnings import run_warnings
from snia_pts.units import duration
from tests import samples
from tests.strategies import block_statistics, measurement, sample, stimulus, transfers, vitals

GB = 10**9


def point(read: int, write: int, block: tuple[int, int] | None, **changes: Any) -> Measurement:
    """Return a point whose fio moved so many bytes, and the block layer others."""
    data = None
    if block is not None:
        data = vitals(block=block_statistics(read_bytes=block[0], write_bytes=block[1]), **changes)
    found = measurement(stimulus(65), read=transfers(transferred_bytes=read), write=transfers(transferred_bytes=write))
    return replace(found, telemetry=data)


@pytest.mark.parametrize(
    ("measurement_", "foreign"),
    [
        (point(10 * GB, 5 * GB, (10 * GB, 5 * GB)), 0),
        (point(10 * GB, 5 * GB, (10 * GB, 5 * GB + 10**8)), 0),  # less than a fiftieth
        (point(10**6, 0, (10**6 + 8 * 10**6, 0)), 0),  # the kernel's own look at a drive that was closed
        (point(10 * GB, 5 * GB, (10 * GB, 6 * GB)), GB),
        (point(10**6, 0, (10**8, 0)), 99 * 10**6),
        (point(10 * GB, 5 * GB, (9 * GB, 5 * GB)), 0),  # the block layer saw less: that is no foreign I/O
        (point(10 * GB, 5 * GB, None), 0),
    ],
)
def test_more_io_than_the_tests_own_is_seen(measurement_: Measurement, foreign: int) -> None:
    """Where the block layer moved clearly more than fio somebody else used the drive; I/Os in flight are left out."""
    in_flight = 128 * 4096

    assert foreign_bytes(measurement_) == (foreign - in_flight if foreign else 0)


def test_io_of_others_is_a_warning_of_the_result() -> None:
    """The result names how many points, and the worst of them; a clean run has no such warning."""
    result = samples.iops_result()
    assert "other I/O on the drive" not in {warning.what for warning in run_warnings(result)}

    (loop,) = result.loops
    first = loop.rounds[0].measurements[3]
    ours = first.read.transferred_bytes + first.write.transferred_bytes
    disturbed = replace(first, telemetry=vitals(block=block_statistics(write_bytes=ours + 3 * GB)))
    turn = replace(loop.rounds[0], measurements=(disturbed, *loop.rounds[0].measurements[1:]))
    warned = run_warnings(replace(result, loops=(replace(loop, rounds=(turn, *loop.rounds[1:])),)))
    (detail,) = (warning.detail for warning in warned if warning.what == "other I/O on the drive")

    assert detail.startswith("in 1 of ")
    assert f"in {first.stimulus.label} {first.stimulus.demand.label} ({first.evidence})" in detail
    assert RunWarning(what="other I/O on the drive", detail=detail) in warned


@pytest.mark.parametrize(
    ("ios", "size", "disturbed"),
    [(None, None, False), (0, 0, False), (500, 8 * 10**6, False), (501, 501 * 512, True), (9, 8 * 10**6 + 1, True)],
)
def test_io_of_others_in_an_idle_time_is_a_warning(ios: int | None, size: int | None, disturbed: bool) -> None:
    """Short reads of a drive that was closed or purged are none."""
    quiet = measurement(stimulus(65))
    timings = replace(quiet, timing=replace(quiet.timing, idle_ios=ios, idle_bytes=size))

    assert [what for what, _ in disturbances([quiet, timings])] == ["other I/O while idle"] * disturbed
    for _, detail in disturbances([quiet, timings]):
        assert detail.startswith("before 1 of 2 measurements the block layer counted I/O on the drive while the test ")
        assert f"up to {ios} I/Os and " in detail


def test_cpu_time_that_a_hypervisor_took_is_a_warning() -> None:
    """Where it took more than a tenth of all CPUs: how often, how much, and in which point most."""
    quiet = [point(1, 1, (1, 1)), point(1, 1, (1, 1), stolen_percent=0.0), point(1, 1, (1, 1), stolen_percent=10.0)]
    assert list(disturbances(quiet)) == []

    worst = replace(point(1, 1, (1, 1), stolen_percent=33.3), evidence="evidence/00007-rnd.json")
    assert list(
        disturbances(
            [
                *quiet,
                worst,
                point(
                    1,
                    1,
                    None,
                ),
                point(1, 1, (1, 1), stolen_percent=11.0),
            ]
        )
    ) == [
        (
            "stolen CPU time",
            "a hypervisor took more than 10 % of the host's CPU time in 2 of 6 measurements; up to 33 %, in "
            f"{worst.stimulus.label} {worst.stimulus.demand.label} (evidence/00007-rnd.json)",
        )
    ]


def test_a_value_just_above_its_limit_is_printed_unlike_it() -> None:
    """More than 10 %, up to 10 %, would be a contradiction; so for steal time, idle times, threads and stalls."""
    ((_, stolen),) = disturbances([point(1, 1, (1, 1), stolen_percent=10.001)])
    ((_, idle),) = inexact_idle_times([(100.0, 101.0001)])
    slow = measurement(stimulus(seconds=60.0), write=transfers(response_max_ns=2_000_100_000))
    late = replace(slow, timing=replace(slow.timing, thread_spread_ms=2000.1 + 600.06))
    found = dict(engine_deviations([late]))

    assert "more than 10 % " in stolen
    assert "up to 10.001 %" in stolen
    assert "more than 1 %, by up to 1.0001 %" in idle
    assert "The worst: 600 ms (1.0001 %) in " in found["threads apart"]
    assert "more than 2 s " in found["stall"]
    assert "up to 2.0001 s" in found["stall"]


def test_heat_of_the_cpu_and_errors_of_the_link_are_warnings() -> None:
    """Counted over all points; nothing counted gives no warning, with or without accounting in the kernel."""
    quiet = [point(1, 1, (1, 1)), point(1, 1, (1, 1), throttlings=0, link_errors=0)]
    assert list(disturbances(quiet)) == []

    loud = [*quiet, point(1, 1, (1, 1), throttlings=3, link_errors=1), point(1, 1, (1, 1), throttlings=4)]
    assert dict(disturbances(loud)) == {
        "CPU throttling": "the CPU was throttled because of its temperature: 7 times, in 2 of 4 measurements",
        "PCIe errors": "the drive's PCIe link reported errors: 1 time, in 1 of 4 measurements",
    }


@pytest.mark.parametrize(
    ("asked", "measured", "warned"),
    [
        (2.0, 2.019, False),
        (2.0, 2.021, True),
        (5.0, 5.04, False),
        (5.0, 5.06, True),
        (5.0, 4.96, False),
        (5.0, 4.94, True),
        (50.0, 50.4, False),
        (50.0, 50.6, True),
    ],
)
def test_an_idle_time_off_by_more_than_a_hundredth_is_a_warning(asked: float, measured: float, warned: bool) -> None:
    """Longer or shorter than asked."""
    assert bool(list(inexact_idle_times([(asked, asked), (asked, measured)]))) == warned


@pytest.mark.long
def test_idle_times_that_were_not_as_asked_are_a_warning_of_the_result() -> None:
    """How many, and the worst; pauses that nobody asked for are none, and idle times are no pauses."""
    result = samples.result_of("hir")
    assert not {"idle time", "pause"} & {warning.what for warning in run_warnings(result)}

    measured = (2001.0, 2480.0, 3000.0, 980.0)
    gaps = [Gap(part="Wait State 1", requested_seconds=2.0, idle_ms=item, suite_us=1.0) for item in measured]
    between = Gap(part="Wait State 1", requested_seconds=None, idle_ms=2999.0, suite_us=1.0)
    longer, shorter = (
        entry for entry in run_warnings(replace(result, gaps=(*gaps, between))) if entry not in run_warnings(result)
    )

    assert longer.what == shorter.what == "idle time"
    assert "2 of 4 idle times were longer than requested by more than 1 %, by up to 50 %" in longer.detail
    assert "3 s instead of 2 s" in longer.detail
    assert "1 of 4 idle times were shorter than requested by more than 1 %, by up to 51 %" in shorter.detail
    assert "0.98 s instead of 2 s" in shorter.detail


@pytest.mark.parametrize(
    ("spread_ms", "maximum_ns", "warned"),
    [(None, 0, False), (599.0, 0, False), (601.0, 0, True), (650.0, 60_000_000, False), (700.0, 60_000_000, True)],
)
def test_threads_that_start_apart_are_a_warning(spread_ms: float | None, maximum_ns: int, warned: bool) -> None:
    """By more than a hundredth of the point's time, and by more than an I/O at its end may take."""
    point = measurement(stimulus(seconds=60.0), write=transfers(response_max_ns=maximum_ns))
    timing = replace(point.timing, thread_spread_ms=spread_ms)
    timings = dict(engine_deviations([replace(point, timing=timing), point]))

    assert ("threads apart" in timings) == warned
    assert not warned or "in 1 of 2 measurements threads started apart" in timings["threads apart"]


def mixed(reads: int, writes: int, read_percent: int = 95) -> Measurement:
    """Return a point of so many reads and writes."""
    return measurement(stimulus(read_percent), read=transfers(ios=reads), write=transfers(ios=writes))


@pytest.mark.parametrize(
    ("points", "warned"),
    [
        ([mixed(9470, 530)], False),  # 0.3 points; chance may do that to 10 000 I/Os: 0.65
        ([mixed(94_700, 5300)], True),  # and not to 100 000: 0.21
        ([mixed(948_100, 51_900)], False),  # not by chance, and not by much
        ([mixed(94_810, 5190)], False),
        ([mixed(4735, 265)] * 20, True),  # each might be chance, all together are none
        ([mixed(9560, 440), mixed(9440, 560)] * 10, False),
        ([mixed(530, 9470, 5)] * 10, True),
        ([mixed(100, 0, 100)], False),
        ([mixed(0, 0)], False),
    ],
)
def test_a_mix_that_chance_does_not_explain_is_warned_of(points: list[Measurement], warned: bool) -> None:
    """By all I/Os of a stimulus together: more than 0.2 points, and three standard deviations."""
    assert bool([what for what, _ in engine_deviations(points) if what == "R/W mix"]) == warned


def test_the_mix_that_was_achieved_is_named() -> None:
    """Of the stimulus that is off by most, with the I/Os that tell it."""
    ((_, detail),) = engine_deviations([mixed(94_700, 5300), mixed(50_500, 49_500, 50)])
    assert "2 of 2 kinds of points" in detail
    assert "94.70/5.30 in 100000 I/Os" not in detail
    assert "50.50/49.50 in 100000 I/Os" in detail


def test_repeats_with_more_passes_are_one_kind() -> None:
    """A short point is repeated with more and more passes over its range; its mix is that of all of them."""
    points = [
        replace(point, stimulus=replace(point.stimulus, seconds=None, passes=passes))
        for passes, point in enumerate([mixed(94_700, 5300), mixed(94_700, 5300)], start=1)
    ]
    ((_, detail),) = engine_deviations(points)
    assert "1 of 1 kind of points" in detail
    assert "94.70/5.30 in 200000 I/Os" in detail


def time_line(engine: Sequence[int], counted: Sequence[int], **asked: Any) -> TimeLine:
    """Return a time line of minutes in which fio and the kernel count so many thousand writes of 4 KiB."""
    line = TimeLine(phase="stimulus", part="", stimulus=replace(stimulus(0), **asked))
    for number, (reported, kernel) in enumerate(zip(engine, counted, strict=True), start=1):
        seen = vitals(block=block_statistics(write_bytes=kernel * 4096 * 1000))
        line.add_sample(sample(number, reported * 1000, telemetry=seen))
    return line


TRUE = (230, 175, 209, 147, 180, 160, 190, 171)


@pytest.mark.parametrize(
    ("engine", "number"),
    [
        (TRUE, 0),
        ((230, 175, 205, 151, 180, 160, 190, 171), 0),  # 2 % of a sample is in the next
        ((230, 175, 195, 161, 180, 160, 190, 171), 0),  # the suite was late once, by 4 s
        ((230, 175, 180, 176, 180, 160, 190, 171), 2),  # 8 s are too much
        ((150,) * 7 + (412,), 7),  # smooth: all but the fourth
        ((161, 244, 146, 210, 126, 214, 133, 228), 8),  # every second sample is low
        ((230, 0, 175, 209, 147, 180, 160, 361), 7),  # each is a sample late
    ],
)
def test_samples_that_the_kernel_contradicts_are_a_warning(engine: tuple[int, ...], number: int) -> None:
    """The totals are equal, and fio's samples are not what the drive did; one late reading is no contradiction."""
    found = list(contradicted_samples(time_line(engine, TRUE)))
    assert len(found) == (number > 0)
    if found:
        assert found[0][0] == "samples"
        beginning = f"in {number} of 8 samples of stimulus RND 4 KiB 0/100 the kernel counted another amount of I/O"
        assert found[0][1].startswith(beginning)


def test_samples_are_not_judged_by_counters_that_count_something_else() -> None:
    """Where the totals differ, the kernel counts only a part, or others' I/O; the page cache writes when it likes."""
    false = (150,) * 7 + (412,)
    assert list(contradicted_samples(time_line(false, TRUE)))
    assert not list(contradicted_samples(time_line(false, [item // 2 for item in TRUE])))
    assert not list(contradicted_samples(time_line(false, TRUE, options=(("direct", "0"),))))
    assert not list(contradicted_samples(time_line((0,) * 8, TRUE)))
    unknown = time_line(false, TRUE)
    unknown.counted_bytes[0] = math.nan
    assert not list(contradicted_samples(unknown))


def test_a_sample_without_a_duration_with_impossible_response_times_is_a_warning() -> None:
    """A stored run may have such a sample; a division by its duration is not possible."""
    line = TimeLine(phase="stimulus", part="", stimulus=stimulus(0))
    line.add_sample(replace(sample(1, 10_000), seconds=0.0, average_response_us=1e9))
    assert len(list(impossible_samples(line))) == 1


@pytest.mark.parametrize(("factor", "number"), [(0.99, 0), (1.04, 0), (1.1, 1), (1.82, 1)])
def test_samples_with_impossible_response_times_are_a_warning(factor: float, number: int) -> None:
    """Of 128 outstanding I/Os in a minute, 128 minutes, and what the first ones took before it, but no more."""
    line = TimeLine(phase="stimulus", part="", stimulus=stimulus(0))
    for row, share in enumerate((1.0, factor, 1.0), start=1):
        line.add_sample(replace(sample(row, 10_000), average_response_us=share * 128 * 60e6 / 10_000))
    details = [detail for _, detail in impossible_samples(line)]
    sentence = (
        "in 1 of 3 samples of stimulus RND 4 KiB 0/100 the response times add up to more than 128 outstanding I/Os"
    )
    assert details == [f"{sentence} can have: to those of {128 * factor:.1f} in sample 2"] * number


@pytest.mark.parametrize(
    ("read_percent", "read_ios", "write_ios", "foreign"),
    [
        (0, 501, 9000, 501),
        (0, 500, 9000, 0),  # the kernel's own
        (100, 9000, 14_400, 14_400),
        (50, 9000, 9000, 0),  # one direction cannot be distinguished from the other
    ],
)
def test_small_ios_of_others_are_a_warning(read_percent: int, read_ios: int, write_ios: int, foreign: int) -> None:
    """They are less than 8 MB, but in a direction in which the test had no I/O."""
    block = block_statistics(read_ios=read_ios, write_ios=write_ios)
    point = replace(measurement(stimulus(read_percent)), telemetry=vitals(block=block))
    assert foreign_ios(point) == foreign
    expected = f"although it only read; up to {foreign} I/Os, in {point_name(point)}"
    assert [expected in detail for _, detail in disturbances([point])] == [True] * bool(foreign)


def test_discards_of_others_are_a_warning() -> None:
    """The test itself discards nothing while it measures."""
    quiet, emptied = (
        replace(measurement(stimulus(0)), telemetry=vitals(block=block_statistics(discarded_bytes=size)))
        for size in (0, 268_435_456)
    )
    ((what, detail),) = disturbances([quiet, emptied])
    assert what == "other I/O on the drive"
    assert detail.startswith("in 1 of 2 measurements another program discarded blocks of the drive: its ")
    assert detail.endswith(f"; up to 268.4 MB, in {point_name(emptied)}")
    assert not list(disturbances([quiet]))


def test_contradicted_samples_are_a_warning_of_the_result() -> None:
    """The warning states the greatest difference."""
    result = samples.iops_result()
    (warned,) = run_warnings(replace(result, time_lines=(time_line((150,) * 7 + (412,), TRUE),)))[-1:]
    assert warned.what == "samples"
    assert "700.4 MB instead of 1.688 GB in sample 8" in warned.detail


def test_messages_of_fio_are_one_warning_for_each_kind() -> None:
    """Messages of one kind, in whichever points, are counted; there is no warning for more than five kinds."""
    point = measurement(stimulus(0))
    messages = [(f"fio: odd {number}", "fio: other") if number < 3 else () for number in range(8)]
    points = [replace(point, engine_messages=lines, evidence=f"0000{number}") for number, lines in enumerate(messages)]
    wrote, label = "measurements fio wrote to its standard error:", point.stimulus.label
    demand = point.stimulus.demand.label
    assert [detail for what, detail in engine_deviations(points) if what == "fio's message"] == [
        f"in 3 of 8 {wrote} fio: odd 0; the first is {label} {demand} (00000)",
        f"in 3 of 8 {wrote} fio: other; the first is {label} {demand} (00000)",
    ]
    many = [replace(point, engine_messages=(letter,)) for letter in "abcdefg"]
    details = [detail for what, detail in engine_deviations(many) if what == "fio's message"]
    assert details[0] == f"in 1 of 7 {wrote} a; {label} {demand} ({point.evidence})"
    assert details[5:] == ["evidence/*.process.json has 2 other kinds of messages"]


def test_warnings_about_samples_name_the_part_of_the_test() -> None:
    """Host idle recovery has a time line of each access of each wait state, and cross stimulus one of each group."""
    smooth = replace(time_line((150,) * 7 + (412,), TRUE), phase="access C", part="Wait State 2")
    ((_, contradicted),) = contradicted_samples(smooth)
    result = replace(samples.result_of("xsr"), long_samples=(("AG 1: x", 90.0), ("AG 3: x", 120.0), ("AG 1: x", 95.0)))
    long = [warning.detail for warning in run_warnings(result) if warning.what == "long samples"]

    assert "8 samples of Wait State 2: access C RND 4 KiB 0/100 the kernel" in contradicted
    assert long[0].startswith("2 samples of AG 1: x took longer than requested, up to 1 min 35 s")
    assert long[1].startswith("1 sample of AG 3: x took longer than requested, up to 2 min 00 s")


def timed(own_seconds: float, runtime_ms: int, **changes: Any) -> Measurement:
    """Return a point that took so long by the suite's clock and by fio's, with an I/O of 2 s."""
    done = transfers(100, runtime_ms=runtime_ms, response_max_ns=2 * 10**9)
    found = measurement(stimulus(0), write=done)
    timing = replace(found.timing, started_monotonic_ns=10**9, ended_monotonic_ns=10**9 + round(own_seconds * 1e9))
    return replace(found, timing=replace(timing, **changes), evidence="00007-rnd")


@pytest.mark.parametrize(
    ("measurement_", "warned"),
    [
        (timed(60.0, 60_000), False),
        (timed(63.0, 57_000), False),  # 3.15 s and 1 s, and 2 s of the last I/O
        (timed(63.0, 56_840), True),
        (timed(1.9, 300), False),
        (timed(120.0, 60_000), True),
        (timed(120.0, 60_000, engine_restarted=True), False),
        (replace(timed(120.0, 60_000), stimulus=replace(stimulus(0), ramp_seconds=60.0)), False),
    ],
)
def test_a_clock_of_fio_that_is_slow_is_a_warning(measurement_: Measurement, *, warned: bool) -> None:
    """By more than a twentieth and a second longer than fio reports, and the greatest response time."""
    details = [detail for what, detail in engine_deviations([measurement_, measurement_]) if what == "fio's clock"]
    assert len(details) == warned
    if warned:
        assert details[0].startswith("in 2 of 2 measurements fio's clock disagrees with the suite's: fio reports ")
        own = (measurement_.timing.ended_monotonic_ns - measurement_.timing.started_monotonic_ns) / 1e9
        assert f"reports {duration(measurement_.runtime_ms / 1000)} of I/O, but {duration(own)} passed" in details[0]


def test_only_points_that_are_more_than_5_percent_late_are_counted() -> None:
    """The warning states this limit: points that took a little longer are not counted."""
    point = measurement(stimulus(seconds=60.0), write=transfers(runtime_ms=60_000))
    late = [replace(point, write=transfers(runtime_ms=milliseconds)) for milliseconds in (62_900, 63_100, 66_000)]
    found = dict(engine_deviations([point, *late]))
    assert found["point duration"] == (
        "2 of 4 measurements took more than 5 % longer than requested, up to 1.10 times the requested time: 1 min 06 s "
        f"instead of 1 min 00 s in {point.stimulus.label} {point.stimulus.demand.label} ({point.evidence})"
    )
