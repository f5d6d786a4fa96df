"""``--plan`` as a user reads it: its numbers, its length, and that it refuses what the run would refuse."""

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
    """Return the only row of a step."""
    (found,) = (line for line in text.splitlines() if line.startswith(f"  {label}  "))
    return found


# -- what it counts ---------------------------------------------------------------------------------------------------


def test_an_overwrite_is_in_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """--purge overwrite writes the target once more for each purge; what a vendor's tool writes is unknown."""
    sums = {}
    for options in ((), ("--purge", "overwrite"), ("--purge-command", "true {device}")):
        words = ("throughput", "x.img", "--size", "64M", "--plan", "--json", "--assume", "500")
        assert main([*words, *options]) == 0
        sums[options] = json.loads(capsys.readouterr().out)["shortest"]
    plain, overwritten, vendor = sums.values()

    assert overwritten["written_bytes"] - plain["written_bytes"] == 2 * 64 * MIB
    assert overwritten["seconds"] - plain["seconds"] == pytest.approx(2 * 64 * MIB / 500e6)
    assert vendor == plain


def test_the_plan_says_whether_the_purge_is_counted() -> None:
    """The drive's own purge takes an unknown time, an overwrite a known one, an omitted purge none."""
    own, overwrite, none = (text_of(spec_of("iops"), purging) for purging in ("device", "overwrite", "none"))

    assert ("1 x, not counted" in row(own, "Purge"), "but not the purge" in own) == (True, True)
    assert ("960 GB" in row(overwrite, "Purge"), "but not" in overwrite) == (True, False)
    assert ("omitted" in row(none, "Purge"), "but not" in none) == (True, False)
    assert "but not the purge" in "\n".join(suite_lines([planned(spec_of("iops"))], dut()))


def test_an_omitted_purge_is_no_step_in_json() -> None:
    """The JSON has no such step, and gives the reason."""
    described = plan_json(planned(spec_of("iops"), "none"), dut())
    assert described["assumptions"]["purge"] == "none"
    assert [step["kind"] for step in described["shortest"]["steps"]] == ["continuous", "round"]
    assert [step["kind"] for step in described["longest"]["steps"]] == ["continuous", "round"]


def test_a_profile_without_its_purge_is_a_deviation(capsys: pytest.CaptureFixture[str]) -> None:
    """The profile wants an empty file; the run's report lists the deviation too."""
    words = ("profile", "run", "etcd-fsync", "x.img", "--size", "32M", "--plan", "--json")
    actual = {}
    for options in ((), ("--purge", "none")):
        assert main([*words, *options]) == 0
        actual[options] = [deviation["actual"] for deviation in json.loads(capsys.readouterr().out)["deviations"]]
    assert list(actual.values()) == [[], ["not purged"]]


def test_the_settings_of_the_host_are_listed() -> None:
    """The plan has all their values; the time to prepare the host is not counted."""
    axes = [Axis(key="host.scheduler", values=("none", "bfq")), Axis(key="host.governor", values=("performance",))]
    spec = profiles.spec(axes=axes)
    text = text_of(spec)

    assert "changes host settings and restores them: scheduler none, bfq; governor performance" in text
    assert "but not preparing the host" in text
    assert plan_json(planned(spec), dut())["host_settings"] == {
        "scheduler": ["none", "bfq"],
        "governor": ["performance"],
    }
    assert "sets the host" not in text_of(profiles.spec())


@pytest.mark.long
def test_an_unbounded_time_is_a_minimum(capsys: pytest.CaptureFixture[str]) -> None:
    """A profile that ends after a number of I/Os takes as long as they do: its longest time is given as a minimum."""
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


@pytest.mark.long
def test_a_plan_lists_the_given_limits(capsys: pytest.CaptureFixture[str]) -> None:
    """All are counted and those of this test listed; without limits the plan does not mention them."""
    Path("limits.toml").write_text(LIMITS)
    output = {}
    for verb in ("iops", "throughput", "all"):
        assert main([verb, "x.img", "--size", "1G", "--plan", "--limits", "limits.toml"]) == 0
        output[verb] = capsys.readouterr().out

    assert (
        "  3 limits, 2 on this test\n"
        "    iops at RND 4 KiB 0/100: at least 50 000 IOPS (47 500 with 5 % tolerance)\n"
        "    iops at RND 8 KiB 0/100: at least 20 000 IOPS and at most "
    ) in output["iops"].replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert "  3 limits, none on this test\n" in output["throughput"]
    assert "  3 limits: 2 on iops, none on throughput, none on latency, 1 on wsat\n" in output["all"]
    assert main(["iops", "x.img", "--size", "1G", "--plan", "--json", "--limits", "limits.toml"]) == 0
    assert [limit["at"] for limit in json.loads(capsys.readouterr().out)["limits"]] == [
        "RND 4 KiB 0/100",
        "RND 8 KiB 0/100",
    ]
    assert "limit" not in text_of(spec_of("iops"))


def test_many_limits_are_summarised() -> None:
    """The first limits of a test are listed one by one, followed by the number of the others."""
    limit = Limit(test="iops", metric="iops", at="RND 4 KiB 0/100", unit="IOPS", minimum=1)
    many = replace(planned(spec_of("iops")), limits=(limit,) * 30)
    lines = list(plan_lines(many, dut()))
    assert [line.strip() for line in lines if line.endswith(" more")] == ["and 25 more"]
    assert sum("iops at RND 4 KiB 0/100" in line for line in lines) == 5


# -- how long it is ---------------------------------------------------------------------------------------------------


@pytest.mark.long_but_first
@pytest.mark.parametrize("spec", [*map(spec_of, TESTS), *(read_profile(name).spec for name in builtin_profiles())])
def test_a_plan_fits_on_a_page(spec: Spec) -> None:
    """This holds for each test and profile; rows add up to the total, and a drive without a known time has none."""
    text, described = text_of(spec), plan_json(planned(spec), dut())

    assert len(text.splitlines()) <= 45
    assert "the drive's" not in text
    for course in (described["shortest"], described["longest"]):
        for what in ("seconds", "written_bytes"):
            assert sum(step[what] for step in course["steps"]) == pytest.approx(course[what])


def test_zones_and_repeats_are_grouped() -> None:
    """A row has the number of repeats of its step; sizes that are listed explicitly have separate rows."""
    text = text_of(profiles.spec(profiles.workload(zones=16), axes=[Axis(key="queue_depth", values=(1, 2))], repeats=3))
    rows = [line for line in text.splitlines() if ": Round" in line]
    assert ["48 x" in item for item in rows] == [True, True]
    assert [entry.split(":")[0].strip() for entry in rows] == ["random read, Q1", "random read, Q2"]


def test_many_points_are_grouped_by_workload() -> None:
    """With a row for each point there would be hundreds."""
    depths = tuple(range(1, 257))
    workloads = [profiles.workload(), profiles.workload("write", read_percent=0, fresh=True)]
    text = text_of(profiles.spec(*workloads, axes=[Axis(key="queue_depth", values=depths)]))
    assert [line.split("  ")[1] for line in text.splitlines() if " 256 x" in line] == [
        "random read, ...: Round",
        "write, ...: Purge",
        "write, ...: Round",
    ]


# -- what it refuses --------------------------------------------------------------------------------------------------


def both(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Require that plan and run are refused with the same code and message, and the plan creates nothing."""
    capsys.readouterr()
    before = sorted(Path().rglob("*"))
    code = main([*words, "--plan"])
    out, output = capsys.readouterr()
    assert (out, sorted(Path().rglob("*"))) == ("", before)
    assert main([*words, "--progress", "none", "--to", "none"]) == code != 0
    assert _without_host_facts(capsys.readouterr().err) == _without_host_facts(output)
    return code, output


def _without_host_facts(text: str) -> str:
    """Leave out facts of the host that change between two commands: free space, unreadable processes, other runs."""
    notices = ("snia-pts: not checked: ", "snia-pts: another run of snia-pts ")
    lines = (line for line in text.splitlines(keepends=True) if not line.startswith(notices))
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


@pytest.mark.long_but_first
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
def test_a_plan_is_refused_for_the_reasons_of_its_run(
    make: Any, words: str, code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both have the same message and code, and nothing is created."""
    if "host." in words:
        need_root()
    with ExitStack() as stack:
        if make is not None:
            make(stack)
        found = both(capsys, *words.split())
        assert (found[0], text in found[1]) == (code, True), found


@pytest.mark.long
@pytest.mark.parametrize("option", ["registerfiles", "userspace_reap"])
def test_options_of_one_io_engine_are_planned_and_run_with_it(option: str, tmp_path: Path) -> None:
    """An option that fio accepts with io_uring only, or with libaio only, is planned and measured with that engine."""
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


@pytest.mark.long
@pytest.mark.parametrize(("lockable_bytes", "named"), [(None, True), (0, False)])
def test_the_result_names_fixed_buffers(
    lockable_bytes: int | None, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Either every job of a run has fixed buffers, and its result says so; or none, if memory may not be locked."""
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


@pytest.mark.long
def test_a_plan_refuses_a_drive_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reasons are its users, its content, another serial number, and a file that a device is based on."""
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
    """Put a fio that is too old first in PATH."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/fio").write_text("#!/bin/sh\necho fio-2.1\n")
    (tmp_path / "bin/fio").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    process.find.cache_clear()
    yield
    process.find.cache_clear()


@pytest.mark.usefixtures("_no_path")
def test_a_plan_needs_the_tools_of_its_run(capsys: pytest.CaptureFixture[str]) -> None:
    """A fio that is too old is refused; a simulated drive needs no fio."""
    code, message = both(capsys, "iops", "x.img", "--size", "8M")
    assert (code, "fio-2.1" in message, Path("x.img").exists()) == (4, True, False)
    assert main(["iops", "sim:enterprise-nvme", "--plan"]) == 0


@pytest.mark.long_but_first
@pytest.mark.parametrize("verb", ["iops", "all"])
def test_a_plan_names_both_ends_of_a_symlink(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The operator sees the target of the symlink before anything is destroyed; an ordinary path is not repeated."""
    image = filled(tmp_path / "disk.img", 4 * MIB)
    Path("link.img").symlink_to(image)
    for given, where in (("link.img", f"on {image} (given as link.img): "), ("disk.img", f"on {image}: ")):
        assert main([verb, given, "--plan", "--overwrite"]) == 0
        assert where in capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize("version", ["2.0.2", "1.1"])
def test_the_shortened_all_of_the_documentation_takes_about_three_minutes(
    version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command of docs/usage.rst, and for PTS 1.1 the same without the settings that it says to omit."""
    text = (Path(__file__).parents[1] / "docs" / "usage.rst").read_text()
    (command,) = re.findall(r"^ +snia-pts (all trial\.img(?:.*\\\n)+.*)$", text, re.MULTILINE)
    words = command.replace("\\\n", " ").split()
    if version == "1.1":
        omitted = {place for place, word in enumerate(words) if ".histogram.seconds=" in word}
        assert len(omitted) == 2
        words = [word for place, word in enumerate(words) if not {place, place + 1} & omitted]
    assert main([*words, "--pts", version, "--plan", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)

    assert len(document["tests"]) == 4
    assert 60 < document["shortest"]["seconds"] <= document["longest"]["seconds"] < 300
