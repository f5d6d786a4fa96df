"""Each refusal of a block device, by itself: what is on it, who has it, and what it is."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from snia_pts.errors import TargetBusy, TargetMissing, TargetNotOurs, TargetUnfit
from snia_pts.lab import guard, process
from snia_pts.lab.contents import Contents, Signature, read_contents, recognised
from snia_pts.lab.occupancy import Occupancy, block_of, descriptors, is_same, look, openers
from tests.drives import need_root
from tests.hosts import FakeHost

NOBODY = Occupancy(uses={}, openers={}, locks={})
PATH = Path("/dev/sdx")


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    """A host without any device."""
    return FakeHost(tmp_path)


def signature(kind: str, *, device: str = "sdx", label: str = "", member_of: str = "") -> Signature:
    """Return something recognised."""
    return Signature(device=device, kind=kind, label=label, member_of=member_of)


# -- what is on it ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("discard", [True, False])
def test_an_empty_drive_is_spare(discard: bool) -> None:
    """Nothing recognised is nothing lost."""
    guard.require_spare(PATH, Contents(), discard_data=discard)


@pytest.mark.parametrize(("found", "told"), [
    (Contents(signatures=(signature("ext4", label="photos"),)), "on it is ext4 photos"),
    (Contents(partitions=("sdx1",)), r"on it is sdx1 \(nothing recognised\)"),
    (Contents(unreadable="Input/output error"), r"what is on it cannot be told \(Input/output error\)"),
    (Contents(signatures=(signature("xfs"),), unreadable="no"), r"what is on it cannot be told \(no\)"),
])  # fmt: skip
def test_what_is_on_it_may_be_given_up(found: Contents, told: str) -> None:
    """Data, and what may be some, is refused with --discard-data as the remedy, and taken with it."""
    with pytest.raises(TargetNotOurs, match=told) as refused:
        guard.require_spare(PATH, found, discard_data=False)
    assert "--discard-data" in refused.value.hint
    guard.require_spare(PATH, found, discard_data=True)


@pytest.mark.parametrize("discard", [True, False])
def test_a_part_of_something_larger_is_never_given_up(discard: bool) -> None:
    """A member is refused whatever is said, with each whole once."""
    marks = (signature("zfs_member", member_of="a ZFS pool"), signature("x", device="sdx1", member_of="a ZFS pool"))
    with pytest.raises(TargetBusy, match=r"it is marked as a member of a ZFS pool\.") as refused:
        guard.require_spare(PATH, Contents(signatures=marks, unreadable="no"), discard_data=discard)
    assert "--discard-data does not allow this" in refused.value.hint


def test_what_cannot_be_opened_is_not_asked_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is nothing to look at, no program is started to look at it."""

    def started(*_: object, **__: object) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr(process, "run", started)
    found = read_contents({Path("/nowhere"): []})
    assert found[Path("/nowhere")].unreadable == "No such file or directory"


def test_what_is_read_in_part_is_read_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that ends before a bad sector is no error yet: the next one is, and the drive cannot be told."""

    def bad(_descriptor: int, length: int, place: int) -> bytes:
        if place == 8192:
            raise OSError(errno.EIO, "Input/output error")
        return bytes(min(length, 4096))

    (tmp_path / "sdx").write_bytes(bytes(1 << 20))
    monkeypatch.setattr(os, "pread", bad)
    found = read_contents({tmp_path / "sdx": []})
    assert found[tmp_path / "sdx"].unreadable == "Input/output error"


@pytest.mark.parametrize(("kind", "usage", "words", "member"), [
    ("ext4", "filesystem", "ext4", ""),
    ("gpt", "partition-table", "gpt partition table", ""),
    (None, None, "something unknown", ""),
    ("isw", "raid", "isw", "a RAID (isw)"),
    ("ddf_raid_member", "other", "ddf_raid_member", "a RAID (ddf_raid_member)"),
    ("zfs_member", "filesystem", "zfs_member", "a ZFS pool"),
    ("linux_raid_member", "raid", "linux_raid_member", "a Linux RAID"),
])  # fmt: skip
def test_what_wipefs_says_is_understood(kind: str | None, usage: str | None, words: str, member: str) -> None:
    """Its kind in words, and what it is a member of: by a name that we know, by its use, or by what it is called."""
    row = {"device": "sdx", "type": kind, "usage": usage, "label": None}
    (found,), unreadable = recognised(json.dumps({"signatures": [row]}))
    assert (found.words, found.member_of, unreadable) == (words, member, "")


# -- who has it -------------------------------------------------------------------------------------------------------


def test_a_free_device_is_free(host: FakeHost) -> None:
    """Nobody uses it: it may be had."""
    guard.require_free(PATH, host.disk(), NOBODY)


@pytest.mark.parametrize(("file", "text", "reason"), [
    ("ro", "1\n", "read-only"), ("device/type", "5\n", "optical"), ("dev", "2:0\n", "floppy"),
    ("queue/zoned", "host-managed\n", "host-managed"),
])  # fmt: skip
def test_what_nobody_could_test(host: FakeHost, file: str, text: str, reason: str) -> None:
    """What a device is comes before who has it."""
    block = host.disk()
    for harmless in ("0\n", "none\n"):
        if file != "dev":
            host.write(f"{block.relative_to(host.root)}/{file}", harmless)
            guard.require_free(PATH, block, NOBODY)
    host.write(f"{block.relative_to(host.root)}/{file}", text)
    with pytest.raises(TargetUnfit, match=reason):
        guard.require_free(PATH, block, Occupancy(uses={"sdx": "it is swap space"}, openers={}, locks={}))


def test_who_has_it_open_is_told(host: FakeHost) -> None:
    """The disk or one of its partitions, by its number; others do not matter."""
    block = host.disk()
    part = host.partition(block, 1)
    disk_number, part_number = (
        os.makedev(*map(int, (each / "dev").read_text().strip().split(":"))) for each in (block, part)
    )
    assert guard.opened(block, {os.makedev(9, 9): "cat (process 1)"}) == ""
    assert guard.opened(block, {disk_number: "cat (process 1)"}) == "cat (process 1) has it open"
    assert guard.opened(block, {part_number: "dd (process 2)"}) == "dd (process 2) has sdx1 open"
    (block / "dev").write_text("gone\n")
    assert guard.opened(block, {disk_number: "cat (process 1)"}) == ""


@pytest.mark.parametrize("part", [True, False])
def test_bcache_keeps_its_backing_device(host: FakeHost, part: bool) -> None:
    """A disk, or a partition of it, that is registered with bcache is in use."""
    block = host.disk()
    owner = host.partition(block, 1) if part else block
    (owner / "bcache").mkdir()
    with pytest.raises(TargetBusy, match="bcache"):
        guard.require_free(PATH, block, NOBODY)


@pytest.mark.parametrize(("uuid", "name", "told"), [
    ("LVM-x", "vg-data", r"vg-data \(LVM\) is made"), ("mpath-x", "mpatha", r"mpatha \(multipath\) is made"),
    ("CRYPT-LUKS2-x", "secret", r"secret \(encryption\) is made"), ("", "linear", r"linear \(device mapper\) is made"),
])  # fmt: skip
def test_what_is_made_of_it_is_named(host: FakeHost, uuid: str, name: str, told: str) -> None:
    """By what people call it, and what it is."""
    block = host.disk()
    host.made_of("dm-0", block, dm__uuid=f"{uuid}\n", dm__name=f"{name}\n")
    with pytest.raises(TargetBusy, match=told):
        guard.require_free(PATH, block, NOBODY)


def test_several_things_are_made_of_it(host: FakeHost) -> None:
    """A RAID and something unknown, in words."""
    block = host.disk()
    host.made_of("md127", block)
    host.made_of("foo0", block)
    with pytest.raises(TargetBusy, match=r"foo0, md127 \(RAID\) are made of it"):
        guard.require_free(PATH, block, NOBODY)


def test_a_lock_is_told_with_its_owner(host: FakeHost, tmp_path: Path) -> None:
    """Another run locks the node, not the name; a lock of process 0 is one, and one of another node is none."""
    block, node = host.disk(), tmp_path / "dev/sdx"
    status = node.stat()
    for owner in (0, 4711):
        locked = Occupancy(uses={}, openers={}, locks={(status.st_dev, status.st_ino): owner})
        with pytest.raises(TargetBusy, match=f"process {owner} has locked it"):
            guard.require_free(node, block, locked)
    guard.require_free(node, block, Occupancy(uses={}, openers={}, locks={(status.st_dev, 1): 1}))
    guard.require_free(tmp_path / "nowhere", block, locked)


# -- its name ---------------------------------------------------------------------------------------------------------


def test_a_name_that_is_missing_is_told(host: FakeHost, tmp_path: Path) -> None:
    """The kernel knows the device, and there is no name for it."""
    with pytest.raises(TargetMissing):
        guard.require_node(tmp_path / "nowhere", host.disk())


def test_what_cannot_be_opened_is_told_with_a_remedy() -> None:
    """Where it is a matter of rights, the remedy is root."""
    assert "Run as root" in guard.not_opened(PATH, errno.EACCES).hint
    assert "Run as root" not in (guard.not_opened(PATH, errno.ENXIO).hint or "")


# -- where the uses come from -----------------------------------------------------------------------------------------


def test_a_mount_is_found_by_its_number(host: FakeHost) -> None:
    """Whatever the mount's source is called: the kernel's /dev/root is no device anywhere."""
    block = host.disk()
    host.mount("/", (block / "dev").read_text().strip(), "/dev/root")
    assert look(host.root).uses == {"sdx": "the root file system is on it"}


@pytest.mark.root
def test_a_node_of_another_name_is_its_device(host: FakeHost) -> None:
    """Swap space by a device node that somebody made: its number counts, not what it is called."""
    need_root()
    host.disk("sda")
    block = host.disk("sdx")
    (host.root / "dev/sda").unlink()
    os.mknod(host.root / "dev/sda", stat.S_IFBLK | 0o600, os.makedev(8, int((block / "dev").read_text().split(":")[1])))
    assert block_of("/dev/sda", host.root) == block
    host.swap("/dev/sda")
    assert look(host.root).uses == {"sdx": "it is swap space"}


@pytest.mark.root
def test_who_has_a_block_device_open_is_found(host: FakeHost) -> None:
    """By its number; a terminal or a plain file in /dev is no device that could be tested."""
    need_root()
    host.disk("sdx")
    host.write("proc/7/comm", "cat\n")
    node = host.root / "dev/sdx"
    node.unlink()
    os.mknod(node, stat.S_IFBLK | 0o600, os.makedev(8, 1))
    (host.root / "proc/7/fd").mkdir()
    for number, target in enumerate((Path("/dev/null"), node, host.root / "proc/swaps")):
        (host.root / f"proc/7/fd/{number}").symlink_to(target)
    assert openers(host.root) == {os.makedev(8, 1): "cat (process 7)"}


def test_a_name_in_dev_counts_whatever_the_kernel_calls_it(host: FakeHost) -> None:
    """A device that is opened by another name than the kernel's, as of a mapper, is open."""
    node = next((each for each in sorted(Path("/dev").iterdir()) if each.is_block_device()), None)
    if node is None:
        pytest.skip("there is no block device in /dev")
    (host.root / "proc/7/fd").mkdir(parents=True)
    (host.root / "proc/7/fd/3").symlink_to(node)
    assert list(openers(host.root)) == [node.stat().st_rdev]


def test_a_device_that_cannot_be_looked_at_is_an_error(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is too long for any file leads nowhere; whatever else goes wrong must not pass for a free drive."""
    assert block_of(f"/dev/{'x' * 5000}", host.root) is None
    monkeypatch.setattr(os.path, "realpath", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "I/O error")))
    with pytest.raises(OSError, match="I/O error"):
        block_of("/dev/sdx", host.root)


def test_two_names_of_a_file_are_the_same(tmp_path: Path) -> None:
    """By a link, or a second name of it; another file, and one that is gone, are not."""
    file = tmp_path / "x"
    for path in (file, tmp_path / "y"):
        path.write_text("")
    (tmp_path / "link").symlink_to(file)
    (tmp_path / "hard").hardlink_to(file)
    assert [is_same(file, str(tmp_path / name)) for name in ("x", "link", "hard", "y", "gone", "\0")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip


def test_this_process_is_not_told_of(host: FakeHost) -> None:
    """What it has open itself is no reason to refuse."""
    for owner in (str(os.getpid()), "7"):
        folder = host.root / "proc" / owner / "fd"
        folder.mkdir(parents=True)
        (folder / "3").symlink_to("/dev/sdx")
    assert [owner for owner, _ in descriptors(host.root)] == ["7"]


def test_a_namespace_of_mounts_is_looked_at_once(host: FakeHost) -> None:
    """Another process in it may have changed its root, and see other paths of the same mounts."""
    block = host.disk()
    for owner in ("self", "7", "8"):
        (host.root / f"proc/{owner}/ns").mkdir(parents=True)
        (host.root / f"proc/{owner}/ns/mnt").symlink_to(f"mnt:[{'1' if owner == 'self' else '2'}]")
    host.mount_block(block, "/a", process="7")
    other = host.disk("sdy")
    host.mount_block(other, "/b", process="8")
    assert list(look(host.root).uses) == ["sdx"]
