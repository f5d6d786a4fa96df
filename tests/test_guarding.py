"""Each refusal of a block device, by itself: what is on it, who has it, and what it is."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from contextlib import ExitStack
from pathlib import Path

import pytest

from snia_pts.errors import TargetBusy, TargetMissing, TargetNotOurs, TargetUnfit
from snia_pts.lab.device import exclusive_access, refusals
from snia_pts.lab.device.contents import Contents, Signature, parse_signatures, read_contents
from snia_pts.lab.device.processes import Processes, User, read_processes
from snia_pts.lab.device.storage import (
    Identity,
    Layer,
    block_of,
    device_identity,
    generic_identity,
    identity_at,
    identity_by_name,
)
from snia_pts.lab.device.usage import Usage, Use, read_usage
from snia_pts.lab.process import program as process
from tests.drives import need_root
from tests.hosts import FakeHost

PATH = Path("/dev/sdx")


def usage(
    uses: dict[Identity, tuple[Use, ...]] | None = None,
    users: dict[Identity, tuple[User, ...]] | None = None,
    locks: dict[tuple[int, int], tuple[str, ...]] | None = None,
) -> Usage:
    """Return how a host uses its devices: not at all, apart from what is given."""
    return Usage(uses=uses or {}, processes=Processes(users=users or {}, locks=locks or {}), backings={})


NOBODY = usage()


def stack(host: FakeHost, block: Path) -> tuple[Layer, ...]:
    """Return a device and what it stands on."""
    return refusals.stack_of(block, NOBODY, host.root)


def identity(block: Path) -> Identity:
    """Return the identity of a device."""
    found = device_identity(block)
    assert found is not None
    return found


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
    refusals.require_spare(PATH, Contents(), discard_data=discard)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Contents(signatures=(signature("ext4", label="photos"),)), "it holds ext4 photos"),
        (Contents(partitions=("sdx1",)), r"it holds sdx1 \(nothing recognised\)"),
        (Contents(unreadable="Input/output error"), r"its content cannot be examined \(Input/output error\)"),
        (Contents(signatures=(signature("xfs"),), unreadable="no"), r"its content cannot be examined \(no\)"),
    ],
)
def test_what_is_on_it_may_be_given_up(found: Contents, text: str) -> None:
    """Data, and what may be some, is refused with --discard-data as the remedy, and taken with it."""
    with pytest.raises(TargetNotOurs, match=text) as refused:
        refusals.require_spare(PATH, found, discard_data=False)
    assert "--discard-data" in refused.value.hint
    refusals.require_spare(PATH, found, discard_data=True)


@pytest.mark.parametrize("discard", [True, False])
def test_a_part_of_something_larger_is_never_given_up(discard: bool) -> None:
    """A member is refused with any options; each whole is named once."""
    marks = (signature("zfs_member", member_of="a ZFS pool"), signature("x", device="sdx1", member_of="a ZFS pool"))
    with pytest.raises(TargetBusy, match=r"it is marked as a member of a ZFS pool\.") as refused:
        refusals.require_spare(PATH, Contents(signatures=marks, unreadable="no"), discard_data=discard)
    assert "--discard-data does not allow this" in refused.value.hint


def test_what_cannot_be_opened_is_not_asked_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is nothing to look at, no program is started to look at it."""

    def started(*_: object, **__: object) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr(process, "run", started)
    found = read_contents({Path("/nowhere"): []})
    assert found[Path("/nowhere")].unreadable == "No such file or directory"


def test_what_is_read_in_part_is_read_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that ends before a bad sector is no error yet; the next one is, and the content is unknown."""

    def bad(_descriptor: int, length: int, place: int) -> bytes:
        if place == 8192:
            raise OSError(errno.EIO, "Input/output error")
        return bytes(min(length, 4096))

    (tmp_path / "sdx").write_bytes(bytes(1 << 20))
    monkeypatch.setattr(os, "pread", bad)
    found = read_contents({tmp_path / "sdx": []})
    assert found[tmp_path / "sdx"].unreadable == "Input/output error"


@pytest.mark.parametrize(
    ("kind", "usage", "words", "member"),
    [
        ("ext4", "filesystem", "ext4", ""),
        ("gpt", "partition-table", "gpt partition table", ""),
        (None, None, "an unknown signature", ""),
        ("isw", "raid", "isw", "a RAID (isw)"),
        ("ddf_raid_member", "other", "ddf_raid_member", "a RAID (ddf_raid_member)"),
        ("zfs_member", "filesystem", "zfs_member", "a ZFS pool"),
        ("linux_raid_member", "raid", "linux_raid_member", "a Linux RAID"),
        ("btrfs", "filesystem", "btrfs", ""),
        ("bcachefs", "filesystem", "bcachefs", "a bcachefs"),
        ("oracleasm", "other", "oracleasm", "an Oracle ASM disk group"),
        ("DM_snapshot_cow", "other", "DM_snapshot_cow", "a device mapper snapshot (as its store)"),
        ("jbd", "other", "jbd", "a file system (as its journal)"),
        ("xfs_external_log", "other", "xfs_external_log", "a file system (as its journal)"),
    ],
)
def test_what_wipefs_says_is_understood(kind: str | None, usage: str | None, words: str, member: str) -> None:
    """Its kind in words, and what it is a member of: by a name that we know, by its use, or by what it is called."""
    row = {"device": "sdx", "type": kind, "usage": usage, "label": None}
    (found,), unreadable = parse_signatures(json.dumps({"signatures": [row]}))
    assert (found.description, found.member_of, unreadable) == (words, member, "")


def test_what_cannot_be_read_is_shown_as_unknown() -> None:
    """With --discard-data, no message says that nothing is recognised on it."""
    assert Contents(unreadable="Input/output error").descriptions("sdx") == ("contents unknown",)


# -- who has it -------------------------------------------------------------------------------------------------------


def test_a_free_device_is_free(host: FakeHost) -> None:
    """Nobody uses it: it may be had."""
    refusals.require_free(PATH, stack(host, host.disk()), NOBODY)


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("ro", "1\n", "read-only"),
        ("device/type", "5\n", "optical"),
        ("dev", "2:0\n", "floppy"),
        ("queue/zoned", "host-managed\n", "host-managed"),
    ],
)
def test_what_nobody_could_test(host: FakeHost, file: str, text: str, reason: str) -> None:
    """What a device is comes before who has it."""
    block = host.disk()
    for harmless in ("0\n", "none\n"):
        if file != "dev":
            host.write(f"{block.relative_to(host.root)}/{file}", harmless)
            refusals.require_free(PATH, stack(host, block), NOBODY)
    host.write(f"{block.relative_to(host.root)}/{file}", text)
    number = device_identity(block) or Identity("device", 0)
    swap = usage(uses={number: (Use(predicate="is swap space"),)})
    with pytest.raises(TargetUnfit, match=reason):
        refusals.require_free(PATH, stack(host, block), swap)


def test_who_has_it_open_is_told(host: FakeHost) -> None:
    """The disk or one of its partitions, by its number; others do not matter."""
    block = host.disk()
    part = host.partition(block, 1)
    disk, partition = identity(block), identity(part)
    (layer,) = stack(host, block)

    def tell(at: Identity, user: User) -> str:
        return refusals.process_sentence(layer, usage(users={at: (user,)}))

    assert tell(Identity("device", os.makedev(9, 9)), User("cat (process 1)")) == ""
    assert tell(disk, User("cat (process 1)")) == "cat (process 1) has it open"
    assert tell(partition, User("dd (process 2)")) == "dd (process 2) has sdx1 open"
    assert tell(partition, User("db (process 3)", mapped=True)) == "db (process 3) has sdx1 mapped into its memory"


@pytest.mark.parametrize(
    ("who", "uuid", "refused"),
    [("multipathd", "mpath-1", False), ("cat", "mpath-1", True), ("multipathd", "LVM-1", True)],
)
def test_the_daemon_of_multipath_may_keep_the_paths_open(host: FakeHost, who: str, uuid: str, refused: bool) -> None:
    """multipathd has each path open as long as it runs; anybody else, or on any other device, is in the way."""
    path = host.disk("sda")
    block = host.stacked_device("dm-0", path, dm__name="x\n", dm__uuid=f"{uuid}\n")
    found = usage(users={identity(path): (User(f"{who} (process 7)"),)})
    reason = f"it is built on sda, and {who} (process 7) has sda open" if refused else ""
    assert refusals.usage_sentence(stack(host, block), found, PATH) == reason
    at_the_top = usage(users={identity(block): (User(f"{who} (process 7)"),)})
    assert refusals.usage_sentence(stack(host, block), at_the_top, PATH) == f"{who} (process 7) has it open"


def test_two_paths_to_one_drive_are_refused(host: FakeHost) -> None:
    """A drive with two device nodes is refused at each; a multipath device on both, and other drives, are free."""
    one, other = (host.disk(name, device__wwid="naa.5000c500a1b2c300\n", size="2048\n") for name in ("sda", "sdb"))
    host.disk("sdc", device__wwid="naa.5000c500a1b2c301\n", size="2048\n")
    for block, path in ((one, "/dev/sdb"), (other, "/dev/sda")):
        with pytest.raises(TargetUnfit, match=f"it and {path} are two paths to one drive"):
            refusals.require_free(PATH, stack(host, block), NOBODY, host.root)
    block = host.stacked_device("dm-0", one, other, dm__name="x\n", dm__uuid="mpath-1\n")
    refusals.require_free(PATH, stack(host, block), NOBODY, host.root)


def test_a_hidden_path_and_drives_without_an_identifier_are_no_second_path(host: FakeHost) -> None:
    """NVMe multipath hides its paths; two drives that report no worldwide identifier are not one."""
    named = host.disk("sda", device__wwid="naa.1\n")
    host.disk("sdb", device__wwid="naa.1\n", hidden="1\n")
    unnamed = host.disk("sdc")
    host.disk("sdd")
    for block in (named, unnamed):
        refusals.require_free(PATH, stack(host, block), NOBODY, host.root)


def test_a_generic_device_is_the_drive_behind_it(host: FakeHost) -> None:
    """A virtual machine may have a drive open as /dev/sgN or /dev/ngXnY; a terminal is no drive."""
    disk, namespace = host.disk("sda"), host.nvme()
    place = host.root / "sys/dev/char"
    (place / "21:3/device/block").mkdir(parents=True)
    (place / "21:3/device/block/sda").symlink_to(disk)
    (host.root / "sys/class/nvme-generic/ng0n1").mkdir(parents=True)
    (place / "243:0").symlink_to(host.root / "sys/class/nvme-generic/ng0n1")

    assert generic_identity(os.makedev(21, 3), host.root) == identity(disk)
    assert generic_identity(os.makedev(243, 0), host.root) == identity(namespace)
    assert generic_identity(os.makedev(4, 1), host.root) is None


@pytest.mark.parametrize("part", [True, False])
def test_bcache_keeps_its_backing_device(host: FakeHost, part: bool) -> None:
    """A disk, or a partition of it, that is registered with bcache is in use."""
    block = host.disk()
    owner = host.partition(block, 1) if part else block
    (owner / "bcache").mkdir()
    with pytest.raises(TargetBusy, match="bcache"):
        refusals.require_free(PATH, stack(host, block), NOBODY)


@pytest.mark.parametrize(
    ("uuid", "name", "text"),
    [
        ("LVM-x", "vg-data", r"it backs vg-data \(LVM\)"),
        ("mpath-x", "mpatha", r"it backs mpatha \(multipath\)"),
        ("CRYPT-LUKS2-x", "secret", r"it backs secret \(encryption\)"),
        ("", "linear", r"it backs linear \(device mapper\)"),
    ],
)
def test_what_is_made_of_it_is_named(host: FakeHost, uuid: str, name: str, text: str) -> None:
    """By what people call it, and what it is."""
    block = host.disk()
    host.stacked_device("dm-0", block, dm__uuid=f"{uuid}\n", dm__name=f"{name}\n")
    with pytest.raises(TargetBusy, match=text):
        refusals.require_free(PATH, stack(host, block), NOBODY)


def test_several_things_are_made_of_it(host: FakeHost) -> None:
    """A RAID and something unknown, in words."""
    block = host.disk()
    host.stacked_device("md127", block)
    host.stacked_device("foo0", block)
    with pytest.raises(TargetBusy, match=r"it backs foo0, md127 \(RAID\)"):
        refusals.require_free(PATH, stack(host, block), NOBODY)


@pytest.mark.parametrize(
    ("owner", "guess"),
    [
        ("cat (process 4711)", "(not a run of snia-pts)"),
        ("snia-pts (process 4711)", "(another run of snia-pts)"),
        ("python3 (process 4711)", "(another run of snia-pts?)"),
        ("a program (process 4711)", "(another run of snia-pts?)"),
        ("a program", "(another run of snia-pts?)"),
    ],
)
def test_a_lock_is_told_with_its_owner(host: FakeHost, tmp_path: Path, owner: str, guess: str) -> None:
    """Another run locks the node, not the name; a lock of another node is none."""
    block, node = host.disk(), tmp_path / "dev/sdx"
    status = node.stat()
    locked = usage(locks={(status.st_dev, status.st_ino): (owner,)})
    with pytest.raises(TargetBusy, match=re.escape(f"{owner} has locked it {guess}")):
        refusals.require_free(node, stack(host, block), locked)
    refusals.require_free(node, stack(host, block), usage(locks={(status.st_dev, 1): ("cat (process 1)",)}))
    refusals.require_free(tmp_path / "nowhere", stack(host, block), locked)


def test_a_device_that_went_away_is_missing(host: FakeHost) -> None:
    """A device that is gone between two looks at it is a missing target."""
    block = host.disk()
    (block / "dev").unlink()
    with pytest.raises(TargetMissing):
        refusals.require_free(PATH, stack(host, block), NOBODY)


# -- its name ---------------------------------------------------------------------------------------------------------


def test_a_name_that_is_missing_is_told(host: FakeHost, tmp_path: Path) -> None:
    """The kernel knows the device, and there is no name for it."""
    with pytest.raises(TargetMissing):
        refusals.require_node(tmp_path / "nowhere", host.disk())


def test_what_cannot_be_opened_is_told_with_a_remedy() -> None:
    """Where it is a matter of rights, the remedy is root."""
    assert "Run as root" in refusals.cannot_open(PATH, errno.EACCES).hint
    assert "Run as root" not in (refusals.cannot_open(PATH, errno.ENXIO).hint or "")


# -- where the uses come from -----------------------------------------------------------------------------------------


def test_a_mount_is_found_by_its_number(host: FakeHost) -> None:
    """Whatever the mount's source is called: the kernel's /dev/root is no device anywhere."""
    block = host.disk()
    host.mount("/", (block / "dev").read_text().strip(), "/dev/root")
    assert read_usage(host.root).uses == {identity(block): (Use(predicate="holds the root file system"),)}


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
    assert read_usage(host.root).uses == {identity(block): (Use(predicate="is swap space"),)}


@pytest.mark.root
def test_who_has_a_block_device_open_is_found(host: FakeHost) -> None:
    """By its number; a terminal is no device that could be tested."""
    need_root()
    host.disk("sdx")
    host.write("proc/7/comm", "cat\n")
    node = host.root / "dev/sdx"
    node.unlink()
    os.mknod(node, stat.S_IFBLK | 0o600, os.makedev(8, 1))
    (host.root / "proc/7/fd").mkdir()
    for number, target in enumerate((Path("/dev/null"), node)):
        (host.root / f"proc/7/fd/{number}").symlink_to(target)
    assert read_processes(host.root).users == {Identity("device", os.makedev(8, 1)): (User("cat (process 7)"),)}


def test_a_device_that_cannot_be_looked_at_is_an_error(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is too long for any file leads nowhere; whatever else goes wrong must not pass for a free drive."""
    assert block_of(f"/dev/{'x' * 5000}", host.root) is None
    monkeypatch.setattr(os.path, "realpath", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "I/O error")))
    with pytest.raises(OSError, match="I/O error"):
        block_of("/dev/sdx", host.root)


def test_two_names_of_a_file_are_the_same(tmp_path: Path) -> None:
    """A file is itself by a symlink and by a hard link; another file is not, and what is no file is nothing."""
    file = tmp_path / "x"
    for path in (file, tmp_path / "y"):
        path.write_text("")
    (tmp_path / "link").symlink_to(file)
    (tmp_path / "hard").hardlink_to(file)
    same = [identity_at(tmp_path / name) == identity_at(file) for name in ("x", "link", "hard", "y")]
    assert same == [True, True, True, False]
    assert [identity_at(name) for name in (tmp_path, tmp_path / "gone", "\0", "/dev/null")] == [None] * 4


def test_this_process_is_left_out(host: FakeHost, tmp_path: Path) -> None:
    """What it has open itself is no reason to refuse."""
    file = tmp_path / "x"
    file.write_text("")
    for owner in (str(os.getpid()), "7"):
        folder = host.root / "proc" / owner / "fd"
        folder.mkdir(parents=True)
        (folder / "3").symlink_to(file)
    assert list(read_processes(host.root).users.values()) == [(User("a program (process 7)"),)]


def test_a_table_of_mounts_is_read_once_for_each_root(host: FakeHost) -> None:
    """In a mount namespace, processes with the same root directory see the same mounts, others may see others."""
    (host.root / "jail").mkdir()
    for owner, root in (("self", host.root), ("7", host.root / "jail"), ("8", host.root / "jail"), ("9", host.root)):
        (host.root / f"proc/{owner}/ns").mkdir(parents=True)
        (host.root / f"proc/{owner}/ns/mnt").symlink_to(f"mnt:[{'1' if owner == 'self' else '2'}]")
        (host.root / f"proc/{owner}/root").symlink_to(root)
    first, unread, outside = (host.disk(name) for name in ("sdx", "sdy", "sdz"))
    for block, owner in ((first, "7"), (unread, "8"), (outside, "9")):
        host.mount_block(block, f"/{owner}", process=owner)

    assert set(read_usage(host.root).uses) == {identity(first), identity(outside)}


def layer(host: FakeHost, block: Path) -> Layer:
    """Return the layer of a device of ``host``."""
    return Layer(identity=identity(block), path=host.root / "dev" / block.name, block=block)


@pytest.mark.parametrize("part", [True, False])
def test_a_zram_device_claims_only_its_own_backing_device(
    host: FakeHost, part: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other layers must be claimed; the node of sdb leads to another object, so its claim is refused here."""
    monkeypatch.setattr(exclusive_access, "identity_by_name", lambda name: identity_by_name(name, host.root))
    backing, other = host.disk("sda"), host.disk("sdb")
    backing_name = host.partition(backing, 1).name if part else backing.name
    zram = host.stacked_device("zram0", backing_dev=f"/dev/{backing_name}\n")
    target, held, free = (layer(host, block) for block in (zram, backing, other))

    with ExitStack() as claims:
        assert exclusive_access.claim_beneath((target, held), PATH, claims) == ()
        with pytest.raises(TargetBusy, match=r"it is built on sdb, and .*/dev/sdb no longer leads"):
            exclusive_access.claim_beneath((target, held, free), PATH, claims)


def test_a_file_beneath_the_target_that_cannot_be_opened_is_refused_with_the_reason(tmp_path: Path) -> None:
    """Only a missing or replaced path has changed; other errors, such as those of the disk, are named."""
    target = Layer(identity=Identity("device", 1), path=PATH, block=None)
    folder = Layer(identity=Identity("file", 1, 1), path=tmp_path, block=None)
    missing = Layer(identity=Identity("file", 1, 2), path=tmp_path / "missing.img", block=None)

    with ExitStack() as claims:
        with pytest.raises(TargetUnfit, match=r"which cannot be opened \(Is a directory\)"):
            exclusive_access.claim_beneath((target, folder), PATH, claims)
        with pytest.raises(TargetBusy, match=r"missing\.img, which no longer leads"):
            exclusive_access.claim_beneath((target, missing), PATH, claims)
