"""A drive over FUSE: the kernel's own protocol, spoken on /dev/fuse, for a folder with one file that losetup takes, and
a symlink to the root directory.

Structures and numbers are those of linux/fuse.h, version 7.31.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from pathlib import Path

from .model import Drive, Request, Submit

NAME, LINK, LEADS_TO = "drive.img", "link", b"/"
_FOLDER, _FILE, _LINK = 1, 2, 3
_FOREVER = 3600
_LARGEST = 1 << 20
_AT_ONCE = 64
_ASYNC_READ, _BIG_WRITES, _ASYNC_DIO, _MAX_PAGES = 1, 1 << 5, 1 << 15, 1 << 22
_PUNCH_HOLE, _ZERO_RANGE = 2, 16
_NOSUID, _NODEV, _DETACH = 2, 4, 2


class Unavailable(Exception):
    """There is no FUSE here, or no right to it."""


class Code(IntEnum):
    """What the kernel asks."""

    LOOKUP, FORGET, GETATTR, SETATTR, READLINK, OPEN, READ, WRITE = 1, 2, 3, 4, 5, 14, 15, 16
    STATFS, RELEASE, FSYNC, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR = 17, 18, 20, 25, 26, 27, 28, 29
    INTERRUPT, BATCH_FORGET, FALLOCATE = 36, 42, 43


_UNANSWERED = {Code.FORGET, Code.INTERRUPT, Code.BATCH_FORGET}
_GRANTED = {Code.RELEASE, Code.FLUSH, Code.READDIR, Code.RELEASEDIR}


class Fuse:
    """Serves one mount."""

    def __init__(self, drive: Drive, descriptor: int) -> None:
        self.sources = [descriptor]
        self._drive = drive
        self._descriptor = descriptor
        self._said = memoryview(bytearray(_LARGEST + 4096))

    def receive(self, source: int, submit: Submit) -> None:
        """Take what the kernel asks, some at once."""
        for _ in range(_AT_ONCE):
            try:
                size = os.readv(source, [self._said])
            except OSError as error:
                if error.errno == errno.ENODEV:  # unmounted
                    self.sources = []
                if error.errno != errno.ENOENT:  # a request that was taken back
                    return
                continue
            self._take(self._said[:size], submit)

    def answer(self, request: Request) -> None:
        """Reply to a request of the drive."""
        content: bytes | memoryview = b""
        if request.kind == "read":
            content = self._drive.data[request.offset : request.offset + request.length]
        elif request.kind == "write":
            content = struct.pack("<II", request.length, 0)
        self._reply(request.tag, b"" if request.error else content, request.error)

    def _take(self, data: memoryview, submit: Submit) -> None:
        _, code, unique, node = struct.unpack_from("<IIQQ", data)
        request = data[40:]
        match code:
            case Code.READ:
                offset, size = struct.unpack_from("<8xQI", request)
                size = min(size, max(0, self._drive.capacity_bytes - offset))
                submit(Request("read", offset, size, unique))
            case Code.WRITE:
                offset, size = struct.unpack_from("<8xQI", request)
                self._drive.store(offset, request[40 : 40 + size])
                submit(Request("write", offset, size, unique))
            case Code.FALLOCATE if struct.unpack_from("<24xI", request)[0] & (_PUNCH_HOLE | _ZERO_RANGE):
                offset, size = struct.unpack_from("<8xQQ", request)
                submit(Request("trim", offset, size, unique))
            case Code.FSYNC:
                submit(Request("flush", 0, 0, unique))
            case _ if code not in _UNANSWERED:
                content = self._housekeeping(code, node, request)
                self._reply(unique, content or b"", 0 if content is not None else errno.ENOSYS)

    def _housekeeping(self, code: int, node: int, request: memoryview) -> bytes | None:
        """Return the answer to a request other than I/O; None if there is none."""
        match code:
            case Code.INIT:
                (offered,) = struct.unpack_from("<12xI", request)
                flags = offered & (_ASYNC_READ | _BIG_WRITES | _ASYNC_DIO | _MAX_PAGES)
                pages = _LARGEST // 4096
                return struct.pack("<IIIIHHIIH", 7, 31, 131072, flags, 512, 384, _LARGEST, 1, pages).ljust(64, b"\0")
            case Code.LOOKUP:
                known = {NAME: _FILE, LINK: _LINK}.get(bytes(request).rstrip(b"\0").decode(), 0)
                return struct.pack("<QQQQII", known, 0, _FOREVER, _FOREVER, 0, 0) + self._status(known)
            case Code.READLINK:
                return LEADS_TO
            case Code.GETATTR | Code.SETATTR:
                return struct.pack("<QII", _FOREVER, 0, 0) + self._status(node)
            case Code.OPEN | Code.OPENDIR:
                return struct.pack("<QII", 1, 0, 0)
            case Code.STATFS:
                blocks = self._drive.capacity_bytes // 4096
                return struct.pack("<QQQQQIII", blocks, 0, 0, 2, 0, 4096, 255, 4096).ljust(80, b"\0")
        return b"" if code in _GRANTED else None

    def _status(self, node: int) -> bytes:
        size, mode = {
            _FOLDER: (0, stat.S_IFDIR | 0o755),
            _LINK: (len(LEADS_TO), stat.S_IFLNK | 0o777),
        }.get(node, (self._drive.capacity_bytes, stat.S_IFREG | 0o600))
        return struct.pack("<QQQ24x12xIIIIIII", node, size, size // 512, mode, 1, 0, 0, 0, 4096, 0)

    def _reply(self, unique: int, content: bytes | memoryview, error: int) -> None:
        head = struct.pack("<IiQ", 16 + len(content), -error, unique)
        with suppress(FileNotFoundError):  # the request was taken back
            os.writev(self._descriptor, [head, content])


@contextmanager
def opened(drive: Drive, folder: Path, user: int = 0, *, others: bool = False) -> Iterator[Fuse]:
    """Mount the drive on ``folder`` for a user while it is served; raises Unavailable if that is not possible.

    With ``others``, all users may use the mount.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        descriptor = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Unavailable(f"/dev/fuse: {error.strerror}") from None
    options = f"fd={descriptor},rootmode=40000,user_id={user},group_id={user},max_read={_LARGEST}"
    options += ",allow_other" * others
    try:
        if libc.mount(b"drive", os.fsencode(folder), b"fuse.drive", _NOSUID | _NODEV, options.encode()):
            raise Unavailable(f"mount: {os.strerror(ctypes.get_errno())}")
        try:
            yield Fuse(drive, descriptor)
        finally:
            libc.umount2(os.fsencode(folder), _DETACH)
    finally:
        os.close(descriptor)
