"""Compare fio's answer with the counters of the kernel: those of the block layer, and those of fio's process."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from ...model.measurement import Transfers
from ...model.steps import Stimulus
from ...model.telemetry import TelemetrySample
from ...units import MB, exact_capacity
from ..device.identity import ROOT
from ..device.mounts import mount_of
from ..process.inherited import DESCRIPTORS
from ..process.program import Finished
from .job import AnswerRejected

#: The block layer may count this share of fio's bytes, and this many bytes, less than fio.
_UNCOUNTED_SHARE, _UNCOUNTED_BYTES = 0.02, 8 * MB
#: The block layer may merge this share of random I/Os, and this many.
_MERGED_SHARE, _MERGED_IOS = 0.1, 1000
#: fio's response times include the time in the block layer: in true answers on a loaded host, their sum was 1.09 to
#: 12.9 times the kernel's.  The kernel counts milliseconds, so its sum may be too large by this time for each
#: outstanding I/O.
_LEAST_OF_COUNTED, _COUNTED_SECONDS = 0.5, 0.01
#: File systems that start direct I/O in the process that requests it, and mount options with which they do not.
_DIRECT_FILE_SYSTEMS = {"ext2", "ext3", "ext4", "xfs"}
_INDIRECT_OPTIONS = {"data=journal", "dax", "dax=always"}
#: Older kernels let kernel threads start a part of the I/O of io_uring.
_COUNTS_IO_URING_SINCE = (5, 12)


def is_counted_by_process(path: str, release: str = "", root: Path = ROOT) -> bool:
    """Return whether the kernel counts all direct I/O to a target for the process that does it (/proc/PID/io).

    It does so for devices and for files on some file systems.  ``release`` is that of the kernel, by default of the
    running one.
    """
    if not counts_device_io(release or os.uname().release):
        return False
    try:
        if stat.S_ISBLK(Path(path).stat().st_mode):
            return True
        mount = mount_of(Path(path).resolve(), root)
    except OSError:
        return False
    return mount is not None and mount.kind in _DIRECT_FILE_SYSTEMS and _INDIRECT_OPTIONS.isdisjoint(mount.options)


def counts_device_io(release: str) -> bool:
    """Return whether a kernel of this ``release`` counts all direct I/O to devices for the process that does it."""
    version = re.match(r"(\d+)\.(\d+)", release)
    return version is not None and (int(version[1]), int(version[2])) >= _COUNTS_IO_URING_SINCE


def has_holes(path: str, descriptor: int | None = None) -> bool:
    """Return whether a file, open as ``descriptor`` if given, has blocks that were never written.

    The file system answers reads of them without the drive.  A device has none.
    """
    try:
        file = os.open(path if descriptor is None else f"{DESCRIPTORS}{descriptor}", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        status = os.fstat(file)
        return stat.S_ISREG(status.st_mode) and os.lseek(file, 0, os.SEEK_HOLE) < status.st_size
    except OSError:  # the file system does not report holes
        return False
    finally:
        os.close(file)


def require_process_bytes(
    stimulus: Stimulus,
    read: Transfers,
    write: Transfers,
    finished: Finished,
    path: str,
    *,
    had_holes: bool = False,
) -> None:
    """Check that fio's process transferred the bytes that fio reports, if the kernel counts them for it.

    The counts include the I/O in a ramp.  The page cache delays I/O, so a cached stimulus is not checked; nor are the
    reads of a file that had holes before.  Raises AnswerRejected.
    """
    if stimulus.cached:
        return
    for name, side, counted_bytes in (
        ("read", read, None if had_holes else finished.read_bytes),
        ("written", write, finished.written_bytes),
    ):
        if counted_bytes is None or not _is_uncounted(side.transferred_bytes, counted_bytes):
            continue
        reported, counted = exact_capacity(side.transferred_bytes), exact_capacity(counted_bytes)
        raise AnswerRejected(
            "host", f"fio reports {reported} {name}, but the kernel counted {counted} for its process on {path}"
        )


def require_counted(
    stimulus: Stimulus, read: Transfers, write: Transfers, telemetry: TelemetrySample, path: str
) -> None:
    """Compare fio's bytes, random I/Os and response times with the kernel's counters of the device.

    ``telemetry`` begins before fio's first I/O on ``path``, and ends after its last one.  The page cache delays I/O, so
    a cached stimulus is not checked.  Raises AnswerRejected.
    """
    block = telemetry.block
    if block is None or stimulus.cached:
        return
    for name, side, counted_bytes, counted_ios in (
        ("read", read, block.read_bytes, block.read_ios),
        ("written", write, block.write_bytes, block.write_ios),
    ):
        reported_bytes = side.transferred_bytes
        if _is_uncounted(reported_bytes, counted_bytes):
            reported, counted = f"{exact_capacity(reported_bytes)} {name}", exact_capacity(counted_bytes)
        elif _are_ios_separate(stimulus) and side.ios - counted_ios > max(_MERGED_IOS, _MERGED_SHARE * side.ios):
            reported, counted = f"{side.ios} I/Os {name}", str(counted_ios)
        else:
            continue
        raise AnswerRejected("host", f"fio reports {reported}, but the kernel counted {counted} on {path}")
    if stimulus.timed:
        _require_response_times(stimulus, read, write, telemetry, path)


def _require_response_times(
    stimulus: Stimulus, read: Transfers, write: Transfers, telemetry: TelemetrySample, path: str
) -> None:
    """Check that fio's response times add up to no less than the times of the same I/Os in the block layer.

    The block layer's sum includes I/Os in a ramp, the parts of I/Os that it splits, and I/Os of other programs.  If
    there are any of these, the sums are not compared.
    """
    block = telemetry.block
    ios = read.ios + write.ios
    if block is None or stimulus.ramp_seconds or block.discarded_bytes:
        return
    if block.read_ios + block.write_ios > ios + max(_MERGED_IOS, _MERGED_SHARE * ios):
        return
    reported_seconds = (read.ios * read.response_mean_ns + write.ios * write.response_mean_ns) / 1e9
    counted_seconds = block.queue * telemetry.seconds
    if reported_seconds < _LEAST_OF_COUNTED * counted_seconds - _COUNTED_SECONDS * stimulus.total_oio:
        reason = (
            f"fio's response times add up to {reported_seconds:.4g} s, but the kernel counted {counted_seconds:.4g} s "
            f"for the same I/Os on {path}"
        )
        raise AnswerRejected("host", reason, repeatable=True)


def _are_ios_separate(stimulus: Stimulus) -> bool:
    """Return whether the I/Os are random in so large a range that the block layer can hardly merge any of them.

    In a range of 100 blocks for each outstanding I/O, 2 % of the I/Os have an outstanding neighbour.
    """
    blocks = stimulus.range_bytes // stimulus.largest_block_bytes
    return stimulus.access == "RND" and not stimulus.skew and blocks >= 100 * stimulus.total_oio


def _is_uncounted(reported_bytes: int, counted_bytes: int) -> bool:
    """Return whether the kernel counted fewer bytes than fio reports, by more than the tolerance."""
    return reported_bytes - counted_bytes > max(_UNCOUNTED_BYTES, _UNCOUNTED_SHARE * reported_bytes)
