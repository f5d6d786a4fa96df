"""Purge methods, and the proof that a purge happened (PTS 2.0.2 section 3.2).

A tool's exit code proves nothing: there are devices that answer success and keep the data.  So a pattern is written
over blocks spread over the whole range before, and must be gone after.
"""

from __future__ import annotations

import errno
import mmap
import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ..dut import Dut
from ..errors import DeviceFailed, HostFailed, PurgeFailed, TargetUnfit
from ..measurement import Purged
from ..spec import Deviation
from . import process
from .fio import blame
from .safety import Target

_STANDARD = "ATA Security Erase or Sanitize, SCSI Format Unit or Sanitize, NVMe Format or Sanitize, or the vendor's own"
_CLAUSE = "PTS chapter 3, Purge"
_SAMPLES = 64
_BLOCK_BYTES = 4096
_TIMEOUT_SECONDS = 6 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A way to purge: for which targets it is on offer, and its command line."""

    name: str
    offered: Callable[[Dut], bool]
    command: Callable[[Dut], tuple[str, ...]]


#: Every purge method by its name, in order of preference.
METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        Method(
            name="blkdiscard",
            offered=lambda dut: dut.kind != "file" and dut.discard,
            # --force only skips the tool's own exclusive open: the suite holds the device already.
            command=lambda dut: ("blkdiscard", "--force", dut.path),
        ),
        Method(
            name="punch-hole",
            offered=lambda dut: dut.kind == "file",
            command=lambda dut: (
                "fallocate", "--punch-hole", "--offset", "0", "--length", str(dut.capacity_bytes), dut.path,
            ),
        ),
    )
}  # fmt: skip
NONE = "none"
AUTO = "auto"


def choose(dut: Dut, wanted: str) -> str:
    """Return the method for ``wanted`` (a name, ``auto`` or ``none``); raises TargetUnfit when it is not on offer,
    ToolMissing when its program is not there.
    """
    offers = [name for name, method in METHODS.items() if method.offered(dut)]
    chosen = offers[0] if wanted == AUTO and offers else wanted
    if chosen in offers:
        process.find(METHODS[chosen].command(dut)[0])
    if chosen == NONE or chosen in offers:
        return chosen
    raise TargetUnfit(
        path=dut.path,
        reason=f"purge method {wanted} is not on offer for it"
        if wanted != AUTO
        else "no purge method is on offer for it",
        hint=f"On offer: {', '.join([*offers, NONE])} (--purge none is a Deviation that the report states).",
    )


def deviation(method: str) -> Deviation:
    """Return how a method differs from those that the standard names."""
    actual = "not purged" if method == NONE else method
    return Deviation(what="purge", standard=_STANDARD, actual=actual, clause=_CLAUSE)


def purge(target: Target, method: str, seed: int, evidence: Path) -> Purged:
    """Purge a held target and prove it; ``evidence`` is the base name of the evidence files.

    Raises PurgeFailed when the method fails or the proof does, DeviceFailed or HostFailed when the proof cannot be
    read or written.
    """
    dut = target.dut
    started = datetime.now().astimezone().isoformat(timespec="milliseconds")
    if method == NONE:
        return Purged(
            method=NONE, samples=0, survivors=0, started=started, seconds=0.0, evidence="",
            deviations=(deviation(NONE),),
        )  # fmt: skip
    pattern = random.Random(seed).randbytes(_BLOCK_BYTES)  # noqa: S311 - a pattern, no secret
    with _direct(target) as descriptor:
        places = sample_offsets(dut.capacity_bytes)
        for offset in places:
            _write(descriptor, dut, offset, pattern)
        if count_survivors(descriptor, dut, places, pattern) != len(places):
            raise PurgeFailed(path=dut.path, method=method, reason="cannot be proven: the device lost what was written")
        finished = process.run(METHODS[method].command(dut), evidence=evidence, timeout_seconds=_TIMEOUT_SECONDS)
        if finished.exit_code or finished.timed_out:
            raise PurgeFailed(path=dut.path, method=method, reason=f"failed: {finished.complaint}")
        survivors = count_survivors(descriptor, dut, places, pattern)
    if survivors:
        reason = f"is a lie: {survivors} of {len(places)} blocks written before are still there, though it said success"
        raise PurgeFailed(path=dut.path, method=method, reason=reason)
    return Purged(
        method=method, samples=len(places), survivors=0, started=started, seconds=finished.seconds,
        evidence=evidence.name,
        deviations=(deviation(method),),
    )  # fmt: skip


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
    return any(found[start : start + 512] == pattern[start : start + 512] for start in range(0, _BLOCK_BYTES, 512))


@contextmanager
def _direct(target: Target) -> Iterator[int]:
    """A second descriptor of the very target that is held, past the page cache."""
    descriptor = os.open(f"/proc/self/fd/{target.descriptor}", os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


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
