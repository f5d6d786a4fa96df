"""Holds a target for a run, or refuses it before the first byte: block devices by ``guard``, files here."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ..dut import Dut
from ..errors import (
    DeviceFailed,
    HostFailed,
    NotConfirmed,
    SniaPtsError,
    TargetBusy,
    TargetMissing,
    TargetNotOurs,
    TargetUnfit,
)
from .contents import Contents, read_contents
from .device import ROOT, block_directory, direct_sector_bytes, raw, read_dut, traits
from .evidence import last_number
from .fio import speakable
from .guard import denial, not_opened, opened, require_free, require_spare, require_writable
from .occupancy import backing_files, descriptors, device_path, is_same, is_swap, look, openers, partitions, program

_OURS = "user.snia-pts.target"
_OVERWRITE_HINT = "Choose another name, or say --overwrite if its content may be destroyed."
_LOOK_AGAIN_SECONDS = 0.5
_PASSING_SECONDS = 0.5
_GONE = "is no longer there"
_ELSE = "leads to something else than when it was checked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target that is held for the whole run: nobody else can mount it, wipe it or test it.

    ``traits`` are what tells a device from every other, file by file of sysfs.  ``ours`` is a file that the suite made.
    """

    dut: Dut
    descriptor: int
    ours: bool = False
    traits: tuple[tuple[Path, bytes], ...] = ()

    def require_same(self, step: str, what: str) -> None:
        """Raise DeviceFailed or HostFailed, in ``step``, when the path no longer leads to what was held, or when that
        is another drive by now or of another size.
        """
        held = os.fstat(self.descriptor)
        changed = _changed(Path(self.dut.path), held) or (
            self._file_changed(held) if self.dut.kind == "file" else self._device_changed()
        )
        if changed:
            failed = DeviceFailed if changed == _GONE and self.dut.kind != "file" else HostFailed
            raise failed(step=step, what=what, reason=f"{self.dut.path} {changed}")

    def remove(self) -> str:
        """Remove a file that the suite made; return why it is left there, nothing when it is gone."""
        path = Path(self.dut.path)
        changed = _changed(path, os.fstat(self.descriptor))
        if changed or not self.ours:
            return "" if changed == _GONE else f"it {changed}" if changed else "snia-pts did not make it"
        try:
            path.unlink()
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def _file_changed(self, held: os.stat_result) -> str:
        beyond = held.st_size - self.dut.capacity_bytes  # less than a sector: a file need not end with one
        same = 0 <= beyond < self.dut.logical_sector_bytes
        return "" if same else f"is {held.st_size} bytes long, and was {self.dut.capacity_bytes}"

    def _device_changed(self) -> str:
        for path, was in self.traits:
            now = raw(path)
            if now != was:
                words = f"is not what was confirmed: its {path.name} was {_told(was)}, and is {_told(now)}"
                return _GONE if now.strip() in (b"", b"0") else words
        return ""


def _told(trait: bytes) -> str:
    return repr(trait.decode("utf-8", "replace").strip("\0 \n\t"))


def confirm(dut: Dut, typed: str) -> None:
    """Accept only the target's serial number (its name where it has none); raises NotConfirmed."""
    if typed != dut.identity:
        reason = f"{typed!r} is not its serial number" if dut.serial else f"{typed!r} is not its name"
        raise NotConfirmed(path=dut.path, reason=reason, confirmation=dut.identity)


@contextmanager
def hold(
    path: Path, *, size_bytes: int | None, overwrite: bool, discard_data: bool = False, root: Path = ROOT
) -> Iterator[Target]:
    """Hold the target at ``path`` for a run, or refuse it: a drive, a file of ours, or a new file of ``size_bytes``.

    ``overwrite`` allows a file that is not ours, ``discard_data`` a drive with file systems or partitions that nobody
    uses.  Raises TargetMissing, TargetBusy, TargetNotOurs, TargetUnfit.
    """
    real = Path(speakable(os.path.realpath(path)))
    read_dut(real, size_bytes=size_bytes, root=root)  # refuses what is no target at all
    device, new = real.is_block_device(), not os.path.lexists(real)
    descriptor = _hold_device(real, root) if device else _hold_file(real, size_bytes, overwrite, root)
    try:
        _lock(descriptor, real)
        if device:
            _require_untouched(descriptor, real, discard_data, root)
        else:
            _require_no_opener(os.fstat(descriptor), real, root)
            if size_bytes is not None:
                _resize(descriptor, real, size_bytes)
        marks = traits(block_directory(os.fstat(descriptor).st_rdev, root), root) if device else ()
        ours = not device and (new or _is_ours(descriptor))
        target = Target(dut=read_dut(real, root=root), descriptor=descriptor, traits=marks, ours=ours)
        changed = _changed(real, os.fstat(descriptor))
        if changed:
            raise TargetBusy(path=real, reason=f"it {changed}")
        yield target
    finally:
        os.close(descriptor)


def require_holdable(
    path: Path, *, size_bytes: int | None, overwrite: bool, discard_data: bool = False, root: Path = ROOT
) -> None:
    """Raise what ``hold`` would, opening nothing for writing; a device that this user may not read is not read."""
    real = Path(speakable(os.path.realpath(path)))
    read_dut(real, size_bytes=size_bytes, root=root)
    if not real.is_block_device():
        _require_file(real, size_bytes, overwrite, root)
        return
    block = block_directory(real.stat().st_rdev, root)
    _require_free(real, block, root)
    if os.access(real, os.R_OK | os.W_OK):
        require_spare(real, _contents(real, block), discard_data=discard_data)


def _require_free(path: Path, block: Path, root: Path) -> None:
    require_free(path, block, replace(look(root), openers=_lasting_openers(block, root)))


def _hold_device(path: Path, root: Path) -> int:
    checked = path.stat()
    _require_free(path, block_directory(checked.st_rdev, root), root)
    return _open(path, os.O_EXCL, checked)


def regain(target: Target, *, patience_seconds: float, root: Path = ROOT) -> None:
    """Hold a drive again that went away for a moment and is back under its name; the descriptor's number stays.

    Raises DeviceFailed when it is not back in time, or cannot be held, and when another one took its place.
    """
    path, deadline = Path(target.dut.path), time.monotonic() + patience_seconds
    if target.dut.kind == "file" or not _changed(path, os.fstat(target.descriptor)):
        return
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nothing, target.descriptor, inheritable=False)  # the kernel gives the name again once it is let go
    os.close(nothing)
    while True:
        try:
            _hold_again(target, path, root)
            return
        except SniaPtsError as refusal:
            if time.monotonic() > deadline:
                reason = f"it went away, and cannot be held again: {refusal}"
                raise DeviceFailed(step="Purge", what=path, reason=reason) from None
            time.sleep(_LOOK_AGAIN_SECONDS)


def _hold_again(target: Target, path: Path, root: Path) -> None:
    now, was = read_dut(path, root=root), target.dut
    if not was.serial or (now.serial, now.model) != (was.serial, was.model):
        reason = f"in its place is {now.model}, serial {now.serial or 'unknown'}"
        raise DeviceFailed(step="Purge", what=path, reason=reason)
    descriptor = _hold_device(path, root)
    try:
        _lock(descriptor, path)
        os.dup2(descriptor, target.descriptor, inheritable=False)
    finally:
        os.close(descriptor)


def _lasting_openers(block: Path, root: Path) -> dict[int, str]:
    """Who has a device open for more than a moment: udev, and lists of drives, look into each in passing."""
    until = time.monotonic() + _PASSING_SECONDS
    while opened(block, found := openers(root)) and time.monotonic() < until:
        time.sleep(_PASSING_SECONDS / 10)
    return found


def _require_untouched(descriptor: int, path: Path, discard_data: bool, root: Path) -> None:
    """Refuse a device that is held, so that nobody can mount it any more: by who has it open, and by what is on it."""
    block = block_directory(os.fstat(descriptor).st_rdev, root)
    if reason := opened(block, _lasting_openers(block, root)):
        raise TargetBusy(path=path, reason=reason)
    require_spare(path, _contents(path, block), discard_data=discard_data)


def _contents(path: Path, block: Path, evidence: Path | None = None) -> Contents:
    return read_contents({path: [device_path(each) for each in partitions(block)]}, evidence)[path]


def _require_file(path: Path, size_bytes: int | None, overwrite: bool, root: Path) -> None:
    """Raise what ``_hold_file`` would, in its order."""
    _require_no_kernel_tree(path)
    if not path.exists():
        _require_place(path, size_bytes)
        if not os.access(path.parent, os.W_OK | os.X_OK, effective_ids=True):
            raise not_opened(path, denial(path.parent))
        return
    checked = path.stat()
    _check_file(path, checked, root)
    require_writable(path)
    _require_ours(path, path, overwrite)
    _require_more(path, size_bytes, checked)
    if (checked.st_dev, checked.st_ino) in look(root).locks:
        raise _locked(path)
    _require_no_opener(checked, path, root)


def _require_no_kernel_tree(path: Path) -> None:
    for tree in ("/dev", "/proc", "/sys"):
        if _lies_in(path, tree):
            raise TargetUnfit(path=path, reason=f"a file under {tree} is no drive", hint="Choose a file on a disk.")


def _hold_file(path: Path, size_bytes: int | None, overwrite: bool, root: Path) -> int:
    _require_no_kernel_tree(path)
    if not path.exists():
        return _create(path, size_bytes)
    checked = path.stat()
    _check_file(path, checked, root)
    descriptor = _open(path, 0, checked)
    try:
        _require_ours(path, descriptor, overwrite)
        _require_more(path, size_bytes, checked)
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
    for loop, backing in backing_files(root):
        if is_same(path, backing):
            raise TargetBusy(path=path, reason=f"/dev/{loop} is made of it")
    if is_swap(path, root):
        raise TargetBusy(path=path, reason="it is swap space")
    if checked.st_nlink > 1:
        reason = f"it has {checked.st_nlink} names (hard links), and all of them would lose their content"
        raise TargetUnfit(path=path, reason=reason)


def _require_place(path: Path, size_bytes: int | None) -> int:
    """Return the size of a file that can be made."""
    if size_bytes is None:
        raise TargetMissing(path=path)
    if not path.parent.is_dir():
        raise TargetMissing(path=path.parent, hint="Make the folder first.")
    _require_space(path.parent, size_bytes)
    return size_bytes


def _create(path: Path, told_bytes: int | None) -> int:
    size_bytes = _require_place(path, told_bytes)
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


def _is_ours(file: int | Path) -> bool:
    try:
        return os.getxattr(file, _OURS) == b"1"
    except OSError:
        return False


def _require_ours(path: Path, file: int | Path, overwrite: bool) -> None:
    if not overwrite and not _is_ours(file):
        raise TargetNotOurs(path=path, reason="snia-pts did not create it", hint=_OVERWRITE_HINT)


def _require_more(path: Path, size_bytes: int | None, checked: os.stat_result) -> None:
    """Refuse a file that cannot grow to all of its size."""
    wanted = checked.st_size if size_bytes is None else size_bytes
    _require_space(path, wanted - checked.st_blocks * 512)


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
        raise not_opened(path, error.errno or errno.EIO) from None
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
        raise _locked(path) from None


def _locked(path: Path) -> TargetBusy:
    return TargetBusy(path=path, reason="another program has locked it (another run of snia-pts?)")


def _require_no_opener(held: os.stat_result, path: Path, root: Path) -> None:
    """Refuse a file that another process has open."""
    for owner, link in descriptors(root):
        if _leads_to(Path(link), path, held):
            raise TargetBusy(path=path, reason=f"{program(owner, root)} has it open")


def _leads_to(link: Path, path: Path, held: os.stat_result) -> bool:
    try:
        name = str(link.readlink())
        if Path(name).name != path.name:
            return False
        there = link.stat()
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)


def contents(target: Target, evidence: Path) -> tuple[str, ...]:
    """Return what is recognised on a held device (file systems, partition tables), for the operator to see."""
    path = Path(target.dut.path)
    block = block_directory(os.fstat(target.descriptor).st_rdev)
    return _contents(path, block, evidence / f"{last_number(evidence):05d}-wipefs").told(path.name)
