"""TKperf's files become runs, and runs its files: what both know is the same, what one does not know stays unknown."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import zipfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from snia_pts import registries
from snia_pts.cli.main import main
from snia_pts.cli.text.result import result_lines
from snia_pts.errors import HostFailed, NotExportable, NotResumable, RecordError
from snia_pts.record.entries import Entry
from snia_pts.record.folder import RunFolder
from snia_pts.record.journal import Journal
from snia_pts.record.replay import assess
from snia_pts.record.result_xml import result_xml
from snia_pts.report.formats import ocp
from snia_pts.results.builder import fold
from snia_pts.results.comparison import context_differences
from snia_pts.results.imported import Imported
from snia_pts.results.key_figures import key_figures
from snia_pts.results.result import TestResult
from snia_pts.results.tables import data_tables
from snia_pts.results.warnings import run_warnings
from snia_pts.tkperf.device import command, device
from snia_pts.tkperf.document import File, read
from snia_pts.tkperf.reader import Run, runs
from snia_pts.tkperf.writer import written
from tests import samples, tkperf_files
from tests.tkperf_files import ssd

#: Files that TKperf itself wrote, where somebody put them beside the checkout.
SHARED = Path(os.environ.get("SNIA_PTS_SHARED") or Path(__file__).parents[2] / "shared")
#: TKperf itself, where somebody has it: its checkout, and a Python that has the libraries of its time.
TKPERF, PYTHON = (Path(os.environ.get(name, "/nonexistent")) for name in ("TKPERF_CHECKOUT", "TKPERF_PYTHON"))
TESTS = ("iops", "latency", "throughput", "wsat")
IMPORTED = Imported(
    importer="tkperf",
    tool="",
    version="",
    file="tkperf.xml",
    sha256="0" * 64,
    imported_at="2026-11-22T10:00:00+00:00",
    name="",
)


def made(document: bytes) -> dict[str, Run]:
    """Return the runs of a file by test."""
    return {
        run.test: run for run in runs(read(document, "a file"), IMPORTED, ("snia-pts", "import", "f.xml"), "a file")
    }


def result_of(run: Run) -> TestResult:
    """Return what a run comes to, as the journal folds it; without what ended write saturation."""
    return fold(run.facts, run.steps, ending="finished", ending_detail="", finished="")


@cache
def results(version: str = "2.2", sector: int = 512) -> dict[str, TestResult]:
    """Return the results of a small file of all tests."""
    return {test: result_of(run) for test, run in made(ssd(version=version, sector=sector)).items()}


def matrices(document: bytes) -> dict[str, str]:
    """Return the text of every matrix of a file."""
    root = etree.fromstring(document)
    return {str(test.tag): test.findtext("roundmat") or "" for test in root if test.findtext("roundmat")}


def golden(name: str) -> bytes:
    """Return a file that TKperf itself wrote; skips the test where it is not to be had."""
    path = SHARED / "golden" / "tkperf" / name
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    return path.read_bytes()


# -- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2.2", "2.0", "1.1"])
def test_each_test_of_a_file_is_a_run(version: str) -> None:
    """Files of both major versions hold four tests; each is one of ours, by PTS-E 1.1, with the rounds that it had."""
    found = made(ssd(version=version))

    assert sorted(found) == sorted(TESTS)
    assert {run.facts.spec.pts for run in found.values()} == {"1.1"}
    iops, wsat = result_of(found["iops"]), result_of(found["wsat"])
    assert [len(result_of(found[test]).loops) for test in TESTS] == [1, 1, 5, 0]
    assert len(iops.loops[0].rounds) == len(wsat.time_lines[0]) == 6
    assert iops.steady


def test_a_value_stands_at_its_point() -> None:
    """Each cell of a matrix is found by R/W mix and block size, and has the value of its place in the file."""
    measured = results()["iops"].loops[0].rounds[2].measurements
    cells = {
        (measurement.stimulus.read_percent, measurement.stimulus.block_size_bytes): measurement.iops
        for measurement in measured
    }

    assert cells[0, 4096] == tkperf_files.value(2, 6, 6)
    assert cells[100, 1 << 20] == tkperf_files.value(2, 0, 0)
    assert cells[95, 512] == tkperf_files.value(2, 1, 7)
    assert len(cells) == 56


def test_throughput_is_in_kib() -> None:
    """TKperf's throughput is KiB/s, whatever its report calls it."""
    point = results()["throughput"].loops[1].rounds[0].measurements[1]

    assert (point.stimulus.access, point.stimulus.read_percent, point.stimulus.block_size_bytes) == ("SEQ", 0, 65536)
    assert point.mb_per_second == tkperf_files.value(0, 1, 1) * 1024 / 1e6
    assert point.iops == tkperf_files.value(0, 1, 1) * 1024 / 65536


def test_response_times_are_in_microseconds() -> None:
    """A latency's three numbers are the least, the greatest and the mean, in us."""
    point = results()["latency"].loops[0].rounds[1].measurements[7]

    assert point.stimulus.label == "RND 4 KiB 0/100"
    assert point.reported is not None
    assert list(point.reported.response_us) == tkperf_files.matrix("lat", 6)[1][2][1]
    assert point.average_response_us == tkperf_files.matrix("lat", 6)[1][2][1][2]


def test_write_saturation_is_a_stretch_a_sample() -> None:
    """Every sample of write saturation is a start of fio of its own, one after the other on the clock of its I/O."""
    line = results()["wsat"].time_lines[0]

    assert (line.engine_starts, len(line)) == (6, 6)
    assert list(line.ended_seconds) == [60.0, 120.0, 180.0, 240.0, 300.0, 360.0]
    assert line.iops == [float(tkperf_files.value(number)) for number in range(6)]


def test_sectors_of_4096_bytes_have_a_size_less() -> None:
    """On a 4Kn drive the file has no column of 512 bytes; the 4 KiB column is found all the same."""
    result = results(sector=4096)["iops"]
    sizes = {measurement.stimulus.block_size_bytes for measurement in result.loops[0].rounds[0].measurements}

    assert result.facts.dut.logical_sector_bytes == 4096
    assert min(size for size in sizes if isinstance(size, int)) == 4096
    average = result.loops[0].window.determinations[0][1].average if result.loops[0].window else 0.0
    assert average == pytest.approx(sum(tkperf_files.value(number, 6, 6) for number in range(1, 6)) / 5)


def test_the_wrong_column_of_4096_byte_sectors_is_told() -> None:
    """There TKperf judged 8 KiB for 4 KiB: that is a Deviation, and the numbers that it claims are a warning."""
    result = results(sector=4096)["iops"]

    assert any("8 KiB" in deviation.actual for deviation in result.deviations)
    assert [warning for warning in run_warnings(result) if warning.what == "steady state claimed"]
    assert not [item for item in run_warnings(results()["iops"]) if item.what == "steady state claimed"]


def test_old_files_have_their_own_demand_and_time() -> None:
    """Version 1 tells no time of a point, and of write saturation no demand: 60 s, and that of its other tests.

    Its latency says the demand that was asked for, and ran one outstanding I/O.
    """
    found = results("1.1")
    stimuli = {test: next(iter(result.measurements)).stimulus for test, result in found.items()}

    assert {stimulus.seconds for stimulus in stimuli.values()} == {60.0}
    assert [stimuli[test].demand.label for test in TESTS] == ["T2Q16", "T1Q1", "T2Q16", "T2Q16"]


def test_a_demand_that_nobody_tells_is_none() -> None:
    """A write saturation of version 1 alone, without a command line, does not tell how much was outstanding."""
    with pytest.raises(RecordError, match="number of jobs"):
        made(ssd("writesat", version="1.1", command=""))


def test_response_times_that_contradict_each_other_are_refused() -> None:
    """A mean outside of the range of its minimum and maximum cannot be right."""
    content = ssd("lat").decode()
    (first,) = re.findall(r"\[\[\[(\[3\.0, [0-9.]+, [0-9.]+\])", content)[:1]

    with pytest.raises(RecordError, match=r"the mean response time 500000 is not in the range from 3 to 600"):
        made(content.replace(first, "[3.0, 600.0, 500000.0]", 1).encode())


def test_the_slides_file_is_read() -> None:
    """The file of the TK Roadshow's slides: its rounds 8 - 12 are steady here too, with the very average it claims."""
    result = result_of(made(tkperf_files.slide())["iops"])
    window = result.loops[0].window

    assert result.steady
    assert window is not None
    assert window.numbers == (8, 9, 10, 11, 12)
    assert window.determinations[0][1].average == 14339.2
    assert window.determinations[0][1].slope == pytest.approx(48.3)
    assert result.facts.dut.model == result.facts.started == ""


@pytest.mark.parametrize(("kind", "name"), [("iops", "hdd-iops"), ("tp", "hdd-throughput")])
def test_a_hard_disks_file_is_a_run_of_its_profile(kind: str, name: str) -> None:
    """Tests by zones are runs of the profiles that measure zones; each value stands at its zone, mix and size."""
    found = made(tkperf_files.hdd(kind))
    result = result_of(found[name])
    points = {loop.part: loop.rounds[0].measurements[0] for loop in result.loops}

    assert result.facts.spec.test == "profile"
    assert len(points) == 128 * (9 if kind == "iops" else 4)
    if kind == "iops":
        assert points["random, 50/50, 16 KiB, zone 7"].iops == 100 + 6 + 1 + 7
    else:
        assert points["sequential, 0/100, 4 KiB, zone 128"].mb_per_second == (200_000 - 127 - 900 - 5000) * 1024 / 1e6
    assert any("capacity of the disk" in warning.detail for warning in run_warnings(result))
    assert etree.fromstring(result_xml(result)).find(".//measurement[@range_bytes]") is None


def test_zones_lie_where_tkperf_has_them() -> None:
    """Of a disk that tells its size, a zone is a whole number of 4096 bytes, and they follow each other."""
    document = tkperf_files.hdd().replace(b'<devinfo>""', b'<devinfo>"Device Size (bytes): 4000787030016"')
    (run,) = made(document).values()
    stimuli = [step.stimuli[0] for step, _ in run.steps]
    each = 4000787030016 // 128 // 4096 * 4096

    assert {stimulus.range_bytes for stimulus in stimuli} == {each}
    assert {stimulus.range_offset_bytes for stimulus in stimuli} == {place * each for place in range(128)}


def test_the_device_is_what_its_description_says() -> None:
    """The lines of hdparm, nvme, udevadm and sginfo that TKperf copies are found; what nobody says is not known."""

    def of(text: str, line: str = "") -> Any:
        known = File(
            name="n",
            date="",
            description=text,
            features="",
            kernel="",
            distribution="",
            version="2.2",
            command_line=line,
            tests=(),
        )
        return device(known, (4096,))

    ata, nvme = of(tkperf_files.HDPARM), of(tkperf_files.NVME)
    usb = of(
        "udevadm Device Info section\nE: ID_MODEL=Stick\nE: ID_SERIAL_SHORT=007\nDevice Size (bytes): 16000000000\n"
    )
    sas = of("Vendor: SEAGATE\nProduct: ST200FM\nRevision Level: 0003\nSerial Number 'Z3F0'\nWrite Cache Enabled   0\n")
    nothing = of("", "tkperf raid r5 /dev/md0 -c raid5.cfg")

    assert (ata.model, ata.serial, ata.firmware) == ("INTEL SSDSA2CW300G3", "CVPR000000000300", "4PC10362")
    assert (ata.capacity_bytes, ata.write_cache) == (300_069_000_000, "enabled")
    assert (nvme.serial, nvme.capacity_bytes, nvme.bus) == ("S4EWNX0R300000", 1_000_204_886_016, "nvme")
    assert (usb.model, usb.serial, usb.capacity_bytes) == ("Stick", "007", 16_000_000_000)
    assert (sas.model, sas.serial, sas.write_cache) == ("ST200FM", "Z3F0", "disabled")
    assert (nothing.model, nothing.capacity_bytes, nothing.write_cache) == ("", 0, "unknown")
    assert nothing.path == "/dev/md0"


def test_a_command_line_is_understood() -> None:
    """Options may stand before the names, and what has no value takes none; other programs are not read."""
    asked = command("/usr/local/bin/tkperf -nj 4 -rfb ssd evo /dev/sdb -iod 8 -c x.cfg")

    assert (asked.mode, asked.path, asked.jobs, asked.depth) == ("ssd", "/dev/sdb", 4, 8)
    assert command("tkperf ssd evo /dev/sdb").jobs == 1
    assert command("snia-pts iops /dev/sdb").path == ""


# -- what is claimed, and what is known to be wrong -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (("iops/reachstdystate", False), "says not steady, but by the rule it is steady"),
        (("iops/stdyavg", 1.0), "its average is 1"),
        (("iops/stdyrounds", [0, 1, 2, 3, 4]), "the window here is rounds 2 - 6"),
        (("iops/stdyvalues", [1, 2, 3, 4, 5]), "differ from those of these rounds"),
        (("iops/stdyslope", [900.0, 0.0]), "its best fit has the slope"),
    ],
)
def test_a_claim_that_does_not_come_out_is_a_warning(change: tuple[str, Any], text: str) -> None:
    """What a file says of its steady state is held against its own rounds."""
    result = result_of(made(ssd("iops", changes=[change]))["iops"])

    assert any(text in warning.detail for warning in run_warnings(result) if warning.what == "steady state claimed")
    assert result.steady


def test_known_faults_are_deviations() -> None:
    """What versions up to 2.2 are known to do is told, each with its clause; by the command line where that decides."""
    two, one = results(), made(ssd(jobs=1))
    whats = {test: {entry.what: entry.actual for entry in two[test].deviations} for test in TESTS}

    assert "same blocks in every round" in whats["iops"]["random offsets"]
    assert "writes 4 x user capacity" in whats["iops"]["preconditioning"]
    assert "writes 4 x user capacity" in whats["latency"]["preconditioning"]
    assert "0.65 x that of reads" in whats["latency"]["response times of R/W 65/35"]
    assert "only purges" in whats["throughput"]["preconditioning"]
    assert {"end of the rounds", "sequential streams"} <= whats["throughput"].keys()
    assert "continuous stimulus" in whats["wsat"]
    assert "sequential streams" not in {deviation.what for deviation in one["throughput"].facts.deviations}
    assert all(item.clause for result in two.values() for item in result.deviations)
    assert not any(result.conformant for result in two.values())


def test_faults_of_other_versions_are_not_made_up() -> None:
    """A version that nobody looked at, and a file that this suite wrote, have none of TKperf's known faults."""
    for version in ("2.3", "snia-pts 0.1.0"):
        told = {deviation.what for deviation in made(ssd("iops", version=version))["iops"].facts.deviations}

        assert "random offsets" not in told
        assert {"measured by another tool", "purge"} <= told


def test_an_end_that_nobody_can_tell_is_a_warning() -> None:
    """Write saturation of six minutes that did not write the drive four times over did not end as TKperf ends."""
    assert any(warning.what == "end of the stimulus" for warning in run_warnings(results()["wsat"]))


# -- what is not known stays unknown ----------------------------------------------------------------------------------

#: What nothing but an output that counts may say of a run without counts.
_COUNTS = ("read_ios", "read_bytes", "read_runtime_ms", "write_ios", "write_bytes", "write_runtime_ms", "seed")


@pytest.mark.parametrize("test", TESTS)
def test_the_result_leaves_out_what_the_file_does_not_tell(test: str) -> None:
    """In result.xml no measurement has a count, a seed or an evidence of its own; of rounds nothing was written."""
    result = results()[test]
    root = etree.fromstring(result_xml(result))
    measured = root.findall(".//measurement")

    assert measured
    assert not {name for measurement in measured for name in measurement.attrib} & {
        *_COUNTS,
        "evidence",
        "three_nines_response_us",
    }
    timed = {item.get("average_response_us") is not None for item in measured}
    assert timed == {test in ("latency", "wsat")}
    assert {entry.get("iops") is not None for entry in measured} == {test != "latency"}
    run = root.find("run")
    assert run is not None
    assert ("written_bytes" in run.attrib) == (test == "wsat")
    assert "seed" not in run.attrib
    assert root.find("imported/claim") is None if test == "wsat" else root.find("imported/claim") is not None


@pytest.mark.parametrize("test", TESTS)
def test_the_tables_have_no_column_that_nobody_filled(test: str) -> None:
    """CSV, JSON and the workbook come from tables; there is no column of counts, and no 0 for what is unknown.

    Rates have a column in any case.
    """
    tables = {data_table.name: data_table for data_table in data_tables(results()[test])}
    measurements = tables["measurements"]
    fields = set(measurements.fields)

    assert not fields & {*_COUNTS, "evidence", "three_nines_response_us"}
    known = {row[measurements.column("iops")] is not None for row in measurements.rows}
    assert known == {test != "latency"}
    assert ("average_response_us" in fields) == (test in ("latency", "wsat"))
    told = {row[0]: row[1] for row in tables["run"].rows}
    assert told["seed"] is None
    assert (told["written_bytes"] is None) == (test != "wsat")


def test_a_device_without_a_size_has_none_anywhere() -> None:
    """Where no line tells the capacity, no output has a number for it, nor a share of it."""
    result = result_of(made(ssd("iops", version="", description=""))["iops"])
    root = etree.fromstring(result_xml(result))
    dut, point = root.find("dut"), root.find(".//measurement")

    assert dut is not None
    assert point is not None
    assert "capacity_bytes" not in dut.attrib
    assert "range_bytes" not in point.attrib
    assert math.isnan(result.facts.dut.fills(1.0))
    assert ("dut.capacity_bytes", None) in data_tables(result)[0].rows


def test_key_figures_are_those_that_the_file_tells() -> None:
    """Limits and comparisons know no response time of an IOPS file, and no IOPS of a latency's."""
    metrics = {test: {figure.metric for figure in key_figures(result)} for test, result in results().items()}

    assert metrics["iops"] == metrics["throughput"] == {"iops", "mb_per_second"}
    assert metrics["latency"] == {"average_response_ms", "maximum_response_ms"}
    assert {"iops", "average_response_ms", "written_gb"} <= metrics["wsat"]


def test_the_reads_and_writes_of_a_mixed_zone_are_unknown() -> None:
    """A hard disk's file has both together only: tables, key figures and terminal have no 0 for each of them."""
    (run,) = made(tkperf_files.hdd("iops")).values()
    result = result_of(run)
    points = next(table for table in data_tables(result) if table.name == "points")

    assert {row[points.column("read_percent")] for row in points.rows} == {0, 50, 100}
    assert {"read_iops", "write_iops"}.isdisjoint(points.fields)
    assert {figure.metric for figure in key_figures(result)} == {"iops", "mb_per_second"}
    assert "mixed points" not in "\n".join(result_lines(result))


@pytest.mark.parametrize("test", TESTS)
def test_the_lines_of_ocp_hold_numbers_alone(test: str) -> None:
    """What is not known has no line; every line is JSON."""
    lines = [json.loads(line) for line in ocp.make(results()[test]).splitlines()]

    assert "NaN" not in ocp.make(results()[test]).decode()
    assert "seed" not in json.dumps(lines[1])


def test_whose_numbers_they_are_is_flagged() -> None:
    """A comparison with a run of ours says that another tool measured one of them."""
    imported, ours = results()["iops"], samples.result_of("iops", pts="1.1")

    found = {
        context_difference.what: context_difference for context_difference in context_differences([ours, imported])
    }
    assert found["measured by"].values == ("snia-pts", "TKperf 2.2")
    assert found["measured by"].weight == "flagged"
    assert found["host-limited points"].values[1] == "unknown"


# -- writing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sector", [512, 4096])
@pytest.mark.parametrize("version", ["2.2", "1.1"])
def test_there_and_back_nothing_is_lost(version: str, sector: int) -> None:
    """TKperf's file, imported, exported, imported: matrices equal to the byte, rounds, facts and verdicts the same."""
    first = ssd(version=version, sector=sector)
    once = {test: result_of(run) for test, run in made(first).items()}
    again, name, lost = written(list(once.values()), "x")
    twice = {test: result_of(run) for test, run in made(again).items()}

    assert (name, lost) == ("intel320", ())
    assert not [
        warning for item in twice.values() for warning in run_warnings(item) if warning.what == "steady state claimed"
    ]
    assert matrices(again) == matrices(first)
    assert twice.keys() == once.keys()
    for test, result in once.items():
        other = twice[test]
        assert (other.loops, other.time_lines, other.verdict) == (result.loops, result.time_lines, result.verdict)
        assert other.deviations == result.deviations
        facts = (replace(entry.facts, warnings=(), imported=None) for entry in (result, other))
        assert next(facts) == next(facts)
        assert result.facts.imported is not None
        assert replace(result.facts.imported, claim=None) == replace(other.facts.imported or IMPORTED, claim=None)


def test_the_window_is_written_as_tkperf_has_it() -> None:
    """Rounds are counted from 0, and average and best fit are those that TKperf calculates over them."""
    first = etree.fromstring(ssd())
    again = etree.fromstring(written(list(results().values()), "x")[0])

    for test in ("iops", "lat", "tp"):
        for tag in ("stdyrounds", "stdyvalues", "stdyslope", "stdyavg", "reachstdystate", "rndnr"):
            theirs, ours = (json.loads(root.findtext(f"{test}/{tag}") or "") for root in (first, again))
            assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-9), f"{test}/{tag}"


@pytest.mark.parametrize("name", ["loop4Kn.xml", "loopRate64.xml"])
def test_golden_files_come_back_byte_by_byte(name: str) -> None:
    """Of files that TKperf itself wrote all elements come back, but for what it calculates in other last digits."""
    first = golden(name)
    again, stem, lost = written([result_of(run) for run in made(first).values()], "x")
    one, other = etree.fromstring(first), etree.fromstring(again)

    assert (f"{stem}.xml", lost) == (name, ())
    assert matrices(again) == matrices(first)
    assert [(item.tag, item.text) for item in one if not len(item)] == [
        (entry.tag, entry.text) for entry in other if not len(entry)
    ]
    for before, after in zip(one, other, strict=True):
        assert [each.tag for each in before] == [each.tag for each in after]
        judged = {"stdyslope", "stdyavg", "stdyvalues"} if name == "loop4Kn.xml" else {"stdyslope"}
        assert [each.text for each in before if each.tag not in judged] == [
            each.text for each in after if each.tag not in judged
        ]


def test_golden_verdicts_are_ours() -> None:
    """The latency of a drive in memory is not steady, as TKperf found; its other loops are."""
    found = {test: result_of(run) for test, run in made(golden("loopRate64.xml")).items()}

    assert [found[test].steady for test in ("iops", "latency", "throughput")] == [True, False, True]
    assert not [
        warning
        for result in found.values()
        for warning in run_warnings(result)
        if warning.what == "steady state claimed"
    ]


def test_a_hard_disks_file_comes_back_byte_by_byte() -> None:
    """The file of 128 zones that TKperf wrote is written again to the last byte."""
    first = golden("loopHdd.xml")
    again, _, lost = written([result_of(run) for run in made(first).values()], "x")

    assert again == first
    assert lost == ()


@pytest.mark.parametrize("kind", ["iops", "tp"])
def test_zones_there_and_back(kind: str) -> None:
    """Zones of both kinds come back with their matrix equal to the byte."""
    first = tkperf_files.hdd(kind)
    again, _, _ = written([result_of(run) for run in made(first).values()], "x")

    assert matrices(again) == matrices(first)


@pytest.mark.parametrize("pts", ["1.1", "2.0.2"])
@pytest.mark.parametrize("test", TESTS)
def test_our_runs_come_back_with_their_rounds(test: str, pts: str) -> None:
    """A run of ours in TKperf's form has the same IOPS, throughput and response times, and the same verdict."""
    ours = samples.result_of(test, pts=pts)
    document, _, lost = written([ours], "x")
    back = result_of(made(document)[test])

    assert lost
    assert [loop.steady for loop in back.loops] == [
        loop.steady for loop in ours.loops if loop.part in [entry.part for entry in back.loops]
    ]
    for loop in back.loops:
        its = ours.loop(loop.part)
        assert its is not None
        for mine, other in zip(its.complete, loop.complete, strict=True):
            known = {(item.stimulus.read_percent, item.stimulus.block_size_bytes): item for item in mine.measurements}
            for measurement in other.measurements:
                same = known[measurement.stimulus.read_percent, measurement.stimulus.block_size_bytes]
                if test == "latency":
                    assert measurement.average_response_us == same.average_response_us
                    assert measurement.maximum_response_us == same.maximum_response_us
                else:
                    assert measurement.mb_per_second == pytest.approx(same.mb_per_second, rel=1e-12)
    if test == "wsat":
        assert back.time_lines[0].average_response_us == ours.time_lines[0].average_response_us
    assert back.facts.dut.serial == ours.facts.dut.serial
    assert back.facts.dut.capacity_bytes == ours.facts.dut.capacity_bytes


def test_what_has_no_place_is_refused_with_its_reason() -> None:
    """A test that TKperf does not have, and one of too few rounds, cannot be exported."""
    for result, told in (
        (samples.result_of("xsr"), "no such test"),
        (samples.result_of("iops", stop_after=2, ending="interrupted"), "fewer than five rounds"),
    ):
        with pytest.raises(NotExportable, match=told):
            written([result], "x")


def test_a_rehearsal_stays_one() -> None:
    """The file of a simulated drive says so, and so does what is imported from it."""
    device = samples.dut(kind="simulated", path="sim:enterprise-nvme", model="a model")
    document, _, _ = written([samples.result_of("iops", device=device)], "x")

    assert b"SIMULATED" in document
    facts = made(document)["iops"].facts
    assert facts.dut.simulated
    assert [deviation.actual for deviation in facts.deviations if deviation.what == "device under test"] == [
        "SIMULATED: a model"
    ]
    assert "device under test" not in {item.what for item in made(ssd("iops"))["iops"].facts.deviations}


# -- TKperf itself ----------------------------------------------------------------------------------------------------


def tkperf(mode: str, document: bytes, folder: Path) -> int:
    """Let TKperf load a file, plot it and write its report; returns how many plots there are.  Skips without it."""
    if not (PYTHON.is_file() and (TKPERF / "scripts" / "tkperf").is_file() and shutil.which("lsb_release")):
        pytest.skip("TKPERF_CHECKOUT and TKPERF_PYTHON do not name a TKperf that works")
    (folder / "ours.xml").write_bytes(document)
    done = subprocess.run(
        [PYTHON, TKPERF / "scripts" / "tkperf", mode, "ours", "none", "-xml"],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(TKPERF / "src"), "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    assert "IOPS" in (folder / "ours.rst").read_text() or mode == "hdd"
    return len(list(folder.glob("*.png")))


def test_tkperf_loads_and_plots_our_runs(tmp_path: Path) -> None:
    """TKperf's own loader reads the file of four runs, draws its plots, and writes its report."""
    document, _, _ = written([samples.result_of(test) for test in TESTS], "x")

    assert tkperf("ssd", document, tmp_path) == 14


@pytest.mark.parametrize(("kind", "plots"), [("iops", 1), ("tp", 2)])
def test_tkperf_loads_and_plots_our_zones(kind: str, plots: int, tmp_path: Path) -> None:
    """It takes those of a hard disk too, of a device that nobody described."""
    document, _, _ = written([result_of(run) for run in made(tkperf_files.hdd(kind)).values()], "x")

    assert tkperf("hdd", document, tmp_path) == plots


# -- the command line -------------------------------------------------------------------------------------------------


def test_an_imported_run_is_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """import leaves a folder that assess, status and report take as any, and that resume refuses; its file is kept."""
    path, run = tmp_path / "f.xml", tmp_path / "run"
    path.write_bytes(ssd("iops"))

    assert main(["import", str(path), "--run-dir", str(run), "--to", "rst,xlsx,csv,json,ocp,junit"]) == 0
    assert (run / "evidence" / "tkperf.xml").read_bytes() == path.read_bytes()
    assert main(["assess", str(run)]) == 0
    assert main(["status", str(run)]) == 0
    assert main(["report", str(run), "--to", "rst"]) == 0
    assert main(["resume", str(run)]) == 16
    output = capsys.readouterr().out
    assert "STEADY STATE in rounds 2 - 6" in (run / "report.rst").read_text()
    assert "IMPORTED: measured by TKperf 2.2" in (run / "report.rst").read_text()
    assert "finished" in output
    sheet = zipfile.ZipFile(run / "report.xlsx").read("xl/worksheets/sheet5.xml").decode()
    assert "<f>" not in sheet  # nothing is calculated from counts that nobody has


def test_several_tests_are_a_folder_as_all_leaves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of several tests becomes a folder of runs with a summary, which export takes whole."""
    path, place, out = tmp_path / "f.xml", tmp_path / "all", tmp_path / "out.xml"
    path.write_bytes(ssd("iops", "writesat"))

    assert main(["import", str(path), "--run-dir", str(place), "--to", "rst"]) == 0
    assert json.loads((place / "suite.json").read_text())["tests"] == ["iops", "wsat"]
    assert (place / "summary.rst").is_file()
    output = capsys.readouterr().out
    assert re.search(r"\n  IOPS +NO, \d deviations +\S +not reported +\S\n", output)
    assert "nan" not in output.split("run folder:")[-1]
    assert main(["assess", str(place), "--json"]) == 0
    assert main(["export", str(place), "--to", "tkperf", "--out", str(out)]) == 0
    assert matrices(out.read_bytes()) == matrices(path.read_bytes())
    assert "end not stated in its file" in assess(RunFolder.existing(place / "wsat")).verdict
    assert "not in the file" not in capsys.readouterr().err


def test_what_cannot_be_exported_is_told_as_that(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A test that TKperf does not have can be read all the same; a place where no file can be is another mistake."""
    path, run = tmp_path / "f.xml", tmp_path / "run"
    path.write_bytes(ssd("iops"))
    main(["import", str(path), "--run-dir", str(run), "--to", "none"])
    capsys.readouterr()

    assert main(["export", str(run), "--to", "tkperf", "--out", str(tmp_path / "none" / "x.xml")]) == 20
    message = capsys.readouterr().err
    assert f"cannot be exported: {tmp_path / 'none' / 'x.xml'}: No such file or directory." in message
    assert "Name another place with --out." in message
    with pytest.raises(NotExportable, match=r"run x cannot be exported: .*: TKperf has no such test\.") as raised:
        written([samples.result_of("hir")], "x")
    assert "A file of TKperf holds IOPS" in raised.value.hint


def test_an_export_replaces_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is at the place already may be somebody's, also where the place was named, or leads nowhere yet."""
    path, run, dangling = tmp_path / "f.xml", tmp_path / "run", tmp_path / "l"
    path.write_bytes(ssd("iops"))
    dangling.symlink_to(tmp_path / "elsewhere")
    main(["import", str(path), "--run-dir", str(run), "--to", "none"])
    before = path.read_bytes()

    assert [main(["export", str(run), "--to", "tkperf", "--out", str(place)]) for place in (path, dangling)] == [20, 20]
    message = capsys.readouterr().err
    assert f"{path}: it already exists." in message
    assert "not in the file" not in message
    assert (path.read_bytes(), dangling.is_symlink()) == (before, True)


def test_an_altered_copy_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file that was imported is the evidence: changed, it no longer agrees with the journal."""
    path, run = tmp_path / "f.xml", tmp_path / "run"
    path.write_bytes(ssd("iops"))
    main(["import", str(path), "--run-dir", str(run), "--to", "none"])
    (run / "evidence" / "tkperf.xml").write_bytes(ssd("iops", rounds=7))

    assert main(["assess", str(run)]) == 14
    assert "tkperf.xml: its SHA-256 differs from the one in the journal" in capsys.readouterr().out


def test_a_run_of_an_unknown_importer_cannot_be_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the reader of its file, an imported run is still assessed; its evidence counts as different."""
    path, run = tmp_path / "f.xml", tmp_path / "run"
    path.write_bytes(ssd("iops"))
    main(["import", str(path), "--run-dir", str(run), "--to", "none"])
    monkeypatch.delitem(registries.IMPORTERS, "tkperf")

    assert main(["assess", str(run)]) == 14
    assert "evidence/tkperf.xml: there is no importer 'tkperf' to read it again" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (b"no xml", "invalid XML"),
        (b"<a/>", "no test of TKperf"),
        (b'<!DOCTYPE a [<!ENTITY x "y">]><a><iops/></a>', "document type"),
        (ssd("iops", changes=[("iops/roundmat", [[[1, 2], [3]]])]), "block sizes per row"),
        (ssd("iops", changes=[("iops/roundmat", "__import__('os')")]), "expected a list"),
        (ssd("iops").replace(b"[[[9000", b"[[[-9000", 1), "expected numbers from 0 to"),
        (ssd("iops").replace(b"[[[9000", b"[[[Infinity", 1), "invalid JSON"),
        (ssd("iops", changes=[("iops/numjobs", 10**9)]), "whole number from 1"),
        (ssd("lat", changes=[("lat/roundmat", None)]), "roundmat: missing"),
    ],
)
def test_a_file_that_is_none_gets_a_sentence(
    document: bytes, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever lies in a file: a sentence, an exit code, and no folder."""
    path = tmp_path / "f.xml"
    path.write_bytes(document)

    assert main(["import", str(path), "--run-dir", str(tmp_path / "run")]) == 14
    assert text in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_killed_import_is_to_be_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Wherever it was killed, its folder is neither resumed nor taken for a stopped test."""
    (tmp_path / "f.xml").write_bytes(ssd())
    assert main(["import", str(tmp_path / "f.xml"), "--run-dir", str(tmp_path / "all"), "--to", "none"]) == 0
    folder = RunFolder(path=tmp_path / "runs" / "a")
    shutil.copytree(tmp_path / "all" / "iops", folder.path)
    journal = folder.journal.read_bytes().splitlines(keepends=True)
    for lines in (1, 2, 10, 57, len(journal) - 1):
        folder.journal.write_bytes(b"".join(journal[:lines]))
        shutil.copytree(folder.path, tmp_path / "runs" / "b", dirs_exist_ok=True)
        for path in (folder.path, folder.path.parent):  # the whole journal, and its ends only
            capsys.readouterr()
            assert main(["status", "--json", str(path)]) == 0
            for run in json.loads(capsys.readouterr().out):
                assert run["state"] == "stopped"
                assert "import the file again" in run["detail"]
                assert run["command"] == ""
        assert main(["resume", str(folder.path)]) == NotResumable.exit_code
        assert "imported from another tool" in capsys.readouterr().err


@pytest.mark.parametrize("append_number", [1, 20, 200])
def test_a_failed_import_leaves_nothing(
    append_number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if a test before it was complete: the same import succeeds once there is room."""
    (tmp_path / "f.xml").write_bytes(ssd())
    call = ["import", str(tmp_path / "f.xml"), "--run-dir", str(tmp_path / "run"), "--to", "none"]
    count, append = 0, Journal.append

    def fail(journal: Journal, entry: Entry) -> None:
        nonlocal count
        count += 1
        if count == append_number:
            raise HostFailed(step="journal", what="step", reason="No space left on device")
        append(journal, entry)

    with monkeypatch.context() as full:
        full.setattr(Journal, "append", fail)
        assert main(call) == HostFailed.exit_code
    assert "Nothing was imported" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["f.xml"]
    assert main(call) == 0
