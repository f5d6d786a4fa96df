"""What the suite relies on in fio, checked with the installed fio."""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import signal
import subprocess
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import pytest

from snia_pts.lab.fio.sampling import upper_edge_ns
from tests.drives import MIB, content, data_map, filled, loop_device, mounted

BLOCK = 4096
OPTIONS = (
    "--direct=1",
    "--ioengine=libaio",
    "--thread",
    "--group_reporting",
    "--norandommap",
    "--allow_file_create=0",
    "--clat_percentiles=0",
    "--lat_percentiles=1",
    "--clocksource=clock_gettime",
)


def fio(folder: Path, *options: str, common: tuple[str, ...] = OPTIONS) -> subprocess.CompletedProcess[str]:
    """Run fio with one job; its answer goes to ``out.json``."""
    command = ["fio", "--name=x", "--output-format=json+", f"--output={folder / 'out.json'}", *common, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=60)


def job(folder: Path) -> dict[str, Any]:
    """Return fio's answer for its one group."""
    text = (folder / "out.json").read_text()
    document = json.loads(text[text.index("{") :])
    assert len(document["jobs"]) == 1
    found = document["jobs"][0]
    assert isinstance(found, dict)
    return found


def sparse(path: Path, size_bytes: int = 64 * MIB) -> Path:
    """Make a new sparse file, whose allocated blocks then tell what was written."""
    with path.open("xb") as file:
        file.truncate(size_bytes)
    return path


def written(folder: Path, name: str, *options: str) -> tuple[tuple[int, int], ...]:
    """Return where 40 random writes of a block go in a new sparse file."""
    target = sparse(folder / name)
    done = fio(folder, f"--filename={target}", "--rw=randwrite", "--bs=4k", "--number_ios=40", *options)
    assert done.returncode == 0, done.stderr
    return data_map(target)


def test_a_missing_path_is_made_by_default_and_refused_when_told(tmp_path: Path) -> None:
    """fio creates a mistyped path, folders and all; allow_file_create=0 makes no file (but the folders still)."""
    by_default = fio(tmp_path, f"--filename={tmp_path / 'new/x'}", "--size=64k", "--rw=read", common=())
    refused = fio(tmp_path, f"--filename={tmp_path / 'no/x'}", "--size=64k", "--rw=write")
    refused_too = fio(tmp_path, f"--filename={tmp_path / 'y'}", "--size=64k", "--rw=write")

    assert (by_default.returncode, (tmp_path / "new/x").exists()) == (0, True)
    assert (refused.returncode, (tmp_path / "no/x").exists()) == (1, False)
    assert (refused_too.returncode, (tmp_path / "y").exists()) == (1, False)


def test_reads_and_writes_add_up(tmp_path: Path) -> None:
    """In a mixed job each side tells its own IOPS over the same runtime, and the sum is what was done."""
    target = filled(tmp_path / "x", 4 * MIB)
    fio(tmp_path, f"--filename={target}", "--rw=randrw", "--rwmixread=65", "--bs=4k", "--time_based", "--runtime=200ms")
    found = job(tmp_path)
    read, write = found["read"], found["write"]

    assert 0.5 < read["total_ios"] / (read["total_ios"] + write["total_ios"]) < 0.8
    for item in (read, write):
        assert item["io_bytes"] == item["total_ios"] * BLOCK
        assert item["iops"] == pytest.approx(1000 * item["total_ios"] / item["runtime"], rel=0.01)
        assert 200 <= item["runtime"] < 300


def test_the_bins_of_lat_ns_are_all_ios_and_give_fios_percentiles(tmp_path: Path) -> None:
    """json+ bins of submission plus completion count every I/O, ascend, and hold the percentiles that fio tells."""
    target = filled(tmp_path / "x", 4 * MIB)
    fio(tmp_path, f"--filename={target}", "--rw=randread", "--bs=4k", "--time_based", "--runtime=200ms", "--iodepth=4")
    read = job(tmp_path)["read"]
    bins = [(int(edge), count) for edge, count in read["lat_ns"]["bins"].items()]

    assert sum(count for _, count in bins) == read["total_ios"] > 100
    assert bins == sorted(bins)
    assert read["lat_ns"]["mean"] >= read["clat_ns"]["mean"] > 0
    assert "bins" not in read["clat_ns"]
    for percent, reported in read["lat_ns"]["percentile"].items():
        assert percentile(bins, float(percent)) == reported


def percentile(bins: list[tuple[int, int]], percent: float) -> int:
    """Return the first bin up to which ``percent`` of the I/Os lie."""
    wanted, seen = math.ceil(sum(count for _, count in bins) * percent / 100), 0
    for edge, count in bins:
        seen += count
        if seen >= wanted:
            return edge
    raise AssertionError("the bins hold too few I/Os")


@pytest.mark.long
def test_sigterm_leaves_text_before_a_whole_answer(tmp_path: Path) -> None:
    """A fio that is stopped writes a line before its JSON, which looks like success but for the exit code."""
    target = filled(tmp_path / "x")
    output = tmp_path / "out.json"
    command = ["fio", "--name=x", "--output-format=json+", f"--output={output}", *OPTIONS]
    options = [f"--filename={target}", "--rw=randread", "--bs=4k", "--time_based", "--runtime=30"]
    with subprocess.Popen([*command, *options], stderr=subprocess.DEVNULL) as running:
        time.sleep(2)
        running.send_signal(signal.SIGTERM)
        code = running.wait(timeout=20)
    text = output.read_text()
    answer = json.loads(text[text.index("{") :])["jobs"][0]

    assert code == 128
    assert "terminating on signal 15" in text[: text.index("{")]
    assert (answer["error"], answer["read"]["total_ios"] > 0) == (0, True)


def test_sigkill_of_a_threaded_fio_leaves_nothing_running(tmp_path: Path) -> None:
    """With thread a killed fio does no more I/O."""
    target = filled(tmp_path / "x")
    options = [f"--filename={target}", "--rw=randwrite", "--bs=4k", "--time_based", "--runtime=30", "--numjobs=2"]
    with subprocess.Popen(["fio", "--name=x", *OPTIONS, *options], stdout=subprocess.DEVNULL) as running:
        until = time.monotonic() + 20
        while len(list(Path(f"/proc/{running.pid}/task").iterdir())) < 3:
            assert time.monotonic() < until
            time.sleep(0.05)
        time.sleep(0.3)
        running.kill()
        running.wait(timeout=20)
    before = content(target)
    time.sleep(0.2)

    assert content(target) == before


def test_by_default_every_start_repeats_the_same_lbas(tmp_path: Path) -> None:
    """Without a seed of its own each round writes where the last one did: why the suite gives one."""
    assert written(tmp_path, "a") == written(tmp_path, "b")


@pytest.mark.long
def test_a_seed_is_a_place(tmp_path: Path) -> None:
    """The same seed gives the same LBAs; another one others, whether it differs in its first bits or its last."""
    seed = random.Random(1).getrandbits(61) | 1 << 61
    ours = ("--randrepeat=0", "--random_generator=tausworthe64")
    first, again, *others = (
        set(written(tmp_path, f"{number}", *ours, f"--randseed={item}"))
        for number, item in enumerate((seed, seed, seed ^ 1, seed ^ 1 << 40, seed ^ 1 << 60))
    )

    assert first == again
    assert len(first) > 30
    assert all(len(first & other) <= 5 for other in others)


def test_threads_of_one_large_seed_do_not_repeat_each_other(tmp_path: Path) -> None:
    """Four threads with one large seed touch four times the LBAs of one thread."""
    ours = ("--randrepeat=0", "--random_generator=tausworthe64", f"--randseed={(1 << 61) + 12345}")
    counts = []
    for number in (1, 4):
        places = written(tmp_path, f"{number}", *ours, f"--numjobs={number}")
        counts.append(sum(end - start for start, end in places) // BLOCK)

    assert counts[0] >= 39
    assert counts[1] >= 4 * 39 - 4


def test_a_last_partial_block_is_left_out(tmp_path: Path) -> None:
    """fio does not touch a tail that is shorter than the block size: why the suite gives it a section of its own."""
    target = sparse(tmp_path / "x", 3 * 65536 + 512 * 20)
    done = fio(tmp_path, f"--filename={target}", "--rw=write", "--bs=64k")

    assert done.returncode == 0
    assert job(tmp_path)["write"]["io_bytes"] == 3 * 65536
    assert data_map(target) == ((0, 3 * 65536),)


def test_each_start_of_a_sequential_job_begins_at_its_offset(tmp_path: Path) -> None:
    """Two starts write the same LBAs: one that continues another must give its offset."""
    target = sparse(tmp_path / "x")
    for _ in range(2):
        fio(tmp_path, f"--filename={target}", "--rw=write", "--bs=64k", "--offset=1m", "--number_ios=4")

    assert data_map(target) == ((MIB, MIB + 4 * 65536),)


def test_several_jobs_share_their_lbas(tmp_path: Path) -> None:
    """numjobs alone lets every thread write the same range: why sequential threads get sections of their own."""
    target = sparse(tmp_path / "x")
    fio(tmp_path, f"--filename={target}", "--rw=write", "--bs=64k", "--number_ios=4", "--numjobs=3")

    assert job(tmp_path)["write"]["total_ios"] == 12
    assert data_map(target) == ((0, 4 * 65536),)


def test_loops_go_over_the_range_again(tmp_path: Path) -> None:
    """loops=2 transfers the range twice."""
    target = sparse(tmp_path / "x", MIB)
    fio(tmp_path, f"--filename={target}", "--rw=write", "--bs=64k", "--loops=2")

    assert job(tmp_path)["write"]["io_bytes"] == 2 * MIB


@pytest.mark.parametrize("pattern", ["write", "randwrite"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_amount_beyond_the_section_goes_over_it_again(tmp_path: Path, pattern: str, jobs: int) -> None:
    """io_size is what each thread transfers, before its time is over, within its section however large it is."""
    target = sparse(tmp_path / "x", 8 * MIB)
    options = ["--bs=64k", "--offset=1m", "--size=2m", "--io_size=5m", "--runtime=20s", f"--numjobs={jobs}"]
    done = fio(tmp_path, f"--filename={target}", f"--rw={pattern}", *options)
    write, places = job(tmp_path)["write"], data_map(target)

    assert (done.returncode, write["io_bytes"]) == (0, jobs * 5 * MIB)
    assert write["runtime"] < 19_000
    assert (places[0][0] >= MIB, places[-1][1] <= 3 * MIB) == (True, True)


def test_an_amount_counts_reads_and_writes_together(tmp_path: Path) -> None:
    """In a mixed job io_size is the sum of both sides."""
    target = filled(tmp_path / "x", 4 * MIB)
    fio(tmp_path, f"--filename={target}", "--rw=randrw", "--rwmixread=40", "--bs=64k", "--io_size=12m", "--runtime=20s")

    assert sum(job(tmp_path)[side]["io_bytes"] for side in ("read", "write")) == 12 * MIB


def test_runtime_alone_bounds_an_amount(tmp_path: Path) -> None:
    """A thread that does not reach its amount is ended by the time."""
    target = sparse(tmp_path / "x", 8 * MIB)
    fio(tmp_path, f"--filename={target}", "--rw=randwrite", "--bs=4k", "--io_size=1t", "--runtime=300ms")

    assert 300 <= job(tmp_path)["write"]["runtime"] < 400


SIZES = {512: 4, 1024: 1, 1536: 1, 4096: 81, 8192: 10, 65536: 3}
#: Not a multiple of a page, and of no size but the smallest.
ODD_BYTES = 2 * MIB + 512


def ios_of_a_mix(folder: Path, *options: str) -> list[tuple[int, int]]:
    """Return offset and size of each I/O of a mix of sizes."""
    target, log = filled(folder / "x", 4 * MIB), folder / "log"
    shares = ":".join(f"{size}/{percent}" for size, percent in SIZES.items())
    fio(
        folder,
        f"--filename={target}",
        "--rw=randread",
        f"--bssplit={shares}",
        f"--write_iolog={log}",
        "--offset=0",
        f"--size={ODD_BYTES}",
        "--io_size=60m",
        "--randrepeat=0",
        f"--randseed={(1 << 61) + 7}",
        *options,
    )
    assert job(folder)["error"] == 0
    words = (line.split() for line in log.read_text().splitlines())
    return [(int(word[3]), int(word[4])) for word in words if word[2:3] == ["read"]]


@pytest.mark.long
def test_a_mix_of_sizes_is_kept_to(tmp_path: Path) -> None:
    """Each size has its share of the I/Os, no I/O reaches over the end, and all are aligned to the smallest size."""
    found = ios_of_a_mix(tmp_path)
    counts = Counter(size for _, size in found)

    assert len(found) > 5000
    assert set(counts) == set(SIZES)
    assert all(abs(100 * counts[size] / len(found) - percent) < 2 for size, percent in SIZES.items())
    assert max(offset + size for offset, size in found) <= ODD_BYTES
    assert sum(offset % BLOCK != 0 for offset, _ in found) > 0.8 * len(found)


def test_a_named_target_is_one_file(tmp_path: Path) -> None:
    """With ``filename``, as in documents, nrfiles and file_service_type change nothing: fio uses the one file."""
    options = (
        "--nrfiles=8",
        "--file_service_type=random",
        "--rw=write",
        "--size=1m",
        f"--write_iolog={tmp_path / 'log'}",
    )
    assert fio(tmp_path, f"--filename={tmp_path / 'x'}", *options, common=("--ioengine=psync",)).returncode == 0

    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "out.json", "x"]
    assert (tmp_path / "x").stat().st_size == MIB
    assert (tmp_path / "log").read_text().count(" open") == 1


@pytest.mark.parametrize(
    ("options", "ios", "order"),
    [
        (("--rw=write",), {4}, [0, 1, 2, 3, 0, 1, 2, 3]),
        (("--rw=write", "--file_service_type=roundrobin:2", "--openfiles=2"), {4}, [0, 0, 1, 1, 0, 0, 1, 1]),
        (("--rw=write", "--file_service_type=sequential"), {4}, [0, 0, 0, 0, 1, 1, 1, 1]),
        (("--rw=write", "--loops=3"), {12}, [0, 1, 2, 3, 0, 1, 2, 3]),
        (("--rw=randread", "--file_service_type=sequential"), {0, 16}, [0, 0, 0, 0, 0, 0, 0, 0]),
    ],
)
def test_a_list_of_descriptors_is_a_set_of_files(
    options: tuple[str, ...], ios: set[int], order: list[int], tmp_path: Path
) -> None:
    """Each file has its part of the size; the order is that of file_service_type; random I/O stays in the first file.

    fio's total is that of all files.
    """
    log, block = tmp_path / "log", 64 * 1024
    with ExitStack() as stack:
        files = [stack.enter_context(TemporaryFile(dir=tmp_path, buffering=0)).fileno() for _ in range(4)]
        for file in files:
            os.pwrite(file, bytes(8 * block), 0)
        names = [f"/proc/self/fd/{file}" for file in files]
        command = ["fio", "--name=x", "--output-format=json+", "--output=out.json", *OPTIONS, "--bs=64k", "--iodepth=1"]
        target = (f"--filename={':'.join(names)}", "--size=1m", f"--write_iolog={log}")
        subprocess.run([*command, *target, *options], pass_fds=files, check=True, cwd=tmp_path, timeout=60)

    words = [line.split() for line in log.read_text().splitlines()]
    found = [(names.index(word[1]), int(word[3]), int(word[4])) for word in words if word[2:3] in (["read"], ["write"])]
    counts = Counter(file for file, _, _ in found)
    side = job(tmp_path)["read" if "--rw=randread" in options else "write"]
    assert {counts[file] for file in range(4)} == ios
    assert [file for file, _, _ in found[:8]] == order
    assert max(offset + size for _, offset, size in found) <= 4 * block
    assert (side["total_ios"], side["io_bytes"]) == (len(found), len(found) * block)


@pytest.mark.parametrize("sizes", ["bsrange=512-2048", "bssplit=512/25:1024/25:1536/25:2048/25"])
def test_a_range_of_sizes_is_a_mix_of_equal_shares(sizes: str, tmp_path: Path) -> None:
    """It has the multiples of its smallest size; with the random map fio shortens blocks, and small ones are more."""
    shares: dict[str, list[float]] = {}
    target = filled(tmp_path / "x", 8 * MIB)
    for randommap in ("norandommap=1", "norandommap=0"):
        log = tmp_path / randommap
        options = ("--rw=randread", f"--{sizes}", f"--write_iolog={log}", f"--{randommap}")
        assert fio(tmp_path, f"--filename={target}", *options, common=("--ioengine=psync",)).returncode == 0
        words = (line.split() for line in log.read_text().splitlines())
        counts = Counter(int(word[4]) for word in words if word[2:3] == ["read"])
        shares[randommap] = [100 * counts[size] / counts.total() for size in (512, 1024, 1536, 2048)]
        assert sum(shares[randommap]) == pytest.approx(100)

    assert shares["norandommap=1"] == pytest.approx([25, 25, 25, 25], abs=2)
    assert shares["norandommap=0"] == pytest.approx([41, 27, 19, 13], abs=2)


@pytest.mark.long
def test_a_mix_of_sizes_can_be_aligned_to_pages(tmp_path: Path) -> None:
    """With blockalign every I/O of a mix, of the small sizes too, begins on a page, all over the range."""
    found = ios_of_a_mix(tmp_path, f"--blockalign={BLOCK}")

    assert {offset % BLOCK for offset, _ in found} == {0}
    assert {size for _, size in found} == set(SIZES)
    assert max(offset + size for offset, size in found) <= ODD_BYTES
    assert len({offset for offset, _ in found}) > 0.99 * (ODD_BYTES // BLOCK)


@pytest.mark.long
def test_a_skew_shares_out_the_accesses(tmp_path: Path) -> None:
    """Of the accesses 50 % go to the first 5 % of the range, 30 % to the next 15 %, 20 % to the rest."""
    found = ios_of_a_mix(tmp_path, f"--blockalign={BLOCK}", "--random_distribution=zoned:50/5:30/15:20/80")
    zones = Counter(0 if offset < 0.05 * ODD_BYTES else 1 if offset < 0.2 * ODD_BYTES else 2 for offset, _ in found)

    assert [100 * zones[zone] / len(found) for zone in range(3)] == pytest.approx([50, 30, 20], abs=3)


def test_two_jobs_of_a_skew_are_elsewhere_each(tmp_path: Path) -> None:
    """A skewed start with another seed goes to other LBAs."""
    ours = ("--randrepeat=0", "--random_generator=tausworthe64", "--random_distribution=zoned:50/5:50/95")
    one, other = (set(written(tmp_path, f"{seed}", *ours, f"--randseed={(1 << 61) + seed}")) for seed in (1, 2))

    assert len(one & other) < 0.5 * len(one)


def status(folder: Path, *options: str, interval: str) -> list[dict[str, Any]]:
    """Run fio for a while and return its running totals in order, the final answer last."""
    target = folder / "x"
    if not target.exists():
        filled(target, 4 * MIB)
    command = ["fio", "--name=x", "--output-format=json+", f"--status-interval={interval}", *OPTIONS]
    where = [f"--filename={target}", "--bs=4k", "--iodepth=8", "--time_based", *options]
    done = subprocess.run([*command, *where], capture_output=True, text=True, check=True, timeout=60)
    return [json.loads(document + "}") for document in done.stdout.split("\n}\n")[:-1]]


@pytest.mark.long
def test_running_totals_come_at_each_signal(tmp_path: Path) -> None:
    """SIGUSR1 makes fio print a document at once, of the time so far; the final answer is one more."""
    command = ["fio", "--name=x", "--output-format=json+", *OPTIONS]
    # At full speed in memory, two threads leave no CPU for the answer on a host with two of them.
    options = ["--rw=randrw", "--numjobs=2", "--bs=4k", "--time_based", "--runtime=4s", "--rate_iops=2000"]
    target = f"--filename={filled(tmp_path / 'x')}"
    start = time.monotonic()
    runtimes, elapsed_ms = list[int](), list[float]()
    with subprocess.Popen([*command, target, *options], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        time.sleep(0.7)
        for _ in range(4):
            running.send_signal(signal.SIGUSR1)
            runtimes.append(write_runtime_ms(running.stdout))
            elapsed_ms.append(1000 * (time.monotonic() - start))
            time.sleep(0.2)
        last = write_runtime_ms(running.stdout)

    assert runtimes[0] > 0
    assert all(after - before >= 150 for before, after in itertools.pairwise(runtimes))
    assert all(runtime <= elapsed for runtime, elapsed in zip(runtimes, elapsed_ms, strict=True))
    assert 4000 <= last < 6000


def write_runtime_ms(output: IO[str]) -> int:
    """Read the next document of a running fio; return the runtime of its first job's writes."""
    lines = list(itertools.takewhile(lambda line: line != "}\n", output))
    runtime: int = json.loads("".join((*lines, "}")))["jobs"][0]["write"]["runtime"]
    return runtime


@pytest.mark.long
def test_running_totals_of_a_thread_that_just_ended_are_too_long(tmp_path: Path) -> None:
    """Asked while a thread's exec_postrun runs, fio counts its time until then; the final answer may keep that."""
    command = ["fio", "--name=x", "--output-format=json+", "--exec_postrun=sleep 1 #", *OPTIONS]
    options = [f"--filename={filled(tmp_path / 'x')}", "--rw=write", "--bs=4k", "--time_based", "--runtime=300ms"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as running:
        time.sleep(1.1)
        running.send_signal(signal.SIGUSR1)
        output = running.communicate(timeout=20)[0]
    asked, _ = (json.loads(text[text.index("{\n") :] + "}") for text in output.split("\n}\n")[:-1])

    assert asked["jobs"][0]["write"]["runtime"] > 400  # 300 ms, and some of exec_postrun


def test_ungrouped_jobs_are_the_group_to_the_last_io(tmp_path: Path) -> None:
    """Without group_reporting each job answers by itself, in the order of the job file, with options of its own."""
    target = filled(tmp_path / "x", 4 * MIB)
    text = [f"[global]\nfilename={target}\nbs=4k\nrw=write\nthread\ntime_based\nruntime=300ms\ngroup_reporting=0\n"]
    text += [f"[w{number}]\noffset={number}m\nsize=1m\nrate_iops={100 + 100 * number}\n" for number in range(3)]
    (tmp_path / "job.fio").write_text("".join(text), encoding="utf-8")
    command = ["fio", "--output-format=json+", str(tmp_path / "job.fio")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    jobs = json.loads(done.stdout)["jobs"]

    assert [item["jobname"] for item in jobs] == ["w0", "w1", "w2"]
    assert [entry["job options"]["offset"] for entry in jobs] == ["0m", "1m", "2m"]
    counts = [each["write"]["total_ios"] for each in jobs]
    assert counts == [each["write"]["lat_ns"]["N"] for each in jobs]
    assert counts == sorted(counts)
    assert counts[2] > 1.5 * counts[0]


@pytest.mark.long
def test_running_totals_only_grow(tmp_path: Path) -> None:
    """No counter of one moment is above that of a later one, though those of one moment differ by a few I/Os."""
    found = status(tmp_path, "--rw=randrw", "--numjobs=2", "--runtime=1", interval="100ms")
    for before, after in itertools.pairwise(entry["jobs"][0] for entry in found):
        for side in ("read", "write"):
            earlier, later = before[side], after[side]
            for counter in ("total_ios", "io_bytes", "runtime"):
                assert earlier[counter] <= later[counter]
            assert earlier["lat_ns"]["N"] <= later["lat_ns"]["N"]
            assert earlier["lat_ns"]["max"] <= later["lat_ns"]["max"]
            bins = later["lat_ns"].get("bins", {})
            assert all(count <= bins.get(edge, 0) for edge, count in earlier["lat_ns"].get("bins", {}).items())
    final = found[-1]["jobs"][0]["write"]

    assert final["total_ios"] == final["lat_ns"]["N"] == sum(final["lat_ns"]["bins"].values())
    assert final["io_bytes"] == final["total_ios"] * BLOCK


def test_bins_are_told_by_their_middle(tmp_path: Path) -> None:
    """From 128 ns on there are 64 bins from each power of two to the next, each named by its middle."""
    fio(tmp_path, f"--filename={filled(tmp_path / 'x')}", "--rw=randread", "--bs=4k", "--time_based", "--runtime=300ms")
    response = job(tmp_path)["read"]["lat_ns"]
    bins = [int(middle) for middle in response["bins"]]

    assert bins[0] >= 128
    for middle in bins:
        width = 1 << (middle.bit_length() - 7)
        assert middle % width == width // 2
    assert 2 * bins[0] - upper_edge_ns(bins[0]) - 1 <= response["min"] <= upper_edge_ns(bins[0])
    assert 2 * bins[-1] - upper_edge_ns(bins[-1]) - 1 <= response["max"] <= upper_edge_ns(bins[-1])


@pytest.mark.root
def test_a_full_disk_is_error_28_with_a_short_runtime(tmp_path: Path) -> None:
    """A write beyond a limit of the host ends fio with its error number in the answer."""
    with (
        mounted("none", tmp_path / "full", "-t", "tmpfs", "-o", "size=1M") as full,
        loop_device(full / "x.img", 8 * MIB) as device,
    ):
        done = fio(tmp_path, f"--filename={device}", "--rw=write", "--bs=64k", "--time_based", "--runtime=2")

    assert done.returncode == 1
    assert job(tmp_path)["error"] in (5, 28)
    assert job(tmp_path)["write"]["runtime"] < 1900


def test_the_data_is_random_and_no_sector_repeats(tmp_path: Path) -> None:
    """Without refilling, no two sectors of what is written are alike."""
    target = sparse(tmp_path / "x", 4 * MIB)
    fio(tmp_path, f"--filename={target}", "--rw=write", "--bs=128k", "--iodepth=8")
    data = target.read_bytes()
    sectors = {data[place : place + 512] for place in range(0, len(data), 512)}

    assert len(sectors) == len(data) // 512
    assert bytes(512) not in sectors


@pytest.mark.root
def test_a_device_that_takes_no_such_block_is_error_22(tmp_path: Path) -> None:
    """512 bytes on a 4Kn device fail with EINVAL: the request was wrong, not the device."""
    with loop_device(tmp_path / "x.img", 8 * MIB, sector_bytes=4096) as device:
        done = fio(tmp_path, f"--filename={device}", "--rw=randread", "--bs=512", "--number_ios=4")

    assert (done.returncode, job(tmp_path)["error"]) == (1, 22)


# -- what workload profiles ask for --------------------------------------------------------------------------------


def order(folder: Path, *options: str, size_bytes: int = 256 * BLOCK) -> list[int]:
    """Return the blocks that one job goes to in a file, in order, by fio's own log of its I/Os."""
    target = filled(folder / "ordered", size_bytes)
    log = folder / "iolog"
    log.unlink(missing_ok=True)  # fio adds to it
    common = tuple(option for option in OPTIONS if not option.startswith("--thread"))
    done = fio(folder, f"--filename={target}", "--bs=4k", f"--write_iolog={log}", *options, common=common)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in log.read_text().splitlines()]
    return [int(line[-2]) // BLOCK for line in lines if line[-3] in ("read", "write")]


def test_a_stream_backwards_begins_at_the_first_block(tmp_path: Path) -> None:
    """At a file's beginning fio reads block 0, then from the last but one down; elsewhere it comes to the first last.

    As many I/Os as there are blocks; the last block is left out, and the first one done is done twice.
    """
    whole = order(tmp_path, "--rw=read:-8k", "--size=64k", "--loops=1")
    part = order(tmp_path, "--rw=read:-8k", "--offset=128k", "--size=64k", "--loops=1")

    assert whole == [0, *range(14, -1, -1)]
    assert part == [*range(46, 31, -1), 46]


def test_strides_leave_out_what_is_between(tmp_path: Path) -> None:
    """Sixteen blocks left out after each: every seventeenth is read, once, with just so many bytes asked for."""
    assert order(tmp_path, "--rw=read:64k", "--size=1m", "--io_size=64k") == list(range(0, 256, 17))
    assert order(tmp_path, "--rw=read:64k", "--offset=128k", "--size=256k", "--io_size=16k") == [32, 49, 66, 83]


def test_going_back_by_a_block_writes_one_record_again_and_again(tmp_path: Path) -> None:
    """And that without opening the file for each, as many passes over one block would."""
    assert order(tmp_path, "--rw=write:-4k", "--size=80k", "--loops=1") == [0] * 20
    assert (tmp_path / "iolog").read_text().count(" open") == 1
    order(tmp_path, "--rw=write", "--size=4k", "--loops=20")
    assert (tmp_path / "iolog").read_text().count(" open") == 20


def test_a_random_map_goes_to_each_block_once(tmp_path: Path) -> None:
    """Without norandommap a pass of random I/O leaves out no block, and does none twice."""
    found = order(tmp_path, "--rw=randread", "--size=1m", "--norandommap=0")
    assert (found != sorted(found), sorted(found)) == (True, list(range(256)))


def test_synchronizing_calls_have_times_of_their_own(tmp_path: Path) -> None:
    """fdatasync after each write but the last; its times are in bins, and not in those of the writes."""
    target = filled(tmp_path / "x", 100 * 2300)
    options = ("--direct=0", "--ioengine=sync", "--rw=write", "--bs=2300", "--fdatasync=1")
    assert fio(tmp_path, f"--filename={target}", *options).returncode == 0
    found = job(tmp_path)

    assert found["write"]["total_ios"] == 100
    assert found["sync"]["lat_ns"]["N"] == sum(found["sync"]["lat_ns"]["bins"].values()) == 99
    assert found["write"]["runtime"] >= 99 * found["sync"]["lat_ns"]["mean"] / 1e6 * 0.9
    assert sum(found["write"]["lat_ns"]["bins"].values()) == 100


def test_what_a_ramp_does_is_not_counted(tmp_path: Path) -> None:
    """Neither its time nor its I/Os, but for those that it leaves outstanding: bytes and response times hold them."""
    target = filled(tmp_path / "x", 4 * MIB)
    options = ("--rw=randread", "--bs=4k", "--rate_iops=2000", "--iodepth=8", "--time_based", "--runtime=300ms")
    assert fio(tmp_path, f"--filename={target}", *options, "--ramp_time=300ms").returncode == 0
    found = job(tmp_path)["read"]

    assert 295 <= found["runtime"] <= 500
    assert found["total_ios"] < 1.25 * 0.3 * 2000
    ended = found["lat_ns"]["N"]
    assert ended == sum(found["lat_ns"]["bins"].values())
    assert 0 <= ended - found["total_ios"] <= 8
    assert 0 <= found["io_bytes"] // BLOCK - ended <= 1


def test_options_told_last_are_heard(tmp_path: Path) -> None:
    """A repeated option replaces the earlier one; buffered is the opposite of direct."""
    target = filled(tmp_path / "x", MIB)
    text = "[global]\ndirect=1\nioengine=libaio\nioengine=psync\nbuffered=1\n[x]\nrw=read\nbs=2300\nsize=1m\n"
    (tmp_path / "x.fio").write_text(f"{text}filename={target}\nthread\n")
    done = subprocess.run(["fio", "x.fio"], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60)

    assert (done.returncode, "ioengine=psync" in done.stdout) == (0, True)  # 2300 bytes cannot go past the page cache


def test_options_are_looked_at_without_io(tmp_path: Path) -> None:
    """--parse-only tells of a wrong value by its exit code, and leaves the target alone."""
    target = sparse(tmp_path / "x")
    for option, code in (("rate=1m", 0), ("rate=abc", 1), ("nice=99", 1), ("nope=1", 1)):
        (tmp_path / "x.fio").write_text(f"[x]\nfilename={target}\nrw=write\nsize=1m\n{option}\n")
        done = subprocess.run(
            ["fio", "--parse-only", "x.fio"], capture_output=True, check=False, cwd=tmp_path, timeout=60
        )
        assert done.returncode == code, option
    assert data_map(target) == ()


@pytest.mark.long
def test_a_flush_at_the_end_is_in_the_time(tmp_path: Path) -> None:
    """The time of the writes holds the flush of end_fsync, and that of fsync_on_close too."""
    target = filled(tmp_path / "x", 64 * MIB)
    began = time.monotonic()
    with target.open("rb") as file:
        os.fsync(file.fileno())
    if time.monotonic() - began < 0.005:
        pytest.skip("a flush of 64 MiB takes no time in the temporary folder (tmpfs)")
    ran = dict[str, list[float]](end_fsync=[], fsync_on_close=[], invalidate=[])
    for option, found in 3 * list(ran.items()):
        options = ("--direct=0", "--ioengine=psync", "--rw=write", "--bs=1m", "--size=64m", f"--{option}=1")
        assert fio(tmp_path, f"--filename={target}", *options).returncode == 0
        found.append(job(tmp_path)["write"]["runtime"] - job(tmp_path)["write"]["lat_ns"]["mean"] * 64 / 1e6)
    none = min(ran.pop("invalidate"))  # what it has anyhow
    assert all(min(found) > none for found in ran.values())
