"""Opens files that others name, creates files of run folders without following symlinks, finds data files.

Inside ``keep_folder_open`` files below that folder are opened relative to its descriptor, even if its path leads
elsewhere meanwhile.
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
from io import BufferedReader, BufferedWriter, FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import RunFolderError

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_APPEND | os.O_CLOEXEC
NOT_EMPTY = "it is not empty, and no run overwrites another"
_PLANTED = "Remove it, and find out who put it there; nothing was written through it."
#: How many symlinks on the way to a file Linux follows.
_MOST_LINKS = 40
#: Folders that are kept open, and their descriptors.
_open_folders: dict[Path, int] = {}


def open_regular(path: Path, most_bytes: int | None = None) -> BufferedReader:
    """Open a regular file of at most ``most_bytes`` for reading; raises OSError, also for anything else."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        if most_bytes is not None and status.st_size > most_bytes:
            raise _too_large(most_bytes)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, most_bytes: int) -> bytes:
    """Return what a regular file holds, at most ``most_bytes``; raises OSError for anything else."""
    with open_regular(path, most_bytes) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:  # it grew, or its size was told wrong
        raise _too_large(most_bytes)
    return content


def _too_large(most_bytes: int) -> OSError:
    most = f"{most_bytes / 2**20:g} MiB" if most_bytes >= 2**20 else f"{most_bytes / 2**10:g} KiB"
    return OSError(errno.EFBIG, f"it is larger than {most}")


# -- folders ----------------------------------------------------------------------------------------------------------


@contextmanager
def keep_folder_open(folder: Path) -> Iterator[None]:
    """Keep a descriptor of a folder: inside the block files below this path are opened relative to it.

    Raises RunFolderError for a symlink.
    """
    if folder in _open_folders:
        yield
        return
    descriptor = _open_folder(folder, folder, None)
    _open_folders[folder] = descriptor
    try:
        yield
    finally:
        del _open_folders[folder]
        os.close(descriptor)


@contextmanager
def directory(folder: Path) -> Iterator[int]:
    """Give a descriptor of a folder; below a folder that is kept open, symlinks raise RunFolderError."""
    base = next((parent for parent in (folder, *folder.parents) if parent in _open_folders), None)
    with ExitStack() as opened:
        with _named(folder):
            if base is None:
                descriptor = os.open(folder, _FOLDER)
                opened.callback(os.close, descriptor)
            else:
                descriptor = _open_folders[base]
                for name in folder.relative_to(base).parts:
                    descriptor = _open_folder(name, folder, descriptor)
                    opened.callback(os.close, descriptor)
        yield descriptor


def _open_folder(name: str | Path, folder: Path, parent: int | None) -> int:
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            raise _refused(folder, _kind(found)) from None
        raise


def make_folder(path: Path) -> None:
    """Make a folder in another, unless it is there; raises RunFolderError for anything else in its place."""
    with directory(path.parent) as parent, _named(path):
        with suppress(FileExistsError):
            os.mkdir(path.name, dir_fd=parent)
        found = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode):
            raise _refused(path, _kind(found))


def make_empty_folder(path: Path) -> bool:
    """Make a folder and those above it, or take an empty one; return whether it was made.

    Raises RunFolderError for one that holds anything, and for what takes its place meanwhile.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with directory(path.parent) as parent, _named(path):
        made = True
        try:
            os.mkdir(path.name, dir_fd=parent)
        except FileExistsError:
            made = False
        descriptor = _open_folder(path.name, path, parent)
        try:
            with os.scandir(descriptor) as entries:
                if any(entries):
                    raise RunFolderError(path=path, reason=NOT_EMPTY)
        finally:
            os.close(descriptor)
    return made


# -- files in a folder ------------------------------------------------------------------------------------------------


class UnbufferedFile(FileIO):
    """A file without a buffer whose ``write`` writes everything, or raises OSError.

    One system call may write a part and report no error: at a quota, a file size limit or the end of the disk.
    """

    def write(self, content: Buffer, /) -> int:
        left = memoryview(content).cast("B")
        size = len(left)
        while left:
            written = super().write(left)
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            left = left[written:]
        return size


def create(path: Path, *, replace: bool = False) -> UnbufferedFile:
    """Create a file for reading and writing; raises RunFolderError for anything there already.

    With ``replace``, a regular file of that name is removed first; its other names (hard links) keep their content.
    """
    with directory(path.parent) as folder, _named(path):
        try:
            descriptor = os.open(path.name, _NEW, 0o644, dir_fd=folder)
        except FileExistsError:
            found = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
            if not replace or not stat.S_ISREG(found.st_mode):
                raise _refused(path, _kind(found)) from None
            os.unlink(path.name, dir_fd=folder)
            descriptor = os.open(path.name, _NEW, 0o644, dir_fd=folder)
    return UnbufferedFile(descriptor, "r+")


def create_file(path: Path, content: bytes, *, replace: bool = False) -> None:
    """Create a file that holds ``content``; see ``create``."""
    with create(path, replace=replace) as file:
        try:
            file.write(content)
        except OSError:
            remove(path)
            raise


def open_to_append(path: Path, *, new: bool = False) -> UnbufferedFile:
    """Open a regular file without a second name for reading and appending; raises RunFolderError for anything else.

    ``new`` makes one that is not there.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_CREAT if new else 0)
    with directory(path.parent) as folder, _named(path):
        try:
            descriptor = os.open(path.name, flags, 0o644, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                raise _refused(path, _kind(os.stat(path.name, dir_fd=folder, follow_symlinks=False))) from None
            raise
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or not _trusted(found):
        os.close(descriptor)
        raise _refused(path, _kind(found))
    return UnbufferedFile(descriptor, "r+")


def rename(path: Path, name: str) -> None:
    """Give a file another name in its folder."""
    with directory(path.parent) as folder, _named(path):
        os.rename(path.name, name, src_dir_fd=folder, dst_dir_fd=folder)


def remove(path: Path) -> None:
    """Remove a file, or a link, if it is there."""
    with suppress(FileNotFoundError), directory(path.parent) as folder, _named(path):
        os.unlink(path.name, dir_fd=folder)


def replace_file(path: Path, content: bytes | Iterable[bytes], *, durable: bool = True) -> None:
    """Write ``content`` (or its chunks) so that a crash leaves the old file or the new one, never half of it.

    What is not ``durable`` is whole as well, but a crash of the host may take it.  Temporary files that killed writers
    of this file left are removed.
    """
    with directory(path.parent) as folder, _named(path):
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
        file.close()  # another writer took it for stale before it was locked


def _remove_stale(name: str, folder: int) -> None:
    """Remove temporary files for ``name`` whose writer is gone: a living writer has its file locked."""
    temporary = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]{{16}}")
    for stale in filter(temporary.fullmatch, os.listdir(folder)):
        with suppress(OSError):  # another writer's, or it cannot be removed: no reason not to write
            descriptor = os.open(stale, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    os.unlink(stale, dir_fd=folder)
            finally:
                os.close(descriptor)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Have errors name the whole path: calls relative to a descriptor know the last part alone."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            error.filename, error.filename2 = str(path), None
        raise


def _refused(path: Path, what: str) -> RunFolderError:
    return RunFolderError(path=path.parent, reason=f"{path.name} {what}", hint=_PLANTED)


def _kind(found: os.stat_result) -> str:
    kinds = ((stat.S_ISLNK, "symlink"), (stat.S_ISDIR, "directory"), (stat.S_ISFIFO, "named pipe"))
    for is_kind, name in kinds:
        if is_kind(found.st_mode):
            return f"is a {name}"
    if not stat.S_ISREG(found.st_mode):
        return "is not a regular file"
    if found.st_nlink > 1:
        return f"has {found.st_nlink} names (hard links)"
    return "exists already" if _trusted(found) else f"belongs to {_owner(found)}"


# -- who may change a folder ------------------------------------------------------------------------------------------


def require_private(folder: Path, *, parent: bool = False) -> None:
    """Raise RunFolderError where root would write to a folder that others may change, or lead elsewhere.

    Every symlink on the way counts as well.  Where the folder does not exist, the nearest existing one above it counts.
    ``parent``: the folder that is written to will be made in this one.
    """
    if os.geteuid() != 0:
        return
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    real = Path(os.path.realpath(there))
    if why := misleading(folder.absolute()) or changeable(real, parent=parent or there != folder.absolute()):
        raise RunFolderError(
            path=folder,
            reason=f"root would write to it, and {why}",
            hint="Let only root and the user who called sudo change it (chown, chmod go-w), choose another folder, "
            "or run it as its owner.",
        )


def misleading(path: Path) -> str:
    """Return how others may change where an absolute path leads: by a symlink, or by a folder before a ``..``.

    Empty if they cannot; root and the user who called sudo are no others.
    """
    at, links, left = Path("/"), 0, list(reversed(path.parts[1:]))
    while left:
        name = left.pop()
        here = at / name
        if name == "..":
            if not at.exists():
                return f"{at} before a .. does not exist"
            if why := changeable(at, parent=True):
                return why
            at = at.parent
        elif not here.is_symlink():
            at = here
        elif not _trusted(found := here.lstat()):
            return f"{here} is a symlink that belongs to {_owner(found)}"
        elif why := changeable(at, parent=True):
            return why
        elif (links := links + 1) > _MOST_LINKS:
            return f"{here} is one of too many symlinks"
        else:
            target = here.readlink()
            at = Path("/") if target.is_absolute() else at
            left += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    return ""


def changeable(folder: Path, *, parent: bool = False) -> str:
    """Return how others than root and the user behind sudo may change a folder or one above; nothing unless root asks.

    As a parent, a sticky directory is safe: others cannot rename in it what is not theirs.
    """
    if os.geteuid() != 0:
        return ""
    for each in (folder, *folder.parents):
        found = each.stat()
        if not _trusted(found):
            return f"{each} belongs to {_owner(found)}"
        if (parent or each != folder) and found.st_mode & stat.S_ISVTX:
            continue
        if found.st_mode & stat.S_IWOTH:
            return f"everybody may change {each}"
        if found.st_mode & stat.S_IWGRP and not _is_private_group(each, found.st_gid):
            return f"the group {_group(found.st_gid)} may change {each}"
    return ""


def _trusted(found: os.stat_result) -> bool:
    """Whether root may rely on the owner: root, or the user who called sudo.  Anybody else relies on all owners."""
    return os.geteuid() != 0 or found.st_uid in _trusted_users()


def _trusted_users() -> frozenset[int]:
    caller = os.environ.get("SUDO_UID", "")
    return frozenset({0, int(caller)}) if re.fullmatch("[0-9]{1,9}", caller) else frozenset({0})


def _is_private_group(folder: Path, group: int) -> bool:
    """Whether all members of a folder's group are trusted, and no list of access rights names anybody else."""
    import grp
    import pwd

    try:
        listed = "system.posix_acl_access" in os.listxattr(folder)
        members = {pwd.getpwnam(name).pw_uid for name in grp.getgrgid(group).gr_mem}
    except (OSError, KeyError):
        return False
    members |= {user.pw_uid for user in pwd.getpwall() if user.pw_gid == group}
    return not listed and members <= _trusted_users()


def _owner(found: os.stat_result) -> str:
    import pwd

    try:
        return f"{pwd.getpwuid(found.st_uid).pw_name} (user {found.st_uid})"
    except KeyError:
        return f"user {found.st_uid}"


def _group(number: int) -> str:
    import grp

    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def data_folder(name: str) -> Path:
    """Return the folder ``specs`` or ``reports``: in the package where it is installed, beside it in a checkout."""
    package = Path(__file__).parent
    installed = package / "data" / name
    return installed if installed.is_dir() else package.parent / name


def shell_quoted(path: Path) -> str:
    """Return a path as a command in a shell takes it, whatever it is called."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
