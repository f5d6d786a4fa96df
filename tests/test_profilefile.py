"""Files of workload profiles: what is read, what is refused, what the operator may change, and the messages."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.errors import SniaPtsError, SpecError, UsageError
from snia_pts.lab import fio
from snia_pts.model.steps import SAME_OFFSETS
from snia_pts.profiles.fio_options import ALLOWED, ENGINES, fio_value, rejection_reason
from snia_pts.profiles.procedure import points
from snia_pts.profiles.reader import Changes, builtin_profiles, parse_axis, profile_path, read_profile
from snia_pts.profiles.spec import ProfileSpec
from tests.strategies import dut

HEAD = 'format = 1\ntitle = "T"\ndescription = "d"\nsource = "s"\n'
WORKLOAD = '[[workload]]\nname = "w"\naccess = "RND"\nread_percent = 0\nblock_size = "4K"\n'


def profile(path: Path, changes: Changes | None = None) -> ProfileSpec:
    """Return a profile's specification."""
    specification = read_profile(str(path), changes).spec
    assert isinstance(specification, ProfileSpec)
    return specification


def written(folder: Path, *lines: str, head: str = HEAD, name: str = "p.toml") -> Path:
    """Write a profile of one workload, followed by ``lines``."""
    path = folder / name
    path.write_text(head + WORKLOAD + "\n".join(lines))
    return path


@pytest.mark.parametrize("name", builtin_profiles())
def test_a_copy_is_the_shipped_profile(name: str, tmp_path: Path) -> None:
    """A profile is found by name, its copy by path; they are the same, and neither deviates from itself."""
    copy = tmp_path / f"{name}.toml"
    copy.write_bytes(profile_path(name).read_bytes())

    assert read_profile(str(copy)) == read_profile(name)
    assert read_profile(name).deviations == ()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("queue_depth = 0", "a number of at least 1"),
        ('range = "all"', "workload 1.range: 'all': expected a size like 4 KiB"),
        ("seconds = nan", "finite"),
        ("ramp_seconds = 5", "ramp_seconds only with seconds"),
        ('order = "stride"', "one thread of sequential reads or sequential writes"),
        ('fio = { filename = "/etc/passwd" }', "workload 1.fio.filename: the target is given on the command line"),
        ('fio = { exec_prerun = "rm" }', "a profile may not set this option"),
        ('fio = { ioengine = "exec" }', "workload 1.fio.ioengine: expected an I/O engine of"),
        ('fio = { rate = "1m\\nfilename=/x" }', "a value of letters"),
        ('fio = { rate = "${HOME}" }', "a value of letters"),
        ("fio = { direct = 2 }", "0 or 1, not 2"),
        ('fio = { gtod_reduce = "yes" }', "0 or 1, not 'yes'"),
        (
            "fio = { gtod_reduce = 1, fdatasync = 1 }",
            "no ramp_seconds, sample_seconds, fsync, fdatasync or end_fsync with gtod",
        ),
        ("seconds = 5\nramp_seconds = 1\nfio = { gtod_reduce = 1 }", "no ramp_seconds, sample_seconds"),
        ("fio = { disable_lat = 1 }", "use gtod_reduce, which measures no response times"),
        ("fio = { nrfiles = 129 }", "fio.nrfiles: expected a number of 1 to 128, not 129"),
        ("fio = { nrfiles = 8 }", "a range, and no zones, fresh or order, with nrfiles"),
        ('range = "1 MiB"\nfresh = true\nfio = { nrfiles = 8 }', "a range, and no zones, fresh or order"),
        ("fio = { openfiles = 2 }", "nrfiles of more than 1 for openfiles of workload w"),
        (
            'range = "1 MiB"\nfio = { nrfiles = 8, file_service_type = "sequential" }',
            "fio would use the first file only",
        ),
        ("fio = { fsync_on_close = 1 }", "use end_fsync"),
        ('fio = { bssplit = "4k/50:8k/50" }', "give the shares as the workload's block_size"),
        ('queue_depth = 8\nfio = { ioengine = "psync" }', "which waits for each I/O"),
        ('[[axis]]\nkey = "zones"\nvalues = [1]', "not zones"),
        ('[[axis]]\nkey = "queue_depth"\nvalues = [99999]', "axis 1.queue_depth: 99999: expected a number"),
        ('[[axis]]\nkey = "read_percent"\nvalues = [150]', "a number of at most 100"),
        ('[[axis]]\nkey = "seconds"\nvalues = [0]', "a number of at least 0.1"),
        ('[[axis]]\nkey = "thread_count"\nvalues = [true]', "axis 1.thread_count: true: expected a number or a text"),
        ('[[axis]]\nkey = "thread_count"\nvalues = [1, 1]', "without repetition"),
        ('[[axis]]\nkey = "queue_depth"\nvalues = [1]\nworkloads = ["x"]', "existing workloads for axis queue_depth"),
        ('[[axis]]\nkey = "host.turbo"\nvalues = ["on"]', "host.governor or host.scheduler"),
        ('[[axis]]\nkey = "host.governor"\nvalues = ["../x"]', "values as the kernel names them"),
        ('[[limit]]\nmetric = "iops"\nat = "w"\nunit = "IOPS"', "minimum, maximum, or both"),
        ("colour = 1", "unknown key"),
        ("queue_detph = 1", "workload 1.queue_detph: unknown key; did you mean queue_depth?"),
        ("queue_depth = 1.5", "workload 1.queue_depth: 1.5: expected a whole number"),
        ("range = 5", "workload 1.range: 5: expected a text"),
        ('[[axis]]\nkey = "queue_depth"\nvalues = 1', "axis 1.values: 1: expected a list"),
        (f'[[axis]]\nkey = "queue_depth"\nvalues = {[*range(1025)]}', "axis 1.values: expected at most 1024 entries"),
    ],
)
def test_a_mistake_is_one_message(line: str, why: str, tmp_path: Path) -> None:
    """Each invalid value is refused with the key and what was expected."""
    with pytest.raises(SpecError) as raised:
        profile(written(tmp_path, line))
    assert why in str(raised.value)
    assert "docs/profiles.rst" in raised.value.hint


def test_a_name_has_no_spaces_at_its_ends(tmp_path: Path) -> None:
    """Pages and figures could not show such a space."""
    path = written(tmp_path)
    path.write_text(path.read_text().replace('name = "w"', 'name = "w "'))
    with pytest.raises(SpecError, match="workload 1: expected a name without spaces at its ends"):
        profile(path)


def test_invalid_files_are_refused(tmp_path: Path) -> None:
    """An invalid name, a missing file, a file in another format, and one whose name no profile may have."""
    with pytest.raises(UsageError, match="no profile 'nix'"):
        read_profile("nix")
    with pytest.raises(SpecError, match="no such file") as raised:
        read_profile(str(tmp_path / "no.toml"))
    assert raised.value.hint == "Check the path."
    with pytest.raises(SpecError, match="format: expected 1"):
        profile(written(tmp_path, head=HEAD.replace("1", "2")))
    with pytest.raises(SpecError, match="name: missing key"):
        profile(written(tmp_path, name="My Copy.toml"))
    assert profile(written(tmp_path, head=f'name = "mine"\n{HEAD}', name="My Copy.toml")).name == "mine"


def test_all_mistakes_of_a_profile_are_in_one_error(tmp_path: Path) -> None:
    """A mistake in format or name does not hide mistakes in the workloads."""
    with pytest.raises(SpecError) as raised:
        profile(written(tmp_path, "seconds = true", head=HEAD.replace("1", "2"), name="My Copy.toml"))
    lines = str(raised.value).splitlines()

    assert lines[0].endswith("has 3 mistakes:")
    assert [line.split(": ")[0].strip() for line in lines[1:]] == ["format", "name", "workload 1.seconds"]

    (tmp_path / "empty.toml").write_text(HEAD)
    with pytest.raises(SpecError, match=r"workload: missing; expected one or more \[\[workload\]\] tables"):
        profile(tmp_path / "empty.toml")


def test_too_many_points_are_refused(tmp_path: Path) -> None:
    """More than a hundred thousand points would take too long."""
    with pytest.raises(SpecError, match="at most 100000 points"):
        profile(written(tmp_path, "zones = 1024"), Changes(repeats=1000))


def test_a_workload_without_points_is_refused(tmp_path: Path) -> None:
    """Block sizes above the range are omitted; if all are, there is nothing to measure and no range to fill."""
    axis = '[[axis]]\nkey = "block_size"\nvalues = ["4K", "8K"]'
    with pytest.raises(SpecError, match="a range of at least one block for workload w"):
        profile(written(tmp_path, 'range = "1K"', axis))

    kept = [workload.block_size_bytes for workload, _ in profile(written(tmp_path, 'range = "4K"', axis)).cases()]
    assert kept == [4096]


def test_changes_are_applied_and_reported() -> None:
    """The operator's changes are in the profile, and each is a deviation from the file."""
    changes = Changes(
        repeats=1, seconds=0.5, ramp_seconds=0.0, range="1M", axes=(("block_size", ("4 KiB",)), ("fio.direct", (0, 1)))
    )
    specification = read_profile("random-write-matrix", changes)
    assert isinstance(specification.spec, ProfileSpec)
    workload, _ = next(specification.spec.cases())

    assert (specification.spec.repeats, workload.seconds, workload.ramp_seconds, workload.range_bytes) == (
        1,
        0.5,
        0.0,
        1 << 20,
    )
    assert [deviation.what for deviation in specification.deviations] == [
        "repeats",
        "axis block_size",
        "axis fio.direct",
        "workload.seconds",
        "workload.ramp_seconds",
        "workload.range",
    ]
    assert {item.clause for item in specification.deviations} == {"profile random-write-matrix"}


def test_a_range_truncates_the_axis_of_ranges() -> None:
    """Larger ranges of an axis are omitted, which is reported once."""
    specification = read_profile("file-matrix", Changes(range="5M"))
    assert isinstance(specification.spec, ProfileSpec)

    assert [axis.values for axis in specification.spec.axis if axis.key == "range"] == [("1 MiB", "4 MiB")]
    assert [deviation.what for deviation in specification.deviations] == ["axis range"]
    assert read_profile("etcd-fsync", Changes(range="1G")).deviations == ()  # no workload covers that much


@pytest.mark.parametrize(
    ("text", "key", "values"),
    [
        ("queue_depth=1,4, 16", "queue_depth", (1, 4, 16)),
        ("seconds=0.5", "seconds", (0.5,)),
        ("block_size=4096,64 KiB", "block_size", (4096, "64 KiB")),
        ("fio.nice=-5", "fio.nice", (-5,)),
        ("host.scheduler=none,bfq", "host.scheduler", ("none", "bfq")),
    ],
)
def test_an_axis_on_the_command_line(text: str, key: str, values: tuple[Any, ...]) -> None:
    """Integers and decimals are numbers, everything else is text."""
    assert parse_axis(text) == (key, values)


@pytest.mark.parametrize("text", ["", "x", "=1", "x=", "x=1,,2", " =1"])
def test_an_invalid_axis_is_refused(text: str) -> None:
    """Without a key or a value it is refused with an example."""
    with pytest.raises(UsageError, match="not KEY=VALUE,VALUE"):
        parse_axis(text)


@given(st.text(max_size=60))
def test_any_axis_is_accepted_or_refused(text: str) -> None:
    """Any argument of --axis gives a profile or an error message."""
    with suppress(SniaPtsError):
        read_profile("queue-depth", Changes(axes=(parse_axis(text),)))


@given(
    option=st.sampled_from(sorted(ALLOWED)), value=st.text(max_size=40) | st.integers() | st.floats() | st.booleans()
)
def test_options_add_no_lines(option: str, value: Any) -> None:
    """A valid option is in the job file once, as one line that fio cannot take for another option."""
    if rejection_reason(option, value):
        return
    stimulus = next(iter(points(profile_of(option, value), dut(kind="file")))).stimulus
    lines = fio.job_file(stimulus, "/x", "libaio", 1 << 61).splitlines()
    named = [line for line in lines if line.startswith(f"{option}=")]
    expected = (
        "0" if option == SAME_OFFSETS else fio_value(value)
    )  # the seed repeats the offsets with any version of fio
    assert named == [f"{option}={expected}"]
    assert not set("\\$#;\n\"' ") & set(named[0])
    assert [line for line in lines if line.startswith("filename")] == ["filename=${SNIA_PTS_TARGET}"]


def profile_of(option: str, value: Any) -> ProfileSpec:
    """Return a profile of two files with one option of fio, without samples and a ramp, as gtod_reduce demands."""
    base = replace(profile(profile_path("queue-depth")).workload[0], ramp_seconds=0, sample_seconds=None)
    several = base.with_axis_value("range", "1 GiB").with_axis_value("queue_depth", 1).with_axis_value("fio.nrfiles", 2)
    workload = several.with_axis_value(f"fio.{option}", value)
    return ProfileSpec(name="p", title="P", description="p", source="s", workload=(workload,))


#: Options that name a path or a program, or replace an option on which the suite depends.
FORBIDDEN = (
    "filename",
    "directory",
    "exec_prerun",
    "exec_postrun",
    "ioscheduler",
    "read_iolog",
    "write_iolog",
    "write_lat_log",
    "replay_redirect",
    "opendir",
    "filename_format",
    "mem",
    "iomem",
    "include",
    "cgroup",
    "uid",
    "gid",
    "verify",
    "rw",
    "allow_mounted_write",
    "create_only",
    "bs",
    "size",
    "io_size",
    "offset",
    "numjobs",
    "thread",
    "group_reporting",
    "new_group",
    "randseed",
    "clocksource",
    "unlink",
    "trim_percentage",
    "disable_lat",
    "lat_percentiles",
    "loops",
    "number_ios",
    "runtime",
    "ramp_time",
    "log_avg_msec",
    "clat_percentiles",
    "bssplit",
    "latency_target",
)


@pytest.mark.parametrize("option", FORBIDDEN)
def test_options_on_which_the_suite_depends_are_refused(option: str) -> None:
    """A profile cannot set such an option."""
    assert rejection_reason(option, 1)


def test_engines_do_io_on_the_target_only() -> None:
    """No engine accesses anything else, and each does I/O."""
    assert not ENGINES & {
        "net",
        "exec",
        "null",
        "rdma",
        "mtd",
        "cpuio",
        "http",
        "sg",
        "splice",
        "filecreate",
        "external",
    }


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ('block_size = "4K/60:64K/30"', "block_size: '4K/60:64K/30': expected shares that add up to 100"),
        ('block_size = "4K/60:64K"', "block_size: '64K': expected a size and its share, like 4 KiB/60"),
        ('block_size = "4K/60:x/40"', "block_size: 'x': expected a size like 4 KiB"),
        ('block_size = "4K/60:64K/40"\nramp_seconds = 1', "no ramp_seconds for a mix of block sizes"),
        ('block_size = "4K/60:64K/40"\nfio = { norandommap = 0 }', "norandommap 1 for a mix of block sizes"),
    ],
)
def test_a_mix_of_block_sizes_has_sizes_and_shares(change: str, why: str, tmp_path: Path) -> None:
    """Each mistake has a message; so has a mix where the amount or the order of the blocks must be known."""
    path = written(tmp_path, "seconds = 5")
    path.write_text(path.read_text().replace('block_size = "4K"', change))
    with pytest.raises(SpecError) as refused:
        profile(path)
    assert why in str(refused.value)
    path.write_text(path.read_text().replace(change, 'block_size = "4K/60:64K/40"').replace("RND", "SEQ"))
    with pytest.raises(SpecError, match="random access, seconds and no ramp_seconds"):
        profile(path)


def test_an_axis_has_no_mix_of_block_sizes(tmp_path: Path) -> None:
    """A mix cannot be ordered among sizes."""
    with pytest.raises(SpecError, match="single sizes for an axis"):
        profile(written(tmp_path, "seconds = 5"), Changes.parse(["axis.block_size=4K,4K/60:64K/40"]))
