"""``--plan`` as a user reads it: what it counts, how long it is, and that it refuses what the run would refuse."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from snia_pts.cli.main import main
from snia_pts.cli.text.plan import plan_json, plan_lines, suite_lines
from snia_pts.lab.process import program as process
from snia_pts.model.dut import AssumedSpeed
from snia_pts.procedures.estimator import Assumptions, PurgeKind, plan
from snia_pts.profiles.reader import builtin_profiles, read_profile
from snia_pts.profiles.spec import Axis
from snia_pts.runner.setup import TestEstimate
from snia_pts.spec import Spec
from snia_pts.spec.limits import Limit
from tests import profiles
from tests.drives import MIB, filled, loop_device, make_ext4, mounted, need_program, need_root
from tests.strategies import TESTS, dut, spec_of


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def planned(spec: Spec, purging: PurgeKind = "device") -> TestEstimate:
    """Return the plan of a test, or a profile, on 960 GB."""
    speed = AssumedSpeed.constant(500)
    assumed = Assumptions(speed=speed, overhead_seconds=0.3, between_seconds=0.03, purge=purging)
    return TestEstimate(dut=dut(), spec=spec, plan=plan(spec, dut(), assumed), deviations=())


def text_of(spec: Spec, purging: PurgeKind = "device") -> str:
    return "\n".join(plan_lines(planned(spec, purging), dut()))


def row(text: str, label: str) -> str:
    """Return the one row of a step."""
    (found,) = (line for line in text.splitlines() if line.startswith(f"  {label}  "))
    return found


# -- what it counts ---------------------------------------------------------------------------------------------------


def test_an_overwrite_is_in_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """--purge overwrite writes the target once more for each purge; what a vendor's tool writes nobody knows."""
    sums = {}
    for options in ((), ("--purge", "overwrite"), ("--purge-command", "true {device}")):
        words = ("throughput", "x.img", "--size", "64M", "--plan", "--json", "--assume", "500")
        assert main([*words, *options]) == 0
        sums[options] = json.loads(capsys.readouterr().out)["shortest"]
    plain, overwritten, vendor = sums.values()

    assert overwritten["written_bytes"] - plain["written_bytes"] == 2 * 64 * MIB
    assert overwritten["seconds"] - plain["seconds"] == pytest.approx(2 * 64 * MIB / 500e6)
    assert vendor == plain


def test_the_words_tell_whether_the_purge_is_counted() -> None:
    """The drive's own takes a time that nobody knows; an overwrite takes a known one; what is left out takes none."""
    own, overwrite, none = (text_of(spec_of("iops"), purging) for purging in ("device", "overwrite", "none"))

    assert ("1 x, not counted" in row(own, "Purge"), "besides the purge" in own) == (True, True)
    assert ("960 GB" in row(overwrite, "Purge"), "besides" in overwrite) == (True, False)
    assert ("omitted" in row(none, "Purge"), "besides" in none) == (True, False)
    assert "besides the purge" in "\n".join(suite_lines([planned(spec_of("iops"))], dut()))


def test_a_purge_that_is_left_out_is_no_step_for_programs() -> None:
    """Its JSON has none, and says why."""
    told = plan_json(planned(spec_of("iops"), "none"), dut())
    assert told["assumptions"]["purge"] == "none"
    assert [step["kind"] for step in told["shortest"]["steps"]] == ["continuous", "round"]
    assert [step["kind"] for step in told["longest"]["steps"]] == ["continuous", "round"]


def test_a_profile_that_is_not_purged_is_a_difference_from_it(capsys: pytest.CaptureFixture[str]) -> None:
    """It wants an empty file; the run's report says so too."""
    words = ("profile", "run", "etcd-fsync", "x.img", "--size", "32M", "--plan", "--json")
    told = {}
    for options in ((), ("--purge", "none")):
        assert main([*words, *options]) == 0
        told[options] = [deviation["actual"] for deviation in json.loads(capsys.readouterr().out)["deviations"]]
    assert list(told.values()) == [[], ["not purged"]]


def test_the_settings_of_the_host_are_told() -> None:
    """With all their values; what prepares the host takes a time that is not counted."""
    axes = [Axis(key="host.scheduler", values=("none", "bfq")), Axis(key="host.governor", values=("performance",))]
    spec = profiles.spec(axes=axes)
    text = text_of(spec)

    assert "changes host settings and restores them: scheduler none, bfq; governor performance" in text
    assert "besides preparing the host" in text
    assert plan_json(planned(spec), dut())["host_settings"] == {
        "scheduler": ["none", "bfq"],
        "governor": ["performance"],
    }
    assert "sets the host" not in text_of(profiles.spec())


def test_what_no_time_bounds_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A profile that ends with so many I/Os takes as long as these do: its longest time is a least one."""
    words = ("profile", "run", "etcd-fsync", "x.img", "--size", "32M", "--plan")
    assert main(list(words)) == 0
    output = capsys.readouterr().out
    (longest,) = (line for line in output.splitlines() if line.startswith("  longest: "))

    assert " or more" in row(output, "fdatasync: Round")
    assert " or more, writes at most 23.07 MB" in longest
    assert "1 step ends after an amount of data, not after a time" in output
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["longest"]["open_ended"] == 1
    assert "or more:" not in text_of(spec_of("iops"))
    assert " with an amount, " not in text_of(spec_of("iops"))


LIMITS = """
format = 1
limit = [
    { test = "iops", metric = "iops", at = "RND 4 KiB 0/100", unit = "IOPS", minimum = 50000, tolerance_percent = 5 },
    { test = "iops", metric = "iops", at = "RND 8 KiB 0/100", unit = "IOPS", minimum = 20000, maximum = 30000 },
    { test = "wsat", metric = "iops", at = "stimulus, measurement window", unit = "IOPS", minimum = 1 },
]
"""


def test_a_plan_repeats_the_limits_that_it_took(capsys: pytest.CaptureFixture[str]) -> None:
    """All are counted, those of this test told; none is told too, and nothing where none were given."""
    Path("limits.toml").write_text(LIMITS)
    told = {}
    for verb in ("iops", "throughput", "all"):
        assert main([verb, "x.img", "--size", "1G", "--plan", "--limits", "limits.toml"]) == 0
        told[verb] = capsys.readouterr().out

    assert (
        "  3 limits, 2 on this test\n"
        "    iops at RND 4 KiB 0/100: at least 50 000 IOPS (47 500 with 5 % tolerance)\n"
        "    iops at RND 8 KiB 0/100: at least 20 000 IOPS and at most "
    ) in told["iops"].replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert "  3 limits, none on this test\n" in told["throughput"]
    assert "  3 limits: 2 on iops, none on throughput, none on latency, 1 on wsat\n" in told["all"]
    assert main(["iops", "x.img", "--size", "1G", "--plan", "--json", "--limits", "limits.toml"]) == 0
    assert [limit["at"] for limit in json.loads(capsys.readouterr().out)["limits"]] == [
        "RND 4 KiB 0/100",
        "RND 8 KiB 0/100",
    ]
    assert "limit" not in text_of(spec_of("iops"))


def test_many_limits_are_no_second_page() -> None:
    """The first of a test are told one by one, and how many more there are."""
    limit = Limit(test="iops", metric="iops", at="RND 4 KiB 0/100", unit="IOPS", minimum=1)
    many = replace(planned(spec_of("iops")), limits=(limit,) * 30)
    lines = list(plan_lines(many, dut()))
    assert [line.strip() for line in lines if line.endswith(" more")] == ["and 25 more"]
    assert sum("iops at RND 4 KiB 0/100" in line for line in lines) == 5


# -- how long it is ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [*map(spec_of, TESTS), *(read_profile(name).spec for name in builtin_profiles())])
def test_a_plan_is_a_page(spec: Spec) -> None:
    """Of each test and each profile; what stands together adds up to the whole, and nothing is said of a drive's time
    that is none.
    """
    text, told = text_of(spec), plan_json(planned(spec), dut())

    assert len(text.splitlines()) <= 45
    assert "the drive's" not in text
    for course in (told["shortest"], told["longest"]):
        for what in ("seconds", "written_bytes"):
            assert sum(step[what] for step in course["steps"]) == pytest.approx(course[what])


def test_zones_and_repeats_stand_together() -> None:
    """A row tells how often its step comes, and the sizes that are asked for one by one stay apart."""
    text = text_of(profiles.spec(profiles.workload(zones=16), axes=[Axis(key="queue_depth", values=(1, 2))], repeats=3))
    rows = [line for line in text.splitlines() if ": Round" in line]
    assert ["48 x" in item for item in rows] == [True, True]
    assert [entry.split(":")[0].strip() for entry in rows] == ["random read, Q1", "random read, Q2"]


def test_many_points_stand_together_by_workloads() -> None:
    """Where each had a row of its own there would be hundreds."""
    depths = tuple(range(1, 257))
    asked = [profiles.workload(), profiles.workload("write", read_percent=0, fresh=True)]
    text = text_of(profiles.spec(*asked, axes=[Axis(key="queue_depth", values=depths)]))
    assert [line.split("  ")[1] for line in text.splitlines() if " 256 x" in line] == [
        "random read, ...: Round",
        "write, ...: Purge",
        "write, ...: Round",
    ]


# -- what it refuses --------------------------------------------------------------------------------------------------


def both(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Plan and run: both refuse it, by the same code and words, which are returned; the plan makes nothing."""
    capsys.readouterr()
    before = sorted(Path().rglob("*"))
    code = main([*words, "--plan"])
    out, output = capsys.readouterr()
    assert (out, sorted(Path().rglob("*"))) == ("", before)
    assert main([*words, "--progress", "none", "--to", "none"]) == code != 0
    assert _without_host_facts(capsys.readouterr().err) == _without_host_facts(output)
    return code, output


def _without_host_facts(text: str) -> str:
    """Leave out what the host changes between two commands: the free space, and processes that cannot be examined."""
    lines = (line for line in text.splitlines(keepends=True) if not line.startswith("snia-pts: not checked: "))
    return re.sub(r"\d[\d.]* \w+ (?=of free space)", "", "".join(lines))


def _foreign(stack: ExitStack) -> None:
    del stack
    filled(Path("x.img"))


def _linked(stack: ExitStack) -> None:
    _foreign(stack)
    Path("y.img").hardlink_to("x.img")


def _locked(stack: ExitStack) -> None:
    _foreign(stack)
    descriptor = os.open("x.img", os.O_RDONLY)
    stack.callback(os.close, descriptor)
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def _opened(stack: ExitStack) -> None:
    _foreign(stack)
    with Path("x.img").open("r+b") as file:
        sleeper = stack.enter_context(subprocess.Popen(["sleep", "60"], stdin=file))
    stack.callback(sleeper.kill)


def _immutable(stack: ExitStack) -> None:
    need_root()
    need_program("chattr", "e2fsprogs")
    _foreign(stack)
    done = subprocess.run(["chattr", "+i", "x.img"], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("this file system has no immutable files")
    stack.callback(subprocess.run, ["chattr", "-i", "x.img"], check=True)


def _full_folder(stack: ExitStack) -> None:
    del stack
    Path("full").mkdir()
    Path("full/note").touch()


@pytest.mark.parametrize(
    ("make", "words", "code", "text"),
    [
        (_foreign, "iops x.img", 8, "did not create it"),
        (_linked, "iops x.img --overwrite", 10, "2 names"),
        (_locked, "iops x.img --overwrite", 7, "locked it"),
        (_opened, "iops x.img --overwrite", 7, "sleep"),
        (None, "iops /proc/x.img --size 1M", 10, "it is a file below /proc"),
        (None, "iops x.img --size 900T", 10, "free space"),
        (_foreign, "all x.img --overwrite --size 900T", 10, "free space"),
        (None, "iops none/x.img --size 1M", 6, "none does not exist"),
        (None, "iops x.img --size 100K", 10, "is less than one block"),
        (_full_folder, "iops x.img --size 8M --run-dir full", 5, "not empty"),
        (_full_folder, "iops run/evidence/x.img --size 8M --run-dir run", 5, "the target run/evidence/x.img is in it"),
        (_full_folder, "all ./run/result.xml --size 8M --run-dir run", 5, "the target run/result.xml is in it"),
        (_full_folder, "all x.img --size 8M --run-dir full", 5, "not empty"),
        (_full_folder, "iops x.img --size 8M --run-dir full/note", 5, "note"),
        (_full_folder, "iops x.img --size 8M --run-dir full/note/run", 5, "Not a directory"),
        (_immutable, "iops x.img --overwrite", 10, "Operation not permitted"),
        (None, "profile run etcd-fsync x.img --size 32M --axis fio.rate=fast", 2, "fio rejects the options"),
        (None, "profile run etcd-fsync x.img --size 32M --axis host.scheduler=nosuch", 10, "scheduler"),
    ],
)
def test_a_plan_refuses_what_its_run_would(
    make: Any, words: str, code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the same sentence and code, before anything is made."""
    if "host." in words:
        need_root()
    with ExitStack() as stack:
        if make is not None:
            make(stack)
        found = both(capsys, *words.split())
        assert (found[0], text in found[1]) == (code, True), found


@pytest.mark.parametrize("option", ["registerfiles", "userspace_reap"])
def test_options_of_one_i_o_engine_are_planned_and_run_with_it(option: str, tmp_path: Path) -> None:
    """What fio takes with io_uring alone, or with libaio alone, is planned, and measured with that one."""
    words = [
        "profile",
        "run",
        "queue-depth",
        "x.img",
        "--size",
        "4M",
        "--seconds",
        "0.1",
        "--ramp-seconds",
        "0",
        "--axis",
        "queue_depth=1",
        "--axis",
        f"fio.{option}=1",
        "--repeats",
        "1",
    ]
    engine, other = ("io_uring", "libaio") if option == "registerfiles" else ("libaio", "io_uring")

    assert main([*words, "--plan"]) == 0
    assert main([*words, "--plan", "--engine", other]) == main([*words, "--engine", other, "--run-dir", "no"]) == 2
    assert main([*words, "--to", "none", "--run-dir", "run"]) == 0
    assert f'io_engine="{engine}' in Path("run/result.xml").read_text()


@pytest.mark.parametrize(("lockable_bytes", "named"), [(None, True), (0, False)])
def test_the_result_names_fixed_buffers(
    lockable_bytes: int | None, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every job of a run has fixed buffers, and its result says so; or none has where memory may not be locked."""
    if named:
        need_root()  # other users may lock little memory
    monkeypatch.setattr("snia_pts.lab.fio.probe._lockable_bytes", lambda: lockable_bytes)
    words = ["profile", "run", "queue-depth", "x.img", "--size", "4M", "--seconds", "0.1", "--ramp-seconds", "0"]
    words += ["--axis", "queue_depth=1", "--repeats", "1", "--engine", "io_uring", "--to", "none", "--run-dir", "run"]

    assert main(words) == 0
    fixed = 'io_engine="io_uring, fixed buffers, random buffers scrambled"'
    assert (fixed in Path("run/result.xml").read_text()) is named
    jobs = [path.read_text().splitlines() for path in Path("run/evidence").glob("0000[1-9]-rnd*.fio")]
    assert jobs
    assert all(("fixedbufs=1" in job) is named for job in jobs)


def test_a_plan_refuses_a_drive_that_is_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By who uses it, what is on it, or a serial number that is another's; and a file that a device is made of."""
    with loop_device(filled(tmp_path / "x.img"), 8 * MIB) as device:
        name = device.name
        assert both(capsys, "iops", str(device), "--serial", "other")[0] == 9
        assert both(capsys, "iops", str(tmp_path / "x.img"), "--overwrite")[0] == 7
        make_ext4(device)
        assert both(capsys, "iops", str(device), "--serial", name)[0] == 8
        with mounted(str(device), tmp_path / "m"):
            assert both(capsys, "iops", str(device), "--serial", name, "--discard-data")[0] == 7
        assert main(["iops", str(device), "--serial", name, "--discard-data", "--plan"]) == 0
    with loop_device(tmp_path / "x.img", read_only=True) as device:
        assert both(capsys, "iops", str(device), "--discard-data")[0] == 10


@pytest.fixture
def _no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a fio be found first that is too old."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/fio").write_text("#!/bin/sh\necho fio-2.1\n")
    (tmp_path / "bin/fio").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    process.find.cache_clear()
    yield
    process.find.cache_clear()


@pytest.mark.usefixtures("_no_path")
def test_a_plan_wants_the_tools_of_its_run(capsys: pytest.CaptureFixture[str]) -> None:
    """A fio that is too old is none; a simulated drive needs none."""
    code, told = both(capsys, "iops", "x.img", "--size", "8M")
    assert (code, "fio-2.1" in told, Path("x.img").exists()) == (4, True, False)
    assert main(["iops", "sim:enterprise-nvme", "--plan"]) == 0


@pytest.mark.parametrize("verb", ["iops", "all"])
def test_a_plan_names_both_ends_of_a_symlink(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The operator sees what a name leads to before anything is destroyed; an ordinary name is not repeated."""
    image = filled(tmp_path / "disk.img", 4 * MIB)
    Path("link.img").symlink_to(image)
    for given, where in (("link.img", f"on {image} (given as link.img): "), ("disk.img", f"on {image}: ")):
        assert main([verb, given, "--plan", "--overwrite"]) == 0
        assert where in capsys.readouterr().out.splitlines()[0]
