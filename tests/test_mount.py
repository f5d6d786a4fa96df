"""The file system of a file, as /proc/self/mountinfo gives it."""

from __future__ import annotations

import os
from pathlib import Path

from snia_pts.lab.host.tuning.mount import mount

TABLE = """\
22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw,errors=remount-ro
30 22 8:17 / /export rw,noatime shared:9 - xfs /dev/sdb1 rw,attr2,inode64
31 22 0:44 / /a\\040b rw - tmpfs tmpfs rw,size=1k
33 30 8:18 / /export rw shared:9 - btrfs /dev/sdb2 rw,compress=zstd
"""


def mount_settings(path: str, root: Path) -> dict[str, str]:
    """Return the settings of the mount of `path` by name."""
    return {layer.setting.name: layer.setting.value for layer in mount(path, root)}


def test_the_nearest_and_latest_mount_is_that_of_the_file(tmp_path: Path) -> None:
    """A later mount hides an earlier one; a common name prefix is no match; blanks are octal escapes in the table."""
    table = tmp_path / "proc/self/mountinfo"
    table.parent.mkdir(parents=True)
    table.write_text(TABLE)

    assert mount_settings("/exported/x", tmp_path)["file system"] == "ext4"
    assert mount_settings("/export/test.img", tmp_path)["file system"] == "btrfs"
    assert mount_settings("/a b/x", tmp_path)["file system"] == "tmpfs"
    assert mount_settings("/x", tmp_path)["mount options"] == "rw, relatime, errors=remount-ro"


def test_the_disk_of_a_file_is_identified(tmp_path: Path) -> None:
    """A partition is part of its disk; a file system without a disk has none."""
    table = tmp_path / "proc/self/mountinfo"
    table.parent.mkdir(parents=True)
    table.write_text(TABLE)
    assert mount_settings("/", tmp_path)["storage"] == "unknown"

    number = Path("/").stat().st_dev
    folder = tmp_path / "sys/dev/block" / f"{os.major(number)}:{os.minor(number)}"
    disk = tmp_path / "sys/devices/pci0000:00/block/sdz"
    for file, text in (("size", "2000000"), ("device/model", "M 1"), ("device/serial", "S9"), ("sdz1/partition", "1")):
        (disk / file).parent.mkdir(parents=True, exist_ok=True)
        (disk / file).write_text(f"{text}\n")
    folder.parent.mkdir(parents=True)
    folder.symlink_to(disk / "sdz1")
    assert mount_settings("/", tmp_path)["storage"] == "sdz: M 1, serial S9, 1.024 GB"


def test_without_a_mount_table_the_mount_is_unknown(tmp_path: Path) -> None:
    """Without mountinfo the judgement is "unknown"."""
    (layer,) = mount("/x", tmp_path)
    assert layer.setting.judgement == "unknown"
