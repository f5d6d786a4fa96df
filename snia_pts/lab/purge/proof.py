"""Prove that a purge or a preconditioning wrote to the whole target, from sample blocks spread over its capacity.

A purge is proved by a pattern that the blocks contain before it and not after it; a preconditioning by blocks that all
have changed and that all differ from each other.
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
    """The pattern in the sample blocks of a claimed target, before and after a purge.

    ``offsets`` are the byte offsets of the blocks, ``is_written`` whether ``write`` has succeeded.  Each block has its
    own pattern, so that a counterfeit drive that maps several blocks to one place is detected.
    """

    def __init__(self, target: Target, seed: int) -> None:
        self._target = target
        source = random.Random(seed)  # noqa: S311 - a pattern is not a secret
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
    """The content of sample blocks before a ``stimulus`` that overwrites their range with random data.

    After it, each block must have changed, and differ from all others.  Equal blocks are not random data, and a drive
    that compresses or deduplicates would not store them.
    """

    def __init__(self, target: Target, stimulus: Stimulus, seed: int, step: str) -> None:
        self._target, self._step = target, step
        source = random.Random(seed)  # noqa: S311 - offsets are not a secret
        first, block_bytes = stimulus.range_offset_bytes, stimulus.largest_block_bytes
        written_bytes = stimulus.range_bytes // block_bytes * block_bytes
        self._offsets = [first + offset for offset in sample_offsets(written_bytes, source)]
        self._before = self._read()

    def require_written(self) -> None:
        """Raise HostFailed if a block was not overwritten, or not with random data.

        Raises DeviceFailed or HostFailed if a block cannot be read.
        """
        after = self._read()
        unchanged, equal = sum(map(eq, self._before, after)), len(after) - len(set(after))
        if unchanged or equal:
            finding = f"{unchanged} of {len(after)} blocks of the range were not overwritten"
            if not unchanged:
                finding = f"{equal} of {len(after)} blocks of the range are equal to another one, expected random data"
            raise HostFailed(step=self._step, what=self._target.dut.path, reason=finding)

    def _read(self) -> list[bytes]:
        with _direct(self._target) as descriptor:
            return [_read(descriptor, self._target.dut, offset, self._step) for offset in self._offsets]


def sample_offsets(capacity_bytes: int, source: random.Random) -> tuple[int, ...]:
    """Return byte offsets of sample blocks: the first and the last block, and a random one of each part between.

    The parts are of equal size.  The blocks are not at equal distances, because a partial purge could clear just those.
    """
    blocks = capacity_bytes // _BLOCK_BYTES
    count = min(_SAMPLES, blocks)
    bounds = [blocks * index // max(count, 1) for index in range(count + 1)]
    chosen = [source.randrange(start, stop) for start, stop in pairwise(bounds)]
    if chosen:
        chosen[0], chosen[-1] = 0, blocks - 1
    return tuple(block * _BLOCK_BYTES for block in chosen)


def count_survivors(descriptor: int, dut: Dut, patterns: Mapping[int, bytes]) -> int:
    """Return in how many blocks at least one 512-byte sector of the pattern survived; the keys are byte offsets.

    A block that is only partly cleared has not been purged.
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
    """Write out the host's page cache: the kernel does not discard blocks with dirty pages."""
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
