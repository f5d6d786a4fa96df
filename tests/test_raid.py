"""The arithmetic of disk arrays: a published example, properties of all arrays, and the command line."""

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
    DISKS,
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

#: The published example: 10000 IOPS on 120 disks; 60 % are reads, 30 % of which hit the cache.
EXAMPLE = ArrayWorkload(read_percent=60, cache_hit_percent=30)
COMMAND = ("raid-estimate", "--disks", "120", "--iops", "10000", "--read-percent", "60", "--cache-hit-percent", "30")


def arrays() -> st.SearchStrategy[Array]:
    """Return a strategy for arrays of all levels."""
    sizes = {level: st.integers(minimum, 10**4) for level, minimum in MIN_DISKS.items()}
    sizes[10] = st.integers(2, 10**4).map(lambda pairs: 2 * pairs)
    return st.one_of(*(st.builds(Array, level=st.just(level), disks=disks) for level, disks in sizes.items()))


def workloads() -> st.SearchStrategy[ArrayWorkload]:
    """Return a strategy for mixes of whole percents, so that a test can compute exactly."""
    percents = st.integers(0, 100)
    return st.builds(ArrayWorkload, read_percent=percents, cache_hit_percent=percents, pre_reads_hit=st.booleans())


# -- the published figures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "pre_reads_hit", "parts", "disk_iops"),
    [
        (5, False, (4200, 8000, 8000), 168),
        (5, True, (4200, 5600, 8000), 148),
        (10, False, (4200, 0, 8000), 102),
    ],
)
def test_published_iops_of_a_disk(level: int, pre_reads_hit: bool, parts: tuple[int, ...], disk_iops: int) -> None:
    """The example's figures and their parts are reproduced, rounded to integers (101.67 is 102)."""
    work = disk_work(Array(level=level, disks=120), replace(EXAMPLE, pre_reads_hit=pre_reads_hit), 10000)

    assert (work.read_iops, work.pre_read_iops, work.write_iops) == parts
    assert work.disk_iops == sum(parts) / 120
    assert round_half_up(work.disk_iops) == disk_iops


def test_published_limits() -> None:
    """120 disks give 18000 IOPS (150 each) and 1560 MB/s (13 each); a 2 Gb/s link has 250 MB/s, four have 1000."""
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
    """A small write takes 1, 2, 4, 6 and 2 disk I/Os on RAID 0, 1, 5, 6 and 10; on a mirror of three disks, 3."""
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
def test_throughput_of_links(kind: str, mb_per_second: float) -> None:
    """Each link has its well-known throughput after line coding."""
    assert LINKS[kind].mb_per_second == pytest.approx(mb_per_second, abs=0.05)


def test_halves_are_rounded_up() -> None:
    """0.5, 1.5 and 2.5 become 1, 2 and 3; Python's `round` rounds halves to even."""
    assert [round_half_up(value) for value in (0.4, 0.5, 1.5, 2.5, 101.67, 168.33)] == [0, 1, 2, 3, 102, 168]


# -- properties ------------------------------------------------------------------------------------------------------


@given(arrays(), workloads(), st.integers(0, 10**9))
def test_disk_work_equals_exact_arithmetic(array: Array, workload: ArrayWorkload, iops: int) -> None:
    """The IOPS of a disk equal those of the formula in fractions."""
    missed, read = Fraction(100 - int(workload.cache_hit_percent), 100), Fraction(int(workload.read_percent), 100)
    pre_reads = {5: 2, 6: 3}.get(array.level, 0)
    penalty = {0: 1, 1: array.disks, 5: 4, 6: 6, 10: 2}[array.level]
    write = pre_reads * (missed if workload.pre_reads_hit else 1) + penalty - pre_reads
    exact = iops * (read * missed + (1 - read) * write) / array.disks

    assert disk_work(array, workload, iops).disk_iops == pytest.approx(float(exact), rel=1e-12)


@given(arrays(), workloads(), st.floats(1, 1e9))
def test_front_end_iops_is_the_inverse_of_disk_work(array: Array, workload: ArrayWorkload, disk_iops: float) -> None:
    """At the array's front-end IOPS, each disk has exactly its given IOPS."""
    array_iops = front_end_iops(array, workload, disk_iops)
    assume(array_iops is not None and array_iops <= 1e18)

    assert disk_work(array, workload, array_iops or 0).disk_iops == pytest.approx(disk_iops, rel=1e-9)


@given(arrays(), workloads(), st.floats(0, 1e12), st.floats(1, 1e6))
def test_disk_work_is_monotonic(array: Array, workload: ArrayWorkload, iops: float, increase: float) -> None:
    """More IOPS, fewer cache hits or fewer reads never reduce a disk's work; more disks or pre-read hits never add."""
    work = disk_work(array, workload, iops).disk_iops
    slack = 1e-9 * (1 + work)

    assert disk_work(array, workload, iops + increase).disk_iops >= work
    if workload.cache_hit_percent:
        fewer = replace(workload, cache_hit_percent=workload.cache_hit_percent - 1)
        assert disk_work(array, fewer, iops).disk_iops >= work - slack
    if workload.read_percent:
        fewer = replace(workload, read_percent=workload.read_percent - 1)
        assert disk_work(array, fewer, iops).disk_iops >= work - slack
    if array.level != 1:  # there an additional disk is an additional copy
        assert disk_work(replace(array, disks=array.disks + 2), workload, iops).disk_iops <= work + slack
    assert disk_work(array, replace(workload, pre_reads_hit=True), iops).disk_iops <= work + slack


@given(workloads(), st.integers(2, 500), st.integers(1, 10**6))
def test_levels_are_ordered_by_disk_work(workload: ArrayWorkload, pairs: int, iops: int) -> None:
    """With equal disks and IOPS and without pre-read hits, RAID 0 needs the fewest disk IOPS, then 10, 5 and 6."""
    cold = replace(workload, pre_reads_hit=False)
    disk_iops = [disk_work(Array(level=level, disks=2 * pairs), cold, iops).disk_iops for level in (0, 10, 5, 6)]

    assert disk_iops == sorted(disk_iops)


@given(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6))
def test_the_bottleneck_has_the_lower_throughput(disks: float, fabric: float) -> None:
    """The bottleneck is "both" if both are equal, and empty if only one is known."""
    bottleneck = Throughput(disks_mb_per_second=disks, fabric_mb_per_second=fabric).bottleneck
    assert bottleneck == ("both" if disks == fabric else "disks" if disks < fabric else "fabric")
    assert Throughput(disks_mb_per_second=disks, fabric_mb_per_second=None).bottleneck == ""


def test_without_disk_ios_there_is_no_front_end_limit() -> None:
    """With 100 % reads and 100 % cache hits the front-end limit is None."""
    workload = ArrayWorkload(read_percent=100, cache_hit_percent=100)
    assert front_end_iops(Array(level=5, disks=5), workload, 100) is None


# -- the command line -------------------------------------------------------------------------------------------------


def test_the_example_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """One command prints the example's figures, limits and conclusions."""
    limits = ["--disk-iops", "150", "--disk-mb-per-second", "13", "--links", "4", "--link-gbit", "2"]
    assert main([*COMMAND, "--level", "5", *limits]) == 0
    text = capsys.readouterr().out.replace("\N{NARROW NO-BREAK SPACE}", "")
    lines = [" ".join(line.split()) for line in text.splitlines()]

    assert "IOPS 4200 8000 8000 20200 168" in lines
    assert "IOPS with cached pre-reads 4200 5600 8000 17800 148" in lines
    assert "all disks 18000" in lines
    assert "120 disks 1560" in lines
    assert "one link of 2 Gb/s 250" in lines
    assert "Each disk needs 112.2 % of its IOPS: overloaded." in text
    assert "Each disk needs 98.9 % of its IOPS with cached pre-reads: within its limit." in text
    assert "The fabric is the bottleneck: the disks fill 6.24 such links." in text
    assert "rounded to integers" in text


@pytest.mark.parametrize(
    ("kind", "iops", "mb_per_second"),
    [("10k", "15960", "1200"), ("15k", "18000", "1560"), ("sata", "9720", "960"), ("nvme", "24000000", "420000")],
)
def test_a_kind_of_disk_has_figures_with_their_source(
    kind: str, iops: str, mb_per_second: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """120 disks of the kind: the document's 18000 IOPS and 1560 MB/s for 15k; the source of the figures is printed."""
    assert main([*COMMAND, "--level", "5", "--disk", kind]) == 0
    text = capsys.readouterr().out.replace("\N{NARROW NO-BREAK SPACE}", "")
    lines = [" ".join(line.split()) for line in text.splitlines()]

    assert f"all disks {iops}" in lines
    assert f"120 disks {mb_per_second}" in lines
    assert f"{DISKS[kind].source}." in text


def test_a_seek_and_half_a_turn_are_the_time_of_an_io() -> None:
    """The IOPS of the hard disks of which the document has none are those of their data sheets' times."""
    for kind, seek_ms, rpm in (("10k", (4.2 + 4.7) / 2, 10_000), ("sata", 8.2, 7200)):
        assert DISKS[kind].iops == pytest.approx(1000 / (seek_ms + 60_000 / rpm / 2), rel=0.01)


def test_given_values_replace_those_of_the_kind(capsys: pytest.CaptureFixture[str]) -> None:
    """--disk-iops and --disk-mb-per-second each replace one figure of --disk."""
    assert main([*COMMAND, "--level", "5", "--disk", "15k", "--disk-iops", "200", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)

    assert output["limits"]["disks_iops"] == 24000
    assert output["mb_per_second"]["disks"] == 1560
    assert output["disk"]["source"] == DISKS["15k"].source


def test_json_output(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has exact and rounded figures, and null for values without input."""
    assert main([*COMMAND, "--level", "10", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    (load,) = output["disk_load"]

    assert load["disk_iops"] == 12200 / 120
    assert load["disk_iops_rounded"] == 102
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


@pytest.mark.long_but_first
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
        ("--level 5 --disks 5 --disk 5k", "5k"),
        ("--level 5 --disks 5 --link sas-1 --link-gbit 3", "not allowed"),
    ],
)
def test_invalid_options_are_refused(options: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each invalid option gives one sentence, a remedy and the exit code of a usage error."""
    assert main(["raid-estimate", *options.split()]) == UsageError.exit_code
    out, err = capsys.readouterr()

    assert out == ""
    assert text in err
    assert len(err.splitlines()) == 2
