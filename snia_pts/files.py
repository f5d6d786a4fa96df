"""Open files named by the operator, create files in run folders without following symlinks, find data files.

Inside ``keep_folder_open``, files below that folder are opened relative to its descriptor, even if its path now leads
elsewhere.  All other folders are opened by ``trusted_paths``.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedReader, BufferedWriter, FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import RunFolderError
from .trusted_paths import (
    FOLDER,
    FOLDER_MODE,
    change_risk,
    full_path_in_errors,
    is_trusted,
    open_private,
    owner,
    owner_name,
    private_path,
    require_no_risk,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_APPEND | os.O_CLOEXEC
NOT_EMPTY = "it is not empty, and a run never overwrites another"
_UNEXPECTED_FILE_HINT = "Remove it, and find out who put it there; nothing was written through it."
#: The descriptors of the folders that are kept open.
_open_folders: dict[Path, int] = {}


def open_regular(path: Path, max_bytes: int | None = None) -> BufferedReader:
    """Open a regular file of at most ``max_bytes`` for reading.  Raises OSError for any other file, and never opens it.

    Opening some devices has an effect: a watchdog starts, a tape rewinds.
    """
    with full_path_in_errors(path):
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            if max_bytes is not None and status.st_size > max_bytes:
                raise _too_large(max_bytes)
            # Without /proc, the path is opened again and may lead to another file; runs are refused without /proc.
            same_file = Path(f"/proc/self/fd/{handle}")
            readable = same_file if same_file.exists() else path
            return os.fdopen(os.open(readable, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
        finally:
            os.close(handle)


def read_private(path: Path, max_bytes: int, owner_id: int) -> bytes:
    """Return the content of a regular file that only the user ``owner_id`` may read.  Raises OSError for any other."""
    with open_regular(path, max_bytes) as file:
        status = os.fstat(file.fileno())
        if status.st_uid != owner_id:
            raise PermissionError(errno.EACCES, f"it does not belong to user {owner_id}")
        if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise PermissionError(errno.EACCES, "other users may read it (chmod 600 makes it private)")
        return file.read(max_bytes)


def read_regular(path: Path, max_bytes: int, on_open: Callable[[int], object] | None = None) -> bytes:
    """Return the content of a regular file of at most ``max_bytes``.  Raises OSError, also for any other file.

    ``on_open`` is called with the owner of the opened file; ``path`` may lead to another file by now.
    """
    with open_regular(path, max_bytes) as file:
        if on_open is not None:
            on_open(owner(file.fileno()))
        content = file.read(max_bytes + 1)
        if content is None:  # a kernel file (/proc, /sys) that has no data yet
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    if len(content) > max_bytes:  # it has grown, or its reported size is wrong
        raise _too_large(max_bytes)
    return content


def require_author_may_read(path: Path, author: int, user: int) -> None:
    """Raise OSError if the file at ``path``, which user ``author`` owns, names a file of another user, ``user``.

    If ``author`` is root or this process's user, the file may name any file that this process can read.
    """
    if author not in (0, os.geteuid(), user):
        raise PermissionError(errno.EACCES, f"it does not belong to the owner of {path.name}")


def _too_large(max_bytes: int) -> OSError:
    limit = f"{max_bytes / 2**20:g} MiB" if max_bytes >= 2**20 else f"{max_bytes / 2**10:g} KiB"
    return OSError(errno.EFBIG, f"it is larger than {limit}")


# -- folders ----------------------------------------------------------------------------------------------------------


@contextmanager
def keep_folder_open(folder: Path, *, parent: bool = False) -> Iterator[None]:
    """Keep a folder open: inside the block, files below this path are opened relative to its descriptor.

    Raises RunFolderError for a symlink, and as ``require_private`` does.
    """
    if folder in _open_folders:
        yield
        return
    with directory(folder.parent) as above, full_path_in_errors(folder):
        descriptor = _open_folder(folder.name or ".", folder, above)
    try:
        require_no_risk(folder, change_risk(folder, descriptor, parent=parent))
        _open_folders[folder] = descriptor
        yield
    finally:
        _open_folders.pop(folder, None)
        os.close(descriptor)


def present_path(path: Path) -> Path:
    """Return the current path of a file or folder: another one if a folder above it is kept open and was moved."""
    base = next((parent for parent in (path, *path.parents) if parent in _open_folders), None)
    if base is None:
        return path
    try:
        current = Path(f"/proc/self/fd/{_open_folders[base]}").readlink()
        is_moved = current != base and os.path.samestat(current.lstat(), os.fstat(_open_folders[base]))
    except OSError:  # it was removed
        return path
    return current / path.relative_to(base) if is_moved else path


@contextmanager
def directory(folder: Path) -> Iterator[int]:
    """Yield a descriptor of a folder; below a folder that is kept open, symlinks raise RunFolderError.

    For any other folder, raises RunFolderError as ``require_private`` does.
    """
    base = next((parent for parent in (folder, *folder.parents) if parent in _open_folders), None)
    with ExitStack() as opened:
        with full_path_in_errors(folder):
            if base is None:
                descriptor = open_private(folder)[0]
                opened.callback(os.close, descriptor)
            else:
                descriptor = _open_folders[base]
                for name in folder.relative_to(base).parts:
                    descriptor = _open_folder(name, folder, descriptor)
                    opened.callback(os.close, descriptor)
                    require_no_risk(folder, change_risk(folder, descriptor))
        yield descriptor


def _open_folder(name: str, folder: Path, parent: int) -> int:
    try:
        return os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise _unusable(folder, _kind(os.stat(name, dir_fd=parent, follow_symlinks=False))) from None
        raise


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to stable storage.  Raises OSError."""
    with directory(folder) as descriptor:
        os.fsync(descriptor)


def is_unmoved(folder: Path) -> bool:
    """Return whether the path of a folder that is kept open still leads to it.  Raises OSError, RunFolderError."""
    with directory(folder) as descriptor:
        return os.path.samestat(os.fstat(descriptor), folder.lstat())


def make_folder(path: Path, *, new: bool = False) -> None:
    """Create a folder unless it exists; raises RunFolderError if anything else has its name.

    With ``new``, raises FileExistsError if it exists.
    """
    with directory(path.parent) as parent, full_path_in_errors(path):
        try:
            os.mkdir(path.name, FOLDER_MODE, dir_fd=parent)
        except FileExistsError:
            if new:
                raise
        status = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            raise _unusable(path, _kind(status))


def make_empty_folder(path: Path) -> tuple[Path, bool]:
    """Create a folder and its parents, or accept an empty one; return its real path and whether it was created.

    Raises RunFolderError if it is not empty, if something else takes its name meanwhile, and as ``require_private``
    does.
    """
    real = private_path(path) if path.exists() else private_path(path.parent, make=True) / path.name
    with directory(real.parent) as parent, full_path_in_errors(path):
        created = True
        try:
            os.mkdir(real.name, FOLDER_MODE, dir_fd=parent)
        except FileExistsError:
            created = False
        descriptor = _open_folder(real.name, path, parent)
        try:
            require_no_risk(path, change_risk(real, descriptor))
            with os.scandir(descriptor) as entries:
                if any(entries):
                    raise RunFolderError(path=path, reason=NOT_EMPTY)
        finally:
            os.close(descriptor)
    return real, created


# -- files in a folder ------------------------------------------------------------------------------------------------


class UnbufferedFile(FileIO):
    """A file without a buffer whose ``write`` writes everything, or raises OSError.

    A system call may write only a part and report no error: at a quota, a file size limit or the end of the disk.
    """

    def write(self, content: Buffer, /) -> int:
        remaining = memoryview(content).cast("B")
        size = len(remaining)
        while remaining:
            written = super().write(remaining)
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            remaining = remaining[written:]
        return size


def create(path: Path, *, replace: bool = False) -> UnbufferedFile:
    """Create a file for reading and writing; raises RunFolderError if the name is taken.

    With ``replace``, a regular file of that name is removed first; its other names (hard links) keep the content.
    """
    with directory(path.parent) as folder, full_path_in_errors(path):
        try:
            descriptor = os.open(path.name, _NEW, 0o644, dir_fd=folder)
        except FileExistsError:
            status = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
            if not replace or not stat.S_ISREG(status.st_mode):
                raise _unusable(path, _kind(status)) from None
            os.unlink(path.name, dir_fd=folder)
            descriptor = os.open(path.name, _NEW, 0o644, dir_fd=folder)
    return UnbufferedFile(descriptor, "r+")


def create_file(path: Path, content: bytes, *, replace: bool = False) -> None:
    """Create a file with this content; see ``create``."""
    with create(path, replace=replace) as file, full_path_in_errors(path):
        try:
            file.write(content)
        except OSError:
            remove(path)
            raise


def open_to_append(path: Path, *, new: bool = False) -> UnbufferedFile:
    """Open a regular file without hard links for reading and appending; raises RunFolderError for any other file.

    ``new`` creates a missing file.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_CREAT if new else 0)
    with directory(path.parent) as folder, full_path_in_errors(path):
        try:
            descriptor = os.open(path.name, flags, 0o644, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                raise _unusable(path, _kind(os.stat(path.name, dir_fd=folder, follow_symlinks=False))) from None
            raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or not is_trusted(status.st_uid):
        os.close(descriptor)
        raise _unusable(path, _kind(status))
    return UnbufferedFile(descriptor, "r+")


def rename(path: Path, name: str) -> None:
    """Rename a file within its folder."""
    with directory(path.parent) as folder, full_path_in_errors(path):
        os.rename(path.name, name, src_dir_fd=folder, dst_dir_fd=folder)


def remove(path: Path) -> None:
    """Remove a file or symlink if it exists."""
    with suppress(FileNotFoundError), directory(path.parent) as folder, full_path_in_errors(path):
        os.unlink(path.name, dir_fd=folder)


def remove_folder(path: Path) -> None:
    """Remove an empty folder; raises OSError."""
    with directory(path.parent) as folder, full_path_in_errors(path):
        os.rmdir(path.name, dir_fd=folder)


def replace_file(path: Path, content: bytes | Iterable[bytes], *, durable: bool = True, mode: int = 0o644) -> None:
    """Write ``content`` (or its chunks) atomically: a crash leaves the old file or the new one, never a partial one.

    ``mode`` are the permissions of the new file.  ``durable`` syncs the file; without it, a crash of the host may lose
    the new file.  Temporary files that killed writers of this file left behind are removed.
    """
    with directory(path.parent) as folder, full_path_in_errors(path):
        _remove_stale(path.name, folder)
        temporary, file = _create_temporary(path.name, folder, mode)
        try:
            with file:
                file.writelines((content,) if isinstance(content, bytes) else content)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
                os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
                if durable:
                    os.fsync(folder)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            raise


def _create_temporary(name: str, folder: int, mode: int) -> tuple[str, BufferedWriter]:
    """Create a temporary file for ``name``, locked until it is closed; return its name and the file."""
    while True:
        temporary = f".{name}.{secrets.token_hex(8)}"
        file = os.fdopen(os.open(temporary, _NEW, mode, dir_fd=folder), "wb")
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return temporary, file
        file.close()  # another writer removed it as stale before it was locked


def _remove_stale(name: str, folder: int) -> None:
    """Remove temporary files for ``name`` whose writer has exited: a running writer has its file locked."""
    temporary = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]{{16}}")
    for stale in filter(temporary.fullmatch, os.listdir(folder)):
        with suppress(OSError):  # in use by another writer, or not removable: neither prevents writing
            descriptor = os.open(stale, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    os.unlink(stale, dir_fd=folder)
            finally:
                os.close(descriptor)


def _unusable(path: Path, predicate: str) -> RunFolderError:
    return RunFolderError(path=path.parent, reason=f"{path.name} {predicate}", hint=_UNEXPECTED_FILE_HINT)


def _kind(status: os.stat_result) -> str:
    """Return what a file is, as the predicate of a sentence."""
    kinds = ((stat.S_ISLNK, "symlink"), (stat.S_ISDIR, "directory"), (stat.S_ISFIFO, "named pipe"))
    for is_kind, name in kinds:
        if is_kind(status.st_mode):
            return f"is a {name}"
    if not stat.S_ISREG(status.st_mode):
        return "is not a regular file"
    if status.st_nlink > 1:
        return f"has {status.st_nlink} names (hard links)"
    return "already exists" if is_trusted(status.st_uid) else f"belongs to {owner_name(status.st_uid)}"


def data_folder(name: str) -> Path:
    """Return the folder ``specs``, ``reports`` or ``docs``: of an installed package, or next to the package."""
    package = Path(__file__).parent
    installed = package / "data" / name
    return installed if installed.is_dir() else package.parent / name


def shell_quoted(path: Path) -> str:
    """Return a path quoted for a shell command; ./ before a leading - keeps it from being taken for an option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
