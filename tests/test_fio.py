"""The job file for a stimulus, and which of fio's answers are accepted."""

from __future__ import annotations

import copy
import errno
import itertools
import json
import math
import os
import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snia_pts.errors import TargetUnfit
from snia_pts.lab import fio
from snia_pts.lab.device.fio_name import fio_name, require_fio_name
from snia_pts.lab.fio import probe
from snia_pts.lab.fio.sampling import Side, Totals
from snia_pts.model.measurement import NO_TRANSFERS
from snia_pts.model.steps import BlockShare, Stimulus, Zone
from snia_pts.units import exact_capacity
from tests.drives import MIB, content, filled

SEED = 1 << 61


def stimulus(**changes: Any) -> Stimulus:
    """Return a stimulus of a tenth of a second, 4 KiB random writes over 1 MiB."""
    facts: dict[str, Any] = {
        "access": "RND",
        "read_percent": 0,
        "block_size_bytes": 4096,
        "thread_count": 2,
        "queue_depth": 4,
        "range_offset_bytes": 0,
        "range_bytes": MIB,
        "seconds": 0.1,
    }
    if "passes" in changes:
        facts["seconds"] = None
    return Stimulus(**{**facts, **changes})


def lines(request: Stimulus, path: str = "/x/y.img", **how: Any) -> list[str]:
    """Return the lines of a job file."""
    return fio.job_file(request, path, "libaio", SEED, **how).splitlines()


# -- asking ---------------------------------------------------------------------------------------------------------


@st.composite
def sequential(draw: st.DrawFn, /, **fixed: Any) -> Stimulus:
    """Sequential stimuli over ranges that fit no block, but hold one for each thread."""
    block = 512 * draw(st.integers(1, 4096))
    threads = draw(st.integers(1, 40))
    size = threads * block + 512 * draw(st.integers(0, 30_000))
    facts: dict[str, Any] = {
        "access": "SEQ",
        "block_size_bytes": block,
        "thread_count": threads,
        "queue_depth": 1,
        "range_offset_bytes": 512 * draw(st.integers(0, 10_000)),
        "range_bytes": size,
    }
    return stimulus(**{**facts, **fixed})


@given(sequential(passes=2))
def test_sequential_threads_share_no_lba_and_leave_none_out(request: Stimulus) -> None:
    """With passes the threads' extents follow one another without a gap or overlap, over exactly the range."""
    place = request.range_offset_bytes
    for section in fio.sections(request):
        assert section.jobs == 1
        assert section.offset_bytes == place
        assert section.size_bytes > 0
        assert isinstance(section.block_size_bytes, int)
        assert section.size_bytes % section.block_size_bytes == 0  # else fio leaves the rest out
        place += section.size_bytes

    assert place == request.range_offset_bytes + request.range_bytes
    assert sum(section.block_size_bytes != request.block_size_bytes for section in fio.sections(request)) <= 1


@given(sequential(seconds=1.0))
def test_sequential_threads_by_time_do_whole_blocks_only(request: Stimulus) -> None:
    """By time every I/O has the block size asked: the tail shorter than a block is left alone, and only that."""
    parts = list(fio.sections(request))
    ends = [part.offset_bytes + part.size_bytes for part in parts]

    assert {part.block_size_bytes for part in parts} == {request.block_size_bytes}
    assert [part.offset_bytes for part in parts] == [request.range_offset_bytes, *ends[:-1]]
    assert 0 <= request.range_offset_bytes + request.range_bytes - ends[-1] < request.largest_block_bytes


@given(sequential(passes=1))
def test_sequential_threads_share_evenly(request: Stimulus) -> None:
    """No thread has more than one block more than another, and there are as many as asked."""
    shares = [part.size_bytes for part in fio.sections(request) if part.block_size_bytes == request.block_size_bytes]

    assert max(shares) - min(shares) <= request.largest_block_bytes
    assert len(shares) == request.thread_count


@given(st.integers(1, 40), st.integers(1, 500), st.integers(1, 4), st.data())
def test_a_partial_last_pass_is_the_same_for_each_thread(
    threads: int, more: int, whole: int, data: st.DataObject
) -> None:
    """Each thread goes over its share as often as asked, then over a part of it that is the same for all by a block."""
    block, blocks = 131072, threads + more
    rest = data.draw(st.integers(1, blocks - 1))
    request = stimulus(
        access="SEQ",
        block_size_bytes=block,
        range_bytes=blocks * block,
        thread_count=threads,
        passes=whole + 1,
        limit_bytes=(whole * blocks + rest) * block,
    )
    sections = [(part.io_bytes or 0, part.size_bytes) for part in fio.sections(request)]
    parts = [(moved - whole * share) // block for moved, share in sections]

    assert sum(moved for moved, _ in sections) == request.amount_bytes == request.limit_bytes
    assert all(0 <= part * block <= share for part, (_, share) in zip(parts, sections, strict=True))
    assert max(parts) - min(parts) <= 1
    assert "loops" not in "".join(lines(request))


@given(sequential(seconds=1.0), st.data())
def test_a_sequential_stream_begins_where_told(request: Stimulus, data: st.DataObject) -> None:
    """Each thread begins its part of the start into its own share, on a block, and goes to the share's end."""
    start = data.draw(st.integers(0, request.range_bytes - 1))
    block = request.largest_block_bytes
    for share, part in zip(fio.sections(request), fio.sections(replace(request, start_bytes=start)), strict=True):
        skipped = part.offset_bytes - share.offset_bytes
        assert skipped + part.size_bytes == share.size_bytes
        assert part.size_bytes >= block
        wanted = start // request.thread_count // block * block
        assert skipped == (wanted if wanted < share.size_bytes else 0)


@given(sequential(seconds=1.0), st.data())
def test_each_sequential_stream_begins_at_its_own_place(request: Stimulus, data: st.DataObject) -> None:
    """Several threads begin where each is to, and each answers by itself; one thread, and random ones, are a group."""
    block = request.largest_block_bytes
    starts = tuple(data.draw(st.integers(0, share // block - 1)) * block for share in request.share_bytes)
    point = replace(request, start_bytes=starts if request.thread_count > 1 else starts[0])
    pairs = zip(fio.sections(request), fio.sections(point), starts, strict=True)

    for share, part, start in pairs:
        assert part.offset_bytes == share.offset_bytes + start
        assert part.size_bytes == share.size_bytes - start > 0
    assert f"group_reporting={int(request.thread_count == 1)}" in lines(point)
    assert "group_reporting=1" in lines(replace(request, access="RND"))


def test_one_stream_goes_on_to_the_block() -> None:
    """A single thread's stream begins just where the one before stopped."""
    (part,) = fio.sections(stimulus(access="SEQ", thread_count=1, range_offset_bytes=4096, start_bytes=81920))

    assert (part.offset_bytes, part.size_bytes) == (4096 + 81920, MIB - 81920)


@pytest.mark.parametrize("passes", [{"passes": 1}, {}])
def test_threads_that_cannot_share_a_range_are_refused(passes: Any) -> None:
    """With fewer blocks than threads some would have nothing to do: that is refused."""
    with pytest.raises(fio.AnswerRejected, match="5 sequential threads cannot share a range of 4 blocks") as refused:
        lines(stimulus(access="SEQ", block_size_bytes=4096, range_bytes=20_000, thread_count=5, **passes))

    assert refused.value.blame == "host"


def test_random_threads_share_the_range() -> None:
    """Random access is one section over the whole range, done by all threads."""
    assert list(fio.sections(stimulus(range_offset_bytes=8192, range_bytes=MIB + 512, thread_count=3))) == [
        fio.Section(offset_bytes=8192, size_bytes=MIB + 512, block_size_bytes=4096, jobs=3)
    ]


@pytest.mark.parametrize(
    ("access", "read_percent", "texts"),
    [
        ("RND", 100, ["rw=randread"]),
        ("RND", 0, ["rw=randwrite"]),
        ("SEQ", 100, ["rw=read"]),
        ("SEQ", 0, ["rw=write"]),
        ("RND", 65, ["rw=randrw", "rwmixread=65"]),
        ("SEQ", 5, ["rw=rw", "rwmixread=5"]),
    ],
)
def test_the_pattern_is_told(access: str, read_percent: int, texts: list[str]) -> None:
    """Each access and R/W mix has its fio pattern."""
    options = lines(stimulus(access=access, read_percent=read_percent))

    assert [line for line in options if line.startswith(("rw=", "rwmix"))] == texts


def test_the_job_file_holds_what_a_stimulus_needs() -> None:
    """Every option that keeps a point honest is there; a tenth of a second is 100 ms."""
    options = lines(stimulus())

    assert {
        "direct=1",
        "thread=1",
        "iodepth=4",
        "numjobs=2",
        "bs=4096",
        "size=1048576",
        "offset=0",
        "norandommap=1",
        "randrepeat=0",
        f"randseed={SEED}",
        "random_generator=tausworthe64",
        "allow_file_create=0",
        "time_based=1",
        "runtime=100ms",
        "group_reporting=1",
        "ioengine=libaio",
        "filename=${SNIA_PTS_TARGET}",
        "refill_buffers=0",
        "clocksource=clock_gettime",
        "lat_percentiles=1",
    } <= set(options)
    assert len(options) == len(set(options))
    assert "refill_buffers=1" in lines(stimulus(), refill=True)


@pytest.mark.parametrize(
    ("io_engine", "options", "expected"),
    [
        ("io_uring", (), ["fixedbufs=1"]),
        ("libaio", (), []),
        ("io_uring", (("ioengine", "psync"),), []),
        ("libaio", (("ioengine", "io_uring"),), ["fixedbufs=1"]),
        ("io_uring", (("fixedbufs", "0"),), ["fixedbufs=0"]),
    ],
)
def test_fixed_buffers_are_for_io_uring(io_engine: fio.IoEngine, options: Any, expected: list[str]) -> None:
    """fio takes the option with io_uring alone; a profile's own value wins."""
    for fixed in (True, False):
        found = fio.job_file(stimulus(options=options), "/x", io_engine, SEED, fixed_buffers=fixed).splitlines()
        buffers = [line for line in found if line.startswith("fixedbufs")]
        assert buffers == (expected if fixed or (options and options[0][0] == "fixedbufs") else [])
        if buffers:
            engines = [line.startswith("ioengine=") for line in found]
            assert engines.index(True) < found.index(buffers[0])
    null = fio.null_job_file(stimulus(options=options), io_engine, SEED, fill=True, fixed_buffers=True)
    assert [line for line in null.splitlines() if line.startswith("fixedbufs")] == expected


def test_the_null_job_is_the_real_one_but_for_the_target() -> None:
    """What goes to /dev/null has all options of a point, its buffers filled as there, or not at all."""
    real, null = set(lines(stimulus())), set(fio.null_job_file(stimulus(), "libaio", SEED, fill=True).splitlines())
    unfilled = set(fio.null_job_file(stimulus(), "libaio", SEED, fill=False, refill=True).splitlines())

    assert real - null == {
        "# Repeat it, and destroy the data on the target: SNIA_PTS_TARGET=/x/y.img fio FILE",
        "filename=${SNIA_PTS_TARGET}",
        "allow_file_create=0",
        "direct=1",
    }
    assert null - real == {"filename=/dev/null", "scramble_buffers=1"}
    assert unfilled - null == {"scramble_buffers=0"}
    refilled = fio.null_job_file(stimulus(), "libaio", SEED, fill=True, refill=True).splitlines()
    assert "refill_buffers=1" in refilled


@pytest.mark.parametrize(
    ("jobs", "percent"),
    [
        ([{"usr_cpu": 12.5, "sys_cpu": 30.25, "ctx": 3}], 42.75),
        ([{"usr_cpu": 60, "sys_cpu": 60}], 100.0),
        ([{}], None),
        ([{"usr_cpu": 1.0}], None),
        ([{"usr_cpu": 1.0, "sys_cpu": 2.0}, {"usr_cpu": 5.0, "sys_cpu": 6.0}], 7.0),
        ([{"usr_cpu": 1.0, "sys_cpu": 2.0}, {"usr_cpu": 1.0}], None),
    ],
)
def test_the_engine_s_cpu_time_is_fio_s_own(jobs: list[dict[str, float]], percent: float | None) -> None:
    """User and system time, the mean of all jobs, no more than a whole CPU; nothing of an answer without such pairs."""
    assert fio.engine_cpu_percent(json.dumps({"jobs": jobs})) == percent


@pytest.mark.parametrize("value", ["1.0", "nan", True, math.nan, -5.0, None])
def test_cpu_time_that_is_no_number_is_refused(value: object) -> None:
    """It decides which points the host limited."""
    with pytest.raises(fio.AnswerRejected, match="cannot parse fio's CPU usage"):
        fio.engine_cpu_percent(json.dumps({"jobs": [{"usr_cpu": value, "sys_cpu": 2.0}]}))


COUNTS = (
    ("error",),
    ("elapsed",),
    ("write", "total_ios"),
    ("write", "io_bytes"),
    ("write", "runtime"),
    ("write", "short_ios"),
    ("write", "lat_ns", "N"),
    ("write", "lat_ns", "min"),
    ("write", "lat_ns", "max"),
    ("write", "lat_ns", "bins", "1004"),
)
FRACTIONS = (("write", "lat_ns", "mean"), ("iodepth_level", "8"))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *itertools.product((*COUNTS, *FRACTIONS), ("5", "1_000", " 5 ", "nan", True, math.nan)),
        *itertools.product(COUNTS, (5.0,)),
    ],
)
def test_only_json_numbers_are_numbers(place: tuple[str, ...], value: object) -> None:
    """Texts that Python reads as numbers, truth values, fractions of counts and nan are none, wherever they stand."""
    document = answer(elapsed=5, iodepth_level={"8": 100.0})
    *parents, name = place
    part = document["jobs"][0]
    for parent in parents:
        part = part[parent]
    part[name] = value
    with pytest.raises(fio.AnswerRejected, match="cannot parse fio's output"):
        accept(document, queue_depth=8, ramp_seconds=0.1)


@pytest.mark.parametrize("value", ["1", True, 1.0, math.nan])
def test_the_number_of_sync_calls_is_a_json_number(value: object) -> None:
    """As those of I/Os are."""
    with pytest.raises(fio.AnswerRejected, match="cannot parse fio's output"):
        accept(answer(sync={"lat_ns": {"N": value}}), queue_depth=1, options=(("fdatasync", "1000"),))


@pytest.mark.parametrize("key", ["1_000", " 1000", "01000", "1e3", "\N{ARABIC-INDIC DIGIT ONE}000", "-1000", ""])
def test_only_digits_are_the_key_of_a_bin(key: str) -> None:
    """The key is the midpoint of a bin in nanoseconds."""
    document = answer()
    times = document["jobs"][0]["write"]["lat_ns"]
    times["bins"] = {key: 1000}
    with pytest.raises(fio.AnswerRejected, match="cannot parse fio's output"):
        accept(document)


def test_passes_are_loops_and_no_time() -> None:
    """A stimulus with passes is ended by its amount alone."""
    options = lines(stimulus(access="SEQ", passes=2))

    assert "loops=2" in options
    assert not [line for line in options if line.startswith(("runtime", "time_based"))]


MIX = (
    BlockShare(size_bytes=512, percent=4),
    BlockShare(size_bytes=4096, percent=67),
    BlockShare(size_bytes=65536, percent=29),
)
SKEW = (Zone(access_percent=50, range_percent=5), Zone(access_percent=50, range_percent=95))


def test_a_mix_of_sizes_is_told() -> None:
    """Sizes go with their shares, no I/O of a page and more lies across pages, and there is no size besides."""
    options = lines(stimulus(block_size_bytes=MIX))

    assert {"bssplit=512/4:4096/67:65536/29", "blockalign=4096"} <= set(options)
    assert not [line for line in options if line.startswith("bs=")]


@pytest.mark.parametrize(
    ("sizes", "align"), [((512, 1024), 1024), ((512, 4096), 4096), ((8192, 65536), 8192), ((2048, 65536), 4096)]
)
def test_a_mix_is_aligned_to_pages_as_far_as_its_sizes_go(sizes: tuple[int, int], align: int) -> None:
    """I/Os are aligned to the smallest size of the mix, and to 4 KiB where some have that."""
    shares = tuple(BlockShare(size_bytes=size, percent=50) for size in sizes)

    assert f"blockalign={align}" in lines(stimulus(block_size_bytes=shares))


def test_a_skew_is_told() -> None:
    """Zones of the range are in the job with their shares; without a skew there are none."""
    assert "random_distribution=zoned:50/5:50/95" in lines(stimulus(skew=SKEW))
    assert "zoned" not in "".join(lines(stimulus()))


@given(st.integers(4096, 10**13), st.integers(1, 64))
def test_a_limit_ends_a_stimulus_before_its_time(limit: int, threads: int) -> None:
    """Each thread has its part of the limit, in whole blocks: together no less than asked, and no block a thread more.

    The time bounds it, and does not hold it up.
    """
    options = lines(stimulus(limit_bytes=limit, thread_count=threads))
    (amount,) = (int(line.removeprefix("io_size=")) for line in options if line.startswith("io_size="))

    assert amount % 4096 == 0
    assert limit <= amount * threads < limit + 4096 * threads
    assert "runtime=100ms" in options
    assert "time_based=1" not in options


def test_no_line_can_be_smuggled_in() -> None:
    """A name with a line break would add options of its own; it is refused."""
    with pytest.raises(TargetUnfit):
        lines(stimulus(), "/x/y\nfilename=/dev/sda")


@pytest.mark.parametrize("character", [*"$\\\"'#;\n\t\x00\x7f\udcff"])
def test_names_that_fio_would_misread_are_refused(character: str) -> None:
    """Characters that fio takes for something else, or that are no text, are refused with a remedy that prints."""
    with pytest.raises(TargetUnfit) as refused:
        lines(stimulus(), f"/x/a{character}b")

    assert "characters that fio misinterprets" in str(refused.value)
    assert str(refused.value).encode("ascii")


@pytest.mark.parametrize("name", ["-", "a.img", "", "/x/a ", " /x/a", "/" + "d/" * 2000 + "f", "/" + 2001 * ":"])
def test_names_that_fio_reads_in_part_are_refused(name: str) -> None:
    """'-' is the standard input, edges are stripped, and a line of more than 4095 bytes is cut."""
    with pytest.raises(TargetUnfit):
        require_fio_name(name)


NAMES = [
    "a:b c.img",
    "-a",
    "--output=x",
    "%t",
    "a=b=c",
    "a,b",
    "größe-日本.img",
    "a[b]",
    "[global]",
    "a|b",
    "a&b",
    "~",
    "*",
    "a?b",
    "(a)",
    "{a}",
    "@a",
    "!a",
    "`id`",
    "a+1",
    "2*3",
    "^",
    "<a>",
    ":",
    "a::b",
    ":a",
    "a:",
    "=",
    "a  b",
    "x" * 200,
]


@pytest.mark.long_but_first
@pytest.mark.parametrize("name", NAMES)
def test_real_fio_reads_a_name_as_one_path(tmp_path: Path, name: str) -> None:
    """fio writes to just the file of that name, and no other file appears."""
    write_with_fio(tmp_path, name)


@pytest.mark.parametrize("separator", ["", ":"])
def test_real_fio_reads_long_paths(tmp_path: Path, separator: str) -> None:
    """The longest path that is accepted is read as a whole, also where each colon takes two bytes."""
    depth = next(
        depth
        for depth in range(20, 0, -1)
        if _fits(str(tmp_path / "target" / "/".join([(separator or "d") * 200] * depth) / "f"))
    )
    write_with_fio(tmp_path, "/".join([(separator or "d") * 200] * depth) + "/f")


def _fits(path: str) -> bool:
    try:
        return len(path) < 4000 and bool(require_fio_name(path))
    except TargetUnfit:
        return False


def write_with_fio(tmp_path: Path, name: str) -> None:
    """Write once over a file of this name with fio, as the job file says; prove that it was that file."""
    target = tmp_path / "target" / name
    target.parent.mkdir(parents=True)
    filled(target, 65536)
    before, names = content(target), set((tmp_path / "target").rglob("*"))
    request = stimulus(access="SEQ", passes=1, range_bytes=65536, thread_count=1)
    job = tmp_path / "job.fio"
    text = fio.job_file(request, str(target), "libaio", SEED)
    job.write_text(text, encoding="utf-8")
    by_hand = text.splitlines()[0].partition(": ")[2].removesuffix("fio FILE") + shlex.join(fio.command(job))
    done = subprocess.run(["/bin/sh", "-c", by_hand], capture_output=True, text=True, check=False, cwd=tmp_path)

    read, write = fio.accept(request, done.returncode, False, job.with_suffix(".json").read_text())
    assert (read.ios, write.transferred_bytes) == (0, 65536)
    assert content(target) != before
    assert set((tmp_path / "target").rglob("*")) == names
    assert {path.name for path in tmp_path.iterdir()} == {"target", "job.fio", "job.json"}


Change = Callable[[dict[str, Any]], object]


def several(folder: Path, **changes: Any) -> tuple[Stimulus, str]:
    """Return a stimulus of three sequential threads, and real fio's answer to it."""
    target, job = filled(folder / "x.img", 4 * MIB), folder / "job.fio"
    request = stimulus(**{"access": "SEQ", "range_bytes": 4 * MIB, "thread_count": 3, "seconds": 0.2, **changes})
    job.write_text(fio.job_file(request, str(target), "libaio", SEED), encoding="utf-8")
    subprocess.run(fio.command(job), check=True, capture_output=True, env={**os.environ, fio.TARGET: str(target)})
    return request, job.with_suffix(".json").read_text()


@pytest.mark.parametrize("changes", [{}, {"seconds": None, "passes": 1, "range_bytes": 4 * MIB - 512}])
def test_sequential_threads_are_put_together_exactly(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Counts, bytes and bins are sums, the extremes those of any thread, the mean that of all I/Os."""
    asked, text = several(tmp_path, **changes)
    _, write = fio.accept(asked, 0, False, text)
    sides = [job["write"] for job in json.loads(text)["jobs"]]
    bins = sum((Counter({int(k): v for k, v in side["lat_ns"]["bins"].items()}) for side in sides), Counter[int]())
    sums = [sum(side[name] for side in sides) for name in ("total_ios", "io_bytes")]

    assert len(sides) == len(list(fio.sections(asked)))
    assert [write.ios, write.transferred_bytes] == sums
    assert dict(write.histogram.bins) == bins
    assert write.response_min_ns == min(side["lat_ns"]["min"] for side in sides)
    assert write.response_max_ns == max(side["lat_ns"]["max"] for side in sides)
    assert write.runtime_ms == max(side["runtime"] for side in sides)
    total = sum(side["lat_ns"]["mean"] * side["total_ios"] for side in sides)
    assert write.response_mean_ns == pytest.approx(total / write.ios, rel=1e-12)
    assert fio.stream_bytes(asked, text) == tuple(side["io_bytes"] for side in sides[:3])
    assert fio.read_totals(text)[0].write.ios == write.ios


def test_a_thread_without_an_answer_is_missed(tmp_path: Path) -> None:
    """As many jobs answer as there are; a sum of all is that of an older run, whose job file asked for it."""
    asked, text = several(tmp_path)
    document = json.loads(text)
    two = json.dumps({**document, "jobs": document["jobs"][:2]})
    with pytest.raises(fio.AnswerRejected, match="2 job groups, expected 3"):
        fio.accept(asked, 0, False, two)
    one = {**document, "global options": {"group_reporting": "1"}, "jobs": document["jobs"][:1]}
    of_profile = replace(asked, options=(("thinktime", "1"),))  # its response times need not add up to the queue depth

    assert fio.accept(of_profile, 0, False, json.dumps(one))[1].ios == document["jobs"][0]["write"]["total_ios"]
    assert fio.stream_bytes(asked, json.dumps(one)) == ()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_error_or_a_contradiction_of_any_thread_counts(tmp_path: Path, place: int) -> None:
    """Each job is read as one alone would be."""
    asked, text = several(tmp_path)
    changes: tuple[Change, ...] = (
        lambda job: job.update(error=5),
        lambda job: job["write"]["lat_ns"].update(N=job["write"]["lat_ns"]["N"] + 100),
        lambda job: job["write"].update(iops=job["write"]["iops"] / 2),
    )
    for change in changes:
        document = json.loads(text)
        change(document["jobs"][place])
        with pytest.raises(fio.AnswerRejected):
            fio.accept(asked, 0, False, json.dumps(document))


def test_limits_leave_room() -> None:
    """The limit is beyond what was asked, for the slowest drive too."""
    assert fio.timeout_seconds(stimulus(seconds=60.0)) == 240
    assert fio.timeout_seconds(stimulus(seconds=60.0), 600.0) == 720
    assert fio.timeout_seconds(stimulus(seconds=86400.0)) < 25 * 3600
    assert fio.timeout_seconds(stimulus(passes=2, range_bytes=10**12)) > 2 * 10**12 / 5e6


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("fio-3.33", (3, 33)),
        ("fio-3.41-12-gabc", (3, 41)),
        ("fio-2.1.11", (2, 1)),
        ("what?", (0, 0)),
        ("", (0, 0)),
        ("fio-\N{ARABIC-INDIC DIGIT THREE}.3", (0, 0)),
        (f"fio-{'9' * 5000}.1", (0, 0)),
    ],
)
def test_versions(text: str, version: tuple[int, int]) -> None:
    """Versions compare as numbers, and what says nothing is older than any."""
    assert probe.parse_version(text) == version


# -- believing ------------------------------------------------------------------------------------------------------


WORDS = ("jobs", "error", "read", "write", "total_ios", "io_bytes", "runtime", "lat_ns", "bins", "min", "mean", "max")
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from([10**400, -1, 0])
)
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS) | st.text(), inner, max_size=6),
    max_leaves=20,
)


def side(ios: int = 0, *, block: int = 4096, runtime: int = 100) -> dict[str, Any]:
    """Return the reads or writes of fio's answer."""
    if not ios:
        times: dict[str, Any] = {"min": 0, "max": 0, "mean": 0.0, "N": 0}
    else:
        slow = ios // 2
        mean = (1000 * (ios - slow) + 2000 * slow) / ios
        bins = {"1004": ios - slow, **({"2008": slow} if slow else {})}
        times = {"min": 1000, "max": 2003 if slow else 1003, "mean": mean, "N": ios, "bins": bins}
    return rated({"total_ios": ios, "io_bytes": ios * block, "runtime": runtime if ios else 0, "lat_ns": times})


def rated(side: dict[str, Any]) -> dict[str, Any]:
    """Add the rates that fio computes from its counts."""
    runtime = side["runtime"]
    rates = {rate: 1000 * side[amount] / runtime if runtime else 0 for rate, amount in RATES}
    side.update(rates)
    return side


RATES = (("iops", "total_ios"), ("bw_bytes", "io_bytes"))


def answer(read: int = 0, write: int = 1000, **changes: Any) -> dict[str, Any]:
    """Return an answer of fio's to the stimulus above."""
    return {"jobs": [{"error": 0, "read": side(read), "write": side(write), **changes}]}


def accept(document: object, exit_code: int = 0, *, timed_out: bool = False, **asked: Any) -> Any:
    """Judge an answer."""
    text = document if isinstance(document, str) else json.dumps(document)
    return fio.accept(stimulus(**asked), exit_code, timed_out, text)


def test_a_good_answer_is_believed() -> None:
    """Counts, bytes, times and bins are taken as they are."""
    read, write = accept(answer())

    assert read == NO_TRANSFERS
    assert (write.ios, write.transferred_bytes, write.runtime_ms) == (1000, 4_096_000, 100)
    assert (write.response_min_ns, write.response_mean_ns, write.response_max_ns) == (1000, 1500.0, 2003)
    assert write.histogram.bins == ((1004, 500), (2008, 500))


def test_text_before_the_answer_is_skipped() -> None:
    """A note that precedes the JSON does no harm."""
    assert accept("note: both iodepth >= 1 and synchronous\n" + json.dumps(answer()))[1].ios == 1000


def test_a_brace_in_a_name_is_not_the_answer() -> None:
    """An error line that names a file with braces precedes the JSON; the device's error is still found in it."""
    text = "fio: io_u error on file /x/{a}.img: Input/output error\nfio: pid=1, err=5\n"
    with pytest.raises(fio.AnswerRejected, match="reports error 5") as refused:
        accept(text + json.dumps(answer(error=5)), 1)

    assert refused.value.blame == "device"


def test_reads_and_writes_are_kept_apart() -> None:
    """In a mixed answer each side has its own numbers, and their sum is what was done."""
    read, write = accept(answer(650, 350), read_percent=65)

    assert (read.ios, write.ios) == (650, 350)


REFUSALS: dict[str, tuple[Change, str, str]] = {
    "EIO": (lambda job: job.update(error=errno.EIO), "device", "Input/output"),
    "ENODEV": (lambda job: job.update(error=errno.ENODEV), "device", "No such device"),
    "ENODATA": (lambda job: job.update(error=errno.ENODATA), "device", "No data"),
    "ENOSPC": (lambda job: job.update(error=errno.ENOSPC), "host", "No space"),
    "EINVAL": (lambda job: job.update(error=errno.EINVAL), "host", "Invalid argument"),
    "EACCES": (lambda job: job.update(error=errno.EACCES), "host", "Permission"),
    "total_err": (lambda job: job.update(total_err=3, first_error=errno.EIO), "device", "Input/output"),
    "total_err without its number": (lambda job: job.update(total_err=3), "device", "Input/output"),
    "total_err of the host": (lambda job: job.update(total_err=1, first_error=errno.ENOSPC), "host", "No space"),
    "short": (lambda job: job["write"].update(runtime=93), "host", "0.093 s, expected 0.1"),
    "stall": (lambda job: job["write"].update(runtime=120_101), "device", "stalled: 120.101 s"),
    "no runtime": (lambda job: job["write"].update(runtime=0), "host", "ran 0 s"),
    "bytes do not fit": (lambda job: job["write"].update(io_bytes=4_096_000 - 512), "device", "with these block sizes"),
    "a block too many": (lambda job: job["write"].update(io_bytes=4_100_096), "device", "with these block sizes"),
    "no I/O": (lambda job: job.update(write=side()), "host", "did no I/O"),
    "I/Os without bytes": (lambda job: job["write"].update(io_bytes=0), "host", "did no I/O"),
    "bins do not fit": (lambda job: job["write"]["lat_ns"]["bins"].update({"2008": 499}), "host", "response times"),
    "reads in a pure write": (lambda job: job.update(read=side(1)), "host", "R/W mix 0/100"),
    "no bins": (lambda job: job["write"]["lat_ns"].pop("bins"), "host", "cannot parse"),
    "no lat_ns": (lambda job: job["write"].pop("lat_ns"), "host", "cannot parse"),
    "no error field": (lambda job: job.pop("error"), "host", "cannot parse"),
    "mean that is no number": (lambda job: job["write"]["lat_ns"].update(mean=float("nan")), "host", "cannot parse"),
    "time below zero": (lambda job: job["write"]["lat_ns"].update(min=-1), "host", "cannot parse"),
    "mean below zero": (lambda job: job["write"]["lat_ns"].update(mean=-1500.5), "host", "cannot parse"),
    "greatest below zero": (lambda job: job["write"]["lat_ns"].update(max=-1), "host", "cannot parse"),
    "mean beyond all": (lambda job: job["write"]["lat_ns"].update(mean=1.1e18), "host", "cannot parse"),
    "greatest beyond all": (lambda job: job["write"]["lat_ns"].update(max=10**30), "host", "cannot parse"),
    "endless runtime": (lambda job: job["write"].update(runtime=float("inf")), "host", "cannot parse"),
    "error beyond all": (lambda job: job.update(error=10**30), "host", "cannot parse"),
    "bins below zero": (
        lambda job: job["write"]["lat_ns"].update(bins={"1": -1, "2": 1001}),
        "host",
        "cannot parse",
    ),
    "bins that do not ascend": (
        lambda job: job["write"]["lat_ns"].update(bins={"2": 1, "1": 999}),
        "host",
        "cannot parse",
    ),
}


@pytest.mark.parametrize(("change", "blame", "reason"), REFUSALS.values(), ids=REFUSALS)
def test_refusals(change: Change, blame: str, reason: str) -> None:
    """Every invalid answer is rejected with its reason and with who is to blame; exit code 0 proves nothing."""
    document = answer()
    change(document["jobs"][0])
    with pytest.raises(fio.AnswerRejected) as refused:
        accept(document)

    assert refused.value.blame == blame
    assert reason in refused.value.reason


@pytest.mark.parametrize(
    ("text", "code", "blame", "reason"),
    [
        (json.dumps(answer()), 1, "host", "exit code 1"),
        (json.dumps(answer()), -11, "host", "killed by signal 11"),
        ("", 137, "host", "exit code 137 and wrote no result"),
        ("", -9, "host", "killed by signal 9 and wrote no result"),
        ("fio: pid=1, err=2\n", 1, "host", "wrote no result"),
        (json.dumps(answer())[:-40], 0, "host", "wrote no result"),
        ("[1, 2]", 0, "host", "wrote no result"),
        ("{}", 0, "host", "cannot parse"),
        ('{"jobs": []}', 0, "host", "cannot parse"),
        ('{"jobs": 5}', 0, "host", "cannot parse"),
        ("{" * 100_000, 0, "host", "wrote no result"),
        ("\nfio: terminating on signal 15\n" + json.dumps(answer()), 0, "host", "stopped fio with a signal"),
        ("fio: terminating on signal 2\n" + json.dumps(answer()), 128, "host", "stopped fio with a signal"),
        (json.dumps({"jobs": answer()["jobs"] * 2}), 0, "host", "2 job groups"),
    ],
)
def test_refused_answers(text: str, code: int, blame: str, reason: str) -> None:
    """An answer that is truncated, missing, no result, of two groups, or from a stopped fio is rejected."""
    with pytest.raises(fio.AnswerRejected) as refused:
        accept(text, code)

    assert refused.value.blame == blame
    assert reason in refused.value.reason


def judge_writes(ios: int, total: int, runtime: int = 100, **asked: Any) -> Any:
    """Judge an answer of so many writes and bytes."""
    document = answer(0, ios)
    document["jobs"][0]["write"].update(io_bytes=total, runtime=runtime)
    rated(document["jobs"][0]["write"])
    return accept(document, **asked)


@pytest.mark.parametrize(
    ("total", "valid"), [(1000 * 512 - 512, False), (1000 * 512, True), (65_536_000, True), (65_536_512, False)]
)
def test_the_bytes_of_a_mix_lie_between_its_sizes(total: int, valid: bool) -> None:
    """A mix may give any sum that its sizes can: none below all small, none above all large."""
    if valid:
        assert judge_writes(1000, total, block_size_bytes=MIX)[1].transferred_bytes == total
    else:
        with pytest.raises(fio.AnswerRejected, match="with these block sizes"):
            judge_writes(1000, total, block_size_bytes=MIX)


@pytest.mark.parametrize(
    ("ios", "runtime", "reason"),
    [
        (1000, 100, ""),
        (2000, 40, ""),
        (2002, 100, ""),
        (1999, 95, ""),
        (1999, 93, f"0.093 s, expected 0.1 s, and transferred {exact_capacity(8187904)} of {exact_capacity(8192000)}"),
        (2003, 40, f"more than the limit of {exact_capacity(8192000)}"),
        (1999, 121_000, "stalled"),
    ],
)
def test_a_limit_may_end_it_early_when_it_was_reached(ios: int, runtime: int, reason: str) -> None:
    """An answer below both its time and its limit is rejected, and so is one above the limit."""
    limit = 2000 * 4096
    if not reason:
        assert judge_writes(ios, ios * 4096, runtime, limit_bytes=limit)[1].runtime_ms == runtime
    else:
        with pytest.raises(fio.AnswerRejected, match=re.escape(reason)):
            judge_writes(ios, ios * 4096, runtime, limit_bytes=limit)


@pytest.mark.parametrize(
    ("read", "write", "percent", "valid"),
    [(0, 1000, 5, True), (0, 1001, 5, False), (1001, 0, 95, False), (30, 0, 50, True), (101, 0, 50, False)],
)
def test_a_side_of_a_mix_may_be_missing_by_chance_only(read: int, write: int, percent: int, valid: bool) -> None:
    """A mix without reads, or writes, is accepted if it has so few I/Os that chance explains it."""
    if valid:
        assert sum(part.ios for part in accept(answer(read, write), read_percent=percent)) == read + write
    else:
        with pytest.raises(fio.AnswerRejected, match="R/W mix"):
            accept(answer(read, write), read_percent=percent)


# -- running totals -------------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=30), max_size=4), st.data())
def test_output_is_split_into_answers_however_it_comes(texts: list[bytes], data: st.DataObject) -> None:
    """Answers come whole, with the text before each, wherever the pieces of the output were cut."""
    texts = [text.replace(b"}", b"") for text in texts]
    document = json.dumps(answer(), indent=2).encode() + b"\n"
    output = b"".join(text + b"\n" + document for text in texts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(output)), max_size=6)))
    pieces = [output[start:end] for start, end in itertools.pairwise([0, *cuts, len(output)])]
    answers = fio.StatusStream()
    found = [line for piece in pieces for line in answers.feed(piece)]

    assert found == [(text + b"\n" + document).decode("utf-8", "replace") for text in texts]
    assert answers.last_answer == (texts[-1] + b"\n" + document if texts else b"")


def test_what_follows_the_last_answer_is_the_last() -> None:
    """An answer that was cut off is not passed over for the whole one before it."""
    answers = fio.StatusStream()
    document = json.dumps(answer(), indent=2)
    assert len(list(answers.feed(f"{document}\n{document[:100]}".encode()))) == 1

    assert answers.last_answer == document[:100].encode()


def test_running_totals_may_be_torn() -> None:
    """Counters of one moment that do not fit together are taken as they are; each is to be trusted by itself."""
    document = answer(0, 1000)
    document["jobs"][0]["write"]["lat_ns"].update(N=990, bins={"1004": 400, "2008": 580})
    document["jobs"][0]["read"]["lat_ns"] = {"min": 0, "max": 0, "mean": 0.0, "N": 0}
    totals = fio.read_totals(json.dumps(document))[0]

    assert totals == Totals(
        write=Side(
            ios=990,
            transferred_bytes=4_096_000,
            runtime_ms=100,
            timed_ios=990,
            response_ns=990 * 1500.0,
            response_max_ns=2003,
            bins={1004: 400, 2008: 580},
        )
    )


@given(JUNK)
def test_running_totals_that_are_junk_are_refused(junk: object) -> None:
    """Whatever JSON comes as running totals, it is understood or Refused."""
    for document in (junk, {"jobs": [junk]}, {"jobs": [{"read": junk, "write": junk}]}):
        try:
            totals = fio.read_totals(json.dumps(document))[0]
        except fio.AnswerRejected as refused:
            refusal = refused
        else:
            assert math.isfinite(totals.read.response_ns + totals.write.response_ns)
            continue
        assert refusal.blame in ("device", "host")  # the device for an error that fio reports
        assert refusal.reason


def test_no_answer_in_time_is_the_device() -> None:
    """A fio that the suite ended at its limit means a hung device, whatever it still says."""
    with pytest.raises(fio.AnswerRejected, match="no answer within 180 s") as refused:
        accept(answer(), 128, timed_out=True)

    assert refused.value.blame == "device"


@pytest.mark.parametrize(
    ("runtime", "stall_seconds", "valid"),
    [
        (99, 120, True),
        (101, 120, True),
        (5_100, 120, True),
        (120_100, 120, True),
        (120_101, 120, False),
        (5_100, 5, True),
        (5_101, 5, False),
        (300_100, 300, True),
    ],
)
def test_the_end_may_be_late_by_as_long_as_a_drive_may_stall(runtime: int, stall_seconds: float, valid: bool) -> None:
    """A drive that stands still for less is measured all the same: that is a result; beyond, it has failed."""
    document = {"jobs": [{"error": 0, "read": side(), "write": side(8, runtime=runtime)}]}
    how = (stimulus(), 0, False, json.dumps(document))
    if valid:
        assert fio.accept(*how, stall_seconds=stall_seconds)[1].runtime_ms == runtime
        return
    with pytest.raises(fio.AnswerRejected, match="stalled") as refused:
        fio.accept(*how, stall_seconds=stall_seconds)
    assert refused.value.blame == "device"


@pytest.mark.parametrize(("stall_seconds", "valid"), [(5.1, True), (4.9, False)])
def test_no_io_may_take_longer_than_a_drive_may_stall(stall_seconds: float, valid: bool) -> None:
    """In the midst of a point a stall does not lengthen it; the response time tells."""
    slow = {"min": 1000, "max": 5_000_000_000, "mean": 2_500_000_500.0, "N": 2, "bins": {"1004": 1, "4999610368": 1}}
    write = rated({"total_ios": 2, "io_bytes": 8192, "runtime": 60_000, "lat_ns": slow})
    how = (stimulus(seconds=60.0), 0, False, json.dumps({"jobs": [{"error": 0, "read": side(), "write": write}]}))
    if valid:
        assert fio.accept(*how, stall_seconds=stall_seconds)[1].response_max_ns == 5_000_000_000
        return
    with pytest.raises(fio.AnswerRejected, match="an I/O took 5 s"):
        fio.accept(*how, stall_seconds=stall_seconds)


@pytest.mark.parametrize("more", [-4096, 4096, 512])
def test_passes_want_every_byte(more: int) -> None:
    """A pass that is off by one block, or less, did not go over the range."""
    passes: dict[str, Any] = {"access": "SEQ", "thread_count": 1, "passes": 2, "seconds": None}
    document: dict[str, Any] = {"jobs": [{"error": 0, "read": side(), "write": side(512)}]}
    assert accept(document, **passes)[1].transferred_bytes == 2 * MIB
    document["jobs"][0]["write"]["io_bytes"] += more
    rated(document["jobs"][0]["write"])
    with pytest.raises(fio.AnswerRejected) as refused:
        accept(document, **passes)

    assert (refused.value.blame, f"expected {exact_capacity(2097152)}" in refused.value.reason) == ("host", True)


# -- junk -----------------------------------------------------------------------------------------------------------


def judged(text: str, exit_code: int = 0, **asked: Any) -> None:
    """An answer is accepted, with finite numbers, or rejected."""
    try:
        found = fio.accept(stimulus(**asked), exit_code, False, text)
    except fio.AnswerRejected as refused:
        refusal = refused
    else:
        assert sum(part.ios for part in found) > 0
        assert all(part.iops >= 0 and part.response_mean_ns < math.inf for part in found)
        return
    assert refusal.blame in ("device", "host")
    assert refusal.reason


@pytest.mark.parametrize("value", [-1, 10**30, 1.1e18, math.nan, math.inf])
@pytest.mark.parametrize("name", ["io_bytes", "runtime", "N", "mean", "max"])
def test_running_totals_beyond_all_are_refused(name: str, value: float) -> None:
    """A journal takes no number below zero or beyond all that can be measured, and so neither does a sample."""
    document = answer()
    for item in (document["jobs"][0]["read"], document["jobs"][0]["write"]):
        item["lat_ns"]["N"] = item["total_ios"]
        place = item if name in item else item["lat_ns"]
        place[name] = value
    with pytest.raises(fio.AnswerRejected, match=r"cannot parse fio.s running totals"):
        fio.read_totals(json.dumps(document))[0]


@given(JUNK)
def test_junk_is_refused(junk: object) -> None:
    """Any JSON is either accepted or rejected."""
    judged(json.dumps(junk))
    judged(json.dumps({"jobs": [junk]}))


@given(st.text() | st.text(alphabet='{}[]":,0123jobs'), st.integers(-64, 255))
def test_text_is_refused(text: str, exit_code: int) -> None:
    """Whatever text comes, the answer is Refused."""
    with pytest.raises(fio.AnswerRejected):
        fio.accept(stimulus(), exit_code, False, text)


@given(st.data())
def test_a_changed_answer_is_refused_or_believed(data: st.DataObject) -> None:
    """Any one value of a good answer replaced by junk or taken away gives Refused or numbers, never another failure."""
    document = copy.deepcopy(answer(650, 350))
    place: Any = document["jobs"][0]
    while True:
        key = data.draw(st.sampled_from(sorted(place)))
        if not isinstance(place[key], dict) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    if data.draw(st.booleans()):
        del place[key]
    else:
        place[key] = data.draw(JUNK)

    judged(json.dumps(document), read_percent=65)
    judged(json.dumps(document), read_percent=65, passes=1, seconds=None)


@settings(max_examples=50)
@given(st.integers(0, 4000), st.integers(0, 4000), st.text(max_size=4))
def test_a_cut_or_spoiled_real_answer_is_refused_or_believed(real_answer: str, at: int, cut: int, text: str) -> None:
    """Real output of fio that is truncated, or has some characters replaced, gives Refused or numbers."""
    judged(real_answer[: -1 - cut])
    judged(real_answer[:at] + text + real_answer[at + len(text) :])


@pytest.fixture(scope="module")
def real_answer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What fio says to the stimulus above on a small file."""
    folder = tmp_path_factory.mktemp("real")
    target, job, output = filled(folder / "x.img"), folder / "job.fio", folder / "job.json"
    job.write_text(fio.job_file(stimulus(), str(target), "libaio", SEED), encoding="utf-8")
    environment = {**os.environ, fio.TARGET: fio_name(str(target))}
    subprocess.run(fio.command(job), check=True, capture_output=True, env=environment)
    fio.accept(stimulus(), 0, False, output.read_text())
    return output.read_text()


# -- workload profiles ----------------------------------------------------------------------------------------------


def test_options_of_a_workload_are_heard_last() -> None:
    """They take the place of what the suite says itself, and stand once."""
    request = stimulus(options=(("direct", "0"), ("fdatasync", "1"), ("ioengine", "sync")))
    options = lines(request)
    assert [line for line in options if line.startswith(("direct", "ioengine", "fdatasync"))] == [
        "direct=0",
        "ioengine=sync",
        "fdatasync=1",
    ]


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"access": "SEQ", "read_percent": 100, "skip_bytes": -8192}, ["rw=read:-8192", "loops=1"]),
        ({"access": "SEQ", "skip_bytes": -4096}, ["rw=write:-4096", "loops=1"]),
        ({"access": "SEQ", "read_percent": 100, "skip_bytes": 65536}, ["rw=read:65536", "io_size=65536"]),
        ({"thread_count": 4}, ["rw=randwrite", f"io_size={MIB // 4}"]),
    ],
)
def test_amounts_and_orders(changes: dict[str, Any], wanted: list[str]) -> None:
    """Threads at random places do a part of a pass each; strides end after one crossing of the range."""
    options = lines(stimulus(**{"thread_count": 1, "passes": 1, **changes}))
    assert [line for line in options if line.startswith(("rw=", "loops=", "io_size="))] == wanted


def test_a_ramp_is_told_and_waited_for() -> None:
    """It comes before the time that counts."""
    request = stimulus(seconds=2.0, ramp_seconds=30.0)
    assert {"time_based=1", "runtime=2000ms", "ramp_time=30000ms"} <= set(lines(request))
    assert fio.timeout_seconds(request) == fio.timeout_seconds(stimulus(seconds=2.0)) + 30


def test_slow_ios_have_their_time() -> None:
    """A hard disk does a hundred random I/Os a second, a card fewer calls of fdatasync: no stall of the device."""
    request = stimulus(passes=1, thread_count=1, range_bytes=4 << 30)
    assert fio.timeout_seconds(request) > (4 << 30) / 4096 / 100


def ramped_answer(ios: int = 1000, ended: int = 1004, extra_bytes: int = 0) -> str:
    """Return an answer after a ramp: fio counts ``ios`` that began, and ``ended`` that ended, in the measured time."""
    write = {**side(ended), "total_ios": ios, "io_bytes": ended * 4096 + extra_bytes}
    return json.dumps({"jobs": [{"error": 0, "read": side(), "write": rated(write)}]})


@pytest.mark.parametrize("extra_bytes", [0, 4096])
def test_after_a_ramp_ios_and_bytes_are_one_count(extra_bytes: int) -> None:
    """Both are of the I/Os that ended in the measured time, so that IOPS times the block size is the throughput."""
    request = stimulus(ramp_seconds=1.0, thread_count=1)
    write = fio.accept(request, 0, False, ramped_answer(extra_bytes=extra_bytes))[1]

    assert (write.ios, write.transferred_bytes) == (1004, 1004 * 4096)
    assert write.histogram.count == write.ios
    assert write.iops * 4096 == write.bytes_per_second


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"ramp_seconds": 0.0}, {}),
        ({"queue_depth": 3}, {}),
        ({}, {"ended": 995}),
        ({}, {"extra_bytes": 5 * 4096}),
        ({}, {"extra_bytes": -5 * 4096}),
    ],
)
def test_counts_around_a_ramp_differ_by_the_outstanding_ios_at_most(changes: Any, reported: Any) -> None:
    """Without a ramp they do not differ; an answer with more is rejected."""
    request = replace(stimulus(ramp_seconds=1.0, thread_count=1), **changes)
    with pytest.raises(fio.AnswerRejected):
        fio.accept(request, 0, False, ramped_answer(**reported))


@pytest.mark.parametrize("changes", [{"passes": 1}, {"block_size_bytes": MIX}])
def test_a_ramp_goes_with_time_and_one_block_size(changes: Any) -> None:
    """What it leaves outstanding is counted by the block size."""
    with pytest.raises(ValueError, match="a ramp"):
        stimulus(ramp_seconds=1.0, **changes)


def lossy(lost: int, *, bytes_too: bool) -> dict[str, Any]:
    """Return an answer of a fio that began so many I/Os more than it has response times of."""
    write = side(1000)
    write.update(total_ios=1000 + lost, io_bytes=4096 * (1000 + (0 if bytes_too else lost)))
    return {"jobs": [{"error": 0, "read": side(), "write": rated(write)}]}


@pytest.mark.parametrize("bytes_too", [True, False])
@pytest.mark.parametrize(("lost", "repeatable"), [(1, True), (4, True), (5, False), (1000, False)])
def test_a_thread_s_last_ios_may_be_lost(lost: int, repeatable: bool, bytes_too: bool) -> None:
    """That is worth another attempt, 4 being outstanding; more than that is not."""
    with pytest.raises(fio.AnswerRejected) as refused:
        accept(lossy(lost, bytes_too=bytes_too))
    assert (refused.value.blame, refused.value.repeatable) == ("host", repeatable)


@pytest.mark.parametrize("bytes_too", [True, False])
def test_of_samples_all_that_was_counted_is_taken(bytes_too: bool) -> None:
    """A long stimulus is not repeated: what has a response time counts, and how many have none is known."""
    text = json.dumps(lossy(4, bytes_too=bytes_too))
    write = fio.accept(stimulus(), 0, False, text, allow_uncounted=True)[1]

    assert (write.ios, write.transferred_bytes) == (1000, 4_096_000)
    assert fio.uncounted_ios(stimulus(), text) == 4
    assert fio.uncounted_ios(stimulus(), json.dumps(answer())) == 0
    limit = 1004 * 4096
    early = json.loads(text)
    early["jobs"][0]["write"]["runtime"] = 40
    rated(early["jobs"][0]["write"])
    assert fio.accept(stimulus(limit_bytes=limit), 0, False, json.dumps(early), allow_uncounted=True)[1].ios == 1000
    with pytest.raises(fio.AnswerRejected):
        fio.accept(stimulus(), 0, False, json.dumps(lossy(5, bytes_too=bytes_too)), allow_uncounted=True)


@pytest.mark.parametrize("bytes_too", [True, False])
def test_a_pass_may_lack_the_bytes_of_lost_ios(bytes_too: bool) -> None:
    """Of a pass over the range, the last I/Os of one thread may be uncounted; what else is missing was not done."""
    whole = stimulus(seconds=None, access="SEQ", thread_count=1, passes=1, range_bytes=1004 * 4096)
    text = json.dumps(lossy(4, bytes_too=bytes_too))

    assert fio.accept(whole, 0, False, text, allow_uncounted=True)[1].ios == 1000
    longer = replace(whole, range_bytes=1005 * 4096)
    with pytest.raises(fio.AnswerRejected, match=r"transferred .*, expected") as refused:
        fio.accept(longer, 0, False, text, allow_uncounted=True)
    assert refused.value.blame == "host"
    short = json.loads(text)
    short["jobs"][0]["write"]["short_ios"] = 1
    with pytest.raises(fio.AnswerRejected, match=r"transferred .*, expected") as refused:
        fio.accept(longer, 0, False, json.dumps(short), allow_uncounted=True)
    assert refused.value.blame == "device"


def synced(**changes: Any) -> str:
    """Return an answer that tells of synchronizing calls."""
    times = {"N": 3, "min": 1000, "max": 9000, "mean": 5000.0, "bins": {"1004": 1, "5024": 1, "9024": 1}, **changes}
    return json.dumps({"jobs": [{"sync": {"total_ios": 0, "lat_ns": times}}]})


def test_times_of_synchronizing_calls() -> None:
    """As many as fio counts, or none; a wrong sum is rejected."""
    found = fio.sync_times(synced())
    assert found is not None
    assert (found.calls, found.mean_ns, found.max_ns) == (3, 5000.0, 9000)
    assert fio.sync_times(synced(N=0)) is None
    assert fio.sync_times(json.dumps({"jobs": [{}]})) is None
    for wrong in ({"N": 4}, {"max": -1}, {"mean": "x"}, {"bins": None}):
        with pytest.raises(fio.AnswerRejected):
            fio.sync_times(synced(**wrong))
