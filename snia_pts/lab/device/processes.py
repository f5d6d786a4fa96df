"""Find out which other processes have block devices and files open, mapped or locked."""

from __future__ import annotations

import ctypes
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .identity import ROOT, attribute, cached_status
from .mounts import mount_of
from .storage import Identity, identity_of

THIS_PROCESS = "snia-pts itself"
UNKNOWN = "a program"
#: How often /proc is listed to find processes that started meanwhile; a busy host starts new ones all the time.
_MAX_LISTINGS = 20
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of linux/proc_ns.h
_SYSCALL = ctypes.CDLL(None, use_errno=True).syscall
_SYSCALL.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong]
_SYSCALL.restype = ctypes.c_long
#: The number of the system call kcmp(2).
_KCMP = {"x86_64": 312, "aarch64": 272, "riscv64": 272}.get(platform.machine())
_KCMP_FILES = 2  # linux/kcmp.h
_LOCK = re.compile(r" (?:FLOCK|POSIX|OFDLCK) +\S+ +\S+ +(-?[0-9]{1,18}) ([0-9a-f]{1,7}):([0-9a-f]{1,7}):([0-9]{1,20}) ")
#: A line of /proc/PID/maps: start, end, number of the file system and inode (not 0), name.
_MAPPING = re.compile(
    rb"^([0-9a-f]{1,16})-([0-9a-f]{1,16}) \S+ \S+ ([0-9a-f]{1,7}:[0-9a-f]{1,7} [1-9][0-9]{0,19}) *(.*)$",
    re.MULTILINE,
)


class User(NamedTuple):
    """A process that has an object open, or (``mapped``) only mapped into its memory, with its descriptor closed."""

    process: str
    mapped: bool = False

    def sentence(self, name: str) -> str:
        """Return how the process uses the object called ``name``, as a sentence."""
        return f"{self.process} has {name} {'mapped into its memory' if self.mapped else 'open'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """The block devices and files that other processes have open, mapped or locked.

    ``users`` are keyed by object.  ``locks`` are keyed by file system and inode (of the node, for a device) and include
    this process's own.  ``unreadable_descriptors`` and ``unreadable_mappings`` name the processes whose descriptors or
    memory maps may not be examined.  ``in_container`` is True if a PID namespace hides other processes, ``hidden`` if
    /proc hides those of other users (its mount option ``hidepid``).
    """

    users: Mapping[Identity, tuple[User, ...]]
    locks: Mapping[tuple[int, int], tuple[str, ...]]
    unreadable_descriptors: tuple[str, ...] = ()
    unreadable_mappings: tuple[str, ...] = ()
    in_container: bool = False
    hidden: bool = False

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Descriptions of what could not be examined, for the operator."""
        refused = "the kernel does not permit it; CAP_SYS_PTRACE may be missing"
        remedy = " (run as root to check it)" if os.geteuid() else f" ({refused})"
        unread = {"open": self.unreadable_descriptors, "mapped into memory": self.unreadable_mappings}
        if self.unreadable_descriptors == self.unreadable_mappings:
            unread = {"open or mapped": self.unreadable_descriptors}
        others = [f"whether {_subject(names)} the target {what}{remedy}" for what, names in unread.items() if names]
        hidden = f"whether processes of other users, which /proc hides, have the target open or mapped{remedy}"
        outside = "whether processes outside of this container have the target open (it has a PID namespace of its own)"
        return (*others, *[hidden] * self.hidden, *[outside] * self.in_container)


def read_processes(root: Path = ROOT) -> Processes:
    """Examine every process but this one."""
    users: dict[Identity, dict[User, None]] = {}
    unreadable_descriptors, unreadable_mappings = list[str](), list[str]()
    own_pid = read_own_pid(root)
    for pid in _all_pids(root):
        if pid == own_pid:
            continue
        folders, mappings = _task_folders(pid, root, compare=own_pid == str(os.getpid())), set[Identity]()
        is_program = bool(attribute(root / "proc" / pid / "cmdline"))  # kernel threads have none
        opened, denied = _open_objects(folders)
        unreadable_descriptors += [program(pid, root)] * (denied and is_program)
        try:
            mappings = set(_mapped_objects(folders))
        except PermissionError:
            unreadable_mappings += [program(pid, root)] * is_program
        name = program(pid, root) if opened or mappings else ""
        for identity in opened | mappings:
            users.setdefault(identity, {})[User(name, mapped=identity not in opened)] = None
    namespace = _link(root / "proc/self/ns/pid")
    return Processes(
        users={identity: tuple(processes) for identity, processes in users.items()},
        locks=read_locks(root),
        unreadable_descriptors=tuple(unreadable_descriptors),
        unreadable_mappings=tuple(unreadable_mappings),
        in_container=bool(namespace) and namespace != _INITIAL_PID_NAMESPACE,
        hidden=_hides_processes(root),
    )


def keep_persistent(before: Processes, after: Processes) -> Processes:
    """Return ``after`` without the objects that had no user in ``before``: udev and lists of drives open them briefly.

    An object whose users differ is kept: one process may have passed it on to another.
    """
    return Processes(
        users={key: users for key, users in after.users.items() if key in before.users},
        locks={key: owners for key, owners in after.locks.items() if key in before.locks},
        unreadable_descriptors=after.unreadable_descriptors,
        unreadable_mappings=after.unreadable_mappings,
        in_container=after.in_container,
        hidden=after.hidden,
    )


def read_pids(root: Path = ROOT) -> list[str]:
    """Return the number of each process, in ascending order."""
    return sorted((entry.name for entry in _entries(root / "proc") if entry.name.isdigit()), key=int)


def _all_pids(root: Path) -> Iterator[str]:
    """Yield the number of each process, including those that start meanwhile: a process may fork and exit."""
    listed: set[str] = set()
    for _ in range(_MAX_LISTINGS):
        new = [pid for pid in read_pids(root) if pid not in listed]
        if not new:
            return
        listed.update(new)
        yield from new


def read_own_pid(root: Path = ROOT) -> str:
    """Return the number of this process in /proc, which may be mounted for another PID namespace."""
    return _link(root / "proc/self")


def program(pid: str, root: Path = ROOT) -> str:
    """Return name and number of a process, such as ``dd (process 12)``."""
    return f"{attribute(root / 'proc' / pid / 'comm') or UNKNOWN} (process {pid})"


def _task_folders(pid: str, root: Path, *, compare: bool) -> list[Path]:
    """Return the folder of each thread of a process, except those that share the descriptors of the previous one.

    ``compare`` is True if kcmp(2) can be used: if the numbers in /proc are those of this process's PID namespace.
    """
    process = root / "proc" / pid
    threads = [process / "task" / entry.name for entry in _entries(process / "task")]
    if len(threads) < 2:
        return [process]
    folders = threads[:1]
    for thread in threads[1:]:
        if not (compare and _share_descriptors(folders[-1].name, thread.name)):
            folders.append(thread)
    return folders


def _share_descriptors(one: str, other: str) -> bool:
    """Return whether two threads have the same descriptor table; False if the kernel does not support kcmp(2)."""
    return _KCMP is not None and _SYSCALL(_KCMP, int(one), int(other), _KCMP_FILES, 0, 0) == 0


def _open_objects(folders: Iterable[Path]) -> tuple[set[Identity], bool]:
    """Return the block devices and files that a process has open, and whether it may have others open.

    Root without CAP_SYS_PTRACE may list the descriptors of others, but not follow them.
    """
    identities, denied = set[Identity](), False
    for folder in folders:
        try:
            entries = _entries(folder / "fd", strict=True)
        except PermissionError:
            denied = True
            continue
        for entry in entries:
            try:
                if identity := identity_of(cached_status(entry.path)):
                    identities.add(identity)
            except PermissionError:
                denied = True
            except OSError:  # closed meanwhile
                continue
    return identities, denied


def _mapped_objects(folders: Iterable[Path]) -> Iterator[Identity]:
    """Yield each block device and file that a process has mapped; its descriptor may be closed."""
    for folder in folders:
        try:
            table = (folder / "maps").read_bytes()
        except PermissionError:
            raise
        except OSError:  # the thread has exited
            continue
        if not table:  # the thread has exited before others
            continue
        spans = {
            # Of a file system without a device (major number 0), such as btrfs, each mapping may be another file.
            (numbers, name, start if numbers.startswith(b"00:") else b""): (start, end)
            for start, end, numbers, name in _MAPPING.findall(table)
        }
        for (numbers, name, _), (start, end) in spans.items():
            if identity := _mapped_object(folder, (int(start, 16), int(end, 16)), numbers, os.fsdecode(name)):
                yield identity
        return  # threads share their memory


def _mapped_object(folder: Path, span: tuple[int, int], numbers: bytes, name: str) -> Identity | None:
    """Return the identity of a mapped object.

    The numbers in /proc/PID/maps do not identify it: files in two subvolumes of btrfs can have the same ones.  Only
    root may follow the kernel's link to the object; for other users it is looked up by its name and inode number.
    """
    major, minor, inode = (
        int(number, base) for number, base in zip(re.split(b"[: ]", numbers), (16, 16, 10), strict=True)
    )
    with suppress(OSError):
        return identity_of(cached_status(folder / "map_files" / f"{span[0]:x}-{span[1]:x}"))
    with suppress(OSError, ValueError):
        if (status := Path(name).stat()).st_ino == inode:
            return identity_of(status)
    return Identity("file", os.makedev(major, minor), inode)


def read_locks(root: Path = ROOT) -> dict[tuple[int, int], tuple[str, ...]]:
    """Return the owners of each lock (flock, POSIX and OFD locks) by file system and inode.

    Every user can read this, but the kernel lists only processes of this PID namespace.
    """
    locks: dict[tuple[int, int], tuple[str, ...]] = {}
    own_pid = read_own_pid(root)
    for pid, major, minor, inode in _LOCK.findall(attribute(root / "proc/locks")):
        key = os.makedev(int(major, 16), int(minor, 16)), int(inode)
        owner = THIS_PROCESS if pid == own_pid else program(pid, root) if int(pid) > 0 else UNKNOWN
        locks[key] = (*locks.get(key, ()), owner)
    return locks


def lock_sentence(owner: str, name: str = "it") -> str:
    """Return a sentence that says who has locked the object called ``name``, and whether that is a run of snia-pts."""
    if owner == THIS_PROCESS:
        guess = "through an inherited descriptor?"
    elif owner.startswith("snia-pts"):
        guess = "another run of snia-pts"
    else:
        guess = "another run of snia-pts?" if owner.startswith((UNKNOWN, "python")) else "not a run of snia-pts"
    return f"{owner} has locked {name} ({guess})"


def _hides_processes(root: Path) -> bool:
    """Return whether /proc shows processes of other users to root only."""
    mount = mount_of(Path("/proc"), root)
    return os.geteuid() != 0 and mount is not None and (mount.option("hidepid") or "off") not in ("off", "0")


def _subject(names: Sequence[str]) -> str:
    return (
        f"{' and '.join(names)} {'has' if len(names) == 1 else 'have'}"
        if len(names) < 3
        else f"{len(names)} other processes have"
    )


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _entries(folder: Path, *, strict: bool = False) -> list[os.DirEntry[str]]:
    """Return the entries of a folder of /proc; none if it is gone or, unless ``strict``, may not be read."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        if strict and isinstance(error, PermissionError):
            raise
        return []
