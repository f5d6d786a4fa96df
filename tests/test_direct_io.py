"""Whether direct I/O reaches a drive: loop devices and file systems that buffer it are reported before and in a run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from snia_pts.cli.main import main
from snia_pts.lab.device.identity import ROOT
from snia_pts.lab.device.mounts import Mount, mount_of
from snia_pts.lab.device.target_claim import claim_target
from snia_pts.lab.host.conditions import conditions_applied
from snia_pts.lab.host.tuning.direct_io import direct_io
from snia_pts.runner.setup import host_warnings
from tests.drives import MIB, loop_device, make_ext4, mounted, need_program
from tests.hosts import FakeHost


@pytest.fixture(autouse=True)
def _folder_on_a_drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the file system of the tests' folder, which may be in memory, for one that passes on direct I/O."""
    folder = mount_of(tmp_path.resolve())

    def mount_unless_of_folder(path: Path, root: Path = ROOT) -> Mount | None:
        mount = mount_of(path, root)
        return None if mount == folder else mount

    monkeypatch.setattr("snia_pts.lab.host.tuning.direct_io.mount_of", mount_unless_of_folder)


NOT_BUFFERED = ("not buffered", "")


def value_and_remedy(path: Path) -> tuple[str, str]:
    """Return value and remedy of the finding."""
    setting = direct_io(path).setting
    return setting.value, setting.recommended


@pytest.mark.root
@pytest.mark.device
def test_a_loop_device_buffers_unless_it_was_set_up_for_direct_io(tmp_path: Path) -> None:
    """The recommended command corrects it while the device is set up."""
    with loop_device(tmp_path / "x.img", 4 * MIB) as device:
        value, remedy = value_and_remedy(device)
        assert value == f"buffered by {device.name}"
        assert remedy == f"losetup --direct-io=on {device}"
        if subprocess.run(remedy.split(), check=False).returncode:
            pytest.skip("the file system of the tests does not support direct I/O beneath a loop device")
        assert value_and_remedy(device) == NOT_BUFFERED


@pytest.mark.root
@pytest.mark.device
def test_a_buffering_loop_device_beneath_another_layer_is_reported(tmp_path: Path) -> None:
    """Beneath a loop device on it, beneath a partition's disk, and beneath the file system of a file."""
    with loop_device(tmp_path / "x.img", 16 * MIB) as lower, loop_device(lower) as upper:
        assert value_and_remedy(upper) == (
            f"buffered by {upper.name}; {lower.name}",
            f"losetup --direct-io=on {upper}; losetup --direct-io=on {lower}",
        )
    with loop_device(tmp_path / "y.img", 16 * MIB) as disk:
        make_ext4(disk)
        with mounted(disk, tmp_path / "mnt") as folder:
            (folder / "x.img").write_bytes(bytes(MIB))
            expected = (f"buffered by {disk.name}", f"losetup --direct-io=on {disk}")
            assert value_and_remedy(folder / "x.img") == value_and_remedy(folder / "new.img") == expected


@pytest.mark.root
@pytest.mark.device
def test_every_buffering_device_beneath_a_btrfs_is_reported(tmp_path: Path) -> None:
    """Its number is that of no device, and the table of mounts names one of its devices only."""
    need_program("mkfs.btrfs", "btrfs-progs")
    with loop_device(tmp_path / "x.img", 128 * MIB) as one, loop_device(tmp_path / "y.img", 128 * MIB) as other:
        subprocess.run(["mkfs.btrfs", "-q", str(one), str(other)], check=True)
        with mounted(one, tmp_path / "mnt", "-o", "nodatasum") as folder:
            (folder / "x.img").write_bytes(bytes(16 * MIB))
            remedies = {device.name: f"losetup --direct-io=on {device}" for device in (one, other)}
            expected = (f"buffered by {'; '.join(remedies)}", "; ".join(remedies.values()))
            assert value_and_remedy(folder / "x.img") == expected
            with loop_device(folder / "x.img") as upper:
                assert value_and_remedy(upper)[0] == f"buffered by {'; '.join([upper.name, *remedies])}"


@pytest.mark.long
@pytest.mark.root
@pytest.mark.device
def test_a_plan_and_the_host_verb_warn_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is written, with the remedy; ``all`` says it once."""
    with loop_device(tmp_path / "x.img", 64 * MIB) as device:
        assert main(["iops", str(device), "--plan", "--json"]) == 0
        (warning,) = json.loads(capsys.readouterr().out)["warnings"]
        assert warning["what"] == "host: direct I/O"
        assert f"(recommended: losetup --direct-io=on {device})" in warning["detail"]
        for verb in ("iops", "all"):
            assert main([verb, str(device), "--plan"]) == 0
            assert capsys.readouterr().out.count("warning: host: direct I/O: buffered by loop") == 1
        assert main(["host", str(device)]) == 0
        assert "affects results\tdirect I/O\tbuffered by" in capsys.readouterr().out


@pytest.mark.root
@pytest.mark.device
def test_a_run_warns_of_it(tmp_path: Path) -> None:
    """It is a host setting of the run, which the result lists, and a warning."""
    (evidence := tmp_path / "run/evidence").mkdir(parents=True)
    with (
        loop_device(tmp_path / "x.img", 4 * MIB) as device,
        claim_target(device, size_bytes=None, overwrite=False) as target,
        conditions_applied(
            target, evidence.parent, evidence, write_cache="disabled", keep=True, tune=False, report=print
        ) as conditions,
    ):
        warnings = [warning for warning in host_warnings(conditions.settings) if warning.what == "host: direct I/O"]
        assert [item.detail.partition(" (")[0] for item in warnings] == [f"buffered by {device.name}"]


@pytest.mark.root
@pytest.mark.device
def test_a_loop_device_that_begins_to_buffer_during_a_run_is_a_warning(tmp_path: Path) -> None:
    """With old and new value, the reason, which says that memory is measured, and the remedy; and the reverse."""
    (evidence := tmp_path / "run/evidence").mkdir(parents=True)
    with loop_device(tmp_path / "x.img", 4 * MIB, "--direct-io=on") as device:
        if value_and_remedy(device) != NOT_BUFFERED:
            pytest.skip("the file system of the tests does not support direct I/O beneath a loop device")
        for at_start, at_end in (("on", "off"), ("off", "on")):
            subprocess.run(["losetup", f"--direct-io={at_start}", str(device)], check=True)
            with (
                claim_target(device, size_bytes=None, overwrite=False) as target,
                conditions_applied(
                    target, evidence.parent, evidence, write_cache="disabled", keep=True, tune=False, report=print
                ) as conditions,
            ):
                assert conditions.setting_changes(evidence) == ()
                subprocess.run(["losetup", f"--direct-io={at_end}", str(device)], check=True)
                (line,) = conditions.setting_changes(evidence)
            if at_end == "off":
                assert line == (
                    f"direct I/O changed from not buffered to buffered by {device.name} (recommended: losetup "
                    f"--direct-io=on {device}): {device.name} reads and writes its file through the page cache of this "
                    "host, which is measured; measurements may have been made with either value"
                )
            else:
                assert line.startswith(f"direct I/O changed from buffered by {device.name} to not buffered; ")


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("tmpfs tmpfs rw", "tmpfs"),
        ("ext4 /dev/sdx rw,data=journal", "ext4 (data=journal)"),
        ("ext4 /dev/sdx rw,data=ordered", ""),
        ("xfs /dev/sdx rw", ""),
    ],
)
def test_a_file_system_that_buffers_direct_io_is_reported(entry: str, value: str, tmp_path: Path) -> None:
    """A file in memory measures no drive; ext4 with data=journal ignores that I/O is direct."""
    host = FakeHost(tmp_path / "host")
    host.write("proc/self/mountinfo", f"31 22 0:44 / {tmp_path} rw - {entry}\n")

    setting = direct_io(tmp_path / "x.img", host.root).setting

    expected = (f"buffered by {value}", "affects results") if value else ("not buffered", "good")
    assert (setting.value, setting.judgement) == expected


@pytest.mark.parametrize(
    ("release", "options", "is_buffered"),
    [
        ("6.15.0", "rw", True),
        ("6.18.44-x", "rw,space_cache=v2", True),
        ("6.14.9", "rw", False),
        ("6.18.1", "rw,nodatasum", False),
        ("6.18.1", "rw,nodatasum,nodatacow", False),
    ],
)
def test_btrfs_buffers_direct_io_of_files_with_checksums(
    release: str, options: str, tmp_path: Path, *, is_buffered: bool
) -> None:
    """Since Linux 6.15, unless a mount option omits the checksums."""
    host = FakeHost(tmp_path / "host")
    host.write("proc/self/mountinfo", f"31 22 0:44 / {tmp_path} rw - btrfs /dev/sdx {options}\n")
    host.write("proc/sys/kernel/osrelease", f"{release}\n")

    value = direct_io(tmp_path / "x.img", host.root).setting.value

    assert value == ("buffered by btrfs (checksums)" if is_buffered else "not buffered")


@pytest.mark.root
@pytest.mark.device
def test_a_btrfs_file_without_checksums_is_not_buffered(tmp_path: Path) -> None:
    """The attribute of the file counts, and for a new file that of its folder."""
    need_program("mkfs.btrfs", "btrfs-progs")
    host = FakeHost(tmp_path / "host")
    host.write("proc/sys/kernel/osrelease", "6.18.1\n")
    with loop_device(tmp_path / "x.img", 128 * MIB) as device:
        subprocess.run(["mkfs.btrfs", "-q", str(device)], check=True)
        with mounted(device, tmp_path / "mnt") as folder:
            host.write("proc/self/mountinfo", f"31 22 0:44 / {folder} rw - btrfs {device} rw\n")
            (folder / "old.img").touch()
            files = (folder / "old.img", folder / "new.img")
            assert {direct_io(file, host.root).setting.value for file in files} == {"buffered by btrfs (checksums)"}
            subprocess.run(["chattr", "+C", str(folder), str(folder / "old.img")], check=True)
            assert {direct_io(file, host.root).setting.value for file in files} == {"not buffered"}


@pytest.mark.root
@pytest.mark.device
def test_a_file_on_overlayfs_is_judged_by_its_upper_layer(tmp_path: Path) -> None:
    """A container's file lies in the upper layer: in memory here, on whatever the tests are on otherwise."""
    with mounted("none", tmp_path / "memory", "-t", "tmpfs") as memory:
        for name in ("upper", "work", "lower"):
            (memory / name).mkdir()
        options = f"lowerdir={memory}/lower,upperdir={memory}/upper,workdir={memory}/work"
        try:
            with mounted("none", tmp_path / "merged", "-t", "overlay", "-o", options) as merged:
                (merged / "x.img").write_bytes(bytes(MIB))
                assert value_and_remedy(merged / "x.img") == ("buffered by tmpfs", "a file on a drive")
                with loop_device(merged / "x.img", 0, "--direct-io=on") as device:
                    assert "buffered by tmpfs" in value_and_remedy(device)[0]
        except subprocess.CalledProcessError:
            pytest.skip("overlayfs cannot be mounted here")


def test_a_drive_in_memory_is_reported() -> None:
    """zram keeps its data in the host's memory; the device need not be set up."""
    devices = sorted(Path("/dev").glob("zram*"))
    if not devices:
        pytest.skip("no zram device here")
    assert value_and_remedy(devices[0]) == (f"buffered by {devices[0].name}", "a drive")


def test_a_target_that_does_not_exist_is_unknown(tmp_path: Path) -> None:
    """Nothing is claimed of a path whose folder cannot be examined."""
    setting = direct_io(tmp_path / "missing" / "x.img", FakeHost(tmp_path / "host").root).setting
    assert (setting.value, setting.judgement) == ("unknown", "unknown")
    assert "No such file or directory" in setting.reason
