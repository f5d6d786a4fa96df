"""A plan is the procedure with assumed measurements: its arithmetic is checked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.cli.text.plan import exclusions
from snia_pts.model.array import BuiltArray, Layout, Member
from snia_pts.model.dut import AssumedSpeed
from snia_pts.model.steps import Step, Stimulus
from snia_pts.procedures.estimator import Assumptions, Estimate, Plan, PurgeKind, plan
from snia_pts.spec import MetricName, TestClass, Tracked
from snia_pts.units import GB, MB, MIB
from tests import profiles
from tests.procedure_runs import Behaviour, brief, run_procedure, whole_runs
from tests.strategies import CLASSES, EVERY, TESTS, VERSIONS, dut, spec_of


def at(speed: float) -> AssumedSpeed:
    """Return a constant speed."""
    return AssumedSpeed.constant(speed)


ASSUMED = Assumptions(speed=at(500), overhead_seconds=0)
#: Twice 960 GB at 500 MB/s.
WIPC_SECONDS = 3840
PATTERNS = ("write-intensive", "oltp", "vod", "meta-data", "composite")


def planned(test: str, pts: str = "2.0.2", test_class: TestClass = "enterprise", speed: float = 500) -> Plan:
    """Return the plan of a full test on 960 GB."""
    return plan(spec_of(test, pts, test_class), dut(), replace(ASSUMED, speed=at(speed)))


# -- time ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("test", "pts", "test_class", "shortest", "longest"),
    [
        *[
            ("iops", *item, WIPC_SECONDS + 5 * 56 * 60, WIPC_SECONDS + 25 * 56 * 60)
            for item in (("2.0.2", "enterprise"), ("2.0.2", "client"), ("1.1", "enterprise"), ("1.1", "client"))
        ],
        *[
            ("throughput", *item, 2 * (WIPC_SECONDS + 5 * 120), 2 * (WIPC_SECONDS + 25 * 120))
            for item in (("2.0.2", "enterprise"), ("2.0.2", "client"), ("1.1", "enterprise"))
        ],
        ("throughput", "1.1", "client", WIPC_SECONDS + 5 * 120, WIPC_SECONDS + 25 * 120),
        ("latency", "2.0.2", "enterprise", WIPC_SECONDS + 5 * 540 + 1200, WIPC_SECONDS + 25 * 540 + 1200),
        ("latency", "1.1", "enterprise", WIPC_SECONDS + 5 * 540, WIPC_SECONDS + 25 * 540),
        ("wsat", "2.0.2", "enterprise", 121 * 60 + 1200, 6 * 3600 + 1200),
        ("wsat", "1.1", "client", 121 * 60, 24 * 3600),
        ("hir", "2.0.2", "client", (121 + 930) * 60, (721 + 930) * 60),
        ("hir", "1.1", "enterprise", (121 + 930) * 60, (721 + 930) * 60),
        ("xsr", "2.0.2", "enterprise", 22 * 3600, 22 * 3600),
        ("xsr", "1.1", "client", 22 * 3600, 22 * 3600),
        *[
            (test, pts, "enterprise", (121 + 5 * 54 + 3 * 70) * 60, (721 + 25 * 54 + 3 * 70) * 60)
            for test in ("dirth", "composite")
            for pts in VERSIONS
        ],
    ],
)
def test_durations(test: str, pts: str, test_class: TestClass, shortest: int, longest: int) -> None:
    """The minimum and maximum time of each test on 960 GB at 500 MB/s, without purges."""
    planned_test = planned(test, pts, test_class)

    assert planned_test.shortest.seconds == pytest.approx(shortest)
    assert planned_test.longest.seconds == pytest.approx(longest)


@pytest.mark.parametrize("speed", [10, 100, 500, 5000])
@pytest.mark.parametrize(("pts", "hours"), [("2.0.2", 6), ("1.1", 24)])
def test_the_longest_write_saturation_is_that_of_a_slow_drive(pts: str, hours: int, speed: float) -> None:
    """Even if a drive may be fast, a slow one takes 6 hours, or 24 in 1.1; at most 4 x 960 GB are written."""
    course_of = planned("wsat", pts, speed=speed).longest
    stimulus = [step for step in course_of.steps if "stimulus" in step.label]

    assert sum(step.seconds for step in stimulus) == pytest.approx(hours * 3600)
    most = min(4 * dut().capacity_bytes, hours * 3600 * speed * 10**6)
    assert sum(step.written_bytes for step in stimulus) == pytest.approx(most, rel=1e-6)


@pytest.mark.parametrize(("speed", "seconds"), [(5000, 768), (500, 7260)])
def test_the_shortest_write_saturation_ends_by_amount_or_steady_state(speed: float, seconds: int) -> None:
    """A fast drive writes 4 x 960 GB before minute 121, when it can first be steady."""
    course_of = planned("wsat", speed=speed).shortest

    assert sum(step.seconds for step in course_of.steps if "stimulus" in step.label) == pytest.approx(seconds, rel=1e-3)


def test_a_plan_names_the_stimuli_whose_numbers_are_reported() -> None:
    """The plan names all 56 points of the IOPS test once, for any number of rounds, without the preconditioning."""
    planned_test = planned("iops").stimuli

    assert len(planned_test) == len(set(planned_test)) == 7 * 8
    assert {item.access for item in planned_test} == {"RND"}
    assert {stimulus.access for stimulus in planned("xsr").stimuli} == {"SEQ", "RND"}


def test_steps_of_the_iops_test() -> None:
    """Shortest and longest are the procedure's own steps: the longest continues where the shortest ends."""
    planned_test = planned("iops")

    assert [step.label for step in planned_test.shortest.steps] == [
        "Purge",
        "WIPC SEQ 128 KiB 0/100",
        "Round 1",
        "Round 2",
        "Round 3",
        "Round 4",
        "Round 5",
    ]
    assert planned_test.longest.steps[:7] == planned_test.shortest.steps


@pytest.mark.long_but_first
@pytest.mark.parametrize(("test", "pts", "test_class"), EVERY)
def test_the_longest_run_is_never_steady(test: str, pts: str, test_class: TestClass) -> None:
    """Each loop has at least five rounds and at most 25; tests without a loop have none."""
    planned_test = planned(test, pts, test_class)
    loops = {"throughput": 1 if (pts, test_class) == ("1.1", "client") else 2, "wsat": 0, "hir": 0, "xsr": 0}

    assert planned_test.shortest.rounds == 5 * loops.get(test, 1)
    assert planned_test.longest.rounds == 25 * loops.get(test, 1)


@pytest.mark.long_but_first
@pytest.mark.parametrize("window", range(2, 12))
@pytest.mark.parametrize("metric", ["iops", "mb_per_second", "average_response_ms"])
def test_the_longest_run_is_not_steady_by_any_rule(window: int, metric: MetricName) -> None:
    """For any window, metric and limits, the longest run has all rounds."""
    generous: dict[str, Any] = {
        "window_rounds": window,
        "data_excursion_percent": 100,
        "slope_excursion_percent": 100,
    }
    looped = spec_of(
        "iops",
        steady_state=replace(
            spec_of("iops").steady_state,
            **generous,
            tracked=(Tracked(metric=metric, read_percent=0, block_size_kib=4),),
        ),
    )
    settled = brief(
        spec_of("hir", settling=replace(spec_of("hir").settling, **generous, tracked=(Tracked(metric=metric),)))
    )
    rounds_of, samples_of = plan(looped, dut(), ASSUMED), plan(settled, dut(), ASSUMED)

    assert (rounds_of.shortest.rounds, rounds_of.longest.rounds) == (window, 25)
    assert conditioning(samples_of.shortest) == (30 * window - 29) * 60
    assert conditioning(samples_of.longest) == 721 * 60


def conditioning(course_of: Estimate) -> float:
    return sum(step.seconds for step in course_of.steps if step.label.startswith("PC "))


def test_lost_time_is_counted() -> None:
    """The time lost around each round or stimulus and between two points is added; purge and idle lose none."""
    lossy = Assumptions(speed=at(500), overhead_seconds=0.25, between_seconds=0.02)
    steps = plan(spec_of("iops"), dut(), lossy).shortest.steps
    hir = [plan(spec_of("hir"), dut(), assumed).shortest for assumed in (lossy, ASSUMED)]

    assert [step.stimuli for step in steps] == [0, 1, *[56] * 5]
    assert [step.seconds for step in steps] == pytest.approx([0, 3840.25, *[56 * 60 + 0.25 + 55 * 0.02] * 5])
    assert hir[0].seconds - hir[1].seconds == pytest.approx(0.25 * (1 + 5 * 361))


def test_a_shortened_test_costs_less() -> None:
    """Time per point and number of rounds are the specification's: shortening them shortens the plan."""
    found = plan(spec_of("iops", rounds__point_seconds=0.5, rounds__maximum=6), dut(), ASSUMED)

    assert found.longest.rounds == 6
    assert found.longest.seconds == pytest.approx(WIPC_SECONDS + 6 * 28)


def test_sectors_of_4096_make_49_points() -> None:
    """The plan omits the points that the procedure omits."""
    found = plan(spec_of("iops"), dut(logical_sector_bytes=4096), ASSUMED)

    assert [step.stimuli for step in found.shortest.steps[2:]] == [49] * 5


# -- bytes -----------------------------------------------------------------------------------------------------------

C = 960 * GB
V = 500 * MB
#: The share of the full speed at which 65/35 writes at most, and the seconds of a round of 56 points with writes at it.
OLTP = 35 / 65
IOPS_ROUND = 8 * 60 * (4 + OLTP + 5 / 95)


@pytest.mark.parametrize(
    ("test", "shortest", "longest"),
    [
        # a round of the IOPS test reads and writes at most at full speed: 50/50 to 0/100 write all the time
        ("iops", 2 * C + 5 * IOPS_ROUND * V, 2 * C + 25 * IOPS_ROUND * V),
        ("throughput", 2 * (2 * C + 5 * 60 * V), 2 * (2 * C + 25 * 60 * V)),
        # three block sizes at 100/0, 65/35 and 0/100
        ("latency", 2 * C + 5 * 180 * (1 + OLTP) * V + 1200 * V, 2 * C + 25 * 180 * (1 + OLTP) * V + 1200 * V),
        ("wsat", 121 * 60 * V + 1200 * V, 4 * C + 1200 * V),
        ("hir", (121 * 60 + 5 * 3600) * V, (721 * 60 + 5 * 3600) * V),
        ("xsr", 22 * 3600 * V, 22 * 3600 * V),
        # 49 minutes at 65/35 between 5 minutes of writes, 10 minutes after an hour of them
        (
            "dirth",
            (121 * 60 + 5 * (300 + 2940 * OLTP) + 3 * (3600 + 600 * OLTP)) * V,
            (721 * 60 + 25 * (300 + 2940 * OLTP) + 3 * (3600 + 600 * OLTP)) * V,
        ),
        # the same at 40/60, which writes all the time
        ("composite", (121 * 60 + 5 * 3240 + 3 * 4200) * V, (721 * 60 + 25 * 3240 + 3 * 4200) * V),
    ],
)
def test_bytes_by_hand(test: str, shortest: float, longest: float) -> None:
    """What each test of 2.0.2 writes on 960 GB at 500 MB/s each way, except some blocks of write saturation."""
    planned_test = planned(test)

    assert planned_test.shortest.written_bytes == pytest.approx(shortest, rel=1e-9)
    assert planned_test.longest.written_bytes == pytest.approx(longest, rel=1e-9, abs=20 * 4096)


def test_reads_write_nothing() -> None:
    """A point that reads at full speed writes its share too: 95/5 a nineteenth; a read-only point writes nothing."""
    found = plan(spec_of("iops", "1.1", rounds__read_percents=(0, 95, 100)), dut(), ASSUMED)

    (written,) = {step.written_bytes for step in found.shortest.steps[2:]}
    assert written == pytest.approx(8 * 60 * V * (1 + 5 / 95), rel=1e-9)


def test_each_direction_has_its_speed() -> None:
    """A drive that reads faster than it writes writes at 65/35 all the time, and at 95/5 its share of the reads."""
    faster = replace(ASSUMED, speed=AssumedSpeed(read=1000, write=500, minimum_write=100, source=""))
    for percent, mb_per_second in ((65, 500), (95, 1000 * 5 / 95)):
        course_of = plan(spec_of("iops", "1.1", rounds__read_percents=(0, percent)), dut(), faster).longest
        assert course_of.steps[2].written_bytes == pytest.approx(8 * 60 * MB * (500 + mb_per_second), rel=1e-9)


def test_the_longest_time_is_that_of_the_slowest_drive() -> None:
    """Twice 960 GB at 3500 MB/s in the shortest run, at 100 in the longest; the written amount is the same."""
    speed = AssumedSpeed(read=7000, write=3500, minimum_write=100, source="")
    found = plan(spec_of("iops"), dut(), replace(ASSUMED, speed=speed))

    assert found.shortest.steps[1].seconds == pytest.approx(2 * C / (3500 * MB))
    assert found.longest.steps[1].seconds == pytest.approx(2 * C / (100 * MB))
    assert found.shortest.steps[1].written_bytes == found.longest.steps[1].written_bytes == 2 * C


def test_a_ramp_is_written_too() -> None:
    """A ramp of 10 s before 20 s of writes makes 30 s of writes."""
    workload = profiles.workload("write", read_percent=0, seconds=20.0, ramp_seconds=10.0)
    (step,) = (item for item in plan(profiles.spec(workload), dut(), ASSUMED).longest.steps if item.kind == "round")
    assert (step.seconds, step.written_bytes) == (30, 30 * V)


def test_an_amount_of_ios_has_no_time_limit() -> None:
    """A profile's point of so many I/Os takes as long as they do; a stimulus with a time, or a stream, does not."""
    timed, amount = profiles.workload(), profiles.workload("write", read_percent=0, seconds=None, range="64 MiB")
    steps = plan(profiles.spec(timed, amount), dut(), ASSUMED).longest.steps
    assert [step.label for step in steps if step.open_ended] == ["write: Round 1"]
    assert [plan(spec_of(test), dut(), ASSUMED).longest.open_ended for test in ("iops", "wsat", "xsr")] == [0, 0, 0]


def test_an_invalid_speed_is_refused() -> None:
    """A device's minimum is not above its maximum, and no speed is zero."""
    for least in (0.0, 501.0):
        with pytest.raises(ValueError, match="minimum speed"):
            AssumedSpeed(read=600, write=500, minimum_write=least, source="")


speeds = st.floats(0.5, 20_000)


@st.composite
def specs(draw: st.DrawFn) -> Any:
    """Draw a test of any version and class; write saturation and DIRTH with any of their patterns."""
    test, pts, test_class = draw(st.sampled_from(EVERY))
    spec = spec_of(test, pts, test_class)
    if test in ("wsat", "dirth"):
        spec = replace(spec, stimulus=replace(spec.stimulus, name=draw(st.sampled_from(spec.patterns)).name))
    return brief(spec)


@pytest.mark.long
@whole_runs
@given(specs(), st.integers(2**30, 2**44), speeds, st.floats(0, 5))
def test_the_shortest_run_is_no_longer_than_the_longest(
    spec: Any, capacity_bytes: int, speed: float, overhead_seconds: float
) -> None:
    """This holds for time, bytes and rounds, for any test, device and speed."""
    assumed = Assumptions(speed=at(speed), overhead_seconds=overhead_seconds)
    found = plan(spec, dut(capacity_bytes=capacity_bytes), assumed)

    assert found.shortest.seconds <= found.longest.seconds
    assert found.shortest.written_bytes <= found.longest.written_bytes
    assert found.shortest.rounds <= found.longest.rounds


@pytest.mark.long
@whole_runs
@given(specs(), st.integers(2**30, 2**44), speeds, st.integers(0, 10**6), st.sampled_from([0.0, 0.02, 0.1, 1.0]))
def test_no_run_writes_more_than_planned(
    spec: Any, capacity_bytes: int, speed: float, seed: int, spread: float
) -> None:
    """Any drive up to that speed, steady or not, writes no more than the longest run.

    Write saturation may write one more block.
    """
    device = dut(capacity_bytes=capacity_bytes)
    found = plan(spec, device, Assumptions(speed=at(speed), overhead_seconds=0))
    run = run_procedure(spec, device, up_to(speed, seed, spread))
    written = sum(measurement.write.transferred_bytes for measurement in run.measurements)
    largest = max(stimulus.largest_block_bytes for step in run.steps for stimulus in step.stimuli)

    assert written <= found.longest.written_bytes + largest
    assert found.shortest.rounds <= len(run.rounds) <= found.longest.rounds


def up_to(speed: float, seed: int, spread: float) -> Behaviour:
    """Return a behaviour of at most ``speed`` MB/s, reduced at times by up to ``spread`` of it."""

    def iops(step: Step, stimulus: Stimulus, number: int) -> float:
        slower = (seed * number + stimulus.total_oio) % 97 / 97
        return speed * MB / stimulus.largest_block_bytes * (1 - 0.99 * spread * slower)

    return iops


@pytest.mark.long
@whole_runs
@given(st.sampled_from(TESTS), st.integers(2**30, 2**45), st.integers(0, 2**40), st.sampled_from(CLASSES))
def test_larger_devices_cost_no_less(test: str, capacity_bytes: int, more_bytes: int, test_class: TestClass) -> None:
    """Time and bytes do not fall with the capacity; those of the preconditioning rise with it."""
    spec = brief(spec_of(test, "2.0.2", test_class))
    small = plan(spec, dut(capacity_bytes=capacity_bytes), ASSUMED)
    large = plan(spec, dut(capacity_bytes=capacity_bytes + more_bytes), ASSUMED)
    wipcs = {"iops": 1, "latency": 1, "throughput": 2}.get(test, 0)
    written_bytes = wipcs * (2 * more_bytes - MIB)  # in whole blocks

    for less, more in ((small.shortest, large.shortest), (small.longest, large.longest)):
        assert more.seconds - less.seconds >= written_bytes / V - 1e-3
        assert more.written_bytes - less.written_bytes >= max(0, written_bytes)
        assert less.rounds == more.rounds


@pytest.mark.parametrize(
    ("test", "purging", "passes"),
    [
        ("iops", "own", 2),
        ("throughput", "none", 2),
        ("latency", "overwrite", 3),
        ("wsat", "own", 0),
        ("hir", "overwrite", 1),
    ],
)
@pytest.mark.parametrize("sync", ["wait", "skip"])
def test_the_members_of_an_array_are_overwritten_in_each_purge(
    test: str, purging: PurgeKind, passes: int, sync: Literal["wait", "skip"]
) -> None:
    """The host that creates the array overwrites all members at once for each purge; the sync is listed separately."""
    layout = Layout(format=1, controller="mdadm", level=1, members=("/dev/sda", "/dev/sdb"), sync=sync)
    members = tuple(
        Member(path=path, model="", serial="", firmware="", capacity_bytes=1000 * GB) for path in layout.members
    )
    target = dut(array=BuiltArray(layout=layout, version="", members=members))
    found = plan(spec_of(test), target, replace(ASSUMED, purge=purging))
    purges = [step for step in found.longest.steps if step.kind == "purge"]

    assert {step.written_bytes for step in purges} == {passes * 2000 * GB}
    assert {step.seconds for step in purges} == {passes * 2000 * GB / MB / 500}
    assert found.syncs is (sync == "wait")
    assert ("the syncs of the array" in exclusions(found)) is found.syncs
