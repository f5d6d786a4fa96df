"""May the suite write here?  Every refusal of a target is made in this module, before the first byte."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ..dut import Dut
from ..errors import DeviceFailed, HostFailed, NotConfirmed, TargetBusy, TargetMissing, TargetNotOurs, TargetUnfit
from . import process
from .device import ROOT, attribute, block_directory, direct_sector_bytes, read_dut
from .fio import speakable

_OURS = "user.snia-pts.target"
_GONE = "is no longer there"
_ELSE = "leads to something else than when it was checked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target that is held for the whole run: nobody else can mount it, wipe it or test it."""

    dut: Dut
    descriptor: int

    def require_same(self, step: str, what: str) -> None:
        """Raise DeviceFailed or HostFailed, in ``step``, when the path no longer leads to what was held, or a
        file has another size."""
        held = os.fstat(self.descriptor)
        changed = _changed(Path(self.dut.path), held)
        beyond = held.st_size - self.dut.capacity_bytes  # less than a sector: a file need not end with one
        if not changed and self.dut.kind == "file" and not 0 <= beyond < self.dut.logical_sector_bytes:
            changed = f"is {held.st_size} bytes long, and was {self.dut.capacity_bytes}"
        if changed:
            failed = DeviceFailed if changed == _GONE and self.dut.kind != "file" else HostFailed
            raise failed(step=step, what=what, reason=f"{self.dut.path} {changed}")


def confirm(dut: Dut, typed: str) -> None:
    """Accept only the target's serial number (its name where it has none); raises NotConfirmed."""
    if typed != dut.identity:
        reason = f"{typed!r} is not its serial number" if dut.serial else f"{typed!r} is not its name"
        raise NotConfirmed(path=dut.path, reason=reason, confirmation=dut.identity)


@contextmanager
def hold(path: Path, *, size_bytes: int | None, overwrite: bool, root: Path = ROOT) -> Iterator[Target]:
    """Hold the target at ``path`` for a run, or refuse it: a drive, a file of ours, or a new file of ``size_bytes``.

    Raises TargetMissing, TargetBusy, TargetNotOurs, TargetUnfit.
    """
    real = Path(speakable(os.path.realpath(path)))
    read_dut(real, size_bytes=size_bytes, root=root)  # refuses what is no target at all
    if real.is_block_device():
        checked = real.stat()
        check_block(real, block_directory(checked.st_rdev, root), root)
        descriptor = _open(real, os.O_EXCL, checked)
    else:
        descriptor = _hold_file(real, size_bytes, overwrite, root)
    try:
        _lock(descriptor, real)
        _require_no_opener(descriptor, real, root)
        if size_bytes is not None and stat.S_ISREG(os.fstat(descriptor).st_mode):
            _resize(descriptor, real, size_bytes)
        target = Target(dut=read_dut(real, root=root), descriptor=descriptor)
        changed = _changed(real, os.fstat(descriptor))
        if changed:
            raise TargetBusy(path=real, reason=f"it {changed}")
        yield target
    finally:
        os.close(descriptor)


def check_block(path: Path, block: Path, root: Path = ROOT) -> None:
    """Refuse a block device that anybody uses; ``block`` is its sysfs folder.  Raises TargetBusy, TargetUnfit."""
    if (block / "partition").exists():
        whole = f"/dev/{block.parent.name}"
        raise TargetUnfit(path=path, reason=f"it is a partition of {whole}", hint="A test takes a whole drive.")
    if attribute(block / "ro") == "1":
        raise TargetUnfit(path=path, reason="it is read-only")
    for reason in (_mounted(path, block, root), _swap(path, root), _partitions(block), _holders(block)):
        if reason:
            raise TargetBusy(path=path, reason=reason)


def _mounted(path: Path, block: Path, root: Path) -> str:
    """Mounts are looked up by device number and by source, in our mount namespace and in that of process 1."""
    number = attribute(block / "dev")
    for table in ("proc/self/mountinfo", "proc/1/mountinfo"):
        for line in attribute(root / table).splitlines():
            before, _, after = line.partition(" - ")
            fields, source = before.split(), after.split()[1:2]
            if fields[2:3] == [number] or source == [str(path)]:
                return f"it is mounted on {fields[4]}"
    return ""


def _swap(path: Path, root: Path) -> str:
    lines = attribute(root / "proc/swaps").splitlines()[1:]
    names = [line.split()[0].replace(r"\040", " ") for line in lines if line.split()]
    return "it is swap space" if any(_is_same(path, name) for name in names) else ""


def _is_same(path: Path, name: str) -> bool:
    """Do both names lead to the same file?"""
    with suppress(OSError):
        return str(path) == os.path.realpath(name) or path.samefile(name)
    return False


def _partitions(block: Path) -> str:
    found = sorted(child.name for child in block.iterdir() if (child / "partition").exists()) if block.is_dir() else []
    return f"it has partitions ({', '.join(found)})" if found else ""


def _holders(block: Path) -> str:
    holders = block / "holders"
    found = sorted(child.name for child in holders.iterdir()) if holders.is_dir() else []
    return f"it is held by {', '.join(found)} (LVM, RAID or device mapper)" if found else ""


def _hold_file(path: Path, size_bytes: int | None, overwrite: bool, root: Path) -> int:
    for tree in ("/dev", "/proc", "/sys"):
        if _lies_in(path, tree):
            raise TargetUnfit(path=path, reason=f"a file under {tree} is no drive", hint="Choose a file on a disk.")
    if not path.exists():
        return _create(path, size_bytes)
    checked = path.stat()
    _check_file(path, checked, root)
    descriptor = _open(path, 0, checked)
    try:
        if not overwrite and not _is_ours(descriptor):
            raise TargetNotOurs(path=path)
        wanted = checked.st_size if size_bytes is None else size_bytes
        _require_space(path, wanted - checked.st_blocks * 512)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _lies_in(path: Path, tree: str) -> bool:
    """Does a path lie in a tree of the kernel's, also where that is mounted once more somewhere else?"""
    if path.is_relative_to(tree):
        return True
    parent = path.parent
    return os.path.ismount(tree) and parent.is_dir() and parent.stat().st_dev == Path(tree).stat().st_dev


def _check_file(path: Path, checked: os.stat_result, root: Path) -> None:
    """Refuse a file that something else is made of, or that has a second name."""
    for loop in (root / "sys/block").glob("loop*/loop/backing_file"):
        if _is_same(path, attribute(loop)):
            raise TargetBusy(path=path, reason=f"/dev/{loop.parent.parent.name} is made of it")
    swap = _swap(path, root)
    if swap:
        raise TargetBusy(path=path, reason=swap)
    if checked.st_nlink > 1:
        reason = f"it has {checked.st_nlink} names (hard links), and all of them would lose their content"
        raise TargetUnfit(path=path, reason=reason)


def _create(path: Path, size_bytes: int | None) -> int:
    if size_bytes is None:
        raise TargetMissing(path=path)
    if not path.parent.is_dir():
        raise TargetMissing(path=path.parent, hint="Make the folder first.")
    _require_space(path.parent, size_bytes)
    descriptor = _open(path, os.O_CREAT | os.O_EXCL, None)
    try:
        # Where the file system takes no attributes, the next run just asks for --overwrite.
        with suppress(OSError):
            os.setxattr(descriptor, _OURS, b"1")
        _resize(descriptor, path, size_bytes)
        direct_sector_bytes(path)
    except BaseException:
        os.close(descriptor)
        path.unlink()
        raise
    return descriptor


def _resize(descriptor: int, path: Path, size_bytes: int) -> None:
    try:
        os.ftruncate(descriptor, size_bytes)
    except OSError as error:
        reason = f"it cannot be made {size_bytes} bytes long ({error.strerror})"
        raise TargetUnfit(path=path, reason=reason, hint="Give a smaller --size.") from None


def _is_ours(descriptor: int) -> bool:
    try:
        return os.getxattr(descriptor, _OURS) == b"1"
    except OSError:
        return False


def _require_space(path: Path, needed_bytes: int) -> None:
    free = os.statvfs(path)
    if needed_bytes > free.f_bavail * free.f_frsize:
        raise TargetUnfit(
            path=path, reason=f"its file system has no room for {needed_bytes} bytes more",
            hint="Free some space, or give a smaller --size.",
        )  # fmt: skip


def _open(path: Path, flags: int, checked: os.stat_result | None) -> int:
    """Open what was ``checked`` at ``path`` (None: a new file), and nothing that took its place since."""
    try:
        descriptor = os.open(path, flags | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.EBUSY:
            reason = "somebody holds it exclusively (a mount in a container, RAID, device mapper, another run)"
            raise TargetBusy(path=path, reason=reason) from None
        hint = "Run as root, or as a user who may write to it." if error.errno == errno.EACCES else None
        raise TargetUnfit(path=path, reason=f"it cannot be opened for writing ({error.strerror})", hint=hint) from None
    if checked is not None and _identity(os.fstat(descriptor)) != _identity(checked):
        os.close(descriptor)
        raise TargetBusy(path=path, reason=f"it {_ELSE}")
    return descriptor


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    """What tells a file or device node from every other: kind, place, and of a device its number."""
    return stat.S_IFMT(status.st_mode), status.st_dev, status.st_ino, status.st_rdev


def _changed(path: Path, held: os.stat_result) -> str:
    """Return what became of a name since ``held`` was opened by it; nothing where it is as it was."""
    try:
        now = path.lstat()
    except OSError:
        return _GONE
    return "" if _identity(now) == _identity(held) else _ELSE


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise TargetBusy(path=path, reason="another program has locked it (another run of snia-pts?)") from None


def _require_no_opener(descriptor: int, path: Path, root: Path) -> None:
    """Refuse a target that another process has open, even if not exclusively."""
    held = os.fstat(descriptor)
    for owner in _entries(root / "proc"):
        if not owner.isdigit() or owner == str(os.getpid()):
            continue
        folder = root / "proc" / owner / "fd"
        if any(_leads_to(folder / number, path, held) for number in _entries(folder)):
            program = attribute(root / "proc" / owner / "comm")
            raise TargetBusy(path=path, reason=f"{program or 'a program'} (process {owner}) has it open")


def _entries(folder: Path) -> list[str]:
    """What a folder of /proc holds; nothing where the process is gone or not ours to look at."""
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []


def _leads_to(link: Path, path: Path, held: os.stat_result) -> bool:
    try:
        name = str(link.readlink())
        if not name.startswith("/dev/") and Path(name).name != path.name:
            return False
        there = link.stat()
    except OSError:
        return False
    if stat.S_ISBLK(held.st_mode):
        return stat.S_ISBLK(there.st_mode) and there.st_rdev == held.st_rdev
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)


def contents(target: Target, evidence: Path) -> tuple[str, ...]:
    """Return what is recognised on a held target (file systems, partition tables), for the operator to see."""
    finished = process.run(
        ["wipefs", "--no-act", "--parsable", "--noheadings", "--output", "TYPE,LABEL", target.dut.path],
        evidence=evidence / "00000-wipefs",
        timeout_seconds=60,
    )
    lines = (line.replace(",", " ").strip() for line in finished.stdout.splitlines() if not line.startswith("#"))
    return tuple(line for line in lines if line)
