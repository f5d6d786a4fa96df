"""Workload profiles: which points there are, in which order they are asked for, and what each of them goes over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.errors import TargetUnfit
from snia_pts.lab.fio.job import job_file
from snia_pts.model.dut import AssumedSpeed, Dut
from snia_pts.model.measurement import Outcome, PrepareOutcome
from snia_pts.model.steps import ContinuousStimulus, Prepare, Purge, Round, Step, Stimulus
from snia_pts.procedures import drive
from snia_pts.procedures.estimator import Assumptions, plan
from snia_pts.profiles.procedure import Point, points, profile
from snia_pts.profiles.reader import builtin_profiles, read_profile
from snia_pts.profiles.spec import Axis, ProfileSpec, Workload
from snia_pts.results.attributes import repeated_points
from snia_pts.results.builder import fold
from snia_pts.results.key_figures import key_figures
from snia_pts.results.result import TestResult
from snia_pts.results.warnings import run_warnings
from tests import profiles, samples
from tests.courses import ScriptedDrive
from tests.strategies import dut

MIB = 1 << 20


def workload(name: str = "w", **changes: Any) -> Workload:
    """Return a workload of random writes over the whole target."""
    facts: dict[str, Any] = {"name": name, "access": "RND", "read_percent": 0, "block_size": "4K"}
    return Workload(**{**facts, **changes})


def spec(*workloads: Workload, **changes: Any) -> ProfileSpec:
    """Return a profile."""
    facts = {"name": "p", "title": "P", "description": "p", "source": "here"}
    return ProfileSpec(**{**facts, "workload": workloads or (workload(),), **changes})


def steps(asked: ProfileSpec, target: Dut) -> list[Step]:
    """Return every step that a profile asks for."""
    told: list[Step] = []
    scripted = ScriptedDrive()

    def answer(step: Step) -> Iterator[Outcome]:
        told.append(step)
        yield from (PrepareOutcome(started="", seconds=0),) if isinstance(step, Prepare) else scripted(step)

    drive(profile(asked, target), answer)
    return told


def only(load: Workload, target: Dut | None = None) -> Stimulus:
    """Return the stimulus of a profile's only point."""
    (point,) = points(spec(load), target or dut(capacity_bytes=64 * MIB))
    return point.stimulus


def test_the_order_is_host_repeat_axes_workload_zone() -> None:
    """Settings change least often, zones most often; the last axis changes before the first."""
    axes = (
        Axis(key="queue_depth", values=(1, 2)),
        Axis(key="read_percent", values=(0, 100), workloads=("a",)),
        Axis(key="host.scheduler", values=("none", "bfq")),
    )
    specification = spec(workload("a"), workload("b", zones=2), axis=axes, repeats=2)
    rounds = [step for step in steps(specification, dut()) if isinstance(step, Round)]
    first = ["a, Q1, 0/100", "b, Q1, zone 1", "b, Q1, zone 2", "a, Q1, 100/0"]
    second = ["a, Q2, 0/100", "b, Q2, zone 1", "b, Q2, zone 2", "a, Q2, 100/0"]

    def called(name: str, scheduler: str) -> str:
        head, comma, zone = name.partition(", zone")
        return f"{head}, scheduler {scheduler}{comma}{zone}"

    wanted = [
        (called(name, scheduler), number)
        for scheduler in ("none", "bfq")
        for number in (1, 2)
        for name in first + second
    ]
    assert [(step.part, step.number) for step in rounds] == wanted
    assert all(step.stimuli[0].name == step.part for step in rounds)


def test_each_point_is_prepared_before_it() -> None:
    """The host is set, its page cache emptied and the target purged right before the point, once before its zones."""
    cold = workload("cold", cold=True, fresh=True, zones=2)
    specification = spec(workload("plain"), cold, axis=(Axis(key="host.governor", values=("performance",)),))
    told = steps(replace(specification, purge=True, fill=True), dut())

    kinds = [(type(step), step.part) for step in told]
    assert kinds == [
        (Purge, ""),
        (ContinuousStimulus, ""),
        (Prepare, "plain"),
        (Round, "plain"),
        (Prepare, "cold, zone 1"),
        (Purge, "cold, zone 1"),
        (Round, "cold, zone 1"),
        (Prepare, "cold, zone 2"),
        (Round, "cold, zone 2"),
    ]
    assert [step.cold for step in told if isinstance(step, Prepare)] == [False, True, False]
    assert all(step.settings == (("governor", "performance"),) for step in told if isinstance(step, Prepare))


@given(
    capacity=st.integers(1, 1 << 40),
    zones=st.integers(1, 128),
    block=st.sampled_from([512, 4096, 65536, MIB]),
    threads=st.integers(1, 4),
)
def test_zones_are_whole_blocks_that_leave_out_nothing(capacity: int, zones: int, block: int, threads: int) -> None:
    """The zones follow each other without gap or overlap; only what is no whole block is left out, at the end."""
    target = dut(capacity_bytes=512 * capacity, logical_sector_bytes=512)
    specification = spec(workload(block_size=str(block), zones=zones, seconds=1.0, thread_count=threads))
    try:
        found = [point.stimulus for point in points(specification, target)]
    except TargetUnfit:
        assert 512 * capacity < zones * (threads + 1) * block
        return
    bounds = [(entry.range_offset_bytes, entry.range_offset_bytes + entry.range_bytes) for entry in found]

    assert len(found) == zones
    assert all(end == start for (_, end), (start, _) in pairwise(bounds))
    assert (bounds[0][0], 512 * capacity - bounds[-1][1] < block) == (0, True)
    assert all(number % block == 0 for pair in bounds for number in pair)


def test_threads_go_once_over_the_range_together() -> None:
    """Random threads do an equal share of the range each, in whole blocks, and never more than the range."""
    specification = only(workload(range="1000 KiB", thread_count=7))
    assert specification.amount_bytes == specification.range_bytes == 1000 // 28 * 28 * 1024
    assert only(workload(range="1000 KiB", access="SEQ", thread_count=7)).amount_bytes == 1000 * 1024


@pytest.mark.parametrize(
    ("order", "skip_bytes", "amount_bytes"),
    [("forward", 0, MIB), ("backward", -8192, MIB), ("record", -4096, MIB), ("stride", 65536, 16 * 4096)],
)
def test_orders(order: str, skip_bytes: int, amount_bytes: int) -> None:
    """Backwards goes two blocks back from the end of each, a record one; a stride of 17 leaves out 16, once over."""
    specification = only(workload(access="SEQ", read_percent=100, range="1M", order=order))
    assert (specification.skip_bytes, specification.amount_bytes, specification.range_bytes) == (
        skip_bytes,
        amount_bytes,
        MIB,
    )


def test_what_is_filled_is_all_that_is_gone_over() -> None:
    """Whole sectors, in one stream, as far as any point reaches."""
    specification = spec(workload("a", range="22 MiB", block_size="2300", fio={"direct": 0}), workload("b", range="1M"))
    (fill,) = (step for step in steps(replace(specification, fill=True), dut()) if isinstance(step, ContinuousStimulus))
    end = 22 * MIB // 2300 * 2300
    assert (fill.phase, fill.stimulus.range_bytes, fill.stimulus.amount_bytes) == ("WIPC", *[-(-end // 512) * 512] * 2)


def test_what_a_target_cannot_hold_is_refused() -> None:
    """A range beyond its end, a thread without a block, and parts of sectors where no page cache evens them out."""
    small = dut(capacity_bytes=MIB)
    for asked, why in (
        (workload(range="2M"), "its capacity is 1.049 MB, but w needs 2.097 MB"),
        (workload(range="8K", thread_count=3), "is less than one block of 4 KiB for each thread"),
        (workload(block_size="2300"), "sector size"),
        (workload(block_size="2300", fio={"direct": 1}), "sector size"),
    ):
        with pytest.raises(TargetUnfit, match=why):
            points(spec(asked), small)
    assert only(workload(block_size="2300", fio={"direct": 0})).block_size_bytes == 2300
    assert only(workload(block_size="2300", fio={"buffered": 1})).cached


@pytest.mark.parametrize(
    ("options", "cached"),
    [
        ({}, False),
        ({"direct": 0}, True),
        ({"direct": 0, "ioengine": "posixaio"}, True),
        ({"buffered": 1, "direct": 1}, True),
        ({"buffered": 0, "direct": 0}, False),
        ({"atomic": 1, "direct": 0}, False),
        ({"ioengine": "mmap"}, True),
        ({"ioengine": "psync"}, False),
    ],
)
def test_whether_options_make_a_point_use_the_page_cache(options: dict[str, Any], cached: bool) -> None:
    """As fio opens the target: of ``direct`` and ``buffered`` the latter counts, and ``atomic`` is always direct."""
    point = only(workload(fio=options))
    assert point.cached == cached
    job = job_file(point, "/x.img", "io_uring", 1)
    assert "buffered" not in options or job.index("\ndirect=") < job.index("\nbuffered=")


@pytest.mark.parametrize(
    ("options", "limiting"),
    [
        ({"rate_iops": 100, "rate_process": "poisson", "zero_buffers": 1}, ["rate_iops=100"]),
        ({"rate": ",1m"}, ["rate=,1m"]),
        ({"rate": "0", "rate_iops": 0, "thinktime": 0, "thinktime_blocks": 4}, []),
        ({"rate_iops_min": 100, "rate_min": "1m"}, []),  # fio compares, and does not slow down
        ({"thinktime": 50}, ["thinktime=50"]),
        ({"iodepth_low": 2}, ["iodepth_low=2"]),
        ({"iodepth_low": 8}, []),
        ({"iodepth_low": 0, "iodepth_batch": 4, "iodepth_batch_complete_min": 1}, []),
        ({"iodepth_batch_complete_min": 4}, ["iodepth_batch_complete_min=4"]),
    ],
)
def test_options_that_limit_a_point(options: dict[str, Any], limiting: list[str]) -> None:
    """A rate, pauses, and waiting until fewer I/Os are outstanding; not their modifiers, and not 0."""
    assert list(only(workload(queue_depth=8, fio=options)).limiting_options) == limiting


def test_points_of_one_name_are_refused() -> None:
    """Nothing could tell their numbers apart."""
    with pytest.raises(TargetUnfit, match="two points with the name 'w, 4 KiB'"):
        points(spec(workload(), axis=(Axis(key="block_size", values=("4K", "4096")),)), dut())


def test_axes_name_points_and_set_workloads() -> None:
    """Only axes of several values are in the name; a block larger than the range is left out."""
    axes = (
        Axis(key="range", values=("4K", "whole")),
        Axis(key="block_size", values=(4096, "64K")),
        Axis(key="thread_count", values=(1,)),
        Axis(key="fio.direct", values=(0, True)),
    )
    found = {point.name: point for point in points(spec(axis=axes), dut(capacity_bytes=MIB))}
    assert list(found) == [
        f"w, over {over}, {size}, direct={direct}"
        for over, sizes in (("4 KiB", ["4 KiB"]), ("all", ["4 KiB", "64 KiB"]))
        for size in sizes
        for direct in (0, 1)
    ]
    last: Point = found["w, over all, 64 KiB, direct=1"]
    assert (last.stimulus.range_bytes, last.stimulus.options) == (MIB, (("direct", "1"),))
    assert last.axis_values == {"range": "whole", "block_size": "64K", "thread_count": 1, "fio.direct": True}


def test_numbers_are_means_over_the_repeats() -> None:
    """IOPS are those of each repeat, averaged; percentiles come from all response times together."""
    specification = spec(workload(seconds=1.0), repeats=3)
    scripted = ScriptedDrive(lambda step, stimulus, number: {1: 900.0, 2: 1000.0, 3: 1300.0}[number])
    told = [(step, scripted(step)) for step in steps(specification, dut())]
    result = fold(
        samples.run_facts(specification, device=dut()), told, ending="finished", ending_detail="", finished=""
    )
    figures = {figure.name: figure for figure in key_figures(result)}

    assert figures["iops at w"].rounds == (900.0, 1000.0, 1300.0)
    assert figures["iops at w"].value == pytest.approx(3200 / 3)
    assert figures["iops at w"].steady


def folded(asked: ProfileSpec, scripted: ScriptedDrive, target: Dut) -> tuple[TestResult, list[int]]:
    """Return the result of a profile, and the passes of each stimulus in order."""
    stretches: list[tuple[Step, tuple[Outcome, ...]]] = []

    def answer(step: Step) -> tuple[Outcome, ...]:
        stretches.append(
            (step, (PrepareOutcome(started="", seconds=0),) if isinstance(step, Prepare) else scripted(step))
        )
        return stretches[-1][1]

    drive(profile(asked, target), answer)
    result = fold(samples.run_facts(asked, device=target), stretches, ending="finished", ending_detail="", finished="")
    return result, [step.stimuli[0].passes or 0 for step, _ in stretches if isinstance(step, Round)]


def test_a_short_pass_is_repeated_with_more_passes() -> None:
    """A pass of 16 ms is repeated with the passes of 1.5 x the time required; the next repeat begins with these."""
    specification, target = spec(repeats=2, minimum_seconds=0.2), dut(capacity_bytes=64 * 4096)
    result, passes = folded(specification, ScriptedDrive(lambda *_: 4000.0), target)
    (loop,) = result.loops

    assert passes == [1, 19, 19]
    assert [round_.measurements[0].runtime_ms for round_ in loop.complete] == [304, 304]
    assert [item.runtime_ms for item in loop.too_short] == [16]
    assert result.written_bytes == sum(passes) * target.capacity_bytes
    assert len(list(result.measurements)) == 3
    assert not [warning for warning in run_warnings(result) if warning.what == "too short for a rate"]
    assert {figure.name: figure.rounds for figure in key_figures(result)}["iops at w"] == (4000.0, 4000.0)


@pytest.mark.parametrize("once", ["fresh", "cold"])
def test_a_fresh_or_cold_pass_that_is_short_has_no_rate(once: str) -> None:
    """It cannot be repeated: its IOPS, throughput and spread are not given, its response times are, with a warning."""
    specification, target = (
        spec(workload(fresh=once == "fresh", cold=once == "cold"), repeats=2),
        dut(capacity_bytes=64 * 4096),
    )
    result, passes = folded(specification, ScriptedDrive(lambda *_: 4000.0), target)
    (warning,) = [item.detail for item in run_warnings(result) if item.what == "too short for a rate"]
    (point,) = repeated_points(result)

    assert passes == [1, 1]
    assert "2 of 2 points" in warning
    assert {figure.metric for figure in key_figures(result)}.isdisjoint({"iops", "mb_per_second"})
    assert [point.figures[name] for name in ("iops", "mb_per_second", "minimum_iops", "spread_percent")] == [None] * 4
    assert point.figures["average_response_us"] == pytest.approx(1.0)


def test_attempts_end() -> None:
    """A drive that takes no time at all is not asked for ever: at most 65 536 passes, at most six attempts."""
    specification, target = spec(), dut(capacity_bytes=4096)
    result, passes = folded(specification, ScriptedDrive(lambda *_: 1e12), target)

    assert passes == [1, 150, 22500, 65536]
    assert [warning.what for warning in run_warnings(result) if warning.what == "too short for a rate"]


@pytest.mark.parametrize("name", builtin_profiles())
def test_shipped_profiles_have_points(name: str) -> None:
    """Each runs on a drive that is large enough, and no two of its points have one name."""
    specification = read_profile(name).spec
    assert isinstance(specification, ProfileSpec)
    assert points(specification, dut(capacity_bytes=1 << 40))


# -- reads of what nothing wrote --------------------------------------------------------------------------------------

READ = workload("read", read_percent=100, range="8 MiB")
WRITE = workload("write", access="SEQ", range="8 MiB")
ASSUMED = Assumptions(speed=AssumedSpeed.constant(10), overhead_seconds=0)


def planned(asked: ProfileSpec, **target: Any) -> tuple[str, ...]:
    """Return the points of which a plan says that they read addresses that nothing wrote."""
    return plan(asked, dut(**target), ASSUMED).unwritten_reads


@pytest.mark.parametrize(
    ("asked", "unwritten"),
    [
        (spec(READ), ["read"]),
        (spec(READ, purge=True), ["read"]),
        (spec(READ, fill=True), []),
        (spec(READ, fill=True, purge=True), []),
        (spec(WRITE, READ), []),
        (spec(READ, WRITE), ["read"]),
        (spec(WRITE, READ, replace(READ, name="more", range="9 MiB")), ["more"]),
        (spec(replace(WRITE, zones=4, block_size="64 KiB"), READ), []),
        (spec(replace(WRITE, thread_count=3), READ), []),
        (spec(replace(WRITE, order="backward"), READ), []),
        (spec(replace(WRITE, order="stride"), READ), ["read"]),
        (spec(replace(WRITE, order="record"), READ), ["read"]),
        (spec(replace(WRITE, access="RND"), READ), ["read"]),
        (spec(replace(READ, name="mix", read_percent=50)), ["mix"]),
        (spec(WRITE, replace(READ, name="mix", read_percent=50)), []),
        (spec(READ, replace(WRITE, fresh=True), fill=True, repeats=1), []),
        (spec(READ, replace(WRITE, fresh=True, range="1 MiB"), fill=True, repeats=2), ["read"]),
        (spec(replace(READ, fresh=True), replace(READ, name="again"), fill=True), ["read", "again"]),
        (spec(WRITE, replace(READ, fresh=True)), ["read"]),
        (spec(replace(READ, fresh=True, read_percent=70), fill=True), ["read"]),
        (spec(replace(WRITE, fio={"percentage_random": 100}), READ), ["read"]),
        (spec(replace(WRITE, fio={"percentage_random": 0, "ioengine": "psync"}), READ), []),
        (spec(replace(WRITE, seconds=1.0), READ), []),  # 10 MB in 1 s
        (spec(replace(WRITE, seconds=0.5), READ), ["read"]),
        (spec(replace(WRITE, seconds=0.5), replace(READ, access="SEQ", seconds=0.4)), []),
        (spec(replace(WRITE, seconds=0.5), replace(READ, access="SEQ", seconds=0.4, ramp_seconds=1.0)), ["read"]),
    ],
)
def test_reads_of_addresses_that_nothing_wrote_are_planned_with_a_warning(
    asked: ProfileSpec, unwritten: list[str]
) -> None:
    """A point reads what a fill or a sequential write before it wrote since the last purge, or it has a warning."""
    assert list(planned(asked)) == unwritten
    assert planned(asked, rotational=True) == ()  # a hard disk reads what it has, written or not


def test_a_result_warns_of_reads_of_addresses_that_nothing_wrote() -> None:
    """With the number of points and the first; not where all was written, and not for an overwritten hard disk."""

    def details(asked: ProfileSpec, **target: Any) -> list[str]:
        result = profiles.result(asked, device=dut(**target))
        return [warning.detail for warning in run_warnings(result) if warning.what == "unwritten addresses"]

    (detail,) = details(spec(READ, replace(READ, name="again"), WRITE))
    assert detail.startswith("2 points read addresses that no step before had written; the first is read; ")
    assert details(spec(READ, fill=True)) == []
    assert details(spec(READ), rotational=True) == []


def test_the_shipped_profiles_write_what_they_read_except_those_for_hard_disks() -> None:
    """The matrices of TKperf for hard disks have no preconditioning, as a hard disk needs none."""
    unwritten = {
        name
        for name in builtin_profiles()
        if planned(profiles.shipped(name), capacity_bytes=2 * 10**12, rotational=False)
    }
    assert unwritten == {"hdd-iops", "hdd-throughput"}
