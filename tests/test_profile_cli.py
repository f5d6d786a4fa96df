"""``snia-pts profile`` as a user runs it: real fio on small files, limits, directories, and the files that remain."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from snia_pts import read_fio
from snia_pts.cli.main import main
from snia_pts.lab import fio
from snia_pts.model.measurement import mean
from snia_pts.profiles.reader import builtin_profiles, profile_path, read_profile
from snia_pts.profiles.spec import ProfileSpec
from snia_pts.record.folder import RunFolder
from snia_pts.record.replay import assess
from snia_pts.results.key_figures import key_figures
from snia_pts.results.result import TestResult
from snia_pts.results.warnings import run_warnings
from tests.drives import content, filled, loop_device, make_ext4, mounted, need_root

QUIET = ("--to", "none", "--progress", "none")
#: What makes each of them short; profiles that cover their whole target get a size.
SHORT = {
    "etcd-fsync": ("--range", "400K"),
    "etcd-node": ("--range", "4M"),
    "file-matrix": ("--range", "256K", "--axis", "block_size=64K"),
    "five-patterns": ("--range", "4M", "--seconds", "0.1"),
    "hdd-iops": ("--size", "16M", "--seconds", "0.1", "--axis", "read_percent=50", "--axis", "block_size=4K"),
    "hdd-throughput": ("--size", "128M", "--seconds", "0.1", "--axis", "read_percent=0", "--axis", "block_size=1M"),
    "node-storage": ("--range", "4M"),
    "page-cache": ("--range", "1M", "--repeats", "1"),
    "queue-depth": ("--size", "4M", "--seconds", "0.1", "--ramp-seconds", "0.1", "--axis", "queue_depth=1,8"),
    "random-write-matrix": ("--range", "4M", "--seconds", "0.1", "--ramp-seconds", "0.1", "--repeats", "2"),
    "sequential-and-random": ("--size", "4M", "--seconds", "0.1", "--axis", "block_size=256K"),
    "sequential-write": ("--range", "4M", "--repeats", "1"),
}
#: 128 zones would need as many starts of fio.
FEW_ZONES = ("hdd-iops", "hdd-throughput")
#: Only root may drop the page cache.
CONFIGURE_HOST = ("random-write-matrix", "sequential-write")


def run(*words: str | Path) -> int:
    """Run a command line; return the exit code."""
    return main(["profile", "run", *map(str, words), *QUIET])


def result(place: Path) -> TestResult:
    """Return the result of the run in a folder."""
    return assess(RunFolder.existing(place))


def figures(found: TestResult) -> dict[str, Any]:
    """Return the key figures of a result by name."""
    return {figure.name: figure for figure in key_figures(found)}


def test_all_shipped_profiles_are_tested_here() -> None:
    """A new profile needs options here with which it runs briefly."""
    assert tuple(SHORT) == builtin_profiles()


@pytest.mark.long
@pytest.mark.parametrize("name", SHORT)
def test_a_shipped_profile_runs_in_a_directory(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every point is measured, the run is complete, and the directory is empty afterwards."""
    if name in CONFIGURE_HOST:
        need_root()
    target, profile = tmp_path / "d", name
    target.mkdir()
    if name in FEW_ZONES:
        profile = str(tmp_path / f"{name}.toml")
        Path(profile).write_text(profile_path(name).read_text().replace("zones = 128", "zones = 3"))
    code = run(profile, target, "--run-dir", tmp_path / "run", *SHORT[name])

    assert code in (0, 19), capsys.readouterr().err  # whether its own limits are met depends on the disk
    found = result(tmp_path / "run")
    spec = found.facts.spec
    assert isinstance(spec, ProfileSpec)
    assert found.verdict.startswith("COMPLETE")
    assert {len(loop.complete) for loop in found.loops} == {spec.repeats}
    assert all(figure.value > 0 for figure in key_figures(found) if figure.metric == "iops")
    assert list(target.iterdir()) == []


@pytest.mark.long
def test_points_of_a_file_matrix_last_long_enough_for_a_rate(tmp_path: Path) -> None:
    """fio covers a file of 64 KiB repeatedly; only writes of a new file are too short, and have no IOPS."""
    words = ("file-matrix", tmp_path / "x.img", "--size", "1M", "--range", "64K", "--axis", "block_size=16K")
    assert run(*words, "--run-dir", tmp_path / "run") == 0
    found = result(tmp_path / "run")
    lasted = {loop.part: loop.complete[0].measurements[0] for loop in found.loops}
    new = lasted.pop("write")

    assert lasted
    assert all(duration.runtime_ms >= 100 for duration in lasted.values())
    assert all(item.ios == (item.stimulus.amount_bytes or 0) / 16384 for item in lasted.values())
    assert (new.stimulus.passes, new.runtime_ms < 100, math.isnan(new.iops)) == (1, True, True)
    rated = {figure.at for figure in key_figures(found) if figure.metric == "iops"}
    assert rated == set(lasted)


@pytest.mark.long
def test_a_copy_of_the_user_runs_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy's changes and its own name are used."""
    monkeypatch.chdir(tmp_path)
    text = (
        profile_path("etcd-fsync").read_text().replace('"22 MiB"', '"100 KiB"').replace("maximum = 10", "maximum = 1e9")
    )
    Path("ours.toml").write_text(text.replace("sync_99_percent_ms", "average_sync_ms"))

    assert run("ours.toml", tmp_path, "--run-dir", "run") == 0
    found = result(tmp_path / "run")
    assert (found.facts.spec.revision, found.deviations) == ("Workload profile ours", ())
    (loop,) = found.loops
    (measured,) = loop.complete[0].measurements
    assert (measured.write.ios, measured.sync and measured.sync.calls) == (100 * 1024 // 2300, 100 * 1024 // 2300 - 1)


@pytest.mark.long
def test_repeats_with_the_same_offsets_have_one_seed(tmp_path: Path) -> None:
    """With randrepeat = 1 every point has its own seed, which is the same in each repeat."""
    words = (
        "queue-depth",
        tmp_path / "x.img",
        "--size",
        "4M",
        "--seconds",
        "0.1",
        "--ramp-seconds",
        "0",
        "--axis",
        "queue_depth=1,2",
        "--axis",
        "fio.randrepeat=1",
        "--repeats",
        "2",
    )
    assert run(*words, "--run-dir", tmp_path / "run") == 0
    loops = result(tmp_path / "run").loops
    seeds = [{round_.measurements[0].seed for round_ in loop.complete} for loop in loops]

    assert {(len(loop.complete), len(seed)) for loop, seed in zip(loops, seeds, strict=True)} == {(2, 1)}
    assert len(set().union(*seeds)) == len(loops)


@pytest.mark.long_but_first
@pytest.mark.parametrize(("maximum", "code"), [("1e6", 0), ("1e-6", 19)])
def test_the_limit_of_etcd(maximum: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The 99th percentile of fdatasync is within its limit, or the exit code is 19; assess gives the same code."""
    text = profile_path("etcd-fsync").read_text().replace("maximum = 10", f"maximum = {maximum}")
    (tmp_path / "etcd.toml").write_text(text)

    assert run(tmp_path / "etcd.toml", tmp_path, "--range", "400K", "--run-dir", tmp_path / "run") == code
    assert ("NOT MET" in capsys.readouterr().out) == (code != 0)
    assert main(["assess", str(tmp_path / "run")]) == code
    found = figures(result(tmp_path / "run"))["sync_99_percent_ms at fdatasync"]
    assert found.value > 0


@pytest.mark.long
@pytest.mark.parametrize(("maximum", "code"), [(60, 0), (0.001, 19)])
def test_the_time_to_write_a_file_is_a_column_and_a_limit(
    maximum: float, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As ``dd`` does, it divides the bytes of a repeat of a stream by its rate."""
    need_root()
    limit = f'[[limit]]\nmetric = "finish_seconds"\nat = "sequential write"\nunit = "s"\nmaximum = {maximum}\n'
    (tmp_path / "own.toml").write_text(profile_path("sequential-write").read_text() + limit)

    assert run(tmp_path / "own.toml", tmp_path, "--range", "512M", "--run-dir", tmp_path / "run") == code
    printed = capsys.readouterr().out
    found = figures(result(tmp_path / "run"))
    time, rates = found["finish_seconds at sequential write"], found["mb_per_second at sequential write"].rounds
    assert time.rounds == pytest.approx([(512 << 20) / 1e6 / rate for rate in rates])
    assert time.value == pytest.approx(mean(time.rounds))
    unit = "s" if time.value >= 1 else "ms"
    row = r"^  (?:\N{DAGGER} )?sequential write +([0-9.]+) "  # with or without the mark of a host-limited number
    (printed_time,) = re.findall(row, printed, re.MULTILINE)
    assert {"Time per", f"pass ({unit})"} <= {word.strip() for word in re.split("  +|\n", printed)}
    assert float(printed_time) == pytest.approx(time.value * (1 if unit == "s" else 1000), rel=0.01)


@pytest.mark.long
@pytest.mark.parametrize(("minimum", "code"), [(1, 0), (10**9, 19)])
def test_node_storage_with_a_file_of_limits(minimum: int, code: int, tmp_path: Path) -> None:
    """Read and write IOPS are compared with the limits of a table."""
    limits = "format = 1\n" + "".join(
        f'[[limit]]\ntest = "profile"\nmetric = "{side}_iops"\nat = "random mix"\nunit = "IOPS"\nminimum = {least}\n'
        for side, least in (("read", 1), ("write", minimum))
    )
    (tmp_path / "limits.toml").write_text(limits)
    words = ("node-storage", tmp_path, "--range", "2M", "--limits", tmp_path / "limits.toml")

    assert run(*words, "--run-dir", tmp_path / "run") == code
    found = figures(result(tmp_path / "run"))
    both = found["read_iops at random mix"].value + found["write_iops at random mix"].value
    assert both == pytest.approx(found["iops at random mix"].value)


@pytest.mark.long
def test_without_response_times_there_are_rates_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """fio's gtod_reduce: IOPS and MB/s of reads and writes as usual, every response time n/a, in all reports.

    A limit on one is refused before the run; the evidence is verified like any other.
    """
    limit = '[[limit]]\ntest = "profile"\nmetric = "{}"\nat = "random mix"\nunit = "{}"\n{} = 1\n'
    own, limits = tmp_path / "own.toml", tmp_path / "limits.toml"
    own.write_text(profile_path("node-storage").read_text().replace("randrepeat = 1", "gtod_reduce = 1"))
    words = (own, tmp_path, "--range", "4M", "--limits", limits)
    limits.write_text("format = 1\n" + limit.format("maximum_response_ms", "ms", "maximum"))
    assert run(*words, "--run-dir", tmp_path / "no") == 3
    assert "maximum_response_ms at random mix" in capsys.readouterr().err

    limits.write_text("format = 1\n" + limit.format("read_iops", "IOPS", "minimum"))
    assert run(*words, "--run-dir", tmp_path / "run") == 0
    printed = capsys.readouterr().out
    found = figures(result(tmp_path / "run"))
    assert {figure.metric for figure in found.values()} == {
        "iops",
        "mb_per_second",
        "finish_seconds",
        "read_iops",
        "write_iops",
        "written_gb",
    }
    assert all(figure.value > 0 for figure in found.values())
    row = re.search(r"^  (?:\N{DAGGER} )?random mix +([0-9].*)", printed, re.MULTILINE)
    assert row
    assert row[1].split()[-3:] == ["n/a"] * 3
    assert main(["report", str(tmp_path / "run"), "--to", "pdf,html,rst,xlsx,csv,json,ocp,interactive"]) == 0
    assert main(["assess", str(tmp_path / "run")]) == 0
    loops = (tmp_path / "run" / "result.xml").read_text().partition("<loop ")[2]
    assert "read_ios=" in loops
    assert "response_us=" not in loops.partition("</loop>")[0]


@pytest.mark.long
def test_averages_are_those_of_grep_and_awk(tmp_path: Path) -> None:
    """grep and awk add up and average the IOPS in fio's own text of the same runs, and get the same.

    The text has three or four digits, so that 10.0k is within 1 %; the check is of all threads together, and of each
    thread. The same outputs, imported, agree too.
    """
    need_root()
    words = (
        "random-write-matrix",
        tmp_path,
        "--repeats",
        "1",
        "--range",
        "4M",
        "--seconds",
        "0.5",
        "--ramp-seconds",
        "0",
    )
    assert run(*words, "--axis", "block_size=4K", "--axis", "thread_count=4", "--run-dir", tmp_path / "run") == 0
    (job,) = (tmp_path / "run/evidence").glob("*-rnd-4096b-r0.fio")
    (point,) = result(tmp_path / "run").loops[0].complete[0].measurements
    filled(tmp_path / "snia-pts-random-write-matrix.data", 4 << 20)

    together: list[float] = []
    apart: list[float] = []
    for number in range(3):
        for grouped, ours in (("1", together), ("0", apart)):
            text = job.read_text().replace("group_reporting=1", f"group_reporting={grouped}")
            (tmp_path / "x.fio").write_text(text)
            out = tmp_path / f"fio.result.{grouped}.{number}"
            subprocess.run(
                ["fio", "--output-format=normal,json+", f"--output={out}", "x.fio"],
                cwd=tmp_path,
                check=True,
                env={**os.environ, "SNIA_PTS_TARGET": str(tmp_path / "snia-pts-random-write-matrix.data")},
            )
            answer = out.read_text()
            document, _ = json.JSONDecoder().raw_decode(answer, answer.index("{\n"))
            if grouped == "1":
                ours.append(fio.accept(point.stimulus, 0, False, json.dumps(document))[1].iops)
            else:
                jobs = document["jobs"]
                ours.append(sum(1000 * item["write"]["total_ios"] / item["write"]["runtime"] for item in jobs))
    assert by_awk(tmp_path, "1") == pytest.approx(mean(together), rel=0.01)
    assert by_awk(tmp_path, "0") == pytest.approx(mean(apart), rel=0.01)
    for grouped in ("0", "1"):
        imported_run = read_fio(*sorted(tmp_path.glob(f"fio.result.{grouped}.*")))
        (imported,) = [figure.value for figure in imported_run.figures if figure.metric == "iops"]
        assert imported == pytest.approx(by_awk(tmp_path, grouped), rel=0.01)


def by_awk(folder: Path, grouped: str) -> float:
    """Add up the IOPS of each run's ``write`` lines, and average over the runs, as the document's pipeline does.

    Current fio versions write IOPS first in a line, and thousands as k.
    """
    thousands = "sed 's/k$/e3/; s/M$/e6/'"
    assert f"``{thousands}``" in (Path(__file__).parents[1] / "docs" / "equivalent-commands.rst").read_text()
    first_fields = f"grep '^ *write' $f | awk -F',' '{{print $1}}' | {thousands}"
    sum_of_run = f"{first_fields} | awk -F'=' '{{SUM+=$2}} END{{print SUM}}'"
    pipeline = f"for f in fio.result.{grouped}.*; do {sum_of_run}; done | awk '{{SUM+=$0}} END{{print SUM/NR}}'"
    done = subprocess.run(["sh", "-c", pipeline], capture_output=True, text=True, check=True, cwd=folder)
    return float(done.stdout)


@pytest.mark.long
def test_a_set_of_files_is_measured_and_leaves_nothing(tmp_path: Path) -> None:
    """fio opens as many files as the axis says, transfers the range on each set, and none of them has a name."""
    place = tmp_path / "place"
    place.mkdir()
    path = tmp_path / "files.toml"
    path.write_text(
        'format = 1\ntitle = "T"\ndescription = "d"\nsource = "s"\nfill = true\n'
        '[[workload]]\nname = "read"\naccess = "RND"\nread_percent = 100\nblock_size = "64K"\nthread_count = 2\n'
        'range = "8M"\nfio = { openfiles = 2 }\n'
        '[[axis]]\nkey = "fio.nrfiles"\nvalues = [1, 128]\n'
        '[[axis]]\nkey = "fio.file_service_type"\nvalues = ["random"]\n'
    )
    assert run(path, place, "--run-dir", tmp_path / "run") == 0
    assert list(place.iterdir()) == []
    folder = RunFolder.existing(tmp_path / "run")
    measured = [loop.complete[0].measurements[0] for loop in assess(folder).loops]
    assert [point.read.transferred_bytes // (point.stimulus.passes or 0) for point in measured] == [8 << 20] * 2
    for point in measured:
        record = json.loads((tmp_path / f"run/evidence/{point.evidence}.process.json").read_text())
        names = record["environment"]["SNIA_PTS_TARGET"].split(":")
        assert len(names) == point.stimulus.file_count
        assert sum("snia-pts-files.data" in record["descriptors"][name] for name in names) == len(names)
    assert main(["assess", str(tmp_path / "run")]) == 0


@pytest.mark.long
def test_files_of_others_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another file or symlink with that name, and its target, are refused and unchanged."""
    own, other = tmp_path / "snia-pts-etcd-fsync.data", filled(tmp_path / "other", 64 * 1024)
    words = ("etcd-fsync", tmp_path, "--range", "100K", "--run-dir", tmp_path / "run")
    before = content(other)
    own.symlink_to(other)
    assert (run(*words, "--overwrite"), content(other), own.is_symlink()) == (10, before, True)
    assert "it is a symlink" in capsys.readouterr().err
    own.unlink()
    other.rename(own)
    assert (run(*words), content(own)) == (8, before)
    assert run(*words, "--overwrite") in (0, 19)
    assert own.exists()
    assert "was not removed: it may have existed before the run" in capsys.readouterr().err


@pytest.mark.long
def test_the_file_of_a_run_by_path_remains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run that created it has announced that it keeps it."""
    own, words = tmp_path / "snia-pts-etcd-fsync.data", ("--range", "100K", "--seconds", "0.2")
    assert run("etcd-fsync", own, "--size", "1M", *words, "--run-dir", tmp_path / "first") in (0, 19)
    assert run("etcd-fsync", tmp_path, *words, "--run-dir", tmp_path / "second") in (0, 19)
    assert own.exists()
    assert "was not removed: it may have existed before the run" in capsys.readouterr().err


@pytest.mark.long
def test_a_second_run_takes_nothing_from_the_first(tmp_path: Path) -> None:
    """While a run is in progress in a directory, another one is refused, and does not remove its file."""
    with begun(tmp_path, "queue-depth", "--size", "4M", "--seconds", "2", "--axis", "queue_depth=1") as first:
        code = run("queue-depth", tmp_path, "--size", "8M", "--run-dir", tmp_path / "second")
        assert (code, (tmp_path / "second").exists()) == (7, False)
        assert (tmp_path / "snia-pts-queue-depth.data").stat().st_size == 4 << 20
        first.send_signal(signal.SIGINT)
        assert first.wait() == 130


class begun:
    """Return a run in its own process that has started to measure."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._run = folder / "run"
        command = [sys.executable, "-m", "snia_pts", "profile", "run", words[0], str(folder), *words[1:], *QUIET]
        self._command = [*command, "--run-dir", str(self._run), "--ramp-seconds", "0"]

    def __enter__(self) -> subprocess.Popen[bytes]:
        self._program = subprocess.Popen(
            self._command,
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        while len(list(self._run.glob("evidence/0000[1-9]-*.fio"))) < 2 or not (self._run / "journal.jsonl").exists():
            assert self._program.poll() is None
            time.sleep(0.02)
        return self._program

    def __exit__(self, *_: object) -> None:
        self._program.kill()
        self._program.wait()


@pytest.mark.long
@pytest.mark.parametrize(("how", "options"), [(signal.SIGKILL, ()), (signal.SIGINT, ("--from-purge",))])
def test_a_stopped_run_resumes_in_its_directory(
    how: int, options: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is kept until then and removed at the end, from whichever folder it is resumed."""
    words = ("--size", "2M", "--seconds", "0.5", "--axis", "queue_depth=1")
    with begun(tmp_path, "queue-depth", *words) as first:
        first.send_signal(how)
        first.wait()
    assert (tmp_path / "snia-pts-queue-depth.data").exists()

    monkeypatch.chdir("/")
    assert main(["resume", str(tmp_path / "run"), "--progress", "none", *options]) == 0
    found = result(tmp_path / "run")
    assert (len(found.loops), len(found.interruptions)) == (2, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


@pytest.mark.long
def test_a_run_that_cannot_start_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An option that fio rejects, and a setting that this target lacks: one message, no folder, no file."""
    words = ("etcd-fsync", tmp_path, "--range", "100K", "--run-dir", tmp_path / "run")
    assert run(*words, "--axis", "fio.rate=abc") == 2
    assert "fio rejects the options fdatasync=1, direct=0, ioengine=sync, rate=abc" in " ".join(
        sorted(capsys.readouterr().err.split("\n"))
    ).replace("direct=0, fdatasync=1", "fdatasync=1, direct=0")
    assert run(*words, "--axis", "host.scheduler=no-such-one") == 10
    assert list(tmp_path.iterdir()) == []
    other = filled(tmp_path / "other", 128 * 1024)
    before = content(other)
    axis = ("--axis", "host.scheduler=no-such-one")
    assert run("etcd-fsync", other, "--overwrite", "--size", "1M", *words[2:], *axis) == 10
    assert (content(other), other.stat().st_size) == (before, 128 * 1024)


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("queue-depth", "{}"), 2, "uses its whole target"),
        (("etcd-fsync", "{}", "--size", "1M"), 10, "its capacity is 1.049 MB, but fdatasync needs 23.07 MB"),
        (("etcd-fsync", "{}/no/x", "--size", "32M"), 6, "does not exist"),
        (("no-such", "{}"), 2, "There is no profile"),
        (("etcd-fsync", "{}", "--repeats", "x"), 2, "--repeats x: not a number"),
        (("etcd-fsync", "{}", "--repeats", "0"), 3, "repeats: 0"),
        (("etcd-fsync", "{}", "--range", "x"), 2, "'x' is not a size"),
        (("etcd-fsync", "{}", "--axis", "x"), 2, "not KEY=VALUE,VALUE"),
        (("queue-depth", "{}", "--size", "4M", "--axis", "fio=5"), 3, "fio.<option> and host.<setting>, not fio"),
        (("queue-depth", "{}", "--size", "4M", "--axis", "fio.=5"), 3, "not fio."),
        (("etcd-fsync", "{}", "--axis", "queue_depth=2"), 3, "waits for each I/O"),
        (("etcd-fsync", "a" * 5000), 10, "File name too long"),
        (("queue-depth", "sim:enterprise-nvme", "--size", "4M"), 2, "or limit what the profile accesses with --range"),
        (("etcd-fsync", "sim:enterprise-nvme"), 10, "and etcd-fsync requires fio's ioengine"),
        (("random-write-matrix", "sim:enterprise-nvme"), 10, "requires an empty page cache"),
        (("queue-depth", "sim:enterprise-nvme", "--axis", "host.governor=x"), 10, "requires the setting host.governor"),
    ],
)
def test_invalid_arguments_are_one_message(
    words: Sequence[str], code: int, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is refused before anything is created, with the exit code of its kind."""
    folder = ("--run-dir", str(tmp_path / "run"))
    assert run(*(word.format(tmp_path) for word in words), *folder) == code
    message = capsys.readouterr().err
    assert (why in message, "Traceback" in message, list(tmp_path.iterdir())) == (True, False, [])


def test_a_drive_can_be_simulated(tmp_path: Path) -> None:
    """IOPS rise with the queue depth as far as the drive allows, ramps included, and a second run gives the same."""
    words = ("queue-depth", "sim:enterprise-nvme", "--seconds", "10", "--axis", "queue_depth=1,16", "--seed", "1")
    assert run(*words, "--run-dir", tmp_path / "a") == run(*words, "--run-dir", tmp_path / "b") == 0
    one, two = (figures(result(tmp_path / name)) for name in "ab")

    assert one["iops at random read, Q16"].value > 5 * one["iops at random read, Q1"].value
    assert [item.value for item in one.values()] == [entry.value for entry in two.values()]


def test_a_simulated_drive_has_the_write_cache_of_the_profile(tmp_path: Path) -> None:
    """If the profile does not set it, it is that of the preset."""
    text = profile_path("queue-depth").read_text(encoding="utf-8")
    states = ("as found", "enabled", "disabled")
    for state in states:
        path = tmp_path / f"{state.replace(' ', '-')}.toml"
        path.write_text(f'write_cache = "{state}"\n{text}', encoding="utf-8")
        words = (
            str(path),
            "sim:client-qlc",
            "--seconds",
            "1",
            "--axis",
            "queue_depth=1",
            "--run-dir",
            tmp_path / state,
        )
        assert run(*words) == 0
    caches = {state: result(tmp_path / state).facts.dut.write_cache for state in ("as found", "enabled", "disabled")}
    assert caches == {"as found": "enabled", "enabled": "enabled", "disabled": "disabled"}


def test_a_plan_lists_the_points_and_creates_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has points and time with the ramps; no purge is no deviation from a profile without one."""
    words = ("profile", "run", "queue-depth", str(tmp_path), "--size", "64M", "--plan", "--json")
    assert main(words) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["shortest"]["seconds"] > 18 * 65, output["deviations"]) == (True, [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_profiles_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """They are listed by name and title, and shown as in their file."""
    assert main(["profile", "list"]) == 0
    output = capsys.readouterr().out
    assert all(name in output and read_profile(name).spec.title in output for name in builtin_profiles())
    assert main(["profile", "show", "etcd-fsync"]) == 0
    assert capsys.readouterr().out == profile_path("etcd-fsync").read_text()


def test_a_full_or_read_only_file_system_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The refusal comes before the first byte; nothing is left on it."""
    need_root()
    with loop_device(tmp_path / "fs.img", 16 << 20) as device:
        make_ext4(device)
        with mounted(device, tmp_path / "m") as place:
            assert run("etcd-fsync", place, "--run-dir", tmp_path / "run") == 10
            assert "of free space" in capsys.readouterr().err
            subprocess.run(["mount", "-o", "remount,ro", place], check=True)
            assert run("etcd-fsync", place, "--range", "1M", "--run-dir", tmp_path / "run") == 10
            assert "Read-only file system" in capsys.readouterr().err
            assert [path.name for path in place.iterdir()] == ["lost+found"]


@pytest.mark.long
def test_schedulers_of_a_real_device_are_varied_and_restored(tmp_path: Path) -> None:
    """The kernel reports each one while its points are measured; at the end all, with nr_requests, is restored."""
    need_root()
    with loop_device(tmp_path / "x.img", 4 << 20) as device:
        queue = Path("/sys/block") / device.name / "queue"
        if "mq-deadline" not in (queue / "scheduler").read_text():
            pytest.skip("the kernel has no I/O scheduler for loop devices")
        before = (queue / "scheduler").read_text()
        (queue / "nr_requests").write_text("64")
        words = ("queue-depth", device, "--serial", device.name, "--seconds", "0.1", "--ramp-seconds", "0")
        axes = ("--axis", "queue_depth=2", "--axis", "host.scheduler=none,mq-deadline")
        assert run(*words, *axes, "--run-dir", tmp_path / "run") == 0

        assert (queue / "scheduler").read_text() == before
        assert (queue / "nr_requests").read_text().strip() == "64"
        found = result(tmp_path / "run")
        assert {item.settings for _, item in found.prepared} == {
            (("scheduler", "none"),),
            (("scheduler", "mq-deadline"),),
        }
        assert [loop.part for loop in found.loops if "mq-deadline" in loop.part] == [
            "random read, scheduler mq-deadline",
            "random write, scheduler mq-deadline",
        ]


def test_a_plan_warns_of_reads_of_addresses_that_nothing_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The shipped profile that fills its target has no warning; the same without a fill has one."""
    words = ("profile", "run", "queue-depth", str(tmp_path), "--size", "64M", "--plan")
    assert main(words) == 0
    assert "unwritten addresses" not in capsys.readouterr().out

    own = tmp_path / "own.toml"
    own.write_text(profile_path("queue-depth").read_text().replace("fill = true", "fill = false"))
    assert main((*words[:2], str(own), *words[3:])) == 0
    assert "warning: unwritten addresses: 9 points read addresses that no step before had" in capsys.readouterr().out


def test_a_plan_warns_of_the_page_cache_and_of_limited_rates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The warning comes before the run: the measurement is not, or not only, one of the drive."""
    own = tmp_path / "own.toml"
    text = (
        profile_path("queue-depth")
        .read_text()
        .replace("[[axis]]", "fio = { direct = 0, thinktime = 9 }\n\n[[axis]]", 1)
    )
    own.write_text(text)
    assert main(("profile", "run", str(own), str(tmp_path), "--size", "64M", "--plan")) == 0
    printed = capsys.readouterr().out
    assert "warning: page cache: 9 of 18 points (the first is random write, Q1) used the page cache" in printed
    assert "warning: limited by options: 9 of 18 points (the first is random write, Q1: thinktime=9) had" in printed


def test_a_plan_and_a_result_name_points_whose_blocks_exceed_their_range(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are not measured, and plan and report both list them; points whose blocks fit are measured."""
    words = ("profile", "run", "queue-depth", "sim:enterprise-nvme", "--axis", "queue_depth=1")
    blocks = ("--axis", "block_size=4K,1M,8M", "--range", "1M", "--progress", "none")
    warning = (
        "omitted points: 2 points (the first is random read, 8192 KiB for each of T1 over 1024 KiB) not measured: less "
        "than one block for each thread"
    )
    assert main((*words, "--plan")) == 0
    assert "omitted points" not in capsys.readouterr().out
    assert main((*words, *blocks, "--plan")) == 0
    assert f"warning: {warning}\n" in capsys.readouterr().out

    assert main((*words, *blocks, "--run-dir", str(tmp_path / "run"), "--to", "none")) == 0
    found = assess(RunFolder.existing(tmp_path / "run"))
    assert [f"{entry.what}: {entry.detail}" for entry in run_warnings(found) if entry.what == "omitted points"] == [
        warning
    ]
    assert len(found.loops) == 4


def test_threads_are_an_axis_of_the_file_matrix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan has each way to access the file with one and with four threads, except those that have one thread."""
    words = (
        "file-matrix",
        tmp_path,
        "--axis",
        "range=1M",
        "--axis",
        "block_size=64K,512K",
        "--axis",
        "thread_count=1,4",
    )
    assert run(*words, "--plan") == 0
    plan = capsys.readouterr().out
    threads: dict[str, set[str]] = {}
    for workload, count in re.findall(r"^  ([a-z ]+), (?:64|512) KiB(?:, T(\d))?: Round", plan, re.MULTILINE):
        threads.setdefault(workload, set()).add(count)
    single = {name for name, counts in threads.items() if counts == {""}}
    assert single == {"backward read", "stride read", "record rewrite"}
    assert len(threads) == 10
    assert all(threads[name] == {"1", "4"} for name in threads.keys() - single)
    assert "7 points (the first is write, 512 KiB for each of T4 over 1024 KiB) not measured" in plan


@pytest.mark.long
def test_a_mix_of_block_sizes_is_that_of_fio(tmp_path: Path) -> None:
    """With fio's bssplit the bytes of all I/Os are those of the shares, and the report names them."""
    text = re.sub("ramp_seconds = .*", "", profile_path("queue-depth").read_text())
    text = text.replace('"4 KiB"', '"4 KiB/60:64 KiB/40"')
    (tmp_path / "mix.toml").write_text(text)
    options = ("--axis", "queue_depth=8", "--range", "32M", "--seconds", "1", "--to", "rst")
    arguments = [
        "profile",
        "run",
        str(tmp_path / "mix.toml"),
        str(tmp_path),
        "--run-dir",
        str(tmp_path / "run"),
        *options,
    ]

    assert main([*arguments, "--progress", "none"]) == 0
    for loop in result(tmp_path / "run").loops:
        (point,) = loop.complete[0].measurements
        mean_bytes = (point.read.transferred_bytes + point.write.transferred_bytes) / point.ios
        deviation = math.sqrt(0.6 * 0.4 / point.ios) * (65536 - 4096)
        assert mean_bytes == pytest.approx(0.6 * 4096 + 0.4 * 65536, abs=5 * deviation)
    jobs = [path.read_text() for path in (tmp_path / "run" / "evidence").glob("*-rnd-*.fio")]
    assert len(jobs) == 2
    assert all("bssplit=4096/60:65536/40" in job for job in jobs)
    assert r"4 KiB/60\:64 KiB/40" in (tmp_path / "run" / "report.rst").read_text()
    assert main(["assess", str(tmp_path / "run")]) == 0
