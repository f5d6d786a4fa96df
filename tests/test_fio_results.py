"""Results of fio become runs: each number is that of the file, what a file does not state stays unknown."""

from __future__ import annotations

import gzip
import json
import math
import re
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import snia_pts
from snia_pts.cli.main import main
from snia_pts.errors import ImportRejected, RecordError, UsageError
from snia_pts.fio_results.options import block_sizes, parse_seconds, parse_size, read_percent
from snia_pts.fio_results.reader import read_run
from snia_pts.fio_results.steady_state import steady_states
from snia_pts.importer.runs import ImportedRun, SourceFile, runs_in
from snia_pts.model.measurement import Measurement, mean, percentiles_response_us
from snia_pts.results.builder import fold
from snia_pts.results.comparison import context_differences
from snia_pts.results.key_figures import key_figures
from snia_pts.results.result import TestResult
from tests.fio_files.make import CASES

HERE = Path(__file__).parent / "fio_files"
REFUSED = {
    "group-reporting-sum": "several jobs that group_reporting added up",
    "normal-sum": "is a sum of several jobs",
    "error": "fio reports error 84",
    "two-files": "several devices or files: x/one.dat",
}
READ = [name for name in CASES if name not in REFUSED]
JSON = [name for name in READ if not name.startswith("normal")]
_LIBAIO = "randread-libaio"
#: Several entries of these are one point.
THREADS = {"sequential-threads", "concurrent-alike"}
#: The I/Os of these are not separate, not timed, or not all of the job; they have tests of their own.
SPECIAL = {"gtod-reduce", "unified", "unified-reads", "verify", "no-total-latency", "ramp"}


def content(name: str) -> bytes:
    """Return what fio wrote for a case."""
    return gzip.decompress((HERE / f"{name}.gz").read_bytes())


def imported(*files: bytes) -> ImportedRun:
    """Return the run of files."""
    sources = [SourceFile(name=f"{number}.json", content=one) for number, one in enumerate(files)]
    (run,) = runs_in(sources, "2026-11-26T10:00:00+00:00", ("snia-pts", "import"))
    return run


def result_of(run: ImportedRun) -> TestResult:
    """Return what a run comes to."""
    return fold(run.facts, run.steps, ending="finished", ending_detail="", finished="")


def measured(run: ImportedRun) -> list[Measurement]:
    """Return the measurements of a run."""
    return [outcome for _, outcomes in run.steps for outcome in outcomes if isinstance(outcome, Measurement)]


def documents(name: str) -> list[dict[str, Any]]:
    """Return the JSON documents of a case, by a reading of their own."""
    text, found = content(name).decode(), []
    for part in re.split(r"^(?=\{$)", text, flags=re.MULTILINE)[1:]:
        found.append(json.loads(part[: part.rindex("\n}") + 2]))
    return found


def warned(run: ImportedRun) -> dict[str, str]:
    """Return the details of warnings by what they are about."""
    return {warning.what: warning.detail for warning in run.facts.warnings}


# -- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.long_but_first
@pytest.mark.parametrize("name", READ)
def test_a_result_is_a_run(name: str, tmp_path: Path) -> None:
    """Each is imported by the verb, and its evidence, read again, agrees with the journal."""
    (tmp_path / "f.json").write_bytes(content(name))

    assert main(["import", str(tmp_path / "f.json"), "--run-dir", str(tmp_path / "run"), "--to", "none"]) == 0
    assert main(["assess", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize("name", [name for name in JSON if name not in SPECIAL])
def test_numbers_are_those_of_the_file(name: str) -> None:
    """I/Os, bytes, times and rates of all points together are those of all jobs in the last document."""
    points, jobs = measured(imported(content(name))), _jobs(documents(name)[-1])
    for side in ("read", "write"):
        parts, sides = [getattr(point, side) for point in points], [job[side] for job in jobs]
        assert sum(part.ios for part in parts) == sum(entry["total_ios"] for entry in sides)
        assert sum(part.transferred_bytes for part in parts) == sum(entry["io_bytes"] for entry in sides)
        assert max(part.runtime_ms for part in parts) == max(entry["runtime"] for entry in sides)
        assert max(part.response_max_ns for part in parts) == max(entry["lat_ns"]["max"] for entry in sides)
        total = sum(part.ios * part.response_mean_ns for part in parts)
        assert total == pytest.approx(sum(entry["total_ios"] * entry["lat_ns"]["mean"] for entry in sides))


def _jobs(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    jobs: Sequence[Mapping[str, Any]] = document.get("jobs") or document["client_stats"]
    return jobs


@pytest.mark.parametrize(
    "name", [name for name in JSON if CASES[name].output == "json+" and name not in SPECIAL | THREADS]
)
def test_percentiles_are_those_of_the_bins(name: str) -> None:
    """Percentiles of a point with one job are fio's own: both count the same bins."""
    run, jobs = imported(content(name)), _jobs(documents(name)[-1])
    for point, job in zip(measured(run), jobs, strict=True):
        sides = [job[side] for side in ("read", "write") if job[side]["total_ios"]]
        times = [side["lat_ns" if "bins" in side["lat_ns"] else "clat_ns"] for side in sides]
        bins: dict[int, int] = {}
        for entry in times:
            for edge, count in entry["bins"].items():
                bins[int(edge)] = bins.get(int(edge), 0) + count
        assert dict(point.histogram.bins) == bins
        if len(times) == 1 and sum(bins.values()) >= 1000:
            (p99,) = percentiles_response_us([point], (99.0,))
            assert p99 == pytest.approx(times[0]["percentile"]["99.000000"] / 1000, rel=0.02)


@pytest.mark.parametrize("name", ["plain-json", "plain-json-lat", "group-reporting-json", "client"])
def test_percentiles_without_bins_are_as_fio_states_them(name: str) -> None:
    """Without bins, percentiles are fio's, if there are enough I/Os for them; others are unknown."""
    (point,), (job,) = measured(imported(content(name))), _jobs(documents(name)[-1])
    side = job["read"] if job["read"]["total_ios"] else job["write"]
    times = side["lat_ns"] if "percentile" in side["lat_ns"] else side["clat_ns"]

    found = percentiles_response_us([point], (50.0, 99.0, 99.9, 98.7))

    assert not point.histogram.counted
    assert found[:2] == (times["percentile"]["50.000000"] / 1000, times["percentile"]["99.000000"] / 1000)
    assert found[3] is None
    assert percentiles_response_us([point, point], (99.0,)) == (None,)


def test_percentiles_are_never_those_of_a_part_of_the_ios() -> None:
    """With bins of one round and fio's percentiles of another, those of both are unknown."""
    (stated,), (binned,) = measured(imported(content("plain-json"))), measured(imported(content("rounds")))[:1]
    assert stated.read.percentiles_ns or stated.write.percentiles_ns
    assert binned.histogram.counted
    assert percentiles_response_us([stated, binned], (50.0, 99.0)) == (None, None)


def test_untimed_jobs_have_rates_alone() -> None:
    """With gtod_reduce there are no response times, so none are shown, and not 0."""
    (point,), (job,) = measured(imported(content("gtod-reduce"))), documents("gtod-reduce")[-1]["jobs"]

    assert point.iops == pytest.approx(job["read"]["iops"], rel=1e-6)
    assert point.mb_per_second == pytest.approx(job["read"]["bw_bytes"] / 1e6, rel=1e-5)
    assert math.isnan(point.average_response_us)
    assert not point.timed


def test_unified_reporting_has_no_sides() -> None:
    """The sum of reads and writes is known, its sides are not; of reads alone the side is known."""
    (point,), (job,) = measured(imported(content("unified"))), documents("unified")[-1]["jobs"]
    (reads,) = measured(imported(content("unified-reads")))

    assert point.iops == pytest.approx(job["mixed"]["iops"], rel=1e-6)
    assert point.average_response_us == pytest.approx(job["mixed"]["lat_ns"]["mean"] / 1000)
    assert not point.has_both_sides
    assert reads.read.ios == documents("unified-reads")[-1]["jobs"][0]["mixed"]["total_ios"]


def test_verification_is_no_part_of_the_writes() -> None:
    """Reads that verify written data are left out, with a warning."""
    run = imported(content("verify"))
    (point,), (job,) = measured(run), documents("verify")[-1]["jobs"]

    assert (point.read.ios, point.write.ios) == (0, job["write"]["total_ios"])
    assert warned(run)["verification"].startswith(str(job["read"]["total_ios"]))


def test_completion_latency_is_named() -> None:
    """Times that leave out the submission are a warning; whole ones are not."""
    assert "completion latency" in warned(imported(content("no-total-latency")))["response times"]
    assert "completion latency" in warned(imported(content("randread-libaio")))["percentiles"]
    assert not {"response times", "percentiles"} & warned(imported(content("lat-percentiles"))).keys()


def test_a_ramp_is_not_counted() -> None:
    """After a ramp the I/Os are those with a response time."""
    (point,), (job,) = measured(imported(content("ramp"))), documents("ramp")[-1]["jobs"]

    assert point.read.ios == job["read"]["lat_ns"]["N"]
    assert point.stimulus.ramp_seconds == 1


def test_the_last_of_several_documents_counts() -> None:
    """Documents of --status-interval are running totals of one run; those of two runs are two results."""
    several = documents("status-interval")
    once = imported(content("status-interval"))
    twice = imported(content("plain-json") + content("status-interval"))

    assert len(several) > 1
    assert [point.read.ios for point in measured(once)] == [several[-1]["jobs"][0]["read"]["total_ios"]]
    assert once.facts.spec.repeats == 1
    assert len(measured(twice)) == 2


def test_normal_output_states_counts_and_rounded_times() -> None:
    """The text has exact I/Os; its times are those of the JSON that it could have been, rounded."""
    run = imported(content("normal"))
    (point,), text = measured(run), content("normal").decode()
    reads, writes = map(int, re.findall(r"total=(\d+),(\d+)", text)[0])

    assert (point.read.ios, point.write.ios) == (reads, writes)
    assert point.read.transferred_bytes == 4096 * reads
    assert (point.stimulus.thread_count, point.stimulus.queue_depth) == (2, 8)
    assert "direct" not in dict(point.stimulus.options)
    assert "normal output" in warned(run)
    assert point.iops == pytest.approx(1000 * (reads + writes) / point.runtime_ms)


@pytest.mark.parametrize("grouped", ["0", "1"])
@pytest.mark.parametrize("version", ["2.0.9", "2.21"])
def test_normal_output_of_fio_2(version: str, grouped: str, tmp_path: Path) -> None:
    """Three outputs of three threads each, with and without group_reporting: their average is that of awk.

    The programs were built from their tags; the jobs are random writes of 4 KiB with psync for a second.
    fio 2 prints whole IOPS, and thousands with three digits; the suite divides the I/Os by the time.
    """
    outputs = [f"fio2/{version}-{grouped}-{number}" for number in (1, 2, 3)]
    run = imported(*map(content, outputs))
    texts = [content(name).decode() for name in outputs]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt").write_text(text)
    awk = "/^ *write/ { split($0, part, /(iops|IOPS)=/); sum += part[2] * (part[2] ~ /^[0-9.]+k/ ? 1000 : 1) }"
    command = ["awk", f"{awk} END {{ print sum / 3 }}", "0.txt", "1.txt", "2.txt"]
    printed = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    points = measured(run)

    assert len(points) == 3
    assert mean(point.iops for point in points) == pytest.approx(
        float(printed), rel=0.005 if version == "2.21" else 1e-4
    )
    if version == "2.0.9":  # the pipeline of "IO Performance Case I" needs IOPS in the third field of a line
        pipeline = (
            r"for i in 0 1 2; do grep -R '^\s*write' $i.txt | awk -F',' '{print $3}'"
            " | awk -F'=' 'BEGIN{SUM=0}{SUM+=$2}END{print SUM}'; done | awk 'BEGIN{SUM=0}{SUM+=$0}END{print SUM/NR}'"
        )
        summed = subprocess.run(["sh", "-c", pipeline], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
        assert float(summed) == pytest.approx(mean(point.iops for point in points), rel=1e-3)
    for point, text in zip(points, texts, strict=True):
        writes = [
            int(count) for pair in re.findall(r"total=r=0/w=(\d+)|total=0,(\d+)", text) for count in pair if count
        ]
        assert point.write.ios == sum(writes)
        assert point.write.transferred_bytes == 4096 * sum(writes)
        assert point.stimulus.thread_count == 3
        assert point.average_response_us > 0
        assert bool(percentiles_response_us([point], (99.0,))[0]) == (grouped == "1")  # those of threads are not merged
    assert (run.facts.platform.engine_version, run.facts.platform.io_engine) == (version, "psync")


# -- requests ---------------------------------------------------------------------------------------------------------


def test_points_have_the_demand_of_their_jobs() -> None:
    """Threads, queue depth, block size and mix are those that ran."""
    names = {
        name: measured(imported(content(name)))[0].stimulus
        for name in (
            "group-reporting",
            "threads-json",
            "concurrent-alike",
            "mmap",
            "mix-write",
            "bssplit",
            "randread-libaio",
        )
    }

    assert names["group-reporting"].thread_count == 4
    assert names["threads-json"].thread_count == names["concurrent-alike"].thread_count == 2
    assert names["mmap"].queue_depth == 1
    assert names["mix-write"].read_percent == 80
    assert [share.percent for share in names["bssplit"].block_shares] == [60, 30, 10]
    assert names[_LIBAIO].queue_depth == 16
    assert not names[_LIBAIO].cached
    assert names["mmap"].cached


def test_what_shaped_the_io_is_named() -> None:
    """Options that limit, change or share the I/O are in the result."""
    assert ("rate_iops", "500") in measured(imported(content("rate-iops")))[0].stimulus.options
    assert "latency_target" in warned(imported(content("latency-target")))["queue depth"]
    assert "reader, writer" in warned(imported(content("concurrent")))["concurrent jobs"]
    assert "mmap" in warned(imported(content("mmap")))["queue depth"]
    assert "bsrange=4k-64k" in warned(imported(content("bsrange")))["block sizes"]
    assert "I/O engine null" in warned(imported(content("null-engine")))


def test_what_is_unknown_stays_unknown() -> None:
    """A run has no capacity, no purge, no preconditioning, no seed and no host."""
    result = result_of(imported(content("plain-json")))

    assert result.facts.dut.kind == "imported"
    assert (result.facts.dut.capacity_bytes, result.facts.dut.model, result.facts.seed) == (0, "", None)
    assert not result.purges
    assert not result.conformant
    assert result.verdict == "COMPLETE (results of fio, not a PTS test)"


def test_six_rounds_are_judged() -> None:
    """The last five of six repeats are a window by the rule of the standard, in the order of time."""
    result = result_of(imported(content("rounds")))
    (judged,) = steady_states(result)
    expected = [job["read"]["iops"] for job in documents("rounds")[-1]["jobs"]][1:]
    spread = 100 * (max(expected) - min(expected)) / (sum(expected) / 5)

    assert judged.determination.values == pytest.approx(expected, rel=1e-5)
    assert judged.determination.data_excursion_percent == pytest.approx(spread, rel=1e-4)
    assert "steady state" not in {warning.what for warning in result.facts.warnings}


def test_fewer_rounds_are_not_judged() -> None:
    """A single measurement of each point has no steady state, which is a warning."""
    run = imported(content("stonewalls"))

    assert not list(steady_states(result_of(run)))
    assert warned(run)["steady state"].startswith("not judged")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4k", 4096),
        ("4K", 4096),
        ("4kb", 4096),
        ("1m", 1 << 20),
        ("512", 512),
        ("0x1000", 4096),
        ("4ki", 4000),
        ("4KiB", 4000),
        ("50%", None),
        ("", None),
        ("9" * 30, None),
    ],
)
def test_sizes_are_in_fios_notation(text: str, size: int | None) -> None:
    """By default fio's k is 1024 and its ki 1000."""
    assert parse_size(text) == size


def test_units_may_be_decimal() -> None:
    """With kb_base=1000 a k is 1000 and a ki is 1024."""
    assert (parse_size("4k", 1000), parse_size("4ki", 1000)) == (4000, 4096)
    assert block_sizes({"bs": "4ki", "kb_base": "1000"}, 100).largest == 4096


def test_times_and_mixes_are_in_fios_notation() -> None:
    """A time without a unit is in seconds; rwmixwrite is the complement of rwmixread."""
    assert [parse_seconds(text) for text in ("10", "2m", "300ms", "1h", "x")] == [10, 120, 0.3, 3600, None]
    assert read_percent({"rw": "randrw", "rwmixwrite": "30"}) == 70
    assert read_percent({"rw": "write"}) == 0


# -- several files ----------------------------------------------------------------------------------------------------


def edited(name: str, time_ms: int = 0, **options: str) -> bytes:
    """Return a case whose job has other options, as if it had run with them."""
    document = documents(name)[-1]
    document["jobs"][0]["job options"] |= options
    document["timestamp_ms"] += time_ms
    return json.dumps(document, indent=2).encode()


@pytest.mark.long
def test_a_folder_is_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The files of a matrix become points on its axes, in reports, tables and comparisons."""
    folder = tmp_path / "results"
    for depth in (1, 4, 16):
        for mode in ("randread", "randwrite"):
            place = folder / mode
            place.mkdir(parents=True, exist_ok=True)
            name = "randread-libaio" if mode == "randread" else "randwrite-io_uring"
            options = {"iodepth": str(depth), "ioengine": "libaio"}
            (place / f"{depth}.json").write_bytes(edited(name, 1000 * depth, **options))
    run = tmp_path / "run"

    assert main(["import", str(folder), "--run-dir", str(run), "--to", "rst,csv,json"]) == 0
    out = capsys.readouterr().out
    assert main(["import", str(folder), "--run-dir", str(tmp_path / "other"), "--to", "none"]) == 0
    assert main(["compare", str(run), str(tmp_path / "other")]) == 0
    compared = capsys.readouterr().out
    assert "1 repeat: no interval" in compared
    assert "asterisk" not in compared
    assert "measured by:" not in compared

    result = snia_pts.load(run).result
    assert {loop.part for loop in result.loops} == {
        f"{mode}, {size}, T1, Q{depth}"
        for mode, size in (("randread", "4 KiB"), ("randwrite", "8 KiB"))
        for depth in (1, 4, 16)
    }
    assert "randread, 4 KiB, T1, Q16" in out
    assert len(list((run / "evidence").iterdir())) == 6


def test_imports_differ_in_their_axes_and_durations() -> None:
    """A comparison shows the values that differ, not those of each workload."""
    short, long = (
        result_of(imported(edited("plain-json", runtime=runtime), edited("mix-write", runtime=runtime)))
        for runtime in ("300ms", "600ms")
    )
    alone = result_of(imported(edited("plain-json", runtime="300ms")))

    assert ("axis seconds", ("0.3", "0.6")) in {
        (found.what, found.values) for found in context_differences([short, long])
    }
    assert not any(found.what.startswith("workload") for found in context_differences([short, alone]))
    assert any(found.what == "axis block_size" for found in context_differences([short, alone]))


def test_limits_apply_to_an_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A limit on a point of the run is judged."""
    (tmp_path / "f.json").write_bytes(content("lat-percentiles"))
    (tmp_path / "limits.toml").write_text(
        'format = 1\n[[limit]]\ntest = "fio"\nmetric = "iops"\nat = "randread, 4 KiB, T1, Q1"\n'
        'unit = "IOPS"\nminimum = 1e9\n'
    )
    run = tmp_path / "run"
    assert main(["import", str(tmp_path / "f.json"), "--run-dir", str(run), "--to", "none"]) == 0

    assert main(["report", str(run), "--limits", str(tmp_path / "limits.toml"), "--to", "rst"]) == 0
    assert "NOT MET" in (run / "report.rst").read_text("utf-8")
    capsys.readouterr()


def test_repeats_are_rounds_in_order_of_time() -> None:
    """The same point in several files is measured several times, the earliest first."""
    late, early = edited("plain-json", 9000), edited("lat-percentiles", -9000)
    points = measured(imported(late, early.replace(b'"lat_percentiles": "1"', b'"eta": "1"')))

    assert [point.read.ios for point in points] == [
        documents(name)[-1]["jobs"][0]["read"]["total_ios"] for name in ("lat-percentiles", "plain-json")
    ]


def test_a_report_has_percentiles_and_steady_state(tmp_path: Path) -> None:
    """The report shows the percentiles of the bins, and the verdict on the rounds on its first page."""
    (tmp_path / "f.json").write_bytes(content("rounds"))
    assert main(["import", str(tmp_path / "f.json"), "--run-dir", str(tmp_path / "run"), "--to", "rst"]) == 0
    text = (tmp_path / "run" / "report.rst").read_text("utf-8")
    (p99,) = percentiles_response_us(measured(imported(content("rounds"))), (99.0,))
    verdict = next(iter(steady_states(result_of(imported(content("rounds")))))).determination.steady

    assert p99 is not None
    assert f"{p99 / 1000:.4f}" in text
    assert text.count(f"{int(verdict)} of 1 point steady in the last 5 rounds") == 2


def test_a_file_that_names_no_target_fits_one_on_the_same_disk() -> None:
    """The normal output does not name the file, but the disk."""
    json_file = content("plain-json")
    disk = documents("plain-json")[-1]["disk_util"][0]["name"].encode()
    text = re.sub(rb"(Disk stats[^\n]*\n +)\w+", rb"\g<1>" + disk, content("normal"))

    assert imported(json_file, text).facts.dut.path == "test.dat"
    with pytest.raises(ImportRejected, match="several"):
        imported(json_file, text.partition(b"Disk stats")[0])


def test_short_runs_in_one_file_are_several_results() -> None:
    """Two runs of the same job within a second are no running totals of one."""
    document = documents("plain-json")[-1]
    document["timestamp_ms"] += 900
    document["jobs"][0]["read"]["runtime"] += 1
    changed_later = b"\n" + json.dumps(document, indent=2).encode()

    assert len(measured(imported(content("plain-json") + changed_later))) == 2


def test_engines_of_a_run_are_an_axis() -> None:
    """An option in which the jobs differ is an axis, and part of the names."""
    run = imported(content("plain-json"), edited("plain-json", 5000, ioengine="psync"))

    assert "fio.ioengine" in run.facts.spec.axes
    assert len({step.part for step, _ in run.steps}) == 2


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REFUSED)
def test_a_result_that_is_not_one_workload_is_refused(name: str) -> None:
    """Errors, sums of several jobs and several devices are refused with the reason."""
    with pytest.raises(ImportRejected) as refused:
        imported(content(name))

    assert REFUSED[name] in str(refused.value)
    assert refused.value.hint


def changed(name: str, *path: str | int, value: object) -> bytes:
    """Return a case with another value at a path."""
    document = documents(name)[-1]
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(document, indent=2).encode()


_READ = ("jobs", 0, "read")


@pytest.mark.long_but_first
@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"", "the file is empty"),
        (b"{}", "not a result of a known tool"),
        (b'{\n"some": "json"\n}', "not a result of a known tool"),
        (b'{"fio version": "fio-3.33"}', "a list of jobs is missing"),
        (b'{"fio version": "fio-3.33", "jobs": []}', "it has no jobs"),
        (content("plain-json")[:-400], "the JSON is incomplete"),
        (content("plain-json").replace(b'"iops"', b'"total_ios"', 1), "a key has several values"),
        (content("plain-json").replace(b'"total_ios" : ', b'"total_ios" : -', 1), "job j"),
        (re.sub(rb'("mean" : )[\d.]+', rb"\1NaN", content("plain-json")), "NaN is not a number"),
        (re.sub(rb'("io_bytes" : )\d+', rb"\g<1>" + b"9" * 40, content("plain-json")), "job j"),
        (re.sub(rb'("total_ios" : )\d+', rb"\g<1>" + b"9" * 5000, content("plain-json")), "invalid JSON"),
        (b'{"fio version": ' + b"[" * 100_000, "nested too deep"),
        (changed("plain-json", *_READ, "total_ios", value=0), "job j"),
        (changed("plain-json", *_READ, "io_bytes", value=4096), "bytes on average"),
        (changed("plain-json", *_READ, "lat_ns", "mean", value=1e15), "mean response time"),
        (changed("plain-json", *_READ, "runtime", value="long"), "invalid values"),
        (changed("lat-percentiles", *_READ, "lat_ns", "bins", value={"5": 1}), "response times"),
        (changed("plain-json", "jobs", 0, "error", value=5), "fio reports error 5"),
        (changed("plain-json", "jobs", 0, "job options", "rw", value="randtrim"), "its options state rw=randtrim"),
        (changed("plain-json", "jobs", 0, "job options", "rw", value="sideways"), "unknown direction"),
        (changed("plain-json", "jobs", 0, "job options", "bs", value="0"), "invalid block size"),
        (changed("plain-json", "jobs", 0, "job options", "iodepth", value="0"), "queue depth 0"),
        (changed("plain-json", "jobs", 0, "job options", value=[]), "options of a job are not an object"),
        (changed("plain-json", "jobs", value=[7]), "a list of jobs is missing"),
        (content("normal").replace(b"fio-3.33", b"fio-1.59"), "unsupported normal output of fio 1.59, expected fio 2"),
        (content("normal")[: content("normal").index(b"issued")], "the text is incomplete"),
        (content("normal") * 2, "2 runs of fio"),
    ],
)
def test_an_invalid_file_is_refused(
    document: bytes, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is in a file: one sentence with a remedy, an exit code, and no folder."""
    (tmp_path / "f.json").write_bytes(document)

    assert main(["import", str(tmp_path / "f.json"), "--run-dir", str(tmp_path / "run"), "--to", "none"]) == 14
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_jobs_that_only_trim_are_refused() -> None:
    """A job of trims has neither reads nor writes."""
    document = documents("plain-json")[-1]
    job = document["jobs"][0]
    job["job options"]["rw"] = "randtrim"
    job["trim"], job["read"] = job["read"], job["trim"]
    with pytest.raises(ImportRejected, match="it only trims"):
        imported(json.dumps(document).encode())


def test_the_same_file_twice_is_refused() -> None:
    """The same result twice is no second round."""
    with pytest.raises(ImportRejected, match="twice"):
        imported(content("plain-json"), content("plain-json"))


def test_points_measured_more_often_than_others_are_refused() -> None:
    """A point in two files, and another in one, are not rounds."""
    again, other = edited("plain-json", 4000), edited("plain-json", 8000, iodepth="1", bs="4096", rw="randread")
    with pytest.raises(ImportRejected, match="duplicate point: randread"):
        imported(content("plain-json"), again, content("mix-write"))
    assert other


def test_results_of_several_disks_are_refused() -> None:
    """Files of the same name on other disks are of other devices."""
    other = changed("plain-json", "disk_util", value=[{"name": "nvme9n1"}])
    with pytest.raises(ImportRejected, match="several disks"):
        imported(content("lat-percentiles"), other)


def test_concurrent_jobs_on_several_devices_are_refused() -> None:
    """Equal jobs that ran at the same time on two devices are no threads of one job."""
    document = documents("concurrent-alike")[-1]
    for number, job in enumerate(document["jobs"]):
        job["job options"]["filename"] = f"/dev/nvme{number}n1"
    with pytest.raises(ImportRejected, match="several devices or files: /dev/nvme0n1"):
        imported(json.dumps(document).encode())


def test_concurrent_jobs_of_one_point_are_refused() -> None:
    """Jobs that ran at the same time are no rounds: their names tell them apart, or they are refused."""
    document = documents("concurrent-alike")[-1]
    document["jobs"][0]["job options"]["loops"] = "2"
    named = imported(json.dumps(document).encode())
    document["jobs"][1]["jobname"] = document["jobs"][0]["jobname"]

    assert {step.part for step, _ in named.steps} == {f"randread ({name}), 4 KiB, T1, Q1" for name in "ab"}
    with pytest.raises(ImportRejected, match="cannot be told apart"):
        imported(json.dumps(document).encode())


def test_files_of_several_tools_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The files of an import are of one tool."""
    (tmp_path / "a.json").write_bytes(content("plain-json"))
    (tmp_path / "b.xml").write_bytes(b"<xml/>")

    assert main(["import", str(tmp_path / "a.json"), str(tmp_path / "b.xml"), "--to", "none"]) == 14
    assert "another tool" in capsys.readouterr().err


def test_a_folder_without_results_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder must have a *.json or *.xml file."""
    assert main(["import", str(tmp_path), "--to", "none"]) == 14
    assert "contains no *.json or *.xml file" in capsys.readouterr().err


# -- hostile files ----------------------------------------------------------------------------------------------------

_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.text(max_size=12),
    st.builds(list),
    st.builds(dict),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=2),
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in a document, without the bins."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [path] if path else []
    for key, child in children:
        found += _places(child, (*path, key)) if key != "bins" else [(*path, key)]
    return found


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_mutated_file_gives_a_run_or_a_message(data: st.DataObject) -> None:
    """Any values in a file: a run whose result can be calculated, or a sentence."""
    name = data.draw(st.sampled_from(["plain-json", "stonewalls", "mix-70", "unified", "client", "fsync"]))
    document = documents(name)[-1]
    places = _places(document)
    for place in data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=3)):
        target: Any = document
        try:
            for key in place[:-1]:
                target = target[key]
            target[place[-1]] = data.draw(_VALUES)
        except (TypeError, LookupError):
            continue
    with suppress(RecordError):
        key_figures(result_of(imported(json.dumps(document, indent=1).encode())))


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(name=st.sampled_from(["normal", "normal-several", "text-before"]), data=st.data())
def test_mutated_text_gives_a_run_or_a_message(name: str, data: st.DataObject) -> None:
    """Any bytes in place of some of a file's: a run, or a sentence."""
    changed_bytes = bytearray(content(name))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(changed_bytes) - 1))
        length = data.draw(st.integers(0, 40))
        changed_bytes[at : at + length] = data.draw(st.binary(max_size=40))
    with suppress(RecordError):
        key_figures(result_of(imported(bytes(changed_bytes))))


# -- the library ------------------------------------------------------------------------------------------------------


def test_read_fio_returns_a_run(tmp_path: Path) -> None:
    """The library reads files and folders without a run folder."""
    (tmp_path / "f.json").write_bytes(content("lat-percentiles"))

    one, folder = snia_pts.read_fio(tmp_path / "f.json"), snia_pts.read_fio(str(tmp_path))

    assert one.path == tmp_path / "f.json"
    assert one.steady is None
    assert one.result.loops == folder.result.loops
    assert list(tmp_path.iterdir()) == [tmp_path / "f.json"]


def test_a_run_of_read_fio_is_compared_and_reported(tmp_path: Path) -> None:
    """It needs no run folder: two files are compared, and reports go to the folder that the caller names."""
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(content("lat-percentiles"))
    a, b = snia_pts.read_fio(tmp_path / "a.json"), snia_pts.read_fio(tmp_path / "b.json")

    comparison = snia_pts.compare([a, b])

    assert [entry.path for entry in comparison.entries] == [str(tmp_path / "a.json"), str(tmp_path / "b.json")]
    assert [item.what for item in comparison.context if item.what == "measured by"] == []
    of_iops = {figure.at: figure.differences[1] for figure in comparison.figures if figure.metric == "iops"}
    assert of_iops
    assert all(difference is not None and difference.percent == 0 for difference in of_iops.values())
    assert comparison.write_report(tmp_path / "comparison")["pdf"].is_file()
    assert snia_pts.write_report(a, formats=["json"], folder=tmp_path / "report")["json"].is_file()
    with pytest.raises(UsageError, match="has no folder"):
        snia_pts.write_report(a)
    with pytest.raises(UsageError, match="no folder with evidence"):
        a.evidence("00001")


def test_read_fio_refuses_other_tools(tmp_path: Path) -> None:
    """TKperf's files are not read as fio's."""
    (tmp_path / "f.xml").write_bytes(b"<xml/>")
    with pytest.raises(ImportRejected, match="not a result of fio"):
        snia_pts.read_fio(tmp_path / "f.xml")


def test_read_run_names_the_file() -> None:
    """Messages name the file in which the error is."""
    origin = imported(content("plain-json")).facts.imported
    assert origin is not None
    with pytest.raises(ImportRejected, match="my-file"):
        read_run([SourceFile(name="my-file", content=b'{"fio version": 1}')], origin, ())


# -- other versions of fio --------------------------------------------------------------------------------------------


def test_files_without_the_number_of_response_times_are_read() -> None:
    """fio before 3.17 states no number of response times, and 3.1 repeats unset percentiles as 0 %."""
    text = re.sub(r',\s*"N" : \d+', "", content("plain-json").decode())
    text = text.replace('"99.990000"', '"0.00" : 0, "0.00" : 0, "99.990000"')
    old, new = measured(imported(text.encode())), measured(imported(content("plain-json")))

    assert '"N"' not in text
    assert old[0].read == new[0].read


def _of_fio_2(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document in the units of fio 2: microseconds and KiB."""
    document["fio version"] = "fio-2.18"
    for job in document["jobs"]:
        for name in ("read", "write", "trim"):
            side = job[name]
            side["io_bytes"] //= 1024
            del side["io_kbytes"]
            for key in ("slat", "clat", "lat"):
                times = side.pop(f"{key}_ns")
                percentiles = {percent: value // 1000 for percent, value in times.get("percentile", {}).items()}
                units = {part: times[part] // 1000 for part in ("min", "max")}
                side[key] = {**units, "mean": times["mean"] / 1000, "percentile": percentiles}
    return document


def test_files_of_fio_2_are_in_microseconds_and_kib() -> None:
    """fio 2 states KiB and microseconds, so the numbers are as of fio 3, rounded."""
    document = documents("plain-json")[-1]
    (new,), (old,) = (
        measured(imported(content("plain-json"))),
        measured(imported(json.dumps(_of_fio_2(document)).encode())),
    )

    assert old.read.ios == new.read.ios
    assert old.read.transferred_bytes == pytest.approx(new.read.transferred_bytes, abs=1024)
    assert old.average_response_us == pytest.approx(new.average_response_us)
    assert old.maximum_response_us == math.floor(new.maximum_response_us)


def test_files_without_options_are_refused() -> None:
    """Old versions do not repeat the options, without which a number has no meaning."""
    document = documents("plain-json")[-1]
    del document["jobs"][0]["job options"], document["global options"]
    with pytest.raises(ImportRejected, match="options are missing"):
        imported(json.dumps(document).encode())
