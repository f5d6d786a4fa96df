"""Which targets the suite refuses; every refusal leaves its target unchanged."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import re
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from snia_pts.cli.main import main
from snia_pts.errors import (
    DeviceFailed,
    HostFailed,
    NotConfirmed,
    SniaPtsError,
    TargetBusy,
    TargetMissing,
    TargetNotOurs,
    TargetUnfit,
)
from snia_pts.lab.device import file_target as filetarget
from snia_pts.lab.device import target_claim
from snia_pts.lab.device.contents import Contents, read_contents
from snia_pts.lab.device.identity import raw_attribute, read_dut, traits
from snia_pts.lab.device.refusals import require_free
from snia_pts.lab.device.storage import Identity, Layer
from snia_pts.lab.device.target_claim import (
    Target,
    claim_target,
    confirm,
    contents,
    require_as_confirmed,
    require_claimable,
)
from snia_pts.lab.device.usage import read_usage
from snia_pts.lab.inventory import read_inventory
from snia_pts.model.run_options import RunOptions
from snia_pts.runner.confirmation import refuse
from snia_pts.runner.device import DeviceSetup
from snia_pts.units import exact_capacity
from tests import samples
from tests.drives import (
    MIB,
    content,
    filled,
    loop_device,
    make_ext4,
    mounted,
    need_program,
    need_root,
    partitioned,
    refused_at_once,
    zfs_marks,
)
from tests.hosts import FakeHost
from tests.simulated_device.drive import loop_drive

ROOT = Path(__file__).parent.parent


def claimed(path: Path, size_bytes: int | None = None, *, overwrite: bool = False, **how: Any) -> Any:
    """Claim a target."""
    return claim_target(path, size_bytes=size_bytes, overwrite=overwrite, **how)


def listed(path: Path) -> SniaPtsError | None:
    """Return the reason for which the list of devices says that a device cannot be tested."""
    (found,) = (item for item in read_inventory() if item.path == str(path))
    return found.refusal


def refused(
    path: Path,
    kind: type[SniaPtsError],
    reason: str,
    size_bytes: int | None = None,
    *,
    kept: Callable[[Path], str] = content,
    **how: Any,
) -> None:
    """Require that a target is refused with this error and reason.

    The content of ``kept`` is unchanged, and the list of devices, if it has the device, gives the same reason.
    """
    before = kept(path) if path.is_file() or path.is_block_device() else ""
    with refused_at_once():
        with pytest.raises(kind, match=reason) as caught, claimed(path, size_bytes, **how):
            raise AssertionError("it was claimed")
        assert type(caught.value) is kind
        assert caught.value.hint
        if (
            path.is_block_device()
            and not path.is_symlink()
            and not any(how.values())
            and (Path("/sys/block") / path.name).exists()
        ):
            assert str(listed(path)) == str(caught.value)
    if before:
        assert kept(path) == before


@contextmanager
def other_program(code: str, *argv: str) -> Iterator[subprocess.Popen[str]]:
    """Run another Python program, which executes its code and then waits until it is ended."""
    command = [sys.executable, "-c", f"{code}\nprint('ready', flush=True)\nimport sys; sys.stdin.read()", *argv]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        yield running
        running.kill()


OPENS = "import os, sys\nkept = os.open(sys.argv[1], getattr(os, sys.argv[2]) | getattr(os, sys.argv[3]))"
HOLDS = (
    "import sys\nfrom pathlib import Path\nfrom snia_pts.lab.device.target_claim import claim_target\n"
    "kept = claim_target(Path(sys.argv[1]), size_bytes=None, overwrite=True)\nkept.__enter__()"
)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Path]:
    """Return a loop device full of another user's data."""
    with loop_device(filled(tmp_path / "disk.img", 4 * MIB)) as path:
        yield path


# -- devices ----------------------------------------------------------------------------------------------------------


@pytest.mark.root
def test_a_free_device_is_claimed_and_not_written(device: Path) -> None:
    """A device that nobody uses is open exclusively all the time, not written, and free again afterwards."""
    before = content(device)
    with claimed(device) as target:
        assert (target.dut.path, target.dut.capacity_bytes) == (str(device), 4 * MIB)
        with pytest.raises(OSError, match="busy"):
            os.open(device, os.O_RDONLY | os.O_EXCL)
        target.require_same("here", "this")
    os.close(os.open(device, os.O_RDONLY | os.O_EXCL))

    assert content(device) == before


@pytest.mark.root
@pytest.mark.parametrize("link", [False, True], ids=["device", "link"])
def test_a_mounted_device_is_refused(tmp_path: Path, link: bool) -> None:
    """A file system in use is refused with its mount point, also by a symlink's name; its data is unchanged."""
    with loop_device(tmp_path / "disk.img", 8 * MIB) as path:
        make_ext4(path)
        (tmp_path / "link").symlink_to(path)
        with mounted(path, tmp_path / "mnt", "-o", "ro") as place:
            refused(tmp_path / "link" if link else path, TargetBusy, f"mounted at {place}")


@pytest.mark.long
@pytest.mark.root
def test_a_mount_in_another_namespace_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device mounted only in a container is refused with its mount point.

    If that is hidden, the kernel's exclusive open fails.
    """
    mount = tmp_path / "mnt"
    mount.mkdir()
    with loop_device(tmp_path / "disk.img", 8 * MIB) as path:
        make_ext4(path)
        script = 'mount -o ro "$1" "$2" && echo ready && read x'
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", str(path), str(mount)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as container:
            assert container.stdout is not None
            if container.stdout.readline() != "ready\n":
                pytest.skip("no mount namespaces here")
            assert str(mount) not in Path("/proc/self/mountinfo").read_text()
            try:
                where = rf"mounted at {mount} in the mount namespace of sh \(process {container.pid}\)"
                refused(path, TargetBusy, where)
                monkeypatch.setattr(target_claim, "require_free", lambda *_, **__: None)
                with pytest.raises(TargetBusy, match="it is already open exclusively"), claimed(path):
                    raise AssertionError("it was claimed")
            finally:
                container.communicate("\n")


def swap_header(path: Path) -> str:
    """Return the part of swap space in use that the kernel itself does not write: its first page."""
    with path.open("rb") as file:
        return file.read(4096).hex()


@pytest.mark.root
def test_swap_is_refused(tmp_path: Path) -> None:
    """A device to which the kernel swaps is refused as such."""
    with loop_device(tmp_path / "disk.img", 4 * MIB) as path:
        subprocess.run(["mkswap", path], check=True, capture_output=True)
        on = subprocess.run(["swapon", path], check=False, capture_output=True, text=True)
        if on.returncode:
            pytest.skip(f"no swap here: {on.stderr.strip()}")
        try:
            refused(path, TargetBusy, "it is swap space", kept=swap_header)
        finally:
            subprocess.run(["swapoff", path], check=True)


@pytest.mark.long_but_first
@pytest.mark.root
@pytest.mark.parametrize(
    ("mode", "exclusive", "reason"),
    [
        ("O_RDONLY", "O_CLOEXEC", r"\(process {pid}\) has it open"),
        ("O_RDWR", "O_CLOEXEC", r"\(process {pid}\) has it"),
        ("O_RDONLY", "O_EXCL", r"\(process {pid}\) has it open"),
    ],
)
def test_an_open_device_is_refused(device: Path, mode: str, exclusive: str, reason: str) -> None:
    """A device that another program has open, exclusively or not, is refused, and the program is named if possible."""
    with other_program(OPENS, str(device), mode, exclusive) as other:
        refused(device, TargetBusy, reason.format(pid=other.pid))


@pytest.mark.root
def test_a_brief_open_is_no_use(device: Path) -> None:
    """A program that has the device open for a moment, as udev and lists of drives do, prevents no run."""
    passing = "import os, sys, time\nkept = os.open(sys.argv[1], os.O_RDONLY)\n"
    script = f"{passing}print('ready', flush=True)\ntime.sleep(0.2)\n"
    with subprocess.Popen([sys.executable, "-c", script, str(device)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        with claimed(device) as target:
            assert target.dut.path == str(device)
    assert other.returncode == 0


@pytest.mark.long
@pytest.mark.root
def test_a_device_open_by_another_node_is_refused(device: Path, tmp_path: Path) -> None:
    """A program in a container has the same device open by another node; it is found by its device number."""
    node = tmp_path / device.name
    subprocess.run(["mknod", node, "b", "7", device.name.removeprefix("loop")], check=True)
    with other_program(OPENS, str(node), "O_RDONLY", "O_CLOEXEC") as other:
        refused(device, TargetBusy, f"process {other.pid}")


@pytest.mark.root
def test_a_second_run_is_refused(device: Path) -> None:
    """Two runs never share a device: the second is refused, with the process of the first."""
    with other_program(HOLDS, str(device)) as other:
        refused(device, TargetBusy, rf"\(process {other.pid}\) has it open")
    with claimed(device):
        refused(device, TargetBusy, "snia-pts itself has locked it")


@pytest.mark.long
@pytest.mark.root
def test_a_hidden_user_is_detected_by_the_exclusive_open(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If /proc hides who uses a device, the exclusive open fails; a user who comes at the last moment is seen later."""
    monkeypatch.setattr(target_claim, "require_free", lambda *_, **__: None)
    with (
        other_program(HOLDS, str(device)),
        pytest.raises(TargetBusy, match="it is already open exclusively"),
        claimed(device),
    ):
        raise AssertionError("it was claimed")
    with (
        other_program(OPENS, str(device), "O_RDONLY", "O_CLOEXEC") as other,  # it opened the device at the last moment
        pytest.raises(TargetBusy, match=rf"process {other.pid}\) has it open"),
        claimed(device),
    ):
        raise AssertionError("it was claimed")


@pytest.mark.root
def test_a_locked_device_is_refused(device: Path) -> None:
    """A device that a partitioner has locked is refused (and the suite's own lock keeps udev away from it)."""
    with device.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        refused(device, TargetBusy, "locked")


@pytest.mark.root
def test_a_read_only_device_is_refused(tmp_path: Path) -> None:
    """The reason for a write-protected device is that it is read-only."""
    with loop_device(filled(tmp_path / "disk.img"), read_only=True) as path:
        refused(path, TargetUnfit, "it is read-only")


@pytest.mark.root
def test_a_device_on_a_read_only_file_system_is_refused(tmp_path: Path) -> None:
    """A loop device whose file cannot be written is read-only, and therefore refused."""
    with mounted("none", tmp_path / "ro", "-t", "tmpfs") as place:
        filled(place / "disk.img")
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        with loop_device(place / "disk.img", read_only=True) as path:
            refused(path, TargetUnfit, "it is read-only")


@pytest.mark.root
def test_an_unbound_device_is_refused(tmp_path: Path) -> None:
    """A block device without a medium cannot be tested."""
    with loop_device(filled(tmp_path / "disk.img")) as path:
        pass
    if path.exists() and Path(f"/sys/block/{path.name}/size").read_text().strip() == "0":
        with pytest.raises(TargetUnfit, match="no size"), claimed(path):
            raise AssertionError("it was claimed")


@pytest.mark.long
@pytest.mark.root
def test_a_partitioned_device_is_refused(tmp_path: Path) -> None:
    """A disk with an unused partition still holds data of somebody; a partition itself is not a whole drive."""
    with loop_device(tmp_path / "disk.img", 16 * MIB) as path, partitioned(path, 8192) as (part,):
        refused(path, TargetNotOurs, rf"it holds dos partition table, {part.name} \(nothing recognised\)")
        refused(part, TargetUnfit, f"it is a partition of {path}")
        refused(part, TargetUnfit, f"it is a partition of {path}", discard_data=True)


@pytest.mark.long
@pytest.mark.root
def test_a_device_with_a_partition_in_use_is_refused(tmp_path: Path) -> None:
    """--discard-data gives up data that nobody uses, and nothing else."""
    with loop_device(tmp_path / "disk.img", 16 * MIB) as path, partitioned(path, 16384) as (part,):
        make_ext4(part, "photos")
        refused(path, TargetNotOurs, rf"{part.name} \(ext4 photos\)")
        with mounted(part, tmp_path / "mnt", "-o", "ro") as place:
            for discard_data in (False, True):
                refused(path, TargetBusy, f"its partition {part.name} is mounted at {place}", discard_data=discard_data)
        with other_program(OPENS, str(part), "O_RDONLY", "O_CLOEXEC") as other:
            for discard_data in (False, True):
                refused(path, TargetBusy, rf"process {other.pid}\) has {part.name} open", discard_data=discard_data)


@pytest.mark.root
def test_discarded_data_is_unchanged_by_the_claim(tmp_path: Path) -> None:
    """--discard-data claims a drive with partitions, which then cannot be mounted; the claim changes nothing."""
    with loop_device(tmp_path / "disk.img", 16 * MIB) as path, partitioned(path, 16384) as (part,):
        make_ext4(part, "photos")
        before = content(path)
        with claimed(path, discard_data=True) as target:
            assert contents(target, tmp_path).descriptions(path.name) == (
                "dos partition table",
                f"{part.name} (ext4 photos)",
            )
            (tmp_path / "mnt").mkdir()
            mount = subprocess.run(["mount", part, tmp_path / "mnt"], check=False, capture_output=True, text=True)
            assert mount.returncode != 0
        assert content(path) == before


def put(path: Path, offset: int, mark: bytes) -> None:
    """Write a signature to a device."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(mark)
        os.fsync(file.fileno())


def with_file_system(path: Path) -> None:
    """Make a file system with a label."""
    make_ext4(path, "photos")


def with_swap(path: Path) -> None:
    """Make swap space that is not in use."""
    subprocess.run(["mkswap", path], check=True, capture_output=True)


def with_gpt(path: Path, *, start: int = 0, sector_bytes: int = 512, part: tuple[int, int] | None = None) -> None:
    """Write a GUID partition table at byte ``start``, without partitions or with one between two sectors."""
    entry = struct.pack("<16s16sQQ", b"t" * 16, b"u" * 16, *part) if part else b""
    entries = entry.ljust(128 * 128, b"\0")
    last = 8 * MIB // sector_bytes - 1
    room = len(entries) // sector_bytes + 1
    fields = [
        b"EFI PART",
        0x10000,
        92,
        0,
        0,
        1,
        last,
        1 + room,
        last - room,
        bytes(range(16)),
        2,
        128,
        128,
        zlib.crc32(entries),
    ]
    form = "<8sIIIIQQQQ16sQIII"
    fields[3] = zlib.crc32(struct.pack(form, *fields))
    put(path, start + 446, struct.pack("<B3sB3sII", 0, b"", 0xEE, b"", 1, last))
    put(path, start + 510, b"\x55\xaa")
    put(path, start + sector_bytes, struct.pack(form, *fields))
    put(path, start + 2 * sector_bytes, entries)


def with_volume(path: Path) -> None:
    """Make a physical volume of LVM."""
    body = (struct.pack("<I", 32) + b"LVM2 001" + b"u" * 32).ljust(492, b"\0")
    checksum = zlib.crc32(body, 0xF597A6CF ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
    put(path, 512, b"LABELONE" + struct.pack("<QI", 1, checksum) + body)


def with_array(path: Path) -> None:
    """Make a member of a Linux RAID, version 1.2."""
    block = bytearray(
        struct.pack("<III", 0xA92B4EFC, 1, 0) + bytes(4) + bytes(range(16)) + b"host:home".ljust(32, b"\0")
    )
    block += bytes(1024 - len(block))
    struct.pack_into("<Q", block, 144, 8)  # its position in sectors
    words = struct.unpack("<64I", block[:256])
    total = sum(words)
    struct.pack_into("<I", block, 216, ((total & 0xFFFFFFFF) + (total >> 32)) & 0xFFFFFFFF)
    put(path, 4096, bytes(block))


def with_pool(path: Path) -> None:
    """Write the first label of a ZFS pool."""
    for offset, mark in zfs_marks():
        put(path, offset, mark)


def with_cache(path: Path) -> None:
    """Make a backing device of bcache."""
    magic = bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")
    put(path, 4096, struct.pack("<QQQ16s", 0, 8, 1, magic) + b"u" * 16)


def with_mirror(path: Path) -> None:
    """Make a device of DRBD, mirrored to another host."""
    put(path, 8 * MIB - 4096 + 48, struct.pack(">QIIIIIIII", 5, 0, 0x8374026B, 8, 8, 127, 16, 4096, 0))


def with_osd(path: Path) -> None:
    """Make a device of Ceph's BlueStore."""
    put(path, 0, b"bluestore block device\n")


@pytest.mark.long_but_first
@pytest.mark.root
@pytest.mark.parametrize(
    ("write", "text"),
    [(with_file_system, "ext4 photos"), (with_swap, "swap"), (with_gpt, "gpt partition table, PMBR partition table")],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_device_with_data_is_refused(tmp_path: Path, write: Callable[[Path], None], text: str) -> None:
    """Data that is recognised on an unused device is named, and refused unless it may be discarded."""
    with loop_device(tmp_path / "disk.img", 8 * MIB) as path:
        write(path)
        refused(path, TargetNotOurs, f"it holds {text}")
        refused(path, TargetNotOurs, f"it holds {text}", overwrite=True)
        before = content(path)
        with claimed(path, discard_data=True) as target:
            assert contents(target, tmp_path).descriptions(path.name) == tuple(text.split(", "))
        assert content(path) == before


@pytest.mark.root
def test_a_device_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """A drive that returns errors looks empty to the tools; it is refused because its content cannot be read."""
    with loop_drive(tmp_path) as drive:
        drive.fail_after(0)
        with pytest.raises(TargetNotOurs, match=r"cannot be examined \(Input/output error\)"), claimed(drive.path):
            raise AssertionError("it was claimed")
        drive.heal()
        with claimed(drive.path) as target:
            assert contents(target, tmp_path) == Contents()


@pytest.mark.long_but_first
@pytest.mark.root
@pytest.mark.parametrize(
    ("write", "whole"),
    [
        (with_volume, "LVM"),
        (with_array, "a Linux RAID"),
        (with_pool, "a ZFS pool"),
        (with_osd, "Ceph"),
        (with_cache, "a bcache"),
        (with_mirror, r"a RAID \(drbd\)"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_member_of_a_larger_volume_is_refused(tmp_path: Path, write: Callable[[Path], None], whole: str) -> None:
    """A drive without which others lose their data is refused even if nobody uses it and with --discard-data."""
    with loop_device(tmp_path / "disk.img", 64 * MIB if write is with_pool else 8 * MIB) as path:
        write(path)
        for discard_data in (False, True):
            refused(path, TargetBusy, f"marked as a member of {whole}", discard_data=discard_data)


@pytest.mark.long
@pytest.mark.root
def test_an_external_journal_is_refused(tmp_path: Path) -> None:
    """The file system of the journal is on another drive."""
    with loop_device(tmp_path / "disk.img", 8 * MIB) as path:
        subprocess.run(["mke2fs", "-q", "-F", "-O", "journal_dev", path], check=True, capture_output=True)
        for discard_data in (False, True):
            refused(path, TargetBusy, "marked as a member of a file system", discard_data=discard_data)


@pytest.mark.long
@pytest.mark.root
@pytest.mark.parametrize("in_partition", [False, True])
def test_one_drive_of_a_btrfs_is_refused(tmp_path: Path, in_partition: bool) -> None:
    """Without it the other one cannot be mounted; a btrfs of one drive may be discarded."""
    need_program("mkfs.btrfs", "btrfs-progs")
    size, start = 128 * MIB, MIB * in_partition
    offset = ("--offset", str(start))
    with loop_device(tmp_path / "disk.img", size + start) as path, loop_device(tmp_path / "other.img", size) as other:
        if in_partition:
            entry = struct.pack("<B3sB3sII", 0, b"", 0x83, b"", start // 512, size // 512)
            put(path, 446, entry.ljust(64, b"\0") + b"\x55\xaa")
        for others in ((), (other,)):
            with loop_device(path, 0, *offset) as part:
                subprocess.run(["mkfs.btrfs", "-q", "-f", part, *others], check=True, capture_output=True)
            if others:
                for discard_data in (False, True):
                    for member in (path, other):
                        refused(member, TargetBusy, "member of a btrfs of 2 drives", discard_data=discard_data)
            else:
                with claimed(path, discard_data=True):
                    pass


@pytest.mark.long
@pytest.mark.root
@pytest.mark.parametrize("sector_bytes", [512, 4096])
def test_a_member_in_a_partition_that_the_kernel_has_not_read_is_refused(tmp_path: Path, sector_bytes: int) -> None:
    """A loop device has no partition nodes by default; the content of its partitions counts nevertheless."""
    starts, length = (MIB // sector_bytes, 3 * MIB // sector_bytes), 2 * MIB // sector_bytes
    table = b"".join(struct.pack("<B3sB3sII", 0, b"", 0x83, b"", start, length) for start in starts)
    with loop_device(tmp_path / "disk.img", 16 * MIB, "--sector-size", str(sector_bytes)) as path:
        put(path, 446, table.ljust(64, b"\0") + b"\x55\xaa")
        assert not list(Path(f"/sys/block/{path.name}").glob(f"{path.name}p*"))
        refused(path, TargetNotOurs, rf"{path.name} partition 2 \(nothing recognised\)")
        with claimed(path, discard_data=True):
            pass
        part = tmp_path / "part"
        part.write_bytes(bytes(2 * MIB))
        with_volume(part)
        put(path, 3 * MIB, part.read_bytes())
        for discard_data in (False, True):
            refused(path, TargetBusy, "marked as a member of LVM", discard_data=discard_data)
        add = ["partx", "--add", "--nr", "1", str(path)]
        if not subprocess.run(add, check=False, capture_output=True).returncode:  # it has read the first one only
            for discard_data in (False, True):
                refused(path, TargetBusy, "marked as a member of LVM", discard_data=discard_data)
            subprocess.run(["partx", "--delete", path], check=True, capture_output=True)
        no_node = Path(f"{path}p2")  # the kernel has the partition, but a container has no node for it
        assert any(signature.member_of for signature in read_contents({path: [no_node]})[path].signatures)


def table(*parts: tuple[int, int]) -> bytes:
    """Return a partition table with partitions of a start and a length in sectors."""
    entries = (struct.pack("<B3sB3sII", 0, b"", 0x83, b"", start, length) for start, length in parts)
    return b"".join(entries).ljust(64, b"\0") + b"\x55\xaa"


@pytest.mark.long
@pytest.mark.root
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("inner", ["dos", "gpt", "gpt for other sectors"])
def test_a_member_within_a_partition_table_within_a_partition_is_refused(
    tmp_path: Path, inner: str, known: bool
) -> None:
    """A virtual machine may have a partition as its disk; whether the kernel has read the outer table is irrelevant."""
    with loop_device(tmp_path / "disk.img", 16 * MIB) as path, ExitStack() as stack:
        if known:
            stack.enter_context(partitioned(path, 8 * MIB // 512))
        else:
            put(path, 446, table((2048, 8 * MIB // 512)))
        if inner == "dos":
            put(path, MIB + 446, table((4096, 4096)))
        else:
            sector_bytes = 512 if inner == "gpt" else 4096
            first = 2 * MIB // sector_bytes
            with_gpt(path, start=MIB, sector_bytes=sector_bytes, part=(first, 2 * first - 1))
        outer = f"{path.name}p1" if known else f"{path.name} partition 1"
        kind = inner.partition(" ")[0]
        refused(
            path,
            TargetNotOurs,
            rf"{outer} \(.*{kind} partition table.*\), {outer} partition 1 \(nothing recognised\)",
        )
        with claimed(path, discard_data=True):
            pass
        part = tmp_path / "part"
        part.write_bytes(bytes(MIB))
        with_volume(part)
        put(path, 3 * MIB, part.read_bytes())
        for discard_data in (False, True):
            refused(path, TargetBusy, "marked as a member of LVM", discard_data=discard_data)


def with_volume_at(disk: Path, folder: Path, offset: int) -> None:
    """Make a physical volume of LVM that begins at a byte of a disk."""
    part = folder / "part"
    part.write_bytes(bytes(MIB))
    with_volume(part)
    put(disk, offset, part.read_bytes())


def require_searched(disk: Path, folder: Path, reason: str, offset: int) -> None:
    """Require that a disk with an empty partition at ``offset`` may be discarded, but not with a member in it."""
    refused(disk, TargetNotOurs, reason)
    with claimed(disk, discard_data=True):
        pass
    with_volume_at(disk, folder, offset)
    for discard_data in (False, True):
        refused(disk, TargetBusy, "marked as a member of LVM", discard_data=discard_data)


@pytest.mark.long
@pytest.mark.root
@pytest.mark.parametrize(
    ("kind", "name", "shown"),
    [
        ("bsd", "", ""),
        ("mac", "data", "mac partition table, "),
        ("sun", "", "sun partition table, "),
        ("dvh", "primary", "sgi partition table, "),
        ("atari", "primary", "atari partition table, "),
        ("gpt", "data", "gpt partition table, "),
    ],
)
def test_a_member_in_any_partition_table_is_refused(tmp_path: Path, kind: str, name: str, shown: str) -> None:
    """Tables of other systems are written by parted and read by libblkid; some of them the kernel does not read."""
    need_program("parted", "parted")
    image = tmp_path / "disk.img"
    image.write_bytes(bytes(64 * MIB))
    for command in (["mklabel", kind], ["mkpart", *filter(None, [name]), "ext2", "16MiB", "24MiB"]):
        subprocess.run(["parted", "--script", image, *command], check=True, capture_output=True)
    with loop_device(image) as path:
        start = r"loop\d+ partition \d+ \(nothing recognised\)"
        require_searched(path, tmp_path, rf"it holds {shown}(.*, )?{start}", 16 * MIB)


def bsd_label(*parts: tuple[int, int]) -> bytes:
    """Return a BSD disklabel with these partitions (first sector and length); the third one covers everything."""
    label = bytearray(148 + 16 * 8)
    for offset, number in ((0, 0x82564557), (40, 512), (132, 0x82564557)):
        struct.pack_into("<I", label, offset, number)
    struct.pack_into("<H", label, 138, 8)
    for number, (start, length) in enumerate(parts):
        struct.pack_into("<IIIB", label, 148 + 16 * number, length, start, 0, 7)
    checksum = 0
    for (word,) in struct.iter_unpack("<H", bytes(label)):
        checksum ^= word
    struct.pack_into("<H", label, 136, checksum)
    return bytes(label)


def solaris_table(start: int, length: int) -> bytes:
    """Return a Solaris table of contents with one slice, in sectors of the partition."""
    table_of_contents = bytearray(512)
    for offset, number in ((12, 0x600DDEEE), (16, 1)):
        struct.pack_into("<I", table_of_contents, offset, number)
    struct.pack_into("<HH", table_of_contents, 28, 512, 16)
    struct.pack_into("<HHII", table_of_contents, 72, 2, 0, start, length)
    return bytes(table_of_contents)


@pytest.mark.long
@pytest.mark.root
@pytest.mark.parametrize(
    ("kind", "inner"),
    [
        (0xA5, bsd_label((2048 + 4096, 8192), (0, 0), (2048, 65536))),
        (0xA5, bsd_label((4096, 8192), (0, 0), (0, 65536))),
        (0xA6, bsd_label((2048 + 4096, 8192))),
        (0xA9, bsd_label((2048 + 4096, 8192))),
        (0x82, solaris_table(4096, 8192)),
    ],
    ids=["FreeBSD", "FreeBSD 10", "OpenBSD", "NetBSD", "Solaris"],
)
def test_a_member_in_a_disklabel_within_a_partition_is_refused(tmp_path: Path, kind: int, inner: bytes) -> None:
    """Each system counts its sectors from the start of the disk, or of the partition."""
    with loop_device(tmp_path / "disk.img", 64 * MIB) as path:
        put(path, 446, struct.pack("<B3sB3sII", 0, b"", kind, b"", 2048, 65536).ljust(64, b"\0") + b"\x55\xaa")
        put(path, MIB + 512, inner)
        # util-linux 2.41.5 does not number the slices of Solaris: the suite finds them in the partition's content.
        require_searched(path, tmp_path, rf"{path.name} partition (5|1 partition 1) \(nothing recognised\)", 3 * MIB)


@pytest.mark.long
@pytest.mark.root
def test_a_disk_of_aix_is_refused(tmp_path: Path) -> None:
    """libblkid recognises its signature, but none of its contents."""
    with loop_device(tmp_path / "disk.img", 8 * MIB) as path:
        put(path, 0, b"\xc9\xc2\xd4\xc1")
        refused(path, TargetNotOurs, "it holds aix partition table")
        with claimed(path, discard_data=True):
            pass


@pytest.mark.long
@pytest.mark.root
def test_a_disk_of_ultrix_is_searched(tmp_path: Path) -> None:
    """Its table is at the end of the first 16 KiB."""
    with loop_device(tmp_path / "disk.img", 16 * MIB) as path:
        entries = struct.pack("<II", 8192, 4096).ljust(64, b"\0")
        put(path, 16384 - 72, struct.pack("<ii", 0x032957, 1) + entries)
        reason = rf"ultrix partition table, {path.name} partition 1 \(nothing recognised\)"
        require_searched(path, tmp_path, reason, 2 * MIB)


@pytest.mark.long
@pytest.mark.root
def test_a_member_in_a_table_for_another_sector_size_is_refused(tmp_path: Path) -> None:
    """A drive has one if it was moved out of a USB bridge with larger sectors."""
    with loop_device(tmp_path / "disk.img", 8 * MIB) as path:
        with_gpt(path, sector_bytes=4096, part=(256, 767))
        refused(path, TargetNotOurs, rf"{path.name} partition 1 \(nothing recognised\)")
        part = tmp_path / "part"
        part.write_bytes(bytes(MIB))
        with_volume(part)
        put(path, MIB, part.read_bytes())
        refused(path, TargetBusy, "marked as a member of LVM", discard_data=True)


@pytest.mark.root
def test_a_partition_is_also_read_from_its_disk(tmp_path: Path) -> None:
    """Its node may lead elsewhere, and its entry in the partition table may be longer than the kernel's."""
    with loop_device(tmp_path / "disk.img", 16 * MIB) as path, partitioned(path, 4 * MIB // 512) as (part,):
        node = tmp_path / part.name
        node.write_bytes(bytes(4 * MIB))
        assert read_contents({path: [node]})[path].descriptions(path.name)[1:] == (f"{part.name} (nothing recognised)",)
        with_volume(part)
        (found,) = [one for one in read_contents({path: [node]})[path].signatures if one.device == part.name]
        assert found.member_of == "LVM"


@pytest.mark.root
@pytest.mark.parametrize("known", [True, False])
def test_logical_partitions_are_listed_once(tmp_path: Path, known: bool) -> None:
    """An extended partition begins with its own partition table, which lists them again."""
    first = struct.pack("<B3sB3sII", 0, b"", 0x05, b"", 2048, 20480).ljust(64, b"\0") + b"\x55\xaa"
    logical = struct.pack("<B3sB3sII", 0, b"", 0x83, b"", 2048, 4096)
    with loop_device(tmp_path / "disk.img", 16 * MIB) as path:
        put(path, 446, first)
        put(path, MIB + 446, (logical + struct.pack("<B3sB3sII", 0, b"", 0x05, b"", 8192, 6144)).ljust(64, b"\0"))
        put(path, MIB + 510, b"\x55\xaa")
        put(path, 5 * MIB + 446, logical.ljust(64, b"\0") + b"\x55\xaa")
        nodes = list[Path]()
        if known:
            if subprocess.run(["partx", "--add", path], check=False, capture_output=True).returncode:
                pytest.skip("no partitions on loop devices here")
            nodes = [Path(f"{path}p{number}") for number in (1, 5, 6)]
        try:
            names = [name.partition(" (")[0] for name in read_contents({path: nodes})[path].descriptions(path.name)]
        finally:
            if known:
                subprocess.run(["partx", "--delete", path], check=True)
        between = "p" if known else " partition "
        assert names == ["dos partition table", *(f"{path.name}{between}{number}" for number in (1, 5, 6))]


@pytest.mark.long
@pytest.mark.root
def test_a_member_with_a_second_signature_is_refused(tmp_path: Path) -> None:
    """In a partition that the kernel has not read, a file system that was not wiped does not hide a member."""
    part = tmp_path / "part"
    part.write_bytes(bytes(4 * MIB))
    with_file_system(part)
    with_osd(part)
    with loop_device(tmp_path / "disk.img", 8 * MIB) as path:
        put(path, 446, table((2048, 8192)))
        put(path, MIB, part.read_bytes())
        for discard_data in (False, True):
            refused(path, TargetBusy, "marked as a member of Ceph", discard_data=discard_data)


@pytest.mark.root
def test_a_device_below_device_mapper_is_refused(tmp_path: Path, device: Path) -> None:
    """A device that LVM, RAID or device mapper uses is refused with the name of the upper device."""
    need_program("dmsetup", "dmsetup")
    name = f"snia-pts-test-{os.getpid()}"
    table = f"0 2048 linear {device} 0"
    created = subprocess.run(["dmsetup", "create", name, "--table", table], check=False, capture_output=True, text=True)
    if created.returncode:
        pytest.skip(f"no device mapper here: {created.stderr.strip()}")
    try:
        refused(device, TargetBusy, f"it backs {name}")
    finally:
        subprocess.run(["dmsetup", "remove", name], check=True, capture_output=True)


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("new", [True, False])
def test_a_refused_target_leaves_no_new_file(new: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was created for a refused target is removed; a file that existed before stays, whoever made it."""
    path = tmp_path / "drive.img"
    if not new:
        with claimed(path, size_bytes=MIB):
            pass

    def refuse(*_: object) -> None:
        raise TargetBusy(path=path, reason="somebody opened it")

    monkeypatch.setattr(target_claim, "require_sole_open", refuse)
    with pytest.raises(TargetBusy, match="somebody opened it"), claimed(path, size_bytes=MIB):
        pytest.fail("it is claimed")

    assert path.exists() == (not new)


def test_a_file_that_appears_later_is_not_the_suites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that another user creates after the first check is refused, and stays."""
    path = tmp_path / "drive.img"

    def appearing(*arguments: Any, **options: Any) -> Any:
        found = read_dut(*arguments, **options)
        path.write_bytes(b"precious" * 1024)
        return found

    monkeypatch.setattr(target_claim, "read_dut", appearing)
    with pytest.raises(TargetNotOurs, match="snia-pts did not create it"), claimed(path, size_bytes=MIB):
        pytest.fail("it is claimed")

    assert path.read_bytes() == b"precious" * 1024


@pytest.mark.parametrize("new", [True, False])
def test_a_target_that_is_not_confirmed_leaves_no_new_file(
    new: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is refused before it starts leaves neither a run folder nor a file that it created."""
    path, run = tmp_path / "drive.img", tmp_path / "run"
    if not new:
        with claimed(path, size_bytes=32 * MIB):
            pass

    def refuse(*_: object) -> None:
        assert path.exists()
        raise NotConfirmed(path=path, reason="nobody typed its name", confirmation=path.name)

    monkeypatch.setattr(DeviceSetup, "confirm", refuse)
    assert main(["wsat", str(path), "--size", "32M", "--run-dir", str(run), "--to", "none"]) == NotConfirmed.exit_code

    assert path.exists() == (not new)
    assert not run.exists()


@pytest.mark.long
def test_a_new_file_is_marked_as_the_suites(tmp_path: Path) -> None:
    """A new file has its size and mode 0600, and is accepted again without --overwrite."""
    path = tmp_path / "new.img"
    with claimed(path, MIB) as target:
        assert (target.dut.kind, target.dut.capacity_bytes) == ("file", MIB)
    assert path.stat().st_size == MIB
    assert path.stat().st_mode & 0o777 == 0o600
    with claimed(path) as target:
        assert target.dut.capacity_bytes == MIB
        assert target.resized() is target  # of an array, which the purger compares with the array's facts
    with claimed(path, 2 * MIB) as target:
        assert target.dut.capacity_bytes == target.resized().dut.capacity_bytes == 2 * MIB == path.stat().st_size


@pytest.mark.long
def test_a_file_of_the_user_is_refused(tmp_path: Path) -> None:
    """A file that the suite did not create is refused, also by symlink or with a size, and keeps its size."""
    path = filled(tmp_path / "data.img")
    (tmp_path / "link").symlink_to(path)

    refused(path, TargetNotOurs, "did not create")
    refused(path, TargetNotOurs, "did not create", 4096)
    refused(path, TargetNotOurs, "did not create", 4 * MIB)
    refused(tmp_path / "link", TargetNotOurs, "did not create")
    refused(tmp_path / ".." / tmp_path.name / "data.img", TargetNotOurs, "did not create")


def test_overwrite_accepts_a_file_of_the_user(tmp_path: Path) -> None:
    """With --overwrite it is claimed; checking it changes nothing, and does not mark it as the suite's."""
    path = filled(tmp_path / "data.img")
    before = content(path)
    with claimed(path, overwrite=True) as target:
        assert target.dut.capacity_bytes == MIB

    assert content(path) == before
    refused(path, TargetNotOurs, "did not create")


@pytest.fixture
def suite_file(tmp_path: Path) -> Path:
    """Return a file of 8 MiB that the suite made."""
    path = tmp_path / "suite_file.img"
    with claimed(path, 8 * MIB):
        pass
    return path


def refused_as_user_file(path: Path, reason: str) -> None:
    """Require that run and --plan refuse it, with and without a size, and name --overwrite, which accepts it."""
    before = content(path)
    for size_bytes in (None, MIB):
        refused(path, TargetNotOurs, reason, size_bytes)
        with pytest.raises(TargetNotOurs, match=reason) as planned:
            require_claimable(path, size_bytes=size_bytes, overwrite=False)
        assert planned.value.exit_code == 8
        assert "--overwrite" in planned.value.hint
    with claimed(path, overwrite=True) as target:
        assert target.remove() == "snia-pts did not create it"
    assert content(path) == before


@pytest.mark.long
@pytest.mark.parametrize(
    ("write", "kind"),
    [
        (with_file_system, "ext4 photos"),
        (with_swap, "swap"),
        (with_gpt, "gpt partition table"),
        (with_volume, "LVM2_member"),
        (with_array, "linux_raid_member"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_suite_file_with_a_file_system_is_refused(suite_file: Path, write: Callable[[Path], None], kind: str) -> None:
    """A file system that a user made in a file of the suite is kept."""
    write(suite_file)
    refused_as_user_file(suite_file, f"it holds {kind}")


@pytest.mark.long
def test_an_image_copied_into_a_suite_file_is_refused(tmp_path: Path, suite_file: Path) -> None:
    """Its inode and mark stay, but the content is the user's."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(8 * MIB)
    make_ext4(image, "photos")
    suite_file.write_bytes(image.read_bytes())
    refused_as_user_file(suite_file, "it holds ext4 photos")


@pytest.mark.long
def test_an_unusual_label_hides_no_file_system(tmp_path: Path) -> None:
    """How wipefs prints a label does not matter."""
    path = tmp_path / "größe 100% [x].img"
    with claimed(path, 8 * MIB):
        pass
    make_ext4(path, "photos")
    refused_as_user_file(path, "it holds ext4 photos")


@pytest.mark.long
def test_a_copy_of_a_suite_file_is_not_the_suites(tmp_path: Path, suite_file: Path) -> None:
    """cp --archive copies the mark, which belongs to another inode."""
    copy = tmp_path / "copy.img"
    subprocess.run(["cp", "--archive", suite_file, copy], check=True)
    assert os.getxattr(copy, "user.snia-pts.target") == os.getxattr(suite_file, "user.snia-pts.target")
    refused_as_user_file(copy, "did not create it")
    copy.replace(suite_file)
    refused_as_user_file(suite_file, "did not create it")


@pytest.mark.long
@pytest.mark.root
def test_a_copy_on_another_file_system_is_not_the_suites(tmp_path: Path) -> None:
    """This holds even if both file systems use the same inode numbers, and have no generation numbers."""
    with (
        mounted("none", tmp_path / "a", "-t", "tmpfs") as first,
        mounted("none", tmp_path / "b", "-t", "tmpfs") as second,
    ):
        with claimed(first / "x.img", MIB):
            pass
        if not os.listxattr(first / "x.img"):
            pytest.skip("no user attributes on tmpfs before Linux 6.6")
        subprocess.run(["cp", "--archive", first / "x.img", second], check=True)
        assert (first / "x.img").stat().st_ino == (second / "x.img").stat().st_ino
        refused_as_user_file(second / "x.img", "did not create it")
        with claimed(first / "x.img"):
            pass


@pytest.mark.long
def test_an_invalid_mark_is_no_mark(tmp_path: Path) -> None:
    """Any other content of the attribute is no mark."""
    path = filled(tmp_path / "data.img")
    os.setxattr(path, "user.snia-pts.target", b"1")
    refused_as_user_file(path, "did not create it")


@pytest.mark.long
def test_random_data_and_zeros_are_the_suites(suite_file: Path) -> None:
    """Another run accepts what a run leaves behind."""
    with claimed(suite_file):
        pass
    suite_file.write_bytes(random.Random(3).randbytes(8 * MIB))
    with claimed(suite_file) as target:
        assert target.created_by_suite


@pytest.mark.long
def test_a_suite_file_that_cannot_be_read_is_refused(suite_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its content is unknown."""

    def fails(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", fails)
    refused_as_user_file(suite_file, "cannot be examined")


def test_a_file_with_two_names_is_refused(tmp_path: Path) -> None:
    """A hard link is another name for the same data: even --overwrite does not accept it."""
    path = filled(tmp_path / "data.img")
    (tmp_path / "backup.img").hardlink_to(path)

    refused(path, TargetUnfit, r"2 names \(hard links\)", overwrite=True)


def test_a_file_that_gets_a_second_name_before_it_is_locked_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names are counted again when the file is claimed."""
    path = filled(tmp_path / "data.img")
    monkeypatch.setattr(target_claim, "lock", lambda *_: (tmp_path / "backup.img").hardlink_to(path))
    with pytest.raises(TargetUnfit, match=r"2 names \(hard links\)"), claimed(path, overwrite=True):
        raise AssertionError("it was claimed")


@pytest.mark.root
@pytest.mark.parametrize("name", ["itself", "link", "bind mount"])
def test_a_file_below_a_loop_device_is_refused(tmp_path: Path, name: str) -> None:
    """A file that a loop device uses is refused under any of its names."""
    (tmp_path / "a").mkdir()
    path = filled(tmp_path / "a" / "disk.img")
    with loop_device(path) as device:
        if name == "itself":
            refused(path, TargetBusy, f"it backs {device}", overwrite=True)
        elif name == "link":
            (tmp_path / "link").symlink_to(path)
            refused(tmp_path / "link", TargetBusy, f"it backs {device}", overwrite=True)
        else:
            with mounted(tmp_path / "a", tmp_path / "b", "--bind") as place:
                refused(place / "disk.img", TargetBusy, f"it backs {device}", overwrite=True)


@pytest.mark.root
def test_a_swap_file_is_refused(tmp_path: Path) -> None:
    """A file to which the kernel swaps is refused as such, also with --overwrite."""
    path = filled(tmp_path / "swap file", 4 * MIB)
    path.chmod(0o600)
    subprocess.run(["mkswap", path], check=True, capture_output=True)
    on = subprocess.run(["swapon", path], check=False, capture_output=True, text=True)
    if on.returncode:
        pytest.skip(f"no swap here: {on.stderr.strip()}")
    try:
        refused(path, TargetBusy, "it is swap space", overwrite=True, kept=swap_header)
    finally:
        subprocess.run(["swapoff", path], check=True)


@pytest.mark.parametrize("mode", ["O_RDONLY", "O_RDWR"])
def test_an_open_file_is_refused(tmp_path: Path, mode: str) -> None:
    """A file that a virtual machine (here: a small program) has open is refused, with the name of the program."""
    path = filled(tmp_path / "vm.img")
    with other_program(OPENS, str(path), mode, "O_CLOEXEC") as other:
        refused(path, TargetBusy, f"process {other.pid}", overwrite=True)


@pytest.mark.long
def test_a_file_in_another_run_is_refused(tmp_path: Path) -> None:
    """Two runs never share a file."""
    path = filled(tmp_path / "x.img")
    with claimed(path, overwrite=True):
        refused(path, TargetBusy, "locked", overwrite=True)
    with other_program(HOLDS, str(path)):
        refused(path, TargetBusy, "locked|has it open", overwrite=True)


def test_a_file_larger_than_the_free_space_is_refused(tmp_path: Path) -> None:
    """If the disk is too small it is refused before it is created, enlarged, or filled during a run."""
    huge = 1 << 60
    refused(tmp_path / "new.img", TargetUnfit, "of free space; it needs .* more", huge)
    assert list(tmp_path.iterdir()) == []

    path = filled(tmp_path / "data.img")
    refused(path, TargetUnfit, "of free space; it needs .* more", huge, overwrite=True)

    sparse = tmp_path / "sparse.img"
    with sparse.open("wb") as file:
        file.truncate(8 << 40)
    with pytest.raises(TargetUnfit, match=r"of free space; it needs .* more"), claimed(sparse, overwrite=True):
        raise AssertionError("it was claimed")


@pytest.mark.long
@pytest.mark.root
def test_a_loop_device_larger_than_the_free_space_is_refused(tmp_path: Path) -> None:
    """Its file would fill the file system below, so that other programs could no longer write."""
    with mounted("none", tmp_path / "small", "-t", "tmpfs", "-o", "size=8M") as folder:
        with loop_device(folder / "x.img", 16 * MIB) as path:
            reason = r"x.img's file system has 8.* MB of free space; it needs 16.* MB more"
            refused(path, TargetUnfit, reason, kept=lambda _: "")
        with loop_device(folder / "x.img", 0, "--sizelimit", str(4 * MIB)) as path, claimed(path):
            pass


def test_a_file_size_limit_is_reported(tmp_path: Path) -> None:
    """With a file size limit (ulimit -f) that is too low, nothing is left behind."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom snia_pts.lab.device.target_claim import claim_target\n"
        "claim_target(Path(sys.argv[1]), size_bytes=1 << 20, overwrite=False).__enter__()"
    )
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 100; exec "$@"', "bash", sys.executable, "-c", code, str(tmp_path / "new.img")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert "TargetUnfit" in done.stderr
    assert "cannot be resized to 1.049 MB" in done.stderr
    assert not (tmp_path / "new.img").exists()


def test_a_file_system_without_direct_io_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without direct I/O the new file is removed again."""

    def no_direct_io(path: Path) -> int:
        raise TargetUnfit(path=path, reason="its file system takes no direct I/O")

    monkeypatch.setattr(filetarget, "direct_sector_bytes", no_direct_io)
    refused(tmp_path / "new.img", TargetUnfit, "no direct I/O", MIB)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("by", ["file", "symlink", "folder", "nothing"])
def test_only_the_created_file_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    """Another user replaces the new file, or its folder, before the refusal: the replacement is unchanged."""
    place = tmp_path / "place"
    place.mkdir()
    path = place / "new.img"
    victims = {}

    def exchange(_: Path) -> int:
        if by == "folder":
            place.rename(tmp_path / "moved")
            place.mkdir()
        else:
            path.rename(tmp_path / "moved.img")
        if by == "symlink":
            victims[filled(tmp_path / "victim.img")] = ""
            path.symlink_to(tmp_path / "victim.img")
        elif by != "nothing":
            victims[filled(path)] = ""
        victims.update((item, content(item)) for item in victims)
        raise TargetUnfit(path=path, reason="its file system takes no direct I/O")

    monkeypatch.setattr(filetarget, "direct_sector_bytes", exchange)
    still_open = descriptors()
    with pytest.raises(TargetUnfit, match="no direct I/O") as unfit, claimed(path, MIB):
        raise AssertionError("it was claimed")

    assert unfit.value.exit_code == 10
    assert os.path.lexists(path) == (by != "nothing")
    assert {victim: content(victim) for victim in victims} == victims
    assert not (tmp_path / "moved/new.img").exists()
    assert descriptors() == still_open


@pytest.mark.parametrize("by", ["file", "symlink", "folder", "nothing", None])
def test_only_the_claimed_file_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str | None) -> None:
    """A file that replaces it just before its removal stays, and that is reported."""
    place = tmp_path / "place"
    place.mkdir()
    path = place / "x.img"
    looked = target_claim._change

    def exchange(*how: Any) -> str:
        found = looked(*how)
        if by == "folder":
            place.rename(tmp_path / "moved")
            place.mkdir()
        elif by:
            path.rename(tmp_path / "moved.img")
        if by in ("file", "folder"):
            filled(path)
        elif by == "symlink":
            path.symlink_to(tmp_path / "moved.img")
        return found

    with claimed(path, MIB) as target:
        monkeypatch.setattr(target_claim, "_change", exchange)
        why = target.remove()

    leads = {"nothing": "No such file", None: ""}
    assert leads.get(by, "no longer leads to") in why
    assert bool(why) == bool(by)
    assert os.path.lexists(path) == (by in ("file", "symlink", "folder"))
    if by in ("file", "folder"):
        assert content(path) == content(filled(tmp_path / "same.img"))


@pytest.fixture
def mistyped() -> Iterator[str]:
    """Return the name of a drive that does not exist; it is removed after a failed test."""
    name = f"nvme99n{os.getpid()}"
    yield name
    if (Path("/dev") / name).is_file():
        (Path("/dev") / name).unlink()


@pytest.mark.parametrize("text", ["/dev", "/dev/../dev", "/dev/disk/..", "/etc/../dev"])
def test_no_file_is_created_among_the_devices(mistyped: str, text: str) -> None:
    """A mistyped drive with --size is an error, and does not create a file in the host's memory."""
    refused(Path(text) / mistyped, TargetMissing, "does not exist", MIB)

    assert not (Path("/dev") / mistyped).exists()


@pytest.mark.root
def test_a_file_in_the_hosts_memory_is_refused() -> None:
    """A file that somebody made under /dev is no drive, even on another file system."""
    shared = Path("/dev") / "shm"
    if not shared.is_dir():
        pytest.skip("no /dev/shm here")
    path = filled(shared / f"snia-pts-test-{os.getpid()}.img")
    try:
        refused(path, TargetUnfit, "it is a file below /dev", overwrite=True)
    finally:
        path.unlink()


@pytest.mark.parametrize("name", ["/proc/snia-pts-x", "/sys/snia-pts-x", "/proc/self/snia-pts-x"])
def test_no_file_is_created_in_proc_or_sys(name: str) -> None:
    """Nothing is made under /proc and /sys."""
    refused(Path(name), TargetUnfit, "it is a file below", MIB)


@pytest.mark.parametrize("name", ["/proc/sys/vm/drop_caches", "/proc/self/mem", "/sys/power/state"])
def test_files_of_the_kernel_are_refused(name: str) -> None:
    """They are regular files only by type: writing to them affects the machine."""
    if Path(name).exists():
        with pytest.raises(TargetUnfit), claimed(Path(name), overwrite=True):
            raise AssertionError("it was claimed")


@pytest.mark.root
def test_another_mount_of_dev_is_recognised(tmp_path: Path, mistyped: str) -> None:
    """If /dev is mounted a second time, as in a chroot, no file is created there either."""
    if not os.path.ismount("/dev"):
        pytest.skip("/dev is no mount of its own here")
    with mounted("/dev", tmp_path / "dev", "--bind") as place:
        refused(place / mistyped, TargetUnfit, "it is a file below /dev", MIB)
        assert not (place / mistyped).exists()


def test_other_types_of_file_are_refused(tmp_path: Path) -> None:
    """Folders, pipes, character devices and paths in missing folders have their own messages."""
    os.mkfifo(tmp_path / "pipe")

    refused(tmp_path, TargetUnfit, "it is a directory")
    refused(tmp_path / "pipe", TargetUnfit, "neither", overwrite=True)
    refused(Path("/dev/null"), TargetUnfit, "neither", overwrite=True)
    refused(tmp_path / "gone.img", TargetMissing, "does not exist")
    refused(tmp_path / "no" / "new.img", TargetMissing, "no does not exist", MIB)
    refused(tmp_path / "new.img", TargetUnfit, "less than one sector", 100)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.parametrize("name", ["a$b", "a#b", "q'", "new\nline", "a\\b", "\udcff"])
def test_a_name_that_fio_would_misread_is_refused(tmp_path: Path, name: str) -> None:
    """A name that fio would take for another one is refused before the file is created."""
    refused(tmp_path / name, TargetUnfit, "characters that fio misinterprets", MIB)

    assert list(tmp_path.iterdir()) == []


def descriptors() -> int:
    """Return the number of descriptors that this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


# -- what changes between looking and writing -----------------------------------------------------------------------


def swap_at_open(monkeypatch: pytest.MonkeyPatch, swap: Callable[[], object]) -> None:
    """Let another user replace a path between the last check and the open for writing."""
    opened = os.open

    def late(path: Any, flags: int, *rest: Any, **how: Any) -> int:
        if flags & os.O_RDWR:
            monkeypatch.setattr(os, "open", opened)
            swap()
        return opened(path, flags, *rest, **how)

    monkeypatch.setattr(os, "open", late)


@pytest.mark.long
@pytest.mark.parametrize("by", ["file", "link", "pipe"])
def test_a_file_swapped_before_the_open_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    """A file that replaces the checked one is not claimed or truncated, and keeps its content."""
    path = tmp_path / "suite_file.img"
    with claimed(path, MIB):
        pass
    precious = filled(tmp_path / "precious.img")
    before = content(precious)

    def swap() -> None:
        path.unlink()
        if by == "file":
            precious.rename(path)
        elif by == "link":
            path.symlink_to(precious)
        else:
            os.mkfifo(path)

    swap_at_open(monkeypatch, swap)
    still_open = descriptors()
    # A symlink is not even followed.
    with pytest.raises(TargetBusy), claimed(path, 4096, overwrite=True):
        raise AssertionError("it was claimed")

    assert descriptors() == still_open
    assert content(path if by == "file" else precious) == before


def test_a_file_swapped_after_the_open_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that replaces the path just after the open is not tested, although fio would be given that path."""
    path = filled(tmp_path / "x.img")

    def swap(*_: object) -> None:
        path.rename(tmp_path / "moved.img")
        filled(path, seed=8)

    monkeypatch.setattr(target_claim, "lock", swap)
    with pytest.raises(TargetBusy, match="no longer leads to"), claimed(path, overwrite=True):
        raise AssertionError("it was claimed")


def without_kernel_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the nodes with the kernel's names from /dev, so that the given node is used."""
    monkeypatch.setattr("snia_pts.lab.device.identity._kernel_node", lambda path: path)


@pytest.mark.root
def test_a_device_swapped_before_the_open_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: Path
) -> None:
    """A node that is changed to another disk is not claimed: checks and descriptor are of one device."""
    without_kernel_node(monkeypatch)
    with loop_device(filled(tmp_path / "other.img")) as other:
        nodes = [tmp_path / "node", tmp_path / "next"]
        for node, leads_to in zip(nodes, (device, other), strict=True):
            subprocess.run(["mknod", node, "b", "7", leads_to.name.removeprefix("loop")], check=True)
        swap_at_open(monkeypatch, lambda: nodes[1].rename(nodes[0]))
        with pytest.raises(TargetBusy, match="no longer leads to"), claimed(nodes[0]):
            raise AssertionError("it was claimed")


@pytest.mark.root
def test_a_symlink_that_changes_after_the_check_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: Path
) -> None:
    """A symlink is followed once: the claimed, named and tested device is the one that was checked."""
    with loop_device(filled(tmp_path / "other.img")) as other:
        link = tmp_path / "by-id"
        link.symlink_to(device)

        def swap() -> None:
            link.unlink()
            link.symlink_to(other)

        swap_at_open(monkeypatch, swap)
        with claimed(link) as target:
            assert target.dut.path == str(device)
            assert os.fstat(target.descriptor).st_rdev == device.stat().st_rdev
            target.require_same("here", "this")


def test_a_file_created_by_another_user_at_the_same_time_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new file is created exclusively: one that appears in between belongs to somebody else and is unchanged."""
    path = tmp_path / "new.img"
    swap_at_open(monkeypatch, lambda: filled(path))
    with pytest.raises(TargetUnfit, match="exists"), claimed(path, 4096):
        raise AssertionError("it was claimed")

    assert path.stat().st_size == MIB


@pytest.mark.root
@pytest.mark.parametrize("before", ["resolved", "open_file"])
@pytest.mark.parametrize("size_bytes", [None, MIB])
def test_root_does_not_follow_a_folder_replaced_by_a_symlink(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, size_bytes: int | None
) -> None:
    """Root follows no symlink that replaces the folder during one check, or from then on."""
    need_root()
    victims, place, step = tmp_path / "victims", tmp_path / "place", getattr(target_claim, before)
    for folder in (victims, place, place / "disk"):
        folder.mkdir()
        os.chown(folder, 65534 * (folder != victims), -1)
    if size_bytes is None:
        filled(victims / "x.img")
        filled(place / "disk/x.img")
    files = {path: content(path) for path in victims.iterdir()}

    def exchange(*given: Any, **how: Any) -> Any:
        (place / "disk").rename(place / "own")
        (place / "disk").symlink_to(victims)
        os.chown(place / "disk", 65534, -1, follow_symlinks=False)
        try:
            return step(*given, **how)
        finally:
            if before == "resolved":
                (place / "disk").unlink()
                (place / "own").rename(place / "disk")

    monkeypatch.setattr(target_claim, before, exchange)
    with pytest.raises((TargetBusy, TargetUnfit)), claimed(place / "disk/x.img", size_bytes, overwrite=True):
        raise AssertionError("it was claimed")

    assert {item: content(item) for item in victims.iterdir()} == files


# -- while it is claimed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["nothing", "file", "link"])
def test_a_file_that_changes_during_the_run_is_noticed(tmp_path: Path, by: str) -> None:
    """A target that disappears or is replaced ends the run before the next byte, with the step's name."""
    path = tmp_path / "x.img"
    with claimed(path, MIB) as target:
        target.require_same("Round 2", "RND 4 KiB 0/100")
        path.rename(tmp_path / "moved.img")
        if by == "file":
            filled(path)
        elif by == "link":
            path.symlink_to(tmp_path / "moved.img")
        with pytest.raises(HostFailed) as failed:
            target.require_same("Round 2", "RND 4 KiB 0/100")

    text = "no longer there" if by == "nothing" else "no longer leads to the file or device"
    assert f"in step Round 2 (RND 4 KiB 0/100): {path} {'is ' if by == 'nothing' else ''}{text}" in str(failed.value)


@pytest.mark.parametrize("size_bytes", [MIB // 2, 2 * MIB])
def test_a_file_that_changes_its_size_is_noticed(tmp_path: Path, size_bytes: int) -> None:
    """A file that is truncated or enlarged ends the run before the next byte."""
    path = tmp_path / "x.img"
    with claimed(path, MIB) as target:
        target.require_same("Round 2", "RND 4 KiB 0/100")
        os.truncate(path, size_bytes)
        changed = f"has a size of {exact_capacity(size_bytes)}; it was {exact_capacity(MIB)}"
        with pytest.raises(HostFailed, match=re.escape(changed)):
            target.require_same("Round 2", "RND 4 KiB 0/100")


def test_a_partial_last_sector_is_no_change(tmp_path: Path) -> None:
    """The bytes after the last whole sector do not count as a change of size."""
    path = filled(tmp_path / "x.img", MIB + 100)
    with claimed(path, overwrite=True) as target:
        assert target.dut.capacity_bytes == MIB
        target.require_same("Round 2", "RND 4 KiB 0/100")


@pytest.mark.root
def test_a_node_that_changes_during_the_run_is_noticed(
    tmp_path: Path, device: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing device node is a device failure; a node of another device is a host failure."""
    without_kernel_node(monkeypatch)
    with loop_device(filled(tmp_path / "other.img")) as other:
        node = tmp_path / "node"
        subprocess.run(["mknod", node, "b", "7", device.name.removeprefix("loop")], check=True)
        with claimed(node) as target:
            target.require_same("a", "b")
            node.unlink()
            with pytest.raises(DeviceFailed, match="no longer there"):
                target.require_same("a", "b")
            subprocess.run(["mknod", node, "b", "7", other.name.removeprefix("loop")], check=True)
            with pytest.raises(HostFailed, match="no longer leads to"):
                target.require_same("a", "b")


@pytest.mark.root
def test_a_device_that_grows_during_the_run_is_noticed(tmp_path: Path, device: Path) -> None:
    """A capacity other than the confirmed one ends the run before the next byte."""
    with claimed(device) as target:
        target.require_same("a", "b")
        with (tmp_path / "disk.img").open("ab") as file:
            file.truncate(8 * MIB)
        subprocess.run(["losetup", "--set-capacity", device], check=True)
        changed = f"its size was {exact_capacity(4 * MIB)} and is {exact_capacity(8 * MIB)}"
        with pytest.raises(HostFailed, match=re.escape(f"is not the confirmed device any more: {changed}")):
            target.require_same("a", "b")


@pytest.mark.long
@pytest.mark.root
@pytest.mark.parametrize(
    ("was", "now", "fact"),
    [
        ((MIB, 2 * MIB), (2 * MIB, 2 * MIB), "its offset was 1.049 MB.* and is 2.097 MB"),
        ((MIB, 2 * MIB), (0, 2 * MIB), "its offset was 1.049 MB.* and is 0 bytes"),
        ((MIB, 2 * MIB), (MIB, MIB), "its size was 2.097 MB.* and is 1.049 MB"),
        ((2 * MIB, 2 * MIB), (2 * MIB, 0), "its sizelimit was 2.097 MB.* and is 0 bytes"),
    ],
    ids=["offset", "no offset", "size limit", "no size limit"],
)
def test_another_part_of_the_file_of_a_loop_device_is_noticed(
    tmp_path: Path, was: tuple[int, int], now: tuple[int, int], fact: str
) -> None:
    """Root can move a loop device to other bytes of its file while it is claimed, with the same size.

    No further step writes there.
    """
    image = filled(tmp_path / "disk.img", 4 * MIB)
    with loop_device(image) as path:
        with path.open("rb") as loop:
            set_part(loop.fileno(), *was)
        with claimed(path) as target:
            target.require_same("Round 2", "RND 4 KiB 0/100")
            before = content(image)
            set_part(target.descriptor, *now)
            with pytest.raises(HostFailed, match=fact) as failed:
                target.require_same("Round 2", "RND 4 KiB 0/100")
            assert failed.value.exit_code == 13
            assert content(image) == before


def set_part(descriptor: int, offset: int, limit: int) -> None:
    """Set offset and size limit of a loop device with LOOP_SET_STATUS64."""
    fields = bytearray(232)
    fcntl.ioctl(descriptor, 0x4C05, fields)
    struct.pack_into("<QQ", fields, 24, offset, limit)
    fcntl.ioctl(descriptor, 0x4C04, fields)


@pytest.mark.long
@pytest.mark.root
@pytest.mark.parametrize(
    ("now", "failed", "reason"),
    [
        ("S6KMNE0T500124\n", HostFailed, "its serial was 'S6KMNE0T500123' and is 'S6KMNE0T500124'"),
        ("", DeviceFailed, "no longer there"),
        ("0\n", DeviceFailed, "no longer there"),
        (None, DeviceFailed, "no longer there"),
    ],
)
def test_an_exchanged_drive_is_noticed(
    tmp_path: Path, device: Path, now: str | None, failed: type[SniaPtsError], reason: str
) -> None:
    """Another serial number under the same name ends the run; a drive without an answer is reported as missing."""
    host = FakeHost(tmp_path / "host")
    serial = host.disk(serial="S6KMNE0T500123\n") / "serial"
    with claimed(device) as target:
        drive = Target(
            dut=target.dut, descriptor=target.descriptor, traits=traits(host.root / "sys/block/sdx", host.root)
        )
        drive.require_same("a", "b")
        if now is None:
            serial.unlink()
        else:
            serial.write_text(now)
        with pytest.raises(failed, match=reason):
            drive.require_same("a", "b")


def test_a_limit_of_open_files_is_no_exchange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this process cannot open more files, the drive is not reported as missing."""
    host = FakeHost(tmp_path)
    host.disk(size="8\n")
    (place, was), *_ = traits(tmp_path / "sys/block/sdx", tmp_path)
    assert (raw_attribute(place), was) == (b"8\n", b"8\n")

    def full(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(OSError, match="Too many open files"):
        raw_attribute(place)


@pytest.mark.root
def test_a_device_is_released_after_its_outstanding_io(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: Path
) -> None:
    """Outstanding I/O of an ended program on a stalled device would overwrite the next user's data."""
    counts = tmp_path / f"sys/dev/block/7:{os.minor(device.stat().st_rdev)}/inflight"
    counts.parent.mkdir(parents=True)
    with claimed(device) as target:
        assert target_claim.wait_for_outstanding_io(target, tmp_path) == ""
        counts.write_text("       0        8\n")
        monkeypatch.setattr(time, "sleep", lambda _: counts.write_text("       0        0\n"))
        assert target_claim.wait_for_outstanding_io(target, tmp_path) == ""
        counts.write_text("       0        8\n")
        monkeypatch.setattr(time, "sleep", lambda _: None)
        monkeypatch.setattr(target_claim, "_DRAIN_SECONDS", 0.01)
        sentence = target_claim.wait_for_outstanding_io(target, tmp_path)
    assert sentence == f"{device} still has I/O outstanding, and must not be used before {counts} is 0 0"


def test_outstanding_io_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message appears while the target is still claimed."""
    notices, path = list[str](), filled(tmp_path / "x.img")
    setup = DeviceSetup(RunOptions(test="iops", target=str(path), overwrite=True), notices.append)

    def outstanding(target: target_claim.Target) -> str:
        os.fstat(target.descriptor)
        return "it has"

    monkeypatch.setattr("snia_pts.runner.device.wait_for_outstanding_io", outstanding)
    with setup.claimed():
        notices.clear()
    assert notices == ["it has"]


@pytest.mark.long
def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    """Claimed, refused and failed targets leave no open descriptor behind."""
    path = filled(tmp_path / "x.img")
    before = descriptors()
    for _ in range(3):
        refused(path, TargetNotOurs, "did not create")
        refused(path, TargetUnfit, "of free space; it needs .* more", 1 << 60, overwrite=True)
        with claimed(path, overwrite=True):
            pass
        with pytest.raises(RuntimeError), claimed(path, overwrite=True):
            raise RuntimeError

    assert descriptors() == before


# -- the operator -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("typed", ["", "S6KMNE0T50012", "s6kmne0t500123", "yes", "sdb", "S6KMNE0T500123 "])
def test_only_the_serial_number_confirms(typed: str) -> None:
    """Only the exact serial number is accepted; the remedy contains it."""
    with pytest.raises(NotConfirmed, match="is not its serial number") as refusal:
        confirm(samples.dut(), typed)

    assert "S6KMNE0T500123" in refusal.value.hint
    assert refusal.value.exit_code == 9
    confirm(samples.dut(), "S6KMNE0T500123")


def test_a_drive_without_a_serial_number_is_confirmed_by_its_name() -> None:
    """If it has no serial number, an empty answer is not accepted."""
    for typed in ("", "/dev/sdb"):
        with pytest.raises(NotConfirmed, match="is not its name"):
            confirm(samples.dut(serial=""), typed)
    confirm(samples.dut(serial=""), "sdb")


@pytest.mark.long
@pytest.mark.root
def test_the_operator_sees_the_content(tmp_path: Path) -> None:
    """An unmounted file system is shown with its label; an empty device shows nothing; nothing is changed."""
    with loop_device(tmp_path / "disk.img", 8 * MIB) as path, claimed(path) as target:
        assert contents(target, tmp_path).descriptions(path.name) == ()
    with loop_device(tmp_path / "disk.img") as path:
        with_file_system(path)
        before = content(path)
        with claimed(path, discard_data=True) as target:
            assert contents(target, tmp_path).descriptions(path.name) == ("ext4 photos",)
        assert content(path) == before
    assert (tmp_path / "00000-wipefs.process.json").exists()


@pytest.mark.long
def test_a_smaller_size_does_not_truncate_a_user_file(tmp_path: Path) -> None:
    """--overwrite with a smaller --size is refused, also by --plan, because the run may still be refused later."""
    path = filled(tmp_path / "x.img", 2 * MIB)
    before = content(path)
    refused(path, TargetUnfit, "would be cut off at", MIB, overwrite=True)
    with pytest.raises(TargetUnfit, match="would be cut off at"):
        require_claimable(path, size_bytes=MIB, overwrite=True)
    assert content(path) == before

    own = tmp_path / "own.img"
    for size in (2 * MIB, MIB):
        with claimed(own, size, overwrite=True) as target:
            assert target.dut.capacity_bytes == size
            assert own.stat().st_size == 2 * MIB  # the run may still be refused
            kept = target.resized()
            assert own.stat().st_size == size
            os.truncate(own, 4 * MIB)
            kept.resized()
            assert own.stat().st_size == 4 * MIB  # a later test of a suite does not hide such a change
            os.truncate(own, size)


@pytest.mark.long
@pytest.mark.root
def test_a_device_that_changes_while_the_operator_types_is_refused(tmp_path: Path) -> None:
    """Another program may open and write a claimed device, or link its file, before the confirmation."""
    with loop_device(tmp_path / "disk.img", 8 * MIB) as path, claimed(path) as target:
        require_as_confirmed(target, Contents())
        (tmp_path / "copy.img").hardlink_to(tmp_path / "disk.img")
        with pytest.raises(TargetUnfit, match=r"disk.img, which has 2 names \(hard links\)"):
            require_as_confirmed(target, Contents())
        (tmp_path / "copy.img").unlink()
        with path.open("rb") as file, subprocess.Popen(["sleep", "60"], stdin=file) as other:
            with pytest.raises(TargetBusy, match="has it open"):
                require_as_confirmed(target, Contents())
            other.kill()
        with_file_system(filled(tmp_path / "photos.img", 8 * MIB))
        with path.open("r+b") as device:
            device.write((tmp_path / "photos.img").read_bytes())
        with pytest.raises(TargetNotOurs, match="it now holds ext4 photos"):
            require_as_confirmed(target, Contents())


@pytest.mark.long
@pytest.mark.root
def test_another_file_system_of_the_same_name_is_not_the_one_that_was_confirmed(tmp_path: Path) -> None:
    """The operator sees kind and name; the UUIDs are compared too."""
    with loop_device(tmp_path / "disk.img", 8 * MIB) as path:
        with_file_system(path)
        with claimed(path, discard_data=True) as target:
            seen = contents(target, tmp_path)
            require_as_confirmed(target, seen)
            with_file_system(filled(tmp_path / "photos.img", 8 * MIB))
            with path.open("r+b") as device:
                device.write((tmp_path / "photos.img").read_bytes())
            with pytest.raises(TargetNotOurs, match=r"content changed .* it now holds ext4 photos"):
                require_as_confirmed(target, seen)


def test_a_file_that_changes_while_the_operator_answers_is_refused(tmp_path: Path) -> None:
    """``resume`` asks whether to restart a test on a file; the file is checked again after the answer."""
    path = tmp_path / "drive.img"
    target = DeviceSetup(RunOptions(test="wsat", target=str(path), size_bytes=8 * MIB), print)

    def confirm_again() -> None:
        target.confirm(tmp_path, refuse)

    with target.claimed():
        confirm_again()
        (tmp_path / "copy.img").hardlink_to(path)
        with pytest.raises(TargetUnfit, match=r"2 names \(hard links\)"):
            confirm_again()
        (tmp_path / "copy.img").unlink()
        with path.open("rb") as file, subprocess.Popen(["sleep", "60"], stdin=file) as other:
            with pytest.raises(TargetBusy, match="has it open"):
                confirm_again()
            other.kill()
        with_file_system(path)
        with pytest.raises(TargetNotOurs, match="it holds ext4 photos"):
            confirm_again()


@pytest.mark.long
@pytest.mark.root
@pytest.mark.parametrize("options", [(), ("--direct-io=on",)])
def test_a_file_system_made_in_the_backing_file_while_the_operator_types_is_seen(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    """The first check of a loop device leaves its pages in the cache; the second one must not read these."""
    with loop_device(filled(tmp_path / "disk.img", 8 * MIB), 0, *options) as path, claimed(path) as target:
        require_as_confirmed(target, Contents())
        with_file_system(filled(tmp_path / "photos.img", 8 * MIB))
        with (tmp_path / "disk.img").open("r+b") as image:
            image.write((tmp_path / "photos.img").read_bytes())
            os.fsync(image.fileno())
        with pytest.raises(TargetNotOurs, match="it now holds ext4 photos"):
            require_as_confirmed(target, Contents())


@pytest.mark.long
@pytest.mark.root
def test_a_file_system_behind_the_cache_of_a_loop_device_is_seen(tmp_path: Path) -> None:
    """A loop device on a loop device reads through the cache of the lower one, which may be older than its file."""
    image = tmp_path / "disk.img"
    with loop_device(image, 8 * MIB) as lower, loop_device(lower) as path:
        for device in (lower, path):
            assert device.read_bytes() == bytes(8 * MIB)
        with_file_system(image)
        refused(path, TargetNotOurs, "it holds ext4 photos", kept=lambda _: content(image))


def test_a_file_on_an_unidentified_file_system_has_no_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a number of the file system and a generation of the file, as on FUSE, no file has a valid mark."""
    path = tmp_path / "x.img"
    with claimed(path, MIB):
        pass
    with path.open("rb") as file:
        assert filetarget.has_valid_mark(file.fileno())
        monkeypatch.setattr(filetarget, "generation", lambda _: "")
        monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_fsid=0))
        assert not filetarget.has_valid_mark(file.fileno())


@pytest.mark.parametrize(("further_files", "refused"), [(0, False), (1, True)])
def test_a_loop_device_is_refused_if_a_file_system_may_use_its_file(
    tmp_path: Path, further_files: int, *, refused: bool
) -> None:
    """An erofs mounted from a file may use further files, which its line in the table of mounts does not name."""
    host = FakeHost(tmp_path / "host")
    superblock = bytearray(4096)
    superblock[1024 + 0x56 : 1024 + 0x58] = further_files.to_bytes(2, "little")
    host.write("image.erofs", "").write_bytes(superblock)
    (host.root / f"proc/{os.getpid()}/root").symlink_to(host.root)
    host.write("proc/self/mountinfo", "36 25 0:45 / /mnt rw,relatime shared:1 - erofs /image.erofs ro\n")
    loop, file = host.disk("loop7"), host.write("disk.img", "x")
    status = file.stat()
    stack = (
        Layer(identity=Identity("device", 7), path=Path("/dev/loop7"), block=loop),
        Layer(identity=Identity("file", status.st_dev, status.st_ino), path=file, block=None),
    )
    reason = "the erofs mounted at /mnt uses files that the kernel does not name"
    with pytest.raises(TargetUnfit, match=reason) if refused else nullcontext():
        require_free(Path("/dev/loop7"), stack, read_usage(host.root), host.root)
