"""How a stimulus is told to fio, and which of its answers are believed."""

from __future__ import annotations

import copy
import errno
import json
import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snia_pts.errors import TargetUnfit
from snia_pts.lab import fio
from snia_pts.measurement import NOTHING
from snia_pts.steps import Stimulus
from tests.drives import MIB, content, filled

SEED = 1 << 61


def stimulus(**changes: Any) -> Stimulus:
    """Return a stimulus of a tenth of a second, 4 KiB random writes over 1 MiB."""
    facts: dict[str, Any] = {
        "access": "RND", "read_percent": 0, "block_size_bytes": 4096, "thread_count": 2, "queue_depth": 4,
        "range_offset_bytes": 0, "range_bytes": MIB, "seconds": 0.1,
    }  # fmt: skip
    if "passes" in changes:
        facts["seconds"] = None
    return Stimulus(**{**facts, **changes})


def lines(asked: Stimulus, path: str = "/x/y.img", **how: Any) -> list[str]:
    """Return the lines of a job file."""
    return fio.job_file(asked, path, "libaio", SEED, **how).splitlines()


# -- asking ---------------------------------------------------------------------------------------------------------


@st.composite
def sequential(draw: st.DrawFn, /, **fixed: Any) -> Stimulus:
    """Sequential stimuli over ranges that fit no block."""
    block = 512 * draw(st.integers(1, 4096))
    size = block + 512 * draw(st.integers(0, 30_000))
    facts: dict[str, Any] = {
        "access": "SEQ", "block_size_bytes": block, "thread_count": draw(st.integers(1, 40)), "queue_depth": 1,
        "range_offset_bytes": 512 * draw(st.integers(0, 10_000)), "range_bytes": size,
    }  # fmt: skip
    return stimulus(**{**facts, **fixed})


@given(sequential(passes=2))
def test_sequential_threads_share_no_lba_and_leave_none_out(asked: Stimulus) -> None:
    """With passes the threads' extents follow one another without a gap or overlap, over exactly the range."""
    place = asked.range_offset_bytes
    for section in fio.sections(asked):
        assert section.jobs == 1
        assert section.offset_bytes == place
        assert section.size_bytes > 0
        assert section.size_bytes % section.block_size_bytes == 0  # else fio leaves the rest out
        place += section.size_bytes

    assert place == asked.range_offset_bytes + asked.range_bytes
    assert sum(section.block_size_bytes != asked.block_size_bytes for section in fio.sections(asked)) <= 1


@given(sequential(seconds=1.0))
def test_sequential_threads_by_time_do_whole_blocks_only(asked: Stimulus) -> None:
    """By time every I/O has the block size asked: the tail shorter than a block is left alone, and only that."""
    parts = list(fio.sections(asked))
    ends = [part.offset_bytes + part.size_bytes for part in parts]

    assert {part.block_size_bytes for part in parts} == {asked.block_size_bytes}
    assert [part.offset_bytes for part in parts] == [asked.range_offset_bytes, *ends[:-1]]
    assert 0 <= asked.range_offset_bytes + asked.range_bytes - ends[-1] < asked.block_size_bytes


@given(sequential(passes=1))
def test_sequential_threads_share_evenly(asked: Stimulus) -> None:
    """No thread has more than one block more than another, and there are as many as asked where there are blocks."""
    shares = [part.size_bytes for part in fio.sections(asked) if part.block_size_bytes == asked.block_size_bytes]

    assert max(shares) - min(shares) <= asked.block_size_bytes
    assert len(shares) == min(asked.thread_count, asked.range_bytes // asked.block_size_bytes)


def test_random_threads_share_the_range() -> None:
    """Random access is one section over the whole range, done by all threads."""
    assert list(fio.sections(stimulus(range_offset_bytes=8192, range_bytes=MIB + 512, thread_count=3))) == [
        fio.Section(offset_bytes=8192, size_bytes=MIB + 512, block_size_bytes=4096, jobs=3)
    ]


@pytest.mark.parametrize(
    ("access", "read_percent", "told"),
    [
        ("RND", 100, ["rw=randread"]), ("RND", 0, ["rw=randwrite"]), ("SEQ", 100, ["rw=read"]),
        ("SEQ", 0, ["rw=write"]), ("RND", 65, ["rw=randrw", "rwmixread=65"]), ("SEQ", 5, ["rw=rw", "rwmixread=5"]),
    ],
)  # fmt: skip
def test_the_pattern_is_told(access: str, read_percent: int, told: list[str]) -> None:
    """Each access and R/W mix has its fio pattern."""
    found = lines(stimulus(access=access, read_percent=read_percent))

    assert [line for line in found if line.startswith(("rw=", "rwmix"))] == told


def test_the_job_file_holds_what_a_stimulus_needs() -> None:
    """Every option that keeps a point honest is there; a tenth of a second is 100 ms."""
    found = lines(stimulus())

    assert {
        "direct=1", "thread=1", "iodepth=4", "numjobs=2", "bs=4096", "size=1048576", "offset=0", "norandommap=1",
        "randrepeat=0", f"randseed={SEED}", "random_generator=tausworthe64", "allow_file_create=0", "time_based=1",
        "runtime=100ms", "group_reporting=1", "ioengine=libaio", "filename=/x/y.img", "refill_buffers=0",
        "clocksource=clock_gettime", "lat_percentiles=1",
    } <= set(found)  # fmt: skip
    assert len(found) == len(set(found))
    assert "refill_buffers=1" in lines(stimulus(), refill=True)


def test_passes_are_loops_and_no_time() -> None:
    """A stimulus with passes is ended by its amount alone."""
    found = lines(stimulus(access="SEQ", passes=2))

    assert "loops=2" in found
    assert not [line for line in found if line.startswith(("runtime", "time_based"))]


def test_no_line_can_be_smuggled_in() -> None:
    """A name with a line break would add options of its own; it is refused."""
    with pytest.raises(TargetUnfit):
        lines(stimulus(), "/x/y\nfilename=/dev/sda")


@pytest.mark.parametrize("character", [*"$\\\"'#;\n\t\x00\x7f\udcff"])
def test_unspeakable_names_are_refused(character: str) -> None:
    """Characters that fio takes for something else, or that are no text, are refused with a remedy that prints."""
    with pytest.raises(TargetUnfit) as refused:
        lines(stimulus(), f"/x/a{character}b")

    assert "would read as something else" in str(refused.value)
    assert str(refused.value).encode("ascii")


@pytest.mark.parametrize("name", ["-", "a.img", "", "/x/a ", " /x/a", "/" + "d/" * 2000 + "f", "/" + 2001 * ":"])
def test_names_that_fio_reads_in_part_are_refused(name: str) -> None:
    """'-' is the standard input, edges are stripped, and a line of more than 4095 bytes is cut."""
    with pytest.raises(TargetUnfit):
        fio.speakable(name)


SPEAKABLE = [
    "a:b c.img", "-a", "--output=x", "%t", "a=b=c", "a,b", "größe-日本.img", "a[b]", "[global]", "a|b", "a&b", "~", "*",
    "a?b", "(a)", "{a}", "@a", "!a", "`id`", "a+1", "2*3", "^", "<a>", ":", "a::b", ":a", "a:", "=", "a  b", "x" * 200,
]  # fmt: skip


@pytest.mark.parametrize("name", SPEAKABLE)
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
        return len(path) < 4000 and bool(fio.speakable(path))
    except TargetUnfit:
        return False


def write_with_fio(tmp_path: Path, name: str) -> None:
    """Write once over a file of this name with fio, and prove that it was that file."""
    target = tmp_path / "target" / name
    target.parent.mkdir(parents=True)
    filled(target, 65536)
    before, names = content(target), set((tmp_path / "target").rglob("*"))
    asked = stimulus(access="SEQ", passes=1, range_bytes=65536, thread_count=1)
    job = tmp_path / "job.fio"
    job.write_text(fio.job_file(asked, str(target), "libaio", SEED), encoding="utf-8")
    done = subprocess.run(
        fio.command(str(job), str(tmp_path / "out.json")), capture_output=True, text=True, check=False, cwd=tmp_path
    )

    read, write = fio.accept(asked, done.returncode, False, (tmp_path / "out.json").read_text())
    assert (read.ios, write.transferred_bytes) == (0, 65536)
    assert content(target) != before
    assert set((tmp_path / "target").rglob("*")) == names
    assert {path.name for path in tmp_path.iterdir()} == {"target", "job.fio", "out.json"}


def test_limits_leave_room() -> None:
    """The limit is beyond what was asked, for the slowest drive too."""
    assert fio.timeout_seconds(stimulus(seconds=60.0)) == 150
    assert fio.timeout_seconds(stimulus(passes=2, range_bytes=10**12)) > 2 * 10**12 / 5e6


@pytest.mark.parametrize(
    ("text", "version"),
    [("fio-3.33", (3, 33)), ("fio-3.41-12-gabc", (3, 41)), ("fio-2.1.11", (2, 1)), ("what?", (0, 0)), ("", (0, 0))],
)
def test_versions(text: str, version: tuple[int, int]) -> None:
    """Versions compare as numbers, and what says nothing is older than any."""
    assert fio.parse_version(text) == version


# -- believing ------------------------------------------------------------------------------------------------------


def side(ios: int = 0, *, block: int = 4096, runtime: int = 100) -> dict[str, Any]:
    """Return the reads or writes of fio's answer."""
    return {
        "total_ios": ios, "io_bytes": ios * block, "runtime": runtime if ios else 0,
        "lat_ns": {"min": 900, "max": 90_000, "mean": 1500.5, "bins": {"1000": ios - ios // 2, "2000": ios // 2}},
    }  # fmt: skip


def answer(read: int = 0, write: int = 1000, **changes: Any) -> dict[str, Any]:
    """Return an answer of fio's to the stimulus above."""
    return {"jobs": [{"error": 0, "read": side(read), "write": side(write), **changes}]}


Change = Callable[[dict[str, Any]], object]


def accept(document: object, exit_code: int = 0, *, timed_out: bool = False, **asked: Any) -> Any:
    """Judge an answer."""
    text = document if isinstance(document, str) else json.dumps(document)
    return fio.accept(stimulus(**asked), exit_code, timed_out, text)


def test_a_good_answer_is_believed() -> None:
    """Counts, bytes, times and bins are taken as they are."""
    read, write = accept(answer())

    assert read == NOTHING
    assert (write.ios, write.transferred_bytes, write.runtime_ms) == (1000, 4_096_000, 100)
    assert (write.response_min_ns, write.response_mean_ns, write.response_max_ns) == (900, 1500.5, 90_000)
    assert write.histogram.bins == ((1000, 500), (2000, 500))


def test_text_before_the_answer_is_skipped() -> None:
    """A note that precedes the JSON does no harm."""
    assert accept("note: both iodepth >= 1 and synchronous\n" + json.dumps(answer()))[1].ios == 1000


def test_a_brace_in_a_name_is_not_the_answer() -> None:
    """An error line that names a file with braces precedes the JSON; the device's error is still found in it."""
    text = "fio: io_u error on file /x/{a}.img: Input/output error\nfio: pid=1, err=5\n"
    with pytest.raises(fio.Refused, match="reports error 5") as refused:
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
    "short": (lambda job: job["write"].update(runtime=98), "host", "0.098 s instead of 0.1"),
    "stall": (lambda job: job["write"].update(runtime=14_723), "device", "stalled: 14.723"),
    "no runtime": (lambda job: job["write"].update(runtime=0), "host", "ran 0 s"),
    "bytes do not fit": (lambda job: job["write"].update(io_bytes=4_096_000 - 512), "device", "fit together"),
    "a block too many": (lambda job: job["write"].update(io_bytes=4_100_096), "device", "fit together"),
    "no I/O": (lambda job: job.update(write=side()), "host", "no I/O at all"),
    "I/Os without bytes": (lambda job: job["write"].update(io_bytes=0), "host", "no I/O at all"),
    "bins do not fit": (lambda job: job["write"]["lat_ns"]["bins"].update({"2000": 499}), "host", "response times"),
    "reads in a pure write": (lambda job: job.update(read=side(1)), "host", "R/W mix 0/100"),
    "no bins": (lambda job: job["write"]["lat_ns"].pop("bins"), "host", "not understood"),
    "no lat_ns": (lambda job: job["write"].pop("lat_ns"), "host", "not understood"),
    "no error field": (lambda job: job.pop("error"), "host", "not understood"),
    "mean that is no number": (lambda job: job["write"]["lat_ns"].update(mean=float("nan")), "host", "not understood"),
    "time below zero": (lambda job: job["write"]["lat_ns"].update(min=-1), "host", "not understood"),
    "endless runtime": (lambda job: job["write"].update(runtime=float("inf")), "host", "not understood"),
    "error beyond all": (lambda job: job.update(error=10**30), "host", "not understood"),
    "bins below zero": (
        lambda job: job["write"]["lat_ns"].update(bins={"1": -1, "2": 1001}), "host", "not understood",
    ),
    "bins that do not ascend": (
        lambda job: job["write"]["lat_ns"].update(bins={"2": 1, "1": 999}), "host", "not understood",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "blame", "reason"), REFUSALS.values(), ids=REFUSALS)
def test_refusals(change: Change, blame: str, reason: str) -> None:
    """Whatever is wrong with an answer is told with its reason, and who is to blame; exit code 0 proves nothing."""
    document = answer()
    change(document["jobs"][0])
    with pytest.raises(fio.Refused) as refused:
        accept(document)

    assert refused.value.blame == blame
    assert reason in refused.value.reason


@pytest.mark.parametrize(
    ("text", "code", "blame", "reason"),
    [
        (json.dumps(answer()), 1, "host", "exit code 1"),
        (json.dumps(answer()), -11, "host", "exit code -11"),
        ("", 137, "host", "exit code 137 and left no result"),
        ("", -9, "host", "killed by signal 9 and left no result"),
        ("fio: pid=1, err=2\n", 1, "host", "left no result"),
        (json.dumps(answer())[:-40], 0, "host", "left no result"),
        ("[1, 2]", 0, "host", "left no result"),
        ("{}", 0, "host", "not understood"),
        ('{"jobs": []}', 0, "host", "not understood"),
        ('{"jobs": 5}', 0, "host", "not understood"),
        ("{" * 100_000, 0, "host", "left no result"),
        ("\nfio: terminating on signal 15\n" + json.dumps(answer()), 0, "host", "stopped from outside"),
        ("fio: terminating on signal 2\n" + json.dumps(answer()), 128, "host", "stopped from outside"),
        (json.dumps({"jobs": answer()["jobs"] * 2}), 0, "host", "2 groups"),
    ],
)
def test_refused_answers(text: str, code: int, blame: str, reason: str) -> None:
    """An answer that is cut, missing, no result, of two groups, or from a fio that was stopped is not believed."""
    with pytest.raises(fio.Refused) as refused:
        accept(text, code)

    assert refused.value.blame == blame
    assert reason in refused.value.reason


def test_no_answer_in_time_is_the_device() -> None:
    """A fio that the suite ended at its limit means a hung device, whatever it still says."""
    with pytest.raises(fio.Refused, match="no answer within 60 s") as refused:
        accept(answer(), 128, timed_out=True)

    assert refused.value.blame == "device"


@pytest.mark.parametrize(
    ("ios", "runtime", "believed"),
    [
        (1000, 99, True), (1000, 101, True), (1000, 300, True), (1000, 2_000, True), (1000, 2_500, False),
        (8, 3_000, True),  # a slow drive that answers what was outstanding after the end
        (8, 29_000, True),
        (8, 33_000, False),  # ... but not later than the kernel waits for it
        (9, 60_000, False),
    ],
)  # fmt: skip
def test_the_end_may_be_late_by_what_is_outstanding(ios: int, runtime: int, believed: bool) -> None:
    """The runtime may exceed the request by the drive's own answers to the 8 outstanding I/Os, and no more."""
    document = {"jobs": [{"error": 0, "read": side(), "write": side(ios, runtime=runtime)}]}
    if believed:
        assert accept(document)[1].runtime_ms == runtime
    else:
        with pytest.raises(fio.Refused, match="stalled"):
            accept(document)


@pytest.mark.parametrize("more", [-4096, 4096, 512])
def test_passes_want_every_byte(more: int) -> None:
    """A pass that is off by one block, or less, did not go over the range."""
    passes: dict[str, Any] = {"access": "SEQ", "passes": 2, "seconds": None}
    document: dict[str, Any] = {"jobs": [{"error": 0, "read": side(), "write": side(512)}]}
    assert accept(document, **passes)[1].transferred_bytes == 2 * MIB
    document["jobs"][0]["write"]["io_bytes"] += more
    with pytest.raises(fio.Refused) as refused:
        accept(document, **passes)

    assert (refused.value.blame, "instead of 2097152" in refused.value.reason) == ("device", True)


# -- junk -----------------------------------------------------------------------------------------------------------

WORDS = ("jobs", "error", "read", "write", "total_ios", "io_bytes", "runtime", "lat_ns", "bins", "min", "mean", "max")
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from([10**400, -1, 0])
)
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS) | st.text(), inner, max_size=6),
    max_leaves=20,
)


def judged(text: str, exit_code: int = 0, **asked: Any) -> None:
    """An answer is believed, with numbers that can be computed with, or Refused."""
    try:
        found = fio.accept(stimulus(**asked), exit_code, False, text)
    except fio.Refused as refused:
        refusal = refused
    else:
        assert sum(part.ios for part in found) > 0
        assert all(part.iops >= 0 and part.response_mean_ns < math.inf for part in found)
        return
    assert refusal.blame in ("device", "host")
    assert refusal.reason


@given(JUNK)
def test_junk_is_refused(junk: object) -> None:
    """Whatever JSON comes, the answer is believed or Refused; there is no third."""
    judged(json.dumps(junk))
    judged(json.dumps({"jobs": [junk]}))


@given(st.text() | st.text(alphabet='{}[]":,0123jobs'), st.integers(-64, 255))
def test_text_is_refused(text: str, exit_code: int) -> None:
    """Whatever text comes, the answer is Refused."""
    with pytest.raises(fio.Refused):
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
    target, job, output = filled(folder / "x.img"), folder / "job.fio", folder / "out.json"
    job.write_text(fio.job_file(stimulus(), str(target), "libaio", SEED), encoding="utf-8")
    subprocess.run(fio.command(str(job), str(output)), check=True, capture_output=True)
    fio.accept(stimulus(), 0, False, output.read_text())
    return output.read_text()
