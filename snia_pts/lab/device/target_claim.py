"""Claim a target for a run, or refuse it before the first byte is written."""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...errors import (
    DeviceFailed,
    HostFailed,
    NotConfirmed,
    SniaPtsError,
    TargetBusy,
    TargetNotOurs,
    TargetUnfit,
)
from ...model.dut import Dut
from ...trusted_paths import redirect_risk
from ...units import exact_capacity
from ..evidence import pre_run_path
from .contents import Contents, read_contents
from .exclusive_access import (
    BRIEF_USE_SECONDS,
    PATH_CHANGED,
    claim_beneath,
    lock,
    node_identity,
    open_checked,
    require_sole_open,
)
from .file_sets import FileSets
from .file_target import (
    is_reusable,
    open_file,
    require_file,
    require_no_kernel_tree,
    require_no_signature,
    require_whole,
    resize,
    unlink_file,
)
from .fio_name import require_fio_name
from .identity import ROOT, attribute, block_directory, raw_attribute, read_dut, resolved, trait, traits
from .other_runs import OtherRuns, announced
from .processes import Processes, read_processes
from .refusals import require_free, require_sole_name, require_spare, stack_of, usage_sentence
from .storage import Layer, device_path, identity_of, layers, partitions, read_backings
from .usage import Usage, read_usage

_LOGGER = logging.getLogger(__name__)
#: How long to wait at the end for I/O that a stalled device still holds.
_DRAIN_SECONDS = 5.0
_RETRY_SECONDS = 0.5
_DISAPPEARED = "is no longer there"
_NO_PROCESSES = Processes(users={}, locks={})
_Stack = tuple[Layer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target that is claimed for the whole run: no other process can mount, wipe or test it.

    ``traits`` are the files of sysfs, with their contents, that identify a device.  ``created_by_suite`` is True for a
    file that snia-pts created, ``new`` if it created the file for this run.  ``size_bytes`` is the size that
    ``resized`` gives a file; None if it keeps its own.  ``unchecked`` describes what could not be examined for lack of
    permission, or cannot be seen from this host.  ``other_runs`` finds other runs on its disks.  ``file_sets`` are
    further files in the folder of a file.
    """

    dut: Dut
    descriptor: int
    created_by_suite: bool = False
    new: bool = False
    size_bytes: int | None = None
    traits: tuple[tuple[Path, bytes], ...] = ()
    unchecked: tuple[str, ...] = ()
    other_runs: OtherRuns = field(default_factory=lambda: OtherRuns({}))
    file_sets: FileSets | None = None

    def require_same(self, step: str, what: str) -> None:
        """Raise DeviceFailed or HostFailed, in ``step``, if the path no longer leads to the claimed target, or if that
        has become another drive or has another size.
        """
        status = os.fstat(self.descriptor)
        change = _change(Path(self.dut.path), status) or (
            self._file_change(status) if self.dut.kind == "file" else self._device_change(self.traits)
        )
        if change:
            failure = DeviceFailed if change == _DISAPPEARED and self.dut.kind != "file" else HostFailed
            raise failure(step=step, what=what, reason=f"{self.dut.path} {change}")

    def resized(self) -> Target:
        """Give a file the requested size; return the target, which keeps this size from now on.  Raises TargetUnfit.

        Call it after all checks that may refuse the run: a refused run must not change the file.
        """
        if self.size_bytes is None:
            return self
        resize(self.descriptor, Path(self.dut.path), self.size_bytes)
        return replace(self, size_bytes=None)

    def remove(self) -> str:
        """Remove a file that snia-pts created; return why it was not removed, or nothing if it is gone."""
        path = Path(self.dut.path)
        change = _change(path, os.fstat(self.descriptor))
        if change or not self.created_by_suite:
            return "" if change == _DISAPPEARED else f"it {change}" if change else "snia-pts did not create it"
        try:
            return "" if unlink_file(path, self.descriptor) else f"it {PATH_CHANGED}"
        except OSError as error:
            return error.strerror or str(error)

    def _file_change(self, status: os.stat_result) -> str:
        excess = status.st_size - self.dut.capacity_bytes  # the last sector of a file may be incomplete
        if 0 <= excess < self.dut.logical_sector_bytes:
            return ""
        return f"has a size of {exact_capacity(status.st_size)}; it was {exact_capacity(self.dut.capacity_bytes)}"

    def identifier_change(self) -> str:
        """Return how an identifier of a device changed; a purge may change its size and sector size."""
        return self._device_change(
            tuple(entry for entry in self.traits if entry[0].name not in ("size", "logical_block_size"))
        )

    def _device_change(self, expected: tuple[tuple[Path, bytes], ...]) -> str:
        for path, confirmed in expected:
            now = raw_attribute(path)
            if now != confirmed:
                values = f"its {path.name} was {trait(path, confirmed)} and is {trait(path, now)}"
                missing_values = (b"",) if path.parent.name == "loop" else (b"", b"0")  # a loop offset may be 0
                return (
                    _DISAPPEARED if now.strip() in missing_values else f"is not the confirmed device any more: {values}"
                )
        return ""


def _real_path(path: Path) -> Path:
    """Return the path of a target without symlinks.

    Raises TargetUnfit if root would write to a file to which another user can make the path lead.
    """
    real = Path(require_fio_name(str(resolved(path))))
    if os.geteuid() == 0 and not real.is_block_device() and (reason := redirect_risk(path.absolute(), real)):
        raise TargetUnfit(
            path=path,
            reason=f"root would write to a file, and {reason}",
            hint="Name the file by a path that other users cannot change, or run it as the file's owner.",
        )
    return real


def confirm(dut: Dut, typed: str) -> None:
    """Raise NotConfirmed unless ``typed`` is the target's serial number (its name if it has none)."""
    if typed != dut.identity:
        reason = f"{typed!r} is not its serial number" if dut.serial else f"{typed!r} is not its name"
        raise NotConfirmed(path=dut.path, reason=reason, confirmation=dut.identity)


@contextmanager
def claim_target(
    path: Path, *, size_bytes: int | None, overwrite: bool, discard_data: bool = False, root: Path = ROOT
) -> Iterator[Target]:
    """Claim the target at ``path`` for the block, or refuse it.

    The target is a drive, a file created by snia-pts, or a new file of ``size_bytes``; an existing file gets this size
    by ``Target.resized``.  ``overwrite`` also allows any other file, ``discard_data`` a drive with file systems or
    partitions that are not in use.  Raises TargetMissing, TargetBusy, TargetNotOurs, TargetUnfit.
    """
    real = _real_path(path)
    read_dut(real, size_bytes=size_bytes, root=root)  # refuses anything but a whole drive or a regular file
    is_device, new, created_by_suite = real.is_block_device(), False, False
    with ExitStack() as claims:
        if is_device:
            descriptor, stack = _open_device(real, root)
        else:
            descriptor, stack, new = _open_file(real, size_bytes, overwrite, root)
        claims.callback(os.close, descriptor)
        with _remove_if_refused(real, descriptor) if new else nullcontext():
            lock(descriptor, real)
            unclaimed = claim_beneath(stack, real, claims)
            usage = _require_untouched(descriptor, real, stack, root)
            if is_device:
                block = block_directory(os.fstat(descriptor).st_rdev, root)
                require_spare(real, _contents(real, block), discard_data=discard_data)
            else:
                _require_unshared(descriptor, real)
                created_by_suite = new or is_reusable(descriptor, real)
                if not (created_by_suite or overwrite):
                    require_no_signature(real)
                if size_bytes is not None and not created_by_suite:
                    require_whole(real, descriptor, size_bytes)
            device_traits = traits(block_directory(os.fstat(descriptor).st_rdev, root), root) if is_device else ()
            unchecked = (*usage.unchecked, *unclaimed, *_remote(stack))
            dut = read_dut(real, size_bytes=size_bytes, root=root)
            target = Target(
                dut=dut,
                descriptor=descriptor,
                size_bytes=size_bytes,
                traits=device_traits,
                created_by_suite=created_by_suite,
                new=new,
                unchecked=unchecked,
                other_runs=claims.enter_context(announced(real, root)),
                file_sets=None if is_device else claims.enter_context(FileSets(real)),
            )
            change = _change(real, os.fstat(descriptor))
            if change:
                raise TargetBusy(path=real, reason=f"it {change}")
        _LOGGER.info("%s opened and locked: %s", real, dut.summary)
        for check in unchecked:
            _LOGGER.warning("not checked: %s", check)
        yield target


@contextmanager
def _remove_if_refused(path: Path, descriptor: int) -> Iterator[None]:
    """Remove the file that was created as a target if the block raises an exception."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            unlink_file(path, descriptor)
        raise


def require_claimable(
    path: Path, *, size_bytes: int | None, overwrite: bool, discard_data: bool = False, root: Path = ROOT
) -> None:
    """Raise what ``claim_target`` would raise, without opening anything for writing.

    The content of a device that this user may not read and write is not checked.
    """
    real = _real_path(path)
    read_dut(real, size_bytes=size_bytes, root=root)
    if not real.is_block_device():
        require_no_kernel_tree(real)
        _require_free(real, root)
        require_file(real, size_bytes, overwrite=overwrite)
        return
    _require_free(real, root)
    block = block_directory(real.stat().st_rdev, root)
    if os.access(real, os.R_OK | os.W_OK):
        require_spare(real, _contents(real, block), discard_data=discard_data)


def _open_device(path: Path, root: Path) -> tuple[int, _Stack]:
    checked, stack = path.stat(), _require_free(path, root)
    return open_checked(path, os.O_EXCL, checked), stack


def _open_file(path: Path, size_bytes: int | None, overwrite: bool, root: Path) -> tuple[int, _Stack, bool]:
    """Open or create a file; return its descriptor, its stack, and whether it was created."""
    require_no_kernel_tree(path)
    _require_free(path, root)
    descriptor, new = open_file(path, size_bytes, overwrite=overwrite)
    return descriptor, _file_stack(path, os.fstat(descriptor)), new


def _file_stack(path: Path, status: os.stat_result) -> _Stack:
    """Return a stack of the file alone: the file system beneath it may be in use otherwise."""
    identity = identity_of(status)
    return (Layer(identity=identity, path=path, block=None),) if identity else ()


def _stack(path: Path, status: os.stat_result, usage: Usage, root: Path) -> _Stack:
    """Return a target and everything that it is built on."""
    if stat.S_ISBLK(status.st_mode):
        return stack_of(block_directory(status.st_rdev, root), usage, root)
    return _file_stack(path, status)


def _require_free(path: Path, root: Path) -> _Stack:
    """Refuse a target that is in use itself or in a layer beneath it; return its stack, empty if it does not exist."""
    if not path.exists():
        return ()
    usage, stack = _examine(path, path.stat(), root)
    require_free(path, stack, usage, root)
    return stack


def _examine(path: Path, status: os.stat_result, root: Path, *, ignore_locks: bool = False) -> tuple[Usage, _Stack]:
    """Return the usage of the host and the stack of a target.

    If only processes use the target, wait up to BRIEF_USE_SECONDS for them to close it.  ``ignore_locks`` is for a
    target that this process has locked itself.
    """
    usage, deadline = read_usage(root), time.monotonic() + BRIEF_USE_SECONDS
    while True:
        if ignore_locks:
            usage = replace(usage, processes=replace(usage.processes, locks={}))
        stack = _stack(path, status, usage, root)
        without_processes = replace(usage, processes=_NO_PROCESSES)
        only_processes = usage_sentence(stack, usage, path) and not usage_sentence(stack, without_processes, path)
        if not only_processes or time.monotonic() > deadline:
            return usage, stack
        time.sleep(BRIEF_USE_SECONDS / 10)
        usage = replace(usage, processes=read_processes(root))


def _require_untouched(descriptor: int, path: Path, stack: _Stack, root: Path) -> Usage:
    """Refuse a target that was put to use between the first check and its claim; return the usage of the host."""
    usage, now = _examine(path, os.fstat(descriptor), root, ignore_locks=True)
    if {layer.identity for layer in now} != {layer.identity for layer in stack}:
        raise TargetBusy(path=path, reason="the devices and files that it is built on changed since they were checked")
    if reason := usage_sentence(now, usage, path):
        raise TargetBusy(path=path, reason=reason)
    return usage


def _require_unshared(descriptor: int, path: Path) -> None:
    """Refuse a target file that has several names, or is open elsewhere."""
    require_sole_name(path, os.fstat(descriptor).st_nlink)
    require_sole_open(descriptor, path)


def _remote(stack: _Stack) -> Iterator[str]:
    """Yield descriptions of the uses of a target that cannot be seen from this host."""
    for layer in stack:
        if layer.block and layer.block.name.startswith("nbd"):
            yield f"what others do with the data behind {layer.name} (its server, and other clients of that)"


def wait_for_outstanding_io(target: Target, root: Path = ROOT) -> str:
    """Wait a few seconds until a device has completed all I/O; return a sentence if it has not, else nothing.

    The kernel keeps the I/O of a program that has ended, until the device completes it.
    """
    status, deadline = os.fstat(target.descriptor), time.monotonic() + _DRAIN_SECONDS
    counts = block_directory(status.st_rdev, root) / "inflight"
    while stat.S_ISBLK(status.st_mode) and any(number != "0" for number in attribute(counts).split()):
        if time.monotonic() > deadline:
            return f"{target.dut.path} still has I/O outstanding, and must not be used before {counts} is 0 0"
        time.sleep(_RETRY_SECONDS / 10)
    return ""


def regain(target: Target, *, purged: bool, patience_seconds: float, root: Path = ROOT) -> None:
    """Claim a drive again that disappeared and came back under the same name; the descriptor keeps its number.

    Drives can share a serial number, but one that was ``purged`` holds no data.  Raises DeviceFailed if the drive is
    not back within ``patience_seconds``, cannot be claimed, or is another drive.
    """
    path, deadline = Path(target.dut.path), time.monotonic() + patience_seconds
    if target.dut.kind == "file" or not _change(path, os.fstat(target.descriptor)):
        return
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, target.descriptor, inheritable=False)  # the kernel reuses the name once the old device is closed
    os.close(null)
    while True:
        try:
            _claim_again(target, path, root, purged=purged)
            _LOGGER.warning("%s disappeared and was opened again", path)
            return
        except SniaPtsError as refusal:
            if time.monotonic() > deadline:
                reason = f"it disappeared, and cannot be claimed again: {refusal}"
                raise DeviceFailed(step="Purge", what=path, reason=reason) from None
            time.sleep(_RETRY_SECONDS)


def _claim_again(target: Target, path: Path, root: Path, *, purged: bool) -> None:
    now, before = read_dut(path, root=root), target.dut
    if not before.serial or (now.serial, now.model) != (before.serial, before.model):
        reason = f"another drive is in its place: {now.model}, serial {now.serial or 'unknown'}"
        raise DeviceFailed(step="Purge", what=path, reason=reason)
    descriptor, _ = _open_device(path, root)
    try:
        lock(descriptor, path)
        if change := target.identifier_change():
            raise DeviceFailed(step="Purge", what=path, reason=f"it {change}")
        found = _contents(path, block_directory(os.fstat(descriptor).st_rdev, root))
        require_spare(path, found, discard_data=not purged)
        os.dup2(descriptor, target.descriptor, inheritable=False)
    finally:
        os.close(descriptor)


def _contents(path: Path, block: Path, evidence: Path | None = None) -> Contents:
    parts = [device_path(part) for part in partitions(block)]
    stack = [layer.path for layer in layers(block, read_backings()) if layer.block]
    for device in (*reversed(stack), path, *parts):
        _drop_cached_pages(device)
    return read_contents({path: parts}, evidence)[path]


def _drop_cached_pages(device: Path) -> None:
    """Let the next read of an unused device come from what is beneath it, which may have changed since the last one."""
    with suppress(OSError):  # the read reports it
        descriptor = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def _change(path: Path, status: os.stat_result) -> str:
    """Return what happened to ``path`` since the object with ``status`` was opened by it; empty if nothing did."""
    try:
        now = path.lstat()
    except OSError:
        return _DISAPPEARED
    return "" if node_identity(now) == node_identity(status) else PATH_CHANGED


def contents(target: Target, evidence: Path, name: str = "wipefs") -> Contents:
    """Return the file systems and partition tables on a claimed device, for the operator to see.

    ``name`` is that of the evidence.
    """
    path = Path(target.dut.path)
    block = block_directory(os.fstat(target.descriptor).st_rdev)
    return _contents(path, block, pre_run_path(evidence, name))


def require_as_confirmed(target: Target, seen: Contents | None = None, root: Path = ROOT) -> None:
    """Raise TargetBusy, TargetNotOurs or TargetUnfit if a claimed target changed while the operator answered.

    ``seen`` are the contents of a device when the operator was asked.  Its claim refuses mounts and exclusive opens,
    but any other program may open and write it; a file may also be mounted, and get another name.
    """
    path, status = Path(target.dut.path), os.fstat(target.descriptor)
    usage, stack = _examine(path, status, root, ignore_locks=True)
    require_free(path, stack, usage, root)
    if target.dut.kind == "file":
        _require_unshared(target.descriptor, path)
        if target.created_by_suite:
            require_no_signature(path)
        return
    now = _contents(path, block_directory(status.st_rdev, root))
    if now != seen:
        text = ", ".join(now.descriptions(path.name)) or "nothing that is recognised"
        reason = f"its content changed while the confirmation was awaited: it now holds {text}"
        raise TargetNotOurs(path=path, reason=reason)
