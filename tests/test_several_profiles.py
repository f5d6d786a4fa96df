"""Several profiles in one run: as ``all`` does with the tests of the standard, in one folder with one summary."""

from __future__ import annotations

import json
import re
import shutil
import statistics
import sys
from pathlib import Path

import pytest

from snia_pts.cli.main import main
from snia_pts.record.folder import RunFolder
from snia_pts.record.replay import assess
from snia_pts.units import number
from tests import tkperf_files

ZONES = """
format = 1
title = "{title}"
description = "Two profiles of a hard disk, shortened."
source = "this test"

[[workload]]
name = "{name}"
access = "{access}"
read_percent = 100
block_size = "64 KiB"
zones = 3
seconds = 1

[[axis]]
key = "read_percent"
values = [100, 0]
"""


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the argument that names two profiles in the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("first.toml").write_text(ZONES.format(title="First", name="random", access="RND"))
    Path("second.toml").write_text(ZONES.format(title="Second", name="sequential", access="SEQ"))
    return "first.toml,second.toml"


def run(profiles: str, *words: str) -> int:
    return main(["profile", "run", profiles, "sim:hdd", "--seed", "7", "--to", "rst", "--progress", "none", *words])


def values(folder: Path) -> list[float]:
    """Return the IOPS of the points of a run."""
    loops = assess(RunFolder.existing(folder)).loops
    return [item.iops for loop in loops for measured in loop.rounds for item in measured.measurements]


@pytest.mark.long
def test_both_are_in_one_folder_with_one_summary(profiles: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each has its own run folder; the summary has the median zone of each curve, and calls neither a PTS test."""
    assert run(profiles, "--run-dir", "both") == 0
    printed = capsys.readouterr().out

    assert json.loads(Path("both/suite.json").read_text())["tests"] == ["first", "second"]
    reads = values(Path("both/first"))[:3]
    assert f"100/0: {number(statistics.median(reads))} IOPS, median of the zones" in printed
    assert "2 of 2 tests finished" in printed
    summary = Path("both/summary.rst").read_text()
    assert "Workload profiles, not PTS tests" in summary
    assert "NOT PTS conformant" not in summary
    assert main(["assess", "both"]) == 0
    assert main(["report", "both", "--to", "rst"]) == 0
    assert Path("both/summary.rst").read_text() == summary


@pytest.mark.long
def test_a_run_that_stopped_continues_with_the_next_profile(profiles: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It measures what the complete run did, also from another folder: the seed and the path are in suite.json."""
    assert run(profiles, "--run-dir", "both") == 0
    assert run(profiles, "--run-dir", "part") == 0
    shutil.rmtree("part/second")
    Path("elsewhere").mkdir()
    part, both = Path("part").absolute(), Path("both").absolute()
    monkeypatch.chdir("elsewhere")

    assert main(["resume", str(part), "--progress", "none"]) == 0
    assert values(part / "second") == values(both / "second")
    assert len({options["seed"] for options in json.loads((part / "suite.json").read_text())["options"]}) == 2


def test_the_plan_has_both_and_the_total(profiles: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan of several profiles is that of several tests; nothing is written."""
    assert run(profiles, "--plan") == 0
    printed = capsys.readouterr().out
    assert "2 tests, Workload profile first, Workload profile second, on sim:hdd" in printed
    assert [line.split()[0] for line in printed.splitlines()[3:6]] == ["First", "Second", "total"]
    assert "No deviation from the profile" in printed
    assert sorted(path.name for path in Path().iterdir()) == ["first.toml", "second.toml"]


def test_a_limits_file_or_the_same_profile_twice_is_refused(profiles: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Limits name the points of one profile; two runs cannot have one folder."""
    Path("limits.toml").write_text(
        'format = 1\n[[limit]]\ntest = "profile"\nmetric = "iops"\nunit = "IOPS"\nminimum = 1\n'
        'at = "random, 100/0, zone 1"\n'
    )
    assert run(profiles, "--limits", "limits.toml") == 2
    assert "--limits is for one profile" in capsys.readouterr().err
    assert run("first.toml,first.toml") == 2
    assert "first: named twice" in capsys.readouterr().err


def test_the_summary_starts_on_a_clean_line(
    profiles: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a terminal, the progress line of the last point is removed before the summary, as after a single test."""
    monkeypatch.setattr("snia_pts.cli.commands.run.print_lines", lambda _: print("summary", file=sys.stderr))
    assert main(["profile", "run", profiles, "sim:hdd", "--run-dir", "both", "--to", "none", "--progress", "line"]) == 0
    last = capsys.readouterr().err.split("test 2 of 2")[1]
    assert re.search(r"zone 3[^\r]*\r +\rsummary\n", last)


@pytest.mark.long
def test_both_tests_of_a_hard_disk_are_one_file_of_tkperf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder of both exports to the elements of TKperf's own file of both."""
    monkeypatch.chdir(tmp_path)
    assert run("hdd-iops,hdd-throughput", "--run-dir", "both", "--seconds", "1", "--to", "none") == 0
    assert main(["export", "both", "--to", "tkperf", "--out", "both.xml"]) == 0
    capsys.readouterr()
    for name in (b"<IOPS", b"<TP"):
        assert (name in Path("both.xml").read_bytes()) == (name in tkperf_files.hdd_of_both())
