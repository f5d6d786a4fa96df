"""TKperf's files become runs, and runs become its files: common facts are the same, missing ones stay unknown."""

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
from snia_pts.importer.runs import ImportedRun
from snia_pts.profiles.reader import Changes
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
from snia_pts.tkperf.reader import runs
from snia_pts.tkperf.writer import export_document
from tests import profiles, samples, tkperf_files, tkperf_written
from tests.tkperf_files import ssd

#: Files that TKperf itself wrote, if they are beside the checkout.
SHARED = Path(os.environ.get("SNIA_PTS_SHARED") or Path(__file__).parents[2] / "shared")
#: TKperf itself, if it is installed: its checkout, and a Python with the libraries that it needs.
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


def made(document: bytes) -> dict[str, ImportedRun]:
    """Return the runs of a file by test."""
    return {
        run.test: run for run in runs(read(document, "a file"), IMPORTED, ("snia-pts", "import", "f.xml"), "a file")
    }


def result_of(run: ImportedRun) -> TestResult:
    """Return the result of a run's journal, without the reason why write saturation ended."""
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
    """Return a file that TKperf itself wrote; skips the test if there is none."""
    path = SHARED / "golden" / "tkperf" / name
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    return path.read_bytes()


# -- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2.2", "2.0", "1.1"])
def test_each_test_of_a_file_is_a_run(version: str) -> None:
    """Files of both major versions have four tests; each becomes a test by PTS-E 1.1, with its rounds."""
    found = made(ssd(version=version))

    assert sorted(found) == sorted(TESTS)
    assert {run.facts.spec.pts for run in found.values()} == {"1.1"}
    iops, wsat = result_of(found["iops"]), result_of(found["wsat"])
    assert [len(result_of(found[test]).loops) for test in TESTS] == [1, 1, 5, 0]
    assert len(iops.loops[0].rounds) == len(wsat.time_lines[0]) == 6
    assert iops.steady


def test_a_value_is_at_its_point() -> None:
    """Each cell of a matrix is found by R/W mix and block size, and has the value at its position in the file."""
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
    """TKperf's throughput is in KiB/s, whatever its report says."""
    point = results()["throughput"].loops[1].rounds[0].measurements[1]

    assert (point.stimulus.access, point.stimulus.read_percent, point.stimulus.block_size_bytes) == ("SEQ", 0, 65536)
    assert point.mb_per_second == tkperf_files.value(0, 1, 1) * 1024 / 1e6
    assert point.iops == tkperf_files.value(0, 1, 1) * 1024 / 65536


def test_response_times_are_in_microseconds() -> None:
    """The three numbers of a latency are minimum, maximum and mean, in us."""
    point = results()["latency"].loops[0].rounds[1].measurements[7]

    assert point.stimulus.label == "RND 4 KiB 0/100"
    assert point.reported is not None
    assert list(point.reported.response_us) == tkperf_files.matrix("lat", 6)[1][2][1]
    assert point.average_response_us == tkperf_files.matrix("lat", 6)[1][2][1][2]


def test_each_sample_of_write_saturation_is_a_continuous_stimulus() -> None:
    """Each sample is a separate start of fio, in sequence on the clock of its I/O."""
    line = results()["wsat"].time_lines[0]

    assert (line.engine_starts, len(line)) == (6, 6)
    assert list(line.ended_seconds) == [60.0, 120.0, 180.0, 240.0, 300.0, 360.0]
    assert line.iops == [float(tkperf_files.value(number)) for number in range(6)]


def test_the_rates_of_samples_are_rounded_to_whole_ios() -> None:
    """The error is at most half an I/O per sample; the file's own rate is kept with the measurement and exported."""
    rates = [0.004, 33.3333, 1234.567, 98765.4321, 7.0, 0.5]
    content = [rates, tkperf_files.matrix("writesat", 6)[1]]
    result = result_of(made(ssd("writesat", changes=[("writesat/roundmat", content)]))["wsat"])
    line = result.time_lines[0]

    assert all(ios == int(ios) for ios in line.write_ios)
    assert all(abs(shown - rate) <= 0.5 / 60 + 1e-9 for shown, rate in zip(line.iops, rates, strict=True))
    assert line.iops != rates
    assert [point.iops for point in line.measurements] == rates
    exported = etree.fromstring(export_document([result], "a run")[0]).findtext("writesat/roundmat")
    assert exported is not None
    assert json.loads(exported)[0] == rates


def test_sectors_of_4096_bytes_omit_a_size() -> None:
    """On a 4Kn drive the file has no column of 512 bytes; the 4 KiB column is still found."""
    result = results(sector=4096)["iops"]
    sizes = {measurement.stimulus.block_size_bytes for measurement in result.loops[0].rounds[0].measurements}

    assert result.facts.dut.logical_sector_bytes == 4096
    assert min(size for size in sizes if isinstance(size, int)) == 4096
    average = result.loops[0].window.determinations[0][1].average if result.loops[0].window else 0.0
    assert average == pytest.approx(sum(tkperf_files.value(number, 6, 6) for number in range(1, 6)) / 5)


def test_the_wrong_column_of_4096_byte_sectors_is_reported() -> None:
    """TKperf evaluated 8 KiB as 4 KiB there: that is a Deviation, and its own steady-state numbers a warning."""
    result = results(sector=4096)["iops"]

    assert any("8 KiB" in deviation.actual for deviation in result.deviations)
    assert [warning for warning in run_warnings(result) if warning.what == "steady state claimed"]
    assert not [item for item in run_warnings(results()["iops"]) if item.what == "steady state claimed"]


def test_old_files_have_their_own_demand_and_time() -> None:
    """Version 1 has no time per point, and write saturation no demand: 60 s, and that of its other tests.

    Its latency states the requested demand, but ran with one outstanding I/O.
    """
    found = results("1.1")
    stimuli = {test: next(iter(result.measurements)).stimulus for test, result in found.items()}

    assert {stimulus.seconds for stimulus in stimuli.values()} == {60.0}
    assert [stimuli[test].demand.label for test in TESTS] == ["T2Q16", "T1Q1", "T2Q16", "T2Q16"]


def test_an_unreported_demand_is_unknown() -> None:
    """A write saturation of version 1 alone, without a command line, has no number of outstanding I/Os."""
    with pytest.raises(RecordError, match="number of jobs"):
        made(ssd("writesat", version="1.1", command=""))


def test_response_times_that_contradict_each_other_are_refused() -> None:
    """A mean outside of minimum and maximum cannot be right."""
    content = ssd("lat").decode()
    (first,) = re.findall(r"\[\[\[(\[3\.0, [0-9.]+, [0-9.]+\])", content)[:1]

    with pytest.raises(RecordError, match=r"the mean response time 500000 is not in the range from 3 to 600"):
        made(content.replace(first, "[3.0, 600.0, 500000.0]", 1).encode())


def test_the_slides_file_is_read() -> None:
    """In the file of the TK Roadshow's slides rounds 8 - 12 are steady here too, with the average that it claims."""
    result = result_of(made(tkperf_files.slide())["iops"])
    window = result.loops[0].window

    assert result.steady
    assert window is not None
    assert window.numbers == (8, 9, 10, 11, 12)
    assert window.determinations[0][1].average == 14339.2
    assert window.determinations[0][1].slope == pytest.approx(48.3)
    assert result.facts.dut.model == result.facts.started == ""


@pytest.mark.long_but_first
@pytest.mark.parametrize(("kind", "name"), [("iops", "hdd-iops"), ("tp", "hdd-throughput")])
def test_a_hard_disks_file_is_a_run_of_its_profile(kind: str, name: str) -> None:
    """Tests by zones become runs of the profiles that measure zones; each value is at its zone, mix and size."""
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


def test_zones_are_those_of_tkperf() -> None:
    """On a disk of known size, a zone is a multiple of 4096 bytes, and zones are consecutive."""
    document = tkperf_files.hdd().replace(b'<devinfo>""', b'<devinfo>"Device Size (bytes): 4000787030016"')
    (run,) = made(document).values()
    stimuli = [step.stimuli[0] for step, _ in run.steps]
    zone_bytes = 4000787030016 // 128 // 4096 * 4096

    assert {stimulus.range_bytes for stimulus in stimuli} == {zone_bytes}
    assert {stimulus.range_offset_bytes for stimulus in stimuli} == {place * zone_bytes for place in range(128)}


def test_the_device_is_that_of_its_description() -> None:
    """The lines of hdparm, nvme, udevadm and sginfo that TKperf copies are found; other facts are unknown."""

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


def test_a_command_line_is_parsed() -> None:
    """Options may precede the names, and flags take no value; other programs are not parsed."""
    parsed = command("/usr/local/bin/tkperf -nj 4 -rfb ssd evo /dev/sdb -iod 8 -c x.cfg")

    assert (parsed.mode, parsed.path, parsed.jobs, parsed.depth) == ("ssd", "/dev/sdb", 4, 8)
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
def test_a_claim_that_differs_is_a_warning(change: tuple[str, Any], text: str) -> None:
    """A file's own steady state is compared with its rounds."""
    result = result_of(made(ssd("iops", changes=[change]))["iops"])

    assert any(text in warning.detail for warning in run_warnings(result) if warning.what == "steady state claimed")
    assert result.steady


def test_known_faults_are_deviations() -> None:
    """The known faults of versions up to 2.2 are reported, each with its clause; the command line may decide."""
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


def test_other_versions_have_no_known_faults() -> None:
    """An unexamined version, and a file that this suite wrote, have none of TKperf's known faults."""
    for version in ("2.3", "snia-pts 0.1.0"):
        deviations = {deviation.what for deviation in made(ssd("iops", version=version))["iops"].facts.deviations}

        assert "random offsets" not in deviations
        assert {"measured by another tool", "purge"} <= deviations


def test_an_unexplained_end_is_a_warning() -> None:
    """A write saturation of six minutes that did not write the drive four times did not end as TKperf ends."""
    assert any(warning.what == "end of the stimulus" for warning in run_warnings(results()["wsat"]))


# -- what is not known stays unknown ----------------------------------------------------------------------------------

#: Words that an output of a run without counts must not contain, unless it counts something else.
_COUNTS = ("read_ios", "read_bytes", "read_runtime_ms", "write_ios", "write_bytes", "write_runtime_ms", "seed")


@pytest.mark.parametrize("test", TESTS)
def test_the_result_omits_what_the_file_does_not_have(test: str) -> None:
    """In result.xml no measurement has a count, a seed or its own evidence; rounds have no written bytes."""
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
def test_the_tables_have_no_empty_column(test: str) -> None:
    """CSV, JSON and the workbook come from tables; there is no column of counts, and no 0 for an unknown value.

    Rates always have a column.
    """
    tables = {data_table.name: data_table for data_table in data_tables(results()[test])}
    measurements = tables["measurements"]
    fields = set(measurements.fields)

    assert not fields & {*_COUNTS, "evidence", "three_nines_response_us"}
    known = {row[measurements.column("iops")] is not None for row in measurements.rows}
    assert known == {test != "latency"}
    assert ("average_response_us" in fields) == (test in ("latency", "wsat"))
    run_facts = {row[0]: row[1] for row in tables["run"].rows}
    assert run_facts["seed"] is None
    assert (run_facts["written_bytes"] is None) == (test != "wsat")


def test_a_device_without_a_capacity_has_none_anywhere() -> None:
    """If no line has the capacity, no output has a number for it, nor a share of it."""
    result = result_of(made(ssd("iops", version="", description=""))["iops"])
    root = etree.fromstring(result_xml(result))
    dut, point = root.find("dut"), root.find(".//measurement")

    assert dut is not None
    assert point is not None
    assert "capacity_bytes" not in dut.attrib
    assert "range_bytes" not in point.attrib
    assert math.isnan(result.facts.dut.fills(1.0))
    assert ("dut.capacity_bytes", None) in data_tables(result)[0].rows


def test_key_figures_are_those_of_the_file() -> None:
    """Limits and comparisons have no response time of an IOPS file, and no IOPS of a latency file."""
    metrics = {test: {figure.metric for figure in key_figures(result)} for test, result in results().items()}

    assert metrics["iops"] == metrics["throughput"] == {"iops", "mb_per_second"}
    assert metrics["latency"] == {"average_response_ms", "maximum_response_ms"}
    assert {"iops", "average_response_ms", "written_gb"} <= metrics["wsat"]


@pytest.mark.long
def test_the_reads_and_writes_of_a_mixed_zone_are_unknown() -> None:
    """A hard disk's file has only their sum: tables, key figures and terminal have no 0 for each of them."""
    (run,) = made(tkperf_files.hdd("iops")).values()
    result = result_of(run)
    points = next(table for table in data_tables(result) if table.name == "points")

    assert {row[points.column("read_percent")] for row in points.rows} == {0, 50, 100}
    assert {"read_iops", "write_iops"}.isdisjoint(points.fields)
    assert {figure.metric for figure in key_figures(result)} == {"iops", "mb_per_second"}
    assert "mixed points" not in "\n".join(result_lines(result))


@pytest.mark.parametrize("test", TESTS)
def test_ocp_lines_have_numbers_only(test: str) -> None:
    """An unknown value has no line; every line is JSON."""
    lines = [json.loads(line) for line in ocp.make(results()[test]).splitlines()]

    assert "NaN" not in ocp.make(results()[test]).decode()
    assert "seed" not in json.dumps(lines[1])


def test_imported_numbers_are_marked() -> None:
    """A comparison with one of the suite's runs says that another tool measured one of them."""
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
def test_a_round_trip_loses_nothing(version: str, sector: int) -> None:
    """TKperf's file, imported, exported, imported: matrices equal to the byte, rounds, facts and verdicts the same."""
    first = ssd(version=version, sector=sector)
    once = {test: result_of(run) for test, run in made(first).items()}
    again, name, lost = export_document(list(once.values()), "x")
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


def test_the_window_is_written_as_tkperf_does() -> None:
    """Rounds are counted from 0, and average and best fit are those that TKperf calculates over them."""
    first = etree.fromstring(ssd())
    again = etree.fromstring(export_document(list(results().values()), "x")[0])

    for test in ("iops", "lat", "tp"):
        for tag in ("stdyrounds", "stdyvalues", "stdyslope", "stdyavg", "reachstdystate", "rndnr"):
            theirs, ours = (json.loads(root.findtext(f"{test}/{tag}") or "") for root in (first, again))
            assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-9), f"{test}/{tag}"


@pytest.mark.parametrize("name", ["loop4Kn.xml", "loopRate64.xml"])
def test_golden_files_are_reproduced(name: str) -> None:
    """In files that TKperf itself wrote all elements are the same, except for other last digits of calculated ones."""
    first = golden(name)
    again, stem, lost = export_document([result_of(run) for run in made(first).values()], "x")
    one, other = etree.fromstring(first), etree.fromstring(again)

    assert (f"{stem}.xml", lost) == (name, ())
    assert matrices(again) == matrices(first)
    assert [(item.tag, item.text) for item in one if not len(item)] == [
        (entry.tag, entry.text) for entry in other if not len(entry)
    ]
    for before, after in zip(one, other, strict=True):
        assert [element.tag for element in before] == [element.tag for element in after]
        judged = {"stdyslope", "stdyavg", "stdyvalues"} if name == "loop4Kn.xml" else {"stdyslope"}
        assert [element.text for element in before if element.tag not in judged] == [
            element.text for element in after if element.tag not in judged
        ]


def test_golden_verdicts_agree() -> None:
    """The latency of a drive in memory is not steady, as TKperf found; its other loops are."""
    found = {test: result_of(run) for test, run in made(golden("loopRate64.xml")).items()}

    assert [found[test].steady for test in ("iops", "latency", "throughput")] == [True, False, True]
    assert not [
        warning
        for result in found.values()
        for warning in run_warnings(result)
        if warning.what == "steady state claimed"
    ]


def test_a_hard_disks_file_is_reproduced() -> None:
    """The file of 128 zones that TKperf wrote is written again to the last byte."""
    first = golden("loopHdd.xml")
    again, _, lost = export_document([result_of(run) for run in made(first).values()], "x")

    assert again == first
    assert lost == ()


@pytest.mark.parametrize("kind", ["iops", "tp"])
def test_a_round_trip_of_zones(kind: str) -> None:
    """Zones of both kinds have the same matrix to the byte."""
    first = tkperf_files.hdd(kind)
    again, _, _ = export_document([result_of(run) for run in made(first).values()], "x")

    assert matrices(again) == matrices(first)


@pytest.mark.parametrize("pts", ["1.1", "2.0.2"])
@pytest.mark.parametrize("test", TESTS)
def test_our_runs_are_imported_with_their_rounds(test: str, pts: str) -> None:
    """A run of the suite in TKperf's form has the same IOPS, throughput, response times and verdict."""
    ours = samples.result_of(test, pts=pts)
    document, _, lost = export_document([ours], "x")
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


def test_an_unsupported_export_is_refused_with_its_reason() -> None:
    """A test that TKperf does not have, and one with too few rounds, cannot be exported."""
    for result, message in (
        (samples.result_of("xsr"), "no such test"),
        (samples.result_of("iops", stop_after=2, ending="interrupted"), "fewer than five rounds"),
    ):
        with pytest.raises(NotExportable, match=message):
            export_document([result], "x")


def disk(name: str, *axes: str, **changes: Any) -> TestResult:
    """Return a run of ours of a hard disk's profile."""
    options = Changes.parse([f"axis.{axis}" for axis in axes])
    return profiles.result(profiles.shipped(name, axes=options.axes, **changes))


def test_both_profiles_of_a_hard_disk_are_one_file() -> None:
    """Each test has the demand and the duration of its own run, which its axes may have changed."""
    runs = [disk("hdd-iops", "thread_count=4", "queue_depth=8"), disk("hdd-throughput", seconds=30.0)]
    document, _, lost = export_document(runs, "x")
    root = etree.fromstring(document)
    tags = ("numjobs", "iodepth", "runtime")

    assert [[root.findtext(f"{kind}/{tag}") for tag in tags] for kind in ("iops", "tp")] == [
        ["4", "8", "60"],
        ["1", "16", "30"],
    ]
    assert not [omission for omission in lost if "options" in omission]
    assert made(document)["hdd-iops"].facts.spec.workload[0].thread_count == 4  # type: ignore[attr-defined]


@pytest.mark.long
def test_options_of_zones_are_named_as_lost() -> None:
    """The format has only single words for fio; and one demand for all zones."""
    _, _, lost = export_document([disk("hdd-iops", "fio.sync=1")], "x")
    assert "HDD IOPS: options of fio: sync=1" in lost
    for axis in ("thread_count=1,2", "fio.sync=0,1"):
        with pytest.raises(NotExportable, match="different demands, durations or options of fio"):
            export_document([disk("hdd-iops", axis, "read_percent=100,50,0")], "x")


def test_a_simulated_run_stays_marked() -> None:
    """The file of a simulated drive says so, and so does a run imported from it."""
    device = samples.dut(kind="simulated", path="sim:enterprise-nvme", model="a model")
    document, _, _ = export_document([samples.result_of("iops", device=device)], "x")

    assert b"SIMULATED" in document
    facts = made(document)["iops"].facts
    assert facts.dut.simulated
    assert [deviation.actual for deviation in facts.deviations if deviation.what == "device under test"] == [
        "SIMULATED: a model"
    ]
    assert "device under test" not in {item.what for item in made(ssd("iops"))["iops"].facts.deviations}


# -- TKperf itself ----------------------------------------------------------------------------------------------------


def tkperf(mode: str, document: bytes, folder: Path) -> int:
    """Let TKperf load a file, plot it and write its report; return the number of plots. Skips without TKperf."""
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
    document, _, _ = export_document([samples.result_of(test) for test in TESTS], "x")

    assert tkperf("ssd", document, tmp_path) == 14


@pytest.mark.parametrize(("kind", "plots"), [("iops", 1), ("tp", 2)])
def test_tkperf_loads_and_plots_our_zones(kind: str, plots: int, tmp_path: Path) -> None:
    """It accepts those of a hard disk too, of a device without a description."""
    document, _, _ = export_document([result_of(run) for run in made(tkperf_files.hdd(kind)).values()], "x")

    assert tkperf("hdd", document, tmp_path) == plots


# -- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_an_imported_run_is_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """import creates a folder that assess, status and report accept, and that resume refuses; its file is kept."""
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
    book = zipfile.ZipFile(run / "report.xlsx")
    names = re.findall(r'<sheet name="([^"]*)"', book.read("xl/workbook.xml").decode())
    sheet = book.read(f"xl/worksheets/sheet{names.index('Measurements') + 1}.xml").decode()
    assert "<f>" not in sheet  # nothing is calculated from unknown counts


@pytest.mark.long
def test_several_tests_are_a_suite_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of several tests becomes a folder of runs with a summary, which export accepts as a whole."""
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


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [*tkperf_files.every(), *tkperf_written.NAMES, "loop4Kn.xml", "loopRate64.xml", "loopHdd.xml"]
)
def test_import_and_export_lose_nothing(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exported file is the imported one to the byte, and every sample of a second import is that of the first."""
    first, again = tmp_path / "first", tmp_path / "again.xml"
    content = tkperf_written.written(name) if name in tkperf_written.NAMES else None
    content = content or tkperf_files.every().get(name) or golden(name)
    (tmp_path / "f.xml").write_bytes(content)

    assert main(["import", str(tmp_path / "f.xml"), "--run-dir", str(first), "--to", "none"]) == 0
    assert main(["export", str(first), "--to", "tkperf", "--out", str(again)]) == 0
    assert again.read_bytes() == content
    assert "not in the file" not in capsys.readouterr().err

    assert main(["import", str(again), "--run-dir", str(tmp_path / "second"), "--to", "none"]) == 0
    for journal in sorted(first.rglob("journal.jsonl")):
        places = journal.parent, tmp_path / "second" / journal.parent.relative_to(first)
        one, other = (tuple(assess(RunFolder.existing(place)).measurements) for place in places)
        assert one
        assert one == other


@pytest.mark.long_but_first
@pytest.mark.parametrize("name", tkperf_written.NAMES)
def test_files_of_tkperfs_own_writer_are_written_again(name: str) -> None:
    """Also without the copy of the file: each matrix is equal to the byte, and each claim that TKperf made is ours.

    With sectors of 4096 bytes, TKperf judges another column.
    """
    content = tkperf_written.written(name)
    once = {test: result_of(run) for test, run in made(content).items()}
    again, stem, lost = export_document(list(once.values()), "x")

    assert (stem, lost) == (name, ())
    assert matrices(again) == matrices(content)
    warned = {warning.what for result in once.values() for warning in run_warnings(result)}
    assert ("steady state claimed" in warned) == (name == "sectors-4096")
    for tag in ("fioversion", "numjobs", "iodepth", "runtime", "xargs"):
        texts = [[element.text for element in etree.fromstring(text).iter(tag)] for text in (content, again)]
        assert texts[0] == texts[1], tag


def test_tkperfs_own_writer_made_ten_files() -> None:
    """Of every mode, with and without steady state."""
    reached = [b"<reachstdystate>false" in tkperf_written.written(name) for name in tkperf_written.NAMES]
    assert len(reached) == 10
    assert set(reached) == {True, False}


@pytest.mark.long
def test_both_tests_of_a_disk_become_one_folder_and_one_file_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both have one summary and become the file of both; one becomes a file alone, or with one from elsewhere."""
    both, place = tkperf_files.hdd_of_both(), tmp_path / "wd"
    (tmp_path / "f.xml").write_bytes(both)
    assert main(["import", str(tmp_path / "f.xml"), "--run-dir", str(place), "--to", "none"]) == 0
    assert sorted(folder.name for folder in place.iterdir()) == ["hdd-iops", "hdd-throughput", "suite.json"]
    printed = capsys.readouterr().out
    assert "2 of 2 tests finished" in printed
    assert "100/0, 1024 KiB: 204.7 MB/s, median of the zones" in printed
    assert main(["export", str(place), "--to", "tkperf"]) == 0
    assert (place / "wd.xml").read_bytes() == both

    assert main(["export", str(place / "hdd-iops"), "--to", "tkperf"]) == 0
    assert (place / "hdd-iops" / "wd.xml").read_bytes() == tkperf_files.hdd("iops")

    (tmp_path / "g.xml").write_bytes(tkperf_files.hdd("tp"))
    assert main(["import", str(tmp_path / "g.xml"), "--run-dir", str(tmp_path / "of-one" / "tp"), "--to", "none"]) == 0
    shutil.move(place / "hdd-iops", tmp_path / "of-one" / "iops")
    capsys.readouterr()
    assert main(["export", str(tmp_path / "of-one"), "--to", "tkperf", "--out", str(tmp_path / "joined.xml")]) == 0
    assert matrices((tmp_path / "joined.xml").read_bytes()) == matrices(both)
    assert "not in the file: HDD Throughput: command line, other than of HDD IOPS" in capsys.readouterr().err


@pytest.mark.long
def test_runs_of_two_devices_are_not_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of TKperf has one description of a device, so it would have the wrong device for one run."""
    for name, content in (("a", ssd("iops")), ("b", ssd("lat", description=tkperf_files.NVME))):
        (tmp_path / f"{name}.xml").write_bytes(content)
        run = tmp_path / "runs" / name
        assert main(["import", str(tmp_path / f"{name}.xml"), "--run-dir", str(run), "--to", "none"]) == 0
    assert main(["export", str(tmp_path / "runs"), "--to", "tkperf"]) == 20
    assert "its runs are of 2 devices" in capsys.readouterr().err


@pytest.mark.long
def test_a_folder_of_files_is_a_folder_of_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each file becomes a run with its own name; two with the same name are refused before anything is written."""
    folder, place = tmp_path / "files", tmp_path / "runs"
    (folder / "old").mkdir(parents=True)
    (folder / "a.xml").write_bytes(ssd("iops"))
    (folder / "b.xml").write_bytes(tkperf_files.slide())
    (folder / "a.rst").write_text("TKperf's report")

    assert main(["import", str(folder), "--run-dir", str(place), "--to", "none"]) == 0
    assert sorted(run.name for run in place.iterdir()) == ["a", "b"]
    (folder / "old" / "a.xml").write_bytes(ssd("lat"))
    assert main(["import", str(folder), "--run-dir", str(tmp_path / "more"), "--to", "none"]) == 14
    assert f"its name is also that of {folder / 'a.xml'}" in capsys.readouterr().err
    assert not (tmp_path / "more").exists()


@pytest.mark.long
def test_an_unsupported_export_is_not_a_read_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A test that TKperf does not have can be read; a path where no file can be written is another mistake."""
    path, run = tmp_path / "f.xml", tmp_path / "run"
    path.write_bytes(ssd("iops"))
    main(["import", str(path), "--run-dir", str(run), "--to", "none"])
    capsys.readouterr()

    assert main(["export", str(run), "--to", "tkperf", "--out", str(tmp_path / "none" / "x.xml")]) == 20
    message = capsys.readouterr().err
    assert f"cannot be exported: {tmp_path / 'none' / 'x.xml'}: No such file or directory." in message
    assert "Name another place with --out." in message
    with pytest.raises(NotExportable, match=r"run x cannot be exported: .*: TKperf has no such test\.") as raised:
        export_document([samples.result_of("hir")], "x")
    assert "A file of TKperf holds IOPS" in raised.value.hint


def test_an_export_replaces_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An existing path may be another user's file, even if it was given explicitly, or is a dangling symlink."""
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
    """The imported file is the evidence: if it is changed, it no longer agrees with the journal."""
    path, run = tmp_path / "f.xml", tmp_path / "run"
    path.write_bytes(ssd("iops"))
    main(["import", str(path), "--run-dir", str(run), "--to", "none"])
    (run / "evidence" / "tkperf.xml").write_bytes(ssd("iops", rounds=7))

    assert main(["assess", str(run)]) == 14
    assert "tkperf.xml: its SHA-256 differs from the one in the journal" in capsys.readouterr().out


@pytest.mark.long
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
        (b"no xml", "not a result of a known tool"),
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
def test_an_invalid_file_is_refused(
    document: bytes, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any other content gives a message, an exit code, and no folder."""
    path = tmp_path / "f.xml"
    path.write_bytes(document)

    assert main(["import", str(path), "--run-dir", str(tmp_path / "run")]) == 14
    assert text in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_a_killed_import_must_be_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Wherever it was killed, its folder is neither resumed nor taken for a stopped test."""
    (tmp_path / "f.xml").write_bytes(ssd())
    assert main(["import", str(tmp_path / "f.xml"), "--run-dir", str(tmp_path / "all"), "--to", "none"]) == 0
    folder = RunFolder(path=tmp_path / "runs" / "a")
    shutil.copytree(tmp_path / "all" / "iops", folder.path)
    journal = folder.journal.read_bytes().splitlines(keepends=True)
    for lines in (1, 2, 10, 57, len(journal) - 1):
        folder.journal.write_bytes(b"".join(journal[:lines]))
        shutil.copytree(folder.path, tmp_path / "runs" / "b", dirs_exist_ok=True)
        for path in (folder.path, folder.path.parent):  # the whole journal, and only its start and end
            capsys.readouterr()
            assert main(["status", "--json", str(path)]) == 0
            for run in json.loads(capsys.readouterr().out):
                assert run["state"] == "stopped"
                assert "import the file again" in run["detail"]
                assert run["command"] == ""
        assert main(["resume", str(folder.path)]) == NotResumable.exit_code
        assert "imported from another tool" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("append_number", [1, 20, 200])
def test_a_failed_import_leaves_nothing(
    append_number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """This holds if a test before it was complete, too: the same import succeeds when there is space."""
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
