"""Hosts for tests: trees of /sys, /proc and /dev with disks that do not exist."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tests.drives import MIB

NVME = {
    "queue/logical_block_size": "512\n",
    "queue/physical_block_size": "4096\n",
    "queue/rotational": "0\n",
    "queue/write_cache": "write back\n",
    "queue/discard_max_bytes": "2199023255040\n",
}
CONTROLLER = {"model": "SAMSUNG MZQL2960HCJR-00A07   \n", "serial": "S64HNE0R500001  \n", "firmware_rev": "GDC5302Q\n"}
SLOT = {
    "numa_node": "1\n",
    "current_link_speed": "8.0 GT/s PCIe\n",
    "current_link_width": "4\n",
    "max_link_speed": "16.0 GT/s PCIe\n",
    "max_link_width": "4\n",
}


class FakeHost:
    """A host below ``root``; every disk is unused until something is added."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._minor = 0
        (root / "proc" / str(os.getpid())).mkdir(parents=True)
        (root / "proc/self").symlink_to(str(os.getpid()))
        self.write("proc/self/mountinfo", "")
        self.write("proc/swaps", "Filename\t\t\t\tType\t\tSize\n")
        (root / "sys/block").mkdir(parents=True)
        (root / "sys/class/block").mkdir(parents=True)
        (root / "sys/dev/block").mkdir(parents=True)

    def write(self, name: str, text: str) -> Path:
        """Write a file of /proc, /sys or /dev."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def _device(self, folder: str, files: Mapping[str, str], *, size_bytes: int = 2 * MIB) -> Path:
        """Make a block device's folder, the links that lead to it, and an empty node."""
        self._minor += 1
        number, name = f"8:{self._minor}", folder.rpartition("/")[2]
        for key, text in {"dev": number, "size": f"{size_bytes // 512}\n", "ro": "0\n", **files}.items():
            self.write(f"sys/devices/{folder}/{key}", text)
        block = self.root / "sys/devices" / folder
        (block / "holders").mkdir()
        (block / "slaves").mkdir()
        (self.root / "sys/class/block" / name).symlink_to(block)
        (self.root / "sys/dev/block" / number).symlink_to(block)
        if "partition" not in files:
            (self.root / "sys/block" / name).symlink_to(block)
        os.truncate(self.write(f"dev/{name.replace('!', '/')}", ""), size_bytes)
        return block

    def disk(self, name: str = "sdx", *, place: str = "pci0000:00/ata1/host0/block", **files: str) -> Path:
        """Make a disk; in the names of files ``__`` stands for the slash."""
        given = {key.replace("__", "/"): text for key, text in files.items()}
        return self._device(f"{place}/{name}", {"queue/logical_block_size": "512\n", "device/model": "DISK\n", **given})

    def nvme(self, number: int = 0, *, address: str = "0000:01:00.0") -> Path:
        """Make an NVMe drive in a PCIe slot."""
        slot = f"sys/devices/pci0000:00/{address}"
        controller = f"{slot}/nvme/nvme{number}"
        for key, text in SLOT.items():
            self.write(f"{slot}/{key}", text)
        for key, text in CONTROLLER.items():
            self.write(f"{controller}/{key}", text.replace("0001", f"000{number + 1}"))
        block = self._device(f"{controller.removeprefix('sys/devices/')}/nvme{number}n1", NVME)
        (block / "device").symlink_to(self.root / controller)
        return block

    def partition(self, disk: Path, number: int, *, size_bytes: int = MIB) -> Path:
        """Make a partition of a disk."""
        between = "p" if disk.name[-1].isdigit() else ""
        place = disk.relative_to(self.root / "sys/devices")
        return self._device(
            f"{place}/{disk.name}{between}{number}", {"partition": f"{number}\n"}, size_bytes=size_bytes
        )

    def stacked_device(self, name: str, *below: Path, **files: str) -> Path:
        """Make a device of the kernel (dm-0, md127) on top of others."""
        given = {key.replace("__", "/"): text for key, text in files.items()}
        block = self._device(f"virtual/block/{name}", given)
        for layer in below:
            (block / "slaves" / layer.name).symlink_to(layer)
            (layer / "holders" / name).symlink_to(block)
        return block

    def mount(self, place: str, number: str = "0:45", source: str = "none", *, process: str = "self") -> None:
        """Add a mount to a process's table."""
        table = self.root / f"proc/{process}/mountinfo"
        before = table.read_text() if table.exists() else ""
        self.write(
            f"proc/{process}/mountinfo", f"{before}36 25 {number} / {place} rw,relatime shared:1 - ext4 {source} rw\n"
        )

    def mount_block(self, block: Path, place: str, *, process: str = "self") -> None:
        """Mount a device."""
        self.mount(place, (block / "dev").read_text(), f"/dev/{block.name}", process=process)

    def swap(self, name: str, kind: str = "partition") -> None:
        """Swap to a device or file."""
        path = self.root / "proc/swaps"
        path.write_text(f"{path.read_text()}{name}  {kind}  2097148 0 -2\n")


def make_kernel_files(root: Path) -> None:
    """Make the files that show that /proc and /sys are mounted below another root, if they are missing."""
    (root / "sys/block").mkdir(parents=True, exist_ok=True)
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    (root / "proc/self/mountinfo").touch()
