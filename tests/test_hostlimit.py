"""Host or drive: what a measurement tells of who set its number, against queueing theory and real devices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.analysis.host_limit import (
    HostShare,
    balance_percent,
    host_share,
    limited_points_sentence,
    limited_stimuli_sentence,
    majority_verdict,
)
from snia_pts.model.host_ceiling import Ceiling, Shape, all_shapes, max_iops, shapes
from snia_pts.model.measurement import Measurement
from snia_pts.model.steps import BlockShare, Stimulus
from tests.strategies import block_statistics, dut, measurement, stimulus, transfers, vitals

CPUS = 8
MILLION = 1e6


def measured(
    iops: int = 100_000,
    *,
    threads: int = 4,
    depth: int = 32,
    engine: float | None = 5.0,
    host: float | None = 10.0,
    busiest: float | None = 20.0,
    in_drive: float | None = None,
    stolen: float | None = None,
    read_percent: int = 0,
) -> Measurement:
    """Return a point of a second, with ``in_drive`` percent of its outstanding I/Os in the block layer all the time."""
    request = stimulus(read_percent, thread_count=threads, queue_depth=depth)
    queue = None if in_drive is None else in_drive / 100 * request.total_oio
    block = None if queue is None else block_statistics(write_ios=iops, queue=queue)
    seen = vitals(cpu_percent=host, busiest_cpu_percent=busiest, block=block, stolen_percent=stolen)
    point = measurement(request, write=transfers(iops))
    return replace(point, engine_cpu_percent=engine, telemetry=seen)


def judged(point: Measurement, *ceilings: Ceiling, cpus: int = CPUS, **device: Any) -> HostShare:
    """Return the host's share in a point of a drive."""
    share = host_share(point, dut(**device), cpus, ceilings)
    assert share is not None
    return share


def ceiling(iops: float, cpu_percent: float = 100.0, **shape: Any) -> Ceiling:
    """Return a ceiling of random 4 KiB writes by four threads at queue depth 32."""
    facts: dict[str, Any] = {
        "side": "write",
        "access": "RND",
        "block_size_bytes": 4096,
        "thread_count": 4,
        "queue_depth": 32,
    }
    return Ceiling(shape=Shape(**{**facts, **shape}), iops=iops, engine_cpu_percent=cpu_percent)


# -- the ceiling ------------------------------------------------------------------------------------------------------


def test_writes_have_a_shape_a_size_and_reads_one_for_all() -> None:
    """Seven mixes of three sizes are four shapes: the drive fills what is read."""
    stimuli = [stimulus(percent, size) for percent in (100, 95, 65, 50, 35, 5, 0) for size in (0.5, 4, 1024)]
    found = all_shapes(stimuli)

    assert [(shape.side, shape.block_size_bytes) for shape in found] == [
        ("read", None),
        ("write", 512),
        ("write", 4096),
        ("write", 1048576),
    ]
    assert list(shapes(stimuli[6])) == [(found[0], 0.65), (found[1], 0.35)]


def test_a_block_size_mix_is_a_size_of_its_own() -> None:
    """What a mix of sizes costs is measured with the mix."""
    sizes = (BlockShare(size_bytes=512, percent=40), BlockShare(size_bytes=65536, percent=60))
    mixed = replace(stimulus(40), block_size_bytes=sizes)

    assert [shape.block_size_bytes for shape in all_shapes([mixed])] == [None, sizes]


def test_a_shape_that_cannot_be_is_refused() -> None:
    """A write without a size, a read with one, and a ceiling without I/O are mistakes."""
    with pytest.raises(ValueError, match="block size"):
        ceiling(1.0, block_size_bytes=None)
    with pytest.raises(ValueError, match="block size"):
        ceiling(1.0, side="read")
    with pytest.raises(ValueError, match="needs I/Os"):
        ceiling(1.0, 0.0)


def test_a_ceiling_is_a_cost_that_others_at_the_cpus_do_not_change() -> None:
    """Four threads that got a quarter of a CPU each did a quarter: the ceiling is the same."""
    alone, crowded = ceiling(800_000), ceiling(200_000, 25.0)

    assert alone.cost_us == crowded.cost_us == pytest.approx(5.0)
    assert alone.max_iops(8) == crowded.max_iops(8) == pytest.approx(800_000)
    assert alone.max_iops(2) == pytest.approx(400_000)


def test_the_ceiling_of_a_mix_comes_from_the_costs_of_reads_and_writes() -> None:
    """65 reads of 2 us and 35 writes of 10 us are 480 us: 208 333 IOPS a CPU, and not the mean of both ceilings."""
    reads, writes = ceiling(2e6, side="read", block_size_bytes=None), ceiling(0.4e6)

    assert max_iops(stimulus(65), [reads, writes], 4) == pytest.approx(4 * MILLION * 100 / 480)
    assert max_iops(stimulus(0), [reads, writes], 4) == pytest.approx(0.4e6)
    assert max_iops(stimulus(65), [reads], 4) is None
    assert max_iops(stimulus(65), [reads, writes], 0) is None
    assert max_iops(stimulus(0, thread_count=1), [reads, writes], 4) is None


# -- the verdict ------------------------------------------------------------------------------------------------------

CASES: dict[str, tuple[dict[str, Any], bool | None]] = {
    "a SATA drive, its queue full": ({"iops": 80_000, "engine": 9.0, "in_drive": 99.0}, False),
    "the same on a host that others keep busy": ({"engine": 30.0, "host": 100.0, "in_drive": 97.0}, False),
    "nothing known of the queue, CPUs free": ({"engine": 40.0}, False),
    "the engine at its end": ({"engine": 95.0, "in_drive": 40.0}, True),
    "the engine at its end, queue not known": ({"engine": 95.0}, True),
    "the engine at its end, the drive's queue full": ({"engine": 95.0, "in_drive": 95.0, "busiest": 99.0}, False),
    "the host at its end, engine among others": ({"engine": 30.0, "host": 99.0, "in_drive": 30.0}, True),
    "the host at its end, most I/Os in the drive": ({"engine": 30.0, "host": 99.0, "in_drive": 70.0}, None),
    "the host at its end, hardly by the engine": ({"engine": 8.0, "host": 99.0, "in_drive": 30.0}, None),
    "the host at its end by others": ({"iops": 900, "engine": 0.5, "host": 100.0}, None),
    "threads more than CPUs": ({"threads": 32, "engine": 24.0}, True),
    "threads more than CPUs, half used": ({"threads": 32, "engine": 12.0}, False),
    "one I/O at a time, mostly in the drive": ({"threads": 1, "depth": 1, "engine": 30.0, "in_drive": 65.0}, False),
    "one I/O at a time, mostly in the host": ({"threads": 1, "depth": 1, "engine": 60.0, "in_drive": 30.0}, True),
    "tags run out, CPUs free": ({"depth": 128, "engine": 12.0, "in_drive": 6.0}, None),
    "full queue, one CPU never idle": ({"engine": 20.0, "in_drive": 95.0, "busiest": 100.0}, None),
    "full queue, one CPU just busy all the time": ({"engine": 20.0, "in_drive": 95.0, "busiest": 98.0}, None),
    "full queue, and it is just the engine that is busy": ({"engine": 90.0, "in_drive": 95.0, "busiest": 99.0}, False),
    "the host just at its end, the engine among others": ({"engine": 30.0, "host": 95.0, "in_drive": 30.0}, True),
    "one I/O at a time, one of eight CPUs busy": ({"threads": 1, "depth": 1, "engine": 40.0, "host": 12.0}, None),
    "the same with most of it in the drive": (
        {"threads": 1, "depth": 1, "engine": 40.0, "host": 12.0, "in_drive": 55.0},
        False,
    ),
    "just full": ({"engine": 95.0, "in_drive": 90.0}, False),
    "just not thin": ({"engine": 12.0, "in_drive": 50.0}, False),
    "the host just at its end, hardly by the engine": ({"engine": 8.0, "host": 95.0, "in_drive": 60.0}, None),
    "the host at its end, the engine just among others": ({"engine": 10.0, "host": 99.0, "in_drive": 30.0}, True),
    "the host at its end, half of the I/Os in the drive": ({"engine": 30.0, "host": 99.0, "in_drive": 50.0}, None),
    "full queue, a hypervisor took just a tenth": ({"engine": 20.0, "in_drive": 95.0, "stolen": 5.0}, False),
    "a hypervisor took much, the engine little": ({"engine": 20.0, "in_drive": 60.0, "stolen": 20.0}, None),
    "the same, nothing known of the drive": ({"engine": 20.0, "stolen": 20.0}, None),
    "a hypervisor took little, the engine lacked no more": ({"engine": 85.0, "stolen": 4.0, "host": 50.0}, None),
    "the engine just at its end": ({"engine": 90.0}, True),
    "the same, and it took just a tenth": ({"engine": 20.0, "stolen": 5.0}, False),
    "a hypervisor took what the engine did not use": ({"engine": 70.0, "stolen": 10.0, "host": 50.0}, None),
    "a hypervisor took some, the engine has more": ({"engine": 70.0, "stolen": 4.0, "host": 50.0}, False),
    "a hypervisor took some, the engine used the rest": ({"engine": 91.0, "stolen": 5.0}, True),
    "a hypervisor took all, nothing known of the engine": ({"engine": None, "stolen": 100.0}, None),
    "full queue, a hypervisor took a little": ({"engine": 20.0, "in_drive": 95.0, "stolen": 4.0}, False),
    "full queue, a hypervisor took more": ({"engine": 20.0, "in_drive": 95.0, "stolen": 6.0}, None),
    "one I/O at a time, a hypervisor took two of eight": ({"threads": 1, "depth": 1, "stolen": 7.0}, None),
    "an old journal": ({"engine": None, "host": None}, None),
}


@pytest.mark.parametrize(("facts", "limited"), CASES.values(), ids=CASES)
def test_host_or_drive(facts: dict[str, Any], limited: bool | None) -> None:
    """Each case has its verdict, with a reason unless nothing speaks for the host."""
    found = judged(measured(**facts))

    assert found.limited is limited
    assert found.reasons or limited is False


@pytest.mark.parametrize(("iops", "limited"), [(400_000, True), (375_000, True), (370_000, False), (200_000, False)])
def test_a_point_near_its_ceiling_is_the_host_s(iops: int, limited: bool) -> None:
    """At three quarters of what a null target allows, and above, little is left for the drive; at less there is."""
    found = judged(measured(iops, engine=None), ceiling(500_000), cpus=4)

    assert found.limited is limited
    assert found.ceiling_percent == pytest.approx(iops / 5000)


@pytest.mark.parametrize(
    ("stolen", "limited"), [(None, False), (0.0, False), (10.0, False), (20.0, None), (100.0, None)]
)
def test_a_ceiling_is_lower_where_a_hypervisor_takes_cpu_time(stolen: float | None, limited: bool | None) -> None:
    """Two fifths of a ceiling may be more of what a hypervisor left: whose they are is unknown."""
    found = judged(measured(200_000, engine=None, stolen=stolen), ceiling(500_000), cpus=4)

    assert found.limited is limited
    assert found.ceiling_percent == pytest.approx(40)


@given(
    engine=st.floats(0, 100),
    host=st.floats(0, 100),
    busiest=st.floats(0, 100),
    in_drive=st.none() | st.floats(0, 100),
    threads=st.integers(1, 32),
    depth=st.integers(1, 32),
    stolen=st.floats(0, 100),
)
def test_what_a_hypervisor_took_may_leave_a_verdict_open_and_turns_none(stolen: float, **facts: Any) -> None:
    """Whatever else is known: with stolen CPU time the verdict is the same as without, or unknown."""
    without, found = judged(measured(**facts)), judged(measured(**facts, stolen=stolen))

    assert found.limited in {without.limited, None}
    assert stolen or found == without


@given(
    engine=st.floats(0, 100),
    host=st.floats(0, 100),
    threads=st.integers(1, 32),
    depth=st.integers(1, 32),
    in_drive=st.floats(50, 100),
    less=st.floats(0, 1),
    stolen=st.floats(0, 100),
)
def test_less_in_the_drive_speaks_no_louder_for_it(in_drive: float, less: float, **facts: Any) -> None:
    """If the verdict is unknown with more of the I/Os in the drive, it is not "the drive" with fewer of them."""
    more = judged(measured(**facts, in_drive=in_drive))
    fewer = judged(measured(**facts, in_drive=less * in_drive))

    assert more.limited is not None or fewer.limited is not False


def test_one_i_o_at_a_time_may_come_no_nearer_to_the_ceiling_than_half() -> None:
    """Twice as many on a null target means that the host takes half the time of each: the drive is not the slower."""
    null = ceiling(200_000, thread_count=1, queue_depth=1)

    assert judged(measured(101_000, threads=1, depth=1, engine=None), null).limited is True
    assert judged(measured(90_000, threads=1, depth=1, engine=None), null).limited is False


def test_the_block_layer_s_queue_counts_in_i_os_and_while_there_is_i_o() -> None:
    """Requests that are parts of an I/O, and the engine's start and end, change nothing in what is in the drive."""
    whole = measured(1000, depth=8, in_drive=50.0)
    assert whole.telemetry is not None
    split = block_statistics(write_ios=8000, queue=8 * 16.0)
    longer = block_statistics(write_ios=1000, queue=16.0 / 1.25)

    assert judged(whole).drive_percent == pytest.approx(50.0)
    for block, seconds in ((split, 1.0), (longer, 1.25)):
        seen = replace(whole.telemetry, block=block, seconds=seconds)
        assert judged(replace(whole, telemetry=seen)).drive_percent == pytest.approx(50.0)


@pytest.mark.parametrize("kind", ["file", "loop device", "virtual device"])
def test_the_queue_of_what_is_itself_the_host_says_nothing(kind: str) -> None:
    """A loop device's I/Os in flight are done by the host's own threads."""
    found = judged(measured(engine=95.0, in_drive=99.0), kind=kind)

    assert (found.drive_percent, found.limited) == (None, True)


def test_a_simulated_drive_has_no_host() -> None:
    """Nothing is judged where no host did I/O."""
    assert host_share(measured(), dut(kind="simulated"), CPUS) is None
    assert majority_verdict([None] * 5) is None


@pytest.mark.parametrize("option", ["rate", "rate_iops", "thinktime", "thinktime_blocks"])
def test_a_point_that_its_own_options_limit_is_not_judged(option: str) -> None:
    """The requested rate or pause limits it, however busy the host is; other options do not."""
    busy = measured(engine=100.0)
    assert judged(busy).limited
    rated = replace(busy, stimulus=replace(busy.stimulus, options=((option, "100"),)))
    assert host_share(rated, dut(), CPUS) is None
    synchronous = replace(busy, stimulus=replace(busy.stimulus, options=(("fdatasync", "1"),)))
    assert judged(synchronous).limited


@given(
    host_us=st.floats(0.1, 1000),
    drive_us=st.floats(0.1, 1000),
    outstanding=st.integers(1, 64),
    busy_by_others=st.floats(0, 100),
)
def test_the_slower_of_two_servers_is_found(
    host_us: float, drive_us: float, outstanding: int, busy_by_others: float
) -> None:
    """Of I/Os that go round between a host and a drive (exact mean value analysis) the host is blamed if it is slower.

    Never for one that is half as slow as the drive, however busy others keep the CPUs.
    """
    queue = 0.0
    host_queue = rate = 0.0
    for inside in range(1, outstanding + 1):
        in_host, in_drive = host_us * (1 + host_queue), drive_us * (1 + queue)
        rate = inside / (in_host + in_drive)
        host_queue, queue = rate * in_host, rate * in_drive
    iops = max(1, round(MILLION * rate))
    measured_points = measured(
        iops,
        threads=1,
        depth=outstanding,
        engine=min(100.0, 100 * rate * host_us),
        host=max(busy_by_others, 100 * rate * host_us / CPUS),
        in_drive=100 * queue / outstanding,
    )

    limited = judged(measured_points).limited

    if host_us > 1.01 * drive_us:
        assert limited is True
    if 2 * host_us < drive_us:
        assert limited is not True


@given(
    iops=st.integers(1, 3000),
    threads=st.integers(1, 32),
    depth=st.integers(1, 32),
    cost_us=st.floats(0.5, 30),
    others=st.floats(0, 100),
    in_drive=st.none() | st.floats(0, 100),
    kind=st.sampled_from(["drive", "file", "loop device"]),
    cpus=st.integers(1, 128),
)
def test_a_slow_drive_is_never_blamed_on_the_host(
    iops: int, threads: int, depth: int, cost_us: float, others: float, in_drive: float | None, kind: str, cpus: int
) -> None:
    """3000 I/Os a second cost no host more than a tenth of a CPU: no load of others, and no queue, makes an alarm."""
    used = 100 * iops * cost_us / MILLION / threads
    null = ceiling(
        min(threads, cpus) * MILLION / cost_us,
        100 * min(threads, cpus) / threads,
        thread_count=threads,
        queue_depth=depth,
    )
    measured_points = measured(
        iops, threads=threads, depth=depth, engine=used, host=others, busiest=100.0, in_drive=in_drive
    )

    assert judged(measured_points, null, cpus=cpus, kind=kind).limited is not True


# -- points -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdicts", "limited"),
    [
        ((True, True, True, False, None), True),
        ((True, True, False, False, None), None),
        ((False, False, False, True, True), False),
        ((None,) * 5, None),
        ((), None),
    ],
)
def test_a_point_is_what_most_of_its_rounds_are(verdicts: tuple[bool | None, ...], limited: bool | None) -> None:
    """More than half of the rounds decide."""
    share = judged(measured())

    assert majority_verdict([replace(share, limited=verdict) for verdict in verdicts]) is limited


def test_a_sentence_names_some_and_counts_all() -> None:
    """Eight points are named; the demand tells them apart where it varies."""
    points: dict[Stimulus, bool | None] = {stimulus(thread_count=threads): True for threads in range(1, 11)}
    eight = dict(list(points.items())[:8])
    few: dict[Stimulus, bool | None] = {stimulus(0): True, stimulus(100): False, stimulus(50): None}

    assert limited_points_sentence(points).endswith("RND 4 KiB 0/100 T8Q32 and 2 more")
    assert limited_points_sentence(eight).endswith("RND 4 KiB 0/100 T8Q32")
    assert (
        limited_points_sentence(few) == "the host, not the drive, limited 1 of 3 points of the window: RND 4 KiB 0/100"
    )
    assert limited_points_sentence(dict.fromkeys(points)) == ""


def test_continuous_stimuli_are_named_together() -> None:
    """One sentence names the phases of all limited ones with their parts, at most eight of a phase."""
    parts = [f"Round {number}" for number in range(1, 11)]
    stimuli: dict[tuple[str, str], bool | None] = {("PC", ""): True, **{("pre-write", part): True for part in parts}}

    assert limited_stimuli_sentence({**stimuli, ("histogram", "Max IOPS"): True, ("histogram", "Min IOPS"): None}) == (
        f"the host, not the drive, limited 12 of 13 continuous stimuli: PC; pre-write ({', '.join(parts[:8])} and 2 "
        "more); histogram (Max IOPS)"
    )
    assert limited_stimuli_sentence({("PC", ""): True}).endswith(" limited 1 of 1 continuous stimulus: PC")
    assert limited_stimuli_sentence({("PC", ""): False, ("histogram", ""): None}) == ""


def test_names_with_commas_are_told_apart() -> None:
    """A semicolon separates points whose names hold a comma; a comma all others."""
    plain = {replace(stimulus(percent), name=f"p{percent}"): True for percent in (0, 100)}
    long = {replace(stimulus(percent), name=f"p{percent}, cold"): True for percent in (0, 100)}

    assert limited_points_sentence(plain).endswith(": p0, p100")
    assert limited_points_sentence(long).endswith(": p0, cold; p100, cold")


@pytest.mark.parametrize(("cpus", "percent"), [(4, 100 * 16 / 17), (16, 100 * 8 / 9), (0, 100 * 8 / 9)])
def test_the_balance_counts_what_is_outstanding_for_a_cpu(cpus: int, percent: float) -> None:
    """Eight threads of queue depth 8: 16 I/Os for each of four CPUs, 8 where each has its own or nothing is known."""
    measured_points = measured(threads=8, depth=8)

    assert balance_percent(measured_points, cpus) == pytest.approx(percent)
