"""The list of a host's drives, and every reason for which a test refuses a drive, on made-up hosts."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from snia_pts.errors import SniaPtsError, TargetBusy, TargetMissing, TargetNotOurs, TargetUnfit
from snia_pts.lab import inventory, purge
from snia_pts.lab.device import refusals
from snia_pts.lab.device.usage import read_usage
from snia_pts.lab.inventory import ListedDevice, PcieLink, read_inventory
from tests.drives import MIB, make_ext4, need_root, zfs_marks
from tests.hosts import FakeHost


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    """Return a host without devices."""
    return FakeHost(tmp_path)


def listed(host: FakeHost, name: str = "sdx") -> ListedDevice:
    """Return the entry of one device; require that listing it changes no byte of any device."""
    nodes = [path for path in (host.root / "dev").rglob("*") if path.is_file() and not path.is_symlink()]
    before = [hashlib.sha256(node.read_bytes()).digest() for node in nodes]
    found = {device.path.removeprefix(f"{host.root}/dev/"): device for device in read_inventory(host.root)}
    assert [hashlib.sha256(node.read_bytes()).digest() for node in nodes] == before
    return found[name]


# -- what a device is -------------------------------------------------------------------------------------------------


def test_a_free_drive_can_be_tested(host: FakeHost) -> None:
    """A drive that nobody uses and that holds no data is listed as free, with all its properties."""
    host.nvme()
    (host.root / "dev/disk/by-id").mkdir(parents=True)
    for name in ("nvme-eui.36", "nvme-SAMSUNG_MZQL2960HCJR-00A07_S64HNE0R500001", "wwn-0x1"):
        (host.root / "dev/disk/by-id" / name).symlink_to("../../nvme0n1" if name != "wwn-0x1" else "../../sda")
    device = listed(host, "nvme0n1")

    assert device.refusal is None
    assert device.dut is not None
    assert (device.dut.model, device.dut.serial, device.dut.firmware) == (
        "SAMSUNG MZQL2960HCJR-00A07",
        "S64HNE0R500001",
        "GDC5302Q",
    )
    assert (device.link, device.link_maximum) == (
        PcieLink(gigatransfers=8, lanes=4),
        PcieLink(gigatransfers=16, lanes=4),
    )
    assert device.numa_node == 1
    assert device.by_id == (
        "/dev/disk/by-id/nvme-SAMSUNG_MZQL2960HCJR-00A07_S64HNE0R500001",
        "/dev/disk/by-id/nvme-eui.36",
    )
    assert device.purge_methods == purge.available_methods(device.dut, host.root)
    assert device.purge_methods


def test_a_drive_with_several_paths_is_one_drive(host: FakeHost) -> None:
    """With native NVMe multipath the paths are hidden, and the link is found through the controller."""
    host.nvme()
    subsystem = host.root / "sys/devices/virtual/nvme-subsystem/nvme-subsys0"
    subsystem.mkdir(parents=True)
    slot = host.root / "sys/devices/pci0000:00/0000:01:00.0"
    (slot / "nvme/nvme0/nvme0n1").rename(subsystem / "nvme0n1")
    for name in ("sys/block/nvme0n1", "sys/class/block/nvme0n1", "sys/dev/block/8:1"):
        (host.root / name).unlink()
        (host.root / name).symlink_to(subsystem / "nvme0n1")
    (subsystem / "nvme0").symlink_to(slot / "nvme/nvme0")
    host.disk("nvme0c0n1", hidden="1\n")
    device = listed(host, "nvme0n1")

    assert [Path(item.path).name for item in read_inventory(host.root)] == ["nvme0n1"]
    assert device.dut is not None
    assert (device.dut.bus, device.dut.kind, device.numa_node) == ("NVMe", "drive", 1)
    assert device.link == PcieLink(gigatransfers=8, lanes=4)


def test_unknown_properties_are_not_guessed(host: FakeHost) -> None:
    """A SATA drive has no PCIe link of its own, and a missing NUMA node stays unknown."""
    host.disk(place="pci0000:00/0000:00:17.0/ata1/host0/block")
    host.write("sys/devices/pci0000:00/0000:00:17.0/current_link_speed", "2.5 GT/s\n")
    host.write("sys/devices/pci0000:00/0000:00:17.0/numa_node", "-1\n")
    devices = listed(host)

    assert (devices.link, devices.link_maximum, devices.numa_node, devices.by_id) == (None, None, None, ())


def test_an_unknown_link_speed_is_zero(host: FakeHost) -> None:
    """The kernel's "Unknown" is not a speed."""
    host.nvme()
    host.write("sys/devices/pci0000:00/0000:01:00.0/current_link_speed", "Unknown\n")

    assert listed(host, "nvme0n1").link == PcieLink(gigatransfers=0, lanes=4)


@pytest.mark.parametrize("text", ["\N{SUPERSCRIPT TWO}", "9" * 5000, "1e9", "-1"])
def test_invalid_numbers_are_unknown(text: str, host: FakeHost) -> None:
    """Lanes and NUMA node are plain digits, or unknown."""
    host.nvme()
    for name in ("current_link_width", "numa_node"):
        host.write(f"sys/devices/pci0000:00/0000:01:00.0/{name}", text)
    device = listed(host, "nvme0n1")

    assert device.link is not None
    assert (device.link.lanes, device.numa_node) == (0, None)


@pytest.mark.parametrize(
    "odd", ["\0", "x" * 5000, "x/" * 3000, "..", "\\000", "\N{SUPERSCRIPT TWO}:1", "9" * 5000 + ":1"]
)
def test_malformed_lines_of_the_kernel_hide_no_use(odd: str, host: FakeHost) -> None:
    """Names and numbers that no file has are skipped; the device mounted in a later line is still in use."""
    block = host.disk()
    host.mount("/odd", odd if ":" in odd else "0:45", f"/dev/{odd}")
    host.swap(f"/dev/{odd}")
    host.swap(f"/dev/{odd}", "file")
    host.write("proc/locks", f"1: FLOCK  ADVISORY  WRITE 1 ffffffffff:{'9' * 99}:{'9' * 5000} 0 EOF\n{odd}\n")
    host.write("sys/block/loop0/loop/backing_file", f"/dev/{odd}\n")
    host.mount_block(block, "/mnt")

    assert "it is mounted at /mnt" in str(listed(host).refusal)


@pytest.mark.parametrize("blank", ["\xa0", "\u2028", "\u3000", "\x85", "\v", "\f", "\r", "\x1c"])
def test_unusual_blanks_hide_no_use(blank: str, host: FakeHost) -> None:
    """The kernel escapes ASCII blanks, tabs and line feeds in names, but no other white space."""
    block = host.disk()
    Path(f"{host.root}/swap{blank}file").write_bytes(b"x")
    host.mount(f"/a{blank}b", (block / "dev").read_text())
    host.swap(f"/swap{blank}file", "file")
    uses = [use.predicate for found in read_usage(host.root).uses.values() for use in found]

    assert f"is mounted at /a{blank}b" in uses
    assert "is swap space" in uses


def test_drives_are_in_natural_order(host: FakeHost) -> None:
    """nvme2n1 comes before nvme10n1, and partitions are not listed as drives."""
    for name in ("nvme10n1", "sdb", "nvme2n1", "sda"):
        host.partition(host.disk(name), 1)

    assert [Path(device.path).name for device in read_inventory(host.root)] == ["nvme2n1", "nvme10n1", "sda", "sdb"]


def test_loop_devices_without_a_file_are_not_listed(host: FakeHost) -> None:
    """An unused loop device of the kernel is not listed; an empty slot of a card reader is, without a medium."""
    host.stacked_device("loop0", size="0\n")
    host.stacked_device("zram0", size="0\n")
    host.disk(size="0\n")
    (device,) = read_inventory(host.root)

    assert (Path(device.path).name, device.dut) == ("sdx", None)
    assert "no size" in str(device.refusal)


def test_a_device_that_loses_its_size_while_it_is_listed_is_refused(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop device that is detached while it is listed cannot be tested."""
    loop = host.stacked_device("loop3", loop__backing_file="/x.img\n")
    real = refusals.require_writable

    def detached(path: Path) -> None:
        real(path)
        (loop / "size").write_text("0\n")

    host.write("x.img", "x")
    monkeypatch.setattr(inventory, "require_writable", detached)
    device = listed(host, "loop3")

    assert device.dut is None
    assert isinstance(device.refusal, TargetUnfit)
    assert "no size" in str(device.refusal)


def test_a_name_with_a_slash(host: FakeHost) -> None:
    """If the kernel's name has a !, the node is in a subfolder of /dev."""
    host.disk("cciss!c0d0")

    assert listed(host, "cciss/c0d0").refusal is None


def test_no_devices(host: FakeHost) -> None:
    """A host or container without a single device has an empty list."""
    assert read_inventory(host.root) == ()


# -- whether it may be tested -----------------------------------------------------------------------------------------


def mounted(host: FakeHost) -> None:
    host.mount_block(host.disk(), "/data")


def mounted_by_name(host: FakeHost) -> None:
    host.disk()
    host.mount("/b", source="/dev/sdx")


def mounted_by_the_host(host: FakeHost) -> None:
    host.mount_block(host.disk(), "/host", process="1")


def mounted_in_a_container(host: FakeHost) -> None:
    host.mount_block(host.disk(), "/srv", process="4711")
    host.write("proc/4711/comm", "postgres\n")


def root_disk(host: FakeHost) -> None:
    host.mount_block(host.disk(), "/")


def root_partition(host: FakeHost) -> None:
    disk = host.disk()
    host.mount_block(host.partition(disk, 1), "/boot/efi")
    host.mount_block(host.partition(disk, 2), "/")


def root_far_above(host: FakeHost) -> None:
    disk = host.disk()
    array = host.stacked_device("md127", host.partition(disk, 3))
    crypt = host.stacked_device("dm-0", array, dm__name="luks-1\n", dm__uuid="CRYPT-LUKS2-1-luks-1\n")
    volume = host.stacked_device("dm-1", crypt, dm__name="vg0-root\n", dm__uuid="LVM-abc\n")
    host.mount_block(volume, "/", process="1")


def second_disk_of_root(host: FakeHost) -> None:
    """The root file system is a btrfs over two disks; the mount names only the other disk."""
    host.mount("/", source="/dev/sda")
    host.disk("sda")
    host.write("sys/fs/btrfs/features/x", "")
    (host.root / "sys/fs/btrfs/uuid/devices").mkdir(parents=True)
    (host.root / "sys/fs/btrfs/uuid/devices/sdx").symlink_to(host.disk())


def bcachefs(host: FakeHost) -> None:
    host.disk("sda")
    host.disk()
    host.mount("/pool", source="/dev/sdx:/dev/sda")


def loop_on_it(host: FakeHost) -> None:
    host.disk()
    host.stacked_device("loop3", loop__backing_file="/dev/sdx\n")


def mounted_loop_on_it(host: FakeHost) -> None:
    disk = host.disk()
    host.mount_block(host.stacked_device("loop3", loop__backing_file=f"/dev/{disk.name}\n"), "/iso")


def swap(host: FakeHost) -> None:
    host.disk()
    host.swap("/dev/sdx")


def swap_above(host: FakeHost) -> None:
    host.stacked_device("dm-4", host.partition(host.disk(), 1), dm__name="vg0-swap\n")
    host.swap("/dev/dm-4")


def volume_group(host: FakeHost) -> None:
    host.stacked_device("dm-0", host.disk(), dm__name="vg0-data\n", dm__uuid="LVM-abc\n")


def multipath(host: FakeHost) -> None:
    host.stacked_device("dm-0", host.disk(), host.disk("sdy"), dm__name="mpatha\n", dm__uuid="mpath-36\n")


def array_of_a_partition(host: FakeHost) -> None:
    disk = host.disk()
    host.stacked_device("md127", host.partition(disk, 1))
    host.stacked_device("dm-2", disk)


def bcache(host: FakeHost) -> None:
    (host.disk() / "bcache").mkdir()


def exported(host: FakeHost) -> None:
    host.disk()
    host.write("sys/kernel/config/nvmet/subsystems/nqn/namespaces/1/device_path", "/dev/sdx\n")


def exported_by_scsi(host: FakeHost) -> None:
    host.disk()
    host.write("sys/kernel/config/target/core/iblock_0/disk/udev_path", "/dev/sdx\n")


def locked(host: FakeHost) -> None:
    host.disk()
    node = (host.root / "dev/sdx").stat()
    place = f"{os.major(node.st_dev):02x}:{os.minor(node.st_dev):02x}:{node.st_ino}"
    host.write("proc/locks", f"1: LEASE  ACTIVE  READ 7 {place} 0 EOF\n2: FLOCK  ADVISORY  WRITE 42 {place} 0 EOF\n")


def read_only(host: FakeHost) -> None:
    host.disk(ro="1\n")


def optical(host: FakeHost) -> None:
    host.disk(device__type="5\n")


def zoned(host: FakeHost) -> None:
    host.disk(queue__zoned="host-managed\n")


def without_a_node(host: FakeHost) -> None:
    host.disk()
    (host.root / "dev/sdx").unlink()


def partitioned(host: FakeHost) -> None:
    disk = host.disk()
    host.partition(disk, 1)
    host.partition(disk, 2)


def put(host: FakeHost, name: str, offset: int, mark: bytes) -> None:
    """Write a signature to a device."""
    with (host.root / "dev" / name).open("r+b") as node:
        node.seek(offset)
        node.write(mark)


def zfs_pool(host: FakeHost) -> None:
    """A partition with the first label of a ZFS pool."""
    host.partition(host.disk(), 1, size_bytes=64 * MIB)
    for offset, mark in zfs_marks():
        put(host, "sdx1", offset, mark)


def physical_volume(host: FakeHost) -> None:
    host.disk()
    body = ((32).to_bytes(4, "little") + b"LVM2 001" + b"u" * 32).ljust(492, b"\0")
    checksum = zlib.crc32(body, 0xF597A6CF ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
    put(host, "sdx", 512, b"LABELONE" + (1).to_bytes(8, "little") + checksum.to_bytes(4, "little") + body)


def ceph(host: FakeHost) -> None:
    host.disk()
    put(host, "sdx", 0, b"bluestore block device\n")


@pytest.mark.long_but_first
@pytest.mark.parametrize(
    ("case", "kind", "reason"),
    [
        (mounted, TargetBusy, "it is mounted at /data"),
        (mounted_by_name, TargetBusy, "it is mounted at /b"),
        (mounted_by_the_host, TargetBusy, "it is mounted at /host"),
        (
            mounted_in_a_container,
            TargetBusy,
            "it is mounted at /srv in the mount namespace of postgres (process 4711)",
        ),
        (root_disk, TargetBusy, "it holds the root file system"),
        (root_partition, TargetBusy, "its partition sdx2 holds the root file system"),
        (
            root_far_above,
            TargetBusy,
            "vg0-root, which is built on it (through luks-1, md127, sdx3), holds the root file system",
        ),
        (second_disk_of_root, TargetBusy, "it belongs to a btrfs file system in use"),
        (bcachefs, TargetBusy, "it is mounted at /pool"),
        (loop_on_it, TargetBusy, "it backs /dev/loop3"),
        (mounted_loop_on_it, TargetBusy, "loop3, which is built on it, is mounted at /iso"),
        (swap, TargetBusy, "it is swap space"),
        (swap_above, TargetBusy, "vg0-swap, which is built on it (through sdx1), is swap space"),
        (volume_group, TargetBusy, "it backs vg0-data (LVM)"),
        (multipath, TargetBusy, "it backs mpatha (multipath)"),
        (array_of_a_partition, TargetBusy, "it backs dm-2 (device mapper), md127 (RAID)"),
        (bcache, TargetBusy, "it is registered with bcache"),
        (exported, TargetBusy, "it is exported to other hosts (NVMe target)"),
        (exported_by_scsi, TargetBusy, "it is exported to other hosts (SCSI target)"),
        (locked, TargetBusy, "a program (process 42) has locked it (another run of snia-pts?)"),
        (read_only, TargetUnfit, "it is read-only"),
        (optical, TargetUnfit, "it is an optical drive or a floppy disk"),
        (zoned, TargetUnfit, "its zones accept only sequential writes (host-managed), and the tests write at random"),
        (without_a_node, TargetMissing, "does not exist"),
        (partitioned, TargetNotOurs, "it holds sdx1 (nothing recognised), sdx2 (nothing recognised)"),
        (zfs_pool, TargetBusy, "it is marked as a member of a ZFS pool"),
        (physical_volume, TargetBusy, "it is marked as a member of LVM"),
        (ceph, TargetBusy, "it is marked as a member of Ceph"),
    ],
    ids=lambda case: case.__name__ if callable(case) and not isinstance(case, type) else "",
)
def test_a_drive_in_use_cannot_be_tested(
    host: FakeHost, case: Callable[[FakeHost], None], kind: type[SniaPtsError], reason: str
) -> None:
    """Each use of a drive has its own reason; listing writes nothing, and the neighbour drive is free."""
    host.nvme(7)
    case(host)
    refusal = listed(host).refusal

    assert type(refusal) is kind
    assert reason in str(refusal)
    assert refusal.hint
    assert listed(host, "nvme7n1").refusal is None


def test_the_root_file_system_is_the_first_reason(host: FakeHost) -> None:
    """If a disk is used in several ways, the most important use is reported."""
    disk = host.disk()
    host.mount_block(host.partition(disk, 1), "/boot")
    host.mount_block(host.partition(disk, 2), "/")
    host.swap("/dev/sdx3")
    host.partition(disk, 3)

    assert "root file system" in str(listed(host).refusal)


@pytest.mark.root
def test_a_name_of_another_device_is_refused(host: FakeHost) -> None:
    """A leftover node that has the kernel's name of one drive but leads to another is refused."""
    need_root()
    disk = host.disk()
    (host.root / "dev/sdx").unlink()
    os.mknod(host.root / "dev/sdx", stat.S_IFBLK | 0o600, os.makedev(7, 255))

    assert (disk / "dev").read_text() == "8:1"
    assert "its node leads to another device" in str(listed(host).refusal)


def test_file_systems_are_named(host: FakeHost) -> None:
    """The file system of a drive or of its partitions is shown with its label, and is the reason of the refusal."""
    disk = host.disk()
    host.partition(disk, 1)
    make_ext4(host.root / "dev/sdx1", "photos")
    devices = listed(host)

    assert devices.contents == ("sdx1 (ext4 photos)",)
    assert isinstance(devices.refusal, TargetNotOurs)
    assert "it holds sdx1 (ext4 photos)" in str(devices.refusal)
    assert "--discard-data" in devices.refusal.hint


def test_a_device_without_permission_is_reported(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator without permission to open the device gets that reason, before anything is read."""
    host.disk()
    monkeypatch.setattr(os, "access", lambda *_, effective_ids: not effective_ids)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    devices = listed(host)

    assert isinstance(devices.refusal, TargetUnfit)
    assert "cannot be opened for writing (Permission denied)" in str(devices.refusal)
    assert "root" in devices.refusal.hint
    assert devices.contents == ()


def test_a_drive_that_cannot_be_read_is_refused(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the device cannot be read, nothing can be recognised on it: that is not an empty drive."""

    def broken(_descriptor: int, length: int, offset: int) -> bytes:
        if offset:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return bytes(length)

    host.disk()
    monkeypatch.setattr(os, "pread", broken)
    devices = listed(host)

    assert isinstance(devices.refusal, TargetNotOurs)
    assert "its content cannot be examined (Input/output error)" in str(devices.refusal)


def test_a_drive_that_disappears_does_not_hide_the_others(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the program that inspects all drives fails at one of them, the others are still listed."""
    host.disk("sda")
    host.disk("sdb")
    monkeypatch.setattr(
        "snia_pts.lab.device.contents._read_error",
        lambda disk: disk.unlink(missing_ok=True) if disk.name == "sdb" else "",
    )
    found = {Path(device.path).name: device.refusal for device in read_inventory(host.root)}

    assert found["sda"] is None
    assert "its content cannot be examined (wipefs: error:" in str(found["sdb"])


def test_uses_of_other_disks_are_no_reason(host: FakeHost) -> None:
    """Mounts and swap of disks with a similar name, meaningless lines, and swap files are no reason for a refusal."""
    host.disk()
    neighbour = host.disk("sdxa")
    host.mount_block(neighbour, "/")
    host.mount_block(host.partition(neighbour, 1), "/home")
    host.write("proc/1/mountinfo", "garbage\n36 25\n - \n36 25 8:99 / /gone rw - ext4 /dev/sdx9 rw\n")
    host.swap("/swap\\040file", "file")
    host.swap("/backup/sdx", "file")
    host.write("proc/locks", "1: FLOCK  ADVISORY  WRITE 42 00:06:1 0 EOF\ngarbage\n")

    assert listed(host).refusal is None


def test_a_circle_of_devices_ends(host: FakeHost) -> None:
    """If the kernel's files describe a circle of devices, the inspection still ends."""
    disk = host.disk()
    above = host.stacked_device("dm-0", disk)
    (disk / "slaves/dm-0").symlink_to(above)
    host.mount_block(above, "/circle")

    assert "mounted at /circle" in str(listed(host).refusal)
