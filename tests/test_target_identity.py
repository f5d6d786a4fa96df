"""The objects on which a target is based, and their users under other names, on real loop devices and files."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import pytest

from snia_pts.errors import KernelFilesMissing, NotConfirmed, SniaPtsError, TargetBusy, TargetMissing, TargetUnfit
from snia_pts.lab.device import identity, processes, storage, target_claim, usage
from snia_pts.lab.device.identity import read_dut
from snia_pts.lab.device.processes import Processes, read_processes
from snia_pts.lab.device.storage import Identity, identity_at, read_backings
from snia_pts.lab.device.target_claim import claim_target, require_claimable
from snia_pts.lab.inventory import read_inventory
from snia_pts.record.folder import RunFolder
from snia_pts.runner.resume import drive_changes
from tests.drives import (
    MIB,
    UNSHARE,
    btrfs_subvolumes,
    content,
    filled,
    loop_device,
    mounted,
    need_program,
    need_root,
    partitioned,
    refused_at_once,
)
from tests.simulated_device import fuse, slow
from tests.simulated_device.model import Drive
from tests.simulated_device.oracle import Oracle
from tests.strategies import dut

pytestmark = pytest.mark.root
ROOT = Path(__file__).parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
SIZE_BYTES = 32 * MIB
IN_A_CONTAINER = (*UNSHARE, "--pid", "--fork", "--mount-proc", "--kill-child")

OPENS = "import os\nkept = os.open(sys.argv[1], os.O_RDONLY)"
MAPS = (
    "import ctypes, os\nkept = os.open(sys.argv[1], os.O_RDONLY)\nmmap, number = ctypes.CDLL(None).mmap, ctypes.c_int\n"
    "mmap.restype = ctypes.c_void_p\n"
    "mmap.argtypes = ctypes.c_void_p, ctypes.c_size_t, number, number, number, ctypes.c_long\n"
    "assert mmap(None, 4096, 1, 1, kept, 0) != 2**64 - 1\nos.close(kept)"
)
HOLDS = (
    "from pathlib import Path\nfrom snia_pts.lab.device.target_claim import claim_target\n"
    "kept = claim_target(Path(sys.argv[1]), size_bytes=None, overwrite=True, discard_data=True)\nkept.__enter__()"
)
LOCKS = {
    "flock": "import fcntl\nkept = open(sys.argv[1], 'r+b')\nfcntl.flock(kept, fcntl.LOCK_SH)",
    "POSIX": "import fcntl\nkept = open(sys.argv[1], 'r+b')\nfcntl.lockf(kept, fcntl.LOCK_SH, 1, 100)",
    "OFD": (
        "import fcntl, struct\nkept = open(sys.argv[1], 'r+b')\n"
        "fcntl.fcntl(kept, fcntl.F_OFD_SETLK, struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 100, 1, 0))"
    ),
}


class Case(NamedTuple):
    """A target whose bytes must not change, and how it is refused; into its ``swap`` the kernel may write."""

    target: Path
    image: Path
    reason: str
    refusal: type[SniaPtsError] = TargetBusy
    swap: Path | None = None


def loop(image: Path, *options: str) -> AbstractContextManager[Path]:
    """Return a loop device with options of losetup."""
    return loop_device(image, 0, *options)


@contextmanager
def program(code: str, *argv: Path | str, within: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    """Run another Python program, which executes its code and then waits until it is ended."""
    script = f"import sys\n{code}\nprint('ready', flush=True)\nsys.stdin.read()"
    with subprocess.Popen(
        [*within, sys.executable, "-c", script, *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        try:
            assert running.stdout.readline() == "ready\n"
            yield running
        finally:
            running.stdin.close()


def image_of(folder: Path) -> Path:
    """Return an image full of another user's data."""
    return filled(folder / "disk.img", SIZE_BYTES)


def with_file_system(path: Path) -> None:
    subprocess.run(["mkfs.ext4", "-q", "-F", path], check=True, capture_output=True)


@contextmanager
def disk_with_partitions(image: Path) -> Iterator[tuple[Path, Path, Path]]:
    """Return a loop device with two partitions of 8 MiB, and the partitions."""
    with loop(image) as device, partitioned(device, 16384, 16384) as (first, second):
        yield device, first, second


def node(folder: Path, device: Path) -> Path:
    """Return another node of a device, with an unrelated name."""
    number = device.stat().st_rdev
    os.mknod(folder / "node", 0o60600, number)
    return folder / "node"


def without(place: str) -> tuple[str, ...]:
    """Return a command that runs another one with ``place`` empty."""
    return *UNSHARE, "sh", "-c", f'mount -t tmpfs none {place} && exec "$@"', "sh"


def run(folder: Path, *argv: Path | str, within: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run snia-pts in a folder."""
    return subprocess.run(
        [*within, sys.executable, "-m", "snia_pts", *argv],
        cwd=folder,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


# -- what a target stands on ------------------------------------------------------------------------------------------


@contextmanager
def part_of_a_mounted_image(folder: Path) -> Iterator[Case]:
    image = image_of(folder)
    with_file_system(image)
    part = "--offset", "16M", "--sizelimit", "8M"
    with loop(image) as other, mounted(other, folder / "mnt", "-o", "ro") as place, loop(image, *part) as target:
        yield Case(target, image, f"built on {image}, and {other.name}, which is built on .*, is mounted at {place}")


@contextmanager
def whole_of_a_mounted_image(folder: Path) -> Iterator[Case]:
    image = image_of(folder)
    with_file_system(image)
    with loop(image) as other, mounted(other, folder / "mnt", "-o", "ro") as place, loop(image) as target:
        yield Case(target, image, f"mounted at {place}")


@contextmanager
def part_of_a_mounted_device(folder: Path) -> Iterator[Case]:
    image = image_of(folder)
    with_file_system(image)
    part = "--offset", "16M", "--sizelimit", "8M"
    with loop(image) as disk, mounted(disk, folder / "mnt", "-o", "ro") as place, loop(disk, *part) as target:
        yield Case(target, image, f"built on {disk.name}, and {disk.name} is mounted at {place}")


@contextmanager
def image_mounted_in_a_container(folder: Path) -> Iterator[Case]:
    image = image_of(folder)
    with_file_system(image)
    (folder / "mnt").mkdir()
    code = "import subprocess\nsubprocess.run(['mount', '-o', 'ro', sys.argv[1], sys.argv[2]], check=True)"
    with loop(image) as other, program(code, other, folder / "mnt", within=UNSHARE):
        assert str(folder / "mnt") not in Path("/proc/self/mountinfo").read_text()
        with loop(image, "--offset", "16M", "--sizelimit", "8M") as target:
            yield Case(target, image, f"mounted at {folder / 'mnt'} in the mount namespace of")


@contextmanager
def part_of_a_disk_with_a_mounted_partition(folder: Path) -> Iterator[Case]:
    with disk_with_partitions(image_of(folder)) as (disk, first, second):
        with_file_system(first)
        with mounted(first, folder / "mnt", "-o", "ro") as place, loop(second) as target:
            reason = f"built on {disk.name}, and {disk.name}'s partition {first.name} is mounted at {place}"
            yield Case(target, folder / "disk.img", reason)


def is_swapped_to(swap: Path) -> bool:
    """Return whether the kernel has written pages into a swap space."""
    lines = (line.split() for line in Path("/proc/swaps").read_text().splitlines()[1:])
    return any(name == str(swap) and int(used) > 0 for name, _, _, used, *_ in lines)


@contextmanager
def part_of_an_image_with_swap(folder: Path) -> Iterator[Case]:
    image = image_of(folder)
    with loop(image, "--sizelimit", "8M") as other, swapping(other), loop(image, "--offset", "16M") as target:
        yield Case(target, image, f"{other.name}, which is built on {image}, is swap space", swap=other)


@contextmanager
def swap_file(folder: Path) -> Iterator[Case]:
    image = image_of(folder)
    image.chmod(0o600)
    with swapping(image), loop(image, "--offset", "16M") as target:
        yield Case(target, image, f"built on {image}, and {image} is swap space", swap=image)


@contextmanager
def swapping(path: Path) -> Iterator[None]:
    subprocess.run(["mkswap", path], check=True, capture_output=True)
    on = subprocess.run(["swapon", "--priority", "0", path], check=False, capture_output=True, text=True)
    if on.returncode:
        pytest.skip(f"no swap here: {on.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["swapoff", path], check=True)


@contextmanager
def image_that_is_open(folder: Path) -> Iterator[Case]:
    image = image_of(folder)
    with program(OPENS, image) as other, loop(image, "--offset", "16M") as target:
        yield Case(target, image, rf"built on {image}, and .* \(process {other.pid}\) has {image} open")


@contextmanager
def image_that_is_mapped(folder: Path) -> Iterator[Case]:
    image = image_of(folder)
    with program(MAPS, image) as other, loop(image, "--offset", "16M") as target:
        yield Case(target, image, rf"\(process {other.pid}\) has {image} mapped into its memory")


@contextmanager
def image_that_is_mapped_in_a_btrfs_subvolume(folder: Path) -> Iterator[Case]:
    """The first file of each subvolume has the same device and inode numbers in /proc/PID/maps."""
    with btrfs_subvolumes(folder) as (first, second):
        library, image = filled(first / "library"), image_of(second)
        with program(MAPS, library), program(MAPS, image) as other, loop(image) as target:
            yield Case(target, image, rf"\(process {other.pid}\) has {image} mapped into its memory")


@contextmanager
def image_that_is_mapped_with_another_file_of_its_name(folder: Path) -> Iterator[Case]:
    """Both have the same numbers and, by mounts over one another, the same name in /proc/PID/maps of one process."""
    code = (
        "import subprocess\nfirst, second, place = sys.argv[1:]\nfor each in (first, second, first):\n"
        "    subprocess.run(['mount', '--bind', each, place], check=True)\n    sys.argv[1] = f'{place}/disk.img'\n"
    ) + textwrap.indent(MAPS, "    ")
    (folder / "place").mkdir()
    with btrfs_subvolumes(folder) as (first, second):
        image_of(first)
        image = image_of(second)
        with program(code, first, second, folder / "place", within=UNSHARE) as other, loop(image) as target:
            yield Case(target, image, rf"\(process {other.pid}\) has {image} mapped into its memory")


@contextmanager
def image_with_a_hard_link(folder: Path) -> Iterator[Case]:
    image = image_of(folder)
    (folder / "backup.img").hardlink_to(image)
    with loop(image) as target:
        yield Case(target, image, r"disk.img, which has 2 names \(hard links\)", TargetUnfit)


@contextmanager
def image_shared_with_a_free_loop(folder: Path) -> Iterator[Case]:
    image = image_of(folder)
    with loop(image, "--sizelimit", "8M") as other, loop(image, "--offset", "16M") as target:
        yield Case(target, image, f"built on {image}, and {image} backs {other}")


@contextmanager
def device_that_is_open_beneath(folder: Path) -> Iterator[Case]:
    image = image_of(folder)
    with loop(image) as disk, program(OPENS, node(folder, disk)) as other, loop(disk, "--offset", "16M") as target:
        yield Case(target, image, rf"built on {disk.name}, and .* \(process {other.pid}\) has {disk.name} open")


@contextmanager
def image_that_was_removed(folder: Path) -> Iterator[Case]:
    image = image_of(folder)
    (folder / "kept.img").hardlink_to(image)
    with loop(image) as target:
        image.unlink()
        yield Case(target, folder / "kept.img", "which was removed, renamed, or is in another", TargetUnfit)


@contextmanager
def image_in_another_mount_namespace(folder: Path) -> Iterator[Case]:
    (folder / "hidden").mkdir()
    code = (
        "import subprocess\nrun = lambda *argv: subprocess.run(argv, check=True, stdout=2)\n"
        "run('mount', '-t', 'tmpfs', 'none', sys.argv[1])\nrun('truncate', '-s', '8M', sys.argv[1] + '/x.img')\n"
        "open(sys.argv[2], 'w').write(subprocess.run(['losetup', '-f', '--show', sys.argv[1] + '/x.img'], "
        "check=True, capture_output=True, text=True).stdout)"
    )
    with program(code, folder / "hidden", folder / "name", within=UNSHARE):
        target = Path((folder / "name").read_text().strip())
        try:
            yield Case(target, target, "in another mount namespace", TargetUnfit)
        finally:
            subprocess.run(["losetup", "--detach", target], check=True)


@contextmanager
def loop_on_a_file_with_another_name(folder: Path) -> Iterator[Case]:
    image = image_of(folder)
    with loop(image) as other:
        (folder / "kept.img").hardlink_to(image)
        image.unlink()
        yield Case(folder / "kept.img", folder / "kept.img", f"it backs {other}")


@contextmanager
def loop_made_in_another_mount_namespace(folder: Path) -> Iterator[Case]:
    image = image_of(folder)
    (folder / "elsewhere").mkdir()
    code = (
        "import subprocess\nsubprocess.run(['mount', '--bind', sys.argv[1], sys.argv[2]], check=True)\n"
        "made = subprocess.run(['losetup', '-f', '--show', sys.argv[2] + '/disk.img'], check=True, "
        "capture_output=True, text=True).stdout\nopen(sys.argv[2] + '/name', 'w').write(made)"
    )
    with program(code, folder, folder / "elsewhere", within=UNSHARE):
        other = Path((folder / "name").read_text().strip())
        assert not (Path("/sys/block") / other.name / "loop/backing_file").read_text().startswith(f"{image}\n")
        try:
            yield Case(image, image, f"it backs {other}")
        finally:
            subprocess.run(["losetup", "--detach", other], check=True)


@contextmanager
def file_open_by_a_bind_mount(folder: Path) -> Iterator[Case]:
    (folder / "images").mkdir()
    (folder / "vm").mkdir()
    image = image_of(folder / "images")
    bind = "import subprocess\nsubprocess.run(['mount', '--bind', sys.argv[2], sys.argv[3]], check=True)\n"
    argv = folder / "vm/disk.img", folder / "images", folder / "vm"
    with program(bind + OPENS, *argv, within=UNSHARE) as other:
        yield Case(image, image, rf"\(process {other.pid}\) has it open")


@contextmanager
def file_that_is_bound_to_another_name(folder: Path) -> Iterator[Case]:
    image = image_of(folder)
    (folder / "vm disk").touch()
    subprocess.run(["mount", "--bind", image, folder / "vm disk"], check=True)
    try:
        yield Case(image, image, "it is mounted at ")
    finally:
        subprocess.run(["umount", folder / "vm disk"], check=True)


@contextmanager
def file_that_is_bound_to_an_unusual_name(folder: Path) -> Iterator[Case]:
    """The kernel escapes only ASCII blanks, tabs and line feeds, and no byte that is not UTF-8."""
    image, place = image_of(folder), folder / "vm\xa0\u2028\u3000\x85\v\f\udcff disk"
    place.touch()
    subprocess.run(["mount", "--bind", image, place], check=True)
    try:
        yield Case(image, image, "it is mounted at ")
    finally:
        subprocess.run(["umount", place], check=True)


@contextmanager
def file_that_is_bound_to_another_name_in_a_container(folder: Path) -> Iterator[Case]:
    image = image_of(folder)
    (folder / "vm-disk").touch()
    bind = "import subprocess\nsubprocess.run(['mount', '--bind', sys.argv[1], sys.argv[2]], check=True)\n"
    with program(bind, image, folder / "vm-disk", within=UNSHARE):
        yield Case(image, image, f"it is mounted at {folder / 'vm-disk'} in the mount namespace of")


@contextmanager
def file_that_is_bound_beside_a_chroot(folder: Path) -> Iterator[Case]:
    """The first process of the namespace has a root directory below which nothing is mounted."""
    image = image_of(folder)
    (folder / "vm-disk").touch()
    (folder / "empty").mkdir()
    code = (
        "import os, subprocess, time\nif not os.fork():\n"
        "    subprocess.run(['mount', '--bind', sys.argv[1], sys.argv[2]], check=True)\n"
        "    open(sys.argv[2] + '.ready', 'w').close()\n    time.sleep(600)\n"
        "while not os.path.exists(sys.argv[2] + '.ready'): time.sleep(0.01)\n"
        "os.chroot(sys.argv[3])"
    )
    with program(code, image, folder / "vm-disk", folder / "empty", within=UNSHARE) as first:
        try:
            yield Case(image, image, f"it is mounted at {folder / 'vm-disk'} in the mount namespace of")
        finally:
            for child in Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)


@contextmanager
def erofs_image_mounted_without_a_loop_device(folder: Path) -> Iterator[Case]:
    image, place = erofs(folder)
    mount_erofs(image, place)
    try:
        yield Case(image, image, f"it is mounted at {place}")
    finally:
        subprocess.run(["umount", place], check=True)


@contextmanager
def erofs_image_mounted_in_a_container(folder: Path) -> Iterator[Case]:
    image, place = erofs(folder)
    mount_erofs(image, place)
    subprocess.run(["umount", place], check=True)
    code = (
        "import ctypes, os, subprocess\nsubprocess.run(['mount', '--bind', sys.argv[1], '/mnt'], check=True)\n"
        "assert ctypes.CDLL(None).mount(b'/mnt/disk.erofs', os.fsencode(sys.argv[2]), b'erofs', 1, b'') == 0"
    )
    with program(code, folder, place, within=UNSHARE):
        yield Case(image, image, f"it is mounted at {place} in the mount namespace of")


def erofs(folder: Path) -> tuple[Path, Path]:
    """Return an image of an erofs file system, and a folder to mount it on."""
    need_program("mkfs.erofs", "erofs-utils")
    image, place = folder / "disk.erofs", folder / "mnt"
    for item in (folder / "files", place):
        item.mkdir()
    filled(folder / "files/photo")
    subprocess.run(["mkfs.erofs", image, folder / "files"], check=True, capture_output=True)
    return image, place


def mount_erofs(image: Path, place: Path) -> None:
    """Mount an erofs image without a loop device, unlike mount(8)."""
    if ctypes.CDLL(None, use_errno=True).mount(bytes(image), bytes(place), b"erofs", 1, b""):
        pytest.skip(f"the kernel mounts no erofs file: {os.strerror(ctypes.get_errno())}")


@contextmanager
def file_open_by_a_name_that_was_removed(folder: Path) -> Iterator[Case]:
    image = image_of(folder)
    (folder / "other name").hardlink_to(image)
    with program(OPENS, folder / "other name") as other:
        (folder / "other name").unlink()
        yield Case(image, image, rf"\(process {other.pid}\) has it open")


@contextmanager
def file_that_is_mapped(folder: Path) -> Iterator[Case]:
    image = image_of(folder)
    with program(MAPS, image) as other:
        yield Case(image, image, rf"\(process {other.pid}\) has it mapped into its memory")


@contextmanager
def device_that_is_open_by_another_node(folder: Path) -> Iterator[Case]:
    image = image_of(folder)
    with loop(image) as target, program(OPENS, node(folder, target)) as other:
        yield Case(target, image, rf"\(process {other.pid}\) has it open")


@contextmanager
def device_that_is_mapped(folder: Path) -> Iterator[Case]:
    image = image_of(folder)
    with loop(image) as target, program(MAPS, target) as other:
        yield Case(target, image, rf"\(process {other.pid}\) has it mapped into its memory")


@contextmanager
def device_that_is_mapped_by_another_node(folder: Path) -> Iterator[Case]:
    image = image_of(folder)
    with loop(image) as target, program(MAPS, node(folder, target)) as other:
        yield Case(target, image, rf"\(process {other.pid}\) has it mapped into its memory")


@contextmanager
def file_open_in_the_other_threads_of_a_program(folder: Path) -> Iterator[Case]:
    """Its first thread has ended, and the kernel shows no more of the process."""
    image = image_of(folder)
    code = (
        "import ctypes, os, threading, time\nkept = os.open(sys.argv[1], os.O_RDONLY)\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), print('ready', flush=True), sys.stdin.read(), os._exit(0)))"
        ".start()\nctypes.CDLL(None).syscall(60 if os.uname().machine == 'x86_64' else 93, 0)"
    )
    with program(code, image) as other:
        assert not list(Path(f"/proc/{other.pid}/fd").iterdir())
        yield Case(image, image, rf"\(process {other.pid}\) has it open")


@contextmanager
def file_open_in_a_thread_with_separate_descriptors(folder: Path) -> Iterator[Case]:
    """The process itself does not have it open, nor do the threads before and after."""
    image = image_of(folder)
    code = (
        "import ctypes, os, threading, time\ndone = threading.Event()\n"
        "def idle(): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
        "def work():\n    assert ctypes.CDLL(None).unshare(0x400) == 0\n    os.open(sys.argv[1], os.O_RDONLY)\n"
        "    done.set()\n    time.sleep(600)\n"
        "idle()\nthreading.Thread(target=work, daemon=True).start()\ndone.wait()\nidle()"
    )
    with program(code, image) as other:
        assert not any(entry.resolve() == image for entry in Path(f"/proc/{other.pid}/fd").iterdir())
        yield Case(image, image, rf"\(process {other.pid}\) has it open")


@contextmanager
def file_open_in_a_program_that_renames_itself(folder: Path) -> Iterator[Case]:
    image = image_of(folder)
    code = (
        "import itertools, threading, time\ndef rename():\n    for number in itertools.count():\n"
        "        open('/proc/self/comm', 'w').write(f'other{number}')\n        time.sleep(0.001)\n"
        "threading.Thread(target=rename, daemon=True).start()"
    )
    with program(f"{OPENS}\n{code}", image) as other:
        yield Case(image, image, rf"\(process {other.pid}\) has it open")


@contextmanager
def file_passed_on_by_fork(folder: Path) -> Iterator[Case]:
    """Each process of a chain has the file open for a moment, and passes it to its child."""
    image = image_of(folder)
    code = (
        "import os, time\nif not os.fork():\n    kept = os.open(sys.argv[1], os.O_RDONLY)\n"
        "    while os.path.exists(sys.argv[2]):\n        if os.fork(): os._exit(0)\n        time.sleep(0.01)\n"
        "    os._exit(0)"
    )
    (folder / "go on").touch()
    try:
        with program(code, image, folder / "go on"):
            time.sleep(0.2)
            yield Case(image, image, r"\(process [0-9]+\) has it open")
    finally:
        (folder / "go on").unlink()


REFUSED = (
    part_of_a_mounted_image,
    whole_of_a_mounted_image,
    part_of_a_mounted_device,
    image_mounted_in_a_container,
    part_of_a_disk_with_a_mounted_partition,
    part_of_an_image_with_swap,
    swap_file,
    image_that_is_open,
    image_that_is_mapped,
    image_that_is_mapped_in_a_btrfs_subvolume,
    image_that_is_mapped_with_another_file_of_its_name,
    image_with_a_hard_link,
    image_shared_with_a_free_loop,
    device_that_is_open_beneath,
    image_that_was_removed,
    image_in_another_mount_namespace,
    loop_on_a_file_with_another_name,
    loop_made_in_another_mount_namespace,
    file_open_by_a_bind_mount,
    file_open_by_a_name_that_was_removed,
    file_that_is_mapped,
    device_that_is_open_by_another_node,
    device_that_is_mapped,
    device_that_is_mapped_by_another_node,
    file_open_in_the_other_threads_of_a_program,
    file_open_in_a_thread_with_separate_descriptors,
    file_open_in_a_program_that_renames_itself,
    file_passed_on_by_fork,
    file_that_is_bound_to_another_name,
    file_that_is_bound_to_an_unusual_name,
    file_that_is_bound_to_another_name_in_a_container,
    file_that_is_bound_beside_a_chroot,
    erofs_image_mounted_without_a_loop_device,
    erofs_image_mounted_in_a_container,
)


def claimed(path: Path, **how: Any) -> None:
    """Claim a target for a moment."""
    with claim_target(path, **how):
        pass


@pytest.mark.long_but_first
@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.__name__)
def test_bytes_in_use_are_refused(tmp_path: Path, case: Callable[[Path], AbstractContextManager[Case]]) -> None:
    """Run, --plan and the list refuse them even if data may be discarded; the image is unchanged."""
    need_root()
    with ExitStack() as stack:
        target, image, reason, refusal, swap = stack.enter_context(case(tmp_path))
        before = content(image)
        overwrite = not target.is_block_device()
        for discard_data in (False, True):
            for attempt in (claimed, require_claimable):
                with refused_at_once(), pytest.raises(refusal, match=reason) as refused:
                    attempt(target, size_bytes=None, overwrite=overwrite, discard_data=discard_data)
                assert refused.value.exit_code == (7 if refusal is TargetBusy else 10)
        if target.is_block_device():
            (listed,) = (device for device in read_inventory() if device.path == str(target))
            assert str(listed.refusal) == str(refused.value)
        assert content(image) == before or (swap and is_swapped_to(swap))


# -- what is accepted -------------------------------------------------------------------------------------------------


@pytest.mark.long_but_first
@pytest.mark.parametrize(
    "options", [(), ("--offset", "16M"), ("--offset", "16M", "--sizelimit", "8M")], ids=["whole", "offset", "part"]
)
def test_a_loop_device_on_a_separate_file_is_claimed(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Only the kernel has the image open; users of a part that the device does not show do not matter."""
    need_root()
    image = tmp_path / "disk.img"
    image.touch()
    os.truncate(image, SIZE_BYTES)
    if options:
        with_file_system(image)
    with loop(image, *options) as device:
        (listed,) = (item for item in read_inventory() if item.path == str(device))
        assert listed.refusal is None
        before = content(image)
        with claim_target(device, size_bytes=None, overwrite=False) as target:
            assert target.dut.path == str(device)
            assert not any(device.name in line for line in target.unchecked)
        assert content(image) == before


def test_a_loop_device_on_a_free_device_is_claimed(tmp_path: Path) -> None:
    """So is one on a loop device, or on a partition of an unused disk; these are claimed as well."""
    need_root()
    with disk_with_partitions(image_of(tmp_path)) as (disk, _, second), loop(second) as device:
        with claim_target(device, size_bytes=None, overwrite=False):
            for claimed in (disk, second, device):
                with pytest.raises(OSError, match="busy"):
                    os.open(claimed, os.O_RDONLY | os.O_EXCL)
        for free in (disk, second, device):
            os.close(os.open(free, os.O_RDONLY | os.O_EXCL))


@pytest.mark.long
def test_a_run_in_a_pid_namespace_does_not_refuse_its_own_descriptor(tmp_path: Path) -> None:
    """If /proc is that of the outer PID namespace, it has another number for the process than the process itself."""
    need_root()
    code = f"import os, sys\nassert os.getpid() < 10 < int(os.readlink('/proc/self'))\n{HOLDS}"
    within = ("unshare", "--pid", "--fork", "--kill-child")
    done = subprocess.run(
        [*within, sys.executable, "-c", code, image_of(tmp_path)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.long
def test_files_that_only_look_the_same_are_claimed(tmp_path: Path) -> None:
    """An open file of the same name, or with the same inode on another file system, does not matter."""
    need_root()
    with (
        mounted("none", tmp_path / "a", "-t", "tmpfs") as first,
        mounted("none", tmp_path / "b", "-t", "tmpfs") as second,
    ):
        image, other = filled(first / "x.img"), filled(second / "x.img")
        assert (image.stat().st_ino, image.name) == (other.stat().st_ino, other.name)
        with (
            program(OPENS, other),
            program(MAPS, other),
            claim_target(image, size_bytes=None, overwrite=True) as target,
        ):
            assert target.dut.path == str(image)
        with program(OPENS, first), claim_target(image, size_bytes=None, overwrite=True):
            pass


# -- two runs ---------------------------------------------------------------------------------------------------------

#: The target of a first run, and what makes that of a second one while the first runs.
Pair = tuple[Path, Callable[[ExitStack], Path]]


@contextmanager
def file_and_loop(folder: Path) -> Iterator[Pair]:
    image = image_of(folder)
    yield image, lambda later: later.enter_context(loop(image))


@contextmanager
def loop_and_file(folder: Path) -> Iterator[Pair]:
    image = image_of(folder)
    with loop(image) as device:
        yield device, lambda _: image


@contextmanager
def disjoint_loops(folder: Path) -> Iterator[Pair]:
    image = image_of(folder)
    with loop(image, "--sizelimit", "8M") as device:
        yield device, lambda later: later.enter_context(loop(image, "--offset", "16M"))


@contextmanager
def disk_and_loop(folder: Path) -> Iterator[Pair]:
    with loop(image_of(folder)) as disk:
        yield disk, lambda later: later.enter_context(loop(disk, "--offset", "16M"))


@contextmanager
def loop_and_disk(folder: Path) -> Iterator[Pair]:
    with loop(image_of(folder)) as disk, loop(disk, "--offset", "16M") as device:
        yield device, lambda _: disk


@contextmanager
def partitions_of_a_disk(folder: Path) -> Iterator[Pair]:
    with disk_with_partitions(image_of(folder)) as (_, first, second), loop(first) as device:
        yield device, lambda later: later.enter_context(loop(second))


PAIRS = (file_and_loop, loop_and_file, disjoint_loops, disk_and_loop, loop_and_disk, partitions_of_a_disk)


@pytest.mark.long_but_first
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.__name__)
def test_two_runs_on_the_same_bytes_are_refused(
    tmp_path: Path, pair: Callable[[Path], AbstractContextManager[Pair]]
) -> None:
    """The second names the first.

    In a container that does not see the first, the kernel's locks refuse the second; if the first is killed, its lock
    ends at once.
    """
    need_root()
    with ExitStack() as stack:
        first, make_second = stack.enter_context(pair(tmp_path))
        with program(HOLDS, first) as running:
            second = make_second(stack)
            with (
                pytest.raises(TargetBusy, match=rf"\(process {running.pid}\)") as refused,
                claim_target(second, size_bytes=None, overwrite=True, discard_data=True),
            ):
                raise AssertionError("it was claimed")
            assert refused.value.exit_code == 7
            hidden = subprocess.run(
                [*IN_A_CONTAINER, sys.executable, "-c", f"import sys\n{HOLDS}", second],
                env=ENVIRONMENT,
                capture_output=True,
                text=True,
                check=False,
            )
            # Below a chroot, the kernel's name of a loop device's file leads nowhere in another mount namespace.
            assert "TargetBusy" in hidden.stderr or "TargetUnfit" in hidden.stderr
            running.kill()
        # If both are loop devices on one object, neither may be tested as long as the other exists.
        with ExitStack() as again:
            if first == tmp_path / "disk.img" or pair is disk_and_loop:
                again.enter_context(claim_target(second, size_bytes=None, overwrite=True, discard_data=True))


@pytest.mark.long_but_first
@pytest.mark.parametrize("pair", [file_and_loop, disk_and_loop, partitions_of_a_disk], ids=lambda pair: pair.__name__)
def test_the_kernels_locks_separate_two_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pair: Callable[[Path], AbstractContextManager[Pair]],
) -> None:
    """Two runs that start at the same moment, when neither sees the other yet, compete for a lock."""
    need_root()
    with ExitStack() as stack:
        first, make_second = stack.enter_context(pair(tmp_path))
        with program(HOLDS, first):
            second = make_second(stack)
            monkeypatch.setattr(target_claim, "require_free", lambda *_: None)
            monkeypatch.setattr(target_claim, "usage_sentence", lambda *_: "")
            with (
                pytest.raises(TargetBusy, match=r"has locked|which is already open exclusively"),
                claim_target(second, size_bytes=None, overwrite=True, discard_data=True),
            ):
                raise AssertionError("it was claimed")


@pytest.mark.long_but_first
@pytest.mark.parametrize("kind", LOCKS)
@pytest.mark.parametrize("through", ["file", "loop"])
def test_a_locked_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, through: str) -> None:
    """Any lock of the file or of a device on it counts, also that of a process that may not be inspected."""
    need_root()
    image = image_of(tmp_path)
    before = content(image)
    with ExitStack() as stack:
        target = image if through == "file" else stack.enter_context(loop(image))
        locker = stack.enter_context(program(LOCKS[kind], image))
        locks = read_processes().locks[image.stat().st_dev, image.stat().st_ino]
        assert any(who == "a program" if kind == "OFD" else f"(process {locker.pid})" in who for who in locks)
        monkeypatch.setattr(usage, "read_processes", lambda *_: Processes(users={}, locks={}))
        owner = "a program" if kind == "OFD" else rf"\w+ \(process {locker.pid}\)"
        with (
            pytest.raises(TargetBusy, match=rf"{owner} has locked .* \(another run of snia-pts\?\)"),
            claim_target(target, size_bytes=None, overwrite=True),
        ):
            raise AssertionError("it was claimed")
    assert content(image) == before


@pytest.mark.long
def test_a_lock_of_an_inherited_descriptor_is_not_reported_as_another_run(tmp_path: Path) -> None:
    """The shell that locked the target became snia-pts, which finds the lock under its own number."""
    need_root()
    image = image_of(tmp_path)
    code = "import fcntl, os, sys\nkept = os.open(sys.argv[1], os.O_RDWR)\nfcntl.flock(kept, fcntl.LOCK_EX)\n"
    become = "os.set_inheritable(kept, True)\nos.execv(sys.argv[2], sys.argv[2:])"
    done = run(tmp_path, "iops", image, "--overwrite", within=(sys.executable, "-c", code + become, str(image)))
    assert (done.returncode, "snia-pts itself has locked it" in done.stderr) == (7, True)


@pytest.mark.long
@pytest.mark.parametrize("text", ["socket", "accounting", "overlay"])
def test_a_file_that_no_process_shows_is_refused(tmp_path: Path, text: str) -> None:
    """The kernel counts files that are in flight over a socket, open in the kernel, or open through overlayfs."""
    need_root()
    image = image_of(tmp_path)
    before = content(image)
    accounting = "import ctypes\nassert ctypes.CDLL(None).acct(sys.argv[1].encode()) == 0"
    socket = (
        "import array, os, socket\nfd = os.open(sys.argv[1], os.O_RDONLY)\nends = socket.socketpair()\n"
        "ends[0].sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [fd]))])\nos.close(fd)"
    )
    with ExitStack() as stack:
        opened = image
        if text == "overlay":
            for item in ("upper", "work"):
                (tmp_path / item).mkdir()
            layers = f"lowerdir={image.parent},upperdir={tmp_path}/upper,workdir={tmp_path}/work"
            opened = stack.enter_context(mounted("none", tmp_path / "all", "-t", "overlay", "-o", layers)) / image.name
        code = {"accounting": accounting, "socket": socket, "overlay": OPENS}[text]
        within = ("unshare", "--pid", "--fork", "--kill-child") if text == "accounting" else ()
        stack.enter_context(program(code, opened, within=within))
        done = run(tmp_path, "iops", image, "--overwrite", "--size", "16M")
        assert (done.returncode, "has it open" in done.stderr) == (7, True)
        if text != "accounting":  # which writes to the file when a process ends
            assert content(image) == before
        assert image.stat().st_size >= SIZE_BYTES


def test_a_claimed_image_is_locked_for_others(tmp_path: Path) -> None:
    """While a loop device is tested, a virtual machine (here: a lock like QEMU's) cannot open its image."""
    need_root()
    image = image_of(tmp_path)
    with loop(image) as device, claim_target(device, size_bytes=None, overwrite=False, discard_data=True):
        for code in LOCKS.values():
            nonblocking = code.replace("LOCK_SH", "LOCK_SH | fcntl.LOCK_NB")
            done = subprocess.run(
                [sys.executable, "-c", f"import sys\n{nonblocking}", image], capture_output=True, text=True, check=False
            )
            assert "temporarily unavailable" in done.stderr


# -- what cannot be examined ------------------------------------------------------------------------------------------


@pytest.mark.long
def test_no_target_is_tested_without_proc_or_sys(tmp_path: Path) -> None:
    """Run and --plan refuse file and device: without /sys loop devices are invisible, without /proc processes."""
    need_root()
    image = image_of(tmp_path)
    before = content(image)
    with loop(image) as device, program(OPENS, image):
        for place, kind in (("/sys", "sysfs"), ("/proc", "proc")):
            for target in (
                (str(image), "--size", "16M", "--overwrite"),
                (str(device), "--discard-data", "--serial", device.name),
            ):
                for plan in ((), ("--plan",)):
                    done = run(tmp_path, "iops", *target, *plan, within=without(place))
                    assert (done.returncode, done.stdout) == (KernelFilesMissing.exit_code, "")
                    assert f"{kind} is not mounted at {place}" in done.stderr
    assert content(image) == before


def test_a_loop_device_that_may_not_be_opened_is_identified_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its image is compared by the name that the kernel prints, and a message says so."""
    need_root()
    image = image_of(tmp_path)
    with loop_device(image) as device:
        backing = read_backings()[device.name]
        assert (backing.identity, backing.open_error) == (identity_at(image), "")
        opened = os.open

        def denied(path: Path, *rest: int) -> int:
            if path == device:
                raise PermissionError(13, "Permission denied")
            return opened(path, *rest)

        monkeypatch.setattr(os, "open", denied)
        assert read_backings()[device.name] == storage.Backing(
            identity=identity_at(image), name=str(image), open_error="Permission denied"
        )
        unchecked = usage.read_usage().unchecked[-1]
        assert re.search(rf"\b{device.name}\b.* by another name \((it|they) cannot be opened\)", unchecked)


AS_NOBODY = (
    "import os, sys\nfrom pathlib import Path\nfrom snia_pts.lab.device.target_claim import claim_target\n"
    "os.setgroups([])\nos.setgid(65534)\nos.setuid(65534)\n"
    "with claim_target(Path(sys.argv[1]), size_bytes=None, overwrite=True, discard_data=True) as target:\n"
    "    print(*target.unchecked, sep='\\n')"
)


def test_an_operator_without_rights_learns_what_is_not_checked(tmp_path: Path) -> None:
    """Processes, loop devices and images of other users are not refused but named."""
    need_root()
    image, below_dev = image_of(tmp_path), Path("/dev/shm") / f"snia-pts-test-{os.getpid()}"  # noqa: S108
    below_dev.mkdir(mode=0o700)
    try:
        with loop(filled(below_dev / "x.img")), loop(image) as device, program(OPENS, image):
            os.chown(device, 65534, -1)
            try:
                command = [sys.executable, "-c", AS_NOBODY, str(device)]
                done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
            finally:
                os.chown(device, 0, -1)
        for fact in ("run as root", "cannot be opened", f"who else uses {image}", "Permission denied"):
            assert fact in done.stdout
    finally:
        (below_dev / "x.img").unlink(missing_ok=True)
        below_dev.rmdir()


def test_a_file_is_not_a_device_of_the_same_number() -> None:
    """An inode and a device number are never compared."""
    assert Identity("file", 7, 0) != Identity("device", 7)


def test_threads_that_share_their_descriptors_are_read_once() -> None:
    """Otherwise a process with many threads and many descriptors would take seconds."""
    code = "import threading, time\nwork = {'target': time.sleep, 'args': (600,), 'daemon': True}\n"
    code += "for _ in range(20): threading.Thread(**work).start()"
    with program(code) as other:
        number = str(other.pid)
        assert len(list(Path(f"/proc/{number}/task").iterdir())) == 21
        (folder,) = processes._task_folders(number, Path("/"), compare=True)
        assert list((folder / "fd").iterdir())
        assert len(processes._task_folders(number, Path("/"), compare=False)) == 21


@pytest.mark.long
@pytest.mark.parametrize("user", [0, 65534])
def test_a_file_whose_server_does_not_answer_hides_no_other(
    user: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server of a file system may hang, and FUSE hides the files of a user's mount even from root."""
    monkeypatch.setattr(fuse, "_FOREVER", 0)  # the kernel asks each time
    drive, serving, ended = Drive(MIB, slow.MEDIA, slow.CONTROLLER, Oracle(tmp_path / "log")), Event(), Event()
    code = (
        "import mmap, os\nfolder, kept = os.open(sys.argv[2], os.O_PATH), os.open(sys.argv[1], os.O_RDONLY)\n"
        "os.setgid(int(sys.argv[3]))\nos.setuid(int(sys.argv[3]))\n"
        "file = os.open(sys.argv[4], os.O_RDONLY, dir_fd=folder)\nmapped = mmap.mmap(file, 4096, prot=mmap.PROT_READ)"
    )
    program_text = (
        "import sys\nfrom snia_pts.lab.device.usage import identity_at, read_usage\n"
        "print(identity_at(sys.argv[1]) in read_usage().processes.users)"
    )

    def serve(connector: fuse.Fuse) -> None:
        while not ended.wait(0.01):
            if serving.is_set():
                connector.receive(connector.sources[0], lambda _: None)

    image, mount = image_of(tmp_path), tmp_path / "mount"
    mount.mkdir()
    try:
        with fuse.opened(drive, mount, user) as connector, ThreadPoolExecutor() as threads:
            threads.submit(serve, connector)
            try:
                serving.set()
                with program(code, image, mount, str(user), fuse.NAME):
                    serving.clear()
                    try:
                        command = [sys.executable, "-c", program_text, str(image)]
                        answer = subprocess.run(
                            command, env=ENVIRONMENT, capture_output=True, text=True, check=True, timeout=60
                        )
                    finally:
                        serving.set()
            finally:
                ended.set()
    except fuse.Unavailable as reason:
        pytest.skip(f"no FUSE here: {reason}")
    assert answer.stdout == "True\n"


def test_unchecked_processes_are_reported() -> None:
    """Processes of other users, and those outside of a container, are not refused but named."""
    names = tuple(f"cat (process {number})" for number in (7, 8, 9))
    hidden = Processes(
        users={}, locks={}, unreadable_descriptors=names, unreadable_mappings=names[:1], in_container=True, hidden=True
    )
    found, mapped, others, outside = hidden.unchecked
    assert others.startswith("whether processes of other users, which /proc hides, have the target open or mapped")
    assert ("3 other processes have the target open" in found, "container" in outside) == (True, True)
    assert "whether cat (process 7) has the target mapped" in mapped
    (both,) = Processes(users={}, locks={}, unreadable_descriptors=names[:2], unreadable_mappings=names[:2]).unchecked
    assert "whether cat (process 7) and cat (process 8) have the target open or mapped" in both
    assert Processes(users={}, locks={}).unchecked == ()


def test_a_container_is_recognised() -> None:
    """A process in a container does not see the processes outside, which is stated."""
    need_root()
    code = "from snia_pts.lab.device.processes import *\nprint(read_processes().unchecked)"
    inside = subprocess.run(
        [*IN_A_CONTAINER, sys.executable, "-c", code],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "container" in inside.stdout


@pytest.mark.long_but_first
@pytest.mark.parametrize("hidepid", ["0", "1", "2", "4"])
def test_processes_hidden_by_proc_are_reported(hidepid: str) -> None:
    """With hidepid a user without root does not see what others have open, and gets a warning; root sees it."""
    need_root()
    code = "from snia_pts.lab.device.processes import *\nprint(read_processes().hidden)"
    mount = ["mount", "-t", "proc", "-o", f"hidepid={hidepid}", "proc", "/proc"]
    drop = "import os; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
    for user, hides in (("", "False"), (drop, "False" if hidepid == "0" else "True")):
        script = f"import subprocess\nsubprocess.run({mount}, check=True)\nfrom snia_pts.lab.device import processes\n"
        command = [*UNSHARE, sys.executable, "-c", script + user + code]
        answer = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
        assert answer.stdout.strip() == hides


@pytest.mark.long
def test_root_without_ptrace_reports_what_it_cannot_see() -> None:
    """In containers root may list the descriptors of other users' processes, but not follow them."""
    need_root()
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sleep", "600"]
    less = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]
    code = "from snia_pts.lab.device.processes import *\nprint(*read_processes().unreadable_descriptors, sep='\\n')"
    with subprocess.Popen(user) as other:
        try:
            answers = [
                subprocess.run(
                    [*command, sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True
                ).stdout
                for command in ([], less)
            ]
        finally:
            other.kill()
    assert [f"(process {other.pid})" in answer for answer in answers] == [False, True]


# -- names that lead elsewhere than their text -------------------------------------------------------------------------


@contextmanager
def hidden_file(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Hide one of our files below a mount that has another file of the same name.

    Yield the visible file, and the hidden one by a magic link.
    """
    place = folder / "place"
    place.mkdir()
    filled(place / "disk.img", seed=1)
    with (place / "disk.img").open("rb") as kept, mounted("none", place, "-t", "tmpfs"):
        yield filled(place / "disk.img", seed=2), Path(f"/proc/self/fd/{kept.fileno()}")


def refused_as_another(path: Path, size_bytes: int | None, fact: str) -> None:
    """Require that run and --plan refuse a path with the exit code of an unfit target."""
    for attempt in (claimed, require_claimable):
        with pytest.raises(TargetUnfit, match=fact) as refused:
            attempt(path, size_bytes=size_bytes, overwrite=True)
        assert refused.value.exit_code == 10


@pytest.mark.parametrize("size_bytes", [None, MIB // 2])
def test_a_magic_link_to_a_hidden_file_is_refused(tmp_path: Path, size_bytes: int | None) -> None:
    """The text of /proc/PID/fd/N now names another file, which is unchanged, as is the hidden one."""
    need_root()
    with hidden_file(tmp_path) as (visible, magic):
        before = content(visible), content(magic)
        refused_as_another(magic, size_bytes, f"another file than its resolved path {visible}")
        assert (content(visible), content(magic)) == before


def test_a_file_of_another_mount_namespace_is_refused(tmp_path: Path) -> None:
    """/proc/PID/root leads to that of a container.

    Neither its file nor the host's with that name is changed, and none is created in either.
    """
    need_root()
    place = tmp_path / "place"
    place.mkdir()
    visible = filled(place / "disk.img", seed=2)
    within = UNSHARE
    code = (
        "import pathlib, subprocess\nsubprocess.run(['mount', '-t', 'tmpfs', 'none', sys.argv[1]], check=True)\n"
        "pathlib.Path(sys.argv[1], 'disk.img').write_bytes(b'theirs' * 100000)"
    )
    with program(code, place, within=within) as other:
        theirs = Path(f"/proc/{other.pid}/root{visible}")
        before = content(visible), content(theirs)
        refused_as_another(
            theirs, None, "another file than its resolved path "
        )  # below a chroot the path has more components
        refused_as_another(theirs.with_name("new.img"), MIB, "another folder than its resolved path ")
        assert (content(visible), content(theirs)) == before
        assert [item.name for item in (*place.iterdir(), *theirs.parent.iterdir())] == ["disk.img", "disk.img"]


def test_a_relative_name_below_a_later_mount_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory hidden by a mount has another path than the kernel's text of it."""
    need_root()
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    hidden = filled(Path("disk.img"), seed=1)
    with mounted("none", place, "-t", "tmpfs"):
        visible = filled(place / "disk.img", seed=2)
        before = content(visible), content(hidden)
        refused_as_another(hidden, None, f"another file than its resolved path {visible}")
        refused_as_another(Path("new.img"), MIB, "another folder than its resolved path")
        assert (content(visible), content(hidden)) == before
        assert [item.name for item in (*place.iterdir(), *Path().iterdir())] == ["disk.img", "disk.img"]


def test_a_working_directory_that_was_removed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path cannot be resolved there."""
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    place.rmdir()
    refused_as_another(Path("new.img"), MIB, "working directory was removed")


@pytest.mark.parametrize("kind", ["deleted file", "memfd"])
def test_a_file_without_a_name_is_refused(tmp_path: Path, kind: str) -> None:
    """No file is created with the kernel's text for a deleted file, ``... (deleted)``."""
    path = tmp_path / "gone.img"
    descriptor = os.memfd_create("x") if kind == "memfd" else os.open(path, os.O_RDWR | os.O_CREAT)
    path.unlink(missing_ok=True)
    try:
        os.write(descriptor, b"x" * MIB)
        for size_bytes in (None, 2 * MIB):
            refused_as_another(Path(f"/proc/self/fd/{descriptor}"), size_bytes, "another file than its resolved path")
        assert os.fstat(descriptor).st_size == MIB
        assert list(tmp_path.iterdir()) == []
    finally:
        os.close(descriptor)


def test_a_magic_link_within_this_namespace_is_followed(tmp_path: Path) -> None:
    """If its text leads to the same file, it is a symlink like any other."""
    path = filled(tmp_path / "x.img")
    for name in (Path(f"/proc/self/root{path}"), tmp_path / "link"):
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to(path)
        with claim_target(name, size_bytes=None, overwrite=True) as target:
            assert target.dut.path == str(path)


def test_a_symlink_to_nothing_is_refused(tmp_path: Path) -> None:
    """No file is created at the target of a symlink."""
    link = tmp_path / "link"
    link.symlink_to("new.img")
    for attempt in (claimed, require_claimable):
        with pytest.raises(TargetMissing, match=rf"{link} \(a symlink to {tmp_path}/new.img\)") as refused:
            attempt(link, size_bytes=MIB, overwrite=False)
        assert refused.value.exit_code == 6
    assert list(tmp_path.iterdir()) == [link]


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_node_under_another_name_is_the_device(tmp_path: Path) -> None:
    """A device without a serial number is confirmed by the kernel's name for it, whatever a node is called."""
    image = image_of(tmp_path)
    before = content(image)
    with loop(image) as device:
        misleading = node(tmp_path, device).rename(tmp_path / "sda")
        assert read_dut(misleading) == read_dut(device)
        assert read_dut(misleading).identity == device.name

        options = "--discard-data", "--purge", "none", "--run-dir", "run", "--set", "rounds.point_seconds=1"
        refused = run(tmp_path, "iops", misleading, *options, "--serial", "sda")
        assert refused.returncode == NotConfirmed.exit_code, refused.stderr
        assert "'sda' is not its name" in refused.stderr
        assert str(device) in refused.stderr
        assert run(tmp_path, "iops", misleading, *options, "--serial", device.name, "--plan").returncode == 0
    assert content(image) == before


def test_another_device_of_the_same_name_is_not_taken_for_the_same(tmp_path: Path) -> None:
    """A device without a serial number that was attached again may be another one: a resumed run has a warning."""
    before = dut(serial="", instance="boot 1, disk 7")
    other, folder = replace(before, instance="boot 1, disk 8"), RunFolder(path=tmp_path)
    assert tuple(drive_changes(folder, before, replace(before), overwrite=False)) == ()
    (change,) = drive_changes(folder, before, other, overwrite=False)
    assert change == f"identity of the drive: {other.path} has no serial number, so it may be another drive"


def test_without_a_node_in_dev_a_device_keeps_the_given_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that has the device under another name; a node of another device is not used for it."""
    with loop(image_of(tmp_path)) as device, loop(filled(tmp_path / "other.img", SIZE_BYTES)) as another:
        given = node(tmp_path, device)
        for name in ("missing", another.name):
            monkeypatch.setattr(identity, "block_directory", lambda number, *_, name=name: Path(name))
            assert identity.resolved(given) == given
