"""Every printed number of a workload profile once more, by the second implementation: simulated, real, imported."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from snia_pts.cli.main import main
from tests import test_recomputation, tkperf_files
from tests.recomputation import profiles
from tests.recomputation.record import is_imported, reported, rows, values
from tests.recomputation.sentences import check_sentences
from tests.recomputation.tables import check_cells, unknown_tables
from tests.test_recomputation import same
from tests.test_tkperf import SHARED

#: Repeats, two axes of quantities, a continuous point, zones, and passes of a stream.
_PROFILE = """
format = 1
title = "Everything"
description = "Everything that a report of a profile has."
source = "this test"
repeats = 3
fill = true

[[workload]]
name = "mix, random"
access = "RND"
read_percent = 30
block_size = "4 KiB"
seconds = 0.2

[[workload]]
name = "stream"
access = "SEQ"
read_percent = 0
block_size = "64 KiB"
range = "1 MiB"

[[workload]]
name = "line"
access = "RND"
read_percent = 50
block_size = "4 KiB"
seconds = 2
sample_seconds = 0.5

[[workload]]
name = "zone"
access = "RND"
read_percent = 50
block_size = "4 KiB"
seconds = 0.2
zones = 3

[[axis]]
key = "queue_depth"
values = [1, 4, 16]
workloads = ["mix, random"]

[[axis]]
key = "block_size"
values = ["4 KiB", "16 KiB"]
workloads = ["mix, random", "line"]
"""
#: Only fio supports these: calls of fdatasync, an axis of its options, the page cache, and a limited rate.
_OF_FIO = """
[[workload]]
name = "log"
access = "SEQ"
read_percent = 0
block_size = "8 KiB"
range = "1 MiB"
fio = { ioengine = "psync", fdatasync = 1 }

[[workload]]
name = "cached"
access = "RND"
read_percent = 0
block_size = "4 KiB"
seconds = 0.2
fio = { ioengine = "psync", buffered = 1, direct = 1 }

[[workload]]
name = "slow"
access = "RND"
read_percent = 0
block_size = "4 KiB"
seconds = 0.5
queue_depth = 4
fio = { rate_iops = 200, iodepth_low = 1, zero_buffers = 1 }

[[axis]]
key = "fio.refill_buffers"
values = [0, 1]
workloads = ["stream"]
"""
_KINDS = [
    "simulated",
    "shipped",
    "tkperf-iops",
    "tkperf-tp",
    "loopHdd.xml",
    pytest.param("real", marks=pytest.mark.long),
]


pytestmark = pytest.mark.usefixtures("without_figures")


@pytest.fixture(scope="module", params=_KINDS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return runs of profiles: a simulated drive, a file, and files of TKperf's hard disk tests, made and recorded."""
    folder: Path = tmp_path_factory.mktemp("profile")
    run, kind = folder / "run", request.param
    options = ("--run-dir", str(run), "--to", "csv,rst,json,ocp")
    if kind.startswith(("tkperf", "loop")):
        source = folder / "file.xml"
        if kind == "loopHdd.xml" and not (SHARED / "golden/tkperf/loopHdd.xml").exists():
            pytest.skip("SNIA_PTS_SHARED does not name a folder of measured series")
        elif kind == "loopHdd.xml":
            shutil.copyfile(SHARED / "golden/tkperf/loopHdd.xml", source)
        else:
            source.write_bytes(tkperf_files.hdd(kind.removeprefix("tkperf-"), zones=16))
        assert main(["import", str(source), *options]) == 0
        return run
    (folder / "everything.toml").write_text(_PROFILE + _OF_FIO * (kind == "real"), encoding="utf-8")
    words = {
        "simulated": (str(folder / "everything.toml"), "sim:enterprise-sata"),
        "shipped": ("queue-depth", "sim:enterprise-sata", "--seconds", "2"),
        "real": (str(folder / "everything.toml"), str(folder / "drive.img"), "--size", "16M"),
    }[kind]
    assert main(["profile", "run", *words, *options, "--seed", "20261125", "--progress", "none"]) == 0
    return run


@pytest.mark.long
def test_data_are_those_of_the_answers(run: Path) -> None:
    """Measurements and samples are recomputed from the answers, or each measurement from the file."""
    if is_imported(run):
        for row in rows(run, "measurements"):
            again = reported(run, row)
            same(values(row, "iops", "mb_per_second"), [again["iops"], again["mb_per_second"]])
        return
    test_recomputation.test_measurements_are_those_of_the_answers(run)
    test_recomputation.test_samples_add_up_to_the_answers(run)
    test_recomputation.test_samples_are_those_of_the_journal(run)
    test_recomputation.test_samples_of_fio_are_differences_of_its_totals(run)


def test_points_are_those_of_the_answers(run: Path) -> None:
    """A point's rates, response times and percentiles are those of all its repeats, from the answers or the file."""
    printed = rows(run, "points")
    for row in printed:
        again = profiles.figures(run, row)
        same(values(row, "iops", "mb_per_second"), [again["IOPS"], again["MB/s"]])
        repeats = profiles.rates(run, row)
        same(
            values(row, "minimum_iops", "maximum_iops", "spread_percent"),
            [repeats.min(), repeats.max(), again["Spread (%)"]],
        )
        times = [value / 1000 for value in values(row, "average_response_us", "two_nines_response_us")]
        same(times, [again["Average response (ms)"], again["99 % response (ms)"]])
        same([value / 1000 for value in values(row, "maximum_response_us")], [again["Max. response (ms)"]])
    assert printed


def test_key_figures_are_those_of_the_record(run: Path) -> None:
    """Limits, comparisons and OCP lines have the recomputed figures: reads and writes, calls, percentiles, too."""
    test_recomputation.test_key_figures_are_those_of_the_record(run)


def test_json_has_the_tables(run: Path) -> None:
    """The tables in JSON are those in CSV."""
    test_recomputation.test_json_has_the_tables(run)


def test_every_table_is_recomputed(run: Path) -> None:
    """There is a recomputation for every table of the report that has measured numbers."""
    assert not unknown_tables(run)


@pytest.mark.long
def test_printed_figures_are_those_of_the_record(run: Path) -> None:
    """Each cell and each sentence has the recomputed figure within half of its last digit."""
    check_cells(run)
    has_zones = "by Zone" in (run / "report.rst").read_text(encoding="utf-8")
    assert check_sentences(run) == has_zones + bool(profiles.slowed_by_few(run)[0])
