"""A run that goes on with another file, another host, or is seen and stopped between two tests of several."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from snia_pts.cli import resuming
from snia_pts.cli.main import main
from snia_pts.errors import Interrupted, NotResumable
from snia_pts.interruption import Interruption
from snia_pts.lab.device import block_dut, read_dut
from snia_pts.record.folder import RunFolder
from snia_pts.record.suite import SuiteFolder
from snia_pts.report.building import build
from snia_pts.result import TestResult
from tests import samples
from tests.fuzzing import corpora
from tests.strategies import dut

PLACE = RunFolder(path=Path("/runs/one"))
STOP = Interruption(
    stopped="2026-11-03T12:00:00+00:00", resumed="2026-11-03T13:00:00+00:00", idle_seconds=3600, reason="no power",
    way="continue", went_on="stimulus", lost_outcomes=100, lost_bytes=5 * 10**9,
)  # fmt: skip


def changes(before: Any, now: Any) -> list[str]:
    """Return what resuming tells of a target; raises NotResumable."""
    return list(resuming.drive_changes(PLACE, before, now))


# -- is it the same? --------------------------------------------------------------------------------------------------


def test_a_file_made_anew_is_another_one(tmp_path: Path) -> None:
    """A file that was removed and made anew, under the same name and size, is not what was measured."""
    target = tmp_path / "drive.img"
    target.write_bytes(bytes(1 << 20))
    before = read_dut(target)
    with target.open("r+b") as file:
        file.write(b"what the run writes")
    assert read_dut(target) == before
    assert changes(before, read_dut(target)) == []
    if before.instance is None:
        pytest.skip("this file system has no generation numbers")
    for _ in range(3):  # an inode is often used again
        target.unlink()
        target.write_bytes(bytes(1 << 20))
        with pytest.raises(NotResumable, match="is another file"):
            changes(before, read_dut(target))


def test_what_tells_nothing_is_told() -> None:
    """Where nothing tells a target from another one of its name and size, a reader learns of it."""
    plain = dut(serial="", instance="boot x, disk 7")
    assert changes(plain, plain) == []
    for before, now in ((plain, "boot y, disk 7"), (plain, None), (dataclasses.replace(plain, instance=None), None)):
        (told,) = changes(before, dataclasses.replace(plain, instance=now))
        assert told.startswith("identity of the drive: nothing tells that /dev/sdx is the same")
    file = dut(serial="", kind="file")
    assert len(changes(file, file)) == 1


def test_a_serial_number_tells_enough() -> None:
    """A drive with a serial number may be plugged in again."""
    assert changes(dut(instance=None), dut(instance=None)) == []
    with pytest.raises(NotResumable, match="serial"):
        changes(dut(), dut(serial="S2"))


def test_an_attachment_is_counted(tmp_path: Path) -> None:
    """A device without a serial number is known by the kernel's count of disks, and when the host was started."""
    block = tmp_path / "sys/block/sdx"
    (block / "device").mkdir(parents=True)
    (block / "size").write_text("2048\n")
    assert block_dut(Path("/dev/sdx"), block, tmp_path).instance is None
    (block / "diskseq").write_text("12\n")
    boot = tmp_path / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("abc\n")
    assert block_dut(Path("/dev/sdx"), block, tmp_path).instance == "boot abc, disk 12"
    (block / "device/serial").write_text("S1\n")
    assert block_dut(Path("/dev/sdx"), block, tmp_path).instance is None


# -- what a reader sees -----------------------------------------------------------------------------------------------


def shown(result: TestResult) -> list[str]:
    """Return the pages of a report as text, and at last its header."""
    report = build(result)
    return [*map(repr, report.pages), repr(report.header)]


def stopped(result: TestResult, **how: Any) -> TestResult:
    """Return a result that was interrupted."""
    return dataclasses.replace(result, interruptions=(dataclasses.replace(STOP, **how),))


@pytest.fixture(scope="module")
def saturation() -> TestResult:
    """A short write saturation."""
    return samples.result_of("wsat")


def test_sums_that_are_lower_bounds_say_so(saturation: TestResult) -> None:
    """A stimulus that went on without a purge begins at 0 again: each of its sums says that it is a lower bound."""
    whole, (first, *rest) = shown(saturation), shown(stopped(saturation))
    assert not any("lower bound" in page or "not FOB" in page for page in whole)
    assert "First sample (not FOB)" in first
    assert "; besides 5.000 GB that were set aside" in first
    assert "set aside" not in whole[0]
    assert first.count("at least") >= whole[0].count("at least") + 4
    sums = [page for page in rest[:-1] if any(name in page for name in ("vs TGBW", "TGBW (GB)", "vs Normalised"))]
    assert len(sums) == 3
    assert all("lower bounds; before it at least 5.000 GB were written" in page for page in sums)


@pytest.mark.parametrize("how", [{"way": "purge"}, {"lost_outcomes": 0}])
def test_a_stimulus_that_began_at_the_purge_is_whole(saturation: TestResult, how: Any) -> None:
    """What begins at a purge, or lost nothing, is from FOB to its end."""
    assert not any("lower bound" in page or "not FOB" in page for page in shown(stopped(saturation, **how)))


def test_another_host_is_told_beside_the_platform() -> None:
    """The platform is that of the beginning; where it changed, its block and the first page say so."""
    result = samples.iops_result()
    mark = "(until resumed: see warnings)"
    moved = shown(stopped(result, changes=("kernel: 6.9, was 6.1",)))
    assert "kernel: 6.9, was 6.1" in moved[0]
    assert any(mark in page for page in moved)
    for harmless in ((), ("path of the drive: /dev/sdy, was /dev/sdx",)):
        assert not any(mark in page for page in shown(stopped(result, changes=harmless)))


# -- between two tests ------------------------------------------------------------------------------------------------


@pytest.fixture
def between(tmp_path: Path) -> SuiteFolder:
    """Two tests of which the first has ended, without a report."""
    folder = SuiteFolder.create(tmp_path / "all", ("throughput", "latency"))
    corpora.stored("throughput", RunFolder.create(folder.place("throughput")))
    return folder


def test_several_tests_go_on_between_two_of_them(between: SuiteFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """While a report is made no journal is held: they go on all the same, and nothing tells how to resume them."""
    with between.held():
        assert main(["status", "--json", str(between.path)]) == 0
        first, second = json.loads(capsys.readouterr().out)
        assert first["told"].endswith("; its report is being made")
        assert (second["state"], first["command"], second["command"]) == ("not begun", "", "")
        (between.place("throughput") / "report.pdf").touch()
        main(["status", "--json", str(between.path)])
        assert "report" not in json.loads(capsys.readouterr().out)[0]["told"]
        with pytest.raises(NotResumable, match="it still goes on"), between.held():
            pass
    assert not between.goes_on
    main(["status", "--json", str(between.path)])
    assert json.loads(capsys.readouterr().out)[1]["command"] == f"snia-pts resume {between.path}"


def test_they_stop_between_two_of_them(between: SuiteFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """Asked to stop meanwhile, they stop before the next test; nobody runs, nobody stops."""
    assert main(["stop", str(between.path)]) == 17
    with between.held():
        assert main(["stop", str(between.path)]) == 0
    assert between.whole.stop_asked
    assert f"{between.path} stops before its next test" in capsys.readouterr().out


def test_a_resume_that_is_stopped_at_once_says_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped before anything went on, nothing was added, and the run can be resumed as before."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(resuming, "require_resumable", stop)
    corpora.stored("throughput", RunFolder.create(tmp_path / "run"))
    with pytest.raises(Interrupted) as told:
        resuming.resume(argparse.Namespace(run=tmp_path / "run", way="rule"))
    assert "no test had begun" not in str(told.value)
    assert told.value.hint == f"Nothing was added to it. snia-pts resume {tmp_path / 'run'} goes on with it."
