"""Workload profiles: the points, their order and names, their ranges, and the results of repeats."""

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
from tests.procedure_runs import ScriptedDrive
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


def steps(specification: ProfileSpec, target: Dut) -> list[Step]:
    """Return every step of a profile."""
    requested: list[Step] = []
    scripted = ScriptedDrive()

    def answer(step: Step) -> Iterator[Outcome]:
        requested.append(step)
        yield from (PrepareOutcome(started="", seconds=0),) if isinstance(step, Prepare) else scripted(step)

    drive(profile(specification, target), answer)
    return requested


def only(load: Workload, target: Dut | None = None) -> Stimulus:
    """Return the stimulus of a profile's only point."""
    (point,) = points(spec(load), target or dut(capacity_bytes=64 * MIB))
    return point.stimulus


def test_the_order_is_host_repeat_axes_workload_zone() -> None:
    """Host settings change least often, then repeats, axes (the last first), workloads and zones."""
    axes = (
        Axis(key="queue_depth", values=(1, 2)),
        Axis(key="read_percent", values=(0, 100), workloads=("a",)),
        Axis(key="host.scheduler", values=("none", "bfq")),
    )
    specification = spec(workload("a"), workload("b", zones=2), axis=axes, repeats=2)
    rounds = [step for step in steps(specification, dut()) if isinstance(step, Round)]
    first = ["a, Q1, 0/100", "b, Q1, zone 1", "b, Q1, zone 2", "a, Q1, 100/0"]
    second = ["a, Q2, 0/100", "b, Q2, zone 1", "b, Q2, zone 2", "a, Q2, 100/0"]

    def point_name(name: str, scheduler: str) -> str:
        head, comma, zone = name.partition(", zone")
        return f"{head}, scheduler {scheduler}{comma}{zone}"

    expected = [
        (point_name(name, scheduler), number)
        for scheduler in ("none", "bfq")
        for number in (1, 2)
        for name in first + second
    ]
    assert [(step.part, step.number) for step in rounds] == expected
    assert all(step.stimuli[0].name == step.part for step in rounds)


def test_each_point_is_prepared_directly_before_it() -> None:
    """A preparation with the host's settings precedes each point; a cold cache and a purge only the first zone."""
    cold = workload("cold", cold=True, fresh=True, zones=2)
    specification = spec(workload("plain"), cold, axis=(Axis(key="host.governor", values=("performance",)),))
    requested = steps(replace(specification, purge=True, fill=True), dut())

    kinds = [(type(step), step.part) for step in requested]
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
    assert [step.cold for step in requested if isinstance(step, Prepare)] == [False, True, False]
    assert all(step.settings == (("governor", "performance"),) for step in requested if isinstance(step, Prepare))


@given(
    capacity=st.integers(1, 1 << 40),
    zones=st.integers(1, 128),
    block=st.sampled_from([512, 4096, 65536, MIB]),
    threads=st.integers(1, 4),
)
def test_zones_are_whole_blocks_without_gaps(capacity: int, zones: int, block: int, threads: int) -> None:
    """The zones neither overlap nor leave gaps; less than a block remains unused at the end."""
    target = dut(capacity_bytes=512 * capacity, logical_sector_bytes=512)
    specification = spec(workload(block_size=str(block), zones=zones, seconds=1.0, thread_count=threads))
    try:
        stimuli = [point.stimulus for point in points(specification, target)]
    except TargetUnfit:
        assert 512 * capacity < zones * (threads + 1) * block
        return
    bounds = [(zone.range_offset_bytes, zone.range_offset_bytes + zone.range_bytes) for zone in stimuli]

    assert len(stimuli) == zones
    assert all(end == start for (_, end), (start, _) in pairwise(bounds))
    assert (bounds[0][0], 512 * capacity - bounds[-1][1] < block) == (0, True)
    assert all(number % block == 0 for pair in bounds for number in pair)


def test_threads_together_transfer_the_range_once() -> None:
    """Random threads transfer equal shares of the range in whole blocks; sequential ones transfer all of it."""
    point = only(workload(range="1000 KiB", thread_count=7))
    assert point.amount_bytes == point.range_bytes == 1000 // 28 * 28 * 1024
    assert only(workload(range="1000 KiB", access="SEQ", thread_count=7)).amount_bytes == 1000 * 1024


@pytest.mark.parametrize(
    ("order", "skip_bytes", "amount_bytes"),
    [("forward", 0, MIB), ("backward", -8192, MIB), ("record", -4096, MIB), ("stride", 65536, 16 * 4096)],
)
def test_sequential_orders(order: str, skip_bytes: int, amount_bytes: int) -> None:
    """After a block, backward skips -2 blocks, record -1; a stride of 17 skips 16 and transfers every 17th block."""
    point = only(workload(access="SEQ", read_percent=100, range="1M", order=order))
    assert (point.skip_bytes, point.amount_bytes, point.range_bytes) == (
        skip_bytes,
        amount_bytes,
        MIB,
    )


def test_the_fill_covers_the_range_of_all_points() -> None:
    """The fill is one stream of whole sectors up to the end of the largest range."""
    specification = spec(workload("a", range="22 MiB", block_size="2300", fio={"direct": 0}), workload("b", range="1M"))
    (fill,) = (step for step in steps(replace(specification, fill=True), dut()) if isinstance(step, ContinuousStimulus))
    end = 22 * MIB // 2300 * 2300
    assert (fill.phase, fill.stimulus.range_bytes, fill.stimulus.amount_bytes) == ("fill", *[-(-end // 512) * 512] * 2)


def test_each_number_of_files_has_its_fill_and_whole_blocks() -> None:
    """The files of a set share the range in whole blocks, and a fill writes all of them; a drive has no files."""
    files = Axis(key="fio.nrfiles", values=(1, 3))
    specification = spec(workload(range="10M", thread_count=2), axis=(files,), fill=True)
    target = dut(kind="file")
    one, three = (point.stimulus for point in points(specification, target))
    fills = [step for step in steps(specification, target) if isinstance(step, ContinuousStimulus)]

    assert (one.file_count, one.range_bytes, three.file_count) == (1, 10 * MIB, 3)
    assert three.range_bytes == 10 * MIB // (6 * 4096) * (6 * 4096)
    assert [(fill.part, fill.stimulus.file_count, fill.stimulus.amount_bytes) for fill in fills] == [
        ("", 1, one.range_bytes),
        ("3 files", 3, three.range_bytes),
    ]
    assert three.range_bytes // 3 % fills[1].stimulus.largest_block_bytes == 0
    assert specification.file_set_bytes == 10 * MIB
    with pytest.raises(TargetUnfit, match="it is not a file system, and w, nrfiles=3 needs 3 files"):
        points(specification, dut())


def test_points_that_do_not_fit_the_target_are_refused() -> None:
    """A range beyond the end, less than a block per thread, and partial sectors with direct I/O raise TargetUnfit."""
    small = dut(capacity_bytes=MIB)
    for unfit, reason in (
        (workload(range="2M"), "its capacity is 1.049 MB, but w needs 2.097 MB"),
        (workload(range="8K", thread_count=3), "is less than one block of 4 KiB for each thread"),
        (workload(block_size="2300"), "sector size"),
        (workload(block_size="2300", fio={"direct": 1}), "sector size"),
    ):
        with pytest.raises(TargetUnfit, match=reason):
            points(spec(unfit), small)
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


def test_points_of_the_same_name_are_refused() -> None:
    """Two axis values that give the same point name raise TargetUnfit."""
    with pytest.raises(TargetUnfit, match="two points with the name 'w, 4 KiB'"):
        points(spec(workload(), axis=(Axis(key="block_size", values=("4K", "4096")),)), dut())


def test_axes_name_points_and_set_workloads() -> None:
    """Only axes with several values are in the name; points with a block larger than the range are omitted."""
    axes = (
        Axis(key="range", values=("4K", "whole")),
        Axis(key="block_size", values=(4096, "64K")),
        Axis(key="thread_count", values=(1,)),
        Axis(key="fio.direct", values=(0, True)),
    )
    points_by_name = {point.name: point for point in points(spec(axis=axes), dut(capacity_bytes=MIB))}
    assert list(points_by_name) == [
        f"w, over {over}, {size}, direct={direct}"
        for over, sizes in (("4 KiB", ["4 KiB"]), ("all", ["4 KiB", "64 KiB"]))
        for size in sizes
        for direct in (0, 1)
    ]
    last: Point = points_by_name["w, over all, 64 KiB, direct=1"]
    assert (last.stimulus.range_bytes, last.stimulus.options) == (MIB, (("direct", "1"),))
    assert last.axis_values == {"range": "whole", "block_size": "64K", "thread_count": 1, "fio.direct": True}


def test_iops_are_means_over_the_repeats() -> None:
    """The key figure for IOPS has the value of each repeat and their mean."""
    specification = spec(workload(seconds=1.0), repeats=3)
    scripted = ScriptedDrive(lambda step, stimulus, number: {1: 900.0, 2: 1000.0, 3: 1300.0}[number])
    outcomes = [(step, scripted(step)) for step in steps(specification, dut())]
    result = fold(
        samples.run_facts(specification, device=dut()), outcomes, ending="finished", ending_detail="", finished=""
    )
    figures = {figure.name: figure for figure in key_figures(result)}

    assert figures["iops at w"].rounds == (900.0, 1000.0, 1300.0)
    assert figures["iops at w"].value == pytest.approx(3200 / 3)
    assert figures["iops at w"].steady is None


def folded(specification: ProfileSpec, scripted: ScriptedDrive, target: Dut) -> tuple[TestResult, list[int]]:
    """Return the result of a profile, and the passes of each stimulus in order."""
    recorded: list[tuple[Step, tuple[Outcome, ...]]] = []

    def answer(step: Step) -> tuple[Outcome, ...]:
        recorded.append(
            (step, (PrepareOutcome(started="", seconds=0),) if isinstance(step, Prepare) else scripted(step))
        )
        return recorded[-1][1]

    drive(profile(specification, target), answer)
    result = fold(
        samples.run_facts(specification, device=target), recorded, ending="finished", ending_detail="", finished=""
    )
    return result, [step.stimuli[0].passes or 0 for step, _ in recorded if isinstance(step, Round)]


def test_a_short_pass_is_repeated_with_more_passes() -> None:
    """A pass of 16 ms is repeated with enough passes for 1.5 x the minimum time; the next repeat starts with these."""
    specification, target = spec(repeats=2, minimum_seconds=0.2), dut(capacity_bytes=64 * 4096)
    result, passes = folded(specification, ScriptedDrive(lambda *_: 4000.0), target)
    (loop,) = result.loops

    assert passes == [1, 19, 19]
    assert [round_.measurements[0].runtime_ms for round_ in loop.complete] == [304, 304]
    assert [measured.runtime_ms for measured in loop.too_short] == [16]
    assert result.written_bytes == sum(passes) * target.capacity_bytes
    assert len(list(result.measurements)) == 3
    assert not [warning for warning in run_warnings(result) if warning.what == "too short for a rate"]
    assert {figure.name: figure.rounds for figure in key_figures(result)}["iops at w"] == (4000.0, 4000.0)


@pytest.mark.parametrize("once", ["fresh", "cold"])
def test_a_short_fresh_or_cold_pass_has_no_rate(once: str) -> None:
    """It is not repeated: it has response times but no IOPS, throughput or spread, and a warning."""
    specification, target = (
        spec(workload(fresh=once == "fresh", cold=once == "cold"), repeats=2),
        dut(capacity_bytes=64 * 4096),
    )
    result, passes = folded(specification, ScriptedDrive(lambda *_: 4000.0), target)
    (detail,) = [warning.detail for warning in run_warnings(result) if warning.what == "too short for a rate"]
    (point,) = repeated_points(result)

    assert passes == [1, 1]
    assert "2 of 2 points" in detail
    assert {figure.metric for figure in key_figures(result)}.isdisjoint({"iops", "mb_per_second"})
    assert [point.figures[name] for name in ("iops", "mb_per_second", "minimum_iops", "spread_percent")] == [None] * 4
    assert point.figures["average_response_us"] == pytest.approx(1.0)


def test_the_number_of_attempts_is_limited() -> None:
    """A drive of zero run time gets attempts with at most 65 536 passes, and a warning."""
    specification, target = spec(), dut(capacity_bytes=4096)
    result, passes = folded(specification, ScriptedDrive(lambda *_: 1e12), target)

    assert passes == [1, 150, 22500, 65536]
    assert [warning.what for warning in run_warnings(result) if warning.what == "too short for a rate"]


@pytest.mark.parametrize("name", builtin_profiles())
def test_shipped_profiles_have_points(name: str) -> None:
    """Each built-in profile has points, with distinct names, on a drive that is large enough."""
    specification = read_profile(name).spec
    assert isinstance(specification, ProfileSpec)
    assert points(specification, dut(capacity_bytes=1 << 40))


# -- reads of unwritten addresses ------------------------------------------------------------------------------------

READ = workload("read", read_percent=100, range="8 MiB")
WRITE = workload("write", access="SEQ", range="8 MiB")
ASSUMED = Assumptions(speed=AssumedSpeed.constant(10), overhead_seconds=0)


FILES: dict[str, Any] = {"nrfiles": 2}


def planned(specification: ProfileSpec, **target: Any) -> tuple[str, ...]:
    """Return the points that read unwritten addresses according to the plan."""
    return plan(specification, dut(**{"kind": "file", **target}), ASSUMED).unwritten_reads


@pytest.mark.parametrize(
    ("specification", "unwritten"),
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
        (spec(replace(WRITE, fio=FILES), replace(READ, fio=FILES)), []),
        (spec(WRITE, replace(READ, fio=FILES)), ["read"]),
        (spec(replace(WRITE, fio=FILES), READ), ["read"]),
        (spec(replace(WRITE, fio=FILES, seconds=1.0), replace(READ, fio=FILES)), ["read"]),
        (spec(replace(WRITE, seconds=1.0), READ), []),  # 10 MB in 1 s
        (spec(replace(WRITE, seconds=0.5), READ), ["read"]),
        (spec(replace(WRITE, seconds=0.5), replace(READ, access="SEQ", seconds=0.4)), []),
        (spec(replace(WRITE, seconds=0.5), replace(READ, access="SEQ", seconds=0.4, ramp_seconds=1.0)), ["read"]),
    ],
)
def test_the_plan_lists_points_that_read_unwritten_addresses(specification: ProfileSpec, unwritten: list[str]) -> None:
    """A point is listed if no fill and no earlier sequential write since the last purge covers the range it reads."""
    assert list(planned(specification)) == unwritten
    assert planned(specification, rotational=True) == ()  # a hard disk reads what it has, written or not


def test_a_result_warns_of_reads_of_unwritten_addresses() -> None:
    """The warning has the number of points and the first; there is none after a fill or on a hard disk."""

    def details(specification: ProfileSpec, **target: Any) -> list[str]:
        result = profiles.result(specification, device=dut(**target))
        return [warning.detail for warning in run_warnings(result) if warning.what == "unwritten addresses"]

    (detail,) = details(spec(READ, replace(READ, name="again"), WRITE))
    assert detail.startswith("2 points read addresses that no step before had written; the first is read; ")
    assert details(spec(READ, fill=True)) == []
    assert details(spec(READ), rotational=True) == []


def test_only_shipped_profiles_for_hard_disks_read_unwritten_addresses() -> None:
    """Of the built-in profiles only TKperf's two for hard disks do so, as they have no preconditioning."""
    unwritten = {
        name
        for name in builtin_profiles()
        if planned(profiles.shipped(name), capacity_bytes=2 * 10**12, rotational=False)
    }
    assert unwritten == {"hdd-iops", "hdd-throughput"}
