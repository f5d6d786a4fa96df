"""The file system that a file lies on, as the kernel's table of mounts tells it."""

from __future__ import annotations

from pathlib import Path

from snia_pts.lab.host.tuning.mount import mount

TABLE = """\
22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw,errors=remount-ro
30 22 8:17 / /export rw,noatime shared:9 - xfs /dev/sdb1 rw,attr2,inode64
31 22 0:44 / /a\\040b rw - tmpfs tmpfs rw,size=1k
33 30 8:18 / /export rw shared:9 - btrfs /dev/sdb2 rw,compress=zstd
"""


def told(path: str, root: Path) -> dict[str, str]:
    return {layer.setting.name: layer.setting.value for layer in mount(path, root)}


def test_the_nearest_and_latest_mount_is_the_files(tmp_path: Path) -> None:
    """What is mounted over another hides it; what only begins alike is another path; blanks are written in octal."""
    table = tmp_path / "proc/self/mountinfo"
    table.parent.mkdir(parents=True)
    table.write_text(TABLE)

    assert told("/exported/x", tmp_path)["file system"] == "ext4"
    assert told("/export/test.img", tmp_path)["file system"] == "btrfs"
    assert told("/a b/x", tmp_path)["file system"] == "tmpfs"
    assert told("/x", tmp_path)["mount options"] == "rw,relatime,errors=remount-ro"


def test_a_host_that_does_not_tell_is_taken_at_its_word(tmp_path: Path) -> None:
    """Without a table of mounts nothing is guessed."""
    (layer,) = mount("/x", tmp_path)
    assert layer.setting.judgement == "unknown"
