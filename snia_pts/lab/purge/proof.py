"""The proof of a purge: a pattern in blocks spread over the whole capacity, present before it and gone after it.

The proof of preconditioning: each of such blocks has another content after it than before it.
"""

from __future__ import annotations

import errno
import mmap
import os
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from operator import eq

from ...errors import DeviceFailed, HostFailed
from ...model.dut import Dut
from ...model.steps import Stimulus
from ..device.target_claim import Target
from ..fio import blame

_SAMPLES = 64
_BLOCK_BYTES = 4096
_SECTOR_BYTES = 512
_PURGE = "purge"


class Proof:
    """A pattern in blocks of a claimed target, at ``offsets``; ``is_written`` says whether it was written.

    Each block has its own pattern: a drive with less memory than its capacity would store several in one place.
    """

    def __init__(self, target: Target, seed: int) -> None:
        self._target = target
        source = random.Random(seed)  # noqa: S311 - a pattern, no secret
        self.offsets = sample_offsets(target.dut.capacity_bytes, source)
        self._patterns = {offset: source.randbytes(_BLOCK_BYTES) for offset in self.offsets}
        self.is_written = False

    def write(self) -> None:
        """Write the pattern and read it back; raises DeviceFailed (also if it reads back wrong) or HostFailed."""
        _flush(self._target)
        with _direct(self._target) as descriptor:
            for offset, pattern in self._patterns.items():
                _write(descriptor, self._target.dut, offset, pattern)
        readable = self.survivors()
        if readable != len(self.offsets):
            raise _failed(self._target.dut, f"of {len(self.offsets)} blocks just written, {readable} can be read back")
        self.is_written = True

    def survivors(self) -> int:
        """Return how many blocks still contain the pattern or part of it; raises DeviceFailed or HostFailed."""
        with _direct(self._target) as descriptor:
            return count_survivors(descriptor, self._target.dut, self._patterns)


class FillProof:
    """Blocks of the range of a ``stimulus`` that overwrites it, read before it; afterwards each must differ."""

    def __init__(self, target: Target, stimulus: Stimulus, seed: int, step: str) -> None:
        self._target, self._step = target, step
        source = random.Random(seed)  # noqa: S311 - places, no secret
        first, block_bytes = stimulus.range_offset_bytes, stimulus.largest_block_bytes
        written_bytes = stimulus.range_bytes // block_bytes * block_bytes
        self._offsets = [first + offset for offset in sample_offsets(written_bytes, source)]
        self._before = self._read()

    def require_written(self) -> None:
        """Raise HostFailed if a block was not overwritten, DeviceFailed or HostFailed if one cannot be read."""
        unchanged = sum(map(eq, self._before, self._read()))
        if unchanged:
            reason = f"{unchanged} of {len(self._offsets)} blocks of the range were not overwritten"
            raise HostFailed(step=self._step, what=self._target.dut.path, reason=reason)

    def _read(self) -> list[bytes]:
        with _direct(self._target) as descriptor:
            return [_read(descriptor, self._target.dut, offset, self._step) for offset in self._offsets]


def sample_offsets(capacity_bytes: int, source: random.Random) -> tuple[int, ...]:
    """Return the pattern's byte offsets: the first and the last block, and a random one of each part between.

    The parts are of equal size.  Blocks at equal distances could all lie in the stripes that a partial purge clears.
    """
    blocks = capacity_bytes // _BLOCK_BYTES
    count = min(_SAMPLES, blocks)
    bounds = [blocks * index // max(count, 1) for index in range(count + 1)]
    chosen = [source.randrange(start, stop) for start, stop in pairwise(bounds)]
    if chosen:
        chosen[0], chosen[-1] = 0, blocks - 1
    return tuple(block * _BLOCK_BYTES for block in chosen)


def count_survivors(descriptor: int, dut: Dut, patterns: Mapping[int, bytes]) -> int:
    """Return in how many blocks, by byte offset, any 512-byte sector of their pattern is still there.

    One surviving sector is enough: a block that is half cleared has not been purged.
    """
    return sum(_survives(_read(descriptor, dut, offset), pattern) for offset, pattern in patterns.items())


def _survives(block: bytes, pattern: bytes) -> bool:
    starts = range(0, _BLOCK_BYTES, _SECTOR_BYTES)
    return any(block[start : start + _SECTOR_BYTES] == pattern[start : start + _SECTOR_BYTES] for start in starts)


@contextmanager
def _direct(target: Target) -> Iterator[int]:
    """Yield a second descriptor of the claimed target that bypasses the page cache (O_DIRECT)."""
    descriptor = os.open(f"/proc/self/fd/{target.descriptor}", os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _flush(target: Target) -> None:
    """Write out the host's page cache: the kernel does not discard what still has dirty pages."""
    try:
        os.fsync(target.descriptor)
    except OSError as error:
        raise _failed(target.dut, f"cannot flush the page cache: {error.strerror}", error.errno) from None


def _write(descriptor: int, dut: Dut, offset: int, pattern: bytes) -> None:
    buffer = mmap.mmap(-1, _BLOCK_BYTES)
    buffer[:] = pattern
    try:
        written = os.pwritev(descriptor, [buffer], offset)
    except OSError as error:
        raise _failed(dut, f"writing the pattern at byte {offset}: {error.strerror}", error.errno) from None
    if written != _BLOCK_BYTES:
        raise _failed(dut, f"writing the pattern at byte {offset}: {written} of {_BLOCK_BYTES} bytes")


def _read(descriptor: int, dut: Dut, offset: int, step: str = _PURGE) -> bytes:
    buffer = mmap.mmap(-1, _BLOCK_BYTES)
    try:
        os.preadv(descriptor, [buffer], offset)
    except OSError as error:
        raise _failed(dut, f"reading back at byte {offset}: {error.strerror}", error.errno, step) from None
    return bytes(buffer)


def _failed(dut: Dut, reason: str, number: int | None = None, step: str = _PURGE) -> DeviceFailed | HostFailed:
    error_class = HostFailed if blame(number or errno.EIO) == "host" else DeviceFailed
    return error_class(step=step, what=dut.path, reason=reason)
