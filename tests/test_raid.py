"""The arithmetic of disk arrays: a published example to the digit, and what must hold whatever the array is."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from snia_pts.cli.main import main
from snia_pts.errors import UsageError
from snia_pts.model.raid import (
    LINKS,
    MIN_DISKS,
    Array,
    ArrayWorkload,
    LinkSpeed,
    Throughput,
    disk_work,
    disks_iops,
    disks_mb_per_second,
    fabric_mb_per_second,
    front_end_iops,
    round_half_up,
)

#: The published example: 10000 IOPS, of which 60 % are reads, of which 30 % hit the cache, on 120 disks.
EXAMPLE = ArrayWorkload(read_percent=60, cache_hit_percent=30)
COMMAND = ("raid-estimate", "--disks", "120", "--iops", "10000", "--read-percent", "60", "--cache-hit-percent", "30")


def arrays() -> st.SearchStrategy[Array]:
    """Arrays of all levels."""
    sizes = {level: st.integers(fewest, 10**4) for level, fewest in MIN_DISKS.items()}
    sizes[10] = st.integers(2, 10**4).map(lambda pairs: 2 * pairs)
    return st.one_of(*(st.builds(Array, level=st.just(level), disks=disks) for level, disks in sizes.items()))


def workloads() -> st.SearchStrategy[ArrayWorkload]:
    """Mixes of whole percents, so that integers can tell what is right."""
    percents = st.integers(0, 100)
    return st.builds(ArrayWorkload, read_percent=percents, cache_hit_percent=percents, pre_reads_hit=st.booleans())


# -- the published figures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "pre_reads_hit", "parts", "each"),
    [
        (5, False, (4200, 8000, 8000), 168),
        (5, True, (4200, 5600, 8000), 148),
        (10, False, (4200, 0, 8000), 102),
    ],
)
def test_published_iops_of_a_disk(level: int, pre_reads_hit: bool, parts: tuple[int, ...], each: int) -> None:
    """The example's figures come out with all their parts, rounded to integers: 101.67 is 102."""
    work = disk_work(Array(level=level, disks=120), replace(EXAMPLE, pre_reads_hit=pre_reads_hit), 10000)

    assert (work.read_iops, work.pre_read_iops, work.write_iops) == parts
    assert work.disk_iops == sum(parts) / 120
    assert round_half_up(work.disk_iops) == each


def test_published_limits() -> None:
    """120 disks of 150 IOPS carry 18000, of 13 MB/s move 1560; a link of 2 Gb/s lets 250 MB/s through, four 1 GB/s."""
    link = LinkSpeed(gbit_per_second=2)

    assert disks_iops(Array(level=5, disks=120), 150) == 18000
    assert disks_mb_per_second(120, 13) == 1560
    assert link.mb_per_second == 250
    assert fabric_mb_per_second(4, link) == 1000


@pytest.mark.parametrize(
    ("level", "disks", "penalty", "data"),
    [(0, 4, 1, 4), (1, 2, 2, 1), (1, 3, 3, 1), (5, 4, 4, 3), (6, 8, 6, 6), (10, 8, 2, 4)],
)
def test_write_penalties(level: int, disks: int, penalty: int, data: int) -> None:
    """A small write is 1, 2, 4, 6 and 2 I/Os of disks; a mirror of three is three."""
    array = Array(level=level, disks=disks)

    assert array.write_penalty == penalty
    assert array.data_disks == data


@pytest.mark.parametrize(
    ("kind", "mb_per_second"),
    [
        ("sata-3", 600),
        ("sas-2", 600),
        ("sas-3", 1200),
        ("sas-4", 2400),
        ("pcie-1", 250),
        ("pcie-2", 500),
        ("pcie-3", 984.6),
        ("pcie-4", 1969.2),
        ("pcie-5", 3938.5),
    ],
)
def test_known_links(kind: str, mb_per_second: float) -> None:
    """What is left of the speed on the wire after its line code is what the interfaces are known for."""
    assert LINKS[kind].mb_per_second == pytest.approx(mb_per_second, abs=0.05)


def test_halves_are_the_greater_number() -> None:
    """Not the even one, as Python rounds."""
    assert [round_half_up(value) for value in (0.4, 0.5, 1.5, 2.5, 101.67, 168.33)] == [0, 1, 2, 3, 102, 168]


# -- what always holds ------------------------------------------------------------------------------------------------


@given(arrays(), workloads(), st.integers(0, 10**9))
def test_the_sums_are_those_of_integers(array: Array, workload: ArrayWorkload, iops: int) -> None:
    """Every disk's share is that of the formula in fractions."""
    missed, read = Fraction(100 - int(workload.cache_hit_percent), 100), Fraction(int(workload.read_percent), 100)
    pre_reads = {5: 2, 6: 3}.get(array.level, 0)
    penalty = {0: 1, 1: array.disks, 5: 4, 6: 6, 10: 2}[array.level]
    write = pre_reads * (missed if workload.pre_reads_hit else 1) + penalty - pre_reads
    exact = iops * (read * missed + (1 - read) * write) / array.disks

    assert disk_work(array, workload, iops).disk_iops == pytest.approx(float(exact), rel=1e-12)


@given(arrays(), workloads(), st.floats(1, 1e9))
def test_one_way_is_the_other_turned_round(array: Array, workload: ArrayWorkload, disk_iops: float) -> None:
    """At the IOPS that an array carries, each disk does just what it carries."""
    carried = front_end_iops(array, workload, disk_iops)
    assume(carried is not None and carried <= 1e18)

    assert disk_work(array, workload, carried or 0).disk_iops == pytest.approx(disk_iops, rel=1e-9)


@given(arrays(), workloads(), st.floats(0, 1e12), st.floats(1, 1e6))
def test_more_asked_is_more_work(array: Array, workload: ArrayWorkload, iops: float, more: float) -> None:
    """More IOPS, fewer hits or fewer reads than hit are never less work for a disk; more disks never more."""
    work = disk_work(array, workload, iops).disk_iops
    slack = 1e-9 * (1 + work)

    assert disk_work(array, workload, iops + more).disk_iops >= work
    if workload.cache_hit_percent:
        fewer = replace(workload, cache_hit_percent=workload.cache_hit_percent - 1)
        assert disk_work(array, fewer, iops).disk_iops >= work - slack
    if workload.read_percent:
        fewer = replace(workload, read_percent=workload.read_percent - 1)
        assert disk_work(array, fewer, iops).disk_iops >= work - slack
    if array.level != 1:  # where each more disk is one more copy
        assert disk_work(replace(array, disks=array.disks + 2), workload, iops).disk_iops <= work + slack
    assert disk_work(array, replace(workload, pre_reads_hit=True), iops).disk_iops <= work + slack


@given(workloads(), st.integers(2, 500), st.integers(1, 10**6))
def test_levels_in_their_order(workload: ArrayWorkload, pairs: int, iops: int) -> None:
    """With as many disks and the same work, RAID 0 asks least of a disk, then RAID 10, 5 and 6, with cold pre-reads."""
    cold = replace(workload, pre_reads_hit=False)
    each = [disk_work(Array(level=level, disks=2 * pairs), cold, iops).disk_iops for level in (0, 10, 5, 6)]

    assert each == sorted(each)


@given(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6))
def test_the_bottleneck_is_the_narrower(disks: float, fabric: float) -> None:
    """And both where they are as wide; nothing where only one is known."""
    found = Throughput(disks_mb_per_second=disks, fabric_mb_per_second=fabric).bottleneck
    assert found == ("both" if disks == fabric else "disks" if disks < fabric else "fabric")
    assert Throughput(disks_mb_per_second=disks, fabric_mb_per_second=None).bottleneck == ""


def test_a_cache_that_answers_everything_has_no_limit() -> None:
    """Where no I/O reaches a disk, no disk limits the array."""
    workload = ArrayWorkload(read_percent=100, cache_hit_percent=100)
    assert front_end_iops(Array(level=5, disks=5), workload, 100) is None


# -- the command line -------------------------------------------------------------------------------------------------


def test_the_example_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The whole example in one command: figures, limits and what they mean."""
    told = ["--disk-iops", "150", "--disk-mb-per-second", "13", "--links", "4", "--link-gbit", "2"]
    assert main([*COMMAND, "--level", "5", *told]) == 0
    text = capsys.readouterr().out.replace("\N{NARROW NO-BREAK SPACE}", "")
    lines = [" ".join(line.split()) for line in text.splitlines()]

    assert "IOPS 4200 8000 8000 20200 168" in lines
    assert "IOPS, pre-reads from the cache too 4200 5600 8000 17800 148" in lines
    assert "all disks 18000" in lines
    assert "120 disks 1560" in lines
    assert "one link of 2 Gb/s 250" in lines
    assert "Each disk needs 112.2 % of its IOPS: overloaded." in text
    assert "Each disk needs 98.9 % of its IOPS, pre-reads from the cache too: within its limit." in text
    assert "The fabric is the bottleneck: the disks fill 6.24 such links." in text
    assert "rounded to integers" in text


def test_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has the exact and the rounded figures, and null for what nothing was told of."""
    assert main([*COMMAND, "--level", "10", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    (asked,) = output["disk_load"]

    assert asked["disk_iops"] == 12200 / 120
    assert asked["disk_iops_rounded"] == 102
    assert output["limits"] == {"disk_iops": None, "disks_iops": None, "front_end": []}
    assert output["mb_per_second"]["bottleneck"] is None

    assert (
        main(
            [
                "raid-estimate",
                "--level",
                "6",
                "--disks",
                "8",
                "--disk-mb-per-second",
                "200",
                "--link",
                "pcie-3",
                "--json",
            ]
        )
        == 0
    )
    output = json.loads(capsys.readouterr().out)
    assert output["disk_load"] == []
    assert output["mb_per_second"]["full_stripe_writes"] == 1200
    assert output["mb_per_second"]["links"] == 1
    assert output["mb_per_second"]["bottleneck"] == "fabric"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--level 7 --disks 5 --iops 1 --read-percent 1", "RAID 7 is not supported"),
        ("--level 5 --disks 2 --iops 1 --read-percent 1", "RAID 5 does not support 2 disks"),
        ("--level 6 --disks 3 --disk-iops 1", "RAID 6 does not support 3 disks"),
        ("--level 10 --disks 5 --disk-iops 1", "an even number of disks, not 5"),
        ("--level 0 --disks -3 --disk-iops 1", "does not support -3 disks"),
        ("--level 5 --disks 1e3 --disk-iops 1", "--disks"),
        ("--level 5 --disks 5", "nothing to estimate"),
        ("--level 5 --disks 5 --iops 3", "needs the percentage of reads"),
        ("--level 5 --disks 5 --iops nan --read-percent 1", "nan is not a valid number of IOPS"),
        ("--level 5 --disks 5 --iops 1e19 --read-percent 1", "1e+19 is not a valid number of IOPS"),
        ("--level 5 --disks 5 --iops -1 --read-percent 1", "-1 is not a valid number of IOPS"),
        ("--level 5 --disks 5 --iops 1 --read-percent 100.5", "100.5 is not a valid share of reads"),
        (
            "--level 5 --disks 5 --iops 1 --read-percent 1 --cache-hit-percent -1",
            "-1 is not a valid share of cache hits",
        ),
        ("--level 5 --disks 5 --disk-iops 0", "0 is not a valid number of IOPS of a disk"),
        ("--level 5 --disks 5 --disk-mb-per-second inf", "inf is not a valid throughput"),
        ("--level 5 --disks 5 --links 2", "--links goes with"),
        ("--level 5 --disks 5 --links 0 --link sas-3", "0 is not a valid number of links"),
        ("--level 5 --disks 5 --link-gbit 0", "0 is not a valid speed of a link"),
        ("--level 5 --disks 5 --link usb", "usb"),
        ("--level 5 --disks 5 --link sas-1 --link-gbit 3", "not allowed"),
    ],
)
def test_what_is_no_array_is_refused(options: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each mistake is one sentence and a remedy, with the code of a wrong option."""
    assert main(["raid-estimate", *options.split()]) == UsageError.exit_code
    out, err = capsys.readouterr()

    assert out == ""
    assert text in err
    assert len(err.splitlines()) == 2
