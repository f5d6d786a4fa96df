"""A file as a target: check it, open or create it, and recognise files that snia-pts created."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from ...errors import TargetMissing, TargetNotOurs, TargetUnfit
from ...trusted_paths import folder_without_symlinks
from ...units import exact_capacity
from .contents import read_file_contents
from .exclusive_access import node_identity, open_checked
from .identity import direct_sector_bytes, generation
from .refusals import cannot_open, denial, require_sole_name, require_space, require_writable

_MARK_ATTRIBUTE = "user.snia-pts.target"
_OVERWRITE_HINT = "Choose another file name, or pass --overwrite if the content of this file may be destroyed."


def require_file(path: Path, size_bytes: int | None, *, overwrite: bool) -> None:
    """Raise what ``open_file`` would raise, without opening anything for writing."""
    require_no_kernel_tree(path)
    if not path.exists():
        _require_creatable(path, size_bytes)
        if not os.access(path.parent, os.W_OK | os.X_OK, effective_ids=True):
            raise cannot_open(path, denial(path.parent))
        return
    require_sole_name(path, path.stat().st_nlink)
    require_writable(path)
    if not overwrite:
        _require_readable_mark(path)
        require_no_signature(path)
    elif size_bytes is not None and os.access(path, os.R_OK, effective_ids=True):
        with path.open("rb") as file:
            if not is_reusable(file.fileno(), path):
                require_whole(path, file.fileno(), size_bytes)
    _require_growth_space(path, size_bytes, path.stat())


def open_file(path: Path, size_bytes: int | None, *, overwrite: bool) -> tuple[int, bool]:
    """Open or create a file; return its descriptor, and whether it was created.

    The file must be new, created by snia-pts, or allowed to be overwritten, and have space to grow to ``size_bytes``.
    Raises TargetMissing, TargetBusy, TargetNotOurs, TargetUnfit.
    """
    require_no_kernel_tree(path)
    if not path.exists():
        return _create(path, size_bytes), True
    checked = path.stat()
    require_sole_name(path, checked.st_nlink)
    descriptor = open_checked(path, 0, checked)
    try:
        if not overwrite:
            _require_valid_mark(path, descriptor)
        _require_growth_space(path, size_bytes, checked)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, False


def require_whole(path: Path, descriptor: int, size_bytes: int) -> None:
    """Raise TargetUnfit if ``size_bytes`` would cut off a file that snia-pts did not create.

    The run may still be refused, and must not have destroyed anything then.
    """
    actual_bytes = os.fstat(descriptor).st_size
    if size_bytes < actual_bytes:
        reason = f"it has {exact_capacity(actual_bytes)}, and would be cut off at {exact_capacity(size_bytes)}"
        raise TargetUnfit(path=path, reason=reason, hint="Choose another file, or truncate this one yourself.")


def resize(descriptor: int, path: Path, size_bytes: int) -> None:
    """Truncate or extend a file to ``size_bytes``; raises TargetUnfit."""
    try:
        os.ftruncate(descriptor, size_bytes)
    except OSError as error:
        reason = f"it cannot be resized to {exact_capacity(size_bytes)} ({error.strerror})"
        raise TargetUnfit(path=path, reason=reason, hint="Give a smaller --size.") from None


def has_valid_mark(descriptor: int) -> bool:
    """Return whether snia-pts created an open file."""
    mark = _mark(descriptor)
    return bool(mark) and _stored_mark(descriptor) == mark


def require_no_signature(path: Path) -> None:
    """Raise TargetNotOurs for a file created by snia-pts that holds a file system, partition table or the like."""
    if reason := _foreign_content(path):
        raise TargetNotOurs(path=path, reason=reason, hint=_OVERWRITE_HINT)


def is_reusable(descriptor: int, path: Path) -> bool:
    """Return whether snia-pts created a file, open as ``descriptor``, and it holds no file system or the like."""
    return has_valid_mark(descriptor) and not _foreign_content(path)


def _foreign_content(path: Path) -> str:
    """Return a sentence with the signatures in a file created by snia-pts, or why they cannot be read; else nothing."""
    contents = read_file_contents(path)
    if contents.unreadable:
        return f"its content cannot be examined ({contents.unreadable})"
    kinds = ", ".join(dict.fromkeys(signature.description for signature in contents.signatures))
    return f"snia-pts created it, but it holds {kinds}, which snia-pts did not write" if kinds else ""


def _stored_mark(descriptor: int) -> bytes | None:
    try:
        return os.getxattr(descriptor, _MARK_ATTRIBUTE)
    except OSError:
        return None


def _mark(descriptor: int) -> bytes:
    """Return the mark that identifies an open file; a copy of the file is another inode and needs another mark.

    Empty if the file system has neither a number of its own nor generations (FUSE, NFS): an inode number may be there
    twice.
    """
    file_system, inode_generation = os.statvfs(descriptor).f_fsid, generation(descriptor)
    if not file_system and not inode_generation:
        return b""
    inode = inode_generation or f"inode {os.fstat(descriptor).st_ino}"
    return f"file system {file_system:x}, {inode}".encode()


def require_no_kernel_tree(path: Path) -> None:
    """Raise TargetUnfit for a file below /dev, /proc or /sys."""
    for tree in ("/dev", "/proc", "/sys"):
        if _is_below(path, tree):
            raise TargetUnfit(path=path, reason=f"it is a file below {tree}", hint="Choose a file on a disk.")


def _is_below(path: Path, tree: str) -> bool:
    """Return whether a path is below ``tree``, a kernel file system, or below another mount of it."""
    if path.is_relative_to(tree):
        return True
    parent = path.parent
    return os.path.ismount(tree) and parent.is_dir() and parent.stat().st_dev == Path(tree).stat().st_dev


def _require_creatable(path: Path, size_bytes: int | None) -> int:
    """Return ``size_bytes`` if a file of that size can be created; raises TargetMissing, TargetUnfit."""
    if size_bytes is None:
        raise TargetMissing(path=path)
    if not path.parent.is_dir():
        raise TargetMissing(path=path.parent, hint="Create the directory first.")
    require_space(path, size_bytes)
    return size_bytes


def _create(path: Path, requested_bytes: int | None) -> int:
    size_bytes = _require_creatable(path, requested_bytes)
    try:
        with folder_without_symlinks(path) as folder:
            return _create_in(folder, path, size_bytes)
    except OSError as error:
        raise cannot_open(path, error.errno or errno.EIO) from None


def _create_in(folder: int, path: Path, size_bytes: int) -> int:
    """Create a file in its open folder; return its descriptor."""
    descriptor = open_checked(path, os.O_CREAT | os.O_EXCL, None, folder=folder)
    try:
        # On a file system without extended attributes, the next run asks for --overwrite.
        with suppress(OSError):
            os.setxattr(descriptor, _MARK_ATTRIBUTE, _mark(descriptor))
        resize(descriptor, path, size_bytes)
        direct_sector_bytes(path)
    except BaseException:
        with suppress(FileNotFoundError):
            _unlink_same(folder, path.name, descriptor)
        os.close(descriptor)
        raise
    return descriptor


def unlink_file(path: Path, descriptor: int) -> bool:
    """Unlink ``path`` if it still names the open file; return whether it did.  Raises OSError."""
    with folder_without_symlinks(path) as folder:
        return _unlink_same(folder, path.name, descriptor)


def _unlink_same(folder: int, name: str, descriptor: int) -> bool:
    """Unlink ``name`` in an open folder if it leads to the open file; return whether it did.  Raises OSError.

    Linux cannot compare and unlink in one call; between the two, only a user who may rename files in this folder can
    exchange the file.
    """
    if node_identity(os.lstat(name, dir_fd=folder)) != node_identity(os.fstat(descriptor)):
        return False
    os.unlink(name, dir_fd=folder)
    return True


def _require_readable_mark(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        reason = f"it cannot be examined whether snia-pts created it ({error.strerror})"
        raise TargetNotOurs(path=path, reason=reason, hint=_OVERWRITE_HINT) from None
    try:
        _require_valid_mark(path, descriptor)
    finally:
        os.close(descriptor)


def _require_valid_mark(path: Path, descriptor: int) -> None:
    if not has_valid_mark(descriptor):
        copied = " (its mark belongs to another file)" if _stored_mark(descriptor) else ""
        raise TargetNotOurs(path=path, reason=f"snia-pts did not create it{copied}", hint=_OVERWRITE_HINT)


def _require_growth_space(path: Path, size_bytes: int | None, checked: os.stat_result) -> None:
    """Refuse a file if its file system has too little space for the blocks that are not yet allocated."""
    final_bytes = checked.st_size if size_bytes is None else size_bytes
    require_space(path, final_bytes - checked.st_blocks * 512)
