"""The identity of a target: from sysfs trees of every kind, real loop devices and files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from snia_pts.errors import TargetMissing, TargetUnfit
from snia_pts.lab.device.identity import block_directory, block_dut, direct_sector_bytes, read_dut
from snia_pts.lab.device.mounts import Mount
from snia_pts.lab.device.storage import devices_of_mount
from tests.drives import MIB, filled, loop_device

NVME = {
    "size": "1875385008\n",
    "dev": "259:0\n",
    "ro": "0\n",
    "queue/logical_block_size": "512\n",
    "queue/physical_block_size": "4096\n",
    "queue/rotational": "0\n",
    "queue/write_cache": "write back\n",
    "queue/discard_max_bytes": "2199023255040\n",
    "device/model": "SAMSUNG MZQL2960HCJR-00A07              \n",
    "device/serial": "S64HNE0R500001      \n",
    "device/firmware_rev": "GDC5302Q\n",
}
SATA: Mapping[str, str | bytes] = {
    "size": "1875385008\n",
    "dev": "8:16\n",
    "queue/logical_block_size": "512\n",
    "queue/physical_block_size": "4096\n",
    "queue/rotational": "0\n",
    "queue/write_cache": "write through\n",
    "queue/discard_max_bytes": "2147450880\n",
    "device/vendor": "ATA     \n",
    "device/model": "INTEL SSDSC2KB96\n",
    "device/rev": "0132\n",
    "device/vpd_pg80": b"\0\x80\0\x14BTYF9382047Q960CGN  \0",
}


def tree(root: Path, place: str, attributes: Mapping[str, str | bytes], device_number: str = "8:16") -> Path:
    """Make a sysfs tree with one block device at ``place``; return the root."""
    block = root / "sys" / place
    for name, value in attributes.items():
        (block / name).parent.mkdir(parents=True, exist_ok=True)
        (block / name).write_bytes(value if isinstance(value, bytes) else value.encode())
    numbers = root / "sys/dev/block"
    numbers.mkdir(parents=True)
    (numbers / device_number).symlink_to(block)
    return root


def identified(root: Path, place: str, attributes: Mapping[str, str | bytes]) -> dict[str, Any]:
    """Return the identity of the device of a fake tree, without values that are missing in the tree."""
    tree(root, place, attributes)
    dut = block_dut(Path("/dev/sdx"), block_directory(os.makedev(8, 16), root), root)
    assert (dut.instance, dut.array) == (None, None)
    return {
        name: getattr(dut, name) for name in dut.__slots__ if name not in ("write_cache_source", "instance", "array")
    }


def test_a_device_is_found_where_podman_hides_its_number(tmp_path: Path) -> None:
    """In a container, sys/dev/block is empty, and only root may open it; the names of devices are still there."""
    place = "devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1"
    (tmp_path / "sys/class/block").mkdir(parents=True)
    (tmp_path / "sys/class/block/nvme0n1").symlink_to(tmp_path / "sys" / place)
    tree(tmp_path, place, {"dev": "259:0\n"}, "259:0")
    (tmp_path / "sys/dev/block/259:0").unlink()
    (tmp_path / "sys/dev/block").chmod(0)
    mount = Mount(number="259:0", part="/", point="/volume", kind="ext4", source="/dev/root", options=())

    assert block_directory(os.makedev(259, 0), tmp_path) == (tmp_path / "sys" / place).resolve()
    assert devices_of_mount(mount, tmp_path) == [(tmp_path / "sys" / place).resolve()]
    assert not block_directory(os.makedev(0, 45), tmp_path).exists()
    (tmp_path / "sys/dev/block").chmod(0o700)


def test_nvme(tmp_path: Path) -> None:
    """An NVMe drive reports all values; the kernel's padding is removed."""
    assert identified(tmp_path, "devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1", NVME) == {
        "path": "/dev/sdx",
        "kind": "drive",
        "model": "SAMSUNG MZQL2960HCJR-00A07",
        "serial": "S64HNE0R500001",
        "firmware": "GDC5302Q",
        "bus": "NVMe",
        "capacity_bytes": 960_197_124_096,
        "logical_sector_bytes": 512,
        "physical_sector_bytes": 4096,
        "rotational": False,
        "write_cache": "enabled",
        "discard": True,
    }


def test_sata(tmp_path: Path) -> None:
    """A SATA drive has its serial number in a SCSI page and its firmware as rev; ATA is not a vendor."""
    found = identified(tmp_path, "devices/pci0000:00/ata2/host1/target1:0:0/1:0:0:0/block/sdb", SATA)

    assert (found["model"], found["serial"], found["firmware"]) == ("INTEL SSDSC2KB96", "BTYF9382047Q960CGN", "0132")
    assert (found["bus"], found["write_cache"]) == ("SATA", "disabled")


def test_a_serial_page_without_text_is_none(tmp_path: Path) -> None:
    """A USB bridge that answers with an empty page has no serial number."""
    found = identified(tmp_path, "devices/pci0/usb1/1-1/host2/block/sdb", {**SATA, "device/vpd_pg80": b"\0\x80\0\0"})

    assert (found["serial"], found["bus"]) == ("", "USB")


def test_scsi_names_its_vendor(tmp_path: Path) -> None:
    """A SAS drive's model begins with its vendor."""
    found = identified(tmp_path, "devices/pci0/host1/block/sdb", {**SATA, "device/vendor": "SEAGATE \n"})

    assert (found["model"], found["bus"]) == ("SEAGATE INTEL SSDSC2KB96", "SCSI")


def test_sata_behind_a_sas_controller(tmp_path: Path) -> None:
    """A drive with the vendor ATA is a SATA drive, whatever its controller is."""
    place = "devices/pci0/host1/port-1:0/end_device-1:0/target1:0:0/1:0:0:0/block/sdb"

    assert identified(tmp_path, place, SATA)["bus"] == "SATA"


@pytest.mark.parametrize(
    ("place", "transport", "bus"),
    [
        ("devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1", "", "NVMe"),
        ("devices/pci0/0000:01:00.0/nvme/nvme0/nvme0n1", "pcie\n", "NVMe"),
        ("devices/virtual/nvme-fabrics/ctl/nvme1/nvme1n1", "tcp\n", "NVMe/TCP"),
    ],
)
def test_nvme_over_every_transport(tmp_path: Path, place: str, transport: str, bus: str) -> None:
    """A drive with several paths is an NVMe drive; a drive behind a network has the bus of its transport."""
    found = identified(tmp_path, place, {**NVME, **({"device/transport": transport} if transport else {})})

    assert (found["bus"], found["kind"]) == (bus, "drive")


@pytest.mark.parametrize(
    ("name", "files", "model"),
    [
        ("dm-0", {"dm/name": "vg0-data\n"}, "device mapper vg0-data"),
        ("md127", {"md/level": "raid1\n"}, "RAID raid1"),
        ("zram0", {}, "virtual device zram0"),
    ],
)
def test_a_virtual_device_of_the_kernel_is_not_a_drive(
    tmp_path: Path, name: str, files: dict[str, str], model: str
) -> None:
    """The kind names the virtual device, so that no report calls it a solid state drive."""
    found = identified(tmp_path, f"devices/virtual/block/{name}", {"size": "2048\n", **files})

    assert (found["kind"], found["bus"], found["model"]) == ("virtual device", "virtual", model)


def test_udev_has_the_serial_number(tmp_path: Path) -> None:
    """If sysfs has no serial number, that of udev is used."""
    plain = {name: value for name, value in SATA.items() if name != "device/vpd_pg80"}
    (tmp_path / "run/udev/data").mkdir(parents=True)
    (tmp_path / "run/udev/data/b8:16").write_text("E:ID_MODEL=x\nE:ID_SERIAL=x_y\nE:ID_SERIAL_SHORT=Z9 \n")

    assert identified(tmp_path, "devices/ata2/block/sdb", plain)["serial"] == "Z9"


def test_virtio(tmp_path: Path) -> None:
    """A virtual disk has a number as its vendor, a serial file in another place, and no model."""
    found = identified(
        tmp_path,
        "devices/pci0/virtio1/block/vdb",
        {"size": "2048\n", "dev": "253:16\n", "serial": "disk-7\n", "device/vendor": "0x1af4\n"},
    )

    assert (found["model"], found["serial"], found["bus"]) == ("", "disk-7", "virtio")


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        ("\N{SUPERSCRIPT TWO}\n", "no size"),
        ("9" * 5000, "no size"),
        ("-8\n", "no size"),
        (str(2**62), "implausible capacity"),
    ],
)
def test_an_implausible_size_is_refused(size: str, reason: str, tmp_path: Path) -> None:
    """A size that is not a plain number, or larger than any drive, is refused."""
    with pytest.raises(TargetUnfit, match=reason):
        identified(tmp_path, "devices/ata2/block/sdb", {**SATA, "size": size})


@pytest.mark.parametrize("size", ["0\n", "\N{SUPERSCRIPT TWO}\n", "9" * 5000, str(2**62), "x"])
def test_an_invalid_sector_size_is_unknown(size: str, tmp_path: Path) -> None:
    """A sector size that is not a plain number above zero counts as not reported."""
    names = ("queue/logical_block_size", "queue/physical_block_size")
    found = identified(tmp_path, "devices/ata2/block/sdb", {**SATA, **dict.fromkeys(names, size)})

    assert (found["logical_sector_bytes"], found["physical_sector_bytes"]) == (512, 512)


@pytest.mark.parametrize("number", ["8:16\0x", "../../b8:16", "x" * 5000, "\N{SUPERSCRIPT TWO}:1"])
def test_an_invalid_device_number_is_ignored(number: str, tmp_path: Path) -> None:
    """It is not used as the name of a file of udev."""
    plain = {name: value for name, value in SATA.items() if name != "device/vpd_pg80"}

    assert identified(tmp_path, "devices/ata2/block/sdb", {**plain, "dev": number})["serial"] == ""


def test_values_that_are_not_reported_are_empty(tmp_path: Path) -> None:
    """If the kernel reports only a size, texts are empty and other values unknown, never guessed."""
    assert identified(tmp_path, "devices/odd/block/odd0", {"size": "8\n"}) == {
        "path": "/dev/sdx",
        "kind": "drive",
        "model": "",
        "serial": "",
        "firmware": "",
        "bus": "unknown",
        "capacity_bytes": 4096,
        "logical_sector_bytes": 512,
        "physical_sector_bytes": 512,
        "rotational": None,
        "write_cache": "unknown",
        "discard": False,
    }


def test_a_4kn_drive_counts_its_size_in_512_bytes(tmp_path: Path) -> None:
    """sysfs counts units of 512 bytes for every sector size: a 4Kn drive is not eight times as large."""
    found = identified(tmp_path, "devices/nvme/nvme0n1", {"size": "800\n", "queue/logical_block_size": "4096\n"})

    assert (found["capacity_bytes"], found["logical_sector_bytes"]) == (409_600, 4096)


def test_a_rotational_drive_is_identified(tmp_path: Path) -> None:
    """The kernel's value of rotational is used, and a missing discard limit means no discard."""
    found = identified(tmp_path, "d/sdb", {"size": "8", "queue/rotational": "1\n", "queue/discard_max_bytes": "0\n"})

    assert (found["rotational"], found["discard"]) == (True, False)


@pytest.mark.parametrize("size", ["0\n", "", "what\n", "-8\n"])
def test_a_device_without_a_size_is_unfit(tmp_path: Path, size: str) -> None:
    """A drive without a medium cannot be tested."""
    with pytest.raises(TargetUnfit, match="no size"):
        identified(tmp_path, "devices/block/sdb", {"size": size})


def test_a_partition_is_refused(tmp_path: Path) -> None:
    """It is refused when it is examined, so that no plan is made for it."""
    with pytest.raises(TargetUnfit, match="it is a partition of /dev/sdb") as refusal:
        identified(tmp_path, "devices/ata2/block/sdb/sdb1", {"size": "2048\n", "partition": "1\n"})

    assert "whole drive" in refusal.value.hint


def test_text_that_is_not_utf8_is_read(tmp_path: Path) -> None:
    """A drive with an invalid name does not stop the suite."""
    assert identified(tmp_path, "d/sdb", {"size": "8", "device/model": b"X\xff\xfeY\n"})["model"] == "X��Y"


@pytest.mark.root
@pytest.mark.parametrize("sector_bytes", [512, 4096])
def test_loop_devices(tmp_path: Path, sector_bytes: int) -> None:
    """A real loop device reports its file, sector and capacity; its identity is its name."""
    image = tmp_path / "disk.img"
    with loop_device(image, 8 * MIB + sector_bytes, sector_bytes=sector_bytes) as device:
        dut = read_dut(device)

        assert (dut.kind, dut.bus, dut.model) == ("loop device", "loop", f"loop device on {image}")
        assert (dut.capacity_bytes, dut.logical_sector_bytes) == (8 * MIB + sector_bytes, sector_bytes)
        assert (dut.serial, dut.identity, dut.path, dut.discard) == ("", device.name, str(device), True)
        assert read_dut(device, size_bytes=5).capacity_bytes == dut.capacity_bytes


@pytest.mark.root
def test_a_symlink_leads_to_its_device(tmp_path: Path) -> None:
    """A symlink such as those in /dev/disk/by-id is followed, and the report names the device itself."""
    with loop_device(tmp_path / "disk.img", MIB) as device:
        (tmp_path / "by-id").symlink_to(device)

        assert read_dut(tmp_path / "by-id") == read_dut(device)


@pytest.mark.root
def test_a_file_has_the_sector_of_its_disk(tmp_path: Path) -> None:
    """A file's sector is the unit of direct I/O there, and its capacity whole sectors; its content is only read."""
    image = filled(tmp_path / "x.img", 3 * 4096 + 700)
    before = image.read_bytes()
    dut = read_dut(image)

    assert dut.logical_sector_bytes == direct_sector_bytes(image) in (512, 4096)
    assert dut.capacity_bytes == (3 * 4096 + 700) // dut.logical_sector_bytes * dut.logical_sector_bytes
    assert (dut.kind, dut.model, dut.identity, dut.path) == ("file", "file x.img", "x.img", str(image))
    assert image.read_bytes() == before


def test_a_file_that_will_be_created(tmp_path: Path) -> None:
    """A file that does not exist yet has the requested size, and an examination does not create it."""
    dut = read_dut(tmp_path / "new.img", size_bytes=MIB + 100)

    assert (dut.capacity_bytes, dut.kind) == (MIB, "file")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_target_is_refused(tmp_path: Path) -> None:
    """A path that does not exist is refused, and not created, without a size and below /dev also with one."""
    with pytest.raises(TargetMissing):
        read_dut(tmp_path / "gone.img")
    for mistyped in ("/dev/nvme77n1", "/dev/../dev/nvme77n1", "/dev/no/such"):
        with pytest.raises(TargetMissing) as missing:
            read_dut(Path(mistyped), size_bytes=MIB)
        assert missing.value.exit_code == 6
    (tmp_path / "link").symlink_to("/dev/nvme77n1")
    with pytest.raises(TargetMissing):
        read_dut(tmp_path / "link", size_bytes=MIB)

    assert not Path("/dev/nvme77n1").exists()


def test_other_kinds_of_files_are_refused(tmp_path: Path) -> None:
    """Folders, pipes, character devices, circular symlinks, and empty and tiny files are refused with the reason."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    (tmp_path / "tiny").write_bytes(b"x" * 100)
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    reasons = {
        tmp_path: "directory",
        tmp_path / "pipe": "neither",
        Path("/dev/null"): "neither",
        Path("/dev/zero"): "neither",
        tmp_path / "empty": "empty",
        tmp_path / "tiny": "less than one sector",
        tmp_path / "a": "cannot be examined",
        tmp_path / "tiny" / "x": "cannot be examined",
    }
    for path, reason in reasons.items():
        with pytest.raises(TargetUnfit, match=reason):
            read_dut(path)


def test_a_size_below_a_sector_is_refused(tmp_path: Path) -> None:
    """A target has at least one sector."""
    for size in (0, 1, 511):
        with pytest.raises(TargetUnfit):
            read_dut(tmp_path / "new.img", size_bytes=size)
