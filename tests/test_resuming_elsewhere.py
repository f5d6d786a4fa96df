"""Runs that are resumed with another file or on another host, or are inspected and stopped between two tests."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from snia_pts.arrays.setup import ArraySetup
from snia_pts.cli.main import main
from snia_pts.errors import DeviceFailed, Interrupted, NotResumable
from snia_pts.lab.device.identity import block_dut, read_dut
from snia_pts.model.array import BuiltArray, Layout, Member
from snia_pts.model.run_options import RunOptions
from snia_pts.record.entries import StartEntry
from snia_pts.record.folder import RunFolder
from snia_pts.record.journal import Journal
from snia_pts.record.suite import SuiteFolder
from snia_pts.report.registry import build
from snia_pts.results.interruption import Interruption
from snia_pts.results.result import TestResult
from snia_pts.results.target_deviations import target_deviations
from snia_pts.runner.caller import Caller
from snia_pts.runner.options import ResumeOptions
from snia_pts.runner.resume import drive_changes, resume, resume_claimed
from snia_pts.spec.reader import read_specification
from tests import samples
from tests.drives import MIB, btrfs_subvolumes, loop_device, mounted
from tests.fuzzing import corpora
from tests.strategies import dut

PLACE = RunFolder(path=Path("/runs/one"))
STOP = Interruption(
    stopped="2026-11-03T12:00:00+00:00",
    resumed="2026-11-03T13:00:00+00:00",
    idle_seconds=3600,
    reason="no power",
    policy="continue",
    next_step="stimulus",
    discarded_outcomes=100,
    discarded_bytes=5 * 10**9,
)


def changes(before: Any, now: Any, *, overwrite: bool = False) -> list[str]:
    """Return the differences that resuming reports of a target; raises NotResumable."""
    return list(drive_changes(PLACE, before, now, overwrite=overwrite))


# -- is it the same? --------------------------------------------------------------------------------------------------


def require_recreated_file_differs(target: Path) -> None:
    """Require that a file is the same when its content changes, and another one when it is created again."""
    target.write_bytes(bytes(1 << 20))
    before = read_dut(target)
    with target.open("r+b") as file:
        file.write(b"what the run writes")
    assert read_dut(target) == before
    assert changes(before, read_dut(target)) == []
    for _ in range(3):  # an inode is often reused
        target.unlink()
        target.write_bytes(bytes(1 << 20))
        with pytest.raises(NotResumable, match="is another file"):
            changes(before, read_dut(target), overwrite=True)


def test_a_recreated_file_is_another_file(tmp_path: Path) -> None:
    """A file that was removed and created again, with the same name and size, is not the one that was measured."""
    require_recreated_file_differs(tmp_path / "drive.img")


def test_a_file_without_generation_numbers_is_recognised(tmp_path: Path) -> None:
    """On tmpfs a file is identified by its inode and birth time."""
    with mounted("none", tmp_path / "memory", "-t", "tmpfs") as memory:
        require_recreated_file_differs(memory / "drive.img")
        (memory / "drive.img").write_bytes(bytes(4096))
        assert "born" in str(read_dut(memory / "drive.img").instance)


def test_a_file_of_another_subvolume_is_another_file(tmp_path: Path) -> None:
    """On btrfs inode and generation are small numbers, which recur in other file systems and in a snapshot."""
    with btrfs_subvolumes(tmp_path) as places:
        files = [place / "drive.img" for place in places]
        for file in files:
            file.write_bytes(bytes(MIB))
        os.sync()
        assert len({file.stat().st_ino for file in files}) == 1
        with loop_device(files[0]) as device:
            before = read_dut(device)
        with loop_device(files[0]) as device:
            assert changes(before, dataclasses.replace(read_dut(device), path=before.path)) == []
        with loop_device(files[1]) as device:
            now = dataclasses.replace(read_dut(device), path=before.path, model=before.model)
            with pytest.raises(NotResumable, match="is a loop device on another file"):
                changes(before, now, overwrite=True)


@pytest.mark.parametrize("recorded", [None, ""])
def test_a_file_that_the_journal_does_not_identify_is_not_the_same(recorded: str | None) -> None:
    """Without its identity, in the journal or from the file system, only --overwrite resumes with it."""
    known = dut(serial="", kind="file", instance="inode 7, generation 8")
    unknown = dataclasses.replace(known, instance=recorded)
    for before, now in ((unknown, known), (known, unknown), (unknown, unknown)):
        with pytest.raises(NotResumable, match="cannot identify") as refused:
            changes(before, now)
        assert "--overwrite" in refused.value.hint
        (change,) = changes(before, now, overwrite=True)
        assert "may be another" in change
    with pytest.raises(NotResumable, match="is another file"):
        changes(known, dataclasses.replace(known, instance="inode 7, generation 9"), overwrite=True)


def test_an_unidentified_target_is_reported() -> None:
    """If nothing distinguishes a target from another one of its name and size, the report says so."""
    plain = dut(serial="", instance="boot x, disk 7")
    assert changes(plain, plain) == []
    for before, now in ((plain, "boot y, disk 7"), (plain, None), (dataclasses.replace(plain, instance=None), None)):
        (change,) = changes(before, dataclasses.replace(plain, instance=now))
        assert change.startswith("identity of the drive: /dev/sdx has no serial number")


def test_a_loop_device_is_identified_by_its_part_of_a_file(tmp_path: Path) -> None:
    """Set up again on the same part it is the same device; on another part or file it is not."""
    image, size = tmp_path / "drive.img", ("--sizelimit", str(8 * MIB), "--offset")
    with loop_device(image, 32 * MIB, *size, str(MIB)) as device:
        before = read_dut(device)
    assert before.model == f"loop device on {image} from byte {MIB}"

    def again(offset_bytes: int) -> list[str]:
        with loop_device(image, 32 * MIB, *size, str(offset_bytes)) as device:
            return changes(before, dataclasses.replace(read_dut(device), path=before.path), overwrite=True)

    assert again(MIB) == []
    with pytest.raises(NotResumable, match=f"model of .*got loop device on {image} from byte {2 * MIB}"):
        again(2 * MIB)
    image.rename(tmp_path / "other.img")
    with pytest.raises(NotResumable, match="is a loop device on another file"):
        again(MIB)


def test_a_loop_device_on_a_loop_device_is_identified_by_the_lowest_file(tmp_path: Path) -> None:
    """The part of the file that the lower device shows counts, too."""
    image, size = tmp_path / "drive.img", ("--sizelimit", str(16 * MIB), "--offset")

    def again(offset_bytes: int) -> Any:
        with loop_device(image, 32 * MIB, *size, str(offset_bytes)) as lower, loop_device(lower) as upper:
            return dataclasses.replace(read_dut(upper), path="/dev/loop0", model="loop device on /dev/loop1")

    before = again(0)
    assert changes(before, again(0)) == []
    with pytest.raises(NotResumable, match="is a loop device on another file"):
        changes(before, again(MIB), overwrite=True)
    image.rename(tmp_path / "other.img")
    with pytest.raises(NotResumable, match="is a loop device on another file"):
        changes(before, again(0), overwrite=True)


def test_a_member_of_an_array_is_identified_by_its_file(tmp_path: Path) -> None:
    """Before the array is created again, a loop device of the same name and size on another file is another drive."""
    images = [tmp_path / f"member{number}.img" for number in range(2)]
    spec = read_specification("iops", "2.0.2", "enterprise").spec

    def again(**changed: Any) -> Any:
        with loop_device(images[0], 32 * MIB) as one, loop_device(images[1], 32 * MIB) as other:
            layout = Layout(format=1, controller="mdadm", level=1, members=(str(one), str(other)))
            array = ArraySetup(RunOptions(test="iops", target="array:x.toml"), print, layout).dut(spec)
        assert array.array is not None
        members = tuple(replace(member, path="/dev/loop0", model="disk") for member in array.array.members)
        return replace(array, array=replace(array.array, members=members), model="array", **changed)

    before = again()
    assert changes(before, again()) == []
    (change,) = changes(before, again(instance=f"; {before.instances[1]}"))
    assert change.startswith("identity of the drive: ")
    images[1].rename(tmp_path / "other.img")
    with pytest.raises(NotResumable, match="is an array with a loop device on another file"):
        changes(before, again(), overwrite=True)


def an_array(layout: dict[str, Any], members: Sequence[dict[str, Any]], **built: Any) -> Any:
    """Return the description of an array of two drives, with changes of its layout and members."""
    known: dict[str, Any] = {"model": "M", "firmware": "F", "capacity_bytes": 10**9, "rotational": False}
    drives = tuple(
        Member(**{**known, "path": f"/dev/sd{letter}", "serial": f"S{letter}", **changed})
        for letter, changed in zip("abc", members, strict=False)
    )
    paths = tuple(drive.path for drive in drives)
    made = {"format": 1, "controller": "mdadm", "level": 0, "chunk": "64K", "members": paths, **layout}
    return dut(model="array", serial="", array=BuiltArray(layout=Layout(**made), members=drives, **built))


OTHER_ARRAYS: dict[str, tuple[Any, str]] = {
    "level": (an_array({"level": 1, "chunk": ""}, [{}, {}], version="1"), "level of the array: expected 0, got 1"),
    "chunk": (
        an_array({"chunk": "128K"}, [{}, {}], version="1"),
        "chunk of the array: expected 64 KiB, got 128 KiB",
    ),
    "bitmap": (
        an_array({"bitmap": "internal"}, [{}, {}], version="1"),
        "bitmap of the array: expected none, got internal",
    ),
    "member replaced": (
        an_array({}, [{}, {"serial": "other"}], version="1"),
        "member 2 of the array: expected M Sb F, 1000000000 bytes, got M other F, 1000000000 bytes",
    ),
    "firmware": (an_array({}, [{"firmware": "G"}, {}], version="1"), "member 1 of the array: expected M Sa F,"),
    "order": (
        an_array({}, [{"serial": "Sb"}, {"serial": "Sa"}], version="1"),
        "member 1 of the array: expected M Sa F, 1000000000 bytes, got M Sb F",
    ),
    "another member": (an_array({}, [{}, {}, {}], version="1"), "members of the array: expected 2, got 3"),
    "data offset": (
        an_array({}, [{}, {}], version="1", properties=(("Metadata", "1.2"), ("Data offset (sectors)", "4096"))),
        "Data offset (sectors) of the array: expected 2048, got 4096",
    ),
}


@pytest.mark.parametrize("what", OTHER_ARRAYS)
def test_an_array_with_another_layout_is_refused(what: str) -> None:
    """The data of the run would be elsewhere, or another array would be measured."""
    properties = (("Metadata", "1.2"), ("Data offset (sectors)", "2048"))
    now, sentence = OTHER_ARRAYS[what]
    with pytest.raises(NotResumable, match=re.escape(sentence)):
        changes(an_array({}, [{}, {}], version="1", properties=properties), now)


def test_an_array_of_the_same_members_is_the_same() -> None:
    """They may have other names, the array another device; before it is created it has no facts of its own."""
    properties = (("Metadata", "1.2"), ("Virtual drive", "/c0/v1"))
    before = an_array({}, [{}, {}], version="1", properties=properties)
    renamed = [{"path": "/dev/sdx"}, {"path": "/dev/sdy"}]
    allowed = changes(before, before)
    assert changes(before, an_array({"device": "/dev/md7"}, renamed, version="")) == allowed
    assert changes(before, an_array({}, renamed, version="2", properties=(("Virtual drive", "/c0/v2"),))) == allowed


def test_another_target_is_refused_before_anything_changes_on_it() -> None:
    """Otherwise an array would be created from other drives, and the write cache set."""

    def changed(*_: object) -> None:
        raise AssertionError("the conditions were applied")

    facts: Any = SimpleNamespace(spec=None, dut=dut())
    plan: Any = SimpleNamespace(facts=facts)
    target: Any = SimpleNamespace(dut=lambda _: dut(serial="S2", write_cache="unknown"), conditions_applied=changed)
    options = RunOptions(test="iops", target="/dev/sdx")
    with pytest.raises(NotResumable, match="serial of /dev/sdx"):
        resume_claimed(PLACE, plan, target, options, Caller(), ())


def test_a_serial_number_is_enough() -> None:
    """A drive with a serial number may be reconnected."""
    assert changes(dut(instance=None), dut(instance=None)) == []
    with pytest.raises(NotResumable, match="serial"):
        changes(dut(), dut(serial="S2"))


def test_attachments_are_counted(tmp_path: Path) -> None:
    """A device without a serial number is identified by the kernel's count of disks and the boot time of the host."""
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
    """Return the pages of a report as text, followed by its header."""
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
    """A stimulus that was resumed without a purge counts from 0 again: each of its sums is marked as a lower bound."""
    whole, (first, *rest) = shown(saturation), shown(stopped(saturation))
    assert not any("lower bound" in page or "not FOB" in page for page in whole)
    assert "First sample (not FOB)" in first
    assert "; plus 5 GB in discarded measurements" in first
    assert "discarded" not in whole[0]
    assert first.count("at least") >= whole[0].count("at least") + 4
    sums = [page for page in rest[:-1] if any(name in page for name in ("vs TGBW", "TGBW (GB)", "vs Normalised"))]
    assert len(sums) == 4
    assert all("lower bounds; at least 5 GB were written before it" in page for page in sums)


@pytest.mark.parametrize("how", [{"policy": "purge"}, {"discarded_outcomes": 0}])
def test_a_stimulus_that_started_at_the_purge_is_complete(saturation: TestResult, how: Any) -> None:
    """A stimulus that starts at a purge, or lost nothing, is complete from FOB to its end."""
    assert not any("lower bound" in page or "not FOB" in page for page in shown(stopped(saturation, **how)))


def test_another_host_is_reported_beside_the_platform() -> None:
    """The platform is that of the start; if it changed, its block and the first page say so."""
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
    """Return two tests of which the first has ended, without a report."""
    folder = SuiteFolder.create(tmp_path / "all", ("throughput", "latency"))
    corpora.stored("throughput", RunFolder.create(folder.run_path("throughput")))
    return folder


def test_several_tests_continue_between_two_of_them(between: SuiteFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """While a report is made no journal is locked: the suite is still in progress, and no resume is suggested."""
    with between.locked():
        assert main(["status", "--json", str(between.path)]) == 0
        first, second = json.loads(capsys.readouterr().out)
        assert first["detail"].endswith("; its report is being made")
        assert (second["state"], first["command"], second["command"]) == ("not started", "", "")
        (between.run_path("throughput") / "report.pdf").touch()
        main(["status", "--json", str(between.path)])
        assert "report" not in json.loads(capsys.readouterr().out)[0]["detail"]
        with pytest.raises(NotResumable, match="still in progress"), between.locked():
            pass
    assert not between.in_progress
    main(["status", "--json", str(between.path)])
    assert json.loads(capsys.readouterr().out)[1]["command"] == f"snia-pts resume {between.path}"


def test_several_tests_stop_between_two_of_them(between: SuiteFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """With a stop request in that time, they stop before the next test; without a process there is nothing to stop."""
    assert main(["stop", str(between.path)]) == 17
    with between.locked():
        assert main(["stop", str(between.path)]) == 0
    assert between.as_run_folder.stop_requested
    assert f"{between.path} stops before its next test" in capsys.readouterr().out


def test_a_resume_that_is_stopped_at_once_adds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it is stopped before its first step, the run can be resumed as before."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("snia_pts.runner.resume.require_resumable", stop)
    corpora.stored("throughput", RunFolder.create(tmp_path / "run"))
    with pytest.raises(Interrupted) as error:
        resume(tmp_path / "run", ResumeOptions(), Caller())
    assert "no test had begun" not in str(error.value)
    assert error.value.hint == f"The run is unchanged. snia-pts resume {tmp_path / 'run'} continues it."


# -- a drive that does not answer -------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_drive_that_does_not_answer_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run whose drive returns I/O errors cannot be resumed: the drive failed, and no data is mentioned."""
    image = tmp_path / "drive.img"
    with loop_device(image, 8 * MIB) as device:
        folder = RunFolder.create(tmp_path / "run")
        spec = read_specification("iops", "2.0.2", "enterprise").spec
        drive = samples.dut(path=str(device), kind="loop device", serial="")
        facts = samples.run_facts(spec, device=drive, found=target_deviations(drive, spec))
        with Journal(folder.journal) as journal:
            journal.append(StartEntry(facts=replace(facts, options=RunOptions(test="iops", target=str(device)))))
        before = folder.journal.read_bytes()
        os.truncate(image, 0)  # each read fails now

        for options in ((), ("--discard-data",)):
            assert main(["resume", str(folder.path), *options]) == DeviceFailed.exit_code
            message = capsys.readouterr().err
            assert f"({device}): it does not answer (Input/output error)" in message
        os.truncate(image, 8 * MIB)
        assert main(["resume", str(folder.path), "--serial", "no"]) != DeviceFailed.exit_code
    assert folder.journal.read_bytes() == before
    assert not any(folder.evidence.iterdir())
