"""Check which other users could change what a path leads to, by opening its components one after the other.

For root, each directory and each symlink of the path is opened first and checked by its descriptor, so that no other
user can redirect root between a check and its use.  For other users nothing is checked.
"""

from __future__ import annotations

import ctypes
import errno
import grp
import os
import pwd
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from .errors import RunFolderError

#: Flags to open a folder for reading.
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
#: The mode of a new folder: no other user may change it, even with umask 0.
FOLDER_MODE = 0o755
_HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
#: How many symlinks Linux follows on the way to a file.
_MAX_SYMLINKS = 40
#: The number of FUSE in the first field of the kernel's ``struct statfs``, and a size that is enough for the struct.
_FUSE, _STATFS_BYTES = 0x65735546, 512
#: The user that the kernel reports for a user that has no number in this user namespace.
_NOBODY = 65534
_libc = ctypes.CDLL(None, use_errno=True)


def require_private(folder: Path, *, parent: bool = False) -> None:
    """Raise RunFolderError if root would write to a folder that other users may change or redirect.

    Every symlink on the way is checked too.  If the folder does not exist, its nearest existing parent is checked.
    ``parent`` is True if the folder to be written to will be created in this one: a sticky directory is safe then,
    because in it users can rename only their own files.
    """
    try:
        risk = tampering_risk(folder, parent=parent)
    except OSError as error:
        raise RunFolderError(path=folder, reason=error.strerror or str(error)) from None
    require_no_risk(folder, risk)


def private_path(folder: Path, *, make: bool = False) -> Path:
    """Return the real path of a folder; ``make`` creates it and its parents.

    Raises RunFolderError as ``require_private`` does for a folder in which another one will be created, and OSError.
    """
    descriptor, real = open_private(folder, make=make)
    os.close(descriptor)
    return real


def redirect_risk(path: Path, real: Path) -> str:
    """Return how other users may change where an absolute path leads: by a symlink, or by a folder before a ``..``.

    Also says if it does not lead to ``real``, the path without symlinks that was determined before.  Empty if there is
    no risk.  Root and the user who called sudo do not count as other users.
    """
    risk, place, is_complete = "", Path("/"), False
    try:
        for entry in _walk(path):
            entry_risk = entry.change_risk()
            if entry.is_symlink and entry_risk:
                return entry_risk
            if risk and (entry.is_symlink or entry.is_up):
                return risk
            risk = risk or entry_risk
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
    for entry in _walk(path.parent):
        if entry.is_symlink:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(entry.path))
        if entry.is_last:
            yield entry.descriptor
            return
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A component of a path: a directory, symlink or file, with an O_PATH descriptor; ``is_up``: it is a ``..``."""

    path: Path
    descriptor: int
    status: os.stat_result
    is_last: bool
    is_up: bool = False

    @property
    def is_symlink(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)

    def change_risk(self) -> str:
        """Return how other users may change what the next component leads to; empty if they cannot."""
        if self.is_symlink:
            user = "" if is_trusted(owner(self.descriptor)) else owner_name(owner(self.descriptor))
            return user and f"{self.path} is a symlink that belongs to {user}"
        return change_risk(self.path, self.descriptor, parent=True)


def _walk(path: Path, *, make: bool = False) -> Iterator[_Entry]:
    """Yield the components of a path from the root directory on, each opened relative to the one before.

    Symlinks are followed.  Ends before a name that does not exist; ``make`` creates folders instead.  Raises OSError.
    """
    place, symlinks, remaining = Path("/"), 0, list(reversed(path.absolute().parts[1:]))
    with ExitStack() as descriptors:

        def open_component(name: str, parent: int | None = None) -> int:
            try:  # O_DIRECTORY triggers an automount
                descriptor = os.open(name, _HANDLE | os.O_DIRECTORY, dir_fd=parent)
            except NotADirectoryError:
                descriptor = os.open(name, _HANDLE, dir_fd=parent)
            descriptors.callback(os.close, descriptor)
            return descriptor

        descriptor = root = open_component("/")
        yield _Entry(path=place, descriptor=root, status=os.fstat(root), is_last=not remaining)
        while remaining:
            name, folder = remaining.pop(), descriptor
            with full_path_in_errors(place / name):
                try:
                    descriptor = open_component(name, folder)
                except FileNotFoundError as error:
                    if ".." in remaining:
                        raise FileNotFoundError(error.errno, "it does not exist, and a .. follows it") from None
                    if not make:
                        return
                    with suppress(FileExistsError):
                        os.mkdir(name, FOLDER_MODE, dir_fd=folder)
                    descriptor = open_component(name, folder)
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


def open_private(folder: Path, *, make: bool = False) -> tuple[int, Path]:
    """Open a folder for reading; return the descriptor and its real path.  ``make`` creates it and its parents.

    Raises RunFolderError if other users may redirect root, and OSError.
    """
    for entry in _walk(folder, make=make):
        require_no_risk(folder, entry.change_risk())
        if entry.is_last and not entry.is_symlink:
            try:
                return os.open(".", FOLDER, dir_fd=entry.descriptor), entry.path
            except PermissionError:  # search permission without read permission suffices to open files in it
                return os.open(".", _HANDLE | os.O_DIRECTORY, dir_fd=entry.descriptor), entry.path
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))


def tampering_risk(folder: Path, *, parent: bool = False) -> str:
    """Return how users other than root and the one who called sudo may change a folder or the path to it.

    Empty if they cannot, and if this process does not run as root.  For ``parent`` see ``require_private``.  Raises
    OSError.
    """
    if os.geteuid() != 0:
        return ""
    for entry in _walk(folder):
        if risk := entry.change_risk():
            return risk
        if entry.is_last and not entry.is_symlink and not parent:
            return change_risk(entry.path, entry.descriptor)
    return ""


def require_no_risk(folder: Path, risk: str) -> None:
    if risk:
        raise RunFolderError(
            path=folder,
            reason=f"root would write to it, and {risk}",
            hint="Let only root and the user who called sudo change it (chown, chmod go-w), choose another folder, "
            "or run it as its owner.",
        )


def change_risk(folder: Path, descriptor: int, *, parent: bool = False) -> str:
    """Return how users other than root and the one who called sudo may change an open folder; empty if they cannot.

    Users other than root accept any folder.  ``parent``: a folder is to be created or opened in it.  Raises OSError.
    """
    if os.geteuid() != 0:
        return ""
    user, status = owner(descriptor), os.fstat(descriptor)
    if not is_trusted(user):
        return f"{folder} belongs to {owner_name(user)}"
    if parent and status.st_mode & stat.S_ISVTX:
        return ""
    if status.st_mode & stat.S_IWOTH:
        return f"every user may change {folder}"
    if status.st_mode & stat.S_IWGRP and not _is_private_group(folder, status.st_gid):
        return f"the group {_group(status.st_gid)} may change {folder}"
    return ""


def is_trusted(user: int) -> bool:
    """Return whether root may trust a user: root, or the user who called sudo.  Other users trust all users."""
    return os.geteuid() != 0 or user in _trusted_users()


def owner(descriptor: int) -> int:
    """Return the owner of an open file; on a FUSE file system of another user, that user.  Raises OSError.

    The program that serves a FUSE file system may state any owner, root too.
    """
    reported = os.fstat(descriptor).st_uid
    file_system = ctypes.create_string_buffer(_STATFS_BYTES)
    if _libc.fstatfs(descriptor, file_system):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    if ctypes.c_uint.from_buffer(file_system).value != _FUSE:
        return reported
    mounting_user = _fuse_user(descriptor)
    return reported if mounting_user in {os.geteuid(), *_trusted_users()} else mounting_user


def _fuse_user(descriptor: int) -> int:
    """Return who mounted the FUSE file system of an open file; 65534 (nobody) if its mount is not visible here."""
    mount = re.search(r"(?m)^mnt_id:\s*(\d+)$", Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii"))
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        fields = line.decode("ascii", "replace").split(" ")
        if mount and fields[0] == mount[1]:
            user = re.search(r"(?:^|,)user_id=(\d+)", fields[-1])
            return int(user[1]) if user else 0  # virtiofs has no such option; only root mounts it
    return _NOBODY


def _trusted_users() -> frozenset[int]:
    caller = os.environ.get("SUDO_UID", "")
    return frozenset({0, int(caller)}) if re.fullmatch("[0-9]{1,9}", caller) else frozenset({0})


def _is_private_group(folder: Path, group: int) -> bool:
    """Return whether a folder's group is root's, or that of a trusted user alone, and it has no access control list.

    A group without known members proves nothing: a directory service does not list them.
    """
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


def owner_name(user: int) -> str:
    try:
        return f"{pwd.getpwuid(user).pw_name} (user {user})"
    except KeyError:
        return f"user {user}"


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


@contextmanager
def full_path_in_errors(path: Path) -> Iterator[None]:
    """Put the full path into errors of calls relative to a descriptor, whose errors have only the file name."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        # A new error, because one whose filename2 was set to None is printed with "-> None".
        raise OSError(error.errno, error.strerror, str(path)) from error
