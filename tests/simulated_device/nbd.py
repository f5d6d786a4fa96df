"""A drive over NBD, on a Unix socket: fixed newstyle negotiation and simple replies, which is all that fio needs.

https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from .model import Drive, Request, Submit
from .oracle import Kind

_GREETING = b"NBDMAGICIHAVEOPT" + struct.pack(">H", 0b11)
_EXPORT_NAME, _ABORT, _INFO, _GO = 1, 2, 6, 7
_ACKNOWLEDGED, _INFORMATION, _UNSUPPORTED = 1, 3, 1 << 31 | 1
_HAS_FLAGS, _SEND_FLUSH, _SEND_TRIM, _SEND_WRITE_ZEROES, _CAN_MULTI_CONN = 1, 4, 32, 64, 256
_FLAGS = _HAS_FLAGS | _SEND_FLUSH | _SEND_TRIM | _SEND_WRITE_ZEROES | _CAN_MULTI_CONN
_DISCONNECT = 2
_KINDS: dict[int, Kind] = {0: "read", 1: "write", 3: "flush", 4: "trim", 6: "trim"}
_SOCKET_BYTES = 4 << 20


@dataclass(slots=True)
class _Client:
    """A connection: what has come of it, how much the conversation waits for, and the conversation."""

    socket: socket.socket
    heard: bytearray
    wanted: int
    conversation: Generator[int, bytes, None]


class Nbd:
    """Serves any number of clients."""

    def __init__(self, drive: Drive, listener: socket.socket) -> None:
        self._drive = drive
        self._listener = listener
        self._clients: dict[int, _Client] = {}

    @property
    def sources(self) -> list[int]:
        return [self._listener.fileno(), *self._clients]

    def receive(self, source: int, submit: Submit) -> None:
        """Take a new client, or what a client says."""
        if source == self._listener.fileno():
            connection, _ = self._listener.accept()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
            conversation = self._conversation(connection, submit)
            self._clients[connection.fileno()] = _Client(connection, bytearray(), next(conversation), conversation)
            return
        client = self._clients[source]
        try:
            received = client.socket.recv(1 << 20)
            client.heard += received
            while received and len(client.heard) >= client.wanted:
                piece = bytes(client.heard[: client.wanted])
                del client.heard[: client.wanted]
                client.wanted = client.conversation.send(piece)
        except (OSError, StopIteration):
            received = b""
        if not received:
            self._clients.pop(source).socket.close()

    def answer(self, request: Request) -> None:
        """Send a reply, with the data of a read; a disconnected client needs none."""
        connection, handle = request.tag
        head = struct.pack(">IIQ", 0x67446698, request.error, handle)
        content = self._drive.data[request.offset : request.offset + request.length]
        with suppress(OSError):
            connection.sendall(head + content if request.kind == "read" and not request.error else head)

    def _conversation(self, connection: socket.socket, submit: Submit) -> Generator[int, bytes, None]:
        """Yield how many bytes are wanted next, and get them."""
        connection.sendall(_GREETING)
        yield 4
        if not (yield from self._agree(connection)):
            return
        while True:
            _, _, command, handle, offset, length = struct.unpack(">IHHQQI", (yield 28))
            if command == _DISCONNECT:
                return
            kind = _KINDS[command]
            if kind == "write":
                self._drive.store(offset, (yield length))
            submit(Request(kind, offset, length, (connection, handle)))

    def _agree(self, connection: socket.socket) -> Generator[int, bytes, bool]:
        """Answer options until the client takes the export; False when it gives up."""
        size = struct.pack(">QH", self._drive.capacity_bytes, _FLAGS)
        while True:
            _, option, length = struct.unpack(">8sII", (yield 16))
            yield length
            if option == _EXPORT_NAME:
                connection.sendall(size + bytes(124))
                return True
            replies = {_INFO: [(_INFORMATION, b"\0\0" + size), (_ACKNOWLEDGED, b"")], _ABORT: [(_ACKNOWLEDGED, b"")]}
            replies[_GO] = replies[_INFO]
            for kind, content in replies.get(option, [(_UNSUPPORTED, b"")]):
                connection.sendall(struct.pack(">QIII", 0x3E889045565A9, option, kind, len(content)) + content)
            if option in (_GO, _ABORT):
                return bool(option == _GO)


@contextmanager
def opened(drive: Drive, path: Path) -> Iterator[Nbd]:
    """Listen on a socket at ``path``."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        yield Nbd(drive, listener)
