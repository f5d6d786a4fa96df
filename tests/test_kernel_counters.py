"""fio's answer is compared with the bytes that the kernel counted for fio's process, on a file too."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from snia_pts.lab.fio import AnswerRejected
from snia_pts.lab.fio.kernel_counters import has_holes, is_counted_by_process, require_process_bytes
from snia_pts.lab.process import program as process
from tests.drives import MIB, filled, loop_device, mounted
from tests.strategies import transfers
from tests.test_acceptance import ENDED
from tests.test_engine import engine, evidence, measured, sparse, stimulus

__all__ = ["evidence"]

#: Runs the real fio (argument 1) with another job, and changes its answer to that of the requested job: argument 2 has
#: the options of both, argument 3 the direction that the answer reports.
ALTERED_FIO = """
import json, re, subprocess, sys
fio, options, side, *arguments = sys.argv[1:]
if not any(argument.startswith("--output=") for argument in arguments):
    sys.exit(subprocess.run([fio, *arguments], close_fds=False).returncode)
output = next(argument for argument in arguments if argument.startswith("--output=")).removeprefix("--output=")
job = open(arguments[-1]).read()
for requested, actual in json.loads(options):
    job = re.sub(f"(?m)^{requested}$", actual, job)
open(sys.argv[0] + ".job", "w").write(job)
code = subprocess.run([fio, *arguments[:-1], sys.argv[0] + ".job"], close_fds=False).returncode
text = open(output).read()
begin = text.index("{")
document = json.loads(text[begin:])
for echo in (document["global options"], document["jobs"][0]["job options"]):
    for requested, actual in json.loads(options):
        name, value = requested.split("=")
        if name in echo:
            echo[name] = value
if side:
    (answer,) = document["jobs"]
    answer["read"], answer["write"] = answer["write"], answer["read"]
open(output, "w").write(text[:begin] + json.dumps(document))
sys.exit(code)
"""


def alter_fio(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *options: tuple[str, str], exchange_sides: bool = False
) -> None:
    """Let fio run with other ``options``, (requested, actual), and answer as if it had run as requested."""
    script, program, find = folder / "altered_fio.py", folder / "fio", process.find
    script.write_text(ALTERED_FIO)
    side = "exchanged" if exchange_sides else ""
    program.write_text(
        f"#!/bin/sh\nexec {sys.executable} {script} {find('fio')} '{json.dumps(options)}' '{side}' \"$@\"\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(process, "find", lambda name: str(program) if name == "fio" else find(name))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A written file on a file system whose direct I/O the kernel counts for the process."""
    path = filled(tmp_path / "x.img", 16 * MIB)
    if not is_counted_by_process(str(path)):
        pytest.skip("the temporary folder is on a file system that starts direct I/O elsewhere (TMPDIR names another)")
    return path


@pytest.mark.long
def test_a_fio_that_uses_the_page_cache_is_refused(
    target: Path, evidence: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer confirms direct I/O, but the page cache did a part of it."""
    alter_fio(monkeypatch, evidence.parent, ("direct=1", "direct=0"))
    with pytest.raises(AnswerRejected, match="written, but the kernel counted") as refused:
        measured(target, evidence, stimulus(seconds=0.5))

    assert refused.value.blame == "host"


def test_reads_that_are_reported_as_writes_are_refused(
    target: Path, evidence: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel counts reads and writes separately."""
    alter_fio(monkeypatch, evidence.parent, ("rw=randwrite", "rw=randread"), exchange_sides=True)
    with pytest.raises(AnswerRejected, match=r"fio reports .* written, but the kernel counted \S+ (kB|bytes) "):
        measured(target, evidence, stimulus(seconds=1.0, block_size_bytes=MIB))


def test_an_unchanged_answer_of_the_altered_fio_is_accepted(
    target: Path, evidence: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusals above have no other cause; the kernel adds a child's bytes to those of its parent."""
    alter_fio(monkeypatch, evidence.parent)
    (measurement,) = measured(target, evidence, stimulus(seconds=0.5))

    assert measurement.write.ios


def test_reads_of_a_file_with_holes_are_not_compared(target: Path, tmp_path: Path, evidence: Path) -> None:
    """The file system answers reads of a hole without the drive; the writes are still compared."""
    fresh = sparse(tmp_path / "sparse.img")
    assert has_holes(str(fresh))
    assert not has_holes(str(target))
    assert measured(fresh, evidence, stimulus(read_percent=100, block_size_bytes=MIB))
    os.posix_fallocate(descriptor := os.open(fresh, os.O_RDWR), 0, 16 * MIB)
    assert has_holes(str(fresh), descriptor)  # allocated, but not written
    os.close(descriptor)
    assert measured(fresh, evidence, stimulus(read_percent=50, block_size_bytes=MIB))


@pytest.mark.long
def test_reads_through_the_page_cache_are_refused(
    target: Path, evidence: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file without holes has all its data on the drive."""
    alter_fio(monkeypatch, evidence.parent, ("direct=1", "direct=0"))
    with pytest.raises(AnswerRejected, match=" read, but the kernel counted"):
        measured(target, evidence, stimulus(read_percent=100, seconds=0.5))


@pytest.mark.parametrize("io_engine", ["libaio", "io_uring", "psync", "pvsync2", "posixaio"])
def test_the_kernel_counts_at_least_what_fio_reports(target: Path, evidence: Path, io_engine: str) -> None:
    """Direct I/O is counted to the byte, whatever engine starts it."""
    depth = 1 if io_engine.startswith("p") else 8
    request = stimulus(read_percent=50, seconds=0.3, queue_depth=depth, options=(("ioengine", io_engine),))
    (measurement,) = measured(target, evidence, request)
    record = json.loads((evidence / f"{measurement.evidence}.process.json").read_text())

    assert record["read_bytes"] >= measurement.read.transferred_bytes > 0
    assert record["written_bytes"] >= measurement.write.transferred_bytes > 0


@pytest.mark.root
def test_the_kernel_counts_io_to_a_device(tmp_path: Path, evidence: Path) -> None:
    """On a block device the process is charged too, whatever layers are beneath it."""
    with loop_device(tmp_path / "x.img", 16 * MIB) as device:
        assert is_counted_by_process(str(device))
        (measurement,) = measured(device, evidence, stimulus(read_percent=50, seconds=0.3))
    record = json.loads((evidence / f"{measurement.evidence}.process.json").read_text())

    assert record["read_bytes"] >= measurement.read.transferred_bytes > 0
    assert record["written_bytes"] >= measurement.write.transferred_bytes > 0


@pytest.mark.long_but_first
@pytest.mark.root
@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_true_answers_are_accepted_on_each_file_system(tmp_path: Path, evidence: Path, kind: str) -> None:
    """btrfs starts I/O in its own threads, so it is not compared there."""
    if shutil.which(f"mkfs.{kind}") is None:
        pytest.skip(f"mkfs.{kind} is not installed")
    with loop_device(tmp_path / "disk.img", 320 * MIB) as device:
        process.run([f"mkfs.{kind}", "-q", str(device)], evidence=tmp_path / "mkfs", timeout_seconds=60)
        with mounted(device, tmp_path / "mount") as mount:
            path = filled(mount / "x.img", 16 * MIB)
            assert is_counted_by_process(str(path)) == (kind != "btrfs")
            assert len(measured(path, evidence, stimulus(read_percent=50), stimulus(block_size_bytes=MIB))) == 2


@pytest.mark.parametrize(
    ("reported", "counted", "accepted"),
    [
        (10**9, 10**9, True),
        (10**9, 2 * 10**9, True),  # a ramp
        (10**9, 980_000_000, True),
        (10**9, 979_999_999, False),
        (10**7, 1_999_999, False),
        (10**9, None, True),  # unknown
    ],
)
def test_the_process_may_have_counted_a_little_less(reported: int, counted: int | None, *, accepted: bool) -> None:
    """2 % or 8 MB may be missing; with the page cache, I/O comes at another time."""
    nothing, side = transfers(ios=0, transferred_bytes=0), transfers(ios=1, transferred_bytes=reported)
    finished = replace(ENDED, read_bytes=counted, written_bytes=counted)
    for request, valid in ((stimulus(), accepted), (stimulus(options=(("direct", "0"),)), True)):
        for sides in ((side, nothing), (nothing, side)):
            with nullcontext() if valid else pytest.raises(AnswerRejected, match=r"for its process on x\.img"):
                require_process_bytes(request, *sides, finished, "x.img")


@pytest.mark.parametrize(
    ("line", "release", "counted"),
    [
        ("ext4 /dev/sda1 rw,errors=remount-ro", "6.1.0-28-amd64", True),
        ("xfs /dev/sda1 rw", "5.14.0-427.el9.x86_64", True),
        ("ext4 /dev/sda1 rw,data=journal", "6.1.0", False),
        ("ext4 /dev/pmem0 rw,dax=always", "6.1.0", False),
        ("btrfs /dev/sda1 rw", "6.1.0", False),
        ("tmpfs tmpfs rw", "6.1.0", False),
        ("ext4 /dev/sda1 rw", "5.10.0-32-amd64", False),  # kernel threads start I/O of io_uring
        ("ext4 /dev/sda1 rw", "unknown", False),
    ],
)
def test_where_the_kernel_counts_for_the_process(tmp_path: Path, line: str, release: str, *, counted: bool) -> None:
    """It depends on the file system, its options and the kernel."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(f"1 0 8:1 / / rw - {line}\n")
    (tmp_path / "x.img").touch()

    assert is_counted_by_process(str(tmp_path / "x.img"), release, tmp_path) is counted


def test_a_target_that_does_not_exist_is_not_counted(tmp_path: Path) -> None:
    """Then fio itself reports the error."""
    assert not is_counted_by_process(str(tmp_path / "missing"))


def test_engine_without_counters_accepts(tmp_path: Path, evidence: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without /proc/PID/io (kernels without CONFIG_TASK_IO_ACCOUNTING) nothing is compared."""
    monkeypatch.setattr(process, "_storage_bytes", lambda _: (None, None))
    (measurement,) = engine(filled(tmp_path / "x.img", 16 * MIB), evidence).measure([stimulus()])

    assert measurement.write.ios
