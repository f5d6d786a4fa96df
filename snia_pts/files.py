"""Open files named by the operator, create files in run folders without following symlinks, find data files.

Inside ``keep_folder_open`` files below that folder are opened relative to its descriptor, even if its path leads
elsewhere by then.

The way to every folder is opened one name after the other.  Root checks each directory and each symlink as it is held,
so that no other user can redirect root between a check and its use.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shlex
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader, BufferedWriter, FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import RunFolderError

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_APPEND | os.O_CLOEXEC
_FOLDER_MODE = 0o755  # whatever the umask, no other user may change a run
NOT_EMPTY = "it is not empty, and no run overwrites another"
_UNEXPECTED_FILE_HINT = "Remove it, and find out who put it there; nothing was written through it."
#: How many symlinks Linux follows on the way to a file.
_MAX_SYMLINKS = 40
#: The descriptors of the folders that are kept open.
_open_folders: dict[Path, int] = {}


def open_regular(path: Path, max_bytes: int | None = None) -> BufferedReader:
    """Open a regular file of at most ``max_bytes`` for reading.  Raises OSError, also for any other file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if max_bytes is not None and status.st_size > max_bytes:
            raise _too_large(max_bytes)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file of at most ``max_bytes``.  Raises OSError, also for any other file."""
    with open_regular(path, max_bytes) as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:  # it has grown, or its reported size is wrong
        raise _too_large(max_bytes)
    return content


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
    with directory(folder.parent) as above, _full_path_in_errors(folder):
        descriptor = _open_folder(folder.name or ".", folder, above)
    try:
        _require_no_risk(folder, _change_risk(folder, os.fstat(descriptor), parent=parent))
        _open_folders[folder] = descriptor
        yield
    finally:
        _open_folders.pop(folder, None)
        os.close(descriptor)


@contextmanager
def directory(folder: Path) -> Iterator[int]:
    """Yield a descriptor of a folder; below a folder that is kept open, symlinks raise RunFolderError.

    Elsewhere raises RunFolderError as ``require_private`` does.
    """
    base = next((parent for parent in (folder, *folder.parents) if parent in _open_folders), None)
    with ExitStack() as opened:
        with _full_path_in_errors(folder):
            if base is None:
                descriptor = _open_private(folder)[0]
                opened.callback(os.close, descriptor)
            else:
                descriptor = _open_folders[base]
                for name in folder.relative_to(base).parts:
                    descriptor = _open_folder(name, folder, descriptor)
                    opened.callback(os.close, descriptor)
                    _require_no_risk(folder, _change_risk(folder, os.fstat(descriptor)))
        yield descriptor


def _open_folder(name: str, folder: Path, parent: int) -> int:
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise _unusable(folder, _kind(os.stat(name, dir_fd=parent, follow_symlinks=False))) from None
        raise


def make_folder(path: Path) -> None:
    """Create a folder unless it exists; raises RunFolderError if anything else has its name."""
    with directory(path.parent) as parent, _full_path_in_errors(path):
        with suppress(FileExistsError):
            os.mkdir(path.name, _FOLDER_MODE, dir_fd=parent)
        status = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            raise _unusable(path, _kind(status))


def make_empty_folder(path: Path) -> tuple[Path, bool]:
    """Create a folder and its parents, or accept an empty one; return its real path and whether it was created.

    Raises RunFolderError if it is not empty, if anything but a folder takes its place meanwhile, and as
    ``require_private`` does.
    """
    real = private_path(path) if path.exists() else private_path(path.parent, make=True) / path.name
    with directory(real.parent) as parent, _full_path_in_errors(path):
        created = True
        try:
            os.mkdir(real.name, _FOLDER_MODE, dir_fd=parent)
        except FileExistsError:
            created = False
        descriptor = _open_folder(real.name, path, parent)
        try:
            _require_no_risk(path, _change_risk(real, os.fstat(descriptor)))
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
    """Create a file for reading and writing; raises RunFolderError if anything has its name.

    With ``replace``, a regular file of that name is removed first; its other names (hard links) keep the content.
    """
    with directory(path.parent) as folder, _full_path_in_errors(path):
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
    with create(path, replace=replace) as file:
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
    with directory(path.parent) as folder, _full_path_in_errors(path):
        try:
            descriptor = os.open(path.name, flags, 0o644, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                raise _unusable(path, _kind(os.stat(path.name, dir_fd=folder, follow_symlinks=False))) from None
            raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or not _is_trusted(status):
        os.close(descriptor)
        raise _unusable(path, _kind(status))
    return UnbufferedFile(descriptor, "r+")


def rename(path: Path, name: str) -> None:
    """Rename a file within its folder."""
    with directory(path.parent) as folder, _full_path_in_errors(path):
        os.rename(path.name, name, src_dir_fd=folder, dst_dir_fd=folder)


def remove(path: Path) -> None:
    """Remove a file or symlink if it exists."""
    with suppress(FileNotFoundError), directory(path.parent) as folder, _full_path_in_errors(path):
        os.unlink(path.name, dir_fd=folder)


def remove_folder(path: Path) -> None:
    """Remove an empty folder; raises OSError."""
    with directory(path.parent) as folder, _full_path_in_errors(path):
        os.rmdir(path.name, dir_fd=folder)


def replace_file(path: Path, content: bytes | Iterable[bytes], *, durable: bool = True) -> None:
    """Write ``content`` (or its chunks) so that a crash leaves the old file or the new one, never a part.

    A file that is not ``durable`` is never a part either, but may be lost if the host crashes.  Temporary files that
    killed writers of this file left behind are removed.
    """
    with directory(path.parent) as folder, _full_path_in_errors(path):
        _remove_stale(path.name, folder)
        temporary, file = _create_temporary(path.name, folder)
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


def _create_temporary(name: str, folder: int) -> tuple[str, BufferedWriter]:
    """Create a temporary file for ``name``, locked until it is closed; return its name and the file."""
    while True:
        temporary = f".{name}.{secrets.token_hex(8)}"
        file = os.fdopen(os.open(temporary, _NEW, 0o644, dir_fd=folder), "wb")
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return temporary, file
        file.close()  # another writer removed it as stale before it was locked


def _remove_stale(name: str, folder: int) -> None:
    """Remove temporary files for ``name`` whose writer has exited: a running writer has its file locked."""
    temporary = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]{{16}}")
    for stale in filter(temporary.fullmatch, os.listdir(folder)):
        with suppress(OSError):  # another writer's, or it cannot be removed: that does not prevent writing
            descriptor = os.open(stale, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    os.unlink(stale, dir_fd=folder)
            finally:
                os.close(descriptor)


@contextmanager
def _full_path_in_errors(path: Path) -> Iterator[None]:
    """Put the full path into errors: calls relative to a descriptor know only the last part."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


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
    return "already exists" if _is_trusted(status) else f"belongs to {_owner(status)}"


# -- who may change a folder ------------------------------------------------------------------------------------------


def require_private(folder: Path, *, parent: bool = False) -> None:
    """Raise RunFolderError if root would write to a folder that other users may change or redirect.

    Every symlink on the way is checked too.  If the folder does not exist, its nearest existing parent is checked.
    ``parent`` is True if the folder to be written to will be created in this one: a sticky directory is safe then,
    because in it users can rename only their own files.
    """
    try:
        risk = _first_risk(folder, parent=parent)
    except OSError as error:
        raise RunFolderError(path=folder, reason=error.strerror or str(error)) from None
    _require_no_risk(folder, risk)


def private_path(folder: Path, *, make: bool = False) -> Path:
    """Return the real path of a folder; ``make`` creates it and its parents.

    Raises RunFolderError as ``require_private`` does for a folder in which another one will be created, and OSError.
    """
    descriptor, real = _open_private(folder, make=make)
    os.close(descriptor)
    return real


def redirect_risk(path: Path, real: Path) -> str:
    """Return how other users may change where an absolute path leads: by a symlink, or by a folder before a ``..``.

    Also says if it does not lead to ``real``, the path without symlinks that was determined before.  Empty if there is
    no risk.  Root and the user who called sudo do not count as other users.
    """
    risk, place, is_complete = "", Path("/"), False
    try:
        for entry in _way(path):
            if entry.is_symlink and not _is_trusted(entry.status):
                return f"{entry.path} is a symlink that belongs to {_owner(entry.status)}"
            if risk and (entry.is_symlink or entry.is_up):
                return risk
            risk = risk or entry.change_risk()
            is_complete = entry.is_last and not entry.is_symlink
            place = place if entry.is_symlink else entry.path
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    leads_to = place if is_complete else place / path.name
    return "" if leads_to == real or not real.parent.exists() else f"{path} does not lead to {real} any more"


@contextmanager
def folder_without_symlinks(path: Path) -> Iterator[int]:
    """Yield an O_PATH descriptor of the folder of a path, opened one name after the other.

    Raises OSError, also if anything on the way to the folder is a symlink.
    """
    for entry in _way(path.parent):
        if entry.is_symlink:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(entry.path))
        if entry.is_last:
            yield entry.descriptor
            return
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))


def tampering_risk(folder: Path, *, parent: bool = False) -> str:
    """Return how users other than root and the one who called sudo may change a folder or the way to it.

    Empty if they cannot, and if this process does not run as root.
    """
    return _first_risk(folder, parent=parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A directory, symlink or file on the way to a path, held by an O_PATH descriptor; ``is_up``: it is a ``..``."""

    path: Path
    descriptor: int
    status: os.stat_result
    is_last: bool
    is_up: bool = False

    @property
    def is_symlink(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)

    def change_risk(self) -> str:
        """Return how other users may change what the way continues to from here; empty if they cannot."""
        if self.is_symlink:
            owner = "" if _is_trusted(self.status) else _owner(self.status)
            return owner and f"{self.path} is a symlink that belongs to {owner}"
        return _change_risk(self.path, self.status, parent=True)


def _way(path: Path, *, make: bool = False) -> Iterator[_Entry]:
    """Yield what lies on the way to a path from the root directory on, each opened relative to the one before.

    Symlinks are followed.  Ends before a name that does not exist; ``make`` creates folders instead.  Raises OSError.
    """
    place, symlinks, remaining = Path("/"), 0, list(reversed(path.absolute().parts[1:]))
    with ExitStack() as held:

        def hold(name: str, parent: int | None = None) -> int:
            try:  # O_DIRECTORY lets the kernel mount what is mounted on demand
                descriptor = os.open(name, _HANDLE | os.O_DIRECTORY, dir_fd=parent)
            except NotADirectoryError:
                descriptor = os.open(name, _HANDLE, dir_fd=parent)
            held.callback(os.close, descriptor)
            return descriptor

        descriptor = root = hold("/")
        yield _Entry(path=place, descriptor=root, status=os.fstat(root), is_last=not remaining)
        while remaining:
            name, folder = remaining.pop(), descriptor
            with _full_path_in_errors(place / name):
                try:
                    descriptor = hold(name, folder)
                except FileNotFoundError as error:
                    if ".." in remaining:
                        raise FileNotFoundError(error.errno, "it does not exist, and a .. follows it") from None
                    if not make:
                        return
                    with suppress(FileExistsError):
                        os.mkdir(name, _FOLDER_MODE, dir_fd=folder)
                    descriptor = hold(name, folder)
            path, is_up = (place.parent, True) if name == ".." else (place / name, False)
            status = os.fstat(descriptor)
            yield _Entry(path=path, descriptor=descriptor, status=status, is_last=not remaining, is_up=is_up)
            if stat.S_ISLNK(status.st_mode):
                target = Path(os.readlink("", dir_fd=descriptor))
                remaining += reversed(target.parts[1:] if target.is_absolute() else target.parts)
                path, descriptor = (Path("/"), root) if target.is_absolute() else (place, folder)
                symlinks += 1
                if symlinks > _MAX_SYMLINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            place = path


def _open_private(folder: Path, *, make: bool = False) -> tuple[int, Path]:
    """Open a folder for reading; return the descriptor and its real path.  ``make`` creates it and its parents.

    Raises RunFolderError if other users may redirect root, and OSError.
    """
    for entry in _way(folder, make=make):
        _require_no_risk(folder, entry.change_risk())
        if entry.is_last and not entry.is_symlink:
            try:
                return os.open(".", _FOLDER, dir_fd=entry.descriptor), entry.path
            except PermissionError:  # it may be entered but not listed, which suffices to open what is in it
                return os.open(".", _HANDLE | os.O_DIRECTORY, dir_fd=entry.descriptor), entry.path
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))


def _first_risk(folder: Path, *, parent: bool) -> str:
    if os.geteuid() != 0:
        return ""
    for entry in _way(folder):
        if risk := entry.change_risk():
            return risk
        if entry.is_last and not entry.is_symlink and not parent:
            return _change_risk(entry.path, entry.status)
    return ""


def _require_no_risk(folder: Path, risk: str) -> None:
    if risk:
        raise RunFolderError(
            path=folder,
            reason=f"root would write to it, and {risk}",
            hint="Let only root and the user who called sudo change it (chown, chmod go-w), choose another folder, "
            "or run it as its owner.",
        )


def _change_risk(folder: Path, status: os.stat_result, *, parent: bool = False) -> str:
    """Return how users other than root and the one who called sudo may change a folder; empty if they cannot.

    Users other than root accept any folder.  ``parent``: a folder is to be created or opened in it.
    """
    if os.geteuid() != 0:
        return ""
    if not _is_trusted(status):
        return f"{folder} belongs to {_owner(status)}"
    if parent and status.st_mode & stat.S_ISVTX:
        return ""
    if status.st_mode & stat.S_IWOTH:
        return f"every user may change {folder}"
    if status.st_mode & stat.S_IWGRP and not _is_private_group(folder, status.st_gid):
        return f"the group {_group(status.st_gid)} may change {folder}"
    return ""


def _is_trusted(status: os.stat_result) -> bool:
    """Return whether root may trust the owner: root, or the user who called sudo.  Other users trust all owners."""
    return os.geteuid() != 0 or status.st_uid in _trusted_users()


def _trusted_users() -> frozenset[int]:
    caller = os.environ.get("SUDO_UID", "")
    return frozenset({0, int(caller)}) if re.fullmatch("[0-9]{1,9}", caller) else frozenset({0})


def _is_private_group(folder: Path, group: int) -> bool:
    """Return whether a folder's group is root's, or that of a trusted user alone, and it has no access control list.

    A group without known members proves nothing: a directory service does not list them.
    """
    import grp
    import pwd

    try:
        has_acl = "system.posix_acl_access" in os.listxattr(folder)
        entry = grp.getgrgid(group)
        owners = [pwd.getpwuid(user) for user in _trusted_users()]
        members = {pwd.getpwnam(name).pw_uid for name in entry.gr_mem}
    except (OSError, KeyError):
        return False
    is_own = any((user.pw_name, user.pw_gid) == (entry.gr_name, group) for user in owners)
    members |= {user.pw_uid for user in pwd.getpwall() if user.pw_gid == group}
    return is_own and not has_acl and members <= _trusted_users()


def _owner(status: os.stat_result) -> str:
    import pwd

    try:
        return f"{pwd.getpwuid(status.st_uid).pw_name} (user {status.st_uid})"
    except KeyError:
        return f"user {status.st_uid}"


def _group(number: int) -> str:
    import grp

    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def data_folder(name: str) -> Path:
    """Return the folder ``specs`` or ``reports``: in the package if it is installed, beside it in a checkout."""
    package = Path(__file__).parent
    installed = package / "data" / name
    return installed if installed.is_dir() else package.parent / name


def shell_quoted(path: Path) -> str:
    """Return a path quoted for a shell command; one that begins with - is not taken for an option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
