"""Exclusive access to a target and the layers beneath it.

Devices are opened with O_EXCL; devices and files are also locked.  The kernel releases the access when the process
exits, even after a crash.  An exclusive open of a device is effective in all namespaces, and a file lock under every
name of the file, so a second run on the same data fails to get one of the two.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path

from ...errors import TargetBusy, TargetUnfit
from ...trusted_paths import folder_without_symlinks
from .identity import attribute
from .processes import THIS_PROCESS, UNKNOWN, lock_sentence, read_locks
from .refusals import cannot_open, require_sole_name
from .storage import Layer, device_identity, holders, identity_by_name, identity_of, partitions

#: udev, and tools that list drives, use a device for less time than this.
BRIEF_USE_SECONDS = 0.5
PATH_CHANGED = "no longer leads to the file or device that was checked"
_EXCLUSIVE = "is already open exclusively (a mount in a container, RAID, device mapper, another run)"
_WHOLE_FILE = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
_UNLOCKED = struct.pack("h", fcntl.F_UNLCK)


def open_checked(path: Path, flags: int, checked: os.stat_result | None, *, folder: int | None = None) -> int:
    """Open ``path`` for writing and return the descriptor, if it is still the file or device with status ``checked``.

    ``checked`` is None for a new file.  If ``folder``, a descriptor, is given, the last part of the path is opened in
    that folder.  No symlink is followed.  Raises TargetBusy, TargetUnfit.
    """
    try:
        with folder_without_symlinks(path) if folder is None else nullcontext(folder) as parent:
            descriptor = os.open(path.name, flags | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=parent)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise TargetBusy(path=path, reason=f"it {PATH_CHANGED}") from None
        if error.errno == errno.EBUSY:
            raise TargetBusy(path=path, reason=f"it {_EXCLUSIVE}") from None
        raise cannot_open(path, error.errno or errno.EIO) from None
    if checked is not None and node_identity(os.fstat(descriptor)) != node_identity(checked):
        os.close(descriptor)
        raise TargetBusy(path=path, reason=f"it {PATH_CHANGED}")
    return descriptor


def node_identity(status: os.stat_result) -> tuple[int, int, int, int]:
    """Return the identity of a file or device node: kind, file system, inode, and the number of a device."""
    return stat.S_IFMT(status.st_mode), status.st_dev, status.st_ino, status.st_rdev


def lock(descriptor: int, path: Path, beneath: str = "") -> None:
    """Lock an open target against other runs and programs such as QEMU, or one of the layers beneath the target.

    ``beneath`` is the name of that layer.

    Raises TargetBusy if another program has locked the target or layer, and TargetUnfit on a file system that does not
    support locks.
    """
    deadline = time.monotonic() + BRIEF_USE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise _locked(descriptor, path, beneath) from None
        except OSError as error:
            raise TargetUnfit(path=path, reason=f"it cannot be locked ({error.strerror})") from None
        time.sleep(BRIEF_USE_SECONDS / 10)
    if stat.S_ISREG(os.fstat(descriptor).st_mode) and _range_lock_conflicts(descriptor):
        raise _locked(descriptor, path, beneath)


def _locked(descriptor: int, path: Path, beneath: str) -> TargetBusy:
    """Return the exception for a target, or for a layer beneath it called ``beneath``, that another program locked."""
    status = os.fstat(descriptor)
    owners = read_locks().get((status.st_dev, status.st_ino), ())
    owner = next((owner for owner in owners if owner != THIS_PROCESS), UNKNOWN)
    built = f"it is built on {beneath}, and " if beneath else ""
    return TargetBusy(path=path, reason=built + lock_sentence(owner, beneath or "it"))


def require_sole_open(descriptor: int, path: Path) -> None:
    """Raise TargetBusy unless ``descriptor`` becomes the only open descriptor of its file within BRIEF_USE_SECONDS.

    The kernel grants a write lease only on such a descriptor.  It also counts openers that /proc does not show: the
    kernel itself, processes in other containers, io_uring, and descriptors in flight over a socket.
    """
    deadline = time.monotonic() + BRIEF_USE_SECONDS
    while not _may_be_sole_open(descriptor):
        if time.monotonic() > deadline:
            raise TargetBusy(path=path, reason="the kernel, or a process that cannot be examined, has it open")
        time.sleep(BRIEF_USE_SECONDS / 10)


def _may_be_sole_open(descriptor: int) -> bool:
    """Return False if another opener prevents a write lease.

    Return True if the lease is granted (it is then released), or if leases cannot be tested here.
    """
    # If another process opens the file during the lease, the kernel sends this signal, which is ignored by default.
    fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError as error:
        return error.errno != errno.EAGAIN
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return True


def claim_beneath(stack: Sequence[Layer], path: Path, claims: ExitStack) -> tuple[str, ...]:
    """Claim every layer beneath the target at ``path``, in the order of their identities, until ``claims`` is closed.

    A device that another device of the stack holds exclusively (device mapper, RAID) is not claimed.  Returns
    descriptions of what could not be claimed for lack of permission.  Raises TargetBusy, TargetUnfit.
    """
    unclaimed = []
    for layer in sorted(stack[1:], key=lambda layer: layer.identity):
        denied = _claim_device(layer, stack, path, claims) if layer.block else _claim_file(layer, path, claims)
        if denied:
            unclaimed.append(f"who else uses {layer.name}, which {path.name} is built on ({denied})")
    return tuple(unclaimed)


def _claim_file(layer: Layer, path: Path, claims: ExitStack) -> str:
    """Lock a file beneath a target; return the reason why opening was denied, or an empty text."""
    for mode in (os.O_RDWR, os.O_RDONLY):
        try:
            descriptor = os.open(layer.path, mode | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            break
        except OSError as error:
            denied = error.strerror or str(error)
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise TargetBusy(path=path, reason=f"it is built on {layer.path}, which {PATH_CHANGED}") from None
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                reason = f"it is built on {layer.path}, which cannot be opened ({denied})"
                raise TargetUnfit(path=path, reason=reason) from None
    else:
        return denied
    claims.callback(os.close, descriptor)
    status = os.fstat(descriptor)
    if identity_of(status) != layer.identity:
        raise TargetBusy(path=path, reason=f"it is built on {layer.path}, which {PATH_CHANGED}")
    require_sole_name(path, status.st_nlink, layer.name)
    lock(descriptor, path, layer.name)
    return ""


def _claim_device(layer: Layer, stack: Sequence[Layer], path: Path, claims: ExitStack) -> str:
    """Open a device beneath a target exclusively; return the reason why opening was denied, or an empty text."""
    if layer.block is None or (layer.block / "partition").exists() or any(_exclusive_holders(layer.block, stack)):
        # Partitions are covered by the claim of their disk, and layers with an exclusive holder by the stack.
        return ""
    try:
        descriptor = os.open(layer.path, os.O_RDONLY | os.O_EXCL | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.EBUSY:
            return error.strerror or str(error)
        raise TargetBusy(path=path, reason=f"it is built on {layer.name}, which {_EXCLUSIVE}") from None
    claims.callback(os.close, descriptor)
    if identity_of(os.fstat(descriptor)) != layer.identity:
        raise TargetBusy(path=path, reason=f"it is built on {layer.name}, and {layer.path} {PATH_CHANGED}")
    lock(descriptor, path, layer.name)
    return ""


def _exclusive_holders(block: Path, stack: Sequence[Layer]) -> Iterator[Path]:
    """Yield the devices of the stack that have ``block`` open exclusively."""
    identities = {layer.identity for layer in stack}
    yield from (holder for holder in holders(block) if device_identity(holder) in identities)
    # A zram device opens its backing device exclusively, but the kernel does not list it among the holders.
    own = {device_identity(device) for device in (block, *partitions(block))} - {None}
    for layer in stack:
        if layer.block and identity_by_name(attribute(layer.block / "backing_dev")) in own:
            yield layer.block


def _range_lock_conflicts(descriptor: int) -> bool:
    """Lock the whole file (an OFD lock, which conflicts with POSIX locks); return whether another lock prevents it."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _WHOLE_FILE)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return True
        if error.errno != errno.EBADF:  # the file system does not support such locks, so no program has a lock
            return False
        # EBADF: the descriptor is open for reading only, and can only test for a lock.
        return not fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _WHOLE_FILE).startswith(_UNLOCKED)
    return False
