"""The proof of a purge: a pattern in blocks spread over the whole range, there before, gone after."""

from __future__ import annotations

import errno
import mmap
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import DeviceFailed, HostFailed
from ...model.dut import Dut
from ..device.safety import Target
from ..fio import blame

_SAMPLES = 64
_BLOCK_BYTES = 4096
_SECTOR_BYTES = 512


class Proof:
    """A pattern in blocks of a target that is held: ``places`` says where, ``laid_out`` whether it is there."""

    def __init__(self, target: Target, seed: int) -> None:
        self._target = target
        self._pattern = random.Random(seed).randbytes(_BLOCK_BYTES)  # noqa: S311 - a pattern, no secret
        self.places = sample_offsets(target.dut.capacity_bytes)
        self.laid_out = False

    def lay_out(self) -> None:
        """Write the pattern, and read it back; raises DeviceFailed (where it is not there, too) or HostFailed."""
        _flush(self._target)
        with _direct(self._target) as descriptor:
            for offset in self.places:
                _write(descriptor, self._target.dut, offset, self._pattern)
        kept = self.survivors()
        if kept != len(self.places):
            raise _failed(self._target.dut, f"of {len(self.places)} blocks just written, {kept} can be read back")
        self.laid_out = True

    def survivors(self) -> int:
        """Return how many blocks are still there, in whole or in part; raises DeviceFailed or HostFailed."""
        with _direct(self._target) as descriptor:
            return count_survivors(descriptor, self._target.dut, self.places, self._pattern)


def sample_offsets(capacity_bytes: int) -> tuple[int, ...]:
    """Return where the pattern goes: blocks spread evenly over the capacity, the first and the last among them."""
    blocks = capacity_bytes // _BLOCK_BYTES
    count = min(_SAMPLES, blocks)
    return tuple(sorted({(blocks - 1) * index // max(count - 1, 1) * _BLOCK_BYTES for index in range(count)}))


def count_survivors(descriptor: int, dut: Dut, places: tuple[int, ...], pattern: bytes) -> int:
    """Return how many of ``places`` still hold any 512 bytes of the pattern.

    Any sector that survived counts: a purge that clears half a block has not purged it.
    """
    return sum(_survives(_read(descriptor, dut, offset), pattern) for offset in places)


def _survives(found: bytes, pattern: bytes) -> bool:
    starts = range(0, _BLOCK_BYTES, _SECTOR_BYTES)
    return any(found[start : start + _SECTOR_BYTES] == pattern[start : start + _SECTOR_BYTES] for start in starts)


@contextmanager
def _direct(target: Target) -> Iterator[int]:
    """A second descriptor of the very target that is held, past the page cache."""
    descriptor = os.open(f"/proc/self/fd/{target.descriptor}", os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _flush(target: Target) -> None:
    """Let nothing wait in the host's page cache, from writes through it: the kernel would not discard below that."""
    try:
        os.fsync(target.descriptor)
    except OSError as error:
        raise _failed(target.dut, f"what waits in the page cache: {error.strerror}", error.errno) from None


def _write(descriptor: int, dut: Dut, offset: int, pattern: bytes) -> None:
    buffer = mmap.mmap(-1, _BLOCK_BYTES)
    buffer[:] = pattern
    try:
        written = os.pwritev(descriptor, [buffer], offset)
    except OSError as error:
        raise _failed(dut, f"writing the pattern at byte {offset}: {error.strerror}", error.errno) from None
    if written != _BLOCK_BYTES:
        raise _failed(dut, f"writing the pattern at byte {offset}: {written} of {_BLOCK_BYTES} bytes")


def _read(descriptor: int, dut: Dut, offset: int) -> bytes:
    buffer = mmap.mmap(-1, _BLOCK_BYTES)
    try:
        os.preadv(descriptor, [buffer], offset)
    except OSError as error:
        raise _failed(dut, f"reading back at byte {offset}: {error.strerror}", error.errno) from None
    return bytes(buffer)


def _failed(dut: Dut, reason: str, number: int | None = None) -> DeviceFailed | HostFailed:
    failed = HostFailed if blame(number or errno.EIO) == "host" else DeviceFailed
    return failed(step="purge", what=dut.path, reason=reason)
